"""What the rules write and what the checks say is pinned: a faster rule must be the same rule."""

from __future__ import annotations

import hashlib
from importlib import resources
from itertools import pairwise

import pytest

from jrh_mlflow.perturb.checks import TfidfSimilarity, about_the_editing
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
    *(shape(700) for shape in SHAPES.values()),
)
SIMILARITY = TfidfSimilarity(TEXTS)
REMARKS = ("Sure! Here is the rewritten text: ", "Revised version : ", "```\n", "=== END\n", "New   text  ** : ", "")
CLOSINGS = ("", " Let me know if this works.", "\n\n- Note: I kept the original.", "\n```")
WRITTEN = {
    "label_flip": "533c9534935105af",
    "format_invariance_1": "efb03878b1796e9b",
    "format_invariance_2": "121b3ec48cbfce17",
    "format_invariance_3": "5f376e3cc747d8b6",
    "semantic_paraphrase": "becb7b7cbb95c080",
    "verbosity_bias_long": "5c10c33c5f584c27",
    "verbosity_bias_short": "4510500ce66b6912",
    "stochastic_stability": "14f59f5cb020c977",
    "synthetic_ordinal": "f401fda3eae70d3f",
    "typos": "2e8b68765d490833",
    "markdown": "300891c4c33f0215",
    "prompt_injection": "63cc5417e1416e22",
    "authority": "aadc2b2e8b6f7f77",
    "padding": "3b5903118b0492e8",
    "error_injection": "c1393adf14352474",
    "rubric_paraphrase": "e34cb2b0c7574614",
    "agent_perturbation": "92acd4a5f98b9dfb",
    "agent_positives": "5f3c0f322c2e1130",
}
CHECKED = "e0663d84559007a7"


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_writes_what_it_wrote_before_it_was_made_faster(name):
    test = RULES[name]
    lines = [
        repr(attempt(test, target, SIMILARITY, number))
        for text in TEXTS
        for target in targets(test, text)[:3]
        for number in (0, 1)
    ]
    assert _digest(lines) == WRITTEN[name]


def test_every_check_says_what_it_said_before_it_was_made_faster():
    """Of texts that are no rewrite at all, with the remarks of a generator around them."""
    checks = {check: test.name for test in RULES.values() for check in test.checks}
    context, lines = CheckContext(similarity=SIMILARITY, earlier=TEXTS[:2]), []
    for number, (one, other) in enumerate(pairwise(TEXTS)):
        text = REMARKS[number % 6] + other + CLOSINGS[number % 4]
        target = rewrites.target(one, labels=rewrites.SCALE, examples=(other,))
        lines += [str(check(target, text, context)) for check in checks]
        lines += [str(about_the_editing(one, text)), f"{SIMILARITY.between(one, text):.6f}"]
    assert _digest(lines) == CHECKED
