"""What a user passes as a judge becomes a `Judge`."""

from __future__ import annotations

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges._base import Judge
from jrh_mlflow.judges.callables import CallableJudge


def as_judge(judge: object) -> Judge:
    """Wrap a callable, take a text as a model name, or return a judge as it is.

    Raises:
        RecipeError: when it is none of these.
    """
    if isinstance(judge, Judge):
        return judge
    if isinstance(judge, str):
        from jrh_mlflow.judges.prompted import PromptedJudge

        return PromptedJudge(judge)
    if isinstance(judge, type):
        raise RecipeError(
            f"A judge must be an object, but got the class {judge.__name__}. Call it: {judge.__name__}()."
        )
    if callable(judge):
        return CallableJudge(judge)
    raise RecipeError(
        "A judge must be a model name, a callable taking a Presentation or a judge of this package, "
        f"but got {type(judge).__name__}."
    )
