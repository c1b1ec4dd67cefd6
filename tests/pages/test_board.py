"""The leaderboard over real HTTP: sorted, filtered and turned by the store; marks, trends, ticks, and the grid."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
import pytest
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from starlette.datastructures import QueryParams

import jrh_mlflow as jrh
from jrh_mlflow.measures.disagreement import answer_shares, mean_distance
from jrh_mlflow.pages.calls import SLOTS
from jrh_mlflow.pages.runs import MOST_COMPARED, _part
from jrh_mlflow.show.run_overview import KINDS
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs import keys, leaderboard
from jrh_mlflow.tracking.runs.leaderboard import RunQuery, run_list, tag_reading
from jrh_mlflow.tracking.runs.store import Store
from tests.pages.test_runs import serving
from tests.review.browser import chromium, looks, show_next, violations
from tests.review.making import Client

AXIS = "dark_current"
SUITES = {"letters": "a" * 64, "points": "b" * 64}
N_RUNS = 14
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def store(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("board")
    store = Store(folder_uri(folder), "board", artifacts=artifacts_uri(folder))
    assert store.experiment_id
    return store


def made(
    store: Store, *, kind: str = "evaluate", days: float = 0, tags=(), params=(), metrics=(), status="FINISHED"
) -> str:
    """Log a run as MLflow's API does, without any file."""
    client, started = MlflowClient(store.uri), int(time.time() * 1000 - days * DAY_MS)
    run_id = client.create_run(store.experiment_id, start_time=started).info.run_id
    all_tags = {keys.TAG_KIND: kind, keys.TAG_SIMULATED: "false", **dict(tags)}
    client.log_batch(
        run_id,
        metrics=[Metric(key, value, started, 0) for key, value in dict(metrics).items()],
        params=[Param(key, value) for key, value in dict(params).items()],
        tags=[RunTag(key, value) for key, value in all_tags.items()],
    )
    client.set_terminated(run_id, status)
    return str(run_id)


@pytest.fixture(scope="module")
def runs(store: Store) -> dict[str, str]:
    """Judges on two suites: two versions of one, gates, costs, a deleted run, one that failed, runs of other kinds."""
    made_runs = {}
    for number in range(N_RUNS):
        suite = list(SUITES)[number % 2]
        value = number / 100
        tags = {
            keys.TAG_JUDGE: f"judge {number // 2 % 3}",
            keys.TAG_FINGERPRINT: f"{number // 6:064x}",
            keys.own_key(AXIS): f"{value:.2f} [{max(0, value - 0.05):.2f}, {value + 0.2:.2f}]",
            keys.own_key("slot_lean"): "-0.20 [-0.40, 0.00]",
            keys.TAG_VERDICT: f"It says number {number}.",
        }
        if number < 4:
            tags[keys.TAG_GATE] = ("passed: 1 of 1 rules hold", "failed: x", "not decided: y", "passed: z")[number]
        if number > 9:
            tags[keys.TAG_DRIFT] = "changed since look 3: ability" if number == 12 else "unchanged, 3 looks"
        params = {keys.PARAM_SUITE_NAME: suite, keys.PARAM_SUITE_SHA256: SUITES[suite], keys.PARAM_MODEL: "a-model"}
        metrics = {f"{AXIS}/rate": value, "cost/usd": 20.0 - number}
        made_runs[f"run {number}"] = made(store, days=N_RUNS - number, tags=tags, params=params, metrics=metrics)
    used = {keys.TAG_DATASHEETS: "1 stale", f"{keys.STATUS_OF}judge": f"stale: run {made_runs['run 12']}"}
    made(store, kind="other", tags=used)
    made_runs["deleted"] = made(store, tags={keys.TAG_JUDGE: "gone"})
    MlflowClient(store.uri).delete_run(made_runs["deleted"])
    made_runs["failed"] = made(store, tags={keys.TAG_JUDGE: "broken"}, status="FAILED")
    made_runs["sweep"] = made(store, kind="sweep", tags={keys.TAG_VERDICT: "The cheap one is as good."})
    return made_runs


@pytest.fixture(scope="module")
def client(store: Store) -> Iterator[Client]:
    with serving(store.uri) as client:
        yield client


def page_of(client: Client, path: str = "", status: int = 200, /, **query: object) -> str:
    answered, _, content = client.send("GET", f"/{path}?{urlencode(query, doseq=True)}")
    assert answered == status, content
    return html.unescape(content.decode())


def listed(page: str, runs: dict[str, str]) -> list[str]:
    """Names of the runs of the table, in their order."""
    names = {run_id: name for name, run_id in runs.items()}
    ticks = re.findall(r'name="run" value="([0-9a-f]{32})"', page)
    return [names[run_id] for run_id in ticks]


def row_of(page: str, run_id: str) -> str:
    return next(row for row in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if run_id in row)


def head_link(page: str, head: str) -> str:
    return re.search(rf'<th scope="col"[^>]*><a href="([^"]*)">{re.escape(head)}[^<]*</a></th>', page)[1]


def test_judges_stand_by_suite_and_within_one_the_newest_first(client, runs):
    page = page_of(client)
    assert re.findall(r"<h2>(\w+)", page) == [*SUITES, "Terms"]
    even, odd = ([f"run {number}" for number in range(start, -1, -2)] for start in (N_RUNS - 2, N_RUNS - 1))
    assert listed(page, runs) == [*even, *odd]


@pytest.mark.parametrize(("head", "first"), [("dark current", "run 0"), ("cost", "run 12")])
def test_a_head_sorts_by_the_store_and_a_second_click_turns_it_round(client, runs, head, first):
    link = head_link(page_of(client, suite=SUITES["letters"]), head)
    page = html.unescape(client.send("GET", f"/{link.removeprefix('./')}")[2].decode())
    assert listed(page, runs)[0] == first
    assert f"{head} ↑" in page
    turned = head_link(page, head)
    page = html.unescape(client.send("GET", f"/{turned.removeprefix('./')}")[2].decode())
    assert listed(page, runs)[-1] == first
    assert f"{head} ↓" in page


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"gate": "passed"}, {"run 0", "run 3"}),
        ({"gate": "not decided"}, {"run 2"}),
        ({"judge": "JUDGE 2", "suite": SUITES["points"]}, {"run 5", "run 11"}),
        ({"judge": "JUDGE 2", "suite": "POINT"}, {"run 5", "run 11"}),
        ({"judge": "judge 2", "suite": "bbbbbbbb"}, {"run 5", "run 11"}),
        ({"judge": "x' or '1"}, set()),
        ({"suite": "x' or '1"}, set()),
        ({"answers": "simulated"}, set()),
        ({"state": "deleted"}, {"deleted"}),
        ({"state": "unfinished"}, {"failed"}),
    ],
)
def test_filters_are_the_stores_own(client, runs, query, expected):
    assert set(listed(page_of(client, **query), runs)) == expected


def test_pages_are_turned_by_tokens_and_lead_back(client, runs, monkeypatch):
    monkeypatch.setattr(leaderboard, "PAGE_SIZE", 5)
    page, seen, steps = page_of(client, sort=AXIS, run=runs["run 13"]), [], 0
    while True:
        steps += 1
        seen += listed(page, runs)
        following = re.search(r'rel="next" href="([^"]*)"', page)
        if following is None:
            break
        page = html.unescape(client.send("GET", f"/{following[1].removeprefix('./')}")[2].decode())
        # A run that is ticked stays ticked on every page.
        assert re.search(rf'value="{runs["run 13"]}" (checked|[^>]*checked)', page)
    assert (steps, len(set(seen))) == (3, N_RUNS)
    back = re.search(r'rel="prev" href="([^"]*)"', page)[1]
    assert len(parse_qs(urlsplit(back).query)["after"]) == 1
    assert client.send("GET", f"/{back.removeprefix('./')}")[0] == 200
    page_of(client, "", 422, after="bm9uc2Vuc2U=")
    page_of(client, "", 422, experiment="12345")


def test_a_row_has_readings_with_bars_that_lead_to_calls_verdict_cost_age_and_marks(client, runs):
    page = page_of(client)
    row = row_of(page, runs["run 12"])
    assert f"calls/{runs['run 12']}?axis={AXIS}" in row
    assert ">0.12</a><small>[0.07, 0.32]</small>" in row
    # Of a lean the scale is from -1 to 1.
    assert 'style="left:7.0%;width:25.0%"></i><b style="left:12.0%">' in row
    assert 'style="left:30.0%;width:20.0%"></i><b style="left:40.0%">' in row
    for text in ("It says number 12.", "2 days", "a-model", ">stale<", "changed since look 3: ability"):
        assert text in row
    assert ">stale<" not in row_of(page, runs["run 10"])
    assert ">drifted<" not in row_of(page, runs["run 10"])
    # Of judge 0 the runs 0 and 6 are of earlier versions than run 12.
    assert [">earlier version<" in row_of(page, runs[f"run {number}"]) for number in (0, 6, 12)] == [True, True, False]
    assert ">deleted<" in row_of(page_of(client, state="deleted"), runs["deleted"])


def test_a_judges_versions_have_a_line_that_leads_to_all_of_them(client, runs):
    row = row_of(page_of(client), runs["run 6"])
    points = re.search(r'<polyline points="([^"]*)"', row)[1].split()
    assert len(points) == 3  # runs 0, 6, 12
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights, reverse=True)
    link = re.search(r'<a href="([^"]*)" aria-label="[^"]*0.00 → 0.06 → 0.12', row)[1]
    page = html.unescape(client.send("GET", f"/{link.removeprefix('./')}")[2].decode())
    assert listed(page, runs) == ["run 12", "run 6", "run 0"]


def test_every_kind_of_run_has_its_tab(client, runs):
    page = page_of(client)
    for kind in set(KINDS) - {"evaluate"}:
        assert f'href="./?kind={kind}"' in page
    assert runs["sweep"] not in page
    for kind in ("sweep", "any"):
        tab = page_of(client, kind=kind)
        assert f'href="run/{runs["sweep"]}"' in tab
        assert "The cheap one is as good." in tab


def test_suites_and_experiments_are_offered_and_no_reading_needs_a_file(store, runs):
    found = run_list(store.uri, RunQuery())
    assert {name: sha256 for sha256, name in found.suites.items()} == SUITES
    assert not found.more_suites
    assert store.experiment_id in found.experiments
    assert found.rows[0].readings[AXIS].value == 0.12


def test_suites_beyond_those_that_are_offered_are_mentioned_and_found_by_name(store, client, runs, monkeypatch):
    monkeypatch.setattr(leaderboard, "MOST_SUITES", 1)
    found = run_list(store.uri, RunQuery())
    assert (list(found.suites.values()), found.more_suites) == (["points"], True)
    page = page_of(client, suite="letters")
    assert re.findall(r'<option value="([^"]+)"></option>', page) == ["points"]
    assert re.findall(r"<h2>(\w+)", page) == ["letters", "Terms"]
    assert "there are more" in page


@pytest.mark.parametrize(
    ("axis", "text", "expected"),
    [
        ("dark_current", "0.30 [0.16, 0.48]", (0.3, 0.16, 0.48)),
        ("raw_false_preference", ">0.99 [0.79, >0.99]", (0.99, 0.79, 0.99)),
        ("slot_lean", "-0.35 [-0.71, 0.01]", (-0.35, -0.71, 0.01)),
        ("threshold_75", "≤ 1", (1.0, None, None)),
        ("threshold_75", "> 5, not decided", (5.0, None, None)),
        ("threshold_75", "4.00 [2.10, –]", (4.0, 2.1, None)),
        ("schema_version", "1", None),
        ("verdict", "It picks 3 [of 4, 5]", None),
        ("odd", "1.2.3 [0, 1]", None),
    ],
)
def test_a_tag_is_read_as_it_was_written(axis, text, expected):
    reading = tag_reading(axis, text)
    assert (reading and (reading.value, reading.low, reading.high)) == expected


# The grid of disagreement


def test_the_distance_is_0_between_judges_that_agree_and_1_where_they_cannot_differ_more():
    labels = np.array([[[1, 0], [1, 0]], [[1, 0], [0, 1]], [[0.5, 0.5], [1, 0]]], dtype=float)
    assert mean_distance(labels).tolist() == [0.0, 1.0, 0.5]
    scores = answer_shares([0, 0, 1, 1], [0, 1, 0, 1], [0, 2, 1, 2], shape=(2, 2, 3))
    assert mean_distance(scores, [1, 4, 5]).tolist() == [1.0, 0.25]
    nobody = answer_shares([0, 0], [0, 1], [0, -1], shape=(1, 2, 1))
    assert np.isnan(mean_distance(nobody)).all()


@pytest.fixture(scope="module")
def judged(store: Store) -> dict[str, str]:
    suite = jrh.datasheet_suite(n_tasks=2, depth=1)
    options = {"experiment": "grid", "tracking_uri": store.uri, "traces": "none", "progress": False}
    judges = {"first": jrh.scripted.AlwaysFirst(), "tie": jrh.scripted.AlwaysTie(), "oracle": jrh.scripted.Oracle()}
    return {name: jrh.evaluate(judge, suite, **options).run_id for name, judge in judges.items()}


def cells(row: str) -> list[str]:
    return [re.sub("<[^>]*>", " ", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]


def test_the_grid_has_items_by_judges_and_those_that_divide_them_most_first(client, judged):
    page = page_of(client, "differ", run=list(judged.values()))
    rows = re.findall(r"<tr><th scope=.row.*?</tr>", page, re.DOTALL)
    differ = [float(cells(row)[0]) for row in rows]
    assert differ == sorted(differ, reverse=True)
    assert differ[0] > differ[-1]
    turned = head_link(page, "differ")
    rows = re.findall(r"<tr><th scope=.row.*?</tr>", page_of_link(client, turned), re.DOTALL)
    assert float(cells(rows[0])[0]) == differ[-1]


def page_of_link(client: Client, link: str) -> str:
    return html.unescape(client.send("GET", f"/{link.removeprefix('./')}")[2].decode())


def test_a_cell_names_content_and_slot_and_leads_to_the_item_as_it_was_asked(client, judged):
    page = page_of(client, "differ", run=list(judged.values()), condition="ladder")
    row = re.findall(r"<tr><th scope=.row.*?</tr>", page, re.DOTALL)[0]
    first, tie, oracle = (" ".join(cell.split()) for cell in cells(row)[1:])
    assert first == "u (first) v (first)"
    assert tie == "tie ×2"
    assert re.fullmatch(r"([uv]) \((first|second)\) \1 \((?!\2)\w+\)", oracle)
    links = re.findall(r'href="(calls/[0-9a-f]{32}\?open=[^"]*)"', row)
    assert [link[6:38] for link in links] == list(judged.values())
    opened = page_of_link(client, links[0])
    assert SLOTS["vu"] in opened


def test_runs_on_other_suites_have_no_grid_and_neither_has_one_alone(client, runs, judged):
    page_of(client, "differ", 422, run=judged["tie"])
    page_of(client, "differ", 404, run=[judged["tie"], "0" * 32])


def test_more_judges_than_a_page_has_room_for_are_compared_part_by_part(client, judged):
    many = [*judged.values(), *(f"{number:032x}" for number in range(MOST_COMPARED + 8))]
    for path in ("compare", "differ"):
        page_of(client, path, 422 if path == "compare" else 404, run=many)
    chosen = list(judged.values())
    for n_runs, sizes in {3: [3], 13: [6, 7], 30: [10, 10, 10]}.items():
        ids = [f"{number:032x}" for number in range(n_runs)]
        parts = [
            _part(QueryParams([*(("run", one) for one in ids), ("part", str(part))]), "compare")[0]
            for part in range(1, len(sizes) + 1)
        ]
        assert [len(part) for part in parts] == sizes
        assert [one for part in parts for one in part] == ids
    page = page_of(client, "compare", run=chosen)
    assert f"differ?{urlencode({'run': chosen}, doseq=True)}" in page


@pytest.mark.slow
def test_a_page_of_many_judges_leads_to_its_figures_and_exploratory_differences(client, judged, monkeypatch):
    chosen = list(judged.values())
    few = page_of(client, "compare", run=chosen)
    assert "Exploratory: " in few
    assert "whole=1" not in few
    monkeypatch.setattr("jrh_mlflow.pages.runs._MOST_WHOLE", 2)
    many = page_of(client, "compare", run=chosen[::-1])
    assert "Exploratory: " not in many
    assert "<svg" not in many
    assert "exploratory axes: shown" in many, "readings stay"
    whole = page_of_link(client, html.unescape(re.search(r'href="(compare[^"]*whole=1)"', many)[1]))
    assert "Exploratory: " in whole
    assert "whole=1" not in whole


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.slow
def test_list_and_grid_are_accessible_and_scroll_down_only(client, runs, judged, browser):
    page = browser.new_page(bypass_csp=True)
    console = []
    page.on("console", lambda message: console.append(message.text))
    for name in ("", "?kind=any", f"differ?{urlencode({'run': list(judged.values())}, doseq=True)}"):
        address = f"http://{client.address}/jrh/{name}"
        show_next(page, address) if name else page.goto(address)
        for width in looks(page):
            assert violations(page) == [], (name, width)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.close()
    assert console == []


def test_in_a_browser_ticks_are_kept_over_pages_and_compared(client, runs, judged, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(f"http://{client.address}/jrh/?judge=AlwaysFirst")
    page.locator(f"input[value='{judged['first']}']").check()
    page.get_by_role("button", name="Keep the ticks").click()
    page.goto(page.url.replace("judge=AlwaysFirst", "judge=Oracle"))
    page.locator(f"input[value='{judged['oracle']}']").check()
    page.get_by_role("button", name="Where they differ").click()
    assert page.locator("table.grid thead th").count() == 4
    page.close()
