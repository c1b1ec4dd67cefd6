"""Real notebook kernels: code in, the outputs of its cells out."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    # Jupyter's own libraries tell of one another's plans while they are loaded.
    warnings.simplefilter("ignore")
    import nbformat
    from nbclient import NotebookClient


def run_notebook(notebook: Any, folder: str | Path = ".") -> Any:
    """Run every cell in a kernel of its own that works in `folder`; a cell that fails raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NotebookClient(
            notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
        ).execute()


def outputs_of(code: str) -> list[Any]:
    """Run one cell and return its outputs."""
    cell = nbformat.v4.new_code_cell(textwrap.dedent(code))
    return run_notebook(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
