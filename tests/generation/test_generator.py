"""The generator's settings and its ramp."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.writers import as_generator, ramp


@given(
    start=st.floats(0, 2).map(lambda value: round(value, 3)),
    rise=st.floats(0, 2).map(lambda value: round(value, 3)),
    attempts=st.integers(2, 20),
)
def test_the_ramp_rises_in_even_steps_and_ends_exactly_at_the_maximum(start: float, rise: float, attempts: int) -> None:
    highest = round(start + rise, 3)
    steps = ramp(start, highest, attempts)
    assert len(steps) == attempts
    assert (steps[0], steps[-1]) == (start, highest)
    for number, step in enumerate(steps):
        assert step == pytest.approx(start + (highest - start) * number / (attempts - 1), abs=1e-12)


def test_the_default_ramp_is_what_a_reader_would_compute() -> None:
    assert jrh.Generator("openai/gpt-4o-mini").temperatures == (0.7, 0.9, 1.1, 1.3)


def test_one_attempt_uses_the_start_and_no_temperature_stays_none() -> None:
    assert jrh.Generator("m/x", attempts=1).temperatures == (0.7,)
    assert jrh.Generator("m/x", temperature=None, attempts=2).temperatures == (None, None)


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"model": " "}, ValueError, "name a model"),
        ({"model": "m/x", "max_tokens": 0}, ValueError, "max_tokens"),
        ({"model": "m/x", "attempts": 0}, ValueError, "attempts"),
        ({"model": "m/x", "temperature": 1.5, "max_temperature": 1.0}, ValueError, "temperature"),
        ({"model": "m/x", "temperature": float("nan")}, ValueError, "temperature"),
        ({"model": "m/x", "api_base": "http://user:secret@host/v1"}, RecipeError, "holds a key"),
        ({"model": "m/x", "extra": {"api_key": "sk-1"}}, RecipeError, "secret"),
        ({"model": "m/x", "extra": {"temperature": 1}}, RecipeError, r"Generator\(temperature"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        jrh.Generator(**settings)
    assert "sk-1" not in str(caught.value)


def test_a_name_is_a_generator_and_none_is_nobody() -> None:
    assert as_generator("openai/gpt-4o-mini") == jrh.Generator("openai/gpt-4o-mini")
    assert as_generator("none") is None
    assert as_generator(None) is None
    with pytest.raises(RecipeError, match=r"A generator must be a model name, .* int"):
        as_generator(7)
