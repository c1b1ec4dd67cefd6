"""What a sweep picks, it picks on the searched half; the held-out half reads it without bias."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.measures.composite import Tally
from jrh_mlflow.sweeps.front import best_of, cheapest_tied, ties
from jrh_mlflow.sweeps.space import picked
from jrh_mlflow.sweeps.sweep import suite_halves
from jrh_mlflow.sweeps.trials import TrialResult

TRUTH, ICC, N_TASKS, N_CALLS, N_JUDGES = 0.8, 0.2, 56, 6, 20


def half(rng: np.random.Generator, name: str, *, n_judges: int = N_JUDGES) -> dict[str, TrialResult]:
    """Equally good configurations on one half: every difference between them is luck."""
    shape = (1 - ICC) / ICC
    rates = rng.beta(TRUTH * shape, (1 - TRUTH) * shape, size=(n_judges, N_TASKS, 1))
    hits = rng.binomial(N_CALLS, rates).astype(float)
    return {f"judge-{index:02}": result(f"judge-{index:02}", name, hits[index]) for index in range(n_judges)}


def result(key: str, name: str, hits: np.ndarray, **given: object) -> TrialResult:
    tasks = tuple(f"{name}-{index:02}" for index in range(len(hits)))
    sizes = np.full(hits.shape, float(N_CALLS))
    counted = Tally(cells=("sensitivity",), tasks=tasks, hits=hits, sizes=sizes, excluded=(0,))
    return TrialResult(**{"key": key, "run_id": key, "tally": counted, "usd_per_1k": 1.0, "n_calls": 1, **given})


def test_of_many_equal_judges_the_best_reads_on_the_held_out_half_what_it_is() -> None:
    rng = np.random.default_rng(5)
    fair, flattered = [], []
    for _ in range(100):
        search, holdout = half(rng, "search"), half(rng, "holdout")
        best = best_of(search, holdout)
        assert best is not None
        fair.append(holdout[best].tally.value - TRUTH)
        flattered.append(max(one.tally.value for one in holdout.values()) - TRUTH)
    error = np.std(fair, ddof=1) / np.sqrt(len(fair))
    assert abs(np.mean(fair)) < 3 * error < 0.01
    # Picked on the half that reads it, the same judge is too good.
    assert np.mean(flattered) > 0.05


def test_of_equal_judges_at_one_price_the_cheapest_tied_is_not_picked_where_it_is_read() -> None:
    rng = np.random.default_rng(6)
    errors = []
    for _ in range(15):
        search, holdout = half(rng, "search", n_judges=8), half(rng, "holdout", n_judges=8)
        best = best_of(search, holdout)
        assert best is not None
        cheapest = cheapest_tied(search, holdout, ties(holdout, best=best, seed=0))
        assert cheapest is not None
        errors.append(holdout[cheapest].tally.value - TRUTH)
    assert abs(np.mean(errors)) < 3 * np.std(errors, ddof=1) / np.sqrt(len(errors)) < 0.03


def test_what_was_not_held_out_or_breaks_a_constraint_where_it_was_searched_is_never_the_best() -> None:
    search = {
        "held out": result("held out", "s", np.full((2, 1), 3.0)),
        "breaks": result("breaks", "s", np.full((2, 1), 5.0), feasible=False),
        "not held out": result("not held out", "s", np.full((2, 1), 6.0)),
    }
    assert best_of(search, ["held out", "breaks"]) == "held out"
    assert best_of(search, ["breaks"]) is None
    assert best_of(search, []) is None


def test_of_equal_ones_the_cheapest_is_the_best() -> None:
    dear, cheap = (result(name, "s", np.full((2, 1), 3.0), usd_per_1k=usd) for name, usd in (("a", 2.0), ("b", 1.0)))
    assert best_of({"a": dear, "b": cheap}, ["a", "b"]) == "b"
    assert best_of({"a": dear, "b": dataclasses.replace(cheap, usd_per_1k=None)}, ["a", "b"]) == "a"


def swept(store_uri: str, judges: list[str], **given: object) -> jrh.Sweep:
    """Sweep judges at one price: one is right more often on the searched tasks, the other on the held-out ones."""
    suite = jrh.datasheet_suite(design="paper", n_tasks=8, depth=2)
    searched, _ = suite_halves(suite, seed=0)
    known = {item.instruction for item in searched.items}
    better = {
        item.instruction + (item.u if item.better == "u" else item.v): True for item in suite.items if item.better
    }

    def judge(choice: dict[str, str]) -> object:
        def answer(shown: jrh.Presentation) -> jrh.Answer:
            right = (shown.instruction in known) == (choice["model"] == "on search")
            if not right:
                return jrh.Answer("1", cost_usd=1e-4)
            slots = [
                slot for slot, text in (("1", shown.first), ("2", shown.second)) if shown.instruction + text in better
            ]
            return jrh.Answer(slots[0] if len(slots) == 1 else "tie", cost_usd=1e-4)

        return answer

    own = jrh.Space(choices={"model": judges}, judge=judge, orders=["one"], **given)
    where = {"experiment": "picking", "tracking_uri": store_uri, "traces": "none"}
    return jrh.sweep(own, suite, max_replicates=1, early_stop=False, **where)


def test_what_is_told_to_be_better_on_the_held_out_half_counts_as_tied_and_is_said_to_be_ahead() -> None:
    hits = {"picked": 1.0, "same": 1.0, "better": 5.0, "worse": 0.0}
    noise = np.arange(14)[:, None] % 2
    holdout = {name: result(name, "h", np.full((14, 1), count) + noise) for name, count in hits.items()}
    found = ties(holdout, best="picked", seed=0)
    assert {name: (tie.tied, tie.ahead) for name, tie in found.items()} == {
        "picked": (True, False),
        "same": (True, False),
        "better": (True, True),
        "worse": (False, False),
    }


@pytest.fixture(scope="module")
def split(store_uri: str) -> jrh.Sweep:
    return swept(store_uri, ["on search", "held out"])


def test_the_best_and_the_front_are_those_of_the_searched_half(split: jrh.Sweep) -> None:
    assert split.best is not None
    assert split.best.label == "#1 on search"
    assert [one.label for one in split.front] == ["#1 on search"]
    data = json.loads(split.to_json())
    assert data["measured"][0]["configuration"] == data["best"]


def test_the_held_out_reading_of_the_best_is_logged_with_its_interval(split: jrh.Sweep) -> None:
    assert split.best is not None
    reading = split.best.reliability
    assert isinstance(reading, jrh.Estimate)
    assert reading.value < split.best.search.tally.value
    names = ("reliability", "reliability_ci_low", "reliability_ci_high")
    found = [split.metrics[f"sweep/best/{name}"] for name in names]
    assert found == pytest.approx([reading.value, reading.cluster_low, reading.cluster_high])


def test_the_report_says_which_half_picked_and_which_read(split: jrh.Sweep) -> None:
    text = split.to_markdown()
    assert "the held-out half only reads them" in text


@pytest.mark.slow
def test_a_configuration_that_breaks_a_constraint_where_it_is_read_is_not_named(store_uri: str) -> None:
    done = swept(store_uri, ["on search"], constraints=["dark_current/rate <= 0.5"])
    assert not done.members[0].to_dict()["keeps_constraints"]
    assert (done.best, done.cheapest_tied) == (None, None)
    assert "sweep/best/reliability" not in done.metrics
    first = done.verdict.sentences[0]
    assert first.startswith("Use none of them")
    assert "dark_current/rate <= 0.5" in first
    run = MlflowClient(tracking_uri=store_uri).get_run(done.run_id)
    assert run.data.tags["jrh.verdict"] == first
    assert f"**{first.split('dark_current')[0]}" in run.data.tags["mlflow.note.content"]


@pytest.mark.slow
def test_a_sweep_minimises_a_threshold_that_is_censored_on_either_side(store_uri: str) -> None:
    suite = jrh.datasheet_suite(design="paper", n_tasks=4, depth=2)
    judges = {"left": jrh.scripted.Oracle(), "right": jrh.scripted.AlwaysFirst()}
    own = jrh.Space(
        choices={"judge": list(judges)},
        judge=lambda choice: judges[choice["judge"]],
        objectives={"threshold_75/value": "minimize"},
    )
    done = jrh.sweep(own, suite, experiment="tests", tracking_uri=store_uri, traces="none", max_replicates=1)
    assert list(done.trials["state"]) == ["COMPLETE", "COMPLETE"]
    assert [one.label for one in done.front] == ["#1 left"]
    own = picked({"threshold_75/value": 2.0}, "threshold_75/value")
    assert own == 2 < picked({"threshold_75/at_least": 2.0}, "threshold_75/value"), "never reached is over that step"
    assert picked({"threshold_75/at_most": 1.0}, "threshold_75/value") == 1
