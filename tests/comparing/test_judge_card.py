"""Judge cards: what is published of a run, what is not, and cards side by side."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.comparing.judge_card import SCHEMA, VERSION, compare_cards, judge_card, read_card
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.estimates import Estimate, read_reading
from tests.loopback import LoopbackServer


@pytest.fixture(scope="module")
def cards(finished, tmp_path_factory):
    """Write the cards of four judges; three are of one suite."""
    folder = tmp_path_factory.mktemp("cards")
    for name in ("oracle", "first", "longer", "grader"):
        made = judge_card(finished[name], tracking_uri=finished.uri)
        (folder / f"{name}.json").write_text(made.to_json(), encoding="utf-8")
    return folder


def test_a_card_has_the_readings_the_verdict_and_the_suite_of_its_run(finished, cards):
    card = read_card(cards / "first.json")
    run = load_suite(f"runs:/{finished['first']}/suite", tracking_uri=finished.uri)
    assert (card["schema"], card["schema_version"]) == (SCHEMA, VERSION)
    assert card["suite"]["sha256"] == run.sha256
    assert card["run"]["run_id"] == finished["first"]
    assert card["judge"]["simulated"] is True
    assert card["verdict"]["sentences"]
    lean = read_reading(card["readings"]["slot_lean"])
    assert isinstance(lean, Estimate)
    assert lean.value == 1.0
    assert "dark_current" in card["headline"]
    made = judge_card(finished["first"][:12], tracking_uri=finished.uri)
    assert made.to_json() == (cards / "first.json").read_text(encoding="utf-8"), "the same run has the same card"


def test_the_command_writes_three_files_and_overwrites_none(finished, tmp_path):
    place = tmp_path / "out" / "card"
    options = ["card", finished["grader"], "-o", str(place), "--tracking-uri", finished.uri]
    done = CliRunner().invoke(group, options)
    assert done.exit_code == 0, done.output
    assert done.output.split() == [f"{place}.md", f"{place}.html", f"{place}.json"]
    page, text = (place.with_suffix(end).read_text(encoding="utf-8") for end in (".html", ".md"))
    sha256 = read_card(place.with_suffix(".json"))["suite"]["sha256"]
    for words in ("Limits", "How to measure it again", finished["grader"], sha256):
        assert words in page
        assert words in text
    assert "<script" not in page
    assert CliRunner().invoke(group, options).exit_code != 0
    assert CliRunner().invoke(group, [*options, "--force"]).exit_code == 0
    printed = CliRunner().invoke(group, ["card", finished["grader"], "--json", "--tracking-uri", finished.uri])
    assert json.loads(printed.output) == read_card(place.with_suffix(".json"))


def test_a_card_holds_no_text_no_rubric_no_key_and_no_address(tmp_path, store_uri, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    with LoopbackServer() as server:
        judge = jrh.PromptedJudge(
            "openai/gpt-4o", api_base=server.url, rubric="Our secret rubric: be kind.", temperature=0.5
        )
        suite = jrh.datasheet_suite(n_tasks=1, depth=1)
        done = jrh.evaluate(judge, suite, tracking_uri=store_uri, journal=tmp_path / "j.db", progress=False)
        made = judge_card(done.run_id, tracking_uri=store_uri)
        for text in (made.to_json(), made.to_markdown(), made.to_html()):
            assert "sk-planted" not in text
            assert "secret rubric" not in text
            assert server.url not in text
            assert str(suite.items[0].instruction)[:40] not in text
    again = " ".join(made.data["reproduce"])
    assert "--model openai/gpt-4o" in again
    assert "--temperature 0.5" in again
    assert f"runs:/{done.run_id}/suite" in again


def test_cards_of_one_suite_are_put_side_by_side(tmp_path, store_uri):
    judges = {"oracle": jrh.scripted.Oracle(), "first": jrh.scripted.AlwaysFirst()}
    places = [tmp_path / f"{name}.json" for name in judges]
    for judge, place in zip(judges.values(), places, strict=True):
        done = jrh.evaluate(judge, "datasheet-short", tracking_uri=store_uri, traces="none", progress=False)
        place.write_text(judge_card(done.run_id, tracking_uri=store_uri).to_json(), encoding="utf-8")
    beside = compare_cards(places)
    rows = {row.axis: row for row in beside.differences}
    assert rows["slot_lean"].value == pytest.approx(1.0)
    assert rows["dark_current"].differs
    assert rows["threshold_75"].value is None
    assert 0 < rows["slot_lean"].low < 1.0 <= rows["slot_lean"].high
    with pytest.raises(RecipeError, match="Two cards"):
        compare_cards([*places, places[0]])
    same = compare_cards([places[0], places[0]])
    assert not any(row.differs for row in same.differences)
    printed = CliRunner().invoke(group, ["compare", *map(str, places)])
    assert printed.exit_code == 0, printed.output
    assert beside.names[0] in printed.output
    data = CliRunner().invoke(group, ["compare", *map(str, places), "--json"])
    assert json.loads(data.output)["suite"] == beside.cards[0]["suite"]


def test_cards_of_different_suites_are_refused_with_both_named(cards):
    with pytest.raises(RecipeError) as refused:
        compare_cards([cards / "oracle.json", cards / "grader.json"])
    for card in ("oracle", "grader"):
        assert read_card(cards / f"{card}.json")["suite"]["sha256"][:12] in str(refused.value)
    assert CliRunner().invoke(group, ["compare", str(cards / "oracle.json"), "3f2a9c01"]).exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "jrh-judge-card", "schema_version": 2}',
        '{"schema": "jrh-judge-card", "schema_version": 1}',
    ],
)
def test_what_is_no_card_of_this_version_is_refused(tmp_path, text):
    place = tmp_path / "card.json"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError):
        read_card(place)


def test_a_card_that_somebody_edited_comes_not_to_life(cards):
    card = read_card(cards / "oracle.json")
    card["judge"]["name"] = "<script>alert(1)</script>"
    (cards / "nasty.json").write_text(json.dumps(card), encoding="utf-8")
    page = compare_cards([cards / "first.json", cards / "nasty.json"]).page
    assert "<script>" not in page.to_html()
    card["readings"]["slot_lean"] = {"kind": "estimate"}
    (cards / "broken.json").write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(RecipeError):
        compare_cards([cards / "first.json", cards / "broken.json"])


@pytest.mark.parametrize("kind", ["jury", "comparison", "gate"])
def test_a_run_of_another_kind_has_no_card(finished, kind):
    with pytest.raises(RecipeError):
        judge_card(finished[kind], tracking_uri=finished.uri)
