"""Newton's method for the penalised log-loss, from sums over rows.

A point is weights (p + 1, c) of the features and, last, the intercept. The c coordinates are
contrasts of the K classes: two classes have one, the log-odds of the second; more have K − 1,
orthonormal and orthogonal to the direction that adds one number to all classes, which changes no
probability. So the Hessian is regular, with (K − 1)(p + 1) rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.records import FloatArray
from dshap.kernels import ridge_solve
from dshap.models.rows import MICRO_BLOCK

PENALTIES = 10.0 ** np.arange(0.0, -10.1, -0.5)
"""The grid of λ that penalty="validate" tries, largest first."""
PATIENCE = 3
"""The path ends after this many penalties in a row without a lower validation loss."""
PATH_TOL = 1e-3
"""Tolerance of Newton's method at each penalty of the path."""
PATH_PASSES = 10
"""The most Newton steps at each penalty of the path."""
PATH_ROWS = 10_000
"""The most training rows at each penalty of the path."""
SMALLEST_STEP = 2.0**-20
"""The smallest share of Newton's step that is tried before the method ends."""
SLACK = 1e-13
"""A relative rise of the objective up to this is rounding."""
ROUNDING = 1e-15
"""A gain below this share of the objective is rounding."""

Codes = NDArray[np.intp]
"""(n,): the class of each row, 0 to K − 1."""


def contrasts(n_classes: int) -> FloatArray:
    """C (K, c): the logits (n, K) are the coordinates (n, c) times Cᵀ."""
    if n_classes == 2:
        return np.array([[0.0], [1.0]])
    return scipy.linalg.helmert(n_classes).T


def base_rates(counts: FloatArray, contrast: FloatArray, size: int) -> FloatArray:
    """(size, c): the point without features that gives each class its share of the rows.

    counts (K,).
    """
    logs = np.log(np.maximum(counts, 0.5))  # half a row keeps the log of an empty class finite
    return np.vstack([np.zeros((size - 1, contrast.shape[1])), (logs - logs[0]) @ contrast])


def class_pairs(c: int) -> list[tuple[int, int]]:
    """The blocks (a, b) of a symmetric matrix of c × c blocks, each once."""
    return [(a, b) for a in range(c) for b in range(a + 1)]


def class_loss(logits: FloatArray, codes: Codes) -> tuple[FloatArray, FloatArray]:
    """−log P(class of the row) (n,), and the logits (n, K) minus that of the row's class.

    Accurate near 0.
    """
    gap = logits - np.take_along_axis(logits, codes[:, None], axis=1)
    return np.logaddexp.reduce(gap, axis=1), gap


def logistic_sums(
    blocks: Iterable[tuple[FloatArray, Codes]], weights: FloatArray, contrast: FloatArray
) -> dict[str, FloatArray]:
    """Loss, gradient and Hessian of the log-loss, summed over rows at one point.

    Parameters
    ----------
    blocks : pairs of features (n, p + 1), whose last column is 1, and classes (n,)
    weights : (p + 1, c)
    contrast : (K, c)

    Returns
    -------
    dict
        "counts" (K,) of the classes; "loss" (1,); "gradient" (p + 1, c) = Ψᵀ(P − Y)C; "hessian"
        (c(c + 1)/2, p + 1, p + 1): for each of `pairs`, Ψᵀ diag(m_ab) Ψ with m = Cᵀ(diag(p) − ppᵀ)C
        row by row.
    """
    p, c = weights.shape
    classes = len(contrast)
    out = {
        "counts": np.zeros(classes),
        "loss": np.zeros(1),
        "gradient": np.zeros((p, c)),
        "hessian": np.zeros((len(class_pairs(c)), p, p)),
    }
    for psi, codes in blocks:
        loss, gap = class_loss(psi @ weights @ contrast.T, codes)
        chance = np.exp(gap - loss[:, None])  # (n, K)
        mean = chance @ contrast  # (n, c)
        # P − Y; of the row's class P − 1 = expm1(−loss), which keeps its digits if P is near 1
        residual = np.where(codes[:, None] == np.arange(classes), np.expm1(-loss)[:, None], chance)
        out["counts"] += np.bincount(codes, minlength=classes)
        out["loss"] += loss.sum()
        out["gradient"] += psi.T @ (residual @ contrast)
        for block, (a, b) in zip(out["hessian"], class_pairs(c), strict=True):
            curvature = chance @ (contrast[:, a] * contrast[:, b]) - mean[:, a] * mean[:, b]  # (n,)
            if a == b:
                scaled = psi * np.sqrt(np.maximum(curvature, 0.0))[:, None]
                block += scaled.T @ scaled  # BLAS uses the symmetry: half the work
            else:
                block += psi.T @ (psi * curvature[:, None])
    return out


@dataclass(frozen=True, eq=False)
class Newton:
    """The state of Newton's method between two passes: the next point, or how it ended."""

    penalty: float
    contrast: FloatArray
    """(K, c)"""
    weights: FloatArray
    """(p + 1, c): the point that the next pass evaluates; the solution once it has ended."""
    tol: float
    max_iter: int
    noun: str = "features"
    """Name of the features in error messages."""
    n_passes: int = 0
    accepted: FloatArray | None = None
    """The best point so far; `weights` is step · direction away from it."""
    direction: FloatArray | None = None
    step: float = 1.0
    loss: float = np.inf
    """Mean loss at the accepted point."""
    objective: float = np.inf
    """loss + penalty/2 ‖f‖² at the accepted point, with the Shapley penalty if there is one."""
    decrement: float = np.inf
    """The gain that the quadratic model still predicts at the accepted point."""
    ending: str | None = None
    """Why it ended; None while it runs."""
    is_converged: bool = False

    def next(self, sums: Mapping[str, NDArray[Any]], form: FloatArray | None = None) -> Newton:
        """The next point, from the sums at this one (see `logistic_sums`).

        `form` (p, p) is that of a Shapley penalty, or None. The objective is the mean loss +
        penalty/2 ‖f‖² + Σ wᵀ form w / 2.

        A point whose objective is not above the last one is accepted, and Newton's step is taken
        from there; otherwise the step is halved.  The method has converged if λ_N²/2 = gᵀH⁻¹g/2,
        the gain of the full step, is at most tol·objective, and no log-odds can change by more than
        1 (‖Ψ‖ ≤ √2): then the last step is safe and is taken without evaluating it.  A start that
        is worse than the point without features, as from a separable sample, is replaced by it.
        """
        counts = sums["counts"]
        now = replace(self, n_passes=self.n_passes + 1)
        n = float(counts.sum())
        w = self.weights[:-1]
        loss = float(sums["loss"][0]) / n
        bent = self.penalty * w  # (p, c)
        if form is not None:
            bent = bent + form @ w
        objective = loss + float(np.vdot(w, bent)) / 2
        if self.accepted is None and w.any() and objective > scipy.special.entr(counts / n).sum():
            return replace(now, weights=base_rates(counts, self.contrast, len(self.weights)))
        if objective > self.objective + SLACK * self.objective:
            return now._halved()
        gradient = sums["gradient"].copy()
        gradient[:-1] += n * bent
        direction = -self._solved(
            sums["hessian"], gradient, n * self.penalty, None if form is None else n * form
        )
        decrement = -float(np.vdot(gradient, direction)) / (2.0 * n)
        now = replace(
            now,
            accepted=self.weights,
            loss=loss,
            objective=objective,
            decrement=decrement,
            direction=direction,
            step=1.0,
        )
        gain = f"a Newton step gains {decrement / max(objective, 1e-300):.1e} of the objective"
        if (
            decrement <= max(self.tol, ROUNDING) * objective
            and np.sqrt(2.0) * np.linalg.norm(direction) <= 1.0
        ):
            return replace(now, weights=self.weights + direction, is_converged=True, ending=gain)
        if now.n_passes >= self.max_iter:
            return replace(
                now,
                ending=f"max_iter = {self.max_iter} passes are over, {gain}: raise max_iter or penalty",
            )
        return replace(now, weights=self.weights + direction)

    def _halved(self) -> Newton:
        assert self.accepted is not None
        assert self.direction is not None
        half = replace(
            self, step=self.step / 2, weights=self.accepted + self.step / 2 * self.direction
        )
        if half.step < SMALLEST_STEP:
            return replace(
                self,
                weights=self.accepted,
                ending="no step along Newton's direction lowers the objective",
            )
        if self.n_passes >= self.max_iter:
            ending = f"max_iter = {self.max_iter} passes are over, the last one did not lower the objective"
            return replace(self, weights=self.accepted, ending=ending)
        return half

    def again(self) -> Newton:
        """Newton's method for another objective, starting at this solution."""
        return Newton(self.penalty, self.contrast, self.weights, self.tol, self.max_iter, self.noun)

    def _solved(
        self, hessian: FloatArray, gradient: FloatArray, ridge: float, form: FloatArray | None
    ) -> FloatArray:
        """H⁻¹g (p + 1, c); ridge and form apply to all coordinates but the intercepts."""
        p, c = gradient.shape
        system = np.empty((c, p, c, p))
        for block, (a, b) in zip(hessian, class_pairs(c), strict=True):
            system[a, :, b] = system[b, :, a] = block
        if form is not None:
            for a in range(c):
                system[a, :-1, a, :-1] += form
        diagonal = np.full((c, p), ridge)
        diagonal[:, -1] = 0.0
        solved = ridge_solve(
            system.reshape(c * p, c * p), gradient.T.reshape(-1, 1), diagonal.ravel(), self.noun
        )
        return solved.reshape(c, p).T


def newton_on(newton: Newton, psi: FloatArray, codes: Codes) -> Newton:
    """Run Newton's method to its end on rows (n, p + 1) in memory."""
    while newton.ending is None:
        newton = newton.next(logistic_sums(_blocks(psi, codes), newton.weights, newton.contrast))
    return newton


def _blocks(psi: FloatArray, codes: Codes) -> Iterator[tuple[FloatArray, Codes]]:
    for start in range(0, len(psi), MICRO_BLOCK):
        yield psi[start : start + MICRO_BLOCK], codes[start : start + MICRO_BLOCK]


def validated_penalty(
    start: Newton, psi: FloatArray, codes: Codes, is_train: NDArray[np.bool_]
) -> tuple[Newton, int]:
    """`start` with the penalty and point of least validation log-loss, and the number of passes.

    Penalties fall along `PENALTIES`, each starting at the solution of the one before, until
    `PATIENCE` of them in a row have not lowered the validation loss or the system is singular.

    Raises
    ------
    InputError
        There are no training or no validation rows.
    """
    train = np.flatnonzero(is_train)
    held = np.flatnonzero(~is_train)
    if not len(train) or not len(held):
        raise InputError(
            "penalty='validate' found no validation rows: give a penalty, or more rows"
        )
    train = train[:: -(-len(train) // PATH_ROWS)]  # evenly spaced over the table
    psi_train = psi[train]
    psi_held = psi[held]
    n_passes = 0
    best = start
    best_loss = np.inf
    since = 0
    last = replace(start, tol=PATH_TOL, max_iter=PATH_PASSES)
    for penalty in PENALTIES:
        try:
            ended = newton_on(replace(last, penalty=float(penalty)), psi_train, codes[train])
        except InputError:  # the system is singular, and would be so for all smaller penalties
            if not np.isfinite(best_loss):
                raise
            break
        loss = float(class_loss(psi_held @ ended.weights @ start.contrast.T, codes[held])[0].mean())
        last = replace(last, weights=ended.weights)
        n_passes = n_passes + ended.n_passes
        if loss < best_loss:
            best = replace(start, penalty=float(penalty), weights=ended.weights)
            best_loss = loss
            since = 0
        else:
            since += 1
        if since == PATIENCE:
            break
    return best, n_passes
