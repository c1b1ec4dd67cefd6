"""Our pages inside MLflow's own server: `jrh ui`, and `mlflow server --app-name jrh`.

MLflow's application answers everything as before; paths under `/jrh/` are ours and never reach it, nor its middleware.
Suites and runs are read from the store that is served. The token of the review is JRH_REVIEW_TOKEN, or one that is
made once and kept in `$JRH_HOME/review-token`: the server has several worker processes, and all must know the same.
JRH_REVIEW_HOSTS names further Host headers to answer for, exactly as a browser sends them, joined by commas.

    GET /jrh/review/    the review, the one page with a script and a token
    GET /jrh/…          pages of runs (`runs.py`, `calls.py`), which only read

Where our pages are is printed when the server starts, with the token that opens the review.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/jrh"
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not listened on
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

# MLflow's server imports litellm, which asks the network for prices; without a network the two wait for each other and
# nothing ever comes up. `mlflow server` imports this module before, in the process that starts all others; what the
# pages need is imported by `create_app`, in the process that shows them.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def create_app() -> ASGIApp:
    """Return MLflow's application with our pages beside it."""
    from jrh_mlflow.pages.runs import load_calls_page
    from jrh_mlflow.review.guard import Guard
    from jrh_mlflow.tracking.mlflow_internals import server_application, static_prefix

    token = server_token()
    hosts = [host.strip() for host in os.environ.get("JRH_REVIEW_HOSTS", "").split(",") if host.strip()]
    if multiprocessing.current_process().name in ("MainProcess", "SpawnProcess-1"):
        _say_links(static_prefix(), token, hosts)
    pages = Guard(_pages(token, hosts), token=None, hosts=hosts)
    application = Beside(server_application(), pages, prefix=static_prefix() + PREFIX)
    # Last: two threads that import the same modules would wait for each other.
    load_calls_page()
    return application


def _say_links(prefix: str, token: str, hosts: list[str]) -> None:
    """Print where our pages are; `jrh ui` says it itself, once they answer."""
    from jrh_mlflow.tracking.mlflow_server import LINKS_ARE_SAID

    if LINKS_ARE_SAID in os.environ:
        return
    address = listening_address(sys.argv)
    # Another server than uvicorn, such as gunicorn, names its own address.
    lines = page_links((address or "http://HOST:PORT") + prefix, token)
    print("\n".join([*lines, *(host_note(address, hosts) if address else [])]), file=sys.stderr, flush=True)


def page_links(address: str, token: str) -> list[str]:
    """Return a line for the list of judges and one for the review, of a server at an address.

    Example:
        >>> page_links("http://127.0.0.1:5000", "secret")[0]
        'judges     http://127.0.0.1:5000/jrh/'
    """
    from jrh_mlflow.show.html import FOLDER, Addresses

    to = Addresses(f"{address}/{FOLDER}")
    # The review alone needs the token: it writes decisions, the other pages only read.
    return [f"judges     {to.index()}", f"review     {to.review(token)}"]


def listening_address(arguments: Sequence[str]) -> str | None:
    """Return the address that uvicorn was told to listen on, as a browser on this machine finds it; None if not told.

    Example:
        >>> listening_address(["uvicorn", "--host", "0.0.0.0", "--port", "5000", "--workers", "4"])
        'http://127.0.0.1:5000'
    """
    given = dict(pairwise(arguments))
    host, port = given.get("--host"), given.get("--port")
    if host is None or port is None:
        return None
    name = "127.0.0.1" if host in _EVERYWHERE else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}"


def host_note(address: str, hosts: Sequence[str]) -> list[str]:
    """Say what opens the pages under a name that a browser on another machine uses, where nobody said it.

    Example:
        >>> host_note("http://10.0.0.5:5000", [])
        ['Our pages answer for 127.0.0.1 and localhost only: set JRH_REVIEW_HOSTS=10.0.0.5:5000 for this address.']
    """
    host = address.removeprefix("http://")
    name = host.rpartition(":")[0].strip("[]")
    if name in _LOOPBACK or host in hosts:
        return []
    return [f"Our pages answer for 127.0.0.1 and localhost only: set JRH_REVIEW_HOSTS={host} for this address."]


def server_token() -> str:
    """Return the token that all processes of this server share."""
    from jrh_mlflow.home import writable_home
    from jrh_mlflow.review.guard import new_token

    if given := os.environ.get("JRH_REVIEW_TOKEN"):
        return given
    file = writable_home() / "review-token"
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


def _pages(token: str, hosts: list[str]) -> ASGIApp:
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    from jrh_mlflow.pages.runs import run_routes
    from jrh_mlflow.review.guard import Guard

    # The token is asked for where the review is mounted, so that no path leads around it.
    review = Guard(_MadeLate(_review), token=token, hosts=hosts)
    return Starlette(routes=[Mount("/review", review), Route("/review", _to_review), *run_routes(_own_address)])


def _review() -> ASGIApp:
    from functools import cache

    from jrh_mlflow.review.app import bare_app
    from jrh_mlflow.review.contents import RunCatalog
    from jrh_mlflow.review.finish import ReviewLogger

    catalog, log = cache(RunCatalog), ReviewLogger(beside_run=True)
    return bare_app(lambda request: catalog(_own_address(request)), on_finish=log, has_index=True)


class _MadeLate:
    """An application that is made for its first request: what it imports would keep MLflow from starting."""

    def __init__(self, make: Callable[[], ASGIApp]) -> None:
        self._make = make
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self._app is None:
            self._app = self._make()
        await self._app(scope, receive, send)


async def _to_review(request: Request) -> Response:
    from starlette.responses import RedirectResponse

    query = f"?{request.url.query}" if request.url.query else ""
    root = str(request.scope.get("root_path", ""))
    return RedirectResponse(f"{root}/review/{query}", status_code=303)


def _own_address(request: Request) -> str:
    """Return the address of the server itself: its own API is the one way to a store and its artifacts that holds."""
    from jrh_mlflow.errors import ReviewError
    from jrh_mlflow.tracking.mlflow_internals import static_prefix

    server = request.scope.get("server")
    if not server or server[1] is None:
        raise ReviewError("The server listens on no port, so its runs cannot be read. Start it with --host and --port.")
    host = f"[{server[0]}]" if ":" in server[0] else server[0]
    return f"http://{host}:{server[1]}{static_prefix()}"
