"""`Gate`: what some rules came to, of a judge (`jrh.gate`) or of an application (`jrh.passed`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jrh_mlflow.decisions.gate_view import check_cells, gate_markdown, gate_reason
from jrh_mlflow.decisions.junit import gate_junit
from jrh_mlflow.measures.rules import RuleCheck, overall
from jrh_mlflow.show.cards import Card, brief_run
from jrh_mlflow.show.frames import checks_frame

if TYPE_CHECKING:
    import pandas as pd

Undecided = Literal["fail", "pass"]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Whether rules hold, fail or cannot be decided on what was measured. True in a test only where it may go on."""

    results: tuple[RuleCheck, ...]
    """One for each rule, in their order."""
    subject: str
    """What was gated: the judge and its suite, or the application."""
    gated_run: str | None = None
    """Id of the run that was gated."""
    baseline_run: str | None = None
    """Id of the run that rules of the form `AXIS - baseline` compare with."""
    undecided: Undecided = "fail"
    """What an undecided gate is taken for where only yes or no can be said: `bool(gate)`, an exit code."""
    simulated: bool = False
    """Whether a judge behind it is simulated."""
    notes: tuple[str, ...] = ()
    """What a reader must know first: simulated, truncated."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What was read, for people: suite, calls, baseline."""
    run_id: str | None = None
    """Its own run; None when it was not logged."""
    link: str | None = None

    @property
    def passed(self) -> bool | None:
        """True: all rules hold. False: one fails. None: not enough evidence."""
        return overall([each.state for each in self.results])

    def __bool__(self) -> bool:
        return self.passed is True or (self.passed is None and self.undecided == "pass")

    @property
    def checks(self) -> pd.DataFrame:
        """One row per rule: state, estimate, the interval that decided, and how many further tasks would decide it."""
        return checks_frame(self.results)

    def to_frame(self) -> pd.DataFrame:
        """Return the checks."""
        return self.checks

    @property
    def reason(self) -> str:
        """The outcome in one line: `passed: 3 of 3 rules hold`, `failed: …`, `undecided: …`."""
        return gate_reason(self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = ("run_id", "link", "subject", "gated_run", "baseline_run", "passed", "reason", "undecided", "simulated")
        return {
            **{name: getattr(self, name) for name in names},
            "notes": list(self.notes),
            "facts": dict(self.facts),
            "checks": [each.to_dict() for each in self.results],
        }

    def to_markdown(self) -> str:
        """Return the outcome and one row per rule, as a pull request or a build shows them."""
        return gate_markdown(self.results, subject=self.subject, notes=self.shown_notes, facts=self._shown_facts)

    def to_junit(self) -> str:
        """Return JUnit XML with one test case per rule; one that is undecided fails, or is skipped with `pass`."""
        facts = {"outcome": self.reason, **self._shown_facts}
        return gate_junit(self.results, subject=self.subject, facts=facts, undecided_fails=self.undecided == "fail")

    @property
    def _shown_facts(self) -> dict[str, str]:
        return {**self.facts, **({"logged": self.link} if self.link else {})}

    @property
    def shown_notes(self) -> list[str]:
        """What a reader must know first, and that an undecided gate is taken as passed."""
        taken = self.passed is None and self.undecided == "pass"
        return [*self.notes, *(["Undecided is taken as passed, as asked."] if taken else [])]

    def __repr__(self) -> str:
        return f"Gate({self.reason}, {brief_run(self.run_id)})"

    def _repr_html_(self) -> str:
        return Card(
            title=f"Gate: {self.subject}",
            profile=self.reason,
            tables=[check_cells(self.results)],
            notes=self.shown_notes,
            facts=self.facts,
            links=[self.link] if self.link else [],
        ).to_html()
