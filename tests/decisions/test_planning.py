"""`jrh.plan`: what is planned is what it takes, from stated and piloted spreads; impossible wishes are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.decisions.planning import suite_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.items import Item
from jrh_mlflow.stats.power import Layout, Spread, expected_interval, tasks_by_pilot
from jrh_mlflow.tracking.runs.store import Store, first_tags

MODEL = "openai/gpt-4o-mini"
UNKNOWN = "nobody/knows"


def judged(suite: jrh.Suite, *, rate: float, icc: float, seed: int = 0, **more: object) -> pd.DataFrame:
    """Vacuum calls of a judge whose tasks differ by a known correlation; other calls are ties."""
    rng, scale = np.random.default_rng(seed), (1 - icc) / icc
    rates: dict[str, float] = {}
    records: list[dict[str, Any]] = suite_calls(suite)
    for record in records:
        task_rate = rates.setdefault(record["task"], rng.beta(rate * scale, (1 - rate) * scale))
        if record["condition"].startswith("vacuum") and rng.random() < task_rate:
            record.update(outcome="verdict", answer="1")
        record.update(more)
    return pd.DataFrame(records)


def vacuum_calls(suite: jrh.Suite, **known: Any) -> pd.DataFrame:
    """The vacuum calls alone: all that the axis of most plans is about."""
    calls = judged(suite, **known)
    return calls[calls["condition"].str.startswith("vacuum")]


def refusal(**wish: Any) -> str:
    with pytest.raises(RecipeError) as found:
        jrh.plan(**{"suite": "datasheet-short", "axis": "dark_current", **wish})
    assert "\n" not in str(found.value)
    return str(found.value)


def test_a_suite_of_the_planned_size_reads_an_interval_of_the_planned_width() -> None:
    plan = jrh.plan(axis="dark_current", width=0.35, rate=0.3, icc=0.3)
    suite = jrh.datasheet_suite(n_tasks=plan.tasks)
    assert (plan.items, plan.calls) == (3 * plan.tasks, 6 * plan.tasks)
    assert (plan.suite_items, plan.suite_calls) == (len(suite), 2 * len(suite))
    vacuum = [item for item in suite.items if item.condition.startswith("vacuum")]
    assert (plan.items, plan.calls) == (len(vacuum), 2 * len(vacuum))
    widths = []
    for seed in range(6):
        calls = vacuum_calls(suite, rate=0.3, icc=0.3, seed=seed)
        reading = jrh.measure(calls).estimates["dark_current"]
        widths.append(reading.cluster_high - reading.cluster_low)
    assert np.mean(widths) == pytest.approx(0.35, rel=0.1)


def test_a_narrower_interval_and_a_smaller_difference_need_more() -> None:
    wide, narrow = (jrh.plan("datasheet-short", axis="dark_current", width=width).calls for width in (0.4, 0.3))
    far, near = (
        jrh.plan("datasheet-short", axis="dark_current", difference=difference).calls for difference in (0.8, 0.6)
    )
    assert wide < narrow
    assert far < near


def test_more_tasks_than_there_are_is_said_with_what_those_give_and_where_more_come_from() -> None:
    plan = jrh.plan("datasheet-paper", axis="dark_current", width=0.2, rate=0.3)
    assert plan.available == 10 < plan.tasks
    (note,) = [note for note in plan.notes if "are needed" in note]
    assert "can have 10, which give an interval 0." in note
    assert "own_tasks.md" in note
    assert jrh.plan("datasheet-short", axis="dark_current", width=0.5).available == 28


def test_every_number_that_was_assumed_is_said_and_shown() -> None:
    plan = jrh.plan("datasheet-short", axis="dark_current", width=0.5, icc=0.1)
    assert dict(plan.basis) == {"rate": "assumed", "icc": "stated", "repeat": "assumed"}
    assert (plan.spread.rate, plan.spread.icc) == (0.5, 0.1)
    assert any("Assumed" in note and "rate, repeat" in note for note in plan.notes)
    assert "0.50 (assumed)" in plan.to_markdown()
    assert "0.10 (stated)" in plan.to_markdown()


def test_replicates_are_asked_and_buy_little() -> None:
    once, thrice = (
        jrh.plan("datasheet-short", axis="raw_false_preference", width=0.4, replicates=n, icc=0.5) for n in (1, 3)
    )
    assert thrice.calls == 3 * thrice.tasks * once.calls // once.tasks
    assert once.tasks / 2 < thrice.tasks <= once.tasks
    assert any("Asking everything twice" in note for note in once.notes)


def test_a_pilot_tells_rate_and_icc_and_its_records_are_the_design() -> None:
    suite = jrh.load_suite("datasheet-paper")
    pilot = vacuum_calls(suite, rate=0.3, icc=0.6, seed=3)
    plan = jrh.plan(axis="dark_current", width=0.3, pilot=pilot)
    assert set(plan.basis.values()) == {"pilot"}
    assert plan.spread.rate == pytest.approx(pilot["answer"].ne("").mean(), abs=0.02)
    assert 0.3 < plan.spread.icc < 0.9
    assert plan.calls == 12 * plan.tasks
    stated = jrh.plan(axis="dark_current", width=0.3, pilot=pilot, rate=0.5, icc=0.0)
    assert (stated.spread.rate, stated.spread.icc, stated.basis["rate"]) == (0.5, 0.0, "stated")


@pytest.mark.slow
def test_two_pilots_that_go_together_need_fewer_tasks_than_unrelated_ones() -> None:
    suite = jrh.load_suite("datasheet-paper")
    one, alike, other = (vacuum_calls(suite, rate=0.5, icc=0.6, seed=seed) for seed in (1, 1, 2))
    together, apart = (
        jrh.plan(axis="dark_current", difference=0.5, pilot=[one, second], icc=0.5).tasks for second in (alike, other)
    )
    assert together < 0.6 * apart


def test_dollars_and_minutes_are_those_of_the_models_and_an_unknown_price_is_no_zero() -> None:
    known = jrh.plan("datasheet-short", axis="dark_current", width=0.5, models=MODEL)
    (row,) = known.models.to_dict("records")
    assert row["model"] == MODEL
    assert 0 < known.usd == row["usd"] < row["suite_usd"]
    assert known.minutes == pytest.approx(known.calls * 2 / 32 / 60)
    dearer = jrh.plan("datasheet-short", axis="dark_current", width=0.5, models=[MODEL], prices={MODEL: (1.5, 6.0)})
    assert dearer.usd == pytest.approx(10 * known.usd, rel=0.01)
    both = jrh.plan("datasheet-short", axis="dark_current", width=0.5, models=[MODEL, UNKNOWN])
    assert both.usd is None
    assert both.models["usd"].isna().tolist() == [False, True]
    assert any(UNKNOWN in note and "not 0" in note for note in both.notes)
    assert "unknown" in both.to_markdown()
    assert jrh.plan("datasheet-short", axis="dark_current", width=0.5).usd is None


def test_a_pilots_tokens_seconds_and_cost_are_used() -> None:
    suite = jrh.load_suite("datasheet-short")
    facts = {"input_tokens": 1000, "output_tokens": 100, "cost_usd": 0.002, "latency_s": 4.0, "cached": False}
    pilot = judged(suite, rate=0.3, icc=0.3, **facts)
    plan = jrh.plan(suite, axis="dark_current", width=0.5, pilot=pilot, models=MODEL, prices={MODEL: (1.0, 10.0)})
    assert plan.usd == pytest.approx(0.002 * plan.calls)
    own = jrh.plan(suite, axis="dark_current", width=0.5, pilot=pilot)
    assert own.usd == pytest.approx(0.002 * own.calls)
    assert own.minutes == pytest.approx(own.calls * 4 / 32 / 60)
    limited = jrh.plan(suite, axis="dark_current", width=0.5, pilot=pilot, requests_per_minute=1)
    assert limited.minutes == pytest.approx(limited.calls)
    unpaid = jrh.plan(suite, axis="dark_current", width=0.5, pilot=pilot.assign(cost_usd=None))
    assert unpaid.usd is None


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({}, "got neither"),
        ({"width": 0.1, "difference": 0.1}, "got both"),
        ({"width": 0.0}, "0 < width < 1"),
        ({"width": 1.0}, "0 < width < 1"),
        ({"width": float("nan")}, "0 < width < 1"),
        ({"difference": -0.2}, "0 < difference < 1"),
        ({"width": 0.2, "power": 1.0}, "power < 1"),
        ({"width": 0.2, "icc": 1.5}, "0 <= icc <= 1"),
        ({"width": 0.2, "rate": -0.1}, "0 <= rate <= 1"),
        ({"width": 0.2, "axis": "dark_curent"}, "Did you mean 'dark_current'?"),
        ({"width": 0.2, "axis": "threshold_75"}, "'threshold_75' is no share"),
        ({"width": 0.2, "axis": "natural/accuracy"}, "does not measure"),
        ({"width": 0.2, "replicates": 0}, "1 or more"),
        ({"width": 0.2, "replicates": 1.5}, "whole number"),
        ({"width": 0.2, "concurrency": True}, "whole number"),
        ({"width": 0.2, "seconds_per_call": -5}, "`seconds_per_call` must be a number over 0"),
        ({"width": 0.2, "seconds_per_call": float("inf")}, "`seconds_per_call` must be a number over 0"),
        ({"width": 0.2, "requests_per_minute": 0}, "`requests_per_minute` must be a number over 0"),
        ({"width": 0.2, "requests_per_minute": -5}, "`requests_per_minute` must be a number over 0"),
        ({"width": 0.2, "rate": "x"}, "0 <= rate <= 1"),
        ({"width": 0.2, "icc": float("nan")}, "0 <= icc <= 1"),
        ({"width": 0.2, "pilot": 5}, "`pilot` must be an evaluation, a run id or call records"),
        ({"width": 0.2, "axis": None}, "`axis` must name what"),
        ({"width": 0.2, "pilot": ["0" * 32, "1" * 32], "tracking_uri": "STORE"}, "no run"),
    ],
)
def test_an_impossible_wish_is_refused_in_one_line(wish: dict[str, Any], words: str, store_uri: str) -> None:
    wish = {key: store_uri if value == "STORE" else value for key, value in wish.items()}
    assert words in refusal(**wish)


@pytest.mark.parametrize("wish", [{"width": 0.5, "rate": 0.0}, {"width": 0.6, "icc": 1.0}, {"difference": 0.95}])
def test_the_ends_of_what_can_be_stated_are_planned_too(wish: dict[str, float]) -> None:
    plan = jrh.plan("datasheet-short", axis="dark_current", **wish)
    assert plan.tasks >= (10 if "width" in wish else 6)
    assert 0 < plan.detectable < 1


def test_pilots_on_other_tasks_are_refused() -> None:
    pilots = [judged(jrh.datasheet_suite(n_tasks=4, seed=seed), rate=0.5, icc=0.5) for seed in (0, 1)]
    pilots[1]["task"] = pilots[1]["task"] + " of another suite"
    assert "share 0 tasks" in refusal(difference=0.3, pilot=pilots)
    assert "A width has one pilot" in refusal(width=0.3, pilot=pilots)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def test_a_logged_run_is_a_pilot_by_its_id_and_in_hand(store_uri: str, home: None) -> None:
    options = {"experiment": "tests", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    done = jrh.evaluate(jrh.scripted.profile("Qwen14B"), "datasheet-short", **options)
    in_hand, by_id = (
        jrh.plan(axis="dark_current", width=0.4, pilot=pilot, tracking_uri=store_uri) for pilot in (done, done.run_id)
    )
    assert in_hand.to_dict() | {"models": []} == by_id.to_dict() | {"models": []}
    assert in_hand.suite == "datasheet-short"
    assert in_hand.basis["rate"] == "pilot"
    # A calibration weight answers at once, which says nothing of a model.
    assert by_id.minutes == pytest.approx(by_id.calls * 2 / 32 / 60)
    assert any("simulated and tells no seconds: minutes are at 2 s per call" in note for note in by_id.notes)


def test_a_run_of_another_kind_is_no_pilot(store_uri: str) -> None:
    other = Store(store_uri, "tests").create_run("other", tags=first_tags("compare", simulated=False))
    assert "only evaluations can be pilots of a plan" in refusal(width=0.3, pilot=other, tracking_uri=store_uri)


def test_only_what_was_assumed_is_said_to_be_stated_better() -> None:
    size = {"suite": "datasheet-short", "axis": "dark_current", "width": 0.4}
    bare, stated = jrh.plan(**size), jrh.plan(**size, rate=0.2, icc=0.2)
    assert any(note.endswith("A pilot tells, or state `rate` and `icc` and `repeat`.") for note in bare.notes)
    assert any(note.endswith(" repeat. A pilot tells, or state `repeat`.") for note in stated.notes)
    whole = jrh.plan(**size, rate=0.2, icc=0.2, repeat=0.5)
    assert not any("Assumed" in note for note in whole.notes)


def stopped_pilot(suite: jrh.Suite) -> SimpleNamespace:
    """Vacuum calls of which each pair was asked in one order only, as `jrh.until` leaves them, seen as a run is."""
    calls = judged(suite, rate=0.4, icc=0.3)
    half = calls[calls["condition"].str.startswith("vacuum") & (calls["order"] == "uv")]
    judge = SimpleNamespace(label="judge", settings={}, simulated=False)
    return SimpleNamespace(calls=half, suite=suite, judge=judge)


def test_calls_of_half_asked_pairs_of_a_stopped_pilot_tell_too() -> None:
    pilot = stopped_pilot(jrh.datasheet_suite(n_tasks=10))
    plan = jrh.plan(axis="dark_current", width=0.5, pilot=pilot)
    shown = pilot.calls["outcome"] == "verdict"
    assert plan.basis["rate"] == "pilot"
    assert plan.spread.rate == pytest.approx((shown.sum() + 0.5) / (len(shown) + 1))


def test_what_a_stopped_pilot_was_not_asked_is_said_to_be_missing_from_it_and_not_from_the_suite() -> None:
    pilot = stopped_pilot(jrh.datasheet_suite(n_tasks=10))
    for axis in ("raw_false_preference", "positional_false_preference"):
        said = refusal(suite=None, axis=axis, width=0.5, pilot=pilot)
        assert "The pilot 'judge' has no calls of" in said
        assert "state `rate` and `icc`" in said
    records = judged(pilot.suite, rate=0.4, icc=0.3)
    assert "The pilot does not measure" in refusal(suite=None, axis="natural/accuracy", width=0.5, pilot=records)


@pytest.mark.parametrize(("rate", "power"), [(0.9, 0.8), (0.5, 0.9)])
def test_the_planned_size_reaches_the_power_asked_for_by_its_own_account(rate: float, power: float) -> None:
    plan = jrh.plan(
        "datasheet-short", axis="dark_current", difference=0.45 if rate == 0.9 else 0.75, rate=rate, power=power
    )
    assert power <= plan.expected < 1


def test_a_plan_is_json_a_page_and_a_card_that_escape_what_they_are_given() -> None:
    name = "<b>x</b>|[a](http://b)"
    plan = jrh.plan("datasheet-short", axis="dark_current", difference=0.6, models=[name])
    assert json.loads(json.dumps(plan.to_dict(), allow_nan=False))["tasks"] == plan.tasks
    page, card = plan.to_markdown(), plan._repr_html_()
    assert "<b>" not in page + card
    assert "[a](" not in page
    assert f"{plan.tasks:,} tasks" in page
    assert "3 judges" in page
    assert set(plan.several) == {3, 4, 6}
    assert plan.tasks < plan.several[3] < plan.several[6]
    assert plan.detectable == pytest.approx(0.6)
    assert repr(plan).startswith("Plan(dark current, two judges 0.6 apart")


def test_reliability_tests_can_be_planned_by_their_score() -> None:
    items = [
        Item(
            id=f"{source}.{test}",
            task=f"s{source}",
            condition=test,
            kind="response",
            instruction="Answer.",
            response=f"{test} of {source}",
            expected="yes" if source % 2 else "no",
            answers=("no", "yes"),
        )
        for source in range(6)
        for test in ("baseline", "label_flip")
    ]
    suite = jrh.Suite(name="own", items=items)
    plan = jrh.plan(suite, axis="label_flip/accuracy", width=0.3, rate=0.8)
    assert plan.calls == plan.tasks > 10
    assert plan.available == 6
    assert any("own_tasks.md" in note for note in plan.notes)
    with pytest.raises(RecipeError, match="Did you mean 'label_flip/accuracy'"):
        jrh.plan(suite, axis="label_flip/acuracy", width=0.3)
    for axis in ("all/accuracy", "reliability/mean"):
        with pytest.raises(RecipeError, match=r"over several tests.* plan one of them.*label_flip/accuracy"):
            jrh.plan(suite, axis=axis, width=0.3)


def test_an_axis_whose_units_the_answers_decide_cannot_be_planned_and_the_refusal_says_why() -> None:
    assert "not known before it has answered" in refusal(
        suite="pointwise-datasheet", axis="pointwise/monotonicity", width=0.3
    )


def test_a_width_is_a_mean_and_one_suite_in_ten_is_wider() -> None:
    expected = expected_interval(Spread(rate=0.1, icc=0.3, repeat=0.5), Layout(((1,) * 4,)), 28)
    assert expected.width < expected.wide < 2 * expected.width


def test_a_pilot_of_few_tasks_knows_the_number_of_tasks_roughly() -> None:
    assert tasks_by_pilot(100, 1) is None
    few, many = tasks_by_pilot(100, 10), tasks_by_pilot(100, 200)
    assert few is not None
    assert many is not None
    assert few[0] < many[0] < 100 < many[1] < few[1]
