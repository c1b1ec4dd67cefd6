"""What is made in bulk is old at once, and the collector goes on as before."""

import gc
from collections.abc import Iterator

import pytest

from jrh_mlflow.collector import unwalked

pytestmark = pytest.mark.quick


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """Processes that run tests have frozen what they began with (tests/workers.py)."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_what_is_made_inside_is_old_and_the_collector_runs_again() -> None:
    with unwalked("not.imported"):
        assert not gc.isenabled()
        made: list[object] = [[]]
    assert gc.isenabled()
    assert not gc.get_freeze_count()
    assert any(known is made for known in gc.get_objects(generation=2))


@pytest.mark.usefixtures("nothing_frozen")
def test_where_objects_are_frozen_already_they_stay_so() -> None:
    gc.freeze()
    with unwalked("not.imported"):
        assert gc.isenabled()
    assert gc.get_freeze_count()
    gc.unfreeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_where_the_module_is_there_already_nothing_is_put_off() -> None:
    with unwalked("gc"):
        assert gc.isenabled()
