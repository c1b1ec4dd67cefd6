"""What the tests of batch files share: a provider that answers them over real HTTP, and lines to read and write."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.loopback import LoopbackServer

Line = dict[str, Any]


def read(*files: Path) -> list[Line]:
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def write(path: Path, lines: Iterable[Line]) -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    return path


def play_provider(lines: Iterable[Line], server: LoopbackServer) -> list[Line]:
    """Post every exported body, as a batch service would, and return its result lines."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    results = []
    for number, line in enumerate(lines):
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        connection.request("POST", line["url"], json.dumps(line["body"]), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        response = {"status_code": answer.status, "request_id": f"r{number}", "body": json.loads(answer.read())}
        results.append({"id": f"b{number}", "custom_id": line["custom_id"], "response": response, "error": None})
    connection.close()
    return results


def varied(body: Line) -> str:
    """Answer A, B or tie by the length of the prompt: the same prompt always gets the same answer."""
    verdicts = ("A", "B", "tie", "A")
    return json.dumps({"reason": "r", "verdict": verdicts[len(json.dumps(body["messages"])) % 4]})


def completion(text: str | None = '{"reason": "r", "verdict": "A"}', **message: Any) -> Line:
    return {
        "model": "m",
        "choices": [{"finish_reason": "stop", "message": {"content": text, **message}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10},
    }


def answered(key: str, body: Line | None = None, **fields: Any) -> Line:
    response = {"status_code": 200, "body": completion() if body is None else body}
    return {"custom_id": key, "response": response, "error": None, **fields}


def http_error(status: int, message: str, code: str | None = None) -> Line:
    return {"status_code": status, "body": {"error": {"message": message, "type": "t", "code": code}}}
