"""Layout tests change whitespace and nothing else, whatever the text."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jrh_mlflow.perturb._base import NotApplicable
from jrh_mlflow.perturb.english import fences, prose_lines, sentences, unlike_fences
from jrh_mlflow.perturb.surface import Indentation, SpaceClusters, VerticalSpacing
from tests.perturb.code_tools import BENCH, ESSAY, TEXTS, complaints, target, written

pytestmark = pytest.mark.quick

LAYOUTS = [VerticalSpacing(), SpaceClusters(), Indentation()]
FENCED = "Before it all.\n```python\nif a:\n    b = 1\n\nc = 2\n```\nAfter it all."


@pytest.mark.parametrize("test", LAYOUTS, ids=lambda test: test.name)
@given(text=TEXTS, number=st.integers(0, 99))
def test_only_whitespace_changes_and_something_does(test, text, number):
    try:
        after = written(test, text, number)
    except NotApplicable:
        return
    assert after.split() == text.split()
    assert after != text
    assert "".join(re.sub(r"\s", "", after)) == "".join(re.sub(r"\s", "", text))
    assert complaints(test, target(test, text), after) == []
    assert [after[a:b].rstrip() for a, b in fences(after)] == [text[a:b].rstrip() for a, b in fences(text)]


@pytest.mark.parametrize("test", LAYOUTS, ids=lambda test: test.name)
@given(text=TEXTS, number=st.integers(0, 99))
def test_the_same_seed_writes_the_same_layout(test, text, number):
    def once() -> str:
        try:
            return test.write(target(test, text), random.Random(number))
        except NotApplicable as reason:
            return f"not applicable: {reason}"

    assert once() == once()


@pytest.mark.parametrize("test", LAYOUTS, ids=lambda test: test.name)
def test_a_text_without_a_word_is_not_applicable(test):
    for text in ("", " \n\t "):
        with pytest.raises(NotApplicable, match="empty"):
            written(test, text)


@given(text=TEXTS.filter(str.strip), number=st.integers(0, 9))
def test_every_text_can_get_or_lose_vertical_space(text, number):
    assert len(written(VerticalSpacing(), text, number).splitlines()) != len(text.splitlines())


def test_blank_lines_are_added_or_removed_by_seed_and_never_inside_code():
    text = "First.\n\nSecond.\n\n\nThird.\n\n```\na\n\nb\n```"
    lengths = [len(written(VerticalSpacing(), text, number)) - len(text) for number in range(40)]
    assert 10 < sum(length < 0 for length in lengths) < 30
    assert all("a\n\nb" in written(VerticalSpacing(), text, number) for number in range(40))
    assert all(len(written(VerticalSpacing(), "First.\nSecond.", number)) > 14 for number in range(40))


def test_one_word_has_no_gap_to_widen_but_can_be_indented_and_set_apart():
    with pytest.raises(NotApplicable, match="no space between words"):
        written(SpaceClusters(), "Paris")
    assert re.fullmatch(r"[ \t]+Paris", written(Indentation(), "Paris"))
    assert re.fullmatch(r"\n{2,4}Paris", written(VerticalSpacing(), "Paris"))


def test_blank_lines_come_between_sentences_when_there_is_one_line():
    after = written(VerticalSpacing(), "Dr. Lee came first. He left early! Why?")
    assert re.search(r"\n\n(?:He|Why)", after)
    assert "Dr. Lee came first." in after


def test_space_clusters_stay_inside_lines():
    after = written(SpaceClusters(), ESSAY)
    assert [line.split() for line in after.splitlines()] == [line.split() for line in ESSAY.splitlines()]
    assert re.search(r"\S {3,}\S", after)
    assert "`grow plant twice`" in after


def test_indentation_moves_the_starts_of_lines_only():
    after = written(Indentation(), ESSAY)
    assert [line.lstrip() for line in after.splitlines()] == [line.lstrip() for line in ESSAY.splitlines()]


def test_lines_that_are_indented_already_keep_their_nesting():
    lines = ["def f(x):", "    if x:", "        return 1", "", "f(2)"]
    for number in range(10):
        after = written(Indentation(), "\n".join(lines), number).split("\n")
        indents = {line[: len(line) - len(old)] for line, old in zip(after, lines, strict=True) if old}
        assert len(indents) == 1
        assert after[3] == ""


@pytest.mark.parametrize("test", LAYOUTS, ids=lambda test: test.name)
def test_fenced_code_keeps_its_layout(test):
    block = FENCED[slice(*fences(FENCED)[0])]
    assert block.startswith("```python")
    assert all(block in written(test, FENCED, number) for number in range(10))


def test_a_new_line_never_turns_the_rest_into_code():
    for number in range(20):
        assert fences(written(VerticalSpacing(), "Write this. ``` opens a block.", number)) == []


def test_a_text_that_is_all_code_cannot_be_indented():
    with pytest.raises(NotApplicable, match="code"):
        written(Indentation(), "```\nx = 1\n```")


def test_windows_line_ends_stay_windows_line_ends():
    after = written(VerticalSpacing(), "One line.\r\nTwo lines.\r\n")
    assert after.count("\n") == after.count("\r\n") > 2


def test_the_checks_catch_a_changed_word_and_an_unchanged_layout():
    test = VerticalSpacing()
    item = target(test, "Two words.")
    assert [check(item, "Two\n\nwords!", BENCH) is None for check in test.checks] == [False, True]
    assert [check(item, "Two words.", BENCH) is None for check in test.checks] == [True, False]


def indented(before: str, after: str) -> int:
    """Count the lines outside code that begin further to the right than any line of the original with their words."""
    own = {line.strip(): len(line) - len(line.lstrip()) for line in before.splitlines()}
    lines = [line for start, end in prose_lines(after) if (line := after[start:end])]
    return sum(len(line) - len(line.lstrip()) > own.get(line.strip(), 0) for line in lines)


SENTENCES = st.lists(
    st.sampled_from(
        ["Rain fell.", "Why so?", "It said “No!” twice.", "Dr. Lee came.", "So be it.", "```", "- A point."]
    ),
    min_size=1,
    max_size=6,
)


@given(
    paragraphs=st.lists(SENTENCES, min_size=1, max_size=3),
    gap=st.sampled_from(["\n", "\n\n", "\r\n"]),
    number=st.integers(0, 99),
)
@example(paragraphs=[["```"], ["```"], ["Rain fell.", "Rain fell."]], gap="\n", number=1)
def test_two_sentences_or_lines_are_enough_for_two_indented_lines(paragraphs, gap, number):
    text = gap.join(" ".join(sentences) for sentences in paragraphs)
    prose = prose_lines(text)
    starts = unlike_fences(text, [place for place, _ in sentences(text) if any(a < place < z for a, z in prose)])
    if not prose or (len(prose) < 2 and not starts):
        return
    after = written(Indentation(), text, number)
    assert indented(text, after) >= 2, (text, after)
    assert after.split() == text.split()


def test_a_paragraph_of_one_line_is_broken_at_its_sentences_and_code_stays():
    text = "First the dough. Then the oven. Last the cake.\n```\nbake(cake)\n```"
    after = written(Indentation(), text, 1)
    assert after.endswith("```\nbake(cake)\n```")
    assert all(line[0] in " \t" for line in after.split("\n")[:-3])
    assert len(after.split("\n")) > len(text.split("\n"))
