"""`jrh.jury`: logged judges vote together, as an MLflow run of its own and with no new call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from jrh_mlflow.comparing.compare import MadeOfRuns, judges_named, load_together, log_made, made_content
from jrh_mlflow.comparing.jury import jury_view
from jrh_mlflow.comparing.jury.jury_report import JuryReport, jury_report
from jrh_mlflow.comparing.jury.jury_verdict import jury_verdict
from jrh_mlflow.comparing.jury.panels import VotingRule
from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.cards import brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.numbers import reading_text
from jrh_mlflow.show.page import Page
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, run_id_of, run_notes
from jrh_mlflow.tracking.runs.store import RunContent, Store

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure


@dataclass(frozen=True, kw_only=True)
class Jury(MadeOfRuns):
    """A jury, the runs it is made of, and where it is logged."""

    report: JuryReport

    @cached_property
    def verdict(self) -> Verdict:
        """Whether to use the jury or a member alone, and why."""
        calls = {run.judge: run.calls for run in self.runs}
        return jury_verdict(self.report, calls, labels=self.runs[0].suite.labels)

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return {point.key: point.value for point in jury_view.jury_points(self.report)}

    def _page(self, **served: Any) -> Page:
        notes = run_notes(self.runs)
        return jury_view.jury_page(self.report, self.verdict, title=self.title, notes=notes, **served)

    def __repr__(self) -> str:
        read = f"accuracy {reading_text(self.report.readings['accuracy'])}"
        on = f"{len(self.runs)} judges on {brief_name(self.runs[0].suite.name)}"
        votes = f"{reading_text(self.report.effective_votes)} effective votes"
        return f"Jury({on}, {self.report.rule.vote}: {read}, {votes}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        report = self.report
        facts = {
            "vote": f"{report.rule.vote}, ties {report.rule.ties}",
            "units": f"{report.n_units:,}, {report.n_split:,} of them split",
            "effective votes": f"{reading_text(report.effective_votes)} of {len(report.judges)}",
            "suite": self.suite_text,
        }
        return {"tables": jury_view.jury_card(report), "facts": facts}

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis of the jury and of each judge."""
        return jury_view.jury_tables(self.report)["judges"]

    def plot(self, kind: str | None = None) -> Figure:
        """Draw who agrees with whom, or accuracy against `cost`."""
        return plotted(jury_view.jury_figures(self.report, title=self.title), kind)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {"verdict": self.verdict.to_dict(), **self.sources, **self.report.to_dict()}


def jury(
    runs: Collection[str | Evaluation],
    *,
    rule: str = "majority",
    ties: str = "abstain",
    min_votes: int | None = None,
    size: int | None = None,
    max_usd: float | None = None,
    cascade: Sequence[str | Evaluation] | None = None,
    unsure: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    log: bool = True,
    tags: Mapping[str, str] | None = None,
) -> Jury:
    """Let logged judges vote on the suite they were all measured on; no judge is asked anything.

    Reads the accuracy of the jury beside its judges, how alike they vote and how many independent votes that leaves,
    the best panel of a size (chosen on one half of the sources, reported on the other), and a cascade.

    Args:
        runs: Two or more evaluations, run ids, `runs:/<id>`, or unique beginnings of ids. Their order matters for ties
            `first` only.
        rule: `majority`, `weighted` (log-odds of each judge's accuracy, cross-fitted) or `unanimous`.
        ties: What a draw becomes: `abstain` (no decision), `tie` (pairs), `lowest`, `highest`, `median` (ordered
            labels) or `first`.
        min_votes: Fewer votes make a unit unusable; more than half of the panel when None. A best panel of fewer
            judges needs all of its votes.
        size: Of the best panel; three when there are more than three runs.
        max_usd: Dollars per 1,000 judgments that the best panel or the cascade may cost.
        cascade: Runs (as in `runs`) or judges of a cascade, the cheap one or two first, the strong one last.
        unsure: When the cheap judge is unsure: `confidence`, `replicates`, `disagree` (two cheap judges) or `abstain`.
        experiment: MLflow experiment of the jury; that of the first run when None.
        run_name: Name of the run.
        tracking_uri: As for `compare`.
        seed: Of halves and resampling.
        log: Log the jury as a run of its own, kind `jury`.
        tags: More tags for the run.

    Raises:
        RecipeError: when a run or a name cannot be used, the suites are not the same, or no panel costs so little.
        CallsError: when there are too few sources to choose on one half and report on the other.
        TrackingError: when MLflow cannot be reached.
    """
    loaded, tracking_uri = load_together(runs, "A jury", tracking_uri=tracking_uri, log=log)
    report = jury_report(
        {run.judge: run.calls for run in loaded},
        rule=VotingRule(vote=rule, ties=ties, min_votes=min_votes, seed=seed),
        size=size,
        max_usd=max_usd,
        steps=_steps(cascade, loaded),
        unsure=unsure,
        labels=loaded[0].suite.labels,
        seed=seed,
    )
    done = Jury(report=report, runs=tuple(loaded))
    if not log:
        return done
    content = partial(jury_content, settings={"size": size, "max_usd": max_usd, "unsure": unsure, "seed": seed})
    store = Store(tracking_uri, experiment or loaded[0].experiment)
    return log_made(done, "jury", content, store, name=run_name, tags=tags)


def _steps(cascade: Sequence[str | Evaluation] | None, runs: Sequence[LoggedRun]) -> list[str]:
    """Find the judges of a cascade by label, or by run as the user named it."""
    if cascade is None:
        return []
    if isinstance(cascade, str) or len(cascade) not in (2, 3):
        raise RecipeError(f"A cascade is one or two cheap judges and then a strong one, but got {cascade!r}.")
    return [_judge(run_id_of(step), runs) for step in cascade]


def _judge(text: str, runs: Sequence[LoggedRun]) -> str:
    named = judges_named(text, runs)
    if len(named) != 1:
        names = [run.judge for run in runs]
        raise RecipeError(
            f"The cascade names {text!r}, which is none of the runs of the jury.{suggest(text, names)} "
            f"There are {', '.join(f'{run.judge} ({run.run_id[:8]})' for run in runs)}."
        )
    return named[0]


def jury_content(done: Jury, *, settings: Mapping[str, object]) -> RunContent:
    """Return what the run of a jury holds."""
    report, rule = done.report, done.report.rule
    drawings = draw(jury_view.jury_figures(report, title=done.title))
    own = {"rule": rule.vote, "ties": rule.ties, "min_votes": rule.quorum(len(report.judges)), **settings}
    return made_content(
        done,
        "jury",
        points=jury_view.jury_points(report),
        params={"jury": own, "suite": keys.suite_facts(done.runs[0].suite)},
        page=done._page(drawings=drawings, runs={run.judge: run.run_id for run in done.runs}),
        tables=jury_view.jury_tables(report),
        drawings=drawings,
    )
