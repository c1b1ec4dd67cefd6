"""Call records in, estimates out. Pure: no MLflow, no network, no files."""
