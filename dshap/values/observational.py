"""Observational values of kernel models by conditional mean embeddings (RKHS-SHAP, Prop. 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.core.annotations import TableLike
from dshap.core.errors import InputError
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rules import checked
from dshap.core.types import replaced
from dshap.kernels import Embedding, Kernel, ProductKernel, SubsetFeatures
from dshap.kernels.ridge import (
    Penalty,
    add_cross,
    add_gram,
    chosen_penalty,
    of_unit_spread,
    ridge_solve,
    stacked_parts,
    stacked_zeros,
)
from dshap.predictors.expansion import BothKinds, KernelModelLike, expansion_model
from dshap.values.base import KernelValue
from dshap.values.embedded import ENOUGH, SUM_ROWS, EmbeddedValue
from dshap.values.forms import CHECK_ROWS, FOLD_FROM, FormMaker, arrays_of, forms_of, weight_parts
from dshap.values.subset_table import SubsetTable

POINTS = 4
"""Points x whose f(x_S, X_S̄) measure the error of an embedding.

Twice as many choose penalties that are no better.
"""
TOGETHER = 8
"""Number of coalitions whose points are evaluated together."""
FEW_ROWS = 8
"""The most rows whose values are computed by one loop over all coalitions."""


class KernelObservational(EmbeddedValue, KernelValue):
    """Observational values of a kernel model: absent columns follow the present ones, as in the data.

    v_S(x) = c + Σ_r a_r k_S(x, z_r) [Φ_S(x) W_S]_r with W_S = (Φ_SᵀΦ_S + λnI)⁻¹ Σ_n Φ_S(X_n)ᵀ
    k_S̄(X_n, z).

    Φ_S(x) W_S is the conditional mean embedding μ_r(S̄ | x_S) of the absent columns: a regression of
    their kernel products on features Φ_S of the present columns.  These features are Nyström
    landmarks that pivoted Cholesky selects for the kernel on S, or random Fourier features.

    Parameters
    ----------
    model : KernelExpansion, FourierExpansion, a list of them (their sum), or a fitted model that
        has one
    data : array (n, columns), data frame, Dask collection or source
        The rows that the conditional distribution is fitted on, or as many of them as are `enough`.
    embedding : Nystrom or Fourier
        `Nystrom(landmarks=model.expansion_.landmarks)` shares the kernel products of the model,
        which are then computed once for both.
    penalty : float or "validate"
        λ of the mean squared loss: the ridge is λn.  "validate" chooses a λ for each coalition: the
        largest whose cross-validated error is within one standard error of the least, see
        `kernels.ridge.chosen_penalty`.  The error is that of f itself, the mean over rows X and up
        to four points x of (f(x_S, X_S̄) − [its regression on Φ_S](X_S))²; the points are the
        landmarks that pivoted Cholesky selects first.
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
    kernel : Kernel or ProductKernel, optional
        Kernel of the embedding; by default the kernel of the model.
    centred : bool
        True: regress k_S̄ − μ(S̄) on centred features and add the mean embedding μ(S̄) back, so that
        the value tends to the interventional one as λ grows.  False is the form of the paper, which
        tends to c.
    with_interventional : bool
        True: compute interventional values too, in the same pass and from the same kernel products,
        with all of `data` as background.  The outputs are then "observational" and "interventional"
        (followed by the output's name if there are several).
    players, output_names : see `Marginal`

    Notes
    -----
    Source: Chau, Hu, Gonzalez, Sejdinovic, RKHS-SHAP (2022), Proposition 3.  If every row is a
    landmark, it is the paper's n×n formula; no n×n matrix is formed.  Far from the data the value
    tends to c.

    Cost: (q² + q·r) n multiplications once for each coalition, and q·r for every explained row and
    coalition, where q is at most the number of features and r the number of the model's landmarks.

    If the model has one output and the embedding has the model's landmarks, the value is a quadratic
    form of k_S(x, z), whose matrix is folded to a triangle: q·r − q²/2 multiplications.  If the value
    was learned from 30,000 rows or more, the quadratic form is replaced by a sum of s squares, each
    of a weighted sum over p landmarks.  This takes s·p multiplications, a ninth of q·r for a model
    with 256 landmarks.  The numbers s and p are the smallest with an error of at most 1e-4 standard
    deviations of the prediction (root mean square), and at most 1.5e-3 in any row, measured on 4,096
    rows of the data and stored as `fold_error`.  A coalition without such numbers uses the triangle.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> embedding = dshap.kernels.Nystrom(20)
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=embedding)
    >>> fitted = model.fit(x, x[:, 0] * x[:, 1])
    >>> value = dshap.values.KernelObservational(fitted, x, embedding)
    >>> cube = dshap.explain(value, x[:4], progress=False)
    >>> total = cube.attribution.sum("feature") + cube.base_value
    >>> bool(np.allclose(total.values[:, 0], fitted.predict(x[:4])))
    True
    """

    check_rows: FloatArray | None = None
    """(n, columns): rows of the data that a fold is checked on; None before they are chosen."""

    def __init__(
        self,
        model: KernelModelLike,
        data: TableLike,
        embedding: Embedding,
        penalty: float | Literal["validate"] = "validate",
        rank_tolerance: float = 1e-6,
        *,
        enough: float | Literal["all"] = ENOUGH,
        kernel: Kernel | ProductKernel | None = None,
        centred: bool = False,
        with_interventional: bool = False,
        players: Mapping[str, Sequence[str | int]] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        (self.penalty,) = checked(penalty=penalty)
        self.centred, self.with_interventional = checked(
            centred=centred, with_interventional=with_interventional
        )
        explained = expansion_model(model, data, output_names)
        if with_interventional:
            explained = BothKinds(explained)
        KernelValue.__init__(self, explained, data, players)
        if kernel is None:
            kernel = getattr(self.expansion, "kernel", None)
        if kernel is None:
            raise InputError(
                "kernel is None, and the model has no product kernel of its own: give kernel=, one "
                "of dshap.kernels, "
                "for the embedding"
            )
        self._embed(kernel, embedding, rank_tolerance, enough)

    @property
    def sample_size(self) -> int:
        """Number of rows to choose from; 0 once chosen."""
        size = super().sample_size
        if self.check_rows is None and self._is_form:
            return max(size, CHECK_ROWS)
        return size

    def choose(self, sample: FloatArray) -> State:
        """Choose anchors and kernel as in `EmbeddedValue`, and the rows that a fold is checked on."""
        choice = super().choose(sample)
        return State({**choice.arrays, "check_rows": sample[:CHECK_ROWS]})

    def chosen(self, choice: State) -> Self:
        """A copy with these anchors and rows."""
        resolved = super().chosen(choice)
        resolved.check_rows = choice.arrays.get("check_rows")
        return resolved

    def judged(self) -> Self:
        """A copy whose states are not folded, as each of them has a few values only."""
        return replaced(self, check_rows=np.empty((0, self.n_columns)))

    @property
    def _sums_means(self) -> bool:
        return self.centred or self.with_interventional

    @property
    def _is_validated(self) -> bool:
        return isinstance(self.penalty, str)

    @property
    def _k(self) -> int:
        """Number of functions whose error chooses a penalty."""
        return int(self._probed.shape[1])

    @property
    def _probed(self) -> NDArray[Any]:
        """(r, k): coefficients of the functions that choose penalties; here the model's own."""
        return self.expansion.coefficients

    def _probes(
        self, features: Sequence[SubsetFeatures], columns: BoolArray
    ) -> Iterator[NDArray[Any]]:
        """For each coalition A_rk k_S(x, z_r) (r, points, k) at its points x.

        Multiplied with k_S̄(X, z_r) and summed over r they give f(x_S, X_S̄) less its intercept.
        Nothing is yielded if the penalty is given.
        """
        points = self._bound_basis.points
        for start in range(0, len(features) if self._is_validated else 0, TOGETHER):
            part = slice(start, start + TOGETHER)
            first = [each.kept[each.kept < len(points)][:POINTS] for each in features[part]]
            # coalitions share landmarks: the factors of each are computed once
            rows, at = np.unique(np.concatenate(first), return_inverse=True)
            factors = self.expansion.factors(points[rows])  # (columns, rows, r)
            ends = np.cumsum([len(each) for each in first])
            for present, places in zip(columns[part], np.split(at, ends[:-1]), strict=True):
                out = np.zeros((self._r, POINTS, self._k), factors.dtype)
                products = factors[np.ix_(present.nonzero()[0], places)].prod(axis=0)  # (points, r)
                out[:, : len(places)] = products.T[:, :, None] * self._probed[:, None]
                yield out

    @property
    def _is_shared(self) -> bool:
        """Whether embedding and model share their kernel products; False before the choice."""
        basis: Any = self.basis
        model: Any = self.expansion
        if not (hasattr(basis, "landmarks") and hasattr(model, "landmarks")):
            return False
        return bool(
            np.array_equal(basis.landmarks, model.landmarks) and basis.kernel.equals(model.kernel)
        )

    @property
    def _is_form(self) -> bool:
        """Whether v_S(x) is a quadratic form of the shared kernel products."""
        return self._is_shared and self.expansion.coefficients.shape[1] == 1

    def _lattices(
        self, columns: BoolArray, away: BoolArray, n: int
    ) -> tuple[loops.Lattice, loops.Lattice]:
        """Lattices of the embedding's products and of the model's.

        The former are over `columns` (m, columns), the latter over `away` (m, columns).
        """
        basis = self._bound_basis
        model = self.expansion
        at = loops.Lattice(columns, basis.size, n, basis.dtype)
        if self._is_shared:
            return at, at.also(away)
        if away is columns:
            coalitions = at.coalitions
        else:
            coalitions = None
        return at, loops.Lattice(away, model.size, n, model.coefficients.dtype, coalitions)

    def _fill(self, at: loops.Lattice, away: loops.Lattice, rows: FloatArray) -> None:
        at.fill(loops.rows_last(self._bound_basis.factors(rows)))
        if not away.is_shared:
            away.fill(loops.rows_last(self.expansion.factors(rows)))

    def moments(
        self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None
    ) -> Moments:
        """The sums over rows: `gram` ΦᵀΦ and `cross` Φᵀk_S̄(X, z), flat by coalition, and `count`.

        With `centred` or `with_interventional` also `ones` Φᵀ1 and `mean` Σ k_S̄(X, z); with
        validated penalties also `squares` (m, points, k) Σ (f(x_S, X_S̄) − c)².  Φ are whitened
        features, see `ridge_solve`.
        """
        columns = self.players.columns(masks)
        features = self._features(columns)
        dtype = self.expansion.coefficients.dtype
        sizes = [each.n_features for each in features]
        gram, grams = stacked_zeros([(p, p) for p in sizes])
        cross, crosses = stacked_zeros([(p, self._r) for p in sizes], dtype)
        one, ones = stacked_zeros([(p,) for p in sizes])
        probes = list(self._probes(features, columns))
        squares = np.array([np.zeros(own.shape[1:]) for own in probes])
        mean = np.zeros((len(features), self._r), dtype)
        at, away = self._lattices(columns, ~columns, SUM_ROWS)
        for start in range(0, len(rows), SUM_ROWS):
            self._fill(at, away, rows[start : start + SUM_ROWS])
            for j in at.order.tolist():
                subset = features[j]
                phi = subset.whitened(at.product(j, subset.kept))  # (n, p)
                absent = away.product(j)  # (n, r)
                add_gram(grams[j], phi)
                add_cross(crosses[j], phi, absent)
                if self._sums_means:
                    ones[j] += phi.sum(axis=0)
                    mean[j] += absent.sum(axis=0)
                if probes:
                    squares[j] += loops.squares_of_sums(absent, probes[j])
        sums = {"gram": gram, "cross": cross, "count": np.array(float(len(rows)))}
        if self._sums_means:
            sums |= {"ones": one, "mean": mean}
        return Moments({**sums, "squares": squares} if probes else sums)

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """Solve the regression of every coalition.

        `weights`: W_S (q, r) one after the other, flat, or the matrices of `Form` if the value
        is a quadratic form; `kept` (Σq,) and `rank` (m,), and `size` (m,) of forms, show where
        each begins. `shift` (m, r): the
        term added to Φ_S(x) W_S, zero unless centred; `mean` (m, r): μ(S̄), with interventional
        values. `penalty` and `error` (m,): the chosen λ, and its error over the mean of (f(x_S,
        X_S̄) − c)², where penalties are validated.
        """
        assert moments is not None
        columns = self.players.columns(masks)
        features = self._features(columns)
        r = self._r
        n = float(moments["count"])
        sizes = [each.n_features for each in features]
        grams = stacked_parts(moments["gram"], [(p, p) for p in sizes])
        crosses = stacked_parts(moments["cross"], [(p, r) for p in sizes])
        if self._sums_means:
            ones = stacked_parts(moments["ones"], [(p,) for p in sizes])
        else:
            ones = [np.zeros(p) for p in sizes]
        no_mean = np.zeros((len(masks), r), self.expansion.coefficients.dtype)
        if self.centred:
            mean = moments["mean"] / n
        else:
            mean = no_mean
        weights = []
        shift = mean.copy()
        found = []
        probes = self._probes(features, columns)
        for j, subset in enumerate(features):
            gram = grams[j]
            cross = crosses[j]
            if self.centred:
                # means are known only after the pass: the sums are centred, and not the features
                gram = gram - np.outer(ones[j], ones[j]) / n
                cross = cross - np.outer(ones[j], mean[j])
            if self._is_validated:
                found.append(_chosen(next(probes), gram, cross, moments["squares"][j], mean[j], n))
            if isinstance(self.penalty, str):
                penalty = found[-1].penalty
            else:
                penalty = self.penalty
            white = _solve(gram, cross, penalty * n, self._bound_basis.noun)
            shift[j] -= (ones[j] / n) @ white if self.centred else 0.0
            weights.append(_of_products(subset, white))
        return State(
            {
                "columns": columns,
                "rank": np.array([len(each.kept) for each in features]),
                "kept": np.concatenate([each.kept for each in features]),
                "shift": shift,
                **self._weight_arrays(columns, features, weights, n),
                **({"mean": moments["mean"] / n} if self.with_interventional else {}),
                **(
                    dict(zip(("penalty", "error"), np.array(found).T, strict=True))
                    if self._is_validated
                    else {}
                ),
            }
        )

    def join(self, states: Sequence[State]) -> State:
        """Join the states of several coalition tiles, without copying the weights.

        The weights are nearly all of the memory.
        """
        if len(states) == 1:
            return states[0]
        small = [
            State({n: array for n, array in state.arrays.items() if n != "weights"})
            for state in states
        ]
        weights = {
            # six digits: `weight_parts` and `coalition_weights` go through these names in sorted
            # order
            f"weights {position:06d}": state["weights"]
            for position, state in enumerate(states)
        }
        return State({**super().join(small).arrays, **weights})

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """The values v_S(x) (n, m, k) of n rows, m prepared coalitions and k outputs."""
        if self._is_form:
            return self._form_values(state, rows)
        # one compiled loop: the loop of Python below takes longer than the values of a few rows
        if len(rows) <= FEW_ROWS and self._is_bilinear:
            return self._of_few(state, rows)
        columns = state["columns"]
        coefficients = self.expansion.coefficients
        k = coefficients.shape[1]
        at, inside = self._lattices(columns, columns, len(rows))
        self._fill(at, inside, rows)
        out = np.empty((len(rows), len(columns), self.n_outputs))
        prepared = list(coalition_weights(state, self._r, self._parts))
        for j in at.order.tolist():  # arrays (landmarks, n): rows are adjacent in memory
            kept, weights = prepared[j]
            present = inside.product(j).T  # (r, n) k_S(x, z)
            if inside.is_shared:
                products = present[kept]
            else:
                products = at.product(j, kept).T
            conditional = weights.T @ product_parts(products.T).T  # (r, n) μ_r(S̄ | x_S)
            conditional *= present
            out[:, j, :k] = (coefficients.T @ conditional).real.T
            if self.centred:
                out[:, j, :k] += ((state["shift"][j][:, None] * coefficients).T @ present).real.T
            if self.with_interventional:
                out[:, j, k:] = ((state["mean"][j][:, None] * coefficients).T @ present).real.T
        return out + np.tile(self.expansion.intercept, self.n_outputs // k)

    def _form_values(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k) if those of the embedding are quadratic forms."""
        columns = state["columns"]
        out = np.tile(self.expansion.intercept, (len(rows), len(columns), self.n_outputs))
        if self._sums_means:
            means = [state["shift"], *([state["mean"]] if self.with_interventional else [])]
            table = np.stack(means, axis=1) * self.expansion.coefficients[:, 0]
            out = SubsetTable(self.expansion, columns, table, out[0, 0]).values(rows)
        factors = loops.rows_last(self._bound_basis.factors(rows))
        out[:, :, 0] += loops.form_sums(columns, forms_of(state), factors)
        return out

    @property
    def _is_bilinear(self) -> bool:
        """Whether v_S(x) is a bilinear form of real products, and nothing is added to it."""
        is_real = self.embedding.dtype == self.expansion.coefficients.dtype == np.float64
        return is_real and not self._sums_means

    def _of_few(self, state: State, rows: FloatArray) -> FloatArray:
        """values (n, m, k) of few rows, all coalitions in one call."""
        columns = state["columns"]
        at, inside = self._lattices(columns, columns, len(rows))
        self._fill(at, inside, rows)
        coefficients = self.expansion.coefficients
        parts = [
            loops.few_products(at, inside, *part, coefficients)
            for part in parts_of_weights(state, self._r)
        ]
        return np.concatenate(parts, axis=1) + self.expansion.intercept

    @property
    def _parts(self) -> int:
        """Number of weights per product: 2 for Fourier features (real, imaginary part), else 1."""
        if self.embedding.dtype == np.float64:
            return 1
        return 2

    def _weight_arrays(
        self,
        columns: BoolArray,
        features: Sequence[SubsetFeatures],
        weights: Sequence[NDArray[Any]],
        n: float,
    ) -> dict[str, NDArray[Any]]:
        """The arrays of the state with the weights W (q, r), learned from n rows, or forms."""
        if not self._is_form:
            return {"weights": np.concatenate([each.ravel() for each in weights])}
        rows = self.check_rows
        if rows is None or self._sums_means or n < FOLD_FROM:
            rows = np.empty((0, self.n_columns))
        maker = FormMaker(self._bound_basis, self.expansion.coefficients, self.model, rows)
        return arrays_of(
            [
                maker.form(present, each.kept, own)
                for present, each, own in zip(columns, features, weights, strict=True)
            ]
        )

    def _block_bytes(self, n: int) -> int:
        """Bytes of the lattices of both sides, or of one and the products of the other."""
        if self._is_shared:
            away = self._item * n * self._r
        else:
            away = self._lattice_bytes(n, self._r, self._item)
        return self._lattice_bytes(n, self._q, self._basis_item) + away

    def cost(self, m: int, n: int = 1) -> Cost:
        """Bytes and operations for m coalitions and n rows.

        `prepare` needs Moments, the weights twice (a list, then one array), the features, the
        points of some coalitions and one coalition's solve; `moments` needs lattices, features, Φ,
        a cross product, and the Moments.
        """
        c = self.n_columns
        p = self._p
        q = self._q
        r = self._r
        item = self._item
        features = self._feature_bytes(m)
        k = self._k * self._is_validated
        state = m * (item * (r * (q * self._parts + 2)) + 8 * q + c + 24)
        moments = (
            m * (8 * p * p + item * p * r + self._sums_means * (8 * p + item * r) + 8 * POINTS * k)
            + 8
        )
        block = self._block_bytes(min(n, SUM_ROWS)) + 2 * 8 * SUM_ROWS * p + item * p * r
        probes = item * POINTS * k * (m * r + 2 * SUM_ROWS)
        factors = item * min(m, TOGETHER) * POINTS * r * (c + 1) * self._is_validated
        checked = 0
        if self._is_form:
            each = p * (r - p / 2.0)
            checked = 8 * (c + 2) * (CHECK_ROWS + r) * r
        else:
            each = item / 8.0 * p * r
        return Cost(
            state_bytes=state,
            prepare_bytes=moments
            + 2 * state
            + features
            + factors
            + checked
            + 4 * 8 * p**2
            + 3 * item * p * r,
            task_bytes=self._block_bytes(n) + 3 * item * n * r + 16 * n * m * self.n_outputs,
            operations=n * (m * (each + 2.0 * r) + 16.0 * c * (q + r)),
            moment_bytes=moments,
            moment_task_bytes=block + features + moments + probes,
            moment_operations=n * (m * (p * p + item / 4.0 * p * r) / 2.0 + 16.0 * c * (q + r)),
        )

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        return {
            "value": "kernel_observational",
            **self.model.fingerprint(),
            "players": self.players.fingerprint(),
            "penalty": self.penalty,
            "centred": self.centred,
            "with_interventional": self.with_interventional,
            **self._embedding_fingerprint(),
        }


def _chosen(
    probes: NDArray[Any],
    gram: FloatArray,
    cross: NDArray[Any],
    squares: FloatArray,
    mean: NDArray[Any],
    n: float,
) -> Penalty:
    """Choose λ from Φᵀ(f(x_S, X_S̄) − c) and `squares` (points, k), each output of unit spread."""
    flat = probes.reshape(len(probes), -1)  # (r, points · k)
    # (k,)
    spread = np.maximum(
        squares - n * np.square((mean @ flat).real.reshape(squares.shape)), 0.0
    ).sum(axis=0)
    targets = np.reshape((cross @ flat).real, (-1, len(spread)))  # (p · points, k)
    scaled, total = of_unit_spread(targets, spread)
    return chosen_penalty(gram, scaled.reshape(len(gram), -1), total, n, caution=1.0)


def _solve(gram: FloatArray, cross: NDArray[Any], ridge: float, noun: str) -> NDArray[Any]:
    """`ridge_solve` for right-hand sides that may be complex."""
    if not np.iscomplexobj(cross):
        return ridge_solve(gram, cross, ridge, noun)
    both = ridge_solve(gram, np.hstack([cross.real, cross.imag]), ridge, noun)
    return np.asarray(both[:, : cross.shape[1]] + 1j * both[:, cross.shape[1] :])


def product_parts(products: NDArray[Any]) -> FloatArray:
    """The inputs of a state's weights: products (n, q), or their real and imaginary parts."""
    if not np.iscomplexobj(products):
        return products
    return np.hstack([products.real, products.imag]) / np.sqrt(products.shape[1])


def _of_products(subset: SubsetFeatures, white: NDArray[Any]) -> NDArray[Any]:
    """Turn weights of the whitened features into weights of `product_parts`."""
    if subset.n_features == len(subset.kept):
        return subset.coefficients(white)
    return white


def parts_of_weights(
    state: State, r: int
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.int64], FloatArray]]:
    """Yield (first coalition, kept (Σq,), ranks (m,), weights (Σqr,)) of each joined state."""
    ranks = state["rank"]
    for coalitions, weights in weight_parts(state, ranks * r):
        first = int(ranks[: coalitions.start].sum())
        of_part = ranks[coalitions]
        yield coalitions.start, state["kept"][first : first + of_part.sum()], of_part, weights


def coalition_weights(
    state: State, r: int, parts: int
) -> Iterator[tuple[np.ndarray, NDArray[Any]]]:
    """Yield (kept (q,), weights (q·parts, r)) for each coalition of a state."""
    arrays = (
        state[name].reshape(-1, r) for name in sorted(state.arrays) if name.startswith("weights")
    )
    weights = next(arrays)
    at = 0
    first = 0
    for rank in state["rank"].tolist():
        if parts * (at - first) == len(weights):  # go on with the next joined state
            weights = next(arrays)
            first = at
        yield (
            state["kept"][at : at + rank],
            weights[parts * (at - first) : parts * (at - first + rank)],
        )
        at += rank
