"""MSE_v: how well a value function approximates f, without knowing the true values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dshap.core.html import table_html
from dshap.core.records import BoolArray, FloatArray

Note = dict[str, Any]
"""The note of MSE_v in a cube, as JSON: `Quality.to_dict`, and facts about the rows."""


@dataclass(frozen=True, eq=False)
class Quality:
    """The result of `dshap.mse_v`: how well a value function estimates conditional expectations.

    Smaller is better.  All errors are in squared units of the model's output, and are measured on
    rows from which nothing was learned.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> train, test = np.random.default_rng(0).normal(size=(2, 100, 2))
    >>> value = dshap.values.Marginal(lambda x: x[:, 0] + x[:, 1], train)
    >>> quality = dshap.mse_v(value, test, progress=False)
    >>> type(quality).__name__, quality.by_size.shape, quality.n_rows
    ('Quality', (1, 1), 100)
    """

    mse: FloatArray
    """(k,): MSE_v, the mean of (f − v_S)² over rows and over all proper coalitions, each with the
    same weight; from a sample it is estimated by `mean_by_sizes`."""
    mse_of_coalitions: FloatArray
    """(m, k): the mean of (f − v_S)² over rows, for each evaluated coalition."""
    masks: BoolArray
    """(m, d): the evaluated coalitions, without the empty and the full one."""
    variance: FloatArray
    """(k,): the variance of f over these rows, to compare MSE_v with."""
    n_rows: int
    link: str = ""
    """The link of the attributions, empty for none.  MSE_v compares f with its expectation, before
    the link."""

    @property
    def by_size(self) -> FloatArray:
        """(d − 1, k): means over coalitions of 1, 2, … players; NaN for a size without any."""
        return means_of_sizes(self.mse_of_coalitions, self.masks)

    @property
    def interpolated_share(self) -> float:
        """The share of all proper coalitions whose sizes the design does not contain.

        MSE_v is interpolated for these sizes; 0 means that nothing is interpolated.
        """
        is_there = np.isin(np.arange(1, self.masks.shape[1]), self.masks.sum(axis=1))
        return float(_shares_of_sizes(self.masks.shape[1])[~is_there].sum())

    def to_dict(self) -> Note:
        """The note in a cube: for each output MSE_v, its share of the variance, MSE_v by size."""
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
        return f"MSE_v {note_text(self.to_dict())}"

    def _repr_html_(self) -> str:
        sizes = [f"{size} present" for size in range(1, self.masks.shape[1])]
        share = np.divide(
            self.mse, self.variance, np.full_like(self.mse, np.nan), where=self.variance > 0
        )
        rows = [
            [str(output), f"{mse:.6g}", f"{part:.2%}", *(f"{each:.4g}" for each in of_sizes)]
            for output, mse, part, of_sizes in zip(
                range(len(self.mse)), self.mse, share, self.by_size.T, strict=True
            )
        ]
        return table_html(
            f"MSE_v over {len(self.masks):,} coalitions and {self.n_rows:,} rows",
            ["output", "MSE_v", "of the variance", *sizes],
            rows,
            [
                "the smaller, the nearer to E[f(X) | present columns], on rows that were not used "
                "for learning"
            ],
        )


def note_text(note: Mapping[str, Any]) -> str:
    """MSE_v of each output with its share of the variance, and the set that it is a mean over."""
    shares = ", ".join(
        f"{mse:.6g}" if share is None else f"{mse:.6g} ({share:.2%} of the variance)"
        for mse, share in zip(note["mse"], note["share_of_variance"], strict=True)
    )
    text = f"{shares}, over {note['coalitions']:,} coalitions and {note['rows']:,} rows"
    if note.get("held_out_of_the_fit"):
        text += " held out of the fit"
    if note.get("learnt_from"):
        text += "; the values were learnt from these rows too"
    return text


def means_of_sizes(of_coalitions: FloatArray, masks: BoolArray) -> FloatArray:
    """Means (d − 1, k) of values (m, k) over the coalitions of 1, 2, … players; NaN for none."""
    sizes = masks.sum(axis=1)
    chosen = [of_coalitions[sizes == size] for size in range(1, masks.shape[1])]
    return np.array(
        [
            each.mean(axis=0) if len(each) else np.full(of_coalitions.shape[1], np.nan)
            for each in chosen
        ]
    )


def mean_by_sizes(of_coalitions: FloatArray, masks: BoolArray) -> FloatArray:
    """The mean (k,) over all proper coalitions, estimated from values (m, k) of coalitions (m, d).

    It is Σ_s C(d, s)/(2^d − 2) · mean over the listed coalitions of s players.

    A design samples small and large coalitions more often than their share of all coalitions, but
    draws uniformly within a size; so this estimates the mean over *all* proper coalitions, and
    equals it if all are listed.  A size without coalitions is interpolated linearly between the
    nearest sizes with some (beyond the outermost, their value).
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
    """The shares C(d, s)/(2^d − 2) of sizes s = 1 to d − 1: (d − 1,).

    Logarithms make them finite for any d.
    """
    sizes = np.arange(1, d)
    logs = -scipy.special.gammaln(sizes + 1) - scipy.special.gammaln(d - sizes + 1)
    shares: FloatArray = np.exp(logs - logs.max(initial=-np.inf))
    return shares / shares.sum()
