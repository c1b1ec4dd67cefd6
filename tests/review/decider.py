"""A process that decides as fast as it can, and says after each decision that it was told it is saved."""

from __future__ import annotations

import sys
from pathlib import Path

from jrh_mlflow.review.decisions import Click, Decisions, GeneratedPart, StaleError

GENERATED = GeneratedPart(text="x", label="fail", labels=("fail", "pass"))


def main(file: str, who: str, n_items: int) -> None:
    decisions = Decisions(Path(file))
    for item in range(n_items):
        try:
            event = decisions.decide(f"i{item}", Click(action="accept", who=who, version=0), GENERATED)
        except StaleError:
            print(f"stale {item}", flush=True)
        else:
            print(f"saved {item} {event.number}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
