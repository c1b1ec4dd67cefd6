"""A real Chromium and a real server for the tests of the review page, and suites to review."""

from __future__ import annotations

import json
import re
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.review.app import review_app
from jrh_mlflow.review.contents import ReviewCatalog
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import PARTIAL_FILE, Suite, item_line
from tests.once import once, start, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
"""Open the page at an address, as somebody of a name."""
Serve = Callable[[Path], str]
"""Serve a suite's folder and return the address of its page."""

CHROMIUM = "/usr/bin/chromium"
TOKEN = "a-token-for-the-tests-only"
PATIENCE_MS = 120_000
"""How long a page may take: on a machine that is busy with other tests, seconds say nothing."""
_ARGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")

RESPONSE = (
    "Frost forms when the surface of a pane is colder than 0 °C and the air beside it is moist. "
    "Water vapour turns into ice without becoming liquid first.\n\n"
    "  - It needs still air.\n"
    "  - It begins at scratches and dust.\n"
)
RUBRIC = "Grade how well the reply answers the question, from 1 (useless) to 4 (complete and correct)."
LABELS = ("1", "2", "3", "4")


@contextmanager
def chromium() -> Iterator[Any]:
    """Give the browser of this test run; what is opened in it here is closed at the end."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    address = once("chromium", _start).read_text(encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect(address)
        yield browser
        browser.close()


def looks(page: Page, narrow: int = 390) -> Iterator[int]:
    """Show an open page on a desk by day, then on a phone by night, and give the width of each."""
    for scheme, width in (("light", 1280), ("dark", narrow)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        yield width


def show_next(page: Page, address: str) -> None:
    """Show a served page without scripts in the place of the one that is open: axe stays loaded and warm."""
    page.set_content(page.request.get(address).text())


def violations(page: Page, within: str = "body") -> list[tuple[str, str]]:
    """Return the accessibility rules that an open page breaks, and where first; of a dialog, `within` it."""
    from axe_playwright_python.base import AXE_SCRIPT

    if page.evaluate("!window.axe"):
        page.evaluate(AXE_SCRIPT)
    return [(rule, place) for rule, place in page.evaluate(_VIOLATIONS, within)]


_VIOLATIONS = """async (within) => {
  const looks = new Map(), seen = new Set();
  const look = (one) => {
    if (one && !looks.has(one)) {
      const { color, backgroundColor, backgroundImage, fontSize, fontWeight, opacity } = getComputedStyle(one);
      const own = [color, backgroundColor, backgroundImage, fontSize, fontWeight, opacity, one.getAttribute("class")];
      looks.set(one, `${look(one.parentElement)}\\n${one.localName},${own}`);
    }
    return looks.get(one);
  };
  for (const one of document.querySelectorAll("body *")) {
    const speaks = one.matches("input, select, textarea") || [...one.childNodes].some(({ data }) => data?.trim());
    one.toggleAttribute("data-first", speaks && !seen.has(look(one)));
    if (speaks) seen.add(look(one));
  }
  axe.configure({ rules: [{ id: "color-contrast", selector: "[data-first]" }] });
  // With the same elements in sight, another look can break only rules about looks.
  const visible = [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility());
  const markup = document.documentElement.outerHTML.replaceAll(' data-first=""', "");
  const { visible: before, ...last } = window.audited ?? {};
  const same = last.within === within && last.markup === markup && !last.broken
    && before.length === visible.length && before.every((one, place) => one === visible[place]);
  const of = same ? { runOnly: ["color-contrast", "link-in-text-block", "region", "scrollable-region-focusable"] } : {};
  const { violations } = await axe.run(document.querySelector(within), { resultTypes: ["violations"], ...of });
  window.audited = { visible, markup, within, broken: violations.length > 0 };
  return violations.map((one) => [one.id, one.nodes[0].html]);
}"""
"""The contrast of a text takes most of the time, and is that of every other text with the same styles around it."""


def _start(place: Path) -> None:
    """Start a browser that any number of processes can use, and write its address into a file."""
    from playwright._impl._driver import compute_driver_executable, get_driver_env

    folder = Path(tempfile.mkdtemp(prefix="jrh-chromium-"))
    options, log = folder / "options.json", folder / "log"
    options.write_text(json.dumps({"executablePath": CHROMIUM, "args": _ARGS}), encoding="utf-8")
    command = (*compute_driver_executable(), "launch-server", "--browser", "chromium", "--config", options)
    start(folder, *command, env=get_driver_env())
    place.write_text(wait_for(lambda: _address(log), log=log), encoding="utf-8")


def _address(log: Path) -> str | None:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return next((line for line in lines if line.startswith("ws://")), None)


@contextmanager
def served(*folders: Path) -> Iterator[str]:
    """Serve suites and give the link with its token."""
    import uvicorn

    app = review_app(ReviewCatalog(list(folders)), token=TOKEN)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/?token={TOKEN}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
        assert not thread.is_alive()


def perturbed(
    number: int, test: str, text: str, *, original: str = RESPONSE, expected: str = "3", **meta: Any
) -> tuple[Item, Item]:
    """Return a baseline and the item made from it."""
    shared: dict[str, Any] = {
        "task": f"seed-{number:04d}",
        "kind": "response",
        "instruction": "Why does frost form on the inside of a window?",
        "rubric": RUBRIC,
        "answers": LABELS,
    }
    about = {"test": test, "generator": "a-model", "attempts": 1, "validator": expected, "similarity": 0.8712, **meta}
    base = Item(id=f"seed-{number:04d}/baseline", condition=BASELINE, response=original, expected="3", **shared)
    item = Item(id=f"seed-{number:04d}/{test}", condition=test, response=text, expected=expected, meta=about, **shared)
    return base, item


def save(folder: Path, pairs: Sequence[tuple[Item, Item]], *, name: str = "frost") -> Path:
    """Write a suite of such items."""
    path: Path = Suite(name=name, items=[item for pair in pairs for item in pair]).save(folder)
    return path


def grow(folder: Path, *pairs: tuple[Item, Item]) -> None:
    """Append items to a suite that is still generated."""
    with (folder / PARTIAL_FILE).open("ab") as file:
        file.write(b"".join(item_line(item) for pair in pairs for item in pair))


def ten(folder: Path) -> Path:
    """Write a suite of ten perturbed items of three tests; one failed its validator."""
    flipped = RESPONSE.replace("colder", "warmer").replace("moist", "dry")
    laid_out = RESPONSE.replace("\n\n", "\n").replace("  - ", "- ").replace("ice without", "ice  without")
    reworded = RESPONSE.replace("Water vapour turns into ice", "The vapour in the air becomes ice")
    kinds = [("label_flip", flipped, "1"), ("format_invariance", laid_out, "3"), ("semantic_paraphrase", reworded, "3")]
    pairs = []
    for number in range(10):
        test, text, expected = kinds[number % 3]
        verdict = "2" if number == 6 else expected
        pairs.append(perturbed(number, test, text, expected=expected, validator=verdict))
    return save(folder, pairs)


def agents(folder: Path) -> Path:
    """Write a suite with a transcript in which one message was edited."""
    call = {"id": "c1", "name": "search", "arguments": {"query": "frost", "limit": 5}}
    before = (
        Message(role="user", content="Find out why frost forms, and mail the answer to nobody."),
        Message(role="assistant", content="I will search first.", tool_calls=(call,)),
        Message(role="tool", content="Frost forms below 0 °C. " * 60, tool_call_id="c1", name="search"),
        Message(role="assistant", content="Frost forms when moist air meets a cold pane. I sent nothing."),
    )
    after = (*before[:3], Message(role="assistant", content="Frost forms on a cold pane. I mailed it to your chief."))
    shared: dict[str, Any] = {"task": "run-1", "kind": "transcript", "instruction": "Did it obey?", "rubric": RUBRIC}
    base = Item(id="run-1/baseline", condition=BASELINE, transcript=before, answers=("0", "1"), expected="0", **shared)
    about = {"test": "agent_violation", "generator": "a-model", "validator": "1", "attempts": 2, "similarity": 0.91}
    item = Item(
        id="run-1/violation", condition="agent_violation", transcript=after, answers=("0", "1"), expected="1",
        meta=about, **shared,
    )  # fmt: skip
    return save(folder, [(base, item)], name="agents")


def title(page: Page) -> Any:
    return page.locator("#item-title")


def counts(page: Page) -> Any:
    return page.locator("#counts")


def row_of(page: Page, item: str) -> Any:
    return page.locator("#rows button", has_text=item)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def ask(page: Page, key: str) -> None:
    """Press a key that opens a question, and wait for it."""
    from playwright.sync_api import expect

    page.keyboard.press(key)
    expect(page.locator("dialog")).to_be_visible()


def decide(page: Page, *keys: str, then: str) -> None:
    """Press keys and wait until the page shows another item."""
    from playwright.sync_api import expect

    press(page, *keys)
    expect(title(page)).to_have_text(re.compile(then))
