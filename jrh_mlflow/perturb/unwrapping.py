"""What a writer returned becomes the text it wrote, or the reason why it is set aside.

Models wrap: a preface, a closing remark, JSON, a code fence, quotation marks, tags, their thoughts. Where the structure
is certain the wrapper is taken off, layer by layer; where it is not, the text is set aside. Everything is compared with
the original: what it does itself (JSON, a quotation, `Sure!`, a refusal, `Let me know if …`) is no wrapper, unless the
rewrite does it once more around itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from jrh_mlflow.perturb.data_layers import UnclearError, is_data, text_in_data
from jrh_mlflow.perturb.english import cut, words
from jrh_mlflow.perturb.remarks import (
    ends_in_colon,
    found,
    is_label,
    is_pleasantry,
    language,
    pattern,
    polite_openings,
    presents_a_text,
    speaks,
    speaks_of_rewriting,
    stems,
)

_BLANKS = " \t\r\n\f\v\xa0\u2002\u2003\u2009\u202f\u3000\ufeff\u200b\u200e\u2060"
_MOST_LAYERS = 12
_MOST_REMARKS = 6
_LONGEST_REMARK = 400
"""Characters of a sentence that is about the text and not of it."""
_SENTENCE_END = re.compile(r"[.!?:][*_\"”’)\]]{0,3}(?=\s|$)|[。！？：][”」』）*_]{0,3}")
_DASHED_LABEL = re.compile(r"[^\n—–:-]{1,60}\s[—–-]{1,2}\s")
_RULE_LINE = re.compile(r"[ \t]*(?:-[ \t]?){3,}|[ \t]*(?:\*[ \t]?){3,}|[ \t]*_{3,}|[ \t]*={3,}|[ \t]*~{3,}|[ \t]*—{2,}")
_FENCE_LINE = re.compile(r"[ \t]{0,3}(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)")
_QUOTES = {
    '"""': '"""', "'''": "'''", '"': '"', "“": "”", "„": "“”", "'": "'", "‘": "’", "«": "»", "»": "«", "‹": "›",
    "「": "」", "『": "』", "《": "》", "”": "”",
}  # fmt: skip
_DOUBLED = '"“”„«»'
_BEFORE_A_QUOTE = ("", " ", "\n", "\t", "(", "[", "—", "–", "-")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)|(?<=s)['’](?=\s)")
_AROUND = {"**": "**", "__": "__", "*": "*", "_": "_", "`": "`", "(": ")", "[": "]", "{": "}", "【": "】", "<<": ">>"}
_TOKEN = re.compile(r"<\|[^|>\n]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:bos|eos|pad|(?:start|end)_of_turn)>", re.I)
_TURN = re.compile(r"(?:assistant|model|user|system|final)\b\s*", re.I)
_THOUGHTS = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection|planning|plan)"
_THINKING = re.compile(rf"<(?P<tag>{_THOUGHTS})(?:\s[^<>]*)?>|\[THINK\]|◁think▷", re.I)
_THOUGHT = re.compile(rf"</{_THOUGHTS}\s?>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>", re.I)
_PROLOG = re.compile(r"\s*(?:<\?xml[^<>]*\?>|<!doctype[^<>]*>|<!--[^<>]*-->)", re.I)
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w:.-]{0,40})(?:\s[^<>]{0,200})?>")
_ANY_TAG = re.compile(r"</?[A-Za-z][\w:.-]{0,40}(?:\s[^<>]{0,200})?/?>")
_TEXT_TAGS = re.compile(
    r"(?:new|final|revised|my)?[_-]?(?:re-?writ\w+|text|response|answer|output|result|paraphras\w+|version|content"
    r"|rephras\w+|reword\w+|reply|essay|edited)(?:[_-](?:text|version|response|answer|output))?",
    re.I,
)
_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.S)
_COMMAND = re.compile(r"\$*\\(?:boxed|text|textbf|textit|quote|emph)\{(.*)\}\$*", re.S)
_MARKER = re.compile(
    r"^[ \t]{0,8}[=\-*#<\[~_>+|]{0,12}[ \t]{0,4}\b(?P<what>BEGIN|START|END|STOP|FINISH)\b(?:[ _][A-Z][A-Z _]{0,40})?"
    r"[ \t]{0,4}[=\-*#>\]~_<+:|]{0,12}[ \t]{0,8}$",
    re.M,
)
_PROMPT_MARKER = re.compile(r"(?<!=)={3,}\s*(?:BEGIN|END)\b", re.I)
_JSON_PIECE = re.compile(
    r"""["']\w{1,40}["']\s{0,3}:\s{0,3}(?:["'\[{]|true\b|false\b|null\b|\d)|["']\s{0,4}[}\]]\s*$"""
)
_ESCAPE = re.compile(r"\\[nrt\"](?![A-Za-z])|\\n(?=[A-Z])|\\u[0-9a-fA-F]{4}|&(?:quot|amp|lt|gt|apos|nbsp|#\d{2,5});")
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_NOTE_LINE = r"^[ \t>*_#(\[-]{{0,6}}{}(?: \([^)\n]{{0,30}}\))?[*_)\]]{{0,3}}\s?[:：][*_]{{0,3}}"
_BRACKETED = re.compile(r"[(\[][^()\[\]\n]{3,160}[)\]][.!]?$")
_ENDED = ".!?…。！？:;：；|}>~`"
_CLOSERS = "*_\"”’'»)]」』 \t\n"
_TAIL_WORDS = 8
"""Last words of an original without a full stop, among which the last one of its rewrite is looked for."""
_STRUCTURES = ("{", "[", "```", "~~~", "<", '"', "“")
"""What a line begins with that is no remark."""
_STOCK = stems(
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
"""Characters from which on a line of the brief is known again."""


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
        problem = _left_in(text, original, brief)
    except UnclearError as unclear:
        problem = _refusal(text, original) or str(unclear)
    return Unwrapped(text=text, layers=tuple(layers), problem=problem)


def wrapping(text: str, original: str) -> str | None:
    """Say what is around a text that must be bare, or None."""
    done = unwrap(text, original)
    return done.problem or (f"wrapped in {done.layers[0]}" if done.layers else None)


def around_a_message(text: str, original: str, *, data: bool = False) -> str | None:
    """Say what is around an edited message of a transcript, or None; `data` may be JSON, cut or in any language.

    A message says `Sure!` and `Let me know` by right, so only what stands on lines of its own is a remark.
    """
    text, original = text.strip(), original.strip()
    layers = [(name, layer) for name, layer in _LAYERS if not (data and name in _DATA)]
    try:
        for name, layer in layers if original else layers[:_N_STRUCTURES]:
            inner = layer(text, original) if text != original else None
            if inner is not None and (name not in _WORDY or "\n" in text.replace(inner.strip(), "")):
                return f"wrapped in {name}"
    except UnclearError as unclear:
        return None if " remark of the generator" in str(unclear) else str(unclear)
    checks = [_remarks_within, _several, _repeated, *([] if data else [_other_language, _pieces, _cut_off])]
    return next(filter(None, (check(text, original) for check in checks)), None) if original else None


def _outermost(text: str, original: str) -> tuple[str, str] | None:
    """Return the name of the outermost layer and the text without it."""
    for name, layer in _LAYERS:
        inner = layer(text, original)
        if inner is not None and inner.strip() != text:
            if not any(map(str.isalnum, inner)):
                raise UnclearError(f"nothing but {name}")
            return name, inner
    return None


def _data(text: str, original: str) -> str | None:
    return text_in_data(text, original) if text[:1] in ("{", "[") else None


def _literal(text: str, original: str) -> str | None:
    return text_in_data(text, original) if text[:1] in ('"', "'") else None


def _fields(text: str, original: str) -> str | None:
    return text_in_data(text, original) if text[:1] not in set("{[\"'") else None


def _tokens(text: str, original: str) -> str | None:
    """Take special tokens of chat formats off both ends."""
    if ("<" not in text and "[" not in text) or _TOKEN.search(original):
        return None
    start, end = 0, len(text)
    while token := _TOKEN.match(text, start):
        start = token.end()
        turn = _TURN.match(text, start) if "start" in token.group() else None
        start = turn.end() if turn else start
        start += len(text[start:]) - len(text[start:].lstrip())
    for token in reversed(list(_TOKEN.finditer(text, start))):
        if text[token.end() : end].strip():
            break
        end = token.start()
    return text[start:end] if (start, end) != (0, len(text)) else None


def _thoughts(text: str, original: str) -> str | None:
    """Leave out thinking between tags; some servers leave out the opening one."""
    if _THINKING.search(original) or _THOUGHT.search(original):
        return None
    closers = list(_THOUGHT.finditer(text))
    if closers:
        return text[closers[-1].end() :]
    if _THINKING.match(text):
        raise UnclearError("reasoning without an end")
    return None


def _tags(text: str, original: str) -> str | None:
    """Take off one tag around everything, or keep what stands in the one tag that is named after a text."""
    if (prolog := _PROLOG.match(text)) and not _PROLOG.match(original):
        return text[prolog.end() :]
    for whole in (_CDATA, _COMMAND):
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


def _markers(text: str, original: str) -> str | None:
    """Take off lines that say where a text begins and ends, as the briefs have them."""
    markers = [] if _MARKER.search(original) else list(_MARKER.finditer(text))
    if not markers:
        return None
    begins = markers[0]["what"].upper() in ("BEGIN", "START") and not text[: markers[0].start()].strip()
    ends = markers[-1]["what"].upper() in ("END", "STOP", "FINISH") and not text[markers[-1].end() :].strip()
    if len(markers) == 2 and begins and ends:
        return text[markers[0].end() : markers[1].start()]
    raise UnclearError(f"marker of the prompt left in: {cut(markers[0].group())}")


def _fence(text: str, original: str) -> str | None:
    """Take off a code fence around everything, or keep what is fenced where the original fences nothing."""
    fences = _fence_lines(text)
    if not fences:
        around = text.startswith("```") and text.endswith("```") and len(text) > 6 and text.count("```") == 2
        return text[3:-3] if around and not original.startswith("```") else None
    own = _fence_lines(original)
    if len(fences) % 2 and not len(own) % 2:
        raise UnclearError("a code fence without an end, or without a beginning")
    first, last = fences[0], fences[-1]
    whole = not text[: first.start()].strip() and not text[last.end() :].strip() and not last["info"].strip()
    if whole and _is_one_block(fences):
        doubled = not _is_fenced(original) or _is_fenced(text[first.end() : last.start()].strip())
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


def _fence_lines(text: str) -> list[re.Match[str]]:
    return list(_fence_pattern().finditer(text)) if "```" in text or "~~~" in text else []


@lru_cache(1)
def _fence_pattern() -> re.Pattern[str]:
    return re.compile(rf"^{_FENCE_LINE.pattern}$", re.M)


def _is_one_block(fences: Sequence[re.Match[str]]) -> bool:
    """Tell whether the first fence is closed by the last: nothing or whole blocks between."""
    inner = fences[1:-1]
    longer = all(len(fences[0]["marks"]) > len(each["marks"]) for each in inner)
    return not inner or (len(inner) % 2 == 0 and (longer or bool(inner[0]["info"].strip())))


def _is_fenced(text: str) -> bool:
    fences = _fence_lines(text)
    return len(fences) > 1 and not text[: fences[0].start()].strip() and not text[fences[-1].end() :].strip()


def _mostly_code(text: str, fences: Sequence[re.Match[str]]) -> bool:
    blocks = zip(fences[::2], fences[1::2], strict=False)
    return 2 * sum(last.end() - first.start() for first, last in blocks) > len(text) > 0


def _quotes(text: str, original: str) -> str | None:
    """Take off quotation marks, brackets and marks of bold around everything."""
    for marks, what in ((_QUOTES, "quotation mark"), (_AROUND, "")):
        for opening, closings in marks.items():
            if not text.startswith(opening) or len(text) <= 2 * len(opening):
                continue
            closing = next((one for one in _closings(closings) if text.endswith(one)), None)
            inner = text[len(opening) : len(text) - len(closing or "")]
            if closing is None or (opening in inner if not what else _closes_within(inner, opening, closing)):
                continue
            doubled = _is_doubled(text[:2]) and _is_doubled(text[-2:]) and not _is_doubled(original[:2])
            if doubled or not original.startswith(opening):
                return inner
            if what and not any(original.endswith(one) for one in _closings(closings)):
                raise UnclearError("quotation marks around everything")
    return None


def _closes_within(inner: str, opening: str, closing: str) -> bool:
    """Tell whether marks within a text could be the other halves of those around it."""
    if _is_doubled(opening + inner[:1]) and _is_doubled(inner[-1:] + closing):
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


def _is_doubled(marks: str) -> bool:
    return len(marks) == 2 and marks[0] in _DOUBLED and marks[1] in _DOUBLED


def _closings(closings: str) -> list[str]:
    return [closings] if len(set(closings)) == 1 or closings in (">>",) else list(closings)


def _quoted_lines(text: str, original: str) -> str | None:
    """Take off `> ` before every line, or the one bullet before everything."""
    lines = text.split("\n")
    if (
        text.startswith(">")
        and all(line.lstrip().startswith(">") or not line.strip() for line in lines)
        and not original.startswith(">")
    ):
        return "\n".join(re.sub(r"^[ \t]*> ?", "", line) for line in lines)
    bullet = re.match(r"[-*•+][ \t]+(?=\S)", text)
    alone = bullet and "\n" not in text and not re.match(r"[-*•+–]\s", original)
    return text[bullet.end() :] if bullet and alone else None


def _rules(text: str, original: str) -> str | None:
    """Take off lines without a letter at both ends: dashes, an arrow, a smile."""
    lines, own = text.split("\n"), original.split("\n")
    first = len(lines) > 1 and _says_nothing(lines[0]) and not _says_nothing(own[0])
    last = len(lines) > 1 and _says_nothing(lines[-1]) and not _says_nothing(own[-1])
    return "\n".join(lines[first : len(lines) - last]) if first or last else None


def _says_nothing(line: str) -> bool:
    return not any(map(str.isalnum, line))


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


def _preface(text: str, original: str) -> str | None:
    """Take off what presents the text, beyond what the original says like it."""
    subject = stems(original)
    heads, own = _heads(text, subject), _heads(original, subject)
    number = _beyond([head.kind for head in heads], [head.kind for head in own])
    if number:
        if not all(head.certain for head in heads[:number]):
            raise UnclearError(f"opening remark of the generator: {cut(text)}")
        return text[heads[number - 1].place :]
    line, _, rest = text.partition("\n")
    presents = ends_in_colon(line) and len(line) <= _LONGEST_REMARK and rest.strip()
    again = not ends_in_colon(original.partition("\n")[0]) or ends_in_colon(rest.strip().partition("\n")[0])
    return rest if presents and again and not stems(line) & subject else None


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
        plain = plain or line[:length].rstrip().endswith(("—", "–", "-"))
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
        named = length == len(line) or ends_in_colon(piece) or piece.rstrip().endswith(("—", "–", "-"))
        if named and is_label(piece):
            return ("announcement" if found("made", piece) else "preface"), length
        if speaks_of_rewriting(piece) or found("about", piece):
            return "announcement", length
        if presents_a_text(piece) or (length == len(line) and found("here", piece) and found("noun", piece)):
            return "preface", length
    return None


def _piece_ends(line: str) -> Iterator[int]:
    """Yield where the first piece of a line may end: at a dash, at its first sentence, at its own end."""
    if (dashed := _DASHED_LABEL.match(line)) and is_label(dashed.group()):
        yield dashed.end()
    sentence = _SENTENCE_END.search(line[:_LONGEST_REMARK])
    if sentence and sentence.end() < len(line):
        yield sentence.end()
    elif len(line) <= _LONGEST_REMARK:
        yield len(line)


def _closing(text: str, original: str) -> str | None:
    """Take off what is said below the text, beyond what the original says like it."""
    note = _notes(text, original)
    if note is not None:
        return text[:note]
    tails, own = _tails(text, stems(original)), _tails(original, frozenset())
    number = _beyond([tail.kind for tail in tails], [tail.kind for tail in own])
    ends = [*(tail.place for tail in tails[:number]), len(text)]
    if not number or any(_is_of(text[start:end], original) for start, end in pairwise(sorted(ends))):
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
    return not found("made", piece) and 2 * len(mine & stems(original[-_LONGEST_REMARK:])) > len(mine)


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
    bracketed = _BRACKETED.search(line[-_LONGEST_REMARK:])
    if bracketed and (kind := _remark_kind(bracketed.group())):
        return kind, len(line) - len(bracketed.group()), True
    if len(line) <= _LONGEST_REMARK and alone and (kind := _remark_kind(line)) and _all_remarks(line, subject):
        return kind, 0, True
    ends = [end.end() for end in _SENTENCE_END.finditer(line) if end.end() < len(line)]
    place = ends[-1] if ends else 0
    sentence = line[place:]
    if 0 < len(sentence) <= _LONGEST_REMARK and (kind := _remark_kind(sentence)):
        before = sentence[: _place_of_closing(sentence)]
        return kind, place + (0 if before.rstrip().endswith(",") else len(before)), False
    glued = pattern("closing").search(line, max(0, len(line) - _LONGEST_REMARK // 2))
    return ("closing", glued.start(), False) if glued else None


def _all_remarks(line: str, subject: frozenset[str]) -> bool:
    """Tell whether every sentence of a line is a remark, from its beginning."""
    ends = [0, *(end.end() for end in _SENTENCE_END.finditer(line)), len(line)]
    sentences = [line[start:end] for start, end in pairwise(ends) if any(map(str.isalnum, line[start:end]))]
    return all(_remark_kind(part) and not stems(part[: _place_of_closing(part)]) & subject for part in sentences)


def _place_of_closing(piece: str) -> int:
    hit = pattern("closing").search(piece)
    return hit.start() if hit else 0


def _remark_kind(piece: str) -> str | None:
    short = len(words(piece)) <= _TAIL_WORDS and found("made", piece)
    if short or speaks_of_rewriting(piece) or found("about", piece):
        return "remark"
    return "closing" if found("closing", piece) or is_pleasantry(piece) else None


def _echo(text: str, original: str) -> str | None:
    """Leave out the original where it is repeated before the text, and a label says so."""
    if len(original.split()) < _FEW or not text.startswith(original) or text == original:
        return None
    rest = text[len(original) :]
    heads = _heads(rest.lstrip(), stems(original))
    if heads and rest.lstrip(" \t").startswith("\n") and heads[0].kind != "pleasantry":
        return rest
    return None


_LAYERS: tuple[tuple[str, Callable[[str, str], str | None]], ...] = (
    ("json", _data),
    ("quotation marks", _literal),
    ("named fields", _fields),
    ("thoughts", _thoughts),
    ("special tokens", _tokens),
    ("markers", _markers),
    ("code fence", _fence),
    ("tags", _tags),
    ("quotation marks", _quotes),
    ("quoted lines", _quoted_lines),
    ("rule lines", _rules),
    ("echo", _echo),
    ("preface", _preface),
    ("closing remark", _closing),
)


_N_STRUCTURES = [name for name, _ in _LAYERS].index("quoted lines")
"""Layers that are a matter of marks and not of words."""
_DATA = ("json", "named fields")
_WORDY = ("preface", "closing remark")


def _left_in(text: str, original: str, brief: str) -> str | None:
    """Say what is still in a text that is no part of it."""
    checks = (
        _refusal,
        _reasoning,
        _other_language,
        _remarks_within,
        _several,
        _pieces,
        _cut_off,
        _repeated,
        _strangers,
    )
    reasons = (check(text, original) for check in checks)
    return next((reason for reason in reasons if reason), None) or _of_the_brief(text, original, brief)


def _refusal(text: str, original: str) -> str | None:
    hit = found("refusal", text[:240])
    if not hit:
        return None
    own = found("refusal", original[:400])
    of_rewriting = found("made", text[:400]) and not found("made", original)
    subject = stems(original) - _STOCK
    # A stock refusal of the writer's is no rewrite of one that says what it refuses.
    stock = len(subject) > 5 and len(stems(text) & subject) < 2
    return f"refusal: {cut(hit)}" if not own or of_rewriting or stock else None


def _reasoning(text: str, original: str) -> str | None:
    begins = pattern("thinks", r"[ \t*_#>(\[-]{{0,6}}{}")
    hit = begins.match(text)
    if hit and not begins.match(original):
        return f"reasoning left in: {cut(hit.group())}"
    polite = polite_openings(text[:_LONGEST_REMARK]) > polite_openings(original[:_LONGEST_REMARK])
    return f"opening remark of the generator: {cut(text)}" if polite else None


def _other_language(text: str, original: str) -> str | None:
    own = language(original)
    ends = _SENTENCE_END.split(text[:_LONGEST_REMARK])[0], text.rstrip().rpartition("\n")[2][-_LONGEST_REMARK:]
    for piece in (text, ends[0], _SENTENCE_END.split(ends[1].rstrip(".!?。！？"))[-1]):
        other = language(piece)
        if own and other and own != other and not speaks(piece, own):
            return f"another language than the original's: {cut(piece)}"
    return None


def _remarks_within(text: str, original: str) -> str | None:
    for section, what in (("about", "remark within the text"), ("elided", "part of the text was left out")):
        hit = found(section, text)
        if hit and not found(section, original):
            return f"{what}: {cut(hit)}"
    labels = [line for line in text.split("\n") if len(line) <= 80 and _labels_a_text(line)]
    own = sum(_labels_a_text(line) for line in original.split("\n") if len(line) <= 80)
    return f"remark within the text: {cut(labels[0])}" if len(labels) > own else None


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
        (_TOKEN, "a special token left in"),
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
    if len(_fence_lines(text)) % 2 and not len(_fence_lines(original)) % 2:
        return "a code fence without an end, or without a beginning"
    return _odd_marks(text, original)


def _odd_marks(text: str, original: str) -> str | None:
    for marks, own in ((text[:2], original[:2]), (text[-2:], original[-2:])):
        if _is_doubled(marks) and not _is_doubled(own):
            return f"a mark without its other half: {marks}"
    for opening, closing in (*_AROUND.items(), ('"', '"'), ("'", "'")):
        around = text.startswith(opening) and text.endswith(closing) and not _is_fenced(text)
        if around and not original.startswith(opening) and not original.endswith(closing):
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
    last = text.rstrip(_CLOSERS)[-1:]
    if not last or last in _ENDED.replace(":", "") or not (last.isalnum() or last in ",:-–—/&("):
        return None
    own = original.rstrip(_CLOSERS)[-1:]
    ends = {word.casefold() for word in words(original)[-_TAIL_WORDS:]}
    shorter = not 2 < original.count("\n") <= text.count("\n")
    dangling = words(text)[-1].casefold() in _DANGLING and words(text)[-1:] != words(original)[-1:]
    elsewhere = shorter and len(words(original)) > _TAIL_WORDS and words(text)[-1].casefold() not in ends
    stopped = (
        (own and own in _ENDED) or (last in ",-–—/&(" and last != own) or (last.isalnum() and (elsewhere or dangling))
    )
    return f"truncated: {cut(text[-50:])}" if stopped else None


def _repeated(text: str, original: str) -> str | None:
    """Say that the original stands before or after the text, apart from it."""
    if len(original.split()) < _FEW or original not in text or text == original:
        return None
    before, _, after = text.partition(original)
    apart = before.rstrip(" \t").endswith("\n") or after.lstrip(" \t").startswith("\n")
    return "echo of the original" if apart and 3 * len(before + after) > len(original) else None


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
        if len(part) <= _LONGEST_REMARK and not mine & subject and (len(mine) > 1 or language(part)):
            return f"a paragraph that has nothing to do with the original: {cut(part)}"
    return None


def _of_the_brief(text: str, original: str, brief: str) -> str | None:
    """Say that a line of the brief, other than of the original, stands in the text."""
    lines = {line.strip("-*;,. \t") for line in brief.split("\n")}
    for line in sorted(line for line in lines if len(line) >= _LONG_LINE):
        if line in text and line not in original:
            return f"echo of the brief: {cut(line)}"
    return None
