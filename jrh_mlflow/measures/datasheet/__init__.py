"""Pairs: the axes of the Judge Datasheet."""
