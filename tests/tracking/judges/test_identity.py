"""A judge made again from its definition is the same judge; whatever differs between two definitions is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from mlflow.genai.judges import make_judge
from mlflow.genai.scorers import Guidelines, RelevanceToQuery, Safety, scorer

import jrh_mlflow as jrh
from jrh_mlflow.engine.calls import plan_calls
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges import AnsweringJudge, Judge, rendering
from jrh_mlflow.judges.one_at_a_time import PointwiseJudge
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.scripted import SHORTCUTS, Shortcut
from jrh_mlflow.measuring.recorded.answers import recorded_judges
from jrh_mlflow.measuring.resolve import load_suite, resolve_judge
from jrh_mlflow.schema.items import Call, Item
from jrh_mlflow.schema.presentation import Criterion, Message
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.judges.identity import WHAT, differences, judge_from
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from tests.mlflow_features import RATIONALE_FIRST
from tests.tracking.judges.mlflow_chat import ask, chatting, compare, pair_call

MODEL = "openai/gpt-4o-mini"
OWN = "[system]\nBe strict.\n[user]\nRead {candidates} and answer {answers}.\n"
PLAIN = "Which of these is better?\n{candidates}\n"
SECRET = "sk-planted-0123456789abcdef"

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": ({"temperature": 0.7}, "settings"),
    "no temperature": ({"temperature": None}, "settings"),
    "max_tokens": ({"max_tokens": 77}, "settings"),
    "no max_tokens": ({"max_tokens": None}, "settings"),
    "reasoning_effort": ({"reasoning_effort": "low", "max_tokens": 1024}, "settings"),
    "seed": ({"seed": 7}, "settings"),
    "extra": ({"extra": {"top_p": 0.5, "nested": {"a": [1, None]}}}, "settings"),
    "structured": ({"structured": False}, "settings"),
    "answer_style": ({"answer_style": "digits"}, "settings"),
    "logprobs": ({"logprobs": True}, "settings"),
    "api_base": ({"api_base": "http://127.0.0.1:9/v1", "structured": True}, "model"),
    "rubric": ({"rubric": "Prefer the shorter one.\n\nAlways."}, "prompt"),
    "criterion": ({"tie_criterion": "strict"}, "prompt"),
    "own criterion": ({"tie_criterion": "Say tie when in doubt."}, "prompt"),
    "no tie": ({"tie_criterion": Criterion(name="own", text=rendering.NO_RUBRIC, offers_tie=False)}, "prompt"),
    "own prompt": ({"prompt": OWN}, "prompt"),
    "own prompt without a system section": ({"prompt": PLAIN}, "prompt"),
}
"""Every setting changed from its default, alone; and what a difference in it is called."""
DESIGNS: list[dict[str, Any]] = [
    *({}, {"design": "paper"}, {"design": "paper", "half_steps": True}),
    *({"design": "pointwise"}, {"design": "pointwise-scores"}),
]
"""Those of the built-in suites, each of which is one of them with more tasks."""
EVERYTHING: dict[str, Any] = {
    **{"prompt": PLAIN, "rubric": "R", "tie_criterion": "Tie when equal.", "temperature": 1, "max_tokens": 9},
    **{"reasoning_effort": "high", "seed": 1, "name": "mine", "api_base": "http://127.0.0.1:9/v1"},
    **{"extra": {"top_p": 0.1}, "structured": False, "answer_style": "digits", "logprobs": True},
}


def again(judge: Judge) -> Judge:
    """Make a judge again from its definition as a file would give it back."""
    definition = judge.definition()
    assert definition is not None
    made = judge_from(json.loads(json.dumps(definition)))
    assert made.definition() == definition
    assert made.fingerprint() == judge.fingerprint()
    assert made.name == judge.name
    assert (made.simulated, made.recorded) == (judge.simulated, judge.recorded)
    assert differences(definition, made.definition() or {}) == ()
    return made


@pytest.fixture(scope="module")
def singles() -> Suite:
    """Labels, levels, words of a scale and a transcript, with rubrics and without."""
    shown = (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))
    items = [
        Item(id="l", task="l", condition="baseline", kind="response", instruction="Say a", response="a", expected="no",
             answers=("no", "yes"), rubric="Be kind."),
        Item(id="o", task="o", condition="baseline", kind="response", instruction="Say b", response="b", expected="2",
             answers=("1", "2", "3")),
        Item(id="t", task="t", condition="baseline", kind="transcript", instruction="Say c", transcript=shown,
             expected="ok", answers=("ok", "bad")),
    ]  # fmt: skip
    return Suite(name="singles", items=items)


@pytest.fixture(scope="module")
def short() -> Suite:
    return load_suite("datasheet-short")


def calls_of(judge: Judge, suite: Suite) -> Iterator[Call]:
    judge.begin(suite)
    return plan_calls(suite, judge, replicates=1)


def sent(judge: Judge, suite: Suite) -> list[str]:
    """Return what a judge that asks a model would send, call by call."""
    calls = list(calls_of(judge, suite))
    if isinstance(judge, PointwiseJudge):
        judge, calls = judge.inner, [half for call in calls for half in judge.halves(call)]
    assert isinstance(judge, PromptedJudge)
    return [judge.request(call).canonical() for call in calls]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_prompted_judge_made_again_sends_the_same_bytes_for_every_call_of_the_built_in_suites(design: dict[str, Any]):
    judge, suite = PromptedJudge(MODEL), jrh.datasheet_suite(n_tasks=2, **design)
    assert sent(again(judge), suite) == sent(judge, suite)


@pytest.mark.parametrize("given", [*(given for given, _ in SETTINGS.values()), EVERYTHING], ids=str)
def test_with_any_setting_changed_it_sends_the_same_bytes_and_reads_answers_the_same_way(
    given: dict[str, Any], short: Suite, singles: Suite
):
    judge = PromptedJudge(MODEL, **given)
    made = again(judge)
    for suite in (short, singles):
        assert sent(made, suite) == sent(judge, suite)
    said = ('{"reason": "r", "verdict": "A"}', '{"verdict": "1"}', "tie", "yes", "The verdict is B.", "", "{}")
    for call in [*list(calls_of(judge, short))[:2], *calls_of(judge, singles)]:
        for text in said:
            answer = Response(text=text, finish_reason="stop")
            assert made.read(answer, call) == judge.read(answer, call)


def test_a_judge_put_to_pairs_one_response_at_a_time_is_made_again(short: Suite):
    for judge in (jrh.pointwise(PromptedJudge(MODEL, seed=3)), jrh.pointwise(MODEL, answers=("bad", "fair", "good"))):
        assert sent(again(judge), short) == sent(judge, short)
    shifted = jrh.pointwise(MODEL).with_criterion("forced")
    assert again(shifted).tie_criterion == shifted.tie_criterion


def scripted_judges() -> list[AnsweringJudge]:
    made = jrh.scripted
    return [
        *(made.AlwaysFirst(), made.AlwaysTie(), made.LongerWins(), made.Oracle(), made.profile("Qwen14B")),
        made.Noisy(dark_current=0.4, sensitivity={0.5: 0.5, 1: 0.7, 2: 0.8, 3: 0.9}, tie=0.3, unparsed=0.1, seed=4),
        made.Noisy(stable=0.3, positional=0.1, one_sided=0.2, filler=0.9, icc=0.3, matched={1: 0.5, 2: 0.5, 3: 0.6}),
        *(shortcut(direction="less", seed=2) for shortcut in SHORTCUTS),
        made.AlwaysFirst().with_criterion("strict"),
    ]


@pytest.mark.parametrize("judge", scripted_judges(), ids=lambda judge: f"{judge.name} {judge.tie_criterion.name}")
def test_a_scripted_judge_made_again_gives_the_same_answers(judge: Any, short: Suite):
    made: Any = again(judge)
    answers = [(judge.answer(call), made.answer(call)) for call in zip_calls(judge, made, short)]
    assert answers
    assert all(one == other for one, other in answers)


def zip_calls(judge: Judge, made: Judge, suite: Suite) -> list[Call]:
    made.begin(suite)
    return list(calls_of(judge, suite))


def test_graders_keep_their_rates_and_their_name():
    made = again(jrh.scripted.Grader(accuracy=0.7, tests={"padding": 0.5}, flip=0.1, seed=3, name="careless"))
    assert made.settings() == jrh.scripted.Grader(
        accuracy=0.7, tests={"padding": 0.5}, flip=0.1, seed=3, name="careless"
    ).settings()  # fmt: skip


def test_recorded_judges_send_what_was_recorded(short: Suite):
    for judge in recorded_judges():
        assert sent(again(judge), short) == sent(judge, short)


def test_mlflow_judges_that_are_data_are_made_again_and_send_the_same(monkeypatch: pytest.MonkeyPatch):
    judges = [
        from_mlflow(compare(inference_params={"temperature": 0.3}, feedback_value_type=Literal["A", "B", "tie"])),
        from_mlflow(compare(name="words"), name="mine", answers={"left": "1", "right": "2"}).with_criterion("strict"),
        from_mlflow(Guidelines(name="kind", guidelines=["Be kind.", "Be short."])),
        from_mlflow([Safety(), RelevanceToQuery()]),
    ]
    with chatting(monkeypatch) as server:
        address = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
        judges.append(from_mlflow(compare(name="routed", base_url=address, **RATIONALE_FIRST)))
        for judge in judges:
            made = again(judge)
            assert made.settings() == judge.settings()
            asked = []
            for one in (judge, made):
                server.bodies.clear()
                outcome = ask(one, pair_call()).outcome
                asked.append((sorted(map(json.dumps, server.bodies)), outcome))
            assert asked[0] == asked[1]
            assert asked[0][0]


def with_sets_turned(value: Any) -> Any:
    """Write a definition as another process may have: sets in another order."""
    if isinstance(value, list):
        return [with_sets_turned(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: one[::-1] if name == "required_columns" else with_sets_turned(one) for name, one in value.items()}


def test_the_order_of_a_set_is_no_difference():
    judges = [Safety(), RelevanceToQuery(), Guidelines(name="kind", guidelines=["Be kind."]), [Safety(), compare()]]
    for judge in [PromptedJudge(MODEL), jrh.pointwise(MODEL), *map(from_mlflow, judges)]:
        definition = judge.definition() or {}
        before = with_sets_turned(definition)
        assert differences(before, definition) == differences(definition, before) == ()
        assert judge_from(before).definition() == definition
        assert judge_from(before).fingerprint() == judge.fingerprint()


def test_the_order_of_fields_is_no_difference():
    """An exported scorer carries its definition with sorted fields."""
    params = {"top_p": 0.5, "temperature": 0.3}
    judges = [Safety(), Guidelines(name="kind", guidelines=["Be kind."]), compare(inference_params=params)]
    for judge in map(from_mlflow, judges):
        definition = judge.definition() or {}
        carried = json.loads(json.dumps(definition, sort_keys=True))
        assert differences(carried, definition) == differences(definition, carried) == ()
        assert judge_from(carried).fingerprint() == judge.fingerprint()


class _Own(Shortcut):
    """A shortcut of somebody's own."""

    def score(self, text: str, presentation: jrh.Presentation) -> float:
        return len(text)


def test_what_is_code_has_no_definition():
    @scorer
    def longer(outputs: Any) -> str:
        return "A" if len(outputs["A"]) > len(outputs["B"]) else "B"

    code = [lambda shown: "1", longer, _Own(), from_mlflow(compare(), inputs=lambda shown: {})]
    for judge in map(resolve_judge, code):
        assert judge.definition() is None
    assert jrh.pointwise(lambda shown: "yes").definition() is None


def test_no_key_is_in_a_definition(monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HOSTED_VLLM_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", f"http://me:{SECRET}@gpu/v1?key={SECRET}")
    judges = [PromptedJudge(MODEL), PromptedJudge("hosted_vllm/x"), PromptedJudge("anthropic/x"), jrh.pointwise(MODEL)]
    for judge in [*judges, from_mlflow(compare())]:
        assert SECRET not in json.dumps(judge.definition())
    with_keys: list[dict[str, Any]] = [
        {"extra_headers": {"Authorization": f"Bearer {SECRET}"}},
        {"base_url": f"http://me:{SECRET}@gpu/v1"},
        {"inference_params": {"api_key": SECRET}},
    ]
    timed: dict[str, Any] = {"include_timing_in_conversation": True}
    for given in [*with_keys, timed]:
        assert from_mlflow(compare(**given)).definition() is None


def test_a_definition_is_not_changed_by_what_is_changed_in_the_judge_later():
    judge = PromptedJudge(MODEL, extra={"nested": {"a": [1]}})
    definition = judge.definition()
    judge.extra["nested"]["a"].append(2)
    assert definition["extra"] == {"nested": {"a": [1]}}


def test_the_prompts_of_a_later_version_do_not_reach_a_judge_that_was_written_down(
    monkeypatch: pytest.MonkeyPatch, short: Suite, singles: Suite
):
    judges = [PromptedJudge(MODEL), PromptedJudge(MODEL, prompt=PLAIN), PromptedJudge(MODEL, prompt="label")]
    kept = [(judge, judge.definition()) for judge in judges]
    before = [sent(judge, singles if judge.template.name == "label" else short) for judge, _ in kept[:2]]
    now = rendering.package_texts()
    later = rendering.PackageTexts(
        templates={
            name: rendering.Template(name=name, system=f"LATER {one.system}", user=f"LATER {one.user}")
            for name, one in now.templates.items()
        },
        format=f"LATER {now.format}",
        no_rubric="LATER",
    )
    monkeypatch.setattr(rendering, "package_texts", lambda: later)
    assert [sent(judge_from(definition), short) for _, definition in kept[:2]] == before
    for judge, definition in kept:
        assert judge_from(definition).fingerprint() == judge.fingerprint()
        renewed = judge_from(definition).renewed().definition()
        assert {one.what for one in differences(definition, renewed or {})} == {"prompt"}


def test_the_endpoint_of_the_environment_is_kept_and_another_one_is_another_model(monkeypatch: pytest.MonkeyPatch):
    for model, variable in ((MODEL, "OPENAI_BASE_URL"), ("hosted_vllm/x", "HOSTED_VLLM_API_BASE")):
        monkeypatch.setenv(variable, "http://first:8000/v1")
        judge = PromptedJudge(model)
        definition, fingerprint = judge.definition(), judge.fingerprint()
        monkeypatch.setenv(variable, "http://second:8000/v1")
        made = judge_from(definition)
        assert (made.definition(), made.fingerprint()) == (definition, fingerprint)
        (moved,) = differences(definition, made.renewed().definition() or {})
        assert (moved.what, moved.measured) == ("model", "endpoint http://first:8000/v1")
        monkeypatch.delenv(variable)
        assert judge_from(definition).fingerprint() == fingerprint
    monkeypatch.setenv("OPENAI_BASE_URL", "http://third:8000/v1")
    given = PromptedJudge(MODEL, api_base="http://first:8000/v1").definition()
    assert differences(given, judge_from(given).renewed().definition() or {}) == ()


@pytest.mark.parametrize(("given", "what"), SETTINGS.values(), ids=SETTINGS)
def test_every_setting_that_differs_is_named_by_its_word(given: dict[str, Any], what: str):
    usual, other = PromptedJudge(MODEL).definition(), PromptedJudge(MODEL, **given).definition()
    for measured, running in ((usual, other), (other, usual)):
        found = differences(measured, running)
        assert {one.what for one in found} == {what}
        assert all(one.measured != one.running and "\n" not in str(one) for one in found)
        wrapped = [jrh.pointwise(judge_from(one)).definition() or {} for one in (measured, running)]
        assert what in {one.what for one in differences(*wrapped)} <= set(WHAT)


def test_the_model_is_named_and_a_name_is_no_difference():
    (found,) = differences(PromptedJudge(MODEL).definition(), PromptedJudge("openai/gpt-4o").definition())
    assert (found.what, str(found)) == ("model", "model: model openai/gpt-4o-mini → model openai/gpt-4o")
    assert differences(PromptedJudge(MODEL).definition(), PromptedJudge(MODEL, name="mine").definition()) == ()


def test_what_differs_in_mlflow_judges_is_named_by_its_word():
    usual: dict[str, Any] = {"name": "j", "instructions": "Which is better in {{ outputs }}?", "model": "openai:/a"}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"instructions": "Which is best in {{ outputs }}?"}, "prompt"),
        ({"model": "openai:/b"}, "model"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "model"),
        ({"feedback_value_type": Literal["A", "B"]}, "settings"),
        ({"inference_params": {"temperature": 0.5}}, "settings"),
        *([(RATIONALE_FIRST, "settings")] if RATIONALE_FIRST else []),
    ]
    before = from_mlflow(make_judge(**usual)).definition() or {}
    for change, what in changes:
        after = from_mlflow(make_judge(**{**usual, **change})).definition() or {}
        assert {one.what for one in differences(before, after)} == {what}
    for change, what in [({"guidelines": ["No."]}, "prompt"), ({"model": "openai:/b"}, "model")]:
        guided: dict[str, Any] = {"name": "g", "guidelines": ["Yes."], "model": "openai:/a"}
        pair = (from_mlflow(Guidelines(**one)).definition() or {} for one in (guided, {**guided, **change}))
        assert {one.what for one in differences(*pair)} == {what}
    words = from_mlflow(make_judge(**usual), answers={"left": "1"}).definition() or {}
    assert [one.what for one in differences(before, words)] == ["settings"]
    upgraded = json.loads(json.dumps(before).replace(before["scorers"][0]["mlflow_version"], "2.0"))
    assert [one.what for one in differences(before, upgraded)] == ["version"]


def test_another_kind_of_judge_is_told_without_a_crash():
    kinds = [PromptedJudge(MODEL), jrh.pointwise(MODEL), jrh.scripted.Oracle(), from_mlflow(compare())]
    for one in kinds:
        for other in kinds:
            found = differences(one.definition() or {}, other.definition() or {})
            assert bool(found) == (one is not other)


def test_a_definition_of_another_schema_version_or_kind_is_refused_with_what_to_do():
    for other in ({"format": 2, "kind": "prompted"}, {}):
        with pytest.raises(RecipeError, match="Install the jrh-mlflow that wrote it"):
            judge_from(other)
    with pytest.raises(RecipeError, match="Unknown kind of judge 'hologram'"):
        judge_from({"format": 1, "kind": "hologram"})
    unknown = {**(jrh.scripted.Oracle().definition() or {}), "class": "Scripted.__init__"}
    with pytest.raises(RecipeError, match="no scripted judge"):
        judge_from(unknown)
