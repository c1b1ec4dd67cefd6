"""The notebook of the first hour runs from top to bottom, quietly, and is small enough to read on a web page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.docs.blocks import blocks
from tests.kernels import read_notebook, run_notebook

FIRST_HOUR = Path(__file__).parent.parent / "recipes" / "first_hour.ipynb"
BAR = re.compile(r"[\w ]+: +\d+%\|.*")
"""A progress bar of text; nothing else may be on standard error."""

pytestmark = pytest.mark.drawn


@pytest.fixture(scope="module")
def cells(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells that ran, in a store whose tables are made; a last one tells whether pyplot was loaded."""
    notebook = read_notebook(FIRST_HOUR)
    pyplot = nbformat.v4.new_code_cell("import sys\nprint('matplotlib.pyplot' in sys.modules)")
    notebook.cells.append(pyplot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", store_uri)
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        ran = run_notebook(notebook, tmp_path_factory.mktemp("work"))
    return [cell for cell in ran.cells if cell.cell_type == "code"]


def written(cell: Any, stream: str) -> str:
    return "".join(output["text"] for output in cell.outputs if output.get("name") == stream)


def test_every_cell_runs_and_writes_nothing_but_bars_to_standard_error(cells):
    lines = [line for cell in cells for line in re.split("[\r\n]", written(cell, "stderr")) if line.strip()]
    assert [line for line in lines if not BAR.fullmatch(line)] == []


def test_an_evaluation_shows_its_bar_in_a_notebook(cells):
    (evaluated,) = [cell for cell in cells if "jrh.evaluate(word_counter" in cell.source]
    assert re.search(r"word_counter: 100%\|█+\| 1064/1064 .*call/s", written(evaluated, "stderr"))


def test_results_come_as_cards_and_figures_without_pyplot(cells):
    shown = [set(output["data"]) for cell in cells for output in cell.outputs if "data" in output]
    assert sum("text/html" in kinds for kinds in shown) >= 5
    assert sum("image/png" in kinds for kinds in shown) == 3
    assert written(cells[-1], "stdout").strip() == "False"


def test_the_notebook_is_committed_with_small_outputs_and_without_bars():
    notebook = read_notebook(FIRST_HOUR)
    assert FIRST_HOUR.stat().st_size < 200_000
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(written(cell, "stderr") for cell in code)
    assert sum("image/png" in output.get("data", {}) for cell in code for output in cell.outputs) == 3


@pytest.mark.slow
def test_a_notebook_runs_as_the_page_says_with_what_it_installs(tmp_path):
    """A reader has the package and what the page installs, and none of the tests' own modules."""
    [printed] = [block for block in blocks("docs/howto/notebooks.md") if block.language == "sh"]
    install, execute = (shlex.split(line, comments=True) for line in printed.text.splitlines())
    scripts = {script.name for name in install[2:] for script in distribution(name).entry_points}
    assert f"{execute[0]}-{execute[1]}" in scripts
    assert execute[-1] == FIRST_HOUR.relative_to(FIRST_HOUR.parents[1]).as_posix()
    small = tmp_path / "small.ipynb"
    cell = nbformat.v4.new_code_cell("import jrh_mlflow as jrh\nlen(jrh.load_suite('datasheet-short'))")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=read_notebook(FIRST_HOUR).metadata), small)
    command = Path(sys.executable).with_name(execute[0])
    subprocess.run([command, *execute[1:-1], small], check=True, capture_output=True, cwd=FIRST_HOUR.parents[1])
    assert read_notebook(small).cells[0].outputs[0]["data"]["text/plain"] == "64"
