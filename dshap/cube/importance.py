"""The importance of the features of a stored cube, from the summaries of its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dshap.core.late import xr
from dshap.core.places import Place
from dshap.core.records import FloatArray
from dshap.cube.layout import reading, refuse_foreign
from dshap.cube.metadata import known_facts
from dshap.cube.receipts import block_name
from dshap.cube.reference_copy import receipts_of
from dshap.cube.stored_rows import whole_array
from dshap.cube.summary import (
    Estimate,
    estimates,
    magnitude_deviations,
    named_means,
    share_of_coalitions,
)


@dataclass(frozen=True)
class Importance:
    """Means over the rows of a cube, each (feature, output), with their standard errors."""

    rows: int
    scale: str
    """The scale of the attributions; empty if the cube states none."""
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    means: Mapping[str, Estimate]
    """`mean`, `mean_magnitude` and `mean_square` of the attributions."""

    @classmethod
    def of(
        cls,
        means: FloatArray,
        features: Sequence[str],
        outputs: Sequence[str],
        rows: int,
        scale: str,
    ) -> Importance:
        """From means of statistics (replicate, statistic, feature, output)."""
        found = estimates(named_means(means))
        return cls(rows, scale, tuple(map(str, features)), tuple(map(str, outputs)), found)

    def dataset(self) -> xr.Dataset:
        """The table of `feature_ranking` without `residual`; its attributes are `rows` and `scale`."""
        dims = ("feature", "output")
        tables = {name: each.value for name, each in self.means.items()}
        tables |= {f"{name}_std_error": each.std_error for name, each in self.means.items()}
        tables["root_mean_square"] = np.sqrt(tables["mean_square"])
        names = {"feature": list(self.features), "output": list(self.outputs)}
        out = xr.Dataset({name: (dims, values) for name, values in tables.items()}, names)
        return out.assign_attrs(rows=self.rows, scale=self.scale)


def feature_ranking(path: Place) -> xr.Dataset:
    """Rank the features by their global importance, from the summaries of the finished blocks.

    Returns `mean`, `mean_magnitude` and `mean_square` (feature, output) of the attributions, in
    milliseconds at any number of rows.  Each has a `<name>_std_error`, the error of sampling
    coalitions and of random draws.  All instances share the coalitions and the draws, so this error
    comes from the statistics of the jackknife groups and does not fall with the number of instances;
    it is 0 if all coalitions are evaluated and nothing is drawn.  The upward bias of |φ̂| and φ̂²
    by sampled coalitions is subtracted (`dshap.cube.summary.estimates`): a player without effect has
    about 0.  Nothing is subtracted for draws (`dshap.cube.summary`).  `root_mean_square` has
    no error of its own: take the square roots of the ends of the interval of `mean_square`.
    `residual` (output) is the largest |Σφ + base value − prediction| of a row.
    """
    table = stored_importance(path).dataset()
    return table.assign(residual=("output", largest_residual(path)))


def stored_importance(path: Place) -> Importance:
    """The importance of the features of the cube at `path`, over its finished blocks."""
    refuse_foreign(path)
    with reading(path):
        means, count = _block_means(path)
        features, outputs = (whole_array(path / name).tolist() for name in ("feature", "output"))
        scale = str(known_facts(path / "attribution").attributes.get("scale", ""))
    return Importance.of(means, features, outputs, count, scale)


def _block_means(path: Place) -> tuple[FloatArray, int]:
    """Means (1 + R, statistic, feature, output) over the finished rows, and their number."""
    counts = whole_array(path / "blocks" / "count")
    finished = _finished(path, len(counts))
    count = int(counts[finished].sum())
    sums = whole_array(path / "blocks" / "attribution")[finished].sum(axis=0)
    return sums / max(count, 1), count


def stored_deviations(path: Place) -> FloatArray:
    """(R, feature, output): changes of mean |φ| by sampled coalitions, from block summaries.

    The squares add up to the square of `mean_magnitude_std_error` of `feature_ranking`.
    """
    with reading(path):
        means, _ = _block_means(path)
    return magnitude_deviations(named_means(means))


def stored_share(path: Place) -> FloatArray:
    """(feature, output): `share_of_coalitions`, from the summaries of the finished blocks."""
    with reading(path):
        means, _ = _block_means(path)
    return share_of_coalitions(named_means(means))


def largest_residual(path: Place) -> FloatArray:
    """(output,): the largest |Σφ + base value − prediction| over the rows of the finished blocks.

    NaN if no block is finished.
    """
    with reading(path):
        residual = whole_array(path / "blocks" / "residual")
        finished = _finished(path, len(residual))
    if len(finished):
        return np.asarray(residual[finished].max(axis=0))
    return np.full(residual.shape[1], np.nan)


def _finished(path: Place, n_blocks: int) -> NDArray[np.intp]:
    """The indices of the blocks that have a receipt."""
    names = set(receipts_of(path).names())
    return np.flatnonzero([block_name(block) in names for block in range(n_blocks)])
