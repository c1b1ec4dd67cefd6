"""No room of the package, and not the tests, may grow or become denser than they are."""

from __future__ import annotations

import pytest

from tests.reading_load import (
    by_room,
    count_source,
    figures,
    limited_figures,
    lowered,
    problems,
    read_limits,
    total,
)


def test_no_room_is_above_its_limit():
    assert problems(read_limits(), limited_figures()) == []


SOURCE = '''
"""A docstring is no code line."""

def done(a, b, *, c):
    # Nor is a comment.
    told, rest = a, b
    return told if c else rest


async def two_words():
    pass
'''


def test_what_is_counted():
    counts = count_source(SOURCE + "#" * 101 + "\n")
    assert figures(counts) == {
        "files": 1,
        "lines": 5,
        "nodes": 32,
        "/line": 6.4,
        "ifexp": 20.0,
        "a,b=": 20.0,
        "long %": 12.5,
        "loose %": 50.0,
        "one-word %": 50,
        "params": 3,
    }


def test_files_are_added_up_by_room_and_the_most_parameters_are_taken():
    three = count_source("def f(a, b, c): ...\n")
    one = count_source("def f(a): ...\n")
    rooms = by_room({"top.py": one, "stats/x.py": three, "stats/deep/y.py": one})
    assert rooms == {"(top)": one, "stats": total([three, one])}
    assert rooms["stats"]["params"] == 3
    assert rooms["stats"]["files"] == 2


TODAY = {"stats": {"nodes": 90, "/line": 9.5}, "new": {"nodes": 5, "/line": 7.0}}


@pytest.mark.parametrize(("nodes", "n_problems"), [(90, 0), (89, 1)])
def test_a_room_above_its_limit_is_named_with_both_numbers(nodes, n_problems):
    limits = {"stats": {"nodes": nodes, "/line": 9.5}, "new": {"nodes": 5, "/line": 7.0}}
    found = problems(limits, TODAY)
    assert len(found) == n_problems
    assert all("stats: nodes is 90, and its limit 89." in problem for problem in found)


def test_a_room_without_a_limit_is_named():
    (problem,) = problems({"stats": TODAY["stats"]}, TODAY)
    assert "new has no limit" in problem


def test_limits_are_lowered_and_never_raised():
    limits = {
        "stats": {"nodes": 100, "/line": 9.0, "why": "one more test"},
        "gone": {"nodes": 1, "/line": 1.0},
    }
    assert lowered(limits, TODAY) == {
        "stats": {"nodes": 90, "/line": 9.0, "why": "one more test"},
        "new": TODAY["new"],
    }
