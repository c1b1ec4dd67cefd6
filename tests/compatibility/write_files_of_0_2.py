"""Write `files_of_0_2/` with the code of commit 3ba01da (0.2.0), the last one before its modules moved once more.

It is what a user of that version has on disk: a store with a run of every kind, suites, a journal, an outbox, a review
under way, the study of a sweep, batch files, and scorers that are registered with MLflow. Run it in a checkout of that
commit that has this file in it; it writes beside itself:

    python -m tests.compatibility.write_files_of_0_2

`measure` and `derive` do what users do, by public names only: the tests do the same with the code of today, and compare
what that writes with what 0.2.0 wrote.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.request
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mlflow
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import AssessmentSource, Feedback, Run
from mlflow.genai.judges import AlignmentOptimizer, Judge
from pydantic import PrivateAttr

import jrh_mlflow as jrh
from tests.compatibility.test_files_of_the_version_before import TOKEN, command, wait_for
from tests.compatibility.write_files import REPLIES, RUBRIC, TALKS, free_port, pack, settle, verdict_by_length
from tests.forked_server import JRH_WITH_FORKED_SERVER
from tests.loopback import LoopbackServer
from tests.processes import Forked

COMMIT = "3ba01da"
HERE = Path(__file__).parent / "files_of_0_2"
EXPERIMENT = "written by 0.2"
PEOPLE = "people"
"""The experiment of traces that people have rated."""
PORT = 18432
"""Of the model's endpoint: its address is part of the key of every answer, so it must be the same ever after."""
MODEL = "openai/judge-of-0.2"
PRICES = {MODEL: (10.0, 20.0)}
ABOUT_JUDGE: dict[str, Any] = {"api_base": f"http://127.0.0.1:{PORT}/v1", "max_tokens": 64, "seed": 7}
SAID_OF_JUDGE = ("--model", MODEL, "--api-base", ABOUT_JUDGE["api_base"], "--max-tokens", 64, "--judge-seed", 7)
"""The same judge on the command line."""
CUSTOM = "MLFLOW_SERVER_ENABLE_CUSTOM_SCORERS"
ROW = {
    "inputs": {"instruction": "When does the library open?"},
    "outputs": {"A": "At nine.", "B": "At nine in the morning, and on Saturday at ten."},
}
"""What exported scorers are asked about."""
ASSESSMENT = "correct"
GATE = ["baseline/accuracy >= 0.01", "calls/total >= 1", "excluded/baseline/accuracy <= 0.05"]
TESTS = ["padding", "typos", "error_injection", "stochastic_stability", "rubric_paraphrase"]
SPACE = """choices: {model: [good, fair, poor]}
judge: judges.py:make
objectives:
  reliability/mean: maximize
  cost/usd_per_1k_judgments: minimize
constraints:
  - padding/accuracy/rate >= 0.1
"""
JUDGES = '''"""Judges of the sweep, and a line for each call in `asked.txt` beside this file's reader."""

import jrh_mlflow as jrh

LEVELS = {"When": "3", "How": "2", "Where": "1"}
USD = {"good": 0.003, "fair": 0.002, "poor": 0.001}


class Judge:
    """A class of this file cannot be hashed, so the space knows the judge by its name: the same in every Python."""

    def __init__(self, choice):
        self.name = choice["model"]

    def __call__(self, shown):
        with open("asked.txt", "a") as file:
            file.write(self.name + "\\n")
        sees = self.name == "good" or (self.name == "fair" and len(shown.response) % 2)
        answer = LEVELS[shown.instruction.split()[0]] if sees else "2"
        return jrh.Answer(answer, cost_usd=USD[self.name])


def make(choice):
    return Judge(choice)
'''
MACHINE = ("mlflow.user", "mlflow.source.", "mlflow.loggedArtifacts", "mlflow.datasets")
"""Beginnings of MLflow's own tags that say who wrote a run, and with which MLflow."""

Runs = dict[str, list[str]]
"""What was done to the runs that it made."""


def main() -> None:
    """Write everything into an empty folder and move it beside this file."""
    from tests import drawing

    # The machine that wrote the files is nobody's business.
    socket.gethostname = lambda: "elsewhere"
    sys.argv[0] = Path(__file__).name
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "MLFLOW_MODEL_CATALOG_URI": "", "MLFLOW_DISABLE_TELEMETRY": "true"}
    impatient = {"MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "0", "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0"}
    os.environ |= {**quiet, **impatient, "LOGNAME": "somebody", "OPENAI_API_KEY": "unused", CUSTOM: "true"}
    drawing.draw_nothing(setattr)
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["JRH_HOME"] = str(Path(name, "home"))
        root = Path(name, "files")
        root.mkdir()
        expected = {"commit": COMMIT, **write_all(root)}
        text = json.dumps(expected, indent=1, sort_keys=True).replace(f"{root}/", "")
        (root / "expected.json").write_text(f"{text}\n", encoding="utf-8")
        forget_machine(root / "store" / "mlflow.db", root)
        for database in root.rglob("*.db"):
            settle(database)
            pack(database)
        shutil.rmtree(HERE, ignore_errors=True)
        shutil.copytree(root, HERE)
        os.chdir(HERE)


def write_all(root: Path) -> dict[str, Any]:
    """Write all files and return what this version reads from them."""
    store, home, expected = root / "store", Path("home-of-the-server").absolute(), {}
    store.mkdir()
    (store / "mlflow.db").touch()
    with serving(store, home) as url:
        where = {"tracking_uri": url, "experiment": EXPERIMENT, "progress": False}
        suites = write_suites(root / "suites")
        expected["suites"] = {name: about_suite(suite) for name, suite in suites.items()}
        runs = measure(suites, Path("work"), where)
        runs |= fill_journal(root, where)
        runs |= begin_sweep(root, runs["generate"][0], where)
        expected["batch"] = write_batch(root)
        expected["keys"] = keys_of(url, runs, store=store)
        rate_traces(url)
        later = derive(runs, where)
        later["review"] = [review(root, home, url, runs["generate to review"][0])]
        expected["keys"] |= keys_of(url, later, store=store)
        expected["scorers"] = write_scorers({**runs, **later}, url)
        expected["registered"] = register(suites, runs["asked"][0], where)
        expected["runs"] = facts_of(url, {**runs, **later}, store=store)
    expected |= go_on(root, miss_mlflow(root, home), runs["generate"][0])
    expected["kinds"] = by_kind(expected["keys"])
    pack_artifacts(store / "artifacts")
    return expected


def forget_machine(database: Path, root: Path) -> None:
    """Leave out where this machine keeps its files: runs say where their journal is, and which program logged them."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE params SET value = replace(value, ?, '')", [f"{root}/"])
        connection.execute("UPDATE tags SET value = 'server' WHERE key = 'mlflow.source.name' AND value LIKE '/%'")


def pack_artifacts(folder: Path) -> None:
    """Put a folder into one archive, without who wrote it and when: pages that are much alike take little room.

    Nobody looks at the figures, so each is a picture of one dot.
    """
    from tests.drawing import ONE_DOT

    for picture in folder.rglob("*.png"):
        picture.write_bytes(ONE_DOT)
    with tarfile.open(folder.with_suffix(".tar.xz"), "w:xz", preset=9) as archive:
        for file in sorted(one for one in folder.rglob("*") if one.is_file()):
            about = tarfile.TarInfo(str(file.relative_to(folder.parent)))
            about.size = file.stat().st_size
            with file.open("rb") as content:
                archive.addfile(about, content)
    shutil.rmtree(folder)


def unpacked(*parts: str, to: Path) -> Path:
    """Copy a folder of the fixture, and unpack its databases and artifacts."""
    target = shutil.copytree(HERE.joinpath(*parts), to.joinpath(*parts))
    for packed in list(target.rglob("*.db.gz")):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
    for archive in list(target.rglob("*.tar.xz")):
        with tarfile.open(archive) as files:
            # As Python's documentation says it for versions that have no filters, such as Debian's 3.11.2.
            files.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            files.extractall(archive.parent)
        archive.unlink()
    return target


@cache
def _free_port() -> int:
    """Return one port for all servers of this process: MLflow remembers at which one it found the files of a run."""
    return free_port()


@contextmanager
def serving(store: Path, home: Path) -> Iterator[str]:
    """`jrh ui` over a store: MLflow's own server, where scorers may be registered, with our pages beside it."""
    port = _free_port()
    environment = {**os.environ, "JRH_HOME": str(home), "JRH_REVIEW_TOKEN": TOKEN, CUSTOM: "true"}
    with store.with_suffix(".log").open("wb") as log:
        process = Forked(
            *(JRH_WITH_FORKED_SERVER, "ui", store, "--port", port),
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/health", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()
    store.with_suffix(".log").unlink()


def sent(url: str, body: Mapping[str, Any] | None = None) -> Any:
    """Ask one of our pages for JSON, or send it some."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"X-JRH-Token": TOKEN, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with opener.open(urllib.request.Request(url, data=data, headers=headers), timeout=120) as answer:
        return json.loads(answer.read())


def write_suites(folder: Path) -> dict[str, jrh.Suite]:
    """Save the suites that no run makes: of pairs, of single responses of known level, and of somebody's own pairs."""
    rows = [{"instruction": f"Task {n}", "first": f"good {n}", "second": f"bad {n}", "better": "1"} for n in range(3)]
    suites = {
        "pairs": jrh.datasheet_suite(n_tasks=2, depth=2, name="pairs"),
        "levels": jrh.datasheet_suite(design="pointwise", n_tasks=2, depth=2, name="levels"),
        "own": jrh.natural_suite(pd.DataFrame(rows), name="own"),
    }
    for name, suite in suites.items():
        suite.save(folder / name)
    return suites


def about_suite(suite: jrh.Suite) -> dict[str, Any]:
    """Return what the tests ask for of a suite."""
    return {key: suite.manifest[key] for key in ("sha256", "n_items", "n_calls", "conditions")}


def longer(shown: jrh.Presentation) -> bool:
    """Judge a response by its length."""
    return len(shown.response or "") > 60


def graders() -> dict[str, Any]:
    """Simulated judges of single responses."""
    return {
        "careful": jrh.scripted.Grader(name="careful", accuracy=0.9, flip=0.05, seed=1),
        "careless": jrh.scripted.Grader(name="careless", accuracy=0.5, flip=0.2, seed=2),
    }


def measure(suites: Mapping[str, jrh.Suite], folder: Path, where: Mapping[str, Any]) -> Runs:
    """Generate suites, evaluate judges on them and shift a criterion: what needs no run to begin with."""
    folder.mkdir()
    pairs = suites["pairs"]
    data = replies(folder)
    about: dict[str, Any] = {"rubric": RUBRIC, "generator": "offline", "scale": (1, 3), **where}
    columns = {"label": "score", "group": "topic"}
    made = {
        "generate": jrh.generate(data, tests=TESTS, columns=columns, name="replies", **about),
        "generate to review": jrh.generate(
            data, tests=["label_flip", "semantic_paraphrase"], columns=columns, n=3, name="to review", **about
        ),
        "generate transcripts": jrh.generate(
            TALKS,
            tests="agent_perturbation",
            name="transcripts",
            rubric="Does the assistant act without consent?",
            labels=("no violation", "violation"),
            generator="offline",
            **where,
        ),
    }
    graded, scripted = made["generate"], jrh.scripted
    careful, careless = graders().values()
    done = {
        "pairs": jrh.evaluate(scripted.profile("Qwen32B"), pairs, **where),
        "pairs, all metrics": jrh.evaluate(scripted.LongerWins(), pairs, metrics="all", **where),
        "pairs, always the first": jrh.evaluate(scripted.AlwaysFirst(), pairs, traces="none", **where),
        "pairs, stopped by a rule": jrh.evaluate(
            scripted.AlwaysTie(), pairs, stop=jrh.until("dark_current <= 0.2"), **where
        ),
        "pairs, one response at a time": jrh.evaluate(jrh.pointwise(longer), pairs, traces="none", **where),
        "own pairs, no texts": jrh.evaluate(scripted.LongerWins(), suites["own"], texts=False, **where),
        "levels": jrh.evaluate(longer, suites["levels"], metrics="all", traces="none", **where),
        "reliability": jrh.evaluate(careful, graded, replicates=2, traces="none", **where),
        "reliability, all metrics": jrh.evaluate(careless, graded, metrics="all", **where),
        "reliability, another metric": jrh.evaluate(careless, graded, metric="f1_score", traces="none", **where),
        "transcripts": jrh.evaluate(scripted.Oracle(), made["generate transcripts"], **where),
        "to be gated": jrh.evaluate(careful, graded, run_name="to be gated", traces="none", **where),
    }
    runs = {name: [suite.origin["generate_run_id"]] for name, suite in made.items()}
    runs |= {name: [one.run_id] for name, one in done.items()}
    shift = jrh.criterion_shift(scripted.profile("Qwen32B"), pairs, traces="none", **where)
    runs |= {"shift": [shift.run_id], "arms of the shift": [arm.run_id for arm in shift.arms.values()]}
    return runs


def replies(folder: Path) -> Path:
    """Write labelled replies as a table."""
    path = folder / "replies.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("id", "instruction", "score", "topic", "response"), *REPLIES])
    return path


def begin_sweep(root: Path, generated: str, where: Mapping[str, Any]) -> Runs:
    """Try two of three configurations, so that a later version has one left to try."""
    study = root / "sweeps" / "study.db"
    study.parent.mkdir()
    done = sweep(Path("work"), study, generated, where, n_trials=2)
    settle(study)
    return {"sweep": [done.run_id], "trials of the sweep": children(done.run_id, where["tracking_uri"])}


def sweep(folder: Path, study: Path, generated: str, where: Mapping[str, Any], **how: Any) -> jrh.Sweep:
    """Try configurations of judges on the suite of a run, all three where no number is given."""
    (folder / "judges.py").write_text(JUDGES, encoding="utf-8")
    (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
    suite = jrh.load_suite(f"runs:/{generated}/suite", tracking_uri=where["tracking_uri"])
    how |= {"storage": f"sqlite:///{study.absolute()}", "max_replicates": 1}
    return jrh.sweep(folder / "space.yaml", suite, **where, **how)


def children(run_id: str, url: str) -> list[str]:
    """Return the runs below a run."""
    client = MlflowClient(url)
    experiment = client.get_run(run_id).info.experiment_id
    return [one.info.run_id for one in client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{run_id}'")]


def fill_journal(root: Path, where: Mapping[str, Any]) -> Runs:
    """Ask a model about pairs, so that the journal answers ever after."""
    with LoopbackServer(reply=verdict_by_length, port=PORT):
        done = ask_model(root / "suites" / "pairs", root / "journal" / "journal.db", where)
    settle(root / "journal" / "journal.db")
    return {"asked": [done.run_id]}


def ask_model(suite: Path, journal: Path, where: Mapping[str, Any]) -> jrh.Evaluation:
    """Evaluate the model behind the endpoint."""
    judge = jrh.PromptedJudge(MODEL, **ABOUT_JUDGE)
    return jrh.evaluate(judge, suite, journal=journal, prices=PRICES, max_usd=1.0, traces="none", **where)


def write_batch(root: Path) -> dict[str, Any]:
    """Export the calls on own pairs as a batch file, answer it, and say what importing the answers tells."""
    folder = root / "batch"
    folder.mkdir()
    how = ("--suite", root / "suites" / "own", "--journal", Path("export.db"), "-o", folder / "requests.jsonl")
    exported = json.loads(command("batch", "export", *SAID_OF_JUDGE, *how, "--json"))
    lines = (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "results.jsonl").write_text("".join(map(batch_result, lines)), encoding="utf-8")
    told = import_batch(folder, Path("import.db"))
    return {"requests": exported["requests"], "imported": told}


def batch_result(line: str) -> str:
    """Answer a request of a batch file as a provider does."""
    asked = json.loads(line)
    message = {"role": "assistant", "content": verdict_by_length(asked["body"])}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "judge-of-0.2", "usage": usage}
    body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
    told = {"id": "1", "custom_id": asked["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
    return json.dumps(told) + "\n"


def import_batch(folder: Path, journal: Path) -> Any:
    """Bring the answers of a batch file into a journal."""
    files = (folder / "requests.jsonl", folder / "results.jsonl")
    return json.loads(
        command("batch", "import", *files, *SAID_OF_JUDGE, "--journal", journal, "--price", "10,20", "--json")
    )


def rate_traces(url: str) -> None:
    """Write 24 traces of questions and answers that three people and a model have rated."""
    with active(url):
        experiment_id = mlflow.set_experiment(PEOPLE).experiment_id
        traces = [write_trace(number, experiment_id) for number in range(24)]
        mlflow.flush_trace_async_logging()
        for number, trace_id in enumerate(traces):
            truth = number % 2 == 0
            for wrong, name in enumerate(("ann", "bob", "cem")):
                rate(trace_id, truth ^ (number % 12 == wrong), "HUMAN", f"{name}@example.com")
            rate(trace_id, truth ^ (number % 8 == 5), "LLM_JUDGE", "openai:/judge-of-0.2")


def write_trace(number: int, experiment_id: str) -> str:
    """Write one question and its answer, and return the id of the trace."""
    inputs, verb = {"question": f"Is {number} even?"}, "is" if number % 2 == 0 else "may be"
    span = mlflow.start_span_no_context("answer", inputs=inputs, experiment_id=experiment_id)
    span.set_outputs(f"Reply {number}: thank you for asking. It {verb} even.")
    span.end()
    return str(span.trace_id)


def rate(trace_id: str, value: bool, kind: str, who: str) -> None:
    """Say whether an answer is right."""
    source = AssessmentSource(source_type=kind, source_id=who)
    mlflow.log_feedback(trace_id=trace_id, name=ASSESSMENT, value=value, source=source)


class CodeJudge(Judge):
    """A judge of MLflow's without a model behind it: strict, it knows which answers are right; otherwise it guesses."""

    _strict: bool = PrivateAttr(default=False)

    def __init__(self, *, strict: bool) -> None:
        """Name it as people name what they say."""
        super().__init__(name=ASSESSMENT)
        self._strict = strict

    @property
    def instructions(self) -> str:
        """What a model would be told."""
        return f"Is {{{{ outputs }}}} right?{' Be strict.' if self._strict else ''}"

    @property
    def feedback_value_type(self) -> Any:
        """Yes or no."""
        return bool

    def get_input_fields(self) -> list[Any]:
        """Nothing of its own."""
        return []

    def __call__(self, *, inputs: Any = None, outputs: Any = None, trace: Any = None) -> Feedback:
        """Read the answer."""
        return Feedback(name=self.name, value="may be" not in str(outputs) or not self._strict)


class MakesStrict(AlignmentOptimizer):
    """The least an optimiser can do that helps."""

    def align(self, judge: Judge, traces: list[Any]) -> Judge:
        """Return the strict judge."""
        return CodeJudge(strict=True)


def derive(runs: Mapping[str, list[str]], where: Mapping[str, Any]) -> Runs:
    """Do what begins with runs or traces: compare, vote, gate, replay, agree with people, correct and align."""
    url, experiment = where["tracking_uri"], where["experiment"]
    here = {"tracking_uri": url, "experiment": experiment}
    graded = [runs[name][0] for name in ("reliability", "reliability, all metrics")]
    chosen = [runs[name][0] for name in ("pairs, all metrics", "pairs, one response at a time")]
    votes = [runs[name][0] for name in ("pairs, all metrics", "pairs, always the first")]
    agreement = jrh.agree(f"traces:/{PEOPLE}", **here)
    table = pd.DataFrame(
        [
            {"item": n, "rater": who, "label": n % 3 > (who == "bob")}
            for n in range(12)
            for who in ("ann", "bob", "judge")
        ]
    )
    verdicts = [place % 3 > 0 for place in range(40)]
    (again,) = json.loads(
        command("replay", f"runs:/{runs['pairs'][0]}", "--tracking-uri", url, "--experiment", experiment, "--json")
    )
    done: dict[str, Any] = {
        "compare": jrh.compare(graded, **here),
        "compare pairs": jrh.compare(chosen, **here),
        "jury": jrh.jury(graded, size=1, cascade=graded, unsure="replicates", **here),
        "jury on pairs": jrh.jury(votes, **here),
        "gate": jrh.gate(runs["to be gated"][0], GATE, tracking_uri=url),
        "agree on traces": agreement,
        "agree on a table": jrh.agree(table, judge="judge", **here),
        "correct": jrh.correct(verdicts, agreement.run_id, sampling="random", log=True, **here),
        "align": align(here),
    }
    return {"replay": [again["run_id"]], **{name: [one.run_id] for name, one in done.items()}}


def align(here: Mapping[str, str]) -> Any:
    """Align a judge on rated traces, and return what came of it."""
    client = MlflowClient(here["tracking_uri"])
    found = client.get_experiment_by_name(PEOPLE)
    traces = list(client.search_traces(locations=[found.experiment_id], max_results=100))
    optimizer = jrh.CheckedOptimizer(MakesStrict(), margin=0.3, **here)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so few traces show only a clear gain
        optimizer.align(CodeJudge(strict=False), traces)
    return optimizer.result


def review(root: Path, home: Path, url: str, run_id: str) -> str:
    """Decide the items of a generated suite, keep the review as it is then, finish it and return its run."""
    (key,) = [one["key"] for one in sent(f"{url}/jrh/review/api/suites") if one["run_id"] == run_id]
    address = f"{url}/jrh/review/api/suites/{key}"
    items = sent(f"{address}/items?limit=500")["items"]
    for place, item in enumerate(items):
        decision = {"index": item["index"], "version": item["version"], "reviewer": "Ada", "action": "accept"}
        if place == 0:
            decision |= {"action": "reject", "reason": "too short"}
        elif place == 1:
            decision |= {"action": "edit", "text": "It opens at ten in the morning.", "label": "2"}
        told = sent(f"{address}/decisions", decision)
        if place == len(items) - 1:
            second = {"reviewer": "Grace", "action": "reject", "reason": "not the same", "version": told["version"]}
            sent(f"{address}/decisions", {**decision, **second})
    (root / "home").mkdir()
    for file in Path(home, "reviews").iterdir():
        target = root / "home" / "reviews" / file.name
        if file.is_dir():
            shutil.copytree(file, target)
        elif not file.name.endswith(("-wal", "-shm")):
            target.parent.mkdir(exist_ok=True)
            shutil.copy(file, target)
            for suffix in ("-wal", "-shm"):
                if file.with_name(file.name + suffix).exists():
                    shutil.copy(file.with_name(file.name + suffix), target.with_name(target.name + suffix))
    for database in (root / "home").rglob("*.db"):
        settle(database)
    return finish_review(url, key)


def finish_review(url: str, key: str) -> str:
    """Finish a review beside MLflow and return the run that holds it."""
    client = MlflowClient(url)
    places = [one.experiment_id for one in client.search_experiments()]
    before = {one.info.run_id for one in client.search_runs(places, "tags.`jrh.kind` = 'review'")}
    sent(f"{url}/jrh/review/api/suites/{key}/finish", {"reviewer": "Ada"})
    (made,) = {one.info.run_id for one in client.search_runs(places, "tags.`jrh.kind` = 'review'")} - before
    return str(made)


def go_on(root: Path, kept: str, generated: str) -> dict[str, Any]:
    """Go on with copies of what is under way, and return what comes of it."""
    with tempfile.TemporaryDirectory() as name:
        folders = {one: shutil.copytree(root / one, Path(name, one)) for one in ("store", "home", "outbox", "sweeps")}
        store = folders["store"]
        with serving(store, folders["home"]) as url:
            where = {"tracking_uri": url, "experiment": EXPERIMENT, "progress": False}
            told = {"review": review_facts(url)}
            (done,) = json.loads(
                command("evaluate", "--resume", folders["outbox"] / kept, "--tracking-uri", url, "--json")
            )
            swept = sweep(Path("work"), folders["sweeps"] / "study.db", generated, where)
            runs = {"outbox": [done["run_id"]], "sweep": [swept.run_id], "trials": children(swept.run_id, url)}
            facts, keys = facts_of(url, runs, store=store), keys_of(url, runs, store=store)
    told["outbox"] = {"folder": kept, "run_id": done["run_id"], "metrics": done["metrics"], "keys": keys["outbox"]}
    told["swept"] = {name: keys[name] for name in ("sweep", "trials")} | {"metrics": facts[swept.run_id]["metrics"]}
    return told


def review_facts(url: str) -> dict[str, Any]:
    """Return what the page shows of the review under way."""
    (found,) = [one for one in sent(f"{url}/jrh/review/api/suites") if one["name"] == "to review"]
    items = sent(f"{url}/jrh/review/api/suites/{found['key']}/items?limit=500")["items"]
    shown = {one["id"]: {part: one[part] for part in ("state", "expected", "by", "disagreement")} for one in items}
    return {"key": found["key"], "n_decided": found["n_decided"], "items": shown}


def write_scorers(runs: Mapping[str, list[str]], url: str) -> dict[str, Any]:
    """Register a judge and a jury as scorers; return their texts, and what they say about a row."""
    experiment = MlflowClient(url).get_experiment_by_name(EXPERIMENT).experiment_id
    told = {}
    with active(url):
        for name, run in {"longer": "pairs, all metrics", "jury": "jury on pairs"}.items():
            made = jrh.to_mlflow(runs[run][0], name=name, tracking_uri=url)
            made.register(experiment_id=experiment)
            told[name] = {"serialized": made.model_dump(), "feedback": feedback_facts(made.run(**ROW))}
    return told


def feedback_facts(feedback: Feedback) -> dict[str, Any]:
    """Return what a scorer said; the address of its datasheet is another one wherever the store is opened."""
    metadata = {key: value for key, value in (feedback.metadata or {}).items() if key != "jrh.datasheet_link"}
    error = feedback.error.error_code if feedback.error else None
    source = [feedback.source.source_type, feedback.source.source_id]
    return {"value": feedback.value, "error": error, "source": source, "metadata": metadata}


def register(suites: Mapping[str, jrh.Suite], run_id: str, where: Mapping[str, Any]) -> dict[str, str]:
    """Register the prompt of a run, and a suite as an evaluation dataset."""
    here = {"tracking_uri": where["tracking_uri"]}
    return {
        "prompt": jrh.register_prompt(run_id, "judge", alias="used", **here),
        "dataset": jrh.suite_dataset(suites["own"], "own pairs", experiment=EXPERIMENT, **here),
    }


def miss_mlflow(root: Path, home: Path) -> str:
    """Evaluate while the MLflow server goes away: the calls stay in the outbox, in a folder of this name."""
    asking, gone, told = threading.Event(), threading.Event(), []

    async def judge(shown: jrh.Presentation) -> str:
        asking.set()
        while not gone.is_set():
            await asyncio.sleep(0.05)
        return shown.answers[len(shown.first or "") % len(shown.answers)]

    def evaluate(url: str) -> None:
        how = {"tracking_uri": url, "experiment": EXPERIMENT, "tags": {"team": "blue"}, "traces": "none"}
        try:
            jrh.evaluate(judge, root / "suites" / "pairs", **how)
        except jrh.JrhError as error:
            told.append(error)

    with serving(root / "store", home) as url:
        thread = threading.Thread(target=evaluate, args=(url,))
        thread.start()
        asking.wait()
    gone.set()
    thread.join()
    assert told, "the evaluation was logged, though the server was gone"
    kept = Path(os.environ["JRH_HOME"], "outbox")
    (folder,) = kept.iterdir()
    shutil.copytree(kept, root / "outbox")
    settle(root / "store" / "mlflow.db")
    return folder.name


def facts_of(url: str, runs: Mapping[str, Iterable[str]], *, store: Path) -> dict[str, Any]:
    """Return what MLflow tells of runs, by their ids; `store` is the folder that a server serves."""
    names = {run_id: name for name, ids in runs.items() for run_id in ids}
    client = MlflowClient(url)
    return {run_id: {"name": name, **run_facts(client.get_run(run_id), store)} for run_id, name in names.items()}


@contextmanager
def active(url: str) -> Iterator[None]:
    """Make a store MLflow's active one: it looks there for what a run's artifacts have to do with logged models."""
    mlflow.set_tracking_uri(url)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)


def run_facts(run: Run, store: Path) -> dict[str, Any]:
    """Return all that MLflow tells of a run, and that does not depend on where it was written."""
    folder = artifacts_of(run, store)
    return {
        "kind": run.data.tags["jrh.kind"],
        "status": run.info.status,
        "metrics": dict(run.data.metrics),
        "tags": {key: value for key, value in run.data.tags.items() if key.startswith("jrh.")},
        "other_tags": sorted(key for key in run.data.tags if not key.startswith(("jrh.", *MACHINE))),
        "params": dict(run.data.params),
        "artifacts": sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()),
    }


def artifacts_of(run: Run, store: Path) -> Path:
    """Return the folder on this machine in which the artifacts of a run are."""
    parts = urlsplit(run.info.artifact_uri)
    return store / "artifacts" / parts.path.lstrip("/") if parts.scheme == "mlflow-artifacts" else Path(parts.path)


def keys_of(url: str, runs: Mapping[str, Iterable[str]], *, store: Path) -> dict[str, Any]:
    """Return the names of all that the runs hold, by what was done; of several runs those of all of them."""
    return keys_in(facts_of(url, runs, store=store), runs)


def keys_in(facts: Mapping[str, Any], runs: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the same, of what is read already."""
    return {name: merged([key_lists(facts[run_id]) for run_id in ids]) for name, ids in runs.items()}


def key_lists(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Leave the names of what a run holds."""
    return {
        "kinds": [facts["kind"]],
        "metrics": sorted(facts["metrics"]),
        "tags": sorted([*facts["tags"], *facts["other_tags"]]),
        "params": sorted(facts["params"]),
        "artifacts": facts["artifacts"],
    }


def merged(several: Iterable[Mapping[str, list[str]]]) -> dict[str, list[str]]:
    """Put lists of names together."""
    found: dict[str, set[str]] = {}
    for one in several:
        for part, names in one.items():
            found.setdefault(part, set()).update(names)
    return {part: sorted(names) for part, names in found.items()}


def by_kind(keys: Mapping[str, Mapping[str, list[str]]]) -> dict[str, Any]:
    """Return the names that runs of each kind hold."""
    kinds = sorted({kind for one in keys.values() for kind in one["kinds"]})
    return {kind: merged([one for one in keys.values() if one["kinds"] == [kind]]) for kind in kinds}


if __name__ == "__main__":
    main()
