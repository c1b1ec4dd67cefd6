"""What writers say around a text, in many languages: prefaces, labels, closing remarks, talk of rewriting.

The phrases stand in `remarks.txt`, a further language is a few words in each section. A piece is a sentence or a line.
A remark is compared with the remarks of the original: `Sure!` is the text's own where the original begins like it, and
a wrapper where it comes once more. What speaks of the rewriting is never the text's own, unless the original does, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

from jrh_mlflow.perturb.english import cut, words

LONGEST_REMARK = 400
"""Characters of a sentence that is about the text and not of it."""
SENTENCE_END = re.compile(r"[.!?:][*_\"”’)\]]{0,3}(?=\s|$)|[。！？：][”」』）*_]{0,3}")
NOTE_LINE = r"^[ \t>*_#(\[-]{{0,6}}{}(?: \([^)\n]{{0,30}}\))?[*_)\]]{{0,3}}\s?[:：][*_]{{0,3}}"
FEW_WORDS = 8
"""Of a line below a text that names the rewriting in passing; of an original whose repetition is no chance."""
_MOST_REMARKS = 6
_DASHED_LABEL = re.compile(r"[^\n—–:-]{1,60}\s[—–-]{1,2}\s")
_BRACKETED_LABEL = re.compile(r"[(\[][^()\[\]\n]{3,60}[)\]][ \t]")
_BRACKETED = re.compile(r"[(\[][^()\[\]\n]{3,160}[)\]][.!]?$")
_STRUCTURES = ("{", "[", "```", "~~~", "<", '"', "“")
"""What a line begins with that is no remark."""
_LABEL_EDGE = " \t*_#>:：-–—=[]()<>|~.!\"'“”"
_LONGEST_LABEL = 80
_WORD = re.compile(r"[^\W\d_]+")
_WIDE = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_SCRIPTS = {
    # Japanese is written with Chinese characters, too: the kana decide, and come first.
    "ja": ("[\u3040-\u30ff]", 0.1),
    "zh": ("[\u4e00-\u9fff]", 0.4),
    "ru": ("[\u0400-\u04ff]", 0.4),
    "ko": ("[\uac00-\ud7af]", 0.4),
    "ar": ("[\u0600-\u06ff]", 0.4),
    "hi": ("[\u0900-\u097f]", 0.4),
    "el": ("[\u0370-\u03ff]", 0.4),
    "he": ("[\u0590-\u05ff]", 0.4),
    "th": ("[\u0e00-\u0e7f]", 0.4),
}
"""A script and the share of letters from which on a text is written in it."""
_SAMPLE = 4_000
"""Characters of a text by which its language is told."""
_REMEMBERED = 64
"""Pieces that are looked at again and again: the original is compared with every layer."""


class UnclearError(Exception):
    """Something is around the text that cannot be taken off with certainty; the text says what."""


@cache
def _sections() -> dict[str, list[str]]:
    text = resources.files("jrh_mlflow.perturb").joinpath("remarks.txt").read_text("utf-8")
    _, *parts = re.split(r"^\[(\w+)\]$", text, flags=re.M)
    return {name: body.split("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}


@cache
def listed_words(section: str) -> frozenset[str]:
    """Return the words of a section; none where there is no such section."""
    return frozenset(" ".join(_sections().get(section, ())).split())


@cache
def pattern(section: str, around: str = "{}") -> re.Pattern[str]:
    """Compile a section when it is first needed: who only measures a judge checks no text."""
    return re.compile(around.format(_alternatives(section)), re.I | re.M)


def _alternatives(section: str) -> str:
    """Join a section; {NAME} stands for another one, in capitals."""
    joined = "|".join(line for line in _sections()[section] if line)
    return f"(?:{re.sub(r'{([A-Za-z_]+)}', lambda name: _alternatives(name[1]), joined)})"


@lru_cache(_REMEMBERED)
def phrase(section: str, text: str) -> str | None:
    """Return what a section finds first in a text."""
    hit = pattern(section).search(text)
    return hit.group() if hit else None


def ends_in_colon(piece: str) -> bool:
    """Tell whether a line ends in a colon, marks of bold and the like aside."""
    return piece.rstrip(' \t*_"”)]').endswith((":", "："))


def speaks_of_rewriting(piece: str) -> bool:
    """Tell whether a piece is about a wording that was made: `Here is the rewritten text:`."""
    presents = ends_in_colon(piece) or phrase("here", piece)
    if phrase("made", piece):
        return bool(presents or phrase("first_person", piece) or phrase("noun", piece))
    return bool(presents and phrase("short_long", piece) and phrase("noun", piece))


def is_label(piece: str) -> bool:
    """Tell whether a line is nothing but the name of what follows: `**Rewritten text:**`, `### Response`."""
    bare = "".join(letter for letter in piece if letter.isascii() or letter.isalnum() or letter in "–—：“”")
    parts = [part for part in re.split(r"[\s*_:：/|()–—-]", bare.strip(_LABEL_EDGE).casefold()) if part]
    known = listed_words("label_words")
    named = all(part in known or pattern("made").fullmatch(part) for part in parts)
    return bool(parts) and len(piece) <= _LONGEST_LABEL and named


def is_pleasantry(piece: str) -> bool:
    """Tell whether a sentence is nothing but politeness: `Sure!`, `Bien sûr !`."""
    parts = [part.strip(" \t*_:：—–-¡!") for part in re.split(r"[,!.。！，…]", piece)]
    parts = [part for part in parts if any(map(str.isalnum, part))]
    return 0 < len(parts) <= 3 and all(pattern("pleasantry").fullmatch(part) for part in parts)


def polite_openings(text: str) -> int:
    """Count the pleasantries that a text begins with, whether or not the sentence goes on: `Sure, here is how`."""
    opening, count, place = pattern("pleasantry", r"[¡\s*_]{{0,4}}{}\s?[!,.:：，！。—–-]"), 0, 0
    while place < LONGEST_REMARK and (hit := opening.match(text[:LONGEST_REMARK], place)):
        count, place = count + 1, hit.end()
    return count


@lru_cache(_REMEMBERED)
def stems(text: str) -> frozenset[str]:
    """Return what a text is about, roughly: beginnings of its longer words, and pairs of letters of wide scripts."""
    long_words = {word for word in _WORD.findall(text.casefold()) if len(word) > 3}
    pairs = {first + second for first, second in pairwise(_WIDE.findall(text))}
    # Five letters: `explain`, `explained` and `explanation` are about one thing.
    return frozenset({word[:5] for word in long_words - listed_words("empty_words")} | pairs)


def speaks(piece: str, name: str) -> bool:
    """Tell whether a sentence has a tenth of its words, at the least, in common with any text of a language."""
    in_piece = _WORD.findall(piece.casefold())
    return 10 * sum(map(listed_words(f"words_{name}").__contains__, in_piece)) > len(in_piece)


@lru_cache(_REMEMBERED)
def language(text: str) -> str | None:
    """Tell the language of a text by its script or its small words; None where it is not clear."""
    sample = text[:_SAMPLE]
    n_letters = sum(map(str.isalpha, sample))
    for name, (script, share) in _SCRIPTS.items():
        if len(re.findall(script, sample)) > share * n_letters:
            return name
    in_sample = _WORD.findall(sample.casefold())
    names = [name for name in _sections() if name.startswith("words_")]
    counts = {name: sum(map(listed_words(name).__contains__, in_sample)) for name in names}
    first, second = sorted(counts.values(), reverse=True)[:2]
    # Small words are shared between languages, so the first must lead clearly.
    return max(counts, key=lambda name: counts[name])[-2:] if first > 1 and first >= 1.5 * second else None


def opens_alike(text: str, original: str) -> bool:
    """Tell whether the first sentence of a text says what that of the original says, rather than one behind it."""
    first = stems(_sentences(original, 1)[0])
    shared = [len(stems(sentence) & first) for sentence in _sentences(text, _MOST_REMARKS)]
    return shared[0] > 0 and shared[0] == max(shared)


def said_by(original: str, sentence: str) -> bool:
    """Tell whether most of a sentence is in one of the original's, so that it is no remark of a writer."""
    mine = stems(sentence)
    shares = (len(mine & stems(other)) for other in _sentences(original)) if len(mine) > 1 else iter(())
    return any(shared > 1 and 2 * shared >= len(mine) for shared in shares)


def _sentences(text: str, most: int = 0) -> list[str]:
    """Cut a text into its first sentences; those that say nothing of a subject are none."""
    sentences, place = [], 0
    for end in SENTENCE_END.finditer(text):
        if stems(text[place : end.end()]):
            sentences.append(text[place : end.end()])
            place = end.end()
        if len(sentences) == most:
            return sentences
    return [*sentences, text[place:]]


class _Remark(NamedTuple):
    """A sentence or line about the text, at one of its ends."""

    kind: str
    """`pleasantry`, `preface` (on the subject), `label` (fit for any text), `announcement` (it speaks of rewriting);
    `closing`, `remark` (it speaks of rewriting)."""
    place: int
    """Where the text goes on, or where it had ended."""
    certain: bool
    """False where it shares its line with more than the text."""


def _beyond(remarks: Sequence[str], own: Sequence[str]) -> int:
    """Return how many of the outer remarks are more than the original's own, by their kinds."""
    allowed = Counter(own)
    return next(n for n in range(len(remarks) + 1) if not Counter(remarks[n:]) - allowed)


def preface(text: str, original: str) -> str | None:
    """Take off what presents the text, beyond what the original says like it."""
    subject = stems(original)
    heads, own = _heads(text, subject), [head.kind for head in _heads(original, subject)]
    if heads and _is_the_texts_own(text, heads[0], original):
        return None
    # A pleasantry may share its sentence with the text: `Sure, it is`.
    own += ["pleasantry"] * (polite_openings(original) - own.count("pleasantry"))
    glued = polite_openings(text[heads[-1].place :]) if heads else 0
    number = min(_beyond([*(head.kind for head in heads), *["pleasantry"] * glued], own), len(heads))
    if number:
        if not all(head.certain for head in heads[:number]):
            raise UnclearError(f"opening remark of the generator: {cut(text)}")
        return text[heads[number - 1].place :]
    line, _, rest = text.partition("\n")
    presents = ends_in_colon(line) and len(line) <= LONGEST_REMARK and rest.strip()
    again = not ends_in_colon(original.partition("\n")[0]) or ends_in_colon(rest.strip().partition("\n")[0])
    return rest if presents and again and not stems(line) & subject else None


def _is_the_texts_own(text: str, head: _Remark, original: str) -> bool:
    """Tell whether what looks like a remark says what the original begins with: `Answer: B` for `The answer is B`."""
    remark = text[: head.place]
    if head.kind == "announcement":
        return not phrase("made", remark) and opens_alike(text, original)
    mine, own = words(remark.casefold()), words(original[:LONGEST_REMARK].casefold())
    predicated = [word for word, verb in pairwise(own) if verb in ("is", "are", "was", "were")]
    return head.kind == "label" and "\n" not in remark and [*mine[-1:]] == predicated[:1] and {*mine} <= {*own}


@lru_cache(16)
def _heads(text: str, subject: frozenset[str]) -> list[_Remark]:
    """List the remarks that a text begins with."""
    remarks: list[_Remark] = []
    place = 0
    while len(remarks) < _MOST_REMARKS and place < len(text):
        line = text[place:].split("\n", 1)[0]
        head = None if remarks and line.startswith(_STRUCTURES) else _head(line)
        if head is None:
            break
        kind, length = head
        # A line on the subject may be the text's own first line; one that fits any text is a label.
        if kind == "preface" and 2 * len((mine := stems(line[:length])) & subject) <= len(mine):
            kind = "label"
        own_line = not any(map(str.isalnum, line[length:]))
        length = len(line) if own_line else length
        # Talk of the rewriting that runs on into the text cannot be cut where it ends.
        certain = kind != "announcement" or own_line or _ends_as_label(line[:length])
        blanks = " \t\n*_" if line.lstrip().startswith(("*", "_")) else " \t\n"
        place = len(text) - len(text[place + length :].lstrip(blanks))
        remarks.append(_Remark(kind, place, certain))
    return remarks


def _ends_as_label(piece: str) -> bool:
    return ends_in_colon(piece.rstrip("—–- ")) or piece.rstrip().endswith(("—", "–", "-", ")", "]"))


def _head(line: str) -> tuple[str, int] | None:
    """Return the kind of remark that a line begins with, and its length."""
    for length in _piece_ends(line):
        piece, whole = line[:length], length == len(line)
        if is_pleasantry(piece):
            return "pleasantry", length
        labelled = (whole or _ends_as_label(piece)) and is_label(piece)
        if phrase("made", piece) if labelled else speaks_of_rewriting(piece) or phrase("about", piece):
            return "announcement", length
        presents = (ends_in_colon(piece) or whole) and phrase("here", piece) and phrase("noun", piece)
        leads = ends_in_colon(piece) and pattern("lead").fullmatch(piece.strip(" \t*_:："))
        if labelled or presents or leads:
            return "preface", length
    return None


def _piece_ends(line: str) -> Iterator[int]:
    """Yield where the first piece of a line may end: at a dash, at its first sentence, at its own end."""
    for shape in (_BRACKETED_LABEL, _DASHED_LABEL):
        if (label := shape.match(line)) and is_label(label.group()):
            yield label.end()
    sentence = SENTENCE_END.search(line[:LONGEST_REMARK])
    if sentence and sentence.end() < len(line):
        yield sentence.end()
    elif len(line) <= LONGEST_REMARK:
        yield len(line)


def echo(text: str, original: str) -> str | None:
    """Leave out the original where it is repeated before the text, and a label says so."""
    if len(original.split()) < FEW_WORDS or not text.startswith(original):
        return None
    rest = text[len(original) :]
    heads = _heads(rest.lstrip(), stems(original))
    labelled = heads and rest.lstrip(" \t").startswith("\n") and heads[0].kind != "pleasantry"
    return rest if labelled else None


def closing(text: str, original: str) -> str | None:
    """Take off what is said below the text, beyond what the original says like it."""
    note = _notes(text, original)
    if note is not None:
        return text[:note]
    tails, own = _tails(text, stems(original)), _tails(original, frozenset())
    number = _beyond([tail.kind for tail in tails], [tail.kind for tail in own])
    ends = [*(tail.place for tail in tails[:number]), len(text)]
    # What the original says at its end is there already: whatever comes behind it is more, though it be like it.
    complete = 0 < len(own) <= len(tails) - number
    similar = (_is_of(text[start:end], original) for start, end in pairwise(sorted(ends)))
    if not number or (not complete and any(similar)):
        return None
    if not all(tail.certain for tail in tails[:number]):
        raise UnclearError(f"closing remark of the generator: {cut(text[tails[number - 1].place :])}")
    return text[: tails[number - 1].place]


def _notes(text: str, original: str) -> int | None:
    """Return where a block of notes below the text begins."""
    label = pattern("note", NOTE_LINE)
    own = {hit.group().strip(" *_#:：").casefold() for hit in label.finditer(original)}
    for hit in label.finditer(text):
        block = text[hit.start() :]
        about = any(phrase(section, block) for section in ("made", "about", "first_person"))
        apart = 2 * len(stems(block) & stems(original)) < len(stems(block)) or not stems(block)
        if hit.group().strip(" *_#:：").casefold() not in own and (about or apart) and text[: hit.start()].strip():
            return hit.start()
    return None


def _is_of(piece: str, original: str) -> bool:
    """Tell whether a closing remark is rather of the text: it shares most of its words with the original."""
    mine = stems(pattern("closing").sub(" ", piece))
    shared = said_by(original, piece) or 2 * len(mine & stems(original[-LONGEST_REMARK:])) > len(mine)
    return shared and not phrase("made", piece)


def _tails(text: str, subject: frozenset[str]) -> list[_Remark]:
    """List the remarks that a text ends with, the last one first."""
    remarks: list[_Remark] = []
    end = len(text.rstrip())
    while len(remarks) < _MOST_REMARKS and end:
        start = text.rfind("\n", 0, end) + 1
        tail = _tail(text[start:end], subject, alone=start > 0)
        if tail is None:
            break
        remarks.append(tail._replace(place=start + tail.place))
        end = len(text[: start + tail.place].rstrip())
    return remarks


def _tail(line: str, subject: frozenset[str], *, alone: bool) -> _Remark | None:
    """Return the remark that a line ends with, with its place in the line."""
    bracketed = _BRACKETED.search(line[-LONGEST_REMARK:])
    if bracketed and (kind := _remark_kind(bracketed.group())):
        return _Remark(kind, len(line) - len(bracketed.group()), certain=True)
    *ends, last = [0, *(end.end() for end in SENTENCE_END.finditer(line) if end.end() < len(line))]
    if len(line) <= LONGEST_REMARK and alone and (kind := _remark_kind(line)):
        pieces = [line[start:end] for start, end in pairwise([*ends, last, len(line)])]
        if all(_is_apart(piece, subject) for piece in pieces if any(map(str.isalnum, piece))):
            return _Remark(kind, 0, certain=True)
    sentence = line[last:]
    if 0 < len(sentence) <= LONGEST_REMARK and (kind := _remark_kind(sentence)):
        before = sentence[: _place_of_closing(sentence)]
        return _Remark(kind, last + (0 if before.rstrip().endswith(",") else len(before)), certain=False)
    glued = pattern("closing").search(line, max(0, len(line) - LONGEST_REMARK // 2))
    return _Remark("closing", glued.start(), certain=False) if glued else None


def _is_apart(piece: str, subject: frozenset[str]) -> bool:
    """Tell whether a sentence is a remark from its beginning, and says nothing on the subject before it."""
    return bool(_remark_kind(piece)) and not stems(piece[: _place_of_closing(piece)]) & subject


def _place_of_closing(piece: str) -> int:
    hit = pattern("closing").search(piece)
    return hit.start() if hit else 0


def _remark_kind(piece: str) -> str | None:
    short = len(words(piece)) <= FEW_WORDS and phrase("made", piece)
    if short or speaks_of_rewriting(piece) or phrase("about", piece):
        return "remark"
    return "closing" if phrase("closing", piece) or is_pleasantry(piece) else None
