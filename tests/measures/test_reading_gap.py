"""The gap between the two ladders: what known judges read, and that its interval by task holds the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.printing import comparison_rows
from tests.benchmarks.reading_gap import Cell, coverage
from tests.readings import asked, estimate, value


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.load_suite("datasheet")


def test_a_judge_that_counts_words_of_the_task_has_a_gap_of_about_a_half(suite):
    sheet = jrh.measure(asked(jrh.scripted.WordOverlap(), suite), n_resamples=50)
    gaps = [estimate(sheet, f"reading_gap/delta_{step}") for step in range(1, 6)]
    assert sum(gap.value for gap in gaps) / 5 == pytest.approx(0.5, abs=0.1)
    for gap in gaps:
        assert gap.n_clusters == 28
        assert (gap.cluster_low or 0) > 0
    assert value(sheet, "target_sensitivity/delta_1") > 0.85


def test_a_noisy_judge_reads_the_gap_it_was_given(suite):
    told, matched = {1: 0.9, 2: 0.9, 3: 0.9, 4: 0.9, 5: 0.9}, dict.fromkeys(range(1, 6), 0.6)
    judge = jrh.scripted.Noisy(sensitivity=told, matched=matched, icc=0.1, seed=4)
    sheet = jrh.measure(asked(judge, suite), n_resamples=50)
    held = [estimate(sheet, f"reading_gap/delta_{step}").cluster_interval or (1, 1) for step in range(1, 6)]
    assert sum(low <= 0.3 <= high for low, high in held) >= 4


@pytest.mark.parametrize(
    "cell",
    [
        Cell(icc=0.1, rate=0.6, gap=0.0, paired=False),
        Cell(icc=0.3, rate=0.8, gap=0.2, paired=False),
        Cell(icc=0.3, rate=0.98, gap=0.48, paired=True),
        Cell(icc=0.6, rate=0.8, gap=0.2, paired=True),
        Cell(icc=0.3, rate=0.8, gap=0.2, paired=False, n_tasks=12),
    ],
)
def test_the_interval_by_task_holds_the_true_gap_in_93_percent_of_runs(cell):
    """A short form of `python -m tests.benchmarks.reading_gap`; two standard errors of 100 runs are allowed."""
    covered, width = coverage(cell, n_runs=100)
    assert covered >= 0.93 - 2 * (0.93 * 0.07 / 100) ** 0.5
    assert width < 0.6


def test_a_strict_criterion_shifts_the_matched_ladder_as_it_shifts_the_ladder(store_uri):
    suite = jrh.datasheet_suite(n_tasks=2, depth=1)
    judge = jrh.scripted.Noisy(sensitivity={1: 0.9}, matched={1: 0.5})
    shift = jrh.criterion_shift(judge, suite, tracking_uri=store_uri, experiment="tests", progress=False)
    for axis in ("target_sensitivity/delta_1", "matched_sensitivity/delta_1"):
        assert f"criterion_shift/strict/{axis}/value" in shift.metrics
    for arm in shift.arms.values():
        assert isinstance(arm.datasheet.estimates["reading_gap/delta_1"], jrh.Estimate)


def test_the_new_axes_stand_in_mlflow_on_the_page_and_in_the_table(store_uri):
    done = jrh.evaluate(
        jrh.scripted.WordOverlap(),
        jrh.datasheet_suite(n_tasks=3, depth=2),
        tracking_uri=store_uri,
        experiment="tests",
        progress=False,
    )
    client = MlflowClient(store_uri)
    points = {point.step: point.value for point in client.get_metric_history(done.run_id, "matched_sensitivity/curve")}
    assert points == {step: value(done.datasheet, f"matched_sensitivity/delta_{step}") for step in (1, 2)}
    for key in ("reading_gap/delta_1/value", "reading_gap/delta_1/cluster_ci_low", "matched_sensitivity/delta_2/n"):
        assert key in done.metrics
    page = Path(client.download_artifacts(done.run_id, "datasheet.html")).read_text(encoding="utf-8")
    assert "better (same words, δ = 1)" in page
    assert {"reading gap", "δ = 2"} <= set(re.findall(">(reading gap|δ = 2)<", re.sub(r"</?a[^>]*>", "", page)))
    header, (row,) = comparison_rows([done])
    cells = dict(zip(header, row, strict=True))
    assert cells["reading gap (δ = 1)"].startswith(f"{value(done.datasheet, 'reading_gap/delta_1'):.2f} [")
    assert {"better (same words, δ = 1)", "threshold Δ75 (same words)"} <= set(cells)
