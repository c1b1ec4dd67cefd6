"""Answers of a real judge that ship with the package: measured again without asking anybody."""
