"""Labels that cannot be read: one line on standard error that says what is wrong, exit code 2, no run.

And labels that look odd but can be read: what they are read as.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest

from tests.people.command import Done, jrh
from tests.tracking.traces.trace_tools import answered, judged, logging_traces, say


def table(path: Path, rows: list[tuple[object, ...]], columns: tuple[str, ...] = ("item", "rater", "label")) -> Path:
    pd.DataFrame(rows, columns=list(columns)).to_csv(path, index=False)
    return path


def rows(labels: dict[object, list[object]]) -> list[tuple[object, ...]]:
    """Rater to their labels of items 1, 2, …; None where they gave none."""
    return [(f"t{n}", rater, label) for rater, said in labels.items() for n, label in enumerate(said, 1)]


def refused(done: Done) -> str:
    """The one line on standard error of a command that was refused."""
    assert done.code == 2, done
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("jrh: ")
    assert "Traceback" not in line
    return line


YES_NO = ["yes", "no", "yes", "no", "yes"]
BAD: dict[str, tuple[dict[object, list[object]], tuple[str, ...], str]] = {
    "one rater": ({"ann": YES_NO}, (), "'ann' is the only one"),
    "the judge alone": ({"gpt": YES_NO}, ("--judge", "gpt"), "'gpt' is the only one"),
    "no overlap": ({"ann": [*YES_NO, *[None] * 5], "gpt": [*[None] * 5, *YES_NO]}, ("--judge", "gpt"), "no item"),
    "a label outside the scale": (
        {"ann": [1, 2, 7], "bob": [1, 2, 3], "gpt": [1, 2, 3]},
        ("--judge", "gpt", "--scale", "1,2,3,4,5"),
        "7",
    ),
    "a word on a numeric scale": (
        {"ann": [1, 2, "good"], "gpt": [1, 2, 3]},
        ("--judge", "gpt", "--scale", "numeric"),
        "'good'",
    ),
    "an unknown judge": ({"ann": YES_NO, "gpt-4o": YES_NO}, ("--judge", "gpt-40"), "Did you mean 'gpt-4o'"),
    "all labels missing": ({"ann": [None] * 3, "gpt": ["", None, " "]}, ("--judge", "gpt"), "No row has a label"),
    "a positive label nobody gave": (
        {"ann": YES_NO, "gpt": YES_NO},
        ("--judge", "gpt", "--positive", "maybe"),
        "maybe",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_tables_that_cannot_be_read_are_refused_in_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, options, said = BAD[case]
    path = table(tmp_path / "labels.csv", rows(labels))
    assert said in refused(jrh("agree", path, *options, "--no-log", capsys=capsys))


def test_an_empty_table_a_missing_column_and_two_words_of_one_rater_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ("item", "rater", "label")
    twice = [*rows({"ann": YES_NO, "gpt": YES_NO}), ("t1", "ann", "no")]
    cases = {
        "empty": (table(tmp_path / "empty.csv", []), "empty"),
        "nothing": (tmp_path / "nothing.csv", "nothing.csv cannot be read"),
        "column": (table(tmp_path / "column.csv", [(1, "ann", "yes")], ("item", "rater", "lable")), "'label'"),
        "twice": (table(tmp_path / "twice.csv", twice, columns), "t1"),
        "judge": (
            table(tmp_path / "judge.csv", [("a", "x", "yes", True), ("a", "x", "no", False)], (*columns, "is_judge")),
            "'x' is the judge and also a person",
        ),
        "missing": (tmp_path / "missing.csv", "missing.csv"),
    }
    (tmp_path / "nothing.csv").write_text("", encoding="utf-8")
    for case, (path, said) in cases.items():
        judge = () if case == "judge" else ("--judge", "gpt")
        assert said in refused(jrh("agree", path, *judge, "--no-log", capsys=capsys)), path


def test_a_column_of_a_file_can_mark_the_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marked = [(*row, row[1] == "gpt") for row in rows({"ann": YES_NO, "bob": YES_NO, "gpt": YES_NO[::-1]})]
    path = table(tmp_path / "labels.csv", marked, ("item", "rater", "label", "is_judge"))
    facts = read(jrh("agree", path, "--no-log", "--json", capsys=capsys))
    assert facts["estimates"]["agreement/accuracy"]["n"] == 5


def read(done: Done) -> dict[str, Any]:
    assert done.code == 0, done
    facts: dict[str, Any] = json.loads(done.out)
    return facts


ODD: dict[str, dict[object, list[object]]] = {
    "booleans and words": {
        "ann": [True, False, True],
        "bob": ["True", "false", "TRUE"],
        "gpt": ["true", False, "True"],
    },
    "numbers, texts and halves": {"ann": [1, 0, 1], "bob": ["1", "0", "1"], "gpt": [1.0, 0.0, "1.0"]},
    "white space": {"ann": ["yes ", " no", "yes"], "bob": ["yes", "no\t", "yes"], " gpt ": ["yes", "no", "  yes"]},
    "unicode": {"ann": ["é", "e", "é"], "bob": ["e\u0301", "e", "é"], "gpt": ["é", "e", "e\u0301"]},
    "names in unicode": {"José": YES_NO[:1], "Jose\u0301": [None, *YES_NO[1:3]], "gpt": YES_NO[:3]},
    "names that are numbers": {1: YES_NO[:3], 2: YES_NO[:3], "gpt": YES_NO[:3]},
    "capitals": {"ann": ["Pass", "fail", "pass"], "bob": ["PASS", "Fail", "pass"], "gpt": ["pass", "fail", "Pass"]},
}


@pytest.mark.parametrize("case", ODD)
def test_labels_that_are_the_same_in_another_spelling_agree(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame(rows(ODD[case]), columns=["item", "rater", "label"])
    frame.to_csv(tmp_path / "labels.csv", index=False)
    frame.to_json(tmp_path / "labels.jsonl", orient="records", lines=True)
    for name in ("labels.csv", "labels.jsonl"):
        facts = read(jrh("agree", tmp_path / name, "--judge", "gpt", "--no-log", "--json", capsys=capsys))
        accuracy = facts["estimates"]["agreement/accuracy"]
        assert (accuracy["value"], accuracy["n"]) == (1.0, 3), name


def test_a_judge_whose_name_is_a_number_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "labels.csv", rows({1: YES_NO, 2: YES_NO, 7: YES_NO}))
    facts = read(jrh("agree", path, "--judge", "7", "--no-log", "--json", capsys=capsys))
    assert facts["estimates"]["agreement/accuracy"]["n"] == 5


def test_the_same_row_twice_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = rows({"ann": YES_NO, "bob": YES_NO, "gpt": YES_NO})
    path = table(tmp_path / "labels.csv", [*once, *once])
    facts = read(jrh("agree", path, "--judge", "gpt", "--no-log", "--json", capsys=capsys))
    assert facts["estimates"]["agreement/accuracy"]["n"] == 5


def test_missing_labels_are_no_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels: dict[object, list[object]] = {
        "ann": ["yes", float("nan"), "no", "yes"],
        "bob": ["yes", "no", None, ""],
        "gpt": ["yes", "no", "no", "yes", "yes"],
    }
    path = table(tmp_path / "labels.csv", rows(labels))
    facts = read(jrh("agree", path, "--judge", "gpt", "--no-log", "--json", capsys=capsys))
    accuracy = facts["estimates"]["agreement/accuracy"]
    assert (accuracy["value"], accuracy["n"]) == (1.0, 4)
    assert "Left out of 5 items: 1 with no person's label." in facts["notes"]


@pytest.fixture
def experiment(store_uri: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with logging_traces(store_uri, f"bad input {request.node.name}") as name:
        yield name


def test_traces_without_labels_of_people_are_refused_in_one_line(
    experiment: str, store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def line(*options: str, source: str = f"traces:/{experiment}") -> str:
        return refused(jrh("agree", source, *options, "--tracking-uri", store_uri, capsys=capsys))

    assert "no experiment 'nowhere'" in line(source="traces:/nowhere")
    trace = answered()
    assert re.match("jrh: No trace ", unlabelled := line())
    judged(trace, "yes")
    assert line() == unlabelled
    word = say(trace, "no", "ann")
    assert "Did you mean 'harm'?" in line("--name", "ham")
    assert "There is no judge 'openai:/smal'" in line("--judge", "openai:/smal")
    assert "'ann' is a person" in line("--judge", "ann")
    say(trace, "yes", "ann", kind="CODE")
    assert "'ann' is a person and " in line("--judge", "ann")
    mlflow.delete_assessment(trace_id=trace, assessment_id=word.assessment_id)
    assert line() == unlabelled


def test_a_deleted_label_is_none_and_the_one_before_it_counts_again(
    experiment: str, store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    traces = [answered() for _ in range(3)]
    for trace in traces:
        judged(trace, "yes")
        say(trace, "yes", "ann")
    deleted = say(traces[0], "no", "ann")

    def accuracy() -> tuple[float, int]:
        arguments = ("agree", f"traces:/{experiment}", "--no-log", "--json", "--tracking-uri", store_uri)
        found = read(jrh(*arguments, capsys=capsys))["estimates"]["agreement/accuracy"]
        return found["value"], found["n"]

    assert accuracy() == (pytest.approx(2 / 3), 3)
    mlflow.delete_assessment(trace_id=traces[0], assessment_id=deleted.assessment_id)
    assert accuracy() == (1.0, 3)


PASSES = [True, False] * 20
CALIBRATION = {"item": [f"c{n}" for n in range(40)], "judge": PASSES, "human": PASSES}


def correcting(tmp_path: Path, verdicts: object, calibration: object) -> tuple[Path, Path]:
    paths = tmp_path / "verdicts.csv", tmp_path / "labelled.csv"
    for path, columns in zip(paths, (verdicts, calibration), strict=True):
        pd.DataFrame(columns).to_csv(path, index=False)
    return paths


UNCORRECTED: dict[str, tuple[dict[str, list[Any]], dict[str, list[Any]], tuple[str, ...], str]] = {
    "calibration items that are not in the population": (
        {"item": [*CALIBRATION["item"][:9], *(f"v{n}" for n in range(91))], "judge": [True] * 100},
        CALIBRATION,
        (),
        "c9",
    ),
    "no verdicts": ({"judge": []}, CALIBRATION, (), "verdicts"),
    "no labels": ({"judge": PASSES}, {"judge": [], "human": []}, (), "labelled.csv has no rows"),
    "all labels missing": (
        {"judge": PASSES},
        {"judge": PASSES, "human": [None] * 40},
        (),
        "No calibration item has both labels",
    ),
    "all verdicts missing": ({"judge": [None] * 3, "item": ["a", "b", "c"]}, CALIBRATION, (), "verdict"),
    "a missing column": ({"judge": PASSES}, {"judge": PASSES, "humann": PASSES}, (), "Did you mean 'humann'"),
    "neither pass nor fail": ({"judge": ["perhaps", "yes"] * 9}, CALIBRATION, (), "perhaps"),
    "another scale": ({"judge": [1, 2, 3, 4, 5] * 9}, CALIBRATION, (), "positive"),
    "two verdicts on one item": ({"judge": [True, False], "item": ["a", "a"]}, CALIBRATION, (), "'a'"),
}


@pytest.mark.parametrize("case", UNCORRECTED)
def test_rates_that_cannot_be_corrected_are_refused_in_one_line(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts, calibration, options, said = UNCORRECTED[case]
    done = jrh("correct", *correcting(tmp_path, verdicts, calibration), *options, capsys=capsys)
    assert said in refused(done)


@pytest.mark.parametrize("spelled", [["True", "False"], ["yes", "no"], [1, 0], ["1.0", "0.0"], [" PASS ", "fail"]])
def test_verdicts_in_another_spelling_are_the_same(
    spelled: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    errs = {**CALIBRATION, "human": [*PASSES[:38], False, True]}
    plain = jrh("correct", *correcting(tmp_path, {"judge": PASSES}, errs), "--json", capsys=capsys)
    other = jrh("correct", *correcting(tmp_path, {"judge": spelled * 20}, errs), "--json", capsys=capsys)
    assert read(plain)["estimate"] == read(other)["estimate"]


def test_a_judge_that_tells_nothing_apart_leaves_the_people_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calibration = {"judge": [True, True, False, False] * 10, "human": PASSES}
    paths = correcting(tmp_path, {"judge": PASSES}, calibration)
    found = read(jrh("correct", *paths, "--sampling", "random", "--json", capsys=capsys))
    assert (found["method"], found["estimate"]["n"]) == ("people only", 40)
    assert found["estimate"]["value"] == pytest.approx(0.5)
    assert found["note"]
    for sampling in ((), ("--sampling", "stratified")):
        refused_rate = read(jrh("correct", *paths, *sampling, "--json", capsys=capsys))["estimate"]
        assert refused_rate["reason"]
        assert "value" not in refused_rate
