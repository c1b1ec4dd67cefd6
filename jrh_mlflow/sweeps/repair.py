"""`jrh.repair`: from the problems of a logged judge to a change that mends them, proven on tasks that nobody searched.

search      every change that may mend a problem, then pairs of changes, on one half of the tasks, while the cap lasts
hold out    at most two of them and the unchanged judge, all asked afresh, on the other half: it decides
register    what is recommended as a version of a prompt; its alias moves only where what is required holds
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from jrh_mlflow.engine.budget import checked_cap
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.rendering import REGISTRY
from jrh_mlflow.measures.rules import AttackEvidence, IntervalRule, RuleCheck, parse_rules, undecided
from jrh_mlflow.measures.verdict import JudgeContext, findings
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.options import Moment
from jrh_mlflow.schema.estimates import Ends, NotEstimable, plain_data
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.scoring.ledger import deciding_ends
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Drawing, Only, Page, Section
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.suites.labels import most_frequent
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps import mending, repair_view
from jrh_mlflow.sweeps.interventions import RepairArm, arms_for, has_template
from jrh_mlflow.sweeps.mending import AskedArm, AxisChange, ReadArm
from jrh_mlflow.sweeps.sweep import suite_halves
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.identity import measured_judge
from jrh_mlflow.tracking.judges.prompts import link_prompt, register_template
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.read import LoggedRun, load_runs, run_id_of
from jrh_mlflow.tracking.runs.store import Store, open_run, publish, shown_content

Halves = tuple[Suite, Suite]
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
        elif best is None and not self.tried:
            lines = ["Nothing is recommended: no change of the table fits these problems and this judge, or the cap."]
        elif best is None:
            lines = repair_view.refusing(self.decisions, len(self.tried))
        else:
            lead, *more = repair_view.recommending(best)
            lines = [lead, *repair_view.not_mended(self.problems, best.asked.readings), *more]
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
    def points(self) -> list[repair_view.FrontPoint]:
        """Every arm by price and by what it leaves of the problems."""
        return [] if self.unchanged is None else repair_view.front_points(self.unchanged, self.tried, self.decisions)

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        lead, *sentences = self.verdict.sentences
        rules = [f"{check.rule.text}: {check.state}." for check in self.checks]
        problems, arms = [finding.text for finding in self.problems], repair_view.ARMS(self.points)
        counts = {"tried": len(self.tried), "decided": len(self.decisions)}
        return Page(
            title=f"Repair of {self.judge}",
            lead=lead,
            sentences=sentences,
            notes=[*(["Simulated judge, not a model."] * self.simulated), *self.notes],
            facts={"run": self.repaired_run[:8], **counts, "cost": money_text(self.cost_usd)},
            sections=[
                Section(heading="What the held-out half decides", blocks=[repair_view.CHANGES(self.changes)]),
                Section(heading="Cost and problems", blocks=[repair_view.MAP, Only(("html",), drawings), arms]),
                Section(heading="What was required", blocks=rules, always=bool(rules)),
                Section(
                    heading="Problems of the run", blocks=problems, media=("html", "markdown"), always=bool(problems)
                ),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per decided change and axis."""
        return repair_view.CHANGES(self.changes).to_frame()

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
    experiment: str | None = None,
    run_name: str | None = None,
    tracking_uri: str | None = None,
    tags: Mapping[str, str] | None = None,
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
        experiment: MLflow experiment; that of the run when None.
        run_name: Name of the parent run.
        tracking_uri: MLflow store; that of the evaluation, else the active one, when None.
        tags: More tags for the parent run.
        fresh_after: Answers on the held-out half may not be older; now when None. With the moment of an interrupted
            repair, which its run names, the same repair goes on.
        **as_evaluate: Further arguments of `evaluate`, such as journal, concurrency and prices.

    Raises:
        RecipeError: when the run is no evaluation, its judge cannot be asked again, or a rule is not known.
        BudgetError: when the cap does not cover one change on both halves.
    """
    uri = getattr(run, "tracking_uri", None) or tracking_uri
    (loaded,) = load_runs([run_id_of(run)], tracking_uri=uri, purpose="repaired")
    asked, rules = _judge_of(loaded, judge, uri), parse_rules(require) if require else ()
    people = None if labels is None else _people(labels, loaded.suite)
    readings = measure(loaded.calls, labels=loaded.suite.labels).estimates
    for rule in rules:
        rule.check_known(readings)
    found = findings(readings, JudgeContext(offers_tie=asked.tie_criterion.offers_tie))
    problems = tuple(finding for finding in found if finding.state == "problem")
    halves = suite_halves(loaded.suite, seed=seed)
    arms = arms_for([finding.axis for finding in problems], asked, halves[0])
    moment = fresh_after or datetime.now(timezone.utc).isoformat(timespec="seconds")
    place = {"experiment": experiment or loaded.experiment, "tracking_uri": uri}
    store, title = Store(uri, place["experiment"]), run_name or f"repair: {loaded.judge}"
    with open_run(store, "repair", title, simulated=loaded.simulated, tags=tags) as parent:
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
        drawings = draw(repair_view.front_figures(done.points))
        content = shown_content(
            done,
            repair_view.REPAIR_JSON,
            drawings=drawings,
            more={repair_view.REPAIRED_FILE: done.repaired} if done.repaired else {},
            points=repair_view.repair_points(best, len(done.tried), len(done.decisions), done.cost_usd),
            params={"repair": {**settings, "recommended": best.asked.arm.name if best else "nothing"}},
        )
        publish(store, parent, content, what_now="The runs of its arms are logged; the parent is not.")
    return done


def _judge_of(loaded: LoggedRun, judge: object, uri: str | None) -> Judge:
    if judge is not None:
        return resolve_judge(judge, tracking_uri=uri)
    measured = measured_judge(loaded.run_id, tracking_uri=uri)
    why = f"{measured.no_definition} Or give the judge itself: repair(run, judge=…)."
    if measured.recorded:
        why = f"The answers of run {loaded.run_id} were recorded: its judge cannot be asked again. Give `judge`."
    if measured.recorded or measured.definition is None:
        raise RecipeError(why)
    return measured.judge()


def _people(labels: str | Path | pd.DataFrame, suite: Suite) -> dict[str, str]:
    """Return the majority label of each item; without a majority it has none."""
    table = labels if isinstance(labels, pd.DataFrame) else read_table(labels)
    if missing := {"item", "label"} - set(table.columns):
        raise RecipeError(f"Labels need the columns item and label, but {', '.join(sorted(missing))} is missing.")
    given = table.dropna(subset=["item", "label"]).astype({"item": str, "label": str})
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
    asking: _ArmBudget, loaded: LoggedRun, arms: Sequence[RepairArm], halves: Halves, moment: Moment, **reading: Any
) -> dict[str, Any]:
    """Search one half, and decide on the other; return what a `Repair` has of both."""
    search, holdout = halves
    asking.set_aside(arms, search, holdout)
    if not loaded.truncated:
        # The run's own answers may choose, and never decide; each item as often as the arms are asked.
        most = loaded.calls["suite_item"].map({item.id: item.replicates for item in search.items})
        own = loaded.calls[loaded.calls["replicate"] < most].reset_index(drop=True)
        asking.same[search.sha256] = (own, loaded.run_id)
    base = asking.ask(RepairArm(), search)
    if base is None:
        return {}
    tried = mending.search_arms(base, arms, ask=partial(asking.ask, suite=search), **reading)
    chosen, made = mending.finalists(tried), {"tried": tuple(tried), "unchanged": base}
    if not chosen:
        return made
    ask = partial(asking.ask, suite=holdout, fresh_after=moment, asks=asking.held_out_asks(chosen, holdout))
    unchanged = ask(RepairArm())
    if unchanged is None:
        return made
    asked = [own for own in map(ask, chosen) if own is not None]
    decisions = mending.decide_arms(mending.Mending(unchanged=unchanged, arms=asked, **reading))
    return {**made, "unchanged": unchanged, "decisions": tuple(decisions)}


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
    policy = {"replicates": arm.policy.replicates, "orders": arm.policy.orders}
    settings = {**judge.settings(), "tie_criterion_text": judge.tie_criterion.text, **policy}
    changes = [{change.what: change.value} for change in arm.changes]
    made = {"repaired": {"changes": changes, "settings": settings, "definition": judge.definition()}}
    if not has_template(judge) or len(judge.used) != 1:
        where = repair_view.REPAIRED_FILE
        asking.notes.append(f"The judge has no prompt of its own in the registry: {where} has its settings.")
        return made
    old_name, _, old_alias = (getattr(unchanged, "prompt_uri", None) or "").removeprefix(REGISTRY).partition("@")
    name = name or old_name.partition("/")[0] or re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{judge.name}-repaired")
    alias = (old_alias or _ALIAS) if moves_alias else None
    runs = {repair_view.TAG_BEFORE: evidence.baseline.run_id, repair_view.TAG_AFTER: evidence.judge.run_id}
    told = {key: run for key, run in runs.items() if run}
    tags = {**told, repair_view.TAG_SETTINGS: json.dumps(settings, sort_keys=True)}
    try:
        registered = register_template(judge.used[0], name, alias=alias, tags=tags, tracking_uri=uri)
        for run_id in told.values():
            link_prompt(registered.version, run_id, tracking_uri=uri)
    except (RecipeError, TrackingError) as error:
        asking.notes.append(f"The prompt was not registered: {error}")
        return made
    return {**made, "prompt": registered.version, "alias": alias}
