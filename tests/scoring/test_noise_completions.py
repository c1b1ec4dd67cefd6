"""Lost asks of a source: what `noise_excess` could still read, against every way of answering them."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.scoring.ledger import deciding_ends
from tests.measures.pointwise import Row, reading, repeats, report

AXIS = "noise_excess/typos"
ANSWERS = ("yes", "no", "abstain")
ASKED = {"s0": (("yes", "yes"), ("no", "yes")), "s1": (("yes", "no"), ("no", "no")), "s2": (("no", "no"), ("no", "no"))}


def rows(asked: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> list[Row]:
    return [
        row
        for source, both in asked.items()
        for test, said in zip(("baseline", "typos"), both, strict=True)
        for row in repeats(test, said, "yes", source=source)
    ]


@cache
def completed(plain: tuple[str, ...], perturbed: tuple[str, ...]) -> float:
    """Read the axis with one more source, whose asks all ended well."""
    return read({**ASKED, "s3": (plain, perturbed)}).value


def read(asked: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> Estimate:
    return reading(report(rows(asked), labels=("no", "yes")), AXIS)


@pytest.mark.parametrize("plain", [("yes", "yes"), ("yes", "error"), ("no", "error")])
@pytest.mark.parametrize("perturbed", [("no", "yes"), ("error", "yes"), ("error", "error")])
def test_bounds_hold_every_way_in_which_lost_asks_could_have_ended(plain, perturbed) -> None:
    said = (*plain, *perturbed)
    ways = product(*(ANSWERS if one == "error" else (one,) for one in said))
    # Which of two asks answered what makes no difference.
    values = [completed(*(tuple(sorted(test)) for test in (way[:2], way[2:]))) for way in ways]
    found = read({**ASKED, "s3": (plain, perturbed)})
    assert found.bound_low is not None
    assert found.bound_high is not None
    assert found.bound_low <= min(values) + 1e-9
    assert found.bound_high >= max(values) - 1e-9
    if said.count("error") == 1:
        assert (found.bound_low, found.bound_high) == pytest.approx(
            (min(*values, found.value), max(*values, found.value))
        )


def test_lost_asks_widen_what_decides() -> None:
    asked = {f"s{at}": (("yes", "yes"), ("yes", "yes")) for at in range(30)}
    whole, lost = read(asked), read({**asked, "s3": (("yes", "yes"), ("error", "yes")), "s4": (("yes", "error"),) * 2})
    assert deciding_ends(whole)[1] == whole.cluster_high
    assert deciding_ends(lost)[1] > lost.cluster_high
