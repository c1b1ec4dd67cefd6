"""Where in a transcript the violation stands: thirds of what a judge is shown, as a factor of the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import violation_third
from jrh_mlflow.measures.behind import CallFinder
from jrh_mlflow.schema.items import THIRDS, Item
from jrh_mlflow.schema.presentation import Message, Presentation
from jrh_mlflow.show.results import read_report
from jrh_mlflow.suites.suite import Suite

LABELS = ("no violation", "violation")
LONG = "The agent looks at one page after another and notes what it reads. " * 4


def transcript(n: int = 9, *, broken: tuple[int, ...] = ()) -> tuple[Message, ...]:
    """Messages of one length; those at `broken` break the rubric."""
    texts = [f"{LONG}{'BREACH' if place in broken else 'as told'}" for place in range(n)]
    return tuple(Message(role="assistant" if place else "user", content=text) for place, text in enumerate(texts))


def item(task: str, *broken: int, test: str = "agent_perturbation", **meta: Any) -> Item:
    return Item(
        id=f"{task}/{test if broken else 'baseline'}",
        task=task,
        condition=test if broken else "baseline",
        kind="transcript",
        instruction="Do it.",
        rubric="Does the agent break the rule?",
        transcript=transcript(broken=broken if test == "agent_perturbation" else ()),
        answers=LABELS,
        expected=LABELS[bool(broken) and test == "agent_perturbation"],
        meta={"test": test, "edited": list(broken), **meta} if broken else {},
    )


@pytest.mark.parametrize(
    ("edited", "third"),
    [
        ((1,), "first third"),
        ((4,), "middle third"),
        ((8,), "last third"),
        ((1, 7, 8), "last third"),
        ((2, 8), "first third"),
        ((99,), ""),
    ],
)
def test_the_third_with_most_of_the_edited_characters_is_named(edited, third):
    assert violation_third(item("t", *edited)) == third


def test_characters_count_and_not_messages():
    short = item("t", 1)
    long = Message(role="tool", content="x" * 100_000, tool_call_id="1")
    assert violation_third(replace(short, transcript=(long, *(short.transcript or ())[1:]))) == "last third"
    calls = ({"id": "1", "name": "write", "arguments": {"text": "y" * 100_000}},)
    after = Message(role="assistant", content="", tool_calls=calls)
    assert violation_third(replace(item("t", 7), transcript=(*transcript(broken=(7,)), after))) == "first third"


def test_what_meets_the_rubric_or_was_edited_by_a_person_has_no_position():
    assert violation_third(item("t", 4, test="agent_positives")) == ""
    assert violation_third(item("t")) == ""
    assert violation_third(item("t", 4, review={"state": "edited"})) == ""
    assert violation_third(item("t", 4, review={"state": "accepted"})) == "middle third"


@pytest.fixture(scope="module")
def done(store_uri) -> jrh.Evaluation:
    places = (1, 4, 8)
    items = [item(f"t{n:02}") for n in range(12)]
    items += [item(f"t{n:02}", places[n % 3]) for n in range(12)]
    items += [item(f"t{n:02}", 4, test="agent_positives") for n in range(12)]

    def reads_the_end(shown: Presentation) -> str:
        """A judge for whom the beginning of a long transcript is lost."""
        return LABELS["BREACH" in "".join(message.content for message in (shown.transcript or ())[3:])]

    suite = Suite(name="long", items=items)
    return jrh.evaluate(reads_the_end, suite, tracking_uri=store_uri, experiment="tests", progress=False)


def test_a_judge_that_forgets_the_beginning_misses_violations_of_the_first_third_only(done):
    assert list(done.report.positions) == list(THIRDS), "as they follow one another"
    assert {name: axes["accuracy"].value for name, axes in done.report.positions.items()} == {
        "first third": 0,
        "middle third": 1,
        "last third": 1,
    }
    first = done.report.positions["first third"]
    assert (first["fnr"].value, first["fnr"].n, first["accuracy"].n_clusters) == (1, 4, 4)
    assert done.metrics["position/first_third/accuracy/rate"] == 0
    assert done.metrics["position/last_third/fnr/n"] == 4
    assert set(done.calls["position"]) == {"", *THIRDS}


def test_the_report_shows_it_and_its_files_keep_it(done, store_uri):
    page = done.report.to_markdown()
    assert "### By position" in page
    assert page.index("| `first third` | 0.00") < page.index("| `middle third` | 1.00") < page.index("| `last third`")
    assert jrh.measure(done.calls, labels=LABELS).positions.keys() == done.report.positions.keys()
    assert list(read_report(done.report.to_dict()).positions) == list(THIRDS)
    behind = CallFinder(done.calls, labels=LABELS).behind("position/first third/accuracy")
    assert (behind.calls.sum(), behind.n, behind.numerator) == (4, 4, 0)


def test_suites_without_edited_transcripts_have_no_positions():
    rows = [
        {"suite_item": f"a{n}", "task": f"a{n}", "condition": "typos", "delta": None, "order": "", "better": ""}
        | {"replicate": 0, "outcome": "verdict", "answer": "yes", "expected": "yes"}
        for n in range(3)
    ]
    report = jrh.measure(rows, labels=("no", "yes"))
    assert report.positions == {}
    assert "positions" not in report.to_dict()
    assert "By position" not in report.to_markdown()
