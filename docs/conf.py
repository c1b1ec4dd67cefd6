"""Documentation: `make docs` builds it into build/docs, where index.html opens without a server or a network."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "jrh_mlflow"
release = version = version_of("jrh-mlflow")
copyright = "the authors of jrh_mlflow"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "mathml"]
exclude_patterns = ["_extensions"]

# Markdown as GitHub reads it: the same files are read there, links to headings included.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

# Docstrings are Google's, and write code between single backticks.
default_role = "code"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"jrh_mlflow {release}"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
