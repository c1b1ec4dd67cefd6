"""A test of the user's own that is a prompt in a text file: what a generator is told, and what is then expected.

    ---
    name: sarcasm
    title: the same content in a sarcastic tone
    expects: unchanged
    changes: tone
    keeps: [numbers, names]
    max_length: 2
    ---
    Rewrite this answer in a sarcastic tone: {original}

What stands between the lines `---` is optional: a file with nothing but the prompt goes by its own name and expects an
unchanged answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import Check, NotApplicable, Parameter, Target, parameter
from jrh_mlflow.perturb.bands import BandedRewrite
from jrh_mlflow.perturb.checks import REWRITTEN, keeps_names, keeps_negations, keeps_numbers
from jrh_mlflow.perturb.entries import checked_value
from jrh_mlflow.perturb.few_shot import HOW, FewShot
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import UNCHANGED, ExpectedLabel

BRIEF_FIELDS = ("original", "instruction", "rubric", "label", "expected", "examples")
"""What a prompt may ask for."""
SAME, FLIPPED = "unchanged", "flipped"
_SPELLED = {"answer": "expects", "confirmed": "confirm"}
"""How a file spells what of a test is an object or a property."""
_TRUTHS = {"true": ("yes", "on"), "false": ("no", "off")}
_FIELD = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)

Kept = Literal["numbers", "names", "negations"]
_KEEPS: Mapping[str, Check] = {"numbers": keeps_numbers, "names": keeps_names, "negations": keeps_negations}


@dataclass(frozen=True, kw_only=True)
class PromptTest(BandedRewrite):
    """A rewrite by a prompt of the user's."""

    name: str = parameter("", "What items, metrics and reports call it; the file's name.")
    prompt: str = parameter("", "What the generator is told.")
    title: str = parameter("", "What changes, in one line.")
    answer: str = parameter(SAME, "The right answer then: unchanged, flipped, or one of the labels.")
    changes: str = parameter("", "What of a response changes, where the answer must not.")
    confirmed: bool | None = parameter(None, "Whether a validator must give that answer; unless it is unchanged.")
    keeps: tuple[Kept, ...] = parameter((), "What must not get lost: numbers, names, negations.")
    max_length: float = parameter(3.0, "Most words, as a multiple of the original's.")
    min_length: float = parameter(0.2, "Fewest words, as a multiple of them.")
    min_similarity: float = parameter(0.0, "Least similarity with the original.")
    max_similarity: float = parameter(0.99, "Most similarity with the original.")
    examples: int = parameter(3, "Most responses with the expected label for {examples}.")
    choice: Literal["spread", "nearest", "random", "none"] = parameter("spread", HOW)

    group = "own"
    has_rules = False

    def __post_init__(self) -> None:
        _check_prompt(self.name, self.prompt)
        object.__setattr__(self, "title", self.title or f"rewritten as the prompt {self.name} says")
        object.__setattr__(self, "rules", (*REWRITTEN, *(_KEEPS[kept] for kept in self.keeps)))
        super().__post_init__()
        same = self.answer == SAME
        told = "the flipped label" if self.answer == FLIPPED else f"the answer {self.answer}"
        object.__setattr__(self, "expects", UNCHANGED if same else ExpectedLabel(told))
        asked = not same if self.confirmed is None else self.confirmed
        object.__setattr__(self, "needs", frozenset({"generator", *(["validator"] if asked else [])}))

    @property
    def parameters(self) -> list[Parameter]:
        """All that the file says, by the names it uses; a later reader has nothing else to go by."""
        found = [
            replace(one, name=_SPELLED.get(one.name, one.name), changed=True)
            for one in super().parameters
            if one.name != "name"
        ]
        return [*found, Parameter(name="prompt_sha256", value=self.prompt_sha256, help="Of the prompt.", changed=True)]

    @property
    def prompt_sha256(self) -> str:
        """Of the prompt before anything is filled in."""
        return hashlib.sha256(self.prompt.encode("utf-8", "surrogatepass")).hexdigest()

    def targets(self, seeds: Sequence[Seed], labels: Labels, rubric: str) -> list[Target]:
        """Return one item per seed, with the answer that the file expects.

        Raises:
            RecipeError: when it expects a label that there is not.
        """
        aim = self._aim(labels)
        shown = "{examples}" in self.prompt
        few_shot = FewShot(seeds, n=self.examples if shown else 0, choice=self.choice)
        targets = []
        for row, seed in enumerate(seeds):
            expected = seed.label if aim == SAME else labels.flipped(seed.label) if aim == FLIPPED else aim
            targets.append(self.target(seed, labels, rubric, expected=expected, examples=few_shot.of(row, expected)))
        return targets

    def _aim(self, labels: Labels) -> str:
        known = (SAME, FLIPPED, *labels.answers)
        # YAML reads a bare `yes` as true.
        spelled: str | None = next(
            (word for word in (self.answer, *_TRUTHS.get(self.answer, ())) if word in known), None
        )
        if spelled is None:
            told = f"Test {self.name!r} expects {self.answer!r}, which is none of {', '.join(known)}."
            raise RecipeError(told + suggest(self.answer, known))
        return spelled

    def template(self) -> str:
        """Return the file's prompt."""
        return self.prompt

    def write(self, target: Target, rng: Any) -> str:
        """Do nothing: there is no rule for a prompt.

        Raises:
            NotApplicable: always.
        """
        raise NotApplicable("a prompt file is for a generator model, and none is given")


def prompt_test(path: Path, given: Mapping[str, Any], *, name: str | None = None) -> PromptTest:
    """Read a prompt file; what is given beside it comes before what it says itself.

    Raises:
        RecipeError: when it cannot be read, or for a key or a placeholder that is not known, with the nearest one.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The prompt file {path} cannot be read: {error}.") from error
    front, prompt = _front_matter(text, path)
    named = name or front.get("name") or path.stem
    front.pop("name", None)
    settings = _known({**front, **given}, path)
    try:
        return PromptTest(name=str(named), prompt=prompt, **settings)
    except ValueError as error:
        raise RecipeError(f"{path}: {error}") from error


def _front_matter(text: str, path: Path) -> tuple[dict[str, Any], str]:
    import yaml

    found = _FRONT.match(text)
    if found is None:
        return {}, text.strip()
    try:
        front = yaml.safe_load(found[1]) or {}
    except yaml.YAMLError as error:
        raise RecipeError(
            f"{path}: what stands between the lines --- is no YAML: {' '.join(str(error).split())}."
        ) from error
    if not isinstance(front, dict):
        raise RecipeError(f"{path}: between the lines --- stand keys with values, as in `expects: unchanged`.")
    checks = front.pop("checks", None) or {}
    if not isinstance(checks, dict):
        raise RecipeError(f"{path}: `checks` must be a mapping, as in {{max_length: 2, keeps: [numbers]}}.")
    return {**front, **checks}, text[found.end() :].strip()


def _known(given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    hints = get_type_hints(PromptTest)
    own = [one.name for one in fields(PromptTest) if one.name not in ("name", "prompt")]
    spelled = {_SPELLED.get(name, name): name for name in own}
    settings = {}
    for key, value in given.items():
        if key not in spelled:
            close = suggest(str(key), spelled)
            raise RecipeError(f"{path}: unknown key {key!r}.{close} Known: name, {', '.join(sorted(spelled))}.")
        # A label such as 1 or true is written without quotes, too.
        text = _label_text(value) if key == "expects" else tuple(value.split()) if _words(key, value) else value
        settings[spelled[key]] = checked_value(key, text, hints[spelled[key]], of=path.name)
    return settings


def _words(key: str, value: object) -> bool:
    return key == "keeps" and isinstance(value, str)


def _label_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value


def _check_prompt(name: str, prompt: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"A test is named in small letters, digits and _, but got {name!r}. Give `name`.")
    asked = _FIELD.findall(prompt)
    for field in asked:
        if field not in BRIEF_FIELDS:
            known = ", ".join(f"{{{one}}}" for one in BRIEF_FIELDS)
            raise ValueError(f"unknown placeholder {{{field}}}.{suggest(field, BRIEF_FIELDS)} Known: {known}.")
    if not {"original", "instruction"} & set(asked):
        raise ValueError("the prompt holds neither {original} nor {instruction}: every item would be asked for alike.")
