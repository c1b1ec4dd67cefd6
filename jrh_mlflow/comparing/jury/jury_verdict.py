"""Whether to use a jury, or its best member alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from jrh_mlflow.comparing.comparison import compare_calls
from jrh_mlflow.comparing.jury.jury_report import JuryReport
from jrh_mlflow.comparing.recommendation import Weighing, short_name
from jrh_mlflow.errors import NoCommonCallsError
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.numbers import money_text, reading_text

JURY = "the jury"


def jury_verdict(
    report: JuryReport, calls: Mapping[str, pd.DataFrame], *, labels: Sequence[str] | None = None, seed: int = 0
) -> Verdict:
    """Compare a jury with its members, on what decides between judges, and say which to use.

    Args:
        report: The jury.
        calls: Judge to call records.
        labels: What a pointwise judge may answer.
        seed: Of all resampling.
    """
    judges = {JURY: report.answers, **calls}
    try:
        # With the jury as the baseline there are fewer comparisons, so that less is lost by adjusting for them.
        weighing = Weighing(compare_calls(judges, labels=labels, seed=seed, baseline=JURY))
        among = Weighing(compare_calls(calls, labels=labels, seed=seed))
    except NoCommonCallsError:
        return Verdict(sentences=("Nothing can be recommended: no call was asked of all judges.",))
    members = [name for name in weighing.ranked if name != JURY]
    if JURY not in weighing.ranked or not members:
        return Verdict(sentences=(weighing.sentences()[0],))
    # The one that would be used without the jury: an able one without the faults of others.
    able = among.able(members) or members
    best = (among.undominated(able) or able)[0]
    if not weighing.beats_a_coin(JURY) and not weighing.beats_a_coin(best):
        return Verdict(sentences=tuple(weighing.no_better_than_a_coin(weighing.jobs[0], weighing.ranked[0])))
    return Verdict(sentences=(*_choice(report, weighing, best), *_undecided(report, best))[:4])


def _choice(report: JuryReport, weighing: Weighing, best: str) -> list[str]:
    job, name = weighing.jobs[0], short_name(best)
    jury, member = (reading_text(weighing.reading(job, judge)) for judge in (JURY, best))
    price = _price(report, best)
    detail = f"The jury {weighing.against(job, JURY, best)}."
    if weighing.beats(best, JURY, weighing.jobs):
        return [f"The jury ({jury}) is worse than its member {name} ({member}): use {name} alone.", detail]
    for axes in (weighing.jobs, weighing.others):
        won = weighing.beats(JURY, best, axes)
        if won and not weighing.beats(best, JURY, weighing.others):
            return [f"Use the jury, because it {weighing.against(won[0], JURY, best)}, its best member{price}."]
    lower = weighing.ranked.index(best) < weighing.ranked.index(JURY)
    reads = f"The jury ({jury}) reads {'lower than' if lower else 'no worse than'} its member {name} ({member})"
    more = weighing.what_would_tell([JURY, best])
    return [f"{reads}, and is not shown to be better: use {name} alone{price}{more}.", detail]


def _price(report: JuryReport, best: str) -> str:
    jury, member = report.usd_per_1k, report.seats[best].usd_per_1k
    if jury is None or member is None:
        return ""
    return f" ({money_text(jury)} per 1,000 for the jury, {money_text(member)} for {short_name(best)})"


def _undecided(report: JuryReport, best: str) -> list[str]:
    """Say what the jury reads where no decision counts as wrong, if that is less than the member does."""
    jury, member = report.readings["accuracy"], report.seats[best].readings["accuracy"]
    if not isinstance(jury, Estimate) or not isinstance(member, Estimate) or jury.value >= member.value:
        return []
    numbers = f"{reading_text(jury)} of its answers, {short_name(best)} in {reading_text(member)}"
    return [f"Counting no decision as wrong, the jury is right in {numbers}."]
