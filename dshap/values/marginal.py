"""Interventional values of any model: absent columns have the values of background rows."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dshap import loops
from dshap.core.annotations import Predict, TableLike
from dshap.core.draws import Draws, GroupedDraws
from dshap.core.duck_typing import has_columns, is_frame, is_lazy, is_pandas, is_scanned
from dshap.core.errors import InputError, shown
from dshap.core.fixed_words import LinkName, Scale
from dshap.core.floats import floats_of
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import checked
from dshap.core.types import Link, RowReader
from dshap.predictors.frames import frame_of
from dshap.predictors.named import columns_by_name, fitted_names_of, names_of
from dshap.values.background import Background, checked_weights
from dshap.values.base import PredictedValue, check_predict

STREAMED_ROWS = 65_536
"""Number of background rows in memory at a time, for a background that is read by spans."""


class Marginal(PredictedValue):
    """Interventional values of any model, by averaging its predictions over background rows.

    v_S(x) = Σ_b w_b f(x_S, X_b,S̄) / Σ_b w_b over background rows b with weights w_b: absent columns
    get the values of background rows.

    Parameters
    ----------
    predict : callable
        rows (n, columns) float64 -> (n,) or (n, k).  It runs on the workers and must be picklable.
        If the background is a data frame with text, categorical or boolean columns or with times,
        or if the estimator behind predict was fitted on such a frame, predict receives data frames
        of the same columns and dtypes.  If the background is a data frame of numbers, a function of
        your own is tried with a data frame of its first rows, then with an array, and receives the
        first form that works.
    background : Background, array (b, columns), data frame, path, collection or source
        Rows in memory are copied whole to every worker; a single row serves as a reference point.
        A path, a collection or a source is read in spans: every row of it counts, and no worker has
        more than one span in memory.  A `Background` contains weighted rows that
        `dshap.choose_background` chose from a table.
    players : mapping, optional
        ``{"location": ["lat", "lon"]}`` makes one player of several columns.  It has the position of
        its first column: read cubes by the names of players, not by the order of this mapping.
    feature_names : sequence of str, optional
        Names of the columns that predict accepts, in its order.  By default those that the
        estimator behind ``predict`` was fitted on (`feature_names_in_`), or else those of the
        background.  The columns of data frames are found by these names.
    output_names : sequence of str, optional
        By default the classes of the classifier behind ``predict``, if it has as many classes as
        outputs.
    link : str or Link, optional
        A function g applied to the mean above: "identity", "logit", "log_odds" or
        "log_probability" (both for the predicted class; `LogOdds("name")` and
        `LogProbability("name")` are for a named class), or "expected_log_probability"; see
        `dshap.values.LogOdds`.
    weights : array (b,), optional
        Weights of the background rows, not negative, with any positive sum; equal by default.
    sample_of : int, optional
        The number of rows of the table that the background is a random sample of, such as
        1_000_000.  `std_error` then includes how far values over the sample may be from those over
        the whole table.  By default the rows of an array or data frame are the whole background,
        and there is no such error.  A `Background` has this number already.
    buffer_rows : int
        The most rows in one predict call, which also has at most 64 MiB of rows.
    arrays : bool, optional
        True calls predict with arrays (faster if it accepts both), False with data frames.  By
        default the form follows the rule described at `predict`.
    scale : str, optional
        The scale of the predictions, before a link: "probability", "log-odds", "score", "margin",
        "log", "unit of the target" or another name of docs/value_functions.md.  By default the scale
        follows from the name of an estimator's method (`predict_proba`, `decision_function`,
        `predict`), and that of a function of your own is "unstated".  Cubes on two different stated
        scales cannot be compared.

    Raises
    ------
    PredictError
        The predict function fails or returns an array that is not (n,) or (n, k).  It is called on
        the background when the object is made.

    Notes
    -----
    Cost: at most n·m·b model evaluations for n rows, m coalitions and b background rows.  Columns in
    which a row equals a background row are the same in every mix of the two, and equal mixes are
    predicted once.

    Standard errors of a sample of b from N rows: its rows are dealt at random to 20 groups, and the
    values are computed without each group, from the same predictions.  The error is that of b
    random rows, times √(1 − b/N).  It is too large for rows that `dshap.choose_background` chose by
    "thinning", which are closer to the table than random rows (docs/errors.md).  The error of a
    single row is unknown, and stored as NaN.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> X = np.random.default_rng(0).normal(size=(900, 3))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] * x[:, 1], X[:100], sample_of=900)
    >>> "std_error" in dshap.explain(value, X[:2])
    True
    >>> "std_error" in dshap.explain(dshap.values.Marginal(lambda x: x[:, 0], X[:100]), X[:2])
    False
    """

    data_weights: FloatArray | None = None
    sample_of: int | None = None

    def __init__(
        self,
        predict: Predict,
        background: Background | TableLike,
        *,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        sample_of: int | None = None,
        link: LinkName | Link | None = None,
        buffer_rows: int = 65_536,
        arrays: bool | None = None,
        scale: Scale | None = None,
    ) -> None:
        check_predict(predict)
        background = frame_of(background)
        names = names_of(feature_names, fitted_names_of(predict), background)
        if isinstance(background, Background):
            if weights is not None:
                raise InputError("weights belong to rows; a Background has its own: leave them out")
            if sample_of is not None:
                raise InputError(
                    f"sample_of is {shown(sample_of)}, and a Background has the number of rows of "
                    f"its table, {background.n_rows:,}: leave sample_of out"
                )
            sample_of = background.n_rows
            self.notes = {"background": background.summary()}
            weights = background.weights
            background = background.table(names)
        self.streams_data = _is_streamed(background)
        if not self.streams_data:
            if names is not None and has_columns(background):
                background = columns_by_name(background, names)
            if not is_frame(background):
                background = _rows_of(background)
        super().__init__(
            predict,
            background,
            players=players,
            feature_names=names,
            output_names=output_names,
            buffer_rows=buffer_rows,
            link=link,
            arrays=arrays,
            scale=scale,
        )
        # a frame of numbers, with which predict has been tried: rows are mixed as arrays
        if is_pandas(self.data):
            self.data = _rows_of(self.data)
        self.background: FloatArray | None = None if self.streams_data else self.data
        if self.background is not None and not len(self.background):
            raise InputError("background has no rows: give at least one")
        if weights is not None:
            if self.background is None:
                raise InputError(
                    "weights are for a background in memory: give an array or a data frame"
                )
            self.data_weights = checked_weights(weights, len(self.background))
        if sample_of is not None:
            self.sample_of = _checked_population(sample_of, self.background)

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`columns` (m, columns) that are present in each coalition, and the same as `bits`."""
        found = loops.Masks.of(self.players.columns(masks))
        return State({"columns": found.columns, "bits": found.bits})

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k), in predict calls of at most `buffer_rows` rows.

        Mixed rows that are equal are predicted once.
        """
        if self.background is None:
            raise InputError("the background is a table that is read by spans: call dshap.explain")
        weights = self._weights
        return (
            loops.mixed_values(*self._mixed(state, rows, self.background), weights) / weights.sum()
        )

    @property
    def draws(self) -> Draws | None:
        """The background rows, if they are a sample of a larger table; None if they are all of it."""
        if self.background is None or self.sample_of is None:
            return None
        n = len(self.background)
        if n >= self.sample_of:
            return None
        return Draws(
            self._weights,
            called=f"{n:,} of {self.sample_of:,} rows as background",
            advice="give the background more rows",
            population=self.sample_of,
        )

    def evaluate_without(self, state: State, rows: FloatArray, groups: GroupedDraws) -> FloatArray:
        """values (n, 1 + g, m, k): of all background rows, then without each group of them."""
        assert self.background is not None
        shape = groups.n_groups, len(rows), len(state["columns"]), self.n_outputs
        parts = loops.Parts(groups.group, np.zeros(shape))
        mixed = self._mixed(state, rows, self.background)
        whole = loops.mixed_values(*mixed, groups.weights, parts)
        return groups.means(whole, parts.sums).swapaxes(0, 1)

    def base_without(self, state: State | None, groups: GroupedDraws) -> FloatArray:
        """v(empty) (1 + g, k): the mean prediction over the background, then without each group."""
        assert self.background is not None
        weighted = groups.weights[:, None] * self.model(self.background)
        return groups.means(weighted.sum(axis=0), groups.indicator @ weighted)

    @property
    def _weights(self) -> FloatArray:
        """(b,): the weights of the background rows."""
        assert self.background is not None
        if self.data_weights is None:
            return np.ones(len(self.background))
        return self.data_weights

    def sums(self, state: State, rows: FloatArray, others: FloatArray) -> FloatArray:
        """Σ_b f(x_S, X_b,S̄) (n, m, k) over these rows of the background (b, columns)."""
        return loops.mixed_values(*self._mixed(state, rows, others), np.ones(len(others)))

    def _mixed(
        self, state: State, rows: FloatArray, others: FloatArray
    ) -> tuple[loops.Calls, loops.Masks, FloatArray, FloatArray]:
        """The arguments of `mixed_values`: the model's calls, the masks, rows and background."""
        masks = loops.Masks(state["columns"], state["bits"])
        return self._calls, masks, np.ascontiguousarray(rows), np.ascontiguousarray(others)

    @property
    def _calls(self) -> loops.Calls:
        return loops.Calls(self.model.call, self.n_outputs, self.model.buffer_rows)

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes of mixed rows and of model calls; the model's operations are unknown."""
        state = loops.mask_bytes(m, self.n_columns)
        if self.background is None:
            b = STREAMED_ROWS
        else:
            b = len(self.background)
        mixes = loops.mixed_bytes(self._calls, n, b, max(m, 1), self.n_columns)
        return Cost(
            state_bytes=state,
            prepare_bytes=2 * state,
            task_bytes=mixes + self.model.predict_bytes(min(self.model.buffer_rows, n * b * m)),
            operations=math.inf,
            predictions=float(m) * n * b,
        )

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        return {
            "value": "marginal",
            **self.model.fingerprint(),
            **self.link.fingerprint(),
            "background": None if self.background is None else _digest(self.background),
            "weights": None if self.data_weights is None else _digest(self.data_weights),
            "sample_of": self.sample_of,
            "players": self.players.fingerprint(),
        }


def _is_streamed(background: Any) -> bool:
    """Whether the background is a table to be read by spans, and not copied to workers."""
    is_named = isinstance(background, str | os.PathLike | RowReader)
    return is_named or is_lazy(background) or is_scanned(background)


def _rows_of(background: Any) -> FloatArray:
    """The background (b, columns) in memory; InputError unless it is a non-empty table."""
    rows = np.array(floats_of(background, "background"))
    if rows.ndim != 2 or not len(rows):
        raise InputError(
            f"background has shape {rows.shape}: give at least one row, as (rows, columns)"
        )
    return rows


def _checked_population(given: Any, background: FloatArray | None) -> int:
    """The number of rows that a background in memory is a sample of; InputError if there are fewer."""
    if background is None:
        raise InputError(
            "sample_of is for a background in memory, and every row of this one counts: leave it out"
        )
    (population,) = checked(sample_of=given)
    if population < len(background):
        raise InputError(
            f"sample_of is {population:,}, and the background has {len(background):,} rows: give the "
            "number of rows that they were drawn from"
        )
    return int(population)


def _digest(array: FloatArray) -> str:
    return hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
