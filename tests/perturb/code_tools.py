"""Seeds, texts and writers that the tests of code-written perturbations share."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from jrh_mlflow.perturb._base import CheckContext, ReliabilityTest, Similarity, Target
from jrh_mlflow.schema.items import Labels, Seed

BINARY = Labels(answers=("fail", "pass"))
SCALE = Labels(answers=("1", "2", "3", "4", "5"), ordinal=True)
RUBRIC = "Is the answer right? Consider facts only."

ESSAY = (
    "Photosynthesis turns light into sugar. It was first described by Jan Ingenhousz in 1779. Plants always need"
    " water, e.g. from rain.\n\n"
    "The rate is higher in summer! See https://example.com/a1 or write to leaf@example.org for more. In Sweden about"
    " 60 % of the land is forest, and near Paris it is 25. Farmers should not forget that the colder months are"
    " difficult for seedlings, because frost can damage their leaves.\n"
    "```python\ndef grow(plant):\n    return plant + 1\n```\n"
    "1. Call `grow plant twice` in spring.\n"
    "2. Wait before the harvest begins."
)

ODD = (
    "Paris",
    "a b",
    "北京是中国的首都。它有很长的历史！人口很多。",
    "القاهرة هي عاصمة مصر. وهي مدينة كبيرة جدا.",
    "🙂🙃 👩‍👩‍👧 fine",
    "cafe\u0301 cre\u0300me bru\u0302le\u0301e tout le monde",
    "zero\u200bwidth\u200bspace and\ufeffmark here",
    "windows\r\nline ends\r\nhere.\r\n",
    "tab\tseparated\tvalues\n\n",
    "10\u00a0km and\u00a020\u00a0km.",
    "```\nonly = code\n```",
    "```\nnever = closed",
    "* * *\n** bold **\n***\n- - -",
    "lone \ud800 surrogate text goes here today",
    "form\x0cfeed\x1cfile\x85next\u2028line sep",
)
"""Texts that broke something somewhere."""

PIECES = st.sampled_from(
    ["word", "Name", "1779", "x.y", ". ", "! ", "。", "\n", "\r\n", "\t", " ", "  ", "\u00a0", "`c d`", "```", "~~~",
     "- ", "**", "*", "#", "e.g. ", "is", "not", "higher", "https://a.b/c", "\u2028", "\u200b", "e\u0301", "🙂", "北京"]
)  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=80), st.sampled_from([*ODD, ESSAY]))
"""Arbitrary Unicode, and heaps of what layout code trips over."""


class NoSimilarity(Similarity):
    """For checks that do not ask for it."""

    name = "none"

    def between(self, one: str, other: str) -> float:
        raise AssertionError("a code-written test needs no similarity")


BENCH = CheckContext(similarity=NoSimilarity())


def seed(response: str, *, label: str = "fail", name: str = "s1") -> Seed:
    return Seed(id=name, instruction="Explain.", response=response, label=label)


def target(test: ReliabilityTest, response: str, *, labels: Labels = BINARY, label: str = "fail") -> Target:
    """Return the first item that a test wants of one response."""
    return test.targets([seed(response, label=label)], labels, RUBRIC)[0]


def written(test: ReliabilityTest, response: str, number: int = 0, **labels: object) -> str:
    return test.write(target(test, response, **labels), random.Random(number))  # type: ignore[arg-type]


def complaints(test: ReliabilityTest, item: Target, text: str) -> list[str]:
    """What the test's own checks say about a text."""
    return [said for check in test.checks if (said := check(item, text, BENCH)) is not None]
