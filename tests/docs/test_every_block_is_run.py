"""Every piece of code in README.md and docs/ is run by a test, or by what a table names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import click
import pytest

from tests.benchmarks import words_of_docs
from tests.docs.blocks import ROOT, RUN, Block, blocks, claims, not_run, pages
from tests.docs.elsewhere import ELSEWHERE, Where, elsewhere
from tests.docs.printed import Printed
from tests.docs.world import World

WITH_CODE = [page for page in pages() if any(block.language in RUN for block in blocks(page))]


@pytest.mark.parametrize("page", pages())
def test_every_block_of_a_page_is_run_by_one_module(page: str) -> None:
    assert not [str(block) for block in not_run(page)]


@pytest.mark.parametrize("page", words_of_docs.howtos())
def test_a_how_to_page_is_short(page: str) -> None:
    assert not words_of_docs.problems(page)


def test_a_how_to_page_that_is_too_long_fails_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_of_docs, "howtos", lambda: ["docs/howto/demo.md"])
    assert words_of_docs.main() == 0
    monkeypatch.setattr(words_of_docs, "MOST_WORDS", 100)
    assert words_of_docs.main() == 1


def test_no_module_runs_a_page_that_is_gone() -> None:
    assert set(claims()) <= set(WITH_CODE)


@pytest.mark.parametrize("where", ELSEWHERE, ids=lambda where: where.command)
def test_what_is_not_run_in_place_is_run_where_the_table_says(where: Where) -> None:
    assert where.text in (ROOT / where.file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "command"),
    [
        (("demo",), "jrh demo"),
        (("demo", "DEMO=quick"), "jrh demo --quick"),
        (("test",), 'python -m pytest -m "not slow"'),
        (("test-mlflow", "MLFLOW=oldest"), "python3 -m tests.mlflow_versions oldest"),
    ],
)
def test_a_make_target_runs_the_command_that_the_pages_say(target: tuple[str, ...], command: str) -> None:
    # Whatever the tests themselves were made with: `make test PYTHON=…`.
    plain = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "PYTHON", "VENV"}}
    done = subprocess.run(["make", "-n", *target], cwd=ROOT, env=plain, capture_output=True, text=True, check=True)
    assert command in [line.strip().removeprefix(".venv/bin/") for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "command", ["DEMO=bogus make demo", "make test-mlflow MLFLOW=nonsense", "mlflow server --no-such"]
)
def test_a_command_that_does_not_exist_is_run_by_nobody(command: str) -> None:
    assert elsewhere(command) is None


@pytest.mark.parametrize("command", [".venv/bin/jrh ui --no-such", "jrh review --no-such"])
def test_options_of_what_is_run_elsewhere_are_read(command: str, world: World, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```sh\n{command}\n```\n", "utf-8")
    # Under another name: what is run here is no page of the documentation.
    run_printed = Printed
    with pytest.raises(click.NoSuchOption):
        run_printed(str(page), world).run()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- so:\n\n  ```python\n  a = 1\n  ```\n", [(4, "python", "a = 1\n")]),
        ("````sh\njrh demo\n```\n````\n", [(2, "sh", "jrh demo\n```\n")]),
        ("~~~python\na = 1\n~~~\n", [(2, "python", "a = 1\n")]),
        ("> ```sh\n> jrh demo\n> ```\n", [(2, "sh", "jrh demo\n")]),
        ("So:\n\n    jrh nonsense\n", [(3, "", "jrh nonsense\n")]),
        ("```{code-block} python\na = 1\n```\n", [(2, "{code-block} python", "a = 1\n")]),
        ("```{eval-rst}\n.. code:: sh\n\n   jrh\n```\n", [(2, "{eval-rst}", ".. code:: sh\n\n   jrh\n")]),
        ("```{toctree}\nx\n```\n", []),
    ],
)
def test_blocks_of_every_form_are_found(text: str, found: list[tuple[int, str, str]], tmp_path: Path) -> None:
    """What is not told as code in a language that is run is refused by the test above."""
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    assert blocks(str(page)) == [Block(str(page), *block, heading="") for block in found]
