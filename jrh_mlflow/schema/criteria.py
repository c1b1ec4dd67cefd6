"""Tie criteria: what a judge is told about equally good responses."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.schema.presentation import FORCED_ANSWERS, PAIR_ANSWERS


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One arm of the protocol: a name for the run, the text for the judge, the answers it may give."""

    name: str
    text: str
    offers_tie: bool = True

    @property
    def answers(self) -> tuple[str, ...]:
        """Slot answers of this arm."""
        return PAIR_ANSWERS if self.offers_tie else FORCED_ANSWERS


_TEXTS = {
    "forced": "Decide which response is better. A choice must be made: there is no tie.",
    "allowed": "Decide which response is better. The two may be equally good: then the answer is a tie.",
    "strict": "Decide which response is better in substance. Answer tie whenever the responses differ only in "
    "wording, style, fluency, verbosity or surface form.",
}
BUILT_IN = {name: Criterion(name=name, text=text, offers_tie=name != "forced") for name, text in _TEXTS.items()}


def criterion(spec: str | Criterion) -> Criterion:
    """Resolve a built-in name, or take a sentence of the user's own as the criterion.

    A single word is a name, so a misspelt one is an error and never a criterion of one word.

    Example:
        >>> criterion("strict").offers_tie
        True
    """
    if isinstance(spec, Criterion):
        return spec
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    if len(spec.split()) < 2:
        raise RecipeError(
            f"Unknown tie criterion {spec!r}.{suggest(spec, BUILT_IN)} "
            f"Give one of {', '.join(BUILT_IN)}, or a sentence of your own."
        )
    digest = hashlib.sha256(spec.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return Criterion(name=f"own-{digest}", text=spec)
