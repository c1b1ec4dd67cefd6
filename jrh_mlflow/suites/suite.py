"""A suite: a frozen, hashed list of items, saved as JSON lines beside a manifest.

`sha256` is the hash of `suite.jsonl` itself, so `sha256sum` verifies it without this package.

A suite without texts holds a hash in the place of each: runs that keep private data out of MLflow log it. It has the
`sha256` of the suite it stands for, so that its runs are compared with others; it can be measured, not asked.

What is undecided or rejected in a suite under review must reach no judge. A suite in a folder carries its mark in the
manifest; one that is loaded from elsewhere is marked by its hash, in a file under `$JRH_HOME/reviews`.

At the end the validity gates: what must hold of every suite, checked when it is built and again when it is loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import SCHEMA_VERSION, SuiteError, check_schema_version, suggest
from jrh_mlflow.home import home, writable_home
from jrh_mlflow.outputs import check_free
from jrh_mlflow.schema import items as schema
from jrh_mlflow.schema.presentation import Message, context_texts, message_text, read_message, saved_message
from jrh_mlflow.text import brief_name, clean_json, hashed, hidden_id

if TYPE_CHECKING:
    import pandas as pd

ITEMS_FILE = "suite.jsonl"
MANIFEST_FILE = "manifest.json"
PARTIAL_FILE = "items.partial.jsonl"
"""Of a generation that still runs, for a review that does not wait for its end.

Lines as in `suite.jsonl`: baselines first, then items in the order they are finished."""
OnItems = Callable[[Sequence[schema.Item]], None]
"""Told of items as they are finished."""

_MOST_KEPT = 2000
HASHES = "sha256"
"""What a manifest says of `texts` where only their hashes are there."""
_HIDDEN = ("instruction", "rubric", "u", "v", "response")
"""Texts of an item; labels, ids and groups are names."""
_NAMES = (
    "builder",
    "checked",
    "dataset",
    "dataset_version",
    "design",
    "generate_run_id",
    "half_of",
    "language",
    "review",
)
"""What a suite without texts says of how it was made, besides numbers and hashes."""
_TOLD_BY = ("columns", "group", "label_source", "people", "rubric")
"""What results are told by, of how an item was made: names and labels, no texts."""
_FIELDS = tuple(field.name for field in fields(schema.Item))
_TEXTS = ("id", "task", "condition", "kind", "instruction", "rubric", "u", "v", "response", "better", "expected")


class Suite:
    """What every judge is measured on. Building one checks its validity gates."""

    def __init__(
        self,
        *,
        name: str,
        items: Iterable[schema.Item],
        origin: Mapping[str, Any] | None = None,
        hash_of_texts: str | None = None,
    ) -> None:
        self.name = name
        self.items: tuple[schema.Item, ...] = tuple(items)
        self.origin = dict(origin or {})
        """How it was made: builder and arguments, or the parent it comes from."""
        self.hash_of_texts = hash_of_texts
        """The `sha256` of the suite it stands for, where hashes stand in the place of texts; None for any other."""
        # Hashes break gates that look at texts; the suite they stand for passed them.
        if hash_of_texts is None:
            check_suite(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Suite({brief_name(self.name)}, {len(self)} items, sha256={self.sha256[:12]})"

    @property
    def content(self) -> bytes:
        """The bytes of `suite.jsonl`: one canonical JSON object per line, in item order."""
        return b"".join(self._lines)

    @property
    def _lines(self) -> Iterable[bytes]:
        return map(item_line, self.items) if self._kept is None else (self._kept,)

    @cached_property
    def _kept(self) -> bytes | None:
        """All lines, which are read several times; those of a large suite would be there twice for all that time."""
        return b"".join(map(item_line, self.items)) if len(self.items) <= _MOST_KEPT else None

    @cached_property
    def sha256(self) -> str:
        """Hash of `content`; of a suite without texts that of the one it stands for."""
        return self.hash_of_texts or _sha256(self._lines)

    @property
    def has_texts(self) -> bool:
        """False for one replayed from recorded judgments, or logged without texts: it can be measured, not asked."""
        return self.hash_of_texts is None and all(item.instruction is not None for item in self.items)

    def without_texts(self) -> Suite:
        """Return the suite with a hash in the place of each text, under the same `sha256`."""
        if self.hash_of_texts is not None:
            return self
        origin = {key: value for key, value in self.origin.items() if _tells_no_text(key, value)}
        items = [_without_texts(item) for item in self.items]
        return Suite(name=self.name, items=items, origin=origin, hash_of_texts=self.sha256)

    @property
    def labels(self) -> schema.Answers | None:
        """What its items may be answered with, low to high; None for pairs, and where items differ."""
        return schema.Answers.of(self.items)

    @property
    def has_pairs(self) -> bool:
        """Whether two contents are compared in some of its items."""
        return any(item.kind == "pair" for item in self.items)

    @property
    def groups(self) -> dict[str, str]:
        """Item id to the group its results are also reported by, for items that have one."""
        return {item.id: str(item.meta["group"]) for item in self.items if item.meta.get("group") is not None}

    @property
    def manifest(self) -> dict[str, Any]:
        """What a reader wants to know before opening the items."""
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "sha256": self.sha256,
            "n_items": len(self),
            "n_calls": sum(len(item.orders) * item.replicates for item in self.items),
            "n_tasks": len({item.task for item in self.items}),
            "conditions": dict(Counter(item.condition for item in self.items)),
            "origin": self.origin,
            **({} if self.hash_of_texts is None else {"texts": HASHES, "content_sha256": _sha256(self._lines)}),
        }

    def _repr_html_(self) -> str:
        from jrh_mlflow.show.cards import EXAMPLES, Card
        from jrh_mlflow.show.tables import Column, Table

        facts, conditions = self.manifest, Counter(item.condition for item in self.items)
        calls = Counter[str]()
        for item in self.items:
            calls[item.condition] += len(item.orders) * item.replicates
        counts: Table[str] = Table.of(
            Column("condition", lambda name: name),
            Column("items", lambda name: f"{conditions[name]:,}"),
            Column("calls", lambda name: f"{calls[name]:,}"),
        )
        # Reversed, so that the first item of a condition is the one that stays.
        first = {item.condition: item for item in reversed(self.items) if item.instruction is not None}
        examples = [first[name] for name in conditions if name in first]
        shown = {item.id: item for item in [*examples[:1], *examples[len(examples) // 2 :][:1], *examples[-1:]]}
        return Card(
            title=f"Suite {self.name}",
            tables=[
                counts(conditions),
                EXAMPLES((item.id, item.condition, _texts(item)) for item in shown.values()),
            ],
            facts={
                "sha256": self.sha256,
                "items": f"{len(self):,}",
                "tasks": f"{facts['n_tasks']:,}",
                "calls": f"{facts['n_calls']:,}",
            },
        ).to_html()

    def to_frame(self) -> pd.DataFrame:
        """Return one row per item, and how many calls the protocol asks for."""
        import pandas as pd

        rows = [
            {**{name: getattr(item, name) for name in _FIELDS}, "n_calls": len(item.orders) * item.replicates}
            for item in self.items
        ]
        frame: pd.DataFrame = pd.DataFrame(rows, columns=[*_FIELDS, "n_calls"])
        return frame

    def save(self, path: str | Path) -> Path:
        """Write `suite.jsonl` and `manifest.json` into the folder `path`, and return it."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        # First: it has the hash, which refuses what no file can hold.
        text = json.dumps(self.manifest, indent=1, ensure_ascii=False)
        with (folder / ITEMS_FILE).open("wb") as file:
            file.writelines(self._lines)
        (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")
        return folder


def save_suite(suite: Suite, path: str | Path, *, force: bool = False, continues: bool = False) -> Path:
    """Save a suite where none lies, or where the same one does, which is then left as it is.

    A folder that was put under review stays so: its new items are undecided.

    Args:
        suite: What to save.
        path: Its folder.
        force: Overwrite any other suite.
        continues: Overwrite a suite that was truncated: this one is more of it.

    Raises:
        RecipeError: when another suite lies there.
    """
    folder = Path(path)
    # Nothing is written: a review may have marked the manifest.
    if holds_suite(folder, suite):
        return folder
    origin = _saved_origin(folder)
    if not (continues and origin.get("truncated")):
        check_free(folder / ITEMS_FILE, force=force, holds="is another suite")
    suite.save(folder)
    if origin.get("review"):
        mark_review(folder, "open")
    return folder


def holds_suite(path: Path, suite: Suite) -> bool:
    """Whether a folder holds this very suite."""
    try:
        return (path / ITEMS_FILE).exists() and read_suite(path).sha256 == suite.sha256
    except SuiteError:
        return False


def _saved_origin(folder: Path) -> dict[str, Any]:
    try:
        return dict(read_manifest(folder / MANIFEST_FILE, mend=True).get("origin") or {})
    except (OSError, SuiteError):
        return {}


def _sha256(lines: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()


def _tells_no_text(key: str, value: object) -> bool:
    return key in _NAMES or key.endswith("sha256") or value is None or isinstance(value, bool | int | float)


def _without_texts(item: schema.Item) -> schema.Item:
    """Return an item with hashes for texts; of how it was made only that stays which results are told by."""
    texts: dict[str, Any] = {name: hashed(text) for name in _HIDDEN if (text := getattr(item, name)) is not None}
    texts |= {"id": hidden_id(item.id), "task": hidden_id(item.task)}
    if item.context is not None:
        texts["context"] = tuple(map(hashed, context_texts(item.context)))
    transcript = item.transcript and tuple(_without_text(message) for message in item.transcript)
    return replace(item, **texts, transcript=transcript, meta={k: v for k, v in item.meta.items() if k in _TOLD_BY})


def _without_text(message: Message) -> Message:
    saved = json.dumps(saved_message(message), sort_keys=True, ensure_ascii=False, default=str)
    return Message(role=message.role, content=hashed(saved))


def _texts(item: schema.Item) -> list[str]:
    """Return the texts of an item that a judge sees, the pair in its canonical order."""
    last = message_text(item.transcript[-1]) if item.transcript else None
    context = "\n\n".join(context_texts(item.context)) or None
    texts = {"task": item.instruction, "context": context, "response": item.response, "u": item.u, "v": item.v}
    texts |= {"last message": last}
    # What is empty or blank can be seen by its quotes.
    return [f"{name}: {text if text.strip() else repr(text)}" for name, text in texts.items() if text is not None]


def read_suite(path: str | Path, *, mend: bool = False, hashes: bool = False) -> Suite:
    """Read a saved suite from its folder (or its `suite.jsonl`), checking hash and gates.

    Args:
        path: The folder, or the file of its items.
        mend: Read what is no text as U+FFFD (`clean_json`), so that somebody can look at it.
        hashes: Take a suite without texts, too: for those who read calls, not items.

    Raises:
        SuiteError: when a file is missing, cut short, edited after hashing, breaks a gate, or has no texts.
    """
    folder = Path(path)
    if folder.name == ITEMS_FILE:
        folder = folder.parent
    if not (folder / ITEMS_FILE).is_file() or not (folder / MANIFEST_FILE).is_file():
        raise SuiteError(f"There is no suite in {folder}: it needs {ITEMS_FILE} and {MANIFEST_FILE}.")
    manifest = read_manifest(folder / MANIFEST_FILE, mend=mend)
    hash_of_texts = str(manifest["sha256"]) if manifest.get("texts") == HASHES else None
    if hash_of_texts is not None and not hashes:
        raise SuiteError(no_texts(str(manifest["name"])))
    content = (folder / ITEMS_FILE).read_bytes()
    _check_bytes(content, manifest, folder / ITEMS_FILE)
    lines = [clean_json(line) if mend else line for line in content.splitlines()]
    items = [read_item(line, number, folder / ITEMS_FILE) for number, line in enumerate(lines, 1)]
    origin = manifest.get("origin")
    return Suite(name=str(manifest["name"]), items=items, origin=origin, hash_of_texts=hash_of_texts)


def no_texts(name: str) -> str:
    """Say that a suite holds hashes only, and what to do."""
    return (
        f"Suite {name!r} was logged without texts (--no-texts): it holds their hashes, and a judge needs the texts. "
        "Give the suite that was evaluated, its folder or its name."
    )


def item_line(item: schema.Item) -> bytes:
    """Return an item's line of `suite.jsonl`."""
    # Empty fields are left out: most items have few of them.
    data = {name: value for name in _FIELDS if (value := getattr(item, name)) not in (None, {}, [], ())}
    if item.transcript:
        data["transcript"] = [saved_message(message) for message in item.transcript]
    if item.replicates == 1:
        del data["replicates"]
    try:
        return json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise SuiteError(f"Item {item.id!r} holds a lone surrogate, which no file can. Clean its text.") from error


def read_manifest(file: Path, *, mend: bool = False) -> dict[str, Any]:
    """Read what a suite says about itself.

    Raises:
        SuiteError: when the file is no manifest, or another version's.
    """
    try:
        content = file.read_bytes()
        manifest = json.loads((clean_json(content) if mend else content).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SuiteError(f"{file} is not valid JSON: {error}.") from error
    if not isinstance(manifest, dict) or not {"schema_version", "name", "sha256", "n_items"} <= manifest.keys():
        raise SuiteError(f"{file} is not the manifest of a suite.")
    if not isinstance(manifest["n_items"], int):
        raise SuiteError(f"{file}: `n_items` must be a whole number, but is {manifest['n_items']!r}.")
    check_schema_version(file, manifest["schema_version"], error=SuiteError)
    return manifest


def _check_bytes(content: bytes, manifest: Mapping[str, Any], file: Path) -> None:
    # A file cut short fails its hash too; the count says what happened to it.
    n_lines = content.count(b"\n")
    if n_lines < manifest["n_items"]:
        raise SuiteError(f"{file} was cut short: {n_lines} of {manifest['n_items']} items. Fetch or build it again.")
    digest = _sha256([content])
    stated = str(manifest["content_sha256" if manifest.get("texts") == HASHES else "sha256"])
    if digest != stated:
        raise SuiteError(
            f"{file} was edited after hashing: its sha256 is {digest[:12]}…, the manifest says "
            f"{stated[:12]}…. Restore the file, or build a new suite from it."
        )


def read_item(line: bytes, number: int, file: Path) -> schema.Item:
    """Read one line; `number` and `file` are for the message when it is no item."""
    try:
        data = json.loads(line)
        # A field that is not known may change what an item means, so it is not passed over.
        if not isinstance(data, dict) or not data.keys() <= set(_FIELDS):
            raise ValueError("unknown fields")
        _check_types(data)
        if data.get("transcript") is not None:
            data["transcript"] = tuple(read_message(message) for message in data["transcript"])
        for name in ("answers", "context"):
            if isinstance(data.get(name), list):
                data[name] = tuple(data[name])
        return schema.Item(**data)
    except (ValueError, TypeError) as error:
        raise SuiteError(f"{file}, line {number}: not an item ({error}).") from error


def _check_types(data: Mapping[str, Any]) -> None:
    delta = data.get("delta")
    if delta is not None and (isinstance(delta, bool) or not isinstance(delta, int | float)):
        raise ValueError(f"delta must be a number, but is {delta!r}")
    replicates = data.get("replicates", 1)
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise ValueError(f"replicates must be 1, 2, …, but is {replicates!r}")
    if not isinstance(data.get("ordinal", False), bool):
        raise ValueError(f"ordinal must be true or false, but is {data['ordinal']!r}")
    context = data.get("context", "")
    if not all(isinstance(text, str) for text in (context if isinstance(context, list) else [context])):
        raise ValueError(f"context must be a text or a list of texts, but is {context!r}")
    for name in _TEXTS:
        if not isinstance(data.get(name, ""), str):
            raise ValueError(f"{name} must be text, but is {data[name]!r}")


def reviews_folder() -> Path:
    """Return where reviews of suites without a folder of their own are kept: `$JRH_HOME/reviews`."""
    return home() / "reviews"


def mark_hash(sha256: str, state: str | None, *, result: str = "") -> None:
    """Note that the suite of this hash is under review, wherever it is loaded from; None takes the note away."""
    file = _mark_file(sha256)
    if state is None:
        file.unlink(missing_ok=True)
        return
    writable_home()
    file.parent.mkdir(exist_ok=True)
    _replace(file, json.dumps({"review": state, "review_result": result}))


def mark_review(folder: Path, state: str | None, *, result: str | None = None) -> None:
    """Write into a saved suite's manifest that it is under review (`open`), reviewed (`finished`) or neither (None).

    The items and their hash stay as they are.
    """
    file = folder / MANIFEST_FILE
    manifest = read_manifest(file, mend=True)
    # Marks are replaced as a whole: a result of an earlier review must not outlive it.
    kept = {key: value for key, value in (manifest.get("origin") or {}).items() if not key.startswith("review")}
    marks = {"review": state, "review_result": result}
    origin = {**kept, **{key: value for key, value in marks.items() if value is not None}}
    if origin != manifest.get("origin"):
        _replace(file, json.dumps({**manifest, "origin": origin}, indent=1, ensure_ascii=False) + "\n")


def hold_back(suite: Suite) -> None:
    """Refuse a suite that was put under review.

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


def _replace(file: Path, text: str) -> None:
    # Another process may read it at any moment: it finds the old text or the new one, never half of either.
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


@contextmanager
def partial_file(folder: Path) -> Iterator[OnItems]:
    """Append items to the folder's partial file inside the block; it goes when the block ends well.

    When it fails, the file stays only where a review has begun; the next generation into the folder starts it anew.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / PARTIAL_FILE
    try:
        with file.open("wb") as sink:

            def write(items: Sequence[schema.Item]) -> None:
                sink.write(b"".join(item_line(item) for item in items))
                sink.flush()

            yield write
    except BaseException:
        # Nothing else is there, so nobody has begun a review: the folder goes, too.
        if set(folder.iterdir()) == {file}:
            file.unlink()
            folder.rmdir()
        raise
    file.unlink()


MAX_LENGTH_RATIO = 1.10
"""Longest over shortest candidate of a length-matched pair."""

_LEAK = re.compile(r"\bQ_?\d\b|\bdelta[_ ]?\d|\bpair id\b|\bexpected winner\b|\brequirement \d|\bhigher level\b", re.I)
"""Words of the protocol that would tell a judge what the experimenter knows."""
_LEAK_WORDS = ("delta", "pair id", "expected winner", "requirement ", "higher level")
_LEAK_NUMBER = re.compile(r"q_?\d")


def check_suite(items: Sequence[schema.Item]) -> None:
    """Check every gate.

    Raises:
        SuiteError: naming the item, the rule and what was found.
    """
    if not items:
        raise SuiteError("The suite has no items: nothing to judge.")
    ids = [item.id for item in items]
    twice = list((Counter(ids) - Counter(set(ids))).elements())
    if twice:
        raise SuiteError(f"Item ids must be unique, but {len(twice)} repeat: {', '.join(twice[:5])}.")
    for item in items:
        if item.kind == "pair":
            _check_pair(item)
        else:
            _check_pointwise(item)
    # Levels are checked together: a chain is right or wrong as a whole.
    _check_levels([item for item in items if item.condition in schema.SINGLE_CONDITIONS])


def _check_pointwise(item: schema.Item) -> None:
    """Check an item that stands alone: a response or a transcript with its labels."""
    if item.kind not in ("response", "transcript"):
        raise SuiteError(f"Item {item.id!r} has the unknown kind {item.kind!r}. Known: pair, response, transcript.")
    if not item.task:
        raise SuiteError(f"Item {item.id!r} has no task: it is the cluster of the intervals.")
    if not item.condition or item.condition in schema.PAIR_CONDITIONS:
        raise SuiteError(
            f"Item {item.id!r} is no pair, and its condition {item.condition!r} names no reliability test."
        )
    if item.instruction is not None and (item.response if item.kind == "response" else item.transcript) is None:
        raise SuiteError(f"Item {item.id!r} is a {item.kind} and has none.")
    answers = item.answers or ()
    if len(answers) < 2 or len(set(answers)) < len(answers):
        raise SuiteError(f"Item {item.id!r} needs two or more different answers, but has {answers}.")
    if any(answer.strip().casefold() == "tie" for answer in answers):
        raise SuiteError(f"Item {item.id!r} has a label called tie, and a tie is an outcome of pairs. Rename it.")
    if item.expected is not None and item.expected not in answers:
        raise SuiteError(f"Item {item.id!r} expects {item.expected!r}, which is none of {', '.join(answers)}.")
    if item.label_source not in ("", *schema.LABEL_SOURCES):
        known = ", ".join(schema.LABEL_SOURCES)
        raise SuiteError(f"Item {item.id!r} has the unknown label source {item.label_source!r}. Known: {known}.")
    if (item.meta.get("review") or {}).get("state") == "rejected":
        raise SuiteError(f"Item {item.id!r} was rejected in review, and no judge may see it. Leave it out.")


def _check_levels(items: Iterable[schema.Item]) -> None:
    """Check the contents of the pointwise datasheet one by one, then those of each task and ladder together."""
    whole = [item for item in items if item.instruction is not None]
    for item in whole:
        if problem := _level_problem(item):
            raise SuiteError(f"Item {item.id!r} {problem}.")
        _check_leaks(item)
    plain = {(item.task, item.delta): item for item in whole if item.condition == schema.SINGLE_LADDERS[0]}
    for item in whole:
        twin = plain.get((item.task, item.delta))
        if item.condition == schema.SINGLE_PADDED and (
            twin is None or len(item.response or "") <= len(twin.response or "")
        ):
            raise SuiteError(f"Item {item.id!r} must be longer than the plain content of its level.")
    chains = sorted((item for item in whole if item.condition in schema.SINGLE_LADDERS), key=_place_in_chain)
    for _, chain in groupby(chains, key=lambda item: (item.task, item.condition)):
        _check_chain(list(chain))


def _place_in_chain(item: schema.Item) -> tuple[str, str, float]:
    return item.task, item.condition, item.delta or 0.0


def _level_problem(item: schema.Item) -> str | None:
    if item.kind != "response":
        return f"is a {item.kind}, but the condition {item.condition} is one of a single response"
    if item.expected is not None:
        return f"expects {item.expected!r}, but nothing is expected of a content of the condition {item.condition}"
    if item.condition in schema.SINGLE_VACUUM:
        if item.delta is not None:
            return f"has nothing to judge, so no level, but its delta is {item.delta}"
        blank = not (item.response or "").strip() and (item.response == "") == (
            item.condition == schema.SINGLE_VACUUM[0]
        )
        return None if blank else "must hold nothing to judge: no text, or white space, as its condition says"
    if item.delta is None:
        return "needs its level as `delta`"
    level = _level(item, "response")
    return None if level == item.delta else f"meets {level:g} requirements, but its level is {item.delta:g}"


def _check_chain(chain: Sequence[schema.Item]) -> None:
    lengths = [len(item.response or "") for item in chain]
    # Otherwise a judge that only counts characters would climb the ladder.
    if max(lengths) > MAX_LENGTH_RATIO * min(lengths):
        raise SuiteError(
            f"Contents of task {chain[0].task!r} in condition {chain[0].condition} must be of a length (ratio at most "
            f"{MAX_LENGTH_RATIO}), but run from {min(lengths)} to {max(lengths)} characters."
        )
    for low, high in pairwise(chain):
        (full, half), (full_below, half_below) = _met(high, "response"), _met(low, "response")
        if not full_below | half_below <= full | half or not full_below <= full:
            raise SuiteError(f"Item {high.id!r} must meet all that a lower level meets, but {low.id!r} meets others.")


def _check_pair(item: schema.Item) -> None:
    if item.condition not in schema.PAIR_CONDITIONS:
        raise SuiteError(
            f"Item {item.id!r} has the unknown condition {item.condition!r}."
            f"{suggest(item.condition, schema.PAIR_CONDITIONS)} Known: {', '.join(schema.PAIR_CONDITIONS)}."
        )
    _check_labels(item)
    if item.u is None and item.v is None and item.instruction is None:
        return  # replayed from recorded judgments: there is no text to check
    if item.u is None or item.v is None or item.instruction is None:
        raise SuiteError(f"Item {item.id!r} needs an instruction and both contents.")
    if item.condition not in (schema.NATURAL, schema.NATURAL_TIE):
        _check_leaks(item)
        for rule in _RULES[item.condition]:
            if problem := rule(item, item.u, item.v):
                raise SuiteError(f"Item {item.id!r}: {problem}.")


def _check_labels(item: schema.Item) -> None:
    if not item.task:
        raise SuiteError(f"Item {item.id!r} has no task: it is the cluster of the intervals.")
    if item.condition in schema.LADDERS and not (item.delta is not None and item.delta > 0):
        raise SuiteError(
            f"Item {item.id!r} is a {item.condition} pair and needs a delta above 0, but has {item.delta!r}."
        )
    if item.condition in schema.DELTA_0 and item.delta != 0:
        raise SuiteError(f"Item {item.id!r} is a {item.condition} pair and needs delta 0, but has {item.delta!r}.")
    if item.condition in schema.WITH_BETTER and item.better not in ("u", "v"):
        raise SuiteError(f"Item {item.id!r} needs `better` u or v, but has {item.better!r}.")
    if item.condition not in schema.WITH_BETTER and item.better is not None:
        raise SuiteError(f"Item {item.id!r} has no better side by construction, but `better` is {item.better!r}.")


def _check_leaks(item: schema.Item) -> None:
    shown = f"{item.instruction}\n{item.rubric or ''}\n{item.u}\n{item.v}\n{item.response}"
    # An id that is a common word ("a", "1") tells nothing; looked for as it is first, because a pattern takes long.
    held = len(item.id) > 3 and item.id in shown
    named = re.search(rf"(?<!\w){re.escape(item.id)}(?!\w)", shown) if held else None
    if leak := named or _leak(shown):
        raise SuiteError(f"Item {item.id!r} would tell the judge about the experiment: {leak[0]!r}.")


def _leak(shown: str) -> re.Match[str] | None:
    lower = shown.lower()
    # Plain words first: the pattern takes a fifth of a suite's building, and nearly every text has none of them.
    is_likely = any(words in lower for words in _LEAK_WORDS) or _LEAK_NUMBER.search(lower)
    return _LEAK.search(shown) if is_likely else None


def _met(item: schema.Item, side: str) -> tuple[set[str], set[str]]:
    """Return the requirements that a content meets in full, and those it meets in part."""
    full, half = item.meta.get("satisfied", {}), item.meta.get("half", {})
    return set(full.get(side, ())), set(half.get(side, ()))


def _level(item: schema.Item, side: str) -> float:
    full, half = _met(item, side)
    return len(full) + len(half) / 2


def _superset(item: schema.Item, u: str, v: str) -> str | None:
    better = str(item.better)
    worse = "v" if better == "u" else "u"
    (full, half), (full_below, half_below) = _met(item, better), _met(item, worse)
    if not full_below | half_below <= full | half or not full_below <= full:
        return "the better content must meet all that the other meets, and more"
    step = _level(item, better) - _level(item, worse)
    return None if step == item.delta else f"delta is {item.delta}, but the contents are {step:g} requirements apart"


def _same_length(item: schema.Item, u: str, v: str) -> str | None:
    short, long = sorted((len(u), len(v)))
    if short > 0 and long <= MAX_LENGTH_RATIO * short:
        return None
    return (
        f"contents must be length-matched (ratio at most {MAX_LENGTH_RATIO}), but have {len(u)} and {len(v)} "
        "characters. Bring the sentences of the task closer in length"
    )


def _same_set(item: schema.Item, u: str, v: str) -> str | None:
    return None if _met(item, "u") == _met(item, "v") else "both contents must meet the same requirements"


def _other_set(item: schema.Item, u: str, v: str) -> str | None:
    other = _met(item, "u")[0] != _met(item, "v")[0] and _level(item, "u") == _level(item, "v")
    return None if other else "contents must meet equally many, but not the same, requirements"


def _differ(item: schema.Item, u: str, v: str) -> str | None:
    return None if u != v else "the two contents are the same text"


def _padded(item: schema.Item, u: str, v: str) -> str | None:
    return None if len(v) > len(u) else "content v must be u with padding, but is not longer"


def _empty(item: schema.Item, u: str, v: str) -> str | None:
    return "both contents must be empty" if u or v else None


def _blank(item: schema.Item, u: str, v: str) -> str | None:
    return None if u == v and u and not u.strip() else "both contents must be the same white space"


def _identical(item: schema.Item, u: str, v: str) -> str | None:
    return None if u == v and u.strip() else "both contents must be the same, non-empty text"


_Rule = Callable[[schema.Item, str, str], str | None]
"""What is wrong with the two contents of a pair, or None."""
_RULES: dict[str, tuple[_Rule, ...]] = {
    **dict(zip(schema.VACUUM, ((_empty,), (_blank,), (_identical,)), strict=True)),
    schema.LADDER: (_differ, _superset, _same_length),
    schema.LADDER_MATCHED: (_differ, _superset, _same_length),
    schema.DELTA_0_SAME: (_differ, _same_set, _same_length),
    schema.DELTA_0_DIFFERENT: (_differ, _other_set, _same_length),
    schema.FILLER: (_same_set, _padded),
}
