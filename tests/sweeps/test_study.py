"""The study behind a sweep: every configuration once, whoever asks and whoever dies."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import optuna
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.sweeps.space import Configuration
from jrh_mlflow.sweeps.study import WORKER, TrialFailed, Trials, open_study, quiet

MODELS = {f"m{n}": (0.5 + 0.12 * n, 10.0**n) for n in range(4)}
PROMPTS = {f"p{n}": 0.05 * n for n in range(8)}
CRITERIA = {f"c{n}": 0.06 * n for n in range(3)}
FRONT = {(model, "p0", "c0") for model in MODELS}


def space(**choices: Sequence[str]) -> jrh.Space:
    own = choices or {"model": list(MODELS), "prompt": list(PROMPTS), "criterion": list(CRITERIA)}
    return jrh.Space(choices=own, judge=lambda choice: choice, orders=["one"])


def fresh(own: jrh.Space, *, seed: int = 0) -> Trials:
    with quiet():
        study = optuna.create_study(directions=["maximize", "minimize"])
    return Trials(study, own, pair=True, seed=seed)


def run_all(trials: Trials, n_trials: int, run: object = None) -> list[Configuration]:
    seen: list[Configuration] = []

    def note(trial: optuna.Trial, one: Configuration) -> Sequence[float]:
        seen.append(one)
        return run(one) if callable(run) else (0.5, 1.0)

    with quiet():
        while trials.run_next(n_trials, note):
            pass
    return seen


def test_a_grid_is_run_whole_and_each_configuration_once() -> None:
    trials = fresh(space(a=["1", "2", "3"], b=["x", "y"]))
    seen = run_all(trials, 99)
    assert len(seen) == len({one.key for one in seen}) == 6
    assert run_all(trials, 99) == []


@pytest.mark.slow
def test_workers_on_one_file_never_take_the_same_trial(tmp_path: Path) -> None:
    storage, n_workers, n_rounds = f"sqlite:///{tmp_path}/study.db", 4, 6
    at_once = threading.Barrier(n_workers, timeout=30)

    def take(_: int) -> list[int]:
        with open_study("s", storage, ["maximize"], create=False) as (study, _new):
            taken: list[int] = []

            def run(trial: optuna.Trial) -> float:
                taken.append(trial.number)
                return 0.5

            for _ in range(n_rounds):
                at_once.wait()
                study.optimize(run, n_trials=1)
            return taken

    with quiet(), open_study("s", storage, ["maximize"]) as (study, _new):
        for number in range(n_workers * n_rounds):
            study.enqueue_trial({"a": number})
        with ThreadPoolExecutor(n_workers) as pool:
            taken = [number for numbers in pool.map(take, range(n_workers)) for number in numbers]
    assert sorted(taken) == list(range(n_workers * n_rounds))


@pytest.mark.slow
def test_the_sampler_finds_the_front_sooner_than_chance() -> None:
    found, n_trials = 0, 40
    for seed in range(2):
        rng = random.Random(seed)

        def value(one: Configuration, rng: random.Random = rng) -> Sequence[float]:
            quality, price = MODELS[one.params["model"]]
            loss = PROMPTS[one.params["prompt"]] + CRITERIA[one.params["criterion"]]
            return quality - loss + rng.gauss(0, 0.02), price

        seen = run_all(fresh(space(), seed=seed), n_trials, value)
        assert len({one.key for one in seen}) == n_trials
        found += len(FRONT & {tuple(one.params[name] for name in ("model", "prompt", "criterion")) for one in seen})
    # 40 of 96 at random meet 3 of these 8, and 6 of them in 6 of 100 cases.
    assert found >= 6


def test_of_two_trials_of_one_configuration_one_is_run() -> None:
    trials = fresh(space(a=["1", "2"]))
    for _ in range(3):
        trials.study.enqueue_trial(dict(trials.grid[0].params))
    assert [one.key for one in run_all(trials, 1)] == [trials.grid[0].key]
    states = [trial.state.name for trial in trials.all()]
    assert states == ["COMPLETE", "FAIL", "FAIL"]
    assert len(trials.measured()) == 1


def test_a_trial_of_a_dead_process_is_run_again_and_one_of_a_living_process_is_not() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    trials = fresh(space(a=["1", "2"]))
    for pid, one in zip((gone.pid, os.getpid()), trials.grid, strict=True):
        trials.study.enqueue_trial(dict(one.params))
        running = trials.study.ask()
        running.set_user_attr(WORKER, {"host": socket.gethostname(), "pid": pid})
    assert [one.key for one in run_all(trials, 2)] == [trials.grid[0].key]
    assert [trial.state.name for trial in trials.all()] == ["FAIL", "RUNNING", "COMPLETE"]


def test_a_configuration_that_failed_is_left_alone_by_this_process_and_tried_by_the_next() -> None:
    own = space(a=["1", "2"])
    trials = fresh(own)

    def failing(one: Configuration) -> Sequence[float]:
        raise TrialFailed(f"no price for {one.params['a']}")

    assert len(run_all(trials, 2, failing)) == 2
    assert sorted(trials.failed.values()) == ["no price for 1", "no price for 2"]
    again = Trials(trials.study, own, pair=True, seed=0)
    assert len(run_all(again, 2)) == 2


def test_a_worker_needs_a_study_to_join_and_a_storage_that_opens(tmp_path: Path) -> None:
    with quiet():
        absent = open_study("nobody", f"sqlite:///{tmp_path}/s.db", ["maximize"], create=False)
        with pytest.raises(RecipeError, match="without --worker first"), absent:
            pass
        with pytest.raises(RecipeError, match="cannot be opened"), open_study("nobody", "nonsense://x", ["maximize"]):
            pass
        with open_study("mine", f"sqlite:///{tmp_path}/s.db", ["maximize"]) as (study, made):
            assert made
        with open_study("mine", f"sqlite:///{tmp_path}/s.db", ["maximize"]) as (again, made_again):
            assert not made_again
            assert study.study_name == again.study_name


def test_two_workers_that_start_at_once_do_not_exceed_the_number_of_trials() -> None:
    trials = fresh(space(a=["1", "2", "3"]))
    for one in trials.grid[:2]:
        trials.study.enqueue_trial(dict(one.params))
    assert [one.key for one in run_all(trials, 1)] == [trials.grid[0].key]
    assert [trial.state.name for trial in trials.all()] == ["COMPLETE", "FAIL"]


class Patient(Trials):
    """Notes that it had to wait; meanwhile the trials of the others end."""

    waited = 0

    def wait(self, *, seconds: float = 0.5) -> None:
        self.waited += 1
        for trial in self.open("RUNNING"):
            if trial.user_attrs[WORKER]["turn"] == 1:
                self.study.tell(trial.number, (0.5, 1.0))


def running_elsewhere(trials: Trials, one: Configuration) -> None:
    """Let a living process run a configuration."""
    trials.study.enqueue_trial(dict(one.params))
    running = trials.study.ask()
    running.set_user_attr(WORKER, {"host": socket.gethostname(), "pid": os.getpid(), "turn": 1})
    for name, labels in trials.space.axes.items():
        running.suggest_categorical(name, list(labels))


def test_configurations_that_share_their_calls_are_run_one_after_the_other() -> None:
    own = jrh.Space(choices={"a": ["1", "2"]}, judge=lambda choice: choice, orders=["one", "both"])
    study = fresh(own).study
    trials = Patient(study, own, pair=True, seed=0)
    first = trials.grid[0]
    running_elsewhere(trials, first)
    seen: list[tuple[str, str, int]] = []

    def note(trial: optuna.Trial, one: Configuration) -> Sequence[float]:
        seen.append((one.params["a"], one.params["orders"], trials.waited))
        return 0.5, 1.0

    with quiet():
        while trials.run_next(99, note):
            pass
    # Those of the other judge first, at once; then the one that has to wait for the calls of the first.
    assert [(a, waited) for a, _, waited in seen] == [
        *[("12".replace(first.params["a"], ""), 0)] * 2,
        (first.params["a"], 1),
    ]
    assert len({(a, orders) for a, orders, _ in seen} | {(first.params["a"], first.params["orders"])}) == 4
