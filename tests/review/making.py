"""Suites to review, servers to ask, and a client that can send what no browser would."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import uvicorn

from jrh_mlflow.review.app import review_app
from jrh_mlflow.review.contents import Review, ReviewCatalog, folder_review
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.suite import ITEMS_FILE, MANIFEST_FILE, Suite
from tests.processes import JRH, Forked

LABELS = ("fail", "pass")
TOKEN = "a-token-for-tests-only"


def baseline(task: str, text: str) -> Item:
    return Item(
        id=f"{task}/baseline",
        task=task,
        condition="baseline",
        kind="response",
        instruction="Name the capital of France.",
        rubric="Is the answer right?",
        response=text,
        answers=LABELS,
        expected="pass",
    )


def made(task: str, text: str, *, test: str = "label_flip", expected: str = "fail", **meta: Any) -> Item:
    facts = {"test": test, "generator": "a-model", "validator": expected, "similarity": 0.8, "attempts": 1}
    return Item(
        id=f"{task}/{test}",
        task=task,
        condition=test,
        kind="response",
        instruction="Name the capital of France.",
        rubric="Is the answer right?",
        response=text,
        answers=LABELS,
        expected=expected,
        meta={**facts, **meta},
    )


def suite_items(n: int) -> list[Item]:
    """One baseline, one flipped and one reformatted item per seed; the last of them by code."""
    items = []
    for i in range(n):
        task = f"s{i:04}"
        items.append(baseline(task, f"It is Paris, seed {i}."))
        items.append(made(task, f"It is not Paris, seed {i}."))
        items.append(
            made(task, f"It is  Paris, seed {i}.", test="format_invariance", expected="pass", generator="code")
        )
    return items


def saved_suite(folder: Path, items: list[Item] | None = None, *, n: int = 4) -> Path:
    suite = Suite(name=folder.name, items=items or suite_items(n), origin={"builder": "generate"})
    return suite.save(folder)


def rewritten(folder: Path, old: bytes, new: bytes) -> Path:
    """Change the bytes of a saved suite, as no program of ours would, and hash it again."""
    content = (folder / ITEMS_FILE).read_bytes()
    assert old in content
    (folder / ITEMS_FILE).write_bytes(content.replace(old, new))
    manifest = json.loads((folder / MANIFEST_FILE).read_text())
    manifest["sha256"] = hashlib.sha256((folder / ITEMS_FILE).read_bytes()).hexdigest()
    (folder / MANIFEST_FILE).write_text(json.dumps(manifest))
    return folder


def opened(folder: Path) -> Review:
    return folder_review(folder)


class Client:
    """One request at a time, every header as given."""

    def __init__(self, address: str, token: str, *, prefix: str = "") -> None:
        self.address, self.token, self.prefix = address, token, prefix

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        token: bool = True,
    ) -> tuple[int, dict[str, str], bytes]:
        given = {"Host": self.address, **({"X-JRH-Token": self.token} if token else {}), **(headers or {})}
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.putrequest(method, self.prefix + path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def get(self, path: str) -> Any:
        status, _, content = self.send("GET", path)
        assert status == 200, content
        return json.loads(content)

    def post(self, path: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None) -> tuple[int, Any]:
        sent = {"Content-Type": "application/json", **(headers or {})}
        status, _, content = self.send("POST", path, json.dumps(body).encode(), headers=sent)
        return status, json.loads(content)


@contextmanager
def reviewing(*folders: Path) -> Iterator[Client]:
    """The application on a real port of this machine, in a thread."""
    catalog = ReviewCatalog(list(folders))
    config = uvicorn.Config(review_app(catalog, token=TOKEN), log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Client(f"127.0.0.1:{listening.getsockname()[1]}", TOKEN)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def reviewing_process(*folders: Path) -> Iterator[Client]:
    """`jrh review` in a process of its own, as a user starts it."""
    command = [JRH, "review", *folders, "--no-browser", "--no-log"]
    process = Forked(*command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    try:
        link = urlsplit(process.stdout.readline().removeprefix("Review: ").strip())
        yield Client(link.netloc, parse_qs(link.query)["token"][0])
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
