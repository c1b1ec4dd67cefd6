"""MLflow, in the one folder that imports it: keys, runs written and read back, traces, scorers, its server."""
