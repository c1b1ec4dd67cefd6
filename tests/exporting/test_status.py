"""Whether the judge that runs is the judge that was measured: `jrh.status` and `jrh watch --status`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import mlflow
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow.genai.scorers import Guidelines, RelevanceToQuery, Safety, scorer

import jrh_mlflow as jrh
from jrh_mlflow.cli.watch import watch as command
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.judges import rendering
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.identity import measured_judges
from jrh_mlflow.tracking.judges.judge_registry import active_store
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from jrh_mlflow.tracking.mlflow_server import folder_uri
from jrh_mlflow.tracking.runs import keys
from tests.cases import few
from tests.loopback import LoopbackServer
from tests.tracking.judges.mlflow_chat import chatting, compare

pytestmark = pytest.mark.quick

EXPERIMENT = "status"
CUSTOM = "MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of its own: whether a judge was never measured depends on every run of its store."""
    uri = folder_uri(tmp_path_factory.mktemp("status"))
    with active_store(uri):
        mlflow.set_experiment(EXPERIMENT)
        yield uri


@pytest.fixture(scope="module")
def pairs() -> Suite:
    rows = [{"instruction": f"Task {n}", "first": "good", "second": "bad", "better": "1"} for n in range(2)]
    return jrh.natural_suite(pd.DataFrame(rows), name="two pairs")


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(model_name="model-of-june") as server:
        yield server


def measure(judge: object, suite: Suite, uri: str, traces: str = "none") -> jrh.Evaluation:
    return jrh.evaluate(judge, suite, experiment=EXPERIMENT, tracking_uri=uri, progress=False, traces=traces)


def said(judge: object, **more: Any) -> tuple[str, set[str]]:
    found = jrh.status(judge, **more)
    return found.state, {one.what for one in found.differs}


def prompted(server: LoopbackServer, **more: Any) -> jrh.PromptedJudge:
    return jrh.PromptedJudge("openai/gpt-4o-mini", api_base=server.url, **more)


@pytest.fixture(scope="module")
def june(uri: str, server: LoopbackServer, pairs: Suite) -> jrh.Evaluation:
    """A judge called June, as it was measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        return measure(prompted(server, name="June"), pairs, uri, traces="all")


def test_a_judge_is_measured_wherever_in_the_store_it_was(uri: str, june: jrh.Evaluation, server: LoopbackServer):
    found = jrh.status(prompted(server, name="July"), experiment="another one", tracking_uri=uri)
    assert (found.state, found.run_id, found.differs) == ("measured", june.run_id, ())
    assert found.link == june.link
    assert bool(found)
    assert said(june) == said(june.run_id) == said(f"runs:/{june.run_id[:9]}") == ("measured", set())


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"tie_criterion": "strict"}, {"prompt"}),
        ({"prompt": "Which of {candidates}?\n"}, {"prompt"}),
        ({"temperature": 0.5, "seed": 3}, {"settings"}),
    ],
)
def test_a_judge_of_a_measured_name_that_differs_is_stale(
    uri: str, june: jrh.Evaluation, server: LoopbackServer, changed: dict[str, Any], what: set[str]
):
    found = jrh.status(prompted(server, name="June", **changed), tracking_uri=uri)
    assert (found.state, {one.what for one in found.differs}) == ("stale", what)
    assert (found.run_id, bool(found)) == (june.run_id, False)
    assert all(word in found.reason for word in what)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"rubric": "Be brief."}, {"prompt"}),
        ({"temperature": 0.5}, {"settings"}),
    ],
)
def test_a_judge_without_a_name_is_stale_by_the_nearest_run_of_its_model(
    uri: str, june: jrh.Evaluation, server: LoopbackServer, changed: dict[str, Any], what: set[str]
):
    made = prompted(server, **changed)
    with pytest.warns(JrhWarning, match="Stale"):
        exported = jrh.to_mlflow(made, tracking_uri=uri)
    for judge in (made, exported):
        found = jrh.status(judge, tracking_uri=uri)
        assert (found.state, found.run_id, {one.what for one in found.differs}) == ("stale", june.run_id, what)
    assert jrh.status(jrh.PromptedJudge("openai/gpt-4o", **changed), tracking_uri=uri).state == "never measured"


def test_the_nearest_run_of_a_model_is_the_one_with_the_fewest_differences(
    uri: str, june: jrh.Evaluation, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    measure(prompted(server, rubric="Be kind.", temperature=0.7, tie_criterion="strict"), pairs, uri)
    found = jrh.status(prompted(server, seed=4), tracking_uri=uri)
    assert (found.run_id, [one.what for one in found.differs]) == (june.run_id, ["settings"])


def test_what_was_never_measured_says_the_command_that_measures_it(uri: str):
    found = jrh.status(jrh.PromptedJudge("openai/gpt-4o", tie_criterion="strict", seed=5), tracking_uri=uri)
    assert (found.state, found.run_id, found.link) == ("never measured", None, None)
    assert found.measure == "jrh evaluate --model openai/gpt-4o --criterion strict --judge-seed 5"
    assert json.loads(json.dumps(found.to_dict()))["state"] == "never measured"


def test_names_with_quotes_are_found(uri: str, pairs: Suite):
    for name in ('it\'s "100 %"', "back\\slash"):
        judge = jrh.scripted.WordPairs()
        judge.name = name
        run = measure(judge, pairs, uri)
        assert jrh.status(judge, tracking_uri=uri).run_id == run.run_id
        judge.seed = 9
        assert said(judge, tracking_uri=uri) == ("stale", {"settings"})


def test_a_run_is_stale_when_the_environment_names_another_endpoint(
    uri: str, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    run = measure(jrh.PromptedJudge("openai/gpt-4o-mini", seed=11), pairs, uri)
    assert said(run, tracking_uri=uri) == ("measured", set())
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere:1/v1")
    found = jrh.status(run, tracking_uri=uri)
    assert [(one.what, one.running) for one in found.differs] == [("model", "endpoint http://elsewhere:1/v1")]


def test_a_run_is_stale_when_this_version_has_other_prompts(
    uri: str, june: jrh.Evaluation, monkeypatch: pytest.MonkeyPatch
):
    now = rendering.package_texts()
    later = rendering.PackageTexts(templates=now.templates, format=f"Later: {now.format}", no_rubric=now.no_rubric)
    monkeypatch.setattr(rendering, "package_texts", lambda: later)
    assert said(june, tracking_uri=uri) == ("stale", {"prompt"})


@pytest.mark.slow
def test_a_run_is_stale_when_the_alias_of_its_prompt_moved_and_not_when_it_came_back(
    uri: str, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    client = mlflow.MlflowClient(tracking_uri=uri)
    for text in ("First: {{candidates}}", "Second: {{candidates}}"):
        mlflow.genai.register_prompt("moving", text)
    mlflow.genai.set_prompt_alias("moving", "live", 1)
    judge = prompted(server, prompt="prompts:/moving@live")
    run = measure(judge, pairs, uri)
    assert said(run, tracking_uri=uri) == said(judge, tracking_uri=uri) == ("measured", set())
    mlflow.genai.set_prompt_alias("moving", "live", 2)
    found = jrh.status(run, tracking_uri=uri)
    assert [one.what for one in found.differs] == ["prompt"]
    assert "First" in found.differs[0].measured
    assert "Second" in found.differs[0].running
    assert "prompts:/moving@live" in found.measure
    assert said(judge, tracking_uri=uri)[0] != "measured"
    mlflow.genai.set_prompt_alias("moving", "live", 1)
    assert said(run, tracking_uri=uri) == ("measured", set())
    client.delete_prompt_alias("moving", "live")
    assert "no longer there" in jrh.status(run, tracking_uri=uri).differs[0].running


def test_a_new_version_of_a_registered_judge_is_stale_by_prompt_and_version(
    uri: str, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    place = mlflow.get_experiment_by_name(EXPERIMENT).experiment_id
    with chatting(monkeypatch):
        compare(name="nearer").register(experiment_id=place)
        assert said("nearer", experiment=EXPERIMENT, tracking_uri=uri) == ("never measured", set())
        run = measure("scorers:/nearer", pairs, uri)
        assert said("nearer", experiment=EXPERIMENT, tracking_uri=uri) == ("measured", set())
        compare(name="nearer").register(experiment_id=place)
        # The same text under another number is the same judge.
        for same in ("scorers:/nearer", "scorers:/nearer@1", run):
            assert said(same, experiment=EXPERIMENT, tracking_uri=uri) == ("measured", set())
        compare(name="nearer", instructions="Compare the two {{ outputs }}.").register(experiment_id=place)
        for newest in ("nearer", "scorers:/nearer@3", run):
            found = jrh.status(newest, experiment=EXPERIMENT, tracking_uri=uri)
            assert (found.state, [one.what for one in found.differs]) == ("stale", ["prompt", "version"])
            command_line = f"jrh evaluate scorers:/nearer --suite runs:/{run.run_id}/suite"
            assert (found.run_id, found.measure) == (run.run_id, command_line)
        assert found.differs[1].running == "registered as nearer version 3"
        assert said("scorers:/nearer@2", experiment=EXPERIMENT, tracking_uri=uri) == ("measured", set())
        assert len([*measured_judges(params={keys.PARAM_REGISTERED_NAME: "nearer"}, tracking_uri=uri)]) == 1


def test_a_judge_of_mlflow_is_compared_by_its_own_data(uri: str, pairs: Suite, monkeypatch: pytest.MonkeyPatch):
    with chatting(monkeypatch):
        judge = compare(name="by data")
        run = measure(judge, pairs, uri)
        assert jrh.status(compare(name="by data"), tracking_uri=uri).run_id == run.run_id
        assert jrh.status(compare(name="another name"), tracking_uri=uri).run_id == run.run_id
        assert said(compare(name="by data", model="openai:/gpt-4o"), tracking_uri=uri) == ("stale", {"model"})
        monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:1/v1")
        assert said(judge, tracking_uri=uri) == said(run, tracking_uri=uri) == ("stale", {"model"})
    assert said(from_mlflow(compare(name="fresh")), tracking_uri=uri) == ("never measured", set())


@pytest.fixture(scope="module")
def singles() -> Suite:
    shown: dict[str, Any] = {"condition": "baseline", "kind": "response", "instruction": "Say a", "response": "a"}
    items = [Item(id=name, task=name, answers=("no", "yes"), expected="yes", **shown) for name in "ab"]
    return Suite(name="two responses", items=items)


@pytest.mark.parametrize(
    "judge", few([Guidelines(name="kind", guidelines="Be kind."), Safety(name="safe"), RelevanceToQuery(name="apt")])
)
def test_a_judge_that_mlflow_brings_is_measured_itself_as_a_run_and_exported(
    judge: Any, uri: str, singles: Suite, monkeypatch: pytest.MonkeyPatch
):
    with chatting(monkeypatch) as server:
        server.reply = lambda _: json.dumps({"result": "yes", "rationale": "So it is."})
        run = measure(judge, singles, uri)
        for same in (judge, run, jrh.to_mlflow(run, tracking_uri=uri)):
            found = jrh.status(same, tracking_uri=uri)
            assert (found.state, found.differs, found.run_id) == ("measured", (), run.run_id)


@pytest.fixture
def exported(uri: str, june: jrh.Evaluation, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv(CUSTOM, "true")
    return jrh.to_mlflow(june, name="june_scorer", tracking_uri=uri)


def test_an_exported_judge_is_measured_by_the_datasheet_it_carries(uri: str, june: jrh.Evaluation, exported: Any):
    found = jrh.status(exported, tracking_uri=uri)
    assert (found.state, found.run_id, found.differs) == ("measured", june.run_id, ())


def test_an_mlflow_judge_under_the_name_of_another_kind_of_judge_was_never_measured(uri: str, june: jrh.Evaluation):
    made = jrh.to_mlflow(june, form="make_judge", tracking_uri=uri)
    assert made.name == "June"
    assert said(made, tracking_uri=uri) == ("never measured", set())
    made.register(name="June", experiment_id=mlflow.get_experiment_by_name(EXPERIMENT).experiment_id)
    assert said("scorers:/June", experiment=EXPERIMENT, tracking_uri=uri) == ("never measured", set())


def test_an_exported_judge_of_an_endpoint_of_the_environment_is_stale_where_that_names_another(
    uri: str, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", server.url)
    run = measure(jrh.PromptedJudge("hosted_vllm/judge"), pairs, uri)
    made = jrh.to_mlflow(run, tracking_uri=uri)
    assert said(made, tracking_uri=uri) == ("measured", set())
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://elsewhere:1/v1")
    assert said(made, tracking_uri=uri) == said(run, tracking_uri=uri) == ("stale", {"model"})


@pytest.mark.since_mlflow("3.17")
def test_a_registered_exported_judge_is_read_and_never_run(
    uri: str, june: jrh.Evaluation, exported: Any, monkeypatch: pytest.MonkeyPatch
):
    place = mlflow.get_experiment_by_name(EXPERIMENT).experiment_id
    exported.register(experiment_id=place)

    @scorer
    def trap(outputs: Any) -> str:
        from pathlib import Path

        Path("sprung").touch()
        return "A"

    trap.register(experiment_id=place)
    monkeypatch.delenv(CUSTOM)
    found = jrh.status("june_scorer", experiment=EXPERIMENT, tracking_uri=uri)
    assert (found.state, found.run_id) == ("measured", june.run_id)
    assert said("scorers:/trap", experiment=EXPERIMENT, tracking_uri=uri) == ("never measured", set())
    with pytest.raises(RecipeError, match="Did you mean 'june_scorer'"):
        jrh.status("june_scorr", experiment=EXPERIMENT, tracking_uri=uri)
    assert not Path("sprung").exists()


@pytest.mark.since_mlflow("3.17")
def test_a_new_version_of_a_registered_exported_judge_is_held_against_the_datasheet_of_the_one_before(
    uri: str, june: jrh.Evaluation, exported: Any
):
    place = mlflow.get_experiment_by_name(EXPERIMENT).experiment_id
    exported.register(name="versions", experiment_id=place)
    with pytest.warns(JrhWarning, match="Never measured"):
        other = jrh.to_mlflow(jrh.PromptedJudge("openai/gpt-4.1"), tracking_uri=uri)
    other.register(name="versions", experiment_id=place)
    found = jrh.status("scorers:/versions", experiment=EXPERIMENT, tracking_uri=uri)
    assert (found.state, found.run_id) == ("stale", june.run_id)
    assert "model" in {one.what for one in found.differs}
    assert said("scorers:/versions@1", experiment=EXPERIMENT, tracking_uri=uri) == ("measured", set())


def test_newer_feedback_of_another_model_makes_judge_and_run_stale(
    uri: str, june: jrh.Evaluation, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    run = measure(prompted(server, seed=21), pairs, uri)
    made = jrh.to_mlflow(run, name="answered", tracking_uri=uri)
    places = [mlflow.get_experiment_by_name(f"{EXPERIMENT}-calls").experiment_id]
    trace = mlflow.MlflowClient(tracking_uri=uri).search_traces(locations=places, include_spans=False)[0]

    def feedback(model: str, run_id: str, fingerprint: str) -> None:
        metadata = {
            keys.FEEDBACK_RUN: run_id,
            keys.FEEDBACK_FINGERPRINT: fingerprint,
            keys.FEEDBACK_ANSWERED_BY: model,
        }
        mlflow.log_feedback(trace_id=trace.info.trace_id, name="answered", value="A", metadata=metadata)

    own = str(prompted(server, seed=21).fingerprint())
    feedback("model-of-june", run.run_id, own)
    feedback("model-of-autumn", "0" * 32, own)
    # A stale judge names the datasheet that it differs from: whoever answers it answers for another judge.
    feedback("model-of-autumn", run.run_id, str(prompted(server, seed=22).fingerprint()))
    assert said(run, tracking_uri=uri) == said(made, tracking_uri=uri) == ("measured", set())
    feedback("model-of-autumn", run.run_id, own)
    for judge in (run, made):
        (found,) = jrh.status(judge, tracking_uri=uri).differs
        assert (found.what, found.measured, found.running) == ("answering model", "model-of-june", "model-of-autumn")


def test_an_exported_judge_whose_datasheet_is_elsewhere_says_so(
    uri: str, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    run = measure(prompted(server, seed=31), pairs, other)
    made = jrh.to_mlflow(run.run_id, tracking_uri=other)
    found = jrh.status(made, tracking_uri=uri)
    assert (found.state, found.run_id) == ("never measured", None)
    assert run.run_id in found.reason


def test_code_is_told_from_other_code_by_its_name(uri: str, pairs: Suite):
    def first(shown: jrh.Presentation) -> str:
        return "1"

    def second(shown: jrh.Presentation) -> str:
        return "2"

    run = measure(first, pairs, uri)
    assert jrh.status(first, tracking_uri=uri).run_id == run.run_id
    second.__qualname__ = first.__qualname__
    assert said(second, tracking_uri=uri) == ("stale", {"version"})
    assert said(run, tracking_uri=uri)[0] == "measured"


def test_simulated_judges_are_said_to_be(uri: str, pairs: Suite):
    run = measure(jrh.scripted.AlwaysFirst(), pairs, uri)
    found = jrh.status(run, tracking_uri=uri)
    assert (found.simulated, found.name) == (True, "AlwaysFirst (simulated)")
    changed = jrh.status(jrh.scripted.AlwaysFirst().with_criterion("strict"), tracking_uri=uri)
    assert (changed.state, changed.simulated) == ("stale", True)


def test_the_command_prints_state_differences_link_and_what_measures_it(
    uri: str, june: jrh.Evaluation, monkeypatch: pytest.MonkeyPatch
):
    run = CliRunner().invoke(command, [june.run_id[:10], "--status", "--tracking-uri", uri, "--check"])
    assert (run.exit_code, run.output.splitlines()) == (
        0,
        ["June: Measured on two pairs.", f"datasheet: {june.link}"],
    )
    now = rendering.package_texts()
    later = rendering.PackageTexts(templates=now.templates, format="Later.", no_rubric=now.no_rubric)
    monkeypatch.setattr(rendering, "package_texts", lambda: later)
    stale = CliRunner().invoke(command, [june.run_id, "--status", "--tracking-uri", uri, "--check"])
    lines = stale.output.splitlines()
    assert (stale.exit_code, len(lines)) == (1, 4)
    assert lines[0] == "June: Stale: prompt differs from what was measured on two pairs."
    assert lines[1].startswith("  prompt: answer format ")
    assert lines[3].startswith("measure it: jrh evaluate --model openai/gpt-4o-mini --name June")
    told = CliRunner().invoke(command, [june.run_id, "--status", "--tracking-uri", uri, "--json"])
    data = json.loads(told.output)
    assert (told.exit_code, data["state"], data["differs"][0]["what"]) == (0, "stale", "prompt")


def test_status_takes_no_option_of_a_look_and_check_goes_with_status(uri: str) -> None:
    for options, says in (
        (["--status", "--max-usd", "1", "--panel", "8"], "--status does not take --max-usd, --panel"),
        (["--check"], "--check goes with --status"),
    ):
        refused = CliRunner().invoke(command, ["0" * 32, "--tracking-uri", uri, *options])
        assert refused.exit_code == 2
        assert says in refused.output


def test_what_is_neither_a_run_nor_a_scorer_is_refused(uri: str):
    for wrong in ("0" * 32, "runs:/nothing", "scorers:/nobody", "scorers:/", "no such judge"):
        with pytest.raises(RecipeError):
            jrh.status(wrong, tracking_uri=uri)


@pytest.mark.slow
def test_an_exported_jury_is_what_its_judges_are(
    uri: str, june: jrh.Evaluation, server: LoopbackServer, pairs: Suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    others = [measure(prompted(server, seed=seed, name=f"Juror {seed}"), pairs, uri) for seed in (41, 42)]
    jury = jrh.jury([one.run_id for one in others], tracking_uri=uri)
    made = jrh.to_mlflow(jury, tracking_uri=uri)
    found = jrh.status(made, tracking_uri=uri)
    assert (found.state, found.run_id, found.link) == ("measured", jury.run_id, jury.link)
    unlogged = replace(jury, run_id=None, link=None)
    for what in (jury, jury.run_id, unlogged):
        told = jrh.status(what, tracking_uri=uri)
        assert (told.state, told.reason) == ("measured", found.reason)
        assert told.run_id == (others[0].run_id if what is unlogged else jury.run_id)
    monkeypatch.setattr(server, "model_name", "model-of-autumn")
    place = mlflow.get_experiment_by_name(f"{EXPERIMENT}-calls").experiment_id
    trace = mlflow.MlflowClient(tracking_uri=uri).search_traces(locations=[place], include_spans=False)[0]
    with pytest.warns(JrhWarning, match="model-of-autumn"):
        feedback = made(inputs="Which?", outputs={"A": "a", "B": "b"})
    mlflow.log_feedback(trace_id=trace.info.trace_id, name=made.name, value="A", metadata=feedback.metadata)
    for what in (made, jury, jury.run_id, others[1]):
        told = jrh.status(what, tracking_uri=uri)
        assert (told.state, {one.what for one in told.differs}) == ("stale", {"answering model"})
        assert all(one.running.endswith("model-of-autumn") for one in told.differs)
    mlflow.MlflowClient(tracking_uri=uri).delete_run(others[0].run_id)
    assert jrh.status(made, tracking_uri=uri).state == "never measured"
    assert "Juror 41, Juror 42 of its 2 judges" in jrh.status(made, tracking_uri=uri).reason


def test_the_command_for_a_judge_of_one_response_names_a_suite_that_it_can_be_put_to(uri: str):
    place = mlflow.get_experiment_by_name(EXPERIMENT).experiment_id
    compare(name="one response", feedback_value_type=Literal["yes", "no"]).register(experiment_id=place)
    found = jrh.status("one response", experiment=EXPERIMENT, tracking_uri=uri)
    assert found.measure == "jrh evaluate 'scorers:/one response' --suite pointwise-datasheet"
    plain = jrh.status(Safety(model="openai:/gpt-4o-mini"), tracking_uri=uri)
    assert plain.measure == "jrh.evaluate(judge, 'pointwise-datasheet')"
    assert jrh.status(compare(name="pairs only"), tracking_uri=uri).measure == "jrh.evaluate(judge)"
