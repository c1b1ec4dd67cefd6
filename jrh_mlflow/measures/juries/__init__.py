"""Judges that vote together."""
