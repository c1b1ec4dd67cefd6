"""A judge that is a service: what it gets, how it is read, what it costs, and who may have its key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from aiohttp import web

import jrh_mlflow as jrh
from jrh_mlflow.engine.batch import export_batch
from jrh_mlflow.engine.journal import open_journal
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError
from jrh_mlflow.judges.http_judge import HttpJudge
from jrh_mlflow.recipe import load_recipe
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.judges.identity import judge_from

HEADERS = {"Authorization": "Bearer ${JUDGE_TOKEN}"}
BODY = {"q": "{instruction}", "texts": ["{first}", "{second}"], "mode": "strict"}


class Service:
    """A judge that takes the longer text, and tells what it cost."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.url = ""
        self.reply: Any = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.got.append((body, dict(request.headers)))
        if self.reply is not None:
            return self.reply()
        first, second = body["texts"]
        winner = "one" if len(first) > len(second) else "two"
        return web.json_response({"result": [{"winner": winner}], "meta": {"usd": 0.25, "in": 7, "out": 2}})


@pytest.fixture
def service() -> Iterator[Service]:
    made, loop = Service(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/judge", made.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/judge"
        return runner

    runner = loop.run_until_complete(start())
    thread = Thread(target=loop.run_forever)
    thread.start()
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.run_until_complete(runner.cleanup())
    loop.close()


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    pairs = [("longer text", "short"), ("b", "a long one")]
    items = [
        Item(id=f"p{n}", task=f"t{n}", condition="natural", instruction=f"Q{n}?", u=u, v=v, better="u")
        for n, (u, v) in enumerate(pairs)
    ]
    return jrh.Suite(name="pairs", items=items)


def judge_of(service: Service, **more: Any) -> HttpJudge:
    words = {"one": "1", "two": "2"}
    given = {"body": BODY, "answer": {"json": "result[0].winner", "words": words}, **more}
    return jrh.http_judge(service.url, **given)


def evaluate(judge: HttpJudge, suite: jrh.Suite, store_uri: str, **options: Any) -> jrh.Evaluation:
    return jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests", traces="none", **options)


def test_it_is_asked_read_paid_and_kept(service, suite, store_uri, monkeypatch):
    monkeypatch.setenv("JUDGE_TOKEN", "tok-0123456789abcdef")
    usage = {"cost_usd": "meta.usd", "input_tokens": "meta.in", "output_tokens": "meta.out"}
    judge = judge_of(service, usage=usage, headers=HEADERS)
    done = evaluate(judge, suite, store_uri)
    bodies = [body for body, _ in service.got]
    assert {"q": "Q0?", "texts": ["longer text", "short"], "mode": "strict"} in bodies
    assert len(bodies) == 4
    assert {headers["Authorization"] for _, headers in service.got} == {"Bearer tok-0123456789abcdef"}
    assert done.metrics["natural/accuracy/rate"] == pytest.approx(0.5)
    assert done.metrics["cost/usd"] == pytest.approx(1.0)
    assert done.metrics["tokens/input"] == 28
    evaluate(judge, suite, store_uri)
    assert len(service.got) == 4, "the journal has the answers"
    again = judge_from(json.loads(json.dumps(judge.definition())))
    assert again.fingerprint() == judge.fingerprint()
    assert "tok-0123" not in json.dumps(judge.definition())


def test_cost_is_unknown_unless_it_is_told_and_a_cap_needs_it(service, suite, store_uri):
    done = evaluate(judge_of(service), suite, store_uri)
    assert done.cost_usd is None
    with pytest.raises(RecipeError, match="cost_usd"):
        evaluate(judge_of(service, name="other"), suite, store_uri, max_usd=1.0, fresh_after="2100-01-01")
    fixed = judge_of(service, usage={"cost_usd": 0.4})
    with pytest.raises(BudgetError):
        evaluate(fixed, suite, store_uri, max_usd=0.3)
    part = evaluate(fixed, suite, store_uri, max_usd=0.9)
    assert part.cost_usd == pytest.approx(0.8)


def test_a_key_is_named_and_never_written(service, suite, store_uri, monkeypatch):
    with pytest.raises(RecipeError, match="environment variable"):
        judge_of(service, headers={"Authorization": "Bearer abc123"})
    monkeypatch.delenv("JUDGE_TOKEN", raising=False)
    with pytest.raises(JudgeError, match="JUDGE_TOKEN"):
        evaluate(judge_of(service, headers=HEADERS), suite, store_uri)
    assert service.got == []


def test_a_recipe_of_a_stranger_gets_no_key(service, suite, store_uri, monkeypatch, tmp_path):
    monkeypatch.delenv("JRH_ALLOW_KEY_TO")
    monkeypatch.setenv("JUDGE_TOKEN", "tok-0123456789abcdef")
    recipe = {"url": service.url, "body": BODY, "answer": "result[0].winner", "headers": HEADERS}
    path = tmp_path / "stranger.yaml"
    path.write_text(json.dumps({"judge": recipe}))
    with pytest.raises(RecipeError, match="allow-key-to"):
        evaluate(load_recipe(path).judge, suite, store_uri)
    assert service.got == []
    path.write_text(json.dumps({"judge": {**recipe, "headers": {}}}))
    evaluate(load_recipe(path).judge, suite, store_uri)
    assert len(service.got) == 4


def test_no_redirect_is_followed_and_no_error_is_a_verdict(service, suite, store_uri):
    service.reply = lambda: web.Response(status=307, headers={"Location": "http://127.0.0.1:9/"})
    with pytest.raises(JudgeError, match="redirect"):
        evaluate(judge_of(service), suite, store_uri)
    service.reply = lambda: web.json_response({"result": []})
    done = evaluate(judge_of(service, name="no answer"), suite, store_uri)
    assert set(done.calls["outcome"]) == {"unparsed"}


def test_it_has_no_batch_files(service, suite, tmp_path):
    with open_journal(tmp_path / "journal.db") as journal, pytest.raises(RecipeError, match="service"):
        export_batch(judge_of(service), suite, journal, tmp_path / "r.jsonl")
