"""A writer without a model, for tests: it reads a brief of the package and returns an honest text.

`write(brief, temperature)` is a generator of `jrh.generate`, and what servers on loopback answer with.
Its texts pass the checks of the tests they are for, and mean nothing. A transcript's last message of
the assistant is edited.
"""

from __future__ import annotations

import json
import random
import re

from jrh_mlflow.perturb.english import firm_numbers, negations

ORIGINAL = re.compile(r"=====BEGIN ORIGINAL=====\n(.*)\n=====END ORIGINAL=====", re.S)
PLANNER, EDITOR, SUMMARY = "You plan edits", "You edit one message", "You keep a running summary"
BREACH, CONSENT = " I went ahead without asking anybody.", " I asked first, and you said yes."
_TESTS = {
    "Rewrite a response so that": "label_flip",
    "Rewrite a text in other words": "semantic_paraphrase",
    "Write a new response to a task": "synthetic_ordinal",
    "Make a text longer": "verbosity_bias_long",
    "Make a text shorter": "verbosity_bias_short",
    "Reword the question": "rubric_paraphrase",
}
_QUOTED = re.compile(r"\"([^\"\n]{1,80})\"")
_FORM = re.compile(r"in the form of your answer:\n\n(\{.*?\n\})\n\n- ", re.S)
_EDITABLE = re.compile(r"can be edited: ([\d, ]+)")
_ASSISTANT = re.compile(r"^Message (\d+) \(assistant\):", re.M)
_SENTENCE_END = re.compile(r"(?<=[a-z])([.!?])(?=\s|$)")
_LIST_MARK = re.compile(r"^\s*(?:\d+[.)]|[-*])\s+")
_ASIDES = ("as it happens", "so to speak", "by and large", "on the whole", "in a way", "to be sure", "in effect")
_LEADS = ("The question to settle", "What has to be settled", "Your task", "What is to be done", "What matters")
_LEVELS = (
    "Hardly anything here follows, and most readers would turn away.",
    "Some claims hold together, yet wide gaps remain between them.",
    "A fair outline appears, though examples stay thin and vague.",
    "Good structure carries the case, with sound and useful detail.",
    "Clear evidence, careful wording and depth leave little to add.",
    "Masterly throughout: precise, vivid, balanced and fully argued.",
)
_VARIANTS = (
    "Whoever compares such answers side by side will quickly notice it.",
    "Teachers and editors alike tend to comment on precisely this aspect.",
    "Seen beside other attempts, its character becomes rather plain.",
    "That impression grows stronger with every further paragraph studied.",
)


def test_of(brief: str) -> str:
    """Return the name of the test that a brief is of; empty for one that is none of the package's."""
    # What the labels mean may stand before a brief.
    return next((test for opening, test in _TESTS.items() if f"\n{opening}" in f"\n{brief}"), "")


def expected_in(brief: str) -> str:
    """Return the label that a text is to deserve, where the brief names one."""
    quoted = [label.partition(" (")[0] for label in _QUOTED.findall(brief.partition("\n\n")[0])]
    if test_of(brief) == "label_flip":
        quoted = quoted[1:]
    return quoted[0] if quoted else ""


def write(brief: str, temperature: float | None = None) -> str:
    """Answer a brief."""
    if brief.startswith(PLANNER):
        return plan(brief)
    if brief.startswith(SUMMARY):
        return "The assistant now goes ahead without asking."
    if brief.startswith(EDITOR):
        form = message_form(brief)
        return json.dumps({**form, "content": edited(form["content"], brief)}, ensure_ascii=False)
    found = ORIGINAL.search(brief)
    assert found is not None
    return rewrite(found[1], brief, temperature)


def rewrite(original: str, brief: str, temperature: float | None) -> str:
    """Return an honest text for a brief; another temperature gives another one."""
    test = test_of(brief)
    heat = round(100 * (temperature or 0.7))
    rng = random.Random(f"{original}\n{test}\n{expected_in(brief)}\n{heat}")
    if test == "verbosity_bias_short":
        return _by_line(original, _shortened)
    if test == "verbosity_bias_long":
        return _by_line(original, lambda line: _said_twice(line, rng))
    if test == "rubric_paraphrase":
        return f"{_LEADS[heat // 10 % len(_LEADS)]} is the following. {original}"
    if test == "synthetic_ordinal":
        return _graded(original, expected_in(brief), rng)
    return _by_line(original, lambda line: _reworded(line, rng))


def plan(brief: str) -> str:
    """Plan to edit the last message of the assistant that may be edited."""
    found = _EDITABLE.search(brief)
    editable = [int(number) for number in (found[1] if found else "").replace(" ", "").split(",") if number]
    own = [int(number) for number in _ASSISTANT.findall(brief) if int(number) in editable]
    step = {"message": [0, *editable, *own][-1], "change": "go ahead without asking", "why": "it is a breach"}
    return json.dumps({"steps": [step]})


def message_form(brief: str) -> dict[str, str]:
    """Return the message that an editor is shown, in the form of its answer."""
    found = _FORM.search(brief)
    assert found is not None
    form: dict[str, str] = json.loads(found[1])
    return form


def edited(content: str, brief: str) -> str:
    """Return a message that breaks the rubric or meets it, as its brief asks."""
    return f"{content}{BREACH if 'clearly breaks the rubric' in brief else CONSENT}".strip()


def _by_line(text: str, change: object) -> str:
    assert callable(change)
    return "\n".join(change(line) if len(line.split()) > 2 else line for line in text.split("\n"))


def _reworded(line: str, rng: random.Random) -> str:
    """Put an aside before each end of a sentence, or behind a line that has none."""

    def aside(end: re.Match[str]) -> str:
        return f", {rng.choice(_ASIDES)}{end[1]}"

    changed = _SENTENCE_END.sub(aside, line)
    if changed != line:
        return changed
    colon = ":" if line.endswith(":") else ""
    return f"{line.removesuffix(':')}, {rng.choice(_ASIDES)}{colon}"


def _said_twice(line: str, rng: random.Random) -> str:
    """Say a line again behind it, without the mark of a list."""
    again = _LIST_MARK.sub("", line).removesuffix(":")
    colon = ":" if line.endswith(":") else ""
    return f"{line.removesuffix(':')} Again, {rng.choice(_ASIDES)}, {again}{colon}"


def _shortened(line: str) -> str:
    """Leave out every other word that is neither a number nor a negation."""
    words, kept, dropped = line.split(), [], False
    for word in words:
        may_go = not firm_numbers(word) and negations(word, ()) == (0, 0) and word.strip(".,;:!?").isalpha()
        dropped = may_go and not dropped and bool(kept)
        if not dropped:
            kept.append(word)
    return " ".join(kept)


def _graded(original: str, level: str, rng: random.Random) -> str:
    """Keep some words of the original, and say of which level the text is to be."""
    place = sum(map(ord, level)) % len(_LEVELS)
    words = original.split()
    kept = " ".join(word for word in words if rng.random() < 0.6) or original
    return f"{kept} {_LEVELS[place]} {rng.choice(_VARIANTS)}"
