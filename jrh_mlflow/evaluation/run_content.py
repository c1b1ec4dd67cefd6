"""What the run of an evaluation holds: metrics, params, tags, calls, datasheet, page and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from jrh_mlflow.measures.worst import WorstItem
from jrh_mlflow.reports.datasheet_page import axis_sections, datasheet_page, report_sections
from jrh_mlflow.reports.figures.calibration import calibration_figures
from jrh_mlflow.reports.figures.canvas import Figures, figure_files
from jrh_mlflow.reports.figures.datasheet import datasheet_figures
from jrh_mlflow.reports.figures.reliability import report_figures
from jrh_mlflow.reports.numbers import money_text, threshold_text
from jrh_mlflow.results import Datasheet, ReliabilityReport, usd_per_accuracy_point, worst_items
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.tracking import keys
from jrh_mlflow.tracking.outbox import Measured
from jrh_mlflow.tracking.publish import RunContent
from jrh_mlflow.tracking.traces import log_traces

Sheet = Datasheet | ReliabilityReport

SIMULATED_NOTE = "Simulated judge: a calibration weight with known readings, not a model."


def evaluation_content(measured: Measured, sheet: Sheet) -> RunContent:
    """Return what the run of one judge on one suite holds."""
    judge, suite, notes = measured.judge, measured.suite, _notes(measured)
    title = f"Judge {'datasheet' if isinstance(sheet, Datasheet) else 'reliability'}: {judge.label}"
    spent = keys.call_points(measured.calls, seconds=measured.seconds, cpu_seconds=measured.cpu_seconds)
    prices = _price_points(measured, sheet)
    worst = _worst(measured, sheet)
    note = " ".join(notes) or None
    if isinstance(sheet, Datasheet):
        markdown = sheet.to_markdown(title=title, note=note)
        sections = axis_sections(sheet.estimates)
    else:
        markdown = sheet.to_markdown(title=title, note=note, worst=worst)
        sections = report_sections(sheet.estimates, sheet.scores, sheet.categories)
    described = {"name": judge.name, **judge.settings}
    figures = figure_files(_figures(measured, sheet))
    page = datasheet_page(
        sections,
        title=title,
        profile=sheet.profile,
        estimates=sheet.estimates,
        outcomes=sheet.outcomes,
        max_excluded=sheet.max_excluded,
        facts=_facts(measured, prices),
        judge=described,
        figures={_caption(path): png for path, png in sorted(figures.items())},
        worst=worst,
        notes=notes,
    )
    return RunContent(
        points=[*keys.sheet_points(sheet), *spent, *prices],
        params={"judge": judge.settings, "suite": keys.suite_facts(suite), "run": measured.run},
        description=markdown,
        described_in=keys.DATASHEET_MARKDOWN,
        tags=_tags(measured, sheet),
        artifacts={
            keys.CALLS_FILE: measured.calls,
            keys.PROMPT_FILE: judge.prompt,
            keys.JUDGE_FILE: described,
            keys.DATASHEET_JSON: {"judge": judge.label, "suite_sha256": suite.sha256, **sheet.to_dict()},
            keys.DATASHEET_MARKDOWN: markdown,
            **figures,
            keys.DATASHEET_PAGE: page,
        },
        suite=suite,
        traces=partial(log_traces, measured=measured),
    )


def _tags(measured: Measured, sheet: Sheet) -> dict[str, str]:
    tags = {keys.TAG_PROFILE: sheet.profile, **measured.tags}
    if generated := measured.suite.origin.get("generate_run_id"):
        tags[keys.TAG_GENERATED_BY] = str(generated)
    threshold = sheet.estimates.get("threshold_75")
    if threshold is not None:
        tags[keys.TAG_THRESHOLD] = threshold_text(threshold)
    if measured.truncated:
        tags[keys.TAG_TRUNCATED] = measured.truncated
    if sheet.withheld:
        tags[keys.TAG_WITHHELD] = ", ".join(sheet.withheld)
    return tags


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


def _facts(measured: Measured, prices: Sequence[keys.Point]) -> Mapping[str, str]:
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
    if prices:
        facts["per accuracy point"] = money_text(prices[0].value)
    return facts


def _figures(measured: Measured, sheet: Sheet) -> Figures:
    label = measured.judge.label
    figures = calibration_figures(sheet.estimates, measured.calls, label)
    if isinstance(sheet, Datasheet):
        return {**datasheet_figures({label: sheet.estimates}), **figures}
    return {**report_figures(sheet, measured.calls, label), **figures}


def _caption(path: str) -> str:
    """Name a figure by its file: `figures/criterion_curve.png` is `Criterion curve`."""
    return path.rpartition("/")[2].removesuffix(".png").replace("_", " ").capitalize()


def _notes(measured: Measured) -> list[str]:
    notes = [SIMULATED_NOTE] if measured.judge.simulated else []
    notes += [f"Truncated ({measured.truncated}): measured on what was asked."] if measured.truncated else []
    return notes
