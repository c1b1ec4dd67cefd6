"""Writing by code on long texts. Run: python -m tests.benchmarks.rules [--sizes 8 32 128 256] [--whole 198]

For each reliability test and shape of text: CPU milliseconds per kB at each size for one attempt (written and checked),
and the last over the first; in proportion to the length means a ratio around 1. Only the slowest shape of each test is
printed without `--all-shapes`. `--whole` times one text of so many kB through all of it, MLflow too.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from pathlib import Path

from jrh_mlflow.perturb import CodeTest, english
from jrh_mlflow.perturb.checks import TfidfSimilarity
from tests.perturb.long_texts import RUBRIC, RULES, SHAPES, attempt, targets


def main() -> None:
    """Print one row per test and shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[8, 32, 128, 256], metavar="kB")
    parser.add_argument("--tests", nargs="+", default=list(RULES), choices=list(RULES), metavar="TEST")
    parser.add_argument("--all-shapes", action="store_true")
    parser.add_argument("--whole", type=int, metavar="kB")
    options = parser.parse_args()
    if options.whole:
        print(f"all tests on one text of {options.whole} kB: {_whole(options.whole):.1f} s")
        return
    print("{:<22} {:<26}".format("test", "shape") + "".join(f"{size:>5} kB" for size in options.sizes) + "   ratio")
    for name in options.tests:
        rows = {shape: [_milliseconds(RULES[name], shape, size) for size in options.sizes] for shape in SHAPES}
        shown = list(SHAPES) if options.all_shapes else [max(rows, key=lambda shape: rows[shape][-1])]
        for shape in shown:
            cells = "".join(f"{value:>8.2f}" for value in rows[shape])
            print(f"{name:<22} {shape:<26}{cells}{rows[shape][-1] / rows[shape][0]:>8.2f}", flush=True)


def _milliseconds(test: CodeTest, shape: str, size: int) -> float:
    """Return CPU milliseconds per kB of one attempt at the last of a test's targets."""
    text = SHAPES[shape](1000 * size)
    target, similarity = targets(test, text)[-1], TfidfSimilarity([text, RUBRIC])
    for remembered in (english.words, english.numbers, english.number_words):
        remembered.cache_clear()
    # Generation keeps the collector calm, too.
    gc.collect()
    gc.disable()
    started = time.process_time()
    attempt(test, target, similarity)
    spent = time.process_time() - started
    gc.enable()
    return 1000 * spent / size


def _whole(size: int) -> float:
    from jrh_mlflow.generation.generate import run_generation
    from jrh_mlflow.options import GenerationSettings

    row = {"id": "long", "instruction": "Explain.", "response": SHAPES["paragraphs"](1000 * size), "label": "2"}
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'mlflow.db'}"
        settings = GenerationSettings(dataset=[row], rubric=RUBRIC, scale=(1, 5), tests=list(RULES), tracking_uri=store)
        return run_generation(settings).made.seconds


if __name__ == "__main__":
    main()
