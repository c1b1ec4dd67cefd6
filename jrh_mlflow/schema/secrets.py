"""Keys that must reach no file: known by the names they stand under in the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
SHORTEST_SECRET = 8
"""Shorter values (`test`, `none`) are no secrets, and blanking them would garble the text."""
BLANK = "[key]"


def environment_secrets() -> list[str]:
    """Return the values that are secret by their variable's name."""
    return [value.strip() for name, value in os.environ.items() if SECRET_NAME.search(name)]


def blank_secrets(text: str, secrets: Iterable[str] | None = None) -> str:
    """Blank every secret in a text from outside: a service may echo the key it was sent.

    Args:
        text: From a model, a service or an exception.
        secrets: What to look for; the environment's when None.
    """
    found = set(environment_secrets() if secrets is None else secrets)
    # The longest first, so that no tail of one is left.
    for secret in sorted((one for one in found if len(one) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, BLANK)
    return text
