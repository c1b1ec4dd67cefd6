"""Against a writer that misbehaves in every way: what a validator keeps out, and what is sent back without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.generation.generate import GenerationRun
from jrh_mlflow.generation.report import generation_page
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.perturb import Rewrite
from jrh_mlflow.perturb.registry import TESTS, register
from jrh_mlflow.perturb.unwrapping import foreign_line
from tests.generation import agent_tools
from tests.generation.tools import CHECKER, rows, run
from tests.loopback import LoopbackServer
from tests.misbehaving_writer import MisbehavingWriter, leaks, main
from tests.perturb.misbehaving import PAIRS, WAYS

REWRITES = ["label_flip", "semantic_paraphrase", "verbosity_bias_long", "verbosity_bias_short", "rubric_paraphrase"]
SHAPES = [
    {"id": name, "instruction": "Answer the question.", "response": pair.original, "label": "pass"}
    for name, pair in PAIRS.items()
]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def made(writer: MisbehavingWriter, dataset: object, **options: Any) -> GenerationRun:
    with LoopbackServer(reply=writer) as server:
        return run(dataset, server, None, max_tokens=9_000, **options)


def test_with_a_validator_no_wrapped_text_reaches_a_suite() -> None:
    writer = MisbehavingWriter(share=0.8)
    done = made(writer, SHAPES + rows(6), tests=REWRITES)
    written = [item for item in done.suite.items if item.meta.get("prompt_sha256")]
    assert len(written) > 20
    assert leaks(written, writer.said) == []
    assert len({said["category"] for said in writer.said}) == len({way.category for way in WAYS}) + 1
    assert done.made.total("validator_rejected") > 50
    assert done.made.total("sent_back") == 0
    unwrapped = [item for item in written if item.meta.get("unwrapped")]
    assert done.made.total("unwrapped") == len(unwrapped) > 0


def test_without_a_validator_what_is_foreign_in_form_is_sent_back_once_and_reported() -> None:
    writer = MisbehavingWriter(share=0.8)
    done = made(writer, SHAPES + rows(6), tests=REWRITES, validator="none")
    originals = {item.task: item.response or "" for item in done.suite.items if item.condition == "baseline"}
    n_doubted = 0
    for item in done.suite.items:
        if item.meta.get("prompt_sha256") and item.meta["test"] != "rubric_paraphrase":
            foreign = foreign_line(item.response or "", originals[item.task])
            assert item.meta.get("doubted") == foreign
            n_doubted += foreign is not None
    assert 0 < n_doubted <= done.made.total("doubted") < done.made.total("sent_back")
    report = generation_page(done.suite, done.made, writer="f").to_markdown()
    assert f"Sent back once: {done.made.total('sent_back')} texts" in report
    assert done.suite.origin["tests"]["semantic_paraphrase"]["sent_back"] > 0


def test_a_text_that_is_sent_back_is_asked_for_with_the_reason() -> None:
    briefs: list[str] = []

    def writer(brief: str, temperature: float | None) -> str:
        briefs.append(brief)
        text = PAIRS["prose"].rewrite
        return text if len(briefs) > 1 else f"Here is the rewritten text:\n\n{text}"

    done = run([SHAPES[0]], None, None, generator=writer, tests="semantic_paraphrase")
    (item,) = [item for item in done.suite.items if item.condition != "baseline"]
    assert item.response == PAIRS["prose"].rewrite
    assert "doubted" not in item.meta
    assert briefs[1].startswith(briefs[0])
    assert "Answer with the text alone" in briefs[1].removeprefix(briefs[0])


def test_a_test_of_the_users_own_is_confirmed_without_asking_for_it() -> None:
    class Sober(Rewrite):
        name, title = "sober", "without any feeling"

        def template(self) -> str:
            return "Take the feeling out.\n=====BEGIN ORIGINAL=====\n{original}\n=====END ORIGINAL====="

    register(Sober())
    try:
        writer = MisbehavingWriter(share=0.5)
        done = made(writer, rows(12), tests="sober")
    finally:
        del TESTS["sober"]
    assert done.made.total("items") > 6
    assert leaks(done.suite.items, writer.said) == []


def test_a_function_that_writes_is_confirmed_as_a_model_is() -> None:
    writer = MisbehavingWriter(share=0.5)

    def function(brief: str, temperature: float | None) -> str:
        return writer({"messages": [{"content": brief}], "temperature": temperature})

    with LoopbackServer(reply=writer) as server:
        validator = PromptedJudge(CHECKER, api_base=server.url, max_tokens=64)
        options = {"generator": function, "validator": validator, "scale": (1, 3), "tests": "synthetic_ordinal"}
        done = run(rows(6, levels=("1", "3")), None, None, **options)
    assert done.made.total("items") > 5
    assert leaks(done.suite.items, writer.said) == []


def test_no_wrapper_stays_in_an_edited_message(tmp_path: Path) -> None:
    writer, log = MisbehavingWriter(share=0.5), agent_tools.booking_log(tmp_path / "log.eval", 5)
    with LoopbackServer(reply=writer) as server:
        done = agent_tools.run(log, server, None, tests="agent_perturbation", pass_required=True)
    edited = [item for item in done.suite.items if item.meta.get("prompt_sha256")]
    assert leaks(edited, writer.said) == []
    assert done.made.total("validator_rejected") + len(edited) > 0


def test_leaks_are_counted_from_a_folder_and_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "said.jsonl"
    done = made(MisbehavingWriter(log=log, share=0.5), rows(3), tests="semantic_paraphrase")
    done.suite.save(tmp_path / "suite")
    assert main(["leaks", str(tmp_path / "suite"), str(log)]) == 0
    log.write_text(log.read_text("utf-8").replace("council", "mayor"), "utf-8")
    assert main(["leaks", str(tmp_path / "suite"), str(log)]) == 1
    assert "1 leaks" in capsys.readouterr().out
