"""The registry lists every test, and every test keeps the contract."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb import AGENT_TESTS, CodeTest, NotApplicable, Target
from jrh_mlflow.perturb.additions import Padding
from jrh_mlflow.perturb.registry import (
    TESTS,
    expectation_of,
    find_test,
    find_tests,
    name_of_test,
    register,
    score_name,
    written_by,
)
from jrh_mlflow.perturb.stochastic_stability import StochasticStability
from jrh_mlflow.schema.items import BASELINE, PAIR_CONDITIONS, Seed
from jrh_mlflow.scoring.expectations import LABEL
from tests.perturb.code_tools import BINARY, ESSAY, ODD, RUBRIC, SCALE, complaints

PAPER = [
    "label_flip",
    "format_invariance_1",
    "format_invariance_2",
    "format_invariance_3",
    "semantic_paraphrase",
    "verbosity_bias_long",
    "verbosity_bias_short",
    "stochastic_stability",
    "synthetic_ordinal",
]
EXTRAS = ["typos", "markdown", "prompt_injection", "authority", "padding", "error_injection", "rubric_paraphrase"]


class Shouting(CodeTest):
    """A user's own test."""

    name = "shouting"
    title = "capitals; same answer expected"

    def write(self, target: Target, rng: random.Random) -> str:
        return target.original.upper()


def named(name: str) -> Shouting:
    test = Shouting()
    test.name = name
    return test


def seeds(labels, texts=(ESSAY, *ODD)) -> list[Seed]:
    return [
        Seed(id=f"s{place}", instruction="Explain.", response=text, label=labels.answers[place % len(labels.answers)])
        for place, text in enumerate(texts)
    ]


def refused(names: object, labels=SCALE) -> str:
    with pytest.raises(RecipeError) as caught:
        find_tests(names, labels)
    return str(caught.value)


def test_the_tests_of_the_paper_come_first_and_then_ours():
    assert list(TESTS) == PAPER + EXTRAS


@pytest.mark.parametrize("key", PAPER + EXTRAS)
def test_a_test_goes_by_its_key_and_has_a_title_of_one_line(key):
    test = TESTS[key]
    assert test.name == key
    assert test.title.strip()
    assert "\n" not in test.title


@pytest.mark.parametrize("labels", [BINARY, SCALE], ids=["binary", "ordinal"])
def test_items_of_all_tests_and_seeds_have_ids_of_their_own_and_conditions_that_no_pair_has(labels):
    items = [item for test in find_tests("all", labels) for item in test.targets(seeds(labels), labels, RUBRIC)]
    assert {item.test for item in items} == {test.name for test in find_tests("all", labels)}
    assert max(Counter(item.id for item in items).values()) == 1
    assert not {item.condition for item in items} & {*PAIR_CONDITIONS, BASELINE}
    assert all(item.condition.startswith(item.test) for item in items)
    assert all(item.expected is None or item.expected in labels.answers for item in items)
    assert not {f"{seed.id}/{BASELINE}" for seed in seeds(labels)} & {item.id for item in items}


@pytest.mark.parametrize("key", [name for name, test in TESTS.items() if isinstance(test, CodeTest)])
def test_equal_generators_write_equal_texts(key):
    def once(item: Target) -> str:
        try:
            return TESTS[key].write(item, random.Random(7))
        except NotApplicable as reason:
            return f"not applicable: {reason}"

    items = TESTS[key].targets(seeds(SCALE), SCALE, RUBRIC)
    assert items
    assert [once(item) for item in items] == [once(item) for item in items]


@pytest.mark.parametrize("key", [name for name, test in TESTS.items() if isinstance(test, CodeTest)])
@pytest.mark.parametrize("labels", [BINARY, SCALE], ids=["binary", "ordinal"])
def test_what_is_written_by_code_passes_its_own_checks(key, labels):
    n_written = 0
    for item in TESTS[key].targets(seeds(labels), labels, RUBRIC):
        try:
            text = TESTS[key].write(item, random.Random(item.id.encode()))
        except NotApplicable as reason:
            assert str(reason)  # noqa: PT017 - the reason is what the item is set aside with
            continue
        assert complaints(TESTS[key], item, text) == []
        n_written += 1
    assert n_written


def test_all_means_what_fits_the_labels():
    assert [test.name for test in find_tests("all", SCALE)] == PAPER + EXTRAS
    assert {test.name for test in find_tests("all", BINARY)} == set(PAPER + EXTRAS) - {"synthetic_ordinal"}


def test_paper_means_the_free_response_list():
    assert [test.name for test in find_tests("paper", SCALE)] == PAPER
    assert [test.name for test in find_tests("paper", BINARY)] == PAPER[:-1]


def test_names_tests_and_groups_can_be_mixed_and_keep_their_order():
    assert [test.name for test in find_tests("typos", BINARY)] == ["typos"]
    own = Shouting()
    found = find_tests([own, "markdown", "paper"], BINARY)
    assert found[0] is own
    assert [test.name for test in found[1:]] == ["markdown", *PAPER[:-1]]


def test_another_instance_may_stand_in_for_a_listed_test():
    deeper = StochasticStability(replicates=7)
    assert find_tests([deeper, Padding()], BINARY)[0] is deeper


def test_an_unknown_name_is_an_error_with_a_suggestion():
    with pytest.raises(RecipeError, match=r"'label_flop'. Did you mean 'label_flip'\? `jrh suite tests` lists them"):
        find_test("label_flop")
    assert "Did you mean 'paper'?" in refused("papers")


def test_a_test_named_twice_is_refused():
    assert "'typos' is named twice" in refused(["typos", "markdown", "typos"])
    assert "'label_flip' is named twice" in refused(["paper", "label_flip"])


def test_no_test_at_all_is_refused():
    assert "No test was named" in refused([])


def test_synthetic_ordinal_needs_a_scale():
    assert "'synthetic_ordinal' needs ordinal labels" in refused("synthetic_ordinal", BINARY)


@pytest.mark.parametrize("name", [*PAIR_CONDITIONS, BASELINE, "all", "paper"])
def test_a_name_that_call_records_use_is_refused(name):
    assert repr(name) in refused([named(name)])
    with pytest.raises(RecipeError, match=name):
        register(named(name))
    assert type(TESTS.get(name)) is not Shouting


def test_a_registered_test_is_found_like_any_other(monkeypatch):
    monkeypatch.setattr("jrh_mlflow.perturb.registry.TESTS", known := dict(TESTS))
    own = Shouting()
    register(own)
    assert find_test("shouting") is own
    assert find_tests("all", BINARY)[-1] is own
    assert "shouting" in known
    with pytest.raises(RecipeError, match="exists already"):
        register(Shouting())


@pytest.mark.parametrize("key", PAPER + EXTRAS)
def test_the_test_behind_every_condition_it_writes_is_found_again(key):
    items = TESTS[key].targets(seeds(SCALE), SCALE, RUBRIC)
    assert {written_by(item.condition) for item in items} == {TESTS[key]}
    assert {name_of_test(item.condition) for item in items} == {key}


def test_doses_make_one_score_and_designs_each_their_own():
    assert score_name("error_injection_2") == "error_injection"
    assert score_name("stochastic_stability_deep") == "stochastic_stability_deep"
    assert score_name("baseline") == "baseline"


def test_the_baseline_and_unknown_conditions_expect_the_answer_that_items_carry():
    assert written_by(BASELINE) is None
    assert expectation_of(BASELINE) is expectation_of("a_test_of_last_year") is LABEL


def test_a_test_given_as_an_object_is_found_by_its_condition():
    find_tests(given := named("only_given"), BINARY)
    assert written_by("only_given") is given


@pytest.mark.parametrize("test", [*TESTS.values(), *AGENT_TESTS.values()], ids=lambda test: test.name)
def test_a_test_declares_its_group_and_a_line_for_every_parameter(test):
    assert test.group == ("agent" if test.name in AGENT_TESTS else "paper" if test.name in PAPER else "extra")
    assert ("generator" in test.needs) == (not isinstance(test, CodeTest))
    assert all(parameter.help for parameter in test.parameters)
    assert test.expects.text
