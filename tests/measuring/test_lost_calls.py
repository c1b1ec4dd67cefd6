"""A judge that is cut off in 18 % of its calls: no axis has a number, each shows its bounds, and they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.printing import comparison_rows, print_evaluations
from jrh_mlflow.comparing.comparison_view import comparison_tables
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.measures.axes import AXES, declared
from jrh_mlflow.schema.estimates import Bounds
from jrh_mlflow.show.figures.datasheet import axes_map, psychometric
from jrh_mlflow.show.figures.reliability import score_chart
from jrh_mlflow.show.names import axis_name, reason_text
from jrh_mlflow.show.numbers import bounds_text
from jrh_mlflow.show.plain_text import shortened
from jrh_mlflow.show.sheets import sheet_lines, sheet_sections
from jrh_mlflow.tracking.runs.keys import sheet_points
from tests.measures.pointwise import points, report
from tests.readings import Row, asked

LOST = 0.18
FORM = re.compile(r"between (?:≤ |> )?-?[\d.]+ and (?:≤ |> )?-?[\d.]+ \([\d.]+ % of [\d,]+ calls lost: withheld\)")


def bounds_of(sheet: jrh.Datasheet) -> dict[str, Bounds]:
    found = {axis: one.bounds for axis, one in sheet.estimates.items() if isinstance(one, jrh.NotEstimable)}
    return {axis: bounds for axis, bounds in found.items() if bounds is not None}


@pytest.fixture(scope="module")
def paper() -> jrh.Suite:
    return jrh.datasheet_suite(design="paper", n_tasks=6)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_what_the_judge_reads_when_nothing_is_lost(paper: jrh.Suite, seed: int) -> None:
    whole = jrh.measure(asked(Noisy(seed=seed), paper), n_resamples=2)
    cut_off = jrh.measure(asked(Noisy(seed=seed, unparsed=LOST), paper), n_resamples=2)
    assert 0.12 < cut_off.outcomes["unparsed"] / sum(cut_off.outcomes.values()) < 0.24
    bounds = bounds_of(cut_off)
    withheld = {axis for axis, one in cut_off.estimates.items() if isinstance(one, jrh.NotEstimable)}
    # Shares of variance have no bounds: no completion makes each of them least or greatest.
    assert set(bounds) == {axis for axis in withheld if not axis.startswith("variance/")}
    assert len(bounds) > 0.7 * len(cut_off.estimates)
    for axis, own in bounds.items():
        reading = whole.estimates[axis]
        assert isinstance(reading, jrh.Estimate)
        assert own.low - 1e-12 <= reading.value <= own.high + 1e-12, axis


@pytest.mark.parametrize("lost", ["u", "v", "1", "2", "tie"])
def test_bounds_hold_also_when_what_is_lost_depends_on_the_answer(paper: jrh.Suite, lost: str) -> None:
    """Cut off wherever it would have said so, up to 18 % of the calls: no interval could hold then, bounds do."""
    records = [asdict(record) for record in asked(Noisy(), paper)]
    whole, left = jrh.measure(records, n_resamples=2), int(LOST * len(records))
    for row in records:
        content = row["outcome"] if row["outcome"] == "tie" else "uv"[(row["answer"] == "1") != (row["order"] == "uv")]
        if left and lost in (content, row["answer"]):
            row |= {"outcome": "unparsed", "answer": ""}
            left -= 1
    cut_off = bounds_of(jrh.measure(records, n_resamples=2))
    assert cut_off
    for axis, own in cut_off.items():
        reading = whole.estimates[axis]
        assert isinstance(reading, jrh.Estimate)
        assert own.low - 1e-12 <= reading.value <= own.high + 1e-12, axis


@pytest.fixture(scope="module")
def done(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[jrh.Evaluation]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        suite = jrh.datasheet_suite(design="paper", n_tasks=3, depth=3)
        options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
        yield jrh.evaluate(Noisy(seed=2, unparsed=0.3), suite, **options)


def artifact(done: jrh.Evaluation, store_uri: str, name: str, folder: Path) -> str:
    path = MlflowClient(tracking_uri=store_uri).download_artifacts(done.run_id, name, str(folder))
    return Path(path).read_text(encoding="utf-8")


def shown_axes(done: jrh.Evaluation) -> dict[str, Bounds]:
    found = bounds_of(done.datasheet)
    shares = {axis.main_key for axis in AXES if axis.hits and axis.main_key in done.datasheet.estimates}
    assert shares <= set(found), "the judge of this test must lose too much of every share"
    return found


def test_every_axis_shows_its_bounds_where_its_number_would_stand(
    done: jrh.Evaluation, store_uri: str, tmp_path: Path
) -> None:
    page = artifact(done, store_uri, "datasheet.html", tmp_path)
    markdown = artifact(done, store_uri, "datasheet.md", tmp_path)
    data = json.loads(artifact(done, store_uri, "datasheet.json", tmp_path))["estimates"]
    for axis, bounds in shown_axes(done).items():
        text = bounds_text(bounds)
        assert FORM.fullmatch(text), text
        cell = r'<td (?:data-head="reading" class="bounds" colspan="4"|data-head="[^"]+" class="bounds")>'
        assert re.search(cell + re.escape(text.replace(">", "&gt;")), page), axis
        assert declared(axis).cell is None or text in markdown, axis
        assert (data[axis]["bounds"]["low"], data[axis]["bounds"]["high"]) == (bounds.low, bounds.high)
        assert "value" not in data[axis]
        assert done.withheld[axis].endswith(f"; {text}"), axis
    assert "is no number" in page
    assert "is no number" in markdown


def test_the_description_of_the_run_shows_bounds(done: jrh.Evaluation, store_uri: str) -> None:
    run = MlflowClient(tracking_uri=store_uri).get_run(done.run_id)
    assert bounds_text(bounds_of(done.datasheet)["dark_current"]) in run.data.tags["mlflow.note.content"]


def test_a_description_that_is_cut_keeps_what_bounds_are_and_those_of_every_section() -> None:
    text = jrh.measure(asked(Noisy(unparsed=LOST), jrh.datasheet_suite()), n_resamples=2).to_markdown()
    shown = shortened(text, artifact="datasheet.md")
    assert len(shown) < len(text), "the suite of this test must have more to say than fits"
    assert "is no number" in shown
    bounded, _, _ = text.partition("### Without a number")
    assert len(FORM.findall(shown)) == len(FORM.findall(bounded)) > 40


def test_no_bound_is_ever_a_metric(done: jrh.Evaluation, store_uri: str) -> None:
    withheld = set(bounds_of(done.datasheet))
    logged = MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.metrics
    keys = {*logged, *done.metrics, *(point.key for point in sheet_points(done.datasheet))}
    assert not {key for key in keys if key.rpartition("/")[0] in withheld}
    assert not {key for key in keys if "bound" in key}


def test_the_terminal_shows_bounds_for_one_judge_and_for_several(
    done: jrh.Evaluation, capsys: pytest.CaptureFixture[str]
) -> None:
    bounds = bounds_of(done.datasheet)["raw_false_preference"]
    text = bounds_text(bounds)
    print_evaluations([done], as_json=False, markdown=True)
    assert f"| raw false preference | {text} |" in capsys.readouterr().out
    print_evaluations([done], as_json=False)
    rows = capsys.readouterr().out.splitlines()
    (row,) = [row for row in rows if row.startswith("raw false preference ")]
    assert f"between {bounds.low:.2f} and {bounds.high:.2f} " in row
    reason = reason_text(done.datasheet.withheld["raw_false_preference"]).partition(", over the limit")[0]
    assert any(row.startswith(f"withheld: {reason}: raw false preference") for row in rows)
    header, (row, _) = comparison_rows([done, done])
    cells = dict(zip(header, row, strict=True))
    assert cells["raw false preference"] == text
    assert FORM.fullmatch(cells["threshold Δ75"])
    assert "n/a" not in row


def test_judges_are_never_compared_by_bounds_but_see_them(done: jrh.Evaluation, store_uri: str) -> None:
    options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    other = jrh.evaluate(Noisy(seed=3), done.suite, **options)
    compared = jrh.compare([done.run_id, other.run_id], tracking_uri=store_uri, log=False)
    contrasts = compared.contrasts
    withheld = bounds_of(done.datasheet)
    assert {one.axis for one in contrasts.differences}.isdisjoint(withheld)
    text = compared.to_markdown()
    for axis in ("dark_current", "raw_false_preference", "target_sensitivity/delta_1"):
        assert f"| {bounds_text(withheld[axis])} |" in text, axis
        assert axis not in contrasts.letters, axis
    scores = comparison_tables(contrasts)["scores"].set_index(["axis", "judge"])
    row = scores.loc["dark_current", contrasts.judges[0]]
    assert row["bounds"] == bounds_text(withheld["dark_current"])
    assert row[["value", "low", "high"]].isna().all()
    reason = contrasts.cells["dark_current"][contrasts.judges[0]].reason
    assert f'title="{bounds_text(withheld["dark_current"])}: {reason}"' in compared.to_html()


@pytest.mark.drawn
def test_figures_draw_bounds_as_brackets_without_a_point(done: jrh.Evaluation) -> None:
    for figure in (psychometric({"cut": done.datasheet.estimates}), axes_map({"cut": done.datasheet.estimates})):
        assert figure is not None
        (axes,) = figure.axes
        # Places to point at are there, and are not seen.
        seen = [line for line in axes.lines if line.get_alpha() != 0]
        drawn = [line for line in seen if line.get_marker() in "osD^vPX*" and len(line.get_xdata())]
        assert drawn == []
        assert any(len(bars.get_segments()) for bars in axes.collections)


def test_a_shift_between_arms_that_lost_calls_shows_its_bounds(store_uri: str, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JRH_HOME", str(tmp_path))
    suite = jrh.datasheet_suite(design="paper", n_tasks=2, depth=1)
    options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    shift = jrh.criterion_shift(Noisy(unparsed=0.3), suite, **options)
    label = f"| {axis_name('tie_rate/delta_0_same')} |"
    rows = [line for line in shift.to_markdown().splitlines() if line.startswith(label)]
    assert rows
    for row in rows:
        before, after, moved, *others = (cell.strip() for cell in row.strip("|").split("|")[1:])
        assert all(FORM.fullmatch(cell) for cell in (before, after, moved)), row
        assert others == ["–", "–"]


def reliability_rows() -> list[Row]:
    """Two tests on twelve sources, of which one lost three calls and the other none."""
    said = ["error"] * 3 + ["yes"] * 5 + ["no"] * 4
    base = points("baseline", [("yes", "yes")] * 12)
    return base + points("typos", [(one, "yes") for one in said]) + points("markdown", [("yes", "yes")] * 12)


@pytest.mark.drawn
def test_a_reliability_report_shows_bounds_in_markdown_page_and_chart() -> None:
    found = report(reliability_rows(), max_excluded=0.05, labels=("no", "yes"))
    text = "between 0.42 and 0.67 (25 % of 12 calls lost: withheld)"
    headline = next(line for line in found.to_markdown().splitlines() if line.startswith("| typos | between"))
    assert headline.startswith(f"| typos | {text} |")
    assert "is no number" in found.to_markdown()
    ((scores,), _) = sheet_sections(found)
    (score,) = [row for row in scores.blocks[0].rows if row.label == "typos"]
    assert (score.value, score.bounds, score.bar) == (text, True, (5 / 12, 8 / 12))
    chart = score_chart(found, judge="cut")
    assert chart is not None
    assert [label.get_text() for label in chart.axes[0].get_yticklabels()] == ["baseline", "markdown", "typos"]
    assert "bounds of a withheld score" in [each.get_text() for each in chart.legends[0].get_texts()]
    assert "typos" not in found.profile, "a withheld score is not the weakest"
    assert found.summary["n_tests"] == 1


def test_there_is_no_mean_over_tests_where_one_of_them_is_withheld() -> None:
    cut_off = jrh.measure(reliability_rows(), labels=("no", "yes"))
    assert set(cut_off.summary) == {"n_tests", "mean", "sd", "min", "max", "mean_ci_low", "mean_ci_high"}
    assert {name for name, value in cut_off.summary.items() if value is not None} == {"n_tests"}
    assert "typos" in cut_off.mean_withheld
    assert cut_off.withheld["reliability/mean"] == cut_off.withheld["reliability/min"] == cut_off.mean_withheld
    assert not [point.key for point in sheet_points(cut_off) if point.key in ("reliability/mean", "reliability/min")]
    for text in (cut_off.to_markdown(), "\n".join(sheet_lines(cut_off)), cut_off.brief):
        assert "1 of 2 tests" in " ".join(text.split()) or "mean" not in text
    whole = jrh.measure([row for row in reliability_rows() if row["condition"] != "typos"], labels=("no", "yes"))
    assert whole.summary["mean"] is not None
    assert not whole.mean_withheld
