"""How a test is written down: a name, a name with parameters, or a prompt file, as text or as a mapping.

| on the command line | in Python and YAML |
|---|---|
| `label_flip` | `label_flip` |
| `stochastic_stability:replicates=5:deep_seeds=0` | `{name: stochastic_stability, replicates: 5, deep_seeds: 0}` |
| `@sarcasm.txt:expects=flipped` | `{name: sarcasm, prompt: sarcasm.txt, expects: flipped}` |

In text, commas part tests and `:key=` begins a parameter. A value with a comma, or with such a colon, stands in double
quotes: `@sarcasm.txt:title="dry, biting"`.

A prompt file is a test of the user's own: what a generator is told, and what is then expected.

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
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import Check, Parameter, ReliabilityTest, Rewrite, Target, parameter
from jrh_mlflow.perturb.checks import REWRITTEN, BandedRewrite, keeps_names, keeps_negations, keeps_numbers
from jrh_mlflow.perturb.synthetic_ordinal import HOW, FewShot
from jrh_mlflow.schema.items import Labels, Seed
from jrh_mlflow.scoring.expectations import UNCHANGED, ExpectedLabel

_COMMA, _COLON = re.compile(","), re.compile(r":(?=\w{1,40}=)")
_RULES: Mapping[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
}
PROMPT_MARK = "@"

T = TypeVar("T", bound=ReliabilityTest)


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenTest:
    """A test as it was written down."""

    name: str | None
    """None where only a prompt file is named, whose own name counts."""
    prompt: str | None = None
    """Path of a prompt file."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Parameters."""

    @classmethod
    def of(cls, entry: str | Mapping[Any, Any]) -> WrittenTest:
        """Read a text or a mapping.

        Raises:
            RecipeError: when it is neither a name nor a prompt file.
        """
        return cls._of_text(entry.strip()) if isinstance(entry, str) else cls._of_mapping(entry)

    @classmethod
    def _of_text(cls, text: str) -> WrittenTest:
        name, *parts = _split(text, _COLON)
        given = {key: _value(value) for key, _, value in (part.partition("=") for part in parts)}
        if name.startswith(PROMPT_MARK):
            return cls(name=None, prompt=name[1:], given=given)
        if ":" in name:
            form = "name:parameter=value, as in stochastic_stability:replicates=5"
            raise RecipeError(f"A test with parameters is written {form}, but got {text!r}.")
        return cls(name=name, given=given)

    @classmethod
    def _of_mapping(cls, entry: Mapping[Any, Any]) -> WrittenTest:
        name, prompt = entry.get("name"), entry.get("prompt")
        if not isinstance(name or prompt, str):
            form = "{name: stochastic_stability, replicates: 5} or {name: sarcasm, prompt: sarcasm.txt}"
            raise RecipeError(f"A test that is a mapping needs `name`, as in {form}, but got {dict(entry)!r}.")
        given = {str(key): value for key, value in entry.items() if key not in ("name", "prompt")}
        return cls(name=name, prompt=prompt, given=given)


def split_entries(text: str) -> list[str]:
    """Return the tests that are named in one text.

    Example:
        >>> split_entries('typos, @dry.txt:title="dry, biting"')
        ['typos', '@dry.txt:title="dry, biting"']
    """
    return [part.strip() for part in _split(text, _COMMA)]


def _split(text: str, mark: re.Pattern[str]) -> list[str]:
    """Part a text at a mark that does not stand in double quotes."""
    parts = [""]
    # Pieces with an odd number stand between quotes.
    for number, piece in enumerate(text.split('"')):
        first, *rest = [f'"{piece}"'] if number % 2 else mark.split(piece)
        parts[-1] += first
        parts += rest
    return parts


def _value(text: str) -> object:
    """Read a value as YAML does: `5` is a number, `true` a truth value, anything else a text."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def with_parameters(test: T, given: Mapping[str, Any]) -> T:
    """Return a test with some of its parameters set.

    Raises:
        RecipeError: for an unknown parameter, with the nearest known one, a value of another kind, or one that breaks
            the test's own rule.
    """
    if not given:
        return test
    known = [setting.name for setting in test.parameters]
    for name in given:
        if name not in known:
            listed = f"Known: {', '.join(known)}." if known else "It has none."
            raise RecipeError(f"Test {test.name!r} has no parameter {name!r}.{suggest(name, known)} {listed}")
    # Annotations are texts in modules with `from __future__ import annotations`.
    hints = get_type_hints(type(test))
    values = {name: checked_value(name, value, hints[name], of=test.name) for name, value in given.items()}
    assert is_dataclass(test)
    try:
        return replace(test, **values)
    except ValueError as error:
        raise RecipeError(f"Test {test.name!r}: {error}") from error


def checked_value(name: str, value: object, kind: Any, *, of: str) -> object:
    """Return a value that is of a kind: numbers, texts, truth values, choices, tuples of these.

    Raises:
        RecipeError: naming the parameter, the kind and the value.
    """
    if isinstance(value, list):
        value = tuple(value)
    if not _fits(value, kind):
        raise RecipeError(f"Test {of!r}: `{name}` must be {_rule(kind)}, but is {value!r}.")
    # 2 and 2.0 are one setting, and name one budget.
    return float(value) if kind is float and isinstance(value, int) else value


def _fits(value: object, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is Literal:
        return value in inner
    if origin in (tuple, Sequence):
        return isinstance(value, tuple) and all(_fits(entry, inner[0]) for entry in value)
    # A bool is an int in Python; `replicates: true` is a mistake.
    if isinstance(value, bool):
        return kind is bool
    # What another package declares in its own words is left to the test itself.
    return kind not in _RULES or isinstance(value, (int, float) if kind is float else kind)


def _rule(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return " or ".join(map(_rule, inner))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    return f"a list, each {_rule(inner[0])}" if origin in (tuple, Sequence) else _RULES.get(kind, str(kind))


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

    def __post_init__(self) -> None:
        _check_prompt(self.name, self.prompt)
        object.__setattr__(self, "title", self.title or f"rewritten as the prompt {self.name} says")
        object.__setattr__(self, "rules", (*REWRITTEN, *(_KEEPS[kept] for kept in self.keeps)))
        super().__post_init__()
        same = self.answer == SAME
        answer = "the flipped label" if self.answer == FLIPPED else f"the answer {self.answer}"
        object.__setattr__(self, "expects", UNCHANGED if same else ExpectedLabel(answer))
        is_confirmed = not same if self.confirmed is None else self.confirmed
        object.__setattr__(self, "needs", frozenset({"generator", *(["validator"] if is_confirmed else [])}))
        object.__setattr__(self, "must_keep", "" if self.confirmed is False else Rewrite.must_keep)

    @property
    def parameters(self) -> list[Parameter]:
        """All that the file says, by the names it uses; a later reader has nothing else to go by."""
        stated = [
            replace(setting, name=_SPELLED.get(setting.name, setting.name), changed=True)
            for setting in super().parameters
            if setting.name != "name"
        ]
        return [*stated, Parameter(name="prompt_sha256", value=self.prompt_sha256, help="Of the prompt.", changed=True)]

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
        targets = []
        for seed in seeds:
            expected = seed.label if aim == SAME else labels.flipped(seed.label) if aim == FLIPPED else aim
            targets.append(self.target(seed, labels, rubric, expected=expected))
        return self.shown(targets, seeds)

    def shown(self, targets: Sequence[Target], rows: Sequence[Seed]) -> list[Target]:
        """Choose examples of the expected label, where the prompt asks for any."""
        # Choosing takes time on large data, and nobody sees what is not asked for.
        few_shot = FewShot(rows, n=self.examples, choice=self.choice) if "{examples}" in self.prompt else None
        return list(map(few_shot.shown, targets)) if few_shot else list(targets)

    def _aim(self, labels: Labels) -> str:
        known = (SAME, FLIPPED, *labels.answers)
        # YAML reads a bare `yes` as true.
        spelled: str | None = next(
            (word for word in (self.answer, *_TRUTHS.get(self.answer, ())) if word in known), None
        )
        if spelled is None:
            problem = f"Test {self.name!r} expects {self.answer!r}, which is none of {', '.join(known)}."
            raise RecipeError(problem + suggest(self.answer, known))
        return spelled

    def template(self) -> str:
        """Return the file's prompt."""
        return self.prompt


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

    front_lines = _FRONT.match(text)
    if front_lines is None:
        return {}, text.strip()
    try:
        front = yaml.safe_load(front_lines[1]) or {}
    except yaml.YAMLError as error:
        raise RecipeError(
            f"{path}: what stands between the lines --- is no YAML: {' '.join(str(error).split())}."
        ) from error
    if not isinstance(front, dict):
        raise RecipeError(f"{path}: between the lines --- stand keys with values, as in `expects: unchanged`.")
    checks = front.pop("checks", None) or {}
    if not isinstance(checks, dict):
        raise RecipeError(f"{path}: `checks` must be a mapping, as in {{max_length: 2, keeps: [numbers]}}.")
    return {**front, **checks}, text[front_lines.end() :].strip()


def _known(given: Mapping[str, Any], path: Path) -> dict[str, Any]:
    hints = get_type_hints(PromptTest)
    own = [setting.name for setting in fields(PromptTest) if setting.name not in ("name", "prompt")]
    spelled = {_SPELLED.get(name, name): name for name in own}
    settings = {}
    for key, written in given.items():
        if key not in spelled:
            close = suggest(str(key), spelled)
            raise RecipeError(f"{path}: unknown key {key!r}.{close} Known: name, {', '.join(sorted(spelled))}.")
        # A label such as 1 or true is written without quotes, too.
        value: object = written
        if key == "expects" and isinstance(written, bool | int | float):
            value = str(written).lower()
        elif key == "keeps" and isinstance(written, str):
            value = tuple(written.split())
        settings[spelled[key]] = checked_value(key, value, hints[spelled[key]], of=path.name)
    return settings


def _check_prompt(name: str, prompt: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"A test is named in small letters, digits and _, but got {name!r}. Give `name`.")
    placed = _FIELD.findall(prompt)
    for placeholder in placed:
        if placeholder not in BRIEF_FIELDS:
            known = ", ".join(f"{{{name}}}" for name in BRIEF_FIELDS)
            close = suggest(placeholder, BRIEF_FIELDS)
            raise ValueError(f"unknown placeholder {{{placeholder}}}.{close} Known: {known}.")
    if not {"original", "instruction"} & set(placed):
        raise ValueError("the prompt holds neither {original} nor {instruction}: every item would be asked for alike.")
