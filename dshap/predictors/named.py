"""The base class of predictors, and facts about the estimator that a function belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from dshap.core.duck_typing import column_names, has_columns, name_of, of_estimator
from dshap.core.errors import DshapError, InputError, PredictError, unknown_name
from dshap.core.records import FloatArray
from dshap.core.rules import checked
from dshap.core.scales import TARGET


class NamedModel:
    """The base class of predictors: names of columns and outputs, and their checks.

    A subclass defines the call f(x) and its fingerprint.

    Parameters
    ----------
    n_columns, n_outputs : int
    feature_names : names of the columns, None when unknown
    output_names : names of the k outputs; "output", or "output0" and so on, if None
    """

    scale: str = TARGET
    categories: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    check: Callable[[FloatArray], None] | None = None

    def __init__(
        self,
        n_columns: int,
        n_outputs: int,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.n_columns = n_columns
        if feature_names is None:
            self.feature_names = None
        else:
            self.feature_names = tuple(str(name) for name in feature_names)
        (given,) = checked(output_names=output_names)
        if given is None:
            self.output_names = _numbered(n_outputs)
        else:
            self.output_names = tuple(map(str, given))
        if len(self.output_names) != n_outputs:
            raise InputError(f"{len(self.output_names)} output names for {n_outputs} outputs")

    @property
    def n_outputs(self) -> int:
        return len(self.output_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns; x0, x1, … if unknown."""
        return self.feature_names or tuple(f"x{j}" for j in range(self.n_columns))

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """Raise DshapError; only models with categorical columns override it."""
        raise DshapError(f"{type(self).__name__} has no categories: a bug")


def _numbered(n_outputs: int) -> tuple[str, ...]:
    if n_outputs > 1:
        return tuple(f"output{j}" for j in range(n_outputs))
    return ("output",)


def column_names_of(table: Any) -> tuple[str, ...] | None:
    """Column names of a table with `columns` or `feature_names`; None for arrays."""
    names = getattr(table, "feature_names", None)
    if names is None or has_columns(table):
        return column_names(table)
    return tuple(str(name) for name in names)


def fitted_names_of(predict: Any) -> tuple[str, ...] | None:
    """The names of the columns on which the estimator of `predict` was fitted; None if unknown."""
    names = of_estimator(predict, "feature_names_in_")
    if names is None:
        return None
    return tuple(str(name) for name in names)


def names_of(
    given: Sequence[str] | None, fitted: tuple[str, ...] | None, table: Any
) -> Sequence[str] | None:
    """The names by which columns are selected: the given ones, else the model's, else the table's.

    LightGBM stores names with "_" in place of blanks: if nothing else differs, the table's names
    are used.
    """
    held = column_names_of(table)
    if given is not None or held is None or fitted is None:
        if given is not None:
            return given
        return fitted or held
    plain = {name.replace(" ", "_"): name for name in held} | {name: name for name in held}
    if set(fitted) <= plain.keys():
        return tuple(plain.get(name, name) for name in fitted)
    return fitted


def classes_of(predict: Any, n_outputs: int) -> tuple[str, ...] | None:
    """The classes of the classifier of `predict`; None if it has not one output for each class."""
    classes = of_estimator(predict, "classes_")
    is_one_each = n_outputs > 1 and np.ndim(classes) == 1 and np.size(classes) == n_outputs
    if is_one_each:
        return tuple(str(name) for name in np.asarray(classes).tolist())
    return None


def columns_by_name(frame: Any, names: Sequence[str]) -> Any:
    """Select these columns of a data frame, in this order; InputError for a missing one."""
    held = {str(column): column for column in frame.columns}
    for name in names:
        if name not in held:
            raise InputError(
                f"the table lacks a column of the model: {unknown_name('column', name, held)}"
            )
    return frame[[held[name] for name in names]]


def checked_predict(
    predict: Callable[[FloatArray], Any], rows: FloatArray, n_outputs: int | None = None
) -> FloatArray:
    """Call predict(rows) and return float64 (n, k): see `checked_outputs`."""
    name = name_of(predict)
    with calling(name):
        raw = predict(rows)
    return checked_outputs(raw, len(rows), n_outputs, name)


@contextmanager
def calling(name: str, hint: str = "") -> Iterator[None]:
    """Context that turns errors of the predict function into `PredictError`, with a hint."""
    try:
        yield
    except Exception as error:
        raise PredictError(
            f"predict function {name} failed: {type(error).__name__}: {error}{hint}"
        ) from error


def checked_outputs(raw: Any, n_rows: int, n_outputs: int | None, name: str) -> FloatArray:
    """The output of a predict function as float64 (n, k); PredictError if it is not.

    `n_outputs` is the expected k; None at the first call, which determines it.
    """
    if raw is None:
        raise PredictError(
            f"predict function {name} gave None: it must return numbers, ({n_rows},) or ({n_rows}, "
            "k)"
        )
    try:
        given = np.asarray(raw)
        is_complex = given.dtype.kind == "c"
        values = np.asarray(given.real if is_complex else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        first = next(iter(np.ravel(np.asarray(raw, dtype=object))), None)
        raise PredictError(
            f"predict function {name} gave {type(raw).__name__} of {first!r}, not numbers: of a "
            "classifier explain "
            "predict_proba or decision_function"
        ) from error
    if is_complex:
        raise PredictError(f"predict function {name} gives complex numbers: give real ones")
    shape = values.shape
    if values.ndim == 1:
        values = values[:, None]
    if (
        values.ndim != 2
        or len(values) != n_rows
        or (n_outputs is not None and values.shape[1] != n_outputs)
    ):
        wanted = f"({n_rows},) or ({n_rows}, {'k' if n_outputs is None else n_outputs})"
        raise PredictError(
            f"predict function {name} gave shape {shape} for {n_rows} rows: it must give {wanted}"
        )
    return values
