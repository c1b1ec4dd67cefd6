"""Repair: changes of judges, what the halves decide, and the verb on judges whose fault a sentence switches off."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import BudgetError, RecipeError
from jrh_mlflow.judges.scripted import uniform
from jrh_mlflow.measures.verdict import findings
from jrh_mlflow.schema.items import FILLER, Item
from jrh_mlflow.show.results import measure
from jrh_mlflow.sweeps.interventions import INTERVENTIONS, RepairArm, arms_for
from jrh_mlflow.sweeps.mending import (
    ABILITY,
    AGREEMENT,
    AskedArm,
    Mending,
    decide_arms,
    finalists,
    recommended,
    search_arms,
)
from jrh_mlflow.sweeps.repair import _ArmBudget, front_figures, not_mended
from tests.loopback import LoopbackServer
from tests.validation.mended_judges import FaultyJudge, answers_of

MODEL = "openai/gpt-4o-mini"
LONGER = "longer is not better"


def arm(*names: str) -> RepairArm:
    table = {change.name: change for change in INTERVENTIONS}
    return RepairArm(changes=tuple(table[name] for name in names))


def both_ways(first: dict[str, str], second: dict[str, str]) -> pd.DataFrame:
    """Three asks of each order of one pair."""
    rows = [
        {"suite_item": "p", "task": "t", "condition": "delta_0_same", "delta": 0.0, "better": "", "expected": ""}
        | {"order": order, "replicate": number, "outcome": "verdict" if answer in "12" else "tie"}
        | {"answer": answer if answer in "12" else ""}
        for order, answers in (("uv", first), ("vu", second))
        for number, answer in enumerate(answers)
    ]
    return pd.DataFrame(rows)


# --- changes


@pytest.mark.parametrize(
    ("first", "second", "names", "answers"),
    [
        ("1", "1", ("both orders",), ["", ""]),
        ("1", "2", ("both orders",), ["1", "2"]),
        ("11t", "1tt", ("three asks and a vote",), ["1", ""]),
        ("112", "221", ("three asks and a vote", "both orders"), ["1", "2"]),
        ("12", "21", (), ["1", "2", "2", "1"]),
    ],
)
def test_calls_are_read_as_a_user_of_the_policy_gets_them(first, second, names, answers):
    decided = arm(*names).decisions(both_ways(first, second))
    assert decided["answer"].tolist() == answers
    assert set(decided["outcome"]) <= {"verdict", "tie"}


def test_a_lost_order_leaves_no_decision():
    calls = both_ways("1", "2")
    calls.loc[0, ["outcome", "answer"]] = ["error", ""]
    assert set(arm("both orders").decisions(calls)["outcome"]) == {"error"}


def test_a_sentence_stands_behind_the_rubric_of_a_prompt_and_the_registry_version_is_no_longer_its():
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    judge, _ = arm(LONGER, "order says nothing").applied(jrh.PromptedJudge(MODEL), suite) or (None, None)
    assert isinstance(judge, jrh.PromptedJudge)
    text = judge.template.text
    assert text.count("A longer answer is not a better one.") == text.count("{rubric}") == 2
    assert "says nothing about their quality" in text
    assert jrh.PromptedJudge(MODEL).template.name == "pairwise"


def test_a_judge_with_messages_of_its_own_gets_sentences_and_fences_in_its_last_message():
    content = "{instruction}\n{first}\n{second}"
    judge = jrh.PromptedJudge(
        MODEL, messages=[{"role": "user", "content": content}], raw=True, verdict={"A": "1", "B": "2", "C": "tie"}
    )
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    changed, _ = arm(LONGER, "fences").applied(judge, suite) or (None, None)
    text = changed.messages[0]["content"]
    assert "<response_1>\n{first}\n</response_1>" in text
    assert "A longer answer is not a better one." in text
    assert judge.messages[0]["content"] == content
    assert changed.fingerprint() != judge.fingerprint()


def test_only_what_fits_a_judge_and_changes_something_is_tried():
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    problems = ["slot_lean", "ability", "padding_lean"]
    names = {one.name for one in arms_for(problems, jrh.PromptedJudge(MODEL, temperature=0.7), suite)}
    assert {"slots as digits", "slots as neutral names", "temperature 0", "three asks and a vote"} <= names
    assert not names & {"slots as letters", "fences", "reasons before the verdict", "reference answer"}
    cold = {one.name for one in arms_for(problems, jrh.PromptedJudge(MODEL, tie_criterion="strict"), suite)}
    assert not cold & {"temperature 0", "three asks and a vote", "when a tie is right"}
    assert arms_for([], jrh.PromptedJudge(MODEL), suite) == []


def test_a_reference_is_shown_where_items_have_one():
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)
    with_one = jrh.Suite(name="x", items=[replace(item, meta={**item.meta, "reference": "42"}) for item in suite.items])
    _, shown = arm("reference answer").applied(jrh.PromptedJudge(MODEL), with_one) or (None, None)
    assert {item.context for item in shown.items} == {("Reference answer: 42",)}


def test_changes_of_one_setting_exclude_each_other_and_sentences_do_not():
    assert not arm("when a tie is right").goes_with(arm("a tie only for equals"))
    assert not arm(LONGER).goes_with(arm(LONGER))
    assert arm(LONGER).goes_with(arm("order says nothing"))


def test_every_row_of_the_table_can_be_made_and_mends_axes_that_exist():
    from jrh_mlflow.measures.axes import AXES

    names = [axis.main_key for axis in AXES] + ["drop/injection", "noise_excess/authority", "drop/verbosity_bias_long"]
    for change in INTERVENTIONS:
        assert change.text
        assert any(change.may_mend([name]) for name in names), change.name


# --- decisions


def asked(judge: FaultyJudge, one: RepairArm, seed: int, **changed: object) -> AskedArm:
    return AskedArm(arm=one, records=answers_of(judge, one, np.random.default_rng(seed)), **changed)


CURED = FaultyJudge(name="cured", slot={"order says nothing": 0.0}, padding={})


def test_what_mends_is_better_and_what_does_not_has_no_difference_with_the_largest_loss():
    mending = Mending(
        unchanged=asked(CURED, RepairArm(), 1),
        arms=[asked(CURED, arm("order says nothing"), 2), asked(CURED, arm(LONGER), 3)],
        problems=["slot_lean", "padding_lean"],
    )
    right, wrong = decide_arms(mending)
    states = {change.axis: change.state for change in right.changes}
    assert states["slot_lean"] == states["dark_current"] == "better"
    assert states["padding_lean"] == states[ABILITY] == "no difference shown"
    assert right.refusal == ""
    (slot,) = (change for change in right.changes if change.axis == "slot_lean")
    assert slot.low < CURED.truth("slot_lean", RepairArm()) < slot.high
    assert 0 < right.ability.bound < 0.1
    assert wrong.refusal == "no problem is shown to be better"
    assert recommended([right, wrong]) is right
    assert recommended([wrong]) is None


def test_a_lean_to_the_other_side_is_no_improvement():
    base = answers_of(CURED, RepairArm(), np.random.default_rng(1))
    # The same with the slots exchanged on equal pairs: as large a lean, to the second slot.
    equal = base["condition"].isin(["delta_0_same", "vacuum_empty", "vacuum_whitespace", "vacuum_identical"])
    turned = base.assign(answer=base["answer"].where(~equal, base["answer"].map({"1": "2", "2": "1", "": ""})))
    mending = Mending(
        unchanged=AskedArm(arm=RepairArm(), records=base),
        arms=[AskedArm(arm=arm(LONGER), records=turned)],
        problems=["slot_lean"],
    )
    (row,) = (change for change in mending.changes() if change.axis == "slot_lean")
    assert row.after == pytest.approx(-row.before)
    assert row.state == "no difference shown"
    assert row.value == pytest.approx(0, abs=1e-9)


def test_problems_that_remain_are_said_and_a_judge_at_chance_is_told_to_be_changed():
    def read(judge: FaultyJudge, one: RepairArm, seed: int):
        return measure(asked(judge, one, seed).records).estimates

    coin = replace(CURED, costs={LONGER: 0.5, "order says nothing": 0.5})
    before, after = read(coin, arm(LONGER), 1), read(coin, arm("order says nothing"), 2)
    problems = [finding for finding in findings(before) if finding.state == "problem"]
    assert {"ability", "slot_lean", "padding_lean"} <= {finding.axis for finding in problems}
    (left,) = not_mended(problems, after)
    assert "coin" in left
    assert "another model" in left
    (padded,) = not_mended([one for one in problems if one.axis in ("slot_lean", "padding_lean")], after)
    assert "another model" not in padded
    assert not_mended([one for one in problems if one.axis == "slot_lean"], after) == []


def test_an_arm_that_costs_ability_or_breaks_answers_is_refused():
    dear = FaultyJudge(name="dear", slot={"order says nothing": 0.0}, costs={"order says nothing": 0.2})
    base, cured = asked(dear, RepairArm(), 1), asked(dear, arm("order says nothing"), 2)
    (decision,) = decide_arms(Mending(unchanged=base, arms=[cured], problems=["slot_lean"]))
    assert decision.better
    assert decision.refusal
    healthy = asked(CURED, arm("order says nothing"), 2)
    lost = healthy.records.copy()
    rows = lost.index[lost["condition"] == FILLER][:20]
    lost.loc[rows, "outcome"], lost.loc[rows, "answer"] = "unparsed", ""
    (broken,) = decide_arms(
        Mending(
            unchanged=asked(CURED, RepairArm(), 1),
            arms=[replace(healthy, records=lost)],
            problems=["slot_lean"],
        )
    )
    assert broken.withheld == ["padding_lean"]
    assert "no usable answer" in broken.refusal


@pytest.mark.drawn
def test_what_is_decided_is_drawn_over_what_was_searched_and_calls_are_whole_numbers():
    base, cured = asked(CURED, RepairArm(), 1), asked(CURED, arm("order says nothing"), 2)
    halves = [
        decide_arms(Mending(unchanged=base, arms=[cured], problems=["slot_lean"], decides=decides))
        for decides in (True, False)
    ]
    (axes,) = front_figures([row for half in halves for row in half])["cost_and_problems.png"].axes
    assert [dot.get_markerfacecolor() == "white" for dot in axes.lines[-2:]] == [True, False]
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_of_arms_that_mend_alike_the_cheaper_is_recommended_and_then_the_simpler():
    def decided(*names: str, usd: float, seed: int) -> AskedArm:
        return asked(CURED, arm(*names), seed, usd_per_1k=usd)

    base = asked(CURED, RepairArm(), 1)
    arms = [
        decided("order says nothing", usd=2.0, seed=2),
        decided("order says nothing", "temperature 0", usd=2.0, seed=3),
    ]
    mending = Mending(unchanged=base, arms=arms, problems=["slot_lean"])
    assert recommended(decide_arms(mending)).asked.arm.name == "order says nothing"
    dearer = [replace(arms[0], usd_per_1k=5.0), arms[1]]
    best = recommended(decide_arms(replace(mending, arms=dearer)))
    assert best.asked.arm.name == "order says nothing + temperature 0"


def test_agreement_with_people_is_an_axis():
    base = asked(CURED, RepairArm(), 1)
    equal = base.records.loc[base.records["condition"] == "delta_0_same", "suite_item"].unique()
    mending = Mending(
        unchanged=base,
        arms=[asked(CURED, arm("order says nothing"), 2)],
        problems=[AGREEMENT],
        people=dict.fromkeys(equal, "tie"),
    )
    (decision,) = decide_arms(mending)
    assert [change.axis for change in decision.better] == [AGREEMENT]


def test_the_search_stops_where_there_is_no_money_and_pairs_need_to_mend_more():
    calls: list[str] = []

    def ask(one: RepairArm) -> AskedArm | None:
        calls.append(one.name)
        return asked(CURED, one, len(calls) + 10) if len(calls) <= 3 else None

    arms = [arm("order says nothing"), arm(LONGER), arm("slots as digits"), arm("slots as neutral names")]
    tried = search_arms(asked(CURED, RepairArm(), 1), arms, ["slot_lean"], ask)
    assert tried[0].asked.arm.name == "order says nothing"
    assert len(tried) == 3
    assert finalists(tried)[0].name == "order says nothing"
    assert not any(len(one.changes) > 1 for one in finalists(tried))


def test_a_pair_is_decided_beside_one_of_its_changes_and_nothing_else():
    half = FaultyJudge(name="half", slot={"order says nothing": 0.4, "when a tie is right": 0.4})
    arms = [arm("order says nothing"), arm("when a tie is right"), arm("slots as digits")]
    tried = search_arms(asked(half, RepairArm(), 1), arms, ["slot_lean"], lambda one: asked(half, one, len(one.name)))
    pair, part = finalists(tried)
    assert pair.names == {"order says nothing", "when a tie is right"}
    assert part.names < pair.names


def test_the_held_out_half_is_asked_as_often_as_the_cap_allows_where_answers_vary():
    suite = jrh.datasheet_suite(n_tasks=4, depth=1)

    def asks(temperature: float, times: float) -> int:
        judge = jrh.PromptedJudge(MODEL, temperature=temperature)
        asking = _ArmBudget(judge=judge, halves=(suite, suite), max_usd=1, options={})
        round_usd = 1.2 * 2 * asking.quote(RepairArm())
        return replace(asking, max_usd=times * round_usd).held_out_asks([arm("temperature 0")])

    assert [asks(0.7, times) for times in (0.5, 1.5, 2.5, 9)] == [1, 1, 2, 3]
    assert asks(0, 9) == 1


# --- the verb

NOISE = 0.1


class PaddingLover:
    """Finds the better answer, answers a tenth by chance, and takes the padded one unless it is told not to."""

    def __init__(self, items: list[Item]) -> None:
        self.known = {(item.u, item.v): item for item in items}

    def answer(self, first: str, second: str, told: str, salt: str = "") -> str:
        item = self.known.get((first, second)) or self.known[second, first]
        turned = (first, second) not in self.known
        chance = uniform(salt, told, item.id, turned)
        if chance < NOISE:
            return ("1", "2", "tie")[int(30 * chance) % 3]
        wanted = item.better or ("v" if item.condition == FILLER and "not a better one" not in told else "")
        return "tie" if not wanted else "1" if (wanted == "u") != turned else "2"


@pytest.fixture(scope="module")
def suite() -> jrh.Suite:
    whole = jrh.datasheet_suite(n_tasks=28, depth=5)
    # Vacuum and equal pairs show no problem of this judge: fewer calls.
    return jrh.Suite(name="padded", items=[item for item in whole.items if item.condition in ("ladder", FILLER)])


@pytest.mark.slow
def test_a_judge_of_code_is_repaired_and_every_arm_is_a_run_below_the_parent(suite, store_uri):
    lover = PaddingLover(list(suite.items))

    def judge(shown: jrh.Presentation) -> str:
        return lover.answer(shown.first, shown.second, shown.rubric or "")

    place = {"tracking_uri": store_uri, "traces": "none"}
    run = jrh.evaluate(judge, suite, experiment="repairs", replicates=2, **place)
    assert [finding.axis for finding in run.verdict.problems] == ["padding_lean"]
    with pytest.raises(RecipeError, match="judge="):
        jrh.repair(run, max_usd=1, **place)
    padded = [item.id for item in suite.items if item.condition == FILLER]
    labels = pd.DataFrame({"item": 3 * padded, "label": ["tie"] * 2 * len(padded) + ["first"] * len(padded)})
    with pytest.raises(RecipeError, match="columns item and label"):
        jrh.repair(run, max_usd=1, judge=judge, labels=labels[["item"]], **place)
    done = jrh.repair(run, max_usd=1, judge=judge, labels=labels, **place)
    assert done.recommended is not None
    assert LONGER in done.recommended.asked.arm.names
    assert "cut the pull of padding from" in done.verdict.sentences[0]
    assert done.prompt is None
    # Two of three people call the padded pairs equal, as the mended judge does.
    assert next(change for change in done.recommended.changes if change.axis == AGREEMENT).state == "better"
    client = MlflowClient(tracking_uri=store_uri)
    parent = client.get_run(done.run_id)
    assert parent.data.tags["jrh.kind"] == "repair"
    assert parent.data.metrics["repair/recommended"] == 1
    assert parent.data.tags["jrh.verdict"] == done.verdict.sentences[0]
    nested = client.search_runs([parent.info.experiment_id], f"tags.`mlflow.parentRunId` = '{done.run_id}'")
    asked_runs = [row.asked.run_id for row in done.tried] + [row.asked.run_id for row in done.decisions]
    unchanged = done.recommended.half.unchanged.run_id
    assert {*asked_runs, unchanged} == {one.info.run_id for one in nested}
    # The unchanged judge is asked afresh: the run's own answers decide nothing.
    assert unchanged != run.run_id
    assert {"arm", "axis", "before", "after", "gain", "low", "high", "state", "n"} <= {*done.to_frame()}
    data = json.loads(json.dumps(done.to_dict(), default=str))
    assert data["runs"] == {"before": unchanged, "after": done.recommended.asked.run_id}
    assert "<script" not in done.page.to_html() + done._repr_html_()


def loopback_reply(lover: PaddingLover):
    def reply(body: dict) -> str:
        text = body["messages"][-1]["content"]
        first, second = (
            re.search(rf'<response_{slot} code="\w+">\n(.*?)\n</response_{slot}', text, re.DOTALL)[1]
            for slot in ("A", "B")
        )
        told = "not a better one" if "not a better one" in text else str(len(text) - len(first) - len(second))
        answer = {"1": "A", "2": "B"}.get(slot := lover.answer(first, second, told), slot)
        return json.dumps({"reason": "as it is", "verdict": answer})

    return reply


@pytest.fixture(scope="module")
def prompted(suite, store_uri, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompted")
    with LoopbackServer(reply=loopback_reply(PaddingLover(list(suite.items))), record=True) as server:
        judge = jrh.PromptedJudge(MODEL, api_base=server.url, name="lover", structured=False)
        options = {"tracking_uri": store_uri, "traces": "none", "journal": str(folder / "journal.db")}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "sk-test")
            run = jrh.evaluate(judge, suite, experiment="prompted repairs", **options)
            yield run, options, server


def test_a_prompted_judge_is_made_again_from_its_run_and_its_repaired_prompt_is_registered(prompted, store_uri):
    run, options, server = prompted
    before = server.counts["requests"]
    # Enough for a few changes on one half, and for what is decided on the other; pairs of changes are tried above.
    cap = 4.5 * run.cost_usd
    done = jrh.repair(run, max_usd=cap, require=["padding_lean <= 0.5"], **options)
    assert done.recommended is not None
    assert LONGER in done.recommended.asked.arm.names
    assert done.cost_usd < cap
    # Held-out calls of the unchanged judge are in the journal since the run, and are sent again all the same.
    assert server.counts["requests"] - before > len(run.calls) / 2 * (len(done.tried) + len(done.decisions))
    client = MlflowClient(tracking_uri=store_uri, registry_uri=store_uri)
    assert done.prompt == "prompts:/lover-repaired/1"
    version = client.get_prompt_version("lover-repaired", "1")
    assert "not a better one" in json.dumps(version.template)
    assert version.tags["jrh.repair.before"] == done.recommended.half.unchanged.run_id
    assert version.tags["jrh.repair.after"] == done.recommended.asked.run_id
    assert json.loads(version.tags["jrh.repair.settings"])["temperature"] == 0.0
    assert [check.state for check in done.checks] == ["holds"]
    assert done.alias == "repaired"
    assert client.get_prompt_version_by_alias("lover-repaired", "repaired").version == 1
    assert "the alias repaired points to it" in str(done.verdict)


def test_a_cap_that_pays_for_nothing_is_refused_before_anything_is_asked(prompted):
    run, options, server = prompted
    before = server.counts["requests"]
    with pytest.raises(BudgetError, match="does not cover one change on both halves"):
        jrh.repair(run, max_usd=0.2 * run.cost_usd, **options)
    assert server.counts["requests"] == before
    with pytest.raises(RecipeError, match="Unknown axis"):
        jrh.repair(run, max_usd=1, require="padding_leen <= 0.5", **options)


@pytest.mark.slow
def test_the_command_takes_a_policy_and_the_alias_stays_where_its_rule_is_not_shown_to_hold(prompted, tmp_path: Path):
    run, options, _ = prompted
    policy = tmp_path / "repair.yaml"
    policy.write_text(f"max_usd: {4.5 * run.cost_usd}\nrequire:\n  - padding_lean <= -0.9\n", encoding="utf-8")
    where = ["--tracking-uri", options["tracking_uri"], "--journal", options["journal"], "--name", "other"]
    shown = CliRunner().invoke(group, ["repair", run.run_id, "--policy", str(policy), "--json", *where])
    assert shown.exit_code == 0, shown.output
    data = json.loads(shown.stdout)
    assert LONGER in data["recommended"]
    assert data["prompt"] == "prompts:/other/1"
    assert data["alias"] is None
    assert "no alias was moved" in str(data["verdict"])
    assert CliRunner().invoke(group, ["repair", run.run_id, *where]).exit_code == 2


def test_a_judge_without_a_problem_is_left_as_it_is(store_uri):
    run = jrh.evaluate(
        jrh.scripted.Oracle(), "datasheet-short", experiment="repairs", tracking_uri=store_uri, traces="none"
    )
    done = jrh.repair(run, max_usd=1, tracking_uri=store_uri)
    assert done.verdict.sentences == ("There is nothing to repair: this run shows no problem.",)
    assert not done.tried
