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
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from jrh_mlflow.comparing.answer_pairs import text_columns
from jrh_mlflow.engine.budget import checked_cap
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.rendering import REGISTRY
from jrh_mlflow.measures.axes import lower_is_better
from jrh_mlflow.measures.rules import AttackEvidence, IntervalRule, RuleCheck, parse_rules, undecided
from jrh_mlflow.measures.verdict import JudgeContext, findings
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate
from jrh_mlflow.measuring.resolve import judge_again
from jrh_mlflow.options import Moment
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, plain_data
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.scoring.ledger import deciding_ends
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.canvas import PALETTE, Spot, spread_prices
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.show.html import FROM_RUN
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import interval_text, money_text, number_text, p_text
from jrh_mlflow.show.page import Drawing, Only, Page, Section
from jrh_mlflow.show.results import measure
from jrh_mlflow.show.tables import Column, Table, field_column
from jrh_mlflow.suites.dataset import DatasetTable
from jrh_mlflow.suites.labels import most_frequent
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps import mending
from jrh_mlflow.sweeps.front import pareto
from jrh_mlflow.sweeps.interventions import RepairArm, arms_for, has_template
from jrh_mlflow.sweeps.mending import LEANS, MOST_LOST, AskedArm, AxisChange, ReadArm
from jrh_mlflow.sweeps.sweep import suite_halves
from jrh_mlflow.sweeps.sweep_view import numbered_map
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.prompts import link_prompt, register_template
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.read import LoggedRun, load_runs, run_id_of
from jrh_mlflow.tracking.runs.store import Store, open_run, publish, shown_content

if TYPE_CHECKING:
    from jrh_mlflow.show.figures.canvas import Figure

REPAIR_JSON, REPAIRED_FILE = "repair.json", "judge/repaired.json"
"""Artifacts of its run."""
TAG_SETTINGS, TAG_BEFORE, TAG_AFTER = "jrh.repair.settings", "jrh.repair.before", "jrh.repair.after"
"""Tags of the prompt version: settings of the judge beside its prompt, and the runs of both datasheets."""
_ALIAS = "repaired"
_SPARE = 1.2
"""Times the usual price that is set aside for the held-out half: answers differ in length."""
_SLOTS = {"1": "u", "first": "u", "2": "v", "second": "v"}
"""How people may name the contents of a pair."""


@dataclass(frozen=True, kw_only=True)
class Repair(ShownResult):
    """What mends a judge, or that nothing is shown to."""

    repaired_run: str
    """The evaluation whose problems were to be mended."""
    judge: str
    simulated: bool
    problems: tuple[Finding, ...]
    tried: tuple[ReadArm, ...] = ()
    """On the searched half, the best first."""
    decisions: tuple[ReadArm, ...] = ()
    """On the held-out half."""
    unchanged: AskedArm | None = None
    """The judge as it was, asked afresh there."""
    checks: tuple[RuleCheck, ...] = ()
    """What came of each rule that was required."""
    prompt: str | None = None
    """The version that was registered: `prompts:/name/3`."""
    alias: str | None = None
    """That now points to it; None: none was moved."""
    repaired: Mapping[str, Any] | None = None
    """The recommended judge as data: changes, settings, definition."""
    cost_usd: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def recommended(self) -> ReadArm | None:
        """The change to make; None: nothing is recommended."""
        return mending.recommended(self.decisions)

    @property
    def verdict(self) -> Verdict:
        """What to change and what that does, or that nothing is recommended and what would tell."""
        best = self.recommended
        if not self.problems:
            lines = ["There is nothing to repair: this run shows no problem."]
        elif not self.tried:
            lines = ["Nothing is recommended: no change of the table fits these problems and this judge, or the cap."]
        elif best is None:
            lines = refusing(self.decisions, len(self.tried))
        else:
            lead, *more = recommending(best)
            lines = [lead, *not_mended(self.problems, best.asked.readings), *more]
        if self.prompt is not None:
            moved = f"the alias {self.alias} points to it" if self.alias else "no alias was moved"
            failed = [f" ({check.rule.text}: {check.state})" for check in self.checks if check.state != "holds"]
            lines.append(f"Registered as {self.prompt}; {moved}{''.join(failed[:1])}.")
        return Verdict(sentences=tuple(lines[:4]), findings=self.problems)

    @property
    def changes(self) -> list[AxisChange]:
        """What the held-out half says of every arm and axis."""
        return [change for row in self.decisions for change in row.changes]

    @property
    def points(self) -> list[FrontPoint]:
        """Every arm by price and by what it leaves of the problems."""
        return front_points(self.unchanged, self.tried, self.decisions)

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        lead, *sentences = self.verdict.sentences
        rules = [f"{check.rule.text}: {check.state}." for check in self.checks]
        counts = {"tried": len(self.tried), "decided": len(self.decisions)}
        problems, drawn = [finding.text for finding in self.problems], Only(("html",), drawings)
        return Page(
            title=f"Repair of {self.judge}",
            lead=lead,
            sentences=sentences,
            notes=[*(["Simulated judge, not a model."] * self.simulated), *self.notes],
            facts={"run": self.repaired_run[:8], **counts, "cost": money_text(self.cost_usd)},
            sections=[
                Section(heading="What the held-out half decides", blocks=[CHANGES(self.changes)]),
                Section(heading="Cost and problems", blocks=[WORDS["cost_and_problems"], drawn, ARMS(self.points)]),
                Section(heading="What was required", blocks=rules, always=True),
                Section(heading="Problems of the run", blocks=problems, media=("html", "markdown"), always=True),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per decided change and axis."""
        return CHANGES(self.changes).to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        best = self.recommended
        own = ("run_id", "link", "repaired_run", "judge", "simulated", "prompt", "alias", "cost_usd", "notes")
        tried = [(row.asked.arm.name, row.asked.run_id, row.mended, row.is_promising) for row in self.tried]
        return {
            "verdict": self.verdict.to_dict(),
            **{name: plain_data(getattr(self, name)) for name in own},
            "recommended": None if best is None else list(best.asked.arm.names),
            "runs": {"before": self.unchanged and self.unchanged.run_id, "after": best and best.asked.run_id},
            "changes": [asdict(change) for change in self.changes],
            "refusals": {row.asked.arm.name: row.refusal for row in self.decisions},
            "tried": [dict(zip(("arm", "run", "mended", "promising"), row, strict=True)) for row in tried],
            "required": [check.to_dict() for check in self.checks],
        }

    def __repr__(self) -> str:
        what = self.recommended.asked.arm.name if self.recommended else "nothing recommended"
        return f"Repair({brief_name(self.judge)}: {what}, {len(self.tried)} tried, {brief_run(self.run_id)})"


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
    own = {name: as_evaluate.pop(name, None) for name in ("experiment", "run_name", "tags", "tracking_uri")}
    uri = getattr(run, "tracking_uri", None) or own["tracking_uri"]
    (loaded,) = load_runs([run_id_of(run)], tracking_uri=uri, purpose="repaired")
    asked, rules = judge_again(loaded, judge, purpose="repaired", tracking_uri=uri), parse_rules(require or ())
    people = None if labels is None else _people(labels, loaded.suite)
    readings = measure(loaded.calls, labels=loaded.suite.labels).estimates
    for rule in rules:
        rule.check_known(readings)
    found = findings(readings, JudgeContext(offers_tie=asked.tie_criterion.offers_tie))
    problems = tuple(finding for finding in found if finding.state == "problem")
    halves = suite_halves(loaded.suite, seed=seed)
    arms = arms_for([finding.axis for finding in problems], asked, halves[0])
    moment = fresh_after or datetime.now(timezone.utc).isoformat(timespec="seconds")
    place = {"experiment": own["experiment"] or loaded.experiment, "tracking_uri": uri}
    store, title = Store(uri, place["experiment"]), own["run_name"] or f"repair: {loaded.judge}"
    with open_run(store, "repair", title, simulated=loaded.simulated, tags=own["tags"]) as parent:
        asking = _ArmBudget(
            judge=asked,
            max_usd=max_usd,
            budget=outbox_key("repair", loaded.run_id, moment),
            options={"progress": False, "seed": seed, **as_evaluate, **place, "parent_run_id": parent},
        )
        made: dict[str, Any] = {}
        if arms:
            axes = mending.problem_axes(finding.axis for finding in problems)
            made = _measured(asking, loaded, arms, halves, moment, problems=axes, people=people, seed=seed)
        if (best := mending.recommended(made.get("decisions", ()))) is not None:
            evidence = _RuleEvidence(judge=best.asked, baseline=made["unchanged"])
            checks = made["checks"] = tuple(rule.check(evidence) for rule in rules)
            holds = bool(checks) and all(check.state == "holds" for check in checks)
            made |= _registered(asking, evidence, halves[1], name, moves_alias=holds, uri=store.uri)
        done = Repair(
            run_id=parent,
            link=store.link(parent),
            repaired_run=loaded.run_id,
            judge=loaded.judge,
            simulated=loaded.simulated,
            problems=problems,
            cost_usd=asking.spent,
            notes=tuple(asking.notes),
            **made,
        )
        settings = {"run": loaded.run_id, "max_usd": max_usd, "seed": seed, "fresh_after": str(moment)}
        content = shown_content(
            done,
            REPAIR_JSON,
            drawings=draw(front_figures(done.points)),
            more={REPAIRED_FILE: done.repaired} if done.repaired else {},
            points=repair_points(done),
            params={"repair": {**settings, "recommended": best.asked.arm.name if best else "nothing"}},
        )
        publish(store, parent, content, what_now="The runs of its arms are logged; the parent is not.")
    return done


def _people(labels: str | Path | pd.DataFrame, suite: Suite) -> dict[str, str]:
    """Return the majority label of each item; without a majority it has none."""
    table, names = DatasetTable(labels), ("item", "label")
    given = text_columns(table, *names, rule="labels need the columns item and label", gaps=names).dropna()
    majority = {item: most_frequent(own.str.strip().tolist()) for item, own in given.groupby("item")["label"]}
    known = {item.id: _SLOTS if item.kind == "pair" else {} for item in suite.items if majority.get(item.id)}
    if not known:
        raise RecipeError("No label is of an item of the suite with a majority: items are named by their ids.")
    return {item: names.get(majority[item], majority[item]) for item, names in known.items()}


@dataclass(kw_only=True)
class _ArmBudget:
    """Asks arms, under one cap, as runs below the parent."""

    judge: Judge
    max_usd: float
    budget: str
    options: dict[str, Any]
    spent: float | None = None
    """Dollars that answers told; None where none did."""
    aside: float = 0.0
    """Dollars that are kept for the held-out half."""
    notes: list[str] = field(default_factory=list)
    same: dict[str, tuple[pd.DataFrame, str]] = field(default_factory=dict)
    """Suite to the calls of the unchanged judge and their run."""

    def quote(self, arm: RepairArm, suite: Suite) -> float | None:
        """Return the usual price of an arm on a half; None where calls have none beforehand."""
        if self.judge.model_judge is None:
            return None
        judge, asked = arm.applied(self.judge, suite) or (self.judge, suite)
        given = {name: self.options[name] for name in ("prices", "journal") if name in self.options}
        return dry_prepared(judge, asked, replicates=arm.policy.replicates, **given).quote(afresh=True).usd

    def set_aside(self, arms: Sequence[RepairArm], search: Suite, holdout: Suite) -> None:
        """Keep the price of the held-out half; refuse a cap that has no room for one change."""
        if self.judge.model_judge is not None:
            checked_cap(self.max_usd, self.judge, self.options.get("prices"))
        once, first = self.quote(RepairArm(), holdout), self.quote(arms[0], search)
        if once is None or first is None:
            return
        self.aside = min(self.max_usd, _SPARE * (1 + mending.MOST_DECIDED) * once)
        if self.max_usd < (least := 2 * _SPARE * once + first):
            raise BudgetError(
                f"The cap of {money_text(self.max_usd)} does not cover one change on both halves: about "
                f"{money_text(least)}. Ten times what the run has cost is a good cap."
            )

    def held_out_asks(self, arms: Sequence[RepairArm], suite: Suite) -> int:
        """Return how often each presentation is asked there; once where a price is unknown, or answers would repeat."""
        prices = [self.quote(arm, suite) for arm in (RepairArm(), *arms)]
        if None in prices or getattr(self.judge, "temperature", None) == 0:
            return 1
        return mending.asks_afforded(self.max_usd - (self.spent or 0.0), _SPARE * sum(filter(None, prices)))

    def ask(self, arm: RepairArm, suite: Suite, *, fresh_after: Moment | None = None, asks: int = 1) -> AskedArm | None:
        """Ask an arm on a half; None where there is no money left for it, or it cannot be asked."""
        answered = self.same.get(suite.sha256) if arm.asks_same else None
        answered = answered or self._evaluated(arm, suite, asks, fresh_after)
        if answered is None:
            return None
        calls, run_id = answered
        total, times = keys.whole_total(calls, "cost_usd"), arm.policy.calls_per_judgment(pair=suite.has_pairs)
        return AskedArm(
            arm=arm,
            records=arm.decisions(calls),
            labels=suite.labels,
            usd_per_1k=None if total is None else 1000 * times * total / len(calls),
            calls_per_judgment=times,
            run_id=run_id,
        )

    def _evaluated(
        self, arm: RepairArm, suite: Suite, asks: int, fresh_after: Moment | None
    ) -> tuple[pd.DataFrame, str] | None:
        changed = arm.applied(self.judge, suite)
        if changed is None:
            return None
        cap = self.max_usd if fresh_after else self.max_usd - self.aside
        given = {**self.options, "replicates": asks * arm.policy.replicates, "fresh_after": fresh_after}
        given |= {} if self.judge.model_judge is None else {"max_usd": cap, "budget": self.budget}
        try:
            if (self.spent or 0.0) + asks * (self.quote(arm, suite) or 0.0) > cap:
                raise BudgetError("the cap has no room for it.")
            done = evaluate(*changed, run_name=f"{arm.name}, {suite.name.rpartition('/')[2]}", **given)
        except (BudgetError, JudgeError, RecipeError) as error:
            self.notes.append(f"{arm.name} was not measured: {error}")
            return None
        if done.cost_usd is not None:
            self.spent = (self.spent or 0.0) + done.cost_usd
        if done.truncated:
            self.notes.append(f"{arm.name} was not measured in full: {done.truncated}.")
            return None
        if not arm.changes:
            self.same[suite.sha256] = (done.calls, done.run_id)
        return done.calls, done.run_id


def _measured(
    asking: _ArmBudget,
    run: LoggedRun,
    arms: list[RepairArm],
    halves: tuple[Suite, Suite],
    moment: Moment,
    **reading: Any,
) -> dict[str, Any]:
    """Search one half, and decide on the other; return what a `Repair` has of both."""
    search, holdout = halves
    asking.set_aside(arms, search, holdout)
    if not run.truncated:
        # The run's own answers may choose, and never decide; each item as often as the arms are asked.
        most = run.calls["suite_item"].map({item.id: item.replicates for item in search.items})
        asking.same[search.sha256] = run.calls[run.calls["replicate"] < most].reset_index(drop=True), run.run_id
    base = asking.ask(RepairArm(), search)
    if base is None:
        return {}
    tried = mending.search_arms(base, arms, ask=partial(asking.ask, suite=search), **reading)
    chosen, made = mending.finalists(tried), {"tried": tuple(tried), "unchanged": base}
    ask = partial(asking.ask, suite=holdout, fresh_after=moment, asks=asking.held_out_asks(chosen, holdout))
    if chosen and (unchanged := ask(RepairArm())) is not None:
        asked = [own for own in map(ask, chosen) if own is not None]
        decisions = mending.decide_arms(mending.Mending(unchanged=unchanged, arms=asked, **reading))
        made |= {"unchanged": unchanged, "decisions": tuple(decisions)}
    return made


@dataclass(frozen=True, kw_only=True)
class _RuleEvidence:
    """Evidence for what is required: the recommended arm, beside the unchanged judge as its baseline."""

    judge: AskedArm
    baseline: AskedArm
    facts: Mapping[str, Ends | None] = field(default_factory=dict)
    attack: AttackEvidence | None = None

    def interval_check(self, rule: IntervalRule) -> RuleCheck:
        """Decide by the interval over the held-out tasks."""
        reading = rule.reading([self.judge, self.baseline] if rule.needs_baseline else [self.judge])
        if isinstance(reading, NotEstimable):
            return undecided(rule, reading.reason)
        check = undecided(rule, "decided on the held-out half", ends=deciding_ends(reading), n=reading.n)
        return replace(check, state=rule.state(reading), estimate=reading.value, n_clusters=reading.n_clusters)


def _registered(
    asking: _ArmBudget, evidence: _RuleEvidence, suite: Suite, name: str | None, *, moves_alias: bool, uri: str
) -> dict[str, Any]:
    """Return the repaired judge as data, and register its prompt with both runs linked to it."""
    arm, unchanged = evidence.judge.arm, asking.judge
    judge, shown = arm.applied(unchanged, suite) or (unchanged, suite)
    judge.begin(shown)
    settings = {**judge.settings(), "tie_criterion_text": judge.tie_criterion.text}
    settings |= {"replicates": arm.policy.replicates, "orders": arm.policy.orders}
    changes = [{change.what: change.value} for change in arm.changes]
    made = {"repaired": {"changes": changes, "settings": settings, "definition": judge.definition()}}
    if not has_template(judge) or len(judge.used) != 1:
        asking.notes.append(f"The judge has no prompt of its own in the registry: {REPAIRED_FILE} has its settings.")
        return made
    old_name, _, old_alias = (getattr(unchanged, "prompt_uri", None) or "").removeprefix(REGISTRY).partition("@")
    name = name or old_name.partition("/")[0] or re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{judge.name}-repaired")
    alias = (old_alias or _ALIAS) if moves_alias else None
    runs = {TAG_BEFORE: str(evidence.baseline.run_id), TAG_AFTER: str(evidence.judge.run_id)}
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


def _is_cut(axis: str) -> bool:
    """Whether less of an axis, or a smaller lean, is better."""
    return axis in LEANS or lower_is_better(axis)


def change_state(change: AxisChange) -> str:
    """Say what was decided, and without a difference how large a loss may be all the same."""
    loss = change.largest_loss
    if change.state != "no difference shown" or loss is None:
        return change.state
    return f"{change.state}; a loss of {loss:.2f} at most"


CHANGES: Table[AxisChange] = Table.of(
    field_column("arm", str, head="change", brief=True),
    field_column("axis", axis_name, brief=True, words=True),
    field_column("before", number_text, brief=True),
    field_column("after", number_text, brief=True),
    Column("gain", lambda row: number_text(row.gain, signed=True), value=lambda row: row.gain),
    Column("95 % by task", lambda row: interval_text(row.low, row.high, signed=True), brief=True),
    field_column("p_adjusted", p_text, head="p, adjusted"),
    Column("decided", change_state, brief=True, words=True),
    *map(field_column, ("low", "high", "state", "bound", "n", "n_clusters")),
)


class FrontPoint(NamedTuple):
    """An arm by its price and by what it leaves of the problems."""

    asked: AskedArm
    left: float
    """Sum of the sizes of the problems."""
    half: str
    outcome: str
    on_front: bool = False

    @property
    def price(self) -> str:
        """What it costs, in dollars or calls."""
        n, usd = self.asked.calls_per_judgment, self.asked.usd_per_1k
        calls = f"{n} call{'' if n == 1 else 's'} per judgment"
        return calls if usd is None else f"{money_text(usd)} per 1,000 judgments"

    def spot(self, words: str) -> Spot:
        """Return its place on the map, with its name before what is said there."""
        return Spot(x=self.asked.cost, y=self.left, words=f"{self.asked.arm.name}{words}")


def _run_address(point: FrontPoint) -> str | None:
    return FROM_RUN.run(point.asked.run_id) if point.asked.run_id else None


ARMS: Table[FrontPoint] = Table.of(
    field_column("asked.arm.name", str, head="change", brief=True, link=_run_address),
    field_column("half", str, brief=True),
    field_column("left", number_text, head="problems left", brief=True),
    field_column("price", str, head="cost", brief=True),
    Column("on front", lambda point: "yes" if point.on_front else "no"),
    field_column("outcome", str, words=True),
)


def front_points(
    unchanged: AskedArm | None, tried: Sequence[ReadArm], decisions: Sequence[ReadArm]
) -> list[FrontPoint]:
    """Return every arm with its price and what it leaves; the front is that of the half it is read on."""
    points: list[FrontPoint] = []
    for half, rows in (("held out", decisions), ("searched", tried)):
        if unchanged is not None and rows:
            own = [FrontPoint(row.asked, _left(row, "after"), half, _outcome(row)) for row in rows]
            own.insert(0, FrontPoint(unchanged, _left(rows[0], "before"), half, "as it was"))
            front = pareto(np.array([[point.asked.cost, point.left] for point in own]), (-1, -1))
            points += [point._replace(on_front=bool(on)) for point, on in zip(own, front, strict=True)]
    return points


def _left(row: ReadArm, when: str) -> float:
    """Add up the sizes of the problems, `before` or `after`."""
    sizes = [(change.axis, float(getattr(change, when))) for change in row.on_problems]
    return sum(abs(value) if _is_cut(axis) else 1 - value for axis, value in sizes)


def _outcome(row: ReadArm) -> str:
    promise = "promising" if row.is_promising else "not promising"
    return (row.refusal or "mends, and no loss was seen") if row.decides else promise


def front_figures(points: Sequence[FrontPoint]) -> dict[str, Figure]:
    """Draw what a judgment costs against what is left of the problems, by file name."""
    if not points:
        return {}
    front = [point for point in points if point.on_front and point.half == points[0].half]
    spots = [point.spot(f" ({point.half}): {point.left:.2f}, {point.price}") for point in points]
    named = [point.spot(f": {point.left:.2f}") for point in front]
    steps = sorted((spot.x, spot.y) for spot in named)
    figure, axes = numbered_map(spots, named, list(zip(*steps, strict=True)))
    # What is decided comes first and is drawn last: the searched half often has the same place.
    for point in reversed(points):
        colour, face = (PALETTE[0], PALETTE[0]) if point.half == "held out" else ("#888888", "white")
        axes.plot([point.asked.cost], [point.left], marker="o", markersize=8, color=colour, markerfacecolor=face)
    is_priced = points[0].asked.usd_per_1k is not None
    if is_priced:
        spread_prices(axes)
    else:
        axes.locator_params("x", integer=True, min_n_ticks=1)
    axes.set(xlabel="dollars per 1,000 judgments" if is_priced else "calls per judgment", ylabel="problems left")
    return {"cost_and_problems.png": figure}


# --- sentences


def _in_words(axis: str) -> str:
    return str(WORDS["mended"].get(axis, axis_name(axis)))


def recommending(best: ReadArm) -> list[str]:
    """Say what mends the judge, by how much, and the largest loss that is not excluded."""
    first, ability = best.better[0], best.ability
    text = " and ".join(change.text for change in best.asked.arm.changes)
    reading = best.asked.readings.get(first.axis)
    ends = reading.cluster_interval if isinstance(reading, Estimate) else None
    after = f"{number_text(first.after)}{f' {interval_text(*ends)}' if ends else ''}"
    cut = "cut" if _is_cut(first.axis) else "raised"
    # What is recommended has a bound on its loss of ability.
    bound = f"{_in_words(ability.axis)}: at most {ability.bound:.2f}" if ability else ""
    lines = [
        f"{text[0].upper()}{text[1:]} {cut} {_in_words(first.axis)} from {number_text(first.before)} to {after} and no "
        f"loss was seen elsewhere ({bound})."
    ]
    if more := [_in_words(change.axis) for change in best.better[1:]]:
        lines.append(f"Also better: {', '.join(more)}.")
    undecided = [change for change in best.changes if change.state == "no difference shown" and change.largest_loss]
    if undecided:
        most = max(undecided, key=lambda change: change.largest_loss or 0.0)
        lines.append(f"The largest loss not excluded: {most.largest_loss:.2f} ({axis_name(most.axis)}).")
    return lines


def not_mended(problems: Sequence[Finding], after: Mapping[str, Reading]) -> list[str]:
    """Say which problems of the run the repaired judge still shows: what it cannot tell first, and how many more."""
    before = {finding.axis for finding in problems}
    left = [finding for finding in findings(after) if finding.axis in before and finding.state == "problem"]
    if not left:
        return []
    left.sort(key=lambda finding: finding.axis != "ability")
    more = f" Problems of the run that remain: {len(left)}." if left[1:] else ""
    other = " Changes of a prompt seldom mend that: try another model." if left[0].axis == "ability" else ""
    return [f"Not mended: {left[0].text[0].lower()}{left[0].text[1:]}{other}{more}"]


def refusing(decisions: Sequence[ReadArm], n_tried: int) -> list[str]:
    """Say that nothing is recommended, why, and how many tasks would tell."""
    if not decisions:
        return [f"Nothing is recommended: none of the {n_tried} changes that were tried looked promising."]
    nearest = max(decisions, key=lambda row: (bool(row.better), not row.worse, row.mended))
    worse, ability = [axis_name(change.axis) for change in nearest.worse], nearest.ability
    why = f"it is worse on {', '.join(worse)}" if worse else nearest.refusal
    lines = [f"Nothing is recommended. The nearest, {nearest.asked.arm.name}: {why}."]
    seen = [change.tasks_to_tell for change in nearest.on_problems if change.gain > 0]
    tasks = min(filter(None, seen), default=None)
    if tasks and not nearest.better:
        lines.append(f"About {tasks:,} held-out tasks would show a change as large as the one that was seen.")
    elif not worse and ability and ability.bound and ability.gain > -MOST_LOST / 2:
        # An interval shrinks with the root of the number of tasks.
        needed = math.ceil(ability.n_clusters * (ability.bound / MOST_LOST) ** 2)
        lines.append(f"About {needed} held-out tasks would exclude a loss of {MOST_LOST:.2f}, if there is none.")
    return lines


def repair_points(done: Repair) -> list[keys.Point]:
    """Spell what a repair found: `repair/tried`, `repair/recommended`, and gain and interval of what is better."""
    values: dict[str, float | None] = {"tried": len(done.tried), "decided": len(done.decisions), "usd": done.cost_usd}
    values["recommended"] = (best := done.recommended) is not None
    for change in best.better if best else ():
        ends = {"gain": change.gain, "gain_ci_low": change.low, "gain_ci_high": change.high}
        values |= {f"{change.axis}/{name}": value for name, value in ends.items()}
    if best and best.ability:
        values["ability_loss_at_most"] = best.ability.bound
    return keys.known_points({f"repair/{name}": value for name, value in values.items()})
