"""Every error that dshap raises on purpose; the public name of those in `dshap.core.errors`."""

from dshap.core.errors import (
    DamagedError,
    DoesNotFitError,
    DshapError,
    EmptyTableError,
    FailedBlocksError,
    InputError,
    InterruptedRunError,
    LockedError,
    NotFittedError,
    PredictError,
    StoreMismatchError,
    UncheckableError,
)

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
]
