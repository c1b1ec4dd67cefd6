"""What a generated suite and its MLflow run say about how they were made."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.generation.editor import own_stages
from jrh_mlflow.generation.pipeline import NOT_ASKED, Counts, Made
from jrh_mlflow.generation.prepared import PreparedGeneration, label_table
from jrh_mlflow.generation.writers import CODE_NAME
from jrh_mlflow.measuring.resolve import journal_place
from jrh_mlflow.outputs import check_free
from jrh_mlflow.perturb import ReliabilityTest
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import message_text
from jrh_mlflow.show.numbers import spent_text
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, plain
from jrh_mlflow.show.tables import Column, FilledTable, Table
from jrh_mlflow.suites.suite import ITEMS_FILE, MANIFEST_FILE, Suite, read_manifest
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent

_MAX_SHOWN = 160
_MAX_REASONS = 12
_TITLES = {
    "items": "made",
    "set_aside": "set aside",
    "validator_rejected": "rejected by the validator",
    "sent_back": "sent back",
    "doubted": "kept in doubt",
}
_ON_THE_WAY = ("unwrapped", "sent_back", "doubted")
"""What is counted where a text held more than the text."""
APART = ("verified", "unverified")
"""What is counted where items are kept that no validator confirmed."""


def made_suite(prepared: PreparedGeneration, made: Made, *, run_id: str, similarity: str) -> Suite:
    """Return the suite, whose manifest says where it comes from."""
    missing = f"{made.stopped}: {made.unfinished} of {prepared.plan.n_items} items not made" if made.stopped else None
    # The cap may end the labelling before anything was made.
    if prepared.labelling is not None and prepared.labelling.unasked:
        missing = f"{missing}, {prepared.labelling.unasked} rows not labelled"
    origin = {
        **_made_from(prepared),
        "tests": {name: counts.to_dict() for name, counts in made.tests.items()},
        **_parameters(prepared.plan.tests),
        **({"invalid": dict(prepared.plan.invalid)} if prepared.plan.invalid else {}),
        "similarity": similarity,
        "n_set_aside": len(made.set_aside),
        **({"set_aside": set_aside_reasons(made)} if made.set_aside else {}),
        "generate_run_id": run_id,
        "truncated": missing,
    }
    return Suite(name=prepared.settings.suite_name, items=made.items, origin=origin)


def _made_from(prepared: PreparedGeneration) -> dict[str, Any]:
    """Return what decides what a suite holds, as its manifest says it."""
    plan = prepared.data
    return {
        "builder": "generate",
        "dataset_sha256": plan.sha256,
        "rubric_sha256": plan.rubric_sha256,
        "n_seeds": len(plan.seeds),
        **_known(plan.settings()),
        "generator": _known(prepared.writer_settings()),
        **({"stages": stages} if (stages := own_stages(prepared.stages)) else {}),
        "validator": ", ".join(judge.name for judge in prepared.confirming) or NOT_ASKED,
        "seed": prepared.settings.seed,
        **prepared.chosen,
        **({} if prepared.settings.pass_required else {"pass_required": False}),
        **({"labeller": _labeller(prepared)} if prepared.labeller else {}),
    }


def _labeller(prepared: PreparedGeneration) -> dict[str, object]:
    """Return who labels, so that a judge can be told that it grades its own labels."""
    assert prepared.labeller is not None
    facts = {"name": prepared.labeller.name, "fingerprint": prepared.labeller.fingerprint()}
    return {**facts, "asks": prepared.settings.labeller_asks, "rows": len(prepared.data.unlabelled)}


def check_folder(prepared: PreparedGeneration, folder: Path, *, force: bool) -> None:
    """Refuse, before anything is paid, a folder with a suite that other settings made.

    Raises:
        RecipeError: naming what differs.
    """
    items = folder / ITEMS_FILE
    if force or not items.exists():
        return
    try:
        manifest = read_manifest(folder / MANIFEST_FILE)
    except (OSError, SuiteError):
        manifest = {}
    origin = {**(manifest.get("origin") or {}), "name": manifest.get("name")}
    wanted = {**_made_from(prepared), "name": prepared.settings.suite_name}
    if origin.get("builder") != wanted["builder"]:
        check_free(items, force=False, holds="is another suite")
    # A manifest went through JSON: tuples have become lists there, and keys texts.
    differing = _differing(origin, _as_saved(wanted))
    proposed = (origin.get("invalid") or {}) if prepared.proposals() else {}
    if list(origin.get("tests") or ()) != [test.name for test in prepared.plan.tests if test.name not in proposed]:
        differing.append("tests")
    before = origin.get("parameters") or {}
    both = [test for test in prepared.plan.tests if test.name in before]
    if any(_is_set_otherwise(test, before[test.name]) for test in both):
        differing.append("parameters of tests")
    if differing:
        check_free(items, force=False, holds=f"is another suite: it differs in {', '.join(sorted(differing))}")


def _differing(origin: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Name what differs from a manifest by what a user sets."""
    # Code draws by the suite's seed: another one is no other generator.
    seed = {} if wanted["generator"].get("kind") != CODE_NAME else {"seed": wanted["seed"]}
    before = {**origin, "generator": {**(origin.get("generator") or {}), **seed}}
    names = [name for name, value in wanted.items() if before.get(name) != value]
    rows = "rows drawn" if {"seed", "n_seeds"} & set(names) else "rows or labels"
    names_of = {"dataset_sha256": rows, "n_seeds": rows, "rubric_sha256": "rubric"}
    return list(dict.fromkeys(names_of.get(name, name) for name in names))


def _is_set_otherwise(test: ReliabilityTest, before: Mapping[str, object]) -> bool:
    """Whether a parameter is not what it was."""
    return before != {setting.name: _as_saved(_stated(setting.value)) for setting in test.parameters}


def _as_saved(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _parameters(tests: Sequence[ReliabilityTest]) -> dict[str, object]:
    """State every parameter of the tests that have any, as it was."""
    stated = {
        test.name: {setting.name: _stated(setting.value) for setting in test.parameters}
        for test in tests
        if test.parameters
    }
    return {"parameters": stated} if stated else {}


def _stated(value: object) -> object:
    """Return what JSON can hold: a user's own test may have any object for a parameter."""
    return value if value is None or isinstance(value, str | int | float | list | tuple) else str(value)


def _known(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}


def generation_content(prepared: PreparedGeneration, made: Made, suite: Suite) -> RunContent:
    """Return what the run of a finished generation holds."""
    apart = () if prepared.settings.pass_required else APART
    totals = ("items", "set_aside", "attempts", "validator_rejected", *apart)
    values: dict[str, float | None] = {f"generate/{name}": made.total(name) for name in totals}
    for test, counts in made.tests.items():
        shown = {name: n for name, n in counts.to_dict().items() if name in ("items", "set_aside", *APART)}
        values |= {f"generate/{test}/{name}": n for name, n in shown.items()}
    usage = made.usage
    values |= {
        metric_keys.CALLS_TOTAL: usage.calls,
        metric_keys.CALLS_CACHED: usage.cached,
        metric_keys.INPUT_TOKENS: usage.input_tokens,
        metric_keys.OUTPUT_TOKENS: usage.output_tokens,
        metric_keys.COST: usage.cost_usd,
        metric_keys.UNKNOWN_COSTS: (usage.cost_usd is not None and usage.unknown_costs) or None,
        **keys.attempt_values(usage.attempts),
        metric_keys.SECONDS: made.seconds,
    }
    page = generation_page(suite, made, writer=prepared.author)
    # MLflow cuts long descriptions: the examples are then left to the artifact.
    short = page if len(page.to_markdown()) <= MAX_DESCRIPTION else replace(page, sections=page.sections[:-1])
    truncated = suite.origin.get("truncated")
    own = {name: prepared.stages[name].prompt.text for name in own_stages(prepared.stages)}
    prompts = {f"{keys.PROMPTS_FOLDER}/{name}.txt": text for name, text in own.items()}
    rows = [json.dumps(asdict(aside), ensure_ascii=False) + "\n" for aside in made.set_aside]
    return RunContent(
        points=keys.known_points(values),
        params=_params(prepared, suite),
        description=short.to_markdown(),
        described_in=keys.GENERATION_MARKDOWN,
        tags={keys.TAG_TRUNCATED: str(truncated)} if truncated else {},
        artifacts={
            keys.SET_ASIDE_FILE: "".join(rows),
            keys.GENERATION_MARKDOWN: page.to_markdown(),
            keys.PAGE_JSON: page.to_dict(),
            **prompts,
            **({} if prepared.labelling is None else {keys.LABELS_FILE: label_table(prepared.plan)}),
        },
        suite=suite,
    )


def _params(prepared: PreparedGeneration, suite: Suite) -> dict[str, dict[str, object]]:
    plan, settings = prepared.data, prepared.settings
    return {
        "generator": prepared.writer_settings(),
        **prepared.stage_settings(),
        **prepared.validator_settings(),
        "labeller": prepared.labeller_settings(),
        "dataset": {
            "sha256": plan.sha256,
            "n_seeds": len(plan.seeds),
            "labels": ",".join(plan.labels.answers),
            "ordinal": str(plan.labels.ordinal).lower(),
            "meanings": "; ".join(f"{label}: {text}" for label, text in plan.labels.meanings.items()) or None,
            "rubric_sha256": plan.rubric_sha256,
            "n": settings.n,
            "stratify": settings.stratify,
            **plan.settings(),
        },
        "suite": keys.suite_facts(suite),
        "test": {f"{test.name}.{name}": value for test in plan.tests for name, value in _logged(test).items()},
        "run": {
            "tests": ",".join(test.name for test in plan.tests),
            "invalid": ",".join(plan.invalid) or None,
            "seed": settings.seed,
            "concurrency": settings.concurrency,
            "max_usd": settings.max_usd,
            "journal": journal_place(settings.journal) if prepared.needs_journal else None,
            "similarity": suite.origin["similarity"],
            "pass_required": None if settings.pass_required else "false",
            "confirm": str(settings.confirm).lower(),
            "definitions": settings.definitions,
        },
    }


def _logged(test: ReliabilityTest) -> dict[str, object]:
    """Return the parameters that were set; a prompt is told by its digest, the text stands in the manifest."""
    return {name: value for name, value in test.settings.items() if name != "prompt"}


def generation_page(suite: Suite, made: Made, *, writer: str) -> Page:
    """Return what was made, what was set aside and why, with examples in the last section."""
    n_baseline = sum(item.condition == BASELINE for item in made.items)
    reasons = list(set_aside_reasons(made).items())[:_MAX_REASONS]
    return Page(
        title=f"Reliability suite: {suite.name}",
        lead=(
            f"{len(suite)} items: {n_baseline} baselines and {made.total('items')} perturbed items, written by "
            f"{writer}; {made.total('set_aside')} set aside."
        ),
        sentences=[
            *([f"Labels: {', '.join(suite.labels.named)}."] if suite.labels else []),
            _cost(made),
            *_sent_back(made),
        ],
        notes=made.notes,
        sections=[
            Section(heading="Tests", blocks=[counts_table(suite, made)]),
            Section(heading="Why items were set aside (last attempt)", blocks=[_REASONS(reasons)]),
            Section(heading="Examples", blocks=[_examples(made.items)]),
        ],
    )


def counts_table(suite: Suite, made: Made) -> FilledTable[tuple[str, Counts]]:
    """Return what came of each test; a terminal has no room for what happened on the way."""
    apart = () if suite.origin.get("pass_required", True) else APART
    names = ["items", "set_aside", "attempts", "validator_rejected", *apart]
    names += [name for name in _ON_THE_WAY if made.total(name)]
    test: Column[tuple[str, Counts]] = Column("test", lambda row: row[0], brief=True)
    return Table((test, *map(_counted, names)))(made.tests.items())


def _counted(name: str) -> Column[tuple[str, Counts]]:
    def text(row: tuple[str, Counts]) -> str:
        number = getattr(row[1], name)
        return "–" if number is None else str(number)

    return Column(_TITLES.get(name, name), text, brief=name not in ("validator_rejected", *_ON_THE_WAY))


def problem_kind(problem: str) -> str:
    """Return the kind of a problem, without its particulars.

    Example:
        >>> problem_kind("length ratio 0.31 outside 0.6 to 1.6: 90 words before, 28 now")
        'length ratio'
    """
    # Numbers and quoted words make every problem unique; what stands before them is its kind.
    return re.split(r"[:'\"\d]", problem, maxsplit=1)[0].strip() or problem


def set_aside_reasons(made: Made) -> dict[str, int]:
    """Count why items were set aside: the problems of their last attempt, or why none could be made."""
    problems = [item.attempts[-1].problems if item.attempts else (item.reason,) for item in made.set_aside]
    return dict(Counter(problem_kind(problem) for listed in problems for problem in listed).most_common())


_REASONS = Table[tuple[str, int]].of(
    Column("reason", lambda row: _brief(row[0])),
    Column("items", lambda row: str(row[1])),
)


_EXAMPLES = Table[tuple[Item, Item]].of(
    Column("condition", lambda pair: pair[1].condition),
    Column("original", lambda pair: _brief(_from_the_change(*_before_and_after(*pair))[0]), words=True),
    Column("perturbed", lambda pair: _brief(_from_the_change(*_before_and_after(*pair))[1]), words=True),
    Column("expected", lambda pair: _brief(pair[1].expected or "–"), words=True),
)
"""A source, and what was made of it."""


def _examples(items: Sequence[Item]) -> FilledTable[tuple[Item, Item]]:
    """Show the first item of each test beside its source."""
    sources = {item.original: item for item in items if item.condition == BASELINE}
    first: dict[str, Item] = {}
    for item in items:
        if item.condition != BASELINE:
            first.setdefault(item.condition, item)
    return _EXAMPLES((sources[item.original], item) for item in first.values())


def _before_and_after(source: Item, item: Item) -> tuple[str, str]:
    """Return what was changed: the rubric, the response, or the first edited message of a transcript."""
    if item.rubric != source.rubric:
        return source.rubric or "", item.rubric or ""
    if item.kind != "transcript":
        return source.response or "", item.response or ""
    place = next(iter(item.meta.get("edited") or [0]))
    shown = [
        [message_text(message) for message in (shown_item.transcript or ())[place : place + 1]]
        for shown_item in (source, item)
    ]
    return " ".join(shown[0]), " ".join(shown[1])


def _from_the_change(before: str, after: str) -> tuple[str, str]:
    """Leave out what both texts begin with, but for a few words."""
    pairs = zip(before, after, strict=False)
    start = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))
    # Where the change is near the beginning, the whole beginning is the better context.
    if start <= _MAX_SHOWN // 2 or before == after:
        return before, after
    start -= _MAX_SHOWN // 4
    return f"… {before[start:]}", f"… {after[start:]}"


def _cost(made: Made) -> str:
    usage = made.usage
    if not usage.calls:
        return "No model was asked."
    dollars = spent_text(usage.cost_usd, unknown_calls=usage.unknown_costs, unknown="cost unknown")
    return f"Calls: {usage.calls} ({usage.cached} from the journal), {dollars}, all models together."


def _sent_back(made: Made) -> list[str]:
    """Say how many texts were sent back because nobody was asked whether they are the text alone."""
    n_sent_back = made.total("sent_back")
    if not n_sent_back:
        return []
    return [
        f"Sent back once: {n_sent_back} texts that began or ended with a line that is not in the form of the "
        f"original. {made.total('doubted')} came back with such a line and are kept: look at them in the review, "
        "or name a validator."
    ]


def _brief(text: str) -> str:
    """Keep the beginning of a text, in one line."""
    flat = plain(text)
    return flat if len(flat) <= _MAX_SHOWN else f"{flat[: _MAX_SHOWN - 1]}…"
