"""Class labels: distinct values, integer codes, and names."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.models.newton import Codes

MAX_CLASSES = 256
"""The most distinct targets that count as classes; more are numbers."""


def as_labels(labels: Any) -> tuple[NDArray[Any], BoolArray]:
    """Labels (n,), and a mask (n,) of those that are not missing."""
    given = np.asarray(labels)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        raise InputError(
            f"the target has shape {given.shape}: KernelLogistic takes one column of labels"
        )
    if given.dtype.kind == "f":
        return given, np.isfinite(given)
    if given.dtype == object:
        # the text "nan" is a label like any other
        is_gone = [
            not isinstance(label, str) and str(label) in ("None", "nan", "<NA>", "NaT")
            for label in given
        ]
        return given, ~np.array(is_gone, dtype=bool)
    return given, np.ones(len(given), dtype=bool)


def check_classes(classes: NDArray[Any]) -> None:
    """Refuse a target with more classes than a model can have."""
    if len(classes) > MAX_CLASSES:
        raise InputError(
            f"the target has more than {MAX_CLASSES} distinct values: for numbers use KernelRidge, "
            "or merge classes"
        )


def class_name(label: Any) -> str:
    """The name of a label in messages; the number 1.0 becomes 1."""
    number = np.asarray(label).item()
    if isinstance(number, float):
        return f"{number:g}"
    return str(number)


def class_codes(target: FloatArray, values: FloatArray, classes: NDArray[Any], first: int) -> Codes:
    """(n,): the position of each target (n,) in the class values (K,).

    The rows are those of the table from position `first` on.

    Raises
    ------
    InputError
        A class that does not occur in the sample.
    """
    codes = np.minimum(np.searchsorted(values, target), len(values) - 1)
    is_unseen = values[codes] != target
    if is_unseen.any():
        unseen = target[is_unseen][0]
        raise InputError(
            f"class {class_name(unseen)} occurs in the data "
            f"({(is_unseen & (target == unseen)).sum()} of the rows from "
            f"{first} on, of {len(target)}) and not in the sample, whose classes are "
            f"{', '.join(map(class_name, classes))}: raise sample_size, or leave out or merge "
            "classes so rare"
        )
    return codes
