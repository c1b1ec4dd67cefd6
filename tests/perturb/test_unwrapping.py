"""A code fence or a JSON object around a text is taken off and nothing else; what is foreign in form is pointed out."""

from __future__ import annotations

import json

import pytest

from jrh_mlflow.perturb.unwrapping import foreign_line, unwrapped
from tests.perturb.misbehaving import HONEST, PAIRS, WAYS


@pytest.mark.parametrize("shape", PAIRS)
def test_no_text_is_mended_by_guesswork_whatever_the_original_is(shape: str) -> None:
    pair = PAIRS[shape]
    for way in WAYS:
        answer = way.returned(pair)
        text = unwrapped(answer, pair.original)
        # It is the honest text, or stands in the answer letter by letter.
        escaped = json.dumps(text, ensure_ascii=False)[1:-1]
        assert text == pair.rewrite or text in answer or escaped in answer, way


@pytest.mark.parametrize(
    "template", ["```\n§T\n```", "```text\n§T\n```", "~~~\n§T\n~~~", '{"text": "§J"}', '```json\n{"text": "§J"}\n```']
)
def test_a_fence_or_an_object_around_a_text_is_taken_off(template: str) -> None:
    way = next(way for way in WAYS)._replace(template=template)
    for shape, pair in PAIRS.items():
        # Of these the original itself is JSON, or holds a fence.
        if shape not in ("json", "code"):
            assert unwrapped(way.returned(pair), pair.original) == pair.rewrite, shape


@pytest.mark.parametrize(
    "answer",
    [
        '{"text": "It rained.", "note": "I kept it short."}',
        '{"text": null, "error": "This is against the content policy."}',
        '{"result": {"text": "It rained."}, "status": "done"}',
        '{"text": "It rained."',
        "```\nIt rained.",
        "```It rained.```",
    ],
)
def test_what_is_not_certain_stays_as_it_is(answer: str) -> None:
    assert unwrapped(answer, "It was raining.") == answer


def test_an_honest_rewrite_passes_unchanged_however_it_looks() -> None:
    for pair in HONEST:
        assert unwrapped(pair.rewrite, pair.original) == pair.rewrite


def test_all_that_stands_on_lines_of_its_own_around_a_text_is_foreign_in_form() -> None:
    unnoticed = []
    for way in WAYS:
        pair = PAIRS[way.shape]
        text = unwrapped(way.returned(pair), pair.original)
        if text != pair.rewrite and foreign_line(text, pair.original) is None:
            unnoticed.append(way)
    assert not [way for way in unnoticed if "\n" in way.template]
    # What is on one line with the text, a refusal and a text that breaks off are for a validator to find.
    assert len(unnoticed) < len(WAYS) / 3
    assert {"refusal", "truncation"} < {way.category for way in unnoticed}


def test_an_honest_rewrite_in_the_form_of_its_original_has_no_foreign_line() -> None:
    assert [shape for shape, pair in PAIRS.items() if foreign_line(pair.rewrite, pair.original)] == []


def test_there_are_two_hundred_ways_to_misbehave() -> None:
    assert len({way.template for way in WAYS}) > 200
