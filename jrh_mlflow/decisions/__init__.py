"""Decisions about a judge: gates over rules, and plans of how much to ask."""
