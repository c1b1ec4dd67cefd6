"""The tools that make the example store small: links between equal files, pictures with a palette."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from jrh_mlflow.tracking.mlflow_server import artifacts_uri
from tests.example_store import link_equal_folders, pack


def test_equal_folders_become_relative_links_to_one_of_them_and_move_with_the_store(tmp_path: Path) -> None:
    texts = {"a/suite/suite.jsonl": "x", "b/suite/suite.jsonl": "x", "b/other/suite.jsonl": "y", "c/suite/s": "x"}
    for name, text in texts.items():
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_text(text, encoding="utf-8")
    link_equal_folders(tmp_path / "store")
    moved = (tmp_path / "store").rename(tmp_path / "elsewhere")
    assert {name: (moved / name).read_text(encoding="utf-8") for name in texts} == texts
    links = [path for path in moved.rglob("*") if path.is_symlink()]
    assert [str(link.relative_to(moved)) for link in links] == ["b/suite"]
    assert not links[0].readlink().is_absolute()


def test_packing_makes_pictures_smaller_and_changes_no_number(tmp_path: Path) -> None:
    steps = np.linspace(0, 255, 300).astype(np.uint8)
    drawn = np.stack([np.tile(steps, (200, 1)), np.zeros((200, 300), np.uint8), np.full((200, 300), 90, np.uint8)], -1)
    out = io.BytesIO()
    Image.fromarray(drawn).convert("RGBA").save(out, "PNG", compress_level=0)
    plain = out.getvalue()
    (tmp_path / "figure.png").write_bytes(plain)
    pd.DataFrame({"a": ["text"] * 9}).to_parquet(tmp_path / "calls.parquet")
    (tmp_path / "sheet.json").write_text('{"a": [1,\n 2.5, "é"]}', encoding="utf-8")
    pack(tmp_path)
    assert list(pd.read_parquet(tmp_path / "calls.parquet")["a"]) == ["text"] * 9
    assert json.loads((tmp_path / "sheet.json").read_text(encoding="utf-8")) == {"a": [1, 2.5, "é"]}
    content = (tmp_path / "figure.png").read_bytes()
    assert len(content) < len(plain) / 2
    shown = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    assert np.abs(shown - drawn).max() <= 16


def test_artifacts_lie_where_mlflow_looks(tmp_path: Path) -> None:
    assert artifacts_uri(tmp_path).endswith("/mlartifacts")
