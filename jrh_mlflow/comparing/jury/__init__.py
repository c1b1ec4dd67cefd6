"""Votes of several judges on the same calls: agreement and panels."""
