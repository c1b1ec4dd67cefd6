"""What must hold of a generated text, checked before any validation is paid.

A check takes the target, the text and its context and says in a few words what is wrong, or None. Checks look at the
surface: they catch an echo, chatter, a lost number or a dropped `not`, and cannot certify meaning.

`BandedRewrite` is a rewrite whose length and nearness to the original have limits that a user can set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import ClassVar

from jrh_mlflow.perturb._base import Check, CheckContext, Rewrite, Target, parameter
from jrh_mlflow.perturb.english import (
    cut,
    firm_numbers,
    has_name,
    missing_names,
    names,
    negations,
    number_words,
    numbers,
    words,
)
from jrh_mlflow.perturb.unwrapping import around_a_message, wrapping

_MADE = (
    r"(?:re-?writ\w+|re-?phras\w+|re-?word\w+|paraphras\w+|revis\w+|expand\w+|elaborat\w+|longer|short\w+"
    r"|condens\w+|compress\w+)"
)
_HERE = r"(?:here(?:['’]s| is| are)|below is|this is|the following is)\b"
_REWRITING = (
    rf"{_HERE}[^.\n]{{0,40}}\b(?:{_MADE}|edited|modified)\b",
    r"(?:the )?(?:edited|rewritten|revised|modified)\s*(?:message|text|version|response)\s*\W{0,3}:",
    r"i(?:['’]ve| have) (?:now )?(?:edited|rewritten|modified) (?:the|this) (?:message|text|response)\b",
)
_MOST_LISTED = 60
"""More than `cut` leaves room for, whatever they are."""


def differs(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that is the original, case and whitespace aside."""
    same = text.casefold().split() == target.original.casefold().split()
    return "same text as the original" if same else None


def same_words(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text that is not equal to the original once whitespace is normalised."""
    before, after = target.original.split(), text.split()
    if before == after:
        return None
    place = next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
    if place is None:
        return f"words changed: {len(before)} before, {len(after)} now"
    return f"words changed, first at word {place + 1}: {cut(after[place])}"


def not_empty(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a text without a single letter or digit."""
    return None if any(map(str.isalnum, text)) else "empty text"


def no_wrapping(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag what a generator says around the text, or instead of it; generation takes it off first, where it can."""
    return wrapping(text, target.original)


def about_the_editing(original: str, text: str, *, data: bool = False) -> str | None:
    """Flag a message of a transcript that is wrapped, or speaks about its own rewriting.

    Pleasantries and refusals within its text are what an assistant may well say, so they are no chatter here; and what
    a tool returns may be `data`.
    """
    text = text.strip()
    begun = _new(_REWRITING, text, original, opening=True)
    return f"opening remark of the generator: {cut(begun)}" if begun else around_a_message(text, original, data=data)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: who only measures a judge checks no text."""
    return re.compile(pattern, re.I | re.M)


def _new(patterns: Sequence[str], text: str, original: str, *, opening: bool = False) -> str | None:
    """Return what a pattern finds in the text, or at its opening, and not in the original."""
    find = re.Pattern.match if opening else re.Pattern.search
    if opening:
        text, original = (each.lstrip("*_#> \t\n") for each in (text, original))
    # One pattern finds whatever any of them does: most texts are done with after that one.
    if not find(_compiled("|".join(patterns)), text):
        return None
    hits = ((each, find(each, text)) for each in map(_compiled, patterns))
    return next((hit.group() for each, hit in hits if hit and not find(each, original)), None)


def keeps_numbers(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag numbers that were lost or are new; `1,000` is 1000, `three` is 3, and `one` may be a pronoun."""
    before, after = target.original, text
    lost = firm_numbers(before) - numbers(after) - number_words(after)
    new = firm_numbers(after) - numbers(before) - number_words(before)
    parts = [f"numbers lost: {_list(lost)}"] * bool(lost) + [f"new numbers: {_list(new)}"] * bool(new)
    return "; ".join(parts) or None


def keeps_names(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag capitalised names and acronyms of the original that no longer occur."""
    # The shortest are told first, and no more of them than a line holds.
    lost = list(islice(missing_names(text, sorted(names(target.original), key=_short_first)), _MOST_LISTED))
    return f"names lost: {_list(lost)}" if lost else None


def keeps_answers(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag answers a judge may give that the original names and the text does not."""
    lost = [name for name in target.labels.answers if has_name(target.original, name) and not has_name(text, name)]
    return f"answers no longer named: {_list(lost)}" if lost else None


def keeps_negations(target: Target, text: str, context: CheckContext) -> str | None:
    """Flag a lost or an added `not`.

    `cannot`, `can't` and `unable to` are alike. Of four or more negations one in four may go or come, because long
    texts have them in turns of phrase.
    """
    low, high = negations(target.original, {word.lower() for word in words(text)})
    new_low, new_high = negations(text, {word.lower() for word in words(target.original)})
    slack = low // 4
    if new_high + slack < low:
        return f"negations lost: {low} before, {new_high} now"
    if new_low > high + slack:
        return f"negations added: {high} before, {new_low} now"
    return None


def length_ratio(low: float, high: float) -> Check:
    """Make a check that the text has from `low` to `high` times the original's words."""
    if not 0 <= low <= high:
        raise ValueError(f"`0 <= low <= high` must hold, but got {low=}, {high=}.")

    def check(target: Target, text: str, context: CheckContext) -> str | None:
        before, after = len(words(target.original)), len(words(text))
        if before and low <= after / before <= high:
            return None
        ratio = f"{after / before:.2f}" if before else "undefined"
        return f"length ratio {ratio} outside {low:g} to {high:g}: {before} words before, {after} now"

    return check


def similar(low: float, high: float) -> Check:
    """Make a check that the similarity with the original lies in a band: below is off the subject, above an echo."""
    if not 0 <= low <= high <= 1:
        raise ValueError(f"`0 <= low <= high <= 1` must hold, but got {low=}, {high=}.")

    def check(target: Target, text: str, context: CheckContext) -> str | None:
        value = context.similarity.between(target.original, text)
        if low <= value <= high:
            return None
        return f"similarity {value:.2f} with the original outside {low:g} to {high:g} ({context.similarity.name})"

    return check


def unlike_earlier(high: float, *, examples: float | None = None) -> Check:
    """Make a check that a text is at most `high` like those made before it, and at most so like its examples."""
    limits = (high, high if examples is None else examples)
    if not all(0 <= limit <= 1 for limit in limits):
        raise ValueError(f"`0 <= high <= 1` must hold, but got {high=}, {examples=}.")

    def check(target: Target, text: str, context: CheckContext) -> str | None:
        seen = ((context.earlier, "an earlier text of its bucket"), (target.examples, "an example"))
        for (others, what), limit in zip(seen, limits, strict=True):
            value = max((context.similarity.between(other, text) for other in others), default=0.0)
            if value > limit:
                return f"similarity {value:.2f} with {what}, above {limit:g} ({context.similarity.name})"
        return None

    return check


def _list(found: Iterable[str]) -> str:
    return cut(", ".join(sorted(found, key=_short_first)))


def _short_first(value: str) -> tuple[int, str]:
    return len(value), value


REWRITTEN: tuple[Check, ...] = (not_empty, differs)
"""What holds of every text that was written in place of another; that it is bare is seen to for every writer."""


LEAST_WORDS, MOST_WORDS = "Fewest words, as a multiple of the original's.", "Most words, as a multiple of them."
LEAST_ALIKE = "Least similarity with the original: below, it is off the subject."
MOST_ALIKE = "Most similarity with the original: above, it is an echo."


@dataclass(frozen=True, kw_only=True)
class BandedRewrite(Rewrite):
    """A rewrite whose text must have so many words, and be so like the original, besides what its `rules` say."""

    min_length: float = parameter(0.5, LEAST_WORDS)
    max_length: float = parameter(2.0, MOST_WORDS)
    min_similarity: float = parameter(0.1, LEAST_ALIKE)
    max_similarity: float = parameter(0.97, MOST_ALIKE)

    rules: ClassVar[tuple[Check, ...]]

    def __post_init__(self) -> None:
        check_band("length", self.min_length, self.max_length)
        check_band("similarity", self.min_similarity, self.max_similarity, most=1.0)
        bands = (length_ratio(self.min_length, self.max_length), similar(self.min_similarity, self.max_similarity))
        object.__setattr__(self, "checks", (*self.rules, *bands))


def check_band(of: str, low: float, high: float, *, most: float = float("inf")) -> None:
    """Refuse limits that nothing lies between.

    Raises:
        ValueError: stating the rule and the values.
    """
    if not 0 <= low <= high <= most:
        ends = "" if most == float("inf") else f" <= {most:g}"
        got = f"min_{of}={low:g}, max_{of}={high:g}"
        raise ValueError(f"`0 <= min_{of} <= max_{of}{ends}` must hold, but got {got}.")
