"""Marks of suites under review: what is undecided or rejected in one must reach no judge.

A suite in a folder carries its mark in the manifest; one that is loaded from elsewhere is marked by its hash, in a file
under `$JRH_HOME/reviews`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.home import home
from jrh_mlflow.suites.suite import MANIFEST_FILE, Suite, read_manifest


def reviews_folder() -> Path:
    """Return where reviews of suites without a folder of their own are kept: `$JRH_HOME/reviews`."""
    return home() / "reviews"


def mark_hash(sha256: str, state: str | None, *, result: str = "") -> None:
    """Note that the suite of this hash is under review, wherever it is loaded from; None takes the note away."""
    file = _mark_file(sha256)
    if state is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    _replace(file, json.dumps({"review": state, "review_result": result}))


def mark_review(folder: Path, state: str | None, *, result: str | None = None) -> None:
    """Write into a saved suite's manifest that it is under review (`open`), reviewed (`finished`) or neither (None).

    The items and their hash stay as they are.
    """
    file = folder / MANIFEST_FILE
    manifest = read_manifest(file, mend=True)
    kept = {key: value for key, value in (manifest.get("origin") or {}).items() if not key.startswith("review")}
    marks = {"review": state, "review_result": result}
    origin = {**kept, **{key: value for key, value in marks.items() if value is not None}}
    if origin != manifest.get("origin"):
        _replace(file, json.dumps({**manifest, "origin": origin}, indent=1, ensure_ascii=False) + "\n")


def hold_back(suite: Suite) -> None:
    """Refuse a suite that was put under review.

    Raises:
        SuiteError: naming the reviewed suite, or the command that writes it.
    """
    about = suite.origin
    if "review" not in about:
        file = _mark_file(suite.sha256)
        about = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    state = about.get("review")
    if state == "finished":
        raise SuiteError(f"Suite {suite.name!r} was reviewed: use {about.get('review_result')!r}, the accepted items.")
    if state == "open":
        raise SuiteError(
            f"Suite {suite.name!r} is under review, and undecided items reach no judge. "
            "`jrh review SUITE --finish --reviewer NAME` writes the reviewed suite, with `--allow-undecided` without "
            "the undecided items; `jrh review SUITE --withdraw` ends the review without one."
        )


def _mark_file(sha256: str) -> Path:
    return reviews_folder() / f"{sha256[:16]}.mark"


def _replace(file: Path, text: str) -> None:
    # Another process may read it at any moment: it finds the old text or the new one, never half of either.
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)
