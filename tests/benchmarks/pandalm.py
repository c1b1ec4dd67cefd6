"""Public judgments whose authors are known: `python -m tests.benchmarks.pandalm FOLDER`.

FOLDER holds `testset-v1.json`, `gpt-3.5-turbo-testset-v1.json` and `pandalm-7b-testset-v1.json`, from `data` of
https://github.com/WeOpenML/PandaLM (Apache-2.0): 999 pairs of answers by five models, with the words of three people,
GPT-3.5 and PandaLM-7B, which was made of Llama's weights. Prints the page of `jrh self-preference`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

import jrh_mlflow as jrh

WINNERS = {"0": "tie", "1": "1", "2": "2", "Tie": "tie"}
JUDGES = {"gpt-3.5-turbo": "gpt_result", "pandalm-7b": "pandalm_result"}
PEOPLE = ("annotator1", "annotator2", "annotator3")


def judgments(folder: Path) -> pd.DataFrame:
    """Return a row for each judgment; what could not be read as one is left out."""

    def rows_of(name: str) -> dict[str, dict[str, Any]]:
        return {row["idx"]: row for row in json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))}

    pairs = rows_of("testset-v1")
    said = [(idx, "human", row[person]) for idx, row in pairs.items() for person in PEOPLE]
    for judge, column in JUDGES.items():
        said += [(idx, judge, row[column]) for idx, row in rows_of(f"{judge}-testset-v1").items()]
    table = pd.DataFrame(said, columns=["id", "judge", "winner"])
    table["winner"] = table["winner"].astype(str).map(WINNERS)
    authors = {idx: row["cmp_key"].split("_") for idx, row in pairs.items()}
    table["first_author"], table["second_author"] = (
        table["id"].map({i: a[k] for i, a in authors.items()}) for k in (0, 1)
    )
    return table.dropna(subset="winner")


def main() -> None:
    """Print whether the two judges prefer answers of their family."""
    print(jrh.self_preference(judgments(Path(sys.argv[1])), log=False).to_markdown())


if __name__ == "__main__":
    main()
