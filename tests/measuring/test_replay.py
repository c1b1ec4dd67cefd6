"""`jrh replay`: other tools' tables, measured with no model call."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.errors import CallsError, JrhError, RecipeError
from jrh_mlflow.measuring.replay import Mapped, replay_each
from jrh_mlflow.people.labels.tables import pair_frame
from tests.readings import asked

# One judge that is right in both orders on the first pair, wrong in both on the second, takes the first slot on
# the third, commits in one order on the fourth, and is once unreadable on the fifth.
WIDE = """set,item,judge,gold,ab,ba
a,007,J1,1,1.0,1.0
a,008,J1,1,2.0,2.0
b,007,J1,2,1.0,2.0
b,008,J1,2,2.0,tie
b,009,J1,2,2.0,
a,007,J2,1,1.0,1.0
a,008,J2,1,1.0,1.0
b,007,J2,2,2.0,2.0
b,008,J2,2,2.0,2.0
b,009,J2,2,2.0,2.0
"""
MAPPED = Mapped(columns={"item": "set+item", "judge": "judge", "better": "gold", "uv": "ab", "vu": "ba"})


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    path = tmp_path / "recorded.csv"
    path.write_text(WIDE, encoding="utf-8")
    return path


def value(evaluation: jrh.Evaluation, axis: str) -> float:
    reading = evaluation.datasheet.estimates[axis]
    assert isinstance(reading, jrh.Estimate)
    return reading.value


def test_a_wide_table_is_measured_with_one_run_per_judge(wide: Path, store_uri: str) -> None:
    one, two = replay_each(wide, MAPPED, experiment="tests", tracking_uri=store_uri)
    assert [one.judge.name, two.judge.name] == ["J1", "J2"]
    assert value(two, "natural/accuracy") == value(two, "natural/stable_correct") == 1.0
    # One of ten calls is unreadable: over 5 %, so everything it touches is withheld rather than guessed.
    assert set(one.withheld) == set(one.datasheet.estimates)
    data = MlflowClient(tracking_uri=store_uri).get_run(two.run_id).data
    assert data.params["judge.kind"] == "recorded"
    assert data.metrics["natural/accuracy/rate"] == 1.0
    assert one.suite.sha256 == two.suite.sha256
    assert {item.id for item in one.suite.items} == {"a/007", "a/008", "b/007", "b/008", "b/009"}


def test_the_ways_two_orders_combine_are_told_apart(wide: Path, tmp_path: Path, store_uri: str) -> None:
    readable = tmp_path / "readable.csv"
    readable.write_text("".join(line for line in WIDE.splitlines(True) if "009" not in line), encoding="utf-8")
    one, _ = replay_each(readable, MAPPED, experiment="tests", tracking_uri=store_uri)
    assert value(one, "natural/accuracy") == 4 / 8
    for axis in ("stable_correct", "stable_wrong", "positional", "one_sided"):
        assert value(one, f"natural/{axis}") == 1 / 4
    assert value(one, "natural/no_preference") == 0


def test_slots_and_contents_are_different_answers(tmp_path: Path, store_uri: str) -> None:
    path = tmp_path / "slots.jsonl"
    rows = [{"id": "x", "gold": "A", "turn": turn, "said": "A"} for turn in ("ab", "ba")]
    pd.DataFrame(rows).to_json(path, orient="records", lines=True)
    columns = {"item": "id", "better": "gold", "order": "turn", "answer": "said"}
    shared = {"first": "A", "second": "B", "orders": {"uv": "ab", "vu": "ba"}}
    (slots,) = replay_each(
        path, Mapped(columns=columns, winner="slot", **shared), tracking_uri=store_uri, experiment="tests"
    )
    assert value(slots, "natural/positional") == 1.0
    (contents,) = replay_each(path, Mapped(columns=columns, **shared), tracking_uri=store_uri, experiment="tests")
    assert value(contents, "natural/stable_correct") == 1.0


def test_our_own_calls_file_needs_no_mapping(tmp_path: Path, store_uri: str) -> None:
    calls = calls_frame(asked(jrh.scripted.LongerWins(), jrh.datasheet_suite(n_tasks=2, depth=2)))
    calls.to_parquet(tmp_path / "calls.parquet")
    (again,) = replay_each(tmp_path / "calls.parquet", tracking_uri=store_uri, experiment="tests")
    assert again.datasheet.to_dict() == jrh.measure(calls).to_dict()


def test_a_replayed_suite_cannot_be_asked(wide: Path, store_uri: str) -> None:
    one, _ = replay_each(wide, MAPPED, experiment="tests", tracking_uri=store_uri)
    with pytest.raises(JrhError, match="no texts to ask about"):
        jrh.evaluate(jrh.scripted.Oracle(), one.suite, tracking_uri=store_uri, experiment="tests")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"item": "itm", "uv": "ab", "vu": "ba"}, "no column 'itm'. Did you mean 'item'"),
        ({"itm": "item", "uv": "ab", "vu": "ba"}, "Unknown role 'itm'"),
        ({"item": "item", "uv": "ab"}, "needs `item`, and either"),
        ({"uv": "ab", "vu": "ba"}, "needs `item`"),
    ],
)
def test_a_wrong_mapping_names_what_is_there(columns: dict[str, str], text: str, wide: Path, store_uri: str) -> None:
    with pytest.raises(RecipeError, match=text):
        replay_each(wide, Mapped(columns=columns), tracking_uri=store_uri, experiment="tests")


def test_a_file_without_mapping_that_is_no_call_record_names_its_columns(wide: Path, store_uri: str) -> None:
    with pytest.raises(CallsError, match="Columns there are: set, item, judge, gold, ab, ba"):
        replay_each(wide, tracking_uri=store_uri, experiment="tests")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("missing.csv", None, "There is no file"),
        ("table.ods", b"x", "unknown ending"),
        ("table.xlsx", b"x", "no .xlsx file"),
        ("bad.csv", b"a,b\n\xff\xfe,1\n", "not UTF-8 at byte"),
        ("empty.csv", b"a,b\n", "has no rows"),
        ("broken.parquet", b"PAR1", "cannot be read"),
    ],
)
def test_unreadable_files_are_one_clear_line(
    name: str, content: bytes | None, text: str, tmp_path: Path, store_uri: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeError, match=text):
        replay_each(path, MAPPED, tracking_uri=store_uri, experiment="tests")


GRADED = [
    {"id": 1, "run": {"judge": "J", "n": 0}, "result": {"verdict": [{"choice": "Yes"}]}, "human": True, "topic": "law"},
    {"id": 2, "run": {"judge": "J", "n": 0}, "result": {"verdict": [{"choice": "no"}]}, "human": False, "topic": "law"},
    {"id": 3, "run": {"judge": "J", "n": 0}, "result": {"verdict": [{"choice": "no"}]}, "human": True, "topic": "code"},
    {
        "id": 4,
        "run": {"judge": "J", "n": 0},
        "result": {"verdict": [{"choice": "NO"}]},
        "human": False,
        "topic": "code",
    },
]
NESTED = {
    **{"item": "id", "judge": "run.judge", "replicate": "run.n", "answer": "result.verdict.0.choice"},
    **{"expected": "human", "group": "topic"},
}


def graded(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_labels_of_single_responses_are_read_from_nested_fields_and_told_by_category(
    tmp_path: Path, store_uri: str
) -> None:
    rows = [{**row, "human": "yes" if row["human"] else "no"} for row in GRADED]
    about = {"tracking_uri": store_uri, "experiment": "tests"}
    (done,) = replay_each(graded(tmp_path / "graded.jsonl", rows), Mapped(columns=NESTED), **about)
    assert done.judge.name == "J"
    assert done.report.labels == ("no", "yes")
    assert done.metrics["baseline/accuracy/rate"] == 3 / 4
    assert done.metrics["baseline/fnr/rate"] == 1 / 2
    assert {group: axes["accuracy"].value for group, axes in done.report.categories.items()} == {
        "law": 1.0,
        "code": 0.5,
    }
    assert done.metrics["category/law/accuracy/rate"] == 1.0


def test_scores_have_a_scale_and_what_lies_outside_it_is_no_answer(tmp_path: Path, store_uri: str) -> None:
    rows = [
        {"id": n, "said": said, "gold": gold, "usd": 0.5} for n, (said, gold) in enumerate([(1, 1.0), (3, 5), (9, 2)])
    ]
    path, about = graded(tmp_path / "scores.jsonl", rows), {"tracking_uri": store_uri, "experiment": "tests"}
    mapped = Mapped(
        columns={"item": "id", "answer": "said", "expected": "gold", "cost_usd": "usd"}, condition="padding"
    )
    (done,) = replay_each(path, mapped, scale=(1, 6), **about)
    assert done.report.labels == ("1", "2", "3", "4", "5", "6")
    assert list(done.calls["outcome"]) == ["verdict", "verdict", "unparsed"]
    assert set(done.calls["condition"]) == {"padding"}
    assert done.cost_usd == 1.5
    with pytest.raises(
        CallsError, match=r"answered with '9', which is none of the expected 1, 2, 3, 4, 5.*--scale 1-6"
    ):
        replay_each(path, mapped, **about)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"answer": "result.verdict.0.chioce"}, r"no column .*Did you mean 'result.verdict.0.choice'"),
        ({"answer": "result.verdict.7.choice"}, "no column 'result.verdict.7.choice'"),
        ({"better": "topic"}, "pairs say with `better`"),
        (
            {"outcome": "topic"},
            "`outcome` must be one of .*'law'",
        ),
        ({"expected": "result.verdict.0.choice", "cost_usd": "topic"}, "`cost_usd` must .*'law'"),
        ({"expected": "topic"}, "answered with 'Yes', which is none of the expected code, law"),
    ],
)
def test_a_wrong_field_of_single_responses_is_named(
    columns: dict[str, str], text: str, tmp_path: Path, store_uri: str
) -> None:
    path = graded(tmp_path / "graded.jsonl", GRADED)
    with pytest.raises(JrhError, match=text):
        replay_each(path, Mapped(columns={**NESTED, **columns}), tracking_uri=store_uri, experiment="tests")


def test_fields_of_json_in_the_cells_of_a_csv_are_reached_too(tmp_path: Path, store_uri: str) -> None:
    path = tmp_path / "graded.csv"
    pd.DataFrame([{**row, "result": json.dumps(row["result"])} for row in GRADED]).to_csv(path, index=False)
    columns = {"item": "id", "answer": "result.verdict.0.choice", "expected": "human"}
    about = {"tracking_uri": store_uri, "experiment": "tests"}
    with pytest.raises(CallsError, match="none of the expected False, True"):
        replay_each(path, Mapped(columns=columns), **about)
    renamed = path.read_text(encoding="utf-8").replace("True", "yes").replace("False", "no")
    path.write_text(renamed, encoding="utf-8")
    (done,) = replay_each(path, Mapped(columns=columns), **about)
    assert done.metrics["baseline/accuracy/rate"] == 3 / 4


def test_calls_in_memory_read_what_was_measured(store_uri: str) -> None:
    about = {"tracking_uri": store_uri, "experiment": "tests"}
    done = jrh.evaluate(jrh.scripted.LongerWins(), jrh.datasheet_suite(n_tasks=2, depth=2), traces="none", **about)
    again = jrh.replay(done.calls.drop(columns=["cached", "model", "rationale"]), suite=done.suite, **about)
    assert isinstance(again, jrh.Evaluation)
    assert again.datasheet.estimates == done.datasheet.estimates
    assert again.run_id != done.run_id
    same = jrh.replay(f"runs:/{done.run_id}", **about)
    assert same.datasheet.estimates == done.datasheet.estimates


def test_one_judge_of_a_table_is_named(wide: Path, store_uri: str) -> None:
    about = {"columns": dict(MAPPED.columns), "tracking_uri": store_uri, "experiment": "one judge"}
    for name in (None, "J3"):
        with pytest.raises(RecipeError, match="'J1', 'J2'"):
            jrh.replay(wide, judge=name, **about)
    # Nothing was logged: not even the experiment is there.
    assert MlflowClient(tracking_uri=store_uri).get_experiment_by_name("one judge") is None
    done = jrh.replay(wide, judge="J2", **about)
    assert (done.judge.name, value(done, "natural/accuracy")) == ("J2", 1.0)
    frame = pd.read_csv(wide, dtype=str)
    assert jrh.replay(frame, judge="J2", **about).datasheet.estimates == done.datasheet.estimates


def test_a_tie_of_people_is_read_apart_and_a_half_in_win_rates(wide: Path, tmp_path: Path, store_uri: str) -> None:
    path = tmp_path / "ties.csv"
    path.write_text(WIDE.replace("b,009,J2,2,2.0,2.0", "b,009,J2,tie,tie,2.0"), encoding="utf-8")
    about = {"tracking_uri": store_uri, "experiment": "tests"}
    done = jrh.replay(path, columns=dict(MAPPED.columns), judge="J2", **about)
    assert (value(done, "natural/accuracy"), value(done, "natural/tie_accuracy")) == (1.0, 0.5)
    labels = pair_frame(done.calls)
    people = labels[labels["kind"] == "person"].set_index("item")["label"]
    assert (len(people), people["b/009"]) == (5, "tie")
    again = jrh.replay(done.calls, **about)
    assert again.datasheet.estimates == done.datasheet.estimates
