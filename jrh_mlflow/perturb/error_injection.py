"""Errors in graded doses: a wrong number, an antonym, a negation, swapped facts, a nonsense sentence.

Doses nest: dose 2 has the error of dose 1 at the same place, and one more. Errors stand in different sentences, so that
none undoes another (`prices are high` → `not low`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from jrh_mlflow.perturb._base import CodeTest, NotApplicable, Target, parameter
from jrh_mlflow.perturb.checks import differs
from jrh_mlflow.perturb.english import (
    ANTONYMS,
    NONSENSE,
    NUMBER_WORDS,
    Edit,
    apply,
    cased,
    sentence_ends,
    sentences,
    touches,
    untouchable,
    words,
)
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import FallsWithDose

_FEWEST_WORDS = 6


@dataclass(frozen=True, kw_only=True)
class ErrorInjection(CodeTest):
    """Only a direction is expected: with a higher dose the judge must not get kinder."""

    doses: int = parameter(3, "How many doses, each with one error more.")

    name = "error_injection"
    title = "factual errors in rising doses"
    expects = FallsWithDose("the answer gets no better", heading="Error doses")
    designs = "_[0-9]+"
    group = "extra"
    needs = frozenset({"order", "grades"})
    checks = (differs,)

    def __post_init__(self) -> None:
        if self.doses < 1:
            raise ValueError(f"`doses >= 1` must hold, but got {self.doses}.")

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per seed and dose, without an expected answer; the lowest label cannot fall any further."""
        return [
            self.target(seed, labels, rubric, condition=f"{self.name}_{dose}", expected=None)
            for seed in seeds
            if seed.label != labels.answers[0]
            for dose in range(1, self.doses + 1)
        ]

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the text with as many errors as the dose says.

        The seed's id chooses the errors and `rng` does not: doses must nest however a caller seeds each item.
        """
        dose = int(target.condition.removeprefix(f"{self.name}_"))
        if len(words(target.original)) < _FEWEST_WORDS:
            raise NotApplicable(f"fewer than {_FEWEST_WORDS} words")
        errors = planned(target.original, target.seed.id)[:dose]
        if len(errors) < dose:
            raise NotApplicable(f"only {len(errors)} errors can be placed")
        return apply(target.original, [edit for error in errors for edit in error.edits])


@lru_cache(1)
def planned(text: str, seed_id: str) -> tuple[InjectedError, ...]:
    """Return all errors a text can take, the mildest dose first: kinds take turns, and no sentence gets two."""
    rng = random.Random(seed_id.encode("utf-8", "surrogatepass"))  # noqa: S311 - repeatable, not secret
    passage = _Passage(text)
    left = [finder(passage, rng) for finder in _FINDERS]
    # Which kind comes first differs from seed to seed, so that dose 1 is not always a number.
    rng.shuffle(left)
    for errors in left:
        rng.shuffle(errors)
    plan: list[InjectedError] = []
    taken: set[int] = set()
    queues = [iter(errors) for errors in left]
    while queues:
        for queue in list(queues):
            # What is passed over stays impossible: a sentence that is taken is never given back.
            error = next((error for error in queue if not taken & error.sentences), None)
            if error is None:
                queues.remove(queue)
            else:
                plan.append(error)
                taken |= error.sentences
    return tuple(plan)


_COUNTS = tuple(word for word, value in NUMBER_WORDS.items() if int(value) > 1)
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"(?<![\w.,])[0-9]+(?:[.,][0-9]+)*(?![\w])")
_LIST_MARK = re.compile(r"[0-9]+[.):](?:\s|$)")
_PLACE = "in|from|to|near|through"
_BEFORE = f"{_PLACE}|at|via|against|by|with|than|including|like|such as|called|named"
_PERSON = r"mr\.?|mrs\.?|ms\.?|dr\.?|prof\.?|st\.?|professor|president|senator|king|queen|aunt|uncle"
_AFTER = (
    "and|or|but|is|was|are|were|has|had|in|at|on|to|for|with|by|from|as|when|because|who|which|that|would|will|could"
    "|should|can|did|does|said|says|states|stated|wrote|writes|asked|told|during|after|before|until|since|while"
)
_NAME = re.compile(
    rf"(?<![\w'’-])(?:(?P<before>(?i:{_BEFORE}))|(?P<of>[a-z]{{1,30}} of)|(?P<person>(?i:{_PERSON})))"
    rf" (?!(?i:{_PERSON})\b)(?P<name>[A-Z][a-z]+(?: [A-Z][a-z]+){{0,3}})(?=[,;:!?)\n]|\.?\s*\Z|\.\s| (?:{_AFTER})\b)"
)
"""A name after a word that tells what it is and before one that ends it: `in Leeds,`, not `the Leeds council`."""
_MONTH = re.compile(r"\b(?P<name>January|February|April|June|July|September|October|November|December)\b")
_DAY = re.compile(r"\b(?P<name>(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\b")
_PEOPLE = re.compile(r"(?:ish|ese|ian|ean|ican|Israeli|Iraqi|French|Dutch|Greek|Arabic|Latin|Swiss|German)\Z")
_MARKED = re.compile(r"[%$€£]")
_AFFIRMED = re.compile(r"\b(?:is|are|was|were|can|could|will|would|should|must)\b(?= [\w])")
_NEGATED = re.compile(
    r"\b(?:is|are|was|were|can|could|will|would|should|must|do|does|did|has|have|had)"
    r"(?P<no> not|n['’]t)\b(?! (?:only|just|merely))"
)
_CANNOT = re.compile(r"\bcan(?P<no>not|['’]t)\b")
_ANY_NEGATION = re.compile(r"n['’]t\b|\b(?:not|no|never|none|neither|nor|nothing|nobody|cannot|without|hardly)\b", re.I)


@dataclass(frozen=True, kw_only=True, slots=True)
class InjectedError:
    """One error, made of one edit or, when two facts change places, of two."""

    kind: str
    edits: tuple[Edit, ...]
    sentences: frozenset[int]
    """Numbers of the sentences it makes wrong; none for a sentence that is put in."""


class _Passage:
    """A text with what the finders look at."""

    def __init__(self, text: str) -> None:
        self.text, self.sentences, self.mask = text, sentences(text), untouchable(text)

    def matches(self, pattern: re.Pattern[str]) -> list[tuple[int, re.Match[str]]]:
        """Return what a pattern finds outside code and links, each with the number of its sentence."""
        return [
            (number, match)
            for number, span in enumerate(self.sentences)
            for match in pattern.finditer(self.text, *span)
            if not touches(self.mask, match.span())
        ]

    def numbers(self) -> list[tuple[int, re.Match[str]]]:
        """Return the numbers that are not the mark of a list."""
        starts = {start for start, _ in self.sentences}
        return [
            (number, match)
            for number, match in self.matches(_NUMBER)
            if not (match.start() in starts and _LIST_MARK.match(self.text, match.start()))
        ]


def _wrong_numbers(passage: _Passage, rng: random.Random) -> list[InjectedError]:
    digits = [(number, match, _other_number(match.group(), rng)) for number, match in passage.numbers()]
    spelled = [
        (number, match, rng.choice([word for word in _COUNTS if word != match.group()]))
        for number, match in passage.matches(_WORD)
        if match.group() in _COUNTS
    ]
    return [_replaced("number", number, match, new) for number, match, new in [*digits, *spelled]]


def _other_number(number: str, rng: random.Random) -> str:
    """Change one digit; the first never becomes 0."""
    place = rng.choice([place for place, character in enumerate(number) if character.isdigit()])
    digit = rng.choice([digit for digit in "123456789" if digit != number[place]])
    return number[:place] + digit + number[place + 1 :]


def _antonyms(passage: _Passage, rng: random.Random) -> list[InjectedError]:
    return [
        _replaced("antonym", number, match, cased(opposite, like=match.group()))
        for number, match in passage.matches(_WORD)
        if (opposite := ANTONYMS.get(match.group().lower())) is not None
    ]


def _negations(passage: _Passage, rng: random.Random) -> list[InjectedError]:
    """Drop a sentence's only negation, or put one in where there is none; questions are left alone."""
    counts = [len(_ANY_NEGATION.findall(passage.text, *span)) for span in passage.sentences]
    errors = []
    for pattern, wanted in ((_AFFIRMED, 0), (_NEGATED, 1), (_CANNOT, 1)):
        for number, match in passage.matches(pattern):
            # With two negations in a sentence, taking out one may leave it true; a question states nothing.
            if counts[number] != wanted or passage.text[passage.sentences[number][1] - 1] in "?？":
                continue
            edit = (*match.span("no"), "") if wanted else (match.end(), match.end(), " not")
            errors.append(InjectedError(kind="negation", edits=(edit,), sentences=frozenset({number})))
    return errors


def _swaps(passage: _Passage, rng: random.Random) -> list[InjectedError]:
    """Let two numbers, names or dates of one kind, in two sentences, change places: wrong, and still to be read."""
    first: dict[str, dict[int, Edit]] = {}
    for number, kind, fact in _facts(passage):
        # The first fact of a kind in each sentence: swaps are between two sentences.
        first.setdefault(kind, {}).setdefault(number, fact)
    errors = []
    for facts in first.values():
        for (first_sentence, here), (second_sentence, there) in pairwise(sorted(facts.items())):
            if _can_swap(passage, (first_sentence, here[2]), (second_sentence, there[2])):
                edits = ((*here[:2], there[2]), (*there[:2], here[2]))
                errors.append(
                    InjectedError(kind="swap", edits=edits, sentences=frozenset({first_sentence, second_sentence}))
                )
    return errors


def _facts(passage: _Passage) -> Iterator[tuple[int, str, Edit]]:
    """Yield what may change places: the number of its sentence, its kind, and where it stands."""
    for number, match in passage.numbers():
        yield number, _number_kind(passage.text, match), (*match.span(), match.group())
    for pattern, kind in ((_MONTH, "month"), (_DAY, "day"), (_NAME, "")):
        for number, match in passage.matches(pattern):
            name = match["name"]
            if kind or not (_MONTH.match(name) or _DAY.match(name)):
                yield number, kind or _name_kind(match), (*match.span("name"), name)


def _number_kind(text: str, match: re.Match[str]) -> str:
    """Numbers of one length with the same sign around them; years are a kind of their own."""
    number, around = match.group(), text[match.start() - 1 : match.start()] + text[match.end() : match.end() + 2]
    # Years swapped with amounts would be nonsense at a glance, not a wrong fact.
    year = len(number) == 4 and number[:2] in ("17", "18", "19", "20")
    return "year" if year else f"number {len(number)} {''.join(_MARKED.findall(around))}"


def _name_kind(match: re.Match[str]) -> str:
    """Names after the same word and, but for places and people, of as many words; nationalities are a kind apart."""
    before = "person" if match["person"] else "of" if match["of"] else match["before"].lower()
    size = "" if before in (*_PLACE.split("|"), "person") else f" {len(match['name'].split())}"
    return f"{before}{size} {'people' if _PEOPLE.search(match['name']) else 'name'}"


def _can_swap(passage: _Passage, first: tuple[int, str], second: tuple[int, str]) -> bool:
    """Whether each is new to the sentence that it comes to, and neither is a part of the other."""
    (here, mine), (there, yours) = first, second
    sentences = [passage.text[slice(*passage.sentences[number])] for number in (here, there)]
    return mine not in yours and yours not in mine and yours not in sentences[0] and mine not in sentences[1]


def _nonsense(passage: _Passage, rng: random.Random) -> list[InjectedError]:
    ends = sentence_ends(passage.text)
    separator = " " if ends else "\n\n"
    return [
        InjectedError(kind="nonsense", edits=((place, place, separator + sentence),), sentences=frozenset())
        for sentence in NONSENSE
        for place in [rng.choice(ends or [len(passage.text)])]
    ]


def _replaced(kind: str, number: int, match: re.Match[str], new: str) -> InjectedError:
    return InjectedError(kind=kind, edits=((*match.span(), new),), sentences=frozenset({number}))


_FINDERS = (_wrong_numbers, _antonyms, _negations, _swaps, _nonsense)
