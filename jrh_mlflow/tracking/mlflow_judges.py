"""MLflow's own judges and scorers as judges of this package."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.judges._base import Judge
from jrh_mlflow.judges.answers import ABSTAIN, TIE, read_answer
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.schema.presentation import Answer, Presentation
from jrh_mlflow.tracking.mlflow_feedback import as_word, in_asked_words, read_feedback, total, without_secrets
from jrh_mlflow.tracking.mlflow_fields import Part, check, fields

_NOT_JSON = "Failed to parse response from judge model."
_DATA_KINDS = ("instructions", "builtin", "guidelines")
"""Kinds of scorers that are data throughout, so that a hash tells two of them apart."""
_SAMPLING = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "reasoning_effort")
_VOTING = (
    "Majority vote: the answer most members gave. A shared first place is a tie where a tie may be answered, otherwise "
    "abstain. A member that failed or answered outside the scale has no vote; half of the votes missing is an error.\n"
)


def is_mlflow_judge(judge: object) -> bool:
    """Whether `from_mlflow` takes this object: an MLflow scorer, or a list or tuple of scorers.

    Never imports MLflow: there is no scorer before MLflow's own module has been imported.
    """
    if "mlflow.genai.scorers.base" not in sys.modules:
        return False
    if isinstance(judge, list | tuple):
        return bool(judge) and all(map(is_mlflow_judge, judge))
    return any(
        base.__name__ == "Scorer" and base.__module__ == "mlflow.genai.scorers.base" for base in type(judge).__mro__
    )


def from_mlflow(
    judge: object,
    *,
    name: str | None = None,
    inputs: Part | None = None,
    outputs: Part | None = None,
    expectations: Part | None = None,
    trace: Part | None = None,
    answers: Mapping[Any, str] | None = None,
) -> Judge:
    """Wrap an MLflow judge: `make_judge(...)`, a built-in one, a `@scorer` function, an ensemble, or a list of them.

    What it is shown, unless `inputs`, `outputs`, `expectations` or `trace` says otherwise:

    - inputs: `{"instruction": ..., "rubric": ...}`, without the rubric where there is none. The tie criterion is part
      of the rubric: instructions without `{{ inputs }}` never see it.
    - outputs: a pair is `{"A": <first>, "B": <second>}`; a response is its text; a transcript is
      `{"transcript": [{"role": ..., "content": ...}, ...]}` with tool calls and the ids they are answered by.
    - expectations: nothing, for a judge is shown no expected answer.
    - trace: only for a judge that cannot do without: kept in memory, a root span with these inputs and outputs and,
      for a transcript, a TOOL span per tool call.

    How its feedback is read (case and outer spaces are forgiven, nothing else; `answers` is looked up first):

    - pair: `A`, `1`, `first`, `response A`, `response 1` is slot 1; `B`, `2`, `second`, `response B`, `response 2` is
      slot 2; `tie` is a tie. No bool is a slot.
    - labels and scales: the label or the number itself; `yes`, `pass`, `true` and True stand for the one label among
      these words, `no`, `fail`, `false` and False likewise.
    - `abstain` anywhere. Everything else is `unparsed`, and so is a reply that MLflow could not read. A feedback that
      carries an error, or an exception, is `error`.

    A list votes by majority: the answer most members gave; a shared first place is a tie where a tie may be answered,
    otherwise `abstain`. A member that failed or answered outside the scale has no vote, and with half of the votes
    missing the outcome is `error`. MLflow's own `majority_vote` breaks ties alphabetically: towards slot A.

    MLflow's client sends a request up to 11 times on 429, 500, 502, 503 and lost connections, waiting 181 s in all, and
    has no setting for it: `inference_params` go into the request body. What bounds a call is `judge.timeout` in
    seconds, 300 when unset: then the outcome is `error`, and the abandoned thread goes on until its attempts are used
    up. `MLFLOW_GATEWAY_ROUTE_TIMEOUT_SECONDS` bounds one attempt. `MLFLOW_MODEL_CATALOG_URI=""` keeps MLflow from
    looking for newer prices on the network.

    Args:
        judge: The judge, or a list or tuple of judges that vote.
        name: Name of the judge; MLflow's name when None, for a list the names joined by `+`.
        inputs: Makes the inputs from the presentation.
        outputs: Makes the outputs from the presentation.
        expectations: Makes the expectations from the presentation.
        trace: Makes the trace from the presentation.
        answers: Feedback value to answer, as in `{"left": "1", "right": "2", "same": "tie"}`.

    Raises:
        RecipeError: when it is no MLflow judge, or needs something that a judge is not shown.
    """
    if not is_mlflow_judge(judge):
        raise RecipeError(
            f"from_mlflow takes make_judge(...), a built-in judge, a @scorer function or a list of these, "
            f"but got {type(judge).__name__}."
        )
    scorers: tuple[Any, ...] = tuple(judge) if isinstance(judge, list | tuple) else (judge,)
    given = {"inputs": inputs, "outputs": outputs, "expectations": expectations, "trace": trace}
    parts = {field: part for field, part in given.items() if part is not None}
    for scorer in scorers:
        check(scorer, parts)
    return MlflowJudge(
        _Panel(scorers, parts, _words(answers or {})), name=name or "+".join(one.name for one in scorers)
    )


def _words(answers: Mapping[Any, str]) -> dict[str, str]:
    words: dict[str, str] = {}
    for value, answer in answers.items():
        word = as_word(value)
        if word is None:
            raise RecipeError(f"The keys of answers= are words, numbers or bools, but got {value!r}.")
        words[word] = answer
    return words


@dataclass(frozen=True)
class _Panel:
    """The function behind the judge: shows a presentation to each scorer and reads what it says."""

    scorers: tuple[Any, ...]
    parts: Mapping[str, Part]
    words: Mapping[str, str]

    def __call__(self, shown: Presentation) -> Answer:
        if len(self.scorers) == 1:
            return self._ask(self.scorers[0], shown)
        return _vote([self._ballot(scorer, shown) for scorer in self.scorers], shown.answers)

    def _ask(self, scorer: Any, shown: Presentation) -> Answer:
        try:
            returned = scorer.run(**fields(scorer, shown, self.parts))
            given = read_feedback(scorer, returned, shown, self.words)
        except Exception as error:
            text = str(error)
            safe = without_secrets(text, scorer)
            if text.startswith(_NOT_JSON):
                # The model did answer, only not in the form MLflow asked for: not a failed call.
                given = Answer(safe)
            elif safe != text:
                raise JudgeError(f"{type(error).__name__}: {safe}") from None
            else:
                raise
        return in_asked_words(scorer, given, shown, self.words)

    def _ballot(self, scorer: Any, shown: Presentation) -> _Ballot:
        try:
            given = self._ask(scorer, shown)
        except Exception as error:
            return _Ballot(scorer.name, vote=None, given=Answer(None), why=f"{type(error).__name__}: {error}")
        outcome, answer, reason = read_answer(given, shown.answers)
        vote = {"verdict": answer, "tie": TIE, "abstain": ABSTAIN}.get(outcome)
        return _Ballot(scorer.name, vote=vote, given=given, why=reason or given.rationale or "")


@dataclass(frozen=True)
class _Ballot:
    """What one member of a list said."""

    member: str
    vote: str | None
    """None is a missing vote."""
    given: Answer
    why: str


def _vote(ballots: Sequence[_Ballot], offered: tuple[str, ...]) -> Answer:
    minutes = "\n".join(f"{one.member}: {one.vote or 'no vote'}. {one.why}".strip() for one in ballots)
    counts = Counter(one.vote for one in ballots if one.vote is not None)
    if 2 * counts.total() <= len(ballots):
        raise JudgeError(f"Only {counts.total()} of {len(ballots)} members voted. {minutes}")
    most = max(counts.values())
    first = [vote for vote, count in counts.items() if count == most]
    undecided = TIE if TIE in offered else ABSTAIN
    return Answer(
        first[0] if len(first) == 1 else undecided,
        rationale=minutes,
        input_tokens=total(one.given.input_tokens for one in ballots),
        output_tokens=total(one.given.output_tokens for one in ballots),
        cost_usd=total(one.given.cost_usd for one in ballots),
    )


class MlflowJudge(CallableJudge):
    """A scorer, or a list that votes. Runs in the engine's threads, because MLflow's judges are sync."""

    kind = "mlflow"

    def __init__(self, panel: _Panel, *, name: str) -> None:
        super().__init__(panel)
        self.panel = panel
        self.name = name

    def settings(self) -> dict[str, object]:
        """Name, models, kinds, feedback types, sampling and the hash of the instructions."""
        scorers = self.panel.scorers
        members = list(_members(scorers))
        sampling = [getattr(one, "inference_params", None) or {} for one in members]
        return {
            **super().settings(),
            "name": self.name,
            "model": _joined(_model(one) for one in members) or self.name,
            "scorer": _joined(one.kind.value for one in scorers),
            "feedback_type": _joined(_type_name(getattr(one, "feedback_value_type", None)) for one in members) or None,
            "instructions_sha256": hashlib.sha256(_instructions(scorers).encode()).hexdigest(),
            **{key: _joined(params.get(key) for params in sampling) or None for key in _SAMPLING},
        }

    def prompt(self) -> str:
        """The instructions as MLflow was given them; it adds words of its own around them."""
        voting = _VOTING if len(self.panel.scorers) > 1 else ""
        return f"{_instructions(self.panel.scorers)}{voting}It is told as the rubric:\n{Judge.prompt(self)}"

    def fingerprint(self) -> str | None:
        """Hash a judge that is data throughout; None when a function takes part in it."""
        scorers = self.panel.scorers
        if self.panel.parts or any(one.kind.value not in _DATA_KINDS for one in scorers):
            return None
        routes = [(getattr(one, "_base_url", None), getattr(one, "_extra_headers", None)) for one in scorers]
        known = [one.model_dump() for one in scorers]
        whole = (self.name, known, routes, sorted(self.panel.words.items()), self.tie_criterion)
        return hashlib.sha256(repr(whole).encode()).hexdigest()


def _members(scorers: Iterable[Any]) -> Iterator[Any]:
    """Yield the scorers that do the work, looking inside MLflow's ensembles."""
    for scorer in scorers:
        inside = getattr(scorer, "_scorers", ())
        yield from _members(inside) if inside else (scorer,)


def _model(scorer: Any) -> str | None:
    """Return the model a scorer asks, MLflow's default where it names none; None for code."""
    if not hasattr(scorer, "model"):
        return None
    from mlflow.genai.judges.utils import get_default_model

    return str(scorer.model or get_default_model())


def _instructions(scorers: Iterable[Any]) -> str:
    return "".join(f"# {one.name}\n{_instruction(one)}\n\n" for one in _members(scorers))


def _instruction(scorer: Any) -> str:
    text = getattr(scorer, "instructions", None) or "Code: what it goes by is its own."
    guidelines = getattr(scorer, "guidelines", None)
    if not guidelines:
        return str(text)
    lines = [guidelines] if isinstance(guidelines, str) else guidelines
    return "\n".join([str(text), "Guidelines:", *map(str, lines)])


def _type_name(kind: Any) -> str | None:
    if kind is None:
        return None
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _joined(values: Iterable[object]) -> str:
    """Spell what differs, each once, in order; an empty string when nothing is known."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None))
