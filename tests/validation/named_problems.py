"""Problems that a verdict names: each judge gets its own and no others, at a limit none is named, a large one is found.

Judges of known behaviour answer whole suites (`NAMED`). Others are drawn: what they do with the two orders of a pair is
a distribution for each kind of pair, and every task has one of its own around it (Dirichlet, of this intraclass
correlation). Their calls are put into the table of a suite, read by the axes and judged by `findings`, as those of any
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd

from jrh_mlflow.judges.scripted import AlwaysFirst, AlwaysTie, LongerWins, Oracle, Scripted, uniform
from jrh_mlflow.measures.axes import Basis, declared
from jrh_mlflow.measures.records import call_table, normalise, pair_table
from jrh_mlflow.measures.verdict import findings, limit_of
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import DELTA_0, FILLER, LADDER, VACUUM, Call
from jrh_mlflow.scoring.ledger import Resampling, Units, mean_value
from jrh_mlflow.show.results import measure
from jrh_mlflow.stats import Array, Codes, Mask, Texts
from jrh_mlflow.suites import Suite, datasheet_suite
from tests.validation import loop
from tests.validation.simulated_judges import Judgments, asked_calls, true_mean

Problems = frozenset[str]

# --- judges by name


@dataclass(eq=False, repr=False)
class Coin(Scripted):
    """Takes slot 1 or slot 2 by chance, whatever it is asked."""

    seed: int

    def answer(self, call: Call) -> str:
        """Toss."""
        return "1" if uniform(self.seed, call.item.id, call.order, call.replicate) < 0.5 else "2"


class AlwaysSecond(Scripted):
    """Prefers slot 2."""

    def answer(self, call: Call) -> str:
        """Answer slot 2."""
        return "2"


@dataclass(eq=False, repr=False)
class HonestTier(Oracle):
    """Calls equal what is equal, and now and then a small difference too."""

    seed: int

    def answer(self, call: Call) -> str:
        """Look the better content up; miss a tenth of the smallest differences."""
        missed = call.item.delta == 1 and uniform(self.seed, call.item.id, call.order) < 0.1
        return "tie" if missed else super().answer(call)


@cache
def _suite(name: str) -> Suite:
    return load_suite(name)


def _answers(judge: Callable[[int], Scripted], suite: str, seed: int) -> Problems:
    return _named(measure(asked_calls(judge(seed), _suite(suite)), n_resamples=20).estimates)


def _named(estimates: Mapping[str, Reading]) -> Problems:
    return frozenset(finding.axis for finding in findings(estimates) if finding.state == "problem")


LAYOUTS = ("format_invariance_1", "format_invariance_2", "format_invariance_3")
_LABELS = ("no", "yes")


def _grades(answer: Callable[[str, Mask, loop.Rng], Mask], seed: int) -> Problems:
    """Ask a grader twice about each of 150 sources as it is, with another layout, and with a claim of authority."""
    rng, n = np.random.default_rng(seed), 150
    good = np.arange(n) % 2 == 0
    tests = [
        pd.DataFrame(
            {
                "suite_item": [f"s{number}/{test}" for number in range(n)],
                "task": [f"s{number}" for number in range(n)],
                "condition": test,
                "delta": None,
                "order": "",
                "better": "",
                "replicate": replicate,
                "outcome": "verdict",
                "answer": np.where(answer(test, good, rng), *_LABELS[::-1]),
                "expected": np.where(good, *_LABELS[::-1]),
            }
        )
        for test, replicate in product(("baseline", *LAYOUTS, "authority"), range(2))
    ]
    return _named(measure(pd.concat(tests, ignore_index=True), labels=_LABELS, n_resamples=20).estimates)


def _flipping(test: str, good: Mask, rng: loop.Rng) -> Mask:
    return good ^ (rng.random(len(good)) < 0.1)


def _obeying(test: str, good: Mask, rng: loop.Rng) -> Mask:
    return good | (test == "authority")


def _constant(test: str, good: Mask, rng: loop.Rng) -> Mask:
    return np.zeros(len(good), dtype=bool)


_PLACE = ("slot_lean", "slot_lean/vacuum", "positional_excess")
_SIDES = ("dark_current", "raw_false_preference")
_JUDGES: Mapping[str, tuple[Callable[[int], Problems], tuple[str, ...]]] = {
    "coin": (partial(_answers, Coin, "datasheet"), (*_SIDES, "ability")),
    "AlwaysFirst": (partial(_answers, lambda _: AlwaysFirst(), "datasheet"), (*_PLACE, *_SIDES, "ability")),
    "AlwaysSecond": (partial(_answers, lambda _: AlwaysSecond(), "datasheet"), (*_PLACE, *_SIDES, "ability")),
    "LongerWins": (
        partial(_answers, lambda _: LongerWins(), "datasheet"),
        ("raw_false_preference", "positional_excess", "padding_lean", "ability"),
    ),
    "Oracle": (partial(_answers, lambda _: Oracle(), "datasheet"), ()),
    "honest tier": (partial(_answers, HonestTier, "datasheet"), ()),
    "one answer to every source": (partial(_grades, _constant), ("constant_answer",)),
    "one answer at every level": (
        partial(_answers, lambda _: AlwaysFirst(), "pointwise-datasheet"),
        ("constant_answer", "pointwise/separation/delta_5", "pointwise/matched_separation/delta_5"),
    ),
    "grader that flips 10 %": (partial(_grades, _flipping), ()),
    "grader that obeys authority": (partial(_grades, _obeying), ("noise_excess/authority", "drop/authority")),
}
"""Judge to what it does, and the problems that it has, and no others."""
EXPECTED: Mapping[str, Problems] = {judge: frozenset(problems) for judge, (_, problems) in _JUDGES.items()}
_BY_CHANCE = ("coin", "honest tier", "grader that flips 10 %")


def _problems_of(judge: str, batch: loop.Batch) -> Iterator[Problems]:
    # Without chance every run is the first.
    return map(_JUDGES[judge][0], batch.seeds if judge in _BY_CHANCE else batch.seeds[:1])


def _own_problems(judge: str, runs: Sequence[Problems]) -> Iterator[loop.DecisionCheck]:
    own = float(np.mean([run == EXPECTED[judge] for run in runs]))
    beside = {"another named": float(np.mean([bool(run - EXPECTED[judge]) for run in runs]))}
    least = 1 - loop.ALPHA if judge in _BY_CHANCE else 1.0
    yield loop.decision_check("its own problems, and no others", judge, own, len(runs), at_least=least, beside=beside)


# --- judges that are drawn

_ICCS = (0.0, 0.3, 0.6)
_KINDS: Mapping[str, tuple[str, ...]] = {
    "dark_current": ("vacuum",),
    "slot_lean/vacuum": ("vacuum",),
    "raw_false_preference": ("equal",),
    "slot_lean": ("equal",),
    "positional_excess": ("equal",),
    "padding_lean": ("padding",),
    "miss_by_tie/delta_1": ("step 1",),
    "ability": ("ladder",),
    "reading": ("ladder", "matched"),
}
"""What a verdict on pairs looks at, to the kinds of pairs behind it."""
_TIES: Judgments = {("tie", "tie"): 1.0}
_BETTER: Judgments = {("u", "u"): 1.0}
_FAULTLESS: Mapping[str, Judgments] = {
    **dict.fromkeys(("vacuum", "equal", "padding"), _TIES),
    **dict.fromkeys(("step 1", "ladder", "matched"), _BETTER),
}
"""Kind of pair to what is done with its two orders, where u is the better content."""


@dataclass(frozen=True, kw_only=True)
class DrawnJudge:
    """What a judge does with pairs, and how much tasks differ."""

    name: str
    does: Mapping[str, Judgments]
    """Kind of pair to what is done; without a fault where it is not named."""
    icc: float = 0.0
    suite: str = "datasheet"

    def __str__(self) -> str:
        """Name the judge, the suite and how calls of a task hang together."""
        return f"{self.name}, {self.suite}, ICC {self.icc:g}"

    def judgments(self, kind: str) -> Judgments:
        """Return what is done with a kind of pair."""
        return self.does.get(kind, _FAULTLESS[kind])

    def truth(self, key: str) -> float:
        """Return what an axis would read with infinitely many tasks."""
        if key == "reading":
            right = declared("target_sensitivity/delta_1")
            return true_mean(right, self.judgments("ladder")) - true_mean(right, self.judgments("matched"))
        return true_mean(declared(key), self.judgments(_KINDS[key][0]))

    def has(self, key: str) -> bool:
        """Whether the truth lies beyond the limit."""
        limit = limit_of(key)
        return limit is not None and limit.beyond(self.truth(key)) > 1e-9


class DrawnSheet:
    """The calls of a suite, to be answered by drawn judges."""

    def __init__(self, suite: Suite) -> None:
        self._table = call_table(normalise(asked_calls(AlwaysTie(), suite)))
        rows = pair_table(self._table).rows
        kinds = np.vectorize(_kind_of)(self._table.condition, self._table.delta)
        self._pairs = {kind: rows[kinds[rows[:, 0]] == kind] for kind in _FAULTLESS}
        where = {key: declared(key).where(self._table.condition, self._table.delta)[key] for key in _KINDS}
        self._same: dict[tuple[str, object], Reading] = {}
        self._calls = {key: self._table.where(own) for key, own in where.items() if own.any()}

    def readings(self, judge: DrawnJudge, keys: Iterable[str], rng: loop.Rng) -> dict[str, Reading]:
        """Let a judge answer, and read the axes."""
        choice = np.full(len(self._table.row), "tie", dtype=object)
        for kind, rows in self._pairs.items():
            choice[rows] = self._drawn(judge.judgments(kind), rows, judge.icc, rng)
        return {key: self._known(key, judge, choice) for key in keys if key in self._calls}

    def _known(self, key: str, judge: DrawnJudge, choice: Texts) -> Reading:
        """Read an axis; once only where the judge does the same with every pair behind it."""
        behind = tuple(tuple(judge.judgments(kind)) for kind in _KINDS[key])
        if any(len(judgments) > 1 for judgments in behind):
            return self._reading(key, choice)
        if (key, behind) not in self._same:
            self._same[key, behind] = self._reading(key, choice)
        return self._same[key, behind]

    def _drawn(self, judgments: Judgments, rows: Codes, icc: float, rng: loop.Rng) -> Texts:
        both, chances = np.array(list(judgments), dtype=object), np.array(list(judgments.values()))
        of_task = np.tile(chances, (self._table.n_tasks, 1))
        if icc and len(both) > 1:
            of_task = rng.standard_gamma(of_task * (1 - icc) / icc)
            of_task /= of_task.sum(axis=1, keepdims=True)
        below = np.cumsum(of_task, axis=1)[self._table.task[rows[:, 0]], :-1]
        choices = both[(rng.random(len(rows))[:, None] > below).sum(axis=1)]
        # What is done is told of pairs in which u is the better content.
        turned = (self._table.better[rows[:, 0]] == "v")[:, None] & (choices != "tie")
        return np.where(turned, np.where(choices == "u", "v", "u"), choices)

    def _reading(self, key: str, choice: Texts) -> Reading:
        axis, calls = declared(key), self._calls[key]
        calls = replace(calls, choice=choice[calls.row])
        if axis.derived is None:
            return axis.share(pair_table(calls) if axis.unit == "pair" else calls, key)
        every = replace(self._table, choice=choice)
        basis = Basis(stimuli=axis.stimuli, calls=calls, what=key, every=every, found={}, resampling=Resampling())
        reading = axis.derived(basis)
        assert reading is not None
        return reading


def _kind_of(condition: str, delta: float) -> str:
    if condition == LADDER:
        return "step 1" if delta == 1 else "ladder"
    kinds = {**dict.fromkeys(VACUUM, "vacuum"), **dict.fromkeys(DELTA_0, "equal"), FILLER: "padding"}
    return kinds.get(condition, "matched")


@cache
def _sheet(suite: str) -> DrawnSheet:
    return DrawnSheet(datasheet_suite(n_tasks=10) if suite == _TEN_TASKS else _suite(suite))


_TEN_TASKS = "10 tasks"
_SEES = Estimate(
    value=1, n=1, excluded=0, ci_low=None, ci_high=None, cluster_low=None, cluster_high=1, n_clusters=28, method=""
)
"""A threshold within the ladder: only then is it said of a judge that it counts words."""


def _drawn_problems(judge: DrawnJudge, batch: loop.Batch) -> Iterator[Problems]:
    rng, sheet = batch.rng(judge), _sheet(judge.suite)
    return (_named({**sheet.readings(judge, _KINDS, rng), "threshold_75": _SEES}) for _ in batch.runs)


def _false_check(judge: DrawnJudge, runs: Sequence[Problems]) -> Iterator[loop.DecisionCheck]:
    own = frozenset(key for key in _KINDS if judge.has(key))
    falsely, rightly = (
        float(np.mean([test(run) for run in runs])) for test in (lambda run: bool(run - own), own.issubset)
    )
    beside = {"its own found": rightly, "its own": float(len(own))}
    yield loop.decision_check(
        "problem named that is none", judge, falsely, len(runs), at_most=loop.ALPHA, beside=beside
    )


def _share(kind: tuple[str, str], share: float, other: tuple[str, str] = ("tie", "tie")) -> Judgments:
    return {kind: share, other: 1 - share}


_FIRST, _SECOND, _PADDED, _PLAIN = ("u", "v"), ("v", "u"), ("v", "v"), ("u", "u")


def _at_part(part: float, *, able: float, same_words: float) -> Mapping[str, Judgments]:
    """Return a judge at a part of every limit, and how often it is right on the two ladders."""
    return {
        "vacuum": _share(_FIRST, 0.1 * part),
        "equal": _share(_FIRST, 0.1 * part),
        "padding": _share(_PADDED, 0.15 * part),
        "step 1": _share(("tie", "tie"), 0.25 * part, _PLAIN),
        "ladder": _share(_PLAIN, able, _PADDED),
        "matched": _share(_PLAIN, same_words, _PADDED),
    }


_IN_VACUUM = {"vacuum": {_FIRST: 1.0}}
"""Two problems: a side where there is nothing to judge, and always the first."""
_ELSEWHERE = {"padding": {_PADDED: 1.0}, "step 1": _TIES}
"""Two others."""
_AT_LIMITS: Mapping[str, Mapping[str, Judgments]] = {
    "half of every limit": _at_part(0.5, able=0.9, same_words=0.775),
    "every limit": _at_part(1, able=0.7, same_words=0.45),
    "every lean, no ties": {
        "vacuum": _share(_FIRST, 0.55, _SECOND),
        "equal": {_FIRST: 0.325, _SECOND: 0.225, _PLAIN: 0.225, _PADDED: 0.225},
        "padding": _share(_PADDED, 0.575, _PLAIN),
    },
    "slot lean, no ties": {"equal": _share(_FIRST, 0.55, _SECOND)},
    "slot lean, wording else": {"equal": {_FIRST: 0.1, _PLAIN: 0.45, _PADDED: 0.45}},
    "positional excess, no ties": {
        "equal": {_FIRST: 0.275, _SECOND: 0.275, _PLAIN: 0.225, _PADDED: 0.225},
        **_ELSEWHERE,
    },
    "dark current beside two": {"vacuum": _share(_PLAIN, 0.1), **_ELSEWHERE},
    "vacuum lean, no ties": {"vacuum": _share(_FIRST, 0.55, _SECOND), **_ELSEWHERE},
    "raw false preference beside two": {
        "equal": {("u", "tie"): 0.1, ("tie", "u"): 0.1, ("tie", "tie"): 0.8},
        **_IN_VACUUM,
    },
    "padding lean beside two": {"padding": _share(_PADDED, 0.15), **_IN_VACUUM},
    "padding lean, no ties, beside two": {"padding": _share(_PADDED, 0.575, _PLAIN), **_IN_VACUUM},
    "misses by tie beside two": {"step 1": _share(("tie", "tie"), 0.25, _PLAIN), **_IN_VACUUM},
    "ability by guesses beside two": {
        "ladder": _share(_PLAIN, 0.7, _PADDED),
        "matched": _share(_PLAIN, 0.7, _PADDED),
        **_IN_VACUUM,
    },
    "ability by ties beside two": {"ladder": _share(_PLAIN, 0.4), "matched": _share(_PLAIN, 0.4), **_IN_VACUUM},
    "reading beside two": {"matched": _share(_PLAIN, 0.75, _PADDED), **_IN_VACUUM},
}
"""Judges at a limit: by its place in the name, alone or beside two problems that they have."""
_LIMITED = tuple(DrawnJudge(name=name, does=does, icc=icc) for (name, does), icc in product(_AT_LIMITS.items(), _ICCS))


# --- how large a problem must be to be found

_SIZES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_FOUND = 0.7
"""What must be found,"""
_OFTEN = 0.9
"""in so many runs."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """An axis, and how calls of a task hang together."""

    key: str
    icc: float = 0.0

    def __str__(self) -> str:
        """Name both."""
        return f"{self.key}, ICC {self.icc:g}"

    def judge(self, size: float) -> DrawnJudge:
        """Return a judge that reads this size on the axis (1 minus it on ability) and never ties by a lean."""
        wrong, side = _share(_PADDED, size, _PLAIN), _orders(size)
        does: Mapping[str, Mapping[str, Judgments]] = {
            "dark_current": {"vacuum": _share(_PLAIN, size)},
            "slot_lean/vacuum": {"vacuum": side},
            "raw_false_preference": {"equal": {_FIRST: size / 2, _PLAIN: size / 2, ("tie", "tie"): 1 - size}},
            "slot_lean": {"equal": side},
            "positional_excess": {"equal": _share(_FIRST, (1 + size) / 2, _PLAIN)},
            "padding_lean": {"padding": {(uv, _OTHER[vu]): share for (uv, vu), share in _orders(-size).items()}},
            "miss_by_tie/delta_1": {"step 1": _share(("tie", "tie"), size, _PLAIN)},
            "ability": {"ladder": wrong, "matched": wrong},
            "reading": {"matched": wrong},
        }
        return DrawnJudge(name=f"{self.key} {size:g}", does=does[self.key], icc=self.icc)


_OTHER = {"u": "v", "v": "u"}


def _orders(lean: float) -> Judgments:
    """Take slot 1 with a chance of `(1 + lean) / 2`, in each order by itself."""
    first = (1 + lean) / 2
    return {_FIRST: first**2, _PLAIN: first * (1 - first), _PADDED: first * (1 - first), _SECOND: (1 - first) ** 2}


def _found(effect: Effect, batch: loop.Batch) -> Iterator[list[bool]]:
    """Per run: whether each of the sizes is found."""
    runs = [_drawn_problems(effect.judge(size), batch) for size in _SIZES]
    return ([effect.key in problems for problems in sizes] for sizes in zip(*runs, strict=True))


def _found_check(effect: Effect, runs: Sequence[Sequence[bool]]) -> Iterator[loop.DecisionCheck]:
    shares = dict(zip(_SIZES, np.mean(runs, axis=0).tolist(), strict=True))
    beside = {f"{size:g}": share for size, share in shares.items()}
    yield loop.decision_check(f"found at {_FOUND:g}", effect, shares[_FOUND], len(runs), at_least=_OFTEN, beside=beside)


_NOISE = Effect(key="noise_excess/authority")
_EFFECTS = tuple(Effect(key=key, icc=icc) for key, icc in product(_KINDS, _ICCS))
_N_SOURCES, _N_TESTS, _OWN_NOISE = 150, 9, 0.05


def _noise_found(world: Effect, batch: loop.Batch) -> Iterator[list[bool]]:
    """Per run: whether a noise excess of each size is found among nine tests that keep and nine that have a label."""
    rng = batch.rng(world)
    sources = Units(
        what="sources",
        unit="item",
        usable=np.ones(_N_SOURCES, dtype=bool),
        clusters=np.arange(_N_SOURCES),
        n_codes=_N_SOURCES,
        left_out={},
    )
    none = mean_value(sources, np.zeros(_N_SOURCES))
    others = {f"{kind}/{number}": none for kind, number in product(("noise_excess", "drop"), range(_N_TESTS))}
    for _ in batch.runs:
        readings = (mean_value(sources, _noise(size, rng)) for size in _SIZES)
        yield [world.key in _named({**others, world.key: reading}) for reading in readings]


def _noise(size: float, rng: loop.Rng) -> Array:
    """Draw values of sources that are asked twice as they are and twice changed."""
    keeps = 1 - 2 * _OWN_NOISE
    # Asked twice, two answers differ by noise alone in 2 e (1 - e) of sources: a change is seen in the rest only.
    moved = rng.random((_N_SOURCES, 1)) < size / keeps**2
    plain, changed = (rng.random((_N_SOURCES, 2)) < _OWN_NOISE for _ in range(2))
    changed = changed ^ moved
    values: Array = (plain[:, 0] == plain[:, 1]) - (plain[:, :, None] == changed[:, None, :]).mean(axis=(1, 2))
    return values


# --- how often intervals hold

_COVERED = ("slot_lean", "positional_excess", "padding_lean", "ability")
_LEVELS = {0.95: 0.93, 0.99: 0.98}
"""Level to the least coverage."""


def _shape(first: float, second: float, plain: float, padded: float) -> Mapping[str, Judgments]:
    """Return the same four shares for equal pairs, padding pairs and the ladder; what is left are ties."""
    ties = max(0.0, 1 - first - second - plain - padded)
    equal = {_FIRST: first, _SECOND: second, _PLAIN: plain, _PADDED: padded, ("tie", "tie"): ties}
    turned = {_PADDED: first, _PLAIN: second, _FIRST: plain, _SECOND: padded, ("tie", "tie"): ties}
    ladder = {_PLAIN: first, _PADDED: second, _FIRST: plain, _SECOND: padded, ("tie", "tie"): ties}
    return {"equal": equal, "padding": turned, "ladder": ladder}


_COVERAGES = tuple(
    DrawnJudge(name="/".join(f"{share:g}" for share in shape), does=_shape(*shape), icc=icc, suite=suite)
    for shape, suite, icc in product(
        (
            (0.1, 0.0, 0.0, 0.0),
            (0.3, 0.0, 0.0, 0.0),
            (0.25, 0.25, 0.25, 0.25),
            (0.55, 0.45, 0.0, 0.0),
            (0.5, 0.0, 0.5, 0.0),
            (0.85, 0.15, 0.0, 0.0),
            (0.97, 0.03, 0.0, 0.0),
        ),
        ("datasheet", _TEN_TASKS, "datasheet-paper"),
        _ICCS,
    )
)


def _held(judge: DrawnJudge, batch: loop.Batch) -> Iterator[dict[tuple[str, float], bool]]:
    """Per run: whether each interval holds the truth."""
    rng, sheet, truths = batch.rng(judge), _sheet(judge.suite), {key: judge.truth(key) for key in _COVERED}
    for _ in batch.runs:
        readings = sheet.readings(judge, _COVERED, rng)
        yield {
            (key, level): _holds(reading, level, truths[key]) for key, reading in readings.items() for level in _LEVELS
        }


def _holds(reading: Reading, level: float, truth: float) -> bool:
    assert isinstance(reading, Estimate)
    assert reading.at_level is not None
    ends = reading.at_level(level)
    # To the last digit, an end that is the truth on paper may miss it.
    return ends is not None and ends[0] - 1e-9 <= truth <= ends[1] + 1e-9


def _held_checks(judge: DrawnJudge, runs: Sequence[Mapping[tuple[str, float], bool]]) -> Iterator[loop.DecisionCheck]:
    for key, level in runs[0]:
        share = float(np.mean([run[key, level] for run in runs]))
        beside = {"truth": judge.truth(key)}
        yield loop.decision_check(
            f"{key} held at {level:.0%}", judge, share, len(runs), at_least=_LEVELS[level], beside=beside
        )


_sim = partial(loop.Simulation, batch=50)
NAMED = _sim(
    worlds=loop.listed(tuple(EXPECTED), quick=tuple(EXPECTED)), ask=_problems_of, checks=_own_problems, part=5, least=20
)
AT_LIMITS = _sim(
    worlds=loop.listed(_LIMITED, quick=_LIMITED[4:5]), ask=_drawn_problems, checks=_false_check, part=2, least=10
)
EFFECTS = _sim(worlds=loop.listed(_EFFECTS, quick=_EFFECTS[16:17]), ask=_found, checks=_found_check, part=5, least=10)
NOISE = _sim(worlds=loop.listed((_NOISE,), quick=(_NOISE,)), ask=_noise_found, checks=_found_check, part=5, least=10)
COVERAGES = _sim(worlds=loop.listed(_COVERAGES, quick=_COVERAGES[17:18]), ask=_held, checks=_held_checks)
_SIMULATIONS = (NAMED, AT_LIMITS, EFFECTS, NOISE, COVERAGES)
PART = loop.Part(word="findings", key="findings", simulations=_SIMULATIONS, text=loop.decisions_text)
