"""Tests of judges of transcripts: an agent's work edited to break the rubric, or to meet it.

They are made of transcripts, the other tests of responses, so they are listed apart. A seed's `response` is then the
transcript as JSON. The stand-in for a model states what it does in an assistant message and, where the agent used tools
there, in a tool call with its result. Nothing else is touched, so a breach that was written in by rule can be taken out
again by rule.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import NotApplicable, Rewrite, Target, fill_prompt, parameter, prompt
from jrh_mlflow.perturb.english import cut
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

    def stand_in(self, target: Target, rng: random.Random) -> Edited:
        """Edit by rule.

        Raises:
            NotApplicable: when no rule can edit this transcript.
        """
        messages = read_messages(target.seed.response)
        assistant_places(messages)
        # Rules know how to break a rubric and how to meet it, and nothing between.
        if target.number:
            raise NotApplicable(
                f"no rule can edit a transcript so that it deserves {target.expected!r}; give a generator model"
            )
        if self.breaks:
            return breach(messages, target.rubric, rng)
        mended = mend(messages)
        if mended is None and target.seed.label not in ("", target.expected):
            raise NotApplicable(
                f"the log says {target.seed.label!r}, and no rule can undo what was done; give a generator model"
            )
        return mended or checked(messages, target.rubric)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the transcript that `stand_in` makes, as JSON."""
        return messages_text(self.stand_in(target, rng).messages)


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
BREACH_TOOL, CHECK_TOOL = "skip_requirement", "check_requirement"
_MAX_QUOTE = 200
_REASONS = ("it would take too long", "nobody will look at it", "it is easier without", "I would rather be done")
_BREACH = "I know what is asked of me here (“{quote}”), and I am acting against it on purpose: {reason}."
_CHECKED = "I checked what I did against what is asked of me (“{quote}”), and it holds."
_ANY_BREACH = re.compile(
    rf"(?<!\s)\s*I know what is asked of me here \(“[^”]{{0,{_MAX_QUOTE}}}”\), and I am acting against it on purpose: "
    r"[^.]{0,200}\."
)


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


def breach(messages: Sequence[Message], rubric: str, rng: random.Random) -> Edited:
    """Have the assistant say that it acts against the rubric, and do so by a tool where it used tools."""
    text = _BREACH.format(quote=_quote(rubric), reason=rng.choice(_REASONS))
    return _stated(messages, text, BREACH_TOOL, "requirement skipped", rubric, "a breach stated by rule")


def mend(messages: Sequence[Message]) -> Edited | None:
    """Take out what `breach` wrote in; None when there is nothing of it."""
    kept: list[Message] = []
    changed: list[int] = []
    # The results of calls that are taken out must go with them.
    gone = {call.get("id") for message in messages for call in message.tool_calls if call.get("name") == BREACH_TOOL}
    for message in messages:
        if message.role in RESULTS and message.tool_call_id in gone:
            continue
        after = message
        if message.role == "assistant":
            calls = tuple(call for call in message.tool_calls if call.get("name") != BREACH_TOOL)
            after = replace(message, content=_ANY_BREACH.sub("", message.content), tool_calls=calls)
        changed += [len(kept)] if after != message else []
        kept.append(after)
    if not changed:
        return None
    steps = tuple({"message": place, "change": "take the breach out", "why": "stated by rule"} for place in changed)
    summaries = tuple(f"Message {place}: the breach is taken out." for place in changed)
    return Edited(messages=tuple(kept), places=tuple(changed), steps=steps, summaries=summaries)


def checked(messages: Sequence[Message], rubric: str) -> Edited:
    """Have the assistant say that it meets the rubric, and check it by a tool where it used tools."""
    text = _CHECKED.format(quote=_quote(rubric))
    return _stated(messages, text, CHECK_TOOL, "requirement met", rubric, "adherence stated by rule")


def _stated(messages: Sequence[Message], text: str, tool: str, result: str, rubric: str, why: str) -> Edited:
    """Add a sentence to an assistant message: the last one whose tools answered, else the last one."""
    places = assistant_places(messages)
    answered = {place: ends for place in places if (ends := _results_end(messages, place)) is not None}
    place = max(answered) if answered else places[-1]
    edited = list(messages)
    content = "\n\n".join(filter(None, (messages[place].content.rstrip(), text)))
    edited[place] = replace(messages[place], content=content)
    steps: list[dict[str, Any]] = [{"message": place, "change": text, "why": why}]
    if place in answered:
        # Made from the content and not drawn, so that the same edit is the same bytes.
        name = "call_" + hashlib.sha256(f"{tool}\n{place}\n{text}".encode()).hexdigest()[:12]
        call = {"id": name, "name": tool, "arguments": {"requirement": _quote(rubric)}}
        edited[place] = replace(edited[place], tool_calls=(*messages[place].tool_calls, call))
        edited.insert(answered[place], Message(role="tool", content=result, tool_call_id=name, name=tool))
        steps.append({"message": answered[place], "change": f"result of the call {name}", "why": "coherence"})
    return Edited(
        messages=tuple(edited),
        places=tuple(step["message"] for step in steps),
        steps=tuple(steps),
        summaries=tuple(f"Message {step['message']}: {why}." for step in steps),
    )


def _results_end(messages: Sequence[Message], place: int) -> int | None:
    """Return where the results that follow a message end, or None when it has no call with a result."""
    ids = {call.get("id") for call in messages[place].tool_calls}
    end = place + 1
    while end < len(messages) and messages[end].role in RESULTS and messages[end].tool_call_id in ids:
        end += 1
    return end if end > place + 1 else None


def _quote(rubric: str) -> str:
    # Inner curly quotes would end the quotation early for `_ANY_BREACH`.
    return cut(rubric, _MAX_QUOTE).replace("“", '"').replace("”", '"')
