"""Each check passes good rewrites and names what is wrong with bad ones."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jrh_mlflow.perturb import checks
from jrh_mlflow.perturb._base import Check
from jrh_mlflow.schema.items import Labels
from tests.examples import up_to
from tests.perturb.rewrite_tools import TEXTS, bench, target

TRIAL = (
    "In a trial with 1,000 patients, Dr. Anna Karlsson of the WHO did not find 2.5 times more relapses in three years."
)


def run(check: Check, original: str, text: str) -> str | None:
    return check(target(original), text, bench())


@pytest.mark.parametrize("text", [TRIAL, TRIAL.upper(), TRIAL.replace(" ", "\n  "), f"  {TRIAL}\n"])
def test_an_echo_does_not_differ(text):
    assert run(checks.differs, TRIAL, text) == "same text as the original"


def test_another_word_makes_a_text_differ():
    assert run(checks.differs, TRIAL, TRIAL.replace("find", "see")) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("one\n\n two\tthree ", None),
        ("one two Three", "words changed, first at word 3: Three"),
        ("one two", "words changed: 3 before, 2 now"),
        ("onetwo three", "words changed, first at word 1: onetwo"),
    ],
)
def test_same_words_allows_layout_and_nothing_else(text, reason):
    assert run(checks.same_words, "one two three", text) == reason


@pytest.mark.parametrize(("text", "empty"), [("", True), (" \n", True), ("… — !", True), ("ok", False), ("水", False)])
def test_a_text_without_a_letter_is_empty(text, empty):
    assert (run(checks.not_empty, TRIAL, text) is not None) is empty


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("```\nThe trial found nothing.\n```", "wrapped in a code fence or in JSON"),
        ('{"text": "The trial found nothing."}', "wrapped in a code fence or in JSON"),
        ("Here is the rewritten text:\n\nThe trial found nothing.", "begins with a line"),
        ('"The trial found nothing."', "begins with a line"),
        ("- The trial found nothing.", "begins with a line"),
        ("The trial found nothing.\n\nWord count: 5", "ends with a line"),
        ("The trial found nothing.", None),
        ("Here is what happened next: the trial ended.", None),
    ],
)
def test_a_wrapper_and_a_line_in_another_form_than_the_original_are_flagged(text, kind):
    reason = run(checks.no_wrapping, TRIAL, text)
    assert (reason or "").startswith(kind or "")
    assert (reason is None) is (kind is None)


@pytest.mark.parametrize("text", ["```\nx = 1\n```", '{"text": "Uniforms."}', "Tips:\n- Be early.", '"A quotation."'])
def test_what_the_original_has_too_is_no_wrapper(text):
    assert run(checks.no_wrapping, text, text.replace("early", "kind").replace("Uniforms", "Skirts")) is None


def test_a_reason_quotes_at_most_sixty_characters_of_the_text():
    reason = run(checks.no_wrapping, TRIAL, f"{'A long ' * 12}text:\nThe trial ended.")
    assert reason is not None
    assert len(reason.split(": ", 1)[1]) <= 60


@pytest.mark.parametrize(
    ("original", "text", "reason"),
    [
        ("It cost 1,000 dollars.", "The price was 1000 dollars.", None),
        ("Three of 12 died.", "Of twelve, 3 died.", None),
        ("2.50 litres", "2.5 litres", None),
        ("One of them left.", "A member left.", None),
        ("1. Wash.\n2. Dry.", "Wash, then dry.", None),
        ("It rose by 14 percent.", "It rose a lot.", "numbers lost: 14"),
        ("It rose by 14 percent.", "It rose by 41 percent.", "numbers lost: 14; new numbers: 41"),
        ("Take one tablet.", "Take two tablets.", "new numbers: 2"),
        ("From 3 to 2.5.", "It fell.", "numbers lost: 3, 2.5"),
        ("It rose.", "It rose by 7.", "new numbers: 7"),
    ],
)
def test_numbers_must_be_kept_and_none_added(original, text, reason):
    assert run(checks.keeps_numbers, original, text) == reason


@pytest.mark.parametrize(
    ("original", "text", "lost"),
    [
        (TRIAL, "Anna Karlsson (W.H.O.) saw no 2.5-fold rise in 1,000 patients.", ""),
        ("We met Darwin's niece in Rome.", "Rome is where Darwin had a niece whom we met.", ""),
        ("However, the man left. Nobody saw it.", "He was gone, unseen.", ""),
        ("## Key Points About Taxes\nthey rise", "they go up", ""),
        ("I know that I am late.", "My lateness is known to me.", ""),
        ("THIS IS ALL SHOUTED AT YOU", "this was loud", ""),
        ("We met Darwin in Rome.", "We met a scholar in Rome.", "Darwin"),
        ("The report by NASA is out.", "The agency's report is out.", "NASA"),
        ("She moved to Sao Paulo.", "She moved to Sao Tome.", "Paulo"),
    ],
)
def test_names_must_be_kept(original, text, lost):
    assert run(checks.keeps_names, original, text) == (f"names lost: {lost}" if lost else None)


@pytest.mark.parametrize(
    ("original", "text", "word"),
    [
        ("You cannot swim here.", "You can't swim here.", ""),
        ("You cannot swim here.", "Nobody is allowed to swim here.", ""),
        ("He could not attend.", "He was unable to attend.", ""),
        ("The drug is not effective.", "The drug is ineffective.", ""),
        ("It is unlikely to rain.", "It will probably not rain.", ""),
        ("She not only sings but dances.", "She sings and dances.", ""),
        ("The drug is not effective.", "The drug is effective.", "lost"),
        ("Never mix them, and do not heat them.", "Mix them, and do not heat them.", "lost"),
        ("The drug is safe.", "The drug is not safe.", "added"),
        ("No, no, no, never, not at all.", "No, no, never, not at all.", ""),
    ],
)
def test_a_reversed_meaning_is_flagged_and_a_reworded_negation_is_not(original, text, word):
    reason = run(checks.keeps_negations, original, text)
    assert (reason or "").startswith(f"negations {word}" if word else "")
    assert (reason is None) is (word == "")


def test_answers_named_in_a_question_must_stay_named():
    item = target("Answer yes or no.", labels=Labels(answers=("no", "yes", "unclear")))
    assert checks.keeps_answers(item, "Say NO, or yes.", bench()) is None
    assert checks.keeps_answers(item, "Agree or decline.", bench()) == "answers no longer named: no, yes"


@pytest.mark.parametrize(("n_words", "fits"), [(4, False), (5, True), (20, True), (21, False)])
def test_the_length_ratio_has_both_ends_in_it(n_words, fits):
    reason = run(checks.length_ratio(0.5, 2.0), "a b c d e f g h i j", "w " * n_words)
    assert (reason is None) is fits
    assert fits or f"10 words before, {n_words} now" in (reason or "")


def test_the_length_ratio_of_an_original_without_words_is_undefined():
    assert "undefined" in (run(checks.length_ratio(0.5, 2.0), "…", "some words") or "")


def test_similarity_outside_the_band_is_flagged_with_its_value():
    check = checks.similar(0.2, 0.9)
    assert run(check, TEXTS[0], TEXTS[0]) == "similarity 1.00 with the original outside 0.2 to 0.9 (tfidf)"
    assert "outside 0.2 to 0.9" in (run(check, TEXTS[0], TEXTS[1]) or "")
    assert run(check, TEXTS[0], f"{TEXTS[0]} {TEXTS[1]}") is None


def test_a_text_must_be_unlike_those_made_before_and_unlike_its_examples():
    check = checks.unlike_earlier(0.95)
    assert check(target(TEXTS[0]), TEXTS[1], bench(TEXTS[2])) is None
    assert "earlier text" in (check(target(TEXTS[0]), TEXTS[1], bench(TEXTS[2], TEXTS[1])) or "")
    assert "an example" in (check(target(TEXTS[0], examples=(TEXTS[1],)), TEXTS[1], bench()) or "")


@pytest.mark.parametrize("make", [checks.length_ratio, checks.similar])
def test_a_band_upside_down_is_a_programmers_mistake(make):
    with pytest.raises(ValueError, match="low <= high"):
        make(0.9, 0.1)
    with pytest.raises(ValueError, match="high <= 1"):
        checks.unlike_earlier(1.5)


EVERY = (
    checks.differs, checks.same_words, checks.not_empty, checks.no_wrapping, checks.keeps_numbers, checks.keeps_names,
    checks.keeps_negations, checks.keeps_answers, checks.length_ratio(0.5, 2), checks.similar(0.1, 0.9),
    checks.unlike_earlier(0.9),
)  # fmt: skip


@settings(max_examples=up_to(60), deadline=None)
@given(st.text(max_size=80), st.text(max_size=80))
@example("", "/")
def test_no_check_fails_on_any_text(original, text):
    for check in EVERY:
        reason = check(target(original), text, bench(original))
        assert reason is None or 0 < len(reason) < 250


@settings(max_examples=up_to(60), deadline=None)
@given(st.text(max_size=80))
def test_a_text_keeps_its_own_numbers_names_and_negations(text):
    for check in (checks.keeps_numbers, checks.keeps_names, checks.keeps_negations, checks.same_words):
        assert run(check, text, text) is None
