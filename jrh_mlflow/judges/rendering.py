"""Prompt templates, and how a presentation becomes the messages of a request.

A template is text with placeholders in braces, in one or two sections:

    [system]
    You compare two responses …
    [user]
    Compare response {slot_1} and response {slot_2} by this rubric: {rubric}
    {instruction}
    {candidates}
    {format}

A name in braces is a placeholder, `{{name}}` is the literal `{name}`, and every other brace is itself, so JSON needs no
escapes. A template without sections is the user message. What it does not place is added: the task before it, the
rubric and the output format after it. Values are put in once and never searched for placeholders.

Contents are data and stand between markers that carry a code:

    <response_A code="5d41402abc4b">
    …
    </response_A code="5d41402abc4b">

The code is a hash of everything shown and occurs in none of it, so no content can close its block. It is the same in
both presentation orders and on every machine.

How a message of a transcript is written for a judge: whole, between markers, with what cannot be shown named.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from jrh_mlflow.errors import RecipeError, SuiteError, suggest
from jrh_mlflow.options import ANSWER_STYLES
from jrh_mlflow.schema.items import is_scale
from jrh_mlflow.schema.presentation import TIE_CRITERIA, Criterion, Message, Presentation, part_text
from jrh_mlflow.text import json_text

BUILT_IN = ("pairwise", "label", "ordinal", "transcript")
PLACEHOLDERS = ("instruction", "rubric", "candidates", "answers", "format", "tag", "slot_1", "slot_2")
REGISTRY = "prompts:/"
"""Addresses in MLflow's prompt registry begin so."""
NO_RUBRIC = "Judge how well it does what the task asks for."

_PLACEHOLDER = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECTION = re.compile(r"^\[(system|user)\][ \t]*\n", re.MULTILINE)
_MIN_CODE = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A prompt with its placeholders."""

    name: str
    """A built-in name, or `own-` or the file's name with a digest of the text."""
    system: str | None
    """None: the system message of the built-in template for the presentation's kind."""
    user: str

    @property
    def text(self) -> str:
        """The whole template, as `judge/prompt.txt` shows it."""
        return _template_text(self.system, self.user)


@lru_cache(maxsize=16)
def _template_text(system: str | None, user: str) -> str:
    return f"[user]\n{user}" if system is None else f"[system]\n{system}\n\n[user]\n{user}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageTexts:
    """What this package itself puts into prompts; a judge keeps those it was made with, whatever later versions say."""

    templates: Mapping[str, Template]
    """The built-in ones by name."""
    format: str
    """What `{format}` stands for."""
    no_rubric: str
    """What `{rubric}` stands for where there is none."""


@lru_cache(maxsize=1)
def package_texts() -> PackageTexts:
    """Return the texts of this version."""
    templates = {name: built_in(name) for name in BUILT_IN}
    return PackageTexts(templates=templates, format=_package_text("format").rstrip("\n"), no_rubric=NO_RUBRIC)


@cache
def _translations(code: str) -> dict[str, str]:
    file = resources.files("jrh_mlflow.judges").joinpath(f"prompts/{code}.yaml")
    texts: dict[str, str] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return texts


@cache
def translated_texts(code: str) -> PackageTexts:
    """Return the texts of this version in another language; answers and the keys of the JSON are the same."""
    texts = _translations(code)
    templates = {name: parse_template(texts[name], name=name) for name in BUILT_IN}
    return PackageTexts(templates=templates, format=texts["format"].rstrip("\n"), no_rubric=texts["no_rubric"])


def spoken_criterion(criterion: Criterion, code: str) -> Criterion:
    """Return a tie criterion of this package in a language; a sentence of the user's own is what it is."""
    if criterion.name not in TIE_CRITERIA:
        return criterion
    own = TIE_CRITERIA[criterion.name]
    return own if code == "en" else replace(own, text=_translations(code)[own.name])


class RegisteredPrompt(str):
    """A template's text that was read from MLflow's prompt registry."""

    def __new__(cls, text: str, *, uri: str, version: str) -> RegisteredPrompt:
        """Make it; `version` is `prompts:/name/number`, whatever `uri` was asked for."""
        made = super().__new__(cls, text)
        made.uri, made.version = uri, version
        return made

    uri: str
    """As it was asked for: `prompts:/name/3`, `prompts:/name@alias`."""
    version: str
    """What that meant when it was read: `prompts:/name/3`."""


def is_registered(spec: str | Path) -> bool:
    """Whether this is the address of a prompt in MLflow's registry, which is read where the store is known."""
    return isinstance(spec, str) and spec.startswith(REGISTRY) and not isinstance(spec, RegisteredPrompt)


def load_template(spec: str | Path) -> Template:
    """Resolve a built-in name, a path to a template file, or the text of a template.

    Raises:
        RecipeError: for an unknown name or placeholder, a file that cannot be read, or a text without `{candidates}`.
    """
    if isinstance(spec, RegisteredPrompt):
        name = spec.version.removeprefix(REGISTRY).rpartition("/")[0]
        return parse_template(spec, name=f"{name}-{_digest(spec)}")
    if isinstance(spec, str) and spec in BUILT_IN:
        return built_in(spec)
    # A text before a file: no name of a file has placeholders or several lines.
    if isinstance(spec, str) and (_PLACEHOLDER.search(spec) or "\n" in spec):
        return parse_template(spec, name=f"own-{_digest(spec)}")
    if isinstance(spec, str) and not _is_file(spec):
        raise RecipeError(
            f"Unknown prompt {spec[:80]!r}.{suggest(spec[:80], BUILT_IN)} "
            f"Give one of {', '.join(BUILT_IN)}, a file that exists, or a text with {{candidates}}."
        )
    text = _read_file(Path(spec))
    return parse_template(text, name=f"{Path(spec).stem}-{_digest(text)}")


@lru_cache(maxsize=len(BUILT_IN))
def built_in(name: str) -> Template:
    """Return a template of this package."""
    return parse_template(_package_text(name), name=name)


def parse_template(text: str, *, name: str) -> Template:
    """Check a template's placeholders and add what it does not place."""
    system, user = _sections(text.replace("\r\n", "\n"), name)
    placed = _placeholders(system or "") | _placeholders(user)
    for unknown in sorted(placed - set(PLACEHOLDERS)):
        raise RecipeError(
            f"Unknown placeholder {{{unknown}}} in prompt {name!r}.{suggest(unknown, PLACEHOLDERS)} "
            f"Known: {', '.join(PLACEHOLDERS)}. A literal is written {{{{{unknown}}}}}."
        )
    if "candidates" not in _placeholders(user):
        raise RecipeError(f"Prompt {name!r} has no {{candidates}} in its user section: the judge would see nothing.")
    if {"candidates", "instruction"} & _placeholders(system or ""):
        raise RecipeError(f"Prompt {name!r} has contents in its system section. Move them below [user]: they are data.")
    if "instruction" not in placed:
        # Added and not refused: a template without its task would judge the responses alone.
        user = f"{{instruction}}\n\n{user}"
    for part in ("rubric", "format"):
        if part not in placed:
            user = f"{user}\n\n{{{part}}}"
    return Template(name=name, system=system, user=user)


def fitting(kind: str, answers: Sequence[str], ordinal: bool | None = None) -> str:
    """Name the built-in template for a kind of presentation, its answers, and whether these are a scale.

    Example:
        >>> fitting("response", ("1", "2", "3")), fitting("response", ("1", "2", "3"), ordinal=False)
        ('ordinal', 'label')
    """
    if kind == "pair":
        return "pairwise"
    if kind == "transcript":
        return "transcript"
    if kind != "response":
        raise ValueError(f"A presentation is a pair, a response or a transcript, but got {kind!r}.")
    # The template speaks of numbers: a scale of words is put as labels, in its order.
    return "ordinal" if ordinal is not False and is_scale(answers, fewest=2 if ordinal else 3) else "label"


@lru_cache(maxsize=256)
def answer_names(kind: str, answers: tuple[str, ...], style: str) -> Mapping[str, str]:
    """Return what the prompt calls each answer, and the answer it stands for.

    Example:
        >>> answer_names("pair", ("1", "2", "tie"), "letters")
        {'A': '1', 'B': '2', 'tie': 'tie'}
    """
    if not answers:
        raise SuiteError(f"A {kind} without `answers` cannot be judged. Give the suite's items their labels or levels.")
    slots = dict(zip(("1", "2"), ANSWER_STYLES[style], strict=True)) if kind == "pair" else {}
    if len({answer.strip().casefold() for answer in answers}) < len(answers):
        raise SuiteError(f"Answers must differ in more than case and spaces, but got {', '.join(map(repr, answers))}.")
    return {slots.get(answer, answer): answer for answer in answers}


def judge_messages(
    template: Template,
    shown: Presentation,
    *,
    style: str,
    ordinal: bool | None = None,
    texts: PackageTexts | None = None,
) -> tuple[Mapping[str, str], ...]:
    """Return the system and the user message of one call; `ordinal` is that of its item, `texts` those of the judge.

    Different contents give different messages; the two orders of a pair differ in nothing but where the contents stand.
    """
    slots, texts = ANSWER_STYLES[style], texts or package_texts()
    code = fence_code(shown_texts(shown))
    names = tuple(answer_names(shown.kind, shown.answers, style))
    context = [fence("context", code, text) for text in shown.context or ()]
    values = {
        # Behind the task the texts that the responses were to go by: of most suites there are none.
        "instruction": "\n\n".join([fence("task", code, shown.instruction), *context]),
        "rubric": shown.rubric or texts.no_rubric,
        "candidates": _candidates(shown, code, slots),
        "answers": _listed(names),
        "tag": code,
        "slot_1": slots[0],
        "slot_2": slots[1],
    }
    values["format"] = fill(texts.format, values)
    system = template.system
    if system is None:
        system = texts.templates[fitting(shown.kind, shown.answers, ordinal)].system or ""
    return (
        {"role": "system", "content": fill(system, values)},
        {"role": "user", "content": fill(template.user, values)},
    )


@lru_cache(maxsize=256)
def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(json.dumps(name, ensure_ascii=False) for name in names)


def fence_code(texts: Iterable[str]) -> str:
    """Return the code of the markers: a hash of all texts, regardless of order, that occurs in none of them."""
    return _fence_code(tuple(sorted(texts)))


# The other order of a pair has the same texts, and comes next.
@lru_cache(maxsize=16)
def _fence_code(ordered: tuple[str, ...]) -> str:
    # In any case: a model may take a marker in capitals for the same one.
    lowered = [text.lower() for text in ordered]
    is_plain = all(map(str.isascii, ordered))
    material = (f"[{', '.join(map(json_text, ordered))}]" if is_plain else json.dumps(ordered)).encode()
    while True:
        digest = hashlib.sha256(b"jrh-fence\n" + material).hexdigest()
        for length in range(_MIN_CODE, len(digest) + 1):
            if not any(digest[:length] in text for text in lowered):
                return digest[:length]
        material = digest.encode()


def shown_texts(shown: Presentation) -> list[str]:
    """List everything that is put into the messages."""
    plain = (shown.instruction, shown.rubric, shown.first, shown.second, shown.response, *shown.answers)
    texts = [text for text in (*plain, *(shown.context or ())) if text is not None]
    for message in shown.transcript or ():
        texts += message_texts(message)
    return texts


def candidate_texts(shown: Presentation) -> list[str]:
    """List what is judged, and the context: texts of others, whose verdicts are no verdicts."""
    texts = [text for text in (shown.first, shown.second, shown.response) if text is not None]
    texts += shown.context or ()
    for message in shown.transcript or ():
        texts += message_texts(message)
    return texts


def _candidates(shown: Presentation, code: str, slots: tuple[str, str]) -> str:
    if shown.kind == "pair":
        contents = zip(slots, (shown.first, shown.second), strict=True)
        return "\n\n".join(fence(f"response_{slot}", code, content) for slot, content in contents)
    if shown.kind == "response":
        return fence("response", code, shown.response)
    if shown.transcript is None:
        raise ValueError("A presentation of kind 'transcript' needs a transcript.")
    return fence("transcript", code, "\n".join(message_block(message, code) for message in shown.transcript))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values where a template has their names; they are not searched for names in turn."""
    return "".join([values[text] if kind == "variable" else text for kind, text in _pieces(template)])


def _placeholders(text: str) -> set[str]:
    return {match[2] for match in _PLACEHOLDER.finditer(text) if match[2]}


def template_pieces(text: str) -> list[tuple[str, str]]:
    """Cut a section into what is sent: `("text", …)` as it is, and `("variable", name)`; no two texts in a row.

    Example:
        >>> template_pieces("Say {{verdict}} of {candidates}")
        [('text', 'Say {verdict} of '), ('variable', 'candidates')]
    """
    pieces: list[tuple[str, str]] = []
    literal, end = "", 0
    for match in _PLACEHOLDER.finditer(text):
        literal += text[end : match.start()] + (f"{{{match[1]}}}" if match[1] else "")
        if match[2]:
            pieces += [("text", literal)] * bool(literal) + [("variable", match[2])]
            literal = ""
        end = match.end()
    rest = literal + text[end:]
    return pieces + [("text", rest)] * bool(rest)


_pieces = lru_cache(maxsize=64)(template_pieces)


def section_of(pieces: Iterable[tuple[str, str]]) -> str | None:
    """Write the section that sends these pieces; None where no template can: a value right between braces."""
    kept = list(pieces)
    # What must not be read as a placeholder gets one brace more: `{name}` is `{{name}}`, `{{name}}` is `{{{name}}}`.
    text = "".join(
        f"{{{value}}}" if kind == "variable" else _PLACEHOLDER.sub(lambda match: f"{{{match[0]}}}", value)
        for kind, value in kept
    )
    return text if template_pieces(text) == kept else None


def _sections(text: str, name: str) -> tuple[str | None, str]:
    before, *parts = _SECTION.split(text if text.endswith("\n") else f"{text}\n")
    if not parts:
        return None, before.strip("\n")
    sections = dict(zip(parts[::2], (body.strip("\n") for body in parts[1::2]), strict=True))
    if before.strip() or len(parts) != 2 * len(sections) or "user" not in sections:
        raise RecipeError(f"Prompt {name!r} must be one [system] and one [user] section, or plain text without either.")
    return sections.get("system"), sections["user"]


def _is_file(spec: str) -> bool:
    try:
        return Path(spec).is_file()
    except (OSError, ValueError):  # longer than a name may be, or with a NUL: a text, no path
        return False


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"Prompt file {path} is not UTF-8 at byte {error.start}. Save it as UTF-8.") from error
    except OSError as error:
        raise RecipeError(f"Prompt file {path} cannot be read: {error.strerror}.") from error


def _package_text(name: str) -> str:
    return resources.files("jrh_mlflow.judges").joinpath(f"prompts/{name}.txt").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def message_block(message: Message, code: str) -> str:
    """Write a message: its reasoning, its text, its tool calls, its error and its other parts, in this order."""
    calls = [
        fence("tool_call", code, _call_body(call), attributes=_call_attributes(call)) for call in message.tool_calls
    ]
    before = [] if message.reasoning is None else [fence("reasoning", code, message.reasoning)]
    error = [] if message.error is None else [fence("error", code, message.error)]
    parts = [fence("part", code, part_text(part), attributes=_part_attributes(part)) for part in message.parts]
    body = "\n".join([*before, message.content, *calls, *error, *parts])
    return fence("message", code, body, attributes=_attributes(message))


def message_texts(message: Message) -> list[str]:
    """List everything that `message_block` writes: no marker's code may occur in it."""
    texts = [message.content, _attributes(message), *(_call_body(call) for call in message.tool_calls)]
    texts += [_call_attributes(call) for call in message.tool_calls]
    texts += [text for text in (message.reasoning, message.error) if text is not None]
    return texts + [text for part in message.parts for text in (part_text(part), _part_attributes(part))]


def fence(name: str, code: str, content: str | None, *, attributes: str = "") -> str:
    """Put a content between two marker lines."""
    if content is None:
        raise ValueError(f"A presentation needs a content for its block {name!r}.")
    return f'<{name} code="{code}"{attributes}>\n{content}\n</{name} code="{code}">'


def _attributes(message: Message) -> str:
    given = {"tool_call_id": message.tool_call_id, "name": message.name}
    return _written({"role": message.role, **{key: value for key, value in given.items() if value is not None}})


def _part_attributes(part: Mapping[str, Any]) -> str:
    return _written({"type": part.get("type", "part")})


def _call_attributes(call: Mapping[str, Any]) -> str:
    return _written({key: value for key, value in call.items() if key != "arguments"})


def _call_body(call: Mapping[str, Any]) -> str:
    """Return the arguments whole: as JSON, or as the text they were recorded as."""
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _written(attributes: Mapping[str, Any]) -> str:
    # Roles, names and ids come from the transcript too: as JSON they cannot leave their place in the marker.
    names = {key: key if key.isidentifier() else json.dumps(key, ensure_ascii=False) for key in attributes}
    return "".join(f" {names[key]}={json.dumps(value, ensure_ascii=False)}" for key, value in attributes.items())
