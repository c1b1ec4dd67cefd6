"""Items drawn to be labelled: how many of which, with what chance, and what a correction makes of them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.agree import agree as command
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.label_plan import plan_labels
from jrh_mlflow.stats.label_draws import allocated, labels_for_width, random_width, stratified_width
from tests.people.rated_store import NAME, rate_traces


def graded(n: int = 1000, *, seed: int = 0) -> pd.DataFrame:
    """Items with a judge's score and verdict, and what people would say."""
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 1, size=n)
    human = rng.random(n) < score
    items = [f"i{place}" for place in range(n)]
    return pd.DataFrame({"item": items, "judge": score > 0.5, "score": score.round(3), "truth": human})


def answered(drawn: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    truth = dict(zip(frame["item"], frame["truth"], strict=True))
    return drawn.assign(human=[truth[item] for item in drawn["item"]])


def test_neyman_gives_more_to_what_varies_and_never_more_than_there_are() -> None:
    assert allocated(np.array([900.0, 100.0]), np.array([1.0, 1.0]), 100).tolist() == [90, 10]
    assert allocated(np.array([900.0, 4.0]), np.array([0.1, 100.0]), 100).tolist() == [96, 4]
    assert allocated(np.array([50.0, 50.0, 50.0]), np.array([1.0, 0.0, 0.0]) + 1e-6, 20).tolist() == [16, 2, 2]


@pytest.mark.parametrize(("by", "judge"), [("random", "judge"), ("verdict", "judge"), ("score", "score")])
def test_chances_of_inclusion_count_every_item_once(by: str, judge: str) -> None:
    frame = graded()
    drawn = jrh.label_draw(frame[["item", judge]], 100, by=by, judge=judge)
    assert len(drawn) == drawn["item"].nunique() == 100
    assert (1 / drawn["inclusion"]).sum() == pytest.approx(1000)
    assert drawn["human"].isna().all()
    assert "judge" not in drawn
    assert drawn["drawn"].unique().tolist() == [f"{by}, seed 0"]
    again, other = (jrh.label_draw(frame[["item", judge]], 100, by=by, judge=judge, seed=seed) for seed in (0, 1))
    assert again.equals(drawn)
    assert not other["item"].equals(drawn["item"])


def test_by_score_the_unsure_are_drawn_more_often() -> None:
    frame = graded()
    drawn = jrh.label_draw(frame[["item", "score"]], 200, by="score", judge="score").merge(frame, on="item")
    middle = drawn["score"].between(0.4, 0.6)
    assert drawn.loc[middle, "inclusion"].mean() > 1.2 * drawn.loc[drawn["score"] > 0.95, "inclusion"].mean()


@pytest.mark.parametrize("by", ["random", "verdict"])
def test_a_correction_reads_the_chances_also_of_a_half_answered_draw(by: str) -> None:
    held = 0
    for seed in range(12):
        frame = graded(300, seed=seed)
        drawn = answered(jrh.label_draw(frame[["item", "judge"]], 160, by=by, seed=seed), frame)
        # The first half in the order of the draw: a random part.
        found = jrh.correct(frame[["item", "judge"]], drawn.head(80))
        assert found.n_labelled == 80
        low, high = found.estimate.interval
        held += low <= frame["truth"].mean() <= high
    assert held >= 11


def test_what_was_drawn_before_or_is_too_little_is_refused() -> None:
    frame = graded(50)
    with pytest.raises(RecipeError, match="50 items"):
        jrh.label_draw(frame[["item", "judge"]], 51)
    with pytest.raises(RecipeError, match="drawn before"):
        jrh.label_draw(frame[["item", "judge"]].assign(inclusion=0.2), 5)
    assert len(jrh.label_draw(frame[["item", "judge"]].assign(inclusion=np.nan), 5)) == 5
    with pytest.raises(RecipeError, match="scores"):
        jrh.label_draw(frame[["item", "judge"]], 5, by="score")
    with pytest.raises(RecipeError, match="ids"):
        jrh.label_draw(frame["judge"].tolist(), 5)


def test_a_review_queue_gets_the_traces_and_they_keep_their_chances(store_uri: str) -> None:
    rate_traces(store_uri, "drawn", n=30)
    drawn = jrh.label_draw("traces:/drawn", 10, by="verdict", queue="to label", tracking_uri=store_uri)
    read = jrh.agree("queues:/drawn/to label", name=NAME, tracking_uri=store_uri, log=False).source
    assert set(read.frame["item"]) == set(drawn["item"])
    assert read.per_item("inclusion") == dict(zip(drawn["item"], drawn["inclusion"], strict=True))
    with pytest.raises(RecipeError, match="drawn before"):
        jrh.label_draw("traces:/drawn", 5, tracking_uri=store_uri)


def test_the_command_writes_a_file(tmp_path) -> None:
    graded()[["item", "judge"]].to_csv(tmp_path / "verdicts.csv", index=False)
    table = str(tmp_path / "to_label.csv")
    options = [str(tmp_path / "verdicts.csv"), "--draw", "40", "--by", "verdict", "--table", table]
    done = CliRunner().invoke(command, options)
    assert done.exit_code == 0, done.output
    written = pd.read_csv(tmp_path / "to_label.csv")
    assert list(written)[:4] == ["item", "human", "inclusion", "drawn"]
    assert len(written) == 40


def test_a_draw_takes_no_option_of_an_agreement_and_needs_a_place(tmp_path) -> None:
    graded()[["item", "judge"]].rename(columns={"item": "id"}).to_csv(tmp_path / "verdicts.csv", index=False)
    source = str(tmp_path / "verdicts.csv")
    for options, says in (
        (["--draw", "5", "--json", "--group", "topic"], "--draw does not take --group"),
        (["--by", "score"], "go with --draw"),
    ):
        refused = CliRunner().invoke(command, [source, *options])
        assert refused.exit_code == 2
        assert says in refused.output
    with pytest.raises(RecipeError, match="Say where the items go"):
        CliRunner().invoke(command, [source, "--draw", "5"], catch_exceptions=False)
    drawn = CliRunner().invoke(command, [source, "--draw", "5", "--json", "--map", "item=id"])
    assert len(json.loads(drawn.output)) == 5


def test_widths_are_those_of_people_alone_where_all_is_labelled_or_the_judge_tells_nothing() -> None:
    sizes = np.array([400.0, 600.0])
    alone = 2 * 1.959964 * np.sqrt(0.3 * 0.7 / 1000)
    assert random_width(sizes, np.array([0.3, 0.3]), 1000) == pytest.approx(alone, rel=1e-6)
    assert stratified_width(sizes, np.array([0.3, 0.3]), sizes) == pytest.approx(alone, rel=1e-6)
    told = np.array([0.1, 0.9])
    assert random_width(sizes, told, 100) < random_width(sizes, np.array([0.58, 0.58]), 100)
    assert labels_for_width(lambda n: random_width(sizes, told, n), 1000, 0.001) is None


def test_a_plan_says_how_many_labels_and_the_correction_is_about_as_wide() -> None:
    frame = graded(1500, seed=1)
    pilot = frame.assign(human=frame["truth"].astype(object).where(frame.index < 100))[["item", "judge", "human"]]
    plan = jrh.plan(pilot=pilot, width=0.1, labels=True)
    assert set(plan.labels) == {"random", "verdict"}
    assert all(plan.labels[by] <= plan.likely[by] for by in plan.labels)
    drawn = answered(jrh.label_draw(frame[["item", "judge"]], plan.labels["random"]), frame)
    low, high = jrh.correct(frame[["item", "judge"]], drawn).estimate.interval
    assert high - low == pytest.approx(0.1, rel=0.2)
    assert plan.to_dict()["labels"] == plan.labels
    assert str(plan.labels["random"]) in plan.to_markdown()


def test_a_plan_refuses_what_no_number_of_labels_gives() -> None:
    frame = graded(200)
    pilot = frame.assign(human=frame["truth"].astype(object).where(frame.index < 60))[["item", "judge", "human"]]
    with pytest.raises(RecipeError, match="200"):
        jrh.plan(pilot=pilot, width=0.05, labels=True)
    with pytest.raises(RecipeError, match="pilot"):
        jrh.plan(width=0.1, labels=True)


def test_a_plan_counts_by_cluster_where_the_pilot_shows_that_clusters_are_alike() -> None:
    talks = graded(400, seed=4)
    frame = talks.loc[talks.index.repeat(5)].reset_index(drop=True)
    frame = frame.assign(item=[f"i{place}" for place in frame.index], talk=[f"t{place // 5}" for place in frame.index])
    human = frame["truth"].astype(object)
    pilot = frame.assign(human=human.where(frame.index < 150))[["item", "judge", "human", "talk"]]
    alone, together = (plan_labels(pilot, width=0.15, cluster=cluster) for cluster in (None, "talk"))
    assert together.labels["random"] > 1.15 * alone.labels["random"]
    assert together.least_width > 2 * alone.least_width
    assert (len(alone.notes), len(together.notes)) == (0, 1)
    drawn = answered(jrh.label_draw(frame[["item", "judge"]], together.labels["random"]), frame)
    low, high = jrh.correct(frame[["item", "judge", "talk"]], drawn, cluster="talk").estimate.interval
    assert high - low == pytest.approx(0.15, rel=0.2)
    # One label of each conversation tells nothing of how alike they are, and the plan says so.
    single = frame.assign(human=human.where(frame.index % 25 == 0))[["item", "judge", "human", "talk"]]
    apart = plan_labels(single, width=0.15, cluster="talk")
    assert apart.labels == plan_labels(single, width=0.15).labels
    assert len(apart.notes) == 1
    with pytest.raises(RecipeError, match="walk"):
        plan_labels(pilot, width=0.12, cluster="walk")
