"""Generate, review, judge and compare, written down in one YAML file: `jrh evaluate pipeline.yaml`.

Each stage is continued and not repeated: a suite that the same settings made is used as it is, a finished review
stands, an evaluation that was logged whole is read, and what a model answered is in the journal. One tag ties the runs.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jrh_mlflow.comparing.compare import Comparison, SuitesComparison, compare
from jrh_mlflow.comparing.jury.jury import Jury, jury
from jrh_mlflow.engine.budget import checked_cap
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.errors import BudgetError, JudgeError, ReviewError
from jrh_mlflow.generation.generate import GenerationQuote, generate_into, quoted
from jrh_mlflow.generation.pipeline import finished_items, how_made
from jrh_mlflow.generation.plan import AgentPlan
from jrh_mlflow.generation.prepared import PreparedGeneration, prepare_generation
from jrh_mlflow.generation.report import check_folder
from jrh_mlflow.judges import Judge
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate, price_evaluation
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.resolve import journal_at, load_suite, may_exist
from jrh_mlflow.models import trust
from jrh_mlflow.options import GenerationSettings, RunOptions
from jrh_mlflow.outputs import check_free
from jrh_mlflow.perturb import item_id
from jrh_mlflow.recipe import GENERATION_KEYS, generation_from, read_document, recipe_judge, run_options
from jrh_mlflow.review.contents import open_catalog
from jrh_mlflow.review.finish import ReviewLogger, decide_from, finish_now
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.suites.suite import ITEMS_FILE, Suite, read_suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.read import FinishedStep, finished_step
from jrh_mlflow.yaml_files import Document, read_yaml

Say = Callable[[str], object]

_KEYS = ("generate", "suite", "review", "judges", "evaluate", "compare", "jury")
"""Keys of a pipeline besides those of a run."""
_SHARED = ("experiment", "tracking_uri", "journal", "concurrency", "prices")
_LIMITS = ("requests_per_minute", "tokens_per_minute", "timeout_s")
_NOT_OF_RESULTS = (*_SHARED, *_LIMITS, "run_name", "max_usd", "tags", "backend")
"""Run options that change no number of an evaluation: one that was logged stands for the same under others."""
_REVIEW_KEYS = ("reviewer", "decisions", "allow_undecided", "port", "browser")
_LOGGED = ("runs", "experiment", "tracking_uri", "log", "tags")
"""Arguments of `compare` and `jury` that a pipeline gives."""


@dataclass(frozen=True, kw_only=True)
class ReviewStage:
    """How the generated items are reviewed before any judge sees them."""

    reviewer: str | None = None
    """Who decides; the page asks when None."""
    decisions: Path | None = None
    """A table of decisions, in place of the page."""
    allow_undecided: bool = False
    """Whether items that nobody decided are left out; the pipeline stops at them otherwise."""
    port: int = 0
    browser: bool = True


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """A pipeline as it is written down."""

    name: str
    generation: GenerationSettings | None
    folder: Path | None
    """Of the generated suite."""
    suite: str | None
    """One that is there already, in place of a generation."""
    review: ReviewStage | None
    judges: tuple[Judge, ...]
    compare: Mapping[str, Any] | None
    html: Path | None
    """Where the comparison is also written as a page."""
    jury: Mapping[str, Any] | None
    options: Mapping[str, Any]
    """Of every evaluation, without `max_usd`."""
    judging_usd: float | None
    """Cap on all judges together."""
    total_usd: float | None
    """Cap on all stages together."""

    @cached_property
    def prepared(self) -> PreparedGeneration | None:
        """What is to be generated, read and checked; nothing is sent."""
        return None if self.generation is None else prepare_generation(self.generation)

    @cached_property
    def tag(self) -> str:
        """What ties the runs together: the recipe's name, and a hash of what its suite is made from."""
        if self.prepared is None:
            return f"{self.name}-{outbox_key('pipeline', self.suite)[:8]}"
        plan = self.prepared.plan
        tests = [test.name for test in plan.tests]
        made_from = (plan.sha256, plan.rubric_sha256, tests, self.prepared.settings.seed)
        return f"{self.name}-{outbox_key('pipeline', *made_from)[:8]}"

    @property
    def place(self) -> dict[str, Any]:
        """Where in MLflow its runs go."""
        return {name: self.options.get(name) for name in ("experiment", "tracking_uri")}

    def made_suite(self) -> Suite | None:
        """Return the suite that is judged, or reviewed first, where it is there already and whole."""
        if self.prepared is None:
            return load_suite(str(self.suite), tracking_uri=self.options.get("tracking_uri"))
        assert self.folder is not None
        if not (self.folder / ITEMS_FILE).exists():
            return None
        check_folder(self.prepared, self.folder, force=False)
        suite = read_suite(self.folder)
        # A suite that was cut short is generated further before anybody judges it.
        return None if suite.origin.get("truncated") else suite


def is_workflow(path: str | Path) -> bool:
    """Whether a recipe describes a pipeline, by its keys."""
    written = read_yaml(Path(path))
    return isinstance(written, Mapping) and bool({"judges", "generate"} & written.keys())


def load_workflow(path: str | Path, *, allow_key_to: str | Iterable[str] | None = None, **overrides: Any) -> Workflow:
    """Read a pipeline in YAML; paths in it are relative to the recipe.

    Args:
        path: The recipe.
        allow_key_to: As for `load_recipe`.
        overrides: Run options in place of the recipe's.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is, or a value that makes no sense.
    """
    path = Path(path)
    trust.allow_key_to(allow_key_to)
    document = read_document(path, (*_KEYS, *RunOptions.model_fields))
    written = document.data
    if ("generate" in written) == ("suite" in written):
        raise document.error("give one of `generate` and `suite`.")
    run = run_options(document, overrides)
    judging = {}
    if written.get("evaluate") is not None:
        judging = run_options(document.inside("evaluate", written["evaluate"], RunOptions.model_fields))
    trust.check_stores({**run, **judging})
    total = run.pop("max_usd", None)
    judging_usd = judging.pop("max_usd", None)
    generation, folder = _generation(document, path, run, total)
    comparing = _stage(document, "compare", (*_parameters(compare), "html"), default=True)
    html = comparing.pop("html", None) if comparing is not None else None
    return Workflow(
        name=path.stem,
        generation=generation,
        folder=folder,
        suite=None if "suite" not in written else document.beside(str(written["suite"])),
        review=_review(document),
        judges=_judges(document, {**run, **judging}),
        compare=comparing,
        html=None if html is None else path.parent / str(html),
        jury=_stage(document, "jury", _parameters(jury)),
        options={**run, **judging},
        judging_usd=judging_usd,
        total_usd=total,
    )


def _generation(
    document: Document, path: Path, run: Mapping[str, Any], total: float | None
) -> tuple[GenerationSettings | None, Path | None]:
    """Read the generation; what it does not say of store, journal and limits is what the run says."""
    if document.data.get("generate") is None:
        return None, None
    given = generation_from(document.inside("generate", document.data["generate"], GENERATION_KEYS))
    folder = Path(given.pop("output", path.parent / f"{path.stem}_suite"))
    shared = {name: run[name] for name in (*_SHARED, *_LIMITS, "seed") if name in run}
    # The cap on everything also holds for the first stage alone.
    caps = [cap for cap in (given.get("max_usd"), total) if cap is not None]
    return GenerationSettings.checked({**shared, **given, "max_usd": min(caps, default=None)}), folder


def _review(document: Document) -> ReviewStage | None:
    given = _stage(document, "review", _REVIEW_KEYS)
    if given is None:
        return None
    stage = document.inside("review", given, _REVIEW_KEYS)
    for key in ("allow_undecided", "browser"):
        stage.value(key, bool, "true or false")
    if given.get("decisions") is not None:
        given["decisions"] = document.folder / str(given["decisions"])
    return ReviewStage(**{key: value for key, value in given.items() if value is not None})


def _judges(document: Document, options: Mapping[str, Any]) -> tuple[Judge, ...]:
    written = document.value("judges", list, "a list of judges, as in [openai/gpt-4o-mini]", needed=True)
    return tuple(recipe_judge(judge, document, options=options) for judge in written)


def _stage(document: Document, name: str, known: tuple[str, ...], *, default: bool = False) -> dict[str, Any] | None:
    """Return the settings of a stage that may also be switched with true or false."""
    written = document.data.get(name, default)
    if written in (False, None):
        return None
    return document.inside(name, {} if written is True else written, known).data


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name not in _LOGGED)


@dataclass(frozen=True, kw_only=True)
class WorkflowQuote:
    """What a pipeline would send and cost."""

    generation: GenerationQuote | None
    """None where nothing is left to be generated."""
    judges: tuple[tuple[str, Quote | None], ...]
    """Each with its price; None for one that answers by itself."""
    items: int
    """That are judged, if all can be made and none is rejected."""

    @property
    def usd(self) -> float | None:
        """Dollars of all stages, None when a price is unknown."""
        return _sum([part.usd for part in self._parts])

    @property
    def worst_usd(self) -> float | None:
        """Dollars of all stages at their worst, None when a price is unknown."""
        return _sum([part.worst_usd for part in self._parts])

    @property
    def _parts(self) -> list[GenerationQuote | Quote]:
        quotes = [quote for _, quote in self.judges if quote is not None]
        return [*([self.generation] if self.generation else []), *quotes]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        judges = [{"judge": name, **(asdict(quote) if quote else {"usd": 0.0})} for name, quote in self.judges]
        made = asdict(self.generation) if self.generation else None
        return {"generate": made, "judges": judges, "items": self.items, "usd": self.usd, "worst_usd": self.worst_usd}


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def price_workflow(workflow: Workflow) -> WorkflowQuote:
    """Say what all stages would send and cost, without sending anything.

    Judges are priced on the suite where it is there, and else on its sources in the place of texts still to be written.
    """
    suite, generation = workflow.made_suite(), None
    if suite is None:
        assert workflow.prepared is not None
        generation = quoted(workflow.prepared)
        suite = _stand_in(workflow.prepared)
    else:
        suite = _after_review(workflow, suite) or _unmarked(suite)
    judges = tuple(
        (judge.name, price_evaluation(judge, suite, **workflow.options) if judge.model_judge else None)
        for judge in workflow.judges
    )
    return WorkflowQuote(generation=generation, judges=judges, items=len(suite))


def _stand_in(prepared: PreparedGeneration) -> Suite:
    """Return the suite as it would be if every text were its original."""
    plan = prepared.plan
    items = plan.baselines()
    for job in plan.jobs:
        if isinstance(plan, AgentPlan):
            name = item_id(job.target.seed, job.target.condition, job.target.number)
            items.append(replace(plan.start(job), id=name, condition=job.target.condition))
        else:
            items += finished_items(job, job.target.original, how_made(""))
    return Suite(name=prepared.settings.suite_name, items=items)


def _unmarked(suite: Suite) -> Suite:
    """Return a suite without what a review noted on it: to be priced, never to be judged."""
    origin = {key: value for key, value in suite.origin.items() if not key.startswith("review")}
    return Suite(name=suite.name, items=suite.items, origin={**origin, "review": None})


@dataclass(frozen=True, kw_only=True)
class JudgedStage:
    """One judge of a pipeline: its evaluation, or why there is none."""

    judge: str
    run_id: str | None
    link: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Those of its MLflow run."""
    cost_usd: float | None = None
    truncated: str | None = None
    problem: str | None = None
    exit_code: int = 0
    reused: bool = False
    """Whether it was logged by an earlier start of the pipeline."""


@dataclass(frozen=True, kw_only=True)
class WorkflowRun:
    """What a pipeline came to."""

    tag: str
    suite: Suite
    path: str
    """Where the suite that was judged lies."""
    made: bool
    """Whether it was generated now."""
    truncated: str | None
    """Why items of the generation are missing; nobody was asked then."""
    review: Mapping[str, Any] | None
    judges: tuple[JudgedStage, ...] = ()
    comparison: Comparison | SuitesComparison | None = None
    jury: Jury | None = None
    html: Path | None = None

    @property
    def exit_code(self) -> int:
        """0 done, 3 stopped by a cap, 4 a judge or its service failed."""
        codes = [stage.exit_code for stage in self.judges]
        capped = self.truncated or any(stage.truncated for stage in self.judges)
        return max([*codes, BudgetError.exit_code if capped else 0], default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "pipeline": self.tag,
            "suite": {**keys.suite_facts(self.suite), "path": self.path, "made": self.made},
            "truncated": self.truncated,
            "review": self.review,
            "judges": [asdict(stage) for stage in self.judges],
            "compare": self.comparison.to_dict() if self.comparison else None,
            "jury": self.jury.to_dict() if self.jury else None,
        }


def run_workflow(workflow: Workflow, *, force: bool = False, say: Say = str) -> WorkflowRun:
    """Do what a pipeline says, from where its last start ended.

    Args:
        workflow: What to do.
        force: Overwrite another suite in the folder of the generation, and the page of the comparison.
        say: Told in one line what is done next, before it is paid.

    Raises:
        JrhError: for what makes no sense or is missing (a key, a file), before anything is paid; when items are
            undecided; when a service fails for good while items are generated.
    """
    if workflow.html is not None:
        check_free(workflow.html, force=force)
    # With `force` a suite that is there is made anew, but one that was only named is never overwritten.
    suite, made = workflow.made_suite() if not force or workflow.prepared is None else None, False
    _check_judges(workflow, suite)
    folder = str(workflow.folder or workflow.suite)
    if suite is None:
        suite, made = _generated(workflow, force=force, say=say), True
    truncated = suite.origin.get("truncated") if made else None
    run = WorkflowRun(tag=workflow.tag, suite=suite, path=folder, made=made, truncated=truncated, review=None)
    if truncated:
        return run
    if workflow.review is not None:
        reviewed, facts = _reviewed(workflow, folder, suite, say=say)
        run = replace(run, suite=reviewed, path=str(facts["path"]), review=facts)
    run = replace(run, judges=tuple(_judged(workflow, run.suite, say=say)))
    return _compared(workflow, run)


def _check_judges(workflow: Workflow, suite: Suite | None) -> None:
    """Refuse a judge that cannot be asked or capped before the generation is paid."""
    options, cap = workflow.options, workflow.judging_usd or workflow.total_usd
    for judge in workflow.judges:
        if cap is not None and judge.kind != "scripted":
            checked_cap(cap, judge, options.get("prices"))
        if suite is not None:
            # A suite under review would be refused, and its review is a later stage.
            dry_prepared(judge, _unmarked(suite), **options).check_ready()
        elif (lacks := judge.lacks()) and options.get("backend", "local") == "local":
            raise JudgeError(f"The judge {lacks}")


def _generated(workflow: Workflow, *, force: bool, say: Say) -> Suite:
    assert workflow.prepared is not None
    assert workflow.folder is not None
    settings = workflow.prepared.settings
    say(f"generating {settings.suite_name} into {workflow.folder}")
    tags = {**(settings.tags or {}), keys.TAG_PIPELINE: workflow.tag}
    settings = settings.model_copy(update={"tags": tags})
    prepared = replace(workflow.prepared, settings=settings)
    return generate_into(workflow.folder, settings, force=force, prepared=prepared).suite


def _reviewed(workflow: Workflow, folder: str, suite: Suite, *, say: Say) -> tuple[Suite, dict[str, Any]]:
    """Return the reviewed suite: that of a finished review, of the table of decisions, or of whoever opens the page."""
    stage = workflow.review
    assert stage is not None
    if (reviewed := _after_review(workflow, suite)) is not None:
        return reviewed, {"path": _result_of(folder), "sha256": reviewed.sha256, "finished": "before"}
    catalog = open_catalog((folder,), tracking_uri=workflow.options.get("tracking_uri"))
    log = ReviewLogger(**workflow.place, tags={keys.TAG_PIPELINE: workflow.tag})
    (review,) = catalog.reviews()
    if stage.decisions is not None:
        say(f"reviewing by {stage.decisions}")
        decide_from(review, stage.decisions, who=stage.reviewer)
        who = stage.reviewer or stage.decisions.name
        facts = finish_now(catalog, reviewer=who, allow_undecided=stage.allow_undecided, log=log)
        return read_suite(facts["path"]), facts
    say(f"waiting for the review of {folder}")
    from jrh_mlflow.review.app import serve_review

    serve_review(
        catalog,
        port=stage.port,
        reviewer=stage.reviewer,
        browser=stage.browser,
        log=log,
        until_finished=True,
        stream=sys.stderr,
    )
    if (reviewed := _after_review(workflow, read_suite(folder))) is None:
        raise ReviewError(f"The review of {folder} is not finished: run the pipeline again to go on with it.")
    return reviewed, {"path": _result_of(folder), "sha256": reviewed.sha256, "finished": "now"}


def _after_review(workflow: Workflow, suite: Suite) -> Suite | None:
    """Return what a finished review of this very suite left, where there is one."""
    # A review of an earlier suite in the same folder says nothing of this one, hence the hash below.
    if workflow.review is None or suite.origin.get("review") != "finished":
        return None
    reviewed = read_suite(_result_of(str(workflow.folder or workflow.suite)))
    return reviewed if reviewed.origin.get("parent_sha256") == suite.sha256 else None


def _result_of(folder: str) -> Path:
    return Path(folder).resolve().parent / str(read_suite(folder).origin.get("review_result"))


def _judged(workflow: Workflow, suite: Suite, *, say: Say) -> list[JudgedStage]:
    cap, stages = _judging_cap(workflow), []
    for judge in workflow.judges:
        step = _step(judge, suite, workflow.options)
        if step and (earlier := finished_step(step, **workflow.place)):
            say(f"{judge.name}: measured before, run {earlier.run_id}")
            stages.append(_found_stage(judge, earlier))
            continue
        say(f"asking {judge.name}")
        tags = {**(workflow.options.get("tags") or {}), keys.TAG_PIPELINE: workflow.tag}
        options = {**workflow.options, "tags": {**tags, **({keys.TAG_STEP: step} if step else {})}}
        # One name for the runs of all judges would tell none of them apart.
        options.pop("run_name", None)
        # One budget for all judges: what one has spent is not left to the next.
        if cap is not None and judge.kind != "scripted":
            options |= {"max_usd": cap, "budget": outbox_key("pipeline judges", workflow.tag, suite.sha256)}
        stages.append(_ask(judge, suite, options))
    return stages


def _judging_cap(workflow: Workflow) -> float | None:
    """Return what all judges may spend together: their own cap, and what the generation left of that on everything."""
    caps = [workflow.judging_usd] if workflow.judging_usd is not None else []
    if workflow.total_usd is not None:
        left = workflow.total_usd - _spent_on_generation(workflow)
        if left <= 0:
            raise BudgetError(f"The generation has spent the cap of ${workflow.total_usd}. Raise `max_usd`.")
        caps.append(left)
    return min(caps, default=None)


def _spent_on_generation(workflow: Workflow) -> float:
    budget = workflow.prepared.budget() if workflow.prepared else None
    place = workflow.generation.journal if workflow.generation else None
    if budget is None or not may_exist(place):
        return 0.0
    with journal_at(place) as journal:
        return journal.spent_micro(budget) / 1_000_000


def _step(judge: Judge, suite: Suite, options: Mapping[str, Any]) -> str | None:
    """Name an evaluation by all that its numbers depend on; None where two judges could look the same."""
    if (fingerprint := judge.fingerprint()) is None:
        return None
    decisive = {name: str(value) for name, value in sorted(options.items()) if name not in _NOT_OF_RESULTS}
    return outbox_key("evaluate", fingerprint, judge.name, suite.sha256, json.dumps(decisive))


def _ask(judge: Judge, suite: Suite, options: Mapping[str, Any]) -> JudgedStage:
    """Evaluate one judge; when its service fails, or its cap covers nothing, the others are still asked."""
    try:
        done: Evaluation = evaluate(judge, suite, **options)
    except (JudgeError, BudgetError) as error:
        return JudgedStage(judge=judge.name, run_id=None, problem=str(error), exit_code=error.exit_code)
    return JudgedStage(
        judge=done.judge.label,
        run_id=done.run_id,
        link=done.link,
        metrics=done.logged,
        cost_usd=done.cost_usd,
        truncated=done.truncated,
    )


def _found_stage(judge: Judge, earlier: FinishedStep) -> JudgedStage:
    """Return the evaluation that an earlier start logged."""
    cost = earlier.metrics.get(metric_keys.COST)
    return JudgedStage(
        judge=JudgeFacts.of(judge).label,
        run_id=earlier.run_id,
        link=earlier.link,
        metrics=earlier.metrics,
        cost_usd=cost,
        reused=True,
    )


def _compared(workflow: Workflow, run: WorkflowRun) -> WorkflowRun:
    """Compare the judges that were measured, and let them vote where that was asked for."""
    runs = [stage.run_id for stage in run.judges if stage.run_id is not None]
    # A judge whose service failed has no run; one that is left alone has nobody to be compared with.
    if len(runs) < 2:
        return run
    done: dict[str, Any] = {}
    for name, verb, settings in (("comparison", compare, workflow.compare), ("jury", jury, workflow.jury)):
        if settings is None:
            continue
        step = outbox_key(name, *runs, json.dumps(settings, sort_keys=True, default=str))
        # The step names what went in, so that the next start finds the run and does not log it twice.
        tags = {keys.TAG_PIPELINE: workflow.tag, keys.TAG_STEP: step}
        # It costs nothing and is made again to be shown; the run that an earlier start logged stands.
        log = finished_step(step, **workflow.place) is None
        done[name] = verb(runs, **workflow.place, **settings, log=log, tags=tags)
    if workflow.html is not None and "comparison" in done:
        workflow.html.write_text(done["comparison"].to_html(), encoding="utf-8")
        done["html"] = workflow.html
    return replace(run, **done)
