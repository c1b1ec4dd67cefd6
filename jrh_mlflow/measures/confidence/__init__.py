"""What a judge's own probabilities say."""
