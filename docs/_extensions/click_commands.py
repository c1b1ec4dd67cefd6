"""The directive `click-commands`: every command of `jrh` with its help, arguments and options, from click itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata
from tables import marked, table

from jrh_mlflow.cli.options import NETWORK_TITLE, network_options


class ClickCommands(SphinxDirective):
    """`{click-commands} MODULE:GROUP`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return a section for the group and one for each command."""
        module, _, name = self.arguments[0].partition(":")
        group: click.Group = getattr(import_module(module), name)
        context = click.Context(group, info_name="jrh")
        return [*_described(group, context), *self._sections(group, context)]

    def _sections(self, group: click.Group, context: click.Context) -> Iterator[nodes.section]:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            own = click.Context(command, info_name=name, parent=context)
            title = own.command_path
            section = nodes.section(ids=[title.replace(" ", "-")], names=[title])
            section += nodes.title("", "", nodes.literal("", title))
            self.state.document.note_explicit_target(section)
            section += _described(command, own)
            if isinstance(command, click.Group):
                section += list(self._sections(command, own))
            yield section


def _described(command: click.Command, context: click.Context) -> list[nodes.Node]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts: list[nodes.Node] = [nodes.literal_block(usage, usage, language="text")]
    parts += [nodes.paragraph("", "", *_inline(text)) for text in _paragraphs(command.help or "")]
    for title, parameters in zip(("", NETWORK_TITLE), network_options(command.get_params(context)), strict=True):
        options = [record for parameter in parameters if (record := parameter.get_help_record(context))]
        if options and title:
            parts.append(nodes.paragraph("", f"{title}:"))
        if options:
            parts.append(_table(options))
    return parts


def _paragraphs(text: str) -> list[str]:
    r"""Paragraphs of a help text; `\b` keeps click from wrapping one, and here each of its lines stands alone."""
    whole = inspect.cleandoc(text).partition("\f")[0]
    found = []
    for paragraph in re.split(r"\n\s*\n", whole):
        kept = paragraph.startswith("\b")
        lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        found += lines if kept else [" ".join(lines)]
    return [paragraph for paragraph in found if paragraph]


def _inline(text: str) -> list[nodes.Node]:
    """Text in which code stands between backticks, or behind `Example:`."""
    if text.startswith("Example: "):
        return [nodes.Text("Example: "), nodes.literal("", text.removeprefix("Example: "))]
    return marked(text)


def _table(options: list[tuple[str, str]]) -> nodes.table:
    rows = [[[nodes.literal("", name)], marked(text)] for name, text in options]
    return table(["option", "what it does"], [40, 60], rows)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Offer the directive."""
    app.add_directive("click-commands", ClickCommands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
