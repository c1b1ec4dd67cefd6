"""How often a panel is right, and its answers as call records; every share comes from the ledger."""

from __future__ import annotations

import numpy as np
import pandas as pd

from jrh_mlflow.measures.datasheet.axes import delta_key
from jrh_mlflow.measures.juries.panels import PanelAnswers
from jrh_mlflow.measures.juries.votes import MISSING, NOT_ASKED, Codes, Texts, VoteTable
from jrh_mlflow.measures.ledger import Mask, share
from jrh_mlflow.measures.reliability.binary import ORDER_UNKNOWN
from jrh_mlflow.schema.calls import USABLE
from jrh_mlflow.schema.estimates import NotEstimable, Reading

TOO_FEW = "too few votes"
_EXPECTED = "units with an expected answer"


def panel_readings(table: VoteTable, given: PanelAnswers) -> dict[str, Reading]:
    """Return accuracy, error rate, no_decision and, with two labels, FPR and FNR of a panel.

    FPR is the share of the units that expect the negative label and are answered with the positive one, FNR the other
    way round; no decision is in their denominators and no error of either kind. The positive label is the last.
    """
    rows = table.judged
    judged, answer = table.where(rows), given.answer[rows]
    right = np.asarray(answer == judged.expected)
    readings = {
        "accuracy": answer_share(judged, answer, _EXPECTED, right),
        "error_rate": answer_share(judged, answer, _EXPECTED, ~right),
        "no_decision": answer_share(judged, answer, _EXPECTED, np.asarray(answer == table.abstain)),
    }
    if table.pointwise and table.scale.kind == "binary":
        readings["fpr"] = _confused(judged, answer, expected=0)
        readings["fnr"] = _confused(judged, answer, expected=1)
    return readings


def panel_accuracy(table: VoteTable, answer: Codes) -> Reading:
    """Share of the units with an expected answer that are answered with it."""
    rows = table.judged
    judged = table.where(rows)
    return answer_share(judged, answer[rows], _EXPECTED, np.asarray(answer[rows] == judged.expected))


def condition_readings(table: VoteTable, given: PanelAnswers) -> dict[str, Reading]:
    """Accuracy of a panel by condition, the baseline included; the steps of a ladder are conditions of their own."""
    known = table.expected >= 0
    names = [
        f"{condition}/{delta_key(float(delta))}" if delta > 0 else str(condition)
        for condition, delta in zip(table.condition, table.delta, strict=True)
    ]
    named = np.array(names, dtype=object)
    found: dict[str, Reading] = {}
    for name in dict.fromkeys(named[known]):
        rows = np.asarray(known & (named == name))
        part, answer = table.where(rows), given.answer[rows]
        found[str(name)] = answer_share(part, answer, f"{name} units", np.asarray(answer == part.expected))
    return dict(sorted(found.items()))


def panel_calls(table: VoteTable, given: PanelAnswers) -> pd.DataFrame:
    """Return a panel's answers as call records, so that a panel can be measured as a judge is.

    A unit with too few votes ends as the first unusable call did; as `error` when no judge was asked.
    """
    # The last two are no decision and too few votes, whose codes are L and -1.
    texts = np.array([*table.scale.labels, "", ""], dtype=object)
    content, right = texts[given.answer], texts[table.expected]
    tie = np.zeros(len(content), dtype=bool) if table.pointwise else np.asarray(content == "tie")
    outcome = np.where(content == "", "abstain", np.where(tie, "tie", "verdict")).astype(object)
    lost = given.answer == MISSING
    outcome[lost] = _endings(table.outcome[lost])
    frame: pd.DataFrame = pd.DataFrame(
        {
            "suite_item": table.item,
            "task": np.array(table.sources, dtype=object)[table.source],
            "condition": table.condition,
            "delta": table.delta,
            "order": table.order,
            "better": "" if table.pointwise else right,
            "replicate": table.replicate,
            "outcome": outcome,
            "answer": content if table.pointwise else _slots(content, table.order),
            "expected": right if table.pointwise else "",
        }
    )
    return frame


def answer_share(table: VoteTable, answer: Codes, what: str, hits: Mask) -> Reading:
    """Share of `hits` among the units with an answer; those with too few votes are counted beside it."""
    usable = np.asarray(answer != MISSING)
    return share(table.units(what, usable=usable, left_out={TOO_FEW: int((~usable).sum())}), hits)


def _confused(judged: VoteTable, answer: Codes, *, expected: int) -> Reading:
    if not judged.scale.ordered:
        return NotEstimable(reason=ORDER_UNKNOWN.format(what="positive"))
    rows = np.asarray(judged.expected == expected)
    what = f"units that expect {judged.scale.labels[expected]!r}"
    return answer_share(judged.where(rows), answer[rows], what, np.asarray(answer[rows] == 1 - expected))


def _slots(content: Texts, order: Texts) -> Texts:
    """Put contents back into the slots they stood in; order uv has u in slot 1."""
    first = (content == "u") == (order == "uv")
    chosen = np.isin(content, ("u", "v"))
    return np.where(chosen, np.where(first, "1", "2"), "").astype(object)


def _endings(outcomes: Texts) -> list[str]:
    unusable = [[one for one in row if one not in USABLE and one != NOT_ASKED] for row in outcomes]
    return [row[0] if row else "error" for row in unusable]
