"""`jrh.status`: whether the judge that runs is the judge that was measured."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

from jrh_mlflow.comparing.jury.jury import Jury
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.exporting.feedback_in_use import answered_since
from jrh_mlflow.exporting.joint_exports import best_run
from jrh_mlflow.exporting.joint_judges import JOINT_KINDS
from jrh_mlflow.exporting.measured import JudgeRecord, judge_record, judge_records, kept_run, link_of
from jrh_mlflow.exporting.today import changes_since
from jrh_mlflow.judges import Judge, rendering
from jrh_mlflow.judges.naming import shown_name
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measuring.resolve import BUILT_IN, resolve_judge
from jrh_mlflow.models.catalog import endpoint_of, split_model
from jrh_mlflow.options import JudgeOptions
from jrh_mlflow.schema.criteria import BUILT_IN as CRITERIA
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.definitions import JudgeDifference, differences, judge_from
from jrh_mlflow.tracking.judges.judge_registry import SCORERS, RegisteredScorer, newest_version, scorer_at
from jrh_mlflow.tracking.judges.scorers import MlflowJudge, is_mlflow_judge
from jrh_mlflow.tracking.judges.specifications import specification
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, reading_client

State = Literal["measured", "stale", "never measured"]
_RUN = re.compile(r"runs:/.*|[0-9a-f]{8,32}")
_UNLIKE = frozenset(("name", "prompt", "prompt_sha256", "prompt_uri", "instructions_sha256", "answered_by"))
_UNLIKE |= {"registered_name", "scorer_version"}
"""Settings by which runs of the same judge may differ: its texts are compared themselves, and names change nothing."""

_SINGLES = "pointwise-datasheet"
_ONE_RESPONSE = f" --suite {_SINGLES}"
"""For a judge that grades one response: the suite that is taken when none is named has pairs."""
_MOST_COMPARED = 20
"""Newest runs of a model among which the one most like a changed judge is looked for: each is read from its store."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """Whether a judge is the one that was measured. True in a test only where it is."""

    state: State
    name: str
    """Of the judge, as people see it."""
    differs: tuple[JudgeDifference, ...] = ()
    """In what a stale judge is not the measured one."""
    run_id: str | None = None
    """Of the datasheet; None where there is none."""
    link: str | None = None
    reason: str
    """In one line."""
    measure: str
    """The command that measures it."""
    simulated: bool = False

    def __bool__(self) -> bool:
        return self.state == "measured"

    def __repr__(self) -> str:
        run = f", run {self.run_id[:8]}" if self.run_id else ""
        return f"Status({brief_name(self.name)}: {self.state}{run})"

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Running:
    """A judge that is in use."""

    name: str
    label: str
    measure: str
    judge: Judge | None = None
    """None where it is code that was not made."""
    definition: Mapping[str, Any] | None = None
    fingerprint: str | None = None
    simulated: bool = False
    datasheet: str | None = None
    """Id of the run that an exported judge names as its datasheet."""
    registered_name: str | None = None
    feedback: str | None = None
    """Name of its feedback, where that is known."""
    members: tuple[_Running, ...] = ()
    """Of a jury or a cascade: the judges that answer."""


def status(what: object, *, experiment: str | None = None, tracking_uri: str | None = None) -> Status:
    """Say whether a judge is the one that was measured, has changed since, or was never measured.

    A scorer is held against the datasheet it carries, or else against the newest run of its name; whatever was measured
    anywhere in the store is measured. A run is held against what its sources give today: the newest version of a
    registered judge, the prompt behind an alias, the endpoint that the environment names, the prompts of this version.
    Both are stale, too, where newer feedback came from another model than the one that answered the datasheet. A jury
    or a cascade is what its judges are, and a sweep what its best configuration is.

    Args:
        what: `scorers:/NAME[@VERSION]` or the bare name of a registered scorer; a run id, `runs:/<id>`, the first eight
            or more digits of an id, or what `evaluate`, `jury` or `sweep` returned; a judge, or its model
            (`openai/gpt-4o-mini`); or a scorer or judge of MLflow's.
        experiment: Where a registered scorer is looked for first.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: when there is no such run or scorer.
        TrackingError: when MLflow cannot be reached.
    """
    uri, run = tracking_uri or active_uri(), getattr(what, "run_id", what)
    if isinstance(what, Jury):
        return _of_jury([one.run_id for one in what.runs], name=what.title, run_id=what.run_id, uri=uri)
    if isinstance(run, str) and (what is not run or _RUN.fullmatch(run)):
        return _of_any_run(run, uri)
    running = _running(what, experiment, uri)
    return _of_several(running, uri) if running.members else _of_one(running, uri)


def _of_one(running: _Running, uri: str) -> Status:
    """Hold a judge against the run that measured it, or against the newest one of its name."""
    if (measured := next(_measured(running, uri), None)) is not None:
        return _compared(running, measured, _answering(measured, uri, running))
    if (before := next(_earlier(running, uri), None)) is not None:
        return _compared(running, before, _since(running, before))
    return Status(
        state="never measured",
        name=running.label,
        reason=_never(running),
        measure=running.measure,
        simulated=running.simulated,
    )


def _of_several(running: _Running, uri: str) -> Status:
    found = [(one.name, _of_one(one, uri)) for one in running.members]
    return _together(found, name=running.label, run_id=running.datasheet, uri=uri)


def _of_jury(runs: Iterable[str], *, name: str, run_id: str | None, uri: str) -> Status:
    records = [judge_record(one, tracking_uri=uri) for one in runs]
    return _together([(one.name, _of_run(one, uri)) for one in records], name=name, run_id=run_id, uri=uri)


def _together(found: Sequence[tuple[str, Status]], *, name: str, run_id: str | None, uri: str) -> Status:
    """Say of a jury or a cascade what its judges are: never measured where one is not, stale where one is."""
    states = {one.state for _, one in found}
    state: State = "never measured" if "never measured" in states else "stale" if "stale" in states else "measured"
    differs = tuple(
        replace(each, measured=f"{judge}: {each.measured}", running=f"{judge}: {each.running}")
        for judge, one in found
        for each in one.differs
    )
    changed, first = [judge for judge, one in found if not one], found[0][1]
    link = None if run_id is None else link_of(run_id, tracking_uri=uri)
    reason = f"{state.capitalize()}: {', '.join(changed)} of its {len(found)} judges."
    return Status(
        state=state,
        name=name,
        differs=differs,
        run_id=run_id if link else first.run_id,
        link=link or first.link,
        reason=first.reason if len(found) == 1 else reason if changed else f"Measured, all {len(found)} of its judges.",
        measure="; ".join(dict.fromkeys(one.measure for _, one in found if not one)) or first.measure,
        simulated=any(one.simulated for _, one in found),
    )


def _running(what: object, experiment: str | None, uri: str) -> _Running:
    """Return the judge that a user means, with all that tells it from others."""
    if isinstance(what, str) and split_model(what)[0] is None:
        address = what if what.startswith(SCORERS) else f"{SCORERS}{what}"
        return _of_registered(scorer_at(address, experiment=experiment, tracking_uri=uri), uri)
    if (carried := specification(what) if is_mlflow_judge(what) else None) is not None:
        return _of_exported(carried, name=str(getattr(what, "name", carried["name"])))
    judge = MlflowJudge.unchecked(what) if is_mlflow_judge(what) else resolve_judge(what, tracking_uri=uri)
    registered = judge.registered[0]["name"] if isinstance(judge, MlflowJudge) and judge.registered else None
    measure = _evaluating(registered, judge) if registered else _command(judge.definition())
    if not registered and isinstance(judge, MlflowJudge) and judge.grades_one_response:
        measure = f"jrh.evaluate(judge, {_SINGLES!r})"
    return _of_judge(judge, measure=measure, registered_name=registered)


def _of_judge(judge: Judge, **more: Any) -> _Running:
    return _Running(
        name=judge.name,
        label=shown_name(judge.name, simulated=judge.simulated, recorded=bool(judge.recorded)),
        judge=judge,
        definition=judge.definition(),
        fingerprint=judge.fingerprint(),
        simulated=judge.simulated,
        **more,
    )


def _of_registered(found: RegisteredScorer, uri: str) -> _Running:
    """Read a scorer of MLflow's registry; the code of one that is code is not run."""
    if not found.is_code:
        judge = MlflowJudge.registered_as(found)
        return _of_judge(judge, measure=_evaluating(found.name, judge), registered_name=found.name)
    if (carried := specification(found)) is not None:
        running = _of_exported(carried, name=found.name)
        return running if running.datasheet else replace(running, datasheet=_datasheet_before(found, uri))
    return _Running(name=found.name, label=found.name, measure=_evaluating(found.name), registered_name=found.name)


def _evaluating(registered: str, judge: Judge | None = None) -> str:
    """Return the command that measures a registered scorer, on a suite that it can be put to."""
    singles = isinstance(judge, MlflowJudge) and judge.grades_one_response
    return f"jrh evaluate {shlex.quote(f'{SCORERS}{registered}')}{_ONE_RESPONSE if singles else ''}"


def _datasheet_before(found: RegisteredScorer, uri: str) -> str | None:
    """Return the datasheet that the newest earlier version of a scorer carries."""
    for version in range(found.version - 1, 0, -1):
        before = newest_version(found.name, experiment_id=found.experiment_id, uri=uri, version=version)
        carried = None if before is None else specification(before)
        if carried is not None and carried.get("datasheet"):
            return str(carried["datasheet"]["run_id"])
    return None


def _of_exported(carried: Mapping[str, Any], *, name: str) -> _Running:
    datasheet = (carried.get("datasheet") or {}).get("run_id")
    if carried["kind"] in JOINT_KINDS:
        members = tuple(_of_exported(one, name=name) for one in carried["members"])
        label = shown_name(carried["name"], simulated=carried["simulated"], recorded=False)
        return _Running(
            name=name,
            label=label,
            measure="",
            simulated=carried["simulated"],
            datasheet=datasheet,
            members=members,
        )
    running = _of_judge(
        judge_from(carried["judge"]), measure=_command(carried["judge"]), datasheet=datasheet, feedback=name
    )
    return replace(running, definition=running.definition and _as_asked(running.definition))


def _as_asked(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition with the endpoint that the environment names here, where no address is kept: it is asked."""
    if "inner" in definition:
        return {**definition, "inner": _as_asked(definition["inner"])}
    if definition["kind"] != "prompted" or definition["api_base"] or definition["recorded"]:
        return definition
    return {**definition, "endpoint": endpoint_of(definition["model"])}


def _measured(running: _Running, uri: str) -> Iterator[JudgeRecord]:
    """Yield the runs that measured exactly this judge: its datasheet, those of its fingerprint, those of its like.

    What a sweep tried comes last: mostly half a suite, and read as often as the sweep asked.
    """
    if (carried := _carried(running, uri)) is not None and _is_same(running, carried):
        yield carried
    tags = {keys.TAG_FINGERPRINT: running.fingerprint or ""}
    for trials in (False, True):
        found: Iterable[JudgeRecord] = ()
        if running.fingerprint is not None:
            found = judge_records(tags=tags, trials=trials, tracking_uri=uri)
        yield from (one for one in chain(found, _alike(running, uri, trials=trials)) if _is_same(running, one))


def _earlier(running: _Running, uri: str) -> Iterator[JudgeRecord]:
    """Yield the runs that measured what this judge was before: its datasheet, those of its name, those of its model."""
    if (carried := _carried(running, uri)) is not None:
        yield carried
    if running.registered_name is not None:
        yield from judge_records(params={keys.PARAM_REGISTERED_NAME: running.registered_name}, tracking_uri=uri)
    # MLflow's judges take the names of others when these are exported; code that was not made is a scorer of MLflow's.
    kind = keys.grouped_params({"judge": {"kind": (running.judge or MlflowJudge).kind}})
    yield from judge_records(tags={keys.TAG_JUDGE: running.name}, params=kind, tracking_uri=uri)
    # A judge that nobody named is called after its settings: changed, it has another name.
    found = islice(_of_same_model(running, uri), _MOST_COMPARED)
    yield from sorted(found, key=lambda record: len(_since(running, record)))


def _of_same_model(running: _Running, uri: str) -> Iterator[JudgeRecord]:
    """Yield the runs that asked the same model; MLflow's judges and code are known by their names only."""
    has_own = running.datasheet is not None  # Which is not in this store: no other run is a better answer.
    if has_own or running.judge is None or running.judge.kind not in (PromptedJudge.kind, PointwiseJudge.kind):
        return
    settings = running.judge.settings()
    wanted = keys.grouped_params({"judge": {name: settings[name] for name in ("model", "kind")}})
    yield from (one for one in judge_records(params=wanted, tracking_uri=uri) if one.definition is not None)


def _carried(running: _Running, uri: str) -> JudgeRecord | None:
    """Return the datasheet that an exported judge names, where this store has it."""
    if running.datasheet is None:
        return None
    try:
        return judge_record(running.datasheet, tracking_uri=uri)
    except RecipeError:
        return None


def _alike(running: _Running, uri: str, *, trials: bool) -> Iterator[JudgeRecord]:
    """Yield runs with the same settings: of the same judge under another name, or of an earlier version."""
    if running.judge is None or running.definition is None:
        return
    settings = {name: value for name, value in running.judge.settings().items() if name not in _UNLIKE}
    yield from judge_records(params=keys.grouped_params({"judge": settings}), trials=trials, tracking_uri=uri)


def _is_same(running: _Running, record: JudgeRecord) -> bool:
    if running.definition is None or record.definition is None:
        return running.fingerprint is not None and running.fingerprint == record.fingerprint
    return not differences(record.definition, running.definition)


def _since(running: _Running, before: JudgeRecord) -> tuple[JudgeDifference, ...]:
    """Return in what a judge differs from a run of its name; code can be told apart, but not what differs in it."""
    if running.definition is not None and before.definition is not None:
        return differences(before.definition, running.definition)
    was, now = ((one or "unknown")[:12] for one in (before.fingerprint, running.fingerprint))
    return (JudgeDifference(what="version", measured=f"code {was}", running=f"code {now}"),)


def _answering(record: JudgeRecord, uri: str, running: _Running | None = None) -> tuple[JudgeDifference, ...]:
    """Say which other models have answered since a judge was measured."""
    if not record.answered_by:
        return ()
    since = answered_since(
        record.run_id,
        record.ended_at,
        fingerprints={record.fingerprint, running.fingerprint if running else record.fingerprint},
        scorer=running.feedback if running else None,
        tracking_uri=uri,
    )
    others = [name for name in since if name not in record.answered_by]
    if not others:
        return ()
    measured, answering = ", ".join(record.answered_by), ", ".join(others)
    return (JudgeDifference(what="answering model", measured=measured, running=answering),)


def _of_any_run(run: str, uri: str) -> Status:
    """Hold an evaluation against today's judge, of a jury all its judges, of a sweep its best configuration."""
    with reading_client(uri) as client:
        found = kept_run(client, run, uri)
    run_id, kind = str(found.info.run_id), found.data.tags.get(keys.TAG_KIND)
    if kind == "jury":
        runs = keys.param_group(found.data.params, "jury")["runs"].split(", ")
        return _of_jury(runs, name=str(found.info.run_name), run_id=run_id, uri=uri)
    return _of_run(judge_record(best_run(run_id, uri) if kind == "sweep" else run_id, tracking_uri=uri), uri)


def _of_run(record: JudgeRecord, uri: str) -> Status:
    """Hold a run against what its judge would be today."""
    changes = () if record.definition is None else changes_since(record.definition, tracking_uri=uri)
    differs = (*changes, *_answering(record, uri))
    note = "" if record.definition else f" Whether its judge has changed cannot be told: {record.no_definition}"
    return _found(record, differs, measure=_command(record.definition, record), label=record.label, note=note)


def status_of_export(measured: JudgeRecord, judge: Judge, *, tracking_uri: str | None = None) -> Status:
    """Say what a scorer is that a run is made into: it keeps the measured judge, whatever its sources give today.

    Args:
        measured: What the run says.
        judge: The judge of the run, made again.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    was, now = measured.definition, judge.definition()
    changes = () if was is None or now is None else differences(was, _as_asked(now))
    differs = (*changes, *_answering(measured, tracking_uri or active_uri()))
    return _found(measured, differs, measure=_command(was, measured), label=measured.label)


def _compared(running: _Running, record: JudgeRecord, differs: tuple[JudgeDifference, ...]) -> Status:
    # A judge that changed is measured on what it was measured on before: any other suite may not suit it.
    on, measure = _suite_of(record), running.measure
    if differs and measure.startswith("jrh evaluate "):
        measure = f"{measure.removesuffix(_ONE_RESPONSE)} --suite {shlex.quote(on)}"
    elif differs:
        measure = f"jrh.evaluate(judge, {on!r})"
    return _found(record, differs, measure=measure, label=running.label)


def _found(
    record: JudgeRecord, differs: tuple[JudgeDifference, ...], *, measure: str, label: str, note: str = ""
) -> Status:
    what = ", ".join(dict.fromkeys(one.what for one in differs))
    on = f"on {record.suite_name}" + (f", truncated ({record.truncated})" if record.truncated else "")
    reason = f"Stale: {what} differ{'' if ', ' in what else 's'} from what was measured {on}." if differs else ""
    return Status(
        state="stale" if differs else "measured",
        name=label,
        differs=differs,
        run_id=record.run_id,
        link=record.link,
        reason=reason or f"Measured {on}.{note}",
        measure=measure,
        simulated=record.simulated,
    )


def _never(running: _Running) -> str:
    if running.datasheet is not None:
        return f"Never measured in this store: its datasheet, run {running.datasheet}, is not here."
    code = "" if running.fingerprint or running.definition else " It is code that cannot be told from other code."
    return f"Never measured.{code}"


def _command(definition: Mapping[str, Any] | None, record: JudgeRecord | None = None) -> str:
    """Return what measures a judge, on the suite of a run: a command where one can say it, and Python otherwise."""
    suite = None if record is None else _suite_of(record)
    words = None if definition is None else _words(definition)
    if words is None:
        return f"jrh.evaluate(judge, {suite!r})" if suite else "jrh.evaluate(judge)"
    return shlex.join(["jrh", "evaluate", *words, *(["--suite", suite] if suite else [])])


def _suite_of(record: JudgeRecord) -> str:
    return record.suite_name if record.suite_name in BUILT_IN else f"runs:/{record.run_id}/suite"


def _words(definition: Mapping[str, Any]) -> list[str] | None:
    """Return how a judge is written on the command line; None where that takes a text, a file or code."""
    if definition["kind"] == "mlflow" and len(definition["registered"]) == 1:
        return [f"{SCORERS}{definition['registered'][0]['name']}"]
    if definition["kind"] == "scripted" and definition["arguments"] in ({}, {"name": definition["name"]}):
        criterion = _criterion(definition["tie_criterion"])
        words = ["--judge", f"scripted:{definition['arguments'].get('name', definition['class'])}"]
        return words if criterion == "allowed" or definition["arguments"] else [*words, "--criterion", criterion]
    if definition["kind"] != "prompted" or definition["extra"]:
        return None
    registered, prompt = definition.get("prompt_uri"), definition["prompt"]["name"]
    if prompt not in rendering.BUILT_IN and not registered:
        return None
    given = {**definition, "prompt": registered or prompt, "tie_criterion": _criterion(definition["tie_criterion"])}
    usual = PromptedJudge(definition["model"], reasoning_effort=definition["reasoning_effort"])
    known = {**{name: field.default for name, field in JudgeOptions.model_fields.items()}, "model": None}
    known |= {"max_tokens": usual.max_tokens, "structured": definition["structured"], "extra": {}}
    known |= {"api_base": definition["api_base"] if definition["address"] == "environment" else None}
    changed = {name: given[name] for name, default in known.items() if given[name] != default}
    return [word for name, value in changed.items() for word in _flag(name, value)]


def _criterion(facts: Mapping[str, Any]) -> str:
    return str(facts["name"] if facts["name"] in CRITERIA else facts["text"])


def _flag(name: str, value: object) -> list[str]:
    flag = JudgeOptions.flag(name)
    return [flag] if value is True else [flag, "none" if value is None else str(value)]
