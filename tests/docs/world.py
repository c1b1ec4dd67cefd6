"""What the printed code of the pages takes for granted: a model that answers, a store, small suites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import mlflow
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measuring import resolve
from jrh_mlflow.suites.tasks import translated_tasks
from jrh_mlflow.tracking.traces import call_traces
from tests.docs.blocks import ROOT
from tests.loopback import LoopbackServer, verdict
from tests.loopback_replies import fields_asked
from tests.tracking.judges.mlflow_chat import ChatServer
from tests.tracking.judges.mlflow_chat import verdict as said

SUITES: dict[str, dict[str, Any]] = {
    "datasheet": {"design": "spread", "n_tasks": 1, "depth": 2},
    "datasheet-en": {"design": "short", "n_tasks": 2, "depth": 2, "tasks": translated_tasks()},
    "datasheet-de": {"design": "short", "n_tasks": 2, "depth": 2, "language": "de"},
    "datasheet-short": {"design": "short", "n_tasks": 2, "depth": 2},
    "pointwise-datasheet": {"design": "pointwise", "n_tasks": 1},
    "pointwise-datasheet-scores": {"design": "pointwise-scores", "n_tasks": 1},
}
"""Built-in suites, cut to a task or two: what the lines do is the same, and each call takes its time."""

JUDGES = """
def judge(shown):
    return "1"
"""
TEMPLATE = "Which is better by {rubric}?\n{candidates}\n{format}\n"
PAIRS = """instruction,first,second,better
Say when it rains.,It rains.,It rains from noon to two.,2
Say hello.,Hello!,I was asked to say hello.,1
Name a river.,The Elbe.,A river is water.,1
"""


@dataclass(frozen=True, kw_only=True)
class World:
    """A folder to work in, a model on loopback and a store of its own."""

    folder: Path
    server: LoopbackServer | ChatServer
    uri: str
    experiment: str

    @property
    def client(self) -> mlflow.MlflowClient:
        return mlflow.MlflowClient(self.uri)

    def enter(self, patch: pytest.MonkeyPatch) -> None:
        """Make this the place where code runs."""
        patch.chdir(self.folder)
        for name, value in {
            "OPENAI_API_BASE": self.server.url,
            "OPENAI_API_KEY": "sk-loopback",
            "MLFLOW_TRACKING_URI": self.uri,
            "MLFLOW_EXPERIMENT_NAME": self.experiment,
            "MLFLOW_GENAI_EVAL_MAX_WORKERS": "1",
            "MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION": "true",
            "JRH_HOME": str(self.folder / ".jrh"),
        }.items():
            patch.setenv(name, value)
        mlflow.set_tracking_uri(self.uri)
        mlflow.set_experiment(self.experiment)


def reply(body: dict[str, Any]) -> str:
    """Say `A`, or what else is asked for; a rewrite is answered in plain text, as by a server without schemas."""
    if "response_format" in body and fields_asked(body) != ["text"]:
        return verdict()(body)
    return said("yes") if "rationale" in str(body["messages"]) else "It is quite another answer, and a longer one."


@contextmanager
def prepared(uri: str, folder: Path, *, experiment: str = "support", small: bool = True) -> Iterator[World]:
    """A world, with small suites under the usual names unless the numbers are looked at."""
    with pytest.MonkeyPatch.context() as patch, LoopbackServer(reply=reply) as server:
        for name, design in SUITES.items() if small else ():
            patch.setitem(resolve.BUILT_IN, name, partial(jrh.datasheet_suite, name=name, **design))
        patch.setattr(call_traces, "LEAST_SAMPLE", 2)
        resolve._built_in.cache_clear()
        world = World(folder=folder, server=server, uri=uri, experiment=experiment)
        world.enter(patch)
        yield world
        jrh.autolog(disable=True)
        resolve._built_in.cache_clear()


def furnished(world: World, folder: Path) -> World:
    """The world in a new folder with the repository's recipes, and what several pages take for granted."""
    for name in ("recipes", "mlruns_example"):
        (folder / name).symlink_to(ROOT / name)
    texts = {"judges.py": JUDGES, "mine.txt": TEMPLATE, "pairs.csv": PAIRS, "keys.env": "OPENAI_API_KEY=sk-in-a-file\n"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return replace(world, folder=folder)
