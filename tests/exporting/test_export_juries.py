"""Juries and sweeps as MLflow scorers: row by row they answer what the measured ones answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from mlflow.entities import Feedback

import jrh_mlflow as jrh
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.judges.parsing import TIE
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.judges.scorer_facts import specification
from jrh_mlflow.tracking.runs import keys
from tests.cases import few
from tests.loopback import LoopbackServer, Reply

MODELS = ("cheap", "other", "strong")
RUBRIC = "Is it right?"
UNLOGGED = "This jury has no run that feedback could name"
pytestmark = [pytest.mark.filterwarnings(f"ignore:{UNLOGGED}")]


def reply(body: dict[str, Any]) -> Any:
    """Answers that depend on the model and on every byte of the prompt; some cannot be read, and some calls fail."""
    shown = body["messages"][-1]["content"]
    # The models agree on every other item, so that some cheap answers are sure.
    agreed = hashlib.sha256(shown.encode()).digest()
    own = hashlib.sha256(f"{body['model']}{shown}".encode()).digest()
    drawn = agreed if agreed[1] % 2 else own
    if own[2] % 8 == 0 and body["model"] in MODELS:
        return Reply(choices=False) if own[3] % 2 else "I cannot tell."
    names = ("A", "B", "tie") if "response A" in shown else ("1", "2", "3")
    return json.dumps({"reason": "So it is.", "verdict": (*names, "abstain")[drawn[0] % 7 // 2]})


def pairs() -> jrh.Suite:
    items = [
        Item(
            id=f"p{number}",
            task=f"t{number}",
            condition="natural",
            instruction=f"Question {number}?",
            rubric=RUBRIC,
            u=f"left {number}",
            v=f"right {number}",
            better="uv"[number % 2],
        )
        for number in range(8)
    ]
    return jrh.Suite(name="hand-pairs", items=items)


def graded() -> jrh.Suite:
    items = [
        Item(
            id=f"g{number}",
            task=f"t{number}",
            condition="typos",
            kind="response",
            instruction=f"Question {number}?",
            rubric=RUBRIC,
            response=f"answer {number}",
            answers=("1", "2", "3"),
            expected="123"[number % 3],
        )
        for number in range(12)
    ]
    return jrh.Suite(name="hand-grades", items=items)


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(reply=reply, record=True) as running:
        yield running


@pytest.fixture(scope="module")
def runs(server: LoopbackServer, store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, jrh.Evaluation]:
    """Three judges, each measured on pairs and on grades."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        for model in MODELS:
            for suite in (pairs(), graded()):
                judge = jrh.PromptedJudge(f"openai/{model}", api_base=server.url, name=model)
                done = jrh.evaluate(
                    judge,
                    suite,
                    experiment="exported",
                    tracking_uri=store_uri,
                    traces="none",
                    progress=False,
                    prices=PRICES,
                )
                found[f"{model} {suite.name}"] = done
    return found


PRICES = {f"openai/{model}": (1.0, 2.0) for model in (*MODELS, "steady")}


def on(runs: dict[str, jrh.Evaluation], suite: str) -> list[str]:
    return [runs[f"{model} {suite}"].run_id for model in MODELS]


def row(item: Item, order: str) -> dict[str, Any]:
    inputs = {"instruction": item.instruction}
    if item.kind == "response":
        return {"inputs": inputs, "outputs": item.response}
    first, second = (item.u, item.v) if order == "uv" else (item.v, item.u)
    return {"inputs": inputs, "outputs": {"A": first, "B": second}}


def said(feedback: Feedback, order: str) -> str:
    """What a feedback answers, as records of calls say it: the slot, the label or how it ended."""
    if feedback.error is not None:
        return {"UNPARSED": "unparsed"}.get(feedback.error.error_code, "error")
    return {"A": "1", "B": "2"}.get(str(feedback.value), str(feedback.value))


def measured(answers: Any) -> dict[tuple[str, str], str]:
    """Item and order to the answer of a measured jury."""
    return {
        (one.suite_item, one.order): one.answer if one.outcome == "verdict" else one.outcome
        for one in answers.itertuples()
    }


def answered(scorer: Any, suite: jrh.Suite) -> dict[tuple[str, str], str]:
    return {(item.id, order): said(scorer(**row(item, order)), order) for item in suite.items for order in item.orders}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "rule"),
    few(
        [
            pytest.param(pairs(), {"ties": "tie"}, id="pairs-majority"),
            pytest.param(graded(), {"ties": "median", "min_votes": 3}, id="grades-median"),
            pytest.param(pairs(), {"min_votes": 3}, id="pairs-all-votes"),
            pytest.param(graded(), {"ties": "first", "min_votes": 1}, id="grades-first"),
        ],
        quick=2,
    ),
)
def test_an_exported_jury_answers_row_by_row_what_the_measured_one_answered(suite, rule, runs, store_uri):
    done = jrh.jury(on(runs, suite.name), tracking_uri=store_uri, log=False, **rule)
    scorer = jrh.to_mlflow(done, orders="one", tracking_uri=store_uri)
    assert answered(scorer, suite) == measured(done.report.answers)


@pytest.fixture(scope="module")
def unlogged(runs, store_uri):
    return jrh.jury(on(runs, "hand-grades"), tracking_uri=store_uri, log=False)


@pytest.fixture(scope="module")
def logged(runs, store_uri):
    rule = {"ties": "lowest", "min_votes": 1, "size": 2}
    return jrh.jury(on(runs, "hand-grades"), tracking_uri=store_uri, **rule)


@pytest.mark.slow
def test_a_jury_that_was_not_logged_is_warned_of_or_refused_and_its_feedback_names_the_runs_of_its_judges(
    unlogged, runs, store_uri
):
    with pytest.raises(RecipeError, match=f"{UNLOGGED}.*Log it"):
        jrh.to_mlflow(unlogged, stale="refuse", tracking_uri=store_uri)
    with pytest.warns(JrhWarning, match=UNLOGGED):
        scorer = jrh.to_mlflow(unlogged, tracking_uri=store_uri)
    feedback = scorer(**row(graded().items[0], ""))
    assert feedback.metadata[keys.FEEDBACK_RUN].split(", ") == on(runs, "hand-grades")
    assert jrh.status(scorer, tracking_uri=store_uri).state == "measured"


@pytest.mark.slow
def test_a_logged_jury_is_exported_by_its_run(logged, store_uri):
    by_object, by_run = (
        specification(jrh.to_mlflow(what, part="best", tracking_uri=store_uri)) for what in (logged, logged.run_id)
    )
    assert by_object == by_run
    whole = specification(jrh.to_mlflow(f"runs:/{logged.run_id}", tracking_uri=store_uri))
    assert (whole["kind"], whole["panel"]["judges"], whole["panel"]["rule"]["ties"]) == ("jury", [*MODELS], "lowest")
    assert by_run["datasheet"]["run_id"] == whole["datasheet"]["run_id"] == logged.run_id


def by_model(runs: dict[str, jrh.Evaluation]) -> list[tuple[str, str]]:
    return list(zip(MODELS, on(runs, "hand-grades"), strict=True))


def test_feedback_of_a_jury_names_each_judge_its_datasheet_and_its_answer_and_sums_what_they_used(
    logged, runs, store_uri
):
    scorer = jrh.to_mlflow(logged, tracking_uri=store_uri)
    alone = {model: jrh.to_mlflow(run, tracking_uri=store_uri) for model, run in by_model(runs)}
    item = next(one for one in graded().items if all(said(s(**row(one, "")), "") in "123" for s in alone.values()))
    feedback, singles = scorer(**row(item, "")), {model: one(**row(item, "")) for model, one in alone.items()}
    found = jrh.status(scorer, tracking_uri=store_uri)
    assert (found.state, found.run_id, found.link) == ("measured", logged.run_id, logged.link)
    with pytest.raises(RecipeError, match="use it as it is"):
        jrh.to_mlflow(scorer, tracking_uri=store_uri)
    told = json.loads(feedback.metadata[keys.FEEDBACK_MEMBERS])
    assert told == [
        {
            "judge": model,
            "datasheet_run_id": run,
            "fingerprint": singles[model].metadata[keys.FEEDBACK_FINGERPRINT],
            "answers": [str(singles[model].value)],
            "answered_by": [singles[model].metadata[keys.FEEDBACK_ANSWERED_BY]],
        }
        for model, run in by_model(runs)
    ]
    for key in (keys.JUDGE_INPUT_TOKENS, keys.JUDGE_OUTPUT_TOKENS):
        assert feedback.metadata[key] == sum(one.metadata[key] for one in singles.values())
    assert feedback.metadata[keys.FEEDBACK_RUN] == logged.run_id
    assert feedback.metadata[keys.FEEDBACK_SUITE_SHA256] == graded().sha256
    assert feedback.source.source_id == "openai/cheap, openai/other, openai/strong"


def test_too_few_votes_are_an_error_that_says_who_failed(runs, store_uri):
    done = jrh.jury(on(runs, "hand-grades"), min_votes=3, tracking_uri=store_uri, log=False)
    scorer = jrh.to_mlflow(done, tracking_uri=store_uri)
    failed = [one for item in graded().items if (one := scorer(**row(item, ""))).error is not None]
    assert failed
    assert all(one.value is None and "judges voted, and 3 are needed" in one.error.error_message for one in failed)
    assert all(keys.FEEDBACK_MEMBERS in one.metadata for one in failed)


def test_both_orders_of_a_pair_are_voted_on_and_read_as_one_judge_s_answers(runs, store_uri):
    suite = pairs()
    done = jrh.jury(on(runs, suite.name), tracking_uri=store_uri, log=False)
    scorer = jrh.to_mlflow(done, tracking_uri=store_uri)
    assert specification(scorer)["orders"] == "both", "answers that depend on the order are asked both ways round"
    votes = measured(done.report.answers)
    for item in suite.items:
        feedback = scorer(**row(item, "uv"))
        first, second = votes[item.id, "uv"], {"1": "2", "2": "1"}.get(votes[item.id, "vu"], votes[item.id, "vu"])
        if {first, second} & {"error", "unparsed"}:
            assert feedback.error is not None
        else:
            assert said(feedback, "uv") == (first if first == second else TIE)


def test_a_jury_has_no_part_that_was_not_measured(unlogged, runs, store_uri):
    with pytest.raises(RecipeError, match="this jury was measured without one"):
        jrh.to_mlflow(unlogged, part="best", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="one by one"):
        jrh.to_mlflow(unlogged, form="make_judge", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="is of a jury"):
        jrh.to_mlflow(runs["cheap hand-grades"], part="best", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="Did you mean"):
        jrh.to_mlflow(unlogged, part="bset", tracking_uri=store_uri)


def test_the_best_panel_is_exported_with_its_judges_alone(runs, store_uri):
    done = jrh.jury(on(runs, "hand-grades"), size=2, min_votes=1, tracking_uri=store_uri, log=False)
    spec = specification(jrh.to_mlflow(done, part="best", tracking_uri=store_uri))
    assert tuple(spec["panel"]["judges"]) == done.report.best.panel
    assert [one["name"] for one in spec["members"]] == list(done.report.best.panel)


def steady(server: LoopbackServer) -> jrh.PromptedJudge:
    return jrh.PromptedJudge("openai/steady", api_base=server.url, name="steady")


@pytest.fixture(scope="module")
def whole(server: LoopbackServer, store_uri: str) -> jrh.Evaluation:
    """The judge of the sweep, measured by itself before."""
    return jrh.evaluate(
        steady(server), graded(), experiment="exported", tracking_uri=store_uri, traces="none", progress=False
    )


@pytest.fixture(scope="module")
def swept(
    store_uri: str, server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory, whole: jrh.Evaluation
) -> jrh.Sweep:
    space = {
        "models": [{"model": "openai/steady", "name": "steady", "api_base": server.url}],
        "replicates": [1, 3],
        "orders": ["one"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        return jrh.sweep(
            space,
            graded(),
            n_trials=2,
            experiment="exported",
            tracking_uri=store_uri,
            traces="none",
            progress=False,
            prices=PRICES,
        )


@pytest.mark.slow
def test_of_a_sweep_the_best_configuration_is_exported(swept, store_uri):
    best = swept.best
    found = [specification(jrh.to_mlflow(what, tracking_uri=store_uri)) for what in (swept, swept.run_id, best)]
    assert found[0] == found[1] == found[2]
    assert found[0]["datasheet"]["run_id"] == best.holdout.run_id
    for what in (swept, swept.run_id, best):
        told = jrh.status(what, tracking_uri=store_uri)
        assert (told.state, told.run_id) == ("measured", best.run_id)


def test_a_member_of_a_sweep_is_asked_as_often_as_it_was_there(swept, store_uri, server):
    often = next(one for one in swept.members if one.configuration.policy.replicates == 3)
    scorer = jrh.to_mlflow(often, tracking_uri=store_uri)
    spec = specification(scorer)
    assert (spec["kind"], spec["policy"]) == ("policy", {"replicates": 3, "vote": "majority"})
    assert spec["orders"] == "one"
    before = server.counts["requests"]
    scorer(inputs={"instruction": "Question?"}, outputs="an answer")
    assert server.counts["requests"] == before + 3
    assert jrh.status(scorer, tracking_uri=store_uri).reason.startswith("Measured on hand-grades")


def test_a_judge_by_itself_is_asked_once_and_its_datasheet_is_no_trial_of_a_sweep(swept, whole, store_uri, server):
    tried = [specification(jrh.to_mlflow(one, tracking_uri=store_uri)) for one in swept.members]
    spec = specification(jrh.to_mlflow(steady(server), tracking_uri=store_uri))
    assert (spec["kind"], spec["status"], spec["datasheet"]["run_id"]) == ("judge", "measured", whole.run_id)
    assert {one["fingerprint"] for one in tried} == {spec["fingerprint"]}, "the sweep tried the same judge"
