"""An environment with what is required of the index: `python3 -m tests.environment FOLDER REQUIREMENT…`.

uv installs in a minute what takes pip four. It reads none of pip's settings, though: where it finds no index, pip is
asked. Certificates are those of the system, as with pip. Nothing is compiled beforehand: a fifth of it is ever
imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def make(folder: str | Path, *requirements: str, base: str = sys.executable) -> Path:
    """Make an environment, or bring one up to date; return its Python.

    Raises:
        subprocess.CalledProcessError: when pip, asked last, could not install it.
    """
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = Path(folder) / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python]
    try:
        subprocess.run([*pip, "uv"], check=True)
        subprocess.run([*uv, *requirements], check=True, env={"UV_SYSTEM_CERTS": "true", **os.environ})
    except subprocess.CalledProcessError:
        print("uv could not install it: pip, which takes longer, tries.", file=sys.stderr, flush=True)
        subprocess.run([*pip, *requirements], check=True)
    return python


if __name__ == "__main__":
    try:
        make(*sys.argv[1:])
    except subprocess.CalledProcessError as error:
        raise SystemExit(error.returncode) from None
