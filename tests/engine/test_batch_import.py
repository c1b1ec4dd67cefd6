"""Results of batches: how they enter the journal, everything that can be wrong with a file, and the money."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.batch import ImportSummary, export_batch, import_batch, read_result
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.models.prices import cost_micro, price_of, response_micro
from jrh_mlflow.schema.requests import Request, Response
from tests.engine.batch_tools import Line, answered, completion, http_error, read, write
from tests.engine.journal_tools import give_back

MODEL = "openai/gpt-4o-mini"
PRICES = {MODEL: (1000.0, 2000.0)}
COST = 100 * 1000 + 10 * 2000
"""Micro-dollars of one `completion()`."""
JUDGE = jrh.PromptedJudge(MODEL, max_tokens=64)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "journal.db") as book:
        yield book


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, suite = tmp_path_factory.mktemp("exported"), jrh.datasheet_suite(n_tasks=1, depth=2)
    with open_journal(folder / "journal.db") as empty:
        return export_batch(JUDGE, suite, empty, folder / "requests.jsonl").files[0]


@pytest.fixture
def requests(tmp_path: Path, exported: Path) -> Path:
    return Path(shutil.copy(exported, tmp_path))


@pytest.fixture
def keys(requests: Path) -> list[str]:
    return [line["custom_id"] for line in read(requests)]


@pytest.fixture
def bring(requests: Path, journal: Journal, tmp_path: Path) -> Callable[..., ImportSummary]:
    def run(*lines: Line, judge: jrh.PromptedJudge = JUDGE, **options: Any) -> ImportSummary:
        return import_batch(requests, write(tmp_path / "results.jsonl", lines), journal, judge, **options)

    return run


def test_an_answer_is_kept_as_a_live_run_keeps_it_and_served_from_then_on(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str], tmp_path: Path
) -> None:
    done = bring(answered(keys[2]), answered(keys[0]))
    assert (done.answered, done.missing) == (2, len(keys) - 2)
    kept = journal.get(keys[0])
    assert kept is not None
    assert Response.from_json(kept) == read_result(answered(keys[0]))
    assert [key for key in keys if journal.get(key) is None] == [keys[1], *keys[3:]]


def test_refusals_and_failures_are_recorded_but_not_served(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    done = bring(
        answered(keys[0], completion(None, refusal="I cannot.")),
        answered(keys[1], {**completion(), "choices": []}),
        answered(keys[2], completion("")),
        answered(keys[3], response=http_error(400, "No.", "content_filter")),
        answered(keys[4], response=http_error(500, "Down.")),
        answered(keys[5], completion("prose without an answer")),
    )
    assert (done.refused, done.failed, done.answered) == (4, 1, 1)
    assert [journal.get(key) is None for key in keys[:6]] == [True, True, True, True, True, False]
    assert (journal.summary().failed, journal.summary().in_flight) == (5, 0)


def test_an_empty_answer_that_was_cut_off_is_not_kept(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    cut_off = completion("")
    cut_off["choices"][0]["finish_reason"] = "length"
    done = bring(answered(keys[0]), answered(keys[1], cut_off))
    assert (done.answered, done.refused, done.already) == (1, 1, 0)
    assert "verdict" in str(journal.get(keys[0]))
    assert journal.get(keys[1]) is None
    assert (journal.summary().answered, journal.summary().in_flight) == (1, 0)


def test_importing_again_changes_nothing_and_books_nothing(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    lines = [
        answered(keys[0]),
        answered(keys[1], completion(None, refusal="I cannot.")),
        answered(keys[2], response=None, error={"code": "request_timeout", "message": "Late."}),
    ]
    first = bring(*lines, prices=PRICES)
    spent, counted = journal.summary().spent_micro, journal.summary().failed
    assert (first.answered, first.refused, first.failed) == (1, 1, 1)
    assert first.cost_usd == spent / 1e6 > 2 * COST / 1e6, "what timed out is booked at its worst case"
    again = bring(*lines[::-1], prices=PRICES)
    assert (again.answered, again.refused, again.failed, again.already) == (0, 0, 0, 3)
    assert (journal.summary().spent_micro, journal.summary().failed) == (spent, counted)
    assert again.cost_usd == 0


def test_a_refusal_is_booked_while_a_live_run_has_the_same_call_in_flight(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str], tmp_path: Path
) -> None:
    with open_journal(tmp_path / "journal.db") as live:
        assert asyncio.run(live.reserve(keys[0], budget=None, worst_micro=7))
        done = bring(answered(keys[0], completion(None, refusal="I cannot.")), prices=PRICES)
        assert (done.refused, done.already, done.cost_usd) == (1, 0, COST / 1e6)
        asyncio.run(give_back(live, keys[0], budget=None))
    assert journal.summary().spent_micro == COST


def test_usage_is_priced_with_the_discount(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    assert bring(answered(keys[0]), prices=PRICES).cost_usd == COST / 1e6
    assert bring(answered(keys[1]), prices=PRICES, discount=0.5).cost_usd == COST / 2e6
    assert journal.summary().spent_micro == COST + COST // 2
    price = price_of(MODEL)
    assert price is not None
    assert bring(answered(keys[2])).cost_usd == cost_micro(price, 100, 10) / 1e6, "litellm's table is the default"


def test_an_answer_without_usage_is_booked_at_its_worst_case(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    without_usage = {**completion(), "usage": None}
    done = bring(answered(keys[0], without_usage), answered(keys[1]), prices=PRICES)
    assert done.cost_usd == journal.summary().spent_micro / 1e6 > 2 * COST / 1e6


def test_without_a_price_the_cost_is_none_and_never_0(
    bring: Callable[..., ImportSummary], keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jrh.PromptedJudge, "price", lambda *_: None)
    assert bring(answered(keys[0])).cost_usd is None


def test_an_answer_of_a_batch_keeps_its_discounted_price(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    bring(answered(keys[1]), prices=PRICES, discount=0.5)
    kept = Response.from_json(journal.get(keys[1]) or "")
    assert response_micro(price_of(MODEL, PRICES), kept) == COST / 2


@pytest.mark.parametrize("discount", [-0.1, 1.1, float("nan")])
def test_a_discount_is_a_share(bring: Callable[..., ImportSummary], keys: list[str], discount: float) -> None:
    with pytest.raises(RecipeError, match="between 0 and 1"):
        bring(answered(keys[0]), discount=discount)


def test_repeated_lines_count_once_and_a_later_answer_heals_a_failure(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    down = answered(keys[0], response=http_error(500, "Down."))
    done = bring(down, down, answered(keys[0]), answered(keys[0]), answered(keys[0], completion("other")))
    assert (done.answered, done.failed, done.repeated) == (1, 1, 2)
    assert Response.from_json(str(journal.get(keys[0]))).text == completion()["choices"][0]["message"]["content"]


def test_an_answer_that_is_there_already_stays(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str]
) -> None:
    bring(answered(keys[0]))
    before = journal.get(keys[0])
    done = bring(answered(keys[0], completion("another")), answered(keys[1]))
    assert (done.already, done.answered) == (1, 1)
    assert journal.get(keys[0]) == before


def test_unknown_ids_are_counted_and_named_without_control_characters(
    bring: Callable[..., ImportSummary], keys: list[str]
) -> None:
    done = bring(answered(keys[0]), answered("of-another\x1b[31m export"), answered("x" * 500))
    assert done.unknown == ("of-another [31m export", "x" * 64)
    with pytest.raises(RecipeError, match=r"holds no result of .*1 lines are of other requests.*'nobody'"):
        bring(answered("nobody"))


def test_lines_that_are_no_result_are_told_and_the_others_are_kept(
    requests: Path, journal: Journal, keys: list[str], tmp_path: Path
) -> None:
    good = [json.dumps(answered(key)).encode() for key in keys[:3]]
    deep = b'{"custom_id": ' + b"[" * 100_000 + b"}"
    other = [b"\xff\xfe", b"[1]", b'{"custom_id": 7}', b'{"response": null}', deep]
    file = tmp_path / "results.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([good[0], b"", *other, good[1]]) + b"\n" + good[2][:-20])
    done = import_batch(requests, file, journal, JUDGE)
    assert done.answered == 2
    assert done.unreadable == tuple(f"results.jsonl, line {number}" for number in range(3, 8))
    assert done.cut_short == ("results.jsonl, line 9",)
    file.write_bytes(good[2])
    whole = import_batch(requests, file, journal, JUDGE)
    assert (whole.answered, whole.cut_short) == (1, ()), "a last line may go without its end"
    file.write_bytes(good[2] + b"\n{}")
    assert import_batch(requests, file, journal, JUDGE).unreadable == ("results.jsonl, line 2",)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"temperature": 1.0}, "temperature"),
        ({"max_tokens": 65, "seed": 1}, "max_tokens, seed"),
        ({"model": "openai/gpt-4o"}, "model"),
        ({"model": "hosted_vllm/gpt-4o-mini"}, "provider, api_base"),
        ({"api_base": "http://localhost:1/v1"}, "provider, api_base"),
        ({"logprobs": True}, "logprobs"),
        ({"extra": {"top_p": 0.1}}, "top_p"),
    ],
)
def test_a_judge_that_is_not_the_one_of_the_export_is_refused_before_anything_is_written(
    bring: Callable[..., ImportSummary], journal: Journal, keys: list[str], settings: dict[str, Any], named: str
) -> None:
    other = jrh.PromptedJudge(**{"model": MODEL, "max_tokens": 64, **settings})
    with pytest.raises(RecipeError, match=rf"line 1: the judge was another one, it differs in .*{named}"):
        bring(answered(keys[0]), judge=other)
    assert journal.summary().answered == 0


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"not json\n", "line 1 is not JSON"),
        (b'{"custom_id": "a"}\n', "line 1 is no request of a batch export"),
        (b'{"custom_id": "a", "body": {"messages": ["x"]}}\n', "line 1 is no request of a batch export"),
        (b"", "holds no result"),
    ],
)
def test_a_file_that_is_no_export_is_refused(
    requests: Path, journal: Journal, tmp_path: Path, keys: list[str], content: bytes, text: str
) -> None:
    requests.write_bytes(content)
    with pytest.raises(RecipeError, match=text):
        import_batch(requests, write(tmp_path / "results.jsonl", [answered(keys[0])]), journal, JUDGE)


def test_the_order_of_the_requests_does_not_matter_either(
    bring: Callable[..., ImportSummary], requests: Path, keys: list[str]
) -> None:
    write(requests, read(requests)[::-1])
    assert bring(*(answered(key) for key in keys)).answered == len(keys)


def test_an_export_whose_text_was_edited_is_found_out(
    bring: Callable[..., ImportSummary], requests: Path, keys: list[str]
) -> None:
    requests.write_bytes(requests.read_bytes().replace(b"Compare", b"Consider", 1))
    with pytest.raises(RecipeError, match="or texts"):
        bring(answered(keys[0]))


def test_files_that_do_not_exist_are_named(requests: Path, journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"There is no file .*nowhere\.jsonl"):
        import_batch(tmp_path / "nowhere.jsonl", requests, journal, JUDGE)
    with pytest.raises(RecipeError, match=r"There is no file .*results\.jsonl"):
        import_batch(requests, tmp_path / "results.jsonl", journal, JUDGE)
    with pytest.raises(RecipeError, match="No file of results"):
        import_batch(requests, [], journal, JUDGE)


def some_of(keys: list[str], requests: Path) -> tuple[list[str], list[Line]]:
    """Six requests, two of them identical: for each whose id is not ours ten thousand keys are tried."""
    lines = read(requests)
    equal = next([n, m] for n in range(len(lines)) for m in range(n) if lines[n]["body"] == lines[m]["body"])
    chosen = sorted({*range(6), *equal})
    return [keys[n] for n in chosen], [lines[n] for n in chosen]


def test_files_with_ids_of_another_kind_are_matched_by_what_was_sent(
    bring: Callable[..., ImportSummary], requests: Path, journal: Journal, keys: list[str]
) -> None:
    keys, lines = some_of(keys, requests)
    write(requests, [{**line, "custom_id": f"request-{n}"} for n, line in enumerate(lines)])
    assert bring(*(answered(f"request-{n}") for n in range(len(lines)))).answered == len(keys)
    assert set(journal.get_many(keys)) == set(keys), "each of several identical requests has its own key"


def test_of_an_id_that_cannot_be_ours_no_key_is_looked_for(
    bring: Callable[..., ImportSummary], requests: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, lines = some_of(keys, requests)
    write(requests, [{**line, "custom_id": f"request-{n}"} for n, line in enumerate(lines)])
    hashed: list[int] = []
    key = Request.key
    monkeypatch.setattr(Request, "key", lambda request, number: hashed.append(number) or key(request, number))
    bring(*(answered(f"request-{n}") for n in range(len(lines))))
    assert len(hashed) <= 20 * len(lines)


def test_an_id_of_ours_that_does_not_fit_is_matched_by_what_was_sent_only_when_that_is_asked_for(
    bring: Callable[..., ImportSummary], requests: Path, journal: Journal, keys: list[str]
) -> None:
    keys, lines = some_of(keys, requests)
    older = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
    write(requests, [{**line, "custom_id": name} for line, name in zip(lines, older, strict=True)])
    with pytest.raises(RecipeError, match="other keys"):
        bring(*map(answered, older))
    assert bring(*map(answered, older), by_request=True).answered == len(keys)
    assert set(journal.get_many(keys)) == set(keys)
    with pytest.raises(RecipeError, match="temperature"):
        bring(answered(older[0]), judge=jrh.PromptedJudge(MODEL, max_tokens=64, temperature=1.0), by_request=True)


def test_packed_files_are_read_as_they_are(requests: Path, journal: Journal, tmp_path: Path, keys: list[str]) -> None:
    packed, results = tmp_path / "requests.jsonl.gz", tmp_path / "results.jsonl.gz"
    packed.write_bytes(gzip.compress(requests.read_bytes()))
    results.write_bytes(gzip.compress(write(tmp_path / "r.jsonl", map(answered, keys)).read_bytes()))
    assert import_batch(packed, results, journal, JUDGE).answered == len(keys)
    results.write_bytes(results.read_bytes()[:-20])
    with pytest.raises(RecipeError, match="cannot be used"):
        import_batch(packed, results, journal, JUDGE)
