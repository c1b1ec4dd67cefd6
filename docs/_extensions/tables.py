"""Directives that write down what the package declares: `{options} MODULE:MODEL` and `{terms}`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from docutils import nodes
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from jrh_mlflow.show.glossary import TERMS


class OptionsTable(SphinxDirective):
    """Keys of a model in `jrh_mlflow/options.py`: what each takes, its default and its meaning."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one table."""
        module, _, name = self.arguments[0].partition(":")
        rows = [
            [[nodes.literal("", key)], marked(rule), _default(default), marked(text)]
            for key, rule, default, text in declared(getattr(import_module(module), name))
        ]
        return [table(["key", "takes", "default", "what it does"], [22, 22, 14, 42], rows)]


def declared(model: Any) -> list[tuple[str, str, Any, str]]:
    """Key, rule, default and description of every field."""
    return [
        (key, (field.json_schema_extra or {}).get("rule") or "", field.default, field.description or "")
        for key, field in model.model_fields.items()
    ]


class Terms(SphinxDirective):
    """The terms that pages explain when they are pointed at."""

    def run(self) -> list[nodes.Node]:
        """Return one list, by the alphabet."""
        entries = [
            nodes.definition_list_item(
                "", nodes.term("", term), nodes.definition("", nodes.paragraph("", "", *marked(text)))
            )
            for term, text in sorted(TERMS.items(), key=lambda item: item[0].casefold())
        ]
        return [nodes.definition_list("", *entries)]


def marked(text: str) -> list[nodes.Node]:
    """Text in which code stands between backticks."""
    parts = text.split("`")
    return [nodes.literal("", part) if n % 2 else nodes.Text(part) for n, part in enumerate(parts) if part]


def table(head: list[str], widths: list[int], rows: list[list[list[nodes.Node]]]) -> nodes.table:
    """Make a table of inline nodes."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", _row([[nodes.Text(text)] for text in head]))
    group += nodes.tbody("", *map(_row, rows))
    return nodes.table("", group)


def _row(cells: list[list[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))


def _default(default: Any) -> list[nodes.Node]:
    if default is PydanticUndefined:
        return [nodes.Text("must be given")]
    return [] if default is None else [nodes.literal("", str(default))]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Offer the directives."""
    app.add_directive("options", OptionsTable)
    app.add_directive("terms", Terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
