"""`jrh.to_mlflow`: the judge that was measured as an MLflow scorer, which carries its datasheet."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jrh_mlflow.comparing.jury.jury import Jury
from jrh_mlflow.errors import JrhWarning, RecipeError, check_known
from jrh_mlflow.exporting.evaluation_hook import run_page
from jrh_mlflow.exporting.instructions import instructions_judge, note_made_judge
from jrh_mlflow.exporting.joint_exports import JointExport, exported_source, is_run, sweep_policy, with_policy
from jrh_mlflow.exporting.measured import MeasuredJudge, measured_judge
from jrh_mlflow.exporting.status import State, Status, status, status_of_export
from jrh_mlflow.exporting.today import changes_since
from jrh_mlflow.judges import Judge, scripted
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.exported import keep_every_verdict, note_registering
from jrh_mlflow.tracking.judges.definitions import JudgeDifference, judge_from
from jrh_mlflow.tracking.judges.scorers import is_mlflow_judge
from jrh_mlflow.tracking.judges.specifications import FORMAT, exported_scorer, specification
from jrh_mlflow.tracking.runs.store import active_uri
from jrh_mlflow.tracking.runs.view import server_address

ORDER_MATTERS, NONE_SEEN = 0.2, 0.3
"""Pairs are asked in both orders, which costs twice as much, unless the order decides at most the first share of equal
pairs, by the upper end of the clustered interval. Where no order decided at all, the second share is enough: on the
built-in suites that end is then 0.09 to 0.29, and a judge that showed nothing is asked once."""
_STALE, _ORDERS, _FORMS = ("warn", "refuse"), ("auto", "both", "one"), ("scorer", "make_judge")
_UNFIT = re.compile(r"[^A-Za-z0-9_\-. :]+")
_LONGEST_NAME = 200
"""MLflow logs `<name>/mean`, and names of metrics and scorers may have 250 characters."""


def to_mlflow(
    what: object,
    *,
    name: str | None = None,
    stale: Literal["warn", "refuse"] = "warn",
    orders: Literal["auto", "both", "one"] = "auto",
    answers: Sequence[str] | None = None,
    form: Literal["scorer", "make_judge"] = "scorer",
    part: Literal["jury", "best", "cascade"] = "jury",
    tracking_uri: str | None = None,
) -> Any:
    """Make an MLflow scorer of a judge: it sends the same bytes, reads answers the same way, and names its datasheet.

    Rows of `mlflow.genai.evaluate`: `inputs` is `{"instruction": …, "rubric": …}` (the second optional), or whatever
    holds the question; `outputs` is `{"A": …, "B": …}` for a pair, `{"transcript": […]}` for a transcript, and
    otherwise the response. Values are `A`, `B`, `tie`; the label; the number on a scale of numbers; or `abstain`. An
    answer that cannot be read, and a call that failed, is an error of the feedback and never a value.

    Args:
        what: What was measured: a run id, `runs:/<id>` or what `evaluate`, `jury` or `sweep` returned; a member of a
            sweep; or a judge, or its model (`openai/gpt-4o-mini`). Of a sweep the best configuration is taken, asked
            as often as it was there.
        name: Of the scorer; the judge's, with what MLflow does not take replaced, when None.
        stale: What to do about a judge that is not the one that was measured, when the scorer is made and when it
            answers: `warn`, or `refuse`, which then makes the feedback of another model an error.
        orders: Ask pairs in `one` order or in `both`: then a verdict that depends on the order is a tie, or `abstain`
            where no tie is offered. `auto` asks both unless the datasheet shows that the order hardly matters.
        answers: What responses and transcripts may be answered; the labels of the measured suite when None.
        form: `scorer`, or `make_judge` for scheduled scoring: another judge, which is not measured yet.
        part: Of a jury: all its judges (`jury`), its `best` panel, or its `cascade`.
        tracking_uri: MLflow store of the run; the active one when None.

    Raises:
        RecipeError: when it cannot be exported, or with stale="refuse" is not the judge that was measured.
    """
    for option, given, known in (("stale", stale, _STALE), ("orders", orders, _ORDERS), ("form", form, _FORMS)):
        check_known(option, given, known)
    if not isinstance(name, str | None):
        raise RecipeError(f"name= is a text, but got {type(name).__name__}.")
    source = exported_source(what, part=part, tracking_uri=tracking_uri)
    if form == "make_judge":
        return _made_judge(source, name, answers, tracking_uri)
    if isinstance(source, Jury):
        export, described = JointExport(source, part), source.title
        spec = _joint_specification(export, stale=stale, orders=orders, answers=answers, uri=tracking_uri)
    else:
        subject = _subject(source, tracking_uri)
        _tell_stale(subject, refuse=stale == "refuse")
        spec = judge_specification(subject, stale=stale, orders=orders, answers=answers)
        spec, described = with_policy(spec, subject.policy), _described(subject)
    if spec["datasheet"] is not None:
        spec["datasheet"]["link"] = datasheet_link(spec["datasheet"]["run_id"], uri=tracking_uri)
    keep_every_verdict(tracking_uri)
    note_registering(tracking_uri)
    return exported_scorer(spec, name=fit_name(spec["name"] if name is None else name), description=described)


def _joint_specification(
    export: JointExport, *, stale: str, orders: str, answers: Sequence[str] | None, uri: str | None
) -> dict[str, Any]:
    """Return the specification of several judges; whether both orders are asked is decided for all of them."""
    if export.run_id is None:
        _tell("This jury has no run that feedback could name. Log it: jrh.jury(…, log=True).", refuse=stale == "refuse")
    members = {}
    for judge, run_id in export.runs.items():
        subject = _subject(run_id, uri)
        _tell_stale(subject, refuse=stale == "refuse")
        members[judge] = judge_specification(subject, stale=stale, orders="one", answers=answers)
    if orders == "auto":
        orders = "both" if order_matters(export.positional()) else "one"
    return export.specification(members, orders=orders)


def _made_judge(source: object, name: str | None, answers: Sequence[str] | None, uri: str | None) -> Any:
    """Make the MLflow judge that is nearest to a judge; being another one, it has no datasheet to be stale."""
    if isinstance(source, Jury):
        raise RecipeError('form="make_judge" is one judge: export the runs of the jury one by one.')
    subject = _subject(source, uri)
    judge, measured = subject.judge, subject.measured
    known = _answerable(judge, measured, answers)
    singles = [kind for kind in measured.kinds if kind != "pair"] if measured is not None else []
    made = instructions_judge(
        judge,
        name=fit_name(judge.name if name is None else name),
        kind="pair" if known["answers"] is None else singles[0] if singles else "response",
        answers=known["answers"] or (),
        ordinal=known["ordinal"],
        rubric=None if measured is None else measured.rubric,
    )
    keep_every_verdict(uri)
    note_made_judge(judge)
    return made


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A judge to be exported, and how it compares with the run that measured it."""

    judge: Judge
    measured: MeasuredJudge | None
    """The run that measured it, or else the one of its name that it differs from."""
    status: Status
    differs: tuple[JudgeDifference, ...] = ()
    """In what the judge itself is not the measured one. That of a run is, whatever became of its sources since."""
    moved: tuple[JudgeDifference, ...] = ()
    """In what the sources of a run give another judge today, which the export does not follow."""
    policy: Mapping[str, str] = field(default_factory=dict)
    """How a sweep asked the judge of its run: `replicates`, `vote`, `orders`. A judge by itself has none."""

    @property
    def state(self) -> State:
        """Of the judge itself; whether another model answers today is seen when it answers."""
        return "never measured" if self.measured is None else "stale" if self.differs else "measured"


def _subject(what: object, uri: str | None) -> Subject:
    if is_run(what) or hasattr(what, "run_id"):
        return _subject_of_run(measured_judge(what, tracking_uri=uri), uri)
    carried = specification(what) if is_mlflow_judge(what) else None
    if carried is not None and "judge" not in carried:
        raise RecipeError(f"This scorer is exported already, as a {carried['kind']}: use it as it is.")
    judge = resolve_judge(what, tracking_uri=uri) if carried is None else judge_from(carried["judge"])
    _definition(judge)
    found = status(judge, tracking_uri=uri)
    differs = tuple(one for one in found.differs if one.what != "answering model")
    measured_by = measured_judge(found.run_id, tracking_uri=uri) if found.run_id else None
    return Subject(judge=judge, measured=measured_by, status=found, differs=differs)


def _subject_of_run(measured: MeasuredJudge, uri: str | None) -> Subject:
    judge = measured.judge()
    found = status_of_export(measured, judge, tracking_uri=uri)
    today = changes_since(measured.definition or {}, tracking_uri=uri or active_uri())
    moved = tuple(one for one in today if one not in found.differs)
    return Subject(judge=judge, measured=measured, status=found, moved=moved, policy=sweep_policy(measured))


def _tell_stale(subject: Subject, *, refuse: bool) -> None:
    """Warn of, or refuse, what is not the judge that was measured; of sources that moved, warn.

    Raises:
        RecipeError: naming what differs.
    """
    found = subject.status
    if found.state != "measured":
        how = f' Measure it ({found.measure}) and export that run, or pass stale="warn".' if refuse else ""
        _tell(f"{brief_name(found.name)}: {found.reason}{_listed(found.differs)}{how}", refuse=refuse)
    if subject.moved:
        kept = "The scorer stays the judge that was measured, but its sources give another one today."
        _tell(f"{brief_name(found.name)}: {kept}{_listed(subject.moved)}", refuse=False)


def _tell(text: str, *, refuse: bool) -> None:
    if refuse:
        raise RecipeError(text)
    warnings.warn(text, JrhWarning, stacklevel=4)


def _listed(differs: Sequence[JudgeDifference]) -> str:
    return "".join(f" {one}." for one in differs)


def judge_specification(subject: Subject, *, stale: str, orders: str, answers: Sequence[str] | None) -> dict[str, Any]:
    """Return the specification of a scorer, as `tracking/exported.py` describes it.

    Raises:
        RecipeError: for a judge that is no data, or where nobody says what may be answered.
    """
    judge, measured = subject.judge, subject.measured
    return {
        "format": FORMAT,
        "kind": "judge",
        "name": judge.name,
        "judge": _definition(judge),
        "fingerprint": judge.fingerprint(),
        "simulated": judge.simulated,
        **_answerable(judge, measured, answers),
        "levels": measured is not None and measured.levels,
        "rubric": None if measured is None else measured.rubric,
        "orders": _orders(orders, subject),
        "stale": stale,
        "status": subject.state,
        "differs": [_plain(one) for one in subject.differs],
        "datasheet": None if measured is None else datasheet_facts(measured),
    }


def datasheet_facts(measured: MeasuredJudge) -> dict[str, Any]:
    """Return what feedback says of the datasheet behind it."""
    return {
        "run_id": measured.run_id,
        "suite_name": measured.suite_name,
        "suite_sha256": measured.suite_sha256,
        "profile": measured.profile,
        "kinds": list(measured.kinds),
        "answered_by": list(measured.answered_by),
    }


def datasheet_link(run_id: str | None, *, uri: str | None) -> str | None:
    """Return where feedback can send its reader; None for a run that neither a server nor the active store shows."""
    where = uri or active_uri()
    if run_id is None or not (where.startswith("http") or where == active_uri()):
        return None
    page = run_page(run_id, where)
    return f"{server_address(where)}/{page}" if where.startswith("http") else page


def fit_name(name: str) -> str:
    """Return a name that MLflow takes for scorers, feedback and metrics.

    Example:
        >>> fit_name("openai/gpt-4o-mini (strict)")
        'openai_gpt-4o-mini _strict'
    """
    fit = _UNFIT.sub("_", name).strip(" _.:")[:_LONGEST_NAME].strip(" _.:")
    if not fit:
        raise RecipeError(f"{brief_name(name)} has no letter or digit that MLflow takes in a name: give name=….")
    return fit


def _definition(judge: Judge) -> Mapping[str, Any]:
    if isinstance(judge, scripted.Scripted) and not callable(judge):
        raise RecipeError(
            f"{brief_name(judge.name)} answers by what a suite knows of its items, and rows hold nothing of that. "
            "Export a judge that looks at texts, such as jrh.scripted.LongerWins()."
        )
    definition = judge.definition()
    if definition is None:
        raise RecipeError(
            f"{brief_name(judge.name)} is code of yours, which MLflow can keep only as you wrote it: "
            "decorate it with mlflow.genai.scorers.scorer, or write it as a PromptedJudge."
        )
    return definition


def _answerable(judge: Judge, measured: MeasuredJudge | None, answers: Sequence[str] | None) -> dict[str, Any]:
    """Return what responses and transcripts may be answered."""
    if answers is not None:
        return {"answers": _checked(answers), "ordinal": None}
    if measured is None or "pair" in measured.kinds:
        return {"answers": None, "ordinal": None}
    if not measured.labels:
        raise RecipeError(
            f"The items of suite {measured.suite_name!r} have different labels, so nobody knows what a row may be "
            f"answered. Say so: jrh.to_mlflow(…, answers=[…]), for {brief_name(judge.name)}."
        )
    return {"answers": list(measured.labels), "ordinal": measured.ordinal}


def _checked(answers: Sequence[str]) -> list[str]:
    if not isinstance(answers, Sequence):
        raise RecipeError(f"answers= are two or more texts, but got {type(answers).__name__}.")
    given = [answers] if isinstance(answers, str) else [str(answer) for answer in answers]
    if len({answer.strip().casefold() for answer in given}) < max(2, len(given)):
        raise RecipeError(f"answers= are two or more that differ in more than case and spaces, but got {given!r}.")
    return given


def _orders(orders: str, subject: Subject) -> str:
    if orders != "auto":
        return orders
    if "orders" in subject.policy:
        return subject.policy["orders"]
    # How much the order decides was measured of another judge where this one is stale.
    measured = subject.measured if subject.state == "measured" else None
    return "both" if measured is None or order_matters(measured.positional) else "one"


def order_matters(positional: Reading | None) -> bool:
    """Whether the order of a pair may decide too often to ask it once; what was not measured may."""
    if not isinstance(positional, Estimate) or positional.cluster_high is None:
        return True
    return positional.cluster_high > (ORDER_MATTERS if positional.value else NONE_SEEN)


def _plain(difference: JudgeDifference) -> dict[str, str]:
    return {"what": difference.what, "measured": difference.measured, "running": difference.running}


def _described(subject: Subject) -> str:
    measured, simulated = subject.measured, " A simulated judge." if subject.judge.simulated else ""
    if measured is None:
        return f"A judge of jrh-mlflow that was not measured.{simulated}"
    if subject.differs:
        run = f"run {measured.run_id} measured on suite {measured.suite_name}"
        return f"Not measured: it differs from the judge that {run}.{_listed(subject.differs)}{simulated}"
    return f"Measured by run {measured.run_id} on suite {measured.suite_name}: {measured.profile}.{simulated}"
