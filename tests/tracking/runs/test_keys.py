"""Every MLflow key is spelled once, in the modules of keys: the package is searched for any that stand elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import jrh_mlflow
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.tracking.runs import keys

PACKAGE = Path(jrh_mlflow.__file__).parent
METRIC = re.compile(
    "(calls|tokens|cost|time|generate|review|sweep|compare|jury|reliability|criterion_shift|category|self_preference)/"
)
PARAM = re.compile(
    r"(suite|judge|run|compare|jury|agree|sweep|dataset|generator|validator|parent|review|choice)\.[a-z0-9_]*"
)
TAG = re.compile(r"jrh\.|mlflow\.(note|runName|parentRunId|loggedArtifacts|source\.|experimentKind|sharedViewState)")
FILE = re.compile(r".+\.(json|jsonl|md|html|csv|parquet|txt|db)")
HOMES = ("tracking/runs/keys.py", "schema/metric_keys.py")
"""The second holds those that rules and reports name, too, which may not import what knows of MLflow."""
OWN: dict[str, str | tuple[str, ...]] = {
    "comparing/across_suites_view.py": "compare/",
    "comparing/comparison_view.py": ("compare/", "comparison.json", "comparison.md"),
    "comparing/criterion_shift.py": ("criterion_shift/", "criterion_shift.json"),
    "comparing/jury/jury.py": ("jury/", "jury.json", "jury.md"),
    "comparing/self_preference.py": ("self_preference/", "self_preference.json", "self_preference.md"),
    "generation/report.py": "generate/",
    "review/finish.py": "review/",
    "sweeps/repair.py": ("repair/", "repair.json", "judge/repaired.json", "jrh.repair."),
    "sweeps/sweep_view.py": ("sweep/", "trials.csv"),
    "sweeps/trials.py": ("jrh.trial", "jrh.configuration"),
    "watching/watch_view.py": ("watch/", "watch.json", "asks.parquet"),
}
"""What a verb's own metrics, tags and artifacts begin with, and the file that spells them."""
OTHER_THINGS = {
    "exporting/status.py": {"jrh.evaluate(judge)", "jrh.evaluate(judge, "},  # what to call
    "plugins.py": {"jrh.tests", "jrh.transports"},  # groups of entry points
    "show/html.py": {"calls/", "review/"},  # addresses
    "show/datasheet_page.py": {"datasheet.html"},
    "show/results.py": {"category/"},  # names of withheld axes
}


ARTIFACTS = {
    text
    for texts in (vars(keys).values(), *([own] if isinstance(own, str) else own for own in OWN.values()))
    for text in texts
    if isinstance(text, str) and FILE.fullmatch(text)
}


def texts(source: str) -> Iterator[str]:
    """Yield the texts of a module, parts of f-strings included, docstrings not."""
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def strays(source: str) -> set[str]:
    return {text for text in texts(source) if is_key(text)}


def is_key(text: str) -> bool:
    is_param = PARAM.fullmatch(text) is not None and not FILE.match(text)
    return bool(METRIC.match(text) or TAG.match(text) or text in ARTIFACTS or is_param)


def test_no_key_is_spelled_outside_the_module_of_keys() -> None:
    found = {
        str(path.relative_to(PACKAGE)): strays(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in HOMES
    }
    own = {
        name: {text for text in there if name in OWN and text.startswith(OWN[name])} for name, there in found.items()
    }
    assert all(own[name] for name in OWN), "a file of this list spells none of its keys any more"
    wrong = {name: left for name, there in found.items() if (left := there - own[name] - OTHER_THINGS.get(name, set()))}
    assert wrong == {}, "spell a verb's own with the verb, others in tracking/runs/keys.py or schema/metric_keys.py"


def test_the_modules_of_keys_share_no_key() -> None:
    shared = {value for name, value in vars(metric_keys).items() if name.isupper()}
    assert shared.isdisjoint(texts((PACKAGE / HOMES[0]).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    ['x = "calls/total"', 'x = f"jury/{name}"', 'x = "jrh.kind"', 'x = "mlflow.note.content"', 'x = "suite.sha256"',
     'open("datasheet.md")', 'f"jrh.{name}"'],
)  # fmt: skip
def test_the_search_finds_a_key(source: str) -> None:
    assert strays(source)
