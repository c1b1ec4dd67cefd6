"""Shortcut judges: each counts one thing, prefers more or less of it, and tosses a coin where it sees no difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.scripted import DIRECTIONS, SHORTCUTS, Shortcut, every_shortcut, from_definition
from jrh_mlflow.measuring.resolve import judge_from_text
from jrh_mlflow.schema.presentation import Presentation
from tests.readings import PROPERTY, asked, value

INSTRUCTION = (
    "Tell Mrs Okafor when the mixer comes.\n\nThe answer should:\n- Name the carrier.\n- Give the delivery date."
)
TELLING: dict[str, tuple[str, str]] = {
    "WordOverlap": ("Mrs Okafor, the mixer comes soon.", "Madam, the parcel is due soon."),
    "RubricOverlap": ("The carrier keeps the delivery date.", "The lorry comes to Mrs Okafor."),
    "WordPairs": ("Mrs Okafor, it was sent.", "Okafor, it was sent, Mrs."),
    "TfidfCosine": ("Mrs Okafor, the mixer comes soon.", "Madam, your parcel is due soon."),
    "CharacterNgrams": ("Okafor gets mixers.", "Nobody is about."),
    "DigitCount": ("Due on 11 May.", "Due on 7 May."),
    "CapitalCount": ("Swiftline of Leeds brings it.", "The carrier brings it."),
    "RareWords": ("A flooded road held us up.", "The mixer comes."),
    "CharacterCount": ("A longer one.", "Short one."),
    "SentenceCount": ("It comes. You wait.", "It comes and you wait."),
    "HedgeCount": ("Perhaps it might come.", "It will come in May."),
    "NegationCount": ("It will not come, never.", "It will come, not only today."),
    "TypeTokenRatio": ("one two three four", "one two one two"),
    "Compression": (
        "late " * 20,
        "A flooded road held the lorry up, and the depot in Leeds has kept your parcel since Friday.",
    ),
}
"""Shortcut to a content with more and one with less of what it counts."""

WORDS = ("the", "mixer", "comes", "to", "Leeds", "with", "15", "pounds", "and", "not", "late")


def shown(first: str, second: str, **fields: str) -> Presentation:
    return Presentation(kind="pair", instruction=INSTRUCTION, first=first, second=second, **fields)


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    return jrh.load_suite("datasheet-paper")


def test_every_shortcut_is_public_and_put_to_the_test():
    names = [shortcut.__name__ for shortcut in SHORTCUTS]
    assert sorted(names) == sorted(TELLING)
    assert set(names) <= set(jrh.scripted.__all__)
    assert [(type(judge).__name__, judge.direction) for judge in every_shortcut()] == [
        (name, direction) for name in names for direction in ("more", "less")
    ]


@pytest.mark.parametrize("shortcut", SHORTCUTS)
def test_more_prefers_what_has_more_and_less_what_has_less_in_either_slot(shortcut):
    more, less = TELLING[shortcut.__name__]
    for judge, liked, other in ((shortcut(), more, less), (shortcut(direction="less"), less, more)):
        assert (judge(shown(liked, other)), judge(shown(other, liked))) == ("1", "2")
        assert judge.margin(shown(liked, other)) == -judge.margin(shown(other, liked)) > 0


@pytest.mark.parametrize("judge", list(every_shortcut()), ids=lambda judge: judge.name)
def test_equal_texts_get_one_slot_in_both_orders_and_either_slot_about_as_often(judge):
    slots = [judge(shown(text, text)) for text in map(str, range(1000, 1200))]
    assert 70 <= slots.count("1") <= 130
    assert judge.margin(shown("a", "a")) == 0


def test_the_coin_depends_on_the_seed_and_on_nothing_but_the_presentation():
    pairs = [shown(f"{word} a", f"a {word}") for word in map(str, range(10, 60))]
    drawn = [[jrh.scripted.WordOverlap(seed=seed)(pair) for pair in pairs] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


@PROPERTY
@given(st.permutations(WORDS))
def test_the_same_words_in_another_order_are_no_difference_to_a_bag_of_words(words):
    plain = shown(" ".join(WORDS), " ".join(words))
    for name in ("WordOverlap", "RubricOverlap", "TfidfCosine", "DigitCount", "CapitalCount", "TypeTokenRatio"):
        judge: Shortcut = getattr(jrh.scripted, name)()
        assert judge.margin(plain) == 0, name


@PROPERTY
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_gets_a_slot_and_the_two_directions_mirror_each_other(first, second):
    pair, turned = shown(first, second), shown(second, first)
    for shortcut in SHORTCUTS:
        more, less = (shortcut(direction=direction) for direction in DIRECTIONS)
        assert {more(pair), less(pair)} == {"1", "2"} or more.margin(pair) == 0
        assert (more(pair) == more(turned)) == (more.margin(pair) == 0)


def test_the_judges_own_words_on_ties_are_no_rubric():
    judge = jrh.scripted.RubricOverlap()
    told = shown("Decide which response is better.", "It comes.", rubric=judge.tie_criterion.text)
    assert judge.margin(told) == 0
    rubric = f"Praise politeness.\n\n{judge.tie_criterion.text}"
    assert judge.margin(shown("With politeness.", "It comes.", rubric=rubric)) == 1


def test_counting_shared_words_or_digits_climbs_the_papers_ladder(suite):
    overlap = jrh.measure(asked(jrh.scripted.WordOverlap(), suite), n_resamples=10)
    assert value(overlap, "target_sensitivity/delta_1") > 0.95
    assert all(value(overlap, f"target_sensitivity/delta_{step}") == 1 for step in range(2, 6))
    digits = jrh.measure(asked(jrh.scripted.DigitCount(), suite), n_resamples=10)
    assert value(digits, "target_sensitivity/delta_3") > 0.9


def test_what_sees_no_difference_reads_exactly_half(suite):
    read = jrh.measure(asked(jrh.scripted.SentenceCount(), suite), n_resamples=10)
    assert {value(read, f"target_sensitivity/delta_{step}") for step in range(1, 6)} == {0.5}
    assert value(read, "positional_false_preference") == 1


def test_a_single_response_has_nothing_beside_it():
    alone = Presentation(kind="response", instruction="i", response="text", answers=("bad", "good"))
    assert {judge(alone) for judge in every_shortcut()} == {"abstain"}


def test_shortcuts_say_that_they_are_simulated_and_what_they_prefer():
    judges = list(every_shortcut())
    assert all(judge.simulated and judge.settings()["kind"] == "scripted" for judge in judges)
    assert len({judge.fingerprint() for judge in judges}) == len({judge.name for judge in judges}) == len(judges)
    ngrams = jrh.scripted.CharacterNgrams
    assert ngrams(n=3).fingerprint() != ngrams(n=4).fingerprint()


def test_a_shortcut_is_made_again_with_its_own_length():
    definition = jrh.scripted.CharacterNgrams(n=3).definition()
    assert definition is not None
    again = from_definition(definition)
    assert again.fingerprint() == jrh.scripted.CharacterNgrams(n=3).fingerprint()


def test_shortcuts_are_found_by_name():
    assert isinstance(judge_from_text("scripted:WordOverlap"), jrh.scripted.WordOverlap)
    with pytest.raises(RecipeError, match="Did you mean 'DigitCount'"):
        judge_from_text("scripted:DigitCuont")


def test_impossible_settings_are_a_programmers_mistake():
    with pytest.raises(ValueError, match="'more' or 'less', but got 'most'"):
        jrh.scripted.DigitCount(direction="most")
    with pytest.raises(ValueError, match="n >= 1"):
        jrh.scripted.CharacterNgrams(n=0)
