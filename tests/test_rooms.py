"""Which tests look at a change: those of its room, then those of the rooms that import it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import rooms
from tests.rooms import changed_files, importers, paths_of, paths_of_change


def test_a_change_is_looked_at_by_its_room_first_and_by_the_rooms_that_import_it():
    paths = paths_of_change(["jrh_mlflow/people/agreement.py"])
    assert paths[0] == "tests/people"
    assert {"tests/cli", "jrh_mlflow/people", *rooms.ALWAYS} <= set(paths)
    assert "tests/stats" not in paths


def test_what_everything_imports_is_looked_at_by_everything_above_it():
    assert {"measures", "people", "comparing"} <= importers()["stats"]
    assert "tests/decisions" in paths_of_change(["jrh_mlflow/measures/rules.py"])


def test_simulations_look_at_the_rooms_that_they_import():
    assert "tests/validation" in paths_of_change(["jrh_mlflow/stats/proportions.py"])
    assert "tests/validation" not in paths_of_change(["jrh_mlflow/review/app.py"])


@pytest.mark.parametrize("file", rooms.EVERYTHING)
def test_a_change_of_how_tests_run_runs_them_all(file):
    assert paths_of_change([file, "jrh_mlflow/text.py"]) == ["tests", "jrh_mlflow"]


def test_a_file_of_tests_is_its_own_test_and_a_helper_is_tried_by_those_that_import_it():
    assert paths_of_change(["tests/stats/test_paired.py"])[0] == "tests/stats/test_paired.py"
    users = paths_of_change(["tests/loopback.py"])
    assert "tests/engine/test_promises.py" in users
    assert "tests/stats/test_paired.py" not in users


def test_docs_and_recipes_are_tried_by_their_own_tests():
    assert "tests/docs" in paths_of_change(["README.md"])
    assert "tests/test_recipes.py" in paths_of_change(["recipes/own_judge.py"])


def test_a_removed_file_of_tests_is_not_run():
    assert "tests/stats/test_gone.py" not in paths_of_change(["tests/stats/test_gone.py"])


def test_a_room_has_tests_of_its_own_or_of_the_rooms_that_import_it():
    alone = {name for name in importers() if not any(path.startswith("tests") for path in paths_of(name))}
    assert alone == {"demo", "errors", "schema"}
    for name in alone:
        assert any(path.startswith("tests/") for other in importers()[name] for path in paths_of(other))


def test_every_room_has_one_file_that_make_quick_runs():
    quick = {path for path in (rooms.ROOT / "tests").rglob("test_*.py") if "mark.quick\n" in path.read_text("utf-8")}
    for name in importers():
        places = [rooms.ROOT / path for path in paths_of(name) if path.startswith("tests")]
        found = [path for path in quick for place in places if place in (path, *path.parents)]
        assert len(found) == bool(places), f"{name}: {found or 'mark one file of its tests `quick`'}"


def test_uncommitted_and_untracked_files_differ_from_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments], cwd=tmp_path, check=True)

    git("init", "-q", "-b", "main")
    for name in ("same.py", "edited.py"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    (tmp_path / "committed.py").write_text("2")
    git("checkout", "-q", "-b", "other")
    git("add", "committed.py")
    git("commit", "-q", "-m", "second")
    (tmp_path / "edited.py").write_text("3")
    (tmp_path / "new.py").write_text("4")
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    assert sorted(changed_files("main")) == ["committed.py", "edited.py", "new.py"]
