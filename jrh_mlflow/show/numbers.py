"""Numbers, intervals, p-values and money as text, for every page, table and figure."""

from __future__ import annotations

from collections.abc import Iterable

from jrh_mlflow.schema.estimates import Bounds, Censoring, Estimate, NotEstimable, Reading
from jrh_mlflow.text import two_places

BOUNDS_NOTE = (
    "“Between a and b” is no number: too many calls were lost and the axis is withheld. These are its bounds, what it "
    "would read if every lost call had gone one way or the other; nothing is compared or decided by them."
)
_SIGNS = {"left": "≤ ", "right": "> ", None: ""}


def number_text(value: float | None, *, signed: bool = False, limit: float | None = None) -> str:
    """Write a number to two places (`two_places`); a missing one is a dash."""
    return "–" if value is None else two_places(value, signed=signed, limit=limit)


def amount_text(value: float | None) -> str:
    """Write a fact of any size: a share to three places, a large one in whole units, a small one to two digits.

    Example:
        >>> amount_text(0.25), amount_text(1064.0), amount_text(0.00042), amount_text(None)
        ('0.250', '1,064', '0.00042', '–')
    """
    # What is under 0.0005 would be rounded to 0.000.
    if value is None or (value and abs(value) < 0.0005):
        return "–" if value is None else f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3f}"


def missing_text(reading: NotEstimable | None) -> str:
    """Write what stands where a number would: the bounds of a withheld one, or `n/a`."""
    return "n/a" if reading is None or reading.bounds is None else bounds_text(reading.bounds)


def bounds_text(bounds: Bounds) -> str:
    """Write bounds so that nobody takes them for a number: `between 0.31 and 0.52 (18 % of 120 calls lost: withheld)`.

    Example:
        >>> bounds_text(Bounds(low=0.31, high=0.52, asked=120, lost={"error": 22}))
        'between 0.31 and 0.52 (18 % of 120 calls lost: withheld)'
    """
    percent = 100 * bounds.lost_share
    lost = f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
    return f"between {bounds_ends(bounds)} ({lost} % of {bounds.asked:,} calls lost: withheld)"


def bounds_ends(bounds: Bounds) -> str:
    """Write bounds alone, where it is said beside them that the number is withheld: `0.31 and 0.52`."""
    return f"{_end(bounds.low, bounds.low_censored)} and {_end(bounds.high, bounds.high_censored)}"


def is_shown(reading: Reading) -> bool:
    """Whether there is something to show where the number stands: the number, or the bounds of a withheld one."""
    return isinstance(reading, Estimate) or reading.bounds is not None


def any_bounds(readings: Iterable[Reading | None]) -> bool:
    """Whether any of the readings is withheld with bounds."""
    return any(isinstance(reading, NotEstimable) and reading.bounds is not None for reading in readings)


def bounds_note(readings: Iterable[Reading]) -> list[str]:
    """Say what bounds are, where any are shown."""
    return [BOUNDS_NOTE, ""] if any_bounds(readings) else []


def withheld_text(reading: NotEstimable) -> str:
    """Write why a number is withheld, and its bounds where it has any."""
    return reading.reason if reading.bounds is None else f"{reading.reason}; {bounds_text(reading.bounds)}"


def _end(value: float, censored: Censoring) -> str:
    # A censored value is a step of the ladder, written as steps are: `> 5`, not `> 5.00`.
    return f"{_SIGNS[censored]}{value:g}" if censored else two_places(value)


def value_text(reading: Reading | None) -> str:
    """Write a value, bounds, or `n/a`."""
    return two_places(reading.value) if isinstance(reading, Estimate) else missing_text(reading)


def left_out_text(reading: Reading) -> str:
    """Spell how many units were left out, and the calls that took them along where those are not as many.

    Example:
        >>> left_out_text(NotEstimable(reason="", withheld=True, excluded=3, left_out={"error": 4, "unparsed": 0}))
        '3 (4 calls)'
    """
    calls = sum(reading.left_out.values())
    differ = reading.excluded and calls != reading.excluded
    return f"{reading.excluded} ({calls} calls)" if differ else str(reading.excluded)


def with_interval(reading: Reading) -> str:
    """Write a value with its interval by cluster, `0.81 [0.70, 0.89]`, bounds, or `n/a`."""
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    return f"{two_places(reading.value)} {interval_text(reading.cluster_low, reading.cluster_high)}"


def tag_text(reading: Estimate) -> str:
    """Write a reading and its interval by cluster to two places; a threshold that is censored by its sign.

    An end that is missing, or beyond the measured steps, is a dash.

    Example:
        >>> ends = {"ci_low": 0.2, "ci_high": 0.4, "cluster_low": 0.16, "cluster_high": 0.479}
        >>> tag_text(Estimate(value=0.3, n=90, excluded=0, n_clusters=9, method="", **ends))
        '0.30 [0.16, 0.48]'
    """
    if reading.censored:
        return threshold_text(reading)
    return f"{two_places(reading.value)} [{number_text(reading.cluster_low)}, {number_text(reading.cluster_high)}]"


def interval_text(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """Write an interval; an end beyond what was measured is a dash, and so is a missing interval."""
    if low is None and high is None:
        return "–"
    return f"[{number_text(low, signed=signed)}, {number_text(high, signed=signed)}]"


def source_ends(reading: Estimate) -> tuple[float | None, float | None]:
    """Return the interval by source, or the plain one where there is none by source."""
    # One end is enough: that of a threshold may lie beyond the steps.
    if reading.cluster_low is not None or reading.cluster_high is not None:
        return reading.cluster_low, reading.cluster_high
    return reading.ci_low, reading.ci_high


def cell_text(reading: Reading, letter: str = "") -> str:
    """Write a cell of a table of judges: `0.81 [0.70, 0.89] ab`, bounds, or `n/a`."""
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    return f"{two_places(reading.value)} {interval_text(*source_ends(reading))} {letter}".strip()


def threshold_text(reading: Reading) -> str:
    """Write a threshold with its censoring: `≤ 1`, `4.00`, `> 5`; `, not decided` where the intervals allow others.

    A withheld one has its bounds.
    """
    if isinstance(reading, NotEstimable):
        return missing_text(reading)
    text = _end(reading.value, reading.censored)
    return text if reading.crossing_decided else f"{text}, not decided"


def reading_text(reading: Reading | None) -> str:
    """Write a number with its interval by cluster, the bounds of a withheld one, or `n/a`.

    Of a threshold an end of the interval that lies beyond the steps is a dash.
    """
    if not isinstance(reading, Estimate):
        return "n/a" if reading is None or reading.bounds is None else f"between {bounds_ends(reading.bounds)}"
    low, high = source_ends(reading)
    value = threshold_text(reading) if reading.unit == "curve" else two_places(reading.value)
    return value if low is None and high is None else f"{value} {interval_text(low, high)}"


def hover_text(reading: Reading | None) -> str:
    """Write what a point of a figure says when pointed at: `0.72 [0.56, 0.82], n 40`, bounds, or why it has none."""
    if isinstance(reading, Estimate):
        return f"{reading_text(reading)}, n {reading.n:,}"
    return missing_text(reading) if reading is None or reading.bounds else f"n/a: {reading.reason}"


def p_text(p: float | None) -> str:
    """Write a p-value; small ones are not 0."""
    return "–" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def money_text(usd: float | None) -> str:
    """Write dollars, small amounts to two digits and large ones to the cent; unknown is a word, never 0.

    Example:
        >>> money_text(0), money_text(0.00036), money_text(0.0361), money_text(1234.5)
        ('$0', '$0.00036', '$0.0361', '$1,234.50')
    """
    if usd is None:
        return "unknown"
    return "$0" if usd == 0 else f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}" if usd >= 0.01 else f"${usd:.2g}"


def at_least_text(usd: float | None, unknown_calls: int) -> str:
    """Write a sum that leaves out calls of unknown cost: `at least $0.1234; 3 calls unknown`."""
    # Where no cost is known, `unknown` says it already.
    return _at_least(money_text(usd), 0 if usd is None else unknown_calls)


def spent_text(usd: float | None, *, unknown_calls: int = 0, unknown: str = "unknown") -> str:
    """Write dollars that were spent, always to four places."""
    return unknown if usd is None else _at_least(f"${usd:.4f}", unknown_calls)


def _at_least(dollars: str, unknown_calls: int) -> str:
    calls = f"{unknown_calls:,} {'call' if unknown_calls == 1 else 'calls'} unknown"
    return f"at least {dollars}; {calls}" if unknown_calls else dollars


def quote_text(usd: float | None, worst_usd: float | None, *, unknown: str) -> str:
    """Write what calls will cost, and what they can cost at most; `unknown` where there is no price."""
    if usd is None or worst_usd is None:
        return unknown
    return f"about ${usd:.4f}, at most ${worst_usd:.4f}"
