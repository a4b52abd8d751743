"""The column that the attribution of a feature varies with beside its own: its colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dshap.analysis.column_values import Samples, binned, bins_of_sample, sampled_slices
from dshap.analysis.view import View
from dshap.core.histograms import CodeArray, number_of_bins
from dshap.core.records import FloatArray, Record

COLOUR_BINS = 8
"""Bins of the column that colours a picture, and of both columns if one is chosen."""
MOST_NAMES = 2
"""The most categories of a column that is chosen as colour: of more, those in the middle of the
colours would be no different from a mixture of the others."""
LEAST_SHARE = 0.01
"""The least part of the variance beside its own column that a column must account for to be the
colour."""


def strongest_partners(view: View, features: Sequence[str], samples: Samples) -> dict[str, str]:
    """The column by which the attributions of each feature differ most at the same value.

    It is "" if there is none.  See `dependence` for the rule.
    """
    places = [view.position(name) for name in features]
    phi = np.concatenate([view.attributions(rows)[:, places] for rows in sampled_slices(view.cube)])
    bins = {name: bins_of_sample(sample, COLOUR_BINS) for name, sample in samples.items()}
    cells = {name: binned(bins[name], samples[name]) for name in samples}
    colours = [name for name in samples if _is_colour(bins[name])]
    return {
        name: _strongest(name, own, cells, colours)
        for name, own in zip(features, phi.T, strict=True)
    }


def _is_colour(bins: Record) -> bool:
    """Whether values of a column have a place between low and high: numbers, or two categories."""
    return "categories" not in bins.arrays or number_of_bins(bins) - 1 <= MOST_NAMES


def _strongest(
    name: str, phi: FloatArray, cells: dict[str, CodeArray], colours: Sequence[str]
) -> str:
    """The column of some that accounts for most of the attributions (n,) of a feature.

    Its own column has been accounted for before.
    """
    is_there = ~np.isnan(phi)
    own = cells[name][is_there]
    phi = phi[is_there]
    left = phi - _cell_means(phi, own)
    if not left.any():
        return ""
    shares = {
        other: _predicted_share(left, own * (COLOUR_BINS + 1) + cells[other][is_there])
        for other in colours
        if other != name
    }
    best = max(shares, key=lambda other: shares[other], default="")
    if best and shares[best] >= LEAST_SHARE:
        return best
    return ""


def _predicted_share(values: FloatArray, cells: CodeArray) -> float:
    """The part of the squares of every second value that the means of the others' cells predict."""
    # Means of the same values would fit their noise, the more the smaller the cells.
    counts = np.bincount(cells[::2], minlength=cells.max() + 1)
    means = np.bincount(cells[::2], values[::2], len(counts)) / np.maximum(counts, 1)
    total = np.square(values[1::2]).sum()
    missed = np.square(values[1::2] - means[cells[1::2]]).sum()
    return float(1.0 - missed / max(total, 1e-300))


def _cell_means(values: FloatArray, cells: CodeArray) -> FloatArray:
    """For each value the mean of those in its cell."""
    counts = np.bincount(cells)
    means: FloatArray = (np.bincount(cells, values) / np.maximum(counts, 1))[cells]
    return means
