"""`jrh.autolog`: runs of `mlflow.genai.evaluate` say which of their judges were measured, and where.

An integration of MLflow's autologging: `mlflow.genai.evaluate` is patched as MLflow patches the libraries it logs.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from jrh_mlflow.exporting.exported_scorers import keep_every_verdict
from jrh_mlflow.exporting.status import Status, page_of_run, status
from jrh_mlflow.models.families import kinship_note
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, code, literal
from jrh_mlflow.tracking.judges.scorer_facts import specification
from jrh_mlflow.tracking.mlflow_internals import autologging_switch, ensemble_members
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, mlflow_errors
from jrh_mlflow.tracking.traces.traces_in import models_of

logger = logging.getLogger("jrh_mlflow")

_CODE = "code"
_HEADING = "## Judges of this evaluation"
_LINE = re.compile(
    r"\s*- (`[^`]*`|\(empty\)): (?:Simulated judge\. )?(?:Measured|Stale|Never measured|code, not a judge)\b"
)
"""What is said of a judge, as `jrh.autolog` writes it: other lines of the section are the user's."""
_MOST_TRACES = 20
"""Of an evaluation that are looked through for the models that the application asks."""
_LONGEST_NAME = 230
"""Of a name in a tag, whose key MLflow takes up to 250 characters of."""


def autolog(disable: bool = False) -> None:
    """Let every `mlflow.genai.evaluate` name the datasheets of its judges in the run that it logs.

    For each scorer the run gets a tag `jrh.status.NAME` and a line in its description: measured, stale or never
    measured, with a link to the datasheet or the command that makes one. Scores, results and errors of the evaluation
    stay as they are; what goes wrong here is a warning in the log. Before an evaluation on a database
    `MLFLOW_GENAI_EVAL_MAX_WORKERS` is set unless you have, so that no feedback is lost.

    A name that was imported before this call is not heard: after `from mlflow.genai import evaluate`, call
    `mlflow.genai.evaluate`, or import it again.

    Args:
        disable: Stop it.
    """
    _integration()(disable=disable)


@cache
def _integration() -> Callable[..., None]:
    import mlflow

    return autologging_switch("jrh", mlflow.genai, "evaluate", patch=_evaluate_and_note)


def _evaluate_and_note(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Evaluate as MLflow does, and note the datasheets of the judges; MLflow logs an error in here as a warning."""
    keep_every_verdict(None)
    result = original(*args, **options)
    arguments = inspect.signature(original).bind(*args, **options).arguments
    models = models_of(islice(_traces_of(result), _MOST_TRACES))
    inputs = input_names(arguments.get("data"))
    note_datasheets(result.run_id, arguments["scorers"], inputs=inputs, models=models)
    return result


def _traces_of(result: Any) -> Iterator[Any]:
    """Yield the traces of an evaluation, with their spans; none where its table has none."""
    from mlflow.entities import Trace

    frame = result.result_df
    for trace in () if frame is None or "trace" not in frame else frame["trace"]:
        yield Trace.from_json(trace) if isinstance(trace, str) else trace


def input_names(data: Any) -> list[str] | None:
    """Return the names of the inputs of the rows of an evaluation; None where they are not told by its first row."""
    frame = data.to_df() if hasattr(data, "to_df") else data
    rows = frame.head(1).to_dict("records") if hasattr(frame, "head") else frame
    first = rows[0] if isinstance(rows, list) and rows else {}
    inputs = first.get("inputs") if isinstance(first, Mapping) else None
    return sorted(map(str, inputs)) if isinstance(inputs, Mapping) and inputs else None


def note_datasheets(
    run_id: str, scorers: Sequence[Any], *, inputs: Sequence[str] | None = None, models: Sequence[str] = ()
) -> None:
    """Write on the run of an evaluation what is known of its judges, used on rows with inputs of these names.

    `models` are those that the application asked: a judge of the same family is told so.

    Raises:
        TrackingError: when MLflow does not take it.
    """
    uri = active_uri()
    lines: dict[str, list[str]] = {}
    states: dict[str, list[str]] = {}
    seen: list[Any] = []
    problems: list[str] = []
    for scorer, depth in _all_of(scorers):
        name = str(scorer.name)
        shown = code(name)
        try:
            # An ensemble may hold a scorer that also stands beside it.
            if scorer in seen:
                continue
            judge = _known(scorer, inputs, uri)
            is_model = judge is not None and not judge.simulated
            kinship = kinship_note(_models_of_judge(scorer), models) if is_model else None
            told = " ".join(filter(None, [_told(judge, uri), kinship]))
            line = f"{'  ' * depth}- {shown}: {told}"
        except Exception as error:  # of one judge: the others are told all the same
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        seen.append(scorer)
        states.setdefault(tag_for(name), []).append(_state(judge))
        lines[shown] = list(dict.fromkeys([*lines.get(shown, ()), line]))
    tags = {tag: keys.STATES_APART.join(own) for tag, own in states.items()}
    note_judges(run_id, lines=lines, tags=tags, uri=uri)
    if problems:
        logger.warning("autolog of jrh could not note the datasheets of some judges: %s", "; ".join(problems))


def _all_of(scorers: Sequence[Any], depth: int = 0) -> Iterator[tuple[Any, int]]:
    """Yield scorers, and after an ensemble its members."""
    for scorer in scorers:
        yield scorer, depth
        yield from _all_of(ensemble_members(scorer), depth + 1)


def _known(scorer: Any, inputs: Sequence[str] | None, uri: str) -> Status | None:
    """Return the status of a judge; None for code that nobody has measured as a judge."""
    if not is_code(scorer) or specification(scorer) is not None:
        return status(scorer, inputs=inputs, tracking_uri=uri)
    try:
        return status(scorer, tracking_uri=uri) or None
    except Exception:  # code that cannot be looked at has no datasheet
        return None


def _models_of_judge(scorer: Any) -> list[str]:
    """Return the models that a scorer asks: of an exported one those of its judges, of MLflow's its own."""
    spec = specification(scorer)
    if spec is None:
        return [model] if isinstance(model := getattr(scorer, "model", None), str) else []
    members = [spec, *(spec.get("members") or ())]
    judges = [member.get("judge") or {} for member in members]
    return [str(judge["model"]) for judge in judges if isinstance(judge, Mapping) and judge.get("model")]


def _state(judge: Status | None) -> str:
    if judge is None:
        return _CODE
    return judge.state if judge.run_id is None else f"{judge.state}: run {judge.run_id}"


def _told(judge: Status | None, uri: str) -> str:
    if judge is None:
        return "code, not a judge: it has no datasheet."
    simulated = "Simulated judge. " if judge.simulated else ""
    datasheet = f" [Datasheet]({page_of_run(judge.run_id, uri)})." if judge.run_id else ""
    measure = "" if judge else f" Measure it: {code(judge.measure)}"
    return f"{simulated}{literal(judge.reason)}{datasheet}{measure}"


def is_code(scorer: Any) -> bool:
    """Whether a scorer is code or a rule, and asks no model that MLflow knows of."""
    kind = getattr(getattr(scorer, "kind", None), "value", None)
    members = ensemble_members(scorer)
    is_rule = kind == "builtin" and "model" not in type(scorer).model_fields
    return is_rule or kind in ("decorator", "class") or (bool(members) and all(map(is_code, members)))


def note_judges(run_id: str, *, lines: Mapping[str, Sequence[str]], tags: Mapping[str, str], uri: str) -> None:
    """Add tags and a section of lines to a run; lines and tags of an earlier evaluation in the same run stay.

    Args:
        run_id: Of the evaluation.
        lines: Markdown by the name that stands in it as code.
        tags: What is said of each judge.
        uri: The store of the run.
    """
    from mlflow import MlflowClient
    from mlflow.entities import RunTag

    with mlflow_errors(uri, problem="did not take the notes on judges", what_now="The evaluation is as it was."):
        client = MlflowClient(tracking_uri=uri)
        there: Mapping[str, str] = client.get_run(run_id).data.tags
        states = {key: text for key, text in {**there, **tags}.items() if key.startswith(keys.STATUS_OF)}
        all_tags = {**tags, keys.TAG_DATASHEETS: keys.datasheet_counts(states.values())}
        text = described(there.get(keys.TAG_NOTE, ""), lines)
        # A description that MLflow would cut off is the user's: better none of ours in it.
        if len(text) <= MAX_DESCRIPTION:
            all_tags[keys.TAG_NOTE] = text
        client.log_batch(run_id, tags=[RunTag(key, value) for key, value in all_tags.items()])


def described(description: str, lines: Mapping[str, Sequence[str]]) -> str:
    """Return a description with these lines in its section; all that is not a line of ours stays where it is."""
    new = [line for some in lines.values() for line in some]
    there = description.split("\n")
    start = next((number for number, line in enumerate(there, 1) if line.rstrip() == _HEADING), None)
    if start is None:
        return "\n".join([*([description.rstrip(), ""] if description.strip() else []), _HEADING, "", *new])
    end = next((number for number in range(start, len(there)) if there[number].startswith("#")), len(there))
    ours = {number: match[1] for number in range(start, end) if (match := _LINE.match(there[number]))}
    place = max(ours, default=start - 1) + 1
    before = [line for number, line in enumerate(there[:place]) if ours.get(number) not in lines]
    return "\n".join([*before, *new, *there[place:]])


def tag_for(name: str) -> str:
    """Return the tag that says what is known of a judge: one of its own for every name.

    Example:
        >>> tag_for("polite"), tag_for("a=b")
        ('jrh.status.polite', 'jrh.status.a_b-42144f39')
    """
    fit = re.sub(r"[^\w. :-]", "_", name)[:_LONGEST_NAME]
    digest = "" if fit == name else f"-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"
    return f"{keys.STATUS_OF}{fit}{digest}"
