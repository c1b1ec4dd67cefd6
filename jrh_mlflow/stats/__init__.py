"""Counts and arrays in, numbers out: no files, clock, network or global random state."""
