"""The run of kind `gate`, and what the run that was gated says of it: tags, page, datasheet and description."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from jrh_mlflow.decisions.decisions_view import gate_section
from jrh_mlflow.decisions.gate_result import Gate
from jrh_mlflow.decisions.shown_decisions import show_decision
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, active_uri, open_run, publish, reading_client

_MOST_RULES = 5000
"""Characters: MLflow cuts a param at 6,000 without a word."""


def log_gate(gate: Gate, *, tracking_uri: str | None = None, saves_view: bool = True) -> Gate:
    """Log a gate as a run of its own beside the run that was gated, and let that one show it, the newest in place.

    Args:
        gate: Of a run.
        tracking_uri: The store of that run; the active one when None.
        saves_view: False leaves what the experiment's pages open on: that of an application's traces.

    Returns:
        The gate with the id of its run and where it can be looked at.

    Raises:
        TrackingError: when MLflow does not take it.
    """
    gated = gate.gated_run
    if gated is None:
        raise ValueError(f"A gate of no run has no place beside one: {gate!r}.")
    uri = tracking_uri or active_uri()
    with reading_client(uri) as client:
        experiment_id = client.get_run(gated).info.experiment_id
    store = Store(uri, experiment_id=experiment_id, saves_view=saves_view)
    with open_run(store, "gate", f"gate: {gate.subject}", simulated=gate.simulated) as run_id:
        gate = replace(gate, run_id=run_id, link=store.link(run_id))
        publish(store, run_id, gate_content(gate), what_now="Nothing else was changed.", is_new=True)
    _show(store, gate, gated, run_id)
    return gate


def gate_content(gate: Gate) -> RunContent:
    """Return what a run of kind `gate` holds."""
    rules = "; ".join(check.rule.text for check in gate.results)
    params = {
        "rules": rules if len(rules) <= _MOST_RULES else f"{len(gate.results)} rules, in {keys.GATE_JSON}",
        "run": gate.gated_run,
        "baseline": gate.baseline_run,
        "undecided": gate.undecided,
    }
    return RunContent(
        points=keys.gate_points([check.state for check in gate.results], passed=gate.passed),
        params={"gate": params},
        description=gate.to_markdown(),
        described_in=keys.GATE_MARKDOWN,
        artifacts={keys.GATE_JSON: gate.to_dict(), keys.GATE_MARKDOWN: gate.to_markdown()},
    )


def _show(store: Store, gate: Gate, gated: str, run_id: str) -> None:
    what_now = f"The gate is logged as run {run_id}; the run that was gated does not show it."
    tags = {keys.TAG_GATE: gate.reason, keys.TAG_GATE_RUN: run_id}
    with store.errors(what_now):
        store.log_batch(gated, tags=tags)
    checks = [check.to_dict() for check in gate.results]
    now = datetime.now(timezone.utc).timestamp() * 1000
    section = gate_section(gate.reason, checks, notes=gate.notes, ended_ms=now, link=gate.link or "")
    show_decision(store, gated, section, what_now=what_now)
