"""`jrh.suite_dataset`: a suite as an evaluation dataset of MLflow."""

from __future__ import annotations

from pathlib import Path

from jrh_mlflow.resolve import resolve_suite
from jrh_mlflow.suites import Suite
from jrh_mlflow.tracking.suite_datasets import SuiteDataset, write_dataset


def suite_dataset(
    suite: Suite | str | Path, name: str, *, experiment: str | None = None, tracking_uri: str | None = None
) -> str:
    """Write a suite as an evaluation dataset of MLflow, and return its address: `datasets:/NAME@VERSION`.

    `mlflow.genai.evaluate(mlflow.genai.datasets.get_dataset(name=…), scorers=[jrh.to_mlflow(run)])` asks a judge about
    its records, one for each presentation. The address is taken wherever a suite is, and gives one of the same hash. A
    suite that the dataset holds already is no new version; another one is the next, and the former stays readable.

    Args:
        suite: A suite, or the folder, address or name of one.
        name: Of the dataset: letters, digits, spaces, `_`, `-` and `.`.
        experiment: Whose page lists the dataset; the active one, or `judge-datasheets`, when None.
        tracking_uri: MLflow store; the active one when None.

    Raises:
        SuiteError: when the suite cannot be loaded, is under review or has no texts.
        RecipeError: for a dataset of this name that somebody else made or edited, and where none can be kept.
        TrackingError: when MLflow cannot be reached.
    """
    return written_dataset(suite, name, experiment=experiment, tracking_uri=tracking_uri).uri


def written_dataset(
    suite: Suite | str | Path, name: str, *, experiment: str | None = None, tracking_uri: str | None = None
) -> SuiteDataset:
    """Do what `suite_dataset` does, and return all that is known of the dataset."""
    whole = resolve_suite(suite, tracking_uri=tracking_uri)
    return write_dataset(whole, name, experiment=experiment, tracking_uri=tracking_uri)
