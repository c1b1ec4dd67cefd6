"""The page of a run's calls: from a number to the calls behind it, and from a call to its pair.

    GET /calls/{run_id}?axis=KEY&counts=yes|no|left_out&condition=…&test=…&outcome=…&order=uv&delta=1&task=…&item=…
                       &page=2 | &open=ITEM | &compared=24

All filters are optional and must all hold; one that is given twice lets either value through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jrh_mlflow.pages.responses import READING, FindStore, answering, demand_run_id, html_response, in_thread
from jrh_mlflow.review.guard import Refusal
from jrh_mlflow.show.addresses import Addresses

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

    from jrh_mlflow.measures.behind import Behind
    from jrh_mlflow.pages.call_browser import CallFilters, Choice, OpenedItem, ShownCall
    from jrh_mlflow.show.readings import PageRow
    from jrh_mlflow.stats import Codes, Mask
    from jrh_mlflow.tracking.runs.run_calls import CallStore, RunCalls, RunFacts

_ADDRESSES = Addresses("../")
_LABELS = {
    "counts": "in this number",
    "condition": "condition",
    "test": "test",
    "outcome": "outcome",
    "order": "order",
    "delta": "δ or level",
    "task": "task",
    "item": "item",
}


def call_routes(find_store: FindStore) -> list[Route]:
    """Return the routes of the page, for an application that a guard protects."""

    async def calls(request: Request) -> Response:
        run_id = demand_run_id(request.path_params["run_id"])
        return html_response(await in_thread(_calls, find_store(request), run_id, request.query_params))

    return [Route("/calls/{run_id}", answering(calls))]


def _calls(store: str, run_id: str, query: QueryParams) -> str:
    found = _call_store().open(store, run_id)
    if found is None:
        raise Refusal(404, "There is no such run.")
    return calls_page(*found, query)


def prepare() -> None:
    """Import what the page needs and read its template, in a thread: the first visitor should not wait for that."""
    READING.submit(_prepare)


def _prepare() -> None:
    from jrh_mlflow.show.html import read_template

    import_module("jrh_mlflow.pages.call_browser")
    _call_store()
    read_template("calls.html")


@cache
def _call_store() -> CallStore:
    """Return the runs that this process keeps, made when first needed: it imports pandas and MLflow."""
    from jrh_mlflow.tracking.runs.run_calls import CallStore

    return CallStore()


def calls_page(facts: RunFacts, calls: RunCalls, query: QueryParams) -> str:
    """Render the page for the filters of an address.

    Raises:
        Refusal: for an item that is not there.
        RecipeError: for a number that has no calls.
    """
    from jrh_mlflow.pages.call_browser import call_page

    filters = _filters(query)
    behind = calls.behind(filters.axis) if filters.axis else None
    masks = _masks(calls, filters, behind)
    rows = _all_of(masks.values(), len(calls)).nonzero()[0]
    opened = _opened(calls, query["open"], rows, behind) if query.get("open") else None
    page, shown = (1, rows[:0]) if opened else _page(query, rows)
    return call_page(
        addresses=_ADDRESSES,
        run_id=facts.run_id,
        experiment_id=facts.experiment_id,
        judge=facts.judge,
        marks=_marks(facts),
        facts={"run": facts.name, "suite": facts.suite, "calls": f"{len(calls):,}"},
        notes=_notes(facts, calls),
        filters=filters,
        choices=[] if opened else _choices(calls, filters, masks, behind),
        n_calls=len(calls),
        n_found=len(rows),
        rows=_shown(calls, shown, behind),
        page=page,
        opened=opened,
        reading=_reading(calls, filters.axis) if filters.axis else None,
        behind=f"{_behind_text(behind)}{_compared_text(filters, len(calls))}" if behind else "",
        keeps_raw=calls.keeps_raw,
        finished=facts.status == "FINISHED",
    )


def _filters(query: QueryParams) -> CallFilters:
    from jrh_mlflow.pages.call_browser import CallFilters

    named: dict[str, Any] = {
        name: tuple(dict.fromkeys(value for value in query.getlist(name) if value)) for name in _LABELS
    }
    axis = query.get("axis", "")
    compared = query.get("compared", "") if axis else ""
    compared = compared if compared.isascii() and compared.isdigit() and len(compared) < 10 else ""
    return CallFilters(**{**named, "counts": named["counts"] if axis else ()}, axis=axis, compared=compared)


def _masks(calls: RunCalls, filters: CallFilters, behind: Behind | None) -> dict[str, Mask]:
    """Return the calls that each filter lets through."""
    import numpy as np

    named = {name: getattr(filters, name) for name in _LABELS if name != "counts"}
    masks = {name: calls.column(name).among(wanted) for name, wanted in named.items() if wanted}
    if behind is not None:
        masks["axis"] = behind.calls
        if filters.counts:
            masks["counts"] = np.isin(behind.counts, filters.counts)
    return masks


def _all_of(masks: Any, size: int) -> Mask:
    import numpy as np

    return np.asarray(np.logical_and.reduce([np.ones(size, dtype=bool), *masks]))


def _page(query: QueryParams, rows: Codes) -> tuple[int, Codes]:
    from jrh_mlflow.pages.call_browser import PAGE_SIZE

    text = query.get("page", "1")
    last = max(1, -(-len(rows) // PAGE_SIZE))
    page = min(int(text), last) if text.isascii() and text.isdigit() and 0 < len(text) < 10 else 1
    page = max(1, page)
    return page, rows[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]


def _choices(calls: RunCalls, filters: CallFilters, masks: dict[str, Mask], behind: Behind | None) -> list[Choice]:
    """Offer the values that occur, each with how many calls the other filters leave of it."""
    from jrh_mlflow.pages.call_browser import COUNTS_TEXT, MOST_OPTIONS, Choice, option_texts
    from jrh_mlflow.tracking.runs.run_calls import FILTERS

    found = []
    if behind is not None and behind.can_count:
        others = _all_of([mask for name, mask in masks.items() if name != "counts"], len(calls))
        values = {name: int((behind.counts[others] == name).sum()) for name in COUNTS_TEXT}
        named: dict[str, Any] = {"label": _LABELS["counts"], "chosen": filters.counts, "texts": COUNTS_TEXT}
        found.append(Choice(name="counts", values=values, **named))
    for name in FILTERS:
        column, chosen = calls.column(name), getattr(filters, name)
        others = _all_of([mask for each, mask in masks.items() if each != name], len(calls))
        values = column.counts(others)
        if name == "delta":
            values = dict(sorted(values.items(), key=lambda pair: float(pair[0])))
        if chosen or _is_offered(calls, name, values):
            named = {"label": _LABELS[name], "chosen": chosen, "texts": option_texts(name, values)}
            found.append(Choice(name=name, values={} if len(values) > MOST_OPTIONS else values, **named))
    return [*found, Choice(name="item", label=_LABELS["item"], values={}, chosen=filters.item)]


def _is_offered(calls: RunCalls, name: str, values: Mapping[str, int]) -> bool:
    """Offer what the run has a value of, also where it is one only; tests where there are any."""
    if name == "test":
        return calls.has_tests
    return len(values) > (name == "task")


def _marks(facts: RunFacts) -> list[str]:
    told = {"simulated": facts.simulated, "recorded": facts.recorded, f"truncated: {facts.truncated}": facts.truncated}
    return [mark for mark, holds in told.items() if holds]


def _notes(facts: RunFacts, calls: RunCalls) -> list[str]:
    notes = ["A simulated judge, not a model."] if facts.simulated else []
    notes += ["Answers that were recorded earlier; nobody was asked in this run."] if facts.recorded else []
    notes += [f"Truncated: {facts.truncated}."] if facts.truncated else []
    if facts.status != "FINISHED":
        notes.append(f"The run is {facts.status}: these are the calls that it kept.")
    if calls.without_texts:
        notes.append("Logged without texts (--no-texts): hashes stand in the place of what was shown and answered.")
    return notes


def _reading(calls: RunCalls, key: str) -> PageRow | None:
    """Spell a number as the run's datasheet has it."""
    from jrh_mlflow.show.readings import across_row, page_row

    reading = calls.reading(key)
    return across_row(key, calls.summary, len(calls.scores)) if reading is None else page_row("", reading, key=key)


def _behind_text(behind: Behind) -> str:
    n_calls, left_out = int(behind.calls.sum()), int((behind.counts == "left_out").sum())
    units = "" if behind.unit == "call" else f", {behind.n:,} {behind.unit}s counted and {behind.excluded:,} left out"
    return f"{n_calls:,} calls are behind it{units}{f'; {left_out:,} calls are left out' if left_out else ''}."


def _compared_text(filters: CallFilters, n_calls: int) -> str:
    """Say why a comparison that led here has a smaller n."""
    if not filters.compared or int(filters.compared) >= n_calls:
        return ""
    n_compared = f"{int(filters.compared):,} of the {n_calls:,} calls of this run"
    return f" The comparison is on {n_compared}, those that every judge was asked: its number and n are of these."


def _opened(calls: RunCalls, item_id: str, rows: Codes, behind: Behind | None) -> OpenedItem:
    from jrh_mlflow.pages.call_browser import OpenedItem, opened_texts

    column = calls.column("item")
    own = column.among([item_id]).nonzero()[0]
    if not len(own):
        raise Refusal(404, f"The run has no call on an item {item_id!r}.")
    item = calls.item(item_id)
    original = calls.original(item) if item is not None and item.kind != "pair" else None
    base = column.among([original.id]).nonzero()[0] if original is not None else own[:0]
    shown = _shown(calls, own, behind)
    listed = list(dict.fromkeys(column.codes[rows].tolist()))
    code = int(column.codes[own[0]])
    place = listed.index(code) if code in listed else None
    before = listed[place - 1] if place else None
    after = listed[place + 1] if place is not None and place + 1 < len(listed) else None
    return OpenedItem(
        item=item_id,
        condition=shown[0].condition,
        delta=shown[0].delta,
        task=str(calls.frame["task"].iloc[own[0]]),
        wanted=shown[0].wanted,
        calls=sorted(shown, key=lambda call: (call.replicate, call.order)),
        baseline=_shown(calls, base, None),
        previous=None if before is None else column.values[before],
        following=None if after is None else column.values[after],
        **opened_texts(item, original),
    )


def _shown(calls: RunCalls, rows: Codes, behind: Behind | None) -> Sequence[ShownCall]:
    """Read the calls of some rows, and the texts of no other."""
    from jrh_mlflow.pages.call_browser import ShownCall

    part, texts = calls.frame.iloc[rows], calls.texts(rows.tolist())
    shown = []
    row: Any
    for place, row, told in zip(rows, part.itertuples(index=False), texts, strict=True):
        shown.append(
            ShownCall(
                item=_text(row.suite_item),
                condition=_text(row.condition),
                delta="" if _number(row.delta) is None else f"{row.delta:g}",
                order=_text(row.order),
                replicate=int(row.replicate),
                outcome=_text(row.outcome),
                answer=_text(row.answer),
                better=_text(row.better),
                expected=_text(row.expected),
                counts="" if behind is None else str(behind.counts[place]),
                cost_usd=_number(getattr(row, "cost_usd", None)),
                latency_s=_number(getattr(row, "latency_s", None)),
                **{**told, "cached": bool(told["cached"]), "confidence": _number(told["confidence"])},
            )
        )
    return shown


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else ""


def _number(cell: Any) -> float | None:
    return None if cell is None or math.isnan(cell) else float(cell)
