"""All reliability tests by name: ours, those a user registered, those of other installed packages.

A new test of ours is one file and its name below; another package's is an entry point of the group `jrh.tests`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.perturb._base import ReliabilityTest
from jrh_mlflow.perturb.additions import Authority, Padding, PromptInjection
from jrh_mlflow.perturb.agents import AGENT_TESTS, AgentTest
from jrh_mlflow.perturb.error_injection import ErrorInjection
from jrh_mlflow.perturb.label_flip import LabelFlip
from jrh_mlflow.perturb.paraphrase import RubricParaphrase, SemanticParaphrase, VerbosityLong, VerbosityShort
from jrh_mlflow.perturb.prompt_file import PromptTest, WrittenTest, prompt_test, split_entries, with_parameters
from jrh_mlflow.perturb.stochastic_stability import StochasticStability
from jrh_mlflow.perturb.surface import Indentation, Markdown, SpaceClusters, Typos, VerticalSpacing
from jrh_mlflow.perturb.synthetic_ordinal import SyntheticOrdinal
from jrh_mlflow.plugins import TESTS as ENTRY_POINTS
from jrh_mlflow.plugins import Plugin, plugins
from jrh_mlflow.schema.items import BASELINE, PAIR_CONDITIONS, Labels
from jrh_mlflow.scoring.expectations import LABEL, Expectation

_OURS: tuple[ReliabilityTest, ...] = (
    LabelFlip(),
    VerticalSpacing(),
    SpaceClusters(),
    Indentation(),
    SemanticParaphrase(),
    VerbosityLong(),
    VerbosityShort(),
    StochasticStability(),
    SyntheticOrdinal(),
    Typos(),
    Markdown(),
    PromptInjection(),
    Authority(),
    Padding(),
    ErrorInjection(),
    RubricParaphrase(),
)
TESTS: dict[str, ReliabilityTest] = {test.name: test for test in _OURS}
"""Tests by name: those of the Judge Reliability Harness, then ours, then what was registered."""
GROUPS = ("all", "paper")
PREDECESSOR_NAMES = {
    "answer_ambiguity": ("stochastic_stability",),
    "verbosity_bias": ("verbosity_bias_long", "verbosity_bias_short"),
}
"""What the Judge Reliability Harness calls tests, and what they are here."""
_RESERVED = (*PAIR_CONDITIONS, BASELINE, *GROUPS, *AGENT_TESTS, *PREDECESSOR_NAMES)
_given: dict[str, ReliabilityTest] = {}
"""Tests that were passed as objects: their calls are scored as they say, though no name finds them."""

logger = logging.getLogger("jrh_mlflow")


def register(test: ReliabilityTest) -> None:
    """Add a user's own test, so that recipes and the command line know its name.

    Raises:
        RecipeError: when the name is taken, or is that of a pair condition, of the baseline or of a group.
    """
    if test.name in TESTS:
        raise RecipeError(f"A test named {test.name!r} exists already. Give yours another name.")
    _refuse_reserved(test)
    TESTS[test.name] = test


def find_agent_test(name: object) -> AgentTest | None:
    """Return the test of transcripts of this name, ours or another package's; None where there is none."""
    # Looked up first: other packages are loaded only for a name that is none of ours.
    if not isinstance(name, str) or name in (*TESTS, *GROUPS):
        return None
    test = AGENT_TESTS.get(name) or installed_tests().tests.get(name)
    return test if isinstance(test, AgentTest) else None


def find_test(name: str) -> ReliabilityTest:
    """Return the test of responses of this name.

    Raises:
        RecipeError: for an unknown name, with the nearest known one.
    """
    if find_agent_test(name) is not None:
        raise RecipeError(f"Test {name!r} edits transcripts. Give it a log of them (.eval), not responses.")
    if name in TESTS:
        return TESTS[name]
    if name in PREDECESSOR_NAMES:
        raise RecipeError(f"The test {name!r} is here called {' and '.join(PREDECESSOR_NAMES[name])}.")
    others = installed_tests()
    if name in others.tests:
        return others.tests[name]
    if name in others.problems:
        raise RecipeError(f"{others.problems[name]}.")
    known = [*TESTS, *AGENT_TESTS, *others.tests, *GROUPS]
    raise RecipeError(f"Unknown test {name!r}.{suggest(name, known)} `jrh suite tests` lists them.")


def listed_tests(given: object, *, folder: Path | None = None, where: str = "") -> list[str | ReliabilityTest]:
    """Return the tests that are written down, one by one: names stay names, what has parameters becomes a test.

    Args:
        given: Names joined by commas, one entry, or several.
        folder: Where prompt files lie; the current one when None.
        where: The file they are written in, for errors.

    Raises:
        RecipeError: saying which entry makes no sense, and why.
    """
    if isinstance(given, str):
        entries: list[object] = list(split_entries(given))
    else:
        is_single = isinstance(given, ReliabilityTest | Mapping)
        entries = list(given) if isinstance(given, Iterable) and not is_single else [given]
    tests: list[str | ReliabilityTest] = []
    for number, entry in enumerate(entries, start=1):
        try:
            tests += _written(entry, folder or Path())
        except RecipeError as error:
            raise RecipeError(f"{where}, entry {number} of `tests`: {error}" if where else str(error)) from error
    return tests


def _written(entry: object, folder: Path) -> list[str | ReliabilityTest]:
    if isinstance(entry, ReliabilityTest):
        return [entry]
    if not isinstance(entry, str | Mapping):
        raise RecipeError(f"A test is a name, a mapping with `name` or a test object, but got {entry!r}.")
    written = WrittenTest.of(entry)
    if written.prompt is not None:
        return [prompt_test(folder / written.prompt, written.given, name=written.name)]
    assert written.name is not None
    names = PREDECESSOR_NAMES.get(written.name, (written.name,))
    if names != (written.name,):
        logger.warning("The test %r is here called %s.", written.name, " and ".join(names))
    if not written.given:
        return list(names)
    if written.name in GROUPS:
        raise RecipeError(f"{written.name!r} is a group and has no parameters. Give them to one of its tests.")
    return [with_parameters(find_agent_test(name) or find_test(name), written.given) for name in names]


def find_tests(names: object, labels: Labels) -> list[ReliabilityTest]:
    """Return the tests that are meant, in the order given; a test with parameters takes its place in a group beside it.

    Args:
        names: `"all"` (ours and registered ones), `"paper"` (the harness's free-response list), a name, a test, or
            several of these; see `entries`. The groups hold only tests that fit the labels.
        labels: What the judge may answer.

    Raises:
        RecipeError: for an unknown or reserved name, one given twice, none at all, or a test that needs ordinal labels.
    """
    given = listed_tests(names)
    own = {entry.name: entry for entry in given if isinstance(entry, ReliabilityTest) and entry.settings}
    grouped = {test.name for entry in given if isinstance(entry, str) for test in _of_group(entry, labels)}
    tests = []
    for entry in given:
        if isinstance(entry, str) and entry in GROUPS:
            tests += [own.get(test.name, test) for test in _of_group(entry, labels)]
        elif not isinstance(entry, ReliabilityTest) or entry.name not in own or entry.name not in grouped:
            tests.append(_meant(entry, labels))
    if not tests:
        raise RecipeError('No test was named. Give names, "paper" or "all"; `jrh suite tests` lists them.')
    seen: set[str] = set()
    for test in tests:
        if test.name in seen:
            raise RecipeError(f"Test {test.name!r} is named twice. Name each test once; groups count too.")
        seen.add(test.name)
    return tests


def _of_group(name: str, labels: Labels) -> list[ReliabilityTest]:
    return (
        [test for test in TESTS.values() if name in ("all", test.group) and test.fits(labels)] if name in GROUPS else []
    )


def _meant(entry: str | ReliabilityTest, labels: Labels) -> ReliabilityTest:
    test = find_test(entry) if isinstance(entry, str) else entry
    if isinstance(test, PromptTest) and written_by(test.name) not in (None, _given.get(test.name)):
        raise RecipeError(f"A test named {test.name!r} exists already. Give yours another name.")
    if test.name not in TESTS:
        _refuse_reserved(test)
        # Reports ask by name later how the test's calls are scored.
        _given[test.name] = test
    if reason := test.unfit(labels):
        raise RecipeError(f"Test {test.name!r} {reason}")
    return test


def left_out(names: Iterable[object], labels: Labels) -> list[str]:
    """Say which tests of the groups among `names` are not made because nobody says that the labels grade."""
    groups = [name for name in names if name in GROUPS]
    meant = [test for test in TESTS.values() if any(name in ("all", test.group) for name in groups)]
    unknown = [test for test in meant if "grades" in test.needs and not test.fits(labels)]
    return [f"Left out is {test.name}: it {test.unfit(labels)}" for test in unknown]


PROPOSE = "propose"
"""Instead of names of invalid tests: a validator is asked which they are."""


def read_invalid(given: object, tests: Sequence[ReliabilityTest]) -> tuple[dict[str, str], bool]:
    """Return the tests that a user calls invalid under the rubric, each with the reason, and whether to propose more.

    Args:
        given: Names (a list, or joined by commas; `name=reason`) or a mapping from name to reason; `propose` may be
            among them. None, `none` or an empty text: no test is.
        tests: Those that were chosen; others may be named, too.

    Raises:
        RecipeError: for a name that is not known, with the nearest one that is.
    """
    if given is None or (isinstance(given, str) and given.strip().lower() in ("", "none")):
        return {}, False
    entries = split_entries(given) if isinstance(given, str) else given
    if not isinstance(entries, Mapping) and isinstance(entries, Iterable):
        entries = dict(str(entry).partition("=")[::2] for entry in entries)
    if not isinstance(entries, Mapping):
        raise RecipeError(
            f"`invalid` must be names of tests, a mapping from test to reason, or propose, not {given!r}."
        )
    chosen = {test.name: test for test in tests}
    reasons = {}
    for name, reason in entries.items():
        if name == PROPOSE:
            continue
        for known in PREDECESSOR_NAMES.get(str(name), (str(name),)):
            test = chosen.get(known) or find_agent_test(known) or find_test(known)
            usual = f"the rubric grades {test.changes}" if test.changes else "said to be invalid under the rubric"
            reasons[test.name] = " ".join(str(reason or "").strip(' "').split()) or usual
    return reasons, PROPOSE in entries


def _refuse_reserved(test: ReliabilityTest) -> None:
    if test.name in _RESERVED:
        raise RecipeError(f"{test.name!r} has a meaning of its own in call records. Give your test another name.")


@dataclass(frozen=True, kw_only=True)
class InstalledTests:
    """What other packages add."""

    tests: dict[str, ReliabilityTest] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    """Test to the package it comes from."""
    problems: dict[str, str] = field(default_factory=dict)
    """Entry point to the reason why it is no test, which names the package."""


@cache
def installed_tests() -> InstalledTests:
    """Load the tests of other packages; a broken one is told, and stops no other."""
    installed = InstalledTests()
    for plugin in plugins(ENTRY_POINTS):
        try:
            test = _test_in(plugin)
            if test.name in (*_RESERVED, *TESTS, *installed.tests):
                raise RecipeError(f"the test {test.name!r} of {plugin.distribution} has a name that is taken")
        except RecipeError as problem:
            installed.problems[plugin.name] = str(problem)
        else:
            installed.tests[test.name] = test
            installed.packages[test.name] = plugin.distribution
    return installed


def _test_in(plugin: Plugin) -> ReliabilityTest:
    if plugin.error is not None:
        raise RecipeError(plugin.error)
    try:
        test = plugin.value() if isinstance(plugin.value, type) else plugin.value
    except Exception as error:  # another package's constructor may raise anything
        raise RecipeError(f"the test {plugin.name!r} of {plugin.distribution} cannot be made: {error}") from error
    if not isinstance(test, ReliabilityTest):
        raise RecipeError(f"{plugin.name!r} of {plugin.distribution} is no ReliabilityTest")
    return test


def written_by(condition: str) -> ReliabilityTest | None:
    """Return the test that writes a condition of call records; None for the baseline and what no known test writes.

    Other packages are looked at last, and only where nothing else fits.
    """
    if condition == BASELINE:
        return None
    ours: dict[str, ReliabilityTest] = {**_given, **AGENT_TESTS, **TESTS}
    # A test that is called so comes before one that has such a design.
    if condition in ours:
        return ours[condition]
    return _writer(ours.values(), condition) or _writer(installed_tests().tests.values(), condition)


def _writer(tests: Iterable[ReliabilityTest], condition: str) -> ReliabilityTest | None:
    return next((test for test in tests if test.writes(condition)), None)


def expectation_of(condition: str) -> Expectation:
    """Return what is expected in a condition: of an unknown one, the answers its items carry."""
    test = written_by(condition)
    return LABEL if test is None else test.expects


def name_of_test(condition: str) -> str:
    """Return the name of the test behind a condition: one for all its doses and designs."""
    test = written_by(condition)
    return condition if test is None else test.name


def score_name(condition: str) -> str:
    """Return what the score of a condition goes by: its own name, or the test's where conditions make one score."""
    return name_of_test(condition) if expectation_of(condition).pooled else condition


def counted_once(names: Iterable[str]) -> list[str]:
    """Return those of the scores' names that count in a mean over tests, in the order given.

    More replicates of some items, as in the deep design of stability, are reported beside the test and not counted
    again. They stand for it where nothing else does.
    """
    given = list(names)
    return [name for name in given if not _beside(name, given)]


def _beside(name: str, given: Sequence[str]) -> bool:
    test = name_of_test(name)
    return test != name and test in given and expectation_of(name).repeats
