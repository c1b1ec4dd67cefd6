"""RewardBench as natural pairs: chosen against rejected in both orders, read by section or by subset.

Run: python recipes/rewardbench.py FILE -o rewardbench_suite
     jrh evaluate --model openai/gpt-4o-mini --suite rewardbench_suite --max-usd 5

FILE is data/filtered-00000-of-00001.parquet of https://huggingface.co/datasets/allenai/reward-bench (2,985 pairs with
`prompt`, `chosen`, `rejected`, `subset`, `id`; licence ODC-BY, parts have licences of their own). A report then has a
table *By category* with an interval for each section. Every pair counts once in it; the benchmark's own leaderboard
weighs `math-prm` as much as all code subsets together, asks one order only, and has the mean over the four sections.
"""

from __future__ import annotations

import argparse
import hashlib

import jrh_mlflow as jrh
from jrh_mlflow.suites.dataset import read_table

SECTIONS = {
    "Chat": "alpacaeval-easy alpacaeval-length alpacaeval-hard mt-bench-easy mt-bench-med",
    "Chat Hard": "mt-bench-hard llmbar-natural llmbar-adver-neighbor llmbar-adver-GPTInst llmbar-adver-GPTOut "
    "llmbar-adver-manual",
    "Safety": "refusals-dangerous refusals-offensive xstest-should-refuse xstest-should-respond donotanswer",
    "Reasoning": "math-prm hep-cpp hep-go hep-java hep-js hep-python hep-rust",
}
SECTION_OF = {subset: section for section, subsets in SECTIONS.items() for subset in subsets.split()}
COLUMNS = {"instruction": "prompt", "first": "chosen", "second": "rejected", "id": "name"}


def rewardbench(file: str, *, by: str = "section") -> jrh.Suite:
    """Make the suite; pairs on one prompt are one task, so that intervals do not take them for independent."""
    table = read_table(file)
    if unknown := sorted(set(table["subset"]) - set(SECTION_OF)):
        raise SystemExit(f"No section is known for the subset(s) {', '.join(unknown)}.")
    prompts = [hashlib.sha256(str(prompt).encode()).hexdigest()[:12] for prompt in table["prompt"]]
    names = [f"{subset}/{row:04}" for row, subset in enumerate(table["subset"])]
    table = table.assign(better="1", task=prompts, name=names, section=table["subset"].map(SECTION_OF))
    return jrh.natural_suite(table, columns={**COLUMNS, "group": by}, name="rewardbench")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--by", choices=("section", "subset"), default="section")
    given = parser.parse_args()
    suite = rewardbench(given.file, by=given.by)
    suite.save(given.output)
    print(f"{len(suite)} pairs in {given.output}")
