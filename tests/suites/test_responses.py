"""Datasets in: every kind of table becomes the same seeds, and every bad row one clear line."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Labels
from jrh_mlflow.suites.responses import allocate, dataset_sha256, read_seeds

ROWS: list[dict[str, Any]] = [
    {"id": "a", "instruction": "Add 2 and 2.", "response": "4", "label": "yes"},
    {"id": "b", "instruction": "Say hello.", "response": "Goodbye.", "label": "no"},
    {"id": "c", "instruction": "Name a colour.", "response": "Red", "label": "yes"},
]


def rows(labels: list[Any], **more: list[Any]) -> list[dict[str, Any]]:
    """Rows with the given labels, and further columns."""
    made = [{"id": f"r{k}", "instruction": "Do it.", "response": f"done {k}", "label": x} for k, x in enumerate(labels)]
    return [row | {name: cells[k] for name, cells in more.items()} for k, row in enumerate(made)]


def without(column: str, table: list[dict[str, Any]] = ROWS) -> list[dict[str, Any]]:
    return [{key: cell for key, cell in row.items() if key != column} for row in table]


def found(labels: list[Any], **arguments: Any) -> list[str]:
    return [seed.label for seed in read_seeds(rows(labels), **arguments)[0]]


def refused(dataset: object, **arguments: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        read_seeds(dataset, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(text: str, name: str = "data.csv") -> Path:
    Path(name).write_bytes(text.encode("utf-8"))
    return Path(name)


class HuggingFaceDataset:
    """What `datasets.Dataset` shows to a reader."""

    def __init__(self, table: list[dict[str, Any]]) -> None:
        self.features = dict.fromkeys(table[0])
        self._table = table

    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(self._table)


# Every kind of dataset.


def as_file(name: str) -> Path:
    frame, path = pd.DataFrame(ROWS), Path(name)
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    elif name.endswith(".json"):
        path.write_text(json.dumps(ROWS))
    elif ".jsonl" in name:
        lines = "\n".join(json.dumps(row) for row in ROWS).encode()
        path.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    else:
        frame.to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.tsv", "x.json", "x.jsonl", "x.jsonl.gz", "x.parquet"])
def test_every_kind_of_file_gives_the_same_seeds(name):
    assert read_seeds(as_file(name)) == read_seeds(str(as_file(name))) == read_seeds(ROWS)


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, HuggingFaceDataset, iter, tuple, lambda table: pd.DataFrame(table, index=[7, 7, 7])],
    ids=["frame", "hugging_face", "iterator", "tuple", "frame_with_odd_index"],
)
def test_every_kind_of_object_gives_the_same_seeds(make):
    assert read_seeds(make(ROWS)) == read_seeds(ROWS)


def test_seeds_carry_what_the_rows_say():
    seeds, labels = read_seeds(ROWS)
    assert [(s.id, s.instruction, s.response, s.label) for s in seeds] == [tuple(row.values()) for row in ROWS]
    assert labels == Labels(answers=("no", "yes"))
    assert all(seed.group is None and seed.meta == {} for seed in seeds)


def test_an_mlflow_dataset_of_a_frame_gives_the_same_seeds():
    import mlflow

    assert read_seeds(mlflow.data.from_pandas(pd.DataFrame(ROWS), targets="label", digest="given")) == read_seeds(ROWS)


def test_an_mlflow_evaluation_dataset_is_read_by_dotted_names(store_uri, monkeypatch):
    import mlflow
    from mlflow.genai.datasets import create_dataset

    mlflow.set_tracking_uri(None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store_uri)
    dataset = create_dataset(name="seeds", experiment_id="0")
    records = [
        {
            "inputs": {"question": row["instruction"]},
            "outputs": {"answer": row["response"]},
            "expectations": {"grade": {"human": row["label"]}},
        }
        for row in ROWS
    ]
    dataset.merge_records(records)
    columns = {"instruction": "inputs.question", "response": "outputs.answer", "label": "expectations.grade.human"}
    seeds, labels = read_seeds(dataset, columns=columns)
    assert {(s.instruction, s.response, s.label) for s in seeds} == {tuple(row.values())[1:] for row in ROWS}
    assert labels.answers == ("no", "yes")
    message = refused(dataset, columns=columns | {"response": "outputs.anwser"})
    assert "'outputs.anwser' (for response)" in message
    assert "Did you mean 'outputs.answer'?" in message
    assert "inputs, inputs.question, outputs, outputs.answer, expectations" in message


def test_a_dot_in_a_column_name_wins_over_a_dict_and_a_dict_without_the_key_is_a_missing_cell():
    table = [row | {"out": {"a": "inner"}} for row in ROWS]
    assert read_seeds(table, columns={"response": "out.a"})[0][0].response == "inner"
    dotted = [row | {"out.a": "outer"} for row in table]
    assert read_seeds(dotted, columns={"response": "out.a"})[0][0].response == "outer"
    message = refused([table[0], table[1] | {"out": {}}, table[2] | {"out": "a"}], columns={"response": "out.a"})
    assert message == ("Column 'out.a' must hold text in every row, but 2 rows do not: row 2 (id 'b'), row 3 (id 'c').")


def test_several_splits_are_refused_by_name():
    message = refused({"train": HuggingFaceDataset(ROWS), "test": HuggingFaceDataset(ROWS)})
    assert "splits: 'train', 'test'" in message
    assert "dataset['train']" in message


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ({"id": ["a"]}, "cannot be a single dict"),
        (7, "cannot be a int"),
        (["text", ROWS[0]], "Rows must be mappings from column to cell, but 1 row does not: row 1: 'str'"),
        ([], "no rows"),
        (pd.DataFrame(columns=["response"]), "no rows"),
        ("nowhere.csv", "no file nowhere.csv"),
        (pd.DataFrame([[1, 2]], columns=["label", "label"]), "two columns named 'label'"),
    ],
)
def test_what_is_no_dataset_is_refused(dataset, said):
    assert said in refused(dataset)


# Columns.


def test_columns_can_be_mapped():
    table = [{"n": 1, "q": "Why?", "a": "So.", "s": "good", "g": "x"}, {"n": 2, "q": "How?", "a": "", "s": "bad"}]
    table[1]["a"] = "Thus."
    seeds, labels = read_seeds(
        table, columns={"id": "n", "instruction": "q", "response": "a", "label": "s", "group": "g"}
    )
    assert [(s.id, s.instruction, s.response, s.label, s.group) for s in seeds] == [
        ("1", "Why?", "So.", "good", "x"),
        ("2", "How?", "Thus.", "bad", None),
    ]
    assert labels.answers == ("bad", "good")


@pytest.mark.parametrize("names", [("prompt", "output", "grade"), ("assignment", "full_text", "holistic_essay_score")])
def test_common_names_are_found_without_a_mapping(names):
    renamed = pd.DataFrame(ROWS).rename(columns=dict(zip(("instruction", "response", "label"), names, strict=True)))
    seeds, labels = read_seeds(renamed)
    # What the column of the instruction is called is kept: judges of MLflow's are shown it under that name.
    assert {seed.meta["columns"]["instruction"] for seed in seeds} == {names[0]}
    assert ([replace(seed, meta={}) for seed in seeds], labels) == read_seeds(ROWS)


def test_a_role_s_own_name_wins_over_its_aliases():
    assert read_seeds([row | {"answer": "no", "score": 3, "prompt": "no"} for row in ROWS]) == read_seeds(ROWS)


def test_two_possible_columns_are_refused_until_one_is_mapped():
    table = [{"answer": "x", "text": row.pop("response")} | row for row in map(dict, ROWS)]
    assert "response may be in 'answer' or 'text'" in refused(table)
    assert read_seeds(table, columns={"response": "text"}) == read_seeds(ROWS)


def test_a_column_mapped_to_one_role_is_no_guess_for_another():
    table = [{"input": row.pop("response")} | row for row in map(dict, ROWS)]
    assert read_seeds(table, columns={"response": "input"}) == read_seeds(ROWS)
    assert "no column for the instruction" in refused(
        [{"input": "x", "label": 1}, {"input": "y", "label": 0}], columns={"response": "input"}
    )


def test_a_missing_column_is_named_with_those_present_and_the_nearest():
    message = refused(ROWS, columns={"label": "lable"})
    assert message.startswith("The dataset lacks the column 'lable' (for label). Did you mean 'label'?")
    assert message.endswith("Columns there are: id, instruction, response, label.")
    renamed = pd.DataFrame(ROWS).rename(columns={"response": "responses"})
    assert "no column for the response (looked for response, output, " in refused(renamed)
    assert "Did you mean 'responses'? Columns there are: id, instruction, responses, label." in refused(renamed)


def test_an_unknown_role_is_refused_with_the_nearest():
    assert "Unknown column role 'respnse'. Did you mean 'response'?" in refused(ROWS, columns={"respnse": "id"})


def test_one_column_cannot_be_two_things():
    assert "'label' cannot be response and label at once" in refused(
        ROWS, columns={"response": "label", "label": "label"}
    )


def test_one_instruction_may_serve_all_rows():
    seeds, _ = read_seeds(without("instruction"), instruction="Answer well.")
    assert {seed.instruction for seed in seeds} == {"Answer well."}
    aliased = [row | {"question": "Other"} for row in without("instruction")]
    assert read_seeds(aliased, instruction="Answer well.")[0] == seeds


def test_an_instruction_is_given_once_and_not_twice():
    assert "the column 'instruction' for it. Leave one out" in refused(ROWS, instruction="Answer well.")
    message = refused(without("instruction"))
    assert "Give columns={'instruction': …}, or one instruction for all rows." in message
    assert "`instruction` must be text" in refused(without("instruction"), instruction="  ")


# Labels and scales.


@pytest.mark.parametrize(
    ("cells", "answers"),
    [
        ([1, 0, 1], ("0", "1")),
        (["1.0", "0.0"], ("0", "1")),
        ([10, 2], ("2", "10")),
        (["yes", "no"], ("no", "yes")),
        (["Yes", "no", "yes", "NO"], ("NO", "Yes")),
        ([True, False], ("false", "true")),
        ([np.True_, np.False_], ("false", "true")),
        (["PASS", "FAIL"], ("FAIL", "PASS")),
        (["incorrect", "correct"], ("incorrect", "correct")),
        (["good", "bad"], ("bad", "good")),
        (["unsafe", "safe"], ("safe", "unsafe")),
        (["harmful", "harmless"], ("harmless", "harmful")),
        (["Violation", "No violation"], ("No violation", "Violation")),
        (["positive", "negative"], ("negative", "positive")),
        (["zebra", "apple"], ("apple", "zebra")),
        (["c", "B", "a", "b"], ("a", "B", "c")),
        (["NA", "yes", "no"], ("NA", "no", "yes")),
        ([0.5, 0, 1, "0.50"], ("0", "0.5", "1")),
        (["01", "02", "03"], ("01", "02", "03")),
    ],
)
def test_labels_without_order_are_read_off_the_data(cells, answers):
    assert read_seeds(rows(cells))[1] == Labels(answers=answers)


@pytest.mark.parametrize(
    "cells", [[1, 6, 3], ["1", "6", "3"], [1.0, 6.0, 3.0], ["1.0", " 6 ", "3"], [Decimal(1), 6, 3]]
)
def test_three_whole_numbers_or_more_are_a_scale_from_lowest_to_highest(cells):
    assert read_seeds(rows(cells))[1] == Labels(answers=("1", "2", "3", "4", "5", "6"), ordinal=True)
    assert found(cells) == ["1", "6", "3"]


@pytest.mark.parametrize(
    "scale", [(1, 4), [1, 4], [1, 2, 3, 4], ["1", "2", "3", "4"], (1.0, 2.0, 3.0, 4.0), range(1, 5)]
)
def test_a_scale_is_its_ends_or_its_levels(scale):
    seeds, labels = read_seeds(rows([2, "3.0", 3.0, " 4"]), scale=scale)
    assert labels == Labels(answers=("1", "2", "3", "4"), ordinal=True)
    assert [seed.label for seed in seeds] == ["2", "3", "3", "4"]


def test_levels_may_be_words_or_fractions_in_the_order_given():
    assert read_seeds(rows(["fair", "Poor"]), scale=["poor", "fair", "good"])[1].answers == ("poor", "fair", "good")
    assert found(["fair", "Poor"], scale=["poor", "fair", "good"]) == ["fair", "poor"]
    assert found([0.5, "1", "0.50"], scale=[0, 0.5, 1]) == ["0.5", "1", "0.5"]


def test_given_labels_keep_their_order_and_spelling():
    seeds, labels = read_seeds(rows([" YES", "no ", "Yes"]), labels=["yes", "No"])
    assert labels == Labels(answers=("yes", "No"))
    assert [seed.label for seed in seeds] == ["yes", "No", "yes"]
    assert read_seeds(rows([True, False]), labels=[True, False])[1].answers == ("true", "false")
    assert read_seeds(rows([1.0, 0.0]), labels=[1, 0])[1].answers == ("1", "0")


def test_labels_may_hold_an_equals_sign_where_the_rows_do():
    assert read_seeds(rows(["x=1", "x=2"]), labels=["x=1", "x=2"])[1].answers == ("x=1", "x=2")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"labels": ["a", "b"], "scale": (1, 2)}, "not both"),
        ({"labels": ["a"]}, "two labels or more"),
        ({"labels": []}, "must list labels"),
        ({"labels": "yes,no"}, "must list labels"),
        ({"labels": {"a", "b"}}, "must list labels"),
        ({"labels": "1=not harmful,2=harmful"}, 'or map each to what it means, labels={"0": "not harmful", '),
        ({"labels": ["1=not harmful", "2=harmful"]}, "a mapping: `labels={'1': 'not harmful', '2': 'harmful'}`"),
        ({"scale": ["1=bad", "2=fair", "3=good"]}, "a mapping: `scale={'1': 'bad', '2': 'fair', '3': 'good'}`"),
        ({"labels": ["a", None]}, "must list labels"),
        ({"labels": ["a", "A"]}, "each label once"),
        ({"labels": [1, "1.0"]}, "each label once"),
        ({"scale": (6, 1)}, "from low to high"),
        ({"scale": (1, 1)}, "each label once"),
        ({"scale": ("low", "high")}, "from low to high"),
        ({"scale": (1.0, 6.0)}, "from low to high"),
        ({"scale": [1, 3, 2]}, "from low to high"),
        ({"scale": (False, 6)}, "from low to high"),
        ({"scale": "1-6"}, "from low to high"),
        ({"scale": 6}, "from low to high"),
        ({"scale": (0, 10**12)}, "101 levels at most"),
    ],
)
def test_labels_and_scales_that_make_no_sense_are_refused(arguments, said):
    assert said in refused(rows([1, 2]), **arguments)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["yes", "yes"], "one label only, 'yes'"),
        ([True, 2, 3], "must hold numbers or booleans and not both, but 1 row does not: row 1 (id 'r0'): True."),
        ([1, 2, 10**9], "101 levels at most"),
        ([f"text {k}" for k in range(102)], "102 different labels. Is it the right column?"),
    ],
)
def test_data_that_do_not_tell_their_labels_are_refused(cells, said):
    assert said in refused(rows(cells))


@pytest.mark.parametrize("cell", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN"), "", "  "])
def test_a_missing_label_is_refused_by_row(cell):
    message = refused(rows(["yes", cell, "no"]))
    problem, advice = message.split(". ")
    assert problem == "Column 'label' must hold a label in every row, but 1 row does not: row 2 (id 'r1')"
    assert advice == "A model labels rows that have none: labeller=, --labeller."


@pytest.mark.parametrize("cell", [7, 3.5, "3.5", True, "True", "three", "03", "NA", 10**400])
def test_a_label_outside_the_scale_is_refused_by_row_and_shown(cell):
    message = refused(rows([1, cell]), scale=(1, 6))
    assert message.startswith("Column 'label' must hold one of 1, 2, 3, 4, 5, 6, but 1 row does not: row 2 (id 'r1'): ")
    assert repr(cell)[:20] in message


@pytest.mark.parametrize("cell", [[1], {"a": 1}, float("inf"), b"yes", pd.Timestamp(0)])
def test_what_is_no_label_is_refused(cell):
    assert "must hold text, finite numbers or booleans, but 1 row does not: row 1" in refused(rows([cell, "no"]))


def test_a_boolean_is_no_number_and_a_number_no_boolean():
    assert "must hold one of 0, 1, but 2 rows do not" in refused(rows([True, False]), labels=[0, 1])
    assert "must hold one of false, true, but 2 rows do not" in refused(rows([0, 1]), labels=[False, True])


@pytest.mark.parametrize("dtype", ["int8", "float32", "Int64", "category", "string"])
def test_a_column_type_of_pandas_does_not_change_its_labels(dtype):
    frame = pd.DataFrame(rows(["1", "2", "3"]))
    frame["label"] = frame["label"].astype(int).astype(dtype)
    assert [seed.label for seed in read_seeds(frame)[0]] == ["1", "2", "3"]


# Rows.


def test_the_first_five_offending_rows_are_named_and_all_counted():
    message = refused(rows(["no", *[9] * 7], id=list("abcdefgh")), labels=["no", "yes"])
    for row, name in enumerate("bcdef", 2):
        assert f"row {row} (id {name!r}): 9" in message
    assert "7 rows do not" in message
    assert message.endswith("row 6 (id 'f'): 9, ….")
    assert "row 7" not in message


@pytest.mark.parametrize("column", ["response", "instruction"])
def test_texts_must_be_there_and_be_text(column):
    empty = refused(rows(["no", "yes", "no"], **{column: ["", " \n", None]}))
    assert empty.startswith(f"Column {column!r} must hold text in every row, but 3 rows do not: row 1 (id 'r0'), row 2")
    assert f"Column {column!r} must hold text, but 1 row does not: row 2 (id 'r1'): 5." in refused(
        rows(["no", "yes"], **{column: ["a", 5]})
    )
    assert "row 1: b'a'" in refused(without("id", rows(["no", "yes"], **{column: [b"a", "b"]})))


def test_characters_no_file_can_carry_are_replaced_and_counted():
    seeds, _ = read_seeds(rows(["no", "yes"], response=["a\ud800b\x00", "fine 😀"], instruction=["\udfff", "x"]))
    assert [seed.response for seed in seeds] == ["a\ufffdb\ufffd", "fine 😀"]
    assert seeds[0].instruction == "\ufffd"
    assert [seed.meta for seed in seeds] == [{"replaced_characters": 3}, {}]
    assert read_seeds(without("id", rows(["a\udc00", "b"])))[1].answers == ("a\ufffd", "b")


# Ids.


def test_ids_stay_as_they_are_written():
    names = ["007", "7", "a/b", " padded ", "../up", 8, 9.0]
    seeds, _ = read_seeds(rows([0, 1] * 3 + [0], id=names))
    assert [seed.id for seed in seeds] == ["007", "7", "a/b", " padded ", "../up", "8", "9"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["x", "y", "x"], "must hold each id once, but 2 rows do not: row 1: 'x', row 3: 'x'."),
        (["7", 7, "y"], "must hold each id once, but 2 rows do not: row 1: '7', row 2: 7."),
        (["x", None, ""], "must hold an id in every row, but 2 rows do not: row 2, row 3"),
        (["x" * 201, "y", "z"], "at most 200 characters"),
        (["x\n", "y", "z"], "on one line"),
        (["x\u2028", "y", "z"], "on one line"),
        (["\ud800", "y", "z"], "on one line"),
        ([1.5, "y", "z"], "whole numbers, but 1 row does not: row 1: 1.5"),
        ([True, "y", "z"], "row 1: True"),
        ([["x"], "y", "z"], "row 1: ['x']"),
    ],
)
def test_ids_that_cannot_name_a_row_are_refused(names, said):
    assert said in refused(rows(["yes", "no", "no"], id=names))


def test_an_id_of_200_characters_is_accepted():
    assert read_seeds(rows(["yes", "no"], id=["x" * 200, "y"]))[0][0].id == "x" * 200


def test_without_ids_the_content_is_the_id():
    seeds, _ = read_seeds(without("id"))
    text = '["Add 2 and 2.","4","yes"]'
    assert seeds[0].id == hashlib.sha256(text.encode()).hexdigest()[:12]
    assert len({seed.id for seed in seeds}) == 3


def test_the_same_row_twice_is_refused_without_an_id_column():
    table = [*without("id"), without("id")[1]]
    assert "the same row twice; remove one or give an id column" in refused(table)
    assert "but 2 rows do not: row 2, row 4." in refused(table)
    assert len(read_seeds([*ROWS, ROWS[1] | {"id": "d"}])[0]) == 4


texts = st.text(min_size=1, max_size=12).filter(lambda text: bool(text.strip()))


@given(st.lists(st.tuples(texts, texts), min_size=2, max_size=8, unique=True), st.randoms(use_true_random=False))
def test_a_content_id_depends_on_the_content_alone(contents, rng):
    table = [{"instruction": i, "response": r, "label": "no"} for i, r in contents]
    named = {(row["instruction"], row["response"]): seed.id for row, seed in zip(table, seeds_of(table), strict=True)}
    rng.shuffle(table)
    for row, seed in zip(table, seeds_of(table), strict=True):
        assert seed.id == named[row["instruction"], row["response"]]
        assert len(seed.id) == 12
    assert len(set(named.values())) == len(table)


def seeds_of(table: list[dict[str, Any]]) -> Any:
    return read_seeds(pd.DataFrame(table), labels=["no", "yes"])[0]


# Files with odd cells.


def test_a_csv_keeps_ids_labels_and_line_breaks_and_drops_its_byte_order_mark():
    rows_of_file = [
        "\ufeffid,prompt,response,label",
        '007,Say it,"one\r\ntwo, ""three""",NA',
        "7,Say it,NaN,yes",
        "08,Say it,null,no",
    ]
    path = write("\r\n".join(rows_of_file) + "\r\n")
    seeds, labels = read_seeds(path)
    assert [seed.id for seed in seeds] == ["007", "7", "08"]
    assert [seed.response for seed in seeds] == ['one\r\ntwo, "three"', "NaN", "null"]
    assert [seed.label for seed in seeds] == ["NA", "yes", "no"]
    assert labels.answers == ("NA", "no", "yes")


def test_empty_cells_of_a_csv_are_missing():
    path = write("id,prompt,response,label\na,p,r,1\nb,p,r,\nc,p,r\n")
    assert "'label' must hold a label in every row, but 2 rows do not: row 2 (id 'b'), row 3 (id 'c')." in refused(path)


# Sampling.


def test_a_draw_is_seeded_and_in_file_order():
    table = rows(["no", "yes"] * 20)
    drawn = [seed.id for seed in read_seeds(table, n=10)[0]]
    assert len(set(drawn)) == 10
    assert drawn == sorted(drawn, key=lambda name: int(name[1:]))
    assert drawn == [seed.id for seed in read_seeds(table, n=10, seed=0)[0]]
    assert drawn != [seed.id for seed in read_seeds(table, n=10, seed=1)[0]]
    assert read_seeds(table, n=40) == read_seeds(table)


def test_labels_are_those_of_the_whole_dataset_whatever_is_drawn():
    table = rows([1, 2, 3, 4, 5])
    assert read_seeds(table, n=1)[1].answers == ("1", "2", "3", "4", "5")
    assert "row 5" in refused(rows([1, 2, 3, 4, 9]), scale=(1, 4), n=1)


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "2"])
def test_a_draw_is_a_whole_number_of_rows(n):
    assert re.match(rf"`n` must .*{n!r}", refused(ROWS, n=n))


def test_more_than_there_is_cannot_be_drawn():
    assert "`n` is 4, but the dataset has 3 rows" in refused(ROWS, n=4)


def test_strata_share_the_draw_and_the_rare_one_is_kept():
    topics = ["maths"] * 80 + ["art"] * 19 + ["law"]
    seeds, _ = read_seeds(rows(["no", "yes"] * 50, topic=topics), n=10, stratify="topic")
    assert Counter(seed.group for seed in seeds) == {"maths": 7, "art": 2, "law": 1}
    by_label, _ = read_seeds(rows(["No"] * 30 + ["yes"] * 10), n=8, stratify="label")
    assert Counter(seed.label for seed in by_label) == {"No": 6, "yes": 2}
    assert all(seed.group == seed.label for seed in by_label)


def test_the_label_role_is_meant_wherever_its_column_is():
    table = [{"response": f"r{k}", "score": k % 4 // 3, "label_text": "x"} for k in range(16)]
    seeds, _ = read_seeds(table, instruction="Do it.", n=4, stratify="label")
    assert Counter(seed.label for seed in seeds) == {"0": 3, "1": 1}


def test_a_group_column_is_carried_and_can_be_the_stratum():
    table = rows([0, 1] * 4, group=[1, 1, 1, 1, 1, 1, "b", "b"], level=list("uuvvuuvv"))
    assert [seed.group for seed in read_seeds(table)[0]] == ["1"] * 6 + ["b"] * 2
    assert Counter(seed.group for seed in read_seeds(table, n=4, stratify="group")[0]) == {"1": 3, "b": 1}
    kept = read_seeds(table, n=4, stratify="level")[0]
    assert {seed.group for seed in kept} <= {"1", "b"}


def test_a_stratum_must_exist_and_hold_something_in_every_row():
    table = rows([0, 1, 0], topic=["a", None, "b"], list=[[1], [2], [3]])
    message = refused(table, n=2, stratify="topics")
    assert "`stratify` names 'topics', which is neither a column nor a role" in message
    assert "Did you mean 'topic'?" in message
    assert "'topic' must hold a stratum in every row, but 1 row does not: row 2 (id 'r1')." in refused(
        table, n=2, stratify="topic"
    )
    assert "'list' must hold text, numbers or booleans, but 3 rows do not" in refused(table, n=2, stratify="list")


strata = st.lists(st.sampled_from("abcde"), min_size=2, max_size=40)


@given(strata, st.data())
def test_a_stratified_draw_has_its_size_and_depends_on_no_order(groups, data):
    n = data.draw(st.integers(1, len(groups)))
    seed = data.draw(st.integers(0, 3))
    table = rows(["no"] * len(groups), topic=groups)
    arguments: dict[str, Any] = {"labels": ["no", "yes"], "n": n, "stratify": "topic", "seed": seed}
    drawn = read_seeds(table, **arguments)[0]
    assert len({one.id for one in drawn}) == n
    assert Counter(one.group for one in drawn) == {k: v for k, v in allocate(Counter(groups), n).items() if v}
    random.Random(n).shuffle(table)
    again = read_seeds(table, **arguments)[0]
    assert {one.id for one in again} == {one.id for one in drawn}
    places = {row["id"]: place for place, row in enumerate(table)}
    assert [places[one.id] for one in again] == sorted(places[one.id] for one in again)


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 500), min_size=1, max_size=9), st.data())
def test_places_are_shared_in_proportion_within_one_of_the_exact_share(sizes, data):
    total = sum(sizes.values())
    n = data.draw(st.integers(1, total))
    shares = allocate(sizes, n)
    assert sum(shares.values()) == n
    assert all(0 <= shares[name] <= size for name, size in sizes.items())
    if n >= len(sizes):
        assert min(shares.values()) >= 1
    if n < len(sizes) or all(n * size >= total for size in sizes.values()):
        assert all(abs(shares[name] - n * size / total) < 1 for name, size in sizes.items())
    larger_first = sorted(sizes, key=lambda name: -sizes[name])
    assert all(shares[a] >= shares[b] for a in larger_first for b in sizes if sizes[a] > sizes[b])


def test_every_row_of_a_stratum_can_be_drawn():
    table = rows(["no", "yes"] * 5)
    seen = {seed.id for number in range(60) for seed in read_seeds(table, n=2, stratify="label", seed=number)[0]}
    assert seen == {row["id"] for row in table}


# Provenance.


def test_the_hash_names_the_seeds_and_their_labels():
    seeds, labels = read_seeds(ROWS)
    digest = dataset_sha256(seeds, labels)
    assert len(digest) == 64
    assert digest == dataset_sha256(*read_seeds(pd.DataFrame(ROWS)))
    assert digest != dataset_sha256(seeds[:2], labels)
    assert digest != dataset_sha256(seeds[::-1], labels)
    assert digest != dataset_sha256(seeds, Labels(answers=labels.answers[::-1]))
    changed = [ROWS[0] | {"response": "5"}, *ROWS[1:]]
    assert digest != dataset_sha256(*read_seeds(changed))
