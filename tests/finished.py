"""A store of finished runs of every kind, made once per test run, for tests that only need a run.

`finished` opens it to read; `finished_copy` is a test's own, to write into. Runs are known by the names of `KINDS`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.new_stores import forget_active
from tests.once import once

if TYPE_CHECKING:
    import jrh_mlflow as jrh

EXPERIMENT = "finished"
PAIRS = ("oracle", "first", "noisy", "longer")
"""Judges of pairs, one suite: right always, the first slot always, partly unreadable, whatever is longer."""
GRADERS = ("grader", "lenient")
"""Judges of single responses, one suite of yes and no with two tests: right in 8 of 10, and "yes" always."""
KINDS = (*PAIRS, *GRADERS, "shift", "comparison", "jury", "gate", "agreement", "corrected", "sweep")
_PLACES = {
    "experiments": "artifact_location",
    "runs": "artifact_uri",
    "trace_tags": "value",
}
"""Where MLflow's tables keep the folder of artifacts."""


@dataclass(frozen=True)
class FinishedRuns:
    """A store and the ids of its runs by name."""

    folder: Path

    @property
    def uri(self) -> str:
        """The tracking URI."""
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    @cached_property
    def ids(self) -> Mapping[str, str]:
        """Run ids by name."""
        found: dict[str, str] = json.loads((self.folder / "runs.json").read_text(encoding="utf-8"))
        return found

    def __getitem__(self, name: str) -> str:
        return self.ids[name]


def finished_runs() -> FinishedRuns:
    """Return the store of this test run; nobody may write into it."""
    return FinishedRuns(once("finished", _make))


@contextmanager
def copied_into(folder: Path) -> Iterator[FinishedRuns]:
    """Copy the store, for tests that write."""
    source = finished_runs().folder
    _forget_artifacts()
    shutil.copytree(source, folder)
    with closing(sqlite3.connect(folder / "mlflow.db")) as connection, connection:
        for table, column in _PLACES.items():
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (str(source), str(folder)))
    yield FinishedRuns(folder)
    _forget_artifacts()


def _forget_artifacts() -> None:
    """MLflow remembers the folder of a run by the run's id, which is the same in every copy."""
    from mlflow.tracking._tracking_service import utils

    utils._artifact_repos_cache.clear()


def pair_suite() -> jrh.Suite:
    """The suite of the judges of pairs."""
    import jrh_mlflow as jrh

    return jrh.datasheet_suite(n_tasks=4, depth=1, name="finished pairs")


def graded_suite() -> jrh.Suite:
    """The suite of the graders."""
    import jrh_mlflow as jrh
    from jrh_mlflow.schema.items import Item

    items = [
        Item(
            id=f"s{number}/{test}",
            task=f"s{number}",
            condition=test,
            kind="response",
            instruction="Explain the tides.",
            rubric="Is it right?",
            response=f"{test}: answer number {number}",
            answers=("no", "yes"),
            expected=("no", "yes")[number % 2],
        )
        for number in range(12)
        for test in ("baseline", "typos", "markdown")
    ]
    return jrh.Suite(name="finished grades", items=items)


def longer(shown: jrh.Presentation) -> str:
    """Choose whatever is longer."""
    return "1" if len(shown.first or "") > len(shown.second or "") else "2"


def lenient(shown: jrh.Presentation) -> str:
    """Say yes to everything."""
    return "yes"


def _paid(choice: Mapping[str, Any]) -> Any:
    import jrh_mlflow as jrh

    return lambda _: jrh.Answer(choice["slot"], cost_usd=0.001)


def _make(folder: Path) -> None:
    import pytest

    from tests import drawing

    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("JRH_HOME", str(folder / ".jrh"))
        drawing.draw_nothing(patch.setattr)
        runs = _runs(FinishedRuns(folder).uri, artifacts=folder / "artifacts")
    forget_active()
    (folder / "runs.json").write_text(json.dumps(runs), encoding="utf-8")


def _runs(uri: str, *, artifacts: Path) -> dict[str, str]:
    """Make one run of each kind; return their ids by name."""
    import jrh_mlflow as jrh
    from jrh_mlflow.tracking.runs.store import Store

    assert Store(uri, EXPERIMENT, artifacts=artifacts.as_uri()).experiment_id
    where: dict[str, Any] = {"tracking_uri": uri, "experiment": EXPERIMENT}
    judges = (jrh.scripted.Oracle(), jrh.scripted.AlwaysFirst(), jrh.scripted.Noisy(seed=2, unparsed=0.1), longer)
    graders = (jrh.scripted.Grader(accuracy=0.8, seed=1), lenient)
    pairs, grades = pair_suite(), graded_suite()
    quiet = {**where, "progress": False}
    done = {name: jrh.evaluate(judge, pairs, **quiet) for name, judge in zip(PAIRS, judges, strict=True)}
    done |= {name: jrh.evaluate(judge, grades, **quiet) for name, judge in zip(GRADERS, graders, strict=True)}
    space = jrh.Space(
        choices={"slot": ["1", "2"]}, judge=lambda choice: lambda _: jrh.Answer(choice["slot"], cost_usd=0.001)
    )
    rows = [
        {"item": f"i{number}", "rater": rater, "label": "yes" if (number + of_rater) % 3 else "no"}
        for number in range(24)
        for of_rater, rater in enumerate(("gpt", "Ada", "Ben"))
    ]
    people = jrh.agree(rows, judge="gpt", positive="yes", **where)
    results = {
        **done,
        "shift": jrh.criterion_shift(jrh.scripted.Noisy(seed=3), pairs, **quiet),
        "comparison": jrh.compare([done["oracle"], done["noisy"]], **where),
        "jury": jrh.jury([done[name] for name in PAIRS], **where),
        "gate": jrh.gate(done["oracle"], "positional_false_preference <= 0.5"),
        "agreement": people,
        "corrected": jrh.correct(["yes"] * 30 + ["no"] * 20, people, log=True, **where),
        "sweep": jrh.sweep(space, pairs, n_trials=2, **quiet),
    }
    return {name: result.run_id for name, result in results.items()}
