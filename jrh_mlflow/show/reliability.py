"""Notes about suites, until their last users import them from `sheets`."""

from jrh_mlflow.show.sheets import invalid_note

__all__ = ["invalid_note"]
