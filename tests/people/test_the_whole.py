"""Judges and people on a real MLflow store of 160 traces, three people and one judge, from labels to numbers.

Every number is computed again here, from what was written into the store.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from functools import partialmethod
from itertools import permutations
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace
from sklearn.metrics import cohen_kappa_score

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Estimate
from tests.docs.printed import Printed
from tests.docs.world import World
from tests.people import command
from tests.people.loopback_judge import GUIDELINE, AddsGuideline, answer, judging, lenient_judge
from tests.people.rated_store import JUDGE, RatedStore
from tests.tracking.traces.trace_tools import logging_traces

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
"""The page is run for the first test of the file: minutes on a busy machine."""
N = 12
"""Answers that are evaluated anew: each takes MLflow a tenth of a second and more."""
PAGE = "docs/howto/people.md"
HUMAN_SIDE = ("agreement/human_ceiling", "agreement/human_alpha")


JUDGES = """
from tests.people.loopback_judge import AddsGuideline, lenient_judge

judge, optimizer = lenient_judge(), AddsGuideline()
"""
QUICKER = "judges.py:judge --max-traces 24 --no-suite"
"""The command as printed, on fewer traces than the Python beside it."""
ALIGNED = {False: 20, True: 12}
"""Wrong and right answers to align on: a half is held out, and each is put to a judge four times.

The lenient judge errs on most wrong ones: few of them decide."""


@pytest.fixture(scope="module")
def printed(rated: RatedStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Run docs/howto/people.md as it is printed, and give the names that it makes."""
    folder, labelled = tmp_path_factory.mktemp("people"), calibration(rated)
    (folder / "judges.py").write_text(JUDGES, encoding="utf-8")
    labelled.to_csv(folder / "labelled.csv", index=False)
    labelled[["judge"]].to_csv(folder / "verdicts.csv", index=False)
    labelled.assign(human=labelled["human"].where(labelled.index < 70)).to_csv(folder / "graded.csv", index=False)
    rows = [{"inputs": {"question": row.question}, "outputs": row.answer} for row in rated.traces[:N].itertuples()]
    names: dict[str, Any] = {"mlflow": mlflow, "jrh": jrh, "answers": rows, "labelled": labelled[["judge", "human"]]}
    names |= {"judge": lenient_judge(), "optimizer": AddsGuideline(), "traces": fetched(rated)}
    names |= {"before": [True] * 40 + [False] * 20, "after": [True] * 50 + [False] * 10}
    with pytest.MonkeyPatch.context() as patch, judging(rated, patch) as server:
        world = World(folder=folder, server=server, uri=rated.uri, experiment="answers")
        with logging_traces(rated.uri, "answers"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of MLflow's own imports
            from dspy import SIMBA

            # One step of eight: all of it, but for what a step makes of those before; two candidates of six.
            patch.setattr(SIMBA, "__init__", partialmethod(SIMBA.__init__, max_steps=1, num_candidates=2))
            page = Printed(PAGE, world, names=names, words={"judges.py:judge": QUICKER}, shown=True).run()
            yield page.names | {"server": server, "commands": page.commands}


def fetched(rated: RatedStore) -> list[Trace]:
    truth = rated.traces.set_index("item")["truth"]
    found = MlflowClient(tracking_uri=rated.uri).search_traces(locations=[rated.experiment_id], max_results=80)
    return [
        trace
        for right, n in ALIGNED.items()
        for trace in [trace for trace in found if truth[trace.info.trace_id] == right][:n]
    ]


@pytest.fixture(scope="module")
def agreement(printed: dict[str, Any]) -> jrh.Agreement:
    made: jrh.Agreement = printed["agreement"]
    return made


def value_of(result: jrh.Agreement, axis: str) -> float:
    estimate = result.estimates[axis]
    assert isinstance(estimate, Estimate), (axis, estimate)
    assert estimate.n > 0
    assert estimate.ci_low < estimate.value < estimate.ci_high
    return estimate.value


def compared(rated: RatedStore) -> pd.DataFrame:
    """Majority and judge on the traces that have both."""
    return pd.DataFrame({"people": rated.majority, "judge": rated.judge}).dropna().astype(bool)


def test_the_judges_numbers_are_those_of_the_labels_that_were_written(
    rated: RatedStore, agreement: jrh.Agreement
) -> None:
    both = compared(rated)
    assert agreement.estimates["agreement/accuracy"].n == len(both) < len(rated.traces)
    assert value_of(agreement, "agreement/accuracy") == pytest.approx((both["people"] == both["judge"]).mean())
    assert value_of(agreement, "agreement/kappa") == pytest.approx(cohen_kappa_score(both["people"], both["judge"]))
    assert value_of(agreement, "agreement/sensitivity") == pytest.approx(both["judge"][both["people"]].mean())
    assert value_of(agreement, "agreement/specificity") == pytest.approx(1 - both["judge"][~both["people"]].mean())
    disagreeing = both.index[both["people"] != both["judge"]]
    assert set(agreement.disagreements["item"]) == set(disagreeing)
    assert agreement.confusion.to_numpy().sum() == len(both)


def test_the_ceiling_is_each_person_against_the_others(rated: RatedStore, agreement: jrh.Agreement) -> None:
    shares, judges = [], []
    for who in rated.people:
        others = rated.people.drop(columns=who)
        votes = pd.DataFrame({value: (others == value).sum(axis=1) for value in (False, True)})
        reference = (votes[True] > votes[False])[votes[True] != votes[False]]
        for said, found in ((rated.people[who], shares), (rated.judge, judges)):
            own = said[said.index.isin(reference.index) & said.index.isin(rated.people[who].dropna().index)].dropna()
            found.append((own.astype(bool) == reference[own.index]).mean())
    assert value_of(agreement, "agreement/human_ceiling") == pytest.approx(sum(shares) / len(shares))
    assert value_of(agreement, "agreement/judge_on_ceiling") == pytest.approx(sum(judges) / len(judges))


def test_alpha_is_one_minus_observed_over_expected_disagreement(rated: RatedStore, agreement: jrh.Agreement) -> None:
    labels = [row.dropna().tolist() for _, row in rated.people.iterrows()]
    units = [unit for unit in labels if len(unit) > 1]
    pairs = [(a != b, len(unit) - 1) for unit in units for a, b in permutations(unit, 2)]
    everyone = [label for unit in units for label in unit]
    n, true = len(everyone), sum(everyone)
    observed = sum(differ / others for differ, others in pairs) / n
    expected = 2 * true * (n - true) / (n * (n - 1))
    assert value_of(agreement, "agreement/human_alpha") == pytest.approx(1 - observed / expected)


def test_each_category_is_read_by_itself(rated: RatedStore, agreement: jrh.Agreement) -> None:
    both = compared(rated)
    category = rated.traces.set_index("item")["category"][both.index]
    assert set(agreement.groups) == set(category)
    for name, group in both.groupby(category):
        read = agreement.groups[str(name)]["agreement/accuracy"]
        assert isinstance(read, Estimate)
        assert (read.n, read.value) == (len(group), pytest.approx((group["people"] == group["judge"]).mean()))


def test_the_run_holds_the_numbers_and_links_to_the_traces(rated: RatedStore, agreement: jrh.Agreement) -> None:
    client = MlflowClient(tracking_uri=rated.uri)
    run = client.get_run(agreement.run_id)
    assert run.data.tags["jrh.kind"] == "agree"
    assert run.data.metrics["agreement/accuracy/rate"] == value_of(agreement, "agreement/accuracy")
    assert run.data.metrics["agreement/kappa/value"] == value_of(agreement, "agreement/kappa")
    assert run.data.metrics["agreement/human_ceiling/rate"] == value_of(agreement, "agreement/human_ceiling")
    held = {file.path for file in client.list_artifacts(agreement.run_id)}
    assert {"agreement.json", "agreement.md", "agreement.html", "tables", "figures"} <= held
    for row in agreement.disagreements.head(5).itertuples():
        assert row.item in row.link
        assert f"]({row.link})" in run.data.tags["mlflow.note.content"]


def test_the_command_prints_what_the_function_returns(
    rated: RatedStore, agreement: jrh.Agreement, capsys: pytest.CaptureFixture[str]
) -> None:
    done = command.jrh("agree", rated.source, "--tracking-uri", rated.uri, "--no-log", "--json", capsys=capsys)
    assert done.code == 0, done
    printed: dict[str, Any] = json.loads(done.out)["estimates"]
    assert set(printed) == set(agreement.estimates)
    for axis, estimate in agreement.estimates.items():
        if isinstance(estimate, Estimate):
            assert (printed[axis]["value"], printed[axis]["n"]) == (pytest.approx(estimate.value), estimate.n)
            assert printed[axis]["ci_low"] == pytest.approx(estimate.ci_low)


def test_what_judge_and_code_say_changes_nothing_that_is_read_of_people(
    rated: RatedStore, agreement: jrh.Agreement, tmp_path: Path
) -> None:
    """Every verdict of the judge and of code is turned into its opposite, in a copy of the store."""
    copy = tmp_path / "mlflow.db"
    shutil.copy(rated.uri.removeprefix("sqlite:///"), copy)
    with sqlite3.connect(copy) as database:
        turned = "UPDATE assessments SET value = CASE value WHEN 'true' THEN 'false' ELSE 'true' END"
        done = database.execute(f"{turned} WHERE source_type != 'HUMAN' AND value IN ('true', 'false')")
        assert done.rowcount > len(rated.traces)
    database.close()
    flipped = jrh.agree(rated.source, tracking_uri=f"sqlite:///{copy}", group="category", log=False)
    assert agreement.judge == flipped.judge
    for axis in HUMAN_SIDE:
        assert agreement.estimates[axis] == flipped.estimates[axis]
    people = ["person", "n", "n_compared", "accuracy"]
    pd.testing.assert_frame_equal(agreement.people[people], flipped.people[people])
    assert agreement.confusion.sum(axis=1).tolist() == flipped.confusion.sum(axis=1).tolist()
    assert value_of(flipped, "agreement/accuracy") == pytest.approx(1 - value_of(agreement, "agreement/accuracy"))
    assert JUDGE in agreement.judge.values()


def calibration(rated: RatedStore) -> pd.DataFrame:
    return compared(rated).rename(columns={"people": "human"}).rename_axis("item").reset_index()


def test_rates_are_corrected_as_the_formulas_say(rated: RatedStore) -> None:
    labelled = calibration(rated)
    verdicts = [True] * 520 + [False] * 180
    p, judge, human = 520 / 700, labelled["judge"].astype(float), labelled["human"].astype(float)
    sensitivity, specificity = judge[human == 1].mean(), 1 - judge[human == 0].mean()
    by_hand = {
        "stratified": (p + specificity - 1) / (sensitivity + specificity - 1),
        "by_verdict": p * human[judge == 1].mean() + (1 - p) * human[judge == 0].mean(),
    }
    weight = judge.cov(human, ddof=0) / ((1 + len(labelled) / 700) * judge.var(ddof=0))
    by_hand["random"] = human.mean() + weight * (p - judge.mean())
    for sampling, expected in by_hand.items():
        done = jrh.correct(verdicts, labelled[["judge", "human"]], sampling=sampling)
        assert isinstance(done.estimate, Estimate)
        assert done.estimate.value == pytest.approx(expected, abs=2e-3 if sampling != "random" else 1e-9), sampling
        assert done.estimate.ci_low < expected < done.estimate.ci_high
        assert done.naive.value == pytest.approx(p)


def test_the_wrong_sampling_reads_what_the_docs_say() -> None:
    """θ .70, se .90, sp .80: 690 of 1,000 pass, of which 630 rightly; 70 of the others are good, too."""
    verdicts = [True] * 690 + [False] * 310

    def reads(sampling: str | None, *cells: tuple[bool, bool, float]) -> float:
        drawn = [(judge, human) for judge, human, share in cells for _ in range(round(50 * share))]
        done = jrh.correct(verdicts, pd.DataFrame(drawn, columns=["judge", "human"]), sampling=sampling)
        assert isinstance(done.estimate, Estimate)
        return done.estimate.value

    by_verdict = [(True, True, 63 / 69), (True, False, 6 / 69), (False, True, 7 / 31), (False, False, 24 / 31)]
    by_person = [(True, True, 0.9), (False, True, 0.1), (True, False, 0.2), (False, False, 0.8)]
    assert reads("by_verdict", *by_verdict) == pytest.approx(0.70, abs=0.03)
    assert reads("stratified", *by_verdict) == pytest.approx(0.84, abs=0.015)
    assert reads("stratified", *by_person) == pytest.approx(0.70, abs=0.03)
    # Half passes and half fails, whose verdicts are unlike the others': the middle of .59 and .70.
    assert reads("random", *by_person) == reads(None, *by_person) == pytest.approx(0.645, abs=0.015)


def test_the_corrected_rate_stands_beside_mlflows_mean_in_its_run(rated: RatedStore, printed: dict[str, Any]) -> None:
    metrics = MlflowClient(tracking_uri=rated.uri).get_run(printed["result"].run_id).data.metrics
    labelled = calibration(rated)
    judge, human = labelled["judge"].astype(float), labelled["human"].astype(float)
    weight = judge.cov(human, ddof=0) / ((1 + len(labelled) / N) * judge.var(ddof=0))
    expected = human.mean() + weight * (metrics["correct/mean"] - judge.mean())
    # The agreement is older than the result: nobody says that its items are of this pool.
    assert metrics["correct/corrected/ci_low"] < expected < metrics["correct/corrected/ci_high"]


def test_an_optimiser_that_helps_is_believed_on_traces_that_it_has_not_seen(
    rated: RatedStore, printed: dict[str, Any]
) -> None:
    result = printed["checked"].result
    assert result.decision == "better"
    assert GUIDELINE in printed["aligned"].instructions
    asked = [json.dumps(body["messages"]) for body in printed["server"].bodies if body["model"] == "gpt-4o-mini"]
    assert asked
    assert not any("example.com" in text for text in asked)  # what people said is not shown to the judge
    run = MlflowClient(tracking_uri=rated.uri).get_run(result.run_id)
    assert run.data.tags["jrh.kind"] == "align"
    # From the labels of people and the answers of the model on loopback, on the traces that were held out.
    people, truth = rated.majority.astype(bool), rated.traces.set_index("item")["truth"]
    number = rated.traces.set_index("item")["question"].str.extract(r"(\d+)")[0]
    given = [trace.info.trace_id for trace in printed["traces"]]
    held_out = people.index.intersection(given).difference(printed["optimizer"].seen)
    before, after = (
        [answer(number[item], truth[item], aligned=aligned) == people[item] for item in held_out]
        for aligned in (False, True)
    )
    assert result.difference.value == pytest.approx((sum(after) - sum(before)) / len(held_out))


def test_simba_of_mlflow_is_checked_on_traces_that_it_has_not_seen(rated: RatedStore, printed: dict[str, Any]) -> None:
    """DSPy itself, with the judge's own model on loopback."""
    result = printed["simba"].result
    assert result.decision in ("better", "not worse", "sent back")
    assert isinstance(result.difference, Estimate)
    params = MlflowClient(tracking_uri=rated.uri).get_run(result.run_id).data.params
    assert params["align.optimizer"] == "SIMBAAlignmentOptimizer"
