"""A user's predict function, with its columns, outputs and probe predictions."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dshap.core.duck_typing import estimator_of, name_of, of_estimator
from dshap.core.errors import InputError, PredictError
from dshap.core.records import FloatArray
from dshap.predictors.class_choice import ClassChoice, class_choice
from dshap.predictors.frames import Frame
from dshap.predictors.named import NamedModel, calling, checked_outputs, fitted_names_of
from dshap.predictors.predict_scale import check_stated, output_names_of, scale_of_function

BUFFER_BYTES = 64 << 20
"""The most bytes of rows in one call: 65,536 rows of 128 columns, fewer of wider ones."""
FRAMES_NOTE = (
    "gets data frames, which it took first (arrays=True hands it arrays, which is quicker)"
)


class PredictFunction(NamedModel):
    """The predictor of your predict function, which is called once, when it is constructed.

    The name of the function, and its predictions for the probe rows, identify it in the fingerprint
    of a run.

    Parameters
    ----------
    predict : rows -> (n,) or (n, k)
    probe_rows : (n, columns)
        Rows for which the function is called at construction.
    frame : Frame, optional
        The form of the data frames that it accepts; None if it accepts arrays.
    feature_names : names of the columns, None when unknown
    output_names : names of the outputs; None: the classes, if it belongs to a classifier
    buffer_rows : the most rows of a call, which has at most `BUFFER_BYTES` in any case
    scale : the scale of the predictions; None: determined from the estimator and the predictions
    is_array_hinted : True: an error with an array explains how to get data frames instead
    has_unknown_types : True: the frame's column types are unknown and treated as numbers
    """

    form = ""
    """The form of rows with which it is called and why, if two forms were possible."""
    choice: ClassChoice | None = None
    """The classes whose outputs are given; None for all outputs."""

    def __init__(
        self,
        predict: Callable[[FloatArray], Any],
        probe_rows: FloatArray,
        frame: Frame | None,
        *,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        buffer_rows: int,
        scale: str | None = None,
        is_array_hinted: bool = False,
        has_unknown_types: bool = False,
    ) -> None:
        self.predict = predict
        self.frame = frame
        self.buffer_rows = min(
            buffer_rows, max(1, BUFFER_BYTES // (8 * max(1, probe_rows.shape[1])))
        )
        self.is_array_hinted = is_array_hinted
        self.has_unknown_types = has_unknown_types
        self.name = name_of(predict)
        self._k: int | None = None  # number of outputs, unknown before the first call
        self.probe = self.call(probe_rows)
        self._k = k = self.probe.shape[1]
        self.stated_scale = scale
        if scale is None:
            self.scale = scale_of_function(predict, self.probe)
        else:
            check_stated(scale, self.probe)
            self.scale = scale
        if output_names is None:
            output_names = output_names_of(predict, k, self.scale)
        super().__init__(probe_rows.shape[1], k, feature_names, output_names)

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:  # type: ignore[override]
        """Column -> its categories, for frames with text or categorical columns."""
        if self.frame is None:
            return {}
        return self.frame.categories

    @property
    def times(self) -> Mapping[str, str]:
        """Column -> its kind, for frames with columns of times."""
        if self.frame is None:
            return {}
        return self.frame.times

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """A copy with longer lists of categories, each starting with the present list."""
        assert self.frame is not None
        other = copy.copy(self)
        other.frame = self.frame.with_categories(categories)
        return other

    def of_classes(self, classes: Sequence[Any]) -> Self:
        """A copy with the outputs of these classes only; InputError for an unknown class."""
        known = of_estimator(self.predict, "classes_")
        if known is None:
            named: tuple[str, ...] = ()
        else:
            named = tuple(map(str, np.asarray(known).tolist()))
        choice = class_choice(classes, named, self.n_outputs, self.scale, self.choice)
        other = copy.copy(self)
        other.choice = choice
        other.probe = choice(self.probe)
        other.output_names = choice.names(self.scale, self.output_names)
        return other

    def call(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k) by one call, with a data frame if the model accepts one."""
        hint = ""
        if self._k is None:  # a form of rows that worked once needs no hint
            hint = self._hint(rows)
        with calling(self.name, hint):
            raw = self.predict(rows if self.frame is None else self.frame.rebuilt(rows))
        found = checked_outputs(raw, len(rows), self._k, self.name)
        if self.choice is None:
            return found
        return self.choice(found)

    def _hint(self, rows: FloatArray) -> str:
        """A hint for the error message: which form the rows had, and how to change it."""
        if self.times:
            return (
                f"; predict was given a data frame, because column {next(iter(self.times))!r} "
                "contains times: with numbers, such as days since a date, it would get arrays"
            )
        if self.has_unknown_types:
            return (
                "; predict was given a data frame of numbers, because the data have no types: if "
                "columns contain times, give a data frame, or dshap.sources.ParquetSource(path, "
                "features=[...], times=[...])"
            )
        if self.is_array_hinted:
            return f"; predict was given an array {rows.shape}: give arrays=False for frames"
        return ""

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        parts = [
            self.call(rows[start : start + self.buffer_rows])
            for start in range(0, len(rows), self.buffer_rows)
        ]
        if parts:
            return np.concatenate(parts)
        return np.empty((0, self.n_outputs))

    def predict_bytes(self, n: int) -> int:
        """Peak bytes of predictions for n rows.

        The rows of a call count twice, because the memory that the function needs is unknown; so do
        the predictions.
        """
        rows = min(n, self.buffer_rows)
        return 16 * (rows * (self.n_columns + self.n_outputs) + n * self.n_outputs)

    def fingerprint(self) -> dict[str, Any]:
        """The name of the function, a digest of its probe predictions, and the user's choices."""
        name = (
            f"{getattr(self.predict, '__module__', '')}.{getattr(self.predict, '__qualname__', '')}"
        )
        record = {
            "predict": getattr(getattr(self.predict, "__self__", None), "stored_name", name),
            "predictions": hashlib.blake2b(self.probe.tobytes(), digest_size=16).hexdigest(),
        }
        if self.stated_scale is not None:
            record["scale"] = self.stated_scale
        if self.choice is not None:
            record["classes"] = list(self.choice.classes)
        if self.frame is not None:
            record |= self.frame.fingerprint()
        return record


@dataclass(frozen=True)
class RowForms:
    """The forms of rows that a predict function may be called with."""

    frame: Frame | None = None
    """The form of its data frames; None for arrays."""
    has_both: bool = False
    """Whether it is called with a data frame first, and with an array if that fails."""
    is_hinted: bool = False
    """Whether the message of an error with arrays explains how to get data frames."""
    has_unknown_types: bool = False
    """Whether the types of the frame's columns are unknown, so that all count as numbers."""

    def function(
        self, predict: Callable[[Any], Any], probe_rows: FloatArray, **options: Any
    ) -> PredictFunction:
        """The predict function with the first form of rows with which it returns numbers.

        Raises
        ------
        PredictError
            No form of rows works.
        """
        if not self.has_both:
            return PredictFunction(
                predict,
                probe_rows,
                self.frame,
                is_array_hinted=self.is_hinted,
                has_unknown_types=self.has_unknown_types,
                **options,
            )
        try:
            with warnings.catch_warnings():
                # scikit-learn warns if a model was fitted on arrays
                warnings.simplefilter("error", UserWarning)
                found = PredictFunction(predict, probe_rows, self.frame, **options)
            found.form = FRAMES_NOTE
        except PredictError as error:
            found = self._of_array(predict, probe_rows, error, options)
        return found

    def _of_array(
        self,
        predict: Callable[[Any], Any],
        probe_rows: FloatArray,
        error: PredictError,
        options: Mapping[str, Any],
    ) -> PredictFunction:
        """The predict function on arrays, after `error` on a data frame.

        It uses data frames nevertheless if arrays fail too and the error was only a warning.
        """
        try:
            found = PredictFunction(predict, probe_rows, None, **options)
            found.form = f"gets arrays, as a data frame gave no numbers ({type(error.__cause__ or error).__name__})"
        except PredictError as of_array:
            if not isinstance(error.__cause__, UserWarning):
                raise PredictError(
                    f"{error} (given a data frame); predict was given an array {probe_rows.shape} "
                    "too: " + str(of_array).removeprefix(f"predict function {name_of(predict)} ")
                ) from error
            found = PredictFunction(predict, probe_rows, self.frame, **options)
            found.form = FRAMES_NOTE
        return found


ARRAYS = RowForms()


def row_forms(
    predict: Any,
    table: Any,
    names: Sequence[str] | None,
    arrays: bool | None,
    times: Mapping[str, str],
) -> RowForms:
    """The forms of rows with which a predict function may be called.

    Parameters
    ----------
    table : the data as a frame of the model's columns; None for arrays, paths and sources
    names : names of the columns, if known
    arrays : True for arrays, False for data frames, None to find out
    times : column -> kind of time, for a source that was opened with them

    Raises
    ------
    InputError
        Arrays are asked for columns of text or times, or data frames for columns without names.
    """
    if arrays is None:
        is_framed = wants_frames(predict)
    else:
        is_framed = not arrays
    if arrays and times:
        raise InputError(_refused_arrays(next(iter(times)), "times"))
    if table is None:
        if arrays is False and names is None:
            raise InputError(
                "arrays=False hands predict data frames, and the columns have no names: give "
                "feature_names"
            )
        is_framed = is_framed or bool(times)
        if names is not None and is_framed:
            frame = Frame.of_names(tuple(map(str, names)), times=times)
        else:
            frame = None
        is_guessed = frame is not None and not times
        return RowForms(
            frame, is_hinted=frame is None and names is not None, has_unknown_types=is_guessed
        )
    frame = Frame.of(table, always=True)
    assert frame is not None
    if arrays and frame.categories:
        raise InputError(_refused_arrays(next(iter(frame.categories)), "text or categories"))
    if arrays and frame.times:
        raise InputError(_refused_arrays(next(iter(frame.times)), "times"))
    if arrays:
        return RowForms(is_hinted=True)
    if is_framed or Frame.of(table) is not None:
        return RowForms(frame)
    is_users = of_estimator(predict, "n_features_in_") is None and not _is_of_dshap(predict)
    if is_users:
        return RowForms(frame, has_both=True)
    return ARRAYS


def _refused_arrays(name: str, holds: str) -> str:
    """The error message for arrays=True if a column does not fit in an array."""
    return (
        f"arrays=True, and column {name!r} contains {holds}, which an array of numbers cannot "
        "contain: leave arrays out, or leave that column out"
    )


def _is_of_dshap(predict: Any) -> bool:
    """Whether the function is of a model of dshap, and not of one that it only contains."""
    is_own = type(estimator_of(predict)).__module__.split(".")[0] == "dshap"
    return is_own and not of_estimator(predict, "takes_frames")


def wants_frames(predict: Any) -> bool:
    """Whether the estimator behind `predict` was fitted on data frames.

    Such estimators warn or fail on arrays.
    """
    return fitted_names_of(predict) is not None and not _is_of_dshap(predict)
