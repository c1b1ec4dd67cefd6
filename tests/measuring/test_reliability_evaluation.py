"""From a table of labelled responses to a logged report: every step as a user takes it, and real parts throughout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.entities import Run

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import JudgeError, RecipeError, SuiteError
from tests import scripted_writer
from tests.generation.tools import LABELS, RUBRIC, rows, run
from tests.logged_runs import numbers_of
from tests.loopback import LoopbackServer, error_reply
from tests.reliability_tools import (
    JUDGE,
    PRICE,
    Cast,
    evaluate_arguments,
    generate_arguments,
    jrh_json,
    write_table,
)

SCALE = ("1", "2", "3", "4")
TESTS = (
    "format_invariance_1",
    "format_invariance_2",
    "format_invariance_3",
    "label_flip",
    "semantic_paraphrase",
    "verbosity_bias_long",
    "verbosity_bias_short",
)
STABILITY = ("stochastic_stability", "stochastic_stability_deep")
STATISTICS = ("rate", "ci_low", "ci_high", "cluster_ci_low", "cluster_ci_high", "n", "excluded")


@dataclass(frozen=True, kw_only=True)
class Made:
    """A suite on disk, and what the commands printed."""

    folder: Path
    generation: dict[str, Any]
    judged: dict[str, dict[str, Any]]
    """Judge to what its evaluation printed."""
    counts: dict[str, int]
    """Of the model server after the generation and after everything."""

    @property
    def suite(self) -> jrh.Suite:
        return jrh.load_suite(self.folder)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(folder / ".jrh"))
        patch.delenv("OPENAI_API_KEY", raising=False)
        yield folder


@pytest.fixture(scope="module")
def offline(store_uri: str, home: Path) -> Made:
    """Twenty rows, two labels, no key, no model: a scripted writer writes and scripted judges judge."""
    table, folder = write_table(home / "answers.csv", rows()), home / "offline"
    recipe = {
        "dataset": str(table),
        "rubric": RUBRIC,
        "labels": list(LABELS),
        "generator": {"callable": f"{scripted_writer.__file__}:write"},
        "tracking_uri": store_uri,
        "experiment": "tests",
    }
    (home / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    generation = jrh_json("generate", home / "recipe.yaml", "--allow-code", "-o", folder)
    judged = {
        name: jrh_json(*evaluate_arguments(folder, store_uri, "--judge", f"scripted:{name}"))[0]
        for name in ("Oracle", "LongerWins")
    }
    return Made(folder=folder, generation=generation, judged=judged, counts={})


@pytest.fixture(scope="module")
def played(store_uri: str, home: Path) -> Made:
    """Eight rows on a scale; one server is generator, validator and judge, who takes level 1 for level 2."""
    dataset, folder = rows(8, levels=SCALE), home / "played"
    table, cast = write_table(home / "essays.csv", dataset), Cast(dataset, scale=(1, 4))
    cast.says = lambda item: "2" if item.condition == "synthetic_ordinal" and item.expected == "1" else item.expected
    with pytest.MonkeyPatch.context() as patch, LoopbackServer(reply=cast) as server:
        patch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
        patch.setenv("OPENAI_BASE_URL", server.url)
        generation = jrh_json(*generate_arguments(table, store_uri, server.url, folder, "--scale", "1-4"))
        before = dict(server.counts)
        cast.learn(jrh.load_suite(folder))
        model = ("--model", JUDGE, "--api-base", server.url, "--price", PRICE, "--max-tokens", 64)
        judged = {"judge": jrh_json(*evaluate_arguments(folder, store_uri, *model))[0]}
        counts = {
            f"{when}/{name}": n for when, of in (("made", before), ("all", server.counts)) for name, n in of.items()
        }
    return Made(folder=folder, generation=generation, judged=judged, counts=counts)


def logged(store_uri: str, run_id: str) -> Run:
    return MlflowClient(tracking_uri=store_uri).get_run(run_id)


def evaluate(judge: object, suite: jrh.Suite, store_uri: str, **options: Any) -> jrh.Evaluation:
    quiet = {"traces": "none", "progress": False, **options}
    return jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", **quiet)


def part_of(suite: jrh.Suite, *conditions: str, n: int = 20) -> jrh.Suite:
    tasks = list(dict.fromkeys(item.task for item in suite.items))[:n]
    items = [item for item in suite.items if item.condition in ("baseline", *conditions) and item.task in tasks]
    return jrh.Suite(name="part", items=items)


# The two ways through.


@pytest.mark.slow
def test_a_csv_of_twenty_rows_becomes_a_suite_and_the_oracle_is_right_everywhere(offline: Made) -> None:
    conditions = offline.suite.manifest["conditions"]
    assert conditions == {"baseline": 20, **dict.fromkeys((*TESTS, STABILITY[0]), 20), STABILITY[1]: 5}
    metrics = offline.judged["Oracle"]["metrics"]
    assert {metrics[f"{test}/accuracy/rate"] for test in ("baseline", "all", *TESTS, *STABILITY)} == {1.0}
    assert {metrics[f"{test}/unanimity/rate"] for test in STABILITY} == {1.0}
    assert (metrics["reliability/mean"], metrics["reliability/min"], metrics["reliability/n_tests"]) == (1, 1, 8)
    assert metrics["calls/total"] == metrics["calls/verdict"] == offline.suite.manifest["n_calls"] == 270
    assert offline.judged["Oracle"]["withheld"] == {}


def test_a_judge_that_counts_words_passes_layout_tests_and_fails_where_length_changes(offline: Made) -> None:
    metrics = offline.judged["LongerWins"]["metrics"]
    assert {metrics[f"{test}/consistency/rate"] for test in TESTS if test.startswith("format")} == {1.0}
    assert metrics["verbosity_bias_long/consistency/rate"] == 1
    assert metrics["verbosity_bias_short/consistency/rate"] == 0
    assert metrics["label_flip/moved/rate"] < 0.5
    assert metrics["stochastic_stability/unanimity/rate"] == 1
    assert metrics["reliability/min"] < metrics["reliability/mean"] < 1


def test_one_server_plays_generator_validator_and_judge(played: Made) -> None:
    made, judged = played.generation["metrics"], played.judged["judge"]["metrics"]
    assert made["calls/total"] == played.counts["made/requests"] > 0
    assert judged["calls/total"] == played.counts["all/requests"] - played.counts["made/requests"]
    assert judged["calls/total"] == judged["calls/verdict"] == played.suite.manifest["n_calls"]
    assert made["generate/items"] + made["generate/set_aside"] == 7 * 8 + 8 + 5 + 4 * 8
    confirmed = {item.meta["validator"] == item.expected for item in played.suite.items if "validator" in item.meta}
    assert confirmed == {True, False}  # False: tests that need no confirmation
    assert {judged[f"{test}/accuracy/rate"] for test in ("baseline", *TESTS)} == {1.0}


# What is logged.


def test_every_number_stands_under_its_public_key(played: Made, store_uri: str) -> None:
    facts = played.judged["judge"]
    metrics = numbers_of(store_uri, facts["run_id"])
    assert metrics == facts["metrics"]
    assert logged(store_uri, facts["run_id"]).data.metrics.items() < metrics.items()
    for test in ("baseline", *TESTS, *STABILITY, "synthetic_ordinal", "all"):
        assert {f"{test}/accuracy/{statistic}" for statistic in STATISTICS} <= metrics.keys()
    for value in ("mae", "ccc", "pearson", "spearman", "qwk"):
        assert f"synthetic_ordinal/{value}/value" in metrics
    low = [item for item in played.suite.items if item.condition == "synthetic_ordinal" and item.expected == "1"]
    n = metrics["synthetic_ordinal/mae/n"]
    assert metrics["synthetic_ordinal/mae/value"] == pytest.approx(len(low) / n)
    assert metrics["synthetic_ordinal/accuracy/rate"] == pytest.approx(1 - len(low) / n)
    assert metrics["synthetic_ordinal/within_one/rate"] == 1
    assert metrics["reliability/min"] == metrics["synthetic_ordinal/accuracy/rate"] < metrics["reliability/mean"] < 1
    assert metrics["cost/usd_per_accuracy_point"] == pytest.approx(
        metrics["cost/usd"] / (100 * metrics["all/accuracy/rate"])
    )
    assert all(isinstance(value, float) for value in metrics.values())


def test_a_run_says_what_was_judged_how_and_by_whom(played: Made, offline: Made, store_uri: str) -> None:
    data = logged(store_uri, played.judged["judge"]["run_id"]).data
    assert (data.tags["jrh.kind"], data.tags["jrh.simulated"]) == ("evaluate", "false")
    assert data.params["judge.model"] == JUDGE
    assert data.params["judge.max_tokens"] == "64"
    assert data.params["suite.sha256"] == played.suite.sha256
    assert "synthetic ordinal" in data.tags["jrh.profile"]
    assert data.tags["mlflow.note.content"].splitlines()[2].startswith("**")
    assert logged(store_uri, offline.judged["Oracle"]["run_id"]).data.tags["jrh.simulated"] == "true"


@pytest.mark.parametrize("way", ["offline", "played"])
def test_an_evaluation_links_to_the_run_that_made_its_suite(
    way: str, store_uri: str, request: pytest.FixtureRequest
) -> None:
    made: Made = request.getfixturevalue(way)
    for facts in made.judged.values():
        source = logged(store_uri, facts["run_id"]).data.tags["jrh.generate_run_id"]
        assert source == made.generation["run_id"]
        data = logged(store_uri, source).data
        assert data.tags["jrh.kind"] == "generate"
        assert data.params["suite.sha256"] == facts["suite"]["sha256"]


def test_artifacts_lie_under_their_public_names(played: Made, store_uri: str, tmp_path: Path) -> None:
    facts = played.judged["judge"]
    folder = Path(MlflowClient(tracking_uri=store_uri).download_artifacts(facts["run_id"], "", str(tmp_path)))
    assert (folder / "datasheet.md").read_text(encoding="utf-8").startswith("# Judge reliability: ")
    assert (folder / "figures" / "reliability.svg").read_text(encoding="utf-8").startswith("<svg xmlns=")
    assert (folder / "figures" / "cost_curve.svg").is_file()
    assert jrh.load_suite(folder / "suite").sha256 == played.suite.sha256
    assert jrh.load_suite(folder / "suite").origin["generate_run_id"] == played.generation["run_id"]
    calls = pd.read_parquet(folder / "calls" / "calls.parquet")
    assert len(calls) == facts["metrics"]["calls/total"]
    assert set(calls["order"]) == {""}
    assert "as asked" in set(calls["rationale"])


def test_measuring_the_logged_calls_again_gives_the_logged_report(played: Made, store_uri: str, tmp_path: Path) -> None:
    client, run_id = MlflowClient(tracking_uri=store_uri), played.judged["judge"]["run_id"]
    calls = pd.read_parquet(client.download_artifacts(run_id, "calls/calls.parquet", str(tmp_path)))
    sheet = json.loads(Path(client.download_artifacts(run_id, "datasheet.json", str(tmp_path))).read_text("utf-8"))
    again = jrh.measure(calls, labels=played.suite.labels)
    assert isinstance(again, jrh.ReliabilityReport)
    assert json.loads(json.dumps(again.to_dict())) == {key: sheet[key] for key in again.to_dict()}
    assert sheet["suite_sha256"] == played.suite.sha256


# What `jrh.evaluate` returns.


def test_a_report_and_a_datasheet_name_each_other(offline: Made, store_uri: str) -> None:
    points = evaluate(jrh.scripted.Grader(), part_of(offline.suite, "label_flip"), store_uri)
    pairs = evaluate(jrh.scripted.Oracle(), jrh.datasheet_suite(n_tasks=2, depth=1), store_uri)
    assert points.report is points.sheet
    assert pairs.datasheet is pairs.sheet
    with pytest.raises(AttributeError, match=r"its result is `\.report`"):
        _ = points.datasheet
    with pytest.raises(AttributeError, match=r"its result is `\.datasheet`"):
        _ = pairs.report
    assert jrh.measure(points.calls, labels=points.suite.labels) == points.report


def test_replicates_multiply_those_of_the_items(offline: Made, store_uri: str) -> None:
    suite = part_of(offline.suite, *STABILITY, n=4)
    once, twice = (evaluate(jrh.scripted.Grader(flip=0.5), suite, store_uri, replicates=k) for k in (1, 2))
    per_item = {item.id: item.replicates for item in suite.items}
    assert set(per_item.values()) == {1, 3, 10}
    assert once.calls.groupby("suite_item").size().to_dict() == per_item
    assert twice.calls.groupby("suite_item").size().to_dict() == {name: 2 * k for name, k in per_item.items()}
    assert "baseline/unanimity" not in once.report.estimates
    assert "baseline/unanimity" in twice.report.estimates


def test_a_cap_keeps_whole_calls_and_a_higher_one_continues(
    offline: Made, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    suite = part_of(offline.suite, "format_invariance_1", "stochastic_stability")
    cast = Cast(rows(), tests="typos", labels=LABELS)
    cast.learn(suite)
    dear = {JUDGE: (1000.0, 2000.0)}
    with LoopbackServer(reply=cast) as server:
        judge = jrh.PromptedJudge(JUDGE, api_base=server.url, max_tokens=64)
        capped = evaluate(judge, suite, store_uri, max_usd=10.0, prices=dear, concurrency=4)
        assert capped.cost_usd is not None
        assert capped.cost_usd <= 10.0
        assert len(capped.calls) == server.counts["answered"]
        assert 0 < len(capped.calls) < suite.manifest["n_calls"]
        assert capped.truncated == f"budget: {len(capped.calls)} of {suite.manifest['n_calls']} calls"
        assert logged(store_uri, capped.run_id).data.tags["jrh.truncated"] == capped.truncated
        assert capped.metrics["baseline/accuracy/rate"] == 1
        whole = evaluate(judge, suite, store_uri, max_usd=1000.0, prices=dear)
        assert server.counts["answered"] == suite.manifest["n_calls"] == len(whole.calls)
    assert whole.truncated is None
    assert whole.metrics["calls/cached"] == len(capped.calls)


def test_wrong_answers_become_traces_and_right_ones_do_not(offline: Made, store_uri: str) -> None:
    suite = part_of(offline.suite, "label_flip", n=4)
    done = evaluate(lambda shown: "pass", suite, store_uri, traces="failures:run")
    wrong = done.calls[done.calls["answer"] != done.calls["expected"]]
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("tests").experiment_id
    found = client.search_traces(locations=[experiment], run_id=done.run_id, max_results=100)
    # A few of each condition, since a trace takes the store longer than a call takes a quick judge.
    assert {trace.info.tags["jrh.suite_item"] for trace in found} <= set(wrong["suite_item"])
    assert {trace.info.tags["jrh.condition"] for trace in found} == {"baseline", "label_flip"}
    assert {trace.info.tags["jrh.failure"] for trace in found} == {"wrong label"}
    assert logged(store_uri, done.run_id).data.tags["jrh.traces"] == f"{len(found)} of {len(wrong)} failures"
    assert len(wrong) == 4


MEASURES = {
    "binary": {"fpr", "fnr", "matthews", "error_rate"},
    "ordinal": {"mae", "ccc", "pearson", "spearman", "qwk", "within_one"},
}


@pytest.mark.parametrize(
    ("kind", "reading", "levels"),
    [
        ("binary", {"labels": LABELS}, LABELS),
        ("multi-class", {"labels": ("spam", "news", "chat")}, ("spam", "news", "chat")),
        ("ordinal", {"scale": (1, 4)}, SCALE),
    ],
)
def test_each_kind_of_labels_gets_its_own_measures(
    kind: str, reading: dict[str, Any], levels: tuple[str, ...], store_uri: str
) -> None:
    tests = ["label_flip", "format_invariance_1"]
    done = run(rows(6, levels=levels), None, store_uri, tests=tests, **reading)
    found = evaluate(jrh.scripted.Grader(accuracy=0.8, seed=3), done.suite, store_uri)
    assert found.report.labels == levels
    given = {axis.rpartition("/")[2] for axis in found.report.estimates if axis.startswith("format_invariance_1/")}
    assert given == {"accuracy", "pass", "consistency"} | MEASURES.get(kind, set())
    assert "label_flip/moved" in found.report.estimates
    assert 0 < found.metrics["all/accuracy/rate"] < 1


# What is refused, before any call.


def test_a_suite_with_a_rejected_item_reaches_no_judge(offline: Made) -> None:
    item = next(item for item in offline.suite.items if item.condition == "label_flip")
    rejected = replace(item, meta={**item.meta, "review": {"state": "rejected", "by": "ann"}})
    with pytest.raises(SuiteError, match=rf"{item.id}.*rejected in review"):
        jrh.Suite(name="reviewed", items=[rejected])


def test_pairs_and_single_responses_in_one_suite_are_refused_before_anything_is_asked(
    offline: Made, store_uri: str
) -> None:
    mixed = jrh.Suite(name="mixed", items=[offline.suite.items[0], *jrh.datasheet_suite(n_tasks=1).items])
    asked: list[object] = []
    with pytest.raises(SuiteError, match="'mixed' holds pairs and single responses"):
        evaluate(asked.append, mixed, store_uri)
    assert asked == []


def test_a_label_called_tie_is_refused_before_anything_is_made() -> None:
    with pytest.raises(RecipeError, match="a label called tie"):
        jrh.generate(rows(3, levels=("loss", "Tie", "win")), tests="typos", rubric=RUBRIC, generator=None)


def test_a_service_that_answers_nothing_ends_with_code_four_however_few_calls_there_were(
    offline: Made, store_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    folder = part_of(offline.suite, n=3).save(tmp_path / "few")
    with LoopbackServer(reply=lambda body: error_reply(400, "No such setting.")) as server:
        given = evaluate_arguments(folder, store_uri, "--model", JUDGE, "--api-base", server.url)
        done = CliRunner().invoke(group, [*map(str, given), "--json"], standalone_mode=False)
        assert server.counts["requests"] == 3
    assert isinstance(done.exception, JudgeError)
    assert done.exception.exit_code == 4
    assert "HTTP 400: No such setting (3 of 3 calls)" in str(done.exception)
    assert done.stdout == ""


# Two judges side by side.


@pytest.mark.slow
def test_two_runs_on_one_suite_are_compared_and_the_better_one_is_told_apart(
    offline: Made, store_uri: str, tmp_path: Path
) -> None:
    runs = [facts["run_id"] for facts in offline.judged.values()]
    page = tmp_path / "page.html"
    facts = jrh_json("compare", *runs, "--tracking-uri", store_uri, "--html", page)
    assert [one["judge"] for one in facts["runs"]] == ["Oracle (simulated)", "LongerWins (simulated)"]
    assert facts["suite"]["sha256"] == offline.suite.sha256
    data = logged(store_uri, facts["run_id"]).data
    assert data.tags["jrh.kind"] == "compare"
    assert data.metrics["compare/n_different"] > 0
    html = page.read_text(encoding="utf-8")
    assert "verbosity_bias_short" in html
    assert "<script" not in html


def test_runs_on_different_suites_are_not_compared(offline: Made, played: Made, store_uri: str) -> None:
    runs = [offline.judged["Oracle"]["run_id"], played.judged["judge"]["run_id"]]
    with pytest.raises(RecipeError, match=r"different suites: sha256 .*synthetic_ordinal"):
        jrh.compare(runs, tracking_uri=store_uri, log=False)
