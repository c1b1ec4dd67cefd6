"""Joined by another process, both killed with -9 in the middle: no trial lost, none doubled."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.sweeps.study import Trials, open_study, quiet
from jrh_mlflow.sweeps.sweep import study_name
from tests.processes import Forked
from tests.sweeps.slow_landscape import MODELS, options, space, suite
from tests.sweeps.test_sweep import nested
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent.parent


def start(role: str, storage: str, store_uri: str, file: Path) -> subprocess.Popen[bytes]:
    # Imported, not run as `__main__`: a judge of one's own is known by its module, and the study by its judge.
    code = "from tests.sweeps.slow_landscape import main; main()"
    return Forked(code, role, storage, store_uri, file, cwd=ROOT, stderr=subprocess.DEVNULL)


def asked(file: Path) -> list[tuple[int, str]]:
    """Process and model of every call so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(pid), model) for pid, model in (line.split() for line in lines)]


@pytest.mark.slow
def test_two_processes_share_a_sweep_and_when_both_are_killed_it_goes_on_where_it_was(
    tmp_path: Path, store_uri: str
) -> None:
    storage, file = f"sqlite:///{tmp_path}/study.db", tmp_path / "calls.txt"
    main = start("main", storage, store_uri, file)
    wait_until(lambda: bool(asked(file)))
    worker = start("worker", storage, store_uri, file)
    wait_until(lambda: len({model for pid, model in asked(file) if pid == main.pid}) >= 2)
    wait_until(lambda: worker.pid in dict(asked(file)))
    for process in (main, worker):
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = asked(file)
    own = list(dict.fromkeys(model for pid, model in before if pid == main.pid))
    theirs = {model for pid, model in before if pid == worker.pid}
    assert not theirs & set(own), "a configuration was run by both"
    done = jrh.sweep(space(str(file), slow=0.0), suite(), max_replicates=1, **options(storage, store_uri))
    assert sorted(one.configuration.params["model"] for one in done.members) == sorted(MODELS)
    assert any(one.holdout is not None for one in done.members)
    n_search = sum(2 for item in suite().items if item.task in done.members[0].search.tally.tasks)
    n_before, n_after = (Counter(model for _, model in calls) for calls in (before, asked(file)))
    # What was measured before is not asked again on the searched half; what was interrupted is, from its beginning.
    assert n_before[own[0]] == n_search
    assert n_after[own[0]] <= 2 * len(suite())
    assert n_after[own[-1]] >= n_before[own[-1]] + n_search
    runs = nested(store_uri, done.run_id, "search")
    finished = Counter(run.data.params["choice.model"] for run in runs if run.info.status == "FINISHED")
    assert finished == dict.fromkeys(MODELS, 1)
    others = [run.info.status for run in runs if run.info.status != "FINISHED"]
    assert others
    assert set(others) == {"KILLED"}
    check_trials(storage, space(str(file), slow=0.0))


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_signal_ends_a_sweep_with_no_run_left_open_and_the_same_sweep_goes_on(
    tmp_path: Path, store_uri: str, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, file = f"sqlite:///{tmp_path}/study.db", tmp_path / "calls.txt"
    append, calls = Path.open, itertools.count(1)

    def counted(path: Path, *given: Any, **named: Any) -> Any:
        if path == file and next(calls) == 40:
            os.kill(os.getpid(), number)
        return append(path, *given, **named)

    monkeypatch.setattr(Path, "open", counted)
    # An experiment of its own: other tests of this store begin sweeps that never end.
    experiment = tmp_path.name
    given = {"max_replicates": 1, **options(storage, store_uri), "experiment": experiment}
    with pytest.raises((KeyboardInterrupt, SystemExit)) as raised:
        jrh.sweep(space(str(file), slow=0.01), suite(), **given)
    stopped_at = len(asked(file))
    statuses = statuses_of(store_uri, experiment)
    done = jrh.sweep(space(str(file), slow=0.0), suite(), **given)
    assert getattr(raised.value, "code", None) == (143 if number == signal.SIGTERM else None)
    assert 40 <= stopped_at < 40 + 4
    assert "RUNNING" not in statuses
    assert "KILLED" in statuses
    assert "RUNNING" not in statuses_of(store_uri, experiment)
    assert sorted(one.configuration.params["model"] for one in done.members) == sorted(MODELS)
    check_trials(storage, space(str(file), slow=0.0))


def statuses_of(store_uri: str, experiment: str) -> set[str]:
    client = MlflowClient(store_uri)
    where = [client.get_experiment_by_name(experiment).experiment_id]
    return {run.info.status for run in client.search_runs(where)}


def check_trials(storage: str, own: jrh.Space) -> None:
    """None is lost, doubled or left open."""
    name = study_name(own, suite(), 0)
    with quiet(), open_study(name, storage, ["maximize", "minimize"], create=False) as (study, _):
        trials = Trials(study, own, pair=True, seed=0)
        states = Counter(trial.state.name for trial in trials.all())
        assert states["COMPLETE"] == len(trials.measured()) == len(MODELS)
        assert states["RUNNING"] == states["WAITING"] == 0
