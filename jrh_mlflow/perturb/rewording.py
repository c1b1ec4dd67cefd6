"""Rewriting by rule, for work without a model: other words, more words, fewer words.

The rules know word tables and a few sentence patterns, and no meaning. They keep numbers, names and negations, leave
code and links alone, and take every choice from the given generator, so that another attempt reads differently.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import partial

from jrh_mlflow.perturb import english
from jrh_mlflow.perturb._base import NotApplicable

_SWAP_SHARE = 0.85
_CUT_SHARES = (0.75, 0.85, 0.95, 1.0)
"""How many of the small cuts an attempt makes: the next one cuts more when the text stays too long."""
_DETERMINERS = frozenset(
    {"the", "a", "an", "this", "that", "its", "their", "our", "my", "your", "his", "her", "of", "no", "in", "any"}
)
_TOKEN = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PHRASE = re.compile(rf"\b(?:{'|'.join(sorted(english.PHRASES, key=len, reverse=True))})\b", re.I)
_SHORT_NOT = re.compile(r"\b(do|does|did|is|are|was|were|has|have|had|should|would|could)n['’]t\b", re.I)
_LONG_NOT = re.compile(r"\b(do|does|did|is|are|was|were|has|have|had|should|would|could) not\b(?! only)", re.I)
_CONJUNCTIONS = "because|when|if|although|while|since|after|before|as long as|unless|so that"
# Looks ahead first whether all of it fits: otherwise each conjunction would be tried to the end.
_TAIL = re.compile(
    r"(?=[^,;:()\"“”]+(?<=[.!])\Z)(?P<main>[A-Z][^,;:()\"“”]{10,}?)"
    r"(?<! as)(?<! even)(?<! only)(?<! just)(?<! not)(?<! ever) "
    rf"(?P<conj>{_CONJUNCTIONS}) (?P<sub>[^,;:()\"“”]{{8,}})(?P<end>[.!])"
)
_HEAD = re.compile(
    r"(?P<conj>Because|When|If|Although|While|Since|After|Before|During|At|In|On|With|Unless) (?!fact|addition|short"
    r"|general|other|conclusion|particular)(?P<sub>[^,;:()\"“”]{3,80}), (?!then|and|or)(?P<main>[^,;:()\"“”]{10,})"
    r"(?P<end>[.!])"
)
_ASIDE = re.compile(r" ?\([^()]*\)| [–—] [^–—\n]{3,80} [–—](?= )")
_CLAUSE = re.compile(
    r"(?:, (?:which|who|whose|and|but|so|while|including)|,? (?:because|since|so that|such as|especially|as well as))\b"
    r"[^,;.!?\n]*(?:(?P<ended>(?=[,;.!?]|$))|)"
)
"""What does not end well is passed over as a whole: a clause that begins later in it would not end well either."""
_FILLER = re.compile(
    rf"(?<![\w'’-])(?:{'|'.join(sorted(english.FILLERS, key=len, reverse=True))})(?![\w'’-]),?\s*", re.I
)
_LINE_START = re.compile(r"[ \t>]*(?:(?:\d+[.)]|[-*•])[ \t]*)?")
_BEFORE_MARK = re.compile(r"(?<!\s)\s*,\s*(?=[,.;!?])|(?<!\s)\s+(?=[,.;!?])")
_GAPS = re.compile(r"(?<![ \t])[ \t]+(?=\n|$)|(?<=\S)( {2,})(?=\S)")
_SMALL = tuple(
    re.compile(rf"(?<![\w'’-])(?:{'|'.join(sorted(small))})(?![\w'’-]) ", re.I) for small in english.SMALL_WORDS
)


def reworded(text: str, rng: random.Random, *, keep: Collection[str] = ()) -> str:
    """Say the same in other words: synonyms, contractions, clauses in another order.

    Args:
        text: Any English text; code and links stay as they are.
        rng: Takes the choices.
        keep: Words, in small letters, that must stay.

    Raises:
        NotApplicable: when no rule finds anything to change.
    """
    # A name may be an ordinary word elsewhere in the text: it stays everywhere.
    guarded = {*keep, *(part.lower() for name in english.names(text) for part in english.words(name))}
    changed = each_sentence(text, lambda sentence: _reworded_sentence(sentence, rng, guarded))
    if changed.casefold().split() == text.casefold().split():
        raise NotApplicable("no rule finds anything to reword; a generator model is needed")
    return changed


def reworded_or_same(text: str, rng: random.Random, *, keep: Collection[str] = ()) -> str:
    """Say the same in other words where a rule finds anything to change."""
    try:
        return reworded(text, rng, keep=keep)
    except NotApplicable:
        return text


def each_sentence(text: str, change: Callable[[str], str]) -> str:
    """Change the sentences of a text that hold no code or link, and leave all between them."""
    mask = english.untouchable(text)
    spans = [span for span in english.sentences(text) if not english.touches(mask, span)]
    return english.apply(text, [(start, end, change(text[start:end])) for start, end in spans])


def _reworded_sentence(sentence: str, rng: random.Random, keep: Set[str]) -> str:
    swapped = _swapped(_contracted(_turned(sentence), keep), rng, keep)
    # Only words that are never names may be written small inside the frame.
    if swapped == sentence and first_word(sentence) in english.OPENERS:
        return rng.choice(english.FRAMES).format(sentence[0].lower() + sentence[1:])
    return swapped


def _turned(sentence: str) -> str:
    """Move a clause from the end of a sentence to its front, or back."""
    tail = _TAIL.fullmatch(sentence)
    if tail and first_word(tail["main"]) in english.OPENERS:
        main = tail["main"]
        return f"{tail['conj'].capitalize()} {tail['sub']}, {main[0].lower()}{main[1:]}{tail['end']}"
    head = _HEAD.fullmatch(sentence)
    if head:
        return f"{english.cased(head['main'], like=sentence)} {head['conj'].lower()} {head['sub']}{head['end']}"
    return sentence


def first_word(sentence: str) -> str:
    """Return the word a sentence opens with, in small letters; empty when it opens with anything else."""
    match = _TOKEN.match(sentence)
    return match.group().lower() if match else ""


def _contracted(sentence: str, keep: Set[str]) -> str:
    """Write `don't` for `do not`, or the other way round where that is what there is."""
    # `Does it not` and `doesn't it` put the words in another order.
    if "not" in keep or sentence.endswith("?"):
        return sentence
    if _SHORT_NOT.search(sentence):
        return _SHORT_NOT.sub(r"\1 not", sentence)
    return _LONG_NOT.sub(r"\1n't", sentence)


def _swapped(sentence: str, rng: random.Random, keep: Set[str]) -> str:
    def phrase(match: re.Match[str]) -> str:
        if keep & {word.lower() for word in english.words(match.group())} or rng.random() > _SWAP_SHARE:
            return match.group()
        return english.cased(rng.choice(english.PHRASES[match.group().lower()]), like=match.group())

    def word(match: re.Match[str]) -> str:
        options = _options(sentence_now, match) if match.group().lower() not in keep else ()
        swap = options and rng.random() < _SWAP_SHARE
        return english.cased(rng.choice(options), like=match.group()) if swap else match.group()

    sentence_now = _PHRASE.sub(phrase, sentence)
    return _TOKEN.sub(word, sentence_now)


def _options(sentence: str, match: re.Match[str]) -> tuple[str, ...]:
    """Synonyms that fit the place: no verb after an article, `a` and `an` as they stand, no names."""
    token, lower = match.group(), match.group().lower()
    # Most words have none: only for the others the word before is worth a look.
    if (match.start() and token != lower) or (lower not in english.SYNONYMS and lower not in english.VERB_SYNONYMS):
        return ()
    before = english.words(sentence[max(0, match.start() - 20) : match.start()])
    previous = before[-1].lower() if before else ""
    verbs = english.VERB_SYNONYMS.get(lower, ()) if previous not in _DETERMINERS else ()
    options = english.SYNONYMS.get(lower) or verbs
    if previous in ("a", "an"):
        return tuple(option for option in options if (option[0] in "aeiou") == (previous == "an"))
    return options


def lengthened(text: str, rng: random.Random, *, ratio: float = 1.6) -> str:
    """Say the same at greater length: sentences said again in other words, and sentences that say nothing.

    Raises:
        NotApplicable: when the text has fewer than eight words, or no sentence to add to.
    """
    n_words = len(english.words(text))
    spans = [span for span in english.sentences(text) if len(english.words(text[span[0] : span[1]])) > 2]
    if n_words < 8 or not spans:
        raise NotApplicable(f"{n_words} words in {len(spans)} sentences are too few to expand by rule")
    padding = rng.sample(english.PADDING, len(english.PADDING))
    edits: list[english.Edit] = []
    added = 0
    # Twice round: a text of few sentences needs more than one addition to each.
    for start, end in rng.sample(spans, len(spans)) * 2:
        if n_words + added >= ratio * n_words:
            break
        new = _addition(text[start:end], padding, rng, room=2.4 * n_words - n_words - added)
        edits.append((end, end, f" {new}"))
        added += len(english.words(new))
    return english.apply(text, edits)


def _addition(sentence: str, padding: list[str], rng: random.Random, *, room: float) -> str:
    bare = re.sub(r"^\W*(?:\d+[.)]\s+)?", "", sentence)
    again = rng.choice(english.RESTATEMENTS).format(reworded_or_same(bare, rng))
    if rng.random() < 0.6 and sentence[-1] in ".!" and len(english.words(again)) <= room:
        return again
    return padding.pop() if len(padding) > 1 else padding[0]


def shortened_text(text: str, rng: random.Random) -> str:
    """Say the same at less length: without fillers, asides, side clauses, and the sentences that tell least.

    What holds a number, a name or a negation is never dropped.

    Raises:
        NotApplicable: when the text cannot be brought under 0.8 of its words that way.
    """
    n_words = len(english.words(text))
    for share in _CUT_SHARES:
        cut = _cut(text, rng, n_words, share)
        if cut.strip() and len(english.words(cut)) <= 0.8 * n_words:
            return cut
    raise NotApplicable(f"{n_words} words cannot be cut below 0.8 of them without dropping numbers or negations")


def _cut(text: str, rng: random.Random, n_words: int, share: float) -> str:
    enough = n_words * rng.uniform(0.45, 0.78)
    text = _without_fillers(text, rng, share)
    # In another order each time, so that attempts cut different things.
    for step in rng.sample([_without_asides, _without_clauses, _without_sentences], 3):
        text = step(text, rng, enough)
    return _telegram(text, rng, share, enough=rng.choice((0.65, 0.78, 0.78)) * n_words)


def _dispensable(part: str) -> bool:
    return not english.firm_numbers(part) and not english.negations(part, ())[0] and not english.names(part)


def _without_fillers(text: str, rng: random.Random, share: float) -> str:
    def cut(sentence: str) -> str:
        bare = _FILLER.sub(lambda match: "" if rng.random() < share else match.group(), sentence).lstrip(" ,")
        bare = _BEFORE_MARK.sub("", bare)
        return sentence if len(english.words(bare)) < 3 else english.cased(bare, like=sentence)

    return each_sentence(text, cut)


def _without_asides(text: str, rng: random.Random, enough: float) -> str:
    return _ASIDE.sub(lambda match: "" if _dispensable(match.group()) else match.group(), text)


def _without_clauses(text: str, rng: random.Random, enough: float) -> str:
    """Drop side clauses in a chosen order until the text is short enough."""
    clauses = [match for match in _CLAUSE.finditer(text) if match["ended"] is not None and _dispensable(match.group())]
    left = len(english.words(text))
    gone: list[english.Edit] = []
    for match in rng.sample(clauses, len(clauses)):
        if left > enough:
            gone.append((match.start(), match.end(), ""))
            left -= len(english.words(match.group()))
    return english.apply(text, gone)


def _without_sentences(text: str, rng: random.Random, enough: float) -> str:
    """Drop the sentences that share least with the rest; the first of the text and of each line stay."""
    left = len(english.words(text))
    gone: list[english.Edit] = []
    spans = english.sentences(text)
    counts, first = Counter(word.lower() for word in english.words(text)), _first_of_lines(text, spans)
    for start, end in sorted(spans[1:], key=lambda span: _weight(text[slice(*span)], counts) + rng.random()):
        size = len(english.words(text[start:end]))
        free = start not in first and _dispensable(text[start:end])
        if free and left > enough and left - size >= 0.4 * enough:
            gone.append((start, end, ""))
            left -= size
    return _GAPS.sub(lambda gap: " " if gap[1] else "", english.apply(text, gone)).strip() if gone else text


def _first_of_lines(text: str, spans: Sequence[english.Span]) -> set[int]:
    """Return the starts of sentences with nothing before them in their line but the mark of a list."""
    starts: set[int] = set()
    done, line, margin = 0, 0, english.match_end(_LINE_START, text, 0)
    for start, _ in spans:
        broken = text.rfind("\n", done, start)
        if broken >= 0:
            line, margin = broken + 1, english.match_end(_LINE_START, text, broken + 1)
        if start <= margin and _LINE_START.fullmatch(text, line, start):
            starts.add(start)
        done = start
    return starts


def _weight(sentence: str, counts: Mapping[str, int]) -> float:
    """Long words that the rest of the text uses too, from how often the whole text uses each."""
    own = Counter(word.lower() for word in english.words(sentence))
    long = {word.lower() for word in english.words(sentence) if len(word) > 4}
    return float(sum(counts[word] > own[word] for word in long))


def _telegram(text: str, rng: random.Random, share: float, *, enough: float) -> str:
    """Drop articles, then pronouns and auxiliaries, where the text is still too long."""
    for pattern in _SMALL:
        if len(english.words(text)) > enough:
            text = each_sentence(text, partial(_thinned, pattern, rng, share))
    return text


def _thinned(pattern: re.Pattern[str], rng: random.Random, share: float, sentence: str) -> str:
    thin = pattern.sub(lambda match: "" if rng.random() < share else match.group(), sentence)
    return english.cased(thin, like=sentence) if thin.strip() else sentence
