"""The model that writes perturbed items, and how it is sampled."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any

from jrh_mlflow.judges.logged_fields import address_of, checked_extra
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.local.models import canonical
from jrh_mlflow.schema.requests import Request

MAX_ATTEMPTS = 100


@dataclass(frozen=True)
class Generator:
    """A litellm model name with the sampling settings of a generator.

    Example:
        >>> Generator("openai/gpt-4o-mini", temperature=0.7, max_temperature=1.3, attempts=4).temperatures
        (0.7, 0.9, 1.1, 1.3)
    """

    model: str
    _: KW_ONLY
    api_base: str | None = None
    """An endpoint that speaks the OpenAI dialect; `openai/…` reads OPENAI_BASE_URL when None."""
    max_tokens: int = 2048
    temperature: float | None = 0.7
    """Of the first attempt; None leaves it to the provider on every attempt."""
    max_temperature: float = 1.3
    """Of the last attempt; those between are spaced evenly."""
    attempts: int = 4
    seed: int | None = None
    """Sent to the provider, where it takes one."""
    extra: Mapping[str, Any] | None = None
    """Further fields of the request body; they are logged, so a key among them is refused."""

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise ValueError(f"`model` must name a model, but is {self.model!r}.")
        if self.max_tokens < 1:
            raise ValueError(f"`max_tokens >= 1` must hold, but got {self.max_tokens}.")
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise ValueError(f"`1 <= attempts <= {MAX_ATTEMPTS}` must hold, but got {self.attempts}.")
        _check_ramp(self.temperature, self.max_temperature)
        object.__setattr__(self, "model", canonical(self.model))
        object.__setattr__(self, "api_base", address_of(self.model, self.api_base))
        object.__setattr__(self, "extra", checked_extra(self.extra or {}, of="Generator"))

    @property
    def temperatures(self) -> tuple[float | None, ...]:
        """The temperature of each attempt: even steps from the first to the maximum."""
        return ramp(self.temperature, self.max_temperature, self.attempts)

    def request(self, brief: str, *, temperature: float | None) -> Request:
        """Return what is sent: the brief as one message of the user."""
        return Request(
            model=self.model,
            messages=({"role": "user", "content": brief},),
            temperature=temperature,
            max_tokens=self.max_tokens,
            seed=self.seed,
            api_base=self.api_base,
            extra=self.extra or {},
        )

    def settings(self) -> dict[str, object]:
        """Everything that can change a text, and no key; logged as params `generator.*`."""
        extra = self.extra or {}
        return {
            "model": self.model,
            "kind": "model",
            "api_base": self.api_base,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "max_temperature": None if self.temperature is None else self.max_temperature,
            "attempts": self.attempts,
            "seed": self.seed,
            **{f"extra.{key}": json.dumps(value, ensure_ascii=False) for key, value in extra.items()},
        }

    def as_judge(self) -> PromptedJudge:
        """Return the same model as a judge: the validator when nobody names another one."""
        return PromptedJudge(self.model, api_base=self.api_base)


def ramp(start: float | None, highest: float, attempts: int) -> tuple[float | None, ...]:
    """Return `attempts` temperatures in even steps, the last one exactly the highest; one attempt has the start.

    Example:
        >>> ramp(0.5, 1.0, 3)
        (0.5, 0.75, 1.0)
    """
    if start is None or attempts == 1:
        return (start,) * attempts
    # In fractions, because 0.7 + 0.6 / 3 is 0.8999999999999999 in binary.
    low, high = Fraction(repr(float(start))), Fraction(repr(float(highest)))
    return tuple(float(low + (high - low) * number / (attempts - 1)) for number in range(attempts))


def _check_ramp(start: float | None, highest: float) -> None:
    if start is None:
        return
    if not (math.isfinite(start) and math.isfinite(highest) and 0 <= start <= highest):
        raise ValueError(
            f"`0 <= temperature <= max_temperature` must hold, but got temperature={start}, max_temperature={highest}."
        )
