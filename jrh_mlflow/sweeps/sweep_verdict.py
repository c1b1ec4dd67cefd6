"""Which configuration of a sweep to use, what so few tasks cannot tell, and that before anything is asked.

Only configurations that keep the user's constraints on the held-out half are named. Ability decides first, then
reliability, then the price; a cheaper one is recommended where little can be lost by it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from jrh_mlflow.comparing.comparison import MARGIN
from jrh_mlflow.comparing.recommendation import says, tasks_for
from jrh_mlflow.measures.composite import CompositeDifference, Tally, composite_difference, reliability
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.numbers import money_text, reading_text
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.stats.paired import holm
from jrh_mlflow.stats.power import detectable_difference, sign_flip_critical
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.sweeps.front import Member
from jrh_mlflow.text import shortened_name

FEW_TASKS = 20
"""Under it a sweep says before it starts what it will not tell."""
_ALPHA = 0.05
_RATE, _ICC = 0.5, 0.3
"""Of decisions within a task, as plans assume them where nothing is known."""


def few_tasks(suite: Suite) -> list[str]:
    """Say what a sweep over a small suite will not be able to tell; nothing from 20 tasks on.

    The smallest difference of reliability that the held-out half finds with a chance of 80 %, of one comparison: two
    judges whose decisions vary over tasks as plans assume it.
    """
    sizes = Counter(item.task for item in suite.items)
    n_tasks = len(sizes)
    if n_tasks >= FEW_TASKS or n_tasks < 2:
        return []
    held_out, units = n_tasks // 2, len(suite.items) / n_tasks
    variance = 2 * _RATE * (1 - _RATE) * (_ICC + (1 - _ICC) / units)
    error, critical = math.sqrt(variance / held_out), sign_flip_critical(held_out)
    size = detectable_difference(error, held_out, critical=critical, n_units=round(units * held_out))
    few = f"{n_tasks} tasks are few: a sweep holds out {held_out} of them, and on these"
    if size is None:
        return [f"{few} no difference in reliability can be shown, however large. Ask {FEW_TASKS} tasks or more."]
    found = f"only a difference in reliability of {math.ceil(100 * size) / 100:.2f} or more is found in 4 of 5 cases"
    return [f"{few} {found}. Smaller ones will not be found."]


def sweep_verdict(members: Sequence[Member], *, constraints: Sequence[str], n_tasks: int) -> Verdict:
    """Say which configuration to use and why, or what cannot be told.

    Args:
        members: Configurations that were measured in full.
        constraints: The user's, as written.
        n_tasks: Of the suite, both halves together.
    """
    held_out = [member for member in members if member.holdout is not None]
    if members and not any(member.search.feasible for member in members):
        return Verdict(sentences=(_none(constraints, "searched"),))
    if not held_out:
        return Verdict(sentences=("No answer yet: nothing was measured on the held-out tasks.",))
    kept = [member for member in held_out if member.search.feasible and member.fair.feasible]
    if not kept:
        return Verdict(sentences=_none_keeps(held_out, constraints))
    broken = _broken(len(held_out) - len(kept))
    able, less_able = _able(kept)
    # Picked where it was searched, so that the held-out half reads it without having had a say.
    best = max(able, key=lambda member: member.search.tally.value)
    gaps = _told(best, [member for member in able if member is not best], lambda member: member.fair.tally)
    tied = [best, *(member for member, gap, is_told in gaps if not is_told or gap.value < 0)]
    cheap = min(tied, key=_price)
    if not gaps and n_tasks >= FEW_TASKS:
        other = f"no other{' that kept the limits' if constraints else ''}"
        alone = f"{other} was as reliable or as cheap on the searched tasks"
        why = "it is the only one left" if len(held_out) > 1 else alone
        lines = [f"Use {_named(best)}: {why}."]
    else:
        lines = _choice(best, cheap, gaps, n_tasks=n_tasks, n_tied=len(tied))
    return Verdict(sentences=tuple([*lines, *less_able, *broken][:4]))


Told = list[tuple[Member, CompositeDifference, bool]]
"""Another configuration, the difference to it, and whether the two are told apart."""


def _told(first: Member, others: Sequence[Member], of: Callable[[Member], Tally]) -> Told:
    """Compare one configuration with others on the held-out half, adjusted by Holm."""
    # Of other items nothing can be paired.
    alike = [other for other in others if _shape(of(other)) == _shape(of(first))]
    gaps = [composite_difference(of(first), of(other), seed=first.seed) for other in alike]
    told = [p <= _ALPHA for p in holm([gap.p for gap in gaps])]
    return list(zip(alike, gaps, told, strict=True))


def _shape(tally: Tally) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tally.tasks, tally.cells


def _able(kept: Sequence[Member]) -> tuple[list[Member], list[str]]:
    """Leave out who is told to pick the better answer less often than the ablest; say so of the most reliable."""
    searched = {member.configuration.key: member.search.ability for member in kept}
    read = {member.configuration.key: member.fair.ability for member in kept}

    def ability(member: Member, of: Mapping[str, Tally | None] = read) -> Tally:
        tally = of[member.configuration.key]
        assert tally is not None
        return tally

    known = [member for member in kept if searched[member.configuration.key] and read[member.configuration.key]]
    if len(known) < 2:
        return list(kept), []
    top = max(known, key=lambda member: ability(member, searched).value)
    told = _told(top, [member for member in known if member is not top], ability)
    worse = [member for member, gap, is_told in told if is_told and gap.value > 0]
    if not worse:
        return list(kept), []
    first = max(worse, key=lambda member: member.search.tally.value)
    numbers = [reading_text(reliability(ability(member), seed=first.seed)) for member in (first, top)]
    does = f"{says('ability', numbers[0])} (a tie counts half), against {numbers[1]} for {_label(top)}"
    return [member for member in kept if member not in worse], [f"Not {_label(first)}: it {does}."]


def _choice(best: Member, cheap: Member, gaps: Told, *, n_tasks: int, n_tied: int) -> list[str]:
    """Recommend the best or a cheaper one that loses little; with few tasks only what is told to be better."""
    if gaps and n_tied == 1:
        other = max((member for member, _, _ in gaps), key=lambda member: member.search.tally.value)
        because = f"its reliability is {_reads(best)}, against {_reads(other)} for {_label(other)}"
        return [
            f"Use {_label(best)}, because {because}.",
            f"It costs {_dollars(best)}, against {_dollars(other)} for {_label(other)}.",
        ]
    # Where the best is the cheapest, the least sure of the others stands for all.
    nearest = next((gap for member, gap, _ in gaps if member is cheap), None)
    nearest = nearest or max((gap for _, gap, _ in gaps), key=_width, default=None)
    tell = _what_would_tell(nearest, n_held_out=len(best.fair.tally.tasks), n_tests=len(gaps))
    if n_tasks < FEW_TASKS:
        rivals = _named(best) if cheap is best else f"{_named(best)} and {_named(cheap)}"
        several = f"one of {n_tied} that are not shown to differ, such as" if n_tied > 1 else "a configuration:"
        return [f"{n_tasks} tasks are too few to recommend {several} {rivals}{tell}."]
    assert nearest is not None
    return [_cheaper(best, cheap, nearest, n_tied=n_tied, tell=tell)]


def _cheaper(best: Member, cheap: Member, gap: CompositeDifference, *, n_tied: int, tell: str) -> str:
    if cheap is best:
        return f"Use {_named(best)}: nothing shows that a dearer one is more reliable{tell}."
    if gap.high is not None and gap.high <= MARGIN:
        return f"Use {_named(cheap)}, because {_named(best)} is more reliable by at most {max(0.0, gap.high):.2f}."
    loss = "" if gap.high is None else f", which may be less reliable by up to {gap.high:.2f}"
    others = "another" if n_tied == 2 else f"{n_tied - 1} others"
    return f"No difference is shown between {_named(best)} and {others}: the cheapest is {_named(cheap)}{loss}{tell}."


def _what_would_tell(gap: CompositeDifference | None, *, n_held_out: int, n_tests: int) -> str:
    needed = gap and tasks_for(MARGIN, gap.low, gap.high, n_held_out, n_tests=n_tests)
    # Half of the tasks of a sweep are searched, and tell nothing here.
    return f", and about {2 * needed:,} tasks would show a difference of {MARGIN:.2f}" if needed else ""


def _none_keeps(held_out: Sequence[Member], constraints: Sequence[str]) -> tuple[str, ...]:
    best = max(held_out, key=lambda member: member.search.tally.value)
    values = ", ".join(f"{name} {value:.2f}" for name, value in best.fair.values.items())
    return (
        _none(constraints, "held-out"),
        f"{_label(best)}, the most reliable where it was searched, reads there: {values}.",
    )


def _broken(count: int) -> list[str]:
    if not count:
        return []
    keep, break_ = ("One configuration keeps", "breaks") if count == 1 else (f"{count} configurations keep", "break")
    return [f"{keep} the limits on the searched tasks and {break_} one on the held-out tasks."]


def _none(constraints: Sequence[str], half: str) -> str:
    kept = f"no configuration that was measured on the {half} tasks keeps {' and '.join(constraints)} there"
    return f"Use none of them: {kept}."


def _width(gap: CompositeDifference) -> float:
    return 0.0 if gap.low is None or gap.high is None else gap.high - gap.low


def _price(member: Member) -> float:
    return math.inf if member.usd_per_1k is None else member.usd_per_1k


def _named(member: Member) -> str:
    return f"{_label(member)} (reliability {_reads(member)}, {_dollars(member)})"


def _label(member: Member) -> str:
    return shortened_name(plain_name(member.label), most=60)


def _reads(member: Member) -> str:
    return reading_text(member.reliability)


def _dollars(member: Member) -> str:
    return "price unknown" if member.usd_per_1k is None else f"{money_text(member.usd_per_1k)} per 1,000 judgments"
