"""Edited transcripts out: written, then read by inspect_ai itself and by us."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from inspect_ai.log import bundle_log_dir, list_eval_logs, read_eval_log, read_eval_log_samples
from inspect_ai.model import ChatMessageUser, ContentReasoning, ContentText

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts
from jrh_mlflow.suites.transcripts.inspect_export import Edit, write_inspect
from tests.suites.transcripts.logs import conversation, results_only, sample, scored, write_log

BOTH = pytest.mark.parametrize("ending", [".eval", ".json"])
TEST = "agent_perturbation"


def parent(tmp_path: Path, **fields: object) -> Transcript:
    (found,) = read_transcripts(write_log(tmp_path / "parent.eval", [sample(7, **fields)]))
    return found


def without_ids(messages: tuple[Message, ...]) -> list[Message]:
    return [replace(message, id=None) for message in messages]


def edited(one: Transcript, place: int, **changes: object) -> Edit:
    messages = tuple(replace(m, **changes) if i == place else m for i, m in enumerate(one.messages))
    return Edit(parent=one, messages=messages, test=TEST)


@BOTH
def test_an_unchanged_transcript_comes_back_with_equal_messages_and_new_ids(tmp_path, ending):
    one = parent(tmp_path)
    (back,) = read_transcripts(
        write_inspect([Edit(parent=one, messages=one.messages, test=TEST)], tmp_path / f"out{ending}")
    )
    assert without_ids(back.messages) == without_ids(one.messages)
    assert {message.id for message in back.messages}.isdisjoint(message.id for message in one.messages)
    assert len({message.id for message in back.messages}) == len(back.messages)
    assert back.metadata["jrh"]["edited"] == []
    kept = read_eval_log(str(tmp_path / f"out{ending}"), resolve_attachments=True).samples[0].messages[2]
    assert kept.content[0].signature == "sig"
    assert kept.model == "m"


@BOTH
def test_a_sample_whose_id_is_zero_is_read_and_written_back(tmp_path, ending):
    (one,) = read_transcripts(write_log(tmp_path / f"parent{ending}", [sample(0)]))
    assert one.source["sample_id"] == 0
    assert "unresolved_attachments" not in one.source
    (back,) = read_transcripts(write_inspect([edited(one, 1, content="Hi")], tmp_path / f"out{ending}"))
    assert back.source["sample_id"] == f"0__{TEST}"
    assert back.metadata["jrh"]["parent_sample_id"] == 0


@BOTH
def test_edited_messages_calls_and_results_come_back_as_edited(tmp_path, ending):
    one = parent(tmp_path, scores=scored(match="C"), metadata={"kind": "easy"})
    call = {**one.messages[2].tool_calls[0], "arguments": {"people": 200}}
    messages = list(one.messages)
    messages[2] = replace(messages[2], tool_calls=(call, messages[2].tool_calls[1]), reasoning="Let me cheat.")
    messages[3] = replace(messages[3], content="A hall, free at 19:00")
    edit = Edit(parent=one, messages=tuple(messages), test=TEST, meta={"objective": "books too much"})
    (back,) = read_transcripts(write_inspect([edit], tmp_path / f"out{ending}"))
    assert without_ids(back.messages) == without_ids(tuple(messages))
    assert back.scores == {}
    assert back.metadata == {
        "kind": "easy",
        "jrh": {
            "test": TEST,
            "edited": [2, 3],
            "parent": one.id,
            "parent_sample_id": 7,
            "parent_epoch": 1,
            "parent_eval_id": "evalid",
            "parent_model": "mockllm/model",
            "parent_file": "parent.eval",
            "objective": "books too much",
        },
    }


def test_inspect_reads_and_lists_the_log_and_its_viewer_takes_it(tmp_path):
    one = parent(tmp_path, scores=scored(match="C"))
    out = write_inspect([edited(one, 5, content="Booked."), edited(one, 5, content="Done.")], tmp_path / "o" / "x.eval")
    log = read_eval_log(str(out), resolve_attachments=True)
    assert (log.status, log.eval.task, log.results, log.eval.scorers) == ("success", "booking", None, None)
    assert log.eval.dataset.sample_ids == ["7__agent_perturbation", "7__agent_perturbation__2"]
    assert log.eval.dataset.samples == 2
    assert log.eval.eval_id != "evalid"
    samples = list(read_eval_log_samples(str(out)))
    assert [one.id for one in samples] == log.eval.dataset.sample_ids
    for one_sample, said in zip(samples, ("Booked.", "Done."), strict=True):
        assert (one_sample.scores, one_sample.events, one_sample.target) == (None, [], "Bistro")
        assert one_sample.output.completion == one_sample.messages[-1].text == said
        assert one_sample.messages[2].tool_calls[0].arguments["people"] == 2
        assert one_sample.messages[4].error.type == "timeout"
    assert [Path(info.name).name for info in list_eval_logs(str(tmp_path / "o"))] == ["x.eval"]
    bundle_log_dir(str(tmp_path / "o"), str(tmp_path / "site"))
    assert (tmp_path / "site" / "logs" / "x.eval").is_file()
    assert (tmp_path / "site" / "index.html").is_file()


@BOTH
def test_an_edited_task_is_the_input_of_the_sample_too(tmp_path, ending):
    talk = [ChatMessageUser(content="A table for two."), *conversation()[2:]]
    for given in ("A table for two.", [ChatMessageUser(content="A table for two.")]):
        one = parent(tmp_path, input=given, messages=talk)
        out = write_inspect([edited(one, 0, content="A table for ten.")], tmp_path / f"out{ending}")
        (back,) = read_transcripts(out)
        assert back.input == back.messages[0].content == "A table for ten."
        out.unlink()


def test_dropped_and_added_messages_are_told_apart_from_kept_ones(tmp_path):
    one = parent(tmp_path)
    added = Message(role="user", content="And hurry.")
    edit = Edit(parent=one, messages=(*one.messages[:2], added, one.messages[5]), test=TEST)
    assert edit.places == (2,)
    (back,) = read_transcripts(write_inspect([edit], tmp_path / "out.eval"))
    assert without_ids(back.messages) == without_ids(edit.messages)


def test_messages_without_ids_find_their_origin_by_place(tmp_path):
    one = parent(tmp_path)
    bare = replace(one, messages=tuple(without_ids(one.messages)))
    assert edited(bare, 5, content="Booked.").places == (5,)
    write_inspect([edited(bare, 5, content="Booked.")], tmp_path / "out.eval")
    assert read_eval_log(str(tmp_path / "out.eval")).samples[0].messages[5].model == "m"


def test_edited_reasoning_loses_its_signature_and_an_edited_refusal_its_mark(tmp_path):
    talk = conversation()
    talk[2].content = [ContentReasoning(reasoning="Hm.", signature="sig"), ContentText(text="I cannot.", refusal=True)]
    one = parent(tmp_path, messages=talk)
    out = write_inspect([edited(one, 2, content="Sure.", reasoning="Fine.")], tmp_path / "out.eval")
    reasoning, text = read_eval_log(str(out)).samples[0].messages[2].content
    assert (reasoning.reasoning, reasoning.signature) == ("Fine.", None)
    assert (text.text, text.refusal) == ("Sure.", None)


def test_transcripts_of_other_formats_become_samples_and_come_back_equal(tmp_path):
    messages = (
        Message(role="developer", content="Be brief.", name="ops"),
        Message(role="user", content="Look.", parts=({"type": "image_url", "image_url": {"url": "http://x/y.png"}},)),
        Message(
            role="assistant",
            content="",
            tool_calls=({"id": "c", "name": "f", "arguments": '{"broken', "parse_error": "no JSON"},),
        ),
        Message(role="tool", content="", tool_call_id="c", name="f", error="it broke"),
    )
    one = Transcript(id="mine", messages=messages, input="Look.", source={"format": "openai"})
    changed = Edit(parent=one, messages=(*messages, Message(role="assistant", content="Sorry.")), test=TEST)
    (back,) = read_transcripts(write_inspect([changed], tmp_path / "out.eval"))
    expected = [*messages[:3], replace(messages[3], error="unknown: it broke"), changed.messages[4]]
    assert without_ids(back.messages) == expected
    assert back.source["task"] == "jrh_edited"


def test_samples_of_several_logs_and_epochs_have_names_of_their_own(tmp_path):
    first = write_log(tmp_path / "a.eval", [sample(1), sample(1, epoch=2)], epochs=2)
    second = write_log(tmp_path / "b.eval", [sample(1)], eval_id="other1")
    edits = [edited(one, 5, content="Booked.") for file in (first, second) for one in read_transcripts(file)]
    log = read_eval_log(str(write_inspect(edits, tmp_path / "out.eval")))
    assert log.eval.dataset.sample_ids == [f"1__{TEST}", f"1__epoch_2__{TEST}", f"1__{TEST}__2"]
    assert log.eval.metadata["jrh"]["parents"] == ["a.eval", "b.eval"]


def test_a_log_of_several_evaluations_says_of_itself_only_what_they_share(tmp_path):
    files = [
        write_log(tmp_path / "a.eval", [sample(1)]),
        write_log(tmp_path / "b.eval", [sample(1)], eval_id="other1", model="mockllm/other"),
    ]
    edits = [edited(one, 5, content="Booked.") for file in files for one in read_transcripts(file)]
    log = read_eval_log(str(write_inspect(edits, tmp_path / "out.eval")))
    assert (log.eval.task, log.eval.model, log.eval.tags) == ("booking", "none/none", ["jrh_edited"])
    assert [one.metadata["jrh"]["parent_model"] for one in log.samples] == ["mockllm/model", "mockllm/other"]
    alone = read_eval_log(str(write_inspect(edits[1:], tmp_path / "one.eval")))
    assert (alone.eval.model, alone.eval.dataset.name) == ("mockllm/other", "tables")


@BOTH
def test_results_without_a_call_come_back_with_every_kind_of_error(tmp_path, ending):
    (one,) = read_transcripts(write_log(tmp_path / f"in{ending}", [sample(messages=results_only(), epoch=4)]))
    changed = edited(one, 0, content="Done.")
    (back,) = read_transcripts(write_inspect([changed], tmp_path / f"out{ending}"))
    assert without_ids(back.messages) == without_ids(changed.messages)
    assert len({message.error.partition(":")[0] for message in back.messages}) == len(results_only()) > 5


def test_an_edit_of_an_edit_keeps_the_story(tmp_path):
    (once,) = read_transcripts(write_inspect([edited(parent(tmp_path), 5, content="Booked.")], tmp_path / "1.eval"))
    (twice,) = read_transcripts(write_inspect([edited(once, 5, content="Done.")], tmp_path / "2.eval"))
    assert twice.metadata["jrh"]["before"]["parent_sample_id"] == 7


def test_what_cannot_be_written_is_refused(tmp_path):
    one = parent(tmp_path)
    edit = edited(one, 5, content="Booked.")
    with pytest.raises(RecipeError, match=r"must end in \.eval or \.json"):
        write_inspect([edit], tmp_path / "out.txt")
    with pytest.raises(RecipeError, match="There are no edited transcripts"):
        write_inspect([], tmp_path / "out.eval")
    with pytest.raises(RecipeError, match=r"parent\.eval is the log that was edited"):
        write_inspect([edit], tmp_path / "parent.eval")
    with pytest.raises(RecipeError, match="Inspect logs have no role 'narrator'"):
        write_inspect([edited(one, 5, role="narrator")], tmp_path / "out.eval")
    write_log(tmp_path / "parent.eval", [sample(7, messages=conversation()[:2])])
    with pytest.raises(RecipeError, match="was changed after it was read"):
        write_inspect([edit], tmp_path / "out.eval")
    (tmp_path / "parent.eval").unlink()
    with pytest.raises(RecipeError, match="is gone: there is no file"):
        write_inspect([edit], tmp_path / "out.eval")
    assert not (tmp_path / "out.eval").exists()
