"""What is to be made: baselines, and every target of every test, checked before anything is paid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.outcomes import NOT_ASKED, Attempt, Written
from jrh_mlflow.perturb import CodeTest, ReliabilityTest, Rewrite, Target, find_tests
from jrh_mlflow.perturb._base import item_id
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.seeds import Labels, Seed
from jrh_mlflow.suites.responses import dataset_sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One text to write: a target with its test and its place."""

    place: int
    """Among all jobs, in the order of tests and of their targets."""
    test: ReliabilityTest
    target: Target

    @property
    def seeds(self) -> tuple[Seed, ...]:
        """Every seed the text serves: each gets an item of its own."""
        return (self.target.seed, *self.target.also)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Seeds, tests and jobs of one generation."""

    seeds: tuple[Seed, ...]
    labels: Labels
    rubric: str
    tests: tuple[ReliabilityTest, ...]
    jobs: tuple[Job, ...]

    @classmethod
    def of(cls, seeds: Sequence[Seed], labels: Labels, rubric: object, tests: object) -> Plan:
        """Resolve the tests and lay out their targets.

        Raises:
            RecipeError: for no seeds, an empty rubric, an unknown test, or two items of the same name.
        """
        if not seeds:
            raise RecipeError("There is no row to make a suite from.")
        if not isinstance(rubric, str) or not rubric.strip():
            raise RecipeError("`rubric` must be the question the judge answers about a response, but it is empty.")
        names = [name.strip() for name in tests.split(",")] if isinstance(tests, str) else tests
        found = find_tests(names, labels)  # type: ignore[arg-type]  # it says what is wrong with anything else
        targets = [(test, target) for test in found for target in test.targets(seeds, labels, rubric)]
        jobs = tuple(Job(place=place, test=test, target=target) for place, (test, target) in enumerate(targets))
        _check_ids(jobs)
        return cls(seeds=tuple(seeds), labels=labels, rubric=rubric, tests=tuple(found), jobs=jobs)

    @cached_property
    def sha256(self) -> str:
        """Of the seeds and their labels: what the suite is made from."""
        return dataset_sha256(self.seeds, self.labels)

    def notes(self, *, by_rule: bool) -> tuple[str, ...]:
        """Return what a reader of the suite should know; `by_rule` when no model writes."""
        return ()

    def settings(self) -> dict[str, Any]:
        """Return what decides what is made besides seeds, labels, rubric and tests."""
        return {}

    @property
    def n_items(self) -> int:
        """Items besides the baselines, if all can be made."""
        return sum(len(job.seeds) for job in self.jobs)

    def by_code(self) -> list[Job]:
        """Jobs that need no model, in order."""
        return [job for job in self.jobs if isinstance(job.test, CodeTest)]

    def rewrites(self) -> Iterator[list[Job]]:
        """Yield the other jobs, those of one bucket together: they are made one after the other.

        What takes the most calls in a row comes first, so that no long chain is left when everything else is done.
        """
        buckets: dict[tuple[str, str], list[Job]] = {}
        for job in self.jobs:
            if isinstance(job.test, CodeTest):
                continue
            name = job.target.bucket
            key = (job.test.name, f"/{job.place}" if name is None else name)
            buckets.setdefault(key, []).append(job)
        yield from sorted(buckets.values(), key=_chain, reverse=True)

    def baselines(self) -> list[Item]:
        """One unperturbed item per seed: every test is read beside it."""
        return [
            Item(
                id=item_id(seed, BASELINE),
                task=seed.id,
                condition=BASELINE,
                kind="response",
                instruction=seed.instruction,
                rubric=self.rubric,
                response=seed.response,
                answers=self.labels.answers,
                expected=seed.label,
                meta=_about(seed, BASELINE),
            )
            for seed in self.seeds
        ]

    def ordered(self, made: Sequence[tuple[Job, Sequence[Item]]]) -> tuple[Item, ...]:
        """Return all items by seed, then by test, then by number, whatever was finished first."""
        seats = {seed.id: seat for seat, seed in enumerate(self.seeds)}
        placed = [(seats[item.task], -1, item) for item in self.baselines()]
        placed += [(seats[item.task], job.place, item) for job, items in made for item in items]
        return tuple(item for _, _, item in sorted(placed, key=lambda entry: entry[:2]))


def finished(
    job: Job,
    text: str,
    *,
    generator: str,
    written: Written | None = None,
    attempts: Sequence[Attempt] = (),
    similarity: float | None = None,
) -> list[Item]:
    """Return the items a text becomes: one for its seed, one for each further seed with that seed's own label."""
    last = attempts[-1] if attempts else None
    facts = {
        "generator": generator,
        "prompt_sha256": written.prompt_sha256 if written else None,
        "attempts": len(attempts),
        "temperature": last.temperature if last else None,
        "validator": last.verdict if last else NOT_ASKED,
        "similarity": None if similarity is None else round(similarity, 4),
        "review": {"state": "unreviewed"},
    }
    return [_item(job, seed, text, facts) for seed in job.seeds]


def _item(job: Job, seed: Seed, text: str, facts: dict[str, Any]) -> Item:
    target = job.target
    in_response = target.part == "response"
    return Item(
        id=item_id(seed, target.condition, target.number),
        task=seed.id,
        condition=target.condition,
        kind="response",
        instruction=seed.instruction,
        rubric=target.rubric if in_response else text,
        response=text if in_response else seed.response,
        answers=target.labels.answers,
        # The label comes from the test's meaning and the seed's own label, never from a model.
        expected=target.expected if seed.id == target.seed.id else seed.label,
        replicates=target.replicates,
        meta={**_about(seed, job.test.name), **facts},
    )


def _about(seed: Seed, test: str) -> dict[str, Any]:
    group = {} if seed.group is None else {"group": seed.group}
    return {"source": seed.id, "test": test, **group, **seed.meta}


def needs_validator(plan: Plan) -> bool:
    """Tell whether any test wants its items confirmed."""
    return any(isinstance(test, Rewrite) and test.confirm for test in plan.tests)


def rubric_sha256(rubric: str) -> str:
    """Hash the judge's question."""
    return hashlib.sha256(rubric.encode("utf-8", "surrogatepass")).hexdigest()


def _check_ids(jobs: Sequence[Job]) -> None:
    seen: dict[str, str] = {}
    for job in jobs:
        for seed in job.seeds:
            name = item_id(seed, job.target.condition, job.target.number)
            if name in seen:
                raise RecipeError(
                    f"Tests {seen[name]!r} and {job.test.name!r} both make an item {name!r}. Rename a seed or a test."
                )
            seen[name] = job.test.name


def _chain(jobs: list[Job]) -> int:
    """Count the calls that follow one another: each text, and each confirmation."""
    return sum(2 if isinstance(job.test, Rewrite) and job.test.confirm else 1 for job in jobs)
