"""The edited transcripts of a suite, written back as an Inspect log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.stimuli.suite import Suite
from jrh_mlflow.transcripts import Transcript, read_transcripts
from jrh_mlflow.transcripts.write_back import Edit, write_inspect

_KEPT = ("generator", "validator", "verdicts", "steps", "summaries", "preprocess", "review")
"""What of an item's meta goes into the sample's metadata."""


def export_inspect(suite: Suite, logs: Sequence[str | Path], path: str | Path) -> list[Edit]:
    """Write the edited transcripts of a suite as one log, as a judge sees them, and return them.

    Args:
        suite: With items of kind `transcript`.
        logs: Where the originals lie.
        path: Of the new log, ending in `.eval` or `.json`.

    Raises:
        RecipeError: when the suite holds none, or an original is not in the logs.
    """
    items = [item for item in suite.items if item.kind == "transcript" and item.condition != BASELINE]
    if not items:
        raise RecipeError(f"Suite {suite.name!r} holds no edited transcripts.")
    parents = {one.id: one for log in logs for one in read_transcripts(log)}
    missing = sorted({item.task for item in items if item.task not in parents})
    if missing:
        names = ", ".join(Path(log).name for log in logs)
        raise RecipeError(
            f"{len(missing)} originals are not in {names}, the first {missing[0]!r}. Name their log, too."
        )
    edits = [_edit(item, parents[item.task]) for item in items]
    write_inspect(edits, path)
    return edits


def _edit(item: Item, parent: Transcript) -> Edit:
    # A reviewer may have edited other messages than the pipeline: then they are compared.
    reviewed = (item.meta.get("review") or {}).get("state") == "edited"
    edited = None if reviewed else item.meta.get("edited")
    known = {key: item.meta[key] for key in _KEPT if item.meta.get(key) not in (None, [], {})}
    return Edit(
        parent=parent,
        messages=item.transcript or (),
        test=item.condition,
        edited=None if edited is None else tuple(edited),
        meta={"item": item.id, "rubric": item.rubric, "expected": item.expected, **known},
    )
