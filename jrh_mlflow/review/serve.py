"""`jrh review`: the review on a server of its own, on this machine only."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlencode

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.assignment import assign, assignment_facts, disagreements, read_shares
from jrh_mlflow.review.contents import progress
from jrh_mlflow.review.decisions import UNDECIDED
from jrh_mlflow.review.finish import Finished, ReviewLogger, finish
from jrh_mlflow.review.sources import FolderCatalog, Review, ReviewCatalog, RunCatalog
from jrh_mlflow.suites.suite import ITEMS_FILE, PARTIAL_FILE

_WHO = "command line"
LOOPBACK = "127.0.0.1"


def open_catalog(suites: tuple[str, ...], *, tracking_uri: str | None = None) -> ReviewCatalog:
    """Find suites by folder, or one by `runs:/<id>/suite`.

    Raises:
        ReviewError: when there is nothing to review.
    """
    if len(suites) == 1 and suites[0].startswith("runs:/"):
        from jrh_mlflow.tracking.runs.store import active_uri

        run_id = suites[0].removeprefix("runs:/").partition("/")[0]
        found = RunCatalog(tracking_uri or active_uri(), run_id=run_id)
        if not found.reviews():
            raise ReviewError(f"Run {run_id} made no suite, or did not finish. Name the store: --tracking-uri.")
        return found
    if dataset := next((text for text in suites if text.startswith("datasets:/")), None):
        raise ReviewError(
            f"A suite is reviewed in a folder: jrh.load_suite({dataset!r}).save(FOLDER), then review that."
        )
    folders = [Path(text).parent if Path(text).name == ITEMS_FILE else Path(text) for text in suites]
    for folder in folders:
        if not any((folder / name).is_file() for name in (ITEMS_FILE, PARTIAL_FILE)):
            raise ReviewError(f"There is no suite in {folder}, nor one that is being generated into it.")
    catalog = FolderCatalog(folders)
    for review in catalog.reviews():
        content = review.content()
        if not content.entries and not content.growing:
            raise ReviewError(f"Suite {content.name!r} holds nothing to review: only baselines or pairs.")
    return catalog


def serve_review(
    catalog: ReviewCatalog,
    *,
    port: int = 0,
    reviewer: str | None = None,
    browser: bool = True,
    log: ReviewLogger,
    until_finished: bool = False,
    stream: TextIO | None = None,
) -> None:
    """Serve the review until Ctrl-C, or until it is finished, and print its link.

    Raises:
        ReviewError: when the port is taken.
    """
    import uvicorn

    from jrh_mlflow.review.app import review_app
    from jrh_mlflow.review.guard import new_token

    token = new_token()
    for review in catalog.reviews():
        review.hold()
    # Named as TCP, or asyncio does not turn Nagle's algorithm off and every answer waits 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((LOOPBACK, port))
            listening.listen()  # from here on a browser waits instead of being refused
        except OSError as error:
            raise ReviewError(f"Port {port} cannot be used: {error.strerror}. Give another with --port.") from error
        query = urlencode({"token": token, **({"reviewer": reviewer} if reviewer else {})})
        link = f"http://{LOOPBACK}:{listening.getsockname()[1]}/?{query}"
        servers: list[uvicorn.Server] = []

        def on_finish(review: Review, done: Finished, who: str) -> dict[str, Any]:
            facts = log(review, done, who)
            # It still answers who finished: requests under way are served to their end.
            servers[0].should_exit = until_finished
            return facts

        app = review_app(catalog, token=token, on_finish=on_finish)
        # No access log: it would hold the token.
        servers.append(uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")))
        print(f"Review: {link}\nEvery decision is saved at once; Ctrl-C ends the server.", flush=True, file=stream)
        if browser:
            webbrowser.open(link)
        servers[0].run(sockets=[listening])


def finish_now(catalog: ReviewCatalog, *, reviewer: str, allow_undecided: bool, log: ReviewLogger) -> dict[str, Any]:
    """Write the reviewed suite of the one suite in a catalog, without a server."""
    (review,) = catalog.reviews()
    done = finish(review, who=reviewer, allow_undecided=allow_undecided)
    return {**done.facts, **log(review, done, reviewer)}


def assign_now(catalog: ReviewCatalog, *, reviewers: str, overlap: float, seed: int, who: str | None) -> None:
    """Assign the items of every suite of a catalog to `Ada,Bob` or `Ada=2,Bob=1`."""
    shares = read_shares(reviewers)
    for review in catalog.reviews():
        review.hold()
        assign(review, shares, overlap=overlap, seed=seed, who=who or _WHO)


def review_status(catalog: ReviewCatalog) -> list[dict[str, Any]]:
    """Return for each suite how far its review is, in all and by reviewer."""
    rows = []
    for review in catalog.reviews():
        content, entries = review.placed()
        with review.decisions.current() as standings:
            rows.append(
                {
                    "name": content.name,
                    "progress": progress(entries.values(), standings),
                    "reviewers": standings.reviewers,
                    "assignment": assignment_facts(entries, standings),
                    "disagreements": disagreements(entries.values(), standings),
                    "finished": dict(standings.finished.facts) if standings.finished else None,
                }
            )
    return rows


def withdraw(catalog: ReviewCatalog) -> list[str]:
    """End reviews without a result: their suites can be judged as they were generated. Decisions stay on disk."""
    lines = []
    for review in catalog.reviews():
        content = review.content()
        if content.sha256 is not None:
            review.mark(content.sha256, None)
        with review.decisions.current() as standings:
            states = [entry.shown(standings.of(entry.key).state) for entry in content.entries]
        lines.append(f"{content.name}: review withdrawn, {states.count(UNDECIDED)} items undecided")
    return lines
