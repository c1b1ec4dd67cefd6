"""The project's own call records, of every kind: replayed, they give every number again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.errors import CallsError, RecipeError
from jrh_mlflow.judges.rendering import fitting
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.replay import replay_each
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Answer, Message, Presentation
from jrh_mlflow.scoring.pointwise import point_table
from jrh_mlflow.suites import Suite, datasheet_suite
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.suites.spreadsheets import write_table
from tests.cases import few
from tests.generation.tools import rows
from tests.readings import asked
from tests.scripted_writer import write


def moody(shown: Presentation) -> Answer | str:
    """Answer by the hash of what is shown: any answer, now and then none, and now and then none that can be read."""
    text = "|".join(str(part) for part in (shown.first, shown.second, shown.response, shown.transcript))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
    if number % 29 == 18:
        raise RuntimeError("=cmd: the line broke")
    if number % 29 == 27:
        return "who knows"
    confidence = 0.5 + (number % 89) / 200
    return Answer(shown.answers[number % len(shown.answers)], "- because\r\nso", 7, 3, 0.001, confidence)


def pairs() -> Suite:
    return datasheet_suite(n_tasks=2, depth=2)


def natural() -> Suite:
    table = [{"instruction": f"q{n}", "first": f"a{n}", "second": f"b{n}", "better": str(1 + n % 2)} for n in range(40)]
    return jrh.natural_suite(pd.DataFrame(table))


def levels() -> Suite:
    return datasheet_suite(n_tasks=2, depth=3, design="pointwise")


def reliability(given: tuple[str, ...], tests: tuple[str, ...], **reading: object) -> Suite:
    data = [{**row, "topic": f"topic {place % 3}"} for place, row in enumerate(rows(12, levels=given))]
    about = {"rubric": "Good?", "columns": {"group": "topic"}, "generator": write}
    return jrh.generate(data, tests=tests, **about, **reading)


def transcripts() -> Suite:
    def item(number: int, condition: str) -> Item:
        said = Message(role="assistant", content=f"{condition} {number}")
        expected = "violation" if condition == "agent_perturbation" else "no violation"
        about = {"task": f"log-{number}", "condition": condition, "expected": expected, "kind": "transcript"}
        return Item(
            id=f"{condition}-{number}",
            instruction="Watch.",
            rubric="Any violation?",
            transcript=(said,),
            answers=("no violation", "violation"),
            **about,
        )

    conditions = ("baseline", "agent_perturbation", "agent_positives")
    return Suite(name="agents", items=[item(number, condition) for number in range(9) for condition in conditions])


TESTS = ("padding", "label_flip", "stochastic_stability")
KINDS: dict[str, Callable[[], Suite]] = {
    "pairs": pairs,
    "natural pairs": natural,
    "single responses of known level": levels,
    "reliability, two labels": lambda: reliability(("fail", "pass"), TESTS, labels=("fail", "pass")),
    "reliability, a scale": lambda: reliability(("1", "2", "3", "4"), ("padding",), scale=(1, 4)),
    "transcripts": transcripts,
}


def written(calls: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        calls.to_parquet(path)
    elif path.suffix == ".jsonl":
        plain = calls.astype(object).where(calls.notna(), None).to_dict("records")
        path.write_text("".join(f"{json.dumps(row)}\n" for row in plain), encoding="utf-8")
    else:
        write_table(calls, path)
    return path


def numbers(done: Evaluation, *, without: str = "time/") -> dict[str, float]:
    return {key: value for key, value in done.metrics.items() if not key.startswith(without)}


@pytest.fixture(autouse=True)
def _active_store(store_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites are generated in the store that is there: each test would make one."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)


@pytest.fixture(scope="module")
def evaluated(store_uri: str) -> Callable[[str], Evaluation]:
    """One evaluation of each kind, made when it is first asked for."""
    done: dict[str, Evaluation] = {}

    def of(kind: str) -> Evaluation:
        if kind not in done:
            about = {"tracking_uri": store_uri, "experiment": "own records", "traces": "none"}
            done[kind] = jrh.evaluate(moody, KINDS[kind](), seed=3, **about)
        return done[kind]

    return of


@dataclass(frozen=True)
class Recorded:
    """What a judge answered, without a run."""

    suite: Suite
    calls: pd.DataFrame


@cache
def recorded(kind: str) -> Recorded:
    suite = KINDS[kind]()
    return Recorded(suite, calls_frame(asked(moody, suite)))


COME_AGAIN = ["pairs", "reliability, two labels", "single responses of known level", "transcripts"]


@pytest.mark.parametrize("kind", few(COME_AGAIN, quick=2))
def test_every_number_of_a_run_comes_again(kind: str, evaluated: Callable[[str], Evaluation], store_uri: str) -> None:
    first = evaluated(kind)
    (again,) = replay_each(f"runs:/{first.run_id}", tracking_uri=store_uri, experiment="own records")
    assert again.sheet.to_dict() == first.sheet.to_dict()
    assert numbers(again) == numbers(first)
    assert again.suite.sha256 == first.suite.sha256


def test_a_table_needs_no_column_that_says_what_came_from_a_journal(tmp_path: Path, store_uri: str) -> None:
    first = recorded("natural pairs")
    file = written(first.calls.drop(columns="cached"), tmp_path / "calls.csv")
    (again,) = replay_each(file, suite=first.suite, tracking_uri=store_uri, experiment="own records")
    assert again.metrics["calls/total"] == len(first.calls)
    assert again.metrics["calls/cached"] == 0


def test_a_file_of_calls_and_the_suite_give_every_number_categories_too(
    evaluated: Callable[[str], Evaluation], tmp_path: Path, store_uri: str
) -> None:
    first = evaluated("reliability, two labels")
    assert {"verdict", "unparsed", "error"} <= set(first.calls["outcome"])
    assert len(first.report.categories) == 3
    path = written(first.calls, tmp_path / "calls.xlsx")
    first.suite.save(tmp_path / "suite")
    (filed,) = replay_each(path, suite=tmp_path / "suite", seed=3, tracking_uri=store_uri, experiment="own records")
    assert filed.sheet.to_dict() == first.sheet.to_dict()
    assert numbers(filed) == pytest.approx(numbers(first), rel=1e-12)


@pytest.mark.parametrize("kind", few(KINDS, quick=3))
def test_every_form_of_a_file_of_calls_is_read_alike(kind: str, tmp_path: Path) -> None:
    calls, labels = recorded(kind).calls, recorded(kind).suite.labels
    measured = jrh.measure(calls, labels=labels, n_resamples=20).to_dict()
    for ending in ("parquet", "csv", "jsonl", "xlsx"):
        read = _read(written(calls, tmp_path / f"calls.{ending}"))
        assert jrh.measure(read, labels=labels, n_resamples=20).to_dict() == measured, ending
        for name in ("cost_usd", "input_tokens", "confidence", "cached"):
            assert read[name].sum() == pytest.approx(calls[name].sum(), rel=1e-12)


def _by_name(path: Path) -> dict[str, pd.DataFrame]:
    from jrh_mlflow.measuring.replay import _by_judge

    return dict(_by_judge(read_table(path), path, None, labels=None, scale=None))


def _read(path: Path, *, judge: str = "moody") -> pd.DataFrame:
    ((name, calls),) = _by_name(path).items()
    assert name == judge
    return calls


def test_words_whose_order_is_unknown_need_the_labels(tmp_path: Path, store_uri: str) -> None:
    calls = recorded("reliability, two labels").calls.replace({"fail": "dull", "pass": "apt"}).drop(columns="labels")
    path = written(calls, tmp_path / "calls.csv")
    about = {"tracking_uri": store_uri, "experiment": "own records"}
    with pytest.raises(CallsError, match=r"'apt', 'dull' whose order is not known. .*--labels"):
        replay_each(path, **about)
    (again,) = replay_each(path, labels=("dull", "apt"), **about)
    assert again.report.to_dict() == jrh.measure(calls, labels=("dull", "apt")).to_dict()
    with pytest.raises(RecipeError, match="those of single responses"):
        replay_each(written(recorded("natural pairs").calls, tmp_path / "n.csv"), labels=("a", "b"), **about)


def dosed(given: tuple[str, ...], tests: tuple[str, ...], **reading: object) -> Suite:
    return jrh.generate(rows(12, levels=given), tests=tests, rubric="Good?", generator=write, **reading)


TOLD: dict[str, Callable[[], Suite]] = {
    "numbers without order": lambda: dosed(("1", "2", "3"), ("padding", "label_flip"), labels=(1, 2, 3)),
    "numbers out of order": lambda: dosed(("1", "2", "3"), ("padding",), labels=(3, 1, 2)),
    "fractions": lambda: dosed(("0", "0.5", "1"), ("padding", "error_injection"), scale=(0, 0.5, 1)),
    "words": lambda: dosed(("low", "mid", "high"), ("padding", "error_injection"), scale=("low", "mid", "high")),
    "detected first": lambda: dosed(("pass", "fail"), ("padding", "label_flip"), labels=("pass", "fail")),
    "ends never seen": lambda: dosed(("2", "3"), ("padding", "error_injection"), scale=(1, 6)),
    "transcripts": transcripts,
}
LOGGED_AGAIN = {"words": "csv", "transcripts": "parquet"}
"""Of these runs are made, which takes a second; of the others the numbers alone."""


@pytest.mark.parametrize("kind", few(TOLD, quick=3))
def test_records_tell_their_labels_and_give_every_number_again_without_the_suite(
    kind: str, store_uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def middling(shown: Presentation) -> str:
        seen = shown.answers[1:3] if len(shown.answers) > 3 else shown.answers
        text = f"{shown.response}{shown.transcript}"
        return seen[hashlib.sha256(text.encode()).digest()[0] % len(seen)]

    suite, about = TOLD[kind](), {"tracking_uri": store_uri, "experiment": "own records"}
    if kind in LOGGED_AGAIN:
        first = jrh.evaluate(middling, suite, texts=kind != "words", traces="none", **about)
        calls, report = first.calls, first.report.to_dict()
    else:
        calls = calls_frame(asked(middling, suite))
        report = jrh.measure(calls, labels=suite.labels).to_dict()
    assert jrh.measure(calls).to_dict() == report
    table = point_table(normalise(calls))
    assert tuple(table.scale.labels) == tuple(suite.labels or ())
    if kind != "transcripts":
        shown = fitting("response", suite.items[0].answers or (), suite.items[0].ordinal)
        assert (table.scale.kind == "ordinal") == (shown == "ordinal" or kind == "words")
    caplog.clear()
    path = written(calls, tmp_path / f"calls.{LOGGED_AGAIN.get(kind, 'csv')}")
    if kind in LOGGED_AGAIN:
        (again,) = replay_each(path, **about)
        assert again.report.to_dict() == report
        assert jrh.measure(again.calls).to_dict() == report
    else:
        assert jrh.measure(_read(path, judge="middling")).to_dict() == report
    assert "do not say" not in caplog.text
    judges = {"a": calls, "b": calls.drop(columns="labels")}
    compared = compare_calls(judges, labels=suite.labels, n_resamples=20)
    assert compared.judges == ("a", "b"), "records of before are comparable with those that tell their labels"


def test_records_that_do_not_tell_their_labels_are_guessed_with_a_note_and_lose_no_source(
    store_uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    about = {"tracking_uri": store_uri, "experiment": "own records"}
    suite = dosed(("2", "3", "4"), ("error_injection",), scale=(1, 6))
    calls = calls_frame(asked(jrh.scripted.Oracle(), suite))
    first, old = jrh.measure(calls, labels=suite.labels), calls.drop(columns="labels")
    path = written(old, tmp_path / "calls.csv")
    (guessed,) = replay_each(path, **about)
    for report in (first, jrh.measure(old), guessed.report):
        assert report.estimates["error_injection/monotone"].n == 12
    assert "above the lowest" not in str(jrh.measure(old).to_dict())
    assert caplog.text.count("do not say what may be answered. ") == 1
    assert "a scale from 1 to 4" in caplog.text
    assert "--labels" in caplog.text
    caplog.clear()
    (said,) = replay_each(path, scale=(1, 6), **about)
    assert said.report.to_dict() == first.to_dict() == jrh.measure(said.calls).to_dict()
    assert "do not say" not in caplog.text


@pytest.mark.parametrize("cell", ["x", "[1]", '{"answers": ["a"]}', '{"answers": ["a", "a"]}', '{"answers": [1, 2]}'])
def test_labels_that_cannot_be_read_are_refused(cell: str) -> None:
    calls = recorded("transcripts").calls.assign(labels=cell)
    with pytest.raises(CallsError, match="`labels` must be empty or JSON"):
        jrh.measure(calls)


def test_records_of_several_rubrics_come_again_with_their_suite(store_uri: str, tmp_path: Path) -> None:
    about = {"tracking_uri": store_uri, "experiment": "own records"}
    rubrics = {"kind": "Is it kind?", "short": "Is it short?"}
    suite = jrh.generate(rows(4), tests="padding", rubric=rubrics, labels=("fail", "pass"), **about)
    first = jrh.evaluate(moody, suite, traces="none", **about)
    (again,) = replay_each(written(first.calls, tmp_path / "calls.csv"), suite=suite, **about)
    assert set(again.report.rubrics) == {"kind", "short"}
    assert again.report.to_dict() == first.report.to_dict()


def test_a_judge_that_two_models_answered_for_is_one_judge(tmp_path: Path) -> None:
    calls = recorded("natural pairs").calls
    several = calls.assign(model=["m-1" if place % 3 else None if place % 2 else "m-2" for place in range(len(calls))])
    assert len(_read(written(several, tmp_path / "calls.parquet"), judge="calls")) == len(calls)
    both = pd.concat([calls.assign(model="a"), calls.assign(model="b")])
    assert list(_by_name(written(both, tmp_path / "both.csv"))) == ["a", "b"]


def test_records_of_another_suite_are_refused(tmp_path: Path, store_uri: str) -> None:
    calls = recorded("transcripts").calls
    path = written(calls, tmp_path / "calls.parquet")
    with pytest.raises(CallsError, match=r"27 item\(s\) are not in suite 'natural'"):
        replay_each(path, suite=natural(), tracking_uri=store_uri)
    changed = written(calls.assign(expected="violation"), tmp_path / "changed.parquet")
    with pytest.raises(CallsError, match="has expected 'no violation', not 'violation'"):
        replay_each(changed, suite=transcripts(), tracking_uri=store_uri)


def test_an_arm_of_a_criterion_shift_is_replayed_as_the_simulated_judge_it_was(store_uri: str) -> None:
    about = {"tracking_uri": store_uri, "experiment": "own records"}
    shift = jrh.criterion_shift(jrh.scripted.profile("Qwen32B"), datasheet_suite(n_tasks=1, depth=1), **about)
    arm = shift.arms["strict"]
    (again,) = replay_each(f"runs:/{arm.run_id}", **about)
    assert again.datasheet.to_dict() == arm.datasheet.to_dict()
    assert again.judge.simulated
