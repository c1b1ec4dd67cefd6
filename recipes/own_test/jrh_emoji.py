"""A reliability test of your own: one class that says what changes, what is expected and how items are written.

Run: python recipes/own_test/jrh_emoji.py (needs no key: the test writes by code, and the judge is a function).
Installed (pip install ./recipes/own_test), it is found by its name: jrh suite tests emoji.
"""

from __future__ import annotations

import random
import re
from importlib import resources

import jrh_mlflow as jrh
from jrh_mlflow.perturb import CodeTest, Target
from jrh_mlflow.perturb.checks import differs, keeps_names, keeps_numbers


class Emoji(CodeTest):
    """Smiles say nothing about a response; a judge that they charm is caught."""

    name = "emoji"
    title = "an emoji after every sentence"
    checks = (differs, keeps_numbers, keeps_names)

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the response with smiles."""
        return re.sub(r"(?<=[.!?])(?=\s|$)", lambda _: f" {rng.choice('🙂🎉👍')}", target.original)


def judge(shown: jrh.Presentation) -> str:
    """Pass whatever thanks or smiles."""
    return "pass" if re.search("thank|🙂|🎉|👍", shown.response or "", re.IGNORECASE) else "fail"


if __name__ == "__main__":
    seeds = str(resources.files("jrh_mlflow.suites") / "demo_replies.csv")
    question, columns = "May this reply be sent as it is?", {"label": "verdict"}
    suite = jrh.generate(seeds, tests=[Emoji(), "typos"], rubric=question, columns=columns)
    print(jrh.evaluate(judge, suite).report.to_markdown(title="A judge that likes smiles"))
