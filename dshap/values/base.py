"""Base classes of value functions: a model, players and data; predict functions; kernel models."""

from __future__ import annotations

import glob
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from dshap.core.annotations import Predict, TableLike
from dshap.core.duck_typing import has_columns, has_member, is_lazy, is_pandas, shape_of
from dshap.core.errors import InputError, shown
from dshap.core.fixed_words import LinkName, Scale
from dshap.core.floats import as_array, floats_of
from dshap.core.places import of_place
from dshap.core.players import Players
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import Choice, as_place, checked
from dshap.core.scales import STATED
from dshap.core.types import Link, Predictor
from dshap.predictors.expansion import Expansion, ExpansionModel
from dshap.predictors.frames import Frame, frame_of
from dshap.predictors.named import columns_by_name, fitted_names_of, names_of
from dshap.predictors.predict_function import PredictFunction, row_forms
from dshap.predictors.times import time_kind, times_of
from dshap.predictors.tree_rounds import rounds_note
from dshap.values.links import IDENTITY, link_of

PROBE_ROWS = 64
"""The number of rows whose predictions identify the predict function in the fingerprint."""


class TableValue:
    """The base class of the value functions of a table: a model, its players and the data.

    Subclasses define the value of a coalition.

    Parameters
    ----------
    model : Predictor
    data : array (b, columns), data frame, or any source that `dshap.explain` accepts
        The rows whose mean prediction is the base value; None for a closed form of the model alone.
    players : mapping of a player's name to its columns
        Every column that it does not name is a separate player.
    """

    model: Predictor
    link: Link = IDENTITY
    needs_predictions = False
    notes: Mapping[str, JSON] = MappingProxyType({})
    shared_arrays: tuple[str, ...] = ()
    """Names of the arrays of a State that have no coalition axis."""

    def __init__(
        self, model: Predictor, data: Any, players: Mapping[str, Sequence[str | int]] | None
    ) -> None:
        self.model = model
        self.data = data
        self.players = Players.of(model.n_columns, model.feature_names, players)

    def __repr__(self) -> str:
        names = ", ".join(self.players.names[:6]) + (", …" if self.n_players > 6 else "")
        outputs = ", ".join(self.model.output_names)
        return f"{type(self).__name__}({self.n_players} players: {names}; outputs: {outputs})"

    @property
    def n_players(self) -> int:
        """The number of players d."""
        return len(self.players)

    @property
    def n_columns(self) -> int:
        """The number of columns that the model takes."""
        return self.model.n_columns

    @property
    def n_outputs(self) -> int:
        """The number of outputs k of the model."""
        return len(self.model.output_names)

    def join(self, states: Sequence[State]) -> State:
        """Join the states of several coalition tiles into one, in their order.

        Arrays with a coalition axis are concatenated, shared ones are stored once.
        """
        if len(states) == 1:
            return states[0]
        first = states[0]
        joined = {
            name: array
            if name in self.shared_arrays
            else np.concatenate([state[name] for state in states])
            for name, array in first.arrays.items()
        }
        return State(joined)


class Predicted(TableValue):
    """A value function of a predict function, with data in any form that `dshap.explain` accepts.

    predict is tried when the object is made: on the first rows of an array or a data frame, or on a
    row of zeros if reading the data would be expensive.  A path has no column names: give
    `feature_names`, unless the estimator behind predict has them.

    predict receives data frames if the data are a data frame with text, categorical or boolean
    columns or with times, or if the estimator behind predict was fitted on such a frame.  With a
    data frame of numbers the function is tried with a frame, then with an array, and receives the
    first form that works.  ``arrays=True`` always passes arrays, ``arrays=False`` frames.
    ``scale=`` names the scale of the predictions if the function is not a method of an estimator.
    """

    model: PredictFunction

    def __init__(
        self,
        predict: Predict,
        data: TableLike,
        *,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        buffer_rows: int = 65_536,
        link: LinkName | Link | None = None,
        arrays: bool | None = None,
        scale: Scale | None = None,
    ) -> None:
        check_predict(predict)
        buffer_rows, arrays = checked(buffer_rows=buffer_rows, arrays=arrays)
        feature_names, output_names = checked(
            feature_names=feature_names, output_names=output_names
        )
        data = frame_of(as_array("data", data))
        names = names_of(feature_names, fitted_names_of(predict), data)
        if is_pandas(data):
            chosen = columns_by_name(data, names or data.columns)
        else:
            chosen = None
        forms = row_forms(predict, chosen, names, arrays, _times_in(data, names))
        if forms.frame is not None:
            self._check_frame(forms.frame)
        if forms.frame is None or chosen is None:
            coded = data
        else:
            coded = forms.frame.codes(chosen)
        model = forms.function(
            predict,
            _probe_rows(coded, names, _n_columns(coded, names)),
            feature_names=names,
            output_names=output_names,
            buffer_rows=buffer_rows,
            scale=checked_scale(scale),
        )
        if forms.has_both:
            self.notes = {**self.notes, "predict": {"rows": model.form}}
        if note := rounds_note(predict):
            self.notes = {**self.notes, "rounds": {"note": note}}
        super().__init__(model, data if model.frame is None else coded, players)
        self.link = link_of(link, model.output_names)
        # a logit of predictions outside [0, 1] fails here, and not in the first task of a run
        self.link.check(model.probe)

    def _check_frame(self, frame: Frame) -> None:
        """Raise InputError for columns this value function cannot use, before predict is tried."""

    def fingerprint(self) -> dict[str, JSON]:
        """The name, model, link and players, with a digest of the data if they are in memory."""
        # a table that is not in memory is digested by the census of a run, which reads it anyway
        if isinstance(self.data, np.ndarray):
            data = np.ascontiguousarray(self.data)
        else:
            data = None
        return {
            "value": type(self).__name__,
            **self.model.fingerprint(),
            **self.link.fingerprint(),
            "data": None
            if data is None
            else hashlib.blake2b(data.tobytes(), digest_size=16).hexdigest(),
            "players": self.players.fingerprint(),
        }


class PredictedValue(Predicted):
    """The base class to subclass for a value function of your own, for any predict function.

    A subclass defines `evaluate`, which returns the values (n, m, k) of n rows, m coalitions and k
    outputs.  It also defines `prepare`, `cost` and `fingerprint` if the values depend on more than
    the present columns, the model and the data.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> class AtZero(dshap.ValueFunction):
    ...     def evaluate(self, state, rows):
    ...         present = rows[:, None, :] * state["columns"]  # absent columns are 0
    ...         values = self.model(present.reshape(-1, rows.shape[1]))
    ...         return values.reshape(*present.shape[:2], -1)
    >>> rows = np.array([[1.0, 2.0], [4.0, 1.0]])
    >>> product = AtZero(lambda x: x[:, 0] * x[:, 1], rows)
    >>> cube = dshap.explain(product, rows)
    >>> (cube.attribution.sum("feature") + cube.base_value).values[:, 0].tolist()
    [2.0, 4.0]
    """

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`columns` (m, columns): the columns that are present in each coalition."""
        return State({"columns": self.players.columns(masks)})

    def cost(self, m: int, n: int = 1) -> Cost:
        """Cost of values that call the model, whose operations are unknown: they count as infinite."""
        state = m * self.n_columns
        values = 8 * n * m * self.n_outputs
        buffer = 8 * self.model.buffer_rows * (self.n_columns + self.n_outputs)
        return Cost(
            state_bytes=state,
            prepare_bytes=2 * state,
            task_bytes=3 * buffer + 4 * values,
            operations=math.inf,
            predictions=float(n) * m,
        )


class KernelValue(TableValue):
    """The base class of the value functions of kernel models, in closed form.

    The model is an `Expansion`, a weighted sum of kernel products, and `moments` sums over the data.
    """

    model: ExpansionModel

    def __init__(
        self, model: ExpansionModel, data: Any, players: Mapping[str, Sequence[str | int]] | None
    ) -> None:
        super().__init__(model, data, players)

    @property
    def expansion(self) -> Expansion:
        """The weighted sum of kernel products that the model is."""
        return self.model.expansion

    @property
    def _r(self) -> int:
        return self.expansion.size

    @property
    def _item(self) -> int:
        """Bytes of one factor of the model."""
        return int(np.dtype(self.expansion.coefficients.dtype).itemsize)


def checked_scale(given: str | None) -> str | None:
    """Check the scale that a user names for the predictions of a function; None stays None.

    Raises
    ------
    InputError
        The text is not the name of a scale.
    """
    if given is None:
        return None
    return Choice(STATED)("scale", given)


def check_predict(given: Any) -> None:
    """Check that predict is a function.

    Raises
    ------
    InputError
        predict is a table, a number, a class or an estimator.  For an estimator the message names
        the methods to give, such as `predict_proba`.
    """
    is_class = isinstance(given, type)
    if callable(given) and not is_class:
        return
    methods = [
        name
        for name in ("predict_proba", "decision_function", "predict")
        if has_member(given, name)
    ]
    if methods and not is_class:
        kind = f"a {type(given).__name__}"
    else:
        kind = shown(given)
    if methods:
        asked = f"its {' or '.join(methods)}"
    else:
        asked = "a function of rows, such as model.predict"
    if shape_of(given):
        swapped = ", and the rows after it"
    else:
        swapped = ""
    raise InputError(f"predict is {kind}: give {asked}{swapped}")


def _times_in(data: Any, names: Sequence[str] | None) -> dict[str, str]:
    """Column -> kind of time, for the columns of times of a source or Dask data frame."""
    kinds = times_of(data)
    if is_lazy(data) and has_columns(data):
        kinds = {str(name): time_kind(dtype) for name, dtype in data.dtypes.items()}
    return {name: kinds[name] for name in names or () if kinds.get(name)}


def _n_columns(data: Any, names: Sequence[str] | None) -> int:
    """Number of columns that predict accepts: the array's, or the number of names."""
    if not has_columns(data) and len(shape := shape_of(data)) == 2:
        return int(shape[1])
    if names is None and isinstance(data, str | os.PathLike):
        _refuse_missing_file(data)
    if names is None:
        raise InputError(
            f"data of type {type(data).__name__} has no column names: give feature_names, the "
            "columns that predict takes, in their order"
        )
    return len(names)


def _refuse_missing_file(given: str | os.PathLike[str]) -> None:
    """Raise InputError for a path without files, before its columns are asked for."""
    of_place(
        as_place("data", given, "table"), lambda path: _refuse_no_file(path, given), lambda _: None
    )


def _refuse_no_file(path: Path, given: str | os.PathLike[str]) -> None:
    if not path.exists() and not glob.glob(str(path)):
        raise InputError(
            f"there is no file {given}: give the path of Parquet files, or the rows themselves as "
            "an array or a data "
            "frame"
        )


def _probe_rows(data: Any, names: Sequence[str] | None, n_columns: int) -> FloatArray:
    """Rows (rows, columns) to try predict on: the first in memory, else a row of zeros."""
    head: Any = np.zeros((1, n_columns))
    if isinstance(data, np.ndarray):
        head = data[:PROBE_ROWS]
    elif names is not None and is_pandas(data):
        head = columns_by_name(data, names).iloc[:PROBE_ROWS]
    rows = floats_of(head, "data")
    # on whole rows only: a model may refuse missing values
    rows = rows[np.isfinite(rows).all(axis=1)]
    if len(rows):
        return rows
    return np.zeros((1, n_columns))
