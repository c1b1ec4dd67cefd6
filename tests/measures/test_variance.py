"""What a judge's scores vary with, on records whose only source of variation is known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.measures.axes import find
from jrh_mlflow.measures.behind import CallFinder
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.stats.variance import MORE_TASKS
from tests.measures.pointwise import point, report
from tests.readings import Row, asked, pair

PARTS = ("task", "wording", "order", "repeat")
Answer = Callable[[int, int, str], str]
"""Task, step and order to the slot that is chosen; the better content is u, first in the order uv."""


def sheet(rows: object) -> jrh.Datasheet:
    measured = jrh.measure(rows, n_resamples=20)  # type: ignore[arg-type]
    assert isinstance(measured, jrh.Datasheet)
    return measured


def ladder(answer: Answer, *, asks: int = 2, steps: int = 3, tasks: int = 20) -> list[Row]:
    """Pairs of all steps on each task, asked so many times in both orders."""
    return [
        row
        for task in range(tasks)
        for step in range(1, steps + 1)
        for ask in range(asks)
        for row in pair(
            f"t{task}-{step}",
            answer(task, step, "uv"),
            answer(task, step, "vu"),
            task=f"t{task:02}",
            condition="ladder",
            delta=step,
            better="u",
            replicate=ask,
        )
    ]


def right(order: str) -> str:
    return "1" if order == "uv" else "2"


def wrong(order: str) -> str:
    return "2" if order == "uv" else "1"


def by_task(task: int, _step: int, order: str) -> str:
    return right(order) if task % 3 else wrong(order)


def by_content(task: int, step: int, order: str) -> str:
    return right(order) if (task * 7 + step * 5) % 4 else wrong(order)


def first_slot(_task: int, _step: int, _order: str) -> str:
    return "1"


def coin(seed: int = 0) -> Answer:
    draw = random.Random(seed)
    return lambda _task, _step, _order: draw.choice("12")


def number(measured: jrh.Datasheet, name: str) -> Estimate:
    reading: Reading = measured.estimates[f"variance/{name}"]
    assert isinstance(reading, Estimate), reading
    return reading


def reason(measured: jrh.Datasheet, name: str) -> NotEstimable:
    reading: Reading = measured.estimates[f"variance/{name}"]
    assert isinstance(reading, NotEstimable), reading
    return reading


@pytest.mark.parametrize(
    ("answer", "part"), [(by_task, "task"), (by_content, "wording"), (first_slot, "order"), (coin(), "repeat")]
)
def test_the_only_source_of_variation_has_all_of_it(answer: Answer, part: str) -> None:
    measured = sheet(ladder(answer))
    shares = {name: number(measured, name) for name in PARTS}
    assert max(shares, key=lambda name: shares[name].value) == part
    assert shares[part].cluster_high == pytest.approx(1)
    assert shares[part].value > 0.85
    assert sum(share.value for share in shares.values()) == pytest.approx(1)
    for share in shares.values():
        assert (share.n, share.n_clusters, share.statistic) == (240, 20, "value")
        assert share.cluster_low is not None
        assert share.cluster_high is not None
        assert share.cluster_low < share.cluster_high


def test_a_judge_that_never_wavers_gains_little_by_being_asked_again_and_a_coin_as_much_as_by_tasks() -> None:
    steady, tossed = (number(sheet(ladder(answer, tasks=60)), "asking_again") for answer in (by_task, coin(1)))
    assert steady.value == 0
    assert steady.cluster_high is not None
    assert steady.cluster_high < MORE_TASKS / 2
    assert tossed.cluster_low is not None
    assert tossed.cluster_low > 0.1
    assert tossed.cluster_high == pytest.approx(MORE_TASKS)


def test_where_the_order_alone_decides_a_mean_over_both_has_no_error() -> None:
    assert "both orders" in reason(sheet(ladder(first_slot)), "asking_again").reason


def test_what_the_step_does_is_no_variation() -> None:
    measured = sheet(ladder(lambda _task, step, order: right(order) if step > 1 else wrong(order)))
    assert {reason(measured, name).withheld for name in PARTS} == {False}


def test_without_replicates_the_task_is_told_from_the_rest_and_the_others_say_to_ask_twice() -> None:
    measured = sheet(ladder(coin(2), asks=1))
    assert 0 <= number(measured, "task").value < 0.3
    for name in ("wording", "order", "repeat", "asking_again"):
        assert "--replicates 2" in reason(measured, name).reason


def test_with_one_content_per_task_and_one_ask_there_is_nothing_to_tell_apart() -> None:
    assert not [key for key in sheet(ladder(coin(), asks=1, steps=1)).estimates if key.startswith("variance/")]
    twice = sheet(ladder(coin(), steps=1))
    assert "one content" in reason(twice, "wording").reason
    assert number(twice, "repeat").value > 0.5


def test_too_many_lost_calls_withhold_every_share() -> None:
    lost = coin(3)
    rows = ladder(lambda task, step, order: "unparsed" if (task + step) % 4 == 0 else lost(task, step, order))
    measured = sheet(rows)
    assert {reason(measured, name).withheld for name in (*PARTS, "asking_again")} == {True}
    assert "variance/task" in measured.withheld


def test_they_are_readings_without_a_state_and_leave_findings_and_other_readings_alone() -> None:
    measured = sheet(ladder(coin(4)))
    assert not [finding for finding in measured.verdict.findings if finding.axis.startswith("variance/")]
    for name in (*PARTS, "asking_again"):
        axis = find(f"variance/{name}")
        assert axis is not None
        assert (axis.direction, axis.headline, axis.comparable) == (None, False, False)


def test_scripted_judges_on_a_suite_read_as_they_are() -> None:
    suite, scripted = jrh.datasheet_suite(n_tasks=12), jrh.scripted
    first, noisy, oracle = (
        sheet(asked(judge, suite, replicates=2))
        for judge in (scripted.AlwaysFirst(), scripted.Noisy(), scripted.Oracle())
    )
    assert number(first, "order").value == pytest.approx(1)
    assert number(noisy, "repeat").cluster_high == pytest.approx(1)
    assert reason(oracle, "task").n > 0


def test_single_responses_have_no_order() -> None:
    suite = jrh.datasheet_suite(design="pointwise", n_tasks=6)
    measured = sheet(asked(jrh.scripted.Oracle(), suite, replicates=2))
    names = {key for key in measured.estimates if key.startswith("variance/")}
    assert names == {f"variance/{name}" for name in ("task", "wording", "repeat", "asking_again")}


def test_the_calls_behind_them_are_those_with_a_score() -> None:
    rows = ladder(by_task) + pair("equal", "1", "1", task="t00")
    behind = CallFinder(rows).behind("variance/repeat")
    assert (behind.calls.sum(), behind.n) == (240, 240)


def labelled(said: Callable[[int, str, int], str], *, asks: int = 2) -> list[Row]:
    return [
        point(test, said(source, test, ask), "yes", source=f"s{source:02}", replicate=ask)
        for source in range(20)
        for test in ("baseline", "typos", "synonyms")
        for ask in range(asks)
    ]


def test_reports_tell_the_source_from_the_test_and_from_the_repeat() -> None:
    by_source = report(labelled(lambda source, _test, _ask: "yes" if source % 3 else "no"))
    by_wording = report(labelled(lambda source, test, _ask: "yes" if (source * 7 + ord(test[0]) * 5) % 4 else "no"))
    by_ask = report(labelled(lambda source, test, ask: "yes" if (source + ord(test[0]) + ask) % 2 else "no"))
    for found, part in ((by_source, "task"), (by_wording, "wording"), (by_ask, "repeat")):
        shares = {name: found.estimates[f"variance/{name}"] for name in ("task", "wording", "repeat")}
        numbers = {name: share.value for name, share in shares.items() if isinstance(share, Estimate)}
        assert numbers[part] == pytest.approx(max(numbers.values()))
        assert numbers[part] > 0.85
        assert "variance/order" not in found.estimates


def test_asks_of_the_replicate_test_are_asks_of_the_baseline() -> None:
    rows = [
        row
        for source in range(20)
        for name, asks in (("baseline", 1), ("stochastic_stability", 4))
        for ask in range(asks)
        for row in [point(name, "yes" if (source + ask) % 2 else "no", "yes", source=f"s{source:02}", replicate=ask)]
    ]
    found = report(rows).estimates["variance/wording"]
    assert isinstance(found, NotEstimable)
    assert "one content" in found.reason
