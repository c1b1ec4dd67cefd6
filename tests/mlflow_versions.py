"""The tests that touch MLflow, under several versions of it: `make test-mlflow`.

Each has an environment of its own, `.venv-mlflow-VERSION/`, made when it is missing or the requirements changed.
`oldest` is the lower bound in pyproject.toml, `newest` what the index has; any other word is a version.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.environment import make

ROOT = Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\n[tool.")[0]
"""What pyproject.toml requires, without the settings of tools below it."""
FOLDERS = ("tracking", "exporting")
"""Whole folders of tests; of the others, the files that use MLflow's judges, give it ours, or have it in their name."""
TOUCHES = re.compile(r"(?<!_)mlflow\.genai\b|\.to_mlflow\b|\bmlflow_chat\b")
TOOLS = (
    "pytest",
    "hypothesis",
    "openpyxl",
    "psycopg",
    "inspect_ai",
    "setuptools",
    "playwright",
    "axe-playwright-python",
    "ipykernel",
)
"""What of the extra `dev` these tests need."""


def oldest() -> str:
    """Return the lower bound that the package states.

    Raises:
        LookupError: when it states none.
    """
    found = re.search(r'"mlflow>=([\d.]+)"', PROJECT)
    if found is None:
        raise LookupError("pyproject.toml requires no mlflow>=VERSION.")
    return found[1]


def files() -> Iterator[str]:
    """Yield the test files that touch MLflow."""
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        folder = path.relative_to(ROOT / "tests").parts[0]
        if folder in FOLDERS or "mlflow" in path.name or TOUCHES.search(path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT))


def environment(version: str) -> Path:
    """Return the Python of an environment with a version of MLflow, made where there is none."""
    folder = ROOT / f".venv-mlflow-{version}"
    python, made_for = folder / "bin" / "python", folder / "made-for.toml"
    if made_for.is_file() and made_for.read_text(encoding="utf-8") == PROJECT:
        return python
    wanted = {"oldest": f"mlflow=={oldest()}", "newest": "mlflow"}.get(version, f"mlflow=={version}")
    make(folder, "--upgrade", "--editable", str(ROOT), wanted, *tools())
    if version == "newest":
        _whole_wheel(python)
    made_for.write_text(PROJECT, encoding="utf-8")
    return python


def _whole_wheel(python: Path) -> None:
    """Install the newest MLflow also where an index lacks the parts that it requires: its wheel holds them all."""
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    before = installed(python)
    subprocess.run([*install, "--upgrade", "--no-deps", "mlflow"], check=True)
    if (found := installed(python)) != before:
        subprocess.run(
            [python, "-m", "pip", "uninstall", "--quiet", "--yes", "mlflow-skinny", "mlflow-tracing"], check=True
        )
        subprocess.run([*install, "--force-reinstall", "--no-deps", f"mlflow=={found}"], check=True)


def installed(python: Path) -> str:
    """Return the version of MLflow that an environment really has."""
    asked = "import importlib.metadata as m; print(m.version('mlflow'))"
    return subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()


def tools() -> list[str]:
    """Return the requirements of the tests, as the extra `dev` states them."""
    names = "|".join(TOOLS)
    return sorted(set(re.findall(rf'^  "((?:{names})\b[^"]*)"', PROJECT, re.MULTILINE)))


def run(version: str) -> tuple[str, str, bool]:
    """Run the tests; return the version that was really there, what pytest says at the end, and whether all passed."""
    python = environment(version)
    command = [python, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "--tb", "short", "-ra", *files()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tests:
        last = ""
        for line in tests.stdout or ():
            print(line, end="", flush=True)
            last = line.strip() or last
    return installed(python), last, tests.returncode == 0


def main(versions: list[str]) -> int:
    """Try each version and print them side by side."""
    results = [run(version) for version in versions or ["oldest", "newest"]]
    for found, last, _ in results:
        print(f"mlflow {found}: {last}")
    return 0 if all(passed for *_, passed in results) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
