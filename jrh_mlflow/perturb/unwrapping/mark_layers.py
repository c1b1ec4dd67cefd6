"""Marks that a writer puts around its text: tags, tokens, markers, code fences, quotation marks, lines of dashes.

Each layer takes the text and the original, and returns the text without it, or None where it is not there, or is the
original's own. What cannot be taken off with certainty raises `UnclearError`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from jrh_mlflow.perturb.english import cut
from jrh_mlflow.perturb.unwrapping.data_layers import UnclearError
from jrh_mlflow.perturb.unwrapping.remarks import speaks_of_rewriting

_FENCE_LINE = re.compile(r"^[ \t]{0,3}(?P<marks>`{3,}|~{3,})[ \t]{0,8}(?P<info>[^`\n]*)$", re.M)
_QUOTES = {
    '"""': '"""', "'''": "'''", '"': '"', "“": "”", "„": "“”", "'": "'", "‘": "’", "«": "»", "»": "«", "‹": "›",
    "「": "」", "『": "』", "《": "》", "”": "”",
}  # fmt: skip
_BEGINNING = 40
"""Characters by which a text is known to begin as the original does."""
_DOUBLED = '"“”„«»'
_BEFORE_A_QUOTE = ("", " ", "\n", "\t", "(", "[", "—", "–", "-")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)|(?<=s)['’](?=\s)")
AROUND = {"**": "**", "__": "__", "*": "*", "_": "_", "`": "`", "(": ")", "[": "]", "{": "}", "【": "】", "<<": ">>"}
_RULES = frozenset("-*_=~#|+—–─━═·•")
_ARROWS = ("->", "=>", "-->", "==>", "→", "⇒", "➡", "➡\ufe0f", "↓", "⬇", "⬇\ufe0f", "—", "–")
TOKEN = re.compile(r"<\|[^|>\n]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:bos|eos|pad|(?:start|end)_of_turn)>", re.I)
_TURN = re.compile(r"(?:assistant|model|user|system|final)\b\s*", re.I)
_THOUGHTS = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection|planning|plan)"
_THINKING = re.compile(rf"<(?P<tag>{_THOUGHTS})(?:\s[^<>]*)?>|\[THINK\]|◁think▷", re.I)
_THOUGHT = re.compile(rf"</{_THOUGHTS}\s?>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.I)
_PROLOG = re.compile(r"\s*(?:<\?xml[^<>]*\?>|<!doctype[^<>]*>|<!--[^<>]*-->)", re.I)
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w:.-]{0,40})(?:\s[^<>]{0,200})?>")
_TEXT_TAGS = re.compile(
    r"(?:new|final|revised|my)?[_-]?(?:re-?writ\w+|text|response|answer|output|result|paraphras\w+|version|content"
    r"|rephras\w+|reword\w+|reply|essay|edited)(?:[_-](?:text|version|response|answer|output))?",
    re.I,
)
_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.S)
_COMMAND = re.compile(r"\$*\\(?:boxed|text|textbf|textit|quote|emph)\{(.*)\}\$*", re.S)
_MATH = re.compile(r"\$(?=[^\d$])([^$]*)\$")
_CELL = re.compile(r"\|([^|]*)\|")
_NUMBERED = re.compile(r"^[ \t]{0,8}(\d{1,2})[.)][ \t]", re.M)
_MARKER = re.compile(
    r"^[ \t]{0,8}[=\-*#<\[~_>+|]{0,12}[ \t]{0,4}\b(?P<what>BEGIN|START|END|STOP|FINISH)\b(?:[ _][A-Z][A-Z _]{0,40})?"
    r"[ \t]{0,4}[=\-*#>\]~_<+:|]{0,12}[ \t]{0,8}$",
    re.M,
)


def tokens(text: str, original: str) -> str | None:
    """Take special tokens of chat formats off both ends."""
    if ("<" not in text and "[" not in text) or TOKEN.search(original):
        return None
    start, end = 0, len(text)
    while token := TOKEN.match(text, start):
        start = token.end()
        turn = _TURN.match(text, start) if "start" in token.group() else None
        start = turn.end() if turn else start
        start += len(text[start:]) - len(text[start:].lstrip())
    for token in reversed(list(TOKEN.finditer(text, start))):
        if text[token.end() : end].strip():
            break
        end = token.start()
    return text[start:end] if (start, end) != (0, len(text)) else None


def thoughts(text: str, original: str) -> str | None:
    """Leave out thinking between tags; some servers leave out the opening one."""
    if _THINKING.search(original) or _THOUGHT.search(original):
        return None
    closers = list(_THOUGHT.finditer(text))
    if closers:
        return text[closers[-1].end() :]
    if _THINKING.match(text):
        raise UnclearError("reasoning without an end")
    return None


def tags(text: str, original: str) -> str | None:
    """Take off one tag around everything, or keep what stands in the one tag that is named after a text."""
    if (prolog := _PROLOG.match(text)) and not _PROLOG.match(original):
        return text[prolog.end() :]
    for whole in (_CDATA, _COMMAND, _MATH, _CELL):
        if (content := whole.fullmatch(text)) and not whole.fullmatch(original):
            return content[1]
    opener = _TAG.match(text)
    if opener and (inner := _between(text, opener)) is not None and not text[inner[1] :].strip():
        return None if f"<{opener['name'].lower()}" in original.lower() else text[inner[0] : text.rfind("</")]
    return _named_tag(text, original)


def _between(text: str, opener: re.Match[str]) -> tuple[int, int] | None:
    """Return where the content of a tag begins, and where its only closing tag ends."""
    closing = re.compile(rf"</{re.escape(opener['name'])}\s?>", re.I)
    closers = list(closing.finditer(text, opener.end()))
    return (opener.end(), closers[0].end()) if len(closers) == 1 else None


def _named_tag(text: str, original: str) -> str | None:
    named = [tag for tag in _TAG.finditer(text) if _TEXT_TAGS.fullmatch(tag["name"])]
    named = [tag for tag in named if f"<{tag['name'].lower()}" not in original.lower()]
    made = [tag for tag in named if speaks_of_rewriting(f"{tag['name'].replace('_', ' ')}:")]
    for tags in (made, named):
        if len(tags) == 1 and (inner := _between(text, tags[0])):
            return text[inner[0] : text.rfind("</", inner[0], inner[1])]
    return None


def markers(text: str, original: str) -> str | None:
    """Take off lines that say where a text begins and ends, as the briefs have them."""
    markers = [] if _MARKER.search(original) else list(_MARKER.finditer(text))
    if not markers:
        return None
    begins = markers[0]["what"].upper() in ("BEGIN", "START") and not text[: markers[0].start()].strip()
    ends = markers[-1]["what"].upper() in ("END", "STOP", "FINISH") and not text[markers[-1].end() :].strip()
    if len(markers) == 2 and begins and ends:
        return text[markers[0].end() : markers[1].start()]
    raise UnclearError(f"marker of the prompt left in: {cut(markers[0].group())}")


def fence(text: str, original: str) -> str | None:
    """Take off a code fence around everything, or keep what is fenced where the original fences nothing."""
    fences = fence_lines(text)
    if not fences:
        around = text.startswith("```") and text.endswith("```") and len(text) > 6 and text.count("```") == 2
        return text[3:-3] if around and not original.startswith("```") else None
    own = fence_lines(original)
    if len(fences) % 2 and not len(own) % 2:
        raise UnclearError("a code fence without an end, or without a beginning")
    first, last = fences[0], fences[-1]
    whole = not text[: first.start()].strip() and not text[last.end() :].strip() and not last["info"].strip()
    if whole and _is_one_block(fences):
        doubled = not is_fenced(original) or is_fenced(text[first.end() : last.start()].strip())
        kept = len(fences) == 2 and _mostly_code(original, own)
        return text[first.end() : last.start()] if doubled and not kept else None
    if own or len(fences) != 2:
        if not own:
            raise UnclearError("several code fences")
        return None
    inside = text[first.end() : last.start()]
    if 2 * len(inside.split()) < len(text.split()):
        raise UnclearError("a code fence that the original has not")
    return inside


def fence_lines(text: str) -> list[re.Match[str]]:
    """List the lines of a text that open or close a code fence."""
    return list(_FENCE_LINE.finditer(text)) if "```" in text or "~~~" in text else []


def _is_one_block(fences: Sequence[re.Match[str]]) -> bool:
    """Tell whether the first fence is closed by the last: nothing or whole blocks between."""
    inner = fences[1:-1]
    longer = all(len(fences[0]["marks"]) > len(each["marks"]) for each in inner)
    return not inner or (len(inner) % 2 == 0 and (longer or bool(inner[0]["info"].strip())))


def is_fenced(text: str) -> bool:
    """Tell whether a text begins and ends with a code fence."""
    fences = fence_lines(text)
    return len(fences) > 1 and not text[: fences[0].start()].strip() and not text[fences[-1].end() :].strip()


def _mostly_code(text: str, fences: Sequence[re.Match[str]]) -> bool:
    blocks = zip(fences[::2], fences[1::2], strict=False)
    return 2 * sum(last.end() - first.start() for first, last in blocks) > len(text) > 0


def quotes(text: str, original: str) -> str | None:
    """Take off quotation marks, brackets and marks of bold around everything."""
    for marks, what in ((_QUOTES, "quotation mark"), (AROUND, "")):
        for opening, closings in marks.items():
            if not text.startswith(opening) or len(text) <= 2 * len(opening):
                continue
            closing = next((one for one in _closings(closings) if text.endswith(one)), None)
            inner = text[len(opening) : len(text) - len(closing or "")]
            # A text that goes on as the original begins has its own marks within.
            begun = len(original) > _BEGINNING and inner.startswith(original[:_BEGINNING])
            within = opening in inner if not what else not begun and _closes_within(inner, opening, closing or "")
            if closing is None or within:
                continue
            doubled = is_doubled(text[:2]) and is_doubled(text[-2:]) and not is_doubled(original[:2])
            if doubled or not original.startswith(opening):
                return inner
            if what and not any(original.endswith(one) for one in _closings(closings)):
                raise UnclearError("quotation marks around everything")
    return None


def _closes_within(inner: str, opening: str, closing: str) -> bool:
    """Tell whether marks within a text could be the other halves of those around it."""
    if is_doubled(opening + inner[:1]) and is_doubled(inner[-1:] + closing):
        return False
    bare = _APOSTROPHE.sub("", inner.replace("\\" + opening, ""))
    first = bare.find(opening if closing == opening else closing)
    if first < 0:
        return False
    if opening != closing:
        return _depth_falls(bare, opening, closing)
    # The next mark opens a quotation of its own, so that the first is still open; or it is the first one's other half.
    return not (first + 1 < len(bare) and bare[first - 1 : first] in _BEFORE_A_QUOTE and not bare[first + 1].isspace())


def _depth_falls(text: str, opening: str, closing: str) -> bool:
    """Tell whether a text within marks closes more of them than it opens."""
    depth = 1
    for mark in re.finditer(f"{re.escape(opening)}|{re.escape(closing)}", text):
        depth += 1 if mark.group() == opening else -1
        if depth == 0:
            return True
    return False


def is_doubled(marks: str) -> bool:
    """Tell whether two characters are both quotation marks."""
    return len(marks) == 2 and marks[0] in _DOUBLED and marks[1] in _DOUBLED


def _closings(closings: str) -> list[str]:
    return [closings] if len(set(closings)) == 1 or closings in (">>",) else list(closings)


def quoted_lines(text: str, original: str) -> str | None:
    """Take off `> ` before every line, or the one bullet or number before everything."""
    lines = text.split("\n")
    if (
        text.startswith(">")
        and all(line.lstrip().startswith(">") or not line.strip() for line in lines)
        and not original.startswith(">")
    ):
        return "\n".join(re.sub(r"^[ \t]*> ?", "", line) for line in lines)
    if text.startswith(("1. ", "1) ")) and not _NUMBERED.match(original):
        # The number of a list of one; a list of the text's own begins anew behind it.
        return text[3:] if _NUMBERED.findall(text)[1:2] in ([], ["1"]) else None
    bullet = re.match(r"[-*•+][ \t]+(?=\S)", text)
    alone = bullet and "\n" not in text and not re.match(r"[-*•+–]\s", original)
    return text[bullet.end() :] if bullet and alone else None


def rule_lines(text: str, original: str) -> str | None:
    """Take off lines at both ends that are a rule or an arrow, or a picture where the original has none."""
    lines, own = text.split("\n"), original.split("\n")
    pictured = any(map(_is_picture, original))
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
    return bool(marks) and all(map(_is_picture, marks))


def _is_picture(mark: str) -> bool:
    return unicodedata.category(mark) == "So"
