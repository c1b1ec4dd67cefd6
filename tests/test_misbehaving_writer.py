"""Against a writer that misbehaves in every way, no item holds anything but an honest text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.generation.generate import GenerationRun
from jrh_mlflow.perturb import Rewrite
from jrh_mlflow.perturb.registry import TESTS, register
from jrh_mlflow.perturb.rewording import reworded
from tests.generation import agent_tools
from tests.generation.tools import rows, run
from tests.loopback import LoopbackServer
from tests.misbehaving_writer import MisbehavingWriter, leaks, main
from tests.perturb.misbehaving import PAIRS, WAYS

REWRITES = ["label_flip", "semantic_paraphrase", "verbosity_bias_long", "verbosity_bias_short", "rubric_paraphrase"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def made(writer: MisbehavingWriter, store_uri: str, dataset: object, **options: Any) -> GenerationRun:
    with LoopbackServer(reply=writer) as server:
        return run(dataset, server, store_uri, validator="none", max_tokens=9_000, **options)


def test_nothing_of_what_a_writer_wraps_around_its_texts_reaches_an_item(store_uri: str) -> None:
    shapes = [
        {"id": name, "instruction": "Answer the question.", "response": pair.original, "label": "pass"}
        for name, pair in PAIRS.items()
        if name != "json"  # the rules are no rewriters of JSON
    ]
    writer = MisbehavingWriter(share=1.0)
    done = made(writer, store_uri, shapes + rows(6), tests=REWRITES)
    written = [item for item in done.suite.items if item.meta.get("prompt_sha256")]
    assert leaks(written, writer.said) == []
    assert len({said["category"] for said in writer.said}) == len({way.category for way in WAYS})
    unwrapped = [item for item in written if item.meta.get("unwrapped")]
    assert len(unwrapped) > 20
    assert sum(counts.unwrapped or 0 for counts in done.made.tests.values()) == len(unwrapped)
    assert done.suite.origin["tests"]["semantic_paraphrase"]["unwrapped"] > 0


def test_a_test_of_the_users_own_is_unwrapped_without_asking_for_it(store_uri: str) -> None:
    class Sober(Rewrite):
        name, title = "sober", "without any feeling"

        def template(self) -> str:
            return "Take the feeling out.\n=====BEGIN ORIGINAL=====\n{original}\n=====END ORIGINAL====="

        def write(self, target, rng):  # type: ignore[no-untyped-def]
            return reworded(target.original, rng)

    register(Sober())
    try:
        writer = MisbehavingWriter(share=1.0)
        done = made(writer, store_uri, rows(12), tests="sober")
    finally:
        del TESTS["sober"]
    assert leaks(done.suite.items, writer.said) == []
    assert any(item.meta.get("unwrapped") for item in done.suite.items)


def test_a_function_that_writes_is_unwrapped_as_a_model_is(store_uri: str) -> None:
    writer = MisbehavingWriter(share=1.0)

    def function(brief: str, temperature: float | None) -> str:
        return writer({"messages": [{"content": brief}], "temperature": temperature})

    options = {"generator": function, "validator": "none", "labels": None, "scale": (1, 3)}
    done = run(rows(6, levels=("1", "3")), None, store_uri, tests="synthetic_ordinal,verbosity_bias_long", **options)
    assert leaks(done.suite.items, writer.said) == []
    assert sum(bool(item.meta.get("unwrapped")) for item in done.suite.items) > 5


def test_no_wrapper_stays_in_an_edited_message(store_uri: str, tmp_path: Path) -> None:
    writer, log = MisbehavingWriter(share=1.0), agent_tools.booking_log(tmp_path / "log.eval", 5)
    with LoopbackServer(reply=writer) as server:
        done = agent_tools.run(log, server, store_uri, validator="none")
    edited = [item for item in done.suite.items if item.meta.get("prompt_sha256")]
    assert edited
    assert leaks(edited, writer.said) == []


def test_leaks_are_counted_from_a_folder_and_a_log(
    store_uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "said.jsonl"
    done = made(MisbehavingWriter(log=log), store_uri, rows(3), tests="semantic_paraphrase")
    done.suite.save(tmp_path / "suite")
    assert main(["leaks", str(tmp_path / "suite"), str(log)]) == 0
    log.write_text(log.read_text("utf-8").replace("council", "mayor"), "utf-8")
    assert main(["leaks", str(tmp_path / "suite"), str(log)]) == 1
    assert "1 leaks" in capsys.readouterr().out
