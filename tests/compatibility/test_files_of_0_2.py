"""What 0.2.0 has written still opens and means the same, and today's code writes runs with the same names in them.

`files_of_0_2/` holds it, `write_files_of_0_2.py` wrote it, and `files_of_0_2/expected.json` is what 0.2.0 read from it.
Figures, which were `figures/NAME.png` then, may be `figures/NAME.svg`. Metrics may be more by now, and the bound of a
censored threshold, which was its value then, has a key of its own; nothing else may have changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.genai.scorers import Scorer, get_scorer

import jrh_mlflow as jrh
from tests.compatibility.test_files_of_the_version_before import command, page
from tests.compatibility.write_files_of_0_2 import (
    CUSTOM,
    EXPERIMENT,
    HERE,
    ROW,
    Runs,
    active,
    ask_model,
    children,
    derive,
    facts_of,
    feedback_facts,
    finish_review,
    import_batch,
    keys_in,
    keys_of,
    measure,
    review_facts,
    serving,
    sweep,
    unpacked,
)

# The store is a database of MLflow 3.17, which older ones refuse to open.
pytestmark = [pytest.mark.slow, pytest.mark.since_mlflow("3.17")]

EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
RUNS, KEYS, OUTBOX = EXPECTED["runs"], EXPECTED["keys"], EXPECTED["outbox"]
IDS: Runs = {name: [key for key, one in RUNS.items() if one["name"] == name] for name in KEYS}
"""What was done then to the runs that it made."""
KINDS = (
    *("agree", "align", "compare", "correct", "criterion_shift", "evaluate"),
    *("gate", "generate", "jury", "review", "sweep"),
)
APART = ("asked", "sweep", "trials of the sweep", "review")
"""What has a test of its own."""
MEASURED = [name for name in KEYS if KEYS[name]["kinds"][0] in ("evaluate", "generate", "criterion_shift")]
MEASURED = [name for name in MEASURED if name not in ("replay", *APART)]
"""What needs no run to begin with."""
DERIVED = [name for name in KEYS if name not in (*MEASURED, *APART)]
CHANGING = ("time/", "cost/cpu_seconds", "calls/cached", "calls/oldest_answer_days", "compare/n_pairs")
"""Metrics that say how a run went, not what it measured."""
MENDED = ("judge/corrected/ci_low", "judge/corrected/ci_high")
"""Ends that are narrower for good judges today."""


@dataclass(frozen=True, kw_only=True)
class Store:
    """A copy of the store of then behind a server of today, and what MLflow told of it at first."""

    url: str
    folder: Path
    facts: Mapping[str, Any]

    @property
    def where(self) -> dict[str, Any]:
        """Where runs of today go."""
        return {"tracking_uri": self.url, "experiment": "of today", "progress": False}


@dataclass(frozen=True, kw_only=True)
class Written:
    """What today's code has written: names of what runs hold, and numbers."""

    runs: Runs
    keys: Mapping[str, Mapping[str, list[str]]]
    facts: Mapping[str, Any]

    @classmethod
    def read(cls, runs: Runs, url: str, folder: Path) -> Written:
        """Read runs that were just made."""
        facts = facts_of(url, runs, store=folder)
        return cls(runs=runs, keys=keys_in(facts, runs), facts=facts)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """`jrh ui` over a copy of the store, in the home of the server of then."""
    folder = tmp_path_factory.mktemp("of_0_2")
    copy, home = unpacked("store", to=folder), unpacked("home", to=folder)
    with serving(copy, home) as url:
        yield Store(url=url, folder=copy, facts=facts_of(url, IDS, store=copy))


@pytest.fixture(scope="module")
def measured(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """What 0.2.0 measured, measured by today's code in a store of today."""
    folder = tmp_path_factory.mktemp("measured")
    suites = {name: jrh.load_suite(HERE / "suites" / name) for name in EXPECTED["suites"]}
    where = {"tracking_uri": store_uri, "experiment": "of today", "progress": False}
    return Written.read(measure(suites, folder / "work", where), store_uri, folder)


@pytest.fixture(scope="module")
def derived(store: Store) -> Written:
    """What 0.2.0 made of its runs and traces, made of the same ones by today's code."""
    return Written.read(derive(IDS, store.where), store.url, store.folder)


def as_today(keys: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Leave out in which form figures are drawn: a run that was begun then has some in both."""
    figures = [re.sub(r"^(figures/.+)\.(png|svg)$", r"\1", path) for path in keys["artifacts"]]
    return {**keys, "artifacts": sorted(set(figures))}


def as_then(key: str) -> str:
    """Spell the key of a metric as then."""
    return re.sub("/(at_least|at_most)$", "/value", key)


def assert_same_names(found: Mapping[str, list[str]], then: Mapping[str, list[str]]) -> None:
    """What runs hold has the names of then; there may be more metrics, params, tags and files."""
    now, before = as_today(found), as_today(then)
    assert now.pop("kinds") == before.pop("kinds")
    now["metrics"] = [as_then(key) for key in now.get("metrics", [])]
    assert {name: sorted({*keys} - {*now.get(name, [])}) for name, keys in before.items()} == {
        name: [] for name in before
    }


def lasting(metrics: Mapping[str, float]) -> dict[str, float]:
    """Leave what was measured."""
    return {as_then(key): value for key, value in metrics.items() if not key.startswith((*CHANGING, *MENDED))}


def assert_same_numbers(found: Mapping[str, float], then: Mapping[str, float]) -> None:
    now, before = lasting(found), lasting(then)
    assert {key: now.get(key) for key in before} == pytest.approx(before, rel=1e-9, abs=1e-12)


def numbers(facts: Mapping[str, Any], ids: Iterable[str]) -> list[dict[str, float]]:
    """The metrics of runs, in an order of their own: runs that were made at the same time have no other."""
    found = [lasting(facts[run_id]["metrics"]) for run_id in ids]
    # By what both versions log: a metric of today must not change the order.
    shared = {as_then(key) for one in RUNS.values() for key in one["metrics"]}
    return sorted(found, key=lambda metrics: [metrics[key] for key in sorted(shared & metrics.keys())])


@pytest.mark.parametrize("kind", KINDS)
def test_runs_of_each_kind_have_in_mlflow_what_they_had_then(kind: str, store: Store) -> None:
    then = {run_id: one for run_id, one in RUNS.items() if one["kind"] == kind}
    assert then
    assert {run_id: store.facts[run_id] for run_id in then} == then


def test_the_runs_of_then_are_of_every_kind() -> None:
    assert EXPECTED["kinds"].keys() == {one["kind"] for one in RUNS.values()} == set(KINDS)
    assert min(len(MEASURED), len(DERIVED)) > 8


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_measured_today_has_the_names_and_numbers_of_then(name: str, measured: Written) -> None:
    assert_same_names(measured.keys[name], KEYS[name])
    found, then = numbers(measured.facts, measured.runs[name]), numbers(RUNS, IDS[name])
    assert len(found) == len(then)
    for now, before in zip(found, then, strict=True):
        assert_same_numbers(now, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_what_is_made_of_runs_and_traces_of_then_has_the_names_and_numbers_of_then(name: str, derived: Written) -> None:
    assert_same_names(derived.keys[name], KEYS[name])
    assert_same_numbers(derived.facts[derived.runs[name][0]]["metrics"], RUNS[IDS[name][0]]["metrics"])


def test_a_run_that_was_gated_then_names_the_gate_of_today(store: Store, derived: Written) -> None:
    run_id = IDS["to be gated"][0]
    tags = MlflowClient(store.url).get_run(run_id).data.tags
    assert RUNS[run_id]["tags"]["jrh.gate_run"] == IDS["gate"][0]
    assert tags["jrh.gate_run"] == derived.runs["gate"][0]
    assert tags["jrh.gate"] == RUNS[run_id]["tags"]["jrh.gate"]


@pytest.mark.parametrize("name", sorted(EXPECTED["suites"]))
def test_a_suite_of_then_loads_with_the_hash_it_was_measured_under(name: str, tmp_path: Path) -> None:
    then, folder = EXPECTED["suites"][name], unpacked("suites", name, to=tmp_path)
    suite = jrh.load_suite(folder)
    assert {key: suite.manifest[key] for key in then} == then
    told = json.loads(command("suite", "show", folder, "--json"))
    assert (told["sha256"], told["n_calls"]) == (then["sha256"], then["n_calls"])


@pytest.mark.parametrize("name", ["pairs", "generate", "transcripts", "review"])
def test_the_suite_of_a_run_of_then_is_loaded_by_its_address(name: str, store: Store) -> None:
    suite = jrh.load_suite(f"runs:/{IDS[name][0]}/suite", tracking_uri=store.url)
    assert suite.sha256 == RUNS[IDS[name][0]]["params"]["suite.sha256"]


def test_the_dataset_and_the_prompt_that_were_registered_then_are_found_again(store: Store) -> None:
    then = EXPECTED["registered"]
    suite = jrh.load_suite(then["dataset"], tracking_uri=store.url)
    assert suite.sha256 == EXPECTED["suites"]["own"]["sha256"]
    # Neither is another version of what is there already.
    again = jrh.suite_dataset(suite, "own pairs", experiment=EXPERIMENT, tracking_uri=store.url)
    assert again == then["dataset"]
    assert jrh.register_prompt(IDS["asked"][0], "judge", tracking_uri=store.url) == then["prompt"]


@pytest.mark.parametrize("name", ["pairs, all metrics", "levels", "reliability, all metrics"])
def test_calls_of_then_are_measured_as_then(name: str, store: Store) -> None:
    run_id = IDS[name][0]
    with active(store.url):
        calls = pd.read_parquet(MlflowClient(store.url).download_artifacts(run_id, "calls/calls.parquet"))
    estimates = jrh.measure(calls).estimates
    values = {axis: one.value for axis, one in estimates.items() if isinstance(one, jrh.Estimate)}
    metrics = RUNS[run_id]["metrics"]
    then = {key.rpartition("/")[0]: metrics[key] for key in metrics if key.endswith(("/rate", "/value"))}
    shared = values.keys() & then.keys()
    assert len(shared) > 5
    assert {axis: values[axis] for axis in shared} == pytest.approx({axis: then[axis] for axis in shared})


@pytest.mark.parametrize("name", ["pairs", "pairs, all metrics", "reliability", "asked"])
def test_the_judge_of_a_run_of_then_is_known_as_measured(name: str, store: Store) -> None:
    told = json.loads(command("status", IDS[name][0], "--tracking-uri", store.url, "--json"))
    assert (told["state"], told["differs"]) == ("measured", [])


def test_answers_that_were_paid_then_are_served_and_no_call_is_sent(store_uri: str, tmp_path: Path) -> None:
    journal, pairs = unpacked("journal", to=tmp_path) / "journal.db", unpacked("suites", "pairs", to=tmp_path)
    # Nothing listens at the address of the model: a call that the journal does not answer fails.
    done = ask_model(pairs, journal, {"tracking_uri": store_uri, "experiment": "asked today", "progress": False})
    assert done.calls["cached"].all()
    assert done.metrics["calls/error"] == 0
    written = Written.read({"asked": [done.run_id]}, store_uri, tmp_path)
    assert_same_names(written.keys["asked"], KEYS["asked"])
    assert_same_numbers(written.facts[done.run_id]["metrics"], RUNS[IDS["asked"][0]]["metrics"])
    told = json.loads(command("journal", "--path", journal, "--json"))
    assert told["hits"] == len(done.calls) > 0


def test_an_evaluation_that_mlflow_missed_then_is_logged_now(store: Store, tmp_path: Path) -> None:
    kept = unpacked("outbox", OUTBOX["folder"], to=tmp_path)
    client = MlflowClient(store.url)
    assert client.get_run(OUTBOX["run_id"]).info.status == "RUNNING"
    (done,) = json.loads(command("evaluate", "--resume", kept, "--tracking-uri", store.url, "--json"))
    assert done["run_id"] == OUTBOX["run_id"]
    assert_same_numbers(done["metrics"], OUTBOX["metrics"])
    run = client.get_run(OUTBOX["run_id"])
    assert (run.info.status, run.data.tags["team"]) == ("FINISHED", "blue")
    keys = keys_of(store.url, {"outbox": [run.info.run_id]}, store=store.folder)["outbox"]
    assert_same_names(keys, OUTBOX["keys"])
    assert not kept.exists()


@pytest.fixture
def custom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MLflow load scorers that are code."""
    monkeypatch.setenv(CUSTOM, "true")
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "7")


@pytest.mark.usefixtures("custom")
@pytest.mark.parametrize("name", sorted(EXPECTED["scorers"]))
def test_the_text_of_a_scorer_of_then_answers_as_then(name: str) -> None:
    then = EXPECTED["scorers"][name]
    assert "from jrh_mlflow.tracking.exported import score" in then["serialized"]["call_source"]
    scorer = Scorer.model_validate(then["serialized"])
    assert feedback_facts(scorer.run(**ROW)) == then["feedback"]
    assert then["feedback"]["value"] is not None


@pytest.mark.usefixtures("custom")
@pytest.mark.parametrize("name", sorted(EXPECTED["scorers"]))
def test_a_scorer_that_was_registered_then_is_loaded_and_answers_as_then(name: str, store: Store) -> None:
    experiment = MlflowClient(store.url).get_experiment_by_name(EXPERIMENT)
    with active(store.url):
        scorer = get_scorer(name=name, experiment_id=experiment.experiment_id)
        assert feedback_facts(scorer.run(**ROW)) == EXPECTED["scorers"][name]["feedback"]
        assert jrh.status(scorer, tracking_uri=store.url).state == "measured"


@pytest.mark.usefixtures("custom")
@pytest.mark.parametrize(("name", "run"), [("longer", "pairs, all metrics"), ("jury", "jury on pairs")])
def test_a_run_of_then_becomes_the_scorer_that_it_became_then(name: str, run: str, store: Store) -> None:
    made = jrh.to_mlflow(IDS[run][0], name=name, tracking_uri=store.url)
    assert feedback_facts(made.run(**ROW)) == EXPECTED["scorers"][name]["feedback"]
    assert "from jrh_mlflow.tracking.exported import score" in made.model_dump()["call_source"]


def test_the_path_that_registered_scorers_import_is_there() -> None:
    from jrh_mlflow.tracking.exported import score

    feedback = score("{}", **ROW)
    assert feedback.error is not None
    assert feedback.error.error_code == "JUDGE_ERROR"


def test_a_batch_file_of_then_is_imported_and_no_call_is_left_to_send(store_uri: str, tmp_path: Path) -> None:
    then, journal = EXPECTED["batch"], tmp_path / "journal.db"
    assert import_batch(unpacked("batch", to=tmp_path), journal) == then["imported"]
    assert then["imported"]["answered"] == then["requests"] > 0
    own = unpacked("suites", "own", to=tmp_path)
    done = ask_model(own, journal, {"tracking_uri": store_uri, "experiment": "from a batch", "progress": False})
    assert done.calls["cached"].all()
    assert len(done.calls) == then["requests"]


@pytest.mark.slow
def test_a_sweep_of_then_goes_on_and_repeats_nothing(store: Store, tmp_path: Path) -> None:
    then, where = EXPECTED["swept"], {**store.where, "experiment": EXPERIMENT}
    tried = {RUNS[run_id]["params"]["judge.model"] for run_id in IDS["trials of the sweep"]}
    done = sweep(tmp_path, unpacked("sweeps", to=tmp_path) / "study.db", IDS["generate"][0], where)
    assert done.run_id == IDS["sweep"][0]
    asked = set((tmp_path / "asked.txt").read_text(encoding="utf-8").split())
    assert len(tried) == 2
    assert asked == {"good", "fair", "poor"} - tried
    runs = {"sweep": [done.run_id], "trials": children(done.run_id, store.url)}
    written = Written.read(runs, store.url, store.folder)
    for name in runs:
        assert_same_names(written.keys[name], then[name])
    assert_same_numbers(written.facts[done.run_id]["metrics"], then["metrics"])


def test_decisions_of_then_stand_and_the_review_is_finished_with_them(store: Store) -> None:
    then = EXPECTED["review"]
    told = review_facts(store.url)
    assert told == {key: then[key] for key in told}
    assert {one["state"] for one in told["items"].values()} >= {"accepted", "edited", "rejected"}
    made = finish_review(store.url, then["key"])
    written = Written.read({"review": [made]}, store.url, store.folder)
    assert_same_names(written.keys["review"], KEYS["review"])
    assert_same_numbers(written.facts[made]["metrics"], RUNS[IDS["review"][0]]["metrics"])


def test_the_pages_beside_mlflow_show_the_runs_of_then(store: Store) -> None:
    first, second = (IDS[name][0] for name in ("reliability", "reliability, all metrics"))
    assert f"datasheet/{first}" in page(f"{store.url}/jrh/")
    assert "careful" in page(f"{store.url}/jrh/datasheet/{first}")
    assert "careless" in page(f"{store.url}/jrh/compare?run={first}&run={second}")


def test_the_files_hold_no_path_and_no_name_of_the_machine_that_wrote_them(tmp_path: Path) -> None:
    assert sum(one.stat().st_size for one in HERE.rglob("*") if one.is_file()) < 1_500_000
    files = [one for one in unpacked(to=tmp_path / "files").rglob("*") if one.is_file()]
    assert len(files) > 100
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content = pd.read_parquet(file).to_csv().encode()
        assert not re.search(rb"/(?:home|root|tmp|work)/|sk-[a-z0-9]", content), file
