"""Do intervals and decisions hold, on judges, tasks and labels of known truth?

Usage: python -m tests.validation [--quick] [--only PART ...]

Exit code 1 when a 95 % interval covers the truth less than 93 % of the time, a plain one more than
97.5 %, or a decision errs more often than promised, each by more than three standard errors of the
simulation. What misses its promise by less is printed as `missed`, with the standard errors it is
short by: more runs would decide it. The result depends on the seed, never on the number of
processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from jrh_mlflow.progress import progress_bar
from tests.validation.loop import SimulationSize, worker_map
from tests.validation.parts import PARTS

FEWEST_SEEDS = 20
"""Coverage from fewer says nothing; 0 leaves out what is simulated, and exact sums are left."""


def main(arguments=None):
    """Run the chosen parts, print their tables, and return the exit code."""
    options = read_options(arguments)
    n_seeds = min(options.seeds, FEWEST_SEEDS) if options.quick else options.seeds
    n_draws = min(options.draws, 5) if options.quick else options.draws
    size = SimulationSize(
        n=n_seeds, draws=n_draws, iccs=tuple(options.icc), seed=options.seed, quick=options.quick
    )
    parts = [part for part in PARTS if part.word in options.only and (n_seeds or not part.by_seeds)]
    rows = {}
    with worker_map(options.workers or (1 if options.quick else os.cpu_count() or 1)) as apply:
        for part in parts:
            rows[part.word] = part.rows(size, _with_progress(apply, part.word))
            print(part.text(rows[part.word]), flush=True)
    if options.output:
        text = json.dumps({"seed": options.seed, **rows}, default=asdict)
        options.output.write_text(text + "\n", encoding="utf-8")
    failures = [row for part in parts for row in rows[part.word] if row.fails]
    if failures:
        message = f"{len(failures)} check(s) miss their promise, first {failures[0]}."
        print(message, file=sys.stderr)
    return 1 if failures else 0


def read_options(arguments):
    """Read the command line; what is wrong in it ends the program with 2."""
    words = [part.word for part in PARTS]
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.validation", description=__doc__, formatter_class=formatter
    )
    add = parser.add_argument
    add(
        "--only",
        nargs="+",
        choices=words,
        default=words,
        metavar="PART",
        help=f"of {', '.join(words)}",
    )
    add(
        "--quick",
        action="store_true",
        help="small designs and few draws: seconds to a minute, as the tests do",
    )
    add(
        "--seeds",
        type=int,
        default=500,
        help="simulated judges per design, more of what is quick to draw; 0: none",
    )
    add(
        "--draws",
        type=int,
        default=1000,
        help="simulations of the interval of a share in large designs; 0: none",
    )
    add(
        "--icc",
        type=float,
        nargs="+",
        default=[],
        help="intraclass correlations for that interval [0 .1 .3 .6]",
    )
    add("--seed", type=int, default=0, help="of all simulations")
    add("--workers", type=int, help="processes [all cores; 1 with --quick]")
    add("-o", "--output", type=Path, help="write every row as JSON")
    options = parser.parse_args(arguments)
    if 0 < options.seeds < FEWEST_SEEDS:
        parser.error(
            f"--seeds must be 0 or at least {FEWEST_SEEDS}: coverage from fewer says nothing."
        )
    return options


def _with_progress(apply, unit):
    """Return the same map with a progress bar over its items."""

    def mapped(function, items):
        results = apply(function, items)
        yield from progress_bar(results, total=len(items), name=unit, unit="it", leave=False)

    return mapped


if __name__ == "__main__":
    sys.exit(main())
