"""What `python -m tests.benchmarks.widths` counts and averages."""

from __future__ import annotations

import pytest

from jrh_mlflow.measuring.resolve import BUILT_IN
from jrh_mlflow.suites import datasheet_suite
from tests.benchmarks.widths import FORMER, axis_designs, width


def test_every_axis_of_the_datasheet_stands_on_28_tasks():
    designs = axis_designs(datasheet_suite())
    assert {design.n_tasks for design in designs.values()} == {28}
    assert designs["dark_current"] == (28, 6, 3)
    assert designs["raw_false_preference"] == (28, 4, 4)
    assert designs["stable_cross_sensitivity"] == (28, 2, 2)
    assert designs["matched_sensitivity/delta_5"] == (28, 2, 2)


def test_the_former_short_suite_put_64_calls_on_two_tasks():
    former = FORMER["datasheet-short"]()
    assert 2 * len(former.items) == 64
    assert {design.n_tasks for design in axis_designs(former).values()} == {2}


def test_the_published_design_is_counted_as_it_is():
    designs = axis_designs(BUILT_IN["datasheet-paper"]())
    assert designs["dark_current"] == (10, 12, 6)
    assert [designs[f"target_sensitivity/delta_{step}"].n_calls for step in range(1, 6)] == [
        10,
        8,
        6,
        4,
        2,
    ]


def test_calls_that_are_spread_over_tasks_narrow_the_interval():
    """At an ICC of .3 ten tasks of twelve calls have a mean width of .29, 28 of four .19."""
    middle = (0.05, 0.1, 0.3, 0.5)
    few, many = (width(*design, 0.3, draws=40, rates=middle) for design in ((10, 12), (28, 4)))
    assert (few.old, many.old) == pytest.approx((0.29, 0.19), abs=0.015)
    assert many.new < few.new
    assert few.old < few.new
