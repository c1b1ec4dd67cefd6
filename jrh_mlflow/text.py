"""Text on its way into files, services and lines: what they cannot hold becomes U+FFFD, and no key is in it.

Also texts as users give them: as they are, or as the name of a file.

Keys are known by the names they stand under in the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest

REPLACEMENT = "\ufffd"
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")
"""UTF-8, Parquet and SQLite cannot hold half of a surrogate pair; PostgreSQL and C strings cannot hold NUL."""
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Controls, marks that turn the direction of a text, and characters without a width: what hides in a text."""

SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
SHORTEST_SECRET = 8
"""Shorter values (`test`, `none`) are no secrets, and blanking them would garble the text."""
BLANK = "[key]"


def clean_text(text: str) -> str:
    r"""Replace lone surrogates and NUL.

    Example:
        >>> clean_text("half \ud83d of a pair, \x00") == "half \ufffd of a pair, \ufffd"
        True
    """
    # Hardly any text holds one: two looks at ASCII text are cheaper than a search.
    return text if text.isascii() and "\x00" not in text else _UNWRITABLE.sub(REPLACEMENT, text)


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """Replace what no XML can hold; a judge's name can."""
    return _NO_XML.sub(REPLACEMENT, text)


_SHORT = 200
_RARE = bytes(range(32)).replace(b"\n", b"") + b"\x7f"
_quoted_slowly = json.JSONEncoder(ensure_ascii=False).encode


def json_text(text: str) -> str:
    r"""Write a text as JSON, to the byte as `json.dumps` with `ensure_ascii=False`, but faster where it is long.

    Example:
        >>> print(json_text('said "yes"'))
        "said \"yes\""
    """
    if len(text) < _SHORT or not text.isascii() or (raw := text.encode()).translate(None, _RARE) != raw:
        return _quoted_slowly(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def two_places(value: float, *, signed: bool = False, limit: float | None = None) -> str:
    """Write a number for people, to two places.

    One that would be rounded to 0 or 1, or to a limit, without being that number says on which side of it it lies.

    Example:
        >>> two_places(0.125), two_places(0.0013), two_places(0.9987), two_places(0.1004, limit=0.1)
        ('0.12', '<0.01', '>0.99', '>0.10')
    """
    # A sum of floats that should be 0 or 1 is that.
    value = round(value, 2) + 0.0 if abs(value - round(value, 2)) < 1e-12 else value
    text = f"{value:{'+' if signed else ''}.2f}"
    rounded = float(text)
    if rounded == 0 != value:
        return "<0.01" if value > 0 else ">-0.01"
    if abs(rounded) == 1 and abs(value) < 1:
        return ">0.99" if value > 0 else "<-0.99"
    return f"{'>' if value > limit else '<'}{text}" if limit is not None and rounded == limit != value else text


def visible(text: str) -> str:
    r"""Show characters that cannot be seen by their number.

    Example:
        >>> print(visible("a\x1b[31m\u202eb"))
        a‹U+001B›[31m‹U+202E›b
    """
    return _INVISIBLE.sub(lambda match: f"‹U+{ord(match[0]):04X}›", text)


def hashed(text: str) -> str:
    """Return what stands for a text where texts are left out: `sha256:` and its hash.

    Example:
        >>> hashed("tie")[:20]
        'sha256:6f595eba3f46c'
    """
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def shortened_name(text: str, *, most: int = 40) -> str:
    """Cut a long name in its middle: names often differ in their last characters only.

    Example:
        >>> shortened_name("openai/gpt-4o-mini-2024-07-18", most=20)
        'openai/gpt-4…4-07-18'
    """
    tail = 2 * most // 5 - 1
    return text if len(text) <= most else f"{text[: most - tail - 1]}…{text[-tail:]}"


def brief_name(name: str) -> str:
    r"""Quote a name for a line of text; a long one loses its middle, and what moves a cursor is escaped.

    Example:
        >>> print(brief_name("my\x1b[31m judge"))
        'my\x1b[31m judge'
    """
    return repr(shortened_name(name))


def hidden_id(text: str) -> str:
    """Return an id where texts are left out: it is a name, unless somebody took the text itself for one.

    Example:
        >>> hidden_id("row-7"), hidden_id("Who was it?")[:12]
        ('row-7', 'sha256:b7165')
    """
    return hashed(text) if len(text.split()) > 1 else text


def clean_data(value: Any) -> tuple[Any, int]:
    r"""Clean every text inside mappings and sequences, keys too, and count the characters that were replaced.

    Example:
        >>> clean_data({"a": ["x\x00", 1]}) == ({"a": ["x\ufffd", 1]}, 1)
        True
    """
    if isinstance(value, str):
        return _UNWRITABLE.subn(REPLACEMENT, value)
    if isinstance(value, Mapping):
        pairs = [(clean_data(key), clean_data(inner)) for key, inner in value.items()]
        return {key: inner for (key, _), (inner, _) in pairs}, sum(n + m for (_, n), (_, m) in pairs)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        items = [clean_data(inner) for inner in value]
        return [inner for inner, _ in items], sum(count for _, count in items)
    return value, 0


def clean_json(content: bytes) -> bytes:
    r"""Return JSON with U+FFFD for bytes that are not UTF-8 and for escaped lone surrogates.

    An escaped NUL stays: it is text, and JSON can hold it.

    Example:
        >>> clean_json(b'{"text": "a\\ud800b"}').decode() == '{"text": "a\ufffdb"}'
        True
    """
    text = content.decode("utf-8", "replace")
    if _ESCAPED_SURROGATE.search(text):
        try:
            read = json.dumps(json.loads(text), ensure_ascii=False)
        except ValueError:
            return text.encode()  # no JSON at all: whoever reads it says so
        # An escaped pair is a character; only half of one is replaced, and other lines keep their bytes.
        text = text if clean_text(read) == read else clean_text(read)
    return text.encode()


def environment_secrets() -> list[str]:
    """Return the values that are secret by their variable's name."""
    return [value.strip() for name, value in os.environ.items() if SECRET_NAME.search(name)]


def blank_secrets(text: str, secrets: Iterable[str] | None = None) -> str:
    """Blank every secret in a text from outside: a service may echo the key it was sent.

    Args:
        text: From a model, a service or an exception.
        secrets: What to look for; the environment's when None.
    """
    values = set(environment_secrets() if secrets is None else secrets)
    # The longest first, so that no tail of one is left.
    for secret in sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, BLANK)
    return text


def given_text(given: object, *, what: str, folder: Path | None = None, inside: bool = False) -> str:
    """Return a text that a user wrote down: as it is, as `@FILE`, or as the mapping `{"file": FILE}`.

    A text that begins with an @ of its own is written with two of them.

    Args:
        given: The text, or where it stands.
        what: It is, for errors: `rubric`.
        folder: What the name of a file is relative to; the working folder when None.
        inside: Read only files in this folder or in the working folder, and none with a key of the environment.

    Raises:
        RecipeError: naming the file that cannot be read, may not be or holds a key of the environment, or the key of a
            mapping that is not known.

    Example:
        >>> given_text("Is it right?", what="rubric"), given_text("@@home: is it right?", what="rubric")
        ('Is it right?', '@home: is it right?')
    """
    if isinstance(given, Mapping):
        return _file_text(_named_file(given, what), what, folder, inside=inside)
    text = str(given)
    if not text.startswith("@"):
        return text
    return text[1:] if text.startswith("@@") else _file_text(text[1:], what, folder, inside=inside)


def _named_file(given: Mapping[Any, Any], what: str) -> str:
    for key in given:
        if key != "file":
            raise RecipeError(f"`{what}`: unknown key {key!r}.{suggest(str(key), ['file'])} Known: file.")
    if not isinstance(given.get("file"), str | Path):
        raise RecipeError(f"`{what}` must be a text or {{file: NAME}}, but is {dict(given)!r}.")
    return str(given["file"])


def _is_in(folder: Path, file: Path) -> bool:
    """Whether a folder holds a file, and not in a hidden place: the working folder may be the user's home."""
    file, folder = file.resolve(), folder.resolve()
    return file.is_relative_to(folder) and not any(part[0] == "." for part in file.relative_to(folder).parts)


def _file_text(name: str, what: str, folder: Path | None, *, inside: bool) -> str:
    file = (folder or Path()) / name
    if inside and not any(_is_in(place, file) for place in (folder or Path(), Path())):
        raise RecipeError(
            f"The {what} file {name} is hidden or lies outside the folder. A file may name those beside it: copy it "
            "there, or type it as an option."
        )
    try:
        text = file.read_text(encoding="utf-8-sig")
        # Short ones may be words of the text.
        if inside and any(len(secret) >= 2 * SHORTEST_SECRET and secret in text for secret in environment_secrets()):
            raise RecipeError(f"The {what} file {name} holds a key of the environment, and is sent and logged.")
        return text
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise RecipeError(f"The {what} file {name} cannot be read: {problem}.") from error
