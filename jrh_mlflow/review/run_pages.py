"""Datasheets and comparisons of a server's runs as pages, beside the review.

    GET /                       the newest evaluations, by experiment, and a form to compare them
    GET /datasheet/{run_id}     the page that an evaluation wrote
    GET /compare?run=…&run=…    judges on the same suite, side by side; nothing is logged

None of them has a script. A datasheet is a file of a run, and anybody may log a run: it is shown in a sandbox.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from jrh_mlflow.errors import JrhError, TrackingError
from jrh_mlflow.review.guard import FORM_POLICY, SANDBOX_POLICY, Refusal
from jrh_mlflow.text import clean_text

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
