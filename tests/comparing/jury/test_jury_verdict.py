"""Whether a jury is worth its votes: it is recommended only over its ablest member."""

from __future__ import annotations

import re

from jrh_mlflow.comparing.jury.jury import jury_page
from jrh_mlflow.comparing.jury.jury_report import jury_report, jury_verdict
from tests.comparing.comparing_tools import able_but, claim, coin, oracle, pair_calls, point_calls


def perfect(condition, delta, luck):
    return "better" if delta else "tie"


def often(share):
    def judge(condition, delta, luck):
        return ("better" if luck.random() < share else "worse") if delta else "tie"

    return judge


def advice(judges):
    calls = {name: pair_calls(judge, cost_usd=0.001, seed=place) for place, (name, judge) in enumerate(judges.items())}
    report = jury_report(calls, n_resamples=50)
    verdict = jury_verdict(report, calls)
    page = jury_page(report, verdict, title="Jury")
    assert page.lead == verdict.sentences[0]
    assert page.to_text()[-1] in verdict.sentences[0]
    return verdict.sentences


def test_a_jury_that_is_worse_than_a_member_says_so_and_names_the_member():
    sentences = advice({"good": perfect, "bad": often(0.1), "worse": often(0.1)})
    assert re.fullmatch(
        r"The jury \(0\.\d\d \[.*\]\) is worse than its member good \(1\.00 \[.*\]\): use good alone\.", sentences[0]
    )
    assert sentences[-1].startswith("Counting no decision as wrong, the jury is right in 0.")


def test_a_jury_that_is_better_than_every_member_is_recommended_with_its_price():
    sentences = advice({f"j{place}": often(0.7) for place in range(7)})
    assert sentences[0].startswith("Use the jury, because it picks")
    assert "$7.00 per 1,000 for the jury, $1.00 for j" in sentences[0]


def test_a_jury_that_votes_a_fault_away_is_recommended_for_that():
    def second(condition, delta, luck):
        return "2" if condition.startswith("vacuum") else "better" if delta else "tie"

    first, *_ = advice({"first": able_but, "second": second})
    assert first.startswith(f"Use the jury, because it {claim('dark_current')} 0.00 [")


def test_a_jury_of_equals_is_not_worth_its_votes():
    sentences = advice({"a": perfect, "b": perfect, "c": perfect})
    assert "use a alone ($3.00 per 1,000 for the jury, $1.00 for a)" in sentences[0]


def test_a_jury_of_coins_is_not_recommended_and_neither_is_a_coin():
    sentences = advice({"a": coin, "b": coin})
    assert sentences[0].startswith("Use none of them")


def test_a_jury_of_graders_is_weighed_by_its_tests():
    def wrong(source, condition, replicate):
        return str(6 - int(oracle(source, condition, replicate)))

    tests = ("typos", "markdown")
    calls = {"right": point_calls(oracle, tests=tests), "w1": point_calls(wrong, tests=tests)}
    calls["w2"] = calls["w1"]
    verdict = jury_verdict(jury_report(calls, n_resamples=50), calls)
    assert "use right alone" in verdict.sentences[0]


def test_back_quotes_of_a_name_make_no_code():
    sentences = advice({"`good`": perfect, "bad": often(0.1), "worse": often(0.1)})
    assert "ˋgoodˋ alone" in sentences[0]
    assert "`" not in "".join(sentences)
