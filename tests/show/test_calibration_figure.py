"""The reliability diagram: points, counts and numbers are in it, and it is drawn only where there is something."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.show.figures.datasheet import calibration_figures
from tests.measures.pointwise import point
from tests.readings import pairs

LADDER = {"condition": "ladder", "delta": 1.0, "better": "u"}


def calls(confidence: object, *, n: int = 30, n_tasks: int = 10) -> pd.DataFrame:
    frame = pd.DataFrame(pairs([("1", "2"), ("2", "tie"), ("1", "2")] * (n // 3), n_tasks=n_tasks, **LADDER))
    return frame.assign(confidence=confidence)


def drawn(frame: pd.DataFrame):
    figures = calibration_figures(jrh.measure(frame, n_resamples=20).estimates, frame, "a/judge")
    for figure in figures.values():
        figure.savefig(io.BytesIO(), format="png", dpi=50)
    return figures.get("calibration.png")


def test_the_diagram_shows_accuracy_by_confidence_and_every_call_in_the_counts():
    frame = calls(0.9)
    frame.loc[frame["outcome"] == "tie", "confidence"] = 0.4
    figure = drawn(frame)
    above, below = figure.axes
    line = above.containers[0].lines[0]
    assert line.get_xdata() == pytest.approx([0.4, 0.9])
    assert line.get_ydata() == pytest.approx([0.0, 40 / 50])
    assert sum(bar.get_height() for bars in below.containers for bar in bars) == 60
    assert "Calibration of a/judge" in above.get_title(loc="left")
    assert "confidence − accuracy +" in above.get_title(loc="left")
    assert re.search("60 calls .*; 10 to 50 in each of 2 bins", figure.texts[0].get_text())


@pytest.mark.parametrize("n_tasks", [1, 10])
def test_no_bar_has_zero_length(n_tasks):
    frame = calls(np.linspace(0.3, 1, 60), n_tasks=n_tasks)
    figure = drawn(frame)
    segments = figure.axes[0].collections[0].get_segments()
    assert len(segments) == 10
    assert all(high[1] - low[1] > 0.1 for low, high in segments)


def test_pointwise_calls_have_a_diagram_too():
    rows = [point("typos", "pass", "pass" if i % 3 else "fail", source=f"s{i}") for i in range(60)]
    assert drawn(pd.DataFrame(rows).assign(confidence=np.linspace(0.5, 1, 60))) is not None


def test_no_diagram_without_confidences_or_where_they_are_withheld():
    assert drawn(calls(None)) is None
    assert drawn(calls(0.9).drop(columns="confidence")) is None
    assert drawn(calls([0.9, None] * 30)) is None
