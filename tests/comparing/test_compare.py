"""`jrh.compare` on evaluations in a real MLflow store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

import jrh_mlflow as jrh
from jrh_mlflow.cli.compare import compare as command
from jrh_mlflow.comparing import compare as comparing
from jrh_mlflow.comparing.compare import Comparison
from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.runs.read import load_runs, suite_differences
from tests.logged_runs import numbers_of

EVIL = "<script>alert(1)</script> <img src=x onerror=alert(1)> [x](javascript:alert(1))"


def pointwise_suite(
    *, name: str = "hand", tests: tuple[str, ...] = ("typos", "markdown"), suffix: str = ""
) -> jrh.Suite:
    items = [
        Item(
            id=f"s{number}/{test}",
            task=f"s{number}",
            condition=test,
            kind="response",
            instruction="Explain the tides.",
            rubric="Is it right?",
            response=f"{test} answer number {number} {EVIL}{suffix}",
            answers=("no", "yes"),
            expected=("no", "yes")[number % 2],
            replicates=3 if test == "stochastic_stability" else 1,
        )
        for number in range(12)
        for test in ("baseline", *tests)
    ]
    return jrh.Suite(name=name, items=items)


def always_no(presentation: jrh.Presentation) -> jrh.Answer:
    return jrh.Answer(value="no", cost_usd=0.001)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def runs(store_uri: str, home: None) -> dict[str, str]:
    """Run ids by judge, on one suite of pairs and on one of responses."""
    pairs, points = jrh.datasheet_suite(n_tasks=6, depth=1), pointwise_suite()
    judged = {
        "first": (jrh.scripted.AlwaysFirst(), pairs),
        "oracle": (jrh.scripted.Oracle(), pairs),
        "again": (jrh.scripted.Oracle(), pairs),
        "right": (jrh.scripted.Oracle(), points),
        "no": (always_no, points),
    }
    options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    return {name: jrh.evaluate(judge, suite, **options).run_id for name, (judge, suite) in judged.items()}


def test_a_run_is_asked_for_once_however_many_of_its_files_are_read(
    runs: dict[str, str], store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get_run = SqlAlchemyStore.get_run
    monkeypatch.setattr(
        SqlAlchemyStore, "get_run", lambda store, run_id: asked.append(run_id) or get_run(store, run_id)
    )
    both = [runs["right"], runs["no"]]
    assert [run.run_id for run in load_runs(both, tracking_uri=store_uri)] == both
    assert asked == both


@pytest.fixture(scope="module")
def points(runs: dict[str, str], store_uri: str) -> Comparison:
    return jrh.compare([runs["right"], f"runs:/{runs['no']}"], tracking_uri=store_uri)


def artifact(compared: Comparison, store_uri: str, path: str, folder: Path) -> Path:
    assert compared.run_id is not None
    return Path(MlflowClient(tracking_uri=store_uri).download_artifacts(compared.run_id, path, str(folder)))


def test_the_oracle_is_told_from_a_judge_that_takes_the_first(runs, store_uri):
    found = jrh.compare([runs["first"], runs["oracle"]], tracking_uri=store_uri, log=False)
    assert found.contrasts.judges == ("AlwaysFirst (simulated)", "Oracle (simulated)")
    assert found.contrasts.letters["dark_current"] == {"Oracle (simulated)": "a", "AlwaysFirst (simulated)": "b"}
    assert found.run_id is None
    assert "Simulated judges" in found.to_markdown()


def test_the_same_judge_twice_gets_two_names_and_one_letter(runs, store_uri):
    found = jrh.compare([runs["oracle"], runs["again"]], tracking_uri=store_uri, log=False).contrasts
    assert found.judges == tuple(f"Oracle (simulated) {runs[name][:8]}" for name in ("oracle", "again"))
    assert not found.different
    assert {one.p for one in found.differences} == {1.0}


def test_a_comparison_is_a_run_of_its_own_with_everything_in_it(points, runs, store_uri, tmp_path):
    run = MlflowClient(tracking_uri=store_uri).get_run(points.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["jrh.kind"] == "compare"
    assert run.data.tags["jrh.simulated"] == "true"
    assert run.data.tags["mlflow.note.content"].splitlines()[2].startswith("**")
    assert run.data.params["compare.runs"] == f"{runs['right']}, {runs['no']}"
    assert run.data.params["suite.sha256"] == pointwise_suite().sha256
    assert run.data.metrics == {
        "compare/judges": 2,
        "compare/n_pairs": 4,
        "compare/n_different": len(points.contrasts.different),
    }
    folder = artifact(points, store_uri, "", tmp_path)
    assert {path.name for path in (folder / "figures").iterdir()} == {"heatmap.svg", "cost_curve.svg"}
    assert {path.stem for path in (folder / "tables").iterdir()} >= {"scores", "differences", "by_judge", "by_test"}
    facts = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    assert facts["judges"] == ["Oracle (simulated)", "always_no"]
    assert facts["cells"]["typos"]["always_no"]["value"] == 0.5
    assert len(pd.read_csv(folder / "tables" / "differences.csv")) == 4
    assert (folder / "comparison.md").read_text(encoding="utf-8") == points.to_markdown()


def test_it_goes_to_the_experiment_of_the_first_run_unless_told_otherwise(points, store_uri):
    client = MlflowClient(tracking_uri=store_uri)
    run = client.get_run(points.run_id)
    assert client.get_experiment(run.info.experiment_id).name == "tests"


def test_the_numbers_are_those_of_the_runs(points, runs, store_uri):
    logged = numbers_of(store_uri, runs["no"])
    assert points.contrasts.cells["typos"]["always_no"].value == logged["typos/accuracy/rate"]
    assert points.contrasts.cells["baseline"]["always_no"].value == logged["baseline/accuracy/rate"]
    assert points.contrasts.costs["always_no"]["usd"] == pytest.approx(logged["cost/usd"])
    assert points.contrasts.costs["always_no"]["usd_per_accuracy_point"] == pytest.approx(
        logged["cost/usd_per_accuracy_point"]
    )


def test_the_page_shows_the_worst_items_with_their_texts_as_text(points, store_uri, tmp_path):
    html = artifact(points, store_uri, "comparison.html", tmp_path).read_text(encoding="utf-8")
    assert html.count("<article") == 10, "ten of the wrong judge, none of the oracle"
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script" not in html
    assert "<img src=x" not in html
    assert 'expected <b>yes</b>, given <b class="wrong">no</b>' in html


def test_runs_on_different_suites_are_refused_with_what_differs(runs, store_uri, home):
    other = pointwise_suite(name="other", tests=("typos", "padding"))
    where = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    run_id = jrh.evaluate(always_no, other, **where).run_id
    with pytest.raises(RecipeError) as refused:
        jrh.compare([runs["right"], run_id], tracking_uri=store_uri)
    text = str(refused.value)
    assert "names 'hand' and 'other'" in text
    assert pointwise_suite().sha256[:12] in text
    assert other.sha256[:12] in text
    assert "1 conditions in the first only (markdown)" in text
    assert "1 conditions in the second only (padding)" in text
    assert "12 items in the first only (s0/markdown, s1/markdown, s10/markdown, …)" in text
    assert f"--suite runs:/{runs['right']}/suite" in text


def test_changed_items_and_another_order_are_told_apart():
    suite = pointwise_suite()
    changed = pointwise_suite(suffix="!")
    assert "36 item(s) changed (s0/baseline, s0/markdown, s0/typos, …)" in suite_differences(suite, changed)
    turned = jrh.Suite(name="hand", items=reversed(suite.items))
    assert suite_differences(suite, turned)[1:] == ["the order of the items"]


def test_a_truncated_run_is_compared_on_what_it_asked_and_says_so(runs, store_uri, home):
    seen = 0

    def enough(record: object) -> str | None:
        nonlocal seen
        seen += 1
        return "enough" if seen >= 20 else None

    options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    short = jrh.evaluate(jrh.scripted.AlwaysFirst(), pointwise_suite(), stop=enough, concurrency=1, **options)
    assert short.truncated
    found = jrh.compare([short.run_id, runs["no"]], tracking_uri=store_uri, log=False)
    assert found.contrasts.n_calls == len(short.calls) < 36
    text = found.to_markdown()
    assert f"AlwaysFirst (simulated) is truncated ({short.truncated})" in text
    assert f"Compared on the {len(short.calls)} calls" in text


def test_a_run_is_found_by_the_beginning_of_its_id(runs, store_uri):
    one, two = load_runs([runs["right"][:10], runs["no"]], tracking_uri=store_uri)
    assert (one.run_id, one.judge, one.simulated) == (runs["right"], "Oracle (simulated)", True)
    assert (two.judge, two.simulated, two.cost_usd) == ("always_no", False, pytest.approx(0.036))
    assert one.suite.sha256 == two.suite.sha256 == two.params["suite.sha256"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["right"], "at least two runs"),
        (["right", "right"], "is named twice"),
        (["right", "f" * 32], "There is no run ffffffff"),
        (["right", "0123456789"], "No finished evaluation in this store begins with 0123456789"),
        (["right", "my run"], "'my run' is no run"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_by_name(names, text, runs, store_uri):
    with pytest.raises(RecipeError, match=text):
        jrh.compare([runs.get(name, name) for name in names], tracking_uri=store_uri)


def test_runs_on_one_suite_without_a_call_in_common_are_refused_for_that_reason(runs, store_uri, monkeypatch):
    loaded = load_runs([runs["right"], runs["no"]], tracking_uri=store_uri)
    halves = [replace(run, calls=run.calls.iloc[part::2], truncated=f"until {part}") for part, run in enumerate(loaded)]
    monkeypatch.setattr(comparing, "load_runs", lambda *_, **__: halves)
    with pytest.raises(RecipeError, match=r"no call that all .*: until 0; .*: until 1"):
        jrh.compare([runs["right"], runs["no"]], tracking_uri=store_uri, log=False)


def test_a_text_is_not_a_list_of_runs(runs, store_uri):
    with pytest.raises(RecipeError, match="at least two runs"):
        jrh.compare(runs["right"], tracking_uri=store_uri)


def test_what_is_not_a_finished_evaluation_is_refused(points, runs, store_uri):
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_run(runs["right"]).info.experiment_id
    strange = client.create_run(experiment).info.run_id
    running = client.create_run(experiment, tags={"jrh.kind": "evaluate"}).info.run_id
    tags = {"jrh.kind": "evaluate", "jrh.schema_version": "1"}
    empty = client.create_run(experiment, tags=tags).info.run_id
    client.set_terminated(empty, "FINISHED")
    for run_id, text in {
        strange: "was not logged by jrh",
        points.run_id: "is of kind compare",
        running: "is RUNNING, not FINISHED",
        empty: "has no artifact calls/calls.parquet",
    }.items():
        with pytest.raises(RecipeError, match=text):
            jrh.compare([runs["right"], run_id], tracking_uri=store_uri)
    client.set_terminated(running, "KILLED")


def test_a_store_that_cannot_be_reached_is_a_tracking_error_that_hides_the_password(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TrackingError, match="cannot be reached") as refused:
        jrh.compare(["a" * 32, "b" * 32], tracking_uri="http://me:secret@127.0.0.1:9")
    assert "secret" not in str(refused.value)


def test_the_command_prints_logs_and_writes_html(runs, store_uri, tmp_path):
    arguments = [runs["right"], runs["no"], "--tracking-uri", store_uri, "--html", str(tmp_path / "page.html")]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    assert "Comparison of 2 judges on hand" in done.output
    assert "logged: run " in done.output
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_command_speaks_json_and_can_leave_mlflow_alone(runs, store_uri):
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_run(runs["right"]).info.experiment_id
    before = len(client.search_runs([experiment], "tags.`jrh.kind` = 'compare'"))
    done = CliRunner().invoke(command, [runs["right"], runs["no"], "--tracking-uri", store_uri, "--json", "--no-log"])
    facts = json.loads(done.output)
    assert facts["run_id"] is None
    assert [run["run_id"] for run in facts["runs"]] == [runs["right"], runs["no"]]
    assert len(client.search_runs([experiment], "tags.`jrh.kind` = 'compare'")) == before
