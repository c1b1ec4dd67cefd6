"""What is left in a text that is no part of it, and cannot be taken off: the reasons for which it is set aside.

Each check takes the text and the original and says in a few words what is wrong, or None. Whatever the original has
itself is no reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from jrh_mlflow.perturb.english import cut, words
from jrh_mlflow.perturb.unwrapping.data_layers import is_data
from jrh_mlflow.perturb.unwrapping.mark_layers import AROUND, TOKEN, fence_lines, is_doubled, is_fenced
from jrh_mlflow.perturb.unwrapping.prose_layers import LONGEST_REMARK, SENTENCE_END, opens_alike, said_by
from jrh_mlflow.perturb.unwrapping.remarks import (
    ends_in_colon,
    found,
    is_label,
    language,
    pattern,
    polite_openings,
    speaks,
    stems,
)

_Check = Callable[[str, str], "str | None"]
_RULE_LINE = re.compile(r"[ \t]*(?:-[ \t]?){3,}|[ \t]*(?:\*[ \t]?){3,}|[ \t]*_{3,}|[ \t]*={3,}|[ \t]*~{3,}|[ \t]*—{2,}")
_ANY_TAG = re.compile(r"</?[A-Za-z][\w:.-]{0,40}(?:\s[^<>]{0,200})?/?>")
_PROMPT_MARKER = re.compile(r"(?<!=)={3,}\s*(?:BEGIN|END)\b", re.I)
_JSON_PIECE = re.compile(
    r"""["']\w{1,40}["']\s{0,3}:\s{0,3}(?:["'\[{]|true\b|false\b|null\b|\d)|["']\s{0,4}[}\]]\s*$"""
)
_ARROWS = ("->", "=>", "→", "⇒", "➡", "|")
_ESCAPE = re.compile(r"\\[nrt\"](?![A-Za-z])|\\n(?=[A-Z])|\\u[0-9a-fA-F]{4}|&(?:quot|amp|lt|gt|apos|nbsp|#\d{2,5});")
_EDGE = re.compile(rf"{SENTENCE_END.pattern}|[()\[\]\n]")
"""Where what stands in a sentence, or in brackets, begins and ends."""
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_ENDED = ".!?…。！？:;：；|}>~`"
_FULL_STOPS = ".!?…。！？"
_CLOSERS = "*_\"”’'»)]」』 \t\n"
_TAIL_WORDS = 8
"""Last words of an original without a full stop, among which the last one of its rewrite is looked for."""
_STOCK = (
    "sorry apologize cannot unable unwilling decline refuse help assist assistance request fulfill comply provide"
    " support information language model assistant programming designed guidelines policy ethical content question"
    " harmful illegal inappropriate unethical understand important please instead however topic able"
)
"""What refusals are made of, whatever they refuse."""
_DANGLING = frozenset({"a", "an", "the", "and", "or", "but", "of", "to", "in", "on", "at", "by", "for", "with", "from"})
"""Words that no sentence ends with."""
_FEW = 8
"""Words from which on a text repeated in another is no chance."""
_LONG_LINE = 40
"""Characters from which on a line of the brief, or the beginning of a message, is known again."""


def left_in(text: str, original: str, brief: str) -> str | None:
    """Say what is still in a text that is no part of it."""
    return _first(_ALL, text, original) or _of_the_brief(text, original, brief)


def left_in_message(text: str, original: str, *, data: bool) -> str | None:
    """Say what is still in an edited message; what a tool returned is `data`, and may be cut or in any language."""
    return _first(_OF_DATA if data else _OF_MESSAGES, text, original)


def _first(checks: Sequence[_Check], text: str, original: str) -> str | None:
    return next(filter(None, (check(text, original) for check in checks)), None)


def refusal(text: str, original: str) -> str | None:
    """Say that a text refuses to be written, where the original refuses nothing, or something."""
    hit = found("refusal", text[:240])
    if not hit or _is_excused(text, original, hit):
        return None
    own = found("refusal", original[:400])
    of_rewriting = found("made", text[:400]) and not found("made", original)
    subject = stems(original) - stems(_STOCK)
    # A stock refusal of the writer's is no rewrite of one that says what it refuses.
    stock = len(subject) > 5 and len(stems(text) & subject) < 2
    return f"refusal: {cut(hit)}" if not own or of_rewriting or stock else None


def _is_excused(text: str, original: str, hit: str) -> bool:
    """Tell whether somebody in the text cannot do something, as in the original, and no service is refused."""
    start = text.find(hit)
    end = SENTENCE_END.search(text, start + len(hit))
    sentence = text[: end.end() if end else len(text)][-LONGEST_REMARK:]
    mine = stems(sentence) - stems(_STOCK)
    alike = len(mine & stems(original)) > min(1, len(mine) - 1) and 3 * len(mine & stems(original)) >= len(mine)
    return bool(mine) and alike and bool(found("negation", original)) and not found("service", sentence)


def _reasoning(text: str, original: str) -> str | None:
    begins = pattern("thinks", r"[ \t*_#>(\[-]{{0,6}}{}")
    hit = begins.match(text)
    if hit and not begins.match(original) and (found("made", hit.group()) or not opens_alike(text, original)):
        return f"reasoning left in: {cut(hit.group())}"
    polite = polite_openings(text[:LONGEST_REMARK]) > polite_openings(original[:LONGEST_REMARK])
    return f"opening remark of the generator: {cut(text)}" if polite else None


def _reasoning_before(text: str, original: str) -> str | None:
    """Say that an editor thinks before the message; an assistant may think aloud in it."""
    begun = original[:_LONG_LINE]
    return _reasoning(text, original) if begun and begun in text[1:] and not text.startswith(begun) else None


def _other_language(text: str, original: str) -> str | None:
    own = language(original)
    ends = SENTENCE_END.split(text[:LONGEST_REMARK])[0], text.rstrip().rpartition("\n")[2][-LONGEST_REMARK:]
    for piece in (text, ends[0], SENTENCE_END.split(ends[1].rstrip(".!?。！？"))[-1]):
        other = language(piece)
        if own and other and own != other and not speaks(piece, own):
            return f"another language than the original's: {cut(piece)}"
    return None


def _remarks_within(text: str, original: str) -> str | None:
    hit = found("elided", text)
    if hit and not found("elided", original):
        return f"part of the text was left out: {cut(hit)}"
    hit = None if found("about", original) else _remark_in(text, original)
    if hit:
        return f"remark within the text: {cut(hit)}"
    labels = [line for line in text.split("\n") if len(line) <= 80 and _labels_a_text(line)]
    own = sum(_labels_a_text(line) for line in original.split("\n") if len(line) <= 80)
    return f"remark within the text: {cut(labels[0])}" if len(labels) > own else None


def _remark_in(text: str, original: str) -> str | None:
    """Return the first talk of the rewriting that the original does not say in other words."""
    for hit in pattern("about").finditer(text):
        before = text[max(0, hit.start() - LONGEST_REMARK) : hit.start()]
        start = len(before) - len(_EDGE.split(before)[-1])
        sentence = before[start:] + hit.group() + _EDGE.split(text[hit.end() : hit.end() + LONGEST_REMARK])[0]
        opens = hit.start() == len(before) - start and opens_alike(text, original)
        if found("made", sentence) or not (opens or said_by(original, sentence)):
            return hit.group()
    return None


def _labels_a_text(line: str) -> bool:
    marked = ends_in_colon(line) or line.lstrip().startswith(("#", "*", "["))
    return bool(marked and found("made", line) and is_label(line))


def _several(text: str, original: str) -> str | None:
    for section in ("candidate", "or_line"):
        if len(pattern(section).findall(text)) > len(pattern(section).findall(original)):
            return "several texts"
    return "a line that separates texts" if _n_rules(text) > _n_rules(original) else None


def _n_rules(text: str) -> int:
    return sum(bool(_RULE_LINE.fullmatch(line.rstrip())) for line in text.split("\n") if line.strip()[:1] in "-*_=~—")


def _pieces(text: str, original: str) -> str | None:
    """Say what of a wrapper is left: half an object, a tag, an escape, a token, a mark without its other half."""
    for shape, what in (
        (_JSON_PIECE, "a piece of JSON"),
        (_ESCAPE, "an escape left in"),
        (TOKEN, "a special token left in"),
        (_PROMPT_MARKER, "marker of the prompt left in"),
    ):
        hit = shape.search(text)
        if hit and not shape.search(original):
            return f"{what}: {cut(hit.group())}"
    own = {tag.group().lower() for tag in _ANY_TAG.finditer(original)}
    if (tag := next((tag for tag in _ANY_TAG.finditer(text) if tag.group().lower() not in own), None)) and not own:
        return f"tag left in: {cut(tag.group())}"
    if is_data(original) and not is_data(text):
        return "a piece of JSON or none at all"
    fences, own_fences = len(fence_lines(text)), len(fence_lines(original))
    if fences % 2 and not own_fences % 2:
        return "a code fence without an end, or without a beginning"
    if fences > own_fences:
        return "a code fence that the original has not"
    return _odd_marks(text, original)


def _odd_marks(text: str, original: str) -> str | None:
    for marks, own in ((text[:2], original[:2]), (text[-2:], original[-2:])):
        if is_doubled(marks) and not is_doubled(own):
            return f"a mark without its other half: {marks}"
    for opening, closing in (*AROUND.items(), ('"', '"'), ("'", "'")):
        around = text.startswith(opening) and text.endswith(closing) and not is_fenced(text)
        itself = original.startswith(opening) and (opening in "\"'" or original.endswith(closing))
        if around and not itself and not (opening in "\"'" and original.endswith(closing)):
            return f"marks around everything: {opening}"
    for opening, closing in (('"', '"'), ("“", "”"), ("«", "»"), ("**", "**"), ("`", "`"), ("「", "」"), ("„", "“")):
        begins = text.startswith(opening) and not original.startswith(opening)
        ends = text.endswith(closing) and not original.endswith(closing)
        if opening == closing:
            odd = (begins or ends) and text.count(opening) % 2 and not original.count(opening) % 2
        else:
            odd = (begins and closing not in text) or (ends and opening not in text)
        if odd:
            return f"a mark without its other half: {opening if begins else closing}"
    return None


def _cut_off(text: str, original: str) -> str | None:
    """Say that a text stops in the middle of a sentence where the original does not, or long before it does."""
    if original.startswith(text) and text != original and text[-1:] not in _FULL_STOPS:
        return f"truncated: {cut(text[-50:])}"
    if text.rstrip(_CLOSERS).endswith(("...", "…")) and "..." not in original and "…" not in original:
        return f"truncated: {cut(text[-50:])}"
    last = text.rstrip(_CLOSERS)[-1:]
    if not last or last in _ENDED.replace(":", "") or not (last.isalnum() or last in ",:-–—/&("):
        return None
    own = original.rstrip(_CLOSERS)[-1:]
    ends = {word.casefold() for word in words(original)[-_TAIL_WORDS:]}
    shorter = not 2 < original.count("\n") <= text.count("\n")
    final = words(text)[-1:]
    dangling = final != words(original)[-1:] and any(word.casefold() in _DANGLING for word in final)
    elsewhere = shorter and len(words(original)) > _TAIL_WORDS and all(word.casefold() not in ends for word in final)
    stopped = (
        (own and own in _ENDED) or (last in ",-–—/&(" and last != own) or (last.isalnum() and (elsewhere or dangling))
    )
    return f"truncated: {cut(text[-50:])}" if stopped else None


def _repeated(text: str, original: str) -> str | None:
    """Say that the text stands there twice, or the original before or after it, apart from it."""
    if _is_twice(text) and not _is_twice(original):
        return "the text, twice"
    if len(original.split()) < _FEW or original not in text or text == original:
        return None
    before, _, after = text.partition(original)
    apart = before.rstrip(" \t").endswith("\n") or after.lstrip(" \t").startswith(("\n", *_ARROWS))
    return "echo of the original" if apart and 3 * len(before + after) > len(original) else None


def _is_twice(text: str) -> bool:
    """Tell whether a text ends as it begins, for a third of it or more."""
    begun = text[: min(_LONG_LINE, len(text) // 2)].rstrip()
    again = text[max(text.rfind(begun), 0) :]
    return len(begun.split()) > 2 and again != text and text.startswith(again) and 3 * len(again) > len(text)


def _strangers(text: str, original: str) -> str | None:
    """Say that the first or last paragraph, which the original has not, has nothing to do with it."""
    if _HEADING.match(text) and not _HEADING.search(original):
        return f"a heading that the original has not: {cut(text)}"
    paragraphs, own = ([part for part in each.split("\n\n") if part.strip()] for each in (text, original))
    if not len(own) < len(paragraphs):
        return None
    subject = stems(original)
    for part in (paragraphs[0], paragraphs[-1]):
        mine = stems(part)
        known = {word.casefold() for word in words(part)} & {word.casefold() for word in words(original)}
        if len(part) <= LONGEST_REMARK and not mine & subject and (len(mine) > 1 or language(part) or not known):
            return f"a paragraph that has nothing to do with the original: {cut(part)}"
    return None


def _of_the_brief(text: str, original: str, brief: str) -> str | None:
    """Say that a line of the brief, other than of the original, stands in the text."""
    lines = {line.strip("-*;,. \t") for line in brief.split("\n")}
    for line in sorted(line for line in lines if len(line) >= _LONG_LINE):
        if line in text and line not in original:
            return f"echo of the brief: {cut(line)}"
    return None


_OF_DATA: tuple[_Check, ...] = (_remarks_within, _several, _repeated)
_OF_MESSAGES: tuple[_Check, ...] = (_reasoning_before, *_OF_DATA, _other_language, _pieces, _cut_off)
_ALL: tuple[_Check, ...] = (refusal, _reasoning, *_OF_MESSAGES, _strangers)
