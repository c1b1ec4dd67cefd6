"""`jrh.correct` on more than two versions: differences of all pairs, adjusted by max-T."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import NotEstimable
from tests.people.test_correct_scores import marks

COLUMNS = ["a", "b", "difference", "low", "high", "p", "p_adjusted", "told_apart"]


def versions(rates: tuple[float, ...], rng: np.random.Generator, n: int = 600) -> dict[str, pd.DataFrame]:
    """Versions of one application on the same items; a judge with se .9 and sp .85."""
    ease, frames = rng.random(n), {}
    for at, rate in enumerate(rates):
        human = np.where(rng.random(n) < 0.7, ease, rng.random(n)) < rate
        judge = rng.random(n) < np.where(human, 0.9, 0.15)
        frames[f"v{at}"] = pd.DataFrame({"item": [f"i{i}" for i in range(n)], "judge": judge, "human": human})
    return frames


def labels(frames: dict[str, pd.DataFrame], n: int) -> dict[str, pd.DataFrame]:
    return {name: frame[:n] for name, frame in frames.items()}


def test_every_pair_of_three_versions_has_a_difference() -> None:
    frames = versions((0.5, 0.55, 0.85), np.random.default_rng(1))
    found = jrh.correct(frames, labels(frames, 200), sampling="random")
    assert list(found.differences.columns) == COLUMNS
    assert found.differences[["a", "b"]].to_numpy().tolist() == [["v0", "v1"], ["v0", "v2"], ["v1", "v2"]]
    assert found.differences["told_apart"].tolist() == [False, True, True]
    assert (found.differences["p_adjusted"] >= found.differences["p"]).all()
    assert set(found.versions) == {"v0", "v1", "v2"}
    assert isinstance(found.estimate, NotEstimable)
    for row in found.differences.to_dict("records"):
        rates = found.versions[row["b"]].estimate.value - found.versions[row["a"]].estimate.value
        assert row["difference"] == pytest.approx(rates)
    assert [finding.state for finding in found.verdict.findings] == ["cannot tell", "ok", "ok"]
    assert "v2 − v0" in found.to_markdown()
    assert len(found.to_dict()["differences"]) == 3
    assert found.n_labelled == 600
    assert {key.split("/")[2] for key in found.metrics if "/corrected/" in key} == {"v0", "v1", "v2"}


def test_two_versions_alone_are_as_in_a_family() -> None:
    frames = versions((0.5, 0.55, 0.85), np.random.default_rng(1))
    all_three = jrh.correct(frames, labels(frames, 200), sampling="random").differences
    two = {name: frames[name] for name in ("v0", "v2")}
    found = jrh.correct(two, labels(two, 200), sampling="random")
    assert found.estimate.value == pytest.approx(all_three["difference"][1])
    assert found.differences["p"][0] == found.differences["p_adjusted"][0]
    assert found.differences["told_apart"][0] == (found.estimate.ci_low > 0)


@pytest.mark.slow
def test_equal_versions_are_seldom_told_apart() -> None:
    rng, any_told, one_by_one = np.random.default_rng(21), [], []
    for _ in range(15):
        frames = versions((0.7, 0.7, 0.7, 0.7), rng, n=400)
        found = jrh.correct(frames, labels(frames, 120), sampling="random")
        any_told.append(found.differences["told_apart"].any())
        one_by_one.append((found.differences["p"] < 0.05).any())
    # At .05 four or more of 15 are seen in .005 of cases. By itself one of six differences reaches it oftener.
    assert sum(any_told) <= 3 < sum(one_by_one)


@pytest.mark.parametrize("with_ids", [True, False])
def test_labels_that_all_versions_share_are_read_by_rogan_gladen(with_ids) -> None:
    rng = np.random.default_rng(5)
    frames = {
        name: frame.assign(item=[f"{name} {at}" for at in range(len(frame))])
        for name, frame in versions((0.5, 0.7, 0.9), rng).items()
    }
    shared = pd.concat([frame[:100] for frame in frames.values()])
    if not with_ids:
        frames = {name: frame.drop(columns="item") for name, frame in frames.items()}
    verdicts = {name: frame.drop(columns="human") for name, frame in frames.items()}
    found = jrh.correct(verdicts, shared, sampling="random")
    assert found.method == "Rogan-Gladen"
    assert found.differences["told_apart"].all()
    assert found.n_labelled == 300


def test_unknown_labels_and_marks_have_families_too() -> None:
    frames = versions((0.4, 0.6, 0.9), np.random.default_rng(8))
    unknown = jrh.correct(frames, labels(frames, 200))
    assert unknown.method == "PPI++ or Rogan-Gladen"
    assert unknown.differences["told_apart"].tolist()[1]
    rng = np.random.default_rng(9)
    scored = {name: marks(900, rng, lift=lift) for name, lift in (("a", 0.0), ("b", 0.1), ("c", 1.0))}
    found = jrh.correct(scored, labels(scored, 200), sampling="random")
    assert found.differences["difference"][1] > 0.3
    assert found.differences["told_apart"].tolist() == [False, True, True]
    refused = jrh.correct(scored, labels(scored, 200))
    assert refused.differences["difference"].isna().all()
    assert not refused.differences["told_apart"].any()


def test_an_item_without_a_cluster_is_one_cluster_in_all_versions_and_no_other_item_is() -> None:
    """Two items of each version belong together; the others stand for themselves."""
    frames = versions((0.5, 0.6), np.random.default_rng(5))
    pair = [f"talk {place}" if place < 2 else None for place in (0, 0, *range(2, 600))]
    in_talks = {name: frame.assign(cluster=pair) for name, frame in frames.items()}
    of_others = {
        name: frame.assign(
            item=[f"{name} {item}" for item in frame["item"]], cluster=[talk and f"{name} {talk}" for talk in pair]
        )
        for name, frame in in_talks.items()
    }

    def width(frames: dict[str, pd.DataFrame], with_ids: bool = True) -> float:
        given = {name: frame if with_ids else frame.drop(columns="item") for name, frame in frames.items()}
        low, high = jrh.correct(given, labels(given, 200), sampling="random").estimate.interval
        return high - low

    paired = width(frames)
    apart = width({name: frame.drop(columns="cluster") for name, frame in of_others.items()})
    assert paired < 0.95 * apart
    assert width(in_talks) == pytest.approx(paired, rel=0.02)
    assert width(of_others) == pytest.approx(apart, rel=0.02)
    # Without ids nothing says that two rows are one item.
    assert width(of_others, with_ids=False) == pytest.approx(apart, rel=0.05)
