"""`jrh.jury` on evaluations in a real MLflow store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.compare import compare as command
from jrh_mlflow.comparing.jury.jury import jury_figures
from jrh_mlflow.comparing.jury.panels import TIES, BestPanel
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.schema.items import Item
from tests import drawing
from tests.comparing.jury.jury_tools import family_errors
from tests.logged_runs import numbers_of

N = 80
Judge = Callable[[jrh.Presentation], jrh.Answer]


def suite(*, name: str = "hand", n: int = N) -> jrh.Suite:
    items = [
        Item(
            id=f"s{number:03d}/typos",
            task=f"s{number:03d}",
            condition="typos",
            kind="response",
            instruction="Explain the tides.",
            rubric="Is it right?",
            response=f"answer {number}",
            answers=("no", "yes"),
            expected=("no", "yes")[number % 2],
        )
        for number in range(n)
    ]
    return jrh.Suite(name=name, items=items)


def judge(name: str, wrong: np.ndarray, *, usd: float | None) -> Judge:
    """A judge that errs where it is told to."""

    def answer(presentation: jrh.Presentation) -> jrh.Answer:
        number = int(str(presentation.response).split()[1])
        value = ("no", "yes")[(number % 2) ^ int(wrong[number])]
        return jrh.Answer(value=value, cost_usd=usd)

    answer.__qualname__ = name
    return answer


@pytest.fixture(scope="module")
def runs(store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run ids of six judges of one family, of one without a price, and of two on pairs."""
    wrong = family_errors(6, N, copies=0.7, error=0.3, seed=1)
    judges = {f"j{number}": judge(f"j{number}", wrong[:, number], usd=0.001 * (number + 1)) for number in range(6)}
    judges["unpriced"] = judge("unpriced", wrong[:, 0], usd=None)
    options = {"experiment": "juries", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JRH_HOME", str(tmp_path_factory.mktemp("home")))
        found = {name: jrh.evaluate(one, suite(), **options).run_id for name, one in judges.items()}
        pairs = jrh.datasheet_suite(n_tasks=2, depth=1)
        scripted = {
            "oracle": jrh.scripted.Oracle(),
            "first": jrh.scripted.AlwaysFirst(),
            "tie": jrh.scripted.AlwaysTie(),
        }
        found |= {name: jrh.evaluate(one, pairs, **options).run_id for name, one in scripted.items()}
        yield found


def six(runs: dict[str, str]) -> list[str]:
    return [runs[f"j{number}"] for number in range(6)]


@pytest.fixture(scope="module")
def done(runs: dict[str, str], store_uri: str) -> jrh.Jury:
    with pytest.MonkeyPatch.context() as patch:
        drawing.draw_again(patch.setattr)
        return jrh.jury(six(runs), tracking_uri=store_uri)


def test_a_jury_is_a_run_of_its_own_with_everything_in_it(done, runs, store_uri, tmp_path):
    client = MlflowClient(tracking_uri=store_uri)
    run = client.get_run(done.run_id)
    assert run.info.status == "FINISHED"
    assert client.get_experiment(run.info.experiment_id).name == "juries"
    assert run.data.tags["jrh.kind"] == "jury"
    assert run.data.tags["jrh.simulated"] == "false"
    assert run.data.tags["mlflow.note.content"].splitlines()[2].startswith("**")
    assert run.data.params["jury.runs"] == ", ".join(six(runs))
    assert (run.data.params["jury.ties"], run.data.params["jury.min_votes"]) == ("abstain", "4")
    assert run.data.params["suite.sha256"] == suite().sha256
    assert run.data.metrics == pytest.approx(done.metrics)
    folder = Path(client.download_artifacts(done.run_id, "", str(tmp_path)))
    assert {path.name for path in (folder / "figures").iterdir()} == {"agreement.svg"}
    assert {path.stem for path in (folder / "tables").iterdir()} == {"agreement", "answers", "judges", "panels"}
    assert (folder / "jury.md").read_text(encoding="utf-8") == done.to_markdown()
    facts = json.loads((folder / "jury.json").read_text(encoding="utf-8"))
    assert facts["effective_votes"]["value"] == done.metrics["jury/effective_votes/value"]
    assert len(pd.read_csv(folder / "tables" / "panels.csv")) == 20
    measured = jrh.measure(pd.read_csv(folder / "tables" / "answers.csv"))
    assert measured.estimates["typos/accuracy"].value == done.metrics["jury/accuracy/rate"]


def test_the_metrics_hold_what_the_jury_reads(done):
    metrics = done.metrics
    assert metrics["jury/size"] == 6
    assert metrics["jury/n_units"] == metrics["jury/accuracy/n"] == N
    assert metrics["jury/accuracy/ci_low"] < metrics["jury/accuracy/rate"] < metrics["jury/accuracy/ci_high"]
    assert metrics["jury/error_rate/rate"] == pytest.approx(1 - metrics["jury/accuracy/rate"])
    assert {"jury/fpr/rate", "jury/fnr/rate", "jury/no_decision/rate", "jury/best/accuracy/rate"} <= set(metrics)
    assert metrics["jury/usd_per_1k"] == pytest.approx(21)
    assert metrics["jury/best/optimism"] == pytest.approx(
        metrics["jury/best/in_sample"] - metrics["jury/best/accuracy/rate"]
    )
    assert not any(key.endswith("effective_votes/rate") for key in metrics)


def test_six_judges_of_one_family_are_fewer_votes_than_six(done):
    number = done.report.effective_votes
    assert isinstance(number, Estimate)
    assert number.cluster_low is not None
    assert number.cluster_high is not None
    assert number.cluster_low < 6 / (1 + 5 * 0.49) < number.cluster_high < 3
    assert "of 6 votes" in done.to_markdown()


def test_the_numbers_of_the_judges_are_those_of_their_runs(done, runs, store_uri):
    logged = numbers_of(store_uri, runs["j2"])
    seat = done.report.seats["j2"]
    for axis in ("accuracy", "error_rate", "fpr", "fnr"):
        reading = seat.readings[axis]
        assert isinstance(reading, Estimate)
        assert reading.value == pytest.approx(logged[f"all/{axis}/rate"])
        assert reading.cluster_low == pytest.approx(logged[f"all/{axis}/cluster_ci_low"])
    assert seat.usd_per_1k == pytest.approx(logged["cost/usd_per_1k_calls"])


@pytest.mark.slow
def test_the_same_jury_twice_is_the_same_jury(done, runs, store_uri):
    again = jrh.jury(six(runs), tracking_uri=store_uri, log=False)
    assert again.run_id is None
    assert again.metrics == done.metrics
    assert again.to_markdown() == done.to_markdown()


def test_a_limit_in_dollars_leaves_out_what_has_no_price(runs, store_uri):
    names = [*six(runs)[:3], runs["unpriced"]]
    found = jrh.jury(names, tracking_uri=store_uri, size=2, max_usd=3.5, log=False).report
    assert isinstance(found.best, BestPanel)
    assert set(found.best.panel) == {"j0", "j1"}
    assert found.best.unpriced == ("unpriced",)
    assert found.jury.usd_per_1k is None
    with pytest.raises(RecipeError, match=r"No panel of 2 costs at most \$1"):
        jrh.jury(names, tracking_uri=store_uri, size=2, max_usd=1, log=False)


def test_a_jury_of_simulated_judges_on_pairs_says_so_and_has_no_correlation_without_errors(runs, store_uri):
    found = jrh.jury([runs[name] for name in ("oracle", "first", "tie")], tracking_uri=store_uri, log=False)
    assert "Simulated judges" in found.to_markdown()
    assert isinstance(found.report.effective_votes, NotEstimable)
    assert "Oracle (simulated) is never wrong" in found.report.effective_votes.reason
    assert "jury/effective_votes/value" not in found.metrics
    assert found.report.best is None, "of three judges there is one trio"
    # The first slot holds the better one in one order of two; then two of three votes are right.
    assert found.metrics["jury/accuracy/rate"] == 0.5
    assert found.metrics["jury/no_decision/rate"] == 0.5
    assert set(jury_figures(found.report, title="x")) == {"agreement.png"}


def test_the_figure_is_drawn_at_a_readable_size(done, store_uri, tmp_path):
    client = MlflowClient(tracking_uri=store_uri)
    data = Path(client.download_artifacts(done.run_id, "figures/agreement.svg", str(tmp_path))).read_text("utf-8")
    width, height = map(int, re.findall(r'(?:width|height)="(\d+)"', data)[:2])
    assert data.startswith("<svg xmlns=")
    assert 700 < width < 1400
    assert 400 < height < 1200


def test_the_command_offers_exactly_what_the_measures_know():
    (offered,) = [tuple(one.type.choices) for one in command.params if one.name == "ties"]
    assert offered == TIES


def test_runs_on_different_suites_are_refused_with_what_differs(runs, store_uri):
    with pytest.raises(RecipeError, match="are on different suites"):
        jrh.jury([runs["j0"], runs["oracle"]], tracking_uri=store_uri)


@pytest.mark.parametrize(
    ("names", "options", "text"),
    [
        (["j0"], {}, "at least two runs"),
        (["j0", "j0"], {}, "named twice"),
        (["j0", "j1"], {"ties": "lots"}, "Unknown ties"),
        (["j0", "j1"], {"max_usd": 2.0}, "name its size"),
        (["j0", "j1"], {"size": 5}, "cannot be chosen from 2 judges: give 1 to 2"),
        (["j0", "j1", "j2", "j3"], {"size": 0}, "A panel of 0 cannot be chosen from 4 judges"),
        (["j0", "j1", "j2", "j3"], {"size": 9, "max_usd": 5.0}, "A panel of 9 cannot be chosen from 4 judges"),
        (["j0", "unpriced"], {"size": 2, "max_usd": 5.0}, r"price of 1 judges is unknown \(unpriced\)"),
        (["j0", "j1", "j2", "j3"], {"max_usd": -1.0}, r"more than \$0 per 1,000 judgments, but got -1"),
        (["j0", "j1"], {"max_usd": float("inf"), "size": 1}, "but got inf"),
        (["j0", "j1"], {"max_usd": 0.0, "size": 1}, "but got 0"),
        (["j0", "j1", "j2", "j3"], {"min_votes": 99}, "`1 <= min_votes <= 4`"),
    ],
)
def test_what_is_no_jury_is_refused_before_a_run_is_made(names, options, text, runs, store_uri):
    client = MlflowClient(tracking_uri=store_uri)
    experiment = client.get_experiment_by_name("juries")
    assert experiment is not None
    before = len(client.search_runs([experiment.experiment_id]))
    with pytest.raises(RecipeError, match=text):
        jrh.jury([runs[name] for name in names], tracking_uri=store_uri, **options)
    assert len(client.search_runs([experiment.experiment_id])) == before


def test_the_command_prints_the_page_and_logs_a_run(runs, store_uri):
    arguments = [*six(runs)[:3], "--jury", "--ties", "lowest"]
    ended = CliRunner().invoke(command, [*arguments, "--tracking-uri", store_uri, "--run-name", "trio"])
    assert ended.exit_code == 0, ended.output
    assert "Jury of 3 judges on hand" in ended.output
    run_id = ended.output.rpartition("logged: run ")[2].split()[0]
    run = MlflowClient(tracking_uri=store_uri).get_run(run_id)
    assert (run.info.run_name, run.data.tags["jrh.kind"]) == ("trio", "jury")
    assert run.data.params["jury.ties"] == "lowest"


def test_the_command_speaks_json_and_can_leave_mlflow_alone(runs, store_uri):
    arguments = [*six(runs)[:4], "--jury", "--size", "2", "--json", "--no-log", "--tracking-uri", store_uri]
    facts = json.loads(CliRunner().invoke(command, arguments).output)
    assert facts["run_id"] is None
    assert facts["ties"] == "abstain"
    assert facts["best"]["size"] == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--size", "2"], "--size is of a jury: add --jury"),
        (["--jury", "--margin", "0.1"], "--margin is of a comparison: leave out --jury"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(options, text, runs, store_uri):
    ended = CliRunner().invoke(command, [*six(runs)[:3], *options, "--tracking-uri", store_uri])
    assert ended.exit_code == 2
    assert text in ended.output
