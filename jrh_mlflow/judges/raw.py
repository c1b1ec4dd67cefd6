r"""A judge exactly as it runs in production: its own messages, and no field of the request that was not given.

    judge = PromptedJudge("openai/gpt-4o-mini", raw=True, temperature=0.2, verdict=r"\[\[([ABC])\]\]", messages=[
        {"role": "system", "content": "You are an impartial judge."},
        {"role": "user", "content": "{instruction}\n\n[A]\n{first}\n\n[B]\n{second}"},
    ])

Placeholders stand where the texts go: `{instruction}`, `{first}` and `{second}` of a pair, `{response}`,
`{transcript}`, and `{rubric}`, `{context}`, `{criterion}` where they are wanted. All else stays as it is, other braces
too; `{{first}}` is the literal `{first}`. Values are put in once and never searched for placeholders. `{first!json}`
is the text as JSON: `judges/tool_texts.py` has the forms.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges._base import ModelJudge
from jrh_mlflow.judges.callables import function_parts
from jrh_mlflow.judges.parsing import ParsedAnswer
from jrh_mlflow.judges.prompted import PromptedJudge, address_of, checked_extra, digest_name, model_name
from jrh_mlflow.judges.rendering import candidate_texts
from jrh_mlflow.judges.tool_texts import TEXT_FORMS
from jrh_mlflow.judges.verdict_forms import VerdictForm
from jrh_mlflow.models.catalog import entry_of
from jrh_mlflow.models.prices import Price, refuse_surcharges
from jrh_mlflow.models.trust import WRITTEN_DOWN, name_address
from jrh_mlflow.options import JudgeOptions
from jrh_mlflow.schema.presentation import Criterion, Presentation, criterion, message_text
from jrh_mlflow.schema.requests import Request, Response

if TYPE_CHECKING:
    from typing_extensions import Self

    from jrh_mlflow.schema.items import Call
    from jrh_mlflow.suites.suite import Suite

__all__ = ["PLACES", "PromptedJudge", "RawJudge", "checked_places", "escaped_places", "every_text", "longest_given"]

PLACES = ("instruction", "rubric", "context", "criterion", "first", "second", "response", "transcript")
_NEEDED = {"pair": ("first", "second"), "response": ("response",), "transcript": ("transcript",)}
_PLACE = re.compile(
    rf"\{{\{{({'|'.join(PLACES)})\}}\}}|\{{({'|'.join(PLACES)})(?:!({'|'.join(filter(None, TEXT_FORMS))}))?\}}"
)
_BRACES = re.compile(r"\{\{?\s*([A-Za-z_]\w*)\s*\}?\}")
_OURS = ("prompt", "rubric", "structured", "answer_style", "prompt_language")
"""Arguments that only write prompts of this package."""
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_PLAIN = ("temperature", "max_tokens", "seed", "reasoning_effort", "logprobs")
"""Arguments that are fields of the request by the same name."""
_AS_WRITTEN = "as written"
"""Name of the tie criterion of a judge whose messages say all there is to say."""


class RawJudge(PromptedJudge):
    """What `PromptedJudge(messages=…)` makes."""

    kind = "raw"

    def __init__(
        self,
        model: str,
        *,
        messages: Sequence[Mapping[str, Any]] | str | Path,
        verdict: object = None,
        raw: bool = True,
        tie_criterion: str | Criterion | None = None,
        name: str | None = None,
        api_base: str | None = None,
        extra: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Take the request as it is; see `PromptedJudge`."""
        if not raw:
            raise RecipeError("`messages` are sent as they are: say `raw=True`, or give a `prompt` in their place.")
        for argument in _OURS:
            if argument in fields:
                raise RecipeError(
                    f"`{argument}` is for prompts that this package writes. Beside `messages` write it into them."
                )
        if verdict is None:
            raise RecipeError("`messages` need a `verdict`, which says how the answer is read: see `jrh prompt check`.")
        given = {argument: value for argument, value in fields.items() if value is not None}
        JudgeOptions.checked({"model": model, "name": name, "api_base": api_base, "extra": extra, **given})
        self.model, self._name = model, name
        self.messages = _checked_messages(messages)
        self.verdict_form = VerdictForm.of(verdict)
        self.fields = {**given, **_checked_fields(extra or {})}
        if twice := sorted(given.keys() & (extra or {}).keys()):
            raise RecipeError(f"`{twice[0]}` is given twice: as a setting and in `extra`. Give the setting alone.")
        self.extra = {key: value for key, value in self.fields.items() if key not in _PLAIN}
        self.temperature, self.seed = self.fields.get("temperature"), self.fields.get("seed")
        self.max_tokens = longest_given(self.model, self.fields)
        self.reasoning_effort, self.logprobs = self.fields.get("reasoning_effort"), bool(self.fields.get("logprobs"))
        self.rubric, self.structured, self.answer_style, self.used = None, False, "letters", ()
        self.prompt_uri = self.prompt_version = None
        self.tie_criterion = self._as_written()
        if tie_criterion is not None:
            self.tie_criterion = self._own_criterion(tie_criterion)
        self.api_base = address_of(model, api_base)
        self._is_given, self._pinned = bool(api_base), None

    def _as_written(self) -> Criterion:
        return Criterion(name=_AS_WRITTEN, text="", offers_tie=self.verdict_form.offers_tie)

    def with_criterion(self, spec: str | Criterion) -> Self:
        """Return the judge with another text for `{criterion}`."""
        own = self._own_criterion(spec)
        return super().with_criterion(own)

    def _own_criterion(self, spec: str | Criterion) -> Criterion:
        if isinstance(spec, Criterion) and spec.name == _AS_WRITTEN:
            return spec
        if "criterion" not in self._places:
            raise RecipeError(
                "The messages have no {criterion}, so no tie criterion can be put to this judge. Write {criterion} "
                "where they speak of equal answers, and give the sentences: criteria=['Answer C if …', '…']."
            )
        if isinstance(spec, str) and len(spec.split()) < 2:
            raise RecipeError(f"Tie criteria of a judge with its own messages are sentences of your own, not {spec!r}.")
        return replace(criterion(spec), offers_tie=self.verdict_form.offers_tie)

    @property
    def _places(self) -> frozenset[str]:
        return frozenset(match[2] for text in _texts(self.messages) for match in _PLACE.finditer(text) if match[2])

    def _default_name(self) -> str:
        parts = [model_name(self.model), f"raw={digest_name(self._identity())}"]
        return " ".join(parts)

    def check_cap(self, price: Price | None) -> None:
        """Demand a price and a longest answer, which may be the model's own, and nothing that makes calls dearer."""
        ModelJudge.check_cap(self, price)
        # A limit that was given is the request's own, and lifts none of ours.
        refuse_surcharges({name: value for name, value in self.extra.items() if name not in _LIMITS})

    def begin(self, suite: Suite) -> None:
        """Check that the messages show what every item has, before anything is paid."""
        for kind, answers in {(item.kind, item.answers or ()) for item in suite.items}:
            missing = [place for place in _NEEDED[kind] if place not in self._places]
            if missing:
                raise RecipeError(_nothing_shown(kind, missing, self.messages))
            self.verdict_form.check(self.tie_criterion.answers if kind == "pair" else answers)

    def request(self, call: Call) -> Request:
        """Return what is sent for a call."""
        values = _values(call.presentation, call.item.rubric, self.tie_criterion.text)
        return self._request(every_text(self.messages, lambda text: _put(text, values)))

    def request_of(self, body: Mapping[str, Any]) -> Request:
        """Return the request whose body this is."""
        return self._request(body["messages"])

    def _request(self, messages: Sequence[Mapping[str, Any]]) -> Request:
        return Request(
            model=self.model,
            messages=tuple(messages),
            max_tokens=self.max_tokens,
            api_base=self.api_base,
            endpoint=self.endpoint,
            extra=self.fields,
            verbatim=True,
        )

    def read(self, response: Response, call: Call) -> ParsedAnswer:
        """Read what came back for a call."""
        shown = call.presentation
        instructions = [shown.instruction, shown.rubric or "", *_texts(self.messages)]
        candidates = candidate_texts(shown)
        return self.verdict_form.read(response, shown.answers, shown=candidates, instructions=instructions)

    def settings(self) -> dict[str, object]:
        """Everything that makes this judge this one, and no key."""
        fields = {name: self.fields.get(name) for name in ("temperature", "max_tokens", "seed")}
        more = {name: value for name, value in self.fields.items() if name not in fields}
        return {
            "model": self.model,
            "kind": self.kind,
            "tie_criterion": self.tie_criterion.name,
            **fields,
            "prompt": digest_name(json.dumps(self.messages)),
            "verdict": self.verdict_form.form,
            "api_base": self.api_base or self.endpoint,
            **{f"extra.{key}": json.dumps(v) if isinstance(v, dict | list) else v for key, v in more.items()},
        }

    def prompt(self) -> str:
        """The messages with their placeholders, and how the verdict is read."""
        parts = [f"# {message.get('role', 'message')}\n\n{_shown(message)}\n" for message in self.messages]
        tail = [f"# {{criterion}}\n\n{self.tie_criterion.text}\n"] if self.tie_criterion.text else []
        return "\n".join([*parts, *tail, f"# How the verdict is read\n\n{self.verdict_form.shown()}\n"])

    def _identity(self) -> str:
        form = self.verdict_form
        read = repr(function_parts(form.value)) if form.form == "function" else json.dumps(form.spec(), sort_keys=True)
        settings = {key: value for key, value in self.settings().items() if key != "prompt"}
        return json.dumps([settings, self.messages, asdict(self.tie_criterion), read], sort_keys=True)

    def fingerprint(self) -> str | None:
        """Hash everything that can change an answer; None where code takes part that cannot be told from a look."""
        form = self.verdict_form
        if form.form == "function" and function_parts(form.value) is None:
            return None
        return hashlib.sha256(f"jrh-raw-1\n{self._identity()}".encode()).hexdigest()

    def definition(self) -> dict[str, Any] | None:
        """Everything that a request is made of; None where a function without a name to import reads the verdict."""
        spec = self.verdict_form.spec()
        if spec is None:
            return None
        return self.defined_by(
            **self._asked(),
            messages=self.messages,
            fields=self.fields,
            verdict=spec,
            recorded=self.recorded,
        )

    def renewed(self) -> PromptedJudge:
        """Return the judge asked where the environment says now."""
        if self._is_given or self.recorded:
            return self
        judge = self.with_criterion(self.tie_criterion)
        judge.api_base, judge._pinned = address_of(self.model, None), None
        return judge

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> RawJudge:
        """Make the judge again that a definition is of: same requests, answers read the same way."""
        name_address(definition["api_base"], WRITTEN_DOWN)
        fields, own = definition["fields"], Criterion(**definition["tie_criterion"])
        judge = RawJudge(
            definition["model"],
            messages=definition["messages"],
            verdict=VerdictForm.of_spec(definition["verdict"]),
            tie_criterion=own,
            name=definition["name"],
            api_base=definition["api_base"],
            extra={name: value for name, value in fields.items() if name not in _PLAIN},
            **{name: value for name, value in fields.items() if name in _PLAIN},
        )
        judge.recorded = definition["recorded"]
        judge.api_base, judge._pinned = definition["api_base"], (definition["endpoint"],)
        judge._is_given = definition["address"] == "given"
        return judge


def judge_of_request(
    request: Mapping[str, Any], example: Mapping[str, str], *, verdict: object, **more: Any
) -> PromptedJudge:
    """Make the judge of a request that was logged; see `PromptedJudge.from_openai`."""
    rest = {key: value for key, value in request.items() if key not in ("model", "messages")}
    if not isinstance(request.get("model"), str) or not isinstance(request.get("messages"), list):
        raise RecipeError("A request has `model` and `messages`, as in the body of a chat completion.")
    if unknown := sorted(set(example) - set(PLACES)):
        raise RecipeError(f"`example` may have {', '.join(PLACES)}, but has {', '.join(unknown)}.")
    for place, value in example.items():
        counts = {where: text.count(value) for where, text in _texts_at(request["messages"]) if value and value in text}
        if (n_times := sum(counts.values())) != 1:
            places = f" (in {', '.join(counts)})" if counts else ""
            raise RecipeError(
                f"The text of `example[{place!r}]` must stand in the messages exactly once, but stands there {n_times} "
                f"times{places}. Log a request whose texts differ from all around them, or write the messages yourself."
            )

    def marked(text: str) -> str:
        cuts = sorted(
            (text.index(value), text.index(value) + len(value), place)
            for place, value in example.items()
            if value in text
        )
        if any(one[1] > two[0] for one, two in pairwise(cuts)):
            raise RecipeError("Two texts of `example` overlap in the messages: give texts that stand apart.")
        written, end = "", 0
        for start, stop, place in cuts:
            # Between braces of the request's own, `{{first}}` would be read as a literal.
            form = "!text" if text[start - 1 : start] == "{" and text[stop : stop + 1] == "}" else ""
            written += escaped_places(text[end:start]) + f"{{{place}{form}}}"
            end = stop
        return written + escaped_places(text[end:])

    name = request["model"]
    model = name if "/" in name else f"openai/{name}"
    return RawJudge(
        more.pop("model", model), messages=every_text(request["messages"], marked), verdict=verdict, extra=rest, **more
    )


def escaped_places(text: str) -> str:
    """Write a text in which nothing is a placeholder."""
    return _PLACE.sub(lambda match: f"{{{match[0]}}}", text)


def _put(text: str, values: Mapping[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        return f"{{{match[1]}}}" if match[1] else TEXT_FORMS[match[3] or ""](values[match[2]])

    return _PLACE.sub(put, text)


def every_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain JSON with every text changed; names of fields stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: every_text(inner, change) for key, inner in value.items()}
    return [every_text(inner, change) for inner in value] if isinstance(value, list | tuple) else value


def _texts_at(value: Any, where: str = "messages") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts_at(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _texts_at(inner, f"{where}[{number}]")


def _texts(messages: Any) -> Iterator[str]:
    return (text for _, text in _texts_at(messages))


def _values(shown: Presentation, rubric: str | None, criterion_text: str) -> dict[str, str]:
    talk = [f"{message.role}: {message_text(message)}" for message in shown.transcript or ()]
    return {
        "instruction": shown.instruction,
        "rubric": rubric or "",
        "context": "\n\n".join(shown.context or ()),
        "criterion": criterion_text,
        "first": shown.first or "",
        "second": shown.second or "",
        "response": shown.response or "",
        "transcript": "\n\n".join(talk),
    }


def _checked_messages(messages: object) -> list[dict[str, Any]]:
    if isinstance(messages, str | Path):
        messages = _read_messages(Path(messages))
    if not isinstance(messages, list | tuple) or not messages or not all(isinstance(m, Mapping) for m in messages):
        raise RecipeError("`messages` must be a list of messages, each with `role` and `content`, or a JSON file.")
    return cast("list[dict[str, Any]]", checked_places(list(messages), "messages"))


def checked_places(written: Any, what: str) -> Any:
    """Return plain JSON that has a placeholder.

    Raises:
        RecipeError: where it has none, or is no JSON.
    """
    try:
        plain = json.loads(json.dumps(written, allow_nan=False))
    except (TypeError, ValueError):
        raise RecipeError(f"`{what}` must be plain JSON, as it is sent.") from None
    if not any(match[2] for text in _texts(plain) for match in _PLACE.finditer(text)):
        raise RecipeError(_nothing_shown("pair", ["first", "second"], plain))
    return plain


def _read_messages(path: Path) -> object:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}. Give the file of the messages.") from None
    except ValueError as error:
        raise RecipeError(f"{path} is not JSON: {error}.") from None
    return data.get("messages") if isinstance(data, Mapping) else data


def _checked_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return further fields of the request; one whole answer is what a call is."""
    if extra.get("n", 1) != 1 or extra.get("stream"):
        raise RecipeError("A call is one whole answer: the request must not have `stream`, or `n` above 1.")
    own = {name: value for name, value in extra.items() if name in ("n", "stream", "response_format", *_PLAIN)}
    return {**checked_extra({key: v for key, v in extra.items() if key not in own}, of="PromptedJudge"), **own}


def longest_given(model: str, fields: Mapping[str, Any]) -> int | None:
    """Return the longest answer: the one that was given, else the model's own where litellm's table has it."""
    given = [fields[name] for name in _LIMITS if isinstance(fields.get(name), int)]
    most = given[0] if given else (entry_of(model) or {}).get("max_output_tokens")
    return most if isinstance(most, int) and most > 0 else None


def _nothing_shown(kind: str, missing: Sequence[str], messages: object) -> str:
    wanted = " and ".join(f"{{{place}}}" for place in missing)
    others = dict.fromkeys(match[1] for text in _texts(messages) for match in _BRACES.finditer(text))
    seen = [f"{{{name}}}" for name in others if name not in PLACES]
    there = f" They have {', '.join(seen[:5])}: rename." if seen else ""
    return f"The messages show no {kind} to the judge: write {wanted} where the text goes.{there}"


def _shown(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)


PromptedJudge.of_messages = RawJudge
PromptedJudge.makers |= {"openai": judge_of_request}
