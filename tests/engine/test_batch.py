"""Batch files: what is exported, and that a batch and a live run are one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.batch import BatchSummary, NumberedFiles, export_batch, import_batch, told_apart
from jrh_mlflow.engine.calls import Numbering, count_calls, plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.errors import RecipeError
from tests.engine.batch_tools import play_provider, read, varied, write
from tests.loopback import LoopbackServer

KEY = "sk-planted-secret-0123456789abcdef"
MODEL = "openai/gpt-4o-mini"


@pytest.fixture(scope="module")
def small() -> jrh.Suite:
    return jrh.datasheet_suite(n_tasks=1, depth=2)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "journal.db") as book:
        yield book


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(reply=varied, record=True) as running:
        yield running


@pytest.fixture(autouse=True)
def _planted_key(monkeypatch: pytest.MonkeyPatch, server: LoopbackServer) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.requests.clear()
    server.counts.clear()


def judge_at(server: LoopbackServer | None = None, **settings: object) -> jrh.PromptedJudge:
    given = {"max_tokens": 64, "seed": 7, "api_base": server and server.url, **settings}
    return jrh.PromptedJudge(MODEL, **given)  # type: ignore[arg-type]


def ask_live(judge: jrh.PromptedJudge, suite: jrh.Suite, journal: Journal, *, replicates: int = 1) -> list[str]:
    done = ask_calls(judge, plan_calls(suite, judge, replicates=replicates), journal=journal, settings=ClientSettings())
    return [f"{record.suite_item} {record.order} {record.outcome} {record.answer}" for record in done.records]


def test_a_line_is_a_call_under_its_journal_key_with_the_body_of_the_direct_transport(
    small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path
) -> None:
    judge = judge_at(server, logprobs=True, extra={"top_p": 0.5})
    done = export_batch(judge, small, journal, tmp_path / "requests.jsonl", replicates=2)
    lines = read(*done.files)
    numbering = Numbering(judge)
    keys = [numbering.prepare(call)[1] for call in plan_calls(small, judge, replicates=2)]
    assert [line["custom_id"] for line in lines] == keys
    assert len(set(keys)) == len(keys) == count_calls(small, judge, replicates=2) == done.requests
    assert max(map(len, keys)) <= 64, "OpenAI takes no longer id"
    assert all(line.keys() == {"custom_id", "method", "url", "body"} for line in lines)
    ask_live(judge, small, journal, replicates=2)
    sent = sorted(json.dumps(each["body"]) for each in server.requests)
    assert sorted(json.dumps(line["body"]) for line in lines) == sent


def test_a_batch_and_a_live_run_give_the_same_metrics(
    small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path, store_uri: str
) -> None:
    judge, where = judge_at(server), {"tracking_uri": store_uri, "experiment": "tests", "traces": "none"}
    done = export_batch(judge, small, journal, tmp_path / "requests.jsonl")
    results = play_provider(read(*done.files), server)
    random.Random(1).shuffle(results)
    kept = import_batch(done.files[0], write(tmp_path / "results.jsonl", results), journal, judge)
    assert (kept.answered, kept.missing, kept.failed, kept.unknown) == (done.requests, 0, 0, ())
    server.counts.clear()
    batch = jrh.evaluate(judge, small, journal=journal, **where)
    assert server.counts["requests"] == 0
    live = jrh.evaluate(judge, small, journal=tmp_path / "other.db", **where)
    assert server.counts["requests"] == len(live.calls)
    assert len(set(live.calls["answer"])) == 3, "a judge that always says the same proves nothing"
    apart = ("time/seconds", "calls/cached", "calls/oldest_answer_days")
    assert {key: value for key, value in batch.metrics.items() if key not in apart} == {
        key: value for key, value in live.metrics.items() if key not in apart
    }


def test_after_an_import_a_run_asks_only_what_is_missing_and_then_nothing_is_exported(
    small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path
) -> None:
    judge = judge_at(server)
    done = export_batch(judge, small, journal, tmp_path / "requests.jsonl")
    results = play_provider(read(*done.files)[::3], server)
    kept = import_batch(done.files[0], write(tmp_path / "results.jsonl", results), journal, judge)
    assert (kept.answered, kept.missing) == (len(results), done.requests - len(results))
    rest = export_batch(judge, small, journal, tmp_path / "rest.jsonl")
    assert (rest.journalled, rest.requests) == (len(results), kept.missing)
    server.counts.clear()
    with open_journal(tmp_path / "other.db") as other:
        assert ask_live(judge, small, journal) == ask_live(judge, small, other)
    assert server.counts["requests"] == kept.missing + done.requests
    nothing = export_batch(judge, small, journal, tmp_path / "nothing.jsonl")
    assert nothing == BatchSummary(
        calls=done.calls, journalled=done.calls, too_long=0, requests=0, files=(), size_bytes=0
    )
    assert not (tmp_path / "nothing.jsonl").exists()


def test_replicates_and_equal_texts_keep_their_numbers_when_only_some_come_back(
    small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path
) -> None:
    judge = judge_at(server)
    done = export_batch(judge, small, journal, tmp_path / "requests.jsonl", replicates=3)
    results = play_provider(read(*done.files), server)
    write(tmp_path / "second.jsonl", results[1::2])
    assert import_batch(done.files[0], tmp_path / "second.jsonl", journal, judge).answered == len(results[1::2])
    assert export_batch(judge, small, journal, tmp_path / "rest.jsonl", replicates=3).requests == len(results[::2])
    rest = read(tmp_path / "rest.jsonl")
    assert [line["custom_id"] for line in rest] == [line["custom_id"] for line in results[::2]]
    write(tmp_path / "first.jsonl", results[::2])
    assert import_batch(tmp_path / "rest.jsonl", tmp_path / "first.jsonl", journal, judge).answered == len(rest)


def test_neither_a_key_nor_an_address_is_needed_or_written(
    small: jrh.Suite, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", KEY[::-1])
    with_key = export_batch(judge_at(), small, journal, tmp_path / "with.jsonl")
    monkeypatch.delenv("OPENAI_API_KEY")
    without = export_batch(judge_at(), small, journal, tmp_path / "without.jsonl")
    vllm = export_batch(jrh.PromptedJudge("hosted_vllm/org/model"), small, journal, tmp_path / "vllm.jsonl")
    assert with_key.files[0].read_bytes() == without.files[0].read_bytes()
    assert read(*vllm.files)[0]["body"]["model"] == "org/model"
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()
        assert KEY[::-1].encode() not in file.read_bytes()


def test_the_token_limit_has_the_name_the_model_takes(small: jrh.Suite, journal: Journal, tmp_path: Path) -> None:
    judge = jrh.PromptedJudge("openai/gpt-5-mini", temperature=None, max_tokens=50)
    body = read(*export_batch(judge, small, journal, tmp_path / "requests.jsonl").files)[0]["body"]
    assert body["max_completion_tokens"] == 50
    assert not {"max_tokens", "temperature"} & body.keys()


@pytest.mark.parametrize(("limit", "unit"), [("max_requests", 20), ("max_bytes", 60_000)])
def test_what_is_over_a_limit_goes_into_numbered_parts_and_comes_back_from_them(
    small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path, limit: str, unit: int
) -> None:
    judge = judge_at(server)
    whole = read(*export_batch(judge, small, journal, tmp_path / "whole.jsonl").files)
    done = export_batch(judge, small, journal, tmp_path / "requests.jsonl", **{limit: unit})
    assert len(done.files) > 1
    assert [file.name for file in done.files] == [f"requests-{n:03d}.jsonl" for n in range(1, len(done.files) + 1)]
    assert [line for file in done.files for line in read(file)] == whole
    sizes = [len(read(file)) if limit == "max_requests" else file.stat().st_size for file in done.files]
    assert max(sizes) <= unit
    assert sum(file.stat().st_size for file in done.files) == done.size_bytes
    results = [write(tmp_path / f"out-{n}.jsonl", play_provider(read(f), server)) for n, f in enumerate(done.files)]
    one = import_batch(done.files[-1], results[-1], journal, judge)
    assert one.missing == 0
    rest = import_batch(tmp_path / "requests.jsonl", results, journal, judge)
    assert (rest.answered, rest.already) == (done.requests - one.answered, one.answered)


def test_a_request_over_the_limit_of_a_whole_file_is_refused_and_leaves_nothing(
    small: jrh.Suite, journal: Journal, tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())
    with pytest.raises(RecipeError, match="a file may have 100"):
        export_batch(judge_at(), small, journal, tmp_path / "requests.jsonl", max_bytes=100)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("there", ["requests.jsonl", "requests-001.jsonl"])
def test_an_export_is_never_overwritten(small: jrh.Suite, journal: Journal, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("sent yesterday")
    with pytest.raises(RecipeError, match=rf"{there} exists, and its import may need it"):
        export_batch(judge_at(), small, journal, tmp_path / "requests.jsonl")
    assert (tmp_path / there).read_text() == "sent yesterday"


def test_a_broken_export_leaves_no_file_that_could_be_sent(tmp_path: Path) -> None:
    def export() -> None:
        with NumberedFiles(tmp_path / "r.jsonl", max_lines=2, max_bytes=99) as files:
            for line in (b"1\n", b"2\n", b"3\n"):
                files.add(line)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_clear_line(small: jrh.Suite, journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecipeError, match="cannot be used"):
        export_batch(judge_at(), small, journal, tmp_path / "file" / "requests.jsonl")


@pytest.mark.parametrize("model", ["anthropic/claude-3-haiku-20240307", "bedrock/x", "gpt-4o-mini"])
def test_a_provider_of_another_dialect_is_refused(
    small: jrh.Suite, journal: Journal, tmp_path: Path, model: str
) -> None:
    with pytest.raises(RecipeError, match="OpenAI dialect"):
        export_batch(jrh.PromptedJudge(model), small, journal, tmp_path / "requests.jsonl")
    assert not (tmp_path / "requests.jsonl").exists()


def test_what_no_transport_would_send_is_not_exported(small: jrh.Suite, journal: Journal, tmp_path: Path) -> None:
    reserved = jrh.PromptedJudge(MODEL, extra={"max_completion_tokens": 5})
    with pytest.raises(RecipeError, match="`extra` may not hold max_completion_tokens"):
        export_batch(reserved, small, journal, tmp_path / "a.jsonl")
    with pytest.raises(RecipeError, match="lone surrogate"):
        export_batch(judge_at(rubric="half \ud83d"), small, journal, tmp_path / "b.jsonl")
    long = jrh.PromptedJudge("openai/gpt-4", rubric="word " * 10_000)
    done = export_batch(long, small, journal, tmp_path / "c.jsonl")
    assert (done.too_long, done.requests, done.files) == (done.calls, 0, ())


def test_numbers_that_make_no_sense_are_a_programmers_mistake(
    small: jrh.Suite, journal: Journal, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="replicates=0"):
        export_batch(judge_at(), small, journal, tmp_path / "requests.jsonl", replicates=0)


@pytest.mark.parametrize(
    "judge",
    [
        jrh.PromptedJudge("openai/gpt-4o-mini", tie_criterion="strict", temperature=0.5, seed=3, logprobs=True),
        jrh.PromptedJudge("openai/gpt-5-mini", reasoning_effort="low", rubric="Be fair.", extra={"top_p": 0.5}),
        jrh.PromptedJudge("hosted_vllm/mine", structured=False, temperature=None, max_tokens=None),
        jrh.PromptedJudge(
            "openai/gpt-4o-mini",
            raw=True,
            messages=[{"role": "user", "content": "{first} {second}"}],
            verdict="(A|B)",
            extra={"max_completion_tokens": 9, "response_format": {"type": "json_object"}},
        ),
    ],
    ids=["settings", "reasoning", "own server", "raw"],
)
def test_who_was_asked_is_known_from_the_file_alone(
    judge: jrh.PromptedJudge, small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path
) -> None:
    done = export_batch(judge, small, journal, tmp_path / "requests.jsonl")
    results = write(tmp_path / "results.jsonl", play_provider(read(*done.files)[:3], server))
    assert import_batch(done.files[0], results, journal).answered == 3
    assert export_batch(judge, small, journal, tmp_path / "rest.jsonl").journalled == 3
    assert told_apart([results, *done.files]) == (list(done.files), [results])


def test_an_export_to_an_address_of_ones_own_needs_its_options(
    small: jrh.Suite, journal: Journal, server: LoopbackServer, tmp_path: Path
) -> None:
    done = export_batch(judge_at(server), small, journal, tmp_path / "requests.jsonl")
    results = write(tmp_path / "results.jsonl", play_provider(read(*done.files)[:1], server))
    with pytest.raises(RecipeError, match="--model"):
        import_batch(done.files[0], results, journal)
