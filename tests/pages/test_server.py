"""`mlflow server --app-name jrh`: MLflow answers as before, and the review stands beside it with suites of runs."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import mlflow
import pytest
from mlflow.utils.plugins import get_entry_points

import jrh_mlflow as jrh
from jrh_mlflow.errors import SuiteError
from jrh_mlflow.pages.calls import SLOTS
from jrh_mlflow.pages.server import Beside, create_app, listening_address, server_token
from jrh_mlflow.review.guard import FORM_POLICY
from jrh_mlflow.suites.suite import Suite, hold_back, read_suite
from jrh_mlflow.tracking.mlflow_server import folder_uri, server_command, server_environment, wait_until_up
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import RunContent, Store, first_tags, publish
from tests import new_stores
from tests.processes import group_is_alive
from tests.review.making import TOKEN, Client, suite_items
from tests.servers import free_port
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def client(folder: Path, home: Path) -> Iterator[Client]:
    (folder / "mlflow.db").touch()
    new_stores.make_tables(folder_uri(folder))
    port = free_port()
    command = [*server_command(str(folder), port=port), "--app-name", "jrh"]
    environment = {**server_environment(), "JRH_HOME": str(home), "JRH_REVIEW_TOKEN": TOKEN}
    # As a user has it: without a network MLflow alone would hang in litellm's look-up of prices.
    del environment["LITELLM_LOCAL_MODEL_COST_MAP"]
    with (folder / "log").open("wb") as log:
        streams = {"stdout": log, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, env=environment, start_new_session=True, **streams)
        try:
            wait_until_up(f"http://127.0.0.1:{port}/health", process)
            yield Client(f"127.0.0.1:{port}", TOKEN, prefix="/jrh/review")
        finally:
            process.terminate()
            process.wait()
    wait_until(lambda: not group_is_alive(process.pid))


@pytest.fixture(scope="module")
def suite(client: Client) -> Suite:
    """A suite that a generation logged to the server."""
    made = Suite(name="capitals", items=suite_items(2), origin={"builder": "generate"})
    store = Store(f"http://{client.address}", "generations")
    run_id = store.create_run("generate capitals", tags=first_tags("generate", simulated=False))
    content = RunContent(
        points=(),
        params={"suite": keys.suite_facts(made)},
        description="",
        described_in=keys.GENERATION_MARKDOWN,
        artifacts={keys.GENERATION_MARKDOWN: ""},
        suite=made,
    )
    publish(store, run_id, content, what_now="")
    return made


def plain(client: Client, method: str, path: str, body: bytes | None = None, **headers: str):
    return Client(client.address, "").send(method, path, body, headers=headers, token=False)


def test_mlflow_finds_the_application_by_its_name():
    assert {app.name: app.value for app in get_entry_points("mlflow.app")}["jrh"] == (
        f"{create_app.__module__}:{create_app.__name__}"
    )


def test_mlflows_own_pages_and_api_answer_as_before(client):
    assert plain(client, "GET", "/health")[::2] == (200, b"OK")
    assert plain(client, "GET", "/version")[::2] == (200, mlflow.__version__.encode())
    status, headers, content = plain(client, "GET", "/")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert b"static-files" in content
    assert "content-security-policy" not in headers
    status, _, content = plain(client, "GET", "/api/2.0/mlflow/experiments/search?max_results=5")
    assert status == 200
    assert "Default" in [one["name"] for one in json.loads(content)["experiments"]]
    body = json.dumps({"name": "made beside the review"}).encode()
    created = plain(client, "POST", "/api/2.0/mlflow/experiments/create", body, **{"Content-Type": "application/json"})
    assert created[0] == 200
    status, _, content = plain(client, "GET", "/api/2.0/mlflow/experiments/get?experiment_id=999999")
    assert (status, json.loads(content)["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")
    assert plain(client, "GET", "/jrhx")[0] == 404


def test_mlflows_own_checks_stay_in_force(client):
    assert plain(client, "GET", "/api/2.0/mlflow/experiments/search?max_results=5", Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    "path",
    ["review/", "review/api/suites", "%72eview/api/suites", "review/./api/suites", "review/static/x", "review//"],
)
def test_the_review_asks_for_its_token(client, path):
    assert plain(client, "GET", f"/jrh/{path}")[0] == 401
    assert plain(client, "POST", f"/jrh/{path}", b"{}")[0] == 401


def test_a_person_without_the_token_gets_a_page_and_a_script_gets_json(client):
    status, headers, content = plain(client, "GET", "/jrh/review/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert status == 401
    assert headers["content-type"].startswith("text/html")
    assert "?token=" in content.decode()
    assert "<script" not in content.decode()
    status, headers, content = plain(client, "GET", "/jrh/review/api/suites")
    assert (status, headers["content-type"], list(json.loads(content))) == (401, "application/json", ["message"])


@pytest.mark.parametrize("path", ["//review/api/suites", "/./review/api/suites", "/REVIEW/api/suites", "/x/../review/"])
def test_no_other_spelling_leads_to_the_review(client, path):
    assert plain(client, "GET", f"/jrh{path}")[0] == 404


def test_pages_of_runs_need_no_token_and_know_none(client):
    status, headers, content = plain(client, "GET", "/jrh/")
    assert (status, TOKEN.encode() in content, "set-cookie" in headers) == (200, False, False)
    assert plain(client, "GET", "/jrh/", Host="evil.example")[0] == 403
    assert plain(client, "GET", "/jrh/", **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert plain(client, "POST", "/jrh/", b"")[0] == 405


def test_the_link_leads_to_the_evaluations_and_on_to_the_review_and_back(client):
    status, headers, content = plain(client, "GET", f"/jrh?token={TOKEN}")
    assert (status, headers["location"]) == (307, f"http://{client.address}/jrh/?token={TOKEN}")
    status, headers, content = plain(client, "GET", f"/jrh/?token={TOKEN}")
    assert (status, f'href="review/?token={TOKEN}"'.encode() in content) == (200, True)
    status, headers, content = plain(client, "GET", f"/jrh/review/?token={TOKEN}")
    assert (status, b'<a id="evaluations" href="../">' in content) == (200, True)
    assert "Path=/jrh/review/" in headers["set-cookie"]
    status, headers, _ = plain(client, "GET", f"/jrh/review?token={TOKEN}")
    assert (status, headers["location"]) == (303, f"/jrh/review/?token={TOKEN}")


def test_datasheets_and_comparisons_of_the_servers_own_runs_are_shown(client):
    suite = jrh.datasheet_suite(n_tasks=1, depth=1)
    options = {"experiment": "judges", "tracking_uri": f"http://{client.address}", "progress": False}
    judges = (jrh.scripted.AlwaysFirst(), jrh.scripted.Oracle())
    first, oracle = (jrh.evaluate(judge, suite, **options).run_id for judge in judges)
    pages = Client(client.address, "", prefix="/jrh")
    assert f'href="datasheet/{oracle}"'.encode() in pages.send("GET", "/")[2]
    status, headers, content = pages.send("GET", f"/datasheet/{first}")
    assert (status, headers["content-security-policy"]) == (200, FORM_POLICY)
    assert b"AlwaysFirst" in content
    _follow_a_number(pages, first, content.decode())
    assert pages.send("GET", f"/datasheet/{'0' * 32}")[0] == 404
    status, _, content = pages.send("GET", f"/compare?run={first}&run={oracle}")
    assert (status, b"AlwaysFirst (simulated)" in content) == (200, True)


def _follow_a_number(pages: Client, run_id: str, datasheet: str) -> None:
    """Click from a number of a datasheet to the calls behind it, and on to a pair: links alone lead there."""
    axis = "positional_false_preference"
    calls = _followed(pages, f"/datasheet/{run_id}", datasheet, f"../calls/{run_id}?axis={axis}")
    assert "n 2 pairs, left out 0, " in calls[1]
    opened = _followed(pages, *calls, f"../calls/{run_id}?axis={axis}&open=")
    assert "Positional: " in opened[1]
    assert f"Order vu: {SLOTS['vu']}" in opened[1]
    assert _followed(pages, *opened, f"../calls/{run_id}?axis={axis}")[1] == calls[1]
    assert _followed(pages, *opened, f"../datasheet/{run_id}")[1] == datasheet


def _followed(pages: Client, path: str, page: str, start: str) -> tuple[str, str]:
    """Follow the first link of a page that begins so."""
    links = map(html.unescape, re.findall(r'href="([^"]*)"', page))
    target = urljoin(path, next(link for link in links if link.startswith(start)))
    status, headers, content = pages.send("GET", target)
    assert (status, headers["content-security-policy"]) == (200, FORM_POLICY)
    return target, content.decode()


def test_the_server_says_where_its_pages_are(client, folder):
    told = (folder / "log").read_text(encoding="utf-8")
    assert f"judges     http://{client.address}/jrh/\n" in told
    assert f"review     http://{client.address}/jrh/review/?token={TOKEN}\n" in told


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "http://127.0.0.1:7"), ("::1", "http://[::1]:7"), ("box", "http://box:7")]
)
def test_an_address_is_one_that_a_browser_can_open(host, address):
    assert listening_address(["x", "--workers", "4", "--host", host, "--port", "7", "app"]) == address
    assert listening_address(["gunicorn", "-b", f"{host}:7"]) is None


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:1"])
def test_a_page_on_another_port_is_let_in_by_mlflow_but_not_by_us(client, origin):
    theirs = plain(client, "GET", "/version", Origin=origin)
    assert theirs[1].get("access-control-allow-origin") == origin
    status, headers, _ = client.send("GET", "/api/suites", headers={"Origin": origin})
    assert status == 403
    assert not [name for name in headers if name.startswith("access-control-")]


@pytest.mark.parametrize("host", ["10.attacker.com", "evil.example", "192.168.0.1:5000"])
def test_hosts_that_mlflow_would_accept_are_refused(client, host):
    assert client.send("GET", "/api/suites", headers={"Host": host})[0] == 403


def test_a_suite_of_a_run_is_reviewed_and_the_review_is_logged_beside_it(client, suite, home, monkeypatch):
    (row,) = client.get("/api/suites")
    assert (row["name"], row["sha256"]) == ("capitals", suite.sha256)
    api = f"/api/suites/{row['key']}"
    monkeypatch.setenv("JRH_HOME", str(home))
    assert client.get(api)["states"]["undecided"] == 2
    hold_back(suite)  # looking at it holds nothing back
    order = {"filter": {"state": "undecided"}, "action": "accept", "reviewer": "Ann", "expect": 2}
    assert client.post(f"{api}/bulk", order)[0] == 200
    with pytest.raises(SuiteError, match="under review"):
        hold_back(suite)
    status, done = client.post(f"{api}/finish", {"reviewer": "Ann"})
    assert status == 200
    assert read_suite(done["path"]).origin["parent_sha256"] == suite.sha256
    store = Store(f"http://{client.address}", "generations")
    run = store.client.get_run(done["run_id"])
    assert (run.data.tags["jrh.kind"], run.data.metrics["review/accepted"]) == ("review", 2)
    assert run.info.experiment_id == store.experiment_id
    assert store.client.get_experiment_by_name("judge-datasheets") is None, "made and never used"
    traces = store.client.search_traces(locations=[store.experiment_id], run_id=done["run_id"])
    assert run.data.tags["jrh.traces"] == f"{len(traces)} of 2 decided items"
    for trace in traces:
        found = {(one.name, one.source.source_type, one.source.source_id): one.value for one in trace.info.assessments}
        assert found == {
            ("review", "HUMAN", "Ann"): "accepted",
            ("validator", "LLM_JUDGE", "validator"): "fail",
            ("label", "HUMAN", "Ann"): "fail",
        }
    assert client.get("/api/suites")[0]["n_decided"] == 2


def test_all_workers_of_a_server_share_one_token_that_only_its_user_can_read(tmp_path, monkeypatch):
    monkeypatch.delenv("JRH_REVIEW_TOKEN", raising=False)
    token = server_token()
    assert server_token() == token
    assert len(token) >= 32
    assert (Path(os.environ["JRH_HOME"]) / "review-token").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("JRH_REVIEW_TOKEN", "chosen-by-the-administrator")
    assert server_token() == "chosen-by-the-administrator"


def test_paths_are_told_apart_by_whole_names():
    asked = []

    def app(name):
        async def answer(scope, receive, send):
            asked.append((name, scope.get("root_path", "")))

        return answer

    async def nothing(*_):
        return None

    beside = Beside(app("mlflow"), app("ours"), prefix="/jrh")
    for path in ("/jrh", "/jrh/review/", "/jrhx", "/JRH/", "/", "/x/jrh/"):
        coroutine = beside({"type": "http", "path": path}, nothing, nothing)
        with pytest.raises(StopIteration):
            coroutine.send(None)
    assert asked == [("ours", "/jrh"), ("ours", "/jrh"), *[("mlflow", "")] * 4]
