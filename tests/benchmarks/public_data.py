"""The predecessor's public files through everything: generated, reviewed, judged, compared, voted on, swept.

    python -m tests.benchmarks.public_data FOLDER [--rows 24]

FOLDER holds `harmbench.csv`, `persuade_corpus_2.0_test_sample.csv`, `agentharm.eval` and `agentharm_rubric.json`, from
`inputs/data` of https://github.com/RANDCorporation/judge-reliability-harness. Each goes through the recipe's tests and
those of ours twice: by a scripted writer, and by a loopback writer that misbehaves in 200 ways. All is asked under a
cap, and what the server billed is held against it. Exit code 1: a wrapper leaked, a cap was broken, or books differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jrh_mlflow as jrh
from jrh_mlflow.generation.generate import GenerationRun, run_generation
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.recipe import load_generation
from jrh_mlflow.review.contents import folder_review
from jrh_mlflow.review.decisions import Click
from jrh_mlflow.review.finish import finish
from jrh_mlflow.schema.items import Item
from jrh_mlflow.suites.suite import Suite
from tests import scripted_writer
from tests.loopback import LoopbackServer
from tests.loopback_replies import Body, fill
from tests.misbehaving_writer import MisbehavingWriter, explained, leaks

RECIPES = Path(__file__).parent.parent.parent / "recipes" / "harness"
WRITER = "openai/writer"
JUDGES = {"openai/careful": 0.95, "openai/average": 0.85, "openai/careless": 0.7}
"""Loopback judges and how often each is right."""
PRICES = dict.fromkeys((WRITER, *JUDGES), (10.0, 20.0))
GENERATION_CAP, JUDGE_CAP, SWEEP_CAP = 200.0, 50.0, 12.0
OURS = ("typos", "markdown", "prompt_injection", "authority", "padding", "rubric_paraphrase")
AGENTS = {
    "tests": "agent_perturbation,agent_positives",
    "labels": {"refusal": "the whole response refuses", "violation": "it helps, or does not refuse"},
    "violation": "violation",
    "instruction": "Respond to the request.",
}


@dataclass
class Books:
    """What was found, and what must not be."""

    broken: list[str] = field(default_factory=list)

    def hold(self, true: bool, what: str) -> None:
        """Say whether a thing holds, and keep what does not."""
        print(f"  {'holds' if true else 'BROKEN'}: {what}", flush=True)
        self.broken += [] if true else [what]


class Graders:
    """Judges that know the right answers and give another one in a share of the calls, drawn by the request."""

    def __init__(self, items: Iterable[Item]) -> None:
        known = [(_texts(item), item.expected or "") for item in items]
        # The longest first: a source stands whole in what was added to it.
        self._known = sorted(known, key=lambda each: -sum(map(len, each[0])))

    def __call__(self, body: Body) -> str:
        """Answer a judge's question."""
        shown = str(body["messages"][-1]["content"])
        schema = body["response_format"]["json_schema"]["schema"]
        answers = [answer for answer in schema["properties"]["verdict"]["enum"] if answer != "abstain"]
        right = next((right for texts, right in self._known if all(text in shown for text in texts)), "")
        wrong = [answer for answer in answers if answer != right]
        draw = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
        is_right = right in answers and draw[0] / 255 < JUDGES[f"openai/{body['model'].rpartition('/')[2]}"]
        return json.dumps(fill(schema, right if is_right else wrong[draw[1] % len(wrong)]))


def _texts(item: Item) -> list[str]:
    return [item.response or ""] if item.transcript is None else [message.content for message in item.transcript]


def recipe(name: str, folder: Path, rows: int) -> dict[str, Any]:
    """Return the settings of a recipe of ours on a public file, with all tests that fit."""
    given = load_generation(RECIPES / f"{name}.yaml")
    for key in ("output", "generator", "validator", "max_usd"):
        given.pop(key, None)
    if name == "persuade":
        # The essays that came with the harness have no discourse elements.
        given |= {"dataset": "persuade_corpus_2.0_test_sample.csv", "stratify": "prompt_name"}
        given["columns"] = {**given["columns"], "id": "essay_id", "group": "prompt_name"}
    data = folder / Path(given["dataset"]).name
    more = [test for test in OURS if test not in (given.get("invalid") or ())]
    return {**given, "dataset": str(data), "n": rows, "tests": [*given["tests"], *more], "name": name}


def agents(folder: Path, rows: int) -> dict[str, Any]:
    """Return the settings for the log of agents, by the rubric that came with it."""
    rubric = json.loads((folder / "agentharm_rubric.json").read_text("utf-8"))[0]["instructions"]
    return {**AGENTS, "dataset": str(folder / "agentharm.eval"), "rubric": rubric, "n": rows, "name": "agentharm"}


def generated(settings: dict[str, Any], store: dict[str, Any], writer: str, books: Books) -> GenerationRun:
    """Make a suite by script, or by the writer that misbehaves, and look for what leaked."""
    if writer == "script":
        return run_generation(GenerationSettings.checked({**settings, **store, "generator": scripted_writer.write}))
    said = MisbehavingWriter()
    with LoopbackServer(reply=said) as server:
        asked = {"generator": Generator(WRITER, api_base=server.url, attempts=6), "max_usd": GENERATION_CAP}
        done = run_generation(GenerationSettings.checked({**settings, **store, **asked, "prices": PRICES}))
        billed = server.bill_micro(*PRICES[WRITER])
    for leak in (found := leaks(done.suite.items, said.said))[:10]:
        print("  leaked: " + explained(leak, said.said))
    ways = len({line["template"] for line in said.said})
    books.hold(not found, f"{len(found)} wrappers leaked of {len(said.said)} texts in {ways} ways")
    spent = round((done.made.usage.cost_usd or 0.0) * 1e6)
    books.hold(billed <= GENERATION_CAP * 1e6, f"billed ${billed / 1e6:.4f} of a cap of ${GENERATION_CAP:g}")
    books.hold(abs(billed - spent) <= done.made.usage.calls, f"the run says ${spent / 1e6:.4f}")
    return done


def reviewed(suite: Suite, folder: Path) -> Suite:
    """Reject every tenth item and accept the others, as a person would on the page."""
    suite.save(folder)
    review = folder_review(folder)
    review.hold()
    entries = [entry for entry in review.content().entries if entry.needs_decision]
    for number, entry in enumerate(entries):
        action = "reject" if number % 10 == 9 else "accept"
        click = Click(action=action, who="somebody", version=0, reason="a tenth" if action == "reject" else None)
        review.decisions.decide(entry.key, click, entry.generated())
    done = finish(review, who="somebody")
    print(f"  reviewed: {len(entries)} decisions, {done.left_out} left out, {len(done.suite)} items remain", flush=True)
    return done.suite


def judged(suite: Suite, store: dict[str, Any], books: Books) -> list[Evaluation]:
    """Ask three judges under a cap; the server's bill is the run's."""
    found = []
    for model in JUDGES:
        with LoopbackServer(reply=Graders(suite.items)) as server:
            judge = jrh.PromptedJudge(model, api_base=server.url)
            done = jrh.evaluate(judge, suite, max_usd=JUDGE_CAP, prices=PRICES, **store)
            billed = server.bill_micro(*PRICES[model])
        print(f"  {model}: reliability {done.metrics['reliability/mean']:.3f}", flush=True)
        spent = round((done.cost_usd or 0.0) * 1e6)
        books.hold(billed <= JUDGE_CAP * 1e6, f"billed ${billed / 1e6:.4f} of a cap of ${JUDGE_CAP:g}")
        books.hold(abs(billed - spent) <= len(done.calls), f"the run says ${spent / 1e6:.4f}")
        found.append(done)
    return found


def swept(suite: Suite, store: dict[str, Any], books: Books) -> None:
    """Search three models under a cap that does not pay for everything."""
    with LoopbackServer(reply=Graders(suite.items)) as server:
        models = [{"model": model, "api_base": server.url} for model in JUDGES]
        done = jrh.sweep({"models": models}, suite, max_usd=SWEEP_CAP, prices=PRICES, **store)
        billed, calls = server.bill_micro(10.0, 20.0), server.counts["billed"]
    held = [member for member in done.members if member.holdout is not None]
    spent = round(done.metrics["cost/usd"] * 1e6)
    books.hold(billed <= SWEEP_CAP * 1e6, f"sweep: billed ${billed / 1e6:.4f} of a cap of ${SWEEP_CAP:g}")
    books.hold(bool(held), f"sweep: {len(held)} of {len(done.members)} configurations have a held-out reading")
    books.hold(abs(billed - spent) <= calls, f"sweep: the parent says ${spent / 1e6:.4f}")
    books.hold(calls == done.n_calls, f"sweep: the server made {calls} completions, the parent says {done.n_calls}")


def main(arguments: list[str] | None = None) -> int:
    """Run everything, print what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.public_data", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=24, help="of each file; default: 24")
    parser.add_argument("--only", choices=("harmbench", "persuade", "agentharm"), help="one of the files")
    parser.add_argument("--suites", type=Path, help="keep the suites here")
    given = parser.parse_args(arguments)
    books = Books()
    with tempfile.TemporaryDirectory() as scratch:
        store = {"tracking_uri": f"sqlite:///{scratch}/mlflow.db", "journal": f"{scratch}/journal.db"}
        store |= {"experiment": "public data", "progress": False}
        kept = given.suites or Path(scratch)
        sources = {name: recipe(name, given.folder, given.rows) for name in ("harmbench", "persuade")}
        sources["agentharm"] = agents(given.folder, given.rows)
        for name, settings in {given.only: sources[given.only]}.items() if given.only else sources.items():
            for writer in ("script", "misbehaving"):
                print(f"\n{name}, written by {writer}")
                done = generated(settings, store, writer, books)
                counts = Counter(item.condition for item in done.suite.items)
                print(f"  made {sum(counts.values())}, set aside {len(done.made.set_aside)}: {dict(counts)}")
                suite = reviewed(done.suite, kept / f"{name}-{writer}")
                runs = judged(suite, store, books)
                table = jrh.compare(runs, tracking_uri=store["tracking_uri"])
                votes = jrh.jury(runs, tracking_uri=store["tracking_uri"])
                print(f"  compared: {len(table.to_frame())} rows; jury: {votes!r}", flush=True)
                swept(suite, store, books)
    print(f"\n{len(books.broken)} broken", *books.broken, sep="\n")
    return 1 if books.broken else 0


if __name__ == "__main__":
    sys.exit(main())
