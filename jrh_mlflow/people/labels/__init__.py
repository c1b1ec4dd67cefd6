"""What people and judges said about items, read from wherever it is kept."""
