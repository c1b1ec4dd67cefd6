"""The version of the installed MLflow: a test of what is newer asserts, under an older one, what is there instead."""

from __future__ import annotations

from importlib.metadata import version

INSTALLED = tuple(int(part) for part in version("mlflow").split(".")[:2])


def before(needed: str) -> bool:
    """Whether the installed MLflow is older than the version that brought something.

    Example:
        >>> before("2.0"), before("99.0")
        (False, True)
    """
    return tuple(int(part) for part in needed.split(".")) > INSTALLED


RATIONALE_FIRST = {} if before("3.16") else {"generate_rationale_first": True}
"""For `make_judge`: an older one has no such option."""
