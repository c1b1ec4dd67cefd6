"""Judges of one response from the call to MLflow: functions, models, MLflow's judges; pages, keys, comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.suite import suite as suite_commands
from jrh_mlflow.comparing.jury.votes import votes
from jrh_mlflow.engine import calls_frame
from jrh_mlflow.errors import CallsError, RecipeError, SuiteError
from jrh_mlflow.measures.composite import item_decisions, tally
from jrh_mlflow.measuring.suite_audit import audit_suite
from jrh_mlflow.schema.items import SINGLE_LADDERS
from jrh_mlflow.show.names import axis_name
from tests.cases import few
from tests.loopback import LoopbackServer
from tests.readings import asked
from tests.tracking.judges.mlflow_chat import MODEL, ChatServer, chatting, verdict

ALL_CALLS = 2 * (2 * 3 * 2 + 2 + 2)
"""Two tasks with three levels on two ladders, each twice, two vacua, two paddings."""


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(design="pointwise", n_tasks=2, depth=2)


@pytest.fixture(scope="module")
def scores() -> jrh.Suite:
    return jrh.datasheet_suite(design="pointwise-scores", n_tasks=2, depth=2)


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        yield server


def evaluated(judge: object, suite: jrh.Suite, store_uri: str, **how: Any) -> jrh.Evaluation:
    return jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="pointwise", traces="none", **how)


def longer(shown: jrh.Presentation) -> bool:
    return len(shown.response or "") > 20


def test_a_function_gets_one_response_and_its_datasheet_is_logged(small: jrh.Suite, store_uri: str) -> None:
    seen: list[jrh.Presentation] = []

    def judge(shown: jrh.Presentation) -> bool:
        seen.append(shown)
        return longer(shown)

    done = evaluated(judge, small, store_uri, metrics="all")
    assert len(seen) == len(done.calls) == ALL_CALLS
    assert {(shown.kind, shown.answers, shown.first) for shown in seen} == {("response", ("no", "yes"), None)}
    assert done.metrics["pointwise/separation/delta_2/rate"] == 0.5
    assert done.metrics["pointwise/dark_current/rate"] == 0
    assert done.metrics["pointwise/repeat_agreement/rate"] == 1
    assert {"pointwise/separation/delta_1/cluster_ci_low", "pointwise/reading_gap/delta_1/value"} <= set(done.metrics)
    assert done.datasheet.profile.startswith("yes/no answers; ")
    with pytest.raises(AttributeError):
        _ = done.report
    client = MlflowClient(tracking_uri=store_uri)
    run = client.get_run(done.run_id)
    assert run.data.tags["jrh.profile"] == done.datasheet.profile
    assert "One response: levels of the ladder" in run.data.tags["mlflow.note.content"]
    curve = client.get_metric_history(done.run_id, "pointwise/mean_answer/curve")
    assert sorted((point.step, point.value) for point in curve) == [(0, 1), (1, 1), (2, 1)]
    files = {file.path for file in client.list_artifacts(done.run_id, "figures")}
    assert {"figures/answer_by_level.svg", "figures/separation.svg"} <= files


def test_the_page_shows_every_number_of_a_judge_of_one_response(small: jrh.Suite, store_uri: str) -> None:
    done = evaluated(jrh.scripted.Oracle(), small, store_uri)
    client = MlflowClient(tracking_uri=store_uri)
    page = Path(client.download_artifacts(done.run_id, "datasheet.html")).read_text(encoding="utf-8")
    # A family of steps is a matrix: its name is the head of a column.
    for text in {axis_name(key).partition(" (")[0] for key in done.datasheet.estimates}:
        assert text in page, text
    assert "figures/answer_by_level.svg" in {file.path for file in client.list_artifacts(done.run_id, "figures")}
    data = json.loads(Path(client.download_artifacts(done.run_id, "datasheet.json")).read_text(encoding="utf-8"))
    assert data["estimates"]["pointwise/separation/delta_1"]["value"] == 1


def by_length(body: dict[str, Any], low: str, high: str) -> str:
    """Answer high where the shown response is longer than its markers, low where there is nothing in it."""
    shown = body["messages"][1]["content"].partition("<response code=")[2].partition("</response")[0]
    return json.dumps({"reason": "r", "verdict": high if len(shown) > 60 else low})


@pytest.mark.parametrize(("form", "low", "high"), [("small", "no", "yes"), ("scores", "1", "5")])
def test_a_prompted_judge_is_told_which_answers_there_are(
    request: pytest.FixtureRequest,
    form: str,
    low: str,
    high: str,
    store_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    suite: jrh.Suite = request.getfixturevalue(form)
    with LoopbackServer(reply=lambda body: by_length(body, low, high), record=True) as server:
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url)
        done = evaluated(judge, suite, store_uri)
        assert server.counts["requests"] == ALL_CALLS, "every repeat is a request of its own"
        again = evaluated(judge, suite, store_uri)
        assert server.counts["requests"] == ALL_CALLS, "and is served from the journal the second time"
    assert {json.dumps(low), json.dumps(high)} <= set(
        server.requests[0]["body"]["messages"][1]["content"].replace(",", " ").replace(".", " ").split()
    )
    assert set(done.calls["answer"]) == {low, high}
    assert done.metrics["pointwise/dark_current/rate"] == 0
    assert done.metrics["pointwise/separation/delta_2/rate"] == 0.5
    assert again.datasheet.estimates == done.datasheet.estimates


@pytest.mark.parametrize(("kind", "value"), few([(bool, True), (int, 4), (float, 0.9)]))
def test_an_mlflow_judge_is_measured_whichever_type_its_feedback_has(
    small: jrh.Suite, store_uri: str, chat: ChatServer, kind: type, value: object
) -> None:
    from mlflow.genai import make_judge

    chat.reply = lambda _: verdict(value)
    judge = make_judge(
        name="fine", instructions="Is {{ outputs }} fine for {{ inputs }}?", model=MODEL, feedback_value_type=kind
    )
    done = evaluated(judge, small, store_uri)
    assert set(done.calls["outcome"]) == {"verdict"}, done.calls["error"].dropna().unique()
    assert done.metrics["pointwise/separation/delta_2/rate"] == 0.5
    assert done.metrics["pointwise/dark_current/rate"] == 1


def test_a_scorer_that_returns_numbers_or_bools_is_measured(small: jrh.Suite, store_uri: str) -> None:
    from mlflow.genai.scorers import scorer

    @scorer
    def words(outputs):  # type: ignore[no-untyped-def]
        return len(outputs.split())

    @scorer
    def present(outputs):  # type: ignore[no-untyped-def]
        return bool(outputs.strip())

    for judge, profile in ((words, "scores from 0 to"), (present, "yes/no answers")):
        done = evaluated(judge, small, store_uri)
        assert done.datasheet.profile.startswith(profile)
        assert done.metrics["pointwise/dark_current/rate"] == 0
        assert not done.withheld


def test_two_judges_are_compared_on_the_same_suite_only(small: jrh.Suite, scores: jrh.Suite, store_uri: str) -> None:
    runs = [evaluated(judge, small, store_uri).run_id for judge in (jrh.scripted.Oracle(), longer)]
    done = jrh.compare(runs, tracking_uri=store_uri)
    assert "pointwise/separation/delta_2" in done.contrasts.axes
    assert axis_name("pointwise/separation/delta_2").partition(" (")[0] in done.to_html()
    other = evaluated(longer, scores, store_uri).run_id
    with pytest.raises(RecipeError, match="different suites"):
        jrh.compare([runs[0], other], tracking_uri=store_uri, log=False)


def test_the_command_line_knows_the_suites() -> None:
    shown = CliRunner().invoke(suite_commands, ["show", "pointwise-datasheet", "--json"])
    assert json.loads(shown.output)["n_calls"] == 784
    scores = CliRunner().invoke(suite_commands, ["show", "pointwise-datasheet-scores", "--json"])
    assert json.loads(scores.output)["n_calls"] == 784
    assert jrh.load_suite("pointwise-datasheet-scores").labels == ("1", "2", "3", "4", "5")


def test_a_jury_and_a_composite_say_that_no_answer_is_known_to_be_right_here(small: jrh.Suite) -> None:
    calls = calls_frame(asked(longer, small))
    with pytest.raises(CallsError, match="known right answer"):
        votes({"one": calls, "two": calls})
    with pytest.raises(SuiteError, match="has no part on this suite"):
        tally(item_decisions(calls), labels=small.labels)


def test_no_shortcut_separates_the_levels_of_the_matched_ladder() -> None:
    suite = jrh.load_suite("pointwise-datasheet")
    tasks = list(dict.fromkeys(item.task for item in suite.items))[:12]
    done = audit_suite(jrh.Suite(name="twelve tasks", items=[item for item in suite.items if item.task in tasks]))
    assert done.conditions == list(SINGLE_LADDERS)
    assert done.judged == [SINGLE_LADDERS[1]]
    matched = [one for one in done.readings if one.condition == SINGLE_LADDERS[1]]
    assert {one.shortcut for one in matched} == {shortcut.__name__ for shortcut in jrh.scripted.SHORTCUTS}
    outside = {(one.shortcut, one.direction): one.estimate.value for one in matched if not one.within}
    assert not outside
    assert not done.failed
    words = next(one for one in done.readings if (one.shortcut, one.direction) == ("WordOverlap", "more"))
    assert words.condition == SINGLE_LADDERS[0]
    assert words.estimate.value > 0.9
    assert words.estimate.n == 12 * 15


def test_the_audit_reads_what_the_shortcut_reads_as_a_judge_of_one_response() -> None:
    suite = jrh.datasheet_suite(design="pointwise", n_tasks=4)
    done = audit_suite(suite)
    for name in ("WordOverlap", "TfidfCosine", "RareWords"):
        sheet = jrh.measure(asked(getattr(jrh.scripted, name)(), suite), n_resamples=20)
        found = [
            reading for axis, reading in sheet.estimates.items() if axis.startswith("pointwise/matched_separation/")
        ]
        pooled = sum(one.value * one.n for one in found) / sum(one.n for one in found)
        audited = next(
            one
            for one in done.readings
            if (one.shortcut, one.direction, one.condition) == (name, "more", SINGLE_LADDERS[1])
        )
        assert audited.estimate.value == pytest.approx(pooled), name
