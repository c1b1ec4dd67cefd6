"""What lies at an output already is overwritten only when that was said, whichever command writes it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import COMMANDS, group
from jrh_mlflow.engine import batch as engine_batch
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites import Suite, datasheet_suite
from jrh_mlflow.suites.suite import save_suite

pytestmark = pytest.mark.quick


def cli(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def small() -> Suite:
    return datasheet_suite(n_tasks=1, depth=1)


def part_of(suite: Suite, *, truncated: str | None = None) -> Suite:
    return Suite(name=suite.name, items=suite.items[:5], origin={"truncated": truncated})


def test_another_suite_is_not_overwritten_and_the_same_one_is_left_alone(small: Suite, tmp_path: Path) -> None:
    folder = save_suite(small, tmp_path / "suite")
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    save_suite(small, folder)
    with pytest.raises(
        RecipeError, match=r"suite\.jsonl is another suite\. Give another name, or overwrite it with --f"
    ):
        save_suite(part_of(small), folder)
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
    save_suite(part_of(small), folder, force=True)
    assert len(jrh.load_suite(folder)) == 5


def test_only_a_truncated_suite_is_continued(small: Suite, tmp_path: Path) -> None:
    save_suite(part_of(small, truncated="budget: 3 of 8 items not made"), tmp_path / "cut")
    assert len(jrh.load_suite(save_suite(small, tmp_path / "cut", continues=True))) == len(small)
    with pytest.raises(RecipeError, match="is another suite"):
        save_suite(part_of(small), tmp_path / "cut", continues=True)


def test_a_folder_whose_manifest_is_broken_is_not_overwritten_either(small: Suite, tmp_path: Path) -> None:
    folder = save_suite(small, tmp_path / "suite")
    (folder / "manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(RecipeError, match="is another suite"):
        save_suite(part_of(small), folder, continues=True)


def test_suites_that_commands_build_follow_the_same_rule(tmp_path: Path) -> None:
    build = ("suite", "build", "-o", "suite", "--n-tasks", 1, "--depth")
    assert cli(*build, 1).exit_code == 0
    assert cli(*build, 1).exit_code == 0
    refused = cli(*build, 2)
    assert "suite/suite.jsonl is another suite" in str(refused.exception)
    assert cli(*build, 2, "--force").exit_code == 0
    (tmp_path / "pairs.csv").write_text("instruction,first,second,better\nSay,a,b,1\n", encoding="utf-8")
    assert "is another suite" in str(cli("suite", "from-pairs", "pairs.csv", "-o", "suite").exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "0123456789", "9876543210", "--html"),
        ("suite", "export-inspect", "datasheet", "--log", "nowhere.eval", "-o"),
        ("batch", "export", "--model", "openai/gpt-4o-mini", "--suite", "datasheet-short", "-o"),
        ("suite", "show", "datasheet", "--table"),
        ("evaluate", "--judge", "scripted:Oracle", "--table"),
    ],
)
def test_a_file_that_is_there_is_named_before_anything_is_done(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("mine", encoding="utf-8")
    refused = cli(*arguments, "mine.csv")
    assert isinstance(refused.exception, RecipeError)
    assert "mine.csv exists" in str(refused.exception)
    assert "Give another name, or overwrite it with --force." in str(refused.exception)
    assert (tmp_path / "mine.csv").read_text(encoding="utf-8") == "mine"


def test_a_table_is_overwritten_where_that_was_said_on_either_side_of_it(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("mine", encoding="utf-8")
    for arguments in (("--force", "--table", "mine.csv"), ("--table", "mine.csv", "--force")):
        done = cli("suite", "show", "datasheet-short", *arguments)
        assert done.exit_code == 0, (done.output, done.exception)
    assert (tmp_path / "mine.csv").read_text(encoding="utf-8").count("\n") > 100


def test_a_forced_batch_export_leaves_no_part_of_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = ("batch", "export", "--model", "openai/gpt-4o-mini", "--suite", "datasheet-short", "-o", "requests.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(engine_batch, "export_batch", partial(engine_batch.export_batch, max_requests=100))
        assert cli(*export).exit_code == 0
    assert len(parts := sorted(tmp_path.glob("requests*"))) > 1
    assert re.search(r"requests-\d+\.jsonl exists", str(cli(*export).exception))
    assert cli(*export, "--force").exit_code == 0
    assert sorted(tmp_path.glob("requests*")) == [tmp_path / "requests.jsonl"] != parts


def test_every_option_that_names_an_output_comes_with_force() -> None:
    from click import Command, Group, Option

    def leaves(command: Command, name: str) -> list[tuple[str, Command]]:
        inner = command.commands.items() if isinstance(command, Group) else ()
        return [leaf for key, one in inner for leaf in leaves(one, f"{name} {key}")] or [(name, command)]

    commands = {name: group.get_command(None, name) for name in COMMANDS}  # type: ignore[arg-type]
    found = {}
    for name, command in (leaf for key, one in commands.items() if one for leaf in leaves(one, key)):
        flags = {flag for option in command.params if isinstance(option, Option) for flag in option.opts}
        if flags & {"-o", "--output", "--html", "--table", "--xlsx", "--export"}:
            found[name] = "--force" in flags
    assert found.keys() >= {"generate", "suite build", "suite from-pairs", "batch export", "compare"}
    assert all(found.values()), found
