"""The first answers of a run: when none of them can be read, the rest would be paid for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.judges import ModelJudge
from jrh_mlflow.judges.parsing import PROBLEMS
from jrh_mlflow.models.transports import safe_text
from jrh_mlflow.schema.items import USABLE, CallRecord

Ask: TypeAlias = Callable[[Any], "CallRecord | Awaitable[CallRecord]"]
ENOUGH = 20
"""So many answers, and not one that can be read, are no accident. A suite with fewer calls is asked to its end."""
_LONGEST_EXAMPLE = 160
_CUT_OFF = (
    "`max_tokens` ({max_tokens}) is too small, as for a model that reasons: raise it (--max-tokens), or set "
    "`reasoning_effort` (--reasoning-effort low)."
)
_REFUSED = (
    "The model or its provider refuses what it is shown: look at the prompt and the suite, or take another model."
)
_EMPTY = "The provider sends no text: look at the model and at `extra`; one that reasons may need more `max_tokens`."
_ADVICE = {
    "truncated": _CUT_OFF,
    "refusal": _REFUSED,
    "content_filter": _REFUSED,
    "empty_choices": _EMPTY,
    "empty_content": _EMPTY,
}
_UNREAD = (
    "The answers lack the form that was asked for: look at the prompt's format, or ask for a schema (--structured)."
)


class FirstAnswers:
    """Counts a run's first answers by what is wrong with them, until one can be read.

    Calls that failed on their way are not answers: the circuit counts those.
    """

    def __init__(self, judge: ModelJudge) -> None:
        self._judge = judge
        self._problems: Counter[str] | None = Counter()
        """None once an answer was read: from then on nothing is counted."""

    def watching(self, ask: Ask) -> Ask:
        """Return the same way of asking, which raises once the run is hopeless."""

        async def later(waiting: Awaitable[CallRecord]) -> CallRecord:
            return self.checked(await waiting)

        def asked(work: Any) -> CallRecord | Awaitable[CallRecord]:
            answer = ask(work)
            return self.checked(answer) if isinstance(answer, CallRecord) else later(answer)

        return asked

    def checked(self, record: CallRecord) -> CallRecord:
        """Return a record as it is.

        Raises:
            JudgeError: It is the twentieth answer, and none could be read.
        """
        if self._problems is None:
            return record
        problem = (record.error or "").partition(":")[0]
        if record.outcome in USABLE:
            self._problems = None
        elif problem in PROBLEMS:
            self._problems[problem] += 1
            if self._problems.total() >= ENOUGH:
                raise JudgeError(self._explanation(record))
        return record

    def _explanation(self, record: CallRecord) -> str:
        assert self._problems is not None
        (commonest, _), *_ = counts = self._problems.most_common()
        found = ", ".join(f"{count} {problem}" for problem, count in counts)
        advice = _ADVICE.get(commonest, _UNREAD).format(max_tokens=self._judge.max_tokens or "the provider's own")
        return (
            f"None of the first {self._problems.total()} answers of {self._judge.name} can be read ({found}), "
            f"e.g. {safe_text(record.error or '')[:_LONGEST_EXAMPLE]!r}. {advice} What was answered is in the journal."
        )
