"""The review, datasheets and comparisons inside MLflow's own server: `mlflow server --app-name jrh`.

MLflow's application answers everything as before; paths under `/jrh/` are ours and never reach it, nor its middleware.
Suites and datasheets are read from the runs of the store that is served. The token is JRH_REVIEW_TOKEN, or one that is
made once and kept in `$JRH_HOME/review-token`: the server has several worker processes, and all must know the same.
JRH_REVIEW_HOSTS names further Host headers to answer for, exactly as a browser sends them, joined by commas.

    GET /jrh/review/    the review, the one page with a script
    GET /jrh/…          pages of runs (`runs.py`)
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from functools import cache
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.pages.runs import run_routes
from jrh_mlflow.review.app import bare_app
from jrh_mlflow.review.finish import ReviewLogger
from jrh_mlflow.review.guard import Guard, new_token
from jrh_mlflow.review.sources import RunCatalog
from jrh_mlflow.suites.suite import reviews_folder

PREFIX = "/jrh"
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
