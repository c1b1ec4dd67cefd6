"""`jrh.self_preference`: whether judges let answers of their own win, as an MLflow run of its own.

answers = jrh.respond("prompts.csv", ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"], max_usd=5)
judges = ["openai/gpt-4o", "anthropic/claude-sonnet-4-5", "mistral/mistral-large-latest"]
print(jrh.self_preference(answers, judges, max_usd=5).verdict)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from jrh_mlflow.comparing.answer_pairs import PAIR_COLUMNS, answer_pairs, named_table, recorded_judgments
from jrh_mlflow.comparing.self_preference_report import AUTHORS, COLUMNS, JUDGE, LABEL, measure_self_preference
from jrh_mlflow.comparing.self_preference_view import SELF_PREFERENCE_JSON, SelfPreference
from jrh_mlflow.engine.budget import Paid
from jrh_mlflow.engine.calls import Quote
from jrh_mlflow.errors import BudgetError, RecipeError
from jrh_mlflow.judges import shown_name
from jrh_mlflow.judges.responder import Responder
from jrh_mlflow.measures.records import choice
from jrh_mlflow.measuring.asked_items import ask_prepared, prompt_suite, shared_budget
from jrh_mlflow.measuring.resolve import Prepared, judge_named, prepare
from jrh_mlflow.models import trust
from jrh_mlflow.options import AskedRunOptions, option, takes
from jrh_mlflow.perturb import fill_prompt, prompt
from jrh_mlflow.schema.estimates import plain_data
from jrh_mlflow.schema.items import NATURAL_TIE, CallRecord, Item
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import Store, log_paid, open_run, publish, shown_content

_SCORES = {"u": 1.0, "v": 0.0, "tie": 0.5, "abstain": 0.5}
"""What a choice is worth to the first answer."""
_KEPT = "Nothing paid is lost: run the same again, and nothing that was answered is asked twice."
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
    work = _Judging(frame, judges, SelfPreferenceOptions.of_keywords(options, of="self_preference"))
    asking = work.options
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
        drawings = draw(done.figures)
        content = shown_content(
            done,
            SELF_PREFERENCE_JSON,
            tables=done.tables,
            drawings=drawings,
            more={keys.READINGS_JSON: plain_data(done.estimates)},
            points=[*done.points, *keys.money_points(done.paid)],
            params={"self_preference": {**done.settings, "max_usd": asking.max_usd}},
        )
        publish(store, run_id, content, what_now=_KEPT)
    return done


def price_self_preference(frame: object, judges: GivenJudges, **options: Any) -> dict[str, Quote]:
    """Say what each judge would be sent and cost for the answers as they are written, without sending anything."""
    asking = SelfPreferenceOptions.of_keywords(options, of="price_self_preference")
    return {name: prepared.quote() for name, prepared in _Judging(frame, judges, asking, dry=True).judges.items()}


class _Judging:
    """Who judges which pairs, checked before anything is sent; `paid`, `notes` and `rewritten` grow with the asking."""

    def __init__(self, frame: object, judges: GivenJudges, options: SelfPreferenceOptions, dry: bool = False) -> None:
        trust.allow_key_to(options.allow_key_to)
        self.options, self.preparing = options, {**options.preparing, "dry": dry}
        self.paid, self.notes, self.rewritten = Paid(), list[str](), dict[str, str]()
        self.judges, self.authors, self.everybody = dict[str, Prepared](), dict[str, str](), list[Prepared]()
        table = named_table(frame, options.columns or {})
        if judges is not None:
            self.rows = answer_pairs(table, options.labels)
            self._prepare_judges(judges)
        elif options.rewriter is None:
            self.rows = recorded_judgments(table)
            self.authors = {name: name for name in self.rows.loc[self.rows["kind"] == JUDGE, "rater"]}
        else:
            way_out = "give `judges`, or no rewriter"
            raise RecipeError(f"Recorded judgments cannot be asked about rewritten answers: {way_out}.")
        if options.rewriter is not None:
            self._prepare_rewriter(options.rewriter)

    def _prepare_judges(self, judges: Sequence[object] | Mapping[str, object]) -> None:
        given = list(judges.items()) if isinstance(judges, Mapping) else [(None, judge) for judge in judges]
        if isinstance(judges, str) or not given:
            rule = "`judges` is a list of judges, or maps the author that each is to it"
            raise RecipeError(f"{rule}, but got {judges!r}.")
        suite = _suite(self.rows)
        for author, own in given:
            prepared = prepare(judge_named(own, tracking_uri=self.options.tracking_uri), suite, **self.preparing)
            judge = prepared.judge
            name = shown_name(author or judge.name, simulated=judge.simulated, recorded=bool(judge.recorded))
            if name in self.judges:
                way_out = "give them names, as a mapping from author to judge"
                raise RecipeError(f"Two judges are called {name!r}: {way_out}.")
            self.judges[name] = prepared
            self.authors[name] = author or (judge.model_judge.model if judge.model_judge else judge.name)
        self.everybody += self.judges.values()

    def _prepare_rewriter(self, rewriter: str) -> None:
        texts, template = dict.fromkeys(self.rows[["first", "second"]].to_numpy().ravel()), prompt("neutral_words")
        self.texts = {f"text-{number:05d}": text for number, text in enumerate(texts)}
        asked = {name: fill_prompt(template.rstrip(), {"text": text}) for name, text in self.texts.items()}
        suite = prompt_suite("answers to rewrite", asked)
        self.everybody.append(prepare(Responder(rewriter, name=rewriter), suite, **self.preparing))

    @property
    def simulated(self) -> bool:
        return any(prepared.judge.simulated for prepared in self.everybody)

    def result(self) -> SelfPreference:
        """Ask every judge about every pair, then about the rewritten ones, and read what they said."""
        said = {"as written": self._judged(self.rows) if self.judges else self.rows}
        if self.options.rewriter is not None and len(pairs := self._rewritten_pairs()):
            said["rewritten"] = self._judged(pairs)
        families, rewritten = self.options.families or {}, said.get("rewritten")
        report = measure_self_preference(
            said["as written"], judges=self.authors, families=families, rewritten=rewritten, notes=self.notes
        )
        return SelfPreference(
            report=report,
            judgments=pd.concat([own.assign(version=version) for version, own in said.items()], ignore_index=True),
            rewriter=self.options.rewriter,
            rewritten=self.rewritten,
            paid=self.paid,
            simulated=self.simulated,
        )

    def _rewritten_pairs(self) -> pd.DataFrame:
        """Return the pairs with their answers in neutral words; what was refused or cut is left out."""
        records = self._records("rewriting", self.everybody[-1])
        whole = [record for record in records if record.rationale is None and record.answer]
        self.rewritten = {self.texts[record.suite_item]: record.answer for record in whole}
        texts = {side: self.rows[side].map(self.rewritten) for side in ("first", "second")}
        pairs: pd.DataFrame = self.rows.assign(**texts).dropna(subset=list(texts))
        if lost := len(self.rows) - len(pairs):
            these = f"{lost:,} of {len(self.rows):,} pairs"
            self.notes.append(f"{these} have an answer that was not rewritten: left out there.")
        return pairs

    def _judged(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return what every judge says about every pair in both orders, and what the labels say."""
        suite = _suite(pairs)
        said = [
            (record.suite_item, name, JUDGE, record.order, record.outcome, _score(record))
            for name, prepared in self.judges.items()
            for record in self._records(name, replace(prepared, suite=suite))
        ]
        said += [
            (pair, label, LABEL, "", "verdict", score)
            for label in pairs.columns.drop(list(PAIR_COLUMNS))
            for pair, score in pairs[label].dropna().items()
        ]
        frame = pd.DataFrame(said, columns=["pair", "rater", "kind", "order", "outcome", "score"])
        judged: pd.DataFrame = frame.join(pairs[["item", *AUTHORS]], on="pair")[list(COLUMNS)]
        return judged

    def _records(self, name: str, prepared: Prepared) -> Collection[CallRecord]:
        prepared.judge.begin(prepared.suite)
        asked = ask_prepared(prepared, self.options, what=name, budget=shared_budget("self_preference", self.everybody))
        self.paid += asked.paid or Paid()
        if asked.failure is not None:
            raise asked.failure
        if asked.out_of_budget is not None:
            raise BudgetError(f"{asked.out_of_budget} Raise it: what was answered is not paid again.")
        return asked.records


def _score(record: CallRecord) -> float | None:
    """Return the score of the first answer; a tie and an abstention are half a win for each."""
    return _SCORES.get(choice(order=record.order, outcome=record.outcome, answer=record.answer))


def _suite(pairs: pd.DataFrame) -> Suite:
    # The one condition of real pairs of which no side is known to be better; nothing is measured by it here.
    items = [
        Item(id=pair, task=item, condition=NATURAL_TIE, instruction=instruction, u=first, v=second)
        for pair, item, instruction, first, second in pairs[list(PAIR_COLUMNS[:4])].itertuples()
    ]
    return Suite(name="pairs of answers", items=items, origin={"builder": "self_preference"})
