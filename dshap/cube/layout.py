"""The layout of an attribution cube: shapes, names and types of its arrays.

Stores of another layout are refused here too, in one line.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dshap.core.errors import DamagedError, DshapError, InputError
from dshap.core.late import zarr
from dshap.core.places import Place
from dshap.core.scales import TARGET
from dshap.core.user_code import raised_by_import
from dshap.core.vocabulary import Vocabulary
from dshap.cube.metadata import array_facts
from dshap.cube.reference_copy import has_copy
from dshap.storage.folder import Folder

TEXT = "string"
"""The type of a stored column of text."""
TIME_UNITS: Mapping[str, str] = {"datetime64[ns]": "nanoseconds", "datetime64[us]": "microseconds"}
"""The type of a column of times -> the unit of its integers, counted from 1970, as CF names it."""
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
        "reason_code",
        "reason_code_error",
        "reason_code_other",
        "reason_code_undone",
        "relative_error",
        "rows",
        "state",
        "status",
        "std_error",
    )
)
"""Variable names of the cube itself; a key column of such a name gets the prefix `key_`."""
OF_TEXTS = frozenset(("length", "token"))
"""Further variable names that only a cube of texts has."""
FLAG_MEANINGS = "flag_meanings"
FLAG_ATTRIBUTES: Mapping[str, Any] = {"flag_values": [0.0, 1.0], FLAG_MEANINGS: "false true"}
"""The attributes, in the words of CF, of a column of numbers that are False and True."""
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
"""Array that every cube has -> the dimensions that it may have, and its numpy kind of dtype."""


@dataclass(frozen=True)
class CubeLayout:
    """The shapes, names and types of the arrays of one cube."""

    n_rows: int
    players: tuple[str, ...]
    outputs: tuple[str, ...]
    """Names of the outputs after the link."""
    tile: int
    """Number of rows of a shard; a task writes whole shards."""
    chunk: int
    """Number of rows of an inner chunk."""
    dtype: str = "float64"
    units: str = "1"
    n_replicates: int = 0
    """Number of jackknife groups; 0 means no standard errors."""
    has_interactions: bool = False
    interaction_errors: str = ""
    """Why the errors of the interactions are unknown; empty if they are exact."""
    codes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Code -> its players; empty if no codes are asked for, or nothing of them is stored."""
    undoes_codes: bool = False
    """Whether the cube has v(N) − v(N without the players of a code)."""
    is_adaptive: bool = False
    """Whether each row uses as many coalitions as its error requires (`tol`)."""
    link: str = ""
    """The link in words, with the class that it is of; empty for the identity."""
    scale: str = TARGET
    """The scale of attributions, base value and prediction: a name of `core.scales.MEANINGS`."""
    is_base_by_row: bool = False
    """Whether the base value differs from row to row."""
    classes: tuple[str, ...] = ()
    """The classes, one of which is explained for each row; empty if all outputs are."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """key column -> "int64", "string" or "datetime64[ns]"."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Explained column that is stored -> its dtype; empty if none is stored."""
    flags: tuple[str, ...] = ()
    """The columns of False and True that are stored, if at all, as 0, 1 and NaN."""
    vocabulary: Vocabulary | None = None
    """The vocabulary of rows that are texts; None for other rows.

    Tokens of texts are stored, and there is no attribution beyond the end of a text.
    """
    run: Mapping[str, Any] = field(default_factory=dict)
    """The fingerprint and everything else that describes the run; stored as one JSON string."""

    @property
    def n_blocks(self) -> int:
        return -(-self.n_rows // self.tile)

    @property
    def has_code_errors(self) -> bool:
        """Whether the cube has the standard errors of codes and of their differences."""
        return bool(self.codes) and self.n_replicates > 0

    @property
    def key_variables(self) -> dict[str, str]:
        """key column -> its variable in the cube.

        This is the column's name, with the prefix `key_` if the cube has a variable of that name.
        """
        names = variable_names(self.keys)
        if self.vocabulary is None:
            taken = TAKEN
        else:
            taken = TAKEN | OF_TEXTS
        return {column: f"key_{name}" if name in taken else name for column, name in names.items()}

    @property
    def row_variables(self) -> dict[str, str]:
        """stored column -> its variable in the group `rows`."""
        return variable_names(self.columns)


def variable_names(columns: Iterable[str]) -> dict[str, str]:
    """column -> a distinct name that is valid in Zarr and CF, and no dimension of the cube."""
    names: dict[str, str] = {}
    for column in columns:
        name = re.sub(r"[^\w.-]", "_", column).strip(".") or "column"
        # two columns may get one name, such as "a b" and "a_b"
        while name in ("instance", *names.values()):
            name += "_"
        names[column] = name
    return names


def flag_attributes(column: str, flags: Collection[str]) -> Mapping[str, Any]:
    """The attributes of a stored column that is one of these flags; none of another."""
    if column in flags:
        return FLAG_ATTRIBUTES
    return {}


@contextlib.contextmanager
def reading(path: Place) -> Iterator[None]:
    """Turn any error inside into one about the store at `path`.

    Raises
    ------
    DamagedError
        The store was made by dshap: it was altered since.
    InputError
        It was not; or a file of the user that has the name of a package raised while it was
        imported.
    """
    try:
        yield
    except DshapError:
        raise
    except Exception as error:
        if said := raised_by_import(error):
            raise InputError(
                f"{said}: it hides the installed package of the same name, rename it"
            ) from error
        reason = f"{type(error).__name__}: {error}"
        if has_copy(path):
            raise DamagedError(
                f"{path} is damaged ({reason}): dshap verify {path} lists the damage, and --repair "
                "repairs it"
            ) from error
        raise InputError(
            f"{path} is not an attribution cube of dshap: it cannot be read ({reason})"
        ) from error


def refuse_foreign(path: Place) -> None:
    """Raise an `InputError` if an array of every cube is missing, or of another shape or type."""
    sizes: dict[str, int] = {}
    with reading(path):
        there = Folder(path).map(lambda name: array_facts(path / name), ARRAYS)
        for found, (name, (shapes, kind)) in zip(there, ARRAYS.items(), strict=True):
            if found is None:
                raise _foreign(path, f"the array {name} is missing")
            dims = found.dims
            if dims not in shapes or len(dims) != len(found.shape) or found.kind != kind:
                raise _foreign(
                    path,
                    f"the array {name} is {found.data_type} over ({', '.join(map(str, dims))})",
                )
            for dim, size in zip(dims, found.shape, strict=True):
                if sizes.setdefault(str(dim), size) != size:
                    raise _foreign(
                        path, f"{name} has {size} of {dim}, the arrays before it {sizes[str(dim)]}"
                    )


def dims_of(array: zarr.Array[Any]) -> tuple[str | None, ...]:
    """The names of an array's dimensions; empty for an array without names, as in Zarr 2."""
    return tuple(getattr(array.metadata, "dimension_names", None) or ())


def decoded(values: NDArray[Any], array: zarr.Array[Any]) -> NDArray[Any]:
    """The values of an array, with times as datetime64."""
    if "calendar" not in array.attrs:
        return values
    return decoded_times(values, str(array.attrs["units"]))


def decoded_times(values: NDArray[Any], units: str) -> NDArray[Any]:
    """Integers of units such as "nanoseconds since 1970-01-01" as datetime64."""
    unit = units.partition(" ")[0]
    dtype = next(dtype for dtype, name in TIME_UNITS.items() if name == unit)
    return values.view(dtype)


def _foreign(path: Place, what: str) -> InputError:
    return InputError(f"{path} is not an attribution cube of dshap: {what}")
