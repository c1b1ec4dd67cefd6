"""What a user holds in hand: datasheets, reliability reports, comparisons, juries, with their `to_markdown`."""

from jrh_mlflow.measures.reliability import CostPoint, WorstItem, cost_curve, usd_per_accuracy_point, worst_items
from jrh_mlflow.results.measure import Datasheet, ReliabilityReport, measure

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
