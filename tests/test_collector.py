"""What is made in bulk is old at once, and the collector goes on as before."""

import gc

import pytest

from jrh_mlflow.collector import unwalked

pytestmark = pytest.mark.quick


def test_what_is_made_inside_is_old_and_the_collector_runs_again() -> None:
    with unwalked():
        assert not gc.isenabled()
        made: list[object] = [[]]
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    assert any(known is made for known in gc.get_objects(generation=2))
