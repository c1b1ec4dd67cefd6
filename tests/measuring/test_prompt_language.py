"""`prompt_language="suite"`: the prompt in the suite's language, with the same answers, keys and identity rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.judges.rendering import BUILT_IN, package_texts, template_pieces, translated_texts
from jrh_mlflow.perturb.languages import language_of
from jrh_mlflow.schema.presentation import TIE_CRITERIA
from tests.loopback import LoopbackServer

MODEL = "openai/gpt-4o-mini"
OTHERS = ("de", "es", "zh")


def first(body: dict[str, Any]) -> str:
    return json.dumps({"reason": "r", "verdict": "A"})


def places(template_text: str) -> list[str]:
    return [value for kind, value in template_pieces(template_text) if kind == "variable"]


@pytest.mark.parametrize("code", OTHERS)
def test_translated_texts_place_what_the_english_ones_place_and_ask_for_the_same_json(code):
    english, other = package_texts(), translated_texts(code)
    for name in BUILT_IN:
        # The order of two slots or of answers may differ within a sentence; what is shown may not.
        assert sorted(places(other.templates[name].text)) == sorted(places(english.templates[name].text))
        assert language_of(other.templates[name].text) == code
    assert '{"reason": "<' in other.format
    assert '"verdict": "<' in other.format
    assert places(other.format) == places(english.format)


@pytest.mark.parametrize(("code", "criterion"), [*zip(OTHERS, TIE_CRITERIA, strict=True)])
def test_prompt_and_criterion_are_sent_in_the_language_of_the_suite_and_logged(code, criterion, store_uri, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0")
    suite = jrh.datasheet_suite(language=code, n_tasks=1, depth=1, design="short")
    with LoopbackServer(reply=first, record=True) as server:
        judge = PromptedJudge(MODEL, api_base=server.url, tie_criterion=criterion, prompt_language="suite")
        done = jrh.evaluate(judge, suite, tracking_uri=store_uri, experiment="tests")
    sent = server.requests[0]["body"]
    text = "\n".join(message["content"] for message in sent["messages"])
    assert TIE_CRITERIA[criterion].text not in text
    assert judge.tie_criterion.text in text
    assert "You compare two responses" not in text
    verdicts = sent["response_format"]["json_schema"]["schema"]["properties"]["verdict"]["enum"]
    assert verdicts == (["A", "B"] if criterion == "forced" else ["A", "B", "tie"])
    params = MlflowClient(store_uri).get_run(done.run_id).data.params
    assert (params["judge.prompt_language"], params["judge.tie_criterion"]) == (code, criterion)
    assert (params["suite.language"], params["suite.checked"]) == (code, suite.origin["checked"])
    assert f"prompt_language={code}" in done.judge.name
    assert suite.origin["checked"] in done._repr_html_()


def test_on_an_english_suite_it_is_the_judge_that_it_is_without(monkeypatch):
    suites = [jrh.datasheet_suite(language=code, n_tasks=1, depth=1, design="short") for code in ("de", "en")]
    plain, judge = PromptedJudge(MODEL), PromptedJudge(MODEL, prompt_language="suite")
    plain.begin(suites[1])
    judge.begin(suites[0])
    german = judge.fingerprint()
    judge.begin(suites[1])
    assert judge.fingerprint() == plain.fingerprint() != german
    assert judge.settings() == plain.settings()
    assert judge.name == plain.name


def test_a_judge_made_from_its_definition_sends_the_same_request():
    suite = jrh.datasheet_suite(language="zh", n_tasks=1, depth=1, design="short")
    judge = PromptedJudge(MODEL, prompt_language="suite", tie_criterion="strict")
    judge.begin(suite)
    definition = judge.definition()
    assert definition is not None
    again = PromptedJudge.from_definition(json.loads(json.dumps(definition)))
    again.begin(suite)
    assert again.fingerprint() == judge.fingerprint()
    assert again.renewed().fingerprint() == judge.fingerprint()


def test_a_template_and_a_criterion_of_ones_own_stay_as_they_are():
    suite = jrh.datasheet_suite(language="es", n_tasks=1, depth=1, design="short")
    own = PromptedJudge(
        MODEL, prompt="Pick: {candidates}", tie_criterion="Say tie if equal, please.", prompt_language="suite"
    )
    before = own.template.text, own.tie_criterion
    own.begin(suite)
    assert (own.template.text, own.tie_criterion) == before
    assert own.spoken == "es"


def test_only_en_and_suite_are_known():
    with pytest.raises(ValueError, match="must be en or suite"):
        PromptedJudge(MODEL, prompt_language="de")  # type: ignore[arg-type]
