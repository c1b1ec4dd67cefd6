"""The door, over real HTTP: who is let in, and what every answer carries."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from jrh_mlflow.review.guard import CONTENT_SECURITY_POLICY, MAX_BODY_BYTES
from tests.review.making import Client, reviewing, saved_suite


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with reviewing(saved_suite(tmp_path_factory.mktemp("guard") / "suite")) as client:
        yield client


@pytest.fixture(scope="module")
def key(client: Client) -> str:
    return client.get("/api/suites")[0]["key"]


def decision(**more: object) -> bytes:
    return json.dumps({"index": 0, "action": "accept", "reviewer": "Eve", "version": 0, **more}).encode()


JSON = {"Content-Type": "application/json"}


def test_the_link_opens_the_page_its_parts_and_the_data(client):
    status, headers, content = client.send("GET", f"/?token={client.token}", token=False)
    assert status == 200
    assert b"<!DOCTYPE html>" in content
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.token not in cookie
    kept = {"Cookie": cookie.partition(";")[0]}
    assert client.send("GET", "/", headers=kept, token=False)[0] == 200
    assert client.send("GET", "/static/main.js", headers=kept, token=False)[0] == 200
    assert client.send("GET", "/api/suites")[0] == 200


def test_the_cookie_which_other_ports_see_too_opens_no_data(client, key):
    cookie = client.send("GET", f"/?token={client.token}", token=False)[1]["set-cookie"].partition(";")[0]
    for method, path in (("GET", "/api/suites"), ("POST", f"/api/suites/{key}/decisions")):
        assert client.send(method, path, decision(), headers={**JSON, "Cookie": cookie}, token=False)[0] == 401


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/suites", "/api/openapi.json", "/nowhere", "/?token=x"])
def test_without_the_token_nothing_is_answered(client, path):
    status, headers, content = client.send("GET", path, token=False)
    assert status == 401
    assert "token" in json.loads(content)["message"]
    assert "set-cookie" not in headers


@pytest.mark.parametrize("token", ["", "x", "ä", "wrong-token-of-the-right-kind"])
def test_a_wrong_token_is_no_token(client, token):
    sent = {"X-JRH-Token": token.encode().decode("latin-1")}
    assert client.send("GET", "/api/suites", headers=sent, token=False)[0] == 401


@pytest.mark.parametrize("token_in", ["/api/suites?token={}", "/api/suites/k/decisions?token={}"])
def test_the_token_in_an_address_opens_the_page_only(client, token_in):
    path = token_in.format(client.token)
    assert client.send("GET", path, token=False)[0] == 401
    assert client.send("POST", path, decision(), headers=JSON, token=False)[0] == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "localhost:1", "10.attacker.com", "127.0.0.1.evil.example:{port}", ""]
)
def test_a_wrong_host_is_refused(client, host):
    port = client.address.rpartition(":")[2]
    assert client.send("GET", "/api/suites", headers={"Host": host.format(port=port)})[0] in (400, 403)


def test_this_machine_by_its_name_is_the_same_host(client):
    port = client.address.rpartition(":")[2]
    assert client.send("GET", "/api/suites", headers={"Host": f"localhost:{port}"})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost:5000"])
@pytest.mark.parametrize(("method", "path"), [("GET", "/api/suites"), ("POST", "/api/suites/{key}/decisions")])
def test_a_foreign_origin_is_refused_even_with_the_token(client, key, origin, method, path):
    headers = {**JSON, "Origin": origin}
    assert client.send(method, path.format(key=key), decision(), headers=headers)[0] == 403
    assert client.get(f"/api/suites/{key}/events")["last"] == 0


@pytest.mark.parametrize(("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200)])
def test_a_request_that_a_browser_marks_as_foreign_is_refused(client, site, status):
    assert client.send("GET", "/api/suites", headers={"Sec-Fetch-Site": site})[0] == status


@pytest.mark.parametrize("action", ["decisions", "bulk", "finish"])
def test_reading_changes_nothing(client, key, action):
    query = "?index=0&action=accept&reviewer=Eve&version=0&expect=8&allow_undecided=true"
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.send(method, f"/api/suites/{key}/{action}{query}")[0] == 405
    assert client.get(f"/api/suites/{key}/events")["last"] == 0


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_cannot_decide(client, key, kind):
    status, _, _ = client.send("POST", f"/api/suites/{key}/decisions", decision(), headers={"Content-Type": kind})
    assert status == 422
    assert client.get(f"/api/suites/{key}/events")["last"] == 0


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/..%5capp.py",
        "/static//etc/passwd",
        "/static/main.js%00.css",
        "/static/",
        "/static",
        "//static/main.js",
        "/../../../../etc/passwd",
        "/api/suites/../../app.py",
        "/api/suites/..%2f..%2fapp.py",
        "/api/suites/%2e%2e",
        "/api/suites/x/items/0",
        "/api/suites//items/0",
    ],
)
def test_no_path_leads_to_another_file(client, path):
    status, _, content = client.send("GET", path)
    assert status == 404
    assert b"root:" not in content
    assert b"import" not in content


@pytest.mark.parametrize("index", ["-1", "99999999999999999999999", "../0", "0x1", "%00", "1.5", "NaN"])
def test_an_item_is_a_number_that_there_is(client, key, index):
    assert client.send("GET", f"/api/suites/{key}/items/{index}")[0] in (404, 422)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"index": "\xff"}',
        b"[" * 100_000,
        b'{"index": 1e999}',
        decision(reviewer="\ud800"),
        decision(reviewer=" "),
        decision(reviewer="two\nlines"),
        decision(index=True),
        decision(index=-1),
        decision(version=10**30),
        decision(unknown=1),
        decision(action="edit", text="\ud800"),
        decision(action="edit", text={"a": 1}),
        decision(action="drop table"),
    ],
)
def test_nonsense_in_a_request_is_refused_and_nothing_is_written(client, key, body):
    status, _, content = client.send("POST", f"/api/suites/{key}/decisions", body, headers=JSON)
    assert status in (400, 422)
    assert json.loads(content)["message"]
    assert client.get(f"/api/suites/{key}/events")["last"] == 0


def test_a_request_that_is_too_large_is_refused(client, key):
    body = b'{"text": "' + b"x" * MAX_BODY_BYTES + b'"}'
    assert client.send("POST", f"/api/suites/{key}/decisions", body, headers=JSON)[0] == 413


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/suites", "/nowhere"])
@pytest.mark.parametrize("token", [True, False])
def test_every_answer_forbids_what_a_page_of_model_text_must_not_do(client, path, token):
    _, headers, _ = client.send("GET", path, headers={"Origin": f"http://{client.address}"}, token=token)
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control-")]


def test_the_server_listens_on_this_machine_only(client):
    assert client.address.startswith("127.0.0.1:")
