"""`Alignment`: what came of an alignment, and what its run holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.people.alignment.alignment_figures import alignment_figures
from jrh_mlflow.people.alignment.alignment_view import (
    alignment_markdown,
    alignment_points,
    alignment_rows,
    alignment_tables,
    difference_text,
)
from jrh_mlflow.people.alignment.held_out import SENT_BACK, AlignDecision, AlignmentReport, JudgeCost, PairedReadings
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.show.cards import Card, CardTable, brief_run
from jrh_mlflow.show.figures.canvas import plotted
from jrh_mlflow.show.figures.svg import figure_files
from jrh_mlflow.suites.spreadsheets import report_frame
from jrh_mlflow.text import blank_secrets, brief_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent

if TYPE_CHECKING:
    import pandas as pd

    from jrh_mlflow.show.figures.canvas import Figure


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """A judge before and after aligning, on traces that the optimiser never saw."""

    report: AlignmentReport
    judge: Any
    """The judge of MLflow's that was returned: aligned, or as it was."""
    aligned: Any
    """What the optimiser made, returned or not."""
    settings: Mapping[str, object]
    """Of the optimisation: holdout, margin, seed, optimizer."""
    facts: Mapping[str, Mapping[str, object]]
    """What identifies the judge `before` and `after`: model, hash of the instructions."""
    run_id: str | None = None
    """None when it was not logged."""
    link: str | None = None
    """Where the run can be looked at."""

    @property
    def decision(self) -> AlignDecision:
        """`better`, `not worse` or `sent back`."""
        return self.report.decision

    @property
    def returned(self) -> bool:
        """Whether the aligned judge was returned."""
        return self.decision != SENT_BACK

    @property
    def reason(self) -> str:
        """Why, with its numbers."""
        return self.report.reason

    @property
    def before(self) -> Reading:
        """Share of held-out traces on which the old judge agrees with people."""
        return self.report.agreement.before

    @property
    def after(self) -> Reading:
        """Share of held-out traces on which the aligned judge agrees with people."""
        return self.report.agreement.after

    @property
    def difference(self) -> Reading:
        """After minus before, paired by trace."""
        return self.report.agreement.difference

    @property
    def suite(self) -> PairedReadings | None:
        """Consistency with itself on reformatted traces; None where it was not asked for."""
        return self.report.suite

    @property
    def cost(self) -> Mapping[str, JudgeCost]:
        """What measuring took, `before` and `after`."""
        return self.report.cost

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return {point.key: point.value for point in alignment_points(self.report)}

    @property
    def title(self) -> str:
        """Names the judge."""
        return f"Alignment of {brief_name(str(self.judge.name))}"

    def to_markdown(self) -> str:
        """Return the alignment as a readable page."""
        return alignment_markdown(self.report, title=self.title, settings=self.settings)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per held-out trace."""
        return alignment_tables(self.report)["held_out"]

    def plot(self, kind: str | None = None) -> Figure:
        """Draw what changed on the held-out traces."""
        return plotted(alignment_figures(self.report, title=self.title), kind)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        return {
            "run_id": self.run_id,
            "link": self.link,
            "judge": str(self.judge.name),
            "settings": dict(self.settings),
            "facts": {side: dict(known) for side, known in self.facts.items()},
            **self.report.to_dict(),
        }

    def __repr__(self) -> str:
        read = difference_text(self.difference)
        return f"Alignment({brief_name(str(self.judge.name))}: {self.decision}, {read}, {brief_run(self.run_id)})"

    def _repr_html_(self) -> str:
        header, rows = alignment_rows(self.report)
        return Card(
            title=f"{self.title}: {self.decision}",
            profile=self.reason,
            tables=[CardTable(header=header, rows=rows)],
            notes=self.report.notes,
            facts={name: str(value) for name, value in self.settings.items()},
            links=[self.link] if self.link else [],
        ).to_html()


def failed_content(
    reason: str,
    *,
    settings: Mapping[str, object],
    judge: Mapping[str, object],
    asked: Sequence[Mapping[str, object]],
) -> RunContent:
    """Return what the run of an alignment holds that came to nothing: why, and what judges said until then."""
    import pandas as pd

    tables = {f"{keys.TABLES_FOLDER}/held_out.csv": report_frame(pd.DataFrame(asked))} if asked else {}
    return RunContent(
        points=[],
        params={"align": settings, "judge": judge},
        description=reason,
        described_in=keys.FAILURE_FILE,
        artifacts={keys.FAILURE_FILE: reason, **tables},
    )


def alignment_content(done: Alignment, instructions: Mapping[str, str]) -> RunContent:
    """Return what the run of an alignment holds; `instructions` are those of the judge before and after."""
    markdown = done.to_markdown()
    tables = alignment_tables(done.report)
    judge = {"name": done.judge.name, **done.facts["before"]}
    return RunContent(
        points=alignment_points(done.report),
        params={"align": done.settings, "judge": judge, "aligned": done.facts["after"]},
        description=markdown,
        described_in=keys.ALIGNMENT_MARKDOWN,
        tags={
            keys.own_key("decision"): done.decision,
            keys.own_key("align/difference"): difference_text(done.difference),
        },
        artifacts={
            keys.ALIGNMENT_JSON: done.to_dict(),
            keys.ALIGNMENT_MARKDOWN: markdown,
            # Labels and answers are other people's text, which a spreadsheet must not run.
            **{f"{keys.TABLES_FOLDER}/{name}.csv": report_frame(frame) for name, frame in tables.items()},
            **figure_files(alignment_figures(done.report, title=done.title)),
            **{f"{keys.JUDGE_FOLDER}/{side}.txt": blank_secrets(text) for side, text in instructions.items()},
        },
    )
