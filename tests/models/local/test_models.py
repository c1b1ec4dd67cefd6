"""What local models are called, where that name goes, and what stays out of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import plan_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.models.catalog import context_window
from jrh_mlflow.models.local import server
from jrh_mlflow.models.local.server import local_models, make_ready
from jrh_mlflow.models.local.weights import cache_home, file_of
from jrh_mlflow.models.prices import price_of
from jrh_mlflow.models.transports import pick_transport
from jrh_mlflow.schema.requests import Request
from tests import processes
from tests.models.local.tools import MODEL, pairs

SHORT_SHA256 = "d372997060e12e4438f26ce6bf875f05edab2244c1e13e1355f19d46380034cc"


def first_request(judge: jrh.PromptedJudge) -> Request:
    return judge.request(next(iter(plan_calls(pairs(1), judge, replicates=1))))


def test_a_request_names_the_model_and_no_address() -> None:
    request = first_request(jrh.PromptedJudge(MODEL))
    assert (request.model, request.api_base) == (MODEL, None)
    assert request.response_schema is not None
    assert pick_transport(request.model, None) == "direct"


def test_a_file_is_named_by_what_is_in_it_wherever_it_lies(tmp_path: Path) -> None:
    paths = [tmp_path / "one.gguf", tmp_path / "other.gguf", tmp_path / "changed.gguf"]
    for path, text in zip(paths, ("same", "same", "else"), strict=True):
        path.write_text(text)
    judges = [jrh.PromptedJudge(f"local/{path}") for path in paths]
    keys = [first_request(judge).key(0) for judge in judges]
    assert keys[0] == keys[1] != keys[2]
    files, digests = zip(*(judge.name.rsplit("-", 1) for judge in judges), strict=True)
    assert files == ("local/one.gguf", "local/other.gguf", "local/changed.gguf")
    assert digests[0] == digests[1] != digests[2], "files that differ have names that differ"
    assert str(tmp_path) not in first_request(judges[0]).canonical() + str(judges[0].settings())
    assert file_of(judges[2].model) == paths[2]
    assert Generator(f"local/{paths[0]}").model == judges[0].model


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("local/smollm", "Did you mean 'smollm2'"),
        ("local/nowhere.gguf", "there is no file nowhere.gguf"),
        ("local/", "Unknown local model ''"),
    ],
)
def test_a_name_without_a_model_is_refused_at_once(model: str, text: str) -> None:
    for make in (jrh.PromptedJudge, Generator):
        with pytest.raises(RecipeError, match=text):
            make(model)


def test_an_address_of_ones_own_is_refused_and_the_other_spelling_told() -> None:
    with pytest.raises(RecipeError, match=r"openai/local/smollm2"):
        jrh.PromptedJudge(MODEL, api_base="http://localhost:8000/v1")


def test_the_price_is_zero_as_a_fact_unless_the_user_says_otherwise() -> None:
    price = price_of(MODEL)
    assert price is not None
    assert price.rates(10**6) == (0.0, 0.0)
    own = price_of(MODEL, {MODEL: (1.0, 2.0)})
    assert own is not None
    assert own.input_usd == pytest.approx(1e-6)


def test_settings_come_from_the_environment_and_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert context_window(MODEL) == 4096
    monkeypatch.setenv("JRH_LOCAL_CONTEXT", "8192")
    assert context_window(MODEL) == 8192
    monkeypatch.setenv("JRH_LOCAL_CONTEXT", "many")
    with pytest.raises(RecipeError, match=r"JRH_LOCAL_CONTEXT must .*many"):
        context_window(MODEL)


@pytest.mark.parametrize(
    ("cores", "share", "expected"),
    [
        (2, None, 2),
        (64, None, 8),
        (64, "max 100000", 8),
        (64, "250000 100000", 2),
        (4, "50000 100000", 1),
        (2, "800000 100000", 2),
        (4, "nonsense", 4),
    ],
)
def test_a_model_uses_the_cores_it_may_use_a_containers_share_included(
    cores: int, share: str | None, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(server, "_GROUP", tmp_path)
    if share is not None:
        (tmp_path / "cpu.max").write_text(f"{share}\n", encoding="ascii")
    assert server.threads() == expected
    monkeypatch.setenv("JRH_LOCAL_THREADS", "3")
    assert server.threads() == 3


@pytest.mark.slow
def test_no_more_calls_are_in_flight_than_the_model_has_slots(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = jrh.PromptedJudge(MODEL)
    assert local_models(judge, Generator("openai/x"), None) == [MODEL]
    assert make_ready([MODEL], concurrency=32) == 1
    monkeypatch.setenv("JRH_LOCAL_SLOTS", "2")
    assert make_ready([MODEL], concurrency=32) == 2
    assert make_ready([MODEL], concurrency=1) == 1
    assert make_ready([], concurrency=32) == 32


def test_a_model_on_this_machine_is_not_sent_to_a_cluster() -> None:
    with pytest.raises(RecipeError, match=r'Use backend="local"'):
        jrh.evaluate(MODEL, pairs(1), backend="ray")


def test_the_cache_is_where_the_user_or_the_platform_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JRH_CACHE", str(tmp_path))
    assert cache_home() == tmp_path
    monkeypatch.delenv("JRH_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_home() == tmp_path / "xdg" / "jrh_mlflow"


def test_the_short_datasheet_has_every_condition_and_the_same_bytes_everywhere() -> None:
    short, whole = jrh.load_suite("datasheet-short"), jrh.load_suite("datasheet")
    assert short.manifest["conditions"].keys() == whole.manifest["conditions"].keys()
    assert (short.manifest["n_items"], short.manifest["n_calls"], short.manifest["n_tasks"]) == (64, 128, 12)
    assert short.sha256 == SHORT_SHA256


WITHOUT_EXTRA = f"""
import sys
assert "xllamacpp" not in sys.modules, "what was imported so far must do without it"
sys.modules["xllamacpp"] = None
{processes.JRH}
"""


def run_without_extra(*arguments: str) -> subprocess.CompletedProcess[str]:
    return processes.run(WITHOUT_EXTRA, *arguments)


def test_without_the_extra_the_command_says_what_to_install_and_leaves_nothing(tmp_path: Path) -> None:
    done = run_without_extra("evaluate", "--model", MODEL, "--suite", "datasheet-short")
    assert done.returncode == 2
    assert 'pip install "jrh-mlflow[local]"' in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("ml")] == []


def test_without_the_extra_nothing_else_changes(store_uri: str) -> None:
    done = run_without_extra("evaluate", "--model", MODEL, "--suite", "datasheet-short", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "128 (0 in the journal" in done.stdout
    assert "$0.0000" in done.stdout
    scripted = ("evaluate", "--judge", "scripted:AlwaysFirst", "--suite", "datasheet-short", "--traces", "none")
    done = run_without_extra(*scripted, "--tracking-uri", store_uri, "--experiment", "tests")
    assert done.returncode == 0, done.stderr


def test_the_models_are_listed_with_size_licence_and_place(tmp_path: Path) -> None:
    done = run_without_extra("model", "list")
    assert done.returncode == 0
    for text in (MODEL, "98 MB", "Apache-2.0", "SmolLM2-135M-Instruct.Q4_1.gguf"):
        assert text in done.stdout
    assert '"size_bytes": 98362432' in run_without_extra("model", "list", "--json").stdout
