"""Observational values of any model, with the columns assumed to be jointly Gaussian."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dshap.core.annotations import Predict, TableLike
from dshap.core.draws import Draws, GroupedDraws
from dshap.core.errors import InputError, PredictError
from dshap.core.fixed_words import LinkName, Scale
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import checked
from dshap.core.types import Link
from dshap.predictors.frames import Frame
from dshap.values.base import PredictedValue
from dshap.values.normal import SUM_ROWS, NormalTable, Shifted, conditional, normal_sums


class DrawnRows(NamedTuple):
    """The draws of the absent columns of some rows and coalitions."""

    rows: FloatArray
    """(n, columns)"""
    present: BoolArray
    """(m, columns): present columns, which are those of the rows."""
    centre: FloatArray
    """(m, n, columns): scores of the rows, and conditional means of those that are absent."""
    noise: FloatArray
    """(m, draws, columns): deviations from the centre, 0 in present columns."""

    @classmethod
    def of(cls, state: State, some: slice, rows: FloatArray, scores: FloatArray) -> DrawnRows:
        """The draws of some coalitions of a state, by the scores (n, columns) of the rows."""
        mean = state["mean"]
        present = state["columns"][some]
        expected = mean + np.matmul(scores - mean, state["regression"][some].swapaxes(1, 2))
        centre = np.where(present[:, None], scores, expected)
        noise = np.matmul(state["draws"], state["factor"][some].swapaxes(1, 2))
        return cls(rows, present, centre, noise)

    def scores(self, rows: slice, draws: slice) -> FloatArray:
        """Scores (m, rows, draws, columns)."""
        return np.asarray(self.centre[:, rows, None] + self.noise[:, None, draws])


class Gaussian(Shifted, PredictedValue):
    """Observational values of any model, with the columns assumed to be jointly normal.

    v_S(x) = E f(x_S, X_C) over X_C | x_S ~ N(μ_C + Σ_CS Σ_SS⁻¹ (x_S − μ_S), Σ_CC − Σ_CS Σ_SS⁻¹
    Σ_SC), where C = S̄ are the absent columns.

    μ and Σ are the mean and the covariance (divisor n − 1) of all rows of `data`.  The expectation
    is the mean of f over `n_samples` random draws of the absent columns, so that f can be any model.

    Parameters
    ----------
    predict : callable
        rows (n, columns) float64 -> (n,) or (n, k).  It runs on the workers and must be picklable.
        It receives data frames or arrays by the rule of `Marginal`.
    data : array (n, columns), data frame, path, collection or source
        The rows that μ and Σ are estimated from.  Every row counts; a table is read in spans.
    n_samples : int
        Number of draws for each instance and coalition.  It must be even, because draws come in
        antithetic pairs z, −z.  Four times as many draws halve the part of `std_error` that is due
        to them.  With 2 draws `std_error` is NaN.
    ridge : float
        Number added to the diagonal of the correlation matrix R, such as 1e-4, if columns determine
        one another.  Σ is then D (R + ridge·I) D, where D are the standard deviations: variances
        grow by the factor 1 + ridge.
    seed : int
        Seed of the draws.
    players, feature_names, output_names, link, buffer_rows, arrays, scale : see `Marginal`
        A path has no column names: give them in `feature_names`, unless the estimator behind
        `predict` knows them.

    Raises
    ------
    PredictError
        The predict function fails or returns an array that is not (n,) or (n, k).  It is called when
        the object is made: on the first rows of an array or a pandas data frame, or on one row of
        zeros if reading `data` would be expensive.
    InputError
        An option is not allowed; or, when the draws of a coalition are prepared, some of its
        columns determine one another.

    Notes
    -----
    Source: Aas, Jullum & Løland, Explaining individual predictions when features are dependent:
    more accurate approximations to Shapley values (Artificial Intelligence 298, 2021), the
    multivariate Gaussian approach.

    The standard normal draws z (n_samples, columns) depend on the seed alone, and all instances and
    coalitions share them (common random numbers).  Monte-Carlo errors of coalitions therefore cancel
    in part in the attributions, and those of instances are correlated.  Absent columns get the values
    conditional mean + D A^½ z, where A is the conditional correlation matrix and A^½ its symmetric
    root; A may be singular.  In each antithetic pair the mean of the two draws is the conditional
    mean, so that linear models, and odd terms of any model, have no Monte-Carlo error.

    Standard errors: the antithetic pairs are dealt to 20 groups, and the values are computed without
    each group, from the same predictions.  `std_error` therefore includes the error of the draws, in
    exact designs too.  It falls with the root of `n_samples`, whatever the number of coalitions.  It
    does not include the error of μ and Σ.

    v(empty) is the mean of f over the same draws, μ + D R^½ z, and not the mean prediction over the
    data.  All values thus belong to the fitted distribution, and a column that the model does not
    use and that is independent of the others gets 0.  The cube's attribute `base_value` contains
    v(empty), its standard error and the mean prediction over the data.  The difference shows how far
    the fitted distribution is from the data, as seen by the model.

    Draws need not look like rows: integer columns get fractions.  If the model varies strongly away
    from the data, few draws dominate the mean, and different seeds give different values.

    A column without variance in `data` carries no information about others, and has its mean if it
    is absent.

    Cost: n·m·n_samples model evaluations for n rows and m coalitions; 2·columns² operations for
    each row of data and each tile (a part of the coalitions); an eigendecomposition for each
    coalition.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> X = np.random.default_rng(0).normal(size=(900, 3)) @ [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    >>> value = dshap.values.Gaussian(lambda x: np.exp(x[:, 0]), X, n_samples=200)
    >>> cube = dshap.explain(value, X[:5])
    >>> "std_error" in cube  # the error of the draws, in an exact design too
    True
    >>> bool((abs(cube.attribution.sel(feature="x1")) > abs(cube.attribution.sel(feature="x2"))).all())
    True
    """

    name = "gaussian"
    drawn: tuple[str, ...] = ()
    """Kinds of non-numeric columns that can be drawn."""
    shared_arrays = ("mean", "draws", "base_pairs")

    def __init__(
        self,
        predict: Predict,
        data: TableLike,
        *,
        n_samples: int = 1_000,
        ridge: float = 0.0,
        seed: int = 0,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        link: LinkName | Link | None = None,
        buffer_rows: int = 65_536,
        arrays: bool | None = None,
        scale: Scale | None = None,
    ) -> None:
        self.n_samples, self.ridge, self.seed = checked(n_samples=n_samples, ridge=ridge, seed=seed)
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

    def _check_frame(self, frame: Frame) -> None:
        """Raise InputError for columns that cannot be drawn: categories and times.

        Gaussian draws of times would go beyond those of the data.
        """
        held_by = {"text or categories": frame.categories, "times": frame.times}
        for held, names in held_by.items():
            if not names or held in self.drawn:
                continue
            first = next(iter(names))
            kind = type(self).__name__
            raise InputError(
                f"column {first!r} contains {held}, which {kind} cannot draw: use Marginal or "
                "ConditionalRegression, or leave the column out"
            )

    def _scores(self, rows: FloatArray) -> FloatArray:
        """The jointly Gaussian transform of rows (n, columns); here the columns themselves."""
        return rows

    def _values(self, scores: FloatArray, wanted: BoolArray) -> FloatArray:
        """Columns (m, …, columns) with these scores, which may be overwritten.

        Columns of a coalition that are not wanted, `wanted` (m, columns), may contain anything.
        """
        return scores

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """`sum` (columns,) and `outer` (columns, columns) of x − shift, and `count`.

        They are the same for any coalitions.
        """
        return normal_sums(self._scores(rows), self._shift())

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """Prepare the conditional distributions of m coalitions of c columns.

        `columns` (m, c): present columns.  `mean` (c,): μ.  `regression` (m, c, c): Σ_CS Σ_SS⁻¹ in
        rows of absent and columns of present columns, else 0.  `factor` (m, c, c): D A^½ in absent
        rows and columns, else 0; times its transpose it is the conditional covariance.  `draws`
        (n_samples, c): standard normal, shared.  `base_pairs` (n_samples/2, k): the mean of f over
        each antithetic pair of draws with no column present, whose mean is v(empty).
        """
        assert moments is not None
        table = NormalTable.of_moments(moments, self._shift(), self.ridge)
        table.check_spread()
        columns = self.players.columns(masks)
        m, c = columns.shape
        regression = np.zeros((m, c, c))
        factor = np.zeros((m, c, c))
        for j, present in enumerate(columns):
            regression[j], factor[j] = self._conditional(table, present)
        draws = _antithetic(self.n_samples, self.n_columns, self.seed)
        base_pairs = self._empty(table, draws)
        return State(
            {
                "columns": columns,
                "mean": table.mean,
                "regression": regression,
                "factor": factor,
                "draws": draws,
                "base_pairs": base_pairs,
            }
        )

    def _conditional(self, table: NormalTable, present: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Σ_CS Σ_SS⁻¹ and D A^½ of one coalition, both (columns, columns)."""
        inside, outside = table.parts(present)
        found = conditional(table.correlation, inside, outside)
        if found is None:
            raise InputError(table.collinear(self.model.column_names))
        slope, root = found
        c = self.n_columns
        regression = np.zeros((c, c))
        factor = np.zeros((c, c))
        spread = table.deviation[outside][:, None]
        regression[np.ix_(outside, inside)] = spread * slope / table.deviation[inside]
        factor[np.ix_(outside, outside)] = spread * root
        return regression, factor

    def _empty(self, table: NormalTable, draws: FloatArray) -> FloatArray:
        """The means of f (n_samples/2, k) over the antithetic pairs, with no column present.

        Raises
        ------
        PredictError
            NaN or infinity among the predictions.
        """
        no_column = np.zeros(self.n_columns, dtype=bool)
        _, factor = self._conditional(table, no_column)
        scores = table.mean + draws @ factor.T
        rows = self._values(scores[None], ~no_column[None])[0]
        values = self.model(rows)  # (n_samples, k)
        is_bad = ~np.isfinite(values).all(axis=1)
        if is_bad.any():
            raise PredictError(
                f"the model gave NaN or infinity for {is_bad.sum():,} of {len(rows):,} {self.name} "
                "draws, which are rows that may not occur in the data: give a predict function that is finite "
                "there, or use Marginal"
            )
        return values.reshape(2, -1, self.n_outputs).mean(axis=0)  # z and −z

    def base(self, state: State) -> FloatArray:
        """v(empty) (k,): the mean of f over the draws."""
        return np.asarray(state["base_pairs"].mean(axis=0))

    def base_note(self, state: State, mean: FloatArray) -> dict[str, JSON]:
        """v(empty), the standard error of its draws (None for one pair), the mean prediction."""
        pairs = state["base_pairs"]
        errors: list[float | None] = [None] * self.n_outputs
        if len(pairs) > 1:
            errors = (pairs.std(axis=0, ddof=1) / np.sqrt(len(pairs))).tolist()
        return {
            "draws": self.n_samples,
            "mean_over_draws": self.base(state).tolist(),
            "std_error_of_draws": errors,
            "mean_over_data": mean.tolist(),
        }

    @property
    def draws(self) -> Draws:
        """The antithetic pairs of draws, which all coalitions share."""
        n_pairs = self.n_samples // 2
        kind = type(self).__name__
        return Draws(
            np.ones(n_pairs),
            called=f"{kind}'s n_samples={self.n_samples} ({n_pairs:,} antithetic pairs)",
            advice=f"raise n_samples of {kind}",
        )

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k), in predict calls of at most `buffer_rows` rows."""
        return self._sums(state, rows, None)[:, 0] / self.n_samples

    def evaluate_without(self, state: State, rows: FloatArray, groups: GroupedDraws) -> FloatArray:
        """values (n, 1 + g, m, k): of all draws, then without each group, by the same predictions."""
        of_pairs = self._sums(state, rows, np.tile(groups.indicator, 2)).swapaxes(0, 1) / 2.0
        return groups.means(of_pairs[0], of_pairs[1:]).swapaxes(0, 1)

    def base_without(self, state: State | None, groups: GroupedDraws) -> FloatArray | None:
        """v(empty) (1 + g, k); None for a game without proper coalitions, which has no draws."""
        if state is None:
            return None
        pairs = state["base_pairs"]
        return groups.means(pairs.sum(axis=0), groups.indicator @ pairs)

    def _sums(self, state: State, rows: FloatArray, indicator: FloatArray | None) -> FloatArray:
        """Sums of f over all draws, then over groups of them by `indicator` (g, n_samples).

        (n, 1 + g, m, k), in predict calls of at most `buffer_rows` rows.
        """
        scores = self._scores(rows)
        n_coalitions = len(state["columns"])
        n_sums = 1 if indicator is None else 1 + len(indicator)
        values = np.zeros((len(rows), n_sums, n_coalitions, self.n_outputs))
        for first in range(0, n_coalitions, self._together(len(rows))):
            some = slice(first, first + self._together(len(rows)))
            drawn = DrawnRows.of(state, some, rows, scores)
            self._add_draws(values[:, :, some], drawn, indicator)
        return values

    def _together(self, n: int) -> int:
        """Number of coalitions whose draws for n rows go into one call of the model."""
        return max(1, self.model.buffer_rows // max(1, n * self.n_samples))

    def _drawn_rows(self, m: int, n: int) -> int:
        """Number of rows of one call of the model for m coalitions and n rows."""
        drawn = n * self.n_samples * min(m, self._together(n))
        return min(self.model.buffer_rows, drawn)

    def _add_draws(self, out: FloatArray, drawn: DrawnRows, indicator: FloatArray | None) -> None:
        """Add sums of f over the draws of some coalitions to `out` (n, 1 + g, m, k)."""
        m, n_draws, c = drawn.noise.shape
        # the draws of a row are cut only if they alone exceed a call
        draw_step = min(n_draws, self.model.buffer_rows)
        row_step = max(1, self.model.buffer_rows // (draw_step * m))
        for first in range(0, len(out), row_step):
            some = slice(first, first + row_step)
            for start in range(0, n_draws, draw_step):
                draws = slice(start, start + draw_step)
                x = self._values(drawn.scores(some, draws), ~drawn.present)
                # present columns keep the row's numbers: computed from scores, those of a copula
                # would be the nearest values of its sample
                np.copyto(x, drawn.rows[some, None], where=drawn.present[:, None, None])
                # (m, rows, draws, k)
                values = self.model.call(x.reshape(-1, c)).reshape(*x.shape[:3], -1)
                out[some, 0] += values.sum(axis=2).swapaxes(0, 1)
                if indicator is not None:
                    of_groups = np.matmul(indicator[:, draws], values)
                    out[some, 1:] += of_groups.transpose(1, 2, 0, 3)

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and predictions; the model's own memory is unknown, so twice the buffer counts.

        The sums over the data cost the same for any number of coalitions in a tile. `prepare` needs
        Moments, State, a dozen matrices of one coalition, the masks, and the two halves of the
        draws or the rows that v(empty) is predicted from, with as much for the model.
        """
        c = self.n_columns
        k = self.n_outputs
        draws = self.n_samples
        state = m * c * (1 + 16 * c) + 8 * c * (1 + draws) + 4 * draws * k
        moments = 8 * (c * c + c + 1)
        drawn = 8 * draws * (3 * (c + k) + c)
        matrices = 8 * 12 * c * c
        together = min(m, self._together(n))
        of_calls = 3 * self._drawn_rows(m, n) * (c + k)
        of_rows = n * (4 * c * together + (m + 3) * k)
        of_draws = (1 + together) * draws * c
        return Cost(
            state_bytes=state,
            prepare_bytes=moments + state + matrices + drawn + 3 * m * c,
            task_bytes=8 * (of_calls + of_rows + of_draws),
            operations=math.inf,
            predictions=float(n) * m * draws,
            moment_bytes=moments,
            moment_task_bytes=8 * 3 * min(n, SUM_ROWS) * c + 2 * moments,
            moment_operations=2.0 * n * c**2,
        )

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        return {
            "value": self.name,
            **self.model.fingerprint(),
            **self.link.fingerprint(),
            "n_samples": self.n_samples,
            "ridge": self.ridge,
            "seed": self.seed,
            "players": self.players.fingerprint(),
        }


def _antithetic(n_samples: int, n_columns: int, seed: int) -> FloatArray:
    """Standard normal draws (n_samples, columns); the second half is minus the first."""
    random = np.random.default_rng(seed)
    half = random.standard_normal((n_samples // 2, n_columns))
    return np.concatenate([half, -half])
