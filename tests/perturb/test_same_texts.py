"""What the rules write and what the checks say is pinned: a faster rule must be the same rule."""

from __future__ import annotations

import hashlib
from importlib import resources
from itertools import pairwise

import pytest

from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.perturb.registry import TESTS
from jrh_mlflow.suites.dataset import read_table
from tests.perturb import rewrite_tools as rewrites
from tests.perturb.code_tools import ESSAY, ODD
from tests.perturb.long_texts import RULES, SHAPES, CheckContext, attempt, targets

_DEMO = read_table(str(resources.files("jrh_mlflow.suites") / "demo_replies.csv")).to_dict("records")
TEXTS = (
    *(str(row["response"]) for row in _DEMO),
    *rewrites.TEXTS,
    ESSAY,
    *ODD,
    *(shape(400) for shape in SHAPES.values()),
)
SIMILARITY = TfidfSimilarity(TEXTS)
REMARKS = ("Sure! Here is the rewritten text: ", "Revised version : ", "```\n", "=== END\n", "New   text  ** : ", "")
CLOSINGS = ("", " Let me know if this works.", "\n\n- Note: I kept the original.", "\n```")
WRITTEN = {
    "format_invariance_1": "f6cc297e699ff18c",
    "format_invariance_2": "009a8f1ff25871d8",
    "format_invariance_3": "2a5f7ba5fd84a0f6",
    "stochastic_stability": "762df17a72f98a33",
    "typos": "b16c6ec6ba874ffe",
    "markdown": "e02a2b940e7b8dd2",
    "prompt_injection": "e2d1828550f6c39e",
    "authority": "15ee99e6a68ddb23",
    "padding": "ad8a909ab73ecb44",
    "error_injection": "f55dbfa8d230f733",
}
CHECKED = "b85296ab316772e9"


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_writes_what_it_wrote_before_it_was_made_faster(name):
    test = RULES[name]
    lines = [
        repr(attempt(test, target, SIMILARITY, (at + place) % 2))
        for at, text in enumerate(TEXTS)
        for place, target in enumerate(targets(test, text)[:3])
    ]
    assert _digest(lines) == WRITTEN[name]


def test_every_check_says_what_it_said_before_it_was_made_faster():
    """Of texts that are no rewrite at all, with the remarks of a generator around them."""
    checks = {check: test.name for test in TESTS.values() for check in test.checks}
    context, lines = CheckContext(similarity=SIMILARITY, earlier=TEXTS[:2]), []
    for number, (one, other) in enumerate(pairwise(TEXTS)):
        text = REMARKS[number % 6] + other + CLOSINGS[number % 4]
        target = rewrites.target(one, labels=rewrites.SCALE, examples=(other,))
        lines += [str(check(target, text, context)) for check in checks]
        lines.append(f"{SIMILARITY.between(one, text):.6f}")
    assert _digest(lines) == CHECKED
