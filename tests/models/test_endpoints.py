"""Which endpoint answers a model, as the environment says, and that litellm goes there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.models import catalog
from jrh_mlflow.models.catalog import address_variables, endpoint_of, provider_names
from jrh_mlflow.models.transports.litellm import load_litellm
from jrh_mlflow.schema.requests import Request
from jrh_mlflow.sweeps.space import Space

LITELLM = Path(catalog.importlib.util.find_spec("litellm").origin).parent
READ = re.compile(
    r"(?:get_secret(?:_str)?|getenv|environ\.get)\(\s*\"([A-Z0-9_]*(?:API_BASE|BASE_URL|_ENDPOINT|_URL))\""
)
CHAT_FILES = (
    "main.py",
    "litellm_core_utils/get_llm_provider_logic.py",
    "llms/*/chat/**/*.py",
    "llms/*/common_utils.py",
)
NO_ENDPOINT_OF_A_CHAT = {
    # other endpoints than those of a chat, where a token is fetched, and a provider that litellm no longer lists
    "ANYSCALE_API_BASE",
    *("ALEPH_ALPHA_API_BASE", "NVIDIA_RIVA_API_BASE", "SONIOX_API_BASE", "TOPAZ_API_BASE", "VERTEX_API_BASE"),
    *("VLLM_API_BASE", "VOYAGE_API_BASE", "XINFERENCE_API_BASE", "INFINITY_API_BASE", "JINA_AI_API_BASE"),
    *("WATSONX_IAM_URL", "OR_SITE_URL", "VERCEL_SITE_URL", "FAL_AI_QUEUE_API_BASE", "AGENTCORE_GATEWAY_URL"),
}


@pytest.fixture(autouse=True)
def _no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in all_variables():
        monkeypatch.delenv(name, raising=False)


def all_variables() -> set[str]:
    return {name for provider in provider_names() for name in address_variables(provider)}


def test_every_variable_that_litellm_reads_for_a_chat_is_known() -> None:
    files = {file for pattern in CHAT_FILES for file in LITELLM.glob(pattern)}
    found = {name for file in files for name in READ.findall(file.read_text(encoding="utf-8"))}
    assert len(found) > 80
    assert found - all_variables() - NO_ENDPOINT_OF_A_CHAT == set()


def test_the_providers_of_litellms_own_lists_have_the_variables_written_there() -> None:
    listed = json.loads((LITELLM / "llms/openai_like/providers.json").read_text(encoding="utf-8"))
    pairs = {(name, entry["api_base_env"]) for name, entry in listed.items() if "api_base_env" in entry}
    logic = (LITELLM / "litellm_core_utils/get_llm_provider_logic.py").read_text(encoding="utf-8")
    for branch in re.split(r"\n    (?:el)?if ", logic):
        named = re.match(r"custom_llm_provider == \"([^\"]+)\"", branch)
        pairs |= {(named[1], variable) for variable in READ.findall(branch)} if named else set()
    assert len(pairs) > 30
    others = {"nvidia_riva", "soniox"}
    assert {pair for pair in pairs if pair[1] not in address_variables(pair[0]) and pair[0] not in others} == set()


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A server that takes note of the first part of every path."""
    heard: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            heard.append(self.path.split("/")[1])
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = answer  # noqa: N815 - as the base class calls them

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, heard
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    known = socket.getaddrinfo

    def only_here(host: Any, *arguments: Any, **named: Any) -> Any:
        if host not in ("127.0.0.1", b"127.0.0.1"):
            raise socket.gaierror(f"{host} is not asked here")
        return known(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", only_here)


ASKED = {
    **{"azure": "azure/gpt-4o", "azure_ai": "azure_ai/x", "anthropic": "anthropic/claude-3-5-haiku-latest"},
    **{"ollama": "ollama/x", "ollama_chat": "ollama_chat/x", "gemini": "gemini/gemini-2.0-flash", "groq": "groq/x"},
    **{"mistral": "mistral/x", "openrouter": "openrouter/a/x", "together_ai": "together_ai/x", "xai": "xai/x"},
    **{"fireworks_ai": "fireworks_ai/x", "deepseek": "deepseek/x", "cohere_chat": "cohere_chat/command-r"},
    **{
        "watsonx": "watsonx/x",
        "lm_studio": "lm_studio/x",
        "litellm_proxy": "litellm_proxy/x",
        "databricks": "databricks/x",
    },
    **{"bedrock": "bedrock/anthropic.claude-3-haiku-20240307-v1:0", "openai": "gpt-4o-mini", "nebius": "nebius/x"},
}


@pytest.mark.parametrize("provider", ASKED)
def test_litellm_goes_where_the_identity_says(
    provider: str, listener: tuple[int, list[str]], no_internet: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every variable there is names an address of its own; the one that litellm takes must be one of the provider's."""
    port, heard = listener
    for name in all_variables():
        if name.endswith(("_BASE", "_URL", "_ENDPOINT")):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}/{name}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "WATSONX_TOKEN", "WATSONX_PROJECT_ID"):
        monkeypatch.setenv(name, "unused")
    monkeypatch.setenv("AWS_REGION_NAME", "eu-central-1")
    litellm, model = load_litellm(), ASKED[provider]
    fields = {"api_key": "unused"} if provider != "bedrock" else {}
    request = litellm.acompletion(
        model=model, messages=[{"role": "user", "content": "?"}], max_retries=0, num_retries=0, timeout=20, **fields
    )
    with pytest.raises(Exception):  # noqa: B017, PT011 - the listener has no answers; litellm words that in many ways
        asyncio.run(request)
    assert heard
    assert heard[0] in address_variables(provider)
    assert f"127.0.0.1:{port}/{heard[0]}" in str(endpoint_of(model))


def test_without_a_variable_nothing_is_said_and_keys_stay_what_they_were() -> None:
    for model in ("openai/gpt-4o-mini", "hosted_vllm/x", "anthropic/x", "gpt-4o-mini", "Qwen/Qwen2.5-7B-Instruct"):
        assert endpoint_of(model) is None
    request = Request(model="anthropic/x", messages=({"role": "user", "content": "?"},))
    assert "endpoint" not in json.loads(request.canonical())
    assert json.loads(request.canonical())["api_base"] is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("http://gpu:8000/v1", "http://gpu:8000/v1"),
        ("HTTP://GPU:8000/v1/", "http://gpu:8000/v1"),
        ("http://gpu:80/v1", "http://gpu/v1"),
        ("https://gpu:443/v1//", "https://gpu/v1"),
        ("https://gpu:80/v1", "https://gpu:80/v1"),
        (" http://[::1]:8000/v1 ", "http://[::1]:8000/v1"),
        ("http://me:planted-secret@gpu/v1", "http://gpu/v1"),
        ("me:planted-secret@gpu:8000", "OLLAMA_API_BASE=gpu:8000"),
    ],
)
def test_one_address_is_told_in_one_way_and_without_its_password(
    value: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_BASE", value)
    assert endpoint_of("ollama_chat/x") == told


def test_keys_in_an_address_are_told_apart_but_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setenv("GATEWAY_TOKEN", "planted-in-the-path")
    for value in ("http://gpu/v1?key=planted-secret", "http://gpu/v1?key=another", "http://gpu/planted-in-the-path/v1"):
        monkeypatch.setenv("OLLAMA_API_BASE", value)
        told.append(str(endpoint_of("ollama/x")))
    assert len(set(told)) == 3
    assert not any("planted" in one or "another" in one for one in told)


def test_regions_and_projects_count_where_they_decide_who_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION_NAME", "eu-central-1")
    monkeypatch.setenv("VERTEXAI_PROJECT", "mine")
    assert endpoint_of("bedrock/anthropic.claude-3-haiku-20240307-v1:0") == "AWS_REGION_NAME=eu-central-1"
    assert endpoint_of("vertex_ai/gemini-2.0-flash") == "VERTEXAI_PROJECT=mine"
    assert endpoint_of("anthropic/x") is None


def test_a_bare_name_is_asked_at_its_providers_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://gpu/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://other/v1")
    assert endpoint_of("gpt-4o-mini") == "http://gpu/v1"
    table = json.loads((LITELLM / "model_prices_and_context_window_backup.json").read_text(encoding="utf-8"))
    claude = next(name for name, entry in table.items() if entry.get("litellm_provider") == "anthropic")
    assert endpoint_of(claude) == "http://other/v1"


def test_what_a_program_sets_in_litellm_counts_where_litellm_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(api_base="http://gpu/v1", vertex_project="mine"))
    assert endpoint_of("groq/x") == "http://gpu/v1"
    assert endpoint_of("vertex_ai/x") == "litellm.vertex_project=mine http://gpu/v1"
    assert endpoint_of("openai/x") is None
    monkeypatch.setenv("USE_LITELLM_PROXY", "true")
    monkeypatch.setenv("LITELLM_PROXY_API_BASE", "http://proxy")
    assert endpoint_of("groq/x") == "http://gpu/v1 http://proxy"


def test_a_model_on_this_machine_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_API_BASE", "http://gpu/v1")
    assert endpoint_of("local/smollm2") is None


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("hosted_vllm/x", "HOSTED_VLLM_API_BASE"),
        ("openai/x", "OPENAI_BASE_URL"),
        ("azure/x", "AZURE_API_BASE"),
        ("anthropic/x", "ANTHROPIC_BASE_URL"),
        ("ollama_chat/x", "OLLAMA_API_BASE"),
        ("bedrock/x", "AWS_REGION"),
    ],
)
def test_judges_generators_and_spaces_are_known_by_their_endpoint(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identities() -> tuple[str, ...]:
        judge, writer = jrh.PromptedJudge(model), Generator(model)
        messages = ({"role": "user", "content": "?"},)
        return (
            judge.fingerprint(),
            judge.request_with(messages, schema=None).key(0),
            writer.request("?", temperature=None).key(0),
            json.dumps(writer.settings()),
            Space(models=[model, "openai/other"] if model != "openai/x" else [model]).sha256,
        )

    seen = [identities()]
    for place in ("http://one.example/v1", "http://two.example/v1"):
        monkeypatch.setenv(variable, place)
        seen.append(identities())
        assert "example" in str(jrh.PromptedJudge(model).settings()["api_base"])
    assert all(len(set(each)) == 3 for each in zip(*seen, strict=True))


def test_an_address_is_one_endpoint_whether_given_or_set(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = ({"role": "user", "content": "?"},)
    for model, variable in (("hosted_vllm/x", "HOSTED_VLLM_API_BASE"), ("ollama_chat/x", "OLLAMA_API_BASE")):
        given = jrh.PromptedJudge(model, api_base="http://gpu:8000/v1", structured=False)
        monkeypatch.setenv(variable, "http://gpu:8000/v1")
        found = jrh.PromptedJudge(model, structured=False)
        assert given.fingerprint() == found.fingerprint()
        assert given.request_with(messages, schema=None).key(0) == found.request_with(messages, schema=None).key(0)


def test_a_judge_made_before_the_variable_was_set_is_known_by_it_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = jrh.PromptedJudge("ollama_chat/x")
    before = judge.fingerprint()
    monkeypatch.setenv("OLLAMA_API_BASE", "http://gpu")
    assert judge.fingerprint() != before
    assert os.environ["OLLAMA_API_BASE"] in judge.request_with((), schema=None).canonical()
