"""A scripted landscape: judges with known rates and prices, so that the true front is known."""

from __future__ import annotations

import jrh_mlflow as jrh
from jrh_mlflow.judges.scripted import Noisy
from jrh_mlflow.schema.items import Call

QUALITY = {"small": 0.55, "medium": 0.75, "large": 0.95}
PRICE = {"small": 1e-5, "medium": 1e-4, "large": 1e-3}
LOSS = {"clear": 0.0, "wordy": 0.2, "odd": 0.4}
"""What a prompt takes from the quality: `clear` is best whatever the model."""

TRUE_FRONT = {(model, "clear") for model in QUALITY}
STEPS = {1.0: 0.0, 2.0: 0.0, 3.0: 0.0, 4.0: 0.0, 5.0: 0.0}


class Priced(Noisy):
    """`Noisy` with a price for each call."""

    def __init__(self, name: str, quality: float, usd: float, *, seed: int = 0) -> None:
        wrong = (1 - quality) / 3
        super().__init__(
            dark_current=1 - quality,
            stable=wrong,
            positional=wrong,
            one_sided=wrong,
            sensitivity=dict.fromkeys(STEPS, quality),
            seed=seed,
        )
        self.name, self.usd = name, usd

    def answer(self, call: Call) -> object:  # type: ignore[override]
        return jrh.Answer(super().answer(call), cost_usd=self.usd)


def judge(choice: dict[str, str]) -> Priced:
    """Return the judge of a choice; every configuration draws for itself."""
    name = f"{choice['model']}-{choice['prompt']}"
    quality = QUALITY[choice["model"]] - LOSS[choice["prompt"]]
    return Priced(name, quality, PRICE[choice["model"]], seed=sum(map(ord, name)))


def space(**given: object) -> jrh.Space:
    """Return the whole landscape: 9 configurations, 3 of them on the front."""
    choices = {"model": list(QUALITY), "prompt": list(LOSS)}
    return jrh.Space(**{"choices": choices, "judge": judge, "orders": ["one"], **given})


def found_front(done: jrh.Sweep) -> set[tuple[str, str]]:
    """Return the front by model and prompt."""
    return {(one.configuration.params["model"], one.configuration.params["prompt"]) for one in done.front}
