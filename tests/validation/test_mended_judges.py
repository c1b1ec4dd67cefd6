"""Simulated judges that a change mends: their answers are what their world says, and a repair finds the change."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.measures.records import normalise
from jrh_mlflow.show.results import measure
from jrh_mlflow.sweeps.interventions import INTERVENTIONS, RepairArm
from tests.validation.loop import SimulationSize
from tests.validation.mended_judges import REPAIRS, FaultyJudge, answers_of

WORLD = FaultyJudge(name="slot", slot={"order says nothing": 0.0}, costs={"order says nothing": 0.2})


@pytest.mark.parametrize(("names", "lean", "able"), [((), 0.54, 0.95), (("order says nothing",), 0.0, 0.75)])
def test_a_simulated_judge_reads_what_its_world_says(names, lean, able):
    arm = RepairArm(changes=tuple(change for change in INTERVENTIONS if change.name in names))
    rng = np.random.default_rng(0)
    sheets = [measure(normalise(answers_of(WORLD, arm, rng)), n_resamples=1).estimates for _ in range(4)]
    assert np.mean([sheet["slot_lean"].value for sheet in sheets]) == pytest.approx(lean, abs=0.1)
    assert WORLD.truth("slot_lean", arm) == pytest.approx(lean)
    assert np.mean([sheet["ability"].value for sheet in sheets]) == pytest.approx(able, abs=0.06)


def test_the_quick_simulation_keeps_its_promises():
    rows = REPAIRS(SimulationSize(n=20, seed=0, quick=True))
    assert rows[0].name == "right change found and proven"
    assert not any(row.fails for row in rows)
