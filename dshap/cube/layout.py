"""What is in an attribution cube: shapes, names and types of its arrays; what has others is refused
in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zarr
from numpy.typing import NDArray

from dshap.core.errors import DamagedError, DshapError, InputError
from dshap.core.user_code import raised_by_import
from dshap.core.vocabulary import Vocabulary
from dshap.cube.reference_copy import has_copy

__all__ = ["TEXT", "TIME_UNITS", "CubeLayout", "decoded", "dims_of", "reading", "refuse_foreign"]

TEXT = "string"
"""Type of a kept column of text."""
TIME_UNITS: Mapping[str, str] = {"datetime64[ns]": "nanoseconds", "datetime64[us]": "microseconds"}
"""Type of a column of times -> the units that its integers are in since 1970, as CF has them."""
TAKEN = frozenset(
    (
        "attribution",
        "base_value",
        "blocks",
        "explained_class",
        "feature",
        "feature_other",
        "instance",
        "interaction",
        "n_coalitions",
        "output",
        "prediction",
        "relative_error",
        "rows",
        "state",
        "status",
        "std_error",
    )
)
"""Names of a cube that no key has."""
OF_TEXTS = frozenset(("length", "token"))
"""The same of a cube of texts alone."""
INSTANCE = "instance"
FEATURE = "feature"
OUTPUT = "output"
ARRAYS: Mapping[str, tuple[tuple[tuple[str, ...], ...], str]] = {
    "attribution": (((INSTANCE, FEATURE, OUTPUT),), "f"),
    "prediction": (((INSTANCE, OUTPUT),), "f"),
    "status": (((INSTANCE,),), "i"),
    "base_value": (((OUTPUT,), (INSTANCE, OUTPUT)), "f"),
    "feature": (((FEATURE,),), "T"),
    "output": (((OUTPUT,),), "T"),
    "blocks/attribution": ((("block", "replicate", "statistic", FEATURE, OUTPUT),), "f"),
    "blocks/count": ((("block",),), "i"),
    "blocks/residual": ((("block", OUTPUT),), "f"),
}
"""Array of every cube -> the dimensions that it may have, and the kind of its numbers."""


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
    interaction_errors: str = ""
    """Why it is not known how far interactions are off; empty where they are exact."""
    is_adaptive: bool = False
    """Rows take as many coalitions as their error asks for."""
    link: str = ""
    """What values are on the scale of; empty: that of the model."""
    is_base_by_row: bool = False
    """The base value differs from row to row."""
    classes: tuple[str, ...] = ()
    """Of which each row is explained for one; empty where rows do not differ."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """key column -> "int64", "string" or "datetime64[ns]"."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Explained columns that are kept, and their dtypes; empty when they are not."""
    vocabulary: Vocabulary | None = None
    """Of rows that are texts: their tokens are kept, and there is no attribution beyond their
    end."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Fingerprint and all that describes the run; stored as one JSON string."""

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.tile)

    @property
    def key_variables(self) -> dict[str, str]:
        """key column -> its variable: its own name, after `key_` where the cube has another
        variable of that name."""
        names = _variable_names(self.keys)
        if self.vocabulary is None:
            taken = TAKEN
        else:
            taken = TAKEN | OF_TEXTS
        return {column: f"key_{name}" if name in taken else name for column, name in names.items()}

    @property
    def row_variables(self) -> dict[str, str]:
        """kept column -> its variable in the group `rows`."""
        return _variable_names(self.columns)


def _variable_names(columns: Iterable[str]) -> dict[str, str]:
    """column -> a name that Zarr takes as one array, CF as one word and xarray as no dimension; all
    different."""
    names: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"[^\w.-]", "_", column).strip(".") or "column"
        while name in ("instance", *names.values()):
            name += "_"
        names[column] = name
    return names


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong inside is said of the store at `path`.

    Raises
    ------
    DamagedError
        The store is one of this program: it was altered.
    InputError
        It is none, or a file of the user's, which has the name of a package, raised while it was
        imported.
    """
    try:
        yield
    except DshapError:
        raise
    except Exception as error:
        if said := raised_by_import(error):
            raise InputError(
                f"{said}: it stands in the way of an installed package, rename it"
            ) from error
        reason = f"{type(error).__name__}: {error}"
        if has_copy(path):
            raise DamagedError(
                f"{path} is damaged ({reason}): dshap verify {path} names what, and its --repair "
                "mends it"
            ) from error
        raise InputError(
            f"{path} is no attribution cube of dshap: it cannot be read ({reason})"
        ) from error


def refuse_foreign(path: Path) -> None:
    """An `InputError` where an array of every cube is missing, or is of another shape or type."""
    sizes: dict[str, int] = {}
    with reading(path):
        root = zarr.open_group(path, mode="r")
        for name, (shapes, kind) in ARRAYS.items():
            found = root.get(name)
            if not isinstance(found, zarr.Array):
                raise _foreign(path, f"the array {name} is missing")
            dims = dims_of(found)
            if dims not in shapes or len(dims) != found.ndim or found.dtype.kind != kind:
                raise _foreign(
                    path, f"the array {name} is {found.dtype} over ({', '.join(map(str, dims))})"
                )
            for dim, size in zip(dims, found.shape, strict=True):
                if sizes.setdefault(str(dim), size) != size:
                    raise _foreign(
                        path, f"{name} has {size} of {dim}, the arrays before it {sizes[str(dim)]}"
                    )


def dims_of(array: zarr.Array[Any]) -> tuple[str | None, ...]:
    """Names of the dimensions; none of an array that does not tell, as in Zarr 2."""
    return tuple(getattr(array.metadata, "dimension_names", None) or ())


def decoded(values: NDArray[Any], array: zarr.Array[Any]) -> NDArray[Any]:
    """The values of an array, times as times."""
    if "calendar" not in array.attrs:
        return values
    unit = str(array.attrs["units"]).partition(" ")[0]
    dtype = next(dtype for dtype, name in TIME_UNITS.items() if name == unit)
    return values.view(dtype)


def _foreign(path: Path, what: str) -> InputError:
    return InputError(f"{path} is no attribution cube of dshap: {what}")
