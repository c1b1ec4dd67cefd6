"""Measured judges put to use in MLflow: exported scorers, autolog, status, registries."""
