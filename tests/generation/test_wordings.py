"""Several wordings of the judge's question: they share the seeds, and one that fails does not lose the test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from jrh_mlflow.generation.generate import GenerationRun, price_generation
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.options import GenerationSettings
from tests.generation.tools import LABELS, PRICES, RUBRIC, WRITER, rows, run
from tests.loopback import LoopbackServer

WORDINGS = (
    "Is the task answered by the response both correctly and completely?",
    "Would you say that the response is a correct and complete answer to the task?",
    "Judge whether the response correctly and completely answers the task.",
)


def wordings(done: GenerationRun) -> Counter[str]:
    found = [item for item in done.suite.items if item.condition == "rubric_paraphrase"]
    return Counter(str(item.rubric) for item in found)


def made(store_uri: str, write: Any, **options: Any) -> GenerationRun:
    return run(rows(9), None, store_uri, tests="rubric_paraphrase", generator=write, **options)


class Writer:
    """Gives the wordings in turn, each attempt being one; some places are refused."""

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)

    def __call__(self, brief: str, temperature: float | None) -> str:
        return self.replies.pop(0)


def test_three_wordings_share_the_seeds(store_uri: str) -> None:
    done = made(store_uri, Writer(*WORDINGS))
    assert wordings(done) == dict.fromkeys(WORDINGS, 3)
    (item,) = [item for item in done.suite.items if item.id == "r04/rubric_paraphrase"]
    assert (item.expected, item.response) == (rows(9)[4]["label"], rows(9)[4]["response"])


def test_rules_write_different_wordings_too() -> None:
    done = run(rows(9), None, None, tests="rubric_paraphrase")
    assert len(wordings(done)) == 3
    assert sum(wordings(done).values()) == 9


def test_the_same_wording_twice_is_tried_again(store_uri: str) -> None:
    first, second, third = WORDINGS
    assert wordings(made(store_uri, Writer(first, first.upper(), second, third))) == dict.fromkeys(WORDINGS, 3)


def test_the_seeds_of_a_wording_that_fails_go_to_one_that_passes_and_the_suite_says_so(store_uri: str) -> None:
    first, second, _ = WORDINGS
    replies = [first, RUBRIC, RUBRIC, RUBRIC, RUBRIC, second]
    done = made(store_uri, Writer(*replies))
    found = wordings(done)
    assert set(found) == {first, second}
    assert sorted(found.values()) == [3, 6]
    assert done.made.set_aside == ()
    moved = [item for item in done.suite.items if "written_for" in item.meta]
    assert [item.task for item in moved] == ["r01", "r04", "r07"]
    assert {item.meta["written_for"] for item in moved} < {"r00", "r02"}
    assert {item.meta["generator"] for item in moved} == {"Writer"}
    labels = {row["id"]: row["label"] for row in rows(9)}
    assert all(item.expected == labels[item.task] for item in done.suite.items)
    (note,) = [note for note in done.made.notes if "wordings" in note]
    assert note.startswith("Of 3 wordings of rubric_paraphrase 1 did not pass, and others serve their items: none of 4")
    assert "wordings of rubric" in MlflowClient(store_uri).get_run(done.run_id).data.tags["mlflow.note.content"]
    assert made(store_uri, Writer(*replies)).suite.sha256 == done.suite.sha256


def test_only_when_every_wording_fails_the_test_is_set_aside(store_uri: str) -> None:
    done = made(store_uri, lambda brief, temperature: RUBRIC)
    assert not wordings(done)
    assert {one.source for one in done.made.set_aside} == {row["id"] for row in rows(9)}
    assert not [note for note in done.made.notes if "wordings" in note]


@pytest.mark.parametrize(("paraphrases", "n_wordings"), [(1, 1), (2, 2), (20, 3)])
def test_there_are_as_many_wordings_as_asked_for_and_no_more_than_seeds(paraphrases: int, n_wordings: int) -> None:
    tests = {"name": "rubric_paraphrase", "paraphrases": paraphrases}
    done = run(rows(3), None, None, tests=tests, generator=Writer(*WORDINGS))
    assert len(wordings(done)) == n_wordings


def test_stopped_by_the_cap_what_failed_is_left_open_and_a_higher_cap_comes_to_the_same_suite(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> str:
        served.append(1)
        # The second wording fails on its one attempt.
        return (WORDINGS[0], RUBRIC, WORDINGS[2])[len(served) - 1]

    served: list[int] = []
    with LoopbackServer(reply=reply) as server:
        options: dict[str, Any] = {
            "tests": "rubric_paraphrase",
            "generator": Generator(WRITER, api_base=server.url, attempts=1, max_tokens=64, temperature=None),
            "validator": "none",
            "prices": PRICES,
            "journal": tmp_path / "journal.db",
            "concurrency": 1,
        }
        quote = price_generation(
            GenerationSettings.checked({"dataset": rows(9), "labels": LABELS, "rubric": RUBRIC, **options})
        )
        one = 1.01 * (quote.worst_usd or 0) / 3
        first = run(rows(9), None, None, max_usd=one, **options)
        assert len(served) == 1
        short = run(rows(9), None, None, max_usd=one + (first.made.usage.cost_usd or 0), **options)
        assert len(served) == 2
        assert str(short.truncated).startswith("budget")
        assert sum(wordings(short).values()) == 3
        assert short.made.set_aside == ()
        assert short.made.unfinished == 6
        full = run(rows(9), None, None, max_usd=1.0, **options)
        assert len(served) == 3
    assert full.truncated is None
    assert set(wordings(full)) == {WORDINGS[0], WORDINGS[2]}
    assert sum(wordings(full).values()) == 9


def test_each_of_several_rubrics_has_wordings_of_its_own() -> None:
    rubrics = {"right": "Does the response answer the task correctly?", "whole": "Does the response answer all of it?"}
    done = run(rows(6), None, None, tests="rubric_paraphrase", rubric=rubrics)
    assert sum(wordings(done).values()) == 12
    of = {name: {str(item.rubric) for item in done.suite.items if item.meta.get("rubric") == name} for name in rubrics}
    assert [len(texts) for texts in of.values()] == [4, 4]
    assert all("correctly" in text for text in of["right"])
    assert all("all of it" in text for text in of["whole"])
