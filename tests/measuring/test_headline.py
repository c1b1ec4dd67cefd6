"""Which numbers of an evaluation MLflow gets: the headline or all of them, and where the others are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.errors import RecipeError, TrackingError
from jrh_mlflow.judges.scripted import Grader, Noisy
from jrh_mlflow.measures.axes import AXES
from jrh_mlflow.measuring.evaluation import resume
from jrh_mlflow.measuring.replay import replay_each
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import Item
from jrh_mlflow.show.numbers import with_interval
from jrh_mlflow.tracking.runs import keys
from tests.logged_runs import json_of
from tests.readings import asked

pytestmark = pytest.mark.quick

ALWAYS = {"calls/total", "calls/unparsed", "calls/error", "time/seconds"}
COSTS = {"cost/usd", "cost/usd_per_1k_calls"}
PAIRS = {
    "dark_current/rate",
    "raw_false_preference/rate",
    "positional_false_preference/rate",
    "stable_cross_sensitivity/rate",
    "target_sensitivity/delta_1/rate",
    "miss_by_tie/delta_1/rate",
    "threshold_75/value",
    "filler_preference/rate",
    "slot_lean/value",
    "padding_lean/value",
    "positional_excess/value",
    "target_sensitivity/curve",
}


def with_ends(keys: set[str], metrics: dict[str, float]) -> set[str]:
    """Add both ends of the interval by cluster of every number, where it has them."""
    ends = {f"{key.rpartition('/')[0]}/cluster_ci_{side}" for key in keys for side in ("low", "high")}
    return keys | {key for key in ends if key in metrics}


MATCHED = {"matched_sensitivity/delta_1/rate", "matched_sensitivity/curve"}
NUMBER = r"[<>]?-?\d+\.\d\d"
READING = re.compile(rf"{NUMBER} \[({NUMBER}|–), ({NUMBER}|–)\]")
"""What a tag says of a reading; an end beyond the measured steps is a dash."""
CENSORED = re.compile(r"(≤|>) \d+(, not decided)?")

Evaluate = Callable[..., jrh.Evaluation]


@pytest.fixture(scope="module")
def evaluate(store_uri: str) -> Evaluate:
    def run(judge: object, suite: object, **options: Any) -> jrh.Evaluation:
        return jrh.evaluate(
            judge, suite, **{"experiment": "headline", "tracking_uri": store_uri, "traces": "none", **options}
        )

    return run


@pytest.fixture(scope="module")
def pairs() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=3, depth=2)


@pytest.fixture(scope="module")
def few() -> jrh.Suite:
    """For tests that only look at which numbers are where."""
    return jrh.datasheet_suite(n_tasks=1, depth=1)


def responses(levels: tuple[str, ...]) -> jrh.Suite:
    """A reliability suite by hand: right answers unchanged, repeats, doses of errors; in two groups."""
    conditions = ("baseline", "typos", "stochastic_stability", "error_injection_1", "error_injection_2")
    items = [
        Item(
            id=f"s{number}/{condition}",
            task=f"s{number}",
            condition=condition,
            kind="response",
            instruction="Explain the tides.",
            rubric="Is it right?",
            response=f"{condition} {number}",
            answers=levels,
            expected=None if condition.startswith("error") else levels[number % len(levels)],
            meta={"group": f"Group {number % 2}"},
        )
        for number in range(8)
        for condition in conditions
    ]
    return jrh.Suite(name=f"responses of {len(levels)} levels", items=items)


@pytest.fixture(scope="module")
def paper(evaluate: Evaluate) -> jrh.Evaluation:
    return evaluate(jrh.scripted.profile("Llama8B"), "datasheet-paper")


@pytest.fixture(scope="module")
def report(evaluate: Evaluate) -> jrh.Evaluation:
    return evaluate(Grader(name="g0", accuracy=0.7, flip=0.2, seed=2), responses(("no", "yes")), replicates=3)


@pytest.fixture(scope="module")
def ordinal(evaluate: Evaluate) -> jrh.Evaluation:
    return evaluate(Grader(accuracy=0.7, seed=2), responses(("1", "2", "3")), replicates=2)


@pytest.fixture(scope="module")
def levels(evaluate: Evaluate) -> jrh.Evaluation:
    suite = jrh.datasheet_suite(design="pointwise", n_tasks=3, depth=5)
    return evaluate(lambda shown: len(shown.response or "") > 120, suite)


@pytest.fixture(scope="module")
def lost(evaluate: Evaluate) -> jrh.Evaluation:
    return evaluate(Noisy(unparsed=0.3, seed=1), jrh.datasheet_suite(n_tasks=3, depth=2))


@pytest.fixture(params=["paper", "report", "ordinal", "levels", "lost"])
def done(request: pytest.FixtureRequest) -> jrh.Evaluation:
    found: jrh.Evaluation = request.getfixturevalue(request.param)
    return found


def run_of(store_uri: str, run_id: str) -> Any:
    return MlflowClient(tracking_uri=store_uri).get_run(run_id).data


def loaded(run_id: str, store_uri: str, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Read the table of axes as a user does: MLflow searches the active store."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "headline")
    frame: pd.DataFrame = mlflow.load_table(keys.AXES_TABLE, run_ids=[run_id])
    return frame


def test_a_datasheet_logs_the_headline_and_nothing_else(paper: jrh.Evaluation) -> None:
    wanted = with_ends(PAIRS - {"filler_preference/rate", "padding_lean/value"}, paper.metrics) | ALWAYS
    assert set(paper.logged) == wanted, "the published design has no padding"
    assert {"dark_current/cluster_ci_low", "target_sensitivity/delta_1/cluster_ci_high"} <= wanted


def test_the_matched_ladder_and_natural_pairs_are_headline_where_they_were_asked(
    evaluate: Evaluate, pairs: jrh.Suite
) -> None:
    noisy = evaluate(Noisy(), pairs)
    # A coin never reaches 75 %.
    read = PAIRS - {"threshold_75/value"} | {"threshold_75/at_least"}
    assert set(noisy.logged) == with_ends(read | MATCHED, noisy.metrics) | ALWAYS
    frame = pd.DataFrame({"instruction": "q", "first": list("abcd"), "second": list("efgh"), "better": "1"})
    natural = jrh.natural_suite(frame)
    first = evaluate(jrh.scripted.AlwaysFirst(), natural)
    assert set(first.logged) == with_ends({"natural/accuracy/rate"}, first.metrics) | ALWAYS


def test_a_report_logs_its_mean_its_minimum_and_what_stands_for_each_test(report: jrh.Evaluation) -> None:
    tests = {"baseline/accuracy/rate", "typos/accuracy/rate", "stochastic_stability/accuracy/rate"}
    scores = {"stochastic_stability/unanimity/rate", "error_injection/monotone/rate"}
    across = {f"reliability/{name}" for name in ("mean", "mean_ci_low", "mean_ci_high", "min")}
    assert set(report.logged) == across | with_ends(tests | scores, report.metrics) | ALWAYS
    assert "typos/accuracy/cluster_ci_low" in report.logged


def test_a_report_on_a_scale_logs_the_same_and_its_mean_errors_are_in_the_metrics(ordinal: jrh.Evaluation) -> None:
    assert {"typos/accuracy/rate", "baseline/accuracy/rate"} <= set(ordinal.logged)
    assert {"typos/mae/value", "baseline/mae/value"} <= set(ordinal.metrics)
    assert not [key for key in ordinal.logged if "/mae/" in key or key.startswith(("all/", "category/"))]


def test_a_datasheet_of_single_responses_logs_what_judges_are_compared_by(levels: jrh.Evaluation) -> None:
    families = ("pointwise/separation", "pointwise/matched_separation")
    shares = {f"pointwise/{name}/rate" for name in ("dark_current", "padding", "repeat_agreement")}
    steps = {f"{name}/{last}" for name in families for last in ("delta_5/rate", "curve")}
    assert set(levels.logged) == with_ends(shares | steps, levels.metrics) | ALWAYS


def test_costs_are_logged_and_how_many_are_unknown_where_any_are(evaluate: Evaluate, few: jrh.Suite) -> None:
    asked = 0

    def judge(shown: jrh.Presentation) -> jrh.Answer:
        nonlocal asked
        asked += 1
        return jrh.Answer(value="tie", cost_usd=None if unknown and asked % 2 else 0.001)

    unknown = False
    assert set(evaluate(judge, few, concurrency=1).logged) >= COSTS
    unknown = True
    assert set(evaluate(judge, few, concurrency=1).logged) >= {*COSTS, "cost/unknown_calls"}


def test_what_is_logged_is_exactly_what_the_store_has(done: jrh.Evaluation, store_uri: str) -> None:
    assert run_of(store_uri, done.run_id).metrics == done.logged
    assert done.logged.items() < done.metrics.items()


def test_curves_have_a_point_at_each_step(paper: jrh.Evaluation, store_uri: str) -> None:
    history = MlflowClient(store_uri).get_metric_history(paper.run_id, "target_sensitivity/curve")
    found = {point.step: point.value for point in history}
    assert found == {step: paper.metrics[f"target_sensitivity/delta_{step}/rate"] for step in range(1, 6)}


def test_all_logs_every_number_and_both_settings_measure_the_same_ones(
    evaluate: Evaluate, store_uri: str, lost: jrh.Evaluation, report: jrh.Evaluation
) -> None:
    noisy, grader = Noisy(unparsed=0.3, seed=1), Grader(name="g0", accuracy=0.7, flip=0.2, seed=2)
    for few, judge, replicates in ((lost, noisy, 1), (report, grader, 3)):
        done = evaluate(judge, few.suite, metrics="all", replicates=replicates)
        assert run_of(store_uri, done.run_id).metrics == done.logged == done.metrics
        assert done.metrics["calls/verdict"] > 0
        assert {**few.metrics, "time/seconds": 0} == {**done.metrics, "time/seconds": 0}


def test_every_number_is_in_the_json(done: jrh.Evaluation, store_uri: str) -> None:
    data = json_of(store_uri, done.run_id, "datasheet.json")
    assert data["metrics"] == done.metrics
    for axis, reading in data["estimates"].items():
        if reading["kind"] == "estimate":
            bound = {"left": "at_most", "right": "at_least"}.get(reading["censored"], reading["statistic"])
            assert done.metrics[f"{axis}/{bound}"] == reading["value"]


def test_every_axis_is_a_row_of_a_table_that_mlflow_loads(
    done: jrh.Evaluation, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = loaded(done.run_id, store_uri, monkeypatch)
    columns = "axis value n excluded ci_low ci_high cluster_low cluster_high n_clusters method detectable reason"
    assert list(frame.columns) == columns.split()
    rows = {row["axis"]: row for row in frame.to_dict("records")}
    readings = dict(done.sheet.estimates)
    for name, axes in getattr(done.sheet, "categories", {}).items():
        spelled = name.casefold().replace(" ", "_")
        readings |= {f"category/{spelled}/{axis}": reading for axis, reading in axes.items()}
    assert list(rows) == list(readings)
    for axis, reading in readings.items():
        row = rows[axis]
        assert (row["n"], row["excluded"]) == (reading.n, reading.excluded)
        if isinstance(reading, Estimate):
            numbers = ("value", "ci_low", "ci_high", "cluster_low", "cluster_high", "n_clusters")
            for name in numbers:
                assert row[name] == pytest.approx(getattr(reading, name)) or pd.isna(row[name])
            assert row["method"] == reading.method
            assert pd.isna(row["reason"])
        else:
            assert pd.isna(row["value"])
            assert row["reason"].startswith(reading.reason)


def test_the_table_is_one_that_the_mlflow_ui_shows(paper: jrh.Evaluation, store_uri: str) -> None:
    listed = json.loads(run_of(store_uri, paper.run_id).tags["mlflow.loggedArtifacts"])
    assert listed == [{"path": keys.AXES_TABLE, "type": "table"}]
    table = json_of(store_uri, paper.run_id, keys.AXES_TABLE)
    assert set(table) == {"columns", "data"}
    assert {len(row) for row in table["data"]} == {len(table["columns"])}


def test_headline_readings_are_tags_with_their_interval(done: jrh.Evaluation, store_uri: str) -> None:
    tags = run_of(store_uri, done.run_id).tags
    readings = dict(done.sheet.headline)
    assert readings or done.withheld
    for axis, reading in readings.items():
        text = tags[f"jrh.{axis}"]
        assert (CENSORED if reading.censored else READING).fullmatch(text), (axis, text)
        if reading.cluster_low is not None and reading.cluster_high is not None and not reading.censored:
            assert text == with_interval(reading)


def test_the_tags_of_the_published_judge_read_as_published(paper: jrh.Evaluation, store_uri: str) -> None:
    tags = run_of(store_uri, paper.run_id).tags
    sheet = paper.datasheet.estimates
    dark = sheet["dark_current"]
    assert tags["jrh.dark_current"] == f"0.67 [{dark.cluster_low:.2f}, {dark.cluster_high:.2f}]"
    assert tags["jrh.threshold_75"].startswith("4.00 [")
    assert tags["jrh.target_sensitivity/delta_1"].startswith("0.61 [")


def test_the_mean_of_a_report_is_a_tag_with_its_interval(report: jrh.Evaluation, store_uri: str) -> None:
    summary = report.report.summary
    ends = f"[{summary['mean_ci_low']:.2f}, {summary['mean_ci_high']:.2f}]"
    assert run_of(store_uri, report.run_id).tags["jrh.reliability/mean"] == f"{summary['mean']:.2f} {ends}"


def test_a_withheld_axis_has_neither_a_metric_nor_a_tag_with_a_number(lost: jrh.Evaluation, store_uri: str) -> None:
    data = run_of(store_uri, lost.run_id)
    assert {"dark_current", "threshold_75"} <= set(lost.withheld)
    for axis in lost.withheld:
        assert f"jrh.{axis}" not in data.tags
        assert not [key for key in data.metrics if key.rpartition("/")[0] == axis]


def test_every_headline_axis_of_the_interface_is_declared_at_its_axis() -> None:
    found = {axis.main_key for axis in AXES if axis.headline and not axis.name.startswith("pointwise/")}
    spelled = {key.rpartition("/")[0] for key in PAIRS | MATCHED if not key.endswith("/curve")}
    assert found == spelled | {"natural/accuracy"}
    curves = {axis.name for axis in AXES if axis.headline and axis.curve}
    assert {name for name in curves if not name.startswith("pointwise/")} == {
        key.rpartition("/")[0] for key in PAIRS | MATCHED if key.endswith("/curve")
    }


@pytest.mark.slow
def test_the_parent_of_a_shift_logs_what_a_criterion_buys_and_costs(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, where = jrh.scripted.profile("Qwen32B"), {"tracking_uri": store_uri, "experiment": "headline"}
    suite = jrh.datasheet_suite(design="paper", n_tasks=3, depth=2)
    shift = jrh.criterion_shift(judge, suite, **where, traces="none")
    axes = ("raw_false_preference", "tie_rate/delta_0_same", "target_sensitivity/delta_1", "miss_by_tie/delta_1")
    assert set(shift.logged) == {f"criterion_shift/strict/{axis}/value" for axis in axes}
    assert run_of(store_uri, shift.run_id).metrics == shift.logged
    assert shift.logged.items() < shift.metrics.items()
    assert json_of(store_uri, shift.run_id, "criterion_shift.json")["metrics"] == shift.metrics
    table = loaded(shift.run_id, store_uri, monkeypatch)
    assert list(table["axis"]) == [f"criterion_shift/{axis}" for axis in shift.shifts]
    read = PAIRS | {"threshold_75/at_least", "threshold_75/at_most"}
    assert {set(one.logged) <= with_ends(read, one.metrics) | ALWAYS for one in shift.arms.values()} == {True}
    every = jrh.criterion_shift(judge, suite, **where, traces="none", metrics="all")
    assert every.logged == every.metrics == shift.metrics
    assert all(one.logged == one.metrics for one in every.arms.values())


def test_an_evaluation_that_waited_on_disk_is_logged_as_it_was_asked_for(
    evaluate: Evaluate, few: jrh.Suite, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: object, **kwargs: object) -> None:
        raise OSError("the store is down")

    outbox = tmp_path / ".jrh" / "outbox"
    for metrics in ("headline", "all"):
        with monkeypatch.context() as patched:
            patched.setattr(MlflowClient, "log_batch", down)
            with pytest.raises(TrackingError):
                evaluate(jrh.scripted.AlwaysTie(), few, metrics=metrics)
        (kept,) = outbox.iterdir()
        done = resume(kept)
        assert run_of(store_uri, done.run_id).metrics == done.logged
        assert (done.logged == done.metrics) == (metrics == "all")


def test_a_run_that_was_cut_short_after_its_numbers_keeps_those_it_has(
    evaluate: Evaluate, few: jrh.Suite, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*args: object, **kwargs: object) -> None:
        raise OSError("the store is down")

    with monkeypatch.context() as patched:
        patched.setattr(MlflowClient, "set_terminated", down)
        with pytest.raises(TrackingError):
            evaluate(jrh.scripted.Oracle(), few)
    done = evaluate(jrh.scripted.Oracle(), few, metrics="all")
    assert run_of(store_uri, done.run_id).metrics == done.logged
    assert done.logged.items() < done.metrics.items()


@pytest.mark.parametrize("wrong", ["some", "", None, True])
def test_other_words_are_refused_before_anything_is_touched(wrong: Any, pairs: jrh.Suite, tmp_path: Path) -> None:
    where: dict[str, Any] = {"tracking_uri": f"sqlite:///{tmp_path}/no.db", "metrics": wrong}
    space = {"models": ["openai/gpt-4o-mini"]}
    for attempt in (
        lambda: jrh.evaluate("openai/gpt-4o-mini", pairs, **where),
        lambda: jrh.criterion_shift("openai/gpt-4o-mini", pairs, **where),
        lambda: jrh.sweep(space, pairs, n_trials=1, **where),
        lambda: replay_each(tmp_path / "calls.csv", **where),
    ):
        with pytest.raises(RecipeError, match="`metrics` must be headline or all"):
            attempt()
    assert not list(tmp_path.iterdir())


def test_commands_refuse_other_words_in_dry_runs_too(tmp_path: Path) -> None:
    store = ["--tracking-uri", f"sqlite:///{tmp_path}/no.db"]
    (tmp_path / "space.yaml").write_text("models: [openai/gpt-4o-mini]\n", encoding="utf-8")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("judge: openai/gpt-4o-mini\nmetrics: some\n", encoding="utf-8")
    for command in (
        ["evaluate", "--model", "openai/gpt-4o-mini", "--dry-run", "--metrics", "some"],
        ["shift", "--judge", "scripted:Oracle", "--metrics", "some"],
        ["sweep", str(tmp_path / "space.yaml"), "--dry-run", "--metrics", "some"],
        ["replay", "calls.csv", "--metrics", "some"],
        ["evaluate", str(recipe), "--dry-run"],
    ):
        done = CliRunner().invoke(group, [*command, *store])
        assert done.exit_code == 2 or isinstance(done.exception, RecipeError), (command, done.output)
        assert "headline" in f"{done.output} {done.exception}", command
    assert not (tmp_path / "no.db").exists()


def test_commands_and_recipes_take_the_option(store_uri: str, few: jrh.Suite, tmp_path: Path) -> None:
    where = ["--tracking-uri", store_uri, "--experiment", "headline", "--json"]
    recipe = tmp_path / "recipe.yaml"
    few.save(tmp_path / "suite")
    text = f"judge: scripted:AlwaysTie\nsuite: {tmp_path / 'suite'}\nmetrics: all\n"
    recipe.write_text(text, encoding="utf-8")
    for command, every in (
        (["evaluate", str(recipe)], True),
        (["evaluate", str(recipe), "--metrics", "headline"], False),
    ):
        done = CliRunner().invoke(group, [*command, *where])
        assert done.exit_code == 0, done.output
        (told,) = json.loads(done.stdout)
        assert (run_of(store_uri, told["run_id"]).metrics == told["metrics"]) == every


def test_recorded_judgments_log_as_many_as_is_asked_for(store_uri: str, few: jrh.Suite, tmp_path: Path) -> None:
    calls_frame(asked(jrh.scripted.AlwaysFirst(), few)).to_parquet(tmp_path / "calls.parquet")
    headline, every = (
        replay_each(tmp_path / "calls.parquet", tracking_uri=store_uri, experiment="headline", **metrics)[0]
        for metrics in ({}, {"metrics": "all"})
    )
    assert set(headline.logged) < set(headline.metrics)
    assert run_of(store_uri, every.run_id).metrics == every.logged == every.metrics


@pytest.mark.slow
def test_runs_of_both_settings_are_compared_and_vote_together(
    evaluate: Evaluate, report: jrh.Evaluation, store_uri: str
) -> None:
    other = evaluate(Grader(name="g1", accuracy=0.8), report.suite, replicates=3, metrics="all")
    ids = [report.run_id, other.run_id]
    compared = jrh.compare(ids, tracking_uri=store_uri, log=False)
    assert {"g0 (simulated)", "g1 (simulated)"} == set(compared.contrasts.judges)
    panel = jrh.jury(ids, tracking_uri=store_uri, log=False)
    assert "jury/accuracy/rate" in panel.metrics


@pytest.mark.slow
def test_trials_of_a_sweep_keep_their_own_metrics_and_are_chosen_by_numbers_that_are_not_logged(
    store_uri: str, pairs: jrh.Suite
) -> None:
    judges = {"tie": jrh.scripted.AlwaysTie, "first": jrh.scripted.AlwaysFirst}
    space = jrh.Space(
        choices={"kind": list(judges)},
        judge=lambda choice: judges[choice["kind"]](),
        objectives={"no_preference/rate": "maximize"},
        constraints=["tie_rate/vacuum/n >= 1"],
    )
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    done = jrh.sweep(space, suite, n_trials=2, tracking_uri=store_uri, experiment="headline", traces="none")
    assert done.best is not None
    assert done.best.configuration.params["kind"] == "tie"
    for run_id in done.trials["run_id"]:
        metrics = run_of(store_uri, run_id).metrics
        assert "sweep/reliability" in metrics
        assert "no_preference/rate" not in metrics
