"""Agreement of a judge with people: readings of made ratings, what is left out, degenerate ratings, refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.agreement import measure_agreement
from jrh_mlflow.people.ratings import read_ratings
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.stats.agreement import gwet_ac1, krippendorff_alpha
from jrh_mlflow.stats.proportions import wilson

pytestmark = pytest.mark.quick

AXES = (
    *(f"agreement/{name}" for name in ("accuracy", "kappa", "kappa_quadratic", "ac1", "sensitivity", "specificity")),
    *("agreement/human_ceiling", "agreement/judge_on_ceiling", "agreement/human_alpha"),
    *("alt_test/winning_rate", "alt_test/advantage_probability"),
)


def long(table, **columns):
    """Rater to the labels of items 0, 1, …; None: no label."""
    rows = [
        {"item": f"i{item}", "rater": rater, "label": label, **{name: cells[item] for name, cells in columns.items()}}
        for rater, labels in table.items()
        for item, label in enumerate(labels)
        if label is not None
    ]
    return pd.DataFrame(rows)


def measured(table, *, judge="gpt", scale=None, group=None, **settings):
    groups = {"group": group} if group is not None else {}
    ratings = read_ratings(long(table, **groups), judge=judge, scale=scale, group="group" if groups else None)
    return measure_agreement(ratings, **settings)


def noisy(seed, *, n=80, k=2, people=3, missing=0.2):
    """Labels 0 … k - 1 of people and of the judge."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    table = {}
    for name in (*(f"p{j}" for j in range(people)), "gpt"):
        labels = np.where(rng.random(n) < 0.75, truth, rng.integers(k, size=n))
        table[name] = [
            None if gone else int(label) for label, gone in zip(labels, rng.random(n) < missing, strict=True)
        ]
    return table


def as_array(table, names):
    return np.array([[math.nan if label is None else label for label in table[name]] for name in names]).T


THREE = {
    "ann": ["a", "a", "b", "b", "a", "a"],
    "bob": ["a", "a", "b", "a", "b", None],
    "cy": ["a", "b", "b", "b", None, None],
    "gpt": ["a", "b", "b", "b", "a", "a"],
}


def test_the_reference_is_the_majority_and_items_without_one_are_counted():
    report = measured(THREE)
    accuracy = report.estimates["agreement/accuracy"]
    assert (accuracy.numerator, accuracy.n, accuracy.excluded) == (4, 5, 1)
    assert report.counts == {"items": 6, "compared": 5, "no majority": 1}
    assert report.confusion.to_numpy().tolist() == [[2, 1], [0, 2]]
    assert report.disagreements[["item", "judge", "reference", "ann"]].to_numpy().tolist() == [["i1", "b", "a", "a"]]


def test_the_readings_are_what_the_definitions_give_item_by_item():
    for seed in range(2):
        table = noisy(seed, k=3)
        people, judge = as_array(table, ["p0", "p1", "p2"]), as_array(table, ["gpt"])[:, 0]
        pairs = []
        for labels, said in zip(people, judge, strict=True):
            ranked = pd.Series(labels).value_counts()
            if not math.isnan(said) and len(ranked) and (len(ranked) == 1 or ranked.iloc[0] > ranked.iloc[1]):
                pairs.append((ranked.index[0], said))
        x, y = np.array(pairs).T
        report = measured(table, positive=2)
        values = {axis: each.value for axis, each in report.estimates.items() if isinstance(each, Estimate)}
        assert report.estimates["agreement/accuracy"].n == len(pairs)
        assert values["agreement/accuracy"] == pytest.approx((x == y).mean())
        assert values["agreement/kappa"] == pytest.approx(cohen_kappa_score(x, y))
        assert values["agreement/ac1"] == pytest.approx(gwet_ac1(np.column_stack([x, y]), n_categories=3))
        assert values["agreement/sensitivity"] == pytest.approx((y[x == 2] == 2).mean())
        assert values["agreement/specificity"] == pytest.approx((y[x != 2] != 2).mean())
        assert values["agreement/human_alpha"] == pytest.approx(krippendorff_alpha(people, scale="nominal"))
        assert report.confusion.to_numpy().tolist() == confusion_matrix(x, y, labels=[0, 1, 2]).tolist()


def test_the_ceiling_is_each_person_against_the_others_and_the_judge_against_the_same_references():
    report = measured({"ann": list("aabba"), "bob": list("aabab"), "cy": list("abbbb"), "gpt": list("abbba")})
    # ann: others agree on items 0 aa, 2 bb, 4 bb (1 and 3 are split); bob: 0 aa, 2 bb, 3 bb; cy: 0 aa, 1 aa, 2 bb.
    assert report.estimates["agreement/human_ceiling"].value == pytest.approx((2 / 3 + 2 / 3 + 2 / 3) / 3)
    assert report.estimates["agreement/judge_on_ceiling"].value == pytest.approx((2 / 3 + 3 / 3 + 2 / 3) / 3)
    assert report.people[["person", "n_compared"]].to_numpy().tolist() == [["ann", 3], ["bob", 3], ["cy", 3]]


def test_a_median_between_two_levels_is_no_reference():
    table = {"ann": ["low", "low", "mid"], "bob": ["mid", "high", "mid"], "gpt": ["low", "mid", "high"]}
    report = measured(table, scale=["low", "mid", "high"])
    assert report.estimates["agreement/accuracy"].n == 2
    assert report.counts["median between two levels"] == 1
    assert report.disagreements[["item", "reference", "distance"]].to_numpy().tolist() == [["i2", "mid", 1.0]]


def test_of_numbers_the_median_may_be_one_that_nobody_gave():
    table = {"ann": [1, 2, 4.5, 3], "bob": [2, 2, 3.5, 3], "gpt": [1.5, 2.5, 4, 1]}
    report = measured(table, scale="numeric")
    assert report.disagreements["item"].tolist() == ["i3", "i1"]
    assert report.estimates["agreement/kappa_quadratic"].n == 4
    assert isinstance(report.estimates["agreement/accuracy"], NotEstimable)
    whole = measured({"ann": [1, 2, 4], "bob": [2, 2, 4], "gpt": [1, 2, 5]}, scale=(1, 5))
    assert whole.estimates["agreement/accuracy"].n == 2
    assert whole.levels == ("1", "2", "3", "4", "5")


def test_disagreements_come_worst_first_with_every_label():
    table = {"ann": [1, 5, 3, 2], "bob": [1, 5, 3, 2], "cy": [2, 5, None, 2], "gpt": [3, 1, 3, 1]}
    found = measured(table, scale=[1, 2, 3, 4, 5]).disagreements
    assert found["item"].tolist() == ["i1", "i0", "i3"]
    assert found.iloc[1].tolist() == ["i0", "3", "1", "1", "1", "2", 2.0]
    split = measured({"ann": list("aaa"), "bob": list("aab"), "cy": list("aba"), "gpt": list("abb")}).disagreements
    assert split["distance"].tolist() == pytest.approx([1 / 3 * 2, 2 / 3])


def test_a_person_named_like_a_column_keeps_a_column():
    found = measured({"item": list("ab"), "distance": list("ab"), "gpt": list("ba")}).disagreements
    assert found.columns.tolist() == ["item", "judge", "reference", "person item", "person distance", "distance"]


def test_shares_have_wilsons_interval_also_at_ten_of_ten():
    labels = ["yes", "no"] * 5
    estimates = measured({"ann": labels, "gpt": labels}).estimates
    accuracy = estimates["agreement/accuracy"]
    assert accuracy.interval == pytest.approx(wilson(10, 10))
    assert accuracy.cluster_low <= accuracy.ci_low
    assert estimates["agreement/sensitivity"].interval == pytest.approx(wilson(5, 5))


def test_booleans_and_yes_have_a_positive_label_and_others_must_be_told():
    assert measured({"ann": [True, False], "gpt": [True, False]}).positive == "true"
    assert measured({"ann": ["Yes", "no"], "gpt": ["yes", "no"]}).positive == "Yes"
    assert measured({"ann": [True] * 3, "gpt": [True] * 3}).positive == "true"
    told = measured({"ann": list("ab"), "gpt": list("ab")})
    assert "positive" in told.estimates["agreement/sensitivity"].reason
    assert measured({"ann": [0, 1], "gpt": [0, 1]}, positive=1).positive == "1"
    with pytest.raises(RecipeError, match="Did you mean 'fail'"):
        measured({"ann": ["fail", "pass"], "gpt": ["fail", "pass"]}, positive="fial")


DEGENERATE = {
    "one label throughout": {"ann": ["a"] * 8, "bob": ["a"] * 8, "cy": ["a"] * 8, "gpt": ["a"] * 8},
    "perfect agreement": {name: ["a", "b"] * 20 for name in ("ann", "bob", "cy", "gpt")},
    "one item": {name: ["a"] for name in ("ann", "bob", "gpt")},
    "two items": {"ann": ["a", "b"], "bob": ["a", "b"], "gpt": ["b", "a"]},
    "never equal": {"ann": ["a"] * 40, "bob": ["b"] * 40, "gpt": ["a", "b"] * 20},
    "people who share nothing": {"ann": ["a", None] * 20, "bob": [None, "b"] * 20, "gpt": ["a", "b"] * 20},
    "a judge with one label": {"ann": ["a", "b"] * 20, "bob": ["b", "b"] * 20, "gpt": ["a"] * 40},
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("scale", [None, ["a", "b"]])
def test_degenerate_ratings_have_reasons_or_intervals_with_a_width_and_never_nan(name, scale):
    report = measured(DEGENERATE[name], scale=scale, positive="a")
    assert tuple(report.estimates) == AXES
    for axis, reading in report.estimates.items():
        if isinstance(reading, NotEstimable):
            assert reading.reason
            continue
        assert math.isfinite(reading.value), axis
        assert -1 <= reading.ci_low <= reading.value <= reading.ci_high <= 1, axis
        assert reading.ci_high - reading.ci_low > 0.01, axis
        assert reading.n > 0
        assert reading.method
    json.dumps(report.to_dict(), allow_nan=False)


def test_people_alone_have_a_ceiling_and_an_alpha():
    report = measure_agreement(read_ratings(long({"ann": list("aabb"), "bob": list("aaba")})))
    estimated = {axis for axis, reading in report.estimates.items() if isinstance(reading, Estimate)}
    assert estimated == {"agreement/human_ceiling", "agreement/human_alpha"}
    assert "no judge" in report.estimates["agreement/kappa"].reason
    assert report.disagreements.empty


def test_one_person_has_no_ceiling_alpha_or_test():
    report = measured({"ann": list("abab"), "gpt": list("abaa")})
    assert isinstance(report.estimates["agreement/kappa"], Estimate)
    for axis in ("agreement/human_ceiling", "agreement/judge_on_ceiling", "agreement/human_alpha", *AXES[-2:]):
        assert isinstance(report.estimates[axis], NotEstimable)


def test_people_with_too_few_items_are_not_tested_and_named():
    table = noisy(6, n=60, missing=0)
    table["p1"] = [*table["p1"][:20], *[None] * 40]
    report = measured(table)
    assert any("fewer than 30 items: p1." in note for note in report.notes)
    rate = report.estimates["alt_test/winning_rate"]
    assert (rate.n, rate.excluded, rate.unit) == (2, 1, "person")
    assert report.people.set_index("person")["n_tested"].to_dict() == {"p0": 60, "p1": 20, "p2": 60}
    assert report.people.set_index("person")["p"].isna().to_dict() == {"p0": False, "p1": True, "p2": False}


def test_each_group_has_the_estimates_of_its_items():
    table = noisy(4, n=60)
    groups = ["x" if item < 30 else "y" for item in range(60)]
    report = measured(table, group=groups)
    alone = measured({name: labels[:30] for name, labels in table.items()})
    assert [*report.groups] == ["x", "y"]
    for axis, reading in alone.estimates.items():
        assert report.groups["x"][axis] == reading
    assert "group" in report.disagreements


def test_the_order_of_rows_and_the_names_of_raters_change_nothing():
    frame = long(noisy(5))
    report = measure_agreement(read_ratings(frame, judge="gpt"), positive=1)
    shuffled = frame.sample(frac=1, random_state=1)
    shuffled["rater"] = shuffled["rater"].map({"p0": "zoe", "p1": "p1", "p2": "abe", "gpt": "gpt"})
    other = measure_agreement(read_ratings(shuffled, judge="gpt"), positive=1)
    for axis, reading in report.estimates.items():
        if isinstance(reading, Estimate):
            assert other.estimates[axis].value == pytest.approx(reading.value)
            assert other.estimates[axis].interval == pytest.approx(reading.interval, abs=0.04)


def test_spellings_of_one_label_are_one_label():
    ratings = read_ratings(long({"ann": [1, "No", True, "x"], "gpt": [1.0, "no", "true", " x "]}), judge="gpt")
    assert ratings.levels == ("1", "No", "true", "x")
    assert ratings.values[:, 0].tolist() == ratings.judge_values.tolist()
    # Beside other labels 1 and True are not one answer, though they are equal in Python.
    assert len(read_ratings(long({"ann": [1, 0, 2], "gpt": [True, False, 2]}), judge="gpt").levels) == 5


def test_rows_without_a_label_are_left_out_and_said():
    frame = pd.concat([long(THREE), pd.DataFrame({"item": ["i9", "i9"], "rater": ["ann", "bob"], "label": [None, ""]})])
    assert any("2 row(s) without a label" in note for note in read_ratings(frame, judge="gpt").notes)
    again = pd.concat([long(THREE), long(THREE).iloc[:2]])
    assert any("given twice" in note for note in read_ratings(again, judge="gpt").notes)


def test_numbers_without_a_scale_stay_names_with_a_note():
    grades = {"ann": [1, 2, 3], "gpt": [1, 2, 3]}
    assert any("scale" in note for note in read_ratings(long(grades), judge="gpt").notes)
    assert read_ratings(long(grades), judge="gpt").kind == "nominal"
    assert not read_ratings(long({"ann": [0, 1], "gpt": [0, 1]}), judge="gpt").notes


def test_a_column_marks_the_judge():
    frame = long(THREE)
    frame["is_judge"] = frame["rater"] == "gpt"
    assert read_ratings(frame).judge == "gpt"
    frame.loc[0, "is_judge"] = True
    with pytest.raises(RecipeError, match="'ann' is the judge and also a person"):
        read_ratings(frame)


AB = {"ann": list("ab"), "gpt": list("ab")}
REFUSED = {
    "one rater": (long({"ann": list("ab")}), {}, "two raters, but 'ann' is the only one"),
    "a judge alone": (long({"gpt": list("ab")}), {"judge": "gpt"}, "two raters"),
    "an unknown judge": (long(AB), {"judge": "gtp"}, "No rater is called 'gtp'. Did you mean 'gpt'"),
    "no overlap": (long({"ann": ["a", None], "gpt": [None, "b"]}), {"judge": "gpt"}, "share no item"),
    "no overlap of people": (long({"ann": ["a", None], "bob": [None, "b"]}), {}, "labels of two people"),
    "outside the scale": (long(AB), {"judge": "gpt", "scale": ["a", "c"]}, "outside the scale a, c: b"),
    "outside the range": (long({"a": [1, 9], "b": [1, 2]}), {"scale": (1, 5)}, "outside the scale 1 to 5: 9"),
    "words on a numeric scale": (long(AB), {"scale": "numeric"}, "needs numbers, but a label is 'a'"),
    "a scale of one": (long(AB), {"scale": ["a"]}, "two or more labels"),
    "a scale with a label twice": (long(AB), {"scale": ["a", "b", "A"]}, "names a label twice"),
    "an unknown scale": (long(AB), {"scale": "ordinal"}, "two or more labels from low to high"),
    "two labels": (pd.concat([long(AB), long({"ann": list("ba")})]), {}, "'ann' gave item 'i0' two different labels"),
    "a judge who is a person": (
        pd.concat([long({**AB, "bob": list("ab")}), long({"gpt": list("ba")})]),
        {"judge": "gpt"},
        "Is the judge also a person",
    ),
    "an empty table": (long(AB).iloc[:0], {}, "No row has a label"),
    "no label at all": (long(AB).assign(label=None), {}, "No row has a label"),
    "a rater without a name": (long(AB).assign(rater=["ann", None, "gpt", "gpt"]), {}, "column 'rater' is empty"),
    "a list as a label": (long(AB).assign(label=["a", "b", ["a"], "b"]), {}, "must hold texts, finite numbers"),
    "infinity": (long(AB).assign(label=[1.0, 2.0, math.inf, 2.0]), {}, "must hold texts, finite numbers"),
    "an item in two groups": (long(AB).assign(g=list("xyyy")), {"group": "g"}, "'i0' is in two groups"),
    "too many names": (long({"a": range(200), "b": range(200)}), {}, "200 different labels are too many"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_ratings_are_refused_in_one_clear_line(name):
    frame, options, message = REFUSED[name]
    with pytest.raises(RecipeError) as refused:
        read_ratings(frame, **options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_many_items_are_measured_by_how_they_are_rated():
    rng = np.random.default_rng(0)
    n = 20_000
    truth = rng.integers(2, size=n)
    frames = [
        pd.DataFrame({"item": np.arange(n), "rater": name, "label": np.where(rng.random(n) < 0.9, truth, 1 - truth)})
        for name in ("p0", "p1", "p2", "p3", "gpt")
    ]
    estimates = measure_agreement(read_ratings(pd.concat(frames), judge="gpt"), positive=1).estimates
    accuracy, kappa = estimates["agreement/accuracy"], estimates["agreement/kappa"]
    assert accuracy.n + accuracy.excluded == n
    assert 0.005 < kappa.ci_high - kappa.ci_low < 0.03


def test_a_median_between_two_whole_numbers_is_no_reference_in_any_table():
    table = {"ann": [1, 2, 4, 1], "bob": [2, 2, 4, 2], "cy": [None, 3, 4, 5], "gpt": [1, 2, 5, 2]}
    report = measured(table, scale=(1, 5))
    assert report.compared["item"].tolist() == ["i1", "i2", "i3"]
    assert report.disagreements["item"].tolist() == ["i2"]
    assert len(report.compared) == report.estimates["agreement/accuracy"].n
    # Of the others of cy only those on i1 and i2 agree on a level; those of i3 lie between two.
    assert report.people.set_index("person")["n_compared"].to_dict() == {"ann": 2, "bob": 3, "cy": 2}


@pytest.mark.parametrize("labels", [(0, 1), ("0", "1"), (0.0, 1.0)])
def test_a_scale_of_the_two_labels_that_there_are_is_no_range_of_numbers(labels):
    low, high = labels
    table = {"ann": [low, high, low], "bob": [high, high, low], "gpt": [low, high, high]}
    report = measured(table, scale=[0, 1])
    assert (report.kind, report.levels) == ("ordinal", ("0", "1"))
    assert report.counts["median between two levels"] == 1
    assert measured({"ann": [0, 0.5], "bob": [1, 0.5], "gpt": [1, 0]}, scale=[0, 1]).kind == "numeric"


@pytest.mark.parametrize(
    "give", [np.arange(1, 6), pd.Series(range(1, 6)), [1, 2, 3, 4, 5]], ids=lambda each: str(type(each))
)
def test_a_scale_is_a_list_an_array_or_a_series(give):
    assert measured({"ann": [1, 2, 4], "gpt": [1, 3, 5]}, scale=give).levels == ("1", "2", "3", "4", "5")


def test_ends_of_a_range_may_be_numbers_of_an_array():
    assert measured({"ann": [1, 2, 4], "gpt": [1, 3, 5]}, scale=(np.int64(1), np.int64(5))).kind == "numeric"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"scale": 5}, "`scale`"),
        ({"scale": "high"}, "`scale`"),
        ({"scale": {1, 2}}, "`scale`"),
        ({"epsilon": "x"}, "`epsilon`"),
    ],
)
def test_settings_of_another_type_get_one_line(settings, said):
    with pytest.raises(RecipeError, match=said) as found:
        measured({"ann": [1, 2], "gpt": [1, 2]}, **settings)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("words", [("no", "yes"), (0, 1), ("fail", "pass"), ("NO", "Yes"), ("0", "1")])
def test_booleans_of_people_and_words_of_a_judge_are_the_same_labels(words):
    people = [True, False, True, True, False]
    table = {"ann": people, "bob": people, "gpt": [words[label] for label in (True, False, True, False, False)]}
    report = measured(table)
    assert report.levels == ("false", "true")
    assert report.estimates["agreement/accuracy"].value == pytest.approx(0.8)
    assert report.estimates["agreement/sensitivity"].value == pytest.approx(2 / 3)
    assert measured(table, positive=words[0]).positive == "false"


def test_a_judge_and_people_without_a_label_in_common_are_refused():
    with pytest.raises(RecipeError, match=r"The judge says A, B, the people say bad, good: no label in common"):
        measured({"ann": ["good", "bad"], "gpt": ["A", "B"]})
    assert measured({"ann": ["good", "good"], "gpt": ["bad", "bad"]}).estimates["agreement/accuracy"].value == 0


def test_one_item_is_named_in_the_singular():
    report = measured({"ann": ["a"], "bob": ["b"], "gpt": ["a"]})
    assert "Left out of 1 item: 1 with no majority." in report.notes
    reasons = [one.reason for one in report.estimates.values() if isinstance(one, NotEstimable)]
    assert not any("item(s)" in reason for reason in reasons)


def in_clusters(seed, *, clusters, size, icc, right=0.85):
    """Three people and a judge; the items of a cluster are copies of one with the chance that gives the ICC."""
    rng = np.random.default_rng(seed)
    names = ("ann", "bob", "cy", "gpt")
    parents, own = (rng.random((n, 5)) for n in (clusters, clusters * size))
    copied = rng.random(clusters * size) < math.sqrt(icc)
    draws = np.where(copied[:, None], np.repeat(parents, size, axis=0), own)
    truth = draws[:, 0] < 0.6
    labels = {name: np.where(draws[:, j + 1] < right, truth, ~truth) for j, name in enumerate(names)}
    table = {name: ["yes" if label else "no" for label in labels[name]] for name in names}
    return long(table, talk=np.repeat(np.arange(clusters), size).tolist())


def read_clusters(frame):
    return measure_agreement(read_ratings(frame, judge="gpt", cluster="talk"))


def test_clusters_widen_intervals_where_items_of_one_are_alike():
    frame = in_clusters(3, clusters=20, size=10, icc=0.9)
    plain, clustered = measure_agreement(read_ratings(frame, judge="gpt")), read_clusters(frame)
    assert (plain.n_clusters, clustered.n_clusters) == (None, 20)
    for axis in ("accuracy", "kappa", "ac1", "sensitivity", "human_ceiling", "judge_on_ceiling", "human_alpha"):
        one, other = (report.estimates[f"agreement/{axis}"] for report in (plain, clustered))
        assert other.value == one.value
        assert other.n_clusters <= 20 < one.n_clusters
        assert other.ci_high - other.ci_low > 1.5 * (one.ci_high - one.ci_low)
        assert (other.ci_low, other.ci_high) == (other.cluster_low, other.cluster_high)
    assert (clustered.people["p"] > plain.people["p"]).all()


def test_below_ten_clusters_there_is_no_interval_and_no_test():
    report = read_clusters(in_clusters(0, clusters=9, size=20, icc=0.3))
    for axis, reading in report.estimates.items():
        assert isinstance(reading, NotEstimable), axis
    assert "9 clusters" in report.estimates["agreement/accuracy"].reason
    assert report.people["rejected"].isna().all()


def test_clusters_of_one_item_change_nothing():
    frame = long(noisy(1)).assign(talk=lambda rows: rows["item"])
    assert read_clusters(frame).estimates == measure_agreement(read_ratings(frame, judge="gpt")).estimates


def test_an_item_in_two_clusters_is_refused():
    frame = in_clusters(0, clusters=12, size=2, icc=0).assign(talk=lambda rows: rows.index % 5)
    with pytest.raises(RecipeError, match="two groups"):
        read_clusters(frame)


def crowd(seed, *, people, n=100, spread=0.0):
    """People of different accuracy, and a judge, on passes and fails."""
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.6
    right = {f"p{j}": 0.85 + spread * (-1) ** j for j in range(people)} | {"gpt": 0.85}
    return {name: np.where(rng.random(n) < share, truth, ~truth).astype(int).tolist() for name, share in right.items()}


def test_a_judge_that_always_says_the_same_replaces_nobody():
    rng = np.random.default_rng(7)
    truth = rng.random(300) < 0.9
    people = {name: np.where(rng.random(300) < 0.92, truth, ~truth).tolist() for name in ("ann", "bob", "cy")}
    report = measured({**people, "gpt": [True] * 300})
    assert report.estimates["alt_test/winning_rate"].value == 1
    assert report.no_better in report.notes
    assert "-0." in report.no_better or "0.00" in report.no_better
    assert measured({**people, "gpt": truth.tolist()}).no_better is None


def test_of_more_than_two_labels_kappa_tells_whether_a_judge_guesses():
    table = noisy(2, k=3, n=60)
    rng = np.random.default_rng(0)
    assert measured(table).no_better is None
    assert "kappa" in measured({**table, "gpt": rng.integers(3, size=60).tolist()}).no_better


def test_five_people_are_a_sample_and_widen_the_intervals():
    apart, alike = (measured(crowd(4, people=6, spread=spread)) for spread in (0.13, 0.0))
    few = measured(crowd(4, people=4, spread=0.13))
    for axis in ("agreement/human_ceiling", "agreement/human_alpha", "agreement/accuracy"):
        assert "people as a second level" in apart.estimates[axis].method
        assert "people as a second level" not in few.estimates[axis].method
    wide, narrow = (
        report.estimates["agreement/human_ceiling"].ci_high - report.estimates["agreement/human_ceiling"].ci_low
        for report in (apart, alike)
    )
    assert wide > 1.3 * narrow
    assert any("like these 6" in note for note in apart.notes)
    assert any("these 4 people only" in note for note in few.notes)
