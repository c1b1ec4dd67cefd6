"""Words, sentences, hedges, negations and names of texts in the languages of the datasheet's tasks.

The word lists stand in `languages.json`. A text in a language that is not listed is read like an English one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from jrh_mlflow.perturb import english

LANGUAGES = {"en": "English", "de": "German", "es": "Spanish", "zh": "Chinese"}
"""Code to name, English first: the others are compared with it."""
_TEXTS_AT_HAND = 4096
_HAN = re.compile(r"[\u3400-\u9fff]")
_HAN_OR_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")
_DIGITS = re.compile(r"\d+")
_CAPITALISED = re.compile(r"(?<!^)(?<![.!?“\"„¿¡] )(?<![^\W\u3400-\u9fff])[A-ZÀ-Þ][^\W\u3400-\u9fff]*")
"""Inside a sentence, also right behind a Chinese character."""


def language_names(codes: str) -> str:
    """Name the languages of a suite for people: `de` or `de+en` as its manifest says."""
    return " and ".join(LANGUAGES.get(code, code) for code in codes.split("+"))


@cache
def _lists(code: str) -> dict[str, Any]:
    data = json.loads(resources.files("jrh_mlflow.perturb").joinpath("languages.json").read_text(encoding="utf-8"))[
        code
    ]
    patterns = {name: re.compile(data[name], re.IGNORECASE if code != "en" else 0) for name in ("hedges", "negations")}
    stop_words = english.STOP_WORDS if code == "en" else frozenset(data["stop_words"].split())
    return {**patterns, "abbreviations": re.compile(data["abbreviations"]), "stop_words": stop_words}


@lru_cache(_TEXTS_AT_HAND)
def language_of(text: str) -> str:
    """Return the code of a text's language by its script and its small words, English where it is not clear.

    Example:
        >>> language_of("Sag ihr, wann es kommt."), language_of("Di cuándo llega y a qué hora.")
        ('de', 'es')
    """
    words = Counter(map(str.casefold, words_in(text, "zh")))
    if 2 * sum(count for word, count in words.items() if _HAN.match(word)) > words.total():
        return "zh"
    counts = {
        code: sum(count for word, count in words.items() if word in _lists(code)["stop_words"]) for code in LANGUAGES
    }
    first = max(counts, key=lambda code: counts[code])
    # Small words are shared between languages, so another than English must lead clearly.
    return first if counts[first] >= 1.5 * counts["en"] and counts[first] > 1 else "en"


@lru_cache(_TEXTS_AT_HAND)
def words_in(text: str, code: str) -> tuple[str, ...]:
    """Return the words as written; in Chinese, which has no spaces, every character is one.

    Example:
        >>> words_in("请于3月到Leeds。", "zh")
        ('请', '于', '3', '月', '到', 'Leeds')
    """
    return tuple(_HAN_OR_WORD.findall(text)) if code == "zh" else english.words(text)


@lru_cache(_TEXTS_AT_HAND)
def content_words(text: str, code: str) -> frozenset[str]:
    """Return the different words in small letters, small words left out."""
    stop_words: frozenset[str] = _lists(code)["stop_words"]
    return frozenset(word.casefold() for word in words_in(text, code)) - stop_words


@lru_cache(_TEXTS_AT_HAND)
def sentences_in(text: str, code: str) -> tuple[str, ...]:
    """Return the sentences of a text.

    Example:
        >>> sentences_in("Am 3. Mai kam er. Er ging!", "de")
        ('Am 3. Mai kam er.', 'Er ging!')
    """
    abbreviation = _lists(code)["abbreviations"]
    spans: list[tuple[int, int]] = []
    for start, end in english.sentences(text):
        # What ends in an abbreviation of the language goes on, unless a line ends there.
        goes_on = spans and abbreviation.pattern and abbreviation.search(text[slice(*spans[-1])])
        if goes_on and "\n" not in text[spans[-1][1] : start]:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return tuple(text[start:end] for start, end in spans)


def hedge_count(text: str, code: str) -> int:
    """Count hedges, such as perhaps, vielleicht, quizá and 也许."""
    return len(_lists(code)["hedges"].findall(text))


def negation_count(text: str, code: str) -> int:
    """Count the certain negations; `not only` and its like are none."""
    return english.negations(text, ())[0] if code == "en" else len(_lists(code)["negations"].findall(text))


def lost_facts(satisfied: str, matched: str, code: str) -> list[str]:
    """Return numbers and names of `satisfied` that `matched` lacks, or has more of: none in a matched sentence.

    A name is a word with a capital letter inside a sentence: in German every noun.
    """
    own, other = (Counter(_DIGITS.findall(text)) for text in (satisfied, matched))
    numbers = [*(own - other).elements(), *(other - own).elements()]
    there = {word.casefold() for word in words_in(matched, code)}
    names = _CAPITALISED.findall(satisfied)
    return [*numbers, *(name for name in names if name.casefold() not in there)]
