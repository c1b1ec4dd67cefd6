"""Generation by a model: real HTTP, a real journal; what is not fit is set aside, whatever the model says."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.generation.generate import GenerationRun
from jrh_mlflow.generation.report import problem_kind
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.perturb.synthetic_ordinal import SyntheticOrdinal
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import criterion
from tests.generation.tools import CHECKER, PRICES, WRITER, Player, rows, run, validating
from tests.loopback import LoopbackServer, Reply
from tests.loopback_replies import fields_asked

KEY = "sk-planted-0123456789"
REWRITES = ["label_flip", "semantic_paraphrase", "verbosity_bias_long", "verbosity_bias_short"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def test_a_model_writes_checks_pass_and_everything_is_counted(store_uri: str) -> None:
    player = Player(rows(6), tests=REWRITES)
    with LoopbackServer(reply=player) as server:
        done = run(rows(6), server, store_uri, tests=REWRITES, prices=PRICES)
    assert done.suite.manifest["conditions"] == {"baseline": 6, **dict.fromkeys(REWRITES, 6)}
    n_texts = len(player.bodies["writer"])
    assert (len(player.bodies["compared"]), len(player.bodies["checker"])) == (n_texts, 6)
    assert done.metrics["calls/total"] == server.counts["requests"] == 2 * n_texts + 6
    assert done.metrics["tokens/input"] == server.counts["input_tokens"]
    assert done.metrics["tokens/output"] == server.counts["output_tokens"]
    expected = (10 * server.counts["input_tokens"] + 20 * server.counts["output_tokens"]) / 1_000_000
    assert done.metrics["cost/usd"] == pytest.approx(expected, abs=1e-4)
    flips = [item for item in done.suite.items if item.condition == "label_flip"]
    assert {item.meta["validator"] for item in flips} == {"pass", "fail"}
    assert all(item.meta["validator"] == item.expected for item in flips)
    assert all(item.meta["generator"] == WRITER and len(item.meta["prompt_sha256"]) == 64 for item in flips)
    data = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data
    assert data.params["generator.model"] == data.tags["jrh.generator"] == WRITER
    assert data.params["validator.model"] == CHECKER


SPOILED = [
    ("xkcd }}} ### 0x00 zzz", "length ratio"),
    ("I'm sorry, but I cannot help with that request, because it goes against my guidelines.", "length ratio"),
    ("ORIGINAL", "same text as the original"),
    ("False", "a single word"),
    (Reply(text=""), "empty_content"),
    (Reply(text="   \n "), "empty_content"),
    (Reply(choices=False), "empty_choices"),
    (Reply(refusal="No."), "refusal"),
    (Reply(text="The council of", finish_reason="length"), "truncated"),
    (Reply(text="The council of", finish_reason="content_filter"), "content_filter"),
]


@pytest.fixture(scope="module")
def spoiled(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> GenerationRun:
    """A generation in which every row gets an answer that is no rewrite."""
    dataset, journal = rows(len(SPOILED)), tmp_path_factory.mktemp("spoiled") / "journal.db"

    def reply(body: dict[str, Any]) -> str | Reply:
        number = next(n for n, row in enumerate(dataset) if row["response"] in str(body["messages"][-1]["content"]))
        answer = SPOILED[number][0]
        answer = dataset[number]["response"] if answer == "ORIGINAL" else answer
        return json.dumps({"text": answer}) if isinstance(answer, str) and fields_asked(body) == ["text"] else answer

    with pytest.MonkeyPatch.context() as patch, LoopbackServer(reply=reply) as server:
        patch.setenv("OPENAI_API_KEY", KEY)
        return run(dataset, server, store_uri, tests="semantic_paraphrase", journal=journal)


@pytest.mark.parametrize("number", range(len(SPOILED)), ids=[reason for _, reason in SPOILED])
def test_what_is_no_rewrite_is_set_aside_with_its_reason(number: int, spoiled: GenerationRun) -> None:
    (one,) = [one for one in spoiled.made.set_aside if one.source == f"r{number:02d}"]
    assert len(one.attempts) == 4
    for attempt in one.attempts:
        assert any(problem_kind(problem).startswith(SPOILED[number][1]) for problem in attempt.problems)


def test_what_is_no_rewrite_is_never_passed_on(spoiled: GenerationRun, store_uri: str) -> None:
    assert {item.condition for item in spoiled.suite.items} == {"baseline"}
    assert len(spoiled.made.set_aside) == len(SPOILED) == spoiled.metrics["generate/set_aside"]
    assert spoiled.metrics["generate/attempts"] == 4 * len(SPOILED)
    note = MlflowClient(tracking_uri=store_uri).get_run(spoiled.run_id).data.tags["mlflow.note.content"]
    assert "Nothing could be made beyond the baselines" in note


def test_what_a_generator_thinks_is_no_part_of_its_text() -> None:
    dataset, test = rows(2), ["semantic_paraphrase"]
    player = Player(dataset, tests=test)

    def thinks(body: dict[str, Any]) -> str | Reply:
        said = player(body)
        return said if "verdict" in fields_asked(body) else f"<think>Shorter? No.</think>\n\n{said}"

    with LoopbackServer(reply=thinks) as server:
        items = run(dataset, server, None, tests=test).suite.items
    assert len(items) == 4
    assert not any("think" in str(item.response) for item in items)


def test_the_word_false_is_no_response_of_any_level() -> None:
    dataset = rows(2, levels=("1", "3"))
    player = Player(dataset, tests="synthetic_ordinal", write=lambda *_: "False", scale=(1, 3))
    with LoopbackServer(reply=player) as server:
        done = run(dataset, server, None, tests="synthetic_ordinal", scale=(1, 3))
    assert len(done.suite) == 2
    assert player.bodies["checker"] == []


def test_the_ramp_is_on_the_wire_in_exact_steps_to_the_maximum() -> None:
    player = Player(rows(1), tests="semantic_paraphrase", write=lambda *_: "False")
    with LoopbackServer(reply=player) as server:
        generator = Generator(WRITER, api_base=server.url, temperature=0.5, max_temperature=1.1, attempts=4, seed=3)
        run(rows(1), server, None, tests="semantic_paraphrase", generator=generator)
    assert [body["temperature"] for body in player.bodies["writer"]] == [0.5, 0.7, 0.9, 1.1]
    assert {(body["seed"], body["max_tokens"]) for body in player.bodies["writer"]} == {(3, 2048)}
    assert {len(body["messages"]) for body in player.bodies["writer"]} == {1}


def test_a_miss_goes_back_to_the_ramp_and_the_item_keeps_its_temperature() -> None:
    player = Player(rows(1), tests="semantic_paraphrase", write=lambda _, heat: None if heat > 1 else "False")
    with LoopbackServer(reply=player) as server:
        done = run(rows(1), server, None, tests="semantic_paraphrase")
    item = done.suite.items[1]
    assert (item.meta["attempts"], item.meta["temperature"]) == (3, 1.1)
    assert done.metrics["generate/set_aside"] == 0


def test_flips_are_confirmed_with_the_judges_own_question() -> None:
    player = Player(rows(2), tests="label_flip")
    with LoopbackServer(reply=player) as server:
        done = run(rows(2), server, None, tests="label_flip")
        judge = PromptedJudge(CHECKER, api_base=server.url, max_tokens=64)
    flips = [item for item in done.suite.items if item.condition == "label_flip"]
    asked = [body["messages"] for body in player.bodies["checker"]]
    for item in flips:
        shown = presentation_of(item, "", criterion("allowed"))
        request = judge.request(Call(item=item, order="", replicate=0, presentation=shown))
        assert [dict(message) for message in request.messages] in asked
    assert len(asked) == 2


def test_the_label_never_comes_from_the_validator() -> None:
    """A validator that contradicts every flip gets them set aside; it changes no label."""
    other = {"pass": "fail", "fail": "pass"}
    player = Player(rows(4), tests=["label_flip", "semantic_paraphrase"], answer=lambda expected: other[expected])
    with LoopbackServer(reply=player) as server:
        done = run(rows(4), server, None, tests=["label_flip", "semantic_paraphrase"])
    assert done.suite.manifest["conditions"] == {"baseline": 4, "semantic_paraphrase": 4}
    assert {item.expected == row["label"] for item, row in zip(done.suite.items[::2], rows(4), strict=True)} == {True}
    assert done.metrics["generate/validator_rejected"] == 16
    assert all("validator answers" in one.reason for one in done.made.set_aside)


@pytest.mark.parametrize("answer", [Reply(text="It is hard to say."), Reply(refusal="No."), Reply(choices=False)])
def test_a_validator_without_an_answer_is_never_a_pass(answer: Reply) -> None:
    player = Player(rows(1), tests="label_flip", answer=lambda expected: answer)
    with LoopbackServer(reply=player) as server:
        done = run(rows(1), server, None, tests="label_flip")
    assert len(done.suite) == 1
    assert "validator gave no answer" in done.made.set_aside[0].reason
    assert done.metrics["generate/validator_rejected"] == 0


def test_similarity_is_checked_before_a_validation_is_paid() -> None:
    dataset = rows(1, levels=("1",))
    echo = f"{dataset[0]['response']} It is."
    player = Player(dataset, tests="synthetic_ordinal", write=lambda *_: echo, scale=(1, 3))
    with LoopbackServer(reply=player) as server:
        done = run(dataset, server, None, tests="synthetic_ordinal", scale=(1, 3))
    assert len(done.made.set_aside) == 3
    assert {problem_kind(one.attempts[-1].problems[0]) for one in done.made.set_aside} == {"similarity"}
    assert player.bodies["checker"] == []


def test_items_of_one_bucket_differ_and_buckets_run_side_by_side() -> None:
    dataset, tests = rows(4, levels=("1", "2")), [SyntheticOrdinal(per_bucket=2)]
    player = Player(dataset, tests=tests, scale=(1, 3))
    with LoopbackServer(reply=player, latency=0.05) as server:
        done = run(dataset, server, None, tests=tests, scale=(1, 3), attempts=6)
    made = [item for item in done.suite.items if item.condition == "synthetic_ordinal"]
    assert server.counts["max_in_flight"] > 4
    assert {item.expected for item in made} == {"1", "2", "3"}
    buckets: dict[tuple[str, str | None], list[str | None]] = {}
    for item in made:
        buckets.setdefault((item.task, item.expected), []).append(item.response)
    assert any(len(texts) == 2 for texts in buckets.values())
    assert all(len(set(texts)) == len(texts) for texts in buckets.values())


def test_tests_do_not_wait_for_one_another() -> None:
    player = Player(rows(2), tests=REWRITES)
    with LoopbackServer(reply=player, latency=0.1) as server:
        run(rows(2), server, None, tests=REWRITES)
    assert server.counts["max_in_flight"] >= 8


def test_concurrency_is_kept_for_each_model() -> None:
    player = Player(rows(8), tests="semantic_paraphrase")
    with LoopbackServer(reply=player, latency=0.1) as server:
        run(rows(8), server, None, tests="semantic_paraphrase", concurrency=3, confirm=False)
    assert server.counts["max_in_flight"] == 3


def test_the_generators_own_model_validates_when_nobody_is_named_and_says_so(
    store_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    player = Player(rows(2), tests="label_flip")
    with LoopbackServer(reply=player) as server, caplog.at_level(logging.WARNING, "jrh_mlflow"):
        done = run(rows(2), server, store_uri, tests="label_flip", validator=None)
    assert len(player.bodies["checker"]) == 2
    assert {body["model"] for body in player.bodies["checker"]} == {"writer"}
    assert [text for text in caplog.messages if "confirms its own texts" in text] == list(done.made.notes)


def test_a_callable_may_validate_and_none_may_too() -> None:
    player = Player(rows(2), tests="label_flip")
    asked: list[jrh.Presentation] = []

    def strict(presentation: jrh.Presentation) -> str:
        asked.append(presentation)
        return "pass"

    with LoopbackServer(reply=player) as server:
        done = run(rows(2), server, None, tests="label_flip", validator=validating(strict))
        unasked = run(rows(2), server, None, tests="label_flip", validator="none")
    assert [item.expected for item in done.suite.items if item.condition == "label_flip"] == ["pass"]
    assert len(asked) == 5
    assert asked[0].answers == ("fail", "pass")
    assert len(unasked.suite) == 4
    assert {item.meta["validator"] for item in unasked.suite.items if item.condition != "baseline"} == {"not asked"}


@pytest.mark.slow
def test_a_suite_made_by_a_model_is_evaluated_by_a_judge(store_uri: str) -> None:
    player = Player(rows(2), tests=["label_flip", "format_invariance_1"])

    def everything(body: dict[str, Any]) -> str | Reply:
        if body["model"] == "judge":
            return json.dumps({"reason": "", "verdict": "pass"})
        return player(body)

    with LoopbackServer(reply=everything) as server:
        done = run(rows(2), server, store_uri, tests=["label_flip", "format_invariance_1"])
        judge = PromptedJudge("openai/judge", api_base=server.url)
        found = jrh.evaluate(judge, done.suite, tracking_uri=store_uri, experiment="tests", traces="none")
    assert found.metrics["calls/verdict"] == len(done.suite) == 6
    assert found.metrics["label_flip/accuracy/rate"] == 0.5


def test_an_answer_that_is_asked_for_twice_in_a_run_is_paid_and_counted_once() -> None:
    # A writer that says the same at every temperature has the validator asked the same question again and again.
    same = (
        "The council of Leeds refused the bicycle lanes in 2021 although residents asked for safer streets. Few people "
        "supported the plan, and traffic accidents rose by 14 percent within a year. Shops lost. Remark 100."
    )
    dataset, other = rows(1), {"fail": "pass", "pass": "fail"}
    player = Player(dataset, tests="label_flip", write=lambda *_: same, answer=lambda expected: other[expected])
    with LoopbackServer(reply=player) as server:
        done = run(dataset, server, None, tests="label_flip", prices=PRICES)
        billed = server.bill_micro(10.0, 20.0)
    assert done.made.usage.cached > 0
    assert round((done.made.usage.cost_usd or 0.0) * 1e6) == pytest.approx(billed, abs=done.made.usage.calls)
