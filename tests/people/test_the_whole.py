"""Judges and people on a real MLflow store of 300 traces, three people and one judge, from labels to numbers.

Every number is computed again here, from what was written into the store.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from itertools import permutations
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from mlflow import MlflowClient
from sklearn.metrics import cohen_kappa_score

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Estimate
from tests.people import command
from tests.people.rated_store import JUDGE, RatedStore

HUMAN_SIDE = ("agreement/human_ceiling", "agreement/human_alpha")


@pytest.fixture(scope="module")
def agreement(rated: RatedStore) -> jrh.Agreement:
    return jrh.agree(rated.source, tracking_uri=rated.uri, group="category")


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
    assert agreement.estimates["agreement/accuracy"].n == len(both) < 300
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
            own = said.dropna()
            own = own[own.index.isin(reference.index)]
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
    for row in agreement.disagreements.itertuples():
        assert row.item in row.link


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
        assert done.rowcount > 300
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
