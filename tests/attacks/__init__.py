"""Attacks on judges."""
