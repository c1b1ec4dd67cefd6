"""`python -m tests.validation`: what it prints, writes and ends with."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import pytest

from jrh_mlflow.stats import corrected_rates, proportions
from tests.docs.blocks import ROOT, pages
from tests.validation import __main__ as command
from tests.validation import parts, simulated_labels, told_apart
from tests.validation.__main__ import main, read_options
from tests.validation.test_coverage import plain


def test_chosen_parts_are_run_and_no_others(tmp_path) -> None:
    file = tmp_path / "rows.json"
    assert main(["--quick", "--only", "alignment", "self_preference", "-o", str(file)]) == 0
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert list(rows) == ["seed", "alignment", "self_preference"]


@pytest.mark.parametrize("page", pages())
def test_a_command_that_a_page_prints_can_be_read(page) -> None:
    commands = re.findall(
        r"python -m tests\.validation\b([^`#\n]*)", (ROOT / page).read_text(encoding="utf-8")
    )
    for command_line in commands:
        assert read_options(shlex.split(command_line)).only


@pytest.mark.parametrize("arguments", [["--seeds", "3"], ["--only", "nothing"]])
def test_a_wrong_option_ends_with_2(arguments, capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().out == ""


def test_decisions_that_err_too_often_end_with_1_and_are_named(
    monkeypatch, capsys, tmp_path
) -> None:
    monkeypatch.setattr(
        command, "PARTS", (replace(parts.DECISIONS, simulations=(told_apart.MAX_T,)),)
    )
    assert main(["--quick", "--only", "decisions"]) == 0
    shown = capsys.readouterr().out
    assert "told apart rightly" in shown
    assert "sign flips alone" in shown
    monkeypatch.setattr(told_apart, "share_limit", lambda *_: float("inf"))
    file = tmp_path / "rows.json"
    assert main(["--quick", "--only", "decisions", "-o", str(file)]) == 1
    assert (
        "miss their promise, first told apart falsely, 4 judges, 10 tasks × 8 axes"
        in capsys.readouterr().err
    )
    (row, *_) = json.loads(file.read_text(encoding="utf-8"))["decisions"]
    assert {"name", "design", "measured", "promise", "verdict", "n", "beside"} <= row.keys()


def test_corrected_rates_that_do_not_hold_end_with_1_and_are_named(monkeypatch, capsys) -> None:
    def narrow(share: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
        return share - 0.001, share + 0.001

    # One that holds, and one that does not.
    two = replace(
        simulated_labels.CORRECTIONS, worlds=lambda size, apply: simulated_labels.STATED[2:4]
    )
    monkeypatch.setattr(command, "PARTS", (replace(simulated_labels.PART, simulations=(two,)),))
    monkeypatch.setattr(corrected_rates, "beta_share", narrow)
    assert main(["--quick", "--only", "corrected"]) == 1
    error = capsys.readouterr().err
    assert (
        "1 check(s) miss their promise, first corrected rate in its interval, rate 0.7, se 0.9"
        in error
    )


def test_every_cell_of_the_exact_sums_is_written(capsys, tmp_path) -> None:
    """An ICC near 1 is where the interval does not hold: stated in docs/statistics.md."""
    file = tmp_path / "grid.json"
    options = ["--quick", "--seeds", "0", "--draws", "0", "-o", str(file)]
    assert main([*options, "--icc", "0.3", "0.95"]) == 1
    assert "ICC 0.95" in capsys.readouterr().err
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert list(rows) == ["seed", "intervals"]
    assert {cell["icc"] for cell in rows["intervals"]} == {0.3, 0.95}
    for cell in rows["intervals"]:
        for score in (cell, cell["old"]):
            assert score["coverage"] + score["too_low"] + score["too_high"] == pytest.approx(1)
            assert 0 < score["width"] < 1


def test_an_interval_that_does_not_hold_ends_with_1_and_is_named(monkeypatch, capsys) -> None:
    monkeypatch.setattr(proportions, "cluster_interval", plain)
    assert main(["--quick", "--seeds", "0", "--draws", "0"]) == 1
    assert "miss their promise, first 10 tasks × 2 calls, ICC 0" in capsys.readouterr().err
