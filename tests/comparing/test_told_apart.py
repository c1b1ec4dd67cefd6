"""Four judges on the published design, through real runs: who is told apart, and that every output says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.compare import compare as command
from jrh_mlflow.comparing.compare import Comparison
from jrh_mlflow.errors import RecipeError

PRIMARY = {"ability", "ability/delta_1", "dark_current", "raw_false_preference", "filler_preference"}
COLUMNS = ["axis", "a", "b", "difference", "low", "high", "p", "p_adjusted", "told_apart"]


@pytest.fixture(scope="module")
def runs(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run ids of four judges whose dark current reads 0, 0, 1 and 0; two of them are the same."""
    judges = {"oracle": jrh.scripted.Oracle(), "tie": jrh.scripted.AlwaysTie(), "first": jrh.scripted.AlwaysFirst()}
    options = {"experiment": "apart", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        yield {
            name: jrh.evaluate(judge, "datasheet-paper", **options).run_id
            for name, judge in (*judges.items(), ("again", jrh.scripted.AlwaysTie()))
        }


@pytest.fixture(scope="module")
def four(runs: dict[str, str], store_uri: str) -> Comparison:
    return jrh.compare(list(runs.values()), tracking_uri=store_uri)


def test_judges_that_differ_are_told_apart_on_ten_tasks_and_those_that_do_not_are_not(four, runs):
    frame = four.differences
    assert set(frame.loc[frame["family"] == "primary", "axis"]) == PRIMARY
    dark = frame[frame["axis"] == "dark_current"].set_index(["a", "b"])["told_apart"]
    assert len(dark) == 6
    for (a, b), told in dark.items():
        assert told == ("AlwaysFirst (simulated)" in (a, b)), (a, b)
    able = frame[(frame["axis"] == "ability/delta_1") & frame["told_apart"]]
    assert set(able["a"]) | set(able["b"]) == {*dark.index.get_level_values(0), *dark.index.get_level_values(1)}
    assert all("Oracle (simulated)" in pair for pair in zip(able["a"], able["b"], strict=True)), "the others read 1/2"


def test_judges_of_one_letter_are_those_that_are_not_told_apart(four):
    letters = four.contrasts.letters
    assert set(letters) == PRIMARY
    assert set(letters["dark_current"].values()) == {"a", "b"}
    assert letters["dark_current"]["AlwaysFirst (simulated)"] == "b"
    assert sorted(letters["ability/delta_1"].values()) == ["a", "b", "b", "b"]


def test_exploratory_axes_are_shown_with_their_p_values_and_never_told_apart(four):
    frame = four.differences
    others = frame[frame["family"] == "exploratory"]
    assert set(others["axis"]) == set(four.contrasts.axes) - PRIMARY
    assert not others["told_apart"].any()
    assert others["p_adjusted"].min() < 0.01
    assert (frame["p"] <= frame["p_adjusted"]).all()


def test_names_that_repeat_are_run_ids_in_the_table_the_file_and_the_json(four, runs, store_uri, tmp_path):
    named = {"Oracle (simulated)", "AlwaysFirst (simulated)", runs["tie"], runs["again"]}
    folder = Path(MlflowClient(tracking_uri=store_uri).download_artifacts(four.run_id, "", str(tmp_path)))
    facts = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    for frame in (
        four.differences,
        pd.read_csv(folder / "tables" / "differences.csv"),
        pd.DataFrame(facts["differences"]),
    ):
        assert set(frame["a"]) | set(frame["b"]) == named
        assert list(frame.columns)[:9] == COLUMNS
        assert list(frame["p"]) == pytest.approx(list(four.differences["p"]))
        assert list(frame["p_adjusted"]) == pytest.approx(list(four.differences["p_adjusted"]))
        assert list(frame["told_apart"]) == list(four.differences["told_apart"])
    assert "p_holm" not in json.dumps(facts)


def test_ten_tasks_do_not_show_that_two_equal_judges_are_equivalent_and_say_what_they_could_find(four, runs):
    frame = four.differences.set_index(["axis", "a", "b"])
    same = frame.loc[("dark_current", runs["tie"], runs["again"])]
    assert (same["difference"], same["p"], bool(same["equivalent"])) == (0.0, 1.0, False)
    assert 0.1 < same["equivalence_high"] < 0.2
    assert 0 < same["detectable"] < 0.5
    wide = four.contrasts
    assert any("Few independent sources (10)" in note for note in wide.notes)


def test_the_run_says_what_decided(four, runs, store_uri):
    run = MlflowClient(tracking_uri=store_uri).get_run(four.run_id)
    assert set(run.data.params["compare.primary"].split(", ")) == PRIMARY
    assert run.data.params["compare.margin"] == "0.1"
    assert "compare.baseline" not in run.data.params
    assert run.data.metrics["compare/n_different"] == four.differences["told_apart"].sum()


@pytest.mark.parametrize("among", [True, False])
def test_with_a_baseline_the_command_compares_with_it_alone(among, runs, store_uri):
    asked = [runs["oracle"], runs["first"], *([runs["tie"]] if among else [])]
    options = ["--baseline", f"runs:/{runs['tie']}", "--tracking-uri", store_uri, "--no-log"]
    done = CliRunner().invoke(command, [*asked, *options, "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    assert facts["baseline"] == "AlwaysTie (simulated)"
    pairs = {(row["a"], row["b"]) for row in facts["differences"]}
    assert pairs == {(f"{name} (simulated)", "AlwaysTie (simulated)") for name in ("Oracle", "AlwaysFirst")}
    assert facts["letters"] == {}
    dark = {row["a"]: row for row in facts["differences"] if row["axis"] == "dark_current"}
    assert dark["AlwaysFirst (simulated)"]["difference"] == 1.0
    assert dark["AlwaysFirst (simulated)"]["told_apart"]
    assert not dark["Oracle (simulated)"]["told_apart"]


def test_a_baseline_that_is_no_run_is_refused(runs, store_uri):
    for name, text in {"tie": "'tie' is no run", "f" * 32: "There is no run ffff"}.items():
        with pytest.raises(RecipeError, match=text):
            jrh.compare([runs["oracle"], runs["first"]], baseline=name, tracking_uri=store_uri, log=False)
    with pytest.raises(RecipeError, match="at least two runs"):
        jrh.compare([runs["oracle"]], baseline=runs["oracle"], tracking_uri=store_uri, log=False)


def test_the_terminal_names_what_is_deciding_and_both_p_values(runs, store_uri):
    arguments = [runs["tie"], runs["first"], "--primary", "dark_current", "--margin", "0.2", "--no-log"]
    done = CliRunner().invoke(command, [*arguments, "--tracking-uri", store_uri])
    assert done.exit_code == 0, done.output
    heads, row = (line for line in done.output.splitlines() if "p adjusted" in line or "0.0020" in line)
    assert heads.split("  ")[0] == "axis"
    assert row.count("0.0020") == 2
    assert "1 of 1 differences" in done.output
    assert "13 more are exploratory" in done.output
    assert "equivalent within ±0.2" in done.output


@pytest.mark.parametrize("option", [["--primary", "dark_curent"], ["--margin", "0"]])
def test_what_cannot_decide_is_refused_in_one_line(option, runs, store_uri):
    done = CliRunner().invoke(command, [runs["tie"], runs["first"], *option, "--tracking-uri", store_uri, "--no-log"])
    assert isinstance(done.exception, RecipeError)
    assert option[0] != "--primary" or "Did you mean 'dark_current'?" in str(done.exception)
