"""A generation resolved and checked: who writes, who confirms, at what price; nothing is opened or sent yet."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.engine.budget import Budget, checked_cap
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.agentic.sources import read_plan_of
from jrh_mlflow.generation.plan import Plan, needs_validator, rubric_sha256
from jrh_mlflow.generation.validators import JudgeValidator, ModelValidator, Validator
from jrh_mlflow.generation.writers import (
    CallableWriter,
    Generator,
    ModelWriter,
    OfflineWriter,
    Writer,
    WriterFunction,
    as_generator,
)
from jrh_mlflow.judges import AnsweringJudge, Judge, ModelJudge
from jrh_mlflow.models.prices import Price, price_of
from jrh_mlflow.resolve import resolve_judge
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.outbox import JudgeFacts, outbox_key

if TYPE_CHECKING:
    from jrh_mlflow.models.prices import Overrides

logger = logging.getLogger("jrh_mlflow")

NO_VALIDATOR = "none"
SAME_MODEL = "The generator {!r} confirms its own texts. A validator of another model family is better."
UNCONFIRMED = "No validator confirms the label flips, levels and edited transcripts."
BY_RULE = "Written by rules, without a model: good for trying everything out, no measure of a judge's weakness."


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be made, by whom."""

    plan: Plan
    generator: Generator | WriterFunction | None
    """None: the tests' own rules."""
    validator: Judge | None
    """None: nobody is asked."""
    prices: tuple[Price | None, Price | None]
    """Of the generator's and of the validator's model."""
    cap_micro: int | None
    seed: int
    notes: tuple[str, ...]
    """What a reader of the suite should know first."""

    @property
    def needs_journal(self) -> bool:
        """Whether any model is asked."""
        return isinstance(self.generator, Generator) or isinstance(self.validator, ModelJudge)

    def budget(self) -> str | None:
        """Name the budget by what is made: running again with a higher cap continues it."""
        if self.cap_micro is None or not self.needs_journal:
            return None
        settings = self.generator.settings() if isinstance(self.generator, Generator) else None
        confirmed = self.validator.fingerprint() if self.validator else None
        names = [test.name for test in self.plan.tests]
        parts = (settings, confirmed, self.plan.sha256, names, rubric_sha256(self.plan.rubric), self.seed)
        more = self.plan.settings()
        return outbox_key("generate", *parts, *([more] if more else []))

    def validator_settings(self) -> dict[str, Any]:
        """Return what is logged of the validator, as params `validator.*`."""
        if self.validator is None:
            return {"kind": NO_VALIDATOR}
        return {"name": self.validator.name, **JudgeFacts.of(self.validator).settings}


def place_order(
    dataset: object,
    *,
    tests: object,
    rubric: object,
    generator: object,
    validator: object,
    seed: int,
    max_usd: float | None,
    prices: Overrides | None,
    reading: Mapping[str, Any],
    tracking_uri: str | None,
) -> Order:
    """Read the data and resolve everything that can be wrong before the first call.

    Args:
        dataset: As for `read_seeds`, or transcripts as for `read_transcripts`.
        tests: As for `find_tests`, or names joined by commas.
        rubric: The judge's question.
        generator: A model name, a `Generator`, a function, or None.
        validator: A judge of any kind, None for the default or `"none"`.
        seed: Of the draw of rows and of everything written by code.
        max_usd: Cap over generator and validator.
        prices: The user's own.
        reading: Further arguments of `read_seeds`, or of `agent_plan`.
        tracking_uri: MLflow store that traces are read from; the active one when None.
    """
    plan = read_plan_of(dataset, tests=tests, rubric=rubric, seed=seed, reading=reading, tracking_uri=tracking_uri)
    writes = as_generator(generator)
    confirms = _resolved(validator, writes) if needs_validator(plan) else None
    if confirms is not None:
        confirms.begin(Suite(name="baselines", items=plan.baselines()))
    price = price_of(writes.model, prices) if isinstance(writes, Generator) else None
    other = confirms.price(prices) if confirms else None
    order = Order(
        plan=plan,
        generator=writes,
        validator=confirms,
        prices=(price, other),
        cap_micro=_cap(max_usd, writes, confirms, (price, other)),
        seed=seed,
        notes=_notes(plan, writes, confirms),
    )
    for note in order.notes:
        logger.warning("%s", note)
    return order


def _resolved(validator: object, generator: Generator | WriterFunction | None) -> Judge | None:
    if validator == NO_VALIDATOR:
        return None
    if validator is not None:
        return resolve_judge(validator)
    return generator.as_judge() if isinstance(generator, Generator) else None


def _notes(plan: Plan, generator: Generator | WriterFunction | None, validator: Judge | None) -> tuple[str, ...]:
    notes = [BY_RULE] if generator is None and len(plan.by_code()) < len(plan.jobs) else []
    if isinstance(generator, Generator) and getattr(validator, "model", None) == generator.model:
        notes.append(SAME_MODEL.format(generator.model))
    if validator is None and generator is not None and needs_validator(plan):
        notes.append(UNCONFIRMED)
    return (*notes, *plan.notes(by_rule=generator is None))


def _cap(
    max_usd: float | None,
    generator: Generator | WriterFunction | None,
    validator: Judge | None,
    prices: tuple[Price | None, Price | None],
) -> int | None:
    """Return the cap in micro-dollars; every call it covers must have a price beforehand."""
    if max_usd is None:
        return None
    if generator is not None and not isinstance(generator, Generator):
        raise RecipeError("A cap needs calls that are priced beforehand, and the generator is a function.")
    asked = [(generator.as_judge(), prices[0])] if generator else []
    asked += [(validator, prices[1])] if validator else []  # type: ignore[list-item]
    caps = [checked_cap(max_usd, judge, price) for judge, price in asked]
    return caps[0] if caps else None


def crew(order: Order, journal: Journal | None, settings: ClientSettings) -> tuple[Writer, Validator | None]:
    """Return who writes and who confirms; models behind the same address share one channel, all share one budget."""
    price, other = order.prices
    channel: ModelClient | None = None
    purse = Budget(journal, settings.budget) if journal is not None else None
    writer: Writer
    if isinstance(order.generator, Generator):
        assert journal is not None
        base = order.generator.api_base
        channel = ModelClient(order.generator.model, base, journal, replace(settings, price=price), budget=purse)
        writer = ModelWriter(order.generator, channel)
    elif order.generator is None:
        writer = OfflineWriter(order.seed)
    else:
        writer = CallableWriter(order.generator, concurrency=settings.concurrency)
    judge = order.validator
    if not isinstance(judge, ModelJudge):
        assert judge is None or isinstance(judge, AnsweringJudge)
        return writer, JudgeValidator(judge, concurrency=settings.concurrency) if judge else None
    assert journal is not None
    generator = order.generator
    if channel is not None and isinstance(generator, Generator) and _same_door(generator, judge):
        return writer, ModelValidator(judge, channel, shared=True)
    own = ModelClient(judge.model, judge.api_base, journal, replace(settings, price=other), budget=purse)
    return writer, ModelValidator(judge, own)


def _same_door(generator: Generator, judge: ModelJudge) -> bool:
    return (generator.model, generator.api_base) == (judge.model, judge.api_base)


def corpus(plan: Plan) -> Sequence[str]:
    """Return the texts a similarity is fitted on: every response and the rubric, in order."""
    return [*(seed.response for seed in plan.seeds), plan.rubric]
