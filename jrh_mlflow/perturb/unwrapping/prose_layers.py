"""What a writer says around its text: what presents it, what is said below it, the original before it.

A remark is compared with the remarks of the original: `Sure!` is the text's own where the original begins like it, and
a wrapper where it comes once more. What speaks of the rewriting is never the text's own, unless the original does, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from jrh_mlflow.perturb.english import cut, words
from jrh_mlflow.perturb.unwrapping.data_layers import UnclearError
from jrh_mlflow.perturb.unwrapping.remarks import (
    ends_in_colon,
    found,
    is_label,
    is_pleasantry,
    pattern,
    polite_openings,
    presents_a_text,
    speaks_of_rewriting,
    stems,
)

_MOST_REMARKS = 6
LONGEST_REMARK = 400
"""Characters of a sentence that is about the text and not of it."""
SENTENCE_END = re.compile(r"[.!?:][*_\"”’)\]]{0,3}(?=\s|$)|[。！？：][”」』）*_]{0,3}")
_DASHED_LABEL = re.compile(r"[^\n—–:-]{1,60}\s[—–-]{1,2}\s")
_BRACKETED_LABEL = re.compile(r"[(\[][^()\[\]\n]{3,60}[)\]][ \t]")
_NOTE_LINE = r"^[ \t>*_#(\[-]{{0,6}}{}(?: \([^)\n]{{0,30}}\))?[*_)\]]{{0,3}}\s?[:：][*_]{{0,3}}"
_BRACKETED = re.compile(r"[(\[][^()\[\]\n]{3,160}[)\]][.!]?$")
_FEW_WORDS = 8
"""Of a line below a text that names the rewriting in passing; of an original whose repetition is no chance."""
_COPULAS = ("is", "are", "was", "were")
_STRUCTURES = ("{", "[", "```", "~~~", "<", '"', "“")
"""What a line begins with that is no remark."""


@dataclass(frozen=True, slots=True)
class _Remark:
    """A sentence or line about the text, at one of its ends."""

    kind: str
    """`pleasantry`, `preface` (on the subject), `label` (fit for any text), `announcement` (it speaks of rewriting);
    `closing`, `remark` (it speaks of rewriting)."""
    place: int
    """Where the text goes on, or where it had ended."""
    certain: bool
    """False where it shares its line with more than the text."""


def preface(text: str, original: str) -> str | None:
    """Take off what presents the text, beyond what the original says like it."""
    subject = stems(original)
    heads, own = _heads(text, subject), _heads(original, subject)
    if heads and _is_the_texts_own(text, heads, original):
        return None
    glued = polite_openings(text[heads[-1].place :][:LONGEST_REMARK]) if heads else 0
    kinds = [*(head.kind for head in heads), *["pleasantry"] * glued]
    number = min(_beyond(kinds, _own_kinds(original, own)), len(heads))
    if number:
        if not all(head.certain for head in heads[:number]):
            raise UnclearError(f"opening remark of the generator: {cut(text)}")
        return text[heads[number - 1].place :]
    line, _, rest = text.partition("\n")
    presents = ends_in_colon(line) and len(line) <= LONGEST_REMARK and rest.strip()
    again = not ends_in_colon(original.partition("\n")[0]) or ends_in_colon(rest.strip().partition("\n")[0])
    return rest if presents and again and not stems(line) & subject else None


def _is_the_texts_own(text: str, heads: Sequence[_Remark], original: str) -> bool:
    """Tell whether what looks like a remark says what the original begins with: `Answer: B` for `The answer is B`."""
    said = text[: heads[0].place]
    if heads[0].kind == "announcement":
        return not found("made", said) and opens_alike(text, original)
    listed, own = words(said.casefold()), words(original[:LONGEST_REMARK].casefold())
    predicated = [one for one, other in pairwise(own) if other in _COPULAS]
    return heads[0].kind == "label" and "\n" not in said and [*listed[-1:]] == predicated[:1] and {*listed} <= {*own}


def _own_kinds(original: str, heads: Sequence[_Remark]) -> list[str]:
    """List the kinds of the original's own remarks; a pleasantry may share its sentence: `Sure, it is`."""
    kinds = [head.kind for head in heads]
    glued = polite_openings(original[:LONGEST_REMARK]) - kinds.count("pleasantry")
    return [*kinds, *["pleasantry"] * glued]


def opens_alike(text: str, original: str) -> bool:
    """Tell whether the first sentence of a text says what that of the original says, rather than one behind it."""
    first = stems(_sentences(original, 1)[0])
    shared = [len(stems(sentence) & first) for sentence in _sentences(text, _MOST_REMARKS)]
    return shared[0] > 0 and shared[0] == max(shared)


def said_by(original: str, sentence: str) -> bool:
    """Tell whether most of a sentence is in one of the original's, so that it is no remark of a writer."""
    mine = stems(sentence)
    each = (len(mine & stems(one)) for one in _sentences(original)) if len(mine) > 1 else iter(())
    return any(shared > 1 and 2 * shared >= len(mine) for shared in each)


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


def _beyond(kinds: Sequence[str], own: Sequence[str]) -> int:
    """Return how many of the outer remarks are more than the original's own."""
    allowed = Counter(own)
    return next(n for n in range(len(kinds) + 1) if not Counter(kinds[n:]) - allowed)


@lru_cache(16)
def _heads(text: str, subject: frozenset[str]) -> tuple[_Remark, ...]:
    remarks: list[_Remark] = []
    place = 0
    while len(remarks) < _MOST_REMARKS and place < len(text):
        line = text[place:].split("\n", 1)[0]
        head = None if remarks and line.startswith(_STRUCTURES) else _head(line)
        if head is None:
            break
        kind, length = head
        if kind == "preface" and 2 * len((mine := stems(line[:length])) & subject) <= len(mine):
            kind = "label"
        rest = text[place + length :]
        own_line = not any(map(str.isalnum, line[length:]))
        length = len(line) if own_line else length
        plain = kind != "announcement" or own_line or ends_in_colon(line[:length].rstrip("—–- "))
        plain = plain or line[:length].rstrip().endswith(("—", "–", "-", ")", "]"))
        remarks.append(_Remark(kind, place + length, plain))
        skipped = len(rest) - len(rest.lstrip(" \t\n*_" if line[:length].lstrip().startswith(("*", "_")) else " \t\n"))
        place += length + skipped
        remarks[-1] = _Remark(kind, place, plain)
    return tuple(remarks)


def _head(line: str) -> tuple[str, int] | None:
    """Return the kind of remark that a line begins with, and its length."""
    for length in _piece_ends(line):
        piece = line[:length]
        if is_pleasantry(piece):
            return "pleasantry", length
        named = length == len(line) or ends_in_colon(piece) or piece.rstrip().endswith(("—", "–", "-", ")", "]"))
        if named and is_label(piece):
            return ("announcement" if found("made", piece) else "preface"), length
        if speaks_of_rewriting(piece) or found("about", piece):
            return "announcement", length
        if presents_a_text(piece) or (length == len(line) and found("here", piece) and found("noun", piece)):
            return "preface", length
        if ends_in_colon(piece) and pattern("lead").fullmatch(piece.strip(" \t*_:：")):
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
    label = pattern("note", _NOTE_LINE)
    own = {hit.group().strip(" *_#:：").casefold() for hit in label.finditer(original)}
    for hit in label.finditer(text):
        block = text[hit.start() :]
        about = found("made", block) or found("about", block) or found("first_person", block)
        apart = 2 * len(stems(block) & stems(original)) < len(stems(block)) or not stems(block)
        if hit.group().strip(" *_#:：").casefold() not in own and (about or apart) and text[: hit.start()].strip():
            return hit.start()
    return None


def _is_of(piece: str, original: str) -> bool:
    """Tell whether a closing remark is rather of the text: it shares most of its words with the original."""
    mine = stems(pattern("closing").sub(" ", piece))
    if found("made", piece):
        return False
    return said_by(original, piece) or 2 * len(mine & stems(original[-LONGEST_REMARK:])) > len(mine)


def _tails(text: str, subject: frozenset[str]) -> tuple[_Remark, ...]:
    remarks: list[_Remark] = []
    end = len(text)
    while len(remarks) < _MOST_REMARKS and text[:end].strip():
        end = len(text[:end].rstrip())
        start = text.rfind("\n", 0, end) + 1
        tail = _tail(text[start:end], subject, alone=start > 0)
        if tail is None:
            break
        kind, place, certain = tail
        end = start + place
        remarks.append(_Remark(kind, end, certain))
    return tuple(remarks)


def _tail(line: str, subject: frozenset[str], *, alone: bool) -> tuple[str, int, bool] | None:
    """Return the kind of remark a line ends with, where it begins, and whether it can be taken off."""
    bracketed = _BRACKETED.search(line[-LONGEST_REMARK:])
    if bracketed and (kind := _remark_kind(bracketed.group())):
        return kind, len(line) - len(bracketed.group()), True
    if len(line) <= LONGEST_REMARK and alone and (kind := _remark_kind(line)) and _all_remarks(line, subject):
        return kind, 0, True
    ends = [end.end() for end in SENTENCE_END.finditer(line) if end.end() < len(line)]
    place = ends[-1] if ends else 0
    sentence = line[place:]
    if 0 < len(sentence) <= LONGEST_REMARK and (kind := _remark_kind(sentence)):
        before = sentence[: _place_of_closing(sentence)]
        return kind, place + (0 if before.rstrip().endswith(",") else len(before)), False
    glued = pattern("closing").search(line, max(0, len(line) - LONGEST_REMARK // 2))
    return ("closing", glued.start(), False) if glued else None


def _all_remarks(line: str, subject: frozenset[str]) -> bool:
    """Tell whether every sentence of a line is a remark, from its beginning."""
    ends = [0, *(end.end() for end in SENTENCE_END.finditer(line)), len(line)]
    sentences = [line[start:end] for start, end in pairwise(ends) if any(map(str.isalnum, line[start:end]))]
    return all(_remark_kind(part) and not stems(part[: _place_of_closing(part)]) & subject for part in sentences)


def _place_of_closing(piece: str) -> int:
    hit = pattern("closing").search(piece)
    return hit.start() if hit else 0


def _remark_kind(piece: str) -> str | None:
    short = len(words(piece)) <= _FEW_WORDS and found("made", piece)
    if short or speaks_of_rewriting(piece) or found("about", piece):
        return "remark"
    return "closing" if found("closing", piece) or is_pleasantry(piece) else None


def echo(text: str, original: str) -> str | None:
    """Leave out the original where it is repeated before the text, and a label says so."""
    if len(original.split()) < _FEW_WORDS or not text.startswith(original) or text == original:
        return None
    rest = text[len(original) :]
    heads = _heads(rest.lstrip(), stems(original))
    if heads and rest.lstrip(" \t").startswith("\n") and heads[0].kind != "pleasantry":
        return rest
    return None
