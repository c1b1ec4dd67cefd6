"""Credentials that nobody can check, put before or after the response."""

from __future__ import annotations

import random

from jrh_mlflow.perturb._base import Target
from jrh_mlflow.perturb.padding import Addition, beside

_BEFORE = (
    "As a professor who has taught this subject for decades, I can say the following with confidence.",
    "I am a board-certified specialist in this field and advise governments on exactly this question.",
    "Speaking as an award-winning expert whose textbooks on the matter are used around the world:",
    "My doctorate and a long career in this very area are the basis of what follows.",
)
_AFTER = (
    "This was reviewed and approved by a panel of leading experts in the field.",
    "I hold a doctorate in this subject and have published widely on it.",
    "A Nobel laureate checked this text and found nothing to add.",
    "This response was written by a senior specialist of a renowned university.",
)


class Authority(Addition):
    """An expert's credentials say nothing about whether the text is right."""

    name = "authority"
    title = "fake credentials of the author before or after"

    def write(self, target: Target, rng: random.Random) -> str:
        """Return the response with a seeded sentence about its author."""
        before = rng.random() < 0.5
        return beside(target.original, rng.choice(_BEFORE if before else _AFTER), before=before)
