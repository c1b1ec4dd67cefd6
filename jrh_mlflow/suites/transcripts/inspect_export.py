"""Edited transcripts out, as an Inspect log: what inspect_ai reads, lists and shows in its viewer.

A sample is a copy of the one it was made from, with new ids and a `jrh` entry in its metadata that says what was
edited. Everything that described the old messages is left out: scores, events, usage, times, errors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.schema.presentation import Message, saved_message
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.suites.transcripts.inspect_logs import ENDINGS, OWN, read_samples, reading, require_inspect, to_chat
from jrh_mlflow.suites.transcripts.items import read_transcripts
from jrh_mlflow.suites.transcripts.transcript import Transcript

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog, EvalSample, EvalSpec
    from inspect_ai.model import ChatMessage

TASK = "jrh_edited"
"""Name of the task where the transcripts come from several, or from no Inspect log; a tag of every log."""
_KEPT = ("choices", "target", "description", "sandbox", "files", "setup")
"""What the copy of a sample says that editing its messages does not make untrue; not every version has all."""
_ITEM_META = ("generator", "validator", "verdicts", "steps", "summaries", "preprocess", "review")
"""What of an item's meta goes into the sample's metadata."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """A transcript with edited messages, and how they came about."""

    parent: Transcript
    messages: tuple[Message, ...]
    """Those kept carry the `id` of the message they were made from, where it had one."""
    test: str
    """`agent_perturbation`, `agent_positives`, …"""
    edited: tuple[int, ...] | None = None
    """Places in `messages` that differ from the parent; None compares them."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """More provenance for the sample: objective, verdict of the verifier, …"""

    @property
    def places(self) -> tuple[int, ...]:
        """Places that were edited or added."""
        if self.edited is not None:
            return self.edited
        origins = _origins(self)
        parents = self.parent.messages
        return tuple(i for i, n in enumerate(origins) if n is None or parents[n] != self.messages[i])


def write_inspect(edits: Iterable[Edit], path: str | Path) -> Path:
    """Write edits as one Inspect log, in the format its ending says (`.eval` or `.json`).

    The logs of the parents must still lie where they were read; parents of other formats get samples of their own.

    Raises:
        RecipeError: when there are none, or a parent's log is gone or was changed.
    """
    require_inspect()
    from inspect_ai.log import write_eval_log

    edits, path = list(edits), Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise RecipeError(f"{path.name}: an Inspect log's name must end in {' or '.join(ENDINGS)}.")
    if not edits:
        raise RecipeError("There are no edited transcripts to write.")
    # The originals must stay: another export reads them again.
    if path.resolve() in {Path(str(edit.parent.source.get("file"))).resolve() for edit in edits}:
        raise RecipeError(f"{path.name} is the log that was edited. Write to another file.")
    names = _sample_ids(edits)
    samples = [_sample(edit, name) for edit, name in zip(edits, names, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(_log(edits, samples), str(path))
    return path


def export_inspect(suite: Suite, logs: Sequence[str | Path], path: str | Path) -> list[Edit]:
    """Write the edited transcripts of a suite as one log, as a judge sees them, and return them.

    Args:
        suite: With items of kind `transcript`.
        logs: Where the originals lie.
        path: Of the new log, ending in `.eval` or `.json`.

    Raises:
        RecipeError: when the suite holds none, or an original is not in the logs.
    """
    items = [item for item in suite.items if item.kind == "transcript" and item.condition != BASELINE]
    if not items:
        raise RecipeError(f"Suite {suite.name!r} holds no edited transcripts.")
    parents = {parent.id: parent for log in logs for parent in read_transcripts(log)}
    missing = sorted({item.task for item in items if item.task not in parents})
    if missing:
        names = ", ".join(Path(log).name for log in logs)
        raise RecipeError(
            f"{len(missing)} originals are not in {names}, the first {missing[0]!r}. Name their log, too."
        )
    edits = [_edit(item, parents[item.task]) for item in items]
    write_inspect(edits, path)
    return edits


def _edit(item: Item, parent: Transcript) -> Edit:
    # A reviewer may have edited other messages than the pipeline: then they are compared.
    reviewed = (item.meta.get("review") or {}).get("state") == "edited"
    edited = None if reviewed else item.meta.get("edited")
    known = {key: item.meta[key] for key in _ITEM_META if item.meta.get(key) not in (None, [], {})}
    return Edit(
        parent=parent,
        messages=item.transcript or (),
        test=item.condition,
        edited=None if edited is None else tuple(edited),
        meta={"item": item.id, "rubric": item.rubric, "expected": item.expected, **known},
    )


def _sample_ids(edits: Sequence[Edit]) -> list[str]:
    """Name each sample by its parent's and the test: `7__agent_perturbation`."""
    names: list[str] = []
    for edit in edits:
        source = edit.parent.source
        epoch = source.get("epoch", 1)
        base = f"{source.get('sample_id', edit.parent.id)}{'' if epoch == 1 else f'__epoch_{epoch}'}__{edit.test}"
        # Several items of one test may be made of one sample, as for several levels.
        name, n = base, 2
        while name in names:
            name, n = f"{base}__{n}", n + 1
        names.append(name)
    return names


def _sample(edit: Edit, name: str) -> EvalSample:
    from inspect_ai.log import EvalSample
    from inspect_ai.model import ModelOutput

    parent = _parent_sample(edit.parent)
    before = [] if parent is None else list(parent.messages)
    # Messages are matched by their places, and another log would give them the wrong originals.
    if parent is not None and len(before) != len(edit.parent.messages):
        raise RecipeError(f"The log of {edit.parent.id!r} was changed after it was read. Read it again.")
    messages: list[ChatMessage] = [
        to_chat(message, origin=before[n] if n is not None and before else None, new_id=_digest(name, str(i)))
        for i, (message, n) in enumerate(zip(edit.messages, _origins(edit), strict=True))
    ]
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    kept = {} if parent is None else {key: getattr(parent, key) for key in _KEPT if hasattr(parent, key)}
    return EvalSample(
        **{"target": list(edit.parent.target) if len(edit.parent.target) != 1 else edit.parent.target[0], **kept},
        id=name,
        epoch=1,
        input=_input(edit, parent),
        messages=messages,
        output=ModelOutput() if last is None else ModelOutput.from_message(last.model_copy(deep=True)),
        metadata={**edit.parent.metadata, OWN: _provenance(edit)},
        uuid=_digest(name, "sample"),
    )


def _parent_sample(parent: Transcript) -> EvalSample | None:
    source = parent.source
    if source.get("format") != "inspect":
        return None
    file = Path(str(source["file"]))
    if not file.is_file():
        raise RecipeError(f"The log of {parent.id!r} is gone: there is no file {file}.")
    return read_samples(file, [(source["sample_id"], source["epoch"])])[0]


def _origins(edit: Edit) -> list[int | None]:
    """Find for each message the one of the parent it was made from: by id, by equality, or by its place."""
    parents = edit.parent.messages
    by_id: dict[str | None, int] = {message.id: n for n, message in enumerate(parents) if message.id is not None}
    taken: set[int] = set()
    origins: list[int | None] = []
    for i, message in enumerate(edit.messages):
        same = [n for n, parent in enumerate(parents) if n not in taken and replace(parent, id=message.id) == message]
        by_place = i < len(parents) == len(edit.messages) and message.role == parents[i].role and i not in taken
        n = by_id[message.id] if message.id in by_id else same[0] if same else i if by_place else None
        origins.append(n)
        taken |= set() if n is None else {n}
    return origins


def _input(edit: Edit, parent: EvalSample | None) -> str | list[ChatMessage]:
    """Return the sample's input as its messages now have it."""
    changed = {
        edit.parent.messages[n].content: edit.messages[i].content
        for i, n in enumerate(_origins(edit))
        if n is not None and edit.parent.messages[n].role == "user"
    }
    given = edit.parent.input if parent is None else parent.input
    if isinstance(given, str):
        return changed.get(given, given)
    copies: list[ChatMessage] = [message.model_copy(deep=True) for message in given]
    for n, message in enumerate(copies):
        message.id = _digest(edit.parent.id, edit.test, "input", str(n))
        if message.role == "user" and changed.get(message.text, message.text) != message.text:
            message.text = changed[message.text]
    return copies


def _provenance(edit: Edit) -> dict[str, Any]:
    source = edit.parent.source
    known = {
        "test": edit.test,
        "edited": list(edit.places),
        "parent": edit.parent.id,
        "parent_sample_id": source.get("sample_id"),
        "parent_epoch": source.get("epoch"),
        "parent_eval_id": source.get("eval_id"),
        "parent_model": source.get("model"),
        "parent_file": Path(str(source["file"])).name if "file" in source else None,
        "before": edit.parent.metadata.get(OWN),
    }
    return {**{key: value for key, value in known.items() if value is not None}, **edit.meta}


def _log(edits: Sequence[Edit], samples: list[EvalSample]) -> EvalLog:
    from inspect_ai.log import EvalDataset, EvalLog

    spec = _spec(edits)
    content = json.dumps([[saved_message(message) for message in edit.messages] for edit in edits], default=str)
    identity = _digest(*(str(sample.id) for sample in samples), content)
    # Derived from the content: the same edits have the same ids whenever they are written.
    spec.eval_id, spec.run_id, spec.task_id = identity, _digest(identity, "run"), _digest(identity, "task")
    names = [str(sample.id) for sample in samples]
    spec.dataset = EvalDataset(name=spec.dataset.name, samples=len(names), sample_ids=names, shuffled=False)
    files = sorted({Path(str(edit.parent.source["file"])).name for edit in edits if "file" in edit.parent.source})
    spec.metadata = {**(spec.metadata or {}), OWN: {"kind": "edited_transcripts", "parents": files}}
    return EvalLog(status="success", eval=spec, samples=samples)


def _spec(edits: Sequence[Edit]) -> EvalSpec:
    """Describe the evaluation like the parents', without what was measured on them.

    Of several evaluations only what they share is said; each sample names its own.
    """
    from inspect_ai.log import EvalConfig, EvalDataset, EvalSpec, read_eval_log

    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    sources = [edit.parent.source for edit in edits]
    if len({(source.get("eval_id"), source.get("file")) for source in sources}) > 1 or "eval_id" not in sources[0]:
        task, model = _shared(sources, "task") or TASK, _shared(sources, "model") or "none/none"
        return EvalSpec(
            created=created, task=task, dataset=EvalDataset(), model=model, config=EvalConfig(epochs=1), tags=[TASK]
        )
    file = Path(str(sources[0]["file"]))
    with reading(file):
        spec = read_eval_log(str(file), header_only=True).eval.model_copy(deep=True)
    return spec.model_copy(
        update={
            "created": created,
            "tags": sorted({*(spec.tags or ()), TASK}),
            "config": EvalConfig(epochs=1),
            "scorers": None,
            "metrics": None,
            "eval_set_id": None,
        }
    )


def _shared(sources: Sequence[Mapping[str, Any]], name: str) -> str | None:
    values = {source.get(name) for source in sources}
    return str(values.pop()) if len(values) == 1 and None not in values else None


def _digest(*words: str) -> str:
    """Return an id as long as Inspect's own."""
    return hashlib.sha256("\n".join(words).encode("utf-8", "replace")).hexdigest()[:22]
