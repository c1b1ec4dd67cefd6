"""`jrh align`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from mlflow.exceptions import MlflowException
from mlflow.genai.scorers import list_scorers

from jrh_mlflow.cli.align import align
from jrh_mlflow.errors import JrhError
from jrh_mlflow.tracking.judges.judge_registry import active_store
from tests.cases import few
from tests.people.loopback_judge import GUIDELINE, judging
from tests.people.rated_store import NAME, RatedStore, rate_traces
from tests.tracking.judges.mlflow_chat import ChatServer

pytestmark = pytest.mark.filterwarnings("ignore:.*held-out traces cannot show:jrh_mlflow.errors.JrhWarning")
INNER = "tests.people.loopback_judge:AddsGuideline"


@pytest.fixture(scope="module")
def rated(store_uri: str) -> RatedStore:
    return rate_traces(store_uri, "jrh align", n=50, pass_rate=0.4, values=(False, True))


@pytest.fixture
def server(rated: RatedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with judging(rated, monkeypatch) as server:
        yield server


@pytest.fixture
def judges(tmp_path: Path) -> Path:
    """A file of the user's with a judge and optimisers."""
    path = tmp_path / "judges.py"
    path.write_text(
        "from tests.people.loopback_judge import AddsGuideline, lenient_judge\n"
        "judge, name = lenient_judge(), 'polite'\n"
        "class Fails(AddsGuideline):\n"
        "    def align(self, judge, traces):\n"
        "        raise RuntimeError('no more credit')\n"
        "class Nothing(AddsGuideline):\n"
        "    def align(self, judge, traces):\n"
        "        return judge\n"
        "class Choosy(AddsGuideline):\n"
        "    def __init__(self, model):\n"
        "        pass\n"
        "from tests.people.alignment.align_tools import CodeJudge\n"
        f"own = CodeJudge(lambda *_: True, name={NAME!r})\n"
    )
    return path


def run(rated: RatedStore, judge: object, *options: str) -> Result:
    given = [str(judge), "--traces", rated.source, "--tracking-uri", rated.uri, *options]
    return CliRunner().invoke(align, given)


def refused(done: Result) -> tuple[int, str]:
    assert isinstance(done.exception, JrhError), done.output
    return done.exception.exit_code, str(done.exception)


def test_the_decision_is_printed_logged_and_the_judge_registered(rated, server, judges):
    done = run(rated, f"{judges}:judge", "--optimizer", INNER, "--register", "kind", "--no-suite")
    assert done.exit_code == 0, done.output
    assert f"Alignment of '{NAME}': better" in done.stdout
    assert "it is better" in done.stdout
    assert "logged: " in done.stdout
    assert "registered: kind" in done.stdout
    with active_store(rated.uri):
        assert [one.name for one in list_scorers(experiment_id=rated.experiment_id)] == ["kind"]


@pytest.mark.slow
def test_a_judge_that_is_sent_back_ends_with_0_too_and_is_not_registered(rated, server, judges):
    nothing = ("--optimizer", f"{judges}:Nothing", "--no-suite", "--register", "same", "--no-log", "--json")
    done = run(rated, f"{judges}:judge", *nothing)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["decision"], facts["run_id"]) == ("sent back", None)
    assert "Not registered: it was sent back." in done.stderr


def test_a_registered_judge_is_found_by_its_name(rated, server, judges):
    with active_store(rated.uri):
        from tests.people.loopback_judge import lenient_judge

        lenient_judge().register(experiment_id=rated.experiment_id)
    done = run(rated, NAME, "--optimizer", INNER, "--no-suite", "--no-log", "--markdown")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"# Alignment of '{NAME}': better")
    code, said = refused(run(rated, "corect", "--optimizer", INNER))
    assert code == 2
    assert f"There is no judge 'corect' in experiment 'jrh align'. Did you mean {NAME!r}?" in said


@pytest.mark.parametrize(
    ("judge", "options", "said"),
    [
        ("judge", ["--optimizer", "simbad"], "Unknown optimizer 'simbad'. Did you mean 'simba'?"),
        ("name", ["--optimizer", INNER], "is no judge that MLflow can align, but str"),
        ("nobody", ["--optimizer", INNER], "has no 'nobody'"),
        ("judge", ["--optimizer", INNER, "--traces", "support"], "Traces are given as traces:/EXPERIMENT"),
        ("judge", ["--optimizer", INNER, "--traces", "traces:/no such"], "There is no experiment 'no such'"),
        ("judge", ["--optimizer", INNER, "--max-traces", "6"], "held-out traces can decide nothing"),
        ("judge", ["--optimizer", INNER, "--scale", "good"], "A scale is two or more labels"),
        ("judge", ["--optimizer", INNER, "--scale", "a,'b"], "one of a, 'b"),
        ("judge", ["--optimizer", INNER, "--scale", "0-100"], "must be a number"),
        ("own", ["--optimizer", INNER, "--register", "kind"], "cannot be registered with MLflow"),
    ],
)
def test_bad_input_is_one_line_with_exit_code_2_before_anything_is_asked(rated, server, judges, judge, options, said):
    code, line = refused(run(rated, f"{judges}:{judge}", *options))
    assert (code, "\n" in line) == (2, False)
    assert said in line
    assert server.bodies == []


@pytest.mark.parametrize(
    ("optimizer", "said"),
    [
        ("judge", "has the method align(judge, traces), but got InstructionsJudge"),
        ("name", "has the method align(judge, traces), but got str"),
        ("lenient_judge", "has the method align(judge, traces), but got function"),
        ("Choosy", "cannot be made without arguments: TypeError"),
    ],
)
def test_what_is_no_optimiser_is_one_line_with_exit_code_2(rated, server, judges, optimizer, said):
    code, line = refused(run(rated, f"{judges}:judge", "--optimizer", f"{judges}:{optimizer}"))
    assert (code, "\n" in line) == (2, False)
    assert said in line
    assert server.bodies == []


@pytest.mark.slow
@pytest.mark.parametrize("logged", few([True, False]))
def test_a_registration_that_fails_is_told_after_the_result(rated, server, judges, monkeypatch, logged):
    def full(*_: Any, **__: Any) -> None:
        raise MlflowException("no room for\none more")

    monkeypatch.setattr("mlflow.genai.judges.instructions_judge.InstructionsJudge.register", full)
    options = ["--no-suite", "--register", "kind", *([] if logged else ["--no-log"])]
    done = run(rated, f"{judges}:judge", "--optimizer", INNER, *options)
    code, said = refused(done)
    assert code == 4
    assert "did not register 'kind': no room for one more" in said
    assert f"Alignment of '{NAME}': better" in done.stdout
    assert ("judge/after.txt" in said, "No run was logged" in said) == (logged, not logged)
    assert (GUIDELINE in done.output) is not logged


@pytest.mark.parametrize("name", ["simba", "gepa", "memalign"])
def test_a_missing_library_of_mlflows_optimisers_is_one_line(rated, server, judges, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "dspy", None)
    for module in [one for one in sys.modules if one.startswith("mlflow.genai.judges.optimizers")]:
        monkeypatch.delitem(sys.modules, module)
    assert refused(run(rated, f"{judges}:judge", "--optimizer", name)) == (
        2,
        f"{name} needs DSPy: pip install 'jrh-mlflow[align]'.",
    )


@pytest.mark.slow
def test_a_service_that_fails_ends_with_4(rated, server, judges):
    code, said = refused(run(rated, f"{judges}:judge", "--optimizer", f"{judges}:Fails", "--no-suite", "--no-log"))
    assert (code, said) == (4, "Fails failed: RuntimeError: no more credit")
    server.reply = lambda _: 400
    code, said = refused(run(rated, f"{judges}:judge", "--optimizer", INNER, "--no-log"))
    assert code == 4
    assert "gave no verdict on 2" in said
    assert "nothing was aligned" in said


def test_the_store_that_was_active_before_is_active_again(rated, monkeypatch):
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mine.db")
    before: Any = mlflow.get_tracking_uri()
    with active_store(rated.uri):
        assert mlflow.get_tracking_uri() == rated.uri
    assert mlflow.get_tracking_uri() == before == "sqlite:///mine.db"
