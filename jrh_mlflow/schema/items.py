"""Items of a suite, the seeds they are made from, the calls they ask for, and how each ended.

Call records, one row per call, are the only thing measures read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from jrh_mlflow.schema.label_words import families, says_bad, says_good
from jrh_mlflow.schema.presentation import Message, Presentation

Order = Literal["uv", "vu", ""]

VACUUM = ("vacuum_empty", "vacuum_whitespace", "vacuum_identical")
DELTA_0_SAME = "delta_0_same"
DELTA_0_DIFFERENT = "delta_0_different"
FILLER = "filler"
LADDER = "ladder"
LADDER_MATCHED = "ladder_matched"
"""The same chains, with what is not met written in the words of what is: counting words cannot tell the level."""
NATURAL = "natural"
NATURAL_TIE = "natural_tie"
"""Real pairs that people call equal: a tie is right, and nothing is wrong for a judge that cannot say so."""

PAIR_CONDITIONS = (*VACUUM, DELTA_0_SAME, DELTA_0_DIFFERENT, FILLER, LADDER, LADDER_MATCHED, NATURAL, NATURAL_TIE)
"""Every condition whose items are canonical pairs, judged in both presentation orders."""
DELTA_0 = (DELTA_0_SAME, DELTA_0_DIFFERENT)
LADDERS = (LADDER, LADDER_MATCHED)
WITH_BETTER = (*LADDERS, NATURAL)
"""Conditions in which one content is better by construction or by a known label."""

SINGLE_LADDERS = ("pointwise_ladder", "pointwise_matched")
"""Single responses of a known level, on the ladder and on the matched ladder; the column `delta` holds the level."""
SINGLE_VACUUM = ("pointwise_empty", "pointwise_whitespace")
SINGLE_PADDED = "pointwise_padded"
"""The content of the ladder of the same task and level, with padding."""
SINGLE_CONDITIONS = (*SINGLE_LADDERS, *SINGLE_VACUUM, SINGLE_PADDED)
"""Every condition of the pointwise datasheet. Like reliability tests its items have no order and no `better`; unlike
theirs they carry no expected answer."""

BASELINE = "baseline"
"""The unperturbed item of a reliability suite: every test is read beside it."""

PROTOCOL, PAPER = "protocol", "paper"
"""How tests and numbers are defined: as the protocol has it, or to the letter of the papers."""

OUTCOMES = ("verdict", "tie", "abstain", "unparsed", "error")
USABLE = ("verdict", "tie", "abstain")
"""Outcomes that are an answer. The others leave every denominator and are counted beside it."""
_NUMERIC = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")


BY_MODEL = "model"
LABEL_SOURCES = {
    BY_MODEL: "a label that a model wrote",
    "unverified": "a label that no verifier confirmed",
}
"""Labels that are no ground truth, in words: agreement with them is never counted as accuracy."""


class Labelled:
    """What the meta of items and seeds says about their label."""

    __slots__ = ()
    meta: Mapping[str, Any]

    @property
    def label_source(self) -> str:
        """One of `LABEL_SOURCES`; empty where the label comes from the data or from the test's meaning."""
        return str(self.meta.get("label_source") or "")

    @property
    def rubric_id(self) -> str:
        """Of a suite with several rubrics the one it is judged by; empty in any other."""
        return str(self.meta.get("rubric") or "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Item(Labelled):
    """One thing to judge, with the answer expected of it."""

    id: str
    task: str
    """The cluster for resampling: calls on one task are not independent."""
    condition: str
    kind: str = "pair"
    instruction: str | None = None
    """None only in a suite replayed from recorded judgments without texts."""
    rubric: str | None = None
    u: str | None = None
    """Kind `pair`: the first content of the canonical pair. For `filler`: the plain one."""
    v: str | None = None
    """Kind `pair`: the second content. For `filler`: the one with padding."""
    response: str | None = None
    transcript: tuple[Message, ...] | None = None
    context: str | tuple[str, ...] | None = None
    """What the responses were to go by, such as retrieved documents: a text, or several."""
    delta: float | None = None
    """Of a pair how many requirements lie between its contents; of `SINGLE_CONDITIONS` how many the response meets."""
    better: str | None = None
    expected: str | None = None
    answers: tuple[str, ...] | None = None
    """Labels or levels for kinds other than `pair`, in order: low to high, the label to be detected last."""
    ordinal: bool | None = None
    """Whether `answers` are a scale. None: three or more numbers are one, everything else are labels."""
    replicates: int = 1
    """How often the protocol asks about it; an evaluation's own replicates multiply this."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """How it was made (levels, satisfied sets, wordings): for gates and review, never shown to a judge."""

    @property
    def orders(self) -> tuple[Order, ...]:
        """Presentation orders the protocol asks for."""
        return ("uv", "vu") if self.kind == "pair" else ("",)

    @property
    def original(self) -> tuple[str, str]:
        """What it shares with its baseline: the task and the rubric."""
        return self.task, self.rubric_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One request to a judge: item x presentation order x replicate."""

    item: Item
    order: Order
    replicate: int
    presentation: Presentation


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """What a pointwise judge may answer."""

    answers: tuple[str, ...]
    """In order: levels from low to high; of labels the better one, or the one to be detected, last."""
    ordinal: bool = False
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Label to what it means, in one line; for some labels, for all or for none."""
    grades: bool | None = None
    """Whether they grade a response or else detect something in it, as the user says; None: their words tell."""

    @property
    def grading(self) -> bool | None:
        """Whether they grade a response (True) or detect something in it (False); None: not known.

        Their meanings tell, or their own words; a scale grades unless words say otherwise.

        Example:
            >>> Labels(answers=("0", "1")).grading, Labels(answers=("0", "1"), meanings={"1": "harmful"}).grading
            (None, False)
        """
        if self.grades is not None:
            return self.grades
        families_of = [families(self.meanings.get(label, label)) for label in self.answers]
        if any("detects" in words for words in families_of):
            return None if any("grades" in words for words in families_of) else False
        # One end that grades does not say what the other is about; a scale has one subject.
        return True if self.ordinal or (families_of and families_of[0] and families_of[-1]) else None

    @property
    def worse_last(self) -> bool:
        """Whether they grade, but their words say that the last is the worse one, and nobody says that it is not.

        Example:
            >>> Labels(answers=("pass", "fail")).worse_last, Labels(answers=("fail", "pass")).worse_last
            (True, False)
        """
        if self.grades is not None or not self.grading:
            return False
        # Only the ends are compared: the words in the middle of a scale are often neither.
        first, last = (self.meanings.get(label, label) for label in (self.answers[0], self.answers[-1]))
        return says_bad(last) > says_bad(first) or says_good(first) > says_good(last)

    @property
    def stated_order(self) -> bool | None:
        """`Item.ordinal` of items with these labels: None where the answers by themselves are taken so."""
        return None if self.ordinal == is_scale(self.answers) else self.ordinal

    def named(self, label: str) -> str:
        """Return a label with its meaning, for whoever writes.

        Example:
            >>> Labels(answers=("0", "1"), meanings={"1": "harmful"}).named("1")
            '1 (harmful)'
        """
        return f"{label} ({self.meanings[label]})" if label in self.meanings else label

    @property
    def explained(self) -> str:
        """What each label means, one in a line; empty where no meaning is given."""
        lines = [f"{label}: {self.meanings[label]}" for label in self.answers if label in self.meanings]
        return "\n".join([MEANINGS, *lines]) if lines else ""

    def question(self, rubric: str) -> str:
        """Return a rubric as judges see it: what the labels mean are its last lines."""
        return "\n\n".join(filter(None, (rubric.rstrip("\n") if self.meanings else rubric, self.explained)))

    def flipped(self, label: str) -> str:
        """Return the label of a response rewritten to mean the opposite.

        Of two labels the other one; of several unordered labels the next one; of a scale the mirrored level, or, where
        that is nearer than two steps, the end that lies farther away (the lowest for the one in the middle).

        Example:
            >>> [Labels(answers=("1", "2", "3", "4"), ordinal=True).flipped(level) for level in "1234"]
            ['4', '4', '1', '1']
        """
        place, last = self.answers.index(label), len(self.answers) - 1
        # Unordered labels have no opposite: any other one will do, and the next is the same on every machine.
        if not self.ordinal:
            return self.answers[(place + 1) % len(self.answers)]
        if abs(last - 2 * place) >= 2:
            return self.answers[last - place]
        return self.answers[0 if 2 * place >= last else last]


MEANINGS = "What the answers mean:"
"""The line before the meanings at the end of a rubric."""


class Answers(tuple[str, ...]):
    """The answers of a suite, in order, with what its items say about them; it equals the plain tuple."""

    def __new__(
        cls,
        answers: Iterable[str] = (),
        *,
        ordinal: bool | None = None,
        meanings: Mapping[str, str] | None = None,
        seen: bool = False,
    ) -> Answers:
        """Make it; `ordinal` is that of `Item`."""
        made = super().__new__(cls, answers)
        made.ordinal, made.meanings, made.seen = ordinal, dict(meanings or {}), seen
        return made

    ordinal: bool | None
    meanings: dict[str, str]
    seen: bool
    """Whether they are what was seen in records that do not tell them: there may be lower ones, and higher ones."""

    @property
    def named(self) -> list[str]:
        """Each answer with its meaning, where it has one."""
        return list(map(Labels(answers=self, meanings=self.meanings).named, self))

    @classmethod
    def of(cls, items: Iterable[Item]) -> Answers | None:
        """Return the answers that all of these items may get; None for pairs, and where items differ."""
        scales = {(item.answers, item.ordinal): item for item in items}
        if len(scales) != 1:
            return None
        ((answers, ordinal), item), *_ = scales.items()
        if answers is None:
            return None
        seen = item.meta.get("labels") == SEEN
        return cls(answers, ordinal=ordinal, meanings=meanings_in(item.rubric, answers), seen=seen)


SEEN = "seen"
"""The meta `labels` of items made from records that do not tell the labels."""


@lru_cache(maxsize=256)
def labels_cell(answers: tuple[str, ...] | None, ordinal: bool | None) -> str:
    """Write what an item may be answered with for the column `labels` of its calls; empty for pairs.

    Example:
        >>> labels_cell(("0", "1"), None), labels_cell(("low", "mid", "high"), True)
        ('{"answers": ["0", "1"]}', '{"answers": ["low", "mid", "high"], "ordinal": true}')
    """
    if not answers:
        return ""
    stated = {} if ordinal is None else {"ordinal": ordinal}
    return json.dumps({"answers": answers, **stated}, ensure_ascii=False)


def read_labels_cell(cell: str) -> Answers:
    """Read what `labels_cell` wrote.

    Raises:
        ValueError: for anything else.
    """
    written = json.loads(cell)
    answers = written.get("answers") if isinstance(written, dict) else None
    ordinal = written.get("ordinal") if isinstance(written, dict) else None
    texts = [text for text in answers if isinstance(text, str) and text] if isinstance(answers, list) else []
    # Files of others are read too: anything but two or more different texts is refused.
    if len(set(texts)) < 2 or texts != answers or len(set(texts)) < len(texts) or ordinal not in (None, True, False):
        raise ValueError(f"{cell!r} does not list two or more different labels.")
    return Answers(texts, ordinal=ordinal)


def meanings_in(rubric: str | None, answers: Sequence[str]) -> dict[str, str]:
    """Read the meanings that `Labels.question` wrote at the end of a rubric; empty where there are none.

    Example:
        >>> labels = Labels(answers=("0", "1"), meanings={"1": "harmful"})
        >>> meanings_in(labels.question("Is it harmful?"), labels.answers)
        {'1': 'harmful'}
    """
    lines = bare_question(rubric or "", answers)[1].split("\n")[3:]
    return {answer: line[len(answer) + 2 :] for line in lines for answer in answers if line.startswith(f"{answer}: ")}


def bare_question(rubric: str, answers: Sequence[str]) -> tuple[str, str]:
    """Take off what `Labels.question` wrote at the end of a rubric: the question itself, and that end."""
    bare, mark, tail = rubric.rpartition(f"\n\n{MEANINGS}\n")
    named = [answer for line in tail.split("\n") for answer in answers if line.startswith(f"{answer}: ")]
    # A rubric of the user's may hold the same line: only an end that names labels alone, each once, is ours.
    is_end = bool(mark) and len(named) == tail.count("\n") + 1 == len(set(named))
    return (bare, mark + tail) if is_end else (rubric, "")


def is_scale(answers: Sequence[str], *, fewest: int = 3) -> bool:
    """Tell whether answers are taken for a scale where nobody says: three or more numbers, rising or falling.

    Example:
        >>> is_scale(("1", "2", "3")), is_scale(("0", "1")), is_scale(("low", "mid", "high"))
        (True, False, False)
    """
    numbers = [float(answer) for answer in answers if _NUMERIC.fullmatch(answer)]
    rising, falling = (all(a < b for a, b in pairwise(order)) for order in (numbers, numbers[::-1]))
    return fewest <= len(answers) == len(numbers) and (rising or falling)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seed(Labelled):
    """One labelled response of a user's dataset: the source of perturbed items, and the cluster of the intervals."""

    id: str
    """The user's, or a hash of the content: the same row has the same id on every machine."""
    instruction: str
    """The task that the response answers."""
    response: str
    label: str
    """One of the answers of its `Labels`."""
    group: str | None = None
    """Group column, or the stratum it was sampled from."""
    context: tuple[str, ...] | None = None
    """What the response was to go by: that of `Item`."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """The row it comes from: with several rubrics each has a seed of its own, `row@rubric`."""
        return self.id.removesuffix(f"@{self.rubric_id}") if self.rubric_id else self.id


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRecord:
    """How one call ended. Field names are the columns of `calls/calls.parquet`."""

    suite_item: str
    task: str
    condition: str
    delta: float | None
    """Ladder step of a pair, or level of a single response (`SINGLE_CONDITIONS`)."""
    order: str
    better: str
    replicate: int
    outcome: str
    answer: str
    """The slot, label or score; empty unless the outcome is `verdict`."""
    expected: str
    rationale: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """What its attempts told, the retried ones included; None is unknown, never free."""
    latency_s: float | None = None
    cached: bool = False
    asked_at: str | None = None
    """When the model gave an answer that the journal had, in UTC; None of answers that were asked for in this run."""
    model: str | None = None
    system_fingerprint: str | None = None
    """What the provider says of the system behind the model, where it says it."""
    prompt_sha256: str | None = None
    error: str | None = None
    """Why there is no usable answer, with the raw text where there was one."""
    confidence: float | None = None
    """Probability of the given answer, where the judge or the provider tells it."""
    probabilities: str | None = None
    """JSON: answer (slot, label, score, `tie`, `abstain`) to its probability, where those of others are known too."""
    label_source: str = ""
    """One of `LABEL_SOURCES`, where `expected` is no ground truth."""
    rubric: str = ""
    """Id of the rubric, where a suite has several: a call is read beside the baseline of the same task and rubric."""
    position: str = ""
    """One of `THIRDS`: where most of what breaks the rubric stands, in a transcript that was edited to break it."""
    raw: str | None = None
    """What the model wrote, before anything was read from it; None where it wrote no more than the answer."""
    labels: str = ""
    """JSON: what may be answered with, in order, and whether it is a scale (`labels_cell`); empty for pairs."""
    partner: str = ""
    """`UNASKED` where the other order of the pair was not asked: it counts for axes of calls, and for none of pairs."""

    attempts: float | None = None
    """Requests that were billed, or perhaps; None where nobody counted, 1 for an answer that the journal had."""
    unknown_attempts: float | None = None
    """Of these, with a cost that nobody told."""
    worst_usd: float | None = None
    """What is booked for those at most: a bound, and no part of `cost_usd`."""


THIRDS = ("first third", "middle third", "last third")
"""What `position` may be."""
UNASKED = "not asked"
OPTIONAL_COLUMNS = ("label_source", "rubric", "position", "labels", "partner")
"""Columns that a table of calls has only where a cell of them is filled, as `raw`."""

REQUIRED_COLUMNS = tuple(field.name for field in fields(CallRecord) if field.default is MISSING)
