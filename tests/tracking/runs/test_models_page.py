"""The Models page of an experiment: one logged model per judge, with its newest readings and their suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModel, Run
from mlflow.exceptions import MlflowException

import jrh_mlflow as jrh
from jrh_mlflow.errors import TrackingError
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.measuring.evaluation import resume
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs import store as store_module
from jrh_mlflow.tracking.runs.store import JudgeEntry, ModelEntry, RunContent, Store, open_run, publish

RATE = "dark_current/rate"
SUITE, OTHER = "datasheet", "another suite"
SHA256 = {SUITE: "1" * 64, OTHER: "2" * 64}

Entries = Callable[[], list[LoggedModel]]
Evaluate = Callable[..., jrh.Evaluation]


@pytest.fixture
def store(store_uri: str) -> Store:
    return Store(store_uri, f"models page {uuid4().hex[:8]}", saves_view=False)


@pytest.fixture
def entries(store: Store) -> Entries:
    return lambda: list(store.client.search_logged_models([store.experiment_id]))


@pytest.fixture
def measure(store: Store) -> Callable[..., str]:
    """Log a run of a judge as an evaluation does, and return its id."""

    def run(
        rate: float,
        *,
        name: str = "gpt",
        fingerprint: str | None = "f" * 64,
        suite: str = SUITE,
        sha256: str = "",
        whole: bool = True,
        params: dict[str, str] | None = None,
        tags: dict[str, str] | None = None,
    ) -> str:
        points = [keys.Point(key=RATE, value=rate), keys.Point(key=metric_keys.CALLS_TOTAL, value=10)]
        entry = JudgeEntry(
            label=name,
            fingerprint=fingerprint,
            params=params or {},
            tags={**({keys.TAG_FINGERPRINT: fingerprint} if fingerprint else {}), **(tags or {})},
            readings={},
            suite_name=suite,
            suite_sha256=sha256 or SHA256[suite],
            points=points,
            whole=whole,
        )
        content = RunContent(
            points=points, params={}, description="", described_in="a.md", artifacts={"a.md": "a"}, entry=entry
        )
        with open_run(store, "evaluate", name) as run_id:
            publish(store, run_id, content, what_now="", is_new=True)
        return run_id

    return run


@pytest.fixture
def evaluate(store_uri: str, store: Store) -> Evaluate:
    experiment = store.client.get_experiment(store.experiment_id).name
    suite = jrh.datasheet_suite(n_tasks=1, depth=2)

    def run(judge: object, verb: Callable[..., Any] = jrh.evaluate, **options: Any) -> Any:
        where = {"experiment": experiment, "tracking_uri": store_uri, "traces": "none", "progress": False}
        return verb(judge, suite, **where, **options)

    return run


def shown(entry: LoggedModel, dataset: str = SUITE) -> dict[str, float]:
    """What the table of MLflow's Models page shows: of each metric on a dataset the first."""
    found: dict[str, float] = {}
    for metric in entry.metrics:
        if metric.dataset_name == dataset:
            found.setdefault(metric.key, metric.value)
    return found


def models_of(run: Run) -> list[str]:
    """The judges a run measured; MLflow's *Evaluation runs* leaves out runs with a model output."""
    assert not run.outputs.model_outputs
    return [model.model_id for model in run.inputs.model_inputs]


def test_an_evaluated_judge_is_one_entry_with_its_params_its_readings_and_their_suite(
    evaluate: Evaluate, entries: Entries, store: Store
) -> None:
    done = evaluate(Noisy())
    [entry] = entries()
    run, on_page = store.client.get_run(done.run_id), shown(entry, done.suite.name)
    assert (entry.name, entry.model_type, str(entry.status)) == ("Noisy (simulated)", "judge", "READY")
    assert entry.params == {key: value for key, value in run.data.params.items() if key.startswith("judge.")}
    dataset = run.inputs.dataset_inputs[0].dataset
    assert {(one.dataset_name, one.dataset_digest) for one in entry.metrics} == {(dataset.name, dataset.digest)}
    assert on_page.items() <= done.logged.items()
    assert set(done.logged) - set(on_page) == {"time/seconds", "target_sensitivity/curve", "matched_sensitivity/curve"}
    assert run.data.metrics == done.logged
    assert models_of(run) == [entry.model_id]
    # What *Evaluation runs* of the GenAI mode asks for, and by what it leaves runs out.
    [listed] = store.client.search_runs([store.experiment_id])
    assert (listed.info.run_id, listed.outputs.model_outputs) == (done.run_id, [])
    for tag in (keys.TAG_PROFILE, keys.TAG_SIMULATED, keys.TAG_FINGERPRINT, keys.own_key("dark_current")):
        assert entry.tags[tag] == run.data.tags[tag]
    assert entry.tags[keys.TAG_SIMULATED] == "true"
    assert entry.tags[keys.TAG_DATASHEET_RUN] == entry.source_run_id == done.run_id
    note = entry.tags[keys.TAG_NOTE]
    assert done.run_id in note
    assert run.data.tags[keys.own_key("dark_current")] in note


@pytest.mark.parametrize("fingerprint", ["f" * 64, None])
def test_the_newest_readings_take_the_place_of_earlier_ones_and_what_others_tagged_stays(
    measure: Callable[..., str], entries: Entries, store: Store, fingerprint: str | None
) -> None:
    first = measure(0.1, fingerprint=fingerprint)
    [before] = entries()
    store.client.set_logged_model_tags(before.model_id, {"approved_by": "Ada"})
    second = measure(0.3, fingerprint=fingerprint)
    [entry] = entries()
    assert shown(entry)[RATE] == 0.3
    assert entry.tags["approved_by"] == "Ada"
    assert entry.tags[keys.TAG_DATASHEET_RUN] == entry.source_run_id == second
    assert [one.value for one in store.client.get_metric_history(first, RATE)] == [0.1]


def test_readings_on_other_suites_stay_and_no_run_gets_a_second_point(
    measure: Callable[..., str], entries: Entries, store: Store
) -> None:
    elsewhere = measure(0.2, suite=OTHER)
    measure(0.1)
    [both] = entries()
    assert (shown(both)[RATE], shown(both, OTHER)[RATE]) == (0.1, 0.2)
    newest = measure(0.3)
    [entry] = entries()
    assert (shown(entry)[RATE], shown(entry, OTHER)[RATE]) == (0.3, 0.2)
    assert {metric.run_id for metric in entry.metrics} == {elsewhere, newest}
    assert len(store.client.get_metric_history(elsewhere, RATE)) == 1
    assert entry.model_id in models_of(store.client.get_run(elsewhere))


def test_what_a_deleted_run_read_goes_with_it(measure: Callable[..., str], entries: Entries, store: Store) -> None:
    store.client.delete_run(measure(0.2, suite=OTHER))
    measure(0.1)
    measure(0.3)
    [entry] = entries()
    assert shown(entry, OTHER) == {}


def test_a_judge_that_reads_the_same_again_keeps_its_entry(measure: Callable[..., str], entries: Entries) -> None:
    measure(0.1)
    [before] = entries()
    again = measure(0.1)
    [entry] = entries()
    assert entry.model_id == before.model_id
    assert entry.tags[keys.TAG_DATASHEET_RUN] == again


def test_the_bound_of_a_censored_threshold_is_no_number_of_the_page() -> None:
    def sheet(censored: str | None) -> jrh.Datasheet:
        ends = dict.fromkeys(("ci_low", "ci_high", "cluster_low", "cluster_high"))
        counts = {"n": 9, "excluded": 0, "n_clusters": 3, "method": "isotonic", "unit": "curve", "statistic": "value"}
        reading = jrh.Estimate(value=1.0, censored=censored, **ends, **counts)
        return jrh.Datasheet(profile="", outcomes={}, max_excluded=0.2, estimates={"threshold_75": reading})

    def shown(censored: str | None) -> list[str]:
        return [point.key for point in keys.entry_points(keys.sheet_points(sheet(censored)), sheet(censored))]

    assert "threshold_75/value" in shown(None)
    assert shown("left") == shown("right") == []


def test_judges_are_told_apart_by_what_they_are_and_not_by_their_name(
    measure: Callable[..., str], entries: Entries
) -> None:
    for number, fingerprint in enumerate(["a" * 64, "b" * 64, None]):
        measure(0.1 * number, fingerprint=fingerprint)
    measure(0.5, fingerprint="b" * 64, tags={keys.TAG_RECORDED: "true"})
    measure(0.1, fingerprint="b" * 64, name="renamed")
    assert sorted(shown(one)[RATE] for one in entries()) == [0.0, 0.1, 0.2, 0.5]


@pytest.mark.parametrize("name", ["openai/gpt-4.1-mini", '50 % "sure" it\'s : a`b', "Größe 日本", "...", "x" * 600])
def test_any_name_of_a_judge_can_stand_on_the_page_and_is_found_again(
    measure: Callable[..., str], entries: Entries, name: str
) -> None:
    for _ in range(2):
        measure(0.1, name=name, fingerprint=None)
    assert len(entries()) == 1


def test_the_arms_of_a_criterion_shift_are_judges_of_their_own(evaluate: Evaluate, entries: Entries) -> None:
    evaluate(Noisy(), jrh.criterion_shift)
    names = {one.name: one.params[keys.PARAM_CRITERION] for one in entries()}
    assert names == {"Noisy (simulated)": "allowed", "Noisy (simulated), strict": "strict"}


def test_of_a_sweep_only_judges_that_were_measured_on_tasks_set_aside_are_there(
    evaluate: Evaluate, entries: Entries
) -> None:
    for number, stage in enumerate(("search", "refine", "holdout")):
        evaluate(Noisy(seed=number), tags={keys.TAG_STAGE: stage})
    [entry] = entries()
    assert entry.params["judge.seed"] == "2"


def test_a_suite_that_was_changed_under_its_name_gets_columns_of_its_own(
    measure: Callable[..., str], entries: Entries
) -> None:
    measure(0.1)
    for rate in (0.2, 0.3):
        measure(rate, fingerprint="e" * 64, sha256="3" * 64)
    late, early = entries()
    assert shown(early)[RATE] == 0.1
    assert shown(late) == {}
    assert shown(late, f"{SUITE} 33333333")[RATE] == 0.3


def test_part_of_a_suite_does_not_take_the_place_of_all_of_it(measure: Callable[..., str], entries: Entries) -> None:
    measure(0.4, whole=False)
    whole = measure(0.1)
    measure(0.3, whole=False)
    [entry] = entries()
    assert shown(entry)[RATE] == 0.1
    assert entry.tags[keys.TAG_DATASHEET_RUN] == whole


def test_two_entries_that_two_processes_made_at_once_become_one(
    measure: Callable[..., str], entries: Entries, store: Store
) -> None:
    measure(0.1)
    [first] = entries()
    store.client.create_logged_model(first.experiment_id, name=first.name, tags=first.tags, model_type="judge")
    measure(0.1)
    assert len(entries()) == 1


def test_a_store_without_logged_models_keeps_the_run_and_says_so_once(
    measure: Callable[..., str], store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MlflowClient, "search_logged_models", refused)
    store_module.say_once.cache_clear()
    runs = [store.client.get_run(measure(0.1)) for _ in range(2)]
    assert capsys.readouterr().err.count("Models page") == 1
    assert [(run.info.status, run.data.metrics[RATE]) for run in runs] == [("FINISHED", 0.1)] * 2


def refused(*args: object, **options: object) -> None:
    raise MlflowException("API request failed with error code 404")


@pytest.mark.parametrize(
    "method", ["create_logged_model", "finalize_logged_model", "log_inputs", "delete_logged_model"]
)
def test_an_entry_that_fails_half_way_takes_nothing_from_the_run(
    measure: Callable[..., str], store: Store, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    measure(0.1)
    monkeypatch.setattr(MlflowClient, method, refused)
    run = store.client.get_run(measure(0.3))
    assert (run.info.status, run.data.metrics[RATE]) == ("FINISHED", 0.3)
    assert len(store.client.get_metric_history(run.info.run_id, RATE)) == 1


def test_an_entry_that_is_gone_when_the_numbers_come_takes_nothing_from_the_run(
    measure: Callable[..., str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: JudgeEntry, store: Store, run_id: str) -> ModelEntry:
        return ModelEntry(model_id="m-gone", dataset_name=SUITE, dataset_digest="1", keys=frozenset({RATE}))

    monkeypatch.setattr(JudgeEntry, "__call__", gone)
    run = store.client.get_run(measure(0.3, tags={"a": "b"}))
    assert (run.info.status, run.data.metrics[RATE]) == ("FINISHED", 0.3)
    assert keys.TAG_NOTE in run.data.tags
    assert len(store.client.get_metric_history(run.info.run_id, RATE)) == 1


def test_what_waited_in_the_outbox_gets_its_entry_when_mlflow_has_it(
    evaluate: Evaluate, entries: Entries, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_artifacts", refused)
        with pytest.raises(TrackingError) as caught:
            evaluate(Noisy())
    folder = str(caught.value).partition("--resume ")[2].partition("`")[0]
    done = resume(folder, tracking_uri=store_uri)
    [entry] = entries()
    assert entry.tags[keys.TAG_FINGERPRINT] == Noisy().fingerprint()
    assert entry.tags[keys.TAG_DATASHEET_RUN] == done.run_id
