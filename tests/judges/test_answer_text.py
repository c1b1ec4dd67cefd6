"""JSON objects in a text, held against the standard library."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.judges.answer_text import UnreadableError, final_object, objects_in
from tests.examples import up_to

pieces = st.sampled_from([*'{}[]":,\\ \n', '"a"', '"b":', "1e9", "-0.5", "true", "01", "\\u0041", "x"])
texts = st.lists(pieces, max_size=40).map("".join)


def objects(text):
    try:
        return objects_in(text)
    except UnreadableError:
        return []


@settings(deadline=None, max_examples=up_to(250))
@given(texts)
def test_whatever_is_found_is_json_to_the_standard_library(text):
    for found in objects(text):
        assert json.loads(text[found.start : found.end]) == found.fields


@settings(deadline=None, max_examples=up_to(250))
@given(st.dictionaries(st.text(), st.text() | st.lists(st.integers())), st.text(alphabet="ab {}.\n"))
def test_whatever_is_an_object_to_the_standard_library_is_found_whole(fields, before):
    text = json.dumps(fields)
    assert [found.fields for found in objects_in(text)] == [fields]
    last = final_object(f"{before}{text}\nend")
    assert last is not None
    assert (last.start, last.fields) == (len(before), fields)


@settings(deadline=None)
@given(texts)
def test_objects_come_in_order_and_never_overlap(text):
    assert all(one.end <= next_.start for one, next_ in pairwise(objects(text)))


def test_nesting_is_allowed_up_to_a_limit_that_no_stack_decides():
    for depth in (1, 100):
        text = '{"a":' * depth + "1" + "}" * depth
        assert final_object(text) == objects_in(text)[0]
    assert final_object('{"a":' * 300 + "1" + "}" * 300) is None
    with pytest.raises(UnreadableError, match="bad_json"):
        final_object('{"a":' + "[" * 300 + "]" * 300 + "}")


@pytest.mark.parametrize(
    ("text", "code"),
    [('{"a": 1, "a": 1}', "duplicate_keys"), ('{"a": [NaN]}', "bad_number"), ('{"a": -1e999}', "bad_number")],
)
def test_an_object_that_means_two_things_or_nothing_is_unreadable(text, code):
    for read in (objects_in, final_object):
        with pytest.raises(UnreadableError, match=code):
            read(text)
