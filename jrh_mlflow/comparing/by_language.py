"""Reading gap by language: what a judge reads on the same tasks in several languages, compared with English by task.

For a task t and a language l, gap(t, l) is the share of calls that choose the better content on the ladder minus that
share on the matched ladder, over all steps. A language is compared with English by the mean of gap(t, l) − gap(t, en)
over the tasks that every run has, weighted by their usable calls, with an interval over these tasks.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import chooses_better, gap_reading, task_counts
from jrh_mlflow.measures.records import call_table, normalise
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.perturb.languages import LANGUAGES, language_names
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals, plain_fields
from jrh_mlflow.schema.items import LADDER, LADDER_MATCHED
from jrh_mlflow.scoring.ledger import share
from jrh_mlflow.show.numbers import with_interval
from jrh_mlflow.show.tables import Column, FilledTable, Table
from jrh_mlflow.stats import Array
from jrh_mlflow.stats.paired import value_interval
from jrh_mlflow.tracking.runs.read import LoggedRun, load_runs, run_id_of

_PROMPT_LANGUAGE = re.compile(r" prompt_language=\w+")
"""A part of a judge's name that differs between its languages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageReading:
    """One judge in one language, on the tasks that every run has."""

    judge: str
    language: str
    checked: str
    """Who has checked the tasks of this language."""
    n_tasks: int
    ladder: Reading
    """Share of calls that choose the better content, over all steps."""
    matched: Reading
    gap: Reading
    beyond_english: Reading
    """Gap minus the gap of the same judge in English, by task."""
    run_id: str


BY_LANGUAGE: Table[LanguageReading] = Table.of(
    Column("judge", lambda row: row.judge, brief=True),
    Column("language", lambda row: language_names(row.language), value=lambda row: row.language, brief=True),
    Column("tasks", lambda row: f"{row.n_tasks}", value=lambda row: row.n_tasks),
    Column("plain ladder", lambda row: with_interval(row.ladder), brief=True),
    Column("matched ladder", lambda row: with_interval(row.matched), brief=True),
    Column("reading gap [95 % by task]", lambda row: with_interval(row.gap), brief=True),
    Column("beyond English [95 % by task]", lambda row: with_interval(row.beyond_english), brief=True),
    Column("checked", lambda row: row.checked),
)


@dataclass(frozen=True, kw_only=True)
class LanguageComparison:
    """What judges read in several languages."""

    rows: tuple[LanguageReading, ...]
    title: str = "Reading gap by language"

    @property
    def table(self) -> FilledTable[LanguageReading]:
        """One row per judge and language, English first."""
        return BY_LANGUAGE(self.rows)

    def to_markdown(self) -> str:
        """Return the table."""
        return "\n".join([f"# {self.title}", "", self.table.to_markdown()])

    def to_frame(self) -> pd.DataFrame:
        """Return the table, one row per judge and language."""
        return self.table.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return plain_fields(self)


def by_language(runs: Collection[str | Evaluation], *, tracking_uri: str | None = None) -> LanguageComparison:
    """Put the reading gap of evaluations on suites in several languages into one table, paired by task with English.

    Args:
        runs: Two or more evaluations, run ids or beginnings of ids; of every judge one per language.
        tracking_uri: MLflow store of run ids; the active one when None.

    Raises:
        RecipeError: when the runs have no task in common, or a judge has two runs in one language.
    """
    if isinstance(runs, str) or len(runs) < 2:
        raise RecipeError(f"A table by language needs at least two runs, but got {runs!r}.")
    stores = {run.run_id: run.tracking_uri for run in runs if isinstance(run, Evaluation) and run.tracking_uri}
    loaded = load_runs([run_id_of(run) for run in runs], tracking_uri=tracking_uri, stores=stores, by_run_name=True)
    by_key: dict[tuple[str, str], LoggedRun] = {}
    for run in loaded:
        key = _PROMPT_LANGUAGE.sub("", run.own_label or run.judge), str(run.suite.origin.get("language", "en"))
        if key in by_key:
            raise RecipeError(f"{key[0]} has two runs in {language_names(key[1])}: {by_key[key].run_id}, {run.run_id}.")
        by_key[key] = run
    common = set.intersection(*({str(task) for task in run.calls["task"]} for run in loaded))
    if len(common) < 2:
        raise RecipeError("The runs have fewer than two tasks in common. Evaluate datasheet-en, -de, -es or -zh.")
    read = {key: _read(run.calls, common) for key, run in by_key.items()}
    order = {code: place for place, code in enumerate(LANGUAGES)}
    rows = [
        LanguageReading(
            judge=judge,
            language=code,
            checked=str(by_key[judge, code].suite.origin.get("checked", "–")),
            n_tasks=len(common),
            ladder=own[0],
            matched=own[1],
            gap=own[2],
            beyond_english=_beyond(own, read.get((judge, "en")), code),
            run_id=by_key[judge, code].run_id,
        )
        for (judge, code), own in sorted(read.items(), key=lambda row: (row[0][0], order.get(row[0][1], len(order))))
    ]
    return LanguageComparison(rows=tuple(rows))


_Read = tuple[Reading, Reading, Reading, Array, Array]
"""Shares on the two ladders, their gap, the gap by task, and the usable calls behind it on the smaller ladder."""


def _read(calls: pd.DataFrame, tasks: Collection[str]) -> _Read:
    table = call_table(normalise(calls[calls["task"].isin(tasks)]))
    shares: list[Reading] = []
    counts: list[Array] = []
    for condition in (LADDER, LADDER_MATCHED):
        own = np.asarray(table.condition == condition)
        part = table.where(own)
        shares.append(share(part.units(f"{condition} calls"), np.asarray(chooses_better(*part.seen))))
        counts += task_counts(table, own, chooses_better)
    sizes = np.minimum(counts[1], counts[3])
    by_task = counts[0] / np.maximum(counts[1], 1.0) - counts[2] / np.maximum(counts[3], 1.0)
    return shares[0], shares[1], gap_reading(shares[0], shares[1], [*counts[2:], *counts[:2]]), by_task, sizes


def _beyond(own: _Read, english: _Read | None, code: str) -> Reading:
    if code == "en":
        return NotEstimable(reason="English is what the others are compared with")
    if english is None:
        return NotEstimable(reason="this judge has no run in English")
    for part in (own[2], english[2]):
        if isinstance(part, NotEstimable):
            return part
    sizes = np.minimum(own[4], english[4])
    n_tasks = int((sizes > 0).sum())
    values = sizes * (own[3] - english[3])
    # Halved: the interval is one of values from -1 to 1, and two gaps differ by up to 2.
    ends = value_interval(np.maximum(values, 0.0) / 2, np.maximum(-values, 0.0) / 2, sizes, 0.95)
    return Estimate(
        value=float(values.sum() / sizes.sum()),
        n=n_tasks,
        excluded=len(sizes) - n_tasks,
        **intervals(None, ends and (2 * ends[0], 2 * ends[1])),
        n_clusters=n_tasks,
        method="mean difference of gaps, paired by task",
        unit="item",
    )
