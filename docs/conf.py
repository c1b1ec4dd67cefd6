"""Documentation: `make docs` builds it into build/docs, where index.html opens without a server or a network."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "jrh_mlflow"
release = version = version_of("jrh-mlflow")
copyright = "the authors of jrh_mlflow"

extensions = ["myst_parser", "docstrings", "click_commands", "tables", "mathml"]
exclude_patterns = ["_extensions"]

# Markdown as GitHub reads it: the same files are read there, links to headings included.
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4

# Docstrings write code between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
maximum_signature_line_length = 100
# Types of other libraries, and those behind the public names, are shown and lead nowhere.
nitpick_ignore_regex = [("py:.*", ".*")]

html_theme = "furo"
html_title = f"jrh_mlflow {release}"
html_static_path = ["_static"]
html_css_files = ["narrow.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
