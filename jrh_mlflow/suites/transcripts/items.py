"""Transcripts from any source made into items: one baseline each, with the label its log gives it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.schema.items import BASELINE, Item, Labels
from jrh_mlflow.schema.label_words import label_text
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.dataset import ABSENT, at_path
from jrh_mlflow.suites.labels import (
    NO_LABEL,
    NO_MAJORITY,
    PEOPLE,
    people_label,
    read_labels,
    say_left_out,
    spell_people,
    translated,
)
from jrh_mlflow.suites.transcripts.inspect_logs import is_inspect_log, read_inspect
from jrh_mlflow.suites.transcripts.preprocessing import Preprocessor, Step, StepRecord, apply_steps, check_steps
from jrh_mlflow.suites.transcripts.transcript import (
    JUDGE_SCORES,
    TRACE,
    Transcript,
    first_user_text,
    read_openai,
    unique_ids,
)

NO_TASK = "The task is what the transcript's messages ask for."
"""Shown where a log says nothing about the task outside the messages."""
_KINDS = (
    "Give an Inspect log (.eval, .json) or a folder of them, a file of OpenAI-style messages (.json, .jsonl), "
    "a list of messages, or transcripts."
)


def read_transcripts(
    source: str | Path | Iterable[Any],
    *,
    samples: Sequence[str | int] | None = None,
    epochs: Sequence[int] | None = None,
) -> Iterator[Transcript]:
    """Read transcripts from a file or folder by its ending, or from Python objects.

    Args:
        source: A path, a list of messages (ours or OpenAI-style), a list of such lists, or transcripts.
        samples: Of Inspect logs, the sample ids to read; None reads all.
        epochs: Of Inspect logs, the epochs of each sample to read; None reads all.

    Raises:
        RecipeError: for what cannot be read as transcripts. Traces of MLflow are read by
            `jrh_mlflow.tracking.traces.traces_in`.
    """
    if isinstance(source, str | Path):
        return _from_path(source, samples, epochs)
    for name, given in (("samples", samples), ("epochs", epochs)):
        if given is not None:
            raise RecipeError(f"`{name}` chooses from Inspect logs; from a list, choose before.")
    return iter(unique_ids(_from_objects(source)))


def _from_path(
    source: str | Path, samples: Sequence[str | int] | None, epochs: Sequence[int] | None
) -> Iterator[Transcript]:
    if str(source).startswith("traces:"):
        raise RecipeError(f"{source} means traces of MLflow. Read them with `transcripts_from_traces`.")
    path = Path(source)
    if not path.exists():
        raise RecipeError(f"There is no file or folder {path}. {_KINDS}")
    if path.is_dir() or is_inspect_log(path):
        return read_inspect(path, samples=samples, epochs=epochs)
    if path.suffix.lower() not in (".json", ".jsonl", ".ndjson"):
        raise RecipeError(f"{path.name}: unknown ending. {_KINDS}")
    for name, given in (("samples", samples), ("epochs", epochs)):
        if given is not None:
            raise RecipeError(f"`{name}` chooses from Inspect logs, and {path.name} is none.")
    return iter(unique_ids(read_openai(path)))


def _from_objects(source: Iterable[Any]) -> Iterable[Transcript]:
    if isinstance(source, Mapping | Transcript | Message):
        source = [source]
    objects = iter(source)
    first = next(objects, None)
    if first is None:
        raise RecipeError(f"There are no transcripts. {_KINDS}")
    # The source may be a generator: what was looked at is put back.
    objects = chain([first], objects)
    if isinstance(first, Transcript):
        return _checked(objects)
    if isinstance(first, Message):
        messages = tuple(objects)
        return [Transcript(id="transcript", messages=messages, input=first_user_text(messages))]
    if isinstance(first, Mapping | list | tuple):
        return read_openai(list(objects))
    raise RecipeError(f"A transcript cannot be a {type(first).__name__}. {_KINDS}")


def _checked(items: Iterable[Any]) -> Iterator[Transcript]:
    for item in items:
        if not isinstance(item, Transcript):
            raise RecipeError(f"Among transcripts there is a {type(item).__name__}. {_KINDS}")
        yield item


def transcript_items(
    transcripts: Iterable[Transcript],
    *,
    rubric: str,
    labels: Labels | Sequence[str],
    label: str | Mapping[str, object] | None = None,
    values: Mapping[str, str] | None = None,
    group: str | None = None,
    preprocess: Sequence[Preprocessor] | Mapping[str, Step] = (),
    unlabelled: bool = False,
) -> list[Item]:
    """Make the baseline items of a suite.

    Args:
        transcripts: What `read_transcripts` gives.
        rubric: What to judge by.
        labels: What may be answered, the label to be detected last.
        label: Where the right answer stands: a field (`scores.<scorer>`, `metadata.<key>`, `target`, or a bare name
            among scores and metadata), or a mapping from transcript id to label. None: no answer is expected.
        values: What the cells of that field mean, as in `{"C": "met", "I": "violated"}`; others stay as they are.
        group: A field to report by, named in the same way.
        preprocess: Steps in order (`preprocessing`), as users give them or as `check_steps` returned them. Label and
            group are read from what they return.
        unlabelled: Transcripts may lack the label; no answer is expected of theirs.

    Raises:
        RecipeError: naming the transcripts without the field, or with a label that is none of `labels`.
    """
    steps = preprocess if isinstance(preprocess, Mapping) else check_steps(preprocess)
    prepared = [apply_steps(transcript, steps) for transcript in unique_ids(transcripts)]
    if not prepared:
        raise RecipeError("There are no transcripts to make items from.")
    transcripts = [transcript for transcript, _ in prepared]
    labels = labels if isinstance(labels, Labels) else Labels(answers=tuple(labels))
    people = _people(transcripts, label, values, labels)
    expected = _expected(transcripts, label, values or {}, labels, people, unlabelled=unlabelled)
    groups = [None if group is None else label_text(cell) for cell in _cells(transcripts, group)]
    return [
        _item(transcript, records, rubric=rubric, labels=labels, expected=right, group=name, people=given)
        for (transcript, records), right, name, given in zip(prepared, expected, groups, people, strict=True)
    ]


def labelled_traces(
    transcripts: Sequence[Transcript],
    *,
    label: str,
    labels: Labels | None = None,
    values: Mapping[str, str] | None = None,
    unlabelled: bool = False,
) -> list[Transcript]:
    """Leave out traces that nobody labelled and, where the labels are known, those whose people are split evenly.

    How many is said in one line. Transcripts of other sources stay: each of them must have its label. So do traces that
    nobody labelled, with `unlabelled`: a model will.
    """
    refuse_verdicts(label, transcripts)
    spoken = [bool(people_in(transcript, label)) or field(transcript, label) is not None for transcript in transcripts]
    bare = [
        transcript.id
        for transcript, is_labelled in zip(transcripts, spoken, strict=True)
        if not is_labelled and _is_trace(transcript) and not unlabelled
    ]
    votes = _people(transcripts, label, values, labels) if labels else [{} for _ in transcripts]
    split = [
        transcript.id
        for transcript, given in zip(transcripts, votes, strict=True)
        if labels and given and people_label(list(given.values()), labels) is None
    ]
    if len(bare) == len(transcripts):
        return list(transcripts)  # what fields there are is said where the label is read
    say_left_out(len(transcripts), {NO_LABEL: bare, NO_MAJORITY: split}, what="traces", field=label)
    gone = {*bare, *split}
    return [transcript for transcript in transcripts if transcript.id not in gone]


def _is_trace(transcript: Transcript) -> bool:
    return transcript.source.get("format") == TRACE


def response_rows(transcripts: Sequence[Transcript]) -> dict[str, dict[str, Any]]:
    """Return transcripts of one question as rows of a table, by id: the question, the last answer, scores, metadata.

    Those with several turns, or without an answer in text, are left out with one line.
    """
    n_questions = {trace.id: sum(turn.role == "user" for turn in trace.messages) for trace in transcripts}
    several = [name for name, count in n_questions.items() if count != 1]
    rows = {trace.id: _response_row(trace) for trace in transcripts if n_questions[trace.id] == 1}
    silent = [name for name, row in rows.items() if not row["response"].strip()]
    reasons = {"without exactly one message of the user": several, "without an answer in text": silent}
    say_left_out(len(transcripts), reasons, what="traces", field="response")
    return {name: row for name, row in rows.items() if row["response"].strip()}


def _response_row(transcript: Transcript) -> dict[str, Any]:
    answers = (turn.content for turn in reversed(transcript.messages) if turn.role == "assistant" and turn.content)
    return {
        "id": transcript.id,
        "instruction": transcript.input,
        "response": next(answers, ""),
        "scores": dict(transcript.scores),
        "metadata": dict(transcript.metadata),
    }


def field(transcript: Transcript, name: str) -> object:
    """Return a field by its dotted name, or None.

    Raises:
        RecipeError: for a bare name that is both a score and a metadata key, and for one of several targets.
    """
    head, _, rest = name.partition(".")
    if name == "target":
        if len(transcript.target) > 1:
            listed = ", ".join(map(repr, transcript.target[:5]))
            raise RecipeError(
                f"Transcript {transcript.id!r} has several targets ({listed}): none of them is its label."
            )
        return transcript.target[0] if transcript.target else None
    if head in ("scores", "metadata") and rest:
        value = at_path(getattr(transcript, head), rest)
        return None if value is ABSENT else value
    score, meta = at_path(transcript.scores, name), at_path(transcript.metadata, name)
    if score is not ABSENT and meta is not ABSENT:
        raise RecipeError(f"{name!r} is a score and a metadata key. Say 'scores.{name}' or 'metadata.{name}'.")
    return next((value for value in (score, meta) if value is not ABSENT), None)


def _item(
    transcript: Transcript,
    records: Sequence[StepRecord],
    *,
    rubric: str,
    labels: Labels,
    expected: str | None,
    group: str | None,
    people: Mapping[str, str],
) -> Item:
    source = dict(transcript.source)
    if "file" in source:
        # The folder is of this machine, and would make the same suite differ elsewhere.
        source["file"] = Path(str(source["file"])).name
    known = {"source": source, "group": group, "preprocess": [dict(record) for record in records], PEOPLE: people}
    known |= {name: source[name] for name in ("sample_id", "epoch") if name in source}
    return Item(
        id=f"{transcript.id}/{BASELINE}",
        task=transcript.id,
        condition=BASELINE,
        kind="transcript",
        instruction=transcript.input or NO_TASK,
        rubric=labels.question(rubric),
        transcript=transcript.messages,
        answers=labels.answers,
        ordinal=labels.stated_order,
        expected=expected,
        meta={name: value for name, value in known.items() if value not in (None, [], {})},
    )


def _expected(
    transcripts: Sequence[Transcript],
    label: str | Mapping[str, object] | None,
    values: Mapping[str, str],
    labels: Labels,
    people: Sequence[Mapping[str, str]],
    *,
    unlabelled: bool,
) -> list[str | None]:
    if label is None:
        return [None for _ in transcripts]
    ids = [transcript.id for transcript in transcripts]
    if isinstance(label, str):
        refuse_verdicts(label, transcripts)
        column, cells = label, _labelled_cells(transcripts, label, people, labels)
    else:
        column, cells = "label", [label.get(name) for name in ids]
        if unknown := [name for name in label if name not in ids]:
            raise RecipeError(f"There is no transcript {unknown[0]!r} to label.{suggest(str(unknown[0]), ids)}")
    # People's labels are spelled already: what their cells mean was said before they were counted.
    cells = [
        cell if given else meant for cell, meant, given in zip(cells, translated(cells, values), people, strict=True)
    ]
    # A mapping, because a list of labels that hold an equals sign would be taken for LABEL=MEANING.
    allowed = dict.fromkeys(labels.answers)
    texts = read_labels(cells, column=column, ids=ids, labels=allowed, unlabelled=unlabelled)[0]
    return [text or None for text in texts]


def _people(
    transcripts: Sequence[Transcript],
    label: str | Mapping[str, object] | None,
    values: Mapping[str, str] | None,
    labels: Labels,
) -> list[dict[str, str]]:
    """Return what each person said in the field of the label, in its one spelling."""
    if not isinstance(label, str):
        return [{} for _ in transcripts]
    rows = [people_in(transcript, label) for transcript in transcripts]
    return spell_people(rows, labels, column=label, ids=[transcript.id for transcript in transcripts], values=values)


def _labelled_cells(
    transcripts: Sequence[Transcript], label: str, people: Sequence[Mapping[str, str]], labels: Labels
) -> list[object]:
    """Return the cells of the label; where people spoke, what stands for what they said."""
    if not any(people):
        return _cells(transcripts, label)
    return [
        people_label(list(given.values()), labels) if given else field(transcript, label)
        for transcript, given in zip(transcripts, people, strict=True)
    ]


def people_in(transcript: Transcript, name: str) -> Mapping[str, Any]:
    """Return what each person said in a field, named as `field` takes it."""
    votes = (
        transcript.people[full] for full in (name, f"scores.{name}", f"metadata.{name}") if full in transcript.people
    )
    return next(votes, {})


def full_name(name: str, transcripts: Iterable[Transcript]) -> str:
    """Return a field's dotted name: a bare one is a score or a metadata key, as `field` finds it."""
    if name.partition(".")[0] in ("scores", "metadata"):
        return name
    is_score = any(
        at_path(transcript.scores, name) is not ABSENT or f"scores.{name}" in transcript.people
        for transcript in transcripts
    )
    return f"{'scores' if is_score else 'metadata'}.{name}"


def refuse_verdicts(label: str, transcripts: Sequence[Transcript]) -> None:
    """Refuse to take what judges said about traces for labels.

    Raises:
        RecipeError: when the field holds just that.
    """
    if label.removeprefix("metadata.").partition(".")[0] == JUDGE_SCORES and any(map(_is_trace, transcripts)):
        raise RecipeError(
            f"{label!r} holds what judges said, and that is no label: name HUMAN feedback or an expectation "
            "(scores.NAME), or let a model label the rows (--labeller), which is reported apart."
        )


def _cells(transcripts: Sequence[Transcript], name: str | None) -> list[object]:
    if name is None:
        return [None for _ in transcripts]
    cells = [field(transcript, name) for transcript in transcripts]
    if all(cell is None for cell in cells):
        maps = [(kind, getattr(transcript, kind)) for transcript in transcripts for kind in ("scores", "metadata")]
        targets = {"target" for transcript in transcripts if transcript.target}
        known = sorted({f"{kind}.{key}" for kind, keys in maps for key in keys} | targets)
        listed = f"Fields there are: {', '.join(known)}." if known else "They have no scores and no metadata."
        raise RecipeError(f"No transcript has the field {name!r}.{suggest(name, known)} {listed}")
    return cells
