"""The grid of disagreement: items × judges, those on which the judges differ most first.

    GET /differ?run=ID&run=ID&sort=[-]differ|item&condition=…&page=2&part=2

Every cell leads to the item as that judge was asked it: texts, prompt as sent, answers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from jrh_mlflow.judges import shown_name
from jrh_mlflow.measures.disagreement import answer_shares, mean_distance
from jrh_mlflow.measures.records import choices
from jrh_mlflow.pages.calls import _CALLS, PAGE_SIZE, _whole_number, call_text
from jrh_mlflow.review.guard import Refusal
from jrh_mlflow.show.html import Addresses, render_page
from jrh_mlflow.show.names import condition_name
from jrh_mlflow.show.numbers import number_text
from jrh_mlflow.show.run_overview import RunSummary
from jrh_mlflow.show.tables import Cell, Column, FilledTable, Table, Whisker
from jrh_mlflow.text import visible

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.datastructures import QueryParams

_ADDRESSES = Addresses("")
_SORTS = ("differ", "item")
_COLUMNS = ("suite_item", "condition", "delta", "order", "replicate", "outcome", "answer", "better", "expected")
_MOST_ANSWERS = 6
"""Different answers of one judge to one item that a cell holds."""


def disagreement_page(store: str, runs: Sequence[str], query: QueryParams, *, parts: Markup) -> str:
    """Render the items on which judges differ.

    Raises:
        Refusal: for runs that are not there or are on different suites.
        RecipeError: for a run without calls.
    """
    judges, calls = _opened(store, runs)
    grid = _ItemGrid.of(calls, len(judges))
    condition = query.get("condition", "")
    sort = query.get("sort", "-differ")
    falling, key = sort.startswith("-"), sort.removeprefix("-")
    items = grid.sorted(key if key in _SORTS else "differ", falling=falling or key not in _SORTS, condition=condition)
    last = max(1, -(-len(items) // PAGE_SIZE))
    page = max(1, min(_whole_number(query.get("page", "")) or 1, last))
    here = {"run": list(runs), "sort": sort, "condition": condition, "page": str(page)}

    def address(**changes: object) -> str:
        return f"differ?{urlencode({key: value for key, value in {**here, **changes}.items() if value}, doseq=True)}"

    shown = items[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    return render_page(
        "disagreement.html",
        addresses=_ADDRESSES,
        title=f"Where {len(judges)} judges differ",
        facts={"suite": judges[0].suite, "sha256": judges[0].sha256[:16], "items": f"{len(grid.items):,}"},
        parts=parts,
        runs=list(runs),
        compare=_ADDRESSES.compare(list(runs)),
        conditions={name: condition_name(name) for name in grid.conditions},
        condition=condition,
        sort=sort,
        # A second click on a head turns the order round.
        table=_table(grid, shown, judges, lambda key: address(sort=key if sort == f"-{key}" else f"-{key}", page="")),
        n_items=len(items),
        page=page,
        last=last,
        to_page=lambda number: address(page=str(number)),
    )


def _opened(store: str, runs: Sequence[str]) -> tuple[list[RunSummary], pd.DataFrame]:
    """Return the runs, and their calls under one another with the number of the run."""
    summaries: list[RunSummary] = []
    frames = []
    for number, run_id in enumerate(runs):
        opened = _CALLS.open(store, run_id)
        if opened is None:
            raise Refusal(404, "There is no such run.")
        summary, calls = opened
        if summaries and summary.sha256 != summaries[0].sha256:
            raise Refusal(422, f"{summaries[0].name} and {summary.name} are on different suites: choose runs on one.")
        summaries.append(summary)
        frames.append(calls.frame[list(_COLUMNS)].assign(judge=number))
    return summaries, pd.concat(frames, ignore_index=True)


@dataclass(frozen=True, kw_only=True)
class _ItemGrid:
    """Items with how much their judges differ."""

    calls: pd.DataFrame
    items: Sequence[str]
    differ: Any
    """Of each item, 0 to 1; NaN where fewer than two judges have a usable answer."""
    condition: Any
    delta: Any

    @classmethod
    def of(cls, calls: pd.DataFrame, n_judges: int) -> _ItemGrid:
        texts = ["order", "outcome", "answer", "better", "expected"]
        calls[texts] = calls[texts].fillna("")
        calls["choice"] = choices(calls)
        codes, items = pd.factorize(calls["suite_item"])
        usable = sorted({str(answer) for answer in calls["choice"]} - {""}, key=_place)
        place = {answer: number for number, answer in enumerate(usable)}
        answers = [place.get(answer, -1) for answer in calls["choice"]]
        shares = answer_shares(codes, calls["judge"].to_numpy(), answers, shape=(len(items), n_judges, len(usable)))
        numbers = [_number(answer) for answer in usable]
        scale = None if any(number is None for number in numbers) else [float(number or 0) for number in numbers]
        calls["code"] = codes
        first = calls.drop_duplicates("code")
        return cls(
            calls=calls,
            items=[str(item) for item in items],
            differ=mean_distance(shares, scale),
            condition=first["condition"].to_numpy(),
            delta=first["delta"].to_numpy(),
        )

    @property
    def conditions(self) -> list[str]:
        return [str(name) for name in dict.fromkeys(self.condition)]

    def sorted(self, key: str, *, falling: bool, condition: str) -> list[int]:
        """Return the codes of the items of a condition in an order; what cannot be told comes last."""
        codes = [code for code in range(len(self.items)) if not condition or self.condition[code] == condition]
        if key == "item":
            return sorted(codes, key=lambda code: self.items[code], reverse=falling)
        way = -1 if falling else 1
        return sorted(codes, key=lambda code: (math.isnan(self.differ[code]), way * self.differ[code]))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _place(text: str) -> tuple[bool, float, str]:
    number = _number(text)
    return number is None, number or 0.0, text


def _table(grid: _ItemGrid, shown: Sequence[int], judges: Sequence[RunSummary], to_sort: Any) -> FilledTable[int]:
    rows = grid.calls[np.isin(grid.calls["code"], list(shown))]
    calls = dict(iter(rows.sort_values(["replicate", "order"]).groupby(["code", "judge"])))
    heads = Counter(run.judge for run in judges)

    def judge_column(number: int, run: RunSummary) -> Column[int]:
        name = shown_name(run.judge, simulated=run.simulated, recorded=run.recorded)
        # Two lines of one name would be taken for one judge.
        head = f"{name} {run.run_id[:8]}" if heads[run.judge] > 1 else name

        def cell(code: int) -> Cell:
            part = calls.get((code, number))
            if part is None:
                return Cell("not asked", tone="missing")
            address = _ADDRESSES.calls(run.run_id, open=grid.items[code])
            texts = Counter(call_text(call.order, call.outcome, call.answer) for call in part.itertuples())
            lines = [visible(f"{text} ×{n}" if n > 1 else text) for text, n in texts.items()][:_MOST_ANSWERS]
            wanted = str(part["better"].iloc[0] or part["expected"].iloc[0])
            verdicts = part["choice"][part["outcome"] == "verdict"]
            is_wrong = bool(wanted) and bool((verdicts != wanted).any())
            said = f"{head} on {grid.items[code]}: {', '.join(lines)}"
            tone = "wrong" if is_wrong else ""
            return Cell(lines[0], below=tuple(lines[1:]), tone=tone, hover=said, links=((lines[0], address),))

        return Column(head, cell, address=_ADDRESSES.datasheet(run.run_id))

    def item(code: int) -> Cell:
        delta = "" if pd.isna(grid.delta[code]) else f", δ\N{NO-BREAK SPACE}{grid.delta[code]:g}"
        return Cell(visible(grid.items[code]), below=(f"{condition_name(str(grid.condition[code]))}{delta}",))

    def differ(code: int) -> Cell:
        value = float(grid.differ[code])
        if math.isnan(value):
            return Cell("n/a", tone="missing", hover="Fewer than two judges have a usable answer.")
        return Cell(number_text(value), whisker=Whisker(low=0.0, high=value))

    return Table.of(
        Column("item", item, address=to_sort("item")),
        Column("differ", differ, address=to_sort("differ")),
        *(judge_column(number, run) for number, run in enumerate(judges)),
    )(shown, style="grid")
