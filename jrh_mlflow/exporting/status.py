"""`jrh.status`: whether the judge that runs is the judge that was measured."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from typing import Any, Literal

from jrh_mlflow.comparing.jury.jury import Jury
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge, rendering, shown_name
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.measuring.resolve import BUILT_IN, resolve_judge
from jrh_mlflow.models.catalog import endpoint_of, split_model
from jrh_mlflow.options import JudgeOptions
from jrh_mlflow.schema.presentation import TIE_CRITERIA as CRITERIA
from jrh_mlflow.show.html import FOLDER, Addresses
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges import identity
from jrh_mlflow.tracking.judges.identity import Definition, JudgeDifference, MeasuredJudge
from jrh_mlflow.tracking.judges.judge_registry import SCORERS, RegisteredScorer, newest_version, scorer_at
from jrh_mlflow.tracking.judges.scorer_facts import needed_fields, specification
from jrh_mlflow.tracking.judges.scorers import MlflowJudge, is_mlflow_judge
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import experiment_names, find_run, is_deleted, run_file, run_if_there
from jrh_mlflow.tracking.runs.store import active_uri, reading_client, run_link
from jrh_mlflow.tracking.traces.traces_in import search_traces

State = Literal["measured", "measured with other inputs", "drifted", "stale", "never measured"]
_WORST: tuple[State, ...] = ("never measured", "stale", "drifted", "measured with other inputs", "measured")
_RUN = re.compile(r"runs:/.*|[0-9a-f]{8,32}")
_NAMED = ("name", "registered_name", "scorer_version", "answered_by", "inputs")
_UNLIKE = frozenset((*_NAMED, "prompt", "prompt_sha256", "prompt_uri", "instructions_sha256"))
"""Settings by which runs of the same judge may differ: its texts are compared themselves, and names change nothing."""

_SINGLES = "pointwise-datasheet"
_ONE_RESPONSE = f" --suite {_SINGLES}"
"""For a judge that grades one response: the suite that is taken when none is named has pairs."""
_TRACES = 200
"""The newest traces that are looked through: what a provider changed shows in any of them."""
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
class NamedRun:
    """A run of some kind, and the evaluations it stands for: itself, those of a jury, the best one of a sweep."""

    run_id: str
    kind: str | None
    name: str
    link: str
    uri: str
    params: Mapping[str, str]
    evaluations: tuple[str, ...]


def named_run(run: str, uri: str) -> NamedRun:
    """Return a run by its id, `runs:/<id>`, or the first digits of the id.

    Raises:
        RecipeError: when there is none, it was deleted, or it is a sweep without a best configuration.
    """
    with reading_client(uri) as client:
        kept = find_run(client, run, uri)
    run_id, kind, params = str(kept.info.run_id), kept.data.tags.get(keys.TAG_KIND), dict(kept.data.params)
    evaluations = [run_id]
    if kind == "jury":
        evaluations = keys.param_group(params, "jury")["runs"].split(", ")
    elif kind == "sweep":
        evaluations = [_best_run(run_id, uri)]
    return NamedRun(
        run_id=run_id,
        kind=kind,
        name=str(kept.info.run_name),
        link=run_link(uri, str(kept.info.experiment_id), run_id),
        uri=uri,
        params=params,
        evaluations=tuple(evaluations),
    )


def page_of_run(run_id: str, uri: str) -> str:
    """Return where MLflow's own pages show a run."""
    with reading_client(uri) as client:
        return Addresses(FOLDER).mlflow(client.get_run(run_id).info.experiment_id, run_id)


def _best_run(run_id: str, uri: str) -> str:
    """Return the run that measured a sweep's best configuration, on the held-out half where there is one.

    Raises:
        RecipeError: when it has none.
    """
    sweep = json.loads(run_file(uri, run_id, keys.SWEEP_JSON) or b"{}")
    measured = (member for member in sweep.get("measured", ()) if member["configuration"] == sweep.get("best"))
    if (best := next(measured, None)) is None:
        raise RecipeError(
            f"Sweep {run_id} has no best configuration, for none was held out. Take one of its members, or a run of "
            "one: sweep.members[0]."
        )
    return str(best["runs"]["holdout"] or best["runs"]["search"])


def status(
    what: object,
    *,
    inputs: Iterable[str] | None = None,
    experiment: str | None = None,
    tracking_uri: str | None = None,
) -> Status:
    """Say whether a judge is the one that was measured, has changed since, or was never measured.

    A scorer is held against the datasheet it carries, or else against the newest run of its name; whatever was measured
    anywhere in the store is measured. A run is held against what its sources give today: the newest version of a
    registered judge, the prompt behind an alias, the endpoint that the environment names, the prompts of this version.
    Both are stale, too, where newer feedback came from another model than the one that answered the datasheet, and
    drifted where `jrh.watch` has seen that it answers otherwise. A jury is what its judges are, and a
    sweep what its best configuration is.

    Args:
        what: `scorers:/NAME[@VERSION]` or the bare name of a registered scorer; a run id, `runs:/<id>`, the first eight
            or more digits of an id, or what `evaluate`, `jury` or `sweep` returned; a judge, or its model
            (`openai/gpt-4o-mini`); or a scorer or judge of MLflow's.
        inputs: Names of the inputs of the rows that a judge of MLflow's is used on; where it was measured with others,
            it is `measured with other inputs`.
        experiment: Where a registered scorer is looked for first.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: when there is no such run or scorer.
        TrackingError: when MLflow cannot be reached.
    """
    uri, run = tracking_uri or active_uri(), getattr(what, "run_id", what)
    if isinstance(what, Jury):
        return _of_jury([member.run_id for member in what.runs], name=what.title, run_id=what.run_id, uri=uri)
    # A text is a run only where it looks like one: it may as well be the bare name of a registered scorer.
    if isinstance(run, str) and (what is not run or _RUN.fullmatch(run)):
        logged = named_run(run, uri)
        if logged.kind == "jury":
            return _of_jury(logged.evaluations, name=logged.name, run_id=logged.run_id, uri=uri)
        return _of_run(identity.measured_judge(logged.evaluations[0], tracking_uri=uri))
    running = _running(what, experiment, uri)
    # An exported judge is shown a row in the form that it was measured with.
    if inputs is not None and running.definition is not None and running.datasheet is None and running.reads_inputs:
        running = replace(running, definition={**running.definition, "inputs": [[name, ""] for name in inputs]})
    return running.status()


# Of what was measured


def _of_jury(runs: Iterable[str], *, name: str, run_id: str | None, uri: str) -> Status:
    judges = [identity.measured_judge(run, tracking_uri=uri) for run in runs]
    return _together([(judge.name, _of_run(judge)) for judge in judges], name=name, run_id=run_id, uri=uri)


def _together(members: Sequence[tuple[str, Status]], *, name: str, run_id: str | None, uri: str) -> Status:
    """Say of a jury what its judges are: never measured where one is not, stale where one is."""
    states = {member.state for _, member in members}
    state = next(state for state in _WORST if state in states)
    differs = tuple(
        replace(difference, measured=f"{judge}: {difference.measured}", running=f"{judge}: {difference.running}")
        for judge, member in members
        for difference in member.differs
    )
    changed, first = [judge for judge, member in members if not member], members[0][1]
    try:
        link = None if run_id is None else named_run(run_id, uri).link
    except RecipeError:  # A scorer that was registered from another store names a run that is not here.
        link = None
    reason = f"{state.capitalize()}: {', '.join(changed)} of its {len(members)} judges."
    if not changed:
        reason = f"Measured, all {len(members)} of its judges."
    return Status(
        state=state,
        name=name,
        differs=differs,
        run_id=run_id if link else first.run_id,
        link=link or first.link,
        reason=first.reason if len(members) == 1 else reason,
        measure="; ".join(dict.fromkeys(member.measure for _, member in members if not member)) or first.measure,
        simulated=any(member.simulated for _, member in members),
    )


def _of_run(measured: MeasuredJudge) -> Status:
    """Hold a run against what its judge would be today."""
    definition = measured.definition
    changes = () if definition is None else identity.changes_since(definition, tracking_uri=measured.uri)
    note = "" if definition else f" Whether its judge has changed cannot be told: {measured.no_definition}"
    return _compared(measured, (*changes, *_answering(measured)), measure=_command(definition, measured), note=note)


def status_of_export(measured: MeasuredJudge, judge: Judge) -> Status:
    """Say what a scorer is that a run is made into: it keeps the measured judge, whatever its sources give today.

    Args:
        measured: What the run says.
        judge: The judge of the run, made again.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    was, now = measured.definition, judge.definition()
    changes = () if was is None or now is None else identity.differences(was, _as_asked(now))
    return _compared(measured, (*changes, *_answering(measured)), measure=_command(was, measured))


def _compared(
    measured: MeasuredJudge,
    differs: tuple[JudgeDifference, ...],
    *,
    measure: str,
    label: str | None = None,
    note: str = "",
) -> Status:
    what = ", ".join(dict.fromkeys(difference.what for difference in differs))
    state: State = "stale" if differs else "measured"
    on = f"on {measured.suite_name}" + (f", truncated ({measured.truncated})" if measured.truncated else "")
    reason = f"Stale: {what} differ{'' if ', ' in what else 's'} from what was measured {on}." if differs else ""
    if what == "inputs":
        state, reason = "measured with other inputs", f"Measured {on}, with other inputs: {differs[0]}."
    if not differs and measured.drift.startswith(keys.CHANGED):
        # Its settings are the same, and it answers otherwise: the model behind it is another.
        state, reason = "drifted", f"Drifted: measured {on}, and {measured.drift}."
    return Status(
        state=state,
        name=label or measured.label,
        differs=differs,
        run_id=measured.run_id,
        link=measured.link,
        reason=reason or f"Measured {on}.{note}",
        measure=measure,
        simulated=measured.simulated,
    )


def _answering(
    measured: MeasuredJudge, *, fingerprint: str | None = None, scorer: str | None = None
) -> tuple[JudgeDifference, ...]:
    """Say which other models have answered since a judge was measured, for it or for one of another fingerprint."""
    if not measured.answered_by:
        return ()
    since = _answered_since(measured, {measured.fingerprint, fingerprint or measured.fingerprint}, scorer)
    others = [name for name in since if name not in measured.answered_by]
    if not others:
        return ()
    was, now = ", ".join(measured.answered_by), ", ".join(others)
    return (JudgeDifference(what="answering model", measured=was, running=now),)


def _answered_since(
    measured: MeasuredJudge, fingerprints: Collection[str | None], scorer: str | None
) -> tuple[str, ...]:
    """Return the models that answered for a judge since it was measured, the latest first, as feedback tells.

    Args:
        measured: The datasheet, whose run feedback of an exported judge names.
        fingerprints: Of the judge. A stale judge names the datasheet that it differs from, but is another judge.
        scorer: Name of the feedback, where it is known: then the newest traces that have it are looked through, and
            otherwise the newest of all.
    """
    from mlflow.exceptions import MlflowException

    with reading_client(measured.uri) as client:
        places = list(experiment_names(client))
        try:
            chosen = None if scorer is None else f"feedback.`{scorer}` IS NOT NULL"
            traces = list(search_traces(client, places, chosen=chosen, most=_TRACES))
        except MlflowException:
            # A store of files, an older server or an odd name: without the filter the newest traces tell as much.
            traces = list(search_traces(client, places, most=_TRACES))
    feedback = [assessment for trace in traces for assessment in trace.info.assessments or ()]
    newer = [assessment for assessment in feedback if (assessment.create_time_ms or 0) >= measured.ended_at]
    newer.sort(key=lambda assessment: -(assessment.create_time_ms or 0))
    answers = (answered for assessment in newer for answered in _answered(assessment.metadata or {}))
    ours = (names for run, mark, names in answers if run == measured.run_id and mark in fingerprints)
    return tuple(dict.fromkeys(name for names in ours for name in names))


def _answered(metadata: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Sequence[str]]]:
    """Yield datasheet, fingerprint and answering models of a judge, and of each that answered together with others."""
    names = str(metadata.get(keys.FEEDBACK_ANSWERED_BY) or "").split(",")
    own = [name.strip() for name in names if name.strip()]
    yield metadata.get(keys.FEEDBACK_RUN), metadata.get(keys.FEEDBACK_FINGERPRINT), own
    try:
        members = json.loads(str(metadata.get(keys.FEEDBACK_MEMBERS) or "[]"))
    except ValueError:
        # Anybody can edit feedback: what is not as a jury wrote it tells nothing of its judges.
        return
    for member in members if isinstance(members, list) else ():
        if isinstance(member, Mapping):
            yield member.get("datasheet_run_id"), member.get("fingerprint"), member.get("answered_by") or ()


# Of what is running


@dataclass(frozen=True, kw_only=True)
class _Running:
    """A judge that is in use, held against the runs of a store."""

    uri: str
    name: str
    label: str
    measure: str
    judge: Judge | None = None
    """None where it is code that was not made."""
    definition: Definition | None = None
    fingerprint: str | None = None
    simulated: bool = False
    datasheet: str | None = None
    """Id of the run that an exported judge names as its datasheet."""
    registered_name: str | None = None
    feedback: str | None = None
    """Name of its feedback, where that is known."""
    members: tuple[_Running, ...] = ()
    """Of a jury: the judges that answer."""

    def status(self) -> Status:
        """Hold the judge against the run that measured it, or else against the newest one of its name."""
        if self.members:
            members = [(member.name, member.status()) for member in self.members]
            return _together(members, name=self.label, run_id=self.datasheet, uri=self.uri)
        # Whichever run measured it with the same inputs, where some did with others.
        runs = islice(self._measured(), _MOST_COMPARED if self.definition and self.definition.get("inputs") else 1)
        if (measured := min(runs, key=lambda run: len(self._inputs_since(run)), default=None)) is not None:
            differs = _answering(measured, fingerprint=self.fingerprint, scorer=self.feedback)
            return self._held_against(measured, (*self._inputs_since(measured), *differs))
        if (before := next(self._earlier(), None)) is not None:
            return self._held_against(before, self._since(before))
        code = "" if self.fingerprint or self.definition else " It is code that cannot be told from other code."
        reason = f"Never measured.{code}"
        if self.datasheet is not None:
            reason = f"Never measured in this store: its datasheet, run {self.datasheet}, {self._lost()}."
        return Status(
            state="never measured", name=self.label, reason=reason, measure=self.measure, simulated=self.simulated
        )

    def _lost(self) -> str:
        """Say why the datasheet cannot be read."""
        with reading_client(self.uri) as client:
            run = run_if_there(client, str(self.datasheet))
        return "was deleted" if run is not None and is_deleted(run) else "is not here"

    def _held_against(self, measured: MeasuredJudge, differs: tuple[JudgeDifference, ...]) -> Status:
        # A judge that changed is measured on what it was measured on before: any other suite may not suit it.
        on, measure = _suite_of(measured), self.measure
        if differs and measure.startswith("jrh evaluate "):
            measure = f"{measure.removesuffix(_ONE_RESPONSE)} --suite {shlex.quote(on)}"
        elif differs:
            measure = f"jrh.evaluate(judge, {on!r})"
        return _compared(measured, differs, measure=measure, label=self.label)

    def _measured(self) -> Iterator[MeasuredJudge]:
        """Yield the runs that measured exactly this judge: its datasheet, those of its fingerprint, those of its like.

        What a sweep tried comes last: mostly half a suite, and read as often as the sweep asked.
        """
        yield from filter(self._is_same, self._carried())
        tags = {keys.TAG_FINGERPRINT: self.fingerprint or ""}
        for trials in (False, True):
            same: Iterable[MeasuredJudge] = ()
            if self.fingerprint is not None:
                same = identity.measured_judges(tags=tags, trials=trials, tracking_uri=self.uri)
            yield from filter(self._is_same, chain(same, self._alike(trials=trials)))

    def _earlier(self) -> Iterator[MeasuredJudge]:
        """Yield the runs that measured what this judge was before: its datasheet, then those of its name and model."""
        yield from self._carried()
        if self.registered_name is not None:
            named = {keys.PARAM_REGISTERED_NAME: self.registered_name}
            yield from identity.measured_judges(params=named, tracking_uri=self.uri)
        # MLflow's judges take the names of others when these are exported; code that was not made is a scorer of
        # MLflow's.
        kind = keys.grouped_params({"judge": {"kind": (self.judge or MlflowJudge).kind}})
        yield from identity.measured_judges(tags={keys.TAG_JUDGE: self.name}, params=kind, tracking_uri=self.uri)
        # A judge that nobody named is called after its settings: changed, it has another name.
        yield from sorted(islice(self._of_same_model(), _MOST_COMPARED), key=lambda run: len(self._since(run)))

    def _of_same_model(self) -> Iterator[MeasuredJudge]:
        """Yield the runs that asked the same model; MLflow's judges and code are known by their names only."""
        has_own = self.datasheet is not None  # Which is not in this store: no other run is a better answer.
        if (
            has_own
            or self.judge is None
            or self.judge.kind not in (PromptedJudge.kind, RawJudge.kind, PointwiseJudge.kind)
        ):
            return
        settings = self.judge.settings()
        wanted = keys.grouped_params({"judge": {name: settings[name] for name in ("model", "kind")}})
        runs = identity.measured_judges(params=wanted, tracking_uri=self.uri)
        yield from (run for run in runs if run.definition is not None)

    def _carried(self) -> Iterator[MeasuredJudge]:
        """Yield the datasheet that an exported judge names, where this store has it."""
        try:
            carried = None if self.datasheet is None else identity.measured_judge(self.datasheet, tracking_uri=self.uri)
        except RecipeError:
            return
        yield from [] if carried is None else [carried]

    def _alike(self, *, trials: bool) -> Iterator[MeasuredJudge]:
        """Yield runs with the same settings: of the same judge under another name, or of an earlier version."""
        if self.judge is not None and self.definition is not None:
            settings = {name: value for name, value in self.judge.settings().items() if name not in _UNLIKE}
            params = keys.grouped_params({"judge": settings})
            yield from identity.measured_judges(params=params, trials=trials, tracking_uri=self.uri)

    def _is_same(self, measured: MeasuredJudge) -> bool:
        if self.definition is None or measured.definition is None:
            return self.fingerprint is not None and self.fingerprint == measured.fingerprint
        return all(
            difference.what == "inputs" for difference in identity.differences(measured.definition, self.definition)
        )

    def _inputs_since(self, measured: MeasuredJudge) -> tuple[JudgeDifference, ...]:
        """Return in what the inputs of the rows are not those that it was measured with."""
        is_known = self.definition is not None and measured.definition is not None
        return self._since(measured) if is_known else ()

    @property
    def reads_inputs(self) -> bool:
        """Whether it is a judge of MLflow's that is shown the inputs of a row."""
        members = self.judge.panel.members if isinstance(self.judge, MlflowJudge) else ()
        return any("inputs" in needed_fields(scorer) for scorer in members)

    def _since(self, before: MeasuredJudge) -> tuple[JudgeDifference, ...]:
        """Return in what it differs from a run of its name; code can be told apart, but not what differs in it."""
        if self.definition is not None and before.definition is not None:
            return identity.differences(before.definition, self.definition)
        was, now = ((mark or "unknown")[:12] for mark in (before.fingerprint, self.fingerprint))
        return (JudgeDifference(what="version", measured=f"code {was}", running=f"code {now}"),)


def _running(what: object, experiment: str | None, uri: str) -> _Running:
    """Return the judge that a user means, with all that tells it from others."""
    if isinstance(what, str) and split_model(what)[0] is None:
        address = what if what.startswith(SCORERS) else f"{SCORERS}{what}"
        return _registered(scorer_at(address, experiment=experiment, tracking_uri=uri), uri)
    if (carried := specification(what) if is_mlflow_judge(what) else None) is not None:
        return _exported(carried, str(getattr(what, "name", carried["name"])), uri)
    judge = MlflowJudge.unchecked(what) if is_mlflow_judge(what) else resolve_judge(what, tracking_uri=uri)
    registered = judge.registered[0]["name"] if isinstance(judge, MlflowJudge) and judge.registered else None
    measure = _evaluating(registered, judge) if registered else _command(judge.definition())
    if not registered and isinstance(judge, MlflowJudge) and judge.grades_one_response:
        measure = f"jrh.evaluate(judge, {_SINGLES!r})"
    return _of_judge(judge, uri=uri, measure=measure, registered_name=registered)


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


def _registered(scorer: RegisteredScorer, uri: str) -> _Running:
    """Read a scorer of MLflow's registry; the code of one that is code is not run."""
    name = scorer.name
    if not scorer.is_code:
        judge = MlflowJudge.registered_as(scorer)
        return _of_judge(judge, uri=uri, measure=_evaluating(name, judge), registered_name=name)
    if (carried := specification(scorer)) is not None:
        running = _exported(carried, name, uri)
        return running if running.datasheet else replace(running, datasheet=_datasheet_before(scorer, uri))
    return _Running(uri=uri, name=name, label=name, measure=_evaluating(name), registered_name=name)


def _datasheet_before(scorer: RegisteredScorer, uri: str) -> str | None:
    """Return the datasheet that the newest earlier version of a scorer carries."""
    for version in range(scorer.version - 1, 0, -1):
        before = newest_version(scorer.name, experiment_id=scorer.experiment_id, uri=uri, version=version)
        carried = None if before is None else specification(before)
        if carried is not None and carried.get("datasheet"):
            return str(carried["datasheet"]["run_id"])
    return None


def _exported(carried: Mapping[str, Any], name: str, uri: str) -> _Running:
    """Read what an exported scorer carries: a judge, or several that answer together."""
    datasheet = (carried.get("datasheet") or {}).get("run_id")
    if "members" in carried:
        return _Running(
            uri=uri,
            name=name,
            label=shown_name(carried["name"], simulated=carried["simulated"], recorded=False),
            measure="",
            simulated=carried["simulated"],
            datasheet=datasheet,
            members=tuple(_exported(member, name, uri) for member in carried["members"]),
        )
    judge, measure = identity.judge_from(carried["judge"]), _command(carried["judge"])
    running = _of_judge(judge, uri=uri, measure=measure, datasheet=datasheet, feedback=name)
    return replace(running, definition=running.definition and _as_asked(running.definition))


def _as_asked(definition: Definition) -> Definition:
    """Return a definition with the endpoint that the environment names here, where no address is kept: it is asked."""
    if "inner" in definition:
        return {**definition, "inner": _as_asked(definition["inner"])}
    if definition["kind"] not in ("prompted", "raw") or definition["api_base"] or definition["recorded"]:
        return definition
    return {**definition, "endpoint": endpoint_of(definition["model"])}


# What measures a judge


def _evaluating(registered: str, judge: Judge | None = None) -> str:
    """Return the command that measures a registered scorer, on a suite that it can be put to."""
    singles = isinstance(judge, MlflowJudge) and judge.grades_one_response
    return f"jrh evaluate {shlex.quote(f'{SCORERS}{registered}')}{_ONE_RESPONSE if singles else ''}"


def _command(definition: Definition | None, measured: MeasuredJudge | None = None) -> str:
    """Return what measures a judge, on the suite of a run: a command where one can say it, and Python otherwise."""
    suite = None if measured is None else _suite_of(measured)
    words = None if definition is None else _words(definition)
    if words is None:
        return f"jrh.evaluate(judge, {suite!r})" if suite else "jrh.evaluate(judge)"
    return shlex.join(["jrh", "evaluate", *words, *(["--suite", suite] if suite else [])])


def _suite_of(measured: MeasuredJudge) -> str:
    return measured.suite_name if measured.suite_name in BUILT_IN else f"runs:/{measured.run_id}/suite"


def _words(definition: Definition) -> list[str] | None:
    """Return how a judge is written on the command line; None where that takes a text, a file or code."""
    # Without a version: what is measured anew is what runs now.
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
    # Some defaults depend on the model: the judge that nobody set up says which.
    usual = PromptedJudge(definition["model"], reasoning_effort=definition["reasoning_effort"])
    known = {**{name: field.default for name, field in JudgeOptions.model_fields.items()}, "model": None}
    known |= {"max_tokens": usual.max_tokens, "structured": definition["structured"], "extra": {}}
    known |= {"api_base": definition["api_base"] if definition["address"] == "environment" else None}
    changed = {name: given[name] for name, default in known.items() if given.get(name, default) != default}
    return [word for name, value in changed.items() for word in _flag(name, value)]


def _criterion(facts: Mapping[str, Any]) -> str:
    return str(facts["name"] if facts["name"] in CRITERIA else facts["text"])


def _flag(name: str, value: object) -> list[str]:
    flag = JudgeOptions.flag(name)
    return [flag] if value is True else [flag, "none" if value is None else str(value)]
