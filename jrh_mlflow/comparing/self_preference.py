"""`jrh.self_preference`: whether judges let answers of their own win, as an MLflow run of its own.

answers = jrh.respond("prompts.csv", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"], max_usd=5)
judges = ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest"]
print(jrh.self_preference(answers, judges, max_usd=5).verdict)

A judge j that is shown the answers u and v picks u with log-odds q + b·(own(u) − own(v)) ± s_j, q the quality of the
pair, b the bonus of own answers, s_j the pull of the slot. Strata are the pairs, all judges in both orders answer in
each, and people's or gold labels are one more answer without bonus and slot, so that q drops out
(`stats.conditional`). A tie is half a win for each. The excess is logistic(b) − ½: how much more often than one half
the own of two equally good answers wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from jrh_mlflow.comparing import answer_pairs
from jrh_mlflow.comparing.answer_pairs import AS_WRITTEN, AUTHORS, COLUMNS, JUDGE, LABEL, PAIR_COLUMNS
from jrh_mlflow.comparing.comparison_view import reading_values
from jrh_mlflow.comparing.recommendation import closing_section, short_name
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import shown_name
from jrh_mlflow.judges.responder import Responder
from jrh_mlflow.measures.records import choice_of
from jrh_mlflow.measuring.asked_items import ask_prepared, check_whole, prompt_suite, shared_budget
from jrh_mlflow.measuring.resolve import Prepared, judge_named, prepare
from jrh_mlflow.models import trust
from jrh_mlflow.models.families import bare_model, family_of
from jrh_mlflow.options import AskedRunOptions, option, takes
from jrh_mlflow.perturb import fill_prompt, prompt
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading, intervals, plain_data, plain_fields
from jrh_mlflow.schema.findings import Finding, State, Verdict
from jrh_mlflow.schema.items import NATURAL_TIE, CallRecord, Item
from jrh_mlflow.scoring.ledger import MAX_EXCLUDED, deciding_interval, hull_at
from jrh_mlflow.show import cards, glossary
from jrh_mlflow.show.figures.canvas import Figures, cell_table, write_cell
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import money_text, number_text
from jrh_mlflow.show.page import Drawing, Page, Section
from jrh_mlflow.show.tables import Column, FilledTable, Table, field_column, reading_cell
from jrh_mlflow.stats import FEWEST_CLUSTERS, Interval
from jrh_mlflow.stats.conditional import ConditionalFit, conditional_logistic
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, log_paid, open_run, publish, shown_content

EXCESS, FAMILY_EXCESS = "excess", "family_excess"
_BEFORE = {AS_WRITTEN: "", "rewritten": "rewritten_"}
"""Version of the answers to what stands before the name of a reading."""
PREFIX, SELF_PREFERENCE_JSON = "self_preference/", "self_preference.json"
LIMIT, _WIDEST = 0.10, (-0.5, 0.5)
_SAYS: Mapping[str, Any] = glossary.WORDS["self_preference"]
_SCORES = {"u": 1.0, "v": 0.0, "tie": 0.5, "abstain": 0.5}
"""What a choice is worth to the first answer: a tie and an abstention are half a win for each."""
GivenJudges = Sequence[object] | Mapping[str, object] | None


class SelfPreferenceOptions(AskedRunOptions):
    """The keywords of `jrh.self_preference`, which describes them."""

    columns: Any = option(None, "a mapping")
    labels: Any = option(None, "names of columns")
    rewriter: str | None = option(None, "a model")
    families: Any = option(None, "a mapping")


@takes(SelfPreferenceOptions)
def self_preference(frame: object, judges: GivenJudges = None, **options: Any) -> SelfPreference:
    """Measure how much more often judges let answers of their own, or of their family, win at equal quality.

    Every judge is asked about every pair in both orders. What a pair's quality is, all who judge it tell together, and
    people's or gold labels where there are any; judges are compared within a pair, so that better authors do not pass
    for favoured ones. One judge alone needs labels; the preference of a single judge needs somebody who wrote neither
    answer.

    Args:
        frame: What `jrh.respond` returns (columns `prompt`, `response`, `author`: every two answers to a prompt are a
            pair); or a row for each pair with `instruction`, `first`, `second`, `first_author`, `second_author`; or,
            without `judges`, recorded judgments: a row for each with `id`, `first_author`, `second_author`, `judge` and
            `winner` (`1`, `2`, `tie` or an author's name), the first being the one shown first. A DataFrame, a file, or
            mappings; `id` names the item.
        judges: Judges as for `jrh.evaluate`; a mapping says which author each is, where its model's name does not.
        **options: Every field of `SelfPreferenceOptions`, which are these.
        columns: Our name of a column to the table's.
        labels: Columns with the better answer (`1`, `2`, `tie` or an author's name) by people or by construction;
            `better` where there is one. Each is one more answer about the pair.
        rewriter: Model that rewrites every answer in neutral words; judges are then asked about these as well.
        families: Author, or model of a judge, to its family; others by their names.
        max_usd: Never spend more than this on judges and rewriter together, restarts included.
        prices: Model to dollars per million input and output tokens.
        journal: Where paid answers are kept; one journal per user when None.
        concurrency: Most calls in flight.
        requests_per_minute: Of the endpoint.
        tokens_per_minute: Of the endpoint.
        timeout_s: Of one attempt.
        experiment: MLflow experiment; the active one, or `judge-datasheets`, when None.
        run_name: Name of the run.
        tracking_uri: MLflow store; the active one when None.
        tags: More tags for the run.
        log: Log it as a run of its own, kind `self_preference`.
        progress: Show a progress bar on a terminal.
        allow_key_to: Hosts that may get keys though only a file names them.

    Raises:
        RecipeError: for tables, judges or settings that make no sense, before anything is sent.
        JudgeError: when a service fails for good; what was answered is in the journal.
        TrackingError: when MLflow cannot be reached.
    """
    work = _Judging(frame, judges, asking := SelfPreferenceOptions.of_keywords(options, of="self_preference"))
    for prepared in work.everybody:
        prepared.check_ready()
    if not asking.log:
        return work.result()
    store = Store(asking.tracking_uri, asking.experiment)
    title = asking.run_name or f"self-preference of {', '.join(work.authors)}"[:200]
    with open_run(store, "self_preference", title, simulated=work.simulated, tags=asking.tags) as run_id:
        try:
            done = replace(work.result(), run_id=run_id, link=store.link(run_id))
        except BaseException:
            log_paid(store, run_id, work.paid)
            raise
        cells = CELLS(done.cells.itertuples()).to_frame()
        texts = pd.DataFrame(done.rewritten.items(), columns=["answer", "rewritten"])
        tables = {"readings": done.to_frame(), "judges_and_authors": cells, "judgments": done.judgments}
        content = shown_content(
            done,
            SELF_PREFERENCE_JSON,
            tables=tables if texts.empty else {**tables, "rewritten": texts},
            drawings=draw(done.figures),
            more={keys.READINGS_JSON: plain_data(done.estimates)},
            points=[*done.points, *keys.money_points(done.paid)],
            params={"self_preference": {**done.settings, "max_usd": asking.max_usd}},
        )
        publish(store, run_id, content, what_now=_SAYS["kept"])
    return done


def price_self_preference(frame: object, judges: GivenJudges, **options: Any) -> dict[str, Quote]:
    """Say what each judge would be sent and cost for the answers as they are written, without sending anything."""
    asking = SelfPreferenceOptions.of_keywords(options, of="price_self_preference")
    return {name: prepared.quote() for name, prepared in _Judging(frame, judges, asking).judges.items()}


class _Judging:
    """Who judges which pairs, checked before anything is sent; `paid`, `notes` and `rewritten` grow with the asking."""

    def __init__(self, frame: object, judges: GivenJudges, options: SelfPreferenceOptions) -> None:
        trust.allow_key_to(options.allow_key_to)
        self.options = options
        self.paid, self.notes, self.rewritten = Paid(), list[str](), dict[str, str]()
        self.judges, self.authors, self.everybody = dict[str, Prepared](), dict[str, str](), list[Prepared]()
        table = answer_pairs.named_table(frame, options.columns or {})
        if judges is not None:
            self.rows = answer_pairs.pairs_of_answers(table, options.labels)
            self._prepare_judges(judges)
        elif options.rewriter is None:
            self.rows = answer_pairs.recorded_judgments(table)
            self.authors = {name: name for name in self.rows.loc[self.rows["kind"] == JUDGE, "rater"]}
        else:
            raise RecipeError("Nobody is there to ask about rewritten answers: give `judges`, or no rewriter.")
        if options.rewriter is not None:
            template = prompt("neutral_words").rstrip()
            texts = dict.fromkeys(self.rows[["first", "second"]].to_numpy().ravel())
            self.texts = {f"text-{number:05d}": text for number, text in enumerate(texts)}
            asked = {name: fill_prompt(template, {"text": text}) for name, text in self.texts.items()}
            suite, model = prompt_suite("answers to rewrite", asked), Responder(options.rewriter, name=options.rewriter)
            self.everybody.append(prepare(model, suite, **options.preparing))
        self.simulated = any(prepared.judge.simulated for prepared in self.everybody)

    def _prepare_judges(self, judges: Sequence[object] | Mapping[str, object]) -> None:
        given = list(judges.items()) if isinstance(judges, Mapping) else [(None, judge) for judge in judges]
        if isinstance(judges, str) or not given:
            raise RecipeError(f"`judges` is a list of judges, or maps from author to judge, but got {judges!r}.")
        suite = _suite(self.rows)
        for author, own in given:
            prepared = prepare(
                judge_named(own, tracking_uri=self.options.tracking_uri), suite, **self.options.preparing
            )
            judge = prepared.judge
            name = shown_name(author or judge.name, simulated=judge.simulated, recorded=bool(judge.recorded))
            if name in self.judges:
                raise RecipeError(f"Two judges are called {name!r}: give a mapping from author to judge.")
            self.judges[name] = prepared
            self.authors[name] = author or (judge.model_judge.model if judge.model_judge else judge.name)
        self.everybody += self.judges.values()

    def result(self) -> SelfPreference:
        """Ask every judge about every pair, then about the rewritten ones, and read what they said."""
        said = self._judged(self.rows, AS_WRITTEN) if self.judges else self.rows
        if self.options.rewriter is not None and len(pairs := self._rewritten_pairs()):
            said = pd.concat([said, self._judged(pairs, "rewritten")], ignore_index=True)
        done = measure_self_preference(said, judges=self.authors, families=self.options.families or {})
        asked: dict[str, Any] = {"rewriter": self.options.rewriter, "rewritten": self.rewritten, "paid": self.paid}
        return replace(done, notes=self.notes, simulated=self.simulated, **asked)

    def _rewritten_pairs(self) -> pd.DataFrame:
        """Return the pairs with their answers in neutral words; what was refused or cut is left out."""
        whole = [own for own in self._records("rewriting", self.everybody[-1]) if own.rationale is None and own.answer]
        self.rewritten = {self.texts[own.suite_item]: own.answer for own in whole}
        texts = {side: self.rows[side].map(self.rewritten) for side in ("first", "second")}
        pairs: pd.DataFrame = self.rows.assign(**texts).dropna(subset=list(texts))
        if lost := len(self.rows) - len(pairs):
            self.notes.append(_SAYS["not rewritten"].format(lost=lost, n=len(self.rows)))
        return pairs

    def _judged(self, pairs: pd.DataFrame, version: str) -> pd.DataFrame:
        """Return what every judge says about every pair in both orders, and what the labels say."""
        suite = _suite(pairs)
        said = [
            (version, record.suite_item, name, JUDGE, record.order, record.outcome, _SCORES.get(choice_of(record)))
            for name, prepared in self.judges.items()
            for record in self._records(name, replace(prepared, suite=suite))
        ]
        for name in pairs.columns.drop(list(PAIR_COLUMNS)):
            said += [(version, pair, name, LABEL, "", "verdict", own) for pair, own in pairs[name].dropna().items()]
        frame: pd.DataFrame = pd.DataFrame(said, columns=list(COLUMNS[:-3])).join(pairs[list(COLUMNS[-3:])], on="pair")
        return frame

    def _records(self, name: str, prepared: Prepared) -> Collection[CallRecord]:
        prepared.judge.begin(prepared.suite)
        asked = ask_prepared(prepared, self.options, what=name, budget=shared_budget("self_preference", self.everybody))
        self.paid += asked.paid or Paid()
        check_whole(asked, f"asking of {name}")
        return asked.records


def _suite(pairs: pd.DataFrame) -> Suite:
    # The one condition of real pairs of which no side is known to be better; nothing is measured by it here.
    items = [
        Item(id=pair, task=item, condition=NATURAL_TIE, instruction=instruction, u=first, v=second)
        for pair, item, instruction, first, second in pairs[list(PAIR_COLUMNS[:4])].itertuples()
    ]
    return Suite(name="pairs of answers", items=items, origin={"builder": "self_preference"})


# --- what is read of judgments


def measure_self_preference(
    judgments: pd.DataFrame, *, judges: Mapping[str, str], families: Mapping[str, str]
) -> SelfPreference:
    """Read the excess of all judges, of each alone, by author and by family.

    Args:
        judgments: A row for each answer (`COLUMNS`).
        judges: Judge to the author that it is.
        families: Author to family; those of others are told by their names.
    """
    everybody = sorted({*judges.values(), *(name for author in AUTHORS for name in judgments[author])})
    known = {name: family for name in everybody if (family := families.get(name) or family_of(name))}
    # What a judge shares with an author whose answers it has a stake in. Two ways to a model are of one family.
    models = {name: bare_model(name) for name in everybody}
    of_models = {models[name]: family for name, family in known.items()}
    kins = {EXCESS: models, FAMILY_EXCESS: {name: of_models.get(model, model) for name, model in models.items()}}
    tables = {_BEFORE[str(version)]: table for version, table in judgments.groupby("version", sort=False)}
    staked = {f"{when}{name}": _staked(table, judges, kins[name]) for when, table in tables.items() for name in kins}
    by_judge = {judge: {name: _excess_of(judge, table, name) for name, table in staked.items()} for judge in judges}
    told = {judge: {name: reading for name, reading in own.items() if reading} for judge, own in by_judge.items()}
    return SelfPreference(
        judgments=judgments,
        judges=dict(judges),
        families=known,
        readings={name: read_excess(table, name) for name, table in staked.items()},
        by_judge={judge: own for judge, own in told.items() if own},
        cells=_cells(tables[""], judges, {"own": kins[EXCESS], "family": kins[FAMILY_EXCESS]}),
    )


def _staked(judgments: pd.DataFrame, judges: Mapping[str, str], kin: Mapping[str, str]) -> pd.DataFrame:
    """Add `own`: whether who answers has a stake in the first text (1), in the second (−1), or in both or none (0)."""
    who = judgments["rater"].map({judge: kin[author] for judge, author in judges.items()})
    first, second = ((judgments[author].map(kin) == who).astype(float) for author in AUTHORS)
    staked: pd.DataFrame = judgments.assign(own=first - second)
    return staked


def _excess_of(judge: str, judgments: pd.DataFrame, name: str) -> Reading | None:
    """Read the excess of one judge on its own pairs, beside those who have no stake in them; None if it has none."""
    mine = (judgments["rater"] == judge) & (judgments["own"] != 0)
    beside = judgments["pair"].isin(judgments.loc[mine, "pair"]) & (judgments["own"] == 0)
    if mine.any() and not beside.any():
        return NotEstimable(reason=_SAYS["why"]["no outsider"], statistic="value")
    return read_excess(judgments[mine | beside], name) if mine.any() else None


def read_excess(judgments: pd.DataFrame, name: str = EXCESS) -> Reading:
    """Read the excess of whoever has a stake: in the column `own` 1 where it is in the first text, −1 in the second.

    Not estimable where nobody or everybody has the same stake, where fewer than ten items tell something, and, as every
    other reading, where more than 5 % of the calls gave no usable answer.
    """
    scores, own, asked = judgments["score"], judgments["own"], judgments["kind"] == JUDGE
    lost = asked & scores.isna()
    counts: dict[str, Any] = {"n": judgments["pair"].nunique(), "excluded": int(lost.sum()), "statistic": "value"}
    counts["left_out"] = judgments.loc[lost, "outcome"].value_counts().to_dict()
    missing = partial(NotEstimable, **counts)
    if not own.any() or judgments["rater"].nunique() == 1:
        return missing(reason=_SAYS["why"]["alone" if own.any() else name.removeprefix("rewritten_")])
    if lost.mean() > MAX_EXCLUDED:
        reason = _SAYS["why"]["lost"].format(lost=lost.sum(), asked=asked.sum(), most=MAX_EXCLUDED)
        return missing(reason=reason, withheld=True)
    fit = _fit(judgments, scores)
    if fit is None:
        return missing(reason=_SAYS["why"]["no difference"])
    if fit.n_clusters < FEWEST_CLUSTERS:
        return missing(reason=f"{fit.n_clusters} items tell something, and an interval takes {FEWEST_CLUSTERS}")
    # What lost answers could change: each goes to whoever has more of a stake than the others, or to the other one.
    lean = 0.5 * np.sign(own - own.groupby(judgments["pair"]).transform("mean"))
    fits = [fit, *filter(None, (_fit(judgments, scores.mask(lost, 0.5 + way * lean)) for way in (1, -1) if lost.any()))]
    shares, ends = [float(expit(each.value)) - 0.5 for each in fits], [partial(_ends, each) for each in fits]
    return Estimate(
        value=shares[0],
        **counts,
        **intervals(_ends(fit, 0.95, clustered=False), _ends(fit, 0.95)),
        n_clusters=fit.n_clusters,
        method="conditional logistic, jackknife by item",
        unit="pair",
        n_calls=int(asked.sum()),
        bound_low=min(shares),
        bound_high=max(shares),
        at_level=ends[0],
        decides_at=partial(hull_at, ends) if lost.any() else None,
    )


def _ends(fit: ConditionalFit, level: float, *, clustered: bool = True) -> Interval:
    low, high = expit(fit.interval(level, clustered=clustered)) - 0.5
    return float(low), float(high)


def _fit(judgments: pd.DataFrame, scores: pd.Series[float]) -> ConditionalFit | None:
    rows = judgments.assign(score=scores).dropna(subset="score")
    slots, judges = rows["order"].map({"uv": 1.0, "vu": -1.0, "": 0.0}), rows.loc[rows["kind"] == JUDGE, "rater"]
    terms = np.column_stack([rows["own"], *(slots * (rows["rater"] == judge) for judge in judges.unique())])
    strata, clusters = (pd.factorize(rows[column])[0] for column in ("pair", "item"))
    return conditional_logistic(rows["score"].to_numpy(float), terms, strata, clusters)


def _cells(said: pd.DataFrame, judges: Mapping[str, str], kins: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Return how often each author's answers win with each judge: the mean over pairs, orders within a pair first."""
    sides = [said.assign(author=said[name], won=(said["score"] - lost).abs()) for lost, name in enumerate(AUTHORS)]
    won = pd.concat(sides).dropna(subset="won").groupby(["author", "pair", "rater"])["won"].mean().reset_index()
    of_pair = won.groupby(["author", "pair"])["won"]
    # Nobody else: 0 / 0 is missing.
    won["others"] = (of_pair.transform("sum") - won["won"]) / (of_pair.transform("count") - 1)
    mine = won[won["rater"].isin(judges)].rename(columns={"rater": "judge"}).groupby(["author", "judge"])
    cells = mine.agg(share=("won", "mean"), others=("others", "mean"), n=("won", "count")).reset_index()
    authors = zip(cells["author"], cells["judge"].map(judges), strict=True)
    cells["stake"] = [next((name for name, kin in kins.items() if kin[one] == kin[own]), "") for one, own in authors]
    frame: pd.DataFrame = cells.astype(object).where(cells.notna(), None)
    return frame


# --- what people see of it


READINGS: Table[tuple[str, str, Reading]] = Table.of(
    Column("judge", itemgetter(0), value=itemgetter(0), as_code=True, brief=True),
    Column("axis", lambda row: axis_name(f"{PREFIX}{row[1]}"), value=itemgetter(1), words=True, brief=True),
    Column("excess", lambda row: reading_cell(row[2]), brief=True),
    *reading_values(lambda row: row[2]),
    Column("pairs", lambda row: f"{row[2].n:,}", brief=True),
    Column("calls left out", lambda row: f"{row[2].excluded:,}"),
    Column("why not", lambda row: getattr(row[2], "reason", ""), words=True),
)
CELLS: Table[Any] = Table.of(
    field_column("judge", str, as_code=True),
    field_column("author", str, as_code=True, words=True),
    field_column("stake", str, words=True),
    field_column("share", number_text, head="wins"),
    field_column("others", number_text, head="wins with others"),
    field_column("n", "{:,}".format, head="pairs"),
)


@dataclass(frozen=True, kw_only=True, repr=False)
class SelfPreference(cards.ShownResult):
    """How much judges prefer their own answers, and where it is logged."""

    judgments: pd.DataFrame
    """A row for each answer of a judge, and for each label; `version` is `as written` or `rewritten`."""
    judges: Mapping[str, str]
    """Name to the author that it is."""
    families: Mapping[str, str]
    """Judge or author to family, where one is known."""
    readings: Mapping[str, Reading]
    """Of all judges together."""
    by_judge: Mapping[str, Mapping[str, Reading]]
    """Judge to its own readings."""
    cells: pd.DataFrame
    """How often an author's answers win with a judge (`share` of `n` pairs), with the `others` on the same pairs (None:
    nobody else judged them), and the `stake` of the judge: `own`, `family` or none."""
    notes: Sequence[str] = ()
    rewriter: str | None = None
    rewritten: Mapping[str, str] = field(default_factory=dict)
    """Answer to what the rewriter made of it."""
    paid: Paid = field(default_factory=Paid)
    simulated: bool = False

    @property
    def estimates(self) -> dict[str, Reading]:
        """Key to the excess of all judges together, or why there is none."""
        return {f"{PREFIX}{name}": reading for name, reading in self.readings.items()}

    @property
    def labels(self) -> list[str]:
        """Columns of people's or gold labels."""
        return list(self.judgments.loc[self.judgments["kind"] == LABEL, "rater"].unique())

    @property
    def counts(self) -> dict[str, int]:
        """Of what was judged."""
        return {"items": self.judgments["item"].nunique(), "pairs": self.judgments["pair"].nunique()}

    @property
    def points(self) -> list[keys.Point]:
        """What is logged: `self_preference/excess/value`, `self_preference/by_judge/NAME/excess/value`, counts."""
        of_judges = keys.keyed_groups(f"{PREFIX}by_judge", self.by_judge)
        counts = {f"{PREFIX}{name}": count for name, count in self.counts.items()}
        return keys.all_points({**self.estimates, **of_judges}) + keys.known_points(counts)

    @property
    def metrics(self) -> dict[str, float]:
        """Exactly what is logged."""
        return keys.last_values(self.points)

    @property
    def settings(self) -> dict[str, str]:
        """Who judged, by what labels, which families are known, and who rewrote the answers."""
        families = [f"{name}: {family}" for name, family in self.families.items()]
        every = {"judges": self.judges, "labels": self.labels, "families": families, "rewriter": [self.rewriter or ""]}
        return {name: text for name, texts in every.items() if (text := ", ".join(texts))}

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the judges prefer their own answers, by whose word the quality goes, and what to do."""
        found = [self._finding(name) for name in self.readings]
        # Answers of the family where no own one was judged.
        finding = next((each for each in found[:2] if isinstance(each.reading, Estimate)), found[0])
        sentences = [finding.text]
        if isinstance(finding.reading, Estimate):
            by = [*(["all judges"] if len(self.judges) > 1 else []), *(f"the labels {name}" for name in self.labels)]
            sentences.append(_SAYS["quality"].format(by=" and ".join(by)))
            alone = [getattr(reading, "reason", "") for own in self.by_judge.values() for reading in own.values()]
            sentences += [_SAYS["mean"]] if {*alone} == {_SAYS["why"]["no outsider"]} else []
        sentences += [f"What to do: {finding.advice}"] if finding.advice else []
        return Verdict(sentences=tuple(sentences[:4]), findings=tuple(found))

    def _finding(self, name: str) -> Finding:
        reading, staked = self.readings[name], [judge for judge, own in self.by_judge.items() if name in own]
        judges = short_name(staked[0]) if len(staked) == 1 else "these judges"
        finding = partial(Finding, axis=f"{PREFIX}{name}", reading=reading)
        says = {"judges": judges, "preference": axis_name(f"{PREFIX}{name}"), "limit": LIMIT}
        if isinstance(reading, NotEstimable):
            return finding(state="cannot tell", text=_SAYS["missing"].format(**says, reason=reading.reason))
        low, high = deciding_interval(reading) or _WIDEST
        state: State = "problem" if low > LIMIT else "ok" if high <= LIMIT else "cannot tell"
        form = "open" if 0 < low <= LIMIT else "against" if high < 0 else state
        shares = _SAYS["shares"].format(*(50 + 100 * excess for excess in (reading.value, low, high)))
        advice = _SAYS.get(f"advice {state}", "")
        return finding(state=state, text=_SAYS[form].format(**says, shares=shares), advice=advice)

    @property
    def shown_readings(self) -> FilledTable[tuple[str, str, Reading]]:
        """Every reading, first those of all judges together."""
        owners = [("all judges", self.readings), *self.by_judge.items()]
        return READINGS((owner, name, reading) for owner, own in owners for name, reading in own.items())

    def _page(self, drawings: Sequence[Drawing] = ()) -> Page:
        told = [finding.text for finding in self.verdict.findings if isinstance(finding.reading, Estimate)]
        lead = self.verdict.sentences[0]
        return Page.saying(
            self.verdict,
            *(text for text in told if text != lead),
            title=f"Self-preference of {', '.join(self.judges)}",
            notes=self.notes,
            marks=["simulated"] * self.simulated,
            facts={**self.counts, **self.settings, "cost": money_text(self.paid.usd)},
            sections=[
                Section(heading="Readings", blocks=[self.shown_readings, _SAYS["how"]]),
                Section(heading="Figures", blocks=[drawings], media=("html",)),
                Section(heading="Who wins with whom", blocks=[CELLS(self.cells.itertuples()), _SAYS["how cells"]]),
                closing_section(lead),
            ],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each reading, of all judges and of each."""
        return self.shown_readings.to_frame()

    @property
    def figures(self) -> Figures:
        """Judges × authors: how much more often the author wins with the judge than with the others."""
        if self.cells.empty:
            return {}
        judges, authors = (sorted(self.cells[name].unique()) for name in ("judge", "author"))
        figure, axes = cell_table(judges, authors, title=_SAYS["figure"], foot=_SAYS["figure foot"])
        for cell in CELLS(self.cells.itertuples()).rows:
            gap = None if cell.others is None else cell.share - cell.others
            # The ends of the scale are left out: they would hide the digits.
            place = 0.5 + 0.35 * float(np.clip(2 * (gap or 0.0), -1, 1))
            value, wins, others = number_text(gap, signed=True), number_text(cell.share), number_text(cell.others)
            texts: dict[str, Any] = {"value": f"{_SAYS['marks'][cell.stake]}{value}", "below": f"{wins}, n {cell.n:,}"}
            texts["words"] = _SAYS["cell"].format(cell=cell, wins=wins, others=others)
            write_cell(axes, authors.index(cell.author), judges.index(cell.judge), scale="RdBu_r", place=place, **texts)
        return {"judges_and_authors.png": figure}

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready data."""
        names = ("run_id", "link", "simulated", "rewriter", "judges", "families", "labels", "readings", "by_judge")
        own = plain_fields(self, "verdict", *names, "notes", "metrics")
        return {**own, **self.counts, "cells": self.cells.to_dict("records")}
