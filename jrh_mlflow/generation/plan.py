"""What is to be made of which source: baselines, and every target of every test.

All that can be wrong with source, labels, rubric and tests is found here, before anything is paid.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.options import MAX_STEPS, PLANS, GenerationSettings, TranscriptEdits
from jrh_mlflow.perturb import (
    AGENT_TESTS,
    AgentTest,
    CodeTest,
    NotApplicable,
    ReliabilityTest,
    Rewrite,
    Target,
    item_id,
)
from jrh_mlflow.perturb.agents import messages_text, violation_label
from jrh_mlflow.perturb.paraphrase import as_in_the_paper
from jrh_mlflow.perturb.registry import GROUPS, find_agent_test, find_tests, left_out, listed_tests, read_invalid
from jrh_mlflow.schema.items import BASELINE, BY_MODEL, PROTOCOL, Item, Labels, Seed
from jrh_mlflow.schema.label_words import label_text
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.show.sheets import origin_notes
from jrh_mlflow.suites.dataset import ROLES, DatasetTable
from jrh_mlflow.suites.labels import (
    PEOPLE,
    Rubric,
    checked_text,
    inferred_scale,
    read_labels,
    read_rubrics,
    wrong_way_round,
)
from jrh_mlflow.suites.responses import DrawnSeeds, dataset_sha256, drawn_rows, read_seeds
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts, transcript_items
from jrh_mlflow.suites.transcripts.inspect_logs import is_inspect_log
from jrh_mlflow.suites.transcripts.items import field as transcript_field
from jrh_mlflow.suites.transcripts.items import full_name, labelled_traces, people_in, response_rows
from jrh_mlflow.suites.transcripts.preprocessing import check_steps

UNVERIFIED = "unverified"
"""The `label_source` of items whose label no validator confirmed."""
_TRACES = "traces:"
_UNDO = "With `invalid: none` (--invalid none) they are made."
_TRANSCRIPT_ROLES = ("label", "group")

Plan = TypeVar("Plan", bound="GenerationPlan")


def is_confirmed(test: ReliabilityTest) -> bool:
    """Whether a validator is asked about what a test writes: its label, or whether the meaning was kept."""
    return isinstance(test, Rewrite) and (test.confirm or bool(test.must_keep))


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

    @property
    def confirm(self) -> bool:
        """Whether a validator is asked about the text, where there is one."""
        return is_confirmed(self.test)


@dataclass(frozen=True, kw_only=True)
class GenerationPlan:
    """Seeds, tests and jobs of one generation from labelled responses."""

    seeds: tuple[Seed, ...]
    labels: Labels
    rubric: str
    tests: tuple[ReliabilityTest, ...]
    jobs: tuple[Job, ...]
    unlabelled: tuple[str, ...] = ()
    """Seeds that a grader is to label; until then they carry a label that only serves to count what would be made."""
    laid_out: Callable[[Sequence[Seed]], GenerationPlan] | None = None
    """Lays the same out for other seeds, where some are unlabelled."""
    remarks: tuple[str, ...] = ()
    """What a reader should know of labels and tests."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Tests that are not made because the rubric grades what they change, each with the reason."""
    parts: tuple[GenerationPlan, ...] = ()
    """Of several rubrics the plan of each; `rubric` is then the first."""
    rows: tuple[Seed, ...] = ()
    """All rows of the data, drawn or not: examples are chosen among them, and new texts must not be copies of them."""

    @classmethod
    def of(
        cls,
        seeds: Sequence[Seed],
        labels: Labels,
        rubric: object,
        tests: object,
        *,
        rows: Sequence[Seed] = (),
        definitions: str = PROTOCOL,
    ) -> GenerationPlan:
        """Resolve the tests and lay out their targets.

        Raises:
            RecipeError: for no seeds, an empty rubric, an unknown test, or two items of the same name.
        """
        if not seeds:
            raise RecipeError("There is no row to make a suite from.")
        rubric = checked_text(rubric, "a response")
        chosen = find_tests(tests, labels)
        chosen = chosen if definitions == PROTOCOL else [as_in_the_paper(test) for test in chosen]
        drawn = {seed.id: seed for seed in seeds}
        # A model may have labelled what was drawn: those labels are the ones that count.
        rows = [drawn.get(row.id, row) for row in rows or getattr(seeds, "rows", ())] or seeds
        laid_out = ((test, test.targets(seeds, labels, rubric)) for test in chosen)
        jobs = _jobs((test, target) for test, aimed in laid_out for target in _with_examples(test, aimed, seeds, rows))
        _check_ids(jobs)
        # Said, not refused: labels the other way round and tests left out are a user's right.
        remarks = (*wrong_way_round(labels), *left_out(listed_tests(tests), labels))
        return cls(
            seeds=tuple(seeds),
            labels=labels,
            rubric=rubric,
            tests=tuple(chosen),
            jobs=jobs,
            remarks=remarks,
            rows=tuple(rows),
        )

    def without(self: Plan, invalid: Mapping[str, str]) -> Plan:
        """Return the plan without tests that the rubric makes invalid."""
        kept = tuple(test for test in self.tests if test.name not in invalid)
        jobs = tuple(job for job in self.jobs if job.test.name not in invalid)
        parts = tuple(part.without(invalid) for part in self.parts)
        return replace(self, tests=kept, jobs=jobs, parts=parts, invalid={**self.invalid, **invalid})

    def questions(self) -> list[Item]:
        """Return what a grader is asked: the baselines that have no label yet."""
        return [replace(item, expected=None) for item in self.baselines() if seed_id(item) in self.unlabelled]

    def labelled(self, labels: Mapping[str, str]) -> GenerationPlan:
        """Return the plan with a model's labels; rows that it gave none to are left out.

        Raises:
            RecipeError: when no row is left.
        """
        # Targets depend on labels (a flip, a dose, the examples of a level), so the jobs are laid out anew.
        assert self.laid_out is not None
        known = [seed for seed in self.seeds if seed.id not in self.unlabelled or seed.id in labels]
        return self.laid_out([_with_label(seed, labels.get(seed.id)) for seed in known])

    @cached_property
    def sha256(self) -> str:
        """Of the seeds and their labels: what the suite is made from."""
        # The label that only serves to count is none of the data's: the hash is of what was read.
        read = [replace(seed, label="") if seed.id in self.unlabelled else seed for seed in self.seeds]
        return dataset_sha256(read, self.labels)

    @property
    def rubric_sha256(self) -> str:
        """Of the judge's question; of several rubrics of them all, by id."""
        by_id = json.dumps({part.seeds[0].rubric_id: part.rubric for part in self.parts}, sort_keys=True)
        return hashlib.sha256((by_id if self.parts else self.rubric).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def corpus(self) -> Sequence[str]:
        """The texts a similarity is fitted on: every response and the rubric, in order."""
        if self.parts:
            return list(dict.fromkeys(text for part in self.parts for text in part.corpus))
        return [*(seed.response for seed in self.seeds), self.rubric]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the suite should know."""
        invalid = [f"{note} {_UNDO}" for note in origin_notes({"invalid": self.invalid})]
        return (*self.remarks, *invalid)

    def settings(self) -> dict[str, Any]:
        """Return what decides what is made besides seeds, labels, rubric and tests."""
        return {"rubrics": ",".join(part.seeds[0].rubric_id for part in self.parts)} if self.parts else {}

    @property
    def n_items(self) -> int:
        """Items besides the baselines, if all can be made."""
        return sum(len(job.seeds) for job in self.jobs)

    @property
    def rewrites(self) -> list[Job]:
        """Jobs that code alone does not do."""
        return [job for job in self.jobs if not isinstance(job.test, CodeTest)]

    @property
    def needs_validator(self) -> bool:
        """Whether the label of any test rests on a validator."""
        return any(isinstance(test, Rewrite) and test.confirm for test in self.tests)

    @property
    def originals(self) -> Mapping[str, str]:
        """Every response of the data by its row's name; none of transcripts."""
        parts = self.parts or (self,)
        return {row.task: row.response for part in parts for row in part.rows}

    def units(self) -> list[list[Job]]:
        """Return the jobs, those of one bucket together: they are made one after the other.

        What needs no model comes first; then what takes the most calls in a row, so that no long chain is left when
        everything else is done.
        """
        buckets: dict[tuple[str, str], list[Job]] = {}
        for job in self.jobs:
            name = job.target.bucket
            # A job without a bucket is alone; the slash keeps its place apart from the names of buckets.
            buckets.setdefault((job.test.name, f"/{job.place}" if name is None else name), []).append(job)
        return sorted(buckets.values(), key=_calls_in_a_row, reverse=True)

    @cached_property
    def twins(self) -> Mapping[str, int]:
        """Number the targets that look the same to a writer, by their ids: each gets answers of its own."""
        # Two seeds with the same text would send the same request and share one journalled answer.
        seen: Counter[Hashable] = Counter()
        numbers: dict[str, int] = {}
        for job in self.rewrites:
            look = self._look(job)
            numbers[job.target.id] = seen[look]
            seen[look] += 1
        return numbers

    def _look(self, job: Job) -> Hashable:
        assert isinstance(job.test, Rewrite)
        try:
            brief = job.test.brief(job.target)
        except NotApplicable as reason:
            brief = f"not applicable: {reason}"
        return hashlib.sha256(brief.encode("utf-8", "surrogatepass")).digest()

    def baselines(self) -> list[Item]:
        """One unperturbed item per seed: every test is read beside it."""
        if self.parts:
            return [item for part in self.parts for item in part.baselines()]
        return [
            Item(
                id=item_id(seed, BASELINE),
                task=seed.task,
                condition=BASELINE,
                kind="response",
                instruction=seed.instruction,
                rubric=self.labels.question(self.rubric),
                response=seed.response,
                context=seed.context,
                answers=self.labels.answers,
                ordinal=self.labels.stated_order,
                expected=seed.label,
                meta=about_item(seed, BASELINE),
            )
            for seed in self.seeds
        ]

    def ordered(self, made: Iterable[tuple[Job, Sequence[Item]]]) -> tuple[Item, ...]:
        """Return all items by seed, then by test, then by number, whatever was finished first."""
        seats = {(seed.task, seed.rubric_id): seat for seat, seed in enumerate(self.seeds)}
        # Place -1 puts a baseline before everything that was made of it.
        placed = [(seats[item.original], -1, item) for item in self.baselines()]
        placed += [(seats[item.original], job.place, item) for job, items in made for item in items]
        return tuple(item for _, _, item in sorted(placed, key=lambda entry: entry[:2]))


@dataclass(frozen=True, kw_only=True)
class AgentPlan(GenerationPlan):
    """Transcripts, tests and jobs of one generation; a seed's `response` is its transcript as JSON."""

    starts: tuple[Item, ...]
    """The baselines."""
    violation: str
    """The label that says that the rubric is violated."""
    max_steps: int
    """Of one plan of edits."""
    plans: int
    """How many plans of edits are tried before a transcript is set aside."""
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _by_task(self) -> dict[str, Item]:
        # What is made of a transcript does not rest on its label.
        return {seed_id(item): replace(item, meta=_of_source(item.meta)) for item in self.starts}

    def labelled(self, labels: Mapping[str, str]) -> AgentPlan:
        """Return the plan with a model's labels; the other transcripts stay, without one."""
        # Edits of a transcript do not depend on its label, so the jobs stay and only their seeds change.
        seeds = {seed.id: _with_label(seed, labels.get(seed.id)) for seed in self.seeds}
        starts = [_labelled_start(item, labels.get(seed_id(item))) for item in self.starts]
        jobs = [replace(job, target=replace(job.target, seed=seeds[job.target.seed.id])) for job in self.jobs]
        return replace(self, starts=tuple(starts), seeds=tuple(seeds.values()), jobs=tuple(jobs), unlabelled=())

    def baselines(self) -> list[Item]:
        """Return the transcripts as they are, preprocessed."""
        return list(self.starts)

    def start(self, job: Job) -> Item:
        """Return the baseline that a job edits."""
        return self._by_task[job.target.seed.id]

    def settings(self) -> dict[str, Any]:
        """Return what else decides what is made."""
        own = {"violation": self.violation, "max_steps": self.max_steps, "plans": self.plans}
        return {**own, **super().settings(), **self.about}

    def _look(self, job: Job) -> Hashable:
        target = job.target
        return (job.test.name, target.expected, target.rubric, target.seed.instruction, target.original)


def lay_out(settings: GenerationSettings) -> GenerationPlan:
    """Read what a suite is made from, and lay out what is to be made: of transcripts, or of labelled responses.

    Raises:
        RecipeError: when tests of transcripts and of responses are mixed, or the source does not fit the tests.
    """
    tests = listed_tests(settings.tests)
    traces = _traces(settings)
    if _of_transcripts(settings.dataset if traces is None else traces, tests):
        return _valid(_agent_plan(settings, _agent_tests(tests), traces), settings.invalid)
    # A setting that would do nothing is refused rather than ignored.
    for name in TranscriptEdits.model_fields:
        if getattr(settings, name) not in (None, (), [], ""):
            raise RecipeError(f"`{name}` is for transcripts, and the source holds responses. Leave it out.")
    rubrics = read_rubrics(settings.rubric, settings.rubrics, about="a response")
    if settings.people is not None and len(rubrics) > 1:
        raise RecipeError("`people` are labels by one rubric, and there are several. Make one suite per rubric.")
    if traces is not None:
        settings = _as_responses(settings, traces, [rubric.id for rubric in rubrics])
    dataset = settings.dataset if len(rubrics) == 1 else DatasetTable(settings.dataset)
    read = {rubric.id: _read(settings, dataset, rubric) for rubric in rubrics}
    labels = {name: own for name, (_, own) in read.items()}
    _check_same(labels)
    inferred = [inferred_scale(own) for own in labels.values() if own.ordinal and settings.scale is None]

    def laid_out(seeds: Sequence[Seed]) -> GenerationPlan:
        parts = [
            GenerationPlan.of(
                own,
                labels[rubric.id],
                rubric.text,
                tests,
                rows=read[rubric.id][0].rows,
                definitions=settings.definitions,
            )
            for rubric in rubrics
            if (own := [seed for seed in seeds if seed.rubric_id == rubric.id]) or len(rubrics) == 1
        ]
        plan = _valid(parts[0] if len(rubrics) == 1 else joined(parts, seeds), settings.invalid)
        stated = [] if any(rubric.levels for rubric in rubrics) else inferred[:1]
        return replace(plan, remarks=(*stated, *plan.remarks))

    # The rubrics of a row stand together.
    seeds = [seed for of_row in zip(*(own for own, _ in read.values()), strict=True) for seed in of_row]
    if not (unlabelled := tuple(seed.id for seed in seeds if not seed.label)):
        return laid_out(seeds)
    # A stand-in, so that targets can be laid out and counted before anybody is paid for labels.
    last = next(iter(labels.values())).answers[-1]
    counted = laid_out([seed if seed.label else replace(seed, label=last) for seed in seeds])
    return replace(counted, unlabelled=unlabelled, laid_out=laid_out)


def _read(settings: GenerationSettings, dataset: object, rubric: Rubric) -> tuple[DrawnSeeds, Labels]:
    """Read the rows with the labels of one rubric."""
    group = {} if settings.group is None else {"group": settings.group}
    columns = _columns(settings.columns, rubric.id)
    if settings.stratify == "label" and columns.get("label") != (settings.columns or {}).get("label"):
        raise RecipeError("Each rubric has labels of its own, so `stratify` must name another column.")
    return read_seeds(
        dataset,
        columns={**columns, **group},
        values=settings.values,
        instruction=settings.instruction,
        n=settings.n,
        stratify=settings.stratify,
        seed=settings.seed,
        unlabelled=settings.has_labeller,
        grades=settings.grades,
        rubric=rubric.id,
        people=settings.people,
        **_given_labels(settings, rubric),
    )


def _given_labels(settings: GenerationSettings, rubric: Rubric) -> dict[str, Any]:
    """Return labels and scale as they were given, or as the rubric gives them."""
    if rubric.levels is None:
        return {"labels": settings.labels, "scale": settings.scale}
    if settings.labels is not None or settings.scale is not None:
        raise RecipeError(f"The rubric {rubric.id!r} has `score_levels`: leave out `labels` and `scale`.")
    return {"labels": None, "scale": rubric.levels}


def _columns(columns: Mapping[str, Any] | None, rubric: str) -> dict[str, str]:
    """Return the columns of one rubric: `{"label": {"helpful": "a"}}`, or on the command line `label.helpful=a`.

    Raises:
        RecipeError: when the rubric has none there.
    """
    own_columns: dict[str, Any] = {}
    for role, column in (columns or {}).items():
        # `label.helpful=a` of a command line and `{"label": {"helpful": "a"}}` of a recipe are the same.
        name, dot, own = role.partition(".")
        if not dot:
            own_columns[role] = column
        elif not isinstance(own_columns.setdefault(name, {}), dict):
            raise RecipeError(f"The {name} has one column for all rubrics and others for some: name one for each.")
        else:
            own_columns[name][own] = column
    for role, column in own_columns.items():
        if not isinstance(column, Mapping):
            continue
        if rubric not in column:
            known = ", ".join(map(str, column)) or "none"
            named = repr(rubric) if rubric else "given as one text"
            raise RecipeError(f"The rubric {named} has no column for the {role}. Rubrics with one: {known}.")
        own_columns[role] = column[rubric]
    return own_columns


def _check_same(labels: Mapping[str, Labels]) -> None:
    """Refuse rubrics with different labels: their numbers could not stand in one table."""
    (first, of_first), *others = labels.items()
    for name, of_other in others:
        if (of_other.answers, of_other.ordinal) != (of_first.answers, of_first.ordinal):
            both = "; ".join(", ".join(own.answers) for own in (of_first, of_other))
            raise RecipeError(
                f"The rubrics {first!r} and {name!r} have different labels ({both}). Give `labels` or `scale` "
                "where they are the same, or make one suite per scale."
            )


def joined(parts: Sequence[Plan], seeds: Sequence[Seed], **more: Any) -> Plan:
    """Join the plans of several rubrics into one suite, with the jobs of a test together."""
    # Sorting is stable, so within a test the rubrics keep their order.
    order = {test.name: place for place, test in enumerate(parts[0].tests)}
    jobs = sorted((job for part in parts for job in part.jobs), key=lambda job: order[job.test.name])
    _check_ids(jobs)
    numbered = tuple(replace(job, place=place) for place, job in enumerate(jobs))
    return replace(parts[0], seeds=tuple(seeds), jobs=numbered, parts=tuple(parts), **more)


def _valid(plan: Plan, invalid: object) -> Plan:
    """Leave out the tests that a user calls invalid.

    Raises:
        RecipeError: when a name is not known, or no test is left.
    """
    chosen = {test.name for test in plan.tests}
    named = read_invalid(invalid, plan.tests)[0]
    valid = plan.without({name: why for name, why in named.items() if name in chosen})
    if not valid.tests:
        problem = f"All tests that were chosen are invalid under this rubric: {', '.join(valid.invalid)}."
        raise RecipeError(f"{problem} {_UNDO}")
    return valid


def _of_transcripts(dataset: object, tests: Sequence[object]) -> bool:
    """Tell by the tests and by the source whether a suite is made of transcripts."""
    agents = [_named(test) for test in tests if isinstance(test, AgentTest) or find_agent_test(test)]
    rest = [_named(test) for test in tests if _named(test) not in agents]
    if agents and rest:
        raise RecipeError(
            f"{agents[0]!r} edits transcripts and {rest[0]!r} responses: they need different sources. Make two suites."
        )
    transcripts = _are_transcripts(dataset)
    others = [name for name in rest if name not in GROUPS]
    if not agents and isinstance(dataset, Traces):
        # One question and its answer is a response; a group means the tests of what the traces hold.
        return not others and not all(trace.source.get("single_turn") for trace in dataset)
    if others and transcripts:
        raise RecipeError(
            f"Test {others[0]!r} rewrites single responses, but the source holds transcripts. "
            f"Tests of transcripts: {', '.join(AGENT_TESTS)}."
        )
    return bool(agents) or transcripts


def _listed(given: object) -> list[object]:
    if isinstance(given, str):
        return [name.strip() for name in given.split(",")]
    return list(given) if isinstance(given, Iterable) else [given]


def _named(test: object) -> object:
    return getattr(test, "name", test)


def _are_transcripts(dataset: object) -> bool:
    """Tell transcripts where there is no doubt: a `.json` of messages may as well hold labelled responses."""
    if isinstance(dataset, str | Path):
        path = Path(dataset)
        if str(dataset).startswith(_TRACES) or path.suffix.lower() == ".eval":
            return True
        return path.is_dir() or (path.suffix.lower() == ".json" and path.is_file() and is_inspect_log(path))
    first = dataset
    # A list of lists of messages is looked at down to its first message.
    while isinstance(first, Sequence) and not isinstance(first, str | bytes) and first:
        first = first[0]
    if isinstance(first, Mapping):
        return {"role", "content"} <= first.keys() or isinstance(first.get("messages"), list)
    return isinstance(first, Transcript | Message)


class Traces(list[Transcript]):
    """Traces of MLflow, read once."""


def _traces(settings: GenerationSettings) -> Traces | None:
    """Read the traces that a source names; None for any other source."""
    if not isinstance(settings.dataset, str) or not settings.dataset.startswith(_TRACES):
        return None
    if settings.epochs is not None:
        raise RecipeError("`epochs` chooses from Inspect logs, and traces of MLflow have none.")
    if settings.people is not None:
        raise RecipeError(
            "`people` names columns of a table; of traces, HUMAN feedback says who said what. Leave it out."
        )
    from jrh_mlflow.tracking.traces.traces_in import transcripts_from_traces

    return Traces(transcripts_from_traces(settings.dataset, tracking_uri=settings.tracking_uri))


def _as_responses(settings: GenerationSettings, traces: Traces, rubrics: Sequence[str]) -> GenerationSettings:
    """Let traces of one question be the rows of a table, with what people said about them."""
    rows = response_rows(traces)
    kept = [trace for trace in traces if trace.id in rows]
    roles = {rubric: _transcript_roles(_columns(settings.columns, rubric)) for rubric in rubrics}
    fields = [own["label"] for own in roles.values() if "label" in own]
    # Of several rubrics a trace must have a label under each.
    for label in fields:
        kept = labelled_traces(kept, label=label, unlabelled=settings.has_labeller)
    columns = {role: _full_names(column, kept) for role, column in (settings.columns or {}).items()}
    table: list[dict[str, Any]] = [rows[trace.id] for trace in kept]
    people = None
    if len(rubrics) == 1 and any(people_in(trace, label) for trace in kept for label in fields):
        # What stands for several people depends on the labels, which the table tells.
        people, _ = PEOPLE, columns.pop("label")
        table = [{**row, PEOPLE: dict(people_in(trace, fields[0]))} for row, trace in zip(table, kept, strict=True)]
    if settings.instruction is not None:
        table = [{name: cell for name, cell in row.items() if name != "instruction"} for row in table]
    chosen = {name: value for name in ("group", "stratify") if (value := getattr(settings, name)) not in (None, *ROLES)}
    named = {name: full_name(value, kept) for name, value in chosen.items()}
    return settings.model_copy(update={"dataset": table, "columns": columns, "people": people, **named})


def _full_names(column: Any, traces: Sequence[Transcript]) -> Any:
    """Name the column of a role, or those that each rubric has, as the rows of `_response_row` do."""
    if isinstance(column, Mapping):
        return {rubric: full_name(str(name), traces) for rubric, name in column.items()}
    return full_name(str(column), traces)


def _agent_plan(
    settings: GenerationSettings, tests: Sequence[AgentTest], traces: Sequence[Transcript] | None
) -> AgentPlan:
    """Make the baselines and lay out the jobs.

    Raises:
        RecipeError: for what makes no sense, before anything is sent.
    """
    if settings.people is not None:
        raise RecipeError(
            "`people` names columns of a table of responses, and the source holds transcripts. Leave it out."
        )
    epochs = _epochs(settings.epochs)
    transcripts = list(_transcripts(settings.dataset, epochs)) if traces is None else traces
    rubrics = read_rubrics(settings.rubric, settings.rubrics, about="a transcript")
    for rubric in rubrics:
        label = _transcript_roles(_columns(settings.columns, rubric.id)).get("label")
        if label is not None:
            labels = _transcript_labels(settings, rubric)
            transcripts = labelled_traces(
                transcripts, label=label, labels=labels, values=settings.values, unlabelled=settings.has_labeller
            )
    parts = [_agent_part(settings, tests, transcripts, epochs, rubric) for rubric in rubrics]
    _check_same({rubric.id: part.labels for rubric, part in zip(rubrics, parts, strict=True)})
    if len(parts) == 1:
        return parts[0]
    starts = [item for of_row in zip(*(part.starts for part in parts), strict=True) for item in of_row]
    seeds = [seed for of_row in zip(*(part.seeds for part in parts), strict=True) for seed in of_row]
    unlabelled = tuple(name for part in parts for name in part.unlabelled)
    return joined(parts, seeds, starts=tuple(starts), unlabelled=unlabelled)


def _agent_part(
    settings: GenerationSettings,
    tests: Sequence[AgentTest],
    transcripts: Sequence[Transcript],
    epochs: Sequence[int] | None,
    rubric: Rubric,
) -> AgentPlan:
    """Lay out what is made of transcripts under one rubric."""
    labels, roles = _transcript_labels(settings, rubric), _transcript_roles(_columns(settings.columns, rubric.id))
    violation, by = violation_label(labels, settings.violation), settings.group or roles.get("group")
    steps = check_steps(_listed(settings.preprocess or ()))
    # Written only where it is given: it names the budget.
    chosen = {} if epochs is None else {"epochs": ",".join(map(str, epochs))}
    starts = transcript_items(
        _drawn(transcripts, settings, stratify=roles.get(str(settings.stratify), settings.stratify)),
        rubric=rubric.text,
        labels=labels,
        label=roles.get("label"),
        values=settings.values,
        group=by,
        preprocess=steps,
        unlabelled=settings.has_labeller,
    )
    if settings.instruction is not None:
        starts = [replace(item, instruction=settings.instruction) for item in starts]
    starts = [_under(item, rubric.id) for item in starts]
    seeds = tuple(map(_transcript_seed, starts))
    targets = ((test, test.aimed(seeds, labels, rubric.text, violation=violation)) for test in tests)
    return AgentPlan(
        seeds=seeds,
        labels=labels,
        rubric=rubric.text,
        tests=tuple(tests),
        jobs=_jobs((test, target) for test, aimed in targets for target in aimed),
        starts=tuple(starts),
        violation=violation,
        max_steps=settings.max_steps or MAX_STEPS,
        plans=settings.plans or PLANS,
        unlabelled=tuple(seed_id(item) for item in starts if item.expected is None) if settings.has_labeller else (),
        about={"preprocess": ",".join(steps) or None, "group": by, "label": roles.get("label"), **chosen},
    )


def _under(item: Item, rubric: str) -> Item:
    """Name a baseline after its rubric, where there are several."""
    if not rubric:
        return item
    return replace(item, id=f"{item.task}@{rubric}/{BASELINE}", meta={**item.meta, "rubric": rubric})


def _agent_tests(tests: Sequence[object]) -> list[AgentTest]:
    """Resolve tests of transcripts, each once; a group means all of them, with the parameters given beside it."""
    if any(name in GROUPS for name in tests if isinstance(name, str)):
        own = {test.name: test for test in tests if isinstance(test, AgentTest)}
        return [own.get(name, test) for name, test in AGENT_TESTS.items()]
    named = [test if isinstance(test, AgentTest) else find_agent_test(test) for test in tests]
    known = [test for test in named if test is not None]
    for test in known:
        if sum(test.name == other.name for other in known) > 1:
            raise RecipeError(f"Test {test.name!r} is named twice. Name each test once.")
    return known


def _epochs(given: object) -> list[int] | None:
    """Read `[1, 4]`, `1` or `"1,4"`."""
    if given is None:
        return None
    texts = [str(epoch).strip() for epoch in _listed(given)]
    if not texts or not all(text.isascii() and text.isdigit() for text in texts):
        raise RecipeError(f"`epochs` must be numbers, as in [1, 4] or --epochs 1,4, but is {given!r}.")
    return sorted({int(text) for text in texts})


def _transcripts(dataset: object, epochs: Sequence[int] | None) -> Iterator[Transcript]:
    if not isinstance(dataset, Iterable | Path | Transcript | Message):
        raise RecipeError(f"Transcripts cannot be read from a {type(dataset).__name__}. Give a log or a list of them.")
    source = [dataset] if isinstance(dataset, Transcript | Message) else dataset
    return read_transcripts(source, epochs=epochs)


def _transcript_labels(settings: GenerationSettings, rubric: Rubric) -> Labels:
    given = _given_labels(settings, rubric)
    if given["labels"] is None and given["scale"] is None:
        raise RecipeError(
            "Transcripts need `labels`, the one for a violation last (--labels 'no violation,violation'), or `scale`."
        )
    return read_labels((), column="label", ids=(), grades=settings.grades, **given)[1]


def _transcript_roles(columns: Mapping[str, str] | None) -> dict[str, str]:
    roles = dict(columns or {})
    for role in roles:
        if role not in _TRANSCRIPT_ROLES:
            listed = " and ".join(repr(known) for known in _TRANSCRIPT_ROLES)
            close = suggest(role, _TRANSCRIPT_ROLES)
            raise RecipeError(f"Transcripts have the roles {listed}, but got {role!r}.{close}")
    return roles


def _drawn(read: Sequence[Transcript], settings: GenerationSettings, *, stratify: str | None) -> Sequence[Transcript]:
    if settings.n is None:
        if stratify is not None:
            raise RecipeError("`stratify` shares a draw: give `n`, how many transcripts to draw.")
        return read
    strata = [(stratify and label_text(transcript_field(transcript, stratify))) or "" for transcript in read]
    drawn = drawn_rows([transcript.id for transcript in read], strata, settings.n, seed=settings.seed)
    return [read[place] for place in drawn]


def _transcript_seed(item: Item) -> Seed:
    return Seed(
        id=seed_id(item),
        instruction=item.instruction or "",
        response=messages_text(item.transcript or ()),
        label=item.expected or "",
        group=item.meta.get("group"),
        meta={name: item.meta[name] for name in ("rubric", PEOPLE) if item.meta.get(name)},
    )


def about_item(seed: Seed, test: str, target: Target | None = None) -> dict[str, Any]:
    """Return what an item says of its source: task, test, group, and where its label comes from."""
    group = {} if seed.group is None else {"group": seed.group}
    source = target.label_source if target and seed.id == target.seed.id else seed.label_source
    known = {"label_source": source} if source else {}
    people = {PEOPLE: seed.meta[PEOPLE]} if test == BASELINE and PEOPLE in seed.meta else {}
    return {"source": seed.task, "test": test, **group, **_of_source(seed.meta), **people, **known}


def _of_source(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return what holds for all that is made of a source: who gave it its label, and which, does not."""
    return {name: value for name, value in meta.items() if name not in ("label_source", PEOPLE)}


def seed_id(item: Item) -> str:
    """Return the seed that a baseline is of: its id without the condition."""
    return item.id.rpartition("/")[0]


def _labelled_start(item: Item, label: str | None) -> Item:
    if label is None:
        return item
    return replace(item, expected=label, meta={**item.meta, "label_source": BY_MODEL})


def _with_label(seed: Seed, label: str | None) -> Seed:
    """Give a seed the label that a model wrote; None: it keeps its own."""
    return seed if label is None else replace(seed, label=label, meta={**seed.meta, "label_source": BY_MODEL})


def _with_examples(
    test: ReliabilityTest, targets: Sequence[Target], seeds: Sequence[Seed], rows: Sequence[Seed]
) -> Sequence[Target]:
    """Show a writer examples from the whole file, where only some rows were drawn."""
    return test.shown(targets, rows) if isinstance(test, Rewrite) and len(rows) > len(seeds) else targets


def _jobs(targets: Iterable[tuple[ReliabilityTest, Target]]) -> tuple[Job, ...]:
    return tuple(Job(place=place, test=test, target=target) for place, (test, target) in enumerate(targets))


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


def _calls_in_a_row(jobs: list[Job]) -> tuple[bool, int]:
    """Count the calls that follow one another: each text, and each confirmation."""
    return isinstance(jobs[0].test, CodeTest), sum(2 if job.confirm else 1 for job in jobs)
