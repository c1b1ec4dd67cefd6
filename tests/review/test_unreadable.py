"""Bytes that are no text, in suites and in what is sent, over real HTTP: the rest of the review stays usable."""

from __future__ import annotations

import json

import pytest

from jrh_mlflow.errors import SuiteError
from jrh_mlflow.review.contents import folder_review
from jrh_mlflow.suites.suite import item_line, read_suite
from jrh_mlflow.text import clean_json
from tests.review.making import baseline, made, reviewing, rewritten, saved_suite
from tests.review.test_api import decide

JSON = {"Content-Type": "application/json"}
BROKEN = [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3", b"\\ud83d", b"\\uDE00\\ud83d"]


def three():
    return [baseline("s", "plain BEFORE"), made("s", "text AFTER"), made("s", "whole", test="label_flip_2")]


def opened(client):
    return f"/api/suites/{client.get('/api/suites')[0]['key']}"


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_no_text_is_shown_as_such_can_be_decided_and_leads_to_a_suite_that_loads(tmp_path, broken):
    folder = saved_suite(tmp_path / "suite", three())
    for mark in (b"BEFORE", b"AFTER"):
        rewritten(folder, mark, broken)
    before = (folder / "suite.jsonl").read_bytes()
    with reviewing(folder) as client:
        api = opened(client)
        item = client.get(f"{api}/items/0")
        assert set(item["perturbed"].removeprefix("text ")) == {"\ufffd"}
        assert set(item["original"].removeprefix("plain ")) == {"\ufffd"}
        assert [one["name"] for one in item["checks"] if not one["passed"]] == ["text"]
        assert client.get(f"{api}/items?failed_check=text")["total"] == 1
        assert client.get(f"{api}/items/1")["perturbed"] == "whole"
        assert decide(client, api, 0, "accept")[0] == decide(client, api, 1, "accept")[0] == 200
        status, done = client.post(f"{api}/finish", {"reviewer": "Ann"})
        assert status == 200
        assert read_suite(done["path"]).items[1].response == item["perturbed"]
        assert decide(client, api, 0, "edit", text="mended by hand")[0] == 200
        done = client.post(f"{api}/finish", {"reviewer": "Ann"})[1]
        edited = read_suite(done["path"]).items[1]
        assert (edited.response, edited.meta["review"]["text_before"]) == ("mended by hand", item["perturbed"])
    assert (folder / "suite.jsonl").read_bytes() == before


def test_a_pair_of_surrogates_that_belong_together_is_a_character(tmp_path):
    folder = rewritten(saved_suite(tmp_path / "suite", three()), b"AFTER", b"\\ud83d\\ude00 and \\\\ud83d")
    (entry, _) = folder_review(folder).content().entries
    assert (entry.item.response, entry.mended, entry.failed) == ("text \U0001f600 and \\ud83d", False, frozenset())


def test_a_judge_is_never_asked_about_mended_texts(tmp_path):
    folder = rewritten(saved_suite(tmp_path / "suite", three()), b"AFTER", b"\xff")
    with pytest.raises(SuiteError, match=r"suite\.jsonl, line 2: not an item \('utf-8' codec can't decode byte 0xff"):
        read_suite(folder)


def test_a_file_that_was_changed_after_hashing_is_refused_all_the_same(tmp_path):
    folder = saved_suite(tmp_path / "suite", three())
    content = (folder / "suite.jsonl").read_bytes().replace(b"AFTER", b"\xff")
    (folder / "suite.jsonl").write_bytes(content)
    with reviewing(folder) as client:
        (row,) = client.get("/api/suites")
        status, _, told = client.send("GET", f"/api/suites/{row['key']}")
    assert (status, "edited after hashing" in row["problem"], b"edited after hashing" in told) == (422, True, True)


def test_lines_that_are_no_items_do_not_stop_the_review_of_a_suite_that_grows(tmp_path, caplog):
    folder = tmp_path / "suite"
    folder.mkdir()
    first, broken, last = (item_line(item) for item in three())
    lines = [first, broken.replace(b"AFTER", b"\xff"), b"\xff\xfe{\n", b'"\\ud800"\n', b"\xff half a li"]
    (folder / "items.partial.jsonl").write_bytes(b"".join(lines))
    with reviewing(folder) as client:
        api = opened(client)
        assert (client.get(api)["n_items"], client.get(api)["unreadable"]) == (1, 2)
        assert client.get(f"{api}/items/0")["perturbed"] == "text \ufffd"
        (folder / "items.partial.jsonl").write_bytes(b"".join([*lines[:-1], last]))
        assert (client.get(api)["n_items"], client.get(api)["unreadable"]) == (2, 2)
        assert decide(client, api, 1, "accept")[0] == 200
    assert sum("not an item" in record.message for record in caplog.records) == 2


def test_a_suite_that_cannot_be_read_leaves_the_others_usable(tmp_path):
    broken = rewritten(saved_suite(tmp_path / "broken", three()), b'{"answers"', b"\xff")
    with reviewing(broken, saved_suite(tmp_path / "whole", three())) as client:
        rows = client.get("/api/suites")
        assert [(row["name"], row["n_items"], "problem" in row) for row in rows] == [
            ("broken", 0, True),
            ("whole", 2, False),
        ]
        assert decide(client, f"/api/suites/{rows[1]['key']}", 0, "accept")[0] == 200


def test_names_and_origins_with_lone_surrogates_do_not_stop_a_review(tmp_path):
    folder = saved_suite(tmp_path / "suite", three())
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"name": "half \ud83d", "origin": {"builder": "\ude00"}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with reviewing(folder) as client:
        api = opened(client)
        assert client.get(api)["name"] == "half \ufffd"
        assert decide(client, api, 0, "accept")[0] == 200
        status, done = client.post(f"{api}/finish", {"reviewer": "Ann", "allow_undecided": True})
    assert (status, read_suite(done["path"]).name) == (200, "half \ufffd-reviewed")


def test_numbers_that_json_does_not_know_are_shown_as_unknown(tmp_path):
    items = [baseline("s", "plain"), made("s", "text", similarity=float("nan"), attempts=float("inf"))]
    with reviewing(saved_suite(tmp_path / "suite", items)) as client:
        item = client.get(f"{opened(client)}/items/0")
    assert (item["similarity"], item["attempts"], item["perturbed"]) == (None, None, "text")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("decisions", b'{"index":0,"action":"edit","reviewer":"Ann","version":0,"text":"half \\ud800"}'),
        ("decisions", b'{"index":0,"action":"reject","reviewer":"Ann","version":0,"reason":"half \\udfff"}'),
        ("decisions", b'{"index":0,"action":"edit","reviewer":"Ann","version":0,"label":"\\ud800"}'),
        ("decisions", b'{"index":0,"action":"accept","reviewer":"\\ud800","version":0}'),
        ("decisions", b'{"\\ud800":0}'),
        ("bulk", b'{"filter":{"q":"\\ud800"},"action":"accept","reviewer":"Ann","expect":0}'),
        ("finish", b'{"reviewer":"\\ud800"}'),
    ],
)
def test_half_a_character_that_is_sent_is_refused_in_words(tmp_path, path, body):
    with reviewing(saved_suite(tmp_path / "suite", three())) as client:
        api = opened(client)
        status, _, content = client.send("POST", f"{api}/{path}", body, headers=JSON)
        assert (status, "holds half of a character" in json.loads(content)["message"]) == (422, True)
        assert client.get(f"{api}/events")["last"] == 0


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"index":0,"action":"accept","reviewer":"A\xff","version":0}'])
def test_bytes_that_are_not_utf_8_are_refused(tmp_path, body):
    with reviewing(saved_suite(tmp_path / "suite", three())) as client:
        api = opened(client)
        status, _, content = client.send("POST", f"{api}/decisions", body, headers=JSON)
        assert (status in (400, 422), "message" in json.loads(content)) == (True, True)
        assert client.get(f"{api}/events")["last"] == 0
        for query in ("items?q=%ff", "items?q=%ed%a0%80", "items/0?reviewer=%ff", "items/%ff"):
            assert client.send("GET", f"{api}/{query}")[0] < 500


def test_json_that_is_whole_is_not_touched_by_mending():
    for line in (item_line(three()[0]), b'{"a": "\\u00e9 \\\\ud800 \\ud83d\\ude00"}', b"", b"no JSON \\ud800"):
        assert clean_json(line) == line
