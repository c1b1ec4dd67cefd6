"""Definitions of judges that were measured before runs kept them: made of what those runs hold, and proved.

A prompted judge is made of its settings and of `judge/prompt.txt`. It is the measured one if what it would send for
each call has the hash that the call was logged with. A scripted judge is the measured one if it answers each call as it
was logged. What cannot be proved is not said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.engine.sessions import Numbering, record
from jrh_mlflow.errors import JrhError
from jrh_mlflow.judges import DEFINITION_FORMAT, Judge, rendering, scripted
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.models.local.weights import shown_name
from jrh_mlflow.options import AUTOMATIC, JudgeOptions
from jrh_mlflow.schema.criteria import BUILT_IN, Criterion
from jrh_mlflow.suites.suite import Suite

if TYPE_CHECKING:
    import pandas as pd

_PROMPT = re.compile(
    r"(?P<templates># Prompt .*?)\n\n# \{format\}\n\n(?P<format>.*?)\n\n"
    r"(?:# Rubric of the judge, before the suite's\n\n(?P<rubric>.*)\n\n)?"
    r"Tie criterion \((?P<criterion>[^)]*)\): (?P<text>.*)\n",
    re.DOTALL,
)
"""`judge/prompt.txt` of a prompted judge."""
_TEMPLATE = re.compile(r"(?:\[system\]\n(?P<system>.*?)\n\n)?\[user\]\n(?P<user>.*)", re.DOTALL)
_EXTRA = "extra."
_RECORDED = "Answers recorded earlier: no model was asked."
_STEPS = re.compile(r"([^:,\s]+): ([^,]+)")


def earlier_definition(
    facts: Mapping[str, Any],
    prompt: str,
    *,
    suite: Suite,
    calls: pd.DataFrame,
    replicates: int,
    recorded: bool = False,
) -> dict[str, Any] | None:
    """Return the definition of a judge that an earlier version measured; None where none can be proved.

    Args:
        facts: Its `judge/judge.json`.
        prompt: Its `judge/prompt.txt`.
        suite: The suite of the run, with its texts.
        calls: The calls of the run.
        replicates: How often each presentation was asked.
        recorded: Whether its answers had been given earlier, and nobody was asked.
    """
    if not suite.has_texts or calls.empty:
        return None
    try:
        if facts["kind"] == "prompted":
            made = map(PromptedJudge.from_definition, _prompted(facts, prompt))
            found: Judge | None = next((one for one in made if _sends(one, suite, calls, replicates)), None)
        else:
            found = next((one for one in _scripted(facts) if _answers(one, suite, calls, replicates)), None)
    except (JrhError, KeyError, ValueError, TypeError):
        # What somebody else has logged or edited may have any form: nothing of it is proved.
        return None
    definition = None if found is None else found.definition()
    return {**definition, "recorded": _RECORDED} if definition and recorded else definition


def _prompted(facts: Mapping[str, Any], prompt: str) -> Iterator[dict[str, Any]]:
    """Yield what a prompted judge may have been."""
    parts = _PROMPT.fullmatch(prompt)
    if parts is None:
        return
    names = str(facts["prompt"]).split("+")
    templates = dict(_templates(parts["templates"], names))
    is_built_in = set(names) <= set(rendering.BUILT_IN)
    now = rendering.package_texts()
    used = {name: asdict(one) for name, one in now.templates.items()} | (templates if is_built_in else {})
    own = used[AUTOMATIC] if is_built_in else templates[names[0]]
    criterion = Criterion(name=parts["criterion"], text=parts["text"])
    offers = BUILT_IN[criterion.name].offers_tie if criterion.name in BUILT_IN else True
    yield {
        "format": DEFINITION_FORMAT,
        "kind": "prompted",
        "name": facts["name"],
        "tie_criterion": {**asdict(criterion), "offers_tie": offers},
        "model": facts["model"],
        "shown": shown_name(facts["model"]),
        **_address(facts.get("api_base")),
        "prompt": own,
        "texts": {"templates": used, "format": parts["format"], "no_rubric": now.no_rubric},
        "rubric": parts["rubric"],
        **_sampling(facts),
        "recorded": "",
    }


def _templates(text: str, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Cut the part with the templates at their names."""
    heads = [f"# Prompt {name}\n\n" for name in names]
    places = [text.index(head) for head in heads]
    ends = [place - len("\n\n") for place in places[1:]] + [len(text)]
    for name, head, place, end in zip(names, heads, places, ends, strict=True):
        found = _TEMPLATE.fullmatch(text[place + len(head) : end])
        if found is None:
            raise ValueError(f"Prompt {name!r} has no user section.")
        yield name, {"name": name, "system": found["system"], "user": found["user"]}


def _address(address: str | None) -> dict[str, Any]:
    """Take an address for one that was given: whether the environment named it was not logged."""
    if address and urlsplit(address).scheme in ("http", "https") and " " not in address:
        return {"api_base": address, "endpoint": None, "address": "given"}
    return {"api_base": None, "endpoint": address, "address": "environment"}


def _sampling(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling settings; those that a version had not got are what they were without."""
    usual = {name: JudgeOptions.model_fields[name].default for name in ("reasoning_effort", "answer_style", "logprobs")}
    given = {name: facts.get(name, usual.get(name)) for name in ("temperature", "max_tokens", "seed", "structured")}
    extra = {key.removeprefix(_EXTRA): _read(value) for key, value in facts.items() if key.startswith(_EXTRA)}
    return {**given, **{name: facts.get(name, default) for name, default in usual.items()}, "extra": extra}


def _read(value: Any) -> Any:
    """Return a further field as it was given: lists and maps were logged as JSON."""
    return json.loads(value) if isinstance(value, str) and value[:1] in ("[", "{") else value


def _sends(judge: PromptedJudge, suite: Suite, calls: pd.DataFrame, replicates: int) -> bool:
    """Whether every logged call is one that the judge would send."""
    judge.begin(suite)
    numbering = Numbering(judge)
    keys = {numbering.prepare(call)[1] for call in plan_calls(suite, judge, replicates=replicates)}
    return keys >= set(calls["prompt_sha256"])


def _scripted(facts: Mapping[str, Any]) -> Iterator[scripted.Scripted]:
    """Yield what a scripted judge may have been: the classes whose settings have the names that were logged."""
    name, criterion = str(facts["name"]), str(facts["tie_criterion"])
    if name in scripted.published():
        yield scripted.profile(name)
    for each in scripted.__all__:
        made = getattr(scripted, each)
        if (
            isinstance(made, type)
            and issubclass(made, scripted.Scripted)
            and made not in (scripted.Scripted, scripted.Profile)
        ):
            yield from _of_class(made, facts, criterion, name)


def _of_class(made: Any, facts: Mapping[str, Any], criterion: str, name: str) -> Iterator[scripted.Scripted]:
    if made is scripted.Shortcut:
        return
    known = made().arguments()
    if not set(known) <= set(facts) or (not known and made.__name__ != name):
        return
    judge = made(**{key: _argument(facts[key], like) for key, like in known.items()})
    judge.name, judge.tie_criterion = name, BUILT_IN[criterion]
    yield judge


def _argument(value: Any, like: Any) -> Any:
    """Read an argument of which the settings hold a text: rates by step, or by test."""
    if not isinstance(like, list | dict):
        return value
    rates = {key: float(rate) for key, rate in _STEPS.findall(value or "")}
    return rates if isinstance(like, dict) else {float(key): rate for key, rate in rates.items()}


def _answers(judge: scripted.Scripted, suite: Suite, calls: pd.DataFrame, replicates: int) -> bool:
    """Whether the judge answers every logged call as it was answered then."""
    judge.begin(suite)
    again = {}
    for call in plan_calls(suite, judge, replicates=replicates):
        said = record(judge, call, judge.answer(call), failure=None, latency_s=0.0)
        again[call.item.id, call.order, call.replicate] = (said.outcome, said.answer)
    asked = zip(calls["suite_item"], calls["order"], calls["replicate"], strict=True)
    answered = zip(calls["outcome"], calls["answer"], strict=True)
    return all(again.get(call) == answer for call, answer in zip(asked, answered, strict=True))
