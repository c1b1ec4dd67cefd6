"""The built documentation: no warning, nothing from outside, every link and anchor leads somewhere."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group as cli
from jrh_mlflow.options import GenerationSettings, JudgeOptions, Options, RunOptions
from jrh_mlflow.show.glossary import TERMS
from tests import processes
from tests.review.browser import chromium

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "srcset", "object": "data"}
"""What a browser fetches by itself, and where its address stands."""


class Page(HTMLParser):
    """Addresses and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors = {""}
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.anchors |= {of[name] for name in ("id", "name") if name in of}
        if address := of.get(LOADED.get(tag, "")):
            self.loaded.append(address)
        if tag == "a" and "href" in of:
            self.links.append(of["href"])


SPHINX = "import gc, runpy; gc.disable(); runpy.run_module('sphinx', run_name='__main__')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    [options] = re.findall(r"python -m sphinx (.*) -d \S+ -b html", (ROOT / "Makefile").read_text(encoding="utf-8"))
    where = ("-b", "html", "-d", folder / "doctrees", ROOT / "docs", folder / "html")
    # A fifth of the work is to curl quotes, and to copy every public name into the navigation of every page.
    quick = ("-D", "toc_object_entries=0", "-D", "smartquotes=0")
    done = processes.run(SPHINX, *options.split(), *quick, *where)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_a_browser_fetches_nothing_from_outside(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        outside = [
            address
            for address in page.loaded
            if urlsplit(address).netloc or urlsplit(address).scheme not in ("", "data")
        ]
        assert not outside, path
    for sheet in site.rglob("*.css"):
        css = sheet.read_text(encoding="utf-8")
        addresses = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", css)
        assert not [found for found in addresses if urlsplit("".join(found)).scheme not in ("", "data")], sheet


def test_every_link_and_anchor_of_the_pages_leads_somewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            assert target.is_file(), f"{link} in {path.name}"
            if target in pages and to.fragment:
                assert unquote(to.fragment) in pages[target].anchors, f"{link} in {path.name}"


def test_every_page_is_reached_from_the_first(site: Path, pages: dict[Path, Page]) -> None:
    first = pages[site / "index.html"]
    reached = {(site / unquote(urlsplit(link).path)).resolve() for link in first.links}
    written = {site / path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert written - reached - {first.path} == set()


def test_every_public_name_is_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    anchors = pages[site / "reference" / "api.html"].anchors
    assert {f"jrh_mlflow.{name}" for name in jrh.__all__ if name != "scripted"} - anchors == set()
    judges = {name for name in jrh.scripted.__all__ if inspect.isclass(getattr(jrh.scripted, name))}
    bases = {"Scripted", "Shortcut"}
    assert {f"jrh_mlflow.scripted.{name}" for name in judges - bases} - anchors == set()


def test_the_reference_shows_nothing_private(site: Path, pages: dict[Path, Page]) -> None:
    anchors = pages[site / "reference" / "api.html"].anchors
    assert not [name for name in anchors if re.search(r"^jrh_mlflow\..*\._", name)]
    homes = {name.split(".")[1] for name in anchors if name.startswith("jrh_mlflow.")}
    assert homes <= {*jrh.__all__, "errors"}


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context)
        yield own.command_path, command, own
        if isinstance(command, click.Group):
            yield from commands(command, own)


def test_every_command_and_option_is_in_the_reference(site: Path, pages: dict[Path, Page]) -> None:
    page = pages[site / "reference" / "cli.html"]
    for path, command, context in commands(cli, click.Context(cli, info_name="jrh")):
        assert path.replace(" ", "-") in page.anchors
        section = page.text.partition(f'id="{path.replace(" ", "-")}"')[2].partition("</section>")[0]
        shown = html.unescape(re.sub(r"<[^>]+>", "", section))
        for parameter in command.get_params(context):
            for name in (*parameter.opts, *parameter.secondary_opts) if isinstance(parameter, click.Option) else ():
                assert getattr(parameter, "hidden", False) or name in shown, f"{path} {name}"


@pytest.mark.parametrize("model", [JudgeOptions, RunOptions, GenerationSettings])
def test_every_key_of_a_recipe_is_in_the_reference(model: type[Options], pages: dict[Path, Page], site: Path) -> None:
    text = pages[site / "reference" / "recipes.html"].text
    assert [key for key in model.model_fields if f'<span class="pre">{key}</span>' not in text] == []


def test_every_term_of_the_pages_is_in_the_glossary(pages: dict[Path, Page], site: Path) -> None:
    shown = html.unescape(re.sub(r"<[^>]+>", "", pages[site / "glossary.html"].text))
    assert [term for term, meaning in TERMS.items() if f"{term}" not in shown or meaning not in shown] == []


def test_the_picture_of_the_architecture_has_every_folder_of_the_package() -> None:
    picture = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    floors = set(re.findall(r"\w+", " ".join(re.findall(r'<text (?:x="36"|class="head")[^>]*>([^<]+)', picture))))
    folders = {path.parent.name for path in (ROOT / "jrh_mlflow").glob("*/__init__.py")}
    assert folders - floors == set()


def test_the_picture_of_the_architecture_is_readable_on_a_phone_and_scrolls_by_itself(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.goto((site / "architecture.html").as_uri())
        picture = "document.querySelector('img[src$=\"architecture.svg\"]')"
        assert page.evaluate(f"{picture}.width") >= 760, "letters of 14 in 920 are eleven pixels high"
        assert page.evaluate(f"{picture}.parentElement.clientWidth") < 390
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
