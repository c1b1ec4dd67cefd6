"""Small Inspect logs, made with inspect_ai's own objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.log._log import EvalScorer
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall, ToolCallError

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def conversation() -> list[Any]:
    """An agent that reasons, sees an image, calls a tool twice and fails once."""
    return [
        ChatMessageSystem(content="You book tables."),
        ChatMessageUser(content=[ContentText(text="A table for two."), ContentImage(image=PIXEL)], source="input"),
        ChatMessageAssistant(
            content=[ContentReasoning(reasoning="I should look.", signature="sig"), ContentText(text="One moment.")],
            tool_calls=[
                ToolCall(id="c1", function="search", arguments={"people": 2, "note": "x" * 300}),
                ToolCall(id="c2", function="book", arguments={"at": "19:00"}),
            ],
            model="m",
            source="generate",
        ),
        ChatMessageTool(content="Bistro, free at 19:00", tool_call_id="c1", function="search"),
        ChatMessageTool(content="", tool_call_id="c2", function="book", error=ToolCallError("timeout", "no answer")),
        ChatMessageAssistant(content="The booking failed.", model="m", source="generate"),
    ]


def results_only() -> list[Any]:
    """What is left of an agent when its own messages were not logged: results without a call, one of each error."""
    kinds = get_args(get_type_hints(ToolCallError)["type"])
    return [
        ChatMessageTool(content="…", tool_call_id=f"bash_{n}", function="bash", error=ToolCallError(kind, f"no {n}"))
        for n, kind in enumerate(kinds, 1)
    ]


def sample(id: int | str = 1, *, epoch: int = 1, messages: Sequence[Any] | None = None, **fields: Any) -> EvalSample:
    talk = conversation() if messages is None else list(messages)
    return EvalSample(**{"input": "A table for two.", "target": "Bistro", **fields}, id=id, epoch=epoch, messages=talk)


def scored(**values: Any) -> dict[str, Score]:
    return {name: Score(value=value) for name, value in values.items()}


def write_log(
    path: Path,
    samples: Sequence[EvalSample] | None,
    *,
    listed: Sequence[int | str] | None = None,
    epochs: int | None = None,
    status: Any = "success",
    eval_id: str = "evalid",
    model: str = "mockllm/model",
    of: int | None = None,
    **fields: Any,
) -> Path:
    ids = list(dict.fromkeys(one.id for one in samples or ())) if listed is None else list(listed)
    spec = EvalSpec(
        created="2026-01-01T00:00:00+00:00",
        eval_id=eval_id,
        run_id="run",
        task="booking",
        task_id="task",
        model=model,
        # A dataset may be larger than what was run of it.
        dataset=EvalDataset(name="tables", samples=of or len(ids), sample_ids=ids),
        config=EvalConfig(epochs=epochs),
        scorers=[EvalScorer(name="match")],
    )
    write_eval_log(
        EvalLog(eval=spec, status=status, samples=None if samples is None else list(samples), **fields), str(path)
    )
    return path
