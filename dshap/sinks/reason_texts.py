"""Reasons in words for the column `reason_text`: a sentence for a row, or a phrase for a feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.analysis.reason_sentences import (
    RowNumbers,
    SentenceWriter,
    decimals_of_row,
    sentences_of_rows,
)
from dshap.core.late import pa
from dshap.core.records import FloatArray


@dataclass(frozen=True)
class RowsInWords:
    """Rows of a cube, whose reasons are written by a writer of sentences."""

    writer: SentenceWriter
    phi: FloatArray
    """(n, d, k)."""
    prediction: FloatArray
    """(n, k)."""
    base_value: FloatArray
    """(n, k)."""
    columns: Mapping[str, NDArray[Any]]
    """column -> its values (n,)."""
    outputs: Sequence[str]
    """(k,)"""
    classes: Sequence[str | None] | None
    """(n,): the class that each row is explained for; None if all outputs are."""
    are_all: bool
    """Whether these are all outputs of the cube, so that the largest one is the predicted class."""

    def sentences(self) -> pa.Array:
        """The sentence (n · k,) about each row and output; null if a row has no attributions."""
        if self.are_all:
            return pa.array(self._sentences(slice(None)).ravel(), pa.string())
        each = [self._sentences(slice(j, j + 1)) for j in range(len(self.outputs))]
        return pa.array(np.concatenate(each, axis=1).ravel(), pa.string())

    def _sentences(self, at: slice) -> NDArray[Any]:
        return sentences_of_rows(
            self.writer,
            self.phi[..., at],
            self.prediction[:, at],
            self.base_value[:, at],
            self.columns,
            self.outputs[at],
            self.classes,
        )

    def phrases(
        self, rows: NDArray[np.intp], outputs: NDArray[np.intp], features: NDArray[np.intp]
    ) -> pa.Array:
        """The phrase (lines,) about a feature of a row: "a guarantor lowered it (−0.23)".

        It is null if a line has no feature, which then is −1.
        """
        found: list[str | None] = []
        for i, j, feature in zip(rows.tolist(), outputs.tolist(), features.tolist(), strict=True):
            if feature < 0:
                found.append(None)
                continue
            phi = self.phi[i, :, j]
            values = {name: each[i] for name, each in self.columns.items()}
            row = RowNumbers(phi, self.prediction[i, j], self.base_value[i, j], values)
            found.append(self.writer.phrase(row, feature, decimals_of_row(phi)))
        return pa.array(found, pa.string())
