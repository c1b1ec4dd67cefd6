"""The reliability report as a page."""

from __future__ import annotations

import re

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.comparing.jury.jury import jury_page
from jrh_mlflow.comparing.jury.jury_report import jury_report
from jrh_mlflow.measures.reliability import WorstItem
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, code, literal
from jrh_mlflow.show.sheets import excerpt
from tests.comparing.jury.jury_tools import said
from tests.measures.pointwise import point, points, repeats, report
from tests.readings import Row, pairs

MLFLOW_TAG_LIMIT = 8000
HOSTILE = (
    "a\\| b | [click](http://evil.example) <script>alert(1)</script> ``` ` ![x](y)\n# heading\n| new | row |\u202e"
)


def worst(**changes: object) -> WorstItem:
    fields = {
        "item": "s0/typos",
        "test": "typos",
        "source": "s0",
        "original": "The sky is blue.",
        "perturbed": "Teh sky is blue.",
        "expected": "yes",
        "given": "no",
        "error_size": 1.0,
    }
    return WorstItem(**(fields | changes))  # type: ignore[arg-type]


def everything(n_tests: int = 14) -> list[Row]:
    rows = points("baseline", [(str(1 + index % 6), str(1 + index % 5)) for index in range(30)])
    for test in range(n_tests):
        pairs = [(str(1 + (index + test) % 6), str(1 + index % 5)) for index in range(30)]
        rows += points(f"some_reliability_test_{test}", pairs)
    for source in range(30):
        rows += repeats("stochastic_stability", ["1", "2", "2"], "2", source=f"s{source:03d}")
        rows += [point(f"error_injection_{dose}", str(4 - dose), source=f"s{source:03d}") for dose in (1, 2, 3)]
    return rows


def test_a_page_shows_every_part_that_was_measured():
    text = report(everything(3)).to_markdown(title="Judge x", note="simulated", worst=[worst()])
    for part in (
        "# Judge x",
        "> simulated",
        "**Profile:** baseline accuracy",
        "| some reliability test 1 |",
        "Across 5 of 5 tests: mean **",
        "### Scale",
        "### Asked again",
        "### Error doses",
        "### Worst items",
        "Calls: 300 (verdict 300",
    ):
        assert part in text
    assert "### Two labels" not in text
    assert "no variation among the stochastic stability calls" in text


def test_two_labels_have_a_table_and_several_words_have_none():
    assert (
        "| test | error rate | false positives | false negatives | Matthews correlation |"
        in report(points("a", [("no", "yes"), ("yes", "no")])).to_markdown()
    )
    assert "false positives" not in report(points("a", [("x", "y"), ("z", "y")])).to_markdown()


def test_what_has_no_number_is_listed_with_its_reason():
    text = report(points("typos", [("yes", "yes")] * 4 + [("error", "no")] * 2), max_excluded=0.05).to_markdown()
    assert "| withheld | typos: accuracy" in text
    assert re.search(r"2 of 6 typos calls .* \(error 2\)", text)


@pytest.mark.parametrize("n_tests", [14, 50])
def test_the_longest_report_fits_into_an_mlflow_run_description(n_tests):
    long = "word " * 400
    text = report(everything(n_tests)).to_markdown(worst=[worst(original=long, perturbed=long)] * 10)
    assert len(text) <= MAX_DESCRIPTION < MLFLOW_TAG_LIMIT
    assert ("of 10 fit here)" if n_tests == 14 else "Left out here for length: Scale") in text


def test_with_the_api_down_the_page_is_still_short():
    rows = [row | {"outcome": "error", "answer": ""} for row in everything()]
    text = report(rows, labels=["1", "2", "3", "4", "5", "6"], max_excluded=0.05).to_markdown()
    assert len(text) < MLFLOW_TAG_LIMIT
    assert "more reason(s) are in the report's data." in text


def test_hostile_text_stays_text():
    text = report(points("typos", [("no", "yes")] * 2)).to_markdown(worst=[worst(perturbed=HOSTILE, given=HOSTILE)])
    row = next(line for line in text.splitlines() if line.startswith("| `s0/typos`"))
    # Outside code spans there is nothing of it left: every second piece between back quotes is inside one.
    outside = "".join(row.split("`")[::2])
    assert row.count("`") % 2 == 0
    assert "\\" not in row.replace("\\|", "")
    for part in ("<", "[", "http", "heading", "script"):
        assert part not in outside
    assert row.replace("\\|", "").count("|") == 7


def test_a_hostile_test_name_or_label_stays_text():
    rows = points("<img src=x>", [("<b>", "[a](b)"), ("error", "[a](b)")])
    text = report(rows, max_excluded=0.05).to_markdown()
    outside = "\n".join("".join(line.split("`")[::2]) for line in text.splitlines())
    assert "<img" not in outside
    assert "<b>" not in outside
    assert "[a](" not in outside


def test_long_text_is_cut_and_says_so():
    assert excerpt("x" * 300) == f"`{'x' * 300}`"
    assert excerpt("x" * 1301) == f"`{'x' * 300} …` (cut, 1,301 characters)"
    assert excerpt(None) == "n/a"
    assert code(" \n ") == "(empty)"
    assert literal("a & <b>") == "a &amp; &lt;b>"


def test_title_and_note_of_every_judge_page_are_text() -> None:
    hostile = "<img src=x>[x](javascript:alert(1))\x1b[31m\n# Title"
    readings = report(points("baseline", [("yes", "yes")] * 4))
    sheet = jrh.measure(pairs([("1", "2")] * 4, delta=0))
    shown = "&lt;img src=x>&#91;x](javascript:alert(1)) &#91;31m # Title"
    for page in (readings, sheet):
        text = page.to_markdown(title=hostile, note=hostile)
        assert text.startswith(f"# {shown}\n\n**")
        assert f"\n\n> {shown}\n\n" in text


def test_names_of_a_jury_are_text() -> None:
    right = ["yes", "no"] * 20
    judges = {f"<img src=x>{name}[x](javascript:y)": said(right, right) for name in "abc"}
    found = jury_report(judges, n_resamples=20)
    text = jury_page(found, Verdict(sentences=("Use one.",)), title="Jury", notes=["<b>"]).to_markdown()
    assert "<" not in text
    assert "[x]" not in text
    assert "&lt;img src=x>a&#91;x](javascript:y)" in text
