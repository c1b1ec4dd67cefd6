"""`jrh validate`: what it prints, writes and ends with."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import pytest

from jrh_mlflow import simulations
from jrh_mlflow.cli import main
from jrh_mlflow.simulations.loop import Simulation
from jrh_mlflow.stats import proportions


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["jrh", "validate", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def of_one_world(simulation: Any) -> Any:
    """Draw the first world only, and that a few times; `tests/simulations` draw the quick form in full."""
    if not isinstance(simulation, Simulation):
        return simulation
    return replace(simulation, worlds=lambda size, apply: simulation.worlds(size, apply)[:1], least=2)


@pytest.mark.slow
def test_the_quick_form_passes_and_shows_every_part(monkeypatch, capsys) -> None:
    parts = [replace(part, simulations=tuple(map(of_one_world, part.simulations))) for part in simulations.PARTS]
    monkeypatch.setattr(simulations, "PARTS", tuple(parts))
    assert run("--quick", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    for text in ("coverage: old", "width: old", "dark_current", "10 × 12: 520 draws", "0 under 93 %"):
        assert text in shown
    for text in (
        "agreement/accuracy",
        "alt_test/winning_rate",
        "100 random of 1,000",
        "naive",
        "memorises its train",
    ):
        assert text in shown


def test_a_part_is_run_alone(monkeypatch, capsys) -> None:
    assert run("--quick", "--only", "alignment", "--json", monkeypatch=monkeypatch) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [part for part, rows in facts.items() if rows] == ["alignment"]


def test_decisions_that_err_too_often_end_with_1_and_are_named(monkeypatch, capsys) -> None:
    from jrh_mlflow.simulations import told_apart

    monkeypatch.setattr(simulations, "PARTS", (replace(simulations.DECISIONS, simulations=(told_apart.MAX_T,)),))
    assert run("--quick", "--only", "decisions", monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "told apart rightly" in shown
    assert "sign flips alone" in shown
    monkeypatch.setattr(told_apart, "share_limit", lambda *_: float("inf"))
    assert run("--quick", "--only", "decisions", "--json", monkeypatch=monkeypatch) == 1
    shown = capsys.readouterr()
    assert "miss their promise, first told apart falsely, 4 judges, 10 tasks × 8 axes, rate 0.1" in shown.err
    facts = json.loads(shown.out)
    assert {"name", "design", "measured", "promise", "verdict", "n", "beside"} <= facts["decisions"][0].keys()


def test_corrected_rates_that_do_not_hold_end_with_1_and_are_named(monkeypatch, capsys) -> None:
    from jrh_mlflow.simulations import simulated_labels
    from jrh_mlflow.stats import corrected_rates

    def narrow(share: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
        return share - 0.001, share + 0.001

    # One that holds, and one that does not.
    two = replace(simulated_labels.CORRECTIONS, worlds=lambda size, apply: simulated_labels.STATED[2:4])
    parts = [replace(part, simulations=(two,)) if part.word == "corrected" else part for part in simulations.PARTS]
    monkeypatch.setattr(simulations, "PARTS", tuple(parts))
    monkeypatch.setattr(corrected_rates, "beta_share", narrow)
    assert run("--quick", "--only", "corrected", "--json", monkeypatch=monkeypatch) == 1
    shown = capsys.readouterr()
    assert "1 check(s) miss their promise, first rate 0.7, se 0.9, sp 0.8: 100 stratified of 1,000: FAILS" in shown.err
    facts = json.loads(shown.out)
    assert facts["estimators"] == facts["intervals"] == facts["agreement"] == facts["alignment"] == []
    assert {"scenario", "bias", "coverage", "width", "naive_coverage", "refused"} <= facts["corrected"][0].keys()


def test_the_whole_grid_is_written_and_printed_as_json(monkeypatch, capsys, tmp_path) -> None:
    """An ICC near 1 is where the interval does not hold: stated in docs/statistics.md."""
    options = ("--quick", "--seeds", "0", "--draws", "0", "--json", "-o", str(tmp_path / "grid.json"))
    assert run(*options, "--icc", "0.3", "--icc", "0.95", monkeypatch=monkeypatch) == 1
    shown = capsys.readouterr()
    assert "ICC 0.95" in shown.err
    facts = json.loads(shown.out)
    assert facts == json.loads((tmp_path / "grid.json").read_text(encoding="utf-8"))
    assert facts["estimators"] == []
    assert {c["truth"]["icc"] for c in facts["intervals"]} == {0.3, 0.95}
    held = [c for c in facts["intervals"] if c["truth"]["icc"] == 0.3]
    cells = {(c["n_calls"], c["truth"]["rate"], c["truth"]["shape"]): c for c in held}
    for rate in (0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
        for scores in (cells[4, rate, "beta"]["old"], cells[4, rate, "beta"]["new"]):
            assert scores["coverage"] + scores["too_low"] + scores["too_high"] == pytest.approx(1)
            assert 0 < scores["width"] < 1


def test_an_interval_that_does_not_hold_ends_with_1_and_is_named(monkeypatch, capsys) -> None:
    def plain(successes, sizes, *, level=0.95):
        return proportions.wilson_share(successes.sum() / sizes.sum(), sizes.sum(), level=level)

    monkeypatch.setattr(proportions, "cluster_interval", plain)
    assert run("--quick", "--seeds", "0", "--draws", "0", monkeypatch=monkeypatch) == 1
    assert "miss their promise, first 10 tasks × 4 calls, ICC 0.6" in capsys.readouterr().err
