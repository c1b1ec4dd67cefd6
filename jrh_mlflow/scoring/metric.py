"""A metric that the user chose to stand for labelled tests: a function of sklearn.metrics, or one of our own axes.

`<test>/<metric>` is its axis. Functions of sklearn take (expected, answer) of the calls that are a verdict: labels as
their places, with the last one positive where there are two (of more the macro average), levels of a scale as numbers.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.scoring.ledger import Resampling, Sample, defined_ratio, refuse
from jrh_mlflow.scoring.pointwise import ORDER_UNKNOWN, Counted, PointTable, Scale
from jrh_mlflow.scoring.readings import ORDINAL_VALUES, cell_statistics
from jrh_mlflow.stats import Array, Codes, Texts

DEFAULT = "accuracy"
_DEFAULTS = (DEFAULT, "accuracy_score")
_TWO, _SCALE = "two labels", "a scale"
_OWN = {"matthews": _TWO, **dict.fromkeys(ORDINAL_VALUES, _SCALE)}
"""Axes that a report has anyway, to the labels they need."""
_SAME = {"kappa_quadratic": "qwk", "kappa": "cohen_kappa_score"}
_SHARES = (*_DEFAULTS, "balanced_accuracy_score", "f1_score", "precision_score", "recall_score", "jaccard_score")
"""Scores from 0 to 1 that read like the shares by which other tests are scored; a correlation or R² does not."""
_LOWER = ("mae",)
_LOWER_ENDS = ("_loss", "_error", "_deviance")
_ENDS = ("_score", "_coef", "_corrcoef", *_LOWER_ENDS)
_PROBABILITIES = ("log_loss", "d2_log_loss_score")
"""Take probabilities although their argument is called a prediction."""
_NEED_VARIATION = ("matthews_corrcoef", "cohen_kappa_score")
"""With one label throughout they are 0 / 0, which sklearn may call 0."""
_NUMBERS_ENDS = ("_error", "_deviance", "_pinball_loss", "r2_score", "explained_variance_score")

Score = Callable[[Array, Array, Array, bool], float]
"""Expected and given, one entry per cell, how often each was drawn, and whether the labels are two (places 0 and 1).

NaN where it is not defined.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """What stands for a labelled test in place of accuracy."""

    name: str
    """Its axis is `<test>/<name>`."""
    lower: bool
    """Whether a good judge scores low: an error."""
    needs: str = ""
    """Labels without which it is not defined: `two labels`, `a scale`; empty: any."""
    positive: bool = False
    """Whether one of two labels counts as the positive one, so that their order must be known."""
    score: Score | None = None
    """None for an axis that a report has anyway."""
    copies: str = ""
    """The axis that it is another name of."""

    @property
    def text(self) -> str:
        """Its name for people, and which end is good where that is the low one."""
        return f"{self.name} (an error: lower is better)" if self.lower else self.name

    def refusal(self, scale: Scale) -> str | None:
        """Say why it is not defined for these labels, or None."""
        if self.needs and scale.kind != {_TWO: "binary", _SCALE: "ordinal"}[self.needs]:
            return f"{self.name} needs {self.needs}, and these are {', '.join(scale.labels)}"
        if self.positive and scale.kind == "binary" and not scale.ordered:
            return ORDER_UNKNOWN.format(what="positive")
        return None


def find_metric(name: str | None) -> Metric | None:
    """Return the metric of a name; None for accuracy, which stands for labelled tests anyway.

    Raises:
        RecipeError: for a name that is not known, with the nearest one.

    Example:
        >>> find_metric("f1").name, find_metric("mean_absolute_error").lower, find_metric("accuracy")
        ('f1_score', True, None)
    """
    if name is None or name in _DEFAULTS:
        return None
    if name in _OWN:
        return Metric(name=name, lower=name in _LOWER, needs=_OWN[name])
    if _SAME.get(name) in _OWN:
        return Metric(name=name, lower=False, needs=_OWN[_SAME[name]], copies=_SAME[name])
    functions = _functions()
    spelled = next((spelling for spelling in (_SAME.get(name, name), f"{name}_score") if spelling in functions), None)
    if spelled is None:
        known = sorted({DEFAULT, *_OWN, *_SAME, *functions})
        raise RecipeError(f"Unknown metric {name!r}.{suggest(str(name), known)} Known: {', '.join(known)}.")
    numbers = spelled.endswith(_NUMBERS_ENDS) or spelled.startswith("d2_")
    return Metric(
        name=name if name in _SAME else spelled,
        lower=spelled.endswith(_LOWER_ENDS),
        needs=_SCALE if numbers else "",
        positive="pos_label" in functions[spelled],
        score=_score(spelled, functions[spelled]),
    )


def is_metric(name: str) -> bool:
    """Whether a name is that of a metric that can stand for labelled tests."""
    return name in _OWN or name in _SAME or name in _functions()


@cache
def _functions() -> dict[str, tuple[str, ...]]:
    """Return the functions of sklearn.metrics that take (expected, answer) and give one number, with their keywords."""
    from sklearn import metrics

    functions = {}
    for name in dir(metrics):
        function = getattr(metrics, name)
        if not name.endswith(_ENDS) or name in _PROBABILITIES or not inspect.isfunction(function):
            continue
        keywords = inspect.signature(function).parameters
        given = [parameter for parameter in list(keywords.values())[2:] if parameter.default is inspect.Parameter.empty]
        if tuple(keywords)[:2] in (("y_true", "y_pred"), ("y1", "y2")) and not given:
            functions[name] = tuple(keywords)
    return functions


def _score(name: str, keywords: Sequence[str]) -> Score:
    def score(expected: Array, given: Array, counts: Array, binary: bool) -> float:
        drawn = counts > 0
        x, y, weights = expected[drawn], given[drawn], counts[drawn]
        if not drawn.any() or (name in _NEED_VARIATION and min(len(np.unique(x)), len(np.unique(y))) < 2):
            return math.nan
        if name == "mean_absolute_percentage_error" and not x.all():
            return math.nan  # sklearn divides by something very small in place of 0
        settings = _settings(keywords, binary=binary)
        if "sample_weight" in keywords:
            settings["sample_weight"] = weights
        else:
            x, y = (np.repeat(side, weights.astype(int)) for side in (x, y))
        from sklearn import metrics

        with _quiet():
            try:
                value = float(getattr(metrics, name)(x, y, **settings))
            except ValueError:  # a logarithm of a level below 0, one answer only: not defined here
                return math.nan
        return value if math.isfinite(value) else math.nan

    return score


def _settings(keywords: Sequence[str], *, binary: bool) -> dict[str, Any]:
    """Return what sklearn has to be told: the positive label or an average, and that 0 / 0 is no number."""
    settings: dict[str, Any] = {}
    if "average" in keywords:
        settings = {"average": "binary", "pos_label": 1} if binary else {"average": "macro"}
    # Of several labels one that is never answered counts as 0 in the average, as sklearn has it.
    nothing = 0.0 if settings.get("average") == "macro" else math.nan
    undefined = {"zero_division": nothing, "force_finite": False, "replace_undefined_by": math.nan}
    return settings | {name: value for name, value in undefined.items() if name in keywords}


_MEANS = (
    *("mean_absolute_error", "mean_squared_error", "mean_squared_log_error", "mean_absolute_percentage_error"),
    *("mean_pinball_loss", "mean_poisson_deviance", "mean_gamma_deviance", "mean_tweedie_deviance"),
    *("root_mean_squared_error", "root_mean_squared_log_error"),
)
"""Errors that are a mean over calls, or its root: the loss of each cell is asked for once."""


def _resampled(metric: Metric, expected: Array, given: Array, *, binary: bool) -> Callable[[Array], Array]:
    """Return the metric of many resamples of the cells at once; those without a formula here are asked one by one."""
    score, name = metric.score, _SAME.get(metric.name, metric.name)
    if name in ORDINAL_VALUES:
        return lambda counts: cell_statistics(expected, given)(counts)[name]
    if name in _MEANS:
        function = find_metric(name.removeprefix("root_"))
        assert function is not None
        assert function.score is not None
        weight = np.ones(1)
        losses = np.array(
            [function.score(x, y, weight, False) for x, y in zip(expected[:, None], given[:, None], strict=True)]
        )

        def mean(counts: Array) -> Array:
            # A cell that is not defined counts only where it was drawn.
            total = np.where(counts > 0, counts * losses, 0.0).sum(axis=1)
            value: Array = defined_ratio(total, counts.sum(axis=1))
            return np.sqrt(value) if name.startswith("root_") else value

        return mean
    if name in _MOMENTS:
        return lambda counts: _MOMENTS[name](counts, expected, given)
    formula = _CONFUSIONS.get(name)
    if formula is None:
        assert score is not None
        return lambda counts: np.array([score(expected, given, row, binary) for row in counts])
    labels, places = np.unique(np.concatenate([expected, given]), return_inverse=True)
    x, y = np.split(places.ravel(), 2)
    cells = np.eye(len(labels) ** 2)[x * len(labels) + y]
    return lambda counts: formula(Confusion.of(counts @ cells, labels, binary=binary))


def _explained(counts: Array, expected: Array, given: Array, *, centred: bool) -> Array:
    """Return 1 − spread of the errors / spread of what is expected; the errors around their mean where `centred`."""
    n, errors = np.maximum(counts.sum(axis=1), 1), expected - given
    total = counts @ expected**2 - (counts @ expected) ** 2 / n
    left = counts @ errors**2 - ((counts @ errors) ** 2 / n if centred else 0.0)
    # What rounding leaves of a constant is no spread.
    return 1 - defined_ratio(left, np.where(total < 1e-9, 0.0, total))


_MOMENTS: Mapping[str, Callable[[Array, Array, Array], Array]] = {
    "r2_score": partial(_explained, centred=False),
    "explained_variance_score": partial(_explained, centred=True),
    "max_error": lambda counts, expected, given: np.where(
        counts.any(axis=1), np.where(counts > 0, np.abs(expected - given), 0.0).max(axis=1), np.nan
    ),
}
MOST_ASKED = 200
"""Resamples of a metric that has no formula here: sklearn takes about a millisecond for each."""


def within_reason(metric: Metric, resampling: Resampling) -> Resampling:
    """Return how a metric is resampled: less often where sklearn has to be asked for every draw."""
    name = _SAME.get(metric.name, metric.name)
    if name in (*ORDINAL_VALUES, *_MEANS, *_MOMENTS, *_CONFUSIONS):
        return resampling
    return replace(resampling, n_resamples=min(resampling.n_resamples, MOST_ASKED))


@dataclass(frozen=True, kw_only=True, slots=True)
class Confusion:
    """Counts of many resamples: of each label right, expected and given."""

    right: Array
    expected: Array
    given: Array
    binary: bool
    positive: Array
    """Whether each label is the positive one, of two."""

    @classmethod
    def of(cls, counts: Array, labels: Array, *, binary: bool) -> Confusion:
        """Read resamples × (expected, given)."""
        square = counts.reshape(len(counts), len(labels), len(labels))
        return cls(
            right=np.diagonal(square, axis1=1, axis2=2),
            expected=square.sum(axis=2),
            given=square.sum(axis=1),
            binary=binary,
            positive=labels == 1.0,
        )

    @property
    def n(self) -> Array:
        """Calls."""
        total: Array = self.expected.sum(axis=1)
        return total

    def averaged(self, denominator: Array, *, factor: float = 1.0) -> Array:
        """Return right / denominator: of the positive label, or averaged over the labels that were drawn."""
        shares = defined_ratio(factor * self.right, denominator)
        if self.binary:
            return shares[:, self.positive][:, 0] if self.positive.any() else np.full(len(shares), np.nan)
        drawn = self.expected + self.given > 0
        return defined_ratio(np.where(drawn, np.nan_to_num(shares), 0.0).sum(axis=1), drawn.sum(axis=1).astype(float))


def _balanced(counts: Confusion) -> Array:
    recalls = defined_ratio(counts.right, counts.expected)
    known = ~np.isnan(recalls)
    return defined_ratio(np.nan_to_num(recalls).sum(axis=1), known.sum(axis=1).astype(float))


def _correlation(counts: Confusion) -> Array:
    n, chance = counts.n, (counts.expected * counts.given).sum(axis=1)
    spread = (n**2 - (counts.given**2).sum(axis=1)) * (n**2 - (counts.expected**2).sum(axis=1))
    return defined_ratio(counts.right.sum(axis=1) * n - chance, np.sqrt(spread))


def _kappa(counts: Confusion) -> Array:
    n, chance = counts.n, (counts.expected * counts.given).sum(axis=1)
    varied = (np.minimum((counts.expected > 0).sum(axis=1), (counts.given > 0).sum(axis=1)) > 1).astype(float)
    return defined_ratio(counts.right.sum(axis=1) * n - chance, (n**2 - chance) * varied)


def _wrong(counts: Confusion) -> Array:
    return 1 - defined_ratio(counts.right.sum(axis=1), counts.n)


_CONFUSIONS: Mapping[str, Callable[[Confusion], Array]] = {
    "balanced_accuracy_score": _balanced,
    "precision_score": lambda counts: counts.averaged(counts.given),
    "recall_score": lambda counts: counts.averaged(counts.expected),
    "f1_score": lambda counts: counts.averaged(counts.expected + counts.given, factor=2.0),
    "jaccard_score": lambda counts: counts.averaged(counts.expected + counts.given - counts.right),
    "matthews": _correlation,
    "matthews_corrcoef": _correlation,
    "cohen_kappa_score": _kappa,
    "zero_one_loss": _wrong,
    "hamming_loss": _wrong,
}
"""Functions of the confusion counts, for the bootstrap; the number itself is always sklearn's."""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings of what is not defined to ourselves: it becomes no number."""
    from sklearn import config_context

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with config_context(assume_finite=True, skip_parameter_validation=True):
            yield


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """A score before it is taken: what is summed over units, of which sources they are, and the score of such sums."""

    features: Array
    sources: Codes
    score: Callable[[Array], Array]

    @classmethod
    def of_share(cls, counted: Counted) -> Sampled:
        """Return a share in this form: hits over units."""
        used = counted.units.usable
        features = np.column_stack([counted.hits[used], np.ones(int(used.sum()))]).astype(float)
        return cls(
            features=features,
            sources=counted.units.clusters[used],
            score=lambda sums: defined_ratio(sums[:, 0], sums[:, 1]),
        )


def is_share(name: str) -> bool:
    """Whether a metric may be averaged with the shares that stand for other tests.

    Example:
        >>> is_share("f1_score"), is_share("matthews"), is_share("mae")
        (True, False, False)
    """
    return name in _SHARES


def is_error_axis(axis: str) -> bool:
    """Whether an axis is an error that a chosen metric measures, `<test>/<metric>`, of which less is better."""
    test, _, name = axis.rpartition("/")
    return bool(test) and (name in _LOWER or name.endswith(_LOWER_ENDS))


def cells_of(metric: Metric, scale: Scale, expected: Texts, given: Texts) -> tuple[Array, Array, Array]:
    """Return the (expected, given) cells of calls as the metric takes them, and indicators of the cell of each call."""
    number = scale.steps if metric.needs == _SCALE else scale.places
    cells, cell = np.unique(np.stack([number(expected), number(given)]), axis=1, return_inverse=True)
    return cells[0], cells[1], np.eye(cells.shape[1])[cell.ravel()]


def scorer(metric: Metric, expected: Array, given: Array, scale: Scale) -> Callable[[Array], Array]:
    """Return the metric as a function of how often each cell was drawn, of many draws at once."""
    return _resampled(metric, expected, given, binary=scale.kind == "binary")


def metric_reading(
    calls: PointTable, name: str, metric: Metric, resampling: Resampling, *, known: Mapping[str, Reading]
) -> tuple[Reading, Sampled | None]:
    """Return a metric of the calls of one test with its intervals, and what the mean over tests resamples of it.

    Units are the calls that are a verdict and have an expected answer; abstentions are left out and counted beside.

    Args:
        calls: Of the test.
        name: Of the test.
        metric: The one that was chosen.
        resampling: Of its intervals.
        known: Axes that were read already; one of them may be the metric.
    """
    judged = calls.where(calls.expected != "")
    units = judged.verdicts(f"{name} calls with an expected answer")
    reason = refuse(units, statistic="value")
    if reason is None and (refusal := metric.refusal(calls.scale)):
        reason = NotEstimable(reason=refusal, statistic="value")
    if reason is not None:
        return reason, None
    used = judged.where(units.usable)
    expected, given, features = cells_of(metric, used.scale, used.expected, used.answer)
    score = scorer(metric, expected, given, used.scale)
    sampled = Sampled(features=features, sources=used.source, score=score)
    if metric.score is None:
        return known[f"{name}/{metric.copies or metric.name}"], sampled
    value = metric.score(expected, given, features.sum(axis=0), used.scale.kind == "binary")
    sample = Sample(units=units, features=features, items=used.item)
    missing = f"{metric.name} is not defined for these answers: no variation, or nothing to divide by"
    readings = sample.readings(
        {"metric": None if math.isnan(value) else value},
        lambda counts: {"metric": score(counts)},
        within_reason(metric, resampling),
        without=missing,
    )
    return readings["metric"], sampled


def mean_interval(parts: Sequence[Sampled], resampling: Resampling) -> tuple[float | None, float | None]:
    """Interval of the mean of several scores over resamples of whole sources, all at once; none without a width."""
    widths = np.cumsum([0, *(part.features.shape[1] for part in parts)])
    features = np.zeros((sum(len(part.features) for part in parts), widths[-1]))
    row = 0
    for place, part in enumerate(parts):
        features[row : row + len(part.features), widths[place] : widths[place + 1]] = part.features
        row += len(part.features)

    def mean(sums: Array) -> Mapping[str, Array]:
        scores = [part.score(sums[:, widths[place] : widths[place + 1]]) for place, part in enumerate(parts)]
        return {"mean": np.mean(scores, axis=0)}

    sources = np.concatenate([part.sources for part in parts])
    return resampling.intervals(mean, features, sources).get("mean") or (None, None)
