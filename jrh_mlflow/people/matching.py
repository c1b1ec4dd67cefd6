"""Verdicts matched with their calibration: of one judge, labelled items told from the others, what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.labels.verdicts import Judged
from jrh_mlflow.stats import Array, Mask

_DECISIVE = ("scorer_digest", "fingerprint")
"""Facts that stand for the whole definition of a judge."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Verdicts matched with their calibration."""

    unlabelled: Judged
    """Items with a verdict and without a person's label."""
    labelled: Judged
    """Items with both."""
    population: Judged
    """Every item with a verdict: what MLflow takes the mean of."""
    taken_out: bool
    """Whether the labelled items were among the verdicts."""
    notes: tuple[str, ...]
    lost: Mapping[str, int]
    """What was left out, by reason."""


def match(verdicts: Judged, calibration: Judged | None) -> Samples:
    """Tell labelled from unlabelled items.

    Where both sides have ids, the calibration items are all among the verdicts, and count as labelled only, or none is.

    Raises:
        RecipeError: when some of them are, when the judge said two things about one item, when the judge or its scale
            is another than the calibrated one, or nothing is left on one of the sides.
    """
    if calibration is None:
        verdicts = replace(verdicts, items=verdicts.items or _rows(len(verdicts)))
        calibration = _own_labels(verdicts)
    check_same_judge(verdicts, calibration)
    taken_out = _among(verdicts, calibration)
    if taken_out:
        calibration = _with_verdicts(verdicts, calibration)
    check_same_scale(verdicts, calibration)
    labelled = calibration.take(_known(calibration.judge) & _known(calibration.human))
    inside = set(labelled.items or ()) if taken_out else set()
    rest = np.array([name not in inside for name in verdicts.items or _rows(len(verdicts))], dtype=bool)
    known = _known(verdicts.judge)
    samples = Samples(
        unlabelled=verdicts.take(known & rest),
        labelled=labelled,
        population=verdicts.take(known),
        taken_out=taken_out,
        notes=_notes(verdicts, labelled, taken_out=taken_out),
        lost=_lost(verdicts, calibration, taken_out=taken_out),
    )
    _check_both(samples)
    return samples


def _own_labels(verdicts: Judged) -> Judged:
    """Return the items of the verdicts that people labelled."""
    known = None if verdicts.human is None else _known(verdicts.human)
    if known is None or not known.any():
        raise RecipeError(
            "No calibration was given, and no item of the verdicts has a person's label. Give a table with `judge` and "
            "`human`, an agreement, or label some of the traces (HUMAN feedback of the scorer's name)."
        )
    return verdicts.take(known)


def check_same_judge(verdicts: Judged, other: Judged, *, what: str = "the calibrated one") -> None:
    """Refuse two judges; facts that both sides tell are compared, and the digest of a definition decides alone.

    Raises:
        RecipeError: with the fact that differs.
    """
    shared = [key for key in verdicts.facts if key in other.facts]
    for key in [key for key in _DECISIVE if key in shared] or shared:
        ours, theirs = verdicts.facts[key], other.facts[key]
        if ours.strip().casefold() != theirs.strip().casefold():
            raise RecipeError(
                f"The verdicts are of another judge than {what}: its {key} is {ours!r}, not {theirs!r}. Calibrate this "
                "judge; if both are one and the same, give the labels as a plain table with `judge` and `human`."
            )


def check_same_scale(verdicts: Judged, calibration: Judged) -> None:
    """Refuse a calibration of a judge that answered on another scale.

    Raises:
        RecipeError: with both scales.
    """
    if not calibration.levels and calibration.scale != "pairs" and verdicts.scale != "pairs":
        return
    both = [f"{each.scale}{_shown(each.levels)}" for each in (verdicts, calibration)]
    strange = verdicts.scale != "booleans" and verdicts.levels and verdicts.levels.isdisjoint(calibration.levels)
    if verdicts.scale != calibration.scale or strange:
        raise RecipeError(
            f"The judge was calibrated on another scale: the verdicts are {both[0]}, the calibration has {both[1]}. "
            "Bring both to pass or fail in the same way, such as `scores >= 4`, or with positive= (--positive)."
        )


def _shown(levels: frozenset[str]) -> str:
    return f" ({', '.join(sorted(levels)[:6])}{', …' if len(levels) > 6 else ''})" if levels else ""


def _among(verdicts: Judged, calibration: Judged) -> bool:
    """Whether the calibration items are among the verdicts: all of them, or none, as far as ids tell."""
    if verdicts.items is None or calibration.items is None:
        return False
    population = set(verdicts.items)
    outside = [name for name in calibration.items if name not in population]
    if outside and len(outside) < len(calibration.items):
        some = ", ".join(outside[:5]) + (", …" if len(outside) > 5 else "")
        raise RecipeError(
            f"{len(outside)} of {len(calibration.items)} calibration items are not in the population ({some}): either "
            "all of them are among the verdicts, or none is."
        )
    return not outside


def _with_verdicts(verdicts: Judged, calibration: Judged) -> Judged:
    """Give calibration items the verdict that the population has for them where theirs is missing.

    Raises:
        RecipeError: when it is another one than theirs.
    """
    of_item = dict(zip(verdicts.items or (), verdicts.judge.tolist(), strict=True))
    given = np.array([of_item[name] for name in calibration.items or ()])
    differ = _known(given) & _known(calibration.judge) & (given != calibration.judge)
    if differ.any():
        some = [name for name, wrong in zip(calibration.items or (), differ, strict=True) if wrong]
        raise RecipeError(
            f"The judge's verdict differs between verdicts and calibration on {len(some)} items "
            f"({', '.join(some[:5])}{', …' if len(some) > 5 else ''}): these are not the verdicts that were calibrated."
        )
    missing = ~_known(calibration.judge)
    scale: dict[str, Any] = {"scale": verdicts.scale, "levels": verdicts.levels} if missing.all() else {}
    return replace(calibration, judge=np.where(missing, given, calibration.judge), **scale)


def _known(values: Array | None) -> Mask:
    if values is None:
        raise ValueError("`human` must be known on this side.")
    return np.asarray(~np.isnan(values))


def _rows(n: int) -> tuple[str, ...]:
    return tuple(f"row {place}" for place in range(1, n + 1))


def _check_both(samples: Samples) -> None:
    if not len(samples.labelled):
        raise RecipeError("No calibration item has both labels, the judge's and a person's: nothing can be corrected.")
    if not len(samples.unlabelled):
        what = "Every item with a verdict has a person's label" if samples.taken_out else "The judge gave no verdict"
        raise RecipeError(f"{what}: there is no rate to correct.")


def _lost(verdicts: Judged, calibration: Judged, *, taken_out: bool) -> dict[str, int]:
    judged, people = _known(calibration.judge), _known(calibration.human)
    no_verdict = int((~_known(verdicts.judge)).sum())
    counts = {
        "verdicts that failed": verdicts.failed,
        "verdicts missing": no_verdict - verdicts.failed,
        "calibration items without a verdict": 0 if taken_out else int((~judged).sum()),
        "calibration items without a person's label": int((judged & ~people).sum()),
        "items on which people are split": verdicts.split or calibration.split,
    }
    return {reason: count for reason, count in counts.items() if count}


def _notes(verdicts: Judged, labelled: Judged, *, taken_out: bool) -> tuple[str, ...]:
    if not taken_out:
        return ()
    return (
        f"{len(labelled):,} of the {len(verdicts):,} verdicts are on calibration items: these count as labelled, not "
        "as unlabelled.",
    )


def shared_labels(versions: Mapping[str, Judged], calibration: Judged) -> Judged:
    """Give labels that two versions share the verdict of the version whose item it is, where theirs is missing.

    Raises:
        RecipeError: when only some of the items are those of the versions, when the judge said something else about one
            in either version, or when an item is of both and nothing tells which of its two verdicts was labelled.
    """
    if calibration.items is None or any(each.items is None for each in versions.values()):
        return calibration
    first, second = versions.values()
    items = tuple(dict.fromkeys(name for each in versions.values() for name in each.items or ()))
    both = [dict(zip(each.items or (), each.judge.tolist(), strict=True)) for each in (first, second)]
    pooled = replace(first, items=items, judge=np.array([_verdict(both, name) for name in items]))
    if not _among(pooled, calibration):
        return calibration
    given = dict(zip(calibration.items, calibration.judge.tolist(), strict=True))
    # Where the calibration tells the verdict, either version may be the labelled one.
    told = {name for name, said in given.items() if said in (of.get(name) for of in both)}
    doubtful = [name for name, said in given.items() if np.isnan(said) and len(_said(both, name)) > 1]
    if doubtful:
        raise RecipeError(
            f"{len(doubtful)} labelled items are of both versions, which differ on them ({', '.join(doubtful[:5])}): "
            "say whose output was labelled, in a column `version` or with the judge's verdict."
        )
    judge = [given[name] if name in told else _verdict(both, name) for name in items]
    return _with_verdicts(replace(pooled, judge=np.array(judge)), calibration)


def _said(both: Sequence[Mapping[str, float]], name: str) -> set[float]:
    """Return the verdicts that two versions have on an item."""
    return {of[name] for of in both if name in of and not np.isnan(of[name])}


def _verdict(both: Sequence[Mapping[str, float]], name: str) -> float:
    return next(iter(_said(both, name)), np.nan)


def count_labelled(verdicts: Judged, labelled: Judged) -> int:
    """Count the items with a verdict that are labelled, as far as ids tell."""
    inside = set(labelled.items or ())
    known = zip(verdicts.items or (), _known(verdicts.judge), strict=False)
    return sum(bool(given) and name in inside for name, given in known)
