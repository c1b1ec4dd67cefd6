"""Text that files can hold: one replacement for lone surrogates and NUL, wherever text comes in or goes out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.models.transports.dialect import encode
from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.schema.requests import Request
from jrh_mlflow.text import clean_data, clean_json, clean_text, json_text, two_places

pytestmark = pytest.mark.quick

HOSTILE = st.text(st.characters(codec=None) | st.sampled_from("\x00\ud800\udfff\\u"))


@given(HOSTILE)
def test_clean_text_can_be_written_is_as_long_and_stays_as_it_is(text):
    cleaned = clean_text(text)
    cleaned.encode()
    assert "\x00" not in cleaned
    assert clean_text(cleaned) == cleaned
    assert len(cleaned) == len(text)


@given(HOSTILE)
def test_data_are_cleaned_like_their_texts_and_counted(text):
    cleaned, count = clean_data({text: [text, {"n": 1, "none": None}], "tuple": (text,)})
    expected = clean_text(text)
    assert cleaned == {expected: [expected, {"n": 1, "none": None}], "tuple": [expected]}
    assert count == 3 * sum(one != other for one, other in zip(text, expected, strict=True))


@pytest.mark.parametrize("text", ["half \ud83d", "nul \x00", "both \udfff\x00", "a pair \U0001f600"])
def test_every_way_out_replaces_the_same_characters(text):
    assert json.loads(encode({"text": text}))["text"] == clean_text(text)
    assert TfidfSimilarity([text]).between(text, clean_text(text)) == pytest.approx(1.0)


def test_json_keeps_its_bytes_unless_something_in_it_is_no_text():
    for line in (b'{"a": "\\ud83d\\ude00 \\u0000"}', '{"a": "ü"}'.encode(), b"no JSON \\ud800"):
        assert clean_json(line) == line
    assert json.loads(clean_json(b'{"a": "\\ud83d \xff"}')) == {"a": "\ufffd \ufffd"}


def test_a_number_that_is_not_0_or_1_is_never_printed_as_one():
    shown = {
        0.0: "0.00",
        1.0: "1.00",
        0.0013: "<0.01",
        0.9951: ">0.99",
        -0.004: ">-0.01",
        -0.997: "<-0.99",
        0.3: "0.30",
    }
    assert {value: two_places(value) for value in shown} == shown
    # What is 0 or 1 but for the last bits of a float is that.
    assert (two_places(-1e-17), two_places(1 - 1e-15), two_places(1.003)) == ("0.00", "1.00", "1.00")
    assert (two_places(0.25, signed=True), two_places(0.004, signed=True)) == ("+0.25", "<0.01")


@given(st.floats(0, 1))
def test_a_printed_share_has_two_places_and_lies_within_half_a_hundredth(share):
    text = two_places(share)
    assert len(text.lstrip("<>")) == 4
    assert abs(float(text.lstrip("<>")) - share) <= 0.010001


def test_an_end_beyond_a_limit_is_not_printed_as_the_limit():
    assert two_places(0.1004, limit=0.1) == ">0.10"
    assert two_places(0.0996, limit=0.1) == "<0.10"
    assert two_places(0.1, limit=0.1) == "0.10"
    assert two_places(0.12, limit=0.1) == "0.12"


@given(HOSTILE | st.text('ab"\\\n\t\x7f'), st.sampled_from([0, 0.0, False, 1e-7, None]), st.booleans())
def test_texts_and_requests_are_written_as_the_plain_encoder_writes_them(text, temperature, structured):
    long = text + "x" * 200
    assert json_text(long) == json.dumps(long, ensure_ascii=False)
    schema = {"b": text, "a": 1} if structured else None
    messages = ({"role": "user", "content": long}, {"role": "user", "content": [{"text": text}]})
    request = Request(model="m", messages=messages, temperature=temperature, response_schema=schema, endpoint="e")
    facts = {"model": "m", "messages": messages, "temperature": temperature, "response_schema": schema}
    facts |= {"api_base": "e", "extra": {}, "logprobs": False, "max_tokens": None, "seed": None}
    assert request.canonical() == json.dumps(facts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
