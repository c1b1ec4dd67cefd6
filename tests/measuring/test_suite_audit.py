"""The audit of a suite: what shortcuts read on it, when that fails, and what it names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.errors import RecipeError, SuiteError
from jrh_mlflow.judges.scripted import every_shortcut
from jrh_mlflow.measuring.suite_audit import HIGH, MATCHED, ShortcutReading, SuiteAudit, audit_suite
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.tasks import Task, built_in_tasks
from tests.cases import few

TASKS = ("box", "bill", "cake", "desk", "gift", "lamp", "note", "pan", "rug", "sofa", "tent", "vase")
TOLD = "The {task} comes on 11 March, and it will be in good order."
UNTOLD = "The {task} comes on some day, and it will be in good order."
SWAPPED = ("It left on 6 March and comes on 11 March.", "It left on 11 March and comes on 6 March.")


def pair(task: str, *, condition: str, better: str, worse: str, v_better: bool) -> Item:
    u, v = (worse, better) if v_better else (better, worse)
    return Item(
        id=f"{task}.{condition}",
        task=task,
        condition=condition,
        instruction=f"Say when the {task} comes: on 11 March, not on 6 March.",
        u=u,
        v=v,
        better="v" if v_better else "u",
        delta=1.0,
    )


@pytest.fixture
def hand_made(monkeypatch: pytest.MonkeyPatch) -> jrh.Suite:
    """A ladder that digits give away, and one of swapped facts under a name that gates need not know."""
    monkeypatch.setattr("jrh_mlflow.suites.suite.check_suite", lambda items: None)
    items = []
    for number, task in enumerate(TASKS):
        told, untold = TOLD.format(task=task), UNTOLD.format(task=task)
        side = number % 2 == 0
        items.append(pair(task, condition="ladder", better=told, worse=untold, v_better=side))
        items.append(pair(task, condition="ladder_matched", better=SWAPPED[0], worse=SWAPPED[1], v_better=side))
    return jrh.Suite(name="hand-made", items=items)


def reading(audit: SuiteAudit, shortcut: str, condition: str = "ladder", direction: str = "more") -> ShortcutReading:
    wanted = (shortcut, direction, condition)
    return next(one for one in audit.readings if (one.shortcut, one.direction, one.condition) == wanted)


def test_the_papers_ladder_is_climbed_by_counting_words():
    audit = audit_suite(jrh.load_suite("datasheet-paper"))
    overlap = reading(audit, "WordOverlap").estimate
    assert overlap.value > 0.95
    assert (overlap.n, overlap.n_clusters, overlap.unit) == (150, 10, "pair")
    assert (overlap.cluster_low or 0) > HIGH
    assert reading(audit, "CharacterCount").estimate.value == 0.5
    assert (audit.failed, audit.judged, audit.giveaways) == ([], [], ())


@pytest.mark.parametrize("name", few(["datasheet-short", "pointwise-datasheet", "datasheet"], quick=2))
def test_no_shortcut_pays_on_the_matched_ladder_of_a_built_in_suite(name):
    """In either direction, pooled over delta; the other conditions are left out to be quick."""
    suite = jrh.load_suite(name)
    matched = [item for item in suite.items if item.condition in MATCHED]
    audit = audit_suite(jrh.Suite(name=name, items=matched))
    assert len(audit.judged) == 1
    assert len(audit.readings) == 2 * len(jrh.scripted.SHORTCUTS)
    assert {one.estimate.n_clusters for one in audit.readings} == {suite.manifest["n_tasks"]}
    assert [(one.shortcut, one.direction, one.estimate.value) for one in audit.readings if not one.within] == []


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_short_suite_of_another_seed_gives_shortcuts_as_little(seed):
    suite = jrh.datasheet_suite(design="short", n_tasks=12, depth=3, seed=seed)
    matched = [item for item in suite.items if item.condition in MATCHED]
    audit = audit_suite(jrh.Suite(name="short", items=matched))
    assert [(one.shortcut, one.direction, one.estimate.value) for one in audit.readings if not one.within] == []


def test_a_shortcut_is_read_as_its_judge_answers_in_both_orders(hand_made):
    audit = audit_suite(hand_made)
    for judge in every_shortcut(seed=3):
        right = [
            (judge(presentation_of(item, order, judge.tie_criterion)) == "1") == (item.better == order[0])
            for item in hand_made.items
            if item.condition == "ladder"
            for order in item.orders
        ]
        read = reading(audit, type(judge).__name__, direction=judge.direction)
        assert read.estimate.value == sum(right) / len(right)


def test_every_shortcut_is_read_in_both_directions_in_every_condition_with_a_better_content(hand_made):
    audit = audit_suite(hand_made)
    assert audit.conditions == ["ladder", "ladder_matched"]
    assert len(audit.readings) == 2 * 2 * len(jrh.scripted.SHORTCUTS)
    for one in audit.readings:
        other = reading(audit, one.shortcut, one.condition, "less" if one.direction == "more" else "more")
        assert one.estimate.value + other.estimate.value == pytest.approx(1)


def test_swapped_facts_pass_where_their_words_are_the_same(hand_made):
    audit = audit_suite(hand_made)
    assert audit.judged == ["ladder_matched"]
    bags = ("WordOverlap", "DigitCount", "TfidfCosine", "CharacterCount", "TypeTokenRatio", "NegationCount")
    assert {reading(audit, name, "ladder_matched").estimate.value for name in bags} == {0.5}
    assert {one.condition for one in audit.failed} <= {"ladder_matched"}


def test_a_shortcut_that_pays_fails_both_ways_and_is_explained_once(hand_made):
    audit = audit_suite(hand_made, conditions=["ladder"])
    more, less = (reading(audit, "DigitCount", direction=direction) for direction in ("more", "less"))
    assert (more.estimate.value, less.estimate.value) == (1, 0)
    assert (more.fails, less.fails, more.within) == (True, True, False)
    (found,) = [one for one in audit.giveaways if one.shortcut == "DigitCount"]
    assert (found.direction, found.condition) == ("more", "ladder")
    assert [(one.item, one.margin) for one in found.pairs[:1]] == [("bill.ladder", 2)]
    first = found.sentences[0]
    assert (first.task, first.n_pairs) == ("bill", 1)
    assert (first.better, first.worse) == (TOLD.format(task="bill"), UNTOLD.format(task="bill"))
    assert first.share == pytest.approx(1 / len(TASKS))


def test_the_sentence_named_first_is_the_one_that_tells(monkeypatch):
    monkeypatch.setattr("jrh_mlflow.suites.suite.check_suite", lambda items: None)
    better = "Dear all. It comes on 11 March at 10:30. Call 7. Bye."
    worse = "Dear you. It comes before long. Call him."
    items = [pair(task, condition="ladder", better=better, worse=worse, v_better=task == "desk") for task in TASKS]
    audit = audit_suite(jrh.Suite(name="three sentences", items=items), conditions=["ladder"])
    (found,) = [one for one in audit.giveaways if one.shortcut == "DigitCount"]
    assert {(one.better, one.worse) for one in found.sentences} == {
        ("It comes on 11 March at 10:30.", "It comes before long."),
    }
    (found,) = [one for one in audit.giveaways if one.shortcut == "SentenceCount"]
    assert {(one.better, one.worse) for one in found.sentences} == {("Bye.", "")}


def planted(task: Task, *, mark: str) -> Task:
    """A task whose satisfied sentences end with something that no other sentence has."""
    marked = [
        replace(one, satisfied=tuple(f"{wording[:-1]}{mark}{wording[-1]}" for wording in one.satisfied))
        for one in task.requirements
    ]
    return replace(task, requirements=tuple(marked))


def test_a_giveaway_in_ones_own_tasks_fails_the_audit_and_its_sentences_are_named():
    tasks = built_in_tasks()[:8]
    own = [planted(task, mark=" 3704") for task in tasks]
    audit = audit_suite(jrh.datasheet_suite(tasks=own, depth=3, seed=1))
    digits = reading(audit, "DigitCount", "ladder_matched")
    assert digits.estimate.cluster_low is not None
    assert digits.estimate.cluster_low > HIGH
    assert digits in audit.failed
    (found,) = [one for one in audit.giveaways if one.shortcut == "DigitCount"]
    assert found.condition == "ladder_matched"
    assert len(found.sentences) == 5
    named = {one.better: one.worse for one in found.sentences}
    assert all("3704" in better and "3704" not in worse for better, worse in named.items())
    satisfied = {wording for task in own for one in task.requirements for wording in one.satisfied}
    assert set(named) <= satisfied


def test_one_task_has_no_interval_and_decides_nothing(hand_made):
    alone = jrh.Suite(name="one task", items=[item for item in hand_made.items if item.task == "box"])
    audit = audit_suite(alone, conditions=["ladder"])
    assert reading(audit, "DigitCount").estimate.value == 1
    assert not audit.failed


def test_the_same_audit_comes_again_and_is_plain_json(hand_made):
    audit, again = (audit_suite(hand_made, conditions=["ladder"]).to_dict() for _ in range(2))
    assert json.dumps(audit) == json.dumps(again)
    assert audit["passed"] is False
    assert audit["readings"][0].keys() >= {"shortcut", "direction", "condition", "estimate", "within", "fails"}


def test_what_cannot_be_audited_is_said(hand_made):
    with pytest.raises(RecipeError, match=r"Unknown condition 'laddr'\. Did you mean 'ladder'"):
        audit_suite(hand_made, conditions=["laddr"])
    vacuum = [item for item in jrh.datasheet_suite(n_tasks=1).items if item.condition == "vacuum_empty"]
    with pytest.raises(SuiteError, match="no pair with a better content"):
        audit_suite(jrh.Suite(name="vacuum", items=vacuum))
    silent = Item(id="x", task="x", condition="natural", better="u")
    with pytest.raises(SuiteError, match="no texts to audit"):
        audit_suite(jrh.Suite(name="replayed", items=[silent]))
