"""`jrh.correct` on tables, lists, files and pairs: what is read, what is taken out, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people.labels import LabelOptions
from jrh_mlflow.people.verdicts import pair_values, read_judged
from tests.people.arrays import correct_rate


def drawn(n: int, *, rate: float = 0.8, se: float = 0.95, sp: float = 0.9, seed: int = 0) -> pd.DataFrame:
    """Items with a person's label and the verdict of a judge of known sensitivity and specificity."""
    chance = np.random.default_rng(seed)
    human = chance.random(n) < rate
    judge = chance.random(n) < np.where(human, se, 1 - sp)
    return pd.DataFrame({"item": [f"item {place}" for place in range(n)], "judge": judge, "human": human})


ALL = drawn(600, seed=1)
LABELLED = ALL[:200]
REST = ALL[200:]
PLAIN = LABELLED[["judge", "human"]]


def number(corrected: jrh.Corrected) -> tuple[float, float | None, float | None]:
    assert isinstance(corrected.estimate, jrh.Estimate)
    return corrected.estimate.value, corrected.estimate.ci_low, corrected.estimate.ci_high


def refusal(*args: object, **kwargs: object) -> str:
    with pytest.raises(RecipeError) as found:
        jrh.correct(*args, **kwargs)
    assert "\n" not in str(found.value)
    return str(found.value)


WORDS = {True: "yes", False: "no"}
SAME_VERDICTS = {
    "list": lambda rest: rest["judge"].tolist(),
    "array": lambda rest: rest["judge"].to_numpy(),
    "series": lambda rest: rest["judge"],
    "nullable": lambda rest: rest["judge"].astype("boolean"),
    "numbers": lambda rest: rest["judge"].astype(float).tolist(),
    "index": lambda rest: pd.Index(rest["judge"]),
    "ids in the index": lambda rest: rest.set_index("item")[["judge"]],
    "words": lambda rest: rest["judge"].map(WORDS),
    "PASS": lambda rest: rest["judge"].map({True: "PASS", False: "Fail"}).tolist(),
    "table": lambda rest: rest[["judge"]],
    "only boolean column": lambda rest: pd.DataFrame({"text": "a", "polite": rest["judge"]}),
    "rows": lambda rest: rest[["judge"]].to_dict("records"),
    "other name": lambda rest: rest.rename(columns={"item": "id"})[["id", "judge"]],
}


@pytest.mark.parametrize("form", SAME_VERDICTS)
def test_verdicts_are_the_same_in_whatever_form_they_are_given(form):
    expected = correct_rate(REST["judge"], LABELLED["judge"], LABELLED["human"], sampling="random")
    found = jrh.correct(SAME_VERDICTS[form](REST), PLAIN, sampling="random")
    assert found.estimate == expected.estimate
    assert found.naive.value == pytest.approx(REST["judge"].mean())
    assert found.people_only == expected.people_only
    assert (found.method, found.sampling, found.n_labelled, found.n_unlabelled) == ("PPI++", "random", 200, 400)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_give_what_their_tables_give(ending, tmp_path):
    paths = [tmp_path / f"{name}.{ending}" for name in ("verdicts", "labelled")]
    for path, frame in zip(paths, (REST[["item", "judge"]], LABELLED), strict=True):
        if ending == "csv":
            frame.to_csv(path, index=False)
        elif ending == "jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_parquet(path)
    assert number(jrh.correct(str(paths[0]), paths[1])) == number(jrh.correct(REST, PLAIN))


def test_every_sampling_is_that_of_the_measure():
    for sampling in ("random", "stratified", "by_verdict"):
        expected = correct_rate(REST["judge"], LABELLED["judge"], LABELLED["human"], sampling=sampling, level=0.9)
        found = jrh.correct(REST[["judge"]], PLAIN, sampling=sampling, level=0.9)
        assert (found.estimate, found.method, found.level) == (expected.estimate, expected.method, 0.9)


def test_weights_are_a_column_or_one_number_for_each_row():
    weights = np.where(LABELLED["judge"], 1.0, 1.2)
    expected = correct_rate(REST["judge"], LABELLED["judge"], LABELLED["human"], sampling="random", weights=weights)
    by_column = jrh.correct(REST[["judge"]], PLAIN.assign(w=weights), weights="w")
    assert by_column.estimate == expected.estimate
    assert by_column.method == "weighted PPI++"
    assert jrh.correct(REST[["judge"]], PLAIN, weights=weights).estimate == expected.estimate
    # A row without both labels takes its weight along.
    more = pd.concat(
        [PLAIN.assign(w=weights).astype(object), pd.DataFrame({"judge": [None], "human": [True], "w": [9]})]
    )
    assert number(jrh.correct(REST[["judge"]], more, weights="w")) == number(by_column)
    assert "has no column 'w'" in refusal(REST[["judge"]], PLAIN, weights="w")
    assert "3 weights for 200 rows" in refusal(REST[["judge"]], PLAIN, weights=[1, 2, 3])


def test_what_is_missing_is_left_out_and_counted_and_never_a_fail():
    rest = [*REST["judge"].tolist(), None, float("nan"), pd.NA]
    gaps = pd.DataFrame({"judge": [None, True, "unknown"], "human": [True, None, False]})
    found = jrh.correct(rest, pd.concat([PLAIN.astype(object), gaps]))
    plain = jrh.correct(REST["judge"], PLAIN)
    assert number(found) == number(plain)
    assert found.lost == {
        "verdicts missing": 3,
        "calibration items without a verdict": 2,
        "calibration items without a person's label": 1,
    }
    assert found.estimate.excluded == 6
    naive = found.naive
    assert (naive.value, naive.n, naive.excluded) == (plain.naive.value, 400, 3)
    passed = REST["judge"].sum()
    assert (naive.bound_low, naive.bound_high) == (pytest.approx(passed / 403), pytest.approx((passed + 3) / 403))
    assert "have no verdict" not in found.note


def test_calibration_items_among_the_verdicts_are_taken_out_and_said():
    found = jrh.correct(ALL[["item", "judge"]], LABELLED, sampling="random")
    assert number(found) == number(jrh.correct(REST["judge"], PLAIN, sampling="random"))
    assert (found.n_labelled, found.n_unlabelled) == (200, 400)
    assert "200 of the 600 verdicts are on calibration items" in found.note
    # What MLflow takes the mean of is all of them.
    assert (found.naive.value, found.naive.n) == (pytest.approx(ALL["judge"].mean()), 600)


def test_labels_drawn_unevenly_from_the_verdicts_do_not_bend_the_rate_of_the_rest():
    """Taken out of the population, what is left of it is unlike the whole: the whole is what counts."""
    population = drawn(4000, rate=0.7, se=0.9, sp=0.8)
    fails = population[~population["human"]][:600]
    passes = population[population["human"]][:600]
    found = jrh.correct(population[["item", "judge"]], pd.concat([fails, passes]), sampling="stratified")
    assert number(found)[0] == pytest.approx(population["human"].mean(), abs=0.02)


def test_people_s_labels_alone_are_joined_with_the_verdicts_by_item():
    joined = jrh.correct(ALL[["item", "judge"]], LABELLED[["item", "human"]])
    assert number(joined) == number(jrh.correct(ALL[["item", "judge"]], LABELLED))


def test_a_column_of_labels_with_gaps_is_its_own_calibration():
    table = ALL.astype(object)
    table.loc[200:, "human"] = None
    for frame in (table, table.drop(columns="item")):
        found = jrh.correct(frame)
        assert number(found) == number(jrh.correct(ALL[["item", "judge"]], LABELLED))
    assert "no item of the verdicts has a person's label" in refusal(REST[["judge"]])


def test_items_that_are_in_the_population_in_part_are_refused():
    mixed = pd.concat([LABELLED, LABELLED[:3].assign(item=["x", "y", "z"])])
    assert "3 of 203 calibration items are not in the population (x, y, z)" in refusal(ALL, mixed)
    # None of them is: then they come from elsewhere.
    assert number(jrh.correct(REST, LABELLED)) == number(jrh.correct(REST["judge"], PLAIN))


def test_another_verdict_on_the_same_item_is_refused():
    turned = LABELLED.assign(judge=[not LABELLED["judge"].iloc[0], *LABELLED["judge"].iloc[1:]])
    assert "differs between verdicts and calibration on 1 items (item 0)" in refusal(ALL, turned)


def test_ids_name_each_item_once():
    twice = pd.concat([REST, REST[:1]])
    assert "'item' must name each item once" in refusal(twice, LABELLED)
    assert "'item' must name each item once" in refusal(REST, pd.concat([LABELLED, LABELLED[:2]]))


def test_another_judge_than_the_calibrated_one_is_refused():
    ours, theirs = REST[["judge"]].copy(), PLAIN.copy()
    ours["configuration"], theirs["configuration"] = "gpt-4o v2", "gpt-4o v1"
    assert "another judge than the calibrated one: its configuration is 'gpt-4o v2', not 'gpt-4o v1'" in refusal(
        ours, theirs
    )
    theirs["configuration"] = "gpt-4o v2"
    assert jrh.correct(ours, theirs).judge == {"configuration": "gpt-4o v2"}
    # Compared where both sides say it.
    assert number(jrh.correct(ours, PLAIN)) == number(jrh.correct(REST["judge"], PLAIN))
    theirs.loc[5, "configuration"] = "another"
    assert "2 judge configurations" in refusal(ours, theirs)


def test_facts_of_a_judge_can_stand_in_the_attributes_of_a_table():
    ours, theirs = REST[["judge"]].copy(), PLAIN.copy()
    ours.attrs["judge"], theirs.attrs["judge"] = {"model": "a", "temperature": 0}, {"model": "b"}
    assert "its model is 'a', not 'b'" in refusal(ours, theirs)
    theirs.attrs["judge"] = {"model": "a", "prompt_sha256": "1"}
    assert jrh.correct(ours, theirs).judge == {"model": "a", "temperature": "0"}


def test_a_long_fact_such_as_a_rubric_is_told_by_its_hash():
    ours = REST[["judge"]].copy()
    ours.attrs["judge"] = {"rubric": "Be nice. " * 100}
    found = jrh.correct(ours, PLAIN)
    assert found.judge["rubric"].startswith("sha256:")
    assert "Be nice" not in found.to_markdown()


def test_another_scale_than_the_calibrated_one_is_refused():
    scores = pd.DataFrame({"judge": np.where(LABELLED["judge"], 5, 2), "human": LABELLED["human"]})
    assert "the calibration has scores (2, 5)" in refusal(REST["judge"], scores)
    told = refusal(REST["judge"], scores, positive=(4, 5))
    assert "calibrated on another scale: the verdicts are booleans (false, true), the calibration has scores" in told
    both = jrh.correct(np.where(REST["judge"], 5, 2), scores, positive=(4, 5))
    assert number(both) == number(jrh.correct(REST["judge"], PLAIN))
    words = np.where(REST["judge"], "great", "poor")
    labels = PLAIN.assign(judge=np.where(LABELLED["judge"], "good", "bad"))
    assert "calibrated on another scale" in refusal(words, labels, positive=("great", "good"))


def test_labels_are_told_by_what_is_positive():
    words = PLAIN.replace({"judge": {True: "good", False: "bad"}}).replace({"human": {True: "good", False: "bad"}})
    rest = REST["judge"].map({True: "Good", False: "bad"})
    assert number(jrh.correct(rest, words, positive="good")) == number(jrh.correct(REST["judge"], PLAIN))
    assert "holds bad, good: no booleans. Say which label is a pass: positive=" in refusal(rest, words)
    # The rate of fails is the rest of that of passes.
    fails = jrh.correct(rest, words, positive="bad")
    assert fails.naive.value == pytest.approx(1 - REST["judge"].mean())
    turned = jrh.correct(REST["judge"], PLAIN, positive=False)
    assert number(turned) == number(fails)
    # With scores among the passes, 1 is a score like any other, also where nothing else was said.
    assert read_judged([1, 1, 1], LabelOptions(part="verdicts"), positive=(4, 5)).judge.tolist() == [0, 0, 0]


def test_a_label_that_nobody_gave_is_no_pass():
    rest = REST["judge"].map({True: "good", False: "bad"})
    words = PLAIN.assign(judge=np.where(LABELLED["judge"], "good", "bad"))
    assert "Nobody said 'goood'. Did you mean 'good'?" in refusal(rest, words, positive="goood")


def test_a_useless_judge_corrects_nothing_and_that_is_said():
    chance = np.random.default_rng(1)
    useless = pd.DataFrame({"judge": chance.random(200) < 0.6, "human": chance.random(200) < 0.8})
    rest = chance.random(800) < 0.6
    assert isinstance(jrh.correct(rest, useless).estimate, jrh.NotEstimable)
    found = jrh.correct(rest, useless, sampling="random")
    assert found.method == "people only"
    assert found.estimate.value == found.people_only.value
    assert "no better than chance" in found.note
    refused = jrh.correct(rest, useless, sampling="stratified")
    assert isinstance(refused.estimate, jrh.NotEstimable)
    assert isinstance(refused.people_only, jrh.NotEstimable)
    assert isinstance(refused.naive, jrh.Estimate)
    assert "n/a" in refused.to_markdown()
    assert refused.metrics.keys() == {f"judge/naive/{name}" for name in ("value", "ci_low", "ci_high", "n")} | {
        f"judge/{axis}/{name}"
        for axis in ("sensitivity", "specificity")
        for name in ("value", "ci_low", "ci_high", "n")
    }


REFUSED = {
    "no table": (5, PLAIN, "cannot be a int"),
    "no rows": ([], PLAIN, "gave no verdict"),
    "only gaps": ([None, None], PLAIN, "gave no verdict"),
    "no human": (REST[["judge"]], LABELLED[["judge"]], "no column 'human'"),
    "no judge": (REST[["item"]], PLAIN, "no column 'judge'"),
    "plain calibration": (REST["judge"], LABELLED["judge"], "two labels of each item"),
    "two booleans": (REST.rename(columns={"judge": "a"}).assign(b=True), PLAIN, "several hold booleans: a, b"),
    "no file": ("nothing.csv", PLAIN, "no file nothing.csv"),
    "labels of nobody": (REST["judge"], PLAIN.assign(human=None), "No calibration item has both labels"),
    "not in the population": (REST, LABELLED[["item", "human"]], "No calibration item has both labels"),
    "one version": ({"a": [True]}, PLAIN, "of two versions or more, but got 1"),
    "pairs and single": (pd.DataFrame({"uv": ["1"], "vu": ["2"]}), PLAIN, "on another scale: the verdicts are pairs"),
    "a slot that is none": (pd.DataFrame({"uv": ["3"], "vu": ["2"]}), PLAIN, "'uv' must be 1, 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_gets_one_clear_line(case):
    verdicts, calibration, said = REFUSED[case]
    assert said in refusal(verdicts, calibration)


def test_unknown_settings_are_refused():
    assert "by_verdict" in refusal(REST["judge"], PLAIN, sampling="by_judge")
    assert "level" in refusal(REST["judge"], PLAIN, level=95)


def versions() -> dict[str, pd.DataFrame]:
    return {"v1": drawn(400, rate=0.6, seed=5), "v2": drawn(400, rate=0.8, seed=6)}


def test_the_difference_of_two_versions_is_the_second_minus_the_first():
    both = versions()
    own = {name: frame[:200] for name, frame in both.items()}
    found = jrh.correct({name: frame[["item", "judge"]] for name, frame in both.items()}, own)
    low, high = found.estimate.ci_low, found.estimate.ci_high
    assert low < both["v2"]["human"].mean() - both["v1"]["human"].mean() < high
    assert list(found.versions) == ["v1", "v2"]
    for name, frame in both.items():
        assert number(found.versions[name]) == number(jrh.correct(frame[["item", "judge"]], frame[:200]))
    rates = [found.versions[name].estimate.value for name in ("v1", "v2")]
    assert found.estimate.value == pytest.approx(rates[1] - rates[0])
    means = [frame["judge"].mean() for frame in both.values()]
    assert found.naive.value == pytest.approx(means[1] - means[0])
    # A column says the same as a mapping.
    tables = [pd.concat([frame.assign(version=name) for name, frame in each.items()]) for each in (both, own)]
    assert number(jrh.correct(tables[0][["item", "version", "judge"]], tables[1])) == number(found)
    assert "of the versions 'v1', 'v2', the calibration of 'v1'" in refusal(both, {"v1": own["v1"]})


def test_labels_that_two_versions_share_tell_the_judge_s_errors_on_both():
    both = versions()
    found = jrh.correct({name: frame["judge"] for name, frame in both.items()}, drawn(300, seed=9)[["judge", "human"]])
    assert found.method == "Rogan-Gladen"
    assert "Both versions share the labels" in found.note
    assert found.n_labelled == 300
    truth = both["v2"]["human"].mean() - both["v1"]["human"].mean()
    assert found.estimate.ci_low < truth < found.estimate.ci_high
    assert isinstance(found.people_only, jrh.NotEstimable)
    assert isinstance(found.versions["v2"].people_only, jrh.NotEstimable)
    shared = pd.concat([both["v1"][:50], drawn(1).assign(item="elsewhere")])
    assert "1 of 51 calibration items are not in the population" in refusal(both, shared)


def test_two_versions_have_one_judge():
    both = {name: frame[["judge"]].assign(configuration=name) for name, frame in versions().items()}
    assert "another judge than that of another version: its configuration is 'v2'" in refusal(both, PLAIN)


def test_the_value_of_a_pair_is_that_of_both_orders():
    value, positional, ties = pair_values(["u", "v", "u", "tie", "tie", ""], ["u", "v", "v", "tie", "u", "v"])
    assert value.tolist()[:5] == [1, 0, 0.5, 0.5, 0.5]
    assert positional.tolist()[:5] == [0, 0, 1, 0, 0]
    assert ties.tolist()[:5] == [0, 0, 0, 1, 1]
    assert np.isnan([value[5], positional[5], ties[5]]).all()


def pairs(n: int, *, seed: int, human: bool) -> pd.DataFrame:
    """Pairs whose u wins 6 in 10; the judge is right 8 in 10 and takes the first slot otherwise."""
    chance = np.random.default_rng(seed)
    u_wins, right = chance.random(n) < 0.6, chance.random(n) < 0.8
    uv = np.where(right, np.where(u_wins, "1", "2"), "1")
    vu = np.where(right, np.where(u_wins, "2", "1"), "1")
    frame = pd.DataFrame({"item": [f"{seed}-{place}" for place in range(n)], "uv": uv, "vu": vu})
    return frame.assign(human=np.where(u_wins, "A", "B")) if human else frame


def test_a_win_rate_is_corrected_with_the_positional_share_beside_it():
    found = jrh.correct(pairs(700, seed=1, human=False), pairs(300, seed=2, human=True))
    assert found.estimate.ci_low < 0.6 < found.estimate.ci_high
    assert found.estimate.unit == "pair"
    assert found.positional.value == pytest.approx(0.2, abs=0.04)
    assert found.ties.value == 0
    assert f"same slot in both orders on {found.positional.value:.2f}" in found.note
    assert found.title == "Win rate by judge, corrected"
    both = {name: pairs(300, seed=seed, human=False) for name, seed in (("a", 5), ("b", 6))}
    own = {name: pairs(200, seed=seed, human=True) for name, seed in (("a", 7), ("b", 8))}
    difference = jrh.correct(both, own)
    assert difference.estimate.ci_low < 0 < difference.estimate.ci_high
    assert difference.title == "Win rate by judge, corrected: b − a"
    assert "Give labels of each version: a mapping" in refusal(both, own["a"])


def test_slots_contents_and_words_say_the_same_of_a_pair():
    verdicts, labelled = pairs(200, seed=3, human=False), pairs(100, seed=4, human=True)
    expected = number(jrh.correct(verdicts, labelled))
    slots = {"1": "A", "2": "b"}
    named = [frame.replace({"uv": slots, "vu": slots}) for frame in (verdicts, labelled)]
    assert number(jrh.correct(*named)) == expected
    contents = [
        frame.assign(uv=frame["uv"].map({"1": "u", "2": "v"}), vu=frame["vu"].map({"1": "v", "2": "u"}))
        for frame in (verdicts, labelled)
    ]
    assert number(jrh.correct(*contents)) == expected
    assert number(jrh.correct(verdicts.astype({"uv": int, "vu": float}), labelled)) == expected


def test_a_lost_order_leaves_a_pair_out():
    verdicts = pairs(200, seed=3, human=False)
    verdicts.loc[:9, "vu"] = None
    found = jrh.correct(verdicts, pairs(100, seed=4, human=True))
    assert number(found) == number(jrh.correct(verdicts[10:], pairs(100, seed=4, human=True)))
    assert found.naive.excluded == 10


def test_a_result_is_shown_as_text_table_page_and_card(tmp_path):
    hostile = REST[["judge"]].assign(configuration="<script>alert(1)</script> | x")
    found = jrh.correct(hostile, PLAIN.assign(configuration="<script>alert(1)</script> | x"))
    assert repr(found).startswith("Corrected('judge': 0.")
    assert "not logged" in repr(found)
    for page in (found.to_markdown(), found._repr_html_()):
        assert "<script>" not in page.replace("`<script>alert(1)</script> | x`", "")
    linked = jrh.correct(REST[["judge"]], PLAIN, scorer="[a](javascript:b)\n# c\x1b[31m").to_markdown()
    assert "[a](javascript" not in linked
    assert linked.count("\n# ") == 0
    assert "\x1b" not in linked
    assert f"{found.estimate.value:.2f} [" in found.to_markdown()
    frame = found.to_frame()
    assert frame["axis"].tolist() == ["corrected", "naive", "people_only", "sensitivity", "specificity"]
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["estimate"]["value"] == found.estimate.value
    assert data["people_only"]["n"] == 200
    found.plot().savefig(tmp_path / "a.png")


def drawn_within(kind: str, *, seed: int, n: int = 100) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All items, and those of them that were drawn half and half within a column."""
    items = drawn(600, rate=0.7, se=0.9, sp=0.8, seed=seed)
    chosen = pd.concat([items[items[kind] == value][: n // 2] for value in (True, False)])
    return items, chosen


@pytest.mark.parametrize("sampling", ["stratified", "by_verdict"])
def test_a_difference_is_that_of_the_rates_beside_it_where_only_one_version_has_ids(sampling):
    kind = {"stratified": "human", "by_verdict": "judge"}[sampling]
    (first, ours), (second, theirs) = (drawn_within(kind, seed=seed, n=300) for seed in (1, 2))
    verdicts = {"v1": first[["item", "judge"]], "v2": second.drop(theirs.index)[["judge"]]}
    done = jrh.correct(verdicts, {"v1": ours, "v2": theirs[["judge", "human"]]}, sampling=sampling)
    a, b = (number(each)[0] for each in done.versions.values())
    assert number(done)[0] == pytest.approx(b - a, abs=1e-12)


def test_ids_that_are_numbers_in_one_table_and_texts_in_the_other_are_one():
    rows = range(600)
    wanted = jrh.correct(ALL.assign(item=rows), LABELLED.assign(item=list(rows)[:200]))
    assert wanted.n_unlabelled == 400
    for kind in (float, str):
        done = jrh.correct(ALL.assign(item=rows), LABELLED.assign(item=[kind(row) for row in rows[:200]]))
        assert (done.n_unlabelled, number(done)) == (400, number(wanted))


def test_the_page_says_that_weighted_labels_were_drawn_with_known_chances():
    done = jrh.correct(REST["judge"], PLAIN, weights=[2.0] * 200)
    assert "with known chances" in done.to_markdown()
    assert "at random" not in done.to_markdown()


def test_shared_labels_with_ids_are_told_from_the_other_verdicts():
    first, second = drawn(400, seed=1), drawn(400, seed=2)
    second = second.assign(item=[f"other {place}" for place in range(400)])
    both = {"v1": first[["item", "judge"]], "v2": second[["item", "judge"]]}
    labels = pd.concat([first[:100], second[:60]])
    done = jrh.correct(both, labels)
    assert (done.n_labelled, done.n_unlabelled) == (160, 640)
    assert [each.n_unlabelled for each in done.versions.values()] == [300, 340]
    alone = jrh.correct(both, labels[["item", "human"]])
    assert (number(alone), alone.n_unlabelled) == (number(done), 640)
    assert "verdict differs between verdicts and calibration on 160 items" in refusal(
        both, labels.assign(judge=~labels["judge"])
    )


def test_labels_of_items_that_both_versions_have_must_tell_whose_they_are():
    first, second = drawn(400, seed=1), drawn(400, seed=2)
    both = {"v1": first[["item", "judge"]], "v2": second[["item", "judge"]]}
    differ = int((first["judge"] != second["judge"])[:100].sum())
    assert f"{differ} labelled items are of several versions" in refusal(both, first[:100][["item", "human"]])
    done = jrh.correct(both, first[:100])
    assert (done.n_labelled, done.n_unlabelled) == (100, 600)


@pytest.mark.parametrize(
    ("args", "settings", "said"),
    [
        ((REST["judge"], PLAIN), {"weights": 3}, "`weights`"),
        ((REST["judge"], PLAIN), {"weights": ["a"] * 200}, "`weights`"),
        ((REST["judge"], PLAIN), {"level": "0.9"}, "`level`"),
        ((REST["judge"], PLAIN), {"level": None}, "`level`"),
        ((np.array(True), PLAIN), {}, "one value"),
        ((np.arange(1, 6), PLAIN), {}, "the verdicts are scores (1, 2, 3, 4, 5)"),
        ((REST["judge"], PLAIN.assign(version=["a", "b"] * 100)), {}, "The calibration is of 2 versions (a, b)"),
    ],
)
def test_settings_and_sources_of_another_kind_get_one_line(args, settings, said):
    assert said in refusal(*args, **settings)


def test_a_rate_with_too_many_verdicts_missing_is_withheld_and_shows_its_bounds():
    rest = REST["judge"].tolist()
    ends = [number(jrh.correct([*rest, *[said] * 100], PLAIN))[0] for said in (False, True)]
    done = jrh.correct([*rest, *[None] * 100], PLAIN)
    assert isinstance(done.estimate, jrh.NotEstimable)
    assert done.estimate.withheld
    assert (done.estimate.bounds.low, done.estimate.bounds.high) == pytest.approx(tuple(ends))
    assert not any("corrected" in key for key in done.metrics)
    assert "Withheld: 20.0% of the judge's verdicts are missing, over the limit of 5%. It lies" in done.to_markdown()
    assert done._repr_html_()
    assert done.plot() is not None
    enough = jrh.correct([*rest, *[None] * 21], PLAIN)
    assert number(enough) == number(jrh.correct(rest, PLAIN))


@pytest.mark.parametrize("shared", [True, False])
def test_a_difference_is_withheld_with_the_rate_of_a_version(shared):
    first, second = drawn(400, seed=1)["judge"].tolist(), drawn(400, seed=2)["judge"].tolist()
    labels = PLAIN if shared else {"v1": PLAIN, "v2": PLAIN}
    done = jrh.correct({"v1": first, "v2": [*second[:-40], *[None] * 40]}, labels)
    assert isinstance(done.versions["v1"].estimate, jrh.Estimate)
    assert done.versions["v2"].estimate.withheld
    assert done.estimate.withheld
    assert done.estimate.reason.startswith("v2: 10.0% of the judge's verdicts are missing")
    a, held = done.versions["v1"].estimate.value, done.versions["v2"].estimate.bounds
    assert (done.estimate.bounds.low, done.estimate.bounds.high) == pytest.approx((held.low - a, held.high - a))


def test_of_pairs_lost_calls_count_and_not_lost_pairs():
    """One order in twelve pairs of a hundred is lost: 6 % of the calls are more than the limit, 4 % are not."""
    table, labels = pairs(100, seed=1, human=False), pairs(100, seed=2, human=True)
    for n, withheld in ((12, True), (8, False)):
        lost = table.assign(uv=[None if place < n else said for place, said in enumerate(table["uv"])])
        assert getattr(jrh.correct(lost, labels).estimate, "withheld", False) == withheld


def test_chances_beside_the_labels_say_how_they_were_drawn():
    even = jrh.correct(REST[["judge"]], PLAIN.assign(inclusion=0.25))
    assert (even.sampling, even.method, even.weighted, even.pool) == ("random", "PPI++", False, "same")
    assert number(even) == number(jrh.correct(REST[["judge"]], PLAIN, sampling="random"))
    chances = np.where(LABELLED["judge"], 0.3, 0.25)
    uneven = jrh.correct(REST[["judge"]], PLAIN.assign(inclusion=chances))
    assert uneven.method == "weighted PPI++"
    assert number(uneven) == number(jrh.correct(REST[["judge"]], PLAIN, weights=1 / chances))
    assert "known for every" in refusal(REST[["judge"]], PLAIN.assign(inclusion=[None, *[0.5] * 199]))


def test_a_column_names_what_was_sampled_together():
    frame = ALL.assign(talk=[f"t{place // 10}" for place in range(600)], human=ALL["human"].astype(object))
    frame.loc[200:, "human"] = None
    found = jrh.correct(frame, sampling="random", cluster="talk")
    assert found.n_clusters == 20
    assert found.to_dict()["n_clusters"] == found.estimate.n_clusters == 20
    # With ids labelled items are of the cluster that their verdict is of.
    labels = LABELLED[["item", "human"]]
    again = jrh.correct(frame.drop(columns="human"), labels, sampling="random", cluster="talk")
    assert number(again) == number(found)
    assert number(jrh.correct(frame.rename(columns={"talk": "cluster"}), sampling="random")) == number(found)
    assert "'walk'" in refusal(frame, cluster="walk")


def test_a_corrected_rate_says_what_pool_its_labels_are_of_and_what_fewer_finds_would_make_of_it():
    found = jrh.correct(REST[["judge"]], PLAIN)
    assert (found.sampling, found.pool) == (None, "unknown")
    assert 0 < found.if_fewer_found < found.estimate.value
    assert f"{100 * found.if_fewer_found:.0f} %" in str(found.verdict)
    assert {"pool", "if_fewer_found"} <= found.to_dict().keys()
    assert jrh.correct(ALL[["item", "judge"]], LABELLED).pool == "same"
