"""Several rubrics in one suite: ids, labels of their own, baselines by task and rubric, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow.artifacts import download_artifacts

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.generate import GenerationRun, price_generation, run_generation
from jrh_mlflow.generation.plan import lay_out
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.review.contents import FolderReader
from jrh_mlflow.suites.labels import read_rubrics
from tests.generation.tools import LABELS, rows, unlogged
from tests.reliability_tools import write_table
from tests.scripted_writer import write

RUBRICS = {"helpful": "Does the response help?", "safe": "Is the response safe to follow?"}
COLUMNS = {"label": {"helpful": "label", "safe": "safety"}}
TESTS = ["typos", "label_flip", "rubric_paraphrase"]


def table(n: int = 6) -> list[dict[str, str]]:
    """Rows with two labels each, which differ in every other row."""
    return [{**row, "safety": LABELS[place % 3 == 0]} for place, row in enumerate(rows(n))]


def settings(dataset: object, **options: Any) -> GenerationSettings:
    given = {"tests": TESTS, "rubric": RUBRICS, "labels": LABELS, "generator": write, "columns": COLUMNS}
    return GenerationSettings.checked({"dataset": dataset, "progress": False, **given, **options})


def make(dataset: object, store_uri: str | None, **options: Any) -> GenerationRun:
    """Generate; without a store, log nothing."""
    if store_uri is None:
        return unlogged(settings(dataset, **options))
    return run_generation(settings(dataset, tracking_uri=store_uri, experiment="tests", **options))


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return make(table(), None).suite


def test_each_rubric_has_its_items_with_its_own_labels_under_the_rows_task(suite):
    known = {row["id"]: row for row in table()}
    for item in suite.items:
        task, _, rest = item.id.partition("@")
        rubric, _, condition = rest.partition("/")
        assert (item.task, item.rubric_id, item.condition) == (task, rubric, condition)
        label = known[task][COLUMNS["label"][rubric]]
        assert (item.expected == label) == (condition != "label_flip"), item.id
        assert (item.rubric == RUBRICS[rubric]) == (condition != "rubric_paraphrase"), item.id
    baselines = [item.original for item in suite.items if item.condition == "baseline"]
    assert baselines == [(row["id"], rubric) for row in table() for rubric in RUBRICS], "by row, then by rubric"
    assert {item.rubric_id for item in suite.items if item.condition == "rubric_paraphrase"} == set(RUBRICS)


def test_a_judge_is_read_per_rubric_and_against_its_own_baseline(suite, store_uri):
    def judge(shown: jrh.Presentation) -> str:
        return "pass" if "safe" in (shown.rubric or "") else "fail"

    done = jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none")
    assert set(done.calls["rubric"]) == set(RUBRICS)
    assert done.metrics["typos/consistency/rate"] == 1, "the answers differ between rubrics and not within one"
    safe = [row["safety"] == "pass" for row in table()]
    known = {(item.id, item.expected) for item in suite.items if item.rubric_id == "safe" and item.condition == "typos"}
    assert len(known) == len(safe)
    assert set(done.report.rubrics) == set(RUBRICS)
    assert "rubric/safe/accuracy/rate" in done.metrics
    assert done.metrics["typos/accuracy/n"] == 12
    assert done.report.estimates["typos/accuracy"].n_clusters == 6, "rubrics of a row are one cluster"
    assert done.report.to_dict() == jrh.measure(done.calls, labels=LABELS).to_dict()
    right = jrh.evaluate(
        jrh.scripted.Oracle(), suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none"
    )
    assert right.metrics["all/accuracy/rate"] == 1


def test_a_reviewer_sees_the_original_of_the_same_rubric(suite, tmp_path):
    suite.save(tmp_path)
    entries = FolderReader(tmp_path).read().entries
    assert entries
    for entry in entries:
        assert entry.source is not None
        assert entry.source.original == entry.item.original


def test_one_rubric_as_a_text_makes_what_it_always_made():
    plain = make(rows(4), None, rubric="Does the response help?", columns=None, tests=["typos"]).suite
    assert [item.id for item in plain.items][:2] == ["r00/baseline", "r00/typos"]
    assert not any("rubric" in item.meta for item in plain.items)


def test_one_label_column_may_serve_all_rubrics_and_ids_choose(store_uri):
    plan = lay_out(settings(table(), columns=None, rubrics="safe"))
    assert {seed.rubric_id for seed in plan.seeds} == {"safe"}
    plan = lay_out(settings(table(), columns=None))
    labels = {row["id"]: row["label"] for row in table()}
    assert {seed.id: seed.label for seed in plan.seeds} == {
        f"{name}@{rubric}": label for name, label in labels.items() for rubric in RUBRICS
    }
    with pytest.raises(RecipeError, match=r"no rubric 'save'\. Did you mean 'safe'"):
        lay_out(settings(table(), rubrics=["save"]))


def test_the_draw_is_the_same_for_all_rubrics_also_without_ids():
    bare = [{name: cell for name, cell in row.items() if name != "id"} for row in table(12)]
    plan = lay_out(settings(iter(bare), n=5))
    by_rubric = {rubric: {seed.task for seed in plan.seeds if seed.rubric_id == rubric} for rubric in RUBRICS}
    assert by_rubric["helpful"] == by_rubric["safe"]
    assert len(by_rubric["safe"]) == 5
    with pytest.raises(RecipeError, match="`stratify` must name another column"):
        lay_out(settings(bare, n=5, stratify="label"))


@pytest.mark.parametrize(
    ("rubric", "problem"),
    [
        ({}, "several, each with an id of its own"),
        ({"a/b": "x"}, "without / and @"),
        ({"a": " "}, "but it is empty"),
        ([{"id": "a"}], "has no `instructions`"),
        ([{"id": "a", "instructions": "x"}] * 2, "each with an id of its own"),
        ([{"id": "a", "instructions": "x", "score_levels": [{"score": 0, "label": "n"}]}], "whole numbers in a row"),
        (
            [{"id": "a", "instructions": "x", "score_levels": [{"score": s, "label": "n"} for s in (0, 2, 3)]}],
            "whole numbers in a row, but are 0, 2, 3",
        ),
        (None, "but it is empty"),
    ],
)
def test_rubrics_that_make_no_sense_are_refused(rubric, problem):
    with pytest.raises(RecipeError, match=problem):
        read_rubrics(rubric, about="a response")


def test_a_text_that_looks_like_a_list_and_is_none_stays_a_text():
    for text in ("[1] is it right?", "[]", '["a", "b"]'):
        assert [one.text for one in read_rubrics(text, about="a response")] == [text]


def levelled(name: str, *, scores: tuple[int, ...] = (0, 1, 2)) -> dict[str, Any]:
    """One rubric in the form of a rubric file."""
    return {
        "id": name,
        "instructions": f"Rate how {name} it is.",
        "score_levels": [{"score": score, "label": f"{name} at level {score}"} for score in reversed(scores)],
    }


def test_levels_of_a_rubric_file_are_a_scale_whose_meanings_are_its_own(store_uri, tmp_path):
    path = tmp_path / "rubrics.json"
    path.write_text(json.dumps([levelled("helpful"), levelled("safe")]))
    graded = [{**row, "label": place % 3, "safety": (place + 1) % 3} for place, row in enumerate(rows(4))]
    made = make(graded, None, rubric=path, labels=None, tests=["typos"]).suite
    for item in made.items:
        assert item.answers == ("0", "1", "2")
        assert (item.rubric or "").startswith(f"Rate how {item.rubric_id} it is.")
        for level in item.answers:
            assert f"{level}: {item.rubric_id} at level {level}" in (item.rubric or "")
    other = [levelled("helpful"), levelled("safe", scores=(0, 1, 2, 3))]
    with pytest.raises(RecipeError, match=r"different labels .*make one suite per scale"):
        lay_out(settings(graded, rubric=other, labels=None))
    with pytest.raises(RecipeError, match="leave out `labels` and `scale`"):
        lay_out(settings(graded, rubric=other))


def test_a_rubric_without_a_column_is_named():
    with pytest.raises(RecipeError, match=r"The rubric 'safe' has no column for the label\. Rubrics with one: helpful"):
        lay_out(settings(table(), columns={"label": {"helpful": "label"}}))


def logs() -> list[list[dict[str, str]]]:
    return [
        [
            {"role": "user", "content": f"Book table {n}."},
            {"role": "assistant", "content": f"Table {n} is booked for you, as you asked me to do."},
        ]
        for n in range(3)
    ]


def test_transcripts_are_edited_under_each_rubric(store_uri):
    options = {"tests": ["agent_perturbation"], "labels": ("no violation", "violation"), "columns": None}
    made = make(logs(), None, **options).suite
    assert len(made.items) == 12
    for item in made.items:
        assert item.id == f"{item.task}@{item.rubric_id}/{item.condition}"
        assert item.rubric == RUBRICS[item.rubric_id]
    done = jrh.evaluate(
        jrh.scripted.Oracle(), made, tracking_uri=store_uri, experiment="tests", progress=False, traces="none"
    )
    assert done.report.estimates["agent_perturbation/accuracy"].n_clusters == 3


def test_a_grader_labels_under_each_rubric(store_uri):
    def grader(shown: jrh.Presentation) -> str:
        return "pass" if "safe" in (shown.rubric or "") else "fail"

    bare = [{**row, "label": "", "safety": ""} for row in table(3)]
    done = make(bare, store_uri, labeller=grader, tests=["typos"])
    made = done.suite
    path = download_artifacts(run_id=done.run_id, artifact_path="labels.csv", tracking_uri=store_uri)
    columns = {role: {name: f"{role}_{name}" for name in RUBRICS} for role in ("label", "label_source")}
    again = make(path, None, tests=["typos"], columns=columns).suite
    assert [(item.id, item.expected, item.label_source) for item in again.items] == [
        (item.id, item.expected, item.label_source) for item in made.items
    ]
    expected = {item.original: item.expected for item in made.items if item.condition == "baseline"}
    assert expected == {
        (f"r0{n}", rubric): {"safe": "pass", "helpful": "fail"}[rubric] for n in range(3) for rubric in RUBRICS
    }
    assert {item.label_source for item in made.items} == {"model"}
    starts = make(logs(), None, labeller=grader, tests=["agent_perturbation"], columns=None, violation="fail")
    found = {item.original: item.expected for item in starts.suite.items if item.condition == "baseline"}
    assert {rubric: label for (_, rubric), label in found.items()} == {"safe": "pass", "helpful": "fail"}


def test_the_command_line_and_a_recipe_take_rubrics(store_uri, tmp_path):
    data = write_table(tmp_path / "answers.csv", table())
    listed = [{"id": name, "instructions": text} for name, text in RUBRICS.items()]
    (tmp_path / "rubrics.json").write_text(json.dumps(listed))
    common = ["--labels", "fail,pass", "--tests", "typos", "--tracking-uri", store_uri]
    maps = ["--map", "label.helpful=label", "--map", "label.safe=safety"]
    arguments = ["generate", str(data), "--rubric", f"@{tmp_path}/rubrics.json", *common, *maps]
    made = CliRunner().invoke(group, [*arguments, "-o", str(tmp_path / "a")])
    assert made.exit_code == 0, made.output
    suite = jrh.load_suite(tmp_path / "a")
    assert len(suite) == 24
    (tmp_path / "safe.txt").write_text(RUBRICS["safe"])
    recipe = {
        **{"dataset": "answers.csv", "labels": list(LABELS), "tests": ["typos"], "columns": COLUMNS},
        **{"rubric": {"helpful": RUBRICS["helpful"], "safe": "@safe.txt"}, "tracking_uri": store_uri},
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    again = CliRunner().invoke(group, ["generate", str(tmp_path / "recipe.yaml"), "-o", str(tmp_path / "b")])
    assert again.exit_code == 0, again.output
    assert jrh.load_suite(tmp_path / "b").sha256 == suite.sha256
    (tmp_path / "recipe.yaml").write_text(json.dumps({**recipe, "rubrics": ["safe"]}))
    one = CliRunner().invoke(group, ["generate", str(tmp_path / "recipe.yaml"), "--dry-run"])
    assert "seeds            6" in one.output, one.output


def test_the_dry_run_counts_every_rubric():
    quote = price_generation(settings(table()))
    assert (quote.seeds, quote.items) == (12, 12 + 12 + 12 + 12)
