"""Decisions about a run that was logged before: put onto its page, its datasheet and its description."""

from __future__ import annotations

from jrh_mlflow.decisions.decisions_view import DecisionSection, with_markdown_section, with_section
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, shortened
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.read import run_file
from jrh_mlflow.tracking.runs.store import Store, add_to_run, run_description


def show_decision(store: Store, run_id: str, section: DecisionSection, *, what_now: str) -> None:
    """Let a run's page, datasheet and description show a decision, the newest of its kind; all else stays.

    A run without these files, as earlier versions and other tools write them, keeps what it has.

    Raises:
        TrackingError: when MLflow does not give or take them; `what_now` says what is safe.
    """
    page, markdown = (_text(store, run_id, name) for name in (keys.DATASHEET_PAGE, keys.DATASHEET_MARKDOWN))
    files = {} if page is None else {keys.DATASHEET_PAGE: with_section(page, section)}
    files |= {} if markdown is None else {keys.DATASHEET_MARKDOWN: with_markdown_section(markdown, section)}
    with store.errors(what_now):
        note = store.client.get_run(run_id).data.tags.get(keys.TAG_NOTE)
    shown = None if note is None else _described(run_id, note, markdown, section)
    tags = {} if shown is None else {keys.TAG_NOTE: shown}
    if files or tags:
        add_to_run(store, run_id, points=(), artifacts=files, tags=tags, what_now=what_now)


def _text(store: Store, run_id: str, name: str) -> str | None:
    """Return a file of the run; None where there is none, and of one that is no text of ours."""
    found = run_file(store.uri, run_id, name)
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return None


def _described(run_id: str, note: str, markdown: str | None, section: DecisionSection) -> str:
    """Return the description with the decision; what somebody wrote into it stays, and is not cut for our sake."""
    if markdown is not None and note in (_own(run_id, markdown), shortened(markdown, artifact=keys.DATASHEET_MARKDOWN)):
        return _own(run_id, with_markdown_section(markdown, section))
    added = with_markdown_section(note, section)
    return added if len(added) <= MAX_DESCRIPTION else note


def _own(run_id: str, markdown: str) -> str:
    """Describe an evaluation as it was described at first; those of version 0.1 had no links."""
    return run_description(markdown, run_id, has_calls=True, artifact=keys.DATASHEET_MARKDOWN)
