"""Every piece of code in README.md and docs/ is run by a test, or by what a table names."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

import click
import pytest

from tests.docs.blocks import ROOT, RUN, Block, blocks, pages
from tests.docs.elsewhere import ELSEWHERE, Where, elsewhere
from tests.docs.printed import Printed
from tests.docs.world import World

WITH_CODE = [page for page in pages() if any(block.language in RUN for block in blocks(page))]


@cache
def claims() -> dict[str, Path]:
    """The pages that test modules run: by `Printed("docs/….md", …).run()`, or by a name at the top."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "Printed(" not in (text := path.read_text(encoding="utf-8")):
            continue
        tree = ast.parse(text)
        named = {
            target.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        # `Printed(…).run()`, or the same by a name that the page's own words need.
        made = {
            node.targets[0].id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        ran = [
            made.get(node.func.value.id) if isinstance(node.func.value, ast.Name) else node.func.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run"
        ]
        runs = [node.args[0] for node in ran if isinstance(node, ast.Call) and ast.unparse(node.func) == "Printed"]
        for page in (str(named[run.id]) if isinstance(run, ast.Name) else ast.literal_eval(run) for run in runs):
            assert page not in found, f"{path.name} and {found[page].name} run one page."
            found[page] = path
    return found


@pytest.mark.parametrize("page", WITH_CODE)
def test_a_page_with_code_is_run_by_one_module(page: str) -> None:
    assert page in claims()


def test_no_module_runs_a_page_that_is_gone() -> None:
    assert set(claims()) <= set(WITH_CODE)


def test_every_block_says_what_it_is() -> None:
    """A block without a language, or in one that no test knows, would never be run."""
    strange = [str(block) for page in pages() for block in blocks(page) if block.language not in (*RUN, "text")]
    assert not strange


@pytest.mark.parametrize("where", ELSEWHERE, ids=lambda where: where.command)
def test_what_is_not_run_in_place_is_run_where_the_table_says(where: Where) -> None:
    assert where.text in (ROOT / where.file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "command"),
    [
        (("demo",), "jrh demo"),
        (("demo", "DEMO=quick"), "jrh demo --quick"),
        (("demo", "DEMO=full"), "jrh demo --full"),
        (("test",), 'python -m pytest -m "not slow"'),
        (("test-mlflow", "MLFLOW=oldest"), "python3 -m tests.mlflow_versions oldest"),
    ],
)
def test_a_make_target_runs_the_command_that_the_pages_say(target: tuple[str, ...], command: str) -> None:
    done = subprocess.run(["make", "-n", *target], cwd=ROOT, capture_output=True, text=True, check=True)
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
    assert blocks(str(page)) == [Block(str(page), *block) for block in found]
