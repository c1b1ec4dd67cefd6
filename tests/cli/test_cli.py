"""The command line, run as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jrh_mlflow.measuring.resolve import load_suite
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.suites import datasheet_suite
from tests import processes
from tests.cli.conftest import Jrh

ROOT = Path(__file__).parents[2]


def test_help_loads_no_heavy_library(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom jrh_mlflow.cli.main import group\n"
        "try:\n    group(['evaluate', '--help'], standalone_mode=False)\nexcept SystemExit:\n    pass\n"
        "heavy = ('mlflow', 'litellm', 'optuna', 'pandas', 'scipy', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.endswith("[]\n")


def test_evaluate_prints_json_and_logs_the_run(store_uri: str) -> None:
    arguments = (
        "--judge",
        f"{ROOT / 'recipes' / 'own_judge.py'}:judge",
        "--suite",
        "datasheet-short",
        "--experiment",
        "tests",
        "--traces",
        "none",
        "--json",
    )
    done = processes.run(processes.JRH, "evaluate", *arguments, "--tracking-uri", store_uri)
    assert done.returncode == 0, done.stderr
    (facts,) = json.loads(done.stdout)
    assert facts["judge"] == "own_judge:judge"
    assert facts["simulated"] is False
    assert facts["metrics"]["calls/total"] == 2 * len(load_suite("datasheet-short"))


def test_options_that_were_given_override_the_recipe_and_defaults_do_not(
    jrh: Jrh, tmp_path: Path, store_uri: str
) -> None:
    import mlflow

    jrh("suite", "build", "-o", "small", "--n-tasks", "1", "--depth", "1")
    text = "judge: scripted:Qwen32B\nsuite: small\nseed: 5\nreplicates: 3\n"
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    given = ("--replicates", "2", "--criterion", "strict", "--tracking-uri", store_uri, "--json")
    done = jrh("evaluate", "recipe.yaml", *given)
    assert done.code == 0, done.err
    (facts,) = json.loads(done.out)
    logged = mlflow.MlflowClient(store_uri).get_run(facts["run_id"]).data.params
    assert (logged["run.seed"], logged["run.replicates"]) == ("5", "2")
    assert logged["judge.tie_criterion"] == "strict"


def test_a_dry_run_of_a_recipe_takes_model_and_price_from_the_options(jrh: Jrh, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text("judge: openai/unpriced\nsuite: datasheet-short\n", encoding="utf-8")
    usd = []
    for more in ((), ("--price", "1,2"), ("--price", "1,2", "--rubric", "A long rubric. " * 50)):
        done = jrh("evaluate", "recipe.yaml", "--dry-run", "--json", *more)
        assert done.code == 0, done.err
        usd.append(json.loads(done.out)["usd"])
    assert usd[0] is None
    assert 0 < usd[1] < usd[2]


def test_texts_in_a_table_begin_below_one_another(jrh: Jrh) -> None:
    header, *rows = jrh("suite", "tasks").out.splitlines()
    start = header.index("about")
    assert all(row[start - 2 : start] == "  " and row[start] != " " for row in rows)


def test_shift_prints_the_table(jrh: Jrh, store_uri: str) -> None:
    asked = ("--judge", "scripted:Qwen32B", "--suite", "datasheet-paper", "--tracking-uri", store_uri)
    done = jrh("shift", *asked)
    assert done.code == 0, done.err
    name = axis_name("tie_rate/delta_0_same")
    (row,) = [line.removeprefix(name).split() for line in done.out.splitlines() if line.startswith(name)]
    assert row == ["0.74", "1.00", "+0.26", "[0.07,", "0.39]", "120", "calls"]
    whole = jrh("shift", *asked, "--markdown")
    assert f"| {name} | 0.74 | 1.00 | +0.26 |" in whole.out


def test_replay_reads_a_mapping_from_the_command_line(jrh: Jrh, tmp_path: Path, store_uri: str) -> None:
    (tmp_path / "judged.csv").write_text("id,gold,ab,ba\nx,1,1,1\ny,2,2,2\n", encoding="utf-8")
    mapping = ("--map", "item=id", "--map", "better=gold", "--map", "uv=ab", "--map", "vu=ba")
    done = jrh("replay", "judged.csv", *mapping, "--tracking-uri", store_uri, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0]["metrics"]["natural/stable_correct/rate"] == 1.0


def test_a_suite_is_built_shown_and_checked(jrh: Jrh, tmp_path: Path) -> None:
    built = jrh("suite", "build", "-o", "mine", "--n-tasks", "2", "--depth", "3")
    assert built.code == 0, built.err
    manifest = json.loads(jrh("suite", "show", "mine", "--json").out)
    assert manifest["sha256"] in built.out
    items = tmp_path / "mine" / "suite.jsonl"
    items.write_bytes(items.read_bytes().replace(b"the", b"The", 1))
    edited = jrh("suite", "show", "mine")
    assert edited.code == 2
    assert "was edited after hashing" in edited.err


def test_the_example_task_is_a_task_of_ones_own(jrh: Jrh, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(jrh("suite", "tasks", "--example").out, encoding="utf-8")
    built = jrh("suite", "build", "--tasks", "task.yaml", "--n-tasks", "1", "-o", "own")
    assert built.code == 0, built.err


def test_natural_pairs_become_a_suite(jrh: Jrh, tmp_path: Path, store_uri: str) -> None:
    (tmp_path / "pairs.csv").write_text("input,o1,o2,label\nq1,good,bad,1\nq2,bad,good,2\n", encoding="utf-8")
    mapping = ("--map", "instruction=input", "--map", "first=o1", "--map", "second=o2", "--map", "better=label")
    built = jrh("suite", "from-pairs", "pairs.csv", *mapping, "-o", "nat")
    assert built.code == 0, built.err
    asked = ("--judge", "scripted:Oracle", "--suite", "nat", "--tracking-uri", store_uri, "--json")
    done = jrh("evaluate", *asked)
    assert json.loads(done.out)[0]["metrics"]["natural/accuracy/rate"] == 1.0


@pytest.mark.slow
def test_the_suite_of_a_run_comes_from_the_store_that_was_named(jrh: Jrh, store_uri: str) -> None:
    asked = (
        "evaluate",
        "--judge",
        "scripted:Oracle",
        "--tracking-uri",
        store_uri,
        "--traces",
        "none",
        "--json",
        "--suite",
    )
    first = json.loads(jrh(*asked, "datasheet-short").out)[0]
    # In a process of its own, which no earlier command told of a store.
    again = processes.run(processes.JRH, *asked, f"runs:/{first['run_id']}/suite")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)[0]["suite"] == first["suite"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("evalute",), 2, "Did you mean 'evaluate'"),
        (("evaluate",), 2, "Give one of --model, --judge"),
        (("evaluate", "--judge", "scripted:Llama8"), 2, "Did you mean 'Llama8B'"),
        (("evaluate", "--judge", "nonsense"), 2, "scripted:NAME"),
        (("evaluate", "--judge", "no_such_module:f"), 2, "cannot be imported"),
        (("evaluate", "--judge", "scripted:Oracle", "--criterion", "strickt"), 2, "Did you mean 'strict'"),
        (
            ("evaluate", "--judge", "scripted:Oracle", "--tracking-uri", "http://127.0.0.1:9"),
            4,
            "The MLflow store at http://127.0.0.1:9 ",
        ),
        (("evaluate", "--judge", "scripted:Oracle", "--suite", "runs:/deadbeef/suite"), 2, "with --tracking-uri"),
        (("evaluate", "--model", "openai/gpt-4o-mini", "--max-usd", "nan"), 2, "positive amount, but got nan"),
        (("evaluate", "--model", "openai/gpt-4o-mini", "--max-usd", "inf"), 2, "positive amount, but got inf"),
        (("evaluate", "--resume", "nowhere"), 2, "'nowhere' does not exist"),
        (("evaluate", "--judge", "scripted:Oracle", "--api-base", "x"), 2, "--api-base: only with --model"),
        (("evaluate", "--model", "a/b", "--requests-per-minute", "0"), 2, "'--requests-per-minute': 0.0 is not"),
        (("evaluate", "--model", "a/b", "--timeout", "-1"), 2, "'--timeout': -1.0 is not"),
        (("evaluate", "--model", "a/b", "--max-usd", "-1"), 2, "'--max-usd': -1.0 is not"),
        (("sweep", "space.yaml", "--max-usd", "0"), 2, "'--max-usd': 0.0 is not"),
        (("suite", "build", "-o", "x", "--n-tasks", "0"), 2, "'--n-tasks': 0 is not"),
        (("suite", "build", "-o", "taken", "--n-tasks", "1"), 2, "File exists: 'taken'"),
        (("suite", "from-pairs", "taken", "-o", "x", "--map", "better"), 2, "--map takes ROLE=COLUMN"),
        (("replay", "missing.csv"), 2, "There is no file missing.csv. Check the path"),
        (("suite", "show", "missing"), 2, "There is no suite"),
        (("replay", "taken", "--map", "item"), 2, "--map takes ROLE=COLUMN"),
        (("ui", "."), 2, ". is not a store"),
        (("ui", "nowhere"), 2, "nowhere is not a store"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(
    jrh: Jrh, arguments: tuple[str, ...], code: int, text: str, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    done = jrh(*arguments)
    assert done.code == code, done.err
    assert text in done.err
    assert "Traceback" not in done.err


_CHATTY_JUDGE = """
import logging

def judge(presentation):
    logging.getLogger("mlflow.store").info("INFO that nobody asked for")
    logging.getLogger("mlflow.store").warning("a warning that matters")
    return "tie"
"""


_SAYS_WHAT_DRAWS = """
import atexit, sys
loaded = lambda: [name for name in ("matplotlib.figure", "matplotlib.pyplot") if name in sys.modules]
atexit.register(lambda: print("loaded to draw:", loaded(), file=sys.stderr))
"""


def test_on_a_fresh_store_mlflow_prints_no_info_line_its_warnings_stay_and_figures_are_drawn_without_pyplot(
    tmp_path: Path,
) -> None:
    (tmp_path / "chatty.py").write_text(_CHATTY_JUDGE, encoding="utf-8")
    datasheet_suite(n_tasks=2, depth=1, design="short").save(tmp_path / "small")
    store = ("--tracking-uri", f"sqlite:///{tmp_path}/fresh.db")
    asked = ("evaluate", "--judge", "chatty.py:judge", "--suite", "small", "--json", *store)
    # From the start: loggers are set when mlflow is imported.
    started = [sys.executable, "-c", _SAYS_WHAT_DRAWS + processes.JRH, *asked]
    done = subprocess.run(started, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) == 1
    assert "a warning that matters" in done.stderr
    assert "INFO" not in done.stderr
    assert "Running upgrade" not in done.stderr
    assert "loaded to draw: ['matplotlib.figure']" in done.stderr
    assert list(tmp_path.rglob("figures/axes_map.svg"))
