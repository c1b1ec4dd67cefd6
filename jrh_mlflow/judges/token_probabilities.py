"""How probable a verdict was, and each answer in its place, from the probabilities of tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_VERDICT = re.compile(r'"verdict"[ \t\n\r]*:[ \t\n\r]*(?:"((?:[^"\\]|\\.)*)"|([^ \t\n\r,}]+))')
_VALUE_START = re.compile(r'[ \t\n\r":]*([^",}]*)([",}]?)')
_NO_MEANING = ' \t\n\r":,}'
"""What a token may carry beside the verdict."""
_ROUNDING = 1e-3
"""By how much probabilities may sum past 1, as providers round them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Token:
    """A token of the text: where it stands, and what could have stood there."""

    begin: int
    end: int
    logprob: float
    alternatives: Sequence[tuple[str, float]]


def verdict_probabilities(
    text: str,
    span: tuple[int, int],
    logprobs: Sequence[Mapping[str, Any]],
    *,
    answer: str,
    names: Mapping[str, str],
) -> tuple[float | None, Mapping[str, float] | None]:
    """Return the probability of the verdict after the text before it, and those of all answers.

    Args:
        text: The answer.
        span: Where its JSON object stands.
        logprobs: The tokens of the answer, as in `Response`.
        answer: What was answered.
        names: What the prompt calls each answer, and the answer it stands for.

    Returns:
        None in the place of what the tokens do not show.
    """
    values = list(_VERDICT.finditer(text, *span))
    # A reason may quote the key, and then either could be the verdict's.
    if len(values) != 1:
        return None, None
    group = 1 if values[0][1] is not None else 2
    start, end = values[0].span(group)
    tokens = _verdict_tokens(text, start, end, logprobs)
    total = sum(token.logprob for token in tokens)
    # Written as `not … <= 0` so that NaN fails it too.
    if not tokens or not total <= 0:
        return None, None
    confidence = math.exp(total)
    others = _alternative_answers(text, start, tokens, names)
    probabilities = {**others, answer: confidence + others.get(answer, 0.0)}
    is_complete = bool(others) and sum(probabilities.values()) <= 1 + _ROUNDING
    return confidence, probabilities if is_complete else None


def _verdict_tokens(text: str, start: int, end: int, logprobs: Sequence[Mapping[str, Any]]) -> list[_Token]:
    """Return the verdict's tokens in order; none where they cannot be told from their neighbours."""
    tokens: list[_Token] = []
    for token in _tokens_from_the_end(text, logprobs):
        if token.begin < end:
            around = text[token.begin : start] + text[end : token.end]
            if around.strip(_NO_MEANING):
                return []
            tokens.insert(0, token)
        if token.begin <= start:
            return tokens
    return []


def _tokens_from_the_end(text: str, logprobs: Sequence[Mapping[str, Any]]) -> Iterator[_Token]:
    """Yield the tokens, the last one first, as long as they spell the text.

    Tokens after the text are passed over: an end of turn, or what a server cut off behind the last brace.
    """
    end = len(text)
    for entry in reversed(logprobs):
        token = entry.get("token")
        logprob = entry.get("logprob")
        if not isinstance(token, str) or not isinstance(logprob, int | float):
            return
        if text.endswith(token, 0, end):
            begin = end - len(token)
            alternatives = entry.get("top") or ()
            yield _Token(begin=begin, end=end, logprob=float(logprob), alternatives=alternatives)
            end = begin
        elif end < len(text):
            return


def _alternative_answers(text: str, start: int, tokens: Sequence[_Token], names: Mapping[str, str]) -> dict[str, float]:
    """Sum the probabilities of what could have stood in place of each token, by answer.

    An alternative counts where it can begin one answer's name only; the rest of that name is then taken as sure.
    """
    sums: dict[str, float] = {}
    before = 0.0
    for token in tokens:
        for alternative, logprob in token.alternatives:
            # The token that was chosen is among its own alternatives, and counted already.
            if alternative == text[token.begin : token.end]:
                continue
            name = _name_that_begins(text[start : max(start, token.begin)] + alternative, names)
            if name is not None:
                probability = math.exp(min(0.0, before + logprob))
                sums[names[name]] = sums.get(names[name], 0.0) + probability
        before += token.logprob
    return sums


def _name_that_begins(spelled: str, names: Mapping[str, str]) -> str | None:
    """Return the one name that a verdict beginning like this can become, or None.

    `A` is the slot A although `abstain` may be said too; `a` may become either and is neither.
    """
    match = _VALUE_START.match(spelled)
    begun, closed = match.groups() if match else ("", "")
    folded = begun.casefold()
    if closed:
        same = [name for name in names if name.casefold() == folded.strip()]
        return same[0] if same else None
    if [name for name in names if name.startswith(begun)] == [begun]:
        return begun
    fits = [name for name in names if name.casefold().startswith(folded)]
    return fits[0] if len(fits) == 1 and begun else None
