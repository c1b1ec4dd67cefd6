"""Figures with prices, near and far apart: no formula, no text outside the page, prices that can be read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

from jrh_mlflow.show.figures.canvas import plain_texts
from jrh_mlflow.show.figures.reliability import cost_curve
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.sweeps.sweep_view import sweep_figures
from tests.cases import few
from tests.comparing.jury.jury_tools import erring, family_errors
from tests.sweeps.test_sweep_markdown import dot, page_of

pytestmark = pytest.mark.drawn
LONG = "model=a-provider/of-a-model-with-a-long-name, prompt=graded, criterion=strict, temperature=0.7, votes=3"
APART = [1, 5.1, 21, 1000]


def sweep_map(cheap: float, apart: float) -> Figure:
    dots = [
        dot(LONG, 0.7, cheap, on_front=True),
        dot(f"{LONG}, rubric=short", 0.9, cheap * apart, on_front=True, tied=True),
        dot("left", 0.4, cheap * apart**0.5, held_out=False, stopped=True),
    ]
    return sweep_figures(dots, (), title=f"Sweep on {LONG}")["pareto.png"]


def spent_curve(cheap: float, apart: float) -> Figure:
    wrong = family_errors(2, 40, copies=0.3, error=0.3, seed=1)
    judges = {"cheap": cheap, LONG: cheap * apart}
    curve = cost_curve({name: erring(wrong[:, at], cost_usd=usd) for at, (name, usd) in enumerate(judges.items())})
    assert curve is not None
    return curve


def drawn_ticks(axis: Axis) -> list[Text]:
    """Labels of the ticks between the ends of an axis: matplotlib keeps some beyond them and draws none of those."""
    low, high = sorted(axis.get_view_interval())
    labels = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    minor = zip(axis.get_minorticklocs(), axis.get_minorticklabels(), strict=True)
    return [label for place, label in (*labels, *minor) if low <= place <= high and label.get_text()]


@pytest.mark.parametrize("apart", few(APART[::-1], quick=2))
@pytest.mark.parametrize("draw", [sweep_map, spent_curve])
def test_prices_are_plain_dollars_and_every_label_is_whole(draw, apart):
    for cheap in (0.00003, 7.0):
        figure = draw(cheap, apart)
        with plain_texts(figure):
            figure.draw_without_rendering()
        axes = figure.axes[0]
        prices = drawn_ticks(axes.xaxis)
        assert len(prices) >= 2
        assert all(label.get_text().startswith("$") for label in prices)
        boxes = sorted((label.get_window_extent() for label in prices), key=lambda box: box.x0)
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes)), [label.get_text() for label in prices]
        ticks = {*axes.xaxis.findobj(Text), *axes.yaxis.findobj(Text)} - {axes.xaxis.label, axes.yaxis.label}
        others = [text for text in figure.findobj(Text) if text not in ticks and text.get_text()]
        for text in (*prices, *drawn_ticks(axes.yaxis), *others):
            assert "mathdefault" not in text.get_text()
            box = text.get_window_extent()
            assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, text.get_text()
            assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, text.get_text()


def test_the_names_of_configurations_are_not_cut():
    written = " ".join(" ".join(text.get_text() for text in sweep_map(1.0, 3.0).texts).split())
    assert f"{LONG}, rubric=short" in written


def test_what_was_stopped_early_is_a_cross_on_the_map_and_named_on_the_page():
    stopped = dot("stopped", 0.4, 0.2, held_out=False, stopped=True)
    page = page_of([dot("best", 0.9, 0.3), stopped], stopped=[])
    assert f"stopped: 0.40 [0.35, 0.45], {money_text(0.2)} per 1,000 judgments, stopped early" in page
    figure = sweep_figures([dot("best", 0.9, 0.3), stopped], (), title="t")["pareto.png"]
    markers = [line.get_marker() for line in figure.axes[0].get_lines() if line.get_alpha() != 0]
    assert (markers.count("o"), markers.count("x")) == (1, 1)
