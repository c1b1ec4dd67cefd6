"""Replay the counts published in the Judge Datasheet paper and print its Tables 3, 4 and 6 beside ours.

Run: python recipes/datasheet_paper.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jrh_mlflow as jrh
from jrh_mlflow.engine import ask_calls, calls_frame, plan_calls

PUBLISHED = json.loads((Path(__file__).parent / "data" / "judge_datasheet.json").read_text(encoding="utf-8"))["judges"]
TABLE_3 = {  # dark current, false preference and sensitivity, with Wilson intervals
    "dark_current": "dark_current",
    "raw_delta0_fp": "raw_false_preference",
    "target_d1": "target_sensitivity/delta_1",
    "target_d5": "target_sensitivity/delta_5",
}
TABLE_4 = {
    "delta0_tie": "tie_rate/delta_0_same",
    "tie_d1": "tie_rate/delta_1",
    "tie_d5": "tie_rate/delta_5",
}  # criterion
TABLE_6 = {  # how the two orders of equal-quality pairs combine
    "stable": "stable_cross_sensitivity",
    "positional": "positional_false_preference",
    "one_sided": "one_sided_commit",
    "other": "other_conflict",
    "no_preference": "no_preference",
}


def measured(name: str) -> jrh.Datasheet:
    """Measure one scripted judge of the paper, with no MLflow."""
    suite, judge = jrh.load_suite("datasheet-paper"), jrh.scripted.profile(name)
    judge.begin(suite)
    sheet = jrh.measure(calls_frame(ask_calls(judge, plan_calls(suite, judge, replicates=1)).records))
    assert isinstance(sheet, jrh.Datasheet)
    return sheet


def share_text(reading: object) -> str:
    """Spell a reading as the paper does: count/n, estimate and Wilson interval to four places."""
    if not isinstance(reading, jrh.Estimate):
        return "n/a"
    return f"{reading.numerator:g}/{reading.n} {reading.value:.4f} [{reading.ci_low:.4f}, {reading.ci_high:.4f}]"


def published_text(cell: dict[str, Any] | None) -> str:
    """Spell a published cell the same way."""
    if cell is None:
        return "n/a"
    low, high = cell["ci95"]
    return f"{cell['count']}/{cell['n']} {cell['estimate']:.4f} [{low:.4f}, {high:.4f}]"


def threshold_text(reading: object) -> str:
    """Spell a threshold with its censoring."""
    return f"{reading.value:g} ({reading.censored or 'reached'})" if isinstance(reading, jrh.Estimate) else "n/a"


def rows(name: str) -> list[tuple[str, str, str, str]]:
    """Return table, quantity, published and measured for one judge."""
    published, sheet = PUBLISHED[name], measured(name).estimates
    found = [
        (table, key, published_text(published[key]), share_text(sheet.get(axis)))
        for table, keys in (("3", TABLE_3), ("4", TABLE_4))
        for key, axis in keys.items()
    ]
    for key, axis in TABLE_6.items():
        reading = sheet[axis]
        pairs = f"{reading.numerator:g}" if isinstance(reading, jrh.Estimate) else "n/a"
        found.append(("6", f"{key} pairs", str(published["pairs"][key]), pairs))
    delta75 = published["delta75"]
    told = f"{delta75['value']:g} ({delta75['censored'] or 'reached'})" if delta75 else "n/a"
    found.append(("3", "delta75", told, threshold_text(sheet["threshold_75"])))
    d_prime = sheet["d_prime/delta_5"]
    value = f"{d_prime.value:.4f}" if isinstance(d_prime, jrh.Estimate) else "n/a"
    found.append(("3", "d' at delta 5", f"{published['d_prime_d5']:.4f}", value))
    return found


def main() -> int:
    """Print every published number beside ours; exit code 1 when one differs."""
    different = 0
    print(f"{'judge':16s}{'table':7s}{'quantity':22s}{'published':34s}{'measured':34s}")
    for name in PUBLISHED:
        for table, key, published, ours in rows(name):
            same = published == ours
            different += not same
            print(f"{name:16s}{table:7s}{key:22s}{published:34s}{ours:34s}{'' if same else 'DIFFERS'}")
    print(f"\n{different} of the numbers differ." if different else "\nEvery published number is reproduced.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
