"""Scripted judges: calibration weights with known readings, tagged and shown as simulated. Shortcut judges among them.

Draws are a hash of what they are for, so a run is repeatable call by call, whatever the order. The profiles are the
judges of the Judge Datasheet paper, scripted from its published counts (arXiv 2606.15610, Tables 3, 4, 6).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges._scripted import Looking, Scripted, uniform
from jrh_mlflow.judges.shortcuts import (
    SHORTCUTS,
    CapitalCount,
    CharacterCount,
    CharacterNgrams,
    Compression,
    DigitCount,
    HedgeCount,
    NegationCount,
    RareWords,
    RubricOverlap,
    SentenceCount,
    Shortcut,
    TfidfCosine,
    TypeTokenRatio,
    WordOverlap,
    WordPairs,
)
from jrh_mlflow.perturb import written_by
from jrh_mlflow.schema.criteria import Criterion, criterion
from jrh_mlflow.schema.items import (
    BASELINE,
    DELTA_0,
    DELTA_0_SAME,
    LADDER,
    LADDERS,
    LEVEL_CONDITIONS,
    VACUUM,
    Call,
    Item,
)
from jrh_mlflow.schema.presentation import Presentation

if TYPE_CHECKING:
    from jrh_mlflow.suites.suite import Suite

__all__ = [
    "SHORTCUTS",
    "AlwaysFirst",
    "AlwaysTie",
    "CapitalCount",
    "CharacterCount",
    "CharacterNgrams",
    "Compression",
    "DigitCount",
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


def from_definition(definition: Mapping[str, Any]) -> Scripted:
    """Make the scripted judge again that a definition is of.

    Raises:
        RecipeError: for a class that this version does not have.
    """
    name, arguments = definition["class"], dict(definition["arguments"])
    made = globals().get(name) if name in __all__ else None
    if not (isinstance(made, type) and issubclass(made, Scripted)):
        raise RecipeError(f"There is no scripted judge {name!r} in this version of jrh_mlflow: update it.")
    for steps in _BY_STEP:
        arguments |= {steps: dict(map(tuple, arguments[steps]))} if steps in arguments else {}
    judge = made(**arguments)
    judge.name, judge.tie_criterion = definition["name"], Criterion(**definition["tie_criterion"])
    return judge


def named_arguments(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all arguments of a scripted judge: those that the version which wrote it did not know by their default."""
    try:
        return from_definition(definition).arguments()
    except (RecipeError, TypeError, ValueError):
        # Of a class that this version does not have, or has otherwise, nobody knows the defaults.
        return dict(definition["arguments"])


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

    def __init__(self) -> None:
        super().__init__()
        self._labels: dict[tuple[str, str], str] = {}

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
        self._most = max((item.delta or 0.0 for item in suite.items if item.condition in LEVEL_CONDITIONS), default=0.0)

    def answer(self, call: Call) -> str:
        """Look the better content or the expected label up; where neither is known, say the lowest label."""
        if call.item.condition in LEVEL_CONDITIONS:
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


class Noisy(Scripted):
    """Answers at random with known rates; the truth that `jrh validate` compares estimates with.

    A draw is a hash of seed, item, order and replicate, so a run is repeatable call by call.
    """

    def __init__(
        self,
        *,
        dark_current: float = 0.1,
        stable: float = 0.1,
        positional: float = 0.2,
        one_sided: float = 0.1,
        sensitivity: Mapping[float, float] | None = None,
        matched: Mapping[float, float] | None = None,
        tie: float = 0.1,
        filler: float = 0.5,
        unparsed: float = 0.0,
        icc: float = 0.0,
        seed: int = 0,
    ) -> None:
        """Set the rates.

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
        super().__init__()
        self.dark_current, self.filler, self.unparsed = dark_current, filler, unparsed
        self.delta_0 = (stable, positional, one_sided, 1 - stable - positional - one_sided)
        self.sensitivity = dict(sensitivity or {1.0: 0.6, 2.0: 0.7, 3.0: 0.8, 4.0: 0.88, 5.0: 0.94})
        self.matched = dict(matched or self.sensitivity)
        self.tie, self.icc, self.seed = tie, icc, seed
        rates = (dark_current, filler, unparsed, tie, *self.delta_0, *self.sensitivity.values(), *self.matched.values())
        if not all(0 <= rate <= 1 for rate in rates) or not 0 <= icc < 1:
            raise ValueError(f"Rates must lie in [0, 1] and their sum on delta 0 too, but got {rates=}, {icc=}.")

    def settings(self) -> dict[str, object]:
        """Name every rate."""
        stable, positional, one_sided, _ = self.delta_0
        return super().settings() | {
            "dark_current": self.dark_current,
            "stable": stable,
            "positional": positional,
            "one_sided": one_sided,
            "sensitivity": ", ".join(f"{step:g}: {rate:g}" for step, rate in self.sensitivity.items()),
            "matched": ", ".join(f"{step:g}: {rate:g}" for step, rate in self.matched.items()),
            "tie": self.tie,
            "filler": self.filler,
            "unparsed": self.unparsed,
            "icc": self.icc,
            "seed": self.seed,
        }

    def arguments(self) -> dict[str, Any]:
        """Every rate; rates by step as pairs, for the names of JSON are texts."""
        stable, positional, one_sided, _ = self.delta_0
        plain = ("dark_current", "tie", "filler", "unparsed", "icc", "seed")
        return {
            **{name: getattr(self, name) for name in plain},
            **{"stable": stable, "positional": positional, "one_sided": one_sided},
            **{name: [[*pair] for pair in getattr(self, name).items()] for name in _BY_STEP},
        }

    def answer(self, call: Call) -> str:
        """Draw an answer with the rates of the item's condition."""
        item = call.item
        if item.condition in LEVEL_CONDITIONS:
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
        stable, positional, one_sided, _ = self._rates(call.item.task, call.item.condition, self.delta_0)
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
        right = (self.sensitivity if item.condition == LADDER else self.matched).get(item.delta or 0.0)
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

    concentration = (1 - icc) / icc
    draws = [
        float(gammaincinv(mean * concentration, uniform(seed, task, what, part))) if mean > 0 else 0.0
        for part, mean in enumerate(means)
    ]
    return tuple(draw / sum(draws) for draw in draws)


class Grader(_Informed):
    """Gives the expected label with a known chance, and otherwise the next one.

    Draws are a hash of seed and item, so a run is repeatable call by call and replicates agree unless `flip` says
    otherwise. Where only a direction is expected it goes that way: down one label per dose of `error_injection`.
    """

    def __init__(
        self,
        *,
        accuracy: float = 0.9,
        tests: Mapping[str, float] | None = None,
        flip: float = 0.0,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        """Set the rates.

        Args:
            accuracy: Chance of the expected label where `tests` says nothing, the baseline included.
            tests: Test to the chance of the expected label.
            flip: Chance that a single call is drawn anew, whatever the other replicates said.
            seed: Of all draws.
            name: What the judge is called.
        """
        super().__init__()
        self.name = name or self.name
        self.accuracy, self.tests, self.flip, self.seed = accuracy, dict(tests or {}), flip, seed
        rates = (accuracy, flip, *self.tests.values())
        if not all(0 <= rate <= 1 for rate in rates):
            raise ValueError(f"Rates must lie in [0, 1], but got {rates=}.")

    def settings(self) -> dict[str, object]:
        """Name every rate."""
        return super().settings() | {
            "accuracy": self.accuracy,
            "tests": ", ".join(f"{name}: {rate:g}" for name, rate in self.tests.items()) or None,
            "flip": self.flip,
            "seed": self.seed,
        }

    def arguments(self) -> dict[str, Any]:
        """Every rate."""
        return {"accuracy": self.accuracy, "tests": self.tests, "flip": self.flip, "seed": self.seed}

    def answer(self, call: Call) -> str:
        """Draw an answer with the rate of the item's test."""
        answers, item = call.presentation.answers, call.item
        again = uniform(self.seed, item.id, call.replicate, "again") < self.flip
        draw = uniform(self.seed, item.id, call.replicate if again else "", "right")
        right = answers.index(self._expected(call))
        if draw < self.tests.get(item.condition, self.accuracy):
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
