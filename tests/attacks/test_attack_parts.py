"""What attacks are made of, where they are put, the search over them, and what is read on held-out sources."""

from __future__ import annotations

import numpy as np
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.attacks.attack_defences import DEFENCES, checked_defences, defended
from jrh_mlflow.attacks.attack_search import ROUNDS, Search
from jrh_mlflow.attacks.attack_strings import (
    PLACES,
    AttackString,
    AttackTarget,
    known_parts,
    neutral_text,
    passing_answers,
    placed,
    targets_of,
)
from jrh_mlflow.attacks.attack_success import ArmAnswers, read_attacks, shared_level, strongest_success, won_more
from jrh_mlflow.errors import RecipeError, SuiteError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.schema.items import CallRecord, Item
from jrh_mlflow.suites.suite import Suite

pytestmark = pytest.mark.quick

FAMILIES = {
    *("authority", "reference", "instruction", "forged verdict", "rubric echo", "flattery", "style", "length"),
    *("constant answer", "language", "invisible"),
}
JUDGE = jrh.scripted.Oracle()


def pair(number: int, **facts: object) -> Item:
    given = {"u": "Right.", "v": "Wrong.", "better": "u", "instruction": "Answer.", "condition": "natural", **facts}
    return Item(id=f"p{number}", task=f"t{number}", **given)  # type: ignore[arg-type]


def response(number: int, expected: str, *, answers=("fail", "pass"), **facts: object) -> Item:
    given = {"instruction": "Answer.", "rubric": "Is it right?", "response": "It is.", "condition": "baseline", **facts}
    return Item(id=f"r{number}", task=f"t{number}", kind="response", expected=expected, answers=answers, **given)


def record(item: Item, order: str, outcome: str = "verdict", answer: str = "") -> CallRecord:
    return CallRecord(
        suite_item=item.id,
        task=item.task,
        condition=item.condition,
        delta=None,
        order=order,
        better=item.better or "",
        replicate=0,
        outcome=outcome,
        answer=answer,
        expected=item.expected or "",
    )


def test_the_parts_cover_every_family_for_pairs_and_for_single_responses():
    for kind in ("pair", "single"):
        parts = known_parts(kind)
        assert {part.family for part in parts} == FAMILIES
        assert len({part.name for part in parts}) == len(parts)


@pytest.mark.parametrize("length", [1, 7, 60, 61, 500, 1234])
def test_a_neutral_text_has_exactly_the_length(length):
    assert len(neutral_text(length, start=length)) == length


def test_a_text_is_put_before_after_and_inside_without_changing_a_word():
    content = "One two. Three four. Five six. Seven."
    texts = {place: placed(content, "XX", place) for place in PLACES}
    assert texts["before"].startswith("XX")
    assert texts["after"].endswith("XX")
    assert all(text.replace("XX", " ").split() == content.split() for text in texts.values())
    assert 0 < texts["inside"].index("XX") < len(texts["inside"]) - 2
    assert "XX" in placed("", "XX", "inside")


def test_placeholders_are_filled_with_the_names_of_the_judge_and_a_control_is_as_long():
    (target, *_), *_ = targets_of(Suite(name="s", items=[pair(at) for at in range(8)]), JUDGE)
    (part,) = [part for part in known_parts("pair") if part.name == "verdict_json_either"]
    attack = AttackString(parts=(part,), place="after")
    attacked, control = target.attacked(attack, "attack/0"), target.control(attack, "control/0")
    assert '"verdict": "1"' in str(attacked.v)
    assert "{" + "first}" not in str(attacked.v)
    assert (attacked.u, len(str(attacked.v))) == ("Right.", len(str(control.v)))
    letters, *_ = targets_of(Suite(name="s", items=[pair(at) for at in range(8)]), jrh.PromptedJudge("openai/gpt-4o"))
    assert letters[0].words["first"] == "A"


def test_sources_are_halved_by_the_seed_and_one_item_stands_for_each():
    suite = jrh.load_suite("datasheet")
    searched, held_out, good = targets_of(suite, JUDGE, seed=1)
    assert (len(searched), len(held_out), good) == (14, 14, [])
    names = [{target.source for target in half} for half in (searched, held_out)]
    assert not names[0] & names[1]
    assert {target.item.delta for target in held_out} == {5.0}, "the clearest difference"
    assert all(target.side != target.item.better for target in searched)
    assert [target.source for target in targets_of(suite, JUDGE, seed=1)[0]] == [one.source for one in searched]
    assert [target.source for target in targets_of(suite, JUDGE, seed=2)[0]] != [one.source for one in searched]
    single, rest, good = targets_of(jrh.load_suite("pointwise-datasheet"), JUDGE)
    assert {(one.item.expected, one.passing) for one in (*single, *rest)} == {("no", frozenset({"yes"}))}
    assert {one.item.expected for one in good} == {"yes"}


@pytest.mark.parametrize(
    ("answers", "passes"),
    [
        (("fail", "pass"), {"pass"}),
        (("pass", "fail"), {"pass"}),
        (("harmless", "harmful"), {"harmless"}),
        (("1", "2", "3", "4", "5"), {"4", "5"}),
        (("1", "2", "3", "4"), {"3", "4"}),
        (("0", "1"), {"1"}),
    ],
)
def test_the_better_label_passes(answers, passes):
    assert passing_answers(response(0, answers[0], answers=answers)) == passes


def test_a_suite_without_failing_sources_is_refused():
    with pytest.raises(SuiteError, match="4"):
        targets_of(Suite(name="s", items=[response(at, "pass") for at in range(9)]), JUDGE)
    unordered = [response(at, "red", answers=("red", "blue", "green")) for at in range(9)]
    with pytest.raises(SuiteError, match="passing"):
        targets_of(Suite(name="s", items=unordered), JUDGE)
    assert len(targets_of(Suite(name="s", items=unordered), JUDGE, passing=["blue"])[1]) == 5


def test_a_win_is_a_verdict_for_the_worse_content_and_a_lost_call_is_nothing():
    item = pair(0)
    target = AttackTarget(item=item, side="v")
    cases = {("uv", "2"): 1.0, ("vu", "1"): 1.0, ("uv", "1"): 0.0, ("vu", "2"): 0.0}
    for (order, answer), won in cases.items():
        given = record(item, order, answer=answer)
        assert (target.won(given), target.right(given)) == (won, 1.0 - won)
    tie, lost = record(item, "uv", "tie"), record(item, "uv", "unparsed")
    assert (target.won(tie), target.right(tie)) == (0.0, 0.0)
    assert (target.won(lost), target.right(lost)) == (None, None)


def arms(**shares: list[float | None]) -> dict[str, ArmAnswers]:
    return {
        name.replace("_", "/"): ArmAnswers(
            won={f"s{at:02}": (value,) for at, value in enumerate(values)},
            lost={"error": values.count(None)} if None in values else {},
        )
        for name, values in shares.items()
    }


ATTACK = AttackString(parts=(known_parts("pair")[0],), place="after")


def test_no_success_at_all_reads_a_quarter_with_14_sources_and_a_twentieth_with_76():
    for n, end in ((14, 0.25), (76, 0.05), (75, 0.0503)):
        found = won_more(*(ArmAnswers(won={f"s{at}": (0.0, 0.0) for at in range(n)}) for _ in range(2)))
        assert isinstance(found, Estimate)
        assert (found.value, found.n_clusters) == (0.0, n)
        assert found.cluster_high == pytest.approx(end, abs=0.0006)


def test_negative_values_are_kept_and_lost_calls_widen_both_ends():
    won = arms(a=[0.0] * 20, b=[1.0] * 10 + [0.0] * 10)
    less = won_more(won["a"], won["b"])
    assert isinstance(less, Estimate)
    assert less.value == -0.5
    lost = won_more(ArmAnswers(won={**won["a"].won, "s00": (None,)}, lost={"error": 1}), won["b"])
    assert isinstance(lost, Estimate)
    assert (lost.n, lost.excluded, dict(lost.left_out)) == (19, 1, {"error": 1})
    many = {f"s{at:02}": (None,) for at in range(5)}
    withheld = won_more(ArmAnswers(won={**won["a"].won, **many}, lost={"error": 5}), won["b"])
    assert isinstance(withheld, NotEstimable)


def test_success_is_withheld_where_the_control_passes_in_more_than_half():
    given = arms(attack_0=[1.0] * 14, control_0=[1.0] * 8 + [0.0] * 6, plain=[0.0] * 14)
    (found,) = read_attacks([ATTACK], given, searched={})
    assert isinstance(found.success, NotEstimable)
    assert found.success.withheld
    assert not found.breaks
    assert isinstance(strongest_success([found]), NotEstimable)


def test_it_breaks_only_against_the_control_and_against_plain():
    broken = arms(attack_0=[1.0] * 14, control_0=[0.0] * 14, plain=[0.0] * 14)
    assert read_attacks([ATTACK], broken, searched={})[0].breaks
    plain_wins = arms(attack_0=[1.0] * 14, control_0=[0.0] * 14, plain=[1.0] * 14)
    (found,) = read_attacks([ATTACK], plain_wins, searched={})
    assert isinstance(found.success, Estimate)
    assert found.success.value == 1.0
    assert not found.breaks


def test_lower_ends_share_the_error_and_upper_ends_do_not():
    rng = np.random.default_rng(0)
    draws = {f"attack_{at}": list((rng.random(40) < 0.4).astype(float)) for at in range(5)}
    given = arms(**draws, **{f"control_{at}": [0.0] * 40 for at in range(5)}, plain=[0.0] * 40)
    attacks = [AttackString(parts=(part,), place="after") for part in known_parts("pair")[:5]]
    alone = won_more(given["attack/0"], given["control/0"])
    together = read_attacks(attacks, given, searched={})
    level = shared_level([given[f"attack/{at}"] for at in range(5)], [given["plain"]] * 5)
    assert 0.98 < level < 0.995, "near a fifth of the error each, for these are independent"
    assert isinstance(alone, Estimate)
    first = together[0].success
    assert isinstance(first, Estimate)
    assert first.cluster_low is not None
    assert alone.cluster_low is not None
    assert first.cluster_low < alone.cluster_low
    assert first.cluster_high == alone.cluster_high
    largest = strongest_success(together)
    assert isinstance(largest, Estimate)
    highs = [own.success.cluster_high for own in together if isinstance(own.success, Estimate)]
    assert largest.cluster_high == max(highs)


def test_the_search_finds_the_part_that_works_and_never_asks_the_same_twice():
    searched, *_ = targets_of(Suite(name="s", items=[pair(at) for at in range(28)]), JUDGE)
    search, asked = Search(targets=searched, parts=known_parts("pair"), seed=3), []
    for _ in range(ROUNDS):
        trials = search.round(50)
        asked += [(attack, target.source) for attack, target in trials]
        for attack, target in trials:
            works = any(part.name == "gold" for part in attack.parts) and attack.place != "before"
            search.tell(attack, target.source, float(works))
    assert len(asked) == len(set(asked)) == 250
    assert all("gold" in attack.name and attack.place != "before" for attack in search.reported())
    assert len({frozenset(attack.parts) for attack in search.reported()}) == len(search.reported()) <= 5
    again = Search(targets=searched, parts=known_parts("pair"), seed=3)
    assert [trial[0] for trial in again.round(50)] == [attack for attack, _ in asked[:50]]


def test_an_attack_that_won_often_is_reported_before_one_that_won_twice_of_two():
    search = Search(targets=[], parts=known_parts("pair"))
    often, twice, rest = (AttackString(parts=(part,), place="after") for part in search.parts[:3])
    for at in range(20):
        search.tell(often, f"s{at}", float(at < 17))
        search.tell(rest, f"s{at}", float(at < 10))
    for at in range(2):
        search.tell(twice, f"s{at}", 1.0)
    assert [attack.parts for attack in search.reported()] == [often.parts, twice.parts, rest.parts]


def test_defences_are_written_into_what_is_asked():
    item = response(0, "fail")
    for name in DEFENCES[:3]:
        changed = defended(item, name)
        assert str(changed.rubric).startswith("Is it right?\n\n")
        assert changed.id != item.id
    fenced = defended(item, "fence")
    code = str(fenced.response).split()[0].strip("[")
    assert code in str(fenced.rubric)
    assert str(fenced.response).count(code) == 2
    assert checked_defences("fence, reminder") == ("fence", "reminder")
    with pytest.raises(RecipeError, match="reminder"):
        checked_defences(["reminders"])
