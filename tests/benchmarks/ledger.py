"""Write the table of the ledger into docs/howto/budget.md: python -m tests.benchmarks.ledger."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tests.ledger import ROWS, WAYS, Cell, cell

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "budget.md"
BEGIN, END = "<!-- ledger -->", "<!-- /ledger -->"


def shown(books: Cell | None) -> str:
    """Billed, beside what is shown and set aside, in micro-dollars."""
    if books is None:
        return "–"
    bound = f" + {books.worst:.0f}" if books.worst else ""
    sign = "=" if books.is_equal else "≤" if books.holds else "≠"
    return f"{books.billed:,} {sign} {books.usd:.0f}{bound}"


def table() -> str:
    """Fill every cell."""
    lines = [f"| every fourth answer | {' | '.join(WAYS)} |", f"|{'---|' * (len(WAYS) + 1)}"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= {"OPENAI_API_KEY": "sk-loopback", "JRH_HOME": str(Path(folder, "home"))}
        store = f"sqlite:///{folder}/mlflow.db"
        for number, row in enumerate(ROWS):
            cells = []
            for way in WAYS:
                place = Path(folder, f"{number}-{way}")
                place.mkdir()
                os.environ["JRH_HOME"] = str(place)
                cells.append(shown(cell(row, way, place, store)))
            lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Write it between the marks."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    filled = f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"
    PAGE.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
