"""Writers answer in a schema where their model takes one, and are read wherever they do not keep to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jrh_mlflow.generation.pipeline import SENT_BACK
from jrh_mlflow.generation.writers import TEXT_SCHEMA, Generator
from tests.generation.tools import WRITER, Player, rows, run
from tests.loopback import LoopbackServer, Reply
from tests.loopback_replies import fields_asked

TESTS = ["semantic_paraphrase"]
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": TEXT_SCHEMA}}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


def written(reply: Any, **settings: Any) -> tuple[list[dict[str, Any]], dict[str, str], int]:
    """Generate; return what went over the wire, each item's text, and how many were unwrapped."""
    with LoopbackServer(reply=reply, record=True) as server:
        generator = Generator(WRITER, api_base=server.url, **settings)
        done = run(rows(3), server, None, tests=TESTS, generator=generator, confirm=False)
    texts = {item.id: str(item.response) for item in done.suite.items if item.condition in TESTS}
    return [entry["body"] for entry in server.requests], texts, done.made.total("unwrapped")


def test_a_model_that_takes_schemas_is_asked_for_one_and_its_text_arrives() -> None:
    player = Player(rows(3), tests=TESTS)
    bodies, texts, unwrapped = written(player)
    assert [body["response_format"] for body in bodies] == [FORM] * 3
    assert set(texts.values()) == set(player._wrote)
    assert len(texts) == 3
    assert unwrapped == 0


@pytest.mark.parametrize("around", ["§", '{"text": §}', '```json\n{"text": §}\n```'])
def test_an_answer_in_spite_of_the_schema_is_read(around: str) -> None:
    player = Player(rows(3), tests=TESTS)

    def plain(body: dict[str, Any]) -> str | Reply:
        assert fields_asked(body) == ["text"]
        text = json.loads(str(player(body)))["text"]
        return around.replace("§", text if around == "§" else json.dumps(text))

    bodies, texts, unwrapped = written(plain)
    assert [body["response_format"] for body in bodies] == [FORM] * 3
    assert set(texts.values()) == set(player._wrote)
    assert unwrapped == (3 if around.startswith("`") else 0)


def test_what_a_writer_says_around_its_text_within_the_object_is_sent_back() -> None:
    player = Player(rows(3), tests=TESTS)

    def polite(body: dict[str, Any]) -> str | Reply:
        text = json.loads(str(player(body)))["text"]
        more = "" if SENT_BACK in body["messages"][-1]["content"] else "\n\nLet me know if you need anything else!"
        return json.dumps({"text": f"{text}{more}"})

    bodies, texts, _ = written(polite)
    assert len(bodies) == 6
    assert set(texts.values()) <= set(player._wrote)
    assert len(texts) == 3


@pytest.mark.parametrize(
    "answer", ['{"text": ""}', '{"text": null}', '{"text": "It rai', '{"text": ["a", "b c d e f", "g h i j k"]}']
)
def test_an_object_without_one_text_is_set_aside(answer: str) -> None:
    bodies, texts, _ = written(lambda _: answer, attempts=1)
    assert len(bodies) == 3
    assert texts == {}


def test_a_model_without_schemas_gets_the_request_as_before() -> None:
    player = Player(rows(3), tests=TESTS)
    bodies, texts, unwrapped = written(player, structured=False)
    assert [sorted(body) for body in bodies] == [["max_tokens", "messages", "model", "temperature"]] * 3
    assert set(texts.values()) == set(player._wrote)
    assert unwrapped == 0


@pytest.mark.parametrize(
    ("generator", "key"),
    [
        (Generator("openai/gpt-3.5-turbo"), "8e3d519e898636cf56c2ca63b59bf56805075398c543b82c71269608fce82ba9"),
        (Generator("openai/gpt-4"), "7cd94365d114780b1eec6e76ad9d860879f91da33bf4f02a13d92b8d91d0f6e6"),
        (
            Generator("openai/gpt-4o-mini", structured=False),
            "a7fc37c54af1990596a480594d4c1961e45911dd1cc0024acca9ec306876e3ea",
        ),
    ],
)
def test_without_a_schema_answers_that_were_paid_for_are_found_again(generator: Generator, key: str) -> None:
    """Keys of a journal: with others, answers that were paid for would not be found."""
    request = generator.request("Rewrite it.", temperature=0.7)
    assert request.response_schema is None
    assert request.key(0) == key


def test_the_catalog_says_who_takes_a_schema_and_a_setting_overrides_it() -> None:
    assert Generator("openai/gpt-4o-mini").takes_schema
    assert not Generator("openai/gpt-3.5-turbo").takes_schema
    assert Generator("openai/gpt-3.5-turbo", structured=True).takes_schema
    assert not Generator("openai/gpt-4o-mini", structured=False).as_judge().structured
