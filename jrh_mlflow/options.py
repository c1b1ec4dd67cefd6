"""Options described once, as pydantic models: for Python, recipes and the command line.

A field holds an option's type, default, help text and the rule that an error names. Nothing heavy is imported here:
`jrh evaluate --help` reads these models.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError, field_validator, model_validator
from typing_extensions import Self

from jrh_mlflow.errors import RecipeError, check_known, suggest
from jrh_mlflow.schema.items import PROTOCOL
from jrh_mlflow.schema.presentation import Criterion

F = TypeVar("F", bound=Callable[..., Any])
Number: TypeAlias = int | float
Moment: TypeAlias = str | date
"""A date or moment as users give it: a `datetime` is a `date`."""
Definitions: TypeAlias = Literal["protocol", "paper"]
"""How tests and numbers are defined."""
Metrics: TypeAlias = Literal["headline", "all"]
"""Which numbers of an evaluation become metrics of its MLflow run."""
AUTOMATIC = "pairwise"
"""The default prompt: for anything that is not a pair the built-in one that fits is taken."""
ANSWER_STYLES: Mapping[str, tuple[str, str]] = {
    "letters": ("A", "B"),
    "digits": ("1", "2"),
    "names": ("Ash", "Elm"),
}
"""What the two slots are called in the prompt. Small models compare far better with letters."""


def option(
    default: Any,
    rule: str,
    description: str | None = None,
    *,
    flag: str | None = None,
    metavar: str | None = None,
    **more: Any,
) -> Any:
    """Describe one option.

    Args:
        default: `...` for an option that must be given.
        rule: What its value must be, as in "a whole number": errors say it.
        description: Its help text.
        flag: On the command line, where that is not its name.
        metavar: What the help text calls its value.
        more: A limit, which is `ge=1` for counts and `gt=0` for amounts; `repr=False` for a value that may hold a key
            and is never shown.
    """
    return Field(
        default, description=description, json_schema_extra={"rule": rule, "flag": flag, "metavar": metavar}, **more
    )


class Options(BaseModel):
    """Base of the models: strict (YAML's `1e-1` is a text, and True no number), and with errors in our words."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        # A number of numpy's is a number; an array has another shape.
        return {
            name: value.item() if hasattr(value, "dtype") and value.shape == () else value
            for name, value in data.items()
        }

    @classmethod
    def flag(cls, name: str) -> str:
        """Return how an option is typed on the command line."""
        facts = cls.model_fields[name].json_schema_extra
        flag = facts["flag"] if isinstance(facts, dict) else None
        return f"--{flag or name.replace('_', '-')}"

    @classmethod
    def checked(cls, data: Mapping[str, Any]) -> Self:
        """Check values.

        Raises:
            ValueError: naming the first option that breaks its rule.
        """
        try:
            return cls.model_validate(dict(data))
        except ValidationError as error:
            text = cls._text_of(error)
        # Raised outside the handler: pydantic's error, which shows every value, must not be chained to it.
        raise ValueError(text)

    @classmethod
    def _text_of(cls, error: ValidationError) -> str:
        first = error.errors(include_url=False)[0]
        # The text of our own validators, without the words that pydantic puts before it.
        if first["type"] == "value_error":
            return str(first["ctx"]["error"])
        name = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            return f"unknown key {name!r}.{suggest(name, cls.model_fields)} Known: {', '.join(cls.model_fields)}."
        field = cls.model_fields[name]
        rule = field.json_schema_extra["rule"] if isinstance(field.json_schema_extra, dict) else "given"
        value = first["input"]
        # A value that may hold a key is named by its type only.
        return f"`{name}` must be {rule}, but is {repr(value) if field.repr else type(value).__name__}."

    @classmethod
    def check_names(cls, keywords: Mapping[str, Any], *, of: str) -> None:
        """Refuse keywords that are no option, as Python does.

        Raises:
            TypeError: naming the first of them.
        """
        for name in keywords:
            if name not in cls.model_fields:
                raise TypeError(f"{of}() has no keyword argument {name!r}.{suggest(name, cls.model_fields)}")

    @classmethod
    def signature(cls, *positional: str) -> inspect.Signature:
        """Return the signature of a function that takes the options as keywords, and these ones by place, too."""
        fields = inspect.signature(cls).parameters
        first = [fields[name].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in positional]
        rest = [field for name, field in fields.items() if name not in positional]
        # What a model adds to its groups comes first: a reader looks for that.
        return inspect.Signature([*first, *sorted(rest, key=lambda field: field.name not in cls.__annotations__)])

    @classmethod
    def of_keywords(cls, keywords: Mapping[str, Any], *, of: str) -> Self:
        """Check the keywords of a function that takes these options."""
        cls.check_names(keywords, of=of)
        return cls.checked(keywords)

    @property
    def given(self) -> dict[str, Any]:
        """The options that were given; all others are left to their defaults."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


def takes(model: type[Options]) -> Callable[[F], F]:
    """Show the options of a model as keywords of a function that takes them as `**options`: in editors and `help`."""

    def shown(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [each for name, each in inspect.signature(model).parameters.items() if name not in signature.parameters]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return function

    return shown


class JudgeOptions(Options):
    """A prompted judge: the arguments of `jrh.PromptedJudge`."""

    model: str = option(..., "a name", "A litellm name: openai/gpt-4o-mini, hosted_vllm/NAME.")
    prompt: str | Path = option(
        AUTOMATIC,
        "a name, a file or a text",
        "pairwise (stands for what fits), label, ordinal, transcript, a template file, or prompts:/NAME@ALIAS.",
    )
    rubric: str | None = option(
        None, "a text", "What to judge by, before the suite's own rubric; @FILE reads it from a file."
    )
    tie_criterion: str | InstanceOf[Criterion] = option(
        "allowed",
        "a name or a sentence",
        "Tie criterion: forced, allowed, strict, or a sentence of your own; @FILE reads it from a file.",
        flag="criterion",
    )
    temperature: Number | None = option(0.0, "a number", "Of the sampling; none leaves it to the provider.")
    max_tokens: int | Literal["auto"] | None = option(
        "auto",
        "a whole number",
        "Longest answer: auto is 1024, or 8192 for a model that reasons; none leaves it to the provider.",
    )
    reasoning_effort: str | None = option(
        None, "a word such as low", "How long a model reasons: none, minimal, low, medium, high, as it takes them."
    )
    seed: int | None = option(None, "a whole number", "Sent to the provider.", flag="judge-seed")
    name: str | None = option(
        None, "a text", "What the judge is called in reports; model and unusual settings when left out."
    )
    api_base: str | None = option(
        None, "an address", "Address of an endpoint that speaks the OpenAI dialect.", repr=False
    )
    extra: Mapping[Any, Any] | None = option(
        None, "a mapping", "A further field of the request; repeatable.", repr=False
    )
    structured: bool | None = option(None, "true or false", "Ask for a JSON schema; where known to work.")
    answer_style: str = option("letters", "a name", "Slots as letters, digits or names.")
    logprobs: bool = option(False, "true or false", "Ask for token probabilities: the verdict's confidence.")
    prompt_language: Literal["en", "suite"] = option(
        "en", "en or suite", "What the prompt itself is written in: en, or suite for the suite's language."
    )
    messages: Any = option(
        None, "a list of messages or a file", "JSON file of your own messages with placeholders, sent as they are."
    )
    raw: bool | None = option(None, "true or false", "Add nothing to --messages; they need no other prompt.")
    verdict: Any = option(
        None,
        "a pattern or a mapping",
        "How the answer to --messages is read: a regular expression with a group, or JSON such as "
        '{"json": "winner"}, {"A": "1", "B": "2", "C": "tie"}, {"function": "file.py:name"}.',
    )

    @field_validator("model")
    @classmethod
    def _named(cls, model: str) -> str:
        if not model.strip():
            raise ValueError("`model` must name a model, but is empty.")
        return model

    @field_validator("temperature")
    @classmethod
    def _not_below_zero(cls, temperature: Number | None) -> Number | None:
        if temperature is not None and not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"`temperature >= 0` must hold, but got {temperature=}.")
        return temperature

    @field_validator("max_tokens")
    @classmethod
    def _at_least_one(cls, max_tokens: int | str | None) -> int | str | None:
        if isinstance(max_tokens, int) and max_tokens < 1:
            raise ValueError(f"`max_tokens >= 1` must hold, but got {max_tokens=}.")
        return max_tokens

    @field_validator("reasoning_effort")
    @classmethod
    def _a_word(cls, effort: str | None) -> str | None:
        if effort is not None and not effort.isalpha():
            raise ValueError(f"`reasoning_effort` must be a word such as low, but is {effort!r}.")
        return effort

    @field_validator("answer_style")
    @classmethod
    def _known_style(cls, style: str) -> str:
        check_known("answer style", style, ANSWER_STYLES)
        return style


_COUNT = "a whole number, 1 or more"
_AMOUNT = "a number above 0"
_PRICES = "model: [dollars per million input tokens, per million output tokens]"


class RunOptions(Options):
    """How an evaluation is run and logged: the keywords of `jrh.evaluate` that a recipe may hold."""

    experiment: str | None = option(None, "a text", "MLflow experiment; the active one when left out.")
    run_name: str | None = option(None, "a text", "Name of the MLflow run.")
    tracking_uri: str | None = option(None, "a text", "MLflow store or server; the active one when left out.")
    replicates: int = option(1, _COUNT, "How often each presentation is asked.", ge=1)
    concurrency: int = option(32, _COUNT, "Most calls in flight, to each model.", ge=1)
    max_usd: Number | None = option(None, _AMOUNT, "Never spend more than this.", gt=0)
    journal: str | None = option(
        None, "a text", "Where paid answers are kept, a path or postgresql://… [one journal per user]"
    )
    backend: str = option("local", "a text", "Where calls run: local, or ray for the cluster of RAY_ADDRESS.")
    seed: int = option(0, "a whole number", "Of everything drawn at random.")
    tags: dict[Any, Any] | None = option(None, "a mapping")
    traces: str = option(
        "sample",
        "a text",
        "Which calls become MLflow traces, in EXPERIMENT-calls: sample, failures, all, none; sample:run: with the run.",
    )
    metrics: Metrics = option(
        "headline", "headline or all", "Which numbers become MLflow metrics; datasheet.json has all of them."
    )
    texts: bool = option(
        True,
        "true or false",
        "Whether MLflow gets prompts, responses and what judges wrote; without them their hashes, for private data.",
    )
    prices: dict[Any, Any] | None = option(None, "a mapping")
    requests_per_minute: Number | None = option(None, _AMOUNT, "Of the endpoint; delays, never drops.", gt=0)
    tokens_per_minute: Number | None = option(None, _AMOUNT, "Of the endpoint.", gt=0)
    timeout_s: Number = option(120, _AMOUNT, "Seconds for one attempt at a call.", flag="timeout", gt=0)
    fresh_after: str | datetime | date | None = option(
        None, "a date", "Ask again what the journal answered before this date, or moment; UTC.", metavar="DATE"
    )
    keep_unreadable: bool = option(
        False,
        "true or false",
        "Keep the answers of a run that none of its first ones could be read of: else they are asked anew, once.",
    )
    metric: str = option(
        "accuracy",
        "the name of a metric",
        "What stands for labelled reliability tests: a function of sklearn.metrics (f1_score, …), matthews, mae, ….",
    )
    definitions: Definitions = option(
        PROTOCOL,
        "protocol or paper",
        "paper: stability by accuracy, dollars of tests alone, profile by call, to the letter of the papers.",
    )

    @field_validator("prices")
    @classmethod
    def _pairs(cls, prices: dict[Any, Any] | None) -> dict[str, tuple[float, float]] | None:
        return None if prices is None else read_prices(prices)

    @field_validator("fresh_after")
    @classmethod
    def _past(cls, moment: Moment | None) -> Moment | None:
        if moment is not None:
            # Checked only: what is kept is what the user wrote.
            read_moment(moment)
        return moment


NO_VALIDATOR = "none"
"""The validator of a generation that is nobody."""
NO_GENERATOR = "none"
"""The generator of a generation that only code writes."""
MAX_STEPS = 4
"""Of one plan of edits, where a generation does not say."""
PLANS = 3
"""Of edits, tried for each transcript."""


class LabelledRows(Options):
    """How rows of a source become labelled responses: the keywords of `jrh.generate` on columns, labels and people."""

    columns: Any = option(None, "a mapping")
    instruction: str | None = option(
        None,
        "a text",
        "The task all responses answer, when the data have no column for it; @FILE reads it from a file.",
    )
    n: int | None = option(None, "a whole number")
    stratify: str | None = option(None, "a text", "Column or role whose values share the draw, such as label.")
    group: str | None = option(None, "a text", "Column or field (metadata.topic) to report by.", metavar="FIELD")
    values: Any = option(None, "a mapping")
    labels: Any = option(
        None,
        "a list",
        "The labels, the better one or the one to be detected last; 0=not harmful,1=harmful says what they mean.",
        metavar="A,B",
    )
    scale: Any = option(
        None,
        "a list",
        "An ordinal scale, as in 1-6, or its levels: low,mid,high; 1=poor,6=excellent says what they mean.",
        metavar="LOW-HIGH",
    )
    grades: bool | None = option(
        None, "true or false", "Whether the last label is the better one, or the one to be detected. [by their words]"
    )
    people: Any = option(
        None,
        "a mapping",
        "Labels of several people, kept in the suite; where a row has no label, what most of them say is its label. "
        "A column that maps people to labels, or each person's own column.",
        metavar="COLUMN|PERSON=COLUMN,…",
    )
    rubrics: Any = option(
        None, "a list", "Of several rubrics the ids of those to use. [all]", flag="rubric-id", metavar="A,B"
    )
    labeller: Any = option(
        None, "a judge", "Model that labels rows without a label: reported apart, never as accuracy."
    )
    labeller_asks: int = option(1, _COUNT, "How often it is asked about each row; the majority counts.", ge=1)


class TranscriptEdits(Options):
    """What only transcripts need: the keywords of `jrh.generate` on reading them, and on who plans and edits."""

    violation: str | None = option(
        None, "a text", "Of transcripts: the label for a broken rubric. [the last]", metavar="LABEL"
    )
    preprocess: Any = option(
        None, "a list", "Of transcripts: drop_reasoning,keep_last:10,file.py:function, …", metavar="STEPS"
    )
    max_steps: int | None = option(None, _COUNT, f"Of transcripts: most edits of one plan. [{MAX_STEPS}]", ge=1)
    plans: int | None = option(None, _COUNT, f"Of transcripts: plans tried for each. [{PLANS}]", ge=1)
    epochs: Any = option(None, "numbers", "Of Inspect logs: the epochs to read, 1,4. [all]", metavar="EPOCHS")
    planner: Any = option(None, "a model", "Of transcripts: model that plans the edits. [the generator]", repr=False)
    editor: Any = option(None, "a model", "Of transcripts: model that edits. [the generator]", repr=False)
    summary: Any = option(None, "a model", "Of transcripts: model of the running summary. [the editor]", repr=False)


class AskOptions(Options):
    """How models are asked: what every verb that asks takes. The rest of the rules is checked with the judge."""

    max_usd: Number | None = option(None, "a number")
    concurrency: int = option(32, _COUNT, ge=1)
    prices: Any = option(None, "a mapping")
    requests_per_minute: Number | None = option(None, "a number")
    tokens_per_minute: Number | None = option(None, "a number")
    timeout_s: Number = option(120.0, "a number")
    tracking_uri: Any = option(None, "a text")
    progress: bool = option(True, "true or false")

    @property
    def limits(self) -> dict[str, Any]:
        """What `ClientSettings` takes of them."""
        names = ("requests_per_minute", "tokens_per_minute", "timeout_s")
        return {name: getattr(self, name) for name in names}

    @property
    def preparing(self) -> dict[str, Any]:
        """What `prepare` takes of them."""
        names = {"max_usd", "prices", "journal", "concurrency"} & type(self).model_fields.keys()
        return {name: getattr(self, name) for name in names}


class GenerationRunOptions(AskOptions):
    """How models are asked and the run is logged: the keywords of `jrh.generate` on money, limits and MLflow."""

    journal: Any = option(None, "a path")
    experiment: str | None = option(None, "a text")
    run_name: str | None = option(None, "a text", "Name of the MLflow run.")
    tags: Any = option(None, "a mapping")


class AskedRunOptions(GenerationRunOptions):
    """The keywords on money, limits and MLflow of a verb that asks, and may leave it at that without a run."""

    log: bool = option(True, "true or false")
    allow_key_to: Any = option(None, "hosts")


class GenerationSettings(LabelledRows, TranscriptEdits, GenerationRunOptions):
    """The arguments of `jrh.generate`, which describes them in full; as the user gave them, not resolved yet.

    Rules that need the data, the labels or a price are checked where these are known.
    """

    dataset: Any = option(..., "a source")
    tests: Any = option(
        "paper",
        "tests",
        '"paper", "all", or names joined by commas; `jrh suite tests` lists them. NAME:PARAMETER=VALUE sets a '
        "parameter, @FILE is a test of your own.",
    )
    rubric: Any = option(
        ..., "a text", "The question the judge answers about a response; @FILE reads it from a file, @@ is an @."
    )
    generator: Any = option(
        None, "a generator", "A litellm model name; without one (none) only tests that code writes are made."
    )
    validator: Any = option(
        None,
        "a judge, or a list of them",
        "Model that confirms every rewritten item; the generator's own, or none. Again: who is asked when it refuses.",
    )
    confirm: bool = option(True, "true or false", "Have the validator confirm every rewritten item.")
    definitions: Definitions = option(
        PROTOCOL,
        "protocol or paper",
        "paper: verbosity_bias_long asks for added explanation, as the Harness paper does.",
    )
    seed: int = option(0, "a whole number", "Of the draw and of everything written by code.")
    similarity: Any = option(None, "a similarity")
    name: str | None = option(None, "a text", "Of the suite; the file's name when left out.")
    pass_required: bool = option(
        True, "true or false", "Set aside what no validator confirms; otherwise keep it, tagged unverified."
    )
    invalid: Any = option(
        None,
        "names of tests",
        "Tests that the rubric makes invalid, because it grades what they change; propose: ask the validator; none.",
        metavar="TESTS|propose|none",
    )

    @property
    def has_labeller(self) -> bool:
        """Whether rows may come without a label."""
        return self.labeller is not None and self.labeller != NO_VALIDATOR

    @property
    def suite_name(self) -> str:
        """The name that was given, the file's, or `reliability`."""
        return self.name or (Path(self.dataset).stem if isinstance(self.dataset, str | Path) else "reliability")


def read_moment(given: Moment) -> datetime:
    """Read a date (its first moment) or a moment, as text or as an object; without a zone it is UTC.

    Raises:
        RecipeError: It is none, or lies in the future.

    Example:
        >>> read_moment("2026-11-01").isoformat(), read_moment("2026-11-01T12:30:00+02:00").isoformat()
        ('2026-11-01T00:00:00+00:00', '2026-11-01T10:30:00+00:00')
    """
    try:
        # Python 3.10 does not read the Z.
        text = given.isoformat() if isinstance(given, date) else re.sub("[zZ]$", "+00:00", given.strip())
        moment = datetime.fromisoformat(text)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    except (AttributeError, OverflowError, TypeError, ValueError):
        form = "a date such as 2026-11-01 or 2026-11-01T12:30"
        raise RecipeError(f"`fresh_after` must be {form}, but is {given!r}.") from None
    if moment > datetime.now(timezone.utc):
        raise RecipeError(f"`fresh_after` must lie in the past, but {given} is to come (in UTC).")
    return moment


def checked_metrics(metrics: object) -> Metrics:
    """Return which numbers become MLflow metrics.

    Raises:
        RecipeError: It is none of the words for that.
    """
    if metrics not in get_args(Metrics):
        raise RecipeError(f"`metrics` must be {' or '.join(get_args(Metrics))}, but is {metrics!r}.")
    return cast(Metrics, metrics)


def read_prices(data: object) -> dict[str, tuple[float, float]]:
    """Read prices as recipes write them, `model: [in, out]`.

    Raises:
        ValueError: for anything else.
    """
    if not isinstance(data, dict):
        raise ValueError(f"`prices` must map {_PRICES}.")
    prices = {}
    for model, pair in data.items():
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(price, Number) for price in pair)):
            raise ValueError(f"`prices` must map {_PRICES}, but {model} has {pair!r}.")
        prices[str(model)] = (float(pair[0]), float(pair[1]))
    return prices
