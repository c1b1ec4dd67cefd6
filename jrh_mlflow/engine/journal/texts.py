"""The texts of requests: each is kept once, compressed, as its difference to an earlier text that looks like it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from jrh_mlflow.engine.journal.rows import CallRow, digest

MARK = b"\xff"
"""First byte of what is kept in a short form. UTF-8 has none such, so it is no text in full."""
SHORT_REQUEST = 256
"""Characters: a request of fewer stands in its row."""
_SHORT_ANSWER = 400
"""Characters: an answer of fewer is not compressed, which takes time and saves little."""
_ANSWER_LIKE = (
    b'"}{"reason": "Both responses are equally good, clear, accurate and complete; Response B is more than , while '
    b"Response A does not address the task and leaves out the required . Therefore it is better because the "
    b'"}{"cached_tokens":0,"cost_usd":null,"finish_reason":"stop","input_tokens":1024,"logprobs":null,'
    b'"model":"gpt-4o-mini-2024-07-18","output_tokens":64,"refusal":null,"system_fingerprint":"fp_",'
    b'"text":"{\\"reason\\": \\"Response A is \\", \\"verdict\\": \\"tie\\"}"}'
)
"""Dictionary of compressed answers. It must never change: no answer could be read any more."""
_BEGINNING = 128
"""Characters by which texts of one judge are alike."""
_DEEPEST = 4
_DIFFERENT = 0.15
"""Of its length: a text that takes more than this beside its base becomes the base of those to come."""
_REMEMBERED_BYTES = 4 * 2**20


class StoredText(NamedTuple):
    """One row of the table of texts."""

    name: bytes
    """Of its content, so that no text is kept twice."""
    base: bytes | None
    """Name of the text that serves as the dictionary of its compression."""
    body: bytes


@dataclass(frozen=True, slots=True)
class _Known:
    """A text that others may be written as a difference to."""

    row: StoredText
    data: bytes
    base: _Known | None
    depth: int


class TextPacker:
    """Writes texts as differences to those before them. Not safe for threads."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        """By the whole text, which replicates share."""
        self._bases: dict[str, _Known] = {}
        """By what other texts may have in common with it."""
        self._n_bytes = 0

    def pack(self, text: str) -> Iterator[StoredText]:
        """Yield the rows that keep a text: its own, then those of the texts below it, which may have been pruned."""
        known: _Known | None = self._known.get(text) or self._add(text)
        while known is not None:
            yield known.row
            known = known.base

    def _add(self, text: str) -> _Known:
        if self._n_bytes > _REMEMBERED_BYTES:
            self._known, self._bases = {}, {}
            self._n_bytes = 0
        # In JSON a line ends with these two characters. The longest is most often a task or a response: the other order
        # of a pair has it too, and so have further pairs of the task.
        alike, beginning = max(text.split("\\n"), key=len), text[:_BEGINNING]
        base = self._bases.get(alike) or self._bases.get(beginning)
        data = text.encode()
        row = StoredText(_named(data), base.row.name if base else None, _deflated(data, base.data if base else b""))
        known = _Known(row, data, base, base.depth + 1 if base else 0)
        self._n_bytes += len(data)
        self._known[text] = known
        self._bases.setdefault(beginning, known)
        if known.depth < _DEEPEST and len(row.body) > _DIFFERENT * len(data):
            self._bases[alike] = known
        return known


def whole_texts(rows: Mapping[bytes, StoredText]) -> dict[bytes, str]:
    """Return the texts of rows, by name. One that is damaged, or whose base is, is left out."""
    found: dict[bytes, bytes | None] = {}

    def data_of(name: bytes) -> bytes | None:
        if name not in found:
            # Until it is found: what damage left may name itself as its base.
            found[name] = None
            row = rows.get(name)
            base = data_of(row.base) if row and row.base else b""
            with suppress(zlib.error):
                data = None if row is None or base is None else _inflated(row.body, base)
                found[name] = data if data is not None and _named(data) == name else None
        return found[name]

    return {name: data.decode() for name in rows if (data := data_of(name)) is not None}


def text_name(text: str) -> bytes:
    """Return the name that a text is kept under."""
    return _named(text.encode())


def _named(data: bytes) -> bytes:
    return MARK + hashlib.sha256(data).digest()[:16]


def shortened_row(row: CallRow, name: bytes | None) -> CallRow:
    """Return a row as it is kept: with the name of its request in the place of the text, and a long answer compressed.

    It is sealed anew, so that it can be checked without the text of its request.
    """
    answer: str | bytes | None = row.response
    if isinstance(answer, str) and len(answer) >= _SHORT_ANSWER:
        answer = MARK + _deflated(answer.encode(), _ANSWER_LIKE)
    if name is None and answer is row.response:
        return row
    content = row._replace(request=name or row.request, response=answer)[:-1]
    return CallRow(*content, digest(content))


def whole_answer(kept: str | bytes | None) -> str | None:
    """Return a response of a row; None for one that is damaged."""
    if not isinstance(kept, bytes):
        return kept
    with suppress(zlib.error):
        return _inflated(kept[len(MARK) :], _ANSWER_LIKE).decode("utf-8", "replace")
    return None


def _deflated(data: bytes, dictionary: bytes) -> bytes:
    # Level 2: next to a text that it looks like no slower than 1, and a tenth smaller.
    packer = zlib.compressobj(2, zdict=dictionary) if dictionary else zlib.compressobj(2)
    return packer.compress(data) + packer.flush()


def _inflated(body: bytes, dictionary: bytes) -> bytes:
    unpacker = zlib.decompressobj(zdict=dictionary)
    data = unpacker.decompress(body)
    if not unpacker.eof:
        raise zlib.error("it was cut off")
    return data
