"""Statistics: counts and arrays in, estimates out; no files, clock, network or global random state."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
"""Indices of rows, or the numbers of clusters, items, tasks."""
Mask = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
Interval = tuple[float, float]
FEWEST_CLUSTERS = 10
"""Of people's labels fewer clusters (sessions, documents) have no interval: their spread is hardly known."""
