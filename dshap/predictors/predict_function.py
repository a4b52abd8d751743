"""A predict function of the user: columns, outputs, and a probe that it is known again by."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.foreign import estimator_of, name_of
from dshap.predictors.frames import Frame
from dshap.predictors.named import NamedModel, calling, checked_outputs, classes_of, fitted_names_of
from dshap.records import FloatArray

__all__ = ["PredictFunction", "wants_frames"]


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
        self.name = name_of(predict)
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


def wants_frames(predict: Any) -> bool:
    """The estimator behind a predict function was fitted on data frames, and warns, or fails, where it gets arrays."""
    return fitted_names_of(predict) is not None and type(estimator_of(predict)).__module__.split(".")[0] != "dshap"
