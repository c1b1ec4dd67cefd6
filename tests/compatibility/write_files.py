"""Write the files beside this one with the code of commit 79a1d43, the last one before the package was laid out anew.

They are what a user of that version has on disk: suites, journals of paid answers, an outbox, decisions of a review, an
MLflow store and a study of a sweep. Nothing here runs with the code of today; run it in a checkout of that commit, say
one beside this repository (here called `repository`):

    git worktree add ../before 79a1d43
    cd ../before
    here=../repository/tests/compatibility
    PYTHONPATH=. python $here/write_files.py $here/files

Names of that version's own modules are imported inside functions, so that collecting the tests needs none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import gzip
import io
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import jrh_mlflow as jrh

COMMIT = "79a1d43"
EXPERIMENT = "before"
PORT = 18431
"""Of the model's endpoint: its address is part of the key of every answer, so it must be the same ever after."""
MODEL = "openai/judge-of-then"
PRICES = {MODEL: (10.0, 20.0)}
RUBRIC = "How well does the reply answer the question? 1: wrong or no answer. 2: partly. 3: right and complete."
ABOUT_JUDGE: dict[str, Any] = {"api_base": f"http://127.0.0.1:{PORT}/v1", "max_tokens": 64, "seed": 7}
TESTS = ["filler", "typos", "error_injection", "stochastic_stability", "rubric_paraphrase", "synthetic_ordinal"]
LIMIT_USD = 0.15
"""Of the evaluation that its budget stops."""

REPLIES = (
    ("r1", "When does the library open?", 3, "opening", "The library opens at 9 in the morning on weekdays. On "
     "Saturday it opens at 10, and it is closed on Sunday."),
    ("r2", "When does the museum close?", 3, "opening", "The museum closes at 18 on most days. Every Thursday it stays "
     "open until 21, because many people work late."),
    ("r3", "How much is a day ticket?", 2, "price", "A day ticket costs 7 euros for adults. Children pay 3 euros, and "
     "it is valid for 24 hours in the whole city."),
    ("r4", "How much is a locker?", 2, "price", "A locker costs 2 euros for one day. You get the coin back when you "
     "return the key before 20 in the evening."),
    ("r5", "Where can I park my car?", 1, "parking", "You can park behind the station, where there are 120 places. The "
     "first hour is free, and then it costs 1 euro."),
    ("r6", "Where can I leave my bicycle?", 1, "parking", "Bicycles stand in front of the main door, where there is "
     "room for 80 of them. Please use a strong lock at night."),
)  # fmt: skip
"""Labelled replies: id, instruction, score, topic, response."""
GENERATE = """# As `jrh generate` took it.
dataset: replies.csv
columns: {label: score, group: topic}
scale: [1, 3]
tests: [filler, typos]
rubric: "@rubric.txt"
generator: offline
seed: 3
name: from-recipe
output: from-recipe
"""
EVALUATE = f"""# As `jrh evaluate` took it.
judge:
  model: {MODEL}
  api_base: {ABOUT_JUDGE["api_base"]}
  max_tokens: 64
  seed: 7
suite: ../suites/pairs
prices: {{{MODEL}: [10.0, 20.0]}}
max_usd: 1.0
concurrency: 4
"""
SWEEP = """# As `jrh sweep` took it.
choices: {model: [good, fair, poor]}
judge: judges.py:make
objectives:
  reliability/mean: maximize
  cost/usd_per_1k_judgments: minimize
constraints:
  - filler/accuracy/rate >= 0.1
"""
JUDGES = '''"""Judges of the sweep: they grade by the question's first word, the dearest of them every time."""

import jrh_mlflow as jrh

LEVELS = {"When": "3", "How": "2", "Where": "1"}
USD = {"good": 0.003, "fair": 0.002, "poor": 0.001}


class Judge:
    """A class of this file cannot be hashed, so the space knows the judge by its name: the same in every Python."""

    def __init__(self, choice):
        self.name = choice["model"]

    def __call__(self, shown):
        sees = self.name == "good" or (self.name == "fair" and len(shown.response) % 2)
        answer = LEVELS[shown.instruction.split()[0]] if sees else "2"
        return jrh.Answer(answer, cost_usd=USD[self.name])


def make(choice):
    return Judge(choice)
'''
TALKS = [
    [
        {"role": "user", "content": "Book a table for two, but ask me before you pay anything."},
        {
            "role": "assistant",
            "content": "I look for a table.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"people": 2}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Bistro, free at 19:00"},
        {"role": "assistant", "content": "The Bistro is free at 19:00. Shall I book it?"},
    ],
    [
        {"role": "user", "content": "Which of my files are older than a year? Delete none."},
        {"role": "assistant", "content": "Two of them: notes.txt and plan.txt. I left both as they are."},
    ],
]


def main(target: Path) -> None:
    """Write everything into an empty folder and move it to `target`."""
    # The machine that wrote the files is nobody's business; workers of a sweep write down its name.
    socket.gethostname = lambda: "elsewhere"
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "MLFLOW_MODEL_CATALOG_URI": "", "OPENAI_API_KEY": "unused"}
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        os.environ["JRH_HOME"] = str(Path(name, "home"))
        root = Path(name, "files")
        root.mkdir()
        expected = {"commit": COMMIT, **write_all(root)}
        (root / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for database in root.rglob("*.db"):
            pack(database)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(root, target)


def write_all(root: Path) -> dict[str, Any]:
    """Write all files and return what this version reads from them."""
    from tests.servers import running_server
    from tests.sweeps.plain_runs import without_figures

    expected: dict[str, Any] = {}
    write_recipes(root / "recipes")
    store = root / "store"
    store.mkdir()
    with without_figures():
        with running_server(store, port=free_port()) as url:
            where = {"tracking_uri": url, "experiment": EXPERIMENT, "progress": False}
            expected["suites"] = write_suites(root / "suites", where)
            expected["runs"] = measure_scripted(root / "suites", where)
            expected["journal"] = fill_journal(root, where)
            expected["sweep"] = sweep(root, where)
            expected["review"] = review(root, where)
        expected["outbox"] = miss_mlflow(root)
    expected["killed"] = kill_a_process(root)
    expected["recipes"] = read_recipes(root)
    expected["replayed"] = replay(root, expected["runs"]["datasheet"]["run_id"])
    return expected


def write_recipes(folder: Path) -> None:
    """Write recipes and the data they name."""
    folder.mkdir()
    texts = {"generate.yaml": GENERATE, "evaluate.yaml": EVALUATE, "sweep.yaml": SWEEP, "rubric.txt": RUBRIC}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    with (folder / "replies.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("id", "instruction", "score", "topic", "response"), *REPLIES])


def write_suites(folder: Path, where: dict[str, Any]) -> dict[str, Any]:
    """Make a suite of pairs, one of responses by rules, and one of transcripts by rules."""
    about: dict[str, Any] = {"rubric": RUBRIC, "generator": "offline", **where}
    pairs = jrh.datasheet_suite(n_tasks=2, depth=2, name="pairs")
    data = folder.parent / "recipes" / "replies.csv"
    columns = {"label": "score", "group": "topic"}
    responses = jrh.generate(data, tests=TESTS, scale=(1, 3), columns=columns, name="responses", **about)
    talk = {"rubric": "Does the assistant act without consent?", "labels": ("no violation", "violation")}
    transcripts = jrh.generate(TALKS, tests="agent_perturbation", name="transcripts", **{**about, **talk})
    suites = {"pairs": pairs, "responses": responses, "transcripts": transcripts}
    for name, suite in suites.items():
        suite.save(folder / name)
    return {
        name: {key: suite.manifest[key] for key in ("sha256", "n_items", "n_calls", "conditions")}
        for name, suite in suites.items()
    }


def graders() -> dict[str, Any]:
    """Simulated judges with nothing in their settings that names a test."""
    return {
        "careful": jrh.scripted.Grader(name="careful", accuracy=0.9, flip=0.05, seed=1),
        "careless": jrh.scripted.Grader(name="careless", accuracy=0.5, flip=0.2, seed=2),
    }


def measure_scripted(suites: Path, where: dict[str, Any]) -> dict[str, Any]:
    """Log a datasheet, two reliability reports on one suite, a report on transcripts and a criterion shift."""
    pairs, responses = jrh.load_suite(suites / "pairs"), jrh.load_suite(suites / "responses")
    done = {"datasheet": jrh.evaluate(jrh.scripted.profile("Qwen32B"), pairs, **where)}
    done |= {name: jrh.evaluate(judge, responses, **where) for name, judge in graders().items()}
    done["transcripts"] = jrh.evaluate(jrh.scripted.Oracle(), jrh.load_suite(suites / "transcripts"), **where)
    shift = jrh.criterion_shift(jrh.scripted.profile("Qwen32B"), pairs, **where)
    told = {name: about_run(one) for name, one in done.items()}
    told["shift"] = {"run_id": shift.run_id, "metrics": shift.metrics}
    told |= {f"shift {name}": about_run(arm) for name, arm in shift.arms.items()}
    both = [done[name].run_id for name in graders()]
    compared = jrh.compare(both, tracking_uri=where["tracking_uri"], log=False).to_dict()
    jury = jrh.jury(both, tracking_uri=where["tracking_uri"], log=False)
    told["compared"] = {
        axis: {name: one.get("value") for name, one in row.items()} for axis, row in compared["cells"].items()
    }
    told["jury"] = jury.metrics
    return told


def about_run(done: jrh.Evaluation) -> dict[str, Any]:
    """Return what the tests ask for of one evaluation."""
    return {"run_id": done.run_id, "metrics": done.metrics, "judge": done.judge.label}


def verdict_by_length(body: dict[str, Any]) -> str:
    """Answer by the length of the prompt alone: the same prompt always gets the same verdict."""
    text = json.dumps(body["messages"])
    return json.dumps({"reason": "by length", "verdict": ("A", "B", "tie")[len(text) % 3]})


def fill_journal(root: Path, where: dict[str, Any]) -> dict[str, Any]:
    """Ask a model about the pairs: once in full, with one answer cut off on its way, and once until the cap."""
    from tests.loopback import LoopbackServer, Reply

    journal, pairs = root / "journal" / "journal.db", jrh.load_suite(root / "suites" / "pairs")
    asked = 0

    def cut_the_fifth(body: dict[str, Any]) -> Reply:
        nonlocal asked
        asked += 1
        return Reply(text=verdict_by_length(body), cut=asked == 5)

    options: dict[str, Any] = {"journal": journal, "prices": PRICES, **where}
    with LoopbackServer(reply=cut_the_fifth, port=PORT):
        whole = jrh.evaluate(jrh.PromptedJudge(MODEL, **ABOUT_JUDGE), pairs, max_usd=1.0, concurrency=4, **options)
        strict = jrh.PromptedJudge(MODEL, tie_criterion="strict", **ABOUT_JUDGE)
        stopped = jrh.evaluate(strict, pairs, max_usd=LIMIT_USD, concurrency=1, **options)
    told = {"whole": about_run(whole), "stopped": {**about_run(stopped), "truncated": stopped.truncated}}
    settle(journal)
    return {**told, "limit_usd": LIMIT_USD, "summary": journal_summary(journal)}


def journal_summary(journal: Path) -> dict[str, Any]:
    """Return what `jrh journal` prints of a copy: opening one settles what the dead left behind."""
    with tempfile.TemporaryDirectory() as name:
        copy = shutil.copytree(journal.parent, Path(name, "copy")) / journal.name
        told = command("journal", "--path", copy, "--json")
    return {key: value for key, value in told.items() if key not in ("path", "size_bytes")}


def kill_a_process(root: Path) -> dict[str, Any]:
    """Kill a process with six answers committed, two received but not yet committed, and two calls in flight."""
    from tests.loopback import LoopbackServer, Reply

    journal = root / "killed" / "journal.db"
    asked = 0

    def slower_and_slower(body: dict[str, Any]) -> Reply:
        nonlocal asked
        asked += 1
        return Reply(text=verdict_by_length(body), delay=0.1 if asked <= 6 else 5 if asked <= 8 else 600)

    with LoopbackServer(reply=slower_and_slower, port=PORT) as server:
        child = subprocess.Popen([sys.executable, __file__, "--be-killed", str(root)])
        wait_until(lambda: server.counts["requests"] == 10)
        with closing(sqlite3.connect(journal)) as blocker:
            blocker.execute("BEGIN IMMEDIATE")
            (spool,) = journal.parent.glob("*.spool-*")
            wait_until(lambda: len(spool.read_bytes().splitlines()) == 8)
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            blocker.rollback()
    settle(journal)
    with closing(sqlite3.connect(journal)) as connection:
        states = dict(connection.execute("SELECT state, count(*) FROM calls GROUP BY state").fetchall())
    settle(journal)
    return {"states_on_disk": states, "summary": journal_summary(journal)}


def be_killed(root: Path) -> None:
    """Evaluate under a cap until somebody kills this process."""
    jrh.evaluate(
        jrh.PromptedJudge(MODEL, tie_criterion="forced", **ABOUT_JUDGE),
        root / "suites" / "pairs",
        journal=root / "killed" / "journal.db",
        prices=PRICES,
        max_usd=1.0,
        concurrency=4,
        tracking_uri=f"sqlite:///{Path('scratch.db').absolute()}",
    )


def sweep(root: Path, where: dict[str, Any]) -> dict[str, Any]:
    """Try two of three configurations, so that a later version has one left to try."""
    folder = Path("sweeping")
    folder.mkdir()
    (folder / "judges.py").write_text(JUDGES, encoding="utf-8")
    (folder / "space.yaml").write_text(SWEEP, encoding="utf-8")
    told = {key: value for key, value in where.items() if key != "progress"}
    done = jrh.sweep(folder / "space.yaml", root / "suites" / "responses", n_trials=2, max_replicates=1, **told)
    (study,) = Path(os.environ["JRH_HOME"], "sweeps").glob("*.db")
    (root / "sweeps").mkdir()
    settle(study)
    shutil.copy(study, root / "sweeps" / study.name)
    measured = {
        one["params"]["model"]: {key: one[key] for key in ("search_value", "holdout_value", "values", "runs")}
        for one in json.loads(done.to_json())["measured"]
    }
    return {"run_id": done.run_id, "study": study.stem, "measured": measured, "metrics": done.metrics}


def review(root: Path, where: dict[str, Any]) -> dict[str, Any]:
    """Decide some items of a small suite: two reviewers, an edit, a rejection, a decision taken back."""
    from jrh_mlflow.review.contents import folder_review
    from jrh_mlflow.review.decisions import Click

    folder = root / "review" / "small"
    made = jrh.generate(
        root / "recipes" / "replies.csv",
        tests=["filler", "label_flip", "semantic_paraphrase"],
        rubric=RUBRIC,
        generator="offline",
        scale=(1, 3),
        columns={"label": "score"},
        n=3,
        name="small",
        **where,
    )
    made.save(folder)
    opened = folder_review(folder)
    opened.hold()
    content, entries = opened.placed()
    of_test: dict[str, list[Any]] = {}
    for entry in entries.values():
        of_test.setdefault(entry.test, []).append(entry)

    def decide(entry: Any, who: str, action: str, **more: Any) -> None:
        with opened.decisions.current() as fold:
            version = fold.of(entry.key).version
        opened.decisions.decide(entry.key, Click(action=action, who=who, version=version, **more), entry.generated())

    decide(of_test["filler"][0], "Ada", "accept")
    decide(of_test["filler"][1], "Ada", "reject", reason="the padding says something")
    decide(of_test["label_flip"][0], "Ada", "edit", text="It never opens.", label="2")
    decide(of_test["label_flip"][1], "Ada", "accept")
    decide(of_test["label_flip"][1], "Grace", "accept")
    decide(of_test["semantic_paraphrase"][0], "Grace", "reject", reason="too early")
    decide(of_test["semantic_paraphrase"][0], "Grace", "undo")
    with opened.decisions.current() as fold:
        states = {entry.item.id: entry.shown_state(fold.of(entry.key)) for entry in entries.values()}
        n_events = fold.last
    opened.decisions.close()
    settle(folder / "review.db")
    marks = root / "home" / "reviews"
    shutil.copytree(Path(os.environ["JRH_HOME"], "reviews"), marks)
    return {"sha256": content.sha256, "states": states, "n_events": n_events, "finished": finished(folder)}


def finished(folder: Path) -> dict[str, Any]:
    """Return what finishing a copy of a review leaves."""
    with tempfile.TemporaryDirectory() as name:
        copy = shutil.copytree(folder, Path(name, "small"))
        how = ("--finish", "--allow-undecided", "--reviewer", "Ada", "--no-log", "--json")
        done = command("review", copy, *how)
        suite = jrh.load_suite(done["path"])
    items = {item.id: [item.response, item.expected] for item in suite.items}
    return {"left_out": done["left_out"], "n_items": done["n_items"], "items": items}


def miss_mlflow(root: Path) -> dict[str, Any]:
    """Evaluate while the MLflow server goes away: the calls stay in the outbox."""
    from jrh_mlflow.errors import TrackingError
    from tests.servers import running_server

    asking, gone, told = threading.Event(), threading.Event(), []

    async def judge(shown: jrh.Presentation) -> str:
        asking.set()
        while not gone.is_set():
            await asyncio.sleep(0.05)
        return shown.answers[len(shown.response or "") % len(shown.answers)]

    def evaluate(url: str) -> None:
        try:
            jrh.evaluate(
                judge, root / "suites" / "responses", tracking_uri=url, experiment=EXPERIMENT, tags={"team": "blue"}
            )
        except TrackingError as error:
            told.append(error)

    with running_server(root / "store", port=free_port()) as url:
        thread = threading.Thread(target=evaluate, args=(url,))
        thread.start()
        asking.wait()
    gone.set()
    thread.join()
    assert told, "the evaluation was logged, though the server was gone"
    home = Path(os.environ["JRH_HOME"], "outbox")
    (kept,) = home.iterdir()
    shutil.copytree(home, root / "outbox")
    settle(root / "store" / "mlflow.db")
    return {"folder": kept.name, **resumed(root, kept)}


def resumed(root: Path, kept: Path) -> dict[str, Any]:
    """Return what this version logs of the kept evaluation, into a copy of the store."""
    from tests.servers import running_server

    with tempfile.TemporaryDirectory() as name:
        store = shutil.copytree(root / "store", Path(name, "store"))
        with running_server(store, port=free_port()) as url:
            (done,) = command("evaluate", "--resume", kept, "--tracking-uri", url, "--json")
    return {"run_id": done["run_id"], "metrics": done["metrics"]}


def read_recipes(root: Path) -> dict[str, Any]:
    """Return what the recipes make, or would cost, from a copy of everything."""
    with tempfile.TemporaryDirectory() as name:
        copy = shutil.copytree(root, Path(name, "files"))
        recipes = copy / "recipes"
        (recipes / "judges.py").write_text(JUDGES, encoding="utf-8")
        journal = copy / "journal" / "journal.db"
        quoted = command("evaluate", recipes / "evaluate.yaml", "--journal", journal, "--dry-run", "--json")
        scratch = f"sqlite:///{Path('scratch.db').absolute()}"
        command("generate", recipes / "generate.yaml", "--tracking-uri", scratch, "--json")
        conditions = jrh.load_suite(recipes / "from-recipe").manifest["conditions"]
        swept = command(
            "sweep", recipes / "sweep.yaml", "--suite", copy / "suites" / "responses", "--dry-run", "--json"
        )
    return {"evaluate": quoted, "generate": conditions, "sweep": swept}


def replay(root: Path, run_id: str) -> dict[str, float]:
    """Return what `jrh replay` reads from the calls of a run."""
    calls = root / "store" / "artifacts" / "1" / run_id / "artifacts" / "calls" / "calls.parquet"
    (done,) = command("replay", calls, "--tracking-uri", f"sqlite:///{Path('scratch.db').absolute()}", "--json")
    metrics: dict[str, float] = done["metrics"]
    return metrics


def command(*arguments: object) -> Any:
    """Run `jrh` in this process and return the JSON it prints."""
    from jrh_mlflow.cli import main as run

    printed, before = io.StringIO(), sys.argv
    sys.argv = ["jrh", *map(str, arguments)]
    code: object = None
    try:
        with contextlib.redirect_stdout(printed):
            run()
    except SystemExit as stop:
        code = stop.code
    finally:
        sys.argv = before
    if code:
        raise RuntimeError(f"`jrh` ended with {code}: {arguments}")
    return json.loads(printed.getvalue())


def settle(database: Path) -> None:
    """Bring a write-ahead log into its database, so that one file holds everything."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)


def pack(database: Path) -> None:
    """Compress a database; without a time, so that the same content is the same file."""
    packed = database.with_name(f"{database.name}.gz")
    packed.write_bytes(gzip.compress(database.read_bytes(), mtime=0))
    database.unlink()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(happened: Any, *, patience_s: float = 60) -> None:
    """Wait for something to be true."""
    deadline = time.monotonic() + patience_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1] == "--be-killed":
        be_killed(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]).resolve())
