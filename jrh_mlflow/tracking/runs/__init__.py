"""Runs written to MLflow and read back: keys, stores, the outbox, views."""
