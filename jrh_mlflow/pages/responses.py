"""What the pages of runs share: where they work, what they answer, and how they say that they cannot."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from jrh_mlflow.errors import JrhError, TrackingError
from jrh_mlflow.review.guard import FORM_POLICY, Refusal
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.text import clean_text

T = TypeVar("T")
FindStore = Callable[[Request], str]
"""Leads from a request to the tracking store that is shown."""
Answer = Callable[[Request], Awaitable[Response]]
_RUN_ID = re.compile("[0-9a-f]{32}")

# Threads of our own: the server answers our questions from its pool, and must not wait for us in it.
READING = ThreadPoolExecutor(4, thread_name_prefix="jrh-pages")


def demand_run_id(text: str) -> str:
    """Return a run id as it is; what cannot be one is not asked for.

    Raises:
        Refusal: when it cannot be one.
    """
    if not _RUN_ID.fullmatch(text):
        raise Refusal(404, "There is no such run: a run id has 32 hexadecimal digits.")
    return text


async def in_thread(work: Callable[..., T], *values: object, pool: ThreadPoolExecutor = READING) -> T:
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
