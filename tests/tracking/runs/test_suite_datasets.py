"""Suites as evaluation datasets of MLflow: the identical suite comes back, and their records are rows for scorers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.genai.datasets import get_dataset

import jrh_mlflow as jrh
from jrh_mlflow.errors import JrhError, RecipeError, SuiteError
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.tracking.judges.judge_registry import active_store
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.suite_datasets import dataset_suite, write_dataset
from tests import processes
from tests.loopback import LoopbackServer


def few(start: int = 0, end: int = 6) -> jrh.Suite:
    """Some items of the short suite."""
    whole = load_suite("datasheet-short")
    return jrh.Suite(name=f"few {start} {end}", items=whole.items[start:end], origin={"builder": "test", "n": 1.5})


def singles() -> jrh.Suite:
    """Responses and a transcript with everything that a message can hold."""
    call = {"id": "c1", "name": "look", "arguments": {"at": [1, None, "é"]}}
    messages = (
        Message(role="user", content="Hi {{x}}", id="m1"),
        Message(role="assistant", content="", tool_calls=(call,), reasoning="Hm."),
        Message(role="tool", content="42", tool_call_id="c1", name="look", error="late"),
        Message(role="user", content="See", parts=({"type": "image", "image": "data:"},)),
    )
    common = {"task": "t", "condition": "baseline", "answers": ("no", "yes")}
    return jrh.Suite(
        name="singles",
        items=[
            Item(id="1", kind="response", instruction="Q", rubric="R", response="", expected="yes", **common),
            Item(id="2", kind="response", instruction="Q", rubric="R", response="é\u2028", expected="no", **common),
            Item(id="3", kind="transcript", instruction="Q", transcript=messages, expected="no", **common),
            Item(id="5", kind="response", instruction="Q", response="y", context=("We open.", "é"), **common),
            Item(id="4", kind="response", instruction="Q", response="x", meta={"a": 0.1}, replicates=3, **common),
        ],
    )


@pytest.fixture
def records(store_uri: str) -> Iterator[Any]:
    """Give the records of a dataset, and MLflow's own functions the store."""

    def of(name: str) -> Any:
        return get_dataset(name=name)

    with active_store(store_uri):
        yield of


@pytest.mark.parametrize("make", [few, singles], ids=["pairs", "singles"])
def test_the_identical_suite_comes_back_from_a_dataset(make: Any, store_uri: str) -> None:
    suite = make()
    uri = jrh.suite_dataset(suite, f"back {suite.name}", tracking_uri=store_uri, experiment="tests")
    assert uri == f"datasets:/back {suite.name}@1"
    for address in (uri, f"datasets:/back {suite.name}"):
        back = jrh.load_suite(address, tracking_uri=store_uri)
        assert back.sha256 == suite.sha256
        assert back.content == suite.content
        assert back.name == suite.name
        origin = {"dataset": f"back {suite.name}", "dataset_version": "1"}
        assert back.origin == {**suite.origin, **origin}


def test_every_presentation_is_a_record_that_tells_neither_item_nor_answer_in_what_is_judged(
    records: Any, store_uri: str
) -> None:
    suite = few()
    jrh.suite_dataset(suite, "rows", tracking_uri=store_uri, experiment="tests")
    frame = records("rows").to_df()
    assert len(frame) == 2 * len(suite)
    by_item = {item.id: item for item in suite.items}
    for row in frame.to_dict("records"):
        item = by_item[row["tags"]["jrh.suite_item"]]
        assert row["inputs"]["instruction"] == item.instruction
        assert set(row["outputs"].values()) == {item.u, item.v}
        assert item.id not in json.dumps([row["inputs"], row["outputs"]])
        if item.better:
            slot = row["expectations"]["expected_answer"]
            assert row["outputs"][slot] == getattr(item, item.better)
    assert len({row["presentation"] for row in frame["inputs"]}) == len(frame)


def test_the_same_suite_is_one_version_and_another_is_the_next_with_the_former_still_there(
    records: Any, store_uri: str
) -> None:
    def written(suite: jrh.Suite) -> str:
        return jrh.suite_dataset(suite, "versions", tracking_uri=store_uri, experiment="tests")

    first, second = few(0, 4), few(2, 8)
    assert [written(first), written(first), written(second), written(second)] == [
        "datasets:/versions@1",
        "datasets:/versions@1",
        "datasets:/versions@2",
        "datasets:/versions@2",
    ]
    assert len(records("versions").to_df()) == 2 * len(second)
    shas = [load_suite(f"datasets:/versions{one}", tracking_uri=store_uri).sha256 for one in ("@1", "@2", "")]
    assert shas == [first.sha256, second.sha256, second.sha256]
    assert written(first) == "datasets:/versions@3"
    with pytest.raises(SuiteError, match="no version 9: the newest is 3"):
        load_suite("datasets:/versions@9", tracking_uri=store_uri)


@pytest.mark.parametrize("edit", ["added", "missing", "changed"])
def test_records_that_somebody_edited_are_noticed_and_written_again_on_request(
    edit: str, records: Any, store_uri: str
) -> None:
    suite, name = few(), f"edited {edit}"
    jrh.suite_dataset(suite, name, tracking_uri=store_uri, experiment="tests")
    dataset = records(name)
    place = {"position": 1, "order": "uv"}
    (row,) = (row for _, row in dataset.to_df().iterrows() if place.items() <= row["source"].source_data.items())
    if edit == "added":
        dataset.merge_records([{"inputs": {"instruction": "Mine"}, "outputs": {"A": "x", "B": "y"}}])
    elif edit == "missing":
        dataset.delete_records([row["dataset_record_id"]])
    else:
        dataset.merge_records([{"inputs": row["inputs"], "outputs": {"A": "better", "B": "worse"}}])
    with pytest.raises(
        SuiteError, match=f"was edited: of [0-9]+ records 1 {edit}.*jrh suite dataset SUITE --name {name}"
    ):
        load_suite(f"datasets:/{name}", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="is not overwritten: give another name"):
        jrh.suite_dataset(few(8, 10), name, tracking_uri=store_uri, experiment="tests")
    assert jrh.suite_dataset(suite, name, tracking_uri=store_uri, experiment="tests") == f"datasets:/{name}@1"
    assert load_suite(f"datasets:/{name}", tracking_uri=store_uri).sha256 == suite.sha256


@pytest.mark.parametrize("place", [(position, order) for position in (0, 2) for order in ("uv", "vu")])
def test_whichever_record_is_deleted_the_suite_is_refused(place: tuple[int, str], records: Any, store_uri: str) -> None:
    jrh.suite_dataset(few(), "one less", tracking_uri=store_uri, experiment="tests")
    frame = records("one less").to_df()
    told = [(one.source_data["position"], one.source_data["order"]) for one in frame["source"]]
    records("one less").delete_records([frame["dataset_record_id"][told.index(place)]])
    with pytest.raises(SuiteError, match="was edited: of 11 records 1 missing"):
        load_suite("datasets:/one less", tracking_uri=store_uri)


def test_a_write_that_was_cut_short_is_finished_by_the_next(store_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = few(0, 4), few(2, 8)
    jrh.suite_dataset(first, "cut", tracking_uri=store_uri, experiment="tests")
    with monkeypatch.context() as patch:
        patch.setattr("mlflow.entities.EvaluationDataset.merge_records", _merge_but_the_second(first, second))
        with pytest.raises(RuntimeError, match="killed"):
            jrh.suite_dataset(second, "cut", tracking_uri=store_uri, experiment="tests")
    with pytest.raises(SuiteError, match="not written to its end: 0 records"):
        load_suite("datasets:/cut", tracking_uri=store_uri)
    assert load_suite("datasets:/cut@1", tracking_uri=store_uri).sha256 == first.sha256
    assert jrh.suite_dataset(second, "cut", tracking_uri=store_uri, experiment="tests") == "datasets:/cut@2"
    assert load_suite("datasets:/cut", tracking_uri=store_uri).sha256 == second.sha256


def _merge_but_the_second(first: jrh.Suite, second: jrh.Suite) -> Any:
    """Write the records of the first suite only, so that the copy is made and the new version is not."""
    merge = mlflow.entities.EvaluationDataset.merge_records

    def merging(dataset: Any, given: list[dict[str, Any]]) -> Any:
        if len(given) != 2 * len(first):
            raise RuntimeError("killed")
        return merge(dataset, given)

    return merging


def test_what_is_no_suite_is_refused_with_what_to_do(records: Any, store_uri: str) -> None:
    client = mlflow.MlflowClient(tracking_uri=store_uri)
    client.create_dataset("strangers", experiment_id=["0"])
    for uri, text in (
        ("datasets:/strangers", "is no suite: it was made by other means. `jrh suite dataset"),
        ("datasets:/strangerz", "no dataset 'strangerz' at MLflow. Did you mean 'strangers'"),
        ("datasets:/a/b", "give datasets:/NAME or datasets:/NAME@VERSION"),
    ):
        with pytest.raises(JrhError, match=text):
            load_suite(uri, tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="is no suite"):
        jrh.suite_dataset(few(), "strangers", tracking_uri=store_uri, experiment="tests")
    with pytest.raises(RecipeError, match="name has letters"):
        jrh.suite_dataset(few(), "it's", tracking_uri=store_uri, experiment="tests")


def test_an_mlflow_without_datasets_is_refused_with_the_version_needed(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(mlflow.MlflowClient, "create_dataset")
    with pytest.raises(RecipeError, match=r"no registry of evaluation datasets .* pip install 'mlflow>="):
        jrh.suite_dataset(few(), "old", tracking_uri=store_uri, experiment="tests")


def test_a_run_on_a_dataset_names_it_and_its_version_and_has_the_hash_of_the_suite(store_uri: str) -> None:
    uri = jrh.suite_dataset(few(), "run on", tracking_uri=store_uri, experiment="tests")
    done = jrh.evaluate(
        jrh.scripted.AlwaysTie(), "datasets:/run on", tracking_uri=store_uri, experiment="tests", progress=False
    )
    params = mlflow.MlflowClient(tracking_uri=store_uri).get_run(done.run_id).data.params
    assert f"datasets:/{params[keys.PARAM_DATASET]}@{params[keys.PARAM_DATASET_VERSION]}" == uri
    assert params[keys.PARAM_SUITE_SHA256] == few().sha256
    assert load_suite(f"runs:/{done.run_id}/suite", tracking_uri=store_uri).sha256 == few().sha256


def test_of_processes_that_make_one_dataset_at_once_all_end_with_the_same(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = mlflow.MlflowClient(tracking_uri=store_uri)
    create, others = mlflow.MlflowClient.create_dataset, []

    def created_by_two(self: Any, name: str, **more: Any) -> Any:
        if not others:
            others.append(create(self, name, **more))
        return create(self, name, **more)

    monkeypatch.setattr(mlflow.MlflowClient, "create_dataset", created_by_two)
    write_dataset(few(), "at once", experiment="tests", tracking_uri=store_uri)
    (left,) = client.search_datasets(filter_string="name = 'at once'")
    assert left.dataset_id == others[0].dataset_id
    assert dataset_suite("datasets:/at once", tracking_uri=store_uri).sha256 == few().sha256


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")
@pytest.mark.parametrize(
    "make", [pytest.param(few, id="pairs"), pytest.param(singles, id="singles", marks=pytest.mark.slow)]
)
def test_mlflow_evaluates_a_measured_judge_on_the_records_with_the_requests_that_measured_it(
    make: Any, records: Any, store_uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT", "0")
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION", "true")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "tests")
    suite = make()
    jrh.suite_dataset(suite, f"asked {suite.name}", tracking_uri=store_uri, experiment="tests")
    with LoopbackServer(record=True) as server:
        judge = jrh.PromptedJudge("openai/test-model", api_base=server.url)
        where = {"tracking_uri": store_uri, "experiment": "tests", "journal": tmp_path / "journal.db"}
        done = jrh.evaluate(judge, suite, **where, progress=False, traces="none")
        measured = {json.dumps(one["body"], sort_keys=True) for one in server.requests}
        server.requests.clear()
        scorer = jrh.to_mlflow(done.run_id, orders="one", tracking_uri=store_uri)
        result = mlflow.genai.evaluate(records(f"asked {suite.name}"), scorers=[scorer])
    asked = [json.dumps(one["body"], sort_keys=True) for one in server.requests]
    assert set(asked) == measured
    assert len(asked) == sum(len(item.orders) for item in suite.items)
    frame = result.result_df
    assert len(frame) == len(asked)
    assert frame[f"{scorer.name}/value"].notna().all()


@pytest.mark.slow
def test_two_processes_that_write_one_suite_at_once_leave_one_whole_dataset(store_uri: str, tmp_path: Path) -> None:
    suite = few(0, 20)
    suite.save(tmp_path / "suite")
    code = (
        "import sys, jrh_mlflow as jrh\n"
        "print(jrh.suite_dataset(sys.argv[1], 'two processes', tracking_uri=sys.argv[2], experiment='tests'))"
    )
    with ThreadPoolExecutor(2) as pool:
        starts = [pool.submit(processes.run, code, tmp_path / "suite", store_uri) for _ in range(2)]
        ended = [start.result() for start in starts]
    assert [(one.returncode, one.stdout) for one in ended] == [(0, "datasets:/two processes@1\n")] * 2, ended
    assert len(mlflow.MlflowClient(store_uri).search_datasets(filter_string="name = 'two processes'")) == 1
    assert load_suite("datasets:/two processes", tracking_uri=store_uri).sha256 == suite.sha256
