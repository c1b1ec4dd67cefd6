"""Data that a writer puts its text into: JSON, YAML, literals of programs; read where one text is in it.

What the original is written in is no wrapper: an object rewritten as an object stays one.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jrh_mlflow.perturb.unwrapping.remarks import pattern

_MISSING = object()
_UNREADABLE = "a piece of JSON or YAML, which cannot be read"
_MAX_DEPTH = 32
_LONGEST = 1_000_000
"""Characters; nobody writes a longer text, and reading it would take its time."""
_TEXT_KEY = re.compile(
    r"text|version|response|answer|output|result|content|completion|message|body|reply|essay|passage|paragraph|value"
    r"|antwort|fassung|réponse|respuesta|versión|risposta|testo|versão|resposta|tekst|antwoord|текст|ответ|文|答|版本|回答"
)
_MADE_KEY = re.compile(
    r"new|final|revised|modified|updated|edited|perturbed|flipped|generated|longer|shorter|result|output"
)
_OTHER_KEY = re.compile(
    r"original|source|input|prompt|instruction|reason|think|thought|note|expla|comment|analy|change|error|refus|status"
    r"|role|type|lang|model|_?id$|^id|label|test|task|count|confidence|score|finish|object|tone|style|check|ok$|meta|date"
    r"|raison|explic|nota|anmerk|begründ|sprache|language|format|kind|author|verdict|success|warning|flag|usage|version_"
)
_TITLE_KEY = re.compile(r"title|heading|header|subject|titel|titre|título|titolo|标题|заголов")
_LOOKS_LIKE_DATA = re.compile(r"""[\[{]\s*(?:["'{\[]|[A-Za-z_]\w{0,30}\s{0,3}:)""")
_ASSIGNED = re.compile(
    r"""(?:(?:const |let |var |final )?[A-Za-z_][\w.]{0,40}(?::\s?str)?\s{0,3}="""
    r"""|return |print\(|echo |console\.log\()\s{0,3}(?=["'`({\[])"""
)
_YAML_KEY = re.compile(r"""(?:-[ ])?["']?([^\W\d][\w-]{0,30}(?: [\w-]{1,30})?)["']?:(?:[ \t]+(\S.*))?""")
_BLOCK = re.compile(r"[|>][+-]?\d?")
_CALL_END = re.compile(r"[);\s]*")


class UnclearError(Exception):
    """Something is around the text that cannot be taken off with certainty; the text says what."""


def text_in_data(text: str, original: str) -> str | None:
    """Return the one text that data hold, or None where the text is no data, or is data as the original is.

    Raises:
        UnclearError: for data without one certain text, and for what set out to be data and is not.
    """
    value, own = parsed(text), parsed(original)
    if value is _MISSING:
        if _LOOKS_LIKE_DATA.match(text) and (own is not _MISSING or not _LOOKS_LIKE_DATA.match(original)):
            raise UnclearError(_UNREADABLE)
        return _in_yaml(text, original)
    if isinstance(value, str):
        return None if isinstance(own, str) and not isinstance(parsed(value), str) else value
    if not isinstance(value, dict | list):
        return None
    if isinstance(own, dict | list):
        return _like_the_original(value, own) or _without_rest(text)
    return one_text(value)


def has_the_form_of(text: str, original: str) -> bool:
    """Tell whether a text is data as the original is, from end to end: nothing is around it, however it is laid out."""
    both = text[:1] in ("{", "[") and is_data(original) and is_data(text)
    return both and text_in_data(text, original) is None


def _like_the_original(value: Any, own: Any) -> str | None:
    """Return what is around data in the form of the original, or None for data in that form."""
    leaves = list(_leaves(value))
    inner = [text for _, text in leaves if type(parsed(text)) is type(own)]
    if len(inner) == 1:
        return inner[0]
    same_form = type(value) is type(own) and (isinstance(own, list) or bool(set(own) & set(value)))
    if same_form:
        return None
    nested = [each for each in (value.values() if isinstance(value, dict) else value) if type(each) is type(own)]
    if len(nested) == 1 and isinstance(own, dict) and set(own) & set(nested[0]):
        return json.dumps(nested[0], ensure_ascii=False)
    raise UnclearError("JSON of another form than the original's")


def _without_rest(text: str) -> str | None:
    """Return JSON without what is said behind it, or None where nothing is."""
    end = _decoded(text)[1]
    return text[:end] if 0 < end < len(text) else None


def is_data(text: str) -> bool:
    """Tell whether a text is an object or an array."""
    return isinstance(parsed(text), dict | list)


def parsed(text: str) -> Any:
    """Read a text as JSON, as a literal of Python, or as either in an assignment; `_MISSING` where it is neither."""
    text = text.strip()
    if len(text) > _LONGEST or text[:1] not in set("{[\"'") | set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
    ):
        return _MISSING
    if text[:1] not in set("{[\"'"):
        assigned = _ASSIGNED.match(text)
        value = text[assigned.end() :].rstrip("; \n") if assigned else ""
        template = len(value) > 2 and value[0] == value[-1] == "`" and value.count("`") == 2
        return value[1:-1] if template else _literal(value)
    return _literal(text)


def _literal(text: str) -> Any:
    for closed in (text, text.rstrip(");")):
        value = _json(closed)
        value = _python(closed) if value is _MISSING else value
        if value is not _MISSING:
            return value
    return _MISSING


def _json(text: str) -> Any:
    try:
        # A line break within a string is no JSON, and is meant as one.
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        pass
    value, end = _decoded(text)
    rest = text[end:].strip(" \t\n,;")
    whole = isinstance(value, dict | list) and not _LOOKS_LIKE_DATA.search(rest) and not rest.endswith(("}", "]"))
    return value if whole else _MISSING


def _decoded(text: str) -> tuple[Any, int]:
    """Read the JSON that a text begins with, and tell where it ends."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return _MISSING, 0


def _python(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return _MISSING


def _leaves(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every text of some data with the key it stands under."""
    if depth > _MAX_DEPTH:
        raise UnclearError("JSON that is nested too deeply")
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name).casefold(), depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, key, depth + 1)


def one_text(value: Any) -> str:
    """Return the text of some data: the only one, or the one whose key says so.

    Example:
        >>> one_text({"text": "It rained.", "ok": True, "note": "I kept the weather."})
        'It rained.'

    Raises:
        UnclearError: where there is none, or more than one that could be meant.
    """
    leaves = [(key, text) for key, text in _leaves(value) if text.strip()]
    texts = [(key, text) for key, text in leaves if not _is_other(key)]
    if any(_TITLE_KEY.search(key) for key, _ in texts):
        raise UnclearError("JSON with a title beside the text")
    named = [(key, text) for key, text in texts if _is_text(key)]
    made = [(key, text) for key, text in named if _MADE_KEY.search(key) or pattern("made").search(key)]
    rest = [text for key, text in texts if not _is_text(key) and len(text.split()) > 3]
    for found in (made, named):
        if len({text for _, text in found}) == 1 and not rest:
            return found[0][1]
    if not named and len(texts) == 1 and (texts[0][0] == "" or len(texts[0][1].split()) > 3):
        return texts[0][1]
    raise UnclearError("JSON without one certain text")


def _is_text(key: str) -> bool:
    return bool(_TEXT_KEY.search(key) or _MADE_KEY.search(key) or pattern("made").search(key))


def _is_other(key: str) -> bool:
    return bool(_OTHER_KEY.search(key)) and not pattern("made").search(key)


def _in_yaml(text: str, original: str) -> str | None:
    fields, plain = _yaml(text)
    if not fields or plain or not any(_is_text(key) and not _is_other(key) for key in fields):
        return None
    if set(_yaml(original)[0]) & set(fields):
        return None
    if "\n" in original and re.search(r":[ \t]*>", text):
        raise UnclearError("YAML that folds lines")
    found = one_text(fields)
    if isinstance(parsed(original), str) and f'"{found}"' in text:
        raise UnclearError("quotation marks that may be the text's own")
    return found


def _yaml(text: str, depth: int = 0) -> tuple[dict[str, Any], bool]:
    """Read the fields of a YAML mapping, and tell whether it is but one line `key: words`, which is rather a label."""
    listed = [line for line in text.split("\n") if line.rstrip() not in ("---", "...")]
    entries: list[tuple[str, list[str]]] = []
    for line in listed:
        key = _YAML_KEY.fullmatch(line.rstrip())
        if key:
            entries.append((key[1].casefold(), [key[2] or ""]))
        elif entries and (not line.strip() or line[0] in " \t"):
            entries[-1][1].append(line)
        elif line.strip():
            return {}, False
    marked = any(_BLOCK.fullmatch(lines[0]) or (not lines[0] and len(lines) > 1) for _, lines in entries)
    if len(entries) == 1 and not marked:
        return {key: "" for key, _ in entries}, True
    return {key: _value(lines, depth) for key, lines in entries}, False


def _value(lines: list[str], depth: int) -> Any:
    """Read a value: a mapping of its own, or a scalar."""
    if lines[0] or depth > _MAX_DEPTH:
        return _scalar(lines)
    fields, plain = _yaml(_dedented(lines[1:]), depth + 1)
    return _scalar(lines) if plain or not fields else fields


def _dedented(lines: list[str]) -> str:
    """Take the indentation of the first line off all of them, and nothing else."""
    first = next((line for line in lines if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return "\n".join(line.removeprefix(indent) if line.strip() or line.startswith(indent) else "" for line in lines)


def _scalar(lines: list[str]) -> str:
    """Read a value: a block, a quoted text, or plain words over several lines."""
    head, body = lines[0].strip(), _dedented(lines[1:]).strip("\n")
    if _BLOCK.fullmatch(head):
        return body if head[0] == "|" else re.sub(r"(?<!\n)\n(?!\n)", " ", body).replace("\n\n", "\n")
    folded = " ".join([head, *body.split("\n")]).strip() if body else head
    if folded[:1] in ('"', "'"):
        value = _json(folded) if folded[0] == '"' else folded[1:-1].replace("''", "'")
        if not isinstance(value, str):
            raise UnclearError(_UNREADABLE)
        return value
    return folded
