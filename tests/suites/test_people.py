"""Labels of several people in a table: kept apart, and one of them expected where most of them say the same."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.schema.items import Labels
from jrh_mlflow.suites.labels import NO_MAJORITY, people_label, say_left_out
from jrh_mlflow.suites.responses import dataset_sha256, read_seeds

NAMES = {"ann": "a", "bob": "b", "cleo": "c"}


def table(votes: list[tuple[Any, ...]], **more: list[Any]) -> pd.DataFrame:
    rows = {
        "id": [f"r{n}" for n in range(len(votes))],
        "instruction": "Say it.",
        "response": [f"x{n}" for n, _ in enumerate(votes)],
    }
    people = {column: [row[place] for row in votes] for place, column in enumerate(NAMES.values())}
    return pd.DataFrame({**rows, **people, **more}).astype(object)


def test_people_are_kept_and_what_most_of_them_say_is_the_label() -> None:
    votes = [("yes", "no", "Yes"), ("no", None, "no"), (None, "yes", "")]
    seeds, labels = read_seeds(table(votes), people=NAMES)
    assert [seed.label.lower() for seed in seeds] == ["yes", "no", "yes"]
    assert {label.lower() for label in labels.answers} == {"no", "yes"}
    lower = [{who: label.lower() for who, label in seed.meta["people"].items()} for seed in seeds]
    assert lower == [{"ann": "yes", "bob": "no", "cleo": "yes"}, {"ann": "no", "cleo": "no"}, {"bob": "yes"}]


def test_rows_on_which_people_are_split_are_left_out_with_one_line() -> None:
    votes = [("yes", "no", None), ("no", "no", "yes"), ("yes", "yes", "yes")]
    with pytest.warns(JrhWarning, match=rf"1 of 3 rows were left out .*1 {NO_MAJORITY} \(r0\)") as said:
        seeds, _ = read_seeds(table(votes), people=NAMES)
    assert len(said) == 1
    assert [(seed.id, seed.label) for seed in seeds] == [("r1", "no"), ("r2", "yes")]
    with pytest.raises(RecipeError, match=r"1 of 1 rows .* None is left"):
        read_seeds(table(votes[:1]), people=NAMES, labels=["no", "yes"])


def test_a_rows_own_label_stands_and_people_are_kept_beside_it() -> None:
    votes = [("yes", "no", None), ("no", "no", "yes")]
    seeds, _ = read_seeds(table(votes, label=["yes", None]), people=NAMES)
    assert [(seed.label, len(seed.meta["people"])) for seed in seeds] == [("yes", 2), ("no", 3)]


def test_on_a_scale_the_median_is_expected_and_levels_that_only_one_person_gave_are_levels() -> None:
    seeds, labels = read_seeds(table([(1, 2, 5), (4, 4, 3), (2, 2, 2)]), people=NAMES)
    assert labels == Labels(answers=("1", "2", "3", "4", "5"), ordinal=True)
    assert [seed.label for seed in seeds] == ["2", "4", "2"]
    with pytest.warns(JrhWarning, match="1 of 2 rows"):
        seeds, _ = read_seeds(table([(1, 3, None), (1, 2, 3)]), people=NAMES, scale=(1, 3))
    assert [seed.label for seed in seeds] == ["2"]


@pytest.mark.parametrize(
    ("given", "ordinal", "expected"),
    [
        (["a"], False, "a"),
        (["a", "b"], False, None),
        (["a", "b", "a", "c"], False, "a"),
        (["a", "b", "b", "a"], False, None),
        (["a", "c"], True, None),
        (["a", "c", "c"], True, "c"),
        (["a", "a", "b", "b"], True, None),
        (["a", "b", "b", "c"], True, "b"),
    ],
)
def test_one_label_stands_for_several_only_where_it_leads(
    given: list[str], ordinal: bool, expected: str | None
) -> None:
    assert people_label(given, Labels(answers=("a", "b", "c"), ordinal=ordinal)) == expected


@pytest.mark.parametrize("as_text", [False, True])
def test_one_column_may_map_people_to_labels(as_text: bool) -> None:
    cells: list[Any] = [{"ann": 0.0, "bob": 1, "cleo": 0}, {"bob": "1"}]
    frame = table([("", "", ""), ("", "", "")], said=[json.dumps(cell) if as_text else cell for cell in cells])
    seeds, _ = read_seeds(frame, people="said", values={0: "fail", 1: "pass"})
    assert [seed.label for seed in seeds] == ["fail", "pass"]
    assert seeds[0].meta["people"] == {"ann": "fail", "bob": "pass", "cleo": "fail"}


def test_without_people_nothing_is_written_and_the_hash_stays() -> None:
    votes = [("yes", "no", None), ("no", "no", "yes")]
    plain, labels = read_seeds(table(votes, label=["yes", "no"]))
    assert all("people" not in seed.meta for seed in plain)
    kept, again = read_seeds(table(votes, label=["yes", "no"]), people=NAMES)
    assert labels == again
    assert dataset_sha256(plain, labels) != dataset_sha256(kept, labels)


@pytest.mark.parametrize(
    ("people", "match"),
    [
        ({"ann": "aa"}, "lacks the column 'aa' .for people."),
        ({}, "`people` must map each person to a column"),
        (["a", "b"], "`people` must map each person to a column"),
        ("a", "'a' must map each person to a label, but 2 rows do not: row 1 .id 'r0'.: 'yes'"),
    ],
)
def test_people_that_make_no_sense_are_refused(people: Any, match: str) -> None:
    with pytest.raises(RecipeError, match=match):
        read_seeds(table([("yes", "no", None), ("no", "no", "yes")]), people=people)


def test_labels_of_people_outside_the_labels_are_named_with_their_row_and_person() -> None:
    votes = [("yes", "no", "perhaps"), ("no", "no", "yes")]
    with pytest.raises(RecipeError, match=r"one of no, yes, .*1 are not: 'r0', cleo: 'perhaps'"):
        read_seeds(table(votes), people=NAMES, labels=["no", "yes"])


def test_rows_that_nobody_labelled_are_refused_unless_a_model_labels_them() -> None:
    votes = [("yes", "no", "yes"), (None, None, None)]
    with pytest.raises(RecipeError, match="must hold a label"):
        read_seeds(table(votes), people=NAMES)
    seeds, _ = read_seeds(table(votes), people=NAMES, unlabelled=True)
    assert [seed.label for seed in seeds] == ["yes", ""]


@pytest.mark.parametrize(("ids", "named"), [("abcde", "(a, b, c, d, e)"), ("abcdef", "(a, b, c, d, e, …)")])
def test_rows_that_are_left_out_are_named_five_at_most(ids: str, named: str) -> None:
    with pytest.raises(RecipeError) as refused:
        say_left_out(len(ids), {"have no label": list(ids)}, what="rows", field="labels")
    assert named in str(refused.value)
