"""The first answers of a run: when none of them can be read, the rest would be paid for nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.judges import APART, Judge, ModelJudge
from jrh_mlflow.judges.parsing import PROBLEMS, read_grade
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

_NOT_ONE_OF = re.compile(r"(?:np\.\w+\()?['\"]?(.*?)['\"]?\)? is not one of ")
"""What `read_answer` says of a value that is no answer."""


class FirstAnswers:
    """Counts a run's first answers by what is wrong with them, until one can be read.

    Calls that failed on their way are not answers: the circuit counts those.
    """

    def __init__(self, judge: ModelJudge) -> None:
        self._judge = judge
        self._problems: dict[str, str] | None = {}
        """By the key of the call; None once an answer was read: from then on nothing is counted."""
        self._reason: str | None = None

    def watching(self, ask: Ask) -> Ask:
        """Return the same way of asking, which raises once the run is hopeless."""

        async def later(waiting: Awaitable[CallRecord]) -> CallRecord:
            return self._checked(await waiting)

        def asked(work: Any) -> CallRecord | Awaitable[CallRecord]:
            answer = ask(work)
            return self._checked(answer) if isinstance(answer, CallRecord) else later(answer)

        return asked

    def _checked(self, record: CallRecord) -> CallRecord:
        self.note(str(record.prompt_sha256), record.outcome, record.error)
        if self._reason is not None:
            raise JudgeError(self._reason)
        return record

    def note(self, key: str, outcome: str, error: str | None) -> bool:
        """Count how a call ended, each call once; return whether nothing more should be sent."""
        if self._problems is None or self._reason is not None:
            return self._reason is not None
        problem = (error or "").partition(":")[0]
        if outcome in USABLE:
            self._problems = None
        elif problem in PROBLEMS:
            self._problems[key] = problem
            if len(self._problems) >= ENOUGH:
                self._reason = self._explanation(Counter(self._problems.values()).most_common(), str(error))
        return self._reason is not None

    def _explanation(self, counts: list[tuple[str, int]], example: str) -> str:
        found = ", ".join(f"{count} {problem}" for problem, count in counts)
        limit = self._judge.max_tokens or "the provider's own"
        advice = _ADVICE.get(counts[0][0], _UNREAD).format(max_tokens=limit)
        return (
            f"None of the first {ENOUGH} answers of {self._judge.name} can be read ({found}), "
            f"e.g. {safe_text(example)[:_LONGEST_EXAMPLE]!r}. {advice} What was answered is in the journal."
        )


class FirstGrades:
    """Counts the first answers to pairs while each of them grades one response: yes, no, a score.

    A 1 may be the first slot, and is a choice like every answer that can be read.
    """

    def __init__(self, judge: Judge, on_record: Callable[[CallRecord], None] | None) -> None:
        self._judge, self._on_record = judge, on_record
        self._grades: Counter[str] | None = Counter()
        """Of what could not be read; None once something else was answered."""

    def __call__(self, record: CallRecord) -> None:
        """Pass a record on, and count it.

        Raises:
            JudgeError: when none of the first answers can be one to a pair.
        """
        if self._on_record is not None:
            self._on_record(record)
        if self._grades is None or record.outcome == "error" or not record.order:
            return
        grade = _grade(record)
        if grade is None:
            self._grades = None
            return
        self._grades[grade] += 1
        if self._grades.total() >= ENOUGH:
            found = ", ".join(f"{count} x {grade}" for grade, count in self._grades.most_common(3))
            raise JudgeError(
                f"The first {self._grades.total()} answers of {self._judge.name} grade one response ({found}), but "
                f"were asked to choose between two. {APART}"
            )


def _grade(record: CallRecord) -> str | None:
    """Return the grade in what is said of an answer that could not be read."""
    said = _NOT_ONE_OF.match(record.error or "") if record.outcome == "unparsed" else None
    return read_grade(said[1]) if said else None
