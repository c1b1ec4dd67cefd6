"""Batch files: what a journal does not answer yet, in OpenAI's batch dialect, and the results back into the journal.

A line of an export is one call, named by its key in the journal. So a batch and a live run complete each other: a run
asks only what no batch has answered, and an export holds only what no run has answered. Results enter the journal as
they would from a live run, with what they cost.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from jrh_mlflow.engine.budget import ATTEMPT, Budget
from jrh_mlflow.engine.calls import looked_up, plan_calls
from jrh_mlflow.engine.endings import ending_of, failure_micro
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.runner import run_coroutine
from jrh_mlflow.engine.sessions import why_not_served
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.parsing import read
from jrh_mlflow.judges.prompted import PromptedJudge, address_of
from jrh_mlflow.judges.raw import longest_given
from jrh_mlflow.models.catalog import OPENAI_DIALECT, context_window, endpoint_of, split_model
from jrh_mlflow.models.prices import (
    BYTES_PER_TOKEN,
    Overrides,
    Price,
    believed,
    price_of,
    prompt_size,
    response_micro,
    worst_case_micro,
)
from jrh_mlflow.models.transports import FailureKind, TransportError, safe_text
from jrh_mlflow.models.transports.dialect import chat_body, decode, encode, is_error, read_completion, read_error
from jrh_mlflow.models.transports.direct import resolve
from jrh_mlflow.models.transports.service import PREFIX as SERVICE
from jrh_mlflow.outputs import check_free, check_packed
from jrh_mlflow.schema.requests import Request, Response
from jrh_mlflow.suites.suite import Suite

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_NAME = 64
"""Characters shown of an id that is none of ours; ours have 64, as many as OpenAI allows."""
_TOGETHER = 512
"""Answers on their way to the journal at a time: they share a commit."""
_RAN_OUT_OF_TIME = "request_timeout"
"""OpenAI's code for a request that the model had begun; an expired or cancelled one was never run."""
ENDPOINT = "/v1/chat/completions"
MAX_REQUESTS = 50_000
"""Of one file, at OpenAI and those who took over its dialect."""
MAX_BYTES = 200_000_000
_MOST_ALIKE = 10_000
"""How many identical requests of one run are told apart by their number."""
_FEW_ALIKE = 64
_OUR_ID = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchSummary:
    """What an export wrote."""

    calls: int
    """Of the whole evaluation."""
    journalled: int
    """Answered already, so not exported."""
    too_long: int
    """Longer than the model's context, so not exported; a run ends them as `error`."""
    requests: int
    files: tuple[Path, ...]
    """The file that was asked for, or its numbered parts; none when nothing is missing."""
    size_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportSummary:
    """What an import found."""

    answered: int
    """Answers that are in the journal now and were not before."""
    already: int
    """Calls answered, or results booked, before; left as they were."""
    refused: int
    """Refusals, empty and filtered responses: recorded and booked, but asked again."""
    failed: int
    """Requests the provider failed on or never ran: recorded, and asked again."""
    missing: int
    """Exported requests without a result."""
    repeated: int
    """Result lines that say again what another line has said."""
    unknown: tuple[str, ...]
    """The `custom_id`s that no exported request has."""
    unreadable: tuple[str, ...]
    """Lines that are no result, as `file, line 3`."""
    cut_short: tuple[str, ...]
    """Last lines without an end: the file was copied before it was complete."""
    cost_usd: float | None
    """Booked by this import, worst cases included; None when one of its results has no price."""


def export_batch(
    judge: PromptedJudge,
    suite: Suite,
    journal: Journal,
    path: str | Path,
    *,
    replicates: int = 1,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_BYTES,
    force: bool = False,
) -> BatchSummary:
    """Write the calls of an evaluation that the journal does not answer, as the direct transport would send them.

    Neither a key nor an address is needed, and none is written. What is over a limit goes into numbered parts.

    Args:
        judge: A model of a provider that speaks the OpenAI dialect.
        suite: What to judge.
        journal: Its answers are left out.
        path: The file to write; one that exists is not overwritten, because its import needs it.
        replicates: How often each presentation is asked.
        max_requests: Of one file.
        max_bytes: Of one file.
        force: Overwrite it all the same.

    Raises:
        RecipeError: The model has no such batches, or the file cannot be written.
    """
    if min(replicates, max_requests, max_bytes) < 1:
        raise ValueError(f"`{replicates=}, {max_requests=}, {max_bytes=}` must all be 1 or more.")
    _demand_dialect(judge)
    judge.begin(suite)
    window, counts = context_window(judge.model), Counter[str]()
    planned = plan_calls(suite, judge, replicates=replicates)
    with NumberedFiles(Path(path), max_lines=max_requests, max_bytes=max_bytes, force=force) as files:
        for request, key, answered in looked_up(judge, planned, journal):
            counts["calls"] += 1
            if answered:
                counts["journalled"] += 1
            elif window is not None and prompt_size(request) > BYTES_PER_TOKEN * window:
                counts["too_long"] += 1
            else:
                files.add(_line(request, key))
    return BatchSummary(
        **{name: counts[name] for name in ("calls", "journalled", "too_long")},
        requests=files.n_lines,
        files=files.written,
        size_bytes=files.n_bytes,
    )


def _demand_dialect(judge: PromptedJudge) -> None:
    provider, _ = split_model(judge.model)
    if judge.kind == "http":
        raise RecipeError("Batch files are of the OpenAI dialect, and this judge is a service of its own.")
    if provider in OPENAI_DIALECT or (provider is None and judge.api_base):
        return
    known = "openai/… or hosted_vllm/…, or give api_base"
    raise RecipeError(f"Batch files are of the OpenAI dialect, and {judge.model!r} names no provider of it: {known}.")


def _line(request: Request, key: str) -> bytes:
    try:
        request.canonical().encode()
    except UnicodeEncodeError:
        raise RecipeError("A prompt holds half a character (a lone surrogate). Mend its template or rubric.") from None
    return encode({"custom_id": key, "method": "POST", "url": ENDPOINT, "body": request_body(request)}) + b"\n"


def request_body(request: Request) -> dict[str, Any]:
    """Return the body of a request, as the direct transport would send it; of a service the one that it is posted."""
    if request.model.startswith(SERVICE):
        return dict(request.extra["body"])
    model, max_tokens = _wire_names(request.model, request.api_base)
    try:
        return chat_body(request, model=model, max_tokens=max_tokens)
    except TransportError as error:
        raise RecipeError(error.text) from None


@lru_cache(maxsize=16)
def _wire_names(model: str, api_base: str | None) -> tuple[str, str]:
    # Only names are taken from the address: where the judge has none any will do, and no key is asked for.
    address = resolve(model, api_base or "http://unused.invalid")
    return address.model, address.max_tokens


class NumberedFiles:
    """Writes lines to one file, or to `name-001`, `name-002`, … when they do not fit.

    Used with `with`. The files get their names at the end, so that a broken export is never sent.
    """

    def __init__(self, path: Path, *, max_lines: int, max_bytes: int, force: bool = False) -> None:
        self._former = _written(path)
        for taken in self._former:
            check_free(taken, force=force, holds="exists, and its import may need it")
        self.n_lines = self.n_bytes = 0
        self.written: tuple[Path, ...] = ()
        self._path, self._max_lines, self._max_bytes = path, max_lines, max_bytes
        self._drafts: list[Path] = []
        self._file: BinaryIO | None = None
        self._lines_here = self._bytes_here = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: Any) -> None:
        try:
            with _file_errors(self._path):
                if self._file is not None:
                    self._file.close()
                if details[0] is None:
                    for former in self._former:
                        former.unlink()
                    several = len(self._drafts) > 1
                    self.written = tuple(
                        draft.rename(_part(self._path, number) if several else self._path)
                        for number, draft in enumerate(self._drafts, 1)
                    )
        finally:
            for draft in self._drafts:
                draft.unlink(missing_ok=True)

    def add(self, line: bytes) -> None:
        """Write one line, its end included."""
        if len(line) > self._max_bytes:
            raise RecipeError(f"One request has {len(line):,} bytes, but a file may have {self._max_bytes:,}.")
        with _file_errors(self._path):
            full = self._lines_here == self._max_lines or self._bytes_here + len(line) > self._max_bytes
            if self._file is None or full:
                self._file = self._next()
            self._file.write(line)
        self._lines_here, self._bytes_here = self._lines_here + 1, self._bytes_here + len(line)
        self.n_lines, self.n_bytes = self.n_lines + 1, self.n_bytes + len(line)

    def _next(self) -> BinaryIO:
        if self._file is not None:
            self._file.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._drafts.append(self._path.with_name(f"{self._path.name}.writing-{len(self._drafts) + 1}"))
        self._lines_here = self._bytes_here = 0
        return self._drafts[-1].open("wb")


def import_batch(
    requests: str | Path,
    results: str | Path | Sequence[str | Path],
    journal: Journal,
    judge: PromptedJudge | None = None,
    *,
    prices: Overrides | None = None,
    discount: float = 0.0,
    by_request: bool = False,
) -> ImportSummary:
    """Bring the results of an export into the journal; importing them again changes nothing.

    The order of the lines does not matter. A call that the journal answers already keeps its answer. Files whose name
    ends in `.gz` are unpacked.

    Args:
        requests: The file that was exported; its numbered parts are found by the name of the whole.
        results: What the provider or `vllm run-batch` wrote: output files, error files, of all parts or of some.
        journal: Where the answers go.
        judge: The judge of the export. Nothing is written when the file says that it was another one. None finds out
            who was asked from the file itself, whose ids are hashes of the requests.
        prices: As for `evaluate`.
        discount: Share of the price that is taken off for batches: 0.5 at OpenAI.
        by_request: A request is the one that it says it sends, whatever its id: for files of a version whose keys had
            another form. Who was asked (provider, address) is then not checked.

    Raises:
        RecipeError: A file is missing or is not what it should be, or the judge is another one.
    """
    if not 0 <= discount <= 1:
        raise RecipeError(f"A discount is a share between 0 and 1, but got {discount!r}.")
    files = export_files(Path(requests))
    asked = judge or ExportedRequests.of(files)
    price = _discounted(price_of(asked.model, prices) if judge is None else judge.price(prices), discount)
    result_files = existing_files([Path(file) for file in ([results] if isinstance(results, str | Path) else results)])
    # The files are read twice: results come in any order, and the texts of all requests need not fit in memory.
    keys = {name: key for name, key, _ in exported_requests(files, asked, by_request=by_request)}
    batch = read_results(result_files, keys)
    if not batch.outcomes:
        raise RecipeError(_nothing(files, result_files, batch))
    missing = len(keys) - len(batch.outcomes)
    importer = BatchImporter(journal, price, is_discounted=discount > 0)
    again = ((key, request) for _, key, request in exported_requests(files, asked, by_request=by_request))
    run_coroutine(importer.keep_all(again, {keys[name]: batch.outcomes.pop(name) for name in list(batch.outcomes)}))
    return ImportSummary(
        **{name: importer.counts[name] for name in ("answered", "already", "refused", "failed")},
        missing=missing,
        repeated=batch.repeated,
        unknown=tuple(batch.unknown),
        unreadable=tuple(batch.unreadable),
        cut_short=tuple(batch.cut_short),
        cost_usd=None if importer.counts["unpriced"] else importer.counts["micro"] / 1_000_000,
    )


_PROVIDERS = tuple(sorted(f"{name}/" for name in OPENAI_DIALECT if name != "openai"))


@dataclass(frozen=True, kw_only=True)
class ExportedRequests:
    """Who an export asks, found out from its first line: an id is the hash of its request, so only one fits."""

    model: str
    api_base: str | None
    endpoint: str | None
    verbatim: bool

    @classmethod
    def of(cls, files: Sequence[Path]) -> ExportedRequests:
        """Try who may have been asked.

        Raises:
            RecipeError: where nobody fits, with the options to give.
        """
        for where, data in read_requests(files):
            try:
                name, body = str(data["custom_id"]), data["body"]
                found = next((one for one in cls._possible(str(body["model"])) if one._asks(body, name)), None)
            except (KeyError, TypeError, ValueError):
                raise RecipeError(_no_request(where)) from None
            if found is not None:
                return found
            raise RecipeError(
                f"{where}: who was asked is not known (another address, or a version with other keys). Give the "
                "options of the export: --model, and what else was typed then."
            )
        raise RecipeError(f"{files[0]} is empty. Give the file that was exported.")

    @classmethod
    def _possible(cls, name: str) -> Iterator[ExportedRequests]:
        for model in (f"openai/{name}", *(f"{provider}{name}" for provider in _PROVIDERS), name):
            for api_base in dict.fromkeys((None, address_of(model, None))):
                endpoint = None if api_base else endpoint_of(model)
                for verbatim in (False, True):
                    yield cls(model=model, api_base=api_base, endpoint=endpoint, verbatim=verbatim)

    def _asks(self, body: Mapping[str, Any], name: str) -> bool:
        # Only a few of the first request's own kind can have been answered before it.
        request = self.request_of(body)
        return any(request.key(number) == name for number in range(_FEW_ALIKE))

    def request_of(self, body: Mapping[str, Any]) -> Request:
        """Return the request whose body this is."""
        fields = {name: value for name, value in body.items() if name not in ("model", "messages")}
        known: dict[str, Any] = {"max_tokens": longest_given(self.model, fields), "verbatim": True}
        if not self.verbatim:
            limit = fields.pop("max_tokens", None) or fields.pop("max_completion_tokens", None)
            known = {name: fields.pop(name, None) for name in ("temperature", "seed")} | {"max_tokens": limit}
            # Another form of answer is one that a user gave: then the request was sent as it is.
            if "json_schema" in fields.get("response_format", {}):
                known["response_schema"] = fields.pop("response_format")["json_schema"]["schema"]
            if known_logprobs := fields.pop("logprobs", False):
                fields.pop("top_logprobs", None)
            known["logprobs"] = bool(known_logprobs)
        messages = tuple(dict(message) for message in body["messages"])
        known |= {"model": self.model, "api_base": self.api_base, "endpoint": self.endpoint}
        return Request(messages=messages, extra=fields, **known)


def _nothing(files: Sequence[Path], result_files: Sequence[Path], batch: BatchResults) -> str:
    rest = f"{len(batch.unknown)} lines are of other requests, {len(batch.unreadable + batch.cut_short)} are unreadable"
    first = f" (the first: {batch.unknown[0]!r})" if batch.unknown else ""
    return f"{result_files[0]} holds no result of {files[0]}: {rest}{first}. Give the two that belong together."


def _discounted(price: Price | None, discount: float) -> Price | None:
    if price is None or not discount:
        return price

    def less(usd: float) -> float:
        return float(Decimal(repr(usd)) * (1 - Decimal(repr(discount))))

    long_prompts = tuple((above, less(given), less(made)) for above, given, made in price.long_prompts)
    # Of tokens in a cache nobody says what a batch takes: in full, at the batch's price.
    return replace(
        price,
        input_usd=less(price.input_usd),
        output_usd=less(price.output_usd),
        long_prompts=long_prompts,
        cached_usd=None,
    )


def exported_requests(
    files: Iterable[Path], judge: PromptedJudge | ExportedRequests, *, by_request: bool = False
) -> Iterator[tuple[str, str, Request]]:
    """Yield the id, the journal's key and the request of every exported line.

    An id of ours is the hash of its request, so a file that was edited, or written for another judge, is found out.
    Ids that somebody else gave say nothing: such a request is the one that it says it sends.

    Raises:
        RecipeError: A line is no request, or is none of this judge.
    """
    counts: Counter[str] = Counter()
    for where, data in read_requests(files):
        try:
            name, body = str(data["custom_id"]), data["body"]
            request = judge.request_of(body)
        except (KeyError, TypeError, ValueError):
            raise RecipeError(_no_request(where)) from None
        is_ours = bool(_OUR_ID.fullmatch(name))
        # Of an id that cannot be ours no key is looked for: each is a hash.
        number = _number(request, name, start=counts[request.key(0)]) if is_ours else None
        if number is None and (by_request or not is_ours) and request_body(request) == body:
            number = counts[request.key(0)]
        if number is None:
            raise RecipeError(f"{where}: {_difference(body, request)} Give the options of the export.")
        counts[request.key(0)] = number + 1
        yield name, request.key(number), request


def _no_request(where: str) -> str:
    return f"{where} is no request of a batch export. Give the file that was exported."


def _number(request: Request, name: str, *, start: int) -> int | None:
    """Return which of several identical requests has this key; None when it is no key of this request."""
    # Exported in rising order, so the number is nearly always the next one.
    return next((n for n in chain(range(start, _MOST_ALIKE), range(start)) if request.key(n) == name), None)


def _difference(body: Mapping[str, Any], request: Request) -> str:
    now = request_body(request)
    names = sorted(name for name in {*now, *body} if now.get(name) != body.get(name))
    unseen = "provider, api_base or texts, or the file is of a version with other keys"
    return f"the judge was another one, it differs in {', '.join(names) or unseen}."


def read_requests(files: Iterable[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every line of an export, with its place.

    Raises:
        RecipeError: A line is none: the file was damaged, or is another one.
    """
    for file in files:
        for number, line in _lines(file):
            data = _object(line)
            if data is None:
                raise RecipeError(f"{file}, line {number} is not JSON. Give the file as it was exported.")
            yield f"{file}, line {number}", data


def export_files(path: Path) -> list[Path]:
    """Return the file of an export, or its parts.

    Raises:
        RecipeError: There is none.
    """
    if files := _written(path):
        return files
    raise RecipeError(f"There is no file {path}. Give the one that `jrh batch export` wrote.")


def told_apart(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Return which files are an export's and which are results, in whatever order they are given; the first decides.

    A file that is not there, or empty, stays where it was given: requests first, then results.
    """
    requests: list[Path] = []
    results: list[Path] = []
    for number, file in enumerate(files):
        data = next((_object(line) for _, line in _lines(file)), None) if file.is_file() else None
        is_request = "method" in data or "url" in data if data else number == 0
        (requests if is_request else results).append(file)
    return requests, results


def existing_files(files: list[Path]) -> list[Path]:
    """Return result files.

    Raises:
        RecipeError: One of them does not exist, or none was given.
    """
    for path in files:
        if not path.is_file():
            raise RecipeError(f"There is no file {path}. Give what the provider or `vllm run-batch` wrote.")
    if not files:
        raise RecipeError("No file of results was given.")
    return files


def _written(path: Path) -> list[Path]:
    if path.exists():
        return [path]
    parts: list[Path] = []
    while (part := _part(path, len(parts) + 1)).exists():
        parts.append(part)
    return parts


def _part(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number:03d}{path.suffix}")


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines with their ends, without empty ones."""
    opened = gzip.open if file.suffix == ".gz" else open
    with _file_errors(file), opened(file, "rb") as lines:
        check_packed(file)
        yield from ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        data = decode(line)
    except ValueError:
        return None
    return data if isinstance(data, Mapping) else None


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise RecipeError(f"{path} cannot be used: {getattr(error, 'strerror', None) or error}.") from error


BatchOutcome: TypeAlias = Response | TransportError


@dataclass(kw_only=True, slots=True)
class BatchResults:
    """What result files say."""

    outcomes: dict[str, list[BatchOutcome]] = field(default_factory=dict)
    """By `custom_id`: a response, or why there is none; several where a provider failed first and answered later."""
    repeated: int = 0
    unknown: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)


def read_results(files: Iterable[Path], known: Container[str]) -> BatchResults:
    """Read result files in any order; what cannot be used is told, never dropped without a word."""
    results = BatchResults()
    for file in files:
        for number, line in _lines(file):
            where = f"{file.name}, line {number}"
            data = _object(line)
            if data is None or not isinstance(data.get("custom_id"), str):
                # A last line without its end is a download that stopped, and not a file of another kind.
                is_cut = data is None and not line.endswith(b"\n")
                (results.cut_short if is_cut else results.unreadable).append(where)
            elif data["custom_id"] not in known:
                results.unknown.append(safe_text(data["custom_id"])[:_MAX_NAME])
            else:
                _add(results, data["custom_id"], read_result(data))
    return results


def _add(results: BatchResults, key: str, outcome: BatchOutcome) -> None:
    before = results.outcomes.setdefault(key, [])
    if any(_is_same(outcome, other) for other in before):
        results.repeated += 1
    else:
        before.append(outcome)


def _is_same(outcome: BatchOutcome, other: BatchOutcome) -> bool:
    return outcome == other or (isinstance(outcome, TransportError) and str(outcome) == str(other))


def read_result(line: Mapping[str, Any]) -> BatchOutcome:
    """Read one line of a result file.

    Understands the output and error files of OpenAI and its followers and those of `vllm run-batch`, where an error has
    no body, and lines whose response is the completion itself.

    Example:
        >>> expired = {"code": "batch_expired", "message": "Not executed in time."}
        >>> str(read_result({"custom_id": "a", "response": None, "error": expired}))
        'server: batch_expired: Not executed in time.'
    """
    try:
        return _response(line.get("response"), line.get("error"))
    except TransportError as failure:
        return failure.with_traceback(None)
    except RecursionError:
        return TransportError("malformed", "The result is nested too deeply.")


def _response(given: object, error: object) -> Response:
    status = given.get("status_code", 200) if isinstance(given, Mapping) else None
    # OpenAI has sent status 0 for requests of which nothing came back.
    if not isinstance(given, Mapping) or not isinstance(status, int) or not 200 <= status < 600:
        raise _never_answered(error)
    body = given if "choices" in given else given.get("body")
    if status >= 300:
        failure = next((part for part in (body, error) if part is not None), given)
        return read_error(status, {}, encode(failure if isinstance(failure, Mapping) else {"message": str(failure)}))
    if body is None and is_error(error):
        raise _never_answered(error, status)
    return read_completion(body, status)


def _never_answered(error: object, status: int | None = None) -> TransportError:
    parts = error if isinstance(error, Mapping) else {"message": error}
    code, message = str(parts.get("code") or "failed"), parts.get("message") or "no reason given"
    kind: FailureKind = "timeout" if code == _RAN_OUT_OF_TIME else "server"
    return TransportError(kind, f"{code}: {message}", status)


class BatchImporter:
    """Writes outcomes to a journal, and counts them."""

    def __init__(self, journal: Journal, price: Price | None, *, is_discounted: bool) -> None:
        self.counts: Counter[str] = Counter()
        """`answered`, `already`, `refused`, `failed`; `micro` dollars booked, and `unpriced` outcomes."""
        self._journal, self._price, self._is_discounted = journal, price, is_discounted

    async def keep_all(self, exported: Iterable[tuple[str, Request]], outcomes: dict[str, list[BatchOutcome]]) -> None:
        """Keep the outcomes of exported requests, by key; empties `outcomes`."""
        waiting: list[tuple[str, Request, list[BatchOutcome]]] = []
        for key, request in exported:
            if key in outcomes:
                waiting.append((key, request, outcomes.pop(key)))
            if len(waiting) == _TOGETHER:
                await asyncio.gather(*(self._keep(*result) for result in waiting))
                waiting.clear()
        await asyncio.gather(*(self._keep(*result) for result in waiting))

    async def _keep(self, key: str, request: Request, outcomes: list[BatchOutcome]) -> None:
        if self._is_answered(key):
            self.counts["already"] += 1
            return
        worst = self._worst(request)
        for outcome in outcomes:
            if isinstance(outcome, TransportError):
                micro, is_known = failure_micro(outcome, self._price, worst)
                reason = str(outcome) if ending_of(outcome).booked == "nothing" else f"{ATTEMPT} 1: {outcome}"
                await self._fail(key, request, reason, micro, is_known=is_known, usage=outcome.usage)
                continue
            response = believed(self._price, outcome)
            cost = response_micro(self._price, response)
            # Whether there is an answer at all does not depend on what the prompt calls the answers.
            if problem := why_not_served(read(response, {})):
                micro = worst if cost is None else cost
                await self._fail(key, request, problem, micro, is_known=cost is not None, response=response)
            elif not self._is_answered(key):
                await self._answer(key, request, response, cost, worst)

    async def _answer(self, key: str, request: Request, response: Response, cost: int | None, worst: int) -> None:
        # With its own price: a later run that reads it only knows the list's.
        discounted = cost if self._is_discounted else None
        kept = response if discounted is None else replace(response, cost_usd=discounted / 1_000_000)
        micro = worst if cost is None else cost
        await Budget(self._journal, None).answered(request, key, kept, cost_micro=micro)
        self._count("answered", micro, is_known=cost is not None)

    def _is_answered(self, key: str) -> bool:
        return self._journal.get(key) is not None

    async def _fail(
        self,
        key: str,
        request: Request,
        reason: str,
        micro: int,
        *,
        is_known: bool,
        response: Response | None = None,
        usage: Response | None = None,
    ) -> None:
        budget = None
        if micro:
            # A budget with room for exactly this: when it is imported again it is spent, and nothing is booked.
            content = response.to_json() if response else reason
            budget = f"batch-{hashlib.sha256(f'{key} {content}'.encode()).hexdigest()}"
            self._journal.open_budget(budget, micro)
            # Whatever others do with this call meanwhile: it is booked, not sent.
            if not await self._journal.reserve(key, budget=budget, worst_micro=micro, even_if_taken=True):
                self.counts["already"] += 1
                return
        await Budget(self._journal, budget).failed(request, key, reason, cost_micro=micro, response=response or usage)
        self._count("refused" if response else "failed", micro, is_known=is_known)

    def _count(self, name: str, micro: int, *, is_known: bool) -> None:
        self.counts[name] += 1
        self.counts["unpriced"] += self._price is None and not is_known
        self.counts["micro"] += micro

    def _worst(self, request: Request) -> int:
        price = self._price
        return 0 if price is None else worst_case_micro(price, prompt_size(request), request.max_tokens or 0)
