"""Labelled responses of a user's dataset: seeds with stable ids, all of them or a stratified draw.

And natural pairs: real responses with a known better side, judged in both orders.
"""

from __future__ import annotations

import hashlib
import json
import random
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, SuiteError, suggest
from jrh_mlflow.schema.items import LABEL_SOURCES, NATURAL, NATURAL_TIE, Item, Labels, Seed
from jrh_mlflow.schema.label_words import label_text
from jrh_mlflow.schema.presentation import context_texts
from jrh_mlflow.suites.dataset import (
    ROLES,
    DatasetTable,
    find_roles,
    is_missing,
    is_na,
    present,
    refuse_rows,
    structured,
)
from jrh_mlflow.suites.labels import PEOPLE, GivenLabels, GivenPeople, read_labels, settle, translated
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import clean_data

MAX_ID = 200
_DOCUMENT_KEYS = ("page_content", "content", "text")
"""Where documents of retrievers have their text."""
_PEOPLE = ("human", "data")
"""What a dataset may call the source of labels that are ground truth."""


class DrawnSeeds(list[Seed]):
    """The seeds of the rows that were drawn; `rows` are those of all."""

    def __init__(self, rows: Sequence[Seed], drawn: Sequence[int]) -> None:
        super().__init__(rows[place] for place in drawn)
        self.rows = rows


def read_seeds(
    dataset: object,
    *,
    columns: Mapping[str, str] | None = None,
    labels: GivenLabels = None,
    scale: GivenLabels = None,
    instruction: str | None = None,
    n: int | None = None,
    stratify: str | None = None,
    seed: int = 0,
    values: Mapping[Any, object] | None = None,
    unlabelled: bool = False,
    grades: bool | None = None,
    rubric: str = "",
    people: GivenPeople = None,
) -> tuple[DrawnSeeds, Labels]:
    """Read labelled responses, checking every row before any is drawn.

    Args:
        dataset: A DataFrame; the path of a CSV, TSV, JSON lines, JSON or Parquet file; a Hugging Face or MLflow
            dataset; or an iterable of mappings.
        columns: Role (`id`, `instruction`, `response`, `label`, `group`, `label_source`, `context`) to the dataset's
            column. A dot reaches into dicts: `{"response": "outputs.answer"}`. What is not mapped is looked for by its
            own and by common names. The context, a text or a list of texts, is what the response was to go by.
        labels: The labels there may be, the better one or the one to be detected last; or label to what it means.
        scale: An ordinal scale: `(low, high)` for every whole number between, or three or more levels from low to
            high; or level to what it means. Without `labels` and `scale` the data tell.
        instruction: The task all responses answer, when the data have no column for it.
        n: How many rows to draw. Without it, all.
        stratify: Column or role whose values share the draw in proportion, such as `label`.
        seed: Of the draw, which does not depend on the order of the rows.
        values: What cells of the label mean, as in `{0.0: "fail"}`; others stay as they are.
        unlabelled: Rows, or all of them, may have no label; theirs is empty then.
        grades: Whether the last label is the better one, or the one to be detected; None: their words tell.
        rubric: Id of the rubric the labels are by, where there are several; seeds are named `row@rubric` then.
        people: Labels of several people: person to column, or the column that maps each person to a label. They are
            kept (`meta["people"]`). Of a row that has no label of its own, the most frequent of theirs (on a scale the
            median) is its label; a row without such a one is left out, with one line.

    Returns:
        The seeds in file order, and the labels they may carry. A seed's `group` is the value of the group column, or
        else the stratum.

    Raises:
        RecipeError: naming the column and the first offending rows, counted from 1 without the header.
    """
    table = dataset if isinstance(dataset, DatasetTable) else DatasetTable(dataset)
    bare = unlabelled or people is not None
    roles = find_roles(table, columns, constant=instruction is not None, unlabelled=bare)
    # A `.csv` with such a column is most likely our own `labels.csv`, whose texts carry guards against formulas.
    if "label_source" in roles and str(dataset).endswith(".csv"):
        table = table.unguarded()
    votes: list[dict[str, str]] = []
    if people is not None:
        ids = _ids(table, roles["id"]) if "id" in roles else None
        settled = settle(table, people, label=roles.get("label"), ids=ids, labels=labels, scale=scale, values=values)
        # What cells mean was applied while people were counted; twice would translate a translation.
        table, votes, labels, scale, values = settled.table, settled.people, settled.labels, settled.scale, None
        roles["label"] = settled.label
    ids = _ids(table, roles["id"]) if "id" in roles else None
    instructions = _constant(instruction, len(table)) or _texts(table, roles["instruction"], ids)
    responses = _texts(table, roles["response"], ids)
    cells = table.cells(roles["label"]) if "label" in roles else [None] * len(table)
    row_labels, allowed = read_labels(
        translated(cells, values),
        column=roles.get("label", "label"),
        ids=ids,
        labels=labels,
        scale=scale,
        unlabelled=unlabelled,
        grades=grades,
    )
    sources = _label_sources(table, roles["label_source"], ids) if "label_source" in roles else [""] * len(table)
    contexts = read_contexts(table, roles["context"], ids) if "context" in roles else [None] * len(table)
    # Of several rubrics each has labels of its own, and the row is the same.
    names = ids if ids is not None else _content_ids(instructions, responses, *([] if rubric else [row_labels]))
    strata = _strata(table, roles, stratify, row_labels, ids)
    groups = _groups(table, roles["group"], ids) if "group" in roles else strata
    drawn = range(len(table)) if n is None else drawn_rows(names, strata or [""] * len(names), n, seed=seed)
    seeds = []
    for row in range(len(table)):
        (task, response, context), replaced = clean_data((instructions[row], responses[row], contexts[row]))
        meta: dict[str, Any] = {"replaced_characters": replaced} if replaced else {}
        meta |= {"label_source": sources[row]} if sources[row] and row_labels[row] else {}
        meta |= {"rubric": rubric} if rubric else {}
        meta |= own_columns(roles)
        meta |= {PEOPLE: votes[row]} if votes and votes[row] else {}
        name = f"{names[row]}@{rubric}" if rubric else names[row]
        group = groups[row] if groups else None
        seeds.append(
            Seed(
                id=name,
                instruction=task,
                response=response,
                label=row_labels[row],
                group=group,
                context=None if context is None else tuple(context),
                meta=meta,
            )
        )
    return DrawnSeeds(seeds, drawn), allowed


def own_columns(roles: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the names under which a dataset holds what a judge is shown, for the meta of items; none if they are ours.

    Example:
        >>> own_columns({"instruction": "inputs.question", "response": "answer"})
        {'columns': {'instruction': 'question'}}
    """
    shown = {role: roles[role].removeprefix("inputs.") for role in ("instruction", "context") if role in roles}
    # What lies deeper, or is the inputs as a whole, is no name in them.
    is_plain = not any("." in column or column == "inputs" for column in shown.values())
    return {"columns": shown} if is_plain and any(role != column for role, column in shown.items()) else {}


def read_prompts(table: DatasetTable, column: str, id_column: str | None) -> dict[str, str]:
    """Return the prompts of a column by the ids of another, or by hashes of the prompts where there is none."""
    ids = _ids(table, id_column) if id_column else None
    texts = _texts(table, column, ids)
    return dict(zip(ids or _content_ids(texts), texts, strict=True))


def dataset_sha256(seeds: Sequence[Seed], labels: Labels) -> str:
    """Return the hash of the seeds, in order, and their labels as canonical JSON: what a suite was made from."""
    about: dict[str, object] = {"answers": labels.answers, "ordinal": labels.ordinal}
    about |= {"meanings": dict(labels.meanings)} if labels.meanings else {}
    # Left out where there is none, so that data without contexts have one hash with every version.
    rows = [{name: value for name, value in asdict(seed).items() if name != "context" or value} for seed in seeds]
    for row in rows:
        # What a column is called is nothing of what it holds.
        row["meta"] = {name: value for name, value in row["meta"].items() if name != "columns"}
    return hashlib.sha256(_canonical({"labels": about, "seeds": rows})).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def read_contexts(table: DatasetTable, column: str, ids: Sequence[str] | None) -> list[tuple[str, ...] | None]:
    """Read what each response was to go by: a text, a list of texts, or one of documents as retrievers return them.

    Raises:
        RecipeError: for anything else; a row may have none.
    """
    cells = [None if is_missing(cell) else structured(cell) for cell in table.cells(column)]
    read = [None if cell is None else _documents(cell) for cell in cells]
    odd = [cell is not None and texts is None for cell, texts in zip(cells, read, strict=True)]
    refuse_rows(column, "must hold a text, a list of texts, or nothing", odd, ids=ids, shown=cells)
    return [texts or None for texts in read]


def _documents(cell: object) -> tuple[str, ...] | None:
    documents = cell if isinstance(cell, list | tuple | np.ndarray) else [cell]
    texts = [text for document in documents if isinstance(text := _document_text(document), str)]
    return context_texts(texts) if len(texts) == len(documents) else None


def _document_text(document: object) -> object:
    if not isinstance(document, Mapping):
        return document
    return next((document[key] for key in _DOCUMENT_KEYS if key in document), None)


def _ids(table: DatasetTable, column: str) -> list[str]:
    cells = table.cells(column)
    refuse_rows(column, "must hold an id in every row", map(is_missing, cells), shown=cells)
    texts = [_id_text(cell) for cell in cells]
    rule = f"must hold ids on one line of at most {MAX_ID} characters, or whole numbers"
    refuse_rows(column, rule, [text is None for text in texts], shown=cells)
    ids = [text for text in texts if text is not None]
    refuse_rows(column, "must hold each id once", _repeated(ids), shown=cells)
    return ids


def _repeated(ids: Sequence[str]) -> list[bool]:
    counts = Counter(ids)
    return [counts[text] > 1 for text in ids]


def _id_text(cell: object) -> str | None:
    """Return an id as it is written, whole numbers without a point; None for what cannot be one."""
    text = cell if isinstance(cell, str) else label_text(cell)
    if text is None or len(text) > MAX_ID or not (isinstance(cell, str) or text.lstrip("-").isdigit()):
        return None
    odd = any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)
    return None if odd else text


def _content_ids(*texts: Sequence[str]) -> list[str]:
    """Return the first 12 hex digits of the hash of each row's instruction, response and label."""
    # Cleaned first: a lone surrogate could not be encoded.
    ids = [hashlib.sha256(_canonical(clean_data(row)[0])).hexdigest()[:12] for row in zip(*texts, strict=True)]
    refuse_rows(None, "must differ (the same row twice; remove one or give an id column)", _repeated(ids))
    return ids


def _texts(table: DatasetTable, column: str, ids: Sequence[str] | None) -> list[str]:
    cells = table.cells(column)
    refuse_rows(column, "must hold text in every row", map(is_missing, cells), ids=ids)
    refuse_rows(column, "must hold text", [not isinstance(cell, str) for cell in cells], ids=ids, shown=cells)
    return [str(cell) for cell in cells]


def _constant(instruction: str | None, n_rows: int) -> list[str]:
    if instruction is not None and (not isinstance(instruction, str) or not instruction.strip()):
        raise RecipeError(f"`instruction` must be text, but is {instruction!r}.")
    return [] if instruction is None else [instruction] * n_rows


def _strata(
    table: DatasetTable, roles: Mapping[str, str], stratify: str | None, labels: list[str], ids: Sequence[str] | None
) -> list[str]:
    """Return the stratum of each row, or nothing when there are none."""
    if stratify is None:
        return []
    if stratify == "label":
        column = roles.get("label", "label")
        refuse_rows(column, "must hold a label in every row to be drawn by", [not label for label in labels], ids=ids)
        return labels
    column = roles.get(stratify, stratify)
    if column not in table:
        raise RecipeError(
            f"`stratify` names {stratify!r}, which is neither a column nor a role ({', '.join(ROLES)})."
            f"{present(table, stratify)}"
        )
    groups = _groups(table, column, ids)
    refuse_rows(column, "must hold a stratum in every row", [group is None for group in groups], ids=ids)
    return [group for group in groups if group is not None]


def _groups(table: DatasetTable, column: str, ids: Sequence[str] | None) -> list[str | None]:
    cells = table.cells(column)
    groups = [None if is_missing(cell) else label_text(cell) for cell in cells]
    odd = [group is None and not is_missing(cell) for group, cell in zip(groups, cells, strict=True)]
    refuse_rows(column, "must hold text, numbers or booleans", odd, ids=ids, shown=cells)
    return groups


def _label_sources(table: DatasetTable, column: str, ids: Sequence[str] | None) -> list[str]:
    """Return where the label of each row comes from, where it is no ground truth."""
    cells = table.cells(column)
    texts = ["" if is_missing(cell) else str(cell).strip().casefold() for cell in cells]
    odd = [text not in ("", *LABEL_SOURCES, *_PEOPLE) for text in texts]
    known = ", ".join((*LABEL_SOURCES, *_PEOPLE))
    refuse_rows(column, f"must hold one of {known}, or nothing", odd, ids=ids, shown=cells)
    return [text if text in LABEL_SOURCES else "" for text in texts]


def drawn_rows(ids: Sequence[str], strata: Sequence[str], n: int, *, seed: int) -> list[int]:
    """Draw `n` positions, the strata in proportion to their sizes.

    Args:
        ids: Of all rows, unique. Rows are sorted by them before the draw.
        strata: Of all rows; all the same for a plain draw.
        n: How many to draw.
        seed: The same seed and rows give the same draw.

    Returns:
        Positions in file order.

    Example:
        >>> drawn_rows(["a", "b", "c", "d"], ["x", "x", "y", "y"], 2, seed=0)
        [1, 3]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise RecipeError(f"`n` must be a whole number of rows, 1 or more, but is {n!r}.")
    if n > len(ids):
        raise RecipeError(
            f"`n` is {n}, but the dataset has {len(ids)} rows. Lower it, or leave it out to take them all."
        )
    members: dict[str, list[int]] = {}
    # By id, not by place: the same rows in another order give the same draw.
    for position in sorted(range(len(ids)), key=lambda position: ids[position]):
        members.setdefault(strata[position], []).append(position)
    shares = allocate({name: len(rows) for name, rows in members.items()}, n)
    rng = random.Random(seed)  # noqa: S311 - a repeatable draw, not a secret
    drawn = [position for name in sorted(members) for position in rng.sample(members[name], shares[name])]
    return sorted(drawn)


def allocate(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Share `n` places among strata in proportion to their sizes, by largest remainder.

    Each stratum gets at least one place when there are enough for all. Equal remainders go by name.

    Example:
        >>> allocate({"common": 90, "rare": 1, "some": 9}, 10)
        {'common': 8, 'rare': 1, 'some': 1}
    """
    single: dict[str, int] = {}
    rest, small = dict(sizes), set(sizes)
    while small and n >= len(sizes):
        # A stratum whose share is under one gets one; the others share what is left, so their shares shrink in turn.
        places, total = n - len(single), sum(rest.values())
        small = {name for name, size in rest.items() if places * size < total}
        single |= dict.fromkeys(small, 1)
        rest = {name: size for name, size in rest.items() if name not in small}
    shares = single | _largest_remainder(rest, n - len(single))
    return {name: shares[name] for name in sorted(sizes)}


def _largest_remainder(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    total = sum(sizes.values())
    shares = {name: n * size // total for name, size in sizes.items()}
    # In whole numbers: remainders of floats would break ties by rounding.
    by_remainder = sorted(sizes, key=lambda name: (-(n * sizes[name] % total), name))
    for name in by_remainder[: n - sum(shares.values())]:
        shares[name] += 1
    return shares


COLUMNS = ("instruction", "first", "second", "better")
"""Columns a table of pairs needs."""
_ROLES = (*COLUMNS, "id", "task", "context", "group")


def natural_suite(
    pairs: pd.DataFrame,
    *,
    columns: Mapping[str, str] | None = None,
    better_values: tuple[str, str] = ("1", "2"),
    tie_values: Sequence[str] = ("tie",),
    name: str = "natural",
) -> Suite:
    """Build a suite from a table with one pair per row.

    Args:
        pairs: Needs an instruction, two responses and which one is better; may have ids, tasks, in `context` a text
            or a list of texts that the responses were to go by, and a group that the results are also read by.
        columns: Our name to the table's column, e.g. `{"instruction": "input", "better": "label"}`.
        better_values: How the table says that the first or the second response is better.
        tie_values: How it says that people call them equal: a tie is right there, read as `natural/tie_accuracy` and
            by no other axis.
        name: Of the suite.
    """
    # A column that happens to be called `group` is taken when it is named: suites keep the hash that they had.
    names = {key: key for key in _ROLES if key != "group"} | dict(columns or {})
    for key in sorted(set(names) - set(_ROLES)):
        raise SuiteError(f"Unknown column role {key!r}.{suggest(key, _ROLES)}")
    needed = [names[key] for key in (*COLUMNS, "group") if key in names]
    missing = [column for column in needed if column not in pairs.columns]
    if missing:
        present = ", ".join(map(str, pairs.columns))
        raise SuiteError(f"The table lacks the column(s) {', '.join(missing)}. Columns there are: {present}.")
    rows = pairs.astype(object).to_dict("records")
    contexts = read_contexts(DatasetTable(pairs), names["context"], None) if names["context"] in pairs.columns else []
    items = [_item(row, index, names, better_values, tie_values) for index, row in enumerate(rows)]
    if contexts:
        items = [replace(item, context=context) for item, context in zip(items, contexts, strict=True)]
    if meta := own_columns({role: names[role] for role in ("instruction", "context") if names[role] in pairs.columns}):
        items = [replace(item, meta={**item.meta, **meta}) for item in items]
    return Suite(name=name, items=items, origin={"builder": "natural"})


def _item(
    row: Mapping[object, object], index: int, names: Mapping[str, str], values: tuple[str, str], ties: Sequence[str]
) -> Item:
    for key, column in names.items():
        if key not in ("context", "group") and column in row and is_na(row[column]):
            raise SuiteError(f"Row {index}: `{column}` ({key}) has no value. Fill it, or drop the row.")
    better = str(row[names["better"]])
    if better not in (*values, *ties):
        known = ", ".join((*values, *ties))
        raise SuiteError(f"Row {index}: `{names['better']}` must be one of {known}, but is {better!r}.")
    item_id = str(row.get(names["id"], f"pair-{index:05d}"))
    return Item(
        id=item_id,
        task=str(row.get(names["task"], item_id)),
        condition=NATURAL if better in values else NATURAL_TIE,
        instruction=str(row[names["instruction"]]),
        u=str(row[names["first"]]),
        v=str(row[names["second"]]),
        better={values[0]: "u", values[1]: "v"}.get(better),
        meta={"group": str(row[group])} if (group := names.get("group")) and not is_na(row[group]) else {},
    )
