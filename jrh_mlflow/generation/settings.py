"""What `jrh.generate` was told: one model of its arguments, for Python, recipes and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jrh_mlflow.options import Number, Options, option

NO_VALIDATOR = "none"
"""The validator that is nobody."""
MAX_STEPS = 4
PLANS = 3
_COUNT = "a whole number, 1 or more"


class GenerationSettings(Options):
    """The arguments of `jrh.generate`, which describes them in full; as the user gave them, not resolved yet.

    Rules that need the data, the labels or a price are checked where these are known.
    """

    dataset: Any = option(..., "a source")
    tests: Any = option("paper", "tests", '"paper", "all", or names joined by commas; `jrh tests` lists them.')
    rubric: Any = option(..., "a text", "The question the judge answers about a response; @FILE reads it from a file.")
    generator: Any = option(None, "a generator", "A litellm model name; offline (rules, no model) when left out.")
    validator: Any = option(
        None, "a judge", "Model that confirms labels, levels and edits; the generator's own, or none."
    )
    labels: Any = option(None, "a list", "The labels, the better one or the one to be detected last.", metavar="A,B")
    scale: Any = option(None, "a list", "An ordinal scale, as in 1-6, or its levels: low,mid,high.", metavar="LOW-HIGH")
    seed: int = option(0, "a whole number", "Of the draw and of everything written by code.")
    max_usd: Number | None = option(None, "a number")
    columns: Any = option(None, "a mapping")
    instruction: str | None = option(
        None, "a text", "The task all responses answer, when the data have no column for it."
    )
    n: int | None = option(None, "a whole number")
    stratify: str | None = option(None, "a text", "Column or role whose values share the draw, such as label.")
    similarity: Any = option(None, "a similarity")
    name: str | None = option(None, "a text", "Of the suite; the file's name when left out.")
    concurrency: int = option(32, _COUNT, ge=1)
    journal: Any = option(None, "a path")
    prices: Any = option(None, "a mapping")
    requests_per_minute: Number | None = option(None, "a number")
    tokens_per_minute: Number | None = option(None, "a number")
    timeout_s: Number = option(120.0, "a number")
    experiment: str | None = option(None, "a text")
    run_name: str | None = option(None, "a text", "Name of the MLflow run.")
    tracking_uri: Any = option(None, "a text")
    progress: bool = option(True, "true or false")
    tags: Any = option(None, "a mapping")
    group: str | None = option(None, "a text", "Column or field (metadata.topic) to report by.", metavar="FIELD")
    values: Any = option(None, "a mapping")
    violation: str | None = option(
        None, "a text", "Of transcripts: the label for a broken rubric. [the last]", metavar="LABEL"
    )
    preprocess: Any = option(None, "a list", "Of transcripts: drop_reasoning,keep_last:10, …", metavar="STEPS")
    max_steps: int | None = option(None, _COUNT, f"Of transcripts: most edits of one plan. [{MAX_STEPS}]", ge=1)
    plans: int | None = option(None, _COUNT, f"Of transcripts: plans tried for each. [{PLANS}]", ge=1)

    @property
    def suite_name(self) -> str:
        """The name that was given, the file's, or `reliability`."""
        return self.name or (Path(self.dataset).stem if isinstance(self.dataset, str | Path) else "reliability")
