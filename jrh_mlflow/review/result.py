"""The reviewed suite: what was accepted as it is, what was edited as it was edited, and nothing else."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import ReviewError, SuiteError
from jrh_mlflow.review.contents import Content, Entry
from jrh_mlflow.review.sources import Review
from jrh_mlflow.review.states import EDITED, EXEMPT, REJECTED, UNDECIDED, ConflictError, Fold
from jrh_mlflow.schema.items import Item
from jrh_mlflow.stimuli.suite import Suite, read_suite

_LEFT_OUT = (REJECTED, UNDECIDED)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A review that was brought to its end."""

    suite: Suite
    path: Path
    left_out: dict[str, int]
    """How many items were `rejected`, and how many `undecided`."""
    parent: Content


def finish(review: Review, *, who: str, allow_undecided: bool = False) -> Finished:
    """Write the reviewed suite beside its parent and return it.

    A suite that was written before is left as it is; another one gets the next free name.

    Raises:
        ConflictError: while items still arrive, or when items are undecided and that was not allowed.
        ReviewError: when nothing was accepted.
    """
    content, entries = review.placed()
    if content.growing:
        raise ConflictError("Items still arrive: finish the review when generation has ended.")
    with review.decisions.current() as fold:
        suite, left_out = reviewed_suite(content, entries, fold)
        last, finished = fold.last, fold.finished
    if left_out[UNDECIDED] and not allow_undecided:
        raise ConflictError(
            f"{left_out[UNDECIDED]} of {len(entries)} items are undecided. "
            "Decide them, or finish without them: --allow-undecided."
        )
    path = _saved(suite, review.result)
    if finished is None or finished.facts.get("sha256") != suite.sha256:
        review.decisions.finish(who, {"sha256": suite.sha256, "name": path.name, "left_out": left_out}, last=last)
    review.hold()
    review.mark(str(content.sha256), "finished", result=path.name)
    return Finished(suite=suite, path=path, left_out=left_out, parent=content)


def reviewed_suite(content: Content, entries: Mapping[int, Entry], fold: Fold) -> tuple[Suite, dict[str, int]]:
    """Return the suite that the decisions so far lead to, and how many items it leaves out."""
    of_item = {id(entry.item): entry for entry in entries.values()}
    kept: list[Item] = []
    counts: Counter[str] = Counter()
    for item in content.items:
        entry = of_item.get(id(item))
        if entry is None:
            kept.append(item)
            continue
        state = entry.shown_state(fold.of(entry.key))
        counts[state] += 1
        if state not in _LEFT_OUT:
            kept.append(_reviewed(entry, fold))
    if counts and counts.keys() <= set(_LEFT_OUT):
        raise ReviewError("Nothing was accepted: the reviewed suite would hold no perturbed item.")
    name = content.name if content.name.endswith("-reviewed") else f"{content.name}-reviewed"
    suite = Suite(name=name, items=kept, origin=_origin(content, counts, fold))
    return suite, {state: counts[state] for state in _LEFT_OUT}


def _reviewed(entry: Entry, fold: Fold) -> Item:
    """Return an item as decided, with who decided it and what it was before."""
    standing = fold.of(entry.key)
    if standing.by is None or entry.shown_state(standing) == EXEMPT:
        return entry.item
    state, by = standing.state, standing.by
    about: dict[str, Any] = {"state": state.state, "by": by.who, "when": by.when}
    if state.state == EDITED:
        generated = entry.generated(state.message)
        if state.text is not None:
            about["text_before"] = generated.text or ""
        about |= {"label_before": generated.label} if state.label is not None else {}
    item = entry.applied(state)
    return replace(item, meta={**item.meta, "review": about})


def _origin(content: Content, counts: Mapping[str, int], fold: Fold) -> dict[str, Any]:
    parent = dict(content.suite.origin) if content.suite else {}
    kept = {key: value for key, value in parent.items() if not key.startswith("review")}
    return {
        **kept,
        "builder": "review",
        "parent_builder": parent.get("builder"),
        "parent_sha256": content.sha256,
        "parent_name": content.name,
        "reviewed_by": fold.reviewers,
        "decisions": dict(counts),
        "n_events": fold.last,
    }


def _saved(suite: Suite, wanted: Path) -> Path:
    """Write a suite under the first free name, whole or not at all; the same suite is not written twice."""
    wanted.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    with tempfile.TemporaryDirectory(dir=wanted.parent, prefix=".review-") as folder:
        draft = suite.save(Path(folder) / "suite")
        while True:
            path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
            if path.exists():
                if _holds(path, suite):
                    return path
                number += 1
                continue
            try:
                return draft.rename(path)
            except OSError as error:
                if not path.exists():  # otherwise another process took the name in this moment
                    raise ReviewError(f"The reviewed suite cannot be written to {path}: {error}.") from error


def _holds(path: Path, suite: Suite) -> bool:
    try:
        return read_suite(path).sha256 == suite.sha256
    except SuiteError:
        return False
