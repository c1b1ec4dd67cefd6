"""What `jrh.generate` was told: the one model of its arguments, which recipes and the command line fill in, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jrh_mlflow.engine.journal import Journal

if TYPE_CHECKING:
    from jrh_mlflow.models.prices import Overrides

NO_VALIDATOR = "none"
"""The validator that is nobody."""


@dataclass(frozen=True)
class GenerationSettings:
    """The arguments of `jrh.generate`, which describes them; as the user gave them, not resolved yet."""

    dataset: object
    """Labelled responses or transcripts; `read_plan` tells which."""
    _: KW_ONLY
    tests: object = "paper"
    rubric: object
    generator: object = None
    """None, like `"offline"`: the tests' own rules."""
    validator: object = None
    """None: the generator's own model; `NO_VALIDATOR`: nobody."""
    labels: Sequence[object] | None = None
    scale: Sequence[object] | None = None
    seed: int = 0
    max_usd: float | None = None
    columns: Mapping[str, str] | None = None
    instruction: str | None = None
    n: int | None = None
    stratify: str | None = None
    similarity: object = None
    name: str | None = None
    """None: `suite_name` finds one."""
    concurrency: int = 32
    journal: str | Path | Journal | None = None
    prices: Overrides | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_s: float = 120.0
    experiment: str | None = None
    run_name: str | None = None
    tracking_uri: str | None = None
    progress: bool = True
    tags: Mapping[str, str] | None = None
    group: str | None = None
    values: Mapping[str, str] | None = None
    violation: str | None = None
    preprocess: Sequence[str] | str | None = None
    max_steps: int | None = None
    plans: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ValueError(f"`concurrency >= 1` must hold, but got concurrency={self.concurrency}.")

    @property
    def suite_name(self) -> str:
        """The name that was given, the file's, or `reliability`."""
        return self.name or (Path(self.dataset).stem if isinstance(self.dataset, str | Path) else "reliability")
