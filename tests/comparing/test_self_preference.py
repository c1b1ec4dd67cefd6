"""`jrh.self_preference`: a planted bonus is read, none is read as none, and what cannot be told is said."""

from __future__ import annotations

import json
import random
import zlib

import mlflow
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import expit

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.comparing.answer_pairs import COLUMNS
from jrh_mlflow.comparing.self_preference import LIMIT, measure_self_preference
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from tests.loopback import LoopbackServer, Reply

A, B, C = "openai/gpt-4o", "anthropic/claude-sonnet-4", "mistral/mistral-large"
AUTHORS = ("first_author", "second_author")
EXCESS, FAMILY = "self_preference/excess", "self_preference/family_excess"


def answers(n=60, authors=(A, B), seed=0):
    """Return a row for each prompt and author, as `jrh.respond` does; quality and author stand in the text."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        [
            {
                "id": f"p{at}",
                "prompt": f"Question {at}?",
                "response": f"{rng.normal(0, 1.5):+.3f} by {author}",
                "author": author,
            }
            for at in range(n)
            for author in authors
        ]
    )


def planted(own, bonus, *, slot=0.3):
    """Return a judge that sees the quality with noise and adds a bonus to its own author's answer."""

    def judge(shown):
        values = [float(text.split()[0]) for text in (shown.first, shown.second)]
        stake = [bonus * text.endswith(f" by {own}") for text in (shown.first, shown.second)]
        odds = values[0] - values[1] + stake[0] - stake[1] + slot
        drawn = random.Random(zlib.crc32(f"{own}{bonus}{shown.instruction}{shown.first}".encode()))
        return "1" if drawn.random() < expit(odds) else "2"

    return judge


def read(judges, frame=None, **options):
    return jrh.self_preference(answers(150) if frame is None else frame, judges, log=False, progress=False, **options)


def test_a_planted_bonus_is_read_and_none_is_read_as_none():
    fair = read({A: planted(A, 0.0), B: planted(B, 0.0), C: planted(C, 0.0)}).estimates[EXCESS]
    partial = read({A: planted(A, 2.0), B: planted(B, 2.0), C: planted(C, 0.0)})
    biased = partial.estimates[EXCESS]
    assert fair.cluster_low < 0 < fair.cluster_high
    assert biased.cluster_low < expit(2.0) - 0.5 < biased.cluster_high
    assert biased.cluster_low > LIMIT
    assert partial.verdict.findings[0].state == "problem"
    assert (biased.n, biased.n_clusters <= 150, biased.excluded, biased.unit) == (150, True, 0, "pair")


def test_a_bonus_per_judge_needs_somebody_outside_the_pair():
    with_outsider = read({A: planted(A, 2.0), B: planted(B, 0.0), C: planted(C, 0.0)}).by_judge
    assert with_outsider[A]["excess"].cluster_low > LIMIT
    assert with_outsider[B]["excess"].cluster_low < 0 < with_outsider[B]["excess"].cluster_high
    assert C not in with_outsider
    authors = read({A: planted(A, 2.0), B: planted(B, 0.0)})
    # Only their mean is told, and it is said.
    assert isinstance(authors.estimates[EXCESS], Estimate)
    assert all(isinstance(own["excess"], NotEstimable) for own in authors.by_judge.values())
    assert any("mean of the two authors" in sentence for sentence in authors.verdict.sentences)


def test_one_judge_alone_needs_labels():
    pairs = paired(answers(150))
    alone = read({A: planted(A, 1.5)}, pairs.drop(columns="better"))
    assert isinstance(alone.estimates[EXCESS], NotEstimable)
    assert alone.verdict.findings[0].state == "cannot tell"
    labelled = read({A: planted(A, 1.5)}, pairs)
    assert labelled.estimates[EXCESS].cluster_low > 0
    assert labelled.labels == ["better"]


def paired(frame):
    """Return a row for each pair, with the label of a person who sees the quality with noise."""
    rng, rows = np.random.default_rng(7), []
    for item, own in frame.groupby("id", sort=False):
        first, second = own.to_dict("records")
        better = rng.random() < expit(float(first["response"].split()[0]) - float(second["response"].split()[0]))
        rows.append(
            {
                "id": item,
                "instruction": first["prompt"],
                "first": first["response"],
                "second": second["response"],
                "first_author": first["author"],
                "second_author": second["author"],
                "better": "1" if better else second["author"],
            }
        )
    return pd.DataFrame(rows)


def test_a_family_is_read_where_the_judge_itself_wrote_nothing():
    related = "openai/gpt-4o-mini"
    done = read({related: planted(A, 2.0), C: planted(C, 0.0), "xai/grok-4": planted("grok", 0.0)})
    assert isinstance(done.estimates[EXCESS], NotEstimable)
    assert done.estimates[FAMILY].cluster_low > LIMIT
    assert done.families[related] == done.families[A] == "GPT"
    own = read({"mine": planted(A, 2.0), C: planted(C, 0.0)}, families={"mine": "house", A: "house"})
    assert own.estimates[FAMILY].cluster_low > LIMIT


def test_calls_that_gave_no_answer_are_never_a_verdict_and_too_many_withhold_the_number():
    def failing(share):
        judge = planted(A, 1.0)

        def ask(shown):
            if random.Random(zlib.crc32(shown.first.encode())).random() < share:
                raise RuntimeError("no answer")
            return judge(shown)

        return ask

    some = read({A: failing(0.05), C: planted(C, 0.0), "D": planted("D", 0.0)}).estimates[EXCESS]
    assert some.excluded > 0
    assert some.left_out == {"error": some.excluded}
    assert some.bound_low <= some.value <= some.bound_high
    low, high = some.decides_at(0.95)
    assert low <= some.cluster_low
    assert high >= some.cluster_high
    many = read({A: failing(0.4), C: planted(C, 0.0)}).estimates[EXCESS]
    assert isinstance(many, NotEstimable)
    assert many.withheld


def test_ties_are_half_a_win_for_each():
    tied = read({A: lambda shown: "tie", C: lambda shown: "tie", B: lambda shown: "tie"})
    assert set(tied.cells["share"]) == {0.5}
    reading = tied.estimates[EXCESS]
    assert reading.value == pytest.approx(0, abs=1e-9)
    assert reading.cluster_low < 0 < reading.cluster_high


def test_which_slot_comes_first_in_the_table_does_not_matter():
    frame = paired(answers(60))
    turned = frame.rename(columns={"first": "second", "second": "first"})
    turned = turned.rename(columns={"first_author": "second_author", "second_author": "first_author"})
    turned["better"] = ["2" if better == "1" else better for better in frame["better"]]
    judges = {A: planted(A, 1.0), C: planted(C, 0.0)}
    assert read(judges, turned).estimates[EXCESS].value == pytest.approx(read(judges, frame).estimates[EXCESS].value)


def test_recorded_judgments_are_read_without_asking_anybody(tmp_path):
    done = read({A: planted(A, 2.0), B: planted(B, 2.0), C: planted(C, 0.0)})
    rows = []
    for row in done.judgments.to_dict("records"):
        first, second = (row["first_author"], row["second_author"])[:: 1 if row["order"] == "uv" else -1]
        winner = row["first_author"] if row["score"] else row["second_author"]
        judge = row["rater"]
        rows.append(
            {"id": row["item"], "first_author": first, "second_author": second, "judge": judge, "winner": winner}
        )
    path = tmp_path / "judgments.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    again = jrh.self_preference(path, log=False)
    assert again.estimates[EXCESS].value == pytest.approx(done.estimates[EXCESS].value, abs=1e-6)
    printed = CliRunner().invoke(group, ["self-preference", str(path), "--no-log", "--json"])
    assert printed.exit_code == 0, printed.output
    assert json.loads(printed.output)["readings"]["excess"]["value"] == again.estimates[EXCESS].value


def longest(shown):
    return "1" if len(shown.first) > len(shown.second) else "2"


def test_judges_are_typed_with_the_author_that_they_are_or_by_their_own_name(tmp_path):
    path, code = tmp_path / "answers.csv", f"{__name__}:longest"
    answers(12).rename(columns={"author": "who"}).to_csv(path, index=False)
    typed = ["self-preference", str(path), "--judge", f"{A}=scripted:LongerWins", "--judge", code]
    typed += ["--map", "author=who", "--family", f"{A}=house", "--json"]
    done = json.loads(CliRunner().invoke(group, [*typed, "--no-log"]).stdout)
    assert done["judges"] == {f"{A} (simulated)": A, code: code}
    assert done["families"] == {A: "house", B: "Claude"}
    quotes = json.loads(CliRunner().invoke(group, [*typed, "--dry-run"]).stdout)
    assert [quote["calls"] for quote in quotes.values()] == [24, 24]


@pytest.mark.parametrize(
    ("frame", "word"),
    [
        (pd.DataFrame({"prompt": ["a"], "response": ["b"]}), "author"),
        (pd.DataFrame({"prompt": ["a"], "response": ["b"], "author": ["x"]}), "two authors"),
        (paired(answers(2)).assign(better="both"), "both"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_what_it_lacks(frame, word):
    with pytest.raises(RecipeError, match=word):
        read({A: planted(A, 0.0), B: planted(B, 0.0)}, frame)


def test_fewer_than_ten_items_have_no_number():
    done = read({A: planted(A, 1.0), C: planted(C, 0.0)}, answers(9))
    assert isinstance(done.estimates[EXCESS], NotEstimable)


def test_the_run_holds_the_numbers_and_can_be_gated(store_uri):
    judges = {A: planted(A, 2.5), B: planted(B, 2.5), C: planted(C, 0.0)}
    where = {"tracking_uri": store_uri, "experiment": "self-preference"}
    done = jrh.self_preference(answers(120), judges, progress=False, **where)
    run = mlflow.MlflowClient(store_uri).get_run(done.run_id)
    assert run.data.tags["jrh.kind"] == "self_preference"
    assert run.data.metrics[f"{EXCESS}/value"] == done.estimates[EXCESS].value
    assert run.data.tags["jrh.verdict"] == done.verdict.sentences[0]
    files = {file.path for file in mlflow.MlflowClient(store_uri).list_artifacts(done.run_id)}
    assert {"self_preference.json", "self_preference.md", "page.json", "tables", "figures"} <= files
    failed = jrh.gate(done.run_id, f"{EXCESS} <= 0.1", tracking_uri=store_uri)
    assert failed.passed is False
    assert jrh.gate(done.run_id, f"{EXCESS} <= 0.49", tracking_uri=store_uri, log=False).passed in (True, None)
    near = jrh.gate(
        done.run_id, f"{EXCESS} <= {done.estimates[EXCESS].value + 0.01:.3f}", tracking_uri=store_uri, log=False
    )
    assert near.passed is None
    assert near.checks["further_tasks"][0] > 0
    with pytest.raises(RecipeError, match="Unknown axis"):
        jrh.gate(done.run_id, "dark_current <= 0.1", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match="baseline"):
        jrh.gate(done.run_id, f"{EXCESS} - baseline <= 0.1", baseline=failed.run_id, tracking_uri=store_uri)


@pytest.mark.slow
def test_a_third_model_rewrites_both_answers_and_judges_are_asked_again(monkeypatch, tmp_path):
    """The judge knows its own answer by its author's name, which the rewriter drops: the preference goes with it."""

    def rewrite(body):
        text = body["messages"][-1]["content"].split("=" * 20)[1].strip()
        return Reply(refusal="no") if "never" in text else text.split(" by ")[0]

    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with LoopbackServer(reply=rewrite, record=True) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        judges = {A: planted(A, 2.5), B: planted(B, 2.5), C: planted(C, 0.0)}
        done = read(judges, answers(80), rewriter="openai/rewriter", journal=tmp_path / "journal.db")
        sent = len(server.requests)
        again = read(judges, answers(80), rewriter="openai/rewriter", journal=tmp_path / "journal.db")
        assert len(server.requests) == sent == 160
    assert again.metrics == done.metrics
    assert done.estimates[EXCESS].cluster_low > LIMIT
    neutral = done.estimates["self_preference/rewritten_excess"]
    assert neutral.cluster_low < 0 < neutral.cluster_high
    assert done.rewriter == "openai/rewriter"


def test_what_is_assumed_is_said_beside_the_number():
    done = read({A: planted(A, 2.0), B: planted(B, 0.0), C: planted(C, 0.0)})
    assert any("sharply" in sentence for sentence in done.verdict.sentences)


def test_names_of_authors_are_shown_as_text_and_never_come_to_life():
    nasty = "<script>alert(1)</script>"
    done = read({nasty: planted(nasty, 1.0), C: planted(C, 0.0)}, answers(30, authors=(nasty, B)))
    assert "<script>" not in done._repr_html_()
    assert "<script>" not in done.page.to_html()


def test_the_measure_takes_judgments_alone():
    judgments = pd.DataFrame(
        [
            ("as written", f"i{at}", who, "judge", order, "verdict", float(who == A or (at + ord(who[0])) % 3 > 0), *of)
            for at in range(30)
            for of in [(f"i{at}", A, B)]
            for who in (A, C)
            for order in ("uv", "vu")
        ],
        columns=COLUMNS,
    )
    report = measure_self_preference(judgments, judges={A: A, C: C}, families={})
    assert report.readings["excess"].value > 0
    assert report.cells.set_index(["judge", "author"])["stake"][A, A] == "own"
