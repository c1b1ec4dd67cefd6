"""A real server of a real model: it answers its own process only, ends with it, and says why when it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from jrh_mlflow.errors import JudgeError
from jrh_mlflow.models.local import server
from jrh_mlflow.models.local.server import Served, served
from jrh_mlflow.models.local.weights import read_head
from jrh_mlflow.models.transports import TransportError
from jrh_mlflow.schema.requests import Request
from tests.cases import few
from tests.models.local.tools import MODEL, serving
from tests.models.transport_tools import send
from tests.processes import Forked

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


def user(text: str) -> tuple[dict[str, str], ...]:
    return ({"role": "user", "content": text},)


def post(running: Served, key: str) -> int:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{running.url}/chat/completions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until_silent(port: int) -> None:
    until = time.monotonic() + 60
    while listens(port):
        assert time.monotonic() < until, "The server still listens."
        time.sleep(0.1)


def test_a_schema_is_honoured_and_one_server_serves_all_calls(smollm2: Path) -> None:
    request = Request(model=MODEL, messages=user("Say a colour."), temperature=0, max_tokens=40, response_schema=SCHEMA)
    before = server.cpu_seconds()
    first, second = send("direct", request)[0], send("direct", request)[0]
    assert json.loads(first.text or "")["colour"] in ("red", "blue")
    assert first.text == second.text
    assert first.model == "smollm2"
    assert (first.input_tokens or 0) > 0
    assert served(MODEL) is served(MODEL)
    assert server.cpu_seconds() > before


def test_only_who_has_the_key_is_answered(smollm2: Path) -> None:
    running = served(MODEL)
    assert post(running, running.key) == 200
    assert post(running, "another") == 401
    assert running.key not in repr(running)


def test_a_text_longer_than_the_context_is_an_outcome_of_its_own(smollm2: Path) -> None:
    with pytest.raises(TransportError) as raised:
        send("direct", Request(model=MODEL, messages=user("word " * 5000), max_tokens=5))
    assert raised.value.kind == "too_long"


@pytest.mark.slow
def test_a_server_that_died_is_started_again(smollm2: Path) -> None:
    first = served(MODEL)
    first.process.kill()
    first.process.wait()
    second = served(MODEL)
    assert second is not first
    assert post(second, second.key) == 200


def test_the_server_of_a_block_ends_with_it(smollm2: Path) -> None:
    with serving(smollm2, context=512) as running:
        assert post(running, running.key) == 200
    assert not listens(port_of(running.url))


def test_threads_that_wait_sleep_unless_the_user_says_otherwise(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread that spins uses up the time that the one it waits for needs."""
    started: list[str] = []

    def popen(*_: Any, env: dict[str, str], **__: Any) -> None:
        started.append(env["OMP_WAIT_POLICY"])
        raise OSError("no more than its environment was asked for")

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    with pytest.raises(OSError, match="environment"), serving(smollm2, context=512):
        pass
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with pytest.raises(OSError, match="environment"), serving(smollm2, context=512):
        pass
    assert started == ["passive", "active"]


def test_what_two_calls_begin_with_is_read_once(smollm2: Path) -> None:
    """Both orders of a pair share the task before the responses: it stays in the cache from one call to the next."""
    task = "The answer should name the carrier, the date and the price of the delivery. " * 3
    read = [prompt_tokens_read(served(MODEL), f"{task}\nResponse: {order}") for order in ("first", "second")]
    assert read[1] < 0.2 * read[0]


def prompt_tokens_read(running: Served, text: str) -> int:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {running.key}"}
    request = urllib.request.Request(f"{running.url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return int(json.load(answer)["timings"]["prompt_n"])


def test_too_little_memory_is_noticed_before_loading(smollm2: Path) -> None:
    with pytest.raises(JudgeError, match=r"needs about [\d,]+ MB of memory"), serving(smollm2, context=10**9):
        pass


def test_the_head_tells_what_a_token_takes(smollm2: Path) -> None:
    head = read_head(smollm2)
    # 30 layers, 3 heads of 64 numbers, keys and values, two bytes each.
    assert head.kv_bytes == 30 * 3 * 64 * 2 * 2


@pytest.mark.parametrize(
    ("keep", "text"),
    [
        (0, "is not a GGUF file"),
        (3, "is not a GGUF file"),
        (100, "its head cannot be read"),
        (1_000_000, "its head cannot be read"),
        (50_000_000, "is cut short: 50,000,000 bytes"),
    ],
)
def test_a_file_that_was_cut_is_told_from_a_whole_one(keep: int, text: str, smollm2: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    with smollm2.open("rb") as whole:
        cut.write_bytes(whole.read(keep))
    with pytest.raises(JudgeError, match=text), serving(cut):
        pass


@pytest.mark.slow
def test_a_file_that_the_library_refuses_says_so_and_leaves_no_process(smollm2: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.gguf"
    odd.write_bytes(smollm2.read_bytes().replace(b"llama", b"lamma"))
    with pytest.raises(JudgeError, match=r"odd.gguf cannot be loaded"), serving(odd):
        pass


HOLDER = """
import sys, time
from jrh_mlflow.models.local.server import served
print(served("local/smollm2").url, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", few([signal.SIGKILL, signal.SIGINT]))
def test_the_server_ends_with_its_process_however_that_ends(how: signal.Signals, smollm2: Path) -> None:
    with Forked(HOLDER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout is not None
        port = port_of(holder.stdout.readline())
        assert listens(port)
        os.kill(holder.pid, how)
        holder.wait(60)
    wait_until_silent(port)
