"""Build recorded answers to a suite from batch files: `python -m tests.recorded_answers SUITE FOLDER …`.

A folder holds `NAME.requests.jsonl.gz`, as `jrh batch export` wrote it, and `NAME.results.jsonl.gz`, what the model
answered, for NAME in forced, allowed, strict and the same with `_digits`. Later folders complete earlier ones: a
request whose text has changed since is left out, and every call of the suite must end up with one answer.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jrh_mlflow.engine.batch import exported_requests, read_results
from jrh_mlflow.engine.calls import Numbering, plan_calls
from jrh_mlflow.errors import CallsError
from jrh_mlflow.measuring.recorded import answers
from jrh_mlflow.measuring.recorded.answers import RecordedJudge, file_name, recorded_judges, sent_digest
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.suites.suite import Suite

_KEPT = ("text", "finish_reason", "model", "input_tokens", "output_tokens")


def build(suite: Suite, folders: Iterable[Path], target: Path) -> int:
    """Write the answers to a suite, of every configuration, and return how many there are."""
    folders = list(folders)
    lines = [line for judge in recorded_judges() for line in _lines(judge, suite, folders)]
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    target.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return len(lines)


def _lines(judge: RecordedJudge, suite: Suite, folders: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    known = _answers(judge, folders)
    numbering = Numbering(judge)
    for call in plan_calls(suite, judge, replicates=1):
        request, key = numbering.prepare(call)
        if key not in known:
            raise CallsError(f"{judge.configuration}: no batch file answers {call.item.id!r}, order {call.order}.")
        kept = {name: getattr(known[key], name) for name in _KEPT}
        yield {"judge": judge.configuration, "sent": sent_digest(request), **kept}


def _answers(judge: RecordedJudge, folders: Iterable[Path]) -> dict[str, Response]:
    known: dict[str, Response] = {}
    for folder in folders:
        name = judge.configuration.replace("-letters", "").replace("-", "_")
        requests, results = (folder / f"{name}.{what}.jsonl.gz" for what in ("requests", "results"))
        keys = {label: key for label, key, _ in exported_requests([requests], judge, by_request=True)}
        for label, outcomes in read_results([results], keys).outcomes.items():
            known.update((keys[label], outcome) for outcome in outcomes if isinstance(outcome, Response))
    return known


if __name__ == "__main__":
    name, *given = sys.argv[1:]
    file = Path(answers.__file__).with_name(file_name(name))
    n_answers = build(load_suite(name), map(Path, given), file)
    print(f"{file}: {n_answers} answers, {file.stat().st_size:,} bytes")
