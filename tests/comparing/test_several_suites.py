"""`jrh.compare` on several suites side by side, against the printed figures of the Harness paper and known answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.compare import compare as command
from jrh_mlflow.comparing.across_suites import AnsweredSuite, across_suites, mean_over_suites, right_difference
from jrh_mlflow.comparing.across_suites_view import suites_verdict
from jrh_mlflow.comparing.compare import Comparison, SuitesComparison
from jrh_mlflow.comparing.jury.panels import BestPanel
from jrh_mlflow.comparing.jury.votes import votes
from jrh_mlflow.engine import ask_calls, plan_calls
from jrh_mlflow.engine.runner import calls_frame
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, intervals
from jrh_mlflow.schema.items import Item
from jrh_mlflow.stats.proportions import cluster_interval
from tests.logged_runs import json_of

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "judge_reliability_harness.json").read_text()
)
N = GOLDEN["n_per_test"]
LABELS = ("no violation", "violation")
RIGHT = {"agent_perturbation": "violation", "agent_positives": "no violation"}
PRICES = GOLDEN["cost_per_accuracy_point_usd"]
BENCHMARKS = ("Fortress", "Persuade", "HarmBench", "AgentHarm")
Judge = Callable[[jrh.Presentation], jrh.Answer]


def printed(value: float, places: int) -> str:
    """As the paper prints: 1/16 is 0.063, half a unit is rounded up."""
    unit = Decimal(1).scaleb(-places)
    return str(Decimal(repr(round(value, 12))).quantize(unit, rounding=ROUND_HALF_UP))


def item(task: str, condition: str, number: int, answers: tuple[str, ...], expected: str, **more: Any) -> Item:
    return Item(
        id=f"{task}/{condition}",
        task=task,
        condition=condition,
        kind="response",
        instruction="Book a trip.",
        rubric="Is there a violation?",
        response=f"{condition} {number}",
        answers=answers,
        expected=expected,
        **more,
    )


def agent_harm() -> jrh.Suite:
    items = [item(f"{test}-{n}", test, n, LABELS, right) for test, right in RIGHT.items() for n in range(N)]
    return jrh.Suite(name="AgentHarm", items=items)


def named(name: str, judge: Callable[[str, int], str], *, usd: float | None = None) -> Judge:
    def answer(presentation: jrh.Presentation) -> jrh.Answer:
        condition, number = str(presentation.response).split()
        return jrh.Answer(value=judge(condition, int(number)), cost_usd=usd)

    answer.__qualname__ = name
    return answer


def as_published(name: str) -> Judge:
    counts = GOLDEN["judges"][name]

    def judge(test: str, number: int) -> str:
        wrong = LABELS[RIGHT[test] == LABELS[0]]
        return RIGHT[test] if number < counts[f"{test}_correct"] else wrong

    return named(name, judge)


@pytest.fixture(scope="module")
def place(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        yield {"experiment": "several suites", "tracking_uri": store_uri}


def evaluated(judge: Judge, suite: jrh.Suite, place: dict[str, Any]) -> str:
    return jrh.evaluate(judge, suite, progress=False, traces="none", **place).run_id


def answered(suite: jrh.Suite, judges: Iterable[Judge]) -> AnsweredSuite:
    """A suite with the calls of its judges, of which nothing is logged."""

    def calls(judge: Judge) -> pd.DataFrame:
        asked = resolve_judge(judge)
        return calls_frame(ask_calls(asked, plan_calls(suite, asked, replicates=1)).records)

    return AnsweredSuite(name=suite.name, suite=suite, calls={judge.__qualname__: calls(judge) for judge in judges})


def test_appendix_g_comes_out_to_the_printed_digits_and_its_trios_with_both_errors() -> None:
    found = across_suites([answered(agent_harm(), map(as_published, GOLDEN["judges"]))], definitions="paper")
    (suite,) = found.suites
    for name, counts in GOLDEN["judges"].items():
        own = suite.judges[name]
        rates = {"accuracy": own.accuracy, "fpr": own.further["fpr"], "fnr": own.further["fnr"]}
        for axis, reading in rates.items():
            assert isinstance(reading, Estimate)
            assert printed(reading.value, 3) == f"{counts[axis]:.3f}"
        assert printed(1 - rates["accuracy"].value, 3) == f"{counts['error_rate']:.3f}"
        assert {test: round(score.value * N) for test, score in own.scores.items()} == {
            test: counts[f"{test}_correct"] for test in RIGHT
        }
    # Print adds up to 1.001: both shares are rounded up at 13/16.
    assert (GOLDEN["judges"]["Gemini 2.5 Pro"]["accuracy"], GOLDEN["judges"]["Gemini 2.5 Pro"]["error_rate"]) == (
        0.813,
        0.188,
    )
    # Errors of the judges are nested here, so that the majority is the middle one of each test.
    trio = next(trio for trio in suite.trios if set(trio.panel) == {"GPT-4o", "Claude Opus 4.5", "Gemini 2.5 Pro"})
    assert {axis: trio.readings[axis].value for axis in ("fpr", "fnr")} == {"fpr": 1 / N, "fnr": 2 / N}
    assert isinstance(suite.best, BestPanel)
    assert len(suite.best.tried) == 4
    assert {"accuracy", "fpr", "fnr"} <= set(suite.best.readings)
    assert suite.judges["GPT-4o"].mean.value == (14 + 15) / 32
    # 14 + 14 + 14 + 11 of 64, and 57 of 64.
    assert suite.tests["agent_perturbation"].value == 53 / 64
    assert isinstance(found.overall["GPT-4o"], NotEstimable)
    assert "one suite" in suites_verdict(found).sentences[0]


@pytest.fixture(scope="module")
def cost_table() -> list[AnsweredSuite]:
    """Four judges that are always right on four suites, at what makes the printed dollars per point."""

    def suite(name: str) -> jrh.Suite:
        items = [item(f"{name}-{n}", "agent_positives", n, LABELS, LABELS[0]) for n in range(4)]
        return jrh.Suite(name=name, items=[*items, item(f"{name}-0", "baseline", 0, LABELS, LABELS[0])])

    def paid(name: str, usd: float) -> Judge:
        # The paper has no baseline: what it costs is in no number of the paper.
        def answer(presentation: jrh.Presentation) -> jrh.Answer:
            is_baseline = str(presentation.response).startswith("baseline")
            return jrh.Answer(value=LABELS[0], cost_usd=9.0 if is_baseline else 100 * usd / 4)

        answer.__qualname__ = name
        return answer

    return [
        answered(suite(benchmark), (paid(judge, PRICES[benchmark][judge]) for judge in PRICES["Overall"]))
        for benchmark in BENCHMARKS
    ]


def test_the_cost_table_of_the_paper_comes_out_to_the_printed_digits(cost_table: list[AnsweredSuite]) -> None:
    found = across_suites(cost_table, definitions="paper")
    for suite in found.suites:
        for judge, own in suite.judges.items():
            assert own.price.value == pytest.approx(PRICES[suite.name][judge])
    for judge, price in found.prices.items():
        places = len(str(PRICES["Overall"][judge]).partition(".")[2])
        assert float(printed(price.value, places)) == PRICES["Overall"][judge]
        # Always right on four suites: an interval has a width all the same.
        assert price.value < price.cluster_high


def test_by_the_protocol_overall_dollars_are_all_dollars_over_the_mean_accuracy(
    cost_table: list[AnsweredSuite],
) -> None:
    found = across_suites(cost_table)
    for judge in PRICES["Overall"]:
        dollars = sum(100 * PRICES[benchmark][judge] + 9 for benchmark in BENCHMARKS)
        assert found.prices[judge].value == pytest.approx(dollars / 100)
    assert found.leader is not None
    assert len(found.rivals) == 3
    assert "not differ significantly from" in suites_verdict(found).sentences[0]


def half_wrong(test: str, number: int) -> str:
    return RIGHT[test] if number % 2 else LABELS[RIGHT[test] == LABELS[0]]


def always_right(test: str, number: int) -> str:
    return RIGHT[test]


@pytest.fixture(scope="module")
def two_suites(place: dict[str, Any]) -> dict[str, str]:
    def suite(name: str, n: int) -> jrh.Suite:
        decided = [{"test": "agent_perturbation", "message": 3, "state": "accepted", "n": 14}]
        decided += [{"test": "agent_perturbation", "message": 5, "state": "edited", "n": 2}]
        decided += [{"test": "format_invariance_1", "message": None, "state": "exempt", "n": 9}]
        items = [item(f"{test}-{k}", test, k, LABELS, right) for test, right in RIGHT.items() for k in range(n)]
        return jrh.Suite(name=name, items=items, origin={"decided": decided} if name == "one" else {})

    suites = {"one": suite("one", 20), "two": suite("two", 30)}
    judges = {"sure": always_right, "half": half_wrong}
    return {
        f"{judge} on {name}": evaluated(named(judge, answer, usd=0.001), own, place)
        for name, own in suites.items()
        for judge, answer in judges.items()
    }


def test_overall_is_the_mean_over_suites_and_says_so(two_suites: dict[str, str], place: dict[str, Any]) -> None:
    done = jrh.compare(list(two_suites.values()), reference="sure", run_name="both", **place)
    assert isinstance(done, SuitesComparison)
    overall = done.across.overall["half"]
    assert isinstance(overall, Estimate)
    assert (overall.value, overall.n) == (0.5, 100)
    assert overall.cluster_low < 0.5 < overall.cluster_high
    assert done.across.rivals == []
    assert done.verdict.sentences[0].startswith("Over 2 suites that weigh the same, sure (1.00 [")
    shortfall = done.across.suites[0].judges["half"].shortfall
    assert isinstance(shortfall, Estimate)
    assert shortfall.value == 0.5
    assert done.across.suites[0].judges["sure"].shortfall is None
    markdown = done.to_markdown()
    for words in (
        "| Overall |",
        "Judges on one",
        "Judges on two",
        "Below the reference judge",
        "never pooled over suites",
        "14/16 [",
        "2/16 [",
    ):
        assert words in markdown
    run = MlflowClient(place["tracking_uri"]).get_run(str(done.run_id))
    assert run.data.tags["jrh.kind"] == "compare"
    assert run.data.tags["jrh.verdict"] == done.verdict.sentences[0]
    assert run.data.params["compare.definitions"] == "protocol"
    assert run.data.params["compare.runs"] == ", ".join(two_suites.values())
    assert run.data.metrics["compare/accuracy/overall/half/rate"] == 0.5
    assert run.data.metrics == pytest.approx(done.metrics)
    kept = json_of(place["tracking_uri"], str(done.run_id), "comparison.json")
    assert kept["overall"]["half"]["value"] == 0.5
    page = json_of(place["tracking_uri"], str(done.run_id), "page.json")
    assert page["lead"] == done.verdict.sentences[0]
    assert set(done.to_frame()["suite"]) == {"one", "two", "Overall"}
    assert "<script" not in done._repr_html_()


def test_a_judge_that_was_not_measured_on_every_suite_has_no_overall_number(
    two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    runs = [run for name, run in two_suites.items() if name != "half on two"]
    done = jrh.compare(runs, log=False, **place)
    missing = done.across.overall["half"]
    assert isinstance(missing, NotEstimable)
    assert missing.reason == "two: not measured there"
    assert done.across.leader is None


def test_the_judges_of_each_suite_are_tested_against_each_other_within_it(
    two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    done = jrh.compare(list(two_suites.values()), baseline=two_suites["half on one"], log=False, **place)
    assert set(done.contrasts) == {"one", "two"}
    for suite, found in done.contrasts.items():
        alone = [run for name, run in two_suites.items() if name.endswith(f"on {suite}")]
        by_itself = jrh.compare(alone, baseline=two_suites[f"half on {suite}"], log=False, **place)
        assert found.deciding == by_itself.contrasts.deciding
        assert found.different
        assert found.baseline == "half"


def test_one_suite_is_read_by_the_papers_definitions_or_against_a_reference(
    two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    runs = [two_suites["sure on one"], two_suites["half on one"]]
    assert isinstance(jrh.compare(runs, log=False, **place), Comparison)
    (suite,) = jrh.compare(runs, definitions="paper", log=False, **place).across.suites
    assert suite.judges["half"].further["fpr"].value == 0.5
    (suite,) = jrh.compare(runs, reference=runs[0], log=False, **place).across.suites
    assert suite.judges["half"].shortfall.value == 0.5


def test_runs_that_share_neither_a_suite_nor_a_judge_are_refused_with_what_differs(
    two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    with pytest.raises(RecipeError, match="are on different suites: sha256"):
        jrh.compare([two_suites["sure on one"], two_suites["half on two"]], log=False, **place)


def test_the_command_prints_the_tables_and_json(two_suites: dict[str, str], place: dict[str, Any]) -> None:
    common = [*two_suites.values(), "--no-log", "--tracking-uri", place["tracking_uri"]]
    shown = CliRunner().invoke(command, common)
    assert shown.exit_code == 0, shown.output
    assert "Suites and judges" in shown.output
    data = json.loads(CliRunner().invoke(command, [*common, "--definitions", "paper", "--json"]).output)
    assert (data["definitions"], data["run_id"]) == ("paper", None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda runs: {"runs": runs[:1]}, "at least two runs"),
        (lambda runs: {"definitions": "papper"}, "Did you mean 'paper'"),
        (lambda runs: {"reference": "shure"}, "Did you mean 'sure'"),
    ],
)
def test_what_cannot_stand_side_by_side_is_refused_with_the_reason(
    change: Callable[[list[str]], dict[str, Any]], words: str, two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    runs = list(two_suites.values())
    with pytest.raises(RecipeError, match=words):
        jrh.compare(**{"runs": runs, "log": False, **place, **change(runs)})


def test_two_judges_of_one_name_are_told_apart_and_the_same_judge_twice_is_refused(
    two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    again = jrh.replay(f"runs:/{two_suites['sure on one']}", **place)
    done = jrh.compare([again, two_suites["sure on one"]], definitions="paper", log=False, **place)
    assert len(done.across.judges) == 2
    pairs, asked = jrh.datasheet_suite(n_tasks=2, depth=1), {"progress": False, "traces": "none", **place}
    twice = [jrh.evaluate(jrh.scripted.AlwaysTie(), pairs, **asked) for _ in range(2)]
    with pytest.raises(RecipeError, match="are the same judge"):
        jrh.compare([*twice, two_suites["sure on one"]], log=False, **place)


def test_suites_of_pairs_stand_beside_and_make_no_overall_number(
    two_suites: dict[str, str], place: dict[str, Any]
) -> None:
    pairs = jrh.datasheet_suite(n_tasks=2, depth=1)
    oracle = jrh.evaluate(jrh.scripted.Oracle(), pairs, progress=False, traces="none", **place)
    done = jrh.compare([*two_suites.values(), oracle], log=False, **place)
    assert {suite.read_by for suite in done.across.suites} == {"all/accuracy", "ability"}
    missing = done.across.overall["sure"]
    assert isinstance(missing, NotEstimable)
    assert "read by ability" in missing.reason
    assert any("Simulated" in note for note in done.notes)


def test_a_scale_has_the_proximity_of_its_answers() -> None:
    levels = ("1", "2", "3", "4", "5")
    essays = jrh.Suite(name="essays", items=[item(f"t{n}", "typos", n, levels, levels[n % 5]) for n in range(20)])

    def one_off(condition: str, number: int) -> str:
        return levels[max(0, number % 5 - 1)]

    judges = [named("one off", one_off), named("exact", lambda condition, number: levels[number % 5])]
    (read,) = across_suites([answered(essays, judges)]).suites
    # Four of five answers are one of four steps off.
    assert read.judges["one off"].further["proximity"].value == pytest.approx(1 - 0.8 / 4)
    assert read.judges["exact"].further["proximity"].value == 1


def test_a_mean_over_suites_adds_up_the_squares_of_their_arms() -> None:
    def known(value: float, arm: float) -> Estimate:
        ends = (value - arm, value + arm)
        return Estimate(value=value, n=10, excluded=0, n_clusters=10, method="", **intervals(ends, ends))

    mean = mean_over_suites([("a", known(0.5, 0.3)), ("b", known(0.7, 0.4))])
    assert isinstance(mean, Estimate)
    assert (mean.value, mean.cluster_low, mean.cluster_high) == pytest.approx((0.6, 0.35, 0.85))


@pytest.mark.parametrize(("rates", "correlation"), [((0.98,) * 8, 0.3), ((0.995,) * 4, 0.0), ((0.9, 0.8, 0.7), 0.3)])
def test_an_interval_over_suites_holds_the_truth_near_one_too(rates: tuple[float, ...], correlation: float) -> None:
    luck, n_sources, calls, held = np.random.default_rng(0), 10, 4, 0
    sizes = np.full(n_sources, float(calls))
    for _ in range(150):
        suites = []
        for rate in rates:
            shape = (1 / correlation - 1) if correlation else 0
            chance = luck.beta(rate * shape, (1 - rate) * shape, n_sources) if shape else np.full(n_sources, rate)
            right = luck.binomial(calls, chance).astype(float)
            ends, share = cluster_interval(right, sizes), float(right.sum() / sizes.sum())
            own = Estimate(value=share, n=40, excluded=0, n_clusters=10, method="", **intervals(ends, ends))
            suites.append(("suite", own))
        mean = mean_over_suites(suites)
        assert isinstance(mean, Estimate)
        held += mean.cluster_low <= np.mean(rates) <= mean.cluster_high <= 1
    assert held / 150 >= 0.93


def test_the_difference_of_two_judges_is_paired_and_has_a_width(two_suites: dict[str, str], store_uri: str) -> None:
    from jrh_mlflow.tracking.runs.read import load_runs

    sure, half = load_runs([two_suites[f"{name} on one"] for name in ("sure", "half")], tracking_uri=store_uri)
    table = votes({"sure": sure.calls, "half": half.calls}, labels=sure.suite.labels)
    difference = right_difference(table, "sure", "half")
    assert isinstance(difference, Estimate)
    assert (difference.value, difference.n) == (0.5, 40)
    assert 0 < difference.cluster_low < 0.5 < difference.cluster_high < 1
