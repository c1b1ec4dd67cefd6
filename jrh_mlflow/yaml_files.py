"""YAML that users write: read with one line of what is wrong, its keys checked against those that are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jrh_mlflow.errors import RecipeError, suggest


class _Loader(yaml.SafeLoader):
    """YAML in which the labels `no` and `yes` are words, as they are in the data: YAML itself reads booleans."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Take what stands under `labels` and `scale` as it is written."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        for key, value in node.value:
            if key.value in ("labels", "scale"):
                _as_written(value)
        return node


def _as_written(node: yaml.Node) -> None:
    inside = node.value if isinstance(node, yaml.CollectionNode) else ()
    for part in inside:
        for each in part if isinstance(part, tuple) else (part,):
            _as_written(each)
    if node.tag == "tag:yaml.org,2002:bool" and node.value.lower() not in ("true", "false"):
        node.tag = "tag:yaml.org,2002:str"


def read_yaml(path: Path) -> object:
    """Read a YAML file.

    Raises:
        RecipeError: when it cannot be read, or is none.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError(f"{path} cannot be read: {' '.join(str(error).split())}.") from error


def known_keys(data: object, known: tuple[str, ...], *, where: str) -> dict[str, Any]:
    """Return a mapping whose keys are all known.

    Raises:
        RecipeError: naming the one that is not, and the nearest that is.
    """
    if not isinstance(data, Mapping):
        raise RecipeError(f"{where}: a mapping was expected, not {type(data).__name__}.")
    for key in data:
        if key not in known:
            raise RecipeError(f"{where}: unknown key {key!r}.{suggest(str(key), known)} Known: {', '.join(known)}.")
    return dict(data)
