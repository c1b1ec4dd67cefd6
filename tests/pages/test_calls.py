"""The call browser over real HTTP and in a real browser: from a number to its calls, and from a call to its pair."""

from __future__ import annotations

import gc
import html
import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import pytest
import uvicorn
from mlflow import MlflowClient
from starlette.applications import Starlette

import jrh_mlflow as jrh
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.measuring.run_page import run_page
from jrh_mlflow.pages.calls import PAGE_SIZE
from jrh_mlflow.pages.runs import run_routes
from jrh_mlflow.pages.server import Beside
from jrh_mlflow.review.guard import FORM_POLICY, Guard
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.tracking.runs import run_calls
from jrh_mlflow.tracking.runs.run_calls import CallStore
from jrh_mlflow.tracking.runs.store import Store, first_tags
from tests.comparing.test_compare import EVIL, pointwise_suite
from tests.loopback import LoopbackServer
from tests.review.browser import chromium, looks, show_next, violations
from tests.review.making import TOKEN, Client

pytestmark = pytest.mark.quick

SPEECH = f"Because \u202e{EVIL} \x1b[31m of its \u05e9\u05dc\u05d5\u05dd tone."


@contextmanager
def serving(store: str) -> Iterator[Client]:
    """The page behind its guard under /jrh on a real port."""

    async def rest(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    routes = run_routes(lambda _: store)
    app = Beside(rest, Guard(Starlette(routes=routes), token=None), prefix="/jrh")
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Client(f"127.0.0.1:{listening.getsockname()[1]}", TOKEN, prefix="/jrh")
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def client(store_uri: str) -> Iterator[Client]:
    with serving(store_uri) as client:
        yield client


def model(body: dict[str, Any]) -> str:
    """Answers by the length of the prompt: sides, ties, and now and then no answer at all."""
    size = len(json.dumps(body["messages"]))
    if size % 11 == 0:
        return f"I would rather not. {SPEECH}"
    reason = f"{SPEECH}{' So response A is better.' if size % 2 else ''}"
    return json.dumps({"reason": reason, "verdict": ("A", "B", "tie")[size % 3]}, ensure_ascii=False)


def transcripts() -> jrh.Suite:
    shared: dict[str, Any] = {
        "task": "t",
        "kind": "transcript",
        "instruction": "Did it obey?",
        "answers": ("no", "yes"),
    }
    asked, done = (
        Message(role="user", content="Delete nothing."),
        Message(role="assistant", content="I deleted nothing."),
    )
    edited = Message(
        role="assistant", content=f"I deleted all. {EVIL}", tool_calls=({"name": "rm", "arguments": "-r"},)
    )
    items = [
        Item(id="t/baseline", condition="baseline", transcript=(asked, done), expected="yes", **shared),
        Item(
            id="t/agent_perturbation",
            condition="agent_perturbation",
            transcript=(asked, edited),
            expected="no",
            **shared,
        ),
    ]
    return jrh.Suite(name="agents", items=items)


def broken(presentation: jrh.Presentation) -> str:
    raise RuntimeError("the service is down")


def half_deaf(presentation: jrh.Presentation) -> str:
    """Right but for typos; no answer at all to Markdown."""
    response = presentation.response or ""
    if response.startswith("markdown"):
        raise ValueError("a heading")
    right = ("no", "yes")[int(response.split()[3]) % 2]
    return "no" if response.startswith("typos") else right


def grader(presentation: jrh.Presentation) -> jrh.Answer:
    number = len(presentation.response or "") % 4
    return jrh.Answer(value=("yes", "no", "abstain", "yes")[number], rationale=SPEECH, cost_usd=0.001)


@pytest.fixture(scope="module")
def runs(store_uri: str) -> dict[str, jrh.Evaluation]:
    """Evaluations by what they are: pairs of a model, a simulated judge, single responses, transcripts, no texts."""
    options: dict[str, Any] = {"experiment": "calls", "tracking_uri": store_uri, "traces": "none", "progress": False}
    pairs = jrh.datasheet_suite(n_tasks=2, depth=2)
    with LoopbackServer(reply=model) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-planted-secret-0123456789abcdef")
        judge = jrh.PromptedJudge("openai/gpt-4o-mini", name="Small <judge>", api_base=server.url, max_tokens=64)
        of_pairs = jrh.evaluate(judge, pairs, replicates=2, **{**options, "traces": "sample"})
        return {
            "pairs": of_pairs,
            "hashed": jrh.evaluate(judge, jrh.datasheet_suite(n_tasks=1, depth=1), texts=False, **options),
            "simulated": jrh.evaluate(jrh.scripted.AlwaysFirst(), pairs, **options),
            "single": jrh.evaluate(grader, pointwise_suite(tests=("typos", "stochastic_stability")), **options),
            "lossy": jrh.evaluate(
                half_deaf, pointwise_suite(tests=("typos", "markdown", "padding", "negation")), **options
            ),
            "agents": jrh.evaluate(lambda shown: "no", transcripts(), **options),
        }


_LAYOUT = """() => {
    const heads = [...document.querySelectorAll('thead th')], rows = [...document.querySelectorAll('tbody tr')];
    const left = cell => Math.round(cell.getBoundingClientRect().left);
    return {
        'rows are low': rows.every(row => row.offsetHeight <= 48),
        'widest': heads.reduce((one, other) => one.offsetWidth >= other.offsetWidth ? one : other).textContent,
        'aligned': heads.every((head, place) => left(head) === left(rows[0].children[place])),
    };
}"""
"""Two lines of text to a row, so that fifty take two screens."""


def page_of(client: Client, run_id: str, status: int = 200, /, **query: Any) -> str:
    answered, headers, content = client.send("GET", Addresses("/").calls(run_id, **query))
    assert answered == status, content
    assert headers["content-security-policy"] == FORM_POLICY
    return content.decode()


def words(page: str) -> str:
    """The text of a page, in one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.partition("</style>")[2])).split())


def found(page: str) -> int:
    """How many calls the page says it found."""
    return int(re.search(r"<b>([\d,]+)</b> of", page)[1].replace(",", ""))


def columns_of(page: str) -> list[str]:
    return re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)


def items_of(page: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', page)]


def test_every_number_of_a_datasheet_leads_to_calls_that_say_its_n_and_what_was_left_out(client, runs):
    done = runs["pairs"]
    for key, reading in done.datasheet.estimates.items():
        if not isinstance(reading, Estimate):
            continue
        page = words(page_of(client, done.run_id, axis=key))
        unit = "call" if reading.unit == "curve" else reading.unit
        lost = ", ".join(f"{name} {count}" for name, count in reading.left_out.items() if count)
        told = f"n {reading.n:,} {unit}{'' if reading.n == 1 else 's'}, left out {reading.excluded:,}"
        assert f"{told}{f' ({lost})' if lost else ''}, as the datasheet has it" in page, key
    axis = "target_sensitivity/delta_1"
    reading = done.datasheet.estimates[axis]
    by_counts = {
        name: found(page_of(client, done.run_id, axis=axis, counts=name)) for name in ("yes", "no", "left_out")
    }
    assert by_counts == {
        "yes": reading.numerator, "no": reading.n - reading.numerator, "left_out": reading.excluded
    }  # fmt: skip
    assert found(page_of(client, done.run_id, axis=axis)) == sum(by_counts.values())


def test_calls_whose_reason_names_another_verdict_are_listed_with_both(client, runs):
    reading = runs["pairs"].datasheet.estimates["reason_conflict"]
    page = page_of(client, runs["pairs"].run_id, axis="reason_conflict", counts="yes")
    assert found(page) == reading.numerator > 0
    shown = words(page)
    assert "So response A is better." in shown
    assert "(second)" in shown
    assert "(first)" not in shown
    assert "no-texts" in words(page_of(client, runs["hashed"].run_id, 422, axis="reason_conflict"))


def test_every_number_of_a_served_comparison_leads_to_calls_with_the_same_n_and_its_terms_are_explained(
    client, runs, store_uri
):
    points = pointwise_suite(tests=("typos", "stochastic_stability"))
    other = jrh.evaluate(
        lambda shown: "no", points, experiment="calls", tracking_uri=store_uri, traces="none", progress=False
    )
    status, _, content = client.send("GET", f"/compare?run={runs['single'].run_id}&run={other.run_id}")
    page = content.decode()
    assert status == 200, page
    cell = re.compile(
        r'<td[^>]*>\s*<b><a class="calls" href="(calls/[^"]*)"[^>]*>.*?n&nbsp;(\d+)(?: \(−(\d+)\))?<', re.DOTALL
    )
    cells = cell.findall(page.partition("<h2>Judges</h2>")[0])
    assert len(cells) == 2 * 3
    for address, n, left_out in cells:
        status, _, content = client.send("GET", f"/{html.unescape(address)}")
        told = re.search(r"n (\d+) \w+, left out (\d+)", words(content.decode()))
        assert (status, told.groups()) == (200, (n, left_out or "0")), address
    # The mean is over what both judges have; the calls of one run need not be those.
    assert '<th scope="col">mean over tests</th>' in page
    assert "reliability%2Fmean" not in page
    explained, places = (set(re.findall(each, page)) for each in (r'href="#(term-\d+)"', r'id="(term-\d+)"'))
    assert explained
    assert explained <= places
    for term in ("significant", "equivalent", "detectable", "clustered interval"):
        assert f">{term}</a>" in page.lower(), term


def test_every_tile_of_a_reliability_page_leads_to_calls_that_say_its_value_and_n(client, runs, store_uri):
    done = runs["lossy"]
    assert done.report.scores["markdown"].withheld
    page = run_page(store_uri, done.run_id, addresses=Addresses("../"))
    tiles = re.findall(
        r'<li class="tile">.*?<a class="calls" href="([^"]*)".*?>([^<]*)</a>.*?class="of">(.*?)</span>', page, re.DOTALL
    )
    assert len(tiles) == 6
    for address, value, told in tiles:
        status, _, content = client.send("GET", html.unescape(address).removeprefix(".."))
        assert status == 200, address
        shown = words(content.decode())
        assert all(part in shown for part in (value, *told.split(" · "))), (address, shown)
    mean = words(page_of(client, done.run_id, axis="reliability/mean"))
    assert f"withheld: {done.report.mean_withheld}" in mean, "the mean would leave the withheld test out"
    averaged = page_of(client, done.run_id, axis="reliability/mean", item=[f"s0/{test}" for test in done.report.tests])
    assert items_of(averaged) == ["s0/typos", "s0/padding", "s0/negation"]
    lowest = page_of(client, done.run_id, axis="reliability/min")
    assert f"withheld: {done.report.mean_withheld}" in words(lowest)
    assert {item.partition("/")[2] for item in items_of(lowest)} == {"typos"}


@pytest.mark.slow
def test_the_calls_behind_a_comparison_of_runs_with_other_replicates_say_how_many_were_compared(client, store_uri):
    options: dict[str, Any] = {
        "experiment": "replicated",
        "tracking_uri": store_uri,
        "traces": "none",
        "progress": False,
    }
    once, thrice = (
        jrh.evaluate(grader, pointwise_suite(tests=("typos",)), replicates=replicates, **options)
        for replicates in (1, 3)
    )
    page = client.send("GET", f"/compare?run={once.run_id}&run={thrice.run_id}")[2].decode()
    told = "The comparison is on 24 of the 72 calls of this run"
    for done, wanted in ((once, False), (thrice, True)):
        address = re.search(rf'<td[^>]*>\s*<b><a class="calls" href="(calls/{done.run_id}[^"]*typos[^"]*)"', page)[1]
        shown = client.send("GET", f"/{html.unescape(address)}")[2].decode()
        assert (told in words(shown)) is wanted
        assert ('name="compared" value="24"' in shown) is wanted
    assert "The comparison is on" not in page_of(client, thrice.run_id, axis="typos", compared="<b>")


def test_filters_are_combined_and_offer_only_what_occurs_with_counts(client, runs):
    calls = runs["pairs"].calls
    chosen = calls[(calls["condition"] == "ladder") & (calls["order"] == "vu") & (calls["delta"] == 1.0)]
    page = page_of(client, runs["pairs"].run_id, condition="ladder", order="vu", delta=1)
    assert found(page) == len(chosen)
    assert set(items_of(page)) <= set(chosen["suite_item"])
    outcomes = chosen["outcome"].value_counts().to_dict()
    for outcome in set(calls["outcome"]):
        assert f">{outcome} ({outcomes.get(outcome, 0):,})</option>" in page
    assert '<option value="ladder" selected>quality ladder (' in page
    assert "natural" not in page
    either = page_of(client, runs["pairs"].run_id, outcome=["tie", "unparsed"])
    assert found(either) == int(calls["outcome"].isin(["tie", "unparsed"]).sum())
    item = calls["suite_item"].iloc[0]
    assert found(page_of(client, runs["pairs"].run_id, item=item)) == int((calls["suite_item"] == item).sum())
    assert found(page_of(client, runs["pairs"].run_id, item="no such item")) == 0


def test_a_filter_is_offered_wherever_the_run_has_a_value_of_it(client, runs):
    offered = {
        name: re.findall(r'<(?:select|input type="text") name="(\w+)"', page_of(client, runs[name].run_id))
        for name in ("simulated", "single")
    }
    assert offered["simulated"] == ["condition", "outcome", "order", "delta", "task", "item"]
    assert offered["single"] == ["condition", "test", "outcome", "task", "item"]
    calls = runs["simulated"].calls
    assert set(calls["outcome"]) == {"verdict"}
    assert f">verdict ({len(calls):,})</option>" in page_of(client, runs["simulated"].run_id)


def test_the_list_names_judge_and_conditions_as_people_do_and_has_no_empty_column(client, runs, monkeypatch):
    page = page_of(client, runs["pairs"].run_id)
    assert "<h1>Calls: Small &lt;judge&gt;</h1>" in page
    heads = ["item", "condition", "order", "answered", "better", "rationale", "cost, time"]
    equal = page_of(client, runs["pairs"].run_id, condition="delta_0_same")
    assert columns_of(equal) == [head for head in heads if head != "better"]
    assert {cell.partition(",")[0] for cell in re.findall("<td>([^<]*)</td>", equal)} == {"equal quality"}
    assert '<option value="delta_0_same" selected>equal quality (' in equal
    # However long it took on a busy machine.
    monkeypatch.setattr("jrh_mlflow.pages.calls._LEAST_SECONDS", 0.0)
    simulated = page_of(client, runs["simulated"].run_id, axis="target_sensitivity/delta_1")
    assert columns_of(simulated) == ["item", "condition", "order", "answered", "better", "in this number"]
    marked = '<h1>Calls: AlwaysFirst (simulated) <span class="badge warn">simulated</span></h1>'
    assert marked in simulated


def test_pages_follow_one_another_and_keep_the_filters(client, runs):
    calls = runs["pairs"].calls
    seen, page = [], 1
    while True:
        shown = page_of(client, runs["pairs"].run_id, order="uv", page=page)
        seen += items_of(shown)
        if 'rel="next"' not in shown:
            break
        assert html.escape(Addresses("../").calls(runs["pairs"].run_id, order="uv", page=page + 1)) in shown
        page += 1
    assert page > 1
    assert seen == calls[calls["order"] == "uv"]["suite_item"].tolist()
    assert len(items_of(page_of(client, runs["pairs"].run_id, page="999999999"))) <= PAGE_SIZE
    assert found(page_of(client, runs["pairs"].run_id, page="-1")) == len(calls)


def test_an_opened_pair_shows_both_orders_texts_rationale_and_raw_answer_escaped_and_visible(client, runs):
    done, suite = runs["pairs"], jrh.datasheet_suite(n_tasks=2, depth=2)
    item = next(item for item in suite.items if item.condition == "ladder")
    page = page_of(client, done.run_id, open=item.id, condition="ladder")
    assert EVIL not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    text = words(page)
    for shown in (item.instruction, item.u, item.v):
        assert " ".join(shown.split()) in text
    assert f"condition quality ladder δ {item.delta:g} task {item.task} better content {item.better}" in text
    assert f"Order uv: u is the first, v the second; {item.better} is the better one" in text
    assert f"Order vu: v is the first, u the second; {item.better} is the better one" in text
    assert f'<a href="{html.escape(Addresses("../").calls(done.run_id, item=item.id))}">Calls of this item</a>' in page
    assert "‹U+202E›" in text
    assert "‹U+001B›[31m" in text
    own = done.calls[done.calls["suite_item"] == item.id]
    assert page.count('<div class="call">') == len(own) == 4
    assert own["raw"].notna().all()
    assert page.count(">Raw answer</h4>") == len(own)
    assert "Replicate 0: " in text
    others = list(dict.fromkeys(done.calls[done.calls["condition"] == "ladder"]["suite_item"]))
    following = others[others.index(item.id) + 1]
    assert f"condition=ladder&amp;open={quote(following, safe='')}" in page
    assert html.escape(Addresses("../").calls(done.run_id, condition="ladder")) in page


def test_calls_that_are_traces_lead_to_them_and_the_page_to_all_of_them(client, runs, store_uri):
    done = runs["pairs"]
    tags = MlflowClient(store_uri).get_run(done.run_id).data.tags
    place, linked = tags["jrh.traces_experiment"], 0
    for item in dict.fromkeys(done.calls["suite_item"]):
        page = html.unescape(page_of(client, done.run_id, open=item))
        linked += len(re.findall(rf"\.\./\.\./#/experiments/{place}/traces\?\S*selectedEvaluationId=tr-\w+", page))
        assert Addresses("../").traces(place, done.run_id) in page
    assert linked == int(tags["jrh.traces"].partition(" ")[0]) > 0


def test_an_opened_item_shows_the_prompt_that_was_sent_in_each_order(client, runs):
    done = runs["pairs"]
    page = page_of(client, done.run_id, open=str(done.calls["suite_item"].iloc[-1]))
    # By its hash, which every call logs; made again by another judge it would be another one.
    assert page.count("<summary>Prompt as sent</summary>") == 2
    assert page.count("<h4>system</h4>") == page.count("<h4>user</h4>") == 2
    for name in ("simulated", "single", "hashed"):
        other = runs[name]
        assert "<summary>Prompt" not in page_of(client, other.run_id, open=str(other.calls["suite_item"].iloc[0]))


def test_what_a_pair_came_to_is_said_by_the_names_of_the_axes(client, runs):
    calls = runs["simulated"].calls
    item = calls[calls["condition"] == "delta_0_same"]["suite_item"].iloc[0]
    page = words(page_of(client, runs["simulated"].run_id, open=item))
    assert "Positional: the first in both orders." in page
    assert "condition equal quality δ 0 task" in page
    assert "better neither content" in page
    assert "A simulated judge, not a model." in page
    assert page.count("raw answer") == 1


def test_a_single_response_is_shown_beside_its_original_with_both_answers(client, runs):
    done = runs["single"]
    page = page_of(client, done.run_id, axis="typos/consistency", open="s3/typos")
    text = words(page)
    assert "Original" in text
    assert "baseline answer number 3" in text
    assert "typos answer number 3" in text
    assert "Original: what the judge answered" in text
    assert EVIL not in page
    reading = done.report.estimates["typos/accuracy"]
    assert found(page_of(client, done.run_id, axis="typos/accuracy", counts="yes")) == reading.numerator
    assert f"typos: {reading.value:.2f}" in words(page_of(client, done.run_id, axis="typos"))


def test_a_transcript_is_shown_message_by_message_with_the_edited_one_marked(client, runs):
    page = page_of(client, runs["agents"].run_id, open="t/agent_perturbation")
    text = words(page)
    assert "assistant (edited)" in text
    assert "I deleted nothing." in text
    assert "rm(-r)" in text
    assert text.count("Delete nothing.") == 1
    assert EVIL not in page


def test_a_run_without_texts_shows_hashes_and_says_so(client, runs):
    done = runs["hashed"]
    item = done.calls[done.calls["condition"] == "ladder"]["suite_item"].iloc[0]
    page = page_of(client, done.run_id, open=item)
    assert "Logged without texts" in page
    assert "sha256:" in page
    assert "tone" not in page


def test_what_cannot_be_shown_is_refused_in_words(client, runs, store_uri):
    store = Store(store_uri, "calls")
    made = store.create_run("a generation", tags=first_tags("generate", simulated=False))
    store.client.set_terminated(made)
    assert "is of kind generate: only evaluations have calls" in page_of(client, made, 422)
    empty = store.create_run("began", tags=first_tags("evaluate", simulated=False))
    assert "has no calls" in page_of(client, empty, 422)
    assert "no such run" in page_of(client, "0" * 32, 404)
    assert "no such run" in page_of(client, "nonsense", 404)
    assert "no calls behind" in page_of(client, runs["pairs"].run_id, 422, axis="natural/accuracy")
    assert "no call on an item" in page_of(client, runs["pairs"].run_id, 404, open=f"nowhere {EVIL}")


def test_the_page_of_a_failed_run_leads_to_its_calls_and_they_lead_back(client, store_uri):
    suite = jrh.datasheet_suite(n_tasks=1, depth=1)
    with suppress(JudgeError):
        jrh.evaluate(broken, suite, experiment="failed calls", tracking_uri=store_uri, progress=False)
    experiment = MlflowClient(store_uri).get_experiment_by_name("failed calls")
    run = MlflowClient(store_uri).search_runs([experiment.experiment_id])[0]
    page = page_of(client, run.info.run_id, outcome="error")
    assert "The run is FAILED" in page
    assert "the service is down" in page
    assert 'no usable answer <span class="badge warn">error</span></td>' in page
    item = html.unescape(items_of(page)[0])
    assert "the service is down" in page_of(client, run.info.run_id, open=item)
    status, _, content = client.send("GET", f"/run/{run.info.run_id}")
    assert (status, f'href="../calls/{run.info.run_id}"' in content.decode()) == (200, True)
    links = set(re.findall(r'href="\.\./((?:run|datasheet|calls)/[^"?]*)"', page))
    assert links == {f"run/{run.info.run_id}", f"calls/{run.info.run_id}"}


def test_a_table_is_fetched_once_by_many_threads_and_few_runs_are_kept(runs, store_uri, monkeypatch):
    fetched, fetch = [], run_calls._mapped_table

    def noted(client, run, folder):
        fetched.append(folder)
        return fetch(client, run, folder)

    monkeypatch.setattr(run_calls, "_mapped_table", noted)
    store = CallStore(most=1)
    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(lambda _: store.open(store_uri, runs["pairs"].run_id), range(6)))
    assert len({id(calls) for _, calls in opened}) == len(fetched) == 1
    calls = opened.pop()[1]
    store.open(store_uri, runs["single"].run_id)
    assert len(calls.texts([0, len(calls) - 1])) == 2
    assert fetched[0].exists()
    del opened, calls
    gc.collect()
    assert not fetched[0].exists()


def test_rows_of_uneven_row_groups_are_found_by_their_number(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(run_calls, "_BATCH", 7)
    calls = runs["pairs"].calls
    calls.to_parquet(tmp_path / "calls.parquet", row_group_size=10)
    monkeypatch.setattr(run_calls, "is_artifact", lambda *given: True)
    monkeypatch.setattr(run_calls, "downloaded", lambda *given: tmp_path / "calls.parquet")
    table = run_calls._mapped_table(None, SimpleNamespace(info=SimpleNamespace(run_id="")), tmp_path)
    assert [table.column("raw")[row].as_py() for row in range(len(calls))] == calls["raw"].tolist()


def test_an_item_of_a_suite_is_found_by_its_own_id_however_that_is_written(tmp_path):
    shared: dict[str, Any] = {
        "task": "t",
        "kind": "response",
        "condition": "baseline",
        "instruction": "?",
        "answers": ("a", "b"),
    }
    ids = ["a", "é/ש", 'quoted "b"', "line\nbreak"]
    items = [
        Item(id=own, response=f'of {own}, not "id":"a"', meta={"id": "a", "x": {"id": "é/ש"}}, **shared) for own in ids
    ]
    jrh.Suite(name="ids", items=items[::-1]).save(tmp_path / "ids")
    file = run_calls._SuiteFile(tmp_path / "ids")
    assert [file.item(item.id) for item in items] == items
    escaped = [json.dumps(json.loads(line)) for line in (tmp_path / "ids" / "suite.jsonl").read_text().splitlines()]
    (tmp_path / "ids" / "suite.jsonl").write_text("\n".join(escaped).replace('": ', '":'), encoding="utf-8")
    assert file.item("é/ש") == items[1]
    assert file.item("x") is None


@pytest.mark.slow
def test_list_and_opened_pair_have_no_accessibility_violations_and_fit_a_phone(client, runs):
    done = runs["pairs"]
    item = done.calls[done.calls["condition"] == "ladder"]["suite_item"].iloc[0]
    queries = ({}, {"axis": "target_sensitivity/delta_1"}, {"open": item})
    with chromium() as browser:
        page = browser.new_page(bypass_csp=True)
        for query in queries:
            address = f"http://{client.address}/jrh/calls/{done.run_id}?{urlencode(query)}"
            show_next(page, address) if query else page.goto(address)
            assert page.title().startswith("Calls: ")
            for width in looks(page):
                assert violations(page) == [], (width, query)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, query
                if width > 1000 and "open" not in query:
                    assert page.evaluate(_LAYOUT) == {"rows are low": True, "widest": "rationale", "aligned": True}
