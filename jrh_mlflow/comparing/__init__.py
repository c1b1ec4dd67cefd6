"""Judges side by side: compare, criterion shift, juries."""
