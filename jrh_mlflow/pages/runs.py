"""Pages of runs; none of them logs anything, and none has a script.

    GET /?…                     the leaderboard, and runs of every kind (`board.py`)
    GET /run/{run_id}           the page of a run of any kind
    GET /datasheet/{run_id}     an evaluation
    GET /compare?run=…&run=…    judges on the same suite, side by side; of more than MOST_COMPARED a part, `part=2`
    GET /differ?run=…&run=…     the items on which they differ (`differ.py`)
    GET /calls/{run_id}?…       the calls of an evaluation (`calls.py`)
    GET /logged/{run_id}        the page among a run's artifacts

Pages are made from what a run holds. A logged page is a file, and anybody may log a run: it is shown in a sandbox.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from jrh_mlflow.errors import JrhError, TrackingError
from jrh_mlflow.review.guard import FORM_POLICY, SANDBOX_POLICY, Refusal
from jrh_mlflow.show.html import Addresses, render_part
from jrh_mlflow.show.run_overview import RunSummary
from jrh_mlflow.text import clean_text

if TYPE_CHECKING:
    from markupsafe import Markup

T = TypeVar("T")
FindStore = Callable[[Request], str]
"""Leads from a request to the tracking store that is shown."""
Answer = Callable[[Request], Awaitable[Response]]
_Page = Callable[[str, str, QueryParams], "Response | str"]
"""Makes a page of a store, a run's id (empty where the address has none) and the rest of the address."""
MOST_COMPARED = 12
"""Judges on one page: differences are of all pairs."""
_MOST_WHOLE = 6
"""Judges whose comparison has its figures and exploratory differences at once: a reader waits for them."""
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

    def route(path: str, page: _Page) -> Route:
        pool = _COMPARING if page is _compared else _READING

        async def answer(request: Request) -> Response:
            run_id = _checked_id(request.path_params["run_id"]) if "run_id" in request.path_params else ""
            content = await in_thread(page, find_store(request), run_id, request.query_params, pool=pool)
            return content if isinstance(content, Response) else html_response(content)

        return Route(path, answering(answer))

    pages: dict[str, _Page] = {
        "/": _index,
        "/run/{run_id}": _run,
        "/datasheet/{run_id}": _datasheet,
        "/calls/{run_id}": _calls,
        "/compare": _compared,
        "/differ": _differ,
        "/logged/{run_id}": _logged,
    }
    return [route(path, page) for path, page in pages.items()]


def load_calls_page() -> None:
    """Import what the pages need and read the template of calls, in a thread: their first visitor should not wait."""
    _READING.submit(_load_calls_page)


def _load_calls_page() -> None:
    from importlib import import_module

    from jrh_mlflow.pages.calls import TEMPLATE
    from jrh_mlflow.show.html import read_template

    read_template(TEMPLATE)
    for module in ("pages.board", "comparing.compare"):
        import_module(f"jrh_mlflow.{module}")


def _calls(store: str, run_id: str, query: QueryParams) -> str:
    # Imported here: it takes seconds, which MLflow's server should not wait for when it starts.
    from jrh_mlflow.pages.calls import calls_page

    return calls_page(store, run_id, query)


def _index(store: str, _: str, query: QueryParams) -> str:
    from jrh_mlflow.pages.board import board_page

    # With the token that the visitor's own link has: the page knows none.
    return board_page(store, query, review=_OF_THE_LIST.review(query.get("token")))


def _run(store: str, run_id: str, _: QueryParams) -> Response:
    """Lead to the page of a run; those of a kind without one get a page with what belongs to them."""
    from jrh_mlflow.show.run_overview import run_overview_page
    from jrh_mlflow.tracking.runs.read import run_family

    run = _demand_run(store, run_id)
    if run.kind == "evaluate" and run.status == "FINISHED":
        return RedirectResponse(_OF_A_RUN.datasheet(run_id), status_code=303)
    family = run_family(store, run)
    compared = [source.run_id for source in family.sources if (source.kind, source.status) == ("evaluate", "FINISHED")]
    # A comparison of which a run is gone, of runs in several stores or on several suites, is what was logged.
    if run.kind == "compare" and run.sha256 and set(compared) == set(run.named) and 2 <= len(compared) <= MOST_COMPARED:
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


def _datasheet(store: str, run_id: str, _: QueryParams) -> Response:
    """Show an evaluation by what it holds; where that cannot be read, the page that it logged."""
    run = _demand_run(store, run_id)
    if run.kind != "evaluate":
        raise Refusal(404, "This run has no datasheet: only evaluations have one.")
    try:
        return html_response(_fresh_datasheet(store, run_id, run.state))
    except Exception:  # whatever a file that anybody wrote, or did not write, can do to its reader
        _log.warning("Run %s cannot be shown by what it holds: its logged page is.", run_id, exc_info=True)
        return _logged(store, run_id)


@lru_cache(maxsize=_KEPT)
def _fresh_datasheet(store: str, run_id: str, state: str) -> str:
    """Render the page of an evaluation; as long as its run is in the same state, it stays the same."""
    from jrh_mlflow.decisions.gate_result import gate_sections
    from jrh_mlflow.measuring.run_page import run_page

    return run_page(store, run_id, addresses=_OF_A_RUN, decided=gate_sections)


def _logged(store: str, run_id: str, _: QueryParams | None = None) -> Response:
    from jrh_mlflow.tracking.runs.read import logged_page

    page = logged_page(store, _demand_run(store, run_id))
    if page is None:
        raise Refusal(404, "This run wrote no page: evaluations, comparisons, sweeps and agreements do.")
    return html_response(page, policy=SANDBOX_POLICY)


def _compared(store: str, _: str, query: QueryParams) -> str:
    from jrh_mlflow.comparing.compare import served_comparison

    runs, parts = _part(query, "compare")
    whole = len(runs) <= _MOST_WHOLE or "whole" in query
    try:
        page = served_comparison(runs, store, addresses=_OF_THE_LIST, whole=whole)
    except JrhError:
        raise
    except Exception as error:  # whatever a file that anybody wrote can do to its reader
        _log.warning("Runs %s cannot be compared.", ", ".join(runs), exc_info=True)
        raise Refusal(422, "These runs cannot be compared: what one of them holds cannot be read.") from error
    # The page is the one that a comparison logs, which is a file without others beside it.
    return page.replace("<header>", f"{parts}<header>", 1)


def _differ(store: str, _: str, query: QueryParams) -> str:
    from jrh_mlflow.pages.differ import disagreement_page

    runs, parts = _part(query, "differ")
    return disagreement_page(store, runs, query, parts=parts)


def _part(query: QueryParams, page: str) -> tuple[list[str], Markup]:
    """Return the runs of an address that one page has room for, and the links to the others."""
    runs = [_checked_id(run) for run in dict.fromkeys(query.getlist("run"))]
    if len(runs) < 2:
        raise Refusal(422, f"A comparison needs at least 2 different runs, but got {len(runs)}.")
    # Parts of one length, give or take one: the last would otherwise be a judge alone.
    n_parts = -(-len(runs) // MOST_COMPARED)
    ends = [len(runs) * number // n_parts for number in range(n_parts + 1)]
    given = query.get("part", "")
    at = min(int(given), n_parts) - 1 if re.fullmatch("[1-9][0-9]{0,4}", given) else 0
    links = [
        (f"{start + 1}–{end}", f"{page}?{urlencode({'run': runs, 'part': number}, doseq=True)}")
        for number, (start, end) in enumerate(pairwise(ends), 1)
    ]
    shown = runs[ends[at] : ends[at + 1]]
    about, compared = {"run": shown}, page == "compare"
    is_short = compared and len(shown) > _MOST_WHOLE and "whole" not in query
    return shown, render_part(
        "_parts.html",
        parts=links,
        at=at,
        n_runs=len(runs),
        most=MOST_COMPARED,
        other=f"differ?{urlencode(about, doseq=True)}" if compared else None,
        whole=f"compare?{urlencode(about | {'whole': 1}, doseq=True)}" if is_short else None,
    )


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
