"""`jrh.correct`: the true rate behind a judge's verdicts, by items that people labelled too; differences, win rates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people import corrected, corrected_view
from jrh_mlflow.people.corrected import CorrectedDifference, Graded, LabelledSample, Sampling
from jrh_mlflow.people.corrected_view import Corrected, VersionDifference
from jrh_mlflow.people.labels import LabelOptions
from jrh_mlflow.people.labels.evaluations import source_run
from jrh_mlflow.people.verdicts import (
    Judged,
    Samples,
    ScoreRanges,
    check_positive,
    check_same_judge,
    check_same_scale,
    clusters_of,
    count_labelled,
    given_labels,
    match,
    read_judged,
    shared_labels,
)
from jrh_mlflow.schema.estimates import Bounds, Estimate, NotEstimable, Reading
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED
from jrh_mlflow.show.numbers import interval_text, reading_text
from jrh_mlflow.stats import Array, Interval
from jrh_mlflow.stats.corrected_rates import bounded_mean
from jrh_mlflow.stats.max_t import max_t_of_estimates
from jrh_mlflow.stats.proportions import t_quantile
from jrh_mlflow.text import two_places
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, add_to_run, log_result

if TYPE_CHECKING:
    pass

_SHARED = NotEstimable(reason="the labels are shared by both versions")


def correct(
    verdicts: object,
    calibration: object = None,
    *,
    sampling: Sampling | None = None,
    weights: str | Sequence[float] | None = None,
    cluster: str | None = None,
    level: float = 0.95,
    log: bool = False,
    scorer: str | None = None,
    positive: object = None,
    judge: str = "judge",
    human: str = "human",
    item: str = "item",
    run: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> Corrected:
    """Estimate the true rate behind a judge's verdicts from items that people labelled too.

    A judge errs, so its mean is not the rate of passes. How it errs is measured on the calibration items.

    Args:
        verdicts: What the judge said about items without a person's label: booleans (also yes/no, pass/fail, 1/0; None
            is no verdict) or scores (1 to 5, probabilities) as a list, Series, array, table or file with the column
            `judge`, the result of `mlflow.genai.evaluate`, its run id, or `traces:/<experiment>`. A table with the
            columns `uv` and `vu` (the slot chosen in either order: 1, 2 or tie), or an evaluation on natural pairs,
            gives the win rate of u. A mapping of versions, or a column `version`, gives their differences, later minus
            earlier.
        calibration: Items with both labels: a table or file with the columns `judge` and `human` (of pairs `uv`, `vu`
            and `human`, which is A, B or tie), an `Agreement`, or the run id of one. None: what people said about the
            items of the verdicts themselves (HUMAN feedback on traces, or a column `human` with gaps). With ids
            (`item`) on both sides, all of its items are among the verdicts, or none.
        sampling: How the labelled items were drawn: `random` (from the items of the verdicts), `stratified` (within
            the person's labels, such as half passes and half fails) or `by_verdict` (within the judge's verdicts).
            None: as the column `inclusion` beside the labels says (`jrh agree --draw` writes it); without it the
            interval holds for all three ways and for labels of another application on which the judge errs as often,
            and is about twice as wide. `random` is believed unless the judge's verdicts on labelled and other items
            differ.
        weights: Inverse inclusion probabilities of the calibration items, where they are known: a column of the
            calibration, or one number for each of its rows.
        cluster: Column, tag of traces or field of a suite's meta with what was sampled together; None takes the column
            `cluster`, the session of traces, the source of a suite's items. Variances and tests are by cluster; below
            ten clusters there is no interval.
        level: Of the intervals.
        log: Log it: to the run of the `mlflow.genai.evaluate` that the verdicts are of, beside `<scorer>/mean`, else as
            a run of its own, kind `correct`.
        scorer: Which scorer of the result, run or traces; the only one when None. Names the metrics.
        positive: Label, or labels, that are a pass, where they are not booleans: `positive=(4, 5)`. Without it scores
            are read as they are: where people give scores, their mean is estimated.
        judge: Column of the judge's verdicts.
        human: Column of the person's labels; on traces the name of people's feedback where it is not the scorer's.
        item: Column of ids.
        run: Log it to this run of an evaluation.
        experiment: MLflow experiment of a run of its own.
        run_name: Name of a run of its own.
        tracking_uri: MLflow store; the active one when None.
        tags: More tags for a run of its own.

    Raises:
        RecipeError: in one line, when something cannot be read, only some calibration items are in the population, the
            judge or its scale is another than the calibrated one, or nothing is left to correct.
        TrackingError: when MLflow cannot be reached.
    """
    options = LabelOptions(
        part="verdicts",
        judge=judge,
        human=human,
        item=item,
        cluster=cluster,
        weights=weights if isinstance(weights, str) else None,
        tracking_uri=tracking_uri,
        fresh=calibration is None,
    )
    settings = _Correction(
        options=options,
        positive=given_labels(positive),
        scorer=scorer,
        sampling=sampling,
        level=level,
        weights=_numbers(weights),
    )
    versions = _versions(verdicts, settings)
    graded = next(iter(versions.values()))
    own = _own_calibrations(versions, calibration, settings)
    labels = [labelled for labelled in (own.values() if isinstance(own, dict) else [own]) if labelled is not None]
    units = ScoreRanges.of(*versions.values(), *labels)
    versions = {name: units.scaled(judged) for name, judged in versions.items()}
    own = (
        {name: labelled and units.scaled(labelled) for name, labelled in own.items()}
        if isinstance(own, dict)
        else units.scaled(own)
    )
    if len(versions) == 1:
        ((name, judged),) = versions.items()
        done = _corrected(judged, own[name] if isinstance(own, dict) else own, settings)
    else:
        done = _difference(versions, own, settings)
    done = _in_units(done, units, versions, labels)
    if not log and run is None:
        return done
    uri = tracking_uri or graded.uri
    done = _with_versions_logged(done, versions, tracking_uri)
    if (target := run or (graded.run_id if len(versions) == 1 else None)) is not None:
        return _log_beside(done, target, uri)
    # A run about the traces of an application lies with them, and leaves what their experiment opens on.
    place = graded.experiment_id if experiment is None else None
    store = Store(uri, experiment, experiment_id=place, saves_view=place is None)
    content, what_now = corrected_view.corrected_content, "Nothing else was changed."
    return log_result(
        store, done, "correct", content, name=run_name, simulated=done.simulated, tags=tags, what_now=what_now
    )


@dataclass(frozen=True, kw_only=True)
class _Correction:
    """How verdicts are read and corrected."""

    options: LabelOptions
    positive: tuple[object, ...]
    """Answers that are a pass."""
    scorer: str | None
    sampling: Sampling | None
    level: float
    weights: Array | None
    """Of the rows of the calibration."""

    def read(self, source: object, part: Literal["verdicts", "calibration"]) -> Judged:
        """Read verdicts or calibration; the calibration is as people say by now."""
        options = replace(self.options, part=part, fresh=self.options.fresh or part == "calibration")
        # `human` is the default of a column; on traces people's feedback has the scorer's name.
        human = None if options.human == "human" else options.human
        return read_judged(source, options, positive=self.positive, scorer=self.scorer, human=human, means=True)


def _drawn(labelled: Judged, settings: _Correction) -> tuple[Sampling | None, Array | None]:
    """Return how labelled items were drawn and their weights, as the caller or the chances beside them say."""
    chances = labelled.inclusion
    if settings.options.weights is not None and labelled.weights is None:
        raise RecipeError(f"The calibration has no column {settings.options.weights!r} of weights.")
    if settings.sampling is not None or labelled.weights is not None or chances is None:
        return settings.sampling, labelled.weights
    if not (np.isfinite(chances) & (chances > 0) & (chances <= 1)).all():
        raise RecipeError("Chances of inclusion must be known for every labelled item, over 0 and up to 1.")
    # Equal chances are a random sample, for which people's labels can be read alone, too.
    return "random", None if np.ptp(chances) < 1e-9 else 1 / chances


def _numbers(weights: str | Sequence[float] | None) -> Array | None:
    """Return weights that are given one for each row; None where they are a column, or not given."""
    if weights is None or isinstance(weights, str):
        return None
    try:
        return np.asarray(list(weights), dtype=float)
    except (TypeError, ValueError):
        raise RecipeError(
            "`weights` must be a column of the calibration, or one number for each of its rows, but is no such list: "
            f"{type(weights).__name__}."
        ) from None


def _versions(verdicts: object, settings: _Correction) -> dict[str, Judged]:
    """Read the verdicts of each version, or of the one thing there is, under an empty name."""
    if isinstance(verdicts, Mapping):
        versions = {str(name): settings.read(source, "verdicts") for name, source in verdicts.items()}
    else:
        judged = settings.read(verdicts, "verdicts")
        versions = _parts(judged) if judged.versions is not None else {}
        if len(versions) < 2:
            return {"": judged}
    if len(versions) < 2:
        raise RecipeError(f"A difference is of two versions or more, but got {len(versions)}: {', '.join(versions)}.")
    return versions


def _parts(judged: Judged) -> dict[str, Judged]:
    """Cut a table by its column `version`, in the order in which versions appear."""
    versions = np.array(judged.versions, dtype=object)
    return {name: judged.take(versions == name) for name in dict.fromkeys(judged.versions or ())}


def _calibration(source: object, settings: _Correction) -> Judged | None:
    if source is None:
        if settings.weights is not None:
            raise RecipeError("Weights without a calibration must be a column of the verdicts: weights='NAME'.")
        return None
    read = settings.read(source, "calibration")
    if settings.weights is None:
        return read
    if settings.weights.shape != (len(read),):
        raise RecipeError(
            f"{settings.weights.size} weights for {len(read)} rows of the calibration: give one for each."
        )
    return replace(read, weights=settings.weights)


def _refuse_versions(calibration: Judged | None) -> None:
    """Refuse labels of several versions for the verdicts of one."""
    versions = [] if calibration is None else list(dict.fromkeys(calibration.versions or ()))
    if len(versions) > 1:
        raise RecipeError(
            f"The calibration is of {len(versions)} versions ({', '.join(versions[:5])}), the verdicts of one: keep "
            "its labels, or give the verdicts of both versions for their difference."
        )


def _corrected(verdicts: Judged, calibration: Judged | None, settings: _Correction) -> Corrected:
    check_positive(settings.positive, verdicts, *([] if calibration is None else [calibration]))
    samples = match(verdicts, calibration)
    labelled = samples.labelled
    (sampling, weights), (ours, theirs) = _drawn(labelled, settings), _clusters(samples, settings)
    correct_by = partial(
        corrected.correct_rate,
        sampling=sampling,
        # Ids can show that labelled items were taken out of the verdicts; without them it is not known.
        labelled_apart=False if samples.taken_out else None,
        level=settings.level,
    )
    rest, labels = samples.unlabelled, _labels(labelled, weights, theirs)
    report = correct_by(_graded(rest, ours), labels)
    # What people said alone does not hang on verdicts that are missing.
    if report.method != "people only":
        # A generator: the two corrections are made only where bounds are needed.
        filled = (_more(rest, _missing(verdicts), verdict) for verdict in (0.0, 1.0))
        # Whether the judge would have said pass or fail there is open, not where they lie.
        ends = (correct_by(whole, replace(labels, clusters=None)).estimate for whole in filled)
        report = replace(report, estimate=_withhold(verdicts, report.estimate, ends))
    positional, ties = _pair_shares(samples.population, settings.level)
    is_pairs = positional is not None
    return Corrected(
        estimate=_counted(report.estimate, samples.lost, is_pairs=is_pairs),
        naive=_judge_mean(verdicts, settings.level),
        people_only=_counted(report.people_only, samples.lost, is_pairs=is_pairs),
        method=report.method,
        note=_note(report.note, samples, positional, ties),
        sampling=sampling,
        level=settings.level,
        scorer=verdicts.scorer or settings.scorer or verdicts.facts.get("name") or "judge",
        pool=report.pool,
        n_labelled=len(labelled),
        n_unlabelled=len(samples.unlabelled),
        # Sensitivity is of yes and no, and the value of a pair may be a half.
        sensitivity=None if is_pairs else report.sensitivity,
        specificity=None if is_pairs else report.specificity,
        if_fewer_found=None if is_pairs else report.if_fewer_found,
        n_clusters=None if theirs is None else len(set(theirs)),
        positional=positional,
        ties=ties,
        judge=verdicts.facts,
        lost=samples.lost,
        weighted=weights is not None,
        simulated=verdicts.simulated or labelled.simulated,
    )


def _clusters(samples: Samples, settings: _Correction) -> Sequence[Sequence[Hashable] | None]:
    """Return the clusters of verdicts and of labelled items; None of both where none is known."""
    both = clusters_of(samples.unlabelled, samples.labelled)
    if both is None and settings.options.cluster is not None:
        raise RecipeError(f"Neither the verdicts nor the calibration have {settings.options.cluster!r}: cluster=.")
    return both or (None, None)


def _withhold(verdicts: Judged, reading: Reading, ends: Iterable[Reading]) -> Reading:
    """Give no number but its bounds where too many verdicts are missing.

    Args:
        verdicts: What the judge said.
        reading: Without the missing verdicts.
        ends: With all of them fails, and with all of them passes.
    """
    if isinstance(reading, NotEstimable) or verdicts.lost_share <= MAX_EXCLUDED:
        return reading
    values = [end.value for end in ends if isinstance(end, Estimate)]
    known, lost = len(values) == 2, {"no verdict": _missing(verdicts)}
    return NotEstimable(
        reason=f"{verdicts.lost_share:.1%} of the judge's verdicts are missing, over the limit of {MAX_EXCLUDED:.0%}",
        withheld=True,
        n=reading.n,
        statistic=reading.statistic,
        bounds=Bounds(low=min(values), high=max(values), asked=len(verdicts), lost=lost) if known else None,
    )


def _withheld_difference(rates: Mapping[str, Corrected]) -> NotEstimable | None:
    """Return why the difference of two versions is withheld; None where neither rate is."""
    held = [(name, rate.estimate) for name, rate in rates.items() if isinstance(rate.estimate, NotEstimable)]
    if not any(reading.withheld for _, reading in held):
        return None
    ends = [_value_ends(rate.estimate) for rate in rates.values()]
    asked = sum(reading.bounds.asked for _, reading in held if reading.bounds is not None)
    bounds = None
    if ends[0] is not None and ends[1] is not None:
        lost = {f"{name}: no verdict": sum(rate.bounds.lost.values()) for name, rate in held if rate.bounds is not None}
        # The second at its lowest against the first at its highest, and the other way round.
        low, high = ends[1][0] - ends[0][1], ends[1][1] - ends[0][0]
        bounds = Bounds(low=low, high=high, asked=asked, lost=lost)
    reason = "; ".join(f"{name}: {reading.reason}" for name, reading in held)
    return NotEstimable(reason=reason, withheld=True, statistic="value", bounds=bounds)


def _value_ends(reading: Reading) -> tuple[float, float] | None:
    if isinstance(reading, Estimate):
        return reading.value, reading.value
    return None if reading.bounds is None else (reading.bounds.low, reading.bounds.high)


def _counted(reading: Reading, lost: Mapping[str, int], *, is_pairs: bool) -> Reading:
    """Write into a reading what was left out, and whether it is of pairs."""
    reading = replace(reading, excluded=sum(lost.values()), left_out=dict(lost))
    return reading if isinstance(reading, NotEstimable) else replace(reading, unit="pair" if is_pairs else "item")


def _people(labelled: Judged) -> Array:
    if labelled.human is None:
        raise ValueError("Labelled items have people's labels.")
    return labelled.human


def _judge_mean(verdicts: Judged, level: float) -> Estimate:
    """Mean of all verdicts that there are, with bounds for those that are missing."""
    known = verdicts.judge[~np.isnan(verdicts.judge)]
    mean = _mean(known, level=level, method="mean of the judge", unit="item" if verdicts.ties is None else "pair")
    total, lost = len(verdicts), len(verdicts) - len(known)
    bounds = (float(known.sum()) / total, (float(known.sum()) + lost) / total) if lost else (None, None)
    return replace(mean, excluded=lost, bound_low=bounds[0], bound_high=bounds[1])


def _mean(values: Array, *, level: float, method: str, unit: Any) -> Estimate:
    reading = corrected.mean_reading(bounded_mean(values, level=level), n=len(values), method=method)
    # MLflow logs the plain mean, and the two are to be equal to the last digit.
    return replace(reading, value=float(values.mean()), unit=unit)


def _pair_shares(population: Judged, level: float) -> tuple[Estimate | None, Estimate | None]:
    """Return which share of pairs is positional, and which has a tie; None for verdicts on single items."""
    if population.positional is None or population.ties is None:
        return None, None
    both = (population.positional, population.ties)
    first, second = (_mean(shares, level=level, method="share of pairs", unit="pair") for shares in both)
    return first, second


def _note(note: str, samples: Samples, positional: Estimate | None, ties: Estimate | None) -> str:
    """Join what a reader must know: of the method, of items left out, of pairs."""
    sentences = [note, *samples.notes]
    if positional is not None and ties is not None:
        sentences.append(
            f"The judge chose the same slot in both orders on {_share(positional)} of the pairs and saw a tie on "
            f"{_share(ties)}: each counts ½, and a pair with a lost order is left out."
        )
    return " ".join(filter(None, sentences))


def _share(reading: Estimate) -> str:
    return f"{two_places(reading.value)} {interval_text(reading.ci_low, reading.ci_high)}"


def _more(judged: Judged, n: int, verdict: float) -> Graded:
    """Return the values of a judge and n more of one kind."""
    scores = None if judged.scores is None else np.append(judged.scores, np.full(n, verdict))
    return Graded(judge=np.append(judged.judge, np.full(n, verdict)), scores=scores)


def _in_units(
    done: Corrected, units: ScoreRanges, versions: Mapping[str, Judged], labels: Sequence[Judged]
) -> Corrected:
    """Write means of scores as people and the judge gave them, not as parts of 1."""
    sources = (*versions.values(), *labels)
    by_judge, by_people = (any(whose in source.means for source in sources) for whose in ("judge", "human"))
    if not by_judge and not by_people:
        return done
    rates = {name: _in_units(rate, units, versions, labels) for name, rate in done.versions.items()}
    naive: Reading = NotEstimable(reason="the judge's scores are on another scale than people's labels")
    if units.judge == units.people:
        naive = _rescaled(done.naive, units.judge, is_difference=bool(rates))
    people = [
        _rescaled(reading, units.people, is_difference=bool(rates)) for reading in (done.estimate, done.people_only)
    ]
    # Sensitivity is of yes and no.
    return replace(
        done,
        estimate=people[0] if by_people else done.estimate,
        people_only=people[1] if by_people else done.people_only,
        naive=naive,
        sensitivity=None,
        specificity=None,
        of_scores=by_people,
        versions=rates,
        of_pairs=tuple(
            replace(pair, estimate=_rescaled(pair.estimate, units.people, is_difference=True)) for pair in done.of_pairs
        ),
    )


def _rescaled(reading: Reading, ends: Interval, *, is_difference: bool) -> Reading:
    low, size = 0.0 if is_difference else ends[0], ends[1] - ends[0]
    if isinstance(reading, NotEstimable):
        held = reading.bounds
        bounds = None if held is None else replace(held, low=low + size * held.low, high=low + size * held.high)
        return replace(reading, bounds=bounds)
    names = ("value", "ci_low", "ci_high", "cluster_low", "cluster_high", "bound_low", "bound_high")
    numbers: dict[str, Any] = {
        name: None if (number := getattr(reading, name)) is None else low + size * number for name in names
    }
    return replace(reading, **numbers, statistic="value")


def _difference(
    versions: Mapping[str, Judged], own: dict[str, Judged | None] | Judged, settings: _Correction
) -> Corrected:
    first, *others = versions.values()
    for judged in others:
        check_same_judge(judged, first, what="that of another version")
        check_same_scale(judged, first)
    if isinstance(own, Judged):
        own = shared_labels(versions, own)
    pairs = {
        (a, b): _by_own_labels(two, own, settings) if isinstance(own, dict) else _by_shared(two, own, settings)
        for a, b in combinations(versions, 2)
        for two in ({name: versions[name] for name in (a, b)},)
    }
    done = next(iter(pairs.values()))
    if others[1:]:
        done = _of_family({name: pair.versions[name] for at, pair in pairs.items() for name in at}, done)
    return replace(done, of_pairs=_adjusted(pairs, settings.level))


def _of_family(rates: Mapping[str, Corrected], pair: Corrected) -> Corrected:
    """Return several versions as one result: it has no single difference."""
    none = NotEstimable(reason=f"{len(rates)} versions have several differences: see `differences`", statistic="value")
    shared = pair.people_only.reason == _SHARED.reason if isinstance(pair.people_only, NotEstimable) else False
    labelled = [rate.n_labelled for rate in rates.values()]
    return replace(
        pair,
        estimate=none,
        naive=none,
        people_only=none,
        note=" ".join(dict.fromkeys(rate.note for rate in rates.values() if rate.note)),
        method=" and ".join(dict.fromkeys(rate.method for rate in rates.values())),
        n_labelled=labelled[0] if shared else sum(labelled),
        n_unlabelled=sum(rate.n_unlabelled for rate in rates.values()),
        versions=dict(rates),
        lost={f"{name}: {why}": n for name, rate in rates.items() for why, n in rate.lost.items()},
    )


def _adjusted(pairs: Mapping[tuple[str, str], Corrected], level: float) -> tuple[VersionDifference, ...]:
    """Return each difference with its p-value, by itself and adjusted for all by max-T."""
    known = {at: pair for at, pair in pairs.items() if isinstance(pair.estimate, Estimate)}
    readings = [pair.estimate for pair in known.values() if isinstance(pair.estimate, Estimate)]
    p: dict[tuple[str, str], tuple[float, float]] = {}
    if readings:
        sizes = [rate.n_clusters or rate.n_labelled for pair in known.values() for rate in pair.versions.values()]
        df = max(1, min(sizes) - 1)
        # The end towards 0 decides: a difference by itself is told apart where its interval holds no 0.
        ends = [(each.value, *(each.interval or (-1.0, 1.0))) for each in readings]
        halves = np.array([value - low if value > 0 else high - value for value, low, high in ends])
        items = list(dict.fromkeys(item for pair in known.values() for item in pair.effects))
        effects = np.array([[pair.effects.get(item, 0.0) for item in items] for pair in known.values()])
        errors = np.maximum(halves, 1e-12) / t_quantile(df, level)
        family = max_t_of_estimates(np.array([each.value for each in readings]), errors, effects, df=df)
        p = dict(zip(known, zip(family.p.tolist(), family.p_adjusted.tolist(), strict=True), strict=True))
    return tuple(
        VersionDifference(
            a=a,
            b=b,
            estimate=pair.estimate,
            p=p.get((a, b), (None, None))[0],
            p_adjusted=p.get((a, b), (None, None))[1],
            told_apart=(a, b) in p and p[a, b][1] <= 1 - level,
        )
        for (a, b), pair in pairs.items()
    )


def _own_calibrations(
    versions: Mapping[str, Judged], calibration: object, settings: _Correction
) -> dict[str, Judged | None] | Judged:
    """Return the labels of each version, or those that both share."""
    if calibration is None or len(versions) == 1:
        labelled = _calibration(calibration, settings)
        _refuse_versions(labelled)
        return dict.fromkeys(versions, labelled)
    if isinstance(calibration, Mapping):
        own = {str(name): _calibration(labels, settings) for name, labels in calibration.items()}
    else:
        read = _calibration(calibration, settings)
        if read is None or read.versions is None:
            return read if read is not None else dict.fromkeys(versions)
        own = dict(_parts(read))
    if set(own) != set(versions):
        ours, theirs = (", ".join(map(repr, names)) for names in (versions, own))
        raise RecipeError(f"The verdicts are of the versions {ours}, the calibration of {theirs}: both need the same.")
    return own


def _by_own_labels(
    versions: Mapping[str, Judged], own: Mapping[str, Judged | None], settings: _Correction
) -> Corrected:
    rates = {name: _corrected(versions[name], own[name], settings) for name in versions}
    samples = {name: match(versions[name], own[name]) for name in versions}
    drawn = [_drawn(sample.labelled, settings) for sample in samples.values()]
    clusters = [_clusters(sample, settings) for sample in samples.values()]
    labelled = [
        _labels(sample.labelled, weights, both[1])
        for sample, (_, weights), both in zip(samples.values(), drawn, clusters, strict=True)
    ]
    first, second = (False if sample.taken_out else None for sample in samples.values())
    subtract = partial(
        corrected.correct_difference,
        calibration=(labelled[0], labelled[1]),
        sampling=drawn[0][0] if drawn[0][0] == drawn[1][0] else None,
        labelled_apart=(first, second),
        level=settings.level,
    )
    report = subtract(
        *(_graded(sample.unlabelled, both[0]) for sample, both in zip(samples.values(), clusters, strict=True))
    )
    # What MLflow takes the means of are all items, those with a label too.
    everything = [sample.population for sample in samples.values()]
    naive = subtract(*(_graded(judged, _own_clusters(judged)) for judged in everything)).naive
    notes = [report.note, *(f"{name}: {note}" for name, sample in samples.items() for note in sample.notes)]
    return _of_difference(versions, rates, replace(report, naive=naive), " ".join(filter(None, notes)), settings)


def _filled(judged: Judged, verdict: float) -> Judged:
    missing = np.isnan(judged.judge)
    scores = None if judged.scores is None else np.where(missing, verdict, judged.scores)
    return replace(judged, judge=np.where(missing, verdict, judged.judge), scores=scores)


def _graded(judged: Judged, clusters: Sequence[Hashable] | None = None) -> Graded:
    return Graded(judge=judged.judge, items=judged.items, clusters=clusters, scores=judged.scores)


def _own_clusters(judged: Judged) -> Sequence[Hashable] | None:
    return (clusters_of(judged) or (None,))[0]


def _labels(labelled: Judged, weights: Array | None, clusters: Sequence[Hashable] | None) -> LabelledSample:
    return LabelledSample(
        judge=labelled.judge,
        human=_people(labelled),
        weights=weights,
        items=labelled.items,
        clusters=clusters,
        scores=labelled.scores,
    )


def _by_shared(versions: Mapping[str, Judged], calibration: Judged, settings: _Correction) -> Corrected:
    """Correct by labels that tell the judge's errors on both versions alike."""
    if calibration.scale == "pairs":
        raise RecipeError(
            "Labels that two versions share tell a judge's errors on passes and fails, not on ties. Give labels of "
            "each version: a mapping, or a column `version`."
        )
    # Without ids: shared labels belong to no version, and none is taken out of its verdicts.
    samples = {name: match(replace(judged, items=None), calibration) for name, judged in versions.items()}
    labelled = next(iter(samples.values())).labelled
    sampling, weights = _drawn(labelled, settings)
    calibrated = _labels(replace(labelled, items=None), weights, _own_clusters(labelled))
    subtract = partial(corrected.correct_difference, calibration=calibrated, sampling=sampling, level=settings.level)
    known = [judged.take(~np.isnan(judged.judge)) for judged in versions.values()]
    report = subtract(*(_graded(judged, _own_clusters(judged)) for judged in known))
    ends = [
        subtract(*(_graded(_filled(judged, verdict)) for judged in versions.values())).rates for verdict in (0.0, 1.0)
    ]
    alone = {name: _corrected(replace(judged, items=None), calibration, settings) for name, judged in versions.items()}
    rates = {
        name: replace(
            alone[name],
            estimate=_withhold(judged, rate, (end[at] for end in ends)),
            if_fewer_found=corrected.rate_if_fewer_found(rate, alone[name].sensitivity, alone[name].specificity),
            people_only=_SHARED,
            n_unlabelled=len(samples[name].population) - count_labelled(judged, labelled),
            method=report.method,
            note=report.note,
        )
        for at, ((name, judged), rate) in enumerate(zip(versions.items(), report.rates, strict=True))
    }
    return _of_difference(versions, rates, report, report.note, settings)


def _of_difference(
    versions: Mapping[str, Judged],
    rates: Mapping[str, Corrected],
    report: CorrectedDifference,
    note: str,
    settings: _Correction,
) -> Corrected:
    first, second = rates.values()
    lost = {f"{name}: {reason}": count for name, rate in rates.items() for reason, count in rate.lost.items()}
    is_pairs = first.positional is not None
    shared = first.people_only is _SHARED
    return Corrected(
        estimate=_counted(_withheld_difference(rates) or report.estimate, lost, is_pairs=is_pairs),
        naive=replace(report.naive, excluded=sum(_missing(judged) for judged in versions.values())),
        people_only=_counted(report.people_only, lost, is_pairs=is_pairs),
        method=report.method,
        note=note,
        sampling=first.sampling,
        level=settings.level,
        scorer=first.scorer,
        pool=first.pool if first.pool == second.pool else "unknown",
        # Labels that both versions share are counted once.
        n_labelled=first.n_labelled if shared else first.n_labelled + second.n_labelled,
        n_unlabelled=first.n_unlabelled + second.n_unlabelled,
        versions=dict(rates),
        effects=report.effects,
        judge=first.judge,
        lost=lost,
        weighted=first.weighted,
        simulated=first.simulated or second.simulated,
    )


def _missing(judged: Judged) -> int:
    return int(np.isnan(judged.judge).sum())


def _log_beside(done: Corrected, run: str, uri: str | None) -> Corrected:
    """Add the corrected rate to the run of an evaluation, beside the mean that MLflow logged there.

    Where it is not estimable, what an earlier correction logged there is made void.
    """
    target = source_run(run, tracking_uri=uri)
    store = Store(uri, experiment_id=target.experiment_id)
    done = replace(done, run_id=target.run_id, link=store.link(target.run_id))
    name = f"{keys.CORRECTED_FOLDER}/{keys.category_names([done.scorer])[done.scorer]}"
    ((axis, reading),) = corrected_view.main_reading(done).items()
    key = corrected_view.corrected_axis(done.scorer, axis)
    text = f"not estimable: {reading.reason}" if isinstance(reading, NotEstimable) else reading_text(reading)
    add_to_run(
        store,
        target.run_id,
        points=corrected_view.corrected_points(done.scorer, {axis: reading})
        or corrected_view.void_points(key, target.metrics),
        tags={keys.own_key(key): text},
        artifacts={f"{name}.json": done.to_dict(), f"{name}.md": done.to_markdown()},
        what_now="The run is as it was.",
    )
    return done


def _with_versions_logged(done: Corrected, versions: Mapping[str, Judged], tracking_uri: str | None) -> Corrected:
    """Of a difference, add the rate of each version to the run of its own evaluation."""
    logged = {
        name: rate if (own := versions[name]).run_id is None else _log_beside(rate, own.run_id, tracking_uri or own.uri)
        for name, rate in done.versions.items()
    }
    return replace(done, versions=logged)
