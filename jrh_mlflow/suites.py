"""From a name, a path or a run to a suite."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from jrh_mlflow.errors import SuiteError, suggest
from jrh_mlflow.stimuli import Suite, datasheet_suite, read_suite
from jrh_mlflow.stimuli.suite import MANIFEST_FILE, read_manifest

BUILT_IN: dict[str, Callable[[], Suite]] = {
    "datasheet": datasheet_suite,
    "datasheet-short": lambda: datasheet_suite(n_tasks=2, depth=2, name="datasheet-short"),
    "datasheet-half-steps": lambda: datasheet_suite(half_steps=True, name="datasheet-half-steps"),
}


@cache
def _built_in(name: str) -> Suite:
    return BUILT_IN[name]()


def load_suite(path_or_uri: str | Path, *, tracking_uri: str | None = None) -> Suite:
    """Load a suite from a folder, from `runs:/<id>/suite`, or by a built-in name.

    Args:
        path_or_uri: Folder, address or name.
        tracking_uri: MLflow store of the run; the active one when None.

    Raises:
        SuiteError: when there is none, or when its file is cut short, edited or breaks a gate.
    """
    text = str(path_or_uri)
    if text in BUILT_IN:
        return _built_in(text)
    if text.startswith(("runs:/", "mlflow-artifacts:/", "models:/")):
        from jrh_mlflow.tracking.store import download

        return read_suite(download(text, tracking_uri=tracking_uri))
    if not Path(text).exists():
        known = ", ".join(BUILT_IN)
        raise SuiteError(f"There is no suite {text!r}.{suggest(text, BUILT_IN)} Built in: {known}. Or give a folder.")
    return read_suite(text)


def as_suite(suite: Suite | str | Path | None, *, tracking_uri: str | None = None) -> Suite:
    """Take a suite as it is, load one by name or path, or build the default one."""
    if isinstance(suite, Suite):
        return suite
    return load_suite("datasheet" if suite is None else suite, tracking_uri=tracking_uri)


def reviews_folder() -> Path:
    """Return where reviews of suites without a folder of their own are kept: `$JRH_HOME/reviews`."""
    return Path(os.environ.get("JRH_HOME", ".jrh")).absolute() / "reviews"


def mark_hash(sha256: str, state: str | None, *, result: str = "") -> None:
    """Note that the suite of this hash is under review, wherever it is loaded from; None takes the note away."""
    file = _mark_file(sha256)
    if state is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps({"review": state, "review_result": result}), encoding="utf-8")
    draft.replace(file)


def hold_back(suite: Suite) -> None:
    """Refuse a suite that was put under review: what is undecided or rejected in it must reach no judge.

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


def mark_review(folder: Path, state: str | None, *, result: str | None = None) -> None:
    """Write into a saved suite's manifest that it is under review (`open`), reviewed (`finished`) or neither (None).

    The items and their hash stay as they are.
    """
    file = folder / MANIFEST_FILE
    manifest = read_manifest(file, mend=True)
    kept = {key: value for key, value in (manifest.get("origin") or {}).items() if not key.startswith("review")}
    marks = {"review": state, "review_result": result}
    origin = {**kept, **{key: value for key, value in marks.items() if value is not None}}
    if origin == manifest.get("origin"):
        return
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    text = json.dumps({**manifest, "origin": origin}, indent=1, ensure_ascii=False)
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(file)
