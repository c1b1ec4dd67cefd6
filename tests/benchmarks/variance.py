"""How often the intervals of variance components hold: `python -m tests.benchmarks.variance` (20 seconds).

Scores are drawn with known components, 1,000 runs of each design.
"""

from __future__ import annotations

import numpy as np

from jrh_mlflow.stats.variance import ASKING_AGAIN, PARTS
from tests.stats.test_variance import KNOWN, components, drawn

_DESIGNS: tuple[tuple[dict[str, float], dict[str, int]], ...] = (
    (KNOWN, {}),
    ({"repeat": 1.0}, {}),
    ({"task": 0.1, "order": 0.5, "repeat": 0.4}, {}),
    ({"task": 0.4, "wording": 0.2, "repeat": 0.4}, {"tasks": 60, "items": 3, "orders": 1}),
    (KNOWN, {"tasks": 12, "asks": 3}),
    (KNOWN, {"tasks": 10, "items": 2}),
)
_USUAL = {"tasks": 28, "items": 5, "orders": 2, "asks": 2}
_RUNS = 1000


def gain(parts: dict[str, float], *, tasks: int, items: int, orders: int, asks: int) -> float:
    """How much twice as many asks narrow the error of the mean."""
    n = tasks * items
    stays = parts.get("task", 0.0) / tasks + parts.get("wording", 0.0) / n
    noise = parts["repeat"] / (n * orders * asks)
    return float(1 - np.sqrt((stays + noise / 2) / (stays + noise)))


def held(parts: dict[str, float], design: dict[str, int], rng: np.random.Generator) -> dict[str, float]:
    """How often the interval of each component that is not 0 holds it."""
    truth = {**parts, ASKING_AGAIN: gain(parts, **{**_USUAL, **design})}
    counts = dict.fromkeys(truth, 0)
    for _ in range(_RUNS):
        found = components(drawn(rng, parts, **design))
        for name, share in truth.items():
            low, high = found[name].interval
            counts[name] += low - 1e-9 <= share <= high + 1e-9
    return {name: count / _RUNS for name, count in counts.items()}


def main() -> None:
    """Print the table of `docs/statistics.md`."""
    rng = np.random.default_rng(2026)
    print(
        "| tasks × contents × orders × asks | task, wording, order, repeat | "
        + " | ".join((*PARTS, "asking again"))
        + " |"
    )
    print("|" + "---|" * 7)
    for parts, design in _DESIGNS:
        rates = held(parts, design, rng)
        shown = [f"{rates[name]:.3f}".lstrip("0") if name in rates else "–" for name in (*PARTS, ASKING_AGAIN)]
        truth = ", ".join(f"{parts.get(name, 0.0):g}".lstrip("0") or "0" for name in PARTS)
        print(f"| {' × '.join(map(str, {**_USUAL, **design}.values()))} | {truth} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
