"""What labels mean, on the wire: whole generations and evaluations against a server, every request looked at."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.items import MEANINGS, Labels, bare_question
from jrh_mlflow.suites.labels import about_labels
from tests.generation import agent_tools
from tests.generation.tools import RUBRIC, rows, run
from tests.loopback import LoopbackServer
from tests.readings import asked
from tests.reliability_tools import JUDGE, Cast, write_table

HARM = {"0": "not harmful", "1": "harmful"}
GRADES = {"1": "useless", "2": "thin", "3": "sound", "4": "outstanding"}
BETTER = "higher number is better"
REWRITES = ["label_flip", "semantic_paraphrase", "verbosity_bias_long", "verbosity_bias_short", "rubric_paraphrase"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def text_of(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


def whole_run(store_uri: str, *, n: int, tests: list[str], **given: Any) -> tuple[jrh.Suite, dict[str, list[str]]]:
    """Generate and evaluate with models on a server; return the suite and all requests by who was asked."""
    data = rows(n, levels=tuple(next(iter(given.values()))))
    cast = Cast(data, tests=tests, **given)
    with LoopbackServer(reply=cast) as server:
        suite = run(data, server, None, tests=tests, **given).suite
        cast.learn(suite)
        judge = PromptedJudge(JUDGE, api_base=server.url)
        jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none")
    asked = {**cast.player.bodies, "judge": cast.judged}
    return suite, {who: list(map(text_of, bodies)) for who, bodies in asked.items()}


def test_every_request_says_what_the_labels_mean_and_none_that_a_higher_number_is_better(store_uri: str) -> None:
    suite, asked = whole_run(store_uri, n=4, tests=[*REWRITES, "typos"], labels=HARM)
    assert {who: bool(texts) for who, texts in asked.items()} == {
        "writer": True,
        "compared": True,
        "checker": True,
        "judge": True,
    }
    for text in (text for texts in asked.values() for text in texts):
        assert "0: not harmful\n1: harmful" in text
        assert BETTER not in text
    flips = [text for text in asked["writer"] if "must answer differently" in text]
    assert all('the right answer is "0 (not harmful)"' in text or '"1 (harmful)"' in text for text in flips)
    assert len(flips) == 4
    assert {item.condition for item in suite.items} == {"baseline", "typos", *REWRITES}


def test_a_reworded_question_keeps_what_the_labels_mean_word_for_word(store_uri: str) -> None:
    suite, asked = whole_run(store_uri, n=3, tests=["rubric_paraphrase"], labels=HARM)
    reworded = [item for item in suite.items if item.condition == "rubric_paraphrase"]
    assert len(reworded) == 3
    for item in reworded:
        bare, end = bare_question(item.rubric or "", item.answers or ())
        assert bare not in (RUBRIC, item.rubric)
        assert end == f"\n\n{MEANINGS}\n0: not harmful\n1: harmful"
    (brief,) = set(asked["writer"])
    assert f"=====BEGIN ORIGINAL=====\n{RUBRIC}\n=====END ORIGINAL=====" in brief


def test_levels_of_a_scale_have_meanings_too_and_flips_name_a_level_two_steps_away(store_uri: str) -> None:
    suite, asked = whole_run(store_uri, n=4, tests=["label_flip", "synthetic_ordinal"], scale=GRADES)
    lines = "\n".join(f"{level}: {meaning}" for level, meaning in GRADES.items())
    assert all(lines in text for texts in asked.values() for text in texts)
    assert all(BETTER in text for text in asked["judge"])
    flips = "\n".join(text for text in asked["writer"] if "must answer differently" in text)
    for label, expected in (("1", "4"), ("2", "4"), ("3", "1"), ("4", "1")):
        named = [f'"{level} ({GRADES[level]})"' for level in (label, expected)]
        assert f"the right answer is {named[0]}. After your rewrite the right answer must be {named[1]}" in flips
    levels = [text for text in asked["writer"] if "deserves exactly the level" in text]
    assert any('exactly the level "2 (thin)"' in text for text in levels)
    assert suite.labels is not None
    assert suite.labels.named[0] == "1 (useless)"


def test_judges_that_are_functions_see_the_meanings_in_the_rubric(store_uri: str) -> None:
    seen = []

    def judge(shown: jrh.Presentation) -> str:
        seen.append(shown.rubric)
        return "0"

    suite = run(rows(2, levels=("0", "1")), None, None, tests="typos", labels=HARM).suite
    done = jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none")
    assert {rubric.partition(MEANINGS)[2] for rubric in seen} == {"\n0: not harmful\n1: harmful"}
    assert "Labels: 0 (not harmful), 1 (harmful)." in done.report.to_markdown().replace("\\", "")


def test_planner_editor_summariser_verifier_and_judge_of_agents_are_told_the_meanings(
    tmp_path: Path, store_uri: str
) -> None:
    log = agent_tools.booking_log(tmp_path / "booking.eval", n=1)
    player = agent_tools.AgentPlayer(verdict=lambda shown: str(int("23:00" in shown)))
    meant = {"0": "no violation", "1": "violation"}
    with LoopbackServer(reply=player) as server:
        suite = agent_tools.run(log, server, None, labels=meant).suite
        judge = PromptedJudge(agent_tools.VERIFIER, api_base=server.url)
        jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none")
    assert all(player.briefs.values())
    for body in (body for bodies in player.briefs.values() for body in bodies):
        assert "0: no violation\n1: violation" in text_of(body)
        assert BETTER not in text_of(body)
    assert any('must answer "1 (violation)"' in text for text in player.told("plan"))
    assert {item.condition: item.expected for item in suite.items if item.expected} == {
        "agent_perturbation": "1",
        "agent_positives": "0",
    }


def test_numbers_of_a_column_are_a_scale_with_a_note_unless_they_are_listed_as_labels(
    store_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = rows(6, levels=("0", "1", "2"))
    with caplog.at_level(logging.WARNING, "jrh_mlflow"):
        inferred = run(data, None, store_uri, tests="typos", labels=None)
    assert any("taken as a scale from 0 to 2" in note and "--labels 0,1,2" in note for note in inferred.made.notes)
    assert "taken as a scale" in caplog.text
    nominal = run(data, None, store_uri, tests="typos", labels=[0, 1, 2])
    assert not any("scale" in note for note in nominal.made.notes)
    assert {item.ordinal for item in inferred.suite.items} == {None}, "as suites were before"
    assert {item.ordinal for item in nominal.suite.items} == {False}


@pytest.mark.slow
def test_three_numbers_that_are_labels_are_measured_compared_and_voted_on_as_labels(store_uri: str) -> None:
    data = rows(6, levels=("0", "1", "2"))
    where: dict[str, Any] = {"tracking_uri": store_uri, "experiment": "tests", "progress": False, "traces": "none"}
    judges = [jrh.scripted.Grader(name=f"g{seed}", accuracy=0.6, seed=seed) for seed in (1, 2)]
    found = {}
    for name, given in (("labels", {"labels": [0, 1, 2]}), ("scale", {"scale": (0, 2)})):
        suite = run(data, None, None, tests="typos,stochastic_stability", **given).suite
        runs = [jrh.evaluate(judge, suite, **where) for judge in judges]
        axes = {axis.rpartition("/")[2] for axis in runs[0].report.estimates}
        compared = jrh.compare([done.run_id for done in runs], tracking_uri=store_uri, log=False)
        jury = jrh.jury([done.run_id for done in runs], tracking_uri=store_uri, log=False)
        found[name] = ("qwk" in axes, "CCC" in compared.to_markdown(), any("qwk" in key for key in runs[0].metrics))
        again = jrh.measure(runs[0].calls, labels=suite.labels)
        assert again == runs[0].report
        assert ("qwk" in str(again.estimates)) == found[name][0]
        assert jury.report is not None
    assert found == {"labels": (False, False, False), "scale": (True, True, True)}


def test_the_report_of_call_records_alone_can_be_told_whether_labels_are_a_scale() -> None:
    calls = [
        {"suite_item": f"s{n}/typos", "task": f"s{n}", "condition": "typos", "delta": None, "order": "", "better": ""}
        | {"replicate": 0, "outcome": "verdict", "answer": answer, "expected": expected}
        for n, (answer, expected) in enumerate([("0", "0"), ("1", "2"), ("2", "2"), ("0", "1")])
    ]

    def has_qwk(**given: Any) -> bool:
        return "typos/qwk" in jrh.measure(calls, n_resamples=20, **given).estimates

    assert has_qwk()
    assert not has_qwk(ordinal=False)
    assert not has_qwk(labels=["0", "1", "2"], ordinal=False)
    words = [{**one, "answer": "ABC"[int(one["answer"])], "expected": "ABC"[int(one["expected"])]} for one in calls]
    with pytest.raises(ValueError, match="order of A, B, C is not known"):
        jrh.measure(words, ordinal=True)
    found = jrh.measure(words, labels=["A", "B", "C"], ordinal=True, n_resamples=20)
    assert found.estimates["typos/mae"].value == 0.5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": ["pass", "fail"]}, "needs labels whose better one is last, and of pass, fail it is the first"),
        ({"labels": HARM}, r"0 \(not harmful\), 1 \(harmful\) detect something.*--grades"),
        ({"labels": ["safe", "unsafe"]}, "safe, unsafe detect something.*--grades"),
        ({"labels": ["no", "yes"]}, "whether no, yes do is not known.*--grades"),
        ({"labels": ["fail", "pass"], "grades": False}, "detect something"),
    ],
)
def test_error_doses_are_refused_where_labels_detect_or_nobody_says_that_they_grade(
    given: dict[str, Any], message: str
) -> None:
    data = rows(4, levels=tuple(given["labels"]))
    with pytest.raises(RecipeError, match=f"'error_injection' needs labels.*{message.removeprefix('needs labels')}"):
        run(data, None, None, tests="error_injection", **given)
    done = run(data, None, None, tests="all", **given)
    assert "error_injection" not in done.made.tests
    assert any(note.startswith("Left out is error_injection") for note in done.made.notes)
    told = run(data, None, None, tests="error_injection", **{**given, "grades": True})
    assert told.made.tests["error_injection"].items == 6


def test_an_ideal_judge_falls_with_every_source_that_can_fall() -> None:
    for given in ({"labels": ["0", "1"], "grades": True}, {"scale": (1, 4)}, {"labels": ["fail", "pass"]}):
        levels = tuple(given["labels"]) if "labels" in given else ("1", "2", "3", "4")
        suite = run(rows(8, levels=levels), None, None, tests="error_injection", **given).suite
        lowest = {item.task for item in suite.items if item.condition == "baseline" and item.expected == levels[0]}
        assert not [item for item in suite.items if item.task in lowest and item.condition != "baseline"]
        found = jrh.measure(asked(jrh.scripted.Oracle(), suite), labels=suite.labels, n_resamples=20)
        one = found.estimates["error_injection/monotone"]
        assert isinstance(one, jrh.Estimate)
        assert (one.value, one.n) == (1.0, 8 - len(lowest))


def test_a_prompt_for_scales_is_refused_for_labels_and_taken_for_a_scale_of_two() -> None:
    data, judge = rows(2, levels=("0", "1")), PromptedJudge("openai/judge", prompt="ordinal")
    with pytest.raises(RecipeError, match="Use prompt='label'"):
        judge.begin(run(data, None, None, tests="typos", labels=HARM).suite)
    scale = run(data, None, None, tests="typos", scale=(0, 1)).suite
    judge.begin(scale)
    assert {item.ordinal for item in scale.items} == {True}


def test_labels_listed_the_wrong_way_round_are_told() -> None:
    backwards = {"1": "harmful", "0": "not harmful"}
    notes = run(rows(2, levels=("0", "1")), None, None, tests="typos", labels=backwards).made.notes
    assert any("The last label, 0 (not harmful), counts as the one to be detected" in note for note in notes)
    notes = run(rows(2, levels=("0", "1")), None, None, tests="typos", labels=HARM).made.notes
    assert not any("last label" in note for note in notes)


def test_the_command_line_takes_meanings_and_a_dry_run_says_what_was_understood(tmp_path: Path) -> None:
    table = write_table(tmp_path / "data.csv", rows(4, levels=("0", "1")))
    common = ["generate", str(table), "--rubric", RUBRIC, "--tests", "typos", "--dry-run"]
    told = CliRunner().invoke(group, [*common, "--labels", "0=not harmful,1=harmful"])
    assert told.exit_code == 0
    detected = about_labels(Labels(answers=("0", "1"), meanings={"0": "not harmful", "1": "harmful"}))
    assert f"labels           {detected}\n" in told.stdout
    graded = CliRunner().invoke(group, [*common, "--labels", "0,1", "--grades", "--json"])
    assert json.loads(graded.stdout)["labels"] == about_labels(Labels(answers=("0", "1"), grades=True))
    scale = CliRunner().invoke(group, [*common, "--scale", "0=poor,3=excellent"])
    levels = Labels(answers=("0", "1", "2", "3"), ordinal=True, meanings={"0": "poor", "3": "excellent"})
    assert about_labels(levels) in scale.stdout
    refused = CliRunner().invoke(group, [*common, "--labels", "0=no, not at all,1=yes"])
    assert isinstance(refused.exception, RecipeError)


def test_a_recipe_takes_meanings_with_yes_and_no_as_labels(tmp_path: Path) -> None:
    write_table(tmp_path / "data.csv", rows(4, levels=("no", "yes")))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"dataset: data.csv\nrubric: {RUBRIC}\ntests: [typos]\nlabels:\n  no: not acceptable\n  yes: acceptable\n",
        encoding="utf-8",
    )
    told = CliRunner().invoke(group, ["generate", str(recipe), "--dry-run"])
    assert told.exit_code == 0, told.exception
    understood = Labels(answers=("no", "yes"), meanings={"no": "not acceptable", "yes": "acceptable"})
    assert about_labels(understood) in told.stdout
