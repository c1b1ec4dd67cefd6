"""A chosen metric stands for labelled tests, with n and intervals; errors are never averaged with shares."""

from __future__ import annotations

import hashlib

import pandas as pd
import pytest
from sklearn import metrics

import jrh_mlflow as jrh
from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.scoring import metric as scoring
from jrh_mlflow.show.sheets import sheet_lines

TESTS = ("padding", "typos")


def calls(labels: tuple[str, ...], *, n: int = 24) -> list[dict[str, object]]:
    """Answers by hash: of each test and the baseline, and of a stability test with three replicates; one call fails."""
    rows = []
    for source in range(n):
        for test, replicates in {"baseline": 1, **dict.fromkeys(TESTS, 1), "stochastic_stability": 3}.items():
            for replicate in range(replicates):
                digest = hashlib.sha256(f"{source}{test}{replicate}{labels}".encode()).digest()
                expected = labels[source % len(labels)]
                failed = (source, test) == (5, "typos")
                rows.append(
                    {
                        **{"suite_item": f"{test}-{source}", "task": f"s{source}", "condition": test, "delta": None},
                        **{"order": "", "better": "", "replicate": replicate, "expected": expected},
                        "outcome": "error" if failed else "verdict",
                        "answer": "" if failed else expected if digest[0] < 150 else labels[digest[1] % len(labels)],
                    }
                )
    return rows


def pairs(rows: list[dict[str, object]], test: str) -> tuple[list[object], list[object]]:
    used = [row for row in rows if row["condition"] == test and row["outcome"] == "verdict"]
    return [row["expected"] for row in used], [row["answer"] for row in used]


@pytest.mark.parametrize("name", ["f1_score", "balanced_accuracy_score", "matthews_corrcoef", "cohen_kappa_score"])
@pytest.mark.parametrize("labels", [("fail", "pass"), ("a", "b", "c")])
def test_a_function_of_sklearn_stands_for_every_labelled_test(name: str, labels: tuple[str, ...]) -> None:
    rows = calls(labels)
    report = jrh.measure(rows, labels=labels, metric=name, n_resamples=200)
    for test in (*TESTS, "baseline"):
        expected, given = pairs(rows, test)
        average = {"pos_label": "pass"} if len(labels) == 2 else {"average": "macro"}
        wanted = getattr(metrics, name)(expected, given, **(average if name == "f1_score" else {}))
        found = report.estimates[f"{test}/{name}"]
        assert found.value == pytest.approx(wanted)
        assert (found.n, found.excluded, found.statistic) == (len(given), 24 - len(given), "value")
        assert found.cluster_low < found.value < found.cluster_high
    assert report.scores["padding"] is report.estimates[f"padding/{name}"]
    assert report.scores["stochastic_stability"] is report.estimates["stochastic_stability/unanimity"]
    averaged = report.scores if name in ("f1_score", "balanced_accuracy_score") else TESTS
    assert report.summary["mean"] == pytest.approx(sum(report.scores[test].value for test in averaged) / len(averaged))
    assert report.summary["mean_ci_low"] < report.summary["mean"] < report.summary["mean_ci_high"]
    assert report.metric == report.to_dict()["metric"] == name
    assert f"A test's score is its {name};" in report.to_markdown()
    assert f"padding/{name}" in report.headline


@pytest.mark.parametrize(
    ("name", "axis"), [("mean_absolute_error", "mae"), ("mae", "mae"), ("mean_squared_error", None)]
)
def test_an_error_is_said_to_be_one_and_is_in_no_mean_with_shares(name: str, axis: str | None) -> None:
    rows = calls(("1", "2", "3", "4"))
    report = jrh.measure(rows, labels=("1", "2", "3", "4"), metric=name, n_resamples=200)
    expected, given = (list(map(int, side)) for side in pairs(rows, "padding"))
    wanted = (metrics.mean_squared_error if axis is None else metrics.mean_absolute_error)(expected, given)
    assert report.estimates[f"padding/{name}"].value == pytest.approx(wanted)
    if axis is not None:
        assert report.estimates[f"padding/{name}"].value == pytest.approx(report.estimates["padding/mae"].value)
    assert report.summary["n_tests"] == 2
    assert report.summary["mean"] == pytest.approx(sum(report.scores[test].value for test in TESTS) / 2)
    assert report.summary["mean_ci_low"] < report.summary["mean"] < report.summary["mean_ci_high"]
    assert report.lower_is_better
    assert "an error: lower is better" in report.to_markdown()
    worst = max(TESTS, key=lambda test: report.scores[test].value)
    assert report.profile.partition("weakest test ")[2].removeprefix("not decided: ").startswith(worst)


APART = ("r2_score", "d2_absolute_error_score", "explained_variance_score", "matthews_corrcoef", "kappa")
OWN_APART = ("spearman", "pearson", "ccc", "qwk", "kappa_quadratic", "mae", "max_error", "zero_one_loss")
SHARES = ("accuracy", "balanced_accuracy", "f1", "precision", "recall", "jaccard")
COMPARED = ("r2_score", "mae", "f1")
"""A comparison reads the scores of reports: one name of each kind tells that it does."""


@pytest.mark.parametrize("name", [*APART, *OWN_APART, *SHARES])
def test_only_shares_are_averaged_with_shares_in_a_report_and_in_a_comparison(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The comparison resamples each judge as often as a run does, and sklearn is asked each time.
    monkeypatch.setattr(scoring, "MOST_ASKED", 20)
    labels = ("1", "2", "3", "4")
    rows = calls(labels)
    report = jrh.measure(rows, labels=labels, metric=name, n_resamples=20)
    wanted = [*TESTS, "stochastic_stability"] if name in SHARES else list(TESTS)
    values = [report.scores[test].value for test in wanted]
    assert report.summary["n_tests"] == len(wanted)
    assert (report.summary["min"], report.summary["max"]) == (min(values), max(values))
    assert report.summary["mean"] == pytest.approx(sum(values) / len(values))
    assert ("in no mean" in report.to_markdown()) == (name not in SHARES)
    assert ("in no mean" in "\n".join(sheet_lines(report))) == (name not in SHARES)
    if name not in COMPARED:
        return
    judges = {judge: pd.DataFrame(one) for judge, one in {"weak": rows, "good": better(rows)}.items()}
    found = compare_calls(judges, labels=labels, metric=name, n_resamples=20)
    row = found.summaries["by_judge"]["weak"]
    assert (row["n"], row["mean"]) == (len(wanted), pytest.approx(sum(values) / len(values)))
    assert any("in no mean: stochastic_stability" in note for note in found.notes) == (name not in SHARES)


def test_our_own_names_are_the_axes_of_that_name() -> None:
    binary = jrh.measure(calls(("fail", "pass")), labels=("fail", "pass"), metric="matthews")
    assert binary.scores["padding"] is binary.estimates["padding/matthews"]
    scale = jrh.measure(calls(("1", "2", "3")), labels=("1", "2", "3"), metric="kappa_quadratic")
    assert scale.scores["padding"] == scale.estimates["padding/qwk"]
    assert scale.summary["mean_ci_low"] is not None


def test_a_metric_that_the_labels_do_not_allow_has_a_reason_instead_of_a_number() -> None:
    report = jrh.measure(calls(("a", "b", "c")), labels=("a", "b", "c"), metric="mae")
    assert report.scores["padding"].reason == "mae needs a scale, and these are a, b, c"
    unknown = jrh.measure(calls(("apt", "dull")), metric="f1_score")
    assert "which label is the positive one is not known" in unknown.scores["padding"].reason
    with pytest.raises(RecipeError, match=r"Unknown metric 'f1scor'\. Did you mean 'f1_score'"):
        jrh.measure(calls(("a", "b")), metric="f1scor")


def test_without_a_choice_nothing_changes() -> None:
    rows = calls(("fail", "pass"))
    default, named = jrh.measure(rows), jrh.measure(rows, metric="accuracy")
    assert default.to_dict() == named.to_dict()
    assert "metric" not in default.to_dict()
    assert default.to_markdown() == named.to_markdown()


def better(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the calls of a judge that is right but for every eighth source."""
    right = [int(str(row["task"])[1:]) % 8 > 0 and row["outcome"] == "verdict" for row in rows]
    return [{**row, "answer": row["expected"]} if good else row for row, good in zip(rows, right, strict=True)]


@pytest.mark.parametrize(("name", "lower"), [("f1_score", False), ("mean_absolute_error", True)])
def test_judges_are_compared_by_the_metric_with_whole_sources_exchanged(name: str, lower: bool) -> None:
    labels = ("1", "2", "3", "4") if lower else ("fail", "pass")
    rows = calls(labels, n=32)
    judges = {"weak": rows, "good": better(rows), "same": rows}
    found = compare_calls(
        {judge: pd.DataFrame(one) for judge, one in judges.items()}, labels=labels, metric=name, n_resamples=100
    )
    axis = f"padding/{name}"
    by_pair = {(one.a, one.b): one for one in found.differences if one.axis == axis}
    weak, good = (found.cells[axis][judge].value for judge in ("weak", "good"))
    told = by_pair[("weak", "good")]
    assert told.value == pytest.approx(weak - good)
    assert told.n == 32
    assert (told.value > 0) == lower
    assert told.low is None or told.low <= told.value <= told.high
    assert (by_pair[("weak", "same")].value, by_pair[("weak", "same")].p) == (0.0, 1.0)
    assert told.p < 0.05
    assert found.letters[axis]["good"].startswith("a")
    assert found.axes[0] == f"baseline/{name}"
    assert "stochastic_stability" in found.axes
    assert "overall" not in found.cells
    assert f"compared by {name}" in found.notes[0]
    assert lower_is_better(axis) == lower


def test_a_metric_without_a_formula_here_is_asked_of_sklearn_draw_by_draw() -> None:
    rows = calls(("1", "2", "3", "4"), n=8)
    found = jrh.measure(rows, labels=("1", "2", "3", "4"), metric="median_absolute_error", n_resamples=10)
    expected, given = (list(map(int, side)) for side in pairs(rows, "padding"))
    assert found.scores["padding"].value == metrics.median_absolute_error(expected, given)
