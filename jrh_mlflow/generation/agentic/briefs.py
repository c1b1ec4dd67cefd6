"""What planner, editor and summariser are told: the aim in plain words, everything from the log between markers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from jrh_mlflow.generation.agentic.editor import form
from jrh_mlflow.generation.agentic.planner import Step, editable
from jrh_mlflow.judges.messages import fence, message_block, message_texts
from jrh_mlflow.judges.rendering import fence_code
from jrh_mlflow.perturb._base import fill, prompt
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.transcripts.preprocess import asking

NOTHING_YET = "Nothing yet: this is the first step."
_AROUND = 2
"""Messages shown before and after the one that is edited; its tool calls and results come on top."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """What a whole job is about."""

    objective: str
    instruction: str
    rubric: str

    def planner(self, messages: Sequence[Message], *, max_steps: int, told: str, rejected: str) -> str:
        """Ask for a plan; `told` is what came of an earlier one."""
        code = self._code(messages)
        fields = {
            **self._fields(code),
            "transcript": _shown(messages, range(len(messages)), code),
            "max_steps": str(max_steps),
            "editable": ", ".join(map(str, editable(messages))),
            "rejected": "".join(f"- {line}\n" for line in (told, _again(rejected)) if line),
        }
        return fill(prompt("agent_planner"), fields)

    def editor(self, messages: Sequence[Message], step: Step, *, summary: str, rejected: str) -> str:
        """Ask for one message, edited."""
        code, message = self._code(messages), messages[step.message]
        fields = {
            **self._fields(code),
            **_about(message, step),
            "summary": summary or NOTHING_YET,
            "neighbours": _shown(messages, neighbours(messages, step.message), code) or "(none)",
            "message": message_block(message, code),
            "form": json.dumps(form(message), ensure_ascii=False, indent=1),
            "rejected": f"- {_again(rejected)}\n" if rejected else "",
        }
        return fill(prompt("agent_editor"), fields)

    def summariser(self, before: Message, after: Message, step: Step, *, summary: str, rejected: str) -> str:
        """Ask for the running summary after a step."""
        code = self._code((before, after))
        fields = {
            **_about(after, step),
            "code": code,
            "summary": summary or NOTHING_YET,
            "before": message_block(before, code),
            "after": message_block(after, code),
            "rejected": f"\n{_again(rejected)}\n" if rejected else "",
        }
        return fill(prompt("agent_summary"), fields)

    def _fields(self, code: str) -> dict[str, str]:
        return {
            "objective": self.objective,
            "code": code,
            "task": fence("task", code, self.instruction),
            "rubric": fence("rubric", code, self.rubric),
        }

    def _code(self, messages: Sequence[Message]) -> str:
        texts = [text for message in messages for text in message_texts(message)]
        return fence_code([self.instruction, self.rubric, *texts])


def neighbours(messages: Sequence[Message], place: int) -> list[int]:
    """List the messages that are shown beside one: those around it, and the other ends of its tool calls."""
    near = set(range(place - _AROUND, place + _AROUND + 1))
    for result, caller in asking(messages).items():
        near |= {caller} if result == place else {result} if caller == place else set()
    return [other for other in sorted(near) if 0 <= other < len(messages) and other != place]


def _shown(messages: Sequence[Message], places: Sequence[int], code: str) -> str:
    return "\n\n".join(f"Message {n} ({messages[n].role}):\n{message_block(messages[n], code)}" for n in places)


def _about(message: Message, step: Step) -> dict[str, str]:
    return {"number": str(step.message), "role": message.role, "step": f"{step.change}\n(Why: {step.why})"}


def _again(problem: str) -> str:
    return f"Your last answer was rejected: {problem}. Answer again, without this mistake." if problem else ""
