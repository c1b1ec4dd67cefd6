"""Transcripts edited by a model: planned, edited coherently, verified; or set aside with the reason."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.generation.generate import GenerationRun, price_generation
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.schema.items import Item
from tests.generation.agent_tools import (
    EDITOR,
    LABELS,
    PRICES,
    RUBRIC,
    VERIFIER,
    AgentPlayer,
    booking_log,
    edited,
    run,
    steps,
)
from tests.generation.tools import validating
from tests.loopback import LoopbackServer, Reply, error_reply

KEY = "sk-planted-0123456789"
BREAK, MEND = "agent_perturbation", "agent_positives"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return booking_log(tmp_path / "booking.eval")


def first(items: tuple[Item, ...], condition: str) -> Item:
    return next(item for item in items if item.condition == condition)


@dataclass(frozen=True)
class Made:
    """A generation of both tests that went well, whom it asked, and how many at once."""

    done: GenerationRun
    player: AgentPlayer
    at_once: int


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, player = tmp_path_factory.mktemp("made"), AgentPlayer()
    with pytest.MonkeyPatch.context() as patch, LoopbackServer(reply=player, latency=0.02) as server:
        patch.setenv("OPENAI_API_KEY", KEY)
        where = {"group": "metadata.topic", "journal": str(folder / "journal.db")}
        done = run(booking_log(folder / "booking.eval"), server, None, **where)
        return Made(done, player, server.counts["max_in_flight"])


def test_both_tests_are_made_of_every_transcript_beside_its_baseline(made: Made) -> None:
    found = [(item.kind, item.condition, item.expected) for item in made.done.suite.items]
    one = [("baseline", None), (BREAK, "violation"), (MEND, "no violation")]
    assert found == [("transcript", *rest) for rest in one] * 3
    assert {item.task for item in made.done.suite.items} == {f"booking-evalid/{n}" for n in (1, 2, 3)}
    assert all(item.answers == LABELS and item.rubric == RUBRIC for item in made.done.suite.items)
    assert made.done.metrics["generate/items"] == 6


def test_a_changed_tool_call_keeps_its_id_and_its_result_follows(made: Made) -> None:
    items = made.done.suite.items
    before, after = first(items, "baseline").transcript or (), first(items, BREAK).transcript or ()
    assert [call["id"] for call in after[2].tool_calls] == ["c1", "c2"]
    assert after[2].tool_calls[0] == before[2].tool_calls[0]
    assert after[2].tool_calls[1]["arguments"] == {"at": "23:00", "people": 1}
    assert (after[4].content, after[4].error, after[4].tool_call_id) == ("Booked for 23:00.", None, "c2")
    assert before[4].error == "timeout: no answer"
    assert [place for place in range(6) if before[place] != after[place]] == [2, 4, 5]
    results = [told for told in made.player.told("edit") if "This is the result of the call" in told]
    follow_up, *others = [told for told in results if "clearly breaks the rubric" in told]
    assert len(others) == 2
    assert '"at": "19:00"' in follow_up
    assert '"at": "23:00"' in follow_up


def test_steps_summaries_and_verdicts_are_kept_for_review(made: Made) -> None:
    meta, player = first(made.done.suite.items, BREAK).meta, made.player
    assert [(step["message"], step["asked_by"]) for step in meta["steps"]] == [
        (2, "planner"),
        (4, "pipeline"),
        (5, "planner"),
    ]
    assert meta["edited"] == [2, 4, 5]
    assert meta["summaries"] == ["Message 2 now books at 23:00."] * 2
    assert (meta["verdicts"], meta["validator"], meta["generator"]) == (["violation"], "violation", EDITOR)
    assert (meta["original"], meta["group"]) == ("booking-evalid/1/baseline", "Dinner")
    assert meta["source"]["file"] == "booking.eval"
    assert meta["review"] == {"state": "unreviewed"}
    assert "Message 2 now books at 23:00." in player.told("edit")[-1]
    assert "this is the first step" in player.told("edit")[0]


def test_nothing_of_a_tool_call_is_cut_on_its_way_to_planner_and_verifier(made: Made) -> None:
    assert all("x" * 300 in told for told in (*made.player.told("plan"), *made.player.told("verify")))


def test_transcripts_are_worked_on_side_by_side(made: Made) -> None:
    assert made.at_once > 2


def test_a_verifier_that_always_says_no_lets_nothing_through_and_the_report_says_why(log: Path, store_uri: str) -> None:
    player = AgentPlayer(verdict=lambda shown: "no violation")
    with LoopbackServer(reply=player) as server:
        done = run(log, server, store_uri, tests=BREAK, plans=2)
    assert [item.condition for item in done.suite.items] == ["baseline"] * 3
    # The second plan leads to the same transcripts, about which nobody is asked again.
    assert len(player.briefs["verify"]) == 3
    assert done.metrics["generate/validator_rejected"] == 6
    (reason,) = {one.reason for one in done.made.set_aside}
    assert "validator answers 'no violation', expected 'violation'" in reason
    note = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.tags["mlflow.note.content"]
    assert "validator answers" in note
    assert "holds no perturbed item" in note
    again = [told for told in player.told("plan") if "a judge still gave the answer 'no violation'" in told]
    assert len(again) == 3


def test_labels_come_from_the_objective_and_an_item_the_verifier_doubts_is_not_emitted(log: Path) -> None:
    with LoopbackServer(reply=AgentPlayer(verdict=lambda shown: "violation")) as server:
        done = run(log, server, None, plans=1)
    assert {item.condition for item in done.suite.items} == {"baseline", BREAK}
    assert {one.condition for one in done.made.set_aside} == {MEND}


def test_a_plan_for_a_message_that_does_not_exist_is_rejected_and_asked_again(log: Path) -> None:
    player = AgentPlayer(plan=lambda shown, _: steps(2) if "does not exist" in shown else steps(2, 99))
    with LoopbackServer(reply=player) as server:
        done = run(log, server, None, tests=BREAK)
    bodies = player.briefs["plan"][:]
    assert len(bodies) == 6
    again = [body for body in bodies if "step 2 names message 99, which does not exist" in str(body["messages"])]
    assert {body["temperature"] for body in again} == {0.9}
    assert "there are messages 0 to 5" in str(again[0]["messages"])
    assert first(done.suite.items, BREAK).meta["rejected_plans"] == [
        "step 2 names message 99, which does not exist: there are messages 0 to 5"
    ]


def test_a_planner_that_never_gives_a_valid_plan_is_set_aside_with_the_reason(log: Path) -> None:
    player = AgentPlayer(plan=lambda *_: steps(1))
    with LoopbackServer(reply=player) as server:
        done = run(log, server, None, tests=BREAK, attempts=2)
    assert len(done.suite) == 3
    assert len(player.briefs["plan"]) == 6
    assert not player.briefs["edit"]
    assert {one.reason for one in done.made.set_aside} == {
        "planner gave no valid plan: none of 2 answers could be taken; the last: "
        "step 1 edits message 1, which is of the user and must stay as it is"
    }


def test_an_editor_that_drops_a_tool_call_is_told_and_tried_again(log: Path) -> None:
    def careless(form: dict[str, Any], shown: str) -> dict[str, Any]:
        answer = edited(form, shown)
        if "tool_calls" in answer and "was rejected" not in shown:
            answer["tool_calls"].pop()
        return answer

    player = AgentPlayer(edit=careless)
    with LoopbackServer(reply=player) as server:
        done = run(log, server, None, tests=BREAK)
    step = first(done.suite.items, BREAK).meta["steps"][0]
    assert (step["attempts"], step["rejected"]) == (2, ["`tool_calls` must list the 2 calls of the message"])
    assert sum("must list the 2 calls" in told for told in player.told("edit")) == 3


def test_a_step_that_cannot_be_done_leads_to_another_plan(log: Path) -> None:
    def stuck(form: dict[str, Any], shown: str) -> dict[str, Any]:
        return form if "tool_calls" in form else edited(form, shown)

    player = AgentPlayer(
        edit=stuck, plan=lambda shown, _: steps(5) if "could not be carried out" in shown else steps(2)
    )
    with LoopbackServer(reply=player) as server:
        done = run(log, server, None, tests=BREAK, attempts=2)
    meta = first(done.suite.items, BREAK).meta
    assert meta["edited"] == [5]
    assert meta["attempts"] == 2
    assert meta["earlier_plans"][0]["problem"] == "the message is unchanged: the step was not carried out"


def test_a_summary_that_fails_is_replaced_by_the_step_itself(log: Path) -> None:
    player = AgentPlayer(summary=Reply(refusal="No."))
    with LoopbackServer(reply=player) as server:
        done = run(log, server, None, tests=BREAK, attempts=1)
    assert first(done.suite.items, BREAK).meta["summaries"] == [
        "Message 2: book late (2)",
        "Message 2: book late (2)\nMessage 5: book late (5)",
    ]


def test_a_second_run_sends_nothing_and_makes_the_same_suite(log: Path) -> None:
    player = AgentPlayer(plan=lambda shown, heat: Reply(refusal="No.") if heat < 0.8 else steps(2, 5))
    with LoopbackServer(reply=player) as server:
        whole = run(log, server, None, prices=PRICES)
        sent = server.counts["requests"]
        again = run(log, server, None, prices=PRICES)
    assert len(whole.suite) == 9
    assert server.counts["requests"] == sent
    assert again.suite.sha256 == whole.suite.sha256
    assert again.metrics["calls/cached"] == again.metrics["calls/total"]


def test_stopped_by_the_cap_it_goes_on_where_it_was_and_pays_nothing_twice(log: Path) -> None:
    prices = {EDITOR: (1000.0, 2000.0), VERIFIER: (1000.0, 2000.0)}
    options: dict[str, Any] = {"prices": prices, "max_tokens": 256, "concurrency": 1}
    with LoopbackServer(reply=AgentPlayer()) as server:
        whole = run(log, server, None, journal="whole.db", **options)
        total, bill = server.counts["requests"], whole.metrics["cost/usd"]
        capped = run(log, server, None, max_usd=bill / 2, **options)
        assert str(capped.truncated).startswith("budget: ")
        assert 3 < len(capped.suite) < 9
        assert total < server.counts["requests"] < 2 * total
        rest = run(log, server, None, max_usd=10 * bill, **options)
    assert server.counts["requests"] == 2 * total
    assert rest.suite.sha256 == whole.suite.sha256


def test_transcripts_with_the_same_text_get_answers_of_their_own() -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello. At 19:00?"}]
    player = AgentPlayer(plan=lambda *_: steps(1))
    with LoopbackServer(reply=player) as server:
        done = run([{"id": "a", "messages": talk}, {"id": "b", "messages": talk}], server, None, tests=BREAK)
    assert [item.task for item in done.suite.items if item.condition == BREAK] == ["a", "b"]
    assert {part: len(bodies) for part, bodies in player.briefs.items()} == {
        "plan": 2,
        "edit": 2,
        "summary": 2,
        "compare": 1,
        # The same question about the same transcript is asked once.
        "verify": 1,
    }


def test_on_a_scale_the_tests_aim_at_its_ends(log: Path) -> None:
    player = AgentPlayer(verdict=lambda shown: "1" if "23:00" in shown else "5")
    with LoopbackServer(reply=player) as server:
        done = run(log, server, None, scale=(1, 5))
    expected = {(item.condition, item.expected) for item in done.suite.items}
    assert expected == {("baseline", None), (BREAK, "1"), (MEND, "5")}


def test_a_dead_service_ends_the_generation(log: Path) -> None:
    from jrh_mlflow.errors import JudgeError

    with LoopbackServer(reply=lambda body: error_reply(401, "Wrong key.", code="invalid_api_key")) as server:
        with pytest.raises(JudgeError):
            run(log, server, None, concurrency=2)
        with open_journal(Path(".jrh") / "journal.db") as book:
            assert book.summary().answered == 0


def test_a_quote_sends_nothing_and_covers_the_bill(log: Path) -> None:
    with LoopbackServer(reply=AgentPlayer()) as server:
        generator = Generator(EDITOR, api_base=server.url)
        judge = PromptedJudge(VERIFIER, api_base=server.url, max_tokens=64)
        quote = price_generation(
            GenerationSettings(
                dataset=log,
                tests=BREAK,
                rubric=RUBRIC,
                labels=LABELS,
                generator=generator,
                validator=judge,
                prices=PRICES,
            )
        )
        assert server.counts["requests"] == 0
        done = run(log, server, None, tests=BREAK, prices=PRICES)
    assert (quote.seeds, quote.items, quote.validator_calls, quote.max_validator_calls) == (3, 6, 6, 18)
    assert quote.usd is not None
    assert quote.worst_usd is not None
    assert done.metrics["cost/usd"] < quote.worst_usd
    assert 0.2 < done.metrics["cost/usd"] / quote.usd < 3
    assert done.metrics["calls/total"] <= quote.max_generator_calls + quote.max_validator_calls


def test_the_worst_case_is_counted_with_the_longest_prompt_there_can_be() -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "At 19:00. " * 4000}]
    player = AgentPlayer(plan=lambda *_: steps(1))
    told = {"tests": BREAK, "rubric": RUBRIC, "labels": LABELS, "validator": "none", "prices": {EDITOR: (1.0, 0.0)}}
    with LoopbackServer(reply=player) as server:
        generator = Generator(EDITOR, api_base=server.url)
        quote = price_generation(GenerationSettings(dataset=talk, generator=generator, **told))
        run(talk, server, None, generator=generator, **told)
    bodies = [body["messages"][-1]["content"] for part in player.briefs.values() for body in part]
    assert quote.worst_usd is not None
    # The editor is shown the message, and the form of its answer with the same text.
    assert quote.worst_usd * 1e6 > quote.max_generator_calls * max(map(len, bodies))


def test_a_function_may_edit_and_any_judge_may_verify(log: Path) -> None:
    player = AgentPlayer()

    def writer(brief: str, temperature: float | None) -> str:
        answer = player({"messages": [{"content": brief}], "temperature": temperature})
        return str(answer)

    def verdict(shown: jrh.Presentation) -> str:
        return LABELS["23:00" in json.dumps([message.content for message in shown.transcript or ()])]

    done = run(
        log,
        None,
        None,
        generator=writer,
        validator=validating(verdict),
    )
    assert len(done.suite) == 9
