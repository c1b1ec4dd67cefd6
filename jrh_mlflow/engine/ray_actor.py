"""What runs inside a Ray worker: a judge's session, and calls that come and go in batches."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jrh_mlflow.engine.budget import OutOfBudget
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.sessions import KeyedCall, session_for
from jrh_mlflow.errors import JrhError, RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.items import Call, CallRecord

LONGEST_TURN_S = 0.5
"""An exchange ends after this long even when no call has, so that an actor can be handed more."""
LINGER_S = 0.01
"""Calls that end together travel together: a message costs more than most of what is in it."""
LONGEST_EXIT_S = 5.0
"""Longest wait for a killed worker's process to end."""


class ActorCall(NamedTuple):
    """One call on its way to an actor."""

    number: int
    work: KeyedCall | Call
    """With its key for a prompted judge, a bare call for any other."""


class ActorResult(NamedTuple):
    """One call on its way back: a record, or what kept it from being made."""

    number: int
    record: CallRecord | None
    failure: JrhError | OutOfBudget | None = None


class ActorPlace(NamedTuple):
    """Where an actor lives."""

    host: str
    pid: int
    node: str
    """Ray's name of the machine."""


@dataclass(frozen=True, kw_only=True)
class ActorSettings:
    """What an actor is told when it starts. No key is in it: keys come from the worker's own environment."""

    judge: bytes = field(repr=False)
    settings: ClientSettings
    """This actor's share of concurrency and limits."""
    journal: str | None = field(repr=False)
    """Its address, which may hold a password."""
    cap_micro: int | None
    folder: str
    """Where the driver runs: a judge's module may lie there."""


def shares(settings: ClientSettings, n: int) -> list[ClientSettings]:
    """Divide concurrency and limits among `n` actors.

    Example:
        >>> [share.concurrency for share in shares(ClientSettings(concurrency=8, requests_per_minute=60), 3)]
        [3, 3, 2]
    """
    whole, rest = divmod(settings.concurrency, n)
    requests, tokens = settings.requests_per_minute, settings.tokens_per_minute
    return [
        replace(
            settings,
            concurrency=whole + (index < rest),
            requests_per_minute=None if requests is None else requests / n,
            tokens_per_minute=None if tokens is None else tokens / n,
        )
        for index in range(n)
    ]


class CallActor:
    """The actor. `open`, then `exchange` again and again, one at a time, then `close`."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._ended: list[ActorResult] = []
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, given: ActorSettings, predecessor: ActorPlace | None) -> ActorPlace:
        """Load the judge and open the journal, which settles what a killed predecessor left in it.

        Raises:
            JrhError: when the judge cannot be loaded here or the journal not be opened.
        """
        import ray

        judge, journal = _unpack(given), None
        if judge.journalled:
            await _wait_until_gone(predecessor)
            journal = self._journal(given)
        self._session = await self._stack.enter_async_context(session_for(judge, journal, given.settings))
        return ActorPlace(socket.gethostname(), os.getpid(), ray.get_runtime_context().get_node_id())

    def _journal(self, given: ActorSettings) -> Journal:
        assert given.journal is not None
        journal = self._stack.enter_context(open_journal(given.journal))
        if given.settings.budget is not None:
            journal.open_budget(given.settings.budget, given.cap_micro)
        return journal

    async def exchange(self, calls: list[ActorCall]) -> list[ActorResult]:
        """Take new calls and give back those that have ended since the last exchange; waits for the first of them."""
        for call in calls:
            task = asyncio.create_task(self._settle(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if not self._ended:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), LONGEST_TURN_S)
            except asyncio.TimeoutError:
                return []
        await asyncio.sleep(LINGER_S)
        ended, self._ended = self._ended, []
        return ended

    async def _settle(self, call: ActorCall) -> None:
        try:
            ended = ActorResult(call.number, await self._ask(call.work))
        except (JrhError, OutOfBudget) as error:
            ended = ActorResult(call.number, None, error)
        except Exception as error:
            # A defect of ours, not of the judge: it must reach the driver, and not end as a call that never returns.
            ended = ActorResult(call.number, None, JrhError(f"Ray worker: {type(error).__name__}: {error}"))
        self._ended.append(ended)
        self._news.set()

    async def _ask(self, work: KeyedCall | Call) -> CallRecord:
        # Looks into the journal first: a call that a killed actor had answered is served, and not paid again.
        record = self._session.ask(work)
        return record if isinstance(record, CallRecord) else await record

    async def close(self) -> None:
        """Close connections and the journal."""
        await self._stack.aclose()


def _unpack(given: ActorSettings) -> Judge:
    if given.folder not in sys.path:
        sys.path.append(given.folder)
    try:
        judge: Judge = pickle.loads(given.judge)  # noqa: S301 - made by the driver of this very run
    except Exception as error:  # unpickling runs imports, which may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise RecipeError(
            f"A Ray worker on {socket.gethostname()} cannot load the judge ({reason}). "
            "Install its module on every node of the cluster."
        ) from error
    return judge


async def _wait_until_gone(predecessor: ActorPlace | None) -> None:
    """Wait until a killed actor's process is gone: only then does the journal settle what it left."""
    if predecessor is None or predecessor.host != socket.gethostname():
        return
    until = time.monotonic() + LONGEST_EXIT_S
    while _is_running(predecessor.pid) and time.monotonic() < until:
        await asyncio.sleep(0.02)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
