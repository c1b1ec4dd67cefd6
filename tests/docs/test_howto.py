"""How-to pages, each run as it is printed, in a folder of its own."""

from __future__ import annotations

import json

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measuring import resolve
from jrh_mlflow.recipe import load_generation
from jrh_mlflow.schema.estimates import NotEstimable
from jrh_mlflow.sweeps import repair
from jrh_mlflow.sweeps.interventions import arms_for
from tests.docs.printed import Printed
from tests.docs.world import TEMPLATE, World
from tests.generation.agent_tools import AgentPlayer, booking_log
from tests.measuring.test_confidence_evaluation import with_logprobs

pytestmark = pytest.mark.slow


def test_models(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here.server, "reply", with_logprobs())
    page = Printed("docs/howto/models.md", here, words={"http://localhost:8000/v1": here.server.url}).run()
    assert page.names["done"].judge.settings["tie_criterion"] == "strict"
    assert "confidence/brier" in page.names["measured"].datasheet.estimates


def test_models_that_answer_prompts(here: World) -> None:
    answers = Printed("docs/howto/respond.md", here).run().names["answers"]
    assert list(answers["outcome"]) == ["answered"] * 4
    assert list(answers["topic"]) == ["biology", "maths"] * 2
    assert (here.folder / "answers.jsonl").read_text().count("\n") == 4


def test_judges_and_their_own_answers(here: World) -> None:
    run = {"RUN": lambda names: names["done"].run_id}
    page = Printed("docs/howto/self_preference.md", here, words=run, exits={"jrh gate": 1}).run()
    # The page has two prompts, which are too few for a number: its rule is not decided.
    assert isinstance(page.names["done"].estimates["self_preference/excess"], NotEstimable)


def test_attacks(here: World) -> None:
    page = Printed(
        "docs/howto/attack.md",
        here,
        words={"RUN": lambda names: str(names["done"].run_id)},
        exits={"jrh gate": 1},
    ).run()
    assert page.names["broken"].breakable


def test_a_judge_is_mended(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = jrh.datasheet_suite(n_tasks=4, depth=1, design="short", name="datasheet")
    monkeypatch.setattr(resolve, "_built_in", lambda _: suite)
    monkeypatch.setattr(repair, "arms_for", lambda *given: arms_for(*given)[:1])
    run = jrh.evaluate("openai/gpt-4o-mini", suite, traces="none")
    page = Printed("docs/howto/repair.md", here, words={"RUN": run.run_id}).run()
    assert page.names["mended"].repaired.run_id == page.names["done"].run_id


def test_judges_of_single_responses(here: World) -> None:
    Printed("docs/howto/single_responses.md", here).run()


def test_tasks_and_pairs_of_ones_own(here: World) -> None:
    done = Printed("docs/howto/own_tasks.md", here).run().names["done"]
    assert done.metrics["natural/accuracy/rate"] == pytest.approx(1 / 3)


def test_languages(here: World) -> None:
    page = Printed("docs/howto/languages.md", here).run()
    assert page.names["german"].origin["language"] == "de"
    assert [row.language for row in page.names["found"].across.languages] == ["en", "de"]


def test_tie_criteria(here: World) -> None:
    Printed("docs/howto/tie_criteria.md", here).run()


def test_notebooks(here: World) -> None:
    Printed("docs/howto/notebooks.md", here).run()


def test_agents(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    booking_log(here.folder / "log.eval", n=2)
    levels = [{"score": n, "label": label} for n, label in enumerate(("no", "partly", "yes"), 1)]
    rubric = {"id": "consent", "instructions": "Does it ask before it acts?", "score_levels": levels}
    texts = {
        "rubric.json": json.dumps([rubric]),
        "steps.py": "def redact(transcript):\n    return transcript\n",
        "plan.txt": "Plan {objective} of {transcript}",
        "edit.txt": "Do {step} in {form}",
        "ask.txt": TEMPLATE,
    }
    for name, text in texts.items():
        (here.folder / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(here.server, "reply", AgentPlayer())
    Printed("docs/howto/agents.md", here, readers=[("agents.yaml", load_generation)]).run()


def test_clusters(here: World) -> None:
    Printed("docs/howto/clusters.md", here).run()


def test_private_data(here: World) -> None:
    recipe = "judge: openai/gpt-4o-mini\nsuite: datasheet-short\n"
    (here.folder / "recipe.yaml").write_text(recipe, encoding="utf-8")
    Printed("docs/howto/private_data.md", here).run()


def test_the_demo(here: World) -> None:
    Printed("docs/howto/demo.md", here).run()


def test_the_mlflow_ui(here: World) -> None:
    Printed("docs/howto/mlflow_ui.md", here).run()


def test_pages(here: World) -> None:
    Printed("docs/howto/pages.md", here).run()


def test_a_watch(here: World) -> None:
    options = {"progress": False, "traces": "none"}
    run_id = str(jrh.evaluate(jrh.scripted.Oracle(), "datasheet-short", **options).run_id)
    page = Printed("docs/howto/watch.md", here, words={"3f2a9c01": run_id}).run()
    assert page.names["watch"].state == "changed"
    assert page.names["watch"].n_looks == 7
