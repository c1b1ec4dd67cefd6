"""The recorded judge: its configurations, and its answers brought into a journal, matched by the request itself.

A suite's answers are one file of JSON lines, packed: configuration, digest of what was sent, and what came back. The
n-th line of one digest answers the n-th such request. `about.json` says who answered, when and how; `build.py` makes
the files.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from jrh_mlflow.engine.batch import BatchImporter, BatchOutcome
from jrh_mlflow.engine.calls import Numbering, identity, plan_calls
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import run_coroutine
from jrh_mlflow.errors import CallsError, SuiteError, suggest
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.schema.items import NATURAL, CallRecord
from jrh_mlflow.schema.presentation import Criterion
from jrh_mlflow.schema.requests import Request, Response

MODEL = "openai/qwen2.5-coder-1.5b"
CRITERIA = ("forced", "allowed", "strict")
SLOTS = {"letters": "A/B", "digits": "1/2"}
"""What the slots are called in the prompt, and how that is written in a judge's name."""
SUITES = ("datasheet-paper", "datasheet")
_DIGEST_LENGTH = 24


class RecordedJudge(PromptedJudge):
    """A configuration of the judge whose answers are in the package. It is never asked, so no address matters."""

    def __init__(self, tie_criterion: str, slots: str = "letters") -> None:
        about = provenance()
        super().__init__(
            MODEL,
            tie_criterion=tie_criterion,
            answer_style=slots,
            max_tokens=1024,
            structured=True,
            name=f"{about['name']} {tie_criterion} {SLOTS[slots]}",
        )
        # An address of the environment would be part of the fingerprint.
        self.api_base = None
        self.recorded = (
            f"Recorded judge: {about['model']} ({about['quantisation']}) answered on {about['answered_on']}, "
            f"its answers cut at {about['cut_at_tokens']} tokens; no model was asked now, and nothing was paid."
        )

    @property
    def endpoint(self) -> None:
        """Nobody is asked, whatever the environment says."""

    @property
    def configuration(self) -> str:
        """What its lines are marked with: `forced-letters`."""
        return f"{self.tie_criterion.name}-{self.answer_style}"

    def with_criterion(self, spec: str | Criterion) -> RecordedJudge:
        """Return the configuration that was recorded under another tie criterion."""
        name = spec if isinstance(spec, str) else spec.name
        if name not in CRITERIA:
            raise CallsError(f"Nothing was recorded under {name!r}.{suggest(name, CRITERIA)} Criteria: {CRITERIA}.")
        return RecordedJudge(name, self.answer_style)


def recorded_judges() -> list[RecordedJudge]:
    """Return every configuration that was recorded: three criteria times two namings of the slots."""
    return [RecordedJudge(criterion, slots) for slots in SLOTS for criterion in CRITERIA]


@cache
def provenance() -> Mapping[str, Any]:
    """Return who answered, when and how, as `about.json` says."""
    text = resources.files(__package__).joinpath("about.json").read_text(encoding="utf-8")
    about: dict[str, Any] = json.loads(text)
    return about


def import_recorded(judge: RecordedJudge, suite: str, journal: Journal) -> int:
    """Bring the recorded answers of a judge to a suite into a journal, and return how many it did not have yet.

    Args:
        judge: One of `recorded_judges`.
        suite: A built-in name, one of `SUITES`.
        journal: Where `evaluate` then finds them.

    Raises:
        SuiteError: Nothing was recorded on this suite.
        CallsError: A call has no recorded answer, or a recorded answer belongs to no call; nothing is written.
    """
    keyed: list[tuple[str, Request]] = []
    matched: dict[str, list[BatchOutcome]] = {}
    waiting = _by_digest(line for line in recorded_lines(suite) if line["judge"] == judge.configuration)
    numbering, missing = Numbering(judge), []
    for call in plan_calls(load_suite(suite), judge, replicates=1):
        request, key = numbering.prepare(call)
        if answers := waiting.get(sent_digest(request)):
            keyed.append((key, request))
            matched[key] = [answers.popleft()]
        else:
            missing.append(call.item.id)
    # Before anything is written: an evaluation that finds some of its answers would ask a model for the others.
    _demand_match(judge, suite, missing=missing, n_left=sum(map(len, waiting.values())))
    importer = BatchImporter(journal, None, is_discounted=False)
    run_coroutine(importer.keep_all(keyed, matched))
    return importer.counts["answered"]


def _demand_match(judge: RecordedJudge, suite: str, *, missing: list[str], n_left: int) -> None:
    if not missing and not n_left:
        return
    first = f" (the first: {missing[0]!r})" if missing else ""
    raise CallsError(
        f"The answers recorded for {judge.configuration} do not fit suite {suite!r}: {len(missing)} calls have no "
        f"recorded answer{first}, and {n_left} recorded answers belong to no call. Texts, prompt or settings have "
        "changed since: have them answered again, and run `python -m tests.recorded_answers`."
    )


def _by_digest(lines: Iterable[Mapping[str, Any]]) -> dict[str, deque[Response]]:
    answers: dict[str, deque[Response]] = {}
    for line in lines:
        response = {name: value for name, value in line.items() if name not in ("judge", "sent")}
        # One prompt may be sent by several calls, and each takes an answer of its own.
        answers.setdefault(line["sent"], deque()).append(Response(**response))
    return answers


def recorded_lines(suite: str) -> Iterator[dict[str, Any]]:
    """Yield what was recorded on a suite, by its name, of all configurations.

    Raises:
        SuiteError: Nothing was.
    """
    if suite not in SUITES:
        raise SuiteError(f"Nothing was recorded on suite {suite!r}.{suggest(suite, SUITES)} On {', '.join(SUITES)}.")
    yield from _unpacked(suite)


def llmbar_records(criterion: str) -> list[CallRecord]:
    """Return how the recorded judge answered the 419 pairs of LLMBar in both orders, slots named by letters.

    The file has no text of the pairs: a line is a pair's place in the dataset, the better side, and what was answered
    under the criteria `forced` and `allowed` in either order, read from the batch files as the engine reads answers.

    Reference:
        Zeng et al. (2024), Evaluating large language models at evaluating instruction following (LLMBar), MIT licence.
    """
    return [
        CallRecord(
            suite_item=line["pair"],
            task=line["pair"],
            condition=NATURAL,
            delta=None,
            order=order,
            better=line["better"],
            replicate=0,
            outcome="verdict" if answer in ("1", "2") else answer or "unparsed",
            answer=answer if answer in ("1", "2") else "",
            expected="",
        )
        for line in _unpacked("llmbar")
        for order in ("uv", "vu")
        for answer in (line[f"{criterion}-{order}"],)
    ]


def recorded_records(judge: RecordedJudge, suite: str) -> list[CallRecord]:
    """Return how a configuration answered the calls of a built-in suite, without a journal."""
    waiting = _by_digest(line for line in recorded_lines(suite) if line["judge"] == judge.configuration)
    records = []
    for call in plan_calls(load_suite(suite), judge, replicates=1):
        reading = judge.read(waiting[sent_digest(judge.request(call))].popleft(), call)
        records.append(CallRecord(**identity(call), outcome=reading.outcome, answer=reading.answer or ""))
    return records


def _unpacked(suite: str) -> Iterator[dict[str, Any]]:
    packed = resources.files(__package__).joinpath(file_name(suite)).read_bytes()
    yield from map(json.loads, lzma.decompress(packed).splitlines())


def file_name(suite: str) -> str:
    """Return the name of the file with the answers to a suite."""
    return f"{suite}.jsonl.xz"


def sent_digest(request: Request) -> str:
    """Return a digest of what is sent: messages and sampling fields, whatever form the journal's keys have.

    Neither the model's name nor an address is in it: the files hold the answers of one model.
    """
    names = ("messages", "temperature", "max_tokens", "seed", "response_schema", "logprobs", "extra")
    sent = json.dumps({name: getattr(request, name) for name in names}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(sent.encode()).hexdigest()[:_DIGEST_LENGTH]
