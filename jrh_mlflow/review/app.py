"""The review as one ASGI application that can be mounted under any path.

    GET  /                                   the page
    GET  /static/{file}                      its parts, and nothing else
    GET  /api/suites                         what can be reviewed
    GET  /api/suites/{key}                   counts, reviewers, agreement
    GET  /api/suites/{key}/items             a stretch of the items a filter takes
    GET  /api/suites/{key}/items/{index}     one item
    GET  /api/suites/{key}/events?since=N    what others did since
    POST /api/suites/{key}/decisions         one decision; 409 when somebody else was quicker
    POST /api/suites/{key}/bulk              accept what a filter takes; 409 when it takes another number of items
    POST /api/suites/{key}/finish            write the reviewed suite

Problems are answered as {"message": …}.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp

from jrh_mlflow.errors import JrhError, TrackingError
from jrh_mlflow.review.guard import Guard
from jrh_mlflow.review.routes import FindShelf, Json, OnFinish, router
from jrh_mlflow.review.sources import Shelf
from jrh_mlflow.review.states import ConflictError

_log = logging.getLogger("jrh_mlflow")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES = {file.name: file for file in (Path(__file__).parent / "static").iterdir() if file.suffix in _TYPES}
"""All that is served: a request's path is looked up here and never becomes one."""

_SAID = {"string_unicode": "holds half of a character (a lone surrogate), which no file can. Take it out."}
"""Problems of what was sent in our own words, by pydantic's name for them."""

_INDEX_MARK = "<!-- evaluations -->"
_INDEX_LINK = '<a id="evaluations" href="../">Evaluations</a>'


def review_app(
    shelf: Shelf | FindShelf, *, token: str, hosts: Iterable[str] = (), on_finish: OnFinish | None = None
) -> ASGIApp:
    """Return the application behind its guard.

    Args:
        shelf: The suites, or how a request leads to them.
        token: What a request must know.
        hosts: Exact Host headers to answer for, besides those of this machine at the server's port.
        on_finish: Told when a reviewed suite was written.
    """
    return Guard(bare_app(shelf, on_finish=on_finish), token=token, hosts=hosts)


def bare_app(shelf: Shelf | FindShelf, *, on_finish: OnFinish | None = None, has_index: bool = False) -> FastAPI:
    """Return the application without its guard: for tests of the API by itself, and to be mounted behind another.

    Args:
        shelf: The suites, or how a request leads to them.
        on_finish: Told when a reviewed suite was written.
        has_index: Whether a list of evaluations stands one folder up, for the page to link to.
    """
    app = FastAPI(title="jrh review", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")
    app.router.redirect_slashes = False
    app.state.find_shelf = (lambda _: shelf) if isinstance(shelf, Shelf) else shelf
    app.state.on_finish = on_finish
    app.include_router(router)
    app.add_api_route("/", _linked_page if has_index else _page, include_in_schema=False)
    app.add_api_route("/static/{name}", _static, include_in_schema=False)
    _add_problems(app)
    return app


def _page() -> Response:
    return _static("review.html")


def _linked_page() -> Response:
    """Return the page with a link to the list of evaluations."""
    page = _FILES["review.html"].read_text(encoding="utf-8")
    return Response(page.replace(_INDEX_MARK, _INDEX_LINK), media_type=_TYPES[".html"])


def _static(name: str) -> Response:
    file = _FILES.get(name)
    if file is None:
        raise HTTPException(404, "There is no such file.")
    return Response(file.read_bytes(), media_type=_TYPES[file.suffix])


def _add_problems(app: FastAPI) -> None:
    """Answer every problem as {"message": …}; MLflow's handlers would turn some of them into a 500."""

    @app.exception_handler(RequestValidationError)
    async def not_understood(_: Request, error: RequestValidationError) -> Response:
        told = [
            f"{'.'.join(str(part) for part in one['loc'])}: {_SAID.get(one['type'], one['msg'])}"
            for one in error.errors()[:5]
        ]
        return Json({"message": "; ".join(told)}, status_code=422)

    @app.exception_handler(StarletteHTTPException)
    async def refused(_: Request, error: StarletteHTTPException) -> Response:
        return Json({"message": str(error.detail)}, status_code=error.status_code, headers=error.headers)

    @app.exception_handler(JrhError)
    async def wrong(_: Request, error: JrhError) -> Response:
        status = 409 if isinstance(error, ConflictError) else 502 if isinstance(error, TrackingError) else 422
        return Json({"message": str(error)}, status_code=status)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return Json({"message": "The server failed; what was decided before is kept. See its log."}, status_code=500)
