"""Plain facts about an English text: its words, numbers, names and negations.

Where things stand in a text: code, links, lines, sentences, gaps. Offsets, so that all the rest is left as it is.

At the end the word tables of the rules, read from `words.json`: contraries, sentences without a fact.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import resources
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    )
}
_TEXTS_AT_HAND = 16
"""An original and its rewrite are looked at by one check after the other: what was read last is not read again."""
_VAGUE = frozenset({"0", "1"})
"""`one` is mostly a pronoun, `zero` a figure of speech: as words they may stand for a number but never demand one."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?")
_LIST_MARK = re.compile(r"^[ \t>]*\(?\d{1,3}[.):](?=\s)", re.M)
_CAPITAL = re.compile(r"(?<![\w'’.])(?:[A-Z]\.){2,}|(?<![\w'’])[A-Z][\w&]*(?:[-'’][A-Z]\w*)*")
_NEAR = 40
"""How far back the mark is looked for that makes a word the first of its sentence."""
_MARKS_ONLY = re.compile(r"[\W\d_]*")
_OPENING = "\"'“‘([*_"
_ENDING = ".!?:;…–—-"
_TOKEN = re.compile(r"\w+|\W")
_INNER_DOT = re.compile(r"(?<=[A-Za-z])\.(?=[A-Za-z]\b)")
_MOST_TOKENS = 8
"""`Jean-Paul` has three; a name of more is looked for by itself."""
_HEADING = re.compile(r"^\s*(?:#{1,6}\s.*|\*\*[^*]+\*\*:?)\s*$")
_NOT_NAMES = frozenset({"i", "mr", "mrs", "ms", "dr", "prof", "sir", "ok", "a", "an", "the"})

_HARD = re.compile(
    r"n['’]t\b|\b(?:not|no|never|none|nobody|nothing|nowhere|neither|cannot|cant|dont|doesnt|isnt|without)\b"
)
_SOFT = re.compile(
    r"\b(?:unable|impossible|fail(?:s|ed|ing|ure)?|lack(?:s|ed|ing)?|hardly|scarcely|barely|rarely|seldom|absen(?:t|ce)"
    r"|avoid(?:s|ed|ing)?|refus(?:e|es|ed|ing|al)|den(?:y|ies|ied)|unlikely|prevent(?:s|ed|ing)?|free of|nor"
    r"|rather than|instead of|missing|far from|unless|exclud(?:e|es|ed|ing)|devoid|zero)\b"
)
_IDIOM = re.compile(
    r"\b(?:not only|not just|not merely|no doubt|without (?:a )?doubt|whether or not|not to mention"
    r"|if not (?:all|most|more|better)|no matter|nothing but|nonetheless|no\.? \d+|why not|last but not least)\b"
)
_PREFIX = re.compile(r"\b(?:un|in|im|ir|il|dis|non-?)(?P<rest>[a-z]{4,})\b")


def cut(text: str, most: int = 60) -> str:
    """Quote a text on one line, in at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


@lru_cache(_TEXTS_AT_HAND)
def words(text: str) -> tuple[str, ...]:
    """Return the words as written, apostrophes kept: `don't` is one.

    Example:
        >>> words("It doesn't -- really -- cost $2.")
        ('It', "doesn't", 'really', 'cost', '2')
    """
    return tuple(_WORD.findall(text))


@lru_cache(_TEXTS_AT_HAND)
def numbers(text: str) -> frozenset[str]:
    """Return the numbers written in digits, `1,000` and `1000` alike; the marks of a numbered list are layout.

    Example:
        >>> sorted(numbers("1. About 1,000 to 2.50"))
        ['1000', '2.5']
    """
    return frozenset(map(_value, _NUMBER.findall(_LIST_MARK.sub("", text))))


@lru_cache(_TEXTS_AT_HAND)
def number_words(text: str) -> frozenset[str]:
    """Return the numbers from zero to twelve that are written as words, as digits."""
    return frozenset(NUMBER_WORDS[word] for word in map(str.lower, words(text)) if word in NUMBER_WORDS)


def firm_numbers(text: str) -> frozenset[str]:
    """Return the numbers another text must agree on: digits, and number words from two on."""
    return numbers(text) | (number_words(text) - _VAGUE)


def _value(digits: str) -> str:
    whole, _, fraction = digits.replace(",", "").partition(".")
    # `2.50` and `2.5`, `007` and `7` are one number.
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def names(text: str) -> list[str]:
    """Return capitalised words that do not merely open a sentence, a heading or a quotation, in order, each once.

    Example:
        >>> names("The letter from Anna Karlsson reached NASA. It was late.")
        ['Anna', 'Karlsson', 'NASA']
    """
    body = "\n".join("" if _HEADING.match(line) or _titled(line) else line for line in text.split("\n"))
    # In a text in capitals every word would be a name.
    shouting = sum(map(str.isupper, body)) > sum(map(str.islower, body))
    capitals = () if shouting else _CAPITAL.finditer(body)
    return list(dict.fromkeys(match.group().rstrip(".") for match in capitals if _is_name(body, match)))


def _titled(line: str) -> bool:
    long = [word for word in words(line) if len(word) > 3]
    return len(long) > 3 and line.rstrip()[-1] not in ".!?" and all(word[0].isupper() for word in long)


def _is_name(text: str, match: re.Match[str]) -> bool:
    word = match.group()
    if word.lower() in _NOT_NAMES or len(word) == 1:
        return False
    return word.replace(".", "").isupper() or not _opens(text, match.start())


def _opens(text: str, place: int) -> bool:
    """Whether a sentence, a line or a quotation starts here."""
    near = max(0, place - _NEAR)
    line = text[max(text.rfind("\n", near, place) + 1, near) : place]
    if _MARKS_ONLY.fullmatch(line):
        return True
    return line.rstrip()[-1] in _OPENING or line.rstrip(f"{_OPENING} \t")[-1] in _ENDING


def has_name(text: str, name: str) -> bool:
    """Whether a name occurs, in any case, with or without a plural or possessive ending and dots."""
    bare = re.escape(name.replace(".", "")).replace("’", "'")
    return re.search(rf"(?<!\w){bare}(?!\w)|(?<!\w){bare}e?s(?!\w)", _undotted(text), re.I) is not None


def _undotted(text: str) -> str:
    return _INNER_DOT.sub("", text).replace("’", "'")


def missing_names(text: str, wanted: Iterable[str]) -> Iterator[str]:
    """Yield what `names` found in another text and `has_name` does not find in this one.

    A text may have thousands of names: those that stand there word for word are told by one look at the text for all.

    Example:
        >>> list(missing_names("Anna's cats and Jean-Paul's met the Does.", ["Anna", "Jean-Paul", "Doe", "Bert"]))
        ['Bert']
    """
    tokens = _tokens(text)
    seen: dict[int, set[tuple[str, ...]]] = {}
    for name in wanted:
        parts = _tokens(name.replace(".", ""))
        size = len(parts)
        if size <= _MOST_TOKENS and size not in seen:
            seen[size] = set(zip(*(tokens[place:] for place in range(size)), strict=False))
        spelled = [(*parts[:-1], parts[-1] + ending) for ending in ("", "s", "es") if not name.endswith("&")]
        if not any(spelling in seen.get(size, ()) for spelling in spelled) and not has_name(text, name):
            yield name


def _tokens(text: str) -> list[str]:
    # In small letters `İ` would become two characters, which are no word together.
    return _TOKEN.findall(_undotted(text).replace("İ", "i").lower())


def negations(text: str, beside: Collection[str]) -> tuple[int, int]:
    """Count the negations of a text: how many it has at least and at most.

    Words such as `unable`, and `un-` before a word of the other text (`beside`), may or may not stand for a `not`.
    """
    # `not only` and `no doubt` deny nothing.
    low = _IDIOM.sub(" ", text.lower())
    certain = len(_HARD.findall(low))
    perhaps = len(_SOFT.findall(low)) + sum(match["rest"] in beside for match in _PREFIX.finditer(low))
    return certain, certain + perhaps


Span = tuple[int, int]
"""Start and end offset."""
Edit = tuple[int, int, str]
"""What stands from start to end becomes the string; with start equal to end it is put in."""

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})(.*)")
_MARGIN = re.compile(r"[ \t>]*")
_INLINE = re.compile(r"`[^`\r\n]+`")
_LINK = re.compile(r"(?:https?://|www\.)\S+|(?<![\w.+-])[\w.+-]+@\w[\w.-]*")
_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_GAP = re.compile(rf"(?<=\S)[^\S{_BREAKS}]+(?=\S)")
_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]*_]*\s+|[。！？]+[」』”’）]*\s*")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|vs|cf|mr|mrs|ms|dr|prof|st|no|fig|approx|[a-z])\.\s+$", re.IGNORECASE)
_LONGEST_ABBREVIATION = 12


def lines(text: str) -> list[Span]:
    """Return every line with its line break, of whatever kind."""
    return list(pairwise(accumulate(map(len, text.splitlines(keepends=True)), initial=0)))


def fences(text: str) -> list[Span]:
    r"""Return the fenced code blocks with their fences; one that is never closed runs to the end.

    Example:
        >>> fences("Run:\n```\nx\n```\nDone")
        [(5, 15)]
    """
    if "```" not in text and "~~~" not in text:
        return []
    blocks: list[Span] = []
    opened: tuple[int, str] | None = None
    for start, end in lines(text):
        mark = _FENCE.match(text, start, end)
        if mark is None:
            continue
        if opened is None:
            opened = (start, mark[1])
        # By CommonMark a block ends with a fence at least as long as the one that opened it, and nothing behind it.
        elif mark[1].startswith(opened[1]) and not mark[2].strip():
            blocks.append((opened[0], end))
            opened = None
    return blocks if opened is None else [*blocks, (opened[0], len(text))]


def unlike_fences(text: str, places: Iterable[int]) -> list[int]:
    """Return those of the places, which are in order, at which a new line would not open a code block."""
    kept: list[int] = []
    end, opens = -1, False
    for place in places:
        # Places in one margin share its end, and are all told by one look at it.
        if place > end:
            end = match_end(_MARGIN, text, place)
            opens = text.startswith(("```", "~~~"), end)
        kept += [] if opens else [place]
    return kept


def match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return where what a pattern matches at a place ends: the place itself when it matches nothing."""
    match = pattern.match(text, place)
    return match.end() if match else place


def inside(spans: Sequence[Span], place: int) -> bool:
    """Whether a place lies in one of the spans, which are in order and do not overlap."""
    number = bisect_right(spans, place, key=itemgetter(0)) - 1
    return number >= 0 and place < spans[number][1]


def prose_lines(text: str) -> list[Span]:
    """Return the lines that are neither blank nor part of a fenced code block."""
    blocks = fences(text)
    return [(start, end) for start, end in lines(text) if text[start:end].strip() and not inside(blocks, start)]


def untouchable(text: str) -> bytearray:
    """Return one byte per character: 1 where it belongs to code, a link or a mail address."""
    mask = bytearray(len(text))
    # Most texts hold none of it, and a look for a character is cheaper than a pattern's search.
    patterns = [_INLINE] * ("`" in text) + [_LINK] * any(mark in text for mark in ("@", "://", "www."))
    spans = [match.span() for pattern in patterns for match in pattern.finditer(text)]
    for start, end in [*fences(text), *spans]:
        mask[start:end] = b"\x01" * (end - start)
    return mask


def touches(mask: bytearray, span: Span) -> bool:
    """Whether a span holds anything that `untouchable` marks."""
    return mask.find(1, *span) >= 0


def gaps(text: str) -> list[Span]:
    """Return the runs of whitespace between two words of one line, outside code and links."""
    mask = untouchable(text)
    return [match.span() for match in _GAP.finditer(text) if not touches(mask, match.span())]


def sentences(text: str) -> list[Span]:
    """Return the sentences outside fenced code, without the whitespace around them; a line break ends one too.

    Example:
        >>> [text[a:b] for text in ["Dr. Lee came. He left!"] for a, b in sentences(text)]
        ['Dr. Lee came.', 'He left!']
    """
    mask = untouchable(text)
    spans = []
    for start, end in prose_lines(text):
        begin = start
        for match in _END.finditer(text, start, end):
            # A full stop inside code or a link ends no sentence.
            if match.end() < end and not mask[match.start()] and _ends(text, match.end()):
                spans.append((begin, match.end()))
                begin = match.end()
        spans.append((begin, end))
    return [trimmed for span in spans if (trimmed := _trim(text, span))[0] < trimmed[1]]


def sentence_ends(text: str) -> list[int]:
    """Return where a sentence can follow another: after closing punctuation, before whitespace or the end."""
    return [end for _, end in sentences(text) if text[end - 1] in ".!?…。！？" and not text[end : end + 1].strip()]


def _ends(text: str, place: int) -> bool:
    """Whether a sentence ends just before this place: not after `e.g. `, nor before a small letter."""
    before = text[max(0, place - _LONGEST_ABBREVIATION) : place]
    return not text[place].islower() and _ABBREVIATION.search(before) is None


def _trim(text: str, span: Span) -> Span:
    part = text[span[0] : span[1]]
    return span[0] + len(part) - len(part.lstrip()), span[0] + len(part.rstrip())


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Make edits that do not overlap; those put in at one place keep their order.

    Example:
        >>> apply("one two", [(4, 7, "three"), (0, 0, "> ")])
        '> one three'
    """
    parts = []
    done = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        if start < done:
            raise ValueError(f"Edits must not overlap, but one starts at {start} and another ends at {done}.")
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def cased(word: str, *, like: str) -> str:
    """Write a word with a capital where the other has one."""
    return word[0].upper() + word[1:] if like[0].isupper() else word


def some(places: Sequence[int], share: float, rng: random.Random) -> list[int]:
    """Return each place with the given chance, and at least one of them."""
    kept = [place for place in places if rng.random() < share]
    return kept or [rng.choice(places)]


_DATA: dict[str, Any] = json.loads(resources.files("jrh_mlflow.perturb").joinpath("words.json").read_text("utf-8"))


def _listed(name: str) -> tuple[str, ...]:
    return tuple(_DATA[name])


STOP_WORDS = frozenset(_DATA["stop_words"])
"""Small words, which tell a language."""
ANTONYMS = {
    word: opposite
    for pair in _DATA["antonym_pairs"]
    for word, opposite in (tuple(pair.split(" ")), tuple(reversed(pair.split(" "))))
}
"""Word to its contrary, both ways: what makes a statement wrong and leaves its grammar."""
NONSENSE = _listed("nonsense")
"""Sentences that cannot be true."""
EMPTY_STEMS, EMPTY_BODIES = _listed("empty_stems"), _listed("empty_bodies")
"""Two halves of sentences that say nothing: `In general,` and `it is what it is`."""
EMPTY_SENTENCES = _listed("empty_sentences")
CREDENTIALS: dict[str, list[str]] = _DATA["credentials"]
"""What authors may claim of themselves, `before` or `after` a text."""
REQUESTS: dict[str, list[str]] = _DATA["requests"]
"""What graders may be asked for, in the same places."""
WORDS_OF_MEANING = _listed("words_of_meaning")
"""Negations and numbers."""
KEYS_BESIDE: dict[str, str] = _DATA["keys_beside"]
"""Letter to the letters beside it on a keyboard."""
