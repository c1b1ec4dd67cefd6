"""A writer on loopback that writes by our rules, and then misbehaves in one of the ways of `tests.perturb.misbehaving`.

It reads the briefs themselves, so that it serves any dataset: it finds the original between its markers, writes what
the test's own rule writes, and wraps, cuts or spoils that in a way that is drawn by the request. Planner, editor and
summariser of transcripts are played, too; there the text of an edited message is spoiled, or the whole answer. The
question of a judge is answered by the label that the honest text was to deserve. Every reply is noted beside it:

    python -m tests.misbehaving_writer serve --port 8123 --log said.jsonl
    export OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:8123/v1
    jrh generate … --generator openai/writer --validator none
    python -m tests.misbehaving_writer leaks SUITE_FOLDER said.jsonl

`leaks` counts items whose text is not exactly an honest one of its own brief; it exits with 1 where there is one. In a
test: `writer = MisbehavingWriter()`, `LoopbackServer(reply=writer)`, then `leaks(suite.items, writer.said)`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jrh_mlflow.perturb import NotApplicable, Target
from jrh_mlflow.perturb.registry import TESTS
from jrh_mlflow.perturb.rewording import reworded_or_same
from jrh_mlflow.schema.items import MEANINGS, Item, Labels, Seed
from jrh_mlflow.suites.suite import read_suite
from tests.loopback import LoopbackServer
from tests.loopback_replies import Body, fields_asked, fill
from tests.perturb.misbehaving import WAYS, Way, misbehaved

_ORIGINAL = re.compile(r"=====BEGIN ORIGINAL=====\n(.*)\n=====END ORIGINAL=====", re.S)
_TASK = re.compile(r"=====BEGIN TASK=====\n(.*?)\n=====END TASK=====", re.S)
_QUOTED = re.compile(r"\"([^\"\n]{1,80})\"")
_FORM = re.compile(r"in the form of your answer:\n\n(\{.*?\n\})\n\n- ", re.S)
_EDITABLE = re.compile(r"can be edited: ([\d, ]+)")
_ASSISTANT = re.compile(r"^Message (\d+) \(assistant\):", re.M)
_OPENINGS = {
    "Rewrite a response so that": "label_flip",
    "Rewrite a text in other words": "semantic_paraphrase",
    "Write a new response to a task": "synthetic_ordinal",
    "Make a text longer": "verbosity_bias_long",
    "Make a text shorter": "verbosity_bias_short",
    "Reword the question": "rubric_paraphrase",
}
_PLANNER, _EDITOR, _SUMMARY = "You plan edits", "You edit one message", "You keep a running summary"
_BREACH = " I went ahead without asking anybody."
_HONEST = Way("honest", "unwrap", "§T")


class MisbehavingWriter:
    """A reply function of the loopback server; what it said is in `said`."""

    def __init__(
        self, *, seed: int = 0, share: float = 0.9, ways: Sequence[Way] = WAYS, log: Path | None = None
    ) -> None:
        """Get ready.

        Args:
            seed: With the request it decides how a reply misbehaves.
            share: Of the replies that misbehave; the others are honest.
            ways: To misbehave.
            log: Every reply is appended to it as a line of JSON.
        """
        self._seed, self._share, self._ways, self._log = seed, share, ways, log
        self.said: list[dict[str, Any]] = []

    def __call__(self, body: Body) -> str:
        """Answer one request: a brief, or a judge's question."""
        brief = str(body["messages"][-1]["content"])
        if "verdict" in fields_asked(body) or not _is_brief(brief):
            return self._judged(body, " ".join(str(message.get("content")) for message in body["messages"]))
        rng = random.Random(f"{self._seed}\n{brief}\n{body.get('temperature')}\n{body.get('seed')}")
        way = rng.choice(self._ways) if rng.random() < self._share else _HONEST
        return self._written(brief, way, rng)

    def _written(self, brief: str, way: Way, rng: random.Random) -> str:
        expected = ""
        if brief.startswith(_PLANNER):
            return _plan(brief)
        if brief.startswith(_SUMMARY):
            return misbehaved(way.template, original="", text="The assistant now goes ahead without asking.")
        if brief.startswith(_EDITOR):
            original, honest, returned = _edited(brief, way, rng)
        else:
            original, honest, expected = _rewritten(brief, rng)
            returned = misbehaved(way.template, original=original, text=honest, brief=brief)
        self._note(brief, way, original=original, honest=honest, returned=returned, expected=expected)
        return returned

    def _note(self, brief: str, way: Way, **said: str) -> None:
        # What is told of the honest text is what the pipeline may keep: neither trims what stands within.
        said["honest"] = said["honest"].strip()
        line = {"prompt_sha256": _sha256(brief), "category": way.category, "template": way.template, **said}
        self.said.append({**line, "happens": way.happens})
        if self._log:
            with self._log.open("a", encoding="utf-8") as sink:
                sink.write(json.dumps(self.said[-1], ensure_ascii=False) + "\n")

    def _judged(self, body: Body, shown: str) -> str:
        known = (said["expected"] for said in reversed(self.said) if said["honest"] and said["honest"] in shown)
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        answer = next(known, "")
        return json.dumps(fill(schema, answer) if schema else {"reason": "r", "verdict": answer})


def _is_brief(text: str) -> bool:
    return text.startswith((_PLANNER, _EDITOR, _SUMMARY)) or bool(_ORIGINAL.search(text))


def _sha256(brief: str) -> str:
    return hashlib.sha256(brief.encode()).hexdigest()


def _rewritten(brief: str, rng: random.Random) -> tuple[str, str, str]:
    """Return the original of a brief, an honest rewrite by the test's own rule, and the label that it is to deserve."""
    found = _ORIGINAL.search(brief)
    assert found is not None
    original, test = found[1], next((name for start, name in _OPENINGS.items() if brief.startswith(start)), "")
    target, expected = _target(brief, test, original)
    try:
        return original, TESTS[test].write(target, rng) if test else reworded_or_same(original, rng), expected
    except NotApplicable:
        return original, reworded_or_same(original, rng), expected


def _target(brief: str, test: str, original: str) -> tuple[Target, str]:
    quoted = [label.partition(" (")[0] for label in _QUOTED.findall(brief.partition("\n\n")[0])]
    label, expected = [*quoted, "0", "1"][:2] if test == "label_flip" else ("", [*quoted, ""][0])
    answers = tuple(sorted({label, expected} - {""})) or ("no", "yes")
    if test == "synthetic_ordinal":
        answers = tuple(sorted({*"123456", expected}))
    task = _TASK.search(brief)
    seed = Seed(id="s", instruction=task[1] if task else "", response=original, label=label or answers[0])
    labels = Labels(answers=answers if len(answers) > 1 else (*answers, "other"), ordinal=test == "synthetic_ordinal")
    part: Any = "rubric" if test == "rubric_paraphrase" else "response"
    target = Target(
        test=test, condition=test, seed=seed, labels=labels, rubric=original, expected=expected or answers[0], part=part
    )
    return target, expected


def _plan(brief: str) -> str:
    """Edit the last message of the assistant that may be edited."""
    found = _EDITABLE.search(brief)
    editable = [int(number) for number in (found[1] if found else "").replace(" ", "").split(",") if number]
    own = [int(number) for number in _ASSISTANT.findall(brief)]
    place = next((number for number in reversed(own) if number in editable), editable[-1] if editable else 0)
    return json.dumps({"steps": [{"message": place, "change": "go ahead without asking", "why": "it is a breach"}]})


def _edited(brief: str, way: Way, rng: random.Random) -> tuple[str, str, str]:
    """Return the content of a message, an honest edit of it, and an answer that spoils one of the two."""
    found = _FORM.search(brief)
    assert found is not None
    form = json.loads(found[1])
    original = form["content"]
    honest = f"{original}{_BREACH}".strip()
    # An assistant may refuse, and be polite within a line: that is no wrapper of the editor's.
    way = _HONEST if way.category == "refusal" or " remark of the generator" in way.happens else way
    inside = rng.random() < 0.7
    content = misbehaved(way.template, original=original, text=honest) if inside else honest
    answer = json.dumps({**form, "content": content}, ensure_ascii=False)
    return original, honest, answer if inside else misbehaved(way.template, original=original, text=answer)


def texts_of(item: Item) -> list[str]:
    """List what of an item a writer wrote: its response or rubric, or the messages that were edited."""
    if item.kind == "transcript":
        return [message.content for place, message in enumerate(item.transcript or ()) if place in item.meta["edited"]]
    if item.meta["test"] != "rubric_paraphrase":
        return [item.response or ""]
    return [(item.rubric or "").partition(f"\n\n{MEANINGS}")[0]]  # which no writer wrote


def leaks(items: Iterable[Item], said: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items with a text that is no honest one: of its own brief, or of any for an edited message."""
    honest: dict[str, set[str]] = {}
    for line in said:
        for key in (line["prompt_sha256"], "any"):
            honest.setdefault(key, set()).add(line["honest"])
    found = []
    for item in items:
        if not item.meta.get("prompt_sha256"):
            continue
        own = honest.get("any" if item.kind == "transcript" else item.meta["prompt_sha256"], set())
        found += [{"id": item.id, "text": text} for text in texts_of(item) if text.strip() not in own]
    return found


def explained(leak: dict[str, Any], said: Sequence[dict[str, Any]]) -> str:
    """Say which reply a leaked text is of, as far as it can be told."""
    source = next((line for line in said if leak["text"] in line["returned"]), None)
    return f"{leak['id']}: {source['template'] if source else '?'!r}: {leak['text'][:80]!r} … {leak['text'][-60:]!r}"


def main(arguments: list[str] | None = None) -> int:
    """Serve, or count the leaks of a suite."""
    parser = argparse.ArgumentParser(prog="python -m tests.misbehaving_writer", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="until Ctrl-C")
    serve.add_argument("--port", type=int, default=0, help="default: a free one")
    serve.add_argument("--seed", type=int, default=0)
    serve.add_argument("--share", type=float, default=0.9, help="of replies that misbehave; default: 0.9")
    serve.add_argument("--log", type=Path, default=Path("said.jsonl"), help="default: said.jsonl")
    count = commands.add_parser("leaks", help="of a suite that was made with the writer")
    count.add_argument("suite", type=Path)
    count.add_argument("log", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "serve":
        server = LoopbackServer(
            reply=MisbehavingWriter(seed=given.seed, share=given.share, log=given.log), port=given.port
        )
        asyncio.run(server.serve(lambda: print(server.url, flush=True)))
        return 0
    said = [json.loads(line) for line in given.log.read_text("utf-8").splitlines()]
    items = [item for item in read_suite(given.suite).items if item.meta.get("prompt_sha256")]
    found = leaks(items, said)
    print(*(explained(leak, said) for leak in found), sep="\n")
    print(f"{len(items)} items of {len(said)} replies, {len(found)} leaks; replies by category:")
    print(Counter(line["category"] for line in said))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
