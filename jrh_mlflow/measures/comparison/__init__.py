"""Judges side by side on the same calls."""
