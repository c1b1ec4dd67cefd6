"""From answers to readings: denominators, intervals, pointwise answers, and what a reliability test expects."""
