"""Coverage and width of the difference of two shares on the same tasks, with and without their correlation.

`python -m tests.benchmarks.shifts` prints the table of docs/statistics.md; minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from scipy.stats import beta, norm

from jrh_mlflow.stats import Array
from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation

ICC = 0.3
DRAWS = 400
Arms = tuple[Array, Array]
Draw = Callable[[np.random.Generator], Arms]


def task_rates(rate: float, place: Array, *, icc: float = ICC) -> Array:
    """Rates of tasks, beta-distributed; `place` are normal scores."""
    if icc == 0:
        return np.full(len(place), rate)
    scale = 1 / icc - 1
    rates: Array = beta.ppf(norm.cdf(place), rate * scale, (1 - rate) * scale)
    return rates


def together(n_tasks: int, n_calls: int, rates: tuple[float, float], *, shared: float, alike: float) -> Draw:
    """Two arms whose task rates are `shared` in part, and whose calls on one item are `alike` so often."""

    def draw(rng: np.random.Generator) -> Arms:
        own, other = rng.standard_normal((2, n_tasks))
        places = own, shared * own + np.sqrt(1 - shared**2) * other
        coins = rng.random((n_tasks, n_calls))
        again = np.where(rng.random(coins.shape) < alike, coins, rng.random(coins.shape))
        a, b = (
            (flips < task_rates(rate, place)[:, None]).sum(axis=1).astype(float)
            for flips, rate, place in zip((coins, again), rates, places, strict=True)
        )
        return a, b

    return draw


def moving(n_tasks: int, n_calls: int, rate: float, *, moves: float, icc: float) -> Draw:
    """Two arms that are the same but for whole tasks that go to 1, so many of them."""

    def draw(rng: np.random.Generator) -> Arms:
        own = task_rates(rate, rng.standard_normal(n_tasks), icc=icc)
        a = rng.binomial(n_calls, own).astype(float)
        return a, np.where(rng.random(n_tasks) < moves, float(n_calls), a)

    return draw


def measured(draw: Draw, truth: float, n_calls: int, *, draws: int = DRAWS, seed: int = 0) -> Array:
    """Coverage and mean width, unpaired and paired."""
    rng = np.random.default_rng(seed)
    found = np.zeros((2, 2))
    for _ in range(draws):
        a, b = draw(rng)
        sizes = np.full(len(a), float(n_calls))
        ends = [cluster_interval(each, sizes) or (0.0, 1.0) for each in (a, b)]
        for row, correlation in enumerate((0.0, share_correlation(a, sizes, b, sizes))):
            shares = (float(each.sum() / sizes.sum()) for each in (a, b))
            low, high = newcombe(next(shares), ends[0], next(shares), ends[1], correlation=correlation)
            found[row] += (low - 1e-12 <= truth <= high + 1e-12, high - low)
    return found / draws


def cells() -> Iterator[tuple[str, Array]]:
    """Yield what is simulated in words, and what it reads."""
    rates = ((0.1, 0.1), (0.1, 0.5), (0.5, 0.5), (0.1, 0.9), (0.5, 0.9), (0.9, 0.9))
    for n_tasks, both, (shared, alike) in product((28, 10), rates, ((0, 0), (0.5, 0), (0.9, 0), (0.9, 0.8))):
        draw = together(n_tasks, 4, both, shared=shared, alike=alike)
        yield f"{n_tasks} × 4, rates {both}, shared {shared}, alike {alike}", measured(draw, both[1] - both[0], 4)
    for (n_tasks, n_calls), rate, moves, icc in product(
        ((28, 4), (10, 4), (28, 12)), (0.3, 0.5), (0.04, 0.06, 0.1, 0.2), (0.0, ICC)
    ):
        draw = moving(n_tasks, n_calls, rate, moves=moves, icc=icc)
        name = f"{n_tasks} × {n_calls}, rate {rate}, {moves:.0%} of tasks move, ICC {icc}"
        yield name, measured(draw, moves * (1 - rate), n_calls)


def main() -> None:
    """Print every cell."""
    for name, ((covered, width), (paired, narrower)) in cells():
        widths = f"{width:.3f} {narrower:.3f} {narrower / width - 1:+.0%}"
        print(f"{name:55} coverage {covered:.3f} {paired:.3f}  width {widths}")


if __name__ == "__main__":
    main()
