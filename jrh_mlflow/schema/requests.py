"""A chat request as it goes to a model, and what came back, in no provider's dialect."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import Any

from jrh_mlflow.text import json_text


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything that can change the answer, and nothing else: no key, no timeout, no retry setting."""

    model: str
    """A litellm model name: `openai/gpt-4o-mini`, `hosted_vllm/…`, `anthropic/…`."""
    messages: tuple[Mapping[str, Any], ...]
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    response_schema: Mapping[str, Any] | None = None
    """JSON schema of the answer, where structured output is asked for."""
    logprobs: bool = False
    api_base: str | None = None
    endpoint: str | None = None
    """Who answers where `api_base` is None, as the environment says (`endpoint_of`); nothing is sent there for it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request body, as the user gave them."""
    verbatim: bool = False
    """The body is model, messages and `extra`, and nothing else: `max_tokens` is then only what a cap reckons with."""

    def canonical(self) -> str:
        """Return canonical JSON: the same request is the same text on every machine."""
        return self._canonical

    @cached_property
    def _canonical(self) -> str:
        before, after, _ = self._around
        return f'{before},"messages":[{",".join(map(_written, self.messages))}],{after}'

    @cached_property
    def _around(self) -> tuple[str, str, int]:
        """What the canonical JSON has before the messages and after them, and the bytes of schema and `extra`."""
        schema, extra = self.response_schema, self.extra
        # By its text: 0 and 0.0 are equal, and not the same JSON. The schema is held, so that its number stays its own.
        key = f"{id(schema)} {[getattr(self, name) for name in _SHORT_FIELDS]}"
        held, around = _arounds.get(key, (None, None))
        if around is None or held is not schema or extra:
            values = {name: getattr(self, name) for name in (*_SHORT_FIELDS, "response_schema", "extra")}
            # One endpoint is one endpoint, wherever its address comes from.
            endpoint = values.pop("endpoint")
            values["api_base"] = endpoint if self.api_base is None else self.api_base
            if not self.verbatim:
                # The keys of all other requests are those of versions that knew no such field.
                del values["verbatim"]
            before = _compact({name: value for name, value in values.items() if name < "messages"})
            after = _compact({name: value for name, value in values.items() if name > "messages"})
            size = (0 if schema is None else _n_bytes(schema)) + (_n_bytes(extra) if extra else 0)
            around = before[:-1], after[1:], size
            if not extra:
                if len(_arounds) >= _MOST_AROUNDS:
                    _arounds.clear()
                _arounds[key] = (schema, around)
        return around

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of messages, schema and `extra`."""
        return self._around[2] + sum(_n_bytes(value) for message in self.messages for value in message.values())

    def key(self, replicate: int) -> str:
        """Return the journal's key: two identical requests of different replicates are two keys."""
        # The tag names the form of the key: another form would find none of the answers that were paid.
        return hashlib.sha256(f"jrh-1\n{replicate}\n{self._digest}".encode()).hexdigest()

    @cached_property
    def _digest(self) -> str:
        # Kept apart from the key: the replicates of a long prompt hash it once.
        return hashlib.sha256(self._canonical.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Response:
    """What a provider answered."""

    text: str | None
    """Content of the first choice; None when it was missing."""
    finish_reason: str | None
    """`stop`, `length`, `content_filter`, … as given; `empty_choices` when there was no choice."""
    refusal: str | None = None
    model: str | None = None
    """The model that says it answered."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    """Per token: `token`, `logprob` and `top` (list of [token, logprob]), where they were asked for."""
    cost_usd: float | None = None
    """The bill where it is known better than from tokens and prices: the provider's own figure, or a batch's price."""
    system_fingerprint: str | None = None
    """What the provider says of the system behind the answer, where it says it."""
    cached_tokens: int | None = None
    """Of the input tokens, those that the provider had in its cache."""
    tool_arguments: str | None = None
    """Arguments of the first tool call, of a message without text."""

    def to_json(self) -> str:
        """Return the form the journal keeps."""
        return self._json

    @cached_property
    def _json(self) -> str:
        values = dict(zip(_RESPONSE, _response_values(self), strict=True))
        for name in ("cached_tokens", "tool_arguments"):
            if values[name] is None:
                # Rare, and the journal keeps millions of responses.
                del values[name]
        return _compact(values)

    @classmethod
    def from_json(cls, text: str) -> Response:
        """Read the form the journal keeps."""
        data = json.loads(text)
        if data.get("logprobs") is not None:
            # JSON gives a list back, and a response that was read must equal the one that was kept.
            data["logprobs"] = tuple(data["logprobs"])
        return cls(**data)


# Not `asdict`: its deep copies took a third of a call's time. Nor `json.dumps`, which makes an encoder for each text.
_compact = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
_SHORT_FIELDS = [field.name for field in fields(Request) if field.name not in ("messages", "response_schema", "extra")]
_RESPONSE = [field.name for field in fields(Response)]
_response_values = attrgetter(*_RESPONSE)
_MOST_AROUNDS = 256
_arounds: dict[str, tuple[Mapping[str, Any] | None, tuple[str, str, int]]] = {}


def _written(message: Mapping[str, Any]) -> str:
    if set(map(type, message.values())) != {str}:
        return _compact(message)
    fields = ",".join([f"{json_text(name)}:{json_text(message[name])}" for name in sorted(message)])
    return f"{{{fields}}}"


def _n_bytes(data: Any) -> int:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
