"""The panel of a watch and what is read of its asks, without a store."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Call
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.watching.watched import N_REFERENCE, AxisWatch, PanelAsks, draw_panel, read_watch
from tests.comparing.test_compare import pointwise_suite

pytestmark = pytest.mark.quick
PAIRS = jrh.datasheet_suite(n_tasks=14, depth=3)


def answered(suite: Suite, lost: tuple[str, ...] = ()) -> pd.DataFrame:
    rows = [(item.id, "error" if item.id in lost else "verdict") for item in suite.items]
    return pd.DataFrame(rows, columns=["suite_item", "outcome"])


def asked(judge: jrh.scripted.Scripted, panel: Suite, looks: int) -> pd.DataFrame:
    """What a watch keeps of a scripted judge: six asks at the start, one per look."""
    judge.begin(panel)
    rows = []
    for number in range(N_REFERENCE + looks):
        for item in panel.items:
            for order in item.orders:
                shown = jrh.Presentation(
                    kind=item.kind, instruction="", answers=item.answers or ("1", "2", "tie"), response=item.response
                )
                answer = judge.answer(Call(item=item, order=order, replicate=number, presentation=shown))
                outcome = answer if answer in ("tie", "unparsed", "error") else "verdict"
                look = max(0, number - N_REFERENCE + 1)
                rows.append((look, number, item.id, order, outcome, answer if outcome == "verdict" else ""))
    return pd.DataFrame(rows, columns=["look", "replicate", "suite_item", "order", "outcome", "answer"])


def watched(judge: jrh.scripted.Scripted, looks: int, panel: Suite | None = None) -> dict[str, AxisWatch]:
    panel = panel or draw_panel(PAIRS, answered(PAIRS), n_calls=56)
    return {axis.axis: axis for axis in read_watch({"": PanelAsks(panel, asked(judge, panel, looks))}, seed=0)}


def test_half_of_the_panel_are_equal_pairs_and_half_have_a_better_side_spread_over_tasks() -> None:
    panel = draw_panel(PAIRS, answered(PAIRS), n_calls=56)
    kinds = Counter(item.better is None for item in panel.items)
    assert kinds == {True: 14, False: 14}
    assert {len(item.orders) for item in panel.items} == {2}
    assert {item.condition for item in panel.items if not item.better} == {"delta_0_same"}
    assert max(Counter(item.task for item in panel.items if not item.better).values()) == 1
    assert {item.delta for item in panel.items if item.better} == {1.0, 2.0, 3.0}
    assert panel.sha256 == draw_panel(PAIRS, answered(PAIRS), n_calls=56).sha256
    assert panel.sha256 != draw_panel(PAIRS, answered(PAIRS), n_calls=56, seed=1).sha256


def test_items_without_an_answer_are_not_drawn_and_one_kind_fills_in_for_the_other() -> None:
    equal = [item.id for item in PAIRS.items if item.condition == "delta_0_same"]
    panel = draw_panel(PAIRS, answered(PAIRS, lost=tuple(equal[2:])), n_calls=20)
    assert [item.id for item in panel.items if not item.better]
    assert len(panel.items) == 10
    assert {item.id for item in panel.items if not item.better} == set(equal[:2])
    only_vacuum = Suite(name="v", items=[item for item in PAIRS.items if item.condition.startswith("vacuum")])
    with pytest.raises(RecipeError):
        draw_panel(only_vacuum, answered(only_vacuum), n_calls=20)


def test_a_judge_without_a_change_is_not_called_changed_and_noise_is_learnt() -> None:
    for noise in (0.0, 0.3):
        axes = watched(jrh.scripted.Drifting(noise=noise), 30)
        assert set(axes) == {"raw_false_preference", "slot_lean", "ability", "any_answer"}
        assert not any(axis.alarm for axis in axes.values())
        change = axes["ability"]
        assert change.low is not None
        assert change.high is not None
        assert change.low < 0 < change.high
    quiet, noisy = (watched(jrh.scripted.Drifting(noise=noise), 5)["ability"].detectable for noise in (0.0, 0.3))
    assert quiet is not None
    assert noisy is not None
    assert quiet < noisy


@pytest.mark.parametrize("at", [1, 8])
def test_a_jump_on_one_axis_is_found_there_with_its_look_and_its_size(at: int) -> None:
    axes = watched(jrh.scripted.Drifting(on="equal", jump=0.4, at=at), at + 6)
    found = axes["raw_false_preference"]
    assert found.alarm
    assert abs((found.began or 0) - at) <= 1
    assert axes["ability"].alarm is None
    assert found.before == 0.0
    assert found.after is not None
    assert 0.2 < found.after < 0.6
    assert found.low is not None
    assert found.high is not None
    assert found.low < (found.change or 0) < found.high
    assert axes["slot_lean"].change == pytest.approx(found.change)


def test_a_change_of_the_other_axis_and_a_slow_one_are_found_too() -> None:
    axes = watched(jrh.scripted.Drifting(on="better", jump=0.4, at=3), 12)
    assert axes["ability"].alarm
    assert not axes["raw_false_preference"].alarm
    assert (axes["ability"].change or 0) < 0
    assert watched(jrh.scripted.Drifting(on="equal", slow=0.03, at=2), 30)["raw_false_preference"].alarm


def test_the_calls_that_are_answered_otherwise_are_named() -> None:
    judge, panel = jrh.scripted.Drifting(on="equal", jump=0.5, at=2), draw_panel(PAIRS, answered(PAIRS), n_calls=56)
    asks = PanelAsks(panel, asked(judge, panel, 8))
    changed = asks.changed_calls(2)
    assert changed
    assert {(call.before, call.after, call.condition) for call in changed} == {("tie", "1", "delta_0_same")}
    assert all((call.n_before, call.n_after) == (7, 7) for call in changed)


def test_an_error_is_no_answer_and_what_cannot_be_read_is_one_that_no_axis_scores() -> None:
    panel = draw_panel(PAIRS, answered(PAIRS), n_calls=8)
    table = asked(jrh.scripted.Drifting(), panel, 3)
    first = table["look"] == 2
    lost = table.assign(outcome=table["outcome"].where(~first, "error"), answer=table["answer"].where(~first, ""))
    unread = table.assign(outcome=table["outcome"].where(~first, "unparsed"), answer=table["answer"].where(~first, ""))
    rows = [{axis.axis: axis for axis in read_watch({"": PanelAsks(panel, own)}, seed=0)} for own in (lost, unread)]
    assert all(own["ability"].means[2] is None and own["ability"].means[3] == 1.0 for own in rows)
    assert rows[1]["any_answer"].log_e[1] > rows[0]["any_answer"].log_e[1]


def test_single_responses_are_watched_by_accuracy_and_level() -> None:
    suite = pointwise_suite()
    panel = draw_panel(suite, answered(suite), n_calls=24)
    assert len(panel.items) == 24
    assert {item.condition for item in panel.items} == {"baseline", "typos", "markdown"}
    axes = watched(jrh.scripted.Drifting(on="better", jump=0.6, at=2), 8, panel)
    assert set(axes) == {"accuracy", "answer_level", "any_answer"}
    assert axes["accuracy"].before == 1.0
    assert axes["accuracy"].alarm


def test_the_levels_of_the_pointwise_datasheet_are_watched() -> None:
    suite = jrh.load_suite("pointwise-datasheet")
    panel = draw_panel(suite, answered(suite), n_calls=28)
    assert {item.condition for item in panel.items}.isdisjoint({"pointwise_padded"})
    axes = watched(jrh.scripted.Drifting(), 2, panel)
    assert set(axes) == {"answer_level", "any_answer"}
