"""The law of paid attempts: an attempt is sent, answered, usable. How each ending is booked, and whether it is retried.

One table for live calls of every transport, batch results, scorers and generators; docs/howto/budget.md shows it.
What is *usable* is decided by `models.transports.dialect.read_completion`, which reads every answer; what the parser
then makes of the text is an outcome of the judge and never retried.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from jrh_mlflow.models.prices import Price, believed, response_micro
from jrh_mlflow.models.transports import TransportError

Stage = Literal["usable", "answered", "sent", "not sent"]
Booked = Literal["usage", "usage, else worst case", "worst case", "nothing"]
Again = Literal["never", "once", "a few times", "waited for"]


class Ending(NamedTuple):
    """One row of the table."""

    what: str
    stage: Stage
    """How far the attempt came."""
    booked: Booked
    again: Again
    """Whether the same call is tried again."""
    reason: str


USABLE = Ending(
    "a completion whose message can be read: text (also in parts), a refusal, a tool call, cut off, filtered, empty",
    "usable",
    "usage, else worst case",
    "never",
    "what the parser makes of it is the judge's outcome",
)
UNUSABLE = Ending(
    "HTTP 200 that is no such completion: no JSON, no message, an error in the body, a body too large",
    "answered",
    "usage, else worst case",
    "once",
    "it was made, and is billed; it counts among the first 20 answers",
)
BAD_REQUEST = Ending(
    "HTTP 400, 413, 422 and other 4xx, content filters included",
    "answered",
    "usage, else worst case",
    "never",
    "Azure bills some of them",
)
UNFINISHED = Ending(
    "a timeout (ours, HTTP 408, 504, 522, 524), a cut connection",
    "sent",
    "usage, else worst case",
    "a few times",
    "the model may have worked, and is billed then; what the next attempt tells of the prompt bounds it",
)
LIMITED = Ending("HTTP 429", "answered", "nothing", "waited for", "turned away before the model")
TURNED_AWAY = Ending(
    "HTTP 401, 402, 403, 404, a redirect", "answered", "nothing", "never", "turned away before the model"
)
SERVER = Ending(
    "any other HTTP 5xx, HTTP 409 and 425, a request of a batch that was never run",
    "answered",
    "nothing",
    "waited for",
    "providers bill completions, and none was made",
)
UNREACHABLE = Ending(
    "unreachable: connection refused, DNS, TLS, proxy, no connection in time",
    "not sent",
    "nothing",
    "waited for",
    "no byte of the request was sent",
)
NOT_SENT = Ending(
    "refused here: too long, no key, a field that `extra` may not hold",
    "not sent",
    "nothing",
    "never",
    "nothing was sent",
)
ENDINGS = (USABLE, UNUSABLE, BAD_REQUEST, UNFINISHED, LIMITED, TURNED_AWAY, SERVER, UNREACHABLE, NOT_SENT)

_OF_KIND = {
    "timeout": UNFINISHED,
    "connection": UNFINISHED,
    "malformed": UNUSABLE,
    "unreachable": UNREACHABLE,
    "rate_limited": LIMITED,
    "server": SERVER,
}


def ending_of(error: TransportError) -> Ending:
    """Return the row of a failed attempt.

    Example:
        >>> ending_of(TransportError("bad_request", "HTTP 400: no", 400)).stage
        'answered'
    """
    if error.kind in _OF_KIND:
        return _OF_KIND[error.kind]
    if error.status is None:
        return NOT_SENT
    is_away = error.kind in ("auth", "not_found") or 300 <= error.status < 400
    return TURNED_AWAY if is_away else BAD_REQUEST


def failure_micro(error: TransportError, price: Price | None, worst_micro: int) -> tuple[int, bool]:
    """Return what a failed attempt is booked at, and whether that is its cost: a worst case is only a bound."""
    cost = None if error.usage is None else response_micro(price, believed(price, error.usage))
    if cost is not None:
        return cost, True
    # Known, not only cheap: a call that was never made cost exactly nothing.
    if ending_of(error).booked == "nothing":
        return 0, True
    return worst_micro, price is not None and not worst_micro
