"""The review, datasheets and comparisons inside MLflow's own server: `mlflow server --app-name jrh`.

MLflow's application answers everything as before; paths under `/jrh/` are ours and never reach it, nor its middleware.
Suites and datasheets are read from the runs of the store that is served. The token is JRH_REVIEW_TOKEN, or one that is
made once and kept in `$JRH_HOME/review-token`: the server has several worker processes, and all must know the same.
JRH_REVIEW_HOSTS names further Host headers to answer for, exactly as a browser sends them, joined by commas.

    GET /jrh/review/                the review
    GET /jrh/                       the newest evaluations, by experiment, and a form to compare them
    GET /jrh/datasheet/{run_id}     the page that an evaluation wrote
    GET /jrh/compare?run=…&run=…    judges on the same suite, side by side; nothing is logged

Only the review has a script. A datasheet is a file of a run, and anybody may log a run: it is shown in a sandbox.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from jrh_mlflow.errors import JrhError, ReviewError, TrackingError
from jrh_mlflow.review.app import bare_app
from jrh_mlflow.review.finish import ReviewLogger
from jrh_mlflow.review.guard import FORM_POLICY, SANDBOX_POLICY, Guard, Refusal, new_token
from jrh_mlflow.review.sources import RunCatalog
from jrh_mlflow.suites.suite import reviews_folder
from jrh_mlflow.text import clean_text

PREFIX = "/jrh"
MOST_ROWS = 200
MOST_COMPARED = 12
"""Judges on one page: differences are of all pairs."""
_RUN_ID = re.compile("[0-9a-f]{32}")

# Threads of our own: the server answers our questions from its pool, and must not wait for us in it.
_READING = ThreadPoolExecutor(4, thread_name_prefix="jrh-pages")
_COMPARING = ThreadPoolExecutor(1, thread_name_prefix="jrh-compare")

FindStore = Callable[[Request], str]
"""Leads from a request to the tracking store that is shown."""
_Answer = Callable[[Request], Awaitable[Response]]
_catalog = cache(RunCatalog)

# MLflow's server imports litellm, which asks the network for prices; without a network the two wait for each other and
# nothing ever comes up. `mlflow server` imports this module before, in the process that starts all others.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def create_app() -> ASGIApp:
    """Return MLflow's application with the review beside it."""
    from jrh_mlflow.tracking.mlflow_internals import server_application, static_prefix

    token = server_token()
    hosts = [host.strip() for host in os.environ.get("JRH_REVIEW_HOSTS", "").split(",") if host.strip()]
    prefix = static_prefix() + PREFIX
    if multiprocessing.current_process().name in ("MainProcess", "SpawnProcess-1"):
        print(_links(prefix, token), file=sys.stderr, flush=True)
    return Beside(server_application(), Guard(_pages(), token=token, hosts=hosts), prefix=prefix)


def _links(prefix: str, token: str) -> str:
    """Say where our pages are; the server itself says at which address it listens."""
    return (
        f"Review at {prefix}/review/?token={token} of this server's address\n"
        f"Datasheets and comparisons at {prefix}/?token={token} of this server's address"
    )


class Beside:
    """Two applications: one answers under a prefix, the other everything else."""

    def __init__(self, rest: ASGIApp, ours: ASGIApp, *, prefix: str) -> None:
        self._rest, self._ours, self._prefix = rest, ours, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        path = scope.get("path", "")
        if scope["type"] != "lifespan" and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            await self._ours({**scope, "root_path": scope.get("root_path", "") + self._prefix}, receive, send)
        else:
            await self._rest(scope, receive, send)


def _pages() -> ASGIApp:
    log = ReviewLogger(beside_run=True)
    review = bare_app(lambda request: _catalog(_own_address(request)), on_finish=log, has_index=True)
    return Starlette(routes=[Mount("/review", review), Route("/review", _to_review), *run_routes(_own_address)])


async def _to_review(request: Request) -> Response:
    query = f"?{request.url.query}" if request.url.query else ""
    root = str(request.scope.get("root_path", ""))
    return RedirectResponse(f"{root}/review/{query}", status_code=303)


def _own_address(request: Request) -> str:
    """Return the address of the server itself: its own API is the one way to a store and its artifacts that holds."""
    from jrh_mlflow.tracking.mlflow_internals import static_prefix

    server = request.scope.get("server")
    if not server or server[1] is None:
        raise ReviewError("The server listens on no port, so its runs cannot be read. Start it with --host and --port.")
    host = f"[{server[0]}]" if ":" in server[0] else server[0]
    return f"http://{host}:{server[1]}{static_prefix()}"


def server_token() -> str:
    """Return the token that all processes of this server share."""
    given = os.environ.get("JRH_REVIEW_TOKEN")
    if given:
        return given
    file = reviews_folder().parent / "review-token"
    file.parent.mkdir(parents=True, exist_ok=True)
    _create_once(file, new_token())
    return file.read_text(encoding="ascii").strip()


def _create_once(file: Path, text: str) -> None:
    """Make a file for this user's eyes, whole, unless it is there; of several processes one succeeds."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as sink:
        sink.write(text)
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def run_routes(find_store: FindStore) -> list[Route]:
    """Return the routes of the pages, for an application that a guard protects."""

    async def index(request: Request) -> Response:
        page = await _in(_READING, _index, find_store(request), _review_link(request))
        return _page(page, FORM_POLICY)

    async def datasheet(request: Request) -> Response:
        page = await _in(_READING, _datasheet, find_store(request), request.path_params["run_id"])
        return _page(page, SANDBOX_POLICY)

    async def compare(request: Request) -> Response:
        runs = _chosen(request.query_params.getlist("run"))
        return _page(await _in(_COMPARING, _compared, find_store(request), runs), SANDBOX_POLICY)

    return [
        Route("/", _answering(index)),
        Route("/datasheet/{run_id}", _answering(datasheet)),
        Route("/compare", _answering(compare)),
    ]


def _answering(answer: _Answer) -> _Answer:
    """Answer what cannot be shown as a readable page."""

    async def answering(request: Request) -> Response:
        try:
            return await answer(request)
        except Refusal as refused:
            return _problem(request, refused.status, str(refused))
        except JrhError as error:
            return _problem(request, 502 if isinstance(error, TrackingError) else 422, str(error))

    return answering


async def _in(pool: ThreadPoolExecutor, work: Callable[..., str | bytes], *values: object) -> str | bytes:
    return await asyncio.get_running_loop().run_in_executor(pool, work, *values)


def _index(store: str, review: str) -> str:
    from jrh_mlflow.reports.html import evaluations_page
    from jrh_mlflow.tracking.read import evaluations_in_runs

    return evaluations_page(evaluations_in_runs(store, most=MOST_ROWS), review=review, most=MOST_ROWS)


def _datasheet(store: str, run_id: str) -> bytes:
    from jrh_mlflow.tracking.read import datasheet_html

    page = datasheet_html(store, run_id) if _RUN_ID.fullmatch(run_id) else None
    if page is None:
        raise Refusal(404, "There is no such run, or it has no datasheet.html: only evaluations write one.")
    return page


def _compared(store: str, runs: list[str]) -> str:
    from jrh_mlflow.evaluation.compare import compare

    return compare(runs, tracking_uri=store, log=False).to_html()


def _chosen(runs: list[str]) -> list[str]:
    """Return the runs of an address, each once."""
    chosen = list(dict.fromkeys(runs))
    if not all(_RUN_ID.fullmatch(run) for run in chosen):
        raise Refusal(404, "There is no such run: a run id has 32 hexadecimal digits.")
    if not 2 <= len(chosen) <= MOST_COMPARED:
        raise Refusal(422, f"A comparison needs 2 to {MOST_COMPARED} different runs, but got {len(chosen)}.")
    return chosen


def _review_link(request: Request) -> str:
    """Return the address of the review page, with the token of this page's own link.

    Who came by the cookie gets no token: other ports see the cookie, and it must not open the review's data.
    """
    token = request.query_params.get("token")
    return f"review/?{urlencode({'token': token})}" if token else "review/"


def _problem(request: Request, status: int, message: str) -> Response:
    from jrh_mlflow.reports.html import problem_page

    index = f"{request.scope.get('root_path', '')}/"
    return _page(problem_page(message, title="This page cannot be shown", index=index), FORM_POLICY, status)


def _page(content: str | bytes, policy: str, status: int = 200) -> Response:
    body = clean_text(content).encode() if isinstance(content, str) else content
    return HTMLResponse(body, status_code=status, headers={"content-security-policy": policy})
