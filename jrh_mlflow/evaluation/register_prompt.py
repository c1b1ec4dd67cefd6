"""`jrh.register_prompt`: the prompt of a judge in MLflow's prompt registry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.resolve import resolve_judge
from jrh_mlflow.tracking.prompts import register_template

if TYPE_CHECKING:
    from jrh_mlflow.judges.rendering import Template

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def register_prompt(
    what: object, name: str | None = None, *, alias: str | None = None, tracking_uri: str | None = None
) -> str:
    """Register the prompt of a judge with MLflow, and return its version: `prompts:/NAME/VERSION`.

    A judge with `prompt="prompts:/NAME/VERSION"` and the same settings sends the same requests. The rubric and the tie
    criterion are the judge's own and no part of it. A text that a version of this name holds already is no new version.

    The automatic prompt stands for one built-in text for each kind of items: of a judge that was asked the one that the
    suite needed is registered, of one that was not asked yet the one for pairs; where it needed several it is refused.

    Args:
        what: A prompted judge.
        name: Of the prompt; the judge's name with its signs replaced when None.
        alias: Made to point at the version; where None, aliases stay as they are.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: for a judge without a prompt template, or with several, and for names that MLflow does not take.
        TrackingError: when MLflow cannot be reached.
    """
    judge = resolve_judge(what, tracking_uri=tracking_uri)
    template = sole_template(judge)
    name = name or _UNFIT.sub("-", judge.name)
    return register_template(template, name, alias=alias, tracking_uri=tracking_uri).version


def sole_template(judge: Judge) -> Template:
    """Return the one template that a judge sends.

    Raises:
        RecipeError: when it has none, or several.
    """
    if isinstance(judge, PointwiseJudge):
        return sole_template(judge.inner)
    if not isinstance(judge, PromptedJudge):
        raise RecipeError(f"{judge.name!r} is a {judge.kind} judge: only a model's prompt can be registered.")
    if len(judge.used) > 1:
        several = ", ".join(template.name for template in judge.used)
        raise RecipeError(
            f"{judge.name!r} used several prompts ({several}): set one, such as prompt={judge.used[0].name!r}."
        )
    return judge.used[0]
