"""Mean width of the clustered interval per axis of the built-in suites. Run: python -m tests.benchmarks.widths

Tasks and calls per axis are counted in the suites themselves. Shares are simulated over seven rates from .005 to .5,
with beta-distributed tasks at an intraclass correlation of .1 and .3, and their widths averaged. Old and new stand side
by side: the design that the name had before suites were spread over tasks, and Wilson on the effective n. Both orders
of a vacuum pair are one prompt: two calls for the old interval, one unit for the new.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from jrh_mlflow.measures.axes import AXES, Axis, delta_key
from jrh_mlflow.measuring.resolve import BUILT_IN
from jrh_mlflow.schema.items import VACUUM
from jrh_mlflow.stats.proportions import cluster_interval, cluster_wilson
from jrh_mlflow.suites import Suite, datasheet_suite
from tests.validation.coverage import RATES

ICCS = (0.1, 0.3)
FORMER = {
    "datasheet": lambda: datasheet_suite(design="paper"),
    "datasheet-paper": lambda: datasheet_suite(design="paper"),
    "datasheet-short": lambda: datasheet_suite(design="paper", n_tasks=2, depth=2),
}
"""What each name stood for before: every pair of ten tasks, and 64 calls on two."""


class Design(NamedTuple):
    """Tasks of an axis, with as many calls each, and what of these the new interval takes as units."""

    n_tasks: int
    n_calls: int
    n_units: int


class Width(NamedTuple):
    old: float
    new: float


def axis_designs(suite: Suite) -> dict[str, Design]:
    """Return the design of each share of the datasheet whose denominator does not depend on the judge."""
    found: dict[str, Design] = {}
    for axis in AXES:
        if axis.hits and axis.among is None:
            for name, step in _steps(axis, suite):
                per_task = Counter(
                    item.task
                    for item in suite.items
                    if item.condition in axis.stimuli.conditions and (step is None or item.delta == step)
                )
                if per_task:
                    found[name] = _design(axis, per_task)
    return found


def _steps(axis: Axis, suite: Suite) -> Iterator[tuple[str, float | None]]:
    if not axis.by_step:
        yield axis.name, None
        return
    for step in sorted({item.delta for item in suite.items if item.delta}):
        yield f"{axis.name}/{delta_key(step)}", step


def _design(axis: Axis, per_task: Counter[str]) -> Design:
    (n_pairs,) = set(per_task.values())  # the same of every task
    if axis.unit == "pair":
        return Design(len(per_task), n_pairs, n_pairs)
    in_vacuum = set(axis.stimuli.conditions) <= set(VACUUM)
    return Design(len(per_task), 2 * n_pairs, n_pairs if in_vacuum else 2 * n_pairs)


@cache
def width(n_tasks: int, n_calls: int, icc: float, *, draws: int, rates: Sequence[float] = RATES) -> Width:
    """Return the mean width of both intervals over `draws` samples of each rate."""
    rng = np.random.default_rng([n_tasks, n_calls, round(100 * icc)])
    sizes, scale = np.full(n_tasks, float(n_calls)), (1 - icc) / icc
    samples = [
        rng.binomial(n_calls, rng.beta(rate * scale, (1 - rate) * scale, size=n_tasks)).astype(float)
        for rate in rates
        for _ in range(draws)
    ]
    ends = [(cluster_wilson(each, sizes), cluster_interval(each, sizes)) for each in samples]
    return Width(*np.mean([[high - low for low, high in both] for both in ends if None not in both], axis=0))


def rows(former: Suite, suite: Suite, *, draws: int) -> Iterator[list[str]]:
    """One row for the axes that have the same tasks and calls, before and now."""
    before, now = axis_designs(former), axis_designs(suite)
    names: dict[tuple[Design | None, Design], list[str]] = defaultdict(list)
    for axis, design in now.items():
        names[before.get(axis), design].append(axis)
    for (was, design), axes in names.items():
        row = [_joined(axes), f"{was.n_tasks}×{was.n_calls}" if was else "–", f"{design.n_tasks}×{design.n_calls}"]
        for icc in ICCS:
            start = f"{width(was.n_tasks, was.n_calls, icc, draws=draws).old:.2f}" if was else "–"
            moved = width(design.n_tasks, design.n_calls, icc, draws=draws).old
            new = width(design.n_tasks, design.n_units, icc, draws=draws).new
            row.append(f"{start} → {moved:.2f} → {new:.2f}")
        yield row


def _joined(axes: Sequence[str]) -> str:
    """Name axes, the steps of a family together: `wrong_choice/delta_2,3`."""
    steps: dict[str, list[str]] = defaultdict(list)
    for axis in axes:
        family, _, step = axis.partition("/delta_")
        steps[family].append(step)
    return ", ".join(
        f"`{family}/delta_{','.join(each)}`" if each != [""] else f"`{family}`" for family, each in steps.items()
    )


def main() -> None:
    """Print a Markdown table per suite."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200, help="Samples per rate.")
    draws = parser.parse_args().draws
    print("Old design and interval → new design, old interval → new design and interval; units are calls, or pairs.\n")
    for name, former in FORMER.items():
        suite = BUILT_IN[name]()
        print(f"`{name}`: {2 * len(suite.items)} calls (before: {2 * len(former().items)})\n")
        print("| axes | tasks × units before | now | ICC .1 | ICC .3 |\n|---|---|---|---|---|")
        for row in rows(former(), suite, draws=draws):
            print(f"| {' | '.join(row)} |", flush=True)
        print()
    middle = (0.05, 0.1, 0.3, 0.5)
    for n_tasks, n_calls in ((10, 12), (28, 4)):
        both = width(n_tasks, n_calls, 0.3, draws=draws, rates=middle)
        print(f"{n_tasks} × {n_calls}, ICC .3, rates .05 to .5: old interval {both.old:.2f}, new {both.new:.2f}")


if __name__ == "__main__":
    main()
