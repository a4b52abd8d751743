"""Errors that say what was given, what is allowed and what to do; each carries the exit status of
the command line."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

from dshap.core.addresses import masked, without_secrets
from dshap.core.duck_typing import has_columns, is_pandas, numpy_dtype, shape_of
from dshap.core.printing import one_line

__all__ = [
    "DamagedError",
    "DoesNotFitError",
    "DshapError",
    "EmptyTableError",
    "FailedBlocksError",
    "InputError",
    "InterruptedRunError",
    "LockedError",
    "NotFittedError",
    "PredictError",
    "StoreMismatchError",
    "UncheckableError",
    "refuse_rounded",
    "refuse_rounded_column",
    "refuse_rounded_columns",
    "refuse_times",
    "rounded_refusal",
    "shown",
    "unknown_name",
]

LARGEST_WHOLE = 2**53
"""Beyond it float64 does not hold every integer."""
NEAR_LETTERS = 3
"""Letters of the shortest beginning of a name that is taken for it."""
ALIKE_LETTERS = 5
"""First letters that two names share where one may be meant by the other."""


class DshapError(Exception):
    """Base of every error that dshap raises on purpose; its message is one line without passwords
    or tokens."""

    exit_status = 2

    def __init__(self, *given: object) -> None:
        super().__init__(*(without_secrets(str(each)) for each in given))

    def __str__(self) -> str:
        return one_line(super().__str__())


class InputError(DshapError, ValueError):
    """A bad job, option, table or model; nothing was written."""


class EmptyTableError(InputError):
    """A table without rows; where they were to be explained there is nothing to do."""

    def __init__(self, holds: str, remedy: str = "give a table with rows") -> None:
        super().__init__(f"empty table: {holds}; {remedy}")


class NotFittedError(InputError, AttributeError):
    """A model was asked for what only a fit leaves; an AttributeError too, as `hasattr` goes by
    those."""


class PredictError(InputError):
    """A predict function failed or returned the wrong shape."""


class DoesNotFitError(MemoryError, DshapError):  # in this order it travels from a worker as itself
    """The plan needs more memory than there is; raised before anything starts."""

    exit_status = 3


class StoreMismatchError(DshapError):
    """The store holds another run; nothing in it was touched."""

    exit_status = 4


class DamagedError(DshapError):
    """A file of a store is not what was written; `dshap verify` names all of them, its `--repair`
    mends them."""

    exit_status = 7


class UncheckableError(InputError):
    """A store holds nothing that it could be checked against."""

    exit_status = 11


class FailedBlocksError(DshapError):
    """The run is over, and some rows have no attribution; the same run again tries their blocks
    once more."""

    exit_status = 5


class InterruptedRunError(DshapError):
    """The cluster went away; a later run goes on from what is finished."""

    exit_status = 130


class LockedError(DshapError):
    """Another process is running this job now."""

    exit_status = 6


class _Short(reprlib.Repr):
    """Short forms in which an address has no secrets, masked before it is cut."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(masked(x), level)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 60


def shown(given: Any) -> str:
    """What was given, in a few words on one line: of a class its name, of a table or an array its
    shape."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    shape = shape_of(given)
    if shape != () or has_columns(given):
        return f"a {type(given).__name__}" + (
            f" of shape {shape}" if isinstance(shape, tuple) else ""
        )
    return " ".join(_SHORT.repr(given).split())


def unknown_name(kind: str, given: str, allowed: Iterable[str], besides: Iterable[str] = ()) -> str:
    """The sentence for a name that does not exist: what was given, the near ones, and all that are
    allowed.

    Names of `besides`, which are allowed in the same place as something else, may be meant too.
    """
    names = sorted(map(str, allowed))
    near = _near_names(given, [*names, *besides])
    if near:
        hint = f"; did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = ""
    shown = ", ".join(names[:24]) + (f", … ({len(names)} in all)" if len(names) > 24 else "")
    if near:
        return f"unknown {kind} {given!r}{hint} Allowed: {shown or 'none'}."
    return f"unknown {kind} {given!r}. Allowed: {shown or 'none'}."


def _near_names(given: str, names: list[str]) -> list[str]:
    """At most three names that may be meant, the nearest first."""
    lower = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(given.casefold(), list(lower), n=3, cutoff=0.5)
    return [lower[name] for name in found if _is_near(given.casefold(), name)]


def _is_near(given: str, name: str) -> bool:
    """Whether a name may be meant: at most a third of its letters differ, or both begin alike."""
    short, long = sorted((given, name), key=len)
    pairs = enumerate(zip(short, long, strict=False))
    n_alike = next((position for position, (a, b) in pairs if a != b), len(short))
    if n_alike >= ALIKE_LETTERS or n_alike == len(short) >= NEAR_LETTERS:
        return True
    blocks = difflib.SequenceMatcher(a=short, b=long, autojunk=False).get_matching_blocks()
    return 3 * sum(block.size for block in blocks) >= 2 * len(long)


def rounded_refusal(name: str, value: int) -> str:
    """The sentence for an integer that float64 would round."""
    return (
        f"{name} holds the integer {value}, and numbers are float64, which rounds integers beyond "
        "±2^53 "
        f"({LARGEST_WHOLE:,}): leave the column out, name it in key, or divide it"
    )


def refuse_times(values: Any, name: str) -> None:
    """Raise where an array or a column of numbers holds times, which numpy would turn into numbers
    of any unit."""
    if values.dtype.kind in "mM":
        raise InputError(
            f"{name} holds times ({values.dtype}) where numbers are needed: give them as a number, "
            "such as days since "
            "a date, or explain a predict function of data frames by Marginal"
        )


def refuse_rounded(values: Any, name: str) -> None:
    """Raise where a numpy array holds times, or an integer that float64 would round; narrow ones
    are not looked at."""
    refuse_times(values, name)
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return
    for extreme in (int(values.min()), int(values.max())):
        if abs(extreme) > LARGEST_WHOLE:
            raise InputError(rounded_refusal(name, extreme))


def refuse_rounded_column(column: Any, name: str) -> None:
    """The same of a column of a data frame, nullable or not."""
    refuse_times(column, f"column {name!r}")
    dtype = numpy_dtype(column.dtype)
    if dtype.kind in "iu":
        refuse_rounded(column.dropna().to_numpy(dtype=dtype), f"column {name!r}")


def refuse_rounded_columns(table: Any) -> None:
    """The same of every column, where the table is a data frame."""
    if is_pandas(table):
        for j, name in enumerate(table.columns):
            refuse_rounded_column(table.iloc[:, j], str(name))
