"""The name of a prompted judge that was given none: its model, and every setting that is not the usual one.

Two judges whose settings differ have different names: what a name cannot spell out stands in it as a digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from jrh_mlflow.models.local.weights import BY_HASH
from jrh_mlflow.schema.criteria import BUILT_IN, Criterion

_PROVIDER = "openai/"
_USUAL = BUILT_IN["allowed"]
_WORD = re.compile(r"[\w.:+/-]{1,40}", re.ASCII)
_APART = frozenset(("model", "kind", "tie_criterion", "prompt", "prompt_uri"))
"""Settings that are named in a way of their own."""
_SHORT = {"temperature": "t", "max_tokens": "max", "reasoning_effort": "effort"}


def default_name(
    settings: Mapping[str, object],
    *,
    shown: str,
    criterion: Criterion,
    prompt: str | None,
    rubric: str | None,
    usual: Mapping[str, object],
) -> str:
    """Name a judge by its model and its unusual settings: `qwen2.5-coder-1.5b forced digits`.

    Args:
        settings: Everything that makes the judge this one.
        shown: Its model's name, as reports call it.
        criterion: Its tie criterion.
        prompt: Its template's name, which has a digest of the text; None for the usual one.
        rubric: Its rubric.
        usual: Values of settings that a name does not tell.
    """
    parts = [_model(str(settings["model"]), shown)]
    parts += [] if criterion == _USUAL else [_criterion(criterion)]
    parts += [] if prompt is None else [f"prompt={_word(prompt)}"]
    parts += [] if not rubric else [f"rubric={_digest(rubric)}"]
    for name, value in settings.items():
        if name not in _APART and not (name in usual and value == usual[name]):
            parts += _setting(name, value)
    return " ".join(parts)


def _model(model: str, shown: str) -> str:
    if model.startswith(BY_HASH):
        return f"{shown}-{model.removeprefix(BY_HASH)[:8]}"
    bare = model.removeprefix(_PROVIDER)
    if "/" in bare:
        return _word(model)
    # Without a provider litellm finds one: not always the one that is left out of names.
    return _word(bare) if bare != model else f"{_word(model)} via litellm"


def _criterion(criterion: Criterion) -> str:
    of_a_sentence = criterion.offers_tie and criterion.name == _digest(criterion.text)
    if criterion in BUILT_IN.values() or of_a_sentence:
        return criterion.name
    return f"criterion={_digest([criterion.name, criterion.text, criterion.offers_tie])}"


def _setting(name: str, value: object) -> Iterator[str]:
    if name == "api_base":
        yield _address(str(value))
    elif name == "answer_style":
        yield str(value)
    elif isinstance(value, bool) and not name.startswith("extra."):
        yield name if value else f"no-{name}"
    else:
        yield f"{_SHORT.get(name) or _word(name)}={_value(value)}"


def _address(address: str) -> str:
    """Tell where the judge is asked: by the host alone where the rest is as usual."""
    host = urlsplit(address).netloc
    usual = {f"http://{host}/v1": f"@{host}", f"https://{host}/v1": f"@https://{host}"}
    return usual.get(address) or f"@{_word(host)}-{_digest(address)}"


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    return value if isinstance(value, str) and _WORD.fullmatch(value) and value.isalpha() else _word(json.dumps(value))


def _word(text: str) -> str:
    """Return a text that is one short word as it is, and any other as a digest."""
    return text if _WORD.fullmatch(text) else _digest(text)


def _digest(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"own-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def shown_name(name: str, *, simulated: bool, recorded: bool) -> str:
    """Return a judge's name as people see it: with what it is, where it is no model that is asked now."""
    return f"{name} (simulated)" if simulated else f"{name} (recorded)" if recorded else name
