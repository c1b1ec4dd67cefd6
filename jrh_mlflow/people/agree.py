"""`jrh.agree`: how well a judge agrees with people, and people with one another, as an MLflow run of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.agreement import ACCURACY, CEILING, AgreementReport, measure_agreement
from jrh_mlflow.people.agreement_view import (
    LINK,
    agreement_card,
    agreement_figures,
    agreement_headline,
    agreement_page,
    agreement_points,
    agreement_sentences,
    agreement_tables,
    headline_agreement,
)
from jrh_mlflow.people.labels import (
    CODE,
    JUDGE,
    LabelOptions,
    LabelTable,
    calibration_labels,
    chosen_by_people,
    fact_texts,
    labels_of,
)
from jrh_mlflow.people.labels.queues import put_in_queue
from jrh_mlflow.people.people_verdicts import agreement_verdict
from jrh_mlflow.people.ratings import IS_JUDGE, GivenScale, read_ratings
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import plotted, png
from jrh_mlflow.show.figures.svg import draw, figure_files
from jrh_mlflow.show.numbers import reading_text
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.show.plain_text import plain
from jrh_mlflow.show.readings import brief_readings, readings_frame
from jrh_mlflow.show.tables import frame_rows
from jrh_mlflow.suites.spreadsheets import report_frame
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, open_run, publish
from jrh_mlflow.tracking.traces.traces_in import PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure

_LONGEST_PARAM = 500
_CAPTIONS = {
    "ceiling.png": "Judge and people, each against the label of the other people, with 95 % intervals over items",
    "confusion.png": "Labels of the people (rows) and of the judge (columns)",
}


@dataclass(frozen=True, kw_only=True)
class Agreement(ShownResult):
    """How well a judge and people agree, and where it is logged."""

    report: AgreementReport
    source: LabelTable
    """What was said, under the one name that is reported."""
    options: Mapping[str, object] = field(default_factory=dict)
    """What else was chosen: params of the run."""
    seed: int = 0
    run_id: str | None = None
    """None when it was not logged."""
    link: str | None = None
    """Where the run can be looked at."""

    @property
    def title(self) -> str:
        """Names the judge and how many people there are."""
        n, judge = len(self.report.people_names), self.report.judge
        people = "1 person" if n == 1 else f"{n} people"
        return f"Agreement of {people}" if judge is None else plain(f"Agreement of {judge} with {people}")

    @property
    def verdict(self) -> Verdict:
        """How well judge and people agree, whether as well as people do, and what to do, in plain words."""
        return agreement_verdict(self.report, source=self.source.shown, is_logged=self.run_id is not None)

    @property
    def estimates(self) -> Mapping[str, Reading]:
        """Axis to its number with n and interval, or why there is none."""
        return self.report.estimates

    @property
    def groups(self) -> Mapping[str, Mapping[str, Reading]]:
        """Group to its estimates."""
        return self.report.groups

    @property
    def confusion(self) -> pd.DataFrame:
        """Items by the label of the people (rows) and of the judge (columns)."""
        return self.report.confusion

    @property
    def people(self) -> pd.DataFrame:
        """One row per person: how well they agree with the others, and their alternative annotator test."""
        return self.report.people

    @cached_property
    def disagreements(self) -> pd.DataFrame:
        """Items on which the judge and the people differ, the worst first, with a `link` where one is known."""
        table: pd.DataFrame = self.report.disagreements.copy()
        if links := self.source.links:
            table[LINK] = [links.get(item) for item in table["item"]]
        return table

    @cached_property
    def calibration(self) -> pd.DataFrame | None:
        """Items that judge and people labelled as booleans, `judge` and `human`: is it the positive label?

        None without a judge, and where no label is positive: name it with `positive`.
        """
        compared, positive = self.report.compared, self.report.positive
        if positive is None or self.report.judge is None:
            return None
        table: pd.DataFrame = compared[["item"]].copy()
        for name, column in (("judge", "judge"), ("human", "reference")):
            table[name] = compared[column] == positive
        for name in ("cluster", "inclusion"):
            cells = self.source.per_item(name)
            if cells:
                table[name] = [cells.get(item) for item in table["item"]]
        return table

    @property
    def label_table(self) -> LabelTable:
        """The calibration as labels, for a correction.

        Raises:
            RecipeError: when there is none.
        """
        if self.calibration is None:
            raise RecipeError("The agreement has no calibration: give agree the judge, and the label that is positive.")
        return calibration_labels(
            self.calibration,
            shown=self.title,
            levels=self.report.levels,
            positive=self.report.positive,
            facts=fact_texts(self.judge),
            simulated=self.source.simulated,
        )

    @property
    def judge(self) -> Mapping[str, Any]:
        """What identifies the judge, as far as it is known: name, source, model, hash of its prompt."""
        return self.source.facts

    @property
    def metrics(self) -> dict[str, float]:
        """Every number by its key."""
        return keys.last_values(self.points)

    @property
    def logged(self) -> dict[str, float]:
        """Those that are metrics of the run: every axis with n and interval, without the groups."""
        return keys.last_values(headline_agreement(self.points, self.estimates))

    @property
    def points(self) -> list[keys.Point]:
        """Every number as a metric."""
        counts = {"items": self.report.counts["items"], "people": len(self.report.people_names)}
        counts["disagreements"] = len(self.report.disagreements)
        return agreement_points(self.estimates, self.groups, counts=counts)

    @property
    def notes(self) -> list[str]:
        """What a reader must know first."""
        return [*self.source.notes, *self.report.notes]

    def to_html(self) -> str:
        """Return the agreement as one self-contained HTML file: no script, no request, every text escaped."""
        return self._page(self._drawings).to_html()

    def _page(self, figures: Sequence[Drawing] = ()) -> Page:
        return agreement_page(
            self.report,
            title=self.title,
            facts=self._facts,
            notes=self.notes,
            disagreements=self.disagreements,
            judge=self.judge,
            figures=figures,
            verdict=self.verdict.sentences,
        )

    @property
    def _facts(self) -> dict[str, str]:
        report = self.report
        levels = ", ".join(report.levels[:12]) + (", …" if len(report.levels) > 12 else "")
        positive = "" if report.positive is None else f"; positive: {report.positive}"
        return {
            "source": self.source.shown,
            "items": f"{report.counts['items']:,} ({report.counts['compared']:,} compared)",
            **({} if report.n_clusters is None else {"clusters": f"{report.n_clusters:,}"}),
            "people": ", ".join(report.people_names[:12]) + (", …" if len(report.people_names) > 12 else ""),
            "labels": f"{levels or 'numbers'} ({report.kind}{positive})",
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "run_id": self.run_id,
            "link": self.link,
            "verdict": self.verdict.to_dict(),
            "headline": agreement_headline(self.report),
            "source": self.source.shown,
            **self.report.to_dict(),
            "judge": dict(self.judge),
            "notes": self.notes,
            "disagreements": frame_rows(self.disagreements),
            "calibration": None if self.calibration is None else frame_rows(self.calibration),
            "metrics": self.metrics,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return one row per axis: its number with n and interval, or why there is none."""
        return readings_frame(self.estimates)

    def plot(self, kind: str | None = None) -> Figure:
        """Draw judge and people against the same references, or the `confusion` matrix."""
        return plotted(agreement_figures(self.report, title=self.title), kind)

    @cached_property
    def _drawings(self) -> list[Drawing]:
        """Of the page and of the run's files."""
        return draw(agreement_figures(self.report, title=self.title), _CAPTIONS)

    @cached_property
    def figures(self) -> dict[str, bytes]:
        """File name to PNG."""
        return {name: png(figure) for name, figure in agreement_figures(self.report, title=self.title).items()}

    def __repr__(self) -> str:
        read = {"accuracy": self.estimates[ACCURACY], "ceiling": self.estimates[CEILING]}
        who = f"{len(self.report.people_names)} people" if self.report.judge is None else brief_name(self.report.judge)
        return f"Agreement({who}: {brief_readings(read)}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        return {
            "profile": agreement_headline(self.report).removesuffix("."),
            "marks": ["simulated"] if self.source.simulated else [],
            "tables": agreement_card(self.report),
            "notes": [*agreement_sentences(self.report), *self.notes],
            "facts": self._facts,
        }


def agree(
    source: object,
    *,
    judge: str | None = None,
    item: str = "item",
    rater: str = "rater",
    label: str = "label",
    scale: GivenScale = None,
    positive: object = None,
    epsilon: float = 0.2,
    log: bool = True,
    name: str | None = None,
    group: str | None = None,
    cluster: str | None = None,
    queue: str | None = None,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    max_traces: int | None = None,
    seed: int = 0,
    tags: Mapping[str, str] | None = None,
) -> Agreement:
    """Measure how well a judge agrees with people, and people with one another; no judge is asked anything.

    Args:
        source: A table in long form with one row per item and rater (a DataFrame, a list of dicts, a .csv, .jsonl,
            .parquet or .xlsx file); `traces:/EXPERIMENT`, trace ids or traces; or an evaluation (`Evaluation`, run id,
            `runs:/<id>`) whose suite carries people's labels: its judge is read on the unperturbed items, by its first
            answer.
        judge: The rater that is the judge; of traces the source id of the judge, or the name of its assessment where
            that is another. None: people alone, or the judge of the traces or of the evaluation.
        item: Column of a table that names the item.
        rater: Column that names who labelled it.
        label: Column with the label.
        scale: Labels from low to high, for ordinal labels; `numeric`, or (lowest, highest), for numbers; None for
            labels without an order, of a suite its own.
        positive: The label that sensitivity, specificity and `calibration` are about; true and yes by default, of a
            suite with two labels the last.
        epsilon: Of the alternative annotator test: by how much the judge may fit the others less often than a person
            and still replace them.
        log: Log the agreement as a run of its own, kind `agree`.
        name: Of traces: the assessment that people and judge gave; None takes the only one.
        group: Column, tag of the traces or field of the items' meta that agreement is also read by.
        cluster: Column, tag of the traces or field of the items' meta that says what was sampled together, such as the
            conversation: intervals and tests are then by cluster, and below 10 clusters there are none. None takes the
            column `cluster`, the session of traces, the source of a suite's items.
        queue: Of traces: an MLflow review queue that gets those on which judge and people differ.
        experiment: MLflow experiment of the run; that of the traces or of the evaluation when None.
        run_name: Name of the run.
        tracking_uri: MLflow store of traces, evaluation and run; the active one when None.
        max_traces: Of an experiment, the newest so many.
        seed: Of the resampling.
        tags: More tags for the run.

    Raises:
        RecipeError: in one line, for labels that cannot be used.
        TrackingError: when MLflow cannot be reached.
    """
    options = LabelOptions(
        item=item,
        rater=rater,
        label=label,
        judge=judge,
        group=group,
        cluster=cluster,
        max_traces=max_traces,
        tracking_uri=tracking_uri,
    )
    labels = chosen_by_people(labels_of(source, options), name=name, judge=judge)
    params: dict[str, object] = {"name": labels.name, "run": labels.run_id, "group": group, "cluster": cluster}
    params |= {"queue": queue, "max_traces": max_traces}
    if not labels.of_traces:
        _refuse_trace_options({"name": name, "max_traces": max_traces, "queue": queue})
    scale = labels.scale if scale is None else scale
    ratings = read_ratings(
        labels.frame.assign(**{IS_JUDGE: labels.frame["kind"].isin((JUDGE, CODE))}),
        judge=labels.judge,
        scale=scale,
        group="group" if "group" in labels.frame else None,
        cluster="cluster",
        called=labels.called,
    )
    # Labels of several pairs are read as true and false, and then the suite's own word is none of them.
    if positive is None and labels.positive in ratings.levels:
        positive = labels.positive
    # Of a plain table the name is all that is known of the judge.
    if ratings.judge is not None and not labels.facts:
        labels = replace(labels, facts={"name": ratings.judge})
    report = measure_agreement(ratings, positive=positive, epsilon=epsilon, seed=seed)
    if queue is not None:
        # A scale of any number has no labels that a queue could offer.
        offered = None if isinstance(scale, str) else scale
        queued = put_in_queue(labels, report.disagreements["item"], queue, offered=offered)
        labels = replace(labels, notes=[*labels.notes, queued])
    done = Agreement(report=report, source=labels, options=params, seed=seed)
    if not log:
        return done
    store = _store(labels, experiment)
    with open_run(store, "agree", run_name or done.title, simulated=labels.simulated, tags=tags) as run_id:
        done = replace(done, run_id=run_id, link=store.link(run_id))
        publish(store, run_id, agreement_content(done), what_now="What was read is as it was.")
    return done


def _refuse_trace_options(options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value is not None:
            raise RecipeError(f"`{option}` is about traces: give it with `{PREFIX}EXPERIMENT`, trace ids or traces.")


def _store(labels: LabelTable, experiment: str | None) -> Store:
    """Open the store for a run about the labels: in their own experiment, unless another is named."""
    if experiment or labels.experiment or labels.experiment_id is None:
        return Store(labels.tracking_uri, experiment or labels.experiment)
    # A run about the traces of an application leaves what their experiment opens on.
    return Store(labels.tracking_uri, experiment_id=labels.experiment_id, saves_view=False)


def agreement_content(done: Agreement) -> RunContent:
    """Return what the run of an agreement holds."""
    report, markdown = done.report, done.to_markdown()
    own = {
        **done.options,
        "source": done.source.shown,
        "people": ", ".join(report.people_names)[:_LONGEST_PARAM],
        "labels": ", ".join(report.levels)[:_LONGEST_PARAM],
        "kind": report.kind,
        "positive": report.positive,
        "epsilon": report.epsilon,
        "seed": done.seed,
    }
    tables = agreement_tables(report, disagreements=done.disagreements, calibration=done.calibration)
    return RunContent(
        points=headline_agreement(done.points, report.estimates),
        params={"agree": own, "judge": done.judge, **done.source.params},
        description=markdown,
        described_in=keys.AGREEMENT_MARKDOWN,
        tags=_tags(done),
        artifacts={
            keys.AGREEMENT_JSON: done.to_dict(),
            keys.AGREEMENT_MARKDOWN: markdown,
            keys.AGREEMENT_PAGE: done.to_html(),
            keys.PAGE_JSON: done._page(done._drawings).to_dict(),
            # Labels and names come from anywhere: none of them is to run as a formula.
            **{f"{keys.TABLES_FOLDER}/{name}.csv": report_frame(frame) for name, frame in tables.items()},
            **figure_files(done._drawings),
        },
    )


def _tags(done: Agreement) -> dict[str, str]:
    """Return the headline in words, and each reading as `jrh.<axis>`: a column of runs shows it with its interval."""
    readings = {axis: reading for axis, reading in done.estimates.items() if isinstance(reading, Estimate)}
    shown = {keys.own_key(axis): reading_text(reading) for axis, reading in readings.items()}
    return {keys.TAG_PROFILE: agreement_headline(done.report), **shown}
