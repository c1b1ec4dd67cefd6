r"""How the verdict of a judge with a request of its own is found in its answer.

| form | the verdict is |
| --- | --- |
| `r"\[\[(\w)\]\]"` or `{"pattern": …}` | what the group of a regular expression matches |
| `{"json": "result.winner"}` | the value at a path of the JSON in the answer |
| `{"A": "1", "B": "2", "C": "tie"}` or `{"words": …}` | the one of these words that the answer says |
| `{"logprobs": {"A": "1", "B": "2"}}` | the likeliest of these tokens, with its probability |
| a function | what the function returns for the answer's text |

Whatever the form, a verdict counts where `answer_text.py` says: nothing stands behind what was found but the end of the
text, and only an introduction or finished sentences before it. A pattern that takes in the rest (`(A|B)[\s\S]*`) and a
function decide for themselves.

A pattern and a path may have `words` beside them, which say what each verdict means. Without them `A`, `B`, `1`, `2`
and `tie` are known for pairs, and the labels or levels of the suite for everything else.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import parsing
from jrh_mlflow.judges.answer_text import (
    JsonObject,
    UnreadableError,
    answer_object,
    check_place,
    whole_json,
)
from jrh_mlflow.judges.parsing import ABSTAIN, TIE, ParsedAnswer
from jrh_mlflow.models.transports.service import value_at
from jrh_mlflow.plugins import function_from_text
from jrh_mlflow.schema.requests import Response

FORMS = ("pattern", "json", "words", "logprobs", "function")
ALLOWED_CODE = "JRH_ALLOW_CODE"
"""Names of functions (`module:name`, with commas between them) that a logged or registered judge may import."""
_SLOTS = {"A": "1", "B": "2", "1": "1", "2": "2", TIE: TIE}
_PATH = re.compile(r"\$?\.?[^.\[\]]+(\.[^.\[\]]+|\[\d+\])*")


@dataclass(frozen=True, kw_only=True)
class VerdictForm:
    """One way to find a verdict."""

    form: str
    value: Any
    """The pattern, the path, the words or tokens and what they mean, or the function."""
    words: Mapping[str, str] | None = None

    @classmethod
    def of(cls, spec: object) -> VerdictForm:
        """Read what a user gave.

        Raises:
            RecipeError: saying what may be given.
        """
        if isinstance(spec, cls):
            return spec
        if callable(spec):
            return cls(form="function", value=spec)
        if isinstance(spec, re.Pattern):
            # Its flags go with it, in the form that a text can hold.
            letters = "".join(letter for letter, flag in _FLAGS.items() if spec.flags & flag)
            spec = f"(?{letters}){spec.pattern}" if letters else spec.pattern
        if isinstance(spec, str):
            spec = {"pattern": spec}
        if not isinstance(spec, Mapping) or not spec:
            raise RecipeError(f"`verdict` says how the answer is read: {_EXAMPLES}.")
        if not any(form in spec for form in FORMS):
            spec = {"words": spec}
        forms = [form for form in FORMS if form in spec and not (form == "words" and len(spec) > 1)]
        if len(forms) != 1 or set(spec) - {forms[0], "words"}:
            raise RecipeError(f"`verdict` must be one of {_EXAMPLES}, but has the keys {', '.join(map(str, spec))}.")
        form = forms[0]
        words = _read_words(spec["words"]) if "words" in spec else None
        return cls(form=form, value=_checked(form, spec[form]), words=words)

    @property
    def offers_tie(self) -> bool:
        """Whether an answer can be a tie; where the form names no answers, it can."""
        named = self.words or (self.value if self.form == "logprobs" else None)
        return named is None or TIE in named.values()

    def spec(self) -> dict[str, Any] | None:
        """Return plain JSON of which `of_spec` makes the form again; None for a function that has no name to import."""
        words = {} if self.words is None or self.form == "words" else {"words": dict(self.words)}
        if self.form != "function":
            return {self.form: self.value, **words}
        name, source = _importable(self.value), _source(self.value)
        return None if name is None or source is None else {"function": name, "source_sha256": source}

    def shown(self) -> str:
        """Return the form as people read it."""
        spec = self.spec() or {self.form: getattr(self.value, "__qualname__", repr(self.value))}
        return json.dumps(spec, ensure_ascii=False)

    @classmethod
    def of_spec(cls, spec: Mapping[str, Any]) -> VerdictForm:
        """Make a form again.

        Raises:
            RecipeError: where it needs code that may not be imported, or that is another one now.
        """
        if "function" not in spec:
            return cls.of(spec)
        name = str(spec["function"])
        if name not in os.environ.get(ALLOWED_CODE, "").split(","):
            raise RecipeError(
                f"This judge reads its verdict with the function {name}, and code that a run or a registered judge "
                f"names is not imported by itself. Look at it, then set {ALLOWED_CODE}={name}, or pass the judge."
            )
        function = function_from_text(name)
        if _source(function) != spec["source_sha256"]:
            raise RecipeError(f"The function {name}, which reads the verdict, is not the one that was measured.")
        return cls(form="function", value=function)

    def check(self, answers: Sequence[str]) -> None:
        """Refuse words that stand for an answer which the suite does not have.

        Raises:
            RecipeError: naming it.
        """
        named = self.words or (self.value if self.form == "logprobs" else {})
        for word, answer in named.items():
            if answer not in (*answers, TIE, ABSTAIN):
                known = ", ".join(map(repr, answers))
                raise RecipeError(f"`verdict` says that {word!r} means {answer!r}, but the answers are {known}.")

    def read(
        self,
        response: Response,
        answers: Sequence[str],
        *,
        shown: Sequence[str] = (),
        instructions: Sequence[str] = (),
    ) -> ParsedAnswer:
        """Find the verdict in what came back; what is no clear answer is `unparsed`.

        Args:
            response: What the provider answered.
            answers: What may be answered.
            shown: The candidates or the transcript that the judge was shown.
            instructions: What else was put before the judge.
        """
        if ended := parsing.answer_problem(response, or_arguments=True):
            return ended
        text = response.text or response.tool_arguments or ""
        names = dict(self.words) if self.words else _names(answers)
        try:
            if self.form == "logprobs":
                return _likeliest(response, self.value)
            is_json = self.form == "json"
            values = _values_at(self.value, text, shown, instructions) if is_json else self._values(text, names)
            outcome, answer = parsing.one_answer(values, names, strict=not is_json)
        except UnreadableError as unreadable:
            if self.form in ("pattern", "words"):
                unreadable.detail = unreadable.detail or _DETAILS.get(unreadable.code)
            return replace(parsing.unparsed(unreadable), text=parsing.kept_text(text))
        rationale = parsing.kept_text(text)
        return ParsedAnswer(outcome=outcome, answer=answer or None, rationale=rationale)

    def _values(self, text: str, names: Mapping[str, str]) -> list[object]:
        """Return every verdict that the text gives, the one that counts first.

        Raises:
            UnreadableError: where none counts.
        """
        if self.form == "function":
            return [_called(self.value, text)]
        if self.form == "words":
            return _last_first(text, _words_in(text, names))
        matches = re.finditer(self.value, text)
        return _last_first(text, [(match.span(), match[1]) for match in matches if match[1] is not None])


_DETAILS = {
    "trailing_text": "the answer goes on behind the verdict; a pattern that ends with [\\s\\S]* allows that",
    "in_a_sentence": "the words before the verdict run on into it; a pattern that begins with \\A[\\s\\S]*? allows it",
    "conflicting": "the answer says several verdicts",
}
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_EXAMPLES = (
    "a regular expression with one group, {'json': PATH}, {'A': '1', 'B': '2'} for words and what they mean, "
    "{'logprobs': {'A': '1', 'B': '2'}}, or a function"
)


def _checked(form: str, value: object) -> Any:
    if form in ("words", "logprobs"):
        return _read_words(value)
    if form == "function":
        # A name may come from anybody's file; who may name code has made a function of it before.
        raise RecipeError("`verdict` names a function: pass the function itself.")
    if not isinstance(value, str) or not value:
        raise RecipeError(f"`verdict` has {form!r}: it must be a text, but is {value!r}.")
    if form == "json":
        if not _PATH.fullmatch(value):
            raise RecipeError(f"`verdict` has the path {value!r}; write it as in 'result.winner' or 'scores[0].label'.")
        return value
    try:
        groups = re.compile(value).groups
    except re.error as error:
        raise RecipeError(f"`verdict` is no regular expression: {error}. Pattern: {value!r}.") from None
    if groups != 1:
        raise RecipeError(f"The pattern of `verdict` must have one group, but {value!r} has {groups}.")
    return value


def _read_words(words: object) -> dict[str, str]:
    if not isinstance(words, Mapping) or not words:
        raise RecipeError(f"Words map what the judge says to what it means, as in {{'A': '1'}}, but are {words!r}.")
    return {str(word): str(answer) for word, answer in words.items()}


def _names(answers: Sequence[str]) -> dict[str, str]:
    slots = {name: answer for name, answer in _SLOTS.items() if answer in answers}
    return slots if {"1", "2"} <= set(answers) <= set(_SLOTS.values()) else {answer: answer for answer in answers}


def _words_in(text: str, words: Iterable[str]) -> list[tuple[tuple[int, int], str]]:
    """Return where a text says each of some words, in order; a letter only as it is written."""
    found = []
    for word in words:
        # A letter only as it is written, for `a` is a word of English.
        flags = re.IGNORECASE if len(word) > 1 else re.RegexFlag(0)
        pattern = rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])"
        found += [(match.span(), word) for match in re.finditer(pattern, text, flags)]
    return sorted(found)


def _last_first(text: str, found: Sequence[tuple[tuple[int, int], str]]) -> list[object]:
    """Return the verdicts that were found, the last one first, where that one may count."""
    if not found:
        raise UnreadableError("no_match")
    check_place(text, [span for span, _ in found])
    return [value for _, value in reversed(found)]


def _called(function: Callable[[str], object], text: str) -> object:
    try:
        value = function(text)
    # Code of the user's may raise anything: that is an answer it cannot read.
    except (Exception, asyncio.CancelledError) as error:
        raise UnreadableError("no_match", f"the verdict's function raised {type(error).__name__}: {error}") from error
    if value is None:
        raise UnreadableError("no_match", "the verdict's function found none")
    return value


def _values_at(path: str, text: str, shown: Sequence[str], instructions: Sequence[str]) -> list[object]:
    """Return what stands at a path of the JSON that the text is or ends with, then of earlier ones."""
    earlier: list[JsonObject] = []
    try:
        data = whole_json(text)
    except ValueError:
        found, earlier = answer_object(text, shown=shown, instructions=instructions)
        data = found.fields
    try:
        values = [value_at(data, path)]
    except KeyError:
        raise UnreadableError("no_match", f"the JSON has nothing at {path}") from None
    for other in earlier:
        with suppress(KeyError):
            values.append(value_at(other.fields, path))
    return values


def _likeliest(response: Response, tokens: Mapping[str, str]) -> ParsedAnswer:
    """Return the likeliest answer where the first named token stands.

    Raises:
        UnreadableError: where there is none, or the text is more than a verdict.
    """
    _check_said(response.text or "", tokens)
    for entry in response.logprobs or ():
        shares: dict[str, float] = {}
        for token, logprob in entry.get("top") or [[entry["token"], entry["logprob"]]]:
            if (answer := tokens.get(token.strip())) is not None:
                shares[answer] = shares.get(answer, 0.0) + math.exp(min(0.0, logprob))
        total = sum(shares.values())
        if total <= 0:
            continue
        shares = {answer: share / total for answer, share in shares.items()}
        best = max(shares, key=lambda answer: shares[answer])
        outcome = best if best in (TIE, ABSTAIN) else "verdict"
        answer = best if outcome == "verdict" else None
        return ParsedAnswer(outcome=outcome, answer=answer, confidence=shares[best], probabilities=shares)
    missing = "the response has no token probabilities" if not response.logprobs else "none of the tokens is named"
    raise UnreadableError("no_match", missing)


def _check_said(text: str, tokens: Iterable[str]) -> None:
    """Refuse a text that is neither a named token nor a JSON object: its first token is no verdict."""
    if text.rstrip().endswith(("}", "```")):
        answer_object(text)
    elif text:
        _last_first(text, _words_in(text, tokens))


def _importable(function: object) -> str | None:
    """Return `module:name` where that names this very function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or module == "__main__" or not name.isidentifier():
        return None
    try:
        return f"{module}:{name}" if function_from_text(f"{module}:{name}") is function else None
    except RecipeError:
        return None


def _source(function: object) -> str | None:
    try:
        text = textwrap.dedent(inspect.getsource(function))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()
