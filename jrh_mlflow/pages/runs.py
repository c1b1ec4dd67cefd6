"""Pages of runs: the list of evaluations, datasheets and comparisons.

    GET /                       the newest evaluations, by experiment, and a form to compare them
    GET /datasheet/{run_id}     the page that an evaluation wrote
    GET /compare?run=…&run=…    judges on the same suite, side by side; nothing is logged

A datasheet is a file of a run, and anybody may log a run: it is shown in a sandbox.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from jrh_mlflow.pages.responses import FindStore, answering, demand_run_id, html_response, in_thread
from jrh_mlflow.review.guard import SANDBOX_POLICY, Refusal

MOST_ROWS = 200
MOST_COMPARED = 12
"""Judges on one page: differences are of all pairs."""
_COMPARING = ThreadPoolExecutor(1, thread_name_prefix="jrh-compare")


def run_routes(find_store: FindStore) -> list[Route]:
    """Return the routes of the pages, for an application that a guard protects."""

    async def index(request: Request) -> Response:
        return html_response(await in_thread(_index, find_store(request), _review_link(request)))

    async def datasheet(request: Request) -> Response:
        run_id = demand_run_id(request.path_params["run_id"])
        return html_response(await in_thread(_datasheet, find_store(request), run_id), policy=SANDBOX_POLICY)

    async def compare(request: Request) -> Response:
        runs = _chosen(request.query_params.getlist("run"))
        page = await in_thread(_compared, find_store(request), runs, pool=_COMPARING)
        return html_response(page, policy=SANDBOX_POLICY)

    return [
        Route("/", answering(index)),
        Route("/datasheet/{run_id}", answering(datasheet)),
        Route("/compare", answering(compare)),
    ]


def _index(store: str, review: str) -> str:
    from jrh_mlflow.reports.html import evaluations_page
    from jrh_mlflow.tracking.read import evaluations_in_runs

    return evaluations_page(evaluations_in_runs(store, most=MOST_ROWS), review=review, most=MOST_ROWS)


def _datasheet(store: str, run_id: str) -> bytes:
    from jrh_mlflow.tracking.read import datasheet_html

    page = datasheet_html(store, run_id)
    if page is None:
        raise Refusal(404, "There is no such run, or it has no datasheet.html: only evaluations write one.")
    return page


def _compared(store: str, runs: list[str]) -> str:
    from jrh_mlflow.evaluation.compare import compare

    return compare(runs, tracking_uri=store, log=False).to_html()


def _chosen(runs: list[str]) -> list[str]:
    """Return the runs of an address, each once."""
    chosen = [demand_run_id(run) for run in dict.fromkeys(runs)]
    if not 2 <= len(chosen) <= MOST_COMPARED:
        raise Refusal(422, f"A comparison needs 2 to {MOST_COMPARED} different runs, but got {len(chosen)}.")
    return chosen


def _review_link(request: Request) -> str:
    """Return the address of the review page, with the token of this page's own link.

    Who came by the cookie gets no token: other ports see the cookie, and it must not open the review's data.
    """
    token = request.query_params.get("token")
    return f"review/?{urlencode({'token': token})}" if token else "review/"
