"""How often a profile says a word of a judge whose rates are known. Run: python -m tests.benchmarks.words --runs 200

Noisy judges answer the vacuum and the ladder of a suite. `by value` is what a word from the number alone would say:
clean at a dark current of at most 0.05, and 75 % reached wherever the isotonic curve reaches it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product

import jrh_mlflow as jrh
from jrh_mlflow.schema.items import LADDER, VACUUM
from tests.readings import asked, estimate, value

DARK_CURRENTS = (0.0, 0.02, 0.05, 0.08, 0.10, 0.20)
SENSITIVITIES = (0.50, 0.60, 0.70, 0.75, 0.80, 0.90)
ICCS = (0.0, 0.3)
STEPS = (1.0, 2.0, 3.0, 4.0, 5.0)


def only(name: str, conditions: Sequence[str]) -> jrh.Suite:
    """Return the items of a built-in suite that are of these conditions."""
    return jrh.Suite(name=name, items=[one for one in jrh.load_suite(name).items if one.condition in conditions])


def vacuum_shares(suite: jrh.Suite, rate: float, icc: float, runs: int) -> list[float]:
    """Return in which share of runs it is called clean by value, clean, leaky or active, and not decided."""
    judges = (jrh.scripted.Noisy(dark_current=rate, icc=icc, seed=seed) for seed in range(runs))
    sheets = [jrh.measure(asked(judge, suite)) for judge in judges]
    told = [value(sheet, "dark_current") <= 0.05 for sheet in sheets]
    lines = [sheet.profile for sheet in sheets]
    return [
        sum(told) / runs,
        *(share(lines, *words) for words in (["-clean"], ["-leaky", "-active"], ["cannot be told"])),
    ]


def ladder_shares(suite: jrh.Suite, rate: float, icc: float, runs: int) -> list[float]:
    """Return in which share of runs 75 % is reached by the curve, reached, never reached, and not decided."""
    flat = dict.fromkeys(STEPS, rate)
    judges = (jrh.scripted.Noisy(sensitivity=flat, tie=0, icc=icc, seed=seed) for seed in range(runs))
    sheets = [jrh.measure(asked(judge, suite), n_resamples=20) for judge in judges]
    told = [estimate(sheet, "threshold_75").censored != "right" for sheet in sheets]
    lines = [sheet.profile for sheet in sheets]
    groups = (["reaches 75 % b", "resolves"], ["never reaches"], ["cannot be told"])
    return [sum(told) / runs, *(share(lines, *words) for words in groups)]


def share(lines: Sequence[str], *words: str) -> float:
    """Return the share of profiles that hold one of the words."""
    return sum(any(word in line for word in words) for line in lines) / len(lines)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--suite", default="datasheet")
    given = parser.parse_args()
    vacuum, ladder = only(given.suite, VACUUM), only(given.suite, [LADDER])
    print(f"{given.suite}, {given.runs} runs each")
    print("dark current  ICC  clean by value    clean  leaky or active  not decided")
    for rate, icc in product(DARK_CURRENTS, ICCS):
        print(line(rate, icc, vacuum_shares(vacuum, rate, icc, given.runs)), flush=True)
    print("sensitivity   ICC  reached by value  reached  never reached  not decided")
    for rate, icc in product(SENSITIVITIES, ICCS):
        print(line(rate, icc, ladder_shares(ladder, rate, icc, given.runs)), flush=True)


def line(rate: float, icc: float, shares: Sequence[float]) -> str:
    """Write a row of either table."""
    first, second, third, fourth = shares
    return f"{rate:12.2f}{icc:5.1f}{first:16.2f}{second:9.2f}{third:17.2f}{fourth:13.2f}"


if __name__ == "__main__":
    main()
