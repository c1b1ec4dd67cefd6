"""Print how to read a datasheet as rows of Markdown: axis, meaning, good, bad, what to do; held to the declarations.

`python -m tests.readme_table` prints the short table of the README, `python -m tests.readme_table --all` every axis
that has a guide, by kind of datasheet. Both begin and end with a comment, so that a test finds them in the docs.
"""

from __future__ import annotations

import re
import sys
from operator import itemgetter

from jrh_mlflow.measures.axes import AXES, Axis
from jrh_mlflow.show.names import axis_guide, axis_meaning, axis_name
from jrh_mlflow.show.tables import Column, Table

HEAD = ("axis", "meaning", "good", "bad", "what to do")
SHORT = (
    "dark_current",
    "positional_false_preference",
    "target_sensitivity/delta_1",
    "threshold_75",
    "filler_preference",
)
"""Keys of the README's table."""


_REST = re.compile(r"^an interval |[;:] .*| \(.*|, (or|then|ties) .*")
"""What a short cell leaves out: the word of the profile, the second half, the other advice."""


def rows(keys: tuple[str, ...] | list[str], *, short: bool = False) -> list[str]:
    """Return the table of some keys; short ones have the beginning of each text, and no key."""
    found = []
    for key in keys:
        guide = axis_guide(key)
        assert guide is not None, key
        meaning, _, values = axis_meaning(key).rpartition("; ")
        assert meaning, f"{key}: its meaning is to end with '; ' and the values that are right, but is {values!r}"
        texts = [f"{meaning}.", guide.good, guide.bad, guide.advice]
        cells = [_REST.sub("", text).rstrip(".") for text in texts] if short else texts
        found.append([f"**{axis_name(key)}**" + ("" if short else f"<br>`{key}`"), *cells])
    columns = (Column(head, itemgetter(at), marked=True) for at, head in enumerate(HEAD))
    return Table(tuple(columns))(found).to_markdown().splitlines()


def short_table() -> list[str]:
    """Return the table of the README, between its comments."""
    return ["<!-- how to read a datasheet -->", *rows(SHORT, short=True), "<!-- /how to read a datasheet -->"]


def whole_table() -> list[str]:
    """Return every axis with a guide, pairs and then single responses, between its comments."""
    lines = ["<!-- every axis -->"]
    for heading, single in (("### Two responses", False), ("### One response", True)):
        keys = [axis.main_key for axis in AXES if axis.guide and _is_single(axis) == single]
        lines += [heading, "", *rows(keys), ""]
    tests = ["label_flip/accuracy", "typos/consistency", "stochastic_stability/unanimity", "error_injection/monotone"]
    people = ["agreement/accuracy", "agreement/kappa", "reliability/mean"]
    return [*lines, "### Reliability tests and people", "", *rows([*tests, *people]), "<!-- /every axis -->"]


def _is_single(axis: Axis) -> bool:
    return bool(axis.counting or axis.gap)


if __name__ == "__main__":
    print("\n".join(whole_table() if "--all" in sys.argv[1:] else short_table()))
