"""A browser for each file of tests, and pages of a review that somebody opened in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.review.browser import PATIENCE_MS, Open, Serve, chromium, served, ten

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a suite until the test's pages are closed."""
    with ExitStack() as stack:
        yield lambda folder: stack.enter_context(served(folder))


@pytest.fixture
def visit(browser: Browser, serve: Serve) -> Iterator[Open]:
    """Open the page as somebody with a browser of their own; the test fails when the page complained."""
    from playwright.sync_api import expect

    contexts, complaints = [], []

    def go(url: str, name: str | None = "Ann", **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("dialog", lambda dialog: (complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("pageerror", lambda error: complaints.append(f"error {error}"))
        page.on("console", lambda said: complaints.append(said.text) if _complains(said) else None)
        page.goto(url)
        expect(page.locator("#your-name")).to_be_focused()
        if name:
            page.keyboard.type(name)
            page.keyboard.press("Enter")
            expect(page.locator("#item-title")).to_be_visible()
        return page

    go.complaints = complaints  # type: ignore[attr-defined]
    yield go
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def frost(tmp_path: Path, serve: Serve) -> tuple[str, Path]:
    folder = ten(tmp_path / "frost")
    return serve(folder), folder


def _complains(said: ConsoleMessage) -> bool:
    """A refused decision is answered with 409, which Chromium writes to the console; the page shows why."""
    return said.type == "error" and "409 (Conflict)" not in said.text
