"""Links between the files that people read on GitHub: the file is there, and so is the heading."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.blocks import ROOT, pages

pytestmark = pytest.mark.quick

READ = [*pages(), "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
_CODE = re.compile(r"^( *)(`{3,}).*?^\1\2`* *$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """The text without its code; what a link shows may be code."""
    return _CODE.sub("code", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2`* *$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", READ)
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: str) -> None:
    path = ROOT / page
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / unquote(name)).resolve() if name else path
        assert target.exists(), f"{page}: {link}"
        assert target.is_relative_to(ROOT), f"{page}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page}: {link}"


def test_every_picture_of_the_pages_is_one() -> None:
    shown = [
        (ROOT / page).parent / name
        for page in pages()
        for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", prose(ROOT / page))
    ]
    assert len(shown) > 5
    for picture in shown:
        assert picture.read_bytes().startswith((b"\x89PNG", b"<svg")), picture
