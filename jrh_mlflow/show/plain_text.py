"""Text of any origin made harmless for a line, a terminal and Markdown; columns aligned in plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from jrh_mlflow.text import shortened_name

WIDTH = 100
"""Columns of a screen: what is wider is broken."""
MAX_DESCRIPTION = 7900
"""Characters. The description of a run is a tag, and MLflow cuts tags at 8,000 without a word."""
_INTERVAL = re.compile(r"\[(?=[\d\s.,−–%$±<>≤≥-]*\](?![(\[:]))")
"""A bracket that opens an interval of numbers, which is no link."""
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
"""What could begin HTML; `< 0.001` cannot."""


def plain(text: str) -> str:
    r"""Return a text in one line that moves no cursor: names and reasons may come from a model or a file.

    Example:
        >>> plain("red\x1b[31m\nnext")
        'red [31m next'
    """
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def plain_name(text: str) -> str:
    """Return a name for a sentence in which only commands stand between back quotes: those of the name look alike.

    Example:
        >>> plain_name("a `b`")
        'a ˋbˋ'
    """
    return plain(text).replace("`", "ˋ")


def code(text: str) -> str:
    """Put text from a model into a code span, where neither links nor HTML nor emphasis come to life.

    A back quote would end the span and a backslash could undo a table's own escapes: both become look-alikes.
    """
    shown = plain_name(text).replace("\\", "∖")
    return f"`{shown}`" if shown else "(empty)"


def literal(text: str) -> str:
    """Keep the sentence readable and its HTML and links dead; intervals of numbers stay as they are."""
    # First, because the replacements below write `&` of their own.
    text = text.replace("&", "&amp;")
    text = _TAG.sub("&lt;", text)
    parts = _INTERVAL.split(text)
    # The split took only the brackets of intervals away, and they come back as they were.
    text = "[".join(part.replace("[", "&#91;") for part in parts)
    return text.replace("`", "&#96;").replace("\\", "&#92;")


def line_text(text: str) -> str:
    """Write a text of any origin, such as a judge's name, as part of a line in which nothing of it comes to life.

    Example:
        >>> line_text("openai/gpt-4o_mini"), line_text("<b>[x](javascript:y)"), line_text("0.3 [0.1, 0.5]")
        ('openai/gpt-4o_mini', '&lt;b>&#91;x](javascript:y)', '0.3 [0.1, 0.5]')
    """
    return literal(plain(text))


def sentence_text(text: str) -> str:
    """Write a sentence of a verdict for Markdown: what stands between back quotes is a command and stays code.

    Example:
        >>> sentence_text("Ask <b> with `jrh plan --axis x_y`")
        'Ask &lt;b> with `jrh plan --axis x_y`'
    """
    parts = plain(text).split("`")
    # A back quote without its partner is no code.
    if len(parts) % 2 == 0:
        return line_text(text)
    return "".join(code(part) if place % 2 else literal(part) for place, part in enumerate(parts))


def aligned(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, width: int = WIDTH, is_cut: bool = False
) -> list[str]:
    """Align columns, the first `left` of them to the left and the others to the right.

    Columns that do not fit beside one another stand below, with the first `left` in front of them again. With `is_cut`
    what is too wide for that loses its middle, so that no line is wider.
    """
    lines = [[plain(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[place]) for row in lines) for place in range(len(head))]
    if is_cut:
        widths = _fitted(widths, left=left, width=width)
        lines = [[shortened_name(cell, most=most) for cell, most in zip(row, widths, strict=True)] for row in lines]
    blocks: list[list[int]] = [list(range(left))]
    for place in range(left, len(head)):
        used = sum(widths[other] + 2 for other in blocks[-1])
        # Each block takes one column at least, however wide that is.
        if used + widths[place] > width and len(blocks[-1]) > left:
            blocks.append(list(range(left)))
        blocks[-1].append(place)
    tables = [[_aligned_line(row, block, widths, left=left) for row in lines] for block in blocks]
    return [line for number, table in enumerate(tables) for line in ([""] if number else []) + table]


def _fitted(widths: Sequence[int], *, left: int, width: int) -> list[int]:
    """Return the widths with which the first `left` columns and any other one fit beside each other."""
    first, others = list(widths[:left]), widths[left:]
    # Names may take most of a line, but leave room for a number.
    room = width - 2 * left - (min(max(others), width // 3) if others else -2)
    while sum(first) > room:
        first[first.index(max(first))] -= 1
    return [*first, *(min(each, width - sum(first) - 2 * left) for each in others)]


def _aligned_line(row: Sequence[str], block: Sequence[int], widths: Sequence[int], *, left: int) -> str:
    cells = (row[at].ljust(widths[at]) if at < left else row[at].rjust(widths[at]) for at in block)
    return "  ".join(cells).rstrip()


def broken(text: str, *, width: int = WIDTH) -> list[str]:
    """Break a sentence into the lines of a screen."""
    # Names of models and options hold hyphens, and are copied from the screen.
    return textwrap.wrap(plain(text), width, break_on_hyphens=False)


def said_lines(sentences: Iterable[str]) -> list[str]:
    """Break the sentences of a verdict into the lines of a screen, each on its own; a command stays in one line.

    Example:
        >>> said_lines(["Then `jrh ui` shows it."])
        ['Then `jrh ui` shows it.']
    """
    lines = []
    for sentence in sentences:
        parts = plain(sentence).split("`")
        # A sign stands for the spaces of a command, which must not end a line.
        kept = "`".join(part.replace(" ", "␣") if place % 2 else part for place, part in enumerate(parts))
        lines += [line.replace("␣", " ") for line in broken(kept)]
    return lines


def wrapped_line(head: str, text: str) -> list[str]:
    """Write a line under a head of one word, or without one, broken at the width of a screen."""
    return textwrap.wrap(
        f"{head}: {plain(text)}" if head else plain(text), WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )


def shortened(markdown: str, *, artifact: str, most: int = MAX_DESCRIPTION) -> str:
    """Return a page as a description: whole sections where they fit, and a pointer to the artifact with the rest.

    Example:
        >>> shortened("# Short", artifact="datasheet.md")
        '# Short'
    """
    if len(markdown) <= most:
        return markdown
    pointer = f"\n\nThe whole text is in the artifact `{artifact}`.\n"
    room = most - len(pointer) - 1
    section = max(markdown.rfind(f"\n{mark} ", 0, room) for mark in ("##", "###"))
    # A first section that alone is too long ends with a whole line, so that its table stays one.
    end = section if section > room // 2 else markdown.rfind("\n", 0, room)
    return markdown[: end if end > 0 else room] + pointer
