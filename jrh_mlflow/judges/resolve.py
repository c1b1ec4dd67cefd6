"""What a user passes as a judge becomes a `Judge`."""

from __future__ import annotations

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges._base import Judge
from jrh_mlflow.judges.callables import CallableJudge


def as_judge(judge: object) -> Judge:
    """Wrap a callable, or return a judge as it is.

    Raises:
        RecipeError: when it is neither.
    """
    if isinstance(judge, Judge):
        return judge
    if isinstance(judge, type):
        raise RecipeError(
            f"A judge must be an object, but got the class {judge.__name__}. Call it: {judge.__name__}()."
        )
    if callable(judge):
        return CallableJudge(judge)
    raise RecipeError(
        f"A judge must be a callable taking a Presentation, or a judge of this package, but got {type(judge).__name__}."
    )
