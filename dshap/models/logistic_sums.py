"""The passes of kernel logistic regression over rows, and the start that a sample gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dshap.blocks import RowBlock
from dshap.errors import InputError
from dshap.models.expansion import MICRO_BLOCK
from dshap.models.features import ModelFeatures
from dshap.models.newton import Codes, Newton, base_rates, contrasts, logistic_sums, newton_on, validated_penalty
from dshap.models.report import Convergence, FitReport
from dshap.models.rows import HELD_OUT, SKIPPED, TRAIN, is_finite
from dshap.models.tuning import Tuning
from dshap.records import FloatArray, Moments
from dshap.threads import one_blas_thread

if TYPE_CHECKING:
    from dshap.models.logistic import KernelLogistic

__all__ = ["LogisticStep", "class_codes", "class_name", "start_on_sample", "with_ones"]

SAMPLE_TOL, SAMPLE_PASSES = 1e-4, 50
"""Newton's method on the sample: its end is the start on all rows, off by the error of sampling anyway."""


def class_name(label: Any) -> str:
    """A label for people: 1.0 is 1."""
    number = label.item() if isinstance(label, np.generic) else label
    return f"{number:g}" if isinstance(number, float) else str(number)


def class_codes(target: FloatArray, values: FloatArray, classes: NDArray[Any], first: int) -> Codes:
    """(n,): position of each target (n,) in values (K,), for rows of the table that begin at `first`.

    Raises
    ------
    InputError
        A class that the sample does not hold.
    """
    codes = np.minimum(np.searchsorted(values, target), len(values) - 1)
    is_unseen = values[codes] != target
    if is_unseen.any():
        unseen = target[is_unseen][0]
        raise InputError(
            f"class {class_name(unseen)} occurs in the data ({(is_unseen & (target == unseen)).sum()} of the rows from "
            f"{first} on, of {len(target)}) and not in the sample, whose classes are "
            f"{', '.join(map(class_name, classes))}: raise sample_size, or leave out or merge classes so rare"
        )
    return codes


def with_ones(features: ModelFeatures, x: FloatArray) -> FloatArray:
    """Ψ = [Φ, 1] (n, p + 1) of rows (n, columns)."""
    psi = np.ones((len(x), features.size + 1))
    for start in range(0, len(x), MICRO_BLOCK):
        psi[start : start + MICRO_BLOCK, :-1] = features.rows(x[start : start + MICRO_BLOCK])
    return psi


def start_on_sample(
    model: KernelLogistic, features: ModelFeatures, x: FloatArray, codes: Codes, roles: NDArray[np.int8], n_classes: int
) -> tuple[Newton, int]:
    """Where Newton's method begins on all rows, its penalty chosen, from a sample; and the passes over the sample."""
    psi, contrast, n_trials = with_ones(features, x), contrasts(n_classes), 0
    is_validated = isinstance(model.penalty, str)
    penalty = 1.0 if is_validated else float(model.penalty)
    base = base_rates(np.bincount(codes, minlength=n_classes).astype(float), contrast, features.size + 1)
    start = Newton(penalty, contrast, base, SAMPLE_TOL, SAMPLE_PASSES, features.basis.noun)
    if is_validated:
        start, n_trials = validated_penalty(start, psi, codes, roles == TRAIN)
    ended = newton_on(start, psi, codes)
    return replace(start, weights=ended.weights, tol=model.tol, max_iter=model.max_iter), n_trials + ended.n_passes


@dataclass(frozen=True, eq=False)
class LogisticStep:
    """One Newton step of a `KernelLogistic` over all rows; picklable, numpy in and out."""

    model: KernelLogistic
    features: ModelFeatures
    newton: Newton
    values: FloatArray
    """(K,): numbers that stand for the classes in the target, sorted."""
    classes: NDArray[Any]
    """(K,)"""
    n_sample_passes: int
    feature_names: tuple[str, ...] | None = None
    tuning: Tuning | None = None

    wants = ("target",)

    def partial(self, block: RowBlock) -> Moments:
        """Loss, gradient, Hessian and counts over the rows of a block, y (n,).

        Raises
        ------
        InputError
            A class that the sample does not hold.
        """
        x, y = block.x, block.targets
        roles = np.where(is_finite(x, y), self.model.roles(block.positions), SKIPPED)
        is_there, first = roles != SKIPPED, block.start if len(x) else 0
        codes = np.full(len(x), -1, dtype=np.intp)
        codes[is_there] = class_codes(y.reshape(-1)[is_there], self.values, self.classes, first)
        with one_blas_thread():
            sums = logistic_sums(self._blocks(x, codes, roles), self.newton.weights, self.newton.contrast)
        counts = {f"n_{name}": np.array([(roles == role).sum()]) for role, name in ROLE_NAMES.items()}
        return Moments({**sums, **counts})

    def _blocks(self, x: FloatArray, codes: Codes, roles: NDArray[np.integer]) -> Iterator[tuple[FloatArray, Codes]]:
        for start in range(0, len(x), MICRO_BLOCK):
            own = start + np.flatnonzero(roles[start : start + MICRO_BLOCK] < HELD_OUT)
            yield with_ones(self.features, x[own]), codes[own]

    def finish(self, moments: Moments) -> LogisticStep | KernelLogistic:
        """The next step, or the fitted model, from the sum of all moments.

        Raises
        ------
        InputError
            Where no training rows are there, or the penalty is too small for Newton's system to be solved.
        """
        if not moments["counts"].any():
            raise InputError("no training rows: all are held out, or hold NaN or infinity")
        with one_blas_thread():
            newton = self.newton.next(moments.arrays)
        step = replace(self, newton=newton)
        return step if newton.ending is None else step._fitted(moments)

    def _fitted(self, moments: Moments) -> KernelLogistic:
        newton, names = self.newton, self.feature_names
        assert newton.ending is not None
        is_binary = len(self.classes) == 2
        weights = newton.weights if is_binary else newton.weights @ newton.contrast.T  # (p + 1, 1 or K)
        outputs = tuple(map(class_name, self.classes[1:] if is_binary else self.classes))
        expansion = self.features.expansion(weights[:-1], weights[-1], names, outputs)
        convergence = Convergence(
            newton.n_passes, newton.is_converged, newton.ending, newton.loss, newton.objective, newton.decrement,
            self.n_sample_passes,
        )  # fmt: skip
        n_rows, n_held_out, n_skipped = (int(moments[name].sum()) for name in ("counts", "n_held_out", "n_skipped"))
        kernel = self.features.kernel.describe(names)
        report = FitReport(
            kernel, self.features.subset, newton.penalty, n_rows, n_held_out, n_skipped, self.tuning, convergence
        )
        return self.model.fitted(expansion, report, {"classes": self.classes, "class_values": self.values})


ROLE_NAMES = {HELD_OUT: "held_out", SKIPPED: "skipped"}
"""Rows that are only counted."""
