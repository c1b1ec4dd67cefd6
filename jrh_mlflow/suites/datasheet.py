"""The Judge Datasheet's suite: vacuum, quality ladders, equal-quality pairs and controls, from tasks.

Three designs take their pairs from the same chains. `spread` asks little of many tasks, because calls on one task are
not independent: 19 pairs of each. `paper` is the published design, every pair of ten tasks. `short` is a first look.
`pointwise` shows the contents of the same chains one at a time, for judges of one response.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.perturb.languages import LANGUAGES
from jrh_mlflow.schema.items import (
    DELTA_0_DIFFERENT,
    DELTA_0_SAME,
    FILLER,
    LADDER,
    LADDER_MATCHED,
    LADDERS,
    SINGLE_LADDERS,
    SINGLE_PADDED,
    SINGLE_VACUUM,
    VACUUM,
    Item,
)
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.suites.tasks import (
    Candidate,
    States,
    T,
    Task,
    TaskMixes,
    Unmet,
    built_in_tasks,
    join,
    ladder,
    load_tasks,
    rank,
    task_digest,
    task_language,
    task_sentences,
)

Design = Literal["spread", "paper", "short", "pointwise", "pointwise-scores"]
DESIGNS: tuple[Design, ...] = get_args(Design)

PAPER_TASKS = (
    "bug_report",
    "contract_summary",
    "event_announcement",
    "lab_protocol",
    "lesson_plan",
    "meeting_followup",
    "patient_leaflet",
    "product_comparison",
    "release_note",
    "sql_explanation",
)
"""Tasks behind the published readings: frozen, so that a task more in the library moves none of them."""

_WHITESPACE = (" ", "\n\n\t ")

_KINDS: dict[Design, str] = {
    "spread": "datasheet",
    "paper": "datasheet-paper",
    "short": "datasheet-short",
    "pointwise": "pointwise-datasheet",
    "pointwise-scores": "pointwise-datasheet-scores",
}
QUESTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "pointwise": (
        ("no", "yes"),
        "Does the response do what the task asks for? Answer yes if it meets everything that the answer should do, "
        "otherwise no.",
    ),
    "pointwise-scores": (
        ("1", "2", "3", "4", "5"),
        "Score how well the response does what the task asks for: 1 if it meets nothing of what the answer should do, "
        "5 if it meets all of it.",
    ),
}
"""What a judge of one response may answer, and what it is asked."""
_REPEATS = 2
"""How often every content of a ladder is shown, so that it can be told whether the answers agree."""


def datasheet_suite(
    *,
    n_tasks: int | None = None,
    depth: int = 5,
    half_steps: bool = False,
    language: str = "en",
    seed: int = 0,
    tasks: str | Path | Sequence[Task] | None = None,
    name: str | None = None,
    design: Design = "spread",
) -> Suite:
    """Build the datasheet suite; the same arguments give the same hash on every machine.

    Args:
        n_tasks: Tasks to use, chosen by `seed` when there are more; all of them when None.
        depth: Requirements per task, so levels run from 0 to `depth`.
        half_steps: Also ladder pairs half a step apart, so that thresholds under 1 can be resolved.
        language: Of the package's tasks: `en`, or twelve of them in `de`, `es` or `zh`. Tasks of your own name theirs.
        seed: Chooses tasks, the order in which requirements are satisfied, wordings and slots.
        tasks: A YAML file or folder, or parsed tasks; the package's own library when None.
        name: Of the suite; tells the arguments when None.
        design: `spread`: of each task one pair per kind of vacuum, control and step of either ladder, two of equal
            pairs and of step 1. `paper`: every pair of the chain, without the matched ladder; of the package's library
            only the ten tasks of the published readings. `short`: five pairs of each task: one of vacuum, of equals and
            of step 1, and two of step 1 of the matched ladder; a control in every third task.
            `pointwise`: the contents one at a time (every level of either ladder twice, nothing, padding), answered
            by yes or no; `pointwise-scores`: the same, answered by 1 to 5.
    """
    if (n_tasks is not None and n_tasks < 1) or depth < 1:
        raise ValueError(f"`n_tasks >= 1` and `depth >= 1` must hold, but got {n_tasks=}, {depth=}.")
    if design not in DESIGNS:
        raise ValueError(f"`design` must be {', '.join(DESIGNS[:-1])} or {DESIGNS[-1]}, but got {design!r}.")
    if language not in LANGUAGES:
        known = ", ".join(LANGUAGES)
        raise ValueError(f"`language` must be one of {known}, but got {language!r}. Give tasks of your own: tasks=….")
    library = _library(tasks, design, language)
    if half_steps and (without := [task.id for task in library if task.requirements[0].half is None]):
        raise SuiteError(f"`half_steps` needs sentences that half meet a requirement, and {without[0]!r} has none.")
    n_tasks = len(library) if n_tasks is None else n_tasks
    if len(library) < n_tasks:
        raise SuiteError(f"{n_tasks} tasks were asked for, but there are {len(library)}. Lower n_tasks or add tasks.")
    # By a hash of seed and id, so that a task more in the library moves few of the others.
    chosen = rank(sorted(task.id for task in library), seed, "task")[:n_tasks]
    by_id = {task.id: task for task in library}
    makers = [
        _TaskItems(by_id[task_id], index=index, depth=depth, half_steps=half_steps, seed=seed)
        for index, task_id in enumerate(chosen)
    ]
    items = [item for maker in makers for item in maker.items(design)]
    origin = {
        "builder": "datasheet",
        "design": design,
        "n_tasks": n_tasks,
        "depth": depth,
        "half_steps": half_steps,
        "seed": seed,
        "tasks": "built-in" if tasks is None else "own",
        **_spoken(library),
    }
    more = ("-half" if half_steps else "") + ("" if tasks is None else "-own")
    more += "" if language == "en" else f"-{language}"
    return Suite(name=name or f"{_KINDS[design]}-{n_tasks}x{depth}{more}-s{seed}", items=items, origin=origin)


def _library(tasks: str | Path | Sequence[Task] | None, design: Design, language: str) -> list[Task]:
    if tasks is None:
        every = built_in_tasks(language)
        return [task for task in every if (design, language) != ("paper", "en") or task.id in PAPER_TASKS]
    return load_tasks(tasks) if isinstance(tasks, str | Path) else list(tasks)


def _spoken(tasks: Sequence[Task]) -> dict[str, str]:
    """Say the language of tasks that are not in English, and who has checked those of the package."""
    codes = sorted({task.language for task in tasks})
    if codes == ["en"]:
        return {}
    own = [] if all(task in built_in_tasks(task.language) for task in tasks) else ["not checked by this package"]
    return {"language": "+".join(codes), "checked": "; ".join(own or [task_language(code).checked for code in codes])}


class _TaskItems:
    """Items of one task."""

    def __init__(self, task: Task, *, index: int, depth: int, half_steps: bool, seed: int) -> None:
        ids = [requirement.id for requirement in task.requirements]
        if len(ids) < depth:
            raise SuiteError(f"Task {task.id!r} has {len(ids)} requirements, but {depth=}. Lower depth or add some.")
        self.task, self.index, self.seed, self.depth, self.half_steps = task, index, seed, depth, half_steps
        self.climb = rank(ids, seed, task.id, "climb")[:depth]
        """Requirements in the order in which the ladder satisfies them."""
        steps = 2 * depth + 1 if half_steps else depth + 1
        self.levels = [level * (0.5 if half_steps else 1.0) for level in range(steps)]
        self.pools = self._pools(self.levels, "neutral")
        self.target = _mean_length(self.pools)
        self.rungs = {LADDER: self._rungs(self.pools)}
        listed = [f"- {requirement.text}" for requirement in task.requirements if requirement.id in self.climb]
        self.instruction = "\n".join([task.instruction, "", task_language(task.language).heading, *listed])

    def _pools(self, levels: Sequence[float], unmet: Unmet) -> dict[float, TaskMixes]:
        return {level: TaskMixes(self.task, self.climb, self._states(level), unmet=unmet) for level in levels}

    def _rungs(self, pools: Mapping[float, TaskMixes]) -> dict[float, Candidate]:
        # Neighbouring tasks take opposite orders of length, so that over both of them the longer candidate is the
        # better one in exactly half of the pairs at every step.
        order = rank(list(pools), self.seed, "length", self.index // 2)
        return ladder(pools, order=order if self.index % 2 == 0 else order[::-1], target=_mean_length(pools))

    def items(self, design: Design) -> Iterator[Item]:
        """Return what a design asks of the task."""
        return self.every_pair() if design == "paper" else self.drawn(design)

    def every_pair(self) -> Iterator[Item]:
        """Return every pair of the chain in the protocol's order: the published design."""
        for condition in VACUUM:
            yield from (self._vacuum(condition, variant) for variant in (0, 1))
        for low, high in itertools.combinations(self.levels, 2):
            delta = high - low
            # Half levels serve steps of one half only: the whole steps are those of the plain design.
            if delta == 0.5 or (delta.is_integer() and low.is_integer()):
                yield self._step(LADDER, low, high, (self.rungs[LADDER][low], self.rungs[LADDER][high]))
        yield from (self._same(level) for level in range(self.depth + 1))
        yield from (self._different(count) for count in range(1, self.depth))
        yield from (self._filler(level) for level in self._filler_levels())

    def drawn(self, design: Design) -> Iterator[Item]:
        """Return a few pairs of every kind, drawn so that over the tasks all levels and variants take their turn."""
        ladders = LADDERS if self.task.has_matched else (LADDER,)
        if LADDER_MATCHED in ladders:
            whole = [float(level) for level in range(self.depth + 1)]
            self.matched = self._pools(whole, "matched")
            self.rungs[LADDER_MATCHED] = self._rungs(self.matched)
        if design in QUESTIONS:
            yield from self._singles(design)
        else:
            yield from self._short(ladders) if design == "short" else self._spread(ladders)

    def _singles(self, design: Design) -> Iterator[Item]:
        if LADDER_MATCHED in self.rungs:
            # The upper levels take the wordings of the lower ones backwards: of two levels the higher one has as often
            # the wording with more words, digits or capitals as the one with fewer.
            rungs = self.rungs[LADDER_MATCHED]
            turned = {level: rungs[min(level, self.depth - level)].wording for level in rungs}
            self.rungs[LADDER_MATCHED] = {level: self._worded(level, wording) for level, wording in turned.items()}
        for condition, rungs in zip(SINGLE_LADDERS, self.rungs.values(), strict=False):
            for level in sorted(rungs):
                yield self._single(design, condition, f"{level:g}", rungs[level], level=level, replicates=_REPEATS)
        blank = Candidate(text=self._turns(_WHITESPACE, SINGLE_VACUUM)[0], states={}, wording=())
        for condition, nothing in zip(SINGLE_VACUUM, (replace(blank, text=""), blank), strict=True):
            yield self._single(design, condition, "0", nothing, level=None)
        for level in self._turns(self._filler_levels(), FILLER, n=2):
            yield self._single(design, SINGLE_PADDED, str(level), self._padded(level), level=float(level))

    def _single(
        self, design: Design, condition: str, name: str, content: Candidate, *, level: float | None, replicates: int = 1
    ) -> Item:
        answers, question = QUESTIONS[design]
        return Item(
            id=f"{self.task.id}.{condition}.{name}",
            task=self.task.id,
            condition=condition,
            kind="response",
            instruction=self.instruction,
            rubric=task_language(self.task.language).questions.get(design, question),
            response=content.text,
            delta=level,
            answers=answers,
            replicates=replicates,
            meta={state: {"response": content.ids(state)} for state in ("satisfied", "half")},
        )

    def _spread(self, ladders: Sequence[str]) -> Iterator[Item]:
        for condition in VACUUM:
            yield from (self._vacuum(condition, variant) for variant in self._turns((0, 1), condition))
        for condition in ladders:
            halves = self._steps(0.5, n=2) if self.half_steps and condition == LADDER else []
            whole = [self._steps(delta, n=2 if delta == 1 else 1) for delta in range(1, self.depth + 1)]
            yield from self._pairs(condition, [*halves, *itertools.chain(*whole)])
        yield from (self._same(level) for level in self._turns(range(self.depth + 1), DELTA_0_SAME, n=2))
        yield from (self._different(count) for count in self._turns(range(1, self.depth), DELTA_0_DIFFERENT))
        yield from (self._filler(level) for level in self._turns(self._filler_levels(), FILLER))

    def _short(self, ladders: Sequence[str]) -> Iterator[Item]:
        for condition in self._turns(VACUUM, "vacuum"):
            yield self._vacuum(condition, self.index // len(VACUUM) % 2)
        for condition in ladders:
            halves = self._steps(0.5) if self.half_steps and condition == LADDER else []
            yield from self._pairs(condition, [*halves, *self._steps(1, n=2 if condition == LADDER_MATCHED else 1)])
        yield from (self._same(level) for level in self._turns(range(self.depth + 1), DELTA_0_SAME))
        # Controls for completeness: every sixth task has the one or the other.
        if self.index % 6 == 2 and self.depth > 1:
            yield from (self._different(count) for count in self._turns(range(1, self.depth), DELTA_0_DIFFERENT))
        if self.index % 6 == 5:
            yield from (self._filler(level) for level in self._turns(self._filler_levels(), FILLER))

    def _turns(self, choices: Sequence[T], *key: object, n: int = 1, turn: int | None = None) -> list[T]:
        """Return the `n` choices whose turn it is: task by task through all of them, in a seeded order."""
        order, first = rank(choices, self.seed, *key), n * (self.index if turn is None else turn)
        return [order[(first + place) % len(order)] for place in range(min(n, len(order)))]

    def _steps(self, delta: float, *, n: int = 1) -> list[tuple[float, float]]:
        # Both ladders take the same levels, so that the two are compared on the same steps; neighbouring tasks do
        # too, so that lengths stay balanced within a step.
        lows = [level for level in self.levels if level + delta <= self.depth and (delta < 1 or level.is_integer())]
        return [(low, low + delta) for low in self._turns(lows, "step", delta, n=n, turn=self.index // 2)]

    def _pairs(self, condition: str, steps: Sequence[tuple[float, float]]) -> Iterator[Item]:
        """Return the pairs of a ladder's steps.

        On the matched ladder all levels hold the same words but for their wordings. The second step of each two takes
        those of the first the other way round, so that what a wording has more of, words or digits or capitals, stands
        as often on the better side as on the worse.
        """
        for place, (low, high) in enumerate(steps):
            rungs = self.rungs[condition]
            pair = rungs[low], rungs[high]
            if condition == LADDER_MATCHED and place % 2:
                before = steps[place - 1]
                pair = self._worded(low, rungs[before[1]].wording), self._worded(high, rungs[before[0]].wording)
            yield self._step(condition, low, high, pair)

    def _worded(self, level: float, wording: tuple[int, ...]) -> Candidate:
        return self.matched[level].candidate(wording)

    def _states(self, level: float) -> States:
        full = int(level)
        states: dict[str, str] = dict.fromkeys(self.climb[:full], "satisfied")
        if level > full:
            states[self.climb[full]] = "half"
        return states  # type: ignore[return-value]  # dict is invariant in its literal values

    def _vacuum(self, condition: str, variant: int) -> Item:
        rungs = self.rungs[LADDER]
        identical = (rungs[float(self.depth // 2)].text, rungs[float(self.depth)].text)
        content = dict(zip(VACUUM, (("", ""), _WHITESPACE, identical), strict=True))[condition][variant]
        return Item(
            id=f"{self.task.id}.{condition}.{variant}",
            task=self.task.id,
            condition=condition,
            instruction=self.task.instruction if variant else self.instruction,
            u=content,
            v=content,
            meta={"variant": variant},
        )

    def _pair(
        self, condition: str, name: str, u: Candidate, v: Candidate, *, delta: float | None, better: str | None = None
    ) -> Item:
        return Item(
            id=f"{self.task.id}.{condition}.{name}",
            task=self.task.id,
            condition=condition,
            instruction=self.instruction,
            u=u.text,
            v=v.text,
            delta=delta,
            better=better,
            meta={state: {"u": u.ids(state), "v": v.ids(state)} for state in ("satisfied", "half")},
        )

    def _step(self, condition: str, low: float, high: float, pair: tuple[Candidate, Candidate]) -> Item:
        name = f"{low:g}-{high:g}"
        # The slot of the better content is a coin of its own, so that `u` tells nothing.
        v_better = int(task_digest(self.seed, self.task.id, name)[0], 16) % 2 == 0
        u, v = pair if v_better else pair[::-1]
        return self._pair(condition, name, u, v, delta=high - low, better="v" if v_better else "u")

    def _same(self, level: int) -> Item:
        u, v = self.pools[float(level)].surface_pair(self.seed, self.task.id, level)
        return self._pair(DELTA_0_SAME, str(level), u, v, delta=0.0)

    def _different(self, count: int) -> Item:
        # The first and the last requirements of the climb: as many, and as different as can be.
        both = (self.climb[:count], self.climb[-count:])
        pools = [TaskMixes(self.task, self.climb, dict.fromkeys(ids, "satisfied")) for ids in both]
        first, last = (pool.nearest(self.target, self.seed, *ids) for pool, ids in zip(pools, both, strict=True))
        return self._pair(DELTA_0_DIFFERENT, str(count), first, last, delta=0.0)

    def _filler_levels(self) -> list[int]:
        return sorted({0, (self.depth + 1) // 2, self.depth})

    def _filler(self, level: int) -> Item:
        return self._pair(FILLER, str(level), self.rungs[LADDER][float(level)], self._padded(level), delta=None)

    def _padded(self, level: int) -> Candidate:
        """Return the ladder's content of a level with filler between its sentences."""
        plain = self.rungs[LADDER][float(level)]
        parts = task_sentences(self.task, self.climb, plain.states, plain.wording)
        spread = itertools.zip_longest(parts[1:-1], self.task.filler)
        body = [text for both in spread for text in both if text is not None]
        return replace(plain, text=join([parts[0], *body, parts[-1]], self.task.language))


def _mean_length(pools: Mapping[float, TaskMixes]) -> float:
    lengths = [length for pool in pools.values() for length in pool.lengths]
    return sum(lengths) / len(lengths)
