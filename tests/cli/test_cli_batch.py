"""`jrh batch` and `jrh journal`, run as a user runs them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from jrh_mlflow import PromptedJudge, datasheet_suite, evaluate
from jrh_mlflow.cli.main import main
from jrh_mlflow.cli.options import judge_arguments, judge_options, prompted_judge
from jrh_mlflow.engine import batch as engine_batch
from jrh_mlflow.engine.journal import Journal, open_journal
from tests import postgres, processes
from tests.engine.batch_tools import answered, play_provider, read, varied, write
from tests.engine.journal_tools import BACKENDS, ask, fail
from tests.loopback import LoopbackServer

KEY = "sk-planted-secret-0123456789abcdef"
MODEL = "openai/gpt-4o-mini"


@dataclass
class Done:
    code: int
    out: str
    err: str


Jrh = Callable[..., Done]


@pytest.fixture(name="jrh")
def _jrh(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Jrh:
    """Run the command line in this process: the entry point, its exit codes and what it prints."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["jrh", *map(str, arguments)])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        shown = capsys.readouterr()
        assert isinstance(code, int)
        return Done(code, shown.out, shown.err)

    return run


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return datasheet_suite(n_tasks=1, depth=2).save(tmp_path / "suite")


@pytest.fixture(autouse=True)
def _planted_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def filled(path: Path) -> Path:
    async def fill(journal: Journal) -> None:
        await ask(journal, "a", cost=1_500_000)
        await ask(journal, "b", cost=0)
        await fail(journal, "c", cost=2)

    with open_journal(path) as journal:
        asyncio.run(fill(journal))
    return path


def test_a_batch_goes_out_and_comes_back_and_a_run_asks_nothing_more(
    jrh: Jrh, suite: Path, tmp_path: Path, store_uri: str
) -> None:
    with LoopbackServer(reply=varied) as server:
        judge = ("--model", MODEL, "--api-base", server.url, "--criterion", "strict", "--judge-seed", 7)
        judge = (*judge, "--max-tokens", 64, "--temperature", 0.5, "--extra", "top_p=0.9", "--rubric", "Be fair.")
        out = jrh("batch", "export", *judge, "--suite", suite, "--replicates", 2, "-o", "requests.jsonl", "--json")
        assert out.code == 0, out.err
        exported = json.loads(out.out)
        assert exported["files"] == ["requests.jsonl"]
        lines = read(tmp_path / "requests.jsonl")
        assert exported["requests"] == exported["calls"] == len(lines)
        settings = {"temperature": 0.5, "max_tokens": 64, "seed": 7, "top_p": 0.9, "model": "gpt-4o-mini"}
        assert settings.items() <= lines[0]["body"].items()
        assert "Be fair." in lines[0]["body"]["messages"][-1]["content"]
        write(tmp_path / "results.jsonl", play_provider(lines, server))
        back = jrh("batch", "import", "requests.jsonl", "results.jsonl", *judge, "--discount", 0.5, "--json")
        assert back.code == 0, back.err
        assert json.loads(back.out)["answered"] == len(lines)
        server.counts.clear()
        options = {"temperature": 0.5, "max_tokens": 64, "seed": 7, "extra": {"top_p": 0.9}, "rubric": "Be fair."}
        same = PromptedJudge(MODEL, api_base=server.url, tie_criterion="strict", **options)
        run = evaluate(same, suite, replicates=2, tracking_uri=store_uri, experiment="tests")
        assert server.counts["requests"] == 0
    assert run.metrics["calls/cached"] == len(lines)
    shown = json.loads(jrh("journal", "show", "--json").out)
    assert shown["answered"] == len(lines)
    assert shown["spent_usd"] == json.loads(back.out)["cost_usd"] == pytest.approx(run.cost_usd, rel=0.01)


def test_no_key_is_in_anything_that_is_written_or_printed(jrh: Jrh, suite: Path, tmp_path: Path) -> None:
    shown = jrh("batch", "export", "--model", MODEL, "--suite", suite, "-o", "r.jsonl")
    first = read(tmp_path / "r.jsonl")[0]["custom_id"]
    body = {"error": {"message": f"Incorrect API key provided: {KEY}."}}
    write(tmp_path / "o.jsonl", [answered(first, response={"status_code": 401, "body": body}), answered(KEY)])
    back = jrh("batch", "import", "r.jsonl", "o.jsonl", "--model", MODEL)
    assert "1 requests failed" in back.out
    assert "[key]" in back.err
    refused = jrh("batch", "export", "--model", MODEL, "--extra", f'api_key="{KEY}"', "-o", "x.jsonl")
    garbled = jrh("batch", "export", "--model", MODEL, "--extra", f"api_key={KEY}", "-o", "x.jsonl")
    assert refused.code == garbled.code == 2
    for text in (shown.out, shown.err, back.out, back.err, refused.err, garbled.err):
        assert KEY not in text
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or file.name == "o.jsonl" or KEY.encode() not in file.read_bytes(), file


def test_what_is_wrong_with_results_is_said_and_the_rest_is_kept(jrh: Jrh, suite: Path, tmp_path: Path) -> None:
    jrh("batch", "export", "--model", MODEL, "--suite", suite, "-o", "r.jsonl")
    keys = [line["custom_id"] for line in read(tmp_path / "r.jsonl")]
    file = write(tmp_path / "o.jsonl", [answered(keys[0]), *(answered(f"id-{n}") for n in range(7))])
    file.write_bytes(file.read_bytes() + json.dumps(answered(keys[1])).encode()[:-9])
    done = jrh("batch", "import", "r.jsonl", "o.jsonl", "--model", MODEL)
    assert done.code == 0
    assert "1 answers are now in the journal" in done.out
    assert f"{len(keys) - 1} requests have no result" in done.out
    assert "booked: $" in done.out
    assert "note: 7 ids that no exported request has: id-0; id-1; id-2; id-3; id-4 and 2 more" in done.err
    assert "cut short: fetch the file again: o.jsonl, line 9" in done.err
    again = jrh("batch", "export", "--model", MODEL, "--suite", suite, "-o", "rest.jsonl")
    assert f"1 of {len(keys)} calls are answered in the journal." in again.out


def test_parts_are_listed_and_nothing_missing_writes_no_file(
    jrh: Jrh, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_batch, "export_batch", partial(engine_batch.export_batch, max_requests=10))
    arguments = ("batch", "export", "--model", MODEL, "--suite", suite)
    done = jrh(*arguments, "-o", "r.jsonl")
    files = sorted(tmp_path.glob("r-*.jsonl"))
    assert [line.strip() for line in done.out.splitlines()[1:]] == [file.name for file in files]
    write(tmp_path / "o.jsonl", [answered(line["custom_id"]) for line in read(*files)])
    jrh("batch", "import", "r.jsonl", "o.jsonl", "--model", MODEL)
    nothing = jrh(*arguments, "-o", "rest.jsonl")
    assert "Nothing is missing, so no file was written." in nothing.out
    assert not (tmp_path / "rest.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("batch", "export", "-o", "r.jsonl"), "Give --model"),
        (("batch", "export", "--model", MODEL), "Missing option"),
        (("batch", "export", "--model", "anthropic/claude-3-haiku-20240307", "-o", "r"), "OpenAI dialect"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--suite", "datashet"), "Did you mean 'datasheet'"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--criterion", "strickt"), "Did you mean 'strict'"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--prompt", "pairwize"), "Did you mean 'pairwise'"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--answer-style", "roman"), "letters"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--temperature", "-1"), "temperature >= 0"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--temperature", "hot"), "--temperature"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--extra", "top_p"), "KEY=JSON"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--extra", "a=1", "--extra", "a=2"), "twice"),
        (("batch", "export", "--model", MODEL, "-o", "r", "--rubric", "@nowhere.txt"), "nowhere.txt cannot be read"),
        (("batch", "import", "r.jsonl", "o.jsonl", "--model", MODEL), "There is no file r.jsonl"),
        (("batch", "import", "r.jsonl", "--model", MODEL), "those with its results"),
        (("batch", "import", "r", "o", "--model", MODEL, "--price", "cheap"), "--price takes IN,OUT"),
        (("batch", "import", "r", "o", "--model", MODEL, "--discount", "2"), "between 0 and 1"),
        (("journal", "show"), "There is no journal"),
        (("journal", "show", "--journal", "nowhere.db"), "There is no journal nowhere.db"),
        (
            ("journal", "show", "--journal", f"postgresql://me:{KEY}@127.0.0.1:1/db"),
            "No connection to postgresql://me@127.0.0.1:1/db",
        ),
        (("journal", "prune"), "--older-than DAYS, --failed, or both"),
        (("journal", "prune", "--older-than", "nan"), "0 or more"),
    ],
)
def test_bad_input_is_said_clearly_with_exit_code_2(jrh: Jrh, arguments: tuple[str, ...], text: str) -> None:
    done = jrh(*arguments)
    assert done.code == 2, done
    assert text in done.err
    assert KEY not in done.err
    assert "Traceback" not in done.err


def test_a_rubric_comes_from_a_file_and_none_leaves_settings_to_the_provider(
    jrh: Jrh, suite: Path, tmp_path: Path
) -> None:
    (tmp_path / "rubric.txt").write_text("Only facts count.", encoding="utf-8")
    judge = ("--model", "openai/gpt-5-mini", "--temperature", "none", "--max-tokens", "none", "--no-structured")
    jrh("batch", "export", *judge, "--rubric", "@rubric.txt", "--suite", suite, "-o", "r.jsonl")
    body = read(tmp_path / "r.jsonl")[0]["body"]
    assert body.keys() == {"model", "messages"}
    assert "Only facts count." in body["messages"][-1]["content"]


def test_the_options_defaults_are_the_judges_own() -> None:
    made = []
    command = click.command()(judge_options(lambda **given: made.append(prompted_judge(judge_arguments(given)))))
    command(["--model", MODEL], standalone_mode=False)
    assert made[0].fingerprint() == PromptedJudge(MODEL).fingerprint()
    assert (made[0].name, made[0].rubric) == (PromptedJudge(MODEL).name, None)


def test_journal_shows_what_it_holds(jrh: Jrh, tmp_path: Path) -> None:
    path = filled(tmp_path / "my.db")
    facts = json.loads(jrh("journal", "show", "--journal", path, "--json").out)
    size = facts.pop("size_bytes")
    assert size >= 4096
    assert facts == {
        "path": str(path),
        "answered": 2,
        "hits": 0,
        "failed": 1,
        "in_flight": 0,
        "lost": 0,
        "spent_usd": 1.500002,
    }
    shown = jrh("journal", "show", "--journal", path)
    assert "$1.500002" in shown.out
    assert [line.split()[-1] for line in shown.out.splitlines() if line.startswith("answered")] == ["2"]


def test_a_journal_on_a_server_is_shown_and_pruned_without_its_password(jrh: Jrh, tmp_path: Path) -> None:
    address = BACKENDS["postgres"].make(tmp_path)
    with open_journal(address) as journal:
        asyncio.run(ask(journal, "a"))
        asyncio.run(fail(journal, "b"))
    facts = json.loads(jrh("journal", "show", "--journal", address, "--json").out)
    assert (facts["answered"], facts["failed"], facts["spent_usd"]) == (1, 1, 0.000005)
    assert facts["path"].startswith("postgresql://jrh@/")
    shown = jrh("journal", "prune", "--journal", address, "--failed", "--yes")
    assert facts["path"] in shown.out
    assert json.loads(jrh("journal", "show", "--journal", address, "--json").out)["failed"] == 0
    for text in (json.dumps(facts), shown.out, shown.err):
        assert postgres.PASSWORD not in text
        assert postgres.ESCAPED not in text


def test_pruning_needs_a_yes_and_keeps_what_was_spent(jrh: Jrh, tmp_path: Path) -> None:
    path = filled(tmp_path / "my.db")
    command = (processes.JRH, "journal", "prune", "--journal", path, "--older-than", 0)
    asked = processes.run(*command, typed="n\n", check=True)
    assert "paid answers too, older than 0 days" in asked.stderr
    assert "Nothing was deleted." in asked.stderr
    failed = json.loads(jrh("journal", "prune", "--journal", path, "--failed", "--yes", "--json").out)
    assert (failed["removed"], failed["failed"], failed["answered"]) == (1, 0, 2)
    young = json.loads(jrh("journal", "prune", "--journal", path, "--older-than", 1, "--yes", "--json").out)
    assert young["removed"] == 0
    rest = jrh("journal", "prune", "--journal", path, "--older-than", 0, "--yes")
    assert "$1.500002" in rest.out
    assert json.loads(jrh("journal", "show", "--journal", path, "--json").out)["answered"] == 0


def test_a_file_that_is_no_journal_is_left_alone(jrh: Jrh, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my notes\n" * 1000)
    done = jrh("journal", "show", "--journal", "notes.txt")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert (tmp_path / "notes.txt").read_text() == "my notes\n" * 1000


def test_help_of_batch_and_journal_loads_no_heavy_library(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom jrh_mlflow.cli.main import group\n"
        "for words in (['batch', 'export', '--help'], ['batch', 'import', '--help'], ['journal', '--help']):\n"
        "    try:\n        group(words, standalone_mode=False)\n    except SystemExit:\n        pass\n"
        "print([name for name in ('mlflow', 'litellm', 'pandas', 'scipy', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert done.stdout.count("Example: jrh") == 3


def test_a_bill_has_a_line_for_each_day_and_model(jrh: Jrh, tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    answer = {"text": "A", "finish_reason": "stop", "input_tokens": 7, "output_tokens": 2}

    async def pay(book: Journal) -> None:
        for key, model in (("a", "openai/gpt-4o-mini"), ("b", "openai/gpt-4o-mini"), ("c", "openai/gpt-4o")):
            request = json.dumps({"model": model})
            await book.answered(key, request_json=request, response_json=json.dumps(answer), cost_micro=5, budget=None)
        cut: dict[str, Any] = {"reason": "attempt 1: cut", "response_json": None, "cost_micro": 9, "budget": None}
        await book.failed("d", request_json=request, **cut)

    with open_journal(path) as book:
        asyncio.run(pay(book))
    lines = json.loads(jrh("journal", "bill", "--journal", path, "--json").out)
    found = {line["model"]: (line["calls"], line["input_tokens"], line["usd"], line["unknown"]) for line in lines}
    assert found == {"openai/gpt-4o-mini": (2, 14, 1e-05, 0), "openai/gpt-4o": (2, 7, 5e-06, 1)}
    (line,) = json.loads(jrh("journal", "bill", "--journal", path, "--model", "gpt-4o", "--json").out)
    assert line["worst_case_usd"] == 9e-06
    assert json.loads(jrh("journal", "bill", "--journal", path, "--since", "2126-01-01", "--json").out) == []
    assert "openai/gpt-4o-mini" in jrh("journal", "bill", "--journal", path).out
