"""Batch files: what a journal does not answer yet, in OpenAI's batch dialect, and the results back into the journal.

A line of an export is one call, named by its key in the journal. So a batch and a live run complete each other: a run
asks only what no batch has answered, and an export holds only what no run has answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from jrh_mlflow.engine.batch_files import (
    NumberedFiles,
    Results,
    existing_files,
    export_files,
    read_requests,
    read_results,
)
from jrh_mlflow.engine.batch_outcomes import Importer
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.engine.lanes._addresses import resolve
from jrh_mlflow.engine.lanes._base import OPENAI_DIALECT, LaneError, split_model
from jrh_mlflow.engine.lanes._dialect import chat_body
from jrh_mlflow.engine.lanes._json import encode
from jrh_mlflow.engine.money import judge_price
from jrh_mlflow.engine.plan import plan_calls
from jrh_mlflow.engine.prices import Overrides, Price, context_window, prompt_size
from jrh_mlflow.engine.remote import looked_up
from jrh_mlflow.engine.runner import run_coroutine
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.requests import Request
from jrh_mlflow.stimuli.suite import Suite

ENDPOINT = "/v1/chat/completions"
MAX_REQUESTS = 50_000
"""Of one file, at OpenAI and those who took over its dialect."""
MAX_BYTES = 200_000_000

_MOST_ALIKE = 10_000
"""How many identical requests of one run are told apart by their number."""


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
    """Booked by this import; None when the cost of one of its results is unknown."""


def export_batch(
    judge: PromptedJudge,
    suite: Suite,
    journal: Journal,
    path: str | Path,
    *,
    replicates: int = 1,
    max_requests: int = MAX_REQUESTS,
    max_bytes: int = MAX_BYTES,
) -> BatchSummary:
    """Write the calls of an evaluation that the journal does not answer, as the direct lane would send them.

    Neither a key nor an address is needed, and none is written. What is over a limit goes into numbered parts.

    Args:
        judge: A model of a provider that speaks the OpenAI dialect.
        suite: What to judge.
        journal: Its answers are left out.
        path: The file to write; one that exists is never overwritten, because its import needs it.
        replicates: How often each presentation is asked.
        max_requests: Of one file.
        max_bytes: Of one file.

    Raises:
        RecipeError: The model has no such batches, or the file cannot be written.
    """
    if min(replicates, max_requests, max_bytes) < 1:
        raise ValueError(f"`{replicates=}, {max_requests=}, {max_bytes=}` must all be 1 or more.")
    _demand_dialect(judge)
    judge.begin(suite)
    window, counts = context_window(judge.model), Counter[str]()
    planned = plan_calls(suite, judge, replicates=replicates)
    with NumberedFiles(Path(path), max_lines=max_requests, max_bytes=max_bytes) as files:
        for request, key, answered in looked_up(judge, planned, journal):
            counts["calls"] += 1
            if answered:
                counts["journalled"] += 1
            elif window is not None and prompt_size(request) > 4 * window:
                counts["too_long"] += 1
            else:
                files.add(_line(request, key))
    return BatchSummary(
        calls=counts["calls"],
        journalled=counts["journalled"],
        too_long=counts["too_long"],
        requests=files.n_lines,
        files=files.written,
        size_bytes=files.n_bytes,
    )


def import_batch(
    requests: str | Path,
    results: str | Path | Sequence[str | Path],
    journal: Journal,
    judge: PromptedJudge,
    *,
    prices: Overrides | None = None,
    discount: float = 0.0,
) -> ImportSummary:
    """Bring the results of an export into the journal; importing them again changes nothing.

    The order of the lines does not matter. A call that the journal answers already keeps its answer.

    Args:
        requests: The file that was exported; its numbered parts are found by the name of the whole.
        results: What the provider or `vllm run-batch` wrote: output files, error files, of all parts or of some.
        journal: Where the answers go.
        judge: The judge of the export. Nothing is written when the file says that it was another one.
        prices: As for `evaluate`.
        discount: Share of the price that is taken off for batches: 0.5 at OpenAI.

    Raises:
        RecipeError: A file is missing or is not what it should be, or the judge is another one.
    """
    if not 0 <= discount <= 1:
        raise RecipeError(f"A discount is a share between 0 and 1, but got {discount!r}.")
    price = _discounted(judge_price(judge, prices), discount)
    files = export_files(Path(requests))
    result_files = existing_files(map(Path, [results] if isinstance(results, str | Path) else results))
    known = {key for key, _ in _exported(files, judge)}
    found = read_results(result_files, known)
    if not found.outcomes:
        raise RecipeError(_nothing(files, result_files, found))
    missing = len(known) - len(found.outcomes)
    importer = Importer(journal, price)
    run_coroutine(importer.keep_all(_exported(files, judge), found.outcomes))
    return ImportSummary(
        answered=importer.counts["answered"],
        already=importer.counts["already"],
        refused=importer.counts["refused"],
        failed=importer.counts["failed"],
        missing=missing,
        repeated=found.repeated,
        unknown=tuple(found.unknown),
        unreadable=tuple(found.unreadable),
        cut_short=tuple(found.cut_short),
        cost_usd=None if importer.counts["unpriced"] else importer.counts["micro"] / 1_000_000,
    )


def _nothing(files: Sequence[Path], result_files: Sequence[Path], found: Results) -> str:
    told = f"{len(found.unknown)} lines are of other requests, {len(found.unreadable + found.cut_short)} are unreadable"
    first = f" (the first: {found.unknown[0]!r})" if found.unknown else ""
    return f"{result_files[0]} holds no result of {files[0]}: {told}{first}. Give the two that belong together."


def _demand_dialect(judge: PromptedJudge) -> None:
    provider, _ = split_model(judge.model)
    if provider in OPENAI_DIALECT or (provider is None and judge.api_base):
        return
    known = "openai/… or hosted_vllm/…, or give api_base"
    raise RecipeError(f"Batch files are of the OpenAI dialect, and {judge.model!r} names no provider of it: {known}.")


def _line(request: Request, key: str) -> bytes:
    try:
        request.canonical().encode()
    except UnicodeEncodeError:
        raise RecipeError("A prompt holds half a character (a lone surrogate). Mend its template or rubric.") from None
    return encode({"custom_id": key, "method": "POST", "url": ENDPOINT, "body": _body(request)}) + b"\n"


def _body(request: Request) -> dict[str, Any]:
    model, max_tokens = _wire_names(request.model, request.api_base)
    try:
        return chat_body(request, model=model, max_tokens=max_tokens)
    except LaneError as error:
        raise RecipeError(error.text) from None


@lru_cache(maxsize=16)
def _wire_names(model: str, api_base: str | None) -> tuple[str, str]:
    # Only names are taken from the address: where the judge has none any will do, and no key is asked for.
    address = resolve(model, api_base or "http://unused.invalid")
    return address.model, address.max_tokens


def _exported(files: Iterable[Path], judge: PromptedJudge) -> Iterator[tuple[str, Request]]:
    """Yield key and request of every exported line.

    A key is the hash of its request, so a file that was edited, or written for another judge, is found out.
    """
    next_number: dict[str, int] = {}
    for where, data in read_requests(files):
        try:
            key, body = str(data["custom_id"]), data["body"]
            request = _request(body, judge)
        except (KeyError, TypeError, ValueError):
            raise RecipeError(f"{where} is no request of a batch export. Give the file that was exported.") from None
        first = request.key(0)
        start = next_number.get(first, 0)
        # Exported in rising order, so the number is nearly always the next one.
        numbers = (n for n in chain(range(start, _MOST_ALIKE), range(start)) if request.key(n) == key)
        if (number := next(numbers, None)) is None:
            raise RecipeError(f"{where}: {_difference(body, request)} Give the options of the export.")
        next_number[first] = number + 1
        yield key, request


def _request(body: Mapping[str, Any], judge: PromptedJudge) -> Request:
    schema = body["response_format"]["json_schema"]["schema"] if "response_format" in body else None
    return Request(
        model=judge.model,
        messages=tuple(dict(message) for message in body["messages"]),
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        seed=judge.seed,
        response_schema=schema,
        logprobs=judge.logprobs,
        api_base=judge.api_base,
        extra=judge.extra,
    )


def _difference(body: Mapping[str, Any], request: Request) -> str:
    now = _body(request)
    names = sorted(name for name in {*now, *body} if now.get(name) != body.get(name))
    return f"the judge was another one, it differs in {', '.join(names) or 'provider, api_base or texts'}."


def _discounted(price: Price | None, discount: float) -> Price | None:
    if price is None or not discount:
        return price

    def less(usd: float) -> float:
        return float(Decimal(repr(usd)) * (1 - Decimal(repr(discount))))

    long_prompts = tuple((above, less(given), less(made)) for above, given, made in price.long_prompts)
    return Price(input_usd=less(price.input_usd), output_usd=less(price.output_usd), long_prompts=long_prompts)
