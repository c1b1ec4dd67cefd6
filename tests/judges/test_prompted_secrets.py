"""A planted key: where a prompted judge must never show it."""

from __future__ import annotations

import pytest

from jrh_mlflow.engine.calls import presentation_of
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.schema.items import Call, Item
from jrh_mlflow.schema.presentation import TIE_CRITERIA

SECRET = "sk-planted-0123456789"
ITEM = Item(id="p", task="t", condition="natural", instruction="Say hello.", u="Hello!", v="Hm.", better="u")
CALL = Call(item=ITEM, order="uv", replicate=0, presentation=presentation_of(ITEM, "uv", TIE_CRITERIA["allowed"]))


@pytest.mark.parametrize(
    "extra",
    [
        {"api_key": SECRET},
        {"apiKey": SECRET},
        {"azure_ad_token": SECRET},
        {"aws_secret_access_key": SECRET},
        {"vertex_credentials": {"any": SECRET}},
        {"extra_headers": {"Authorization": f"Bearer {SECRET}"}},
        {"extra_headers": {"X-Api-Key": SECRET}},
        {"providers": [{"x": {"client_secret": SECRET}}]},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_a_key_given_as_an_extra_field_is_refused_without_repeating_it(extra):
    with pytest.raises(RecipeError, match="environment variable") as caught:
        PromptedJudge("openai/gpt-4o-mini", extra={**extra, "top_p": 1})
    assert SECRET not in str(caught.value)


def test_fields_that_only_look_alike_are_kept():
    judge = PromptedJudge("openai/gpt-4o-mini", extra={"top_p": 1, "max_completion_tokens": 5})
    assert judge.request(CALL).extra == {"top_p": 1, "max_completion_tokens": 5}


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{SECRET}@host/v1",
        f"https://host/v1?api_key={SECRET}",
        f"https://host/v1?a=1&access_token={SECRET}",
    ],
)
def test_an_address_with_a_key_in_it_is_refused_without_repeating_it(address):
    with pytest.raises(RecipeError) as caught:
        PromptedJudge("openai/gpt-4o-mini", api_base=address)
    assert SECRET not in str(caught.value)
