"""The figures of every run are written without matplotlib, and say what those of matplotlib say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Bounds, Estimate, NotEstimable, Reading
from jrh_mlflow.show.figures.datasheet import datasheet_figures, judge_drawings
from jrh_mlflow.show.figures.svg import draw, standalone_svg
from jrh_mlflow.show.page import Drawing
from tests.readings import asked

Sheet = Mapping[str, Reading]


@pytest.fixture(scope="module")
def pairs() -> Sheet:
    calls = asked(jrh.scripted.Noisy(seed=2), jrh.datasheet_suite(n_tasks=6), replicates=2)
    return jrh.measure(calls, n_resamples=20).estimates


@pytest.fixture(scope="module")
def pointwise() -> Sheet:
    suite = jrh.datasheet_suite(design="pointwise", n_tasks=4)
    return jrh.measure(asked(jrh.scripted.Oracle(), suite), labels=suite.labels, n_resamples=20).estimates


def titles(drawing: Drawing) -> list[str]:
    return sorted(str(Markup(text).unescape()) for text in re.findall(r"<title>(.*?)</title>", drawing.svg))


@pytest.mark.parametrize("kind", ["pairs", "pointwise"])
def test_each_figure_says_when_pointed_at_what_that_of_matplotlib_says(
    kind: str, request: pytest.FixtureRequest
) -> None:
    sheet: Sheet = request.getfixturevalue(kind)
    said = {drawing.name: titles(drawing) for drawing in judge_drawings("a judge", sheet)}
    drawn = {drawing.name: titles(drawing) for drawing in draw(datasheet_figures({"a judge": sheet}))}
    of_pairs = {"psychometric_curve", "delta_0_decomposition", "variation"}
    assert (
        said.keys()
        == drawn.keys()
        == (of_pairs if kind == "pairs" else {"answer_by_level", "separation"}) | {"axes_map"}
    )
    for name, words in drawn.items():
        # There a curve says its label, too, and names of rows are broken into lines.
        assert said[name] == [" ".join(own.split()) for own in words if ": " in own], name


def test_a_file_is_whole_xml_and_has_no_variable_left(pairs: Sheet) -> None:
    for drawing in judge_drawings("<b>&\x00\ud800 judge", pairs):
        file = standalone_svg(drawing)
        assert "var(" not in file
        assert not [element for element in ET.fromstring(file).iter() if element.tag.endswith("}b")]


def test_what_is_withheld_is_a_broken_line_without_a_point(pairs: Sheet) -> None:
    key = "target_sensitivity/delta_3"
    told = pairs[key]
    assert isinstance(told, Estimate)
    bounds = Bounds(low=0.2, high=0.9, asked=40, lost={"error": 20})
    gone = NotEstimable(reason="lost", statistic="rate", n=40, withheld=True, bounds=bounds)
    whole, without = (judge_drawings("j", {**pairs, key: reading})[0].svg for reading in (told, gone))
    assert without.count("<circle") == whole.count("<circle") - 1
    assert "bounds of what is withheld" in without
    assert "bounds of what is withheld" not in whole
    # Nothing was measured between the steps beside it.
    assert "1.5 3" in without
    assert "1.5 3" not in whole


def test_a_point_at_the_end_of_its_scale_has_its_interval(pairs: Sheet) -> None:
    key = "dark_current"
    told = pairs[key]
    assert isinstance(told, Estimate)
    sure = replace(told, value=0.0, cluster_low=None, cluster_high=0.25, ci_low=None, ci_high=None)
    (drawing,) = (each for each in judge_drawings("j", {key: sure}) if each.name == "axes_map")
    (start, end), *_ = re.findall(r'd="M([\d.]+) [\d.]+H([\d.]+)"', drawing.svg)
    assert float(end) - float(start) == pytest.approx(0.25 * 380, abs=0.1)
