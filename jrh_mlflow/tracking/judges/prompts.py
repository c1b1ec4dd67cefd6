"""Judge prompts in MLflow's prompt registry: read, registered, and linked to the runs of the judges that use them.

Variables are written `{{candidates}}` there and `{candidates}` here; a template with a system section is a chat prompt
there. MLflow has no way to write `{{name}}` or `{% … %}` as plain text: a template that sends it is kept beside the
text, in a tag.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.interrupts import say
from jrh_mlflow.errors import RecipeError, TrackingError, suggest
from jrh_mlflow.judges.rendering import (
    REGISTRY,
    RegisteredPrompt,
    Template,
    parse_template,
    section_of,
    template_pieces,
)
from jrh_mlflow.tracking.judges.judge_registry import active_store
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.runs.store import active_uri, mlflow_errors, paged, reason, tried_again

if TYPE_CHECKING:
    from mlflow import MlflowClient

_ADDRESS = re.compile(rf"{REGISTRY}(?P<name>[^/@]+)(?:/(?P<version>[0-9]+)|@(?P<alias>[^/@]+))")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_ALIAS = re.compile(r"(?!(?i:latest|v[0-9]+)$)[A-Za-z0-9_-]+")
_VARIABLE = re.compile(r"\{\{\s*([a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)*)\s*\}\}")
"""As MLflow finds variables; all else is text to it."""
_NOT_THERE = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")
_MOST_RUNS = 2_000
"""Runs that a prompt version is shown with, the newest ones: the tag that holds them takes 100,000 characters."""
_linking = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistryForm:
    """A template as the registry keeps it."""

    template: str | list[dict[str, str]]
    """The user message, or the system and the user message."""
    tags: Mapping[str, str]
    """The template in our own form, where MLflow's text cannot tell it; else empty."""


def registry_form(template: Template) -> RegistryForm:
    """Write a template with MLflow's variables."""
    sections = (
        {"user": template.user} if template.system is None else {"system": template.system, "user": template.user}
    )
    written = {role: _written(section) for role, section in sections.items()}
    is_same = all(_registry_pieces(written[role]) == template_pieces(sections[role]) for role in sections)
    messages = [{"role": role, "content": text} for role, text in written.items()]
    return RegistryForm(
        template=written["user"] if template.system is None else messages,
        tags={} if is_same and not _is_jinja(written.values()) else {keys.TAG_TEMPLATE: template.text},
    )


def template_text(template: str | list[dict[str, Any]], tags: Mapping[str, str], *, uri: str) -> str:
    """Return what the registry keeps as the text of a template of ours.

    Raises:
        RecipeError: when it has messages of other roles, a value right between braces, Jinja2, or a tag that does not
            fit it.
    """
    if (kept := tags.get(keys.TAG_TEMPLATE)) is not None:
        # Somebody may have edited the text and left the tag: then nobody knows which of the two is meant.
        if registry_form(parse_template(kept, name=uri)).template != template:
            raise RecipeError(f"The tag {keys.TAG_TEMPLATE} of {uri} is not of its text. Register the prompt again.")
        return kept
    if isinstance(template, str):
        _refuse_jinja([template], uri)
        text = _section(template, uri) if _has_contents([template]) else template
        return text if text.endswith("\n") else f"{text}\n"
    roles = [message.get("role") for message in template]
    if roles not in (["user"], ["system", "user"]) or not all(isinstance(part["content"], str) for part in template):
        raise RecipeError(f"The prompt {uri} has the messages {roles}: give a user message, or system and user.")
    contents = [message["content"] for message in template]
    _refuse_jinja(contents, uri)
    if _has_contents(contents):
        contents = [_section(content, uri) for content in contents]
    return "\n".join(f"[{role}]\n{content}\n" for role, content in zip(roles, contents, strict=True))


def _refuse_jinja(texts: Iterable[str], uri: str) -> None:
    if _is_jinja(texts):
        raise RecipeError(
            f"The prompt {uri} is written in Jinja2, whose tags {{% … %}} a judge would be sent as they stand. "
            "Register a text with variables only, such as {{candidates}}."
        )


def _is_jinja(texts: Iterable[str]) -> bool:
    """Whether MLflow takes texts for Jinja2, and not for text with variables."""
    return any("{%" in text and "%}" in text for text in texts)


def _has_contents(texts: list[str]) -> bool:
    """Whether what is judged is placed by a variable of MLflow's; where not, the text is taken to be in our form."""
    return any(("variable", "candidates") in _registry_pieces(text) for text in texts)


def _section(text: str, uri: str) -> str:
    section = section_of(_registry_pieces(text))
    if section is None:
        raise RecipeError(f"The prompt {uri} has a variable right between braces: put a space between them.")
    return section


def _registry_pieces(text: str) -> list[tuple[str, str]]:
    """Cut a text of the registry as `template_pieces` cuts ours."""
    # Split by a pattern with one group: texts and variables take turns.
    cut = _VARIABLE.split(text)
    pieces = [("variable" if number % 2 else "text", value) for number, value in enumerate(cut)]
    return [(kind, value) for kind, value in pieces if value]


def _written(section: str) -> str:
    pieces = template_pieces(section)
    return "".join(f"{{{{{value}}}}}" if kind == "variable" else value for kind, value in pieces)


def registered_prompt(uri: str, *, tracking_uri: str | None = None) -> RegisteredPrompt:
    """Return the text of `prompts:/name/version` (or `prompts:/name@alias`) in the form of our templates.

    The alias is looked up now, and never taken from MLflow's cache.

    Raises:
        RecipeError: when there is no such prompt, or it cannot be a template.
        TrackingError: when MLflow cannot be reached.
    """
    store = tracking_uri or active_uri()
    with _registry(store, problem=f"does not give {uri}") as client:
        prompt = _version(client, uri, store)
    text = template_text(prompt.template, prompt.tags, uri=uri)
    return RegisteredPrompt(text, uri=uri, version=f"{REGISTRY}{prompt.name}/{prompt.version}")


def _version(client: MlflowClient, uri: str, store: str) -> Any:
    """Return MLflow's own object of a prompt version."""
    from mlflow.exceptions import MlflowException

    name, version, alias = _address(uri)
    try:
        by_alias = client.get_prompt_version_by_alias
        prompt = client.get_prompt_version(name, version) if version else by_alias(name, alias)
    except MlflowException as error:
        if error.error_code not in _NOT_THERE:
            raise
        known = [other.name for other in client.search_prompts(max_results=100)]
        near = "" if name in known else suggest(name, known)
        raise RecipeError(f"There is no prompt {uri} in the registry: {reason(error, store)}.{near}") from error
    if prompt is None:
        raise RecipeError(f"There is no prompt {uri} in the registry.")
    return prompt


def _address(uri: str) -> tuple[str, str, str]:
    match = _ADDRESS.fullmatch(uri)
    if match is None:
        raise RecipeError(f"{uri!r} is no prompt: give {REGISTRY}NAME/VERSION or {REGISTRY}NAME@ALIAS.")
    return match["name"], match["version"] or "", match["alias"] or ""


def register_template(
    template: Template,
    name: str,
    *,
    alias: str | None = None,
    tags: Mapping[str, str] | None = None,
    tracking_uri: str | None = None,
) -> RegisteredPrompt:
    """Register a template, as a new version unless one of this name holds the same text already.

    Args:
        template: With its text and variables.
        name: Of the prompt: letters, digits, `_`, `-` and `.`.
        alias: Set to point at the version; where None, aliases stay as they are.
        tags: Of the version.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        RecipeError: for a name, an alias or a text that the registry does not take.
        TrackingError: when MLflow cannot be reached.
    """
    check_prompt_names(name, alias)
    try:
        template.text.encode()
    except UnicodeEncodeError as error:
        raise RecipeError(f"Prompt {template.name!r} holds a lone surrogate, which no store can. Clean it.") from error
    form, store = registry_form(template), tracking_uri or active_uri()
    with _registry(store, problem=f"did not register the prompt {name!r}") as client:
        # Looked for anew each time: another process may have registered the same text in between.
        number = tried_again(lambda: _same_version(client, name, form) or _new_version(client, name, form, store))
        for key, value in (tags or {}).items():
            client.set_prompt_version_tag(name, str(number), key, value)
        if alias is not None:
            client.set_prompt_alias(name, alias, number)
    version = f"{REGISTRY}{name}/{number}"
    return RegisteredPrompt(template.text, uri=f"{REGISTRY}{name}@{alias}" if alias else version, version=version)


def check_prompt_names(name: str, alias: str | None) -> None:
    """Check the name and the alias of a prompt by MLflow's rules.

    Raises:
        RecipeError: saying them.
    """
    if not _NAME.fullmatch(name):
        raise RecipeError(f"A prompt's name has letters, digits, _, - and . only, but got {name!r}.")
    if alias is not None and not _ALIAS.fullmatch(alias):
        rule = "has letters, digits, _ and - only, and is neither latest nor v with a number"
        raise RecipeError(f"An alias {rule}, but got {alias!r}.")


def _same_version(client: MlflowClient, name: str, form: RegistryForm) -> int | None:
    """Find the newest version that holds this very template."""
    if client.get_prompt(name) is None:
        return None
    own = form.template, form.tags.get(keys.TAG_TEMPLATE)
    for version in paged(lambda token: client.search_prompt_versions(name, page_token=token)):
        if (version.template, version.tags.get(keys.TAG_TEMPLATE)) == own:
            return int(version.version)
    return None


def _new_version(client: MlflowClient, name: str, form: RegistryForm, store: str) -> int:
    from mlflow.exceptions import MlflowException

    try:
        if client.get_prompt(name) is None:
            client.create_prompt(name)
        return int(client.create_prompt_version(name, form.template, tags=dict(form.tags)).version)
    except MlflowException as error:
        if error.error_code == "INVALID_PARAMETER_VALUE" or "name is already taken" in str(error):
            raise RecipeError(f"The registry does not take the prompt {name!r}: {reason(error, store)}.") from error
        raise


def tell_run(version: str, run_id: str, *, tracking_uri: str | None = None) -> None:
    """Let a run that is over name the version that its prompt was registered as, and link the two.

    Raises:
        TrackingError: when MLflow does not take it.
    """
    store = tracking_uri or active_uri()
    with _registry(store, problem=f"did not take the prompt of run {run_id}") as client:
        # A param cannot be changed: a run that asked a registered prompt keeps the version that it asked.
        if keys.PARAM_PROMPT_URI not in client.get_run(run_id).data.params:
            client.log_param(run_id, keys.PARAM_PROMPT_URI, version)
    link_prompt(version, run_id, tracking_uri=store)


def link_prompt(version: str, run_id: str, *, tracking_uri: str) -> None:
    """Show a prompt version on the page of a run, and the run on the page of the prompt; list it in the experiment.

    That it cannot be done is said, and takes nothing from the run.
    """
    name, number, _ = _address(version)
    try:
        # MLflow writes the link to the active store, which is one for all threads.
        with _registry(tracking_uri, problem=f"did not link {version}") as client, _linking, active_store(tracking_uri):
            prompt = client.get_prompt_version(name, number)
            if prompt is None:
                raise RecipeError(f"There is no prompt {version} in the registry: run {run_id} is not linked to it.")
            client.link_prompt_version_to_run(run_id, prompt)
            runs = _with(prompt.tags.get(keys.TAG_PROMPT_RUNS), run_id)
            client.set_prompt_version_tag(name, number, keys.TAG_PROMPT_RUNS, ",".join(runs))
            listed = client.get_prompt(name)
            experiments = listed.tags.get(keys.TAG_PROMPT_EXPERIMENTS) if listed else None
            own = _with(experiments, client.get_run(run_id).info.experiment_id)
            client.set_prompt_tag(name, keys.TAG_PROMPT_EXPERIMENTS, f",{','.join(own)},")
    except (RecipeError, TrackingError) as error:
        say(str(error))


def _with(listed: str | None, added: str) -> list[str]:
    """Return the ids of a tag with one more at the end, and no more than the tag can hold."""
    # At the end even if it was there: the newest stay when the oldest have to make way.
    return [*(other for other in (listed or "").split(",") if other and other != added), added][-_MOST_RUNS:]


@contextmanager
def _registry(uri: str, *, problem: str) -> Iterator[MlflowClient]:
    """Give a client of the registry that belongs to a store, with its errors in one line."""
    from mlflow import MlflowClient

    with mlflow_errors(uri, problem=problem, what_now="Nothing else was changed."):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        demand_features(client, "prompts", "link_prompt_version_to_run", "search_prompt_versions", since="3.14")
        yield client


def demand_features(client: MlflowClient, what: str, *names: str, since: str) -> None:
    """Refuse an MLflow that is too old for a registry.

    Raises:
        RecipeError: naming the version that is needed.
    """
    if not all(hasattr(client, name) for name in names):
        import mlflow

        raise RecipeError(
            f"MLflow {mlflow.__version__} has no registry of {what} as it is used here: pip install 'mlflow>={since}'."
        )
