"""The same sentences dressed in Markdown: a heading, bullets, bold words."""

from __future__ import annotations

import random
import re

from jrh_mlflow.perturb._base import CheckContext, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.english import Edit, Span, apply, inside, prose_lines, sentences, touches, untouchable, words

_CHUNK = re.compile(r"\S+")
_MARKS = frozenset({"-", "*", "+", "#", "##", "###", "####", "#####", "######"})
_BOLD = "**"
_STRUCTURED = re.compile(r"\s*(?:[-*+>|#•]|\d+[.)]\s)")
_WORDY = re.compile(r"[^\W\d_]|\d\Z|\d\w")
"""Not a dash, nor the `1.` of a list."""
_LONGEST_HEADING = 12
_LONGEST_BOLD = 3


def same_words_unmarked(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that does not have the original's words in their order once Markdown marks are removed."""
    before, after = _unmarked(target.original), _unmarked(text)
    return None if before == after else f"words changed: {len(before)} before, {len(after)} now"


def marked_up(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text without any new mark."""
    return "no mark added" if text.split() == target.original.split() else None


class Markdown(CodeTest):
    """Sentences become bullets, a short first one a heading, some words bold; lists, tables and code stay."""

    name = "markdown"
    title = "bullets, bold and a heading around the same sentences"
    changes = "formatting: headings, bullets and bold type"
    group = "extra"
    checks = (same_words_unmarked, marked_up)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the same words with marks."""
        text = target.original
        plain = _plain_sentences(text)
        edits = [*_bullets(text, plain), *_bold(text, plain or sentences(text), rng)]
        if not edits:
            raise NotApplicable("there is no sentence to mark up outside code")
        return apply(text, edits)


def _plain_sentences(text: str) -> list[Span]:
    """Sentences of lines that are no list, table, quotation or heading."""
    structured = [(start, end) for start, end in prose_lines(text) if _STRUCTURED.match(text, start, end)]
    return [span for span in sentences(text) if not inside(structured, span[0])]


def _bullets(text: str, plain: list[Span]) -> list[Edit]:
    """Put every sentence on a line of its own; of three or more, a short first one is the heading."""
    if len(plain) == 1:
        return []
    heading = len(plain) > 2 and len(words(text[slice(*plain[0])])) <= _LONGEST_HEADING
    opens_line = {end - len(text[start:end].lstrip()) for start, end in prose_lines(text)}
    edits = []
    for place, (start, _) in enumerate(plain):
        mark = "## " if heading and place == 0 else "- "
        # Sentences written without a space between them stay in one bullet.
        if start in opens_line or text[start - 1].isspace():
            edits.append((start, start, mark if start in opens_line else "\n" + mark))
    return edits


def _bold(text: str, among: list[Span], rng: random.Random) -> list[Edit]:
    """Make a few words bold in about every third sentence."""
    mask = untouchable(text)
    runs = [run for span in among if (run := _run(text, span, mask, rng)) is not None]
    if not runs:
        return []
    chosen = [run for run in runs if rng.random() < 1 / 3] or [rng.choice(runs)]
    return [edit for start, end in chosen for edit in ((start, start, _BOLD), (end, end, _BOLD))]


def _run(text: str, span: Span, mask: bytearray, rng: random.Random) -> Span | None:
    """Return one to three words in a row that can be bold."""
    chunks = [match.span() for match in _CHUNK.finditer(text, *span)]
    fit = [
        _WORDY.search(text, a, b) is not None and "*" not in text[a:b] and not touches(mask, (a, b)) for a, b in chunks
    ]
    starts = [place for place, good in enumerate(fit) if good]
    if not starts:
        return None
    first = last = rng.choice(starts)
    wanted = rng.randint(1, _LONGEST_BOLD)
    while last - first + 1 < wanted and last + 1 < len(chunks) and fit[last + 1]:
        last += 1
    return chunks[first][0], chunks[last][1]


def _unmarked(text: str) -> list[str]:
    return [chunk for chunk in text.replace(_BOLD, "").split() if chunk not in _MARKS]
