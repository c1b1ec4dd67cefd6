"""Pages of runs; none of them logs anything, and none has a script.

    GET /                       the newest evaluations, by experiment, and a form to compare them
    GET /run/{run_id}           the page of a run of any kind
    GET /datasheet/{run_id}     an evaluation
    GET /compare?run=…&run=…    judges on the same suite, side by side
    GET /calls/{run_id}?…       the calls of an evaluation (`calls.py`)
    GET /logged/{run_id}        the page among a run's artifacts

Pages are made from what a run holds. A logged page is a file, and anybody may log a run: it is shown in a sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from jrh_mlflow.errors import JrhError, TrackingError
from jrh_mlflow.review.guard import FORM_POLICY, SANDBOX_POLICY, Refusal
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.show.run_overview import RunSummary
from jrh_mlflow.text import clean_text

T = TypeVar("T")
FindStore = Callable[[Request], str]
"""Leads from a request to the tracking store that is shown."""
Answer = Callable[[Request], Awaitable[Response]]
MOST_ROWS = 200
MOST_COMPARED = 12
"""Judges on one page: differences are of all pairs."""
_KEPT = 64
"""Pages in memory: a finished run stays what it is, and a second look at it should not wait."""
_OF_THE_LIST, _OF_A_RUN = Addresses(""), Addresses("../")
_log = logging.getLogger("jrh_mlflow")
_RUN_ID = re.compile("[0-9a-f]{32}")
# Threads of our own: the server answers our questions from its pool, and must not wait for us in it.
_READING = ThreadPoolExecutor(4, thread_name_prefix="jrh-pages")
# One only: comparing computes for seconds, and must not keep the threads that read from other visitors.
_COMPARING = ThreadPoolExecutor(1, thread_name_prefix="jrh-compare")


def run_routes(find_store: FindStore) -> list[Route]:
    """Return the routes of the pages, for an application that a guard protects."""

    async def index(request: Request) -> Response:
        # With the token that the visitor's own link has: the page knows none.
        review = _OF_THE_LIST.review(request.query_params.get("token"))
        return html_response(await in_thread(_index, find_store(request), review))

    async def run(request: Request) -> Response:
        return await in_thread(_run, find_store(request), _demand_run_id(request))

    async def datasheet(request: Request) -> Response:
        return await in_thread(_datasheet, find_store(request), _demand_run_id(request))

    async def calls(request: Request) -> Response:
        run_id = _demand_run_id(request)
        return html_response(await in_thread(_calls, find_store(request), run_id, request.query_params))

    async def compare(request: Request) -> Response:
        runs = _chosen(request.query_params.getlist("run"))
        return html_response(await in_thread(_compared, find_store(request), runs, pool=_COMPARING))

    async def logged(request: Request) -> Response:
        page = await in_thread(_logged_page, find_store(request), _demand_run_id(request))
        return html_response(page, policy=SANDBOX_POLICY)

    pages = {
        "/": index,
        "/run/{run_id}": run,
        "/datasheet/{run_id}": datasheet,
        "/calls/{run_id}": calls,
        "/compare": compare,
        "/logged/{run_id}": logged,
    }
    return [Route(path, answering(page)) for path, page in pages.items()]


def load_calls_page() -> None:
    """Import what the page of calls needs and read its template, in a thread: its first visitor should not wait."""
    _READING.submit(_load_calls_page)


def _load_calls_page() -> None:
    from jrh_mlflow.pages.calls import TEMPLATE
    from jrh_mlflow.show.html import read_template

    read_template(TEMPLATE)


def _calls(store: str, run_id: str, query: QueryParams) -> str:
    # Imported here: it takes seconds, which MLflow's server should not wait for when it starts.
    from jrh_mlflow.pages.calls import calls_page

    return calls_page(store, run_id, query)


def _index(store: str, review: str) -> str:
    from jrh_mlflow.show.run_overview import evaluations_page
    from jrh_mlflow.tracking.runs.read import evaluations_in_runs

    return evaluations_page(evaluations_in_runs(store, most=MOST_ROWS), review=review, most=MOST_ROWS)


def _run(store: str, run_id: str) -> Response:
    """Lead to the page of a run; those of a kind without one get a page with what belongs to them."""
    from jrh_mlflow.show.run_overview import run_overview_page
    from jrh_mlflow.tracking.runs.read import run_family

    run = _demand_run(store, run_id)
    if run.kind == "evaluate" and run.status == "FINISHED":
        return RedirectResponse(_OF_A_RUN.datasheet(run_id), status_code=303)
    family = run_family(store, run)
    compared = [source.run_id for source in family.sources if (source.kind, source.status) == ("evaluate", "FINISHED")]
    # A comparison of which a run is gone, or of runs in several stores, is what was logged.
    if run.kind == "compare" and set(compared) == set(run.named) and 2 <= len(compared) <= MOST_COMPARED:
        return RedirectResponse(_OF_A_RUN.compare(compared), status_code=303)
    return html_response(run_overview_page(family, _OF_A_RUN))


def _demand_run(store: str, run_id: str) -> RunSummary:
    from jrh_mlflow.tracking.runs.read import run_summary

    run = run_summary(store, run_id)
    if run is None:
        raise Refusal(404, "There is no such run.")
    if run.status == "DELETED":
        raise Refusal(410, f"Run {run.name} was deleted. Bring it back: mlflow runs restore --run-id {run_id}.")
    return run


def _datasheet(store: str, run_id: str) -> Response:
    """Show an evaluation by what it holds; where that cannot be read, the page that it logged."""
    run = _demand_run(store, run_id)
    if run.kind != "evaluate":
        raise Refusal(404, "This run has no datasheet: only evaluations have one.")
    try:
        return html_response(_fresh_datasheet(store, run_id, run.state))
    except Exception:  # whatever a file that anybody wrote, or did not write, can do to its reader
        _log.warning("Run %s cannot be shown by what it holds: its logged page is.", run_id, exc_info=True)
        return html_response(_logged_page(store, run_id), policy=SANDBOX_POLICY)


@lru_cache(maxsize=_KEPT)
def _fresh_datasheet(store: str, run_id: str, state: str) -> str:
    """Render the page of an evaluation; as long as its run is in the same state, it stays the same."""
    from jrh_mlflow.decisions.gate_result import gate_sections
    from jrh_mlflow.measuring.run_page import run_page

    return run_page(store, run_id, addresses=_OF_A_RUN, decided=gate_sections)


def _logged_page(store: str, run_id: str) -> bytes:
    from jrh_mlflow.tracking.runs.read import logged_page

    page = logged_page(store, _demand_run(store, run_id))
    if page is None:
        raise Refusal(404, "This run wrote no page: evaluations, comparisons, sweeps and agreements do.")
    return page


def _compared(store: str, runs: Sequence[str]) -> str:
    from jrh_mlflow.comparing.compare import served_comparison

    try:
        return served_comparison(runs, store, addresses=_OF_THE_LIST)
    except JrhError:
        raise
    except Exception as error:  # whatever a file that anybody wrote can do to its reader
        _log.warning("Runs %s cannot be compared.", ", ".join(runs), exc_info=True)
        raise Refusal(422, "These runs cannot be compared: what one of them holds cannot be read.") from error


def _chosen(runs: list[str]) -> list[str]:
    """Return the runs of an address, each once."""
    chosen = [_checked_id(run) for run in dict.fromkeys(runs)]
    if not 2 <= len(chosen) <= MOST_COMPARED:
        raise Refusal(422, f"A comparison needs 2 to {MOST_COMPARED} different runs, but got {len(chosen)}.")
    return chosen


def _demand_run_id(request: Request) -> str:
    return _checked_id(request.path_params["run_id"])


def _checked_id(text: str) -> str:
    """Return a run id as it is; what cannot be one is not asked for.

    Raises:
        Refusal: when it cannot be one.
    """
    if not _RUN_ID.fullmatch(text):
        raise Refusal(404, "There is no such run: a run id has 32 hexadecimal digits.")
    return text


# How pages are answered


async def in_thread(work: Callable[..., T], *values: object, pool: ThreadPoolExecutor = _READING) -> T:
    """Let a thread of ours do what waits or computes."""
    return await asyncio.get_running_loop().run_in_executor(pool, work, *values)


def answering(answer: Answer) -> Answer:
    """Answer what cannot be shown as a readable page."""

    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except Refusal as refused:
            return _problem(request, refused.status, str(refused))
        except JrhError as error:
            return _problem(request, 502 if isinstance(error, TrackingError) else 422, str(error))

    return answered


def _problem(request: Request, status: int, message: str) -> Response:
    from jrh_mlflow.show.html import problem_page

    # Whole, since the page may be in any folder.
    to = Addresses(f"{request.scope.get('root_path', '')}/")
    return html_response(problem_page(message, title="This page cannot be shown", addresses=to), status=status)


def html_response(content: str | bytes, *, policy: str = FORM_POLICY, status: int = 200) -> Response:
    """Answer a page under one of the guard's policies; files of runs need the sandbox."""
    body = clean_text(content).encode() if isinstance(content, str) else content
    return HTMLResponse(body, status_code=status, headers={"content-security-policy": policy})
