"""What is in an attribution cube: shapes, names and types of its arrays (`dshap.cube.arrays` creates them)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TEXT", "CubeLayout"]

TEXT = "string"
"""Type of a kept column of text."""
TAKEN = frozenset(
    ("attribution", "base_value", "blocks", "explained_class", "feature", "feature_other", "instance", "interaction",
     "n_coalitions", "output", "prediction", "relative_error", "rows", "state", "status", "std_error")
)  # fmt: skip
"""Names of a cube that no key has."""


@dataclass(frozen=True)
class CubeLayout:
    """Shapes, names and types of one cube."""

    n_rows: int
    players: tuple[str, ...]
    outputs: tuple[str, ...]
    """After the link."""
    tile: int
    """Rows of a shard: one task writes whole ones."""
    chunk: int
    """Rows of an inner chunk."""
    dtype: str = "float64"
    units: str = "1"
    n_replicates: int = 0
    """Jackknife groups; 0: no standard errors."""
    has_interactions: bool = False
    is_adaptive: bool = False
    """Rows take as many coalitions as their error asks for."""
    link: str = ""
    """What values are on the scale of; empty: the model's own."""
    is_base_by_row: bool = False
    """The base value differs from row to row."""
    classes: tuple[str, ...] = ()
    """Of which each row is explained for one; empty where rows do not differ."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """key column -> "int64", "string" or "datetime64[ns]"."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Explained columns that are kept, and their dtypes; empty when they are not."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Fingerprint and all that describes the run; stored as one JSON string."""

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.tile)

    @property
    def key_variables(self) -> dict[str, str]:
        """key column -> its variable: its own name, after `key_` where the cube has another variable of that name."""
        names = _variable_names(self.keys)
        return {column: f"key_{name}" if name in TAKEN else name for column, name in names.items()}

    @property
    def row_variables(self) -> dict[str, str]:
        """kept column -> its variable in the group `rows`."""
        return _variable_names(self.columns)


def _variable_names(columns: Iterable[str]) -> dict[str, str]:
    """column -> a name that Zarr takes as one array, CF as one word and xarray as no dimension; all different."""
    names: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"[^\w.-]", "_", column).strip(".") or "column"
        while name in ("instance", *names.values()):
            name += "_"
        names[column] = name
    return names
