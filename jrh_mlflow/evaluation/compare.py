"""`jrh.compare`: logged evaluations on the same suite, side by side, as an MLflow run of its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.records import is_pointwise, normalise
from jrh_mlflow.reports.comparison_page import JudgeCard, comparison_page
from jrh_mlflow.reports.figures.reliability import comparison_figures
from jrh_mlflow.results import worst_items
from jrh_mlflow.results.comparison import Contrasts, compare_calls
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.keys import Point
from jrh_mlflow.tracking.publish import first_tags
from jrh_mlflow.tracking.read import LoggedRun, load_runs
from jrh_mlflow.tracking.store import Store, ending, note_tag

_MOST_WORST = 10
_MOST_NOTE = 7800
"""Characters of a run's description: MLflow cuts longer ones without a word."""
_CAPTIONS = {
    "heatmap.png": "Scores of every judge on every test, with 95 % intervals by source and n",
    "cost_curve.png": "Share of right answers against dollars spent",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison, the runs it is made of, and where it is logged."""

    contrasts: Contrasts
    runs: tuple[LoggedRun, ...]
    run_id: str | None
    """None when it was not logged."""
    link: str | None
    """Where the run can be looked at."""

    @property
    def title(self) -> str:
        """Names the suite."""
        return f"Comparison of {len(self.runs)} judges on {self.runs[0].suite.name}"

    def to_markdown(self) -> str:
        """Return the comparison as a readable page."""
        return self.contrasts.to_markdown(title=self.title, note=" ".join(self._notes) or None)

    def to_html(self) -> str:
        """Return the comparison as one self-contained HTML file: no script, no request, every text escaped."""
        suite = self.runs[0].suite
        return comparison_page(
            self.contrasts,
            title=self.title,
            suite={"suite": suite.name, "sha256": suite.sha256, "items": str(len(suite))},
            judges=[
                JudgeCard(name=run.judge, run_id=run.run_id, n_calls=len(run.calls), truncated=run.truncated)
                for run in self.runs
            ],
            figures={_CAPTIONS[name]: png for name, png in self.figures.items()},
            worst=self._worst(),
            notes=self._notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        suite = self.runs[0].suite
        return {
            "run_id": self.run_id,
            "link": self.link,
            "suite": {"name": suite.name, "sha256": suite.sha256, "n_items": len(suite)},
            "runs": [
                {"run_id": run.run_id, "judge": run.judge, "simulated": run.simulated, "truncated": run.truncated}
                for run in self.runs
            ],
            **self.contrasts.to_dict(),
        }

    @cached_property
    def figures(self) -> dict[str, bytes]:
        """Tests × judges, and score against dollars where costs are known: file name to PNG."""
        return comparison_figures(self.contrasts, {run.judge: run.calls for run in self.runs}, title=self.title)

    @property
    def _notes(self) -> list[str]:
        simulated = [run.judge for run in self.runs if run.simulated]
        notes = [f"Simulated judges, not models: {', '.join(simulated)}."] if simulated else []
        return notes + [f"{run.judge} is truncated ({run.truncated})." for run in self.runs if run.truncated]

    def _worst(self) -> dict[str, Any]:
        items = {item.id: item for item in self.runs[0].suite.items}
        if not is_pointwise(normalise(self.runs[0].calls)):
            return {}
        return {run.judge: worst_items(run.calls, items, _MOST_WORST) for run in self.runs}


def compare(
    runs: Sequence[str],
    *,
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    seed: int = 0,
    alpha: float = 0.05,
    log: bool = True,
) -> Comparison:
    """Compare logged evaluations on the same suite: which judges can be told apart, on which test, by how much.

    Paired on the calls that every run has, sources as clusters, decisions adjusted by Holm; see
    `measures.comparison.contrasts`. A run stopped by its budget is compared on what it asked; the comparison says so.

    Args:
        runs: Two or more run ids, `runs:/<id>`, or unique beginnings of ids.
        experiment: MLflow experiment of the comparison; that of the first run when None.
        run_name: Name of the run.
        tracking_uri: MLflow store; the active one when None.
        seed: Of all resampling.
        alpha: Chance of any false difference in a family of decisions.
        log: Log the comparison as a run of its own, kind `compare`.

    Raises:
        RecipeError: when a run cannot be compared, or the suites are not the same, with what differs.
        TrackingError: when MLflow cannot be reached.
    """
    if isinstance(runs, str) or len(runs) < 2:
        raise RecipeError(f"A comparison needs at least two runs, but got {runs!r}.")
    if not 0 < alpha < 1:
        raise RecipeError(f"`0 < alpha < 1` must hold, but got {alpha=}.")
    loaded = load_runs(runs, tracking_uri=tracking_uri)
    for other in loaded[1:]:
        check_same_suite(loaded[0], other)
    contrasts = compare_calls(
        {run.judge: run.calls for run in loaded}, seed=seed, alpha=alpha, labels=loaded[0].suite.labels
    )
    done = Comparison(contrasts=contrasts, runs=tuple(loaded), run_id=None, link=None)
    if not log:
        return done
    store = Store(tracking_uri, experiment or loaded[0].experiment)
    run_id = store.create_run(
        run_name or done.title, tags=first_tags("compare", simulated=any(run.simulated for run in loaded))
    )
    done = Comparison(contrasts=contrasts, runs=tuple(loaded), run_id=run_id, link=store.link(run_id))
    with ending(store, run_id):
        _log(store, run_id, done, params={"compare.seed": str(seed), "compare.alpha": str(alpha)})
    return done


def suite_differences(a: Suite, b: Suite) -> list[str]:
    """Say how two suites differ: names, hashes, conditions and items of one only, changed items."""
    ours, theirs = ({item.id: item for item in suite.items} for suite in (a, b))
    conditions = [{item.condition for item in suite.items} for suite in (a, b)]
    changed = [name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]]
    found = [f"sha256 {a.sha256[:12]}… and {b.sha256[:12]}…"]
    found += [f"names {a.name!r} and {b.name!r}"] if a.name != b.name else []
    found += _only("conditions", "first", conditions[0] - conditions[1])
    found += _only("conditions", "second", conditions[1] - conditions[0])
    found += _only("items", "first", ours.keys() - theirs.keys())
    found += _only("items", "second", theirs.keys() - ours.keys())
    found += [f"{len(changed)} item(s) changed ({_some(changed)})"] if changed else []
    if len(found) == 1:
        found.append("the order of the items")
    return found


def check_same_suite(first: LoggedRun, other: LoggedRun) -> None:
    """Refuse two runs that were not measured on the same items.

    Raises:
        RecipeError: with what differs.
    """
    if first.suite.sha256 == other.suite.sha256:
        return
    differ = "; ".join(suite_differences(first.suite, other.suite))
    raise RecipeError(
        f"Runs {first.run_id[:8]} ({first.judge}) and {other.run_id[:8]} ({other.judge}) are on different suites: "
        f"{differ}. Evaluate both on one suite: `jrh evaluate --suite runs:/{first.run_id}/suite`."
    )


def _only(what: str, which: str, names: set[str]) -> list[str]:
    return [f"{len(names)} {what} in the {which} only ({_some(names)})"] if names else []


def _some(names: set[str] | list[str]) -> str:
    return ", ".join(sorted(names)[:3]) + (", …" if len(names) > 3 else "")


def _log(store: Store, run_id: str, done: Comparison, *, params: Mapping[str, str]) -> None:
    suite, contrasts = done.runs[0].suite, done.contrasts
    points = [
        Point(key="compare/judges", value=len(contrasts.judges)),
        Point(key="compare/n_pairs", value=len(contrasts.differences)),
        Point(key="compare/n_different", value=len(contrasts.different)),
    ]
    own = {
        "compare.runs": ", ".join(run.run_id for run in done.runs),
        "suite.name": suite.name,
        "suite.sha256": suite.sha256,
        "suite.n_items": str(len(suite)),
        **params,
    }
    tags = note_tag(description(done.to_markdown()))
    with (
        tempfile.TemporaryDirectory(prefix="jrh-") as name,
        store.errors("The runs compared are as they were."),
    ):
        folder = Path(name)
        write_comparison(folder, done)
        store.log(run_id, points=points, params=own, tags=tags, artifacts=folder)


def description(markdown: str, *, artifact: str = "comparison.md") -> str:
    """Shorten a long page for the run's description: whole sections where they fit, and a pointer to the rest."""
    if len(markdown) <= _MOST_NOTE:
        return markdown
    room = _MOST_NOTE - 60
    section = markdown.rfind("\n### ", 0, room)
    end = section if section > room // 2 else markdown.rfind("\n", 0, room)
    return f"{markdown[:end]}\n\nThe whole text is in the artifact `{artifact}`.\n"


def write_comparison(folder: Path, done: Comparison) -> None:
    """Lay the artifacts of a comparison out under their public names."""
    facts = json.dumps(done.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / "comparison.json").write_text(facts + "\n", encoding="utf-8")
    (folder / "comparison.md").write_text(done.to_markdown(), encoding="utf-8")
    (folder / "comparison.html").write_text(done.to_html(), encoding="utf-8")
    (folder / "tables").mkdir()
    for name, frame in done.contrasts.tables().items():
        frame.to_csv(folder / "tables" / f"{name}.csv", index=False)
    (folder / "figures").mkdir()
    for name, png in done.figures.items():
        (folder / "figures" / name).write_bytes(png)
