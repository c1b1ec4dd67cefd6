"""Print how to read a datasheet as rows of Markdown: axis, meaning, good, bad, what to do; held to the declarations.

`python -m tests.readme_table` prints the short table of the README, `--all` every axis that has a guide, by kind of
datasheet, `--limits` the limits of findings. Each begins and ends with a comment, so that a test finds it in the docs.
"""

from __future__ import annotations

import re
import sys
from operator import itemgetter

from jrh_mlflow.measures.axes import AXES, Axis, find
from jrh_mlflow.measures.verdict import LIMITS, limit_of
from jrh_mlflow.show.names import axis_guide, axis_meaning, axis_name
from jrh_mlflow.show.tables import Column, Table

HEAD = ("axis", "meaning", "good", "bad", "what to do")
SHORT = (
    "dark_current",
    "slot_lean",
    "threshold_75",
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
    tests = ["label_flip/accuracy", "drop/label_flip", "typos/consistency", "noise_excess/typos"]
    tests += ["stochastic_stability/unanimity", "error_injection/monotone"]
    people = ["agreement/accuracy", "agreement/kappa", "reliability/mean"]
    return [*lines, "### Reliability tests and people", "", *rows([*tests, *people]), "<!-- /every axis -->"]


def limits_table() -> list[str]:
    """Return the limit of every finding with the sentence about a judge without the problem, between its comments."""
    sides = {"above": "above {}", "below": "below {}", "both": "beyond {} to either side"}
    limits = {**LIMITS, "noise_excess/typos": limit_of("noise_excess/typos"), "drop/typos": limit_of("drop/typos")}
    found = [
        (f"`{key}`", sides[limit.side].format(f"{limit.at:.2f}"), f"It {limit.fine}.", limit.advice or _advice(key))
        for key, limit in limits.items()
        if limit is not None
    ]
    heads = ("reading", "a problem", "if not", "what to do")
    table = Table(tuple(Column(head, itemgetter(at), marked=True) for at, head in enumerate(heads)))(found)
    return ["<!-- limits -->", *table.to_markdown().splitlines(), "<!-- /limits -->"]


def _advice(key: str) -> str:
    axis = find(key) or next(axis for axis in AXES if axis.name == key)
    return axis.guide.advice if axis.guide else ""


def _is_single(axis: Axis) -> bool:
    return bool(axis.counting or axis.gap)


if __name__ == "__main__":
    tables = {"--all": whole_table, "--limits": limits_table}
    print("\n".join(tables.get("".join(sys.argv[1:]), short_table)()))
