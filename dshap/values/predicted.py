"""Value functions that call a model, whatever its data are: columns, outputs and a probe of the predict function."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.checks import as_array, checked, plain_array
from dshap.errors import InputError, shown
from dshap.records import BoolArray, Cost, FloatArray, Moments, State
from dshap.types import Link
from dshap.values.frames import Frame, frame_of
from dshap.values.links import link_of
from dshap.values.table_value import (
    NamedModel,
    TableValue,
    calling,
    checked_outputs,
    classes_of,
    columns_by_name,
    fitted_names_of,
    names_of,
)

__all__ = ["PROBE_ROWS", "PredictFunction", "Predicted", "PredictedValue", "wants_frames"]

PROBE_ROWS = 64
"""Rows whose predictions stand for the predict function in the fingerprint."""


class PredictFunction(NamedModel):
    """A predict function, tried at once, and known again by its name and by what it gave then.

    Parameters
    ----------
    predict : rows -> (n,) or (n, k)
    probe_rows : (n, columns)
        On which it is tried.
    frame : Frame, optional
        What the data frames that it takes look like; None where it takes arrays.
    feature_names : names of the columns, None when unknown
    output_names : where None, those of the classes of the classifier behind it, where there is one
    buffer_rows : rows of a call, at most
    """

    def __init__(
        self,
        predict: Callable[[FloatArray], Any],
        probe_rows: FloatArray,
        frame: Frame | None,
        *,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        buffer_rows: int,
    ) -> None:
        self.predict, self.frame, self.buffer_rows = predict, frame, buffer_rows
        self.name = getattr(predict, "__qualname__", type(predict).__name__)
        self._k: int | None = None  # not known before the first call
        self.probe = self.call(probe_rows)
        self._k = k = self.probe.shape[1]
        names = output_names if output_names is not None else classes_of(predict, k)
        super().__init__(probe_rows.shape[1], k, feature_names, names)

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:  # type: ignore[override]
        """column -> its categories, where the data are a frame with text or categorical columns."""
        return {} if self.frame is None else self.frame.categories

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """This function with longer lists, which begin with those that it has."""
        assert self.frame is not None
        other = copy.copy(self)
        other.frame = self.frame.with_categories(categories)
        return other

    def call(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k) by one call, with a data frame where the model takes one."""
        with calling(self.name):
            raw = self.predict(rows if self.frame is None else self.frame.rebuilt(rows))
        return checked_outputs(raw, len(rows), self._k, self.name)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        parts = [self.call(rows[start : start + self.buffer_rows]) for start in range(0, len(rows), self.buffer_rows)]
        return np.concatenate(parts) if parts else np.empty((0, self.n_outputs))

    def fingerprint(self) -> dict[str, Any]:
        """Name, and what it predicted when it was tried."""
        name = f"{getattr(self.predict, '__module__', '')}.{getattr(self.predict, '__qualname__', '')}"
        return {
            "predict": getattr(getattr(self.predict, "__self__", None), "stored_name", name),
            "predictions": hashlib.blake2b(self.probe.tobytes(), digest_size=16).hexdigest(),
            **({} if self.frame is None else self.frame.fingerprint()),
        }


class Predicted(TableValue):
    """Of a predict function whose data may be any table that `dshap.explain` takes.

    predict is tried on the first rows of an array or a data frame, on a row of zeros where reading the data would be
    work.  A path tells no columns: they are those of `feature_names`, or of the estimator behind predict.
    Where the data are a data frame with text, categorical or boolean columns, or the estimator behind predict was
    fitted on one, predict gets data frames like it.
    """

    model: PredictFunction
    takes_frames = True

    def __init__(
        self,
        predict: Callable[[FloatArray], Any],
        data: Any,
        *,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        buffer_rows: int = 65_536,
        link: str | Link | None = None,
    ) -> None:
        if not callable(predict) or isinstance(predict, type):
            kind = shown(predict) if isinstance(predict, type) else f"a {type(predict).__name__}"
            raise InputError(f"predict is {kind}: give a function, such as its predict_proba")
        (buffer_rows,) = checked(buffer_rows=buffer_rows)
        feature_names, output_names = checked(feature_names=feature_names, output_names=output_names)
        data = frame_of(as_array("data", data))
        names, frame = names_of(feature_names, fitted_names_of(predict), data), None
        if self.takes_frames and hasattr(data, "iloc") and not hasattr(data, "__dask_graph__"):
            chosen = columns_by_name(data, names or data.columns)
            frame = Frame.of(chosen, always=wants_frames(predict))
            data = data if frame is None else frame.codes(chosen)
        elif self.takes_frames and names is not None and wants_frames(predict):
            frame = Frame.of_names(tuple(map(str, names)))
        model = PredictFunction(
            predict,
            _probe_rows(data, names, _n_columns(data, names)),
            frame,
            feature_names=names,
            output_names=output_names,
            buffer_rows=buffer_rows,
        )
        super().__init__(model, data, players)
        self.link = link_of(link, model.output_names)
        self.link.check(model.probe)

    def fingerprint(self) -> dict[str, Any]:
        """Its name, model, link and players, and a digest of its data where they are in memory."""
        data = np.ascontiguousarray(self.data) if isinstance(self.data, np.ndarray) else None
        return {
            "value": type(self).__name__,
            **self.model.fingerprint(),
            **self.link.fingerprint(),
            "data": None if data is None else hashlib.blake2b(data.tobytes(), digest_size=16).hexdigest(),
            "players": self.players.fingerprint(),
        }


class PredictedValue(Predicted):
    """Base of the value functions of a predict function.

    Public as `dshap.ValueFunction`: what is left to write is `evaluate`, and `prepare`, `cost` and `fingerprint` where
    the values follow from more than the columns that are present, the model and the data.
    """

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`columns` (m, columns): those that are present in each coalition."""
        return State({"columns": self.players.columns(masks)})

    def cost(self, m: int, n: int = 1) -> Cost:
        """Of values that call the model: as a black box, whose own memory and operations are not known."""
        state, values = m * self.n_columns, 8 * n * m * self.n_outputs
        buffer = 8 * self.model.buffer_rows * (self.n_columns + self.n_outputs)
        return Cost(state_bytes=state, prepare_bytes=2 * state, task_bytes=3 * buffer + 4 * values, operations=math.inf)


def wants_frames(predict: Any) -> bool:
    """The estimator behind a predict function was fitted on data frames, and warns, or fails, where it gets arrays."""
    estimator = getattr(predict, "__self__", predict)
    return fitted_names_of(predict) is not None and type(estimator).__module__.split(".")[0] != "dshap"


def _n_columns(data: Any, names: Sequence[str] | None) -> int:
    """Columns that predict takes: of the array, or as many as there are names."""
    shape: tuple[Any, ...] = getattr(data, "shape", ())
    if not hasattr(data, "columns") and len(shape) == 2:
        return int(shape[1])
    if names is None:
        raise InputError(
            f"data of type {type(data).__name__} does not tell its columns: give feature_names, those that predict "
            "takes, in its order"
        )
    return len(names)


def _probe_rows(data: Any, names: Sequence[str] | None, n_columns: int) -> FloatArray:
    """What predict is tried on (rows, columns): the first rows where they lie in memory, else a row of zeros."""
    head: Any = np.zeros((1, n_columns))
    if isinstance(data, np.ndarray):
        head = data[:PROBE_ROWS]
    elif names is not None and hasattr(data, "iloc") and not hasattr(data, "__dask_graph__"):
        head = columns_by_name(data, names).iloc[:PROBE_ROWS]
    try:
        rows = np.array(plain_array(head), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"data has text where numbers are needed: {error}") from error
    rows = rows[np.isfinite(rows).all(axis=1)]
    return rows if len(rows) else np.zeros((1, n_columns))
