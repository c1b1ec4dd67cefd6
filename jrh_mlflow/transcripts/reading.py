"""One front for transcripts: Inspect logs, OpenAI-style messages, or transcripts that are there already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.transcripts.inspect_logs import is_inspect_log, read_inspect
from jrh_mlflow.transcripts.model import Transcript, first_user_text, unique_ids
from jrh_mlflow.transcripts.openai_messages import read_openai

_KINDS = (
    "Give an Inspect log (.eval, .json) or a folder of them, a file of OpenAI-style messages (.json, .jsonl), "
    "a list of messages, or transcripts."
)


def read_transcripts(
    source: str | Path | Iterable[Any], *, samples: Sequence[str | int] | None = None
) -> Iterator[Transcript]:
    """Read transcripts from a file or folder by its ending, or from Python objects.

    Args:
        source: A path, a list of messages (ours or OpenAI-style), a list of such lists, or transcripts.
        samples: Of Inspect logs, the sample ids to read; None reads all.

    Raises:
        RecipeError: for what cannot be read as transcripts. Traces of MLflow are read by
            `jrh_mlflow.tracking.trace_transcripts`.
    """
    if isinstance(source, str | Path):
        return _from_path(source, samples)
    if samples is not None:
        raise RecipeError("`samples` chooses from Inspect logs; from a list, choose before.")
    return _from_objects(source)


def _from_path(source: str | Path, samples: Sequence[str | int] | None) -> Iterator[Transcript]:
    if str(source).startswith("traces:"):
        raise RecipeError(f"{source} means traces of MLflow. Read them with `transcripts_from_traces`.")
    path = Path(source)
    if not path.exists():
        raise RecipeError(f"There is no file or folder {path}. {_KINDS}")
    ending = path.suffix.lower()
    if path.is_dir() or is_inspect_log(path):
        return read_inspect(path, samples=samples)
    if ending not in (".json", ".jsonl", ".ndjson"):
        raise RecipeError(f"{path.name}: unknown ending. {_KINDS}")
    if samples is not None:
        raise RecipeError(f"`samples` chooses from Inspect logs, and {path.name} is none.")
    return iter(unique_ids(read_openai(path)))


def _from_objects(source: Iterable[Any]) -> Iterator[Transcript]:
    if isinstance(source, Mapping | Transcript | Message):
        source = [source]
    items = iter(source)
    first = next(items, None)
    if first is None:
        raise RecipeError(f"There are no transcripts. {_KINDS}")
    rest = chain([first], items)
    if isinstance(first, Transcript):
        return iter(unique_ids(_checked(rest)))
    if isinstance(first, Message):
        messages = tuple(rest)
        return iter([Transcript(id="transcript", messages=messages, input=first_user_text(messages))])
    if isinstance(first, Mapping | list | tuple):
        return iter(unique_ids(read_openai(list(rest))))
    raise RecipeError(f"A transcript cannot be a {type(first).__name__}. {_KINDS}")


def _checked(items: Iterable[Any]) -> Iterator[Transcript]:
    for item in items:
        if not isinstance(item, Transcript):
            raise RecipeError(f"Among transcripts there is a {type(item).__name__}. {_KINDS}")
        yield item
