"""Synthetic ordinal: buckets from the scale, examples from the level, and copies that are flagged."""

from __future__ import annotations

import pytest

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.perturb.synthetic_ordinal import SyntheticOrdinal
from jrh_mlflow.schema.items import Labels, Seed
from tests.perturb.rewrite_tools import BINARY, RUBRIC, SCALE, TEXTS, bench, seeds


def test_buckets_come_from_the_scale_and_not_from_the_labels_seen():
    only_threes = [Seed(id=f"s{i}", instruction="t", response=text, label="3") for i, text in enumerate(TEXTS[:2])]
    targets = SyntheticOrdinal().targets(only_threes, SCALE, RUBRIC)
    assert [target.expected for target in targets] == ["1", "2", "3", "4", "5"] * 2
    assert [target.bucket for target in targets[:2]] == ["s0/1", "s0/2"]


@pytest.mark.parametrize("per_bucket", [1, 3])
def test_every_bucket_has_its_items_and_ids_are_unique(per_bucket):
    targets = SyntheticOrdinal(per_bucket).targets(seeds(), SCALE, RUBRIC)
    assert len(targets) == len(TEXTS) * 5 * per_bucket
    assert len({target.id for target in targets}) == len(targets)
    assert {target.condition for target in targets} == {"synthetic_ordinal"}
    assert {target.bucket: 0 for target in targets}.keys() == {f"{s.id}/{a}" for s in seeds() for a in SCALE.answers}


def test_labels_without_an_order_are_refused_by_name():
    with pytest.raises(RecipeError, match="no, yes"):
        SyntheticOrdinal().targets(seeds(BINARY), BINARY, RUBRIC)


@pytest.mark.parametrize("per_bucket", [0, -1])
def test_an_empty_bucket_is_a_programmers_mistake(per_bucket):
    with pytest.raises(ValueError, match="per_bucket >= 1"):
        SyntheticOrdinal(per_bucket)


def test_examples_carry_the_level_and_never_are_the_source():
    many = [Seed(id=f"s{i}", instruction="t", response=f"text {i}", label=SCALE.answers[i % 2]) for i in range(12)]
    for target in SyntheticOrdinal().targets(many, SCALE, RUBRIC):
        of_level = {seed.response for seed in many if seed.label == target.expected}
        assert set(target.examples) <= of_level - {target.seed.response}
        assert len(target.examples) == (3 if of_level else 0)


def test_the_brief_shows_the_examples_or_says_that_there_are_none():
    of_level_one = SyntheticOrdinal().targets(seeds()[:7], SCALE, RUBRIC)[0]
    assert of_level_one.examples == (TEXTS[5],)
    assert TEXTS[5] in SyntheticOrdinal().brief(of_level_one)
    alone = SyntheticOrdinal().targets(seeds()[:1], SCALE, RUBRIC)[0]
    assert "(none)" in SyntheticOrdinal().brief(alone)


def test_a_copy_of_the_source_of_an_example_or_of_an_earlier_text_is_flagged():
    test = SyntheticOrdinal()
    target = next(one for one in test.targets(seeds(), SCALE, RUBRIC) if one.examples)
    fresh = "Bread rises because yeast makes gas, and that is all there is to say about baking."
    for text, before in ((target.original, ()), (target.examples[0], ()), (fresh, (fresh,)), ("", ())):
        assert any(check(target, text, bench(*before)) for check in test.checks), text
    assert not any(check(target, fresh, bench()) for check in test.checks)


def test_a_scale_of_two_levels_is_a_scale():
    two = Labels(answers=("low", "high"), ordinal=True)
    assert [one.expected for one in SyntheticOrdinal().targets(seeds(two)[:1], two, RUBRIC)] == ["low", "high"]
