"""Errors put into a response in graded doses: the answer should fall, and fall further with each dose."""

from __future__ import annotations

import re

import numpy as np

from jrh_mlflow.measures.ledger import Units, share
from jrh_mlflow.measures.reliability.accuracy import Counted
from jrh_mlflow.measures.reliability.binary import ORDER_UNKNOWN
from jrh_mlflow.measures.reliability.points import PointTable, left_out
from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.schema.items import ERROR_INJECTION

_DOSE = re.compile(rf"{ERROR_INJECTION}_([0-9]+)")
_UNKNOWN = NotEstimable(reason=ORDER_UNKNOWN.format(what="highest"))


def dose_of(test: str) -> int | None:
    """Return the dose of `error_injection_2`, None for other tests."""
    found = _DOSE.fullmatch(test)
    return int(found[1]) if found else None


def doses(calls: PointTable) -> list[str]:
    """Return the dose conditions there are, from the smallest on."""
    return sorted((test for test in set(calls.test) if dose_of(test) is not None), key=lambda test: dose_of(test) or 0)


def dose_axes(calls: PointTable) -> dict[str, Reading]:
    """Decline at each dose (calls strictly below the judge's own baseline answer), and the monotone share of sources.

    A judge that gives the lowest label to the unperturbed response cannot decline and does not count as declining.
    """
    found = doses(calls)
    if not found:
        return {}
    axes = {f"{test}/decline": _decline(calls.of(test), test) for test in found}
    counted = monotone(calls)
    return axes | {f"{ERROR_INJECTION}/monotone": _UNKNOWN if counted is None else counted.reading}


def monotone(calls: PointTable) -> Counted | None:
    """Sources whose answers never rise over baseline, dose 1, 2, … and end strictly below the baseline.

    Every replicate must (the r-th of each dose, counted round where a dose has fewer). Sources are those with one
    baseline item and every dose; one with an unusable call leaves the denominator, and an abstention is not monotone.

    Returns:
        What to count, or None when the order of the labels is not known.
    """
    if not calls.scale.ordered:
        return None
    places = calls.scale.places(calls.answer)
    rows = _sequences(calls)
    sources = np.array(sorted(rows), dtype=np.intp)
    outcomes = [calls.outcome[np.concatenate(rows[source])] for source in sources]
    unusable = [outcome[~np.isin(outcome, USABLE)] for outcome in outcomes]
    units = Units(
        what=f"sources with a baseline and every dose of {ERROR_INJECTION}",
        unit="item",
        usable=np.array([len(lost) == 0 for lost in unusable], dtype=bool),
        clusters=sources,
        n_codes=calls.n_sources,
        left_out=left_out(np.concatenate([*unusable, np.array([], dtype=object)])),
        max_excluded=calls.max_excluded,
    )
    hits = [_falls([places[stage] for stage in rows[source]]) for source in sources]
    return Counted(units=units, hits=np.array(hits, dtype=bool))


def _decline(calls: PointTable, test: str) -> Reading:
    if not calls.scale.ordered:
        return _UNKNOWN
    paired = calls.where(calls.base_outcome != "")
    # NaN, for an abstention, is below nothing.
    below = paired.scale.places(paired.answer) < paired.scale.places(paired.base_answer)
    return share(paired.paired(f"{test} calls with a baseline"), below)


def _sequences(calls: PointTable) -> dict[int, list[np.ndarray[tuple[int], np.dtype[np.intp]]]]:
    """Rows of the baseline and of each dose, for the sources that have one baseline item and all doses."""
    stages = [np.asarray(calls.test == test) for test in ("baseline", *doses(calls))]
    found = {}
    for source in np.unique(calls.source[calls.n_bases == 1]):
        own = [np.flatnonzero(stage & (calls.source == source)) for stage in stages]
        if all(len(stage) for stage in own):
            found[int(source)] = own
    return found


def _falls(stages: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> bool:
    replicates = np.arange(max(len(stage) for stage in stages))
    levels = np.stack([stage[replicates % len(stage)] for stage in stages])
    # NaN, for an abstention, makes every comparison false.
    return bool((np.diff(levels, axis=0) <= 0).all() and (levels[-1] < levels[0]).all())
