"""Corrected rates beside judgy, cje-eval and evalstats on the same draws: coverage, width, time.

Run: python -m tests.benchmarks.corrected_peers [--draws 2000] [--seed 0] [--keep FOLDER]

Each peer is installed from the package index into an environment of its own, in a folder that is removed afterwards;
one that cannot be installed is named with the reason. Labels are drawn at random, and ours is told so. The peers take
hours of processor time: with `--keep` their environments and finished rows stay in the folder, and are not made again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """A true rate, a judge, and how many items are labelled and not."""

    theta: float
    se: float
    sp: float
    n: int
    others: int


ROWS = (
    Row(0.85, 0.9, 0.7, 100, 1000),
    Row(0.7, 0.9, 0.8, 100, 1000),
    Row(0.7, 0.95, 0.95, 100, 1000),
    Row(0.95, 0.97, 0.8, 150, 1000),
    Row(0.7, 1.0, 1.0, 100, 1000),
    Row(0.8, 1.0, 1.0, 200, 2000),
    Row(0.9, 1.0, 1.0, 100, 1000),
    Row(0.9, 1.0, 1.0, 200, 1000),
)
PEERS = {"judgy": "judgy", "cje-eval": "cje-eval", "evalstats": "evalstats"}
"""Name to what pip is asked for."""
Ends = tuple[float, float]
COVERS = 0.94


def drawn(row: Row, seed: int, draw: int) -> tuple[Any, Any, Any]:
    """People's and the judge's labels, and the judge's on the other items."""
    rng = np.random.default_rng([seed, draw, *(round(1000 * cell) for cell in row)])
    human = rng.random(row.n + row.others) < row.theta
    judge = rng.random(len(human)) < np.where(human, row.se, 1 - row.sp)
    return human[: row.n].astype(float), judge[: row.n].astype(float), judge[row.n :].astype(float)


def ours(human: Any, judge: Any, others: Any) -> Ends:
    """Return the interval of `jrh.correct(…, sampling="random")`."""
    from tests.people.arrays import correct_rate

    estimate = correct_rate(others, judge, human, sampling="random").estimate
    return estimate.ci_low, estimate.ci_high  # type: ignore[union-attr,return-value]


def judgy(human: Any, judge: Any, others: Any) -> Ends:
    """Rogan-Gladen with a bootstrap."""
    from judgy import estimate_success_rate

    return tuple(estimate_success_rate(human, judge, others, bootstrap_iterations=2000)[1:])


def cje_eval(human: Any, judge: Any, others: Any) -> Ends:
    """Cross-fitted calibration."""
    from cje.array_api import calibrated_mean_ci

    scores = np.concatenate([judge, others])
    labels = np.concatenate([human, np.full(len(others), np.nan)])
    return tuple(calibrated_mean_ci(scores, labels, ~np.isnan(labels)).ci)


def evalstats(human: Any, judge: Any, others: Any) -> Ends:
    """PPI++ with a bootstrap."""
    from evalstats.ppi import correct

    def mean(values: Any, *_: Any) -> float:
        return float(np.add.reduce(values)) / len(values)  # asked thousands of times a draw

    made = correct(mean, Y_lab=human, Y_hat_lab=judge, Y_hat_unlab=others, compute_pvalue=False, rng=0)
    return made.ci_low, made.ci_high


def measure(name: str, row: Row, draws: int, seed: int) -> dict[str, Any]:
    """Coverage, mean width and processor milliseconds of a draw; draws that are refused are counted.

    All that is drawn are counts, and draws with the same counts are asked once.
    """
    interval = globals()[name]
    answers: dict[tuple[float, ...], Ends | str] = {}
    ends, refused, why, start = [], 0, "", time.process_time()
    for draw in range(draws):
        human, judge, others = drawn(row, seed, draw)
        counts = (human.sum(), judge.sum(), (human * judge).sum(), others.sum())
        if counts not in answers:
            try:
                answers[counts] = interval(human, judge, others)
            except Exception as error:  # a peer may refuse a draw in any way; the first reason is shown
                answers[counts] = f"{type(error).__name__}: {error}"
        if isinstance(answer := answers[counts], str):
            refused, why = refused + 1, why or answer
        else:
            ends.append(answer)
    took = 1000 * (time.process_time() - start) / len(answers)
    if not ends:
        return {"refused": refused, "why": why[:120]}
    low, high = np.array(ends, dtype=float).T
    held = (low <= row.theta + 1e-12) & (row.theta <= high + 1e-12)
    return {
        "coverage": float(held.mean()),
        "width": float((high - low).mean()),
        "ms": took,
        "refused": refused,
        "why": why[:120],
    }


def installed(package: str, folder: Path) -> Path | str:
    """Return the Python of an environment that has the package, or why there is none."""
    python, made = folder / "bin" / "python", folder / "made"
    if made.exists():
        return python
    venv.create(folder, with_pip=True)
    done = subprocess.run([python, "-m", "pip", "install", "-q", package], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    made.touch()
    return python


def of_peer(python: Path, name: str, row: Row, options: argparse.Namespace) -> dict[str, Any]:
    """Ask a peer in its own environment, or read what it said before."""
    told = [name.replace("-", "_"), json.dumps(row), str(options.draws), str(options.seed)]
    kept = python.parents[1] / f"{'-'.join(f'{cell:g}' for cell in row)}_{options.draws}_{options.seed}.json"
    if not kept.exists():
        # One thread: more of them wait for each other on such small samples.
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([python, __file__, *told], capture_output=True, text=True, check=False, env=alone)
        if done.returncode:
            return {"refused": options.draws, "why": done.stderr.strip().splitlines()[-1][:120]}
        kept.write_text(done.stdout.splitlines()[-1], encoding="utf-8")
    answer: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    return answer


def line(name: str, found: dict[str, Any], narrowest: float | None) -> str:
    """One line of the table."""
    if "width" not in found:
        return f"  {name:10} nothing: {found['why']}"
    ratio = f"{found['width'] / narrowest:5.2f}" if narrowest else "    –"
    more = f"  {found['refused']} refused ({found['why']})" if found["refused"] else ""
    return f"  {name:10} {found['coverage']:8.3f} {found['width']:7.3f} {ratio} {found['ms']:9.1f}{more}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with contextlib.nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as folder:
        pythons = {name: installed(package, Path(folder) / name) for name, package in PEERS.items()}
        for name, python in pythons.items():
            if isinstance(python, str):
                print(f"{name} cannot be installed: {python}")
        print(f"{options.draws:,} draws; ratio: to the narrowest that covers {COVERS:g}")
        print(f"  {'':10} coverage   width ratio  ms a draw")
        for row in ROWS:
            found = {"ours": measure("ours", row, options.draws, options.seed)}
            found |= {n: of_peer(at, n, row, options) for n, at in pythons.items() if isinstance(at, Path)}
            widths = [each["width"] for each in found.values() if each.get("coverage", 0) >= COVERS]
            print(f"rate {row.theta:g}, se {row.se:g}, sp {row.sp:g}, {row.n} labels, {row.others:,} others")
            for name, each in found.items():
                print(line(name, each, min(widths, default=None)), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 5 and not sys.argv[1].startswith("-"):
        name, row, n, seed = sys.argv[1:]
        print(json.dumps(measure(name, Row(*json.loads(row)), int(n), int(seed))))
    else:
        main()
