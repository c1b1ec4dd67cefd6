"""A judge's verdicts and people's labels as numbers: read from lists, tables, files, results of MLflow, and runs.

Verdicts are 0 or 1; on pairs the value of a pair is 1 (both orders choose u), 0 (both choose v) or ½. What is missing
is NaN and never 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.measures.records import choices, normalise
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.people.agree import Agreement
from jrh_mlflow.people.labels.assessments import PREFIX
from jrh_mlflow.people.labels.scored_traces import (
    ScoredTraces,
    calibration_table,
    scores_of_result,
    scores_of_run,
    scores_of_traces,
    source_run,
)
from jrh_mlflow.schema.items import NATURAL, REQUIRED_COLUMNS
from jrh_mlflow.schema.label_words import BOOLEANS, label_key, label_text, number_text
from jrh_mlflow.stats import Array, Mask
from jrh_mlflow.suites.dataset import DatasetTable as Table
from jrh_mlflow.suites.dataset import is_missing, present, read_table, refuse_rows
from jrh_mlflow.text import hashed
from jrh_mlflow.tracking.runs.read import load_runs

Scale = Literal["booleans", "labels", "scores", "pairs"]
Part = Literal["verdicts", "calibration"]
_LONGEST_FACT = 120
_NO_VERDICT = "unknown"
"""What MLflow's judges say when they cannot tell: MLflow's own mean leaves it out."""
_SLOTS = {"1": "1", "first": "1", "a": "1", "2": "2", "second": "2", "b": "2"}
_CONTENTS = {"u": "u", "v": "v"}
_TIES = ("tie", "both", "equal", "neither", "draw")
_WINS = {"a": 1.0, "u": 1.0, "1": 1.0, "first": 1.0, "b": 0.0, "v": 0.0, "2": 0.0, "second": 0.0}
_WINS |= dict.fromkeys(_TIES, 0.5)
_RUN = re.compile(r"runs:/.+|[0-9a-f]{32}")
VERSION = "version"
_OF_ITEMS = ("judge", "human", "weights", "positional", "ties", "lost_calls")
_OWN_COLUMNS = ("item", "human", "configuration", VERSION)
"""Columns of a table of verdicts that are never the verdict itself."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What one judge said about items, and what people said about them where they did."""

    judge: Array
    """0 … 1 for each item; NaN where there is no verdict."""
    scale: Scale
    levels: frozenset[str] = frozenset()
    """Every answer the judge gave, as text."""
    human: Array | None = None
    """As `judge`; NaN where no person decided. None where nobody was asked."""
    labels: frozenset[str] = frozenset()
    """Every label that people gave, as text."""
    items: tuple[str, ...] | None = None
    weights: Array | None = None
    versions: tuple[str, ...] | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What identifies the judge."""
    positional: Array | None = None
    """Of pairs: share of its replicates in which both orders choose the same slot."""
    ties: Array | None = None
    """Of pairs: share in which an order chooses neither."""
    lost_calls: Array | None = None
    """Of pairs: share of its calls that gave no answer."""
    failed: int = 0
    """Items on which the judge failed; NaN in `judge`."""
    split: int = 0
    """Items on which as many people said one as the other; NaN in `human`."""
    scorer: str | None = None
    run_id: str | None = None
    """Of the `mlflow.genai.evaluate` that the verdicts are of."""
    experiment_id: str | None = None
    """Of the traces that they are on."""
    uri: str | None = None
    simulated: bool = False

    def __len__(self) -> int:
        return len(self.judge)

    @property
    def lost_share(self) -> float:
        """Share of the judge's calls without a verdict."""
        lost = np.isnan(self.judge) if self.lost_calls is None else self.lost_calls
        return float(lost.mean()) if len(lost) else 0.0

    def take(self, rows: Mask) -> Judged:
        """Return the items at which `rows` is true."""
        arrays = {name: getattr(self, name) for name in _OF_ITEMS}
        texts = {name: getattr(self, name) for name in ("items", "versions")}
        kept: dict[str, Any] = {name: None if each is None else each[rows] for name, each in arrays.items()}
        kept |= {
            name: None if each is None else tuple(one for one, keep in zip(each, rows, strict=True) if keep)
            for name, each in texts.items()
        }
        return replace(self, **kept)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """How verdicts and calibration are to be read."""

    judge: str = "judge"
    """Column of the judge's verdicts."""
    human: str = "human"
    """Column of the person's labels; on traces the name of people's assessments where it is not the scorer's."""
    item: str = "item"
    positive: tuple[object, ...] = ()
    """Answers that are a pass, where they are not booleans."""
    weights: str | None = None
    """Column of the calibration with inverse inclusion probabilities."""
    scorer: str | None = None
    tracking_uri: str | None = None

    def read(self, source: object, part: Part, *, labels: bool = False) -> Judged:
        """Read verdicts or calibration, whatever holds them; with `labels` also what people say by now.

        Raises:
            RecipeError: when it cannot be read, in one line.
        """
        if isinstance(source, Evaluation):
            read = _of_calls(source.calls)
            facts, simulated = _texts(source.judge.settings), source.judge.simulated
            return replace(read, facts=facts, simulated=simulated, uri=source.tracking_uri)
        if isinstance(source, Agreement):
            return self._agreement(source)
        scored = self._scored(source, labels=labels or part == "calibration")
        if scored is None:
            return self._run(source, part) if _is_run(source) else self._plain(source, part)
        return self._traces(scored, part)

    def _scored(self, source: Any, *, labels: bool) -> ScoredTraces | None:
        """Read what a scorer said about traces; None where the source is something else."""
        told = {"scorer": self.scorer, "human": self._assessment, "tracking_uri": self.tracking_uri}
        # Known by its fields: MLflow itself is not loaded here.
        if hasattr(source, "result_df") and hasattr(source, "run_id"):
            return scores_of_result(source, fresh=labels, **told)
        if _are_traces(source):
            return scores_of_traces(source, **told)
        if _is_run(source) and source_run(str(source), tracking_uri=self.tracking_uri).kind is None:
            return scores_of_run(str(source), **told)
        return None

    @property
    def _assessment(self) -> str | None:
        return None if self.human == "human" else self.human

    def _plain(self, source: object, part: Part) -> Judged:
        cells = _column(source)
        if getattr(source, "ndim", 1) == 0:
            raise RecipeError(f"The {part} must be a list, a table or a file, but got one value: {source!r}.")
        if cells is None:
            in_index = isinstance(source, pd.DataFrame) and source.index.name == self.item
            table = Table(source.reset_index() if isinstance(source, pd.DataFrame) and in_index else source)
            pairs = set(REQUIRED_COLUMNS) <= set(table.names)
            read = _of_calls(_records(table)) if pairs else self._table(table, part)
            return replace(read, facts={**_attrs(source), **read.facts})
        if part == "calibration":
            raise RecipeError("A calibration has two labels of each item: give a table with `judge` and `human`.")
        judge, scale, levels = read_values(cells, self.positive, "The column of verdicts")
        named = isinstance(source, pd.Series) and source.index.name == self.item
        items = _ids(list(source.index), self.item) if isinstance(source, pd.Series) and named else None
        return Judged(judge=judge, scale=scale, levels=levels, items=items)

    def _table(self, table: Table, part: Part) -> Judged:
        """Read a table of verdicts, or of pairs where it has the columns `uv` and `vu`."""
        if part == "calibration" and self.human not in table:
            raise RecipeError(f"The calibration has no column {self.human!r}.{present(table, self.human)}")
        if "uv" in table and "vu" in table:
            read = self._pairs(table)
        elif part == "calibration" and self.judge not in table and self.item in table:
            # The person's labels alone: the judge's verdicts on these items are among the population's.
            nothing = np.full(len(table), np.nan)
            human, _, labels = self._people(table)
            read = Judged(judge=nothing, scale="booleans", human=human, labels=labels)
        else:
            column = self._judge_column(table, part)
            judge, scale, levels = read_values(table.cells(column), self.positive, f"Column {column!r} of the {part}")
            read = Judged(judge=judge, scale=scale, levels=levels)
            if self.human in table:
                human, _, labels = self._people(table)
                read = replace(read, human=human, labels=labels)
        versions = tuple(map(str, table.cells(VERSION))) if VERSION in table else None
        items = _ids(table.cells(self.item), self.item, versions) if self.item in table else None
        weights = self._weights(table) if self.weights is not None and self.weights in table else None
        told = _configuration(table, part)
        return replace(read, items=items, versions=versions, weights=weights, facts=told)

    def _weights(self, table: Table) -> Array:
        cells = table.cells(str(self.weights))
        numbers = [np.nan if is_missing(cell) else _number(cell) for cell in cells]
        return np.array(numbers, dtype=float)

    def _judge_column(self, table: Table, part: Part) -> str:
        """Return the column of verdicts: by its name, else the only one that holds booleans."""
        if self.judge in table:
            return self.judge
        others = [name for name in table.names if name not in (*_OWN_COLUMNS, self.item, self.human)]
        found = [name for name in others if _are_booleans(table.cells(name))]
        if part == "verdicts" and len(found) == 1:
            return found[0]
        several = f", and several hold booleans: {', '.join(found)}" if len(found) > 1 else ""
        raise RecipeError(
            f"The {part} has no column {self.judge!r}{several}. Name it: judge= (--judge).{present(table, self.judge)}"
        )

    def _people(self, table: Table) -> tuple[Array, Scale, frozenset[str]]:
        return read_values(table.cells(self.human), self.positive, f"Column {self.human!r}")

    def _pairs(self, table: Table) -> Judged:
        """Read what a judge chose in each order, and what people prefer."""
        chosen = [_chosen(table.cells(order), order) for order in ("uv", "vu")]
        value, positional, ties = pair_values(*chosen)
        human = _preferred(table.cells(self.human), self.human) if self.human in table else None
        lost = _lost_calls(*chosen)
        return Judged(judge=value, scale="pairs", human=human, positional=positional, ties=ties, lost_calls=lost)

    def _agreement(self, source: Agreement) -> Judged:
        if source.calibration is None:
            raise RecipeError("The agreement has no calibration: give agree the judge, and the label that is positive.")
        read = self._calibrated(Table(source.calibration), source.report.levels, source.report.positive)
        return replace(read, facts=_texts(source.judge), simulated=source.source.simulated)

    def _calibrated(self, table: Table, labels: Sequence[str], positive: str | None) -> Judged:
        """Read the table of an agreement: its columns are ours, and say of each label whether it is the positive one.

        Raises:
            RecipeError: when that is neither what is a pass here nor all that is none.
        """
        read = replace(self, judge="judge", human="human", item="item", positive=())._table(table, "calibration")
        levels = frozenset(map(_text, labels))
        passes = {_text(one) for one in self.positive}
        scale = _scale(levels, passes)
        if self._is_turned(levels, scale, positive):
            read = replace(read, judge=1 - read.judge, human=None if read.human is None else 1 - read.human)
        return replace(read, levels=levels, labels=levels, scale=scale)

    def _is_turned(self, levels: frozenset[str], scale: Scale, positive: str | None) -> bool:
        """Whether the positive label of an agreement is the one that is no pass here."""
        given = {_text(one) for one in self.positive}
        passes = {level for level in levels if _is_pass(level, given, scale)}
        if positive is None or (not given and scale != "booleans") or passes in ({_text(positive)}, set()):
            return False
        if levels - passes != {_text(positive)}:
            raise RecipeError(
                f"The agreement is about the label {positive!r}, here {', '.join(sorted(passes))} are a pass. Run `jrh "
                "agree` again with two labels, pass and fail, or give the labels as a table with `judge` and `human`."
            )
        return True

    def _run(self, source: object, part: Part) -> Judged:
        """Read a run of ours: an agreement, or an evaluation on natural pairs."""
        run = source_run(str(source), tracking_uri=self.tracking_uri)
        if run.kind == "agree" and part == "calibration":
            frame = calibration_table(run, read_table, tracking_uri=self.tracking_uri)
            read = self._calibrated(Table(frame).unguarded(), run.labels, run.positive)
            return replace(read, facts=_texts(run.judge), simulated=run.simulated)
        if run.kind == "evaluate":
            (loaded,) = load_runs([run.run_id], tracking_uri=self.tracking_uri)
            return replace(_of_calls(loaded.calls), facts=_texts(run.judge), simulated=loaded.simulated)
        raise RecipeError(
            f"Run {run.run_id} is of kind {run.kind}: verdicts are a run of mlflow.genai.evaluate or an evaluation on "
            "natural pairs, a calibration also a run of kind agree."
        )

    def _traces(self, scored: ScoredTraces, part: Part) -> Judged:
        """Read what a scorer said about traces, with the majority of people where any spoke."""
        name = f"The feedback {scored.scorer!r}"
        judge, scale, levels = read_values([one.verdict for one in scored.traces], self.positive, name)
        human, labels, split = self._majority([one.people for one in scored.traces])
        if part == "calibration" and human is None:
            raise RecipeError("No trace of the calibration has a person's label: HUMAN feedback of the scorer's name.")
        read = Judged(
            judge=judge,
            scale=scale,
            levels=levels,
            human=human,
            labels=labels,
            items=tuple(one.trace_id for one in scored.traces),
            facts={key: value for key, value in scored.judge.items() if key != "run_id"},
            failed=scored.failed,
            split=split,
            scorer=scored.scorer,
            run_id=scored.run_id,
            experiment_id=scored.experiment_id,
            uri=scored.uri,
        )
        # Other traces are no part of the calibration: nobody was to label them.
        return read if part == "verdicts" or human is None else read.take(~np.isnan(human))

    def _majority(self, people: Sequence[tuple[Any, ...]]) -> tuple[Array | None, frozenset[str], int]:
        """Return what most people said of each item, all that they said, and how many items they are split on."""
        if not any(people):
            return None, frozenset(), 0
        cells = [label for labels in people for label in labels]
        read, _, said = read_values(cells, self.positive, "The label of a person")
        values = iter(read.tolist())
        shares = [_share([next(values) for _ in labels]) for labels in people]
        decided = [np.nan if share is None or share == 0.5 else float(share > 0.5) for share in shares]
        return np.array(decided), said, sum(share == 0.5 for share in shares)

    def check_positive(self, *sources: Judged) -> None:
        """Refuse a pass that nobody gave: a word that is spelled otherwise.

        Raises:
            RecipeError: with the nearest label.
        """
        passes = {_text(one) for one in self.positive} - BOOLEANS.keys()
        said = sorted({text for each in sources for text in (*each.levels, *each.labels)})
        if passes and passes.isdisjoint(said):
            name = min(passes)
            raise RecipeError(f"Nobody said {name!r}.{suggest(name, said)} Labels there are: {', '.join(said[:20])}.")


def read_values(
    cells: Sequence[object], positive: tuple[object, ...], where: str
) -> tuple[Array, Scale, frozenset[str]]:
    """Read verdicts or labels as 0, 1 and NaN, with the scale they are on and every answer that was given.

    Booleans, yes/no, pass/fail and 1/0 are read as they are; of other answers `positive` says which are a pass.

    Raises:
        RecipeError: when answers are no booleans and nobody says which of them are a pass.
    """
    texts = [None if is_missing(cell) else _text(cell) for cell in cells]
    passes = {_text(one) for one in positive}
    texts = [None if text == _NO_VERDICT and text not in passes else text for text in texts]
    levels = frozenset(text for text in texts if text is not None)
    scale = _scale(levels, passes)
    if scale != "booleans" and not passes:
        raise RecipeError(_which_are_a_pass(levels, scale, where))
    known = {level: float(_is_pass(level, passes, scale)) for level in levels}
    return np.array([np.nan if text is None else known[text] for text in texts], dtype=float), scale, levels


def _scale(levels: frozenset[str], passes: set[str]) -> Scale:
    """Tell booleans from scores and from other labels; with a pass such as 4 or 5, 1 and 0 are scores as well."""
    scores = passes and all(_is_number(text) for text in passes) and not passes <= BOOLEANS.keys()
    if levels <= BOOLEANS.keys() and not (scores and any(map(_is_number, levels))):
        return "booleans"
    return "scores" if all(map(_is_number, levels)) else "labels"


def _is_pass(level: str, passes: set[str], scale: Scale) -> bool:
    if scale != "booleans":
        return level in passes
    # Words such as "good" say nothing about booleans; a boolean word turns them round where it is False.
    senses = {BOOLEANS[text] for text in passes if text in BOOLEANS} or {True}
    return BOOLEANS[level] in senses


def _which_are_a_pass(levels: frozenset[str], scale: Scale, where: str) -> str:
    shown = ", ".join(sorted(levels)[:6]) + (", …" if len(levels) > 6 else "")
    if scale == "scores":
        return (
            f"{where} holds scores ({shown}), and a rate needs pass or fail. Say which scores are a pass: "
            "positive=(4, 5) (--positive 4 --positive 5), or give `scores >= 4`."
        )
    return f"{where} holds {shown}: no booleans. Say which label is a pass: positive= (--positive)."


def _text(cell: object) -> str:
    """Write an answer so that 1, 1.0, "1" and "1.0", and True and "true", are one."""
    key = label_key(label_text(cell) or str(cell).strip())
    return key if isinstance(key, str) else number_text(key)


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _number(cell: object) -> float:
    text = str(cell).strip()
    return float(text) if _is_number(text) else np.nan


def _are_booleans(cells: Sequence[object]) -> bool:
    texts = {_text(cell) for cell in cells if not is_missing(cell)}
    return bool(texts) and texts <= BOOLEANS.keys()


def _share(values: Sequence[float]) -> float | None:
    known = [value for value in values if not np.isnan(value)]
    return sum(known) / len(known) if known else None


def pair_values(uv: Sequence[str], vu: Sequence[str]) -> tuple[Array, Array, Array]:
    """Return the value of each pair, whether it is positional, and whether an order chose neither; NaN for lost pairs.

    Args:
        uv: What was chosen in the order u, v: `u`, `v`, another word for neither, or empty where the call is lost.
        vu: In the order v, u.

    Example:
        >>> [each.tolist() for each in pair_values(["u", "u", "tie"], ["u", "v", "u"])]
        [[1.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    pairs = list(zip(uv, vu, strict=True))
    lost = np.array([not (first and second) for first, second in pairs], dtype=bool)
    sides = {("u", "u"): 1.0, ("v", "v"): 0.0}
    value = np.array([sides.get(pair, 0.5) for pair in pairs])
    # The same slot twice is another content each time.
    positional = np.array([float(set(pair) == {"u", "v"}) for pair in pairs])
    ties = np.array([float(not set(pair) <= {"u", "v"}) for pair in pairs])
    value[lost] = positional[lost] = ties[lost] = np.nan
    return value, positional, ties


def _lost_calls(uv: Sequence[str], vu: Sequence[str]) -> Array:
    return np.array([((not first) + (not second)) / 2 for first, second in zip(uv, vu, strict=True)])


def _chosen(cells: Sequence[object], order: str) -> list[str]:
    """Read what was chosen in one order: a slot (1, 2, A, B, first, second), a content (u, v), or a tie."""
    texts = ["" if is_missing(cell) else _text(cell) for cell in cells]
    known = {**dict.fromkeys(("", *_TIES)), **_SLOTS, **_CONTENTS}
    refuse_rows(order, "must be 1, 2 (or A, B: the slot) or tie", [text not in known for text in texts], shown=cells)
    slots = dict(zip(("1", "2"), order, strict=True))
    return [slots.get(_SLOTS.get(text, ""), text) for text in texts]


def _preferred(cells: Sequence[object], column: str) -> Array:
    """Read which content people prefer: A (that is u) 1, B 0, a tie ½."""
    texts = ["" if is_missing(cell) else _text(cell) for cell in cells]
    refuse_rows(column, "must be A, B or tie", [bool(text) and text not in _WINS for text in texts], shown=cells)
    return np.array([_WINS.get(text, np.nan) for text in texts])


def _records(table: Table) -> pd.DataFrame:
    names = [name for name in table.names if "." not in name]
    frame: pd.DataFrame = pd.DataFrame({name: table.cells(name) for name in names})
    return frame


def _of_calls(calls: pd.DataFrame) -> Judged:
    """Read call records on natural pairs: the judge's value of each pair, and the side that is known to be better."""
    frame = normalise(calls)
    frame = frame.assign(choice=choices(frame))[frame["condition"] == NATURAL]
    if frame.empty:
        raise RecipeError("The call records hold no natural pairs (`jrh.natural_suite`): a win rate is of real pairs.")
    both = frame.pivot(index=["suite_item", "replicate"], columns="order", values="choice")
    orders = both["uv"].tolist(), both["vu"].tolist()
    values = (*pair_values(*orders), _lost_calls(*orders))
    read = pd.DataFrame(dict(zip(("value", "positional", "ties", "lost"), values, strict=True)), index=both.index)
    # Replicates of a pair are no pairs of their own.
    means = read.groupby(level="suite_item", sort=False).mean()
    better = frame.drop_duplicates("suite_item").set_index("suite_item")["better"].reindex(means.index)
    return Judged(
        judge=means["value"].to_numpy(float),
        scale="pairs",
        human=(better == "u").to_numpy(float),
        items=tuple(map(str, means.index)),
        positional=means["positional"].to_numpy(float),
        ties=means["ties"].to_numpy(float),
        lost_calls=means["lost"].to_numpy(float),
    )


def _are_traces(source: Any) -> bool:
    """Whether it names an experiment, or is a list of its traces."""
    if isinstance(source, str):
        return source.startswith(PREFIX)
    return isinstance(source, list | tuple) and bool(source) and all(hasattr(one, "info") for one in source)


def _is_run(source: object) -> bool:
    return isinstance(source, str) and bool(_RUN.fullmatch(source))


def _column(source: object) -> list[object] | None:
    """Return plain verdicts, one for each item; None where the source is a table."""
    if isinstance(source, list | tuple):
        return None if any(isinstance(one, Mapping) for one in source) else list(source)
    # Series of pandas and Polars, and arrays.
    convert = getattr(source, "to_list", getattr(source, "tolist", None))
    return list(convert()) if callable(convert) and getattr(source, "ndim", 1) == 1 else None


def _ids(cells: Sequence[object], column: str, versions: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return ids as text, each once (of each version): 1, 1.0 and "1" are one."""
    refuse_rows(column, "must not be empty", [is_missing(cell) for cell in cells])
    ids = [label_text(cell) or str(cell) for cell in cells]
    named = list(zip(ids, versions or [""] * len(ids), strict=True))
    counts = Counter(named)
    refuse_rows(column, "must name each item once", [counts[name] > 1 for name in named], shown=ids)
    return tuple(ids)


def _configuration(table: Table, part: Part) -> dict[str, str]:
    """Return which judge a table is of, where it says so."""
    if "configuration" not in table:
        return {}
    found = sorted({str(cell) for cell in table.cells("configuration") if not is_missing(cell)})
    if len(found) > 1:
        raise RecipeError(
            f"The {part} is of {len(found)} judge configurations ({', '.join(found[:5])}), a correction of one judge."
        )
    return {"configuration": found[0]} if found else {}


def _attrs(source: object) -> dict[str, str]:
    """Return what `frame.attrs["judge"]` says of the judge: facts by name, or one text."""
    told = getattr(source, "attrs", {}).get("judge")
    return _texts(told) if isinstance(told, Mapping) else {} if told is None else {"configuration": str(told)}


def _texts(facts: Mapping[str, object]) -> dict[str, str]:
    """Return facts of a judge as short texts: long ones, such as a rubric, by their hash."""
    known = {key: str(value) for key, value in facts.items() if value is not None and key != "run_id"}
    return {key: text if len(text) <= _LONGEST_FACT else hashed(text) for key, text in known.items()}
