"""`jrh.generate`: labelled responses become a reliability suite, as an MLflow run; and what that would cost."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jrh_mlflow.collector import calm_collector
from jrh_mlflow.engine.budget import judge_price
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import run_coroutine
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.generation.editor import Scene, Stage, Step, editable
from jrh_mlflow.generation.pipeline import MAY_DIFFER, Made, OnDone, Pipeline, compared_texts, questions_about
from jrh_mlflow.generation.plan import AgentPlan, GenerationPlan, Job
from jrh_mlflow.generation.prepared import Labelling, PreparedGeneration, ask_for_labels, graded, prepare_generation
from jrh_mlflow.generation.report import check_folder, generation_content, made_suite
from jrh_mlflow.generation.transcripts import AgentPipeline
from jrh_mlflow.generation.writers import Generator, Usage, asked_judge, call_about
from jrh_mlflow.judges import Judge, ModelJudge
from jrh_mlflow.judges.rendering import message_texts
from jrh_mlflow.measuring.resolve import journal_at, may_exist
from jrh_mlflow.models import prices as pricing
from jrh_mlflow.models.prices import Price, prompt_size
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.perturb import AgentTest, NotApplicable, Rewrite, Similarity
from jrh_mlflow.perturb.checks import as_similarity
from jrh_mlflow.progress import is_watched, progress_bar, ticking
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.labels import GivenLabels, about_labels
from jrh_mlflow.suites.suite import OnItems, Suite, partial_file, save_suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, open_run, publish

logger = logging.getLogger("jrh_mlflow")
NOTHING_MADE = "Nothing could be made beyond the baselines: the suite holds no perturbed item."


@dataclass(frozen=True, kw_only=True)
class GenerationRun:
    """A suite, and how it was made."""

    suite: Suite
    made: Made
    run_id: str
    metrics: dict[str, float]
    """Exactly what was logged."""
    link: str
    """Where the run can be looked at."""

    @property
    def truncated(self) -> str | None:
        """Why items are missing (`budget: 12 of 80 items not made`), or None. The same call again continues."""
        reason: str | None = self.suite.origin["truncated"]
        return reason


def generate(
    dataset: object,
    *,
    rubric: str | Path | Mapping[str, str] | Sequence[Mapping[str, Any]],
    tests: object = "paper",
    generator: object = None,
    validator: object = None,
    labels: GivenLabels = None,
    scale: GivenLabels = None,
    seed: int = 0,
    max_usd: float | None = None,
    **options: Any,
) -> Suite:
    """Make a reliability suite from labelled responses or transcripts and log the making as an MLflow run.

    Every text is checked before it is taken, tried again at a higher temperature, and set aside with its reasons when
    no attempt passes. Labels come from the data and from what a test means; a model's (`labeller`) are told apart.

    Args:
        dataset: A DataFrame; the path of a CSV, JSON lines, JSON or Parquet file; a Hugging Face or MLflow dataset; or
            mappings. One row is one labelled response. For tests of transcripts: an Inspect log (`.eval`, `.json`), a
            folder of them, `Transcript` objects or lists of messages. For either: `traces:/<experiment>` in the store
            at `tracking_uri`, labelled by people (`columns={"label": "scores.NAME"}`).
        tests: `"paper"`, `"all"`, names (a list, or joined by commas) or tests; `jrh suite tests` lists them. With
            parameters `{"name": "stochastic_stability", "replicates": 5}` or `"stochastic_stability:replicates=5"`; a
            prompt file is a test of your own: `"@sarcasm.txt"`, `{"name": "sarcasm", "prompt": "sarcasm.txt"}`.
        rubric: The question the judge answers about a response; or several in one suite, under ids of their own:
            id to text, or a list (also a JSON file) of `{id, instructions, score_levels}`. Each may have labels of
            its own, `columns={"label": {"helpful": "a", "safe": "b"}}`.
        generator: Who rewrites: a model name, a `Generator` or a function `f(brief, temperature)`. None (or `"none"`)
            is nobody: then tests that code writes can be made, and any other is refused.
        validator: Who confirms every rewritten item: label flips, levels and edited transcripts with the judge's own
            question, other rewrites by comparing them with the original (`kept` or `changed`). A model name or any
            judge, best of another family than the generator; or a list, of which the next is asked when one refuses or
            fails; None asks the generator's own model, `"none"` nobody.
        labels: The labels there may be, the better one or the one to be detected last; or label to what it means, as
            in `{"0": "not harmful", "1": "harmful"}`. They have no order, numbers neither.
        scale: An ordinal scale: `(low, high)`, or its levels from low to high; or level to what it means.
        seed: Of the draw of rows and of everything written by code.
        max_usd: Never spend more than this on generator and validator together, restarts included. On reaching it the
            suite holds what is complete.
        **options: Every field of `GenerationSettings` (`jrh_mlflow.options`), which are these.
        columns: Role (`id`, `instruction`, `response`, `label`, `group`, `context`) to column, or to a field of
            transcripts. The context, a text or a list of texts, is what the response was to go by: judges are shown it.
        instruction: The task all responses answer, when the data have no column for it.
        n: How many rows to draw.
        stratify: Column or role whose values share the draw in proportion.
        similarity: None for TF-IDF, a `Similarity`, or a function from texts to vectors.
        name: Of the suite; the file's name, or `reliability`.
        concurrency: Most calls in flight to each model.
        journal: Where paid answers are kept; one journal per user when None.
        prices: Model to dollars per million input and output tokens.
        requests_per_minute: Of the endpoint; limits delay, never drop.
        tokens_per_minute: Of the endpoint.
        timeout_s: Of one attempt at a call.
        experiment: MLflow experiment; the active one, or `judge-datasheets`, when None.
        run_name: Name of the run; `generate <suite>` when None.
        tracking_uri: MLflow store that the run is logged to and traces are read from; the active one when None.
        progress: Show a progress bar on a terminal.
        tags: More tags for the run.
        group: Column, or field of transcripts (`metadata.topic`), to report by.
        values: What cells of the label mean, as in `{"C": "no violation", 0.0: "violation"}`; others stay as they are.
        violation: Of transcripts: the label that says that the rubric is violated; the last one, or the lowest level.
        preprocess: Of transcripts: what no judge is shown, as in `["drop_reasoning", "keep_last:10"]`; functions
            `f(transcript)` that return a `Transcript` or messages, or their places (`file.py:function`).
        max_steps: Of transcripts: most edits of one plan, 4 when None.
        plans: Of transcripts: how many plans are tried before one is set aside, 3 when None.
        epochs: Of Inspect logs: the epochs of each sample that are read, all when None.
        confirm: Whether validators are asked about what is rewritten; logged as the param `run.confirm`.
        definitions: `"paper"` takes the tests to the letter of the Harness paper: `verbosity_bias_long` asks for added
            explanation. Logged as the param `run.definitions`.
        pass_required: Whether rewritten items that the validator does not confirm are set aside. When False, the last
            one of all attempts is kept with `label_source: unverified`, as is every label flip, level and edited
            transcript where nobody confirms; judges are measured on them apart, and never as accuracy.
        labeller: Who labels rows without a label, asked the judge's own question: a model name or any judge. Its items
            say `label_source: model`; agreement with them is measured apart, and never as accuracy. What it gives no
            label is set aside, and the run's `labels.csv` is the dataset with the labels.
        labeller_asks: How often it is asked about each row; more than half of its answers must agree.
        people: Labels of several people in a table: person to column, or the column that maps each person to a label.
            They are kept in the suite (`meta["people"]` of its baselines); of a row without a label of its own, the
            most frequent of them (on a scale the median) is its label, and where no label leads the row is left out.
            Of traces, HUMAN feedback and expectations say it.
        rubrics: Of several rubrics the ids of those to use, all when None.
        grades: Whether the last label is the better one, or the one to be detected; None: their words tell, and
            `error_injection`, which needs labels that grade, is refused where they do not.
        invalid: Tests that the rubric makes invalid, because it grades what they change: names, or a mapping from name
            to reason; they are not made, and suite and reports say so. `"propose"` asks the validator, once for each
            test that expects an unchanged answer, whether the rubric grades what it changes.
        planner: Of transcripts: who plans the edits, when not the generator: a model name, a `Generator`, a function,
            or a mapping of the fields of `Generator` and `prompt`, a template file (`generation.editor` says what
            it may hold).
        editor: Of transcripts: who edits, in the same way.
        summary: Of transcripts: who keeps the running summary; the editor when None.

    Raises:
        RecipeError: for data, names or settings that make no sense, before anything is sent.
        JudgeError: when a model's service fails for good.
        TrackingError: when MLflow cannot be reached; what was paid is in the journal, and the same call again asks
            nothing twice.
    """
    question = {"rubric": rubric, "tests": tests, "generator": generator, "validator": validator, "seed": seed}
    answers = {"labels": labels, "scale": scale, "max_usd": max_usd}
    GenerationSettings.check_names(options, of="generate")
    settings = GenerationSettings.checked({"dataset": dataset, **question, **answers, **options})
    return run_generation(settings).suite


# Editors and `help` show every keyword, though each is described once, as a field of the settings.
generate.__signature__ = GenerationSettings.signature("dataset")  # type: ignore[attr-defined]


def generate_into(
    folder: str | Path,
    settings: GenerationSettings,
    *,
    force: bool = False,
    prepared: PreparedGeneration | None = None,
) -> GenerationRun:
    """Generate into a folder; while items are made, `jrh review` may look at those that are there.

    Raises:
        RecipeError: when another suite lies there and `force` was not given: before anything is paid where its
            settings are others, and else when its items turn out to be.
    """
    prepared = prepared or prepare_generation(settings)
    check_folder(prepared, Path(folder), force=force)
    with partial_file(Path(folder)) as on_items:
        done = run_generation(settings, prepared=prepared, on_items=on_items)
        save_suite(done.suite, folder, force=force, continues=True)
    return done


def run_generation(
    settings: GenerationSettings, *, prepared: PreparedGeneration | None = None, on_items: OnItems | None = None
) -> GenerationRun:
    """Do what `generate` does and tell how it went; `on_items` is told of items as they are made, baselines first."""
    prepared = prepared or prepare_generation(settings)
    shown = prepared.notes
    _check_ready(prepared)
    similarity = as_similarity(settings.similarity, prepared.plan.corpus)
    store = Store(settings.tracking_uri, settings.experiment)
    run_name = settings.run_name or f"generate {settings.suite_name}"
    tags = {**(settings.tags or {}), keys.TAG_GENERATOR: prepared.writer_name}
    # The run is opened before anything is paid: a store that cannot be reached costs nothing.
    with calm_collector(), open_run(store, "generate", run_name, tags=tags) as run_id:
        if prepared.plan.unlabelled:
            prepared = _labelled(prepared)
            similarity = as_similarity(settings.similarity, prepared.plan.corpus)
        prepared = _proposed(prepared)
        with _bar(settings.suite_name, total=prepared.plan.n_items, show=settings.progress) as tick:
            made = _make(prepared, similarity, on_done=tick, on_items=on_items)
        for note in made.notes:
            if note not in (*shown, NOTHING_MADE):
                logger.warning("%s", note)
        suite = made_suite(prepared, made, run_id=run_id, similarity=similarity.name)
        content = generation_content(prepared, made, suite)
        what_now = "Nothing paid is lost: run the same again, and no answered call is repeated."
        metrics = publish(store, run_id, content, what_now=what_now)
    return GenerationRun(suite=suite, made=made, run_id=run_id, metrics=metrics, link=store.link(run_id))


def _check_ready(prepared: PreparedGeneration) -> None:
    """Refuse a model that lacks its key or address, if a call is to be sent: kept answers need neither.

    Raises:
        JudgeError: naming generator, stage or validator, and what to set.
    """
    if not prepared.lacking:
        return
    if prepared.has_function or not may_exist(prepared.settings.journal):
        raise JudgeError(next(iter(prepared.lacking.values())))
    # The journal may hold it all. Making it from there shows whether a call is left.
    prepared = _proposed(_labelled(prepared))
    _make(prepared, as_similarity(prepared.settings.similarity, prepared.plan.corpus), on_done=None, on_items=None)


def _make(
    prepared: PreparedGeneration, similarity: Similarity, *, on_done: OnDone | None, on_items: OnItems | None
) -> Made:
    """Open the journal, where a model is asked, and make everything."""
    plan, settings = prepared.plan, prepared.settings
    with _journal(prepared) as (journal, client):
        writer, validators = prepared.participants(journal, client)
        if on_items is not None:
            on_items(plan.baselines())
        # Where no call has ever failed, none can have been passed over.
        restarted = journal is not None and journal.summary().failed > 0
        kind = AgentPipeline if isinstance(plan, AgentPlan) else Pipeline
        pipeline = kind(
            plan, settings, writer, validators, similarity, restarted=restarted, on_done=on_done, on_items=on_items
        )
        made = run_coroutine(pipeline.run())
    nothing = [] if made.total("items") else [NOTHING_MADE]
    made = replace(made, notes=(*prepared.notes, *made.notes, *nothing))
    if prepared.proposing is not None:
        spent, stopped = prepared.proposing.usage.plus(made.usage), prepared.proposing.stopped
        made = replace(made, usage=spent, stopped=stopped or made.stopped)
    return made if prepared.labelling is None else prepared.labelling.added_to(made, prepared.plan)


@contextmanager
def _journal(prepared: PreparedGeneration) -> Iterator[tuple[Journal | None, ClientSettings]]:
    """Open the journal and the budget, where a model is asked, and say how it is asked."""
    settings, budget = prepared.settings, prepared.budget()
    client = ClientSettings(
        concurrency=settings.concurrency,
        timeout_s=settings.timeout_s,
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        budget=budget,
    )
    # Where nobody is paid no journal is made.
    with journal_at(settings.journal) if prepared.needs_journal else nullcontext() as journal:
        if journal is not None and budget is not None:
            journal.open_budget(budget, prepared.cap_micro)
        yield journal, client


def _answers(prepared: PreparedGeneration, judge: Judge | None, questions: Sequence[Item], *, asks: int) -> Labelling:
    with _journal(prepared) as (journal, client):
        grader = prepared.asking(judge, journal, client)
        return run_coroutine(ask_for_labels(questions, grader, asks=asks, concurrency=client.concurrency))


def _labelled(prepared: PreparedGeneration) -> PreparedGeneration:
    """Have the rows without a label labelled, where there are any, and lay out what is made of those that have one.

    Raises:
        BudgetError: when the cap ends it before any row has a label.
        JudgeError: when no row could be labelled.
    """
    plan = prepared.plan
    if not plan.unlabelled:
        return prepared
    labelling = _answers(prepared, prepared.labeller, plan.questions(), asks=prepared.settings.labeller_asks)
    if not labelling.labels and len(plan.unlabelled) == len(plan.seeds):
        raise labelling.failure()
    labelled = plan.labelled(labelling.labels)
    for judge in prepared.validators:
        # Judges learn what they may be asked from the suite, and its labels have changed.
        judge.begin(Suite(name="baselines", items=labelled.baselines()))
    return replace(prepared, plan=labelled, labelling=labelling, as_read=plan)


def _proposed(prepared: PreparedGeneration) -> PreparedGeneration:
    """Ask the validator which tests the rubric makes invalid, where that is wanted, and leave them out."""
    questions = prepared.proposals()
    if not questions or prepared.proposing is not None:
        return prepared
    answers = _answers(prepared, prepared.validators[0], questions, asks=1)
    plan = prepared.plan.without(graded(answers, prepared.plan.tests))
    return replace(prepared, plan=plan, as_read=prepared.data, proposing=answers)


@contextmanager
def _bar(name: str, *, total: int, show: bool) -> Iterator[OnDone | None]:
    """Show items made or set aside, calls and spend; nothing where nobody watches."""
    if not show or not is_watched():
        yield None
        return
    with ticking(progress_bar(total=total, name=name, unit="item")) as bar:

        def tick(n_items: int, usage: Usage) -> None:
            dollars = {"usd": f"{usage.cost_usd:.4f}"} if usage.cost_usd else {}
            bar.set_postfix({"calls": usage.calls, **dollars}, refresh=False)
            bar.update(n_items)

        yield tick


_LONGER = 1.5
"""A rewrite is taken to have this many times the tokens of its original."""
_USUAL_STEPS = 2
"""Steps a plan of edits is taken to have."""


def price_generation(settings: GenerationSettings) -> GenerationQuote:
    """Say what a generation would send and cost, without sending anything; a cap is not looked at."""
    return quoted(prepare_generation(settings.model_copy(update={"max_usd": None})))


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationQuote:
    """What a generation would send and cost. What the journal holds already is not taken off."""

    labels: str
    """What labels, order and meanings were understood."""
    seeds: int
    items: int
    """Baselines included, if everything can be made."""
    generator_calls: int
    """If every first attempt passes."""
    max_generator_calls: int
    """If every attempt is needed."""
    validator_calls: int
    max_validator_calls: int
    usd: float | None
    """If every first attempt passes; None when a price is unknown, 0 when nothing is sent."""
    worst_usd: float | None
    """If every attempt is needed and every text is as long as `max_tokens` allows."""
    labeller_calls: int = 0


@dataclass(slots=True)
class _Bill:
    """Calls to one model and what they cost in micro-dollars, or None once a price is missing."""

    price: Price | None
    calls: int = 0
    """If every first attempt passes."""
    most: int = 0
    """If every attempt is needed."""
    likely: int | None = 0
    worst: int | None = 0

    def count(self, calls: int, most: int) -> None:
        self.calls, self.most = self.calls + calls, self.most + most

    def pay(self, *, size: int, out: int, max_out: int, calls: int = 1, most: int, grown: int = 0) -> None:
        """Add calls with a prompt of `size` bytes, which earlier answers may have made longer by `grown`."""
        self.count(calls, most)
        # One call without a price makes the sum unknown for good.
        if self.price is None or self.likely is None or self.worst is None:
            self.likely = self.worst = None
            return
        self.likely += calls * pricing.cost_micro(self.price, size // pricing.BYTES_PER_TOKEN, out)
        self.worst += most * pricing.worst_case_micro(self.price, size + grown, max_out)


def quoted(prepared: PreparedGeneration) -> GenerationQuote:
    """Add up what every rewrite would send, rendering all of them; of edits, as if each call were the longest."""
    plan, model, prices = prepared.plan, prepared.model, prepared.settings.prices
    models = {name: stage.writes for name, stage in prepared.stages.items() if isinstance(stage.writes, Generator)}
    models |= {} if model is None or prepared.stages else {"generator": model}
    bills = {name: _Bill(pricing.price_of(named.model, prices)) for name, named in models.items()}
    checking = [_Bill(judge_price(judge, prices)) for judge in prepared.validators]
    labelling = _Bill(judge_price(prepared.labeller, prices) if prepared.labeller else None)
    editor, asks = models.get("editor", model), prepared.settings.labeller_asks
    for item in plan.questions() if prepared.labeller is not None else ():
        _add_asked(labelling, item, prepared.labeller, calls=asks, most=asks)
    for item in prepared.proposals():
        _add_asked(checking[0], item, prepared.validators[0], calls=1, most=1)
    for job in plan.rewrites:
        if isinstance(plan, AgentPlan):
            _add_edits(bills, plan, job, prepared.stages)
        elif model is not None:
            _add_text(bills["generator"], job, model)
        if job.confirm:
            _add_questions(checking, prepared, job, editor)
    return GenerationQuote(
        labels=about_labels(plan.labels),
        seeds=len(plan.seeds),
        items=len(plan.seeds) + plan.n_items,
        generator_calls=sum(bill.calls for bill in bills.values()),
        max_generator_calls=sum(bill.most for bill in bills.values()),
        validator_calls=sum(bill.calls for bill in checking),
        max_validator_calls=sum(bill.most for bill in checking),
        usd=_dollars(*(bill.likely for bill in (*bills.values(), *checking, labelling))),
        worst_usd=_dollars(*(bill.worst for bill in (*bills.values(), *checking, labelling))),
        labeller_calls=labelling.calls,
    )


def _rounds(plan: GenerationPlan, model: Generator | None) -> int:
    """Return how often an item is put to the validator at most: once for each plan of edits, or for each text."""
    if isinstance(plan, AgentPlan):
        return plan.plans
    return model.attempts if model else 1


def _dollars(*parts: int | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) / 1_000_000 if len(known) == len(parts) else None


def _add_text(bill: _Bill, job: Job, model: Generator) -> None:
    """Add one rewrite, on each of its attempts."""
    assert isinstance(job.test, Rewrite)
    try:
        request = model.request(job.test.brief(job.target), temperature=model.temperature)
    except NotApplicable:
        return
    longer = int(_LONGER * len(job.target.original.encode("utf-8", "replace")))
    out = min(model.max_tokens, longer // pricing.BYTES_PER_TOKEN + 1)
    bill.pay(size=prompt_size(request), out=out, max_out=model.max_tokens, most=model.attempts)


def _add_edits(bills: Mapping[str, _Bill], plan: AgentPlan, job: Job, stages: Mapping[str, Stage]) -> None:
    """Add the calls on one transcript, each as long as the longest."""
    assert isinstance(job.test, AgentTest)
    messages = plan.start(job).transcript or ()
    scene = Scene.of(job.test, job.target, {name: stage.prompt.text for name, stage in stages.items()})
    briefs, follow_ups = _briefs(scene, messages, plan.max_steps), sum(len(message.tool_calls) for message in messages)
    n_most = {"planner": 1, "editor": plan.max_steps + follow_ups, "summary": plan.max_steps}
    models = {name: stage.writes for name, stage in stages.items() if isinstance(stage.writes, Generator)}
    longest = max((model.max_tokens for model in models.values()), default=0)
    for name, model in models.items():
        bills[name].pay(
            size=max(
                prompt_size(model.request(brief, temperature=model.temperature, own_form=True)) for brief in briefs
            ),
            out=min(pricing.TYPICAL_OUTPUT_TOKENS, model.max_tokens),
            max_out=model.max_tokens,
            calls=1 if name == "planner" else _USUAL_STEPS,
            most=plan.plans * model.attempts * n_most[name],
            # Every answer may make the next prompt longer by as much as it holds.
            grown=pricing.BYTES_PER_TOKEN * longest,
        )


def _briefs(scene: Scene, messages: Sequence[Message], max_steps: int) -> list[str]:
    """List the longest briefs there can be at first: the planner sees all, the others one message twice."""
    briefs = [scene.planner(messages, max_steps=max_steps, earlier="", rejected="")]
    if places := editable(messages):
        longest = max(places, key=lambda place: sum(map(len, message_texts(messages[place]))))
        step = Step(message=longest, change="", why="")
        briefs.append(scene.editor(messages, step, summary="", rejected=""))
        briefs.append(scene.summariser(messages[longest], messages[longest], step, summary="", rejected=""))
    return briefs


def _add_questions(bills: Sequence[_Bill], prepared: PreparedGeneration, job: Job, model: Generator | None) -> None:
    """Add the questions about one finished item, which may be longer than its source; others are asked at worst."""
    plan = prepared.plan
    if isinstance(plan, AgentPlan):
        start = plan.start(job)
        # Which messages are edited nobody knows beforehand: all are taken to be.
        contents = "\n\n".join(message.content for message in start.transcript or ())
        compared = compared_texts(start, contents, contents, must_keep=MAY_DIFFER, rubric=start.rubric or "")
        questions, texts = [compared, start], plan.max_steps
    else:
        questions, texts = questions_about(job, job.target.original), 1
    grown = pricing.BYTES_PER_TOKEN * texts * (model.max_tokens if model else 0)
    most = _rounds(plan, model)
    for question in questions:
        calls = 1
        for bill, judge in zip(bills, prepared.confirming, strict=False):
            asked = asked_judge(judge, question) if isinstance(judge, ModelJudge) else judge
            if asked is not None:
                _add_asked(bill, question, asked, calls=calls, most=most, grown=grown)
                calls = 0


def _add_asked(bill: _Bill, item: Item, judge: Judge | None, *, calls: int, most: int, grown: int = 0) -> None:
    """Add a question about an item; only what a model is sent has a price."""
    if not isinstance(judge, ModelJudge):
        bill.count(calls, most)
        return
    limit = judge.max_tokens or pricing.TYPICAL_OUTPUT_TOKENS
    size = prompt_size(judge.request(call_about(item, judge)))
    bill.pay(
        size=size, out=min(pricing.TYPICAL_OUTPUT_TOKENS, limit), max_out=limit, calls=calls, most=most, grown=grown
    )
