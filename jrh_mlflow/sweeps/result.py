"""`jrh.Sweep`: what a sweep found, put together from what its stages measured, and what its run shows of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.criterion_shift import OperatingPoint, ResolutionShift, operating_point, resolution_shifts
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.runner import INTERRUPTED
from jrh_mlflow.measures.composite import parts, reliability
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.numbers import at_least_text, reading_text
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.sweeps import sweep_view
from jrh_mlflow.sweeps.front import (
    Member,
    Tie,
    area,
    best_of,
    cheapest_tied,
    has_map,
    on_front,
    probabilities,
    ties,
)
from jrh_mlflow.sweeps.study import CLAIM, DUPLICATE, FAILED, RESULT, STOPPED, Trials, importance, trial_params
from jrh_mlflow.sweeps.sweep_verdict import few_tasks, sweep_verdict
from jrh_mlflow.sweeps.trials import SweepContext, TrialResult
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, shown_content

if TYPE_CHECKING:
    import pandas as pd
    from optuna.trial import FrozenTrial

    from jrh_mlflow.show.figures.canvas import Figure

_NO_MAP = "only told for reliability against cost with known prices"


@dataclass(kw_only=True)
class Findings:
    """What the stages of a sweep measured so far; it is kept when the cap ends one of them in the middle."""

    search: dict[str, TrialResult] = field(default_factory=dict)
    """Configuration to its result on the searched half."""
    holdout: dict[str, TrialResult] = field(default_factory=dict)
    """The front on the half that nobody searched."""
    failed: dict[str, str] = field(default_factory=dict)
    """Configurations that could not be held out, with the reason."""
    unpaid: dict[str, str] = field(default_factory=dict)
    """Configurations that the cap could not hold out, with the reason."""
    unrefined: set[str] = field(default_factory=set)
    """Configurations whose place on the front is undecided, and that the cap has no replicates for."""
    truncated: str | None = None
    """Why the sweep ended before its time."""


@dataclass(frozen=True, kw_only=True)
class Sweep(ShownResult):
    """The map of reliability against cost."""

    run_id: str
    """Of the parent run."""
    link: str
    study: str
    """Name of the study; the same sweep again continues it."""
    suite: str
    halves: Mapping[str, str]
    """`search` and `holdout` to the hash of that half."""
    objectives: Mapping[str, str]
    constraints: Sequence[str]
    trials: pd.DataFrame
    """Every trial: its choices, how it ended, what it measured."""
    members: list[Member]
    """Configurations measured in full: those held out first, the most reliable where they were searched first."""
    stopped: list[Member]
    """Configurations that were stopped early (pruned), read up to there."""
    missing: Sequence[Mapping[str, str]]
    """Configurations that were not measured in full: `configuration` (its key), `label`, `state` and `why`.

    The state is `stopped early`, `failed`, `stopped by the cap`, `running elsewhere`, `interrupted` or `not tried`.
    With `members` they are all there are.
    """
    hypervolume: Reading
    importance: Mapping[str, Mapping[str, float] | str]
    operating: Sequence[OperatingPoint]
    shifts: Sequence[ResolutionShift]
    n_grid: int
    """Configurations of the space."""
    paid: Paid
    """Of all trials and later stages, in whatever process; what the journal served is not among it."""
    grid_calls: int
    """Calls of the whole grid on the whole suite."""
    truncated: str | None = None
    notes: Sequence[str] = ()
    best_key: str | None = None
    cheapest_key: str | None = None
    simulated: bool = False

    n_tasks: int = 0
    """Of the suite, both halves together."""

    @cached_property
    def verdict(self) -> Verdict:
        """Which configuration to use and why, or what so few tasks cannot tell."""
        return sweep_verdict(self.members, constraints=self.constraints, n_tasks=self.n_tasks)

    @property
    def title(self) -> str:
        """Names the suite."""
        return f"Sweep on {self.suite}"

    @property
    def n_calls(self) -> int:
        """Calls that the endpoints served, or perhaps served."""
        return self.paid.calls

    @cached_property
    def metrics(self) -> dict[str, float]:
        """What the parent run logs."""
        members = {"best": self.best, "cheapest_tied": self.cheapest_tied}
        points = sweep_view.sweep_summary_points(
            {
                "n_trials": len(self.trials),
                "n_front": len(self.front),
                "n_calls": self.n_calls,
                "share_of_grid_calls": self.n_calls / self.grid_calls if self.grid_calls else None,
            },
            hypervolume=self.hypervolume,
            members={name: (member.reliability, member.usd_per_1k) for name, member in members.items() if member},
        )
        return keys.last_values([*points, *keys.paid_points(self.paid)])

    @property
    def front(self) -> list[Member]:
        """Members of the front, the cheapest first."""
        front = [member for member in self.members if member.on_front]
        return sorted(front, key=lambda member: member.usd_per_1k or 0.0)

    @property
    def best(self) -> Member | None:
        """The most reliable configuration on the searched half; its `reliability` is read on the held-out half."""
        return self._member(self.best_key)

    @property
    def cheapest_tied(self) -> Member | None:
        """The cheapest configuration that cannot be told from the best on the held-out half."""
        return self._member(self.cheapest_key)

    def _member(self, key: str | None) -> Member | None:
        return next((member for member in self.members if member.configuration.key == key), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "verdict": self.verdict.to_dict(),
            "run_id": self.run_id,
            "link": self.link,
            "study": self.study,
            "suite": {"name": self.suite, **self.halves},
            "objectives": dict(self.objectives),
            "constraints": list(self.constraints),
            "truncated": self.truncated,
            "notes": list(self.notes),
            "simulated": self.simulated,
            "n_configurations": self.n_grid,
            "n_trials": len(self.trials),
            "n_calls": self.n_calls,
            "grid_calls": self.grid_calls,
            "cost_usd": self.paid.usd,
            "unknown_costs": self.paid.unknown,
            "front": [member.to_dict() for member in self.front],
            "measured": [member.to_dict() for member in self.members],
            "stopped": [member.to_dict() for member in self.stopped],
            "missing": list(self.missing),
            "best": self.best_key,
            "cheapest_tied": self.cheapest_key,
            "hypervolume": self.hypervolume.to_dict(),
            "importance": dict(self.importance),
            "resolution_shifts": [
                {name: getattr(shift, name) for name in ("judge", "prompt", "value", "low", "high")}
                for shift in self.shifts
            ],
        }

    def __repr__(self) -> str:
        best = "nothing held out" if self.best is None else f"best {brief_name(self.best.label)}"
        read = "" if self.best is None else f" {reading_text(self.best.reliability)}"
        tried = f"{len(self.members)} of {self.n_grid} configurations, {self.n_calls:,} calls"
        return f"Sweep({brief_name(self.suite)}: {tried}, {best}{read}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        share = f", {self.n_calls / self.grid_calls:.0%} of the grid" if self.grid_calls else ""
        facts = {
            "configurations": sweep_view.counts_text(self.to_dict()),
            "calls": f"{self.n_calls:,}{share}",
            "cost": at_least_text(self.paid.usd, self.paid.unknown),
            "hypervolume": reading_text(self.hypervolume),
        }
        tables = [sweep_view.front_first(self.to_dict()).first(what="configurations")]
        return {"tables": tables, "facts": facts}

    def to_frame(self) -> pd.DataFrame:
        """Return every trial: its choices, how it ended, what it measured."""
        return self.trials

    def plot(self, kind: str | None = None) -> Figure:
        """Draw the map of reliability against cost (`pareto`), or the `criterion_curve`."""
        return plotted(sweep_view.sweep_figures(self.dots, self.operating, title=self.title), kind)

    @property
    def dots(self) -> list[sweep_view.Dot]:
        """The configurations that have a number and a price: those that the map shows."""
        return [dot for member in (*self.members, *self.stopped) if (dot := _dot(member))]

    def _page(self, drawings: Sequence[Drawing] = (), *, served: bool = False) -> Page:
        facts = self.to_dict()
        for kind in ("front", "measured", "stopped"):
            facts[kind] = [{**member, "served": served} for member in facts[kind]]
        return sweep_view.sweep_page(
            facts,
            drawings,
            differences=[(member.tie.difference, member.tied) for member in self.members if member.tie],
            operating=self.operating,
            shifts=self.shifts,
        )


def assembled(context: SweepContext, findings: Findings, *, paid: Paid) -> Sweep:
    """Bring everything together that the trials and the later stages measured."""
    trials, objectives, seed = context.trials, context.space.objectives, context.seed
    search, holdout = findings.search, findings.holdout
    mapped = has_map([*search.values(), *holdout.values()], objectives)
    # The searched half picks, the held-out half reads.
    front = {result.key for result in on_front(search.values(), objectives)}
    # What breaks a constraint where nobody searched is not named, however good it looked.
    kept = {key: result for key, result in holdout.items() if result.feasible}
    best = best_of(search, kept)
    # Ties need reliabilities and prices of all.
    tied = ties(kept, best=best, seed=seed) if mapped and best else {}
    hypervolume: Reading = NotEstimable(reason=_NO_MAP)
    if mapped:
        dearest = max((result.usd_per_1k or 0.0 for result in search.values()), default=0.0)
        # Where nothing could be held out (a cap), the search itself is all there is.
        fair = [holdout[key] for key in sorted(front) if key in holdout] or [search[key] for key in sorted(front)]
        hypervolume = area(fair, dearest=dearest, seed=seed)
    points = _operating(trials, search)
    refused = _unrefined_note(len(findings.unrefined))
    # Of the grid as if every configuration were asked by itself, without stops or shared calls.
    calls_each = sum(len(item.orders) * item.replicates for item in context.suite.items)
    return Sweep(
        run_id=context.parent,
        link=context.store.link(context.parent),
        study=trials.study.study_name,
        suite=context.suite.name,
        halves={"search": context.search.sha256, "holdout": context.holdout.sha256},
        objectives=objectives,
        constraints=[str(limit) for limit in context.space.limits],
        trials=trials_frame(trials, seed=seed),
        members=_members(context, findings, tied, front=front, mapped=mapped),
        stopped=[
            Member(configuration=configuration, search=TrialResult.from_dict(trial.user_attrs[RESULT]), seed=seed)
            for key, trial in trials.measured().items()
            if trial.state.name == "PRUNED" and (configuration := trials.by_key.get(key))
        ],
        missing=list(_missing(context, findings)),
        hypervolume=hypervolume,
        importance=importance(trials.study, objectives, seed=seed),
        operating=points,
        shifts=resolution_shifts(points, seed=seed),
        n_grid=len(trials.grid),
        paid=paid,
        grid_calls=calls_each * sum(configuration.policy.replicates for configuration in trials.grid),
        truncated=findings.truncated,
        notes=[
            *few_tasks(context.suite),
            *(f"{trials.by_key[key].label} could not be held out: {why}" for key, why in findings.failed.items()),
            *refused,
        ],
        best_key=best,
        cheapest_key=cheapest_tied(search, kept, tied),
        simulated=any(result.simulated for result in search.values()),
        n_tasks=len({item.task for item in context.suite.items}),
    )


def _missing(context: SweepContext, findings: Findings) -> Iterator[dict[str, str]]:
    """Say of every configuration without a whole measurement why, in the order of their numbers."""
    trials = context.trials
    newest = {
        key: trial for trial in trials.all() if DUPLICATE not in trial.user_attrs and (key := trials.key_of(trial))
    }
    n_tasks = len({item.task for item in context.search.items})
    for point in sorted(trials.grid, key=lambda point: point.number):
        if point.key not in findings.search:
            state, why = _why_missing(trials, findings, point.key, newest.get(point.key), n_tasks=n_tasks)
            yield {"configuration": point.key, "label": point.label, "state": state, "why": why.rstrip(".")}


def _why_missing(
    trials: Trials, findings: Findings, key: str, trial: FrozenTrial | None, *, n_tasks: int
) -> tuple[str, str]:
    attributes, ended = (trial.user_attrs, trial.state.name) if trial else ({}, "")
    if ended == "PRUNED":
        result = TrialResult.from_dict(attributes[RESULT])
        return "stopped early", f"after {len(result.tally.tasks)} of {n_tasks} tasks, because it is {result.truncated}"
    if why := trials.failed.get(key) or attributes.get(FAILED):
        return "failed", why
    if why := trials.skipped.get(key):
        # A claim is made when a trial begins to ask.
        return "stopped by the cap" if CLAIM in attributes else "not tried", why
    if ended == "RUNNING" or (ended == "FAIL" and STOPPED not in attributes):
        return _BEGUN[ended]
    limit, n_all = trials.limits["n_trials"] or len(trials.grid), len(trials.grid)
    is_cut = findings.truncated and (limit >= n_all or findings.truncated == INTERRUPTED)
    before = f"the sweep ended before its turn: {findings.truncated}"
    return "not tried", before if is_cut else f"{limit} of {n_all} were to be tried (`n_trials`)"


_BEGUN = {
    "RUNNING": ("running elsewhere", "another worker asks it"),
    "FAIL": ("interrupted", "it was stopped in the middle"),
}


def _members(
    context: SweepContext, findings: Findings, tied: Mapping[str, Tie], *, front: set[str], mapped: bool
) -> list[Member]:
    shares = probabilities(findings.search.values(), seed=context.seed) if mapped else {}
    configurations = context.trials.by_key
    members = [
        Member(
            configuration=configurations[key],
            search=result,
            holdout=findings.holdout.get(key),
            probability=shares.get(key),
            tie=tied.get(key),
            on_front=key in front,
            seed=context.seed,
        )
        for key, result in findings.search.items()
        if key in configurations
    ]
    return sorted(
        members, key=lambda member: (member.holdout is None, -member.search.tally.value, member.configuration.key)
    )


def trials_frame(trials: Trials, *, seed: int) -> pd.DataFrame:
    """Return every trial that was more than a duplicate."""
    import pandas as pd

    rows = []
    for trial in trials.all():
        data, why = trial.user_attrs.get(RESULT), trial.user_attrs.get(FAILED)
        if data is None and why is None:
            continue
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name, **trial_params(trial), "why": why}
        rows.append(row | (_measured_columns(TrialResult.from_dict(data), seed=seed) if data else {}))
    frame: pd.DataFrame = pd.DataFrame(rows, columns=None if rows else ["trial", "state"])
    return frame


def _measured_columns(result: TrialResult, *, seed: int) -> dict[str, Any]:
    composite = reliability(result.tally, seed=seed).to_dict()
    return {
        "reliability": composite.get("value"),
        "reliability_ci_low": composite.get("cluster_low"),
        "reliability_ci_high": composite.get("cluster_high"),
        **{name: part.value for name, part in parts(result.tally).items() if isinstance(part, Estimate)},
        "usd_per_1k_judgments": result.usd_per_1k,
        "feasible": result.feasible,
        "n_calls": result.n_calls,
        "run_id": result.run_id,
        "configuration": result.key,
        **({"why": result.truncated} if result.truncated else {}),
    }


def _unrefined_note(count: int) -> list[str]:
    if not count:
        return []
    whose = "Whether one configuration is" if count == 1 else f"Whether {count} configurations are"
    return [f"{whose} on the front is undecided, and the cap has no room for more replicates."]


def _operating(trials: Trials, results: Mapping[str, TrialResult]) -> list[OperatingPoint]:
    """Return one operating point per judge, prompt and criterion, whatever the policy over its calls."""
    points: dict[tuple[str, str, str], OperatingPoint] = {}
    for configuration in trials.grid:
        result, params = results.get(configuration.key), configuration.params
        if result is None or result.operating is None:
            continue
        rest = [name for name in ("model", "temperature", "rubric") if name in configuration.varies or name == "model"]
        judge = ", ".join(params[name] for name in rest if name in params) or "judge"
        prompt, criterion = params.get("prompt", "–"), params.get("tie_criterion", "–")
        point = operating_point(result.operating, judge=judge, prompt=prompt, criterion=criterion)
        kept = points.get((judge, prompt, criterion))
        # Of several policies over one judge the one with the most calls says most.
        if kept is None or point.counts.sum() > kept.counts.sum():
            points[judge, prompt, criterion] = point
    return list(points.values())


def sweep_content(done: Sweep, *, seed: int) -> RunContent:
    """Return what the parent run of a sweep holds."""
    drawings = draw(sweep_view.sweep_figures(done.dots, done.operating, title=done.title))
    settings = {
        "study": done.study,
        "objectives": ", ".join(f"{name} {way}" for name, way in done.objectives.items()),
        "seed": seed,
        "constraints": "; ".join(done.constraints) or None,
    }
    return shown_content(
        done,
        keys.SWEEP_JSON,
        points=[keys.Point(key=key, value=value) for key, value in done.metrics.items()],
        params={"sweep": settings, "suite": {"name": done.suite}},
        tags={keys.TAG_TRUNCATED: done.truncated} if done.truncated else {},
        page=done._page(drawings, served=True),
        drawings=drawings,
        more={
            sweep_view.TRIALS_FILE: done.trials,
            keys.SWEEP_PAGE: done._page([drawing for drawing in drawings if drawing.name == "pareto"]).to_html(),
        },
    )


def _dot(member: Member) -> sweep_view.Dot | None:
    """Return what the map shows of a configuration; None of one without a number or a price."""
    reading = member.reliability
    if not isinstance(reading, Estimate) or member.usd_per_1k is None:
        return None
    return sweep_view.Dot(
        label=member.label,
        value=reading.value,
        low=reading.cluster_low,
        high=reading.cluster_high,
        usd=member.usd_per_1k,
        on_front=member.on_front,
        tied=member.tied,
        held_out=member.holdout is not None,
        search=member.search.tally.value,
        stopped=bool(member.fair.truncated),
    )
