"""Where suites under review come from: a folder, or the runs of a tracking store."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from jrh_mlflow.errors import ReviewError
from jrh_mlflow.review.contents import Content, FolderReader, ReviewEntry
from jrh_mlflow.review.decisions import Decisions
from jrh_mlflow.suites.suite import mark_hash, mark_review, reviews_folder

if TYPE_CHECKING:
    from jrh_mlflow.tracking.runs.read import RunSuite

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
        if self._placed is None or self._placed[0] is not content:
            places = self.decisions.places([entry.key for entry in content.entries])
            found = {places[entry.key]: entry for entry in content.entries}
            self._placed = content, dict(sorted(found.items()))
        return self._placed

    def mark(self, sha256: str, state: str | None, *, result: str = "") -> None:
        """Write the state of the review where evaluations look: beside the suite, and by its hash."""
        mark_hash(sha256, state, result=result)
        if self.run is None and self.writable:
            mark_review(self.folder, state, result=result or None)


class ReviewCatalog(ABC):
    """The suites that can be reviewed."""

    @abstractmethod
    def reviews(self) -> list[Review]:
        """Return all of them, those of newer runs first."""

    def find(self, key: str) -> Review | None:
        """Return one by its key."""
        return next((review for review in self.reviews() if review.key == key), None)


class FolderCatalog(ReviewCatalog):
    """Suite folders, as `jrh review` serves them."""

    def __init__(self, folders: list[Path]) -> None:
        self._reviews = [folder_review(folder) for folder in folders]

    def reviews(self) -> list[Review]:
        """Return one review per folder."""
        return self._reviews


def folder_review(folder: Path) -> Review:
    """Return the review of a suite folder; its decisions lie in it, or in `$JRH_HOME` when it cannot be written."""
    folder = folder.resolve()
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
        found = {run.sha256: run for run in reversed(runs)}
        return [self._review(run) for run in reversed(found.values())]

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
        shutil.copytree(download(f"runs:/{run_id}/suite", tracking_uri=tracking_uri), draft)
        try:
            draft.rename(target)
        except OSError as error:
            if not target.is_dir():  # another process was quicker
                raise ReviewError(f"The suite of run {run_id} cannot be kept in {target}: {error}.") from error
