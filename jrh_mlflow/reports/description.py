"""The description of an MLflow run: Markdown that is short enough to be shown whole."""

from __future__ import annotations

MAX_DESCRIPTION = 7900
"""Characters. A description is a tag, and MLflow cuts tags at 8,000 without a word."""


def shortened(markdown: str, *, artifact: str) -> str:
    """Return a page as a description: whole sections where they fit, and a pointer to the artifact with the rest.

    Example:
        >>> shortened("# Short", artifact="datasheet.md")
        '# Short'
    """
    if len(markdown) <= MAX_DESCRIPTION:
        return markdown
    pointer = f"\n\nThe whole text is in the artifact `{artifact}`.\n"
    room = MAX_DESCRIPTION - len(pointer) - 1
    section = max(markdown.rfind(f"\n{mark} ", 0, room) for mark in ("##", "###"))
    # A first section that alone is too long ends with a whole line, so that its table stays one.
    end = section if section > room // 2 else markdown.rfind("\n", 0, room)
    return markdown[: end if end > 0 else room] + pointer
