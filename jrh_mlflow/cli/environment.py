"""Keys and settings from a `.env` file: what the command line adds to its environment before anything else."""

from __future__ import annotations

import io
import os
from pathlib import Path

from jrh_mlflow.errors import RecipeError

DEFAULT_FILE = ".env"
SWITCH = "JRH_NO_DOTENV"
"""Set to anything but 0 it has no `.env` read that was not named."""


def load_environment(file: str | None) -> None:
    """Add the variables of a file, or of `.env` in the working folder, that are not set already.

    Raises:
        RecipeError: when a file that was named is not there, or one is no list of NAME=VALUE lines in UTF-8. What it
            holds is never repeated: it may be a key.
    """
    # litellm would read the first .env above its own folder, whatever is said here.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    if file is None and (os.environ.get(SWITCH, "0") not in ("", "0") or not Path(DEFAULT_FILE).is_file()):
        return
    for name, value in _read(Path(file or DEFAULT_FILE)).items():
        os.environ.setdefault(name, value)


def _read(path: Path) -> dict[str, str]:
    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    switch = "" if str(path) != DEFAULT_FILE else f" Mend it, or leave it unread with {SWITCH}=1."
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is not UTF-8 at byte {error.start}.{switch}") from None
    except OSError as error:
        raise RecipeError(f"The environment file {path} cannot be read: {error.strerror}.{switch}") from error
    for binding in parse_stream(io.StringIO(text)):
        if binding.error or "\0" in (binding.value or ""):
            # A binding begins with the blank lines before it.
            blank = len(binding.original.string) - len(binding.original.string.lstrip())
            line = binding.original.line + binding.original.string[:blank].count("\n")
            raise RecipeError(f"{path}, line {line} is not NAME=VALUE.{switch}")
    read = dotenv_values(stream=io.StringIO(text))
    return {name: value for name, value in read.items() if value is not None}
