"""Tests of judges of transcripts: an agent's work edited to break the rubric, or to meet it.

They are made of transcripts, the other tests of responses, so they are listed apart. A seed's `response` is then the
transcript as JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._agent_rules import Edited, assistant_places, breach, checked, mend
from jrh_mlflow.perturb._base import NotApplicable, Rewrite, Target, fill, prompt
from jrh_mlflow.schema.presentation import Message, saved_message
from jrh_mlflow.schema.seeds import Labels, Seed

_WORDS = """
yes y true t 1 on pass passed success correct right good valid accept accepted agree better high met satisfied
acceptable helpful faithful supported compliant safe ok
"""
_SAYS_NOTHING = frozenset(_WORDS.split())
"""Last labels that do not mean, or do not have to mean, that a rubric is violated."""


class AgentTest(Rewrite):
    """A transcript is edited step by step, and a verifier must give the expected answer before it is emitted."""

    confirm = True
    breaks: bool
    """True when the edits break the rubric, False when they meet it."""

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per transcript, with the label the edits aim at."""
        return self.aimed(seeds, labels, rubric, violation=violation_label(labels))

    def aimed(self, seeds: Sequence[Seed], labels: Labels, rubric: str, *, violation: str) -> list[Target]:
        """Return the targets where it is known which label says that the rubric is violated."""
        expected = violation if self.breaks else met_label(labels, violation)
        same: dict[str, Any] = {"test": self.name, "condition": self.name, "labels": labels, "rubric": rubric}
        return [Target(seed=seed, expected=expected, **same) for seed in seeds]

    def objective(self, target: Target) -> str:
        """Return what the generator is to achieve: the file `prompts/<name>.txt` filled in."""
        return fill(prompt(self.name), {"expected": target.expected or ""}).strip()

    def stand_in(self, target: Target, rng: random.Random) -> Edited:
        """Edit by rule.

        Raises:
            NotApplicable: when no rule can edit this transcript.
        """
        messages = read_messages(target.seed.response)
        assistant_places(messages)
        if self.breaks:
            return breach(messages, target.rubric, rng)
        mended = mend(messages, target.rubric)
        if mended is None and target.seed.label not in ("", target.expected):
            raise NotApplicable(
                f"the log says {target.seed.label!r}, and no rule can undo what was done; give a generator model"
            )
        return mended or checked(messages, target.rubric)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the transcript that `stand_in` makes, as JSON."""
        return messages_text(self.stand_in(target, rng).messages)


class AgentPerturbation(AgentTest):
    """The assistant breaks the rubric."""

    name = "agent_perturbation"
    title = "transcript: messages and tool calls edited so that the assistant breaks the rubric; violation"
    breaks = True


class AgentPositives(AgentTest):
    """The assistant meets the rubric."""

    name = "agent_positives"
    title = "transcript: messages and tool calls edited so that the assistant meets the rubric; no violation"
    breaks = False


AGENT_TESTS: dict[str, AgentTest] = {test.name: test for test in (AgentPerturbation(), AgentPositives())}
"""Tests made of transcripts."""


def violation_label(labels: Labels, given: str | None = None) -> str:
    """Return the label that says that the rubric is violated: of a scale the lowest level, of labels the last.

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
    if labels.ordinal:
        return answers[0]
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
    return tuple(_read_message(one) for one in json.loads(text))


def _read_message(data: dict[str, Any]) -> Message:
    lists: dict[str, Any] = {name: tuple(data[name]) for name in ("tool_calls", "parts") if name in data}
    return Message(**{**data, **lists})
