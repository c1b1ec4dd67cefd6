"""Pages of runs beside MLflow's own: the leaderboard, datasheets, comparisons, where judges differ, calls."""
