"""Pointwise items: the reliability report."""
