"""Items that a search makes as it goes, asked round by round through journal, budget and batch files."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from jrh_mlflow.engine import Asked
from jrh_mlflow.engine.batch import BatchSummary, export_batch
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.responder import NO_LABELS
from jrh_mlflow.measuring.resolve import Prepared, journal_at, prepare
from jrh_mlflow.options import AskOptions
from jrh_mlflow.progress import counting_bar
from jrh_mlflow.schema.items import Call, CallRecord, Item
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs.outbox import outbox_key


class NextBatchError(RecipeError):
    """Nothing is measured yet: what is asked next is in a batch file."""

    def __init__(self, summary: BatchSummary, what: str) -> None:
        files = ", ".join(map(str, summary.files))
        super().__init__(
            f"{summary.requests:,} requests of the {what} are in {files}. Run them, `jrh batch import` their results, "
            "then run the same command again."
        )
        self.summary = summary


def prompt_suite(name: str, prompts: Mapping[str, str]) -> Suite:
    """Return prompts, by id, as the suite that a `Responder` answers."""
    usual = Item(id="", task="", condition="prompt", kind="response", response="", answers=NO_LABELS)
    return Suite(name=name, items=[replace(usual, id=own, task=own, instruction=text) for own, text in prompts.items()])


def shared_budget(kind: str, everybody: Iterable[Prepared]) -> str:
    """Name the one budget of all who are asked: the same for the same, so that a restart continues."""
    identity = hashlib.sha256(repr([prepared.identity for prepared in everybody]).encode()).hexdigest()
    return outbox_key(kind, identity)


def ask_prepared(
    prepared: Prepared, options: AskOptions, *, what: str, budget: str, calls: Iterable[Call] | None = None
) -> Asked:
    """Ask all calls, or these, behind a progress bar; `budget` names what the cap, where there is one, is kept in."""
    client = ClientSettings(
        concurrency=prepared.concurrency,
        budget=None if prepared.cap_micro is None else budget,
        price=prepared.price,
        fresh_after=prepared.freshness,
        **options.limits,
    )
    with counting_bar(what, total=prepared.n_calls, show=options.progress) as tick:
        return prepared.ask(client, prepared.plan() if calls is None else calls, on_record=tick, stop=None)


def check_whole(asked: Asked, what: str) -> None:
    """Raise what ended the asking early: the service, or the cap."""
    if asked.failure is not None:
        raise asked.failure
    if asked.out_of_budget is not None:
        raise BudgetError(f"The {what} stopped: {asked.out_of_budget}. Nothing paid is lost: a higher cap continues.")


@dataclass(kw_only=True)
class ItemAsker:
    """Asks items of judges, through journal and budget, and keeps every record."""

    options: AskOptions
    budget: str
    export: str | Path | None = None
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
        half = None if self.options.max_usd is None else self.options.max_usd / 2
        prepared = prepare(judge, suite, **{**self.options.preparing, "max_usd": half})
        if self.export is not None and prepared.has_to_send():
            if not isinstance(prepared.judge, PromptedJudge):
                raise RecipeError(f"Batch files are of models: {judge.name} is none.")
            with journal_at(prepared.journal) as book:
                raise NextBatchError(
                    export_batch(prepared.judge, suite, book, Path(self.export), force=self.force), what
                )
        prepared.check_ready()
        asked = ask_prepared(prepared, self.options, what=what, budget=f"{self.budget}:{purse}")
        self.records += asked.records
        if asked.paid is not None:
            self.paid = asked.paid if self.paid is None else self.paid + asked.paid
        check_whole(asked, what)
        errors = [record.error for record in asked.records if record.outcome == "error"]
        if errors and len(errors) == len(asked.records):
            raise JudgeError(f"Every call of the {what} failed. The first: {errors[0]}")
        found: dict[str, list[CallRecord]] = defaultdict(list)
        for record in asked.records:
            found[record.suite_item].append(record)
        return found
