"""How long it takes to find near-copies among many texts. Run: python -m tests.benchmarks.copies [--texts 10000]

Texts of a hundred words, drawn as words of a language are: a few very often, most of them rarely. It prints the seconds
to read them in, those of one batch of 256 texts (one sparse product), and how many of 256 near-copies were found.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from jrh_mlflow.perturb.checks import _BATCH, Corpus


def main(n_texts: int) -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    drawn = rng.zipf(1.3, size=(n_texts, 100)) % 30_000
    texts = {f"t{row}": " ".join(f"w{word}" for word in words) for row, words in enumerate(drawn)}
    start = time.perf_counter()
    corpus = Corpus(texts)
    read = time.perf_counter() - start
    # Each copy lacks the last word of the text that it copies.
    copies = [text.rpartition(" ")[0] for text in list(texts.values())[:_BATCH]]
    corpus.twins(copies[:1], above=0.95)
    start = time.perf_counter()
    twins = corpus.twins(copies, above=0.95)
    batch = time.perf_counter() - start
    found = sum(f"t{place}" in [twin.name for twin in alike] for place, alike in enumerate(twins))
    print(f"{n_texts} texts read in {read:.2f} s; a batch of {len(copies)} in {batch:.2f} s; {found} copies found")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=10_000)
    main(parser.parse_args().texts)
