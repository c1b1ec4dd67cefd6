"""What is to be made of transcripts: a baseline each, and one edited copy per test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.generation.plan import Job, Plan
from jrh_mlflow.perturb import AGENT_TESTS, AgentTest
from jrh_mlflow.perturb.agents import messages_text, violation_label
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.seeds import Labels, Seed
from jrh_mlflow.suites.labels import label_text, read_labels
from jrh_mlflow.suites.responses import sample
from jrh_mlflow.suites.transcripts import Transcript, transcript_items
from jrh_mlflow.suites.transcripts.items import field as transcript_field
from jrh_mlflow.suites.transcripts.transcript import check_steps

MAX_STEPS = 4
PLANS = 3
UNLABELLED = (
    "Of {} transcripts the log's own label is not known: a rule cannot tell whether they broke the rubric, so the "
    "labels of their agent_positives are not certain. Name the label (--map label=FIELD), or give a generator."
)
_ROLES = ("label", "group")


@dataclass(frozen=True, kw_only=True)
class AgentPlan(Plan):
    """Transcripts, tests and jobs of one generation; a seed's `response` is its transcript as JSON."""

    starts: tuple[Item, ...]
    """The baselines."""
    violation: str
    """The label that says that the rubric is violated."""
    max_steps: int = MAX_STEPS
    """Of one plan."""
    plans: int = PLANS
    """How many are tried before a transcript is set aside."""
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _by_task(self) -> dict[str, Item]:
        return {item.task: item for item in self.starts}

    def baselines(self) -> list[Item]:
        """Return the transcripts as they are, preprocessed."""
        return list(self.starts)

    def start(self, seed: Seed) -> Item:
        """Return the baseline of a seed."""
        return self._by_task[seed.id]

    def notes(self, *, by_rule: bool) -> tuple[str, ...]:
        """Warn where a rule claims that the rubric is met and no label of the log says so."""
        mended = any(isinstance(test, AgentTest) and not test.breaks for test in self.tests)
        unknown = sum(item.expected is None for item in self.starts)
        return (UNLABELLED.format(unknown),) if by_rule and mended and unknown else ()

    def settings(self) -> dict[str, Any]:
        """Return what else decides what is made."""
        return {"violation": self.violation, "max_steps": self.max_steps, "plans": self.plans, **self.about}


def agent_plan(
    transcripts: Iterable[Transcript],
    *,
    tests: Sequence[AgentTest],
    rubric: object,
    seed: int,
    labels: Sequence[object] | None = None,
    scale: Sequence[object] | None = None,
    columns: Mapping[str, str] | None = None,
    group: str | None = None,
    values: Mapping[str, str] | None = None,
    violation: str | None = None,
    preprocess: Sequence[str] | str = (),
    instruction: str | None = None,
    n: int | None = None,
    stratify: str | None = None,
    max_steps: int = MAX_STEPS,
    plans: int = PLANS,
) -> AgentPlan:
    """Make the baselines and lay out the jobs; `jrh.generate` describes the arguments.

    Raises:
        RecipeError: for what makes no sense, before anything is sent.
    """
    if not isinstance(rubric, str) or not rubric.strip():
        raise RecipeError("`rubric` must be the question the judge answers about a transcript, but it is empty.")
    if max_steps < 1 or plans < 1:
        raise ValueError(f"`max_steps, plans >= 1` must hold, but got {max_steps=}, {plans=}.")
    known = _labels(labels, scale)
    broken, roles = violation_label(known, violation), _roles(columns)
    steps = [step.strip() for step in preprocess.split(",")] if isinstance(preprocess, str) else list(preprocess)
    check_steps(steps)
    read = _drawn(list(transcripts), n=n, stratify=roles.get(str(stratify), stratify), seed=seed)
    by = group or roles.get("group")
    starts = transcript_items(
        read, rubric=rubric, labels=known, label=roles.get("label"), values=values, group=by, preprocess=steps
    )
    if instruction is not None:
        starts = [replace(item, instruction=instruction) for item in starts]
    seeds = tuple(_seed(item) for item in starts)
    targets = [(test, one) for test in tests for one in test.aimed(seeds, known, rubric, violation=broken)]
    return AgentPlan(
        seeds=seeds,
        labels=known,
        rubric=rubric,
        tests=tuple(tests),
        jobs=tuple(Job(place=place, test=test, target=one) for place, (test, one) in enumerate(targets)),
        starts=tuple(starts),
        violation=broken,
        max_steps=max_steps,
        plans=plans,
        about={"preprocess": ",".join(steps) or None, "group": by, "label": roles.get("label")},
    )


def agent_tests(names: Sequence[object]) -> list[AgentTest]:
    """Resolve tests of transcripts, each once."""
    found = [one if isinstance(one, AgentTest) else AGENT_TESTS[str(one)] for one in names]
    for test in found:
        if sum(test.name == other.name for other in found) > 1:
            raise RecipeError(f"Test {test.name!r} is named twice. Name each test once.")
    return found


def _seed(item: Item) -> Seed:
    return Seed(
        id=item.task,
        instruction=item.instruction or "",
        response=messages_text(item.transcript or ()),
        label=item.expected or "",
        group=item.meta.get("group"),
    )


def _labels(labels: Sequence[object] | None, scale: Sequence[object] | None) -> Labels:
    if labels is None and scale is None:
        raise RecipeError(
            "Transcripts need `labels`, the one for a violation last (--labels 'no violation,violation'), or `scale`."
        )
    return read_labels((), column="label", ids=(), labels=labels, scale=scale)[1]


def _roles(columns: Mapping[str, str] | None) -> dict[str, str]:
    roles = dict(columns or {})
    for role in roles:
        if role not in _ROLES:
            listed = " and ".join(repr(known) for known in _ROLES)
            raise RecipeError(f"Transcripts have the roles {listed}, but got {role!r}.{suggest(role, _ROLES)}")
    return roles


def _drawn(read: list[Transcript], *, n: int | None, stratify: str | None, seed: int) -> list[Transcript]:
    if n is None:
        if stratify is not None:
            raise RecipeError("`stratify` shares a draw: give `n`, how many transcripts to draw.")
        return read
    strata = ["" if stratify is None else label_text(transcript_field(one, stratify)) or "" for one in read]
    return [read[place] for place in sample([one.id for one in read], strata, n, seed=seed)]
