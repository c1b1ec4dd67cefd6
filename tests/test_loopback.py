"""The loopback server itself: other tests stand on it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.loopback import Faults, LoopbackProcess, LoopbackServer, Reply
from tests.loopback_replies import PRESETS, fill

ASK = {"model": "m", "messages": [{"role": "user", "content": "Which one?"}]}


def post(url: str, body: dict[str, Any] = ASK, key: str = "k") -> tuple[int, dict[str, str], dict[str, Any]]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{url}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, dict(response.headers), json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.load(error)


def test_an_answer_is_billed_by_its_length_and_counted() -> None:
    with LoopbackServer(reply="echo", record=True) as server:
        status, _, answer = post(server.url)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Which one?")
    assert answer["usage"] == {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    assert server.counts == {
        "requests": 1,
        "max_in_flight": 1,
        "billed": 1,
        "answered": 1,
        "input_tokens": 10,
        "output_tokens": 3,
        "billed_input": 10,
        "billed_output": 3,
    }
    assert server.requests[0]["body"] == ASK
    assert server.requests[0]["headers"]["Authorization"] == "Bearer k"


def test_max_tokens_cuts_the_answer_as_a_model_would_be_cut() -> None:
    with LoopbackServer(reply="prose") as server:
        choice = post(server.url, {**ASK, "max_tokens": 2})[2]["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Both res", "length")


def test_the_same_seed_draws_the_same_faults() -> None:
    faults = Faults(rate_limited=0.3, server=0.2, retry_after="1.25")
    runs = []
    for _ in range(2):
        with LoopbackServer(faults=faults, seed=3) as server:
            runs.append([post(server.url)[0] for _ in range(30)])
    assert runs[0] == runs[1]
    assert set(runs[0]) == {200, 429, 500}


def test_a_limit_tells_the_exact_wait_and_lets_pass_again_after_it() -> None:
    with LoopbackServer(requests_per_window=2, window_s=600) as server:
        assert [post(server.url)[0] for _ in range(3)] == [200, 200, 429]
        wait = float(post(server.url)[1]["Retry-After"])
        server.window_s = 0.0
        assert post(server.url)[0] == 200
    assert 0 < wait <= 600
    assert server.counts["over_the_limit"] == 2


def test_keys_models_and_long_prompts_are_refused_as_openai_refuses_them() -> None:
    with LoopbackServer(key="k", models=("m",), context_window=20) as server:
        assert post(server.url, key="wrong")[2]["error"]["code"] == "invalid_api_key"
        assert post(server.url, {**ASK, "model": "x"})[2]["error"]["code"] == "model_not_found"
        long = [{"role": "user", "content": "x" * 200}]
        assert post(server.url, {**ASK, "messages": long})[2]["error"]["code"] == "context_length_exceeded"
        assert post(server.url)[0] == 200
    assert (server.counts["refused"], server.counts["billed"]) == (3, 1)


def test_a_schema_is_filled_whatever_its_shape() -> None:
    schema = {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "verdict": {"enum": ["A", "B"]},
            "score": {"type": "integer", "minimum": 1},
            "sure": {"type": ["boolean", "null"]},
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "either": {"anyOf": [{"const": 7}, {"type": "null"}]},
        },
    }
    assert fill(schema, "B") == {
        "reason": "loopback",
        "verdict": "B",
        "score": 1,
        "sure": True,
        "list": ["loopback"],
        "either": 7,
    }


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_answers(name: str) -> None:
    with LoopbackServer(reply=name) as server:
        assert post(server.url)[0] == 200


def test_a_port_that_is_taken_is_an_error_at_once() -> None:
    with LoopbackServer() as server, pytest.raises(OSError, match="address"):
        LoopbackServer(port=server.port).__enter__()


def test_pending_answers_do_not_keep_the_server_from_stopping() -> None:
    with LoopbackServer(reply=lambda _: Reply(text="A", delay=3600)) as server, pytest.raises(TimeoutError):
        urllib.request.urlopen(f"{server.url}/chat/completions", json.dumps(ASK).encode(), timeout=0.1)


def test_the_server_runs_as_a_process_and_tells_its_counts() -> None:
    with LoopbackProcess("--reply", "verdict", "--answer", "B", "--record", "--model-name", "other") as server:
        answer = post(server.url)[2]
        assert json.loads(answer["choices"][0]["message"]["content"])["verdict"] == "B"
        assert answer["model"] == "other"
        assert server.stats()["answered"] == 1
        assert server.requests()[0]["body"] == ASK
