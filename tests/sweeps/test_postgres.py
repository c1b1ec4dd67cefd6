"""Two processes on one PostgreSQL, which holds answers, budget and study: nothing twice, nothing lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from mlflow import MlflowClient
from mlflow.entities import Run

import jrh_mlflow as jrh
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.engine.sessions import WORKERS_PER_SLOT
from jrh_mlflow.errors import JournalError, RecipeError, TrackingError
from jrh_mlflow.sweeps.study import LIMITS, Trials, driver_url, open_study, quiet
from jrh_mlflow.sweeps.sweep import demand_parent, join_sweep, price_sweep, set_up, study_name
from jrh_mlflow.sweeps.trials import BudgetReached
from jrh_mlflow.tracking.runs.store import Store
from tests import postgres
from tests.loopback import LoopbackServer
from tests.processes import Forked
from tests.sweeps.test_budget import MODEL, PRICES, paid, reply
from tests.sweeps.test_sweep import nested

ROOT = Path(__file__).parent.parent.parent
JRH = """
from jrh_mlflow.cli import main
from tests.sweeps.plain_runs import without_pages
with without_pages():
    main()
"""
CONCURRENCY = 4
TEMPERATURES, ORDERS = ("0.0", "0.3", "0.5", "1.0"), ("one", "both")


class GatedServer(LoopbackServer):
    """Answers nobody while its gate is closed: a process cannot be done before the other one has begun."""

    closed = True

    def __init__(self) -> None:
        super().__init__(reply=reply, record=True)
        self.arrived: Counter[str] = Counter()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.arrived[request.headers["Authorization"]] += 1
        while self.closed:
            await asyncio.sleep(0.02)
        return await super()._chat(request)


@dataclass(frozen=True)
class Site:
    """A database, a model server and an MLflow store that several processes work with."""

    folder: Path
    address: str
    server: GatedServer
    store_uri: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def space(self) -> jrh.Space:
        # One order and both are read from the same calls: run at once by two processes, they would be paid twice.
        model = {"model": MODEL, "api_base": self.server.url, "max_tokens": 64}
        return jrh.Space(models=[model], temperatures=[*map(float, TEMPERATURES)], orders=ORDERS)

    @property
    def study(self) -> str:
        """Its name."""
        return study_name(self.space, jrh.load_suite(self.folder / "suite"), 0)

    def start(self, who: str, *more: str) -> subprocess.Popen[str]:
        """Run `jrh sweep` as a process that the model server knows by its key."""
        model = f"{{model: {MODEL}, api_base: '{self.server.url}', max_tokens: 64}}"
        space = f"models: [{model}]\ntemperatures: [{', '.join(TEMPERATURES)}]\norders: [{', '.join(ORDERS)}]\n"
        (self.folder / "space.yaml").write_text(space, encoding="utf-8")
        where = ["--journal", self.address, "--storage", self.address, "--tracking-uri", self.store_uri]
        where += ["--experiment", "sweeps", "--suite", str(self.folder / "suite"), "--price", f"{MODEL}=1000,2000"]
        rest = ["--concurrency", str(CONCURRENCY), "--no-early-stop", "--max-replicates", "1", *more]
        command = [JRH, "sweep", self.folder / "space.yaml", *where, *rest]
        env = {**os.environ, "OPENAI_API_KEY": key_of(who), "PYTHONPATH": str(ROOT)}
        with (self.folder / f"{who}.out").open("a", encoding="utf-8") as out:
            self.started.append(Forked(*command, env=env, cwd=self.folder, stdout=out, stderr=out, text=True))
        return self.started[-1]

    def sweep(self, *, max_usd: float) -> jrh.Sweep:
        """Run the sweep in this process, as the command does."""
        where = {"journal": self.address, "storage": self.address, "tracking_uri": self.store_uri}
        how = {"experiment": "sweeps", "concurrency": CONCURRENCY, "early_stop": False, "max_replicates": 1}
        suite = jrh.load_suite(self.folder / "suite")
        return jrh.sweep(self.folder / "space.yaml", suite, max_usd=max_usd, prices=PRICES, **where, **how)

    def asked_by(self, who: str) -> int:
        """Requests of one process."""
        return self.server.arrived[f"Bearer {key_of(who)}"]

    def sent(self) -> Counter[str]:
        """Requests by what was asked, at the server."""
        return Counter(_question(one["body"]) for one in self.server.requests)

    def answered(self) -> Counter[str]:
        """Answers by what was asked, in the journal, where each call has its own."""
        with open_journal(self.address) as journal:
            requests = [request for call, request, _ in journal.settled_since(0) if call.state == "answered"]
        return Counter(_question(json.loads(request or "")) for request in requests)

    def states(self) -> tuple[Counter[str], str]:
        """How the trials of the study ended, and its parent run."""
        with quiet(), open_study(self.study, self.address, ["maximize", "minimize"], create=False) as (study, _):
            trials = Trials(study, self.space, pair=True, seed=0)
            states = Counter(trial.state.name for trial in trials.all())
            states["measured"] = len(trials.measured())
            return states, study.user_attrs["jrh:parent"]

    def finished(self, parent: str) -> Counter[tuple[str, str]]:
        """Whole runs of the search by configuration."""
        runs = nested(self.store_uri, parent, "search")
        return Counter(
            _choice(run) for run in runs if run.info.status == "FINISHED" and "jrh.truncated" not in run.data.tags
        )


def key_of(who: str) -> str:
    return f"sk-loopback-{who}-0123456789"


def _question(request: dict[str, object]) -> str:
    return json.dumps([request["messages"], request["temperature"]], sort_keys=True)


def _choice(run: Run) -> tuple[str, str]:
    return run.data.params["choice.temperature"], run.data.params["choice.orders"]


@pytest.fixture
def site(tmp_path: Path, store_uri: str) -> Iterator[Site]:
    jrh.datasheet_suite(n_tasks=4, depth=1).save(tmp_path / "suite")
    with GatedServer() as server:
        own = Site(tmp_path, postgres.server().make_database(), server, store_uri)
        yield own
        for process in own.started:
            process.kill()
            process.wait()


def wait_for(site: Site, who: str, n_calls: int, *processes: subprocess.Popen[str]) -> None:
    for _ in range(4800):
        if site.asked_by(who) >= n_calls:
            return
        if any(process.poll() is not None for process in processes):
            break
        time.sleep(0.025)
    site.server.closed = False
    told = [path.read_text() for path in site.folder.glob("*.out")]
    raise AssertionError(f"{who} did not ask {n_calls} calls: {told}")


@pytest.mark.slow
def test_two_processes_share_trials_answers_and_one_cap_and_a_killed_one_loses_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    quoted = price_sweep(site.space, jrh.load_suite(site.folder / "suite"), prices=PRICES)
    assert quoted.grid_worst_usd is not None
    # Just enough for both halves of the two judges that are asked at once, at their worst.
    cap = 1.001 * quoted.grid_worst_usd
    main = site.start("main", "--max-usd", str(cap), "--n-trials", "2")
    wait_for(site, "main", 1, main)
    worker = site.start("worker", "--worker")
    wait_for(site, "worker", 1, main, worker)
    site.server.closed = False
    assert main.wait(timeout=120) == 0, (site.folder / "main.out").read_text()
    assert worker.wait(timeout=120) == 0, (site.folder / "worker.out").read_text()
    assert site.sent() == site.answered()
    assert paid(site.server) <= cap
    check_books(site, in_flight=0)
    spent = paid(site.server)

    site.server.closed = True
    monkeypatch.setenv("OPENAI_API_KEY", key_of("again"))
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(site.sweep, max_usd=1000.0)
        wait_for(site, "again", 1)
        second = site.start("second", "--worker")
        wait_for(site, "second", 1, second)
        second.send_signal(signal.SIGKILL)
        second.wait()
        site.server.closed = False
        assert again.result(timeout=120).truncated is None
    twice = site.sent() - site.answered()
    # What was in flight when its process died was paid, but its answer reached nobody.
    assert sum(twice.values()) <= CONCURRENCY
    assert paid(site.server) > spent
    states, parent = site.states()
    with open_journal(site.address) as journal:
        # Over restarts and deaths: what was in flight is counted at its worst.
        assert journal.spent_micro(f"sweep:{site.study}") >= round(1e6 * paid(site.server))
        assert journal.reserved_micro(f"sweep:{site.study}") == 0
    assert states["COMPLETE"] == states["measured"] == len(TEMPERATURES) * len(ORDERS)
    assert states["RUNNING"] == states["WAITING"] == 0
    assert site.finished(parent) == dict.fromkeys(product(TEMPERATURES, ORDERS), 1)
    # Half of what is reserved waits for its turn to be sent.
    check_books(site, in_flight=WORKERS_PER_SLOT * CONCURRENCY)
    assert_no_password(site)


def check_books(site: Site, *, in_flight: int) -> None:
    """The parent says what the server served; only of calls that died in flight it cannot know."""
    metrics = MlflowClient(tracking_uri=site.store_uri).get_run(site.states()[1]).data.metrics
    unknown = metrics.get("cost/unknown_calls", 0)
    assert unknown <= in_flight
    assert 0 <= metrics["calls/total"] - site.server.counts["billed"] <= unknown
    dearest = max(paid(site.server) * 1.5 / site.server.counts["billed"], 0.0)
    assert paid(site.server) - dearest * unknown <= metrics["cost/usd"] + 1e-9
    assert metrics["cost/usd"] <= paid(site.server) + 1e-9


def assert_no_password(site: Site) -> None:
    experiment = MlflowClient(tracking_uri=site.store_uri).get_experiment_by_name("sweeps")
    places = [site.folder, Path(site.store_uri.removeprefix("sqlite:///")).parent]
    places.append(Path(experiment.artifact_location.removeprefix("file://")))
    secrets = [one.encode() for one in (postgres.PASSWORD, postgres.ESCAPED)]
    files = [path for folder in places for path in folder.rglob("*") if path.is_file()]
    assert {"mlflow.db", "sweep.json", "main.out"} <= {path.name for path in files}
    for path in files:
        assert not any(secret in path.read_bytes() for secret in secrets), path


def test_the_address_of_the_journal_serves_for_the_study() -> None:
    assert driver_url("postgresql://u:p%40@h:5/d?host=/x") == "postgresql+psycopg://u:p%40@h:5/d?host=/x"
    assert driver_url("postgres://h/d") == "postgresql+psycopg://h/d"
    assert driver_url("postgresql+psycopg://u:{p}@h/d") == "postgresql+psycopg://u:%7Bp%7D@h/d"
    assert driver_url("sqlite:///a.db") == "sqlite:///a.db"


def test_an_address_that_is_wrong_is_refused_without_its_password(tmp_path: Path) -> None:
    with quiet():
        wrong = "postgresql://jrh:sec/ret-1@host/d"
        with pytest.raises(JournalError) as unreadable, open_study("s", wrong, ["maximize"]):
            pass
        absent = f"postgresql://jrh:secret-1@/d?host={tmp_path}"
        with pytest.raises(RecipeError, match="cannot be opened") as unreachable, open_study("s", absent, ["maximize"]):
            pass
    for raised in (unreadable.value, unreachable.value):
        assert "ret-1" not in "".join(traceback.format_exception(raised))


def begin(site: Site, suite: jrh.Suite, **where: Any) -> None:
    """Make a sweep with a cap that pays for no trial of another process, and ask nothing."""
    with quiet(), set_up(site.space, suite, max_usd=1000.0, journal=site.address, **where) as context:
        context.trials.study.set_user_attr(LIMITS, {**context.trials.limits, "max_usd": 1e-6})


def test_a_worker_that_does_not_belong_is_refused(site: Site, tmp_path: Path) -> None:
    where = {"storage": site.address, "experiment": "sweeps", "tracking_uri": site.store_uri, "prices": PRICES}
    suite = jrh.load_suite(site.folder / "suite")
    begin(site, suite, **where)
    with pytest.raises(RecipeError, match="is not that of the sweep"):
        join_sweep(site.space, suite, journal=tmp_path / "journal.db", **where)
    with pytest.raises(RecipeError, match="give neither"):
        join_sweep(site.space, suite, journal=site.address, max_usd=5.0, **where)
    with pytest.raises(TrackingError, match="the same --tracking-uri"):
        demand_parent(Store(site.store_uri, "sweeps"), "0" * 32)
    assert site.server.counts["requests"] == 0


@pytest.mark.slow
def test_a_worker_on_another_database_of_the_same_server_is_refused(site: Site) -> None:
    where = {"storage": site.address, "experiment": "sweeps", "tracking_uri": site.store_uri, "prices": PRICES}
    suite = jrh.load_suite(site.folder / "suite")
    begin(site, suite, **where)
    other = postgres.server().make_database()
    with pytest.raises(RecipeError, match="is not that of the sweep") as refused:
        join_sweep(site.space, suite, journal=other, **where)
    assert postgres.PASSWORD not in str(refused.value)
    # By another address the same database is the same journal.
    with pytest.raises(BudgetReached):
        join_sweep(site.space, suite, journal=f"{site.address}&application_name=worker", **where)
    assert site.server.counts["requests"] == 0
