"""Observational values of any model where the columns are taken as jointly Gaussian."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from dshap.errors import InputError
from dshap.types import BoolArray, FloatArray, Link, Moments, State
from dshap.values.predicted import PredictedValue

__all__ = ["Gaussian"]

SUM_ROWS = 4_096
"""Rows that are centred at once in the sums over the data."""
SHIFT_SAMPLE = 1_024
"""Rows whose mean is taken off before squares are summed: it lies within a few hundredths of a standard deviation."""
SMALLEST_EIGENVALUE = 1e-8
"""Of the correlation matrix of present columns.  Below, columns determine each other up to 1e-4 standard deviations,
and a row that does not obey is carried off by coefficients of up to 1e4."""
ROUNDING = 1e-12
"""What rounding leaves of 0: eigenvalues of a conditional correlation matrix, along which nothing is drawn, and the
variance of a constant column, relative to its mean square about the shift."""
TRIED_RIDGE = 1e-4
"""The ridge that the error of collinear columns proposes: coefficients of up to 100, variances larger by 0.01 %."""
INVOLVED, MOST_NAMES = 0.01, 6
"""Columns are named in that error where their part in the eigenvector is at least this share of the largest: that of
columns which do not belong is rounding."""


class Gaussian(PredictedValue):
    """v_S(x) = E f(x_S, X_S̄) with X_S̄ | x_S ~ N(μ_C + Σ_CS Σ_SS⁻¹ (x_S − μ_S), Σ_CC − Σ_CS Σ_SS⁻¹ Σ_SC), C = S̄.

    μ and Σ are the mean and the covariance (divisor n − 1) of all rows of `data`, by sums; the expectation is the mean
    of f over `n_samples` draws, so that any model will do.

    Parameters
    ----------
    predict : callable
        rows (n, columns) float64 -> (n,) or (n, k).  It runs on the workers; it must be picklable.
    data : array (n, columns), data frame, or any path, collection or source that `dshap.explain` takes
        The rows that μ and Σ, and v(empty), are learnt from; every row counts.  It is read by spans.
    n_samples : int
        Draws for each instance and coalition; even, because they come in antithetic pairs z, −z.
    ridge : float
        Added to the diagonal of the correlation matrix: for columns that determine one another.  Σ is then
        D (R + ridge·I) D throughout, D the standard deviations: variances grow by the factor 1 + ridge.
    seed : int
        Of the draws.
    players, feature_names, output_names, link, buffer_rows : see `Marginal`
        A path tells no columns: name them in `feature_names`, unless the estimator behind `predict` knows them.

    Raises
    ------
    PredictError
        The predict function fails or gives another shape than (n,) or (n, k).  It is tried at once, on the first rows
        of an array or a pandas data frame, on one row of zeros where reading `data` would be work.
    InputError
        Bad options; or, when coalitions are prepared, present columns that determine one another.

    Notes
    -----
    Source: Aas, Jullum & Løland, Explaining individual predictions when features are dependent: more accurate
    approximations to Shapley values (Artificial Intelligence 298, 2021), the multivariate Gaussian approach.

    The draws z (n_samples, columns), standard normal, are made from the seed alone and are common to all instances and
    all coalitions (common random numbers): Monte-Carlo errors of coalitions cancel in part in the attributions, and
    those of instances move together.  Absent columns take conditional mean + D A^½ z, with A the conditional
    correlation matrix and A^½ its symmetric root, which may be singular.  With antithetic pairs the mean of the draws
    is the conditional mean, so linear models have no Monte-Carlo error, and odd terms of any model have none.

    A column without variance in `data` tells nothing about others and keeps its mean where it is absent.

    n·m·n_samples model evaluations for n rows and m coalitions; 2·columns² operations a row of data, for each tile of
    coalitions; an eigendecomposition a coalition.
    """

    needs_moments = True
    takes_frames = False
    shared_arrays = ("mean", "draws")

    def __init__(
        self,
        predict: Callable[[FloatArray], Any],
        data: Any,
        *,
        n_samples: int = 1_000,
        ridge: float = 0.0,
        seed: int = 0,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        link: str | Link | None = None,
        buffer_rows: int = 65_536,
    ) -> None:
        _check_options(n_samples, ridge, seed)
        self.n_samples, self.ridge, self.seed = int(n_samples), float(ridge), int(seed)
        self.shift: FloatArray | None = None
        super().__init__(
            predict,
            data,
            players=players,
            feature_names=feature_names,
            output_names=output_names,
            buffer_rows=buffer_rows,
            link=link,
        )

    @property
    def sample_size(self) -> int:  # type: ignore[override]
        return SHIFT_SAMPLE if self.shift is None else 0

    def choose(self, sample: FloatArray) -> State:
        """`shift` (columns,): the mean of a sample (n, columns); sums of squares about it lose no digits."""
        return State({"shift": sample.mean(axis=0) if len(sample) else np.zeros(self.n_columns)})

    def chosen(self, choice: State) -> Self:
        """A copy that holds this shift."""
        resolved = copy.copy(self)
        resolved.shift = choice["shift"]
        return resolved

    def _shift(self) -> FloatArray:
        if self.shift is None:
            raise InputError("shift is not chosen yet: value = value.chosen(value.choose(sample))")
        return self.shift

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """`sum` (columns,), `outer` (columns, columns) of x − shift, and `count`; the same for any coalitions."""
        shift, c = self._shift(), self.n_columns
        total, outer = np.zeros(c), np.zeros((c, c))
        for start in range(0, len(rows), SUM_ROWS):
            centred = rows[start : start + SUM_ROWS] - shift
            total += centred.sum(axis=0)
            outer += centred.T @ centred
        return Moments({"sum": total, "outer": outer, "count": np.array(float(len(rows)))})

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """The conditional distributions of m coalitions, c columns.

        `columns` (m, c): present.  `mean` (c,): μ.  `regression` (m, c, c): Σ_CS Σ_SS⁻¹ in the rows of absent and the
        columns of present columns, else 0.  `factor` (m, c, c): D A^½ in absent rows and columns, else 0; times its
        transpose it is the conditional covariance.  `draws` (n_samples, c): standard normal, shared.
        """
        assert moments is not None
        table = _normal_table(moments, self._shift(), self.ridge)
        columns = self.players.columns(masks)
        regression, factor = np.zeros((2, *columns.shape, self.n_columns))  # each (m, c, c)
        for j, present in enumerate(columns):
            inside, outside = np.flatnonzero(present & table.varies), np.flatnonzero(~present & table.varies)
            conditional = _conditional(table.correlation, inside, outside)
            if conditional is None:
                raise InputError(self._collinear(table))
            slope, root = conditional
            spread = table.deviation[outside][:, None]
            regression[j][np.ix_(outside, inside)] = spread * slope / table.deviation[inside]
            factor[j][np.ix_(outside, outside)] = spread * root
        return State(
            {
                "columns": columns,
                "mean": table.mean,
                "regression": regression,
                "factor": factor,
                "draws": _antithetic(self.n_samples, self.n_columns, self.seed),
            }
        )

    def _collinear(self, table: _NormalTable) -> str:
        """The sentence for columns that determine one another: how nearly, which, and what to do."""
        among = np.flatnonzero(table.varies)
        eigenvalues, vectors = np.linalg.eigh(table.correlation[np.ix_(among, among)])
        part = np.abs(vectors[:, 0])
        ordered = [i for i in np.argsort(-part, kind="stable") if part[i] >= INVOLVED * part.max()]
        names = self.feature_names or tuple(f"x{j}" for j in range(self.n_columns))
        shown = ", ".join(names[among[i]] for i in ordered[:MOST_NAMES])
        more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
        return (
            f"the correlation matrix of {table.n_rows:,} rows of data, ridge {self.ridge:g} added, has smallest "
            f"eigenvalue {eigenvalues[0]:.2g} where {SMALLEST_EIGENVALUE:g} is needed: columns {shown}{more} determine "
            f"one another. Leave one of them out of the model, or set ridge={max(TRIED_RIDGE, 10 * self.ridge):g}"
        )

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k), in predict calls of at most `buffer_rows` rows."""
        mean, columns = state["mean"], state["columns"]
        offset = rows - mean
        values = np.empty((len(rows), len(columns), self.n_outputs))
        for j, present in enumerate(columns):
            centre = np.where(present, rows, mean + offset @ state["regression"][j].T)  # (n, columns)
            noise = state["draws"] @ state["factor"][j].T  # (n_samples, columns), 0 in present columns
            values[:, j] = self._mean_over(centre, noise)
        return values

    def _mean_over(self, centre: FloatArray, noise: FloatArray) -> FloatArray:
        """Mean over draws of f(centre + noise) (n, k)."""
        draw_step = min(len(noise), self.buffer_rows)
        row_step = max(1, self.buffer_rows // draw_step)
        total = np.zeros((len(centre), self.n_outputs))
        for first in range(0, len(centre), row_step):
            some = centre[first : first + row_step, None]  # (rows, 1, columns)
            for start in range(0, len(noise), draw_step):
                part = noise[start : start + draw_step]
                values = self._call((some + part).reshape(-1, self.n_columns))
                total[first : first + row_step] += values.reshape(len(some), -1, self.n_outputs).sum(axis=1)
        return total / len(noise)

    def state_bytes(self, m: int) -> int:
        c = self.n_columns
        return m * c * (1 + 16 * c) + 8 * c * (1 + self.n_samples)

    def moment_bytes(self, m: int) -> int:
        c = self.n_columns
        return 8 * (c * c + c + 1)

    def prepare_bytes(self, m: int) -> int:
        """Moments, state, the draws' two halves, a dozen matrices of one coalition, the masks as they are made."""
        c = self.n_columns
        return self.moment_bytes(m) + self.state_bytes(m) + 8 * c * (self.n_samples + 12 * c) + 3 * m * c

    def moment_task_bytes(self, n: int, m: int) -> int:
        return 8 * 3 * min(n, SUM_ROWS) * self.n_columns + 2 * self.moment_bytes(m)

    def task_bytes(self, n: int, m: int) -> int:
        """The model's own memory is not known here: twice the buffer is allowed for it."""
        c, k = self.n_columns, self.n_outputs
        buffer = min(self.buffer_rows, n * self.n_samples)
        return 8 * (3 * buffer * (c + k) + n * (4 * c + (m + 3) * k) + 2 * self.n_samples * c)

    def moment_operations(self, n: int, m: int) -> float:
        """Of one tile of coalitions, however many it holds."""
        return 2.0 * n * self.n_columns**2

    def operations(self, n: int, m: int) -> float:
        """Not known: a black box."""
        return float("inf")

    def fingerprint(self) -> dict[str, Any]:
        return {
            "value": "gaussian",
            **self._predict_fingerprint(),
            "n_samples": self.n_samples,
            "ridge": self.ridge,
            "seed": self.seed,
            "players": self.players.fingerprint(),
        }


class _NormalTable(NamedTuple):
    """The normal distribution that stands for a table."""

    mean: FloatArray
    """(columns,)"""
    deviation: FloatArray
    """(columns,): standard deviations; 1 where a column does not vary."""
    correlation: FloatArray
    """(columns, columns), the ridge added to its diagonal."""
    varies: BoolArray
    """(columns,)"""
    n_rows: int


def _normal_table(moments: Moments, shift: FloatArray, ridge: float) -> _NormalTable:
    count = float(moments["count"])
    centre = moments["sum"] / count
    covariance = (moments["outer"] - count * np.outer(centre, centre)) / max(count - 1.0, 1.0)
    variance = np.diag(covariance)
    varies = variance > ROUNDING * np.diag(moments["outer"]) / count
    deviation = np.sqrt(np.where(varies, variance, 1.0))
    correlation = covariance / np.outer(deviation, deviation)
    np.fill_diagonal(correlation, 1.0 + ridge)
    return _NormalTable(shift + centre, deviation, correlation, varies, int(count))


def _conditional(
    correlation: FloatArray, inside: np.ndarray, outside: np.ndarray
) -> tuple[FloatArray, FloatArray] | None:
    """R_CS R_SS⁻¹ and the symmetric root of R_CC − R_CS R_SS⁻¹ R_SC; None where R_SS is near singular."""
    eigenvalues, vectors = np.linalg.eigh(correlation[np.ix_(inside, inside)])
    if eigenvalues.min(initial=1.0) < SMALLEST_EIGENVALUE:
        return None
    across = correlation[np.ix_(outside, inside)]
    slope = (across @ vectors / eigenvalues) @ vectors.T
    left, axes = np.linalg.eigh(correlation[np.ix_(outside, outside)] - slope @ across.T)
    return slope, (axes * np.sqrt(np.where(left > ROUNDING, left, 0.0))) @ axes.T


def _antithetic(n_samples: int, n_columns: int, seed: int) -> FloatArray:
    """Standard normal draws (n_samples, columns), the second half minus the first."""
    half = np.random.default_rng(seed).standard_normal((n_samples // 2, n_columns))
    return np.concatenate([half, -half])


def _check_options(n_samples: int, ridge: float, seed: int) -> None:
    if n_samples < 2 or n_samples % 2:
        raise InputError(f"n_samples is {n_samples}: it must be even and at least 2, draws come in pairs z, −z")
    if not (ridge >= 0.0 and math.isfinite(ridge)):
        raise InputError(f"ridge is {ridge:g}: it must be finite, and 0 or positive")
    if seed < 0:
        raise InputError(f"seed is {seed}: it must be 0 or positive")
