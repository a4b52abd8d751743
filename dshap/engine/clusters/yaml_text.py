"""Manifests as YAML."""

from __future__ import annotations

from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, below a bar, and equal parts in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(objects: list[dict[str, Any]]) -> str:
    """The objects as one file for `kubectl apply -f`."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=100)
