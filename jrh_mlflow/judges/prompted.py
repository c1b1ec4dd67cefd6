"""A model with a prompt as a judge. It writes requests and reads responses; the engine sends them.

Addresses and further fields of requests are logged, so a key in them is refused.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast
from urllib.parse import parse_qsl, urlsplit

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import rendering
from jrh_mlflow.judges._base import APART, PAIRED, ModelJudge
from jrh_mlflow.judges.parsing import ParsedAnswer, read
from jrh_mlflow.judges.rendering import RegisteredPrompt, Template
from jrh_mlflow.models.catalog import address_variables, endpoint_of, entry_of, first_set, reasons, takes_schema
from jrh_mlflow.models.prices import refuse_surcharges
from jrh_mlflow.models.trust import WRITTEN_DOWN, name_address
from jrh_mlflow.options import AUTOMATIC, JudgeOptions
from jrh_mlflow.perturb.languages import language_of
from jrh_mlflow.schema.presentation import TIE_CRITERIA, Criterion, Presentation, criterion
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Self

    from jrh_mlflow.models.prices import Price
    from jrh_mlflow.schema.items import Call
    from jrh_mlflow.suites.suite import Suite

_MAX_TOKENS, _MAX_TOKENS_REASONING = 1024, 8192
"""Longest answer where none was asked for. A verdict with its reason takes some hundred tokens; thinking, which is cut
and billed like an answer, takes up to a few thousand for a short comparison."""
_OWN_ARGUMENTS = {
    **{name: name for name in ("model", "temperature", "max_tokens", "seed", "logprobs", "api_base")},
    **{"messages": "prompt", "response_format": "structured", "base_url": "api_base"},
}
_REFUSED = ("stream", "n")
_SAMPLING = (
    *("temperature", "max_tokens", "reasoning_effort", "seed", "extra", "structured", "answer_style", "logprobs"),
)
"""Arguments that are attributes of the same name."""
_REGISTERED = ("prompt_uri", "prompt_version")
"""Where the prompt comes from, of a judge whose prompt is in MLflow's registry."""
_SAMPLED = 20
"""Items whose instructions tell the language of a suite."""
_PROMPT = ("prompt", "prompt_uri")
"""Settings that name the prompt: of a fingerprint its text is part, wherever it comes from."""
_SECRET_WORDS = frozenset(
    ("apikey", "secret", "pass", "password", "passwd", "authorization", "auth", "bearer", "credential", "cookie")
)
_SECRET_ENDINGS = ("key", "token", "credentials", "secrets")
_PROVIDER = "openai/"
_USUAL = TIE_CRITERIA["allowed"]
_WORD = re.compile(r"[\w.:+/-]{1,40}", re.ASCII)
_NAMED_APART = frozenset(("model", "kind", "tie_criterion", "prompt", "prompt_uri"))
"""Settings that are named in a way of their own."""
_SHORT = {"temperature": "t", "max_tokens": "max", "reasoning_effort": "effort"}


class PromptedJudge(ModelJudge):
    """A litellm model name, a prompt, a tie criterion and sampling settings.

    Example:
        >>> judge = PromptedJudge("openai/gpt-4o-mini", tie_criterion="strict", seed=7)
        >>> judge.settings()["prompt"], judge.settings()["tie_criterion"]
        ('pairwise', 'strict')
    """

    kind = "prompted"
    prompt_language = "en"
    spoken = "en"
    """Language of the prompt; known after `begin`."""
    __signature__: ClassVar[inspect.Signature]
    """That of `__init__`: Python would show that of `__new__`."""

    of_messages: ClassVar[type[PromptedJudge]]
    """`RawJudge`, which says so itself: what judges with messages of their own are."""
    makers: ClassVar[dict[str, Callable[..., PromptedJudge]]] = {}
    """What makes a judge of a logged request and of another tool's judge; each says so itself."""

    def __new__(cls, *_: Any, messages: object = None, **__: Any) -> Self:
        """Make a `RawJudge` where the messages are the user's own."""
        is_raw = messages is not None and cls is PromptedJudge
        return super().__new__(cast("type[Self]", PromptedJudge.of_messages) if is_raw else cls)

    def __init__(
        self,
        model: str,
        *,
        prompt: str | Path = AUTOMATIC,
        rubric: str | None = None,
        tie_criterion: str | Criterion = "allowed",
        temperature: float | None = 0.0,
        max_tokens: int | Literal["auto"] | None = "auto",
        reasoning_effort: str | None = None,
        seed: int | None = None,
        name: str | None = None,
        api_base: str | None = None,
        extra: Mapping[str, Any] | None = None,
        structured: bool | None = None,
        answer_style: str = "letters",
        logprobs: bool = False,
        prompt_language: Literal["en", "suite"] = "en",
        messages: Sequence[Mapping[str, Any]] | str | Path | None = None,
        raw: bool | None = None,
        verdict: object = None,
    ) -> None:
        """Set the judge up; nothing is sent and no provider library is loaded.

        Args:
            model: A litellm model name: `openai/gpt-4o-mini`, `hosted_vllm/…`, `anthropic/…`.
            prompt: A built-in name (`pairwise`, `label`, `ordinal`, `transcript`), a template file, a template's text,
                or `prompts:/name/version` or `prompts:/name@alias` of MLflow's prompt registry, read when the judge is
                used. `pairwise` stands for the one that fits what is judged; one's own is used as it is.
            rubric: Shown before the suite's own rubric and the tie criterion; it replaces neither.
            tie_criterion: `forced`, `allowed`, `strict` or a sentence of one's own; for pairs.
            temperature: None leaves it to the provider, as models that take none need.
            max_tokens: Longest answer, thinking included: `auto` is 1,024, or 8,192 where litellm's table says that the
                model reasons or `reasoning_effort` is given. None leaves it to the provider.
            reasoning_effort: How long a model that reasons does so, in the words it takes: `none`, `minimal`, `low`,
                `medium`, `high`, … None leaves it to the provider.
            seed: Sent to the provider, where it takes one.
            name: What the judge is called in reports; the model and the settings that are not the usual ones when None.
            api_base: An endpoint that speaks the OpenAI dialect; when None the provider's variable is read, such as
                OPENAI_BASE_URL, HOSTED_VLLM_API_BASE or OLLAMA_API_BASE. Either way it is part of the judge's identity.
            extra: Further fields of the request body. They are logged, so a key among them is refused: keys come from
                the environment.
            structured: Ask for the answer's JSON schema; None asks where the model is known to take one.
            answer_style: What the slots are called: `letters` (A, B), `digits` (1, 2) or `names` (Ash, Elm).
            logprobs: Ask for token probabilities and read the verdict's confidence from them.
            prompt_language: `en`, or `suite`: what this package says (prompt and tie criterion) is in the suite's
                language, where that is German, Spanish or Chinese. Answers and the keys of the JSON stay the same.
            messages: Your own messages with placeholders (`judges/raw.py`), or a JSON file of them: sent as they are,
                with no field that you do not give. `prompt`, `rubric`, `structured` and `answer_style` do not go with
                them.
            raw: True beside `messages`: nothing of this package is added to the request.
            verdict: How the answer to your own messages is read (`judges/verdict_forms.py`): a regular expression with
                a group, `{"json": PATH}`, `{"A": "1", "B": "2", "C": "tie"}`, `{"logprobs": {…}}` or a function.
        """
        if raw or verdict is not None:
            raise RecipeError("`raw` and `verdict` are for a judge with its own `messages`: give them.")
        given = JudgeOptions.checked(
            {
                "model": model,
                "prompt": prompt,
                "rubric": rubric,
                "tie_criterion": tie_criterion,
                "temperature": temperature,
                "max_tokens": max_tokens,
                "reasoning_effort": reasoning_effort,
                "seed": seed,
                "name": name,
                "api_base": api_base,
                "extra": extra,
                "structured": structured,
                "answer_style": answer_style,
                "logprobs": logprobs,
                "prompt_language": prompt_language,
            }
        )
        self.model, self._name = model, name
        self._loaded = None if rendering.is_registered(prompt) else rendering.load_template(prompt)
        read = prompt if isinstance(prompt, RegisteredPrompt) else None
        self.prompt_uri: str | None = read.uri if read else str(prompt) if self._loaded is None else None
        """Address in MLflow's prompt registry that the prompt was asked for by; None for any other prompt."""
        self.prompt_version: str | None = read.version if read else None
        """What that address meant when it was read: `prompts:/name/3`."""
        self.texts = rendering.package_texts()
        self.rubric, self.tie_criterion = rubric, criterion(tie_criterion)
        self.temperature, self.seed = given.temperature, given.seed
        self.reasoning_effort = given.reasoning_effort
        longest = given.max_tokens
        self.max_tokens = _longest_answer(self.model, reasoning_effort) if longest == "auto" else longest
        self.api_base = address_of(model, api_base)
        self._is_given = bool(api_base)
        """Whether the address was given, and not left to the environment."""
        self._pinned: tuple[str | None] | None = None
        """The endpoint of a judge that was made from its definition: the measured one."""
        self.extra = checked_extra(extra or {}, of="PromptedJudge")
        if reasoning_effort is not None and "reasoning_effort" in self.extra:
            raise RecipeError("`reasoning_effort` is given twice: as a setting and in `extra`. Give the setting alone.")
        self._takes_schema = takes_schema(model, api_base=self.api_base)
        self.structured = self._takes_schema if structured is None else structured
        self.answer_style, self.logprobs = answer_style, logprobs
        self.prompt_language = prompt_language
        self.used: tuple[Template, ...] = (self._loaded,) if self._loaded else ()
        """Templates that the suite needs; known after `begin`."""

    @property
    def template(self) -> Template:
        """The prompt; `pairwise` stands for all that are built in.

        Raises:
            RecipeError: where it is in MLflow's registry and was not read yet.
        """
        if self._loaded is None:
            raise RecipeError(
                f"The prompt {self.prompt_uri} was not read: MLflow's store is known to evaluations only."
            )
        return self._loaded

    @template.setter
    def template(self, template: Template) -> None:
        self._loaded = template

    def with_prompt(self, prompt: RegisteredPrompt) -> Self:
        """Return the same judge with a prompt that was read from, or written to, MLflow's registry."""
        loaded = rendering.load_template(prompt)
        return self.with_settings(_loaded=loaded, used=(loaded,), prompt_uri=prompt.uri, prompt_version=prompt.version)

    @property
    def name(self) -> str:
        """The name given, or the model with every setting that is not the usual one."""
        return self._name or self._default_name()

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    def _default_name(self) -> str:
        """Name the judge by its model and its unusual settings: `qwen2.5-coder-1.5b forced digits`.

        Two judges whose settings differ have different names: what a name cannot spell out stands in it as a digest.
        """
        usual = {
            "temperature": 0.0,
            "max_tokens": _longest_answer(self.model, self.reasoning_effort),
            "seed": None,
            "api_base": None,
            "answer_style": "letters",
            "structured": self._takes_schema,
            "logprobs": False,
        }
        parts = [model_name(self.model)]
        # By its English words: the language stands in the name by itself.
        told = self.tie_criterion if self.spoken == "en" else rendering.spoken_criterion(self.tie_criterion, "en")
        parts += [] if told == _USUAL else [_criterion_name(told)]
        parts += [] if self._prompt_name == AUTOMATIC else [f"prompt={_word(self._prompt_name)}"]
        parts += [] if not self.rubric else [f"rubric={digest_name(self.rubric)}"]
        for name, value in self.settings().items():
            if name not in _NAMED_APART and not (name in usual and value == usual[name]):
                parts += _setting_name(name, value)
        return " ".join(parts)

    @property
    def _prompt_name(self) -> str:
        return self._loaded.name if self._loaded else str(self.prompt_uri)

    def check_cap(self, price: Price | None) -> None:
        """Demand a price, a longest answer, and nothing in `extra` that makes calls dearer than both say."""
        super().check_cap(price)
        refuse_surcharges(self.extra)

    def begin(self, suite: Suite) -> None:
        """Check that the prompt fits every item, before anything is paid."""
        if self.prompt_language == "suite":
            self._speak(language_of(" ".join(item.instruction or "" for item in suite.items[:_SAMPLED])))
        # By name and sorted: the setting `prompt` must not depend on the order of the items.
        templates: dict[str, Template] = {}
        for kind, answers, ordinal in {(item.kind, item.answers or (), item.ordinal) for item in suite.items}:
            possible = self.tie_criterion.answers if kind == "pair" else answers
            rendering.answer_names(kind, possible, self.answer_style)
            template = self._template(kind, possible, ordinal)
            templates[template.name] = template
        self.used = tuple(templates[name] for name in sorted(templates))

    def _speak(self, code: str) -> None:
        """Put prompt and tie criterion into a language; those of the user's own stay as they are."""
        self.spoken, self.texts = code, _texts_in(code)
        self.tie_criterion = rendering.spoken_criterion(self.tie_criterion, code)
        if self.template.name in rendering.BUILT_IN:
            self.template = self.texts.templates[self.template.name]

    @property
    def endpoint(self) -> str | None:
        """Who answers where no `api_base` is given, as the environment says now, or as the definition says."""
        if self.api_base:
            return None
        return endpoint_of(self.model) if self._pinned is None else self._pinned[0]

    def request(self, call: Call) -> Request:
        """Return what is sent for a call."""
        shown = call.presentation
        template = self._template(shown.kind, shown.answers, call.item.ordinal)
        if self.rubric:
            shown = replace(shown, rubric="\n\n".join(text for text in (self.rubric, shown.rubric) if text))
        style, ordinal = self.answer_style, call.item.ordinal
        messages = rendering.judge_messages(template, shown, style=style, ordinal=ordinal, texts=self.texts)
        return self.request_with(messages, schema=answer_schema(tuple(self._names(shown))) if self.structured else None)

    def request_with(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any] | None) -> Request:
        """Return these messages with the judge's settings."""
        return Request(
            model=self.model,
            messages=tuple(messages),
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            response_schema=schema,
            logprobs=self.logprobs,
            api_base=self.api_base,
            endpoint=self.endpoint,
            extra=self._fields,
        )

    def request_of(self, body: Mapping[str, Any]) -> Request:
        """Return the request whose body this is."""
        schema = body["response_format"]["json_schema"]["schema"] if "response_format" in body else None
        return self.request_with(tuple(dict(message) for message in body["messages"]), schema=schema)

    @property
    def _fields(self) -> dict[str, Any]:
        """Further fields of the request body."""
        effort = self.reasoning_effort
        return self.extra if effort is None else {**self.extra, "reasoning_effort": effort}

    def read(self, response: Response, call: Call) -> ParsedAnswer:
        """Read what came back for a call."""
        shown = call.presentation
        instructions = (shown.instruction, shown.rubric or "", self.rubric or "", self.template.text)
        candidates = rendering.candidate_texts(shown)
        return read(response, self._names(shown), shown=candidates, instructions=instructions)

    def settings(self) -> dict[str, object]:
        """Everything that makes this judge this one, and no key."""
        effort = {} if self.reasoning_effort is None else {"reasoning_effort": self.reasoning_effort}
        return {
            "model": self.model,
            "kind": self.kind,
            "tie_criterion": self.tie_criterion.name,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **effort,
            "seed": self.seed,
            "prompt": "+".join(template.name for template in self.used) or self._prompt_name,
            **({} if self.prompt_uri is None else {"prompt_uri": self.prompt_version or self.prompt_uri}),
            "api_base": self.api_base or self.endpoint,
            "answer_style": self.answer_style,
            "structured": self.structured,
            "logprobs": self.logprobs,
            **({} if self.spoken == "en" else {"prompt_language": self.spoken}),
            **{f"extra.{key}": _plain(value) for key, value in self.extra.items()},
        }

    def prompt(self) -> str:
        """The templates, what `{format}` stands for, the judge's rubric and the tie criterion."""
        parts = [f"# Prompt {template.name}\n\n{template.text}\n" for template in self.used]
        parts.append(f"# {{format}}\n\n{self.texts.format}\n")
        if self.rubric:
            parts.append(f"# Rubric of the judge, before the suite's\n\n{self.rubric}\n")
        return "\n".join([*parts, super().prompt()])

    def fingerprint(self) -> str | None:
        """Hash everything that can change an answer; the name and the keys cannot."""
        automatic = self.template.name == AUTOMATIC
        templates = [self.texts.templates[name] for name in rendering.BUILT_IN] if automatic else [self.template]
        settings = {key: value for key, value in self.settings().items() if key not in _PROMPT}
        parts = (settings, [template.text for template in templates], self.rubric, astuple(self.tie_criterion))
        text = json.dumps([*parts, self.texts.format], sort_keys=True)
        # The tag names the form, so that hashes of two forms are never taken for one another.
        return hashlib.sha256(f"jrh-prompted-1\n{text}".encode()).hexdigest()

    def definition(self) -> dict[str, Any] | None:
        """Everything that a request is made of, the texts of this package among it."""
        return self.defined_by(
            **self._asked(),
            prompt=_template_facts(self.template),
            texts=self._texts_used(),
            rubric=self.rubric,
            **{name: getattr(self, name) for name in _SAMPLING},
            recorded=self.recorded,
            **{name: getattr(self, name) for name in _REGISTERED},
            **({} if self.spoken == "en" else {"prompt_language": self.spoken}),
        )

    def _asked(self) -> dict[str, Any]:
        """Return who is asked, and where, for a definition."""
        return {
            "name": self._name,
            "model": self.model,
            "api_base": self.api_base,
            "endpoint": self.endpoint,
            "address": "given" if self._is_given else "environment",
        }

    def renewed(self) -> PromptedJudge:
        """Return the judge with the prompts of this version, asked where the environment says now."""
        judge = copy.copy(self)
        judge.texts = _texts_in(self.spoken)
        if self.template.name in rendering.BUILT_IN:
            judge.template = judge.texts.templates[self.template.name]
            judge.used = (judge.template,)
        # Of a recorded judge nobody is asked, so that no address matters.
        if not (self._is_given or self.recorded):
            judge.api_base, judge._pinned = address_of(self.model, None), None
        return judge

    def _texts_used(self) -> dict[str, Any]:
        """Return the texts of the package that can reach a prompt of this judge."""
        templates = {}
        if self.template.name == AUTOMATIC:
            templates = {name: _template_facts(template) for name, template in self.texts.templates.items()}
        elif self.template.system is None:
            templates = {
                name: {"system": template.system, "user": ""} for name, template in self.texts.templates.items()
            }
        return {"templates": templates, "format": self.texts.format, "no_rubric": self.texts.no_rubric}

    @classmethod
    def from_openai(
        cls, request: Mapping[str, Any], *, example: Mapping[str, str], verdict: object, **more: Any
    ) -> PromptedJudge:
        """Make the judge whose request was logged.

        Args:
            request: The body of a chat completion: `model`, `messages` and whatever else was sent.
            example: The texts of that request that change from call to call, by placeholder: `instruction`, `first`,
                `second`, `response`, … Each must stand in the messages exactly once.
            verdict: As for the constructor.
            more: Further arguments of the constructor, such as `api_base` or `name`.

        Raises:
            RecipeError: where a text of the example is not found, or is found more than once, with the places.
        """
        return cls.makers["openai"](request, example, verdict=verdict, **more)

    @classmethod
    def from_promptfoo(cls, config: str | Path | Mapping[str, Any], **more: Any) -> PromptedJudge:
        """Make the judge of a promptfoo assertion: `llm-rubric` for single responses, `select-best` for pairs.

        Args:
            config: `promptfooconfig.yaml`, or what it holds.
            more: `assertion` (its number, where there are several), `rubric_prompt` (where the config gives none:
                promptfoo's default belongs to its version), `texts` (variable of the prompt or the rubric to a
                placeholder, as in `{"question": "instruction"}`), `answers` (`{"true": "pass", "false": "fail"}`;
                yes and no when None), `model` where the provider is not OpenAI's chat, and further arguments of the
                constructor.

        Raises:
            RecipeError: where the config does not tell what is sent.
        """
        return cls.makers["promptfoo"](config, **more)

    @classmethod
    def from_inspect(cls, scorer: object = "model_graded_qa", **more: Any) -> PromptedJudge:
        """Make the judge of an Inspect scorer.

        Args:
            scorer: `model_graded_qa(…)`, `model_graded_fact(…)`, or the name of one of them.
            more: `template`, `instructions`, `grade_pattern` and `partial_credit` as for the scorer; `model`; `texts`
                (variable of the template to a placeholder; `question` is the instruction, `answer` the response,
                `criterion` the rubric); `answers` (`{"C": "pass", "I": "fail"}`; yes and no when None), and further
                arguments of the constructor.

        Raises:
            RecipeError: where the template has a variable that `texts` does not name.
        """
        return cls.makers["inspect"](scorer, **more)

    @classmethod
    def from_mlflow_judge(cls, judge: object, **more: Any) -> PromptedJudge:
        """Make a judge of the request that MLflow sends for `make_judge(…)`; `jrh.from_mlflow` asks through MLflow.

        Args:
            judge: With `{{ inputs }}` and `{{ outputs }}`.
            more: `inputs` (name to placeholder as in your rows, `{"question": "instruction"}`), `outputs`
                (`"response"`, or `{"A": "first", "B": "second"}` of a pair), `verdict` (`{"json": "result"}` when
                None), and further arguments of the constructor.

        Raises:
            RecipeError: where MLflow writes more than inputs and outputs into the request.
        """
        return cls.makers["mlflow"](judge, **more)

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> PromptedJudge:
        """Make the judge again that a definition is of: same requests, wherever and with whatever version."""
        name_address(definition["api_base"], WRITTEN_DOWN)
        judge = PromptedJudge(
            definition["model"],
            rubric=definition["rubric"],
            tie_criterion=Criterion(**definition["tie_criterion"]),
            name=definition["name"],
            api_base=definition["api_base"],
            **{name: definition[name] for name in _SAMPLING},
        )
        texts = definition["texts"]
        judge.spoken = definition.get("prompt_language", "en")
        judge.prompt_uri, judge.prompt_version = (definition.get(name) for name in _REGISTERED)
        judge.template = Template(**definition["prompt"])
        judge.used, judge.recorded = (judge.template,), definition["recorded"]
        templates = {name: Template(**{"name": name, **facts}) for name, facts in texts["templates"].items()}
        judge.texts = rendering.PackageTexts(**{**texts, "templates": templates})
        # Without one the constructor reads the environment, which may have changed.
        judge.api_base, judge._pinned = definition["api_base"], (definition["endpoint"],)
        judge._is_given = definition["address"] == "given"
        judge._takes_schema = takes_schema(judge.model, api_base=judge.api_base)
        return judge

    def _template(self, kind: str, answers: Sequence[str], ordinal: bool | None) -> Template:
        fits = rendering.fitting(kind, answers, ordinal)
        if self.template.name == AUTOMATIC:
            return self.texts.templates[fits]
        own = self.template.name
        # Levels may be given as labels, but labels are no scale.
        if own in rendering.BUILT_IN and own != fits and (own, fits) != ("label", "ordinal"):
            raise RecipeError(
                f"Prompt {own!r} does not fit a {kind} with the answers {', '.join(answers)}. "
                f"Use prompt={fits!r}, or leave it out. {APART if kind == 'pair' else PAIRED}"
            )
        return self.template

    def _names(self, shown: Presentation) -> Mapping[str, str]:
        return rendering.answer_names(shown.kind, shown.answers, self.answer_style)


_OF_INIT = inspect.signature(PromptedJudge.__init__)
PromptedJudge.__signature__ = _OF_INIT.replace(parameters=list(_OF_INIT.parameters.values())[1:])


def _texts_in(code: str) -> rendering.PackageTexts:
    return rendering.package_texts() if code == "en" else rendering.translated_texts(code)


def _template_facts(template: Template) -> dict[str, Any]:
    return {"name": template.name, "system": template.system, "user": template.user}


def _longest_answer(model: str, effort: str | None) -> int:
    if effort in (None, "none") and not reasons(model):
        return _MAX_TOKENS
    # Providers refuse a limit above what the model can write.
    most = (entry_of(model) or {}).get("max_output_tokens")
    return min(_MAX_TOKENS_REASONING, most) if isinstance(most, int) and most > 0 else _MAX_TOKENS_REASONING


@lru_cache(maxsize=256)
def answer_schema(names: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the JSON schema of an answer: the reason first, so that it is written before the verdict."""
    return {
        "type": "object",
        "properties": {"reason": {"type": "string"}, "verdict": {"type": "string", "enum": list(names)}},
        "required": ["reason", "verdict"],
        "additionalProperties": False,
    }


def _plain(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict | list) else value


def address_of(model: str, api_base: str | None) -> str | None:
    """Return the address that a request is sent to: the one given, or the one the environment sets for OpenAI.

    Other providers' transports read the environment by themselves; `endpoint_of` tells what it says.

    Raises:
        RecipeError: when it holds a key or is none.
    """
    # Unless somebody else has named it before.
    name_address(api_base, None)
    # Read here and not when it is sent, so that the address is part of the judge and of the journal's keys.
    if not api_base and model.startswith("openai/"):
        api_base = first_set(address_variables("openai"))
    if not api_base:
        return None
    parts = urlsplit(api_base)
    if parts.username or parts.password or any(_is_secret(name) for name, _ in parse_qsl(parts.query)):
        raise RecipeError("`api_base` holds a key or password, and addresses are logged. Give keys by the environment.")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RecipeError("`api_base` must be an address that begins with http:// or https:// and names a host.")
    return api_base


def checked_extra(extra: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    """Return the fields as plain JSON; refuse what has an argument of its own and what holds a secret."""
    for field in extra:
        if field in _OWN_ARGUMENTS:
            raise RecipeError(f"`extra` has {field!r}. Give it as {of}({_OWN_ARGUMENTS[field]}=…).")
        if field in _REFUSED:
            raise RecipeError(f"`extra` has {field!r}: a call is one whole answer.")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError):
        raise RecipeError("`extra` must be plain JSON: text, finite numbers, true, false, null, lists, maps.") from None
    secret = [field for field, value in plain.items() if _is_secret(field) or holds_secret(value)]
    if secret:
        raise RecipeError(
            f"`extra` holds a secret in {', '.join(secret)}, and settings are logged. Set the provider's environment "
            "variable instead, such as OPENAI_API_KEY."
        )
    return plain


def holds_secret(value: object) -> bool:
    """Look for a text under a secret's name anywhere in plain JSON, as in `extra_headers`."""
    if isinstance(value, list):
        return any(holds_secret(inner) for inner in value)
    if not isinstance(value, dict):
        return False
    return any((isinstance(inner, str) and _is_secret(name)) or holds_secret(inner) for name, inner in value.items())


def _is_secret(name: str) -> bool:
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return not _SECRET_WORDS.isdisjoint(words) or bool(words and words[-1] in _SECRET_ENDINGS)


def model_name(model: str) -> str:
    """Return a model's name as judges are called by it."""
    bare = model.removeprefix(_PROVIDER)
    if "/" in bare:
        return _word(model)
    # Without a provider litellm finds one: not always the one that is left out of names.
    return _word(bare) if bare != model else f"{_word(model)} via litellm"


def _criterion_name(criterion: Criterion) -> str:
    of_a_sentence = criterion.offers_tie and criterion.name == digest_name(criterion.text)
    if criterion in TIE_CRITERIA.values() or of_a_sentence:
        return criterion.name
    return f"criterion={digest_name([criterion.name, criterion.text, criterion.offers_tie])}"


def _setting_name(name: str, value: object) -> Iterator[str]:
    if name == "api_base":
        yield _address_name(str(value))
    elif name == "answer_style":
        yield str(value)
    elif isinstance(value, bool) and not name.startswith("extra."):
        yield name if value else f"no-{name}"
    else:
        yield f"{_SHORT.get(name) or _word(name)}={_value_name(value)}"


def _address_name(address: str) -> str:
    """Tell where the judge is asked: by the host alone where the rest is as usual."""
    host = urlsplit(address).netloc
    usual = {f"http://{host}/v1": f"@{host}", f"https://{host}/v1": f"@https://{host}"}
    return usual.get(address) or f"@{_word(host)}-{digest_name(address)}"


def _value_name(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value.isalpha() else _word(json.dumps(value))


def _word(text: str) -> str:
    """Return a text that is one short word as it is, and any other as a digest."""
    return text if _WORD.fullmatch(text) else digest_name(text)


def digest_name(value: object) -> str:
    """Return a short name for what has none: `own-` and eight digits of its hash."""
    text = value if isinstance(value, str) else json.dumps(value)
    return f"own-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
