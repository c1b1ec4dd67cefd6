"""Every key that a sheet can hold has one name for people, a meaning that says what is good, and headlines a guide."""

import re
from collections import Counter

import pytest

from jrh_mlflow.measures import axes, datasheet
from jrh_mlflow.measures.axes import AXES, EXPECTED, declared, headline_axes
from jrh_mlflow.measures.verdict import LIMITS, limit_of
from jrh_mlflow.perturb import AGENT_TESTS
from jrh_mlflow.perturb.registry import TESTS, expectation_of
from jrh_mlflow.schema.items import LABEL_SOURCES, PAIR_CONDITIONS, SINGLE_CONDITIONS
from jrh_mlflow.show.glossary import TERMS, terms_among
from jrh_mlflow.show.names import _RUN, _STATISTICS, axis_guide, axis_meaning, axis_name, condition_name, reason_text
from jrh_mlflow.tracking.runs import keys

STEPS = (0.5, 1, 2, 3, 4, 5)
GOOD = re.compile(r"\b(right|best|better|good|perfect|less|chance)\b")


def axis_keys(*, single):
    """Every key of a datasheet of pairs, or of single responses, expected values included."""
    found = []
    for axis in AXES:
        if axis.name.startswith("confidence/") or bool(axis.counting or axis.gap) == single:
            found += [f"{axis.name}/{axis.step}_{step:g}" for step in STEPS] if axis.by_step else [axis.name]
            found += [f"{EXPECTED}{axis.main_key}"] if axis.expected else []
    return found


def report_keys():
    """Every key of a reliability report that has all tests, with all that is counted."""
    counted = [*_STATISTICS, *(f"agreement_{source}" for source in LABEL_SOURCES), "f1_score", "max_error"]
    tests = ["baseline", "all", *TESTS, *AGENT_TESTS, "error_injection_2", "a_test_of_mine"]
    return [*TESTS, *(f"{test}/{statistic}" for test in tests for statistic in counted)]


SHEETS = {
    "pairs": axis_keys(single=False),
    "single responses": axis_keys(single=True),
    "reliability": report_keys(),
    "agreement with people": [key for key in _RUN if key.startswith(("agreement/", "alt_test/"))],
    "facts of a run": [key for key in _RUN if key.startswith(("calls/", "tokens/", "cost/", "time/", "reliability/"))],
}


@pytest.mark.parametrize("sheet", SHEETS)
def test_every_key_of_a_sheet_has_a_name_of_its_own_for_people(sheet):
    names = Counter(axis_name(key) for key in SHEETS[sheet])
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if re.search(r"[_/]|^\s*$", name)] == []


@pytest.mark.parametrize("sheet", SHEETS)
def test_every_key_of_a_sheet_says_what_it_counts_and_what_is_good(sheet):
    silent = [key for key in SHEETS[sheet] if not GOOD.search(axis_meaning(key))]
    assert silent == []


def test_every_headline_axis_says_which_values_are_good_and_bad_and_what_to_do():
    guides = {key: axis_guide(key) for key in headline_axes()}
    assert [key for key, guide in guides.items() if guide is None] == []
    assert [key for key, guide in guides.items() if not (guide.good and guide.bad and guide.advice.endswith("."))] == []


def test_guides_use_the_limits_of_the_words_of_a_profile():
    rules = datasheet.__doc__
    assert rules is not None
    for key, limit, word in (
        ("dark_current", axes.LEAKS, "vacuum-clean"),
        ("raw_false_preference", axes.PREFERS, "equivalence-respecting"),
        ("pointwise/separation/delta_5", axes.SEPARATES, "separates the levels"),
        ("pointwise/repeat_agreement", axes.AGREES, "repeats agree"),
        ("target_sensitivity/delta_1", axes.TARGET, "resolves one step"),
    ):
        guide = axis_guide(key)
        assert f"{limit:.2f}" in guide.good
        assert word in guide.good
    assert f"{axes.MISSES:.2f}" in axis_guide("miss_by_tie/delta_1").bad


def test_the_guide_of_a_reading_with_a_limit_names_the_limit():
    for key in (*LIMITS, "noise_excess/typos", "drop/typos"):
        limit, guide = limit_of(key), axis_guide("pointwise/separation/delta_5" if key.endswith("separation") else key)
        if key == "pointwise/reading_gap":
            guide = axis_guide("pointwise/reading_gap/delta_3")
        assert limit is not None
        assert guide is not None, key
        assert f"{limit.at:.2f}" in f"{guide.good} {guide.bad}", key


def test_an_effect_of_a_test_says_what_the_test_changes():
    for effect in ("noise_excess", "drop"):
        assert TESTS["typos"].title[1:] in axis_meaning(f"{effect}/typos")
        assert axis_name(f"{effect}/typos").startswith("typos: ")
        assert GOOD.search(axis_meaning(f"{effect}/typos"))


def test_what_a_test_says_of_itself_is_its_meaning():
    meaning = axis_meaning("label_flip/accuracy")
    assert TESTS["label_flip"].title[1:] in meaning
    assert expectation_of("label_flip").text in meaning


def test_the_facts_that_a_run_logs_are_named():
    spelled = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)]
    facts = [key for key in spelled if key.startswith(("calls/", "tokens/", "cost/", "time/"))]
    assert [key for key in facts if key != keys.CALLS_FILE and key not in _RUN] == []


def test_every_condition_of_a_datasheet_has_a_name_of_its_own_and_a_test_its_own_as_condition():
    names = {condition: condition_name(condition) for condition in (*PAIR_CONDITIONS, *SINGLE_CONDITIONS)}
    assert len(set(names.values())) == len(names)
    assert not [name for condition, name in names.items() if "_" in name or name == condition]
    assert [condition_name(name) for name in TESTS] == [axis_name(name) for name in TESTS]


def test_steps_and_expected_values_are_told_by_name():
    assert axis_name("target_sensitivity/delta_0.5") == "chooses the better (δ = 0.5)"
    assert axis_name("pointwise/mean_answer/level_3") == "mean answer (level 3)"
    assert axis_name("expected/dark_current") == "dark current (expected)"
    assert axis_name("excluded/dark_current") == "left out of dark current"
    assert axis_name("criterion_shift/strict/tie_rate/delta_0_same") == "shift to strict: tie rate (equal quality)"
    assert declared("target_sensitivity/delta_1").label == "chooses the better"


def test_terms_are_found_as_whole_words():
    assert "n" not in terms_among(["nothing"])
    assert list(terms_among(["Matched ladder: withheld"])) == ["matched ladder", "withheld"]
    assert all(sentence.endswith(".") for sentence in TERMS.values())


KEYS = [*AGENT_TESTS, *TESTS, *PAIR_CONDITIONS, *SINGLE_CONDITIONS, *SHEETS["pairs"], *SHEETS["single responses"]]


def test_a_reason_names_every_key_in_it_as_people_do_and_leaves_other_words_alone():
    for key in (key for key in dict.fromkeys(KEYS) if not key.startswith(EXPECTED)):
        told = reason_text(f"3 of 20 calls of {key} gave no usable answer to my_judge/v1 (delta_0.5)")
        assert re.sub(r"my_judge/v1", "", told).count("_") == 0, told
        assert told.endswith("gave no usable answer to my_judge/v1 (δ = 0.5)"), told
