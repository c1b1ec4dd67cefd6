"""`jrh.respond`: models answer a column of prompts, into a table that `jrh.generate` takes once it has labels.

    answers = jrh.respond("prompts.csv", ["openai/gpt-4o-mini", "openai/gpt-4o"], max_usd=5)

A row per prompt and model: `id`, `prompt`, `response`, `author`, `outcome`, tokens, dollars and what went wrong, then
the other columns of the prompts. No label is written: people or `labeller` give them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.collector import calm_collector
from jrh_mlflow.engine.batch import BatchSummary, export_batch
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.engine.interrupts import hearing_interrupts
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.judges.responder import Responder
from jrh_mlflow.measuring.asked_items import ask_prepared, prompt_suite, shared_budget
from jrh_mlflow.measuring.resolve import Prepared, journal_at, prepare
from jrh_mlflow.models import trust
from jrh_mlflow.options import AskedRunOptions, AskOptions, takes
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table
from jrh_mlflow.suites.dataset import DatasetTable, demand_column
from jrh_mlflow.suites.responses import read_prompts
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, log_paid, open_run, publish

RESPONSES_FILE = "responses.parquet"
RESPOND_MARKDOWN = "respond.md"
COLUMNS = ("id", "prompt", "response", "author", "outcome", "input_tokens", "output_tokens", "cost_usd", "error")
OUTCOMES = {
    "answered": "a whole answer",
    "refused": "the service marks the answer as a refusal, which is kept as the response",
    "cut": "the answer ends at the longest length allowed",
    "empty": "no text came back",
    "error": "the call failed",
    "not asked": "the run was stopped before this prompt",
}


@dataclass(frozen=True, kw_only=True)
class Responding:
    """Prompts and the models that are to answer them, checked before anything is sent."""

    table: DatasetTable
    prompts: Mapping[str, str]
    """By id."""
    column: str
    """Of the prompts."""
    models: Mapping[str, Prepared]
    """By author."""
    budget: str

    def quote(self) -> dict[str, Quote]:
        """Say what each model would be sent and cost."""
        return {author: prepared.quote() for author, prepared in self.models.items()}

    def export(self, path: str | Path, *, force: bool = False) -> dict[str, BatchSummary]:
        """Write what the journal does not answer yet as batch files: one for each model."""
        place, summaries = Path(path), {}
        for number, (author, prepared) in enumerate(self.models.items(), 1):
            own = place if len(self.models) == 1 else place.with_stem(f"{place.stem}-{number}")
            assert isinstance(prepared.judge, Responder)
            with journal_at(prepared.journal) as book:
                summaries[author] = export_batch(prepared.judge, prepared.suite, book, own, force=force)
        return summaries


def prepare_responding(
    frame: object,
    models: str | Sequence[str],
    options: AskOptions,
    *,
    prompt: str = "prompt",
    id: str | None = None,
    **responder: Any,
) -> Responding:
    """Read the prompts and set the models up; see `respond`."""
    names = [models] if isinstance(models, str) else list(models)
    if not names or len(set(names)) < len(names):
        raise RecipeError(f"Name each model once, and at least one, but got {names!r}.")
    table = DatasetTable(frame)
    demand_column(table, prompt, "for the prompts")
    prompts = read_prompts(table, prompt, id or ("id" if "id" in table else None))
    suite = prompt_suite("prompts", prompts)
    asked = {name: prepare(Responder(name, **responder, name=name), suite, **options.preparing) for name in names}
    budget = shared_budget("respond", asked.values())
    return Responding(table=table, prompts=prompts, column=prompt, models=asked, budget=budget)


@takes(AskedRunOptions)
def respond(
    frame: object,
    models: str | Sequence[str],
    *,
    prompt: str = "prompt",
    id: str | None = None,
    system: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    api_base: str | None = None,
    extra: Mapping[str, Any] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Have one or several models answer a column of prompts; log it as an MLflow run of kind `respond`.

    Answers are journalled: the same call again pays for nothing twice, and asks again what failed.

    Args:
        frame: A DataFrame; the path of a CSV, JSON lines, JSON or Parquet file; or mappings. One row is one prompt.
        models: Model name, or names.
        prompt: Column of the prompts.
        id: Column that names each prompt; `id` where there is one, else a hash of the prompt.
        system: System message before each prompt.
        temperature: Sent only where it is given, like all that follows.
        max_tokens: Longest answer. With a cap and without this, the model's own longest output is reckoned with.
        api_base: Address of an OpenAI-compatible server.
        extra: More fields of the request.
        **options: Every field of `AskedRunOptions` (`jrh_mlflow.options`), which are these.
        max_usd: Never spend more than this on all models together, restarts included.
        prices: Model to dollars per million input and output tokens.
        journal: Where paid answers are kept; one journal per user when None.
        concurrency: Most calls in flight.
        requests_per_minute: Of the endpoint.
        tokens_per_minute: Of the endpoint.
        timeout_s: Of one attempt.
        experiment: MLflow experiment; the active one, or `judge-datasheets`, when None.
        run_name: Name of the run.
        tracking_uri: MLflow store; the active one when None.
        tags: More tags for the run.
        log: Log the run.
        progress: Show a progress bar on a terminal.
        allow_key_to: Hosts that may get keys though only a file names them.

    Returns:
        A row per prompt and model: `COLUMNS`, then the other columns of the prompts. `outcome` is one of `OUTCOMES`.

    Raises:
        RecipeError: for prompts or settings that make no sense, before anything is sent.
        JudgeError: when a service fails for good, or no prompt was answered.
        TrackingError: when MLflow cannot be reached; what was paid is in the journal.
        KeyboardInterrupt: after Ctrl-C, once what was answered is logged.
    """
    asking = AskedRunOptions.of_keywords(options, of="respond")
    trust.allow_key_to(asking.allow_key_to)
    responding = prepare_responding(
        frame,
        models,
        asking,
        prompt=prompt,
        id=id,
        system=system,
        temperature=temperature,
        max_tokens=max_tokens,
        api_base=api_base,
        extra=extra,
    )
    for prepared in responding.models.values():
        prepared.check_ready()
    if not asking.log:
        return _asked(responding, asking)[0]
    store = Store(asking.tracking_uri, asking.experiment)
    more = f" and {len(responding.models) - 1} more" if len(responding.models) > 1 else ""
    name = asking.run_name or f"respond {next(iter(responding.models))}{more}"
    signals, opened = hearing_interrupts(), open_run(store, "respond", name, tags=asking.tags)
    with signals as interrupts, interrupts.waiting(), calm_collector(), opened as run_id:
        answers, paid, failure = _asked(responding, asking)
        if answers["response"].isna().all():
            log_paid(store, run_id, paid)
            raise failure or _nothing_answered(answers)
        what_now = "Nothing paid is lost: run the same again, and no answered prompt is asked twice."
        publish(store, run_id, _content(answers, responding, paid, max_usd=asking.max_usd), what_now=what_now)
    if (ended := failure or interrupts.failure) is not None:
        raise ended
    return answers


def _asked(responding: Responding, options: AskOptions) -> tuple[pd.DataFrame, Paid, BaseException | None]:
    """Ask one model after the other; what ended it early is returned, beside a row for everything."""
    rows, paid, failure = [], Paid(), None
    for author, prepared in responding.models.items():
        records: dict[str, CallRecord] = {}
        if failure is None:
            # One budget for all models.
            asked = ask_prepared(prepared, options, what=author, budget=responding.budget)
            records = {record.suite_item: record for record in asked.records}
            paid, failure = paid + (asked.paid or Paid()), asked.failure
        rows += [
            {"id": one, "prompt": text, **_outcome(records.get(one)), "author": author}
            for one, text in responding.prompts.items()
        ]
    own = pd.DataFrame(rows)[list(COLUMNS)]
    taken = {*COLUMNS, responding.column}
    others = {
        name: responding.table.cells(name) * len(responding.models)
        for name in responding.table.columns
        if name not in taken
    }
    return pd.concat([own, pd.DataFrame(others, index=own.index)], axis=1), paid, failure


def _outcome(record: CallRecord | None) -> dict[str, Any]:
    if record is None:
        nothing = dict.fromkeys(("input_tokens", "output_tokens", "cost_usd", "error"))
        return {"response": None, "outcome": "not asked", **nothing}
    said = {"refusal": "refused", "truncated": "cut", None: "answered"}
    failed = "empty" if record.outcome == "unparsed" else "error"
    outcome = said[record.rationale] if record.outcome == "verdict" else failed
    return {
        "response": record.answer or None,
        "outcome": outcome,
        "input_tokens": record.input_tokens,
        "output_tokens": record.output_tokens,
        "cost_usd": record.cost_usd,
        "error": record.error,
    }


def _nothing_answered(answers: pd.DataFrame) -> JudgeError:
    counts, said = Counter(answers["outcome"]), answers["error"].dropna()
    example = f" The first: {said.iloc[0]}" if len(said) else ""
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return JudgeError(f"No prompt was answered ({told}).{example}")


def counts_of(answers: pd.DataFrame) -> FilledTable[tuple[str, pd.DataFrame]]:
    """Count how each author's prompts ended."""
    table: Table[tuple[str, pd.DataFrame]] = Table.of(
        Column("author", lambda row: row[0]),
        Column("prompts", lambda row: f"{len(row[1]):,}"),
        *(
            Column(outcome, lambda row, outcome=outcome: f"{(row[1]['outcome'] == outcome).sum():,}")  # type: ignore[misc]
            for outcome in OUTCOMES
            if (answers["outcome"] == outcome).any()
        ),
        Column("dollars", lambda row: money_text(row[1]["cost_usd"].sum(min_count=1))),
    )
    return table([(str(author), rows) for author, rows in answers.groupby("author", sort=False)])


def responding_page(answers: pd.DataFrame) -> Page:
    """Say how many prompts were answered, and what came of the others."""
    n_answered = int(answers["response"].notna().sum())
    return Page(
        title="Answers to prompts",
        lead=f"{n_answered:,} of {len(answers):,} answers are there. They have no labels yet.",
        sentences=[
            f"`{RESPONSES_FILE}` has a row for each prompt and author. Label the responses, then `jrh generate` makes "
            "a suite of them."
        ],
        sections=[
            Section(heading="By author", blocks=[counts_of(answers)]),
            Section(
                heading="What the outcomes mean",
                blocks=[f"{outcome}: {text}." for outcome, text in OUTCOMES.items()],
            ),
        ],
    )


def _content(answers: pd.DataFrame, responding: Responding, paid: Paid, *, max_usd: float | None) -> RunContent:
    page, outcomes = responding_page(answers), Counter(answers["outcome"])
    prepared = next(iter(responding.models.values()))
    assert isinstance(prepared.judge, Responder)
    missing = outcomes["not asked"]
    return RunContent(
        points=[
            *keys.money_points(paid),
            *keys.known_points({f"respond/{name.replace(' ', '_')}": float(n) for name, n in outcomes.items()}),
        ],
        params={
            "respond": {
                "models": ", ".join(responding.models),
                "prompts": len(responding.prompts),
                "max_usd": max_usd,
                **prepared.judge.fields,
            }
        },
        description=page.to_markdown(),
        described_in=RESPOND_MARKDOWN,
        tags={keys.TAG_TRUNCATED: f"{missing} of {len(answers)} answers not asked"} if missing else {},
        artifacts={
            RESPOND_MARKDOWN: page.to_markdown(),
            keys.PAGE_JSON: page.to_dict(),
            RESPONSES_FILE: answers.astype({name: "string" for name in answers if answers[name].dtype == object}),
            keys.PROMPT_FILE: prepared.judge.prompt(),
        },
    )
