"""A sweep over a landscape with a known front, in a real MLflow store and a real study."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from mlflow import MlflowClient
from mlflow.entities import Run

import jrh_mlflow as jrh
from jrh_mlflow.errors import JudgeError, RecipeError, SuiteError
from tests.sweeps.landscape import TRUE_FRONT, Priced, found_front, space


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.datasheet_suite(design="paper", n_tasks=8, depth=3)


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(design="paper", n_tasks=4, depth=1)


@pytest.fixture(scope="module")
def done(suite: jrh.Suite, store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> jrh.Sweep:
    home = tmp_path_factory.mktemp("sweep")
    return jrh.sweep(
        space(),
        suite,
        max_replicates=1,
        storage=f"sqlite:///{home}/study.db",
        experiment="sweeps",
        tracking_uri=store_uri,
        traces="none",
    )


def nested(store_uri: str, parent: str, stage: str) -> list[Run]:
    client = MlflowClient(tracking_uri=store_uri)
    where = [client.get_experiment_by_name("sweeps").experiment_id]
    return list(client.search_runs(where, f"tags.`mlflow.parentRunId` = '{parent}' and tags.`jrh.stage` = '{stage}'"))


def test_the_known_front_is_found_with_a_part_of_the_calls(done: jrh.Sweep) -> None:
    found = found_front(done)
    share = done.n_calls / done.grid_calls
    hits, others = len(found & TRUE_FRONT), len(found - TRUE_FRONT)
    print(f"recall {hits} of {len(TRUE_FRONT)}, false members {others}, {share:.0%} of the grid's calls")
    assert found == TRUE_FRONT
    assert share < 0.6
    assert done.best is not None
    assert done.best.configuration.params["model"] == "large"


def test_trials_end_early_when_they_are_dominated_and_say_why(done: jrh.Sweep, suite: jrh.Suite) -> None:
    stopped = done.trials[done.trials["state"] == "PRUNED"]
    assert len(stopped) >= 2
    assert stopped["why"].str.startswith("dominated: reliability at most").all()
    assert (stopped["n_calls"] < len(suite)).all()
    assert not set(stopped["configuration"]) & {one.configuration.key for one in done.front}


def test_the_front_is_measured_again_on_tasks_nobody_searched(done: jrh.Sweep, suite: jrh.Suite) -> None:
    for one in done.front:
        assert one.holdout is not None
        assert not set(one.search.tally.tasks) & set(one.holdout.tally.tasks)
        assert set(one.search.tally.tasks) | set(one.holdout.tally.tasks) == {item.task for item in suite.items}
        assert one.bias == pytest.approx(one.search.tally.value - one.holdout.tally.value)
    small_one = next(one for one in done.front if one.configuration.params["model"] == "small")
    assert not small_one.tied
    assert done.best is not None
    assert done.best.tied


def test_every_trial_is_a_complete_nested_run_with_its_choices_and_numbers(done: jrh.Sweep, store_uri: str) -> None:
    runs = nested(store_uri, done.run_id, "search")
    assert len(runs) == len(done.trials) == 9
    for run in runs:
        assert run.info.status == "FINISHED"
        assert run.data.tags["jrh.kind"] == "evaluate"
        assert run.data.params["choice.model"] in ("small", "medium", "large")
        assert run.data.params["suite.name"].endswith("/search")
        assert run.data.metrics["sweep/usd_per_1k_judgments"] == pytest.approx(
            run.data.metrics["cost/usd_per_1k_calls"]
        )
    whole = [run for run in runs if "jrh.truncated" not in run.data.tags]
    assert len(whole) == (done.trials["state"] == "COMPLETE").sum()
    for run in whole:
        low, value, high = (run.data.metrics[f"sweep/reliability{end}"] for end in ("_ci_low", "", "_ci_high"))
        assert low < value < high


def test_the_parent_ranks_the_front_and_has_its_artifacts(done: jrh.Sweep, store_uri: str, tmp_path: Path) -> None:
    client = MlflowClient(tracking_uri=store_uri)
    parent = client.get_run(done.run_id)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["jrh.kind"] == "sweep"
    assert parent.data.metrics == pytest.approx(done.metrics)
    note = parent.data.tags["mlflow.note.content"]
    rows = note.split("## Configurations")[1].splitlines()[4:]
    ranked = [line.split(" | ")[0] for line in rows[: len(done.front)]]
    assert sorted(ranked) == sorted(f"| {one.label}" for one in done.front)
    # Markdown reads an interval before round brackets as a link.
    assert "] (" not in note
    files = {file.path for folder in (None, "figures") for file in client.list_artifacts(done.run_id, folder)}
    assert {"sweep.json", "sweep.md", "trials.csv", "pareto.html", "figures/pareto.svg"} <= files
    data = json.loads(Path(client.download_artifacts(done.run_id, "sweep.json", str(tmp_path))).read_text())
    assert [one["label"] for one in data["front"]] == [one.label for one in done.front]


@pytest.mark.drawn
def test_a_notebook_shows_the_front_in_a_card_a_line_a_figure_and_a_frame(done: jrh.Sweep) -> None:
    html = done._repr_html_()
    assert done.best is not None
    for member in done.front:
        assert f'<th scope="row">{member.label}</th>' in html
    assert done.run_id in html
    assert "Simulated judges, not models." in html
    assert re.fullmatch(r"Sweep\('.+': .+ calls, best '.+' 0\.\d\d \[.+\], run [0-9a-f]{8}\)", repr(done))
    assert all(len(repr(member)) < 200 for member in done.members)
    assert isinstance(done.plot(), Figure)
    assert done.to_frame() is done.trials
    evil = replace(done, suite="<script>alert(1)</script>", notes=["<img src=x onerror=alert(1)>"])._repr_html_()
    assert "<script" not in evil
    assert "<img" not in evil


def test_the_hypervolume_and_the_importance_are_told(done: jrh.Sweep) -> None:
    assert isinstance(done.hypervolume, jrh.Estimate)
    assert done.hypervolume.cluster_low is not None
    assert 0.5 < done.hypervolume.value < 1
    shares = done.importance["cost/usd_per_1k_judgments"]
    assert not isinstance(shares, str)
    assert shares["model"] > 0.8


@pytest.mark.slow
def test_the_same_sweep_again_measures_nothing_and_a_longer_one_goes_on(small: jrh.Suite, store_uri: str) -> None:
    asked: list[str] = []

    def judge(choice: dict[str, str]) -> object:
        def answer(shown: jrh.Presentation) -> jrh.Answer:
            asked.append(choice["model"])
            return jrh.Answer("tie" if choice["model"] == "a" else "1", cost_usd=1e-4)

        return answer

    def swept(n_trials: int) -> jrh.Sweep:
        own = jrh.Space(choices={"model": ["a", "b", "c"]}, judge=judge)
        where = {"experiment": "sweeps", "tracking_uri": store_uri, "traces": "none"}
        return jrh.sweep(own, small, n_trials=n_trials, max_replicates=1, early_stop=False, **where)

    first = swept(2)
    n_asked = len(asked)
    again = swept(2)
    assert len(asked) == n_asked
    assert again.run_id == first.run_id
    assert [one.fair.run_id for one in again.members] == [one.fair.run_id for one in first.members]
    longer = swept(3)
    assert len(longer.trials) == 3
    assert len(nested(store_uri, first.run_id, "search")) == 3
    assert isinstance(longer.importance["reliability"], str)


def test_what_breaks_a_constraint_is_never_on_the_front_and_an_unknown_price_fails_the_trial_and_not_the_sweep(
    small: jrh.Suite, store_uri: str
) -> None:
    def judge(choice: dict[str, str]) -> object:
        judges = {"good": Priced("good", 0.98, 1e-3), "bad": Priced("bad", 0.7, 1e-5)}
        return judges.get(choice["model"], jrh.scripted.AlwaysTie())

    where = {"experiment": "sweeps", "tracking_uri": store_uri, "traces": "none", "max_replicates": 1}
    models = {"model": ["good", "bad", "free"]}
    done = jrh.sweep(jrh.Space(choices=models, judge=judge, constraints=["dark_current/rate <= 0.15"]), small, **where)
    # The bad one is cheaper, so nothing but the constraint keeps it off the front.
    assert [one.label for one in done.front] == ["#1 good"]
    assert not done.trials.set_index("model").loc["bad", "feasible"]
    failed = done.trials[done.trials["state"] == "FAIL"]
    assert "cost of a call is unknown" in failed.iloc[0]["why"]
    assert [(one["label"], one["state"]) for one in done.missing] == [("#3 free", "failed")]
    with pytest.raises(JudgeError, match="No configuration could be measured"):
        jrh.sweep(jrh.Space(choices={"model": ["free"]}, judge=judge), small, **where)


@pytest.mark.slow
def test_other_objectives_need_no_price(small: jrh.Suite, store_uri: str) -> None:
    judges = {"tie": jrh.scripted.AlwaysTie(), "first": jrh.scripted.AlwaysFirst(), "oracle": jrh.scripted.Oracle()}
    goals = {"dark_current/rate": "minimize", "target_sensitivity/delta_1/rate": "maximize"}
    own = jrh.Space(choices={"judge": list(judges)}, judge=lambda choice: judges[choice["judge"]], objectives=goals)
    done = jrh.sweep(own, small, experiment="sweeps", tracking_uri=store_uri, traces="none", max_replicates=1)
    assert [one.label for one in done.front] == ["#3 oracle"]
    assert isinstance(done.hypervolume, jrh.NotEstimable)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"n_trials": 0}, "n_trials >= 1"),
        ({"replicates": 3}, "sets `replicates`"),
        ({"max_usd": 1.0}, "A cap needs calls"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_before_anything_is_asked(
    given: dict[str, object], text: str, small: jrh.Suite, store_uri: str
) -> None:
    with pytest.raises(RecipeError, match=text):
        jrh.sweep(space(), small, experiment="sweeps", tracking_uri=store_uri, **given)


def test_a_suite_of_few_tasks_cannot_be_split(store_uri: str) -> None:
    with pytest.raises(SuiteError, match="a sweep needs 4"):
        jrh.sweep(
            space(),
            jrh.datasheet_suite(design="paper", n_tasks=3, depth=2),
            experiment="sweeps",
            tracking_uri=store_uri,
        )


def test_the_function_stays_the_function_when_its_room_is_loaded() -> None:
    import jrh_mlflow.sweeps.sweep

    assert jrh.sweep is jrh_mlflow.sweeps.sweep.sweep


def test_a_suite_of_reliability_tests_is_swept_too(store_uri: str) -> None:
    from jrh_mlflow.schema.items import Item

    labels = ("no", "yes")
    items = [
        Item(
            id=f"s{seed}/{condition}",
            task=f"s{seed}",
            condition=condition,
            kind="response",
            instruction="Is it right?",
            response=f"{condition} of {seed}",
            answers=labels,
            expected=labels[seed % 2],
        )
        for seed in range(24)
        for condition in ("baseline", "typos", "format_invariance_1")
    ]

    def judge(choice: dict[str, str]) -> object:
        def answer(shown: jrh.Presentation) -> jrh.Answer:
            seed = int((shown.response or "").rpartition(" ")[2])
            wrong = choice["model"] == "poor" and "typos" in (shown.response or "")
            return jrh.Answer(labels[(seed + wrong) % 2], cost_usd=1e-4 if choice["model"] == "poor" else 5e-5)

        return answer

    own = jrh.Space(choices={"model": ["fine", "poor"]}, judge=judge, orders=["one", "both"])
    suite = jrh.Suite(name="points", items=items)
    done = jrh.sweep(own, suite, experiment="sweeps", tracking_uri=store_uri, traces="none", max_replicates=1)
    assert done.n_grid == 2
    assert [one.configuration.params["model"] for one in done.front] == ["fine"]
    assert done.front[0].fair.tally.cells == ("format_invariance_1", "typos")
    assert done.operating == []


@pytest.mark.slow
def test_replicates_go_where_the_front_is_undecided_and_criteria_trace_a_curve(
    suite: jrh.Suite, store_uri: str
) -> None:
    def judge(choice: dict[str, str]) -> object:
        # As good as one another: whether the dearer one is on the front is a matter of noise.
        dear = choice["tie_criterion"] == "strict"
        return Priced(str(choice), 0.8, 2e-4 if dear else 1e-4, seed=7 if dear else 0)

    own = jrh.Space(choices={"tie_criterion": ["loose", "strict"]}, judge=judge, orders=["one"])
    where = {"experiment": "sweeps", "tracking_uri": store_uri, "traces": "none", "early_stop": False}
    done = jrh.sweep(own, suite, max_replicates=2, **where)
    refined = nested(store_uri, done.run_id, "refine")
    again = [one for one in done.members if one.search.repeats == 2]
    assert 1 <= len(refined) == len(again)
    counted = [item for item in suite.items if item.condition not in ("filler", "delta_0_different")]
    for one in again:
        # Two decisions about every item of the searched half.
        assert one.search.tally.sizes.sum() == 2 * sum(item.task in one.search.tally.tasks for item in counted)
    assert {point.criterion for point in done.operating} == {"loose", "strict"}
    assert "## Criterion curve" in done.to_markdown()
    files = MlflowClient(tracking_uri=store_uri).list_artifacts(done.run_id, "figures")
    assert "figures/criterion_curve.svg" in {file.path for file in files}
    assert jrh.sweep(own, suite, max_replicates=2, **where).members[0].search.run_id == done.members[0].search.run_id
    assert len(nested(store_uri, done.run_id, "refine")) == len(refined)
