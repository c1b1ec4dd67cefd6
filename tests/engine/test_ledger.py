"""What a provider bills, beside what is booked and shown: every ending of an attempt in every way of asking."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import few
from tests.ledger import EVERY, NEEDS_STORE, ROWS, SILENT, WAYS, cell

pytestmark = pytest.mark.usefixtures("without_back_off")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")


# litellm takes a quarter of a second a row: every third one each time.
CELLS = [(row, way) for row in ROWS for way in WAYS if way not in NEEDS_STORE]
LATER = [(row, "litellm") for place, row in enumerate(ROWS) if place % 3]


@pytest.mark.parametrize(
    ("row", "way"), [pytest.param(*each, marks=pytest.mark.slow if each in LATER else ()) for each in CELLS]
)
def test_the_bill_lies_between_what_is_shown_and_the_worst_case(row: str, way: str, tmp_path: Path) -> None:
    books = cell(row, way, tmp_path)
    if books is None:
        return
    assert books.billed > 0
    assert books.holds, books
    assert books.is_equal or row in SILENT, books


ANSWERED = ("text", "text in parts", "429", "500")
"""Rows that end in an answer, some after another try; of the others the item is lost."""
LOST = tuple(row for row in ROWS if row not in ANSWERED + SILENT)


@pytest.mark.parametrize(
    "rows",
    few(
        [pytest.param(LOST, id="lost"), pytest.param(ANSWERED, id="answered"), pytest.param(SILENT, id="silent")],
        quick=2,
    ),
)
@pytest.mark.parametrize("way", NEEDS_STORE)
def test_the_bill_of_a_run_in_which_attempts_end_in_every_way(
    way: str, rows: tuple[str, ...], tmp_path: Path, store_uri: str
) -> None:
    """A run takes a second: one for all rows of a kind, each of which has its turn."""
    books = WAYS[way]([ROWS[row] for row in rows], tmp_path, store_uri=store_uri)
    assert books.requests >= EVERY * len(rows)
    assert books.billed > 0
    assert books.holds, books
    assert books.is_equal is (rows != SILENT), books
