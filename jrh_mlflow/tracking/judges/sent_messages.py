"""The messages that a judge sent for a call: made again from its definition, and proven by the call's hash."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, cast

from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.judges import ModelJudge
from jrh_mlflow.schema.items import Call, Item, Order
from jrh_mlflow.schema.requests import Request
from jrh_mlflow.tracking.judges.identity import judge_from

_SENDING = ("prompted", "raw", "http")
"""Kinds of judges whose request is made of their definition."""
_MOST_ALIKE = 64
"""Requests with the same bytes in one run that are told apart by their number."""


class SentMessages:
    """What the judge of a run sent."""

    def __init__(self, definition: Mapping[str, Any] | None) -> None:
        """Take the judge's definition; None, or one of a judge that sends no messages of ours, has none to show."""
        self._definition = definition

    @cached_property
    def _judge(self) -> ModelJudge | None:
        if self._definition is None or self._definition.get("kind") not in _SENDING:
            return None
        return cast(ModelJudge, judge_from(self._definition))

    def request(self, item: Item | None, order: str, *, replicate: int = 0) -> Request | None:
        """Return the request of an item; None of an item without texts, and of judges that send none of ours."""
        judge = self._judge
        if judge is None or item is None or item.instruction is None:
            return None
        shown = presentation_of(item, cast(Order, order), judge.tie_criterion)
        return judge.request(Call(item=item, order=cast(Order, order), replicate=replicate, presentation=shown))

    def of(self, item: Item | None, *, order: str, replicate: int, key: str | None) -> list[dict[str, Any]] | None:
        """Return the messages of a call; None where they cannot be proven to be those that were sent.

        Args:
            item: What was judged; None, or one without texts, has no messages.
            order: Of a pair.
            replicate: Of the call.
            key: `prompt_sha256` of the call: the hash of the whole request.
        """
        request = self.request(item, order, replicate=replicate)
        return messages_of(request) if request is not None and was_sent(request, {key}, replicate=replicate) else None


def messages_of(request: Request) -> list[dict[str, Any]]:
    """Return the messages of a request; of a service the one that is its body."""
    body = [{"role": "body", "content": request.extra["body"]}] if "body" in request.extra else []
    return [dict(message) for message in request.messages] or body


def was_sent(request: Request, keys: Collection[str | None], *, replicate: int = 0) -> bool:
    """Whether one of these is the hash of the request."""
    # The n-th request with the same bytes has a key of its own: a replicate, or both orders of equal texts.
    return any(request.key(number) in keys for number in range(_MOST_ALIKE + 2 * replicate))
