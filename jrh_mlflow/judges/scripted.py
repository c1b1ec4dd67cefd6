"""Scripted judges: calibration weights with known readings, tagged and shown as simulated. Shortcut judges among them.

Draws are a hash of what they are for, so a run is repeatable call by call, whatever the order. The profiles are the
judges of the Judge Datasheet paper, scripted from its published counts (arXiv 2606.15610, Tables 3, 4, 6).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges._base import AnsweringJudge
from jrh_mlflow.perturb.languages import (
    content_words,
    hedge_count,
    language_of,
    negation_count,
    sentences_in,
    words_in,
)
from jrh_mlflow.perturb.registry import written_by
from jrh_mlflow.schema.items import (
    BASELINE,
    DELTA_0,
    DELTA_0_SAME,
    LADDER,
    LADDERS,
    SINGLE_CONDITIONS,
    VACUUM,
    Call,
    Item,
)
from jrh_mlflow.schema.presentation import Criterion, Presentation, criterion

if TYPE_CHECKING:
    from jrh_mlflow.suites.suite import Suite

__all__ = [
    "SHORTCUTS",
    "AlwaysFirst",
    "AlwaysTie",
    "Attackable",
    "CapitalCount",
    "CharacterCount",
    "CharacterNgrams",
    "Compression",
    "DigitCount",
    "Drifting",
    "Grader",
    "HedgeCount",
    "LongerWins",
    "NegationCount",
    "Noisy",
    "Oracle",
    "Profile",
    "RareWords",
    "RubricOverlap",
    "Scripted",
    "SentenceCount",
    "Shortcut",
    "TfidfCosine",
    "TypeTokenRatio",
    "WordOverlap",
    "WordPairs",
    "profile",
    "published",
    "slot_of",
    "uniform",
]

_BY_STEP = ("sensitivity", "matched")


def uniform(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Scripted(AnsweringJudge):
    """A judge whose readings are known beforehand."""

    kind = "scripted"
    simulated = True
    inline = True

    name = ""

    def __init__(self) -> None:
        self.__post_init__()

    def __post_init__(self) -> None:
        self.name = self.name or type(self).__name__

    @abstractmethod
    def answer(self, call: Call) -> str:
        """Answer one call."""

    async def ask(self, call: Call) -> object:
        """Answer at once."""
        return self.answer(call)

    def settings(self) -> dict[str, object]:
        """Name every argument; rates by step or by test as one text."""
        return super().settings() | {name: _as_setting(value) for name, value in self._fields().items()}

    def fingerprint(self) -> str | None:
        """Identify by name and settings."""
        return hashlib.sha256(repr(sorted(self.settings().items())).encode()).hexdigest()

    def definition(self) -> dict[str, Any] | None:
        """Class and arguments; None for a class of somebody's own, which is code."""
        if not type(self).__module__.startswith(f"{__package__}."):
            return None
        return self.defined_by(**{"class": type(self).__name__, "arguments": self.arguments()})

    def arguments(self) -> dict[str, Any]:
        """What the class was called with, as plain JSON: rates by step are pairs, for the names of JSON are texts."""
        return {
            name: list(map(list, value.items())) if name in _BY_STEP else value
            for name, value in self._fields().items()
        }

    def _fields(self) -> dict[str, Any]:
        # The name tells nothing about the answers: a definition has it beside the arguments.
        declared: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        return {field.name: getattr(self, field.name) for field in declared if field.name != "name"}


def _as_setting(value: object) -> object:
    if not isinstance(value, dict):
        return value
    steps = (f"{key:g}" if isinstance(key, float) else key for key in value)
    return ", ".join(f"{step}: {rate:g}" for step, rate in zip(steps, value.values(), strict=True)) or None


class Looking(Scripted):
    """A scripted judge that needs the presentation only, and can be called with one."""

    @abstractmethod
    def __call__(self, presentation: Presentation) -> str:
        """Answer one presentation."""

    def answer(self, call: Call) -> str:
        """Answer from the presentation alone."""
        return self(call.presentation)


def from_definition(definition: Mapping[str, Any]) -> Scripted:
    """Make the scripted judge again that a definition is of.

    Raises:
        RecipeError: for a class that there is not.
    """
    name, arguments = definition["class"], dict(definition["arguments"])
    made = globals().get(name) if name in __all__ else None
    if not (isinstance(made, type) and issubclass(made, Scripted)):
        raise RecipeError(f"There is no scripted judge {name!r}. Pass the judge itself.")
    for steps in _BY_STEP:
        arguments |= {steps: dict(map(tuple, arguments[steps]))} if steps in arguments else {}
    judge = made(**arguments)
    judge.name, judge.tie_criterion = definition["name"], Criterion(**definition["tie_criterion"])
    return judge


class AlwaysFirst(Looking):
    """Prefers slot 1: dark current 1, positional 1, target sensitivity 0.5. Alone it gives the first label."""

    def __call__(self, presentation: Presentation) -> str:
        """Answer slot 1, or the first label."""
        return presentation.answers[0]


class AlwaysTie(Looking):
    """Never prefers: dark current 0, no preference 1, miss-by-tie 1. Where there is no pair it abstains."""

    def __call__(self, presentation: Presentation) -> str:
        """Answer tie."""
        return "tie" if presentation.kind == "pair" else "abstain"


class LongerWins(Looking):
    """Prefers the longer text: blind on the length-matched ladder, filler preference 1.

    Alone a text climbs one label for every 40 words.
    """

    def __call__(self, presentation: Presentation) -> str:
        """Count characters, or words."""
        if presentation.kind != "pair":
            steps = len((presentation.response or "").split()) // 40
            return presentation.answers[min(steps, len(presentation.answers) - 1)]
        first, second = len(presentation.first or ""), len(presentation.second or "")
        if first == second:
            return "tie"
        return "1" if first > second else "2"


class _Informed(Scripted):
    """A scripted judge that knows the label of every source, for items of which only a direction is expected."""

    _labels: Mapping[tuple[str, str], str] = MappingProxyType({})
    """By source; known after `begin`."""

    def begin(self, suite: Suite) -> None:
        """Learn the labels of the baselines."""
        self._labels = {
            item.original: item.expected for item in suite.items if item.condition == BASELINE and item.expected
        }

    def right_answer(self, item: Item, answers: Sequence[str]) -> str | None:
        """Return what the item's test expects where the item itself carries no answer; None where it is not known."""
        test, label = written_by(item.condition), self._labels.get(item.original)
        if test is None or label is None:
            return None
        return test.expects.right_answer(label, answers, item.condition.removeprefix(test.name).lstrip("_"))


class Oracle(_Informed):
    """Knows the right answer, and ties when neither content is better: no false preference, accuracy 1.

    Of a single response of known level its score is the share of the requirements that it meets.
    """

    def begin(self, suite: Suite) -> None:
        """Learn the labels of the baselines, and how many requirements there are."""
        super().begin(suite)
        self._most = max(
            (item.delta or 0.0 for item in suite.items if item.condition in SINGLE_CONDITIONS), default=0.0
        )

    def answer(self, call: Call) -> str:
        """Look the better content or the expected label up; where neither is known, say the lowest label."""
        if call.item.condition in SINGLE_CONDITIONS:
            return self._score(call.item, call.presentation.answers)
        if call.item.kind != "pair":
            answers = call.presentation.answers
            return call.item.expected or self.right_answer(call.item, answers) or answers[0]
        if call.item.better is None:
            return "tie" if "tie" in call.presentation.answers else "1"
        return slot_of(call.item.better, call.order)

    def _score(self, item: Item, answers: Sequence[str]) -> str:
        met = (item.delta or 0.0) / (self._most or 1.0)
        scale = [float(answer) for answer in answers if answer.isdigit()] or [0.0, 1.0]
        return f"{scale[0] + (scale[-1] - scale[0]) * met:.9f}"


_FORGED = re.compile(r'"verdict"\s*:\s*"')
_HEADINGS = re.compile(r"^#{1,3} ", re.MULTILINE)
_LONG, _LONG_TEXT = 100, 150
"""Words of a text that is long, and characters of one that a lover of length takes for long."""
Hole = Literal["none", "verdict", "rubric", "style", "length", "put_off"]


@dataclass(kw_only=True, eq=False, repr=False)
class Attackable(Oracle):
    """Right but for noise and a planted hole: what an attack on it truly wins is known (`jrh.attack`).

    Args:
        hole: What makes a worse answer win, or a failing one pass: a forged `verdict`; a `rubric` that is quoted;
            `style`, a long text with headings; `length` alone, which every neutral text has, too; `none`. `put_off`
            never prefers an answer to which anything was added.
        strength: Share of sources on which the hole is there.
        noise: Share of answers that are turned round.
        seed: Of all draws.
    """

    hole: Hole = "none"
    strength: float = 1.0
    noise: float = 0.0
    seed: int = 0

    def answer(self, call: Call) -> str:
        """Answer rightly, or as the hole says; then turn a few answers round."""
        item, right, arm = call.item, super().answer(call), str(call.item.meta.get("attack_arm", ""))
        if item.condition in SINGLE_CONDITIONS or (item.kind == "pair" and item.better is None):
            return right
        if item.kind == "pair":
            worse = "v" if item.better == "u" else "u"
            is_pulled = self._pull(item, worse) > self._pull(item, str(item.better))
            other = slot_of(worse, call.order)
        else:
            is_pulled = self._pull(item, "response") > 0 and arm != "good"
            other = next(answer for answer in call.presentation.answers[::-1] if answer != right)
        if self.hole == "put_off" and arm not in ("", "plain", "good"):
            return right
        is_turned = uniform(self.seed, "noise", item.id, call.order, call.replicate) < self.noise
        return other if is_pulled != is_turned else right

    def _pull(self, item: Item, side: str) -> float:
        """Return how much the hole speaks for a content."""
        text, criteria = getattr(item, side) or "", (item.rubric or item.instruction or "").strip()[-40:]
        if uniform(self.seed, "hole", item.task) >= self.strength:
            return 0.0
        if self.hole == "length":
            return len(text) // 40 if item.kind == "pair" else float(len(text) > _LONG_TEXT)
        holes = {
            "verdict": bool(_FORGED.search(text)),
            "rubric": criteria in text,
            "style": len(text.split()) >= _LONG and len(_HEADINGS.findall(text)) > 1,
        }
        return float(holes.get(self.hole, False))


@dataclass(kw_only=True, eq=False, repr=False)
class Drifting(Scripted):
    """Right until it changes, but for its noise: for `jrh.watch`, whose asks have a number of their own each.

    Args:
        on: What changes: `equal` (picks the first slot where a tie is right), or `better` (picks the worse content, or
            another label than the expected one).
        jump: Share of its calls that change at once,
        slow: and with every further look.
        at: Look of the change.
        noise: Chance of an answer at random.
        first_look: Number of the ask that is look 1.
        seed: Of all draws.
    """

    on: str = "equal"
    jump: float = 0.0
    slow: float = 0.0
    at: int = 1
    noise: float = 0.0
    first_look: int = 6
    seed: int = 0

    def answer(self, call: Call) -> str:
        """Answer rightly, at random, or as it does since the change."""
        item, answers = call.item, call.presentation.answers
        name = (self.seed, item.id, call.order)
        if uniform(*name, call.replicate, "noise") < self.noise:
            return answers[int(uniform(*name, call.replicate, "answer") * len(answers))]
        looks = call.replicate - self.first_look + 2 - self.at
        changed = uniform(*name, "change") < (self.jump + self.slow * looks if looks > 0 else 0.0)
        if item.kind == "pair" and item.better is None:
            return "1" if (changed and self.on == "equal") or "tie" not in answers else "tie"
        right = slot_of(item.better, call.order) if item.better else item.expected or answers[0]
        if not changed or self.on == "equal":
            return right
        return next(answer for answer in answers if answer not in (right, "tie"))


@dataclass(kw_only=True, eq=False, repr=False)
class Noisy(Scripted):
    """Answers at random with known rates; the truth that `make validate` compares estimates with.

    A draw is a hash of seed, item, order and replicate, so a run is repeatable call by call.

    Args:
        dark_current: Chance of a preference on a vacuum call.
        stable: Chance that an equal-quality pair gets the same content twice.
        positional: Chance that it gets the same slot twice.
        one_sided: Chance that it gets a preference in one order only.
        sensitivity: Step to the chance of choosing the better content.
        matched: The same on the matched ladder; as on the ladder when None.
        tie: Share of the remaining ladder calls that are ties; the rest are wrong choices.
        filler: Chance of choosing the padded content.
        unparsed: Chance that a call ends as `unparsed`.
        icc: Intraclass correlation of tasks: each task has rates of its own with the above as means.
        seed: Of all draws.
    """

    dark_current: float = 0.1
    stable: float = 0.1
    positional: float = 0.2
    one_sided: float = 0.1
    sensitivity: Mapping[float, float] | None = None
    matched: Mapping[float, float] | None = None
    tie: float = 0.1
    filler: float = 0.5
    unparsed: float = 0.0
    icc: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sensitivity = dict(self.sensitivity or {1.0: 0.6, 2.0: 0.7, 3.0: 0.8, 4.0: 0.88, 5.0: 0.94})
        self.matched = dict(self.matched or self.sensitivity)
        equal = (self.stable, self.positional, self.one_sided)
        self._delta_0 = (*equal, 1 - self.stable - self.positional - self.one_sided)
        steps = (*self.sensitivity.values(), *self.matched.values())
        rates = (self.dark_current, self.filler, self.unparsed, self.tie, *self._delta_0, *steps)
        if not all(0 <= rate <= 1 for rate in rates) or not 0 <= self.icc < 1:
            raise ValueError(
                f"Rates must lie in [0, 1] and their sum on delta 0 too, but got {rates=}, icc={self.icc}."
            )

    def answer(self, call: Call) -> str:
        """Draw an answer with the rates of the item's condition."""
        item = call.item
        if item.condition in SINGLE_CONDITIONS:
            raise ValueError("Noisy has rates for pairs, and none for single responses of known level.")
        if self.unparsed and self._draw(call, "unparsed") < self.unparsed:
            return "?"
        coin = "1" if self._draw(call, "coin") < 0.5 else "2"
        if item.condition in VACUUM:
            (rate, _) = self._rates(item.task, "vacuum", (self.dark_current, 1 - self.dark_current))
            return coin if self._draw(call, "vacuum") < rate else "tie"
        if item.condition in DELTA_0:
            return self._equal_quality(call)
        if item.condition in LADDERS:
            return self._ladder(call)
        if item.better is not None:
            raise ValueError(f"Noisy has no rate for condition {item.condition!r}.")
        (rate, _) = self._rates(item.task, item.condition, (self.filler, 1 - self.filler))
        return slot_of("v" if self._draw(call, "filler") < rate else "u", call.order)

    def _equal_quality(self, call: Call) -> str:
        stable, positional, one_sided, _ = self._rates(call.item.task, call.item.condition, self._delta_0)
        draw, side = self._draw(call, "pair", per_pair=True), self._draw(call, "side", per_pair=True) < 0.5
        if draw < stable:
            return slot_of("u" if side else "v", call.order)
        if draw < stable + positional:
            return "1" if side else "2"
        if draw < stable + positional + one_sided and side == (call.order == "uv"):
            return "1" if self._draw(call, "coin") < 0.5 else "2"
        return "tie"

    def _ladder(self, call: Call) -> str:
        item = call.item
        rates = self.sensitivity if item.condition == LADDER else self.matched
        right = (rates or {}).get(item.delta or 0.0)
        if right is None:
            raise ValueError(f"Noisy has no sensitivity for delta {item.delta}.")
        ties = (1 - right) * self.tie
        right, ties, _ = self._rates(item.task, f"{item.condition} {item.delta}", (right, ties, 1 - right - ties))
        draw = self._draw(call, "ladder")
        if right <= draw < right + ties:
            return "tie"
        worse = "v" if item.better == "u" else "u"
        return slot_of(item.better or "" if draw < right else worse, call.order)

    def _rates(self, task: str, what: str, means: tuple[float, ...]) -> tuple[float, ...]:
        return means if self.icc == 0 else _task_rates(self.seed, task, what, means, self.icc)

    def _draw(self, call: Call, what: str, *, per_pair: bool = False) -> float:
        order = "" if per_pair else call.order
        return uniform(self.seed, call.item.id, order, call.replicate, what)


def slot_of(content: str, order: str) -> str:
    """Return the slot in which a content stands: order uv puts u first."""
    return "1" if (content == "u") == (order == "uv") else "2"


@lru_cache(maxsize=100_000)
def _task_rates(seed: int, task: str, what: str, means: tuple[float, ...], icc: float) -> tuple[float, ...]:
    """Draw a task's own rates: Dirichlet with the given means and intraclass correlation."""
    from scipy.special import gammaincinv

    # The shares of a Dirichlet with concentration a have the intraclass correlation 1 / (1 + a).
    concentration = (1 - icc) / icc
    draws = [
        float(gammaincinv(mean * concentration, uniform(seed, task, what, part))) if mean > 0 else 0.0
        for part, mean in enumerate(means)
    ]
    return tuple(draw / sum(draws) for draw in draws)


@dataclass(kw_only=True, eq=False, repr=False)
class Grader(_Informed):
    """Gives the expected label with a known chance, and otherwise the next one.

    Draws are a hash of seed and item, so a run is repeatable call by call and replicates agree unless `flip` says
    otherwise. Where only a direction is expected it goes that way: down one label per dose of `error_injection`.

    Args:
        accuracy: Chance of the expected label where `tests` says nothing, the baseline included.
        tests: Test to the chance of the expected label.
        flip: Chance that a single call is drawn anew, whatever the other replicates said.
        seed: Of all draws.
        name: What the judge is called.
    """

    accuracy: float = 0.9
    tests: Mapping[str, float] | None = None
    flip: float = 0.0
    seed: int = 0
    name: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tests = dict(self.tests or {})
        rates = (self.accuracy, self.flip, *self.tests.values())
        if not all(0 <= rate <= 1 for rate in rates):
            raise ValueError(f"Rates must lie in [0, 1], but got {rates=}.")

    def answer(self, call: Call) -> str:
        """Draw an answer with the rate of the item's test."""
        answers, item = call.presentation.answers, call.item
        again = uniform(self.seed, item.id, call.replicate, "again") < self.flip
        draw = uniform(self.seed, item.id, call.replicate if again else "", "right")
        right = answers.index(self._expected(call))
        if draw < (self.tests or {}).get(item.condition, self.accuracy):
            return answers[right]
        # The neighbour: one up, or down from the top.
        return answers[right + 1 if right + 1 < len(answers) else right - 1]

    def _expected(self, call: Call) -> str:
        expected = call.item.expected or self.right_answer(call.item, call.presentation.answers)
        if expected is None:
            raise ValueError(f"Grader has no expectation for condition {call.item.condition!r}.")
        return expected


@cache
def published() -> dict[str, dict[str, Any]]:
    """Return the published counts by profile name, with what was chosen where nothing was published."""
    text = resources.files("jrh_mlflow.judges").joinpath("profiles.json").read_text(encoding="utf-8")
    profiles: dict[str, dict[str, Any]] = json.loads(text)["profiles"]
    return profiles


def profile(name: str) -> Profile:
    """Return a judge of the paper by name.

    Raises:
        RecipeError: for an unknown name, with the nearest known one.
    """
    if name not in published():
        known = ", ".join(published())
        raise RecipeError(f"Unknown profile {name!r}.{suggest(name, published())} Known: {known}.")
    return Profile(name)


class Profile(Scripted):
    """Gives the published number of each answer, spread evenly over the items of a condition.

    On `datasheet-paper` the counts are the published ones; on another size the rates are. What the paper did not
    ask (the vacuum and steps 2 to 4 of the strict arm, the controls) is not covered, so it is reported as not measured.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = self.profile_name = name
        self.counts = published()[name]
        self.tie_criterion = criterion(self.counts["tie_criterion"])
        self._script: dict[tuple[str, str], str] = {}

    def answer(self, call: Call) -> str:
        """Read the answer off the script."""
        return self._script[call.item.id, call.order]

    def fingerprint(self) -> str | None:
        """Identify by name: the counts are fixed."""
        return hashlib.sha256(self.name.encode()).hexdigest()

    def arguments(self) -> dict[str, Any]:
        """Which judge of the paper it is."""
        return {"name": self.profile_name}

    def with_criterion(self, spec: str | Criterion) -> Profile:
        """Return the profile published for the same judge under another criterion.

        Raises:
            RecipeError: when the paper reports none.
        """
        wanted = criterion(spec)
        for name, counts in published().items():
            if counts["judge"] == self.counts["judge"] and counts["tie_criterion"] == wanted.name:
                return Profile(name)
        raise RecipeError(f"The paper reports no {wanted.name!r} arm for {self.counts['judge']}.")

    def covers(self, item: Item) -> bool:
        """Whether the paper asked this."""
        return self._published(item) is not None

    def _published(self, item: Item) -> dict[str, int] | None:
        """Return the counts of items like this one."""
        counts: dict[str, int] | None = None
        if item.condition in VACUUM:
            counts = self.counts.get("vacuum")
        elif item.condition == LADDER:
            counts = self.counts["ladder"].get(f"{item.delta:g}")
        elif item.condition == DELTA_0_SAME:
            counts = self.counts[DELTA_0_SAME]
        return counts

    def begin(self, suite: Suite) -> None:
        """Write the script for a suite."""
        groups: dict[tuple[str, float | None], list[Item]] = defaultdict(list)
        for item in suite.items:
            if self.covers(item):
                condition = "vacuum" if item.condition in VACUUM else item.condition
                groups[condition, item.delta if condition == LADDER else None].append(item)
        self._script = {}
        for items in groups.values():
            kinds = _spread(self._published(items[0]) or {}, len(items))
            for item, kind in zip(items, kinds, strict=True):
                self._script[item.id, "uv"], self._script[item.id, "vu"] = _answers(kind, item)


def _spread(counts: dict[str, int], n_items: int) -> list[str]:
    """Give each item a kind of pair, mixed evenly in the published proportions (smooth weighted round-robin)."""
    total = sum(counts.values())
    left = dict.fromkeys(counts, 0)
    kinds = []
    for _ in range(n_items):
        for kind, count in counts.items():
            left[kind] += count
        chosen = max(left, key=lambda kind: left[kind])
        left[chosen] -= total
        kinds.append(chosen)
    return kinds


def _answers(kind: str, item: Item) -> tuple[str, str]:
    """Return the slots answered in the orders uv and vu."""
    better = "1" if item.better == "u" else "2"
    worse = "2" if better == "1" else "1"
    both = {
        "first_slot": ("1", "1"),
        "stable": ("1", "2"),
        "one_sided": ("1", "tie"),
        "no_preference": ("tie", "tie"),
        "right": (better, worse),
        "half_right": ("1", "1"),
        "right_or_tie": (better, "tie"),
        "wrong": (worse, better),
    }
    return both[kind]


# Shortcut judges count something in two texts and read neither. What one of them can win shows no reading. A shortcut
# prefers the content with more (or less) of what it counts. Where both have as much, a coin of the pair names a slot,
# the same in both orders, so that a shortcut that sees no difference reads exactly .5 over the two orders.

Direction = Literal["more", "less"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)

_TEXTS_AT_HAND = 4096
"""The contents and instructions of a suite come again in many pairs, and for one shortcut after the other."""

_LISTED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+(.+)$", re.M)
"""A line of a list: how instructions write down what an answer should do."""


@dataclass(kw_only=True, eq=False, repr=False)
class Shortcut(Looking):
    """Prefers the content that scores more, or less, on something that can be counted without reading.

    A single response has nothing beside it to score more than: there it abstains. Only where any score may be
    answered, on single responses of known level, it answers its score (`less`: with a minus).

    Args:
        direction: `more` prefers the higher score, `less` the lower one.
        seed: Of the coin that decides between equal scores.
    """

    direction: Direction = "more"
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direction not in DIRECTIONS:
            raise ValueError(f"`direction` must be 'more' or 'less', but got {self.direction!r}.")
        if self.direction == "less":
            self.name = f"{self.name} (less)"

    @abstractmethod
    def score(self, text: str, presentation: Presentation) -> float:
        """Return how much a content has of what is counted."""

    def answer(self, call: Call) -> str:
        """Compare two contents; answer the score of a single response of known level."""
        if call.item.condition not in SINGLE_CONDITIONS:
            return self(call.presentation)
        score = self.score(call.presentation.response or "", call.presentation)
        # So many digits that equal scores are the same text, however their weights were summed.
        return f"{score if self.direction == 'more' else -score:.9f}"

    def margin(self, presentation: Presentation) -> float:
        """Return by how much the first content is preferred over the second; 0 where their scores are equal."""
        first, second = (self.score(text or "", presentation) for text in (presentation.first, presentation.second))
        # The same words in another order must score the same, however their weights are summed.
        if math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-12):
            return 0.0
        return first - second if self.direction == "more" else second - first

    def __call__(self, presentation: Presentation) -> str:
        """Compare the scores; let the coin decide between equal ones."""
        if presentation.kind != "pair":
            return "abstain"
        margin = self.margin(presentation)
        if margin == 0:
            return self._coin(presentation)
        return "1" if margin > 0 else "2"

    def _coin(self, presentation: Presentation) -> str:
        pair = sorted((presentation.first or "", presentation.second or ""))
        return "1" if uniform(self.seed, presentation.instruction, *pair) < 0.5 else "2"


class WordOverlap(Shortcut):
    """Counts the words of the instruction that a content takes up, each once, small words left out."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count shared words."""
        code = _code(presentation)
        return len(content_words(text, code) & content_words(presentation.instruction, code))


class RubricOverlap(Shortcut):
    """Counts the words of the rubric, and of the lines that the instruction lists, that a content takes up."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count shared words; what the judge is told about ties is no rubric."""
        rubric = (presentation.rubric or "").removesuffix(self.tie_criterion.text)
        lines = " ".join([*_LISTED.findall(presentation.instruction), rubric])
        code = _code(presentation)
        return len(content_words(text, code) & content_words(lines, code))


class WordPairs(Shortcut):
    """Counts the pairs of neighbouring words of the instruction that a content takes up, each once."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count shared pairs."""
        code = _code(presentation)
        return len(set(pairwise(_words(text, code))) & set(pairwise(_words(presentation.instruction, code))))


class TfidfCosine(Shortcut):
    """Cosine of the TF-IDF vectors of a content and the instruction.

    `w = (1 + ln count) (1 + ln((1 + n) / (1 + df)))` (scikit-learn's smoothed formula), the n documents being the
    sentences of the presentation: that is all a judge sees.
    """

    def score(self, text: str, presentation: Presentation) -> float:
        """Weigh the words by how few sentences hold them."""
        code = _code(presentation)
        documents = [set(_words(line, code)) for shown in _shown(presentation) for line in sentences_in(shown, code)]
        held_by = Counter(word for document in documents for word in document)
        weights = {word: 1 + math.log((1 + len(documents)) / (1 + count)) for word, count in held_by.items()}
        contents = (_words(text, code), _words(presentation.instruction, code))
        return _cosine(*(_weighted(content, weights) for content in contents))


@dataclass(kw_only=True, eq=False, repr=False)
class CharacterNgrams(Shortcut):
    """Share of a content's character n-grams that occur in the instruction: whole phrases count, split words too.

    Args:
        direction: As for every shortcut.
        seed: As for every shortcut.
        n: Characters of an n-gram, spaces included.
    """

    n: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n < 1:
            raise ValueError(f"`n >= 1` must hold, but got n={self.n}.")

    def score(self, text: str, presentation: Presentation) -> float:
        """Look every n-gram up."""
        own = _ngrams(text, self.n)
        return len(own & _ngrams(presentation.instruction, self.n)) / max(1, len(own))


class CharacterCount(Shortcut):
    """Counts characters. As `LongerWins`, which ties where lengths are equal."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count characters."""
        return len(text)


class DigitCount(Shortcut):
    """Counts digits."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count digits."""
        return sum(character.isdigit() for character in text)


class CapitalCount(Shortcut):
    """Counts words that begin with a capital letter."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count capitalised words."""
        return sum(word[0].isupper() for word in words_in(text, _code(presentation)))


class RareWords(Shortcut):
    """Counts words that stand nowhere else in the presentation."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count words that occur once."""
        code = _code(presentation)
        counts = Counter(word for shown in _shown(presentation) for word in _words(shown, code))
        return sum(counts[word] == 1 for word in set(_words(text, code)))


class SentenceCount(Shortcut):
    """Counts sentences."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count sentences; a line break ends one."""
        return len(sentences_in(text, _code(presentation)))


class HedgeCount(Shortcut):
    """Counts hedges, such as perhaps, might and about."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count hedges."""
        return hedge_count(text, _code(presentation))


class NegationCount(Shortcut):
    """Counts negations, such as not, never and without; `not only` and its like are none."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Count the certain ones."""
        return negation_count(text, _code(presentation))


class TypeTokenRatio(Shortcut):
    """Different words over all words: how little a content repeats itself."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Divide; an empty text has no ratio and scores 0."""
        words = _words(text, _code(presentation))
        return len(set(words)) / max(1, len(words))


class Compression(Shortcut):
    """Share of a content's bytes that zlib saves; a text too short to shrink scores below 0."""

    def score(self, text: str, presentation: Presentation) -> float:
        """Compress."""
        content = text.encode("utf-8", "surrogatepass")
        return 1 - len(zlib.compress(content, 9)) / len(content) if content else 0.0


SHORTCUTS: tuple[type[Shortcut], ...] = (
    WordOverlap,
    RubricOverlap,
    WordPairs,
    TfidfCosine,
    CharacterNgrams,
    DigitCount,
    CapitalCount,
    RareWords,
    CharacterCount,
    SentenceCount,
    HedgeCount,
    NegationCount,
    TypeTokenRatio,
    Compression,
)
"""What `jrh suite audit` runs, each in both directions."""


def every_shortcut(*, seed: int = 0) -> Iterator[Shortcut]:
    """Yield each shortcut judge in both directions."""
    for shortcut in SHORTCUTS:
        for direction in DIRECTIONS:
            yield shortcut(direction=direction, seed=seed)


def _shown(presentation: Presentation) -> list[str]:
    """Return the texts that a judge sees: the instruction and the contents."""
    contents = (presentation.first, presentation.second, presentation.response)
    return [presentation.instruction, *(text for text in contents if text)]


def _code(presentation: Presentation) -> str:
    """Return the language to count in: the instruction's."""
    return language_of(presentation.instruction)


@lru_cache(_TEXTS_AT_HAND)
def _words(text: str, code: str) -> tuple[str, ...]:
    return tuple(word.casefold() for word in words_in(text, code))


@lru_cache(_TEXTS_AT_HAND)
def _ngrams(text: str, n: int) -> frozenset[str]:
    flat = " ".join(text.casefold().split())
    return frozenset(flat[start : start + n] for start in range(len(flat) - n + 1))


def _weighted(words: Sequence[str], weights: Mapping[str, float]) -> dict[str, float]:
    # A word of a fenced line is in no sentence, and weighs nothing.
    return {word: (1 + math.log(count)) * weights.get(word, 0.0) for word, count in Counter(words).items()}


def _cosine(weights: Mapping[str, float], others: Mapping[str, float]) -> float:
    norms = _norm(weights.values()) * _norm(others.values())
    return math.fsum(weight * others.get(word, 0.0) for word, weight in weights.items()) / norms if norms else 0.0


def _norm(weights: Iterable[float]) -> float:
    return math.sqrt(math.fsum(weight * weight for weight in weights))
