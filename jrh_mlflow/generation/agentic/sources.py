"""Which way a generation goes: tests of transcripts or tests of responses, by the tests named and by the source.

The edited transcripts of a suite, written back as an Inspect log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.agentic.plan import agent_plan, agent_tests
from jrh_mlflow.generation.plan import Plan
from jrh_mlflow.perturb import AGENT_TESTS, AgentTest
from jrh_mlflow.perturb.registry import GROUPS
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.responses import read_seeds
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.suites.transcripts import Transcript, read_transcripts
from jrh_mlflow.suites.transcripts.inspect_export import Edit, write_inspect
from jrh_mlflow.suites.transcripts.inspect_logs import is_inspect_log

_TRACES = "traces:"
_ONLY_TRANSCRIPTS = ("values", "violation", "preprocess", "max_steps", "plans")
"""Arguments of `generate` that speak about transcripts only."""


def read_plan_of(
    dataset: object,
    *,
    tests: object,
    rubric: object,
    seed: int,
    reading: Mapping[str, Any],
    tracking_uri: str | None = None,
) -> Plan:
    """Read what a suite is made from, and lay out what is to be made.

    Args:
        dataset: As for `jrh.generate`; `traces:/<experiment>` is read from the store at `tracking_uri`.
        tests: Names or tests.
        rubric: The judge's question.
        seed: Of the draw.
        reading: Further arguments of `read_seeds`, or of `agent_plan`; None is not given.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: when tests of transcripts and of responses are mixed, or the source does not fit the tests.
    """
    given = {name: value for name, value in reading.items() if value is not None}
    names = _names(tests)
    if not _is_agentic(dataset, names):
        seeds, labels = read_seeds(dataset, seed=seed, **_for_responses(given))
        return Plan.of(seeds, labels, rubric, tests)
    chosen = list(AGENT_TESTS) if any(name in GROUPS for name in names if isinstance(name, str)) else names
    found = _transcripts(dataset, tracking_uri)
    return agent_plan(found, tests=agent_tests(chosen), rubric=rubric, seed=seed, **given)


def _transcripts(dataset: object, tracking_uri: str | None) -> Iterator[Transcript]:
    if not isinstance(dataset, Iterable | Path | Transcript | Message):
        raise RecipeError(f"Transcripts cannot be read from a {type(dataset).__name__}. Give a log or a list of them.")
    if isinstance(dataset, str) and dataset.startswith(_TRACES):
        from jrh_mlflow.tracking.traces_in import transcripts_from_traces

        return transcripts_from_traces(dataset, tracking_uri=tracking_uri)
    return read_transcripts([dataset] if isinstance(dataset, Transcript | Message) else dataset)


def _is_agentic(dataset: object, names: Sequence[object]) -> bool:
    agents = [_named(name) for name in names if isinstance(name, AgentTest) or name in AGENT_TESTS]
    others = [_named(name) for name in names if _named(name) not in (*agents, *GROUPS)]
    if agents and len(agents) < len(names):
        rest = next(_named(name) for name in names if _named(name) not in agents)
        raise RecipeError(
            f"{agents[0]!r} edits transcripts and {rest!r} responses: they need different sources. Make two suites."
        )
    if others and _are_transcripts(dataset):
        raise RecipeError(
            f"Test {others[0]!r} rewrites single responses, but the source holds transcripts. "
            f"Tests of transcripts: {', '.join(AGENT_TESTS)}."
        )
    return bool(agents) or _are_transcripts(dataset)


def _are_transcripts(dataset: object) -> bool:
    """Tell transcripts where there is no doubt: a `.json` of messages may as well hold labelled responses."""
    if isinstance(dataset, str | Path):
        path = Path(dataset)
        if str(dataset).startswith(_TRACES) or path.suffix.lower() == ".eval":
            return True
        return path.is_dir() or (path.suffix.lower() == ".json" and path.is_file() and is_inspect_log(path))
    if isinstance(dataset, Sequence) and dataset:
        first = dataset[0]
        while isinstance(first, list | tuple) and first:
            first = first[0]
        return _is_said(first)
    return _is_said(dataset)


def _is_said(value: object) -> bool:
    if isinstance(value, Transcript | Message):
        return True
    return isinstance(value, Mapping) and (
        {"role", "content"} <= value.keys() or isinstance(value.get("messages"), list)
    )


def _names(tests: object) -> list[object]:
    if isinstance(tests, str):
        return [name.strip() for name in tests.split(",")]
    return list(tests) if isinstance(tests, Iterable) else [tests]


def _named(test: object) -> object:
    return getattr(test, "name", test)


def _for_responses(given: Mapping[str, Any]) -> dict[str, Any]:
    for name in _ONLY_TRANSCRIPTS:
        if given.get(name) not in (None, (), [], ""):
            raise RecipeError(f"`{name}` is for transcripts, and the source holds responses. Leave it out.")
    rest = {name: value for name, value in given.items() if name not in (*_ONLY_TRANSCRIPTS, "group")}
    if "group" in given:
        rest["columns"] = {**(rest.get("columns") or {}), "group": given["group"]}
    return rest


_KEPT = ("generator", "validator", "verdicts", "steps", "summaries", "preprocess", "review")
"""What of an item's meta goes into the sample's metadata."""


def export_inspect(suite: Suite, logs: Sequence[str | Path], path: str | Path) -> list[Edit]:
    """Write the edited transcripts of a suite as one log, as a judge sees them, and return them.

    Args:
        suite: With items of kind `transcript`.
        logs: Where the originals lie.
        path: Of the new log, ending in `.eval` or `.json`.

    Raises:
        RecipeError: when the suite holds none, or an original is not in the logs.
    """
    items = [item for item in suite.items if item.kind == "transcript" and item.condition != BASELINE]
    if not items:
        raise RecipeError(f"Suite {suite.name!r} holds no edited transcripts.")
    parents = {one.id: one for log in logs for one in read_transcripts(log)}
    missing = sorted({item.task for item in items if item.task not in parents})
    if missing:
        names = ", ".join(Path(log).name for log in logs)
        raise RecipeError(
            f"{len(missing)} originals are not in {names}, the first {missing[0]!r}. Name their log, too."
        )
    edits = [_edit(item, parents[item.task]) for item in items]
    write_inspect(edits, path)
    return edits


def _edit(item: Item, parent: Transcript) -> Edit:
    # A reviewer may have edited other messages than the pipeline: then they are compared.
    reviewed = (item.meta.get("review") or {}).get("state") == "edited"
    edited = None if reviewed else item.meta.get("edited")
    known = {key: item.meta[key] for key in _KEPT if item.meta.get(key) not in (None, [], {})}
    return Edit(
        parent=parent,
        messages=item.transcript or (),
        test=item.condition,
        edited=None if edited is None else tuple(edited),
        meta={"item": item.id, "rubric": item.rubric, "expected": item.expected, **known},
    )
