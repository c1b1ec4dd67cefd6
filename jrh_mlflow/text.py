"""Text that every file and service can hold."""

from __future__ import annotations

import re

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    r"""Replace lone surrogates, which neither UTF-8 nor Parquet nor SQLite can hold, by U+FFFD.

    Example:
        >>> clean_text("half \ud83d of a pair") == "half \ufffd of a pair"
        True
    """
    # Hardly any text holds one: `isascii` and a search are cheaper than encoding it.
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
