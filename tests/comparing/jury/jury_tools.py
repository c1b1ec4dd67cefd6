"""Call records of judges whose errors are drawn with a known correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jrh_mlflow.comparing.jury.votes import VoteTable, votes

LABELS = ("no", "yes")
Flags = npt.NDArray[np.bool_]
SPECIAL = ("abstain", "unparsed", "error")


def said(answers: Sequence[str], expected: Sequence[str], **columns: Any) -> pd.DataFrame:
    """One record for each answer, each of a source of its own; an outcome stands for an answer that is none."""
    rows = [
        {
            "suite_item": f"i{number:04d}",
            "task": f"s{number:04d}",
            "condition": "typos",
            "delta": None,
            "order": "",
            "better": "",
            "replicate": 0,
            "outcome": answer if answer in SPECIAL else "verdict",
            "answer": "" if answer in SPECIAL else answer,
            "expected": right,
        }
        for number, (answer, right) in enumerate(zip(answers, expected, strict=True))
    ]
    return pd.DataFrame(rows).assign(**columns)


def erring(wrong: Flags, **columns: Any) -> pd.DataFrame:
    """A judge of two labels that is wrong where it is told to be."""
    right = [LABELS[number % 2] for number in range(len(wrong))]
    return said([LABELS[(number % 2) ^ int(flag)] for number, flag in enumerate(wrong)], right, **columns)


def family_errors(n_judges: int, n_units: int, *, copies: float, error: float, seed: int) -> Flags:
    """Errors (units × judges) of judges that take an error of the family with chance `copies` and an own one otherwise.

    Both errors have chance e, so two judges have the covariance `copies^2 e (1 - e)`: the correlation is copies^2.
    """
    rng = np.random.default_rng(seed)
    shared, own = rng.random((n_units, 1)) < error, rng.random((n_units, n_judges)) < error
    return np.where(rng.random((n_units, n_judges)) < copies, shared, own)


def family(n_judges: int, n_units: int, **options: Any) -> dict[str, pd.DataFrame]:
    """Call records of such judges."""
    wrong = family_errors(n_judges, n_units, **options)
    return {f"j{number}": erring(wrong[:, number]) for number in range(n_judges)}


@lru_cache
def _faultless(n_units: int, n_judges: int) -> VoteTable:
    """Reading records takes longer than drawing errors."""
    right = np.zeros(n_units, dtype=bool)
    return votes({f"j{number}": erring(right) for number in range(n_judges)})


def error_table(wrong: Flags) -> VoteTable:
    """Votes of judges (columns) of two labels that are wrong where they are told to be."""
    table = _faultless(*wrong.shape)
    return replace(table, answer=table.expected[:, None] ^ wrong.astype(np.intp))


def table_of(answers: dict[str, Sequence[str]], expected: Sequence[str], **options: Any) -> VoteTable:
    """Votes of judges by what they said."""
    return votes({name: said(own, expected) for name, own in answers.items()}, **options)


def pair_calls(slots: Sequence[tuple[str, str]], *, better: str = "u") -> pd.DataFrame:
    """Natural pairs: what was answered in the order uv and in the order vu; `tie` or an outcome stands for itself."""
    rows = []
    for number, both in enumerate(slots):
        for order, slot in zip(("uv", "vu"), both, strict=True):
            rows.append(
                {
                    "suite_item": f"p{number}",
                    "task": f"t{number}",
                    "condition": "natural",
                    "delta": None,
                    "order": order,
                    "better": better,
                    "replicate": 0,
                    "outcome": "verdict" if slot in ("1", "2") else slot,
                    "answer": slot if slot in ("1", "2") else "",
                    "expected": "",
                }
            )
    return pd.DataFrame(rows)
