"""Several calls that answer together, in exported scorers: juries, cascades, and one judge asked several times.

Each answers for a specification of its kind (`exported_scorers.ASKING`). Beside the fields of every specification:

    kind "jury"      panel     `LivePanel.to_dict()`
    kind "cascade"   cascade   `LiveCascade.to_dict()`
    kind "policy"    policy    {"replicates", "vote"}: how often a judge is asked, and how that is read
    members          list of specifications of kind "judge", one of each judge, under the names of panel or cascade

Whatever the kind, a pair is put in one order or in both as one judge's would be: the judges vote on each order, and the
two votes are read as the two answers of a judge. A judge whose call failed, or whose answer could not be read, has no
vote; too few votes are no answer.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jrh_mlflow.comparing.jury.jury_report import LiveCascade
from jrh_mlflow.comparing.jury.panels import PAIR, CastVote, JointAnswer, LivePanel
from jrh_mlflow.engine.calls import identity, presentation_of
from jrh_mlflow.engine.sessions import LONGEST_S, LiveJudge
from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.measures.composite import cast_vote, decision_of
from jrh_mlflow.schema.criteria import Criterion
from jrh_mlflow.schema.items import USABLE, Call, CallRecord, Item
from jrh_mlflow.scoring.pointwise import Scale
from jrh_mlflow.tracking.judges.identity import differences, judge_from
from jrh_mlflow.tracking.runs import keys

Differs = dict[str, str]
"""One of `differs` of a specification."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What one judge said to one presentation."""

    judge: str
    run_id: str | None
    """Of its datasheet."""
    records: tuple[CallRecord, ...]
    """One for each time that it was asked."""

    @property
    def votes(self) -> list[CastVote]:
        """Its answers as votes; what is none has no answer."""
        return [_vote(record) for record in self.records]


@dataclass(frozen=True, kw_only=True, slots=True)
class JointRecord(CallRecord):
    """Several calls as one: the answer they came to, and what they cost together."""

    said: tuple[Said, ...] = ()
    how: str = ""
    """How the answer came about: `JointAnswer.how`."""


class LiveMember:
    """A judge made again of its definition."""

    def __init__(self, spec: Mapping[str, Any], *, longest_s: float = LONGEST_S) -> None:
        self._judge = judge = judge_from(spec["judge"])
        self._defined, datasheet = spec["judge"], spec["datasheet"] or {}
        self.live, self.tie_criterion = LiveJudge(judge, longest_s=longest_s), judge.tie_criterion
        self.name, self.model = str(spec["name"]), str(judge.settings()["model"])
        self.run_id, self._answered_by = datasheet.get("run_id"), datasheet.get("answered_by")
        self.fingerprint = spec["fingerprint"]

    def asking(self, calls: Sequence[Call], *, replicates: int = 1) -> Callable[[], list[Said]]:
        """Begin to ask each call so many times, under the judge's own tie criterion.

        Returns:
            What waits for the answers, and never fails: a judge that is one of several may.
        """
        own = [
            replace(call, replicate=number, presentation=presentation_of(call.item, call.order, self.tie_criterion))
            for call in calls
            for number in range(replicates)
        ]
        wait = self.live.asking(own)

        def said() -> list[Said]:
            try:
                records = wait()
            except JudgeError as error:
                records = [CallRecord(**identity(call), outcome="error", answer="", error=str(error)) for call in own]
            parts = [records[start : start + replicates] for start in range(0, len(records), replicates)]
            return [Said(judge=self.name, run_id=self.run_id, records=tuple(part)) for part in parts]

        return said

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Answer the calls, where the judge is asked by itself."""
        return self.live.ask(calls)

    def metadata(self, records: Sequence[CallRecord]) -> dict[str, Any]:
        """Nothing more than of every judge."""
        return {}

    def differences(self, records: Iterable[CallRecord]) -> list[Differs]:
        """What differs here and now, and by who answered, from the judge that was exported."""
        others = set(_answerers(records)).difference(self._answered_by or ())
        measured, differs = ", ".join(self._answered_by or ()), self._differs_here()
        if not measured or not others:
            return differs
        answering = {"what": "answering model", "measured": measured, "running": ", ".join(sorted(others))}
        return [*differs, answering]

    def _differs_here(self) -> list[Differs]:
        """Compare with the judge that its definition makes now.

        Another version of MLflow may make another judge of the same data, and a judge of MLflow's without an address is
        asked where the environment says at that moment: so row by row.
        """
        now = self._judge.definition()
        return [] if now is None else [asdict(one) for one in differences(self._defined, now)]


class JointJudges(ABC):
    """What the three kinds share."""

    longest_s = LONGEST_S

    def __init__(self, spec: Mapping[str, Any]) -> None:
        members = [LiveMember(one, longest_s=self.longest_s) for one in spec["members"]]
        self.members = {member.name: member for member in members}

    @property
    def tie_criterion(self) -> Criterion:
        """The first that offers a tie, or else the first: each judge is asked under its own."""
        criteria = [member.tie_criterion for member in self.members.values()]
        return next((one for one in criteria if one.offers_tie), criteria[0])

    @property
    def model(self) -> str:
        """All models that may be asked."""
        return ", ".join(dict.fromkeys(member.model for member in self.members.values()))

    @abstractmethod
    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Answer the calls, one record for each."""

    def differences(self, records: Sequence[CallRecord]) -> list[Differs]:
        """What differs, judge by judge."""
        asked = {name: [one for said in _all(records, name) for one in said.records] for name in self.members}
        return [
            {**one, "measured": f"{name}: {one['measured']}"}
            for name, member in self.members.items()
            for one in member.differences(asked[name])
        ]

    def metadata(self, records: Sequence[CallRecord]) -> dict[str, Any]:
        """What feedback says of the judges: datasheet and answer of each, and how they came to one."""
        told = []
        for name, member in self.members.items():
            own = [one for said in _all(records, name) for one in said.records]
            known = {"judge": name, "datasheet_run_id": member.run_id, "fingerprint": member.fingerprint}
            told.append({**known, "answers": [_told(one) for one in own], "answered_by": _answerers(own)})
        how = dict.fromkeys(one.how for one in records if isinstance(one, JointRecord) and one.how)
        return {
            keys.FEEDBACK_MEMBERS: json.dumps(told, ensure_ascii=False),
            keys.FEEDBACK_DECIDED_BY: ", ".join(how) or None,
        }

    def _at_once(self, names: Iterable[str], calls: Sequence[Call], *, replicates: int = 1) -> list[tuple[Said, ...]]:
        """Ask some of the judges all calls, at the same time; return what was said to each call."""
        waiting = [self.members[name].asking(calls, replicates=replicates) for name in names]
        return list(zip(*(wait() for wait in waiting), strict=True))


class LiveJury(JointJudges):
    """Judges that all vote."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self.panel = LivePanel.from_dict(spec["panel"])

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Ask every judge and count their votes."""
        return [
            _joint(call, said, self._decided(call, said))
            for call, said in zip(calls, self._at_once(self.panel.judges, calls), strict=True)
        ]

    def _decided(self, call: Call, said: Sequence[Said]) -> JointAnswer:
        try:
            return self.panel.decide({one.judge: one.votes[0] for one in said}, _scale(call.item))
        except RecipeError as error:
            # The jury was measured on rows of another kind, which its tie rule suits.
            return JointAnswer(answer=None, how="", why=str(error))


class LiveSteps(JointJudges):
    """A cascade: the strong judge is asked what the cheap ones are unsure of."""

    longest_s = LONGEST_S / 2

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self.cascade = LiveCascade.from_dict(spec["cascade"])

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Ask the cheap judges, and the strong one where it is needed."""
        steps = self.cascade
        first = self._at_once(steps.cheap, calls, replicates=steps.replicates)
        found = [steps.first({one.judge: one.votes for one in said}) for said in first]
        unsure = [place for place, answer in enumerate(found) if answer is None]
        last = self._at_once([steps.strong], [calls[place] for place in unsure]) if unsure else []
        strong = dict(zip(unsure, last, strict=True))
        return [
            _joint(call, (*first[place], *strong.get(place, ())), answer or steps.last(strong[place][0].votes[0]))
            for place, (call, answer) in enumerate(zip(calls, found, strict=True))
        ]


class LivePolicy(JointJudges):
    """One judge that is asked several times, as a configuration of a sweep is."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        super().__init__(spec)
        self.replicates, self.vote = int(spec["policy"]["replicates"]), str(spec["policy"]["vote"])

    def ask(self, calls: Sequence[Call]) -> list[CallRecord]:
        """Ask every call so many times and count."""
        asked = self._at_once(self.members, calls, replicates=self.replicates)
        return [_joint(call, said, self._decided(call, said[0])) for call, said in zip(calls, asked, strict=True)]

    def _decided(self, call: Call, said: Said) -> JointAnswer:
        # As a single response has no order, here neither has the pair: the slot is what is voted for.
        votes = [cast_vote(order="", outcome=one.outcome, answer=one.answer) for one in said.records]
        pair = call.item.kind == "pair"
        made = decision_of(votes, item=call.item.id, vote=self.vote, orders="both", pair=pair)
        if not made.value:
            return JointAnswer(answer=None, how="", why=f"none of {len(votes)} calls gave a usable answer")
        agreed = len({one.value for one in votes if one.value}) == 1
        return JointAnswer(answer=made.value, how="unanimous" if agreed else self.vote)


def _joint(call: Call, said: Sequence[Said], answer: JointAnswer) -> JointRecord:
    """Put what several calls came to into one record."""
    records = [record for one in said for record in one.records]
    outcome = answer.answer if answer.answer in ("tie", "abstain") else "verdict"
    if answer.answer is None:
        outcome = next((one.outcome for one in records if one.outcome not in USABLE), "error")
    return JointRecord(
        **identity(call),
        outcome=outcome,
        answer=answer.answer or "" if outcome == "verdict" else "",
        rationale="\n".join(_minutes(said)) or None,
        input_tokens=_total(records, "input_tokens"),
        output_tokens=_total(records, "output_tokens"),
        cost_usd=_total(records, "cost_usd"),
        latency_s=None,
        model=", ".join(_answerers(records)) or None,
        error=None if answer.answer is not None else ". ".join([answer.why, *_reasons(said)]),
        said=tuple(said),
        how=answer.how,
    )


def _answerers(records: Iterable[CallRecord]) -> list[str]:
    """Return the models that answered; of a call that failed nobody knows who would have."""
    return list(dict.fromkeys(one.model for one in records if one.model and one.outcome != "error"))


def _minutes(said: Iterable[Said]) -> list[str]:
    return [
        f"{one.judge}: {_told(record)}. {record.rationale or ''}".rstrip()
        for one in said
        for record in one.records
        if record.outcome in USABLE
    ]


def _reasons(said: Iterable[Said]) -> list[str]:
    return [
        f"{one.judge}: {record.outcome}: {record.error or 'no reason was given'}"
        for one in said
        for record in one.records
        if record.outcome not in USABLE
    ]


def _all(records: Iterable[CallRecord], name: str) -> list[Said]:
    return [said for one in records if isinstance(one, JointRecord) for said in one.said if said.judge == name]


def _total(records: Sequence[CallRecord], column: str) -> Any:
    """Sum over the calls; None when one is unknown."""
    values = [getattr(one, column) for one in records]
    return None if None in values else sum(values)


def _vote(record: CallRecord) -> CastVote:
    answer = {"verdict": record.answer, "tie": "tie", "abstain": "abstain"}.get(record.outcome)
    return CastVote(answer=answer, confidence=record.confidence)


def _told(record: CallRecord) -> str:
    """Write an answer as feedback does: of a pair by content; how a call ended where there is none."""
    if record.outcome != "verdict" or not record.order:
        return record.answer or record.outcome
    return "A" if (record.answer == "1") == (record.order == "uv") else "B"


def _scale(item: Item) -> Scale:
    if item.kind == "pair":
        return PAIR
    answers = item.answers or ()
    return Scale(labels=answers, ordered=item.ordinal is not False or len(answers) == 2, ordinal=item.ordinal)
