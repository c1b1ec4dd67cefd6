"""`jrh.correct` on scores and probabilities: calibrated scores in PPI++, means of people's scores, their units."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import jrh_mlflow as jrh
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.stats.corrected_rates import calibrated
from tests.cases import few
from tests.people.arrays import correct_rate


def probabilities(n: int, rate: float, rng: np.random.Generator) -> pd.DataFrame:
    """Passes by people, and a judge's probability of a pass that is off: everything is squared."""
    human = rng.random(n) < rate
    logit = rng.normal(size=n) * 1.3 + np.where(human, 1.5, -1.5)
    return pd.DataFrame(
        {"item": [f"i{at}" for at in range(n)], "judge": (1 / (1 + np.exp(-logit))) ** 2, "human": human}
    )


def marks(n: int, rng: np.random.Generator, *, lift: float = 0.0) -> pd.DataFrame:
    """Marks of 1 to 5 by people and by a judge that is kinder and sees less."""
    latent = rng.normal(size=n) * 1.1 + 3.2 + lift
    human = np.clip(np.round(latent + 0.5 * rng.normal(size=n)), 1, 5).astype(int)
    judge = np.clip(np.round(0.8 * latent + 1.4 + 0.6 * rng.normal(size=n)), 1, 5).astype(int)
    return pd.DataFrame({"item": [f"i{at}" for at in range(n)], "judge": judge, "human": human})


MEAN_MARK = 1 + sum(ndtr((3.2 - least) / np.hypot(1.1, 0.5)) for least in (1.5, 2.5, 3.5, 4.5))
"""Mean of the marks that people give in `marks`: 1, and one more for each border that the latent value lies above."""


def ends(reading: object) -> tuple[float, float]:
    assert isinstance(reading, Estimate)
    assert reading.interval is not None
    return reading.interval


def test_a_score_is_read_off_curves_that_the_label_of_its_item_did_not_draw() -> None:
    rng = np.random.default_rng(3)
    frame = probabilities(300, 0.7, rng)
    others, inside = calibrated(frame["judge"].to_numpy(), frame["judge"].to_numpy(), frame["human"].to_numpy(float))
    order = np.argsort(frame["judge"])
    assert (np.diff(others[order]) >= -1e-12).all()
    noise = rng.permutation(frame["human"].to_numpy(float))
    # Read off its own label a score of noise would seem to know it.
    assert abs(np.corrcoef(calibrated(others, frame["judge"].to_numpy(), noise)[1], noise)[0, 1]) < 0.2
    assert np.corrcoef(inside, frame["human"])[0, 1] > 0.7


@pytest.mark.parametrize("weighted", [False, True])
def test_a_curve_is_that_of_scikit_learn(weighted) -> None:
    from sklearn.isotonic import IsotonicRegression

    frame = marks(60, np.random.default_rng(4))
    scores, human = frame["judge"].to_numpy(float), frame["human"].to_numpy(float)
    weights = np.random.default_rng(5).random(60) if weighted else None
    # With as many clusters as parts each is left out once, and the first alone can be redone by hand.
    clusters = np.repeat(np.arange(2), 30)
    _, inside = calibrated(scores, scores, human, weights, clusters)
    curve = IsotonicRegression(out_of_bounds="clip")
    curve.fit(scores[30:], human[30:], None if weights is None else weights[30:])
    assert inside[:30] == pytest.approx(curve.predict(scores[:30]))


def test_a_cluster_is_in_one_part_of_the_cross_fit() -> None:
    scores, clusters = np.arange(40.0), np.repeat(np.arange(20), 2)
    # One cluster alone is passed: its own items must not learn of it.
    human = np.where(clusters == 19, 1.0, 0.0)
    assert calibrated(scores, scores, human, None, clusters)[1][-2:].tolist() == [0, 0]
    assert calibrated(scores, scores, human)[1][-2:].max() == 1


@pytest.mark.parametrize(("rate", "n"), few([(0.9, 200), (0.95, 300)]))
def test_the_calibrated_score_covers_and_needs_fewer_labels_than_its_verdict(rate, n) -> None:
    rng, held, widths = np.random.default_rng(11), [], []
    for at in range(80):
        frame = probabilities(n + 400, rate, rng)
        score, human = frame["judge"].to_numpy(), frame["human"].to_numpy(float)
        verdict = (score > 0.5).astype(float)
        found = [
            ends(correct_rate(verdict[n:], verdict[:n], human[:n], sampling="random", scores=scores).estimate)
            for scores in ((score[n:], score[:n]), *([None] if at < 20 else []))
        ]
        held.append(found[0][0] <= rate <= found[0][1])
        widths += [[high - low for low, high in found]] * (len(found) == 2)
    assert np.mean(held) >= 0.92
    by_score, by_verdict = np.mean(widths, axis=0)
    # Labels go with the square of the width.
    assert (by_verdict / by_score) ** 2 > 1.25


def test_the_mean_of_peoples_marks_is_covered_in_their_units() -> None:
    rng, held, alone = np.random.default_rng(2), [], []
    for _ in range(15):
        frame = marks(500, rng)
        found = jrh.correct(frame[100:], frame[:100], sampling="random")
        low, high = ends(found.estimate)
        held.append(low <= MEAN_MARK <= high)
        alone.append((high - low) / np.diff(ends(found.people_only))[0])
        assert found.naive.value == pytest.approx(frame["judge"][100:].mean())
    assert np.mean(held) >= 0.88
    assert np.mean(alone) < 0.9


def test_a_mean_score_is_told_as_a_score() -> None:
    frame = marks(900, np.random.default_rng(5))
    found = jrh.correct(frame, frame[["item", "human"]][:100], sampling="random")
    assert found.of_scores
    assert (found.n_labelled, found.n_unlabelled) == (100, 800)
    assert 2.5 < found.estimate.value < 4
    assert found.sensitivity is None
    assert "%" not in found.verdict.sentences[0]
    assert "Mean score" in found.title
    assert found.to_dict()["estimate"]["value"] == found.estimate.value
    assert found.plot("corrected").axes[0].get_xlim()[1] > 1.5


def test_a_score_beside_passes_of_people_gives_a_pass_rate() -> None:
    frame = probabilities(1200, 0.8, np.random.default_rng(7))
    found = jrh.correct(frame[200:], frame[:200], sampling="random")
    assert (found.method, found.of_scores) == ("PPI++", False)
    assert found.naive.value == pytest.approx(frame["judge"][200:].mean())
    assert ends(found.estimate)[0] < 0.8 < ends(found.estimate)[1]
    five = frame.assign(judge=np.ceil(frame["judge"] * 5).clip(1, 5).astype(int))
    by_marks = jrh.correct(five[200:], five[:200], sampling="random")
    assert isinstance(by_marks.naive, NotEstimable)
    assert ends(by_marks.estimate)[0] < 0.8 < ends(by_marks.estimate)[1]
    # With a pass the verdict is the judge's mean, and the score still narrows the interval.
    passes = jrh.correct(five[200:], five[:200], sampling="random", positive=(3, 4, 5))
    assert passes.naive.value == pytest.approx((five["judge"][200:] >= 3).mean())
    assert isinstance(passes.sensitivity, Estimate)
    assert passes.estimate.value == pytest.approx(by_marks.estimate.value)


def test_scores_of_unknown_origin_have_an_interval_only_where_people_pass_or_fail() -> None:
    rng = np.random.default_rng(9)
    here, there = probabilities(1000, 0.9, rng), probabilities(200, 0.6, rng)
    found = jrh.correct(here[["judge"]], there[["judge", "human"]])
    assert found.method == "PPI++ or Rogan-Gladen"
    assert found.pool == "other"
    assert ends(found.estimate)[0] < 0.9 < ends(found.estimate)[1]
    both = marks(900, rng)
    refused = jrh.correct(both[["judge"]][100:], both[["judge", "human"]][:100])
    assert isinstance(refused.estimate, NotEstimable)
    assert "jrh agree --draw" in refused.estimate.reason
    assert refused.method == "none"


def test_marks_drawn_by_verdict_or_with_known_chances_are_corrected() -> None:
    rng = np.random.default_rng(13)
    frame = marks(2000, rng)
    by_mark = frame.sample(frac=1, random_state=0).groupby("judge").head(40)
    found = jrh.correct(frame, by_mark, sampling="by_verdict")
    assert found.method == "two strata"
    assert ends(found.estimate)[0] < MEAN_MARK < ends(found.estimate)[1]
    share = (40 / frame.groupby("judge")["judge"].transform("size")).clip(upper=1)
    weighted = jrh.correct(frame, by_mark.assign(inclusion=share[by_mark.index]))
    assert weighted.method == "weighted PPI++"
    assert ends(weighted.estimate)[0] < MEAN_MARK < ends(weighted.estimate)[1]


def test_clusters_widen_the_interval_of_a_mean_score() -> None:
    rng = np.random.default_rng(17)
    frame = marks(200, rng).loc[np.repeat(np.arange(200), 5)].reset_index(drop=True)
    frame = frame.assign(item=[f"i{at}" for at in range(1000)], cluster=np.repeat(np.arange(200), 5))
    alone, clustered = (
        ends(jrh.correct(table, table[:200], sampling="random").estimate)
        for table in (frame.drop(columns="cluster"), frame)
    )
    assert np.diff(clustered)[0] > 1.5 * np.diff(alone)[0]


def test_two_versions_differ_in_the_units_of_their_marks() -> None:
    rng = np.random.default_rng(19)
    old, new = marks(1200, rng), marks(1200, rng, lift=0.8)
    found = jrh.correct({"old": old, "new": new}, {"old": old[:300], "new": new[:300]}, sampling="random")
    low, high = ends(found.estimate)
    assert 0.2 < low < found.estimate.value < high < 1.2
    assert found.versions["new"].estimate.value - found.versions["old"].estimate.value == pytest.approx(
        found.estimate.value
    )
    assert found.verdict.findings[0].state == "ok"


def test_lost_scores_are_bounded_on_their_scale() -> None:
    frame = marks(900, np.random.default_rng(23)).astype({"judge": object})
    frame.loc[100:200, "judge"] = None
    found = jrh.correct(frame[100:], frame[:100], sampling="random")
    assert found.estimate.withheld
    assert 1 < found.estimate.bounds.low < found.estimate.bounds.high < 5
