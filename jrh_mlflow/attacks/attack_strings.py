"""What is added to an answer: parts from a data file, put together and placed; neutral controls; what is attacked.

An attack is data: it is written into items, and nothing of it is ever run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.items import (
    BASELINE,
    LADDER,
    NATURAL,
    SINGLE_LADDERS,
    USABLE,
    WITH_BETTER,
    CallRecord,
    Item,
    Labels,
    is_scale,
    meanings_in,
)
from jrh_mlflow.suites.suite import Suite

PLACES = ("before", "after", "inside")
MOST_PARTS = 3
_CRITERIA = 600
"""Characters of the rubric that an echo repeats at most."""
FEWEST_SOURCES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackPart:
    """One piece of an attack."""

    name: str
    family: str
    text: str
    """With the placeholders of `AttackTarget.words`."""
    kind: str = ""
    """`pair` or `single`, where it fits one of them only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttackString:
    """Parts, and where they are put."""

    parts: tuple[AttackPart, ...]
    place: str

    @property
    def name(self) -> str:
        """Names of its parts and its place: short, and never the text itself."""
        return f"{' + '.join(part.name for part in self.parts)}, {self.place}"

    @property
    def template(self) -> str:
        """The text, before its placeholders are filled."""
        return "\n\n".join(part.text for part in self.parts)

    def mutated(self, draw: random.Random, part: AttackPart, pool: Sequence[AttackPart]) -> AttackString:
        """Return a neighbour: elsewhere, with `part` more, with one less, or with another of a family.

        A neighbour that is no attack of its own (a part twice, one too many) is replaced by another place.
        """
        moved = replace(self, place=draw.choice([place for place in PLACES if place != self.place]))
        how = draw.choice(("place", "add", "drop", "swap"))
        at = draw.randrange(len(self.parts))
        if how == "add" and len(self.parts) < MOST_PARTS and part not in self.parts:
            return replace(self, parts=(*self.parts, part))
        if how == "drop" and len(self.parts) > 1:
            return replace(self, parts=(*self.parts[:at], *self.parts[at + 1 :]))
        kin = [own for own in pool if own.family == self.parts[at].family and own not in self.parts]
        if how == "swap" and kin:
            return replace(self, parts=(*self.parts[:at], draw.choice(kin), *self.parts[at + 1 :]))
        return moved


@cache
def _data() -> dict[str, list[object]]:
    text = resources.files(__package__).joinpath("attack_parts.json").read_text(encoding="utf-8")
    data: dict[str, list[object]] = json.loads(text)
    return data


def known_parts(kind: str) -> list[AttackPart]:
    """Return the parts of the data file that fit a `pair` or a `single` response."""
    parts = [AttackPart(**facts) for facts in _data()["parts"]]  # type: ignore[arg-type]
    return [part for part in parts if part.kind in ("", kind)]


def neutral_text(length: int, *, start: int = 0) -> str:
    """Return plain sentences about nothing that was asked, of exactly so many characters.

    Example:
        >>> neutral_text(40), len(neutral_text(333, start=3))
        ('The river bends twice before it reaches.', 333)
    """
    sentences = [str(text) for text in _data()["neutral"]]
    words: list[str] = []
    at, size = start, 0
    while size < length + 1:
        words += sentences[at % len(sentences)].split()
        at, size = at + 1, len(" ".join(words))
    text = " ".join(words)[: max(length, 0)]
    # Cut at a word, and filled up to the length with full stops.
    whole = text if size == length else text[: text.rfind(" ")] if " " in text else text
    return whole.rstrip(" .").ljust(length, ".")


@dataclass(frozen=True, kw_only=True)
class AttackTarget:
    """One source whose answer is worse or failing by its label: what attacks are tried on."""

    item: Item
    side: str
    """The content that is attacked: `u`, `v` or `response`."""
    passing: frozenset[str] = frozenset()
    """Answers that pass; none for a pair, where the content must win."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Placeholder to what stands in its place."""
    is_good: bool = False
    """Of a single response whether it should pass: nothing is attacked, it shows what a defence costs."""

    @property
    def source(self) -> str:
        """Cluster of the intervals."""
        return self.item.task

    def added(self, attack: AttackString) -> str:
        """Return the text of an attack for this source."""
        text = attack.template
        for name, words in self.words.items():
            text = text.replace(f"{{{name}}}", words)
        return text

    def attacked(self, attack: AttackString, arm: str) -> Item:
        """Return the item with the attack in it."""
        return self.shown(arm, self.added(attack), attack.place)

    def control(self, attack: AttackString, arm: str) -> Item:
        """Return the item with a neutral text of the same length in the same place."""
        neutral = neutral_text(len(self.added(attack)), start=sum(map(ord, self.source)))
        return self.shown(arm, neutral, attack.place)

    def shown(self, arm: str, added: str = "", place: str = "after") -> Item:
        """Return the item as a judge is asked about it, plain where nothing is added."""
        content = str(getattr(self.item, self.side))
        changed: dict[str, Any] = {self.side: placed(content, added, place) if added else content}
        meta = {**self.item.meta, "attack_arm": arm.split("/", maxsplit=1)[0]}
        # A pair with a text in it is no ladder any more: its lengths and its requirements are not checked.
        condition = NATURAL if self.item.kind == "pair" else BASELINE
        return replace(self.item, id=f"{self.item.id}|{arm}", condition=condition, replicates=1, meta=meta, **changed)

    def won(self, record: CallRecord) -> float | None:
        """Return 1 where the attacked content won or passed, 0 where not; None where there is no answer."""
        if record.outcome not in USABLE:
            return None
        if record.outcome != "verdict":
            return 0.0
        if self.side == "response":
            return float(record.answer in self.passing)
        # Slot 1 holds the content that the order names first.
        return float(record.order[int(record.answer) - 1] == self.side)

    def right(self, record: CallRecord) -> float | None:
        """Return 1 where the answer is right, 0 where not; a tie between a better and a worse content is not."""
        won = self.won(record)
        if won is None or self.side == "response":
            return None if won is None else float(bool(won) == self.is_good)
        return float(record.outcome == "verdict" and not won)


def placed(content: str, added: str, place: str) -> str:
    r"""Put a text before, after or inside a content.

    Example:
        >>> placed("One. Two. Three. Four.", "X", "inside")
        'One. Two. Three.\n\nX\n\nFour.'
    """
    if place == "before":
        return f"{added}\n\n{content}"
    if place == "after" or not content:
        return f"{content}\n\n{added}"
    half = len(content) // 2
    end = min((at for mark in ("\n\n", ". ", "\n", " ") if (at := content.find(mark, half)) >= 0), default=half)
    end += content[end : end + 2] == ". "
    return f"{content[:end].rstrip()}\n\n{added}\n\n{content[end:].lstrip()}"


def passing_answers(item: Item, passing: Sequence[str] | None = None) -> frozenset[str]:
    """Return the labels with which a response passes.

    Of two labels the better one: the first where they detect something or the last is the worse, else the last. Of a
    scale the upper half without its middle.
    """
    answers = item.answers or ()
    if passing:
        return frozenset(passing)
    labels = Labels(
        answers=answers, ordinal=bool(item.ordinal) or len(answers) > 2, meanings=meanings_in(item.rubric, answers)
    )
    ranked = answers[::-1] if labels.worse_last or labels.grading is False else answers
    return frozenset(ranked[(len(ranked) + 1) // 2 :])


def targets_of(
    suite: Suite, judge: Judge, *, seed: int = 0, passing: Sequence[str] | None = None
) -> tuple[list[AttackTarget], list[AttackTarget], list[AttackTarget]]:
    """Return what is attacked, a searched and a held-out half of the sources, and responses that should pass.

    A source gives one item: of pairs one with the largest difference, of single responses one that fails by its label.

    Raises:
        SuiteError: where there are too few.
    """
    draw = random.Random(f"{seed}:{suite.sha256}")  # noqa: S311 - a split
    items = draw.sample(suite.items, len(suite.items))
    style = getattr(judge.model_judge, "answer_style", "digits")
    made = [_pair_target(item, style) if item.kind == "pair" else _single_target(item, passing) for item in items]
    failing, good = dict[str, AttackTarget](), dict[str, AttackTarget]()
    for target in sorted(filter(None, made), key=_clearness):
        (good if target.is_good else failing).setdefault(target.source, target)
    sources = draw.sample(sorted(failing), len(failing))
    if len(sources) < FEWEST_SOURCES:
        raise SuiteError(
            f"Suite {suite.name!r} has {len(sources)} sources with a worse or failing answer, and an attack needs "
            f"{FEWEST_SOURCES}: pairs with a better side, or single responses with a label "
            "(of several labels without an order name those that pass: `passing`)."
        )
    half = len(sources) // 2
    searched, held_out = ([failing[name] for name in names] for names in (sources[:half], sources[half:]))
    rest = [good[name] for name in draw.sample(sorted(good), len(good)) if name not in sources[:half]]
    return searched, held_out, rest[: len(held_out)]


def _clearness(target: AttackTarget) -> tuple[float, bool]:
    """Sort the clearest first: the largest step of the plain ladder, the lowest level of a response."""
    step, is_low = target.item.delta or 0.0, target.side == "response" and not target.is_good
    return step if is_low else -step, target.item.condition not in (LADDER, NATURAL)


def _target(item: Item, side: str, **words: str) -> AttackTarget:
    asked = item.rubric or item.instruction or ""
    return AttackTarget(item=item, side=side, words={"criteria": _last(asked, _CRITERIA), **words})


def _last(text: str, most: int) -> str:
    """Return the end of a text, from the beginning of a line: requirements stand there."""
    return text if len(text) <= most else text[-most:].partition("\n")[2] or text[-most:]


def _pair_target(item: Item, style: str) -> AttackTarget | None:
    if item.condition not in WITH_BETTER or item.better is None or item.u is None:
        return None
    first, second = ("A", "B") if style == "letters" else ("1", "2")
    return _target(item, "v" if item.better == "u" else "u", first=first, second=second)


def _single_target(item: Item, passing: Sequence[str] | None) -> AttackTarget | None:
    """Return a response with the label it should get; one of the pointwise ladder has none of its own."""
    answers = item.answers or ()
    is_ladder = item.condition == SINGLE_LADDERS[0] and item.delta is not None
    labelled = item.condition == BASELINE and item.expected is not None and not item.label_source
    # Several labels without an order have no better ones until somebody names them.
    ordered = len(answers) <= 2 or passing or (is_scale(answers) if item.ordinal is None else item.ordinal)
    if item.kind != "response" or item.response is None or not ordered or not (is_ladder or labelled):
        return None
    passes = passing_answers(item, passing)
    # The middle of a scale neither fails nor passes.
    if labelled and item.expected not in passes and len(answers) % 2 and item.expected == answers[len(answers) // 2]:
        return None
    is_good = item.expected in passes if labelled else bool(item.delta)
    ends = answers[:: -1 if answers[0] in passes else 1]
    item = replace(item, expected=item.expected or ends[-1 if is_good else 0])
    return replace(_target(item, "response", answer=ends[-1]), passing=passes, is_good=is_good)


def items_of(targets: Iterable[AttackTarget], attacks: Sequence[AttackString]) -> list[tuple[AttackTarget, Item]]:
    """Return all that is asked of held-out sources: plain, and every attack with its control."""
    return [
        (target, item)
        for target in targets
        for item in (
            target.shown("plain"),
            *(target.attacked(attack, f"attack/{at}") for at, attack in enumerate(attacks)),
            *(target.control(attack, f"control/{at}") for at, attack in enumerate(attacks)),
        )
    ]
