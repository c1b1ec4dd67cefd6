"""Call records in, datasheet axes and reliability reports out. Pure: no MLflow, no network, no files."""

from jrh_mlflow.measures.datasheet.sheet import Datasheet
from jrh_mlflow.measures.entry import measure
from jrh_mlflow.measures.reliability.cost import CostPoint, cost_curve, usd_per_accuracy_point
from jrh_mlflow.measures.reliability.report import ReliabilityReport
from jrh_mlflow.measures.reliability.worst import WorstItem, worst_items

__all__ = [
    "CostPoint",
    "Datasheet",
    "ReliabilityReport",
    "WorstItem",
    "cost_curve",
    "measure",
    "usd_per_accuracy_point",
    "worst_items",
]
