"""A model that answers a prompt, for `jrh.respond` and for whoever needs texts of a model: asked as judges are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jrh_mlflow.judges.parsing import ParsedAnswer, text_problem
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.text import clean_text

if TYPE_CHECKING:
    from jrh_mlflow.schema.items import Call
    from jrh_mlflow.suites.suite import Suite

NO_LABELS = ("answer", "none")
"""An item has answers to choose from; nobody is shown these."""


class Responder(RawJudge):
    """A model that answers the instruction of an item: what it writes is the answer, whatever it is."""

    kind = "responder"

    def __init__(self, model: str, *, system: str | None = None, **options: Any) -> None:
        """Ask with the prompt alone, after a system message where one is given."""
        before = [{"role": "system", "content": system}] if system else []
        messages = [*before, {"role": "user", "content": "{instruction}"}]
        super().__init__(model, messages=messages, verdict=r"(?s)(.*)", **options)

    def begin(self, suite: Suite) -> None:
        """Nothing of a suite of prompts can be wrong."""

    def read(self, response: Response, call: Call) -> ParsedAnswer:
        """Take the text; a refusal is an answer, and so is what was cut off."""
        problem, text = text_problem(response), clean_text(response.refusal or response.text or "")
        if text.strip() and problem in (None, "refusal", "truncated"):
            return ParsedAnswer(outcome="verdict", answer=text, rationale=problem)
        return ParsedAnswer(outcome="unparsed", problem=problem or "empty_content")
