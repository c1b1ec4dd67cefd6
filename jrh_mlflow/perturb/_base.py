"""The contract of a reliability test: what it declares, how items are written, what must hold.

A test is one class in one file, which says all there is to know of it. There are two kinds:
`CodeTest` writes by code, seeded; `Rewrite` has a generator model write, and needs one.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import UNCHANGED, Expectation

Need = Literal["generator", "validator", "order", "grades", "scale", "transcripts"]
"""A model that writes; one that confirms; labels with two ends (a scale, or two); labels that grade; a scale; logs."""

_FIELD = re.compile(r"\{\{(\w+)\}\}|\{(\w+)\}")
_SAY_GRADES = "Say grades=True (--grades) where the last label is the better one, or leave the test out."
_SAY_ORDER = "List them the other way round, or say grades=True (--grades) where they are right as they are."
_CONTEXT = "For context only, and never to be written into the text: a grader chooses among labels."


KEPT, CHANGED = "kept", "changed"
"""What a validator answers about a text and its rewrite."""


class NotApplicable(Exception):  # noqa: N818 - a reason, not a failure
    """This test cannot be made of this seed; the text says why. The item is set aside with it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One item to make."""

    test: str
    condition: str
    """What the call records will say: the test's name, or one of its doses or designs."""
    seed: Seed
    labels: Labels
    rubric: str
    """The judge's question; what the labels mean is added to it, see `question`."""
    expected: str | None
    """The right answer to the finished item; None where only a direction is expected."""
    part: Literal["response", "rubric"] = "response"
    """Which of the two the test rewrites."""
    number: int = 0
    """Tells the items of one seed and condition apart."""
    replicates: int = 1
    """How often a judge is asked about the item."""
    bucket: str | None = None
    """Items of one bucket are made one after the other, and must differ from one another."""
    examples: tuple[str, ...] = ()
    """Other responses that carry the expected label, for a few-shot brief."""
    also: tuple[Seed, ...] = ()
    """Further seeds the same text serves: a reworded question is written once."""
    label_source: str = ""
    """Of the expected answer, where it rests on a label that is no ground truth: one of `LABEL_SOURCES`."""

    @property
    def original(self) -> str:
        """The text that is to be changed."""
        return self.seed.response if self.part == "response" else self.rubric

    @property
    def question(self) -> str:
        """The judge's question as the judge sees it: the rubric, and what the labels mean."""
        return self.labels.question(self.rubric)

    @property
    def id(self) -> str:
        """Unique within a suite."""
        return item_id(self.seed, self.condition, self.number)


def item_id(seed: Seed, condition: str, number: int = 0) -> str:
    """Name an item after its source."""
    return f"{seed.id}/{condition}" + (f"/{number}" if number else "")


class Similarity(ABC):
    """How alike two texts are, from 0 to 1. It cannot certify meaning: a negation is as near as a paraphrase."""

    name: str

    @abstractmethod
    def between(self, one: str, other: str) -> float:
        """Return the cosine similarity of two texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckContext:
    """What a check may look at besides the text."""

    similarity: Similarity
    earlier: tuple[str, ...] = ()
    """Texts made before in the same bucket."""


Check = Callable[[Target, str, CheckContext], "str | None"]
"""Says what is wrong with a text (`numbers lost: 14, 2.5`), or None. Runs before any validation is paid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """A setting of a test, as it stands."""

    name: str
    value: object
    help: str
    changed: bool = False
    """Whether it is not what it is where nobody says anything."""


def parameter(default: Any, help: str) -> Any:
    """Declare a setting of a test that is a dataclass, with a line for `jrh suite tests NAME`."""
    return field(default=default, metadata={"help": help})


class ReliabilityTest(ABC):
    """One way to probe a judge: what changes, what is expected, what it takes."""

    name: str
    title: str
    """What changes, in one line for `jrh suite tests`."""
    expects: Expectation = UNCHANGED
    """What a right judge does, and how that is scored."""
    changes: str = ""
    """What of a response changes while the answer must not, as a rubric might grade it: `length`. Empty elsewhere."""
    designs: str = ""
    """Pattern of what may follow the name in the conditions it writes, such as the dose `_[0-9]+`."""
    group: Literal["paper", "extra", "agent", "own"] = "own"
    """Of the Judge Reliability Harness, ours, of transcripts; or a user's."""
    needs: frozenset[Need] = frozenset()
    most_alike_taken: float | None = None
    """Of texts that are new: most similarity with any text that was taken before."""
    checks: tuple[Check, ...] = ()

    @property
    def parameters(self) -> list[Parameter]:
        """The settings, each with what it does."""
        if not is_dataclass(self):
            return []
        values = [(setting, getattr(self, setting.name)) for setting in fields(self)]
        return [
            Parameter(
                name=setting.name,
                value=value,
                help=setting.metadata.get("help", ""),
                changed=setting.default is MISSING or value != setting.default,
            )
            for setting, value in values
        ]

    @property
    def settings(self) -> dict[str, object]:
        """The parameters that are not what they are by default."""
        return {setting.name: setting.value for setting in self.parameters if setting.changed}

    def fits(self, labels: Labels) -> bool:
        """Tell whether items can be made for these labels."""
        return self.unfit(labels) is None

    def unfit(self, labels: Labels) -> str | None:
        """Return why no items can be made for these labels, and what to do, or None."""
        named = ", ".join(map(labels.named, labels.answers))
        # Of two labels one is the other's opposite, scale or not.
        two_ends = labels.ordinal or len(labels.answers) == 2
        if not (labels.ordinal if "scale" in self.needs else two_ends or "order" not in self.needs):
            return f"needs ordinal labels, but they are {named}."
        # Said apart from labels that do not grade at all: here another order of the labels helps.
        if "grades" in self.needs and labels.worse_last:
            return f"needs labels whose better one is last, and of {named} it is the first. {_SAY_ORDER}"
        if "grades" not in self.needs or labels.grading:
            return None
        if labels.grading is None:
            return f"needs labels that grade a response, and whether {named} do is not known. {_SAY_GRADES}"
        return f"needs labels that grade a response, and {named} detect something in it. {_SAY_GRADES}"

    def writes(self, condition: str) -> bool:
        """Tell whether a condition is one of this test's."""
        return re.fullmatch(re.escape(self.name) + self.designs, condition) is not None

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return the items to make: one per seed, with the label unchanged, unless a test says otherwise."""
        return [self.target(seed, labels, rubric) for seed in seeds]

    def target(self, seed: Seed, labels: Labels, rubric: str, **changes: Any) -> Target:
        """Return one item to make; `changes` are the fields that differ from the label-unchanged one."""
        same = Target(
            test=self.name,
            condition=self.name,
            seed=seed,
            labels=labels,
            rubric=rubric,
            expected=seed.label,
            label_source=seed.label_source,
        )
        return replace(same, **changes)


class CodeTest(ReliabilityTest):
    """A test whose texts are written by code, whether or not a generator model is given."""

    @abstractmethod
    def write(self, target: Target, rng: random.Random) -> str:
        """Return the item's text.

        Raises:
            NotApplicable: when there is nothing to change.
        """


class Rewrite(ReliabilityTest):
    """A test whose texts a generator model writes."""

    needs = frozenset({"generator"})
    must_keep: str = (
        "Whatever decides the answer to the grader's question must be the same in both: the rewrite must not deserve "
        "another answer than the original."
    )
    """What a validator is told that a rewrite keeps, where the label does not rest on it; empty: it is not asked."""
    most_alike: float = 0.95
    """Most similarity with any other response of the data than the source."""

    @property
    def confirm(self) -> bool:
        """Whether the label rests on a validator: it must give the expected answer before an item is emitted."""
        return "validator" in self.needs

    def shown(self, targets: Sequence[Target], rows: Sequence[Seed]) -> list[Target]:
        """Return the targets with the examples that the brief shows, chosen among these rows."""
        return list(targets)

    def brief(self, target: Target) -> str:
        """Return what the generator is told: the template with its fields filled in.

        Fields: {original}, {instruction}, {rubric}, {label}, {expected}, {examples}. What the labels mean stands in
        {rubric}; a template without it is told beforehand.
        """
        fields = {
            "original": target.original,
            "instruction": target.seed.instruction,
            "rubric": target.question,
            "label": target.labels.named(target.seed.label),
            "expected": target.labels.named(target.expected or ""),
            "examples": "\n\n".join(target.examples) or "(none)",
        }
        template = self.template()
        context = "" if "{rubric}" in template else labels_context(target.labels)
        return context + fill_prompt(template, fields)

    def template(self) -> str:
        """Return the prompt of this package, `prompts/<name>.txt`; a test of another package brings its own."""
        return prompt(self.name)


def labels_context(labels: Labels) -> str:
    """Tell a writer what the labels mean, in a brief without the judge's question; empty without meanings."""
    return f"{_CONTEXT} {labels.explained}\n\n" if labels.meanings else ""


def fill_prompt(template: str, fields: dict[str, str]) -> str:
    """Put fields into a template in one pass, so that a field's text is never taken for another field.

    Example:
        >>> fill_prompt("{a} and {{a}}", {"a": "{b}", "b": "no"})
        '{b} and {a}'
    """
    return _FIELD.sub(lambda match: f"{{{match[1]}}}" if match[1] else fields.get(match[2], match[0]), template)


@cache
def prompt(name: str) -> str:
    """Read a generator prompt of the package."""
    return resources.files("jrh_mlflow.perturb").joinpath(f"prompts/{name}.txt").read_text(encoding="utf-8")
