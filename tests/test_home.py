"""Where the package keeps what must outlive a process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jrh_mlflow import home as homes
from jrh_mlflow.errors import JrhError
from jrh_mlflow.home import home, shown_path, writable_home

pytestmark = pytest.mark.quick


@pytest.fixture(autouse=True)
def _nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JRH_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    homes._absolute.cache_clear()


@pytest.mark.parametrize(
    ("platform", "xdg", "expected"),
    [
        ("linux", "", "{}/.local/share/jrh"),
        ("linux", "relative", "{}/.local/share/jrh"),
        ("linux", "{}/data", "{}/data/jrh"),
        ("darwin", "{}/data", "{}/Library/Application Support/jrh"),
    ],
)
def test_the_users_folder_follows_the_rules_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, xdg: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv("XDG_DATA_HOME", xdg.format(tmp_path))
    assert home() == Path(expected.format(tmp_path))


def test_a_setting_comes_before_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JRH_HOME", "~/mine")
    assert home() == tmp_path / "mine"


def test_a_relative_setting_stays_after_a_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JRH_HOME", "mine")
    assert home() == tmp_path / "mine"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert home() == tmp_path / "mine"


def test_a_user_without_a_home_directory_is_told_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> object:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(JrhError, match="Set JRH_HOME to a folder that can be written"):
        home()


def test_a_folder_that_cannot_be_written_is_told_with_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert writable_home().is_dir()
    # Root may write everywhere: the answer of the system is set.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(JrhError, match=r"no permission to write.* Set JRH_HOME"):
        writable_home()
    monkeypatch.setenv("JRH_HOME", str(tmp_path / "file" / "home"))
    (tmp_path / "file").write_text("")
    with pytest.raises(JrhError, match=r"Not a directory.* Set JRH_HOME"):
        writable_home()


def test_a_path_is_shown_without_the_name_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_path(tmp_path / "x" / "journal.db") == "~/x/journal.db"
    assert shown_path(Path("/srv/journal.db")) == "/srv/journal.db"
    monkeypatch.setenv("HOME", "/")
    assert shown_path(Path("/srv/journal.db")) == "/srv/journal.db"
