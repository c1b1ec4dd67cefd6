"""`jrh.register_prompt` and `jrh.suite_dataset`: the prompt of a judge and a suite in MLflow's registries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.measuring.resolve import resolve_judge, resolve_suite
from jrh_mlflow.options import AUTOMATIC
from jrh_mlflow.suites import Suite
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.identity import measured_judge
from jrh_mlflow.tracking.judges.prompts import register_template, tell_run
from jrh_mlflow.tracking.judges.scorers import is_mlflow_judge
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.suite_datasets import SuiteDataset, write_dataset

if TYPE_CHECKING:
    from jrh_mlflow.judges.rendering import Template

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def register_prompt(
    what: object, name: str | None = None, *, alias: str | None = None, tracking_uri: str | None = None
) -> str:
    """Register the prompt of a judge with MLflow, and return its version: `prompts:/NAME/VERSION`.

    A judge with `prompt="prompts:/NAME/VERSION"` and the same settings sends the same requests. The rubric and the tie
    criterion are the judge's own and no part of it. A text that a version of this name holds already is no new version.

    The automatic prompt stands for one built-in text for each kind of items: the one that the suite needed is
    registered, of a judge that was not asked yet the one for pairs. Where a suite needed several it is refused.

    Args:
        what: A run (id, `runs:/…`, an `Evaluation`), whose page then shows the prompt, and the prompt's page the run;
            or a prompted judge.
        name: Of the prompt; the judge's name with its signs replaced when None.
        alias: Made to point at the version; where None, aliases stay as they are.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: for a judge without a prompt template, or with several, and for names that MLflow does not take.
        TrackingError: when MLflow cannot be reached.
    """
    if isinstance(what, Judge) or is_mlflow_judge(what):
        judge = resolve_judge(what, tracking_uri=tracking_uri)
        template, run = sole_template(judge), None
    else:
        run = measured_judge(what, tracking_uri=tracking_uri)
        judge = run.judge()
        # The run knows which of the built-in texts its suite needed; the judge alone does not.
        template = _template_of(prompted_inside(judge), run.params[keys.PARAM_PROMPT])
    named = _fit_name(judge.name) if name is None else name
    version = register_template(template, named, alias=alias, tracking_uri=tracking_uri).version
    if run is not None:
        tell_run(version, run.run_id, tracking_uri=tracking_uri)
    return version


def sole_template(judge: Judge) -> Template:
    """Return the one template that a judge sends.

    Raises:
        RecipeError: when it has none, or several.
    """
    inner = prompted_inside(judge)
    return _template_of(inner, "+".join(template.name for template in inner.used) or inner.template.name)


def _template_of(judge: PromptedJudge, used: str) -> Template:
    """Return the template of a judge that sent these, as the param `judge.prompt` names them."""
    if "+" in used:
        first = used.partition("+")[0]
        raise RecipeError(f"{judge.name!r} used several prompts ({used}): give it one, such as prompt={first!r}.")
    return judge.texts.templates[used] if judge.template.name == AUTOMATIC else judge.template


def _fit_name(name: str) -> str:
    """Replace the signs in the name of a judge that a prompt's name cannot have."""
    fit = _UNFIT.sub("-", name).strip("-_.")
    if not fit:
        raise RecipeError(f"{brief_name(name)} has no letter or digit that a prompt's name can have: give name=….")
    return fit


def prompted_inside(judge: Judge) -> PromptedJudge:
    """Return the judge that has the prompt: itself, or the one that grades the contents of a pair apart.

    Raises:
        RecipeError: when there is none.
    """
    if isinstance(judge, PointwiseJudge):
        return prompted_inside(judge.inner)
    if not isinstance(judge, PromptedJudge) or isinstance(judge, RawJudge):
        raise RecipeError(f"{judge.name!r} is a {judge.kind} judge: only a model's prompt can be registered.")
    return judge


def suite_dataset(
    suite: Suite | str | Path, name: str, *, experiment: str | None = None, tracking_uri: str | None = None
) -> str:
    """Write a suite as an evaluation dataset of MLflow, and return its address: `datasets:/NAME@VERSION`.

    `mlflow.genai.evaluate(mlflow.genai.datasets.get_dataset(name=…), scorers=[jrh.to_mlflow(run)])` asks a judge about
    its records, one for each presentation. The address is taken wherever a suite is, and gives one of the same hash. A
    suite that the dataset holds already is no new version; another one is the next, and the former stays readable.

    Args:
        suite: A suite, or the folder, address or name of one.
        name: Of the dataset: letters, digits, spaces, `_`, `-` and `.`.
        experiment: Whose page lists the dataset; the active one, or `judge-datasheets`, when None.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        SuiteError: when the suite cannot be loaded, is under review or has no texts.
        RecipeError: for a dataset of this name that somebody else made or edited, and where none can be kept.
        TrackingError: when MLflow cannot be reached.
    """
    return written_dataset(suite, name, experiment=experiment, tracking_uri=tracking_uri).uri


def written_dataset(
    suite: Suite | str | Path, name: str, *, experiment: str | None = None, tracking_uri: str | None = None
) -> SuiteDataset:
    """Do what `suite_dataset` does, and return all that is known of the dataset."""
    whole = resolve_suite(suite, tracking_uri=tracking_uri)
    return write_dataset(whole, name, experiment=experiment, tracking_uri=tracking_uri)
