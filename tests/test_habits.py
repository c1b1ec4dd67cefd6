"""What people who contribute and release rely on: one version everywhere, and commands that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema.cli.main_command import main as check_jsonschema
from click.testing import CliRunner
from pre_commit.clientlib import load_config

import jrh_mlflow as jrh
from tests import python_versions
from tests.test_github_gate import WORKFLOW as GATE

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CITATION = ROOT / "CITATION.cff"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").iterdir() if path.stem != "config")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""The headings of keepachangelog.com."""
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


def by_schema(name: str, path: Path) -> int:
    return CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{name}", str(path)]).exit_code


def stated(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    assert found, pattern
    return found[1]


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_one_version_is_told_everywhere() -> None:
    version = stated(r'^version = "(.+)"$', PROJECT)
    cited = yaml.safe_load(CITATION.read_text(encoding="utf-8"))
    if ".dev" in version:
        assert "date-released" not in cited, "a version in development has no date and no heading"
        assert version.partition(".dev")[0] not in dict(RELEASE.findall(CHANGELOG))
    else:
        assert RELEASE.findall(CHANGELOG)[0] == (version, cited["date-released"])
    assert cited["version"] == version
    assert stated(r'jrh-mlflow==([^"]+)', GATE.read_text(encoding="utf-8")) == version
    assert jrh.__version__ == version, "after another version is stated: make, or pip install -e ."


def test_one_address_is_told_everywhere() -> None:
    source = stated(r'^Source = "(.+)"$', PROJECT)
    assert yaml.safe_load(CITATION.read_text(encoding="utf-8"))["repository-code"] == source
    owner = source.rpartition("/")[0]
    for path in (
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        ".github/ISSUE_TEMPLATE/config.yml",
    ):
        text = (ROOT / path).read_text(encoding="utf-8")
        ours = re.findall(rf"{re.escape(owner)}/[\w.-]+", text)
        assert set(ours) <= {source}, path


def test_the_changelog_has_the_usual_form() -> None:
    headings = re.findall(r"^## (.+)$", CHANGELOG, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert all(RELEASE.match(f"## {heading}") for heading in headings[1:])
    versions = [tuple(map(int, version.split("."))) for version, _ in RELEASE.findall(CHANGELOG)]
    assert versions == sorted(versions, reverse=True)
    kinds = set(re.findall(r"^### (.+)$", CHANGELOG, re.MULTILINE))
    assert kinds <= set(CHANGES)
    source = stated(r'^Source = "(.+)"$', PROJECT)
    for label in ("Unreleased", *(version for version, _ in RELEASE.findall(CHANGELOG))):
        address = rf"{re.escape(source)}/(commits|compare|releases/tag)/\S+"
        assert re.search(rf"^\[{re.escape(label)}\]: {address}$", CHANGELOG, re.M)


def test_the_citation_passes_the_schema_of_its_format(tmp_path: Path) -> None:
    assert by_schema("citation-file-format", CITATION) == 0
    broken = tmp_path / "CITATION.cff"
    broken.write_text(CITATION.read_text(encoding="utf-8").replace("authors:", "author:"), encoding="utf-8")
    assert by_schema("citation-file-format", broken) == 1


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_passes_githubs_schema_may_only_read_and_runs_make_targets(workflow: Path) -> None:
    assert by_schema("github-workflows", workflow) == 0
    assert yaml.safe_load(workflow.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    for step in steps(workflow):
        if "uses" in step:
            assert re.fullmatch(r"actions/(checkout|setup-python)@[0-9a-f]{40}", step["uses"]), "pinned"
        else:
            command, *targets = step["run"].split()
            assert command == "make"
            assert set(targets) <= TARGETS


def test_ci_tries_every_python_that_is_promised_and_the_ends_of_mlflow() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yaml").read_text(encoding="utf-8"))["jobs"]
    promised = python_versions.supported()
    assert jobs["unit"]["strategy"]["matrix"]["python"] == promised
    assert stated(r'^requires-python = ">=(.+)"$', PROJECT) == promised[0]
    assert jobs["mlflow"]["strategy"]["matrix"]["mlflow"] == ["oldest", "newest"]


def test_the_pieces_of_make_test_are_what_ci_runs() -> None:
    made = re.findall(r"^\t@\$\(MAKE\) --no-print-directory (.+)$", stated(r"^test:.*\n((?:\t.*\n)+)", MAKEFILE), re.M)
    pieces = {word for line in made[1:] for word in line.split()} - {"--jobs=2"}
    ran = {word for workflow in WORKFLOWS for step in steps(workflow) for word in step.get("run", "").split()[1:]}
    assert pieces == {"lint", "types", "unit"}
    assert pieces <= ran
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "make test"


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_for_issues_passes_githubs_schema(form: Path) -> None:
    assert by_schema("github-issue-forms", form) == 0


def test_contacts_pass_githubs_schema() -> None:
    assert by_schema("github-issue-config", ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml") == 0


def test_hooks_before_a_commit_are_make_targets() -> None:
    config = load_config(str(ROOT / ".pre-commit-config.yaml"))
    (repository,) = config["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["entry"] == f"make {hook['id']}"
        assert hook["id"] in TARGETS


def test_make_help_names_every_target_that_people_type() -> None:
    told = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"^make (\S+)", told, re.MULTILINE))
    assert named == TARGETS - {"programs", "postgres", "chromium"}
    phony = set(stated(r"^\.PHONY: (.+)$", MAKEFILE).split())
    assert phony == TARGETS
