"""Generate, review, judge and compare in one YAML: each stage continued, none repeated, caps held, items held back."""

from __future__ import annotations

import csv
import json
import threading
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner, Result
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import JudgeError, RecipeError, ReviewError, SuiteError
from jrh_mlflow.workflow import is_workflow, load_workflow, price_workflow, run_workflow
from tests import scripted_writer
from tests.generation.tools import RUBRIC, rows
from tests.loopback import LoopbackServer, error_reply
from tests.review.making import Client

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parents[1]
FLIPS = f"tests: [label_flip]\ngenerator: {{callable: '{scripted_writer.__file__}:write'}}"
PAIR = "judges: ['scripted:Oracle', 'scripted:AlwaysFirst']"


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


@pytest.fixture
def recipe(tmp_path: Path, store_uri: str) -> Any:
    """Write a pipeline over six labelled answers; what is given stands below the generation."""
    with (tmp_path / "answers.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=["id", "instruction", "response", "label"])
        writer.writeheader()
        writer.writerows(rows()[:3] + rows()[-3:])

    def write(*more: str, generate: str = "tests: [markdown, typos]") -> Path:
        lines = [
            "generate:",
            "  dataset: answers.csv",
            f"  rubric: {RUBRIC!r}",
            "  labels: [fail, pass]",
            *(f"  {line}" for line in generate.splitlines()),
            "  output: made",
            f"tracking_uri: {store_uri}",
            "experiment: tests",
            *more,
        ]
        (tmp_path / "pipeline.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / "pipeline.yaml"

    return write


def tagged(store_uri: str, tag: str) -> list[str]:
    """Return the kinds of the finished runs of a pipeline, in order."""
    client = MlflowClient(store_uri)
    experiment = client.get_experiment_by_name("tests")
    found = client.search_runs([experiment.experiment_id], f"tags.`jrh.pipeline` = '{tag}'")
    return sorted(run.data.tags["jrh.kind"] for run in found if run.info.status == "FINISHED")


def test_the_shipped_pipeline_needs_no_key_and_is_not_repeated(tmp_path: Path, store_uri: str) -> None:
    folder = tmp_path / "recipes"
    (folder / "data").mkdir(parents=True)
    for name in ("pipeline.yaml", "data/answers.csv"):
        (folder / name).write_text((ROOT / "recipes" / name).read_text(encoding="utf-8"), encoding="utf-8")
    told = ("evaluate", folder / "pipeline.yaml", "--tracking-uri", store_uri, "--experiment", "tests")
    priced = cli(*told, "--dry-run", "--json")
    assert priced.exit_code == 0, (priced.output, priced.exception)
    assert json.loads(priced.stdout)["items"] == 44
    assert not (folder / "pipeline_suite").exists()
    first = cli(*told, "--json")
    assert first.exit_code == 0, (first.output, first.exception)
    facts = json.loads(first.stdout)
    assert facts["suite"]["made"] is True
    assert [one["judge"] for one in facts["judges"]] == [
        "Oracle (simulated)",
        "AlwaysFirst (simulated)",
        "LongerWins (simulated)",
    ]
    assert facts["judges"][0]["metrics"]["padding/accuracy/rate"] == 1.0
    assert facts["compare"]["run_id"]
    assert facts["jury"]["run_id"]
    kinds = ["compare", "evaluate", "evaluate", "evaluate", "generate", "jury"]
    assert tagged(store_uri, facts["pipeline"]) == kinds
    again = cli(*told)
    assert again.exit_code == 0, (again.output, again.exception)
    assert "was there" in again.stdout
    assert again.stdout.count("(before)") == 3
    assert "Comparison of 3 judges" in again.stdout
    assert tagged(store_uri, facts["pipeline"]) == kinds


@pytest.mark.slow
def test_a_judge_added_later_is_the_only_one_asked_and_other_options_are_another_evaluation(recipe: Any) -> None:
    one, both = (f"judges: [{names}]" for names in ("'scripted:Oracle'", "'scripted:Oracle', 'scripted:LongerWins'"))
    alone = ("compare: false",)
    first = run_workflow(load_workflow(recipe(one, *alone, generate="tests: [typos]")))
    second = run_workflow(load_workflow(recipe(both, *alone, generate="tests: [typos]")))
    assert [stage.reused for stage in second.judges] == [True, False]
    assert second.judges[0].run_id == first.judges[0].run_id
    assert second.judges[0].metrics == first.judges[0].metrics
    changed = run_workflow(load_workflow(recipe(one, *alone, "replicates: 2", generate="tests: [typos]")))
    assert not changed.judges[0].reused
    assert (changed.made, changed.suite.sha256) == (False, first.suite.sha256)


def test_rejected_items_reach_no_judge_and_undecided_ones_stop_the_pipeline(
    recipe: Any, store_uri: str, tmp_path: Path
) -> None:
    one = ("judges: ['scripted:Oracle']",)
    path = recipe("review: {decisions: decided.csv, reviewer: Ada}", *one, generate=FLIPS)
    decided = tmp_path / "decided.csv"
    decided.write_text("item,state\n", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"decided\.csv has no rows"):
        run_workflow(load_workflow(path))
    items = [item.id for item in jrh.load_suite("made").items if item.condition == "label_flip"]
    decided.write_text(f"item,state\n{items[0]},accepted\nnowhere,accepted\n", encoding="utf-8")
    with pytest.raises(ReviewError, match=r"decided\.csv: the suite has no item 'nowhere'"):
        run_workflow(load_workflow(path))
    decided.write_text(f"item,state\n{items[0]},accepted\n", encoding="utf-8")
    with pytest.raises(ReviewError, match="5 of 6 items are undecided"):
        run_workflow(load_workflow(path))
    with pytest.raises(SuiteError, match="is under review"):
        jrh.evaluate(jrh.scripted.Oracle(), "made", tracking_uri=store_uri, experiment="tests")
    lines = [f"{items[0]},rejected,wrong,", f"{items[1]},edited,,A text of a person."]
    lines += [f"{item},accepted,," for item in items[2:5]]
    decided.write_text("\n".join(["item,state,reason,text", *lines]), encoding="utf-8")
    path = recipe("review: {decisions: decided.csv, allow_undecided: true}", *one, generate=FLIPS)
    done = run_workflow(load_workflow(path))
    assert done.review is not None
    assert done.review["left_out"] == {"rejected": 1, "undecided": 1}
    judged = {item.id: item.response for item in done.suite.items}
    assert set(judged) & set(items) == set(items[1:5])
    assert judged[items[1]] == "A text of a person."
    client = MlflowClient(store_uri)
    for one in done.judges:
        assert client.get_run(str(one.run_id)).data.params["suite.sha256"] == done.suite.sha256
    # A finished review stands: nobody is asked for it again, whatever the table says by now.
    decided.unlink()
    again = run_workflow(load_workflow(path))
    assert (again.suite.sha256, [one.reused for one in again.judges]) == (done.suite.sha256, [True])


def test_the_page_is_served_until_it_is_finished(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[tuple[int, Any]] = []

    def reviewer(link: str) -> None:
        page = urlsplit(link)
        client = Client(page.netloc, parse_qs(page.query)["token"][0])
        key = client.get("/api/suites")[0]["key"]
        reject = {"index": 0, "action": "reject", "reason": "wrong", "version": 0, "reviewer": "Ada"}
        answers.append(client.post(f"/api/suites/{key}/decisions", reject))
        answers.append(client.post(f"/api/suites/{key}/finish", {"reviewer": "Ada", "allow_undecided": True}))

    def browser(link: str) -> None:
        threading.Thread(target=reviewer, args=(link,), daemon=True).start()

    monkeypatch.setattr(webbrowser, "open", browser)
    done = run_workflow(load_workflow(recipe("review: true", "judges: ['scripted:Oracle']")))
    assert [status for status, _ in answers] == [200, 200]
    assert done.review == {"path": Path("made-reviewed").resolve(), "sha256": done.suite.sha256, "finished": "now"}
    assert done.suite.origin["reviewed_by"] == ["Ada"]
    assert all(one.run_id for one in done.judges)
    # A second start opens nothing.
    monkeypatch.setattr(webbrowser, "open", lambda link: pytest.fail("The review was finished."))
    assert (
        run_workflow(load_workflow(recipe("review: true", "judges: ['scripted:Oracle']"))).suite.sha256
        == done.suite.sha256
    )


def test_every_stage_is_priced_before_anything_is_sent(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with LoopbackServer(reply=lambda _: "never") as server:
        path = recipe(
            f"judges: [{{model: openai/judge, api_base: '{server.url}'}}, 'scripted:Oracle']",
            "prices: {openai/judge: [1, 2], openai/writer: [1, 2]}",
            "evaluate: {max_usd: 3}",
            "max_usd: 5",
            generate="tests: [semantic_paraphrase, typos]\nmax_usd: 2\n"
            f"generator: {{model: openai/writer, api_base: '{server.url}'}}",
        )
        quoted = price_workflow(load_workflow(path))
        shown = cli("evaluate", path, "--dry-run")
        assert server.counts["requests"] == 0
    assert quoted.generation is not None
    assert quoted.generation.generator_calls == 6
    assert quoted.items == 18
    assert [one.calls if one else None for _, one in quoted.judges] == [18, None]
    assert quoted.usd == pytest.approx((quoted.generation.usd or 0) + (quoted.judges[0][1].usd or 0))  # type: ignore[union-attr]
    assert "caps            generate $2, judges $3, total $5" in shown.stdout


def test_a_missing_key_of_a_judge_is_named_before_the_generation_is_paid(
    recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(JudgeError, match=r"The judge openai/judge .*OPENAI_API_KEY"):
        run_workflow(load_workflow(recipe("judges: [openai/judge]")))
    assert not Path("made").exists()


@pytest.mark.slow
def test_one_cap_holds_over_the_judges_and_a_higher_one_goes_on(recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    answer = json.dumps({"reason": "r", "verdict": "pass"})
    with LoopbackServer(reply=lambda _: answer) as server:
        at = f"api_base: '{server.url}'"
        path = recipe(
            f"judges: [{{model: openai/a, {at}}}, {{model: openai/b, {at}}}, 'scripted:Oracle']",
            "prices: {openai/a: [1000, 2000], openai/b: [1000, 2000]}",
            "max_usd: 9",
            "concurrency: 1",
            "compare: false",
        )
        done = run_workflow(load_workflow(path))
        asked = server.counts["requests"]
        spent = sum(one.cost_usd or 0 for one in done.judges)
        assert done.exit_code == 3
        assert 0 < spent <= 9
        assert done.judges[2].run_id
        higher = run_workflow(load_workflow(path, max_usd=900))
        assert higher.exit_code == 0
        # What was answered under the lower cap is not asked again.
        assert server.counts["requests"] == 36
        assert asked < 36
        assert higher.judges[2].reused


def test_a_judge_whose_service_fails_leaves_the_others_and_is_code_four(
    recipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with LoopbackServer(reply=lambda _: error_reply(401, "Wrong key.", code="invalid_api_key")) as server:
        told = f"judges: [{{model: openai/a, api_base: '{server.url}'}}, 'scripted:Oracle']"
        done = cli("evaluate", recipe(told, generate="tests: [typos]"), "--json")
    assert done.exit_code == 4, (done.output, done.exception)
    failed, measured = json.loads(done.stdout)["judges"]
    assert "HTTP 401: Wrong key." in failed["problem"]
    assert measured["run_id"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((PAIR, "jugde: x"), "unknown key 'jugde'. Did you mean 'judges'"),
        ((PAIR, "review: {reviwer: Ada}"), "pipeline.yaml, review: unknown key 'reviwer'. Did you mean 'reviewer'"),
        ((PAIR, "compare: {alhpa: 1}"), "pipeline.yaml, compare: unknown key 'alhpa'. Did you mean 'alpha'"),
        ((PAIR, "jury: {tise: abstain}"), "pipeline.yaml, jury: unknown key 'tise'. Did you mean 'ties'"),
        ((PAIR, "evaluate: {replicate: 2}"), "pipeline.yaml, evaluate: unknown key 'replicate'. Did you mean"),
        ((PAIR, "suite: datasheet"), "give one of `generate` and `suite`"),
        (("judges: []",), "`judges` must be"),
        ((), "`judges` must be"),
        (("judges: ['scripted:Orakel']",), "Did you mean 'Oracle'"),
        ((PAIR, "max_usd: -1"), "`max_usd` must be … -1"),
        ((PAIR, "review: {allow_undecided: maybe}"), "`allow_undecided` must be … 'maybe'"),
    ],
)
def test_a_pipeline_that_cannot_be_followed_says_where(recipe: Any, lines: tuple[str, ...], said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        load_workflow(recipe(*lines))
    assert all(part in str(refused.value) for part in said.split(" … "))


def test_another_suite_in_its_folder_and_a_page_that_exists_are_not_overwritten(recipe: Any, tmp_path: Path) -> None:
    jrh.datasheet_suite(n_tasks=1, depth=1).save(tmp_path / "made")
    with pytest.raises(RecipeError, match="is another suite"):
        run_workflow(load_workflow(recipe(PAIR)))
    (tmp_path / "page.html").write_text("mine", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"page\.html exists already"):
        run_workflow(load_workflow(recipe(PAIR, "compare: {html: page.html}")))


def test_options_of_one_judge_are_refused_beside_a_pipeline(recipe: Any) -> None:
    path = recipe(PAIR)
    assert is_workflow(path)
    for odd in (("--model", "openai/x"), ("--suite", "datasheet"), ("--judge", "scripted:Oracle")):
        done = cli("evaluate", path, *odd)
        assert done.exit_code == 2
        assert f"{odd[0]}: " in done.stderr
        assert "is a pipeline" in done.stderr
