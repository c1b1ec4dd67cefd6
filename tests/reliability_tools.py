"""What the end-to-end tests of reliability suites share: a table, the command line, a server that plays every part."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.schema.items import Item
from tests import processes
from tests.generation.tools import CHECKER, RUBRIC, WRITER, Player
from tests.loopback import Reply

JUDGE = "openai/judge"
PRICE = "10,20"
"""Dollars per million input and output tokens, of every model on the loopback server."""
PRICES = dict.fromkeys((WRITER, CHECKER, JUDGE), (10.0, 20.0))
_RESPONSE = re.compile(r'<response code="(\w+)">\n(.*)\n</response code="\1">', re.DOTALL)

Says = Callable[[Item], "str | Reply"]


def write_table(path: Path, dataset: Iterable[dict[str, str]]) -> Path:
    """Write rows as a CSV file."""
    lines = list(dataset)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return path


def jrh_json(*arguments: object) -> Any:
    """Run a command that must succeed, and return what it printed with `--json`."""
    done = CliRunner().invoke(group, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout)


def jrh_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, as a user does: exit code, output and all."""
    return processes.run(processes.JRH, *arguments)


class Cast:
    """One model server as generator, validator and judge; it tells them apart by the model that is asked for."""

    def __init__(self, dataset: list[dict[str, str]], *, tests: object = "paper", **reading: Any) -> None:
        """Get ready; `reading` are further arguments of the data's reader, such as `scale`."""
        self.player = Player(dataset, tests=tests, **reading)
        self.judged: list[dict[str, Any]] = []
        self._items: dict[str | None, Item] = {}
        self.says: Says = lambda item: item.expected or ""

    def learn(self, suite: jrh.Suite) -> None:
        """Tell the judge which items there are, so that it knows what it is shown."""
        self._items = {item.response: item for item in suite.items}

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        """Answer one request."""
        if body["model"] != JUDGE.partition("/")[2]:
            return self.player(body)
        self.judged.append(body)
        return judged(body, lambda response: self.says(self._items[response]))


def judged(body: dict[str, Any], says: Callable[[str], str | Reply]) -> str | Reply:
    """Answer a judge's request from the response it shows."""
    shown = _RESPONSE.search(body["messages"][-1]["content"])
    assert shown is not None
    answer = says(shown[2])
    return answer if isinstance(answer, Reply) else json.dumps({"reason": "as asked", "verdict": answer})


def generate_arguments(table: Path, store_uri: str, url: str, output: Path, *more: object) -> list[object]:
    """Return the arguments of `jrh generate` with the models at `url`.

    The validator is found at `url` where OPENAI_BASE_URL says so.
    """
    given = ["generate", table, "--rubric", RUBRIC, "--tracking-uri", store_uri, "--experiment", "tests", "-o", output]
    given += ["--generator", WRITER, "--api-base", url, "--validator", CHECKER]
    given += ["--price", f"{WRITER}={PRICE}", "--price", f"{CHECKER}={PRICE}"]
    return [*given, *more]


def evaluate_arguments(suite: Path | str, store_uri: str, *more: object) -> list[object]:
    """Return the arguments of `jrh evaluate` on a suite."""
    return ["evaluate", "--suite", suite, "--tracking-uri", store_uri, "--experiment", "tests", *more]
