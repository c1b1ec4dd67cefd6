"""What `publish` writes, against a real MLflow store."""

from __future__ import annotations

import pytest

from jrh_mlflow.tracking.publish import RunContent


def test_a_description_must_have_its_whole_text_among_the_artifacts() -> None:
    with pytest.raises(ValueError, match=r"must be an artifact of the run, but got 'datasheet\.md'"):
        RunContent(points=(), params={}, description="# Long", described_in="datasheet.md", artifacts={"sweep.md": "#"})
