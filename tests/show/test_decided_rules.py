"""Decisions on a judge's page and in its description: the newest of each kind, in plain words, hostile text as text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from jrh_mlflow.show.decided_rules import (
    ANCHOR,
    DecidedRule,
    DecisionSection,
    decided_rules,
    decisions_markdown,
    section_html,
    with_markdown_section,
    with_section,
)
from jrh_mlflow.show.glossary import term_id, with_terms
from jrh_mlflow.show.page import Page, Section
from jrh_mlflow.show.plain_text import line_text
from tests.comparing.test_comparison_page import HOSTILE, read

CHECKS = [
    {"rule": "dark_current <= 0.1", "state": "holds", "estimate": 0.02, "low": 0.0, "high": 0.08, "further_tasks": 0},
    {"rule": "a >= 0.8", "state": "undecided", "estimate": 0.83, "low": 0.71, "high": 0.9, "further_tasks": 14},
    {"rule": "b <= 0.2", "state": "fails", "estimate": 0.5, "low": 0.41, "high": 0.6, "further_tasks": 0},
    {
        "rule": "c <= 0.2",
        "state": "undecided",
        "estimate": None,
        "low": 0.1,
        "high": 0.7,
        "further_tasks": None,
        "reason": "withheld: 18 % of its calls were lost.",
    },
]


def gate(**changes) -> DecisionSection:
    facts = {
        "kind": "gate",
        "heading": "Gate",
        "reason": "failed: 1 of 4 rules fails, 2 are undecided",
        "rules": decided_rules(CHECKS),
        "when": "2026-11-16 10:00 UTC",
        "link": "https://mlflow.example/#/experiments/1/runs/2",
    }
    return DecisionSection(**{**facts, **changes})


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html))


def test_a_number_that_is_only_a_bound_is_shown_as_one() -> None:
    row = {"rule": "threshold_75 <= 6", "state": "undecided", "estimate": None, "low": 5.0, "high": None}
    section = gate(rules=decided_rules([{**row, "further_tasks": None, "censored": "> 5"}]))
    assert ">&gt; 5</td>" in section_html(section)
    assert f"| {line_text('> 5')} | [5.00, –] |" in "\n".join(decisions_markdown(section))


def test_the_undecided_say_what_would_decide_them_and_the_decided_do_not() -> None:
    holds, open_one, fails, withheld = decided_rules(CHECKS)
    assert (holds.advice, fails.advice) == ("", "")
    assert open_one.advice == "14 further tasks like these would decide it"
    assert withheld.advice == "withheld: 18 % of its calls were lost"
    html = words(section_html(gate()))
    assert f"not decided0.83[0.71, 0.90]{open_one.advice}" in html
    assert f"not decided–[0.10, 0.70]{withheld.advice}" in html
    assert "2026-11-16 10:00 UTC" in html


@pytest.mark.parametrize("lead", ["", "The dark current is low."], ids=["no glossary before", "a glossary before"])
def test_every_term_that_a_page_links_to_is_in_its_glossary_whatever_part_it_stands_in(lead: str) -> None:
    section = Section(heading="Readings", blocks=[with_terms("a table with 95 % by task")])
    page = with_section(Page(title="A judge", lead=lead, sections=[section]).to_html(), gate())
    linked, explained = (set(re.findall(rf'{name}="#?(term-\d+)"', page)) for name in ("href", "id"))
    assert term_id("95 % by task") in linked
    assert linked <= explained
    assert page.count('class="glossary"') == 1
    assert page == with_section(page, gate())


def test_a_page_has_the_newest_gate_once_and_keeps_what_else_was_decided() -> None:
    page = f"<header>\n</header>\n{ANCHOR}\n<p>rest</p>"
    stopped = gate(kind="until", heading="Stopped when decided", reason="stopped early")
    first = with_section(with_section(page, stopped), gate(reason="the first gate"))
    second = with_section(first, gate(reason="the second gate"))
    assert second.count("the second gate") == second.count("stopped early") == 1
    assert "the first gate" not in second
    assert second.endswith("<p>rest</p>")
    assert with_section(second, gate(reason="the second gate")) == second


def test_a_page_that_is_not_ours_stays_as_it_is() -> None:
    assert with_section("<p>no header</p>", gate()) == "<p>no header</p>"


@pytest.mark.parametrize("text", HOSTILE)
def test_text_of_rules_reasons_and_links_is_text(text: str) -> None:
    rule = DecidedRule(rule=text, state="fails", estimate=0.5, low=None, high=None, size=text, reason=text)
    section = gate(rules=[rule], reason=text, notes=[text], heading=text, when=text, link=f"https://{text}")
    made = {tag for tag, _ in read(section_html(section)).tags}
    assert made <= {tag for tag, _ in read(section_html(gate(notes=["a note"]))).tags}
    assert text in "".join(read(section_html(section)).text)
    assert with_section(with_section(f"{ANCHOR}\n", section), section).count("<section>") == 1
    markdown = decisions_markdown(section)
    assert sum(line.startswith("### ") for line in markdown) == 1
    # What is left outside code spans cannot come to life.
    assert "<" not in re.sub("`[^`]*`", "", "".join(markdown))


def test_a_link_that_is_no_address_is_words() -> None:
    assert "<a " not in section_html(gate(link="javascript:alert(1)"))
    assert "run 12 in sqlite:///x.db" in section_html(gate(link="run 12 in sqlite:///x.db"))


def test_a_bound_on_one_side_stands_alone_and_a_fact_has_no_interval() -> None:
    bound = replace(gate().rules[0], low=0.03, high=None)
    price, unknown = (replace(bound, estimate=one, low=one, high=one) for one in (0.00042, None))
    html, markdown = section_html(gate(rules=[bound, price, unknown])), decisions_markdown(gate(rules=[price]))
    assert html.count("[") == html.count("[0.03, –]") == 1
    assert html.count("0.00042") == "".join(markdown).count("0.00042") == 1


def test_the_description_has_the_newest_gate_before_all_other_sections() -> None:
    markdown = "# Judge\n\n**Profile:** calm.\n\n### Vacuum\n\n| a |\n| --- |\n\n### Rest\n\nend\n"
    first = with_markdown_section(markdown, gate(reason="the first gate"))
    second = with_markdown_section(first, gate(reason="the second gate"))
    assert second.count("### Gate") == 1
    assert "the first gate" not in second
    assert second.index("calm") < second.index("the second gate") < second.index("### Vacuum")
    assert second.endswith("### Rest\n\nend\n")
    assert with_markdown_section(second, gate(reason="the second gate")) == second


@pytest.mark.parametrize("written", ["# Short\n", "# Short", "# Short\n\n"])
def test_a_description_without_sections_gets_its_gate_at_the_end_after_an_empty_line(written: str) -> None:
    shown = with_markdown_section(written, gate())
    assert shown.startswith("# Short\n\n### Gate\n")
    assert with_markdown_section(shown, gate()) == shown


@pytest.mark.parametrize("below", ["Reviewed by Ann.\n\n## Follow-up\nticket 7\n", "\n| our | table |\n", "> quoted\n"])
@pytest.mark.parametrize("notes", [[], ["simulated", "truncated"]])
@pytest.mark.parametrize("when", ["", "2026-11-16 10:00 UTC"])
def test_what_people_wrote_around_a_gate_stays_where_it_is(below: str, notes: list[str], when: str) -> None:
    first = gate(reason="the first gate", notes=notes, when=when, link="")
    shown = with_markdown_section(with_markdown_section("Intro\n", first) + below, gate(reason="the second gate"))
    assert shown.startswith("Intro\n\n### Gate\n\n**the second gate.**")
    assert shown.endswith(f"\n\n{below}")
    assert "the first gate" not in shown


def test_a_section_of_somebody_else_under_the_same_heading_stays() -> None:
    own = "### Gate\n\n**Ours.**\n\nWe gate on Mondays.\n"
    assert with_markdown_section(own, gate()).endswith(own)


def test_a_gate_without_a_run_of_its_own_says_no_time_and_no_link() -> None:
    plain = replace(gate(), when="", link="")
    assert "Decided" not in section_html(plain)
    assert not any("Decided" in line for line in decisions_markdown(plain))
