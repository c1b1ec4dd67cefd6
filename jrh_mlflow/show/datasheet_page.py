"""Names of readings as pages show them, until their last users import them from `readings`."""

from jrh_mlflow.show.readings import (
    PageRow,
    page_row,
)

__all__ = ["PageRow", "page_row"]
