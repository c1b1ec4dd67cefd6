"""Agreement in words, Markdown and HTML: plain sentences, one file without a script, hostile text stays text."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

from jrh_mlflow.people.agreement import AgreementReport, measure_agreement
from jrh_mlflow.people.agreement_view import (
    Agreement,
    agreement_card,
    agreement_figures,
    agreement_headline,
    agreement_sentences,
)
from jrh_mlflow.people.labels import LabelTable
from jrh_mlflow.people.ratings import read_ratings
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.show.numbers import value_text
from jrh_mlflow.show.page import Drawing
from tests.comparing.test_comparison_page import DRAWING, HOSTILE, read

pytestmark = pytest.mark.drawn


def ratings(errors: dict[str, float], *, n: int = 100, words: tuple[str, ...] = ("no", "yes")) -> pd.DataFrame:
    """Raters who err at these rates; the truth of item i is word i modulo their number."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "item": f"q{item}",
                "rater": rater,
                "label": words[(item + (rng.random() < error)) % len(words)],
                "kind": words[item % 2],
            }
            for rater, error in errors.items()
            for item in range(n)
        ]
    )


GOOD = {"ann": 0.1, "bob": 0.1, "cem": 0.15, "gpt": 0.1}


def report(errors: dict[str, float] | None = None, *, judge: str | None = "gpt", **options) -> AgreementReport:
    scale = options.pop("scale", None)
    frame = ratings(errors or GOOD, **options)
    return measure_agreement(read_ratings(frame, judge=judge, scale=scale, group="kind"))


def agreement(found: AgreementReport, *, link: str | None = None, **known) -> Agreement:
    links = [link or f"https://mlflow.example/#/{item}" for item in found.disagreements["item"]]
    frame = pd.DataFrame({"item": found.disagreements["item"], "link": links})
    given = {"shown": "labels.csv", "facts": {"name": found.judge}}
    return Agreement(report=found, source=LabelTable(frame=frame, **given | known))


def page(found: AgreementReport, caption: str = "Figure", **known) -> str:
    return agreement(found, **known)._page([Drawing(caption, DRAWING)]).to_html()


def test_the_first_sentence_says_how_well_judge_and_people_agree():
    share = r"\d+ %( of 100 items)? \[\d+, \d+\]"
    pattern = f"gpt agrees with the majority of people on {share}; people agree with each other on {share}\\."
    assert re.fullmatch(pattern, agreement_headline(report()))
    assert re.search(r">gpt agrees with the majority of people on \d+ %", page(report()))
    ordered = agreement_headline(report(words=("low", "mid", "high"), scale=("low", "mid", "high")))
    assert re.search(r"on \d+ % of \d+ items \[\d+, \d+\] \(quadratic kappa 0\.\d+ \[", ordered)
    alone = {name: GOOD[name] for name in ("ann", "bob")}
    assert re.match(r"People agree with each other on \d+ % \[", agreement_headline(report(alone, judge=None)))
    one = agreement_headline(report({"ann": 0.1, "gpt": 0.1}))
    assert re.search(r"people agree .* is not known \(one person: .*\)\.$", one)


def test_the_test_is_passed_by_a_judge_like_people_and_not_by_one_that_guesses():
    passed = " ".join(agreement_sentences(report()))
    assert "The judge passes the alternative annotator test at ε = 0.2: it may replace 3 of 3 people" in passed
    assert "ε is by how much the judge may fit the other people less often than a person" in passed
    failed = " ".join(agreement_sentences(report({**GOOD, "gpt": 0.5})))
    assert "The judge does not pass the alternative annotator test at ε = 0.2: it may replace 0 of 3" in failed
    few = " ".join(agreement_sentences(report(n=20)))
    assert "Alternative annotator test: no result (no person has 30 items" in few


def test_every_reading_is_on_the_page_with_n_and_interval_or_its_reason():
    found = report()
    html = page(found)
    for reading in found.estimates.values():
        assert (f"<b>{escape(value_text(reading))}</b>" if isinstance(reading, Estimate) else reading.reason) in html
    assert html.count("100 items") >= 8
    assert "quadratic kappa</td>" in html
    tables = agreement(found).tables
    assert set(tables) == {"estimates", "people", "groups", "confusion", "disagreements", "calibration"}
    assert set(tables["estimates"]["axis"]) == set(found.estimates)
    assert [table.columns[0].head for table in agreement_card(found)] == ["measure", "person"]
    assert "https://mlflow.example/#/" in html


def test_long_lists_are_cut_and_say_so():
    found = report({**GOOD, "gpt": 0.5}, n=600)
    assert len(found.disagreements) > 200
    assert f"The first 200 of {len(found.disagreements)}; the table `disagreements` has all." in page(found)
    markdown = agreement(found).to_markdown()
    assert f"The first 25 of {len(found.disagreements)};" in markdown


@pytest.mark.parametrize("links", ["javascript:alert(1)", 'https://x.example/"><script>', "run 3f in sqlite:///x"])
def test_only_addresses_become_links(links):
    found = report()
    html = page(found, link=links)
    hrefs = [str(attributes["href"]) for tag, attributes in read(html).tags if tag == "a"]
    hrefs = [href for href in hrefs if not href.startswith("#term-")]
    assert all(href.startswith("https://") for href in hrefs)
    assert bool(hrefs) == links.startswith("https")
    assert "script" not in {tag for tag, _ in read(html).tags}


def test_hostile_text_makes_no_element_and_no_attribute():
    words = (HOSTILE[0] + HOSTILE[2], "".join(HOSTILE[3:6]))
    frame = ratings({HOSTILE[1]: 0.1, HOSTILE[6]: 0.2, HOSTILE[7]: 0.1, HOSTILE[9]: 0.2}, words=words)
    found = measure_agreement(read_ratings(frame, judge=HOSTILE[9], group="kind"), positive=words[0])
    text = "\n".join(HOSTILE)
    html = page(found, text, shown=text, notes=[text], facts={HOSTILE[1]: text})
    allowed = {tag for tag, _ in read(page(report())).tags} | {"section", "ul", "li"}
    for tag, attributes in read(html).tags:
        assert tag in allowed
        assert not [name for name in attributes if name.startswith("on") or name in ("srcset", "action")]
        assert str(attributes.get("href", "#term-")).startswith(("https://mlflow.example/", "#term-"))
    shown = "".join(read(html).text)
    assert all(part in shown for part in HOSTILE)


def test_there_is_nothing_to_fetch():
    html = page(report())
    assert "<svg" in html
    assert not [attributes["src"] for _, attributes in read(html).tags if "src" in attributes]
    policy = next(attributes for tag, attributes in read(html).tags if "http-equiv" in attributes)
    assert "default-src 'none'" in str(policy["content"])


def test_figures_are_drawn_of_what_there_is():
    assert set(agreement_figures(report(), title="t")) == {"ceiling.png", "confusion.png"}
    people = dict.fromkeys(("ann", "bob", "cem"), 0.1)
    assert set(agreement_figures(report(people, judge=None), title="t")) == {"ceiling.png"}
    many = tuple(f"label {number}" for number in range(15))
    assert set(agreement_figures(report(words=many, n=150), title="t")) == {"ceiling.png"}
    chart = agreement_figures(report(), title="t")["ceiling.png"]
    labels = [label.get_text() for label in chart.axes[0].get_yticklabels()]
    assert labels == ["all 3 people", "ann", "bob", "cem"]
