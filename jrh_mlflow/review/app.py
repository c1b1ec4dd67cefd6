"""The review as one ASGI application that can be mounted under any path, and its own server on this machine.

    GET  /                                   the page
    GET  /static/{file}                      its parts, and nothing else
    GET  /api/suites                         what can be reviewed
    GET  /api/suites/{key}                   counts, reviewers, assignment, agreement, disagreements
    GET  /api/suites/{key}/items             a stretch of the items a filter takes
    GET  /api/suites/{key}/items/{index}     one item
    GET  /api/suites/{key}/events?since=N    what others did since
    POST /api/suites/{key}/decisions         one decision; 409 when somebody else was quicker
    POST /api/suites/{key}/bulk              accept what a filter takes; 409 when it takes another number of items
    POST /api/suites/{key}/assign            which items are whose
    POST /api/suites/{key}/finish            write the reviewed suite

Problems are answered as {"message": …}.
"""

from __future__ import annotations

import json
import logging
import socket
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp

from jrh_mlflow.errors import JrhError, ReviewError, TrackingError
from jrh_mlflow.review import assignment
from jrh_mlflow.review.contents import Review, ReviewCatalog, ReviewEntry, progress, shown_states
from jrh_mlflow.review.decisions import UNDECIDED, Click, ConflictError, Event, Standing, Standings, plain_event
from jrh_mlflow.review.finish import Finished, ReviewLogger, finish
from jrh_mlflow.review.guard import Guard, new_token
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import meanings_in
from jrh_mlflow.schema.presentation import Message, context_texts, saved_message

_log = logging.getLogger("jrh_mlflow")

MAX_NUMBER = 2**31
"""No review has more items or events; SQLite's own limit is not reached."""
_MAX_TEXT = 16 * 2**20

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

_ANY = "any"
"""As a filter: whatever check failed."""
_FACTS = ("validator", "similarity", "generator", "attempts", "label_source")
"""What an item's meta says that the page shows."""
_NOT_OPENED = {"n_to_decide": None, "n_decided": 0}
"""Of a suite that was not read: how many of its items need a decision is not known."""
_INDEX_MARK = "<!-- evaluations -->"
_INDEX_LINK = '<a id="evaluations" href="../">Evaluations</a>'

OnFinish = Callable[[Review, Finished, str], dict[str, Any]]
"""Told about a reviewed suite and who finished it; what it returns is added to the answer."""
FindCatalog = Callable[[Request], ReviewCatalog]


def _name(text: str) -> str:
    text = text.strip()
    if not text or not text.isprintable():
        raise ValueError("a reviewer's name is one line of printable characters")
    return text


Short = Annotated[str, Field(max_length=200)]
Index = Annotated[int, Field(ge=0, lt=MAX_NUMBER)]
Reviewer = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_name)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DecisionBody(_Body):
    """One click on one item."""

    index: Index
    action: Literal["accept", "edit", "reject", "undo", "reopen", "settle"]
    reviewer: Reviewer
    version: Index
    """Of the item as the reviewer saw it."""
    text: Annotated[str, Field(max_length=_MAX_TEXT)] | None = None
    label: Short | None = None
    reason: Annotated[str, Field(max_length=4000)] | None = None
    message: Index | None = None
    """Of a transcript: which message `text` replaces; not needed when one was edited."""
    settles: bool = False
    """Whether it is the final decision on what reviewers disagree on."""
    as_decided_by: Reviewer | None = None
    """Of the action `settle`: the reviewer whose decision stands."""


class Filter(_Body):
    """Which items are meant; what is empty does not filter."""

    test: Short = ""
    state: Short = ""
    failed_check: Short = ""
    """A check by name, or `any`."""
    q: Short = ""
    """Text to be found in id, instruction, rubric, texts or reason; upper and lower case are the same."""
    mine: Short = ""
    """State of the reviewer's own decision, for a second, blind review."""
    reviewer: Annotated[Short, AfterValidator(str.strip)] = ""
    """Whose own decision `mine` is about; does not filter by itself."""
    assigned: Short = ""
    """A reviewer: what was assigned to them."""
    todo: Short = ""
    """A reviewer: what was assigned to them and still waits for them."""
    disagreement: Literal["", "unsettled", "settled"] = ""

    def of(self, entries: Mapping[int, ReviewEntry], standings: Standings) -> list[tuple[int, ReviewEntry]]:
        """Return the items that are meant with their numbers, in their order."""
        return [(place, entry) for place, entry in entries.items() if self._takes(entry, standings)]

    def _takes(self, entry: ReviewEntry, standings: Standings) -> bool:
        standing, names = standings.of(entry.key), assignment.assigned_to(entry, standings)
        return (
            (not self.test or entry.test == self.test)
            and (not self.state or entry.shown(standing.state) == self.state)
            and (not self.mine or (_mine(standing, self.reviewer) or UNDECIDED) == self.mine)
            and (not self.assigned or self.assigned in names)
            and (not self.todo or assignment.waits_for(self.todo, names, standing))
            and (not self.disagreement or standing.disagreement == self.disagreement)
            and (not self.failed_check or self._failed(entry.failed_as(standing.state)))
            and (not self.q or self._found(entry, standing))
        )

    def _failed(self, names: frozenset[str]) -> bool:
        return bool(names) if self.failed_check == _ANY else self.failed_check in names

    def _found(self, entry: ReviewEntry, standing: Standing) -> bool:
        item, state, wanted = entry.item, standing.state, self.q.casefold()
        texts = [item.id, item.instruction, item.rubric, item.response, state.text, state.reason]
        texts += [message.content for message in item.transcript or ()]
        return any(wanted in text.casefold() for text in texts if text)


class ItemsQuery(Filter):
    """A filter in an address, and the stretch that is wanted of what it takes."""

    model_config = ConfigDict(extra="ignore", strict=False)

    offset: Index = 0
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class BulkBody(_Body):
    """Accept all items of a filter."""

    filter: Filter = Filter()
    action: Literal["accept"]
    reviewer: Reviewer
    expect: Index
    """How many items the reviewer was told it would be."""


class ReviewerShare(_Body):
    """A reviewer, and how much of the work they get in proportion to the others."""

    name: Reviewer
    share: Annotated[float, Field(gt=0, le=1000, strict=False)] = 1.0


class AssignBody(_Body):
    """Assign every item that needs a decision."""

    reviewer: Reviewer
    """Who assigns."""
    shares: Annotated[list[ReviewerShare], Field(min_length=1, max_length=100)]
    overlap: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    """Share of the items that go to two reviewers."""
    seed: Index = 0


class FinishBody(_Body):
    """Write the reviewed suite."""

    reviewer: Reviewer
    allow_undecided: bool = False


class Json(JSONResponse):
    """JSON in ASCII: what is no text, such as the name of a folder in another encoding, does not break an answer."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the answer; NaN, which an item's meta may hold and JSON does not know, is null."""
        try:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
        except ValueError:
            # A second pass only where it is needed: most answers hold no NaN.
            known = json.loads(json.dumps(content), parse_constant=lambda _: None)
            return json.dumps(known, separators=(",", ":")).encode("ascii")


router = APIRouter(prefix="/api/suites")


def _catalog(request: Request) -> ReviewCatalog:
    # Asked with every request: behind `jrh ui` the address of the store depends on it.
    find: FindCatalog = request.app.state.find_catalog
    return find(request)


def _opened(key: str, catalog: Annotated[ReviewCatalog, Depends(_catalog)]) -> Review:
    review = catalog.find(key)
    if review is None:
        raise HTTPException(404, "There is no such suite.")
    return review


Opened = Annotated[Review, Depends(_opened)]


@router.get("")
def suites(catalog: Annotated[ReviewCatalog, Depends(_catalog)]) -> Response:
    """List what can be reviewed."""
    return Json([_suite_row(review) for review in catalog.reviews()])


@router.get("/{key}")
def suite(review: Opened) -> Response:
    """Counts, reviewers and their agreement."""
    content, entries = review.placed()
    with review.decisions.current() as standings:
        # All counts come from one moment: inside the block nothing is added.
        states = [(entry, standings.of(entry.key).state) for entry in entries.values()]
        shown = {
            "key": review.key,
            "name": content.name,
            "sha256": content.sha256,
            "n_items": len(entries),
            "tests": content.tests,
            "states": shown_states(entries.values(), standings),
            "progress": progress(entries.values(), standings),
            "checks": sorted({name for entry, state in states for name in entry.failed_as(state)}),
            "reviewers": standings.reviewers,
            "agreement": _agreement(entries, standings),
            "assignment": assignment.assignment_facts(entries, standings),
            "disagreements": assignment.disagreements(entries.values(), standings),
            "labels": list(content.labels),
            "growing": content.growing,
            "unreadable": content.unreadable,
            "version": standings.last,
            "finished": dict(standings.finished.facts) if standings.finished else None,
        }
    return Json(shown)


@router.get("/{key}/items")
def items(review: Opened, query: Annotated[ItemsQuery, Query()]) -> Response:
    """One stretch of the items that a filter takes."""
    _, entries = review.placed()
    with review.decisions.current() as standings:
        matching = query.of(entries, standings)
        stretch = matching[query.offset : query.offset + query.limit]
        rows = [_row(place, entry, standings, query.reviewer) for place, entry in stretch]
    return Json({"total": len(matching), "items": rows})


@router.get("/{key}/items/{index}")
def item(review: Opened, index: int, reviewer: Short = "") -> Response:
    """Everything about one item."""
    entry = _entry(review, index)
    with review.decisions.current() as standings:
        standing = standings.of(entry.key)
        row = _row(index, entry, standings, reviewer.strip())
        opinions = [{"who": who, **plain_event(own)} for who, own in standing.opinions.items()]
        between = {"disputed": standing.disputed, "settled": _settlement(standing), "opinions": opinions}
        state, history = standing.state, [_history_row(event, entry) for event in standing.history]
    # Outside the block: checks take a while, and others shall decide meanwhile.
    generated, current, source = entry.generated(state.message), entry.applied(state), entry.source
    text = generated.text if state.text is None else state.text
    shown = {
        "condition": entry.item.condition,
        "instruction": entry.item.instruction,
        "context": "\n\n".join(context_texts(entry.item.context)) or None,
        "rubric": current.rubric,
        "original_label": source.expected if source else None,
        "original": entry.original,
        "perturbed": text,
        "generated": generated.text,
        "generated_label": entry.item.expected,
        "response": current.response,
        "part": entry.part,
        "message": generated.message,
        "labels": list(entry.item.answers or ()),
        "meanings": meanings_in(entry.item.rubric, entry.item.answers or ()),
        "checks": [*entry.rechecked(text), *entry.checks],
        **{name: entry.item.meta.get(name) for name in _FACTS},
        "reason": state.reason,
        "transcript": _transcript(current.transcript, edited={*entry.edited_messages, state.message}),
        "original_transcript": _transcript(source.transcript if source else None),
        "history": history,
        **between,
    }
    return Json({**row, **shown})


@router.get("/{key}/events")
def events(
    review: Opened,
    since: Annotated[int, Query(ge=0, lt=MAX_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> Response:
    """What happened after event `since`."""
    content, entries = review.placed()
    known = {entry.key: (place, entry) for place, entry in entries.items()}
    newer = review.decisions.events(since=since, limit=limit)
    rows = []
    for event in newer:
        # Events about the whole suite, and about an item that changed its text, have no place.
        place, entry = known.get(event.item, (None, None))
        rows.append({**_about(event), "index": place, "state": entry.shown(event.after) if entry else None})
    last = newer[-1].number if newer else since
    return Json({"events": rows, "last": last, "n_items": len(entries), "growing": content.growing})


@router.post("/{key}/decisions")
def decisions(review: Opened, body: DecisionBody) -> Response:
    """Take one decision; it is on the disk when this is answered."""
    entry = _entry(review, body.index)
    review.hold()
    reason = (body.reason or "").strip() or None
    given = body.model_dump(include={"action", "version", "text", "label", "settles", "as_decided_by"})
    click = Click(who=body.reviewer, reason=reason, **given)
    event = review.decisions.decide(entry.key, click, entry.generated(body.message))
    with review.decisions.current() as standings:
        now = _row(body.index, entry, standings, body.reviewer)
    standing = {name: now[name] for name in ("index", "mine", "waits", "disagreement")}
    return Json({**standing, "state": entry.shown(event.after), "version": event.number, "number": event.number})


@router.post("/{key}/bulk")
def bulk(review: Opened, body: BulkBody) -> Response:
    """Accept every item that a filter takes, or none when they are not as many as expected."""
    _, entries = review.placed()
    with review.decisions.current() as standings:
        matching = [(entry, standings.of(entry.key).version) for _, entry in body.filter.of(entries, standings)]
    # Between the question and the click others may have decided: nothing is accepted that nobody saw counted.
    if len(matching) != body.expect:
        raise ConflictError(
            f"The filter takes {len(matching)} items by now, not {body.expect}. Look at them again before you decide."
        )
    review.hold()
    clicks = [
        (entry.key, Click(action="accept", who=body.reviewer, version=version), entry.generated())
        for entry, version in matching
    ]
    done = review.decisions.decide_all(clicks)
    return Json({"accepted": len(done), "last": done[-1].number if done else None})


@router.post("/{key}/assign")
def assigned(review: Opened, body: AssignBody) -> Response:
    """Assign the items to reviewers; who has decided an item keeps it."""
    shares = {reviewer.name: reviewer.share for reviewer in body.shares}
    if len(shares) < len(body.shares):
        raise ReviewError("A reviewer is named twice.")
    review.hold()
    event = assignment.assign(review, shares, overlap=body.overlap, seed=body.seed, who=body.reviewer)
    _, entries = review.placed()
    with review.decisions.current() as standings:
        return Json({"number": event.number, "assignment": assignment.assignment_facts(entries, standings)})


@router.post("/{key}/finish")
def finished(request: Request, review: Opened, body: FinishBody) -> Response:
    """Write the reviewed suite: nothing that is undecided or rejected is in it."""
    # The suite is on the disk before it is logged: a store that fails loses nothing.
    done = finish(review, who=body.reviewer, allow_undecided=body.allow_undecided)
    on_finish: OnFinish | None = request.app.state.on_finish
    return Json({**done.facts, **(on_finish(review, done, body.reviewer) if on_finish else {})})


def _entry(review: Review, index: int) -> ReviewEntry:
    _, entries = review.placed()
    if index not in entries:
        raise HTTPException(404, "There is no such item.")
    return entries[index]


def _suite_row(review: Review) -> dict[str, Any]:
    """Return a line of the list of suites; a run's suite that nobody opened is not fetched for it."""
    row = {"key": review.key, "run_id": review.run.run_id if review.run else None}
    # Fetching every suite of a store for a list could take minutes.
    if review.run is not None and not review.decisions_file.exists():
        run = review.run
        return {**row, **_NOT_OPENED, "name": run.name, "sha256": run.sha256, "n_items": run.n_items}
    try:
        content, entries = review.placed()
    except JrhError as error:
        # The others can be reviewed all the same.
        name = review.run.name if review.run else review.folder.name
        return {**row, **_NOT_OPENED, "name": name, "sha256": None, "n_items": 0, "problem": str(error)}
    with review.decisions.current() as standings:
        needed = progress(entries.values(), standings)["needed"]
    counts = {"n_items": len(entries), "n_to_decide": needed["total"], "n_decided": needed["decided"]}
    return {**row, "name": content.name, "sha256": content.sha256, **counts}


def _row(place: int, entry: ReviewEntry, standings: Standings, reviewer: str) -> dict[str, Any]:
    standing, names = standings.of(entry.key), assignment.assigned_to(entry, standings)
    return {
        "index": place,
        "id": entry.item.id,
        "test": entry.test,
        "state": entry.shown(standing.state),
        "expected": standing.state.label or entry.item.expected,
        "version": standing.version,
        "by": standing.by.who if standing.by else None,
        "needs_decision": entry.needs_decision,
        "mine": _mine(standing, reviewer),
        "assigned": names,
        "waits": assignment.waits_for(reviewer, names, standing),
        "disagreement": standing.disagreement,
    }


def _settlement(standing: Standing) -> dict[str, Any] | None:
    event = standing.settled
    return None if event is None else {"by": event.who, "when": event.when, "as": event.facts.get("as")}


def _mine(standing: Standing, reviewer: str) -> str | None:
    state = standing.mine(reviewer) if reviewer else None
    return state.state if state else None


def _about(event: Event) -> dict[str, Any]:
    return {"number": event.number, "who": event.who, "when": event.when, "action": event.action}


def _history_row(event: Event, entry: ReviewEntry) -> dict[str, Any]:
    before, after = event.before, event.after
    generated = entry.generated(before.message if before.message is not None else after.message)
    changed = before.text != after.text
    return {
        **_about(event),
        "settles": event.settles,
        "reason": after.reason,
        "state": after.state,
        "text_before": (before.text if before.text is not None else generated.text) if changed else None,
        "label_before": (before.label or entry.item.expected) if before.label != after.label else None,
        "after": {name: value for name, value in plain_event(after).items() if name != "text"},
    }


def _agreement(entries: Mapping[int, ReviewEntry], standings: Standings) -> dict[str, Any] | None:
    """Return what is known of agreement, or None before anything was decided."""
    if not standings.items:
        return None
    reading = assignment.validator_agreement(entries.values(), standings)
    if isinstance(reading, Estimate):
        low, high = reading.ci_low, reading.ci_high
        shown: dict[str, Any] = {"rate": reading.value, "n": reading.n, "ci_low": low, "ci_high": high}
    else:
        shown = {"not_estimable": reading.reason}
    return {
        "validator": shown,
        **(assignment.reviewer_agreement(entries, standings) or {"reviewers": None, "disputed": []}),
    }


def _transcript(
    messages: Iterable[Message] | None, *, edited: Iterable[int | None] = ()
) -> list[dict[str, Any]] | None:
    if messages is None:
        return None
    # The page reads every field, and saved messages leave out what is empty.
    empty = dict.fromkeys(field.name for field in fields(Message))
    return [{**empty, **saved_message(message), "edited": n in edited} for n, message in enumerate(messages)]


def review_app(catalog: ReviewCatalog | FindCatalog, *, token: str, on_finish: OnFinish | None = None) -> ASGIApp:
    """Return the application behind its guard.

    Args:
        catalog: The suites, or how a request leads to them.
        token: What a request must know.
        on_finish: Told when a reviewed suite was written.
    """
    return Guard(bare_app(catalog, on_finish=on_finish), token=token)


def bare_app(
    catalog: ReviewCatalog | FindCatalog, *, on_finish: OnFinish | None = None, has_index: bool = False
) -> FastAPI:
    """Return the application without its guard: for tests of the API by itself, and to be mounted behind another.

    Args:
        catalog: The suites, or how a request leads to them.
        on_finish: Told when a reviewed suite was written.
        has_index: Whether a list of evaluations stands one folder up, for the page to link to.
    """
    app = FastAPI(title="jrh review", docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")
    app.router.redirect_slashes = False
    app.state.find_catalog = (lambda _: catalog) if isinstance(catalog, ReviewCatalog) else catalog
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
        problems = [
            f"{'.'.join(str(part) for part in problem['loc'])}: {_SAID.get(problem['type'], problem['msg'])}"
            for problem in error.errors()[:5]
        ]
        return Json({"message": "; ".join(problems)}, status_code=422)

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


LOOPBACK = "127.0.0.1"


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
        # The app needs the server's exit and the server needs the app: a list lets each be made first.
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
