"""Figures of datasheets: what is written in them covers no reading."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.show.figures.canvas import png
from jrh_mlflow.show.figures.datasheet import datasheet_figures, planes, psychometric
from tests.readings import asked, pairs


def test_the_names_of_the_lines_stand_beside_the_curve_where_no_bar_can_be() -> None:
    calls = asked(jrh.scripted.AlwaysFirst(), jrh.load_suite("datasheet-short"))
    figure = psychometric({"first": jrh.measure(calls, n_resamples=20).estimates})
    assert figure is not None
    renderer = FigureCanvasAgg(figure).get_renderer()
    (axes,) = figure.axes
    inside, page = axes.get_window_extent(renderer), figure.bbox
    names = {text.get_text(): text.get_window_extent(renderer) for text in axes.texts}
    assert set(names) == {"75 %", "coin"}
    for box in names.values():
        assert box.x0 >= inside.x1
        assert box.x1 <= page.x1


@pytest.fixture(scope="module")
def three() -> dict[str, Mapping[str, Reading]]:
    return sheets(jrh.datasheet_suite(n_tasks=6))


def sheets(suite: jrh.Suite) -> dict[str, Mapping[str, Reading]]:
    judges = (jrh.scripted.WordOverlap(), jrh.scripted.Noisy(seed=2), jrh.scripted.Oracle())
    return {judge.name: jrh.measure(asked(judge, suite), n_resamples=20).estimates for judge in judges}


def test_the_matched_ladder_stands_beside_the_ladder_hollow_and_broken_in_the_judges_colour(
    three: dict[str, Mapping[str, Reading]],
) -> None:
    figure = psychometric(three)
    assert figure is not None
    (axes,) = figure.axes
    lines = [one.lines[0] for one in axes.containers]
    assert [line.get_linestyle() for line in lines] == ["-", "--"] * 3
    for ladder, matched in zip(lines[::2], lines[1::2], strict=True):
        assert (ladder.get_color(), ladder.get_marker()) == (matched.get_color(), matched.get_marker())
        assert ladder.get_markerfacecolor() != matched.get_markerfacecolor() == "white"


def test_where_each_judge_has_two_curves_their_names_stand_below_and_cover_nothing(
    three: dict[str, Mapping[str, Reading]],
) -> None:
    figure = psychometric({f"{name} as it answers in the second week": own for name, own in three.items()})
    assert figure is not None
    renderer = FigureCanvasAgg(figure).get_renderer()
    (legend,) = figure.legends
    box, drawn = legend.get_window_extent(renderer), figure.axes[0].get_tightbbox(renderer)
    assert drawn is not None
    assert 0 <= box.y0 < box.y1 <= drawn.y0
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    labels = [text.get_text() for text in legend.get_texts()]
    assert [", matched   Δ75" in label for label in labels] == [False, True] * 3


def test_without_a_matched_ladder_the_curve_is_drawn_as_it_was() -> None:
    figure = psychometric(sheets(jrh.datasheet_suite(design="paper", n_tasks=2)))
    assert figure is not None
    assert figure.legends == []
    assert len(figure.axes[0].containers) == 3


@pytest.mark.parametrize("name", [r"$\frac$", "评审", "red\x1b[31m", "costs $5, not $6"])
def test_a_name_is_drawn_as_it_is_whatever_is_in_it(name: str) -> None:
    """No formula between dollars, and no warning about a letter that the font lacks."""
    sheet = jrh.measure(pairs([("1", "1"), ("1", "2")] * 10))
    for figure in datasheet_figures({name: sheet.estimates, "other": sheet.estimates}).values():
        assert png(figure).startswith(b"\x89PNG")


def test_the_planes_of_the_paper_have_each_judge_where_it_reads(three: dict[str, Mapping[str, Reading]]) -> None:
    across = {"dark_current": "dark_current", "positional": "positional_false_preference"}
    drawn = planes(three)
    assert set(drawn) == {f"{name}_by_stable.png" for name in across}
    for name, axis in across.items():
        figure = drawn[f"{name}_by_stable.png"]
        assert figure is not None
        points = {bars.get_label(): bars.lines[0].get_xydata()[0].tolist() for bars in figure.axes[0].containers}
        assert list(points.values()) == [
            [own[axis].value, own["stable_cross_sensitivity"].value] for own in three.values()
        ]
    assert set(planes(dict([next(iter(three.items()))])).values()) == {None}, "one judge makes no plane"
