"""Pages of runs over real HTTP and in a real browser: the list, a datasheet in its sandbox, a comparison."""

from __future__ import annotations

import html
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from markupsafe import escape
from mlflow import MlflowClient
from playwright.sync_api import expect
from starlette.applications import Starlette

import jrh_mlflow as jrh
from jrh_mlflow.pages.runs import MOST_COMPARED, run_routes
from jrh_mlflow.pages.server import Beside
from jrh_mlflow.review.guard import CONTENT_SECURITY_POLICY, FORM_POLICY, SANDBOX_POLICY, Guard
from jrh_mlflow.show.html import Addresses
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs.read import run_file
from jrh_mlflow.tracking.runs.store import Store, first_tags
from tests.comparing.test_compare import pointwise_suite
from tests.review.browser import chromium, looks, served, show_next, ten, violations
from tests.review.making import TOKEN, Client

EVIL = "\"'><script>document.title='pwned'</script><img src=x onerror=alert(1)>&amp;"
HOSTILE_SHEET = (
    "<!DOCTYPE html><title>calm</title><p id=said>read me</p><script>document.title='pwned'</script>"
    "<img src=x onerror=\"document.title='pwned'\"><meta http-equiv=refresh content='0;url=../'>"
)


@contextmanager
def serving(store: str) -> Iterator[Client]:
    """The pages behind their guard under /jrh on a real port, beside an application that answers the rest."""

    async def rest(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": [(b"x-from", b"mlflow")]})
        await send({"type": "http.response.body", "body": b""})

    app = Beside(rest, Guard(Starlette(routes=run_routes(lambda _: store)), token=None), prefix="/jrh")
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Client(f"127.0.0.1:{listening.getsockname()[1]}", "", prefix="/jrh")
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def store_uri(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of its own: in the one of all tests every look at the list would be at two hundred runs."""
    folder = tmp_path_factory.mktemp("store")
    assert Store(folder_uri(folder), "tests", artifacts=artifacts_uri(folder)).experiment_id
    return folder_uri(folder)


@pytest.fixture(scope="module")
def client(store_uri: str) -> Iterator[Client]:
    with serving(store_uri) as client:
        yield client


@pytest.fixture(scope="module")
def runs(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run ids by judge: two on one suite, one on another; a generation; a run whose datasheet somebody else wrote."""
    points, others = pointwise_suite(name=f"points {EVIL}"), pointwise_suite(name="others", tests=("typos",))
    options = {"experiment": f"run pages {EVIL}", "tracking_uri": store_uri, "traces": "none", "progress": False}
    found = {
        "oracle": jrh.evaluate(jrh.scripted.Oracle(), points, **options).run_id,
        "hostile": jrh.evaluate(_named(EVIL), points, run_name=f"run {EVIL}", **options).run_id,
        "other": jrh.evaluate(jrh.scripted.Oracle(), others, **options).run_id,
    }
    store = Store(store_uri, "run pages of strangers")
    found["comparison"] = jrh.compare([found["oracle"], found["hostile"]], tracking_uri=store_uri).run_id
    described = {"mlflow.note.content": f"# {EVIL}", "jrh.truncated": EVIL}
    found["generation"] = store.create_run(
        f"a generation {EVIL}", tags=first_tags("generate", simulated=False, tags=described)
    )
    store.client.log_param(found["generation"], "generate.from", f"of {found['oracle']} and {'0' * 32}")
    found["nested"] = store.create_run("nested", tags=first_tags(EVIL, simulated=True), parent=found["generation"])
    found["stranger"] = store.create_run("a stranger", tags=first_tags("evaluate", simulated=False))
    sheet = tmp_path_factory.mktemp("sheet") / "datasheet.html"
    sheet.write_text(HOSTILE_SHEET, encoding="utf-8")
    store.client.log_artifact(found["stranger"], str(sheet))
    for name in ("generation", "stranger"):
        store.client.set_terminated(found[name])
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def _named(name: str):
    def judge(presentation: jrh.Presentation) -> str:
        return "no"

    judge.__name__ = judge.__qualname__ = name
    return judge


def text(client: Client, path: str, status: int = 200) -> str:
    answered, headers, content = client.send("GET", path)
    assert answered == status, content
    assert headers["content-type"] == "text/html; charset=utf-8"
    return content.decode()


def row_of(page: str, run_id: str) -> str:
    return next(row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if run_id in row)


def test_only_finished_evaluations_are_listed(client, runs, store_uri):
    page = text(client, "/")
    assert runs["generation"] not in page
    open_run = Store(store_uri, "run pages of strangers").create_run("o", tags=first_tags("evaluate", simulated=False))
    assert open_run not in text(client, "/")


def test_a_gated_run_says_so_in_the_list_and_on_its_page(client, runs, store_uri):
    rules = ["baseline/accuracy >= 0.999", "excluded/baseline/accuracy <= 0.5"]
    gate = jrh.gate(runs["other"], rules, tracking_uri=store_uri)
    assert gate.passed is None
    assert ">not decided</td>" in row_of(text(client, "/"), runs["other"])
    assert "not decided" not in row_of(text(client, "/"), runs["oracle"])
    page = html.unescape(text(client, f"/datasheet/{runs['other']}"))
    assert "further tasks" in page
    assert gate.run_id in page
    assert "<script" not in page
    jrh.gate(runs["other"], "baseline/accuracy >= 0.1", tracking_uri=store_uri)
    assert ">passed</td>" in row_of(text(client, "/"), runs["other"])
    page = html.unescape(text(client, f"/datasheet/{runs['other']}"))
    assert "passed: 1 of 1 rules hold" in page
    assert "further tasks" not in page


def test_names_are_text_wherever_they_are_shown(client, runs):
    pages = [text(client, "/"), text(client, f"/compare?run={runs['oracle']}&run={runs['hostile']}")]
    pages.append(text(client, f"/compare?run={runs['other']}&run={runs['hostile']}", 422))
    assert f'">{escape(EVIL)}</a>' in row_of(pages[0], runs["hostile"])  # the judge
    assert f">{escape(f'run {EVIL}')}</a>" in row_of(pages[0], runs["hostile"])
    for page in pages:
        assert "<script" not in page
        assert "onerror=alert(1)&gt;" in page
        assert "<img src=x" not in page


def test_a_datasheet_is_made_from_what_the_run_holds_and_leads_on(client, runs):
    status, headers, content = client.send("GET", f"/datasheet/{runs['oracle']}")
    assert (status, headers["content-security-policy"]) == (200, FORM_POLICY)
    assert "script-src" not in FORM_POLICY
    for link in ("../", f"../calls/{runs['oracle']}", f"/runs/{runs['oracle']}?workflowType=machine_learning"):
        assert f'{link}"' in content.decode()
    assert client.send("GET", f"/datasheet/{runs['oracle']}")[2] == content


def test_a_run_that_cannot_be_read_shows_the_page_that_it_logged_in_a_sandbox(client, runs):
    for page in ("datasheet", "logged"):
        status, headers, content = client.send("GET", f"/{page}/{runs['stranger']}")
        assert (status, content.decode()) == (200, HOSTILE_SHEET)
        assert headers["content-security-policy"] == SANDBOX_POLICY
        assert {"default-src 'none'", "sandbox"} < set(SANDBOX_POLICY.split("; "))
        assert "script-src" not in SANDBOX_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert "cross-origin-opener-policy" not in headers


@pytest.mark.parametrize(
    "wrong", ["0" * 32, "0" * 31, "x" * 32, "", "..", "..%2f..%2fetc%2fpasswd", "A" * 32, "%00", "{oracle}%0a"]
)
def test_a_wrong_id_is_not_found(client, runs, wrong):
    assert client.send("GET", f"/datasheet/{wrong.format(**runs)}")[0] == 404


def test_a_run_without_a_datasheet_is_told_apart_from_a_broken_store(client, runs, monkeypatch):
    page = text(client, f"/datasheet/{runs['generation']}", 404)
    assert "has no datasheet" in page
    assert '<a href="/jrh/">' in page
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with serving("http://127.0.0.1:9") as broken:
        assert "cannot be reached" in text(broken, f"/datasheet/{runs['oracle']}", 502)


def test_only_run_ids_are_asked_for(store_uri):
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        run_file(store_uri, "../x", "datasheet.html")


def test_a_comparison_shows_judges_side_by_side_and_logs_nothing(client, runs, store_uri):
    status, headers, content = client.send("GET", f"/compare?run={runs['oracle']}&run={runs['hostile']}")
    expected = jrh.compare([runs["oracle"], runs["hostile"]], tracking_uri=store_uri, log=False)
    expected = expected.to_html(addresses=Addresses(""))
    before, _, after = expected.partition("<header>")
    assert (status, content.decode().startswith(before), content.decode().endswith(after)) == (200, True, True)
    assert headers["content-security-policy"] == FORM_POLICY
    logged = MlflowClient(store_uri).search_experiments(filter_string="name LIKE 'run pages %'")
    kinds = MlflowClient(store_uri).search_runs([one.experiment_id for one in logged], "tags.`jrh.kind` = 'compare'")
    assert [one.info.run_id for one in kinds] == [runs["comparison"]]


def test_a_comparison_over_several_suites_is_shown_as_it_was_logged(client, runs, store_uri):
    sources = [runs["oracle"], runs["other"]]
    done = jrh.compare(sources, experiment="two suites", tracking_uri=store_uri)
    page = html.unescape(text(client, f"/run/{done.run_id}"))
    assert done.title in page
    assert "never pooled over suites" in page


def test_runs_on_different_suites_are_refused_with_what_differs(client, runs):
    page = html.unescape(text(client, f"/compare?run={runs['oracle']}&run={runs['other']}", 422))
    assert "are on different suites" in page
    assert "(markdown)" in page


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("", 422, "got 0"),
        ("?run={oracle}", 422, "got 1"),
        ("?run={oracle}&run={oracle}", 422, "got 1"),
        ("?run={oracle}&run=../../x", 404, "no such run"),
        ("?run={oracle}&run=00000000", 404, "no such run"),
        ("?run={oracle}&run=" + "0" * 32, 422, "There is no run"),
        ("?run={oracle}&run={generation}", 422, "only evaluations can be compared"),
        ("?run={oracle}&run={stranger}", 422, "cannot be compared"),
        ("?" + "&".join(f"run={n:032x}" for n in range(MOST_COMPARED + 1)), 422, "There is no run"),
    ],
)
def test_a_comparison_that_makes_no_sense_is_refused_in_words(client, runs, query, status, said):
    page = text(client, f"/compare{query.format(**runs)}", status)
    assert said in page
    assert '<a href="/jrh/">' in page


@pytest.mark.parametrize("path", ["/", "/run/{generation}", "/compare?run={oracle}&run={hostile}"])
def test_pages_open_without_a_token_but_for_no_other_site(client, runs, path):
    path = path.format(**runs)
    assert client.send("GET", path, headers={"Host": "evil.example"})[0] == 403
    assert client.send("GET", path, headers={"Origin": "http://evil.example"})[0] == 403
    assert client.send("GET", path, headers={"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert client.send("POST", path)[0] == 405


def test_the_link_of_the_list_leads_on_to_the_review_with_its_token(client, runs):
    page = client.send("GET", f"/?token={TOKEN}", token=False)[2].decode()
    assert f'<a href="review/?token={TOKEN}">' in page
    assert '<a href="review/">' in text(client, "/")


def test_only_the_policies_of_the_guard_leave_it(client, runs):
    assert client.send("GET", "/")[1]["content-security-policy"] == FORM_POLICY
    assert "form-action 'self'" in FORM_POLICY
    assert client.send("GET", "/nowhere")[1]["content-security-policy"] == CONTENT_SECURITY_POLICY

    async def lax(scope, receive, send):
        headers = [(b"content-security-policy", b"default-src *")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    server = uvicorn.Server(uvicorn.Config(Guard(lax, token=TOKEN), log_level="critical", lifespan="off", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        answered = Client(f"127.0.0.1:{listening.getsockname()[1]}", TOKEN).send("GET", "/")
        server.should_exit = True
        thread.join()
    assert answered[1]["content-security-policy"] == CONTENT_SECURITY_POLICY


def test_the_page_of_a_run_is_the_one_of_its_kind(client, runs, store_uri):
    to = {name: client.send("GET", f"/run/{runs[name]}") for name in ("oracle", "comparison")}
    assert (to["oracle"][0], to["oracle"][1]["location"]) == (303, f"../datasheet/{runs['oracle']}")
    pair = f"run={runs['oracle']}&run={runs['hostile']}"
    assert (to["comparison"][0], to["comparison"][1]["location"]) == (303, f"../compare?{pair}")
    note = MlflowClient(store_uri).get_run(runs["comparison"]).data.tags["mlflow.note.content"]
    assert note.startswith(f"[Page of this run](jrh/run/{runs['comparison']}), where")
    logged = client.send("GET", f"/logged/{runs['comparison']}")
    assert (logged[0], logged[1]["content-security-policy"]) == (200, SANDBOX_POLICY)


def test_a_run_without_a_page_of_its_own_shows_its_description_and_what_belongs_to_it(client, runs):
    page = text(client, f"/run/{runs['generation']}")
    assert escape(EVIL) in page
    assert "<b>kind</b> generation" in page
    assert f'href="../run/{runs["nested"]}"' in page
    assert f'href="../run/{runs["oracle"]}"' in page
    assert f"/runs/{runs['generation']}" in page
    assert "<script" not in page
    assert f'href="../run/{runs["generation"]}"' in text(client, f"/run/{runs['nested']}")
    assert "wrote no page" in text(client, f"/logged/{runs['generation']}", 404)


LISTED = ("run", "token", "page", "part", "kind", "suite", "judge", "gate", "state", "sort", "after", "condition")
ODD = (
    "",
    "%00",
    "%ff",
    "../..",
    "a" * 5000,
    "{oracle}{oracle}",
    "{oracle}/",
    "{{x}}",
    "<script>",
    "%F0%9F%92%A9",
    "-1",
)


@pytest.mark.parametrize("page", ["run", "datasheet", "logged", "compare", "differ", ""])
def test_no_odd_address_is_an_error_of_ours(client, runs, page):
    odd = [one.format(**runs) for one in ODD]
    paths = [f"/{page}/{quote(one, safe='%')}" for one in odd]
    values = [quote(one, safe="%") for one in odd]
    queries = [f"/{page}?{'&'.join(f'{name}={value}' for name in (*LISTED, value))}" for value in values]
    # An experiment that is not there is refused before anything else is looked at.
    queries += [f"/{page}?experiment={value}" for value in values]
    found = {path[:80]: client.send("GET", path)[0] for path in [*paths, *queries]}
    assert {path: status for path, status in found.items() if status >= 500} == {}


def test_everything_else_is_answered_by_the_application_beside(client):
    status, headers, _ = Client(client.address, "").send("GET", "/datasheet/x", token=False)
    assert (status, headers["x-from"]) == (204, "mlflow")
    assert "content-security-policy" not in headers


@pytest.mark.slow
def test_list_run_page_and_problem_are_accessible_and_scroll_down_only(client, runs, browser):
    page = browser.new_page(bypass_csp=True)
    for name in ("", f"run/{runs['generation']}", f"run/{'0' * 32}"):
        address = f"http://{client.address}/jrh/{name}"
        show_next(page, address) if name else page.goto(address)
        for width in looks(page):
            assert violations(page) == [], (name, width)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.close()


def test_in_a_browser_two_ticks_compare_and_a_strangers_datasheet_does_nothing(client, runs, browser):
    link = f"http://{client.address}/jrh/"
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(link)
    for name in ("oracle", "hostile"):
        page.locator(f"input[value='{runs[name]}']").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Comparison of 2 judges")
    page.go_back()
    page.locator(f"a[href='datasheet/{runs['oracle']}']").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Judge reliability: Oracle")
    expect(page.locator("figure svg").first).to_be_visible()
    page.goto(f"{link}datasheet/{runs['stranger']}")
    expect(page.locator("#said")).to_have_text("read me")
    page.wait_for_timeout(300)
    assert (page.title(), page.url) == ("calm", f"{link}datasheet/{runs['stranger']}")
    assert page.evaluate("window.origin") == "null"


@pytest.mark.slow
def test_in_a_browser_the_reviewer_of_the_link_is_taken_once_and_remembered(tmp_path, browser):
    with served(ten(tmp_path / "suite")) as link:
        page = browser.new_page()
        page.goto(f"{link}&reviewer=Ada%20L")
        expect(page.locator("#reviewer")).to_have_text("Ada L")
        expect(page.locator("#your-name")).to_have_count(0)
        assert "reviewer=" not in page.url
        page.reload()
        expect(page.locator("#reviewer")).to_have_text("Ada L")
