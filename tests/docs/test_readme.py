"""README.md: short, its lines run, and its table is the one of the pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

import pytest

from tests.docs.blocks import ROOT
from tests.docs.printed import Printed
from tests.docs.world import World
from tests.readme_table import short_table, whole_table

PAGE = "README.md"


def test_every_line_of_the_readme_runs(world: World) -> None:
    shutil.copytree(ROOT / "recipes", world.folder / "recipes")
    page = Printed(
        PAGE,
        world,
        names={"my_model": lambda instruction, first, second: "tie"},
        words={"RUN": lambda names: str(names["done"].run_id)},
        exits={"jrh gate": 1},  # whoever always ties sees no difference
    ).run()
    assert page.names["done"].metrics["dark_current/rate"] == 0.0
    assert len(page.commands) == 4


def test_the_readme_is_a_screen_and_a_half_and_begins_with_the_two_commands() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert text.count("\n") <= 110
    first = text.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert [line.partition("#")[0].strip() for line in first] == ["make demo", "make test"]
    assert text.count("![") == 1


@pytest.mark.parametrize(("page", "table"), [(PAGE, short_table), ("docs/howto/read_datasheet.md", whole_table)])
def test_how_to_read_a_datasheet_is_what_the_axes_declare(page: str, table: Callable[[], list[str]]) -> None:
    """`python -m tests.readme_table` and `--all` print both."""
    assert "\n".join(table()) in (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_names_the_extras_for_users() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]\n")[2]
    extras = re.findall(r"^(\w+) = \[", declared.partition("\n[")[0], re.MULTILINE)
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert "ray" in extras
    assert [extra for extra in extras if extra not in ("dev", "docs") and f'".[{extra}]"' not in text] == []
