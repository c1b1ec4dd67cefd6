"""The texts of requests: kept once, read back to the letter, dropped when no call needs them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import Numbering, plan_calls
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.engine.journal.texts import StoredText, TextPacker, text_name, whole_texts
from tests.engine.journal_tools import BACKENDS, backend_of

ANSWER = '{"text": "a reason that is long enough to be compressed"}' * 20


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `open_journal` takes to open an empty journal, from any process."""
    return BACKENDS[request.param].make(tmp_path)


@pytest.fixture(scope="module")
def requests() -> list[str]:
    """Real requests: both orders of pairs of one task, and of others."""
    judge = jrh.PromptedJudge("openai/gpt-4o-mini")
    numbering = Numbering(judge)
    calls = plan_calls(jrh.load_suite("datasheet-short"), judge, replicates=1)
    return list(dict.fromkeys(numbering.prepare(call)[0].canonical() for call in calls))[:64]


async def answer_all(journal: Journal, texts: list[str], *, replicates: int = 1) -> None:
    for number, text in enumerate(texts * replicates):
        await journal.answered(str(number), request_json=text, response_json=ANSWER, cost_micro=0, budget=None)


def kept(journal: Journal) -> list[str | None]:
    return [request for _, request, _ in journal.settled_since(0)]


def n_texts(address: str) -> int:
    return int(backend_of(address).execute(address, "SELECT count(*) FROM {}texts")[0][0])


def test_every_request_is_read_back_to_the_letter_and_takes_a_fraction_of_its_room(
    address: str, requests: list[str]
) -> None:
    with open_journal(address) as journal:
        asyncio.run(answer_all(journal, requests, replicates=2))
    with open_journal(address) as journal:
        assert kept(journal) == requests * 2
        assert {call.response for call, _, _ in journal.settled_since(0)} == {ANSWER}
        assert journal.get_many(["0", "1"]) == {"0": ANSWER, "1": ANSWER}
    assert n_texts(address) == len(requests)
    ((size,),) = backend_of(address).execute(address, "SELECT sum(length(body)) FROM {}texts")
    assert size < sum(map(len, requests)) / 6


def test_another_process_finds_the_texts_of_the_first_and_adds_none(address: str, requests: list[str]) -> None:
    for texts in (requests, requests[::-1]):
        with open_journal(address) as journal:
            asyncio.run(answer_all(journal, texts))
    assert n_texts(address) == len(requests)


def test_pruning_drops_the_texts_that_no_call_needs_and_keeps_those_that_others_lie_on(
    address: str, requests: list[str]
) -> None:
    async def fail(journal: Journal) -> None:
        for number, text in enumerate(requests[:4]):
            key, reason = f"failed {number}", "HTTP 500"
            await journal.failed(key, request_json=text, reason=reason, response_json=None, cost_micro=0, budget=None)

    with open_journal(address) as journal:
        asyncio.run(fail(journal))
        asyncio.run(answer_all(journal, requests[4:8]))
        assert journal.prune(older_than_days=None, failed=True) == 4
        assert 4 < n_texts(address) < 8
        assert kept(journal) == requests[4:8]
        assert journal.prune(older_than_days=0, failed=False) == 4
        assert n_texts(address) == 0
        # What this process remembers of texts that are gone is written again.
        asyncio.run(answer_all(journal, requests[6:9]))
        assert kept(journal) == requests[6:9]


def test_no_text_is_dropped_under_a_call_that_is_being_written(address: str, requests: list[str]) -> None:
    done = threading.Event()

    async def write(journal: Journal) -> None:
        for number, text in enumerate(requests[:40]):
            key, reason = f"failed {number}", "HTTP 500"
            await journal.failed(key, request_json=text, reason=reason, response_json=None, cost_micro=0, budget=None)
            await journal.answered(str(number), request_json=text, response_json="{}", cost_micro=0, budget=None)

    def prune(journal: Journal) -> None:
        while not done.is_set():
            journal.prune(older_than_days=None, failed=True)

    with open_journal(address) as writing, open_journal(address) as pruning:
        pruner = threading.Thread(target=prune, args=(pruning,))
        pruner.start()
        asyncio.run(write(writing))
        done.set()
        pruner.join()
        pruning.prune(older_than_days=None, failed=True)
        assert kept(pruning) == requests[:40]


def test_a_damaged_text_costs_no_answer(address: str, requests: list[str]) -> None:
    with open_journal(address) as journal:
        asyncio.run(answer_all(journal, requests[:3]))
        backend_of(address).execute(address, "UPDATE {}texts SET body = base WHERE base IS NOT NULL")
        assert kept(journal) == [requests[0], None, None]
        assert journal.get_many(["0", "1", "2"]) == dict.fromkeys("012", ANSWER)
        assert journal.summary().damaged == 0


LINES = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
TEXTS = st.lists(st.lists(LINES, max_size=12).map("\\n".join), max_size=12)


@given(TEXTS)
def test_texts_that_are_packed_are_read_back(texts: list[str]) -> None:
    packer = TextPacker()
    rows = {row.name: row for text in texts for row in packer.pack(text)}
    assert whole_texts(rows) == {text_name(text): text for text in texts}


def test_what_is_remembered_of_texts_is_forgotten_in_time_and_no_text_lies_deep(
    requests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jrh_mlflow.engine.journal.texts._REMEMBERED_BYTES", 3 * len(requests[0]))
    packer = TextPacker()
    chains = [list(packer.pack(text)) for text in requests]
    assert max(map(len, chains)) <= 6
    assert sum(chain[0].base is None for chain in chains) >= len(requests) / 5
    assert set(whole_texts({row.name: row for chain in chains for row in chain}).values()) == set(requests)


def test_a_text_that_is_a_line_of_another_is_not_taken_for_it() -> None:
    packer = TextPacker()
    texts = ["the longest line of all\\nshort", "the longest line of all", "the longest"]
    rows = {row.name: row for text in texts for row in packer.pack(text)}
    assert [whole_texts(rows)[text_name(text)] for text in texts] == texts


def test_a_text_that_names_itself_or_nothing_as_its_base_is_left_out() -> None:
    (row,) = TextPacker().pack("text")
    assert whole_texts({row.name: row}) == {row.name: "text"}
    for base in (row.name, b"nothing"):
        assert whole_texts({row.name: StoredText(row.name, base, row.body)}) == {}
