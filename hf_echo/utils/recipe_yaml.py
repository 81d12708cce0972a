"""The YAML of recipes: one dialect for stages, operations and data.

As YAML 1.1, but `1e-3` is a number, and `no`, `on` and the like are texts: only `true` and `false`
are truth values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .files import one_line, read_text


class Loader(yaml.SafeLoader):
    """`SafeLoader` with the numbers and truth values of YAML 1.2, which refuses a field that is
    there twice."""

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Raises ValueError where a key of a mapping stands twice; YAML would take the last one."""
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in keys and key != "<<":
                line = key_node.start_mark.line + 1
                raise ValueError(f"{key} stands twice, again in line {line}: leave one out")
            keys.add(key)
        return node


# {first character of a value: [(tag, pattern)]}
Loader.yaml_implicit_resolvers = {}
for character, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items():
    others = [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    Loader.yaml_implicit_resolvers[character] = others
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?i:true|false)$"), list("tTfF")
)
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The fields of a YAML file; an empty file has none."""
    try:
        values = yaml.load(read_text(path), Loader)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not YAML: {one_line(error)}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold `field: value` lines, not a {type(values).__name__}")
    return values


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """["max_steps=100", "shape.hidden_size=64"] -> values as YAML reads them."""
    overrides: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ValueError(
                f"{pair!r} is not an override; write key=value, for example max_steps=100"
            )
        try:
            overrides[key] = yaml.load(value, Loader)
        except (yaml.YAMLError, ValueError, TypeError):
            raise ValueError(f"{pair!r}: {value!r} is not a YAML value; quote it") from None
    return overrides


def with_overrides(
    values: dict[str, Any], overrides: dict[str, Any], where: object
) -> dict[str, Any]:
    """The values with some replaced: `shape.hidden_size` is one entry of the mapping `shape`."""
    values = dict(values)
    for key, value in overrides.items():
        field, dot, entry = key.partition(".")
        if not dot:
            values[field] = value
            continue
        mapping = values.get(field) or {}
        if not isinstance(mapping, dict):
            raise ValueError(f"{where}: {key} cannot be set, {field} is {mapping!r}")
        values[field] = {**mapping, entry: value}
    return values
