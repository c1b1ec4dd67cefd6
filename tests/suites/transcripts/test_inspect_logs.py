"""Inspect logs in: real logs, written by inspect_ai itself."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import pytest
from inspect_ai._util.error import EvalError
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentData,
    ContentDocument,
    ContentReasoning,
    ContentText,
    ContentToolUse,
)
from inspect_ai.tool import ToolCall

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts
from jrh_mlflow.suites.transcripts.inspect_logs import read_inspect
from tests.suites.transcripts.logs import PIXEL, sample, scored, write_log

BOTH = pytest.mark.parametrize("ending", [".eval", ".json"])


def only(path: Path) -> Transcript:
    (found,) = read_transcripts(path)
    return found


@BOTH
def test_a_sample_is_read_with_calls_results_errors_reasoning_and_images(tmp_path, ending):
    one = only(write_log(tmp_path / f"log{ending}", [sample(scores=scored(match="C"), metadata={"kind": "easy"})]))
    system, user, asks, found, failed, last = one.messages
    assert (system.role, system.content) == ("system", "You book tables.")
    assert (user.content, [dict(part) for part in user.parts]) == (
        "A table for two.",
        [{"type": "image", "image": PIXEL, "detail": "auto"}],
    )
    assert (asks.reasoning, asks.content, asks.parts) == ("I should look.", "One moment.", ())
    assert asks.tool_calls[0] == {"id": "c1", "name": "search", "arguments": {"people": 2, "note": "x" * 300}}
    assert (found.name, found.tool_call_id, found.error) == ("search", "c1", None)
    assert (failed.name, failed.tool_call_id, failed.error) == ("book", "c2", "timeout: no answer")
    assert last.id is not None
    assert (one.input, one.target, one.scores, one.metadata) == (
        "A table for two.",
        ("Bistro",),
        {"match": "C"},
        {"kind": "easy"},
    )
    assert one.id == "booking-evalid/1"
    assert "held" not in one.source


@BOTH
def test_fewer_samples_than_listed_are_said_in_a_warning_and_in_each_transcript(tmp_path, ending):
    log = write_log(tmp_path / f"log{ending}", [sample(n) for n in (3, 7)], listed=range(1, 12), status="error")
    with pytest.warns(UserWarning, match=rf"log{ending} holds 2 of 11 samples \(status error\)"):
        found = list(read_transcripts(log))
    assert [(one.source["sample_id"], one.source["held"]) for one in found] == [(3, "2 of 11"), (7, "2 of 11")]


@BOTH
def test_samples_of_all_epochs_come_in_the_order_of_the_dataset_with_ids_of_their_own(tmp_path, ending):
    samples = [sample(id, epoch=epoch) for epoch in (2, 1) for id in ("b", 10, 2)]
    found = list(read_transcripts(write_log(tmp_path / f"log{ending}", samples, listed=[2, 10, "b"], epochs=2)))
    assert [one.id.partition("/")[2] for one in found] == ["2", "2/epoch_2", "10", "10/epoch_2", "b", "b/epoch_2"]


@BOTH
def test_the_epochs_that_are_named_are_read_with_the_ids_they_always_have_and_another_is_refused(tmp_path, ending):
    samples = [sample(id, epoch=epoch) for epoch in (1, 2, 4) for id in ("a", "b")]
    log = write_log(tmp_path / f"log{ending}", samples, listed=["a", "b"], epochs=3)
    whole = {one.id: one for one in read_transcripts(log)}
    found = list(read_transcripts(log, epochs=[4, 1]))
    assert [one.id.partition("/")[2] for one in found] == ["a", "a/epoch_4", "b", "b/epoch_4"]
    assert all(whole[one.id] == one for one in found)
    assert [one.source["epoch"] for one in read_transcripts(log, epochs=[2], samples=["b"])] == [2]
    with pytest.raises(RecipeError, match=r"There is no epoch 3\. Epochs there are: 1, 2, 4\."):
        list(read_transcripts(log, epochs=[1, 3]))


def test_epochs_are_chosen_from_inspect_logs_only(tmp_path):
    (talk := tmp_path / "talk.json").write_text('[{"role": "user", "content": "Hi"}]')
    for source in (talk, [{"role": "user", "content": "Hi"}]):
        with pytest.raises(RecipeError, match="`epochs` chooses from Inspect logs"):
            list(read_transcripts(source, epochs=[1]))


@BOTH
def test_a_log_of_a_part_of_its_dataset_is_whole(tmp_path, ending):
    log = write_log(tmp_path / f"log{ending}", [sample(n, scores={}) for n in (1, 2)], of=100)
    assert [(one.source.get("held"), one.scores) for one in read_transcripts(log)] == [(None, {})] * 2


@BOTH
def test_a_task_given_as_messages_is_what_the_user_said_in_them(tmp_path, ending):
    given = [
        ChatMessageSystem(content="You book tables."),
        ChatMessageUser(content="Two."),
        ChatMessageUser(content="Now."),
    ]
    assert only(write_log(tmp_path / f"log{ending}", [sample(input=given)])).input == "Two.\n\nNow."


def test_an_epoch_that_the_configuration_does_not_announce_is_read_all_the_same(tmp_path):
    assert only(write_log(tmp_path / "log.json", [sample(epoch=4)])).source["epoch"] == 4


@BOTH
def test_scores_of_every_type_are_kept_and_what_was_not_scored_is_none(tmp_path, ending):
    values = {"letter": "I", "number": 0.5, "parts": {"a": 1, "b": "C"}, "several": [1, 2], "no": float("nan")}
    one = only(write_log(tmp_path / f"log{ending}", [sample(scores=scored(**values), target=["x", "y"])]))
    assert one.scores == {**values, "no": None}
    assert one.target == ("x", "y")
    assert only(write_log(tmp_path / f"bare{ending}", [sample(scores=None)])).scores == {}


def test_attachments_are_resolved_and_one_that_is_missing_is_said(tmp_path):
    text = "long " * 100
    digest = "0" * 32
    talk = [ChatMessageUser(content=f"attachment://{digest}"), ChatMessageUser(content=f"attachment://{'1' * 32}")]
    log = write_log(tmp_path / "log.eval", [sample(messages=talk, attachments={digest: text})])
    with pytest.warns(UserWarning, match="refers to 1 attachments that its log does not hold"):
        one = only(log)
    assert one.messages[0].content == text
    assert one.source["unresolved_attachments"] == 1


@BOTH
def test_a_log_without_samples_is_a_clear_error(tmp_path, ending):
    log = write_log(tmp_path / f"log{ending}", None, listed=[1, 2], status="cancelled")
    with pytest.raises(RecipeError, match=rf"log{ending} holds no samples \(status cancelled\)"):
        list(read_transcripts(log))


def test_a_log_that_failed_says_why_it_has_no_samples(tmp_path):
    error = EvalError(message="No such\nmodel.", traceback="", traceback_ansi="")
    log = write_log(tmp_path / "log.json", [], status="error", error=error)
    with pytest.raises(RecipeError, match=r"status error: No such model\."):
        list(read_transcripts(log))


def test_a_folder_is_all_its_logs_and_names_the_empty_ones(tmp_path):
    write_log(tmp_path / "a.eval", [sample()], eval_id="first1")
    write_log(tmp_path / "b.json", [sample()], eval_id="second")
    write_log(tmp_path / "c.eval", None, status="cancelled")
    (tmp_path / "notes.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"c\.eval holds no samples"):
        found = list(read_transcripts(tmp_path))
    assert [one.id for one in found] == ["booking-first1/1", "booking-second/1"]


def test_the_same_evaluation_twice_in_a_folder_is_refused(tmp_path):
    for name in ("a.eval", "b.json"):
        write_log(tmp_path / name, [sample()])
    with pytest.raises(RecipeError, match=r"'booking-evalid/1' comes twice: from .*a\.eval and from .*b\.json"):
        list(read_transcripts(tmp_path))


def test_samples_are_chosen_by_id_and_an_unknown_one_is_refused(tmp_path):
    log = write_log(tmp_path / "log.eval", [sample(id) for id in ("alpha", "beta")])
    assert [one.source["sample_id"] for one in read_inspect(log, samples=["beta"])] == ["beta"]
    with pytest.raises(RecipeError, match=r"There is no sample 'betta'\. Did you mean 'beta'\?"):
        list(read_inspect(log, samples=["betta"]))


def test_an_eval_log_is_never_read_whole(tmp_path):
    log = write_log(tmp_path / "log.eval", [sample(n) for n in range(1, 21)])
    reader = read_inspect(log)
    assert next(reader).source["sample_id"] == 1
    log.unlink()
    with pytest.raises(RecipeError, match=r"log\.eval cannot be read"):
        list(reader)
    whole = write_log(tmp_path / "log.eval", [sample(n) for n in range(1, 21)])
    assert [one.source["sample_id"] for one in read_inspect(whole)] == list(range(1, 21))


def test_parts_that_are_no_text_are_kept_with_their_type(tmp_path):
    search = ContentToolUse(tool_type="web_search", id="s1", name="search", arguments="{}", result="two hits")
    answer = ChatMessageAssistant(
        content=[
            ContentReasoning(reasoning="gAAA", redacted=True, summary="Thought about it."),
            ContentText(text="I cannot help.", refusal=True),
            search,
            ContentDocument(document="report.pdf"),
            ContentData(data={"k": 1}),
        ],
        tool_calls=[ToolCall(id="c", function="f", arguments={}, parse_error="bad JSON", type="custom")],
    )
    message = only(write_log(tmp_path / "log.eval", [sample(messages=[answer])])).messages[0]
    assert (message.reasoning, message.content) == ("Thought about it.", "I cannot help.")
    assert [part["type"] for part in message.parts] == ["reasoning", "refusal", "tool_use", "document", "data"]
    assert message.parts[2]["result"] == "two hits"
    call = {"id": "c", "name": "f", "arguments": {}, "parse_error": "bad JSON", "type": "custom"}
    assert message.tool_calls == (call,)


def test_a_sample_that_failed_says_so(tmp_path):
    error = EvalError(message="out of memory", traceback="", traceback_ansi="")
    assert only(write_log(tmp_path / "log.eval", [sample(error=error)])).source["error"] == "out of memory"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.eval", b"PK nothing", r"log\.eval cannot be read as an Inspect log"),
        ("log.json", b'{"version": 2, "status": ', r"log\.json cannot be read as an Inspect log"),
        ("log.txt", b"x", r"log\.txt: unknown ending\. Give an Inspect log"),
    ],
)
def test_what_is_no_log_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RecipeError, match=message):
        list(read_transcripts(tmp_path / name))


def test_missing_files_empty_folders_and_other_endings_are_refused(tmp_path):
    with pytest.raises(RecipeError, match="There is no file or folder"):
        read_transcripts(tmp_path / "none.eval")
    with pytest.raises(RecipeError, match=r"There is no Inspect log \(\.eval or \.json\) in"):
        read_transcripts(tmp_path)
    (tmp_path / "talk.jsonl").write_text(json.dumps({"role": "user", "content": "Hi"}))
    with pytest.raises(RecipeError, match=r"talk\.jsonl is no Inspect log"):
        read_inspect(tmp_path / "talk.jsonl")
    with pytest.raises(RecipeError, match="`samples` chooses from Inspect logs"):
        read_transcripts(tmp_path / "talk.jsonl", samples=[1])


def test_without_the_library_the_error_says_what_to_install(tmp_path, monkeypatch):
    log = write_log(tmp_path / "log.eval", [sample()])
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(RecipeError, match=r"pip install 'jrh-mlflow\[inspect\]'"):
        read_transcripts(log)


def test_a_whole_log_gives_no_warning(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        only(write_log(tmp_path / "log.eval", [sample()]))
    assert [str(one.message) for one in caught] == []
