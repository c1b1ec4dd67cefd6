"""The API over real HTTP: what the page is told, and that no request ends in a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from jrh_mlflow.review.app import bare_app
from jrh_mlflow.review.contents import ReviewCatalog
from jrh_mlflow.schema.items import Item
from jrh_mlflow.schema.presentation import Message
from jrh_mlflow.suites.suite import item_line, read_suite
from tests.examples import PROFILE
from tests.review.making import Client, baseline, made, reviewing, reviewing_process, saved_suite, suite_items

HOSTILE = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[click](javascript:alert(1))",
    "\u202eright to left\u2066",
    "NUL \x00 inside",
    "x" * 5_000_000,
    "half a pair \\ud83d",
]


EXAMPLES = 5 if PROFILE == "usual" else 30
"""Of requests of each kind that the description allows or forbids, to each of the nine operations."""


def hostile_suite(folder: Path) -> Path:
    items = [baseline("s", "plain")]
    items += [made("s", text, test=f"label_flip_{n}") for n, text in enumerate(HOSTILE)]
    items.append(made("s", "id", test="../../../etc/passwd\x00"))
    return saved_suite(folder, items)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved_suite(tmp_path_factory.mktemp("api") / "suite")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with reviewing(folder) as client:
        yield client


@pytest.fixture(scope="module")
def api(client: Client) -> str:
    return f"/api/suites/{client.get('/api/suites')[0]['key']}"


def decide(client: Client, api: str, index: int, action: str, *, who: str = "Ann", **more: object):
    version = more.pop("version", None)
    if version is None:
        version = client.get(f"{api}/items/{index}")["version"]
    body = {"index": index, "action": action, "reviewer": who, "version": version, **more}
    return client.post(f"{api}/decisions", body)


def test_a_suite_is_listed_under_a_key_that_is_no_path(client, folder):
    (row,) = client.get("/api/suites")
    assert (row["name"], row["sha256"], row["n_items"]) == ("suite", read_suite(folder).sha256, 8)
    assert row["key"].isalnum()
    assert row["key"] not in str(folder)


def test_items_come_in_stretches_with_filters(client, api):
    assert client.get(api)["tests"] == {"label_flip": 4, "format_invariance": 4}
    first = client.get(f"{api}/items?limit=3")
    rest = client.get(f"{api}/items?limit=50&offset=3")
    assert first["total"] == rest["total"] == 8
    assert [row["index"] for row in first["items"] + rest["items"]] == list(range(8))
    assert client.get(f"{api}/items?test=label_flip&q=SEED%203")["total"] == 1
    assert client.get(f"{api}/items?state=exempt")["total"] == 4
    assert client.get(f"{api}/items?test=nothing")["items"] == []


def test_an_item_shows_what_it_was_made_from_and_what_is_known_of_it(client, api):
    item = client.get(f"{api}/items/0?reviewer=Ann")
    assert item["original"] == "It is Paris, seed 0."
    assert item["perturbed"] == item["generated"] == "It is not Paris, seed 0."
    assert (item["part"], item["expected"], item["labels"]) == ("response", "fail", ["fail", "pass"])
    assert (item["similarity"], item["generator"], item["validator"]) == (0.8, "a-model", "fail")
    assert {check["name"]: check["passed"] for check in item["checks"]} == {
        "not_empty": True,
        "differs": True,
        "no_wrapping": True,
        "length_ratio": True,
        "validator": True,
    }
    assert item["transcript"] is None


def test_a_review_from_the_first_click_to_the_last(client, api, folder):
    status, first = decide(client, api, 0, "accept")
    assert (status, first["state"]) == (200, "accepted")
    assert decide(client, api, 0, "reject", who="Bob", version=0, reason="no") == (
        409,
        {"message": client.post(f"{api}/decisions", _stale())[1]["message"]},
    )
    assert decide(client, api, 2, "edit", text="It is Rome, seed 1.", label="pass")[1]["state"] == "edited"
    assert decide(client, api, 4, "reject", reason="reads oddly")[1]["state"] == "rejected"
    assert decide(client, api, 4, "undo")[1]["state"] == "undecided"
    assert decide(client, api, 4, "reject", reason="reads oddly")[1]["state"] == "rejected"
    edited = client.get(f"{api}/items/2?reviewer=Ann")
    assert (edited["perturbed"], edited["expected"], edited["mine"]) == ("It is Rome, seed 1.", "pass", "edited")
    assert edited["generated"] == "It is not Paris, seed 1."
    assert edited["history"][0]["text_before"] == "It is not Paris, seed 1."
    assert edited["history"][0]["label_before"] == "fail"
    assert client.get(api)["states"] == {"undecided": 1, "accepted": 1, "edited": 1, "rejected": 1, "exempt": 4}
    status, problem = client.post(f"{api}/finish", {"reviewer": "Ann"})
    assert (status, problem["message"].startswith("1 of 4 items are undecided")) == (409, True)
    status, done = client.post(f"{api}/finish", {"reviewer": "Ann", "allow_undecided": True})
    assert (status, done["left_out"]) == (200, {"rejected": 1, "undecided": 1})
    suite = read_suite(done["path"])
    assert suite.sha256 == done["sha256"]
    assert suite.origin["parent_sha256"] == read_suite(folder).sha256
    assert [item.id for item in suite.items if item.condition == "label_flip"] == [
        "s0000/label_flip",
        "s0001/label_flip",
    ]


def _stale() -> dict[str, object]:
    return {"index": 0, "action": "accept", "reviewer": "Bob", "version": 0}


def test_an_edit_that_breaks_a_check_of_its_test_can_be_found_by_it(tmp_path):
    items = [
        baseline("s", "It is Paris."),
        made("s", "It is Rome."),
        baseline("t", "x"),
        made("t", "y", validator="pass"),
    ]
    with reviewing(saved_suite(tmp_path / "suite", items)) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        assert client.get(api)["checks"] == ["validator"]
        assert [row["index"] for row in client.get(f"{api}/items?failed_check=validator")["items"]] == [1]
        assert decide(client, api, 0, "edit", text="Sure, here is the rewritten text:\n\nIt is Rome.")[0] == 200
        broken = {check["name"]: check["problem"] for check in client.get(f"{api}/items/0")["checks"]}
        assert "begins with a line" in broken["no_wrapping"]
        assert client.get(api)["checks"] == ["length_ratio", "no_wrapping", "validator"]
        assert [row["index"] for row in client.get(f"{api}/items?failed_check=no_wrapping")["items"]] == [0]
        assert client.get(f"{api}/items?failed_check=any")["total"] == 2


def test_events_tell_others_what_happened_since(client, api):
    everything = client.get(f"{api}/events?since=0")
    assert [event["number"] for event in everything["events"]] == list(range(1, everything["last"] + 1))
    assert client.get(f"{api}/events?since={everything['last']}")["events"] == []
    assert everything["growing"] is False


def test_a_filtered_set_is_accepted_only_in_the_number_that_was_confirmed(tmp_path):
    with reviewing(saved_suite(tmp_path / "suite")) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        order = {"filter": {"test": "label_flip", "state": "undecided"}, "action": "accept", "reviewer": "Ann"}
        status, problem = client.post(f"{api}/bulk", {**order, "expect": 5})
        assert (status, "takes 4 items by now, not 5" in problem["message"]) == (409, True)
        assert client.get(f"{api}/events")["last"] == 0
        assert client.post(f"{api}/bulk", {**order, "expect": 4})[0] == 200
        assert client.get(api)["states"]["accepted"] == 4


def test_a_decision_on_an_item_by_code_is_optional_and_changes_no_total(tmp_path):
    with reviewing(saved_suite(tmp_path / "suite")) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        assert decide(client, api, 0, "accept")[0] == 200
        for action, optional in (("accept", 1), ("reopen", 0), ("reject", 1)):
            assert decide(client, api, 1, action, reason="by code")[0] == 200
            counts = {part: (one["decided"], one["total"]) for part, one in client.get(api)["progress"].items()}
            assert counts == {"needed": (1, 4), "by_code": (optional, 4)}
            (row,) = client.get("/api/suites")
            assert (row["n_items"], row["n_to_decide"], row["n_decided"]) == (8, 4, 1)
        status, problem = client.post(f"{api}/finish", {"reviewer": "Ann"})
        assert (status, problem["message"].startswith("3 of 4 items are undecided")) == (409, True)


def test_decisions_survive_the_server_and_a_reload_in_the_middle(tmp_path):
    folder = saved_suite(tmp_path / "suite")
    for who, index in (("Ann", 0), ("Bob", 2)):
        with reviewing_process(folder) as client:
            api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
            assert decide(client, api, index, "accept", who=who)[0] == 200
    with reviewing(folder) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        assert client.get(api)["reviewers"] == ["Ann", "Bob"]
        assert client.get(api)["states"]["accepted"] == 2


def test_items_arrive_while_generation_runs_and_keep_their_numbers(tmp_path):
    folder = tmp_path / "suite"
    folder.mkdir()
    items = suite_items(2)
    partial = folder / "items.partial.jsonl"
    by_place = [items[0], items[3], items[4]]
    partial.write_bytes(b"".join(item_line(item) for item in by_place) + item_line(items[1])[:20])
    with reviewing(folder) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        assert (client.get(api)["n_items"], client.get(api)["growing"]) == (1, True)
        assert decide(client, api, 0, "accept")[0] == 200
        assert client.post(f"{api}/finish", {"reviewer": "Ann"})[0] == 409
        saved_suite(folder, items)
        partial.unlink()
        rows = client.get(f"{api}/items")["items"]
        assert [(row["index"], row["id"], row["state"]) for row in rows][:2] == [
            (0, "s0001/label_flip", "accepted"),
            (1, "s0000/label_flip", "undecided"),
        ]
        assert client.get(f"{api}/events?since=0")["growing"] is False


def test_hostile_items_are_carried_as_text_and_can_be_decided(tmp_path):
    folder = hostile_suite(tmp_path / "suite")
    with reviewing(folder) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        for index, text in enumerate(HOSTILE):
            status, headers, content = client.send("GET", f"{api}/items/{index}")
            assert (status, headers["content-type"]) == (200, "application/json")
            assert json.loads(content)["perturbed"] == text
            assert decide(client, api, index, "edit", text=f"{text}!")[0] == 200
        assert decide(client, api, len(HOSTILE), "reject", reason="an id that is a path")[0] == 200
        status, done = client.post(f"{api}/finish", {"reviewer": "Ann"})
        assert status == 200
        texts = [item.response for item in read_suite(done["path"]).items][1:]
        assert texts == [f"{text}!" for text in HOSTILE]
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".jrh") == ["suite", "suite-reviewed"]


def transcript(*texts: str, item_id: str, condition: str) -> Item:
    messages = [Message(role="user" if n % 2 == 0 else "assistant", content=text) for n, text in enumerate(texts)]
    return Item(
        id=item_id,
        task="t",
        condition=condition,
        kind="transcript",
        instruction="Did the agent break a rule?",
        transcript=tuple(messages),
        answers=LABELS_OF_AGENTS,
        expected=LABELS_OF_AGENTS[condition != "baseline"],
    )


LABELS_OF_AGENTS = ("no violation", "violation")


def test_a_reviewer_sees_what_the_response_was_to_go_by(tmp_path):
    texts = ("First text.", "Second text.")
    items = [replace(one, context=texts) for one in (baseline("s", "It is."), made("s", "Not."))]
    with reviewing(saved_suite(tmp_path / "suite", items)) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        assert client.get(f"{api}/items/0")["context"] == "First text.\n\nSecond text."


def test_a_transcript_is_shown_message_by_message_and_its_edited_message_can_be_edited(tmp_path):
    before = transcript("Delete it?", "No.", "Sure?", "Yes.", item_id="t/baseline", condition="baseline")
    after = transcript("Delete it?", "Done.", "Sure?", "Yes.", item_id="t/bad", condition="agent_violation")
    with reviewing(saved_suite(tmp_path / "suite", [before, after])) as client:
        api = f"/api/suites/{client.get('/api/suites')[0]['key']}"
        item = client.get(f"{api}/items/0")
        assert (item["part"], item["original"], item["perturbed"]) == ("transcript", "No.", "Done.")
        assert [message["edited"] for message in item["transcript"]] == [False, True, False, False]
        assert item["original_transcript"][1]["content"] == "No."
        assert decide(client, api, 0, "edit", text="I deleted it.")[1]["state"] == "edited"
        assert client.get(f"{api}/items/0")["transcript"][1]["content"] == "I deleted it."
        done = client.post(f"{api}/finish", {"reviewer": "Ann"})[1]
        assert read_suite(done["path"]).items[1].transcript[1].content == "I deleted it."


def test_no_request_that_the_description_allows_or_forbids_ends_in_a_500(tmp_path):
    import schemathesis
    from schemathesis import GenerationMode

    folder = saved_suite(tmp_path / "suite")
    schema = schemathesis.openapi.from_dict(bare_app(ReviewCatalog([])).openapi())
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 9
    with reviewing(folder) as client:
        key = client.get("/api/suites")[0]["key"]
        for operation in operations:
            _try_out(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), client, key)
            if operation.query or operation.body:
                _try_out(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE), client, key)
        assert client.get(f"/api/suites/{key}")["n_items"] == 8


def _try_out(cases, client: Client, key: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=cases)
    def no_500(case):
        if "key" in (case.path_parameters or {}):
            case.path_parameters["key"] = key
        response = case.call(base_url=f"http://{client.address}", headers={"X-JRH-Token": client.token})
        assert response.status_code < 500, (case.as_curl_command(), response.text)

    no_500()
