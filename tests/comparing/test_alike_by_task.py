"""A judge that answers each task alike so far: tasks count and not calls, and it is said how many would tell."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.comparing.comparison import Difference, decided, paired_shares
from jrh_mlflow.measures.unit_scores import ScoreTable
from jrh_mlflow.scoring.ledger import Resampling


def against_none(n_tasks: int, hits: int) -> Difference:
    """Compare a judge with so many hits, on as many tasks, with one that has none on tasks of four calls."""
    one = np.zeros((n_tasks, 4))
    one[:hits, 0] = 1.0
    n = n_tasks * 4
    table = ScoreTable(
        axis=np.full(n, "axis", dtype=object),
        cluster=np.repeat(np.arange(n_tasks), 4),
        n_codes=n_tasks,
        scores={"a": one.ravel(), "b": np.zeros(n)},
    )
    paired = paired_shares(table, "axis", "a", "b", Resampling(n_resamples=200))
    assert paired is not None
    (row,) = decided([paired], n_clusters=n_tasks, primary={"axis"}, alpha=0.05, margin=0.1, seed=0)
    return row


def test_it_is_said_how_many_tasks_would_tell_and_so_many_do():
    row = against_none(28, 12)
    assert not row.told_apart
    assert row.tasks_to_tell is not None
    assert 28 < row.tasks_to_tell < 60
    more = against_none(2 * row.tasks_to_tell, round(12 / 28 * 2 * row.tasks_to_tell))
    assert (more.told_apart, more.tasks_to_tell) == (True, None)


@pytest.mark.parametrize("hits", [0, 2])
def test_nothing_is_said_where_the_difference_itself_is_not_shown(hits):
    assert against_none(28, hits).tasks_to_tell is None
