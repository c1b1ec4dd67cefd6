"""Before the first call: judge, suite and journal made ready; and the bar that is shown while asking."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.judges import Judge, as_judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.stimuli.suite import Suite
from jrh_mlflow.suites import as_suite, hold_back
from jrh_mlflow.tracking.mlflow_judges import from_mlflow, is_mlflow_judge


def ready_judge(
    judge: object, suite: Suite | str | Path | None, *, tracking_uri: str | None = None
) -> tuple[Judge, Suite]:
    """Resolve judge and suite, and check that the one can be asked about the other."""
    asked, on = resolve_judge(judge), as_suite(suite, tracking_uri=tracking_uri)
    hold_back(on)
    if not on.has_texts:
        raise SuiteError(f"Suite {on.name!r} was replayed from recorded judgments and has no texts to ask about.")
    asked.begin(on)
    if len({item.kind == "pair" for item in on.items if asked.covers(item)}) > 1:
        raise SuiteError(
            f"Suite {on.name!r} holds pairs and single responses. They have reports of their own: split it."
        )
    return asked, on


def resolve_judge(judge: object) -> Judge:
    """Turn what a user passes into a judge, MLflow's own judges and scorers included."""
    return from_mlflow(judge) if is_mlflow_judge(judge) else as_judge(judge)


def default_journal() -> Path:
    """Return where paid answers are kept: `$JRH_HOME/journal.db`, by default `.jrh/journal.db`."""
    return Path(os.environ.get("JRH_HOME", ".jrh")) / "journal.db"


@contextmanager
def opened_journal(journal: str | Path | Journal | None, judge: Judge) -> Iterator[Journal | None]:
    """Open the journal for judges that need one; one that was passed open stays open."""
    with journal_at(journal) if isinstance(judge, PromptedJudge) else nullcontext() as book:
        yield book


def journal_at(journal: str | Path | Journal | None) -> AbstractContextManager[Journal]:
    """Open a journal, the default one when None; one that was passed open stays open."""
    if isinstance(journal, Journal):
        return nullcontext(journal)
    path = journal or default_journal()
    if "://" not in str(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    return open_journal(path)


@contextmanager
def progress_bar(name: str, *, total: int, show: bool) -> Iterator[Callable[[CallRecord], None] | None]:
    """Show rate, spend, failures and time left while asking; nothing when stderr is not a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    spent, failed = 0.0, 0
    with tqdm(total=total, desc=name, unit="call", dynamic_ncols=True) as bar:

        def tick(record: CallRecord) -> None:
            nonlocal spent, failed
            failed += record.outcome in ("error", "unparsed")
            spent += 0.0 if record.cached else record.cost_usd or 0.0
            shown = {"no_answer": failed} if failed else {}
            bar.set_postfix({**shown, **({"usd": f"{spent:.4f}"} if spent else {})}, refresh=False)
            bar.update()

        yield tick
