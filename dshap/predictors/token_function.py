"""A predict function of texts, which accepts token ids padded at the end."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import FloatArray
from dshap.predictors.predict_function import PredictFunction


class TokenFunction(PredictFunction):
    """A predict function of token ids, called with rows of floats (n, columns).

    Rows are NaN beyond the end of a text; predict gets ids (n, longest).

    Parameters
    ----------
    predict : ids (n, longest) int64 -> (n,) or (n, k)
    probe_rows : (n, columns)
        Rows for which the function is called at construction.
    padding : the id beyond the end of a text
    longest : number of columns that predict accepts; None: the texts' length, without padding
    output_names, buffer_rows, scale : as in `PredictFunction`
    """

    def __init__(
        self,
        predict: Callable[[Any], Any],
        probe_rows: FloatArray,
        padding: int,
        longest: int | None,
        *,
        output_names: Sequence[str] | None,
        buffer_rows: int,
        scale: str | None = None,
    ) -> None:
        self.padding = padding
        self.longest = longest
        super().__init__(
            predict,
            probe_rows,
            None,
            feature_names=None,
            output_names=output_names,
            buffer_rows=buffer_rows,
            scale=scale,
        )

    def of_length(self, n_columns: int) -> Self:
        """A copy for texts of at most this many tokens."""
        other = copy.copy(self)
        other.n_columns = n_columns
        return other

    def call(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k) by one call, with padded token ids."""
        n, width = rows.shape
        ids = np.full((n, self.longest or width), self.padding, np.int64)
        ids[:, :width] = np.where(np.isnan(rows), self.padding, rows)
        return super().call(ids)  # type: ignore[arg-type]

    def predict_bytes(self, n: int) -> int:
        """Peak bytes as for numbers, plus the rows of one length and the ids of a call."""
        return 3 * super().predict_bytes(n) + 24 * min(n, self.buffer_rows) * (self.longest or 0)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k); without padding, one call or more for each length."""
        if self.longest is not None:
            return super().__call__(rows)
        found = np.empty((len(rows), self.n_outputs))
        for length, at in by_length(rows):
            found[at] = super().__call__(rows[at, :length])
        return found


def by_length(rows: FloatArray) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield (length, positions) for rows that are NaN beyond the end of each text."""
    lengths = np.count_nonzero(~np.isnan(rows), axis=1)
    for length in np.unique(lengths).tolist():
        yield length, np.flatnonzero(lengths == length)
