"""The demo's data: a balanced set of replies, from which code can make its tests, and the suite made of them."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from importlib import resources

import pytest

from jrh_mlflow.demo import demo_suite
from jrh_mlflow.perturb import CheckContext, CodeTest, NotApplicable, Rewrite, Target
from jrh_mlflow.perturb.checks import TfidfSimilarity
from jrh_mlflow.perturb.english import firm_numbers, names
from jrh_mlflow.perturb.registry import find_tests
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.suites.responses import read_seeds

HOME = resources.files("jrh_mlflow.suites")
DATA = str(HOME / "demo_replies.csv")
RUBRIC = (HOME / "demo_rubric.txt").read_text(encoding="utf-8")
READINGS = {
    "ordinal": {"columns": {"label": "score", "group": "category"}, "scale": (1, 5)},
    "binary": {"columns": {"label": "verdict", "group": "category"}, "labels": ("fail", "pass")},
}
_ATTEMPTS = 4
ROWS = read_table(DATA).to_dict("records")


def test_the_file_has_24_different_replies_of_a_stated_shape():
    assert len(ROWS) == 24
    for column in ("id", "instruction", "response"):
        assert len({row[column] for row in ROWS}) == 24
    assert list(ROWS[0]) == ["id", "instruction", "response", "score", "verdict", "category"]


def test_a_reply_is_short_and_holds_numbers_and_names():
    for row in ROWS:
        assert 40 <= len(row["response"].split()) <= 110, row["id"]
        assert len(firm_numbers(row["response"])) >= 2, row["id"]
        assert names(row["response"]), row["id"]
        assert row["response"].isprintable(), row["id"]
        assert row["instruction"].isprintable(), row["id"]


def test_scores_categories_and_verdicts_are_balanced():
    assert {score: count for score, count in Counter(row["score"] for row in ROWS).items() if count not in (4, 5)} == {}
    assert Counter(row["category"] for row in ROWS) == {"billing": 6, "delivery": 6, "technical": 6, "howto": 6}
    assert Counter(row["verdict"] for row in ROWS) == {"pass": 12, "fail": 12}
    scores = defaultdict(set)
    for row in ROWS:
        scores[row["category"]].add(row["score"])
    assert set(map(frozenset, scores.values())) == {frozenset("12345")}


def test_a_verdict_follows_from_every_score_but_the_middle_one():
    found = {(row["score"], row["verdict"]) for row in ROWS}
    assert found == {("1", "fail"), ("2", "fail"), ("3", "fail"), ("3", "pass"), ("4", "pass"), ("5", "pass")}


def test_length_does_not_tell_the_score():
    mean = defaultdict(list)
    for row in ROWS:
        mean[row["score"]].append(len(row["response"].split()))
    averages = [sum(lengths) / len(lengths) for lengths in mean.values()]
    assert max(averages) / min(averages) < 1.1


def test_the_rubric_names_every_level():
    assert [line[:2] for line in RUBRIC.splitlines()[1:6]] == ["1:", "2:", "3:", "4:", "5:"]
    assert "from 1 to 5" in RUBRIC


def made(test: CodeTest, target: Target, bench: CheckContext) -> str | None:
    """Write one item as generation does: the first of a few attempts that passes the checks."""
    for attempt in range(_ATTEMPTS):
        try:
            text = test.write(target, random.Random(f"{target.id}/{attempt}"))
        except NotApplicable:
            continue
        if all(check(target, text, bench) is None for check in test.checks):
            return text
    return None


@pytest.mark.parametrize("kind", READINGS)
def test_every_test_that_code_writes_can_be_made_of_most_replies(kind):
    seeds, labels = read_seeds(DATA, **READINGS[kind])
    assert len(seeds) == 24
    assert {seed.label for seed in seeds} == set(labels.answers)
    bench = CheckContext(similarity=TfidfSimilarity([seed.response for seed in seeds]))
    short = {}
    for test in find_tests("all", labels):
        if not isinstance(test, CodeTest):
            continue
        whole = {}
        for target in test.targets(seeds, labels, RUBRIC):
            done = made(test, target, bench) is not None
            for seed in (target.seed, *target.also):
                whole[seed.id] = whole.get(seed.id, True) and done
        if sum(whole.values()) < 0.7 * len(whole) or not whole:
            short[test.name] = f"{sum(whole.values())} of {len(whole)}"
    assert short == {}


def test_the_suite_of_the_demo_is_made_of_the_replies_and_its_items_pass_their_checks():
    seeds, labels = read_seeds(DATA, **READINGS["ordinal"])
    bench = CheckContext(similarity=TfidfSimilarity([*(seed.response for seed in seeds), RUBRIC]))
    suite = demo_suite()
    assert suite.manifest["conditions"] == {
        "baseline": 24,
        "authority": 24,
        "label_flip": 24,
        "markdown": 24,
        "prompt_injection": 19,
        "verbosity_bias_long": 24,
        "verbosity_bias_short": 24,
    }
    by_id = {item.id: item for item in suite.items}
    assert {by_id[f"{seed.id}/baseline"].response for seed in seeds} == {row["response"] for row in ROWS}
    for test in find_tests([name for name in suite.manifest["conditions"] if name != "baseline"], labels):
        for target in test.targets(seeds, labels, RUBRIC) if isinstance(test, Rewrite) else ():
            item = by_id[target.id]
            assert (item.expected, item.task) == (target.expected, target.seed.task)
            assert [check(target, item.response, bench) for check in test.checks] == [None] * len(test.checks), item.id
