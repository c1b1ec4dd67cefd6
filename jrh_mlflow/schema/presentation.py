"""What a judge is shown, what it is told about equally good responses (the tie criterion), and what it answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest

PAIR_ANSWERS = ("1", "2", "tie")
FORCED_ANSWERS = ("1", "2")
LABEL_WORDS = (("yes", "pass", "true"), ("no", "fail", "false"))
"""Words that stand for one another where a judge of one response says yes or no."""

_NOT_TEXT = ("image", "audio", "video", "document", "file", "data")
"""Words in the types of parts that no text can show: `input_image`, `image_url`, …"""
_ALWAYS_SAVED = ("role", "content", "tool_calls", "tool_call_id")
"""Fields that suites have held from the start: leaving them out when empty would change their hashes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One message of a transcript."""

    role: str
    content: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    """Each with `id`, `name` and its full `arguments`."""
    tool_call_id: str | None = None
    """For a tool result: the call it answers."""
    id: str | None = None
    """As the log names it; never shown to a judge."""
    name: str | None = None
    """For a tool result: the tool; otherwise who speaks."""
    reasoning: str | None = None
    """What the model thought before it wrote `content`, where it can be read."""
    error: str | None = None
    """For a tool result: why the call failed."""
    parts: tuple[Mapping[str, Any], ...] = ()
    """What else the message holds, each with its `type`: images, audio, documents, redacted reasoning, …"""


def context_texts(context: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the texts of a context; blank ones are none.

    Example:
        >>> context_texts("We open at nine."), context_texts(["", "By rail."]), context_texts(None)
        (('We open at nine.',), ('By rail.',), ())
    """
    texts = (context,) if isinstance(context, str) else context or ()
    return tuple(text for text in texts if text.strip())


def saved_message(message: Message) -> dict[str, Any]:
    """Return a message as plain JSON; most fields are left out where they are empty.

    Example:
        >>> saved_message(Message(role="user", content="Hi"))
        {'role': 'user', 'content': 'Hi', 'tool_calls': (), 'tool_call_id': None}
    """
    values = {field.name: getattr(message, field.name) for field in fields(Message)}
    return {name: value for name, value in values.items() if name in _ALWAYS_SAVED or value not in (None, ())}


def read_message(data: Mapping[str, Any]) -> Message:
    """Read what `saved_message` returned."""
    # JSON gives lists back, and a message that was read must equal the one that was written.
    lists = {name: tuple(data[name]) for name in ("tool_calls", "parts") if name in data}
    return Message(**{**data, **lists})


def message_text(message: Message) -> str:
    """Return a message in one line for people: its text, then its tool calls.

    Example:
        >>> message_text(Message(role="assistant", content="Wait.", tool_calls=({"name": "look", "arguments": {}},)))
        'Wait. look({})'
    """
    calls = [f"{call.get('name')}({call.get('arguments')})" for call in message.tool_calls]
    return " ".join(filter(None, [message.content, *calls]))


def part_text(part: Mapping[str, Any]) -> str:
    """Return what a text judge reads of a part: text where it is made of text, otherwise that it is not shown.

    Example:
        >>> part_text({"type": "image", "image": "data:image/png;base64,…"})
        '[image not shown]'
        >>> part_text({"type": "tool_use", "name": "search", "result": "two hits"})
        '{"type": "tool_use", "name": "search", "result": "two hits"}'
    """
    kind = str(part.get("type", "part"))
    if kind == "reasoning":
        return "[reasoning not shown: redacted]"
    if kind == "refusal":
        return "[marked as a refusal]"
    medium = next((word for word in kind.split("_") if word in _NOT_TEXT), None)
    if medium is None:
        return json.dumps(dict(part), ensure_ascii=False, default=str)
    name = part.get("filename")
    return f"[{medium} not shown: {name}]" if name else f"[{medium} not shown]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Presentation:
    """One call as the judge sees it: no label, level, pair id or condition in it."""

    kind: str
    """`pair`, `response` or `transcript`."""
    instruction: str
    """The task the responses answer; for ladder tasks it lists the requirements."""
    rubric: str | None = None
    """What to judge by; for pairs the tie criterion stands here too."""
    first: str | None = None
    """Kind `pair`: the content in slot 1."""
    second: str | None = None
    """Kind `pair`: the content in slot 2."""
    response: str | None = None
    transcript: tuple[Message, ...] | None = None
    answers: tuple[str, ...] = PAIR_ANSWERS
    """What may be answered: slots and `tie`, the labels, or the scale's levels as text."""
    context: tuple[str, ...] | None = None
    """Texts that the responses were to go by, such as retrieved documents, where the suite has them."""
    rubrics: Mapping[str, str] | None = None
    """Every rubric under which the suite asks about this content, by id, where there are several: a judge may answer
    all of them at once (`Answer.value`)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A judge's answer with what it cost; a bare value is short for `Answer(value)`."""

    value: object
    """The answer; or a mapping from ids of `Presentation.rubrics` to answers, each plain or an `Answer` with its own
    reason and confidence. Each rubric then has its record, and tokens and cost are split evenly."""
    rationale: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    confidence: float | None = None


def answer_under(returned: object, rubric: str) -> object:
    """Return what a judge says under one rubric; what it returned, where that is no mapping with its id.

    Example:
        >>> answer_under(Answer({"safe": "yes"}, cost_usd=0.2), "safe").value, answer_under("no", "safe")
        ('yes', 'no')
    """
    whole = returned if isinstance(returned, Answer) else Answer(returned)
    if not isinstance(whole.value, Mapping) or rubric not in whole.value:
        return returned
    own = whole.value[rubric]
    if not isinstance(own, Answer):
        return replace(whole, value=own)
    told = {name: getattr(own, name) for name in ("rationale", "confidence") if getattr(own, name) is not None}
    return replace(whole, value=own.value, **told)


def split_evenly(answer: Answer, n: int) -> list[Answer]:
    """Return an answer `n` times, with tokens and cost that sum to its own.

    Example:
        >>> [part.input_tokens for part in split_evenly(Answer("yes", input_tokens=100), 3)]
        [34, 33, 33]
    """

    def tokens(given: int | None, place: int) -> int | None:
        return None if given is None else given // n + (place < given % n)

    cost = None if answer.cost_usd is None else answer.cost_usd / n
    return [
        replace(
            answer,
            input_tokens=tokens(answer.input_tokens, place),
            output_tokens=tokens(answer.output_tokens, place),
            cost_usd=cost,
        )
        for place in range(n)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One arm of the protocol: a name for the run, the text for the judge, the answers it may give."""

    name: str
    text: str
    offers_tie: bool = True

    @property
    def answers(self) -> tuple[str, ...]:
        """Slot answers of this arm."""
        return PAIR_ANSWERS if self.offers_tie else FORCED_ANSWERS


_TEXTS = {
    "forced": "Decide which response is better. A choice must be made: there is no tie.",
    "allowed": "Decide which response is better. The two may be equally good: then the answer is a tie.",
    "strict": "Decide which response is better in substance. Answer tie whenever the responses differ only in "
    "wording, style, fluency, verbosity or surface form.",
}
TIE_CRITERIA = {name: Criterion(name=name, text=text, offers_tie=name != "forced") for name, text in _TEXTS.items()}


def criterion(spec: str | Criterion) -> Criterion:
    """Resolve a built-in name, or take a sentence of the user's own as the criterion.

    A single word is a name, so a misspelt one is an error and never a criterion of one word.

    Example:
        >>> criterion("strict").offers_tie
        True
    """
    if isinstance(spec, Criterion):
        return spec
    if spec in TIE_CRITERIA:
        return TIE_CRITERIA[spec]
    # A misspelt name would otherwise become a criterion that no judge understands.
    if len(spec.split()) < 2:
        raise RecipeError(
            f"Unknown tie criterion {spec!r}.{suggest(spec, TIE_CRITERIA)} "
            f"Give one of {', '.join(TIE_CRITERIA)}, or a sentence of your own."
        )
    # Half of a surrogate pair, which JSON can hold, has no UTF-8 of its own.
    digest = hashlib.sha256(spec.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return Criterion(name=f"own-{digest}", text=spec)
