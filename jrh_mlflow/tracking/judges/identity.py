"""The one identity of a judge: what it is as data, whether two are the same, and which runs measured it.

definition    `Judge.definition()`: plain JSON of which `judge_from` makes the judge again, in one canonical form
fingerprint   `Judge.fingerprint()`: a hash of the configuration, the tag by which runs of the judge are found
differences   in what two definitions are not the same judge
today         `changes_since`: in what the sources of a measured judge give another one now
measured      `MeasuredJudge`: what a finished run of `evaluate` says of the judge that it measured
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from jrh_mlflow.errors import RecipeError, check_known, check_schema_version
from jrh_mlflow.judges import Judge, scripted, shown_name
from jrh_mlflow.judges.http_judge import HttpJudge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.schema.estimates import Reading, read_reading
from jrh_mlflow.schema.items import SINGLE_CONDITIONS
from jrh_mlflow.suites.suite import read_suite
from jrh_mlflow.text import brief_name, clean_text
from jrh_mlflow.tracking.judges.judge_registry import newest_version
from jrh_mlflow.tracking.judges.prompts import registered_prompt
from jrh_mlflow.tracking.judges.scorer_facts import SHOWN, canonical_scorer
from jrh_mlflow.tracking.judges.scorers import MlflowJudge
from jrh_mlflow.tracking.mlflow_internals import default_timeout
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import (
    check_evaluation,
    downloaded,
    experiment_names,
    find_run,
    finished_runs,
    json_artifact,
)
from jrh_mlflow.tracking.runs.store import active_uri, condition, reading_client, run_link

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Definition = Mapping[str, Any]
What = Literal["prompt", "model", "version", "answering model", "settings", "inputs"]
WHAT: tuple[What, ...] = ("prompt", "model", "version", "answering model", "settings", "inputs")
"""What two judges can differ in, in the order in which it is told."""
NONE = "none"
POSITIONAL = ("positional_false_preference", "natural/positional")
"""What says how often the order of a pair decides; the second where only natural pairs were asked."""
_EXCERPT = 60
"""Characters of a long text that are shown from a little before where two begin to differ."""
_GONE = "no longer there"


# Definitions


def canonical_definition(definition: Definition) -> Definition:
    """Return a definition in the one form of its judge, whichever process wrote it.

    What is a set is sorted, for the order in which a process writes it is an accident of its hash seed.
    """
    kind = definition.get("kind")
    if kind == "pointwise":
        return {**definition, "inner": canonical_definition(definition["inner"])}
    if kind == "mlflow":
        return {**definition, "scorers": canonical_scorer(definition["scorers"])}
    return definition


def judge_from(definition: Definition) -> Judge:
    """Make a judge again from `Judge.definition`: same fingerprint, same requests, answers read the same way.

    Where it is asked is part of it: an address that once came from the environment is not looked up again.

    Raises:
        RecipeError: for a definition of another schema version, or of an unknown kind of judge.
    """
    kind = str(definition.get("kind"))
    check_schema_version("The definition of this judge", definition.get("format"), error=RecipeError)
    check_known("kind of judge", kind, _MAKERS)
    return _MAKERS[kind](canonical_definition(definition))


_MAKERS: dict[str, Callable[[Definition], Judge]] = {
    "prompted": PromptedJudge.from_definition,
    "raw": RawJudge.from_definition,
    "http": HttpJudge.from_definition,
    "pointwise": lambda definition: PointwiseJudge.from_definition(judge_from(definition["inner"]), definition),
    "scripted": scripted.from_definition,
    "mlflow": MlflowJudge.from_definition,
}
"""Kind of a judge to what makes one from its definition."""


# Differences


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeDifference:
    """One thing in which the judge that runs is not the judge that was measured."""

    what: What
    measured: str
    """As it was measured, on one line: `temperature 0.0`."""
    running: str

    def __str__(self) -> str:
        return f"{self.what}: {self.measured} → {self.running}"


def differences(measured: Definition, running: Definition) -> tuple[JudgeDifference, ...]:
    """Return in what two definitions differ, the prompt first; names are no difference, for they change no answer."""
    before, after = (dict(_facts(canonical_definition(definition))) for definition in (measured, running))
    changed = [fact for fact in dict.fromkeys((*before, *after)) if before.get(fact) != after.get(fact)]
    if _INPUTS in changed:
        # Measured under our own names where nobody gave others; of rows that nobody told nothing is known.
        before[_INPUTS] = before.get(_INPUTS) or list(SHOWN[:2])
        if after.get(_INPUTS) is None or {*before[_INPUTS], *after[_INPUTS]} <= set(SHOWN):
            changed.remove(_INPUTS)
    # A version of the registry that holds what the measured one held is the measured judge.
    if all(fact == _REGISTERED for fact in changed):
        return ()
    values = ((what, *_told_apart(name, before.get((what, name)), after.get((what, name)))) for what, name in changed)
    differ = [JudgeDifference(what=what, measured=was, running=now) for what, was, now in values]
    return tuple(sorted(differ, key=lambda difference: WHAT.index(difference.what)))


Fact = tuple[tuple[What, str], Any]
"""What it belongs to and what it is called; its value."""
_REGISTERED: tuple[What, str] = ("version", "registered as")
_INPUTS: tuple[What, str] = ("inputs", "inputs")


def _facts(definition: Definition) -> Iterator[Fact]:
    """Yield everything that makes a judge answer as it does."""
    kind, criterion = definition["kind"], definition["tie_criterion"]
    yield ("settings", "kind"), kind
    yield ("prompt", "tie criterion"), criterion["text"]
    yield ("prompt", "tie"), "offered" if criterion["offers_tie"] else "not offered"
    yield from _FACTS.get(kind, _other_facts)(definition)


def _prompted_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "model"), definition["model"]
    yield ("model", "endpoint"), definition["api_base"] or definition["endpoint"]
    yield ("prompt", "template"), _templates_sent(definition)
    yield ("prompt", "answer format"), definition["texts"]["format"]
    yield ("prompt", "no rubric"), definition["texts"]["no_rubric"]
    yield ("prompt", "rubric"), definition["rubric"]
    for name in ("temperature", "max_tokens", "reasoning_effort", "seed", "structured", "answer_style", "logprobs"):
        yield ("settings", name), definition[name]
    yield ("settings", "prompt_language"), definition.get("prompt_language", "en")
    for name, value in definition["extra"].items():
        yield ("settings", f"extra.{name}"), value


def _raw_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "model"), definition["model"]
    yield ("model", "endpoint"), definition["api_base"] or definition["endpoint"]
    yield ("prompt", "messages"), json.dumps(definition["messages"], ensure_ascii=False)
    yield ("prompt", "verdict"), definition["verdict"]
    for name, value in definition["fields"].items():
        yield ("settings", name), value


def _http_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "endpoint"), definition["url"]
    yield ("prompt", "body"), json.dumps(definition["body"], ensure_ascii=False)
    yield ("prompt", "verdict"), definition["verdict"]
    yield ("settings", "headers"), definition["headers"]


def _templates_sent(definition: Definition) -> str:
    """Return all templates that a judge may send, each with its name: one, or those of the package."""
    own, package = definition["prompt"], definition["texts"]["templates"]
    parts = [] if any(template["user"] for template in package.values()) else [("", own)]
    parts += sorted(package.items())
    return "\n".join(f"{name}\n[system]\n{part['system']}\n[user]\n{part['user']}".lstrip() for name, part in parts)


def _pointwise_facts(definition: Definition) -> Iterator[Fact]:
    yield ("prompt", "question"), definition["question"]
    yield ("settings", "answers"), [definition["answers"], definition["given"]]
    for (what, name), value in _facts(definition["inner"]):
        yield (what, f"inner {name}"), value


def _scripted_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "script"), definition["class"]
    for name, value in definition["arguments"].items():
        yield ("settings", name), value


def _mlflow_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "model"), ", ".join(str(model) for model in definition["models"])
    places = [*definition["endpoints"], *(url for url in definition["base_urls"] if url)]
    yield ("model", "endpoint"), ", ".join(dict.fromkeys(places)) or None
    for number, kept in enumerate(definition["scorers"], start=1):
        which = f"scorer {number} " if len(definition["scorers"]) > 1 else ""
        for (what, name), value in _kept_facts(kept):
            yield (what, f"{which}{name}"), value
    yield ("settings", "answers"), definition["words"]
    yield _INPUTS, sorted(name for name, _ in definition["inputs"] or ()) or None
    if definition["registered"]:
        versions = [f"{entry['name']} version {entry['version']}" for entry in definition["registered"]]
        yield _REGISTERED, ", ".join(versions)


_KEPT_AS: dict[str, What] = {
    "instructions": "prompt",
    "guidelines": "prompt",
    "mlflow_version": "version",
    "serialization_version": "version",
    "library_version": "version",
}
"""Fields of what MLflow keeps of a scorer; everything else is a setting."""
_NO_FACTS = ("name", "model", "description", "aggregations")
"""Fields that change no answer, or are told apart from the rest."""


def _kept_facts(kept: object, path: tuple[str, ...] = ()) -> Iterator[Fact]:
    """Yield the leaves of what MLflow keeps of a scorer, by the fields they stand in."""
    if isinstance(kept, list) and any(isinstance(part, Mapping) for part in kept):
        kept = {str(number): part for number, part in enumerate(kept, start=1)}
    if not isinstance(kept, Mapping):
        # What was not set is what it is set to anyway.
        unset = path[-1] == "timeout" and kept == default_timeout()
        yield (_KEPT_AS.get(path[-1], "settings"), " ".join(path)), None if unset else kept
        return
    inside = [name for name, value in kept.items() if name.endswith("_data") and isinstance(value, Mapping)]
    fields = {name: value for name, value in kept.items() if name not in inside}
    # What the scorer is made of stands inside; around it MLflow repeats some fields, with a timeout that is no setting
    # of this scorer but the default of the record. So what is inside wins, in whatever order the fields were written.
    fields |= {"timeout": None} if inside else {}
    for name in inside:
        fields |= kept[name]
    for name, value in fields.items():
        yield from () if name in _NO_FACTS else _kept_facts(value, (*path, name))


def _other_facts(definition: Definition) -> Iterator[Fact]:
    """Compare a kind of judge that is not known as a whole."""
    rest = {name: value for name, value in definition.items() if name not in ("name", "kind", "tie_criterion")}
    yield ("settings", "definition"), rest


_FACTS: dict[str, Callable[[Definition], Iterator[Fact]]] = {
    "prompted": _prompted_facts,
    "raw": _raw_facts,
    "http": _http_facts,
    "pointwise": _pointwise_facts,
    "scripted": _scripted_facts,
    "mlflow": _mlflow_facts,
}


def _told_apart(name: str, measured: Any, running: Any) -> tuple[str, str]:
    """Write two values of a fact on a line each; of long texts the part from where they begin to differ."""
    before, after = _text(measured), _text(running)
    if max(len(before), len(after)) > _EXCERPT:
        same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        start = max(0, (min(len(before), len(after)) if same is None else same) - _EXCERPT // 3)
        before, after = (_excerpt(text, start) for text in (before, after))
    return f"{name} {_line(before)}", f"{name} {_line(after)}"


def _text(value: Any) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _excerpt(text: str, start: int) -> str:
    if text == NONE:
        return text
    before, after = "…" if start else "", "…" if start + _EXCERPT < len(text) else ""
    return f"“{before}{text[start : start + _EXCERPT]}{after}”"


def _line(text: str) -> str:
    r"""Put a text on one line; ends of lines show as \n, for they may be all that differs."""
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


# Today


def changes_since(definition: Definition, *, tracking_uri: str) -> tuple[JudgeDifference, ...]:
    """Return in what the judge that the same sources give today differs from a definition.

    Sources are the variable of an endpoint that was not given, the built-in prompts of this version, the alias of a
    registered prompt, the newest version of a registered scorer, and the installed MLflow with its default model.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    gone: list[JudgeDifference] = []
    judge = _from_registries(judge_from(definition).renewed(), tracking_uri, gone)
    running = judge.definition()
    if running is None:  # What was data is code by now.
        version = JudgeDifference(what="version", measured="data", running="code")
        return (version, *gone)
    return (*differences(definition, running), *gone)


def _from_registries(judge: Judge, uri: str, gone: list[JudgeDifference]) -> Judge:
    """Return a judge as the registries have it now; what they no longer have is added to `gone`."""
    if isinstance(judge, PointwiseJudge):
        return judge.with_inner(_from_registries(judge.inner, uri, gone))
    if isinstance(judge, PromptedJudge) and judge.prompt_uri:
        try:
            return judge.with_prompt(registered_prompt(judge.prompt_uri, tracking_uri=uri))
        except RecipeError:
            measured, running = judge.prompt_version or judge.prompt_uri, f"{judge.prompt_uri} {_GONE}"
            gone.append(JudgeDifference(what="prompt", measured=measured, running=running))
    if isinstance(judge, MlflowJudge):
        newest = {}
        for entry in judge.registered:
            name = str(entry["name"])
            scorer = newest_version(name, experiment_id=entry["experiment_id"], uri=uri)
            if scorer is None:
                measured = f"{name} version {entry['version']}"
                gone.append(JudgeDifference(what="version", measured=measured, running=f"{name} {_GONE}"))
            else:
                newest[name] = scorer
        return judge.with_versions(newest)
    return judge


# Measured by a run


@dataclass(frozen=True, kw_only=True)
class AskedItems:
    """What the suite of a run asked, and how much the order of a pair decided."""

    kinds: tuple[str, ...]
    """Of the suite's items: `pair`, `response`, `transcript`."""
    levels: bool
    """Whether they are single responses of known level, of which grades of any form are read."""
    labels: tuple[str, ...] | None
    """What single responses and transcripts may be answered; None for pairs, and where items differ."""
    ordinal: bool | None
    """Whether `labels` are a scale."""
    rubric: str | None
    """The one that all items share; None where they have none or differ."""
    positional: Reading | None
    """How often the order of a pair decided; None where no pairs were asked."""


@dataclass(frozen=True, kw_only=True)
class MeasuredJudge:
    """A judge as one finished run of `evaluate` measured it."""

    run_id: str
    name: str
    """Of the judge."""
    label: str
    """Its name as people see it: a simulated or a recorded judge says so."""
    uri: str
    """Store of the run."""
    link: str
    definition: Definition | None
    """`Judge.definition` of then, in canonical form; None where the run does not tell, as `no_definition` says."""
    no_definition: str
    """Why there is no definition, and what to do; empty where there is one."""
    fingerprint: str | None
    suite_name: str
    suite_sha256: str
    profile: str
    verdict: str
    """Its first sentence."""
    simulated: bool
    recorded: bool
    answered_by: tuple[str, ...]
    """Names under which models answered, the most frequent first; empty where the run does not tell."""
    ended_at: int
    """Milliseconds since 1970."""
    truncated: str | None
    """Why calls are missing, or None."""
    params: Mapping[str, str]
    """Of the run."""
    drift: str = ""
    """What the newest look of `jrh.watch` came to; empty where nobody watches it."""

    def __repr__(self) -> str:
        on = f"{brief_name(self.label)} on {brief_name(self.suite_name)}"
        return f"{type(self).__name__}({on}, run {self.run_id[:8]})"

    def judge(self) -> Judge:
        """Make the judge again.

        Raises:
            RecipeError: where the run does not tell all of it.
        """
        if self.definition is None:
            raise RecipeError(self.no_definition)
        return judge_from(self.definition)

    @cached_property
    def asked(self) -> AskedItems:
        """What its suite asked; read from the store when first looked at, for most uses need none of it."""
        with reading_client(self.uri) as client, tempfile.TemporaryDirectory(prefix="jrh-") as folder:
            run = client.get_run(self.run_id)
            suite = read_suite(downloaded(client, run, keys.SUITE_FOLDER, folder), hashes=True)
            estimates = json_artifact(client, run, keys.DATASHEET_JSON, folder).get("estimates", {})
        labels, rubrics = suite.labels, {item.rubric for item in suite.items}
        positional = (read_reading(estimates[axis]) for axis in POSITIONAL if axis in estimates)
        return AskedItems(
            kinds=tuple(sorted({item.kind for item in suite.items})),
            levels=any(item.condition in SINGLE_CONDITIONS for item in suite.items),
            labels=None if labels is None else tuple(labels),
            ordinal=None if labels is None else labels.ordinal,
            rubric=next(iter(rubrics)) if len(rubrics) == 1 and suite.has_texts else None,
            positional=next(positional, None),
        )


def measured_judge(run: object, *, tracking_uri: str | None = None) -> MeasuredJudge:
    """Return the judge that a run measured.

    Args:
        run: A run id, `runs:/<id>`, the first eight or more digits of an id, or an object with `run_id`.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: when there is no such run, it was deleted, is no evaluation, or did not finish.
        TrackingError: when MLflow cannot be reached, or the artifacts cannot be read.
    """
    uri, text = tracking_uri or active_uri(), getattr(run, "run_id", run)
    if not isinstance(text, str):
        raise RecipeError(f"A run is its id, runs:/<id> or what `evaluate` returned, but got {type(run).__name__}.")
    with reading_client(uri) as client:
        kept = find_run(client, text, uri)
        check_evaluation(kept, "used")
        return _measured(client, kept, uri)


def measured_judges(
    *,
    tags: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
    trials: bool | None = None,
    tracking_uri: str,
) -> Iterator[MeasuredJudge]:
    """Yield the judges of finished evaluations with these tags and params, newest first; each is read when asked for.

    Args:
        tags: Of the run.
        params: Of the run.
        trials: Only what a sweep tried, or only other evaluations; both when None.
        tracking_uri: MLflow store.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    wanted = [("tags", key, clean_text(value)) for key, value in (tags or {}).items()]
    wanted += [("params", key, clean_text(value)) for key, value in (params or {}).items()]
    # The store narrows down, and what it could not say exactly is compared here.
    chosen = " and ".join(condition(f"{where}.`{key}`", value) for where, key, value in wanted)
    with reading_client(tracking_uri) as client:
        runs = finished_runs(client, "evaluate", list(experiment_names(client)), chosen=chosen)
    for run in runs:
        is_meant = all(getattr(run.data, where).get(key) == value for where, key, value in wanted)
        if is_meant and trials in (None, bool(keys.param_group(run.data.params, "choice"))):
            with reading_client(tracking_uri) as client:
                measured = _measured(client, run, tracking_uri)
            # Outside the block: an error of whoever takes it is none of the store's.
            yield measured


def _measured(client: MlflowClient, run: Run, uri: str) -> MeasuredJudge:
    """Read what a run says of its judge."""
    run_id, tags, params = str(run.info.run_id), run.data.tags, run.data.params
    simulated, recorded = (tags.get(tag) == "true" for tag in (keys.TAG_SIMULATED, keys.TAG_RECORDED))
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        written = json_artifact(client, run, keys.JUDGE_FILE, folder)
        sheet = json_artifact(client, run, keys.DATASHEET_JSON, folder)
    name = str(written["name"])
    definition = written.get("definition")
    models = [str(answerer["model"]) for answerer in sheet.get("answered_by", ())]
    return MeasuredJudge(
        run_id=run_id,
        name=name,
        label=shown_name(name, simulated=simulated, recorded=recorded),
        uri=uri,
        link=run_link(uri, run.info.experiment_id, run_id),
        definition=None if definition is None else canonical_definition(definition),
        no_definition="" if definition else _no_definition(run_id, written),
        fingerprint=written.get("fingerprint"),
        suite_name=str(params.get(keys.PARAM_SUITE_NAME, "")),
        suite_sha256=str(params.get(keys.PARAM_SUITE_SHA256, "")),
        profile=str(tags.get(keys.TAG_PROFILE, "")),
        verdict=str(tags.get(keys.TAG_VERDICT, "")),
        simulated=simulated,
        recorded=recorded,
        answered_by=tuple(dict.fromkeys(models)),
        ended_at=int(run.info.end_time or run.info.start_time or 0),
        truncated=tags.get(keys.TAG_TRUNCATED),
        params=dict(params),
        drift=str(tags.get(keys.TAG_DRIFT, "")),
    )


def _no_definition(run_id: str, written: Mapping[str, Any]) -> str:
    """Say why a run cannot tell how its judge is made."""
    if written.get("kind") == "callable":
        return f"The judge of run {run_id} is code, which a run does not keep. Pass the judge itself."
    again = "Measure it again (`jrh evaluate`), or pass the judge itself."
    return f"Run {run_id} does not hold all that its judge {written['name']!r} is made of. {again}"
