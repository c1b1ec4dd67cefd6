"""MLflow: the one folder that imports it. Names, runs, figures, and what is kept when a server is down."""
