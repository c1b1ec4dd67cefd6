"""What an agreement and a corrected rate say first: true, plain, and with what would decide the rest."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.people.agreement_view import Agreement, agreement_content
from jrh_mlflow.people.corrected_view import Corrected, corrected_content
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.glossary import terms_among


def agreement(errors: dict[str, float], *, n: int, judge: str | None = "gpt") -> Agreement:
    """Raters who err at these rates on yes and no."""
    rng = np.random.default_rng(3)
    rows = [
        {"item": item, "rater": rater, "label": ("no", "yes")[(item + int(rng.random() < error)) % 2]}
        for rater, error in errors.items()
        for item in range(n)
    ]
    return jrh.agree(pd.DataFrame(rows), judge=judge, log=False)


PEOPLE = {"ann": 0.1, "bob": 0.1, "cem": 0.1}
LABELLED = pd.DataFrame(
    [(1, 1)] * 60 + [(1, 0)] * 15 + [(0, 0)] * 20 + [(0, 1)] * 5, columns=["judge", "human"]
)  # fmt: skip


def rate(passes: int, n: int = 1000) -> list[bool]:
    return [place < passes for place in range(n)]


def check_plain(verdict: Verdict) -> None:
    assert 1 <= len(verdict.sentences) <= 4
    words = " ".join(verdict.sentences)
    # `not decided` is the word for it; labels and people are what it is about.
    assert set(terms_among([words])) <= {"not decided"}, words
    assert not re.search("[≤≥<>ρεωλ_κα]", words), words


@pytest.mark.parametrize(
    ("judge", "n", "state"), [(0.05, 200, "ok"), (0.45, 200, "problem"), (0.25, 20, "cannot tell")]
)  # fmt: skip
def test_an_agreement_says_whether_the_judge_agrees_as_well_as_people_do(judge: float, n: int, state: str) -> None:
    done = agreement({**PEOPLE, "gpt": judge}, n=n)
    *_, finding = done.verdict.findings
    assert finding.state == state
    assert done.verdict.sentences[0].startswith("gpt ")
    assert finding.text in done.verdict.sentences
    check_plain(done.verdict)
    if state == "cannot tell":
        assert int(re.search(r"some ([\d,]+) further", str(done.verdict))[1].replace(",", "")) >= 10


def test_back_quotes_of_a_name_make_no_code() -> None:
    done = agreement({"`ann`": 0.1, "`gpt`": 0.1}, n=60, judge="`gpt`")
    assert done.verdict.sentences[0].startswith("ˋgptˋ ")
    assert "`" not in str(done.verdict)


def test_one_person_and_no_judge_say_what_is_missing() -> None:
    alone = agreement({"ann": 0.1, "gpt": 0.1}, n=60)
    assert [finding.state for finding in alone.verdict.findings] == ["ok", "cannot tell"]
    people = agreement(PEOPLE, n=60, judge=None)
    for done in (alone, people):
        check_plain(done.verdict)
        assert done.verdict.sentences[0]


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        (rate(830), "problem"),
        (rate(700), "cannot tell"),
        ({"old": rate(300), "new": rate(950)}, "ok"),
        ({"old": rate(700), "new": rate(720)}, "cannot tell"),
    ],
)
def test_a_corrected_rate_says_how_far_the_judge_alone_is_off(verdicts: object, state: str) -> None:
    done = jrh.correct(verdicts, LABELLED, sampling="random")
    (finding,) = done.verdict.findings
    assert finding.state == state
    assert "100 items" in str(done.verdict)
    check_plain(done.verdict)
    if state == "problem":
        assert "too high" in finding.text
    if state == "ok":
        assert finding.text.startswith("new ")


def test_a_judge_that_says_nothing_leaves_the_rate_open() -> None:
    useless = pd.DataFrame([(1, 1), (1, 0), (0, 1), (0, 0)] * 10, columns=["judge", "human"])
    done = jrh.correct(rate(500), useless, sampling="stratified")
    assert [finding.state for finding in done.verdict.findings] == ["cannot tell"]
    check_plain(done.verdict)


@pytest.mark.parametrize("kind", ["agreement", "corrected"])
def test_the_verdict_comes_first_everywhere(kind: str) -> None:
    done: Agreement | Corrected = (
        agreement({**PEOPLE, "gpt": 0.3}, n=60) if kind == "agreement" else jrh.correct(rate(900), LABELLED)
    )
    lead, *_ = sentences = done.verdict.sentences
    assert done.to_dict()["verdict"] == done.verdict.to_dict()
    assert " ".join(done.page.to_text()).startswith(" ".join(sentences))
    assert done.to_markdown().splitlines()[2] == f"**{lead}**"
    card = done._repr_html_()
    assert card.index(lead) < card.index("<table")
    assert str(done).splitlines()[:-1] == list(sentences)
    content = agreement_content(done) if isinstance(done, Agreement) else corrected_content(done)
    assert content.tags["jrh.verdict"] == lead


def test_a_judge_with_one_answer_stands_in_for_nobody() -> None:
    rng = np.random.default_rng(7)
    truth = rng.random(300) < 0.9
    people = {name: np.where(rng.random(300) < 0.92, truth, ~truth) for name in ("ann", "bob", "cem")}
    frame = pd.DataFrame({**people, "gpt": True}).rename_axis("item").reset_index()
    done = jrh.agree(frame.melt(id_vars="item", var_name="rater", value_name="label"), judge="gpt", log=False)
    assert done.estimates["alt_test/winning_rate"].value == 1
    *_, finding = done.verdict.findings
    assert finding.state == "problem"
    markdown = done.to_markdown()
    assert "it may replace" not in markdown
    assert "| yes |" not in markdown
    check_plain(done.verdict)
