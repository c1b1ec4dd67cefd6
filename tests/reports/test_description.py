"""Descriptions of runs: never cut by MLflow, and where they are shortened they say where the rest is."""

from __future__ import annotations

import pytest

from jrh_mlflow.reports.description import MAX_DESCRIPTION, shortened

MLFLOW_TAG_LIMIT = 8000
ROWS = "| cell | 0.5 |\n" * 400


@pytest.mark.parametrize("mark", ["##", "###"])
def test_a_long_description_ends_with_a_whole_section_and_says_where_the_rest_is(mark: str) -> None:
    text = f"# Title\n\n{mark} Scores\n{ROWS[:6000]}\n{mark} Differences\n{ROWS[:6000]}"
    cut = shortened(text, artifact="comparison.md")
    assert len(cut) < MAX_DESCRIPTION
    assert f"{mark} Scores" in cut
    assert f"{mark} Differences" not in cut
    assert cut.endswith("The whole text is in the artifact `comparison.md`.\n")
    assert shortened(text[:7000], artifact="comparison.md") == text[:7000]


def test_one_long_section_ends_with_a_whole_line() -> None:
    one_long_section = shortened(f"# Title\n\n### Scores\n{ROWS * 2}", artifact="comparison.md")
    assert 7000 < len(one_long_section) < MAX_DESCRIPTION
    assert "| cell | 0.5 |\n\nThe whole text" in one_long_section
    lines = shortened("\n".join(f"line {number}" for number in range(2000)), artifact="sweep.md")
    assert len(lines) < MLFLOW_TAG_LIMIT
    assert lines.endswith("The whole text is in the artifact `sweep.md`.\n")


def test_a_text_of_one_line_is_shortened_too() -> None:
    cut = shortened("x" * 20_000, artifact="jury.md")
    assert 7000 < len(cut) < MAX_DESCRIPTION
    assert cut.endswith("x\n\nThe whole text is in the artifact `jury.md`.\n")
