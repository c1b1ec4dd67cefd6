"""`jrh validate`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jrh_mlflow.cli.options import as_json, force_option
from jrh_mlflow.outputs import check_free

if TYPE_CHECKING:
    from jrh_mlflow.simulations.loop import Map

_PARTS = (
    *("judges", "intervals", "agreement", "corrected", "alignment", "decisions", "findings", "watch"),
    *("self_preference", "attack", "repair"),
)
"""Words of the simulations' parts; `jrh --help` must not load them to say these."""


@click.command()
@click.option(
    "--seeds",
    type=click.IntRange(0),
    default=500,
    show_default=True,
    help="Simulated judges per design, samples of people's labels, and a twentieth of the corrected rates; 0: none.",
)
@click.option(
    "--draws",
    type=click.IntRange(0),
    default=1000,
    show_default=True,
    help="Simulations per cell of 12 calls per task; 0: none.",
)
@click.option("--only", "parts", multiple=True, type=click.Choice(_PARTS), help="This part, or these [all].")
@click.option("--icc", "iccs", multiple=True, type=click.FloatRange(0, 1, max_open=True), help="ICCs [0, .1, .3, .6].")
@click.option("--seed", default=0, show_default=True, help="Of all simulations.")
@click.option("--workers", type=click.IntRange(1), help="Processes [all cores; 1 with --quick].")
@click.option("--quick", is_flag=True, help="Designs of 10 tasks, few draws, 20 judges on a small suite: seconds.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the whole grid as JSON.")
@force_option
@as_json
def validate(
    seeds: int,
    draws: int,
    parts: tuple[str, ...],
    iccs: tuple[float, ...],
    seed: int,
    workers: int | None,
    quick: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Test the tester: do the intervals hold, on simulated judges and tasks with known rates?

    Judges: bias and coverage of every estimator. Tasks: coverage and mean width of the clustered interval of a share,
    the former one (old) beside the present one (new), for 10 to 30 tasks of 2, 4 and 12 calls, rates from .005 to .5
    (those over .5 are their mirror) and tasks that differ by an intraclass correlation of 0 to .6; 2 and 4 calls by
    exact sums, 12 by simulation. Replicates: a judge without noise, asked five times, must read the same.

    Agreement: bias and coverage of agreement with people, and how often the alternative annotator test errs. Corrected:
    bias, coverage and width of corrected rates, beside the judge's own mean. Alignment: what is said of optimisers of
    known worth. Decisions: how often judges are called different, gated, passed or stopped, falsely and rightly.
    Findings: whether each judge gets its own problems and no others, also at a limit, and how large one must be. Watch:
    how often judges over 500 looks are called changed that are not, and how soon those that changed. Self-preference:
    whether a planted bonus of own answers is read, and none where there is none. Attack: whether
    judges with a planted hole are called breakable and others not, by a tenth of the seeds. Repair: whether the change
    that mends a judge is found and proven, and nothing is recommended that does not help.

    Fails (exit code 1) when a 95 % interval covers the truth less than 93 % of the time, or a plain one more than
    97.5 %, or a decision errs more often than promised, by three standard errors of the simulation. What misses its
    promise by less is printed as `missed`, with the standard errors it is short by: more runs would tell. The result
    depends on the seed, never on the workers.

    Example: jrh validate --quick
    """
    from jrh_mlflow.errors import GateError
    from jrh_mlflow.simulations import PARTS
    from jrh_mlflow.simulations.loop import SimulationSize, worker_map

    if output:
        check_free(output, force=force)
    # Fewer than 20 runs are refused below; a quick check takes the fewest that say anything.
    seeds, draws = (min(seeds, 20), min(draws, 5)) if quick else (seeds, draws)
    if 0 < seeds < 20:
        raise click.UsageError("--seeds must be at least 20: coverage from fewer says nothing.")
    size = SimulationSize(n=seeds, draws=draws, iccs=iccs, seed=seed, quick=quick)
    # Exact sums need no seeds: with none they alone are left.
    chosen = [part for part in PARTS if part.word in (parts or _PARTS) and (seeds or not part.by_seeds)]
    with worker_map(workers or (1 if quick else os.cpu_count() or 1)) as apply:
        rows = {part.key: part.rows(size, _shown(apply, part.word)) for part in chosen}
    text = json.dumps(
        {"seed": seed, **{part.key: part.facts(rows.get(part.key, [])) for part in PARTS}}, default=asdict
    )
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
    else:
        for part in chosen:
            click.echo(part.text(rows[part.key]))
    failures = [failure for part in chosen for failure in part.failures(rows[part.key])]
    if failures:
        raise GateError(f"{len(failures)} check(s) miss their promise, first {failures[0]}.")


def _shown(apply: Map, unit: str) -> Map:
    """Return the same map with a progress bar over its items."""
    from jrh_mlflow.progress import progress_bar

    def shown(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterable[Any]:
        results = apply(function, items)
        yield from progress_bar(results, total=len(items), name=unit, unit="it", leave=False)

    return shown
