"""A small dataset, and a model on loopback that writes by script and confirms what it wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from jrh_mlflow.generation import generate
from jrh_mlflow.generation.generate import GenerationRun, run_generation
from jrh_mlflow.generation.pipeline import SENT_BACK
from jrh_mlflow.generation.plan import GenerationPlan
from jrh_mlflow.generation.prepared import prepare_generation
from jrh_mlflow.generation.report import generation_content, made_suite
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.options import GenerationSettings
from jrh_mlflow.perturb import CHANGED, KEPT, Rewrite
from jrh_mlflow.perturb.checks import as_similarity
from jrh_mlflow.schema.presentation import Presentation
from jrh_mlflow.suites.responses import read_seeds
from jrh_mlflow.tracking.runs import keys
from tests import scripted_writer
from tests.loopback import LoopbackServer, Reply
from tests.loopback_replies import fields_asked

WRITER, CHECKER = "openai/writer", "openai/checker"
PRICES = {WRITER: (10.0, 20.0), CHECKER: (10.0, 20.0)}
RUBRIC = "Does the response answer the task correctly and completely?"
LABELS = ("fail", "pass")
_TEXTS = (
    "The council of Leeds approved the bicycle lanes in 2021 because residents asked for safer streets. Most people "
    "supported the plan, and traffic accidents dropped by 14 percent within a year. Shops on the street gained too.",
    "Photosynthesis lets plants turn sunlight into sugar. It happens in the chloroplasts, where water and carbon "
    "dioxide are used, and oxygen is released as a result. Without it there would be little food for animals.",
    "Students should not be forced to wear uniforms, since clothes help them express who they are. Schools could set "
    "simple rules about safety instead of buying 3 sets for everyone. Parents would save money and time as well.",
)


def rows(n: int = 20, *, levels: tuple[str, ...] = LABELS) -> list[dict[str, str]]:
    """Labelled responses, all different."""
    return [
        {
            "id": f"r{number:02d}",
            "instruction": f"Explain topic {number} in a short paragraph.",
            "response": f"{_TEXTS[number % 3]} Remark {number + 100} closes the text.",
            "label": levels[number % len(levels)],
        }
        for number in range(n)
    ]


def compared(shown: str) -> tuple[str, str] | None:
    """Return the original and the rewrite that a validator is shown; None where it is asked the judge's question."""
    parts = re.findall(r"=====BEGIN (?:ORIGINAL|REWRITE)=====\n(.*?)\n=====END (?:ORIGINAL|REWRITE)=====", shown, re.S)
    return (parts[0], parts[1]) if len(parts) == 2 else None


def validating(answer: Callable[[Presentation], str]) -> Callable[[Presentation], str]:
    """Return a function that answers the judge's question, and finds nothing around any text."""

    def validator(shown: Presentation) -> str:
        return KEPT if shown.answers == (KEPT, CHANGED) else answer(shown)

    return validator


class Player:
    """Plays generator and validator. It knows what each brief is about, as a good model would."""

    def __init__(
        self,
        dataset: list[dict[str, str]],
        *,
        tests: object = "paper",
        write: Callable[[str, float], str | Reply | None] | None = None,
        answer: Callable[[str], str | Reply] | None = None,
        compare: Callable[[str, str], str | Reply] | None = None,
        **reading: Any,
    ) -> None:
        """Get ready.

        Args:
            dataset: What `generate` is given.
            tests: What `generate` is given.
            write: From the test's name and the temperature to a reply; None writes by script.
            answer: From the expected answer to the validator's; the expected one by default.
            compare: From an original and its rewrite to the validator's answer; `kept` by default.
            reading: Further arguments of `read_seeds`.
        """
        seeds, labels = read_seeds(dataset, **(reading or {"labels": LABELS}))
        self.plan = GenerationPlan.of(seeds, labels, RUBRIC, tests)
        self._jobs = {job.test.brief(job.target): job for job in self.plan.jobs if isinstance(job.test, Rewrite)}
        self._write, self._answer = write or (lambda *_: None), answer or (lambda expected: expected)
        self._compare = compare or (lambda *_: "kept")
        self._wrote: dict[str, str] = {}
        self.bodies: dict[str, list[dict[str, Any]]] = {"writer": [], "compared": [], "checker": []}

    def __call__(self, body: dict[str, Any]) -> str | Reply:
        """Answer one request; with one model for both, a schema tells the validator's question."""
        if fields_asked(body) == ["reason", "verdict"]:
            shown = body["messages"][-1]["content"]
            texts = compared(shown)
            self.bodies["checker" if texts is None else "compared"].append(body)
            if texts is not None:
                answer = self._compare(*texts)
            else:
                answer = self._answer(next(expected for text, expected in self._wrote.items() if text in shown))
            return answer if isinstance(answer, Reply) else json.dumps({"reason": "r", "verdict": answer})
        self.bodies["writer"].append(body)
        brief = body["messages"][-1]["content"].removesuffix(SENT_BACK)
        job = self._jobs[brief]
        reply = self._write(job.test.name, body["temperature"])
        if reply is None:
            reply = scripted_writer.write(brief, body["temperature"])
        text = reply.text if isinstance(reply, Reply) else reply
        if text:
            self._wrote[text.strip()] = job.target.expected or ""
        return json.dumps({"text": reply}) if isinstance(reply, str) and fields_asked(body) == ["text"] else reply


def run(dataset: object, server: LoopbackServer | None, store_uri: str | None, **options: Any) -> GenerationRun:
    """Generate with models on the loopback server, or with the scripted writer; without a store, log nothing."""
    if server is not None:
        ramp = {name: options.pop(name) for name in ("attempts", "max_tokens") if name in options}
        options.setdefault("generator", Generator(WRITER, api_base=server.url, **ramp))
        options.setdefault("validator", PromptedJudge(CHECKER, api_base=server.url, max_tokens=64))
    options.setdefault("generator", scripted_writer.write)
    if "scale" not in options:
        options.setdefault("labels", LABELS)
    options.setdefault("rubric", RUBRIC)
    options |= {"dataset": dataset, "tracking_uri": store_uri, "experiment": "tests", "progress": False}
    settings = GenerationSettings.checked(options)
    return run_generation(settings) if store_uri is not None else unlogged(settings)


def unlogged(settings: GenerationSettings) -> GenerationRun:
    """Do all that `run_generation` does but log a run: for tests that look at the suite and at how it was made."""
    prepared = prepare_generation(settings)
    generate._check_ready(prepared)
    prepared = generate._proposed(generate._labelled(prepared))
    similarity = as_similarity(settings.similarity, prepared.plan.corpus)
    made = generate._make(prepared, similarity, on_done=None, on_items=None)
    suite = made_suite(prepared, made, run_id="", similarity=similarity.name)
    metrics = keys.last_values(generation_content(prepared, made, suite).points)
    return GenerationRun(suite=suite, made=made, run_id="", metrics=metrics, link="")
