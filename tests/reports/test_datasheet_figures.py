"""Figures of datasheets: what is written in them covers no reading."""

from __future__ import annotations

from matplotlib.backends.backend_agg import FigureCanvasAgg

import jrh_mlflow as jrh
from jrh_mlflow.reports.figures.datasheet import psychometric


def test_the_names_of_the_lines_stand_beside_the_curve_where_no_bar_can_be(store_uri: str) -> None:
    done = jrh.evaluate(jrh.scripted.AlwaysFirst(), "datasheet-short", tracking_uri=store_uri, traces="none")
    figure = psychometric({"first": done.datasheet.estimates})
    assert figure is not None
    renderer = FigureCanvasAgg(figure).get_renderer()
    (axes,) = figure.axes
    inside, page = axes.get_window_extent(renderer), figure.bbox
    names = {text.get_text(): text.get_window_extent(renderer) for text in axes.texts}
    assert set(names) == {"75 %", "coin"}
    for box in names.values():
        assert box.x0 >= inside.x1
        assert box.x1 <= page.x1
