"""Records on disk: the table, the file and the readings are those of records in memory."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine import calls_frame, plan_calls
from jrh_mlflow.engine import record_log as module
from jrh_mlflow.engine.calls import identity
from jrh_mlflow.engine.record_log import RecordLog, in_memory, is_on_disk, write_calls
from jrh_mlflow.schema.items import CallRecord


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 64)


def _records(*, bare: bool = False) -> list[CallRecord]:
    judge, dice = jrh.scripted.AlwaysFirst(), random.Random(0)
    records = []
    for number, call in enumerate(plan_calls(jrh.datasheet_suite(n_tasks=2), judge, replicates=4)):
        outcome = dice.choice(["verdict", "tie", "error"])
        lost = outcome == "error"
        record = CallRecord(**identity(call), outcome=outcome, answer=dice.choice("12") * (outcome == "verdict"))
        # The first blocks have neither reasons nor costs.
        told = not bare and number > 100 and not lost
        records.append(
            replace(
                record,
                rationale=f"Response A is better, for the {number}. time. ☃" if told else None,
                raw=f"raw {number}" if told else None,
                input_tokens=number if told else None,
                cost_usd=0.25 * number if told else None,
                latency_s=0.5,
                cached=bool(number % 2),
                attempts=None if bare else 1,
                worst_usd=None if bare else 0.0,
                prompt_sha256=f"{number:064}",
                error="timeout: late" if lost else None,
            )
        )
    return records


def _logged(records: list[CallRecord]) -> RecordLog:
    """Add records out of order, with some that fail first and are asked again at the end."""
    log, dice = RecordLog(may_change=lambda record: record.outcome == "error"), random.Random(1)
    numbers = sorted(range(len(records)), key=lambda number: number + dice.random() * 40)
    again = set(dice.sample(numbers, 20))
    for number in numbers:
        log.add(number, replace(records[number], outcome="error", error="503") if number in again else records[number])
    for number in again:
        log.add(number, records[number])
    assert log.on_disk
    assert len(log.latest) < len(log) == len(records)
    return log


@pytest.mark.parametrize("bare", [False, True])
def test_table_and_file_are_those_of_records_in_memory(tmp_path: Path, *, bare: bool) -> None:
    records = _records(bare=bare)
    log = _logged(records)
    assert list(log) == records
    wanted, frame = calls_frame(records), calls_frame(log, on_disk=True)
    assert is_on_disk(frame)
    pd.testing.assert_frame_equal(in_memory(frame), wanted)
    wanted.to_parquet(tmp_path / "wanted.parquet", index=False)
    write_calls(frame, tmp_path / "calls.parquet")
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "calls.parquet"), pd.read_parquet(tmp_path / "wanted.parquet")
    )
    assert jrh.measure(frame, n_resamples=50).to_dict() == jrh.measure(wanted, n_resamples=50).to_dict()


def test_texts_on_disk_are_read_as_those_in_memory() -> None:
    records = _records()
    wanted, frame = calls_frame(records)["rationale"], calls_frame(_logged(records), on_disk=True)["rationale"]
    again = pickle.loads(pickle.dumps(frame[:9]))
    for chosen in (frame[150:300], frame.iloc[np.array([200, 3, 101])], frame[frame.notna()], again):
        texts = [wanted[row] if isinstance(wanted[row], str) else None for row in chosen.index]
        assert [*chosen.astype(object)] == texts
    assert (frame == wanted[200]).sum() == 1
    assert frame.reindex([200, -5]).tolist() == [wanted[200], None]


def test_a_disk_that_is_full_leaves_records_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    records, log = _records(), RecordLog()

    def full(*_: object) -> int:
        raise OSError("No space left on device")

    for number, record in enumerate(records):
        if number == 100:
            monkeypatch.setattr("os.pwrite", full)
        log.add(number, record)
    assert len(log.latest) == len(records) - 64
    pd.testing.assert_frame_equal(calls_frame(log), calls_frame(records))
