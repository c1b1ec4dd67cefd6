"""Seed items in, suite out: tasks, ladder candidates, vacuum, controls, validity gates."""

from jrh_mlflow.suites.datasheet import datasheet_suite
from jrh_mlflow.suites.responses import natural_suite
from jrh_mlflow.suites.suite import Suite, read_suite

__all__ = ["Suite", "datasheet_suite", "natural_suite", "read_suite"]
