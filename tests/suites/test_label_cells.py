"""What cells of a label column are said to mean, for labelled responses and for transcripts alike."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.suites.labels import translated
from jrh_mlflow.suites.responses import read_seeds

ZERO: tuple[Any, ...] = (0, 0.0, "0", "0.0", "0.00", " 0.0 ", np.float64(0), np.int64(0), Decimal("0.0"))


@pytest.mark.parametrize("written", ZERO)
def test_a_number_is_one_cell_however_it_is_written(written: object) -> None:
    assert translated([*ZERO, "1.0"], {written: "no violation"}) == ["no violation"] * len(ZERO) + ["1.0"]


def test_booleans_letters_of_inspect_and_capitals_are_cells() -> None:
    cells = [True, "true", "TRUE", np.bool_(False), "C", "I", "P"]
    values = {"true": "yes", False: "no", "C": "met", "i": "violated"}
    assert translated(cells, values) == ["yes", "yes", "yes", "no", "met", "violated", "P"]


def test_a_boolean_is_no_number_and_a_code_is_none_either() -> None:
    assert translated([True, "01", 1], {1: "one"}) == [True, "01", "one"]


def test_two_meanings_of_one_cell_are_refused() -> None:
    with pytest.raises(RecipeError, match="two meanings: 'a' and 'b'"):
        translated([0], {"0": "a", "0.0": "b"})


@pytest.mark.parametrize("values", [["0.0"], {"0": None}, {"0": ["a"]}, {None: "a"}])
def test_what_is_no_mapping_from_cells_to_labels_is_refused(values: Any) -> None:
    with pytest.raises(RecipeError, match="`values` must map cells to labels"):
        translated([0], values)


@pytest.mark.parametrize("cells", [[0.0, 1.0, 0.0], ["0.0", "1.0", "0"], [0, 1, 0]])
def test_labelled_responses_carry_what_their_cells_mean(cells: list[object], tmp_path: Path) -> None:
    frame = pd.DataFrame({"instruction": "Say.", "response": ["a", "b", "c"], "label": cells})
    values = {"0.0": "no violation", 1: "violation"}
    seeds, labels = read_seeds(frame, labels=["no violation", "violation"], values=values)
    assert [seed.label for seed in seeds] == ["no violation", "violation", "no violation"]
    assert read_seeds(frame, values=values)[1].answers == labels.answers


def test_a_meaning_that_is_none_of_the_labels_is_refused_with_the_row() -> None:
    frame = pd.DataFrame({"instruction": "Say.", "response": ["a", "b"], "label": [0, 1]})
    with pytest.raises(RecipeError, match=r"one of no, yes, but 1 row does not: row 2: 'maybe'"):
        read_seeds(frame, labels=["no", "yes"], values={0: "no", 1: "maybe"})
