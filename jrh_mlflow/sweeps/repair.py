"""`jrh.repair`: from the problems of a logged judge to a change that mends them, proven on tasks that nobody searched.

search      every change that may mend a problem, then pairs of changes, on one half of the tasks, while the cap lasts
hold out    at most two of them and the unchanged judge, all asked afresh, on the other half: it decides
register    what is recommended as a version of a prompt; its alias moves only where what is required holds

Then what people see of it and what MLflow is told: tables, front, sentences and keys, each declared once.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from jrh_mlflow.comparing.answer_pairs import text_columns
from jrh_mlflow.comparing.recommendation import tasks_for
from jrh_mlflow.engine.budget import checked_cap
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.rendering import REGISTRY
from jrh_mlflow.measures.rules import AttackEvidence, IntervalRule, RuleCheck, parse_rules, undecided
from jrh_mlflow.measures.verdict import JudgeContext, findings
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate
from jrh_mlflow.measuring.resolve import judge_again
from jrh_mlflow.options import Moment
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, plain_fields
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.scoring.ledger import deciding_ends
from jrh_mlflow.show import cards, glossary, results
from jrh_mlflow.show.figures.canvas import PALETTE, Figures, Spot
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import interval_text, money_text, number_text, p_text
from jrh_mlflow.show.page import Drawing, Only, Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, field_column
from jrh_mlflow.suites.dataset import DatasetTable
from jrh_mlflow.suites.labels import most_frequent
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps import mending
from jrh_mlflow.sweeps.interventions import RepairArm, arms_for, has_template
from jrh_mlflow.sweeps.mending import HALVES, MOST_LOST, AskedArm, AxisChange, Mending, ReadArm, decide_arms
from jrh_mlflow.sweeps.sweep import suite_halves
from jrh_mlflow.sweeps.sweep_view import numbered_map
from jrh_mlflow.tracking.judges.prompts import link_prompt, register_template
from jrh_mlflow.tracking.runs import keys, outbox, read
from jrh_mlflow.tracking.runs.store import Store, open_run, publish, shown_content

REPAIR_JSON, REPAIRED_FILE = "repair.json", "judge/repaired.json"
"""Artifacts of its run."""
TAG_SETTINGS, TAG_BEFORE, TAG_AFTER = "jrh.repair.settings", "jrh.repair.before", "jrh.repair.after"
"""Tags of the prompt version: settings of the judge beside its prompt, and the runs of both datasheets."""
_SAYS: Mapping[str, Any] = glossary.WORDS["repair"]
_SPARE = 1.2
"""Times the usual price that is set aside for the held-out half: answers differ in length."""
_SLOTS = {"1": "u", "first": "u", "2": "v", "second": "v"}
"""How people may name the contents of a pair."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Repair(cards.ShownResult):
    """What mends a judge, or that nothing is shown to."""

    repaired: read.LoggedRun
    """The evaluation whose problems were to be mended."""
    problems: tuple[Finding, ...]
    tried: Sequence[ReadArm] = ()
    """On the searched half, the best first."""
    decisions: Sequence[ReadArm] = ()
    """On the held-out half."""
    checks: Sequence[RuleCheck] = ()
    """What came of each rule that was required."""
    prompt: str | None = None
    """The version that was registered: `prompts:/name/3`."""
    alias: str | None = None
    """That now points to it; None: none was moved."""
    definition: Mapping[str, Any] | None = None
    """The recommended judge as data: changes, settings, definition."""
    cost_usd: float | None = None
    notes: Sequence[str] = ()

    @property
    def recommended(self) -> ReadArm | None:
        """The change to make; None: nothing is recommended."""
        return mending.recommended(self.decisions)

    @property
    def verdict(self) -> Verdict:
        """What to change and what that does, or that nothing is recommended and what would tell."""
        if not self.tried:
            lines = [_SAYS["untried" if self.problems else "fine"]]
        elif (best := self.recommended) is None:
            lines = refusing(self.decisions, len(self.tried))
        else:
            lines = recommending(best, not_mended(self.problems, best.asked.readings))
        if self.prompt is not None:
            lines.append(_SAYS["moved" if self.alias else "registered"].format(prompt=self.prompt, alias=self.alias))
        return Verdict(sentences=tuple(lines[:4]), findings=self.problems)

    @property
    def changes(self) -> FilledTable[AxisChange]:
        """What the held-out half says of every arm and axis."""
        return CHANGES(change for row in self.decisions for change in row.changes)

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        rules = [f"{check.rule.text}: {check.state}." for check in self.checks]
        facts = {"run": self.repaired.run_id[:8], "tried": len(self.tried), "decided": len(self.decisions)}
        problems = [finding.text for finding in self.problems]
        arms = [_SAYS["front"], Only(("html",), drawings), ARMS([*self.decisions, *self.tried])]
        return Page.saying(
            self.verdict,
            title=f"Repair of {self.repaired.judge}",
            notes=self.notes,
            marks=["simulated"] * self.repaired.simulated,
            facts={**facts, "cost": money_text(self.cost_usd)},
            sections=[
                Section(heading="What the held-out half decides", blocks=[self.changes]),
                Section(heading="Cost and problems", blocks=arms),
                Section(heading="What was required", blocks=rules, always=True),
                Section(heading="Problems of the run", blocks=problems, media=("html", "markdown"), always=True),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per decided change and axis."""
        return self.changes.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        best = self.recommended
        return {
            "repaired": self.repaired.facts,
            **plain_fields(self, "verdict", "prompt", "alias", "cost_usd", "notes", "checks"),
            "recommended": best and list(best.asked.arm.names),
            "runs": {"before": best and best.half.unchanged.run_id, "after": best and best.asked.run_id},
            "changes": self.changes.records(),
            "arms": ARMS([*self.decisions, *self.tried]).records(),
        }


def repair(
    run: object,
    *,
    max_usd: float,
    require: str | Sequence[str] = (),
    labels: str | Path | pd.DataFrame | None = None,
    judge: object = None,
    name: str | None = None,
    seed: int = 0,
    fresh_after: Moment | None = None,
    **as_evaluate: Any,
) -> Repair:
    """Try what may mend the problems of a logged judge, and prove what does on tasks that were not searched.

    One half of the tasks is searched; at most two changes and the unchanged judge are asked afresh on the other. A
    change is recommended where a problem is better there, nothing is worse, and the loss of ability is under 0.10.

    Args:
        run: An `Evaluation`, a run id, `runs:/<id>`, or a unique beginning of an id.
        max_usd: Never spend more than this on all of it. Ten times what the run has cost leaves room for about
            fifteen tries, changes and pairs of them. Judges of code have no price beforehand: what their answers tell
            is counted.
        require: Rules as for `jrh.gate`, decided on the held-out half; the alias of the prompt moves only where all of
            them hold.
        labels: A table of people's labels (a frame or a file) with the columns `item` and `label`, one row per person:
            agreement with them is then one of the axes. Of a pair: `first` (u), `second` (v) or `tie`.
        judge: The judge of the run, where code takes part in it and the run cannot tell.
        name: Of the prompt that is registered; that of the judge's prompt, else made of the judge's name, when None.
        seed: Of the halves and all resampling.
        fresh_after: Answers on the held-out half may not be older; now when None. With the moment of an interrupted
            repair, which its run names, the same repair goes on.
        **as_evaluate: Further arguments of `evaluate`, such as journal, concurrency and prices. Of these `run_name` and
            `tags` are of the parent run; `experiment` is that of the run when left out, `tracking_uri` that of the
            evaluation, else the active one.

    Raises:
        RecipeError: when the run is no evaluation, its judge cannot be asked again, or a rule is not known.
        BudgetError: when the cap does not cover one change on both halves.
    """
    own = {option: as_evaluate.pop(option, None) for option in ("experiment", "run_name", "tags", "tracking_uri")}
    uri = getattr(run, "tracking_uri", None) or own["tracking_uri"]
    (loaded,) = read.load_runs([read.run_id_of(run)], tracking_uri=uri, purpose="repaired")
    asked, rules = judge_again(loaded, judge, purpose="repaired", tracking_uri=uri), parse_rules(require or ())
    people = None if labels is None else _people(labels, loaded.suite)
    context = JudgeContext(offers_tie=asked.tie_criterion.offers_tie)
    sheet = results.measure(loaded.calls, labels=loaded.suite.labels, judged=context)
    for rule in rules:
        rule.check_known(sheet.estimates)
    problems, halves = sheet.verdict.problems, suite_halves(loaded.suite, seed=seed)
    arms = arms_for([finding.axis for finding in problems], asked, halves[0])
    moment = fresh_after or datetime.now(timezone.utc).isoformat(timespec="seconds")
    place = {"experiment": own["experiment"] or loaded.experiment, "tracking_uri": uri}
    store, title = Store(uri, place["experiment"]), own["run_name"] or f"repair: {loaded.judge}"
    with open_run(store, "repair", title, simulated=loaded.simulated, tags=own["tags"]) as parent:
        options = {"progress": False, "seed": seed, **as_evaluate, **place, "parent_run_id": parent}
        options |= {"budget": outbox.outbox_key("repair", loaded.run_id, moment), "fresh_after": moment}
        asking = _ArmBudget(judge=asked, halves=halves, max_usd=max_usd, options=options)
        axes = mending.problem_axes(finding.axis for finding in problems)
        made = asking.search_and_decide(loaded, arms, problems=axes, people=people, seed=seed) if arms else {}
        if (best := mending.recommended(made.get("decisions", ()))) is not None:
            made["checks"] = [rule.check(_RuleEvidence(best.asked, best.half.unchanged)) for rule in rules]
            holds = bool(rules) and all(check.state == "holds" for check in made["checks"])
            made |= _registered(asking, best, name, moves_alias=holds, uri=store.uri)
        done = Repair(
            run_id=parent,
            link=store.link(parent),
            repaired=loaded,
            problems=problems,
            cost_usd=sum(asking.costs) if asking.costs else None,
            notes=asking.notes,
            **made,
        )
        content = shown_content(
            done,
            REPAIR_JSON,
            drawings=draw(front_figures([*done.decisions, *done.tried])),
            more={REPAIRED_FILE: done.definition} if done.definition else {},
            points=repair_points(done),
            params={"repair": {"run": loaded.run_id, "max_usd": max_usd, "seed": seed, "fresh_after": str(moment)}},
        )
        publish(store, parent, content, what_now="The runs of its arms are logged; the parent is not.")
    return done


def _people(labels: str | Path | pd.DataFrame, suite: Suite) -> dict[str, str]:
    """Return the majority label of each item; without a majority it has none."""
    given = text_columns(DatasetTable(labels), "item", "label", rule=_SAYS["labels"], gaps=["item", "label"]).dropna()
    majority = {item: most_frequent(own.str.strip().tolist()) for item, own in given.groupby("item")["label"]}
    known = {item.id: _SLOTS if item.kind == "pair" else {} for item in suite.items if majority.get(item.id)}
    if not known:
        raise RecipeError("No label is of an item of the suite with a majority: items are named by their ids.")
    return {item: names.get(majority[item], majority[item]) for item, names in known.items()}


@dataclass(kw_only=True)
class _ArmBudget:
    """Asks arms, under one cap, as runs below the parent."""

    judge: Judge
    halves: tuple[Suite, Suite]
    """The searched one, and the held-out one."""
    max_usd: float
    options: dict[str, Any]
    """Further arguments of `evaluate`; `fresh_after` is of the held-out half."""
    costs: list[float] = field(default_factory=list)
    """Dollars that answers told, by run."""
    aside: float = 0.0
    """Dollars that are kept for the held-out half."""
    notes: list[str] = field(default_factory=list)
    same: dict[bool, tuple[pd.DataFrame, str]] = field(default_factory=dict)
    """Half to the calls of the unchanged judge and their run."""

    def search_and_decide(self, run: read.LoggedRun, arms: Sequence[RepairArm], **reading: Any) -> dict[str, Any]:
        """Search one half, and decide on the other; return what a `Repair` has of both."""
        if self.judge.model_judge is not None:
            checked_cap(self.max_usd, self.judge, self.options.get("prices"))
        # The price of the held-out half is kept.
        once = _SPARE * self.quote(RepairArm())
        self.aside = min(self.max_usd, (1 + mending.MOST_DECIDED) * once)
        if self.max_usd < (least := 2 * once + self.quote(arms[0], held_out=False)):
            raise BudgetError(_SAYS["small cap"].format(cap=money_text(self.max_usd), least=money_text(least)))
        if not run.truncated:
            # The run's own answers may choose, and never decide; each item as often as the arms are asked.
            most = run.calls["suite_item"].map({item.id: item.replicates for item in self.halves[0].items})
            self.same[False] = run.calls[run.calls["replicate"] < most].reset_index(drop=True), run.run_id
        if (base := self.ask(RepairArm())) is None:
            return {}
        tried = mending.search_arms(base, arms, ask=self.ask, **reading)
        chosen = mending.finalists(tried)
        ask = partial(self.ask, held_out=True, asks=self.held_out_asks(chosen))
        if not chosen or (unchanged := ask(RepairArm())) is None:
            return {"tried": tried}
        half = Mending(unchanged=unchanged, arms=[*filter(None, map(ask, chosen))], **reading)
        return {"tried": tried, "decisions": decide_arms(half)}

    def quote(self, arm: RepairArm, *, held_out: bool = True) -> float:
        """Return the usual price of an arm on a half; 0 where calls have none beforehand."""
        if self.judge.model_judge is None:
            return 0.0
        judge, suite = arm.applied(self.judge, self.halves[held_out]) or (self.judge, self.halves[held_out])
        given = {name: self.options[name] for name in ("prices", "journal") if name in self.options}
        return dry_prepared(judge, suite, replicates=arm.policy.replicates, **given).quote(afresh=True).usd or 0.0

    def held_out_asks(self, arms: Sequence[RepairArm]) -> int:
        """Return how often each presentation is asked there; once where no price is known, or answers would repeat."""
        if self.judge.model_judge is None or getattr(self.judge, "temperature", None) == 0:
            return 1
        price = _SPARE * sum(self.quote(arm) for arm in (RepairArm(), *arms))
        return mending.asks_afforded(self.max_usd - sum(self.costs), price)

    def ask(self, arm: RepairArm, *, held_out: bool = False, asks: int = 1) -> AskedArm | None:
        """Ask an arm on a half; None where there is no money left for it, or it cannot be asked."""
        try:
            calls, run_id = self._answered(arm, held_out, asks)
        except (BudgetError, JudgeError, RecipeError) as error:
            self.notes.append(f"{arm.name} was not measured: {error}")
            return None
        suite, total = self.halves[held_out], keys.whole_total(calls, "cost_usd")
        times = arm.policy.calls_per_judgment(pair=suite.has_pairs)
        return AskedArm(
            arm=arm,
            records=arm.decisions(calls),
            labels=suite.labels,
            usd_per_1k=None if total is None else 1000 * times * total / len(calls),
            calls_per_judgment=times,
            run_id=run_id,
        )

    def _answered(self, arm: RepairArm, held_out: bool, asks: int) -> tuple[pd.DataFrame, str]:
        """Return calls and their run: those of the unchanged judge where an arm reads them in another way only."""
        if held_out in self.same and all(change.what == "orders" for change in arm.changes):
            return self.same[held_out]
        changed, cap = arm.applied(self.judge, self.halves[held_out]), self.max_usd - (0 if held_out else self.aside)
        if changed is None:
            raise RecipeError("it does not fit this judge.")
        if sum(self.costs) + asks * self.quote(arm, held_out=held_out) > cap:
            raise BudgetError("the cap has no room for it.")
        most, after = None if self.judge.model_judge is None else cap, self.options["fresh_after"] if held_out else None
        own = {**self.options, "replicates": asks * arm.policy.replicates, "fresh_after": after, "max_usd": most}
        done = evaluate(*changed, run_name=f"{arm.name}, {HALVES[held_out]}", **own)
        self.costs += [] if done.cost_usd is None else [done.cost_usd]
        if done.truncated:
            raise BudgetError(f"its calls are not whole: {done.truncated}.")
        if not arm.changes:
            self.same[held_out] = done.calls, done.run_id
        return done.calls, done.run_id


class _RuleEvidence(NamedTuple):
    """Evidence for what is required: the recommended arm, beside the unchanged judge as its baseline."""

    judge: AskedArm
    baseline: AskedArm
    facts: Mapping[str, Ends | None] = MappingProxyType({})
    attack: AttackEvidence | None = None

    def interval_check(self, rule: IntervalRule) -> RuleCheck:
        """Decide by the interval over the held-out tasks."""
        reading = rule.reading([self.judge, self.baseline])
        if isinstance(reading, NotEstimable):
            return undecided(rule, reading.reason)
        check = undecided(rule, "decided on the held-out half", ends=deciding_ends(reading), n=reading.n)
        return replace(check, state=rule.state(reading), estimate=reading.value, n_clusters=reading.n_clusters)


def _registered(asking: _ArmBudget, best: ReadArm, name: str | None, *, moves_alias: bool, uri: str) -> dict[str, Any]:
    """Return the repaired judge as data, and register its prompt with both runs linked to it."""
    arm, unchanged = best.asked.arm, asking.judge
    judge, shown = arm.applied(unchanged, asking.halves[True]) or (unchanged, asking.halves[True])
    judge.begin(shown)
    settings = {**judge.settings(), "tie_criterion_text": judge.tie_criterion.text}
    settings |= {"replicates": arm.policy.replicates, "orders": arm.policy.orders}
    changes = [{change.what: change.value} for change in arm.changes]
    made = {"definition": {"changes": changes, "settings": settings, "definition": judge.definition()}}
    if not has_template(judge) or len(judge.used) != 1:
        asking.notes.append(f"The judge has no prompt of its own in the registry: {REPAIRED_FILE} has its settings.")
        return made
    old_name, _, old_alias = (getattr(unchanged, "prompt_uri", None) or "").removeprefix(REGISTRY).partition("@")
    name = name or old_name.partition("/")[0] or re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{judge.name}-repaired")
    alias = (old_alias or "repaired") if moves_alias else None
    runs = {TAG_BEFORE: best.half.unchanged.run_id, TAG_AFTER: best.asked.run_id}
    tags = {**runs, TAG_SETTINGS: json.dumps(settings, sort_keys=True)}
    try:
        registered = register_template(judge.used[0], name, alias=alias, tags=tags, tracking_uri=uri)
        for run_id in runs.values():
            link_prompt(registered.version, run_id, tracking_uri=uri)
    except (RecipeError, TrackingError) as error:
        asking.notes.append(f"The prompt was not registered: {error}")
        return made
    return {**made, "prompt": registered.version, "alias": alias}


# --- what people see


CHANGES: Table[AxisChange] = Table.of(
    Column("change", lambda row: row.a, value=lambda row: row.a, name="arm", brief=True),
    field_column("axis", axis_name, brief=True, words=True),
    field_column("before", number_text, brief=True),
    field_column("after", number_text, brief=True),
    Column("gain", lambda row: number_text(row.value, signed=True), value=lambda row: row.value),
    Column("95 % by task", lambda row: interval_text(row.low, row.high, signed=True), brief=True),
    field_column("p_adjusted", p_text, head="p, adjusted"),
    field_column("state", str, head="decided", brief=True, words=True),
    field_column("largest_loss", number_text, head="largest loss", brief=True),
    *map(field_column, ("low", "high", "bound", "n", "n_clusters")),
)


ARMS: Table[ReadArm] = Table.of(
    field_column("asked.arm.name", str, head="change", brief=True, link=lambda row: FROM_RUN.run(row.asked.run_id)),
    Column("half", lambda row: HALVES[row.half.decides], value=lambda row: HALVES[row.half.decides], brief=True),
    field_column("mended", number_text, head="problems mended", brief=True),
    field_column("asked.usd_per_1k", money_text, head="per 1,000 judgments", brief=True),
    field_column("asked.calls_per_judgment", str, head="calls per judgment"),
    field_column("on_front", lambda is_on: "yes" if is_on else "no", head="on front"),
    field_column("outcome", str, words=True),
)


def front_figures(points: Sequence[ReadArm]) -> Figures:
    """Draw what a judgment costs against what is mended, by file name; the front is that of the first half."""
    if not points:
        return {}
    first, unchanged = points[0].half.decides, points[0].half.unchanged
    words = [f"{row.asked.arm.name} ({HALVES[row.half.decides]}): {number_text(row.mended)}" for row in points]
    spots = [Spot(x=row.asked.cost, y=row.mended, words=says) for row, says in zip(points, words, strict=True)]
    named = [spot for spot, row in zip(spots, points, strict=True) if row.on_front and row.half.decides == first]
    steps = list(zip(*sorted([(unchanged.cost, 0.0), *((spot.x, spot.y) for spot in named)]), strict=True))
    is_priced, foot = unchanged.usd_per_1k is not None, [_SAYS["map"]]
    figure, axes = numbered_map(spots, named, steps, height="problems mended", is_priced=is_priced, foot=foot)
    axes.plot([unchanged.cost], [0.0], marker="s", markersize=8, color=PALETTE[6])
    # What is decided comes first and is drawn last: the searched half often has the same place.
    for row in reversed(points):
        face = PALETTE[0] if row.half.decides else "white"
        axes.plot([row.asked.cost], [row.mended], marker="o", markersize=8, color=PALETTE[0], markerfacecolor=face)
    return {"cost_and_problems.png": figure}


# --- sentences


def _in_words(axis: str) -> str:
    return str(_SAYS["axes"].get(axis, axis_name(axis)))


def recommending(best: ReadArm, left: Sequence[str]) -> list[str]:
    """Say what mends the judge and by how much, what is `left`, and the largest loss that is not excluded."""
    (first, *more), ability = best.better, best.ability
    change, reading = " and ".join(own.text for own in best.asked.arm.changes), best.asked.readings.get(first.axis)
    ends = reading.cluster_interval if isinstance(reading, Estimate) else None
    says = {
        "change": f"{change[0].upper()}{change[1:]}",
        "cut": "cut" if abs(first.after) < abs(first.before) else "raised",
        "axis": _in_words(first.axis),
        "before": number_text(first.before),
        "after": f"{number_text(first.after)}{f' {interval_text(*ends)}' if ends else ''}",
        "able": _in_words(ability.axis) if ability else "",
        "loss": number_text(ability.bound if ability else None),
    }
    lines = [_SAYS["mends"].format(**says), *left]
    lines += [_SAYS["also"].format(axes=", ".join(_in_words(change.axis) for change in more))] if more else []
    losses = {row.largest_loss or 0.0: row.axis for row in best.changes if row.state == "no difference shown"}
    if most := max(losses, default=0.0):
        lines.append(_SAYS["open"].format(loss=number_text(most), axis=axis_name(losses[most])))
    return lines


def not_mended(problems: Sequence[Finding], after: Mapping[str, Reading]) -> list[str]:
    """Say which problems of the run the repaired judge still shows: what it cannot tell first, and how many more."""
    before = {finding.axis for finding in problems}
    left = [finding for finding in findings(after) if finding.axis in before and finding.state == "problem"]
    if not left:
        return []
    first = min(left, key=lambda finding: finding.axis != "ability")
    says = [f"Not mended: {first.text[0].lower()}{first.text[1:]}"]
    says += [_SAYS["another"]] * (first.axis == "ability") + [_SAYS["more"].format(n=len(left))] * (len(left) > 1)
    return [" ".join(says)]


def refusing(decisions: Sequence[ReadArm], n_tried: int) -> list[str]:
    """Say that nothing is recommended, why, and how many tasks would tell."""
    if not decisions:
        return [_SAYS["unpromising"].format(n=n_tried)]
    nearest = max(decisions, key=lambda row: (bool(row.better), not row.worse, row.mended))
    lines, ability = [_SAYS["refused"].format(arm=nearest.asked.arm.name, why=nearest.refusal)], nearest.ability
    seen, n_tests = [row for row in nearest.on_problems if row.value > 0], len(nearest.half.axes) * len(decisions)
    tasks = [tasks_for(row.value, row.low, row.high, row.n_clusters, n_tests=n_tests) for row in seen]
    if any(tasks) and not nearest.better:
        lines.append(_SAYS["would show"].format(tasks=min(filter(None, tasks))))
    elif not nearest.worse and ability and ability.bound and ability.value > -MOST_LOST / 2:
        # An interval shrinks with the root of the number of tasks.
        needed = math.ceil(ability.n_clusters * (ability.bound / MOST_LOST) ** 2)
        lines.append(_SAYS["would exclude"].format(tasks=needed, loss=number_text(MOST_LOST)))
    return lines


def repair_points(done: Repair) -> list[keys.Point]:
    """Spell what a repair found: `repair/tried`, `repair/recommended`, and gain and interval of what is better."""
    values: dict[str, float | None] = {"tried": len(done.tried), "decided": len(done.decisions), "usd": done.cost_usd}
    values["recommended"] = (best := done.recommended) is not None
    for change in best.better if best else ():
        ends = {"gain": change.value, "gain_ci_low": change.low, "gain_ci_high": change.high}
        values |= {f"{change.axis}/{name}": value for name, value in ends.items()}
    values["ability_loss_at_most"] = best.ability.bound if best and best.ability else None
    return keys.known_points({f"repair/{name}": value for name, value in values.items()})
