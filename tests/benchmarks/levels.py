"""Coverage and width of the intervals of a judge of one response: `python -m tests.benchmarks.levels`.

Judges with a known separation are simulated on 28 tasks of six levels, each shown twice: an answer is a latent quality
`slope × level + task + noise`, given as yes or no, as 1 to 5, or as it is; in a share of the tasks the slope is 0 (the
judge does not read them at all), so that mistakes come in whole tasks. The truth is the mean over 40,000 tasks.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from jrh_mlflow.stats.proportions import cluster_interval, newcombe, share_correlation

Values = npt.NDArray[np.float64]

N_TASKS, N_LEVELS, N_REPEATS = 28, 6, 2
FORMS = ("yes/no", "1 to 5", "continuous")
SLOPES = (0.0, 0.3, 1.0, 3.0)
BLIND = (0.0, 0.1, 0.3)
"""Share of tasks that are not read."""
DISTANCES = (1, 3, 5)


def grades(rng: np.random.Generator, n: int, *, form: str, slope: float, blind: float) -> Values:
    """Draw the answers of `n` tasks: tasks × levels × repeats."""
    steep = np.where(rng.random((n, 1, 1)) < blind, 0.0, slope)
    quality = steep * (np.arange(N_LEVELS) - 2.5)[None, :, None] + rng.normal(0, 0.5, (n, 1, 1))
    answers = quality + rng.normal(0, 1, (n, N_LEVELS, N_REPEATS))
    if form == "yes/no":
        return (answers > 0).astype(float)
    return np.clip(np.round(answers + 3), 1, 5) if form == "1 to 5" else answers


def by_task(answers: Values, distance: int) -> Values:
    """Return the sum over a task's pairs of levels of the chance that the higher is answered better, ties half."""
    gap = answers[:, distance:, None, :] - answers[:, :-distance, :, None]
    scores: Values = ((gap > 0) + (gap == 0) / 2).mean(axis=(2, 3)).sum(axis=1)
    return scores


def separation(*, n_runs: int, seed: int) -> list[tuple[str, float, float, int, float, float, float]]:
    """Return form, slope, share of blind tasks, distance, truth, coverage and mean width."""
    rows = []
    for number, (form, slope, blind) in enumerate(product(FORMS, SLOPES, BLIND if n_runs else ())):
        rng = np.random.default_rng([seed, number])
        many = grades(rng, 40_000, form=form, slope=slope, blind=blind)
        runs = [grades(rng, N_TASKS, form=form, slope=slope, blind=blind) for _ in range(n_runs)]
        for distance in DISTANCES:
            size = N_LEVELS - distance
            truth = float(by_task(many, distance).mean() / size)
            ends = [cluster_interval(by_task(run, distance), np.full(N_TASKS, float(size))) for run in runs]
            kept = [end for end in ends if end is not None]
            covered = np.mean([low <= truth <= high for low, high in kept])
            rows.append((form, slope, blind, distance, truth, float(covered), float(np.mean([b - a for a, b in kept]))))
    return rows


def gaps(*, n_runs: int, seed: int, distance: int = 3) -> list[tuple[str, float, float, float, float]]:
    """Return form, share of blind tasks, true gap, coverage and mean width, the matched ladder half as steep."""
    rows, size = [], np.full(N_TASKS, float(N_LEVELS - distance))
    for number, (form, blind) in enumerate(product(FORMS, BLIND)):
        rng = np.random.default_rng([seed, 1000 + number])
        truths = [by_task(grades(rng, 40_000, form=form, slope=s, blind=blind), distance).mean() for s in (1.0, 0.5)]
        truth = float((truths[0] - truths[1]) / size[0])
        hits, widths = [], []
        for _ in range(n_runs):
            ladder, matched = (
                by_task(grades(rng, N_TASKS, form=form, slope=s, blind=blind), distance) for s in (1, 0.5)
            )
            ends = [cluster_interval(sums, size) for sums in (matched, ladder)]
            shares = [float(sums.sum() / size.sum()) for sums in (matched, ladder)]
            correlation = share_correlation(matched, size, ladder, size)
            assert ends[0] is not None
            assert ends[1] is not None
            low, high = newcombe(shares[0], ends[0], shares[1], ends[1], correlation=correlation)
            hits.append(low <= truth <= high)
            widths.append(high - low)
        rows.append((form, blind, truth, float(np.mean(hits)), float(np.mean(widths))))
    return rows


def main(n_runs: int = 400, seed: int = 0) -> None:
    """Print both tables, and the first one summed up by form."""
    rows = separation(n_runs=n_runs, seed=seed)
    print(f"separation, {N_TASKS} tasks, {n_runs} runs each\nform        slope blind delta  truth coverage width")
    for form, slope, blind, distance, truth, covered, width in rows:
        print(f"{form:11s} {slope:5.1f} {blind:5.1f} {distance:5d}  {truth:.3f}    {covered:.3f}  {width:.2f}")
    print("\nform        least mean coverage, mean width")
    for form in FORMS:
        covered, widths = ([row[place] for row in rows if row[0] == form] for place in (5, 6))
        print(f"{form:11s} {min(covered):.3f} {np.mean(covered):.3f} {np.mean(widths):.2f}")
    print("\nreading gap at delta 3\nform        blind  truth coverage width")
    for form, blind, truth, covered, width in gaps(n_runs=n_runs, seed=seed):
        print(f"{form:11s} {blind:5.1f}  {truth:.3f}    {covered:.3f}  {width:.2f}")


if __name__ == "__main__":
    main()
