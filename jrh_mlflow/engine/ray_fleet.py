"""The calls of one evaluation in actors on a Ray cluster, found or started, left as it was found.

The driver plans, numbers and collects exactly as it does for local calls; only the asking happens elsewhere: inside a
Ray worker, in a judge's session. Actors share nothing but the journal: it serves what is answered, holds the budget,
and tells the dead from the living.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jrh_mlflow.engine.budget import OutOfBudget, Paid
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.interrupts import NotAsked, Stop
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.runner import Asked, OnRecord, StopRule, ask_calls, is_running, run_pool
from jrh_mlflow.engine.sessions import WORKERS_PER_SLOT, AnsweringSession, KeyedCall, session_for
from jrh_mlflow.errors import JrhError, JudgeError, RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.schema.items import Call, CallRecord

if TYPE_CHECKING:
    from typing_extensions import Self


LONGEST_TURN_S = 0.5
"""An exchange ends after this long even when no call has, so that an actor can be handed more."""
LINGER_S = 0.01
"""Calls that end together travel together: a message costs more than most of what is in it."""
LONGEST_EXIT_S = 5.0
"""Longest wait for a killed worker's process to end."""
OBJECT_STORE_BYTES = 100 * 2**20
"""Of a cluster started here: calls are small and travel inline, nothing is kept in the object store."""


class ActorCall(NamedTuple):
    """One call on its way to an actor."""

    number: int
    work: KeyedCall | Call
    """With its key for a prompted judge, a bare call for any other."""


class ActorResult(NamedTuple):
    """One call on its way back: a record, or what kept it from being made."""

    number: int
    record: CallRecord | None
    failure: JrhError | OutOfBudget | NotAsked | None = None
    paid: Paid | None = None
    """What all attempts of the actor came to so far."""


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
        self._stop = Stop()

    async def open(self, given: ActorSettings, predecessor: ActorPlace | None) -> ActorPlace:
        """Load the judge and open the journal, which settles what a killed predecessor left in it.

        Raises:
            JrhError: when the judge cannot be loaded here or the journal not be opened.
        """
        import ray

        judge, journal = _unpack(given), None
        if judge.model_judge:
            assert given.journal is not None
            await _wait_until_gone(predecessor)
            journal = self._stack.enter_context(open_journal(given.journal))
            if given.settings.budget is not None:
                journal.open_budget(given.settings.budget, given.cap_micro)
        self._session = await self._stack.enter_async_context(session_for(judge, journal, given.settings))
        if isinstance(self._session, AnsweringSession):
            # Another actor may have the calls under the other rubrics.
            self._session.asks_at_once = False
        return ActorPlace(socket.gethostname(), os.getpid(), ray.get_runtime_context().get_node_id())

    async def exchange(self, calls: list[ActorCall]) -> list[ActorResult]:
        """Take new calls and give back those that have ended since the last exchange; waits for the first of them."""
        with self._stop.heeded():
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
        return [result._replace(paid=self._session.paid) for result in ended]

    async def _settle(self, call: ActorCall) -> None:
        try:
            # Looks into the journal first: a call that a killed actor had answered is served, and not paid again.
            record = self._session.ask(call.work)
            ended = ActorResult(call.number, record if isinstance(record, CallRecord) else await record)
        except (JrhError, OutOfBudget, NotAsked) as error:
            ended = ActorResult(call.number, None, error)
        except Exception as error:
            # A defect of ours, not of the judge: it must reach the driver, and not end as a call that never returns.
            ended = ActorResult(call.number, None, JrhError(f"Ray worker: {type(error).__name__}: {error}"))
        self._ended.append(ended)
        self._news.set()

    async def stop(self) -> None:
        """Send nothing more; what is in flight is settled and handed over."""
        self._stop.stop()

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
    while is_running(predecessor.pid) and time.monotonic() < until:
        await asyncio.sleep(0.02)


def import_ray() -> Any:
    """Return the module `ray`.

    Raises:
        RecipeError: when it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise RecipeError('backend="ray" needs Ray, which is not installed: pip install "jrh-mlflow[ray]".') from None
    return ray


@contextmanager
def cluster() -> Iterator[Any]:
    """Lend `ray`, connected. What was initialised before stays up; what is started here is shut down.

    `RAY_ADDRESS` names a running cluster; without it one is started on this machine, quietly.

    Raises:
        JudgeError: when the cluster cannot be reached or started.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    _connect(ray)
    try:
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    before = signal.getsignal(signal.SIGTERM)
    try:
        if os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise JudgeError(f"The Ray cluster cannot be used: {' '.join(str(error).split())[:300]}") from error
    finally:
        # Ray takes SIGTERM for itself, and would end this process in the middle of what is paid.
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def journal_for_actors(ray: Any, address: str | os.PathLike[str]) -> str:
    """Return a journal's address as every actor can open it.

    Raises:
        RecipeError: for a file, when the cluster has other machines than this one.
    """
    text = os.fspath(address)
    if "://" in text:
        return text
    elsewhere = {node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]} - {socket.gethostname()}
    if elsewhere:
        raise RecipeError(
            f"A journal in a file belongs to one machine, and the Ray cluster has others: "
            f'{", ".join(sorted(elsewhere)[:3])}. Give journal="postgresql://…", which all of them can reach.'
        )
    return str(Path(text).resolve())


def pack_judge(ray: Any, judge: Judge) -> bytes:
    """Return a judge as bytes that a worker can load.

    Raises:
        RecipeError: when it holds what cannot be sent to another process.
    """
    try:
        packed: bytes = ray.cloudpickle.dumps(judge)
    except Exception as error:  # pickling runs code of the judge, which may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RecipeError(
            f"The judge {judge.name!r} cannot be sent to Ray's workers ({reason}). Open clients, locks and files "
            'inside the function instead of around it, or use backend="local".'
        ) from error
    return packed


def ask_calls_on_ray(
    judge: Judge,
    calls: Iterable[Call],
    *,
    concurrency: int = 32,
    on_record: OnRecord | None = None,
    stop: StopRule | None = None,
    journal: Journal | None = None,
    journal_address: str | os.PathLike[str] | None = None,
    cap_micro: int | None = None,
    settings: ClientSettings | None = None,
    n_actors: int | None = None,
    raising: bool = True,
) -> Asked:
    """Ask every call as `ask_calls` does, in actors on a Ray cluster.

    Calls that the journal answers are served on the driver: a repeated run starts no cluster. A judge that never waits
    (a scripted one) is asked on the driver, too. Keys come from the environment of Ray's workers; none is sent.

    An actor that dies is replaced and its calls are given out again. Of a prompted judge none that was answered is
    paid again; a callable's answers are in no journal, so those it had not handed over are asked again.

    Args:
        judge: The judge; whatever is not a prompted one is pickled with cloudpickle.
        calls: In the order of the plan; numbered here.
        concurrency: Most calls in flight, over all actors.
        on_record: Told about every record.
        stop: Told about every record; returns why no further call should be made.
        journal: Open on the driver; for a prompted judge.
        journal_address: Where actors open the same journal: a path when all of Ray is on this machine, else a URL.
        cap_micro: Of the budget that `settings` names.
        settings: Limits for all actors together; each gets its share.
        n_actors: By default one per processor of the cluster, never more than `concurrency`.
        raising: As for `ask_calls`.

    Raises:
        RecipeError: without Ray, for a judge that cannot be sent, and for a file as the journal of many machines.
        JudgeError: when the judge's service fails for good, or actors keep dying.
    """
    if concurrency < 1 or (n_actors is not None and n_actors < 1):
        raise ValueError(f"`concurrency, n_actors >= 1` must hold, but got {concurrency=}, {n_actors=}.")
    import_ray()
    if judge.inline:
        return ask_calls(judge, calls, concurrency=concurrency, on_record=on_record, stop=stop, raising=raising)
    settings = settings or ClientSettings(concurrency=concurrency)
    fleet = Fleet(judge, settings=settings, journal=journal_address, cap_micro=cap_micro, n_actors=n_actors)
    if judge.model_judge and journal_address is None:
        raise ValueError("A prompted judge is asked through a journal: give `journal` and `journal_address`.")
    # Prepares the calls and serves what is answered; on the driver it stays closed.
    session = session_for(judge, journal, settings)

    def ask(work: KeyedCall | Call) -> CallRecord | Awaitable[CallRecord]:
        return session.kept(work) or fleet.ask(work)

    work = session.prepare(calls)
    return run_pool(
        work,
        session.watching(ask),
        within=fleet,
        workers=session.workers,
        on_record=on_record,
        stop=stop,
        may_pass=session.may_pass,
        paid=lambda: session.paid and sum(fleet.paid.values(), session.paid),
        on_stop=fleet.stop,
        raising=raising,
    )


class Fleet:
    """Actors, and for each a courier on the driver that hands it calls and takes records back."""

    def __init__(
        self,
        judge: Judge,
        *,
        settings: ClientSettings,
        journal: str | os.PathLike[str] | None,
        cap_micro: int | None,
        n_actors: int | None,
    ) -> None:
        """Describe the actors; cluster and actors are started by the first call that needs one."""
        self._judge, self._settings = judge, settings
        self._journal, self._cap_micro, self._n_actors = journal, cap_micro, n_actors
        self._numbers = itertools.count()
        self._futures: dict[int, asyncio.Future[CallRecord]] = {}
        self._queue: deque[ActorCall] = deque()
        self.arrived = asyncio.Event()
        """Set while the queue holds a call."""
        self._stack = ExitStack()
        self._couriers: list[_Courier] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._broken: Exception | None = None
        self.paid: dict[ActorPlace | None, Paid] = {}
        """What the attempts of each actor came to, as far as it told."""
        self._deaths = 0
        """Actors that died since the last record came back."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: Any) -> None:
        with self._stack:  # whatever happens, actors end and a cluster started here is shut down
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def ask(self, work: KeyedCall | Call) -> Awaitable[CallRecord]:
        """Queue a call for the next actor with room.

        Raises (at once or awaited):
            OutOfBudget: The cap does not cover this call; nothing was sent.
            JrhError: Cluster, judge or service cannot be used.
        """
        if self._broken is not None:
            raise self._broken
        if not self._couriers:
            self._start()
        call = ActorCall(next(self._numbers), work)
        future = self._futures[call.number] = asyncio.get_running_loop().create_future()
        self._queue.append(call)
        self.arrived.set()
        return future

    def _start(self) -> None:
        try:
            self._ray = ray = self._stack.enter_context(cluster())
            n_cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
            n = min(self._n_actors or n_cpus, self._settings.concurrency)
            packed = pack_judge(ray, self._judge)
            address = None if self._journal is None else journal_for_actors(ray, self._journal)
        except JrhError as error:
            self._broken = error
            raise
        self._limit = 2 * n + 1
        for share in shares(self._settings, n):
            given = ActorSettings(
                judge=packed, settings=share, journal=address, cap_micro=self._cap_micro, folder=str(Path.cwd())
            )
            self._couriers.append(_Courier(self, ray, given))
            self._tasks.append(asyncio.create_task(self._couriers[-1].run()))

    def stop(self) -> None:
        """End the calls that no actor has yet, and have the actors send nothing more."""
        self._stopped = True
        self._end(self.draw(len(self._queue)), NotAsked())
        for courier in self._couriers:
            courier.stop()

    def draw(self, room: int) -> list[ActorCall]:
        """Take at most `room` calls from the queue."""
        calls = [self._queue.popleft() for _ in range(min(room, len(self._queue)))]
        if not self._queue:
            self.arrived.clear()
        return calls

    def deliver(self, ended: ActorResult) -> None:
        """Wake the worker that waits for a call."""
        self._deaths = 0
        future = self._futures.pop(ended.number)
        if future.done():  # its worker was cancelled
            return
        if ended.record is not None:
            future.set_result(ended.record)
        elif ended.failure is not None:
            future.set_exception(ended.failure)

    def count_death(self, reason: Exception) -> None:
        """Count an actor that died.

        Raises:
            JudgeError: when too many did in a row: then something kills them, and calls would be sent for ever.
        """
        self._deaths += 1
        if self._deaths > self._limit:
            why = " ".join(str(reason).split())[:300]
            raise JudgeError(f"{self._deaths} Ray workers died in a row without an answer, the last: {why}")

    def give_back(self, calls: Iterable[ActorCall]) -> None:
        """Queue the calls of an actor that died, before all others; after a stop they are not asked again."""
        if self._stopped:
            self._end(calls, NotAsked())
            return
        self._queue.extendleft(reversed(list(calls)))
        self.arrived.set()

    def give_up(self, calls: Iterable[ActorCall], reason: Exception) -> None:
        """End the calls of one actor, and those that wait; what other actors have in flight is still settled."""
        self._broken = self._broken or reason
        self._end((*calls, *self.draw(len(self._queue))), reason)

    def _end(self, calls: Iterable[ActorCall], reason: Exception) -> None:
        for call in calls:
            future = self._futures.pop(call.number)
            if not future.done():
                future.set_exception(reason)


class _Courier:
    """Keeps one actor busy, and replaces it when it dies."""

    def __init__(self, fleet: Fleet, ray: Any, given: ActorSettings) -> None:
        self._fleet, self._ray, self._given = fleet, ray, given
        self._room = given.settings.concurrency * (1 if given.journal is None else WORKERS_PER_SLOT)
        self._out: dict[int, ActorCall] = {}
        self._actor: Any = None
        self._is_open = False
        self._place: ActorPlace | None = None

    def stop(self) -> None:
        """Have the actor send nothing more."""
        if self._is_open:
            self._actor.stop.remote()

    async def run(self) -> None:
        try:
            while True:
                await self._turn()
        except asyncio.CancelledError:
            await self._stop_actor()
            raise
        except Exception as error:
            # Ray wraps what an actor raises; the cause is what was meant.
            cause = getattr(error, "cause", None)
            self._fleet.give_up(self._out.values(), cause if isinstance(cause, Exception) else error)
            await self._stop_actor()

    async def _turn(self) -> None:
        """Hand new calls over and take back those that have ended."""
        errors = self._ray.exceptions
        try:
            if self._actor is None:
                await self._start_actor()
            calls = self._fleet.draw(self._room - len(self._out))
            if not calls and not self._out:
                await self._fleet.arrived.wait()
                return
            self._out.update((call.number, call) for call in calls)
            ended: list[ActorResult] = await self._actor.exchange.remote(calls)
        except errors.RayTaskError:
            raise
        except errors.RayError as death:
            self._discard()
            self._fleet.count_death(death)
            return
        for result in ended:
            del self._out[result.number]
            if result.paid is not None:
                self._fleet.paid[self._place] = result.paid
            self._fleet.deliver(result)
        await asyncio.sleep(0)  # workers that were woken queue their next calls

    async def _start_actor(self) -> None:
        # No share of a processor: asking is waiting, and a busy cluster must not keep it from starting.
        options = {"num_cpus": 0, "max_restarts": 0, "scheduling_strategy": self._where()}
        self._actor = self._ray.remote(CallActor).options(**options).remote()
        self._place = await self._actor.open.remote(self._given, self._place)
        self._is_open = True
        # Only now: opening the journal has brought in what the dead actor had received, so none of it is paid again.
        self._fleet.give_back(self._out.values())
        self._out.clear()

    def _where(self) -> object:
        """Anywhere at first; after a death on the same machine if it lives, where the dead actor's spool lies."""
        if self._place is None:
            return "SPREAD"
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(node_id=self._place.node, soft=True)

    def _discard(self) -> None:
        """Let go of an actor that is dead, or that Ray cannot reach any more and that must not go on."""
        self._ray.kill(self._actor)
        self._actor, self._is_open = None, False

    async def _stop_actor(self) -> None:
        """End the actor; with calls in flight at once, else after it has closed its journal."""
        if self._actor is None:
            return
        if self._is_open and not self._out:
            with suppress(self._ray.exceptions.RayError):  # dead already, and it held nothing
                await self._actor.close.remote()
        self._discard()
