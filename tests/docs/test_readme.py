"""README.md: short, its lines run, and its table is the one of the pages."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import jrh_mlflow as jrh
from jrh_mlflow.show.plain_text import wrapped_line
from tests.docs.blocks import ROOT
from tests.docs.printed import Printed
from tests.docs.world import World
from tests.readings import asked
from tests.readme_table import limits_table, short_table, whole_table
from tests.review.browser import chromium

PAGE = "README.md"
LIKE_GITHUB = """
body { width: 980px; margin: auto; font: 16px/1.5 sans-serif }
img { max-width: 100% }
table { border-collapse: collapse }
td, th { padding: 6px 13px; border: 1px solid #ccc }
pre { padding: 16px; font-size: 13px; background: #eee }
"""


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


def test_the_verdict_that_the_pages_show_is_the_one_measured() -> None:
    # The suite that a command takes where none is named; tests of docs read a small one under its name.
    sheet = jrh.measure(asked(jrh.scripted.AlwaysFirst(), jrh.datasheet_suite()), n_resamples=20)
    lines = [line for sentence in sheet.verdict.sentences for line in wrapped_line("", sentence)]
    for page in (PAGE, "docs/howto/read_datasheet.md"):
        assert "```text\n" + "\n".join(lines) + "\n```" in (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_begins_with_the_two_commands_and_has_one_picture() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    first = text.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert [line.partition("#")[0].strip() for line in first] == ["make demo", "make test", "pip install ."]
    assert text.count("![") == 1


def test_the_readme_is_two_screens() -> None:
    """As a browser draws it: a screen has about 1,200 lines of pixels."""
    text = MarkdownIt("commonmark", {"html": True}).enable("table").render((ROOT / PAGE).read_text(encoding="utf-8"))
    body = text.replace('src="docs/', f'src="{(ROOT / "docs").as_uri()}/')
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        drawn = Path(folder) / "readme.html"
        drawn.write_text(f"<!doctype html><meta charset=utf-8><style>{LIKE_GITHUB}</style>{body}", encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(drawn.as_uri())
        height, picture = page.evaluate("[document.documentElement.scrollHeight, document.images[0].height]")
    assert 200 < picture <= 400
    assert height <= 2400


@pytest.mark.parametrize(
    ("page", "table"),
    [
        (PAGE, short_table),
        ("docs/reference/axes.md", whole_table),
        ("docs/reference/axes.md", limits_table),
    ],
)
def test_how_to_read_a_datasheet_is_what_the_axes_declare(page: str, table: Callable[[], list[str]]) -> None:
    """`python -m tests.readme_table`, with `--all` or `--limits`, prints them."""
    assert "\n".join(table()) in (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_names_the_extras_for_users() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]\n")[2]
    extras = re.findall(r"^(\w+) = \[", declared.partition("\n[")[0], re.MULTILINE)
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert "ray" in extras
    assert [extra for extra in extras if extra not in ("dev", "docs", "wrapped") and f'".[{extra}]"' not in text] == []
