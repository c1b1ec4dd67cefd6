"""Call records in, datasheet axes out. Pure: no MLflow, no network, no files."""

from jrh_mlflow.measures.datasheet import Datasheet
from jrh_mlflow.measures.entry import measure

__all__ = ["Datasheet", "measure"]
