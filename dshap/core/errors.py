"""Errors that name the given value, the allowed values and the remedy.

Each carries the exit status of the command line.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

from dshap.core.addresses import masked, without_secrets
from dshap.core.duck_typing import has_columns, shape_of
from dshap.core.printing import one_line

NEAR_LETTERS = 3
"""The fewest letters with which the beginning of a name counts as near it."""
ALIKE_LETTERS = 5
"""The number of equal first letters that makes two names near."""


class DshapError(Exception):
    """The base of every error that dshap raises on purpose.

    Its message is one line without passwords or tokens.
    """

    exit_status = 2

    def __init__(self, *given: object) -> None:
        super().__init__(*(without_secrets(str(each)) for each in given))

    def __str__(self) -> str:
        return one_line(super().__str__())


class InputError(DshapError, ValueError):
    """A job, option, table or model that cannot be used; nothing was written."""

    column: str = ""
    """The column that the error is about, which is missing or contains times; else empty."""
    times: str = ""
    """The type of the times in that column, where numbers are needed; else empty."""


class EmptyTableError(InputError):
    """A table has no rows, so that there is nothing to fit or explain."""

    def __init__(self, holds: str, remedy: str = "give a table with rows") -> None:
        super().__init__(f"empty table: {holds}; {remedy}")


class NotSentError(InputError):
    """Work that other processes cannot receive: it is not pickled, or they cannot import it."""


class NotLearnedError(InputError):
    """A shard of a run, or its final step, was started before `dshap run JOB --only learn`."""


class NotFittedError(InputError, AttributeError):
    """A model was asked for a result of a fit before `fit`.

    It is an AttributeError too, so that `hasattr` returns False for such a result.
    """


class PredictError(InputError):
    """A predict function failed or returned the wrong shape."""


class DatabaseError(InputError):
    """A database refused a statement or a connection; the message quotes it without secrets."""

    sqlstate: str = ""
    """The five characters by which SQL names the error; empty if the driver reports none."""
    is_refusal: bool = False
    """Whether the database answered, and refused the user, the database or a statement: it would
    refuse a repetition too, while a database that could not be reached may answer later."""


class DoesNotFitError(MemoryError, DshapError):  # only in this order does it unpickle as itself
    """The plan needs more memory than a process may use; raised before anything starts."""

    exit_status = 3


class WalltimeError(DshapError):
    """A block takes longer than the time limit of the queue; raised before the block begins."""

    exit_status = 3


class StoreMismatchError(DshapError):
    """The store contains a different run; nothing in it was changed."""

    exit_status = 4


class DamagedError(DshapError):
    """A file of a store is no longer as it was written.

    `dshap verify` names all such files, and `dshap verify --repair` mends them.
    """

    exit_status = 7


class CheckFailedError(DshapError):
    """A run has ended, but a number that a [[check]] measures is beyond its `error` bound."""

    exit_status = 8


class StaleSourceError(DshapError):
    """The table is older than [source] freshness allows; nothing was done."""

    exit_status = 9


class SinkError(DshapError):
    """The cubes are finished, but a [[sink]] of the job is not loaded.

    Run the same command again to load it.
    """

    exit_status = 10


class MovedFilesError(DshapError):
    """A cube was packed into other files after it was opened: open it again."""


class UncheckableError(InputError):
    """A store lacks the digests that its files would be checked against."""

    exit_status = 11


class FailedBlocksError(DshapError):
    """The run has ended, but some rows have no attribution.

    Run it again to repeat the blocks with such rows.
    """

    exit_status = 5


class InterruptedRunError(DshapError):
    """The cluster was lost during a run; run it again to continue after the finished blocks."""

    exit_status = 130


class UnreachableError(InterruptedRunError, ConnectionError):
    """An object store failed again and again, or could not be reached; run it again later."""


class LockedError(DshapError):
    """Another process is running this job now."""

    exit_status = 6


class _Short(reprlib.Repr):
    """`repr` of limited length whose texts are masked before they are cut."""

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(masked(x), level)


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = 60


def shown(given: Any) -> str:
    """Describe a given object in a few words on one line, for messages.

    A class gives its name, a table or an array its type and shape.
    """
    if isinstance(given, type):
        return f"the class {given.__name__}"
    shape = shape_of(given)
    if shape != () or has_columns(given):
        return f"a {type(given).__name__}" + (
            f" of shape {shape}" if isinstance(shape, tuple) else ""
        )
    return " ".join(_SHORT.repr(given).split())


def unknown_name(kind: str, given: str, allowed: Iterable[str], besides: Iterable[str] = ()) -> str:
    """The sentence for an unknown name: what was given, near names, and all allowed names.

    The near names may include those of `besides`, which are allowed elsewhere in the same place.
    """
    names = sorted(map(str, allowed))
    near = near_names(given, [*names, *besides])
    if near:
        hint = f"; did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = ""
    shown = ", ".join(names[:24]) + (f", … ({len(names)} in all)" if len(names) > 24 else "")
    if near:
        return f"unknown {kind} {masked(given)!r}{hint} Allowed: {shown or 'none'}."
    return f"unknown {kind} {masked(given)!r}. Allowed: {shown or 'none'}."


def unknown_column(given: str, held: Iterable[str]) -> InputError:
    """The error about a column that a table lacks; `held` are the columns that it has."""
    error = InputError(unknown_name("column", given, held))
    error.column = given
    return error


def times_refused(column: str, times: str, message: str) -> InputError:
    """The error about a column of times of this type where numbers are needed."""
    error = InputError(message)
    error.column = column
    error.times = times
    return error


def near_names(given: str, names: list[str]) -> list[str]:
    """At most three names that may have been meant, the nearest first."""
    lower = {name.casefold(): name for name in names}
    found = difflib.get_close_matches(given.casefold(), list(lower), n=3, cutoff=0.5)
    return [lower[name] for name in found if _is_near(given.casefold(), name)]


def _is_near(given: str, name: str) -> bool:
    """Whether a name may have been meant.

    At most a third of its letters differ, or both begin alike.
    """
    short, long = sorted((given, name), key=len)
    pairs = enumerate(zip(short, long, strict=False))
    n_alike = next((position for position, (a, b) in pairs if a != b), len(short))
    if n_alike >= ALIKE_LETTERS or n_alike == len(short) >= NEAR_LETTERS:
        return True
    blocks = difflib.SequenceMatcher(a=short, b=long, autojunk=False).get_matching_blocks()
    return 3 * sum(block.size for block in blocks) >= 2 * len(long)
