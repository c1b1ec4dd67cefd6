"""The judge whose answers ship with the package: what it reads, and that nothing is matched or asked in silence."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.engine.journal import Journal, open_journal
from jrh_mlflow.errors import CallsError, SuiteError
from jrh_mlflow.measuring.recorded import answers
from jrh_mlflow.measuring.recorded.answers import (
    RecordedJudge,
    import_recorded,
    recorded_lines,
    recorded_records,
    sent_digest,
)
from tests import recorded_answers
from tests.engine.batch_tools import answered, completion, read, write

READINGS = {
    ("forced", "letters"): (1.00, 1.00, 0.77, 0.23, (0.63, 0.73, 0.82, 0.90, 1.00), (2.27, 1.48, 3.33)),
    ("allowed", "letters"): (0.83, 1.00, 0.95, 0.05, (0.51, 0.53, 0.53, 0.58, 0.55), None),
    ("strict", "letters"): (0.30, 0.98, 0.85, 0.12, (0.43, 0.50, 0.52, 0.60, 0.55), None),
    ("forced", "digits"): (1.00, 1.00, 0.58, 0.42, (0.54, 0.60, 0.75, 0.70, 0.80), (4.29, 2.17, None)),
    ("allowed", "digits"): (0.79, 0.99, 0.78, 0.20, (0.48, 0.61, 0.58, 0.55, 0.55), None),
    ("strict", "digits"): (0.83, 0.99, 0.70, 0.28, (0.47, 0.46, 0.43, 0.53, 0.35), None),
}
"""Dark current, false preference at Δ0, positional, stable, better at δ 1 to 5, Δ75 and its interval (None: over 5)."""
SENT_NOWHERE = ClientSettings(timeout_s=0.001)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    with open_journal(tmp_path_factory.mktemp("recorded") / "journal.db") as book:
        yield book


@pytest.fixture
def empty_journal(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(tmp_path / "journal.db") as book:
        yield book


def measured(judge: RecordedJudge, suite: str, journal: Journal) -> jrh.Datasheet:
    import_recorded(judge, suite, journal)
    done = ask_calls(
        judge, plan_calls(jrh.load_suite(suite), judge, replicates=1), journal=journal, settings=SENT_NOWHERE
    )
    assert all(record.cached for record in done.records)
    sheet = jrh.measure(done.records)
    assert isinstance(sheet, jrh.Datasheet)
    return sheet


def value(sheet: jrh.Datasheet, axis: str) -> float:
    estimate = sheet.estimates[axis]
    assert isinstance(estimate, jrh.Estimate), axis
    return estimate.value


@pytest.mark.parametrize(("criterion", "slots"), READINGS)
def test_each_configuration_reads_on_the_published_design_what_was_read_when_it_answered(
    criterion: str, slots: str
) -> None:
    # That evaluations find the same answers in a journal is shown below.
    sheet = jrh.measure(recorded_records(RecordedJudge(criterion, slots), "datasheet-paper"))
    assert isinstance(sheet, jrh.Datasheet)
    *rates, ladder, threshold = READINGS[criterion, slots]
    axes = ("dark_current", "raw_false_preference", "positional_false_preference", "stable_cross_sensitivity")
    assert [value(sheet, axis) for axis in axes] == pytest.approx(rates, abs=0.0051)
    deltas = tuple(value(sheet, f"target_sensitivity/delta_{k}") for k in range(1, 6))
    assert deltas == pytest.approx(ladder, abs=0.006), "printed to two decimals; one call more or less moves .01"
    delta_75 = sheet.estimates["threshold_75"]
    assert isinstance(delta_75, jrh.Estimate)
    if threshold is None:
        assert (delta_75.value, delta_75.censored) == (5, "right")
    else:
        low, high = delta_75.cluster_low, delta_75.cluster_high
        assert [one and round(one, 2) for one in (delta_75.value, low, high)] == list(threshold)


def test_forced_to_choose_it_climbs_the_ladder_of_datasheet_and_reads_nothing_on_the_matched_one(
    journal: Journal,
) -> None:
    judge = RecordedJudge("forced")
    sheet = measured(judge, "datasheet", journal)
    assert import_recorded(judge, "datasheet", journal) == 0, "importing again adds nothing"
    for axis, reads in {
        "target_sensitivity": [0.64, 0.77, 0.82, 0.84, 0.89],
        "matched_sensitivity": [0.52, 0.46, 0.55, 0.46, 0.52],
    }.items():
        assert [round(value(sheet, f"{axis}/delta_{k}"), 2) for k in range(1, 6)] == reads
    gap = sheet.estimates["reading_gap/delta_5"]
    assert isinstance(gap, jrh.Estimate)
    assert [round(one or 0, 2) for one in (gap.value, gap.cluster_low, gap.cluster_high)] == [0.38, 0.18, 0.52]


def test_every_configuration_has_one_answer_for_each_call_of_both_suites() -> None:
    for suite, n_calls in (("datasheet-paper", 680), ("datasheet", 1064)):
        lines = list(recorded_lines(suite))
        counts = {judge.configuration: 0 for judge in answers.recorded_judges()}
        for line in lines:
            counts[line["judge"]] += 1
        assert counts == dict.fromkeys(counts, n_calls)


def test_a_recorded_run_says_so_asks_nobody_and_needs_no_key(
    store_uri: str, empty_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    judge, suite = RecordedJudge("strict"), "datasheet-paper"
    assert import_recorded(judge, suite, empty_journal) == 680
    where = {"tracking_uri": store_uri, "experiment": "recorded", "traces": "none"}
    done = jrh.evaluate(judge, suite, journal=empty_journal, **where)
    assert done.judge.label == "Coder1.5B strict A/B (recorded)"
    assert done.metrics["calls/cached"] == done.metrics["calls/total"] == 680
    assert done.cost_usd is None, "what it cost then is not known, and nothing was paid now"
    run = MlflowClient(store_uri).get_run(done.run_id)
    assert (run.data.tags["jrh.recorded"], run.data.tags["jrh.simulated"]) == ("true", "false")
    assert "Qwen2.5-Coder-1.5B-Instruct (Q4_K_M) answered on 2026-11-15" in run.data.tags["mlflow.note.content"]
    assert "no model was asked now" in run.data.tags["mlflow.note.content"]
    assert "127.0.0.1" not in str(run.data.params), "who would be asked here has answered nothing"


def test_a_run_of_a_model_that_is_asked_has_no_tag_recorded(store_uri: str) -> None:
    suite = jrh.datasheet_suite(n_tasks=1, depth=2)
    done = jrh.evaluate(jrh.scripted.Oracle(), suite, tracking_uri=store_uri, traces="none")
    assert "jrh.recorded" not in MlflowClient(store_uri).get_run(done.run_id).data.tags


@pytest.mark.parametrize("lost", ["a call without an answer", "an answer without a call"])
def test_what_matches_nothing_is_an_error_and_nothing_is_written(
    lost: str, empty_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, lines = RecordedJudge("forced"), list(recorded_lines("datasheet-paper"))
    extra = [{**lines[0], "sent": "0" * 24}]
    monkeypatch.setattr(answers, "recorded_lines", lambda suite: lines[1:] if lost.startswith("a ") else lines + extra)
    told = "1 calls have no recorded answer" if lost.startswith("a ") else "1 recorded answers belong to no call"
    with pytest.raises(CallsError, match=told):
        import_recorded(judge, "datasheet-paper", empty_journal)
    assert empty_journal.summary().answered == 0


def test_a_changed_text_is_an_error(empty_journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = RecordedJudge("forced")
    judge.rubric = "Prefer the shorter one."
    with pytest.raises(CallsError, match="680 calls have no recorded answer"):
        import_recorded(judge, "datasheet-paper", empty_journal)


def test_nothing_is_recorded_on_other_suites_or_criteria(empty_journal: Journal) -> None:
    with pytest.raises(SuiteError, match=r"recorded on suite 'datasheet-short'"):
        import_recorded(RecordedJudge("forced"), "datasheet-short", empty_journal)
    with pytest.raises(CallsError, match="Nothing was recorded under 'lenient'"):
        RecordedJudge("forced").with_criterion("lenient")
    assert RecordedJudge("forced", "digits").with_criterion("strict").name == "Coder1.5B strict 1/2"


def test_the_form_of_a_journal_key_may_change_without_losing_an_answer(
    empty_journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jrh_mlflow.schema.requests import Request

    monkeypatch.setattr(Request, "key", lambda self, number: f"jrh-2-{number}-{self._digest}")
    judge = RecordedJudge("forced")
    import_recorded(judge, "datasheet-paper", empty_journal)
    calls = list(plan_calls(jrh.load_suite("datasheet-paper"), judge, replicates=1))[::20]
    done = ask_calls(judge, calls, journal=empty_journal, settings=SENT_NOWHERE)
    assert [record.cached for record in done.records] == [True] * len(calls)


def test_the_files_are_made_of_batch_files(tmp_path: Path, empty_journal: Journal) -> None:
    """Each configuration exported, answered and packed; a later folder replaces what an earlier one lacks."""
    from jrh_mlflow.engine.batch import export_batch

    suite, folders = jrh.datasheet_suite(n_tasks=1, depth=1), [tmp_path / "first", tmp_path / "second"]
    for judge in answers.recorded_judges():
        name = judge.configuration.replace("-letters", "").replace("-", "_")
        export_batch(judge, suite, empty_journal, tmp_path / f"{name}.jsonl")
        lines = read(tmp_path / f"{name}.jsonl")
        for folder, part in zip(folders, (lines[::2], lines[1::2]), strict=True):
            folder.mkdir(exist_ok=True)
            said = [answered(line["custom_id"], completion(f"{name} {line['custom_id']}")) for line in part]
            _pack(folder / f"{name}.requests.jsonl.gz", part)
            _pack(folder / f"{name}.results.jsonl.gz", said)
    with pytest.raises(CallsError, match="no batch file answers"):
        recorded_answers.build(suite, folders[:1], tmp_path / "half.xz")
    n_calls = recorded_answers.build(suite, folders, tmp_path / "whole.xz")
    made = lzma.decompress((tmp_path / "whole.xz").read_bytes()).decode().splitlines()
    assert len(made) == n_calls == 6 * 2 * len(suite)
    assert len(set(made)) == n_calls


def _pack(path: Path, lines: list[dict[str, object]]) -> None:
    import gzip

    plain = write(path.with_suffix(".plain"), lines)
    path.write_bytes(gzip.compress(plain.read_bytes()))


def test_the_digest_is_of_what_is_sent_and_not_of_who_is_asked() -> None:
    call = next(plan_calls(jrh.load_suite("datasheet-paper"), RecordedJudge("forced"), replicates=1))
    settings = {"tie_criterion": "forced", "max_tokens": 1024, "structured": True}

    def digest(model: str, **changed: object) -> str:
        return sent_digest(jrh.PromptedJudge(model, **{**settings, **changed}).request(call))  # type: ignore[arg-type]

    same = digest("openai/qwen2.5-coder-1.5b")
    assert same == digest("hosted_vllm/another", api_base="http://127.0.0.1:9/v1")
    assert len({same, digest("openai/m", temperature=1.0), digest("openai/m", seed=1)}) == 3
    assert digest("openai/m", structured=False) != same
