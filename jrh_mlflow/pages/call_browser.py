"""The page of a run's calls: filters, a table of calls, and one item opened with all its calls; no script in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from jrh_mlflow.measures.axes import no_order, one_order, same_content, same_slot
from jrh_mlflow.measures.records import choice
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message, context_texts, part_text
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.html import render
from jrh_mlflow.show.names import axis_meaning, axis_name, condition_name
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.readings import PageRow
from jrh_mlflow.text import visible

PAGE_SIZE = 50
MOST_OPTIONS = 200
"""Values that a list offers; of more (tasks) one is typed."""
_BEGINNING = 260
"""Characters of a rationale in the table."""
_LONG = 700
"""Characters past which a text has a scroll bar of its own, which the keyboard must reach."""
_LEAST_SECONDS = 0.005
"""Less is shown as nothing: judges that are code take as long."""
SLOTS = {"uv": "slot 1 is u, slot 2 is v", "vu": "slot 1 is v, slot 2 is u"}
COUNTS_TEXT = {"yes": "counts", "no": "does not count", "left_out": "left out"}


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
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value}

    def address(self, addresses: Addresses, run_id: str, **more: str | float) -> str:
        """Return the address of this page with these filters."""
        return addresses.calls(run_id, **self.chosen, **more)

    def without(self, name: str) -> CallFilters:
        """Return the filters but for one."""
        if name == "axis":
            return replace(self, axis="", compared="")
        empty: dict[str, Any] = {name: ()}
        return replace(self, **empty)


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


def option_texts(name: str, values: Iterable[str]) -> dict[str, str]:
    """Return the words of a filter's values, where they are other than the values themselves."""
    if name in ("condition", "test"):
        return {value: condition_name(value) for value in values}
    return {order: f"{order}: {slots}" for order, slots in SLOTS.items()} if name == "order" else {}


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

    @property
    def choice(self) -> str:
        """The content that was chosen, the label, or the outcome; empty without a usable answer."""
        return choice(order=self.order, outcome=self.outcome, answer=self.answer)

    @property
    def answered(self) -> str:
        """What was answered, in words: of a pair the content and the slot that it stood in."""
        if self.outcome != "verdict":
            return {"tie": "tie", "abstain": "abstained"}.get(self.outcome, "no usable answer")
        return f"{self.choice} (slot {self.answer})" if self.order else self.answer

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

    @property
    def place(self) -> str:
        """Which call of its item it is."""
        turn = f"order {self.order}" if self.order else "call"
        return f"{turn}, replicate {self.replicate}" if self.replicate else turn


def came_to(calls: Sequence[ShownCall]) -> list[str]:
    """Say what a pair came to, one line for each replicate; nothing for single responses."""
    lines = []
    for replicate in sorted({call.replicate for call in calls if call.order}):
        both = {call.order: call for call in calls if call.replicate == replicate}
        text = _pair_text(both.get("uv"), both.get("vu"))
        told = f"replicate {replicate}: {text}" if any(call.replicate for call in calls) else text
        lines.append(f"{told[0].upper()}{told[1:]}.")
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
        return f"positional: slot {uv.answer} in both orders"
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
    def columns(self) -> list[tuple[str, list[ShownCall]]]:
        """Its calls, both orders of a pair side by side; of single responses the original's beside them."""
        if any(call.order for call in self.calls):
            better = f"; {self.wanted} is the better one" if self.wanted else ""
            orders = {order: f"Order {order}: {slots}{better}" for order, slots in SLOTS.items()}
            return [(head, [call for call in self.calls if call.order == order]) for order, head in orders.items()]
        beside = [("Original: what the judge answered", list(self.baseline))] if self.baseline else []
        return [*beside, ("This item: what the judge answered", list(self.calls))]


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
    found = []
    for place, message in enumerate(item.transcript or ()):
        changed = bool(before) and before[place : place + 1] != (message,)
        role = message.role if message.name is None else f"{message.role} {message.name}"
        found.append(ShownMessage(role=role, text=shown_text("", _message_text(message)), changed=changed))
        if changed and place < len(before):
            text = shown_text("", _message_text(before[place]))
            found.append(ShownMessage(role=f"{role}, in the original", text=text, changed=False))
    return found


def _message_text(message: Message) -> str:
    calls = [f"{call.get('name')}({call.get('arguments')})" for call in message.tool_calls]
    parts = [message.reasoning or "", message.content, *calls, *map(part_text, message.parts), message.error or ""]
    return "\n".join(filter(None, parts))


def call_page(
    *,
    addresses: Addresses,
    run_id: str,
    experiment_id: str,
    judge: str,
    marks: Sequence[str],
    facts: Mapping[str, str],
    notes: Sequence[str],
    filters: CallFilters,
    choices: Sequence[Choice],
    n_calls: int,
    n_found: int,
    rows: Sequence[ShownCall],
    page: int,
    opened: OpenedItem | None = None,
    reading: PageRow | None = None,
    behind: str = "",
    keeps_raw: bool = True,
    finished: bool = True,
) -> str:
    """Render the page.

    Args:
        addresses: Of the other pages.
        run_id: Of the run.
        experiment_id: Of the run.
        judge: Its name, with what it is where it is no model that was asked.
        marks: Beside the title: simulated, recorded, truncated.
        facts: Of the run, shown as they are.
        notes: What to know first.
        filters: As the address has them.
        choices: The form.
        n_calls: Of the run.
        n_found: Of those that pass the filters.
        rows: Those on this page.
        page: Its number, from 1 on.
        opened: The item that is shown with all its calls, instead of the list.
        reading: The number of `filters.axis`, as the datasheet has it.
        behind: How many calls and units are behind it.
        keeps_raw: Whether the run kept what the model wrote.
        finished: Whether the run did: one that failed, or goes on, has no datasheet.
    """
    last = max(1, -(-n_found // PAGE_SIZE))
    return render(
        "calls.html",
        addresses=addresses,
        run_id=run_id,
        experiment_id=experiment_id,
        title=f"Calls: {visible(judge)}",
        marks=marks,
        facts=facts,
        notes=notes,
        filters=filters,
        choices=choices,
        n_calls=n_calls,
        n_found=n_found,
        rows=rows,
        page=page,
        last=last,
        first_row=(page - 1) * PAGE_SIZE + 1,
        opened=opened,
        axis=axis_name(filters.axis) if filters.axis else "",
        meaning=axis_meaning(filters.axis) if filters.axis else "",
        reading=reading,
        behind=behind,
        counts_text=COUNTS_TEXT,
        has_pairs=any(row.order for row in (opened.calls if opened else rows)),
        filled={name: any(getattr(row, name) for row in rows) for name in ("wanted", "counts", "beginning", "spent")},
        condition_name=condition_name,
        keeps_raw=keeps_raw,
        finished=finished,
        shown_text=shown_text,
        to_page=lambda number: filters.address(addresses, run_id, page=number),
        to_item=lambda item: filters.address(addresses, run_id, open=item),
        to_list=filters.address(addresses, run_id),
        to_calls=lambda item: addresses.calls(run_id, item=item),
        without=lambda name: filters.without(name).address(addresses, run_id),
    )
