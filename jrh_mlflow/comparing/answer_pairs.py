"""Tables of answers with known authors, of pairs of them, and of judgments: what `jrh.self_preference` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.label_words import label_word
from jrh_mlflow.suites.dataset import DatasetTable, demand_column, is_missing, refuse_rows

AS_WRITTEN, JUDGE, LABEL = "as written", "judge", "label"
AUTHORS = ("first_author", "second_author")
COLUMNS = ("version", "pair", "rater", "kind", "order", "outcome", "score", "item", *AUTHORS)
"""Of judgments, a row for each answer: `order` is `uv` or `vu` and empty of labels, `score` that of the first answer:
1, ½ for a tie, 0, or missing."""
_ANSWER = ("response", "author")
_PAIRED = ("first", "second", *AUTHORS)
PAIR_COLUMNS = ("item", "instruction", *_PAIRED)
_FORMS = f"it needs `prompt`, `response` and `author`, or `instruction`, {', '.join(f'`{name}`' for name in _PAIRED)}"


def named_table(frame: object, columns: Mapping[str, str]) -> DatasetTable:
    """Return a user's table, with columns of other names under ours as well."""
    table = DatasetTable(frame)
    for name, column in columns.items():
        demand_column(table, column, f"named for {name}")
        table = table.having(name, table.cells(column))
    return table


def pairs_of_answers(table: DatasetTable, labels: str | Sequence[str] | None) -> pd.DataFrame:
    """Read pairs of answers by id, from a row for each pair or for each answer.

    Columns are `PAIR_COLUMNS`, then for each label the score of the first answer: 1, ½, 0 or missing.

    Raises:
        RecipeError: naming what is missing.
    """
    task = "instruction" if "instruction" in table else "prompt"
    about = {"item": "id" if "id" in table else task, "instruction": task, "rule": _FORMS}
    chosen = [labels] if isinstance(labels, str) else list(labels or ["better"] * ("better" in table))
    if all(name in table for name in _PAIRED):
        frame = text_columns(table, *_PAIRED, **about)
        said = text_columns(table, *chosen, rule="named for labels", gaps=chosen)
        frame = frame.assign(**{name: _scores(said[name], frame) for name in chosen})
    elif chosen:
        raise RecipeError(f"The label {chosen[0]!r} is of a pair, and this table has a row for each answer.")
    else:
        frame = _every_two(text_columns(table, *_ANSWER, **about, gaps=_ANSWER))
    frame = frame.set_axis([f"pair-{number:05d}" for number in range(len(frame))])
    by_two: pd.DataFrame = frame[frame["first_author"] != frame["second_author"]]
    if by_two.empty:
        raise RecipeError("There is no pair of answers by two authors: each prompt needs answers of at least two.")
    return by_two


def recorded_judgments(table: DatasetTable) -> pd.DataFrame:
    """Read judgments that were made elsewhere; the same two authors on one item are one pair, in whatever order."""
    rule = "without judges the table is of recorded judgments"
    frame = text_columns(table, *AUTHORS, "winner", item="id", rater="judge", rule=rule, gaps=["winner"])
    score, turned = _scores(frame["winner"], frame), frame["first_author"] > frame["second_author"]
    frame[list(AUTHORS)] = np.sort(frame[list(AUTHORS)].to_numpy(), axis=1)
    is_label = frame["rater"].isin(("human", "gold"))
    frame = frame.assign(
        version=AS_WRITTEN,
        pair=frame.groupby(["item", *AUTHORS], sort=False).ngroup().map("pair-{:05d}".format),
        kind=np.where(is_label, LABEL, JUDGE),
        order=np.where(is_label, "", np.where(turned, "vu", "uv")),
        outcome=np.where(score.isna(), "error", "verdict"),
        score=score.mask(turned, 1 - score),
    )
    by_two: pd.DataFrame = frame.loc[frame["first_author"] != frame["second_author"], list(COLUMNS)]
    return by_two


def text_columns(table: DatasetTable, *names: str, rule: str, gaps: Sequence[str] = (), **others: str) -> pd.DataFrame:
    """Return columns as text, `others` under another name; cells of some may hold nothing."""
    read = {}
    for name, column in {**others, **dict(zip(names, names, strict=True))}.items():
        demand_column(table, column, rule)
        read[name] = [None if is_missing(cell) else str(cell) for cell in table.cells(column)]
        if name not in gaps:
            refuse_rows(column, "must hold text in every row", (text is None for text in read[name]))
    frame: pd.DataFrame = pd.DataFrame(read, dtype=object)
    return frame


def _scores(winners: pd.Series[str], rows: pd.DataFrame) -> pd.Series[float]:
    """Return the score of the first answer of each row: 1, ½ for a tie, 0; missing where nothing is said."""
    said = winners.map(label_word, na_action="ignore")
    first, second = (rows[name].map(label_word) for name in AUTHORS)
    slots = said.map({"1": 1.0, "2": 0.0, "tie": 0.5}).astype(float)
    scores: pd.Series[float] = slots.mask(said == first, 1.0).mask(said == second, 0.0)
    rule = "must be 1, 2, tie or one of the two authors"
    refuse_rows(str(winners.name), rule, said.notna() & scores.isna(), shown=list(winners))
    return scores


def _every_two(answers: pd.DataFrame) -> pd.DataFrame:
    """Pair every two answers to a prompt; rows without an answer, as `jrh.respond` returns some, are left out."""
    answers = answers.dropna(subset=list(_ANSWER)).reset_index()
    both = answers.merge(answers, on="item", suffixes=("", "_other"))
    names = {"response": "first", "author": "first_author", "response_other": "second", "author_other": "second_author"}
    pairs: pd.DataFrame = both[both["index"] < both["index_other"]].rename(columns=names)[list(PAIR_COLUMNS)]
    return pairs
