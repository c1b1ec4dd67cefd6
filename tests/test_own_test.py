"""A package with a reliability test of its own, `recipes/own_test`: installed, listed, generated with, judged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from tests import processes

RECIPE = Path(__file__).parents[1] / "recipes" / "own_test"
REPLIES = str(resources.files("jrh_mlflow.suites") / "demo_replies.csv")
ASKED = ("--rubric", "May this reply be sent as it is?", "--map", "label=verdict", "-o", "suite", "--json")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into a folder, without a network."""
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(RECIPE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    wanted = ["--no-deps", "--no-build-isolation", "--target", str(folder / "site"), str(source)]
    done = subprocess.run([*pip, *wanted], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


def environment(site: Path, uri: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path} | ({"MLFLOW_TRACKING_URI": uri} if uri else {})


def jrh(site: Path, *arguments: str, cwd: Path, uri: str = "") -> subprocess.CompletedProcess[str]:
    return processes.run(processes.JRH, *arguments, cwd=cwd, env=environment(site, uri), encoding="utf-8")


def test_jrh_tests_lists_it_with_the_package_it_comes_from(installed: Path, tmp_path: Path) -> None:
    listed = jrh(installed, "suite", "tests", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    line = next(line for line in listed.stdout.splitlines() if line.startswith("emoji"))
    assert re.split(r"  +", line) == [
        "emoji",
        "code",
        "answer unchanged",
        "an emoji after every sentence (jrh-emoji 0.1)",
    ]
    (facts,) = json.loads(jrh(installed, "suite", "tests", "emoji", "--json", cwd=tmp_path).stdout)
    assert facts["package"] == "jrh-emoji 0.1"


def test_a_suite_is_made_with_it_and_judged(installed: Path, tmp_path: Path, store_uri: str) -> None:
    made = jrh(installed, "generate", REPLIES, "--tests", "emoji,typos", *ASKED, cwd=tmp_path, uri=store_uri)
    assert made.returncode == 0, made.stderr
    assert set(json.loads(made.stdout)["tests"]) == {"emoji", "typos"}
    judge = str(RECIPE / "jrh_emoji.py") + ":judge"
    asked = jrh(installed, "evaluate", "--judge", judge, "--suite", "suite", "--json", cwd=tmp_path, uri=store_uri)
    assert asked.returncode == 0, asked.stderr
    metrics = json.loads(asked.stdout)[0]["metrics"]
    assert metrics["emoji/consistency/rate"] < 0.5 < 0.9 < metrics["typos/consistency/rate"]


def test_a_recipe_may_name_it(installed: Path, tmp_path: Path, store_uri: str) -> None:
    lines = [
        f"dataset: {REPLIES}", "columns: {label: verdict}", "rubric: Good?", "tests: [emoji]",
        "output: suite",
    ]  # fmt: skip
    (tmp_path / "own.yaml").write_text("\n".join(lines), encoding="utf-8")
    made = jrh(installed, "generate", "own.yaml", "--json", cwd=tmp_path, uri=store_uri)
    assert made.returncode == 0, made.stderr
    assert set(json.loads(made.stdout)["tests"]) == {"emoji"}


def test_a_broken_package_is_one_line_and_stops_nothing_else(installed: Path, tmp_path: Path) -> None:
    facts = tmp_path / "acme_tests-2.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tests\nVersion: 2.0\n")
    (facts / "entry_points.txt").write_text(
        "[jrh.tests]\ngone = acme_gone:Test\nnumber = math:pi\ntypos = jrh_emoji:Emoji\n"
    )
    both = Path(f"{installed}{os.pathsep}{tmp_path}")
    listed = jrh(both, "suite", "tests", cwd=tmp_path)
    assert listed.returncode == 0
    assert "emoji" in listed.stdout
    broken, *others = listed.stderr.splitlines()
    assert "of acme-tests 2.0 (acme_gone:Test) " in broken
    assert "ModuleNotFoundError" in broken
    assert others == [
        "jrh: 'number' of acme-tests 2.0 is no ReliabilityTest.",
        "jrh: the test 'emoji' of acme-tests 2.0 has a name that is taken.",
    ]
    asked = jrh(both, "generate", REPLIES, "--tests", "gone", *ASKED, cwd=tmp_path)
    assert asked.returncode == 2
    assert "of acme-tests 2.0 (acme_gone:Test) cannot be loaded" in asked.stderr
    assert "Traceback" not in asked.stderr


def test_the_recipe_catches_its_judge_in_less_than_40_lines(tmp_path: Path, store_uri: str) -> None:
    recipe = RECIPE / "jrh_emoji.py"
    assert len(recipe.read_text(encoding="utf-8").splitlines()) < 40
    done = processes.run(processes.SCRIPT, recipe, cwd=tmp_path, env=environment(tmp_path, store_uri), encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "# A judge that likes smiles" in done.stdout
    consistent = {
        test: float(re.findall(rf"\| {test} \| [^|]+\| ([0-9.]+) \|", done.stdout)[0]) for test in ("emoji", "typos")
    }
    assert consistent["emoji"] < 0.5 < 0.9 < consistent["typos"]
