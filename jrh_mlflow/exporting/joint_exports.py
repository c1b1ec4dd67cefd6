"""What `jrh.to_mlflow` makes of juries, cascades and sweeps: their judges, and how these come to one answer.

| `to_mlflow` of | exports |
|---|---|
| a jury (`Jury`, or a run of kind jury) | all its judges, voting by its rule |
| … with part="best" | its best panel, chosen on all units |
| … with part="cascade" | its cascade, with the threshold chosen on all units |
| a sweep (`Sweep`, or a run of kind sweep) | its best configuration |
| a member of a sweep, or a run of one | that configuration |

A configuration of a sweep is a judge with a policy: how often it is asked, how that is counted, and in which orders.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jrh_mlflow.comparing.jury.jury import Jury, jury
from jrh_mlflow.comparing.jury.jury_report import Cascade, cascade_answers
from jrh_mlflow.comparing.jury.live import live_cascade, live_panel
from jrh_mlflow.comparing.jury.panels import BestPanel, PanelAnswers, VotingRule, panel_answer, panel_calls
from jrh_mlflow.comparing.jury.votes import VoteTable, votes
from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.exporting.measured import POSITIONAL, MeasuredJudge
from jrh_mlflow.models.catalog import split_model
from jrh_mlflow.schema.estimates import NotEstimable, Reading
from jrh_mlflow.show.numbers import reading_text
from jrh_mlflow.show.results import measure
from jrh_mlflow.tracking.judges.judge_registry import SCORERS
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import find_run, run_file
from jrh_mlflow.tracking.runs.store import active_uri, reading_client, run_link

PARTS = ("jury", "best", "cascade")
Specification = dict[str, Any]


def exported_source(what: object, *, part: str, tracking_uri: str | None) -> object:
    """Return what is to be exported: a `Jury`, the run of a sweep's best configuration, or `what` as it is.

    Raises:
        RecipeError: when a sweep has no best one, or there is no jury that `part` could be of.
    """
    check_known("part", part, PARTS)
    if isinstance(what, Cascade):
        raise RecipeError('A cascade knows its judges by name only: pass its jury, to_mlflow(jury, part="cascade").')
    text: Any = getattr(what, "run_id", what)
    uri = tracking_uri or active_uri()
    if not isinstance(what, Jury) and is_run(text):
        with reading_client(uri) as client:
            run = find_run(client, text, uri)
        run_id, kind = str(run.info.run_id), run.data.tags.get(keys.TAG_KIND)
        if kind == "sweep":
            what = best_run(run_id, uri)
        elif kind == "jury":
            link = run_link(uri, run.info.experiment_id, run_id)
            what = replace(_jury_again(run_id, run.data.params, uri), run_id=run_id, link=link)
    if part != "jury" and not isinstance(what, Jury):
        raise RecipeError(f"part={part!r} is of a jury: pass what `jrh.jury` returned, or its run.")
    return what


def is_run(what: object) -> bool:
    """Whether a text is meant as a run: it is no address of a registered judge, and no model after its provider."""
    return isinstance(what, str) and not what.startswith(SCORERS) and split_model(what)[0] is None


def best_run(run_id: str, uri: str) -> str:
    """Return the run that measured a sweep's best configuration, on the held-out half where there is one.

    Raises:
        RecipeError: when it has none.
    """
    found = json.loads(run_file(uri, run_id, keys.SWEEP_JSON) or b"{}")
    best = next((one for one in found.get("measured", ()) if one["configuration"] == found.get("best")), None)
    if best is None:
        raise RecipeError(
            f"Sweep {run_id} has no best configuration, for none was held out. Take one of its members, or a run of "
            "one: sweep.members[0]."
        )
    return str(best["runs"]["holdout"] or best["runs"]["search"])


def _jury_again(run_id: str, params: Mapping[str, str], uri: str) -> Jury:
    """Let the judges of a logged jury vote again, as its run says; their calls are all that is read."""
    own, logged = keys.param_group(params, "jury"), json.loads(run_file(uri, run_id, keys.JURY_JSON) or b"{}")
    cascade = logged.get("cascade") or {}
    steps = [*cascade["cheap"], cascade["strong"]] if "strong" in cascade else None
    runs, fewest = own["runs"].split(", "), int(own["min_votes"])
    return jury(
        runs,
        rule=own["rule"],
        ties=own["ties"],
        # The run names the votes that all judges need; unless told otherwise, a best panel of fewer needs fewer.
        min_votes=None if fewest == VotingRule().quorum(len(runs)) else fewest,
        size=int(own["size"]) if "size" in own else None,
        max_usd=float(own["max_usd"]) if "max_usd" in own else None,
        cascade=steps,
        unsure=cascade.get("unsure") if steps else None,
        seed=int(own.get("seed", 0)),
        tracking_uri=uri,
        log=False,
    )


class JointExport:
    """The part of a jury that is exported: who answers, by which rule, and what was measured of it."""

    def __init__(self, done: Jury, part: str) -> None:
        """Find the part.

        Raises:
            RecipeError: when the jury has none.
        """
        self._jury, self._part = done, part
        report, suite = done.report, done.runs[0].suite
        self._table = votes({run.judge: run.calls for run in done.runs}, labels=suite.labels)
        self.rule, self._answers, self._accuracy = _measured_part(report, self._table, part)
        self.judges: tuple[str, ...] = self.rule[part if part == "cascade" else "panel"]["judges"]

    @property
    def name(self) -> str:
        """Of the scorer, where none is given."""
        return " ".join([self._part, *self.judges])

    @property
    def run_id(self) -> str | None:
        """Of the jury; None where it was not logged."""
        return self._jury.run_id

    @property
    def runs(self) -> dict[str, str]:
        """Judge to its run."""
        return {run.judge: run.run_id for run in self._jury.runs if run.judge in self.judges}

    def positional(self) -> Reading | None:
        """How often the order of a pair decided what these judges answered together; None where nothing is a pair."""
        if self._table.pointwise:
            return None
        estimates = measure(panel_calls(self._table, self._answers)).estimates
        return next((estimates[axis] for axis in POSITIONAL if axis in estimates), None)

    def specification(self, members: Mapping[str, Specification], *, orders: str) -> Specification:
        """Return the specification of the scorer: fields that its judges share, and how they come to one answer."""
        first, own = next(iter(members.values())), [{**spec, "name": name} for name, spec in members.items()]
        states, judges = [spec["status"] for spec in own], "1 judge" if len(own) == 1 else f"{len(own)} judges"
        return {
            **{name: first[name] for name in ("format", "answers", "ordinal", "rubric", "stale")},
            **self.rule,
            "kind": "cascade" if self._part == "cascade" else "jury",
            "name": self.name,
            "members": own,
            "fingerprint": _fingerprint(own, self.rule),
            "simulated": any(spec["simulated"] for spec in own),
            "orders": orders,
            "status": next((state for state in ("never measured", "stale") if state in states), "measured"),
            "differs": [one for spec in own for one in spec["differs"]],
            "datasheet": {
                **first["datasheet"],
                # A jury that was not logged has no datasheet but those of its judges.
                "run_id": self.run_id or ", ".join(self.runs.values()),
                "profile": f"{self._part} of {judges}: accuracy {reading_text(self._accuracy, places=2)}",
                "answered_by": [],
            },
        }


def _measured_part(report: Any, table: VoteTable, part: str) -> tuple[dict[str, Any], PanelAnswers, Reading]:
    """Return how a part comes to an answer in use, what it answered when measured, and how often that was right."""
    rule, found = report.rule, report.cascade if part == "cascade" else report.best
    if part == "jury":
        panel = live_panel(table, table.judges, rule)
        return {"panel": panel.to_dict()}, panel_answer(table, table.judges, rule), report.readings["accuracy"]
    if found is None or isinstance(found, NotEstimable):
        how = "cascade=[cheap, strong]" if part == "cascade" else "size=…"
        why = f"has none: {found.reason}" if found else f"was measured without one. Give `jury` {how}"
        raise RecipeError(f"part={part!r} cannot be exported: this jury {why}.")
    if isinstance(found, BestPanel):
        panel = live_panel(table, found.panel, rule)
        return {"panel": panel.to_dict()}, panel_answer(table, found.panel, rule), found.accuracy
    live = live_cascade(found)
    shown = {"cascade": {**live.to_dict(), "judges": live.judges}}
    return shown, cascade_answers(table, found, seed=rule.seed), found.accuracy


def _fingerprint(members: Sequence[Specification], rule: Mapping[str, Any]) -> str | None:
    known = [spec["fingerprint"] for spec in members]
    if None in known:
        return None
    return hashlib.sha256(json.dumps([known, rule], sort_keys=True).encode()).hexdigest()


def with_policy(spec: Specification, policy: Mapping[str, str]) -> Specification:
    """Return a specification that asks a judge as the configuration of a sweep does; any other judge as it is."""
    replicates = int(policy.get("replicates", 1))
    if replicates < 2:
        return spec
    rest = {name: value for name, value in spec.items() if name != "judge"}
    return {**rest, "kind": "policy", "policy": {"replicates": replicates, "vote": policy["vote"]}, "members": [spec]}


def sweep_policy(measured: MeasuredJudge) -> dict[str, str]:
    """Return the choices of a sweep that are a run's policy: `replicates`, `vote` and `orders`; none of other runs."""
    chosen = keys.param_group(measured.params, "choice")
    return {name: chosen[name] for name in ("replicates", "vote", "orders") if name in chosen}
