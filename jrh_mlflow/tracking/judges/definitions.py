"""Judges as data: a judge made again from its definition, and what differs between two definitions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import DEFINITION_FORMAT, Judge, scripted
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.tracking.judges.scorers import MlflowJudge

Definition = Mapping[str, Any]
What = Literal["prompt", "model", "version", "answering model", "settings"]
WHAT: tuple[What, ...] = ("prompt", "model", "version", "answering model", "settings")
"""What two judges can differ in, in the order in which it is told."""
NONE = "none"
_EXCERPT = 60
"""Characters of a long text that are shown from a little before where two begin to differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgeDifference:
    """One thing in which the judge that runs is not the judge that was measured."""

    what: What
    measured: str
    """As it was measured, on one line: `temperature 0.0`."""
    running: str

    def __str__(self) -> str:
        return f"{self.what}: {self.measured} → {self.running}"


def judge_from(definition: Definition) -> Judge:
    """Make a judge again from `Judge.definition`: same fingerprint, same requests, answers read the same way.

    Where it is asked is part of it: an address that once came from the environment is not looked up again.

    Raises:
        RecipeError: for a definition that a newer version wrote.
    """
    kind, written = definition.get("kind"), definition.get("format")
    if written != DEFINITION_FORMAT or kind not in _MAKERS:
        raise RecipeError(
            f"This judge is written down in a form ({kind}, format {written}) that this version of jrh_mlflow does not "
            "know: update it (pip install -U jrh-mlflow), or pass the judge itself."
        )
    return _MAKERS[str(kind)](definition)


def _pointwise(definition: Definition) -> Judge:
    return PointwiseJudge.from_definition(judge_from(definition["inner"]), definition)


_MAKERS: dict[str, Callable[[Definition], Judge]] = {
    "prompted": PromptedJudge.from_definition,
    "pointwise": _pointwise,
    "scripted": scripted.from_definition,
    "mlflow": MlflowJudge.from_definition,
}
"""Kind of a judge to what makes one from its definition."""


def differences(measured: Definition, running: Definition) -> tuple[JudgeDifference, ...]:
    """Return in what two definitions differ, the prompt first; names are no difference, for they change no answer."""
    before, after = (dict(_facts(one)) for one in (measured, running))
    changed = [fact for fact in dict.fromkeys((*before, *after)) if before.get(fact) != after.get(fact)]
    # A version of the registry that holds what the measured one held is the measured judge.
    if all(fact == _REGISTERED for fact in changed):
        return ()
    told = ((what, *_told(name, before.get((what, name)), after.get((what, name)))) for what, name in changed)
    found = [JudgeDifference(what=what, measured=was, running=now) for what, was, now in told]
    return tuple(sorted(found, key=lambda one: WHAT.index(one.what)))


Fact = tuple[tuple[What, str], Any]
"""What it belongs to and what it is called; its value."""
_REGISTERED: tuple[What, str] = ("version", "registered as")


def _facts(definition: Definition) -> Iterator[Fact]:
    """Yield everything that makes a judge answer as it does."""
    kind, criterion = definition["kind"], definition["tie_criterion"]
    yield ("settings", "kind"), kind
    yield ("prompt", "tie criterion"), criterion["text"]
    yield ("prompt", "tie"), "offered" if criterion["offers_tie"] else "not offered"
    yield from _FACTS.get(kind, _other_facts)(definition)


def _prompted_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "model"), definition["model"]
    yield ("model", "endpoint"), definition["api_base"] or definition["endpoint"]
    yield ("prompt", "template"), _template(definition)
    yield ("prompt", "answer format"), definition["texts"]["format"]
    yield ("prompt", "no rubric"), definition["texts"]["no_rubric"]
    yield ("prompt", "rubric"), definition["rubric"]
    for name in ("temperature", "max_tokens", "reasoning_effort", "seed", "structured", "answer_style", "logprobs"):
        yield ("settings", name), definition[name]
    for name, value in definition["extra"].items():
        yield ("settings", f"extra.{name}"), value


def _template(definition: Definition) -> str:
    """Return all templates that a judge may send, each with its name: one, or those of the package."""
    own, package = definition["prompt"], definition["texts"]["templates"]
    parts = [] if any(one["user"] for one in package.values()) else [("", own)]
    parts += sorted(package.items())
    return "\n".join(f"{name}\n[system]\n{one['system']}\n[user]\n{one['user']}".lstrip() for name, one in parts)


def _pointwise_facts(definition: Definition) -> Iterator[Fact]:
    yield ("prompt", "question"), definition["question"]
    yield ("settings", "answers"), [definition["answers"], definition["given"]]
    yield from _of("inner", definition["inner"])


def _of(part: str, definition: Definition) -> Iterator[Fact]:
    for (what, name), value in _facts(definition):
        yield (what, f"{part} {name}"), value


def _scripted_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "script"), definition["class"]
    for name, value in definition["arguments"].items():
        yield ("settings", name), value


def _mlflow_facts(definition: Definition) -> Iterator[Fact]:
    yield ("model", "model"), ", ".join(str(model) for model in definition["models"])
    places = [*definition["endpoints"], *(url for url in definition["base_urls"] if url)]
    yield ("model", "endpoint"), ", ".join(dict.fromkeys(places)) or None
    for number, kept in enumerate(definition["scorers"], start=1):
        which = f"scorer {number} " if len(definition["scorers"]) > 1 else ""
        for (what, name), value in _kept_facts(kept):
            yield (what, f"{which}{name}"), value
    yield ("settings", "answers"), definition["words"]
    if definition["registered"]:
        versions = [f"{one['name']} version {one['version']}" for one in definition["registered"]]
        yield _REGISTERED, ", ".join(versions)


_KEPT_AS: dict[str, What] = {
    "instructions": "prompt",
    "guidelines": "prompt",
    "mlflow_version": "version",
    "serialization_version": "version",
}
"""Fields of what MLflow keeps of a scorer; everything else is a setting."""
_NO_FACTS = ("name", "model")
"""Fields that change no answer, or are told apart from the rest."""


def _kept_facts(kept: object, path: tuple[str, ...] = ()) -> Iterator[Fact]:
    """Yield the leaves of what MLflow keeps of a scorer, by the fields they stand in."""
    if isinstance(kept, list) and any(isinstance(one, Mapping) for one in kept):
        kept = {str(number): one for number, one in enumerate(kept, start=1)}
    if isinstance(kept, Mapping):
        for name, value in kept.items():
            inner = path if name.endswith("_data") and isinstance(value, Mapping) else (*path, name)
            yield from () if name in _NO_FACTS else _kept_facts(value, inner)
    else:
        yield (_KEPT_AS.get(path[-1], "settings"), " ".join(path)), kept


def _other_facts(definition: Definition) -> Iterator[Fact]:
    """Compare a kind that this version does not know as a whole."""
    rest = {name: value for name, value in definition.items() if name not in ("name", "kind", "tie_criterion")}
    yield ("settings", "definition"), rest


_FACTS: dict[str, Callable[[Definition], Iterator[Fact]]] = {
    "prompted": _prompted_facts,
    "pointwise": _pointwise_facts,
    "scripted": _scripted_facts,
    "mlflow": _mlflow_facts,
}


def _told(name: str, measured: Any, running: Any) -> tuple[str, str]:
    """Write two values of a fact on a line each; of long texts the part from where they begin to differ."""
    before, after = _text(measured), _text(running)
    if max(len(before), len(after)) > _EXCERPT:
        same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
        start = max(0, (min(len(before), len(after)) if same is None else same) - _EXCERPT // 3)
        before, after = (_excerpt(text, start) for text in (before, after))
    return f"{name} {_line(before)}", f"{name} {_line(after)}"


def _text(value: Any) -> str:
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _excerpt(text: str, start: int) -> str:
    if text == NONE:
        return text
    before, after = "…" if start else "", "…" if start + _EXCERPT < len(text) else ""
    return f"“{before}{text[start : start + _EXCERPT]}{after}”"


def _line(text: str) -> str:
    r"""Put a text on one line; ends of lines show as \n, for they may be all that differs."""
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
