"""A judge behind an address of one's own: `jrh.http_judge`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import address_of, digest_name, holds_secret
from jrh_mlflow.judges.raw import RawJudge, checked_places
from jrh_mlflow.judges.verdict_forms import VerdictForm
from jrh_mlflow.models.prices import Overrides, Price, price_of
from jrh_mlflow.models.transports.service import VARIABLE, service_name
from jrh_mlflow.models.trust import WRITTEN_DOWN, check_address, name_address
from jrh_mlflow.schema.presentation import Criterion
from jrh_mlflow.schema.requests import Request

USAGE = ("input_tokens", "output_tokens", "cost_usd")


class HttpJudge(RawJudge):
    """What `jrh.http_judge` makes."""

    kind = "http"

    def __init__(
        self,
        url: str,
        *,
        body: Mapping[str, Any],
        answer: object,
        usage: Mapping[str, str | float] | None = None,
        headers: Mapping[str, str] | None = None,
        tie_criterion: str | Criterion | None = None,
        name: str | None = None,
    ) -> None:
        """Take the service as it is; see `http_judge`."""
        self.api_base = address_of("openai/service", url) or url
        self.model = service_name(self.api_base)
        self._name, self._is_given, self._pinned = name, True, None
        self.messages = checked_places(body, "body")
        # A text is a path here: services answer in JSON.
        self.verdict_form = VerdictForm.of({"json": answer} if isinstance(answer, str) else answer)
        self.usage, self.headers = _checked_usage(usage or {}), _checked_headers(headers or {})
        self.fields, self.extra, self.used = {}, {}, ()
        self.temperature = self.seed = self.reasoning_effort = self.rubric = None
        self.prompt_uri = self.prompt_version = None
        self.structured = self.logprobs = False
        self.answer_style = "letters"
        self.max_tokens = 1 if self._call_usd is not None else None
        self.tie_criterion = self._as_written()
        if tie_criterion is not None:
            self.tie_criterion = self._own_criterion(tie_criterion)

    @property
    def endpoint(self) -> str | None:
        """None: the address is the judge's own."""
        return None

    @property
    def _call_usd(self) -> float | None:
        cost = self.usage.get("cost_usd")
        return cost if isinstance(cost, float) else None

    def price(self, overrides: Overrides | None) -> Price | None:
        """Return what a call costs as the price of one token, where that was given; else what the user says."""
        if self._call_usd is not None:
            return Price(input_usd=0.0, output_usd=self._call_usd)
        return price_of(self.model, overrides)

    def check_cap(self, price: Price | None) -> None:
        """Demand what a call costs: only then can a cap hold."""
        if self._call_usd is None:
            raise RecipeError(
                "A cap needs the cost of one call of this service: usage={'cost_usd': 0.002}, the most it can be."
            )

    def lacks(self) -> str | None:
        """Name the environment variable that a header needs."""
        names = [match[1] for text in self.headers.values() for match in VARIABLE.finditer(text)]
        if names:
            check_address(str(self.api_base))
        missing = [name for name in names if not os.environ.get(name)]
        return f"A header of the judge needs {', '.join(missing)}: set it in the environment." if missing else None

    def _request(self, messages: Any) -> Request:
        parts = {"body": messages, "headers": self.headers, "usage": self.usage}
        return Request(
            model=self.model,
            messages=(),
            max_tokens=self.max_tokens,
            api_base=self.api_base,
            extra={name: part for name, part in parts.items() if part},
            verbatim=True,
        )

    def settings(self) -> dict[str, object]:
        """Everything that makes this judge this one, and no key."""
        return {
            "model": self.model,
            "kind": self.kind,
            "tie_criterion": self.tie_criterion.name,
            "prompt": digest_name(json.dumps(self.messages)),
            "verdict": self.verdict_form.form,
            "api_base": self.api_base,
            **{f"header.{name}": text for name, text in self.headers.items()},
        }

    def _default_name(self) -> str:
        return f"{self.model.partition('/')[2]} {digest_name(self._identity())}"

    def prompt(self) -> str:
        """The body with its placeholders, and how the verdict is read."""
        how = self.verdict_form.shown()
        return f"# Body\n\n{json.dumps(self.messages, ensure_ascii=False, indent=1)}\n\n# How it is read\n\n{how}\n"

    def definition(self) -> dict[str, Any] | None:
        """Everything that a request is made of; None where a function without a name to import reads the verdict."""
        spec = self.verdict_form.spec()
        if spec is None:
            return None
        facts = {"model": self.model, "body": self.messages, "usage": self.usage, "headers": self.headers}
        return self.defined_by(name=self._name, url=self.api_base, verdict=spec, recorded=self.recorded, **facts)

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> HttpJudge:
        """Make the judge again that a definition is of."""
        name_address(definition["url"], WRITTEN_DOWN)
        judge = HttpJudge(
            definition["url"],
            body=definition["body"],
            answer=VerdictForm.of_spec(definition["verdict"]),
            usage=definition["usage"],
            headers=definition["headers"],
            tie_criterion=Criterion(**definition["tie_criterion"]),
            name=definition["name"],
        )
        judge.recorded = definition["recorded"]
        return judge


def http_judge(
    url: str,
    *,
    body: Mapping[str, Any],
    answer: object,
    usage: Mapping[str, str | float] | None = None,
    headers: Mapping[str, str] | None = None,
    tie_criterion: str | None = None,
    name: str | None = None,
) -> HttpJudge:
    """Make a judge of a service: JSON is posted to its address, and its answer is read from what comes back.

    Args:
        url: Its whole address. No redirect is followed.
        body: What is posted, as JSON with placeholders: `{instruction}`, `{first}`, `{second}`, `{response}`,
            `{transcript}`, `{rubric}`, `{context}`, `{criterion}`.
        answer: Where the verdict is: a path in the JSON that comes back (`result.winner`), or any other form that
            `PromptedJudge(verdict=…)` takes.
        usage: Where tokens and cost are, by path: `{"input_tokens": "usage.in", "cost_usd": "usage.usd"}`; or the
            cost of a call, `{"cost_usd": 0.002}`, which a cap needs. What is not told is unknown, never free.
        headers: Of the request. A key is named, not written: `{"Authorization": "Bearer ${JUDGE_TOKEN}"}`.
        tie_criterion: The sentence for `{criterion}`.
        name: What the judge is called in reports.

    Example:
        >>> judge = http_judge("https://judge.example/v1", body={"a": "{first}", "b": "{second}"}, answer="winner")
        >>> judge.settings()["kind"]
        'http'
    """
    return HttpJudge(
        url, body=body, answer=answer, usage=usage, headers=headers, tie_criterion=tie_criterion, name=name
    )


def _checked_usage(usage: Mapping[str, str | float]) -> dict[str, Any]:
    if unknown := sorted(set(usage) - set(USAGE)):
        raise RecipeError(f"`usage` may have {', '.join(USAGE)}, but has {', '.join(unknown)}.")
    return {name: path if isinstance(path, str) else float(path) for name, path in usage.items()}


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, text in headers.items():
        # A variable is named where the secret would stand.
        if holds_secret({name: text}) and not VARIABLE.search(text):
            raise RecipeError(
                f"The header {name!r} holds a secret, and settings are logged. Name an environment variable: "
                f"{{{name!r}: 'Bearer ${{JUDGE_TOKEN}}'}}."
            )
    return {str(name): str(text) for name, text in headers.items()}
