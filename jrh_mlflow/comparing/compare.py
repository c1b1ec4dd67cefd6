"""`jrh.compare`: logged evaluations on one suite or on several, side by side, as an MLflow run of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from jrh_mlflow.comparing import across_suites_view
from jrh_mlflow.comparing import comparison_view as view
from jrh_mlflow.comparing.across_suites import PROMPT_LANGUAGE, AcrossSuites, AnsweredSuite, across_suites
from jrh_mlflow.comparing.comparison import ALPHA, MARGIN, Contrasts, compare_calls
from jrh_mlflow.comparing.recommendation import recommendation
from jrh_mlflow.errors import NoCommonCallsError, RecipeError, suggest
from jrh_mlflow.measures.records import has_steps, is_pointwise, normalise
from jrh_mlflow.measures.reliability import worst_items
from jrh_mlflow.measuring.evaluate import checked_metric
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.schema.items import PAPER, PROTOCOL
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import plotted, png
from jrh_mlflow.show.figures.datasheet import CallsOf, datasheet_figures, no_calls
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Drawing, Page
from jrh_mlflow.show.results import check_definitions, measure
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
class ResultFromRuns(ShownResult):
    """A result made of logged runs, and where it is logged."""

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


Result = TypeVar("Result", bound=ResultFromRuns)


def log_from_runs(done: Result, kind: str, content: Callable[[Result], RunContent], store: Store, **how: Any) -> Result:
    """Log a result as a run of its own: `log_result`, of what is made of runs."""
    simulated = any(run.simulated for run in done.runs)
    what_now = "The runs that it is made of are as they were."
    return log_result(store, done, kind, content, simulated=simulated, what_now=what_now, **how)


def content_from_runs(
    done: ResultFromRuns, name: str, *, params: Mapping[str, Mapping[str, object]], **content: Any
) -> RunContent:
    """Return what its run holds, as `shown_content`; the first group of `params` also names the runs."""
    (group, settings), *others = params.items()
    named = {group: {"runs": ", ".join(run.run_id for run in done.runs), **settings}, **dict(others)}
    return shown_content(done, f"{name}.json", params=named, **content)


@dataclass(frozen=True, kw_only=True)
class Comparison(ResultFromRuns):
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


@dataclass(frozen=True, kw_only=True)
class SuitesComparison(ResultFromRuns):
    """Judges on several suites side by side, the runs that this is made of, and where it is logged."""

    across: AcrossSuites
    contrasts: Mapping[str, Contrasts]
    """Suite to how its judges differ, where it has two or more."""
    run_ids: Mapping[tuple[str, str], str]
    """Suite and judge to the id of their run."""
    notes: tuple[str, ...]
    """What a reader must know first."""

    @cached_property
    def verdict(self) -> Verdict:
        """Who is right most often and who does not differ from it, the hardest test, dollars, the best trio."""
        return across_suites_view.suites_verdict(self.across)

    @property
    def title(self) -> str:
        """How many judges and suites."""
        return f"Comparison of {_counted(self.across.judges, 'judge')} on {_counted(self.across.suites, 'suite')}"

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return {point.key: point.value for point in across_suites_view.suites_points(self.across)}

    def _page(self) -> Page:
        return across_suites_view.suites_page(
            self.across, self.contrasts, self.verdict, title=self.title, notes=self.notes, runs=self.run_ids
        )

    def __repr__(self) -> str:
        suites = ", ".join(suite.name for suite in self.across.suites)
        return f"SuitesComparison({_counted(self.across.judges, 'judge')} on {suites}, {brief_run(self.run_id)})"

    def _card(self) -> dict[str, Any]:
        across = self.across
        suites = ", ".join(f"{suite.name} ({suite.n_items:,} items)" for suite in across.suites)
        tables = [
            across_suites_view.accuracy_table(across),
            across_suites_view.tests_table(across),
            across_suites_view.price_table(across),
        ]
        return {"tables": tables, "facts": {"suites": suites, "definitions": across.definitions}}

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Readings and trios, as the files of the run hold them."""
        return across_suites_view.suites_tables(self.across)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per suite, judge and axis; suite `Overall` is the mean over suites."""
        return self.tables["readings"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        contrasts = {suite: found.to_dict() for suite, found in self.contrasts.items()}
        return {
            "verdict": self.verdict.to_dict(),
            "run_id": self.run_id,
            "link": self.link,
            "runs": [run.facts for run in self.runs],
            **self.across.to_dict(),
            "by_suite": contrasts,
        }


def _counted(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}"


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
    definitions: str = PROTOCOL,
    reference: str | Evaluation | None = None,
) -> Comparison | SuitesComparison:
    """Compare logged evaluations: which judges differ significantly, on which test, by how much. No judge is asked.

    Paired on the calls that every run has, sources as clusters, decisions adjusted by step-down max-T over the deciding
    axes; see `compare_calls`. A run stopped by its budget is compared on what it asked; the comparison says so.

    Of runs on several suites the judges of each suite are compared with each other, and all stand side by side: suites
    × judges, tests × suites, dollars per accuracy point, trios of judges with their false positives and negatives, and
    where suites are in several languages the reading gap by language. Calls are never pooled over suites; the row
    Overall is the mean over suites, each weighs the same.

    Args:
        runs: Two or more evaluations, run ids, `runs:/<id>`, or unique beginnings of ids. A judge is the same on two
            suites where it has the same name.
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
        definitions: `"paper"` reads suites and judges to the letter of the Harness paper: stability by accuracy and not
            by unanimity, dollars of the calls on tests alone, Overall dollars as the mean over suites. The calls are
            measured anew either way, whatever definitions a run was logged with; differences go by the protocol.
        reference: A judge, by its name or one of its runs, whose accuracy is the ceiling: how far the others lie below.

    Returns:
        `Comparison` of runs on one suite; `SuitesComparison` of runs on several, and of one suite too with
        `definitions="paper"` or a `reference`.

    Raises:
        RecipeError: when a run cannot be compared, the runs share neither a suite nor a judge, with what differs, two
            runs are the same judge on the same of several suites, or judges are not compared on a primary axis.
        TrackingError: when MLflow cannot be reached.
    """
    check_definitions(definitions)
    if not 0 < alpha < 0.5 or not margin > 0:
        raise RecipeError(f"`0 < alpha < 0.5` and `margin > 0` must hold, but got {alpha=}, {margin=}.")
    if baseline is not None and isinstance(runs, Collection) and not isinstance(runs, str):
        # The baseline may stand among the runs in another spelling, and must be loaded once.
        runs = runs if any(_is_run(run_id_of(run), baseline) for run in runs) else [*runs, baseline]
    loaded, tracking_uri = load_together(runs, "A comparison", tracking_uri=tracking_uri, log=log, one_suite=False)
    options: dict[str, Any] = {
        "seed": seed,
        "alpha": alpha,
        "margin": margin,
        "primary": [primary] if isinstance(primary, str) else primary,
    }
    is_one_suite = len({run.suite.sha256 for run in loaded}) == 1
    done: Comparison | SuitesComparison
    content: Callable[[Any], RunContent]
    if is_one_suite and reference is None and definitions == PROTOCOL:
        options["baseline"] = None if baseline is None else _judge_meant(baseline, loaded)
        done = _compared(loaded, metric, **options)
        content = partial(comparison_content, seed=seed, metric=_metric_of(loaded, metric))
    else:
        loaded = _named_over_suites(loaded)
        options["baseline"] = None if baseline is None else _judge_meant(baseline, loaded)
        ceiling = None if reference is None else _judge_meant(reference, loaded)
        done = _compared_over_suites(loaded, metric, definitions=definitions, reference=ceiling, **options)
        content = partial(suites_content, seed=seed)
    if not log:
        return done
    store = Store(tracking_uri, experiment or loaded[0].experiment)
    return log_from_runs(done, "compare", content, store, name=run_name, tags=tags)


def _compared(loaded: Sequence[LoggedRun], metric: str | None, **options: Any) -> Comparison:
    """Compare runs on one suite, with the options of `compare_calls`."""
    return Comparison(contrasts=_contrasts(loaded, metric, **options), runs=tuple(loaded))


def _contrasts(loaded: Sequence[LoggedRun], metric: str | None, **options: Any) -> Contrasts:
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
    return contrasts


def _named_over_suites(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Call each judge by its label, the same on every suite; by its fingerprint too where a suite has two of it.

    Raises:
        RecipeError: when the runs share neither a suite nor a judge, or two are the same judge on the same suite.
    """
    suites = {run.suite.sha256 for run in runs}
    judges = {PROMPT_LANGUAGE.sub("", run.own_label) for run in runs}
    if len(suites) == len(runs) and len(judges) == len(runs):
        # Nothing can be compared: say in what the suites differ.
        check_same_suite(runs[0], runs[1])
    counts = Counter((run.suite.sha256, run.own_label) for run in runs)
    repeated = {label for (_, label), count in counts.items() if count > 1}
    named = []
    seen: dict[tuple[str, str], LoggedRun] = {}
    for run in runs:
        name = run.own_label
        if name in repeated:
            name = f"{name} {(run.fingerprint or run.run_id)[:8]}"
        if (other := seen.get((run.suite.sha256, name))) is not None:
            raise RecipeError(
                f"Runs {other.run_id[:8]} and {run.run_id[:8]} are the same judge ({run.own_label}) on the same suite "
                f"({run.suite.name}). Leave one out."
            )
        seen[run.suite.sha256, name] = run
        named.append(replace(run, judge=name))
    return named


def _compared_over_suites(
    runs: Sequence[LoggedRun],
    metric: str | None,
    *,
    definitions: str,
    reference: str | None,
    baseline: str | None,
    seed: int,
    **options: Any,
) -> SuitesComparison:
    """Put runs on several suites side by side, and compare the judges of each suite."""
    names = _suite_names(runs)
    by_suite: dict[str, list[LoggedRun]] = {}
    for run in runs:
        by_suite.setdefault(names[run.suite.sha256], []).append(run)
    suites = [
        AnsweredSuite(name=name, suite=members[0].suite, calls={run.judge: run.calls for run in members})
        for name, members in by_suite.items()
    ]
    contrasts = {}
    for name, members in by_suite.items():
        if len(members) > 1:
            against = baseline if any(run.judge == baseline for run in members) else None
            # The exploratory axes are read too, but not tested: pages show them by suite.
            contrasts[name] = _contrasts(members, metric, seed=seed, baseline=against, exploratory=False, **options)
    notes = _suite_notes(runs)
    for name, found in contrasts.items():
        notes += [f"{name}: {note}" for note in found.notes]
    return SuitesComparison(
        across=across_suites(suites, definitions=definitions, reference=reference, seed=seed),
        contrasts=contrasts,
        runs=tuple(runs),
        run_ids={(names[run.suite.sha256], run.judge): run.run_id for run in runs},
        notes=tuple(notes),
    )


def _suite_names(runs: Sequence[LoggedRun]) -> dict[str, str]:
    """Name suites by hash; those of one name have the beginning of their hash added."""
    names = {run.suite.sha256: run.suite.name for run in runs}
    counts = Counter(names.values())
    return {sha256: name if counts[name] == 1 else f"{name} {sha256[:8]}" for sha256, name in names.items()}


def _suite_notes(runs: Sequence[LoggedRun]) -> list[str]:
    """Say which judges are simulated, which runs lack calls, and whose settings differ between suites."""
    by_judge = {run.judge: replace(run, truncated=None) for run in runs}
    notes = run_notes(list(by_judge.values()))
    notes += [f"{run.judge} on {run.suite.name} is truncated ({run.truncated})." for run in runs if run.truncated]
    for judge in by_judge:
        fingerprints = {run.fingerprint for run in runs if run.judge == judge and run.fingerprint}
        if len(fingerprints) > 1:
            notes.append(f"{judge} is not the same judge on all suites: its prompt or a setting differs.")
    return notes


def _judge_meant(text: str | Evaluation, runs: Sequence[LoggedRun]) -> str:
    """Return the judge that is meant: by its name here, by its own, or by one of its runs."""
    wanted = run_id_of(text)
    found = {run.judge for run in runs if wanted in (run.judge, run.own_label) or _is_run(run.run_id, wanted)}
    if len(found) != 1:
        known = sorted({run.judge for run in runs})
        raise RecipeError(
            f"{wanted!r} is no judge of this comparison.{suggest(wanted, known)} There are {', '.join(known)}."
        )
    return found.pop()


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
    return content_from_runs(
        done,
        "comparison",
        points=view.comparison_points(contrasts),
        params={"compare": settings, "suite": keys.suite_facts(done.runs[0].suite)},
        page=done._page(),
        tables=done.tables,
        drawings=done._drawings,
        more={keys.COMPARISON_PAGE: done.to_html()},
    )


def suites_content(done: SuitesComparison, *, seed: int) -> RunContent:
    """Return what the run of a comparison over several suites holds."""
    across = done.across
    settings = {
        "seed": seed,
        "definitions": across.definitions,
        "suites": ", ".join(f"{suite.name} ({suite.sha256[:12]})" for suite in across.suites),
        "reference": across.reference,
    }
    return content_from_runs(
        done,
        "comparison",
        points=across_suites_view.suites_points(across),
        params={"compare": settings},
        tables=done.tables,
        more={keys.COMPARISON_PAGE: done.to_html()},
    )
