"""Terms that pages and docs explain: each with one sentence, shown when pointed at and listed at the foot of pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

TERMS: Mapping[str, str] = MappingProxyType(
    {
        "dark current": "Preferences where there is nothing to judge: both sides are empty, blank or identical.",
        "Δ0": "Pairs of equal quality: both meet the same requirements in other words, so that a tie is right.",
        "δ": "Quality difference of a pair: how many more requirements the better content meets.",
        "Δ75": "Threshold: the smallest δ at which 75 % of the calls choose the better content.",
        "threshold": "The smallest quality difference at which 75 % of the calls choose the better content.",
        "ladder": "Contents of one task that meet 0, 1, 2 … of its requirements: higher is better by construction.",
        "matched ladder": (
            "A ladder whose lower contents have the same words, numbers and facts as the higher ones, assigned "
            "wrongly: counting words cannot tell the level."
        ),
        "same words": "On the matched ladder: the worse content has the same words with wrong facts.",
        "reading gap": (
            "How much more often the better is chosen on the ladder than on the matched ladder: what words alone told."
        ),
        "d′": "Sensitivity in standard deviations: 0 is chance, 2 is right in five of six calls; higher is better.",
        "tie criterion": "When to call a tie: never (forced), if equal (allowed), if only surface differs (strict).",
        "vacuum": "Stimuli with nothing to judge: both empty, both blank, or identical.",
        "stable": "The same content wins in both presentation orders: its wording moves the judge.",
        "positional": "The same slot wins in both presentation orders: the place moves the judge.",
        "one-sided": "A preference in one presentation order and none in the other.",
        "presentation order": "Which content stands first; every pair is judged in both orders.",
        "canonical pair": "Two contents without an order; judged once as (u, v) and once as (v, u).",
        "profile": "The judge in one line: words that the intervals support, never a grade.",
        "clustered interval": (
            "95 % interval that takes tasks or sources as what was sampled, because calls on one task are not "
            "independent; decisions use it."
        ),
        "95 % by task": "The clustered interval, with tasks as clusters.",
        "95 % by source": "The clustered interval, with source items as clusters.",
        "slot lean": (
            "Pull of the place where both are equally good: +1 always the first, -1 always the second, 0 neither."
        ),
        "padding lean": (
            "Pull of padding where both say the same: +1 always the padded one, -1 always the other, 0 neither."
        ),
        "place over wording": (
            "How much more often one slot wins twice than one content: above 0 the place decides, below 0 the wording."
        ),
        "ability": (
            "How often the better is found at the two largest quality differences, a tie counted as half: a coin "
            "and a judge that only calls ties read 0.5."
        ),
        "finding": "A number with a limit, and what it shows: a problem, ok, cannot tell, or by design.",
        "variation": "How much single scores differ from the mean of their step or test, whatever makes them differ.",
        "asking again": "The same prompts once more: it evens out noise, and changes nothing that the tasks decide.",
        "problem": "The clustered interval lies wholly beyond the limit, all limits of the run taken together.",
        "ok": "The clustered interval lies wholly on the good side of the limit.",
        "cannot tell": "The clustered interval holds the limit, or there is none: more tasks may tell.",
        "by design": "The right answer was not offered, so that the number says nothing about the judge.",
        "detectable": "Found in four of five runs like this: a value that lies this far from its limit.",
        "withheld": "Not shown as a number: more calls were lost than is allowed; its bounds stand in its place.",
        "bounds": "What a number would be if every lost call had gone one way or the other.",
        "left out": "Calls that belong to the number but gave no usable answer: in no denominator, counted beside it.",
        "n": "How many calls, pairs or items the number stands on.",
        "censored": "Known only as a bound: ≤ the smallest measured step, or > the largest.",
        "not decided": "The interval holds the limit: more tasks would decide.",
        "told apart": "Two judges differ, all comparisons taken together: an error in at most 5 % of such tables.",
        "equivalent": "Shown to differ by less than the margin, either way.",
        "letters": "Judges that share a letter are not told apart; a is with the best.",
        "effective votes": "How many independent judges a jury is worth, given that its members err together.",
        "simulated": "No model answered: a scripted judge did, by known rules.",
        "recorded": "A real model answered earlier; its answers come with the package.",
        "truncated": "Not all calls of the suite were asked.",
        "suite": "A frozen list of items with expected answers; its hash says that judges were asked the same.",
        "arm": "The same suite under another tie criterion.",
        "baseline": "The items as they are, before any test changes them.",
        "source": "The item that perturbed ones were made from; its calls belong together.",
        "verdict": "Of a call: it chose a side or gave a label. Of a run: what it shows, in one to four sentences.",
        "tie": "A call that said that both are equally good.",
        "abstain": "A call that gave no judgment on purpose.",
        "unparsed": "A call whose answer could not be read; in no denominator.",
        "error": "A call that failed; in no denominator.",
        "gate": "Rules over readings, decided by their intervals: passed, failed or not decided.",
        "human ceiling": "How well one person agrees with the label of the others: what a judge can be asked for.",
    }
)
"""Term to its sentence, in plain words."""


# Longest first: an alternation takes the first that fits, and `tie` would hide `tie criterion`.
_PATTERN = re.compile(
    rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(TERMS, key=len, reverse=True)))})(?!\w)", re.IGNORECASE
)
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
    """Escape a text of any origin, each of its terms a link to the page's glossary that says it on hover and focus."""
    from markupsafe import Markup, escape

    parts, place, seen = [], 0, set()
    for match in _PATTERN.finditer(text):
        term = _BY_WORD[match[0].casefold()]
        # Each link is a stop of the Tab key, so only the first mention of a term is one.
        if term in seen:
            continue
        seen.add(term)
        link = Markup('<a class="term" href="#{}" data-tip="{}">{}</a>').format(term_id(term), TERMS[term], match[0])
        parts += [escape(text[place : match.start()]), link]
        place = match.end()
    return Markup("").join([*parts, escape(text[place:])])
