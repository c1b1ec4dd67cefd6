"""Verdicts of one judge as numbers, with people's labels beside them, and matched with their calibration.

Verdicts are 0 or 1; on pairs the value of a pair is 1 (both orders choose u), 0 (both choose v) or ½. Scores are what
they are (`ScoreRanges` brings them to 0 … 1). What is missing is NaN and never 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.people.label_reader import chosen_by_scorer, labels_of
from jrh_mlflow.people.labels import CODE, JUDGE, PERSON, LabelOptions, LabelTable, fact_texts
from jrh_mlflow.people.labels.tables import numbered_rows
from jrh_mlflow.schema.label_words import BOOLEANS, label_word
from jrh_mlflow.stats import Array, Interval, Mask
from jrh_mlflow.suites.dataset import is_missing

Scale = Literal["booleans", "labels", "scores", "pairs"]
_NO_VERDICT = "unknown"
"""What MLflow's judges say when they cannot tell: MLflow's own mean leaves it out."""
_WINS = {"u": 1.0, "v": 0.0, "tie": 0.5}
_OF_ITEMS = ("judge", "scores", "human", "weights", "inclusion", "positional", "ties", "lost_calls")
_DRAWN = ("weight", "inclusion", "cluster")
"""Columns that say how items were drawn."""
_COUNTED = "are on calibration items: these count as labelled, not as unlabelled"
_DECISIVE = ("scorer_digest", "fingerprint")
"""Facts that stand for the whole definition of a judge."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What one judge said about items, and what people said about them where they did."""

    judge: Array
    """0 … 1 for each item, or its score; NaN where there is no verdict."""
    scale: Scale
    levels: frozenset[str] = frozenset()
    """Every answer the judge gave, as text."""
    scores: Array | None = None
    """The judge's scores, where it gives some: `judge` may be whether they are a pass."""
    means: frozenset[Literal["judge", "human"]] = frozenset()
    """Whose scores are read as they are, because nobody says which are a pass."""
    human: Array | None = None
    """As `judge`; NaN where no person decided. None where nobody was asked."""
    labels: frozenset[str] = frozenset()
    """Every label that people gave, as text."""
    items: tuple[str, ...] | None = None
    weights: Array | None = None
    inclusion: Array | None = None
    """Chance with which each item was drawn to be labelled, where one is known."""
    clusters: tuple[str | None, ...] | None = None
    """What each item was sampled together with; None for an item that stands for itself."""
    versions: tuple[str, ...] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What identifies the judge."""
    positional: Array | None = None
    """Of pairs: share of its replicates in which both orders choose the same slot."""
    ties: Array | None = None
    """Of pairs: share in which an order chooses neither."""
    lost_calls: Array | None = None
    """Of pairs: share of its calls that gave no answer."""
    failed: int = 0
    """Items on which the judge failed; NaN in `judge`."""
    split: int = 0
    """Items on which as many people said one as the other; NaN in `human`."""
    scorer: str | None = None
    run_id: str | None = None
    """Of the `mlflow.genai.evaluate` that the verdicts are of."""
    experiment_id: str | None = None
    """Of the traces that they are on."""
    uri: str | None = None
    simulated: bool = False

    def __len__(self) -> int:
        return len(self.judge)

    @property
    def lost_share(self) -> float:
        """Share of the judge's calls without a verdict."""
        lost = np.isnan(self.judge) if self.lost_calls is None else self.lost_calls
        return float(lost.mean()) if len(lost) else 0.0

    def take(self, rows: Mask) -> Judged:
        """Return the items at which `rows` is true."""
        arrays = {name: getattr(self, name) for name in _OF_ITEMS}
        texts = {name: getattr(self, name) for name in ("items", "versions", "clusters")}
        kept: dict[str, Any] = {name: None if cells is None else cells[rows] for name, cells in arrays.items()}
        kept |= {
            name: None if cells is None else tuple(cell for cell, keep in zip(cells, rows, strict=True) if keep)
            for name, cells in texts.items()
        }
        return replace(self, **kept)


def read_judged(
    source: object,
    options: LabelOptions,
    *,
    positive: tuple[object, ...] = (),
    scorer: str | None = None,
    human: str | None = None,
    means: bool = False,
) -> Judged:
    """Read what one judge said about items, and what people said about them, whatever holds it.

    Args:
        source: As for `correct`.
        options: How it is read.
        positive: Answers that are a pass, where they are not booleans.
        scorer: Which judge of a source that has several.
        human: Name of people's assessments, where it is not the scorer's.
        means: Read scores as they are where nobody says which are a pass; otherwise refuse them.

    Raises:
        RecipeError: when it cannot be read, in one line.
    """
    labels = chosen_by_scorer(labels_of(source, options), scorer=scorer, human=human)
    judged = _numbers(labels, positive, means=means)
    if labels.of_traces and options.part == "calibration":
        if judged.human is None:
            raise RecipeError("No trace of the calibration has a person's label: HUMAN feedback of the scorer's name.")
        # Other traces are no part of the calibration: nobody was to label them.
        return judged.take(_known(judged.human))
    return judged


def _numbers(labels: LabelTable, positive: tuple[object, ...], *, means: bool) -> Judged:
    """Turn the long table into numbers, one for each item (of each version)."""
    versions = None if "version" not in labels.frame else labels.column("version")
    keys = list(zip(labels.column("item"), versions or [""] * len(labels.frame), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    rows = _Rows(labels=labels, places=[places[key] for key in keys], n=len(places), means=means)
    # The calibration of an agreement holds booleans; `positive` is about the labels that they stand for.
    judged = rows.pairs() if "order" in labels.frame else rows.verdicts(() if labels.levels else positive)
    of_items = {name: rows.per_item(name) for name in _DRAWN}
    known = {name: cells for name, cells in of_items.items() if not all(map(is_missing, cells))}
    numbers = {name: np.array([_number(cell) for cell in cells]) for name, cells in known.items() if name != "cluster"}
    clusters = [None if is_missing(cell) else str(cell) for cell in known.get("cluster", ())]
    judged = replace(
        judged,
        items=tuple(str(item) for item, _ in places) if labels.has_ids else None,
        versions=None if versions is None else tuple(version for _, version in places),
        weights=numbers.get("weight"),
        inclusion=numbers.get("inclusion"),
        clusters=tuple(clusters) or None,
        facts=fact_texts(labels.facts),
        scorer=labels.name,
        run_id=labels.run_id if labels.of_traces else None,
        experiment_id=labels.experiment_id,
        uri=labels.tracking_uri,
        simulated=labels.simulated,
    )
    return _calibrated(judged, labels, positive) if labels.levels else judged


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """Rows of the long table, each with the place of its item."""

    labels: LabelTable
    places: Sequence[int]
    n: int
    """Items."""
    means: bool
    """Whether scores may be read as they are."""

    def per_item(self, name: str, *kinds: str) -> list[Any]:
        """Return of each item its cell in the rows of raters of these kinds, or in all; None where it has none."""
        of_item: list[Any] = [None] * self.n
        for place, kind, cell in zip(self.places, self.labels.column("kind"), self.labels.column(name), strict=True):
            if cell is not None and (not kinds or kind in kinds):
                of_item[place] = cell
        return of_item

    def verdicts(self, positive: tuple[object, ...]) -> Judged:
        """Read pass or fail of single items, with what most people said."""
        labels = self.labels
        where = labels.called.get(JUDGE, f"The feedback {labels.name!r}")
        cells = self.per_item("label", JUDGE, CODE)
        judge, scale, levels = read_values(cells, positive, where, means=self.means)
        scores = np.array([_number(cell) for cell in cells]) if scale == "scores" else None
        failed = {place for place, why in zip(self.places, labels.column("outcome"), strict=True) if why == "failed"}
        # A judge that failed on an item and answered at another time has a verdict.
        read = Judged(
            judge=judge,
            scale=scale,
            levels=levels,
            scores=scores,
            means=frozenset() if positive or scores is None else frozenset({"judge"}),
            failed=sum(cells[place] is None for place in failed),
        )
        return self._with_people(read, positive) if labels.has_people else read

    def _with_people(self, judged: Judged, positive: tuple[object, ...]) -> Judged:
        """Add what most people said of each item, and count the items on which they are split."""
        rows = zip(self.places, self.labels.column("kind"), self.labels.column("label"), strict=True)
        said = [(place, label) for place, kind, label in rows if kind == PERSON]
        where = self.labels.called.get(PERSON, "The label of a person")
        values, scale, labels = read_values([label for _, label in said], positive, where, means=self.means)
        shares = self._means([place for place, _ in said], values)
        if scale == "scores" and not positive:
            return replace(judged, human=shares, labels=labels, means=judged.means | {"human"})
        # Half of the people is no majority, so that nobody knows the label.
        human = np.where(shares == 0.5, np.nan, np.where(np.isnan(shares), np.nan, shares > 0.5))
        return replace(judged, human=human, labels=labels, split=int((shares == 0.5).sum()))

    def _means(self, places: Sequence[int], values: Array) -> Array:
        """Return of each item the mean of what is known; NaN where nothing is."""
        means = pd.Series(values, dtype=float).groupby(np.array(places, dtype=int)).mean()
        return means.reindex(range(self.n)).to_numpy(float)

    def pairs(self) -> Judged:
        """Read the value of each pair from what was chosen in either order; the mean over its replicates."""
        labels, n = self.labels, len(self.labels.frame)
        replicates = labels.column("replicate") if "replicate" in labels.frame else [0] * n
        rows = zip(self.places, replicates, labels.column("order"), labels.column("label"), strict=True)
        chosen = {(place, replicate, order): label or "" for place, replicate, order, label in rows if order}
        shown = list(dict.fromkeys((place, replicate) for place, replicate, _ in chosen))
        uv, vu = ([chosen.get((*key, order), "") for key in shown] for order in ("uv", "vu"))
        # Replicates of a pair are no pairs of their own.
        parts = (*pair_values(uv, vu), np.array([((not a) + (not b)) / 2 for a, b in zip(uv, vu, strict=True)]))
        value, positional, ties, lost = (self._means([place for place, _ in shown], part) for part in parts)
        judged = Judged(judge=value, scale="pairs", positional=positional, ties=ties, lost_calls=lost)
        if not labels.has_people:
            return judged
        people = self.per_item("label", PERSON)
        return replace(judged, human=np.array([_WINS.get(label, np.nan) for label in people], dtype=float))


def _calibrated(judged: Judged, labels: LabelTable, positive: tuple[object, ...]) -> Judged:
    """Read the calibration of an agreement: it says of each label whether it is the positive one.

    Raises:
        RecipeError: when that is neither what is a pass here nor all that is none.
    """
    levels = frozenset(map(label_word, labels.levels))
    given = {label_word(label) for label in positive}
    scale = _scale(levels, given)
    if _is_turned(levels, scale, given, labels.positive):
        judged = replace(judged, judge=1 - judged.judge, human=None if judged.human is None else 1 - judged.human)
    return replace(judged, levels=levels, labels=levels, scale=scale)


def _is_turned(levels: frozenset[str], scale: Scale, given: set[str], positive: str | None) -> bool:
    """Whether the positive label of an agreement is the one that is no pass here."""
    passes = {level for level in levels if _is_pass(level, given, scale)}
    if positive is None or (not given and scale != "booleans") or passes in ({label_word(positive)}, set()):
        return False
    if levels - passes != {label_word(positive)}:
        raise RecipeError(
            f"The agreement is about the label {positive!r}, here {', '.join(sorted(passes))} are a pass. Run `jrh "
            "agree` again with two labels, pass and fail, or give the labels as a table with `judge` and `human`."
        )
    return True


def given_labels(labels: object) -> tuple[object, ...]:
    """Return the answers that a user gave as one, as several, or not at all."""
    if labels is None:
        return ()
    return tuple(labels) if isinstance(labels, list | tuple | set | frozenset) else (labels,)


def check_positive(positive: tuple[object, ...], *sources: Judged) -> None:
    """Refuse a pass that nobody gave: a word that is spelled otherwise.

    Raises:
        RecipeError: with the nearest label.
    """
    passes = {label_word(label) for label in positive} - BOOLEANS.keys()
    labels = sorted({text for judged in sources for text in (*judged.levels, *judged.labels)})
    if passes and passes.isdisjoint(labels):
        name = min(passes)
        raise RecipeError(f"Nobody said {name!r}.{suggest(name, labels)} Labels there are: {', '.join(labels[:20])}.")


def read_values(
    cells: Sequence[object], positive: tuple[object, ...], where: str, *, means: bool = False
) -> tuple[Array, Scale, frozenset[str]]:
    """Read verdicts or labels as 0, 1 and NaN, with the scale they are on and every answer that was given.

    Booleans, yes/no, pass/fail and 1/0 are read as they are, with `means` scores too; of other answers `positive` says
    which are a pass.

    Raises:
        RecipeError: when answers are no booleans and nobody says which of them are a pass.
    """
    texts = [None if is_missing(cell) else label_word(cell) for cell in cells]
    passes = {label_word(label) for label in positive}
    # Where a user names it as a pass it is an answer.
    texts = [None if text == _NO_VERDICT and text not in passes else text for text in texts]
    levels = frozenset(text for text in texts if text is not None)
    scale = _scale(levels, passes)
    as_they_are = means and scale == "scores" and not passes
    if scale != "booleans" and not passes and not as_they_are:
        raise RecipeError(_which_are_a_pass(levels, scale, where))
    known = {level: float(level) if as_they_are else float(_is_pass(level, passes, scale)) for level in levels}
    return np.array([np.nan if text is None else known[text] for text in texts], dtype=float), scale, levels


def _scale(levels: frozenset[str], passes: set[str]) -> Scale:
    """Tell booleans from scores and from other labels; with a pass such as 4 or 5, 1 and 0 are scores as well."""
    scores = passes and all(_is_number(text) for text in passes) and not passes <= BOOLEANS.keys()
    if levels <= BOOLEANS.keys() and not (scores and any(map(_is_number, levels))):
        return "booleans"
    return "scores" if all(map(_is_number, levels)) else "labels"


def _is_pass(level: str, passes: set[str], scale: Scale) -> bool:
    if scale != "booleans":
        return level in passes
    # Words such as "good" say nothing about booleans; a boolean word turns them round where it is False.
    senses = {BOOLEANS[text] for text in passes if text in BOOLEANS} or {True}
    return BOOLEANS[level] in senses


def _which_are_a_pass(levels: frozenset[str], scale: Scale, where: str) -> str:
    shown = ", ".join(sorted(levels)[:6]) + (", …" if len(levels) > 6 else "")
    if scale == "scores":
        return (
            f"{where} holds scores ({shown}), and a rate needs pass or fail. Say which scores are a pass: "
            "positive=(4, 5) (--positive 4 --positive 5), or give `scores >= 4`."
        )
    return f"{where} holds {shown}: no booleans. Say which label is a pass: positive= (--positive)."


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _number(cell: object) -> float:
    text = "" if is_missing(cell) else str(cell).strip()
    return float(text) if _is_number(text) else np.nan


_RANGES = ((0.0, 1.0), (1.0, 5.0), (0.0, 10.0), (0.0, 100.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRanges:
    """Between what the judge's scores and people's lie: the first of 0 … 1, 1 … 5, 0 … 10, 0 … 100 that holds them."""

    judge: Interval
    people: Interval

    @staticmethod
    def of(*sources: Judged) -> ScoreRanges:
        """ScoreRanges of everything that is corrected together."""
        judge, people = (
            np.concatenate([[], *(values[~np.isnan(values)] for values in given if values is not None)])
            for given in ([source.scores for source in sources], [source.human for source in sources])
        )
        one = _RANGES[0]
        both = _range(judge), _range(people)
        # Scores of judge and people that are no probabilities are taken to be on one scale.
        return (
            ScoreRanges(judge=both[0], people=both[1])
            if one in both
            else ScoreRanges(judge=(joint := _range(np.append(judge, people))), people=joint)
        )

    def scaled(self, judged: Judged) -> Judged:
        """Bring scores to 0 … 1."""
        scores = None if judged.scores is None else _within(judged.scores, self.judge)
        judge = scores if scores is not None and "judge" in judged.means else judged.judge
        return replace(
            judged,
            judge=judge,
            scores=scores,
            human=None if judged.human is None else _within(judged.human, self.people),
        )


def _range(values: Array) -> Interval:
    fitting = [ends for ends in _RANGES if ((values >= ends[0]) & (values <= ends[1])).all()]
    return fitting[0] if fitting else (float(values.min()), float(values.max()) + 1e-9)


def _within(values: Array, ends: Interval) -> Array:
    return (values - ends[0]) / (ends[1] - ends[0])


def pair_values(uv: Sequence[str], vu: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return the value of each pair, whether it is positional, and whether an order chose neither; NaN for lost pairs.

    Args:
        uv: What was chosen in the order u, v: `u`, `v`, another word for neither, or empty where the call is lost.
        vu: In the order v, u.

    Example:
        >>> [each.tolist() for each in pair_values(["u", "u", "tie"], ["u", "v", "u"])]
        [[1.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    pairs = list(zip(uv, vu, strict=True))
    lost = np.array([not (first and second) for first, second in pairs], dtype=bool)
    sides = {("u", "u"): 1.0, ("v", "v"): 0.0}
    value = np.array([sides.get(pair, 0.5) for pair in pairs])
    # The same slot twice is another content each time.
    positional = np.array([float(set(pair) == {"u", "v"}) for pair in pairs])
    ties = np.array([float(not set(pair) <= {"u", "v"}) for pair in pairs])
    value[lost] = positional[lost] = ties[lost] = np.nan
    return value, positional, ties


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
        # Rows without ids are numbered, so that the labelled ones can be told from the rest.
        verdicts = replace(verdicts, items=verdicts.items or tuple(numbered_rows(len(verdicts))))
        calibration = _own_labels(verdicts)
    check_same_judge(verdicts, calibration)
    taken_out = _among(verdicts, calibration)
    if taken_out:
        calibration = _with_verdicts(verdicts, calibration)
    check_same_scale(verdicts, calibration)
    labelled = calibration.take(_known(calibration.judge) & _known(calibration.human))
    inside = set(labelled.items or ()) if taken_out else set()
    rest = np.array([name not in inside for name in verdicts.items or tuple(numbered_rows(len(verdicts)))], dtype=bool)
    known = _known(verdicts.judge)
    samples = Samples(
        unlabelled=verdicts.take(known & rest),
        labelled=labelled,
        population=verdicts.take(known),
        taken_out=taken_out,
        notes=(f"{len(labelled):,} of the {len(verdicts):,} verdicts {_COUNTED}.",) if taken_out else (),
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
    # Without an answer of the judge's there is no scale to compare.
    if not calibration.levels and calibration.scale != "pairs" and verdicts.scale != "pairs":
        return
    both = [f"{judged.scale}{_shown(judged.levels)}" for judged in (verdicts, calibration)]
    strange = verdicts.scale != "booleans" and verdicts.levels and verdicts.levels.isdisjoint(calibration.levels)
    scores = [judged.scores for judged in (verdicts, calibration) if judged.scores is not None]
    if "judge" in verdicts.means and len(scores) == 2:
        # Scores of one scale need not be the same, but probabilities are no marks.
        strange = len({float(np.nanmax(values)) <= 1 for values in scores}) > 1
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
    given = _looked_up(verdicts, verdicts.judge, calibration)
    differ = _known(given) & _known(calibration.judge) & (given != calibration.judge)
    if differ.any():
        some = [name for name, wrong in zip(calibration.items or (), differ, strict=True) if wrong]
        raise RecipeError(
            f"The judge's verdict differs between verdicts and calibration on {len(some)} items "
            f"({', '.join(some[:5])}{', …' if len(some) > 5 else ''}): these are not the verdicts that were calibrated."
        )
    missing = ~_known(calibration.judge)
    # Without a verdict of its own the calibration has no scale, and takes that of the verdicts.
    known: dict[str, Any] = (
        {"scale": verdicts.scale, "levels": verdicts.levels, "means": verdicts.means & {"judge"} | calibration.means}
        if missing.all()
        else {}
    )
    if calibration.clusters is None and verdicts.clusters is not None:
        cluster_of = dict(zip(verdicts.items or (), verdicts.clusters, strict=True))
        known["clusters"] = tuple(cluster_of[name] for name in calibration.items or ())
    if verdicts.scores is not None:
        own = calibration.judge * np.nan if calibration.scores is None else calibration.scores
        known["scores"] = np.where(np.isnan(own), _looked_up(verdicts, verdicts.scores, calibration), own)
    return replace(calibration, judge=np.where(missing, given, calibration.judge), **known)


def _looked_up(verdicts: Judged, values: Array, calibration: Judged) -> Array:
    """Return what the verdicts have on each item of the calibration."""
    of_item = dict(zip(verdicts.items or (), values.tolist(), strict=True))
    return np.array([of_item[name] for name in calibration.items or ()])


def clusters_of(*samples: Judged) -> tuple[list[Hashable], ...] | None:
    """Return the clusters of each sample, an item without one as a cluster of its own; None where none has any.

    An item that stands for itself is known by its id, so that it is the same in two versions; without ids it is like no
    other.
    """
    if all(sample.clusters is None for sample in samples):
        return None
    return tuple(
        [
            cluster or (object() if sample.items is None else ("item", sample.items[place]))
            for place, cluster in enumerate(sample.clusters or [None] * len(sample))
        ]
        for sample in samples
    )


def _known(values: Array | None) -> Mask:
    if values is None:
        raise ValueError("`human` must be known on this side.")
    return np.asarray(~np.isnan(values))


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
        # Those that are among the verdicts are counted there.
        "calibration items without a verdict": 0 if taken_out else int((~judged).sum()),
        "calibration items without a person's label": int((judged & ~people).sum()),
        # Where verdicts carry their own labels, both sides count the same items.
        "items on which people are split": verdicts.split or calibration.split,
    }
    return {reason: count for reason, count in counts.items() if count}


def shared_labels(versions: Mapping[str, Judged], calibration: Judged) -> Judged:
    """Give labels that versions share the verdict of the version whose item it is, where theirs is missing.

    Raises:
        RecipeError: when only some of the items are those of the versions, when the judge said something else about one
            in either version, or when an item is of both and nothing tells which of its two verdicts was labelled.
    """
    if calibration.items is None or any(judged.items is None for judged in versions.values()):
        return calibration
    first = next(iter(versions.values()))
    items = tuple(dict.fromkeys(name for judged in versions.values() for name in judged.items or ()))
    both = [dict(zip(judged.items or (), judged.judge.tolist(), strict=True)) for judged in versions.values()]
    pooled = replace(first, items=items, judge=np.array([_verdict(both, name) for name in items]), scores=None)
    if not _among(pooled, calibration):
        return calibration
    given = dict(zip(calibration.items, calibration.judge.tolist(), strict=True))
    # Where the calibration tells the verdict, either version may be the labelled one.
    known = {name for name, verdict in given.items() if verdict in (of.get(name) for of in both)}
    doubtful = [name for name, verdict in given.items() if np.isnan(verdict) and len(_said(both, name)) > 1]
    if doubtful:
        raise RecipeError(
            f"{len(doubtful)} labelled items are of several versions that differ on them ({', '.join(doubtful[:5])}): "
            "say whose output was labelled, in a column `version` or with the judge's verdict."
        )
    judge = [given[name] if name in known else _verdict(both, name) for name in items]
    scores = np.array(judge) if "judge" in first.means else None
    return _with_verdicts(replace(pooled, judge=np.array(judge), scores=scores), calibration)


def _said(both: Sequence[Mapping[str, float]], name: str) -> set[float]:
    """Return the verdicts that two versions have on an item."""
    return {of[name] for of in both if name in of and not np.isnan(of[name])}


def _verdict(both: Sequence[Mapping[str, float]], name: str) -> float:
    return next(iter(_said(both, name)), np.nan)


def count_labelled(verdicts: Judged, labelled: Judged) -> int:
    """Count the items with a verdict that are labelled, as far as ids tell."""
    inside = set(labelled.items or ())
    # Verdicts without ids have no items to count.
    known = zip(verdicts.items or (), _known(verdicts.judge), strict=False)
    return sum(bool(given) and name in inside for name, given in known)
