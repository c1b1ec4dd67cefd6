"""Inspect logs in, by inspect_ai's own reader, and its chat messages from and to ours.

Not read are custom views of tool calls and the messages' own metadata. What our messages hold and Inspect's have no
place for (a developer's role, an argument text that is no JSON, a part of another API) travels in metadata or data
blocks named `jrh`, so that reading back gives equal messages.
"""

from __future__ import annotations

import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from jrh_mlflow.errors import JrhWarning, RecipeError, suggest
from jrh_mlflow.outputs import check_packed
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.transcripts.transcript import Transcript, first_user_text, split_refusal, unique_ids

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample, EvalSampleSummary
    from inspect_ai.model import ChatMessage, Content
    from inspect_ai.tool import ToolCall, ToolCallError

ENDINGS = (".eval", ".json")
NOT_READ = frozenset(("events", "events_data", "store", "timelines"))
"""Parts of a sample that no transcript needs: they are most of a log, and are skipped while reading `.eval` files."""
OWN = "jrh"

_AT_ONCE = 8
"""Samples held at a time: each reading of a `.eval` file begins with its whole list of contents."""
_JSON_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d')
_REFERENCE = re.compile("attachment://[0-9a-f]{32}")
_BROKEN = (OSError, ValueError, RuntimeError, LookupError, EOFError, zipfile.BadZipFile, zlib.error)
_ROLES = {"developer": "system", "function": "tool"}
_CONTENT = ("reasoning", "image", "audio", "video", "document", "data", "tool_use")


def require_inspect() -> None:
    """Refuse, with what to type, when the optional library is missing."""
    try:
        import inspect_ai.log  # noqa: F401
    except ImportError as error:
        raise RecipeError(f"Inspect logs need inspect_ai: pip install 'jrh-mlflow[inspect]' ({error}).") from error


def from_chat(chat: ChatMessage) -> Message:
    """Read one of Inspect's messages."""
    own = (chat.metadata or {}).get(OWN) or {}
    content, reasoning, parts = _read_content(chat.content)
    answered = getattr(chat, "tool_call_id", None)
    if isinstance(answered, list):
        parts.append({"type": "field", "name": "tool_call_id", "value": answered})
    error = getattr(chat, "error", None)
    return Message(
        role=own.get("role", chat.role),
        content=content,
        tool_calls=tuple(_read_call(call) for call in getattr(chat, "tool_calls", None) or ()),
        tool_call_id=answered if isinstance(answered, str) else None,
        id=chat.id,
        name=own.get("name", getattr(chat, "function", None)),
        reasoning=reasoning,
        error=None if error is None else f"{error.type}: {error.message}",
        parts=tuple(parts),
    )


def to_chat(message: Message, *, origin: ChatMessage | None, new_id: str) -> ChatMessage:
    """Write a message under a new id; `origin`, the message it was made from, is copied where nothing was edited.

    Raises:
        RecipeError: for a role Inspect does not have.
    """
    from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser

    # A copy keeps what our messages have no place for.
    if origin is not None and replace(from_chat(origin), id=message.id) == message:
        return origin.model_copy(update={"id": new_id}, deep=True)
    kinds = {
        "system": ChatMessageSystem,
        "user": ChatMessageUser,
        "assistant": ChatMessageAssistant,
        "tool": ChatMessageTool,
    }
    role = _ROLES.get(message.role, message.role)
    if role not in kinds:
        raise RecipeError(f"Inspect logs have no role {message.role!r}. Known: {', '.join((*kinds, *_ROLES))}.")
    fields: dict[str, Any] = {"id": new_id, "content": _content(message), "metadata": _metadata(message, origin, role)}
    if origin is not None and origin.role == role:
        fields |= {name: getattr(origin, name) for name in ("source", "model") if hasattr(origin, name)}
    if role == "assistant":
        fields["tool_calls"] = [_call(call, n) for n, call in enumerate(message.tool_calls)] or None
    if role == "tool":
        fields |= {"tool_call_id": message.tool_call_id, "function": message.name, "error": _error(message.error)}
    if role == "user" and (answered := _field(message, "tool_call_id")):
        fields["tool_call_id"] = answered
    return kinds[role](**fields)


def _read_content(content: str | list[Content]) -> tuple[str, str | None, list[Mapping[str, Any]]]:
    if isinstance(content, str):
        return content, None, []
    texts: list[str] = []
    thoughts: list[str] = []
    parts: list[Mapping[str, Any]] = []
    for part in content:
        plain = part.model_dump(exclude_none=True, mode="json")
        if part.type == "text":
            texts.append(part.text)
            parts += [{"type": "refusal", "refusal": part.text}] if part.refusal else []
            parts += [{"type": "citations", "citations": plain["citations"]}] if plain.get("citations") else []
        elif part.type == "reasoning":
            thoughts += [text] if (text := _thought(plain)) else []
            parts += [plain] if part.redacted else []
        elif part.type == "data" and OWN in part.data:
            parts.append(plain["data"][OWN])
        else:
            parts.append(plain)
    return "\n".join(texts), "\n".join(thoughts) or None, parts


def _thought(part: Mapping[str, Any]) -> str:
    """Return what can be read of reasoning: of a redacted one the summary."""
    plain = "" if part.get("redacted") else str(part.get("reasoning") or "")
    return plain or str(part.get("summary") or "")


def _read_call(call: ToolCall) -> dict[str, Any]:
    read: dict[str, Any] = {"id": call.id, "name": call.function, "arguments": call.arguments}
    if set(call.arguments) == {OWN}:
        read["arguments"] = call.arguments[OWN]
    if call.parse_error:
        read["parse_error"] = call.parse_error
    return read if call.type == "function" else {**read, "type": call.type}


def _content(message: Message) -> str | list[Content]:
    from inspect_ai.model import Content, ContentReasoning, ContentText
    from pydantic import TypeAdapter

    text, refusal = split_refusal(message)
    blocks: list[Content] = []
    redacted = [part for part in message.parts if part.get("type") == "reasoning"]
    # The readable text of redacted reasoning is its summary, and comes back with it.
    if message.reasoning and message.reasoning != "\n".join(filter(None, map(_thought, redacted))):
        blocks.append(ContentReasoning(reasoning=message.reasoning))
    blocks += [ContentText(text=text)] if text else []
    blocks += [ContentText(text=refusal, refusal=True)] if refusal else []
    for part in message.parts:
        kind = part.get("type")
        if kind == "refusal" or (kind == "field" and part.get("name") == "tool_call_id"):
            continue
        inspects = kind in _CONTENT and (kind in part or kind == "tool_use")
        plain = dict(part) if inspects else {"type": "data", "data": {OWN: dict(part)}}
        blocks.append(TypeAdapter(Content).validate_python(plain))
    return blocks if len(blocks) > bool(text) else message.content


def _metadata(message: Message, origin: ChatMessage | None, role: str) -> dict[str, Any] | None:
    kept = dict((origin.metadata or {}) if origin is not None else {})
    kept.pop(OWN, None)
    own = {"role": message.role} if message.role != role else {}
    own |= {"name": message.name} if message.name is not None and role != "tool" else {}
    return {**kept, **({OWN: own} if own else {})} or None


def _call(call: Mapping[str, Any], number: int) -> ToolCall:
    from inspect_ai.tool import ToolCall

    arguments = call.get("arguments")
    return ToolCall(
        id=str(call.get("id") or f"call_{number}"),
        function=str(call.get("name") or ""),
        arguments=dict(arguments) if isinstance(arguments, Mapping) else {OWN: arguments},
        parse_error=call.get("parse_error"),
        type=call.get("type", "function"),
    )


def _error(text: str | None) -> ToolCallError | None:
    from inspect_ai.tool import ToolCallError

    if text is None:
        return None
    # The kinds differ between versions of inspect_ai, so they are asked for.
    kinds = get_args(get_type_hints(ToolCallError)["type"])
    kind, colon, message = text.partition(": ")
    return ToolCallError(kind, message) if colon and kind in kinds else ToolCallError("unknown", text)


def _field(message: Message, name: str) -> Any:
    return next((p["value"] for p in message.parts if p.get("type") == "field" and p.get("name") == name), None)


def read_inspect(
    path: str | Path, *, samples: Sequence[str | int] | None = None, epochs: Sequence[int] | None = None
) -> Iterator[Transcript]:
    """Read the samples of a log, or of every log in a folder, a few at a time.

    A log that holds fewer samples than it lists gives a warning, and each transcript says so (`held`: "16 of 176").
    Of a folder, logs without samples are named in a warning; `.json` logs cannot be read in pieces and are held whole.

    Args:
        path: A `.eval` or `.json` log, or a folder with logs.
        samples: Sample ids to read; None reads all.
        epochs: Epochs of each sample to read; None reads all.

    Raises:
        RecipeError: when inspect_ai is missing, a file is no log, there are no samples, or a sample or an epoch that is
            asked for is in none of them.
    """
    require_inspect()
    files = log_files(path)
    return iter(unique_ids(_read(files, None if samples is None else [str(sample) for sample in samples], epochs)))


def log_files(path: str | Path) -> list[Path]:
    """List the logs a path means, in order of their names."""
    path = Path(path)
    if path.is_dir():
        logs = sorted(file for file in path.rglob("*") if file.is_file() and is_inspect_log(file))
        if not logs:
            raise RecipeError(f"There is no Inspect log ({' or '.join(ENDINGS)}) in {path}.")
        return logs
    if not path.is_file():
        raise RecipeError(f"There is no file {path}.")
    if path.suffix.lower() not in ENDINGS:
        raise RecipeError(f"{path.name} is no Inspect log: its name must end in {' or '.join(ENDINGS)}.")
    return [path]


def is_inspect_log(file: Path) -> bool:
    """Tell a log by its ending; `.json` files, which may be anything, by how they begin."""
    ending = file.suffix.lower()
    if ending != ".json":
        return ending == ".eval"
    with file.open("rb") as opened:
        return _JSON_LOG.match(opened.read(200).removeprefix(b"\xef\xbb\xbf")) is not None


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Name the file that inspect_ai cannot read."""
    try:
        yield
    except _BROKEN as error:
        why = " ".join(str(error).split())[:200]
        raise RecipeError(f"{file.name} cannot be read as an Inspect log: {why or type(error).__name__}.") from error


def _read(files: Sequence[Path], wanted: Sequence[str] | None, epochs: Sequence[int] | None) -> Iterator[Transcript]:
    empty: list[str] = []
    known: set[str] = set()
    known_epochs: set[int] = set()
    read: set[str] = set()
    for file in files:
        log, summaries = _open(file)
        if not summaries:
            why = f": {' '.join(log.error.message.split())[:200]}" if log.error else ""
            advice = "Run its evaluation again, or leave the log out."
            empty.append(f"{file.name} holds no samples (status {log.status}{why}). {advice}")
            continue
        known |= {str(summary.id) for summary in summaries}
        known_epochs |= {summary.epoch for summary in summaries}
        chosen = [summary for summary in _ordered(log, summaries) if wanted is None or str(summary.id) in wanted]
        read |= {str(summary.id) for summary in chosen}
        chosen = [summary for summary in chosen if epochs is None or summary.epoch in epochs]
        yield from _transcripts(file, log, chosen, held=_held(file, log, len(summaries)))
    if len(empty) == len(files):
        raise RecipeError(" ".join(empty[:5]))
    for why in empty:
        warnings.warn(why, JrhWarning, stacklevel=3)
    for missing in [sample for sample in wanted or () if sample not in read]:
        raise RecipeError(f"There is no sample {missing!r}.{suggest(missing, known)} The log holds {len(known)}.")
    for absent in [epoch for epoch in epochs or () if epoch not in known_epochs]:
        listed = ", ".join(map(str, sorted(known_epochs)))
        raise RecipeError(f"There is no epoch {absent}. Epochs there are: {listed}.")


def _open(file: Path) -> tuple[EvalLog, Sequence[EvalSampleSummary]]:
    """Read what stands around the samples; a JSON log comes with them."""
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    with reading(file):
        check_packed(file)
        if file.suffix.lower() == ".eval":
            return read_eval_log(str(file), header_only=True), read_eval_log_sample_summaries(str(file))
        log = read_eval_log(str(file), resolve_attachments=True)
        return log, [sample.summary() for sample in log.samples or ()]


def _ordered(log: EvalLog, summaries: Sequence[EvalSampleSummary]) -> list[EvalSampleSummary]:
    """Sort by the dataset's order: a log lists samples as they were finished."""
    place = {str(sample): n for n, sample in enumerate(log.eval.dataset.sample_ids or ())}
    return sorted(summaries, key=lambda entry: (place.get(str(entry.id), len(place)), str(entry.id), entry.epoch))


def _transcripts(
    file: Path, log: EvalLog, chosen: Sequence[EvalSampleSummary], *, held: str | None
) -> Iterator[Transcript]:
    whole = {(sample.id, sample.epoch): sample for sample in log.samples or ()}
    # A log may hold gigabytes: only a few samples are in memory at a time.
    for start in range(0, len(chosen), _AT_ONCE):
        keys = [(summary.id, summary.epoch) for summary in chosen[start : start + _AT_ONCE]]
        for sample in [whole[key] for key in keys] if whole else read_samples(file, keys):
            yield _transcript(file, log, sample, held)


def read_samples(file: Path, keys: Sequence[tuple[str | int, int]]) -> list[EvalSample]:
    """Read samples by id and epoch, their attachments resolved, without what no transcript needs."""
    from inspect_ai.log import read_eval_log_sample, read_eval_log_samples_by_id

    with reading(file):
        if file.suffix.lower() == ".json":
            return [read_eval_log_sample(str(file), *key, resolve_attachments=True) for key in keys]
        samples = read_eval_log_samples_by_id(str(file), keys, resolve_attachments=True, exclude_fields=set(NOT_READ))
        return list(samples)


def _transcript(file: Path, log: EvalLog, sample: EvalSample, held: str | None) -> Transcript:
    messages = tuple(from_chat(message) for message in sample.messages)
    # By task, evaluation and sample: the same wherever the file lies.
    name = f"{log.eval.task.rpartition('/')[2]}-{log.eval.eval_id[:6]}/{sample.id}"
    name = name if sample.epoch == 1 else f"{name}/epoch_{sample.epoch}"
    known = {
        "format": "inspect",
        "file": str(file),
        "sample_id": sample.id,
        "epoch": sample.epoch,
        "task": log.eval.task,
        "eval_id": log.eval.eval_id,
        "model": log.eval.model,
        "status": log.status,
        "held": held,
        "error": None if sample.error is None else sample.error.message,
        "limit": None if sample.limit is None else sample.limit.type,
        "unresolved_attachments": _unresolved(name, messages) or None,
    }
    return Transcript(
        id=name,
        messages=messages,
        input=_input(sample),
        target=(sample.target,) if isinstance(sample.target, str) else tuple(sample.target),
        scores={scorer: _plain_score(score.value) for scorer, score in (sample.scores or {}).items()},
        metadata=dict(sample.metadata),
        source={key: value for key, value in known.items() if value is not None},
    )


def _input(sample: EvalSample) -> str:
    if isinstance(sample.input, str):
        return sample.input
    given = [from_chat(message) for message in sample.input]
    texts = [message.content for message in given if message.role == "user" and message.content]
    return "\n\n".join(texts) or first_user_text(from_chat(message) for message in sample.messages)


def _plain_score(value: Any) -> Any:
    """Return a score as logged; Inspect writes NaN for what was not scored."""
    if isinstance(value, Mapping):
        return {str(key): _plain_score(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _unresolved(name: str, messages: Sequence[Message]) -> int:
    """Count references to attachments that the log does not hold."""
    missing = sum(len(_REFERENCE.findall(repr(message))) for message in messages)
    if missing:
        warnings.warn(
            f"Transcript {name!r} refers to {missing} attachments that its log does not hold.", JrhWarning, stacklevel=4
        )
    return missing


def _held(file: Path, log: EvalLog, n_held: int) -> str | None:
    """Say how many samples there are of how many, where some are missing."""
    listed = len(log.eval.dataset.sample_ids or ()) or log.eval.dataset.samples or 0
    # A log that was broken off has no results, so what its dataset lists counts, too.
    total = max(listed * (log.eval.config.epochs or 1), log.results.total_samples if log.results else 0)
    if n_held >= total:
        return None
    warnings.warn(f"{file.name} holds {n_held} of {total} samples (status {log.status}).", JrhWarning, stacklevel=4)
    return f"{n_held} of {total}"
