"""What a run shows is what its attempts came to, also those of calls that left no record: billed against shown."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine.budget import Paid, bill
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import BudgetError, JudgeError
from tests.cases import few
from tests.generation.tools import PRICES as WRITERS_PRICES
from tests.generation.tools import Player, rows, run
from tests.ledger import MODEL, PRICES, SEARCHED, SUITE, VERDICT, Cell, body_of, judge_at, newest_run, of_metrics
from tests.loopback import LoopbackServer, Reply
from tests.loopback_replies import Body

pytestmark = pytest.mark.usefixtures("without_back_off")

UNUSABLE = body_of(None)
"""HTTP 200 without a message that tells its usage: paid, and asked for once more."""
CUT = Reply(text=VERDICT, cut=True)


def evaluate(judge: jrh.PromptedJudge, suite: jrh.Suite, **options: Any) -> jrh.Evaluation:
    """Measure a judge and log it, without traces, at which no test of this file looks."""
    return jrh.evaluate(judge, suite, **{"traces": "none", "prices": PRICES, **options})


def shown(server: LoopbackServer, store_uri: str, run_id: str) -> Cell:
    """Read a cell off the metrics that MLflow has of a run."""
    return of_metrics(server, MlflowClient(store_uri).get_run(run_id).data.metrics, prices=PRICES[MODEL])


def by_prompt(first: Reply, *, after: int = 1) -> Callable[[Body], str | Reply]:
    """Answer the first `after` times that a prompt is asked with `first`, then plainly."""
    asked: Counter[str] = Counter()

    def reply(body: Body) -> str | Reply:
        prompt = json.dumps(body["messages"])
        asked[prompt] += 1
        return first if asked[prompt] <= after else VERDICT

    return reply


@pytest.mark.parametrize("cap", [0.005, 0.008, 0.012])
def test_a_run_that_a_cap_ends_between_two_attempts_shows_what_they_told(
    store_uri: str, tmp_path: Path, cap: float
) -> None:
    with LoopbackServer(reply=by_prompt(UNUSABLE)) as server:
        with contextlib.suppress(BudgetError):
            evaluate(
                judge_at(server),
                SUITE,
                tracking_uri=store_uri,
                max_usd=cap,
                concurrency=4,
                journal=tmp_path / "j.db",
            )
        cell = shown(server, store_uri, newest_run(store_uri, "evaluate"))
        assert cell.is_equal, cell
        assert cell.attempts == cell.requests > 0


def test_a_run_that_is_interrupted_between_two_attempts_shows_what_they_told(store_uri: str, tmp_path: Path) -> None:
    turns = itertools.count()

    def reply(_: Body) -> str | Reply:
        number = next(turns)
        if number == 9:
            # The answer is on its way while others wait for their second attempt.
            os.kill(os.getpid(), signal.SIGINT)
        return UNUSABLE if number in (2, 5, 7, 8, 9) else VERDICT

    with LoopbackServer(reply=reply) as server:
        with pytest.raises(KeyboardInterrupt):
            evaluate(
                judge_at(server),
                SUITE,
                tracking_uri=store_uri,
                concurrency=3,
                journal=tmp_path / "j.db",
            )
        cell = shown(server, store_uri, newest_run(store_uri, "evaluate"))
        assert cell.is_equal, cell
        assert cell.attempts == cell.requests < 2 * len(SUITE)


def test_a_call_that_is_asked_once_more_at_the_end_shows_both_times(store_uri: str, tmp_path: Path) -> None:
    turns, first = itertools.count(), list[str]()

    def reply(body: Body) -> str | Reply:
        # One call is cut six times, and answered when it is asked once more.
        prompt = json.dumps(body["messages"])
        first.append(prompt)
        return CUT if prompt == first[0] and next(turns) < 6 else VERDICT

    with LoopbackServer(reply=reply) as server:
        done = evaluate(
            judge_at(server),
            SUITE,
            tracking_uri=store_uri,
            concurrency=2,
            journal=tmp_path / "j.db",
        )
        cell = shown(server, store_uri, done.run_id)
    assert set(done.calls["outcome"]) == {"verdict"}
    assert cell.holds, cell
    assert cell.attempts == cell.requests


def test_a_run_whose_first_answers_cannot_be_used_shows_what_they_cost(store_uri: str, tmp_path: Path) -> None:
    with LoopbackServer(reply=lambda _: UNUSABLE) as server:
        with pytest.raises(JudgeError):
            evaluate(judge_at(server), SEARCHED, tracking_uri=store_uri, concurrency=2, journal=tmp_path / "j.db")
        run_id = newest_run(store_uri, "evaluate")
        cell = shown(server, store_uri, run_id)
    assert MlflowClient(store_uri).get_run(run_id).info.status == "FAILED"
    assert cell.is_equal, cell
    assert cell.attempts == cell.requests >= 20


def test_a_judge_of_single_responses_shows_the_half_of_a_pair_that_has_no_other(store_uri: str, tmp_path: Path) -> None:
    """A pair of which one half was paid when the cap ended the run."""
    with LoopbackServer(reply=lambda _: '{"reason": "r", "score": 3}') as server:
        judge = jrh.pointwise(judge_at(server))
        with contextlib.suppress(BudgetError):
            evaluate(
                judge,
                SUITE,
                tracking_uri=store_uri,
                concurrency=2,
                max_usd=0.004,
                journal=tmp_path / "j.db",
            )
        cell = shown(server, store_uri, newest_run(store_uri, "evaluate"))
    assert cell.is_equal, cell


@pytest.mark.parametrize("bad", few([pytest.param(UNUSABLE, id="unusable"), pytest.param(CUT, id="cut")]))
def test_a_sweep_that_measures_nothing_shows_what_it_cost(store_uri: str, tmp_path: Path, bad: Reply) -> None:
    with LoopbackServer(reply=lambda _: bad) as server:
        models = [{"model": MODEL, "api_base": server.url, "max_tokens": 64}]
        with pytest.raises(JudgeError):
            jrh.sweep(
                {"models": models},
                SEARCHED,
                prices=PRICES,
                tracking_uri=store_uri,
                concurrency=2,
                journal=tmp_path / "s.db",
                traces="none",
            )
        cell = shown(server, store_uri, newest_run(store_uri, "sweep"))
    assert cell.holds, cell
    assert cell.attempts == cell.requests > 0
    with open_journal(tmp_path / "s.db") as journal:
        paid = sum(bill(journal).values(), Paid())
    assert (paid.micro, paid.worst_micro) == (pytest.approx(cell.usd), pytest.approx(cell.worst))


def test_a_generation_that_a_cap_ends_shows_what_was_paid(store_uri: str, tmp_path: Path) -> None:
    dataset = rows(8)
    player, turns = Player(dataset, tests=["label_flip"]), itertools.count()

    def reply(body: Body) -> Any:
        return UNUSABLE if next(turns) % 2 else player(body)

    with LoopbackServer(reply=reply) as server:
        done = run(
            dataset,
            server,
            store_uri,
            tests=["label_flip"],
            prices=WRITERS_PRICES,
            journal=str(tmp_path / "g.db"),
            max_usd=0.06,
            concurrency=4,
        )
    cell = of_metrics(server, done.metrics, prices=(10.0, 20.0))
    assert cell.is_equal, cell
    assert done.truncated
