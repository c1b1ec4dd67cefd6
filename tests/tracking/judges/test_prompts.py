"""Judge prompts to MLflow's registry and back: the judge made of what was registered sends the same bytes."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mlflow import MlflowClient
from mlflow.entities.model_registry import PromptVersion

import jrh_mlflow as jrh
from jrh_mlflow.engine import plan_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.exporting import registries
from jrh_mlflow.judges.rendering import PLACEHOLDERS, RegisteredPrompt, Template, load_template, template_pieces
from jrh_mlflow.measuring.resolve import load_suite, resolve_judge
from jrh_mlflow.schema.items import Item
from jrh_mlflow.tracking.judges.identity import judge_from
from jrh_mlflow.tracking.judges.prompts import registered_prompt, registry_form, template_text
from jrh_mlflow.tracking.runs import keys
from tests.examples import up_to
from tests.loopback import LoopbackServer

MODEL = "openai/test-model"
SIGNS = ["{", "}", "{{", "}}", "{{ rubric }}", "{name}", "{{name}}", "{{rubric}}", "{{a.b}}", "{%", "%}"]
SIGNS += ['{"verdict": "A"}']
VARIABLES = [f"{{{name}}}" for name in PLACEHOLDERS if name not in ("candidates", "instruction")]
TEXT = st.lists(st.sampled_from([*SIGNS, *VARIABLES, "\n", " "]) | st.text(max_size=4), max_size=12).map("".join)


@pytest.fixture
def client(store_uri: str) -> MlflowClient:
    """A client of the registry."""
    return MlflowClient(tracking_uri=store_uri, registry_uri=store_uri)


def sent(judge: object, store_uri: str | None = None) -> list[bytes]:
    """Return the messages of some calls on pairs, in bytes."""
    suite, asked = load_suite("datasheet-short"), resolve_judge(judge, tracking_uri=store_uri)
    assert isinstance(asked, jrh.PromptedJudge)
    asked.begin(suite)
    calls = list(plan_calls(suite, asked, replicates=1))[::40]
    return [json.dumps([dict(one) for one in asked.request(call).messages]).encode() for call in calls]


def a_template(system: str | None, user: str) -> Template:
    """Make a template of two parts; what is none is left out."""
    try:
        return load_template(f"{user}\n" if system is None else f"[system]\n{system}\n[user]\n{user}\n")
    except RecipeError:
        assume(False)
        raise


@settings(max_examples=up_to(80), deadline=None)
@given(st.none() | TEXT, TEXT, TEXT)
def test_every_template_sends_the_same_bytes_after_the_way_through_mlflows_form(
    system: str | None, before: str, after: str
) -> None:
    template = a_template(system, f"{before}{{candidates}}{after}")
    form = registry_form(template)
    kept = json.loads(json.dumps(form.template))
    text = template_text(kept, form.tags, uri="prompts:/x/1")
    back = RegisteredPrompt(text, uri="prompts:/x/1", version="prompts:/x/1")
    assert sent(jrh.PromptedJudge(MODEL, prompt=back)) == sent(jrh.PromptedJudge(MODEL, prompt=template.text))


@settings(max_examples=up_to(200), deadline=None)
@given(TEXT)
def test_a_prompt_that_others_registered_is_filled_as_mlflow_fills_it(text: str) -> None:
    written = f"{text} {{{{instruction}}}}{{{{ candidates }}}} {{{{rubric}}}} {{{{format}}}}"
    try:
        template = load_template(template_text(written, {}, uri="prompts:/x/1"))
    except RecipeError:
        return  # a variable that judges do not know, one right between braces, or Jinja2
    values = {name: f"<{name}>" for name in PLACEHOLDERS}
    filled = PromptVersion("x", 1, written).format(allow_partial=True, **values)
    assert isinstance(filled, str)
    ours = "".join(values[one] if kind == "variable" else one for kind, one in template_pieces(template.user))
    assert ours == filled.replace("\r\n", "\n").strip("\n")


@pytest.mark.parametrize(
    "prompt",
    [
        'Which? {candidates}\nAnswer like {"verdict": "A"}, never {{candidates}}.',
        "[system]\nYou are fair.\n[user]\n{{ rubric }} is text here.\n{candidates}",
        "{% if a %} is text here. {candidates}",
        "label",
        "pairwise",
    ],
    ids=["text", "chat", "tags", "built in", "automatic"],
)
def test_the_judge_made_from_a_registered_prompt_sends_what_the_registered_one_sent(
    prompt: str, store_uri: str, request: pytest.FixtureRequest
) -> None:
    name = f"same-{request.node.callspec.id.replace(' ', '-')}"
    judge = jrh.PromptedJudge(MODEL, prompt=prompt, rubric="Be fair.", tie_criterion="strict")
    uri = jrh.register_prompt(judge, name, tracking_uri=store_uri)
    assert uri == f"prompts:/{name}/1"
    again = jrh.PromptedJudge(MODEL, prompt=uri, rubric="Be fair.", tie_criterion="strict")
    if prompt != "label":  # a prompt for single responses
        assert sent(again, store_uri) == sent(judge)
    read = resolve_judge(again, tracking_uri=store_uri)
    assert isinstance(read, jrh.PromptedJudge)
    assert (read.prompt_uri, read.prompt_version) == (uri, uri)
    if prompt != "pairwise":
        assert read.fingerprint() == judge.fingerprint()
    assert (read.template.system, read.template.user) == (judge.template.system, judge.template.user)


def test_the_same_text_is_one_version_and_an_alias_moves_only_when_asked(client: MlflowClient, store_uri: str) -> None:
    first, second = (jrh.PromptedJudge(MODEL, prompt=f"{word} {{candidates}}") for word in ("Compare", "Weigh"))

    def registered(judge: jrh.PromptedJudge, alias: str | None = None) -> str:
        return jrh.register_prompt(judge, "one-text", alias=alias, tracking_uri=store_uri)

    assert registered(first, "production") == "prompts:/one-text/1"
    assert registered(second) == "prompts:/one-text/2"
    assert registered(first) == "prompts:/one-text/1"
    assert int(client.get_prompt_version_by_alias("one-text", "production").version) == 1
    by_alias = jrh.PromptedJudge(MODEL, prompt="prompts:/one-text@production")
    assert sent(by_alias, store_uri) == sent(first)
    assert registered(second, "production") == "prompts:/one-text/2"
    # Looked up at once: MLflow's own cache would hold the old one for a minute.
    read = resolve_judge(by_alias, tracking_uri=store_uri)
    assert isinstance(read, jrh.PromptedJudge)
    assert (read.prompt_uri, read.prompt_version) == ("prompts:/one-text@production", "prompts:/one-text/2")
    assert sent(by_alias, store_uri) == sent(second)
    assert len(client.search_prompt_versions("one-text")) == 2


def test_two_texts_that_look_alike_in_the_registry_are_two_versions(store_uri: str) -> None:
    texts = ("{rubric} {candidates}", "{{{rubric}}} {candidates} {rubric}")
    uris = [
        jrh.register_prompt(jrh.PromptedJudge(MODEL, prompt=text), "alike", tracking_uri=store_uri) for text in texts
    ]
    assert uris == ["prompts:/alike/1", "prompts:/alike/2"]
    for text, uri in zip(texts, uris, strict=True):
        assert sent(jrh.PromptedJudge(MODEL, prompt=uri), store_uri) == sent(jrh.PromptedJudge(MODEL, prompt=text))


def test_a_kept_template_that_somebody_changed_is_refused(client: MlflowClient, store_uri: str) -> None:
    judge = jrh.PromptedJudge(MODEL, prompt="{{ rubric }} is text. {candidates}")
    jrh.register_prompt(judge, "changed", tracking_uri=store_uri)
    assert sent(jrh.PromptedJudge(MODEL, prompt="prompts:/changed/1"), store_uri) == sent(judge)
    client.set_prompt_version_tag("changed", "1", keys.TAG_TEMPLATE, "Other {candidates}")
    with pytest.raises(RecipeError, match="is not of its text"):
        registered_prompt("prompts:/changed/1", tracking_uri=store_uri)


@pytest.mark.parametrize(
    "template",
    [
        "{% if rubric %}{{ rubric }}{% endif %} {{ candidates }}",
        "{%- set x = 1 -%} {candidates}",
        [{"role": "system", "content": "{% if x %}Hi{% endif %}"}, {"role": "user", "content": "{{ candidates }}"}],
    ],
    ids=["text", "our variables", "chat"],
)
def test_a_prompt_in_jinja_is_refused_as_its_tags_would_be_sent(template: str | list[dict[str, str]]) -> None:
    with pytest.raises(RecipeError, match=r"prompts:/x/1 is written in Jinja2"):
        template_text(template, {}, uri="prompts:/x/1")


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("prompts:/one-texd@production", "Did you mean 'one-text'"),
        ("prompts:/one-text", "prompts:/NAME/VERSION or prompts:/NAME@ALIAS"),
        ("prompts:/one-text@nobody", "no prompt prompts:/one-text@nobody"),
        ("prompts:/one-text/99", "no prompt prompts:/one-text/99"),
    ],
)
def test_a_prompt_that_is_not_there_is_refused_with_the_nearest_name(
    uri: str, text: str, client: MlflowClient, store_uri: str
) -> None:
    jrh.register_prompt(jrh.PromptedJudge(MODEL), "one-text", tracking_uri=store_uri)
    with pytest.raises(RecipeError, match=text):
        registered_prompt(uri, tracking_uri=store_uri)


@pytest.mark.parametrize(
    ("name", "alias", "text"),
    [
        ("a b", None, "letters, digits"),
        ("", None, "letters, digits"),
        ("x", "latest", "neither latest"),
        ("x", "v3", "neither latest"),
    ],
)
def test_names_that_mlflow_does_not_take_are_refused_before_anything_is_registered(
    name: str, alias: str | None, text: str, store_uri: str, client: MlflowClient
) -> None:
    with pytest.raises(RecipeError, match=text):
        jrh.register_prompt(jrh.PromptedJudge(MODEL), name, alias=alias, tracking_uri=store_uri)
    assert client.get_prompt("x") is None


def test_the_name_of_a_judge_is_made_fit_and_one_of_which_nothing_is_left_has_to_be_given(store_uri: str) -> None:
    judge = jrh.PromptedJudge(MODEL, name="Fair/one (strict)")
    assert jrh.register_prompt(judge, tracking_uri=store_uri) == "prompts:/Fair-one-strict/1"
    for name in ("评委", "法官 (…)"):
        with pytest.raises(RecipeError, match=f"(?s){name[:2]}.* no letter or digit .*: give name="):
            jrh.register_prompt(jrh.PromptedJudge(MODEL, name=name), tracking_uri=store_uri)


def test_a_judge_without_a_template_has_no_prompt_to_register_nor_has_its_run(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimpleNamespace(judge=jrh.scripted.AlwaysTie, params={}, run_id="0" * 32)
    monkeypatch.setattr(registries, "measured_judge", lambda *args, **options: run)
    for what in (jrh.scripted.AlwaysTie(), run.run_id):
        with pytest.raises(RecipeError, match="is a scripted judge: only a model's prompt"):
            jrh.register_prompt(what, "none", tracking_uri=store_uri)


def test_an_mlflow_that_is_too_old_is_refused_with_the_version_needed(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(MlflowClient, "link_prompt_version_to_run")
    with pytest.raises(RecipeError, match=r"has no registry of prompts .* pip install 'mlflow>="):
        registered_prompt("prompts:/one-text/1", tracking_uri=store_uri)


def test_a_run_names_the_version_that_an_alias_meant_and_both_pages_show_the_other(
    client: MlflowClient, store_uri: str
) -> None:
    with LoopbackServer() as server:
        judge = jrh.PromptedJudge(MODEL, prompt="Linked. {candidates}", api_base=server.url)
        uri = jrh.register_prompt(judge, "linked", alias="live", tracking_uri=store_uri)
        by_alias = jrh.PromptedJudge(MODEL, prompt="prompts:/linked@live", api_base=server.url)
        done = jrh.evaluate(by_alias, few_pairs(), tracking_uri=store_uri, experiment="tests", progress=False)
    run = client.get_run(done.run_id)
    assert run.data.params[keys.PARAM_PROMPT_URI] == uri == "prompts:/linked/1"
    assert json.loads(run.data.tags["mlflow.linkedPrompts"]) == [{"name": "linked", "version": "1"}]
    version = client.get_prompt_version("linked", "1")
    assert version is not None
    assert version.tags[keys.TAG_PROMPT_RUNS] == done.run_id
    listed = client.search_prompts(filter_string=f"experiment_id = '{run.info.experiment_id}'")
    assert "linked" in [prompt.name for prompt in listed]


def test_the_prompt_of_a_run_is_registered_from_what_the_run_keeps_and_linked_to_it(
    client: MlflowClient, store_uri: str
) -> None:
    with LoopbackServer() as server:
        judge = jrh.PromptedJudge(MODEL, api_base=server.url)
        done = jrh.evaluate(judge, few_pairs(), tracking_uri=store_uri, experiment="tests", progress=False)
    uri = jrh.register_prompt(done, "of-a-run", alias="live", tracking_uri=store_uri)
    assert sent(jrh.PromptedJudge(MODEL, prompt="prompts:/of-a-run@live"), store_uri) == sent(judge)
    run = client.get_run(done.run_id)
    assert run.data.params[keys.PARAM_PROMPT_URI] == uri == "prompts:/of-a-run/1"
    assert json.loads(run.data.tags["mlflow.linkedPrompts"]) == [{"name": "of-a-run", "version": "1"}]
    assert jrh.register_prompt(done.run_id[:12], "of-a-run", tracking_uri=store_uri) == uri


def test_a_judge_that_used_several_built_in_prompts_is_refused(store_uri: str) -> None:
    judge = jrh.PromptedJudge(MODEL)
    labelled = [
        Item(id=f"{number}", task="t", condition="baseline", kind="response", instruction="?", response="!", **more)
        for number, more in enumerate(({"answers": ("no", "yes")}, {"answers": ("1", "2", "3")}))
    ]
    judge.begin(jrh.Suite(name="two kinds", items=labelled))
    with pytest.raises(RecipeError, match=r"several prompts \(label\+ordinal\): give it one"):
        jrh.register_prompt(judge, "several", tracking_uri=store_uri)


def test_a_judge_remembers_in_its_definition_where_its_prompt_came_from(store_uri: str) -> None:
    jrh.register_prompt(jrh.PromptedJudge(MODEL), "defined", alias="live", tracking_uri=store_uri)
    judge = resolve_judge(jrh.PromptedJudge(MODEL, prompt="prompts:/defined@live"), tracking_uri=store_uri)
    definition = judge.definition()
    assert definition is not None
    assert definition["prompt_uri"] == "prompts:/defined@live"
    assert definition["prompt_version"] == "prompts:/defined/1"
    again = judge_from(definition)
    assert again.definition() == definition
    assert again.fingerprint() == judge.fingerprint()
    assert sent(again) == sent(judge)


def few_pairs() -> jrh.Suite:
    """Four items of the short suite."""
    whole = load_suite("datasheet-short")
    return jrh.Suite(name="few", items=whole.items[:4])
