"""An MLflow judge as its request: the messages that MLflow sends for it, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import other_tools
from jrh_mlflow.judges.raw import PLACES, PromptedJudge, RawJudge, escaped_places, every_text
from jrh_mlflow.tracking import mlflow_internals

__all__ = ["PromptedJudge", "judge_of_mlflow", "other_tools"]

Shown = str | Mapping[str, str]
_MARK = re.compile('"\ue000([a-z]+)\ue000"')
"""A text that is shown, as MLflow writes it: JSON."""
_CHAT = "/chat/completions"


def judge_of_mlflow(
    judge: Any, *, inputs: Shown | None = None, outputs: Shown = "response", verdict: object = None, **more: Any
) -> PromptedJudge:
    """Make the judge of an MLflow judge's request; see `PromptedJudge.from_mlflow_judge`."""
    variables = getattr(judge, "template_variables", None)
    if variables is None:
        raise RecipeError(f"A judge of make_judge has instructions to send; {type(judge).__name__} has none.")
    if beside := sorted(variables - {"inputs", "outputs"}):
        raise RecipeError(f"MLflow fills {{{{ {beside[0]} }}}} from traces: measure this judge with jrh.from_mlflow.")
    if mlflow_internals.extra_headers(judge):
        raise RecipeError("The judge sends headers of its own: measure it with jrh.from_mlflow.")
    shown = {"inputs": _marked(inputs or {"instruction": "instruction"}), "outputs": _marked(outputs)}
    request = mlflow_internals.chat_request(judge, **shown)
    provider, _, name = judge.model.partition(":/")
    if request is None or not name or provider in ("gateway", "endpoints"):
        raise RecipeError(
            f"What MLflow {version('mlflow')} sends for {judge.model} is not known here: log one request, and give it "
            "to PromptedJudge.from_openai."
        )
    messages = every_text(request.pop("messages"), lambda text: _MARK.sub(r"{\1!json}", escaped_places(text)))
    if base := mlflow_internals.base_url(judge):
        # Of MLflow it is the whole address, of others what comes before the path.
        more.setdefault("api_base", base.removesuffix(_CHAT))
    made = {"model": f"{provider}/{name}", "messages": messages, "verdict": verdict or {"json": "result"}}
    return RawJudge(**{**made, "extra": request, "name": judge.name, **more})


def _marked(shown: Any) -> Any:
    def mark(place: str) -> str:
        if place not in PLACES:
            raise RecipeError(f"`inputs` and `outputs` name {', '.join(PLACES)}, but got {place!r}.")
        return f"\ue000{place}\ue000"

    return every_text(shown, mark)


PromptedJudge.makers |= {"mlflow": judge_of_mlflow}
