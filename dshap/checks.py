"""One check for each option, wherever it is taken: what is right comes back plain, anything else is an `InputError`.

`checked(seed=seed, penalty=penalty)` looks up the rule of each name in `RULES` (their kinds are in `dshap.rules`) and
gives the values in that order; the others check arrays and paths.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dshap.errors import InputError, shown
from dshap.records import FloatArray
from dshap.rules import CategoryLists, Choice, Flag, Names, Number, PerColumn, Rule, Text, Whole, for_columns, refused

__all__ = [
    "MODEL_PENALTY",
    "Choice",
    "Flag",
    "Names",
    "Number",
    "PerColumn",
    "Rule",
    "Text",
    "Whole",
    "as_array",
    "as_path",
    "checked",
    "finite_array",
    "for_columns",
    "plain_array",
]


def as_array(name: str, given: Any) -> Any:
    """Lists of rows as an array, or an InputError; anything else as it is."""
    if not isinstance(given, list | tuple):
        return given
    try:
        return np.asarray(given)
    except ValueError as error:
        raise InputError(f"{name} is {shown(given)}, rows of different lengths: give (n, columns)") from error


def plain_array(given: Any) -> Any:
    """The array behind a table; a missing value of a nullable column (NA) as NaN, so that numbers stay numbers."""
    if not hasattr(given, "iloc"):
        return np.asarray(given)
    is_number = all(kind.kind in "biuf" for kind in getattr(given, "dtypes", ()))
    return given.to_numpy(dtype=float, na_value=np.nan) if is_number else given.to_numpy()


def as_path(name: str, given: Any) -> Path:
    """The absolute path of a file system, or an InputError."""
    if not isinstance(given, str | os.PathLike):
        raise refused(name, given, "a path")
    if "://" in str(given):
        raise InputError(f"{name} {str(given)!r}: object stores are not built yet; give a path of a file system")
    return Path(given).expanduser().absolute()


def finite_array(name: str, given: Any, ndims: Sequence[int], shape: str) -> FloatArray:
    """A float64 copy of an array of finite numbers; `shape` is what a message asks for.

    Raises
    ------
    InputError
        Text, other dimensions, NaN or infinity.
    """
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError):
        array = np.empty((0,) * 9)
    if array.ndim not in ndims:
        raise refused(name, given, f"numbers of shape {shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} of shape {array.shape} holds NaN or infinity: drop such rows, or fit again")
    return array


POSITIVE = Number(0.0, open_low=True)
MODEL_PENALTY = Number(0.0, words=("validate",))
"""Of a model, which may pass through its points."""
RULES: Mapping[str, Rule] = {
    "antithetic": Flag(),
    "buffer_rows": Whole(1),
    "categories": CategoryLists(),
    "centred": Flag(),
    "compute": Flag(),
    "decay": Number(0.0, 1.0, open_low=True, words=("pilot",)),
    "features": Names(),
    "feature_names": Names(),
    "holdout": Number(0.0, 1.0, open_high=True, hint=", the part of the rows to hold out"),
    "lengthscale": PerColumn(POSITIVE, ("median", "validate")),
    "index": Flag(),
    "max_iter": Whole(1),
    "max_replicates": Whole(0),
    "n_background": Whole(1),
    "n_coalitions": Whole(1),
    "n_features": Whole(2, ", a cosine and a sine for each frequency", is_even=True),
    "n_landmarks": Whole(1, "; landmarks of your own go in landmarks="),
    "n_permutations": Whole(1),
    "n_players": Whole(1),
    "n_replicates": Whole(0),
    "n_samples": Whole(2, ", draws come in pairs z, −z", is_even=True),
    "orthogonal": Flag(),
    "output_names": Names(),
    "paired": Flag(),
    "penalty": Number(0.0, open_low=True, words=("validate",)),
    "rank_tolerance": Number(0.0, 1.0, open_low=True, open_high=True, hint=", well below the penalty"),
    "rho": Number(0.0, 1.0, open_high=True),
    "ridge": Number(0.0),
    "sample_size": Whole(1),
    "seed": Whole(0),
    "standardize": Flag(),
    "tol": Number(0.0),
    "tolerance": Number(0.0, open_low=True, hint=" (1e-6 is a good start)"),
    "variation": Number(0.0),
    "with_interventional": Flag(),
}
"""option -> its rule, the same in every place that takes it."""


def checked(**options: Any) -> list[Any]:
    """The options in their plain form, in the order given.

    Raises
    ------
    InputError
        One that breaks its rule.
    """
    return [RULES[name](name, given) for name, given in options.items()]
