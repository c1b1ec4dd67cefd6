"""From results to a `Sweep`, and from there to its parent run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.composite import parts, reliability
from jrh_mlflow.measures.criterion import OperatingPoint, operating_point, resolution_shifts
from jrh_mlflow.reports.figures.canvas import save_figures
from jrh_mlflow.reports.figures.sweep import sweep_figures
from jrh_mlflow.reports.sweep import description
from jrh_mlflow.reports.sweep_page import Dot, sweep_page
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.sweeps.front import (
    Tie,
    area,
    best_of,
    cheapest_tied,
    dearest_of,
    has_map,
    importance,
    on_front,
    probabilities,
    ties,
)
from jrh_mlflow.sweeps.report import Member, Sweep
from jrh_mlflow.sweeps.study import FAILED, RESULT, Trials
from jrh_mlflow.sweeps.trials import Bench, Result
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.store import note_tag
from jrh_mlflow.tracking.sweeps import log_sweep

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.sweeps.sweep import Ready

_NO_MAP = "only told for reliability against cost with known prices"


def assembled(
    ready: Ready,
    found: Mapping[str, Result],
    held: Mapping[str, Result],
    failed: Mapping[str, str],
    *,
    truncated: str | None,
    link: str,
) -> Sweep:
    """Bring everything together that the trials and the later stages measured."""
    bench, trials = ready.bench, ready.trials
    objectives, seed = ready.space.objectives, bench.seed
    mapped = has_map([*found.values(), *held.values()], objectives)
    # Where nothing could be held out (a cap), the search itself is all there is.
    fair = {**held} if held else {**found}
    able = {key: one for key, one in fair.items() if one.feasible}
    told = ties(able, seed=seed) if mapped and held else {}
    front = {one.key for one in on_front(list(fair.values()), objectives)}
    best = best_of(able) if able else None
    members = _members(ready, found, held, told, front=front, mapped=mapped)
    hypervolume: Reading = NotEstimable(reason=_NO_MAP)
    if mapped:
        hypervolume = area([fair[key] for key in sorted(front)], dearest=dearest_of(list(found.values())), seed=seed)
    points = _operating(trials, found)
    names = {one.key: one.label for one in trials.grid}
    grid_calls = sum(2 if item.kind == "pair" else 1 for item in ready.suite.items for _ in range(item.replicates))
    return Sweep(
        run_id=bench.parent,
        link=link,
        study=trials.study.study_name,
        suite=ready.suite.name,
        halves={"search": ready.search.sha256, "holdout": ready.holdout.sha256},
        objectives=objectives,
        constraints=[str(limit) for limit in ready.space.limits],
        trials=trials_frame(trials, seed=seed),
        members=members,
        hypervolume=hypervolume,
        importance=importance(trials.study, objectives, seed=seed),
        operating=points,
        shifts=resolution_shifts(points, seed=seed),
        n_grid=len(trials.grid),
        n_calls=_n_calls(trials, found, held),
        grid_calls=grid_calls * sum(one.policy.replicates for one in trials.grid),
        truncated=truncated,
        notes=[f"{names[key]} could not be measured: {why}" for key, why in {**trials.failed, **failed}.items()],
        best_key=best if held else None,
        cheapest_key=cheapest_tied(able, told) if told else None,
        simulated=any(one.simulated for one in found.values()),
    )


def _members(
    ready: Ready,
    found: Mapping[str, Result],
    held: Mapping[str, Result],
    told: Mapping[str, Tie],
    *,
    front: set[str],
    mapped: bool,
) -> list[Member]:
    shares = probabilities(list(found.values()), seed=ready.bench.seed) if mapped else {}
    configurations = {one.key: one for one in ready.trials.grid}
    members = [
        Member(
            configuration=configurations[key],
            search=one,
            holdout=held.get(key),
            probability=shares.get(key),
            tie=told.get(key),
            on_front=key in front,
            seed=ready.bench.seed,
        )
        for key, one in found.items()
        if key in configurations
    ]
    return sorted(members, key=lambda one: (one.holdout is None, -one.fair.tally.value, one.configuration.key))


def trials_frame(trials: Trials, *, seed: int) -> pd.DataFrame:
    """Return every trial that was more than a duplicate."""
    import pandas as pd

    rows = []
    for trial in trials.all():
        data, why = trial.user_attrs.get(RESULT), trial.user_attrs.get(FAILED)
        if data is None and why is None:
            continue
        params = {**trial.system_attrs.get("fixed_params", {}), **trial.params}
        row: dict[str, Any] = {"trial": trial.number, "state": trial.state.name, **params, "why": why}
        rows.append(row | (_measured_columns(Result.from_dict(data), seed=seed) if data else {}))
    frame: pd.DataFrame = pd.DataFrame(rows, columns=None if rows else ["trial", "state"])
    return frame


def _measured_columns(result: Result, *, seed: int) -> dict[str, Any]:
    composite = reliability(result.tally, seed=seed)
    own: dict[str, Any] = {"reliability": None, "reliability_ci_low": None, "reliability_ci_high": None}
    if isinstance(composite, Estimate):
        ends = composite.cluster_low, composite.cluster_high
        own = {"reliability": composite.value, "reliability_ci_low": ends[0], "reliability_ci_high": ends[1]}
    shares = {name: one.value for name, one in parts(result.tally).items() if isinstance(one, Estimate)}
    return {
        **own,
        **shares,
        "usd_per_1k_judgments": result.usd_per_1k,
        "feasible": result.feasible,
        "n_calls": result.n_calls,
        "run_id": result.run_id,
        "configuration": result.key,
        **({"why": result.truncated} if result.truncated else {}),
    }


def _n_calls(trials: Trials, found: Mapping[str, Result], held: Mapping[str, Result]) -> int:
    searched = [trial.user_attrs[RESULT]["n_calls"] for trial in trials.all() if RESULT in trial.user_attrs]
    refined = [one.n_calls for one in found.values() if one.repeats > 1]
    return int(sum(searched) + sum(refined) + sum(one.n_calls for one in held.values()))


def _operating(trials: Trials, found: Mapping[str, Result]) -> list[OperatingPoint]:
    """Return one operating point per judge, prompt and criterion, whatever the policy over its calls."""
    points: dict[tuple[str, str, str], OperatingPoint] = {}
    for one in trials.grid:
        result = found.get(one.key)
        if result is None or result.operating is None:
            continue
        rest = [name for name in ("model", "temperature", "rubric") if name in one.varies or name == "model"]
        judge = ", ".join(one.params[name] for name in rest if name in one.params) or "judge"
        prompt, criterion = one.params.get("prompt", "–"), one.params.get("tie_criterion", "–")
        point = operating_point(result.operating, judge=judge, prompt=prompt, criterion=criterion)
        kept = points.get((judge, prompt, criterion))
        # Of several policies over one judge the one with the most calls says most.
        if kept is None or point.counts.sum() > kept.counts.sum():
            points[judge, prompt, criterion] = point
    return list(points.values())


def log(bench: Bench, done: Sweep, *, seed: int) -> Sweep:
    """Log the sweep on its parent run and return it with what was logged."""
    metrics = sweep_metrics(done)
    params = {
        "sweep.study": done.study,
        "sweep.objectives": ", ".join(f"{name} {way}" for name, way in done.objectives.items()),
        "sweep.seed": str(seed),
        "suite.name": done.suite,
        **({"sweep.constraints": "; ".join(map(str, done.constraints))} if done.constraints else {}),
    }
    done = replace(done, metrics=metrics)
    tags = note_tag(description(done.to_markdown()))
    tags |= {keys.TAG_TRUNCATED: done.truncated} if done.truncated else {}
    with tempfile.TemporaryDirectory(prefix="jrh-") as name:
        folder = Path(name)
        write_sweep(folder, done)
        log_sweep(bench.store, bench.parent, points=metrics, params=params, tags=tags, artifacts=folder)
    return done


def sweep_metrics(done: Sweep) -> dict[str, float]:
    """Spell what a sweep found as metrics of its parent run."""
    values: dict[str, float | None] = {
        "sweep/n_trials": len(done.trials),
        "sweep/n_front": len(done.front),
        "sweep/n_calls": done.n_calls,
        "sweep/share_of_grid_calls": done.n_calls / done.grid_calls if done.grid_calls else None,
    }
    if isinstance(done.hypervolume, Estimate):
        values["sweep/hypervolume"] = done.hypervolume.value
        values["sweep/hypervolume_ci_low"] = done.hypervolume.cluster_low
        values["sweep/hypervolume_ci_high"] = done.hypervolume.cluster_high
    for name, member in (("best", done.best), ("cheapest_tied", done.cheapest_tied)):
        if member is not None:
            values[f"sweep/{name}/reliability"] = member.fair.tally.value
            values[f"sweep/{name}/usd_per_1k_judgments"] = member.usd_per_1k
    return {key: float(value) for key, value in values.items() if value is not None}


def dots(done: Sweep) -> list[Dot]:
    """Return what the map shows of each configuration."""
    found = []
    for one in done.members:
        reading = one.reliability
        if not isinstance(reading, Estimate) or one.usd_per_1k is None:
            continue
        found.append(
            Dot(
                label=one.label,
                value=reading.value,
                low=reading.cluster_low,
                high=reading.cluster_high,
                usd=one.usd_per_1k,
                on_front=one.on_front,
                tied=one.tied,
                held_out=one.holdout is not None,
                search=one.search.tally.value,
                run_id=one.fair.run_id,
            )
        )
    return found


def write_sweep(folder: Path, done: Sweep) -> None:
    """Lay the artifacts of a sweep out under their public names."""
    (folder / "sweep.json").write_text(done.to_json() + "\n", encoding="utf-8")
    (folder / "sweep.md").write_text(done.to_markdown(), encoding="utf-8")
    done.trials.to_csv(folder / "trials.csv", index=False)
    shown = dots(done)
    (folder / "pareto.html").write_text(sweep_page(done.to_dict(), shown), encoding="utf-8")
    save_figures(sweep_figures(shown, done.operating, title=f"Sweep on {done.suite}"), folder / "figures")
