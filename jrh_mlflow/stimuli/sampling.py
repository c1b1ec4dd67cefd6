"""Fewer rows of a dataset: a seeded draw, stratified by a column, that does not depend on the order of the file."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from jrh_mlflow.errors import RecipeError


def sample(ids: Sequence[str], strata: Sequence[str], n: int, *, seed: int) -> list[int]:
    """Draw `n` positions, the strata in proportion to their sizes.

    Args:
        ids: Of all rows, unique. Rows are sorted by them before the draw.
        strata: Of all rows; all the same for a plain draw.
        n: How many to draw.
        seed: The same seed and rows give the same draw.

    Returns:
        Positions in file order.

    Example:
        >>> sample(["a", "b", "c", "d"], ["x", "x", "y", "y"], 2, seed=0)
        [1, 3]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise RecipeError(f"`n` must be a whole number of rows, 1 or more, but is {n!r}.")
    if n > len(ids):
        raise RecipeError(
            f"`n` is {n}, but the dataset has {len(ids)} rows. Lower it, or leave it out to take them all."
        )
    members: dict[str, list[int]] = {}
    for position in sorted(range(len(ids)), key=lambda position: ids[position]):
        members.setdefault(strata[position], []).append(position)
    shares = allocate({name: len(rows) for name, rows in members.items()}, n)
    rng = random.Random(seed)  # noqa: S311 - a repeatable draw, not a secret
    drawn = [position for name in sorted(members) for position in rng.sample(members[name], shares[name])]
    return sorted(drawn)


def allocate(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Share `n` places among strata in proportion to their sizes, by largest remainder.

    Each stratum gets at least one place when there are enough for all. Equal remainders go by name.

    Example:
        >>> allocate({"common": 90, "rare": 1, "some": 9}, 10)
        {'common': 8, 'rare': 1, 'some': 1}
    """
    single: set[str] = set()
    while n >= len(sizes):
        # A stratum whose share is under one gets one; the others share what is left, so their shares shrink in turn.
        rest = {name: size for name, size in sizes.items() if name not in single}
        places, total = n - len(single), sum(rest.values())
        small = {name for name, size in rest.items() if places * size < total}
        if not small:
            break
        single |= small
    rest = {name: size for name, size in sizes.items() if name not in single}
    shares = dict.fromkeys(single, 1) | _largest_remainder(rest, n - len(single))
    return {name: shares[name] for name in sorted(sizes)}


def _largest_remainder(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    total = sum(sizes.values())
    shares = {name: n * size // total for name, size in sizes.items()}
    by_remainder = sorted(sizes, key=lambda name: (-(n * sizes[name] % total), name))
    for name in by_remainder[: n - sum(shares.values())]:
        shares[name] += 1
    return shares
