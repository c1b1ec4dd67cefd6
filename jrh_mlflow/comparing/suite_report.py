"""`jrh.report`: logged evaluations on several suites side by side, as an MLflow run of its own and with no new call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing import across_suites_view as view
from jrh_mlflow.comparing.across_suites import AcrossSuites, AnsweredSuite, across_suites
from jrh_mlflow.comparing.compare import MadeOfRuns, judges_named, load_together, log_made, made_content
from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import PROTOCOL
from jrh_mlflow.show.cards import brief_run
from jrh_mlflow.show.page import Page
from jrh_mlflow.show.results import check_definitions
from jrh_mlflow.tracking.runs.read import LoggedRun, run_id_of, run_notes
from jrh_mlflow.tracking.runs.store import RunContent, Store

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class SuiteReport(MadeOfRuns):
    """Several suites side by side, the runs they are made of, and where that is logged."""

    found: AcrossSuites
    places: Mapping[tuple[str, str], str]
    """Suite and judge to the id of their run."""
    notes: tuple[str, ...]
    """What a reader must know first."""

    @cached_property
    def verdict(self) -> Verdict:
        """Who is right most often and who is not told apart, the hardest test, dollars, the best trio."""
        return view.report_verdict(self.found)

    @property
    def title(self) -> str:
        """How many judges and suites."""
        return f"Report of {_counted(self.found.judges, 'judge')} on {_counted(self.found.suites, 'suite')}"

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return {point.key: point.value for point in view.report_points(self.found)}

    def _page(self, **served: Any) -> Page:
        return view.report_page(self.found, self.verdict, title=self.title, notes=self.notes, **served)

    def __repr__(self) -> str:
        suites = ", ".join(suite.name for suite in self.found.suites)
        return f"SuiteReport({_counted(self.found.judges, 'judge')} on {suites}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        facts = {"suites": ", ".join(f"{suite.name} ({suite.n_items:,} items)" for suite in self.found.suites)}
        facts["definitions"] = self.found.definitions
        tables = [view.accuracy_table(self.found), view.tests_table(self.found), view.price_table(self.found)]
        return {"tables": tables, "facts": facts}

    def to_frame(self) -> pd.DataFrame:
        """Return one row per suite, judge and axis; suite `Overall` is the mean over suites."""
        return view.report_tables(self.found)["readings"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        sources = {"run_id": self.run_id, "link": self.link, "runs": [run.facts for run in self.runs]}
        return {"verdict": self.verdict.to_dict(), **sources, **self.found.to_dict()}


def _counted(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


def report(
    runs: Collection[str | Evaluation],
    *,
    definitions: str = PROTOCOL,
    reference: str | Evaluation | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    log: bool = True,
    tags: Mapping[str, str] | None = None,
) -> SuiteReport:
    """Put logged evaluations on several suites side by side; no judge is asked anything.

    Suites × judges, tests × suites, dollars per accuracy point, trios of judges with their false positives and
    negatives. Calls are never pooled over suites; the row Overall is the mean over suites, each weighs the same.

    Args:
        runs: Two or more evaluations, run ids, `runs:/<id>`, or unique beginnings of ids, of any suites. A judge is the
            same on two suites where it has the same name.
        definitions: `"paper"` reads all runs to the letter of the Harness paper: stability by accuracy and not by
            unanimity, dollars of the calls on tests alone, Overall dollars as the mean over suites. The calls are
            measured anew either way, whatever definitions a run was logged with.
        reference: A judge, by its name or one of its runs, whose accuracy is the ceiling: how far the others lie below.
        experiment: MLflow experiment of the report; that of the first run when None.
        run_name: Name of the run.
        tracking_uri: As for `compare`.
        seed: Of halves and resampling.
        log: Log the report as a run of its own, kind `report`.
        tags: More tags for the run.

    Raises:
        RecipeError: when a run or a name cannot be used, or two runs are the same judge on the same suite.
        TrackingError: when MLflow cannot be reached.
    """
    check_definitions(definitions)
    loaded, tracking_uri = load_together(runs, "A report", tracking_uri=tracking_uri, log=log, one_suite=False)
    loaded = _named(loaded)
    names = _suite_names(loaded)
    ceiling = None if reference is None else _reference(reference, loaded)
    done = SuiteReport(
        found=across_suites(_by_suite(loaded), definitions=definitions, reference=ceiling, seed=seed),
        runs=tuple(loaded),
        places={(names[run.suite.sha256], run.judge): run.run_id for run in loaded},
        notes=tuple(_notes(loaded)),
    )
    if not log:
        return done
    content = partial(report_content, seed=seed)
    store = Store(tracking_uri, experiment or loaded[0].experiment)
    return log_made(done, "report", content, store, name=run_name, tags=tags)


def _named(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Call each judge by its label, the same on every suite; by its fingerprint too where a suite has two of it."""
    counts = Counter((run.suite.sha256, run.own_label) for run in runs)
    shared = {label for (_, label), count in counts.items() if count > 1}

    def name(run: LoggedRun) -> str:
        return f"{run.own_label} {(run.fingerprint or run.run_id)[:8]}" if run.own_label in shared else run.own_label

    return [replace(run, judge=name(run)) for run in runs]


def _notes(runs: Sequence[LoggedRun]) -> list[str]:
    """Say which judges are simulated, which runs lack calls, and whose settings differ between suites."""
    once = {run.judge: replace(run, truncated=None) for run in runs}
    prints: dict[str, set[str]] = {}
    for run in runs:
        prints.setdefault(run.judge, set()).update(filter(None, [run.fingerprint]))
    return [
        *run_notes(list(once.values())),
        *(f"{run.judge} on {run.suite.name} is truncated ({run.truncated})." for run in runs if run.truncated),
        *(
            f"{judge} is not the same judge on all suites: its prompt or a setting differs."
            for judge, own in prints.items()
            if len(own) > 1
        ),
    ]


def _suite_names(runs: Sequence[LoggedRun]) -> dict[str, str]:
    """Name suites by hash; those of one name have the beginning of their hash added."""
    names = {run.suite.sha256: run.suite.name for run in runs}
    counts = Counter(names.values())
    return {sha256: name if counts[name] == 1 else f"{name} {sha256[:8]}" for sha256, name in names.items()}


def _by_suite(runs: Sequence[LoggedRun]) -> list[AnsweredSuite]:
    suites: dict[str, dict[str, LoggedRun]] = {}
    for run in runs:
        own = suites.setdefault(run.suite.sha256, {})
        if (other := own.get(run.judge)) is not None:
            raise RecipeError(
                f"Runs {other.run_id[:8]} and {run.run_id[:8]} are the same judge ({run.own_label}) on the same suite "
                f"({run.suite.name}). Leave one out."
            )
        own[run.judge] = run
    return [
        AnsweredSuite(
            name=name,
            suite=next(iter(suites[sha256].values())).suite,
            calls={judge: run.calls for judge, run in suites[sha256].items()},
        )
        for sha256, name in _suite_names(runs).items()
    ]


def _reference(given: str | Evaluation, runs: Sequence[LoggedRun]) -> str:
    text = run_id_of(given)
    found = set(judges_named(text, runs))
    if len(found) != 1:
        known = sorted({run.judge for run in runs})
        raise RecipeError(
            f"The reference {text!r} is no judge of the report.{suggest(text, known)} {', '.join(known)}."
        )
    return found.pop()


def report_content(done: SuiteReport, *, seed: int) -> RunContent:
    """Return what the run of a report holds."""
    found = done.found
    settings = {
        "definitions": found.definitions,
        "suites": ", ".join(f"{suite.name} ({suite.sha256[:12]})" for suite in found.suites),
        "reference": found.reference,
        "seed": seed,
    }
    return made_content(
        done,
        "report",
        points=view.report_points(found),
        params={"report": settings},
        page=done._page(runs=done.places),
        tables=view.report_tables(found),
    )
