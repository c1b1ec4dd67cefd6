"""From a name, a path or a run to a suite.

Before the first call: judge, suite and journal made ready; and the bar that is shown while asking.

What a user passes as a judge becomes a `Judge`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path

from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.errors import RecipeError, SuiteError, suggest
from jrh_mlflow.home import home
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.calls import CallRecord
from jrh_mlflow.suites import Suite, datasheet_suite, read_suite
from jrh_mlflow.suites.suite import MANIFEST_FILE, read_manifest
from jrh_mlflow.tracking.scorers import from_mlflow, is_mlflow_judge

BUILT_IN: dict[str, Callable[[], Suite]] = {
    "datasheet": datasheet_suite,
    "datasheet-short": lambda: datasheet_suite(n_tasks=2, depth=2, name="datasheet-short"),
    "datasheet-half-steps": lambda: datasheet_suite(half_steps=True, name="datasheet-half-steps"),
}


@cache
def _built_in(name: str) -> Suite:
    return BUILT_IN[name]()


def load_suite(path_or_uri: str | Path, *, tracking_uri: str | None = None) -> Suite:
    """Load a suite from a folder, from `runs:/<id>/suite`, or by a built-in name.

    Args:
        path_or_uri: Folder, address or name.
        tracking_uri: MLflow store of the run; the active one when None.

    Raises:
        SuiteError: when there is none, or when its file is cut short, edited or breaks a gate.
    """
    text = str(path_or_uri)
    if text in BUILT_IN:
        return _built_in(text)
    if text.startswith(("runs:/", "mlflow-artifacts:/", "models:/")):
        from jrh_mlflow.tracking.store import download

        return read_suite(download(text, tracking_uri=tracking_uri))
    if not Path(text).exists():
        known = ", ".join(BUILT_IN)
        raise SuiteError(f"There is no suite {text!r}.{suggest(text, BUILT_IN)} Built in: {known}. Or give a folder.")
    return read_suite(text)


def as_suite(suite: Suite | str | Path | None, *, tracking_uri: str | None = None) -> Suite:
    """Take a suite as it is, load one by name or path, or build the default one."""
    if isinstance(suite, Suite):
        return suite
    return load_suite("datasheet" if suite is None else suite, tracking_uri=tracking_uri)


def reviews_folder() -> Path:
    """Return where reviews of suites without a folder of their own are kept: `$JRH_HOME/reviews`."""
    return home() / "reviews"


def mark_hash(sha256: str, state: str | None, *, result: str = "") -> None:
    """Note that the suite of this hash is under review, wherever it is loaded from; None takes the note away."""
    file = _mark_file(sha256)
    if state is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps({"review": state, "review_result": result}), encoding="utf-8")
    draft.replace(file)


def hold_back(suite: Suite) -> None:
    """Refuse a suite that was put under review: what is undecided or rejected in it must reach no judge.

    Raises:
        SuiteError: naming the reviewed suite, or the command that writes it.
    """
    about = suite.origin
    if "review" not in about:
        file = _mark_file(suite.sha256)
        about = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    state = about.get("review")
    if state == "finished":
        raise SuiteError(f"Suite {suite.name!r} was reviewed: use {about.get('review_result')!r}, the accepted items.")
    if state == "open":
        raise SuiteError(
            f"Suite {suite.name!r} is under review, and undecided items reach no judge. "
            "`jrh review SUITE --finish --reviewer NAME` writes the reviewed suite, with `--allow-undecided` without "
            "the undecided items; `jrh review SUITE --withdraw` ends the review without one."
        )


def _mark_file(sha256: str) -> Path:
    return reviews_folder() / f"{sha256[:16]}.mark"


def mark_review(folder: Path, state: str | None, *, result: str | None = None) -> None:
    """Write into a saved suite's manifest that it is under review (`open`), reviewed (`finished`) or neither (None).

    The items and their hash stay as they are.
    """
    file = folder / MANIFEST_FILE
    manifest = read_manifest(file, mend=True)
    kept = {key: value for key, value in (manifest.get("origin") or {}).items() if not key.startswith("review")}
    marks = {"review": state, "review_result": result}
    origin = {**kept, **{key: value for key, value in marks.items() if value is not None}}
    if origin == manifest.get("origin"):
        return
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    text = json.dumps({**manifest, "origin": origin}, indent=1, ensure_ascii=False)
    draft.write_text(text + "\n", encoding="utf-8")
    draft.replace(file)


def ready_judge(
    judge: object, suite: Suite | str | Path | None, *, tracking_uri: str | None = None
) -> tuple[Judge, Suite]:
    """Resolve judge and suite, and check that the one can be asked about the other."""
    asked, on = resolve_judge(judge), as_suite(suite, tracking_uri=tracking_uri)
    hold_back(on)
    if not on.has_texts:
        raise SuiteError(f"Suite {on.name!r} was replayed from recorded judgments and has no texts to ask about.")
    asked.begin(on)
    if len({item.kind == "pair" for item in on.items if asked.covers(item)}) > 1:
        raise SuiteError(
            f"Suite {on.name!r} holds pairs and single responses. They have reports of their own: split it."
        )
    return asked, on


def resolve_judge(judge: object) -> Judge:
    """Turn what a user passes into a judge, MLflow's own judges and scorers included."""
    return from_mlflow(judge) if is_mlflow_judge(judge) else as_judge(judge)


def default_journal() -> Path:
    """Return where paid answers are kept: `$JRH_HOME/journal.db`, by default `.jrh/journal.db`."""
    return home() / "journal.db"


@contextmanager
def opened_journal(journal: str | Path | Journal | None, judge: Judge) -> Iterator[Journal | None]:
    """Open the journal for judges that need one; one that was passed open stays open."""
    with journal_at(journal) if isinstance(judge, PromptedJudge) else nullcontext() as book:
        yield book


def journal_at(journal: str | Path | Journal | None) -> AbstractContextManager[Journal]:
    """Open a journal, the default one when None; one that was passed open stays open."""
    if isinstance(journal, Journal):
        return nullcontext(journal)
    path = journal or default_journal()
    if "://" not in str(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    return open_journal(path)


@contextmanager
def progress_bar(name: str, *, total: int, show: bool) -> Iterator[Callable[[CallRecord], None] | None]:
    """Show rate, spend, failures and time left while asking; nothing when stderr is not a terminal."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    spent, failed = 0.0, 0
    with tqdm(total=total, desc=name, unit="call", dynamic_ncols=True) as bar:

        def tick(record: CallRecord) -> None:
            nonlocal spent, failed
            failed += record.outcome in ("error", "unparsed")
            spent += 0.0 if record.cached else record.cost_usd or 0.0
            shown = {"no_answer": failed} if failed else {}
            bar.set_postfix({**shown, **({"usd": f"{spent:.4f}"} if spent else {})}, refresh=False)
            bar.update()

        yield tick


def as_judge(judge: object) -> Judge:
    """Wrap a callable, take a text as a model name, or return a judge as it is.

    Raises:
        RecipeError: when it is none of these.
    """
    if isinstance(judge, Judge):
        return judge
    if isinstance(judge, str):
        from jrh_mlflow.judges.prompted import PromptedJudge

        return PromptedJudge(judge)
    if isinstance(judge, type):
        raise RecipeError(
            f"A judge must be an object, but got the class {judge.__name__}. Call it: {judge.__name__}()."
        )
    if callable(judge):
        return CallableJudge(judge)
    raise RecipeError(
        "A judge must be a model name, a callable taking a Presentation or a judge of this package, "
        f"but got {type(judge).__name__}."
    )
