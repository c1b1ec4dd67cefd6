"""The Judge Datasheet's suite: vacuum, quality ladder, equal-quality pairs and controls, from tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.schema.items import DELTA_0_DIFFERENT, DELTA_0_SAME, FILLER, LADDER, Item
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.suites.tasks import (
    Candidate,
    States,
    Task,
    built_in_tasks,
    candidates,
    digest,
    join,
    ladder,
    load_tasks,
    nearest,
    rank,
    sentences,
    surface_pair,
)

_WHITESPACE = (" ", "\n\n\t ")


def datasheet_suite(
    *,
    n_tasks: int = 10,
    depth: int = 5,
    half_steps: bool = False,
    seed: int = 0,
    tasks: str | Path | Sequence[Task] | None = None,
    name: str | None = None,
) -> Suite:
    """Build the datasheet suite; the same arguments give the same hash on every machine.

    Args:
        n_tasks: Tasks to use, chosen by `seed` when there are more.
        depth: Requirements per task, so levels run from 0 to `depth`.
        half_steps: Also ladder pairs half a step apart, so that thresholds under 1 can be resolved.
        seed: Chooses tasks, the order in which requirements are satisfied, wordings and slots.
        tasks: A YAML file or folder, or parsed tasks; the package's own library when None.
        name: Of the suite; tells the arguments when None.
    """
    if n_tasks < 1 or depth < 1:
        raise ValueError(f"`n_tasks >= 1` and `depth >= 1` must hold, but got {n_tasks=}, {depth=}.")
    source = built_in_tasks() if tasks is None else tasks
    library = load_tasks(source) if isinstance(source, str | Path) else list(source)
    if len(library) < n_tasks:
        raise SuiteError(f"{n_tasks} tasks were asked for, but there are {len(library)}. Lower n_tasks or add tasks.")
    chosen = rank(sorted(task.id for task in library), seed, "task")[:n_tasks]
    by_id = {task.id: task for task in library}
    items = [
        item
        for index, task_id in enumerate(chosen)
        for item in _TaskItems(by_id[task_id], index=index, depth=depth, half_steps=half_steps, seed=seed)
    ]
    origin = {
        "builder": "datasheet",
        "n_tasks": n_tasks,
        "depth": depth,
        "half_steps": half_steps,
        "seed": seed,
        "tasks": "built-in" if tasks is None else "own",
    }
    more = ("-half" if half_steps else "") + ("" if tasks is None else "-own")
    return Suite(name=name or f"datasheet-{n_tasks}x{depth}{more}-s{seed}", items=items, origin=origin)


class _TaskItems:
    """Items of one task, iterated in the protocol's order."""

    def __init__(self, task: Task, *, index: int, depth: int, half_steps: bool, seed: int) -> None:
        ids = [requirement.id for requirement in task.requirements]
        if len(ids) < depth:
            raise SuiteError(f"Task {task.id!r} has {len(ids)} requirements, but {depth=}. Lower depth or add some.")
        self.task, self.seed, self.depth = task, seed, depth
        self.climb = rank(ids, seed, task.id, "climb")[:depth]
        """Requirements in the order in which the ladder satisfies them."""
        steps = 2 * depth + 1 if half_steps else depth + 1
        self.levels = [level * (0.5 if half_steps else 1.0) for level in range(steps)]
        self.pools = {level: candidates(task, self.climb, self._states(level)) for level in self.levels}
        self.target = mean(len(candidate.text) for pool in self.pools.values() for candidate in pool)
        # Neighbouring tasks take opposite orders of length, so that over both of them the longer candidate is the
        # better one in exactly half of the pairs at every step.
        order = rank(self.levels, seed, "length", index // 2)
        self.rungs = ladder(self.pools, order=order if index % 2 == 0 else order[::-1], target=self.target)
        listed = [f"- {requirement.text}" for requirement in task.requirements if requirement.id in self.climb]
        self.instruction = "\n".join([task.instruction, "", "The answer should:", *listed])

    def __iter__(self) -> Iterator[Item]:
        yield from self._vacuum()
        yield from self._ladder()
        yield from self._delta_0_same()
        yield from self._delta_0_different()
        yield from self._filler()

    def _states(self, level: float) -> States:
        full = int(level)
        states: dict[str, str] = dict.fromkeys(self.climb[:full], "satisfied")
        if level > full:
            states[self.climb[full]] = "half"
        return states  # type: ignore[return-value]  # dict is invariant in its literal values

    def _vacuum(self) -> Iterator[Item]:
        rungs = (self.rungs[float(self.depth // 2)].text, self.rungs[float(self.depth)].text)
        contents = {"vacuum_empty": ("", ""), "vacuum_whitespace": _WHITESPACE, "vacuum_identical": rungs}
        for condition, variants in contents.items():
            for variant, content in enumerate(variants):
                yield Item(
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

    def _ladder(self) -> Iterator[Item]:
        for low, high in itertools.combinations(self.levels, 2):
            delta = high - low
            if delta != 0.5 and not (delta.is_integer() and low.is_integer()):
                continue
            name = f"{low:g}-{high:g}"
            pair = (self.rungs[low], self.rungs[high])
            v_better = int(digest(self.seed, self.task.id, name)[0], 16) % 2 == 0
            u, v = pair if v_better else pair[::-1]
            yield self._pair(LADDER, name, u, v, delta=delta, better="v" if v_better else "u")

    def _delta_0_same(self) -> Iterator[Item]:
        for level in range(self.depth + 1):
            u, v = surface_pair(self.pools[float(level)], self.seed, self.task.id, level)
            yield self._pair(DELTA_0_SAME, str(level), u, v, delta=0.0)

    def _delta_0_different(self) -> Iterator[Item]:
        for count in range(1, self.depth):
            both = (self.climb[:count], self.climb[-count:])
            pools = [candidates(self.task, self.climb, dict.fromkeys(ids, "satisfied")) for ids in both]
            first, last = (nearest(pool, self.target, self.seed, *ids) for pool, ids in zip(pools, both, strict=True))
            yield self._pair(DELTA_0_DIFFERENT, str(count), first, last, delta=0.0)

    def _filler(self) -> Iterator[Item]:
        for level in sorted({0, (self.depth + 1) // 2, self.depth}):
            plain = self.rungs[float(level)]
            parts = sentences(self.task, self.climb, plain.states, plain.wording)
            spread = itertools.zip_longest(parts[1:-1], self.task.filler)
            body = [text for both in spread for text in both if text is not None]
            padded = Candidate(text=join([parts[0], *body, parts[-1]]), states=plain.states, wording=plain.wording)
            yield self._pair(FILLER, str(level), plain, padded, delta=None)
