"""Where the pages of runs are, as seen from the page that links to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode

FOLDER = "jrh/"
"""Our pages, as seen from MLflow's."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Links of one page to the others: relative, so that they hold behind a prefix and behind a proxy.

    Example:
        >>> Addresses("../").datasheet("0a1b")
        '../datasheet/0a1b'
        >>> Addresses("../").calls("0a1b", axis="target_sensitivity/delta_1", delta=1)
        '../calls/0a1b?axis=target_sensitivity%2Fdelta_1&delta=1'
        >>> Addresses("jrh/").mlflow("7", "0a1b")
        '#/experiments/7/runs/0a1b'
    """

    root: str
    """The folder of our pages: "" from the index, "../" from a page of a run, "jrh/" from MLflow's own page."""

    def index(self) -> str:
        """Return the list of evaluations."""
        # An empty link would be the page itself, with its query.
        return self.root or "./"

    def review(self, token: str | None = None) -> str:
        """Return the review of generated suites; who has no cookie of it needs the token."""
        query = urlencode({"token": token}) if token else ""
        return f"{self.root}review/{f'?{query}' if query else ''}"

    def run(self, run_id: str) -> str:
        """Return the page of a run of any kind."""
        return f"{self.root}run/{_part(run_id)}"

    def logged(self, run_id: str) -> str:
        """Return the page among a run's artifacts, as it was logged."""
        return f"{self.root}logged/{_part(run_id)}"

    def datasheet(self, run_id: str) -> str:
        """Return the datasheet of an evaluation."""
        return f"{self.root}datasheet/{_part(run_id)}"

    def compare(self, runs: Sequence[str]) -> str:
        """Return the comparison of evaluations on one suite."""
        return f"{self.root}compare?{urlencode({'run': list(runs)}, doseq=True)}"

    def calls(self, run_id: str, **filters: str | float | Sequence[str]) -> str:
        """Return the calls of an evaluation that all filters let through; of several values one must."""
        query = urlencode({name: _values(value) for name, value in filters.items()}, doseq=True)
        return f"{self.root}calls/{_part(run_id)}{f'?{query}' if query else ''}"

    def mlflow(self, experiment_id: str, run_id: str) -> str:
        """Return MLflow's own page of a run."""
        up = self.root.removesuffix(FOLDER) if self.root.endswith(FOLDER) else f"{self.root}../"
        return f"{up}#/experiments/{_part(experiment_id)}/runs/{_part(run_id)}"


def _part(text: str) -> str:
    return quote(text, safe="")


def _values(value: str | float | Sequence[str]) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [f"{value:.12g}"] if isinstance(value, int | float) else list(value)
