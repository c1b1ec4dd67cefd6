"""The saved view of an experiment, set by whatever makes a run and never over a user's; its links; who made a run."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys, view
from jrh_mlflow.tracking.runs.store import Store, run_link
from jrh_mlflow.tracking.runs.view import view_links

_PLAIN = {"selectedColumns": ["metrics.`accuracy`"]}


@pytest.fixture
def store(store_uri: str) -> Store:
    """A store with an experiment that is not made yet."""
    return Store(store_uri, f"view {uuid4().hex}")


def _run(store: Store, **tags: str) -> dict[str, str]:
    """Make a run in a store that was opened anew, and return the tags of its experiment."""
    again = Store(store.uri, experiment_id=store.experiment_id)
    again.create_run("a judge", tags=tags)
    return dict(again.client.get_experiment(again.experiment_id).tags)


def _refused(*_: object) -> None:
    raise MlflowException("PERMISSION_DENIED: experiments are read-only")


def test_the_first_run_sets_the_view_the_kind_and_the_description(store: Store) -> None:
    store.create_run("a judge", tags={})
    tags = store.client.get_experiment(store.experiment_id).tags
    saved = json.loads(tags[keys.TAG_VIEW])
    packed = saved["state"].removeprefix("deflate;")
    assert saved["name"] == "Judges"
    assert {"tags.`jrh.dark_current`", "tags.`jrh.gate`", "tags.`jrh.drift`"} <= set(saved["selectedColumns"])
    assert {chart.get("metricKey") for chart in saved["compareRunCharts"]} >= {"target_sensitivity/curve"}
    state = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert state == {key: value for key, value in saved.items() if key in state}, "plain and packed say the same"
    assert len(tags[keys.TAG_VIEW]) < 5000, "what every version of MLflow takes"
    assert tags[keys.TAG_EXPERIMENT_KIND] == "custom_model_development"
    note = tags[keys.TAG_NOTE].splitlines()[0]
    assert f"#/experiments/{store.experiment_id}/runs?" in note
    # MLflow's list of experiments shows the first words as they are written.
    assert not set("[]()") & set(note[:120])


def test_a_suite_gets_a_view_of_its_own_unless_there_are_many_or_no_filter_can_name_it() -> None:
    tag = f"mlflow.sharedViewState.{view.suite_view('pairs')}"
    assert tag in view.missing_tags("1", {}, "pairs")
    many = {f"{keys.TAG_VIEW}-{number:08}": "" for number in range(view.MOST_SUITES)}
    assert tag not in view.missing_tags("1", many, "pairs")
    assert set(view.missing_tags("1", {}, "it's")) == set(view.missing_tags("1", {}))


def test_every_reading_of_the_view_is_an_axis_and_explained(store: Store) -> None:
    note = view.missing_tags("1", {})[keys.TAG_NOTE]
    for axis in view.READINGS:
        assert f"`jrh.{axis}`: " in note


@pytest.mark.parametrize(
    "theirs",
    [json.dumps(_PLAIN), '{"name": "Judges", "createdAt": 1, "state": "{}"}', "deflate;x", "[]", "7", ""],
)  # fmt: skip
def test_what_a_user_set_is_left_alone(store: Store, theirs: str) -> None:
    set_by_user = {keys.TAG_VIEW: theirs, keys.TAG_EXPERIMENT_KIND: "genai_development", keys.TAG_NOTE: "our judges"}
    for key, value in set_by_user.items():
        store.client.set_experiment_tag(store.experiment_id, key, value)
    assert _run(store).items() >= set_by_user.items()


def test_a_store_that_refuses_the_view_takes_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(MlflowClient, "set_experiment_tag", _refused)
    run_ids = [store.create_run(name, tags={}) for name in ("a", "b")]
    assert all(store.client.get_run(run_id).info.status == "RUNNING" for run_id in run_ids)
    assert capsys.readouterr().err.count("read-only") == 1, "said, and said once"


def test_a_further_run_writes_nothing_and_looks_once_at_most(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create_run("a", tags={})
    asked: list[str] = []
    for name in ("set_experiment_tag", "get_experiment"):
        whole = getattr(MlflowClient, name)
        monkeypatch.setattr(
            MlflowClient, name, lambda *args, name=name, whole=whole: [asked.append(name), whole(*args)][1]
        )
    Store(store.uri, store._experiment).create_run("found by its name", tags={})
    assert asked == []
    Store(store.uri, experiment_id=store.experiment_id).create_run("found by its id", tags={})
    assert asked == ["get_experiment"]


def test_an_evaluation_tells_where_judges_stand_side_by_side(store: Store) -> None:
    items = jrh.load_suite("datasheet-short").items[:2]
    suite = Suite(name="two", items=items)
    done = jrh.evaluate(
        jrh.scripted.AlwaysTie(), suite, tracking_uri=store.uri, experiment=store._experiment, traces="none"
    )
    key = view.suite_view("two")
    assert f"viewStateShareKey={key}" in done.view.table
    tags = store.client.get_experiment(store.experiment_id).tags
    saved, general = json.loads(tags[f"mlflow.sharedViewState.{key}"]), json.loads(tags[keys.TAG_VIEW])
    assert saved["name"] == "Judges on two"
    assert saved["searchFilter"] == f"{general['searchFilter']} and params.`suite.name` = 'two'"
    assert saved["selectedColumns"][0] == general["selectedColumns"][0] == "params.`suite.name`"
    assert len(tags[f"mlflow.sharedViewState.{key}"]) < 5000
    assert done.view_link == str(done.view)
    assert f"{done.view.command}   then {done.view.table}" == done.view_link


def test_a_judge_of_a_search_is_in_no_view_of_its_suite_and_no_judge_is_a_logged_model(store: Store) -> None:
    """MLflow's *Evaluation runs* leave out runs with a logged model."""
    suite = Suite(name="two", items=jrh.load_suite("datasheet-short").items[:2])
    where = {"tracking_uri": store.uri, "experiment": store._experiment, "traces": "none"}
    shown = f"mlflow.sharedViewState.{view.suite_view('two')}"
    for stage, is_shown in (("search", False), ("holdout", True)):
        done = jrh.evaluate(jrh.scripted.AlwaysTie(), suite, tags={keys.TAG_STAGE: stage}, **where)
        assert (shown in store.client.get_experiment(store.experiment_id).tags) == is_shown
        run = store.client.get_run(done.run_id)
        assert run.inputs.model_inputs == run.outputs.model_outputs == []
    assert list(store.client.search_logged_models([store.experiment_id])) == []


def test_a_server_s_links_are_whole_and_hold_no_password() -> None:
    links = view_links("https://me:hunter2@mlflow.example/base/", "12")
    page = "https://mlflow.example/base/#/experiments/12/runs?workflowType=machine_learning&viewStateShareKey=jrh"
    assert (str(links), links.table, links.charts) == (page, page, f"{page}&compareRunsMode=CHART")
    assert links.command is None
    assert "hunter2" not in run_link("https://me:hunter2@mlflow.example/", "12", "abc")


@pytest.mark.parametrize(
    ("uri", "command"),
    [
        ("sqlite:///{here}/demo/mlflow.db", "jrh ui demo"),
        ("sqlite:///mlflow.db", "jrh ui ."),
        ("sqlite:////srv/my judges/mlflow.db", "jrh ui '/srv/my judges'"),
        ("sqlite:///{here}/runs.db", "jrh ui sqlite:///{here}/runs.db"),
        ("file:///srv/mlruns", "jrh ui file:///srv/mlruns"),
        ("mlruns", "jrh ui file://{here}/mlruns"),
        ("postgresql://me:hunter2@db/mlflow", "jrh ui 'postgresql://me:***@db/mlflow'"),
    ],
)
def test_a_store_that_is_no_server_is_shown_by_a_command(uri: str, command: str) -> None:
    here = Path.cwd()
    links = view_links(uri.format(here=here), "3")
    assert links.command == command.format(here=here)
    assert links.charts.startswith("http://127.0.0.1:5000/#/experiments/3/runs?")
    assert view_links(uri.format(here=here), "3", port=5001).command == f"{links.command} --port 5001"


def test_a_run_says_which_script_made_it_and_whose_it_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["judges/nightly.py", "--api-key", "hunter2"])
    run = store.client.get_run(store.create_run("a", tags={"mlflow.user": "grace"}))
    assert run.data.tags["mlflow.source.name"] == "judges/nightly.py"
    assert run.data.tags["mlflow.source.type"] == "LOCAL"
    assert run.data.tags["mlflow.user"] == "grace", "what the user says goes before what MLflow finds"
    assert "hunter2" not in str(run.data.tags)


def test_a_run_of_the_command_line_says_the_command_and_no_argument(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, str]] = []

    @click.command()
    @click.argument("key")
    def evaluate(key: str) -> None:
        told.append(view.context_tags())

    monkeypatch.setattr(type(group), "get_command", lambda *_: evaluate)
    CliRunner().invoke(group, ["evaluate", "hunter2"], catch_exceptions=False)
    CliRunner().invoke(evaluate, ["hunter2"], catch_exceptions=False)
    ours, somebody_else_s = told
    assert ours["mlflow.source.name"] == "jrh evaluate"
    assert somebody_else_s["mlflow.source.name"] == sys.argv[0]
    assert "hunter2" not in str(told)
    monkeypatch.setattr(sys, "argv", ["/opt/venv/bin/jrh", "sweep", "hunter2"])
    assert view.context_tags()["mlflow.source.name"] == "jrh", "in a thread of the command"


def test_a_module_of_ours_is_named_without_a_path_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path(view.__file__).resolve().parents[2] / "example.py"), "there"])
    tags = view.context_tags()
    assert tags["mlflow.source.name"] == "python -m jrh_mlflow.example"
    assert not [key for key in tags if key.startswith("mlflow.source.git")]
