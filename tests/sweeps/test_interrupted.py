"""Killed with -9 in the middle, joined by another process: no trial lost, none doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import jrh_mlflow as jrh
from jrh_mlflow.sweeps.setup import study_name
from jrh_mlflow.sweeps.storage import open_study, quiet
from jrh_mlflow.sweeps.study import Trials
from tests.sweeps.slow_landscape import MODELS, options, space, suite
from tests.sweeps.test_sweep import nested

ROOT = Path(__file__).parent.parent.parent


def start(role: str, storage: str, store_uri: str, file: Path) -> subprocess.Popen[bytes]:
    # Imported, not run as `__main__`: a judge of one's own is known by its module, and the study by its judge.
    code = "from tests.sweeps.slow_landscape import main; main()"
    command = [sys.executable, "-c", code, role, storage, store_uri, str(file)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def asked(file: Path) -> Counter[str]:
    """Calls by model."""
    return Counter(line.split()[1] for line in file.read_text().splitlines()) if file.exists() else Counter()


def wait_until(file: Path, n_models: int, n_calls: int) -> None:
    """Wait until so many models have been asked, the last of them so often."""
    for _ in range(1200):
        found = asked(file)
        if len(found) > n_models or (len(found) == n_models and list(found.values())[-1] >= n_calls):
            return
        time.sleep(0.05)
    raise AssertionError(f"The sweep did not get that far: {found}.")


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path, store_uri: str) -> None:
    storage, file = f"sqlite:///{tmp_path}/study.db", tmp_path / "calls.txt"
    process = start("main", storage, store_uri, file)
    wait_until(file, 2, 8)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = asked(file)
    done = jrh.sweep(space(str(file), slow=0.0), suite(), max_replicates=1, **options(storage, store_uri))
    finished, interrupted = list(before)
    n_search = sum(2 for item in suite().items if item.task in done.members[0].search.tally.tasks)
    n_held = sum(one.holdout is not None for one in done.members)
    after = asked(file)
    assert sorted(one.configuration.params["model"] for one in done.members) == sorted(MODELS)
    assert before[finished] == n_search
    assert after[interrupted] >= before[interrupted] + n_search
    # What was finished before the kill is not asked again on the searched half.
    assert after[finished] <= n_search + 2 * len(suite()) - n_search
    assert n_held >= 1
    runs = nested(store_uri, done.run_id, "search")
    assert Counter(run.data.params["choice.model"] for run in runs if run.info.status == "FINISHED") == dict.fromkeys(
        MODELS, 1
    )
    assert [run.info.status for run in runs if run.info.status != "FINISHED"] == ["KILLED"]


def test_two_processes_share_a_sweep_and_one_that_is_killed_loses_nothing(tmp_path: Path, store_uri: str) -> None:
    storage, file = f"sqlite:///{tmp_path}/study.db", tmp_path / "calls.txt"
    own = space(str(file), slow=0.0)
    with quiet():
        name = study_name(own, suite(), 0)
    main = start("main", storage, store_uri, file)
    wait_until(file, 1, 1)
    worker = start("worker", storage, store_uri, file)
    for _ in range(1200):
        if f"{worker.pid} " in file.read_text() or worker.poll() is not None:
            break
        time.sleep(0.05)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    assert f"{worker.pid} " in file.read_text(), "the worker had no share in it"
    assert main.wait(timeout=300) == 0
    with quiet(), open_study(name, storage, ["maximize", "minimize"], create=False) as (study, _):
        trials, parent = Trials(study, own, pair=True, seed=0), study.user_attrs["jrh:parent"]
        states = Counter(trial.state.name for trial in trials.all())
        assert states["COMPLETE"] == len(trials.measured()) == len(MODELS)
        assert states["RUNNING"] == states["WAITING"] == 0
    runs = nested(store_uri, parent, "search")
    finished = Counter(run.data.params["choice.model"] for run in runs if run.info.status == "FINISHED")
    assert finished == dict.fromkeys(MODELS, 1)
