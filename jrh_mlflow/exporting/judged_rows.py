"""Rows of `mlflow.genai.evaluate`, and traces, as calls to a judge: the way back from what `from_mlflow` lays out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.calls import present
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import BASELINE, LEVEL_LADDERS, NATURAL, Call, Item, Order
from jrh_mlflow.schema.presentation import Message, read_message
from jrh_mlflow.suites.dataset import is_na
from jrh_mlflow.suites.transcripts.openai import from_openai
from jrh_mlflow.text import clean_data

if TYPE_CHECKING:
    from mlflow.entities import Trace

_SLOTS = ("A", "B")
_MESSAGE_FIELDS = frozenset(field.name for field in fields(Message))


def row_item(
    *,
    inputs: Any,
    outputs: Any,
    trace: Trace | None = None,
    criterion: Criterion,
    answers: Sequence[str] | None,
    ordinal: bool | None,
    rubric: str | None,
    levels: bool | None = None,
) -> Item:
    """Read a row as something to judge.

    - inputs: `{"instruction": …, "rubric": …, "context": …}`, the last two optional, what else is there not looked at;
      otherwise the one text value of a mapping, a text, or all of it as JSON.
    - outputs: `{"A": …, "B": …}` is a pair, `{"transcript": […]}` a transcript, everything else a response: a text, or
      JSON of what is none.
    - What is missing of the two (None, or pandas' NaN) is taken from the root span of the trace.

    Args:
        inputs: Of the row.
        outputs: Of the row.
        trace: Of the row, where it has one.
        criterion: The judge's; it may stand at the end of the row's rubric already.
        answers: What responses and transcripts may be answered; None where only pairs are judged.
        ordinal: Whether `answers` are a scale.
        rubric: Where the row has none.
        levels: Whether it was measured on single responses of known level, where grades of any form are read.

    Raises:
        RecipeError: when nothing in it can be judged.
    """
    inputs, outputs = clean_data([*_with_trace(inputs, outputs, trace)])[0]
    if _is_missing(inputs) or _is_missing(outputs):
        missing = "inputs" if _is_missing(inputs) else "outputs"
        raise RecipeError(f"The row has no {missing}, and no trace that holds them: nothing can be judged.")
    instruction, own, context = _question(inputs)
    kind, contents = _contents(outputs)
    if kind == "pair":
        own = _without(own, criterion)
    elif not answers:
        raise RecipeError(
            f"The row holds a {kind}, and this judge was exported for pairs only: outputs are {{'A': …, 'B': …}}. "
            "Or say what may be answered: jrh.to_mlflow(…, answers=[…])."
        )
    return Item(
        id="row",
        task="row",
        condition=NATURAL if kind == "pair" else LEVEL_LADDERS[0] if levels else BASELINE,
        kind=kind,
        instruction=instruction,
        rubric=rubric if own is None else own,
        answers=None if kind == "pair" else tuple(answers or ()),
        ordinal=None if kind == "pair" else ordinal,
        context=context,
        **contents,
    )


def row_calls(item: Item, criterion: Criterion, *, both: bool) -> list[Call]:
    """Return the calls that a row asks for; a pair is shown as it stands, and with `both` the other way round, too."""
    orders: tuple[Order, ...] = item.orders if both else item.orders[:1]
    return [Call(item=item, order=order, replicate=0, presentation=present(item, order, criterion)) for order in orders]


def _with_trace(inputs: Any, outputs: Any, trace: Trace | None) -> tuple[Any, Any]:
    if trace is None or not (_is_missing(inputs) or _is_missing(outputs)):
        return inputs, outputs
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    if root is None:
        return inputs, outputs
    return root.inputs if _is_missing(inputs) else inputs, root.outputs if _is_missing(outputs) else outputs


def _is_missing(value: Any) -> bool:
    """Whether there is nothing to judge: None, what pandas puts where nothing is, or a mapping of nothing else."""
    if isinstance(value, Mapping):
        return bool(value) and all(_is_missing(one) for one in value.values())
    return is_na(value)


def _question(inputs: Any) -> tuple[str, str | None, tuple[str, ...] | None]:
    """Return the instruction and, where the row has them, the rubric and the context."""
    if not isinstance(inputs, Mapping):
        return _text(inputs), None, None
    if isinstance(inputs.get("instruction"), str):
        rubric, context = inputs.get("rubric"), inputs.get("context")
        texts = context if isinstance(context, list | tuple) else [] if _is_missing(context) else [context]
        return inputs["instruction"], None if _is_missing(rubric) else _text(rubric), tuple(map(_text, texts)) or None
    values = list(inputs.values())
    return _text(values[0] if len(values) == 1 and isinstance(values[0], str) else inputs), None, None


def _contents(outputs: Any) -> tuple[str, dict[str, Any]]:
    """Return the kind of a row and its contents, as fields of an item.

    Raises:
        RecipeError: for half a pair, and for a transcript without messages.
    """
    if isinstance(outputs, Mapping):
        if set(outputs) == set(_SLOTS):
            if lacking := [slot for slot in _SLOTS if _is_missing(outputs[slot])]:
                raise RecipeError(f"The row is a pair without its {lacking[0]}: nothing can be compared.")
            return "pair", {"u": _text(outputs["A"]), "v": _text(outputs["B"])}
        messages = outputs.get("transcript")
        if len(outputs) == 1 and isinstance(messages, list | tuple):
            if not messages:
                raise RecipeError("The transcript of the row has no messages: nothing can be judged.")
            return "transcript", {"transcript": _transcript(messages)}
    return "response", {"response": _text(outputs)}


def _transcript(messages: Sequence[Any]) -> tuple[Message, ...]:
    """Read messages as `from_mlflow` and suites write them, or in OpenAI's form."""
    if not all(isinstance(one, Mapping) and _is_own(one) for one in messages):
        return from_openai(messages, where="The transcript of the row")
    return tuple(read_message(_whole(one)) for one in messages)


def _is_own(message: Mapping[str, Any]) -> bool:
    texts = isinstance(message.get("role"), str) and isinstance(message.get("content"), str)
    calls = message.get("tool_calls") or ()
    return texts and set(message) <= _MESSAGE_FIELDS and not any("function" in call for call in calls)


def _whole(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message whose parts are mappings again: MLflow's judges are shown them as text."""
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in message.get("parts") or ()]
    return {**message, "parts": parts} if parts else dict(message)


def _without(rubric: str | None, criterion: Criterion) -> str | None:
    """Take the tie criterion off the end of a rubric: as `from_mlflow` lays a pair out, it stands there already."""
    if rubric is None or not criterion.text or not rubric.endswith(criterion.text):
        return rubric
    return rubric.removesuffix(criterion.text).removesuffix("\n\n")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
