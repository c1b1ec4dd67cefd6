"""What may mend a judge: the table `measures/interventions.json`, and a judge and suite with such changes made.

A change is a sentence added to the prompt, a tie criterion, the way the slots are called, a setting, or a policy over
the calls (both orders, several asks and a vote). What does not fit a judge, or changes nothing about it, is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import AnsweringJudge, Judge
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.judges.rendering import load_template
from jrh_mlflow.measures.composite import with_decisions
from jrh_mlflow.measures.records import is_pointwise, normalise
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import TIE_CRITERIA, context_texts
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.space import Policy

_RUBRIC = re.compile(r"(?<!\{)\{rubric\}(?!\})")
_FENCED = {"first": "response_1", "second": "response_2", "response": "response"}


@dataclass(frozen=True, kw_only=True)
class Intervention:
    """One row of the table."""

    name: str
    what: str
    """The setting that is changed: two changes of one, but for sentences, exclude each other."""
    value: Any
    mends: Sequence[str]
    """Axes that it may mend, with `*` for any text."""
    does: str = "adding “{}”"
    """What is done, as the beginning of a sentence, with a place for the text that is added."""

    @property
    def text(self) -> str:
        """What is done, for a sentence: `adding “…”`."""
        return self.does.format(TIE_CRITERIA[self.value].text if self.value in TIE_CRITERIA else self.value)

    def may_mend(self, axes: Iterable[str]) -> bool:
        """Whether one of these axes is among those that it may mend."""
        return any(fnmatchcase(axis, pattern) for axis in axes for pattern in self.mends)


_ROWS = json.loads(files("jrh_mlflow.measures").joinpath("interventions.json").read_text(encoding="utf-8"))
INTERVENTIONS = tuple(Intervention(**row) for row in _ROWS)
"""The table, in the order in which changes are tried."""


@dataclass(frozen=True, kw_only=True)
class RepairArm:
    """A judge with one or two changes; without any it is the judge as it was measured."""

    changes: tuple[Intervention, ...] = ()

    @property
    def name(self) -> str:
        """Its changes."""
        return " + ".join(change.name for change in self.changes) or "unchanged"

    @property
    def names(self) -> frozenset[str]:
        """Of its changes."""
        return frozenset(change.name for change in self.changes)

    @property
    def policy(self) -> Policy:
        """How many calls make a judgment, and how they are read."""
        chosen = {change.what: change.value for change in self.changes}
        return Policy(replicates=chosen.get("replicates", 1), vote="majority", orders=chosen.get("orders", "one"))

    def goes_with(self, other: RepairArm) -> bool:
        """Whether the changes of both can be made at once."""
        settings = [change.what for change in (*self.changes, *other.changes) if change.what != "sentence"]
        return not self.names & other.names and len({*settings}) == len(settings)

    def applied(self, judge: Judge, suite: Suite) -> Changed:
        """Return judge and suite with the changes; None where one does not fit, or changes nothing."""
        # The criterion first: a judge of code is told sentences behind it.
        for change in sorted(self.changes, key=lambda change: change.what != "tie_criterion"):
            changed = _CHANGES[change.what](judge, suite, change.value)
            if changed is None:
                return None
            judge, suite = changed
        return judge, suite

    def decisions(self, calls: pd.DataFrame) -> pd.DataFrame:
        """Turn calls into what a user of the judge gets: one record per presentation and vote, as `measure` reads them.

        With both orders the two presentations of a pair share one decision.
        """
        frame, policy = normalise(calls), self.policy
        pair = not is_pointwise(frame)
        if policy.calls_per_judgment(pair=pair) == 1:
            return frame
        by = ["suite_item", "replicate", *([] if policy.orders == "both" else ["order"])]
        frame = frame.assign(replicate=frame["replicate"] // policy.replicates)
        decided = with_decisions(frame, by, vote=policy.vote, orders="both")
        # Of each presentation the first call stands for the decision.
        decided = decided.drop_duplicates(["suite_item", "order", "replicate"], ignore_index=True)
        slot = np.where((decided["decision"] == "u") == (decided["order"] == "uv"), "1", "2")
        answer = np.where(decided["outcome"] != "verdict", "", slot if pair else decided["decision"])
        records: pd.DataFrame = decided.assign(answer=answer)
        return records


def arms_for(problems: Collection[str], judge: Judge, suite: Suite) -> list[RepairArm]:
    """Return an arm for every change that may mend one of the problems and fits the judge, in the table's order."""
    arms = [RepairArm(changes=(change,)) for change in INTERVENTIONS if change.may_mend(problems)]
    return [arm for arm in arms if arm.applied(judge, suite) is not None]


# --- the changes

Changed = tuple[Judge, Suite] | None
"""Judge and suite with a change; None where it does not fit, or changes nothing."""


def has_template(judge: Judge) -> TypeGuard[PromptedJudge]:
    """Whether its prompt is a template of this package's form, which fences contents and asks for the reason first."""
    return isinstance(judge, PromptedJudge) and not isinstance(judge, RawJudge)


def _with_sentence(judge: Judge, suite: Suite, sentence: str) -> Changed:
    if isinstance(judge, RawJudge):
        return _with_messages(judge, suite, lambda text: f"{text}\n\n{sentence}")
    if has_template(judge):
        begun = judge.with_settings()
        begun.begin(suite)
        if len(begun.used) != 1:
            return None
        template = load_template(_RUBRIC.sub(lambda match: f"{match[0]}\n\n{sentence}", begun.used[0].text))
        return begun.with_settings(template=template, used=(template,), prompt_uri=None, prompt_version=None), suite
    # A judge of code finds the tie criterion behind the rubric of a pair, and the sentence with it.
    if isinstance(judge, AnsweringJudge) and not isinstance(judge, PointwiseJudge) and suite.has_pairs:
        own = judge.tie_criterion
        return judge.with_criterion(replace(own, name=f"{own.name} +", text=f"{own.text} {sentence}".strip())), suite
    return None


def _with_messages(judge: RawJudge, suite: Suite, written: Callable[[str], str]) -> Changed:
    last = max((at for at, message in enumerate(judge.messages) if message.get("role") == "user"), default=None)
    if last is None or not isinstance(content := judge.messages[last].get("content"), str):
        return None
    messages = [*judge.messages]
    messages[last] = {**messages[last], "content": written(content)}
    return judge.with_settings(messages=messages), suite


def _with_fences(judge: Judge, suite: Suite, sentence: str) -> Changed:
    def fenced(text: str) -> str:
        for place, mark in _FENCED.items():
            text = text.replace(f"{{{place}}}", f"<{mark}>\n{{{place}}}\n</{mark}>")
        return f"{text}\n\n{sentence}"

    return _with_messages(judge, suite, fenced) if isinstance(judge, RawJudge) else None


def _with_tie_criterion(judge: Judge, suite: Suite, spec: str) -> Changed:
    try:
        changed = judge.with_criterion(spec)
    except RecipeError:
        return None
    return (changed, suite) if suite.has_pairs and changed.tie_criterion != judge.tie_criterion else None


def _with_answer_style(judge: Judge, suite: Suite, style: str) -> Changed:
    fits = has_template(judge) and suite.has_pairs and judge.answer_style != style
    return (judge.with_settings(answer_style=style), suite) if fits else None


def _with_temperature(judge: Judge, suite: Suite, value: float) -> Changed:
    # None leaves it to the provider, as models that take none need.
    if not isinstance(judge, PromptedJudge) or judge.temperature in (None, value):
        return None
    fields = {"fields": {**judge.fields, "temperature": value}} if isinstance(judge, RawJudge) else {}
    return judge.with_settings(temperature=value, **fields), suite


def _with_reference(judge: Judge, suite: Suite, head: str) -> Changed:
    def shown(item: Item) -> Item:
        text = item.meta.get("reference")
        return replace(item, context=(*context_texts(item.context), f"{head}: {text}")) if text else item

    items = [shown(item) for item in suite.items]
    changed = Suite(name=suite.name, items=items, origin={**suite.origin, "reference": True})
    return None if items == list(suite.items) else (judge, changed)


_CHANGES: Mapping[str, Callable[[Judge, Suite, Any], Changed]] = {
    "sentence": _with_sentence,
    "reasons": lambda judge, suite, text: None if has_template(judge) else _with_sentence(judge, suite, text),
    "tie_criterion": _with_tie_criterion,
    "answer_style": _with_answer_style,
    "temperature": _with_temperature,
    "fences": _with_fences,
    "reference": _with_reference,
    "orders": lambda judge, suite, _: (judge, suite) if suite.has_pairs else None,
    # Without sampling the same question has the same answer.
    "replicates": lambda judge, suite, _: None if getattr(judge, "temperature", None) == 0 else (judge, suite),
}
