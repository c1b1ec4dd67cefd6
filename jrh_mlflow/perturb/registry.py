"""All reliability tests by name. A new test is one file and one line here; a user's own is `register`ed."""

from __future__ import annotations

from collections.abc import Sequence

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import ReliabilityTest
from jrh_mlflow.perturb.agents import AGENT_TESTS
from jrh_mlflow.perturb.authority import Authority
from jrh_mlflow.perturb.error_injection import ErrorInjection
from jrh_mlflow.perturb.format_invariance import Indentation, SpaceClusters, VerticalSpacing
from jrh_mlflow.perturb.label_flip import LabelFlip
from jrh_mlflow.perturb.markdown import Markdown
from jrh_mlflow.perturb.padding import Filler
from jrh_mlflow.perturb.paraphrase import SemanticParaphrase, VerbosityLong, VerbosityShort
from jrh_mlflow.perturb.prompt_injection import PromptInjection
from jrh_mlflow.perturb.rubric_paraphrase import RubricParaphrase
from jrh_mlflow.perturb.stochastic_stability import StochasticStability
from jrh_mlflow.perturb.synthetic_ordinal import SyntheticOrdinal
from jrh_mlflow.perturb.typos import Typos
from jrh_mlflow.schema.items import BASELINE, ERROR_INJECTION, PAIR_CONDITIONS, SYNTHETIC_ORDINAL, Labels

_PAPER: tuple[ReliabilityTest, ...] = (
    LabelFlip(),
    VerticalSpacing(),
    SpaceClusters(),
    Indentation(),
    SemanticParaphrase(),
    VerbosityLong(),
    VerbosityShort(),
    StochasticStability(),
    SyntheticOrdinal(),
)
_EXTRAS: tuple[ReliabilityTest, ...] = (
    Typos(),
    Markdown(),
    PromptInjection(),
    Authority(),
    Filler(),
    ErrorInjection(),
    RubricParaphrase(),
)

TESTS: dict[str, ReliabilityTest] = {test.name: test for test in (*_PAPER, *_EXTRAS)}
"""Every test by its name: those of the Judge Reliability Harness, then ours, then what was registered."""
PAPER = tuple(test.name for test in _PAPER)
GROUPS = ("all", "paper")
_RESERVED = (*PAIR_CONDITIONS, BASELINE, *GROUPS, *AGENT_TESTS)


def register(test: ReliabilityTest) -> None:
    """Add a user's own test, so that recipes and the command line know its name.

    Raises:
        RecipeError: when the name is taken, or is that of a pair condition, of the baseline or of a group.
    """
    if test.name in TESTS:
        raise RecipeError(f"A test named {test.name!r} exists already. Give yours another name.")
    _refuse_reserved(test)
    TESTS[test.name] = test


def find_test(name: str) -> ReliabilityTest:
    """Return the test of this name.

    Raises:
        RecipeError: for an unknown name, with the nearest known one.
    """
    if name in AGENT_TESTS:
        raise RecipeError(f"Test {name!r} edits transcripts. Give it a log of them (.eval), not responses.")
    if name not in TESTS:
        raise RecipeError(
            f"Unknown test {name!r}.{suggest(name, [*TESTS, *AGENT_TESTS, *GROUPS])} `jrh tests` lists them."
        )
    return TESTS[name]


def find_tests(names: str | ReliabilityTest | Sequence[str | ReliabilityTest], labels: Labels) -> list[ReliabilityTest]:
    """Return the tests that are meant, in the order given.

    Args:
        names: `"all"`, `"paper"` (the harness's free-response list), a name, a test, or several of these. The groups
            hold only tests that fit the labels.
        labels: What the judge may answer.

    Raises:
        RecipeError: for an unknown or reserved name, one given twice, none at all, or a test that needs ordinal labels.
    """
    given = [names] if isinstance(names, str | ReliabilityTest) else list(names)
    tests = [test for entry in given for test in _meant(entry, labels)]
    if not tests:
        raise RecipeError('No test was named. Give names, "paper" or "all"; `jrh tests` lists them.')
    seen: set[str] = set()
    for test in tests:
        if test.name in seen:
            raise RecipeError(f"Test {test.name!r} is named twice. Name each test once; groups count too.")
        seen.add(test.name)
    return tests


def _meant(entry: str | ReliabilityTest, labels: Labels) -> list[ReliabilityTest]:
    if isinstance(entry, str) and entry in GROUPS:
        members = TESTS if entry == "all" else PAPER
        return [TESTS[name] for name in members if _fits(TESTS[name], labels)]
    test = find_test(entry) if isinstance(entry, str) else entry
    if TESTS.get(test.name) is not test:
        _refuse_reserved(test)
    if not _fits(test, labels):
        raise RecipeError(f"Test {test.name!r} needs ordinal labels, but they are {', '.join(labels.answers)}.")
    return [test]


def _fits(test: ReliabilityTest, labels: Labels) -> bool:
    """Levels need a scale, and a decline needs labels of which one is better: a scale, or two."""
    if test.name == ERROR_INJECTION:
        return labels.ordinal or len(labels.answers) == 2
    return labels.ordinal or test.name != SYNTHETIC_ORDINAL


def _refuse_reserved(test: ReliabilityTest) -> None:
    if test.name in _RESERVED and not isinstance(test, Filler):
        raise RecipeError(f"{test.name!r} has a meaning of its own in call records. Give your test another name.")
