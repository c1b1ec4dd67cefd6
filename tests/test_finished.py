"""The store of finished runs that other tests read."""

from __future__ import annotations

from mlflow import MlflowClient

from tests.finished import KINDS, FinishedRuns


def test_it_has_a_finished_run_of_every_kind(finished: FinishedRuns) -> None:
    client = MlflowClient(tracking_uri=finished.uri)
    assert tuple(sorted(finished.ids)) == tuple(sorted(KINDS))
    for run_id in finished.ids.values():
        assert client.get_run(run_id).info.status == "FINISHED"


def test_a_copy_is_written_into_and_the_first_store_stays(finished: FinishedRuns, finished_copy: FinishedRuns) -> None:
    MlflowClient(tracking_uri=finished_copy.uri).log_text(finished_copy["oracle"], "new", "new.txt")
    assert "new.txt" in artifacts(finished_copy)
    assert artifacts(finished) == artifacts(finished_copy) - {"new.txt"}


def artifacts(runs: FinishedRuns) -> set[str]:
    return {file.path for file in MlflowClient(tracking_uri=runs.uri).list_artifacts(runs["oracle"])}
