"""What a comparison recommends: use this judge, because; or nothing tells them apart, and what would.

Ability decides first: a judge that is told to be less able than another is never recommended. Then what else was
decided between those that are left, such as a preference for one of two empty answers; then the price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

from jrh_mlflow.comparing.comparison import BY_ABILITY, Contrasts, Difference
from jrh_mlflow.measures.axes import ABLE, lower_is_better
from jrh_mlflow.measures.reliability import OVERALL
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.findings import Verdict
from jrh_mlflow.show.glossary import WORDS
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import money_text, reading_text, source_ends
from jrh_mlflow.show.page import Section
from jrh_mlflow.show.plain_text import plain_name
from jrh_mlflow.stats.power import tasks_to_find
from jrh_mlflow.stats.proportions import t_quantile
from jrh_mlflow.suites.more_tasks import more_tasks_text
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.text import shortened_name

COIN = 0.5
"""What a coin reads where one of two is right."""
_SAYS: Mapping[str, str] = WORDS["says"]
"""Axis, of a family without its step, to what a judge does, with a place for the number."""
_JOBS = (
    ("ability", "matched_ability"),
    ("pointwise/separation", "pointwise/matched_separation"),
    ("natural/accuracy",),
    (OVERALL,),
)
"""What says how well a judge does its job, by the kind of suite; of a family the largest step."""
_AGAINST_A_COIN = (*_JOBS[0], *_JOBS[1], "natural/accuracy")
_NEVER = (*BY_ABILITY, "filler_preference")
"""What ranks a coin over an honest tie, or holds the slot against a judge: shown, and no reason for anything."""


def recommendation(contrasts: Contrasts, suite: Suite | None = None) -> Verdict:
    """Say which judge to use and why, or that nothing tells them apart, how many tasks would, and where those are."""
    return Verdict(sentences=tuple(Weighing(contrasts, suite).sentences()[:4]))


@dataclass(frozen=True)
class Weighing:
    """A comparison, looked at for one judge to use."""

    contrasts: Contrasts
    suite: Suite | None = None
    """What was asked; None: not known."""

    @cached_property
    def jobs(self) -> tuple[str, ...]:
        """The axes that say how well the job is done; the first deciding axis where none of them was measured."""
        for names in _JOBS:
            if jobs := tuple(key for name in names if (key := self._largest(name))):
                return jobs
        return self.contrasts.primary[:1]

    def _largest(self, name: str) -> str | None:
        # Axes are in the order of their steps.
        keys = [key for key in self.contrasts.cells if key == name or key.startswith(f"{name}/delta_")]
        return name if name in keys else keys[-1] if keys else None

    @cached_property
    def others(self) -> tuple[str, ...]:
        """What else was decided and may weigh."""
        decided = [axis for axis in self.contrasts.primary if axis not in self.jobs and family(axis) not in _NEVER]
        return (*decided, *self.contrasts.leans)

    @cached_property
    def told(self) -> dict[tuple[str, str], list[str]]:
        """Better and worse judge to the axes on which they are told apart."""
        told: dict[tuple[str, str], list[str]] = {}
        for difference in self.contrasts.differences:
            # Ability may be exploratory where a user names the deciding axes, and is a veto all the same.
            if difference.told_apart or (
                difference.axis in self.jobs and difference.p_adjusted <= self.contrasts.alpha
            ):
                told.setdefault(better_first(difference), []).append(difference.axis)
        for axis, found in self.contrasts.leans.items():
            for pair in permutations(found, 2):
                if tuple(found[name].state for name in pair) == ("ok", "problem"):
                    told.setdefault(pair, []).append(axis)
        return told

    def beats(self, a: str, b: str, axes: Sequence[str]) -> list[str]:
        """Return the axes among these on which a is told to be better than b."""
        return [axis for axis in self.told.get((a, b), []) if axis in axes]

    def sentences(self) -> list[str]:
        """Return the recommendation first."""
        job, known = self.jobs[0], self.ranked
        if len(known) < 2:
            return [f"Nothing can be recommended: {self._why_unknown(job)}."]
        if useless := self._none_is_able(known):
            return useless
        able = self.able(known)
        if not able:
            return self._at_odds(known, self.jobs)
        left = self.undominated(able)
        if not left or any(self.beats(a, b, self.others) for a in left for b in left):
            return self._at_odds(left or able, self.others, equal=able)
        if len(left) == 1:
            return self._use(left[0], known, able)
        return self._nothing_tells(left, known)

    @cached_property
    def ranked(self) -> list[str]:
        """Judges that have a number for the job, the best reading first."""
        job = self.jobs[0]
        sign = -1 if lower_is_better(job) else 1
        known = [name for name in self.contrasts.judges if self._is_known(job, name)]
        return sorted(known, key=lambda name: sign * self.reading(job, name).value, reverse=True)

    def beats_a_coin(self, name: str) -> bool:
        """Whether a judge is shown to do its job better than a coin would; also where no coin can be asked."""
        job = self.jobs[0]
        return family(job) not in _AGAINST_A_COIN or lower_end(self.reading(job, name)) > COIN

    def able(self, names: Sequence[str]) -> list[str]:
        """Leave out who is told to be less able than another of them."""
        return [name for name in names if not any(self.beats(other, name, self.jobs) for other in names)]

    def _none_is_able(self, known: Sequence[str]) -> list[str]:
        """Say that nobody is shown to beat a coin, or that all are shown to count words; nothing otherwise."""
        job, axis = self.jobs[0], self.jobs[-1]
        if not any(self.beats_a_coin(name) for name in known):
            return self.no_better_than_a_coin(job, known[0])
        read = [name for name in known if self._is_known(axis, name)]
        if len(self.jobs) < 2 or not read or any(self._may_read(self.reading(axis, name)) for name in read):
            return []
        does = says(job, reading_text(self.reading(job, known[0])))
        words = f"Where words help, {short_name(known[0])} {does}{_half(job)}: it counts words."
        best = max(read, key=lambda name: self.reading(axis, name).value)
        return [*self.no_better_than_a_coin(axis, best)[:1], words]

    @staticmethod
    def _may_read(reading: Estimate) -> bool:
        high = source_ends(reading)[1]
        return lower_end(reading) > COIN or high is None or high >= ABLE

    def undominated(self, able: Sequence[str]) -> list[str]:
        """Leave out who is told to be worse in something and better in nothing."""

        def is_worse(name: str) -> bool:
            return any(self.beats(o, name, self.others) and not self.beats(name, o, self.others) for o in able)

        return [name for name in able if not is_worse(name)]

    def reading(self, axis: str, name: str) -> Estimate:
        """Return a reading that has a number."""
        leans = self.contrasts.leans
        reading = leans[axis][name].reading if axis in leans else self.contrasts.cells[axis][name]
        assert isinstance(reading, Estimate)
        return reading

    def against(self, axis: str, name: str, other: str) -> str:
        """Say what a judge does, and how often another does it."""
        return against(axis, self.reading(axis, name), self.reading(axis, other), other)

    def _use(self, name: str, known: Sequence[str], able: Sequence[str]) -> list[str]:
        """Name the one to use, with the reason, then what speaks against it."""
        rivals = [other for other in known if other != name]
        peers = [other for other in able if other != name]
        # The reason is what tells it from the nearest of those that it is told from.
        every = (*self.jobs, *self.others)
        other = next((other for other in (*peers, *rivals) if self.beats(name, other, every)), None)
        if other is None:
            return self._nothing_tells([name, *(peers or rivals)], known)
        axis = min(self.beats(name, other, every), key=every.index)
        lines = [f"Use {short_name(name)}, because it {self.against(axis, name, other)}."]
        if other in peers:
            job = self.jobs[0]
            lines.append(f"Neither is shown to be more able: it {self.against(job, name, other)}.")
        return lines + self._drawbacks(name, rivals) + self._dearer(name, rivals)

    def _drawbacks(self, name: str, rivals: Sequence[str]) -> list[str]:
        """Say in what the one to use is worse than another."""
        worse = {axis: other for other in rivals for axis in self.beats(other, name, (*self.jobs, *self.others))}
        lines = [f"But it {self.against(axis, name, other)}." for axis, other in worse.items()]
        matched = next((axis for axis in self.jobs[1:] if self._is_known(axis, name)), None)
        if matched and lower_end(self.reading(matched, name)) <= COIN:
            number = reading_text(self.reading(matched, name))
            lines.append(
                f"But it is not shown to do better than a coin where words do not help: it {says(matched, number)}."
            )
        return lines

    def _dearer(self, name: str, rivals: Sequence[str]) -> list[str]:
        prices = {other: price for other in rivals if (price := self._price(other)) is not None}
        own = self._price(name)
        if own is None or not prices:
            return []
        cheap = min(prices, key=lambda other: prices[other])
        if prices[cheap] >= own:
            return []
        return [f"It costs {_price_text(own)}, {short_name(cheap)} {money_text(prices[cheap])}."]

    def _is_known(self, axis: str, name: str) -> bool:
        return isinstance(self.contrasts.cells[axis][name], Estimate)

    def _at_odds(self, names: Sequence[str], axes: Sequence[str], *, equal: Sequence[str] = ()) -> list[str]:
        """Say who is better in what, where that is not the same judge."""
        lines: dict[str, str] = {}
        for (winner, loser), told in self.told.items():
            axis = next((axis for axis in told if axis in axes), None)
            if axis and winner in names and loser in names:
                lines.setdefault(winner, f"{short_name(winner)} {self.against(axis, winner, loser)}")
        first = "None of them is better in everything, so choose by what matters to you"
        able = "no difference in ability is shown; " if equal else ""
        return [f"{first}: {able}{'; '.join(list(lines.values())[:2])}."]

    def no_better_than_a_coin(self, job: str, best: str) -> list[str]:
        """Say that nobody is shown to beat a coin, and what would tell."""
        margin = self.contrasts.margin
        reading = self.reading(job, best)
        half = _half(job)
        does = f"{says(job, reading_text(reading))}{half}"
        lines = [f"Use none of them: no judge is shown to beat a coin; the best, {short_name(best)}, {does}."]
        low, high = source_ends(reading)
        tasks = tasks_for(margin, low, high, reading.n_clusters or 1)
        if high is not None and high > COIN + margin and tasks:
            lines.append(f"About {tasks:,} tasks would show that one is better than a coin by {margin:.2f}.")
            lines += self._more_tasks(tasks)
        return lines

    def _nothing_tells(self, left: Sequence[str], known: Sequence[str]) -> list[str]:
        """Name the cheapest of those that nothing tells apart, and what would."""
        job, pairs = self.jobs[0], self._pairs(left)
        lines = [f"{self._alike(left, pairs)}: {self._cheapest(left)}{self.what_would_tell(left)}."]
        lines.append(f"{short_name(left[0])} {self.against(job, left[0], left[1])}.")
        lines += self._left_behind([name for name in known if name not in left])
        found = [pair.detectable for pair in pairs if pair.detectable is not None]
        # Rounded up: what is promised must be kept.
        shown = f"be content with differences of {math.ceil(100 * max(found)) / 100:.2f} or more" if found else ""
        return lines + self._more_tasks(self._tasks_to_tell(left), shown)

    def _more_tasks(self, tasks: int | None, reached: str = "") -> list[str]:
        """Say where so many tasks are, and what else can be done."""
        if tasks is None or self.suite is None:
            return []
        further = tasks - len({item.task for item in self.suite.items})
        text = more_tasks_text(max(1, further), self.suite, reached=reached)
        return [f"{text[0].upper()}{text[1:]}."]

    def _pairs(self, names: Sequence[str]) -> list[Difference]:
        """Return the differences in the job between these judges."""
        job = self.jobs[0]
        return [pair for pair in self.contrasts.differences if pair.axis == job and {pair.a, pair.b} <= set(names)]

    def what_would_tell(self, names: Sequence[str]) -> str:
        """Say how many tasks would tell these judges apart, or that a difference would have been found."""
        margin, pairs = self.contrasts.margin, self._pairs(names)
        if pairs and all(pair.detectable is not None and pair.detectable <= margin for pair in pairs):
            return f", and a difference of {margin:.2f} would have been found"
        tasks = self._tasks_to_tell(names)
        return f", and about {tasks:,} tasks would show a difference of {margin:.2f}" if tasks else ""

    def _tasks_to_tell(self, names: Sequence[str]) -> int | None:
        """Return how many tasks would show a difference between these judges; None where one would have been found."""
        margin, pairs = self.contrasts.margin, self._pairs(names)
        if all(pair.detectable is not None and pair.detectable <= margin for pair in pairs):
            return None
        # So many tests share the error of the whole comparison.
        n_tests = max(1, len(self.contrasts.deciding))
        needed = [tasks_for(margin, pair.low, pair.high, pair.n_clusters, n_tests=n_tests) for pair in pairs]
        return max((n for n in needed if n is not None), default=None)

    def _alike(self, left: Sequence[str], pairs: Sequence[Difference]) -> str:
        if not pairs:
            baseline = short_name(self.contrasts.baseline or "")
            return f"{named_judges(left)} are not shown to be worse than {baseline}, and were compared with it alone"
        if all(pair.detectable is None for pair in pairs):
            n_tasks = max(pair.n_clusters for pair in pairs)
            return f"{n_tasks} tasks are too few to tell {named_judges(left)} apart, however much they differ"
        return f"No difference is shown between {named_judges(left)}"

    def _left_behind(self, worse: Sequence[str]) -> list[str]:
        """Say who was told to be worse, and of the first of them in what."""
        for (winner, loser), axes in self.told.items():
            if worse and loser == worse[0]:
                return [f"Not {named_judges(worse)}: {short_name(loser)} {self.against(axes[0], loser, winner)}."]
        return []

    def _cheapest(self, names: Sequence[str]) -> str:
        prices = {name: self._price(name) for name in names}
        known = {name: price for name, price in prices.items() if price is not None}
        if len(known) < len(prices):
            return "what they cost is not known"
        cheap = min(known, key=lambda name: known[name])
        if max(known.values()) <= known[cheap]:
            return "they cost the same"
        return f"the cheapest is {short_name(cheap)} ({_price_text(known[cheap])})"

    def _price(self, name: str) -> float | None:
        """Dollars of 1,000 calls."""
        usd = self.contrasts.costs.get(name, {}).get("usd")
        return None if usd is None else 1000 * usd / self.contrasts.n_calls

    def _why_unknown(self, job: str) -> str:
        reasons = [
            reading.reason for reading in self.contrasts.cells[job].values() if isinstance(reading, NotEstimable)
        ]
        return reasons[0] if reasons else "two of them have no number to compare"


def closing_section(sentence: str) -> Section:
    """Say once more what to do: a screen is read from its end."""
    return Section(heading="What to do", blocks=[sentence], media=("text",), always=True)


def family(axis: str) -> str:
    """Return an axis without its step."""
    return axis.rpartition("/delta_")[0] or axis


def says(axis: str, number: str) -> str:
    """Say what a judge does that reads this number on an axis, in words that need no glossary."""
    template = _SAYS.get(axis) or _SAYS.get(family(axis))
    end = " (lower is better)" if lower_is_better(axis) else ""
    return template.format(number) if template else f"reads {number} on {plain_name(axis_name(axis))}{end}"


def against(axis: str, reading: Reading, other_reading: Reading, other: str) -> str:
    """Say what a judge does, and how often another does it."""
    first, second = (reading_text(each) for each in (reading, other_reading))
    return f"{says(axis, first)}{_half(axis)}, against {second} for {short_name(other)}"


def _half(axis: str) -> str:
    return " (a tie counts half)" if family(axis).endswith("ability") else ""


def better_first(difference: Difference) -> tuple[str, str]:
    """Return the better and the worse judge of a difference."""
    a, b = difference.a, difference.b
    return (b, a) if (difference.value > 0) == lower_is_better(difference.axis) else (a, b)


def tasks_for(wanted: float, low: float | None, high: float | None, n_tasks: int, *, n_tests: int = 1) -> int | None:
    """Return about how many tasks would show a difference, by the interval that so many tasks gave; None without one.

    Args:
        wanted: The difference.
        low: End of the 95 % interval.
        high: The other end.
        n_tasks: Behind the interval.
        n_tests: That share an error of 5 %.
    """
    if low is None or high is None or n_tasks < 2 or high <= low:
        return None
    needed = tasks_to_find(wanted, (high - low) / 2 / t_quantile(n_tasks - 1), n_tasks, alpha=0.05 / n_tests)
    # Two digits are all that a guess of a spread is worth.
    unit: int = 10 ** max(0, len(str(needed)) - 2)
    return math.ceil(needed / unit) * unit


def named_judges(names: Sequence[str], *, most: int = 4) -> str:
    """Name judges in a sentence, the first ones of many.

    Example:
        >>> named_judges(["a", "b", "c"])
        'a, b and c'
    """
    *first, last = [*map(short_name, names[:most]), *([f"{len(names) - most} more"] if len(names) > most else [])]
    return f"{', '.join(first)} and {last}" if first else last


def short_name(name: str) -> str:
    """Write a name for a sentence, a long one cut in its middle: judges often differ in the last characters only."""
    return shortened_name(plain_name(name))


def _price_text(usd: float) -> str:
    return f"{money_text(usd)} per 1,000 calls"


def lower_end(reading: Estimate) -> float:
    """Return the lower end of the interval by task; the value itself where there is none."""
    low = source_ends(reading)[0]
    return reading.value if low is None else low
