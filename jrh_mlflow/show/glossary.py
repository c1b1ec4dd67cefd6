"""Terms that pages and docs explain: each with one sentence, shown when pointed at and listed at the foot of pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

WORDS: Mapping[str, Any] = json.loads(files("jrh_mlflow.show").joinpath("words.json").read_text(encoding="utf-8"))
"""What pages say of terms, of what is counted (`show/names.py`) and of conditions, written down as data."""
TERMS: Mapping[str, str] = MappingProxyType(WORDS["terms"])
"""Term to its sentence, in plain words."""


# Longest first: an alternation takes the first that fits, and `tie` would hide `tie criterion`.
_PATTERN = re.compile(
    rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(TERMS, key=len, reverse=True)))})(?!\w)", re.IGNORECASE
)
_WITH_CODE = re.compile(rf"`[^`]+`|{_PATTERN.pattern}", re.IGNORECASE)
_BY_WORD = {term.casefold(): term for term in TERMS}


def terms_among(texts: Iterable[str]) -> dict[str, str]:
    """Return the terms that occur in some texts, by name, with their sentences; the longest where several fit.

    Example:
        >>> list(terms_among(["dark current is withheld"]))
        ['dark current', 'withheld']
    """
    terms = {_BY_WORD[match[0].casefold()] for text in texts for match in _PATTERN.finditer(text)}
    return {term: TERMS[term] for term in sorted(terms, key=str.casefold)}


def term_id(term: str) -> str:
    """Name the place of a term in the glossary of a page."""
    # By its place, because an id may hold no space and terms do.
    return f"term-{list(TERMS).index(term)}"


def with_terms(text: str) -> Markup:
    """Escape a text of any origin, each of its terms a link to the page's glossary that says it on hover and focus.

    What stands between back quotes is a command, as in `plain_text.sentence_text`.

    Example:
        >>> str(with_terms("Then `jrh ui` <b>"))
        'Then <code>jrh ui</code> &lt;b&gt;'
    """
    from markupsafe import Markup, escape

    parts, place, seen = [], 0, set()
    # A back quote without its partner is no code.
    pattern = _WITH_CODE if text.count("`") % 2 == 0 else _PATTERN
    for match in pattern.finditer(text):
        term = _BY_WORD.get(match[0].casefold(), "")
        # Each link is a stop of the Tab key, so only the first mention of a term is one.
        if term in seen:
            continue
        if term:
            seen.add(term)
            link = Markup('<a class="term" href="#{}" data-tip="{}">{}</a>')
            link = link.format(term_id(term), TERMS[term], match[0])
        else:
            link = Markup("<code>{}</code>").format(match[0].strip("`"))
        parts += [escape(text[place : match.start()]), link]
        place = match.end()
    return Markup("").join([*parts, escape(text[place:])])
