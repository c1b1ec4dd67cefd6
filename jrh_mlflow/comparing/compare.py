"""`jrh.compare`: logged evaluations on the same suite, side by side, as an MLflow run of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from jrh_mlflow.comparing import comparison_view as view
from jrh_mlflow.comparing.comparison import ALPHA, MARGIN, Contrasts, compare_calls
from jrh_mlflow.comparing.recommendation import recommendation
from jrh_mlflow.errors import NoCommonCallsError, RecipeError
from jrh_mlflow.measures.records import has_steps, is_pointwise, normalise
from jrh_mlflow.measures.reliability import worst_items
from jrh_mlflow.measuring.evaluate import checked_metric
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import PAPER
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import plotted, png
from jrh_mlflow.show.figures.datasheet import CallsOf, datasheet_figures, no_calls
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.show.results import measure
from jrh_mlflow.show.tables import frame_rows
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import LoggedRun, check_same_suite, ended, load_runs, run_id_of, run_notes
from jrh_mlflow.tracking.runs.store import RunContent, Store, log_result, shown_content
from jrh_mlflow.tracking.runs.view import shown_uri

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure

_MOST_WORST = 10
_MOST_PAGES = 16
_PAGES: dict[tuple[str, tuple[str, ...], tuple[int, ...], str, bool], str] = {}
"""Store, runs, when they ended and where the page lies, to the page: eight judges take seconds to compare."""
_CAPTIONS = {
    "heatmap.png": "Scores of every judge on every test, with 95 % intervals by source and n",
    "dark_current_by_stable.png": "Preferences where nothing is there, and wordings preferred among equals",
    "positional_by_stable.png": "Equals decided by their place, and by their wording",
    "cost_curve.png": "Share of right answers against dollars spent",
}


@dataclass(frozen=True, kw_only=True)
class MadeOfRuns(ShownResult):
    """A result made of logged runs on one suite, and where it is logged."""

    runs: tuple[LoggedRun, ...]

    @property
    def title(self) -> str:
        """Names the suite."""
        return f"{type(self).__name__} of {len(self.runs)} judges on {self.runs[0].suite.name}"

    @property
    def sources(self) -> dict[str, Any]:
        """Plain JSON-ready data: its own run, the suite and the runs it is made of."""
        return {
            "run_id": self.run_id,
            "link": self.link,
            "suite": keys.suite_facts(self.runs[0].suite),
            "runs": [run.facts for run in self.runs],
        }

    @property
    def suite_text(self) -> str:
        """The suite with its size and hash."""
        suite = self.runs[0].suite
        return f"{suite.name} ({len(suite):,} items, sha256 {suite.sha256[:12]})"


Made = TypeVar("Made", bound=MadeOfRuns)


def log_made(done: Made, kind: str, content: Callable[[Made], RunContent], store: Store, **how: Any) -> Made:
    """Log a result as a run of its own: `log_result`, of what is made of runs."""
    simulated = any(run.simulated for run in done.runs)
    what_now = "The runs that it is made of are as they were."
    return log_result(store, done, kind, content, simulated=simulated, what_now=what_now, **how)


def made_content(
    done: MadeOfRuns, name: str, *, params: Mapping[str, Mapping[str, object]], **content: Any
) -> RunContent:
    """Return what its run holds, as `shown_content`; the first group of `params` also names the runs."""
    (group, settings), *others = params.items()
    named = {group: {"runs": ", ".join(run.run_id for run in done.runs), **settings}, **dict(others)}
    return shown_content(done, f"{name}.json", params=named, **content)


@dataclass(frozen=True, kw_only=True)
class Comparison(MadeOfRuns):
    """A comparison, the runs it is made of, and where it is logged."""

    contrasts: Contrasts

    @cached_property
    def verdict(self) -> Verdict:
        """Which judge to use and why, or that nothing tells them apart."""
        return recommendation(self.contrasts, self.runs[0].suite)

    @property
    def notes(self) -> list[str]:
        """What a reader must know first."""
        return [*run_notes(self.runs), *self.contrasts.notes]

    def to_markdown(self) -> str:
        """Return the comparison as a readable page."""
        return self.plain_page.to_markdown()

    @property
    def plain_page(self) -> Page:
        """What Markdown and terminals show of it."""
        notes = run_notes(self.runs)
        return view.comparison_page(self.contrasts, title=self.title, verdict=self.verdict, notes=notes)

    def to_html(self, *, addresses: Addresses | None = None) -> str:
        """Return the comparison as one self-contained HTML file: no script, no request, every text escaped.

        Args:
            addresses: Of the pages that are served beside it: then every number leads to the calls behind it.
        """
        return self._page(addresses).to_html()

    def _page(self, addresses: Addresses | None = None, *, drawn: bool = True) -> Page:
        suite = self.runs[0].suite
        judges = [
            view.JudgeCard(
                name=run.judge,
                run_id=run.run_id,
                n_calls=len(run.calls),
                truncated=run.truncated,
                experiment_id=run.experiment_id,
            )
            for run in self.runs
        ]
        # A file has no pages beside it, so that its numbers lead nowhere.
        links = view.JudgeLinks(addresses, judges, self.contrasts.n_calls) if addresses else None
        figures: list[Drawing] = []
        if drawn:
            figures = draw(self._figures(calls_of=links.calls), _CAPTIONS) if links else self._drawings
        return view.comparison_page(
            self.contrasts,
            title=self.title,
            suite={"suite": suite.name, "sha256": suite.sha256[:16], "items": f"{len(suite):,}"},
            judges=judges,
            figures=figures,
            worst=self._worst(),
            notes=run_notes(self.runs),
            verdict=self.verdict,
            addresses=addresses,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        own = {"verdict": self.verdict.to_dict(), **self.sources}
        return {**own, **self.contrasts.to_dict(), "differences": frame_rows(self.differences)}

    def __repr__(self) -> str:
        names = ", ".join(brief_name(run.judge) for run in self.runs[:3]) + (", …" if len(self.runs) > 3 else "")
        on = f"on {brief_name(self.runs[0].suite.name)}"
        return f"Comparison({len(self.runs)} judges {on} ({names}): {self.contrasts.told}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        facts = {
            "suite": self.suite_text,
            "calls compared": f"{self.contrasts.n_calls:,} of each judge",
            "cost": ", ".join(f"{name} {money_text(row['usd'])}" for name, row in self.contrasts.costs.items()),
        }
        return {"tables": view.comparison_card(self.contrasts), "notes": self.notes, "facts": facts}

    @property
    def differences(self) -> pd.DataFrame:
        """One row per axis and pair of judges: a minus b, its interval, p-values, and whether it is told apart.

        `a` and `b` are the judges' names, run ids where names repeat.
        """
        return view.differences_table(self.contrasts.differences, names=self._ids).to_frame()

    @property
    def _ids(self) -> dict[str, str]:
        """Run ids by what a judge is called here, of those whose own names repeat."""
        return {run.judge: run.run_id for run in self.runs if run.shares_name}

    def to_frame(self) -> pd.DataFrame:
        """Return the differences."""
        return self.differences

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Scores, differences, summaries and costs, as the files of the run hold them."""
        return view.comparison_tables(self.contrasts, self._ids)

    def plot(self, kind: str | None = None) -> Figure:
        """Draw tests × judges, or another figure by its name: `cost_curve`; of pairs also `psychometric_curve`, …."""
        figures = self._figures()
        if kind is not None and f"{kind}.png" not in figures:
            # Measuring takes seconds, so that it waits until such a figure is asked for.
            sheets = {run.judge: measure(run.calls, labels=run.suite.labels) for run in self.runs}
            figures |= datasheet_figures({name: sheet.estimates for name, sheet in sheets.items()})
        return plotted(figures, kind)

    def _figures(self, *, calls_of: CallsOf = no_calls) -> dict[str, Figure]:
        calls = {run.judge: run.calls for run in self.runs}
        return view.comparison_figures(self.contrasts, calls, title=self.title, calls_of=calls_of)

    @cached_property
    def _drawings(self) -> list[Drawing]:
        """Of the page and of the run's files, which lead nowhere."""
        return draw(self._figures(), _CAPTIONS)

    @cached_property
    def figures(self) -> dict[str, bytes]:
        """Tests × judges, and score against dollars where costs are known: file name to PNG."""
        return {name: png(figure) for name, figure in self._figures().items()}

    def _worst(self) -> dict[str, Any]:
        items = {item.id: item for item in self.runs[0].suite.items}
        calls = normalise(self.runs[0].calls)
        # `worst_items` refuses pairs, and single responses of known level expect no answer.
        if not is_pointwise(calls) or has_steps(calls):
            return {}
        return {run.judge: worst_items(run.calls, items, _MOST_WORST) for run in self.runs}


def compare(
    runs: Collection[str | Evaluation],
    *,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    alpha: float = ALPHA,
    log: bool = True,
    tags: Mapping[str, str] | None = None,
    metric: str | None = None,
    primary: str | Sequence[str] | None = None,
    baseline: str | Evaluation | None = None,
    margin: float = MARGIN,
) -> Comparison:
    """Compare logged evaluations on the same suite: which judges can be told apart, on which test, by how much.

    Paired on the calls that every run has, sources as clusters, decisions adjusted by step-down max-T over the deciding
    axes; see `compare_calls`. A run stopped by its budget is compared on what it asked; the comparison says so.

    Args:
        runs: Two or more evaluations, run ids, `runs:/<id>`, or unique beginnings of ids.
        experiment: MLflow experiment of the comparison; that of the first run when None.
        run_name: Name of the run.
        tracking_uri: MLflow store of run ids and of the comparison; that of the evaluations, else the active one, when
            None. Evaluations are read where they were logged.
        seed: Of all resampling.
        alpha: Chance of any false difference on the deciding axes, and of each false equivalence.
        log: Log the comparison as a run of its own, kind `compare`.
        tags: More tags for the run.
        metric: What labelled reliability tests are compared by, as for `evaluate`; when None, that of the runs where
            they all have one, else accuracy.
        primary: The deciding axes; the others are exploratory. When None, of a datasheet `deciding_axes`, of
            reliability tests all of them and their mean.
        baseline: The run that every other is compared with, named or not among `runs`; each with each when None.
        margin: Judges that are shown to differ by less, either way, are equivalent.

    Raises:
        RecipeError: when a run cannot be compared, the suites are not the same, with what differs, or judges are not
            compared on a primary axis.
        TrackingError: when MLflow cannot be reached.
    """
    if not 0 < alpha < 0.5 or not margin > 0:
        raise RecipeError(f"`0 < alpha < 0.5` and `margin > 0` must hold, but got {alpha=}, {margin=}.")
    if baseline is not None and isinstance(runs, Collection) and not isinstance(runs, str):
        # The baseline may stand among the runs in another spelling, and must be loaded once.
        runs = runs if any(_is_run(run_id_of(run), baseline) for run in runs) else [*runs, baseline]
    loaded, tracking_uri = load_together(runs, "A comparison", tracking_uri=tracking_uri, log=log)
    against = next((run.judge for run in loaded if baseline is not None and _is_run(run.run_id, baseline)), None)
    deciding = [primary] if isinstance(primary, str) else primary
    done = _compared(loaded, metric, seed=seed, alpha=alpha, primary=deciding, baseline=against, margin=margin)
    if not log:
        return done
    content = partial(comparison_content, seed=seed, metric=_metric_of(loaded, metric))
    store = Store(tracking_uri, experiment or loaded[0].experiment)
    return log_made(done, "compare", content, store, name=run_name, tags=tags)


def _compared(loaded: Sequence[LoggedRun], metric: str | None, **options: Any) -> Comparison:
    """Compare runs that were loaded, with the options of `compare_calls`."""
    judges = {run.judge: run.calls for run in loaded}
    try:
        contrasts = compare_calls(judges, labels=loaded[0].suite.labels, metric=_metric_of(loaded, metric), **options)
    except NoCommonCallsError as error:
        # Of two runs that a budget stopped, each may have been asked other items.
        raise RecipeError(_without_common_calls(loaded)) from error
    if metric is None and len(scored_by := {str(run.params.get(keys.PARAM_METRIC, DEFAULT)) for run in loaded}) > 1:
        differ = f"The runs are scored by different metrics ({', '.join(sorted(scored_by))}): compared by {DEFAULT}."
        contrasts = replace(contrasts, notes=(differ, *contrasts.notes))
    if any(run.params.get(keys.PARAM_DEFINITIONS) == PAPER for run in loaded):
        other = "Some runs are read by the paper's definitions: here all are compared by those of the protocol."
        contrasts = replace(contrasts, notes=(other, *contrasts.notes))
    return Comparison(contrasts=contrasts, runs=tuple(loaded))


def served_comparison(runs: Sequence[str], tracking_uri: str, *, addresses: Addresses, whole: bool = True) -> str:
    """Return the page of a comparison that nobody logs, made once and kept while its runs stay as they are.

    Without `whole` it has no figures and no exploratory differences, which take half of the time.

    Raises:
        RecipeError: as `compare`.
        TrackingError: when MLflow cannot be reached.
    """
    # By when they ended: a run that goes on has other calls afterwards.
    key = (tracking_uri, tuple(runs), ended(runs, tracking_uri), addresses.root, whole)
    if key not in _PAGES:
        loaded, _ = load_together(runs, "A comparison", tracking_uri=tracking_uri, log=False)
        done = _compared(loaded, None, exploratory=whole)
        page = done._page(addresses, drawn=whole).to_html()
        if len(_PAGES) >= _MOST_PAGES:
            # A dict keeps the order of insertion: the first page is the oldest.
            _PAGES.pop(next(iter(_PAGES)))
        _PAGES[key] = page
    return _PAGES[key]


def _is_run(run: str, other: str | Evaluation) -> bool:
    """Whether two texts name one run: ids, `runs:/<id>`, beginnings of eight or more digits."""
    first, second = (text.removeprefix("runs:/").strip("/") for text in (run, run_id_of(other)))
    # Shorter beginnings name no run: eight digits are what `load_runs` takes.
    return min(len(first), len(second)) >= 8 and (first.startswith(second) or second.startswith(first))


def judges_named(text: str, runs: Sequence[LoggedRun]) -> list[str]:
    """Return the judges of runs that a text may mean: by name here, by the judge's own, or by the run."""
    return [run.judge for run in runs if text in (run.judge, run.own_label) or _is_run(run.run_id, text)]


def _metric_of(runs: Sequence[LoggedRun], given: str | None) -> str | None:
    """Return the metric that was given, or by which all runs are scored; None for accuracy, and where they differ."""
    if given is not None:
        return checked_metric(given, runs[0].suite)
    metrics = {run.params.get(keys.PARAM_METRIC) for run in runs}
    # Runs that are scored by different metrics have accuracy in common.
    return metrics.pop() if len(metrics) == 1 else None


def load_together(
    runs: Collection[str | Evaluation], what: str, *, tracking_uri: str | None, log: bool, one_suite: bool = True
) -> tuple[list[LoggedRun], str | None]:
    """Load runs on one suite, or on any, and name the store of what is made of them; None is the active one.

    Raises:
        RecipeError: when they are fewer than two, cannot be used, or are on different suites; with `log` also when
            nobody says in which of several stores the result belongs.
    """
    if isinstance(runs, str) or not isinstance(runs, Collection) or len(runs) < 2:
        raise RecipeError(f"{what} needs at least two runs, but got {runs!r}.")
    stores = {run.run_id: run.tracking_uri for run in runs if isinstance(run, Evaluation) and run.tracking_uri}
    if tracking_uri is None and len(set(stores.values())) == 1:
        (tracking_uri,) = set(stores.values())
    elif tracking_uri is None and stores and log:
        places = ", ".join(map(shown_uri, dict.fromkeys(stores.values())))
        raise RecipeError(
            f"The runs are in several stores ({places}). Say with `tracking_uri` which one gets the result."
        )
    loaded = load_runs([run_id_of(run) for run in runs], tracking_uri=tracking_uri, stores=stores, by_run_name=True)
    # Before anything is measured: other suites make every number incomparable.
    for other in loaded[1:] if one_suite else ():
        check_same_suite(loaded[0], other)
    return loaded, tracking_uri


def _without_common_calls(runs: Sequence[LoggedRun]) -> str:
    """Say that there is no call that all runs were asked, and why each was stopped."""
    ended = "; ".join(f"{run.judge}: {run.truncated}" for run in runs if run.truncated)
    return (
        f"The runs are on the same suite, but there is no call that all of them were asked{ended and f' ({ended})'}. "
        f"Evaluate them on the same calls: whole, or with the same rules in `until`."
    )


def comparison_content(done: Comparison, *, seed: int, metric: str | None = None) -> RunContent:
    """Return what the run of a comparison holds."""
    contrasts = done.contrasts
    settings = {
        "seed": seed,
        "alpha": contrasts.alpha,
        "primary": ", ".join(contrasts.primary),
        "margin": contrasts.margin,
        "metric": metric,
        "baseline": next((run.run_id for run in done.runs if run.judge == contrasts.baseline), None),
    }
    return made_content(
        done,
        "comparison",
        points=view.comparison_points(contrasts),
        params={"compare": settings, "suite": keys.suite_facts(done.runs[0].suite)},
        page=done._page(),
        tables=done.tables,
        drawings=done._drawings,
        more={keys.COMPARISON_PAGE: done.to_html()},
    )
