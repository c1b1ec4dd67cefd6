"""MLflow's own judges: their keys go where the user says, and no redirect is followed with a prompt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models import trust
from jrh_mlflow.models.redirects import no_redirects
from jrh_mlflow.tracking.judges.identity import judge_from
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from tests.loopback import LoopbackServer
from tests.loopback_replies import Reply
from tests.tracking.judges.mlflow_chat import KEY, ask, compare, pair_call

REDIRECTS = (301, 302, 303, 307, 308)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", trust.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    with LoopbackServer(record=True) as running:
        yield running


def test_an_address_that_env_names_gets_no_key_of_a_judge_of_mlflow(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = from_mlflow(compare())
    monkeypatch.setenv("OPENAI_API_BASE", "")
    monkeypatch.delenv("OPENAI_API_BASE")
    trust.take_dotenv({"OPENAI_API_BASE": server.url}, ".env")
    with pytest.raises(RecipeError):
        judge.lacks()
    assert ask(judge, pair_call()).outcome == "error"
    assert server.requests == []
    trust.allow_key_to(f"127.0.0.1:{server.port}")
    assert judge.lacks() is None
    ask(judge, pair_call())
    assert KEY in server.requests[0]["headers"]["Authorization"]


def test_an_address_that_a_run_names_gets_no_key_of_a_judge_of_mlflow(server: LoopbackServer) -> None:
    written = from_mlflow(compare(base_url=f"{server.url}/chat/completions")).definition()
    assert written is not None
    trust.forget()
    judge = judge_from(written)
    with pytest.raises(RecipeError):
        judge.lacks()
    assert ask(judge, pair_call()).outcome == "error"
    assert server.requests == []


def test_a_judge_that_a_run_writes_down_as_code_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS", "true")
    written = dict(from_mlflow(compare()).definition() or {})
    code = {"call_source": "return True", "call_signature": "(outputs)", "original_func_name": "f"}
    written["scorers"] = [{"name": "f", **code}]
    with pytest.raises(RecipeError):
        judge_from(written)


@pytest.mark.parametrize("status", REDIRECTS)
@pytest.mark.parametrize("model", ["openai:/gpt-4o-mini", "hosted_vllm:/x"])
def test_no_judge_of_mlflow_follows_a_redirect(
    status: int, model: str, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one model is asked by MLflow's own client, the other through litellm.
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", KEY)
    place = "/chat/completions" if model.startswith("openai") else ""
    with LoopbackServer(record=True) as other:
        server.reply = lambda _: Reply(
            status=status, headers={"Location": f"{other.url}/chat/completions", "Connection": "close"}, raw=b"{}"
        )
        judge = from_mlflow(compare(model=model, base_url=f"{server.url}{place}"))
        assert ask(judge, pair_call()).outcome == "error"
        assert (server.counts["requests"] > 0, other.counts["requests"]) == (True, 0)


def test_other_calls_of_the_process_follow_redirects_as_ever(server: LoopbackServer) -> None:
    with LoopbackServer(record=True) as other:
        server.reply = lambda _: Reply(status=307, headers={"Location": f"{other.url}/chat/completions"}, raw=b"{}")
        body = {"model": "x", "messages": [{"role": "user", "content": "Hello."}]}
        with no_redirects(), pytest.raises(requests.TooManyRedirects):
            requests.post(f"{server.url}/chat/completions", json=body, timeout=30)
        assert other.counts["requests"] == 0
        requests.post(f"{server.url}/chat/completions", json=body, timeout=30)
        assert other.counts["requests"] == 1
