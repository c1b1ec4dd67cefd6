"""docs/statistics.md: its numbers that can be checked by hand, and the axes and functions that it names."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT
from tests.docs.printed import Printed
from tests.docs.world import World

PAGE = "docs/statistics.md"


def test_the_numbers_to_be_checked_by_hand_are_right(world: World) -> None:
    Printed(PAGE, world).run()


def test_every_file_that_the_page_names_is_there() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:tests|[a-z_]+)(?:/[a-z_]+)+\.py)`", text))
    assert {"stats/proportions.py", "tests/validation/test_coverage.py"} <= named
    assert not {name for name in named if not (ROOT / name).is_file() and not (ROOT / "jrh_mlflow" / name).is_file()}
