"""Judges that are registered at MLflow, found by `scorers:/NAME[@VERSION]` and measured under that name and version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow.exceptions import MlflowException

import jrh_mlflow as jrh
from jrh_mlflow.cli.evaluate import evaluate, shift
from jrh_mlflow.errors import JrhError, JrhWarning, RecipeError
from jrh_mlflow.measuring.measured import JudgeFacts
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.recipe import load_recipe
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.judge_registry import ScorerAddress, active_store, scorer_at
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.workflow import load_workflow
from tests.mlflow_features import before
from tests.tracking.judges.mlflow_chat import ChatServer, chatting, compare

EXPERIMENT = "registered judges"


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        yield server


@pytest.fixture(scope="module")
def pairs() -> Suite:
    rows = [{"instruction": f"Task {n}", "first": "good", "second": "bad", "better": "1"} for n in range(2)]
    return jrh.natural_suite(pd.DataFrame(rows), name="two pairs")


@pytest.fixture(scope="module")
def registry(store_uri: str) -> Iterator[dict[str, Any]]:
    """Two versions of `closer` and one of `other` in an experiment, `away` in another one; the store is active."""
    import mlflow

    with active_store(store_uri):
        ids = {name: str(mlflow.MlflowClient().create_experiment(name)) for name in (EXPERIMENT, "elsewhere")}
        for instructions in ("First: {{ outputs }} for {{ inputs }}?", "Second: {{ outputs }} for {{ inputs }}?"):
            compare(name="closer", instructions=instructions).register(experiment_id=ids[EXPERIMENT])
        compare(name="other").register(experiment_id=ids[EXPERIMENT])
        compare(name="away").register(experiment_id=ids["elsewhere"])
        yield {"uri": store_uri, **ids}


def params(run_id: str) -> dict[str, str]:
    import mlflow

    return {key: value for key, value in mlflow.get_run(run_id).data.params.items() if key.startswith("judge.")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("scorers:/a", ScorerAddress(name="a")),
        ("scorers:/a@12", ScorerAddress(name="a", version=12)),
        ("scorers:/a b-c.d@1", ScorerAddress(name="a b-c.d", version=1)),
        ("scorers:/e/a", ScorerAddress(name="a", experiment="e")),
        ("scorers://Users/me@x.org/e/a@3", ScorerAddress(name="a", version=3, experiment="/Users/me@x.org/e")),
    ],
)
def test_an_address_names_judge_version_and_experiment(text: str, expected: ScorerAddress) -> None:
    assert ScorerAddress.read(text) == expected


@pytest.mark.parametrize(
    "text", ["scorers:/", "scorers:/@1", "scorers:/a@", "scorers:/a@new", "scorers:/a@-1", "scorers:/a@١"]
)
def test_an_address_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=r"scorers:/NAME@2"):
        ScorerAddress.read(text)


def test_a_version_behind_a_slash_is_told_where_it_belongs() -> None:
    with pytest.raises(RecipeError, match="stands behind an @: scorers:/closer@2"):
        ScorerAddress.read("scorers:/closer/2")


def test_the_newest_version_is_measured_unless_another_is_named(registry: dict[str, Any]) -> None:
    found = [resolve_judge(f"scorers:/closer{version}", experiment=EXPERIMENT) for version in ("", "@1", "@2")]
    assert [one.settings()["scorer_version"] for one in found] == ["2", "1", "2"]
    assert [one.panel.scorers[0].instructions.split(":")[0] for one in found] == ["Second", "First", "Second"]


def test_it_is_found_in_the_active_experiment_and_in_one_that_is_named(
    registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", registry["elsewhere"])
    assert scorer_at("scorers:/away").name == "away"
    # Results may go anywhere: the judge is the one of the active experiment all the same.
    assert scorer_at("scorers:/away", experiment=EXPERIMENT).name == "away"
    assert scorer_at("scorers:/away", experiment="not made yet").name == "away"
    assert scorer_at(f"scorers:/{EXPERIMENT}/closer@1", experiment="elsewhere").version == 1


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("scorers:/closr", "no registered judge 'closr'.* Did you mean 'closer'. Registered are closer, other"),
        ("scorers:/closer@7", "'closer' has no version 7. There is 1, 2"),
        ("scorers:/closer@0", "'closer' has no version 0. There is 1, 2"),
        ("scorers:/away@1", "registered with experiment 'elsewhere': give scorers:/elsewhere/away@1"),
        ("scorers:/elsewhre/away", "no experiment 'elsewhre'.* Did you mean 'elsewhere'"),
        ("scorers:/elsewhere/nothing", "in experiment 'elsewhere'. Registered are away"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(registry: dict[str, Any], address: str, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        jrh.evaluate(address, experiment=EXPERIMENT)


def test_a_store_that_keeps_no_judges_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    (tmp_path / "mlruns").mkdir()
    with pytest.raises(RecipeError, match=r"keeps no registered judges.* sqlite"):
        scorer_at("scorers:/closer", tracking_uri=str(tmp_path / "mlruns"))


def test_a_run_names_the_registered_judge_and_its_version(
    registry: dict[str, Any], chat: ChatServer, pairs: Suite
) -> None:
    done = jrh.evaluate("scorers:/closer@1", pairs, experiment=EXPERIMENT, tracking_uri=registry["uri"], progress=False)
    logged = params(done.run_id)
    assert (logged[keys.PARAM_REGISTERED_NAME], logged[keys.PARAM_SCORER_VERSION]) == ("closer", "1")
    assert all("First:" in body["messages"][0]["content"] for body in chat.bodies)
    assert set(done.calls["outcome"]) == {"verdict"}


def test_members_of_lists_and_ensembles_are_named_each_with_its_version(registry: dict[str, Any]) -> None:
    from mlflow.genai import scorers

    where = {"experiment_id": registry[EXPERIMENT], "version": 1}
    closer, other = (scorers.get_scorer(name=name, **where) for name in ("closer", "other"))
    told = from_mlflow([closer, compare(name="plain"), other]).settings()
    if before("3.17"):  # A scorer there does not tell its version; that of an address stands in the registry.
        assert (told["registered_name"], told["scorer_version"]) == (None, None)
        return
    assert (told["registered_name"], told["scorer_version"]) == ("closer, other", "1, 1")
    assert from_mlflow(compare()).settings()["registered_name"] is None
    jury = scorers.make_scorer_ensemble(name="jury", scorers=[closer, other], ensemble_fn="majority_vote")
    assert from_mlflow(jury).settings()["registered_name"] == "closer, other"


def test_registering_does_not_change_which_judge_it_is(registry: dict[str, Any]) -> None:
    fetched = resolve_judge("scorers:/other", experiment=EXPERIMENT)
    assert fetched.fingerprint() == from_mlflow(compare(name="other")).fingerprint()


def test_recipes_and_pipelines_take_the_address_with_their_experiment_and_store(
    registry: dict[str, Any], tmp_path: Path
) -> None:
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/another.db")
    try:
        where = f"experiment: {EXPERIMENT}\ntracking_uri: {registry['uri']}\n"
        recipe = tmp_path / "one.yaml"
        recipe.write_text(f"judge:\n  callable: scorers:/closer@1\n  tie_criterion: strict\n{where}")
        (tmp_path / "scorers").mkdir()
        loaded = load_recipe(recipe).judge
        assert (loaded.settings()["scorer_version"], loaded.tie_criterion.name) == ("1", "strict")
        recipe.write_text(f"judge: scorers:/closer\n{where}")
        assert load_recipe(recipe).judge.settings()["scorer_version"] == "2"
        recipe.write_text("judge: scorers:/closer\n")
        given = {"experiment": EXPERIMENT, "tracking_uri": registry["uri"]}
        assert load_recipe(recipe, options=given).options == given
        recipe.write_text(f"suite: datasheet\njudges: ['scorers:/closer@1', 'scorers:/other']\n{where}")
        assert [one.name for one in load_workflow(recipe).judges] == ["closer", "other"]
    finally:
        mlflow.set_tracking_uri(registry["uri"])


def test_the_commands_take_the_address_in_place_of_a_recipe(registry: dict[str, Any]) -> None:
    where = ["--experiment", EXPERIMENT, "--tracking-uri", registry["uri"]]
    for command, flag in ((evaluate, []), (shift, []), (evaluate, ["--judge"])):
        done = CliRunner().invoke(command, [*flag, "scorers:/closr", *where])
        assert isinstance(done.exception, JrhError)
        assert "Did you mean 'closer'?" in str(done.exception)
    both = CliRunner().invoke(evaluate, ["scorers:/closer", "--model", "x", *where])
    assert (both.exit_code, "Give one of" in both.output) == (2, True)


def test_one_command_measures_a_registered_judge(
    registry: dict[str, Any], chat: ChatServer, pairs: Suite, tmp_path: Path
) -> None:
    words = ["scorers:/closer", "--suite", str(pairs.save(tmp_path / "pairs")), "--json"]
    done = CliRunner().invoke(evaluate, [*words, "--experiment", EXPERIMENT, "--tracking-uri", registry["uri"]])
    assert done.exit_code == 0, done.output
    assert '"closer"' in done.stdout
    assert len(chat.bodies) == 4


def test_a_plain_text_is_a_model_name_as_before() -> None:
    assert resolve_judge("openai/scorers:/x").settings()["model"] == "openai/scorers:/x"


def test_an_exported_judge_is_measured_as_the_judge_it_is_registered_or_not(
    registry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = jrh.PromptedJudge("openai/gpt-4o-mini", tie_criterion="strict", temperature=0.5, name="strict one")
    # What other tests measured in this store decides which.
    with pytest.warns(JrhWarning, match="Never measured|Stale"):
        scorer = jrh.to_mlflow(judge, name="exported")
    found = resolve_judge(scorer)
    assert (found.kind, found.fingerprint()) == ("prompted", judge.fingerprint())
    assert found.definition() == judge.definition()
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS", "true")
    if before("3.17"):
        with pytest.raises(MlflowException, match=r"Custom scorer registration .* is not supported"):
            scorer.register(experiment_id=registry[EXPERIMENT])
        return
    scorer.register(experiment_id=registry[EXPERIMENT])
    again = resolve_judge("scorers:/exported", experiment=EXPERIMENT)
    assert (again.definition(), again.fingerprint()) == (judge.definition(), judge.fingerprint())
    logged = JudgeFacts.of(again).settings
    assert (logged["registered_name"], logged["scorer_version"]) == ("exported", "1")
    assert "registered_name" not in JudgeFacts.of(found).settings
