"""The committed example store opens anywhere, and demo and example measure what they say."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from mlflow import MlflowClient

from jrh_mlflow.measuring.recorded.answers import recorded_judges
from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.tracking.mlflow_server import ARTIFACTS, DATABASE
from tests.forked_server import bare_mlflow
from tests.servers import free_port, running_server

pytestmark = pytest.mark.quick

EXAMPLE = Path(__file__).parent.parent / "mlruns_example"


def test_the_example_holds_no_path_of_a_machine() -> None:
    with sqlite3.connect(EXAMPLE / DATABASE) as connection:
        places = [row[0] for row in connection.execute("SELECT artifact_uri FROM runs")]
        places += [row[0] for row in connection.execute("SELECT artifact_location FROM experiments")]
        makers = {row[0] for row in connection.execute("SELECT value FROM tags WHERE key = 'mlflow.source.name'")}
        git = connection.execute("SELECT count(*) FROM tags WHERE key LIKE 'mlflow.source.git%'").fetchone()
    connection.close()
    assert len(places) >= 8
    assert all(place.startswith("mlflow-artifacts:/") for place in places)
    assert git == (0,)
    assert all(maker.startswith("python -m ") for maker in makers)
    for file in EXAMPLE.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert b"/home/" not in content
            assert str(Path.home()).encode() + b"/" not in content


def test_the_example_takes_at_most_6_mb_of_a_clone() -> None:
    files = [path for path in EXAMPLE.rglob("*") if path.is_file() and not _is_linked(path)]
    assert sum(path.stat().st_size for path in files) < 6_000_000
    blocks = sum(path.lstat().st_blocks for path in (EXAMPLE, *EXAMPLE.rglob("*")) if not _is_linked(path.parent))
    assert blocks * 512 < 7 * 1024**2


def _is_linked(path: Path) -> bool:
    return any(one.is_symlink() for one in (path, *path.parents) if EXAMPLE in one.parents)


def test_links_between_equal_folders_stay_inside_the_store() -> None:
    links = [path for path in EXAMPLE.rglob("*") if path.is_symlink()]
    assert links
    for link in links:
        assert not link.readlink().is_absolute()
        assert link.resolve().is_relative_to((EXAMPLE / ARTIFACTS).resolve())
        assert any(link.iterdir())
    assert sum(link.name == "suite" for link in links) >= 12


@pytest.mark.parametrize("keeps_links", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["cloned", "copied"])
def test_the_example_opens_in_a_copy_of_its_folder_with_its_artifacts(tmp_path: Path, keeps_links: bool) -> None:
    copy = tmp_path / "elsewhere" / "store"
    shutil.copytree(EXAMPLE, copy, symlinks=keeps_links)
    with bare_mlflow(copy, port=free_port()) as url:
        client = MlflowClient(tracking_uri=url)
        experiment = client.get_experiment_by_name("judge-datasheet-demo")
        runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
        simulated = {f"{name} (simulated)" for name in ("Llama8B", "Qwen14B", "Qwen32B", "Qwen32B_strict")}
        shown = (judge for judge in recorded_judges() if judge.answer_style == "letters" or "strict" in judge.name)
        recorded = {f"{judge.name} (recorded)" for judge in shown}
        assert simulated | recorded | {"careful (simulated)", "Qwen32B (simulated): criterion shift"} <= set(runs)
        assert {name for name, run in runs.items() if run.data.tags.get("jrh.recorded") == "true"} == recorded
        kinds = [run.data.tags["jrh.kind"] for run in runs.values()]
        assert {"evaluate", "criterion_shift", "generate", "compare"} <= set(kinds)
        assert "mlflow.sharedViewState.jrh" in experiment.tags
        llama = runs["Llama8B (simulated)"]
        assert llama.data.metrics["dark_current/rate"] == pytest.approx(80 / 120)
        sheet = client.download_artifacts(llama.info.run_id, "datasheet.md", str(tmp_path))
        assert "0.67" in Path(sheet).read_text(encoding="utf-8")
        forced = runs["Coder1.5B forced A/B (recorded)"]
        assert forced.data.tags["jrh.threshold_75"] == "2.27 [1.48, 3.33]"
        listed = {file.path for file in client.list_artifacts(forced.info.run_id, "suite")}
        assert listed == {"suite/suite.jsonl", "suite/manifest.json"}
        for run in (llama, forced, runs["careful (simulated)"]):
            suite = load_suite(f"runs:/{run.info.run_id}/suite", tracking_uri=url)
            assert suite.sha256 == run.data.params["suite.sha256"]


@pytest.mark.slow
def test_an_interrupted_server_keeps_nothing_from_being_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server goes away in the middle; when it is back, the kept calls are logged."""
    import jrh_mlflow as jrh
    from jrh_mlflow.errors import TrackingError

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    folder, port = tmp_path / "store", free_port()
    suite = jrh.datasheet_suite(n_tasks=2, depth=2)
    judge = jrh.scripted.Oracle()
    server = running_server(folder, port=port)
    url = server.__enter__()

    def answer_then_lose_the_server(self: jrh.scripted.Oracle, call: object) -> str:
        if not stopped:
            stopped.append(True)
            server.__exit__(None, None, None)
        return "tie"

    stopped: list[bool] = []
    monkeypatch.setattr(type(judge), "answer", answer_then_lose_the_server)
    with pytest.raises(TrackingError, match="Nothing is lost"):
        jrh.evaluate(judge, suite, tracking_uri=url, experiment="kept")
    with running_server(folder, port=port):
        (kept,) = (tmp_path / ".jrh" / "outbox").iterdir()
        from jrh_mlflow.measuring.evaluation import resume

        done = resume(kept)
        client = MlflowClient(tracking_uri=url)
        assert client.get_run(done.run_id).data.metrics == done.logged
        assert done.metrics["calls/tie"] == 2 * len(suite)
