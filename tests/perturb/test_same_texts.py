"""What the rules write and what the checks say is pinned: a faster rule must be the same rule."""

from __future__ import annotations

import hashlib
from importlib import resources
from itertools import pairwise

import pytest

from jrh_mlflow.perturb.checks import about_the_editing
from jrh_mlflow.perturb.similarity import TfidfSimilarity
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
    "label_flip": "6d5e276f30617b7e",
    "format_invariance_1": "d6fada360c68b455",
    "format_invariance_2": "dc8f2fd7551f783e",
    "format_invariance_3": "6631194ffdbb1f1d",
    "semantic_paraphrase": "7dbabd0b1f150524",
    "verbosity_bias_long": "3d76d3035ed8ceca",
    "verbosity_bias_short": "cdbd4085775986c8",
    "stochastic_stability": "cbf0c27144cecdb2",
    "synthetic_ordinal": "d7b3c8a2d00e1a28",
    "typos": "903d25540fadc72e",
    "markdown": "97b539ae922ac8bc",
    "prompt_injection": "11aabac184fb77cb",
    "authority": "cfe1ac4f4dd4c410",
    "padding": "6e5d95a16c0de844",
    "error_injection": "75d22dd1a8f20121",
    "rubric_paraphrase": "ab672ae66af665ed",
    "agent_perturbation": "c7088e6790b87723",
    "agent_positives": "e5a8ab27712f1e5d",
}
CHECKED = "6d78bab8de85d50c"


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
