"""Errors that say what was given, what is allowed and what to do; each carries the exit status of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DoesNotFitError",
    "DshapError",
    "FailedBlocksError",
    "InputError",
    "InterruptedRunError",
    "LockedError",
    "PredictError",
    "StoreMismatchError",
    "unknown_name",
]


class DshapError(Exception):
    """Base of every error that dshap raises on purpose."""

    exit_status = 2


class InputError(DshapError, ValueError):
    """A bad job, option, table or model; nothing was written."""


class PredictError(InputError):
    """A predict function failed or returned the wrong shape."""


class DoesNotFitError(DshapError, MemoryError):
    """The plan needs more memory than there is; raised before anything starts."""

    exit_status = 3


class StoreMismatchError(DshapError):
    """The store holds another run; nothing in it was touched."""

    exit_status = 4


class FailedBlocksError(DshapError):
    """The run is over, and some blocks of rows have no attribution; a later run tries them again."""

    exit_status = 5


class InterruptedRunError(DshapError):
    """The cluster went away; a later run goes on from what is finished."""

    exit_status = 130


class LockedError(DshapError):
    """Another process is running this job now."""

    exit_status = 6


def unknown_name(kind: str, given: str, allowed: Iterable[str]) -> str:
    """The sentence for a name that does not exist: what was given, the near ones, and all that are allowed."""
    names = sorted(map(str, allowed))
    near = difflib.get_close_matches(str(given), names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    shown = ", ".join(names[:24]) + (f", … ({len(names)} in all)" if len(names) > 24 else "")
    return (
        f"unknown {kind} {given!r}{hint} Allowed: {shown or 'none'}."
        if near
        else (f"unknown {kind} {given!r}. Allowed: {shown or 'none'}.")
    )
