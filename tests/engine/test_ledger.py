"""What a provider bills, beside what is booked and shown: every ending of an attempt in every way of asking."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger import ROWS, SILENT, WAYS, cell


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("way", WAYS)
def test_the_bill_lies_between_what_is_shown_and_the_worst_case(
    row: str, way: str, tmp_path: Path, store_uri: str
) -> None:
    books = cell(row, way, tmp_path, store_uri)
    if books is None:
        return
    assert books.billed > 0
    assert books.holds, books
    assert books.is_equal or row in SILENT, books
