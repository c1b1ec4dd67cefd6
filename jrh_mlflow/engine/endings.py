"""What each ending of a call is booked at: one table, for live calls, batch results and docs/howto/budget.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jrh_mlflow.models.prices import Price, response_micro
from jrh_mlflow.models.transports import TransportError

Booked = Literal["usage", "worst case", "nothing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """One row of the table."""

    what: str
    booked: Booked
    reason: str


TOLD = Ending(
    what="any answer or error that tells a usage or its own cost",
    booked="usage",
    reason="that is the bill; the provider's own cost comes before tokens and prices",
)
SILENT = Ending(
    what="HTTP 200 without a usage: an answer, a refusal, nothing, an error in the body",
    booked="worst case",
    reason="it was made, and is billed",
)
BAD_REQUEST = Ending(
    what="HTTP 400, 413, 422 and other 4xx, content filters included",
    booked="worst case",
    reason="Azure bills some of them",
)
UNFINISHED = Ending(
    what="a timeout (ours, HTTP 408, 504, 522, 524), a cut connection, an unreadable body",
    booked="worst case",
    reason="the model may have worked, and is billed then",
)
TURNED_AWAY = Ending(
    what="HTTP 401, 402, 403, 404, 409, 425, 429, a redirect",
    booked="nothing",
    reason="turned away before the model",
)
SERVER = Ending(
    what="any other HTTP 5xx, a request of a batch that was never run",
    booked="nothing",
    reason="providers bill completions, and none was made",
)
UNREACHABLE = Ending(
    what="unreachable: connection refused, DNS, TLS, proxy, no connection in time",
    booked="nothing",
    reason="no byte of the request was sent",
)
NOT_SENT = Ending(
    what="refused here: too long, no key, a field that `extra` may not hold",
    booked="nothing",
    reason="nothing was sent",
)
ENDINGS = (TOLD, SILENT, BAD_REQUEST, UNFINISHED, TURNED_AWAY, SERVER, UNREACHABLE, NOT_SENT)

_OF_KIND = {
    "timeout": UNFINISHED,
    "connection": UNFINISHED,
    "malformed": UNFINISHED,
    "unreachable": UNREACHABLE,
    "rate_limited": TURNED_AWAY,
}


def ending_of(error: TransportError) -> Ending:
    """Return the row of a failed attempt.

    Example:
        >>> ending_of(TransportError("bad_request", "HTTP 400: no", 400)).booked
        'worst case'
    """
    if error.usage is not None:
        return TOLD
    if error.kind in _OF_KIND:
        return _OF_KIND[error.kind]
    if error.kind == "server":
        # With status 200 the model had begun.
        return SILENT if error.status == 200 else SERVER
    if error.status is None:
        return NOT_SENT
    is_away = error.kind in ("auth", "not_found") or 300 <= error.status < 400
    return TURNED_AWAY if is_away else SILENT if error.status == 200 else BAD_REQUEST


def failure_micro(error: TransportError, price: Price | None, worst_micro: int) -> tuple[int, bool]:
    """Return what a failed attempt is booked at, and whether that is its cost: a worst case is only a bound."""
    ending = ending_of(error)
    told = response_micro(price, error.usage) if error.usage is not None else None
    if ending.booked == "nothing":
        return 0, True
    if told is not None:
        return told, True
    return worst_micro, price is not None and not worst_micro
