"""From a name, a path or a run to a suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from jrh_mlflow.errors import SuiteError, suggest
from jrh_mlflow.stimuli import Suite, datasheet_suite, read_suite

BUILT_IN: dict[str, Callable[[], Suite]] = {
    "datasheet": datasheet_suite,
    "datasheet-half-steps": lambda: datasheet_suite(half_steps=True, name="datasheet-half-steps"),
}


@cache
def _built_in(name: str) -> Suite:
    return BUILT_IN[name]()


def load_suite(path_or_uri: str | Path) -> Suite:
    """Load a suite from a folder, from `runs:/<id>/suite`, or by a built-in name.

    Raises:
        SuiteError: when there is none, or when its file is cut short, edited or breaks a gate.
    """
    text = str(path_or_uri)
    if text in BUILT_IN:
        return _built_in(text)
    if text.startswith(("runs:/", "mlflow-artifacts:/", "models:/")):
        from jrh_mlflow.tracking.store import download

        return read_suite(download(text))
    if not Path(text).exists():
        known = ", ".join(BUILT_IN)
        raise SuiteError(f"There is no suite {text!r}.{suggest(text, BUILT_IN)} Built in: {known}. Or give a folder.")
    return read_suite(text)


def as_suite(suite: Suite | str | Path | None) -> Suite:
    """Take a suite as it is, load one by name or path, or build the default one."""
    if isinstance(suite, Suite):
        return suite
    return load_suite("datasheet" if suite is None else suite)
