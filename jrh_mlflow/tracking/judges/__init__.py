"""MLflow's judges and scorers as judges of this package, and judges as data."""
