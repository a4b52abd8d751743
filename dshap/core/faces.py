"""Packages whose names are imported when they are first used.

A package with a stub, `__init__.pyi`, lists its public names there, as imports that a type checker
reads too.  At run time the stub is the table of where each name lives, so that a command which
needs one function of a package does not wait for all that the others import.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

IMPORT = re.compile(r"^from (\S+) import (?:\(([^)]*)\)|([^#\n]*))(?:#.*)?$", re.MULTILINE)
"""An import of a stub: its module, and the names in brackets or on the line; a comment is left out."""


class _Face(ModuleType):
    """A package in which a module never hides the public name that is the same as its own."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Python sets each imported module as an attribute of its package: a module `page` would
        # hide the function `page`
        if not isinstance(value, ModuleType) or name not in self.__all__:
            super().__setattr__(name, value)


def lazy_face(
    package: str, hints: dict[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, from its stub.

    Parameters
    ----------
    package : its `__name__`
    hints : name that it has not -> the end of the message about it
    """
    module = sys.modules[package]
    homes = _homes(Path(str(module.__file__) + "i").read_text("utf-8"))

    def get(name: str) -> Any:
        if name not in homes:
            said = (hints or {}).get(name, "")
            raise AttributeError(f"module {package!r} has no attribute {name!r}{said}")
        found = _found(package, *homes[name])
        vars(module)[name] = found
        return found

    module.__class__ = _Face
    return get, lambda: sorted(homes), sorted(homes)


def _found(package: str, home: str, name: str) -> Any:
    """Import a name from a module, or the module of this name inside it."""
    if home != package:
        module = importlib.import_module(home)
        if hasattr(module, name):
            return getattr(module, name)
    return importlib.import_module(f"{home}.{name}")


def _homes(stub: str) -> dict[str, tuple[str, str]]:
    """Public name -> the module that it is imported from, and its name there."""
    found = {}
    for module, in_brackets, on_line in IMPORT.findall(stub):
        for each in filter(None, map(str.strip, (in_brackets or on_line).split(","))):
            name, _, public = each.partition(" as ")
            found[public or name] = (module, name)
    return found
