"""Figures of reliability reports: what they show is in them, whatever the number and names of judges and tests."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from matplotlib.figure import Figure

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.show.figures.reliability import cost_curve, heatmap, report_figures
from tests.comparing.comparing_tools import LABELS, oracle, point_calls

TESTS = ("typos", "stochastic_stability", "error_injection_1")


def wrong(source, condition, replicate):
    return LABELS[(int(source[1:]) + 1) % 5]


def deaf(source, condition, replicate):
    return None if condition == "typos" else oracle(source, condition, replicate)


def texts(figure: Figure) -> str:
    """Draw the figure and return every text in it."""
    figure.savefig(io.BytesIO(), format="png", dpi=50)
    found = [text.get_text() for axes in figure.axes for text in axes.texts]
    ticks = [label.get_text() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    return "\n".join([*found, *ticks, *(text.get_text() for text in figure.texts)])


def test_the_heatmap_prints_value_interval_n_and_letters_in_each_cell():
    given = {"right": oracle, "deaf": deaf, "wrong": wrong}
    judges = {name: point_calls(judge, tests=TESTS) for name, judge in given.items()}
    found = compare_calls(judges, n_resamples=100, labels=LABELS)
    figure = heatmap(found.cells, letters=found.letters)
    assert figure is not None
    shown = texts(figure)
    reading = found.cells["baseline"]["right"]
    assert "1.00  a" in shown
    assert f"[{reading.cluster_low:.2f}, {reading.cluster_high:.2f}]  n 12" in shown
    assert "between\n0.00 and 1.00" in shown
    assert "mean over tests" in shown
    assert "same letter: no significant difference" in shown


def test_the_baseline_and_the_mean_stand_apart_from_the_tests():
    judges = {"a": point_calls(oracle, tests=("t1", "t2", "t3")), "b": point_calls(wrong, tests=("t1", "t2", "t3"))}
    figure = heatmap(compare_calls(judges, n_resamples=100, labels=LABELS).cells)
    assert figure is not None
    ticks = list(figure.axes[0].get_yticks())
    gaps = [round(after - before, 6) for before, after in pairwise(ticks)]
    assert gaps[0] > gaps[1] == gaps[2] < gaps[3]


@pytest.mark.parametrize(("n_judges", "n_tests"), [(2, 1), (8, 4), (2, 20)])
def test_no_text_of_a_heatmap_leaves_the_page(n_judges, n_tests):
    reading = jrh.measure(point_calls(wrong), labels=LABELS).scores["typos"]
    names = [f"some-provider/a-model-with-a-very-long-name-{index}" for index in range(n_judges)]
    cells = {f"a_test_with_a_rather_long_name_{row}": dict.fromkeys(names, reading) for row in range(n_tests)}
    figure = heatmap(cells)
    assert figure is not None
    figure.canvas.draw()
    page = figure.bbox
    axes = figure.axes[0]
    for text in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels(), *figure.texts):
        box = text.get_window_extent()
        assert page.x0 <= box.x0 < box.x1 <= page.x1, text.get_text()
        assert page.y0 <= box.y0 < box.y1 <= page.y1, text.get_text()
    assert len({label.get_text() for label in axes.get_xticklabels()}) == n_judges, "names that differ look the same"
    heads = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(left.x1 <= right.x0 for left, right in pairwise(heads)), "names overlap"


def test_a_heatmap_of_nothing_is_not_drawn():
    assert heatmap({}) is None
    assert heatmap({"typos": {"a": jrh.NotEstimable(reason="no calls")}}) is None


def test_low_false_preference_is_as_bright_as_high_accuracy():
    def brightness(axis: str, value: float) -> float:
        share = jrh.measure(point_calls(oracle if value else wrong), labels=LABELS).scores["typos"]
        figure = heatmap({axis: {"a": share}})
        assert figure is not None
        return sum(figure.axes[0].patches[0].get_facecolor()[:3])

    assert brightness("typos", 1.0) > brightness("typos", 0.0)
    assert brightness("dark_current", 0.0) > brightness("dark_current", 1.0)


def test_one_judge_has_a_chart_of_scores_beside_its_own_baseline_and_a_cost_curve():
    calls = point_calls(wrong, tests=TESTS, cost_usd=0.01)
    figures = report_figures(jrh.measure(calls, labels=LABELS), calls, "wrong judge")
    assert set(figures) == {"reliability.png", "cost_curve.png"}
    shown = texts(figures["reliability.png"])
    assert "baseline" in shown
    assert "(all replicates agree)" in shown
    assert "n 12" in shown
    labels = [text.get_text() for text in figures["reliability.png"].legends[0].get_texts()]
    assert labels == ["score", "same answer as its own baseline"]


def test_without_known_costs_there_is_no_cost_curve():
    assert cost_curve({"unknown": point_calls(oracle)}) is None
    assert cost_curve({"free": point_calls(oracle, cost_usd=0.0)}) is None
    calls = point_calls(oracle)
    assert set(report_figures(jrh.measure(calls, labels=LABELS), calls, "judge")) == {"reliability.png"}


def test_a_cost_curve_of_dear_and_cheap_judges_is_logarithmic():
    dear, cheap = point_calls(oracle, cost_usd=1.0), point_calls(wrong, cost_usd=0.01)
    plain, wide = cost_curve({"dear": dear}), cost_curve({"dear": dear, "cheap": cheap, "unknown": point_calls(wrong)})
    assert plain is not None
    assert wide is not None
    assert (plain.axes[0].get_xscale(), wide.axes[0].get_xscale()) == ("linear", "log")
    labels = [text.get_text() for text in wide.axes[0].get_legend().get_texts()]
    assert labels == ["dear   1.00 for $24, n 24", "cheap   0.00 for $0.24, n 24"]
