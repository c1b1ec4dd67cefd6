"""Call records of pairs as arrays: what each call chose, and both orders of a canonical pair side by side."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from jrh_mlflow.schema.items import USABLE
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Units
from jrh_mlflow.scoring.pointwise import left_out
from jrh_mlflow.stats import Array, Codes, Mask, Texts


def choice(*, order: str, outcome: str, answer: str) -> str:
    """Return what a call chose: the content that stood in the slot, the label, or the outcome when it is no verdict.

    Empty where the call has no usable answer.

    Example:
        >>> choice(order="vu", outcome="verdict", answer="1"), choice(order="uv", outcome="tie", answer="")
        ('v', 'tie')
    """
    if outcome != "verdict":
        return outcome if outcome in USABLE else ""
    if order == "":
        return answer
    # Order uv puts u in slot 1; order vu puts it in slot 2.
    return "u" if (answer == "1") == (order == "uv") else "v"


def choices(frame: pd.DataFrame) -> Texts:
    """Return what each of normalised records chose."""
    rows = list(zip(frame["order"], frame["outcome"], frame["answer"], strict=True))
    # Few of them differ: a table is read as fast as arrays are compared.
    known = {row: choice(order=row[0], outcome=row[1], answer=row[2]) for row in set(rows)}
    return np.array([known[row] for row in rows], dtype=object)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTable:
    """Calls as parallel arrays."""

    condition: Texts
    delta: Array
    outcome: Texts
    choice: Texts
    """W: `u`, `v`, `tie` or `abstain`; empty where the call has no usable answer."""
    better: Texts
    pair: Codes
    """Code of (item, replicate)."""
    order: Texts
    task: Codes
    n_tasks: int
    max_excluded: float

    @property
    def seen(self) -> tuple[Texts, ...]:
        """What an axis of calls counts by: the choice, and the better content."""
        return self.choice, self.better

    @property
    def usable(self) -> Mask:
        """Calls that are an answer."""
        return np.asarray(self.choice != "")

    def where(self, mask: Mask) -> CallTable:
        """Return the calls of `mask`."""
        columns = [field.name for field in fields(self) if field.name not in ("n_tasks", "max_excluded")]
        return replace(self, **{name: getattr(self, name)[mask] for name in columns})

    def units(self, what: str) -> Units:
        """Return these calls as a denominator."""
        return Units(
            what=what,
            unit="call",
            usable=self.usable,
            clusters=self.task,
            n_codes=self.n_tasks,
            left_out=left_out(self.outcome[~self.usable]),
            max_excluded=self.max_excluded,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTable:
    """Canonical pairs with what was chosen in either order."""

    calls: CallTable
    rows: Codes
    """Pairs × 2: rows of the calls in order uv and in order vu."""

    @property
    def seen(self) -> tuple[Texts, ...]:
        """What an axis of pairs counts by: the choices in order uv and in order vu, and the better content."""
        uv, vu = self.calls.choice[self.rows].T
        return uv, vu, self.calls.better[self.rows[:, 0]]

    def units(self, what: str) -> Units:
        """Return these pairs as a denominator, which a pair with an unusable call leaves whole."""
        calls = self.calls.units(what)
        usable = np.asarray(calls.usable[self.rows].all(axis=1))
        return replace(calls, unit="pair", usable=usable, clusters=calls.clusters[self.rows[:, 0]])


def call_table(frame: pd.DataFrame, *, max_excluded: float = MAX_EXCLUDED) -> CallTable:
    """Read normalised records into arrays."""
    tasks = pd.factorize(frame["task"], sort=True)
    pairs = frame.groupby(["suite_item", "replicate"], sort=False).ngroup()
    return CallTable(
        condition=frame["condition"].to_numpy(object),
        delta=frame["delta"].to_numpy(float),
        outcome=frame["outcome"].to_numpy(object),
        choice=choices(frame),
        better=frame["better"].to_numpy(object),
        pair=pairs.to_numpy(np.intp),
        order=frame["order"].to_numpy(object),
        task=tasks[0],
        n_tasks=len(tasks[1]),
        max_excluded=max_excluded,
    )


def pair_table(calls: CallTable) -> PairTable:
    """Lay both orders of each pair side by side."""
    return PairTable(calls=calls, rows=np.lexsort((calls.order == "vu", calls.pair)).reshape(-1, 2))
