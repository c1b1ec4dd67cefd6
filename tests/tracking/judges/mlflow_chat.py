"""What the tests of MLflow's judges share: a server on loopback in the OpenAI dialect, real judges, calls to ask."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest

from jrh_mlflow.engine.runner import ask_calls
from jrh_mlflow.judges._base import Judge
from jrh_mlflow.schema.items import Call, CallRecord, Item
from jrh_mlflow.schema.presentation import Message, Presentation
from jrh_mlflow.tracking.judges.scorers import from_mlflow

MODEL = "openai:/gpt-4o-mini"
KEY = "sk-planted-0123456789"
COMPARE = "Compare A and B in {{ outputs }} as answers to {{ inputs }}."

Reply = Callable[[dict[str, Any]], "str | dict[str, Any] | int"]


class ChatServer(ThreadingHTTPServer):
    """Answers as `reply` says: a text, a whole message, or an HTTP status; keeps every body."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Chat)
        self.bodies: list[dict[str, Any]] = []
        self.reply: Reply = lambda _: verdict("A")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def users_text(self) -> str:
        return str(self.bodies[-1]["messages"][-1]["content"])


class _Chat(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        said = self.server.reply(body)
        if isinstance(said, int):
            key = self.headers["Authorization"].removeprefix("Bearer ")
            return self._send(said, {"error": {"message": f"no service for the key {key}"}})
        message = {"role": "assistant", "content": said} if isinstance(said, str) else said
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        whole = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}
        return self._send(200, whole)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        pass


def verdict(result: object, rationale: str = "It is better.") -> str:
    return json.dumps({"result": result, "rationale": rationale})


@contextmanager
def chatting(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """Run the server and point MLflow at it, and at nothing else."""
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    for name, value in {
        "OPENAI_API_BASE": server.url,
        "OPENAI_API_KEY": KEY,
        "NO_PROXY": "127.0.0.1",
        "MLFLOW_MODEL_CATALOG_URI": "",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def compare(**more: Any) -> Any:
    from mlflow.genai import make_judge

    settings: dict[str, Any] = {"name": "compare", "instructions": COMPARE, "model": MODEL}
    return make_judge(**(settings | {"feedback_value_type": Literal["A", "B", "tie"]} | more))


def pair_call(first: str = "one", second: str = "two", **more: Any) -> Call:
    shown = Presentation(kind="pair", instruction="Write.", rubric="Be brief.", first=first, second=second, **more)
    return Call(item=Item(id="p", task="t", condition="ladder"), order="uv", replicate=0, presentation=shown)


def graded_call(*answers: str, response: str = "a response") -> Call:
    shown = Presentation(kind="response", instruction="Write.", response=response, answers=answers)
    return Call(
        item=Item(id="r", task="t", condition="baseline", kind="response"), order="", replicate=0, presentation=shown
    )


def transcript_call() -> Call:
    search = {"id": "c1", "name": "search", "arguments": {"query": "opening hours"}}
    messages = (
        Message(role="user", content="When do you open?"),
        Message(role="assistant", content="", tool_calls=(search,)),
        Message(role="tool", content="nine o'clock", tool_call_id="c1"),
        Message(role="assistant", content="We open at nine."),
    )
    shown = Presentation(kind="transcript", instruction="Serve.", transcript=messages, answers=("yes", "no"))
    return Call(
        item=Item(id="x", task="t", condition="baseline", kind="transcript"), order="", replicate=0, presentation=shown
    )


def ask(judge: Judge, call: Call) -> CallRecord:
    (record,) = ask_calls(judge, [call], concurrency=1).records
    return record


def says(value: object, name: str = "said") -> Any:
    from mlflow.genai.scorers import scorer

    @scorer(name=name)
    def said(outputs):
        if isinstance(value, Exception):
            raise value
        return value

    return said


def read(value: object, call: Call, **options: Any) -> tuple[str, str]:
    record = ask(from_mlflow(says(value), **options), call)
    return record.outcome, record.answer
