"""What a writer returned becomes the text it wrote, or the reason why it is set aside.

Models that take no schema wrap: a preface, a closing remark, JSON, a code fence, quotation marks, tags, their thoughts.
Where the structure is certain the wrapper is taken off, layer by layer; where it is not, the text is set aside.
Everything is compared with the original: what it does itself (JSON, a quotation, `Sure!`, a refusal, `Let me know`)
is no wrapper, unless the rewrite does it once more around itself.

A layer takes the text and the original, and returns the text without it, or None where it is not there, or is the
original's own; what cannot be taken off with certainty raises `UnclearError`. A leftover check takes the same and says
what is wrong, or None.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jrh_mlflow.perturb.english import cut, words
from jrh_mlflow.perturb.remarks import (
    FEW_WORDS,
    LONGEST_REMARK,
    SENTENCE_END,
    UnclearError,
    closing,
    echo,
    ends_in_colon,
    is_label,
    language,
    listed_words,
    opens_alike,
    pattern,
    phrase,
    polite_openings,
    preface,
    said_by,
    speaks,
    speaks_of_rewriting,
    stems,
)

_Layer = Callable[[str, str], "str | None"]
_BLANKS = " \t\r\n\f\v\xa0\u2002\u2003\u2009\u202f\u3000\ufeff\u200b\u200e\u2060"
_MOST_LAYERS = 12
_LONG_LINE = 40
"""Characters from which on a line of the brief, or the beginning of a text, is known again."""
_BEGINNING = 20
"""Characters of a message by which it is known that a preface was put before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unwrapped:
    """What a writer wrote."""

    text: str
    layers: tuple[str, ...] = ()
    """What was taken off, from the outside: `json`, `code fence`, `preface`, …"""
    problem: str | None = None
    """Why it is set aside, or None."""


def unwrap(text: str, original: str, *, brief: str = "") -> Unwrapped:
    r"""Take off what a writer put around a text, until nothing changes, and say what cannot be taken off.

    Args:
        text: As the writer returned it.
        original: The text it was to rewrite.
        brief: What the writer was told, if anything: it is sometimes repeated.

    Example:
        >>> unwrap('Sure! Here it is:\n{"text": "It rained all day.", "ok": true}', "It was raining all day.")
        Unwrapped(text='It rained all day.', layers=('preface', 'json'), problem=None)
    """
    layers: list[str] = []
    text, original = text.strip(_BLANKS), original.strip()
    if text == original:
        return Unwrapped(text=text)
    try:
        while len(layers) < _MOST_LAYERS and (taken := _outermost(text, original)):
            text, layers = taken[1].strip(_BLANKS), [*layers, taken[0]]
        problem = _first_leftover(_LEFTOVERS, text, original) or _of_the_brief(text, original, brief)
    except UnclearError as unclear:
        # A refusal is the better reason: what is wrapped around it does not matter.
        problem = _refusal(text, original) or str(unclear)
    return Unwrapped(text=text, layers=tuple(layers), problem=problem)


def wrapping(text: str, original: str) -> str | None:
    """Say what is around a text that must be bare, or None."""
    done = unwrap(text, original)
    return f"wrapped in {done.layers[0]}" if done.layers else done.problem


def around_a_message(text: str, original: str, *, data: bool = False) -> str | None:
    """Say what is around an edited message of a transcript, or None; `data` may be JSON, cut or in any language.

    A message says `Sure!` and `Let me know` by right, so only what stands on lines of its own is a remark.
    """
    text, original = text.strip(), original.strip()
    try:
        layers = [] if text == original or _has_the_form_of(text, original) else _LAYERS
        # Of a message that was empty only marks can be around: there are no words to compare with.
        for name, layer in layers if original else layers[:_N_STRUCTURES]:
            inner = None if data and name in ("json", "named fields") else layer(text, original)
            if inner is None:
                continue
            apart = "\n" in text.replace(inner.strip(), "") or _outermost(inner.strip(), original) is not None
            worded = name in ("preface", "closing remark") and not inner.strip().startswith(original[:_BEGINNING])
            if apart or not worded:
                return f"wrapped in {name}"
    except UnclearError as unclear:
        return None if " remark of the generator" in str(unclear) else str(unclear)
    return _first_leftover(_IN_DATA if data else _IN_MESSAGES, text, original) if original else None


def _outermost(text: str, original: str) -> tuple[str, str] | None:
    """Return the name of the outermost layer and the text without it."""
    if _has_the_form_of(text, original):
        return None
    for name, layer in _LAYERS:
        inner = layer(text, original)
        if inner is not None and inner.strip() != text:
            if not any(map(str.isalnum, inner)):
                raise UnclearError(f"nothing but {name}")
            return name, inner
    return None


# Data: JSON, YAML, literals of programs; read where one text is in it.

_MISSING = object()
_UNREADABLE = "a piece of JSON or YAML, which cannot be read"
_MAX_DEPTH = 32
_LONGEST = 1_000_000
"""Characters; nobody writes a longer text, and reading it would take its time."""
_DECODER = json.JSONDecoder(strict=False)
"""A line break within a string is no JSON, and is meant as one."""
_LOOKS_LIKE_DATA = re.compile(r"""[\[{]\s*(?:["'{\[]|[A-Za-z_]\w{0,30}\s{0,3}:)""")
_ASSIGNED = re.compile(
    r"""(?:(?:const |let |var |final )?[A-Za-z_][\w.]{0,40}(?::\s?str)?\s{0,3}="""
    r"""|return |print\(|echo |console\.log\()\s{0,3}(?=["'`({\[])"""
)
_YAML_KEY = re.compile(r"""(?:-[ ])?["']?[^\W\d][\w-]{0,30}(?: [\w-]{1,30})?["']?:(?:[ \t]+\S.*)?""")
_YAML_BLOCK = re.compile(r"[^:\n]*:[ \t]*(?:[|>][+-]?\d?)?")


def _text_in_data(text: str, original: str) -> str | None:
    """Return the one text that data hold, or None where the text is no data, or is data as the original is."""
    value, own = _parsed(text), _parsed(original)
    if value is _MISSING:
        if _LOOKS_LIKE_DATA.match(text) and (own is not _MISSING or not _LOOKS_LIKE_DATA.match(original)):
            raise UnclearError(_UNREADABLE)
        return _in_yaml(text, original)
    if not isinstance(value, dict | list):
        bare = isinstance(value, str) and not (isinstance(own, str) and not isinstance(_parsed(value), str))
        return value if bare else None
    return _like_the_original(text, value, own) if isinstance(own, dict | list) else _one_text(value)


def _like_the_original(text: str, value: Any, own: Any) -> str | None:
    """Return what is around data in the form of the original, or None for data in that form."""
    inner = [leaf for _, leaf in _leaves(value) if type(_parsed(leaf)) is type(own)]
    if len(inner) == 1:
        return inner[0]
    if type(value) is not type(own) or (isinstance(own, dict) and not set(own) & set(value)):
        raise UnclearError("JSON of another form than the original's")
    with suppress(ValueError, RecursionError):
        end = _DECODER.raw_decode(text)[1]
        return text[:end] if end < len(text) else None
    return None


def _has_the_form_of(text: str, original: str) -> bool:
    """Tell whether a text is data as the original is, from end to end: nothing is around it, however it is laid out."""
    both = text[:1] in ("{", "[") and _is_data(original) and _is_data(text)
    return both and _text_in_data(text, original) is None


def _is_data(text: str) -> bool:
    return isinstance(_parsed(text), dict | list)


def _parsed(text: str) -> Any:
    """Read a text as JSON, as a literal of Python, or as either in an assignment; `_MISSING` where it is neither."""
    text = text.strip()
    if text[:1] not in ("{", "[", '"', "'"):
        assigned = _ASSIGNED.match(text)
        text = text[assigned.end() :].rstrip("; \n") if assigned else ""
        if text[:1] == text[-1:] == "`" and text.count("`") == 2:
            return text[1:-1]
    if 0 < len(text) <= _LONGEST:
        for read in (_json, ast.literal_eval):
            # What followed `print(` or an assignment may still hang on the end.
            for closed in (text, text.rstrip(");")):
                with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                    return read(closed)
    return _MISSING


def _json(text: str) -> Any:
    """Read JSON; words may follow an object or an array, and nothing like data.

    Raises:
        ValueError: for anything else.
    """
    value, end = _DECODER.raw_decode(text)
    rest = text[end:].strip(" \t\n,;")
    whole = isinstance(value, dict | list) and not _LOOKS_LIKE_DATA.search(rest) and not rest.endswith(("}", "]"))
    if rest and not whole:
        raise ValueError("more data follow")
    return value


def _leaves(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield every text of some data with the key it stands under."""
    if depth > _MAX_DEPTH:
        raise UnclearError("JSON that is nested too deeply")
    if isinstance(value, str):
        yield key, value
    for inner in value if isinstance(value, list | tuple) else ():
        yield from _leaves(inner, key, depth + 1)
    for name, inner in value.items() if isinstance(value, Mapping) else ():
        yield from _leaves(inner, str(name).casefold(), depth + 1)


def _one_text(value: Any) -> str:
    """Return the text of some data: the only one, or the one whose key says so.

    Example:
        >>> _one_text({"text": "It rained.", "ok": True, "note": "I kept the weather."})
        'It rained.'
    """
    texts = [(key, text) for key, text in _leaves(value) if text.strip() and not _names_other(key)]
    # Whether the title belongs to the text nobody can tell.
    if any(phrase("title_key", key) for key, _ in texts):
        raise UnclearError("JSON with a title beside the text")
    made = {text for key, text in texts if phrase("made_key", key)}
    named = {text for key, text in texts if _names_text(key)}
    rest = [text for key, text in texts if not _names_text(key) and len(text.split()) > 3]
    for candidates in (made, named):
        if len(candidates) == 1 and not rest:
            return candidates.pop()
    if not named and len(texts) == 1 and (texts[0][0] == "" or rest):
        return texts[0][1]
    raise UnclearError("JSON without one certain text")


def _names_text(key: str) -> bool:
    return bool(phrase("text_key", key) or phrase("made_key", key))


def _names_other(key: str) -> bool:
    return bool(phrase("other_key", key) and not phrase("made", key))


def _in_yaml(text: str, original: str) -> str | None:
    fields, own = _yaml(text), _yaml(original)
    if not any(_names_text(key) and not _names_other(key) for key in fields) or set(own) & set(fields):
        return None
    if len(fields) == 1 and not _YAML_BLOCK.fullmatch(text.partition("\n")[0]):
        return None  # one line `key: words` is rather a label
    # Folding turns line breaks into spaces, and the text's own would be lost.
    if "\n" in original and re.search(r":[ \t]*>", text):
        raise UnclearError("YAML that folds lines")
    inner = _one_text(fields)
    if isinstance(_parsed(original), str) and f'"{inner}"' in text:
        raise UnclearError("quotation marks that may be the text's own")
    return inner


def _yaml(text: str) -> dict[str, Any]:
    """Read the fields of a YAML mapping; none where a line is neither a field nor goes on with one."""
    lines = [line for line in text.split("\n") if line.rstrip() not in ("---", "...")]
    begun = [line.rstrip() for line in lines if line.strip() and line[0] not in " \t"]
    if not begun or not all(map(_YAML_KEY.fullmatch, begun)):
        return {}
    import yaml

    try:
        fields = yaml.load("\n".join(lines), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return {str(key).casefold(): value for key, value in fields.items()} if isinstance(fields, dict) else {}


# Marks: tags, tokens, markers, code fences, quotation marks, lines of dashes.

_TOKEN = re.compile(r"<\|[^|>\n]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:bos|eos|pad|(?:start|end)_of_turn)>", re.I)
_TURN = r"<\|?\w{0,40}start\w{0,40}\|?>(?:assistant|model|user|system|final)\b"
_TOKENS_AROUND = re.compile(rf"\A(?:(?:{_TURN}|{_TOKEN.pattern})\s*)+|(?:(?:{_TOKEN.pattern})\s*)+\Z", re.I)
_THOUGHTS = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection|planning|plan)"
_THINKING = re.compile(rf"<{_THOUGHTS}(?:\s[^<>]*)?>|\[THINK\]|◁think▷", re.I)
_THOUGHT = re.compile(rf"</{_THOUGHTS}\s?>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.I)
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w:.-]{0,40})(?:\s[^<>]{0,200})?>")
_WHOLE = (
    re.compile(r"\s*(?:<\?xml[^<>]*\?>|<!doctype[^<>]*>|<!--[^<>]*-->)(.*)", re.I | re.S),
    re.compile(r"<!\[CDATA\[(.*)\]\]>", re.S),
    re.compile(r"\$*\\(?:boxed|text|textbf|textit|quote|emph)\{(.*)\}\$*", re.S),
    re.compile(r"\$(?=[^\d$])([^$]*)\$"),
    re.compile(r"\|([^|]*)\|"),
)
"""What is put around a whole text besides tags: the head of a document, commands of TeX, the bars of a table."""
_MARKER = re.compile(
    r"^[ \t]{0,8}[=\-*#<\[~_>+|]{0,12}[ \t]{0,4}\b(?P<what>BEGIN|START|END|STOP|FINISH)\b(?:[ _][A-Z][A-Z _]{0,40})?"
    r"[ \t]{0,4}[=\-*#>\]~_<+:|]{0,12}[ \t]{0,8}$",
    re.M,
)
_FENCE_LINE = re.compile(r"^[ \t]{0,3}(?P<marks>`{3,}|~{3,})[ \t]{0,8}(?P<info>[^`\n]*)$", re.M)
_QUOTES = (
    *('"""…"""', "'''…'''", '"…"', "“…”", "„…“", "„…”", "'…'", "‘…’"),
    *("«…»", "»…«", "‹…›", "「…」", "『…』", "《…》", "”…”"),
)
_AROUND = ("**…**", "__…__", "*…*", "_…_", "`…`", "(…)", "[…]", "{…}", "【…】", "<<…>>")
_DOUBLED = '"“”„«»'
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)|(?<=s)['’](?=\s)")
_NUMBERED = re.compile(r"^[ \t]{0,8}(\d{1,2})[.)][ \t]", re.M)
_RULES = frozenset("-*_=~#|+—–─━═·•")
_ARROWS = ("->", "=>", "-->", "==>", "→", "⇒", "➡", "➡\ufe0f", "↓", "⬇", "⬇\ufe0f", "—", "–")


def _thoughts(text: str, original: str) -> str | None:
    """Leave out thinking between tags; some servers leave out the opening one."""
    if _THINKING.search(original) or _THOUGHT.search(original):
        return None
    *_, last = (None, *_THOUGHT.finditer(text))
    if last is None and _THINKING.match(text):
        raise UnclearError("reasoning without an end")
    return text[last.end() :] if last else None


def _tokens(text: str, original: str) -> str | None:
    """Take special tokens of chat formats off both ends."""
    bare = text if _TOKEN.search(original) else _TOKENS_AROUND.sub("", text)
    return bare if bare != text else None


def _markers(text: str, original: str) -> str | None:
    """Take off lines that say where a text begins and ends, as the briefs have them."""
    markers = [] if _MARKER.search(original) else list(_MARKER.finditer(text))
    if not markers:
        return None
    first, last = markers[0], markers[-1]
    around = not text[: first.start()].strip() and not text[last.end() :].strip()
    if len(markers) == 2 and around and first["what"] in ("BEGIN", "START") and last["what"] not in ("BEGIN", "START"):
        return text[first.end() : last.start()]
    raise UnclearError(f"marker of the prompt left in: {cut(first.group())}")


def _fence(text: str, original: str) -> str | None:
    """Take off a code fence around everything, or keep what is fenced where the original fences nothing."""
    fences, own = _fence_lines(text), _fence_lines(original)
    if not fences:
        around = text.startswith("```") and text.endswith("```") and len(text) > 6 and text.count("```") == 2
        return text[3:-3] if around and not original.startswith("```") else None
    if len(fences) % 2 and not len(own) % 2:
        raise UnclearError("a code fence without an end, or without a beginning")
    inside = text[fences[0].end() : fences[-1].start()]
    if _is_fenced(text) and _is_one_block(fences):
        doubled = not _is_fenced(original) or _is_fenced(inside.strip())
        kept = len(fences) == 2 and _mostly_code(original, own)
        return inside if doubled and not kept else None
    if own:
        return None
    if len(fences) != 2:
        raise UnclearError("several code fences")
    if 2 * len(inside.split()) < len(text.split()):
        raise UnclearError("a code fence that the original has not")
    return inside


def _fence_lines(text: str) -> list[re.Match[str]]:
    """List the lines of a text that open or close a code fence."""
    return list(_FENCE_LINE.finditer(text)) if "```" in text or "~~~" in text else []


def _is_one_block(fences: Sequence[re.Match[str]]) -> bool:
    """Tell whether the first fence is closed by the last: nothing or whole blocks between."""
    first, *inner, last = fences
    longer = all(len(first["marks"]) > len(line["marks"]) for line in inner)
    nested = not inner or (len(inner) % 2 == 0 and (longer or bool(inner[0]["info"].strip())))
    return nested and not last["info"].strip()


def _is_fenced(text: str) -> bool:
    """Tell whether a text begins and ends with a code fence."""
    fences = _fence_lines(text)
    return len(fences) > 1 and not text[: fences[0].start()].strip() and not text[fences[-1].end() :].strip()


def _mostly_code(text: str, fences: Sequence[re.Match[str]]) -> bool:
    blocks = zip(fences[::2], fences[1::2], strict=False)
    return 2 * sum(last.end() - first.start() for first, last in blocks) > len(text) > 0


def _tags(text: str, original: str) -> str | None:
    """Take off one tag around everything, or keep what stands in the one tag that is named after a text."""
    for whole in _WHOLE:
        if (content := whole.fullmatch(text)) and not whole.fullmatch(original):
            return content[1]
    own = original.lower()
    tags = [tag for tag in _TAG.finditer(text) if f"<{tag['name'].lower()}" not in own]
    around = [tag for tag in tags[:1] if re.match(rf"</{re.escape(tag['name'])}\s?>\Z", text[text.rfind("<") :], re.I)]
    named = [tag for tag in tags if pattern("text_tag").fullmatch(tag["name"])]
    made = [tag for tag in named if speaks_of_rewriting(f"{tag['name'].replace('_', ' ')}:")]
    for openers in ([tag for tag in around if tag.start() == 0], made, named):
        closers = re.finditer(rf"</{re.escape(openers[0]['name'])}\s?>", text, re.I) if len(openers) == 1 else ()
        ends = [closer.start() for closer in closers if closer.start() >= openers[0].end()]
        if len(ends) == 1:
            return text[openers[0].end() : ends[0]]
    return None


def _quotes(text: str, original: str) -> str | None:
    """Take off quotation marks, brackets and marks of bold around everything."""
    for pair in (*_QUOTES, *_AROUND):
        opening, _, end = pair.partition("…")
        if not (text.startswith(opening) and text.endswith(end) and len(text) > 2 * len(opening)):
            continue
        inner, quoted = text[len(opening) : len(text) - len(end)], pair in _QUOTES
        # A text that goes on as the original begins has its own marks within.
        begun = len(original) > _LONG_LINE and inner.startswith(original[:_LONG_LINE])
        if opening in inner if not quoted else not begun and _closes_within(inner, opening, end):
            continue
        doubled = _is_doubled(text[:2]) and _is_doubled(text[-2:]) and not _is_doubled(original[:2])
        if doubled or not original.startswith(opening):
            return inner
        if quoted and not original.endswith(end):
            raise UnclearError("quotation marks around everything")
    return None


def _closes_within(inner: str, opening: str, end: str) -> bool:
    """Tell whether marks within a text could be the other halves of those around it."""
    if _is_doubled(opening + inner[:1]) and _is_doubled(inner[-1:] + end):
        return False
    bare = _APOSTROPHE.sub("", inner.replace("\\" + opening, ""))
    if opening != end:
        depth = 1
        for mark in re.findall(f"{re.escape(opening)}|{re.escape(end)}", bare):
            depth += 1 if mark == opening else -1
            if depth == 0:
                return True
        return False
    # The next mark opens a quotation of its own, so that the first is still open; or it is the first one's other half.
    first = bare.find(opening)
    opens = bare[first - 1 : first] in ("", *" \n\t([—–-") and not bare[first + 1 : first + 2].isspace()
    return first >= 0 and not (opens and first + 1 < len(bare))


def _is_doubled(marks: str) -> bool:
    """Tell whether two characters are both quotation marks."""
    return len(marks) == 2 and marks[0] in _DOUBLED and marks[1] in _DOUBLED


def _quoted_lines(text: str, original: str) -> str | None:
    """Take off `> ` before every line, or the one bullet or number before everything."""
    lines = text.split("\n")
    if text.startswith(">") and not original.startswith(">"):
        quoted = all(line.lstrip().startswith(">") or not line.strip() for line in lines)
        return "\n".join(re.sub(r"^[ \t]*> ?", "", line) for line in lines) if quoted else None
    if text.startswith(("1. ", "1) ")) and not _NUMBERED.match(original):
        # The number of a list of one; a list of the text's own begins anew behind it.
        return text[3:] if _NUMBERED.findall(text)[1:2] in ([], ["1"]) else None
    bullet = re.match(r"[-*•+][ \t]+(?=\S)", text)
    alone = bullet and "\n" not in text and not re.match(r"[-*•+–]\s", original)
    return text[bullet.end() :] if bullet and alone else None


def _rule_lines(text: str, original: str) -> str | None:
    """Take off lines at both ends that are a rule or an arrow, or a picture where the original has none."""
    lines, own = text.split("\n"), original.split("\n")
    pictured = any(unicodedata.category(mark) == "So" for mark in original)
    first, last = (
        len(lines) > 1 and (_is_rule(lines[end]) or (_is_smile(lines[end]) and not pictured)) and not _is_rule(own[end])
        for end in (0, -1)
    )
    return "\n".join(lines[first : len(lines) - last]) if first or last else None


def _is_rule(line: str) -> bool:
    """Tell whether a line is dashes, stars or an arrow; a bracket or `*/` closes something, and is the text's own."""
    marks = "".join(line.split())
    fenced = marks.startswith(("```", "~~~"))
    return marks in _ARROWS or (len(marks) > 1 and set(marks) <= _RULES and not fenced)


def _is_smile(line: str) -> bool:
    marks = [mark for mark in line if not mark.isspace() and mark not in "\ufe0f\u200d"]
    return bool(marks) and all(unicodedata.category(mark) == "So" for mark in marks)


_LAYERS: tuple[tuple[str, _Layer], ...] = (
    ("json", lambda text, original: _text_in_data(text, original) if text[:1] in ("{", "[") else None),
    ("quotation marks", lambda text, original: _text_in_data(text, original) if text[:1] in ('"', "'") else None),
    ("named fields", lambda text, original: _text_in_data(text, original) if text[:1] not in set("{[\"'") else None),
    ("thoughts", _thoughts),
    ("special tokens", _tokens),
    ("markers", _markers),
    ("code fence", _fence),
    ("tags", _tags),
    ("quotation marks", _quotes),
    ("quoted lines", _quoted_lines),
    ("rule lines", _rule_lines),
    ("echo", echo),
    ("preface", preface),
    ("closing remark", closing),
)
"""From the outside in: the first one that is there is taken off, and all are tried again on what is left."""
_N_STRUCTURES = [name for name, _ in _LAYERS].index("quoted lines")
"""Layers that are a matter of marks and not of words."""


# Leftovers: what is no part of the text, and cannot be taken off. Whatever the original has itself is no reason.

_ANY_TAG = re.compile(r"</?[A-Za-z][\w:.-]{0,40}(?:\s[^<>]{0,200})?/?>")
_JSON_PIECE = re.compile(
    r"""["']\w{1,40}["']\s{0,3}:\s{0,3}(?:["'\[{]|true\b|false\b|null\b|\d)|["']\s{0,4}[}\]]\s*$"""
)
_ESCAPE = re.compile(r"\\[nrt\"](?![A-Za-z])|\\n(?=[A-Z])|\\u[0-9a-fA-F]{4}|&(?:quot|amp|lt|gt|apos|nbsp|#\d{2,5});")
_PROMPT_MARKER = re.compile(r"(?<!=)={3,}\s*(?:BEGIN|END)\b", re.I)
_EDGE = re.compile(rf"{SENTENCE_END.pattern}|[()\[\]\n]")
"""Where what stands in a sentence, or in brackets, begins and ends."""
_RULE_LINE = re.compile(r"[ \t]*(?:(?:-[ \t]?){3,}|(?:\*[ \t]?){3,}|_{3,}|={3,}|~{3,}|—{2,})")
_ENDED, _CLOSERS = ".!?…。！？:;：；|}>~`", "*_\"”’'»)]」』 \t\n"
_TAIL_WORDS = 8
"""Last words of an original without a full stop, among which the last one of its rewrite is looked for."""


def _first_leftover(checks: Sequence[_Layer], text: str, original: str) -> str | None:
    return next(filter(None, (check(text, original) for check in checks)), None)


def _refusal(text: str, original: str) -> str | None:
    """Say that a text refuses to be written, where the original refuses nothing, or something."""
    hit = phrase("refusal", text[:240])
    if not hit or _is_excused(text, original, hit):
        return None
    of_rewriting = phrase("made", text[:400]) and not phrase("made", original)
    subject = stems(original) - stems(" ".join(listed_words("stock")))
    # A stock refusal of the writer's is no rewrite of one that says what it refuses.
    stock = len(subject) > 5 and len(stems(text) & subject) < 2
    return f"refusal: {cut(hit)}" if not phrase("refusal", original[:400]) or of_rewriting or stock else None


def _is_excused(text: str, original: str, hit: str) -> bool:
    """Tell whether somebody in the text cannot do something, as in the original, and no service is refused."""
    end = SENTENCE_END.search(text, text.find(hit) + len(hit))
    sentence = text[: end.end() if end else len(text)][-LONGEST_REMARK:]
    mine = stems(sentence) - stems(" ".join(listed_words("stock")))
    n_shared = len(mine & stems(original))
    alike = n_shared > min(1, len(mine) - 1) and 3 * n_shared >= len(mine) > 0
    return alike and bool(phrase("negation", original)) and not phrase("service", sentence)


def _reasoning(text: str, original: str) -> str | None:
    begins = pattern("thinks", r"[ \t*_#>(\[-]{{0,6}}{}")
    hit = begins.match(text)
    if hit and not begins.match(original) and (phrase("made", hit.group()) or not opens_alike(text, original)):
        return f"reasoning left in: {cut(hit.group())}"
    polite = polite_openings(text) > polite_openings(original)
    return f"opening remark of the generator: {cut(text)}" if polite else None


def _reasoning_before(text: str, original: str) -> str | None:
    """Say that an editor thinks before the message; an assistant may think aloud in it."""
    begun = original[:_LONG_LINE]
    return _reasoning(text, original) if begun and begun in text[1:] and not text.startswith(begun) else None


def _remarks_within(text: str, original: str) -> str | None:
    hit = phrase("elided", text)
    if hit and not phrase("elided", original):
        return f"part of the text was left out: {cut(hit)}"
    labels, own = (list(filter(_labels_a_text, version.split("\n"))) for version in (text, original))
    hit = _remark_in(text, original) or (labels[0] if len(labels) > len(own) else None)
    return f"remark within the text: {cut(hit)}" if hit else None


def _remark_in(text: str, original: str) -> str | None:
    """Return the first talk of the rewriting that the original does not say in other words."""
    for hit in () if phrase("about", original) else pattern("about").finditer(text):
        before = text[max(0, hit.start() - LONGEST_REMARK) : hit.start()]
        start = _EDGE.split(before)[-1]
        sentence = start + hit.group() + _EDGE.split(text[hit.end() : hit.end() + LONGEST_REMARK])[0]
        opens = start == before and opens_alike(text, original)
        if phrase("made", sentence) or not (opens or said_by(original, sentence)):
            return hit.group()
    return None


def _labels_a_text(line: str) -> bool:
    marked = ends_in_colon(line) or line.lstrip().startswith(("#", "*", "["))
    return bool(len(line) <= 80 and marked and phrase("made", line) and is_label(line))


def _several(text: str, original: str) -> str | None:
    for section in ("candidate", "or_line"):
        if len(pattern(section).findall(text)) > len(pattern(section).findall(original)):
            return "several texts"
    rules, own = (
        sum(bool(_RULE_LINE.fullmatch(line.rstrip())) for line in version.split("\n")) for version in (text, original)
    )
    return "a line that separates texts" if rules > own else None


def _repeated(text: str, original: str) -> str | None:
    """Say that the text stands there twice, or the original before or after it, apart from it."""
    if _is_twice(text) and not _is_twice(original):
        return "the text, twice"
    # A short original may well stand in its rewrite.
    if len(original.split()) < FEW_WORDS or original not in text:
        return None
    before, _, after = text.partition(original)
    apart = before.rstrip(" \t").endswith("\n") or after.lstrip(" \t").startswith(("\n", "|", *_ARROWS))
    return "echo of the original" if apart and 3 * len(before + after) > len(original) else None


def _is_twice(text: str) -> bool:
    """Tell whether a text ends as it begins, for a third of it or more."""
    begun = text[: min(_LONG_LINE, len(text) // 2)].rstrip()
    again = text[max(text.rfind(begun), 0) :]
    return len(begun.split()) > 2 and again != text and text.startswith(again) and 3 * len(again) > len(text)


def _other_language(text: str, original: str) -> str | None:
    own = language(original)
    last = text.rstrip().rpartition("\n")[2][-LONGEST_REMARK:].rstrip(".!?。！？")
    for piece in (text, SENTENCE_END.split(text[:LONGEST_REMARK])[0], SENTENCE_END.split(last)[-1]):
        if own and (language(piece) or own) != own and not speaks(piece, own):
            return f"another language than the original's: {cut(piece)}"
    return None


def _pieces(text: str, original: str) -> str | None:
    """Say what of a wrapper is left: half an object, a tag, an escape, a token, a mark without its other half."""
    for shape, what in (
        (_JSON_PIECE, "a piece of JSON"),
        (_ESCAPE, "an escape left in"),
        (_TOKEN, "a special token left in"),
        (_PROMPT_MARKER, "marker of the prompt left in"),
        (_ANY_TAG, "tag left in"),
    ):
        hit = shape.search(text)
        if hit and not shape.search(original):
            return f"{what}: {cut(hit.group())}"
    if _is_data(original) and not _is_data(text):
        return "a piece of JSON or none at all"
    if len(_fence_lines(text)) > len(_fence_lines(original)):
        return "a code fence that the original has not"
    return _odd_marks(text, original)


def _odd_marks(text: str, original: str) -> str | None:
    for pair in ('"…"', "“…”", "«…»", "**…**", "`…`", "「…」", "„…“"):
        opening, _, end = pair.partition("…")
        begins = text.startswith(opening) and not original.startswith(opening)
        ends = text.endswith(end) and not original.endswith(end)
        odd = (begins and end not in text) or (ends and opening not in text)
        if opening == end:
            odd = (begins or ends) and text.count(opening) % 2 == 1 and original.count(opening) % 2 == 0
        if odd:
            return f"a mark without its other half: {opening if begins else end}"
    return None


def _cut_off(text: str, original: str) -> str | None:
    """Say that a text stops in the middle of a sentence where the original does not, or long before it does."""
    ending, own_ending = text.rstrip(_CLOSERS), original.rstrip(_CLOSERS)
    last, own = ending[-1:], own_ending[-1:]
    dotted = ending.endswith(("...", "…")) and "..." not in original and "…" not in original
    stopped = dotted or (original.startswith(text) and text != original and text[-1:] not in ".!?…。！？")
    if not stopped and (last.isalnum() or (last and last in ",:-–—/&(")):
        final, own_words = words(text)[-1:], words(original)
        ends = {word.casefold() for word in own_words[-_TAIL_WORDS:]}
        shorter = not 2 < original.count("\n") <= text.count("\n") and len(own_words) > _TAIL_WORDS
        elsewhere = shorter and all(word.casefold() not in ends for word in final)
        dangling = final != own_words[-1:] and any(word.casefold() in listed_words("dangling") for word in final)
        stopped = own in _ENDED if own else False
        stopped = stopped or (last in ",-–—/&(" and last != own) or (last.isalnum() and (elsewhere or dangling))
    return f"truncated: {cut(text[-50:])}" if stopped else None


def _strangers(text: str, original: str) -> str | None:
    """Say that the first or last paragraph, which the original has not, has nothing to do with it."""
    if re.match(r"#{1,6}[ \t]+\S", text) and not re.search(r"#{1,6}[ \t]+\S", original):
        return f"a heading that the original has not: {cut(text)}"
    paragraphs, own = ([part for part in version.split("\n\n") if part.strip()] for version in (text, original))
    for part in (paragraphs[0], paragraphs[-1]) if len(own) < len(paragraphs) else ():
        mine = stems(part)
        known = {word.casefold() for word in words(part)} & {word.casefold() for word in words(original)}
        apart = not mine & stems(original) and (len(mine) > 1 or language(part) or not known)
        if len(part) <= LONGEST_REMARK and apart:
            return f"a paragraph that has nothing to do with the original: {cut(part)}"
    return None


def _of_the_brief(text: str, original: str, brief: str) -> str | None:
    """Say that a line of the brief, other than of the original, stands in the text."""
    lines = {line.strip("-*;,. \t") for line in brief.split("\n")}
    for line in sorted(line for line in lines if len(line) >= _LONG_LINE):
        if line in text and line not in original:
            return f"echo of the brief: {cut(line)}"
    return None


_IN_DATA: tuple[_Layer, ...] = (_remarks_within, _several, _repeated)
_IN_MESSAGES: tuple[_Layer, ...] = (_reasoning_before, *_IN_DATA, _other_language, _pieces, _cut_off)
_LEFTOVERS: tuple[_Layer, ...] = (_refusal, _reasoning, *_IN_MESSAGES, _strangers)
