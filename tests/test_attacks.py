"""Files that attack whoever opens them, and disks that give way: one clear error, and no harm done."""

from __future__ import annotations

import gzip
import os
import stat
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from jrh_mlflow import home as homes
from jrh_mlflow import plugins as plugin_rooms
from jrh_mlflow.cli.main import group
from jrh_mlflow.engine.batch import read_results
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import JournalError, JrhError, RecipeError
from jrh_mlflow.home import private_file, private_folder, writable_home
from jrh_mlflow.outputs import check_packed
from jrh_mlflow.suites import datasheet_suite, read_suite
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.suites.transcripts.inspect_logs import read_inspect, require_inspect
from jrh_mlflow.tracking import mlflow_server
from tests.servers import free_port

SIZE = 100 * 2**20


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20


@cache
def bomb() -> bytes:
    """A hundred kB that unpack to 100 MiB."""
    return gzip.compress(b"x" * SIZE)


def packed(name: str) -> Path:
    Path(name).write_bytes(bomb())
    return Path(name)


def archive(name: str, *parts: str) -> Path:
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as made:
        for part in parts:
            with made.open(part, "w") as sink:
                for _ in range(SIZE // 2**20):
                    sink.write(b" " * 2**20)
    return Path(name)


@pytest.mark.parametrize("name", ["rows.csv.gz", "rows.jsonl.gz", "rows.json.gz"])
def test_a_packed_table_that_grows_without_end_is_not_unpacked(name: str) -> None:
    file = packed(name)
    with little_memory(), pytest.raises(RecipeError, match=name):
        read_table(file)


def test_packed_results_of_a_batch_that_grow_without_end_are_not_unpacked() -> None:
    file = packed("results.jsonl.gz")
    with little_memory(), pytest.raises(RecipeError, match="results"):
        read_results([file], set())


@pytest.mark.parametrize("name", ["rows.xlsx", "log.eval"])
def test_an_archive_that_grows_without_end_is_not_unpacked(name: str) -> None:
    file = archive(name, "xl/workbook.xml" if name == "rows.xlsx" else "header.json")
    require_inspect()  # before memory is watched, which makes an import ten times as long
    read: Callable[[Path], object] = read_table if name == "rows.xlsx" else lambda path: list(read_inspect(path))
    with little_memory(), pytest.raises(RecipeError, match=name):
        read(file)


def test_a_row_with_the_number_of_a_billion_is_refused() -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(["instruction", "response"])
    book.save("rows.xlsx")
    with zipfile.ZipFile("rows.xlsx") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    row = b'<row r="1000000000"><c r="A1000000000" t="n"><v>1</v></c></row></sheetData>'
    parts[sheet] = parts[sheet].replace(b"</sheetData>", row)
    with zipfile.ZipFile("rows.xlsx", "w") as changed:
        for name, content in parts.items():
            changed.writestr(name, content)
    with pytest.raises(RecipeError, match=r"rows\.xlsx"):
        read_table("rows.xlsx")


def test_a_packed_file_of_usual_proportions_is_read(tmp_path: Path) -> None:
    with gzip.open("rows.csv.gz", "wt") as sink:
        sink.write("instruction,response\nSay it.,It is said.\n")
    assert len(read_table("rows.csv.gz")) == 1
    check_packed(Path("rows.csv.gz"))


def test_a_packed_file_that_was_cut_off_is_one_error() -> None:
    Path("rows.csv.gz").write_bytes(gzip.compress(b"a,b\n1,2\n" * 100)[:-12])
    with pytest.raises(RecipeError, match="rows"):
        read_table("rows.csv.gz")


class _Broken(EntryPoint):
    def load(self) -> object:
        raise SystemExit("gone") if self.name == "exits" else RuntimeError("never\nimported")


def test_a_plugin_that_raises_when_it_is_imported_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [_Broken(name, "evil:thing", "jrh.tests") for name in ("breaks", "exits")]
    monkeypatch.setattr(plugin_rooms, "entry_points", lambda group: entries)
    plugin_rooms.plugins.cache_clear()
    try:
        found = plugin_rooms.plugins("jrh.tests")
    finally:
        plugin_rooms.plugins.cache_clear()
    assert [plugin.name for plugin in found] == ["breaks", "exits"]
    assert all(plugin.error and "\n" not in plugin.error for plugin in found)


def test_a_journal_of_no_length_is_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    Path("journal.db").touch()
    for _ in range(2):
        with open_journal("journal.db"):
            pass
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_disk_that_is_read_only_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(homes.os, "open", refuse)
    with pytest.raises(JournalError, match="Read-only"):
        open_journal("journal.db")
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(JrhError, match="Read-only"):
        writable_home()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_journal_spool_and_home_are_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = writable_home()
        with open_journal(folder / "journal.db"):
            files = sorted(path.name.partition("-")[0] for path in folder.iterdir())
            assert "journal.db" in files
            assert any("spool" in path.name for path in folder.iterdir())
            assert {mode(path) & 0o077 for path in folder.iterdir() if "lock" not in path.name} == {0}
    finally:
        os.umask(before)
    assert mode(folder) == 0o700


def test_a_home_and_a_journal_of_before_are_closed_to_others_unless_a_group_shares_them(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir(mode=0o755)
    (tmp_path / "old" / "journal.db").touch(mode=0o644)
    private_folder(tmp_path / "old")
    private_file(tmp_path / "old" / "journal.db")
    assert (mode(tmp_path / "old"), mode(tmp_path / "old" / "journal.db")) == (0o700, 0o600)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    (shared / "journal.db").touch()
    (shared / "journal.db").chmod(0o660)
    private_folder(shared)
    private_file(shared / "journal.db")
    assert (mode(shared), mode(shared / "journal.db")) == (0o2770, 0o660)


def test_the_password_of_a_store_is_on_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    store = "postgresql://me:planted-password@127.0.0.1/mlflow"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert "planted-password" not in " ".join(mlflow_server.server_command(store, port=5000))
    seen: list[dict[str, str]] = []

    @contextmanager
    def started(command: list[str], variables: dict[str, str], log: object) -> Iterator[None]:
        assert "planted-password" not in " ".join(command)
        seen.append(variables)
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(mlflow_server, "started", started)
    mlflow_server.serve(store, port=free_port(), when_started=lambda *_: None)
    assert seen[0]["MLFLOW_BACKEND_STORE_URI"] == store


def repeated(name: str, *, rows: int = 3000, nested: bool = False) -> Path:
    """A file of a kilobyte in which each row holds the same four megabytes."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array(["x" * 2**22]))
    column = pa.ListArray.from_arrays(pa.array([0, rows]), texts) if nested else texts
    parquet.write_table(pa.table({"instruction": column}), name, compression="zstd")
    return Path(name)


@pytest.mark.parametrize("nested", [False, True])
def test_a_parquet_file_that_grows_without_end_is_not_read(nested: bool) -> None:
    file = repeated("rows.parquet", nested=nested)
    assert file.stat().st_size < 10_000
    with little_memory(), pytest.raises(RecipeError, match=r"rows\.parquet"):
        read_table(file)


def test_a_parquet_file_of_every_kind_of_column_is_measured() -> None:
    import pandas as pd
    import pyarrow as pa
    from pyarrow import parquet

    pairs = pa.array([[("a", "b")], [], None], pa.map_(pa.string(), pa.string()))
    columns = {
        "text": ["a", None, ""],
        "list": [[{"role": "user", "content": "Hello."}], [], None],
        "struct": [{"k": "v"}, None, {"k": "w"}],
        "map": pairs,
        "number": [1, 2, 3],
        "nothing": [None] * 3,
        "bytes": pa.array([b"ab"] * 3, pa.binary(2)),
    }
    parquet.write_table(pa.table(columns), "all.parquet")
    pd.DataFrame({"category": pd.Categorical([1, 2, 1]), "word": pd.Categorical(["a", "b", "a"])}).to_parquet(
        "c.parquet"
    )
    check_packed(Path("all.parquet"))
    check_packed(Path("all.parquet"), columns=["list", "number"])
    check_packed(Path("c.parquet"))


def test_a_suite_moves_no_cursor_of_who_looks_at_it() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\u202eevil"
    datasheet_suite(n_tasks=1, depth=1, name=hostile).save("suite")
    done = CliRunner().invoke(group, ["suite", "show", "suite"])
    assert done.exit_code == 0, done.output
    assert "evil" in done.output
    assert [letter for letter in done.output if not letter.isprintable() and letter != "\n"] == []


def test_json_of_a_hundred_thousand_brackets_is_one_error() -> None:
    datasheet_suite(n_tasks=1, depth=1, name="suite").save("suite")
    for name, read in {
        "suite/manifest.json": lambda: read_suite("suite"),
        "rows.json": lambda: read_table("rows.json"),
    }.items():
        Path(name).write_text("[" * 100_000, encoding="utf-8")
        with pytest.raises(JrhError, match=Path(name).name):
            read()
