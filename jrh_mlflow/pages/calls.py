"""The page of a run's calls: from a number to the calls behind it, and from a call to its pair; no script in it.

    GET /calls/{run_id}?axis=KEY&counts=yes|no|left_out&condition=…&test=…&outcome=…&order=uv&delta=1&task=…&item=…
                       &page=2 | &open=ITEM | &compared=24

All filters are optional and must all hold; one that is given twice lets either value through. The page has filters and
a table of calls, or one item opened with all its calls.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jrh_mlflow.errors import JrhError
from jrh_mlflow.judges import shown_name
from jrh_mlflow.measures.axes import no_order, one_order, same_content, same_slot
from jrh_mlflow.measures.behind import Behind
from jrh_mlflow.measures.records import choice
from jrh_mlflow.review.guard import Refusal
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message, context_texts, part_text
from jrh_mlflow.show.html import Addresses, render_page
from jrh_mlflow.show.names import axis_meaning, axis_name, condition_name
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.readings import PageRow, across_row, page_row
from jrh_mlflow.show.run_overview import RunSummary
from jrh_mlflow.stats import Codes, Mask
from jrh_mlflow.text import visible
from jrh_mlflow.tracking.runs.run_calls import FILTERS, CallStore, RunCalls

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

TEMPLATE = "calls.html"
PAGE_SIZE = 50
MOST_OPTIONS = 200
"""Values that a list offers; of more (tasks) one is typed."""
_BEGINNING = 260
"""Characters of a rationale in the table."""
_LONG = 700
"""Characters past which a text has a scroll bar of its own, which the keyboard must reach."""
_LEAST_SECONDS = 0.005
"""Less is shown as nothing: judges that are code take as long."""
SLOTS = {"uv": "u is the first, v the second", "vu": "v is the first, u the second"}
_SLOT = {"1": "first", "2": "second"}
COUNTS_TEXT = {"yes": "counts", "no": "does not count", "left_out": "left out"}
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
_log = logging.getLogger("jrh_mlflow")
_CALLS = CallStore()
"""Runs that this process keeps."""


def calls_page(store: str, run_id: str, query: QueryParams) -> str:
    """Render the calls of a run for the filters of an address.

    Raises:
        Refusal: for a run or an item that is not there.
        RecipeError: for a run without calls, or a number that has none.
    """
    opened_run = _CALLS.open(store, run_id)
    if opened_run is None:
        raise Refusal(404, "There is no such run.")
    (run, calls), filters = opened_run, _filters(query)
    judge = shown_name(run.judge, simulated=run.simulated, recorded=run.recorded)
    axis, behind = filters.axis, calls.behind(filters.axis) if filters.axis else None
    masks = _masks(calls, filters, behind)
    places = _all_of(masks.values(), len(calls)).nonzero()[0]
    opened = _opened(calls, query["open"], places, behind) if query.get("open") else None
    last = max(1, -(-len(places) // PAGE_SIZE))
    page = 1 if opened else max(1, min(_whole_number(query.get("page", "")) or 1, last))
    start = (page - 1) * PAGE_SIZE
    rows = [] if opened else _shown(calls, places[start : start + PAGE_SIZE], behind)
    return render_page(
        TEMPLATE,
        addresses=_ADDRESSES,
        run_id=run.run_id,
        experiment_id=run.experiment_id,
        traces=calls.traces,
        title=f"Calls: {visible(judge)}",
        marks=_marks(run),
        facts={"run": run.name, "suite": run.suite, "calls": f"{len(calls):,}"},
        notes=_notes(run, calls),
        filters=filters,
        choices=[] if opened else _choices(calls, filters, masks, behind),
        n_calls=len(calls),
        n_found=len(places),
        rows=rows,
        page=page,
        last=last,
        first_row=start + 1,
        opened=opened,
        axis=axis_name(axis) if axis else "",
        meaning=axis_meaning(axis) if axis else "",
        reading=_reading(calls, axis) if axis else None,
        behind=f"{_behind_text(behind)}{_compared_text(filters, len(calls))}" if behind else "",
        counts_text=COUNTS_TEXT,
        has_pairs=any(call.order for call in (opened.calls if opened else rows)),
        filled=_filled(run, rows),
        condition_name=condition_name,
        keeps_raw=calls.keeps_raw,
        # A run that failed, or goes on, has no datasheet to lead to.
        finished=run.status == "FINISHED",
        shown_text=shown_text,
        to_page=lambda number: filters.address(run_id, page=number),
        to_item=lambda item: filters.address(run_id, open=item),
        to_list=filters.address(run_id),
        to_calls=lambda item: _ADDRESSES.calls(run_id, item=item),
        without=lambda name: filters.without(name).address(run_id),
    )


def _whole_number(text: str) -> int | None:
    """Read a number of an address, which anybody can write: digits, and few enough of them."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# Filters


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFilters:
    """What a page's address asks for: calls that pass all filters; of several values of one, either."""

    axis: str = ""
    """Key of a number: the calls behind it."""
    counts: tuple[str, ...] = ()
    """With an axis: `yes`, `no`, `left_out`."""
    condition: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    task: tuple[str, ...] = ()
    item: tuple[str, ...] = ()
    compared: str = ""
    """No filter: of so many calls of the run is the number in the comparison that led here."""

    @property
    def chosen(self) -> dict[str, str | Sequence[str]]:
        """Those that are set, as they stand in an address."""
        values = {known.name: getattr(self, known.name) for known in fields(self)}
        return {name: value for name, value in values.items() if value}

    def address(self, run_id: str, **more: str | float) -> str:
        """Return the address of this page with these filters."""
        return _ADDRESSES.calls(run_id, **self.chosen, **more)

    def without(self, name: str) -> CallFilters:
        """Return the filters but for one."""
        if name == "axis":
            return replace(self, axis="", compared="")
        empty: dict[str, Any] = {name: ()}
        return replace(self, **empty)


def _filters(query: QueryParams) -> CallFilters:
    named: dict[str, Any] = {
        name: tuple(dict.fromkeys(value for value in query.getlist(name) if value)) for name in _LABELS
    }
    axis = query.get("axis", "")
    if not axis:
        return CallFilters(**{**named, "counts": ()})
    compared = query.get("compared", "")
    return CallFilters(**named, axis=axis, compared="" if _whole_number(compared) is None else compared)


def _masks(calls: RunCalls, filters: CallFilters, behind: Behind | None) -> dict[str, Mask]:
    """Return the calls that each filter lets through."""
    named = {name: getattr(filters, name) for name in _LABELS if name != "counts"}
    masks = {name: calls.column(name).among(wanted) for name, wanted in named.items() if wanted}
    if behind is not None:
        masks["axis"] = behind.calls
        if filters.counts:
            masks["counts"] = np.isin(behind.counts, filters.counts)
    return masks


def _all_of(masks: Iterable[Mask], size: int) -> Mask:
    return np.asarray(np.logical_and.reduce([np.ones(size, dtype=bool), *masks]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A filter as the form offers it."""

    name: str
    label: str
    values: Mapping[str, int]
    """Value to how many calls the other filters leave of it; empty where one is typed."""
    chosen: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    """Value to its words, where they differ."""


def _choices(calls: RunCalls, filters: CallFilters, masks: Mapping[str, Mask], behind: Behind | None) -> list[Choice]:
    """Offer the values that occur, each with how many calls the other filters leave of it."""

    def left_by_others(name: str) -> Mask:
        return _all_of([mask for other, mask in masks.items() if other != name], len(calls))

    choices = []
    if behind is not None and behind.can_count:
        counts = behind.counts[left_by_others("counts")]
        values = {name: int((counts == name).sum()) for name in COUNTS_TEXT}
        choices.append(
            Choice(name="counts", label=_LABELS["counts"], values=values, chosen=filters.counts, texts=COUNTS_TEXT)
        )
    for name in FILTERS:
        chosen, values = getattr(filters, name), calls.column(name).counts(left_by_others(name))
        if name == "delta":
            values = dict(sorted(values.items(), key=lambda pair: float(pair[0])))
        # What the run has a value of is offered, also where it is one only; tests where there are any.
        if chosen or (calls.has_tests if name == "test" else len(values) > (name == "task")):
            offered = {} if len(values) > MOST_OPTIONS else values
            texts = option_texts(name, values)
            choices.append(Choice(name=name, label=_LABELS[name], values=offered, chosen=chosen, texts=texts))
    return [*choices, Choice(name="item", label=_LABELS["item"], values={}, chosen=filters.item)]


def option_texts(name: str, values: Iterable[str]) -> dict[str, str]:
    """Return the words of a filter's values, where they are other than the values themselves."""
    if name in ("condition", "test"):
        return {value: condition_name(value) for value in values}
    return {order: f"{order}: {slots}" for order, slots in SLOTS.items()} if name == "order" else {}


# What is said of the run and its number


def _marks(run: RunSummary) -> list[str]:
    marks = {"simulated": run.simulated, "recorded": run.recorded, f"truncated: {run.truncated}": run.truncated}
    return [mark for mark, holds in marks.items() if holds]


def _filled(run: RunSummary, rows: Sequence[ShownCall]) -> dict[str, bool]:
    """Tell which columns have something to say."""
    filled = {name: any(getattr(row, name) for row in rows) for name in ("wanted", "counts", "beginning", "spent")}
    # How long a simulated judge took says how busy this machine was.
    return filled | {"spent": filled["spent"] and not run.simulated}


def _notes(run: RunSummary, calls: RunCalls) -> list[str]:
    notes = ["A simulated judge, not a model."] if run.simulated else []
    notes += ["Answers that were recorded earlier; nobody was asked in this run."] if run.recorded else []
    notes += [f"Truncated: {run.truncated}."] if run.truncated else []
    if run.status != "FINISHED":
        notes.append(f"The run is {run.status}: these are the calls that it kept.")
    if calls.without_texts:
        notes.append("Logged without texts (--no-texts): hashes stand in the place of what was shown and answered.")
    return notes


def _reading(calls: RunCalls, key: str) -> PageRow | None:
    """Spell a number as the run's datasheet has it."""
    reading = calls.reading(key)
    if reading is None:
        return across_row(key, calls.summary, calls.scores, calls.metric)
    return page_row("", reading, key=key)


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


# Calls


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownCall:
    """One call as the page shows it."""

    item: str
    condition: str
    delta: str
    order: str
    replicate: int
    outcome: str
    answer: str
    better: str
    expected: str
    counts: str = ""
    rationale: str | None = None
    raw: str | None = None
    error: str | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    model: str | None = None
    cached: bool = False
    confidence: float | None = None
    trace: str | None = None
    """Address of its trace in MLflow."""
    prompt_sha256: str | None = None

    @property
    def choice(self) -> str:
        """The content that was chosen, the label, or the outcome; empty without a usable answer."""
        return choice(order=self.order, outcome=self.outcome, answer=self.answer)

    @property
    def answered(self) -> str:
        """What was answered, in words: of a pair the content and the slot that it stood in."""
        return call_text(self.order, self.outcome, self.answer)

    @property
    def wanted(self) -> str:
        """The better content, or the expected answer."""
        return self.better or self.expected

    @property
    def spent(self) -> str:
        """What it cost and how long it took, where that is known and more than nothing."""
        cost = money_text(self.cost_usd) if self.cost_usd else ""
        time = f"{self.latency_s:.2f}\N{NO-BREAK SPACE}s" if (self.latency_s or 0) >= _LEAST_SECONDS else ""
        return ", ".join(filter(None, [cost, time]))

    @property
    def is_wrong(self) -> bool:
        """Whether a verdict is not the wanted one."""
        return self.outcome == "verdict" and bool(self.wanted) and self.choice != self.wanted

    @property
    def beginning(self) -> str:
        """The rationale, or why there is no answer, in one line."""
        text = " ".join((self.rationale or self.error or self.raw or "").split())
        return visible(text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]}…")


def call_text(order: str, outcome: str, answer: str) -> str:
    """Say what a call answered: of a pair the content by its own name, and the slot that it stood in.

    Example:
        >>> call_text("vu", "verdict", "1"), call_text("", "verdict", "yes"), call_text("uv", "tie", "")
        ('v (first)', 'yes', 'tie')
    """
    if outcome != "verdict":
        return {"tie": "tie", "abstain": "abstained"}.get(outcome, "no usable answer")
    chosen = choice(order=order, outcome=outcome, answer=answer)
    return f"{chosen} ({_SLOT.get(answer, answer)})" if order else answer


def _shown(calls: RunCalls, rows: Codes, behind: Behind | None) -> list[ShownCall]:
    """Read the calls of some rows, and the texts of no other."""
    part: Iterable[Any] = calls.frame.iloc[rows].itertuples(index=False)
    return [
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
            **{**texts, "cached": bool(texts["cached"]), "confidence": _number(texts["confidence"])},
        )
        for place, row, texts in zip(rows, part, calls.texts(rows.tolist()), strict=True)
    ]


def _text(cell: object) -> str:
    return cell if isinstance(cell, str) else ""


def _number(cell: Any) -> float | None:
    return None if cell is None or math.isnan(cell) else float(cell)


# One item


def _opened(calls: RunCalls, item_id: str, rows: Codes, behind: Behind | None) -> OpenedItem:
    column = calls.column("item")
    own = column.among([item_id]).nonzero()[0]
    if not len(own):
        raise Refusal(404, f"The run has no call on an item {item_id!r}.")
    item = calls.item(item_id)
    original = calls.original(item) if item is not None and item.kind != "pair" else None
    base = column.among([original.id]).nonzero()[0] if original is not None else own[:0]
    shown = _with_traces(calls, _shown(calls, own, behind))
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
        prompts=sent_prompts(calls, item, shown),
        previous=None if before is None else column.values[before],
        following=None if after is None else column.values[after],
        **opened_texts(item, original),
    )


def _with_traces(calls: RunCalls, shown: Sequence[ShownCall]) -> list[ShownCall]:
    """Add where the trace of each call is."""
    links = calls.trace_links([(call.item, call.order, call.replicate) for call in shown], _ADDRESSES)
    return [replace(call, trace=link) for call, link in zip(shown, links, strict=True)]


def came_to(calls: Sequence[ShownCall]) -> list[str]:
    """Say what a pair came to, one line for each replicate; nothing for single responses."""
    lines = []
    for replicate in sorted({call.replicate for call in calls if call.order}):
        both = {call.order: call for call in calls if call.replicate == replicate}
        text = _pair_text(both.get("uv"), both.get("vu"))
        line = f"replicate {replicate}: {text}" if any(call.replicate for call in calls) else text
        lines.append(f"{line[0].upper()}{line[1:]}.")
    return lines


def _pair_text(uv: ShownCall | None, vu: ShownCall | None) -> str:
    if uv is None or vu is None:
        return "the other order was not asked: it counts for numbers of calls, and for none of pairs"
    if not (uv.choice and vu.choice):
        return "left out of numbers of pairs: not both orders have a usable answer"
    seen = (uv.choice, vu.choice, uv.better)
    right = "" if not uv.better else ", the better one" if uv.better in seen[:2] else ", not the better one"
    if same_content(*seen):
        return f"stable: content {uv.choice} in both orders{right}"
    if same_slot(*seen):
        return f"positional: the {_SLOT.get(uv.answer, uv.answer)} in both orders"
    if one_order(*seen):
        return f"one-sided: a preference in one order only{right}"
    assert no_order(*seen)
    return "no preference in either order"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownText:
    """A text with its heading, exactly as it was, with what is invisible made visible."""

    heading: str
    text: str | None
    """None: there is none."""
    note: str = ""

    @property
    def shown(self) -> str:
        """The text."""
        return visible(self.text or "")

    @property
    def is_long(self) -> bool:
        """Whether it has a scroll bar of its own."""
        return len(self.text or "") > _LONG or (self.text or "").count("\n") > 14


def shown_text(heading: str, text: str | None) -> ShownText:
    """Say of what is empty or blank that it is."""
    if text is None or text.strip():
        return ShownText(heading=heading, text=text)
    note = "empty" if not text else f"{len(text)} characters of white space"
    return ShownText(heading=heading, text=text, note=note)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownMessage:
    """A message of a transcript."""

    role: str
    text: ShownText
    changed: bool
    """Whether the original has another one, or none, in its place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenedItem:
    """One item with everything that was shown to the judge and answered."""

    item: str
    condition: str
    delta: str
    task: str
    wanted: str
    contents: Sequence[ShownText]
    """The pair, or the original beside the response."""
    frame: Sequence[ShownText]
    """Instruction, rubric, context."""
    messages: Sequence[ShownMessage]
    calls: Sequence[ShownCall]
    baseline: Sequence[ShownCall]
    """Calls on the original, of a perturbed response."""
    prompts: Mapping[str, SentPrompt]
    """Order to what was sent; empty where the judge sends no prompt of ours."""
    previous: str | None
    """Item before it in the filtered list."""
    following: str | None

    @property
    def lines(self) -> list[str]:
        """What it came to."""
        return came_to(self.calls)

    @property
    def better(self) -> str:
        """Which content of a pair is better, in words; empty for single responses."""
        if not any(call.order for call in self.calls):
            return ""
        return f"content {self.wanted}" if self.wanted else "neither content"

    @property
    def columns(self) -> list[tuple[str, str | None, list[ShownCall]]]:
        """Its calls, both orders of a pair side by side; of single responses the original's beside them."""
        if any(call.order for call in self.calls):
            better = f"; {self.wanted} is the better one" if self.wanted else ""
            orders = {order: f"Order {order}: {slots}{better}" for order, slots in SLOTS.items()}
            return [
                (head, order, [call for call in self.calls if call.order == order]) for order, head in orders.items()
            ]
        beside = [("Original: what the judge answered", None, list(self.baseline))] if self.baseline else []
        return [*beside, ("This item: what the judge answered", "", list(self.calls))]


@dataclass(frozen=True, kw_only=True, slots=True)
class SentPrompt:
    """The messages of a call, made again from the judge's definition and the item."""

    messages: Sequence[ShownText]
    is_same: bool
    """Whether the hash that the run logged is that of this very request."""


def sent_prompts(calls: RunCalls, item: Item | None, shown: Sequence[ShownCall]) -> dict[str, SentPrompt]:
    """Return what was sent in each order; nothing of judges whose prompt is not ours, or of runs without texts."""
    definition = calls.judge.get("definition")
    if calls.without_texts or item is None or not isinstance(definition, Mapping):
        return {}
    from jrh_mlflow.tracking.judges.sent_messages import SentMessages, messages_of, was_sent

    sent, prompts = SentMessages(definition), dict[str, SentPrompt]()
    try:
        for order in item.orders:
            if (request := sent.request(item, order)) is not None:
                logged = {call.prompt_sha256 for call in shown if call.order == order}
                texts = [(str(message["role"]), _content_text(message["content"])) for message in messages_of(request)]
                messages = [shown_text(role, text) for role, text in texts]
                prompts[order] = SentPrompt(messages=messages, is_same=was_sent(request, logged))
    except (JrhError, LookupError, TypeError, ValueError, AttributeError):
        _log.warning("The prompt of item %s cannot be made again.", item.id, exc_info=True)
        return {}
    return prompts


def _content_text(content: object) -> str:
    # A content in parts is shown as the request has it.
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)


def opened_texts(item: Item | None, original: Item | None) -> dict[str, Any]:
    """Return the texts of an item for `OpenedItem`; nothing where the run has no suite with it."""
    if item is None or item.instruction is None:
        return {"frame": [], "contents": [], "messages": []}
    frame = [shown_text("Instruction", item.instruction)]
    frame += [shown_text("Rubric", item.rubric)] if item.rubric else []
    if original is not None and original.rubric != item.rubric:
        frame.append(shown_text("Rubric of the original", original.rubric))
    frame += [shown_text("Context", text) for text in context_texts(item.context)]
    if item.kind == "pair":
        named = {"Content u": item.u, "Content v": item.v}
        contents = [_content(name, text, item) for name, text in named.items()]
        return {"frame": frame, "contents": contents, "messages": []}
    contents = [] if item.transcript else [shown_text("As judged", item.response)]
    if original is not None and not item.transcript:
        contents.insert(0, shown_text("Original", original.response))
    return {"frame": frame, "contents": contents, "messages": _messages(item, original)}


def _content(name: str, text: str | None, item: Item) -> ShownText:
    better = ", the better one" if item.better and name.endswith(item.better) else ""
    return shown_text(f"{name}{better}", text)


def _messages(item: Item, original: Item | None) -> list[ShownMessage]:
    before = (original.transcript if original else None) or ()
    messages = []
    for place, message in enumerate(item.transcript or ()):
        changed = bool(before) and before[place : place + 1] != (message,)
        role = message.role if message.name is None else f"{message.role} {message.name}"
        messages.append(ShownMessage(role=role, text=shown_text("", _message_text(message)), changed=changed))
        if changed and place < len(before):
            text = shown_text("", _message_text(before[place]))
            messages.append(ShownMessage(role=f"{role}, in the original", text=text, changed=False))
    return messages


def _message_text(message: Message) -> str:
    calls = [f"{call.get('name')}({call.get('arguments')})" for call in message.tool_calls]
    parts = [message.reasoning or "", message.content, *calls, *map(part_text, message.parts), message.error or ""]
    return "\n".join(filter(None, parts))
