"""Figures: the one folder that imports matplotlib."""
