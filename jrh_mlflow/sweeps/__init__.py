"""Sweeps over judge configurations: the one folder that imports optuna."""
