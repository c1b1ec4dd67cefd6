"""The calls of an evaluation: item x presentation order x replicate; what each shows, sends, and would cost."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from typing import Any

from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges import Judge, ModelJudge
from jrh_mlflow.judges.rendering import message_block
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    TYPICAL_OUTPUT_TOKENS,
    Price,
    cost_micro,
    prompt_size,
    worst_case_micro,
)
from jrh_mlflow.perturb.agents import AGENT_TESTS
from jrh_mlflow.schema.items import THIRDS, Call, Item, Order, labels_cell
from jrh_mlflow.schema.presentation import Criterion, Presentation, context_texts
from jrh_mlflow.schema.requests import Request
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import json_text

AHEAD = 256
"""Calls looked up in the journal at once: a warm run is then bound by reading, not by asking one by one."""


def plan_calls(suite: Suite, judge: Judge, *, replicates: int, shuffle: int | None = None) -> Iterator[Call]:
    """Yield every call in suite order, or in that of `item_order`, both orders of a pair one after the other."""
    rubrics = _rubrics_at_once(suite.items, judge.tie_criterion)
    for item in item_order(suite, shuffle):
        if not judge.covers(item):
            continue
        shown = {order: presentation_of(item, order, judge.tie_criterion) for order in item.orders}
        if item.id in rubrics:
            shown = {order: replace(content, rubrics=rubrics[item.id]) for order, content in shown.items()}
        for replicate in range(replicates * item.replicates):
            for order, presentation in shown.items():
                yield Call(item=item, order=order, replicate=replicate, presentation=presentation)


def _rubrics_at_once(items: Iterable[Item], criterion: Criterion) -> dict[str, dict[str, str]]:
    """Return the rubrics by id under which a suite asks about the same content, by item; of several rubrics only."""
    contents = {
        item.id: (item, content_key(item, presentation_of(item, "", criterion)))
        for item in items
        if item.rubric_id and item.kind != "pair"
    }
    rubrics: dict[str, dict[str, str]] = {}
    for item, key in contents.values():
        rubrics.setdefault(key, {}).setdefault(item.rubric_id, item.rubric or "")
    return {name: rubrics[key] for name, (_, key) in contents.items() if len(rubrics[key]) > 1}


def content_key(item: Item, shown: Presentation) -> str:
    """Name what an item shows whatever the rubric; the same text in another test is asked about by itself."""
    return f"{item.task}\n{item.condition}\n{presentation_sha256(replace(shown, rubric=None, rubrics=None))}"


def item_order(suite: Suite, shuffle: int | None) -> Sequence[Item]:
    """Return the items as they stand in the suite, or in the random order that the seed `shuffle` draws."""
    if shuffle is None:
        return suite.items
    # With the suite's hash: the same seed gives two suites orders that have nothing to do with each other.
    return random.Random(f"{shuffle}:{suite.sha256}").sample(suite.items, len(suite.items))  # noqa: S311 - an order


def random_order(calls: Iterable[Call], seed: str, *, whole: Callable[[Item], bool]) -> list[Call]:
    """Return calls in the random order that a seed draws, those on items that are to stay `whole` pair by pair.

    Units that come in random order are a random sample of the suite at every moment, however the suite is sorted.
    """
    blocks: dict[object, list[Call]] = {}
    for number, call in enumerate(calls):
        together = (call.item.id, call.replicate) if whole(call.item) else number
        blocks.setdefault(together, []).append(call)
    drawn = random.Random(seed).sample(list(blocks.values()), len(blocks))  # noqa: S311 - an order
    return [call for block in drawn for call in block]


def count_calls(suite: Suite, judge: Judge, *, replicates: int) -> int:
    """Return how many calls `plan_calls` yields."""
    return replicates * sum(len(item.orders) * item.replicates for item in suite.items if judge.covers(item))


def presentation_of(item: Item, order: Order, criterion: Criterion) -> Presentation:
    """Lay an item out for a judge; only here do contents get their slots."""
    if item.instruction is None:
        raise SuiteError(f"Item {item.id!r} has no text: a replayed suite can be measured, but not asked again.")
    if item.kind != "pair":
        return Presentation(
            kind=item.kind,
            instruction=item.instruction,
            rubric=item.rubric,
            response=item.response,
            transcript=item.transcript,
            answers=item.answers or (),
            context=context_texts(item.context) or None,
        )
    first, second = (item.u, item.v) if order == "uv" else (item.v, item.u)
    return Presentation(
        kind="pair",
        instruction=item.instruction,
        rubric="\n\n".join(text for text in (item.rubric, criterion.text) if text),
        first=first,
        second=second,
        answers=criterion.answers,
        context=context_texts(item.context) or None,
    )


_SHOWN = sorted(field.name for field in fields(Presentation))
_JSON = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
_QUOTED = lru_cache(maxsize=256)(json_text)
"""Texts as JSON: both orders and all steps of a task show some of the same."""


def presentation_sha256(presentation: Presentation) -> str:
    """Hash what a judge is shown, as JSON with sorted names."""
    parts = []
    for name in _SHOWN:
        shown = getattr(presentation, name)
        if name == "transcript" and shown:
            shown = [asdict(message) for message in shown]
        # The hashes of what has neither are those of versions that knew none.
        if shown is not None or name not in ("context", "rubrics"):
            parts.append(f'"{name}":{_QUOTED(shown) if isinstance(shown, str) else _JSON(shown)}')
    return hashlib.sha256(f"{{{','.join(parts)}}}".encode("utf-8", "surrogatepass")).hexdigest()


class Numbering:
    """Renders calls and names them for the journal, in the order of the plan.

    The n-th identical request of a run has the replicate number n, whether it comes from a replicate or from the
    other order of a pair of equal texts: each is a call of its own, and the journal never serves one for two.
    """

    def __init__(self, judge: ModelJudge) -> None:
        self._judge = judge
        self._counts: Counter[str] = Counter()
        self._latest: dict[str, tuple[Presentation, Request, str]] = {}

    def prepare(self, call: Call) -> tuple[Request, str]:
        """Return a call's request and its key."""
        latest = self._latest.get(call.order)
        if latest is None or latest[0] is not call.presentation:
            # Replicates of a presentation follow one another: it is rendered and hashed once.
            request = self._judge.request(call)
            latest = self._latest[call.order] = (call.presentation, request, request.key(0))
        _, request, first = latest
        # Not by the replicate: both orders of a pair of equal texts send the same request.
        number = self._counts[first]
        self._counts[first] += 1
        return request, request.key(number) if number else first


def looked_up(
    judge: ModelJudge, calls: Iterable[Call], journal: Journal | None, *, fresh_after: float | None = None
) -> Iterator[tuple[Request, str, bool]]:
    """Yield each call's request, its key, and whether the journal answers it; nothing is asked or served."""
    numbering, rest = Numbering(judge), iter(calls)
    while chunk := [numbering.prepare(call) for call in islice(rest, AHEAD)]:
        answers = {} if journal is None else journal.peek([key for _, key in chunk], newer_than=fresh_after)
        yield from ((request, key, key in answers) for request, key in chunk)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quote:
    """What an evaluation would send and cost."""

    calls: int
    journalled: int
    """Answered already: served from the journal, not paid again."""
    input_tokens: int
    """Of the calls still to be paid, at four bytes a token."""
    output_tokens: int
    """At 150 a call."""
    usd: float | None
    """Estimate; None when the price is unknown."""
    worst_usd: float | None
    """What a cap would have to cover at most."""

    @classmethod
    def total(cls, quotes: Sequence[Quote]) -> Quote:
        """Add several up; what is unknown of one is unknown of all."""

        def whole(amount: str) -> Any:
            amounts = [getattr(quote, amount) for quote in quotes]
            return None if None in amounts else sum(amounts)

        return cls(**{field.name: whole(field.name) for field in fields(cls)})


def quote(
    judge: ModelJudge,
    calls: Iterable[Call],
    journal: Journal | None,
    price: Price | None,
    *,
    fresh_after: float | None = None,
) -> Quote:
    """Say what the calls would send and cost, rendering every one of them but sending none."""
    n_calls = journalled = n_input = n_output = estimate = worst = 0
    for request, _, answered in looked_up(judge, calls, journal, fresh_after=fresh_after):
        n_calls += 1
        if answered:
            journalled += 1
            continue
        size = prompt_size(request)
        tokens, answer = size // BYTES_PER_TOKEN, min(TYPICAL_OUTPUT_TOKENS, request.max_tokens or 10**9)
        n_input, n_output = n_input + tokens, n_output + answer
        # Each call rounded up by itself, as the budget books it: a sum of tokens would promise less.
        if price is not None:
            estimate += cost_micro(price, tokens, answer)
            worst += worst_case_micro(price, size, request.max_tokens or answer)
    return Quote(
        calls=n_calls,
        journalled=journalled,
        input_tokens=n_input,
        output_tokens=n_output,
        usd=None if price is None else estimate / 1_000_000,
        worst_usd=None if price is None else worst / 1_000_000,
    )


def violation_third(item: Item) -> str:
    """Return the third of a transcript, in the characters that a judge is shown, with most of what breaks the rubric.

    The earlier one where two hold as much. Empty for other items, and where a person has edited the text since: the
    places of the edits are then not known.
    """
    if not item.transcript:
        return ""
    meta = item.meta
    edited, test = meta.get("edited"), AGENT_TESTS.get(str(meta.get("test")))
    reviewed = (meta.get("review") or {}).get("state") == "edited"
    if not (edited and test and test.breaks) or reviewed:
        return ""
    ends = list(accumulate((len(message_block(message, "")) for message in item.transcript), initial=0))
    spans = [(ends[place], ends[place + 1]) for place in edited if 0 <= place < len(item.transcript)]
    cuts = [ends[-1] * place / len(THIRDS) for place in range(len(THIRDS) + 1)]
    held = [sum(max(0.0, min(end, b) - max(start, a)) for start, end in spans) for a, b in pairwise(cuts)]
    return THIRDS[held.index(max(held))] if any(held) else ""


def identity(call: Call) -> dict[str, Any]:
    """Return the columns that say which call a record is of."""
    return call_columns(call.item, call.order, call.replicate)


def call_columns(item: Item, order: str, replicate: int) -> dict[str, Any]:
    """Return the same of an item that is not presented yet."""
    return {
        "suite_item": item.id,
        "task": item.task,
        "condition": item.condition,
        "delta": item.delta,
        "order": order,
        "better": item.better or "",
        "replicate": replicate,
        "expected": item.expected or "",
        "label_source": item.label_source,
        "rubric": item.rubric_id,
        "position": violation_third(item),
        "labels": "" if item.kind == "pair" else labels_cell(item.answers, item.ordinal),
    }
