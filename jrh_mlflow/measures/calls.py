"""Call records as arrays: calls with their content answers, and canonical pairs with both orders side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.schema.calls import OUTCOMES, USABLE
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, Mask, Units

_UNUSABLE = tuple(outcome for outcome in OUTCOMES if outcome not in USABLE)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTable:
    """Calls as parallel arrays."""

    condition: npt.NDArray[np.object_]
    delta: npt.NDArray[np.float64]
    outcome: npt.NDArray[np.object_]
    slot: npt.NDArray[np.int8]
    """J: 1 or 2 for a verdict, 0 otherwise."""
    content: npt.NDArray[np.object_]
    """W: `u` or `v` after mapping the slot back, empty otherwise."""
    better: npt.NDArray[np.object_]
    pair: npt.NDArray[np.intp]
    """Code of (item, replicate)."""
    order: npt.NDArray[np.object_]
    task: npt.NDArray[np.intp]
    n_tasks: int
    max_excluded: float

    @property
    def prefers(self) -> Mask:
        """Calls that chose a side."""
        return self.slot > 0

    @property
    def correct(self) -> Mask:
        """Calls that chose the better content."""
        return np.asarray(self.prefers & (self.content == self.better))

    def where(self, mask: Mask) -> CallTable:
        """Return the calls of `mask`."""
        arrays = {
            name: getattr(self, name)[mask]
            for name in ("condition", "delta", "outcome", "slot", "content", "better", "pair", "order", "task")
        }
        return replace(self, **arrays)

    def units(self, what: str) -> Units:
        """Return these calls as a denominator."""
        return Units(
            what=what,
            unit="call",
            usable=np.isin(self.outcome, USABLE),
            clusters=self.task,
            n_codes=self.n_tasks,
            left_out=_left_out(self.outcome),
            max_excluded=self.max_excluded,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PairTable:
    """Canonical pairs, column 0 the order uv and column 1 the order vu."""

    slots: npt.NDArray[np.int8]
    contents: npt.NDArray[np.object_]
    better: npt.NDArray[np.object_]
    abstains: npt.NDArray[np.intp]
    """Abstentions of each pair, 0 to 2."""
    units: Units

    @property
    def stable(self) -> Mask:
        """Same content twice: W(u,v) = W(v,u)."""
        return np.asarray(self._both & (self.contents[:, 0] == self.contents[:, 1]))

    @property
    def positional(self) -> Mask:
        """Same slot twice: J(u,v) = J(v,u)."""
        return np.asarray(self._both & (self.slots[:, 0] == self.slots[:, 1]))

    @property
    def one_sided(self) -> Mask:
        """Exactly one order is a preference."""
        return np.asarray((self.slots > 0).sum(axis=1) == 1)

    @property
    def no_preference(self) -> Mask:
        """Neither order is a preference."""
        return np.asarray((self.slots > 0).sum(axis=1) == 0)

    @property
    def _both(self) -> Mask:
        return np.asarray((self.slots > 0).all(axis=1))


def call_table(frame: pd.DataFrame, *, max_excluded: float = MAX_EXCLUDED) -> CallTable:
    """Read normalised records into arrays."""
    answer = frame["answer"].to_numpy(object)
    order = frame["order"].to_numpy(object)
    slot = np.where(answer == "1", 1, np.where(answer == "2", 2, 0)).astype(np.int8)
    # Order uv puts u in slot 1; order vu puts it in slot 2.
    is_u = (slot == 1) == (order == "uv")
    content = np.where(slot == 0, "", np.where(is_u, "u", "v")).astype(object)
    tasks = pd.factorize(frame["task"], sort=True)
    pairs = frame.groupby(["suite_item", "replicate"], sort=False).ngroup()
    return CallTable(
        condition=frame["condition"].to_numpy(object),
        delta=frame["delta"].to_numpy(float),
        outcome=frame["outcome"].to_numpy(object),
        slot=slot,
        content=content,
        better=frame["better"].to_numpy(object),
        pair=pairs.to_numpy(np.intp),
        order=order,
        task=tasks[0],
        n_tasks=len(tasks[1]),
        max_excluded=max_excluded,
    )


def pair_table(calls: CallTable, what: str) -> PairTable:
    """Lay both orders of each pair side by side; a pair with an unusable call leaves the denominator whole."""
    rows = np.lexsort((calls.order == "vu", calls.pair)).reshape(-1, 2)
    outcomes = calls.outcome[rows]
    return PairTable(
        slots=calls.slot[rows],
        contents=calls.content[rows],
        better=calls.better[rows[:, 0]],
        abstains=(outcomes == "abstain").sum(axis=1),
        units=Units(
            what=what,
            unit="pair",
            usable=np.asarray(np.isin(outcomes, USABLE).all(axis=1)),
            clusters=calls.task[rows[:, 0]],
            n_codes=calls.n_tasks,
            left_out=_left_out(calls.outcome),
            max_excluded=calls.max_excluded,
        ),
    )


def _left_out(outcomes: npt.NDArray[np.object_]) -> dict[str, int]:
    return {name: int((outcomes == name).sum()) for name in _UNUSABLE}
