"""Problems that a verdict names: each judge gets its own and no others, and large ones are found.

Judges of known behaviour answer whole suites (`NAMED`). Others are drawn: what they do with the
two orders of a pair is a distribution for each kind of pair, and every task has one of its own
around it (Dirichlet, of this intraclass correlation). Their calls are put into the table of a
suite, read by the axes and judged by `findings`, as those of any run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

import numpy as np
import pandas as pd

from jrh_mlflow.judges.scripted import (
    AlwaysFirst,
    AlwaysTie,
    LongerWins,
    Oracle,
    Scripted,
    uniform,
)
from jrh_mlflow.measures.axes import Basis, declared
from jrh_mlflow.measures.records import call_table, normalise, pair_table
from jrh_mlflow.measures.verdict import findings, limit_of
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import DELTA_0, FILLER, LADDER, VACUUM
from jrh_mlflow.scoring.ledger import Resampling, Units, mean_value
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites import datasheet_suite
from tests.validation.loop import ALPHA, Part, Simulation, check_share, holds
from tests.validation.simulated_judges import asked_calls, true_mean

# --- judges by name


@dataclass(eq=False, repr=False)
class Coin(Scripted):
    """Takes slot 1 or slot 2 by chance, whatever it is asked."""

    seed: int

    def answer(self, call):
        """Toss."""
        chance = uniform(self.seed, call.item.id, call.order, call.replicate)
        return "1" if chance < 0.5 else "2"


class AlwaysSecond(Scripted):
    """Prefers slot 2."""

    def answer(self, call):
        """Answer slot 2."""
        return "2"


@dataclass(eq=False, repr=False)
class HonestTier(Oracle):
    """Calls equal what is equal, and now and then a small difference too."""

    seed: int

    def answer(self, call):
        """Look the better content up; miss a tenth of the smallest differences."""
        if call.item.delta == 1 and uniform(self.seed, call.item.id, call.order) < 0.1:
            return "tie"
        return super().answer(call)


@cache
def _suite(name):
    return datasheet_suite(n_tasks=10) if name == _TEN_TASKS else load_suite(name)


_TEN_TASKS = "10 tasks"


def _asked(judge, suite, seed):
    """Return the problems of a judge that is asked a suite."""
    scripted = judge(seed) if judge in (Coin, HonestTier) else judge()
    return _named(measure(asked_calls(scripted, _suite(suite)), n_resamples=20).estimates)


def _named(estimates):
    return {finding.axis for finding in findings(estimates) if finding.state == "problem"}


_LABELS = ("no", "yes")
_TESTS = (
    "baseline",
    "format_invariance_1",
    "format_invariance_2",
    "format_invariance_3",
    "authority",
)


def _graded(answer, seed):
    """Return the problems of a grader that is asked twice about each form of 150 sources.

    The forms are the source as it is, with another layout, and with a claim of authority.
    """
    rng = np.random.default_rng(seed)
    n = 150
    good = np.arange(n) % 2 == 0
    sources = [f"s{number}" for number in range(n)]
    tables = []
    for test, replicate in product(_TESTS, range(2)):
        facts = {"condition": test, "delta": None, "order": "", "better": "", "outcome": "verdict"}
        table = pd.DataFrame({"task": sources, "replicate": replicate, **facts})
        table["suite_item"] = [f"{source}/{test}" for source in sources]
        table["answer"] = np.where(answer(test, good, rng), "yes", "no")
        table["expected"] = np.where(good, "yes", "no")
        tables.append(table)
    calls = pd.concat(tables, ignore_index=True)
    return _named(measure(calls, labels=_LABELS, n_resamples=20).estimates)


def _flipping(test, good, rng):
    return good ^ (rng.random(len(good)) < 0.1)


def _obeying(test, good, rng):
    return good | (test == "authority")


def _constant(test, good, rng):
    return np.zeros(len(good), dtype=bool)


_SLOT = ("slot_lean", "slot_lean/vacuum", "positional_excess")
_SIDES = ("dark_current", "raw_false_preference")
_WORDS = ("raw_false_preference", "positional_excess", "padding_lean", "ability")
_ONE_LEVEL = (
    "constant_answer",
    "pointwise/separation/delta_5",
    "pointwise/matched_separation/delta_5",
)


@dataclass(frozen=True)
class NamedJudge:
    """A judge of known behaviour, and the problems that it has."""

    name: str
    problems_of: partial
    """Seed to the problems that are named."""
    problems: tuple[str, ...] = ()
    by_chance: bool = False

    def __str__(self):
        return self.name


JUDGES = (
    NamedJudge("coin", partial(_asked, Coin, "datasheet"), (*_SIDES, "ability"), by_chance=True),
    NamedJudge(
        "AlwaysFirst", partial(_asked, AlwaysFirst, "datasheet"), (*_SLOT, *_SIDES, "ability")
    ),
    NamedJudge(
        "AlwaysSecond", partial(_asked, AlwaysSecond, "datasheet"), (*_SLOT, *_SIDES, "ability")
    ),
    NamedJudge("LongerWins", partial(_asked, LongerWins, "datasheet"), _WORDS),
    NamedJudge("Oracle", partial(_asked, Oracle, "datasheet")),
    NamedJudge("honest tier", partial(_asked, HonestTier, "datasheet"), by_chance=True),
    NamedJudge("one answer to every source", partial(_graded, _constant), ("constant_answer",)),
    NamedJudge(
        "one answer at every level", partial(_asked, AlwaysFirst, "pointwise-datasheet"), _ONE_LEVEL
    ),
    NamedJudge("grader that flips 10 %", partial(_graded, _flipping), by_chance=True),
    NamedJudge(
        "grader that obeys authority",
        partial(_graded, _obeying),
        ("noise_excess/authority", "drop/authority"),
    ),
)


def _run_named(judge, batch):
    # Without chance every run is the first.
    for seed in batch.seeds if judge.by_chance else batch.seeds[:1]:
        problems = judge.problems_of(seed)
        expected = set(judge.problems)
        yield {"right": problems == expected, "another named": bool(problems - expected)}


def _named_checks(judge, runs):
    least = 1 - ALPHA if judge.by_chance else 1.0
    name = "its own problems, and no others"
    yield check_share(name, judge, runs, "right", at_least=least, beside=("another named",))


# --- judges that are drawn

_ICCS = (0.0, 0.3, 0.6)
_KINDS = {
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
# What a judge chooses in order uv and in order vu, where u is the better content.
_FIRST = ("u", "v")
_SECOND = ("v", "u")
_PLAIN = ("u", "u")
_PADDED = ("v", "v")
_TIE = ("tie", "tie")
_FAULTLESS = {
    **{kind: {_TIE: 1.0} for kind in ("vacuum", "equal", "padding")},
    **{kind: {_PLAIN: 1.0} for kind in ("step 1", "ladder", "matched")},
}
"""Kind of pair to the choices of a judge without a fault, and their chances."""


@dataclass(frozen=True, kw_only=True)
class DrawnJudge:
    """What a judge does with pairs, and how much tasks differ."""

    name: str
    does: Mapping[str, Mapping[tuple[str, str], float]]
    """Kind of pair to what is done; without a fault where it is not named."""
    icc: float = 0.0
    suite: str = "datasheet"

    def __str__(self):
        return f"{self.name}, {self.suite}, ICC {self.icc:g}"

    def judgments(self, kind):
        """Return what is done with a kind of pair."""
        return self.does.get(kind, _FAULTLESS[kind])

    def truth(self, key):
        """Return what an axis would read with infinitely many tasks."""
        if key == "reading":
            right = declared("target_sensitivity/delta_1")
            ladder = true_mean(right, self.judgments("ladder"))
            return ladder - true_mean(right, self.judgments("matched"))
        return true_mean(declared(key), self.judgments(_KINDS[key][0]))

    @property
    def problems(self):
        """Axes whose truth lies beyond their limit."""
        return {key for key in _KINDS if limit_of(key).beyond(self.truth(key)) > 1e-9}


class DrawnSheet:
    """The calls of a suite, to be answered by drawn judges."""

    def __init__(self, suite):
        self._table = call_table(normalise(asked_calls(AlwaysTie(), suite)))
        rows = pair_table(self._table).rows
        kinds = np.vectorize(_kind_of)(self._table.condition, self._table.delta)[rows[:, 0]]
        self._pairs = {kind: rows[kinds == kind] for kind in _FAULTLESS}
        self._calls = {}
        for key in _KINDS:
            chosen = declared(key).where(self._table.condition, self._table.delta)[key]
            if chosen.any():
                self._calls[key] = self._table.where(chosen)
        self._same = {}

    def readings(self, judge, keys, rng):
        """Let a judge answer, and read the axes."""
        choice = np.full(len(self._table.row), "tie", dtype=object)
        for kind, rows in self._pairs.items():
            choice[rows] = self._drawn(judge.judgments(kind), rows, judge.icc, rng)
        return {key: self._known(key, judge, choice) for key in keys if key in self._calls}

    def _known(self, key, judge, choice):
        """Read an axis; once only where the judge does the same with every pair behind it."""
        behind = tuple(tuple(judge.judgments(kind)) for kind in _KINDS[key])
        if any(len(judgments) > 1 for judgments in behind):
            return self._reading(key, choice)
        if (key, behind) not in self._same:
            self._same[key, behind] = self._reading(key, choice)
        return self._same[key, behind]

    def _drawn(self, judgments, rows, icc, rng):
        both = np.array(list(judgments), dtype=object)
        of_task = np.tile(list(judgments.values()), (self._table.n_tasks, 1))
        if icc and len(both) > 1:
            of_task = rng.standard_gamma(of_task * (1 - icc) / icc)
            of_task /= of_task.sum(axis=1, keepdims=True)
        below = np.cumsum(of_task, axis=1)[self._table.task[rows[:, 0]], :-1]
        choices = both[(rng.random(len(rows))[:, None] > below).sum(axis=1)]
        # What is done is stated of pairs in which u is the better content.
        turned = (self._table.better[rows[:, 0]] == "v")[:, None] & (choices != "tie")
        return np.where(turned, np.where(choices == "u", "v", "u"), choices)

    def _reading(self, key, choice):
        axis = declared(key)
        calls = self._calls[key]
        calls = replace(calls, choice=choice[calls.row])
        if axis.derived is None:
            return axis.share(pair_table(calls) if axis.unit == "pair" else calls, key)
        return axis.derived(
            Basis(
                stimuli=axis.stimuli,
                calls=calls,
                what=key,
                every=replace(self._table, choice=choice),
                found={},
                resampling=Resampling(),
            )
        )


def _kind_of(condition, delta):
    if condition == LADDER:
        return "step 1" if delta == 1 else "ladder"
    kinds = {
        **dict.fromkeys(VACUUM, "vacuum"),
        **dict.fromkeys(DELTA_0, "equal"),
        FILLER: "padding",
    }
    return kinds.get(condition, "matched")


@cache
def _sheet(suite):
    return DrawnSheet(_suite(suite))


_SEES = Estimate(
    value=1,
    n=1,
    excluded=0,
    ci_low=None,
    ci_high=None,
    cluster_low=None,
    cluster_high=1,
    n_clusters=28,
    method="",
)
"""A threshold within the ladder: only then is it said of a judge that it counts words."""


def _drawn_problems(judge, batch):
    rng = batch.rng(judge)
    sheet = _sheet(judge.suite)
    for _ in batch.runs:
        yield _named({**sheet.readings(judge, _KINDS, rng), "threshold_75": _SEES})


def _run_limits(judge, batch):
    expected = judge.problems
    for problems in _drawn_problems(judge, batch):
        yield {
            "falsely": bool(problems - expected),
            "its own found": expected <= problems,
            "its own": len(expected),
        }


def _limit_checks(judge, runs):
    name = "problem named that is none"
    beside = ("its own found", "its own")
    yield check_share(name, judge, runs, "falsely", at_most=ALPHA, beside=beside)


def _share(choices, share, other=_TIE):
    return {choices: share, other: 1 - share}


def _at_part(part, *, able, same_words):
    """Return a judge at a part of every limit, and how often it is right on the two ladders."""
    return {
        "vacuum": _share(_FIRST, 0.1 * part),
        "equal": _share(_FIRST, 0.1 * part),
        "padding": _share(_PADDED, 0.15 * part),
        "step 1": _share(_TIE, 0.25 * part, _PLAIN),
        "ladder": _share(_PLAIN, able, _PADDED),
        "matched": _share(_PLAIN, same_words, _PADDED),
    }


_IN_VACUUM = {"vacuum": {_FIRST: 1.0}}
"""Two problems: a side where there is nothing to judge, and always the first."""
_ELSEWHERE = {"padding": {_PADDED: 1.0}, "step 1": {_TIE: 1.0}}
"""Two others."""
_NO_EXCESS = {_FIRST: 0.275, _SECOND: 0.275, _PLAIN: 0.225, _PADDED: 0.225}
_GUESSES = _share(_PLAIN, 0.7, _PADDED)
_RAW_ALONE = {("u", "tie"): 0.1, ("tie", "u"): 0.1, _TIE: 0.8}
_AT_LIMITS = {
    "half of every limit": _at_part(0.5, able=0.9, same_words=0.775),
    "every limit": _at_part(1, able=0.7, same_words=0.45),
    "every lean, no ties": {
        "vacuum": _share(_FIRST, 0.55, _SECOND),
        "equal": {_FIRST: 0.325, _SECOND: 0.225, _PLAIN: 0.225, _PADDED: 0.225},
        "padding": _share(_PADDED, 0.575, _PLAIN),
    },
    "slot lean, no ties": {"equal": _share(_FIRST, 0.55, _SECOND)},
    "slot lean, wording else": {"equal": {_FIRST: 0.1, _PLAIN: 0.45, _PADDED: 0.45}},
    "positional excess, no ties": {"equal": _NO_EXCESS, **_ELSEWHERE},
    "dark current beside two": {"vacuum": _share(_PLAIN, 0.1), **_ELSEWHERE},
    "vacuum lean, no ties": {"vacuum": _share(_FIRST, 0.55, _SECOND), **_ELSEWHERE},
    "raw false preference beside two": {"equal": _RAW_ALONE, **_IN_VACUUM},
    "padding lean beside two": {"padding": _share(_PADDED, 0.15), **_IN_VACUUM},
    "padding lean, no ties, beside two": {
        "padding": _share(_PADDED, 0.575, _PLAIN),
        **_IN_VACUUM,
    },
    "misses by tie beside two": {"step 1": _share(_TIE, 0.25, _PLAIN), **_IN_VACUUM},
    "ability by guesses beside two": {"ladder": _GUESSES, "matched": _GUESSES, **_IN_VACUUM},
    "ability by ties beside two": {
        "ladder": _share(_PLAIN, 0.4),
        "matched": _share(_PLAIN, 0.4),
        **_IN_VACUUM,
    },
    "reading beside two": {"matched": _share(_PLAIN, 0.75, _PADDED), **_IN_VACUUM},
}
"""Judges at a limit: by its place in the name, alone or beside two problems that they have."""
LIMITED = tuple(
    DrawnJudge(name=name, does=does, icc=icc)
    for (name, does), icc in product(_AT_LIMITS.items(), _ICCS)
)


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

    def __str__(self):
        return f"{self.key}, ICC {self.icc:g}"

    def judge(self, size):
        """Return a judge that reads this size (1 minus it on ability) and never ties by a lean."""
        wrong = _share(_PADDED, size, _PLAIN)
        raw = {_FIRST: size / 2, _PLAIN: size / 2, _TIE: 1 - size}
        # The padded answer with a chance of (1 + size) / 2, in each order by itself.
        first = (1 - size) / 2
        padding = {
            _PLAIN: first**2,
            _FIRST: first * (1 - first),
            _SECOND: first * (1 - first),
            _PADDED: (1 - first) ** 2,
        }
        does = {
            "dark_current": {"vacuum": _share(_PLAIN, size)},
            "slot_lean/vacuum": {"vacuum": _leaning(size)},
            "raw_false_preference": {"equal": raw},
            "slot_lean": {"equal": _leaning(size)},
            "positional_excess": {"equal": _share(_FIRST, (1 + size) / 2, _PLAIN)},
            "padding_lean": {"padding": padding},
            "miss_by_tie/delta_1": {"step 1": _share(_TIE, size, _PLAIN)},
            "ability": {"ladder": wrong, "matched": wrong},
            "reading": {"matched": wrong},
        }
        return DrawnJudge(name=f"{self.key} {size:g}", does=does[self.key], icc=self.icc)


def _leaning(lean):
    """Take slot 1 with a chance of `(1 + lean) / 2`, in each order by itself."""
    first = (1 + lean) / 2
    return {
        _FIRST: first**2,
        _PLAIN: first * (1 - first),
        _PADDED: first * (1 - first),
        _SECOND: (1 - first) ** 2,
    }


def _run_effects(effect, batch):
    """Per run: whether each of the sizes is found."""
    runs = [_drawn_problems(effect.judge(size), batch) for size in _SIZES]
    for problems_by_size in zip(*runs, strict=True):
        found = zip(_SIZES, problems_by_size, strict=True)
        yield {f"{size:g}": effect.key in problems for size, problems in found}


def _effect_checks(effect, runs):
    name = f"found at {_FOUND:g}"
    yield check_share(name, effect, runs, f"{_FOUND:g}", at_least=_OFTEN, beside=list(runs))


NOISE_EXCESS = Effect(key="noise_excess/authority")
_EFFECTS = tuple(Effect(key=key, icc=icc) for key, icc in product(_KINDS, _ICCS))
_N_SOURCES = 150
_N_TESTS = 9
_OWN_NOISE = 0.05


def _run_noise(world, batch):
    """Per run: whether a noise excess of each size is found among eighteen tests without one."""
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
    kinds = product(("noise_excess", "drop"), range(_N_TESTS))
    others = {f"{kind}/{number}": none for kind, number in kinds}
    for _ in batch.runs:
        run = {}
        for size in _SIZES:
            reading = mean_value(sources, _noise(size, rng))
            run[f"{size:g}"] = world.key in _named({**others, world.key: reading})
        yield run


def _noise(size, rng):
    """Draw values of sources that are asked twice as they are and twice changed."""
    # Asked twice, two answers differ by noise alone in 2 e (1 - e) of sources: a change is seen in
    # the rest only.
    moved = rng.random((_N_SOURCES, 1)) < size / (1 - 2 * _OWN_NOISE) ** 2
    plain = rng.random((_N_SOURCES, 2)) < _OWN_NOISE
    changed = moved ^ (rng.random((_N_SOURCES, 2)) < _OWN_NOISE)
    same = (plain[:, :, None] == changed[:, None, :]).mean(axis=(1, 2))
    return (plain[:, 0] == plain[:, 1]) - same


# --- how often intervals hold

_COVERED = ("slot_lean", "positional_excess", "padding_lean", "ability")
_LEVELS = {0.95: 0.93, 0.99: 0.98}
"""Level to the least coverage."""


def _shape(first, second, plain, padded):
    """Return the same four shares for three kinds of pairs; what is left are ties."""
    ties = max(0.0, 1 - first - second - plain - padded)
    shares = (first, second, plain, padded, ties)
    choices = {
        "equal": (_FIRST, _SECOND, _PLAIN, _PADDED, _TIE),
        "padding": (_PADDED, _PLAIN, _FIRST, _SECOND, _TIE),
        "ladder": (_PLAIN, _PADDED, _FIRST, _SECOND, _TIE),
    }
    return {kind: dict(zip(names, shares, strict=True)) for kind, names in choices.items()}


_SHAPES = (
    (0.1, 0.0, 0.0, 0.0),
    (0.3, 0.0, 0.0, 0.0),
    (0.25, 0.25, 0.25, 0.25),
    (0.55, 0.45, 0.0, 0.0),
    (0.5, 0.0, 0.5, 0.0),
    (0.85, 0.15, 0.0, 0.0),
    (0.97, 0.03, 0.0, 0.0),
)
_COVERAGES = tuple(
    DrawnJudge(
        name="/".join(f"{share:g}" for share in shape), does=_shape(*shape), icc=icc, suite=suite
    )
    for shape, suite, icc in product(_SHAPES, ("datasheet", _TEN_TASKS, "datasheet-paper"), _ICCS)
)


def _run_coverages(judge, batch):
    """Per run: whether each interval holds the truth."""
    rng = batch.rng(judge)
    sheet = _sheet(judge.suite)
    truths = {key: judge.truth(key) for key in _COVERED}
    for _ in batch.runs:
        run = {}
        for key, reading in sheet.readings(judge, _COVERED, rng).items():
            run[f"truth of {key}"] = truths[key]
            for level in _LEVELS:
                ends = reading.at_level(level)
                run[f"{key} held at {level:.0%}"] = ends is not None and holds(ends, truths[key])
        yield run


def _coverage_checks(judge, runs):
    for key, level in product(_COVERED, _LEVELS):
        name = f"{key} held at {level:.0%}"
        if name in runs:
            beside = (f"truth of {key}",)
            yield check_share(name, judge, runs, name, at_least=_LEVELS[level], beside=beside)


_findings = partial(Simulation, batch=50)
NAMED = _findings(
    worlds=JUDGES, quick=JUDGES, run=_run_named, checks=_named_checks, part=5, least=20
)
AT_LIMITS = _findings(
    worlds=LIMITED, quick=LIMITED[4:5], run=_run_limits, checks=_limit_checks, part=2, least=10
)
EFFECTS = _findings(
    worlds=_EFFECTS,
    quick=_EFFECTS[16:17],
    run=_run_effects,
    checks=_effect_checks,
    part=5,
    least=10,
)
NOISE = _findings(
    worlds=(NOISE_EXCESS,),
    quick=(NOISE_EXCESS,),
    run=_run_noise,
    checks=_effect_checks,
    part=5,
    least=10,
)
COVERAGES = _findings(
    worlds=_COVERAGES, quick=_COVERAGES[17:18], run=_run_coverages, checks=_coverage_checks
)
PART = Part(word="findings", simulations=(NAMED, AT_LIMITS, EFFECTS, NOISE, COVERAGES))
