"""docs/reference/mlflow.md: the axes of all judges as one table."""

from __future__ import annotations

from tests.docs.printed import Printed
from tests.docs.world import World

PAGE = "docs/reference/mlflow.md"


def test_the_lines_run_as_printed(world: World) -> None:
    names = Printed(PAGE, world).run().names
    assert set(names["axes"]["run_id"]) == {names["done"].run_id}
