"""What people call an axis, a test or a metric, what it counts, and which values are good: one answer for every key.

Pages, Markdown, tables on a terminal, cards, figures, gates and plans name a key by `axis_name`. What is declared on an
`Axis` or on a test is read there; the names of what reliability tests count, of agreement with people and of a run's
facts are those of `words.json`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.measures.axes import EXPECTED, Axis, Guide, find, step_of
from jrh_mlflow.measures.reliability import ALL, words_of_test
from jrh_mlflow.measures.rules import COSTS, EXCLUDED, parse_rule
from jrh_mlflow.measures.verdict import DROP, DROPS, NOISE, NOISE_EXCESS
from jrh_mlflow.perturb.registry import expectation_of, written_by
from jrh_mlflow.schema import items
from jrh_mlflow.scoring.metric import is_error_axis
from jrh_mlflow.scoring.readings import AGREEMENT
from jrh_mlflow.show.glossary import WORDS

STEPS = {"delta": "δ = ", "level": "level "}
"""Before the step of a family."""


class Named(NamedTuple):
    """The name of a number that is no axis of a datasheet, what it counts and which values are good."""

    name: str
    meaning: str
    guide: Guide | None = None


_GUIDES = {name: Guide(**words) for name, words in WORDS["guides"].items()}


def _named(kind: str) -> dict[str, Named]:
    """Return what `words.json` says of each key of a kind; keys that several share have one guide."""
    return {
        key: Named(words["name"], words["meaning"], _GUIDES[words["guide"]] if "guide" in words else None)
        for key, words in WORDS[kind].items()
    }


_STATISTICS: Mapping[str, Named] = _named("statistics")
"""Last part of `<test>/<statistic>`."""
_RUN: Mapping[str, Named] = _named("run")
"""Whole keys: of agreement with people, of a report's summary and of a run's facts."""
_CONDITIONS: Mapping[str, str] = WORDS["conditions"]
"""Conditions of datasheets; those of reliability suites are tests."""
_SIGNS = {"<=": "≤", ">=": "≥"}
_SHIFT = "criterion_shift"
# Only words joined by `_` or `/`: a bare word such as `accuracy` may be plain English.
_KEY_IN_TEXT = re.compile(r"\b[a-z0-9]+(?:[_/][a-z0-9]+(?:\.[0-9]+)?)+\b")
_DELTA = re.compile(r"delta_(\d+(?:\.\d+)?)")


_EFFECTS: Mapping[str, Named] = {
    NOISE_EXCESS: Named(
        "changes beyond its own noise",
        "How much more often the answer changes than when the same item is merely asked again; 0 is right.",
        Guide(
            good=f"below {NOISE:.2f}",
            bad=f"{NOISE:.2f} or more: what this test changes moves the judge",
            advice="Say in the prompt that what this test changes does not count, and measure again.",
        ),
    ),
    DROP: Named(
        "lost accuracy",
        "Accuracy of the same items unperturbed − accuracy of this test; 0 is right.",
        Guide(
            good=f"below {DROPS:.2f}",
            bad=f"{DROPS:.2f} or more: fewer answers are right under this test",
            advice=_GUIDES["right"].advice,
        ),
    ),
}
"""First part of `<effect>/<test>`."""


def axis_name(key: str) -> str:
    """Return the one name for people of an axis, a test or a metric, by the key under which it is typed and logged.

    Names that come from a user's suite are not escaped.

    Example:
        >>> axis_name("target_sensitivity/delta_1"), axis_name("label_flip/mae"), axis_name("label_flip")
        ('chooses the better (δ = 1)', 'label flip: mean absolute error', 'label flip')
    """
    if key.startswith(EXPECTED):
        return _noted(axis_name(key.removeprefix(EXPECTED)), "expected")
    axis = find(key)
    if axis is not None:
        return _noted(axis.label, step_name(key, axis)) if axis.by_step else axis.label
    if key in _RUN:
        return _RUN[key].name
    if key.startswith(EXCLUDED):
        return f"left out of {axis_name(key.removeprefix(EXCLUDED))}"
    first, _, rest = key.partition("/")
    if first == _SHIFT and "/" in rest:
        arm, _, axis_key = rest.partition("/")
        return f"shift to {words_of_test(arm)}: {axis_name(axis_key)}"
    return _test_name(key)


def condition_name(condition: str) -> str:
    """Return the name for people of a condition of call records; that of a test is the test's.

    Example:
        >>> condition_name("delta_0_same"), condition_name("label_flip"), condition_name("baseline")
        ('equal quality', 'label flip', 'baseline')
    """
    return _CONDITIONS.get(condition) or words_of_test(condition)


def stimuli_name(axis: Axis) -> str:
    """Return in short what an axis is read on, for a column beside its name."""
    return condition_name(axis.stimuli.name).partition(" (")[0]


def reason_text(reason: str) -> str:
    """Return why there is no number, with the axes, conditions, tests and steps in it by their names for people.

    Example:
        >>> reason_text("6 of 36 delta_0_same calls gave no usable answer")
        '6 of 36 equal quality calls gave no usable answer'
        >>> reason_text("target_sensitivity/delta_2 has no number for my_judge: no ladder calls at delta_2.")
        'chooses the better (δ = 2) has no number for my_judge: no ladder calls at δ = 2.'
    """
    return _KEY_IN_TEXT.sub(_named_in_text, reason)


def _named_in_text(match: re.Match[str]) -> str:
    key, step = match[0], _DELTA.fullmatch(match[0])
    if step:
        return f"{STEPS['delta']}{step[1]}"
    if key in _CONDITIONS:
        return condition_name(key)
    # A judge may be called my_judge: what nobody declared stays as it is.
    return axis_name(key) if find(key) or written_by(key.partition("/")[0]) else key


def axis_meaning(key: str) -> str:
    """Return what is counted and which value is good, in a sentence or two; nothing of a key that nobody declared.

    Of a reliability test it is what changes, what is expected, and what is counted.
    """
    if key.startswith(EXPECTED):
        return f"{axis_meaning(key.removeprefix(EXPECTED))} Probabilities in place of verdicts."
    known: Axis | Named | None = find(key) or _RUN.get(key)
    if known is not None:
        return known.meaning
    for effect, named in _EFFECTS.items():
        if key.startswith(effect):
            return f"{_what_changes(key.removeprefix(effect))}{named.meaning}"
    test, _, statistic = key.rpartition("/")
    return f"{_what_changes(test or key)}{_statistic_meaning(statistic if test else expectation_of(key).statistic)}"


def axis_guide(key: str) -> Guide | None:
    """Return which values are good and bad and what to do about bad ones; None where no value is."""
    effect = next((named for effect, named in _EFFECTS.items() if key.startswith(effect)), None)
    known: Axis | Named | None = find(key) or _RUN.get(key) or effect
    if known is None:
        test, _, statistic = key.rpartition("/")
        known = _STATISTICS.get(statistic if test else expectation_of(key).statistic)
    return known.guide if known else None


def plain_subject(key: str) -> str:
    """Return what a number is of, in words that need no glossary: for verdicts.

    Example:
        >>> plain_subject("dark_current")
        'the share of calls with nothing to judge that prefer a side all the same'
        >>> plain_subject("label_flip/accuracy")
        'on the test label flip the share of calls that give the expected answer'
    """
    axis, (test, _, statistic) = find(key), key.rpartition("/")
    named = axis or _RUN.get(key) or _STATISTICS.get(statistic)
    if named is None or key.startswith(COSTS):
        return axis_name(key)
    words = re.split(r"[;:]", named.meaning.rstrip("."))[0]
    # A formula follows behind the comma.
    words = words.partition(",")[0] if set(words) & set("−()=") else words
    article = "" if words.startswith(("Of ", "How ")) else "the "
    where = _plain_step(key, axis) if axis or key in _RUN else _plain_test(test)
    return f"{where}{article}{words[0].lower()}{words[1:]}"


def _plain_step(key: str, axis: Axis | None) -> str:
    if axis is None or not axis.by_step:
        return ""
    requirements = f"{step_of(key):g} requirement{'' if step_of(key) == 1 else 's'}"
    met = f"the response meets {requirements}" if axis.step == "level" else f"one response meets {requirements} more"
    return f"where {met}, "


def _plain_test(test: str) -> str:
    return {items.BASELINE: "without any test ", ALL: "over all tests "}.get(
        test, f"on the test {words_of_test(test)} "
    )


def rule_name(text: str) -> str:
    """Return a rule over readings with the name of its axis: what was typed stands beside it.

    Example:
        >>> rule_name("target_sensitivity/delta_1 >= 0.75"), rule_name("dark_current - baseline <= 0.05")
        ('chooses the better (δ = 1) ≥ 0.75', 'dark current − baseline ≤ 0.05')
    """
    try:
        rule = parse_rule(text)
    except RecipeError:  # anybody may log a rule: what was typed is all that is known
        return text
    return f"{rule.subject(axis_name)} {_SIGNS.get(rule.op, rule.op)} {rule.limit:g}"


def step_name(key: str, axis: Axis) -> str:
    """Return the step of a family's key: `δ = 1`, `level 3`."""
    return f"{STEPS[axis.step]}{step_of(key):g}"


def statistic_name(statistic: str) -> str:
    """Return the name of what a test counts, alone: `accuracy`, `mean absolute error`."""
    source = statistic.removeprefix(AGREEMENT)
    if statistic.startswith(AGREEMENT) and source in items.LABEL_SOURCES:
        return f"agreement with {words_of_test(source)} labels"
    known = _STATISTICS.get(statistic)
    return known.name if known else words_of_test(statistic)


def _statistic_meaning(statistic: str) -> str:
    source = statistic.removeprefix(AGREEMENT)
    if statistic.startswith(AGREEMENT) and source in items.LABEL_SOURCES:
        return f"Share of calls equal to {items.LABEL_SOURCES[source]}: no accuracy; higher is better."
    known = _STATISTICS.get(statistic)
    if known is not None:
        return known.meaning
    better = "lower" if is_error_axis(f"test/{statistic}") else "higher"
    return f"{words_of_test(statistic).capitalize()} of the answers and the expected ones; {better} is better."


def _what_changes(condition: str) -> str:
    """Say what a test changes and what is expected; nothing of conditions that no known test writes."""
    if condition == items.BASELINE:
        return "Items as they are. "
    if condition == ALL:
        return "All tests pooled, the baseline apart. "
    test = written_by(condition)
    # `capitalize` would make the other letters small, those of names too.
    return "" if test is None else f"{test.title[:1].upper()}{test.title[1:]}; expected: {test.expects.text}. "


def _test_name(key: str) -> str:
    """Return the name of a reliability test, or of a statistic or an effect of one."""
    for effect, named in _EFFECTS.items():
        if key.startswith(effect):
            return f"{words_of_test(key.removeprefix(effect))}: {named.name}"
    test, _, statistic = key.rpartition("/")
    if not test:
        return words_of_test(key)
    return f"{words_of_test(test)}: {statistic_name(statistic)}"


def _noted(name: str, note: str) -> str:
    """Put a note in brackets behind a name, or with what stands in brackets there already: lists have commas."""
    return f"{name[:-1]}, {note})" if name.endswith(")") else f"{name} ({note})"
