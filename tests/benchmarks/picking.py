"""How much picking flatters what a sweep picks. Run: python -m tests.benchmarks.picking --rounds 200

20 configurations on 14 searched and 14 held-out tasks, six calls each, ICC .2, rates around .8; the dearer the better,
by so much in all. Prints mean and standard error of (held-out reading − truth) of the one that is picked.
"""

from __future__ import annotations

import argparse

import numpy as np

from jrh_mlflow.measures.composite import Tally
from jrh_mlflow.sweeps.front import best_of, cheapest_tied, ties
from jrh_mlflow.sweeps.trials import TrialResult

N_JUDGES, N_TASKS, N_CALLS, ICC = 20, 14, 6, 0.2


def half(rng: np.random.Generator, truths: np.ndarray) -> dict[str, TrialResult]:
    """Return what every configuration reads on one half."""
    shape = (1 - ICC) / ICC
    rates = rng.beta((truths * shape)[:, None, None], ((1 - truths) * shape)[:, None, None], (N_JUDGES, N_TASKS, 1))
    hits, found = rng.binomial(N_CALLS, rates).astype(float), {}
    tasks, sizes = tuple(f"task-{index:02}" for index in range(N_TASKS)), np.full((N_TASKS, 1), float(N_CALLS))
    for index in range(N_JUDGES):
        counted = Tally(cells=("sensitivity",), tasks=tasks, hits=hits[index], sizes=sizes, excluded=(0,))
        key = f"{index:02}"
        found[key] = TrialResult(key=key, run_id=key, tally=counted, usd_per_1k=1.0 + index, n_calls=1)
    return found


def main() -> None:
    """Print a row for each spread of the truths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    print("spread  best of searched half  best of held-out half  cheapest tied")
    for spread in (0.0, 0.1, 0.2):
        rng, truths = np.random.default_rng(1), 0.8 + spread * np.linspace(-0.5, 0.5, N_JUDGES)
        errors = np.array([_errors(rng, truths) for _ in range(rounds)])
        means, widths = errors.mean(axis=0), errors.std(axis=0, ddof=1) / np.sqrt(rounds)
        print(
            f"{spread:6.2f}"
            + "".join(f"{mean:+15.3f} ± {width:.3f}" for mean, width in zip(means, widths, strict=True))
        )


def _errors(rng: np.random.Generator, truths: np.ndarray) -> list[float]:
    search, holdout = half(rng, truths), half(rng, truths)
    best, flattered = best_of(search, search), best_of(holdout, holdout)
    assert best
    cheapest = cheapest_tied(search, holdout, ties(holdout, best=best, seed=0))
    return [holdout[key].tally.value - truths[int(key)] for key in (best, flattered, cheapest) if key is not None]


if __name__ == "__main__":
    main()
