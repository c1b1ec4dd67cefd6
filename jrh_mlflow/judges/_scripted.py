"""What scripted judges share: draws that are hashes, and answers at once."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import Any

from jrh_mlflow.judges._base import AnsweringJudge
from jrh_mlflow.schema.items import Call
from jrh_mlflow.schema.presentation import Presentation


def uniform(*parts: object) -> float:
    """Return a number in [0, 1) that depends on the parts alone."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Scripted(AnsweringJudge):
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

    def definition(self) -> dict[str, Any] | None:
        """Class and arguments; None for a class of somebody's own, which is code."""
        if not type(self).__module__.startswith(f"{__package__}."):
            return None
        return self.defined_by(**{"class": type(self).__name__, "arguments": self.arguments()})

    def arguments(self) -> dict[str, Any]:
        """What the class was called with, as plain JSON."""
        return {}


class Looking(Scripted):
    """A scripted judge that needs the presentation only, and can be called with one."""

    @abstractmethod
    def __call__(self, presentation: Presentation) -> str:
        """Answer one presentation."""

    def answer(self, call: Call) -> str:
        """Answer from the presentation alone."""
        return self(call.presentation)
