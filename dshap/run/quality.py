"""MSE_v, the quality of conditional values without truth: what `mse_v` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from dshap.attributors.choice import Chosen
from dshap.core.capabilities import is_of_texts, streams_data
from dshap.core.errors import InputError
from dshap.core.records import BoolArray, FloatArray
from dshap.core.types import Design

__all__ = ["Quality", "check_measurable", "mean_by_sizes"]


@dataclass(frozen=True, eq=False)
class Quality:
    """MSE_v of a value function on held-out rows."""

    mse: FloatArray
    """(k,): mean over rows and proper coalitions of (f − v_S)², each that there is counted once:
    `mean_by_sizes`."""
    mse_of_coalitions: FloatArray
    """(m, k): mean over rows."""
    masks: BoolArray
    """(m, d): the proper coalitions."""
    variance: FloatArray
    """(k,): of f over these rows."""
    n_rows: int
    link: str = ""
    """What follows the expectation in the attributions; MSE_v is of f and E f, before it.  Empty:
    nothing."""

    @property
    def by_size(self) -> FloatArray:
        """(d − 1, k): mean over the coalitions of 1, 2, … players; NaN where the design has
        none."""
        return means_of_sizes(self.mse_of_coalitions, self.masks)

    @property
    def interpolated_share(self) -> float:
        """Of all proper coalitions, the part whose size the design has none of: MSE_v is
        interpolated there."""
        is_there = np.isin(np.arange(1, self.masks.shape[1]), self.masks.sum(axis=1))
        return float(_shares_of_sizes(self.masks.shape[1])[~is_there].sum())

    def to_dict(self) -> dict[str, Any]:
        """What a cube says of it: for each output MSE_v, its share of the variance, and MSE_v by
        coalition size."""
        sizes = self.by_size
        return {
            "mse": self.mse.tolist(),
            "share_of_variance": [
                m / v if v > 0 else None for m, v in zip(self.mse, self.variance, strict=True)
            ],
            "by_size": [
                [None if np.isnan(each) else float(each) for each in size] for size in sizes
            ],
            "rows": self.n_rows,
            "coalitions": len(self.masks),
            "interpolated_share": self.interpolated_share,
            "of": f"expectations, before the link {self.link}" if self.link else "expectations",
        }

    def __str__(self) -> str:
        shares = ", ".join(
            f"{mse:.6g} ({mse / v:.2%} of the variance)" if v > 0 else f"{mse:.6g}"
            for mse, v in zip(self.mse, self.variance, strict=True)
        )
        return f"MSE_v {shares}; {self.n_rows:,} rows, {len(self.masks):,} coalitions"


def means_of_sizes(of_coalitions: FloatArray, masks: BoolArray) -> FloatArray:
    """(d − 1, k): means of (m, k) over the coalitions masks (m, d) of 1, 2, … players; NaN where
    there are none."""
    sizes = masks.sum(axis=1)
    chosen = [of_coalitions[sizes == size] for size in range(1, masks.shape[1])]
    return np.array(
        [
            each.mean(axis=0) if len(each) else np.full(of_coalitions.shape[1], np.nan)
            for each in chosen
        ]
    )


def mean_by_sizes(of_coalitions: FloatArray, masks: BoolArray) -> FloatArray:
    """Σ_s C(d, s)/(2^d − 2) · mean over the coalitions of s players (k,), of values (m, k) of the
    coalitions (m, d).

    A design takes outer sizes more often than there are coalitions of them; within a size it draws
    evenly, so that this estimates the mean over *all* proper coalitions, and is it where all are
    there.  A size that the design has none of takes the straight line between its neighbours that
    are there (beyond the outermost, their value).
    """
    means = means_of_sizes(of_coalitions, masks)
    sizes = np.arange(1, masks.shape[1])
    is_there = np.isin(sizes, masks.sum(axis=1))
    # (d − 1, k)
    filled = np.stack(
        [np.interp(sizes, sizes[is_there], column[is_there]) for column in means.T], axis=1
    )
    mean: FloatArray = _shares_of_sizes(masks.shape[1]) @ filled
    return mean


def _shares_of_sizes(d: int) -> FloatArray:
    """C(d, s)/(2^d − 2) (d − 1,) of s = 1 to d − 1; by logarithms, for any d."""
    sizes = np.arange(1, d)
    logs = -gammaln(sizes + 1) - gammaln(d - sizes + 1)
    shares: FloatArray = np.exp(logs - logs.max(initial=-np.inf))
    return shares / shares.sum()


def check_measurable(chosen: Chosen) -> Design:
    """The design whose coalitions MSE_v is a mean over; refuses what has none."""
    value = chosen.value
    if is_of_texts(value):
        raise InputError(
            "MSE_v is a mean over one list of coalitions, and texts have a list for each length: "
            "leave quality out"
        )
    if chosen.design is None:
        raise InputError(
            "MSE_v is a mean over coalitions, and a closed form has none: give design='exact', or "
            "one of "
            "dshap.designs.kernelshap; or leave quality out"
        )
    if chosen.info.has_graph:
        raise InputError(
            "MSE_v is a mean over the coalitions of each size, and those of this design are "
            "neighbours on a graph: "
            "give design='exact', or one of dshap.designs.kernelshap; or leave quality out"
        )
    if len(value.players) == 1:
        raise InputError(
            "MSE_v is a mean over proper coalitions, and a game of one player "
            f"({value.players.names[0]}) has none: "
            "give two players or more, or leave quality out"
        )
    if streams_data(value):
        raise InputError(
            "MSE_v would read a background that is streamed for every row again: give rows in "
            "memory, or leave quality "
            "out"
        )
    return chosen.design
