"""Real notebook kernels: code in, the outputs of its cells out.

`python -m tests.kernels recipes/first_hour.ipynb` runs a notebook and saves it with its outputs, small.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

from tests import processes
from tests.example_store import packed_picture
from tests.waiting import wait_until

with warnings.catch_warnings():
    # Jupyter's own libraries tell of one another's plans while they are loaded.
    warnings.simplefilter("ignore")
    import nbformat
    from jupyter_client import launcher
    from nbclient import NotebookClient

_KERNEL = "from ipykernel import kernelapp; kernelapp.launch_new_instance()"


def read_notebook(path: str | Path) -> Any:
    """Read a notebook of the current format."""
    return nbformat.read(path, as_version=4)


def run_notebook(notebook: Any, folder: str | Path = ".") -> Any:
    """Run every cell in a kernel of its own that works in `folder`; a cell that fails raises."""
    with warnings.catch_warnings(), mock.patch.object(launcher, "Popen", _forked):
        warnings.simplefilter("ignore")
        place = {"metadata": {"path": str(folder)}}
        return NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()


def _forked(command: list[str], **options: Any) -> processes.Forked:
    """Start a kernel without the seconds in which it imports what the cells need."""
    _, module, *arguments = command[command.index("-m") :]
    assert module == "ipykernel_launcher", command
    process = processes.Forked(_KERNEL, *arguments, **options)
    # Jupyter interrupts the whole group of a kernel: until it has its own, that is the one of the template.
    wait_until(lambda: os.getpgid(process.pid) == process.pid)
    return process


def outputs_of(code: str) -> list[Any]:
    """Run one cell and return its outputs."""
    cell = nbformat.v4.new_code_cell(textwrap.dedent(code))
    return run_notebook(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs


def save_with_outputs(path: str | Path) -> None:
    """Run a notebook and write its outputs into it: without progress bars, pictures with few colours."""
    notebook = read_notebook(path)
    with tempfile.TemporaryDirectory() as folder:
        run_notebook(notebook, folder)
    for number, cell in enumerate(one for one in notebook.cells if one.cell_type == "code"):
        cell.execution_count = number + 1
        cell.metadata = {}
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _small(output.data["image/png"])
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    # The name of a folder that is gone changes with every run.
    text = re.sub(r"(first-hour)-\w+", r"\1", nbformat.writes(notebook))
    Path(path).write_text(text + "\n", encoding="utf-8")


def _small(picture: str) -> str:
    return base64.b64encode(packed_picture(base64.b64decode(picture), n_colours=64)).decode()


if __name__ == "__main__":
    save_with_outputs(sys.argv[1])
