"""Tables of answers with known authors, of pairs of them, and of judgments: what `jrh.self_preference` reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from jrh_mlflow.comparing.self_preference_report import COLUMNS, JUDGE, LABEL
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.label_words import label_text
from jrh_mlflow.suites.dataset import DatasetTable, is_missing, present, refuse_rows

_PAIRED = ("first", "second", "first_author", "second_author")
_FORMS = f"it needs `prompt`, `response` and `author`, or `instruction`, {', '.join(f'`{name}`' for name in _PAIRED)}"
_RECORDED = ("id", "first_author", "second_author", "judge", "winner")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPair:
    """Two answers to one prompt, with who wrote them."""

    id: str
    item: str
    instruction: str
    texts: tuple[str, str]
    authors: tuple[str, str]
    labels: Mapping[str, float]
    """Column to the score of the first answer: 1, ½ or 0."""


@dataclass(frozen=True, kw_only=True)
class AnswerTable:
    """A user's table; its columns by our names."""

    table: DatasetTable
    columns: Mapping[str, str]
    """Our name to the table's, where they differ."""

    def pairs(self, labels: str | Sequence[str] | None) -> list[AnswerPair]:
        """Read pairs of answers, from a row for each pair or for each answer.

        Raises:
            RecipeError: naming what is missing.
        """
        task = "instruction" if self._has("instruction") else "prompt"
        paired = self._has(*_PAIRED)
        self._need(task, *(() if paired else ("response", "author")), rule=_FORMS)
        tasks = self._texts(task)
        ids = self._texts("id") if self._has("id") else tasks
        better = self.columns.get("better", "better")
        chosen = [labels] if isinstance(labels, str) else list(labels or [better] * (better in self.table))
        if chosen and not paired:
            raise RecipeError(f"The label {chosen[0]!r} is of a pair, and this table has a row for each answer.")
        self._need(*chosen, rule="it was named for labels")
        given = {column: self._cells(column) for column in chosen}
        rows = self._paired_rows(ids, tasks) if paired else self._answer_rows(ids, tasks)
        pairs = []
        for number, (item, instruction, texts, authors) in enumerate(rows):
            if authors[0] == authors[1]:
                continue
            scores = {column: _winner(cells[number], authors, column, number) for column, cells in given.items()}
            pair = AnswerPair(
                id=f"pair-{number:05d}",
                item=item,
                instruction=instruction,
                texts=texts,
                authors=authors,
                labels={column: score for column, score in scores.items() if score is not None},
            )
            pairs.append(pair)
        if not pairs:
            raise RecipeError("There is no pair of answers by two authors: each prompt needs answers of at least two.")
        return pairs

    def judgments(self) -> pd.DataFrame:
        """Read judgments that were made elsewhere; the same two authors on one item are one pair, in whatever order."""
        self._need(*_RECORDED, rule="without judges the table is of recorded judgments")
        items, first, second, judges = (self._texts(name) for name in _RECORDED[:-1])
        rows = []
        for at, cell in enumerate(self._cells("winner")):
            score = _winner(cell, (first[at], second[at]), "winner", at)
            u, v = sorted((first[at], second[at]))
            turned, outcome = first[at] > second[at], "error" if score is None else "verdict"
            score = 1 - score if turned and score is not None else score
            kind, order = (LABEL, "") if judges[at] in ("human", "gold") else (JUDGE, "vu" if turned else "uv")
            rows.append(((items[at], u, v), items[at], u, v, judges[at], kind, order, outcome, score))
        frame: pd.DataFrame = pd.DataFrame(rows, columns=list(COLUMNS)).assign(version="as written")
        frame["pair"] = [f"pair-{code:05d}" for code in pd.factorize(frame["pair"])[0]]
        by_two: pd.DataFrame = frame[frame["first_author"] != frame["second_author"]]
        return by_two

    def _has(self, *names: str) -> bool:
        return all(self.columns.get(name, name) in self.table for name in names)

    def _need(self, *names: str, rule: str) -> None:
        for name in names:
            if not self._has(name):
                column = self.columns.get(name, name)
                raise RecipeError(f"The table lacks the column {column!r}: {rule}.{present(self.table, column)}")

    def _cells(self, name: str) -> list[object]:
        return list(self.table.cells(self.columns.get(name, name)))

    def _texts(self, name: str) -> list[str]:
        cells = self._cells(name)
        refuse_rows(self.columns.get(name, name), "must hold text in every row", [is_missing(cell) for cell in cells])
        return [str(cell) for cell in cells]

    def _paired_rows(self, ids: Sequence[str], tasks: Sequence[str]) -> Iterator[_PairRow]:
        first, second, u, v = (self._texts(name) for name in _PAIRED)
        return zip(ids, tasks, zip(first, second, strict=True), zip(u, v, strict=True), strict=True)

    def _answer_rows(self, ids: Sequence[str], tasks: Sequence[str]) -> Iterator[_PairRow]:
        """Pair every two answers to a prompt; rows without an answer, as `jrh.respond` returns some, are left out."""
        answers: dict[str, list[tuple[str, str, str]]] = {}
        for item, *answer in zip(ids, tasks, self._cells("response"), self._cells("author"), strict=True):
            if not any(map(is_missing, answer)):
                answers.setdefault(item, []).append((str(answer[0]), str(answer[1]), str(answer[2])))
        for item, own in answers.items():
            for one, other in combinations(own, 2):
                yield item, one[0], (one[1], other[1]), (one[2], other[2])


_PairRow = tuple[str, str, tuple[str, str], tuple[str, str]]
"""Item, instruction, texts, authors."""


def _winner(cell: object, authors: tuple[str, str], column: str, row: int) -> float | None:
    """Return the score of the first answer: 1, ½ for a tie, 0; None where nothing is said."""
    if is_missing(cell):
        return None
    text = (label_text(cell) or "").strip()
    scores = {"1": 1.0, "2": 0.0, "tie": 0.5, authors[0].casefold(): 1.0, authors[1].casefold(): 0.0}
    if text.casefold() not in scores:
        raise RecipeError(f"Row {row + 1}: `{column}` must be 1, 2, tie or one of the two authors, but is {text!r}.")
    return scores[text.casefold()]
