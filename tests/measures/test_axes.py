"""Declarations of axes: one entry is enough, and a number without one is an error."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.cli.printing import comparison_rows
from jrh_mlflow.comparing.criterion_shift import difference
from jrh_mlflow.measures import axes
from jrh_mlflow.measures.axes import Axis, by_section, by_step, declared, find, lower_is_better
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measures.unit_scores import unit_scores
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.show.sheets import sheet_page
from jrh_mlflow.tracking.runs import keys
from tests.readings import asked, pairs

CHOICES = ("u", "v", "tie", "abstain")
FIRST = Axis(
    name="first_content",
    label="prefers u",
    stimuli=declared("filler_preference").stimuli,
    hits=lambda choice, _: choice == "u",
    meaning="Share of filler calls that prefer the content without padding.",
    direction="higher",
    column=True,
    figure=True,
)


def declare(monkeypatch: pytest.MonkeyPatch, *more: Axis) -> None:
    monkeypatch.setattr(axes, "AXES", (*axes.AXES, *more))


@pytest.fixture(scope="module")
def calls() -> Any:
    return asked(jrh.scripted.Noisy(seed=3), jrh.datasheet_suite(n_tasks=4))


@pytest.mark.drawn
def test_one_declaration_is_measured_shown_compared_and_logged(monkeypatch: pytest.MonkeyPatch, calls: Any) -> None:
    declare(monkeypatch, FIRST)
    sheet = jrh.measure(calls)
    reading = sheet.estimates["first_content"]
    assert isinstance(reading, Estimate)
    assert reading.value == pytest.approx(1 - sheet.estimates["filler_preference"].value)
    section = sheet.to_markdown().partition("### Controls")[2]
    assert f"| prefers u | {reading.value:.2f} |" in section
    page = sheet_page(sheet, title="noisy", facts={}, judge={}).to_html().partition(">Controls</h2>")[2]
    assert f'<span class="name">prefers u</span> <small>{FIRST.meaning}' in page.partition("</section>")[0]
    logged = {point.key: point.value for point in keys.sheet_points(sheet)}
    assert logged["first_content/rate"] == reading.value
    assert logged["first_content/n"] == reading.n
    scores = unit_scores(normalise(calls))
    assert scores[scores["axis"] == "first_content"]["score"].mean() == pytest.approx(reading.value)
    judge = SimpleNamespace(sheet=sheet, judge=SimpleNamespace(label="noisy"), calls=calls)
    header, (row,) = comparison_rows([judge])
    assert row[header.index("prefers u")].startswith(f"{reading.value:.2f} [")
    from jrh_mlflow.show.figures.datasheet import axes_map

    assert "prefers u" in [label.get_text() for label in axes_map({"a": sheet.estimates}).axes[0].get_yticklabels()]


def test_what_is_not_declared_is_an_error_and_never_left_out(calls: Any) -> None:
    sheet = jrh.measure(calls)
    more = replace(sheet, estimates={**sheet.estimates, "dark_currant": sheet.estimates["dark_current"]})
    with pytest.raises(ValueError, match=r"'dark_currant' has no declaration.*Did you mean 'dark_current'"):
        more.to_markdown()
    assert find("target_sensitivity") is None, "a family has a number at its steps only"
    assert not lower_is_better("typos")


def test_families_of_other_stimuli_are_declarations_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ladder of its own, the difference of two axes step by step, and a second threshold."""
    other = replace(declared("natural/accuracy").stimuli, name="second", section="Second ladder")
    declare(
        monkeypatch,
        replace(declared("target_sensitivity/delta_1"), name="second_sensitivity", stimuli=other, part=None),
        Axis(
            name="gap",
            label="gap",
            stimuli=other,
            by_step=True,
            statistic="value",
            meaning="Sensitivity on the ladder minus that on the second one.",
            derived=lambda basis: difference(basis.reading("second_sensitivity"), basis.reading("target_sensitivity")),
        ),
        replace(declared("threshold_75"), name="second_threshold_75", stimuli=other),
    )
    right, wrong = [("1", "2")] * 20, [("2", "1")] * 20
    rows = [
        *pairs(right, name="one", condition="ladder", delta=1, better="u"),
        *pairs(wrong, name="two", condition="natural", delta=1, better="u"),
        *pairs(right, name="three", condition="ladder", delta=2, better="u"),
        *pairs(right, name="four", condition="natural", delta=2, better="u"),
        *pairs(right, name="five", condition="natural", delta=3, better="u"),
    ]
    sheet = jrh.measure(rows, n_resamples=20)
    gap = by_step(sheet.estimates, "gap")
    values = {step: reading.value for step, reading in gap.items() if isinstance(reading, Estimate)}
    assert values == {1.0: 1.0, 2.0: 0.0}
    assert gap[3.0] == jrh.NotEstimable(reason="other arm: target_sensitivity was not measured at this step")
    assert sheet.estimates["second_threshold_75"].value == pytest.approx(1.75)
    text = sheet.to_markdown().partition("### Second ladder (95 % by task)")[2]
    assert "| δ | chooses the better | gap | n calls |" in text
    assert "Threshold Δ75: **1.75**" in text
    logged = {(point.key, point.step) for point in keys.sheet_points(sheet)}
    assert {("gap/delta_1/value", 0), ("second_sensitivity/curve", 2), ("second_threshold_75/value", 0)} <= logged


@pytest.mark.parametrize("axis", [one for one in axes.AXES if one.hits], ids=lambda one: one.name)
def test_an_event_says_the_same_of_one_call_and_of_arrays(axis: Axis) -> None:
    assert axis.hits is not None
    seen = [*itertools.product(CHOICES, repeat=1 if axis.unit == "call" else 2)]
    columns = [np.array(column, object) for column in zip(*seen, strict=True)]
    together = axis.hits(*columns, np.full(len(seen), "u", object))
    assert [bool(one) for one in together] == [bool(axis.hits(*one, "u")) for one in seen]


def test_every_estimate_has_its_declaration_and_its_kind_of_number(calls: Any) -> None:
    frame = normalise(calls).assign(confidence=0.7, rationale="Response A is better.")
    equal = normalise(pairs([("tie", "2")] * 4, condition="natural_tie"))
    natural = normalise(pairs([("1", "2"), ("tie", "1")] * 4, condition="natural", better="u")).assign(confidence=0.9)
    single = asked(jrh.scripted.Oracle(), jrh.datasheet_suite(design="pointwise", n_tasks=2))
    twice = [{**row, "replicate": nth} for nth in (0, 1) for row in pairs([("1", "2")] * 4, delta=0)]
    estimates = {
        key: reading
        for rows in (frame, natural, equal, single, twice)
        for key, reading in jrh.measure(rows).estimates.items()
    }
    shown = [key for keys_ in by_section(estimates).values() for key in keys_]
    assert sorted(shown) == sorted(estimates)
    assert {declared(key).name for key in estimates} == {axis.name for axis in axes.AXES}
    for key, reading in estimates.items():
        assert reading.statistic == ("rate" if key.startswith("expected/") else declared(key).statistic), key


def test_declarations_are_told_apart_and_say_what_they_mean() -> None:
    # A family and what pools some of its steps share a name: `ability/delta_5`, `ability`.
    names = [(axis.name, axis.by_step) for axis in axes.AXES]
    assert len(names) == len(set(names))
    for axis in axes.AXES:
        assert axis.label
        assert axis.meaning.endswith(".")
        assert (axis.hits is None) or (axis.derived is None)
