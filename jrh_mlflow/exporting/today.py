"""What a measured judge would be today: environment, prompt registry, judge registry and this version asked again."""

from __future__ import annotations

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.tracking.judges.definitions import Definition, JudgeDifference, differences, judge_from
from jrh_mlflow.tracking.judges.judge_registry import newest_version
from jrh_mlflow.tracking.judges.prompts import registered_prompt
from jrh_mlflow.tracking.judges.scorers import MlflowJudge

_GONE = "no longer there"


def changes_since(definition: Definition, *, tracking_uri: str) -> tuple[JudgeDifference, ...]:
    """Return in what the judge that the same sources give today differs from a definition.

    Sources are the variable of an endpoint that was not given, the built-in prompts of this version, the alias of a
    registered prompt, the newest version of a registered scorer, and the installed MLflow with its default model.

    Raises:
        TrackingError: when MLflow cannot be reached.
    """
    gone: list[JudgeDifference] = []
    judge = _from_registries(judge_from(definition).renewed(), tracking_uri, gone)
    running = judge.definition()
    if running is None:  # What was data is code by now.
        version = JudgeDifference(what="version", measured="data", running="code")
        return (version, *gone)
    return (*differences(definition, running), *gone)


def _from_registries(judge: Judge, uri: str, gone: list[JudgeDifference]) -> Judge:
    """Return a judge as the registries have it now; what they no longer have is added to `gone`."""
    if isinstance(judge, PointwiseJudge):
        return judge.with_inner(_from_registries(judge.inner, uri, gone))
    if isinstance(judge, PromptedJudge) and judge.prompt_uri:
        return _with_prompt(judge, judge.prompt_uri, uri, gone)
    if isinstance(judge, MlflowJudge) and judge.registered:
        return _with_scorers(judge, uri, gone)
    return judge


def _with_prompt(judge: PromptedJudge, address: str, uri: str, gone: list[JudgeDifference]) -> PromptedJudge:
    try:
        return judge.with_prompt(registered_prompt(address, tracking_uri=uri))
    except RecipeError:
        measured = judge.prompt_version or address
        gone.append(JudgeDifference(what="prompt", measured=measured, running=f"{address} {_GONE}"))
        return judge


def _with_scorers(judge: MlflowJudge, uri: str, gone: list[JudgeDifference]) -> Judge:
    """Put the newest version of each registered scorer in its place; a judge that is code by now has no definition."""
    newest = {}
    for entry in judge.registered:
        found = newest_version(str(entry["name"]), experiment_id=entry["experiment_id"], uri=uri)
        if found is None:
            named = f"{entry['name']} version {entry['version']}"
            gone.append(JudgeDifference(what="version", measured=named, running=f"{entry['name']} {_GONE}"))
        else:
            newest[str(entry["name"])] = found
    return judge.with_versions(newest)
