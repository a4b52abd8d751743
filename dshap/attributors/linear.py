"""Closed form for linear models of Gaussian columns: one matrix for each output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dshap.attributors.closed_form import Checked, ClosedForm
from dshap.core.blocks import EMPTY, FULL
from dshap.core.errors import InputError
from dshap.core.players import Players
from dshap.core.records import BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import checked, finite_array
from dshap.core.types import Design
from dshap.designs.exact import exact
from dshap.designs.permutation import LEAST_UNITS, permutation
from dshap.values.linear_gaussian import LinearGaussian, LinearTransform
from dshap.values.normal import SUM_ROWS, NormalTable

MAX_EXACT_PLAYERS = 16
"""The most players whose coalitions are all listed; above, random orders are used."""
DEFAULT_PERMUTATIONS = 1_000
BATCH_BYTES = 32 << 20
"""Memory for the matrices of a batch of coalitions."""


@dataclass(frozen=True, eq=False)
class Linear(ClosedForm):
    """The closed form φ = M (x − μ) of a linear model of Gaussian columns; see `LinearGaussian`."""

    value: LinearGaussian

    @property
    def _design(self) -> Design:
        """The design that the transform is computed with: all coalitions, or random orders."""
        return transform_design(len(self.value.players), self.value.n_permutations, self.value.seed)

    @property
    def sample_size(self) -> int:
        return self.value.sample_size

    def choose(self, sample: FloatArray) -> State:
        """`shift` (columns,): see `Shifted`."""
        return self.value.choose(sample)

    def chosen(self, choice: State) -> Self:
        return replace(self, value=self.value.chosen(choice))

    @property
    def n_replicates(self) -> int:
        """R: number of jackknife groups of the standard errors of M; 0 if M is exact."""
        if self.value.is_interventional:
            return 0
        kept = self.value.transform
        if kept is None:
            return self._design.info.n_replicates
        return len(kept.replicates)

    @property
    def why_no_errors(self) -> str:
        if self.value.is_interventional:
            return ""
        kept = self.value.transform
        if kept is None:
            return self._design.info.why_no_errors
        if not kept.has_nan_errors:
            return ""
        return (
            "n_permutations of the transform is too few for standard errors: give "
            f"{2 * LEAST_UNITS} or more to linear_transform"
        )

    def moments(self, rows: FloatArray) -> Moments:
        """`sum` (columns,) and `outer` (columns, columns) of x − shift, and `count`.

        Empty if Σ was given.
        """
        return self.value.sums(rows)

    def prepare(self, moments: Moments) -> State:
        """Make `matrix` (d, columns, k), `replicates` (R, …), `mean` (columns,), `base` (k,)."""
        matrix, replicates, mean = self._matrices(moments)
        base = self.value.model(mean[None])[0]
        return State({"matrix": matrix, "replicates": replicates, "mean": mean, "base": base})

    def _matrices(self, moments: Moments) -> tuple[FloatArray, FloatArray, FloatArray]:
        """M (d, columns, k), M of the jackknife groups (R, …), and μ (columns,)."""
        value = self.value
        model = self.value.model
        players = self.value.players
        if value.transform is not None:
            kept = [value.transform.players.names.index(name) for name in players.names]
            matrix, replicates = value.transform.of_model(model.coef)
            return matrix[kept], replicates[:, kept], value.transform.mean
        table = value.table_of(moments)
        if value.is_interventional:
            matrix = players.members[:, :, None] * model.coef.T[None]
            return matrix, np.zeros((0, *matrix.shape)), table.mean
        transform = make_transform(table, players, self._design, model.feature_names)
        return (*transform.of_model(model.coef), table.mean)

    def phi(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k) = (x − μ) M."""
        return _product(rows - state["mean"], state["matrix"])

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """No error beyond rounding: summed over players, M is β."""
        return Checked(np.zeros(self.value.n_outputs), {})

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """φ_(g) (R, n, d, k)."""
        return _product(rows - state["mean"], state["replicates"])

    @property
    def coalitions(self) -> LinearCoalitions:
        return LinearCoalitions(self.value)

    def check_coalitions(self) -> None:
        if self.value.transform is not None:
            raise InputError(
                "undo_codes asks for the value of one more coalition a code, and a LinearTransform "
                "contains attributions alone: leave undo_codes out, or give LinearGaussian the mean "
                "and covariance, or data, in place of transform"
            )

    def describe(self) -> str:
        """One line on how M is computed."""
        if self.value.is_interventional or self.value.transform is not None:
            return "one matrix an output"
        info = self._design.info
        name = self._design.fingerprint()["design"]
        return f"one matrix an output, from {info.n_coalitions:,} coalitions ({name})"

    def stated_error(self, state: State) -> dict[str, Any]:
        """How M was computed, for the cube."""
        if self.value.is_interventional:
            return {"kind": "linear, interventional"}
        design = self._design
        if self.value.transform is not None:
            how = "a kept transform"
        else:
            how = str(design.fingerprint()["design"])
        return {
            "kind": "linear, observational",
            "matrix": how,
            "coalitions": design.info.n_coalitions,
        }

    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations for n rows.

        The state contains the matrices of all groups; `prepare` needs a covariance with its parts
        and, for conditional values, the transforms of all groups, their sums and a batch of
        coalitions; a micro-block also needs the matrices reordered for their product.
        """
        c = self.value.n_columns
        k = self.value.n_outputs
        d = len(self.value.players)
        groups = self.n_replicates
        state = 8 * (1 + groups) * d * c * k + 8 * (c + k)
        moments = 8 * (c * c + c + 1)
        transforms = (not self.value.is_interventional) * (
            32 * (1 + groups) * d * c * c + 3 * BATCH_BYTES
        )
        return Cost(
            state_bytes=state,
            prepare_bytes=48 * c * c + transforms + 2 * state,
            task_bytes=8 * n * (2 * c + (2 + 2 * groups) * d * k) + state,
            operations=2.0 * n * (1 + groups) * c * d * k,
            moment_bytes=moments,
            moment_task_bytes=8 * 3 * min(n, SUM_ROWS) * c + 2 * moments,
            moment_operations=2.0 * n * c**2,
        )


@dataclass(frozen=True, eq=False)
class LinearCoalitions:
    """Values of single coalitions: v_S(x) = v(∅) + β G_S (x − μ), with E[x | x_S] = μ + G_S (x − μ).

    Interventional values have the identity on the columns of S in place of G_S.
    """

    value: LinearGaussian
    needs_predictions = False

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """See `Linear.moments`."""
        return self.value.sums(rows)

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """Make `matrix` (m, columns, k), β G_S of each coalition, `mean` (columns,), `base` (k,)."""
        coef = self.value.model.coef
        table = self.value.table_of(Moments() if moments is None else moments)
        columns = self.value.players.columns(masks)
        if self.value.is_interventional:
            matrix = columns[:, :, None] * coef.T[None]
        else:
            matrix = np.einsum("ka,mab->mbk", coef, _slopes(table, columns))
        base = self.value.model(table.mean[None])[0]
        return State({"matrix": matrix, "mean": table.mean, "base": base})

    def join(self, states: Sequence[State]) -> State:
        """The one state that is given."""
        (state,) = states
        return state

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """v_S(x) (n, m, k)."""
        return state["base"] + _product(rows - state["mean"], state["matrix"])


def _product(offset: FloatArray, matrix: FloatArray) -> FloatArray:
    """Offsets (n, columns) times matrices (…, d, columns, k), as (…, n, d, k)."""
    *groups, d, c, k = matrix.shape
    return np.asarray(offset @ matrix.swapaxes(-3, -2).reshape(*groups, c, d * k)).reshape(
        *groups, len(offset), d, k
    )


def linear_transform(
    mean: ArrayLike,
    covariance: ArrayLike,
    *,
    players: Mapping[str, Sequence[str | int]] | None = None,
    feature_names: Sequence[str] | None = None,
    n_permutations: int | None = None,
    ridge: float = 0.0,
    seed: int = 0,
) -> LinearTransform:
    """Compute the part of linear models' Shapley values that depends on the data alone, to reuse it.

    With the result, explaining another linear model on the same columns takes one matrix product a
    row.  The columns are assumed to be jointly normal.

    Parameters
    ----------
    mean : (columns,)
        The mean μ of the columns.
    covariance : (columns, columns)
        The covariance Σ of the columns.
    players, feature_names : as in `Marginal`
    n_permutations : int, optional
        Number of random orders, such as 2_000.  It is even, because it counts each order and its
        reversal.  By default all coalitions are evaluated if there are at most 16 players; with
        more players, 1,000 orders are used.
    ridge : float
        Number added to the diagonal of the correlation matrix, such as 1e-4, if columns determine
        one another.
    seed : int
        Seed of the random orders.

    Returns
    -------
    LinearTransform
        `LinearGaussian(coef, intercept, transform=...)` accepts it; `save` and `load` store it in
        a file.

    Raises
    ------
    InputError
        An array that is not a covariance, or columns that determine one another.

    Notes
    -----
    E[x | x_S] = μ + G_S (x − μ), where G_S is the identity in the rows of present columns and Σ_CS
    Σ_SS⁻¹ in the rows of absent columns C.  The result contains T[i] = Σ_S operator[S, i] G_S for
    each player i, with the operator of the design.  Source: the notes on LinearExplainer with
    correlated features of the shap package, whose transform averages over permutations too.

    Cost: one factorisation for each of m coalitions, m·columns³/3 operations.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> mean, covariance = np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> transform = dshap.linear_transform(mean, covariance)
    >>> value = dshap.values.LinearGaussian([2.0, 0.0], transform=transform)
    >>> cube = dshap.explain(value, np.array([[1.0, 1.0]]))
    >>> cube.attribution.values[0, :, 0].round(9).tolist()
    [1.5, 0.5]
    """
    mean = finite_array("mean", mean, (1,), "(columns,)")
    covariance = finite_array("covariance", covariance, (2,), "(columns, columns)")
    ridge, seed, feature_names = checked(ridge=ridge, seed=seed, feature_names=feature_names)
    table = NormalTable.of_covariance(mean, covariance, ridge)
    groups = Players.of(len(mean), feature_names, players)
    if feature_names is None:
        names = None
    else:
        names = tuple(str(name) for name in feature_names)
    return make_transform(table, groups, transform_design(len(groups), n_permutations, seed), names)


def transform_design(d: int, n_permutations: int | None, seed: int) -> Design:
    """All coalitions if the players are few, random orders if they are many."""
    if n_permutations is None and d <= MAX_EXACT_PLAYERS:
        return exact(d)
    return permutation(
        d, DEFAULT_PERMUTATIONS if n_permutations is None else n_permutations, seed=seed
    )


def make_transform(
    table: NormalTable, players: Players, design: Design, feature_names: tuple[str, ...] | None
) -> LinearTransform:
    """The transform T of a design: Σ_S score_S G_S for each player, then the design's finish.

    G_S (columns²) is the matrix of E[x | x_S]: see `_slopes`.

    Raises
    ------
    InputError
        Columns that determine one another.
    """
    c = len(table.mean)
    d = design.info.n_players
    table.check(feature_names or tuple(f"x{j}" for j in range(c)))
    k = c * c
    step = max(1, BATCH_BYTES // (8 * c * c))
    sums = np.zeros((1, d, k))
    groups = np.zeros(
        (
            design.info.n_replicates,
            1,
            design.info.group_columns if design.info.n_replicates else d,
            k,
        )
    )
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
    return LinearTransform(
        table.mean, values.reshape(d, c, c), replicates.reshape(-1, d, c, c), players, feature_names
    )


def _slopes(table: NormalTable, columns: BoolArray) -> FloatArray:
    """G_S (m, columns, columns) with E[x | x_S] = μ + G_S (x − μ), for m coalitions of columns.

    Coalitions with the same number of varying columns are solved together.
    """
    out = np.zeros((*columns.shape, columns.shape[1]))
    out[:, np.arange(columns.shape[1]), np.arange(columns.shape[1])] = columns
    present = columns & table.varies
    absent = ~columns & table.varies
    sizes = present.sum(axis=1)
    # from correlations: a covariance of columns in units of different sizes is ill-conditioned
    correlation = table.correlation
    deviation = table.deviation
    for size in np.unique(sizes[(sizes > 0) & absent.any(axis=1)]).tolist():
        alike = np.flatnonzero(sizes == size)
        inside = np.nonzero(present[alike])[1].reshape(len(alike), size)
        outside = np.nonzero(absent[alike])[1].reshape(len(alike), -1)
        within = correlation[inside[:, :, None], inside[:, None, :]]
        slope = np.linalg.solve(
            within, correlation[inside[:, :, None], outside[:, None, :]]
        ).swapaxes(1, 2)
        slope *= deviation[outside][:, :, None] / deviation[inside][:, None, :]
        out[alike[:, None, None], outside[:, :, None], inside[:, None, :]] = slope
    return out
