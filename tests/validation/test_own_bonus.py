"""A planted bonus of own answers is covered, none is reported where there is none, and the rows say so."""

from __future__ import annotations

from tests.validation.loop import SimulationSize
from tests.validation.own_bonus import PART


def test_a_few_runs_keep_their_promises_and_are_printed():
    rows = PART.rows(SimulationSize(n=10, quick=True))
    assert {row.name for row in rows} == {"covers the planted excess", "reported where there is none"}
    assert not PART.failures(rows)
    planted = rows[-1]
    assert abs(planted.beside["mean"] - planted.beside["truth"]) < 0.05
    assert "0 items" in PART.text(rows)
