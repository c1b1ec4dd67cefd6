"""`jrh.passed` on verdicts in hand: what decides, what is never counted, and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.stats.corrected_rates import FailureCounts, too_few

passed = partial(jrh.passed, sampling="stratified")
"""Labels of this application, drawn by what people said."""


def labels(*, found: tuple[int, int] = (45, 50), wrongly: tuple[int, int] = (22, 450), lost: int = 0) -> pd.DataFrame:
    """Labelled items: true failures and those that the judge finds, true passes and those that it fails."""
    kinds = [(False, False)] * found[0] + [(True, False)] * (found[1] - found[0])
    kinds += [(False, True)] * wrongly[0] + [(True, True)] * (wrongly[1] - wrongly[0])
    return pd.DataFrame([*kinds, *[(None, True)] * lost], columns=["judge", "human"])


def rows(failed: int, n: int = 50, *, missing: int = 0) -> list[bool | None]:
    return [*[False] * failed, *[True] * (n - failed - missing), *[None] * missing]


def check_of(gate: jrh.Gate) -> dict[str, Any]:
    (row,) = gate.checks.to_dict("records")
    return row


def test_a_good_application_passes_though_the_judge_fails_some_of_its_rows() -> None:
    gate = passed(rows(3), labels(), max_failure=0.2)
    assert gate
    assert gate.passed is True
    check = check_of(gate)
    assert (check["rule"], check["state"], check["further_tasks"]) == ("failure_rate <= 0.2", "holds", 0)
    assert 0 <= check["low"] <= check["estimate"] < check["high"] <= 0.2
    assert (
        "3 of 50 rows failed by the judge, which finds 45 of 50 failures and wrongly fails 22 of 450" in check["reason"]
    )


def test_a_bad_application_fails_and_an_assertion_says_why() -> None:
    gate = passed(rows(30), labels(), max_failure=0.2)
    assert gate.passed is False
    with pytest.raises(AssertionError, match=r"0\.65 \(between"):
        assert gate


def test_more_rows_like_these_decide_where_the_gate_says_so() -> None:
    gate = passed(rows(8), labels(), max_failure=0.2)
    assert gate.passed is None
    assert not gate
    more = int(check_of(gate)["further_tasks"])
    assert more > 0
    n = 50 + more
    assert passed(rows(round(8 * n / 50), n), labels(), max_failure=0.2).passed is not None
    fewer = 50 + more // 2
    assert passed(rows(round(8 * fewer / 50), fewer), labels(), max_failure=0.2).passed is None


def test_where_the_labels_are_too_few_no_number_of_rows_helps() -> None:
    check = check_of(passed(rows(8), labels(found=(7, 10), wrongly=(3, 20)), max_failure=0.1))
    assert (check["state"], pd.isna(check["further_tasks"])) == ("undecided", True)
    assert "label more items" in check["reason"]


def test_few_missing_verdicts_are_neither_passes_nor_failures_but_count_against_both_bounds() -> None:
    lost = check_of(passed(rows(5, missing=2), labels(), max_failure=0.9))
    as_failed, as_passed = (check_of(passed(rows(n), labels(), max_failure=0.9)) for n in (7, 5))
    assert lost["high"] == pytest.approx(as_failed["high"])
    assert lost["low"] == pytest.approx(as_passed["low"])
    assert lost["n"] == 48
    assert lost["estimate"] == pytest.approx(check_of(passed(rows(5, 48), labels(), max_failure=0.9))["estimate"])


@pytest.mark.parametrize(
    ("verdicts", "calibration", "reason"),
    [
        (rows(0, missing=3), labels(), "3 of 50 rows have no verdict (6.0%), over the limit of 5%"),
        (rows(0), labels(lost=50), "50 of 550 labelled items have no verdict (9.1%), over the limit of 5%"),
        (rows(0), labels(found=(0, 0)), "no labelled item truly fails"),
        (rows(0), labels(wrongly=(0, 0)), "no labelled item truly passes"),
        (rows(0), labels(found=(10, 20), wrongly=(10, 20)), "no better than chance"),
        (rows(0), labels(found=(1, 20), wrongly=(19, 20)), "no better than chance"),
    ],
)
def test_what_cannot_be_known_is_undecided_and_says_why(
    verdicts: list[bool | None], calibration: pd.DataFrame, reason: str
) -> None:
    gate = passed(verdicts, calibration, max_failure=0.9)
    assert gate.passed is None
    assert reason in check_of(gate)["reason"]
    assert reason in gate.reason
    assert np.isnan(check_of(gate)["estimate"])


def test_a_judge_that_was_never_wrong_in_calibration_is_trusted_by_how_many_labels_there_are() -> None:
    few, many = (
        check_of(passed(rows(0), labels(found=(n, n), wrongly=(0, n)), max_failure=0.9))["high"] for n in (4, 400)
    )
    assert few > many > 0.05


def test_the_same_words_in_any_form_give_the_same_gate() -> None:
    verdicts = rows(3)
    expected = passed(verdicts, labels(), max_failure=0.2).to_dict()["checks"]
    words = ["pass" if one else "fail" for one in verdicts]
    for same in (pd.Series(verdicts), np.array(verdicts), words, [int(bool(one)) for one in verdicts]):
        assert passed(same, labels(), max_failure=0.2).to_dict()["checks"] == expected
    table = pd.DataFrame({"judge": verdicts, "item": range(50)})
    assert passed(table, labels(), max_failure=0.2).to_dict()["checks"] == expected
    turned = labels().replace({True: "no", False: "yes"})
    harmful = ["no" if one else "yes" for one in verdicts]
    assert passed(harmful, turned, max_failure=0.2, positive="no").to_dict()["checks"] == expected


def test_a_stricter_level_gives_wider_bounds() -> None:
    usual, strict = (check_of(passed(rows(8), labels(), max_failure=0.9, level=level)) for level in (0.95, 0.99))
    assert strict["low"] < usual["low"] < usual["high"] < strict["high"]


@pytest.mark.parametrize(("level", "limit"), [(0.6, 0.13), (0.9, 0.16)])
def test_the_further_rows_of_any_level_decide_by_its_own_bounds(level: float, limit: float) -> None:
    known = labels(found=(450, 500), wrongly=(22, 450))
    check = check_of(passed(rows(9, 60), known, max_failure=limit, level=level))
    assert check["state"] == "undecided"
    n = 60 + int(check["further_tasks"])
    assert passed(rows(round(9 * n / 60), n), known, max_failure=limit, level=level).passed is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_failure": 0}, "`max_failure` must lie between 0 and 1, but is 0: no number of rows shows"),
        ({"max_failure": 1.0}, "`max_failure` must lie between 0 and 1"),
        ({"max_failure": float("nan")}, "`max_failure` must lie between 0 and 1"),
        ({"max_failure": "0.2"}, "`max_failure` must lie between 0 and 1"),
        ({"max_failure": True}, "`max_failure` must lie between 0 and 1"),
        ({"level": 95}, "`level` must lie between 0.5 and 1, but is 95"),
        ({"level": 0.5}, "write level=0.95"),
        ({"level": "0.95"}, "`level` must lie between 0.5 and 1"),
        ({"result": []}, "The result has no rows"),
        ({"result": [1, 2, 5]}, "Say which scores are a pass"),
        ({"result": ["good", "bad"], "positive": "good"}, "calibrated on another scale"),
        ({"result": pd.DataFrame({"uv": ["1"], "vu": ["2"]})}, "The result is of pairs"),
        ({"judge_run": pd.DataFrame({"uv": ["1"], "vu": ["2"], "human": ["A"]})}, "are of pairs"),
        ({"result": pd.DataFrame({"judge": [True, False], "version": ["a", "b"]})}, "of several versions"),
        ({"judge_run": [True, False]}, "give a table with `judge` and `human`"),
        ({"log": True}, "give the result of mlflow.genai.evaluate"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(change: dict[str, Any], said: str) -> None:
    given = {"result": rows(3), "judge_run": labels(), "max_failure": 0.2} | change
    with pytest.raises(RecipeError) as found:
        passed(given.pop("result"), given.pop("judge_run"), **given)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_another_judge_than_the_calibrated_one_is_refused() -> None:
    verdicts, calibration = pd.DataFrame({"judge": rows(3)}), labels()
    verdicts.attrs["judge"], calibration.attrs["judge"] = "gpt v1", "gpt v2"
    with pytest.raises(RecipeError, match=r"another judge .*gpt v"):
        passed(verdicts, calibration, max_failure=0.2)


@pytest.mark.parametrize("failed", [0, 5, 6, 18, 19])
def test_the_gate_decides_as_the_rule_does_that_validate_simulates(failed: int) -> None:
    gate = passed(rows(failed), labels(found=(85, 100), wrongly=(20, 400)), max_failure=0.2)
    counts = FailureCounts(rows=50, failed=failed, failures=100, found=85, passes=400, wrongly=20)
    under, over = too_few(0.2, counts)[0], too_few(0.8, counts.mirrored)[0]
    assert gate.passed == (True if under else False if over else None)


def test_labels_of_unknown_origin_hold_for_more_and_say_so() -> None:
    known, unknown = (
        jrh.passed(rows(0, 100), labels(), max_failure=0.2, sampling=each) for each in ("stratified", None)
    )
    assert check_of(known)["high"] < check_of(unknown)["high"] <= 0.2
    assert (known.facts["pool"], unknown.facts["pool"]) == ("same", "other")
    assert len(unknown.notes) == len(known.notes) + 2
    assert any("10 points fewer" in note for note in known.notes)


def test_labelled_rows_of_the_result_itself_are_of_the_same_pool() -> None:
    table = pd.DataFrame({"item": range(300), "judge": [place % 10 != 0 for place in range(300)]})
    labelled = table[:200].assign(human=[place % 10 != 0 or place == 50 for place in range(200)])
    gate = jrh.passed(table, labelled, max_failure=0.2)
    assert (gate.facts["pool"], gate.passed) == ("same", True)
    assert jrh.passed(table[["judge"]][:50], labelled, max_failure=0.9).facts["pool"] == "unknown"


def test_a_judge_that_found_more_elsewhere_does_not_let_an_application_near_the_limit_pass() -> None:
    """Found .9 there; at .75 here a fifth of true failures gives 38 of 200 rows, and 30 are no rare draw."""
    there = labels(found=(36, 40), wrongly=(8, 160))
    known, unknown = (jrh.passed(rows(30, 200), there, max_failure=0.2, sampling=each) for each in ("stratified", None))
    assert (known.passed, unknown.passed) == (True, None)


def test_rows_of_one_conversation_are_no_rows_of_their_own() -> None:
    failed = [place // 5 % 10 != 0 for place in range(200)]
    talks = [place // 5 for place in range(200)]
    table = pd.DataFrame({"judge": failed, "talk": talks})
    alone = check_of(passed(table, labels(), max_failure=0.9))
    together = check_of(passed(table, labels(), max_failure=0.9, cluster="talk"))
    assert together["estimate"] == pytest.approx(alone["estimate"])
    assert together["high"] > alone["high"]
    few = jrh.passed(
        table.assign(talk=[place // 25 for place in range(200)]), labels(), max_failure=0.9, cluster="talk"
    )
    assert few.passed is None
    assert "8 clusters" in few.reason
    with pytest.raises(RecipeError, match="'walk'"):
        passed(table, labels(), max_failure=0.2, cluster="walk")
