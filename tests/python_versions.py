"""The tests under several versions of Python: `make test-pythons`.

Each has an environment of its own, `.venv-python-VERSION/`, made when it is missing or the requirements changed.
Without a word every version that pyproject.toml names and that is installed here is tried; `TESTS` names files or
folders.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.environment import make
from tests.mlflow_versions import PROJECT, ROOT


def supported() -> list[str]:
    """Return the versions that the classifiers name, oldest first."""
    return re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PROJECT)


def interpreter(version: str) -> str | None:
    """Return where a version is installed: on the path, or where pyenv keeps it."""
    kept = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python3"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


def environment(version: str, base: str) -> Path:
    """Return the Python of an environment with the package and the extra `dev`, made where there is none."""
    folder = ROOT / f".venv-python-{version}"
    python, made_for = folder / "bin" / "python", folder / "made-for.toml"
    if made_for.is_file() and made_for.read_text(encoding="utf-8") == PROJECT:
        return python
    make(folder, "--upgrade", "--editable", f"{ROOT}[dev]", base=base)
    made_for.write_text(PROJECT, encoding="utf-8")
    return python


def run(version: str, tests: list[str]) -> tuple[str, bool]:
    """Run the tests; return what pytest says at the end, and whether all passed."""
    base = interpreter(version)
    if base is None:
        return "not installed here", False
    command = [environment(version, base), "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "--tb", "short"]
    with subprocess.Popen([*command, *tests], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        last = ""
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line.strip() or last
    return last, process.returncode == 0


def main(versions: list[str]) -> int:
    """Try each version and print them side by side."""
    wanted = versions or [version for version in supported() if interpreter(version)]
    results = {version: run(version, os.environ.get("TESTS", "").split()) for version in wanted}
    for version, (last, _) in results.items():
        print(f"Python {version}: {last}")
    return 0 if all(passed for _, passed in results.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
