"""Word tables of the rules, read from `words.json`: synonyms, opposites, sentences without a fact.

No entry holds a number, a name or a negating word, so that swapping one for another leaves numbers, names and
negations as they were (`OPPOSITES` and `EVASIONS` excepted: they are there to change the meaning).
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

_DATA: dict[str, Any] = json.loads(resources.files("jrh_mlflow.perturb").joinpath("words.json").read_text("utf-8"))


def _table(name: str) -> dict[str, tuple[str, ...]]:
    return {word: tuple(options.split(", ")) for word, options in _DATA[name].items()}


def _listed(name: str) -> tuple[str, ...]:
    return tuple(_DATA[name])


SYNONYMS = _table("synonyms")
"""Word to words of the same form that may stand for it."""
VERB_SYNONYMS = _table("verb_synonyms")
"""The same for verbs; several of them are nouns after an article."""
PHRASES = _table("phrases")
FILLERS = _listed("fillers")
"""What may go without loss of a fact, longest first where one holds another."""
SMALL_WORDS = tuple(frozenset(words) for words in _DATA["small_words"])
"""What a telegram leaves out first, and what next."""
OPENERS = frozenset(_DATA["openers"])
"""First words that may be written small when they move into a sentence; others could be names."""
FRAMES = _listed("frames")
"""Around a sentence in which nothing else could be changed; the sentence must open with one of `OPENERS`."""
RESTATEMENTS = _listed("restatements")
PADDING = _listed("padding")
"""Sentences that say nothing."""
OPPOSITES = _table("opposites")
VERBS = _listed("verbs")
"""After the first of these in a sentence a `not` turns it round."""
EVASIONS = _listed("evasions")
"""What a worse answer says instead of reasons."""
VAGUENESS = _listed("vagueness")
"""Sentences that fill a poor answer without adding to it."""
ELABORATIONS = _listed("elaborations")
"""What the fullest synthetic answers add."""
HEDGES = _listed("hedges")
"""What a better answer leaves out."""
POINTS = _listed("points")
"""How a better answer takes up a phrase of the task."""
STOP_WORDS = frozenset(_DATA["stop_words"])
"""Words that are never the subject of a task."""
ANTONYMS = {
    word: opposite
    for pair in _DATA["antonym_pairs"]
    for word, opposite in (tuple(pair.split(" ")), tuple(reversed(pair.split(" "))))
}
"""Word to its contrary, both ways: what makes a statement wrong and leaves its grammar."""
NONSENSE = _listed("nonsense")
"""Sentences that cannot be true."""
EMPTY_STEMS, EMPTY_BODIES = _listed("empty_stems"), _listed("empty_bodies")
"""Two halves of sentences that say nothing: `In general,` and `it is what it is`."""
EMPTY_SENTENCES = _listed("empty_sentences")
