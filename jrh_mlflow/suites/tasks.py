"""Ladder tasks: a writing job with independent requirements, each sentence in two wordings.

Candidate answers of known quality are assembled from a task's sentences, matched in length by the choice of wordings.
The YAML of one task (`jrh suite tasks --example` prints a whole one):

    id: support_reply
    title: Reply to a customer whose parcel is late
    instruction: …
    opening: [wording, wording]
    requirements:
      - id: delivery_date
        text: Give the new delivery date and name the carrier.
        satisfied: [wording, wording]
        half: [wording, wording]
        neutral: [wording, wording]
        matched: [wording, wording]
    closing: [wording, wording]
    filler: [sentence, sentence, …]

A matched sentence holds the facts, numbers and words of the satisfied one of the same place, assigned wrongly, so that
the requirement is not met. A task may leave `matched` out of all its requirements; then it has no matched ladder.
Without `half` it has no half steps. `language: de` (es, zh) says that a task is not in English.

The package's own tasks are in English; twelve of them in other languages lie in a folder each, beside `about.yml`: what
a judge is told in that language, and who has checked it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import yaml

from jrh_mlflow.errors import SuiteError, check_known, suggest
from jrh_mlflow.perturb.languages import LANGUAGES, lost_facts

State = Literal["satisfied", "half", "neutral", "matched"]
STATES: tuple[State, ...] = ("satisfied", "half", "neutral", "matched")
OPTIONAL_STATES: tuple[State, ...] = ("half", "matched")
Unmet = Literal["neutral", "matched"]
"""How a requirement that is not met is written."""
Wordings = tuple[str, str]
States = Mapping[str, State]
"""Requirement id to state; a requirement that is not named is not met."""
T = TypeVar("T")

MAX_SENTENCE_RATIO = 1.35
"""Longest over shortest sentence of one requirement: beyond it length would tell the level."""

_FARTHEST = 40
"""Characters by which the common length of a task's candidates may leave their mean."""

_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml where it is built in: ten times as quick."""


class _File(Protocol):
    """A file on disk or inside the installed package."""

    @property
    def name(self) -> str: ...

    def read_text(self, encoding: str | None = None) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """One thing an answer should do, as sentences that do it, half do it, do not, or get it wrong."""

    id: str
    text: str
    satisfied: Wordings
    neutral: Wordings
    half: Wordings | None = None
    matched: Wordings | None = None
    """The facts and words of `satisfied`, wording by wording, assigned wrongly."""

    def wordings(self, state: State) -> Wordings:
        """Return the two wordings of a state."""
        pair: Wordings | None = getattr(self, state)
        if pair is None:
            raise ValueError(f"Requirement {self.id!r} has no {state} sentences.")
        return pair


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """A writing job from which candidate answers of known quality are assembled."""

    id: str
    title: str
    instruction: str
    opening: Wordings
    requirements: tuple[Requirement, ...]
    closing: Wordings
    filler: tuple[str, ...]
    language: str = "en"

    @property
    def has_matched(self) -> bool:
        """Whether a matched ladder can be made of it."""
        return all(requirement.matched is not None for requirement in self.requirements)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskLanguage:
    """What the package itself says in a language, and who has read its tasks there."""

    heading: str
    """Before the list of what an answer should do."""
    joined_by: str
    """Between two sentences."""
    questions: Mapping[str, str]
    """By design: what a judge of one response is asked."""
    checked_by: str | None = None
    """A native speaker who has read every task."""
    date: str | None = None

    @property
    def checked(self) -> str:
        """Whether a native speaker has read the tasks, as manifest and pages say it."""
        return f"checked by {self.checked_by}, {self.date}" if self.checked_by else "not checked by a native speaker"


@cache
def task_language(code: str) -> TaskLanguage:
    """Return what is said in a language; in English what the suites have always said."""
    if code == "en":
        return TaskLanguage(heading="The answer should:", joined_by=" ", questions={}, checked_by="its author")
    text = resources.files("jrh_mlflow.suites").joinpath(f"tasks/{code}/about.yml").read_text(encoding="utf-8")
    data = yaml.load(text, Loader=_LOADER)  # noqa: S506 - both are safe loaders
    return TaskLanguage(**{**data, "date": data["date"] and str(data["date"])})


def built_in_tasks(language: str = "en") -> list[Task]:
    """Load the package's tasks in a language, sorted by id: 28 in English, the same twelve in each of the others."""
    check_known("language", language, LANGUAGES)
    return list(_built_in(language))


def translated_tasks() -> list[Task]:
    """Load the English tasks that are there in the other languages, too."""
    ids = {task.id for task in built_in_tasks("de")}
    return [task for task in built_in_tasks() if task.id in ids]


@cache
def _built_in(code: str) -> tuple[Task, ...]:
    """Read the files once: they take longer than to build a small suite."""
    folder = resources.files("jrh_mlflow.suites").joinpath("tasks" if code == "en" else f"tasks/{code}")
    return tuple(_load(entry for entry in folder.iterdir() if entry.name.endswith(".yaml")))


def load_tasks(path: str | Path) -> list[Task]:
    """Load a user's tasks: one YAML file, or a folder of them.

    Raises:
        SuiteError: naming the file, the task and the rule that is broken.
    """
    path = Path(path)
    if not path.exists():
        raise SuiteError(f"There is no task file or folder {path}.")
    files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
    if not files:
        raise SuiteError(f"The folder {path} holds no .yaml file.")
    return _load(files)


def _load(files: Iterable[_File]) -> list[Task]:
    tasks = [_read(file) for file in files]
    # Folders list files in any order.
    tasks.sort(key=lambda task: task.id)
    twice = [name for name, count in Counter(task.id for task in tasks).items() if count > 1]
    if twice:
        raise SuiteError(f"Task ids must be unique, but {', '.join(twice)} stand(s) twice.")
    return tasks


def _read(file: _File) -> Task:
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), Loader=_LOADER)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SuiteError(f"{file.name} cannot be read as YAML: {' '.join(str(error).split())}.") from error
    return parse_task(data, where=file.name)


def parse_task(data: object, *, where: str) -> Task:
    """Build one task from parsed YAML and check every mechanical rule."""
    keys = ("id", "title", "instruction", "opening", "requirements", "closing", "filler")
    fields = _mapping(data, (*keys, "language"), where=where, optional=("language",))
    task_id = _text(fields, "id", where=where)
    where = f"{where}, task {task_id!r}"
    language = fields.get("language", "en")
    if language not in LANGUAGES:
        raise SuiteError(f"{where}: `language` must be one of {', '.join(LANGUAGES)}, but got {language!r}.")
    listed = fields["requirements"]
    if not isinstance(listed, list) or not listed:
        raise SuiteError(f"{where}: `requirements` must be a list with at least one entry.")
    requirements = tuple(_requirement(entry, where=where) for entry in listed)
    ids = [requirement.id for requirement in requirements]
    if len(set(ids)) < len(ids):
        raise SuiteError(f"{where}: requirement ids must be unique, but got {', '.join(ids)}.")
    # A matched ladder needs the matched sentences of every requirement.
    for state in OPTIONAL_STATES:
        without = [requirement.id for requirement in requirements if getattr(requirement, state) is None]
        if 0 < len(without) < len(requirements):
            raise SuiteError(f"{where}: all requirements need `{state}` or none, but {', '.join(without)} lack(s) it.")
    filler = fields["filler"]
    if not _is_sentences(filler):
        raise SuiteError(f"{where}: `filler` must be a list of at least one sentence.")
    return Task(
        id=task_id,
        title=_text(fields, "title", where=where),
        instruction=_text(fields, "instruction", where=where),
        opening=_wordings(fields, "opening", where=where),
        requirements=requirements,
        closing=_wordings(fields, "closing", where=where),
        filler=tuple(line.strip() for line in filler),
        language=language,
    )


def _requirement(data: object, *, where: str) -> Requirement:
    keys = ("id", "text", *STATES)
    fields = _mapping(data, keys, where=f"{where}, a requirement", optional=OPTIONAL_STATES)
    name = _text(fields, "id", where=where)
    where = f"{where}, requirement {name!r}"
    wordings = {state: _wordings(fields, state, where=where) for state in STATES if state in fields}
    sentences = [sentence for pair in wordings.values() for sentence in pair]
    if len(set(sentences)) < len(sentences):
        raise SuiteError(f"{where}: its {len(sentences)} sentences must differ; a repeated one would blur the states.")
    lengths = [len(sentence) for sentence in sentences]
    if max(lengths) > MAX_SENTENCE_RATIO * min(lengths):
        raise SuiteError(
            f"{where}: sentences must be of similar length (ratio at most {MAX_SENTENCE_RATIO}), "
            f"but they run from {min(lengths)} to {max(lengths)} characters. Lengthen the short ones."
        )
    return Requirement(id=name, text=_text(fields, "text", where=where), **wordings)


def _mapping(data: object, keys: Sequence[str], *, where: str, optional: Sequence[str] = ()) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise SuiteError(f"{where}: a mapping with the keys {', '.join(keys)} was expected, not {type(data).__name__}.")
    unknown = [str(key) for key in data if key not in keys]
    if unknown:
        raise SuiteError(f"{where}: unknown key {unknown[0]!r}.{suggest(unknown[0], keys)}")
    missing = [key for key in keys if key not in data and key not in optional]
    if missing:
        raise SuiteError(f"{where}: the key(s) {', '.join(missing)} are missing.")
    return data


def _is_sentences(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(line, str) and line.strip() for line in value)


def _text(fields: Mapping[str, Any], key: str, *, where: str) -> str:
    value = fields[key]
    if not isinstance(value, str) or not value.strip():
        raise SuiteError(f"{where}: `{key}` must be text, but got {value!r}.")
    return value.strip()


def _wordings(fields: Mapping[str, Any], key: str, *, where: str) -> Wordings:
    if not _is_sentences(fields[key]) or len(fields[key]) != 2:
        raise SuiteError(f"{where}: `{key}` must be a list of two wordings.")
    first, second = (text.strip() for text in fields[key])
    if first == second:
        raise SuiteError(f"{where}: the two wordings of `{key}` must differ.")
    return first, second


def check_matched(task: Task) -> None:
    """Check that every matched sentence has the numbers and names of the satisfied one in its place.

    Raises:
        SuiteError: naming the sentence and what it lacks or has beyond it.
    """
    for requirement in task.requirements:
        for satisfied, matched in zip(requirement.satisfied, requirement.wordings("matched"), strict=True):
            if lost := lost_facts(satisfied, matched, task.language):
                raise SuiteError(f"Task {task.id!r} ({task.language}): {', '.join(lost)} differ(s) in {matched!r}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One assembled answer."""

    text: str
    states: States
    wording: tuple[int, ...]
    """Which of the two wordings each sentence takes: opening, requirements in the task's order, closing."""

    def ids(self, state: str) -> list[str]:
        """Ids of the requirements in one state."""
        return sorted(name for name, own in self.states.items() if own == state)


def rank(values: Iterable[T], *key: object) -> list[T]:
    """Order `values` by a hash of them and `key`: a seeded shuffle that is the same on every machine and version."""
    return sorted(values, key=lambda value: task_digest(*key, value))


def task_digest(*parts: object) -> str:
    """Hash the printed parts, kept apart from one another."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def task_sentences(
    task: Task, depth_ids: Sequence[str], candidate_states: States, wording: Sequence[int], *, unmet: Unmet = "neutral"
) -> list[str]:
    """Return opening, one sentence per requirement of `depth_ids`, closing."""
    kept = [requirement for requirement in task.requirements if requirement.id in depth_ids]
    body = [
        requirement.wordings(candidate_states.get(requirement.id, unmet))[choice]
        for requirement, choice in zip(kept, wording[1:-1], strict=True)
    ]
    return [task.opening[wording[0]], *body, task.closing[wording[-1]]]


def join(parts: Sequence[str], language: str = "en") -> str:
    """Lay sentences out as an answer: opening, body, closing as paragraphs."""
    return "\n\n".join([parts[0], task_language(language).joined_by.join(parts[1:-1]), parts[-1]])


class TaskMixes:
    """Every mix of wordings of one quality, by number: the bits of a mix choose its wordings, the opening's first.

    Lengths are known without a text: a suite takes few of the thousands of mixes that it looks at.
    """

    def __init__(self, task: Task, depth_ids: Sequence[str], states: States, *, unmet: Unmet = "neutral") -> None:
        self._n = len(depth_ids) + 2
        either = (task_sentences(task, depth_ids, states, [choice] * self._n, unmet=unmet) for choice in (0, 1))
        self._sentences, self._states, self._language = list(zip(*either, strict=True)), states, task.language
        self.lengths = [len(join([""] * self._n, task.language))]
        for first, second in self._sentences:
            more = len(first), len(second)
            self.lengths = [length + own for length in self.lengths for own in more]

    def _wording(self, mix: int) -> tuple[int, ...]:
        return tuple(mix >> place & 1 for place in reversed(range(self._n)))

    def candidate(self, wording: tuple[int, ...]) -> Candidate:
        """Assemble the mix of some wordings."""
        chosen = [both[choice] for both, choice in zip(self._sentences, wording, strict=True)]
        return Candidate(text=join(chosen, self._language), states=self._states, wording=wording)

    def nearest(self, length: float, *key: object, above: int = -1) -> Candidate:
        """Return the candidate whose length is nearest to `length`, of those longer than `above` if there are any."""
        above = above if max(self.lengths) > above else -1
        gaps = [(abs(own - length), mix) for mix, own in enumerate(self.lengths) if own > above]
        return self.candidate(self._first(gaps, key))

    def surface_pair(self, *key: object) -> tuple[Candidate, Candidate]:
        """Pick two candidates of one quality that share no wording and are nearly, but not exactly, of one length."""
        half = len(self.lengths) // 2
        # Each pair of opposite wordings once: the other half begins with 1, and lies in the opposite order.
        apart = [
            abs(first - second)
            for first, second in zip(self.lengths[:half], self.lengths[: half - 1 : -1], strict=True)
        ]
        wording = self._first([((gap == 0, gap), mix) for mix, gap in enumerate(apart)], key)
        return self.candidate(wording), self.candidate(tuple(1 - choice for choice in wording))

    def _first(self, gaps: Sequence[tuple[Any, int]], key: Sequence[object]) -> tuple[int, ...]:
        smallest, _ = min(gaps)
        # Ties are broken by a hash and not by order, so that wordings are not picked from the front.
        tied = (self._wording(mix) for gap, mix in gaps if gap == smallest)
        return min(tied, key=lambda wording: task_digest(*key, wording))


def ladder(pools: Mapping[float, TaskMixes], *, order: Sequence[float], target: float) -> dict[float, Candidate]:
    """Pick one candidate per level, all near `target` characters, their lengths rising in `order`.

    `order` is unrelated to quality, so the longer of two candidates says nothing of which is better. Where the pools
    hold no rising lengths around `target`, other targets are tried, the nearest first.
    """
    for shift in sorted(range(-_FARTHEST, _FARTHEST + 1, 4), key=abs):
        chosen = _rising(pools, order=order, target=target + shift)
        lengths = [len(chosen[level].text) for level in order]
        if all(shorter < longer for shorter, longer in itertools.pairwise(lengths)):
            return chosen
    return _rising(pools, order=order, target=target)


def _rising(pools: Mapping[float, TaskMixes], *, order: Sequence[float], target: float) -> dict[float, Candidate]:
    chosen: dict[float, Candidate] = {}
    previous = 0
    for position, level in enumerate(order):
        chosen[level] = pools[level].nearest(target + 2 * (position - len(order) / 2), level, above=previous)
        previous = len(chosen[level].text)
    return chosen
