"""What a suite and its run say about how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jrh_mlflow.generation.attempts import Made
from jrh_mlflow.generation.generator import Generator
from jrh_mlflow.generation.order import Order
from jrh_mlflow.generation.plan import rubric_sha256
from jrh_mlflow.generation.writers import OFFLINE


def suite_origin(
    order: Order, made: Made, run_id: str, writer: Mapping[str, object], run: Mapping[str, object]
) -> dict[str, Any]:
    """Return the origin of a generated suite, for its manifest."""
    plan = order.plan
    missing = f"{made.stopped}: {made.unfinished} of {plan.n_items} items not made" if made.stopped else None
    return {
        "builder": "generate",
        "dataset_sha256": plan.sha256,
        "rubric_sha256": rubric_sha256(plan.rubric),
        "n_seeds": len(plan.seeds),
        **{key: value for key, value in plan.settings().items() if value is not None},
        "tests": {name: asdict(counts) for name, counts in made.tests.items()},
        "generator": {key: value for key, value in writer.items() if value is not None},
        "validator": order.validator.name if order.validator else "not asked",
        "similarity": run["similarity"],
        "seed": order.seed,
        "n_set_aside": len(made.set_aside),
        "generate_run_id": run_id,
        "truncated": missing,
    }


def about_data(order: Order, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is logged of the data, as params `dataset.*`."""
    plan = order.plan
    return {
        "sha256": plan.sha256,
        "n_seeds": len(plan.seeds),
        "labels": ",".join(plan.labels.answers),
        "ordinal": str(plan.labels.ordinal).lower(),
        "rubric_sha256": rubric_sha256(plan.rubric),
        "n": reading.get("n"),
        "stratify": reading.get("stratify"),
        **plan.settings(),
    }


def writer_name(order: Order) -> str:
    """Return who writes, as the run's tag says it."""
    if order.generator is None:
        return OFFLINE
    return order.generator.model if isinstance(order.generator, Generator) else "callable"
