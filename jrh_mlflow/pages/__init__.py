"""Pages of runs beside MLflow's own: the list of judges, datasheets, comparisons, calls."""
