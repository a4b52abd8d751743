"""Observational values of any model by kernel ridge regression of f on each coalition's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from dshap import loops
from dshap.core.annotations import Predict, TableLike
from dshap.core.blocks import Scored
from dshap.core.errors import InputError
from dshap.core.fixed_words import LinkName, Scale
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import Choice, checked
from dshap.core.types import Link
from dshap.kernels import Embedding, Kernel, ProductKernel, checked_embedding
from dshap.kernels.ridge import (
    Penalty,
    add_gram,
    chosen_penalty,
    of_unit_spread,
    ridge_solve,
    stacked_parts,
    stacked_zeros,
)
from dshap.values.base import PredictedValue
from dshap.values.embedded import ENOUGH, SUM_ROWS, EmbeddedValue
from dshap.values.subset_table import SubsetTable

PRECISIONS: tuple[Literal["float64", "float32"], ...] = ("float64", "float32")
MAX_FLOAT32_ERROR = 1e-3
"""The largest error allowed of float32 sums, in standard deviations of f."""
TRIAL_ROWS = 4_096
"""Rows of the sample that are summed in the float32 trial."""
TRIAL_VALUES = 1_000
"""Rows that are evaluated in the float32 trial."""
TRIAL_COALITIONS = 16
"""Random coalitions in the float32 trial."""
TRIAL_SEED = 0


class ConditionalRegression(EmbeddedValue, PredictedValue):
    """Observational values of any model, by a kernel ridge regression for every coalition.

    v_S(x) = f̄ + Φ_S(x)ᵀ (Φ_SᵀΦ_S + λnI)⁻¹ Σ_n Φ_S(X_n) (f(X_n) − f̄), with f̄ the mean prediction.

    It estimates E[f(X) | X_S = x_S] by regressing the predictions f(X_n) of the rows of data on their
    columns S.  The model can be any function, and is called once for each row of data.  Every
    coalition has features Φ_S of its columns: Nyström landmarks that pivoted Cholesky selects for
    the kernel on S, or random Fourier features.

    Parameters
    ----------
    predict : callable
        rows (n, columns) float64 -> (n,) or (n, k).  It runs on the workers and must be picklable.
    data : array (n, columns), data frame, Dask collection or source
        The rows that the regressions are fitted on, or as many of them as are `enough`.
    kernel : Kernel or ProductKernel
        Kernel of the regressions; a length-scale "median" is computed from a sample.  If you have a
        fitted kernel model, its `expansion_.kernel` is a good choice.
    embedding : Nystrom or Fourier
        The features of the kernel, such as `Nystrom(100)` for 100 landmarks.
    penalty : float or "validate"
        λ of the mean squared loss: the ridge is λn.  "validate" chooses a λ for each coalition: the
        largest whose cross-validated error (f − v_S)² is within one standard error of the least,
        see `kernels.ridge.chosen_penalty`.
    rank_tolerance : float
        Landmarks that others explain up to this relative residual of the kernel are left out, for
        each coalition separately.
    enough : float or "all"
        The largest acceptable error of attributions that comes from learning from a part of the
        rows only, in standard deviations of the predictions (root mean square over rows and
        players).  Rows are read in an order that is spread over the table.  Their number doubles
        from 8,192 until a jackknife over eight parts estimates an error that is no larger.  If that
        takes more than half of the table, or the table has fewer than 32,768 rows, all rows are
        read.  The error is stored as `learning_error`.  "all" reads every row, and stores no error.
    players, feature_names, output_names, link, buffer_rows, arrays, scale : see `Marginal`
    precision : {"float64", "float32"}
        Precision of the whitened products and Gram sums of each 512 rows; their total, the solve
        and the evaluation are always float64.  The error of float32 is measured on a sample, with
        16 coalitions and 1,000 rows, before the sums begin.  An error above 1e-3 standard
        deviations of f raises an `InputError`.  The error is stored with the landmarks, as
        `float32_error` (root mean square and largest).

    Raises
    ------
    PredictError
        The predict function fails or returns an array that is not (n,) or (n, k).

    Notes
    -----
    Source: Chau, Hu, Gonzalez, Sejdinovic, RKHS-SHAP (2022), equation 9 and its appendix C, with the
    regression of f itself.  Far from the data the value is f̄.

    Cost: 2 q² multiplications once for each row of data and coalition, and q for every explained row
    and coalition, where q is at most the number of landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(100, 1))
    >>> rows = np.hstack([x, x])  # two equal columns, of which the model uses one
    >>> kernel, embedding = dshap.kernels.RBF(), dshap.kernels.Nystrom(20)
    >>> value = dshap.values.ConditionalRegression(lambda x: x[:, 0], rows, kernel, embedding)
    >>> phi = dshap.explain(value, rows[:5], progress=False).attribution.values[:, :, 0]
    >>> bool(np.allclose(phi[:, 0], phi[:, 1]))  # they share the credit
    True
    """

    needs_predictions = True
    shared_arrays = ("base",)

    def __init__(
        self,
        predict: Predict,
        data: TableLike,
        kernel: Kernel | ProductKernel,
        embedding: Embedding,
        penalty: float | Literal["validate"] = "validate",
        rank_tolerance: float = 1e-6,
        *,
        enough: float | Literal["all"] = ENOUGH,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        link: LinkName | Link | None = None,
        buffer_rows: int = 65_536,
        arrays: bool | None = None,
        scale: Scale | None = None,
        precision: Literal["float64", "float32"] = "float64",
    ) -> None:
        Choice(PRECISIONS)("precision", precision)
        if precision == "float32" and checked_embedding(embedding).dtype != np.float64:
            raise InputError(
                'precision "float32" is for Nystrom landmarks: leave it at "float64" with Fourier '
                "features"
            )
        (self.penalty,) = checked(penalty=penalty)
        self.precision = precision
        super().__init__(
            predict,
            data,
            players=players,
            feature_names=feature_names,
            output_names=output_names,
            buffer_rows=buffer_rows,
            link=link,
            arrays=arrays,
            scale=scale,
        )
        self._embed(kernel, embedding, rank_tolerance, enough)

    def choose(self, sample: FloatArray) -> State:
        """Choose anchors and kernel as in `EmbeddedValue`, and measure the error of float32 sums.

        Raises
        ------
        InputError
            An error of float32 above 1e-3 standard deviations of f.
        """
        choice = super().choose(sample)
        if self.precision == "float64" or not len(sample):
            return choice
        rms, largest = self._float32_error(choice, sample[:TRIAL_ROWS])
        if not largest <= MAX_FLOAT32_ERROR:
            raise InputError(
                f"float32 errs by {largest:.1e} standard deviations of f on a sample ({rms:.1e} "
                "root mean square), "
                f"more than {MAX_FLOAT32_ERROR:g}: use precision='float64', a larger "
                "rank_tolerance or a larger penalty"
            )
        return State({**choice.arrays, "float32_error": np.array([rms, largest])})

    def _float32_error(self, choice: State, rows: FloatArray) -> tuple[float, float]:
        """Root mean square and largest error of float32 sums, in standard deviations of f."""
        f = self.model(rows)
        rng = np.random.default_rng(TRIAL_SEED)
        # a probability for each coalition, by which all sizes are equally likely
        masks = rng.random((TRIAL_COALITIONS, self.n_players)) < rng.random((TRIAL_COALITIONS, 1))
        masks = masks[masks.any(axis=1)]
        values = []
        for precision in PRECISIONS:
            value = self.chosen(choice)
            value.precision = precision
            state = value.prepare(masks, value.moments(masks, rows, f))
            values.append(value.evaluate(state, rows[:TRIAL_VALUES]))
        unit = np.where(f.std(axis=0) > 0.0, f.std(axis=0), 1.0)
        gap = np.abs(values[1] - values[0]) / unit
        return float(np.sqrt(np.mean(np.square(gap)))), float(gap.max())

    @property
    def sample_size(self) -> int:
        """Number of rows to choose from; 0 once chosen."""
        size = super().sample_size
        if self.precision == "float32" and self.basis is None:
            return max(size, TRIAL_ROWS)
        return size

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """The sums over rows for each coalition, flat: `gram` ΦᵀΦ, `cross` Φᵀf, `ones` Φᵀ1.

        Also `f` Σf (k,), `f2` Σf² (k,) and `count`.
        """
        if predictions is None:  # (n, k)
            f = self.model(rows)
        else:
            f = predictions
        columns = self.players.columns(masks)
        basis = self._bound_basis
        features = self._features(columns)
        k = self.n_outputs
        sizes = [each.n_features for each in features]
        gram, grams = stacked_zeros([(p, p) for p in sizes])
        cross, crosses = stacked_zeros([(p, k) for p in sizes])
        one, ones = stacked_zeros([(p,) for p in sizes])
        # only products and sums of whitened features are single: Gram matrices of raw kernel columns
        # in float32 are not positive definite
        dtype: type[np.generic] = basis.dtype
        if self.precision == "float32":
            dtype = np.float32
        lattice = loops.Lattice(columns, basis.size, SUM_ROWS, dtype)
        for start in range(0, len(rows), SUM_ROWS):
            part = rows[start : start + SUM_ROWS]
            target = f[start : start + SUM_ROWS]
            lattice.fill(loops.rows_last(basis.factors(part)).astype(dtype, copy=False))
            for j in lattice.order.tolist():
                phi = features[j].whitened(lattice.product(j, features[j].kept))  # (n, p)
                add_gram(grams[j], phi)
                crosses[j] += phi.T @ target
                # in double precision, as every sum over rows, also if Φ is single
                ones[j] += phi.sum(axis=0, dtype=float)
        squares = np.square(f).sum(axis=0)
        sums = {"gram": gram, "cross": cross, "ones": one, "f": f.sum(axis=0), "f2": squares}
        return Moments({**sums, "count": np.array(float(len(rows)))})

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """A `SubsetTable` (m, k, q), with `rank`, `penalty` and `error` (m,) of the coalitions.

        error: cross-validated mean over rows and outputs of (f − v_S)² over the variance of f; NaN
        if the penalty is given.
        """
        assert moments is not None
        columns = self.players.columns(masks)
        n = float(moments["count"])
        k = self.n_outputs
        features = self._features(columns)
        sizes = [each.n_features for each in features]
        mean = moments["f"] / n  # (k,)
        spread = np.maximum(moments["f2"] - n * mean**2, 0.0)
        sums = zip(
            stacked_parts(moments["gram"], [(p, p) for p in sizes]),
            stacked_parts(moments["cross"], [(p, k) for p in sizes]),
            stacked_parts(moments["ones"], [(p,) for p in sizes]),
            strict=True,
        )
        table = np.zeros((len(masks), k, self._q), self.embedding.dtype)
        found = []
        for each, into, (gram, cross, ones) in zip(features, table, sums, strict=True):
            # Φᵀ(f − f̄) from two sums of one pass, as f̄ is known only after it
            right = cross - np.outer(ones, mean)
            found.append(self._penalty_of(gram, right, spread, n))
            weights = ridge_solve(gram, right, found[-1].penalty * n, self._bound_basis.noun)
            into[:, each.kept] = each.coefficients(weights).T
        state = SubsetTable(self._bound_basis, columns, table, mean).to_state()
        penalties, errors = np.array(found).T
        return State(
            {**state.arrays, "rank": np.array(sizes), "penalty": penalties, "error": errors}
        )

    def _penalty_of(
        self, gram: FloatArray, cross: FloatArray, spread: FloatArray, n: float
    ) -> Penalty:
        if isinstance(self.penalty, str):
            return chosen_penalty(gram, *of_unit_spread(cross, spread), n)
        return Penalty(self.penalty, np.nan)

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """The values v_S(x) (n, m, k) of n rows, m prepared coalitions and k outputs."""
        return SubsetTable.from_state(self._bound_basis, state).values(rows)

    def scored(self, state: State, score: FloatArray) -> Scored | None:
        """See `SubsetTable.scored`."""
        return SubsetTable.from_state(self._bound_basis, state).scored(score, self.players.members)

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and operations for m coalitions and n rows.

        `prepare` needs Moments, the state twice, the features and one coalition's solve; `moments`
        needs features, lattices, Φ, the Moments and the predictions.
        """
        c = self.n_columns
        k = self.n_outputs
        q = self._q
        p = self._p
        item = self._basis_item
        state = SubsetTable.nbytes(m, k, q, c, item) + 24 * m
        moments = 8 * (m * p * (p + k + 1) + 2 * k + 1)
        features = self._feature_bytes(m)
        rows = min(n, SUM_ROWS)
        block = self._lattice_bytes(rows, q, item) + 2 * 8 * rows * p
        return Cost(
            state_bytes=state,
            prepare_bytes=moments + 2 * state + features + 6 * 8 * p**2,
            task_bytes=SubsetTable.task_bytes(n, m, k, q, c, item),
            operations=item / 4.0 * n * q * (m * (1 + k) + 8 * c),
            moment_bytes=moments,
            moment_task_bytes=block + features + moments + 8 * n * (k + 1),
            moment_operations=n * (m * (p**2 + 4.0 * q) + 16.0 * c * q),
            row_bytes=loops.member_row_bytes(n, c, m, k, q) if item == 8 else 0,
        )

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        return {
            "value": "conditional_regression",
            **self.model.fingerprint(),
            **self.link.fingerprint(),
            "players": self.players.fingerprint(),
            "penalty": self.penalty,
            "precision": self.precision,
            **self._embedding_fingerprint(),
        }
