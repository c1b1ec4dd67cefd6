"""Judges of promptfoo and Inspect, measured with the messages that these tools send.

Prompts that a tool has by default belong to its version: Inspect's are read from the installed package, promptfoo's
are given as `rubric_prompt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import PLACES, RawJudge, escaped_places, every_text
from jrh_mlflow.yaml_files import read_yaml

_RUBRIC, _BEST = "llm-rubric", "select-best"
_TAG = re.compile(r"\{\{\s*([\w.\[\]]+)\s*\}\}")
_LOOP = re.compile(r"\{%\s*for\s+(\w+)\s+in\s+outputs\s*%\}(.*?)\{%\s*endfor\s*%\}", re.DOTALL)
_FIELDS = (
    *("seed", "max_tokens", "max_completion_tokens", "reasoning_effort", "temperature", "top_p", "presence_penalty"),
    *("frequency_penalty", "functions", "function_call", "tools", "tool_choice", "response_format", "stop"),
    *("service_tier", "user", "metadata", "store"),
)
"""Settings of promptfoo's OpenAI provider that are fields of its requests."""
_THINKS = re.compile(r"(^|/)(o1|o3|o4|gpt-5)")
"""Models to which promptfoo sends neither a temperature nor `max_tokens` of its own."""
_FLAGS = re.compile(r"\(\?[aiLmsux]+\)")
_WORDS = {"C": "correct", "I": "incorrect", "P": "partial"}


def judge_of_promptfoo(
    config: str | Path | Mapping[str, Any],
    *,
    assertion: int | None = None,
    rubric_prompt: str | None = None,
    texts: Mapping[str, str] | None = None,
    answers: Mapping[str, str] | None = None,
    model: str | None = None,
    **more: Any,
) -> PromptedJudge:
    """Make the judge of a promptfoo assertion; see `PromptedJudge.from_promptfoo`."""
    folder = Path() if isinstance(config, Mapping) else Path(config).parent
    chosen = _chosen(config if isinstance(config, Mapping) else read_yaml(Path(config)), assertion)
    prompt = _loaded(chosen.get("rubricPrompt") or rubric_prompt, folder, (".json", ".yaml", ".yml", ".txt", ".md"))
    if not prompt:
        raise RecipeError(
            "The config has no rubricPrompt, so promptfoo sends the default of its version. Give its text as "
            "rubric_prompt=…, or take the renderedGradingPrompt of a result: PromptedJudge.from_openai."
        )
    names = {name: f"{{{_place(place)}!text}}" for name, place in (texts or {}).items()}
    value = chosen.get("value", "")
    is_file = isinstance(value, str) and value.startswith("file://")
    # promptfoo puts a file in as it is, and fills what stands in the config.
    text = _loaded(value, folder, (".txt",))
    value = escaped_places(text.strip()) if is_file else _rendered(text, names)
    if chosen["type"] == _BEST:
        names |= {"criteria": value}
        names |= {f"outputs.{n}": f"{{{place}!promptfoo_list}}" for n, place in enumerate(("first", "second"))}
        verdict: dict[str, Any] = {"pattern": r"\A[^0-9]*([0-9]+)[\s\S]*", "words": answers or {"0": "1", "1": "2"}}
    else:
        names |= {"rubric": value, "output": "{response!promptfoo}"}
        verdict = {"json": "pass", "words": answers or {"true": "yes", "false": "no"}}
        if chosen.get("threshold") is not None and "verdict" not in more:
            raise RecipeError("The assertion has a threshold for the score: say with `verdict` how you read answers.")
    messages, provider = _messages(prompt, names), chosen.get("provider")
    provider = provider.get("text", provider) if isinstance(provider, Mapping) else {"id": provider}
    sent = _sent(str(provider.get("id") or ""), provider.get("config") or {}, model)
    return RawJudge(**{"messages": messages, "verdict": verdict, **sent, **more})


def _chosen(config: object, number: int | None) -> Mapping[str, Any]:
    """Return the assertion with what its test and the config say beside it."""
    if not isinstance(config, Mapping):
        raise RecipeError("A promptfoo config is a mapping with `tests` or `defaultTest`.")
    known: list[dict[str, Any]] = []
    default = config.get("defaultTest")
    usual = default if isinstance(default, Mapping) else {}
    tests = config.get("tests")
    for test in (usual, *(tests if isinstance(tests, list) else ())):
        options = {**(usual.get("options") or {}), **(test.get("options") or {})}
        for entry in _assertions(test, config):
            beside = {key: options[key] for key in ("rubricPrompt", "provider") if options.get(key)}
            whole = {**beside, **{key: part for key, part in entry.items() if part}}
            if entry.get("type") in (_RUBRIC, _BEST) and whole not in known:
                known.append(whole)
    if not known:
        raise RecipeError(f"The config has no assertion of type {_RUBRIC} or {_BEST} under tests or defaultTest.")
    if (number is None and len(known) > 1) or not 0 <= (number or 0) < len(known):
        listed = "; ".join(f"{place}: {entry['type']} {entry.get('value', '')!r}" for place, entry in enumerate(known))
        raise RecipeError(f"Say which assertion is measured: assertion=NUMBER. There are {listed}.")
    return known[number or 0]


def _assertions(test: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for written in test.get("assert") or ():
        name = str(written.get("$ref", "")).removeprefix("#/assertionTemplates/")
        entry = (config.get("assertionTemplates") or {}).get(name, written)
        yield from _assertions(entry, config) if entry.get("type") == "assert-set" else (entry,)


def _loaded(value: Any, folder: Path, readable: Collection[str]) -> str:
    """Return the text that a config has or names; plain data as JSON."""
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else ""
    if not value.startswith("file://"):
        return value
    path = folder / value.removeprefix("file://")
    if path.suffix not in readable:
        raise RecipeError(f"{path} is no text to send: log a request, and use PromptedJudge.from_openai.")
    try:
        return path.read_bytes().decode()
    except (OSError, ValueError) as error:
        raise RecipeError(f"{path} cannot be read: {error}.") from None


def _rendered(template: str, names: Mapping[str, str]) -> str:
    """Return a template of promptfoo's with our placeholders in the place of its own."""

    def turns(loop: re.Match[str]) -> str:
        parts = [{loop[1]: f"{{{{outputs.{n}}}}}", "loop.index0": str(n), "loop.index": str(n + 1)} for n in (0, 1)]
        return "".join(_TAG.sub(lambda tag, part=part: part.get(tag[1], tag[0]), loop[2]) for part in parts)

    written, end, text = "", 0, _LOOP.sub(turns, template)
    for tag in _TAG.finditer(text):
        name = tag[1].replace("[", ".").replace("]", "")
        if name not in names:
            raise RecipeError(f"What stands at {tag[0]}? Say it: texts={{{name!r}: 'instruction'}}.")
        written += _plain(text[end : tag.start()]) + names[name]
        end = tag.end()
    return written + _plain(text[end:])


def _plain(text: str) -> str:
    if tag := re.search(r"\{[{%#].{0,40}", text):
        raise RecipeError(f"Of templates {{{{ names }}}} and a loop over outputs are read, not {tag[0]!r}.")
    return escaped_places(text)


def _messages(prompt: str, names: Mapping[str, str]) -> list[dict[str, Any]]:
    try:
        messages = json.loads(prompt)
    except ValueError:
        bare, text = prompt.strip(), _rendered(prompt, names)
        # promptfoo reads such texts as YAML or JSON after the answers were put in.
        if bare.startswith("- role:") or (bare[:1] + bare[-1:] in ("[]", "{}") and bare[:2] != "{{"):
            raise RecipeError("A rubricPrompt with several messages is read as JSON only: write it so.") from None
        return [{"role": "user", "content": text}]
    written: list[dict[str, Any]] = every_text(messages, lambda text: _rendered(text, names))
    return written


def _sent(provider: str, settings: Mapping[str, Any], model: str | None) -> dict[str, Any]:
    """Return the model and the fields that promptfoo's OpenAI provider sends; of other providers the given model."""
    kind, *names = provider.split(":")
    if kind != "openai" or not names or names[0] in ("responses", "completion", "assistant"):
        if model is None:
            shown = f"provider {provider!r}" if provider else "no provider"
            raise RecipeError(f"The assertion has {shown}: give model='anthropic/…' and the fields that are sent.")
        return {"model": model}
    name = ":".join(names[1:] if names[0] == "chat" else names)
    fields = {key: settings[key] for key in _FIELDS if settings.get(key) is not None}
    if not _THINKS.search(name) and not settings.get("omitDefaults"):
        fields = {"temperature": 0, "max_tokens": 1024, **fields}
    base = {"api_base": settings["apiBaseUrl"]} if settings.get("apiBaseUrl") else {}
    return {"model": model or f"openai/{name}", "extra": {**fields, **(settings.get("passthrough") or {})}, **base}


def judge_of_inspect(
    scorer: object = "model_graded_qa",
    *,
    model: str | None = None,
    texts: Mapping[str, str] | None = None,
    answers: Mapping[str, str] | None = None,
    **given: Any,
) -> PromptedJudge:
    """Make the judge of an Inspect scorer; see `PromptedJudge.from_inspect`."""
    asked = ("template", "instructions", "grade_pattern", "partial_credit")
    own = {key: given.pop(key) for key in asked if key in given}
    template, instructions, pattern, asks_partial, scored_by = _scorer_parts(scorer, own)
    model = model or (scored_by if isinstance(scored_by, str) else None)
    if model is None:
        raise RecipeError("The scorer names no model of its own: give model='openai/…'.")
    if asks_partial and "P" not in (answers or {}):
        raise RecipeError("The scorer gives partial credit: say what it means, answers={'C': …, 'P': …, 'I': …}.")
    words = dict(answers or {"C": "yes", "I": "no"})
    if not own.get("grade_pattern"):
        words |= {_WORDS[letter]: answer for letter, answer in words.items() if letter in _WORDS}
    places = {"question": "instruction", "answer": "response", "criterion": "rubric", **(texts or {})}
    message = _formatted(template, {name: f"{{{_place(p)}!inspect}}" for name, p in places.items()}, instructions)
    # Inspect takes the first match, whatever stands around it.
    flags = match[0] if (match := _FLAGS.match(pattern)) else ""
    first = rf"{flags}\A[\s\S]*?(?:{pattern[len(flags) :]})[\s\S]*"
    verdict = {"pattern": first, "words": words}
    return RawJudge(**{"model": model, "messages": [{"role": "user", "content": message}], "verdict": verdict, **given})


def _scorer_parts(scorer: object, own: dict[str, Any]) -> tuple[str, str, str, bool, object]:
    """Return template, instructions and pattern, whether partial credit is asked for by default, and the model."""
    try:
        from inspect_ai._util.registry import registry_info, registry_params
        from inspect_ai.scorer import _model as defaults
        from inspect_ai.util import resource
    except ImportError:
        raise RecipeError("Inspect writes the prompts of its scorers: pip install 'jrh-mlflow[inspect]'.") from None
    name = scorer
    if not isinstance(scorer, str):
        name = registry_info(scorer).name.rpartition("/")[2]
        own |= {**registry_params(scorer), **own}
    if name not in ("model_graded_qa", "model_graded_fact"):
        raise RecipeError(f"Of Inspect's scorers model_graded_qa and model_graded_fact ask a model, not {name!r}.")
    if own.get("include_history"):
        raise RecipeError("The scorer shows the whole history, which no placeholder has: log a request of it.")
    usual = "DEFAULT_MODEL_GRADED_FACT_TEMPLATE" if name == "model_graded_fact" else "DEFAULT_MODEL_GRADED_QA_TEMPLATE"
    template = resource(own.get("template") or getattr(defaults, usual))
    asks_partial = bool(own.get("partial_credit")) and not own.get("instructions")
    instructions = own.get("instructions") or defaults.default_instructions(asks_partial)
    named = "DEFAULT_GRADE_PATTERN" if own.get("instructions") else "_PERMISSIVE_GRADE_PATTERN"
    pattern = own.get("grade_pattern") or getattr(defaults, named, defaults.DEFAULT_GRADE_PATTERN)
    return template, instructions, pattern, asks_partial, own.get("model")


def _formatted(template: str, names: Mapping[str, str], instructions: str) -> str:
    written, plain = "", ""
    for text, name, form, conversion in Formatter().parse(template):
        # Braces that stand for themselves come in pieces: only together they look like a placeholder.
        plain += text
        if name == "instructions":
            plain += instructions
        elif name is not None and (form or conversion or name not in names):
            raise RecipeError(f"What stands at {{{name}}}? Say it: texts={{{name!r}: 'context'}}.")
        elif name is not None:
            written, plain = written + escaped_places(plain) + names[name], ""
    return written + escaped_places(plain)


def _place(name: str) -> str:
    if name not in PLACES:
        raise RecipeError(f"`texts` may name {', '.join(PLACES)}, but names {name!r}.")
    return name


PromptedJudge.makers |= {"promptfoo": judge_of_promptfoo, "inspect": judge_of_inspect}
