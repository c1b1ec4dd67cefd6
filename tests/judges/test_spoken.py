"""The scanner, held against the standard library."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jrh_mlflow.judges.parsing import MAX_DEPTH, UnreadableError, object_fields, spans
from tests.examples import up_to

pieces = st.sampled_from([*'{}[]":,\\ \n', '"a"', '"b":', "1e999", "-0.5", "NaN", "true", "01", "\\u0041", "x"])
texts = st.lists(pieces, max_size=40).map("".join)


@settings(deadline=None, max_examples=up_to(250))
@given(texts)
def test_whatever_is_found_whole_is_json_to_the_standard_library(text):
    for span in spans(text):
        if span.problem is None:
            assert isinstance(json.loads(text[span.start : span.end]), dict)


@settings(deadline=None, max_examples=up_to(250))
@given(texts | st.dictionaries(st.text(), st.text() | st.lists(st.integers())).map(json.dumps))
def test_whatever_is_an_object_to_the_standard_library_is_found_whole(text):
    try:
        whole = json.loads(text)
    except ValueError:
        return
    if isinstance(whole, dict):
        assert [span.problem for span in spans(text)] == [None]


@settings(deadline=None)
@given(texts)
def test_spans_come_in_order_and_never_overlap(text):
    found = list(spans(text))
    assert all(one.end <= next_.start for one, next_ in pairwise(found))


def test_nesting_is_allowed_up_to_the_limit():
    deep = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
    assert [span.problem for span in spans(deep)] == [None]
    assert [span.problem for span in spans(f'{{"a":{deep}}}')] == ["too_deep"]


@pytest.mark.parametrize(
    ("text", "code"),
    [('{"a": 1, "a": 1}', "duplicate_keys"), ('{"a": [NaN]}', "bad_number"), ('{"a": -1e999}', "bad_number")],
)
def test_an_object_that_means_two_things_or_nothing_is_unreadable(text, code):
    with pytest.raises(UnreadableError, match=code):
        object_fields(text)
