"""Votes of several judges on the same calls: agreement, panels, cascades."""
