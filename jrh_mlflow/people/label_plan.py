"""`jrh plan --labels`: how many labels of people a corrected rate needs, by how the items are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.label_draw import judge_texts, scores_from_0_to_1
from jrh_mlflow.people.label_reader import chosen_by_scorer, labels_of
from jrh_mlflow.people.labels import LabelOptions, LabelTable
from jrh_mlflow.people.verdicts import Judged, clusters_of, given_labels, read_judged
from jrh_mlflow.schema.label_words import label_number
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, Table
from jrh_mlflow.stats import Array, Codes, label_draws
from jrh_mlflow.text import two_places

_FEWEST = 20
"""Labels of a pilot."""
_DRAWS, _SURE = 200, 0.9
_TABLE: Table[tuple[str, int, int]] = Table.of(
    Column("drawn", lambda row: row[0]),
    Column("labels", lambda row: f"{row[1]:,}"),
    Column("enough in 9 of 10, as the pilot tells", lambda row: f"{row[2]:,}"),
)
_HOW = {"random": "at random", "verdict": "as many of each verdict", "score": "by score (Neyman)"}


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """How many labels give a corrected rate an interval of the wanted width."""

    width: float
    items: int
    """With a verdict."""
    pilot: int
    """Labels that there are."""
    labels: Mapping[str, int]
    """How they are drawn (`random`, `verdict`, `score`) to how many, those of the pilot included."""
    likely: Mapping[str, int]
    """As many as are enough with a chance of 90 %, as uncertain as the pilot is."""
    least_width: float
    """If every item were labelled."""
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Say what is wanted."""
        return f"How many labels: a corrected rate, interval {self.width:g} wide"

    @property
    def headline(self) -> str:
        """Say how many."""
        by, n = min(self.labels.items(), key=lambda pair: pair[1])
        return f"{n:,} of {self.items:,} items, drawn {_HOW[by]}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        plain = {name: getattr(self, name) for name in ("width", "items", "pilot", "least_width")}
        return {**plain, "labels": dict(self.labels), "likely": dict(self.likely), "notes": list(self.notes)}

    @property
    def page(self) -> Page:
        """What people see of it."""
        rows = _TABLE((_HOW[by], n, self.likely[by]) for by, n in self.labels.items())
        return Page(
            title=self.title,
            lead=self.headline,
            sections=[Section(heading="How many", blocks=[rows])],
            notes=self.notes,
        )

    def to_markdown(self) -> str:
        """Return the plan as a readable page."""
        return self.page.to_markdown()

    def __repr__(self) -> str:
        return f"LabelPlan({self.headline})"


def plan_labels(
    pilot: object,
    *,
    width: float | None,
    positive: object = None,
    cluster: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
) -> LabelPlan:
    """Say how many labels, drawn at random, by verdict or by score, a corrected rate of the wanted width needs.

    Args:
        pilot: All verdicts of the judge, some items with people's labels too, as for `jrh.correct`: a table with the
            columns `judge` and `human` (with gaps), traces, the result or run of `mlflow.genai.evaluate`.
        width: Wanted width of the 95 % interval.
        positive: Label, or labels, that are a pass, where they are not booleans.
        cluster: Column, or tag of traces, with what was sampled together; as for `jrh.correct`.
        tracking_uri: MLflow store; the active one when None.
        seed: Of the draws that tell how uncertain the pilot is.

    Raises:
        RecipeError: when the pilot has too few labels, or when no number of labels can give the width.
    """
    if pilot is None or width is None or not 0 < width < 1:
        raise RecipeError("A plan for labels needs a `pilot` with verdicts and some labels, and a `width` in 0 … 1.")
    options = LabelOptions(part="verdicts", judge="judge", cluster=cluster, tracking_uri=tracking_uri, fresh=True)
    labels = chosen_by_scorer(labels_of(pilot, options), scorer=None, human=None)
    judged = read_judged(labels, options, positive=given_labels(positive), scorer=None, human=None)
    judged = judged.take(~np.isnan(judged.judge))
    items, people = len(judged), np.full(len(judged), np.nan) if judged.human is None else judged.human
    n_pilot = int((~np.isnan(people)).sum())
    if n_pilot < _FEWEST:
        raise RecipeError(f"The pilot has {n_pilot} items with both labels, and a plan needs {_FEWEST}.")
    designs = _designs(labels, judged)
    wider, notes = _clustering(judged, people, designs["random"][0], cluster)
    sizes, passed, failed = _counts(designs["random"][0], people)
    least = wider(items) * label_draws.random_width(sizes, _rates(passed, failed), items)
    if least > width:
        raise RecipeError(
            f"No number of labels gives an interval {width:g} wide: with all {items:,} items labelled it would be "
            f"{two_places(least)}. Let the judge grade more items, or ask for less."
        )
    rng = np.random.default_rng(seed)
    needed: dict[str, list[int]] = {}
    for by, (strata, spreads) in designs.items():
        sizes, passed, failed = _counts(strata, people)
        drawn = [_rates(passed, failed), *rng.beta(passed + 0.5, failed + 0.5, size=(_DRAWS, len(sizes)))]
        widths = (_width(by, sizes, rates, spreads, wider) for rates in drawn)
        found = (label_draws.labels_for_width(width_at, items, width) for width_at in widths)
        needed[by] = [items if n is None else n for n in found]
    return LabelPlan(
        width=width,
        items=items,
        pilot=n_pilot,
        labels={by: n[0] for by, n in needed.items()},
        likely={by: max(n[0], int(np.quantile(n[1:], _SURE, method="higher"))) for by, n in needed.items()},
        least_width=least,
        notes=notes,
    )


def _clustering(
    judged: Judged, people: Array, verdicts: Codes, column: str | None
) -> tuple[Callable[[int], float], tuple[str, ...]]:
    """How many times as wide clusters make an interval of so many labels, as the pilot tells, and a sentence on it."""
    names = clusters_of(judged)
    if names is None and column is not None:
        raise RecipeError(f"The pilot has no {column!r}: cluster=.")
    known = {name: code for code, name in enumerate(dict.fromkeys(names[0] if names else ()))}
    if names is None or len(known) == len(judged):
        return lambda n: 1.0, ()
    codes, seen = np.array([known[name] for name in names[0]], dtype=np.intp), ~np.isnan(people)
    _, passed, failed = _counts(verdicts, people)
    rest = (people - (passed / np.maximum(1, passed + failed))[verdicts])[seen]
    alike = label_draws.likeness(rest, codes[seen])
    if alike is None:
        return lambda n: 1.0, (
            "Counted as if items were independent: no two labels of the pilot are of one cluster, and where those of "
            "one cluster are alike, more labels are needed.",
        )
    note = f"Counted by cluster: in the pilot labels of one cluster go together by {two_places(alike)}."
    return partial(label_draws.cluster_width_factor, codes, alike), (note,)


def _counts(strata: Codes, people: Array) -> list[Array]:
    """Return the items of each stratum, and how many of them people passed and failed."""
    parts = (np.ones(len(people)), people == 1, people == 0)
    return [np.bincount(strata, weights=part).astype(float) for part in parts]


def _rates(passed: Array, failed: Array) -> Array:
    return np.asarray((passed + 0.5) / (passed + failed + 1))


def _designs(labels: LabelTable, judged: Judged) -> dict[str, tuple[Codes, Array]]:
    """Return the stratum of each item and the spread of strata, by how items can be drawn."""
    _, verdicts = np.unique(judged.judge, return_inverse=True)
    strata = verdicts.ravel().astype(np.intp)
    designs = {by: (strata, 1 / np.bincount(strata)) for by in ("random", "verdict")}
    texts = judge_texts(labels)
    scores = [label_number(texts.get(name) or "") for name in judged.items or ()]
    numbers = [score for score in scores if score is not None]
    if len(numbers) == len(scores) and len(set(numbers)) > 2:
        designs["score"] = label_draws.score_strata(scores_from_0_to_1(np.array(numbers)))
    return designs


def _width(
    by: str, sizes: Array, rates: Array, spreads: Array, wider: Callable[[int], float]
) -> Callable[[int], float]:
    if by == "random":
        return lambda n: wider(n) * label_draws.random_width(sizes, rates, n)
    drawn = partial(label_draws.allocated, sizes, spreads)
    return lambda n: wider(n) * label_draws.stratified_width(sizes, rates, drawn(n).astype(float))
