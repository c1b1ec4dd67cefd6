"""What commands print: every reading with interval and n, nothing wider than a screen, nothing that moves a cursor."""

from __future__ import annotations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.cli.printing import print_evaluations
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.comparison_view import comparison_page
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.show.numbers import with_interval
from jrh_mlflow.show.plain_text import WIDTH, aligned
from jrh_mlflow.show.sheets import sheet_lines
from tests.measures.pointwise import points, report
from tests.readings import asked

ESCAPE = "\x1b]0;owned\x07"


def row_of(lines: list[str], head: str) -> str:
    (row,) = [line for line in lines if line.startswith(head)]
    return row


@pytest.fixture(scope="module")
def calls() -> list[CallRecord]:
    return asked(Noisy(seed=2), jrh.datasheet_suite(n_tasks=6))


def test_every_axis_of_a_datasheet_has_its_reading_interval_n_and_what_was_left_out(calls: list[CallRecord]) -> None:
    sheet = jrh.measure(calls, n_resamples=20)
    lines = sheet_lines(sheet)
    for axis, head in (("dark_current", "dark current"), ("positional_false_preference", "positional (same slot")):
        one = sheet.estimates[axis]
        assert isinstance(one, Estimate)
        row = row_of(lines, head)
        assert with_interval(one) in row
        assert row.split()[-3:] == [str(one.n), f"{one.unit}s", str(one.excluded)]
    step = sheet.estimates["target_sensitivity/delta_2"]
    assert isinstance(step, Estimate)
    cells = f"{step.n}", with_interval(step)
    assert all(cell in row_of(lines, "2  ") for cell in cells)


def test_a_censored_threshold_is_a_bound_and_never_a_bare_number() -> None:
    blind = jrh.measure(asked(jrh.scripted.AlwaysTie(), jrh.datasheet_suite(n_tasks=6)), n_resamples=20)
    assert "> 5" in row_of(sheet_lines(blind), "threshold Δ75  ")
    sharp = jrh.measure(asked(jrh.scripted.Oracle(), jrh.datasheet_suite(n_tasks=6)), n_resamples=20)
    assert "≤ 1" in row_of(sheet_lines(sharp), "threshold Δ75  ")


def test_no_line_is_wider_than_a_screen_whatever_is_withheld_and_however_many_judges(calls: list[CallRecord]) -> None:
    lost = asked(Noisy(unparsed=0.4), jrh.datasheet_suite(n_tasks=6))
    few = asked(Noisy(seed=2), jrh.datasheet_suite(n_tasks=2, depth=1))
    many = compare_calls({f"a judge with a long name, {number}": few for number in range(7)}, n_resamples=20)
    mixed = compare_calls({"whole": calls, "lost": lost}, n_resamples=20)
    compared = [comparison_page(found).to_text() for found in (many, mixed)]
    shown = [sheet_lines(jrh.measure(lost, n_resamples=2)), *compared]
    assert all(len(line) <= WIDTH for lines in shown for line in lines)
    heads = [line for line in shown[1] if line.startswith("axis ") and "a judge with a long name" in line]
    assert len(heads) > 1, "seven judges stand in several blocks"
    assert all(sum(f"name, {number}" in line for line in heads) == 1 for number in range(7))


def test_a_test_that_lost_calls_shows_between_what_its_score_lies() -> None:
    said = ["error"] * 3 + ["yes"] * 5 + ["no"] * 4
    rows = points("baseline", [("yes", "yes")] * 12) + points("typos", [(one, "yes") for one in said])
    found = report(rows, max_excluded=0.05, labels=("no", "yes"))
    assert isinstance(found.scores["typos"], NotEstimable)
    lines = sheet_lines(found)
    assert row_of(lines, "typos").split() == ["typos", "between", "0.42", "and", "0.67", "–", "–", "3"]
    assert row_of(lines, "baseline").split()[-3:] == ["12", "calls", "0"]


def test_names_from_files_and_models_move_no_cursor() -> None:
    assert not any("\x1b" in line or "\x07" in line for line in aligned(["judge"], [[ESCAPE], ["two\nlines"]]))
    rows = points("baseline", [("yes", "yes")] * 4) + points(ESCAPE, [("yes", "yes")] * 4)
    assert not any("\x1b" in line for line in sheet_lines(report(rows, labels=("no", "yes"))))


def test_one_evaluation_is_a_screen_with_profile_cost_and_where_it_is(
    store_uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = jrh.datasheet_suite(n_tasks=4, depth=3)
    options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    done = jrh.evaluate(lambda shown: jrh.Answer("1", cost_usd=0.002), suite, run_name="priced", **options)
    print_evaluations([done], as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 50
    assert lines[3].startswith(done.verdict.sentences[0][:80])
    assert all(len(line) <= WIDTH for line in lines[:-3])
    assert f"cost: ${0.002 * len(done.calls):.4f}" in lines
    assert any(line.startswith("profile: ") for line in lines)
    assert any("tasks are few" in line for line in lines)
    # What has to be started first is said before the address.
    page = f"page: {done.view.command}   then {done.page_link}"
    assert lines[-3:] == [f"logged: {done.link}", page, f"all judges: {done.view_link}"]
    assert done.page_link == f"http://127.0.0.1:5000/jrh/run/{done.run_id}"
    assert not any("|" in line for line in lines)
    assert not any(word.replace(".", "").isdigit() and len(word) == 6 for line in lines[:-2] for word in line.split())
