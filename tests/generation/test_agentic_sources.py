"""Transcripts: the ways in and out, and what is refused; a function edits them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from inspect_ai.log import read_eval_log

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.generate import GenerationRun
from jrh_mlflow.suites.transcripts import read_transcripts
from jrh_mlflow.suites.transcripts.inspect_export import export_inspect
from tests import scripted_writer
from tests.generation.agent_tools import BOTH, LABELS, RUBRIC, booking, booking_log, run
from tests.generation.tools import rows, validating
from tests.suites.transcripts.logs import sample, write_log

BREAK, MEND = "agent_perturbation", "agent_positives"
WRITER = {"callable": f"{scripted_writer.__file__}:write"}
TALK = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return booking_log(tmp_path_factory.mktemp("logs") / "booking.eval")


@pytest.fixture(scope="module")
def both(log: Path) -> GenerationRun:
    """Both tests."""
    return run(log, None, None)


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def test_a_function_may_verify(log: Path) -> None:
    done = run(log, None, None, tests=BREAK, validator=validating(lambda shown: "no violation"))
    assert len(done.suite) == 3
    assert all("expected 'violation'" in one.reason for one in done.made.set_aside)


def test_the_same_log_gives_the_same_suite_wherever_it_lies(log: Path, both: GenerationRun, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / log.name
    other.parent.mkdir()
    other.write_bytes(log.read_bytes())
    assert run(other, None, None).suite.sha256 == both.suite.sha256


def test_edited_transcripts_are_written_back_and_read_by_inspect_itself(
    log: Path, both: GenerationRun, tmp_path: Path
) -> None:
    suite = both.suite
    suite.save(tmp_path / "suite")
    done = cli("suite", "export-inspect", tmp_path / "suite", "--log", log, "-o", tmp_path / "edited.eval")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "6 edited transcripts" in done.output
    read = read_eval_log(str(tmp_path / "edited.eval"))
    assert [sample.id for sample in read.samples or ()][:2] == [f"1__{BREAK}", f"1__{MEND}"]
    told = (read.samples or [])[0].metadata["jrh"]
    assert (told["test"], told["expected"], told["edited"]) == (BREAK, "violation", [5])
    back = {one.id.rpartition("/")[2]: one for one in read_transcripts(tmp_path / "edited.eval")}
    shown = next(item.transcript for item in suite.items if item.condition == BREAK)
    assert [one.content for one in back[f"1__{BREAK}"].messages] == [one.content for one in shown or ()]


def test_an_export_names_the_log_it_misses(both: GenerationRun, tmp_path: Path) -> None:
    other = booking_log(tmp_path / "other.eval", n=1)
    with pytest.raises(RecipeError, match=r"2 originals are not in other\.eval, the first 'booking-evalid/2'"):
        export_inspect(both.suite, [other], tmp_path / "edited.eval")


def test_from_the_command_line_to_a_report_by_category(log: Path, store_uri: str, tmp_path: Path) -> None:
    written = {
        "dataset": str(log),
        "tests": BOTH,
        "rubric": RUBRIC,
        "labels": list(LABELS),
        "group": "metadata.topic",
        "generator": WRITER,
        "tracking_uri": store_uri,
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(written))
    more = ("--preprocess", "drop_reasoning,keep_last:5", "-o", "suite", "--json", "--allow-code")
    done = cli("generate", tmp_path / "recipe.yaml", *more)
    assert done.exit_code == 0, (done.output, done.exception)
    suite = jrh.load_suite("suite")
    assert suite.origin["preprocess"] == "drop_reasoning,keep_last:5"
    assert {step["step"] for step in suite.items[0].meta["preprocess"]} == {"drop_reasoning", "keep_last:5"}
    asked = cli("evaluate", "--judge", "scripted:Oracle", "--suite", "suite", "--tracking-uri", store_uri, "--json")
    assert asked.exit_code == 0, (asked.output, asked.exception)
    metrics = json.loads(asked.stdout)[0]["metrics"]
    assert {metrics[f"category/{name}/accuracy/rate"] for name in ("lunch", "dinner")} == {1.0}
    assert (metrics["category/lunch/fpr/n"], metrics["category/dinner/fnr/n"]) == (1, 2)
    assert metrics["category/dinner/error_rate/ci_high"] < 0.7


def test_the_tests_are_listed_and_their_prompts_shown() -> None:
    listed = cli("suite", "tests").output
    assert BREAK in listed
    assert MEND in listed
    assert "You plan edits" in cli("suite", "tests", BREAK).output


@pytest.mark.parametrize(
    ("source", "options", "problem"),
    [
        ("log", {"tests": [BREAK, "typos"]}, "edits transcripts and 'typos' responses"),
        ("log", {"tests": "typos"}, "'typos' rewrites single responses, but the source holds transcripts"),
        ("log", {"tests": [BREAK, BREAK]}, "named twice"),
        ("log", {"labels": ["fail", "pass"]}, "Which of the labels fail, pass"),
        ("log", {"labels": ["fail", "pass"], "violation": "failed"}, "none of fail, pass. Did you mean 'fail'"),
        ("log", {"scale": (1, 5), "violation": "3"}, "an end of the scale, 1 or 5"),
        ("log", {"labels": None}, "Transcripts need `labels`"),
        ("log", {"preprocess": "drop_everything"}, "Unknown preprocessor 'drop_everything'"),
        ("log", {"columns": {"response": "x"}}, "but got 'response'"),
        ("log", {"group": "metadata.topics"}, "Did you mean 'metadata.topic'"),
        ("log", {"rubric": " "}, "`rubric`"),
        ("log", {"stratify": "metadata.topic"}, "give `n`"),
        ("rows", {"tests": BREAK}, "messages"),
        ("rows", {"tests": "typos", "labels": ["fail", "pass"], "violation": "fail"}, "`violation` is for transcripts"),
        ("talk", {"tests": "typos"}, "the source holds transcripts"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(
    source: str, options: dict[str, Any], problem: str, log: Path
) -> None:
    given = {"log": log, "rows": rows(2), "talk": TALK}[source]
    with pytest.raises(RecipeError, match=problem):
        run(given, None, None, **options)


def test_a_log_without_samples_and_one_without_an_assistant_give_clear_results(tmp_path: Path) -> None:
    from inspect_ai.model import ChatMessageUser

    from tests.suites.transcripts.logs import sample

    with pytest.raises(RecipeError, match=r"empty\.eval holds no samples"):
        run(write_log(tmp_path / "empty.eval", []), None, None)
    silent = write_log(tmp_path / "silent.eval", [sample(messages=[ChatMessageUser(content="Hi")])])
    done = run(silent, None, None)
    assert {one.reason for one in done.made.set_aside} == {
        "none of the 1 messages is the assistant's: there is nothing to edit"
    }


def test_messages_and_transcripts_are_taken_as_they_are() -> None:
    from_messages = run(TALK, None, None, tests="paper", labels=LABELS)
    assert [item.condition for item in from_messages.suite.items] == ["baseline", BREAK, MEND]
    read = list(read_transcripts(TALK))
    assert run(read, None, None).suite.sha256 == from_messages.suite.sha256


def test_a_draw_takes_some_of_the_transcripts(log: Path) -> None:
    done = run(log, None, None, n=2, stratify="metadata.topic")
    topics = {one.id: one.metadata["topic"] for one in read_transcripts(log)}
    assert sorted(topics[item.task] for item in done.suite.items if item.condition == "baseline") == ["Dinner", "Lunch"]


def test_a_suite_of_responses_is_reported_by_its_group_too(store_uri: str) -> None:
    grouped = [{**row, "topic": "odd" if number % 2 else "even"} for number, row in enumerate(rows(6))]
    suite = run(grouped, None, store_uri, tests="typos", labels=("fail", "pass"), group="topic").suite
    assert set(suite.groups.values()) == {"odd", "even"}
    done = jrh.evaluate(
        jrh.scripted.Oracle(), suite, tracking_uri=store_uri, experiment="tests", progress=False, traces="none"
    )
    assert done.report.categories.keys() == {"even", "odd"}
    assert done.metrics["category/odd/accuracy/n"] == 3


OWN_STEP = """
from dataclasses import replace

def no_tables(transcript):
    hidden = [replace(one, content=one.content.replace("table", "[hidden]")) for one in transcript.messages]
    return replace(transcript, messages=tuple(hidden), metadata={**transcript.metadata, "topic": "hidden"})
"""


def test_a_recipe_names_epochs_and_a_preprocessor_in_a_file_beside_it(store_uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "recipe"
    folder.mkdir()
    samples = [sample("a", epoch=epoch, messages=booking(epoch), metadata={"topic": "Lunch"}) for epoch in (1, 2, 3)]
    write_log(folder / "log.eval", samples, epochs=3)
    (folder / "steps.py").write_text(OWN_STEP)
    written = {
        "dataset": "log.eval",
        "tests": [BREAK],
        "rubric": RUBRIC,
        "labels": list(LABELS),
        "epochs": [1, 3],
        "preprocess": ["drop_tool_messages", "steps.py:no_tables"],
        "group": "metadata.topic",
        "generator": WRITER,
        "tracking_uri": store_uri,
        "output": "suite",
    }
    (folder / "recipe.yaml").write_text(json.dumps(written))
    done = cli("generate", folder / "recipe.yaml", "--allow-code")
    assert done.exit_code == 0, (done.output, done.exception)
    suite = jrh.load_suite(str(folder / "suite"))
    assert [item.id for item in suite.items] == [
        f"booking-evalid/a{epoch}/{condition}" for epoch in ("", "/epoch_3") for condition in ("baseline", BREAK)
    ]
    assert all("table" not in (item.transcript or ())[1].content for item in suite.items)
    assert {item.meta["group"] for item in suite.items} == {"hidden"}
    assert suite.items[0].meta["preprocess"] == [
        {"step": "drop_tool_messages", "messages": 2, "tool_calls": 2},
        {"step": "steps.py:no_tables", "messages": 0},
    ]
    assert (suite.origin["epochs"], suite.origin["preprocess"]) == ("1,3", "drop_tool_messages,steps.py:no_tables")
    (folder / "recipe.yaml").write_text(json.dumps({**written, "epochs": [2, 5]}))
    refused = cli("generate", folder / "recipe.yaml", "--allow-code")
    assert "There is no epoch 5. Epochs there are: 1, 2, 3." in str(refused.exception)


@pytest.mark.parametrize("epochs", ["first", [], [0.5], "1-3"])
def test_epochs_that_are_no_numbers_are_refused(log: Path, epochs: object) -> None:
    with pytest.raises(RecipeError, match="`epochs` must be numbers"):
        run(log, None, None, tests=BREAK, epochs=epochs)
