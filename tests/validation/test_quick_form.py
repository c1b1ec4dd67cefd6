"""Every part in its quick form, in full: no promise is missed. Also judges that a change mends."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.measures.records import normalise
from jrh_mlflow.show.results import measure
from jrh_mlflow.sweeps.interventions import INTERVENTIONS, RepairArm
from tests.validation.loop import SimulationSize
from tests.validation.mended_judges import FaultyJudge, answers_of
from tests.validation.parts import PARTS

SLOW = ("judges", "findings")
"""Of these the other files try each question in short."""


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=pytest.mark.slow) if part.word in SLOW else part for part in PARTS],
    ids=lambda part: part.word,
)
def test_the_quick_form_of_a_part_keeps_its_promises(part):
    rows = part.rows(SimulationSize(n=20, draws=5, quick=True))
    assert [str(row) for row in rows if row.fails] == []
    assert part.text(rows)


ORDER = "order says nothing"
WORLD = FaultyJudge(name="slot", slot={ORDER: 0.0}, costs={ORDER: 0.2})


@pytest.mark.parametrize(("names", "lean", "able"), [((), 0.54, 0.95), ((ORDER,), 0.0, 0.75)])
def test_a_judge_that_a_change_mends_reads_what_its_world_says(names, lean, able):
    arm = RepairArm(changes=tuple(change for change in INTERVENTIONS if change.name in names))
    rng = np.random.default_rng(0)
    calls = [normalise(answers_of(WORLD, arm, rng)) for _ in range(4)]
    sheets = [measure(records, n_resamples=1).estimates for records in calls]
    leans = [sheet["slot_lean"].value for sheet in sheets]
    assert np.mean(leans) == pytest.approx(lean, abs=0.1)
    assert WORLD.truth("slot_lean", arm) == pytest.approx(lean)
    assert np.mean([sheet["ability"].value for sheet in sheets]) == pytest.approx(able, abs=0.06)
