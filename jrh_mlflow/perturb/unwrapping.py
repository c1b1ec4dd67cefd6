"""What a writer returned becomes the text it wrote.

A model that takes a JSON schema is asked for `{"text": …}`. Any other may put something around its
text. Only what can be told with certainty is taken off: one code fence around the whole answer, and
a JSON object that holds one text. Nothing else is changed. Whether what is left is the rewritten
text and nothing else is a question for the validator; where there is none, `foreign_line` finds
most of what stands on lines of its own.
"""

from __future__ import annotations

import json

from jrh_mlflow.perturb.english import cut, fences

FOREIGN = "a line that is not in the form of the original"
_QUOTATION_MARKS = "\"'“”„‘’«»"


def unwrapped(answer: str, original: str) -> str:
    r"""Return the text of an answer, without the code fence or the JSON object around it.

    A fence or an object that the original has too is a part of the text, and stays.

    Example:
        >>> unwrapped('```json\n{"text": "It rained.", "ok": true}\n```', "It was raining.")
        'It rained.'
        >>> unwrapped('{"text": "It rained.", "note": "I kept it short."}', "It was raining.")
        '{"text": "It rained.", "note": "I kept it short."}'
    """
    text = answer.strip()
    source = original.strip()
    inside_fence = _inside_fence(text)
    if inside_fence is not None and _inside_fence(source) is None:
        text = inside_fence
    inside_object = _only_text(text)
    if inside_object is not None and not _is_object(source):
        text = inside_object
    return text


def _inside_fence(text: str) -> str | None:
    """Return what a code fence around a whole text holds; None where there is no such fence."""
    if fences(text) != [(0, len(text))]:
        return None
    lines = text.splitlines(keepends=True)
    # A fence that is never closed runs to the end, and then the last line is not one.
    if len(lines) < 3 or lines[-1].strip() not in ("```", "~~~"):
        return None
    return "".join(lines[1:-1]).strip()


def _only_text(text: str) -> str | None:
    """Return the one text of a JSON object; None where it has none or several, or is no object."""
    values = _fields(text).values()
    texts = [value.strip() for value in values if isinstance(value, str)]
    # A text that is null was refused, and the one beside it says why; an inner object may hold more.
    unclear = any(value is None or isinstance(value, dict | list) for value in values)
    return texts[0] if len(texts) == 1 and not unclear else None


def _is_object(text: str) -> bool:
    return bool(_fields(text))


def _fields(text: str) -> dict[str, object]:
    if not text.startswith("{"):
        return {}
    try:
        # A line break within a string is no JSON, and is meant as one.
        fields = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def foreign_line(text: str, original: str) -> str | None:
    r"""Say which line of a rewrite is not in the form of the original, or None.

    The first and the last line are compared with those of the original: by what they open with (a
    letter, a figure, or the very mark) and by whether they end in a colon. Where the rewrite has
    more lines than the original, its last line is taken for an added one.

    Example:
        >>> foreign_line("Here is the text:\n\nIt rained.", "It was raining.")
        'begins with a line that is not in the form of the original: Here is the text:'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    expected = [line.strip() for line in original.splitlines() if line.strip()]
    if not lines or not expected:
        return None
    if _form(lines[0]) != _form(expected[0]):
        return f"begins with {FOREIGN}: {cut(lines[0])}"
    if _form(lines[-1]) != _form(expected[-1]) or len(lines) > len(expected):
        return f"ends with {FOREIGN}: {cut(lines[-1])}"
    return None


def _form(line: str) -> tuple[str, bool]:
    opening = line[0]
    if opening.isalpha():
        opening = "letter"
    elif opening.isdigit():
        opening = "figure"
    elif opening in _QUOTATION_MARKS:
        opening = "quotation mark"
    return opening, line.endswith((":", "："))
