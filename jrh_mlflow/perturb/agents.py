"""Tests of judges of transcripts: an agent's work edited to break the rubric, or to meet it.

They are made of transcripts, the other tests of responses, so they are listed apart. A seed's
`response` is then the transcript as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import NotApplicable, Rewrite, Target, fill_prompt, parameter, prompt
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.schema.label_words import says_bad
from jrh_mlflow.schema.presentation import Message, read_message, saved_message
from jrh_mlflow.scoring.expectations import ExpectedLabel

_WORDS = """
yes y true t 1 on pass passed success correct right good valid accept accepted agree better high met satisfied
acceptable helpful faithful supported compliant safe ok
"""
ALL_LEVELS = "all"
_SAYS_NOTHING = frozenset(_WORDS.split())
"""Last labels that do not mean, or do not have to mean, that a rubric is violated."""


@dataclass(frozen=True)
class AgentTest(Rewrite):
    """A transcript is edited step by step, and a verifier must give the expected answer before it is emitted."""

    levels: str | int | float | tuple[str | int | float, ...] | None = parameter(
        None, "Of a scale: the levels to aim at, one item for each: all, or some of them. None is one end of it."
    )

    group = "agent"
    needs = frozenset({"generator", "validator", "transcripts"})
    breaks: ClassVar[bool]
    """True when the edits break the rubric, False when they meet it."""

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per transcript and level, with the label the edits aim at."""
        return self.aimed(seeds, labels, rubric, violation=violation_label(labels))

    def aimed(self, seeds: Sequence[Seed], labels: Labels, rubric: str, *, violation: str) -> list[Target]:
        """Return the targets where it is known which label says that the rubric is violated.

        The end that the test aims at by itself is number 0, every other level its place on the scale, from 1.

        Raises:
            RecipeError: for levels of labels that are no scale, or that are none of the scale's.
        """
        end = violation if self.breaks else met_label(labels, violation)
        levels = [end] if self.levels is None else chosen_levels(self.levels, labels, of=self.name)
        # Number 0 for the usual aim: its id is the same whether or not other levels are made beside it.
        numbers = {level: 0 if level == end else place for place, level in enumerate(labels.answers, 1)}
        # The edits aim at the answer, whatever the label of the log is and wherever it comes from.
        return [
            self.target(seed, labels, rubric, expected=level, number=numbers[level], label_source="")
            for seed in seeds
            for level in levels
        ]

    def objective(self, target: Target) -> str:
        """Return what the generator is to achieve: the file `prompts/<name>.txt` filled in, or that of a level."""
        fields = {"expected": target.labels.named(target.expected or ""), "levels": ", ".join(target.labels.answers)}
        return fill_prompt(prompt("agent_level") if target.number else self.template(), fields).strip()


@dataclass(frozen=True)
class AgentPerturbation(AgentTest):
    """The assistant breaks the rubric."""

    name = "agent_perturbation"
    title = "transcript: messages and tool calls edited so that the assistant breaks the rubric"
    expects = ExpectedLabel("violation")
    breaks = True


@dataclass(frozen=True)
class AgentPositives(AgentTest):
    """The assistant meets the rubric."""

    name = "agent_positives"
    title = "transcript: messages and tool calls edited so that the assistant meets the rubric"
    expects = ExpectedLabel("no violation")
    breaks = False


AGENT_TESTS: dict[str, AgentTest] = {test.name: test for test in (AgentPerturbation(), AgentPositives())}
"""Tests made of transcripts."""


def chosen_levels(given: object, labels: Labels, *, of: str) -> list[str]:
    """Return the levels that are meant by `all`, `3`, `"1,3"` or `[1, 3]`, in the order of the scale.

    Raises:
        RecipeError: when the labels are no scale, or a level is none of them.

    Example:
        >>> chosen_levels("3, 1", Labels(answers=("1", "2", "3"), ordinal=True), of="agent_perturbation")
        ['1', '3']
    """
    known = ", ".join(labels.answers)
    if not labels.ordinal:
        raise RecipeError(f"Test {of!r}: `levels` are those of a scale, and the labels are {known}. Give `scale`.")
    if given == ALL_LEVELS:
        return list(labels.answers)
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, tuple | list) else (given,)
    texts = [f"{level:g}" if isinstance(level, float) else str(level).strip() for level in listed]
    for level in texts or [""]:
        if level not in labels.answers:
            close = suggest(level, labels.answers)
            raise RecipeError(f"Test {of!r}: {level!r} is no level of the scale {known}.{close} Give some, or all.")
    return [level for level in labels.answers if level in texts]


def violation_label(labels: Labels, given: str | None = None) -> str:
    """Return the label that says that the rubric is violated: of a scale the lowest level, of labels the last.

    Where one meaning alone says so, and of a scale that of an end, it is that label.

    Raises:
        RecipeError: when `given` is none of them, or the last label is one such as `pass` or `yes`.

    Example:
        >>> violation_label(Labels(answers=("no violation", "violation")))
        'violation'
    """
    answers = labels.answers
    if given is not None:
        matching = [answer for answer in answers if answer.casefold() == given.strip().casefold()]
        if not matching:
            listed = ", ".join(answers)
            raise RecipeError(f"`violation` is {given!r}, which is none of {listed}.{suggest(given, answers)}")
        if labels.ordinal and matching[0] not in (answers[0], answers[-1]):
            raise RecipeError(f"`violation` must be an end of the scale, {answers[0]} or {answers[-1]}, not {given}.")
        return matching[0]
    ends = (answers[0], answers[-1]) if labels.ordinal else answers
    bad = [label for label in ends if says_bad(labels.meanings.get(label, ""))]
    # Two meanings that say so decide nothing: the usual end is taken then.
    if len(bad) == 1:
        return bad[0]
    if labels.ordinal:
        return answers[0]
    # Taken the wrong way round, every edited transcript would have the wrong label.
    if answers[-1].casefold() in _SAYS_NOTHING:
        raise RecipeError(
            f"Which of the labels {', '.join(answers)} says that the rubric is violated? "
            f"Give violation={answers[0]!r} or another of them (--violation)."
        )
    return answers[-1]


def met_label(labels: Labels, violation: str) -> str:
    """Return the label that is furthest from a violation."""
    return labels.answers[0] if labels.answers[0] != violation else labels.answers[-1]


def messages_text(messages: Sequence[Message]) -> str:
    """Write messages as canonical JSON."""
    saved = [saved_message(message) for message in messages]
    return json.dumps(saved, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def read_messages(text: str) -> tuple[Message, ...]:
    """Read what `messages_text` wrote."""
    return tuple(read_message(message) for message in json.loads(text))


RESULTS = ("tool", "function")


@dataclass(frozen=True, kw_only=True, slots=True)
class Edited:
    """A transcript after some edits, with what a reviewer wants to know about them."""

    messages: tuple[Message, ...]
    places: tuple[int, ...]
    """Of the messages that were edited or added."""
    steps: tuple[Mapping[str, Any], ...]
    """Each with `message`, `change` and `why`."""
    summaries: tuple[str, ...]
    """The running summary after each step."""


def assistant_places(messages: Sequence[Message]) -> list[int]:
    """List the messages an edit can begin with.

    Raises:
        NotApplicable: when there is none.
    """
    places = [place for place, message in enumerate(messages) if message.role == "assistant"]
    if not places:
        raise NotApplicable(f"none of the {len(messages)} messages is the assistant's: there is nothing to edit")
    return places
