"""Shapley values of E[x | x_S] itself, for normal x: the transform that every linear model on the same data shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from dshap.blocks import EMPTY, FULL
from dshap.checks import checked, finite_array
from dshap.designs import exact, permutation
from dshap.players import Players
from dshap.records import BoolArray, FloatArray, Record
from dshap.types import Design
from dshap.values.normal import NormalTable

__all__ = ["MAX_EXACT_PLAYERS", "LinearTransform", "linear_transform", "make_transform", "transform_design"]

MAX_EXACT_PLAYERS = 16
"""All coalitions up to here, permutations above."""
DEFAULT_PERMUTATIONS = 1_000
BATCH_BYTES = 32 << 20
"""Of the matrices of a batch of coalitions."""


@dataclass(frozen=True, eq=False)
class LinearTransform:
    """T (d, columns, columns): the Shapley value of player i in the game v_S = E[x | x_S] − μ is T[i] (x − μ).

    A model f(x) = βx + b has φ_i = β T[i] (x − μ): one contraction, whatever β is.
    """

    mean: FloatArray
    """μ (columns,)"""
    values: FloatArray
    """T (d, columns, columns)"""
    replicates: FloatArray
    """(R, d, columns, columns): T of the jackknife groups, of the permutations; R = 0 where all coalitions count."""
    players: Players
    feature_names: tuple[str, ...] | None
    """Of the columns, where they are known."""

    def of_model(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """M (d, columns, k) with φ = (x − μ) M of a model with coefficients (k, columns); M of the groups (R, …)."""
        both = np.concatenate([self.values[None], self.replicates])  # (1 + R, d, columns, columns)
        found = np.einsum("ka,rdab->rdbk", coef, both, optimize=True)
        return found[0], found[1:]

    def save(self, path: str | Path) -> None:
        """An .npz file, which opens with `numpy.load`."""
        arrays = {"mean": self.mean, "values": self.values, "replicates": self.replicates}
        texts = {"players": self.players.names, "feature_names": self.feature_names or ()}
        arrays |= {name: np.array([own.encode() for own in each], dtype=bytes) for name, each in texts.items()}
        Path(path).write_bytes(Record({**arrays, "members": self.players.members}).to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """What `save` wrote."""
        record = Record.load(path)
        names, columns = (tuple(own.decode() for own in record[name].tolist()) for name in ("players", "feature_names"))
        players = Players(names, record["members"])
        return cls(record["mean"], record["values"], record["replicates"], players, columns or None)


def linear_transform(
    mean: Any,
    covariance: Any,
    *,
    players: Mapping[str, Sequence[str | int]] | None = None,
    feature_names: Sequence[str] | None = None,
    n_permutations: int | None = None,
    ridge: float = 0.0,
    seed: int = 0,
) -> LinearTransform:
    """The transform of normal data, which a second model on the same data need not pay for again.

    Parameters
    ----------
    mean, covariance : (columns,) and (columns, columns)
    players, feature_names : as in `Marginal`
    n_permutations : int, optional
        Random orders, each with its reversal; even.  None: all coalitions up to 16 players, 1,000 orders above.
    ridge : added to the diagonal of the correlation matrix
    seed : of the orders

    Returns
    -------
    LinearTransform
        `LinearGaussian(coef, intercept, transform=...)` takes it; `save` and `load` keep it in a file.

    Raises
    ------
    InputError
        No covariance, or columns that determine one another.

    Notes
    -----
    E[x | x_S] = μ + G_S (x − μ), with the identity in the rows of present and Σ_CS Σ_SS⁻¹ in those of absent columns;
    T[i] = Σ_S operator[S, i] G_S of the design.  Source: the notes on LinearExplainer with correlated features of the
    shap package (its transform averages over permutations too).  One factorisation a coalition: m·columns³/3.
    """
    mean = finite_array("mean", mean, (1,), "(columns,)")
    covariance = finite_array("covariance", covariance, (2,), "(columns, columns)")
    ridge, seed, feature_names = checked(ridge=ridge, seed=seed, feature_names=feature_names)
    table = NormalTable.of_covariance(mean, covariance, ridge)
    own = Players.of(len(mean), feature_names, players)
    names = None if feature_names is None else tuple(str(name) for name in feature_names)
    return make_transform(table, own, transform_design(len(own.names), n_permutations, seed), names)


def transform_design(d: int, n_permutations: int | None, seed: int) -> Design:
    """All coalitions where they are few, else random orders."""
    if n_permutations is None and d <= MAX_EXACT_PLAYERS:
        return exact(d)
    return permutation(d, DEFAULT_PERMUTATIONS if n_permutations is None else n_permutations, seed=seed)


def make_transform(
    table: NormalTable, players: Players, design: Design, feature_names: tuple[str, ...] | None
) -> LinearTransform:
    """T of a design: values G_S (columns²) of every coalition times its scores, then the finish of the design.

    Raises
    ------
    InputError
        Columns that determine one another.
    """
    c, d = len(table.mean), design.info.n_players
    table.check(feature_names or tuple(f"x{j}" for j in range(c)))
    k, step = c * c, max(1, BATCH_BYTES // (8 * c * c))
    sums = np.zeros((1, d, k))
    groups = np.zeros((design.info.n_replicates, 1, design.info.group_columns if design.info.n_replicates else d, k))
    for start in range(0, design.info.n_coalitions, step):
        block = design.block(start, min(start + step, design.info.n_coalitions))
        slopes = _slopes(table, players.columns(block.masks)).reshape(len(block.masks), k)
        sums[0] += block.score.T @ slopes
        for g, chosen, score in block.groups.parts():
            groups[g, 0] += score.T @ slopes[chosen]
    ends = _slopes(table, players.columns(np.array([[False] * d, [True] * d]))).reshape(2, 1, k)
    values = design.finish(sums, ends[EMPTY], ends[FULL])[0]
    replicates = np.zeros((0, d, k))
    if design.info.n_replicates:
        replicates = design.replicates(sums, groups, ends[EMPTY], ends[FULL])[:, 0]
    return LinearTransform(table.mean, values.reshape(d, c, c), replicates.reshape(-1, d, c, c), players, feature_names)


def _slopes(table: NormalTable, columns: BoolArray) -> FloatArray:
    """G_S (m, columns, columns): E[x | x_S] = μ + G_S (x − μ), of the coalitions columns (m, columns).

    Coalitions with as many columns that vary are solved together.
    """
    out = np.zeros((*columns.shape, columns.shape[1]))
    out[:, np.arange(columns.shape[1]), np.arange(columns.shape[1])] = columns
    present, absent = columns & table.varies, ~columns & table.varies
    sizes, correlation, deviation = present.sum(axis=1), table.correlation, table.deviation
    for size in np.unique(sizes[(sizes > 0) & absent.any(axis=1)]).tolist():
        own = np.flatnonzero(sizes == size)
        inside = np.nonzero(present[own])[1].reshape(len(own), size)
        outside = np.nonzero(absent[own])[1].reshape(len(own), -1)
        within = correlation[inside[:, :, None], inside[:, None, :]]
        slope = np.linalg.solve(within, correlation[inside[:, :, None], outside[:, None, :]]).swapaxes(1, 2)
        slope *= deviation[outside][:, :, None] / deviation[inside][:, None, :]
        out[own[:, None, None], outside[:, :, None], inside[:, None, :]] = slope
    return out
