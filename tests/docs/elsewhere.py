"""Commands of the pages that cannot be run in place, and who runs them.

Servers run until somebody ends them, installations need an index, and `make test` is what runs this.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Where(NamedTuple):
    """Who runs a command that a page prints."""

    command: str
    """A regular expression that the whole command matches."""
    file: str
    """What runs it: a test, a workflow, or the Makefile."""
    text: str
    """A piece of that file: there it is run."""


ELSEWHERE = (
    Where(r"(DEMO=quick )?make demo", "Makefile", "$(BIN)/jrh demo"),
    Where(r"jrh demo", "tests/cli/test_cli_demo.py", "done = run(small)"),
    # In full it takes minutes to hours of one core; every part is run in its quick form.
    Where(r"python -m tests\.validation\b.*", "tests/validation/test_quick_form.py", "part.rows(SimulationSize(n=20"),
    Where(r"jrh evaluate recipes/ray_cluster.yaml", "tests/engine/test_ray.py", 'backend="ray"'),
    Where(r"jrh sweep recipes/sweep_postgres.yaml .*", "tests/sweeps/test_postgres.py", '"--worker"'),
    Where(r"jrh sweep recipes/sweep.yaml --max-usd 5", "tests/sweeps/test_recipes_sweep.py", 'sweep(tmp_path / "sweep'),
    Where(r"make test", "Makefile", "--jobs=2 types unit"),
    Where(r"python3 -m venv \.venv|\. \.venv/bin/activate", "tests/bare_installation.py", "venv"),
    Where(r"pip install nbclient ipykernel", "pyproject.toml", '"nbclient>='),
    Where(r"jupyter execute --inplace \S+", "tests/test_notebooks.py", "as_the_page_says"),
    Where(r"pip install \.", "tests/bare_installation.py", "pip"),
    Where(r"(\.venv/bin/)?jrh ui\b.*", "tests/tracking/test_server.py", "running_server"),
    Where(r"jrh review (?!.*--(finish|withdraw|status)).*", "tests/review/making.py", '[JRH, "review", *folders'),
)


def elsewhere(command: str) -> Where | None:
    """Who runs a command, if it is not run in place."""
    return next((where for where in ELSEWHERE if re.fullmatch(where.command, command)), None)
