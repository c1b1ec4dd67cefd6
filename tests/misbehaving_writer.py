"""A writer on loopback that writes by script, and then misbehaves in one of the ways of `tests.perturb.misbehaving`.

It reads the briefs themselves (`tests.scripted_writer`), so that it serves any dataset; it wraps, cuts or spoils the
honest text in a way that is drawn by the request. Of edited messages of transcripts the text is spoiled, or the whole
answer. It is a strict validator, too: asked to compare texts it keeps only an honest one, and asked the judge's
question it gives the label that the honest text was to deserve. Every reply is noted beside it:

    python -m tests.misbehaving_writer serve --port 8123 --log said.jsonl
    export OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:8123/v1
    jrh generate … --generator openai/writer
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

from jrh_mlflow.schema.items import MEANINGS, Item
from jrh_mlflow.suites.suite import read_suite
from tests import scripted_writer
from tests.loopback import LoopbackServer
from tests.loopback_replies import Body, fields_asked, fill
from tests.perturb.misbehaving import WAYS, Way, misbehaved
from tests.scripted_writer import EDITOR, ORIGINAL, PLANNER, SUMMARY

_COMPARED = re.compile(r"=====BEGIN (?:ORIGINAL|REWRITE)=====\n(.*?)\n=====END (?:ORIGINAL|REWRITE)=====", re.S)
_MESSAGE = re.compile(r"^Message \d+:\n", re.M)
_HONEST = Way("honest", "§T")


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
        return self._written(brief, way, rng, body.get("temperature"))

    def _written(self, brief: str, way: Way, rng: random.Random, temperature: float | None) -> str:
        if brief.startswith(PLANNER):
            return scripted_writer.plan(brief)
        if brief.startswith(SUMMARY):
            return misbehaved(way.template, original="", text="The assistant now goes ahead without asking.")
        if brief.startswith(EDITOR):
            original, honest, returned = _edited(brief, way, rng)
        else:
            original = _original(brief)
            honest = scripted_writer.rewrite(original, brief, temperature)
            returned = misbehaved(way.template, original=original, text=honest, brief=brief)
        expected = scripted_writer.expected_in(brief)
        self._note(brief, way, original=original, honest=honest, returned=returned, expected=expected)
        return returned

    def _note(self, brief: str, way: Way, **said: str) -> None:
        # What is told of the honest text is what the pipeline may keep: neither trims what stands within.
        said["honest"] = said["honest"].strip()
        line = {"prompt_sha256": _sha256(brief), "category": way.category, "template": way.template, **said}
        self.said.append(line)
        if self._log:
            with self._log.open("a", encoding="utf-8") as sink:
                sink.write(json.dumps(self.said[-1], ensure_ascii=False) + "\n")

    def _judged(self, body: Body, shown: str) -> str:
        texts = _COMPARED.findall(shown)
        if len(texts) == 2:
            answer = self._compared(*texts)
        else:
            known = (said["expected"] for said in reversed(self.said) if said["honest"] and said["honest"] in shown)
            answer = next(known, "")
        schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        return json.dumps(fill(schema, answer) if schema else {"reason": "r", "verdict": answer})

    def _compared(self, original: str, rewrite: str) -> str:
        """Keep an honest text, or edited messages of which each is honest or as it was."""
        before, after = ({part.strip() for part in _MESSAGE.split(text)} for text in (original, rewrite))
        honest = {said["honest"] for said in self.said}
        is_edited = bool(_MESSAGE.match(original))
        return "kept" if after <= (honest | before if is_edited else honest) else "changed"


def _is_brief(text: str) -> bool:
    return text.startswith((PLANNER, EDITOR, SUMMARY)) or bool(ORIGINAL.search(text))


def _original(brief: str) -> str:
    found = ORIGINAL.search(brief)
    assert found is not None
    return found[1]


def _sha256(brief: str) -> str:
    return hashlib.sha256(brief.encode()).hexdigest()


def _edited(brief: str, way: Way, rng: random.Random) -> tuple[str, str, str]:
    """Return the content of a message, an honest edit of it, and an answer that spoils one of the two."""
    form = scripted_writer.message_form(brief)
    original = form["content"]
    honest = scripted_writer.edited(original, brief)
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
