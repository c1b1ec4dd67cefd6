"""A generation resolved and checked, before anything is sent: what is made, by whom, at what price."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from jrh_mlflow.engine.budget import Budget, checked_cap
from jrh_mlflow.engine.client import ClientSettings, ModelClient
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.plan import GenerationPlan, lay_out
from jrh_mlflow.generation.validators import JudgeValidator, ModelValidator, Validator
from jrh_mlflow.generation.writers import (
    OFFLINE,
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
from jrh_mlflow.options import NO_VALIDATOR, GenerationSettings
from jrh_mlflow.resolve import resolve_judge
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.tracking.outbox import JudgeFacts, outbox_key

logger = logging.getLogger("jrh_mlflow")

SAME_MODEL = "The generator {!r} confirms its own texts. A validator of another model family is better."
UNCONFIRMED = "No validator confirms the label flips, levels and edited transcripts."
BY_RULE = "Written by rules, without a model: good for trying everything out, no measure of a judge's weakness."


@dataclass(frozen=True, kw_only=True)
class PreparedGeneration:
    """What is to be made, by whom."""

    settings: GenerationSettings
    plan: GenerationPlan
    generator: Generator | WriterFunction | None
    """None: the tests' own rules."""
    validator: Judge | None
    """None: nobody is asked."""
    generator_price: Price | None
    validator_price: Price | None
    cap_micro: int | None

    @property
    def model(self) -> Generator | None:
        """The generator, where it is a model."""
        return self.generator if isinstance(self.generator, Generator) else None

    @property
    def writer_name(self) -> str:
        """Who writes, as the run's tag says it."""
        return self.model.model if self.model else "callable" if self.generator else OFFLINE

    @property
    def needs_journal(self) -> bool:
        """Whether any model is asked."""
        return self.model is not None or isinstance(self.validator, ModelJudge)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the suite should know first."""
        notes = [BY_RULE] if self.generator is None and self.plan.rewrites else []
        if self.model and getattr(self.validator, "model", None) == self.model.model:
            notes.append(SAME_MODEL.format(self.model.model))
        if self.validator is None and self.generator is not None and self.plan.needs_validator:
            notes.append(UNCONFIRMED)
        return (*notes, *self.plan.notes(by_rule=self.generator is None))

    def budget(self) -> str | None:
        """Name the budget by what is made: running again with a higher cap continues it."""
        if self.cap_micro is None or not self.needs_journal:
            return None
        plan = self.plan
        generator = self.model.settings() if self.model else None
        validator = self.validator.fingerprint() if self.validator else None
        tests = [test.name for test in plan.tests]
        parts = (generator, validator, plan.sha256, tests, plan.rubric_sha256, self.settings.seed)
        more = plan.settings()
        return outbox_key("generate", *parts, *([more] if more else []))

    def validator_settings(self) -> dict[str, Any]:
        """Return what is logged of the validator, as params `validator.*`."""
        if self.validator is None:
            return {"kind": NO_VALIDATOR}
        return {"name": self.validator.name, **JudgeFacts.of(self.validator).settings}

    def participants(self, journal: Journal | None, settings: ClientSettings) -> tuple[Writer, Validator | None]:
        """Return who writes and who confirms; one model at one address has one client, and all share the budget."""
        budget = Budget(journal, settings.budget) if journal is not None else None

        def client(model: Generator | ModelJudge, price: Price | None) -> ModelClient:
            assert journal is not None
            return ModelClient(model.model, model.api_base, journal, replace(settings, price=price), budget=budget)

        generator, judge, shared = self.generator, self.validator, None
        writer: Writer
        if isinstance(generator, Generator):
            shared = client(generator, self.generator_price)
            writer = ModelWriter(generator, shared)
        elif generator is None:
            writer = OfflineWriter(self.settings.seed)
        else:
            writer = CallableWriter(generator, concurrency=settings.concurrency)
        if not isinstance(judge, ModelJudge):
            assert judge is None or isinstance(judge, AnsweringJudge)
            return writer, JudgeValidator(judge, concurrency=settings.concurrency) if judge else None
        if self.model and shared and (self.model.model, self.model.api_base) == (judge.model, judge.api_base):
            return writer, ModelValidator(judge, shared, shared=True)
        return writer, ModelValidator(judge, client(judge, self.validator_price))


def prepare_generation(settings: GenerationSettings) -> PreparedGeneration:
    """Read the data and resolve everything that can be wrong before the first call.

    Raises:
        RecipeError: for data, names or settings that make no sense.
    """
    plan = lay_out(settings)
    generator = as_generator(settings.generator)
    validator = _validator(settings.validator, generator) if plan.needs_validator else None
    if validator is not None:
        validator.begin(Suite(name="baselines", items=plan.baselines()))
    generator_price = price_of(generator.model, settings.prices) if isinstance(generator, Generator) else None
    validator_price = validator.price(settings.prices) if validator else None
    prepared = PreparedGeneration(
        settings=settings,
        plan=plan,
        generator=generator,
        validator=validator,
        generator_price=generator_price,
        validator_price=validator_price,
        cap_micro=_cap(settings.max_usd, (generator, generator_price), (validator, validator_price)),
    )
    for note in prepared.notes:
        logger.warning("%s", note)
    return prepared


def _validator(spec: object, generator: Generator | WriterFunction | None) -> Judge | None:
    if spec == NO_VALIDATOR:
        return None
    if spec is not None:
        return resolve_judge(spec)
    return generator.as_judge() if isinstance(generator, Generator) else None


def _cap(
    max_usd: float | None,
    generator: tuple[Generator | WriterFunction | None, Price | None],
    validator: tuple[Judge | None, Price | None],
) -> int | None:
    """Return the cap in micro-dollars; every call it covers must have a price beforehand."""
    writes, price = generator
    if max_usd is None:
        return None
    if writes is not None and not isinstance(writes, Generator):
        raise RecipeError("A cap needs calls that are priced beforehand, and the generator is a function.")
    asked = [(writes.as_judge() if writes else None, price), validator]
    caps = [checked_cap(max_usd, judge, price) for judge, price in asked if judge]
    return caps[0] if caps else None
