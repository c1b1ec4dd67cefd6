"""Which verdict a rationale names: `named_verdict`.

A rationale is text of a model, so it is only searched, by expressions whose time grows with its length. Precision comes
before recall: nothing is named where a careful reader could doubt it. A statement counts where

- it is a whole statement of the verdict: `Response 2 is better.`, `I choose A`, `both are equally good`, `[[B]]`,
  `Verdict: no`, `I give it a 3/5`; not `Response 2 is better formatted` or `better in style`;
- it begins its sentence, or stands behind a comma or a word such as `so`, `therefore`, `but`, `I think`: what stands
  behind `while`, `not`, `that` or in quotation marks is a concession, a negation or a mention;
- its sentence has no condition, is no question and does not begin with one aspect (`In terms of style, …`);
- no later sentence sets out to take it back (`However, …`), or speaks of the verdict in words that are not understood.

The last such statement is the verdict. Where an earlier one names another, the last must say that it is the final one
(`therefore`, `overall`, `Verdict: …`); else nothing is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from jrh_mlflow.schema.label_words import label_key, label_number, label_of_number

TIE = "tie"
LONGEST = 4000
"""Characters that are read, the last ones: a verdict stands at the end."""
_MOST_STATEMENTS = 40
_NEAR = 240
"""Characters before a statement in which the words that lead to it are looked for."""
_MOST_LABELS, _LONGEST_LABEL = 60, 60

# --- How a sentence may lead to a statement, and go on behind it

_CONCLUDES = (
    r"so|therefore|thus|hence|consequently|accordingly|overall|ultimately|finally|in conclusion|in summary|in sum|"
    r"in short|to sum up|to conclude|on balance|all in all|on the whole|in the end|taken together|as a result|"
    r"for (?:all )?(?:this|these|that|those) reasons?|because of (?:this|that)|given (?:this|that|all this)|"
    r"this means(?: that)?|which means(?: that)?|that is why|(?:I|we)(?: therefore| thus)? conclude(?: that)?|"
    r"but|however|nevertheless|nonetheless|(?:final |overall )?(?:verdict|decision|conclusion|answer):"
)
_LEADS = (
    r"and|also|then|clearly|in my (?:opinion|view|judge?ment)|(?:I|we)(?: would)? (?:think|believe|find|judge|feel|say)"
    r"(?: that)?|it is clear that|(?:reason|rationale|reasoning|explanation|summary|result|analysis):|"
    r"based on (?:the|this|these|my) (?:above |given |provided )?"
    r"(?:rubric|criteri\w{1,3}|analysis|evaluation|comparison|requirements?|task)"
)
_LED = re.compile(rf"(?:^|[\s,(—–-])(?:(?P<final>{_CONCLUDES})|{_LEADS}),?\s*$", re.IGNORECASE)
_BEGUN = re.compile(rf"\s*(?:(?:{_CONCLUDES}|{_LEADS})(?!\w)[\s,]*){{0,4}}", re.IGNORECASE)
_BULLET = re.compile(r"\s*(?:[-•>#]{1,6}\s*|\(?[0-9]{1,2}[.)]\s+)?")
_CONDITION = re.compile(r"\b(?:if|unless|whether|when|whenever|suppose|supposing|assuming|provided)\b", re.IGNORECASE)
_ASPECT = re.compile(
    r"(?:in|on|for|from|at|by|with|under|regarding|concerning|considering|as (?:for|to|far)|based on|judged|depending|"
    r"where|had|were|some|someone|one|many|people|users|readers|initially|\w+ally|\w+wise)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:says?|said|saying|claim(?:s|ed|ing)?|stat(?:es?|ed|ing)|argue[sd]?|insists?|tells|told|writes|wrote|ask(?:s|ed)"
    r"|demands|instruct\w{0,4}|reads|suggests?|pretends)\W*(?:that|us|me|the judge)?\W*$",
    re.IGNORECASE,
)
_CLOSED = re.compile(
    r"[\s)]*(?:overall|by far|in my (?:opinion|view)|here|in (?:every|all) (?:respects?|ways?))?\s*"
    r"(?:$|,?\s*(?:because|since|as (?:it|they|both|the)|due to|given|thanks to|and|so|which|that is why)\b"
    r"|,\s*(?!(?:at least|in|on|for|only|when|not|as)\b)\w)",
    re.IGNORECASE,
)
_RETRACTED = re.compile(
    r"\b(?:but|however|yet|if|unless|except|otherwise|default\w*|arbitrar\w*|random\w*|tie-?break\w*)\b", re.IGNORECASE
)
_TAKES_BACK = re.compile(
    r"\W*(?:however|but|yet|nevertheless|nonetheless|still|that said|on the other hand|on second thought|wait|actually|"
    r"correction|although|though|even so|unless|except|instead|then again|having said)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"([.!?;]+(?=\s|$)|\n+)")

# --- Statements about a pair

_SLOTS = {"1": "1", "a": "1", "one": "1", "first": "1", "left": "1", "2": "2", "b": "2", "two": "2"}
_SLOTS |= {"second": "2", "right": "2"}
_SLOT_WORD = re.compile(r"\b(?:first|second|left|right|one|two|[12ab])\b")
_THING = r"(?:response|answer|reply|assistant|candidate|output|completion|submission|summary|translation)"
_THINGS = r"(?:responses|answers|replies|assistants|candidates|outputs|completions|submissions|summaries|translations)"
# A small letter is an article (`gives the response a lift`), and `the right answer` is the one that is not wrong.
_NAMED = (
    rf"(?:(?:the )?(?:{_THING}[ _-]?#?(?:1|2|(?-i:[AB])|one|two)\b|(?:first|second) (?:one|{_THING})\b"
    rf"|{_THING} on the (?:left|right)\b|(?:left|right)(?:-hand)? response\b))"
)
_SUBJECT = rf"(?P<slot>\b{_NAMED}|\b(?-i:[AB])\b)"
_CHOSEN = rf"[\[(]{{0,2}}(?P<slot>{_NAMED}|(?-i:[AB])\b|[12]\b)[\])]{{0,2}}"
_OTHER = rf"(?:{_NAMED}|(?-i:[AB])\b|(?:the )?other(?: one| {_THING})?\b)"
_ADVERB = (
    r"(?:(?:therefore|thus|hence|clearly|overall|slightly|somewhat|marginally|much|far|significantly|considerably|"
    r"definitely|ultimately|still|considered|judged|deemed|rated|found|to be|by far|simply|obviously|then) ){0,4}"
)
_GOOD = r"(?:better|best|superior|stronger|preferred|winning)"
_BETTER = (
    rf"(?:better|superior|preferable|preferred|chosen|selected|stronger|best|the winner|(?:the|a) {_ADVERB}{_GOOD} "
    rf"(?:overall )?(?:one|choice|option|{_THING})(?: of the two)?)\b"
)
_BECOMES = r"(?:is|was|should be|must be)"
_CHOOSE = (
    r"\b(?:I|we)(?:'d|'ll| would| will| must| therefore| thus){0,3} "
    r"(?:choose|chose|pick|picked|prefer|select|selected|favou?r|vote for|go with|declare|call)"
)
_VERDICT = r"(?:verdict|decision|judge?ment|conclusion|winner|choice|preference|preferred response|better response)"
_BOTH = (
    rf"(?:both(?: of them)?(?: {_THINGS})?|they|(?:the |these )?(?:two )?{_THINGS}(?: [12AB] and [12AB])?|"
    rf"{_THING} (?:1|(?-i:A)) and (?:{_THING} )?(?:2|(?-i:B)))"
)
_EQUAL = (
    r"(?:equally (?:good|strong|valid|bad|poor|weak)|of (?:the same|equal) (?:overall )?quality|"
    r"equal in (?:overall )?quality|tied|a tie)\b"
)


class _Form(NamedTuple):
    """One way to state a verdict."""

    pattern: re.Pattern[str]
    """Its group `slot` or `label` is the verdict; without one it is a tie."""
    final: bool = False
    """Whether it says by itself that it is the last word."""
    other: bool = False
    """Whether the other slot is meant."""
    marked: bool = False
    """Whether no sentence is around it: `[[A]]`."""
    weak: bool = False
    """Whether it is a verdict only as a conclusion, or as the last sentence."""


def _form(pattern: str, *, final: bool = False, other: bool = False, marked: bool = False, weak: bool = False) -> _Form:
    return _Form(re.compile(pattern, re.IGNORECASE), final=final, other=other, marked=marked, weak=weak)


_PAIR_FORMS = (
    _form(rf"{_SUBJECT} {_BECOMES} {_ADVERB}{_BETTER}(?: than {_OTHER})?"),
    _form(rf"{_SUBJECT} {_ADVERB}(?:wins|should win|comes out ahead)\b"),
    _form(rf"{_SUBJECT} {_ADVERB}(?:provides|gives|offers) (?:the|a) {_ADVERB}{_GOOD} (?:overall )?{_THING}\b"),
    _form(rf"{_SUBJECT} (?:is|was) {_ADVERB}(?:worse than|weaker than|inferior to) {_OTHER}", other=True),
    _form(rf"{_CHOOSE} {_CHOSEN}(?: over {_OTHER})?(?: as (?:the )?(?:{_GOOD}|winner)(?: one| {_THING})?)?"),
    _form(rf"\b(?:my|the) (?:final |overall )?{_VERDICT} (?:is|goes to) {_CHOSEN}", final=True),
    _form(rf"\bthe {_GOOD} (?:one|{_THING}) is {_CHOSEN}", final=True),
    _form(rf"\b(?:final |overall )?{_VERDICT}: ?{_CHOSEN}", final=True),
    _form(r"\[\[(?P<slot>(?-i:[AB])|[12])\]\]", marked=True),
    _form(rf"\b{_BOTH} (?:are|were) {_ADVERB}{_EQUAL}(?: in (?:substance|quality|every respect|all respects))?"),
    _form(rf"\b(?:it is|it's|this is) {_ADVERB}(?:an? )?(?:tie|draw)\b"),
    _form(rf"\b(?:my|the) (?:final )?(?:result|answer|outcome|{_VERDICT}) {_BECOMES} {_ADVERB}(?:an? )?(?:tie|draw)\b"),
    _form(rf"{_CHOOSE} (?:it )?(?:an? )?tie\b"),
    _form(
        rf"\bneither(?: (?:one|{_THING}|of them|of the (?:two )?{_THINGS}))? is {_ADVERB}(?:better|superior)\b"
        r"(?: than the other(?: one)?)?"
    ),
    _form(rf"\b(?:final |overall )?{_VERDICT}: ?(?:an? )?(?:tie|draw)\b", final=True),
    _form(r"\[\[(?:C|tie)\]\]", marked=True),
)

# --- Statements about a single response

_ONE = rf"(?:it|(?:the|this) (?:{_THING}|transcript|text))"
_JUDGED = r"(?:verdict|label|score|rating|grade|judge?ment|decision|classification)"
_FILL = rf"(?:(?:as|with|at|to be|an?|the|of|final|overall|{_JUDGED}) ){{0,5}}"
_TAKEN = frozenset(("yes", "no", "true", "false"))
"""Labels that may as well be the answer to the task: `the answer is no` does not name them, `Verdict: no` does."""
_NUMBER = r"[0-9]{1,4}(?:\.[0-9]{1,4})?(?:(?: ?/ ?| out of )(?P<most>[0-9]{1,4}))?(?: (?:points?|stars?))?(?![\w.]*\d)"


class _Reader(NamedTuple):
    forms: Sequence[_Form]
    hint: re.Pattern[str]
    """What every statement holds, so that most sentences are looked at once."""
    labels: Mapping[float | str, str]
    """What spellings share to the label; empty for pairs."""
    numbers: bool = False
    """Whether numbers are read that are none of the labels."""
    words: Sequence[str] = ()
    """Where there are any: in small letters, one of them in whatever the hint is found in."""

    def speaks(self, text: str) -> bool:
        """Whether a statement may be in a text."""
        # Most texts have none of the words, which takes a twentieth of the time of an expression that ignores case.
        if self.words and text.isascii():
            small = text.lower()
            if not any(word in small for word in self.words):
                return False
        return self.hint.search(text) is not None

    def verdict(self, form: _Form, match: re.Match[str]) -> str | None:
        """Return what a statement names; None for what is no answer of this run."""
        groups = match.groupdict()
        if groups.get("label") is not None:
            return self._label(match)
        if groups.get("slot") is None:
            return TIE
        # The first such word: the last one of `the second one` is no number.
        slot = _SLOTS[_SLOT_WORD.findall(match["slot"].lower().replace("_", " "))[0]]
        return {"1": "2", "2": "1"}[slot] if form.other else slot

    def _label(self, match: re.Match[str]) -> str | None:
        text = re.sub(r"[\s_-]+", " ", match["label"])
        number = re.match(r"[0-9.]+", text)
        if number is None or text.casefold() in self.labels:
            return self.labels.get(text.casefold())
        value, most = label_number(number[0].rstrip(".")), match["most"]
        top = max((key for key in self.labels if isinstance(key, float)), default=None)
        # `4/10` on a scale up to 5 is a score on another scale.
        if value is None or top is None or (most and (float(most) < top or (float(most) != top and not self.numbers))):
            return None
        return self.labels.get(value, label_of_number(value) if self.numbers else None)


_HINTS = (
    *("better", "best", "superior", "stronger", "prefer", "win", "ahead", "worse", "weaker", "inferior", "choose"),
    *("chose", "pick", "select", "favor", "favour", "vote", "go with", "equal", "quality", "tie", "draw", "verdict"),
    *("decision", "judgment", "judgement", "conclusion", "choice", "[["),
)
# More than a part of `window`, `wing` or `tier`.
_WHOLE = {"win": r"win(?:n|s?\b)", "tie": r"tied?\b"}
_HINT = re.compile("|".join(_WHOLE.get(word, re.escape(word)) for word in _HINTS), re.IGNORECASE)
_PAIRS = _Reader(_PAIR_FORMS, _HINT, {}, words=_HINTS)


@lru_cache(maxsize=64)
def _reader(labels: tuple[str, ...], seen: bool) -> _Reader | None:
    """Return how labels are looked for; None where they are too many or too long to be told from prose."""
    known = [label.strip() for label in labels if label.strip()]
    words = [label for label in known if label_number(label) is None]
    if not known or len(words) > _MOST_LABELS or max(map(len, known)) > _LONGEST_LABEL:
        return None
    keyed: dict[float | str, str] = {re.sub(r"[\s_-]+", " ", label).casefold(): label for label in words}
    keyed |= {label_key(label): label for label in known if label not in words}
    said = [_spelled(label) for label in sorted(words, key=len, reverse=True)] + [_NUMBER] * (len(words) < len(known))
    plain = [_spelled(label) for label in words if label.casefold() not in _TAKEN]
    value = _value(said)
    stated = rf"{_JUDGED}(?: ?[:=]| is| should be) ?{_FILL}{value}"
    forms = [
        _form(rf"\b(?:(?:the|my|its|this) )?(?:correct |appropriate |resulting )?{stated}"),
        _form(rf"\b(?:(?:the|my|its) )?(?:final|overall) {stated}", final=True),
        _form(
            r"\b(?:I|we)(?:'d|'ll| would| will| must| therefore| thus){0,3} (?:rate|score|grade|give|label|judge|mark|"
            rf"classify|assign|award|choose|pick|select|answer)d? (?:{_ONE} )?{_FILL}{value}"
        ),
        _form(
            rf"\b{_ONE} {_ADVERB}(?:should )?(?:deserves?|earns?|gets?|receives?|merits?|warrants?|is rated|is scored|"
            rf"is labell?ed|is graded|is given|is classified|be rated|be scored|be labell?ed|be graded) {_FILL}{value}"
        ),
        _form(rf"\[\[{value}\]\]", marked=True),
    ]
    if plain:
        named = _value(plain)
        forms += [
            _form(rf"\b(?:the|my) (?:final )?answer {_BECOMES} {_ADVERB}{named}"),
            _form(rf"\b{_ONE} {_BECOMES} {_ADVERB}{named}", weak=True),
        ]
    hint = re.compile("|".join(said), re.IGNORECASE)
    return _Reader(forms, hint, keyed, numbers=seen)


def _spelled(label: str) -> str:
    """Write a label as an expression: spaces, `_` and `-` are the same, one letter keeps its case."""
    text = r"[ _-]".join(map(re.escape, re.split(r"[\s_-]+", label)))
    return rf"(?-i:{text})(?![\w-])" if len(label) == 1 else rf"{text}(?![\w-])"


def _value(said: Sequence[str]) -> str:
    alternatives = "|".join(said)
    most = "" if "(?P<most>" in alternatives else "(?P<most>(?!))?"
    return rf"[\[(\"']{{0,2}}(?P<label>{alternatives}){most}[\])\"']{{0,2}}"


# --- Reading


class _Statement(NamedTuple):
    sentence: int
    place: int
    verdict: str
    final: bool


def named_verdict(rationale: str, labels: Sequence[str] | None = None, *, seen: bool = False) -> str | None:
    """Return the verdict that a rationale names: `1`, `2` or `tie` of a pair, one of `labels` of a single response.

    Args:
        rationale: What the judge wrote.
        labels: What may be answered; None: the slots of a pair.
        seen: Whether the labels are those that were seen, so that a scale of numbers may have others.

    Returns:
        The slot, `tie` or the label; None where none is named, or it is not clear which.

    Example:
        >>> named_verdict("Response A is longer, but response B is better."), named_verdict("A is better formatted.")
        ('2', None)
        >>> named_verdict("It misses two facts, so I give it a 3/5.", ["1", "2", "3", "4", "5"])
        '3'
    """
    reader = _PAIRS if labels is None else _reader(tuple(labels), seen)
    if reader is None:
        return None
    text = _plain(rationale)
    if not reader.speaks(text):
        return None
    sentences = _sentences(text, cut=len(rationale) > LONGEST)
    statements = sorted(_statements(sentences, reader))
    if not statements:
        return None
    last = statements[-1]
    # A later sentence about the verdict that is no statement of it leaves a doubt.
    later = [sentence for sentence, _ in sentences[last.sentence + 1 :]]
    if any(_TAKES_BACK.match(sentence) or reader.speaks(sentence) for sentence in later):
        return None
    return last.verdict if last.final or len({statement.verdict for statement in statements}) == 1 else None


def _plain(text: str) -> str:
    """Return the end of a text without marks, and with one space where several would cost time in every expression."""
    return re.sub(r"[^\S\n]+", " ", re.sub(r"[*`\u200b]+", "", text[-LONGEST:].replace("\u2019", "'")))


def _sentences(text: str, *, cut: bool) -> list[tuple[str, str]]:
    """Return the sentences of a text, each with the mark that ends it, without the first of one that was cut."""
    parts = _SENTENCE_END.split(text)
    return list(zip(parts[::2], [*parts[1::2], ""], strict=True))[cut:]


def _statements(sentences: Sequence[tuple[str, str]], reader: _Reader) -> Iterator[_Statement]:
    last = max((place for place, (sentence, _) in enumerate(sentences) if sentence.strip()), default=0)
    for place, (sentence, ending) in enumerate(sentences):
        if "?" in ending or not reader.speaks(sentence):
            continue
        for form in reader.forms:
            for match in islice(form.pattern.finditer(sentence), _MOST_STATEMENTS):
                final = _is_stated(form, sentence[: match.start()], sentence[match.end() :])
                verdict = reader.verdict(form, match)
                if final is None or verdict is None or (form.weak and not final and place != last):
                    continue
                yield _Statement(place, match.start(), verdict, final)


def _is_stated(form: _Form, before: str, after: str) -> bool | None:
    """Return whether a statement says that it is the final one; None where what is around it makes it none."""
    if _CONDITION.search(before) or _RETRACTED.search(after) or before.count('"') % 2:
        return None
    if form.marked:
        return None if after.strip() else True
    if not _CLOSED.match(after):
        return None
    final, near, led = form.final, before[-_NEAR:], False
    while word := _LED.search(near):
        final, led, near = final or bool(word["final"]), True, near[: word.start()]
    if len(before) <= _NEAR and _BULLET.fullmatch(near):
        return final
    begun = _BEGUN.match(before)
    if _ASPECT.match(before, begun.end() if begun else 0) or _REPORTED.search(near):
        return None
    return final if led or near.rstrip().endswith((",", "\u2014", "\u2013")) else None
