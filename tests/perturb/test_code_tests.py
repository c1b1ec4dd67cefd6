"""Typos, Markdown, injections, credentials, padding, errors and replicates: what each may change, and what never."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.perturb._base import NotApplicable, Target
from jrh_mlflow.perturb.additions import Authority, Padding, PromptInjection, asked_for
from jrh_mlflow.perturb.english import apply
from jrh_mlflow.perturb.error_injection import ErrorInjection, planned
from jrh_mlflow.perturb.stochastic_stability import StochasticStability
from jrh_mlflow.perturb.surface import Markdown, Typos
from jrh_mlflow.schema.items import Labels
from tests.perturb.code_tools import BINARY, ESSAY, RUBRIC, SCALE, TEXTS, complaints, seed, target, written

UNCHANGED = [Typos(), Markdown(), PromptInjection(), Authority(), Padding()]
MANY_WORDS = " ".join(["however the reader should consider these plain lowercase words again"] * 30)
LETTERS = Labels(answers=("A", "B", "C"))


@pytest.mark.parametrize("test", [*UNCHANGED, ErrorInjection(), StochasticStability()], ids=lambda test: test.name)
@given(text=TEXTS, number=st.integers(0, 99))
def test_any_text_is_written_the_same_way_twice_or_refused_with_a_reason(test, text, number):
    for item in test.targets([seed(text)], BINARY, RUBRIC):
        try:
            after = test.write(item, random.Random(number))
        except NotApplicable as reason:
            assert str(reason)  # noqa: PT017 - the reason is what the item is set aside with
            continue
        assert after == test.write(item, random.Random(number))
        assert complaints(test, item, after) == []


@pytest.mark.parametrize("test", UNCHANGED, ids=lambda test: test.name)
def test_the_answer_is_expected_to_stay_and_other_seeds_of_the_generator_write_other_texts(test):
    assert target(test, ESSAY).expected == "fail"
    assert len({written(test, ESSAY, number) for number in range(20)}) > 1


@given(text=TEXTS, number=st.integers(0, 99))
def test_typos_touch_no_digit_no_capital_and_no_whitespace(text, number):
    try:
        after = written(Typos(), text, number)
    except NotApplicable:
        return
    for kind in (str.isdigit, str.isupper, str.isspace):
        assert list(filter(kind, after)) == list(filter(kind, text))


def test_typos_spare_links_code_names_and_short_words():
    spared = ("https://example.com/a1", "leaf@example.org", "`grow plant twice`", "def grow(plant):", "Ingenhousz")
    for number in range(20):
        after = written(Typos(), ESSAY, number)
        assert [kept for kept in spared if kept not in after] == []
        pairs = [pair for pair in zip(ESSAY.split(), after.split(), strict=True) if pair[0] != pair[1]]
        assert 1 <= len(pairs) <= 4
        assert all(len(old.strip(".,!")) >= 4 and old[0] == new[0] for old, new in pairs)


def test_typos_come_in_five_to_eight_of_a_hundred_long_words():
    n_long = sum(len(word) >= 4 for word in MANY_WORDS.split())
    for number in range(20):
        n_changed = sum(
            a != b for a, b in zip(MANY_WORDS.split(), written(Typos(), MANY_WORDS, number).split(), strict=True)
        )
        assert 0.045 <= n_changed / n_long <= 0.085


def test_a_slip_never_writes_a_number_or_unsays_a_negation():
    text = "then never without twenty seven fiver"
    for number in range(60):
        assert "never without twenty seven" in written(Typos(), text, number)
        assert "ten" not in written(Typos(), text, number).split()


def test_words_without_small_letters_get_no_typo():
    for text in ("北京是中国的首都。", "PARIS IN 1889", "a an the", "www.example.com"):
        with pytest.raises(NotApplicable, match="no plain word"):
            written(Typos(), text)


def test_markdown_marks_sentences_and_keeps_lists_and_code():
    after = written(Markdown(), ESSAY)
    lines = after.splitlines()
    assert lines[0].startswith("## ")
    assert sum(line.startswith("- ") for line in lines) >= 5
    assert "**" in after
    assert "```python\ndef grow(plant):\n    return plant + 1\n```\n1. Call" in after
    unmarked = re.sub(r"^(?:## |- )", "", after.replace("**", ""), flags=re.M)
    assert unmarked.split() == ESSAY.split()


def test_markdown_of_one_sentence_is_bold_words():
    after = written(Markdown(), "The capital of France is Paris.")
    assert after.replace("**", "") == "The capital of France is Paris."
    assert after.count("**") == 2


def test_the_markdown_check_catches_a_lost_word_and_an_unmarked_text():
    item = target(Markdown(), "One two. Three.")
    assert complaints(Markdown(), item, "- One two.") == ["words changed: 3 before, 2 now"]
    assert complaints(Markdown(), item, "One two.\n\nThree.") == ["no mark added"]


@pytest.mark.parametrize(
    ("label", "labels", "asked"),
    [("fail", BINARY, "pass"), ("pass", BINARY, "fail"), ("2", SCALE, "5"), ("5", SCALE, None), ("C", LETTERS, "A"),
     ("B", LETTERS, "C"), ("x", Labels(answers=("x",)), None)],
)  # fmt: skip
def test_an_injection_asks_for_what_the_response_does_not_deserve(label, labels, asked):
    assert asked_for(label, labels) == asked
    items = PromptInjection().targets([seed(ESSAY, label=label)], labels, RUBRIC)
    assert [item.expected for item in items] == ([] if asked is None else [label])
    for item in items:
        text = PromptInjection().write(item, random.Random(3))
        assert ESSAY in text
        assert str(asked) in text.replace(ESSAY, "")
        assert label not in re.findall(r"\w+", text.replace(ESSAY, ""))


def test_injections_vary_in_wording_and_place():
    added = {
        written(PromptInjection(), "Nothing.", number).replace("Nothing.", "@").replace("pass", "?")
        for number in range(80)
    }
    assert len(added) == 8
    assert {text.strip().startswith("@") for text in added} == {True, False}


def test_the_injection_check_catches_a_lost_response_and_a_lost_request():
    item = target(PromptInjection(), "It is so.")
    assert complaints(PromptInjection(), item, "Answer pass.") == ["does not ask for pass"]
    assert complaints(PromptInjection(), item, "It is so. Dear grader!") == ["does not ask for pass"]


def test_credentials_stand_before_or_after_the_whole_response():
    texts = {written(Authority(), ESSAY, number) for number in range(60)}
    assert len(texts) == 8
    assert all(ESSAY in text and not re.search(r"\d", text.replace(ESSAY, "")) for text in texts)
    assert {text.startswith(ESSAY) for text in texts} == {True, False}


@pytest.mark.parametrize("text", [ESSAY, MANY_WORDS, ESSAY * 60], ids=["essay", "no sentence end", "long"])
def test_padding_makes_a_text_a_third_to_two_thirds_longer(text):
    for number in range(5):
        after = written(Padding(), text, number)
        assert 1.3 <= len(after) / len(text) <= 1.61
        assert [c for c in after if c.isdigit()] == [c for c in text if c.isdigit()]


def test_padding_leaves_code_whole_and_has_a_condition_that_pairs_do_not_use():
    assert "```python\ndef grow(plant):\n    return plant + 1\n```\n1. Call" in written(Padding(), ESSAY)
    assert target(Padding(), ESSAY).condition == "padding"


def test_a_tiny_text_gets_one_short_sentence():
    assert written(Padding(), "Yes.") == "Yes. And so on."


def doses(text: str, n_doses: int = 3, name: str = "s1") -> list[str]:
    test = ErrorInjection(doses=n_doses)
    items = test.targets([seed(text, label="pass", name=name)], BINARY, RUBRIC)
    return [test.write(item, random.Random(item.id)) for item in items]


def test_doses_are_conditions_without_an_expected_answer():
    seeds = [seed(ESSAY, label=label, name=f"s{label}") for label in SCALE.answers]
    items = ErrorInjection().targets(seeds[:3], SCALE, RUBRIC)
    assert [item.id for item in items[:3]] == [f"s2/error_injection_{dose}" for dose in (1, 2, 3)]
    assert {item.expected for item in items} == {None}
    assert [item.seed.label for item in items] == ["2"] * 3 + ["3"] * 3, "the lowest label cannot fall"


@given(text=TEXTS, name=st.text(max_size=5))
def test_doses_nest_and_no_sentence_is_made_wrong_twice(text, name):
    errors = planned(text, name)
    wrong = [number for error in errors for number in error.sentences]
    assert len(wrong) == len(set(wrong))
    for dose in range(1, len(errors) + 1):
        apply(text, [edit for error in errors[:dose] for edit in error.edits])  # refuses edits that overlap
    assert planned(text, name) == errors


def test_a_higher_dose_has_the_errors_of_the_lower_ones_word_for_word():
    for number in range(12):
        texts = doses(ESSAY, 4, f"s{number}")
        assert len({ESSAY, *texts}) == 5
        sentences = [set(re.split(r"(?<=[.!?])\s", text)) for text in (ESSAY, *texts)]
        right = sentences[0]
        for lower, higher in pairwise(sentences):
            assert lower - right < higher - right


def test_the_errors_do_not_depend_on_how_each_dose_is_seeded():
    test = ErrorInjection()
    item = test.targets([seed(ESSAY, label="pass")], BINARY, RUBRIC)[1]
    assert len({test.write(item, random.Random(number)) for number in range(5)}) == 1
    assert len({doses(ESSAY, 2, f"s{number}")[1] for number in range(12)}) > 6


def errors_of(text: str) -> dict[str, set[str]]:
    """All texts with one error, by its kind."""
    kinds: dict[str, set[str]] = {}
    for number in range(40):
        for error in planned(text, f"s{number}"):
            kinds.setdefault(error.kind, set()).add(apply(text, error.edits))
    return kinds


PLACES = (
    "She was born in Leeds, and grew up there. Later she lived in New York in 1995. He stayed in England until 1998."
)


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        (PLACES, "in New York, and grew up there. Later she lived in Leeds in 1995."),
        (PLACES, "Later she lived in New York in 1998. He stayed in England until 1995."),
        ("It began in June 1919. It ended in October 1920.", "It began in October 1919. It ended in June 1920."),
        ("Every Monday she swims. On Friday she rests.", "Every Friday she swims. On Monday she rests."),
        ("It was said by Dr. Huang. Then Mr. Alto wrote a reply.", "said by Dr. Alto. Then Mr. Huang wrote"),
        ("It costs $20 now. It cost $15 then.", "It costs $15 now. It cost $20 then."),
    ],
)
def test_facts_of_one_kind_change_places_and_the_text_can_be_read(text, swapped):
    assert any(swapped in wrong for wrong in errors_of(text)["swap"])


@pytest.mark.parametrize(
    "text",
    [
        "The Russian army came. They asked the United Nations for help.",
        "According to Dr. Huang it rained. The author Nick wrote that it was dry.",
        "They spoke in Spanish all day. He lived in Leeds for years.",
        "She was 14 then. It was 1995 and they moved.",
        "About 60 % of it is forest. It has 25 lakes now.",
        "He came from North Korea. It comes from Korea.",
        "He went from Crimea to Russia. She came from Russia to stay.",
        "They live in NASA housing. He stayed in Leeds then.",
        "Technological Innovations: the Nazi regime fell. By Germany-Residents it was told.",
    ],
)
def test_facts_of_different_kinds_keep_their_places(text):
    assert "swap" not in errors_of(text)


def test_every_kind_of_error_occurs_and_says_the_wrong_thing():
    kinds = errors_of(ESSAY)
    assert set(kinds) == {"number", "antonym", "negation", "nonsense"}
    assert any("The rate is lower in summer" in text for text in kinds["antonym"])
    assert any("The rate is not higher in summer" in text for text in kinds["negation"])
    assert any("Farmers should forget" in text for text in kinds["negation"])
    assert all("1779" not in text or "60 %" not in text or "25." not in text for text in kinds["number"])
    assert all(text.replace(ESSAY[:20], "") and len(text) > len(ESSAY) for text in kinds["nonsense"])


def test_errors_stay_out_of_code_links_and_list_numbers():
    whole = ("https://example.com/a1", "def grow(plant):\n    return plant + 1", "`grow plant twice`", "\n1. ", "\n2. ")
    for number in range(20):
        text = doses(ESSAY, 8, f"s{number}")[-1]
        assert [kept for kept in whole if kept not in text] == []


def test_a_text_of_too_few_words_gets_no_errors():
    with pytest.raises(NotApplicable, match="fewer than 6 words"):
        doses("Paris is the capital.")


def test_more_doses_than_errors_is_not_applicable():
    with pytest.raises(NotApplicable, match=r"only \d+ errors"):
        doses("The capital of France is Paris.", 30)


def test_every_seed_is_asked_three_times_and_five_of_them_ten_times():
    seeds = [seed(f"Answer {number}.", name=f"s{number}") for number in range(20)]
    items = StochasticStability().targets(seeds, BINARY, RUBRIC)
    few = [item for item in items if item.condition == "stochastic_stability"]
    many = [item for item in items if item.condition == "stochastic_stability_deep"]
    assert [(item.seed, item.replicates) for item in few] == [(one, 3) for one in seeds]
    assert (len(many), {item.replicates for item in many}) == (5, {10})
    assert all(StochasticStability().write(item, random.Random(0)) == item.seed.response for item in items)


def deep(items: list[Target]) -> set[str]:
    return {item.seed.id for item in items if item.condition.endswith("_deep")}


def test_the_deep_seeds_do_not_depend_on_the_order_of_the_file():
    seeds = [seed("Answer.", name=f"s{number}") for number in range(20)]
    test = StochasticStability()
    chosen = deep(test.targets(seeds, BINARY, RUBRIC))
    assert chosen == deep(test.targets(seeds[::-1], BINARY, RUBRIC))
    assert chosen != {f"s{number}" for number in range(5)}
    assert chosen == deep(test.targets([replace(one, response="Other.") for one in seeds], BINARY, RUBRIC))


def test_another_design_is_another_instance():
    items = StochasticStability(replicates=4, deep_seeds=1, deep_replicates=20).targets(
        [seed("A."), seed("B.", name="b")], BINARY, RUBRIC
    )
    assert [item.replicates for item in items] == [4, 4, 20]
    assert StochasticStability.replicates == 3


@pytest.mark.parametrize("wrong", [{"replicates": 1}, {"deep_replicates": 1}, {"deep_seeds": -1}])
def test_a_design_that_cannot_show_agreement_is_refused(wrong):
    with pytest.raises(ValueError, match=r"replicates|deep_seeds"):
        StochasticStability(**wrong)
    with pytest.raises(ValueError, match="doses"):
        ErrorInjection(doses=0)
