"""What all value functions over tables share: players, the data behind them, and checked predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from dshap.checks import checked
from dshap.errors import DshapError, InputError, PredictError, unknown_name
from dshap.types import BoolArray, ClosedForm, FloatArray, Link, Scored, State
from dshap.values.links import IDENTITY
from dshap.values.players import Players

__all__ = [
    "TableValue",
    "checked_predict",
    "classes_of",
    "column_names_of",
    "columns_by_name",
    "fitted_names_of",
    "names_of",
]


class TableValue:
    """Base of the value functions: holds players and data; subclasses say what a coalition is worth.

    Parameters
    ----------
    data : array (b, columns), data frame, or any source that `dshap.explain` takes
        The rows whose mean prediction `base` is given.
    n_columns, n_outputs : int
    feature_names : names of the columns, None when unknown
    players : mapping of a player's name to its columns; the other columns stay single
    output_names : names of the k outputs
    """

    link: Link = IDENTITY
    data_weights: FloatArray | None = None
    needs_moments = False
    needs_predictions = False
    is_closed_form = False
    prefers_closed_form = False
    sums_hold_prediction = False
    needs_check = False
    sample_size = 0
    streams_data = False
    categories: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    notes: Mapping[str, Any] = MappingProxyType({})
    shared_arrays: tuple[str, ...] = ()
    """Arrays of a State that do not go by coalitions."""

    def __init__(
        self,
        data: Any,
        *,
        n_columns: int,
        n_outputs: int,
        feature_names: Sequence[str] | None,
        players: Mapping[str, Sequence[str | int]] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.data = data
        self.n_columns = n_columns
        self.n_outputs = n_outputs
        self.feature_names = None if feature_names is None else tuple(str(name) for name in feature_names)
        self.players = Players.of(n_columns, self.feature_names, players)
        (given,) = checked(output_names=output_names)
        self.output_names = _numbered(n_outputs) if given is None else tuple(map(str, given))
        if len(self.output_names) != n_outputs:
            raise InputError(f"{len(self.output_names)} output names for {n_outputs} outputs")

    def __repr__(self) -> str:
        names = ", ".join(self.player_names[:6]) + (", …" if self.n_players > 6 else "")
        return f"{type(self).__name__}({self.n_players} players: {names}; outputs: {', '.join(self.output_names)})"

    @property
    def n_players(self) -> int:
        return len(self.players.names)

    @property
    def player_names(self) -> tuple[str, ...]:
        return self.players.names

    def over(self, is_active: BoolArray) -> Self:
        """The game of the active players (d,) alone: the columns of the others are absent from every coalition."""
        smaller = copy.copy(self)
        smaller.players = self.players.over(is_active)
        return smaller

    @property
    def column_names(self) -> tuple[str, ...]:
        """Those that are known, or x0, x1, …"""
        return self.feature_names or tuple(f"x{j}" for j in range(self.n_columns))

    @property
    def player_columns(self) -> BoolArray:
        """(d, columns): column c belongs to player i."""
        return self.players.members

    def without_data(self) -> Self:
        """A copy that workers can hold: everything but `data`."""
        small = copy.copy(self)
        small.data = None
        return small

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """The mean prediction over the data."""
        return mean

    def check(self, rows: FloatArray) -> None:
        """Every row (n, columns) can be explained."""

    def closed_form(self) -> ClosedForm | None:
        """None: there is none."""
        return None

    def join(self, states: Sequence[State]) -> State:
        """One State of the coalitions of several, in their order: arrays are strung together, shared ones kept."""
        if len(states) == 1:
            return states[0]
        first = states[0]
        joined = {
            name: own if name in self.shared_arrays else np.concatenate([state[name] for state in states])
            for name, own in first.arrays.items()
        }
        return State(joined)

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """Of values whose columns may be text alone."""
        raise DshapError(f"{type(self).__name__} has no categories: a bug")

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """None: values are wanted one by one."""
        return None

    def sums(self, state: State, rows: FloatArray, others: FloatArray) -> FloatArray:
        """Of values that stream their data alone."""
        raise DshapError(f"{type(self).__name__} sums nothing over rows of its data: a bug")

    def choose(self, sample: FloatArray) -> State:
        """Nothing is left to choose."""
        return State()

    def chosen(self, choice: State) -> Self:
        return self


def _numbered(n_outputs: int) -> tuple[str, ...]:
    return tuple(f"output{j}" for j in range(n_outputs)) if n_outputs > 1 else ("output",)


def column_names_of(table: Any) -> tuple[str, ...] | None:
    """Column names of anything that has `columns` (a data frame) or `feature_names`; None for arrays."""
    names = getattr(table, "columns", None)
    if names is None:
        names = getattr(table, "feature_names", None)
    return None if names is None else tuple(str(name) for name in names)


def fitted_names_of(predict: Any) -> tuple[str, ...] | None:
    """Column names that the estimator behind a predict function was fitted on; None where it knows none."""
    names = getattr(getattr(predict, "__self__", predict), "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def names_of(given: Sequence[str] | None, fitted: tuple[str, ...] | None, table: Any) -> Sequence[str] | None:
    """Names that rows are matched by: those given, else those that the model was fitted on, else those of the table.

    LightGBM keeps its names with "_" for every blank: where that is all the difference, the table's own.
    """
    own = column_names_of(table)
    if given is not None or own is None or fitted is None:
        return given if given is not None else fitted or own
    plain = {name.replace(" ", "_"): name for name in own} | {name: name for name in own}
    return tuple(plain.get(name, name) for name in fitted) if set(fitted) <= plain.keys() else fitted


def classes_of(predict: Any, n_outputs: int) -> tuple[str, ...] | None:
    """Names of the classes of the classifier behind a predict function; None where its outputs are no classes."""
    classes: Any = getattr(getattr(predict, "__self__", predict), "classes_", None)
    is_one_each = n_outputs > 1 and np.ndim(classes) == 1 and np.size(classes) == n_outputs
    return tuple(str(own) for own in np.asarray(classes).tolist()) if is_one_each else None


def columns_by_name(frame: Any, names: Sequence[str]) -> Any:
    """These columns of a data frame, in this order; a missing one is refused."""
    held = {str(column): column for column in frame.columns}
    for name in names:
        if name not in held:
            raise InputError(f"the table lacks a column of the model: {unknown_name('column', name, held)}")
    return frame[[held[name] for name in names]]


def checked_predict(
    predict: Callable[[FloatArray], Any], rows: FloatArray, n_outputs: int | None = None, name: str = ""
) -> FloatArray:
    """predict(rows) as float64 (n, k), or a `PredictError` that says what came back.

    Parameters
    ----------
    predict : rows (n, columns) -> (n,) or (n, k)
    n_outputs : the k that is expected; None at the first call, which sets it
    name : of the function in messages; its own where empty
    """
    name = name or getattr(predict, "__qualname__", type(predict).__name__)
    try:
        raw = predict(rows)
    except Exception as error:
        raise PredictError(f"predict function {name} failed: {type(error).__name__}: {error}") from error
    try:
        values = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        first = next(iter(np.ravel(np.asarray(raw, dtype=object))), None)
        raise PredictError(
            f"predict function {name} gave {type(raw).__name__} of {first!r}, not numbers: of a classifier explain "
            "predict_proba or decision_function"
        ) from error
    shape = values.shape
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or len(values) != len(rows) or (n_outputs is not None and values.shape[1] != n_outputs):
        wanted = f"({len(rows)},) or ({len(rows)}, {'k' if n_outputs is None else n_outputs})"
        raise PredictError(f"predict function {name} gave shape {shape} for {len(rows)} rows: it must give {wanted}")
    return values
