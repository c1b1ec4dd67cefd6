"""MLflow traces written for judge calls and read as transcripts."""
