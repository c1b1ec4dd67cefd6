"""Changes of the surface: layout (vertical spacing, clusters of spaces, indentation), Markdown, typing mistakes.

Of layout only whitespace changes, and only where whitespace or an end of the text already is, so the words stay the
same once whitespace is normalised. Fenced code blocks are left alone: there, layout is meaning.

Markdown dresses the same sentences: a heading, bullets, bold words. Typing mistakes are neighbours transposed, letters
dropped, doubled or hit beside the key.
"""

from __future__ import annotations

import random
import re
from abc import abstractmethod

from jrh_mlflow.perturb import english
from jrh_mlflow.perturb._base import CheckContext, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.checks import differs, keeps_names, keeps_numbers, same_words

_INDENTS = ("  ", "    ", "      ", "        ", "\t")


def layout_differs(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that equals the original to the last space."""
    return "same layout as the original" if text == target.original else None


class _Layout(CodeTest):
    """Changes whitespace."""

    group = "paper"
    checks = (same_words, layout_differs)

    def write(self, target: Target, rng: random.Random) -> str:
        if not target.original.strip():
            raise NotApplicable("the text is empty")
        return english.apply(target.original, self.edits(target.original, rng))

    @abstractmethod
    def edits(self, text: str, rng: random.Random) -> list[english.Edit]:
        """Return the whitespace to put in or to take out."""


class VerticalSpacing(_Layout):
    """Blank lines taken out, or put in between lines; in a text of one line between sentences, words or before it."""

    name = "format_invariance_1"
    title = "blank lines between lines or sentences added or removed"
    changes = "blank lines and where lines end"

    def edits(self, text: str, rng: random.Random) -> list[english.Edit]:
        """Take out most blank lines, where there are any and the toss of a coin says so; else put some in."""
        if (blank := _blank_lines(text)) and rng.random() < 0.5:
            gone = english.some([start for start, _ in blank], 0.7, rng)
            return [(start, end, "") for start, end in blank if start in gone]
        newline = "\r\n" if "\r\n" in text else "\n"
        # A new line inside a line must not turn what follows into code.
        inner = [english.unlike_fences(text, starts) for starts in (_sentence_starts(text), _word_starts(text))]
        choices = zip((_line_starts(text), *inner), (0.7, 0.7, 0.1), strict=True)
        chosen = next((english.some(places, share, rng) for places, share in choices if places), [0])
        return [(place, place, newline * rng.randint(2, 4)) for place in chosen]


class SpaceClusters(_Layout):
    """Clusters of spaces between words of a line."""

    name = "format_invariance_2"
    title = "clusters of spaces between words"
    changes = "spacing between words"

    def edits(self, text: str, rng: random.Random) -> list[english.Edit]:
        """Widen about a quarter of the gaps."""
        places = _word_starts(text)
        if not places:
            raise NotApplicable("there is no space between words to widen")
        return [(place, place, " " * rng.randint(2, 6)) for place in english.some(places, 0.25, rng)]


class Indentation(_Layout):
    """Lines moved to the right. Where some are indented already all move alike, which keeps lists and code nested.

    A text of one line is broken at its sentences first: a single indent at its start is hardly a change.
    """

    name = "format_invariance_3"
    title = "lines indented"
    changes = "indentation of lines"

    def edits(self, text: str, rng: random.Random) -> list[english.Edit]:
        """Indent lines by spaces or a tab."""
        spans = english.prose_lines(text)
        if not spans:
            raise NotApplicable("every line is code")
        places = [start for start, _ in spans]
        (begin, end), *others = spans
        inner = [] if others else english.unlike_fences(text, [at for at in _sentence_starts(text) if begin < at < end])
        if inner:
            newline = "\r\n" if "\r\n" in text else "\n"
            broken = [(place, place, newline + rng.choice(_INDENTS)) for place in _at_least(1, inner, rng)]
            return [(places[0], places[0], rng.choice(_INDENTS)), *broken]
        if any(text[place].isspace() for place in places):
            indent = rng.choice(_INDENTS)
            return [(place, place, indent) for place in places]
        return [(place, place, rng.choice(_INDENTS)) for place in _at_least(2, places, rng)]


def _at_least(n: int, places: list[int], rng: random.Random) -> list[int]:
    """Return most of the places, and no fewer than `n` where there are as many."""
    chosen = english.some(places, 0.7, rng)
    rest = [place for place in places if place not in chosen] if len(chosen) < n else []
    return sorted([*chosen, *rest[: n - len(chosen)]])


def _line_starts(text: str) -> list[int]:
    """Starts of lines with something before and after, not inside a fenced block."""
    blocks = english.fences(text)
    # The first line of a block may move down: blank lines before it are no part of the code.
    opened = {first for first, _ in blocks}
    return [start for start, _ in _inner_lines(text) if start in opened or not english.inside(blocks, start)]


def _blank_lines(text: str) -> list[english.Span]:
    """Blank lines with something before and after, not inside a fenced block."""
    blocks = english.fences(text)
    return [(a, b) for a, b in _inner_lines(text) if not text[a:b].strip() and not english.inside(blocks, a)]


def _inner_lines(text: str) -> list[english.Span]:
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return [span for span in english.lines(text) if begin < span[0] < end]


def _sentence_starts(text: str) -> list[int]:
    begin = len(text) - len(text.lstrip())
    return [start for start, _ in english.sentences(text) if begin < start and text[start - 1].isspace()]


def _word_starts(text: str) -> list[int]:
    return [end for _, end in english.gaps(text)]


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
        edits = [*_bullets(text, plain), *_bold(text, plain or english.sentences(text), rng)]
        if not edits:
            raise NotApplicable("there is no sentence to mark up outside code")
        return english.apply(text, edits)


def _plain_sentences(text: str) -> list[english.Span]:
    """Sentences of lines that are no list, table, quotation or heading."""
    # A mark in front of a mark would make another list, or a line of a table that is none.
    structured = [(start, end) for start, end in english.prose_lines(text) if _STRUCTURED.match(text, start, end)]
    return [span for span in english.sentences(text) if not english.inside(structured, span[0])]


def _bullets(text: str, plain: list[english.Span]) -> list[english.Edit]:
    """Put every sentence on a line of its own; of three or more, a short first one is the heading."""
    if len(plain) == 1:
        return []
    heading = len(plain) > 2 and len(english.words(text[slice(*plain[0])])) <= _LONGEST_HEADING
    opens_line = {end - len(text[start:end].lstrip()) for start, end in english.prose_lines(text)}
    edits = []
    for place, (start, _) in enumerate(plain):
        mark = "## " if heading and place == 0 else "- "
        # Sentences written without a space between them stay in one bullet.
        if start in opens_line or text[start - 1].isspace():
            edits.append((start, start, mark if start in opens_line else "\n" + mark))
    return edits


def _bold(text: str, among: list[english.Span], rng: random.Random) -> list[english.Edit]:
    """Make a few words bold in about every third sentence."""
    mask = english.untouchable(text)
    runs = [run for span in among if (run := _run(text, span, mask, rng)) is not None]
    if not runs:
        return []
    chosen = [run for run in runs if rng.random() < 1 / 3] or [rng.choice(runs)]
    return [edit for start, end in chosen for edit in ((start, start, _BOLD), (end, end, _BOLD))]


def _run(text: str, span: english.Span, mask: bytearray, rng: random.Random) -> english.Span | None:
    """Return one to three words in a row that can be bold."""
    chunks = [match.span() for match in _CHUNK.finditer(text, *span)]
    fit = [
        _WORDY.search(text, a, b) is not None and "*" not in text[a:b] and not english.touches(mask, (a, b))
        for a, b in chunks
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


_OPENING, _CLOSING = "\"'“‘(*_[", "\"'”’)*_].,;:!?…"
_SHORTEST = 4
_MEANING = frozenset((*english.NUMBER_WORDS, *english.WORDS_OF_MEANING))
"""A slip in one of these could change what is said."""


class Typos(CodeTest):
    """Typos in 5 to 8 % of the words of four letters or more; numbers, names, links and code are spared."""

    name = "typos"
    title = "a few realistic typing mistakes"
    changes = "spelling and typing errors"
    group = "extra"
    checks = (differs, keeps_numbers, keeps_names)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the text with seeded typos, at least one."""
        text = target.original
        slips = _slips(text, rng)
        if not slips:
            raise NotApplicable("there is no plain word of four small letters or more")
        count = max(1, round(rng.uniform(0.05, 0.08) * len(slips)))
        return english.apply(text, rng.sample(slips, count))


def _slips(text: str, rng: random.Random) -> list[english.Edit]:
    """Return one possible slip for every word that may have one."""
    mask = english.untouchable(text)
    edits = []
    for match in _CHUNK.finditer(text):
        word = match.group().lstrip(_OPENING)
        start = match.end() - len(word)
        word = word.rstrip(_CLOSING)
        if not english.touches(mask, (start, start + len(word))) and _plain(word):
            slips = _spellings(word, rng.randrange(1, len(word) - 1))
            if slips:
                edits.append((start, start + len(word), rng.choice(slips)))
    return edits


def _plain(word: str) -> bool:
    return len(word) >= _SHORTEST and word.isalpha() and all(map(str.islower, word)) and word not in _MEANING


def _spellings(word: str, place: int) -> list[str]:
    """Return the misspellings of a word at an inner letter. The first letter stays, as it does in most real slips.

    Example:
        >>> _spellings("word", 2)
        ['wodr', 'wod', 'worrd', 'woed', 'wotd', 'wofd']
    """
    head, letter, follower, tail = word[:place], word[place], word[place + 1], word[place + 2 :]
    swapped, dropped = head + follower + letter + tail, head + follower + tail
    beside = [head + key + follower + tail for key in english.KEYS_BESIDE.get(letter, "")]
    doubled = head + letter + letter + follower + tail
    return [slip for slip in (swapped, dropped, doubled, *beside) if slip != word and slip not in _MEANING]
