"""The two judge contracts: answering by itself, and being asked through a model client."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jrh_mlflow.errors import SCHEMA_VERSION, RecipeError
from jrh_mlflow.models.prices import Overrides, Price, price_of
from jrh_mlflow.models.transports import what_is_missing
from jrh_mlflow.schema.presentation import TIE_CRITERIA, Criterion, criterion

if TYPE_CHECKING:
    from typing_extensions import Self

    from jrh_mlflow.judges.parsing import ParsedAnswer
    from jrh_mlflow.schema.items import Call, Item
    from jrh_mlflow.schema.requests import Request, Response
    from jrh_mlflow.suites.suite import Suite

APART = (
    '`jrh.pointwise(judge)` scores the two responses of a pair apart; suite="pointwise-datasheet" has single '
    "responses; `jrh generate` makes a suite of your own."
)
"""For a judge that grades one response, on a suite of pairs."""
PAIRED = 'Pairs are in suite="datasheet"; a judge of single responses gives the answers that the suite asks for.'
"""For a judge that compares two, on a suite of single responses."""


def registration_facts(registered: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    """Spell names and versions, as in `Judge.registered`, for the params of a run; None where there are none."""
    names, versions = ([str(entry[fact]) for entry in registered] for fact in ("name", "version"))
    return {"registered_name": ", ".join(names) or None, "scorer_version": ", ".join(versions) or None}


def shown_name(name: str, *, simulated: bool, recorded: bool) -> str:
    """Return a judge's name as people see it: with what it is, where it is no model that is asked now."""
    return f"{name} (simulated)" if simulated else f"{name} (recorded)" if recorded else name


class Judge(ABC):
    """One judge configuration: what it is and what it costs. How it is asked is one of the two contracts below.

    A real judge looks at `call.presentation` only; scripted judges, being calibration weights, may look at the item.
    """

    name: str
    kind: str
    """`callable`, `scripted`, `prompted`, `mlflow`, `recorded` or `pointwise`: the param `judge.kind`."""
    simulated = False
    recorded = ""
    """Whose answers these are, where they were given earlier and nobody is asked now; empty for every other judge."""
    inline = False
    """True when it never waits, so that the engine need not schedule it."""
    registered: Sequence[Mapping[str, Any]] = ()
    """Name, version and experiment of what it was made of, where that came from MLflow's registry of scorers."""
    tie_criterion: Criterion = TIE_CRITERIA["allowed"]

    @property
    def model_judge(self) -> ModelJudge | None:
        """The judge, this one or one inside it, whose answers are paid by the token and kept in the journal, if any."""
        return None

    def settings(self) -> dict[str, object]:
        """What makes this configuration this one; logged as params `judge.*`."""
        return {
            "model": self.name,
            "kind": self.kind,
            "tie_criterion": self.tie_criterion.name,
        }

    def prompt(self) -> str:
        """The text behind the verdicts, for `judge/prompt.txt`."""
        return f"Tie criterion ({self.tie_criterion.name}): {self.tie_criterion.text}\n"

    def fingerprint(self) -> str | None:
        """Identify the configuration, or None when two different judges could look the same."""
        return None

    def definition(self) -> dict[str, Any] | None:
        """Return plain JSON, without keys, of which `judge_from` makes this judge again; None where code takes part."""
        return None

    def renewed(self) -> Judge:
        """Return the judge as what it is made of makes it now: environment, texts of this package, MLflow's version."""
        return self

    def defined_by(self, **facts: object) -> dict[str, Any]:
        """Return these facts as a definition: copied, so that nothing that is changed later changes it."""
        common = {
            "format": SCHEMA_VERSION,
            "kind": self.kind,
            "name": self.name,
            "tie_criterion": asdict(self.tie_criterion),
        }
        # Through JSON, so that what is kept is what a file would hold: tuples are lists, and NaN is refused.
        plain: dict[str, Any] = json.loads(json.dumps({**common, **facts}, allow_nan=False))
        return plain

    def lacks(self) -> str | None:
        """Say what must be set before the judge can be asked, such as a key; None where nothing is known to lack."""
        return None

    def begin(self, suite: Suite) -> None:
        """Get ready for a suite, before the first call of a run."""

    def covers(self, item: Item) -> bool:
        """Whether the judge answers this item at all; a replayed paper has no answer to what it did not ask."""
        return True

    def with_criterion(self, spec: str | Criterion) -> Self:
        """Return the same judge under another tie criterion."""
        return self.with_settings(tie_criterion=criterion(spec))

    def with_settings(self, **settings: Any) -> Self:
        """Return the same judge with other attributes; nothing about them is checked."""
        other = copy.copy(self)
        for name, value in settings.items():
            setattr(other, name, value)
        return other


class AnsweringJudge(Judge):
    """A judge that answers by itself: a callable, a script, an MLflow judge."""

    @abstractmethod
    async def ask(self, call: Call) -> object:
        """Answer one call: a bare value or an `Answer`. Whatever is raised becomes the outcome `error`."""

    def running(self, concurrency: int) -> AbstractContextManager[None]:
        """Hold what the judge needs while it is asked, with at most `concurrency` calls at once."""
        return nullcontext()


class ModelJudge(Judge):
    """A judge that writes requests and reads responses; only a model client sends.

    So no call escapes journal, limits and budget.
    """

    model: str
    api_base: str | None
    max_tokens: int | None

    @property
    def model_judge(self) -> ModelJudge:
        """Itself."""
        return self

    @abstractmethod
    def request(self, call: Call) -> Request:
        """Return what is sent for a call."""

    @abstractmethod
    def read(self, response: Response, call: Call) -> ParsedAnswer:
        """Read what came back for a call."""

    def price(self, overrides: Overrides | None) -> Price | None:
        """Return the price of its tokens, from the overrides or litellm's table; None when it is unknown."""
        return price_of(self.model, overrides)

    def lacks(self) -> str | None:
        """Name the key or the address that the way to the model lacks."""
        return what_is_missing(self.model, self.api_base)

    def check_cap(self, price: Price | None) -> None:
        """Refuse a cap on dollars where calls cannot be priced beforehand: it takes a price and a longest answer.

        Raises:
            RecipeError: saying what is missing.
        """
        if price is None:
            raise RecipeError(
                f"A cap needs a price, and {self.model!r} has none in litellm's table. Give it: "
                f"prices={{{self.model!r}: (usd_per_million_input, usd_per_million_output)}}, "
                f"or --price {self.model}=IN,OUT."
            )
        if self.max_tokens is None:
            raise RecipeError("A cap needs a longest answer: set the judge's `max_tokens`.")
