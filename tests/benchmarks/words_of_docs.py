"""Words of each how-to page, and whether its commands are run: `python -m tests.benchmarks.words_of_docs`.

Ends with exit code 1 where a page is too long, or no test runs a block of it.
"""

from __future__ import annotations

import sys

from tests.docs.blocks import ROOT, RUN, blocks, claims, not_run, pages

MOST_WORDS = 1800
"""Of a how-to page: task, commands, output, what next. The rest is reference."""


def problems(page: str) -> list[str]:
    """What is wrong with a page: its length, and blocks that no test runs."""
    n_words = len((ROOT / page).read_text(encoding="utf-8").split())
    long = [f"{page} has {n_words:,} words, over {MOST_WORDS:,}"] if n_words > MOST_WORDS else []
    return [*long, *(f"{block} is run by no test" for block in not_run(page))]


def howtos() -> list[str]:
    """The how-to pages."""
    return [page for page in pages() if page.startswith("docs/howto/")]


def main() -> int:
    """Print a line for each page, then what is wrong; return the exit code."""
    print("words  blocks  run  page                            run by")
    for page in howtos():
        n_words = len((ROOT / page).read_text(encoding="utf-8").split())
        n_code = sum(block.language in RUN for block in blocks(page))
        runner = claims()[page].relative_to(ROOT) if page in claims() else "-"
        print(f"{n_words:5}  {n_code:6}  {n_code - len(not_run(page)):3}  {page:30}  {runner}")
    wrong = [problem for page in howtos() for problem in problems(page)]
    print("\n".join(wrong) or f"No page is over {MOST_WORDS:,} words, and every block is run.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
