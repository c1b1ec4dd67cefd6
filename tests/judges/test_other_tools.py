"""Judges of promptfoo and Inspect: the messages are those that the tool sends, the verdict is read as it reads it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.tool_texts import TEXT_FORMS
from jrh_mlflow.models.transports.dialect import chat_body
from jrh_mlflow.schema.requests import Response
from jrh_mlflow.tracking.judges.identity import judge_from
from tests.judges.test_prompted import LABEL, PAIR, call_of

ODD = 'He said "hi" \\ {first} {{ output }}\n\t[END DATA] ü'
RUBRIC_PROMPT = [
    {"role": "system", "content": 'Grade it. Say {"reason": string, "pass": boolean}. {first}'},
    {"role": "user", "content": "<Output>\n{{ output }}\n</Output>\n<Rubric>{{rubric}}</Rubric> Q: {{question}}"},
]
BEST_PROMPT = """Which fits best: {{criteria}}?
{% for output in outputs %}
<Text index="{{ loop.index0 }}" number="{{loop.index}}">
{{ output }}
</Text>
{% endfor %}
Say one integer."""
CONFIG: dict[str, Any] = {
    "defaultTest": {
        "options": {
            "rubricPrompt": RUBRIC_PROMPT,
            "provider": {"id": "openai:chat:gpt-4o-mini", "config": {"temperature": 0.5, "apiKey": "unsent"}},
        }
    },
    "tests": [
        {"assert": [{"type": "contains", "value": "x"}, {"type": "llm-rubric", "value": "Answers {{question}}"}]},
        {"assert": [{"type": "assert-set", "assert": [{"$ref": "#/assertionTemplates/best"}]}]},
    ],
    "assertionTemplates": {"best": {"type": "select-best", "value": "the funniest", "rubricPrompt": BEST_PROMPT}},
}


def body(judge: jrh.PromptedJudge, item: Any, **which: Any) -> dict[str, Any]:
    return chat_body(judge.request(call_of(judge, item, **which)), model="gpt-4o-mini", max_tokens="max_tokens")


def answer(judge: jrh.PromptedJudge, text: str, item: Any) -> tuple[str, str | None]:
    parsed = judge.read(Response(text=text, finish_reason="stop"), call_of(judge, item))
    return parsed.outcome, parsed.answer


def test_a_rubric_of_promptfoo_is_sent_as_promptfoo_sends_it(tmp_path: Path):
    judge = jrh.PromptedJudge.from_promptfoo(CONFIG, assertion=0, texts={"question": "instruction"})
    item = replace(LABEL, response=ODD)
    assert body(judge, item) == {
        "model": "gpt-4o-mini",
        "messages": [
            RUBRIC_PROMPT[0],
            {
                "role": "user",
                "content": f"<Output>\n{ODD}\n</Output>\n<Rubric>Answers {item.instruction}</Rubric> "
                f"Q: {item.instruction}",
            },
        ],
        "temperature": 0.5,
        "max_tokens": 1024,
    }
    again = judge_from(json.loads(json.dumps(judge.definition())))
    assert body(again, item) == body(judge, item)
    assert again.fingerprint() == judge.fingerprint()


def test_the_best_of_two_is_named_by_its_index(tmp_path: Path):
    (tmp_path / "best.txt").write_text(BEST_PROMPT, encoding="utf-8")
    (tmp_path / "funny.txt").write_text("the funniest {{ x }}\n", encoding="utf-8")
    config = tmp_path / "promptfooconfig.yaml"
    config.write_text(
        "providers: [openai:gpt-4o]\ntests:\n- options: {provider: 'openai:o3-mini', rubricPrompt: 'file://best.txt'}\n"
        "  assert:\n  - {type: select-best, value: 'file://funny.txt'}\n",
        encoding="utf-8",
    )
    judge = jrh.PromptedJudge.from_promptfoo(config)
    first, second = ((PAIR.u, PAIR.v), (PAIR.v, PAIR.u))
    for order, (one, two) in zip(("uv", "vu"), (first, second), strict=True):
        sent = body(judge, PAIR, order=order)
        assert sent.keys() == {"model", "messages"}  # a model that reasons gets no defaults
        assert sent["messages"] == [
            {
                "role": "user",
                "content": 'Which fits best: the funniest {{ x }}?\n\n<Text index="0" number="1">\n'
                f'{one}\n</Text>\n\n<Text index="1" number="2">\n{two}\n</Text>\n\nSay one integer.',
            }
        ]
    for text, read in (("1", "2"), ("Text 0, not 1", "1"), ("\n  0", "1")):
        assert answer(judge, text, PAIR) == ("verdict", read)
    for text in ("2", "neither"):
        assert answer(judge, text, PAIR)[0] == "unparsed"
    assert not judge.tie_criterion.offers_tie


def test_what_promptfoo_reads_as_json_is_shown_as_it_prints_it():
    # As Node prints them: `nunjucks.renderString("{{ x }}", { x: JSON.parse(text) })`, objects stringified before.
    shown = {
        "5": "5",
        "1.0": "1",
        " 1e21 ": "1e+21",
        "0.00001": "0.00001",
        "1.5e-7": "1.5e-7",
        "12345678901234567890": "12345678901234567000",
        '"a\\nb"': "a\nb",
        "null": "",
        "true": "true",
        '[1, null, "x", {"a": 1.0}]': '1,,x,{"a":1}',
        '{"b": "ü", "1": [true, null], "a": {}}': '{"1":[true,null],"b":"ü","a":{}}',
        "NaN": "NaN",
        "{not json}": "{not json}",
        "": "",
    }
    assert {text: TEXT_FORMS["promptfoo"](text) for text in shown} == shown
    assert TEXT_FORMS["promptfoo_list"]("[1, [2.50]]") == "[1,[2.5]]"


def test_pass_and_fail_are_the_labels_that_are_named():
    rubric = {"defaultTest": CONFIG["defaultTest"], "tests": CONFIG["tests"][:1]}
    about = {"texts": {"question": "instruction"}, "answers": {"true": "pass", "false": "fail"}}
    judge = jrh.PromptedJudge.from_promptfoo(rubric, **about)
    item = replace(LABEL, answers=("fail", "pass"), expected="pass")
    assert answer(judge, '{"reason": "r", "pass": true, "score": 1.0}', item) == ("verdict", "pass")
    assert answer(judge, '```json\n{"pass": false}\n```', item) == ("verdict", "fail")


def prompted(text: str) -> dict[str, Any]:
    return {"defaultTest": {"options": {"rubricPrompt": text}}}


@pytest.mark.parametrize(
    ("change", "arguments", "named"),
    [
        ({}, {}, "assertion=NUMBER"),
        ({}, {"assertion": 7}, "assertion=NUMBER"),
        ({}, {"assertion": 0}, "texts={'question'"),
        ({"defaultTest": {}}, {"assertion": 0}, "rubric_prompt"),
        (prompted("{% if x %}{{ output }}{% endif %}"), {"assertion": 0}, "{% if"),
        (prompted("- role: user\n  content: {{ output }}"), {"assertion": 0}, "JSON"),
        (prompted("{{ output }}"), {"assertion": 0}, "model="),
        ({"tests": []}, {}, "llm-rubric"),
    ],
)
def test_what_the_config_does_not_tell_is_asked_for(change: dict[str, Any], arguments: dict[str, Any], named: str):
    config = {**CONFIG, **change}
    texts = {} if "question" in named else {"texts": {"question": "instruction"}}
    with pytest.raises(RecipeError) as refused:
        jrh.PromptedJudge.from_promptfoo(config, **texts, **arguments)
    assert named in str(refused.value)


def asked_by_inspect(question: str, answer: str, criterion: str, *, fact: bool = False, **scorer: Any) -> str:
    """Let Inspect itself grade: what its grader was shown."""
    from inspect_ai.model import ModelAPI, ModelName, ModelOutput, get_model, modelapi
    from inspect_ai.scorer import Target, model_graded_fact, model_graded_qa
    from inspect_ai.solver import TaskState

    @modelapi(name="passing")
    class Grader(ModelAPI):
        async def generate(self, *shown: Any, **_: Any) -> ModelOutput:
            return ModelOutput.from_content("m", "GRADE: C")

    graded = (model_graded_fact if fact else model_graded_qa)(model=get_model("passing/grader"), **scorer)
    state = TaskState(
        model=ModelName("openai/gpt-4o-mini"),
        sample_id="1",
        epoch=1,
        input=question,
        messages=[],
        output=ModelOutput.from_content("m", answer),
    )
    score = asyncio.run(graded(state, Target(criterion)))
    assert score is not None
    assert score.value == "C"
    return str(score.metadata["grading"][0].content)  # type: ignore[index]


@pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("model_graded_qa", {}),
        ("model_graded_fact", {}),
        ("model_graded_qa", {"partial_credit": True}),
        ("model_graded_qa", {"template": "{answer}{{answer}} {{first}} {question}|{criterion}|{instructions}"}),
        ("model_graded_fact", {"instructions": "Reply GRADE: C or {response} GRADE: I."}),
    ],
)
def test_a_scorer_of_inspect_is_asked_as_inspect_asks_it(name: str, own: dict[str, Any]):
    from inspect_ai import scorer

    answers = {"C": "yes", "P": "no", "I": "no"} if "partial_credit" in own else None
    item = replace(LABEL, response=ODD, rubric="[begin DATA] right?")
    fact = name == "model_graded_fact"
    expected = asked_by_inspect(str(item.instruction), ODD, str(item.rubric), fact=fact, **own)
    made = getattr(scorer, name)(model="openai/gpt-4o-mini", **own)
    for judge in (
        jrh.PromptedJudge.from_inspect(made, answers=answers),
        jrh.PromptedJudge.from_inspect(name, model="openai/gpt-4o-mini", answers=answers, **own),
    ):
        sent = body(judge, item)
        assert sent == {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": expected}]}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("GRADE: I at first, but then\nGRADE: C", ("verdict", "yes")),
        ("grade: incorrect", ("verdict", "no")),
        ("GRADE: C, no: GRADE: P", ("unparsed", None)),
        ("GRADE: CI", ("unparsed", None)),
        ("C", ("unparsed", None)),
    ],
)
def test_the_last_grade_counts_as_inspect_counts_it(text: str, read: tuple[str, str | None]):
    judge = jrh.PromptedJudge.from_inspect(model="openai/gpt-4o-mini")
    assert answer(judge, text, replace(LABEL, answers=("no", "yes"), expected="yes")) == read


def test_the_first_match_of_a_pattern_counts_and_metadata_is_named():
    own = {"template": "{doc}: {answer} {instructions}", "instructions": "Say.", "grade_pattern": r"(?i)mark ([a-f])"}
    answers = {"A": "yes", "F": "no"}
    with pytest.raises(RecipeError, match="'doc'"):
        jrh.PromptedJudge.from_inspect(model="openai/gpt-4o-mini", **own)
    judge = jrh.PromptedJudge.from_inspect(
        model="openai/gpt-4o-mini", texts={"doc": "instruction"}, answers=answers, temperature=0.0, **own
    )
    item = replace(LABEL, answers=("no", "yes"), expected="yes")
    assert answer(judge, "Mark a. Then mark f.", item) == ("verdict", "yes")
    sent = body(judge, item)
    assert (sent["messages"][0]["content"], sent["temperature"]) == (f"{item.instruction}: {item.response} Say.", 0.0)
    for wrong in ({"scorer": "exact"}, {"partial_credit": True}, {"model": None}):
        with pytest.raises(RecipeError):
            jrh.PromptedJudge.from_inspect(**{"model": "openai/gpt-4o-mini", **wrong})


def test_a_text_between_braces_is_still_a_text():
    request = {"model": "m", "messages": [{"role": "user", "content": "Q {Say hello.} <{Hello!}> {first} Hm."}]}
    texts = {"instruction": "Say hello.", "first": "Hello!", "second": "Hm."}
    judge = jrh.PromptedJudge.from_openai(request, example=texts, verdict="(A|B)")
    assert body(judge, PAIR)["messages"] == request["messages"]
