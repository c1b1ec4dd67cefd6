"""The bar and the sentence of what the scores vary with."""

from __future__ import annotations

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.show.figures.datasheet import variation
from jrh_mlflow.show.sheets import sheet_page, variation_sentences
from tests.measures.test_variance import by_task, coin, first_slot, labelled, ladder, sheet


def shares(again: tuple[float, float, float] | None, **parts: float) -> dict[str, Reading]:
    """Readings as they are measured, with these numbers."""
    numbers: dict[str, tuple[float, float, float]] = {name: (part, 0.0, 1.0) for name, part in parts.items()}
    numbers |= {} if again is None else {"asking_again": again}
    readings: dict[str, Reading] = {
        f"variance/{name}": Estimate(
            value=value,
            n=240,
            excluded=0,
            ci_low=None,
            ci_high=None,
            cluster_low=low,
            cluster_high=high,
            n_clusters=20,
            method="",
            statistic="value",
        )
        for name, (value, low, high) in numbers.items()
    }
    return readings if again else {**readings, "variance/asking_again": NotEstimable(reason="asked once")}


PARTS = {"task": 0.6, "wording": 0.2, "order": 0.1, "repeat": 0.1}


def test_the_sentence_follows_the_interval_of_what_asking_again_would_do() -> None:
    told = [
        variation_sentences(shares(again, **PARTS))[0]
        for again in ((0.02, 0.01, 0.1), (0.1, 0.02, 0.2), (0.28, 0.2, 0.29))
    ]
    little, undecided, much = told
    assert "would help little" in little
    assert "is open" in undecided
    assert "as much as" in much
    for sentence, numbers in zip(told, ("2 % [1, 10]", "10 % [2, 20]", "28 % [20, 29]"), strict=True):
        assert numbers in sentence
        assert "29 %" in sentence


def test_it_says_that_the_order_cancels_only_where_the_order_varies_most() -> None:
    again = (0.02, 0.01, 0.1)
    assert "free of" in variation_sentences(shares(again, task=0.2, order=0.7, repeat=0.1))[0]
    assert "free of" not in variation_sentences(shares(again, **PARTS))[0]


def test_without_a_number_it_says_why_and_without_readings_nothing() -> None:
    assert "asked once" in variation_sentences(shares(None, task=0.4))[0]
    assert variation_sentences({}) == []


def widths(figure: object) -> list[float]:
    return [round(bar.get_width(), 3) for bar in figure.axes[0].patches]  # type: ignore[attr-defined]


def test_the_bar_has_the_parts_that_are_not_nothing_and_one_for_what_is_not_told_apart() -> None:
    assert widths(variation({"a": shares((0.02, 0.01, 0.1), **PARTS)})) == [0.6, 0.2, 0.1, 0.1]
    both = {"a": shares((0.02, 0.01, 0.1), **PARTS), "b": shares(None, task=0.4)}
    assert widths(variation(both)) == [0.6, 0.4, 0.2, 0.0, 0.1, 0.0, 0.1, 0.0, 0.0, 0.6]


def test_there_is_no_bar_where_no_judge_was_asked_twice() -> None:
    assert variation({"a": shares(None, task=0.4), "b": shares(None, task=1.0)}) is None
    assert variation({"a": {}}) is None


@pytest.mark.parametrize(
    "measured",
    [sheet(ladder(by_task)), jrh.measure(labelled(lambda s, t, a: "yes" if s % 2 else "no"), n_resamples=20)],
)
def test_page_markdown_and_figures_of_datasheets_and_reports_have_it(measured: jrh.Datasheet) -> None:
    (sentence,) = variation_sentences(measured.estimates)
    page = sheet_page(measured, title="t", facts={}, judge={})
    assert sentence in measured.to_markdown()
    assert sentence.split(":")[1][:40] in page.to_html()
    assert widths(measured.plot("variation")) == [1.0]


def test_it_is_on_every_sheet_whatever_varies() -> None:
    for answer in (first_slot, coin(5)):
        measured = sheet(ladder(answer))
        assert variation({"a": measured.estimates}) is not None
        assert len(variation_sentences(measured.estimates)) == 1
