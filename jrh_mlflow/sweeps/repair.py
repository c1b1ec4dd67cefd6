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

import numpy as np
import pandas as pd

from jrh_mlflow.engine.budget import checked_cap
from jrh_mlflow.errors import BudgetError, JudgeError, RecipeError, TrackingError
from jrh_mlflow.judges import Judge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.raw import RawJudge
from jrh_mlflow.judges.rendering import REGISTRY
from jrh_mlflow.measures.records import normalise
from jrh_mlflow.measures.rules import AttackEvidence, IntervalRule, RuleCheck, parse_rules, undecided
from jrh_mlflow.measures.unit_scores import AxisUnits, every_axis_units
from jrh_mlflow.measures.verdict import JudgeContext, findings
from jrh_mlflow.measuring.evaluate import dry_prepared, evaluate
from jrh_mlflow.measuring.resolve import resolve_judge
from jrh_mlflow.options import Moment
from jrh_mlflow.schema.estimates import Ends, Estimate, NotEstimable, Reading, plain_data
from jrh_mlflow.schema.findings import Finding, Verdict
from jrh_mlflow.scoring.ledger import deciding_ends
from jrh_mlflow.show.cards import ShownResult, brief_run
from jrh_mlflow.show.figures.svg import draw, figure_files
from jrh_mlflow.show.numbers import money_text
from jrh_mlflow.show.page import Drawing, Only, Page, Section
from jrh_mlflow.show.results import measure
from jrh_mlflow.suites.dataset import read_table
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps import repair_view
from jrh_mlflow.sweeps.interventions import RepairArm, arms_for
from jrh_mlflow.sweeps.mending import (
    MOST_DECIDED,
    AskedArm,
    AxisChange,
    DecidedArm,
    Mending,
    TriedArm,
    asks_afforded,
    decide_arms,
    finalists,
    problem_axes,
    recommended,
    search_arms,
)
from jrh_mlflow.sweeps.sweep import suite_halves
from jrh_mlflow.text import brief_name
from jrh_mlflow.tracking.judges.identity import measured_judge
from jrh_mlflow.tracking.judges.prompts import link_prompt, register_template
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.outbox import outbox_key
from jrh_mlflow.tracking.runs.read import LoggedRun, load_runs, run_id_of
from jrh_mlflow.tracking.runs.store import RunContent, Store, open_run, publish

_ALIAS = "repaired"
_SPARE = 1.2
"""Times the usual price that is set aside for the held-out half: answers differ in length."""
_SLOTS = {"1": "u", "first": "u", "2": "v", "second": "v"}
"""How people may name the contents of a pair."""


@dataclass(frozen=True, kw_only=True)
class Repair(ShownResult):
    """What mends a judge, or that nothing is shown to."""

    run_id: str
    link: str
    repaired_run: str
    """The evaluation whose problems were to be mended."""
    judge: str
    simulated: bool
    problems: tuple[Finding, ...]
    tried: tuple[TriedArm, ...] = ()
    """On the searched half, the best first."""
    decisions: tuple[DecidedArm, ...] = ()
    """On the held-out half."""
    unchanged: AskedArm | None = None
    """The judge as it was, asked afresh there."""
    after: Mapping[str, Reading] = field(default_factory=dict)
    """What the recommended judge reads there, by axis."""
    checks: tuple[RuleCheck, ...] = ()
    """What came of each rule that was required."""
    prompt: str | None = None
    """The version that was registered: `prompts:/name/3`."""
    alias: str | None = None
    """That now points to it; None: none was moved."""
    cost_usd: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def recommended(self) -> DecidedArm | None:
        """The change to make; None: nothing is recommended."""
        return recommended(self.decisions)

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
            reading = self.after.get(best.better[0].axis)
            ends = (reading.cluster_low, reading.cluster_high) if isinstance(reading, Estimate) else None
            lead, *more = repair_view.recommending(best, ends)
            lines = [lead, *repair_view.not_mended(self.problems, self.after), *more, *self._registered()]
        return Verdict(sentences=tuple(lines[:4]), findings=self.problems)

    def _registered(self) -> list[str]:
        if self.prompt is None:
            return []
        moved = f"the alias {self.alias} points to it" if self.alias else "no alias was moved"
        failed = [check for check in self.checks if check.state != "holds"]
        why = f" ({failed[0].rule.text}: {failed[0].state})" if failed else ""
        return [f"Registered as {self.prompt}; {moved}{why}."]

    @property
    def _changes(self) -> list[AxisChange]:
        return [change for row in self.decisions for change in row.changes]

    def _page(self, drawings: Sequence[Drawing] = (), **_: Any) -> Page:
        sentences, counts = self.verdict.sentences, {"tried": len(self.tried), "decided": len(self.decisions)}
        rules = [f"{check.rule.text}: {check.state}." for check in self.checks]
        problems, arms = [finding.text for finding in self.problems], repair_view.ARMS(self.points)
        return Page(
            title=f"Repair of {self.judge}",
            lead=sentences[0],
            sentences=sentences[1:],
            notes=[*(["Simulated judge, not a model."] * self.simulated), *self.notes],
            facts={"run": self.repaired_run[:8], **counts, "cost": money_text(self.cost_usd)},
            sections=[
                Section(heading="What the held-out half decides", blocks=[repair_view.CHANGES(self._changes)]),
                Section(heading="Cost and problems", blocks=[repair_view.MAP, Only(("html",), drawings), arms]),
                Section(heading="What was required", blocks=rules, always=bool(rules)),
                Section(
                    heading="Problems of the run", blocks=problems, media=("html", "markdown"), always=bool(problems)
                ),
            ],
        )

    @property
    def points(self) -> list[repair_view.FrontPoint]:
        """Every arm by price and by what it leaves of the problems."""
        return [] if self.unchanged is None else repair_view.front_points(self.unchanged, self.tried, self.decisions)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per decided change and axis."""
        return repair_view.CHANGES(self._changes).to_frame()

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
            "changes": [asdict(change) for change in self._changes],
            "refusals": {row.asked.arm.name: row.refusal for row in self.decisions},
            "tried": [dict(zip(("arm", "run", "mended", "promising"), row, strict=True)) for row in tried],
            "required": [check.to_dict() for check in self.checks],
        }

    def _card(self) -> dict[str, Any]:
        return {"tables": self.page.tables, "notes": self.notes, "facts": {"cost": money_text(self.cost_usd)}}

    def __repr__(self) -> str:
        best = self.recommended
        what = best.asked.arm.name if best else "nothing recommended"
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
    asked = _judge_of(loaded, judge, uri)
    people = None if labels is None else _people(labels, loaded.suite)
    context = JudgeContext(offers_tie=asked.tie_criterion.offers_tie)
    readings = measure(loaded.calls, labels=loaded.suite.labels).estimates
    problems = tuple(finding for finding in findings(readings, context) if finding.state == "problem")
    rules = parse_rules(require) if require else ()
    for rule in rules:
        rule.check_known(readings)
    search, holdout = suite_halves(loaded.suite, seed=seed)
    arms = arms_for([finding.axis for finding in problems], asked, search)
    moment = fresh_after or datetime.now(timezone.utc).isoformat(timespec="seconds")
    store = Store(uri, experiment or loaded.experiment)
    title = run_name or f"repair: {loaded.judge}"
    with open_run(store, "repair", title, simulated=loaded.simulated, tags=tags) as parent:
        done = Repair(
            run_id=parent,
            link=store.link(parent),
            repaired_run=loaded.run_id,
            judge=loaded.judge,
            simulated=loaded.simulated,
            problems=problems,
        )
        asking = _ArmBudget(
            judge=asked,
            max_usd=max_usd,
            budget=outbox_key("repair", loaded.run_id, moment),
            options={
                "progress": False,
                "seed": seed,
                **as_evaluate,
                "experiment": experiment or loaded.experiment,
                "tracking_uri": uri,
                "parent_run_id": parent,
            },
        )
        if problems and arms:
            done = _measured(done, asking, loaded, arms, (search, holdout), moment, people=people, seed=seed)
            done = _registered(done, asking, rules, name=name, uri=store.uri, suite=holdout)
        done = replace(done, cost_usd=asking.spent, notes=(*done.notes, *asking.notes))
        content = _content(done, asking, moment=moment, max_usd=max_usd, seed=seed)
        publish(store, parent, content, what_now="The runs of its arms are logged; the parent is not.")
    return done


def _judge_of(loaded: LoggedRun, judge: object, uri: str | None) -> Judge:
    if judge is not None:
        return resolve_judge(judge, tracking_uri=uri)
    measured = measured_judge(loaded.run_id, tracking_uri=uri)
    if measured.recorded:
        raise RecipeError(
            f"The answers of run {loaded.run_id} were recorded: its judge cannot be asked again. Give `judge`."
        )
    if measured.definition is None:
        raise RecipeError(f"{measured.no_definition} Or give the judge itself: repair(run, judge=…).")
    return measured.judge()


def _people(labels: str | Path | pd.DataFrame, suite: Suite) -> dict[str, str]:
    """Return the majority label of each item; without a majority it has none."""
    table = labels if isinstance(labels, pd.DataFrame) else read_table(labels)
    if missing := {"item", "label"} - set(table.columns):
        raise RecipeError(f"Labels need the columns item and label, but {', '.join(sorted(missing))} is missing.")
    pairs = {item.id for item in suite.items if item.kind == "pair"}
    known = {item.id for item in suite.items}
    majority: dict[str, str] = {}
    for item, own in table.dropna(subset=["item", "label"]).groupby("item")["label"]:
        counts = own.astype(str).str.strip().value_counts()
        if str(item) in known and (counts == counts.iloc[0]).sum() == 1:
            label = str(counts.index[0])
            majority[str(item)] = _SLOTS.get(label, label) if str(item) in pairs else label
    if not majority:
        raise RecipeError("No label is of an item of the suite with a majority: items are named by their ids.")
    return majority


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
    repaired: Judge | None = None
    """The recommended one."""

    @property
    def is_priced(self) -> bool:
        return self.judge.model_judge is not None

    def quote(self, arm: RepairArm, suite: Suite) -> float | None:
        """Return the usual price of an arm on a half."""
        judge, asked = arm.applied(self.judge, suite) or (self.judge, suite)
        given = {name: self.options[name] for name in ("prices", "journal") if name in self.options}
        return dry_prepared(judge, asked, replicates=arm.replicates, **given).quote(afresh=True).usd

    def set_aside(self, arms: Sequence[RepairArm], search: Suite, holdout: Suite) -> None:
        """Keep the price of the held-out half; refuse a cap that has no room for one change."""
        if not self.is_priced:
            return
        checked_cap(self.max_usd, self.judge, self.options.get("prices"))
        once, first = self.quote(RepairArm(), holdout), self.quote(arms[0], search)
        if once is None or first is None:
            return
        self.aside = min(self.max_usd, _SPARE * (1 + MOST_DECIDED) * once)
        if self.max_usd < (least := 2 * _SPARE * once + first):
            raise BudgetError(
                f"The cap of {money_text(self.max_usd)} does not cover one change on both halves: about "
                f"{money_text(least)}. Ten times what the run has cost is a good cap."
            )

    def held_out_asks(self, arms: Sequence[RepairArm], suite: Suite) -> int:
        """Return how often each presentation is asked there; once where a price is unknown, or answers would repeat."""
        prices = [self.quote(arm, suite) for arm in (RepairArm(), *arms)] if self.is_priced else [None]
        if None in prices or getattr(self.judge, "temperature", None) == 0:
            return 1
        return asks_afforded(self.max_usd - (self.spent or 0.0), _SPARE * sum(filter(None, prices)))

    def ask(self, arm: RepairArm, suite: Suite, *, fresh_after: Moment | None = None, asks: int = 1) -> AskedArm | None:
        """Ask an arm on a half; None where there is no money left for it, or it cannot be asked."""
        pair = any(item.kind == "pair" for item in suite.items)
        if arm.asks_same and suite.sha256 in self.same:
            calls, run_id = self.same[suite.sha256]
            return self._answered(arm, calls, run_id, pair=pair)
        changed = arm.applied(self.judge, suite)
        if changed is None or not self._fits(arm, suite, asks, is_search=fresh_after is None):
            return None
        cap = self.max_usd if fresh_after else self.max_usd - self.aside
        given = {**self.options, "replicates": asks * arm.replicates, "fresh_after": fresh_after}
        given |= {"max_usd": cap, "budget": self.budget} if self.is_priced else {}
        try:
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
        return self._answered(arm, done.calls, done.run_id, pair=pair)

    def _fits(self, arm: RepairArm, suite: Suite, asks: int, *, is_search: bool) -> bool:
        cap = self.max_usd - (self.aside if is_search else 0.0)
        price = self.quote(arm, suite) if self.is_priced else None
        if (self.spent or 0.0) + asks * (price or 0.0) <= cap:
            return True
        self.notes.append(f"{arm.name} was not measured: the cap has no room for it.")
        return False

    @staticmethod
    def _answered(arm: RepairArm, calls: pd.DataFrame, run_id: str | None, *, pair: bool) -> AskedArm:
        per_call = keys.whole_total(calls, "cost_usd")
        times = arm.calls_per_judgment(pair=pair)
        usd = None if per_call is None else 1000 * times * per_call / len(calls)
        return AskedArm(arm=arm, records=arm.decisions(calls), usd_per_1k=usd, calls_per_judgment=times, run_id=run_id)


def _measured(
    done: Repair,
    asking: _ArmBudget,
    loaded: LoggedRun,
    arms: Sequence[RepairArm],
    halves: tuple[Suite, Suite],
    moment: Moment,
    **reading: Any,
) -> Repair:
    """Search one half, and decide on the other."""
    search, holdout = halves
    asking.set_aside(arms, search, holdout)
    if not loaded.truncated:
        # The run's own answers may choose, and never decide; each item as often as the arms are asked.
        most = loaded.calls["suite_item"].map({item.id: item.replicates for item in search.items})
        own = loaded.calls[loaded.calls["replicate"] < most].reset_index(drop=True)
        asking.same[search.sha256] = (own, loaded.run_id)
    base = asking.ask(RepairArm(), search)
    if base is None:
        return done
    reading |= {"labels": loaded.suite.labels}
    problems = problem_axes(finding.axis for finding in done.problems)
    tried = search_arms(base, arms, problems, partial(asking.ask, suite=search), **reading)
    done = replace(done, tried=tuple(tried), unchanged=base)
    chosen = finalists(tried)
    asks = asking.held_out_asks(chosen, holdout) if chosen else 0
    ask = partial(asking.ask, suite=holdout, fresh_after=moment, asks=asks)
    unchanged = ask(RepairArm()) if chosen else None
    if unchanged is None:
        return done
    asked = [ask(arm) for arm in chosen]
    mending = Mending(unchanged=unchanged, arms=[arm for arm in asked if arm], problems=problems, **reading)
    return replace(done, unchanged=unchanged, decisions=tuple(decide_arms(mending)) if mending.arms else ())


@dataclass(frozen=True, kw_only=True)
class _ArmReadings:
    """What an arm reads on the held-out half, as rules ask for it."""

    readings: Mapping[str, Reading]
    units: Mapping[str, AxisUnits]

    @classmethod
    def of(cls, asked: AskedArm, suite: Suite) -> _ArmReadings:
        frame = normalise(asked.records)
        units = every_axis_units(frame, labels=suite.labels, any_mean=True)
        return cls(readings=measure(frame, labels=suite.labels).estimates, units=units)


@dataclass(frozen=True, kw_only=True)
class _RuleEvidence:
    """Evidence for what is required: the recommended arm, beside the unchanged judge as its baseline."""

    judge: _ArmReadings
    baseline: _ArmReadings
    facts: Mapping[str, Ends | None] = field(default_factory=dict)
    attack: AttackEvidence | None = None

    def interval_check(self, rule: IntervalRule) -> RuleCheck:
        """Decide by the interval over the held-out tasks."""
        reading = rule.reading([self.judge, self.baseline] if rule.needs_baseline else [self.judge])
        if isinstance(reading, NotEstimable):
            return undecided(rule, reading.reason)
        low, high = deciding_ends(reading)
        return RuleCheck(
            rule=rule,
            state=rule.state(reading),
            estimate=reading.value,
            low=low,
            high=high,
            reason="decided on the held-out half",
            n=reading.n,
            n_clusters=reading.n_clusters,
        )


def _registered(
    done: Repair, asking: _ArmBudget, rules: Sequence[Any], *, name: str | None, uri: str, suite: Suite
) -> Repair:
    """Check what is required of the recommended arm, and register its prompt with both runs linked to it."""
    best, unchanged = done.recommended, done.unchanged
    if best is None or unchanged is None:
        return done
    after, before = (_ArmReadings.of(asked, suite) for asked in (best.asked, unchanged))
    evidence = _RuleEvidence(judge=after, baseline=before)
    checks = tuple(rule.check(evidence) for rule in rules)
    done = replace(done, after=after.readings, checks=checks)
    judge, shown = best.asked.arm.applied(asking.judge, suite) or (asking.judge, suite)
    judge.begin(shown)
    asking.repaired = judge
    if not isinstance(judge, PromptedJudge) or isinstance(judge, RawJudge) or len(judge.used) != 1:
        note = f"The judge has no prompt of its own in the registry: {repair_view.REPAIRED_FILE} has its settings."
        return replace(done, notes=(*done.notes, note))
    old_name, _, old_alias = (getattr(asking.judge, "prompt_uri", None) or "").removeprefix(REGISTRY).partition("@")
    name = name or old_name.partition("/")[0] or re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{judge.name}-repaired")
    alias = (old_alias or _ALIAS) if rules and all(check.state == "holds" for check in checks) else None
    runs = {repair_view.TAG_BEFORE: unchanged.run_id, repair_view.TAG_AFTER: best.asked.run_id}
    told = {key: run for key, run in runs.items() if run}
    settings = {repair_view.TAG_SETTINGS: json.dumps(_settings(judge, best.asked.arm), sort_keys=True)}
    try:
        registered = register_template(judge.used[0], name, alias=alias, tags={**told, **settings}, tracking_uri=uri)
        for run_id in told.values():
            link_prompt(registered.version, run_id, tracking_uri=uri)
    except (RecipeError, TrackingError) as error:
        return replace(done, notes=(*done.notes, f"The prompt was not registered: {error}"))
    return replace(done, prompt=registered.version, alias=alias)


def _settings(judge: Judge, arm: RepairArm) -> dict[str, Any]:
    """Return what makes the judge beside its prompt, and how its calls are read."""
    policy = {"replicates": arm.replicates, "orders": "both" if arm.both_orders else "one"}
    return {**judge.settings(), "tie_criterion_text": judge.tie_criterion.text, **policy}


def _content(done: Repair, asking: _ArmBudget, *, moment: Moment, max_usd: float, seed: int) -> RunContent:
    best, markdown = done.recommended, done.to_markdown()
    figure = repair_view.front_figure(done.points)
    drawings = draw({} if figure is None else {"cost_and_problems.png": figure})
    artifacts: dict[str, Any] = {
        repair_view.REPAIR_JSON: _plain(done.to_dict()),
        repair_view.REPAIR_MARKDOWN: markdown,
        keys.PAGE_JSON: done._page(drawings).to_dict(),
        **figure_files(drawings),
    }
    if best is not None and (judge := asking.repaired) is not None:
        artifacts[repair_view.REPAIRED_FILE] = {
            "changes": [dict(change.change) for change in best.asked.arm.changes],
            "settings": _plain(_settings(judge, best.asked.arm)),
            "definition": judge.definition(),
        }
    name = best.asked.arm.name if best else "nothing"
    params = {
        "run": done.repaired_run,
        "max_usd": max_usd,
        "seed": seed,
        "fresh_after": str(moment),
        "recommended": name,
    }
    arms = {"tried": len(done.tried), "decided": len(done.decisions)}
    return RunContent(
        points=repair_view.repair_points(best, **arms, usd=done.cost_usd),
        params={"repair": params},
        description=markdown,
        described_in=repair_view.REPAIR_MARKDOWN,
        artifacts=artifacts,
    )


def _plain(value: Any) -> Any:
    """Return JSON-ready data: numbers of numpy are numbers, and what has no JSON is its text."""
    return json.loads(json.dumps(value, default=lambda one: one.item() if isinstance(one, np.generic) else str(one)))
