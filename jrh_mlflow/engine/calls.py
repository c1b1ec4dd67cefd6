"""The calls of an evaluation: item x presentation order x replicate."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import Call, Item, Order
from jrh_mlflow.schema.presentation import Presentation, context_texts
from jrh_mlflow.suites.suite import Suite


def plan_calls(suite: Suite, judge: Judge, *, replicates: int, shuffle: int | None = None) -> Iterator[Call]:
    """Yield every call in suite order, or in that of `item_order`, both orders of a pair one after the other."""
    for item in item_order(suite, shuffle):
        if not judge.covers(item):
            continue
        shown = {order: present(item, order, judge.tie_criterion) for order in item.orders}
        for replicate in range(replicates * item.replicates):
            for order, presentation in shown.items():
                yield Call(item=item, order=order, replicate=replicate, presentation=presentation)


def item_order(suite: Suite, shuffle: int | None) -> Sequence[Item]:
    """Return the items as they stand in the suite, or in the random order that the seed `shuffle` draws."""
    if shuffle is None:
        return suite.items
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


def present(item: Item, order: Order, criterion: Criterion) -> Presentation:
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


def presentation_sha256(presentation: Presentation) -> str:
    """Hash what a judge is shown."""
    shown = asdict(presentation)
    if presentation.context is None:
        # The hashes of what has no context are those of versions that knew none.
        del shown["context"]
    text = json.dumps(shown, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
