"""What lists and pages tell of a run, and the page of one that has none of its own: what it is, what belongs to it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.page import Navigation, Page, Section
from jrh_mlflow.show.tables import Column, Table

_log = logging.getLogger("jrh_mlflow")
MOST_RELATED = 200
KINDS: Mapping[str, str] = WORDS["kinds"]
"""What runs of a kind are called on pages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """One run as its name, tags and params tell of it; every text may come from anybody, and may be empty."""

    run_id: str
    """32 hexadecimal digits: it becomes part of addresses."""
    name: str
    kind: str
    """As `jrh.kind` says it; an empty text of a run that we did not log."""
    status: str
    started: str
    experiment: str = ""
    """Its name, where runs of several experiments are listed."""
    experiment_id: str
    description: str
    simulated: bool
    recorded: bool
    truncated: str | None
    """Why calls are missing, or None."""
    judge: str
    model: str
    """Of the judge."""
    suite: str
    sha256: str
    """Of the suite: runs with the same one can be compared."""
    verdict: str
    """Its first sentence; of runs without one the profile."""
    gate: str
    """What its newest gate came to."""
    named: tuple[str, ...]
    """Ids of runs that its params and tags name: what it was made of."""
    state: str
    """Digest of all that changes when something is added to a finished run: what is made from it holds as long."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFamily:
    """A run with those that belong to it."""

    run: RunSummary
    page: str | None
    """Name of the page that it logged, or None."""
    has_calls: bool
    """Whether it kept calls of a judge, as an evaluation does that fails in the middle."""
    sources: tuple[RunSummary, ...]
    """What it was made of, and its parent."""
    shown: bytes | None = None
    """What its page shows (`Page.to_dict`), as it was logged."""
    figures: Mapping[str, bytes] = field(default_factory=dict)
    """Name to SVG file."""
    children: tuple[RunSummary, ...]
    """Nested runs, newest first; at most MOST_RELATED."""


def run_overview_page(family: RunFamily, addresses: Addresses) -> str:
    """Render a run of any kind: the page that its verb made of it, then what belongs to it.

    Other tools log no such page: of their runs the description is shown as it was written.
    """
    run = family.run
    if family.shown is not None:
        try:
            return _with_family(Page.from_dict(json.loads(family.shown), family.figures), family, addresses)
        except Exception:  # whatever a file that anybody wrote can do to its reader
            _log.warning("The page of run %s cannot be read: its description is shown.", run.run_id, exc_info=True)
    return _with_family(Page(title=run.name, lead=run.verdict, sections=[_described(run)]), family, addresses)


def _with_family(page: Page, family: RunFamily, addresses: Addresses) -> str:
    run = family.run
    facts = {"kind": _kind(run), "status": run.status.lower(), "started": run.started, "run": run.run_id}
    marks = {"simulated": run.simulated, "recorded": run.recorded, f"truncated: {run.truncated}": run.truncated}
    return replace(
        page,
        marks=[mark for mark, is_so in marks.items() if is_so],
        facts={**page.facts, **facts},
        sections=[*page.sections, _belonging(family, addresses)],
        navigation=Navigation(addresses=addresses, here="run", run_id=run.run_id, experiment_id=run.experiment_id),
    ).to_html()


def _kind(run: RunSummary) -> str:
    return KINDS.get(run.kind, run.kind) or "not logged by jrh"


def _described(run: RunSummary) -> Section:
    from markupsafe import Markup

    text = Markup('<pre tabindex="0">{}</pre>').format(run.description) if run.description else "It has none."
    return Section(heading="Description", blocks=[text], always=True)


def _belonging(family: RunFamily, to: Addresses) -> Section:
    """List the files of a run that have a page, what it was made of and the runs inside it."""
    own: Table[tuple[str, str]] = Table.of(
        Column("of this run", lambda row: row[0], link=lambda row: row[1], words=True)
    )
    run_id = family.run.run_id
    pages = [("the calls that it kept", to.calls(run_id))] if family.has_calls else []
    pages += [(f"the page that it wrote, as it was logged: {family.page}", to.logged(run_id))] if family.page else []
    runs: Table[tuple[str, RunSummary]] = Table.of(
        Column("run", lambda row: row[1].name, link=lambda row: to.run(row[1].run_id), words=True),
        Column("kind", lambda row: _kind(row[1]), words=True),
        Column("what it says", lambda row: row[1].verdict, words=True),
    )
    groups = {"made of": family.sources, "runs inside it": family.children}
    more = f"{MOST_RELATED} runs inside it are shown; MLflow lists all." if len(family.children) >= MOST_RELATED else ""
    listed = [(name, run) for name, members in groups.items() for run in members]
    return Section(heading="What belongs to it", blocks=[own(pages), runs(listed, more=more, group=lambda row: row[0])])
