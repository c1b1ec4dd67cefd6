"""The routes of the review: each parses, calls one function and answers.

What the page may send, checked before anything looks at it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from jrh_mlflow.review import views
from jrh_mlflow.review.report import Finished, finish
from jrh_mlflow.review.sources import Review, Shelf
from jrh_mlflow.review.states import Click, ConflictError

OnFinish = Callable[[Review, Finished, str], dict[str, Any]]
"""Told about a reviewed suite and who finished it; what it returns is added to the answer."""
FindShelf = Callable[[Request], Shelf]

router = APIRouter(prefix="/api/suites")


class Json(JSONResponse):
    """JSON in ASCII: a lone surrogate in a model's text is sent as its escape instead of breaking the answer."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the answer; NaN, which an item's meta may hold and JSON does not know, is null."""
        try:
            return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
        except ValueError:
            known = json.loads(json.dumps(content), parse_constant=lambda _: None)
            return json.dumps(known, separators=(",", ":")).encode("ascii")


def _shelf(request: Request) -> Shelf:
    find: FindShelf = request.app.state.find_shelf
    return find(request)


def _opened(key: str, shelf: Annotated[Shelf, Depends(_shelf)]) -> Review:
    found = shelf.find(key)
    if found is None:
        raise HTTPException(404, "There is no such suite.")
    return found


def _filter(
    test: Short = "", state: Short = "", failed_check: Short = "", q: Short = "", mine: Short = "", reviewer: Short = ""
) -> views.Filter:
    return views.Filter(test=test, state=state, failed_check=failed_check, q=q, mine=mine, reviewer=reviewer.strip())


Opened = Annotated[Review, Depends(_opened)]


@router.get("")
def suites(shelf: Annotated[Shelf, Depends(_shelf)]) -> Response:
    """List what can be reviewed."""
    return Json([views.suite_row(review) for review in shelf.reviews()])


@router.get("/{key}")
def suite(review: Opened) -> Response:
    """Counts, reviewers and their agreement."""
    return Json(views.suite_page(review))


@router.get("/{key}/items")
def items(
    review: Opened,
    chosen: Annotated[views.Filter, Depends(_filter)],
    offset: Annotated[int, Query(ge=0, lt=MAX_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """One stretch of the items that a filter takes."""
    return Json(views.item_list(review, chosen, offset=offset, limit=limit))


@router.get("/{key}/items/{index}")
def item(review: Opened, index: int, reviewer: Short = "") -> Response:
    """Everything about one item."""
    found = views.item_page(review, index, reviewer=reviewer.strip())
    if found is None:
        raise HTTPException(404, "There is no such item.")
    return Json(found)


@router.get("/{key}/events")
def events(
    review: Opened,
    since: Annotated[int, Query(ge=0, lt=MAX_NUMBER)] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> Response:
    """What happened after event `since`."""
    return Json(views.event_list(review, since=since, limit=limit))


@router.post("/{key}/decisions")
def decisions(review: Opened, body: DecisionBody) -> Response:
    """Take one decision; it is on the disk when this is answered."""
    _, entries = review.placed()
    entry = entries.get(body.index)
    if entry is None:
        raise HTTPException(404, "There is no such item.")
    review.hold()
    click = Click(
        action=body.action,
        who=body.reviewer,
        version=body.version,
        text=body.text,
        label=body.label,
        reason=(body.reason or "").strip() or None,
    )
    event = review.decisions.decide(entry.key, click, entry.generated(body.message))
    state = entry.shown(event.after)
    return Json({"index": body.index, "state": state, "version": event.number, "number": event.number})


@router.post("/{key}/bulk")
def bulk(review: Opened, body: BulkBody) -> Response:
    """Accept every item that a filter takes, or none when they are not as many as expected."""
    _, entries = review.placed()
    chosen = _filter(**body.filter.model_dump())
    with review.decisions.current() as fold:
        found = [(entry, fold.of(entry.key).version) for _, entry in views.filtered(entries, fold, chosen)]
    if len(found) != body.expect:
        raise ConflictError(
            f"The filter takes {len(found)} items by now, not {body.expect}. Look at them again before you decide."
        )
    review.hold()
    clicks = [
        (entry.key, Click(action="accept", who=body.reviewer, version=version), entry.generated())
        for entry, version in found
    ]
    done = review.decisions.decide_all(clicks)
    return Json({"accepted": len(done), "last": done[-1].number if done else None})


@router.post("/{key}/finish")
def finished(request: Request, review: Opened, body: FinishBody) -> Response:
    """Write the reviewed suite: nothing that is undecided or rejected is in it."""
    done = finish(review, who=body.reviewer, allow_undecided=body.allow_undecided)
    facts = {
        "path": str(done.path),
        "sha256": done.suite.sha256,
        "n_items": len(done.suite),
        "left_out": done.left_out,
    }
    on_finish: OnFinish | None = request.app.state.on_finish
    return Json({**facts, **(on_finish(review, done, body.reviewer) if on_finish else {})})


MAX_NUMBER = 2**31
"""No review has more items or events; SQLite's own limit is not reached."""
_MAX_TEXT = 16 * 2**20


def _name(text: str) -> str:
    text = text.strip()
    if not text or not text.isprintable():
        raise ValueError("a reviewer's name is one line of printable characters")
    return text


Index = Annotated[int, Field(ge=0, lt=MAX_NUMBER)]
Reviewer = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_name)]
Short = Annotated[str, Field(max_length=200)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DecisionBody(_Body):
    """One click on one item."""

    index: Index
    action: Literal["accept", "edit", "reject", "undo", "reopen"]
    reviewer: Reviewer
    version: Index
    """Of the item as the reviewer saw it."""
    text: Annotated[str, Field(max_length=_MAX_TEXT)] | None = None
    label: Short | None = None
    reason: Annotated[str, Field(max_length=4000)] | None = None
    message: Index | None = None
    """Of a transcript: which message `text` replaces; not needed when one was edited."""


class FilterBody(_Body):
    """Which items are meant; what is empty does not filter."""

    test: Short = ""
    state: Short = ""
    failed_check: Short = ""
    q: Short = ""
    mine: Short = ""
    reviewer: Short = ""


class BulkBody(_Body):
    """Accept all items of a filter."""

    filter: FilterBody = FilterBody()
    action: Literal["accept"]
    reviewer: Reviewer
    expect: Index
    """How many items the reviewer was told it would be."""


class FinishBody(_Body):
    """Write the reviewed suite."""

    reviewer: Reviewer
    allow_undecided: bool = False
