"""What a sweep found, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.composite import parts, reliability
from jrh_mlflow.measures.criterion import OperatingPoint, ResolutionShift
from jrh_mlflow.reports.markdown import table
from jrh_mlflow.reports.numbers import interval_text
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.sweeps.front import Tie
from jrh_mlflow.sweeps.space import Configuration
from jrh_mlflow.sweeps.trials import Result

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Member:
    """A configuration that was measured in full, with all that is known of it."""

    configuration: Configuration
    search: Result
    """On the searched half: the best of many, so it tends to be too good."""
    holdout: Result | None
    """On the half nobody searched; None when it was not measured there."""
    probability: float | None
    """Share of resampled tasks in which the search has it on the front."""
    tie: Tie | None
    """Against the best, on the held-out half."""
    on_front: bool
    seed: int = 0

    @property
    def label(self) -> str:
        """The choices that vary."""
        return self.configuration.label

    @property
    def fair(self) -> Result:
        """The held-out result, or the search's where there is none."""
        return self.holdout or self.search

    @cached_property
    def reliability(self) -> Reading:
        """The composite on the fair half, with its interval by task."""
        return reliability(self.fair.tally, seed=self.seed)

    @cached_property
    def parts(self) -> dict[str, Reading]:
        """What the composite is the mean of."""
        return dict(parts(self.fair.tally, seed=self.seed))

    @property
    def usd_per_1k(self) -> float | None:
        """Dollars of 1,000 judgments."""
        return self.fair.usd_per_1k

    @property
    def bias(self) -> float | None:
        """Search minus held-out value: how much the selection flattered it."""
        return None if self.holdout is None else self.search.tally.value - self.holdout.tally.value

    @property
    def tied(self) -> bool:
        """Whether it cannot be told from the best."""
        return self.tie is not None and self.tie.tied

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        found = self.reliability
        return {
            "configuration": self.configuration.key,
            "params": dict(self.configuration.params),
            "label": self.label,
            "on_front": self.on_front,
            "reliability": found.to_dict(),
            "parts": {name: one.to_dict() for name, one in self.parts.items()},
            "search_value": self.search.tally.value,
            "holdout_value": None if self.holdout is None else self.holdout.tally.value,
            "bias": self.bias,
            "usd_per_1k_judgments": self.usd_per_1k,
            "values": dict(self.fair.values),
            "front_probability": self.probability,
            "tied_with_best": self.tied,
            "p_holm": None if self.tie is None else self.tie.p_holm,
            "replicates_of_measurement": self.search.repeats,
            "runs": {"search": self.search.run_id, "holdout": self.holdout and self.holdout.run_id},
        }


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The map of reliability against cost."""

    run_id: str
    """Of the parent run."""
    link: str
    study: str
    """Name of the study; the same sweep again continues it."""
    suite: str
    halves: Mapping[str, str]
    """`search` and `holdout` to the hash of that half."""
    objectives: Mapping[str, str]
    constraints: Sequence[str]
    trials: pd.DataFrame
    """Every trial: its choices, how it ended, what it measured."""
    members: list[Member]
    """Configurations measured in full, the most reliable first."""
    hypervolume: Reading
    importance: Mapping[str, Mapping[str, float] | str]
    operating: Sequence[OperatingPoint]
    shifts: Sequence[ResolutionShift]
    n_grid: int
    """Configurations of the space."""
    n_calls: int
    """Calls made by all trials and later stages; what the journal served is not among them."""
    grid_calls: int
    """Calls of the whole grid on the whole suite."""
    truncated: str | None = None
    notes: Sequence[str] = ()
    best_key: str | None = None
    cheapest_key: str | None = None
    simulated: bool = False
    metrics: dict[str, float] = field(default_factory=dict)
    """What the parent run logged."""

    @property
    def front(self) -> list[Member]:
        """Members of the front, the cheapest first."""
        return sorted((one for one in self.members if one.on_front), key=lambda one: one.usd_per_1k or 0.0)

    @property
    def best(self) -> Member | None:
        """The most reliable configuration on the held-out half."""
        return self._member(self.best_key)

    @property
    def cheapest_tied(self) -> Member | None:
        """The cheapest configuration that cannot be told from the best."""
        return self._member(self.cheapest_key)

    def _member(self, key: str | None) -> Member | None:
        return next((one for one in self.members if one.configuration.key == key), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "run_id": self.run_id,
            "link": self.link,
            "study": self.study,
            "suite": {"name": self.suite, **self.halves},
            "objectives": dict(self.objectives),
            "constraints": list(self.constraints),
            "truncated": self.truncated,
            "notes": list(self.notes),
            "simulated": self.simulated,
            "n_configurations": self.n_grid,
            "n_trials": len(self.trials),
            "n_calls": self.n_calls,
            "grid_calls": self.grid_calls,
            "front": [one.to_dict() for one in self.front],
            "measured": [one.to_dict() for one in self.members],
            "best": self.best_key,
            "cheapest_tied": self.cheapest_key,
            "hypervolume": self.hypervolume.to_dict(),
            "importance": {name: one if isinstance(one, str) else dict(one) for name, one in self.importance.items()},
            "resolution_shifts": [
                {"judge": one.judge, "prompt": one.prompt, "value": one.value, "low": one.low, "high": one.high}
                for one in self.shifts
            ],
        }

    def to_json(self) -> str:
        """Return `to_dict` as text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)

    def to_markdown(self) -> str:
        """Rank the front, and say what it rests on."""
        from jrh_mlflow.reports.sweep import sweep_markdown

        return sweep_markdown(self)


def reading_text(reading: Reading) -> str:
    """Spell a value with its interval by task."""
    if isinstance(reading, NotEstimable):
        return "n/a"
    return f"{reading.value:.3f} {interval_text(reading.cluster_low, reading.cluster_high)}"


def member_rows(members: Sequence[Member], names: Sequence[str]) -> list[list[str]]:
    """Return the rows of a ranking."""
    return [[*_cells(one), *(_part(one, name) for name in names)] for one in members]


def ranking(members: Sequence[Member]) -> list[str]:
    """Render members as a Markdown table."""
    names = list(dict.fromkeys(name for one in members for name in one.parts))
    header = ["configuration", "reliability", "search", "bias", "$ per 1,000", "tied with best", "on front"]
    # With spaces, so that the column heads may break.
    header += [name.replace("_", " ") for name in names]
    return table(header, member_rows(members, names))


def _cells(one: Member) -> list[str]:
    chance = "" if one.probability is None else f" ({one.probability:.2f})"
    return [
        one.label,
        # Not in round brackets: after the interval's square ones Markdown would read a link.
        reading_text(one.reliability) + ("" if one.holdout else ", searched half"),
        f"{one.search.tally.value:.3f}",
        "–" if one.bias is None else f"{one.bias:+.3f}",
        "unknown" if one.usd_per_1k is None else f"{one.usd_per_1k:.4g}",
        "–" if one.tie is None else f"{'yes' if one.tied else 'no'} (p {one.tie.p_holm:.3f})",
        ("yes" if one.on_front else "no") + chance,
    ]


def _part(one: Member, name: str) -> str:
    found = one.parts.get(name)
    return f"{found.value:.3f}" if isinstance(found, Estimate) else "n/a"
