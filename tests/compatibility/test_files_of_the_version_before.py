"""What the version before the package was laid out anew has written still opens, and still means the same.

`files/` holds it, `write_files.py` wrote it, and `files/expected.json` is what that version read from it. The
reliability test `filler` of that version may have another name by now (`SAME_NAME`); nothing else may have changed.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.sweeps.sweep import price_sweep
from tests.forked_server import JRH_WITH_FORKED_SERVER
from tests.processes import JRH, Forked

HERE = Path(__file__).parent / "files"
EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
RUNS, JOURNAL = EXPECTED["runs"], EXPECTED["journal"]
SAME_NAME = {"filler": "padding"}
"""Reliability tests of then, and what they may be called today."""
MODEL = "openai/judge-of-then"
PRICES = {MODEL: (10.0, 20.0)}
# Nothing listens there any more: a call that the journal does not answer fails, and cannot go unnoticed.
ABOUT_JUDGE: dict[str, Any] = {"api_base": "http://127.0.0.1:18431/v1", "max_tokens": 64, "seed": 7}
NOTE = "mlflow.note.content"
TOKEN = "a-token-for-tests-only"
"""The console script; the one name below the top of the package that is used here."""
CHANGING = ("time/", "calls/cached", "calls/oldest_answer_days")
"""Metrics that say how a run went, not what it measured."""
WIDENED = ("/cluster_ci_low", "/cluster_ci_high")
ACROSS = "reliability/"
"""Means over tests: then the deep design of stability counted as a test of its own."""
DEEP = "stochastic_stability_deep"
DOSES = "error_injection"
"""Then sources whose own label is the lowest, which cannot fall, counted: two of the six of the fixture."""
STANDS_FOR_A_TEST = ("monotone", "unanimity", "accuracy")

COUNTING_JUDGES = """
import jrh_mlflow as jrh

LEVELS = {"When": "3", "How": "2", "Where": "1"}


class Judge:
    def __init__(self, choice):
        self.name = choice["model"]

    def __call__(self, shown):
        with open("asked.txt", "a") as file:
            file.write(self.name + "\\n")
        return jrh.Answer(LEVELS[shown.instruction.split()[0]], cost_usd=0.003)


def make(choice):
    return Judge(choice)
"""


def copied(*parts: str, to: Path) -> Path:
    """Copy a folder of the fixture and unpack its databases."""
    target = shutil.copytree(HERE.joinpath(*parts), to.joinpath(*parts))
    for packed in list(target.rglob("*.db.gz")):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    return target


def command(*arguments: object, code: int = 0) -> str:
    """Run `jrh` in this process and return what it printed, on stderr where it failed."""
    from jrh_mlflow.cli import main

    printed, told, ended = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        patch.setattr(sys, "argv", ["jrh", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            ended = int(stop.code or 0)
    assert ended == code, told.getvalue()
    return told.getvalue() if code else printed.getvalue()


def today(name: str) -> str:
    """Spell an axis or a metric of then by the names of today; both spellings of a test become one."""
    test, slash, rest = name.partition("/")
    # The bound of a censored threshold was its value then.
    return f"{SAME_NAME.get(test, test)}{slash}{re.sub('^at_(least|most)$', 'value', rest)}"


def assert_same(found: Mapping[str, float], then: Mapping[str, float]) -> None:
    """Every number of then is there and the same; there may be more by now.

    The interval by task was too narrow then: its ends lie where they lay, or further out. The means over tests are
    those of the numbers of then, each test counted once. Error doses count the sources that can fall.
    """
    now = {today(key): value for key, value in found.items()}
    wanted = {today(key): value for key, value in then.items() if not key.startswith(CHANGING)}
    wanted |= {key: now[key] for key in wanted if key.startswith(DOSES)}
    assert now.get(f"{DOSES}/monotone/n", 4) == 4
    if f"{DEEP}/unanimity/rate" in wanted:
        wanted = {key: value for key, value in wanted.items() if not key.startswith(ACROSS)} | across(wanted)
    same = {key: value for key, value in wanted.items() if not key.endswith(WIDENED)}
    assert {key: now.get(key) for key in same} == pytest.approx(same, rel=1e-9, abs=1e-12)
    for key in set(wanted) - set(same):
        outward = wanted[key] - now[key] if key.endswith("low") else now[key] - wanted[key]
        assert outward > -1e-9, key


def across(then: Mapping[str, float]) -> dict[str, float]:
    """Recount the means over tests from the tests' own numbers, the deep design of stability left out."""
    tests = {key.partition("/")[0] for key in then if key.endswith("/rate")} - {"baseline", "all", DEEP}
    keys = {test: [f"{test}/{axis}/rate" for axis in STANDS_FOR_A_TEST] for test in tests}
    found = [[then[key] for key in each if key in then][:1] for each in keys.values()]
    scores = [score for each in found for score in each]
    figures = {"mean": statistics.mean(scores), "sd": statistics.stdev(scores), "n_tests": len(scores)}
    return {f"{ACROSS}{name}": value for name, value in figures.items()}


def conditions(suite: jrh.Suite) -> dict[str, int]:
    counts = pd.Series([item.condition for item in suite.items]).value_counts()
    return {str(name): int(count) for name, count in counts.items()}


def calls_of(store: Path, name: str) -> Path:
    return store / "artifacts" / "1" / RUNS[name]["run_id"] / "artifacts" / "calls" / "calls.parquet"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied("store", to=tmp_path_factory.mktemp("before"))


@pytest.fixture(scope="module")
def server(store: Path) -> Iterator[str]:
    """`jrh ui` over a copy of the store: MLflow's own server, with our pages beside it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    command = [JRH_WITH_FORKED_SERVER, "ui", store, "--port", url.rpartition(":")[2]]
    with (store.parent / "log").open("wb") as log:
        environment = {**os.environ, "JRH_REVIEW_TOKEN": TOKEN}
        process = Forked(*command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(f"{url}/health", process)
            yield url
        finally:
            process.terminate()
            process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            page(url)
            return
        time.sleep(0.2)
    raise AssertionError(f"Nothing answers at {url}.")


def page(url: str, *, token: str = TOKEN) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers={"X-JRH-Token": token}), timeout=120) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("name", sorted(EXPECTED["suites"]))
def test_a_suite_of_then_loads_with_the_hash_it_was_measured_under(name: str, tmp_path: Path) -> None:
    then, folder = EXPECTED["suites"][name], copied("suites", name, to=tmp_path)
    suite = jrh.load_suite(folder)
    assert (suite.sha256, len(suite)) == (then["sha256"], then["n_items"])
    told = json.loads(command("suite", "show", folder, "--json"))
    assert (told["sha256"], told["n_calls"]) == (then["sha256"], then["n_calls"])


def test_what_was_the_test_filler_is_not_taken_for_the_control_of_pairs(tmp_path: Path) -> None:
    suites = copied("suites", to=tmp_path)
    found = conditions(jrh.load_suite(suites / "responses"))
    assert {today(name): count for name, count in found.items()} == {
        today(name): count for name, count in EXPECTED["suites"]["responses"]["conditions"].items()
    }
    # The control of pairs keeps its name.
    assert conditions(jrh.load_suite(suites / "pairs")) == EXPECTED["suites"]["pairs"]["conditions"]


@pytest.mark.parametrize(
    ("suite", "name", "judge"),
    [
        ("pairs", "datasheet", lambda: jrh.scripted.profile("Qwen32B")),
        ("responses", "careful", lambda: jrh.scripted.Grader(name="careful", accuracy=0.9, flip=0.05, seed=1)),
        ("transcripts", "transcripts", jrh.scripted.Oracle),
    ],
)
def test_a_judge_reads_on_a_suite_of_then_what_it_read_then(suite, name, judge, store_uri: str, tmp_path: Path) -> None:
    folder = copied("suites", suite, to=tmp_path)
    done = jrh.evaluate(judge(), folder, tracking_uri=store_uri, experiment="then", progress=False)
    assert_same(done.metrics, RUNS[name]["metrics"])


@pytest.mark.parametrize("name", ["datasheet", "careful", "careless"])
def test_calls_of_then_are_measured_as_then(name: str, store: Path) -> None:
    measured = jrh.measure(pd.read_parquet(calls_of(store, name)))
    values = {axis: one.value for axis, one in measured.estimates.items() if isinstance(one, jrh.Estimate)}
    then = {
        key.rpartition("/")[0]: value
        for key, value in RUNS[name]["metrics"].items()
        if key.endswith(("/rate", "/value")) and key.rpartition("/")[0] in measured.estimates
    }
    assert len(then) > 10
    assert_same(values, then)


def test_calls_of_then_are_replayed(store: Path, store_uri: str) -> None:
    (done,) = json.loads(command("replay", calls_of(store, "datasheet"), "--tracking-uri", store_uri, "--json"))
    assert_same(done["metrics"], EXPECTED["replayed"])


@pytest.mark.parametrize(
    ("name", "axis"),
    [("datasheet", "dark_current"), ("careful", "baseline/accuracy"), ("shift strict", "raw_false_preference")],
)
def test_a_run_of_then_is_gated(name: str, axis: str, server: str) -> None:
    value = RUNS[name]["metrics"][f"{axis}/rate"]
    rules = [f"{axis} >= {value - 1}", f"{axis} <= {value - 1}", "calls/total >= 1", f"excluded/{axis} <= 0.05"]
    gate = jrh.gate(RUNS[name]["run_id"], rules, tracking_uri=server, log=False)
    assert gate.checks["state"].tolist() == ["holds", "fails", "holds", "holds"]
    assert gate.checks["estimate"][0] == pytest.approx(value)
    assert gate.simulated


def test_runs_of_then_are_baselines_and_the_parent_of_arms_is_none(server: str) -> None:
    careful, careless = (RUNS[name]["run_id"] for name in ("careful", "careless"))
    gate = jrh.gate(careful, "baseline/accuracy - baseline >= -1", baseline=careless, tracking_uri=server, log=False)
    assert gate.passed is True
    with pytest.raises(jrh.JrhError, match="criterion_shift"):
        jrh.gate(RUNS["shift"]["run_id"], "dark_current <= 1", tracking_uri=server, log=False)


def journal_summary(journal: Path) -> dict[str, Any]:
    told = json.loads(command("journal", "--path", journal, "--json"))
    return {key: told[key] for key in JOURNAL["summary"]}


def test_the_journal_command_counts_what_it_counted_then(tmp_path: Path) -> None:
    assert journal_summary(copied("journal", to=tmp_path) / "journal.db") == JOURNAL["summary"]


def test_answers_that_were_paid_then_are_served_and_cost_nothing_again(store_uri: str, tmp_path: Path) -> None:
    journal, pairs = copied("journal", to=tmp_path) / "journal.db", copied("suites", "pairs", to=tmp_path)
    done = jrh.evaluate(
        jrh.PromptedJudge(MODEL, **ABOUT_JUDGE),
        pairs,
        journal=journal,
        prices=PRICES,
        max_usd=1.0,
        tracking_uri=store_uri,
        experiment="then",
        progress=False,
        traces="none",
    )
    assert done.calls["cached"].all()
    assert done.metrics["calls/error"] == 0
    assert_same(done.metrics, JOURNAL["whole"]["metrics"])
    assert journal_summary(journal) == {**JOURNAL["summary"], "hits": len(done.calls)}


def test_a_cap_that_was_reached_then_is_still_reached(store_uri: str, tmp_path: Path) -> None:
    journal, pairs = copied("journal", to=tmp_path) / "journal.db", copied("suites", "pairs", to=tmp_path)
    done = jrh.evaluate(
        jrh.PromptedJudge(MODEL, tie_criterion="strict", **ABOUT_JUDGE),
        pairs,
        journal=journal,
        prices=PRICES,
        max_usd=JOURNAL["limit_usd"],
        concurrency=1,
        tracking_uri=store_uri,
        experiment="then",
        progress=False,
        traces="none",
    )
    assert done.truncated == JOURNAL["stopped"]["truncated"]
    then = JOURNAL["stopped"]["metrics"]
    # The half of a pair that is dropped has cost something, too.
    assert done.metrics["cost/usd"] > then["cost/usd"]
    assert_same(done.metrics, {key: value for key, value in then.items() if key != "cost/usd"})
    assert journal_summary(journal)["spent_usd"] == JOURNAL["summary"]["spent_usd"]


def test_what_a_killed_process_of_then_had_received_is_recovered_and_the_rest_counts_as_lost(tmp_path: Path) -> None:
    folder = copied("killed", to=tmp_path)
    assert list(folder.glob("*.spool-*"))
    assert journal_summary(folder / "journal.db") == EXPECTED["killed"]["summary"]
    assert not list(folder.glob("*.spool-*"))
    assert journal_summary(folder / "journal.db") == EXPECTED["killed"]["summary"]


@pytest.mark.parametrize("name", [name for name in RUNS if "run_id" in RUNS[name]])
def test_a_run_of_then_has_its_numbers_in_mlflow(name: str, server: str) -> None:
    run = MlflowClient(server).get_run(RUNS[name]["run_id"])
    assert run.data.metrics == pytest.approx(RUNS[name]["metrics"])
    assert run.data.tags["jrh.kind"] == ("criterion_shift" if name == "shift" else "evaluate")


def test_the_suite_of_a_run_of_then_is_loaded_by_its_address(server: str) -> None:
    suite = jrh.load_suite(f"runs:/{RUNS['careful']['run_id']}/suite", tracking_uri=server)
    assert suite.sha256 == EXPECTED["suites"]["responses"]["sha256"]


def test_two_runs_of_then_are_compared(server: str, tmp_path: Path) -> None:
    ids = [RUNS[name]["run_id"] for name in ("careful", "careless")]
    done = jrh.compare(ids, tracking_uri=server, log=False)
    cells = done.to_dict()["cells"]
    found = {f"{today(axis)}/{judge}": one.get("value") for axis, row in cells.items() for judge, one in row.items()}
    then = {f"{today(axis)}/{judge}": one for axis, row in RUNS["compared"].items() for judge, one in row.items()}
    for judge, monotone in (("careful (simulated)", 4 / 4), ("careless (simulated)", 2 / 4)):
        then[f"{DOSES}/{judge}"] = monotone
        tests = [axis for axis in RUNS["compared"] if axis not in ("baseline", "overall", DEEP)]
        then[f"overall/{judge}"] = statistics.mean(then[f"{today(axis)}/{judge}"] for axis in tests)
    assert {key: found.get(key) for key in then} == pytest.approx(then)
    told = json.loads(
        command("compare", *ids, "--tracking-uri", server, "--no-log", "--html", tmp_path / "page.html", "--json")
    )
    assert [run["run_id"] for run in told["runs"]] == ids
    assert "careless (simulated)" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_arms_of_a_criterion_shift_of_then_are_compared(server: str) -> None:
    ids = [RUNS[name]["run_id"] for name in ("shift allowed", "shift strict")]
    done = jrh.compare(ids, tracking_uri=server, log=False)
    assert "Qwen32B_strict (simulated)" in done.to_markdown()


@pytest.mark.slow
def test_a_run_of_then_is_compared_with_one_of_today(server: str, tmp_path: Path) -> None:
    judge = jrh.scripted.Grader(name="today", accuracy=0.7, seed=3)
    done = jrh.evaluate(
        judge, copied("suites", "responses", to=tmp_path), tracking_uri=server, experiment="today", progress=False
    )
    compared = jrh.compare([RUNS["careful"]["run_id"], done.run_id], tracking_uri=server, log=False)
    assert "today (simulated)" in compared.to_markdown()


def test_runs_of_then_vote_as_a_jury(server: str) -> None:
    done = jrh.jury([RUNS[name]["run_id"] for name in ("careful", "careless")], tracking_uri=server, log=False)
    assert_same(done.metrics, RUNS["jury"])


@pytest.mark.slow
def test_the_pages_beside_mlflow_show_the_runs_of_then(server: str) -> None:
    first, second = (RUNS[name]["run_id"] for name in ("careful", "careless"))
    assert f"datasheet/{first}" in page(f"{server}/jrh/")
    assert "careful" in page(f"{server}/jrh/datasheet/{first}")
    assert "careless" in page(f"{server}/jrh/compare?run={first}&run={second}")


@pytest.mark.slow
def test_a_run_of_then_is_gated_and_its_page_and_description_show_the_gate(server: str) -> None:
    run_id = RUNS["careful"]["run_id"]
    before = page(f"{server}/jrh/datasheet/{run_id}")
    gate = jrh.gate(run_id, "baseline/accuracy >= 0.01", tracking_uri=server)
    shown, note = page(f"{server}/jrh/datasheet/{run_id}"), MlflowClient(server).get_run(run_id).data.tags[NOTE]
    assert shown.count(gate.reason) == note.count(gate.reason) == 1
    assert re.search(rf'<a href="[^"]*{gate.run_id}[?"]', shown)
    # All else of the page is what it was.
    begin, end = shown.index("<!-- gate -->"), shown.index("<!-- /gate -->") + len("<!-- /gate -->\n")
    assert shown[:begin] + shown[end:] == before


@pytest.mark.parametrize(
    ("run_id", "judge"), [(RUNS["datasheet"]["run_id"], "Qwen32B"), (JOURNAL["whole"]["run_id"], "judge-of-then")]
)
def test_the_judge_of_a_run_of_then_is_known_as_measured(run_id: str, judge: str, server: str) -> None:
    told = json.loads(command("status", run_id, "--tracking-uri", server, "--json"))
    assert (told["state"], told["differs"]) == ("measured", [])
    assert judge in told["name"]


def test_suites_that_were_generated_then_can_be_reviewed_beside_mlflow(server: str) -> None:
    shown = {one["sha256"]: one["name"] for one in json.loads(page(f"{server}/jrh/review/api/suites"))}
    assert shown[EXPECTED["review"]["sha256"]] == "small"
    assert shown[EXPECTED["suites"]["responses"]["sha256"]] == "responses"


def test_an_evaluation_that_mlflow_missed_then_is_logged_now(server: str, tmp_path: Path) -> None:
    then = EXPECTED["outbox"]
    kept = copied("outbox", then["folder"], to=tmp_path)
    assert MlflowClient(server).get_run(then["run_id"]).info.status == "RUNNING"
    # Its traces have one of their own.
    experiments = {"before-calls", *(one.name for one in MlflowClient(server).search_experiments())}
    (done,) = json.loads(command("evaluate", "--resume", kept, "--tracking-uri", server, "--json"))
    assert {one.name for one in MlflowClient(server).search_experiments()} == experiments  # none was made on the way
    assert done["run_id"] == then["run_id"]
    assert_same(done["metrics"], then["metrics"])
    run = MlflowClient(server).get_run(then["run_id"])
    assert (run.info.status, run.data.tags["team"]) == ("FINISHED", "blue")
    assert not kept.exists()


@pytest.mark.slow
def test_a_sweep_of_then_goes_on_and_repeats_nothing(server: str, tmp_path: Path) -> None:
    then = EXPECTED["sweep"]
    copied("sweeps", to=Path(os.environ["JRH_HOME"]))
    space = copied("recipes", to=tmp_path) / "sweep.yaml"
    space.with_name("judges.py").write_text(COUNTING_JUDGES, encoding="utf-8")
    suite = copied("suites", "responses", to=tmp_path)
    done = jrh.sweep(space, suite, max_replicates=1, tracking_uri=server, experiment="before", progress=False)
    assert done.run_id == then["run_id"]
    asked = (tmp_path / "asked.txt").read_text(encoding="utf-8").split()
    assert set(asked) == {"good"}
    # What was asked then is counted, but nobody kept the books of what it cost.
    assert done.n_calls - len(asked) == done.paid.unknown > 0
    measured = {one["params"]["model"]: one for one in json.loads(done.to_json())["measured"]}
    assert measured.keys() == {"good", *then["measured"]}
    for name, one in then["measured"].items():
        for key in ("search_value", "holdout_value"):
            # Of the seven cells of then one was the deep design of stability, which is not counted twice any more: 1.
            assert measured[name][key] * 6 + 1 == pytest.approx(one[key] * 7)
        assert measured[name]["runs"]["search"] == one["runs"]["search"]


@pytest.fixture
def under_review(tmp_path: Path) -> Path:
    return copied("review", "small", to=tmp_path)


def test_decisions_of_then_stand_on_the_page(under_review: Path) -> None:
    options = [str(under_review), "--no-browser", "--no-log"]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = Forked(JRH, "review", *options, stdout=subprocess.PIPE, text=True, env=unbuffered)
    assert process.stdout is not None
    try:
        link = urlsplit(process.stdout.readline().removeprefix("Review: ").strip())
        root, (token,) = f"http://{link.netloc}/api/suites", parse_qs(link.query)["token"]
        (suite,) = json.loads(page(root, token=token))
        items = json.loads(page(f"{root}/{suite['key']}/items?limit=500", token=token))
        events = json.loads(page(f"{root}/{suite['key']}/events", token=token))
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
    assert suite["sha256"] == EXPECTED["review"]["sha256"]
    found = {one["id"]: one["state"] for one in rows(items)}
    assert {name: found.get(name) for name in EXPECTED["review"]["states"]} == EXPECTED["review"]["states"]
    assert len(rows(events)) == EXPECTED["review"]["n_events"]


def rows(told: Any) -> list[dict[str, Any]]:
    return told if isinstance(told, list) else next(part for part in told.values() if isinstance(part, list))


def test_a_review_of_then_is_finished_with_its_decisions(under_review: Path) -> None:
    then = EXPECTED["review"]["finished"]
    how = ("--finish", "--allow-undecided", "--reviewer", "Ada", "--no-log", "--json")
    done = json.loads(command("review", under_review, *how))
    assert (done["left_out"], done["n_items"]) == (then["left_out"], then["n_items"])
    items = {item.id: [item.response, item.expected] for item in jrh.load_suite(done["path"]).items}
    assert items == then["items"]


def test_a_suite_that_was_under_review_then_reaches_no_judge(
    under_review: Path, store_uri: str, tmp_path: Path
) -> None:
    judge = ("--judge", "scripted:Oracle", "--tracking-uri", store_uri)
    assert "is under review" in command("evaluate", *judge, "--suite", under_review, code=2)
    # A copy that knows nothing of the review is held back by its hash.
    manifest = json.loads((under_review / "manifest.json").read_text(encoding="utf-8"))
    manifest["origin"] = {key: value for key, value in manifest["origin"].items() if not key.startswith("review")}
    (under_review / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    shutil.copytree(HERE / "home", os.environ["JRH_HOME"], dirs_exist_ok=True)
    assert "is under review" in command("evaluate", *judge, "--suite", under_review, code=2)


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    copied("suites", to=tmp_path)
    folder = copied("recipes", to=tmp_path)
    (folder / "judges.py").write_text(COUNTING_JUDGES, encoding="utf-8")
    return folder


def test_a_recipe_of_then_names_an_evaluation_that_the_journal_of_then_answers(recipes: Path, tmp_path: Path) -> None:
    journal = copied("journal", to=tmp_path) / "journal.db"
    told = command("evaluate", recipes / "evaluate.yaml", "--journal", journal, "--dry-run", "--json")
    quoted, then = json.loads(told), EXPECTED["recipes"]["evaluate"]
    assert {key: quoted[key] for key in ("calls", "journalled", "usd")} == {
        key: then[key] for key in ("calls", "journalled", "usd")
    }


def test_a_recipe_of_then_generates_the_test_that_was_called_filler(recipes: Path, store_uri: str) -> None:
    command("generate", recipes / "generate.yaml", "--tracking-uri", store_uri, "--json")
    found = conditions(jrh.load_suite(recipes / "from-recipe"))
    then = EXPECTED["recipes"]["generate"]
    assert {today(name): count for name, count in found.items()} == {today(name): n for name, n in then.items()}


def test_a_space_of_then_is_priced_with_its_constraint_on_the_test_that_was_called_filler(recipes: Path) -> None:
    suite = recipes.parent / "suites" / "responses"
    quoted = price_sweep(recipes / "sweep.yaml", suite=suite).to_dict()
    then = EXPECTED["recipes"]["sweep"]
    assert {key: quoted[key] for key in ("configurations", "grid_calls")} == {
        key: then[key] for key in ("configurations", "grid_calls")
    }


def test_the_files_hold_no_path_and_no_name_of_the_machine_that_wrote_them(tmp_path: Path) -> None:
    for name in ("home", "journal", "killed", "outbox", "recipes", "review", "store", "suites", "sweeps"):
        for file in copied(name, to=tmp_path).rglob("*"):
            if file.is_file() and file.suffix != ".png":
                content = file.read_bytes()
                assert not re.search(rb"/(?:home|root|tmp)/|sk-", content), file
