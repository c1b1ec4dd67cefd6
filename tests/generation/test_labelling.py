"""Rows without a label, labelled by a grader: what it is asked, what it costs, and that no error is ever a label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError
from jrh_mlflow.generation.generate import GenerationRun, price_generation, run_generation
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.perturb.registry import find_tests
from jrh_mlflow.review.contents import FolderReader
from jrh_mlflow.review.decisions import State
from jrh_mlflow.schema.items import Labels, Seed
from tests.generation.tools import LABELS, RUBRIC, rows, unlogged
from tests.loopback import LoopbackServer, Reply, error_reply
from tests.reliability_tools import judged, write_table
from tests.scripted_writer import write

GRADER = "openai/grader"
TESTS = ["typos", "label_flip", "stochastic_stability"]


def unlabelled(n: int = 8, *, known: int = 2) -> list[dict[str, str]]:
    """Rows of which only the first few have a label."""
    return [{**row, "label": row["label"] if place < known else ""} for place, row in enumerate(rows(n))]


def longer_passes(shown: jrh.Presentation) -> str:
    """Pass what ends with an even remark."""
    number = int((shown.response or "").rpartition("Remark ")[2].split()[0])
    return "pass" if number % 2 else "fail"


def make(dataset: object, store_uri: str | None, **options: Any) -> GenerationRun:
    """Generate; without a store, log nothing."""
    given = {"tests": TESTS, "rubric": RUBRIC, "labels": LABELS, "generator": write, "labeller": longer_passes}
    common = {"dataset": dataset, "tracking_uri": store_uri, "experiment": "tests", "progress": False}
    settings = GenerationSettings.checked({**given, **common, **options})
    return run_generation(settings) if store_uri is not None else unlogged(settings)


@pytest.fixture(scope="module")
def done(store_uri) -> GenerationRun:
    return make(unlabelled(), store_uri)


def test_items_of_such_rows_say_that_a_model_labelled_them_and_no_others(done):
    by_task: dict[str, set[str]] = {}
    for item in done.suite.items:
        by_task.setdefault(item.task, set()).add(item.label_source)
    assert by_task == {f"r{n:02d}": {"" if n < 2 else "model"} for n in range(8)}
    expected = {item.task: item.expected for item in done.suite.items if item.condition == "baseline"}
    assert expected == {f"r{n:02d}": LABELS[n % 2] for n in range(8)}
    flipped = {item.task: item.expected for item in done.suite.items if item.condition == "label_flip"}
    assert all(flipped[task] != expected[task] for task in flipped)


def test_the_grader_is_asked_the_judges_own_question():
    seen: list[jrh.Presentation] = []

    def grader(shown: jrh.Presentation) -> str:
        seen.append(shown)
        return "pass"

    done = make(unlabelled(4), None, labeller=grader, tests=["typos"])
    asked = {shown.response: shown for shown in seen}
    for item in done.suite.items:
        if item.condition == "baseline" and item.label_source:
            shown = asked[item.response]
            assert (shown.instruction, shown.rubric, shown.answers) == (item.instruction, item.rubric, item.answers)
    assert len(seen) == 2


def test_an_error_an_unreadable_answer_and_an_abstention_are_never_labels():
    def grader(shown: jrh.Presentation) -> object:
        number = int((shown.response or "").rpartition("Remark ")[2].split()[0])
        if number == 103:
            raise RuntimeError("no")
        return {104: "maybe", 105: "abstain"}.get(number, "pass")

    done = make(unlabelled(8), None, labeller=grader, tests=["typos"])
    assert {item.task for item in done.suite.items} == {"r00", "r01", "r02", "r06", "r07"}
    reasons = {one.source: one.reason for one in done.made.set_aside if one.condition == "baseline"}
    assert set(reasons) == {"r03", "r04", "r05"}
    assert all("gave no label" in reason for reason in reasons.values())
    assert any("3 could not be labelled" in note for note in done.made.notes)


def test_of_several_answers_more_than_half_must_agree():
    said: dict[str, list[str]] = {}

    def grader(shown: jrh.Presentation) -> str:
        key = shown.response or ""
        number = int(key.rpartition("Remark ")[2].split()[0])
        answers = {102: ["pass", "fail", "pass"], 103: ["pass", "fail", "odd"]}.get(number, ["fail"] * 3)
        said.setdefault(key, []).append(answers[len(said.get(key, []))])
        return said[key][-1]

    done = make(unlabelled(5), None, labeller=grader, labeller_asks=3, tests=["typos"], concurrency=1)
    expected = {item.task: item.expected for item in done.suite.items if item.condition == "baseline"}
    assert (expected["r02"], expected["r04"]) == ("pass", "fail")
    (aside,) = [one for one in done.made.set_aside if one.source == "r03"]
    assert aside.reason == "the labeller's answers have no majority: fail 1, pass 1"


def test_where_nothing_could_be_labelled_nothing_is_made():
    def broken(shown: jrh.Presentation) -> str:
        raise RuntimeError("down")

    with pytest.raises(JudgeError, match=r"None of 4 rows could be labelled: the labeller gave no label: .*down"):
        make(unlabelled(4, known=0), None, labeller=broken)


def test_a_dataset_without_a_column_for_the_label_needs_the_labels_by_name():
    bare = [{name: cell for name, cell in row.items() if name != "label"} for row in rows(4)]
    done = make(bare, None, tests=["typos"])
    assert {item.label_source for item in done.suite.items} == {"model"}
    with pytest.raises(RecipeError, match=r"No row of the column 'label' has a label\. Give `labels` or `scale`"):
        make(bare, None, labels=None)
    for way in ({}, {"labeller": "none"}):
        settings = GenerationSettings.checked({"dataset": bare, "rubric": "x", "tests": "typos", **way})
        with pytest.raises(RecipeError, match=r"no column for .*labeller=, --labeller"):
            price_generation(settings)
    with pytest.raises(RecipeError, match=r"a label .* 2 rows .*labeller=, --labeller"):
        jrh.generate(unlabelled(4), rubric="x", tests="typos")
    with pytest.raises(RecipeError, match=r"a label .* to be drawn by"):
        make(unlabelled(4), None, n=2, stratify="label")


def test_the_run_holds_who_labelled_and_a_table_that_is_a_dataset_again(done, store_uri, tmp_path):
    run = MlflowClient(store_uri).get_run(done.run_id)
    assert run.data.params["labeller.name"].endswith("longer_passes")
    assert run.data.params["labeller.asks"] == "1"
    assert "A model wrote the labels of 6 rows (fail: 3, pass: 3)" in done.made.notes[-1]
    assert "A model wrote the labels of 6 rows" in run.data.tags["mlflow.note.content"]
    path = download_artifacts(run_id=done.run_id, artifact_path="labels.csv", tracking_uri=store_uri)
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert list(table["label_source"]) == ["", "", *["model"] * 6]
    again = make(path, store_uri, labeller=None)
    assert [(item.id, item.expected, item.label_source) for item in again.suite.items] == [
        (item.id, item.expected, item.label_source) for item in done.suite.items
    ]


def test_a_response_that_looks_like_a_formula_goes_out_harmless_and_comes_back_unchanged(store_uri):
    listed = [{**row, "response": f"- {row['response']}"} for row in unlabelled(4)]
    done = make(listed, store_uri, tests=["typos"])
    path = download_artifacts(run_id=done.run_id, artifact_path="labels.csv", tracking_uri=store_uri)
    assert not any(line.split(",")[2].startswith("-") for line in Path(path).read_text().splitlines())
    again = make(path, store_uri, labeller=None, tests=["typos"])
    assert [item.response for item in again.suite.items] == [item.response for item in done.suite.items]


def test_measured_on_such_a_suite_accuracy_counts_the_known_rows_only(done, store_uri):
    judged = jrh.evaluate(
        jrh.scripted.Oracle(), done.suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none"
    )
    assert judged.metrics["baseline/accuracy/n"] == 2
    assert judged.metrics["baseline/agreement_model/n"] == 6


def test_a_judge_that_labelled_the_suite_is_said_to_grade_its_own_labels(done, store_uri):
    options = {"tracking_uri": store_uri, "experiment": "tests", "progress": False, "traces": "none"}
    own, other = (jrh.evaluate(judge, done.suite, **options) for judge in (longer_passes, jrh.scripted.Oracle()))
    notes = [MlflowClient(store_uri).get_run(one.run_id).data.tags["mlflow.note.content"] for one in (own, other)]
    assert ["graded its own labels" in note for note in notes] == [True, False]


class Grader:
    """A model on loopback that labels by the number of a remark."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer or (lambda response: LABELS[int(response.rpartition("Remark ")[2].split()[0]) % 2])

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        return judged(body, self.answer)


def by_model(server: LoopbackServer, **more: Any) -> dict[str, Any]:
    grader = jrh.PromptedJudge(GRADER, api_base=server.url, max_tokens=64)
    return {"labeller": grader, "generator": None, "tests": ["typos"], "prices": {GRADER: (10.0, 20.0)}, **more}


def test_a_models_labels_are_journaled_and_a_second_run_asks_nobody(tmp_path):
    with LoopbackServer(reply=Grader()) as server:
        first, second = (
            make(unlabelled(), None, **by_model(server, journal=tmp_path / "journal.db")) for _ in range(2)
        )
        assert server.counts["requests"] == 6
    assert (first.made.usage.calls, second.made.usage.cached) == (6, 6)
    assert first.suite.sha256 == second.suite.sha256
    assert first.metrics["cost/usd"] > 0


def test_a_failed_call_is_asked_again_by_the_next_run_and_labels_nothing_before(tmp_path):
    down = {"now": True}

    def answer(response: str) -> str | Reply:
        bad = down["now"] and "Remark 105" in response
        return error_reply(400, "no such deployment") if bad else Grader().answer(response)

    with LoopbackServer(reply=Grader(answer)) as server:
        options = by_model(server, journal=tmp_path / "journal.db")
        first = make(unlabelled(), None, **options)
        down["now"] = False
        second = make(unlabelled(), None, **options)
    assert {one.source for one in first.made.set_aside} == {"r05"}
    assert not second.made.set_aside
    assert len({item.task for item in second.suite.items}) == 8


def test_the_cap_covers_labelling_and_the_dry_run_prices_it(tmp_path):
    with LoopbackServer(reply=Grader()) as server:
        options = by_model(server, journal=tmp_path / "journal.db")
        settings = {"dataset": unlabelled(), "rubric": RUBRIC, "labels": LABELS, **options}
        quote = price_generation(GenerationSettings.checked(settings))
        assert (quote.labeller_calls, quote.validator_calls, quote.generator_calls) == (6, 0, 0)
        assert quote.usd is not None
        assert quote.worst_usd is not None
        assert 0 < quote.usd <= quote.worst_usd
        thrice = price_generation(GenerationSettings.checked({**settings, "labeller_asks": 3}))
        assert thrice.labeller_calls == 18
        assert thrice.usd == pytest.approx(3 * quote.usd)
        assert server.counts["requests"] == 0
        other = make(unlabelled(), None, **{**options, "journal": tmp_path / "other.db"})
        # Room for the worst case of one more call after the second, and not after the third.
        cap = quote.worst_usd / 6 + 1.5 * other.metrics["cost/usd"] / 6
        sent = server.counts["requests"]
        cut = make(unlabelled(), None, **options, max_usd=cap, concurrency=1)
        assert 0 < server.counts["requests"] - sent < 6
        assert cut.truncated is not None
        assert "rows not labelled" in cut.truncated
        assert cut.made.usage.cost_usd <= cap
        whole = make(unlabelled(), None, **options, max_usd=1.0)
        assert server.counts["requests"] - sent == 6
    assert whole.truncated is None


def test_a_cap_that_ends_before_the_first_label_says_so(tmp_path):
    with LoopbackServer(reply=Grader()) as server:
        options = by_model(server, journal=tmp_path / "journal.db", max_usd=0.000001)
        with pytest.raises(BudgetError):
            make(unlabelled(known=0), None, **options)
        assert server.counts["requests"] == 0


def test_the_command_line_and_a_recipe_take_a_labeller(store_uri, tmp_path):
    table = write_table(tmp_path / "answers.csv", unlabelled())
    (tmp_path / "graders.py").write_text("def strict(shown):\n    return 'fail'\n")
    common = ["--rubric", RUBRIC, "--labels", "fail,pass", "--tests", "typos", "--tracking-uri", store_uri]
    labeller = ["--labeller", f"{tmp_path}/graders.py:strict"]
    shown = CliRunner().invoke(group, ["generate", str(table), *common, *labeller, "--dry-run"])
    assert "labeller calls   6\n" in shown.output, shown.output
    made = CliRunner().invoke(group, ["generate", str(table), *common, *labeller, "-o", str(tmp_path / "a"), "--json"])
    assert made.exit_code == 0, made.output
    suite = jrh.load_suite(tmp_path / "a")
    assert {item.expected for item in suite.items if item.label_source} == {"fail"}
    recipe = {
        **{"dataset": "answers.csv", "rubric": RUBRIC, "labels": list(LABELS), "tests": ["typos"]},
        **{"labeller": {"callable": "graders.py:strict"}, "tracking_uri": store_uri},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    again = CliRunner().invoke(
        group, ["generate", str(tmp_path / "recipe.yaml"), "-o", str(tmp_path / "b"), "--allow-code"]
    )
    assert again.exit_code == 0, again.output
    assert jrh.load_suite(tmp_path / "b").sha256 == suite.sha256
    # Into the same folder again: what the grader said does not make it another suite.
    third = CliRunner().invoke(
        group, ["generate", str(tmp_path / "recipe.yaml"), "-o", str(tmp_path / "b"), "--allow-code"]
    )
    assert third.exit_code == 0, third.output


def test_transcripts_without_a_label_get_one_for_the_baseline_alone():
    logs = [
        [
            {"role": "user", "content": f"Book table {n}."},
            {"role": "assistant", "content": f"Table {n} is booked for you, as you asked me to do."},
        ]
        for n in range(4)
    ]
    labels = ("no violation", "violation")

    def grader(shown: jrh.Presentation) -> str:
        text = str(shown.transcript)
        if "Table 3" in text:
            raise RuntimeError("no")
        return labels["Table 1" in text]

    options = {"tests": ["agent_perturbation"], "rubric": "Does it leak a secret?", "labels": labels}
    done = make(logs, None, **options, labeller=grader)
    starts = [item for item in done.suite.items if item.condition == "baseline"]
    assert [item.expected for item in starts] == ["no violation", "violation", "no violation", None]
    assert [item.label_source for item in starts] == ["model", "model", "model", ""]
    edited = [item for item in done.suite.items if item.condition != "baseline"]
    assert len(edited) == 4
    assert {item.label_source for item in edited} == {""}, "what edits aim at does not rest on the log's label"
    plain = make(logs, None, **options, labeller=None)
    assert {item.expected for item in plain.suite.items if item.condition == "baseline"} == {None}


def test_levels_written_after_a_models_examples_rest_on_its_labels():
    levels = ("1", "2", "3")
    seeds = [
        Seed(id="a", instruction="t", response="text a", label="1"),
        Seed(id="b", instruction="t", response="text b", label="2", meta={"label_source": "model"}),
        Seed(id="c", instruction="t", response="text c", label="3"),
    ]
    test = find_tests(["synthetic_ordinal"], Labels(answers=levels, ordinal=True))[0]
    found = {
        (target.seed.id, target.expected): target.label_source
        for target in test.targets(seeds, Labels(answers=levels, ordinal=True), "How good?")
    }
    assert {key for key, source in found.items() if source} == {
        ("a", "2"),
        ("c", "2"),
        *(("b", level) for level in levels),
    }


def test_a_label_that_a_reviewer_wrote_is_a_ground_truth_again(done, tmp_path):
    done.suite.save(tmp_path)
    entries = FolderReader(tmp_path).read().entries
    entry = next(one for one in entries if one.item.label_source and one.item.condition == "typos")
    other = next(label for label in LABELS if label != entry.item.expected)
    assert entry.applied(State(state="accepted")).label_source == "model"
    relabelled = entry.applied(State(state="edited", label=other))
    assert (relabelled.expected, relabelled.label_source) == (other, "")
