"""What is reviewed: the items of a suite, finished or still growing, with their sources and checks.

A suite under review lies in a folder, or comes from a run of a tracking store.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import ReviewError, SuiteError
from jrh_mlflow.perturb import KEPT, Check, CheckContext, Rewrite, Similarity, Target
from jrh_mlflow.perturb.checks import no_wrapping
from jrh_mlflow.perturb.registry import written_by
from jrh_mlflow.review.decisions import DECIDED, EXEMPT, STATES, UNDECIDED, Decisions, GeneratedPart, Standings, State
from jrh_mlflow.schema.items import BASELINE, Item, Labels, Seed, bare_question
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import (
    ITEMS_FILE,
    MANIFEST_FILE,
    PARTIAL_FILE,
    Suite,
    mark_hash,
    mark_review,
    read_item,
    read_suite,
    reviews_folder,
)
from jrh_mlflow.text import clean_json

if TYPE_CHECKING:
    from jrh_mlflow.tracking.runs.read import RunSuite

_log = logging.getLogger("jrh_mlflow")

NOT_ASKED = "not asked"
"""The verdict of an item that no validator has seen, as generation writes it."""
_BY_CODE = "code"
_COMPARING = ("similar", "unlike_earlier")
"""Checks that need the corpus of the generation; the similarity it measured is shown by itself."""
_MAX_CHECKED = 200_000
"""Characters of a text that is worth the wait: checks are made with every item that is opened."""
_NO_TEXT = "holds bytes that are not UTF-8, or halves of a character: they are read as U+FFFD"


class _Unmeasured(Similarity):
    name = "none"

    def between(self, one: str, other: str) -> float:
        raise AssertionError("no check that compares is run here")


@dataclass(frozen=True, kw_only=True)
class ReviewEntry:
    """One item under review."""

    key: str
    """Hash of its line and its id: decisions about one text are never taken for another's."""
    item: Item
    source: Item | None
    """The unperturbed item it was made from, where the suite holds it."""
    mended: bool = False
    """Whether its line held what is no text, read as U+FFFD."""
    _rechecked: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict, repr=False, compare=False)
    """Checks of texts that were looked at already."""

    @cached_property
    def needs_decision(self) -> bool:
        """False for what code wrote: it is proven by its checks, and may still be looked at."""
        return self.item.meta.get("generator") != _BY_CODE

    @cached_property
    def test(self) -> str:
        """Name of the test it belongs to."""
        return str(self.item.meta.get("test") or self.item.condition)

    @cached_property
    def verdict(self) -> str | None:
        """What the validator answered; None when it was not asked."""
        answer = self.item.meta.get("validator")
        # Whoever says that the meaning was kept says that the label is right, too.
        answer = self.item.expected if answer == KEPT else answer
        return None if answer in (None, NOT_ASKED) else str(answer)

    @cached_property
    def checks(self) -> tuple[dict[str, Any], ...]:
        """The checks it is known to have been through: `name`, `passed`, and the `problem` there was."""
        checks = [_check(entry) for entry in self.item.meta.get("checks") or ()]
        checks += [_outcome("text", _NO_TEXT)] if self.mended else []
        verdict, expected = self.verdict, self.item.expected
        if verdict is not None and expected is not None:
            problem = None if verdict == expected else f"answers {verdict[:80]!r}, expected {expected!r}"
            checks.append(_outcome("validator", problem))
        return tuple(checks)

    def rechecked(self, text: str | None) -> tuple[dict[str, Any], ...]:
        """Return the checks of the item's test on a text as it stands: a reviewer's edit can lose a number too.

        Each has `name`, `passed` and the `problem`, if any. Nothing for transcripts, unknown tests, items without
        their source, and texts beyond 200,000 characters.
        """
        test, target = written_by(self.test), self._target()
        if test is None or target is None or text is None or len(text) > _MAX_CHECKED:
            return ()
        if text not in self._rechecked:
            context = CheckContext(similarity=_Unmeasured())
            # Of what a model wrote, and can be read, it holds for every test that nothing is wrapped around it.
            unwrapped = isinstance(test, Rewrite) and not self.mended
            checks = (*test.checks, *((no_wrapping,) if unwrapped else ()))
            named = [(name, check) for check in checks if (name := _check_name(check)) not in _COMPARING]
            self._rechecked[text] = tuple(_outcome(name, check(target, text, context)) for name, check in named)
        return self._rechecked[text]

    @cached_property
    def failed(self) -> frozenset[str]:
        """Names of the checks that it did not pass when it was made."""
        return _failed(self.checks)

    def failed_as(self, state: State) -> frozenset[str]:
        """Return the names of checks that it did not pass when it was made, or does not pass as it was edited."""
        return self.failed if state.text is None else self.failed | _failed(self.rechecked(state.text))

    @cached_property
    def part(self) -> str:
        """Which part was rewritten: `response`, `rubric` or `transcript`."""
        if self.item.kind == "transcript":
            return "transcript"
        source = self.source
        reworded = source is not None and self.item.rubric != source.rubric and self.item.response == source.response
        return "rubric" if reworded else "response"

    @cached_property
    def edited_messages(self) -> tuple[int, ...]:
        """Of a transcript: the places of messages that its source does not hold."""
        # By content and not by place: an edit may have added or taken out messages.
        before = set(_signatures(self.source.transcript if self.source else None))
        if not before:
            return ()
        return tuple(n for n, sign in enumerate(_signatures(self.item.transcript)) if sign not in before)

    @property
    def original(self) -> str | None:
        """The text before the perturbation, or None where it is not known."""
        if self.source is None:
            return None
        if self.part != "transcript":
            return self._part_of(self.source)
        message = self._message(None)
        there = self.source.transcript or ()
        return there[message].content if message is not None and message < len(there) else None

    def generated(self, message: int | None = None) -> GeneratedPart:
        """Return the text and the label that a decision is measured against."""
        item, place = self.item, None
        if self.part == "transcript":
            place = self._message(message)
            text = None if place is None else (item.transcript or ())[place].content
        else:
            text = self._part_of(item)
        return GeneratedPart(text=text, label=item.expected, labels=item.answers or (), message=place)

    def applied(self, state: State) -> Item:
        """Return the item as a state leaves it."""
        item = self.item if state.label is None else _labelled_by_a_person(self.item, state.label)
        if state.text is None:
            return item
        if self.part != "transcript":
            edited: Any = {self.part: state.text + self._meanings}
            return replace(item, **edited)
        assert state.message is not None
        messages = list(item.transcript or ())
        messages[state.message] = replace(messages[state.message], content=state.text)
        return replace(item, transcript=tuple(messages))

    def _part_of(self, item: Item) -> str | None:
        """Return the text of the part that was rewritten; of a question without what the labels mean."""
        if self.part == "rubric":
            return bare_question(item.rubric or "", item.answers or ())[0]
        return item.response

    @property
    def _meanings(self) -> str:
        """What the labels mean, at the end of a reworded question: no reviewer edits it."""
        return bare_question(self.item.rubric or "", self.item.answers or ())[1] if self.part == "rubric" else ""

    def shown(self, state: State) -> str:
        """Return a state by the name a reviewer sees."""
        return EXEMPT if state.state == UNDECIDED and not self.needs_decision else state.state

    def _target(self) -> Target | None:
        """Return what the checks of its test compare a text with; None where they cannot be made."""
        item, source = self.item, self.source
        response = source.response if source else None
        if self.part == "transcript" or source is None or response is None or len(response) > _MAX_CHECKED:
            return None
        instruction, label = item.instruction or "", source.expected or ""
        seed = Seed(id=item.task, instruction=instruction, response=response, label=label)
        return Target(
            test=self.test,
            condition=item.condition,
            seed=seed,
            labels=Labels(answers=item.answers or ()),
            rubric=bare_question(source.rubric or "", item.answers or ())[0],
            expected=item.expected,
            part="rubric" if self.part == "rubric" else "response",
        )

    def _message(self, wanted: int | None) -> int | None:
        """Return the message meant: the one asked for, or the only one that was edited."""
        n_messages = len(self.item.transcript or ())
        if wanted is not None:
            return wanted if 0 <= wanted < n_messages else None
        return self.edited_messages[0] if len(self.edited_messages) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Content:
    """All items of a suite at one moment."""

    name: str
    sha256: str | None
    """None while it grows."""
    items: tuple[Item, ...]
    entries: tuple[ReviewEntry, ...]
    """Those that are reviewed, in the order of the suite."""
    growing: bool = False
    unreadable: int = 0
    """Lines that are no items, of a suite that grows."""
    suite: Suite | None = None

    @cached_property
    def tests(self) -> dict[str, int]:
        """How many items each test has."""
        return dict(Counter(entry.test for entry in self.entries))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every label an item may carry."""
        return tuple(dict.fromkeys(label for entry in self.entries for label in entry.item.answers or ()))


@dataclass
class FolderReader:
    """Reads a folder again only when it changed. A cache, not a state: another process reads the same."""

    folder: Path
    _stamps: object = None
    _content: Content | None = None
    _parsed: dict[bytes, Item | None] = field(default_factory=dict)

    def read(self) -> Content:
        """Return what the folder holds now.

        Raises:
            SuiteError: when it holds no suite, or one that was cut, edited after hashing or breaks a gate.
        """
        stamps = [_stamp(self.folder / name) for name in (ITEMS_FILE, MANIFEST_FILE, PARTIAL_FILE)]
        if self._content is None or stamps != self._stamps:
            _, manifest, partial = stamps
            # The manifest is written last: one that is younger than the items so far belongs to a finished suite.
            growing = partial is not None and (manifest is None or manifest < partial)
            self._content, self._stamps = self._growing() if growing else self._finished(), stamps
        return self._content

    def _finished(self) -> Content:
        # Mended: a reviewer must be able to look at what is broken, to reject it.
        suite = read_suite(self.folder, mend=True)
        content = (self.folder / ITEMS_FILE).read_bytes()
        entries = _entries(zip(content.splitlines(), suite.items, strict=True))
        # Of the bytes on disk: a mended suite would have the hash of other texts.
        sha256 = hashlib.sha256(content).hexdigest()
        return Content(name=suite.name, sha256=sha256, items=suite.items, entries=entries, suite=suite)

    def _growing(self) -> Content:
        partial = self.folder / PARTIAL_FILE
        whole, _, _ = partial.read_bytes().rpartition(b"\n")  # the last line may still be written
        lines = list(dict.fromkeys(whole.splitlines()))
        for number, line in enumerate(lines, 1):
            if line not in self._parsed:
                self._parsed[line] = _read_line(line, number, partial)
        pairs = [(line, item) for line in lines if (item := self._parsed[line]) is not None]
        return Content(
            name=self.folder.name,
            sha256=None,
            items=tuple(item for _, item in pairs),
            entries=_entries(pairs),
            growing=True,
            unreadable=len(lines) - len(pairs),
        )


def _labelled_by_a_person(item: Item, label: str) -> Item:
    """Give an item the label that a reviewer wrote: it is a ground truth then, whoever wrote the one before."""
    return replace(item, expected=label, meta={key: value for key, value in item.meta.items() if key != "label_source"})


def shown_states(entries: Iterable[ReviewEntry], standings: Standings) -> dict[str, int]:
    """Count the items that stand in each state, by the names a reviewer sees."""
    counts = Counter(entry.shown(standings.of(entry.key).state) for entry in entries)
    return {**dict.fromkeys((*STATES, EXEMPT), 0), **counts}


def progress(entries: Iterable[ReviewEntry], standings: Standings) -> dict[str, dict[str, int]]:
    """Count how far a review is; every place that tells `n of N decided` reads it here.

    N are the items that need a decision, so that no decision changes it. What code wrote needs none; decisions on such
    items are optional and counted by themselves.

    Returns:
        `needed` and `by_code`, each with `total`, `decided`, and the number in each state.
    """
    counts: dict[str, Counter[str]] = {"needed": Counter(), "by_code": Counter()}
    for entry in entries:
        counts["needed" if entry.needs_decision else "by_code"][standings.of(entry.key).state.state] += 1
    return {
        part: {
            "total": states.total(),
            "decided": sum(states[state] for state in DECIDED),
            **{state: states[state] for state in STATES},
        }
        for part, states in counts.items()
    }


def _read_line(line: bytes, number: int, partial: Path) -> Item | None:
    """Read a line of a suite that grows; None when it is no item, which is logged once and shown as a count."""
    try:
        return read_item(clean_json(line), number, partial)
    except SuiteError as error:
        _log.warning("%s", error)
        return None


def _entries(pairs: Iterable[tuple[bytes, Item]]) -> tuple[ReviewEntry, ...]:
    pairs = list(pairs)
    sources = {item.original: item for _, item in pairs if item.condition == BASELINE}
    return tuple(
        ReviewEntry(key=_key(line, item), item=item, source=sources.get(item.original), mended=clean_json(line) != line)
        for line, item in pairs
        if item.kind != "pair" and item.condition != BASELINE
    )


def _check(check: object) -> dict[str, Any]:
    """Read one check of an item's meta: a mapping, or a text that says what was wrong."""
    if not isinstance(check, Mapping):
        return _outcome(str(check).partition(":")[0], str(check))
    problem = check.get("problem")
    return {"name": str(check.get("name", "")), "passed": bool(check.get("passed", not problem)), "problem": problem}


def _outcome(name: str, problem: str | None) -> dict[str, Any]:
    return {"name": name, "passed": problem is None, "problem": problem}


def _failed(checks: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(check["name"] for check in checks if not check["passed"])


def _check_name(check: Check) -> str:
    """Return what a check is called: its function, or the one that made it."""
    return str(getattr(check, "__qualname__", type(check).__name__)).partition(".")[0]


def _key(line: bytes, item: Item) -> str:
    return f"{hashlib.sha256(line).hexdigest()[:16]} {item.id}"


def _signatures(messages: Sequence[Message] | None) -> list[tuple[object, ...]]:
    """Return what makes a message the same one, wherever it stands."""
    return [
        (message.role, message.content, json.dumps([dict(call) for call in message.tool_calls], default=str))
        for message in messages or ()
    ]


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


DECISIONS_FILE = "review.db"


@dataclass
class Review:
    """One suite under review: its items, the decisions about them, and where the result goes."""

    key: str
    """An opaque name for addresses; never a path."""
    folder: Path
    decisions_file: Path
    result: Path
    """The folder of the reviewed suite, if it is free."""
    run: RunSuite | None = None
    """The run the suite was read from."""
    tracking_uri: str | None = None
    """Where that run is, and where the review is logged."""
    writable: bool = True
    """Whether the folder's manifest can be told about the review."""
    _reader: FolderReader = field(init=False)
    _decisions: Decisions | None = None
    _held: bool = False
    _marked: bool = False
    _placed: tuple[Content, dict[int, ReviewEntry]] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._reader = FolderReader(self.folder)

    def content(self) -> Content:
        """Return the items as they are on disk now; those of a run are fetched first."""
        with self._lock:
            if self.run is not None:
                _fetch(self.run.run_id, self.folder, self.tracking_uri)
            content = self._reader.read()
            if self.run is not None and content.sha256 != self.run.sha256:
                raise ReviewError(f"The suite of run {self.run.run_id} is not the one that its params name.")
            # A suite that grows has no hash yet; it is marked when it is whole.
            if self._held and not self._marked and content.sha256 is not None:
                self.mark(content.sha256, "open")
                self._marked = True
            return content

    @property
    def decisions(self) -> Decisions:
        """The decisions, opened when first needed."""
        with self._lock:
            if self._decisions is None:
                self._decisions = Decisions(self.decisions_file)
            return self._decisions

    def hold(self) -> None:
        """Put the suite under review: from now on, or once it stopped growing, judges are not asked about it."""
        if not self._held:
            self._held = True
            self.content()

    def placed(self) -> tuple[Content, dict[int, ReviewEntry]]:
        """Return the items with the numbers they keep while others arrive."""
        content = self.content()
        # The reader hands out the same object until the folder changes.
        if self._placed is None or self._placed[0] is not content:
            places = self.decisions.places([entry.key for entry in content.entries])
            by_place = {places[entry.key]: entry for entry in content.entries}
            self._placed = content, dict(sorted(by_place.items()))
        return self._placed

    def mark(self, sha256: str, state: str | None, *, result: str = "") -> None:
        """Write the state of the review where evaluations look: beside the suite, and by its hash."""
        mark_hash(sha256, state, result=result)
        if self.run is None and self.writable:
            mark_review(self.folder, state, result=result or None)


class ReviewCatalog:
    """The suites that can be reviewed: folders, as `jrh review` serves them."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._reviews = [folder_review(folder) for folder in folders]

    def reviews(self) -> list[Review]:
        """Return all of them, those of newer runs first."""
        return self._reviews

    def find(self, key: str) -> Review | None:
        """Return one by its key."""
        return next((review for review in self.reviews() if review.key == key), None)


def folder_review(folder: Path) -> Review:
    """Return the review of a suite folder; its decisions lie in it, or in `$JRH_HOME` when it cannot be written."""
    folder = folder.resolve()
    # Names of folders may be no UTF-8, and an address must not tell where they lie.
    key = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    writable = os.access(folder, os.W_OK)
    file = folder / DECISIONS_FILE if writable else reviews_folder() / f"{key}.db"
    result = folder.parent if os.access(folder.parent, os.W_OK) else reviews_folder()
    return Review(
        key=key, folder=folder, decisions_file=file, result=result / f"{folder.name}-reviewed", writable=writable
    )


class RunCatalog(ReviewCatalog):
    """Suites of a tracking store's runs, or of one run, fetched when they are opened, under `$JRH_HOME/reviews`."""

    def __init__(self, tracking_uri: str, *, run_id: str | None = None) -> None:
        self._uri, self._run_id = tracking_uri, run_id
        self._known: dict[str, Review] = {}
        self._lock = threading.Lock()

    def reviews(self) -> list[Review]:
        """Return the suites that generations logged, each once, the newest first."""
        from jrh_mlflow.tracking.runs.read import suites_in_runs

        runs = [run for run in suites_in_runs(self._uri) if self._run_id in (None, run.run_id)]
        # Oldest first, so that of runs with one suite the newest stays.
        newest = {run.sha256: run for run in reversed(runs)}
        return [self._review(run) for run in reversed(newest.values())]

    def find(self, key: str) -> Review | None:
        """Return one by its key, without asking the store for one that is known."""
        return self._known.get(key) or super().find(key)

    def _review(self, run: RunSuite) -> Review:
        key, home = run.sha256[:12], reviews_folder()
        with self._lock:
            if key not in self._known:
                self._known[key] = Review(
                    key=key,
                    folder=home / run.sha256[:16] / "suite",
                    decisions_file=home / f"{run.sha256[:16]}.db",
                    result=home / f"{run.sha256[:16]}-reviewed",
                    run=run,
                    tracking_uri=self._uri,
                )
            return self._known[key]


def _fetch(run_id: str, target: Path, tracking_uri: str | None) -> None:
    """Bring a run's suite here, whole or not at all, unless it is here."""
    if target.is_dir():
        return
    from jrh_mlflow.tracking.runs.store import download

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        draft = Path(name) / "suite"
        # A copy beside the target first: a download that breaks off must not look like a suite.
        shutil.copytree(download(f"runs:/{run_id}/suite", tracking_uri=tracking_uri), draft)
        try:
            draft.rename(target)
        except OSError as error:
            if not target.is_dir():  # another process was quicker
                raise ReviewError(f"The suite of run {run_id} cannot be kept in {target}: {error}.") from error


def open_catalog(suites: tuple[str, ...], *, tracking_uri: str | None = None) -> ReviewCatalog:
    """Find suites by folder, or one by `runs:/<id>/suite`.

    Raises:
        ReviewError: when there is nothing to review.
    """
    if len(suites) == 1 and suites[0].startswith("runs:/"):
        from jrh_mlflow.tracking.runs.store import active_uri

        run_id = suites[0].removeprefix("runs:/").partition("/")[0]
        runs = RunCatalog(tracking_uri or active_uri(), run_id=run_id)
        if not runs.reviews():
            raise ReviewError(f"Run {run_id} made no suite, or did not finish. Name the store: --tracking-uri.")
        return runs
    if dataset := next((text for text in suites if text.startswith("datasets:/")), None):
        raise ReviewError(
            f"A suite is reviewed in a folder: jrh.load_suite({dataset!r}).save(FOLDER), then review that."
        )
    folders = [Path(text).parent if Path(text).name == ITEMS_FILE else Path(text) for text in suites]
    for folder in folders:
        if not any((folder / name).is_file() for name in (ITEMS_FILE, PARTIAL_FILE)):
            raise ReviewError(f"There is no suite in {folder}, nor one that is being generated into it.")
    catalog = ReviewCatalog(folders)
    for review in catalog.reviews():
        content = review.content()
        if not content.entries and not content.growing:
            raise ReviewError(f"Suite {content.name!r} holds nothing to review: only baselines or pairs.")
    return catalog
