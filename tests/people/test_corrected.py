"""Corrected rates: which estimate is given, when the judge is refused, what is said; differences of two versions."""

from __future__ import annotations

import numpy as np
import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.corrected import SAMPLINGS, Graded, LabelledSample, correct_difference
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from tests.people.arrays import correct_rate
from tests.stats.test_corrected_rates import table, verdicts

GOOD, USELESS = table(62, 8, 6, 24), table(42, 28, 18, 12)
SEEN = verdicts(640, 260)


@pytest.mark.parametrize(
    ("sampling", "method"), [("random", "PPI++"), ("stratified", "Rogan-Gladen"), ("by_verdict", "two strata")]
)
def test_each_sampling_has_its_estimate(sampling, method) -> None:
    report = correct_rate(SEEN, *GOOD, sampling=sampling)
    assert report.method == method
    assert isinstance(report.estimate, Estimate)
    assert report.estimate.n == report.n_labelled == 100
    assert report.naive.value == pytest.approx(640 / 900)
    assert (report.naive.n, report.n_unlabelled) == (900, 900)


def test_people_alone_are_shown_for_random_labels_only() -> None:
    assert correct_rate(SEEN, *GOOD, sampling="random").people_only.value == pytest.approx(0.7)
    for sampling in ("stratified", "by_verdict"):
        reading = correct_rate(SEEN, *GOOD, sampling=sampling).people_only
        assert isinstance(reading, NotEstimable)
        assert "no random sample" in reading.reason


def test_a_useless_judge_leaves_people_alone_and_it_is_said() -> None:
    report = correct_rate(SEEN, *USELESS, sampling="random")
    assert report.method == "people only"
    assert report.estimate == report.people_only
    assert report.note.startswith("The judge may be no better than chance: sensitivity + specificity - 1 is 0.00 [")
    assert report.note.endswith("the estimate is that of the people's labels alone.")


@pytest.mark.parametrize("sampling", ["stratified", "by_verdict"])
def test_a_useless_judge_corrects_nothing_where_labels_are_no_random_sample(sampling) -> None:
    report = correct_rate(SEEN, *USELESS, sampling=sampling)
    assert isinstance(report.estimate, NotEstimable)
    assert "no better than chance" in report.estimate.reason
    assert report.method == "none"
    assert isinstance(report.naive, Estimate)


def test_ties_on_one_side_only_do_not_tell_what_the_judge_knows() -> None:
    found = correct_rate(np.repeat([1.0, 0.5], 50), np.repeat([1.0, 0.5], 10), np.ones(20), sampling="by_verdict")
    assert isinstance(found.estimate, NotEstimable)
    assert "unknown what it tells" in found.estimate.reason


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_judge_that_says_the_opposite_is_refused(sampling) -> None:
    judge, human = GOOD
    assert correct_rate(SEEN, 1 - judge, human, sampling=sampling).method in ("people only", "none")


def test_a_judge_that_may_be_good_is_refused_until_there_are_enough_labels() -> None:
    def method(times: int) -> str:
        return correct_rate(SEEN, *table(12 * times, 4 * times, times, 2 * times), sampling="random").method

    assert [method(times) for times in (1, 8)] == ["people only", "PPI++"]


@pytest.mark.parametrize(("human", "rate"), [(1.0, "specificity"), (0.0, "sensitivity")])
def test_labels_of_one_kind_are_refused_with_what_is_unknown(human, rate) -> None:
    judge = verdicts(30, 20)
    people = np.full(50, human)
    found = correct_rate(SEEN, judge, people, sampling="stratified").estimate
    assert isinstance(found, NotEstimable)
    assert rate in found.reason
    assert correct_rate(SEEN, judge, people, sampling="random").method == "people only"


def test_a_verdict_without_labels_is_refused_where_items_have_it() -> None:
    judge, human = table(30, 0, 20, 0)
    found = correct_rate(SEEN, judge, human, sampling="by_verdict").estimate
    assert isinstance(found, NotEstimable)
    assert found.reason == "no labelled item has the judge's verdict fail, which 28.9% of all items have"


def test_where_the_judge_passes_everything_its_labels_are_a_random_sample() -> None:
    report = correct_rate(np.ones(500), *table(30, 0, 20, 0), sampling="by_verdict")
    assert report.method == "people only"
    assert report.estimate.value == pytest.approx(0.6)
    assert "says pass of every item" in report.note


def test_labelled_items_that_were_taken_out_belong_to_the_population() -> None:
    """All 20 fails of 200 were labelled and taken out: the rest has passes only."""
    judge, human = table(18, 2, 2, 18)
    told, unknown, apart = (
        correct_rate(np.ones(160), judge, human, sampling="by_verdict", labelled_apart=each)
        for each in (False, None, True)
    )
    assert told.estimate.value == unknown.estimate.value == pytest.approx((180 * 0.9 + 20 * 0.1) / 200)
    assert apart.estimate.value == pytest.approx(0.9)


@pytest.mark.parametrize("sampling", ["stratified", "by_verdict"])
def test_without_a_word_on_where_labels_are_from_the_interval_holds_for_both(sampling) -> None:
    both, rest, whole = (
        correct_rate(SEEN, *GOOD, sampling=sampling, labelled_apart=each).estimate for each in (None, True, False)
    )
    assert (both.ci_low, both.ci_high) == (min(rest.ci_low, whole.ci_low), max(rest.ci_high, whole.ci_high))
    assert both.value == rest.value != whole.value


def test_error_rates_of_labels_drawn_by_verdict_are_those_of_all_items() -> None:
    """Half of the labels are fails, of the items one in ten: 45 + 1 of 50 … sensitivity 810 / 820."""
    judge, human = table(45, 5, 5, 45)
    report = correct_rate(verdicts(900, 100), judge, human, sampling="by_verdict", labelled_apart=True)
    assert report.sensitivity.value == pytest.approx(810 / 820)
    assert report.specificity.value == pytest.approx(90 / 180)


def test_a_judge_that_shortens_no_interval_is_said_to_add_nothing() -> None:
    """Five verdicts beside 150 labels; a thousand times as many do add something."""
    few, many = (
        correct_rate(verdicts(3 * times, 2 * times), *table(60, 20, 20, 50), sampling="random").note
        for times in (1, 1000)
    )
    assert few == "The judge adds nothing: people's labels alone tell the rate as exactly."
    assert many == ""


def test_a_population_unlike_the_labelled_items_is_said() -> None:
    report = correct_rate(verdicts(990, 10), *table(40, 10, 10, 40), sampling="stratified")
    assert report.estimate.value == 1
    assert "passes 0.99 of the items, more than it passes of those that people passed (0.80)" in report.note
    below = correct_rate(verdicts(10, 990), *table(40, 10, 10, 40), sampling="stratified")
    assert "less than it passes of those that people failed (0.20)" in below.note


def test_weights_undo_an_uneven_choice() -> None:
    """Fails were labelled twice as often as passes."""
    judge, human = table(72, 4, 8, 36)
    weights = np.where(judge == 1, 2.0, 1.0)
    report = correct_rate(verdicts(800, 200), judge, human, sampling="random", weights=weights)
    assert report.method == "weighted PPI++"
    assert report.people_only.value == pytest.approx((72 * 2 + 4) / (80 * 2 + 40))
    assert report.people_only.value != pytest.approx(human.mean())
    for sampling in SAMPLINGS:
        again = correct_rate(verdicts(800, 200), judge, human, sampling=sampling, weights=weights)
        assert again.estimate == report.estimate


def test_wins_and_ties_are_corrected_for_random_labels_and_by_verdict_only() -> None:
    rng = np.random.default_rng(0)
    human = rng.choice([0.0, 0.5, 1.0], 150, p=[0.2, 0.3, 0.5])
    judge = np.where(rng.random(150) < 0.8, human, rng.choice([0.0, 0.5, 1.0], 150))
    seen = rng.choice([0.0, 0.5, 1.0], 800, p=[0.25, 0.3, 0.45])
    for sampling in ("random", "by_verdict"):
        found = correct_rate(seen, judge, human, sampling=sampling)
        assert isinstance(found.estimate, Estimate)
        assert isinstance(found.sensitivity, NotEstimable)
    by_hand = sum((seen == value).mean() * human[judge == value].mean() for value in (0.0, 0.5, 1.0))
    assert found.estimate.value == pytest.approx(by_hand)
    refused = correct_rate(seen, judge, human, sampling="stratified").estimate
    assert isinstance(refused, NotEstimable)
    assert "yes or no only" in refused.reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"judge_unlabelled": np.array([])}, "no verdicts"),
        ({"human": np.ones(3)}, "100 labels of the judge, but 3 of people"),
        ({"human": np.full(100, 2.0)}, "must lie in 0 … 1"),
        ({"judge_labelled": np.full(100, np.nan)}, "must lie in 0 … 1"),
        ({"sampling": "by_verdicts"}, "Did you mean 'by_verdict'"),
        ({"weights": np.ones(3)}, "3 weights for 100 labelled items"),
        ({"weights": np.zeros(100)}, "must be positive and finite"),
        ({"level": 95}, "between 0 and 1"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(change, said) -> None:
    judge, human = GOOD
    arguments = {"judge_unlabelled": SEEN, "judge_labelled": judge, "human": human, "sampling": "random"} | change
    with pytest.raises(RecipeError, match=said):
        correct_rate(**arguments)


def test_a_higher_level_is_a_wider_interval() -> None:
    for sampling in SAMPLINGS:
        widths = [
            found.ci_high - found.ci_low
            for found in (correct_rate(SEEN, *GOOD, sampling=sampling, level=level).estimate for level in (0.8, 0.99))
        ]
        assert widths[0] < widths[1]


def labels(judge: np.ndarray, human: np.ndarray, start: int = 10_000) -> LabelledSample:
    return LabelledSample(judge=judge, human=human, items=range(start, start + len(judge)))


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_shared_labels_divide_the_difference_by_what_the_judge_can_tell(sampling) -> None:
    first, second = Graded(judge=verdicts(500, 400)), Graded(judge=verdicts(590, 310))
    found = correct_difference(first, second, labels(*GOOD), sampling=sampling)
    if sampling != "by_verdict":
        assert found.estimate.value == pytest.approx(0.1 / (62 / 70 + 24 / 30 - 1))
    assert found.estimate.ci_low < found.estimate.value < found.estimate.ci_high
    assert found.naive.value == pytest.approx(0.1)
    assert "as sensitive and as specific on both" in found.note
    assert found.rates[1].value - found.rates[0].value == pytest.approx(found.estimate.value)


def test_labels_of_each_version_subtract_their_rates() -> None:
    other = table(70, 5, 5, 20)
    found = correct_difference(
        Graded(judge=SEEN), Graded(judge=verdicts(700, 200)), (labels(*GOOD), labels(*other)), sampling="random"
    )
    rates = [
        correct_rate(each, *own, sampling="random").estimate.value
        for each, own in ((SEEN, GOOD), (verdicts(700, 200), other))
    ]
    assert found.estimate.value == pytest.approx(rates[1] - rates[0])
    assert found.people_only.value == pytest.approx(0.05)
    assert found.estimate.n == 200


def test_items_of_both_versions_are_paired_by_their_ids() -> None:
    rng = np.random.default_rng(3)
    seen = (rng.random(900) < 0.7).astype(float)
    changed = np.where(rng.random(900) < 0.95, seen, 1 - seen)
    ids = [f"item {at}" for at in range(900)]
    own = labels(*GOOD)

    def widths(items, shared) -> tuple[float, float]:
        calibration = own if shared else (own, own)
        first, second = Graded(judge=seen, items=ids), Graded(judge=changed, items=items)
        found = correct_difference(first, second, calibration, sampling="stratified")
        return found.naive.ci_high - found.naive.ci_low, found.estimate.ci_high - found.estimate.ci_low

    for shared in (True, False):
        paired, apart = widths(ids, shared), widths([f"other {at}" for at in range(900)], shared)
        assert paired[0] < 0.6 * apart[0]
        assert paired[1] < apart[1]
    turned = list(reversed(ids))
    assert widths(turned, shared=True)[0] > 1.5 * widths(ids, shared=True)[0]


def test_a_useless_judge_tells_no_difference_from_shared_labels() -> None:
    found = correct_difference(Graded(judge=SEEN), Graded(judge=SEEN), labels(*USELESS), sampling="random")
    assert isinstance(found.estimate, NotEstimable)
    assert "no better than chance" in found.note
    people = correct_difference(
        Graded(judge=SEEN), Graded(judge=SEEN), (labels(*USELESS), labels(*GOOD, start=0)), sampling="random"
    )
    assert people.method == "people only and PPI++"
    assert people.note.startswith("First version: The judge ")


def test_clusters_of_labels_that_versions_share_are_none_of_their_own_items() -> None:
    judge, human = GOOD
    items = [str(place) for place in range(len(SEEN))]
    calibration = LabelledSample(judge=judge, human=human, clusters=[place // 5 for place in range(len(judge))])
    first, second = (Graded(judge=seen, items=items) for seen in (SEEN, verdicts(700, 200)))
    assert set(items) <= correct_difference(first, second, calibration, sampling="stratified").effects.keys()


def test_ids_are_given_for_every_value() -> None:
    with pytest.raises(RecipeError, match="2 item ids for 900 values"):
        correct_difference(Graded(judge=SEEN, items=["a", "b"]), Graded(judge=SEEN), labels(*GOOD), sampling="random")


@pytest.mark.parametrize("apart", [False, None])
@pytest.mark.parametrize("factor", [1.0, 1e200, 1e-200])
def test_equal_weights_give_what_random_labels_give(apart, factor) -> None:
    for seen in (SEEN, verdicts(60, 40), verdicts(9, 3)):
        plain = correct_rate(seen, *GOOD, sampling="random").estimate
        weighted = correct_rate(
            seen, *GOOD, sampling="random", weights=np.full(100, factor), labelled_apart=apart
        ).estimate
        assert weighted.value == pytest.approx(plain.value, abs=1e-9)
        assert weighted.interval == pytest.approx(plain.interval, abs=0.006)


def test_weighted_labels_taken_out_of_the_population_cover_the_rate() -> None:
    """Even where most items are labelled: the rest is then unlike the whole, and the two share their items."""
    rng = np.random.default_rng(0)
    for n, total, theta, se, sp, uneven in (
        (800, 1000, 0.7, 0.98, 0.98, False),
        (300, 600, 0.9, 0.97, 0.95, False),
        (900, 1000, 0.7, 0.9, 0.8, False),
        (300, 600, 0.7, 0.9, 0.8, True),
    ):
        held = []
        for _ in range(100):
            human = rng.random(total) < theta
            judge = np.where(human, rng.random(total) < se, rng.random(total) >= sp).astype(float)
            tilt = np.where(human == (rng.random(total) < 0.8), 1.6, 0.4) if uneven else np.ones(total)
            chance = np.minimum(1.0, n / total * tilt)
            chosen = rng.random(total) < chance
            report = correct_rate(
                judge[~chosen],
                judge[chosen],
                human[chosen].astype(float),
                sampling="random",
                weights=1 / chance[chosen],
                labelled_apart=False,
            )
            held.append(report.estimate.ci_low <= theta <= report.estimate.ci_high)
        assert np.mean(held) >= 0.925


def test_a_judge_is_said_to_add_nothing_only_where_people_alone_can_be_read() -> None:
    for sampling in ("stratified", "by_verdict"):
        assert "adds nothing" not in correct_rate(SEEN, *table(40, 10, 22, 28), sampling=sampling).note


def test_an_interval_that_is_wider_for_want_of_ids_says_so() -> None:
    few = verdicts(50, 60)
    assert "item ids on both sides" in correct_rate(few, *GOOD, sampling="stratified").note
    for apart in (False, True):
        assert "ids" not in correct_rate(few, *GOOD, sampling="stratified", labelled_apart=apart).note
    assert "ids" not in correct_rate(few, *GOOD, sampling="random").note


ELSEWHERE = table(54, 6, 8, 32)
"""Labels of a pool with .6 passes, by a judge of se .9 and sp .8."""
HERE = verdicts(830, 170)
"""What it says of a pool with .9 passes."""


def test_labels_of_another_pool_are_found_by_the_verdicts_and_both_estimates_are_held() -> None:
    random, unknown = (correct_rate(HERE, *ELSEWHERE, sampling=sampling) for sampling in ("random", None))
    for report in (random, unknown):
        assert (report.pool, report.method) == ("other", "PPI++ or Rogan-Gladen")
        assert report.estimate.ci_low < 0.75 < 0.9 < report.estimate.ci_high
        assert "p = " in report.note
        assert isinstance(report.people_only, NotEstimable)
    assert random.estimate == unknown.estimate


def test_what_the_test_finds_never_moves_the_estimate_of_labels_of_unknown_origin() -> None:
    like, unlike = (correct_rate(verdicts(n, 1000 - n), *ELSEWHERE, sampling=None) for n in (640, 830))
    assert (like.pool, unlike.pool) == ("unknown", "other")
    assert like.method == unlike.method
    assert "sampling=" in like.note
    parts = [correct_rate(verdicts(640, 360), *ELSEWHERE, sampling=each).estimate for each in ("random", "stratified")]
    assert like.estimate.ci_low == min(part.ci_low for part in parts)
    assert like.estimate.ci_high == max(part.ci_high for part in parts)
    assert like.estimate.value == pytest.approx(sum(part.value for part in parts) / 2)


def test_labels_known_to_be_random_and_not_contradicted_are_read_alone() -> None:
    report = correct_rate(verdicts(640, 360), *ELSEWHERE, sampling="random")
    assert (report.pool, report.method, report.note) == ("same", "PPI++", "")


def test_ids_among_the_verdicts_show_the_pool_and_not_how_labels_were_drawn() -> None:
    for passed, sampling in ((640, None), (830, "random")):
        report = correct_rate(verdicts(passed, 1000 - passed), *ELSEWHERE, sampling=sampling, labelled_apart=False)
        assert (report.pool, report.method) == ("same", "PPI++ or Rogan-Gladen")


def test_exactly_half_passes_is_a_suspicion_only_where_the_verdicts_differ_somewhat() -> None:
    half = table(45, 5, 10, 40)
    alike, somewhat = (correct_rate(verdicts(n, 1000 - n), *half, sampling="random") for n in (560, 680))
    assert (alike.method, somewhat.method) == ("PPI++", "PPI++ or Rogan-Gladen")
    assert "stratified" in somewhat.note
    other = correct_rate(verdicts(680, 320), *table(46, 5, 9, 40), sampling="random")
    assert other.method == "PPI++"


def test_a_judge_that_finds_fewer_failures_here_would_stand_for_a_lower_rate() -> None:
    """se .9, f .2: a rate of .7 gives the judge .69; with f .3 that is (.69 - .3) / .6."""
    report = correct_rate(verdicts(690, 310), *table(63, 7, 6, 24), sampling="stratified", labelled_apart=True)
    assert report.estimate.value == pytest.approx(0.7)
    assert report.if_fewer_found == pytest.approx(0.65)
    assert correct_rate(HERE, *USELESS, sampling="stratified").if_fewer_found is None


def in_clusters(of: int, n: int) -> list[int]:
    return [at // of for at in range(n)]


def clustered(k: int, of: int, *, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Labelled and other conversations that pass or fail as a whole; the judge errs in one item of ten."""
    rng = np.random.default_rng(seed)
    human = np.repeat((rng.random(2 * k) < 0.7).astype(float), of)
    judge = np.where(rng.random(len(human)) < 0.1, 1 - human, human)
    half = k * of
    return judge[half:], judge[:half], human[:half], np.repeat(np.arange(2 * k), of)


def test_items_of_one_conversation_are_no_items_of_their_own() -> None:
    seen, judge, human, names = clustered(30, 8)
    clusters = (names[240:], names[:240])
    alone, together = (correct_rate(seen, judge, human, sampling="random", clusters=each) for each in (None, clusters))
    assert together.estimate.value == alone.estimate.value
    for of in ("estimate", "people_only", "naive"):
        narrow, wide = getattr(alone, of), getattr(together, of)
        assert wide.ci_high - wide.ci_low > 1.3 * (narrow.ci_high - narrow.ci_low), of
    assert together.estimate.n_clusters == 30
    single = correct_rate(seen, judge, human, sampling="random", clusters=(range(240), range(240, 480)))
    assert single.estimate == alone.estimate


def test_below_ten_clusters_there_is_no_interval() -> None:
    for k, kind in ((9, NotEstimable), (10, Estimate)):
        seen, judge, human, names = clustered(k, 20)
        clusters = (names[k * 20 :], names[: k * 20])
        report = correct_rate(seen, judge, human, sampling="random", clusters=clusters)
        assert isinstance(report.estimate, kind)
        assert isinstance(report.people_only, kind)


def test_whole_conversations_of_one_kind_do_not_contradict_a_random_draw() -> None:
    """By item these verdicts differ at p < .001; 12 conversations against 12 do not."""
    judge, human = np.repeat([1.0, 0.0], [180, 60]), np.repeat([1.0, 0.0], [180, 60])
    seen = np.repeat([1.0, 0.0], [100, 140])
    clusters = (in_clusters(20, 240), [f"b{at}" for at in in_clusters(20, 240)])
    assert correct_rate(seen, judge, human, sampling="random").pool == "other"
    assert correct_rate(seen, judge, human, sampling="random", clusters=clusters).pool == "same"


def test_wins_and_ties_of_unknown_origin_have_both_estimates_too() -> None:
    rng = np.random.default_rng(0)
    human = rng.choice([0.0, 0.5, 1.0], 150)
    judge = np.where(rng.random(150) < 0.8, human, 0.5)
    report = correct_rate(rng.choice([0.0, 0.5, 1.0], 600), judge, human, sampling=None)
    assert report.method == "PPI++ or Rogan-Gladen"
    assert report.estimate.ci_low < 0.5 < report.estimate.ci_high
    assert report.if_fewer_found is None
