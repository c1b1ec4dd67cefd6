"""What the page may send, checked before anything looks at it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MAX_NUMBER = 2**31
"""No review has more items or events; SQLite's own limit is not reached."""
_MAX_TEXT = 16 * 2**20


def _name(text: str) -> str:
    text = text.strip()
    if not text or not text.isprintable():
        raise ValueError("a reviewer's name is one line of printable characters")
    return text


Index = Annotated[int, Field(ge=0, lt=MAX_NUMBER)]
Reviewer = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_name)]
Short = Annotated[str, Field(max_length=200)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DecisionBody(_Body):
    """One click on one item."""

    index: Index
    action: Literal["accept", "edit", "reject", "undo", "reopen"]
    reviewer: Reviewer
    version: Index
    """Of the item as the reviewer saw it."""
    text: Annotated[str, Field(max_length=_MAX_TEXT)] | None = None
    label: Short | None = None
    reason: Annotated[str, Field(max_length=4000)] | None = None
    message: Index | None = None
    """Of a transcript: which message `text` replaces; not needed when one was edited."""


class FilterBody(_Body):
    """Which items are meant; what is empty does not filter."""

    test: Short = ""
    state: Short = ""
    failed_check: Short = ""
    q: Short = ""
    mine: Short = ""
    reviewer: Short = ""


class BulkBody(_Body):
    """Accept all items of a filter."""

    filter: FilterBody = FilterBody()
    action: Literal["accept"]
    reviewer: Reviewer
    expect: Index
    """How many items the reviewer was told it would be."""


class FinishBody(_Body):
    """Write the reviewed suite."""

    reviewer: Reviewer
    allow_undecided: bool = False
