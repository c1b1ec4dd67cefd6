"""The circuit breaker: a run that cannot succeed stops, instead of burning time and money."""

from __future__ import annotations

from collections import deque

from jrh_mlflow.engine.lanes._base import LaneError
from jrh_mlflow.errors import JudgeError

AT_ONCE = frozenset({"auth", "not_found"})
"""Before the first answer these say that the configuration is wrong; every further call would end the same way."""
OF_THE_ITEM = frozenset({"too_long"})
"""These are about one item and say nothing about the service."""

LONGEST_EXAMPLE = 200
LATER = "Start again later: calls that were answered are kept and not paid again."
ADVICE = {
    "auth": "Check the API key of this provider, and whether it may use this model.",
    "not_found": "Check the model name and `api_base`.",
    "bad_request": "The provider refuses the request itself: check the model's settings and what is in `extra`.",
    "rate_limited": f"Lower `concurrency`, or wait for new quota. {LATER}",
    "malformed": "Check that `api_base` points to an endpoint that speaks this provider's dialect.",
}


class Circuit:
    """Counts how calls ended and trips when the run is hopeless; once tripped it stays so.

    It trips

    - at once on a wrong key or an unknown model, when no call was answered yet;
    - after `consecutive` failures in a row; once an answer was seen, after at least two rounds of the calls in flight,
      because one short outage fails all of them together;
    - when `share` of the last `window` calls failed.

    A failure is a call that failed for good, after its retries. An answer that cannot be parsed is an answer:
    it counts as success here.

    Args:
        concurrency: Most calls in flight.
        consecutive: Failures in a row.
        window: Calls over which the share is taken; fewer never trip on the share.
        share: Share of failed calls.
    """

    def __init__(self, *, concurrency: int = 1, consecutive: int = 20, window: int = 200, share: float = 0.5) -> None:
        if min(concurrency, consecutive, window) < 1 or not 0 < share <= 1:
            rule = "`concurrency, consecutive, window >= 1` and `0 < share <= 1` must hold"
            raise ValueError(f"{rule}, but got {concurrency=}, {consecutive=}, {window=}, {share=}.")
        self._consecutive = consecutive
        self._consecutive_later = max(consecutive, 2 * concurrency)
        self._share = share
        self._last: deque[bool] = deque(maxlen=window)
        self._failed_of_last = 0
        self._in_a_row = 0
        self._answered = False
        self._reason: str | None = None

    @property
    def tripped(self) -> bool:
        """Whether the run is over."""
        return self._reason is not None

    def check(self) -> None:
        """Raise when the circuit has tripped; to be called before every call.

        Raises:
            JudgeError: In one line what failed, how often, an example and what to do.
        """
        if self._reason is not None:
            raise JudgeError(self._reason)

    def on_success(self) -> None:
        """Count a call that was answered, whatever the answer."""
        self._answered = True
        self._in_a_row = 0
        self._remember(failed=False)

    def on_failure(self, error: LaneError) -> None:
        """Count a call that failed for good."""
        if error.kind in OF_THE_ITEM:
            return
        self._in_a_row += 1
        self._remember(failed=True)
        if self._reason is None:
            how_often = self._how_often(error)
            self._reason = how_often and _explain(error, how_often)

    def _how_often(self, error: LaneError) -> str | None:
        """Say what makes the run hopeless, or None while it is not."""
        if error.kind in AT_ONCE and not self._answered:
            return "before any call was answered"
        if self._in_a_row >= (self._consecutive_later if self._answered else self._consecutive):
            return f"{self._in_a_row} times in a row"
        window = self._last.maxlen
        if len(self._last) == window and self._failed_of_last >= self._share * window:
            return f"in {self._failed_of_last} of the last {window} calls"
        return None

    def _remember(self, *, failed: bool) -> None:
        if len(self._last) == self._last.maxlen:
            self._failed_of_last -= self._last[0]
        self._last.append(failed)
        self._failed_of_last += failed


def _explain(error: LaneError, how_often: str) -> str:
    status = f" (HTTP {error.status})" if error.status is not None else ""
    advice = ADVICE.get(error.kind, f"The service is down or cannot be reached. {LATER}")
    # The error's text is one printable line without keys already: `LaneError` sees to it.
    example = str(error)
    if len(example) > LONGEST_EXAMPLE:
        example = f"{example[: LONGEST_EXAMPLE - 1]}…"
    return f"The judge's service failed {how_often}{status}, e.g. {example!r}. {advice}"
