"""Pages of runs; none of them logs anything, and none has a script.

    GET /                       the newest evaluations, by experiment, and a form to compare them
    GET /run/{run_id}           the page of a run of any kind
    GET /datasheet/{run_id}     an evaluation
    GET /compare?run=…&run=…    judges on the same suite, side by side
    GET /logged/{run_id}        the page among a run's artifacts

Pages are made from what a run holds. A logged page is a file, and anybody may log a run: it is shown in a sandbox.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from jrh_mlflow.errors import JrhError
from jrh_mlflow.pages.responses import FindStore, answering, demand_run_id, html_response, in_thread
from jrh_mlflow.review.guard import SANDBOX_POLICY, Refusal
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.run_overview import RunSummary

MOST_ROWS = 200
MOST_COMPARED = 12
"""Judges on one page: differences are of all pairs."""
_KEPT = 64
"""Pages in memory: a finished run stays what it is, and a second look at it should not wait."""
_OF_THE_LIST, _OF_A_RUN = Addresses(""), Addresses("../")
_log = logging.getLogger("jrh_mlflow")
_COMPARING = ThreadPoolExecutor(1, thread_name_prefix="jrh-compare")


def run_routes(find_store: FindStore) -> list[Route]:
    """Return the routes of the pages, for an application that a guard protects."""

    async def index(request: Request) -> Response:
        # With the token that the visitor's own link has: the page knows none.
        review = _OF_THE_LIST.review(request.query_params.get("token"))
        return html_response(await in_thread(_index, find_store(request), review))

    async def run(request: Request) -> Response:
        return await in_thread(_run, find_store(request), demand_run_id(request.path_params["run_id"]))

    async def datasheet(request: Request) -> Response:
        return await in_thread(_datasheet, find_store(request), demand_run_id(request.path_params["run_id"]))

    async def compare(request: Request) -> Response:
        runs = _chosen(request.query_params.getlist("run"))
        return html_response(await in_thread(_compared, find_store(request), runs, pool=_COMPARING))

    async def logged(request: Request) -> Response:
        run_id = demand_run_id(request.path_params["run_id"])
        return html_response(await in_thread(_logged_page, find_store(request), run_id), policy=SANDBOX_POLICY)

    return [
        Route("/", answering(index)),
        Route("/run/{run_id}", answering(run)),
        Route("/datasheet/{run_id}", answering(datasheet)),
        Route("/compare", answering(compare)),
        Route("/logged/{run_id}", answering(logged)),
    ]


def _index(store: str, review: str) -> str:
    from jrh_mlflow.show.html import evaluations_page
    from jrh_mlflow.tracking.runs.read import evaluations_in_runs

    return evaluations_page(evaluations_in_runs(store, most=MOST_ROWS), review=review, most=MOST_ROWS)


def _run(store: str, run_id: str) -> Response:
    """Lead to the page of a run; those of a kind without one get a page with what belongs to them."""
    from jrh_mlflow.show.run_overview import run_overview_page
    from jrh_mlflow.tracking.runs.run_summaries import run_family

    run = _demand_run(store, run_id)
    if run.kind == "evaluate" and run.status == "FINISHED":
        return RedirectResponse(_OF_A_RUN.datasheet(run_id), status_code=303)
    family = run_family(store, run)
    compared = [one.run_id for one in family.sources if one.kind == "evaluate"]
    # A comparison of which a run is gone, or of runs in several stores, is what was logged.
    if run.kind == "compare" and set(compared) == set(run.named) and 2 <= len(compared) <= MOST_COMPARED:
        return RedirectResponse(_OF_A_RUN.compare(compared), status_code=303)
    return html_response(run_overview_page(family, _OF_A_RUN))


def _demand_run(store: str, run_id: str) -> RunSummary:
    from jrh_mlflow.tracking.runs.run_summaries import run_summary

    run = run_summary(store, run_id)
    if run is None:
        raise Refusal(404, "There is no such run.")
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
    from jrh_mlflow.tracking.runs.run_summaries import logged_page

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
    chosen = [demand_run_id(run) for run in dict.fromkeys(runs)]
    if not 2 <= len(chosen) <= MOST_COMPARED:
        raise Refusal(422, f"A comparison needs 2 to {MOST_COMPARED} different runs, but got {len(chosen)}.")
    return chosen
