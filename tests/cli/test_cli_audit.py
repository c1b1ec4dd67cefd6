"""`jrh suite audit`, run as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Jrh

COLUMNS = "id,instruction,first,second,better\n"


def natural_pairs(jrh: Jrh, better: str, worse: str, *, n: int = 12) -> None:
    rows = [
        f"pair{number},Say when parcel {number} comes.,{better if number % 2 else worse},"
        f"{worse if number % 2 else better},{1 if number % 2 else 2}\n"
        for number in range(n)
    ]
    Path("pairs.csv").write_text(COLUMNS + "".join(rows), encoding="utf-8")
    built = jrh("suite", "from-pairs", "pairs.csv", "-o", "mine")
    assert built.code == 0, built.err


def test_the_audit_of_a_built_in_suite_is_a_table(jrh: Jrh) -> None:
    done = jrh("suite", "audit", "datasheet-paper")
    assert done.code == 0, done.err
    header, *rows = done.out.splitlines()
    assert header.split() == ["shortcut", "prefers", "ladder"]
    overlap = next(row.split() for row in rows if row.startswith("WordOverlap"))
    assert overlap[1] == "more"
    assert float(overlap[2]) > 0.95
    assert "There is no matched ladder in it: nothing is judged." in done.out


def test_a_shortcut_that_pays_is_exit_code_1_with_the_sentences_to_mend(jrh: Jrh) -> None:
    natural_pairs(jrh, "It comes on 11 March.", "It comes one fine day.")
    assert jrh("suite", "audit", "mine").code == 0
    done = jrh("suite", "audit", "mine", "--condition", "natural")
    assert done.code == 1
    assert "lie outside 0.40-0.60" in done.err
    assert "DigitCount (more) pays on natural." in done.out
    assert "    better: It comes on 11 March.\n    worse:  It comes one fine day.\n" in done.out
    row = next(line for line in done.out.splitlines() if line.startswith("DigitCount       more"))
    assert row.endswith("!")


def test_json_tells_the_same(jrh: Jrh) -> None:
    natural_pairs(jrh, "It comes on 11 March.", "It comes one fine day.")
    done = jrh("suite", "audit", "mine", "--condition", "natural", "--json")
    assert done.code == 1
    audit = json.loads(done.out)
    assert (audit["suite"], audit["passed"]) == ("natural", False)
    digits = next(one for one in audit["readings"] if (one["shortcut"], one["direction"]) == ("DigitCount", "more"))
    assert (digits["estimate"]["value"], digits["estimate"]["n"], digits["fails"]) == (1.0, 12, True)


def test_an_unknown_condition_is_bad_input(jrh: Jrh) -> None:
    done = jrh("suite", "audit", "datasheet-short", "--condition", "lader")
    assert done.code == 2
    assert "Did you mean 'ladder'" in done.err
