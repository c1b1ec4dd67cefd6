"""What a notebook shows of every result: short reprs, cards of escaped HTML, figures, data frames."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import jrh_mlflow as jrh
from jrh_mlflow.errors import CallsError, RecipeError
from jrh_mlflow.schema.items import Item
from tests.sweeps.plain_runs import without_figures

pytestmark = pytest.mark.drawn


EVIL = '<script>alert(1)</script><img src=x onerror=alert(1)>"\' onmouseover="alert(1) \x1b[31m & <b> $x_1$'
LONG = "long name " * 20
PAIRS = jrh.datasheet_suite(design="paper", n_tasks=4, depth=2)
KINDS = ("pairs", "points", "datasheet", "report", "shift", "comparison", "jury", "suite")


def evil_suite() -> jrh.Suite:
    """Reliability items whose every text is hostile."""
    items = [
        Item(
            id=f"{EVIL}{number}/{test}",
            task=f"{EVIL}{number}",
            condition=test,
            kind="response",
            instruction=f"Explain {EVIL}",
            rubric=EVIL,
            response=f"{EVIL} {number}",
            answers=("no", "yes"),
            expected=("no", "yes")[number % 2],
        )
        for number in range(8)
        for test in ("baseline", "typos", "markdown")
    ]
    return jrh.Suite(name=f"{EVIL}{LONG}", items=items)


def judge(name: str, answer: Any) -> Any:
    def asked(shown: jrh.Presentation) -> Any:
        return answer(shown)

    asked.__qualname__ = name
    return asked


def longer(shown: jrh.Presentation) -> jrh.Answer:
    """Prefers the longer, and answers nothing about nothing: vacuum is withheld."""
    if not (shown.first or "").strip():
        return jrh.Answer(value=EVIL)
    return jrh.Answer(value="1" if len(shown.first or "") > len(shown.second or "") else "2", cost_usd=0.001)


@pytest.fixture(scope="module")
def results(store_uri: str) -> dict[str, Any]:
    where: dict[str, Any] = {"experiment": "shown", "tracking_uri": store_uri, "traces": "none"}
    points = evil_suite()
    with pytest.MonkeyPatch.context() as patch, without_figures():
        patch.setenv("JRH_HOME", str(Path.cwd() / ".jrh"))
        one = jrh.evaluate(judge(f"{EVIL}{LONG}", longer), PAIRS, **where)
        other = jrh.evaluate(jrh.scripted.AlwaysFirst(), PAIRS, **where)
        graded = [jrh.evaluate(judge(f"{EVIL}{n}", lambda shown: "yes"), points, **where) for n in range(2)]
        shown = {
            "pairs": one,
            "points": graded[0],
            "datasheet": one.datasheet,
            "report": graded[0].report,
            "shift": jrh.criterion_shift(judge(EVIL, longer), PAIRS, **where),
            "comparison": jrh.compare([one, other], log=False),
            "jury": jrh.jury(graded, log=False),
            "suite": points,
            "simulated": other,
        }
    return shown


class Tags(HTMLParser):
    """Reads which elements and attributes a fragment has, and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_has_no_element_attribute_or_address_that_a_hostile_text_brought(results, kind):
    html, read = results[kind]._repr_html_(), Tags()
    read.feed(html)
    assert read.open == []
    assert 'class="jrh-card tex2jax_ignore mathjax_ignore"' in html, "dollars are no formulas"
    allowed = {"div", "style", "p", "span", "table", "thead", "tbody", "tr", "th", "td", "i", "b", "pre", "a"}
    assert read.elements <= allowed
    assert read.attributes <= {"class", "style", "scope", "href", "target", "rel"}
    assert read.addresses == []
    assert EVIL not in html
    assert "url(" not in html
    assert "@import" not in html
    if kind not in ("datasheet", "report"):
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_run_on_a_server_is_linked_and_nothing_else_is(results):
    done = results["pairs"]
    for link, shown in (("https://mlflow.example/#/x", True), ("javascript:alert(1)", False)):
        read = Tags()
        read.feed(replace(done, link=link)._repr_html_())
        assert read.addresses == ([link] if shown else [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_is_a_few_lines_in_which_no_name_moves_the_cursor(results, kind):
    text = repr(results[kind])
    assert text.startswith(f"{type(results[kind]).__name__}(")
    assert len(text) < 500
    assert text.isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_result_holds_is_short_too(results, kind):
    held = {name: value for name, value in vars(results[kind]).items() if not name.startswith("_")}
    short = {"sheet", "suite", "judge", "contrasts", "runs", "report", "arms"} & held.keys()
    assert all(len(repr(held[name])) < 800 for name in short), {name: len(repr(held[name])) for name in short}


def test_the_repr_of_an_evaluation_has_judge_suite_readings_calls_and_run(results):
    done = results["points"]
    expected = (
        r"Evaluation\('.+' on '.+': mean 0\.50 \[0\.\d\d, 0\.\d\d\] over 2 of 2 tests, baseline 0\.50 \[.+\], .+, "
        rf"24 calls, run {done.run_id[:8]}\)"
    )
    assert re.fullmatch(expected, repr(done))


def test_a_card_has_readings_with_interval_and_n_what_is_withheld_profile_cost_and_run(results):
    done = results["pairs"]
    html = done._repr_html_()
    estimate = done.datasheet.estimates["target_sensitivity/delta_1"]
    assert f"<td>{estimate.value:.2f}</td><td>[{estimate.cluster_low:.2f}, {estimate.cluster_high:.2f}]</td>" in html
    assert f"<td>{estimate.n:,} calls</td>" in html
    assert "Withheld: dark current" in html
    assert "no usable answer" in html
    assert html.index(done.verdict.sentences[0]) < html.index(f"{done.datasheet.profile}.</p>")
    assert "at least $" in html
    assert done.run_id in html
    assert done.suite.sha256[:12] in html


def test_a_simulated_judge_says_so_on_every_card(results):
    assert ": AlwaysFirst (simulated)." in results["comparison"]._repr_html_()
    assert "Simulated judge: a calibration weight" in results["simulated"]._repr_html_()
    assert "AlwaysFirst (simulated)" in repr(results["simulated"])


def test_a_half_of_a_character_cannot_break_the_kernel_that_sends_a_card(results):
    html = replace(results["pairs"], truncated="half \ud83d").sheet.card(title="half \ud83d").to_html()
    assert html.encode()


def test_a_suite_shows_its_hash_items_by_condition_calls_and_examples():
    html = PAIRS._repr_html_()
    assert PAIRS.sha256 in html
    manifest = PAIRS.manifest
    for condition, count in manifest["conditions"].items():
        assert f'<th scope="row">{condition}</th><td>{count:,}</td>' in html
    assert f"<b>calls</b> {manifest['n_calls']:,}" in html
    assert "task: " in html
    assert len(html) < 10_000


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "suite"])
def test_a_plot_is_a_figure_that_a_notebook_can_draw(results, kind):
    figure = results[kind].plot()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_figure_is_chosen_by_its_name_and_a_wrong_name_is_told(results):
    assert isinstance(results["pairs"].plot("axes_map"), Figure)
    assert isinstance(results["comparison"].plot("psychometric_curve"), Figure)
    with pytest.raises(RecipeError, match=r"Unknown figure 'axes_mop'. Did you mean 'axes_map'"):
        results["pairs"].plot("axes_mop")


def test_without_any_number_there_is_nothing_to_draw(results):
    with pytest.raises(CallsError, match="nothing to draw"):
        replace(results["datasheet"], estimates={}).plot()


@pytest.mark.parametrize("kind", ["pairs", "points", "datasheet", "report"])
def test_a_frame_has_one_row_per_axis_with_all_that_belongs_to_a_number(results, kind):
    result = results[kind]
    sheet = getattr(result, "sheet", result)
    frame = result.to_frame()
    assert list(frame["axis"]) == list(sheet.estimates)
    columns = ["value", "n", "excluded", "ci_low", "ci_high", "cluster_low", "cluster_high", "n_clusters", "method"]
    assert list(frame.columns) == ["axis", *columns, "detectable", "reason"]
    for row in frame.to_dict("records"):
        reading = sheet.estimates[row["axis"]]
        known = isinstance(reading, jrh.Estimate)
        assert pd.isna(row["value"]) == (not known) == (not pd.isna(row["reason"]))
        assert row["n"] == reading.n
        if known:
            assert row["value"] == reading.value
            assert str(row["n_clusters"]) in (str(reading.n_clusters), "<NA>")


def test_the_frame_of_a_comparison_has_its_differences(results):
    frame, contrasts = results["comparison"].to_frame(), results["comparison"].contrasts
    promised = ["axis", "a", "b", "difference", "low", "high", "p", "p_adjusted", "told_apart"]
    assert set(promised) <= set(frame.columns)
    assert list(frame["difference"]) == [one.value for one in contrasts.differences]
    assert list(frame["told_apart"]) == [one.told_apart for one in contrasts.differences]


def test_the_frames_of_shift_jury_and_suite(results):
    shift, jury, suite = (results[name] for name in ("shift", "jury", "suite"))
    frame = shift.to_frame()
    assert [f"{row.criterion}/{row.axis}" for row in frame.itertuples()] == list(shift.shifts)
    assert set(jury.to_frame()["judge"]) == {"the jury", *jury.report.judges}
    assert list(suite.to_frame()["id"]) == [item.id for item in suite.items]
    assert suite.to_frame()["n_calls"].sum() == suite.manifest["n_calls"]
