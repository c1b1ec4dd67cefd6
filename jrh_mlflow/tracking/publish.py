"""Finished evaluations as MLflow runs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from jrh_mlflow.measures.reliability.worst import WorstItem
from jrh_mlflow.reports.comparison import money_text
from jrh_mlflow.reports.datasheet_page import datasheet_page
from jrh_mlflow.reports.figures.calibration import calibration_figures
from jrh_mlflow.reports.figures.canvas import Figures, save_figures
from jrh_mlflow.reports.figures.datasheet import datasheet_figures
from jrh_mlflow.reports.figures.reliability import report_figures
from jrh_mlflow.reports.numbers import threshold_text
from jrh_mlflow.results import Datasheet, ReliabilityReport, usd_per_accuracy_point, worst_items
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.outbox import Measured
from jrh_mlflow.tracking.store import Store, note_tag
from jrh_mlflow.tracking.traces import log_traces

Sheet = Datasheet | ReliabilityReport

SIMULATED_NOTE = "Simulated judge: a calibration weight with known readings, not a model."


def first_tags(kind: str, *, simulated: bool, tags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Tags a run carries from its creation on."""
    return {
        **(tags or {}),
        keys.TAG_KIND: kind,
        keys.TAG_SCHEMA_VERSION: keys.SCHEMA_VERSION,
        keys.TAG_VERSION: version("jrh-mlflow"),
        keys.TAG_SIMULATED: str(simulated).lower(),
    }


def log_evaluation(store: Store, run_id: str, measured: Measured, sheet: Sheet) -> dict[str, float]:
    """Log one judge on one suite and return the metrics as MLflow shows them."""
    spent = keys.call_points(measured.calls, seconds=measured.seconds, cpu_seconds=measured.cpu_seconds)
    points = [*keys.sheet_points(sheet), *spent]
    points += _price_points(measured, sheet)
    worst = _worst(measured, sheet)
    markdown = sheet_markdown(measured, sheet, worst)
    suite = measured.suite
    params = keys.params(
        judge=measured.judge.settings,
        suite={"name": suite.name, "sha256": suite.sha256, "n_items": len(suite)},
        run=measured.run,
    )
    tags = {keys.TAG_PROFILE: sheet.profile, **measured.tags, **note_tag(markdown)}
    if generated := measured.suite.origin.get("generate_run_id"):
        tags[keys.TAG_GENERATED_BY] = str(generated)
    threshold = sheet.estimates.get("threshold_75")
    if threshold is not None:
        tags[keys.TAG_THRESHOLD] = threshold_text(threshold)
    if measured.truncated:
        tags[keys.TAG_TRUNCATED] = measured.truncated
    if sheet.withheld:
        tags[keys.TAG_WITHHELD] = ", ".join(sheet.withheld)
    with tempfile.TemporaryDirectory(prefix="jrh-") as folder:
        write_artifacts(Path(folder), measured, sheet, markdown, worst)
        store.log(run_id, points=points, params=params, tags=tags, artifacts=Path(folder), suite=suite)
    # Last: traces are a view of the calls, and a run must not lack its numbers because of one.
    log_traces(store, run_id, measured)
    return keys.last_values(points)


def sheet_markdown(measured: Measured, sheet: Sheet, worst: Sequence[WorstItem] = ()) -> str:
    """Return the datasheet, or the report with its worst items, as a readable page."""
    note, label = _note(measured), measured.judge.label
    if isinstance(sheet, Datasheet):
        return sheet.to_markdown(title=f"Judge datasheet: {label}", note=note)
    return sheet.to_markdown(title=f"Judge reliability: {label}", note=note, worst=worst)


def _worst(measured: Measured, sheet: Sheet) -> Sequence[WorstItem]:
    if isinstance(sheet, Datasheet):
        return ()
    return worst_items(measured.calls, {item.id: item for item in measured.suite.items})


def _price_points(measured: Measured, sheet: Sheet) -> list[keys.Point]:
    """What a point of accuracy costs, where both are known."""
    if isinstance(sheet, Datasheet):
        return []
    accuracy, cost = sheet.estimates.get("all/accuracy"), keys.known_total(measured.calls, "cost_usd")
    if cost is None or not isinstance(accuracy, Estimate):
        return []
    return keys.price_points(usd_per_accuracy_point(cost, accuracy.value))


def write_artifacts(
    folder: Path, measured: Measured, sheet: Sheet, markdown: str, worst: Sequence[WorstItem] = ()
) -> None:
    """Lay a run's artifacts out under their public names."""
    for name in ("calls", "judge"):
        (folder / name).mkdir()
    measured.suite.save(folder / "suite")
    measured.calls.to_parquet(folder / "calls" / "calls.parquet", index=False)
    (folder / "judge" / "prompt.txt").write_text(measured.judge.prompt, encoding="utf-8")
    judge = json.dumps({"name": measured.judge.name, **measured.judge.settings}, indent=1, ensure_ascii=False)
    (folder / "judge" / "judge.json").write_text(judge + "\n", encoding="utf-8")
    facts = {"judge": measured.judge.label, "suite_sha256": measured.suite.sha256, **sheet.to_dict()}
    (folder / "datasheet.json").write_text(
        json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )
    (folder / "datasheet.md").write_text(markdown, encoding="utf-8")
    save_figures(_figures(measured, sheet), folder / "figures")
    (folder / "datasheet.html").write_text(_page(measured, sheet, folder / "figures", worst), encoding="utf-8")


def _page(measured: Measured, sheet: Sheet, figures: Path, worst: Sequence[WorstItem]) -> str:
    """Return the datasheet as one HTML file, with the figures that were just saved inside."""
    kind = "datasheet" if isinstance(sheet, Datasheet) else "reliability"
    return datasheet_page(
        sheet,
        title=f"Judge {kind}: {measured.judge.label}",
        facts=_facts(measured, sheet),
        judge={"name": measured.judge.name, **measured.judge.settings},
        figures={file.stem.replace("_", " ").capitalize(): file.read_bytes() for file in sorted(figures.glob("*.png"))},
        worst=worst,
        notes=_notes(measured),
    )


def _facts(measured: Measured, sheet: Sheet) -> dict[str, str]:
    """Return suite, calls, cost and time as the page shows them; unknown is never 0."""
    suite, calls = measured.suite, measured.calls
    cost = keys.known_total(calls, "cost_usd")
    facts = {
        "suite": f"{suite.name} ({len(suite):,} items)",
        "sha256": suite.sha256[:16],
        "calls": f"{len(calls):,}",
        "cost": money_text(cost),
        "time": f"{measured.seconds:,.1f} s",
    }
    if cost:
        facts["per 1,000 calls"] = money_text(1000 * cost / len(calls))
    points = _price_points(measured, sheet)
    return facts | ({"per accuracy point": money_text(points[0].value)} if points else {})


def _figures(measured: Measured, sheet: Sheet) -> Figures:
    label = measured.judge.label
    figures = calibration_figures(sheet, measured.calls, label)
    if isinstance(sheet, Datasheet):
        return {**datasheet_figures({label: sheet}), **figures}
    return {**report_figures(sheet, measured.calls, label), **figures}


def _note(measured: Measured) -> str | None:
    return " ".join(_notes(measured)) or None


def _notes(measured: Measured) -> list[str]:
    notes = [SIMULATED_NOTE] if measured.judge.simulated else []
    notes += [f"Truncated ({measured.truncated}): measured on what was asked."] if measured.truncated else []
    return notes
