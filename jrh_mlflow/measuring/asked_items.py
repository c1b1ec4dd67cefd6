"""Items that a search makes as it goes, asked round by round through journal, budget and batch files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jrh_mlflow.engine.batch import BatchSummary, export_batch
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measuring.resolve import journal_at, prepare
from jrh_mlflow.progress import counting_bar
from jrh_mlflow.schema.items import CallRecord, Item
from jrh_mlflow.suites.suite import Suite


class NextBatchError(RecipeError):
    """Nothing is measured yet: what is asked next is in a batch file."""

    def __init__(self, summary: BatchSummary, what: str) -> None:
        files = ", ".join(map(str, summary.files))
        super().__init__(
            f"{summary.requests:,} requests of the {what} are in {files}. Run them, `jrh batch import` their results, "
            "then run the same command again."
        )
        self.summary = summary


@dataclass(kw_only=True)
class ItemAsker:
    """Asks items of judges, through journal and budget, and keeps every record."""

    options: Mapping[str, Any]
    """Of `prepare`."""
    limits: Mapping[str, Any]
    """Of `ClientSettings`."""
    budget: str
    max_usd: float | None
    progress: bool
    export: Path | None = None
    force: bool = False
    records: list[CallRecord] = field(default_factory=list)
    paid: Paid | None = None
    """None where nobody counts what is paid."""

    def ask(self, judge: Judge, items: Sequence[Item], *, what: str, purse: str) -> dict[str, list[CallRecord]]:
        """Ask about items; return the records of each by its id.

        A purse has half of the dollars: a search cannot spend what is needed to read what it found.

        Raises:
            BudgetError: when the money is spent.
            NextBatchError: where only a batch file is wanted, and the journal does not answer all.
        """
        suite = Suite(name=what, items=items)
        half = None if self.max_usd is None else self.max_usd / 2
        prepared = prepare(judge, suite, max_usd=half, dry=self.export is not None, **self.options)
        if self.export is not None and prepared.has_to_send():
            if not isinstance(prepared.judge, PromptedJudge):
                raise RecipeError(f"Batch files are of models: {judge.name} is none.")
            with journal_at(prepared.journal) as book:
                raise NextBatchError(export_batch(prepared.judge, suite, book, self.export, force=self.force), what)
        prepared.check_ready()
        budget = None if half is None else f"{self.budget}:{purse}"
        client = ClientSettings(concurrency=prepared.concurrency, budget=budget, price=prepared.price, **self.limits)
        with counting_bar(what, total=prepared.n_calls, show=self.progress) as tick:
            asked = prepared.ask(client, prepared.plan(), on_record=tick, stop=None)
        self.records += asked.records
        if asked.paid is not None:
            self.paid = asked.paid if self.paid is None else self.paid + asked.paid
        if asked.failure is not None:
            raise asked.failure
        if asked.out_of_budget is not None:
            raise BudgetError(
                f"The {what} stopped: {asked.out_of_budget}. Nothing paid is lost: a higher cap continues."
            )
        errors = [record.error for record in asked.records if record.outcome == "error"]
        if errors and len(errors) == len(asked.records):
            raise JudgeError(f"Every call of the {what} failed. The first: {errors[0]}")
        found: dict[str, list[CallRecord]] = defaultdict(list)
        for record in asked.records:
            found[record.suite_item].append(record)
        return found
