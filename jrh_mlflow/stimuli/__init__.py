"""Seed items in, suite out: tasks, ladder candidates, vacuum, controls, validity gates."""

from jrh_mlflow.stimuli.datasheet import datasheet_suite
from jrh_mlflow.stimuli.natural import natural_suite
from jrh_mlflow.stimuli.suite import Suite, read_suite

__all__ = ["Suite", "datasheet_suite", "natural_suite", "read_suite"]
