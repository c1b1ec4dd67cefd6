"""Keys go where the user says: an address of a file gets none before its host is allowed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.models.transports import make_transport, what_is_missing
from jrh_mlflow.models.trust import (
    VARIABLE,
    allow_key_to,
    check_address,
    check_artifacts,
    check_kept_store,
    check_store,
    check_stores,
    forget,
    name_address,
    name_addresses,
    take_dotenv,
)
from tests.loopback import LoopbackServer
from tests.models.transport_tools import KEY, MODEL, Transports, request_to, send, set_environment

EVIL = "https://evil.example/v1"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    set_environment(monkeypatch)
    for name in (VARIABLE, "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(params=["direct", "litellm"])
def transport(request: pytest.FixtureRequest) -> Transports:
    name: Transports = request.param
    return name


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(record=True) as running:
        yield running


def refused(address: str) -> bool:
    try:
        check_address(address)
    except RecipeError:
        return True
    return False


def test_an_address_of_a_file_gets_no_key_and_no_request(transport: Transports, server: LoopbackServer) -> None:
    name_address(server.url, "recipe.yaml")
    with pytest.raises(RecipeError, match=r"recipe\.yaml .*--allow-key-to 127\.0\.0\.1:\d+ "):
        send(transport, request_to(server))
    assert server.requests == []


def test_once_its_host_is_allowed_it_gets_the_key_and_so_it_does_next_time(
    transport: Transports, server: LoopbackServer
) -> None:
    name_address(server.url, "recipe.yaml")
    allow_key_to(f"127.0.0.1:{server.port}")
    send(transport, request_to(server))
    forget()
    name_address(server.url, "recipe.yaml")
    send(transport, request_to(server))
    assert [KEY in request["headers"]["Authorization"] for request in server.requests] == [True, True]


def test_a_server_without_login_is_asked_as_ever_where_no_key_is_set(
    transport: Transports, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    name_address(server.url, "recipe.yaml")
    send(transport, request_to(server, model="hosted_vllm/x"))
    assert len(server.requests) == 1


def test_what_the_user_names_first_is_the_users_word(server: LoopbackServer) -> None:
    PromptedJudge(MODEL, api_base=server.url)
    name_address(server.url, "recipe.yaml")
    send("direct", request_to(server))
    assert len(server.requests) == 1


def test_the_environment_is_the_users_word_though_a_recipe_says_the_same(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    name_address(server.url, "recipe.yaml")
    send("direct", request_to(server))
    assert len(server.requests) == 1


def test_the_address_of_a_judge_that_somebody_wrote_down_is_not_the_users_word() -> None:
    written = PromptedJudge(MODEL, api_base=EVIL).definition()
    assert written is not None
    PromptedJudge.from_definition(written).lacks()
    forget()
    with pytest.raises(RecipeError):
        PromptedJudge.from_definition(written).lacks()


@pytest.mark.parametrize(
    ("allowed", "address", "goes"),
    [
        ("evil.example", EVIL, True),
        ("EVIL.example", EVIL, True),
        ("evil.example:443", EVIL, True),
        ("evil.example:8443", EVIL, False),
        ("evil.example", "https://evil.example:8443/v1", True),
        ("evil.example", "http://evil.example/v1", False),
        ("http://evil.example", "http://evil.example/v1", True),
        ("http://evil.example", EVIL, False),
        ("example", EVIL, False),
        ("evil.example", "https://evil.example.org/v1", False),
        ("good.example", "https://good.example\\@evil.example/v1", False),
        ("good.example", "https://evil.example#@good.example/", False),
        ("localhost", "http://localhost:8000/v1", True),
        ("127.0.0.1", "http://127.0.0.1:8000/v1", True),
        ("[::1]:8000", "http://[::1]:8000/v1", True),
        ("localhost", "http://localhost.evil.example/v1", False),
    ],
)
def test_an_allowed_host_is_that_host_and_plain_http_has_to_be_said(allowed: str, address: str, goes: bool) -> None:
    name_address(address, "recipe.yaml")
    assert refused(address)
    allow_key_to(allowed)
    assert refused(address) is not goes


def test_scorers_in_a_server_are_allowed_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    name_address(EVIL, "A registered judge")
    monkeypatch.setenv(VARIABLE, "other.example, evil.example")
    assert not refused(EVIL)


@pytest.mark.parametrize("host", ["", "a b", "ftp://x", "evil.example/v1", "user@evil.example"])
def test_what_is_no_host_cannot_be_allowed(host: str) -> None:
    with pytest.raises(RecipeError):
        allow_key_to(host)


def test_what_is_allowed_is_kept_for_this_user_alone() -> None:
    allow_key_to(["evil.example", "evil.example"])
    file = Path(os.environ["JRH_HOME"]) / "allow_key_to"
    assert file.read_text(encoding="utf-8") == "evil.example\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


def test_a_folder_that_was_cloned_cannot_say_what_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for folder in (tmp_path / ".jrh", tmp_path / "planted"):
        folder.mkdir(exist_ok=True)
        (folder / "allow_key_to").write_text("evil.example\n", encoding="utf-8")
    name_address(EVIL, "recipe.yaml")
    monkeypatch.delenv("JRH_HOME")
    assert refused(EVIL)
    with pytest.warns(JrhWarning):
        take_dotenv({"JRH_HOME": str(tmp_path / "planted"), VARIABLE: "evil.example"}, ".env")
    assert os.environ["JRH_HOME"] == str(tmp_path / "planted")
    assert refused(EVIL)


def test_where_it_cannot_be_kept_it_holds_for_the_run() -> None:
    Path(os.environ["JRH_HOME"]).write_text("no folder", encoding="utf-8")
    name_address(EVIL, "recipe.yaml")
    with pytest.warns(JrhWarning):
        allow_key_to("evil.example")
    assert not refused(EVIL)


TAKEN = {
    "OPENAI_API_KEY": "sk-1",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_REGION": "eu-west-1",
    "VERTEXAI_PROJECT": "mine",
    "AZURE_API_VERSION": "2024-10-21",
    "MLFLOW_TRACKING_URI": "https://mlflow.example",
    "OPENAI_BASE_URL": EVIL,
    "ACME_API_BASE": EVIL,
    "JRH_LINKS_ARE_SAID": "1",
}
LEFT = {
    "HTTPS_PROXY": "http://evil.example",
    "SSL_CERT_FILE": "evil.pem",
    "MLFLOW_TRACKING_INSECURE_TLS": "true",
    "SSL_VERIFY": "False",
    "LITELLM_MODE": "DEV",
    "PYTHONPATH": "evil",
    "AWS_DEFAULT_REGION": "evil.example/#",
    VARIABLE: "evil.example",
    "JRH_REVIEW_HOSTS": "evil.example",
}


def test_of_env_keys_settings_and_addresses_are_read_and_nothing_else() -> None:
    for name in (*TAKEN, *LEFT):
        os.environ.pop(name, None)
    with pytest.warns(JrhWarning) as said:
        take_dotenv({**TAKEN, **LEFT}, ".env")
    assert {name: os.environ.get(name) for name in TAKEN} == TAKEN
    assert not {name for name in LEFT if name in os.environ}
    assert len(said) == 1
    assert all(name in str(said[0].message) for name in LEFT)
    assert refused(EVIL)


@pytest.mark.parametrize("model", ["openai/gpt-4o-mini", "groq/llama-3.1-8b-instant", "bedrock/x", "databricks/x"])
def test_an_address_of_env_gets_no_key_by_either_transport(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = ("OPENAI_BASE_URL", "GROQ_API_BASE", "AWS_BEDROCK_RUNTIME_ENDPOINT", "DATABRICKS_HOST")
    for name in variables:
        monkeypatch.delenv(name, raising=False)
    take_dotenv(dict.fromkeys(variables, "evil.example" if model.startswith("data") else EVIL), ".env")
    with pytest.raises(RecipeError):
        what_is_missing(model, None)


def test_a_key_in_the_address_itself_counts_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    take_dotenv({"OLLAMA_API_BASE": "http://evil.example"}, ".env")
    assert what_is_missing("ollama_chat/x", None) is None
    os.environ.pop("OLLAMA_API_BASE")
    take_dotenv({"OLLAMA_API_BASE": f"http://evil.example/{KEY}"}, ".env")
    with pytest.raises(RecipeError) as error:
        what_is_missing("ollama_chat/x", None)
    assert KEY not in str(error.value)


def test_an_address_among_the_fields_of_a_request_gets_no_key() -> None:
    name_addresses({"judge": {"extra": {"aws_bedrock_runtime_endpoint": EVIL}}}, "recipe.yaml")
    request = request_to(
        LoopbackServer(), model="bedrock/x", api_base=None, extra={"aws_bedrock_runtime_endpoint": EVIL}
    )
    with pytest.raises(RecipeError):
        send("litellm", request)


def test_a_store_of_a_file_gets_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    name_addresses({"tracking_uri": "https://mlflow.example"}, "recipe.yaml")
    check_store("https://mlflow.example")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", KEY)
    check_store("https://other.example")
    check_store("sqlite:///mlflow.db")
    with pytest.raises(RecipeError):
        check_stores({"tracking_uri": "https://mlflow.example"})


def test_a_journal_of_a_file_gets_no_prompts() -> None:
    journal = "postgresql://u:p@db.example/journal"
    check_stores({"journal": journal})
    name_addresses({"evaluate": {"journal": journal}}, "recipe.yaml")
    with pytest.raises(RecipeError) as error:
        check_stores({"journal": journal})
    assert "u:p" not in str(error.value)
    allow_key_to("db.example")
    check_stores({"journal": journal})


def test_a_transport_of_another_package_is_not_trusted_with_an_address_of_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jrh_mlflow.models.transports.pick_transport", lambda *_: "acme")
    monkeypatch.setattr("jrh_mlflow.models.transports._transport_class", lambda _: type(make_transport("direct")))
    name_address(EVIL, "recipe.yaml")
    with pytest.raises(RecipeError):
        what_is_missing("acme/x", EVIL)


@pytest.mark.parametrize(
    "name", ["GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_CREDENTIALS", "JRH_REVIEW_TOKEN", "JRH_ALLOW_CODE", VARIABLE]
)
def test_env_names_no_file_of_credentials_and_no_token_of_our_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Credentials of the kind `external_account` name a file of the user's and the address that it is sent to.
    monkeypatch.delenv(name, raising=False)
    with pytest.warns(JrhWarning, match=name):
        take_dotenv({name: "credentials.json"}, ".env")
    assert name not in os.environ


def test_an_evaluation_kept_in_a_cloned_folder_gets_no_login_sent_to_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JRH_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", KEY)
    monkeypatch.setenv("JRH_HOME", str(tmp_path))
    check_kept_store("https://mlflow.example")
    monkeypatch.delenv("JRH_HOME")
    take_dotenv({"JRH_HOME": str(tmp_path / "cloned")}, ".env")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://mine.example")
    check_kept_store("https://mine.example")
    with pytest.raises(RecipeError):
        check_kept_store("https://mlflow.example")


@pytest.mark.parametrize(
    "address", ["https://evil.example/a", "mlflow-artifacts://evil.example/a", "http://evil.example"]
)
def test_artifacts_on_another_server_than_their_store_get_no_login(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = "https://mlflow.example"
    check_artifacts(address, store)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", KEY)
    for own in ("mlflow-artifacts:/0/a", "https://mlflow.example/a", "s3://bucket/a", "/tmp/mlruns", None):
        check_artifacts(own, store)
    for held in (store, "sqlite:///cloned.db"):
        with pytest.raises(RecipeError):
            check_artifacts(address, held)
    allow_key_to(["evil.example", "http://evil.example"])
    check_artifacts(address, store)


def test_a_suite_that_a_recipe_takes_from_another_server_gets_no_login(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", KEY)
    with pytest.raises(RecipeError):
        load_suite(f"mlflow-artifacts://127.0.0.2:{server.port}/x", tracking_uri=server.url.removesuffix("/v1"))
    assert server.requests == []
