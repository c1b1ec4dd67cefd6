"""The package as a stranger gets it: `make test-package`.

Built in isolation into `dist/`, checked as the index would, installed with all its requirements from the index into an
empty environment, and run in a folder that has nothing to do with this one. tests/test_package.py looks at the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"


def run(*command: str | Path, cwd: Path) -> None:
    """Run a program that knows nothing of the checkout, and end where it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    print("$", *command, flush=True)
    subprocess.run(command, cwd=cwd, env=environment, check=True)


def with_packages(folder: Path, *packages: str | Path) -> Path:
    """Make an environment with some packages; return where its programs are."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(folder / "bin" / "python", *install, *packages, cwd=folder.parent)
    return folder / "bin"


def main() -> int:
    """Build, install and run; say how long each took."""
    with tempfile.TemporaryDirectory() as name:
        folder, took, started = Path(name), {}, time.monotonic()
        shutil.rmtree(DIST, ignore_errors=True)
        tools = with_packages(folder / "tools", "build", "twine")
        run(tools / "python", "-m", "build", "--outdir", DIST, ROOT, cwd=folder)
        run(tools / "python", "-m", "twine", "check", "--strict", *sorted(DIST.iterdir()), cwd=folder)
        took["built"] = time.monotonic() - started
        (wheel,) = DIST.glob("*.whl")
        bare = with_packages(folder / "bare", wheel)
        took["installed"] = time.monotonic() - started
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        run(bare / "jrh", "--version", cwd=elsewhere)
        run(bare / "jrh", "demo", "--quick", cwd=elsewhere)
        took["ran"] = time.monotonic() - started
    print(", ".join(f"{what} after {seconds:.0f} s" for what, seconds in took.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
