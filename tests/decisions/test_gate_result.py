"""`Gate`: what it says of itself, as a truth value, a table, JSON, Markdown and HTML."""

from __future__ import annotations

import json
import re
import shlex

import click
import pytest

from jrh_mlflow.cli.main import group
from jrh_mlflow.decisions.gate_result import Gate, Undecided, gate_content
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.rules import RuleCheck, State, parse_rule
from jrh_mlflow.show.glossary import terms_among

pytestmark = pytest.mark.quick

COLUMNS = ["rule", "state", "estimate", "low", "high", "further_tasks", "n", "n_clusters", "reason", "censored"]
HOSTILE = "<script>alert(1)</script> [click](http://x) `code` | cell\n# heading \x1b[31m"


def check(
    state: State, text: str = "dark_current <= 0.1", *, further: int | None = None, why: str = "why"
) -> RuleCheck:
    return RuleCheck(
        rule=parse_rule(text),
        state=state,
        estimate=0.05,
        low=0.01,
        high=0.2,
        reason=why,
        further_tasks=further,
        n=120,
        n_clusters=10,
    )


def gate(*states: State, undecided: Undecided = "fail", **more: str) -> Gate:
    rules = [check(state, f"dark_current <= 0.{place + 1}") for place, state in enumerate(states)]
    return Gate(results=tuple(rules), undecided=undecided, **{"subject": "a judge on a suite", **more})


@pytest.mark.parametrize(
    ("states", "passed"),
    [
        (("holds", "holds"), True),
        (("holds", "fails"), False),
        (("undecided", "fails"), False),
        (("holds", "undecided"), None),
    ],
)
def test_a_gate_is_true_only_where_everything_holds(states, passed):
    found = gate(*states)
    assert found.passed is passed
    assert bool(found) is (passed is True)


def test_a_policy_can_let_the_undecided_through_but_no_failure():
    assert bool(gate("holds", "undecided", undecided="pass"))
    assert gate("holds", "undecided", undecided="pass").passed is None
    assert "taken as passed" in gate("undecided", undecided="pass").to_markdown()
    assert "taken as passed" not in gate("holds", undecided="pass").to_markdown()
    assert not bool(gate("fails", "undecided", undecided="pass"))


def test_a_gate_without_rules_says_nothing():
    with pytest.raises(RecipeError, match="No rule"):
        _ = gate().passed


def test_the_checks_have_the_columns_of_the_description_and_more_behind_them():
    frame = Gate(
        results=(check("undecided", further=12), check("holds", "cost/usd <= 1", further=0)), subject="x"
    ).checks
    assert list(frame.columns) == COLUMNS
    assert frame["rule"].tolist() == ["dark_current <= 0.1", "cost/usd <= 1"]
    assert frame["further_tasks"].tolist() == [12, 0]


def test_a_count_that_is_not_known_is_missing_and_no_number():
    frame = Gate(results=(check("undecided"), check("holds", further=0)), subject="x").checks
    assert frame["further_tasks"].isna().tolist() == [True, False]
    assert frame["further_tasks"].dtype == "Int64"


def test_the_reason_is_one_line_that_begins_with_the_outcome_and_names_the_rules():
    assert gate("holds", "holds").reason == "passed: 2 of 2 rules hold"
    assert gate("holds", "fails").reason == "failed: 1 of 2 rules: dark_current <= 0.2 (0.05 [0.01, 0.20])"
    one = Gate(results=(check("undecided", further=1200),), subject="x")
    assert one.reason.startswith("not decided: 1 of 1 rules: dark_current <= 0.1 (")
    assert "some 1,200 further tasks" in one.reason
    assert "and 2 more" in gate(*["fails"] * 5).reason


RUN = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("states", "word", "states_of_findings"),
    [
        (("holds", "holds"), "Passed", ("ok", "ok")),
        (("holds", "fails", "undecided"), "Failed", ("ok", "problem", "cannot tell")),
        (("holds", "undecided"), "Not decided", ("ok", "cannot tell")),
    ],
)
def test_the_verdict_comes_first_everywhere(states, word, states_of_findings):
    found = gate(*states, gated_run=RUN)
    lead, *_ = sentences = found.verdict.sentences
    assert lead.startswith(word)
    assert 2 <= len(sentences) <= 4
    assert tuple(finding.state for finding in found.verdict.findings) == states_of_findings
    assert found.to_dict()["verdict"] == found.verdict.to_dict()
    assert " ".join(found.to_lines()).startswith(" ".join(sentences))
    assert f"**{lead}**" in found.to_markdown()
    assert found._repr_html_().index(lead) < found._repr_html_().index("<table")
    assert repr(found).startswith(f"Gate({lead}")
    assert str(found).splitlines()[:-1] == list(sentences)
    assert gate_content(found).tags == {"jrh.verdict": lead}


def test_a_verdict_has_numbers_and_no_word_of_the_glossary():
    for state in ("holds", "fails", "undecided"):
        for rule in ("dark_current <= 0.1", "excluded/dark_current <= 0.1", "dark_current - baseline <= 0.1"):
            found = Gate(results=(check(state, rule, further=40),), subject="a judge", gated_run=RUN)
            said = str(found.verdict)
            assert "0.05 (between 0.01 and 0.20)" in said
            assert "at most 0.1" in said
            # Advice is declared with its axis.
            words = " ".join([found.verdict.sentences[0], *(finding.text for finding in found.verdict.findings)])
            assert set(terms_among([words])) <= {"not decided"}, rule
            assert not re.search("[≤≥<>δ_]", words)


@pytest.mark.parametrize(
    ("states", "ends"),
    [
        (("holds", "holds"), "both rules hold."),
        (("fails", "fails", "fails"), "all 3 rules fail."),
        (("holds", "fails", "undecided"), "1 of 3 rules fails."),
        (("holds", "undecided"), "1 of 2 rules is open."),
        (("holds", "undecided", "undecided"), "2 of 3 rules are open."),
    ],
)
def test_the_verb_of_rules_goes_with_their_number(states, ends):
    assert gate(*states).verdict.sentences[0].endswith(f"; {ends}")


@pytest.mark.parametrize(
    "axis",
    ["target_sensitivity/delta_1", "ability", "ability/delta_2", "positional_excess", "matched_threshold_75"],
)
def test_a_verdict_names_no_formula_and_is_grammatical(axis):
    text = Gate(results=(check("fails", f"{axis} >= 0.8"),), subject="x").verdict.findings[0].text
    assert not re.search(r"[−=]|1/2|1 requirement more are", text)
    clause = text.split("meets", 1)[-1].split(", ", 1)[-1] if "meets" in text else text
    assert clause.partition(" is ")[0].count(",") in (0, 2), "a clause that opens is closed"


def test_back_quotes_of_names_make_no_code():
    found = Gate(results=(check("fails", "`a`/accuracy <= 0.1"),), subject="`judge`")
    assert "ˋjudgeˋ" in found.verdict.sentences[0]
    assert "`" not in str(found.verdict)


def test_what_is_not_decided_says_how_many_tasks_would_and_a_command_that_can_be_pasted():
    found = Gate(results=(check("undecided", further=1200),), subject="x", gated_run=RUN)
    (finding,) = found.verdict.findings
    assert "1,200" in finding.text
    assert finding.command == f"jrh plan --axis dark_current --width 0.1 --pilot {RUN[:8]}"
    assert any(f"`{finding.command}`" in line for line in found.to_lines())
    for state in ("holds", "fails", "undecided"):
        (finding,) = Gate(results=(check(state, further=3),), subject="x", gated_run=RUN).verdict.findings
        name, *arguments = shlex.split(finding.command)[1:]
        assert group.get_command(click.Context(group), name).make_context(name, arguments)


def test_a_gate_is_plain_json_in_both_directions():
    found = Gate(results=(check("undecided", further=3),), subject="x", baseline_run="b" * 32)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["passed"] is None
    assert data["checks"][0] | {"rule": "dark_current <= 0.1", "further_tasks": 3} == data["checks"][0]
    assert data["baseline_run"] == "b" * 32


def test_a_rule_can_be_read_and_copied_from_the_markdown():
    assert "`dark_current <= 0.1`" in gate("fails").to_markdown()


def test_hostile_text_stays_text_in_markdown_and_html():
    found = Gate(
        results=(check("fails", why=HOSTILE),),
        subject=HOSTILE,
        notes=(HOSTILE,),
        facts={HOSTILE: HOSTILE},
        link=HOSTILE,
    )
    markdown = found.to_markdown()
    assert "<script" not in markdown
    assert "[click]" not in markdown
    assert "\x1b" not in markdown
    assert [line for line in markdown.splitlines() if line.startswith("#")] == [markdown.splitlines()[0]]
    assert all(line.count(" | ") <= 8 or "\\|" in line for line in markdown.splitlines() if line.startswith("|"))
    assert "<script" not in found._repr_html_()
