"""What writers say around a text, in many languages: prefaces, labels, closing remarks, refusals, talk of rewriting.

The phrases stand in `remarks.txt`; here is what can be asked about a piece of a text, and `unwrapping` decides what to
make of it. A piece is a sentence or a line unless it is said otherwise.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise

_SECTION = re.compile(r"^\[(\w+)\]$", re.M)
_NAMED = re.compile(r"\{([A-Z]+)\}")
_LABEL_EDGE = " \t*_#>:：-–—=[]()<>|~.!\"'“”"
_BETWEEN = re.compile(r"[\s*_:：/|()–—-]")
_POLITE_END = re.compile(r"[,!.。！，…]")
_SCRIPTS = {
    # Japanese is written with Chinese characters, too: the kana decide, and come first.
    "ja": (re.compile("[\u3040-\u30ff]"), 0.1),
    "zh": (re.compile("[\u4e00-\u9fff]"), 0.4),
    "ru": (re.compile("[\u0400-\u04ff]"), 0.4),
    "ko": (re.compile("[\uac00-\ud7af]"), 0.4),
    "ar": (re.compile("[\u0600-\u06ff]"), 0.4),
    "hi": (re.compile("[\u0900-\u097f]"), 0.4),
    "el": (re.compile("[\u0370-\u03ff]"), 0.4),
    "he": (re.compile("[\u0590-\u05ff]"), 0.4),
    "th": (re.compile("[\u0e00-\u0e7f]"), 0.4),
}
"""A script and the share of letters from which on a text is written in it."""
_WORD = re.compile(r"[^\W\d_]+")
_WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_STEM = 5
_REMEMBERED = 64
"""Pieces that are looked at again and again: the original is compared with every layer."""
_LONGEST_LABEL = 80
_SAMPLE = 4_000
"""Characters of a text by which its language is told."""


@cache
def _sections() -> dict[str, list[str]]:
    text = resources.files("jrh_mlflow.perturb.unwrapping").joinpath("remarks.txt").read_text("utf-8")
    parts = _SECTION.split(text)
    return {name: body.split("\n") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def _words(section: str) -> frozenset[str]:
    return frozenset(" ".join(_sections()[section]).split())


@cache
def pattern(section: str, around: str = "{}") -> re.Pattern[str]:
    """Compile a section when it is first needed: who only measures a judge checks no text."""
    return re.compile(around.format(_alternatives(section)), re.I | re.M)


def _alternatives(section: str) -> str:
    """Join a section; {NAME} stands for another one, in capitals."""
    joined = "|".join(line for line in _sections()[section] if line)
    return f"(?:{_NAMED.sub(lambda name: _alternatives(name[1]), joined)})"


@lru_cache(_REMEMBERED)
def found(section: str, text: str) -> str | None:
    """Return what a section finds first in a text."""
    hit = pattern(section).search(text)
    return hit.group() if hit else None


def speaks_of_rewriting(piece: str) -> bool:
    """Tell whether a piece is about a wording that was made: `Here is the rewritten text:`."""
    presents = ends_in_colon(piece) or found("here", piece)
    if found("made", piece):
        return bool(presents or found("first_person", piece) or found("noun", piece))
    return bool(presents and found("short_long", piece) and found("noun", piece))


def presents_a_text(piece: str) -> bool:
    """Tell whether a piece presents what follows as a text, without a word on rewriting: `Here is the answer:`."""
    return bool(ends_in_colon(piece) and found("here", piece) and found("noun", piece))


def is_label(piece: str) -> bool:
    """Tell whether a line is nothing but the name of what follows: `**Rewritten text:**`, `### Response`."""
    bare = "".join(letter for letter in piece if letter.isascii() or letter.isalnum() or letter in "–—：“”")
    parts = [part for part in _BETWEEN.split(bare.strip(_LABEL_EDGE).casefold()) if part]
    known = _words("label_words")
    return (
        bool(parts)
        and len(piece) <= _LONGEST_LABEL
        and all(part in known or pattern("made").fullmatch(part) for part in parts)
    )


def is_pleasantry(piece: str) -> bool:
    """Tell whether a sentence is nothing but politeness: `Sure!`, `Bien sûr !`."""
    parts = [part.strip(" \t*_:：—–-¡!") for part in _POLITE_END.split(piece)]
    parts = [part for part in parts if any(map(str.isalnum, part))]
    return 0 < len(parts) <= 3 and all(pattern("pleasantry").fullmatch(part) for part in parts)


def polite_openings(text: str) -> int:
    """Count the pleasantries that a text begins with, whether or not the sentence goes on: `Sure, here is how`."""
    opening, count, place = pattern("pleasantry", r"[¡\s*_]{{0,4}}{}\s?[!,.:：，！。—–-]"), 0, 0
    while hit := opening.match(text, place):
        count, place = count + 1, hit.end()
    return count


def ends_in_colon(piece: str) -> bool:
    """Tell whether a line ends in a colon, marks of bold and the like aside."""
    return piece.rstrip(' \t*_"”)]').endswith((":", "："))


@lru_cache(_REMEMBERED)
def stems(text: str) -> frozenset[str]:
    """Return what a text is about, roughly: beginnings of its longer words, and pairs of letters of wide scripts."""
    listed = {word for word in _WORD.findall(text.casefold()) if len(word) > 3}
    wide = _WIDE.findall(text)
    pairs = {one + other for one, other in pairwise(wide)}
    return frozenset({word[:_STEM] for word in listed - _words("empty_words")} | pairs)


def speaks(piece: str, name: str) -> bool:
    """Tell whether a sentence has a tenth of its words, at the least, in common with any text of a language."""
    listed = _WORD.findall(piece.casefold())
    known = _words(f"words_{name}") if f"words_{name}" in _sections() else frozenset()
    return 10 * sum(map(known.__contains__, listed)) > len(listed)


@lru_cache(_REMEMBERED)
def language(text: str) -> str | None:
    """Tell the language of a text by its script or its small words; None where it is not clear."""
    sample = text[:_SAMPLE]
    n_letters = sum(map(str.isalpha, sample))
    for name, (script, share) in _SCRIPTS.items():
        if len(script.findall(sample)) > share * n_letters:
            return name
    listed = _WORD.findall(sample.casefold())
    names = [name for name in _sections() if name.startswith("words_")]
    counts = {name: sum(map(_words(name).__contains__, listed)) for name in names}
    first, second = sorted(counts.values(), reverse=True)[:2]
    return max(counts, key=lambda name: counts[name])[-2:] if first > 1 and first >= 1.5 * second else None
