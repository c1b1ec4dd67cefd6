"""From answers to readings: denominators, intervals, pointwise answers, what tests expect."""
