"""Alignment of MLflow's judges that proves itself on traces which the optimiser never saw."""
