"""Files that a user names: results overwrite nothing unless that was said, and packed data have a limit."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

from jrh_mlflow.errors import RecipeError


def check_free(path: str | Path, *, force: bool, holds: str = "") -> None:
    """Refuse to overwrite what lies at a path already; called before anything is paid or logged.

    Args:
        path: What is to be written.
        force: Whether overwriting was asked for.
        holds: What lies there, where more is known than that it exists.

    Raises:
        RecipeError: naming it, and the two ways out.
    """
    if not force and Path(path).exists():
        raise RecipeError(f"{path} {holds or 'exists already'}. Give another name, or overwrite it with --force.")


MAX_UNPACKED = 4 * 2**30
"""Bytes of one file, unpacked."""
MAX_RATIO = 200
"""Unpacked to packed bytes; JSON lines of one prompt, over and over, come to about 100."""
_SMALL = 64 * 2**20
"""Unpacked bytes that are no burden, whatever the ratio."""


def check_packed(path: Path) -> None:
    """Refuse a packed file (gzip or zip) that would grow out of all proportion, before it is read.

    A zip file is taken at its word: nobody reads more of a part than is declared.

    Raises:
        RecipeError: naming it.
    """
    limit = min(MAX_UNPACKED, max(_SMALL, MAX_RATIO * path.stat().st_size))
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    elif path.suffix.lower() != ".gz":
        return
    else:
        size = 0
        with gzip.open(path) as content:
            while size <= limit and (piece := content.read(2**20)):
                size += len(piece)
    if size > limit:
        raise RecipeError(
            f"{path.name} would unpack to more than {limit // 2**20} MiB ({MAX_RATIO} times its size at most). "
            "If you trust it, unpack it yourself."
        )
