"""Every MLflow key of a run: tags, params, metrics and artifacts; metrics that rules name are in `schema.metric_keys`.

A test looks through the package for keys that are spelled anywhere else.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.measures import axes
from jrh_mlflow.measures.records import journal_answers
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import OUTCOMES
from jrh_mlflow.show.results import Datasheet, ReliabilityReport
from jrh_mlflow.suites.suite import Suite

METRIC_NAME = re.compile(r"[A-Za-z0-9_\-. :]([A-Za-z0-9_\-. :/]*[A-Za-z0-9_\-. :])?")
"""What MLflow takes as the name of a metric, or as its beginning."""

TAG_KIND = "jrh.kind"
TAG_SCHEMA_VERSION = "jrh.schema_version"
TAG_VERSION = "jrh.version"
TAG_PROFILE = "jrh.profile"
TAG_VERDICT = "jrh.verdict"
"""First sentence of the verdict."""
TAG_SIMULATED = "jrh.simulated"
TAG_RECORDED = "jrh.recorded"
"""Answers of a model that was asked earlier and elsewhere; set where it is so."""
TAG_WITHHELD = "jrh.withheld"
TAG_TRUNCATED = "jrh.truncated"
TAG_UNTIL = "jrh.until"
"""What was decided about each rule of `jrh.until`."""
TAG_LABEL_SOURCE = "jrh.label_source"
TAG_METRIC = "jrh.metric"
"""Where labels come from that are no ground truth: `model`, `unverified` or both."""
TAG_GENERATED_BY = "jrh.generate_run_id"
TAG_GENERATOR = "jrh.generator"
"""Who wrote a suite: a model's name, `callable`, or `code`."""
TAG_PIPELINE = "jrh.pipeline"
"""Which pipeline a run is a part of: the same for the generation, review, evaluations and comparison of one recipe."""
TAG_STEP = "jrh.pipeline_step"
"""What makes a run of a pipeline this one: found again, it is not made again."""
TAG_STAGE = "jrh.stage"
"""Of a run of a sweep: `search`, `refine` or `holdout`."""
TAG_ANSWERED_BY = "jrh.answered_by"
"""Models and systems that answered, where there was more than one."""
TAG_GATE = "jrh.gate"
"""Of a run that was gated: what its newest gate came to."""
TAG_LOOKED_AT, TAG_ANSWERS = "jrh.looked_at", "jrh.answers"
"""Of the run of a gate: digests of the judge and its suite, and of the answers, by which later gates find it."""
TAG_GATE_RUN = "jrh.gate_run"
"""Of a run that was gated: the run of its newest gate."""
TAG_DRIFT = "jrh.drift"
"""Of a run whose judge is watched: what the newest look came to."""
TAG_WATCH_RUN = "jrh.watch_run"
"""Of such a run: the run of its watch."""
TAG_WATCHED = "jrh.watched_run"
"""Of the run of a watch: the run whose judge it watches."""
CHANGED = "changed"
"""How `TAG_DRIFT` of a judge begins that has changed."""
RUN_TAGS = (TAG_GENERATED_BY, TAG_GATE_RUN, TAG_WATCH_RUN, TAG_WATCHED)
"""Tags whose value is the id of another run."""
TAG_FINGERPRINT = "jrh.judge_fingerprint"
"""Of a run: what makes the judge this one; not set where nothing does."""
TAG_JUDGE = "jrh.judge"
"""Of a run: the name of its judge, by which a changed one is found again."""
TAG_SETUP = "jrh.setup"
"""Of an evaluation: digest of judge, suite and settings. Runs that differ in it have different names."""
TAG_DATASHEETS = "jrh.datasheets"
"""Of the run of an evaluation by judges: how many of these were measured."""
STATUS_OF = "jrh.status."
"""Of the run of an evaluation by judges: beginning of the tags that say of each by which run it was measured."""
STATES_APART = "; "
"""Between what is said of several judges of one name."""
TAG_NOTE = "mlflow.note.content"
TAG_RUN_NAME = "mlflow.runName"
TAG_PARENT = "mlflow.parentRunId"
TAG_LOGGED_ARTIFACTS = "mlflow.loggedArtifacts"
TAG_SOURCE = "mlflow.source.name"
"""The script, notebook or command that a run was made by."""
TAG_EXPERIMENT_KIND = "mlflow.experimentKind"
"""Of an experiment: what its page opens on."""
VIEW = "jrh"
TAG_VIEW = f"mlflow.sharedViewState.{VIEW}"
"""Of an experiment: the saved view of its runs page that links name by `VIEW`."""

SPAN_TRACE = "mlflow.traceRequestId"
SPAN_KIND = "mlflow.spanType"
SPAN_INPUTS = "mlflow.spanInputs"
SPAN_OUTPUTS = "mlflow.spanOutputs"
SPAN_MODELS = ("mlflow.llm.model", "gen_ai.response.model", "gen_ai.request.model")
"""Attributes of a span, as MLflow's reference of the mapping from OpenTelemetry has them."""

TAG_TRACES = "jrh.traces"
"""How many calls or items are traces of the run, of how many."""
TAG_TRACES_EXPERIMENT = "jrh.traces_experiment"
"""Id of the experiment that they are in."""

TAG_DATASET_FORMAT = "jrh.format"
TAG_DATASET_VERSION = "jrh.dataset_version"
TAG_SUITE_NAME = "jrh.suite_name"
TAG_SUITE_SHA256 = "jrh.suite_sha256"
"""Of an evaluation dataset that is a suite: how its records are laid out, and which suite they are."""
TAG_TEMPLATE = "jrh.template"
"""Of a registered prompt version: our own form of its text, where MLflow's variables cannot tell it."""
TAG_PROMPT_RUNS = "mlflow.prompt.run_ids"
"""Of a registered prompt version: MLflow's page of the prompt shows these runs, with commas between them."""
TAG_PROMPT_EXPERIMENTS = "_mlflow_experiment_ids"
"""Of a registered prompt: the pages of these experiments list it; a comma before and after each."""

FEEDBACK_RUN = "jrh.datasheet_run_id"
"""Of feedback that an exported judge gave: the run that measured it. `FEEDBACK_…` are keys of its metadata."""
FEEDBACK_LINK = "jrh.datasheet_link"
"""Where MLflow's pages show that run."""
FEEDBACK_SUITE = "jrh.suite_name"
FEEDBACK_SUITE_SHA256 = "jrh.suite_sha256"
FEEDBACK_PROFILE = "jrh.profile"
FEEDBACK_STATUS = "jrh.status"
"""`measured`, `stale` or `never measured`."""
FEEDBACK_DIFFERS = "jrh.differs"
"""What differs from the measured judge, where something does."""
FEEDBACK_FINGERPRINT = TAG_FINGERPRINT
FEEDBACK_SIMULATED = "jrh.simulated"
FEEDBACK_OUTCOME = "jrh.outcome"
"""`verdict`, `tie`, `abstain`, `unparsed`, `error`; of two orders that differ `positional`, `one_sided` or `split`."""
FEEDBACK_ORDERS = "jrh.orders"
"""How many presentation orders of a pair were asked: `one` or `both`."""
FEEDBACK_CONFIDENCE = "jrh.confidence"
FEEDBACK_ANSWERED_BY = "jrh.answered_by"
"""The model that answered, as it names itself."""
FEEDBACK_MEMBERS = "jrh.members"
"""JSON: of each judge of a jury its name, its datasheet's run and its answers, order by order."""
FEEDBACK_DECIDED_BY = "jrh.decided_by"
"""How several answers came to one: `unanimous`, `majority`, `tie rule`."""
FEEDBACK_NOTE = "jrh.note"
"""What limits the use of a datasheet for this row, such as a kind of row that it did not measure."""
JUDGE_INPUT_TOKENS = "mlflow.assessment.judgeInputTokens"
JUDGE_OUTPUT_TOKENS = "mlflow.assessment.judgeOutputTokens"
JUDGE_COST = "mlflow.assessment.judgeCost"
"""MLflow's own keys for what a judge used."""
CHOICE_CONFIDENCE = ("openai.decisions.confidence", "typesafe.confidence")
"""MLflow's keys in a feedback that chose one of several values: how probable the chosen one is."""
TRUE_PROBABILITY = ("openai.decisions.probability", "typesafe.probability")
"""MLflow's keys in a feedback that is True or False: how probable True is."""

TRACE_SESSION = "mlflow.trace.session"
"""MLflow's key in the metadata of a trace that is a turn of a conversation."""

PARAM_MODEL = "judge.model"
PARAM_CRITERION = "judge.tie_criterion"
CRITERION_TEXT = "tie_criterion_text"
"""Setting of a judge: the words of a tie criterion of the user's own, cut; `PROMPT_FILE` has them all."""
PARAM_REGISTERED_NAME = "judge.registered_name"
PARAM_SCORER_VERSION = "judge.scorer_version"
"""Name and version of the measured scorer in MLflow's registry; of a list those of each registered member."""
PARAM_PROMPT = "judge.prompt"
"""Names of the templates that the suite needed, with `+` between them."""
PARAM_PROMPT_URI = "judge.prompt_uri"
"""The version in MLflow's registry that the prompt is: `prompts:/name/3`."""
PARAM_TEXTS = "run.texts"
"""Says that hashes stand in the place of texts."""
PARAM_SUITE_NAME = "suite.name"
PARAM_SUITE_SHA256 = "suite.sha256"
PARAM_SUITE_ITEMS = "suite.n_items"
PARAM_DATASET = "suite.dataset"
PARAM_DATASET_VERSION = "suite.dataset_version"
"""Of a suite that was read from an evaluation dataset of MLflow."""
PARAM_SEED = "run.seed"
PARAM_REPLICATES = "run.replicates"
PARAM_METRIC = "run.metric"
PARAM_DEFINITIONS = "run.definitions"

SUMMED = {
    metric_keys.COST: "cost_usd",
    metric_keys.INPUT_TOKENS: "input_tokens",
    metric_keys.OUTPUT_TOKENS: "output_tokens",
}
"""Sums over calls, and the column they are of: where it has gaps the sum is a lower bound."""
SPENT = (
    *SUMMED,
    metric_keys.COST_PER_1K_CALLS,
    metric_keys.COST_PER_ACCURACY_POINT,
    metric_keys.SECONDS,
)
"""What an evaluation spent, where it is known."""

_ATTEMPTS = (metric_keys.ATTEMPTS, metric_keys.UNKNOWN_ATTEMPTS, metric_keys.BOOKED_WORST_CASE)
_ALWAYS = (
    *_ATTEMPTS,
    metric_keys.COST,
    metric_keys.COST_PER_1K_CALLS,
    metric_keys.UNKNOWN_COSTS,
    metric_keys.CALLS_TOTAL,
    metric_keys.CALLS_UNPARSED,
    metric_keys.CALLS_ERROR,
    metric_keys.CALLS_CACHED,
    metric_keys.OLDEST_ANSWER,
    metric_keys.SECONDS,
)
"""Headline metrics of every evaluation."""
_MEAN_ENDS = (metric_keys.RELIABILITY_MEAN_LOW, metric_keys.RELIABILITY_MEAN_HIGH)

SUITE_FOLDER = "suite"
CALLS_FILE = "calls/calls.parquet"
UNTIL_JSON = "until.json"
PROMPT_FILE = "judge/prompt.txt"
JUDGE_FILE = "judge/judge.json"
FAILURE_FILE = "failure.txt"
DATASHEET_JSON = "datasheet.json"
AXES_TABLE = "axes.json"
"""One row per axis, as `mlflow.load_table` and the MLflow UI read it."""
DATASHEET_MARKDOWN = "datasheet.md"
DATASHEET_PAGE = "datasheet.html"
COMPARISON_PAGE = "comparison.html"
AGREEMENT_JSON = "agreement.json"
AGREEMENT_PAGE = "agreement.html"
CORRECTED_JSON = "corrected.json"
CORRECTED_FOLDER = "corrected"
"""Of the run of an evaluation that is not ours: one file for each scorer that was corrected there."""
ALIGNMENT_JSON = "alignment.json"
GATE_JSON = "gate.json"
READINGS_JSON = "readings.json"
"""Of a run of `GATED_KINDS`: key to reading, as `Estimate.to_dict` has it, for gates that cannot read calls again."""
GATED_KINDS = ("self_preference",)
"""Kinds of runs without a suite of their own that can be gated all the same."""
ATTACK_JSON = "attack.json"
PARAM_ATTACKED_RUN = "attack.run"
"""Of an attack: the evaluation whose judge it attacked."""
JUDGE_FOLDER = "judge"
"""Of an alignment: the instructions of the judge before and after."""
TABLES_FOLDER = "tables"
CALIBRATION_FILE = f"{TABLES_FOLDER}/calibration.csv"
"""Items that the judge and people have labelled, as two columns of booleans: what corrects a rate of that judge."""
SWEEP_JSON = "sweep.json"
SWEEP_PAGE = "pareto.html"
PAGE_JSON = "page.json"
"""What the page of a run shows (`Page.to_dict`): sentences, tables, names of figures."""
LOGGED_PAGES = {"evaluate": DATASHEET_PAGE, "compare": COMPARISON_PAGE, "agree": AGREEMENT_PAGE, "sweep": SWEEP_PAGE}
"""Kind of run to the page among its artifacts."""
GENERATION_MARKDOWN = "generation.md"
SET_ASIDE_FILE = "set_aside.jsonl"
LABELS_FILE = "labels.csv"
"""Rows that a generation made a suite of, where a model labelled some: a dataset again."""
PROMPTS_FOLDER = "prompts"
"""The templates of the stages that edit transcripts, where they are not the package's own with one model."""
REVIEW_JSON = "review.json"
DECISIONS_TABLE = "decisions.json"
"""One row per item, as `mlflow.load_table` and the MLflow UI read it."""
DECISIONS_FILE = "decisions.csv"
"""One row per click, in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One metric point."""

    key: str
    value: float
    step: int = 0


def own_key(name: str) -> str:
    """Name a tag, or an attribute of a trace, as ours."""
    return f"jrh.{name}"


def known_points(values: Mapping[str, float | None]) -> list[Point]:
    """Return the metrics that are known."""
    return [Point(key=key, value=float(value)) for key, value in values.items() if value is not None]


def reading_points(axis: str, reading: Reading) -> list[Point]:
    """Spell an estimate as `<axis>/<statistic>`; what is missing or infinite is not a number.

    A threshold that is censored has no value: its bound, the outermost measured step, is `<axis>/at_least` or
    `<axis>/at_most`.
    """
    # What was not measured has no number at all: a 0 or NaN would be drawn and sorted as one.
    if not isinstance(reading, Estimate):
        return []
    values: dict[str, float | None] = {
        metric_keys.value_key(axis, reading): reading.value,
        f"{axis}/ci_low": reading.ci_low,
        f"{axis}/ci_high": reading.ci_high,
        **dict(zip(_end_keys(axis), (reading.cluster_low, reading.cluster_high), strict=True)),
        f"{axis}/n": reading.n,
        f"{axis}/excluded": reading.excluded,
    }
    return known_points(values)


def _end_keys(axis: str) -> tuple[str, str]:
    """Name both ends of the interval that decides."""
    return f"{axis}/cluster_ci_low", f"{axis}/cluster_ci_high"


def sheet_readings(sheet: Datasheet | ReliabilityReport) -> dict[str, Reading]:
    """Every reading by its axis; what holds in a group of items is `category/<name>/accuracy`, `rubric/<id>/…`, …."""
    keyed = (keyed_groups(kind, groups) for kind, groups in sheet.by_group.items())
    return {**sheet.estimates, **{key: reading for group in keyed for key, reading in group.items()}}


def keyed_groups(kind: str, groups: Mapping[str, Mapping[str, Reading]]) -> dict[str, Reading]:
    """Return the readings of groups under `<kind>/<group>/<axis>`."""
    names = category_names(groups)
    return {
        f"{kind}/{names[group]}/{axis}": reading for group, axes in groups.items() for axis, reading in axes.items()
    }


def all_points(readings: Mapping[str, Reading]) -> list[Point]:
    """Every axis with its statistics."""
    return [point for axis, reading in readings.items() for point in reading_points(axis, reading)]


def sheet_points(sheet: Datasheet | ReliabilityReport) -> list[Point]:
    """Every axis with its statistics, and what sums it up."""
    points = all_points(sheet_readings(sheet))
    if isinstance(sheet, Datasheet):
        return points + _curve_points(sheet.estimates)
    return points + known_points({f"{metric_keys.RELIABILITY}{name}": value for name, value in sheet.summary.items()})


def headline_points(points: Iterable[Point], sheet: Datasheet | ReliabilityReport) -> list[Point]:
    """Return the points that MLflow gets by default: cost, calls, time, and what judges are compared by first.

    Axes say at their declaration whether they are among these; of a family it is the main step and the curve. Each has
    both ends of the interval that decides.
    """
    chosen = {*_ALWAYS, metric_keys.RELIABILITY_MEAN, metric_keys.RELIABILITY_MIN, *_MEAN_ENDS}
    chosen |= {key for axis, reading in sheet.headline.items() for key in _headline_keys(axis, reading)}
    chosen |= {f"{axis.name}/curve" for axis in axes.AXES if axis.headline and axis.curve}
    # Most runs ask for every answer, and need not say so in a number.
    return [point for point in points if point.key in chosen and (point.value or point.key != metric_keys.CALLS_CACHED)]


def _headline_keys(axis: str, reading: Estimate) -> tuple[str, ...]:
    return metric_keys.value_key(axis, reading), *_end_keys(axis)


def dataset_digest(sha256: str) -> str:
    """Return the digest of a suite as MLflow's datasets have it: of at most 36 characters."""
    return sha256[:36]


def value_points(readings: Mapping[str, Reading]) -> list[Point]:
    """Spell nothing but the numbers themselves."""
    values = {
        metric_keys.value_key(axis, reading): reading.value
        for axis, reading in readings.items()
        if isinstance(reading, Estimate)
    }
    return known_points(values)


def category_names(groups: Iterable[str]) -> dict[str, str]:
    """Spell groups as parts of keys, in ASCII; those that would be spelled alike are told apart by a digest.

    Example:
        >>> category_names(["Banking (EU)", "Größe"])
        {'Banking (EU)': 'banking_eu', 'Größe': 'grosse'}
    """
    names = {group: ascii_name(group) for group in groups}
    spelled = Counter(names.values())
    return {
        group: name if name and spelled[name] == 1 else f"{name}_{hashlib.sha256(group.encode()).hexdigest()[:6]}"
        for group, name in names.items()
    }


def ascii_name(text: str) -> str:
    """Return a text as a part of a key."""
    # Decomposed first, so that the letter stays when its accent goes.
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:60]


def _curve_points(estimates: Mapping[str, Reading]) -> list[Point]:
    """Spell families once more as a curve, `target_sensitivity/curve`, with step = delta (whole steps)."""
    return [
        Point(key=f"{axis.name}/curve", value=reading.value, step=int(step))
        for axis in axes.AXES
        if axis.curve
        for step, reading in axes.by_step(estimates, axis.name).items()
        # MLflow's steps are whole numbers; half steps are metrics of their own all the same.
        if isinstance(reading, Estimate) and step.is_integer()
    ]


def call_points(
    calls: pd.DataFrame,
    *,
    seconds: float,
    at: float | None = None,
    paid: Paid | None = None,
) -> list[Point]:
    """Counts by outcome, tokens, cost and time; totals are of the calls where they are known.

    With the moment at which the run was made (seconds since 1970) also how old the oldest answer was. Where all
    attempts were counted (`paid`), those of calls that left no record are part of the cost.
    """
    counts, journalled = calls["outcome"].value_counts(), journal_answers(calls)
    values: dict[str, float | None] = {
        metric_keys.CALLS_TOTAL: len(calls),
        **{f"{metric_keys.CALLS}{outcome}": int(counts.get(outcome, 0)) for outcome in OUTCOMES},
        metric_keys.CALLS_CACHED: int(calls["cached"].sum()) if "cached" in calls else 0,
        metric_keys.OLDEST_ANSWER: journalled.days_before(at) if journalled and at is not None else None,
        metric_keys.INPUT_TOKENS: known_total(calls, "input_tokens"),
        metric_keys.OUTPUT_TOKENS: known_total(calls, "output_tokens"),
        metric_keys.COST: known_total(calls, "cost_usd"),
        metric_keys.SECONDS: seconds,
    }
    cost, unknown = values[metric_keys.COST], unknown_costs(calls)
    if cost is not None:
        # Per call whose cost is known: calls of unknown cost are not free.
        values[metric_keys.COST_PER_1K_CALLS] = 1000 * cost / (len(calls) - unknown)
        values[metric_keys.UNKNOWN_COSTS] = unknown or None
    own = {metric_keys.COST: values[metric_keys.COST] if paid is None else paid.usd}
    return known_points({**values, **own, **attempt_values(counted_attempts(calls) if paid is None else paid)})


def counted_attempts(calls: pd.DataFrame) -> Paid | None:
    """Add up the attempts behind calls; None where they were not counted."""
    if "attempts" not in calls:
        return None
    attempts, unknown, usd = (calls[name].sum() for name in ("attempts", "unknown_attempts", "worst_usd"))
    return Paid(calls=int(attempts), unknown=int(unknown), worst_micro=round(1e6 * usd))


def money_points(paid: Paid) -> list[Point]:
    """What attempts came to."""
    return known_points({metric_keys.COST: paid.usd, **attempt_values(paid)})


def attempt_values(paid: Paid | None) -> dict[str, float | None]:
    """Count attempts, where somebody did; none that are unknown is no number."""
    if paid is None:
        return {}
    return {
        metric_keys.ATTEMPTS: paid.calls or None,
        metric_keys.UNKNOWN_ATTEMPTS: paid.unknown or None,
        metric_keys.BOOKED_WORST_CASE: paid.worst_micro / 1_000_000 if paid.unknown else None,
    }


def price_points(usd_per_point: float | None) -> list[Point]:
    """What a percentage point of accuracy costs, where it is known."""
    return known_points({metric_keys.COST_PER_ACCURACY_POINT: usd_per_point})


def known_total(calls: pd.DataFrame, column: str) -> float | None:
    """Sum a column over the calls where it is known; None when it is for none.

    Nothing but calls that failed for free, beside others of unknown cost, is no total either: unknown is never free.
    """
    values = pd.to_numeric(calls[column], errors="coerce").to_numpy(float)
    known = values[~np.isnan(values)]
    is_told = known.any() or len(known) == len(values)
    return float(known.sum()) if is_told and len(known) else None


def whole_total(calls: pd.DataFrame, column: str) -> float | None:
    """Sum a column over all calls; None when it is unknown for one: for what is compared or derived."""
    return None if calls[column].isna().any() else known_total(calls, column)


def unknown_costs(calls: pd.DataFrame) -> int:
    """Count the calls whose cost is unknown."""
    return int(calls["cost_usd"].isna().sum())


def without_partial(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics without those that are sums over some of the calls: an objective must not prefer the unknown."""
    partial = (
        (metric_keys.COST, metric_keys.COST_PER_1K_CALLS, metric_keys.INPUT_TOKENS, metric_keys.OUTPUT_TOKENS)
        if metric_keys.UNKNOWN_COSTS in metrics
        else ()
    )
    return {name: value for name, value in metrics.items() if name not in partial}


def paid_points(paid: Paid) -> list[Point]:
    """Spell what was sent and paid; the dollars are of the calls where they are known."""
    usd, known = paid.usd, paid.calls - paid.unknown
    values: dict[str, float | None] = {
        metric_keys.CALLS_TOTAL: paid.calls,
        metric_keys.INPUT_TOKENS: paid.input_tokens or None,
        metric_keys.OUTPUT_TOKENS: paid.output_tokens or None,
        metric_keys.COST: usd,
        metric_keys.COST_PER_1K_CALLS: 1000 * usd / known if usd is not None and known else None,
        metric_keys.UNKNOWN_COSTS: paid.unknown or None,
    }
    return known_points({**values, **attempt_values(paid)})


def last_values(points: Sequence[Point]) -> dict[str, float]:
    """Return what MLflow shows as the run's metrics: the last point of each key."""
    return {point.key: point.value for point in sorted(points, key=lambda point: point.step)}


def grouped_params(groups: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Spell settings as params `<group>.<name>`; unset ones are left out."""
    return {
        f"{group}.{key}": str(value)
        for group, values in groups.items()
        for key, value in values.items()
        if value is not None
    }


def param_group(params: Mapping[str, str], group: str) -> dict[str, str]:
    """Return the settings of one group, as they were before `grouped_params` spelled them."""
    return {key.removeprefix(f"{group}."): value for key, value in params.items() if key.startswith(f"{group}.")}


ORIGIN_FACTS = ("dataset", "dataset_version", "language", "checked")
"""What the origin of a suite says that its runs say too: its evaluation dataset, its language and who checked that."""


def datasheet_counts(states: Iterable[str]) -> str:
    """Count judges by what is known of them: `2 measured, 1 code`, from tags such as `measured: run 0a1b…`.

    Example:
        >>> datasheet_counts(["code", "measured: run 1; measured: run 2"])
        '2 measured, 1 code'
    """
    counts = Counter(judge.partition(":")[0] for state in states for judge in state.split(STATES_APART))
    order = ("measured", "measured with other inputs", "stale", "never measured", "code")
    return ", ".join(f"{counts[state]} {state}" for state in order if counts[state])


def suite_facts(suite: Suite) -> dict[str, object]:
    """What runs and files say of a suite: the params `suite.*`."""
    origin = {name: suite.origin[name] for name in ORIGIN_FACTS if name in suite.origin}
    return {"name": suite.name, "sha256": suite.sha256, "n_items": len(suite), **origin}
