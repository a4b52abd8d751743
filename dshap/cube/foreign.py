"""Stores from another hand: what is no cube, or no longer one, is refused in one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import zarr

from dshap.cube.created import has_copy
from dshap.errors import DamagedError, DshapError, InputError

__all__ = ["reading", "refuse_foreign"]

INSTANCE, FEATURE, OUTPUT = "instance", "feature", "output"
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


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong inside is said of the store at `path`.

    Raises
    ------
    DamagedError
        The store is one of this program: it was altered.
    InputError
        It is none.
    """
    try:
        yield
    except DshapError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        if has_copy(path):
            raise DamagedError(
                f"{path} is damaged ({reason}): dshap verify {path} names what, and its --repair mends it"
            ) from error
        raise InputError(f"{path} is no attribution cube of dshap: it cannot be read ({reason})") from error


def refuse_foreign(path: Path) -> None:
    """An `InputError` where an array of every cube is missing, or is of another shape or type."""
    sizes: dict[str, int] = {}
    with reading(path):
        root = zarr.open_group(path, mode="r")
        for name, (shapes, kind) in ARRAYS.items():
            found = root.get(name)
            if not isinstance(found, zarr.Array):
                raise _foreign(path, f"the array {name} is missing")
            dims = tuple(getattr(found.metadata, "dimension_names", None) or ())
            if dims not in shapes or len(dims) != found.ndim or found.dtype.kind != kind:
                raise _foreign(path, f"the array {name} is {found.dtype} over ({', '.join(map(str, dims))})")
            for dim, size in zip(dims, found.shape, strict=True):
                if sizes.setdefault(str(dim), size) != size:
                    raise _foreign(path, f"{name} has {size} of {dim}, the arrays before it {sizes[str(dim)]}")


def _foreign(path: Path, what: str) -> InputError:
    return InputError(f"{path} is no attribution cube of dshap: {what}")
