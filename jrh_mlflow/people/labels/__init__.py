"""The long table of what people and judges said about items, and what a source of it must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from jrh_mlflow.suites.dataset import is_missing
from jrh_mlflow.text import blank_secrets, clean_text, environment_secrets, hashed

PERSON, JUDGE, CODE, MODEL = "person", "judge", "code", "model"
"""Kinds of raters: people, whose labels count; a judge and code, who gave verdicts; a model that wrote a label."""
COLUMNS = ("item", "rater", "kind", "label", "when", "cluster", "inclusion", "text", "link")
"""Of every table. `cluster` is what was sampled together (session, document, source), empty where an item stands for
itself; `inclusion` the chance with which the item was drawn to be labelled. A source adds what else it knows:

- `name`: the question, where a source asks several; `source_id` and `facts` of who answered it
- `outcome`: why there is no label: `failed`, `overridden` …
- `version` of the application, `group` that is reported by, `weight`, `experiment` of a trace
- `drawn`: how `jrh agree --draw` chose the item
- `order` and `replicate`: of pairs, in which order the two contents were shown; the label is then `u`, `v` or `tie`
"""
Part = Literal["labels", "verdicts", "calibration"]
"""What is read: labels in long form, verdicts of a judge, or items with the judge's verdict and a person's label."""
_LONGEST_FACT = 120


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """What a verb says about a source; a source reads what concerns it."""

    part: Part = "labels"
    item: str = "item"
    """Column of a table that names the item."""
    rater: str = "rater"
    label: str = "label"
    judge: str | None = None
    """The rater that is the judge; of verdicts and calibrations the column of its verdicts."""
    human: str = "human"
    """Of verdicts and calibrations: the column of the person's labels."""
    weights: str | None = None
    """Column with inverse inclusion probabilities."""
    group: str | None = None
    """Column, tag of the traces or field of the items' meta to report by."""
    cluster: str | None = None
    """Column, tag of the traces or field of the items' meta with what was sampled together; None takes the column
    `cluster`, the session of a trace, the source of a suite's item."""
    max_traces: int | None = None
    tracking_uri: str | None = None
    fresh: bool = False
    """Whether the store is asked again for a result in hand: people may have labelled since."""


@dataclass(frozen=True, kw_only=True)
class LabelTable:
    """What people and judges said, one row per item and rater, and what is known of where it comes from."""

    frame: pd.DataFrame
    """The first columns are `COLUMNS`. An item about which nothing was said is a row without a rater."""
    shown: str
    """How the source is named."""
    judge: str | None = None
    """The rater that is the judge, where it is known."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What identifies the judge, as far as it is known."""
    name: str | None = None
    """The question, where the source asks several and one was chosen."""
    notes: Sequence[str] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Assessments under the chosen names that are no label, by reason."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Column, or kind of rater, to how the user calls it."""
    has_ids: bool = True
    """Whether items have names of their own, or are only numbered."""
    of_traces: bool = False
    nobody: str = "No item has a label of a person."
    """What to say where no person labelled anything."""
    params: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Further groups of params for a run about it."""
    simulated: bool = False
    scale: Sequence[str] | None = None
    """Ordered labels, where the source knows them."""
    positive: str | None = None
    """The positive label, where the source knows it."""
    levels: Sequence[str] = ()
    """Of an agreement's calibration: what could be said. Its rows hold whether it was the positive label."""
    tracking_uri: str | None = None
    """Store that a run about it belongs to."""
    experiment: str | None = None
    experiment_id: str | None = None
    run_id: str | None = None
    """The run that the verdicts are of."""

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column, None in each row where the source has no such column."""
        return self.frame[name].tolist() if name in self.frame else [None] * len(self.frame)

    def per_item(self, name: str) -> dict[str, Any]:
        """Return item to its cell of a column, where it has one."""
        rows = zip(self.frame["item"], self.column(name), strict=True)
        return {str(item): cell for item, cell in rows if not is_missing(cell)}

    @property
    def has_people(self) -> bool:
        """Whether any person said anything."""
        return PERSON in set(self.frame["kind"])

    @property
    def links(self) -> dict[str, str]:
        """Item to where it can be looked at."""
        return {item: link for item, link in self.per_item("link").items() if isinstance(link, str) and link.strip()}

    @property
    def experiments(self) -> dict[str, str]:
        """Trace to the id of its experiment."""
        return dict(zip(self.frame["item"], self.column("experiment"), strict=True))


class LabelSource(ABC):
    """One kind of place that labels are kept in. A file of this folder that has a `SOURCE` is a source."""

    @abstractmethod
    def takes(self, source: object) -> bool:
        """Whether it is what a user gave."""

    @abstractmethod
    def read(self, source: Any, options: LabelOptions) -> LabelTable:
        """Read all that was said.

        Raises:
            RecipeError: when it cannot be read, in one line.
        """


def long_frame(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Make the long table of some columns; those of `COLUMNS` that are missing are empty."""
    n = len(columns["item"])
    known = {name: list(columns.get(name) or [None] * n) for name in COLUMNS}
    more = {name: list(cells) for name, cells in columns.items() if name not in COLUMNS}
    frame: pd.DataFrame = pd.DataFrame({**known, **more}, dtype=object)
    return frame


def safe_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table without characters that no store can hold, and without keys that a model may have echoed."""
    secrets = environment_secrets()
    # The same few labels and names fill the whole table: each is cleaned once.
    cleaned: dict[str, str] = {}

    def safe(cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        if cell not in cleaned:
            cleaned[cell] = blank_secrets(clean_text(cell), secrets)
        return cleaned[cell]

    # As objects: pandas would make one type of texts, booleans and what is missing.
    texts = {
        name: pd.Series([safe(cell) for cell in frame[name].tolist()], index=frame.index, dtype=object)
        for name in ("item", "rater", "label", "group", "cluster")
        if name in frame
    }
    safe_cells: pd.DataFrame = frame.assign(**texts)
    return safe_cells


def fact_texts(facts: Mapping[str, object]) -> dict[str, str]:
    """Return facts of a judge as short texts: long ones, such as a rubric, by their hash."""
    # The same judge has many runs, so a run does not identify it.
    known = {key: str(value) for key, value in facts.items() if value is not None and key != "run_id"}
    return {key: text if len(text) <= _LONGEST_FACT else hashed(text) for key, text in known.items()}


def stacked(of_items: Mapping[str, Sequence[Any]], *blocks: Mapping[str, Any]) -> pd.DataFrame:
    """Put what several raters said about the same items under one another, one block for each.

    A block holds a cell for each item, or one text for all of them; a rater without a name is called by its kind.
    """
    columns = {name: list(cells) * len(blocks) for name, cells in of_items.items()}
    n = len(of_items["item"])
    for name in dict.fromkeys(name for block in blocks for name in block):
        cells = [block.get(name, "") for block in blocks]
        columns[name] = [cell for own in cells for cell in ([own] * n if isinstance(own, str) else own)]
    return long_frame({"rater": columns.get("kind", []), **columns})


def calibration_labels(frame: pd.DataFrame, *, shown: str, levels: Sequence[str], **known: Any) -> LabelTable:
    """Return the calibration of an agreement: of each item whether judge and people gave it the positive label."""
    of_items = {name: frame[name].tolist() for name in ("item", "cluster", "inclusion") if name in frame}
    judge, people = {"kind": JUDGE, "label": frame["judge"]}, {"kind": PERSON, "label": frame["human"]}
    return LabelTable(frame=stacked(of_items, judge, people), shown=shown, judge=JUDGE, levels=levels, **known)
