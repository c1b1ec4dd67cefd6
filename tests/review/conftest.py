"""A browser for each file of tests, and pages of a review that somebody opened in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.review.browser import PATIENCE_MS, Open, Serve, chromium, served, ten

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a suite until the test's pages are closed."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(served(folder))


class Windows:
    """Pages of a file's tests: one that a test has left is used by the next, since a new one works for two seconds."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: dict[str, list[Page]] = {}
        self._taken: list[tuple[str, Page]] = []
        self._complaints: list[str] | None = None

    def take(self, complaints: list[str], **options: Any) -> Page:
        """Give a page with a store of its own, that of somebody who was never here."""
        self._complaints = complaints
        kind = repr(options)
        free = self._free.setdefault(kind, [])
        page = free.pop() if free else self._new(**options)
        page.set_viewport_size(options["viewport"])
        page.emulate_media(color_scheme="light")
        self._taken.append((kind, page))
        return page

    def leave(self) -> None:
        """Leave all pages, and nothing in them."""
        self._complaints = None
        while self._taken:
            kind, page = self._taken.pop()
            page.unroute_all(behavior="ignoreErrors")
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
            page.goto("about:blank")
            page.context.clear_cookies()
            self._free[kind].append(page)

    def _new(self, **options: Any) -> Page:
        page = self._browser.new_context(**options).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", self._asked)
        page.on("pageerror", lambda error: self._say(f"error {error}"))
        page.on("console", lambda said: self._say(said.text) if _complains(said) else None)
        return page

    def _say(self, complaint: str) -> None:
        if self._complaints is not None:
            self._complaints.append(complaint)

    def _asked(self, dialog: Dialog) -> None:
        if self._complaints is None:  # whether to leave the page
            dialog.accept()
        else:
            self._say(f"dialog {dialog.message}")
            dialog.dismiss()


@pytest.fixture(scope="module")
def windows(browser: Browser) -> Windows:
    return Windows(browser)


@pytest.fixture
def visit(windows: Windows, serve: Serve) -> Iterator[Open]:
    """Open the page as somebody with a browser of their own; the test fails when the page complained."""
    from playwright.sync_api import expect

    complaints: list[str] = []

    def go(url: str, name: str | None = "Ann", prepare: Callable[[Page], None] | None = None, **options: Any) -> Page:
        page = windows.take(complaints, **{"viewport": {"width": 1280, "height": 800}, **options})
        if prepare:
            prepare(page)
        page.goto(url)
        expect(page.locator("#your-name")).to_be_focused()
        if name:
            page.keyboard.type(name)
            page.keyboard.press("Enter")
            expect(page.locator("#item-title")).to_be_visible()
        return page

    go.complaints = complaints  # type: ignore[attr-defined]
    yield go
    windows.leave()
    assert not complaints


@pytest.fixture
def frost(tmp_path: Path, serve: Serve) -> tuple[str, Path]:
    folder = ten(tmp_path / "frost")
    return serve(folder), folder


def _complains(said: ConsoleMessage) -> bool:
    """A refused decision is answered with 409, which Chromium writes to the console; the page shows why."""
    return said.type == "error" and "409 (Conflict)" not in said.text
