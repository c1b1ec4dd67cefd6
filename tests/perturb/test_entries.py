"""Tests written down as text or mappings: names, parameters, and what is said where they make no sense."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb import ReliabilityTest, Rewrite, parameter
from jrh_mlflow.perturb.prompt_file import PromptTest
from jrh_mlflow.perturb.registry import TESTS, find_tests, listed_tests
from jrh_mlflow.perturb.stochastic_stability import StochasticStability
from jrh_mlflow.perturb.synthetic_ordinal import SyntheticOrdinal
from jrh_mlflow.schema.items import Labels, Seed

BINARY, SCALE = Labels(answers=("no", "yes")), Labels(answers=("1", "2", "3"), ordinal=True)
STABLE = StochasticStability(replicates=5)


def refused(given: object, **about: object) -> str:
    with pytest.raises(RecipeError) as caught:
        listed_tests(given, **about)
    return str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        "stochastic_stability:replicates=5,label_flip",
        " stochastic_stability:replicates=5 , label_flip ",
        ["stochastic_stability:replicates=5", "label_flip"],
        [{"name": "stochastic_stability", "replicates": 5}, {"name": "label_flip"}],
        [STABLE, "label_flip"],
    ],
)
def test_text_mappings_and_objects_say_the_same(given):
    found = find_tests(given, BINARY)
    assert found == [STABLE, TESTS["label_flip"]]


def test_several_parameters_follow_one_another_and_quotes_keep_commas_and_colons(tmp_path: Path):
    (tmp_path / "dry.txt").write_text("Make it dry: {original}", encoding="utf-8")
    (deep, dry, last) = listed_tests(
        'stochastic_stability:replicates=4:deep_seeds=0,@dry.txt:title="dry, as a:b=c",typos', folder=tmp_path
    )
    assert deep == StochasticStability(replicates=4, deep_seeds=0)
    assert isinstance(dry, PromptTest)
    assert dry.title == "dry, as a:b=c"
    assert last == "typos"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("stochastic_stability:replicate=5", "no parameter 'replicate'. Did you mean 'replicates'? Known: replicates,"),
        ("typos:rate=1", "Test 'typos' has no parameter 'rate'. It has none."),
        ("stochastic_stability:replicates=five", "`replicates` must … 'five'."),
        ({"name": "stochastic_stability", "replicates": True}, "`replicates` must … True."),
        ({"name": "stochastic_stability", "replicates": 2.5}, "`replicates` must … 2.5."),
        ({"name": "label_flip", "max_length": "x"}, "`max_length` must … 'x'."),
        ("synthetic_ordinal:choice=best", "`choice` must be one of spread, nearest, random, none, but is 'best'."),
        ("stochastic_stability:replicates=1", "Test 'stochastic_stability': Agreement needs at least 2 replicates"),
        ("label_flip:min_length=3", "`0 <= min_length <= max_length` must hold, but got min_length=3, max_length=2."),
        ("semantic_paraphrase:max_similarity=1.2", "`0 <= min_similarity <= max_similarity <= 1` must hold"),
        ("stochastic_stabilty:replicates=5", "Did you mean 'stochastic_stability'?"),
        ("stochastic_stability:5", "is written name:parameter=value"),
        ("paper:replicates=5", "'paper' is a group and has no parameters"),
        ("agent_positives:steps=2", "Test 'agent_positives' has no parameter 'steps'"),
        ({"replicates": 5}, "needs `name`"),
        (7, "A test is a name, a mapping with `name` or a test object, but got 7."),
    ],
)
def test_what_makes_no_sense_is_told_with_the_nearest_that_does(entry, said):
    told = refused([entry])
    assert all(part in told for part in said.split(" … "))


def test_the_file_and_the_entry_are_named():
    told = refused(["typos", {"name": "stochastic_stability", "replicate": 5}], where="suite.yaml")
    assert told.startswith("suite.yaml, entry 2 of `tests`: Test 'stochastic_stability' has no parameter 'replicate'.")


def test_a_test_with_parameters_takes_its_place_in_a_group_and_a_bare_name_is_named_twice():
    found = find_tests("paper,stochastic_stability:replicates=5", BINARY)
    assert [test.name for test in found] == [test.name for test in find_tests("paper", BINARY)]
    assert STABLE in found
    with pytest.raises(RecipeError, match="named twice"):
        find_tests("paper,stochastic_stability", BINARY)
    with pytest.raises(RecipeError, match="named twice"):
        find_tests("typos,stochastic_stability:replicates=5,stochastic_stability:replicates=4", BINARY)


def test_names_of_the_predecessor_stand_for_what_they_are_here(caplog: pytest.LogCaptureFixture):
    found = find_tests("answer_ambiguity:replicates=5,verbosity_bias", BINARY)
    assert found == [STABLE, TESTS["verbosity_bias_long"], TESTS["verbosity_bias_short"]]
    assert "'answer_ambiguity' is here called stochastic_stability" in caplog.text


def test_settings_are_the_parameters_that_differ_from_their_defaults():
    assert STABLE.settings == {"replicates": 5}
    assert all(test.settings == {} for test in TESTS.values())
    (whole,) = listed_tests("label_flip:max_length=3")
    assert isinstance(whole, ReliabilityTest)
    assert repr(whole.settings) == "{'max_length': 3.0}"


@dataclass(frozen=True, kw_only=True)
class Louder(Rewrite):
    """A user's own test, with a parameter of a kind of its own."""

    mark: object = parameter("!", "What is added.")
    name = "louder"
    title = "louder"

    def write(self, target, rng):
        return f"{target.original}{self.mark}"


def test_a_users_own_parameters_are_left_to_the_test():
    from jrh_mlflow.perturb.prompt_file import with_parameters

    assert with_parameters(Louder(), {"mark": 3}).mark == 3


def seeds(n: int) -> list[Seed]:
    return [
        Seed(id=f"s{i}", instruction="t", response=f"{'cats' if i % 4 < 2 else 'dogs'} {i}", label=str(1 + i % 2))
        for i in range(n)
    ]


@pytest.mark.parametrize("choice", ["spread", "nearest", "random", "none"])
def test_examples_are_as_many_as_asked_for_carry_the_level_and_never_are_the_source(choice):
    many = seeds(40)
    test = SyntheticOrdinal(examples=2, choice=choice)
    for target in test.targets(many, SCALE, "rubric"):
        of_level = {seed.response for seed in many if seed.label == target.expected}
        assert set(target.examples) <= of_level - {target.seed.response}
        assert len(target.examples) == len(set(target.examples)) == (2 if of_level and choice != "none" else 0)
    assert test.targets(many, SCALE, "rubric") == test.targets(many, SCALE, "rubric")


def test_the_nearest_examples_share_most_words():
    target = SyntheticOrdinal(examples=3, choice="nearest").targets(seeds(40), SCALE, "rubric")[0]
    assert all(example.startswith("cats") for example in target.examples)


def test_choosing_examples_grows_with_the_rows_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch):
    from jrh_mlflow.perturb import synthetic_ordinal

    def looks(n: int) -> int:
        counted = []
        monkeypatch.setattr(synthetic_ordinal, "_apart", lambda one, other: counted.append(1) or 0.0)
        SyntheticOrdinal(choice="nearest").targets(seeds(n), SCALE, "rubric")
        return len(counted)

    assert looks(400) < 2.2 * looks(200)
