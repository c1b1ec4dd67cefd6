"""What pyproject.toml cannot say: the index shows README.md with whole addresses, for it has no files beside it."""

import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
LINK = re.compile(r"(!?)(\[[^\]]*\]|\[!\[[^\]]*\]\([^)]*\)\])\((?!https?://|#|mailto:)([^)\s]+)\)")
"""A link or picture in Markdown whose target is a file of the repository."""


def stated(pattern: str) -> str:
    """Return what a line of pyproject.toml states; Python 3.10 has no reader of TOML."""
    found = re.search(pattern, PROJECT, re.MULTILINE)
    if found is None:
        raise LookupError(f"pyproject.toml has no line like {pattern}.")
    return found[1]


def with_whole_addresses(markdown: str) -> str:
    """Return Markdown whose links and pictures lead to the files of this version."""
    repository = stated(r'^Source = "https://github\.com/([^"]+)"')
    tag = "v" + stated(r'^version = "([^"]+)"')

    def whole(link: re.Match[str]) -> str:
        shown, text, path = link.groups()
        root = (
            f"https://raw.githubusercontent.com/{repository}/{tag}"
            if shown
            else f"https://github.com/{repository}/blob/{tag}"
        )
        return f"{shown}{text}({root}/{path})"

    return LINK.sub(whole, markdown)


setup(
    long_description=with_whole_addresses((ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
