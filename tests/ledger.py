"""A two-sided ledger: what a server on loopback bills, beside what is booked and shown, for each way of asking.

Every row is a way in which an attempt can end (`engine/endings.py`). Every fourth answer ends so, the others are plain.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls
from jrh_mlflow.engine.batch import export_batch, import_batch
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.engine.sessions import LiveJudge
from jrh_mlflow.errors import JrhError, JudgeError
from jrh_mlflow.models.prices import price_of
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.tracking.runs import keys
from tests.generation.tools import PRICES as WRITERS_PRICES
from tests.generation.tools import Player, rows, run
from tests.loopback import LoopbackServer, Reply, error_reply
from tests.loopback_replies import Body, ReplyFunction, completion, tokens_billed

MODEL = "openai/gpt-4o-mini"
PRICES = {MODEL: (1.0, 4.0)}
VERDICT = '{"reason": "r", "verdict": "A"}'
USAGE = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
EVERY = 4
"""One of so many answers is that of the row."""
SUITE = jrh.Suite(name="ledger", items=jrh.datasheet_suite(n_tasks=4, depth=1).items[:8])
SEARCHED = jrh.datasheet_suite(n_tasks=4, depth=1)


def body_of(message: object, **fields: Any) -> Reply:
    """A completion around any message, which tells its usage."""
    choice = {"index": 0, "message": message, "finish_reason": "stop", **fields.pop("choice", {})}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "choices": [choice]}
    return Reply(raw=json.dumps({**whole, "usage": USAGE, **fields}).encode(), bills=(100, 7))


def said(content: object, **message: Any) -> dict[str, Any]:
    """A message of the assistant."""
    return {"role": "assistant", "content": content, **message}


CALL = {"id": "c", "type": "function", "function": {"name": "grade", "arguments": "{}"}}
ROWS: dict[str, Reply] = {
    "text": Reply(text=VERDICT),
    "text in parts": body_of(said([{"type": "text", "text": VERDICT}])),
    "refusal": Reply(refusal="I cannot."),
    "tool call": body_of(said(None, tool_calls=[CALL]), choice={"finish_reason": "tool_calls"}),
    "cut off": Reply(text="Let me think", finish_reason="length"),
    "filtered": Reply(text=None, finish_reason="content_filter"),
    "no choices": Reply(choices=False),
    "200 without a message": body_of(None),
    "200 with an error in the body": body_of(said(None), error={"message": "Busy.", "code": 503}),
    "400 that tells a usage": Reply(
        status=400, raw=json.dumps({"error": {"message": "no"}, "usage": USAGE}).encode(), bills=(100, 7)
    ),
    "429": error_reply(429, "Slow down.", retry_after="0.01"),
    "500": error_reply(500, "Oops."),
    "text without a usage": Reply(text=VERDICT, usage=False),
    "200 that is no JSON": Reply(raw=b"<html>", bills=(100, 7)),
    "400 that tells nothing": replace(error_reply(400, "Filtered by Azure."), bills=(100, 7)),
    "504": replace(error_reply(504, "Too late."), bills=(100, 7)),
    "cut connection": Reply(text=VERDICT, cut=True),
}
SILENT = tuple(ROWS)[12:]
"""Rows of which nobody tells the cost."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Micro-dollars of one row in one way of asking."""

    billed: int
    usd: float
    worst: float
    requests: int
    attempts: int

    @property
    def holds(self) -> bool:
        """Whether the bill lies between what is shown and that plus the worst case."""
        return self.usd <= self.billed + 1e-6 and self.billed <= self.usd + self.worst + 1e-6

    @property
    def is_equal(self) -> bool:
        """Whether the bill is what is shown."""
        return abs(self.usd - self.billed) < 1e-6 and not self.worst


def mixed(bad: Reply | Sequence[Reply], good: ReplyFunction) -> ReplyFunction:
    """Answer as `good` does, but for every fourth time; of several bad answers each has its turn."""
    turns, ends = itertools.count(), itertools.cycle([bad] if isinstance(bad, Reply) else bad)
    return lambda body: next(ends) if next(turns) % EVERY == 1 else good(body)


def judge_at(server: LoopbackServer) -> jrh.PromptedJudge:
    """The judge of the ledger."""
    return judge_of(server.url)


def judge_of(url: str) -> jrh.PromptedJudge:
    """The same at an address."""
    return jrh.PromptedJudge(MODEL, api_base=url, max_tokens=64)


def of_metrics(server: LoopbackServer, metrics: dict[str, float], *, prices: tuple[float, float]) -> Cell:
    """Read a cell off what a run shows."""
    return Cell(
        billed=server.bill_micro(*prices),
        usd=1e6 * metrics.get("cost/usd", 0.0),
        worst=1e6 * metrics.get("cost/booked_worst_case", 0.0),
        requests=server.counts["requests"],
        attempts=int(metrics.get("cost/attempts", 0)),
    )


def by_evaluating(bad: Reply, folder: Path, *, transport: str = "direct") -> Cell:
    """Ask what an evaluation asks, and show the metrics it shows."""
    with LoopbackServer(reply=mixed(bad, lambda _: VERDICT)) as server, open_journal(folder / "e.db") as journal:
        judge = judge_at(server)
        settings = ClientSettings(concurrency=2, price=judge.price(PRICES), transport=transport)
        asked = ask_calls(judge, plan_calls(SUITE, judge, replicates=1), journal=journal, settings=settings)
        points = keys.call_points(calls_frame(asked.records), seconds=1.0, paid=asked.paid)
        books = of_metrics(server, keys.last_values(points), prices=PRICES[MODEL])
        assert journal.summary().spent_micro == pytest.approx(books.usd + books.worst)
    return books


def by_litellm(bad: Reply, folder: Path) -> Cell:
    """Evaluate a judge through litellm."""
    return by_evaluating(bad, folder, transport="litellm")


def of_records(server: LoopbackServer, records: Iterable[CallRecord]) -> Cell:
    """Read a cell off records."""
    columns = ("cost_usd", "worst_usd", "attempts")
    usd, worst, attempts = (sum(getattr(record, name) or 0.0 for record in records) for name in columns)
    billed = server.bill_micro(*PRICES[MODEL])
    return Cell(
        billed=billed, usd=1e6 * usd, worst=1e6 * worst, requests=server.counts["requests"], attempts=int(attempts)
    )


def by_scoring(bad: Reply, _: Path) -> Cell:
    """Ask as a scorer in use does, row by row."""
    with LoopbackServer(reply=mixed(bad, lambda _: VERDICT)) as server:
        judge = judge_at(server)
        live = LiveJudge(judge)
        live.__dict__["_price"] = price_of(MODEL, PRICES)
        records = [record for call in plan_calls(SUITE, judge, replicates=1) for record in live.ask([call])]
    return of_records(server, records)


def by_batch(bad: Reply, folder: Path) -> Cell:
    """Import the results of a batch."""
    billed = requests = 0
    judge, reply = jrh.PromptedJudge(MODEL, max_tokens=64), mixed(bad, lambda _: Reply(text=VERDICT))
    with open_journal(folder / "batch.db") as journal:
        (file,) = export_batch(judge, SUITE, journal, folder / "requests.jsonl").files
        lines = []
        for line in map(json.loads, file.read_text().splitlines()):
            answer, line_body = _reply(reply, line["body"])
            given, made = tokens_billed(answer, line["body"])
            billed += int(given * PRICES[MODEL][0] + made * PRICES[MODEL][1])
            requests += 1
            response = {"status_code": answer.status, "body": line_body}
            lines.append(json.dumps({"custom_id": line["custom_id"], "response": response, "error": None}))
        (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
        import_batch(file, folder / "results.jsonl", journal, judge, prices=PRICES)
        return of_bill(journal, billed=billed, requests=requests)


def of_bill(journal: Journal, *, billed: int, requests: int) -> Cell:
    """Read a cell off what `jrh journal bill` prints."""
    paid = sum(bill(journal).values(), Paid())
    return Cell(billed=billed, usd=paid.micro, worst=paid.worst_micro, requests=requests, attempts=paid.calls)


def _reply(reply: ReplyFunction, body: Body) -> tuple[Reply, Any]:
    given = reply(body)
    answer = given if isinstance(given, Reply) else Reply(text=given)
    if answer.raw is None:
        return answer, completion(answer, body, body["model"])
    with contextlib.suppress(ValueError):
        return answer, json.loads(answer.raw)
    return answer, answer.raw.decode()


def by_generating(bad: Reply | Sequence[Reply], folder: Path, *, store_uri: str) -> Cell:
    """Generate texts, and have them validated."""
    dataset = rows(20)
    player = Player(dataset, tests=["label_flip"])
    with LoopbackServer(reply=mixed(bad, player)) as server:
        done = run(
            dataset, server, store_uri, tests=["label_flip"], prices=WRITERS_PRICES, journal=str(folder / "g.db")
        )
    return of_metrics(server, done.metrics, prices=(10.0, 20.0))


def by_sweeping(bad: Reply | Sequence[Reply], folder: Path, *, store_uri: str) -> Cell:
    """Search over one configuration."""
    with LoopbackServer(reply=mixed(bad, lambda _: VERDICT)) as server:
        models = [{"model": MODEL, "api_base": server.url, "max_tokens": 64}]
        options: dict[str, Any] = {
            "prices": PRICES,
            "tracking_uri": store_uri,
            "concurrency": 2,
            "journal": folder / "s.db",
        }
        how: dict[str, Any] = {"max_replicates": 1, "max_usd": 1000.0, "traces": "none", "early_stop": False}
        try:
            done = jrh.sweep({"models": models}, SEARCHED, **how, **options)
            run_id = done.run_id
        except JudgeError:  # nothing could be measured: what was paid is on the run all the same
            run_id = newest_run(store_uri, "sweep")
        metrics = MlflowClient(store_uri).get_run(run_id).data.metrics
        return of_metrics(server, metrics, prices=PRICES[MODEL])


def newest_run(store_uri: str, kind: str) -> str:
    """Return the run of a kind that was begun last."""
    client = MlflowClient(store_uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    begun = ["attributes.start_time DESC"]
    (found,) = client.search_runs(experiments, f"tags.`{keys.TAG_KIND}` = '{kind}'", max_results=1, order_by=begun)
    return str(found.info.run_id)


WAYS: dict[str, Callable[..., Cell]] = {
    "direct": by_evaluating,
    "litellm": by_litellm,
    "batch": by_batch,
    "scorer": by_scoring,
    "generate": by_generating,
    "sweep": by_sweeping,
}
NEEDS_STORE = ("generate", "sweep")
NOT_IN_BATCHES = ("cut connection", "429")
"""A file has no connection, and nobody is turned away from it."""


def cell(row: str, way: str, folder: Path) -> Cell | None:
    """Fill one cell; None where a way of asking cannot end so."""
    if way == "batch" and row in NOT_IN_BATCHES:
        return None
    try:
        return WAYS[way](ROWS[row], folder)
    except JrhError as error:
        raise AssertionError(f"{row} × {way}: {error}") from error
