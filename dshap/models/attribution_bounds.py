"""Bounds on how much attributions of a kernel model change with the row (RKHS-SHAP, Theorem 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dshap.core.annotations import MatrixLike
from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.core.rules import Number, Whole, checked
from dshap.models.expansion import KernelExpansion
from dshap.models.rows import MICRO_BLOCK
from dshap.models.shapley import learned_terms, numbers_of, player_attributions
from dshap.models.shapley_penalty import ShapleyPenalty, checked_penalty
from dshap.predictors.expansion import KernelModelLike, expansion_of

MAX_COLUMNS = 16
"""The most columns whose coalitions are all listed: there are 2^16 = 65,536 of them."""
INTERVENTIONAL = 4.0
"""The factor in Theorem 6, ‖φ_x − φ_x'‖² ≤ 4 (1 − k(x, x')), for k_j ≤ 1 and k_j(x, x) = 1."""


def rkhs_norm(model: KernelModelLike) -> FloatArray:
    """Measure how strongly a kernel model varies: its RKHS norm.

    ‖f‖ = (aᵀ K(Z, Z) a)^½ for the weights a of the landmarks Z, without the intercept.  The bounds
    on attributions are proportional to the norm.  It needs about r² operations for r landmarks.

    Parameters
    ----------
    model : KernelRidge, KernelLogistic or KernelExpansion
        A fitted model with landmarks.

    Returns
    -------
    array (k,)
        The norm of each output, in units of the output.

    Raises
    ------
    InputError
        The model has Fourier features or is a sum of models: such a model has no single product
        kernel with landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.models import KernelExpansion, rkhs_norm
    >>> kernel, zeros = dshap.kernels.RBF(1.0), np.zeros((1, 2))
    >>> bump = KernelExpansion(kernel, zeros, np.array([[5.0]]), np.array([1.0]))
    >>> rkhs_norm(bump).tolist()
    [5.0]
    """
    expansion = _product_kernel_of(model)
    squares = np.zeros(expansion.n_outputs)
    for block in _blocks(expansion.size):
        gram = expansion.kernel.matrix(expansion.landmarks[block], expansion.landmarks)
        squares += np.einsum("rk,rs,sk->k", expansion.weights[block], gram, expansion.weights)
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def attribution_bound(
    model: KernelModelLike,
    rows: MatrixLike,
    others: MatrixLike,
    amplification: float | None = None,
) -> FloatArray:
    """Bound the difference that any attribution can have between two rows.

    |φ_i(x) − φ_i(x')| ≤ ‖f‖ (4 (1 − k(x, x')))^½ for every column i.

    Parameters
    ----------
    model : KernelRidge, KernelLogistic or KernelExpansion
        A fitted model with landmarks.
    rows, others : (n, columns)
        The rows x and x': the first row of `others` is compared with the first of `rows`, and so
        on.  If you know only that |x_j − x'_j|² ≤ δ, give a row of zeros and a row of √δ.
    amplification : float of at least 1, optional
        M_Γ of observational values, from `conditional_amplification`; it makes the bound √(2 M_Γ)
        times as large.  None: the bound for interventional values.

    Returns
    -------
    array (n, k)
        The bound for each pair of rows and each output, in units of the output.

    Notes
    -----
    Source: Chau, Hu, Gonzalez & Sejdinovic, RKHS-SHAP (2022), Theorem 6.  The theorem uses the
    smallest value that k(x, x') can have, exp(−dδ/(2l²)); here k(x, x') itself is used, so that the
    bound is valid for any product kernel.  The paper's proof does not fully establish the factor
    for observational values; no violation of that bound is known.

    Raises
    ------
    InputError
        A model without landmarks, different numbers of rows, rows with NaN, or an amplification
        below 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-2, embedding=dshap.kernels.Nystrom(20))
    >>> fitted = model.fit(x, x[:, 0] * x[:, 1])
    >>> bound = dshap.models.attribution_bound(fitted, x[:3], x[:3] + 0.1)
    >>> bound.shape, bool((bound > 0).all())
    ((3, 1), True)
    >>> dshap.models.attribution_bound(fitted, x[:1], x[:1]).round(6).tolist()  # equal rows
    [[0.0]]
    """
    expansion = _product_kernel_of(model)
    x, z = (
        numbers_of(expansion, given, noun) for given, noun in ((rows, "rows"), (others, "others"))
    )
    if len(x) != len(z):
        raise InputError(f"rows are {len(x)} and others {len(z)}: give as many")
    factor = INTERVENTIONAL
    if amplification is not None:
        factor *= 2.0 * float(Number(1.0)("amplification", amplification))
    alike = np.array(
        [expansion.kernel.matrix(a[None], b[None])[0, 0] for a, b in zip(x, z, strict=True)]
    )
    return np.asarray(
        np.sqrt(factor * np.maximum(1.0 - alike, 0.0))[:, None] * rkhs_norm(expansion)
    )


def conditional_amplification(
    model: KernelModelLike, data: MatrixLike, penalty: ShapleyPenalty
) -> float:
    """Compute the factor M_Γ of `attribution_bound` for observational values.

    M_Γ is at least 1.  It is the largest squared norm of the model's conditional mean embeddings,
    max(1, max over S of tr[(K_S + nλI)⁻¹ K_S (K_S + nλI)⁻¹ K_S̄]): the embedding of the absent
    columns S̄ given the present ones S, as an operator on the model's basis functions.  It is
    computed on landmarks, so that no n × n matrix is formed.

    Parameters
    ----------
    model : KernelRidge, KernelLogistic or KernelExpansion
        A fitted model with landmarks.
    data : (b, columns)
        The rows from which the embeddings are learned.
    penalty : ShapleyPenalty
        A penalty with ``value="observational"``: its embedding and its λ are used, its player is
        not.

    Returns
    -------
    float

    Raises
    ------
    InputError
        A model without landmarks, more coalitions than the penalty lists, interventional values,
        or an embedding without landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> embedding = dshap.kernels.Nystrom(20)
    >>> model = dshap.models.KernelRidge(penalty=1e-2, embedding=embedding)
    >>> fitted = model.fit(x, x[:, 0] * x[:, 1])
    >>> penalty = dshap.models.ShapleyPenalty(0, 1.0, "observational", embedding, penalty=1e-3)
    >>> dshap.models.conditional_amplification(fitted, x, penalty) >= 1
    True
    """
    expansion = _product_kernel_of(model)
    penalty = replace(checked_penalty(penalty), player=0)
    d = expansion.n_columns
    if penalty.value != "observational":
        raise InputError(
            "the penalty is of interventional values: give ShapleyPenalty(..., "
            'value="observational")'
        )
    if d > MAX_COLUMNS or 1 << d > penalty.most_coalitions:
        raise InputError(
            f"every coalition of the {d} columns is evaluated, and the penalty lists "
            f"{penalty.most_coalitions}: "
            + (
                f"give n_coalitions=2**{d}"
                if d <= MAX_COLUMNS
                else f"give a model of at most {MAX_COLUMNS} columns"
            )
        )
    if penalty.embedding is not None and penalty.embedding.dtype is not np.float64:
        raise InputError(
            "the embedding has no landmarks: the norm is of dshap.kernels.Nystrom embeddings"
        )
    terms = learned_terms(expansion, data, penalty)
    largest = 1.0
    for state in terms.states:
        largest = max(largest, terms.value.amplification(state))  # type: ignore[attr-defined]
    return largest


@dataclass(frozen=True)
class Robustness:
    """How much the attributions of perturbed rows changed, compared with the bound.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-2, embedding=dshap.kernels.Nystrom(20))
    >>> fitted = model.fit(x, x[:, 0] * x[:, 1])
    >>> penalty = dshap.models.ShapleyPenalty(player=0, strength=1.0)
    >>> found = dshap.models.robustness(fitted, x, x, penalty, delta=0.01, n_pairs=20)
    >>> found.n_pairs, found.n_violations, bool(found.largest_ratio < 1)
    (20, 0, True)
    """

    norm: FloatArray
    """(k,): ‖f‖ of each output."""
    amplification: float | None
    """M_Γ for observational values; None for interventional ones."""
    bound: FloatArray
    """(k,): the bound for any two rows with |x_j − x'_j|² ≤ δ, in units of the output."""
    n_pairs: int
    n_violations: int
    """Number of (pair, player, output) for which the change exceeds the bound of the pair."""
    largest_ratio: float
    """The largest |φ_i(x) − φ_i(x')| divided by the bound of the pair; 1 means a tight bound."""

    def __str__(self) -> str:
        bound = ", ".join(f"{each:.4g}" for each in self.bound)
        return (
            f"{self.n_violations} violations in {self.n_pairs:,} perturbed pairs; attributions may "
            f"move by {bound}; at "
            f"the worst they moved by {self.largest_ratio:.2g} of the bound of that pair"
        )


def robustness(
    model: KernelModelLike,
    rows: MatrixLike,
    data: MatrixLike,
    penalty: ShapleyPenalty,
    delta: float,
    n_pairs: int = 1_000,
    seed: int = 0,
) -> Robustness:
    """Change rows a little, and compare how their attributions change with the bound.

    The bound is `attribution_bound`, Theorem 6 of RKHS-SHAP.

    Parameters
    ----------
    model : KernelRidge, KernelLogistic or KernelExpansion
        A fitted model with landmarks.
    rows : (n, columns)
        `n_pairs` rows are drawn from these, and each number in them is changed by a uniform draw
        between −√δ and √δ.
    data, penalty : as in `mean_squared_attribution`
        The penalty's player is not used, because the attributions of all columns are compared.
    delta : float above 0
        δ, in squared units of the columns, such as 0.01.  Categorical columns are not changed.
    n_pairs : int, default 1,000
        Number of pairs of an original and a changed row.
    seed : int, default 0
        Seed of the drawn rows and of their changes.

    Returns
    -------
    Robustness

    Raises
    ------
    InputError
        As for `attribution_bound` and `conditional_amplification`.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> model = dshap.models.KernelRidge(penalty=1e-2, embedding=dshap.kernels.Nystrom(20))
    >>> fitted = model.fit(x, x[:, 0] * x[:, 1])
    >>> penalty = dshap.models.ShapleyPenalty(player=0, strength=1.0)
    >>> found = dshap.models.robustness(fitted, x, x, penalty, delta=0.01, n_pairs=20)
    >>> found.n_violations  # of the 20 pairs of rows
    0
    """
    expansion = _product_kernel_of(model)
    penalty = checked_penalty(penalty)
    x = numbers_of(expansion, rows, "rows")
    rng = np.random.default_rng(*checked(seed=seed))
    has_distances = np.array([family != "categorical" for family in expansion.kernel.families])
    # (columns,)
    step = np.where(has_distances, np.sqrt(float(Number(0.0, open_low=True)("delta", delta))), 0.0)
    near = x[rng.integers(0, len(x), Whole(1)("n_pairs", n_pairs))]
    moved = near + rng.uniform(-step, step, near.shape)
    amplification = None
    if penalty.value == "observational":
        amplification = conditional_amplification(expansion, data, penalty)
    bound = attribution_bound(expansion, near, moved, amplification)  # (n_pairs, k)
    changes = [
        _moved_by(expansion, near, moved, data, penalty, j) for j in range(expansion.n_columns)
    ]
    # (k,): rounding error of the bound, from that of 1 − k(x, x'): without it, rows that hardly
    # differ would count as violations
    rounding = rkhs_norm(expansion) * np.sqrt(8.0 * np.finfo(float).eps * expansion.n_columns)
    n_violations = sum(int((change > bound + rounding).sum()) for change in changes)
    is_known = bound > rounding
    largest = max(
        float(np.max(change[is_known] / bound[is_known], initial=0.0)) for change in changes
    )
    origin = np.zeros((1, expansion.n_columns))
    widest = attribution_bound(expansion, origin, origin + step, amplification)[0]
    return Robustness(rkhs_norm(expansion), amplification, widest, len(near), n_violations, largest)


def _moved_by(
    expansion: KernelExpansion,
    near: FloatArray,
    moved: FloatArray,
    data: Any,
    penalty: ShapleyPenalty,
    column: int,
) -> FloatArray:
    """|φ_i(x) − φ_i(x')| (n, k) for one column i."""
    of_column = replace(penalty, player=column)
    phi = player_attributions(expansion, np.concatenate([near, moved]), data, of_column)
    return np.abs(phi[: len(near)] - phi[len(near) :])


def _product_kernel_of(model: Any) -> KernelExpansion:
    expansion = expansion_of(model)
    if not isinstance(expansion, KernelExpansion):
        raise InputError(
            "the norm and the bound need landmarks and one product kernel, which "
            f"{type(expansion).__name__} has not: "
            "fit with Nystrom landmarks"
        )
    return expansion


def _blocks(n: int) -> Iterator[slice]:
    return (slice(start, start + MICRO_BLOCK) for start in range(0, n, MICRO_BLOCK))
