"""Docstrings as pages: Google's sections, types that lead to public names, constructors of what users make."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.typing import ExtensionMetadata

MADE_BY_USERS = {
    *("Answer", "CheckedOptimizer", "Generator", "Message", "Presentation", "PromptedJudge", "Space", "Suite"),
}
"""Classes with a constructor to be shown; the others are returned, and theirs is nobody's business."""


def _process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Read Google's sections; the line under a field is a sentence, which napoleon would take for `type: text`."""
    if what not in ("attribute", "property"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()


def _sign(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    module, _, short = name.rpartition(".")
    if what == "class" and module == "jrh_mlflow" and short not in MADE_BY_USERS:
        return "", None
    return None


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, inside: nodes.Element) -> nodes.Element | None:
    """Lead a type to its public name: `jrh_mlflow.measuring.evaluation.Evaluation` is `jrh_mlflow.Evaluation`."""
    if node.get("refdomain") != "py":
        return None
    short = node["reftarget"].rpartition(".")[2]
    domain = env.domains.python_domain
    target = next(
        (name for name in (f"jrh_mlflow.{short}", f"jrh_mlflow.errors.{short}") if name in domain.objects), None
    )
    if target is None or (node["reftarget"] != short and not node["reftarget"].startswith("jrh_mlflow")):
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, inside)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Join the events of autodoc."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _sign)
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
