"""Every error that dshap raises on purpose; the public name of those in `dshap.core.errors`."""

from dshap.core.errors import (
    CheckFailedError,
    DamagedError,
    DatabaseError,
    DoesNotFitError,
    DshapError,
    EmptyTableError,
    FailedBlocksError,
    InputError,
    InterruptedRunError,
    LockedError,
    NotFittedError,
    PredictError,
    SinkError,
    StaleSourceError,
    StoreMismatchError,
    UncheckableError,
)

__all__ = [
    "CheckFailedError",
    "DamagedError",
    "DatabaseError",
    "DoesNotFitError",
    "DshapError",
    "EmptyTableError",
    "FailedBlocksError",
    "InputError",
    "InterruptedRunError",
    "LockedError",
    "NotFittedError",
    "PredictError",
    "SinkError",
    "StaleSourceError",
    "StoreMismatchError",
    "UncheckableError",
]
