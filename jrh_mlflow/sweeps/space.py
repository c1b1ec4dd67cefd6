"""What a sweep may choose from, and what for: choices, policy over the calls, objectives and constraints.

Every choice (models, prompts, tie criteria, sampling) is categorical and has a name, under which it stands in the study
and in the params of its run. A space is made in Python or written down in YAML. Objectives and constraints name metrics
that runs on the suite have.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.engine.calls import identity, plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.judges import rendering
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.judges.raw import PromptedJudge
from jrh_mlflow.judges.rendering import BUILT_IN, REGISTRY
from jrh_mlflow.judges.scripted import AlwaysFirst
from jrh_mlflow.measures.composite import calls_per_decision, checked_policy, item_decisions, part_of, tally
from jrh_mlflow.measuring.resolve import judge_from_text
from jrh_mlflow.models.catalog import endpoint_of
from jrh_mlflow.models.trust import name_addresses
from jrh_mlflow.options import JudgeOptions
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, Reading, intervals
from jrh_mlflow.schema.items import CallRecord
from jrh_mlflow.schema.presentation import criterion
from jrh_mlflow.show.results import Datasheet, ReliabilityReport, by_category, measure
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.sweep_view import sweep_points
from jrh_mlflow.text import shortened_name
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.yaml_files import Document

Choice = dict[str, Any]
JudgeOf = Callable[[Choice], object]

_POLICY = ("replicates", "vote", "orders")
_SETTINGS = {
    **{"prompts": "prompt", "tie_criteria": "tie_criterion", "temperatures": "temperature", "rubrics": "rubric"},
    "reasoning_efforts": "reasoning_effort",
}
"""Lists of values of one argument of `PromptedJudge`."""
_LISTS = ("models", *_SETTINGS, "replicates", "votes", "orders", "constraints")
_LONGEST = 120
"""A choice that takes more characters to write is named by a digest: MLflow cuts params without a word."""
_LONGEST_PATH = 1024
_COUNTED = {"replicates": "{} replicate{}", "vote": "{} vote", "orders": "{} order{}", "temperature": "temp {}"}
"""How the policies and temperatures are written."""
_LONGEST_SETTING = 28


RELIABILITY = "reliability"
"""The composite of `measures.composite`."""
COST = metric_keys.COST_PER_1K_JUDGMENTS
DIRECTIONS = ("maximize", "minimize")
_CONSTRAINT = re.compile(r"\s*(?P<metric>\S+)\s*(?P<sign><=|>=)\s*(?P<limit>[-+0-9.eE]+)\s*")
_ANY_LABELS = (("no", "yes"), ("1", "2", "3"))
"""Stand for the labels of a suite whose items differ in theirs: together they have every axis that labels can have."""
_ONCE: dict[str, Any] = {"seed": 0, "n_resamples": 1}
"""Only names are read, so that one resample does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """How many calls make a judgment, and how they are read."""

    replicates: int
    """Calls per presentation order."""
    vote: str
    orders: str

    def calls_per_judgment(self, *, pair: bool) -> int:
        """Return what one judgment takes once the judge is in use."""
        return calls_per_decision(orders=self.orders, replicates=self.replicates, pair=pair)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """One point of a space."""

    params: Mapping[str, str]
    """Axis to the name of the choice."""
    choice: Mapping[str, Any]
    """Axis to the choice itself."""
    policy: Policy
    varies: tuple[str, ...] = ()
    """Axes with more than one choice."""
    settings: str = ""
    """What tells it from the others, in few words."""
    number: int = 0
    """Its place in the space, from 1 on."""

    @cached_property
    def key(self) -> str:
        """Identify the configuration within its study."""
        text = json.dumps(dict(self.params), sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    @cached_property
    def judge_key(self) -> tuple[tuple[str, str], ...]:
        """Identify the judge: configurations that differ in their policy only are read from the same calls."""
        return tuple(sorted((name, label) for name, label in self.params.items() if name not in _POLICY))

    @property
    def label(self) -> str:
        """Its number and the choices that vary, in one line: `#3 gpt-4o-mini, strict, one order`."""
        return f"#{self.number} {self.settings}" if self.settings else "the only configuration"


@dataclass(frozen=True, kw_only=True)
class Space:
    """The choices of a sweep.

    Prompted judges: `models` with prompts, tie criteria, temperatures and rubrics. Judges of one's own: `choices` and
    `judge`, a function from the chosen values to anything that `evaluate` takes.
    """

    models: Sequence[str | Mapping[str, Any]] = ()
    """Model names, or arguments of `PromptedJudge` such as `{"model": …, "api_base": …, "name": …}`."""
    prompts: Sequence[str] = ("pairwise",)
    """Built-in names, template files, texts, or `prompts:/name/version` of MLflow's prompt registry."""
    tie_criteria: Sequence[str] = ("allowed",)
    temperatures: Sequence[float | None] = (0.0,)
    rubrics: Sequence[str | None] = (None,)
    reasoning_efforts: Sequence[str | None] = (None,)
    """Words that the models take, such as `low` and `high`; None leaves it to the provider."""
    replicates: Sequence[int] = (1,)
    votes: Sequence[str] = ("majority",)
    orders: Sequence[str] = ("both",)
    objectives: Mapping[str, str] = field(default_factory=lambda: {RELIABILITY: "maximize", COST: "minimize"})
    """Metric to `maximize` or `minimize`."""
    constraints: Sequence[str] = ()
    """Such as `dark_current/rate <= 0.05`: a configuration that breaks one is never on the front."""
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    judge: JudgeOf | None = None

    def __post_init__(self) -> None:
        for name in _LISTS:
            object.__setattr__(self, name, _listed(name, getattr(self, name)))
        for name, setting in _SETTINGS.items():
            for value in getattr(self, name):
                _check_setting(name, {setting: value})
        object.__setattr__(self, "prompts", [_prompt_text(prompt) for prompt in self.prompts])
        object.__setattr__(self, "choices", _checked_choices(self.choices))
        if self.judge is not None and not callable(self.judge):
            raise RecipeError(f"`judge` of a space is a function from chosen values to a judge, not {self.judge!r}.")
        if bool(self.models) == (self.judge is not None):
            raise RecipeError("A space has either `models` or, for judges of your own, `choices` and `judge`.")
        if self.judge is None and self.choices:
            raise RecipeError("`choices` need a `judge`: a function from the chosen values to a judge.")
        for vote in self.votes:
            checked_policy(vote=vote, orders="both")
        for orders in self.orders:
            checked_policy(vote="majority", orders=orders)
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.replicates):
            raise RecipeError(f"`replicates` must be whole numbers of 1 or more, but got {list(self.replicates)}.")
        checked_objectives(self.objectives)
        self.axes  # noqa: B018 - names that clash are refused here
        if len({str(limit) for limit in self.limits}) < len(self.limits):
            raise RecipeError(f"`constraints` of a space has one twice: {', '.join(map(str, self.limits))}.")

    @cached_property
    def limits(self) -> tuple[Constraint, ...]:
        """The constraints, read."""
        return tuple(read_constraint(text) for text in self.constraints)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that objectives and constraints are about."""
        return (*self.objectives, *(limit.metric for limit in self.limits))

    @cached_property
    def axes(self) -> dict[str, dict[str, Any]]:
        """Axis to the names of its choices, and each name to the choice."""
        own: dict[str, list[tuple[str, Any]]]
        if self.judge is not None:
            own = {name: [(_plain_name(value), value) for value in values] for name, values in self.choices.items()}
        else:
            own = {
                "model": [_named_model(model) for model in self.models],
                "prompt": [(rendering.load_template(str(prompt)).name, prompt) for prompt in self.prompts],
                "tie_criterion": [(criterion(text).name, text) for text in self.tie_criteria],
                "temperature": [("None" if value is None else str(float(value)), value) for value in self.temperatures],
                "rubric": [(_digest_name(text) if text else "none", text) for text in self.rubrics],
            }
            if self.reasoning_efforts != [None]:
                own["reasoning_effort"] = [(effort or "unset", effort) for effort in self.reasoning_efforts]
        for name, values in (("replicates", self.replicates), ("vote", self.votes), ("orders", self.orders)):
            own[name] = [(str(value), value) for value in values]
        return {name: _distinct(name, pairs) for name, pairs in own.items()}

    def configuration(self, params: Mapping[str, str], *, pair: bool) -> Configuration:
        """Return a point of the space; choices that make no difference are brought to one name.

        One replicate has no vote to count, and one response has no presentation order.
        """
        named = {name: params[name] for name in self.axes}
        # Two names of one configuration would be measured and paid twice.
        if named["replicates"] == "1":
            named["vote"] = next(iter(self.axes["vote"]))
        if not pair:
            named["orders"] = next(iter(self.axes["orders"]))
        choice = {name: self.axes[name][label] for name, label in named.items()}
        policy = Policy(replicates=choice["replicates"], vote=choice["vote"], orders=choice["orders"])
        settings = ", ".join(texts[named[name]] for name, texts in self._setting_texts.items())
        varies = tuple(self._setting_texts)
        return Configuration(params=named, choice=choice, policy=policy, varies=varies, settings=settings)

    @cached_property
    def _setting_texts(self) -> dict[str, dict[str, str]]:
        """Axis that varies to the names of its choices, and each name to how people read it."""
        varying = {name: list(labels) for name, labels in self.axes.items() if len(labels) > 1}
        counts = Counter(label for labels in varying.values() for label in labels)
        return {
            name: {label: _setting_text(name, label, labels, alone=counts[label] == 1) for label in labels}
            for name, labels in varying.items()
        }

    def configurations(self, *, pair: bool, seed: int = 0) -> list[Configuration]:
        """Return every different configuration, in the random order of the seed."""
        distinct: dict[str, Configuration] = {}
        for labels in product(*self.axes.values()):
            configuration = self.configuration(dict(zip(self.axes, labels, strict=True)), pair=pair)
            distinct.setdefault(configuration.key, configuration)
        numbered = [replace(point, number=number) for number, point in enumerate(distinct.values(), 1)]
        return random.Random(seed).sample(numbered, len(numbered))  # noqa: S311 - an order

    def make_judge(self, configuration: Configuration) -> object:
        """Return what `evaluate` is given."""
        choice = configuration.choice
        if self.judge is not None:
            return self.judge({name: value for name, value in choice.items() if name not in _POLICY})
        given = {name: choice[name] for name in _SETTINGS.values() if name in choice} | choice["model"]
        rubrics = choice["model"].get("rubric"), choice["rubric"]
        return PromptedJudge(**{**given, "rubric": "\n\n".join(text for text in rubrics if text) or None})

    @cached_property
    def sha256(self) -> str:
        """Hash of the choices, the policy and the goals: the same space continues the same study."""
        judge = None if self.judge is None else _identity(self.judge)
        # Names carry a digest of what they stand for, so that a file's place does not matter.
        axes = {name: list(labels) for name, labels in self.axes.items()}
        models = [_located(_named_model(model)[1]) for model in self.models]
        facts = [axes, models, judge, dict(self.objectives), [str(limit) for limit in self.limits]]
        text = json.dumps(facts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


SPACE_KEYS = tuple(part.name for part in fields(Space))


def _named_model(spec: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    given = {"model": spec} if isinstance(spec, str) else dict(spec) if isinstance(spec, Mapping) else {}
    Document(given, JudgeOptions.model_fields, where="`models` of a space")
    if not isinstance(given.get("model"), str):
        raise RecipeError(f"A model of a space is a name or a mapping with `model`, but got {spec!r}.")
    _check_setting("models", given)
    return str(given.get("name") or given["model"]), given


def _located(given: dict[str, Any]) -> dict[str, Any]:
    """Return a model's settings with the endpoint that the environment names, where it names one."""
    # The same model at another endpoint is another judge, and another study.
    endpoint = None if given.get("api_base") else endpoint_of(given["model"])
    return given if endpoint is None else {**given, "api_base": endpoint}


def _listed(name: str, value: object) -> list[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise RecipeError(f"`{name}` of a space must be a list, but is {value!r}.")
    return list(value)


def _check_setting(name: str, given: Mapping[str, Any]) -> None:
    try:
        JudgeOptions.checked({"model": "-", **given})
    except ValueError as error:
        raise RecipeError(f"`{name}` of a space: {error}") from error


def _checked_choices(choices: object) -> dict[str, list[Any]]:
    if not isinstance(choices, Mapping):
        raise RecipeError(f"`choices` of a space must map names to lists of values, but is {choices!r}.")
    for name in choices:
        if not isinstance(name, str) or not name:
            raise RecipeError(f"`choices` of a space: the name of an axis must be a text, but is {name!r}.")
        if name in _POLICY:
            raise RecipeError(f"{name!r} is a policy of its own: give it beside `choices`, not among them.")
    return {name: _listed(f"choices.{name}", values) for name, values in choices.items()}


def _prompt_text(spec: str | Path, *, folder: Path | None = None, tracking_uri: str | None = None) -> str:
    """Return the text of a registered prompt, the path of a file in the folder, or what was given."""
    text = str(spec)
    if text.startswith(REGISTRY):
        from jrh_mlflow.tracking.judges.prompts import registered_prompt

        return registered_prompt(text, tracking_uri=tracking_uri)
    if folder is None or "\n" in text or text in BUILT_IN or len(text) >= _LONGEST_PATH:
        return text
    return str(folder / text) if (folder / text).is_file() else text


def _setting_text(axis: str, label: str, labels: Sequence[str], *, alone: bool) -> str:
    """Write a choice for people: a word says itself what it is about, a number or a word of two axes does not."""
    if axis in _COUNTED:
        return _COUNTED[axis].format(label, "" if label in ("1", "one") else "s")
    folder = label.rpartition("/")[0]
    while folder and not all(other.startswith(f"{folder}/") for other in labels):
        folder = folder.rpartition("/")[0]
    # What all of them begin with, such as the provider of models, tells nothing.
    short = shortened_name(label.removeprefix(f"{folder}/"), most=_LONGEST_SETTING)
    is_word = alone and any(map(str.isalpha, label)) and label.casefold() not in ("none", "unset", "true", "false")
    return short if is_word else f"{axis.replace('_', ' ')} {short}"


def _digest_name(text: str) -> str:
    return f"own-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _plain_name(value: object) -> str:
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, sort_keys=True, default=str)
    own = getattr(value, "name", None) or getattr(value, "__qualname__", None)
    text = own if isinstance(own, str) else str(value)
    return text if len(text) <= _LONGEST else _digest_name(text)


def _identity(function: Callable[..., object]) -> str:
    """Hash the code of a function where that can be read; otherwise its name must do."""
    place = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    return CallableJudge(function).fingerprint() or place


def _distinct(axis: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if not pairs:
        raise RecipeError(f"The axis {axis!r} of the space has no choice: give at least one.")
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RecipeError(f"The axis {axis!r} has {twice!r} twice. Give each choice a name of its own.")
    return named


def load_space(path: str | Path, *, tracking_uri: str | None = None) -> Space:
    """Read a space; files in it are relative to it, and `prompts:/name/version` comes from MLflow's registry.

    `judge: file.py:function` names a function from the chosen values of `choices` to a judge.

    Raises:
        RecipeError: for a key that is not known, with the nearest one that is.
    """
    document = Document.read(path, SPACE_KEYS)
    given = document.data
    name_addresses(given, str(path))
    for key in ("rubrics", "tie_criteria"):
        if isinstance(given.get(key), list):
            given[key] = [document.text(choice, key) for choice in given[key]]
    with document.named():
        return _space(document, tracking_uri)


def as_space(space: object, *, tracking_uri: str | None = None) -> Space:
    """Take a space as it is, read a file, or make one from a mapping."""
    if isinstance(space, str | Path):
        return load_space(space, tracking_uri=tracking_uri)
    return space if isinstance(space, Space) else _space(Document(space, SPACE_KEYS, where="The space"), tracking_uri)


def _space(document: Document, tracking_uri: str | None) -> Space:
    given = document.data
    if isinstance(given.get("judge"), str):
        given["judge"] = _function(given["judge"], document)
    if isinstance(given.get("prompts"), list | tuple):
        # What is neither text nor path is left to the space, which says what is wrong with it.
        given["prompts"] = [
            _prompt_text(prompt, folder=document.folder, tracking_uri=tracking_uri)
            if isinstance(prompt, str | Path)
            else prompt
            for prompt in given["prompts"]
        ]
    return Space(**given)


def _function(text: str, document: Document) -> JudgeOf:
    judge = judge_from_text(text if text.startswith("scripted:") else document.code(text))
    if not isinstance(judge, CallableJudge):
        raise RecipeError(f"`judge` of a space is a function from chosen values to a judge, but {text!r} is a judge.")
    return judge.function  # type: ignore[return-value]


_WHOLE = Estimate(value=0.5, n=1, excluded=0, **intervals((0.0, 1.0), (0.0, 1.0)), n_clusters=1, method="none")


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """A metric that must not pass a limit."""

    metric: str
    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.limit:g}"

    def excess(self, value: float) -> float:
        """Return by how much a value breaks the rule; 0 or less keeps it."""
        return value - self.limit if self.sign == "<=" else self.limit - value


def read_constraint(text: str) -> Constraint:
    """Read `dark_current/rate <= 0.05`.

    Example:
        >>> str(read_constraint("dark_current/rate<=0.05"))
        'dark_current/rate <= 0.05'
    """
    match = _CONSTRAINT.fullmatch(text) if isinstance(text, str) else None
    try:
        limit = float(match["limit"]) if match else math.nan
    except ValueError:
        limit = math.nan
    if match is None or not math.isfinite(limit):
        raise RecipeError(f"A constraint is written `metric <= number` or `metric >= number`, but got {text!r}.")
    return Constraint(metric=match["metric"], sign=match["sign"], limit=limit)


def checked_objectives(objectives: Mapping[str, str]) -> None:
    """Refuse a sweep without objectives, and a direction that is none."""
    if not isinstance(objectives, Mapping) or not objectives:
        raise RecipeError("`objectives` map a metric to maximize or minimize, and there is none.")
    for metric, direction in objectives.items():
        if not isinstance(metric, str):
            raise RecipeError(f"An objective is the name of a metric, but got {metric!r}.")
        if direction not in DIRECTIONS:
            raise RecipeError(
                f"The objective {metric!r} has the direction {direction!r}.{suggest(str(direction), DIRECTIONS)} "
                f"Known: {', '.join(DIRECTIONS)}."
            )


def is_map(objectives: Mapping[str, str]) -> bool:
    """Whether the objectives are reliability against cost: the ones with intervals, stops and ties."""
    return dict(objectives) == {RELIABILITY: "maximize", COST: "minimize"}


def picked(metrics: Mapping[str, float], name: str, withheld: Mapping[str, str] | None = None) -> float:
    """Return a metric by name.

    Raises:
        RecipeError: when the run has none of that name: why it is withheld, or the nearest name.
    """
    value = metric_keys.value_or_bound(metrics, name)
    if value is None:
        for axis in (name, name.rpartition("/")[0]):
            if withheld and axis in withheld:
                raise RecipeError(f"{axis} is withheld: {withheld[axis]}.")
        # Sums over some of the calls only are left out of the metrics: then a price is what is missing.
        if name == COST or metric_keys.UNKNOWN_COSTS in metrics:
            raise RecipeError(
                "The cost of a call is unknown, so its objective is too. Give the model's price "
                "(`prices`), or answers that carry `cost_usd`."
            )
        raise RecipeError(f"The runs of this sweep have no metric {name!r}.{suggest(name, metrics)}")
    return value


def check_names(names: Iterable[str], suite: Suite, *, replicates: int, metric: str | None = None) -> None:
    """Refuse a metric that no run on the suite can have.

    Raises:
        RecipeError: with the nearest name there is.
    """
    wanted = list(names)
    if set(wanted) <= {RELIABILITY, COST}:
        return
    known = metric_names(suite, replicates=replicates, metric=metric)
    for name in wanted:
        if name not in known:
            # An axis without its statistic is the likeliest slip, and other statistics are spelled more alike.
            near = known & {f"{name}/rate", f"{name}/value"} or known
            raise RecipeError(
                f"Runs on suite {suite.name!r} have no metric {name!r}.{suggest(name, near)} "
                f"{RELIABILITY} and {COST} are always there."
            )


def metric_names(suite: Suite, *, replicates: int, metric: str | None = None) -> set[str]:
    """Return every name: made-up calls are measured, and each axis counts as if it had a number.

    Which of them a run does have depends on its judge too: prices, confidences, answers that can be read.

    Raises:
        SuiteError: when nothing in the suite is part of the composite `reliability`.
    """
    names = {RELIABILITY, COST}
    pairs = suite.has_pairs
    scales = (None,) if pairs else _ANY_LABELS if suite.labels is None else (suite.labels,)
    for labels in scales:
        calls = _made_up(suite, labels, replicates=replicates)
        names |= {point.key for point in _points(suite, calls, labels, metric)}
    # A threshold that lies beyond the steps has its bound under another name.
    values = [name.removesuffix("/value") for name in names if name.endswith("threshold_75/value")]
    return names | {f"{axis}/{bound}" for axis in values for bound in ("at_least", "at_most")}


def _points(suite: Suite, calls: pd.DataFrame, labels: Sequence[str] | None, metric: str | None) -> list[keys.Point]:
    counted = tally(item_decisions(calls), labels=labels)
    readings = dict.fromkeys((RELIABILITY, *map(part_of, counted.cells)), _WHOLE)
    return [
        *keys.sheet_points(_filled(measure(calls, labels=labels, metric=metric, **_ONCE), suite, calls)),
        *keys.call_points(calls, seconds=1.0),
        *keys.price_points(1.0),
        *sweep_points(readings, usd_per_1k=1.0, calls_per_judgment=1),
    ]


def _filled(sheet: Datasheet | ReliabilityReport, suite: Suite, calls: pd.DataFrame) -> Datasheet | ReliabilityReport:
    # What made-up answers do not have: several right ones, and reasons.
    judged_alone = all(item.kind != "pair" for item in suite.items)
    further = {"reason_conflict": _WHOLE, **({"constant_answer": _WHOLE} if judged_alone else {})}
    estimates = {**_numbers(sheet.estimates), **further}
    labels = None if isinstance(sheet, Datasheet) else sheet.labels
    groups = by_category(calls, suite.groups, labels=labels, **_ONCE)
    categories = {name: _numbers(axes) for name, axes in groups.items()}
    if isinstance(sheet, Datasheet):
        return replace(sheet, estimates=estimates, categories=categories)
    return replace(
        sheet,
        estimates=estimates,
        summary=dict.fromkeys(sheet.summary, 1.0),
        categories=categories,
        rubrics={name: _numbers(axes) for name, axes in sheet.rubrics.items()},
        positions={name: _numbers(axes) for name, axes in sheet.positions.items()},
    )


def _numbers(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """Give every axis a number of the kind that it has."""
    return {axis: replace(_WHOLE, statistic=reading.statistic) for axis, reading in readings.items()}


def _made_up(suite: Suite, labels: Sequence[str] | None, *, replicates: int) -> pd.DataFrame:
    """Return the calls of an evaluation in which everything was answered, with a confidence and a price."""
    # Any answer will do: only the names of what can be measured are read.
    answer = "1" if labels is None else labels[-1]
    answered = {"outcome": "verdict", "answer": answer, "confidence": 0.5}
    answered |= {"input_tokens": 1, "output_tokens": 1, "cost_usd": 1.0}
    records = []
    for call in plan_calls(suite, AlwaysFirst(), replicates=replicates):
        expected = answer if call.item.expected else ""
        records.append(CallRecord(**{**identity(call), "expected": expected, **answered}))
    return calls_frame(records)
