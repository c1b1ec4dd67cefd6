"""Judges against people: agreement, corrected rates, alignment."""
