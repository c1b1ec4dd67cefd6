"""`jrh evaluate --model`: real HTTP, exit codes, dry runs, keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites import datasheet_suite
from tests.cli.conftest import Jrh
from tests.loopback import LoopbackServer

KEY = "sk-planted-secret-0123456789abcdef"


@pytest.fixture
def suite(jrh: Jrh) -> str:
    datasheet_suite(n_tasks=2, depth=2, design="paper").save("small")
    return "small"


def test_a_model_is_priced_then_measured_then_served_from_the_journal(
    jrh: Jrh, store_uri: str, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer(record=True, key=KEY) as server:
        judge = ("--model", "openai/gpt-4o-mini", "--api-base", server.url, "--suite", suite)
        sampling = ("--temperature", "0.3", "--max-tokens", "50", "--judge-seed", "9", "--extra", "top_p=0.5")
        where = ("--tracking-uri", store_uri, "--experiment", "tests", "--json")
        quoted = jrh("evaluate", *judge, *sampling, "--dry-run", "--json")
        assert json.loads(quoted.out)["calls"] == 64
        assert server.counts["requests"] == 0
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        done = jrh("evaluate", *judge, *sampling, *where, "--max-usd", "5")
        assert done.code == 0, done.err
        (facts,) = json.loads(done.out)
        assert facts["metrics"]["calls/verdict"] == 64
        assert facts["cost_usd"] > 0
        body = server.requests[0]["body"]
        assert (body["temperature"], body["max_tokens"], body["seed"], body["top_p"]) == (0.3, 50, 9, 0.5)
        again = jrh("evaluate", *judge, *sampling, *where)
        assert json.loads(again.out)[0]["metrics"]["calls/cached"] == 64
        assert server.counts["requests"] == 64
        shown = jrh("journal", "show", "--json")
        assert (json.loads(shown.out)["answered"], json.loads(shown.out)["hits"]) == (64, 64)
    for output in (quoted, done, again, shown):
        assert KEY not in output.out + output.err


def test_the_cap_ends_with_exit_code_3_and_says_how_to_continue(jrh: Jrh, store_uri: str, suite: str) -> None:
    with LoopbackServer() as server:
        judge = ("--model", "openai/mine", "--api-base", server.url, "--suite", suite, "--max-tokens", "50")
        where = ("--tracking-uri", store_uri, "--experiment", "tests")
        done = jrh("evaluate", *judge, *where, "--price", "1000,1000", "--max-usd", "25")
    assert done.code == 3, done.err
    assert "truncated (budget: " in done.err
    assert "Raise --max-usd" in done.err


def test_a_recipe_runs_with_options_on_top(jrh: Jrh, store_uri: str, suite: str) -> None:
    with LoopbackServer(record=True) as server:
        text = f"judge:\n  model: openai/mine\n  api_base: {server.url}\nsuite: {suite}\nexperiment: tests\n"
        Path("r.yaml").write_text(text, encoding="utf-8")
        done = jrh("evaluate", "r.yaml", "--replicates", "2", "--tracking-uri", store_uri, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0]["metrics"]["calls/total"] == 128


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--model", "openai/gpt-4o-mini"), 4, "set OPENAI_API_KEY"),
        (("--model", "openai/mine", "--api-base", "http://127.0.0.1:9/v1", "--max-usd", "1"), 2, "openai/mine=IN,OUT"),
        (("--model", "openai/gpt-4o-mini", "--max-usd", "0"), 2, "'--max-usd': 0.0 is not"),
        (("--model", "openai/gpt-4o-mini", "--max-usd", "nan"), 2, "positive amount"),
        (("--model", "openai/gpt-4o-mini", "--prompt", "pairwize"), 2, "Did you mean 'pairwise'"),
        (("--model", "openai/gpt-4o-mini", "--extra", f'api_key="{KEY}"'), 2, "holds a secret"),
        (("--model", "openai/gpt-4o-mini", "--traces", "failure"), 2, "Did you mean 'failures'"),
        (("--model", "openai/gpt-4o-mini", "--judge", "scripted:Oracle"), 2, "Give one of"),
        (("nowhere.yaml",), 2, "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_an_exit_code(
    arguments: tuple[str, ...],
    code: int,
    text: str,
    jrh: Jrh,
    store_uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    done = jrh("evaluate", *arguments, "--tracking-uri", store_uri, "--experiment", "tests")
    assert done.code == code, done.err
    assert text in done.err
    assert "Traceback" not in done.err
    assert KEY not in done.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--traces", "fail"), "Unknown traces 'fail'"),
        (("--backend", "rey"), "Unknown backend 'rey'"),
        (("--fresh-after", "soon"), "`fresh_after` must be a date"),
        (("--max-usd", "nan"), "positive amount"),
        (("--concurrency", "0"), "--concurrency"),
        (("--criterion", "strickt"), "Did you mean 'strict'"),
    ],
)
def test_a_dry_run_refuses_what_the_run_would_refuse(arguments: tuple[str, ...], text: str) -> None:
    ended = CliRunner().invoke(group, ["evaluate", "--model", "openai/gpt-4o-mini", "--dry-run", *arguments])
    assert ended.exit_code != 0
    assert text in f"{ended.output} {ended.exception}"


def test_a_dry_run_refuses_a_cap_that_the_run_would_refuse() -> None:
    own = ["--model", "openai/mine", "--api-base", "http://127.0.0.1:9/v1", "--max-usd", "1"]
    ended = CliRunner().invoke(group, ["evaluate", *own, "--dry-run"])
    assert isinstance(ended.exception, RecipeError)
    assert "--price openai/mine=IN,OUT" in str(ended.exception)


def test_a_price_takes_the_arguments_of_evaluate_and_no_others() -> None:
    from jrh_mlflow.measuring.evaluate import price_evaluation

    assert price_evaluation("openai/gpt-4o-mini", "datasheet-short", seed=3, tags={"a": "b"}, timeout_s=3).calls == 128
    with pytest.raises(TypeError, match="'sead'"):
        price_evaluation("openai/gpt-4o-mini", "datasheet-short", sead=3)
