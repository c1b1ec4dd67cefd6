"""The base of scripted judges."""

from __future__ import annotations

import hashlib
from abc import abstractmethod

from jrh_mlflow.judges._base import Judge
from jrh_mlflow.schema.items import Call


class Scripted(Judge):
    """A judge whose readings are known beforehand."""

    kind = "scripted"
    simulated = True
    inline = True

    def __init__(self) -> None:
        self.name = type(self).__name__

    @abstractmethod
    def answer(self, call: Call) -> str:
        """Answer one call."""

    async def ask(self, call: Call) -> object:
        """Answer at once."""
        return self.answer(call)

    def fingerprint(self) -> str | None:
        """Identify by name and settings."""
        return hashlib.sha256(repr(sorted(self.settings().items())).encode()).hexdigest()
