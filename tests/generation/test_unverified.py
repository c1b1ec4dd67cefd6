"""`pass_required=False`: what no validator confirms is kept and says so; what it confirms is as it always was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.generation.generate import GenerationRun
from jrh_mlflow.generation.pipeline import NOT_ASKED
from jrh_mlflow.schema.items import Item
from tests import scripted_writer
from tests.generation import agent_tools, tools
from tests.generation.agent_tools import AgentPlayer, booking_log
from tests.generation.tools import Player, rows, validating
from tests.loopback import LoopbackServer

BREAK = "agent_perturbation"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return booking_log(tmp_path / "booking.eval")


def tags(done: GenerationRun) -> dict[str, object]:
    """Item to its label source; items without the tag are left out."""
    return {item.id: item.meta["label_source"] for item in done.suite.items if "label_source" in item.meta}


def made(done: GenerationRun, condition: str = BREAK) -> list[Item]:
    return [item for item in done.suite.items if item.condition == condition]


def edits(*, verdict: Callable[[str], str], **parts: Any) -> AgentPlayer:
    """Plans differ from plan to plan: the second one edits another message."""
    return AgentPlayer(
        plan=lambda shown, _: agent_tools.steps(5) if "An earlier plan" in shown else agent_tools.steps(2, 5),
        verdict=verdict,
        **parts,
    )


def test_of_transcripts_that_the_verifier_never_confirms_the_last_edited_one_is_kept_and_tagged(log: Path) -> None:
    with LoopbackServer(reply=edits(verdict=lambda shown: "no violation")) as server:
        strict = agent_tools.run(log, server, None, tests=BREAK, plans=2)
        n_asked = server.counts["requests"]
        done = agent_tools.run(log, server, None, tests=BREAK, plans=2, pass_required=False)
        # The same questions: whether an item is kept is no part of them.
        assert server.counts["requests"] == n_asked > 0
    assert (len(made(strict)), len(strict.made.set_aside), tags(strict)) == (0, 3, {})
    assert (len(made(done)), len(done.made.set_aside)) == (3, 0)
    assert tags(done) == {item.id: "unverified" for item in made(done)}
    for item in made(done):
        assert (item.expected, item.meta["validator"]) == ("violation", "no violation")
        # That of the second plan, which edits message 5 alone.
        assert (item.meta["edited"], item.meta["attempts"], len(item.meta["earlier_plans"])) == ([5], 2, 1)
    assert done.made.tests[BREAK].to_dict() == {
        "items": 3,
        "set_aside": 0,
        "attempts": 6,
        "validator_rejected": 6,
        "verified": 0,
        "unverified": 3,
    }
    assert {name: done.metrics[f"generate/{name}"] for name in ("verified", "unverified")} == {
        "verified": 0,
        "unverified": 3,
    }


def test_confirmed_transcripts_carry_no_tag_and_are_the_same_as_where_a_pass_is_required(log: Path) -> None:
    with LoopbackServer(reply=AgentPlayer()) as server:
        strict = agent_tools.run(log, server, None)
        done = agent_tools.run(log, server, None, pass_required=False)
    assert done.suite.sha256 == strict.suite.sha256
    assert tags(done) == {}
    assert [(one.verified, one.unverified) for one in done.made.tests.values()] == [(3, 0), (3, 0)]
    assert "pass_required" not in strict.suite.origin
    assert done.suite.origin["pass_required"] is False
    assert not {"verified", "unverified"} & set().union(*strict.suite.origin["tests"].values())
    assert "generate/unverified" not in strict.metrics


def test_when_a_later_plan_cannot_be_had_the_last_edited_transcript_is_kept(log: Path) -> None:
    def plan(shown: str, _: float) -> str:
        return "no plan" if "An earlier plan" in shown else agent_tools.steps(2, 5)

    player = AgentPlayer(plan=plan, verdict=lambda shown: "no violation")
    with LoopbackServer(reply=player) as server:
        done = agent_tools.run(log, server, None, tests=BREAK, plans=3, pass_required=False)
    assert [item.meta["edited"] for item in made(done)] == [[2, 4, 5]] * 3
    assert set(tags(done).values()) == {"unverified"}


def test_what_could_not_be_edited_is_still_set_aside(log: Path) -> None:
    with LoopbackServer(reply=AgentPlayer(plan=lambda *_: "no plan")) as server:
        done = agent_tools.run(log, server, None, tests=BREAK, pass_required=False)
    assert (len(made(done)), len(done.made.set_aside)) == (0, 3)


def test_a_judge_is_read_on_them_apart_and_never_as_accuracy(log: Path, store_uri: str) -> None:
    verdicts = iter(["no violation", "violation", "violation"])
    done = agent_tools.run(
        log,
        None,
        None,
        tests=BREAK,
        validator=validating(lambda shown: next(verdicts)),
        pass_required=False,
        concurrency=1,
        plans=1,
    )
    assert len(tags(done)) == 1

    def finds_all(shown: jrh.Presentation) -> str:
        return "violation"

    read = jrh.evaluate(
        finds_all, done.suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none"
    ).metrics
    assert (read[f"{BREAK}/accuracy/rate"], read[f"{BREAK}/accuracy/n"]) == (1.0, 2)
    assert (read[f"{BREAK}/agreement_unverified/rate"], read[f"{BREAK}/agreement_unverified/n"]) == (1.0, 1)


@pytest.mark.parametrize("by_model", [True, False])
def test_without_a_verifier_every_item_it_would_confirm_is_tagged(log: Path, by_model: bool) -> None:
    with LoopbackServer(reply=AgentPlayer()) as server:
        asked = server if by_model else None
        done = agent_tools.run(log, asked, None, tests=BREAK, validator="none", pass_required=False)
        strict = agent_tools.run(log, asked, None, tests=BREAK, validator="none")
    assert tags(done) == {item.id: "unverified" for item in made(done)}
    assert [item.meta["validator"] for item in made(done)] == [NOT_ASKED] * 3
    assert tags(strict) == {}
    assert any("no accuracy counts them" in note for note in done.made.notes)


def test_flips_and_levels_are_tagged_where_the_validator_disagrees_and_other_tests_never() -> None:
    levels = ("1", "2", "3")
    given, reading = rows(4, levels=levels), {"scale": (1, 3)}
    names = ["label_flip", "synthetic_ordinal", "semantic_paraphrase", "typos"]
    player = Player(given, tests=names, answer=lambda expected: "1", **reading)
    with LoopbackServer(reply=player) as server:
        done = tools.run(given, server, None, tests=names, pass_required=False, **reading)
    items = [item for item in done.suite.items if item.condition in ("label_flip", "synthetic_ordinal")]
    assert {item.id for item in items if item.expected != "1"} == set(tags(done))
    assert any(item.expected == "1" for item in items)
    counts = done.made.tests
    assert counts["label_flip"].unverified == sum(
        item.condition == "label_flip" for item in items if item.id in tags(done)
    )
    assert (counts["semantic_paraphrase"].unverified, counts["typos"].verified) == (0, None)
    assert "no accuracy counts them" in (markdown := " ".join(done.made.notes)), markdown


def test_from_the_command_line_the_table_counts_them_and_the_review_page_is_told(
    log: Path, store_uri: str, tmp_path: Path
) -> None:
    recipe = {
        "dataset": str(log),
        "tests": BREAK,
        "rubric": agent_tools.RUBRIC,
        "labels": list(agent_tools.LABELS),
        "generator": {"callable": f"{scripted_writer.__file__}:write"},
        "tracking_uri": store_uri,
        "pass_required": False,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    asked = ["generate", str(tmp_path / "recipe.yaml"), "--allow-code", "-o", str(tmp_path / "s")]
    done = CliRunner().invoke(group, asked)
    assert done.exit_code == 0, (done.output, done.exception)
    header, row = [line.split() for line in done.output.splitlines() if line.startswith(("test", BREAK))]
    assert dict(zip(header, row, strict=False))["test"] == BREAK
    assert (header[-2:], row[-2:]) == (["verified", "unverified"], ["0", "3"])
    suite = jrh.load_suite(str(tmp_path / "s"))
    assert sum(item.meta.get("label_source") == "unverified" for item in suite.items) == 3
    assert json.loads((tmp_path / "s" / "manifest.json").read_text())["origin"]["pass_required"] is False
