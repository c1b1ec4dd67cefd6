"""`texts=False`: what prompts, responses and judges say is nowhere in MLflow's store, as text, JSON, Parquet or hex."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError, SuiteError, TrackingError
from jrh_mlflow.measuring.evaluation import resume
from jrh_mlflow.measuring.replay import replay_each
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message, Presentation
from jrh_mlflow.suites.suite import read_suite
from jrh_mlflow.text import hashed
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs.store import Store
from tests.cases import few
from tests.loopback import LoopbackServer
from tests.readings import asked

CANARY = "zxqcanary"
"""In every private text; the test fails wherever these letters turn up in a store."""
WHERE = {"experiment": "private", "progress": False}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of its own: every byte of it is looked through after the last test."""
    folder = tmp_path_factory.mktemp("private")
    assert Store(folder_uri(folder), "private", artifacts=artifacts_uri(folder)).experiment_id
    yield folder_uri(folder)
    assert_clean(folder)


def assert_clean(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert CANARY not in content_of(path).casefold(), path
    for database in folder.glob("*.db"):
        with sqlite3.connect(database) as connection:
            assert CANARY not in "\n".join(connection.iterdump()).casefold(), database


def content_of(path: Path) -> str:
    """Return all that a file holds: its bytes, a table's cells, and text chunks of pictures."""
    found = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".parquet":
        found += pd.read_parquet(path).to_json()
    if path.suffix == ".png":
        found += "".join(_text_chunks(path.read_bytes()))
    return found


def _text_chunks(png: bytes) -> Iterator[str]:
    place = 8
    while place < len(png):
        size, kind = int.from_bytes(png[place : place + 4], "big"), png[place + 4 : place + 8]
        if kind in (b"tEXt", b"iTXt"):
            yield png[place + 8 : place + 8 + size].decode("utf-8", "replace")
        if kind == b"zTXt":
            yield zlib.decompress(png[place + 8 : place + 8 + size].partition(b"\0")[2][1:]).decode("utf-8", "replace")
        place += size + 12


def private_pairs() -> jrh.Suite:
    """Natural pairs with a canary in every text and in how they were made."""
    items = [
        Item(
            id=f"p{number}",
            task=f"t{number}",
            condition="natural",
            instruction=f"{CANARY} instruction {number}",
            rubric=f"{CANARY} rubric",
            u=f"{CANARY} u {number}",
            v=f"{CANARY} v {number}",
            better="u",
            meta={"wording": f"{CANARY} meta"},
        )
        for number in range(6)
    ]
    return jrh.Suite(name="private", items=items, origin={"builder": "natural", "note": f"{CANARY} origin", "n": 6})


def private_responses() -> jrh.Suite:
    texts: dict[str, Any] = {"kind": "response", "answers": ("no", "yes"), "expected": "yes"}
    texts |= {"instruction": f"{CANARY} task", "rubric": f"{CANARY} rubric"}
    items = [
        Item(
            id=f"{CANARY} taken for an id, {test} {number}",
            task=f"{CANARY} taken for a source, {number}",
            condition=test,
            response=f"{CANARY} {test} {number}",
            meta={"group": "north", "original": f"{CANARY} original", "source": f"s{number}"},
            **texts,
        )
        for test in ("baseline", "typos")
        for number in range(4)
    ]
    return jrh.Suite(name="private-responses", items=items)


def private_transcripts() -> jrh.Suite:
    call = {"id": "c1", "name": f"{CANARY}_tool", "arguments": {"query": f"{CANARY} argument"}}
    messages = (
        Message(role="user", content=f"{CANARY} question"),
        Message(role="assistant", content=f"{CANARY} step", tool_calls=(call,), reasoning=f"{CANARY} thought"),
        Message(role="tool", content=f"{CANARY} result", tool_call_id="c1", error=f"{CANARY} error"),
    )
    texts: dict[str, Any] = {"kind": "transcript", "instruction": f"{CANARY} task", "rubric": f"{CANARY} rubric"}
    items = [
        Item(
            id=f"x{n}",
            task=f"s{n}",
            condition="baseline",
            transcript=messages,
            answers=("no", "yes"),
            expected="yes",
            **texts,
        )
        for n in range(4)
    ]
    return jrh.Suite(name="private-transcripts", items=items)


def talkative() -> Any:
    """A judge that repeats what it reads: in its reason, in an answer nobody can use, and in an error."""
    turn = count()

    def judge(shown: Presentation) -> jrh.Answer:
        number = next(turn)
        said = f"I read: {shown.instruction} {shown.first} {shown.response} {shown.transcript}"
        if number % 5 == 3:
            raise ValueError(said)
        return jrh.Answer(said if number % 5 == 4 else shown.answers[0], rationale=said)

    return judge


def artifact(done: jrh.Evaluation, uri: str, name: str, to: Path) -> Path:
    from mlflow import MlflowClient

    to.mkdir(exist_ok=True)
    return Path(MlflowClient(tracking_uri=uri).download_artifacts(done.run_id, name, str(to)))


@pytest.mark.parametrize("make", few([private_pairs, private_transcripts, private_responses], quick=2))
def test_no_private_text_is_in_the_store_with_every_call_a_trace(store: str, make: Any, tmp_path: Path) -> None:
    suite = make()
    done = jrh.evaluate(talkative(), suite, tracking_uri=store, texts=False, traces="all", concurrency=1, **WHERE)
    assert done.calls["rationale"].str.contains(CANARY).any(), "what is returned has the texts"
    assert done.suite is suite
    logged = pd.read_parquet(artifact(done, store, "calls/calls.parquet", tmp_path / "got"))
    rationale = done.calls["rationale"].dropna().iloc[0]
    assert hashed(rationale) in set(logged["rationale"])
    kept = read_suite(artifact(done, store, "suite", tmp_path / "got"), hashes=True)
    assert kept.sha256 == suite.sha256
    assert kept.items[0].instruction == hashed(suite.items[0].instruction)
    again = jrh.measure(logged, labels=suite.labels)
    assert again.estimates == done.sheet.estimates


def test_a_prompted_judge_leaves_neither_prompt_nor_rubric_nor_answer_in_the_store(store: str, tmp_path: Path) -> None:
    template = tmp_path / "plain.txt"
    template.write_text(f"{CANARY} prompt\n{{instruction}}\n{{candidates}}\n", encoding="utf-8")
    replies = count()

    def reply(request: Any) -> str:
        verdict = "A" if next(replies) % 3 else f"{CANARY} nonsense"
        return json.dumps({"reason": f"{CANARY} because", "verdict": verdict})

    with LoopbackServer(reply=reply) as server:
        judge = jrh.PromptedJudge(
            "openai/private",
            prompt=template,
            rubric=f"{CANARY} judge's rubric",
            tie_criterion=f"{CANARY} is never a tie",
            api_base=server.url,
            extra={"user": f"{CANARY} extra"},
        )
        options: dict[str, Any] = {"tracking_uri": store, "texts": False, "traces": "all", **WHERE}
        shift = jrh.criterion_shift(judge, private_pairs(), criteria=("allowed", f"{CANARY} means tie"), **options)
    arm = shift.arms["allowed"]
    assert arm.judge.settings["extra.user"] == f"{CANARY} extra"
    assert arm.calls["rationale"].str.contains(CANARY).any()


@pytest.mark.slow
def test_runs_without_texts_are_compared_vote_and_are_no_suite_for_a_judge(store: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"tracking_uri": store, "texts": False, "traces": "failures", "concurrency": 1, **WHERE}
    first = jrh.evaluate(talkative(), private_responses(), run_name="one", **options)
    second = jrh.evaluate(lambda shown: "yes", private_responses(), run_name="two", **options)
    assert jrh.compare([first.run_id, second.run_id], tracking_uri=store).contrasts.n_calls
    assert jrh.jury([first.run_id, second.run_id], tracking_uri=store).metrics["jury/size"] == 2
    with pytest.raises(SuiteError, match=r"logged without texts \(--no-texts\).*Give the suite that was evaluated"):
        jrh.load_suite(f"runs:/{first.run_id}/suite", tracking_uri=store)
    with pytest.raises(SuiteError, match="logged without texts"):
        jrh.evaluate(talkative(), first.suite.without_texts(), **options)


class Broken(jrh.scripted.AlwaysFirst):
    """A judge that cannot be set up, and says so with a private text."""

    def begin(self, suite: jrh.Suite) -> None:
        raise RecipeError(f"{CANARY} broke it")


@pytest.mark.slow
def test_a_sweep_without_texts_keeps_them_and_its_reasons_out(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    def judge(choice: dict[str, Any]) -> Any:
        return Broken() if choice["kind"] == "broken" else lambda _: jrh.Answer("1", rationale=CANARY)

    options: dict[str, Any] = {"tracking_uri": store, "texts": False, "experiment": "private", "max_replicates": 1}
    space = {"choices": {"kind": ["plain", "broken"]}, "judge": judge}
    space["objectives"] = {"natural/accuracy/rate": "maximize"}
    with pytest.raises(RecipeError, match="'kind' has a text"):
        jrh.sweep({**space, "choices": {"kind": [f"{CANARY} a sentence"]}}, private_pairs(), **options)
    found = jrh.sweep(space, private_pairs(), **options)
    assert len(found.front) == 1
    assert any("RecipeError (sha256:" in row["why"] for row in found.missing)
    assert f"{CANARY} broke it" in capsys.readouterr().err


def test_recorded_judgments_are_replayed_without_what_they_say(store: str, tmp_path: Path) -> None:
    rows = "id,gold,ab,ba,why,notes\n"
    rows += "".join(f"x{n},1,1,{CANARY} unclear,{CANARY} because,{CANARY} notes\n" for n in range(4))
    (tmp_path / "judged.csv").write_text(rows, encoding="utf-8")
    mapping = ["--map", "item=id", "--map", "better=gold", "--map", "uv=ab", "--map", "vu=ba", "--map", "rationale=why"]
    command = ["replay", str(tmp_path / "judged.csv"), *mapping, "--no-texts", "--tracking-uri", store]
    done = CliRunner().invoke(group, [*command, "--experiment", "private", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (facts,) = json.loads(done.stdout)
    assert facts["metrics"]["calls/total"] == 8
    own = pd.DataFrame([asdict(call) for call in asked(jrh.scripted.AlwaysFirst(), private_pairs())])
    own.assign(remark=f"{CANARY} remark", rationale=CANARY).to_parquet(tmp_path / "own.parquet")
    (again,) = replay_each(tmp_path / "own.parquet", tracking_uri=store, experiment="private", texts=False)
    assert "remark" not in again.calls


def test_what_waits_for_mlflow_on_disk_has_no_texts_either_and_is_logged_without(
    store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JRH_HOME", str(tmp_path / "home"))

    def refuse(*_: Any, **__: Any) -> None:
        raise TrackingError("down")

    with monkeypatch.context() as down:
        down.setattr(Store, "log_batch", refuse)
        with pytest.raises(TrackingError):
            jrh.evaluate(talkative(), private_pairs(), tracking_uri=store, texts=False, concurrency=1, **WHERE)
    (kept,) = [path.parent for path in (tmp_path / "home" / "outbox").rglob("evaluation.json")]
    for path in (path for path in kept.rglob("*") if path.is_file()):
        assert CANARY not in content_of(path), path
    done = resume(kept, tracking_uri=store)
    assert len(done.calls) == 12
    assert not kept.exists()


def test_the_same_evaluation_with_texts_waiting_is_not_logged_by_one_without(
    store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JRH_HOME", str(tmp_path / "home"))
    judge = jrh.scripted.AlwaysFirst()

    def refuse(*_: Any, **__: Any) -> None:
        raise TrackingError("down")

    with monkeypatch.context() as down:
        down.setattr("jrh_mlflow.measuring.evaluation.publish", refuse)
        with pytest.raises(TrackingError):
            jrh.evaluate(judge, private_pairs(), tracking_uri=store, **WHERE)
    jrh.evaluate(judge, private_pairs(), tracking_uri=store, texts=False, traces="all", **WHERE)
    assert list((tmp_path / "home" / "outbox").rglob("evaluation.json")), "it still waits, for an evaluation with texts"


def test_the_command_line_and_recipes_have_the_option(store: str, tmp_path: Path) -> None:
    private_pairs().save(tmp_path / "suite")
    command = ["evaluate", "--judge", "scripted:AlwaysTie", "--suite", str(tmp_path / "suite"), "--no-texts"]
    done = CliRunner().invoke(
        group, [*command, "--tracking-uri", store, "--experiment", "private"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    recipe = f"judge: scripted:AlwaysTie\nsuite: {tmp_path}/suite\ntexts: false\nexperiment: private\ntraces: all\n"
    (tmp_path / "recipe.yaml").write_text(recipe, encoding="utf-8")
    command = ["evaluate", str(tmp_path / "recipe.yaml"), "--tracking-uri", store]
    assert CliRunner().invoke(group, command, catch_exceptions=False).exit_code == 0


def test_with_texts_the_same_search_finds_them(store_uri: str, tmp_path: Path) -> None:
    """The property above can fail: without the option the canary is found."""
    done = jrh.evaluate(talkative(), private_pairs(), tracking_uri=store_uri, concurrency=1, **WHERE)
    artifact(done, store_uri, "", tmp_path / "got")
    with pytest.raises(AssertionError, match=CANARY):
        assert_clean(tmp_path / "got")


def test_a_run_in_which_every_call_failed_keeps_calls_without_what_the_errors_say(store: str) -> None:
    def judge(shown: Presentation) -> str:
        raise ValueError(f"cannot judge {shown.instruction}")

    with pytest.raises(jrh.JrhError, match=CANARY):
        jrh.evaluate(judge, private_pairs(), tracking_uri=store, texts=False, traces="all", **WHERE)
