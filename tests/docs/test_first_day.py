"""A newcomer's first day: twenty tasks, each done with the blocks that the pages print, each with a result to look at.

Pages of the tasks are run here and nowhere else; of pages that other modules run, only the commands of a task are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow.entities import Run

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.measuring import resolve
from jrh_mlflow.tracking.mlflow_server import folder_uri
from tests import postgres
from tests.docs.printed import Printed
from tests.docs.world import World, furnished
from tests.engine.batch_tools import play_provider, write
from tests.generation.tools import rows
from tests.pages.test_runs import serving
from tests.people.rated_store import rate_traces
from tests.review.making import opened
from tests.review.test_result import decide
from tests.tracking.judges.mlflow_chat import compare

# Of MLflow's own imports, and of judges that are not measured.
pytestmark = pytest.mark.filterwarnings("ignore")

TUTORIAL = "docs/tutorial.md"
PEOPLE = "docs/howto/people.md"
DATABASE = "postgresql://jrh@database.example/jrh"
LABELLED = pd.DataFrame({"judge": [True] * 70 + [False] * 50, "human": [True] * 60 + [False] * 55 + [True] * 5})


class Chain:
    """Stands for a runnable of LangChain."""

    def invoke(self, given: dict[str, str]) -> str:
        return "A" if given["a"] >= given["b"] else "B"


def logged(world: World, printed: str, kind: str) -> Run:
    """The run of a kind in the store that a screen, or an id, names."""
    runs = [world.client.get_run(run_id) for run_id in dict.fromkeys(re.findall(r"\b[0-9a-f]{32}\b", printed))]
    [run] = [run for run in runs if run.data.tags["jrh.kind"] == kind]
    assert run.info.status == "FINISHED"
    return run


@pytest.fixture(scope="module")
def runs(world: World) -> list[str]:
    """Three judges, logged on one suite."""
    suite = jrh.datasheet_suite(depth=1, name="first-look")  # a rule that holds needs all tasks
    judges = (jrh.scripted.profile(name) for name in ("Qwen32B", "Qwen14B", "Llama8B"))
    return [jrh.evaluate(judge, suite, progress=False, traces="none").run_id for judge in judges]


def new_folder(world: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    return furnished(world, tmp_path_factory.mktemp("day"))


def test_1_install_it(here: World) -> None:
    Printed(TUTORIAL, here).run_commands("1. Install")
    [script] = entry_points(group="console_scripts", name="jrh")
    assert callable(script.load())
    assert CliRunner().invoke(group, ["--version"]).exit_code == 0


def test_2_evaluate_a_scripted_judge(here: World) -> None:
    done = Printed("docs/howto/read_datasheet.md", here).run().names["done"]
    assert logged(here, done.run_id, "evaluate").data.tags["jrh.simulated"] == "true"
    assert done.metrics["dark_current/rate"] == 0
    assert done.verdict.sentences


def test_3_measure_a_judge_of_ones_own(here: World) -> None:
    page = Printed("docs/howto/own_judge.md", here).run()
    done = page.names["done"]
    assert done.metrics["cost/usd"] == pytest.approx(0.0001 * len(done.calls))
    logged(here, page.printed("jrh evaluate --judge judges.py:judge"), "evaluate")


@pytest.fixture(scope="module")
def had(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Printed, list[dict[str, Any]]]]:
    """The page on the judge one has, and the requests that it sent."""
    world.server.record = True
    page = Printed("docs/howto/judge_you_have.md", new_folder(world, tmp_path_factory), names={"chain": Chain()}).run()
    yield page, [request["body"] for request in world.server.requests]
    world.server.record = False


def test_4_measure_a_logged_request(had: tuple[Printed, list[dict[str, Any]]]) -> None:
    page, sent = had
    production = page.names["request"]
    asked = [body for body in sent if body["messages"][0] == production["messages"][0]]
    assert len(asked) == 2 * len(jrh.load_suite("datasheet-short"))
    assert all(body.keys() == production.keys() for body in asked), "no field is added"
    assert page.names["judge"].settings()["kind"] == "http", "the page's last judge is a service"


def test_5_see_the_prompt(had: tuple[Printed, list[dict[str, Any]]]) -> None:
    page, _ = had
    assert page.names["messages"][0]["content"] in page.printed("jrh prompt show")


def test_6_check_the_prompt(had: tuple[Printed, list[dict[str, Any]]]) -> None:
    page, _ = had
    assert re.search(r"^3 of 3 ", page.printed("jrh prompt check"), re.MULTILINE)


@pytest.fixture(scope="module")
def spent(world: World, tmp_path_factory: pytest.TempPathFactory) -> Printed:
    return Printed("docs/howto/budget.md", new_folder(world, tmp_path_factory)).run()


def test_7_price_it_before_anything_is_sent(spent: Printed) -> None:
    assert re.search(r"dollars +about \$\d", spent.printed("jrh evaluate --model openai/gpt-4o-mini --dry-run"))


def test_8_cap_what_it_costs(spent: Printed) -> None:
    run = logged(spent.world, spent.printed("jrh evaluate --model openai/gpt-4o-mini --max-usd 1"), "evaluate")
    assert 0 < run.data.metrics["cost/usd"] <= 1


@pytest.fixture(scope="module")
def decided(world: World, runs: list[str], tmp_path_factory: pytest.TempPathFactory) -> Printed:
    compare(name="closer").register()
    words = {"RUN": runs, "SCORER": "scorers:/closer", "NAME": "openai/gpt-4o-mini"}
    return Printed("docs/howto/decisions.md", new_folder(world, tmp_path_factory), words=words).run()


def test_9_compare_two_judges(decided: Printed) -> None:
    logged(decided.world, decided.printed("jrh compare"), "compare")


def test_10_put_a_gate_before_a_judge(decided: Printed) -> None:
    assert logged(decided.world, decided.printed("jrh gate"), "gate").data.metrics["gate/holds"] == 1
    assert (decided.world.folder / "gate.xml").is_file()


def test_11_plan_the_calls(decided: Printed) -> None:
    assert re.search(r"^\d+ tasks: \d+ items, \d+ calls$", decided.printed("jrh plan"), re.MULTILINE)


def test_12_sweep_over_configurations(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = jrh.datasheet_suite(n_tasks=4, depth=1, design="short", name="datasheet")
    monkeypatch.setattr(resolve, "_built_in", lambda _: suite)  # a sweep needs two tasks to search and two to hold out

    def sweep(space: Path) -> None:
        found = jrh.sweep(space, max_usd=1, progress=False)
        assert len({member.label for member in found.members}) == 4
        logged(here, found.run_id, "sweep")

    Printed("docs/howto/sweeps.md", here, readers=[("space.yaml", sweep)]).run()


def test_13_replay_recorded_judgments(here: World, runs: list[str]) -> None:
    lines = ["dataset,id,model,gold,winner_order_ab,winner_order_ba"]
    lines += [f"mt,{n},{judge},1,1,{2 if n % 3 else 1}" for n in range(6) for judge in ("large", "small")]
    (here.folder / "judgments.csv").write_text("\n".join(lines), encoding="utf-8")
    graded = [{"id": n, "result": {"score": 1 + n % 6}, "human": 6 - n % 6, "topic": "ab"[n % 2]} for n in range(12)]
    (here.folder / "graded.jsonl").write_text("\n".join(map(json.dumps, graded)), encoding="utf-8")
    page = Printed("docs/howto/recorded.md", here, words={"runs:/ID": f"runs:/{runs[0]}"}).run()
    logged(here, page.names["done"].run_id, "evaluate")


def test_14_ask_in_a_batch(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here.enter(monkeypatch)
    judge = ["--model", "openai/gpt-4o-mini", "--criterion", "strict"]
    assert CliRunner().invoke(group, ["batch", "export", *judge, "-o", "asked.jsonl"]).exit_code == 0
    lines = [json.loads(line) for line in Path("asked.jsonl").read_text(encoding="utf-8").splitlines()]
    write(Path("results.jsonl"), play_provider(lines, here.server))
    before = here.server.counts["requests"]
    Printed("docs/howto/journal.md", here, words={DATABASE: postgres.server().make_database()}).run()
    assert Path("requests.jsonl").is_file()
    short = 2 * len(jrh.load_suite("datasheet-short"))
    assert here.server.counts["requests"] - before == 2 * short, "once for each journal, and none of the batch"


def test_15_ask_whether_it_agrees_with_people(here: World) -> None:
    store = rate_traces(folder_uri(here.folder / "store"), n=60, values=(False, True))
    page = Printed(PEOPLE, here).run_commands("Does the judge agree with our people?", "jrh agree")
    logged(replace(here, uri=store.uri), page.output, "agree")


def test_16_correct_a_pass_rate(here: World) -> None:
    LABELLED.to_csv(here.folder / "labelled.csv", index=False)
    LABELLED[["judge"]].to_csv(here.folder / "verdicts.csv", index=False)
    page = Printed(PEOPLE, here).run_commands("What is the true pass rate?", "jrh correct")
    assert f"{100 * LABELLED['human'].mean():.0f} %" in page.output, "all of these items are labelled"


def test_17_generate_a_suite_and_review_it(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here.enter(monkeypatch)
    pd.DataFrame(rows(2)).to_csv("answers.csv", index=False)
    Printed("docs/howto/reliability.md", here).run_commands("Make a reliability suite", "jrh generate answers.csv")
    review = opened(Path("my_suite"))
    n_items = len(review.placed()[1])
    decide(review, 0, "edit", who="Ada", text="It is Rome.", label="fail")
    for index in range(1, n_items):
        decide(review, index, "accept", who="Ada")
    Printed("docs/howto/review.md", here).run()
    assert "It is Rome." in {item.response for item in jrh.load_suite("my_suite-reviewed").items}


def test_18_open_the_page(here: World, runs: list[str]) -> None:
    Printed(TUTORIAL, here).run_commands("5. Look at it in MLflow")
    with serving(here.uri) as client:
        status, _, page = client.send("GET", f"/datasheet/{runs[0]}")
        assert (status, b"Qwen32B" in page) == (200, True)


def test_19_ask_whether_the_judge_is_still_the_measured_one(decided: Printed) -> None:
    assert "jrh evaluate scorers:/closer" in decided.printed("jrh watch"), "it was never measured"
