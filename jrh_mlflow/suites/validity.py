"""Validity gates: what must hold of every suite, checked when it is built and again when it is loaded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise

from jrh_mlflow.errors import SuiteError, suggest
from jrh_mlflow.schema.items import (
    DELTA_0,
    DELTA_0_DIFFERENT,
    DELTA_0_SAME,
    FILLER,
    FORMER_NAMES,
    LABEL_SOURCES,
    LADDER,
    LADDER_MATCHED,
    LADDERS,
    LEVEL_CONDITIONS,
    LEVEL_LADDERS,
    LEVEL_PADDED,
    LEVEL_VACUUM,
    NATURAL,
    PAIR_CONDITIONS,
    VACUUM,
    WITH_BETTER,
    Item,
)

MAX_LENGTH_RATIO = 1.10
"""Longest over shortest candidate of a length-matched pair."""

_LEAK = re.compile(r"\bQ_?\d\b|\bdelta[_ ]?\d|\bpair id\b|\bexpected winner\b|\brequirement \d|\bhigher level\b", re.I)
"""Words of the protocol that would tell a judge what the experimenter knows."""


def check_suite(items: Sequence[Item]) -> None:
    """Check every gate.

    Raises:
        SuiteError: naming the item, the rule and what was found.
    """
    if not items:
        raise SuiteError("The suite has no items: nothing to judge.")
    ids = [item.id for item in items]
    twice = list((Counter(ids) - Counter(set(ids))).elements())
    if twice:
        raise SuiteError(f"Item ids must be unique, but {len(twice)} repeat: {', '.join(twice[:5])}.")
    for item in items:
        if item.kind == "pair":
            _check_pair(item)
        else:
            _check_pointwise(item)
    _check_levels([item for item in items if item.condition in LEVEL_CONDITIONS])


def _check_pointwise(item: Item) -> None:
    """Check an item that stands alone: a response or a transcript with its labels."""
    if item.kind not in ("response", "transcript"):
        raise SuiteError(f"Item {item.id!r} has the unknown kind {item.kind!r}. Known: pair, response, transcript.")
    if not item.task:
        raise SuiteError(f"Item {item.id!r} has no task: it is the cluster of the intervals.")
    if not item.condition or (item.condition in PAIR_CONDITIONS and not _is_padded_response(item)):
        raise SuiteError(
            f"Item {item.id!r} is no pair, and its condition {item.condition!r} names no reliability test."
        )
    if item.instruction is not None and (item.response if item.kind == "response" else item.transcript) is None:
        raise SuiteError(f"Item {item.id!r} is a {item.kind} and has none.")
    answers = item.answers or ()
    if len(answers) < 2 or len(set(answers)) < len(answers):
        raise SuiteError(f"Item {item.id!r} needs two or more different answers, but has {answers}.")
    if any(answer.strip().casefold() == "tie" for answer in answers):
        raise SuiteError(f"Item {item.id!r} has a label called tie, and a tie is an outcome of pairs. Rename it.")
    if item.expected is not None and item.expected not in answers:
        raise SuiteError(f"Item {item.id!r} expects {item.expected!r}, which is none of {', '.join(answers)}.")
    if item.label_source not in ("", *LABEL_SOURCES):
        known = ", ".join(LABEL_SOURCES)
        raise SuiteError(f"Item {item.id!r} has the unknown label source {item.label_source!r}. Known: {known}.")
    if (item.meta.get("review") or {}).get("state") == "rejected":
        raise SuiteError(f"Item {item.id!r} was rejected in review, and no judge may see it. Leave it out.")


def _check_levels(items: Iterable[Item]) -> None:
    """Check the contents of the pointwise datasheet one by one, then those of each task and ladder together."""
    whole = [item for item in items if item.instruction is not None]
    for item in whole:
        if problem := _level_problem(item):
            raise SuiteError(f"Item {item.id!r} {problem}.")
        _check_leaks(item)
    plain = {(item.task, item.delta): item for item in whole if item.condition == LEVEL_LADDERS[0]}
    for item in whole:
        twin = plain.get((item.task, item.delta))
        if item.condition == LEVEL_PADDED and (twin is None or len(item.response or "") <= len(twin.response or "")):
            raise SuiteError(f"Item {item.id!r} must be longer than the plain content of its level.")
    chains = sorted((item for item in whole if item.condition in LEVEL_LADDERS), key=_place_in_chain)
    for _, chain in groupby(chains, key=lambda item: (item.task, item.condition)):
        _check_chain(list(chain))


def _place_in_chain(item: Item) -> tuple[str, str, float]:
    return item.task, item.condition, item.delta or 0.0


def _level_problem(item: Item) -> str | None:
    if item.kind != "response":
        return f"is a {item.kind}, but the condition {item.condition} is one of a single response"
    if item.expected is not None:
        return f"expects {item.expected!r}, but nothing is expected of a content of the condition {item.condition}"
    if item.condition in LEVEL_VACUUM:
        if item.delta is not None:
            return f"has nothing to judge, so no level, but its delta is {item.delta}"
        blank = not (item.response or "").strip() and (item.response == "") == (item.condition == LEVEL_VACUUM[0])
        return None if blank else "must hold nothing to judge: no text, or white space, as its condition says"
    if item.delta is None:
        return "needs its level as `delta`"
    level = _level(item, "response")
    return None if level == item.delta else f"meets {level:g} requirements, but its level is {item.delta:g}"


def _check_chain(chain: Sequence[Item]) -> None:
    lengths = [len(item.response or "") for item in chain]
    if max(lengths) > MAX_LENGTH_RATIO * min(lengths):
        raise SuiteError(
            f"Contents of task {chain[0].task!r} in condition {chain[0].condition} must be of a length (ratio at most "
            f"{MAX_LENGTH_RATIO}), but run from {min(lengths)} to {max(lengths)} characters."
        )
    for low, high in pairwise(chain):
        (full, half), (full_below, half_below) = _met(high, "response"), _met(low, "response")
        if not full_below | half_below <= full | half or not full_below <= full:
            raise SuiteError(f"Item {high.id!r} must meet all that a lower level meets, but {low.id!r} meets others.")


def _is_padded_response(item: Item) -> bool:
    """Tell the former name of a reliability test from the condition of pairs of that name: only the test expects."""
    return item.condition in FORMER_NAMES and item.expected is not None


def _check_pair(item: Item) -> None:
    if item.condition not in PAIR_CONDITIONS:
        raise SuiteError(
            f"Item {item.id!r} has the unknown condition {item.condition!r}."
            f"{suggest(item.condition, PAIR_CONDITIONS)} Known: {', '.join(PAIR_CONDITIONS)}."
        )
    _check_labels(item)
    if item.u is None and item.v is None and item.instruction is None:
        return  # replayed from recorded judgments: there is no text to check
    if item.u is None or item.v is None or item.instruction is None:
        raise SuiteError(f"Item {item.id!r} needs an instruction and both contents.")
    if item.condition != NATURAL:
        _check_leaks(item)
        for rule in _RULES[item.condition]:
            if problem := rule(item, item.u, item.v):
                raise SuiteError(f"Item {item.id!r}: {problem}.")


def _check_labels(item: Item) -> None:
    if not item.task:
        raise SuiteError(f"Item {item.id!r} has no task: it is the cluster of the intervals.")
    if item.condition in LADDERS and not (item.delta is not None and item.delta > 0):
        raise SuiteError(
            f"Item {item.id!r} is a {item.condition} pair and needs a delta above 0, but has {item.delta!r}."
        )
    if item.condition in DELTA_0 and item.delta != 0:
        raise SuiteError(f"Item {item.id!r} is a {item.condition} pair and needs delta 0, but has {item.delta!r}.")
    if item.condition in WITH_BETTER and item.better not in ("u", "v"):
        raise SuiteError(f"Item {item.id!r} needs `better` u or v, but has {item.better!r}.")
    if item.condition not in WITH_BETTER and item.better is not None:
        raise SuiteError(f"Item {item.id!r} has no better side by construction, but `better` is {item.better!r}.")


def _check_leaks(item: Item) -> None:
    shown = f"{item.instruction}\n{item.rubric or ''}\n{item.u}\n{item.v}\n{item.response}"
    # An id that is a common word ("a", "1") tells nothing; looked for as it is first, because a pattern takes long.
    held = len(item.id) > 3 and item.id in shown
    named = re.search(rf"(?<!\w){re.escape(item.id)}(?!\w)", shown) if held else None
    if found := named or _LEAK.search(shown):
        raise SuiteError(f"Item {item.id!r} would tell the judge about the experiment: {found[0]!r}.")


def _met(item: Item, side: str) -> tuple[set[str], set[str]]:
    """Return the requirements that a content meets in full, and those it meets in part."""
    full, half = item.meta.get("satisfied", {}), item.meta.get("half", {})
    return set(full.get(side, ())), set(half.get(side, ()))


def _level(item: Item, side: str) -> float:
    full, half = _met(item, side)
    return len(full) + len(half) / 2


def _superset(item: Item, u: str, v: str) -> str | None:
    better = str(item.better)
    worse = "v" if better == "u" else "u"
    (full, half), (full_below, half_below) = _met(item, better), _met(item, worse)
    if not full_below | half_below <= full | half or not full_below <= full:
        return "the better content must meet all that the other meets, and more"
    step = _level(item, better) - _level(item, worse)
    return None if step == item.delta else f"delta is {item.delta}, but the contents are {step:g} requirements apart"


def _same_length(item: Item, u: str, v: str) -> str | None:
    short, long = sorted((len(u), len(v)))
    if short > 0 and long <= MAX_LENGTH_RATIO * short:
        return None
    return (
        f"contents must be length-matched (ratio at most {MAX_LENGTH_RATIO}), but have {len(u)} and {len(v)} "
        "characters. Bring the sentences of the task closer in length"
    )


def _same_set(item: Item, u: str, v: str) -> str | None:
    return None if _met(item, "u") == _met(item, "v") else "both contents must meet the same requirements"


def _other_set(item: Item, u: str, v: str) -> str | None:
    other = _met(item, "u")[0] != _met(item, "v")[0] and _level(item, "u") == _level(item, "v")
    return None if other else "contents must meet equally many, but not the same, requirements"


def _differ(item: Item, u: str, v: str) -> str | None:
    return None if u != v else "the two contents are the same text"


def _padded(item: Item, u: str, v: str) -> str | None:
    return None if len(v) > len(u) else "content v must be u with padding, but is not longer"


def _empty(item: Item, u: str, v: str) -> str | None:
    return "both contents must be empty" if u or v else None


def _blank(item: Item, u: str, v: str) -> str | None:
    return None if u == v and u and not u.strip() else "both contents must be the same white space"


def _identical(item: Item, u: str, v: str) -> str | None:
    return None if u == v and u.strip() else "both contents must be the same, non-empty text"


_Rule = Callable[[Item, str, str], str | None]
"""What is wrong with the two contents of a pair, or None."""
_RULES: dict[str, tuple[_Rule, ...]] = {
    **dict(zip(VACUUM, ((_empty,), (_blank,), (_identical,)), strict=True)),
    LADDER: (_differ, _superset, _same_length),
    LADDER_MATCHED: (_differ, _superset, _same_length),
    DELTA_0_SAME: (_differ, _same_set, _same_length),
    DELTA_0_DIFFERENT: (_differ, _other_set, _same_length),
    FILLER: (_same_set, _padded),
}
