"""Reports on fits: rows, features, penalty, convergence, and held-out scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dshap.core.records import FloatArray
from dshap.kernels import FourierFeatures, KeptLandmarks, ProductKernel, SubsetFeatures
from dshap.models.tuning import Tuning

MEASURES = {"r2": "R²", "accuracy": "accuracy", "log_loss": "log-loss"}
"""Name of a held-out score -> its name in print."""


@dataclass(frozen=True)
class Convergence:
    """How Newton's method over all rows ended: whether it converged, why, and at which loss.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = dshap.models.KernelLogistic(penalty=1e-2, embedding=dshap.kernels.Nystrom(20))
    >>> convergence = model.fit(x, x[:, 0] > 0).report_.convergence
    >>> type(convergence).__name__, convergence.is_converged
    ('Convergence', True)
    """

    n_passes: int
    """Number of Newton steps that were tried; each is a pass over all rows."""
    is_converged: bool
    reason: str
    """Why it ended, in words."""
    loss: float
    """Mean log-loss of the training rows, at the last point evaluated."""
    objective: float
    """loss + penalty/2 ‖f‖² at that point, plus the Shapley penalty if there is one."""
    decrement: float
    """How much one more step would lower the objective, by Newton's quadratic model."""
    n_sample_passes: int
    """Number of Newton steps on the sample before, including those that tried penalties."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            "report_newton": np.array(
                [self.n_passes, int(self.is_converged), self.n_sample_passes]
            ),
            "report_newton_sizes": np.array([self.loss, self.objective, self.decrement]),
            "report_newton_reason": np.array(self.reason),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Convergence:
        n_passes, is_converged, n_sample_passes = (int(count) for count in arrays["report_newton"])
        loss, objective, decrement = (float(size) for size in arrays["report_newton_sizes"])
        reason = str(arrays["report_newton_reason"])
        return cls(
            n_passes, bool(is_converged), reason, loss, objective, decrement, n_sample_passes
        )

    def __str__(self) -> str:
        if self.is_converged:
            how = "converged"
        else:
            how = "NOT converged"
        return (
            f"{how} in {self.n_passes} passes over all rows ({self.n_sample_passes} over the "
            "sample before): "
            f"{self.reason}; log-loss {self.loss:.4f}, objective {self.objective:.4f}"
        )


@dataclass(frozen=True)
class PlayerReport:
    """How large the attributions of the penalised player are after a fit with a `ShapleyPenalty`.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(80, 2))
    >>> penalty = dshap.models.ShapleyPenalty(player=1, strength=100.0)
    >>> embedding = dshap.kernels.Nystrom(20)
    >>> model = dshap.models.KernelRidge(penalty=1e-3, embedding=embedding, shapley=penalty)
    >>> report = model.fit(x, x[:, 0] + x[:, 1]).report_.shapley
    >>> report.strength, report.value, report.n_coalitions
    (100.0, 'interventional', 4)
    >>> bool(report.train[0] < 0.1)
    True
    """

    player: str
    value: str
    """The kind of values: "interventional" or "observational"."""
    strength: float
    n_coalitions: int
    """Coalitions listed or drawn, including the empty and the full one."""
    train: FloatArray
    """(k,): mean of φ_A(x)² over the training rows, for each output of the model."""
    held_out: FloatArray | None
    """(k,): mean of φ_A(x)² over the held-out rows; None if no row is held out."""

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {
            "report_player": np.array([self.player, self.value]),
            "report_player_options": np.array([self.strength, self.n_coalitions]),
            "report_player_train": self.train,
            **({} if self.held_out is None else {"report_player_held_out": self.held_out}),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> PlayerReport:
        player, value = arrays["report_player"]
        strength, n_coalitions = arrays["report_player_options"]
        train = arrays["report_player_train"]
        held_out = arrays.get("report_player_held_out")
        return cls(str(player), str(value), float(strength), int(n_coalitions), train, held_out)

    def __str__(self) -> str:
        found = f"{', '.join(f'{each:.4g}' for each in self.train)} (training rows)"
        if self.held_out is not None:
            found += f", {', '.join(f'{each:.4g}' for each in self.held_out)} (held out)"
        return f"mean square of the {self.value} attribution of {self.player} at strength {self.strength:g}: {found}"


@dataclass(frozen=True)
class FitReport:
    """How a fit ended: its rows, features, penalty, convergence and held-out scores.

    Print it for a summary of a few lines.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> embedding = dshap.kernels.Nystrom(20)
    >>> model = dshap.models.KernelRidge(penalty=1e-6, embedding=embedding, holdout=0.2)
    >>> report = model.fit(x, x[:, 0]).report_
    >>> type(report).__name__, report.n_rows + report.n_held_out
    ('FitReport', 200)
    >>> bool(report.r2[0] > 0.9)
    True
    """

    kernel: dict[str, str]
    """Column -> the kernel of the column: its family and parameter."""
    features: SubsetFeatures
    """The selected landmarks, or the frequencies."""
    penalty: float
    """λ, as it was given or chosen."""
    n_rows: int
    """Number of training rows."""
    n_held_out: int
    """Number of rows that are only for the held-out scores."""
    n_skipped: int
    """Number of rows left out because a feature or the target is not finite."""
    tuning: Tuning | None = None
    """How the length-scales were validated; None if they were given."""
    convergence: Convergence | None = None
    """How Newton's method ended; None for models fitted in one pass."""
    held_out: Mapping[str, FloatArray] = field(default_factory=dict)
    """Name in `MEASURES` -> score (k,) of the held-out rows, once computed."""
    shapley: PlayerReport | None = None
    """The penalised player's attributions; None without a `ShapleyPenalty`."""

    @property
    def r2(self) -> FloatArray | None:
        """(k,): held-out R² of each output."""
        return self.held_out.get("r2")

    @property
    def score_lines(self) -> list[str]:
        """The held-out scores, one line each."""
        scores = self.held_out.items()
        return [
            f"held-out {MEASURES[name]}: {', '.join(f'{v:.4f}' for v in score)}"
            for name, score in scores
        ]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Flat arrays with the prefix `report_`; the kernel is stored with the expansion."""
        tuning = self.tuning
        return {
            "report_counts": np.array([self.n_rows, self.n_held_out, self.n_skipped]),
            "report_penalty": np.array(self.penalty),
            "report_tuning": np.empty(0)
            if tuning is None
            else np.array([tuning.penalty, tuning.error, tuning.evaluations]),
            **{f"report_{name}": array for name, array in self.features.to_arrays().items()},
            **{f"report_{name}": score for name, score in self.held_out.items()},
            **({} if self.convergence is None else self.convergence.to_arrays()),
            **({} if self.shapley is None else self.shapley.to_arrays()),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], kernel: ProductKernel, names: Sequence[str] | None
    ) -> FitReport:
        stored = {
            name.removeprefix("report_"): array
            for name, array in arrays.items()
            if name.startswith("report_")
        }
        tuning = stored["tuning"]
        n_rows, n_held_out, n_skipped = stored["counts"]
        return cls(
            kernel.describe(names),
            _features_from(stored["kept"], stored.get("factor"), stored.get("residual")),
            float(stored["penalty"]),
            n_rows=int(n_rows),
            n_held_out=int(n_held_out),
            n_skipped=int(n_skipped),
            tuning=Tuning(kernel, float(tuning[0]), float(tuning[1]), int(tuning[2]))
            if len(tuning)
            else None,
            convergence=Convergence.from_arrays(arrays) if "newton" in stored else None,
            held_out={name: stored[name] for name in MEASURES if name in stored},
            shapley=PlayerReport.from_arrays(arrays) if "player" in stored else None,
        )

    def __str__(self) -> str:
        lines = [
            f"{self.n_rows} rows, {self.n_held_out} held out, {self.n_skipped} skipped; penalty "
            f"{self.penalty:.2g}"
        ]
        lines.append(self.features.describe())
        if self.tuning is not None:
            lines.append(
                f"tuning: validation error {self.tuning.error:.4f} in {self.tuning.evaluations} "
                "evaluations"
            )
        if self.convergence is not None:
            lines.append(f"Newton: {self.convergence}")
        if self.shapley is not None:
            lines.append(str(self.shapley))
        lines += self.score_lines
        return "\n".join([*lines, *(f"  {name}: {kernel}" for name, kernel in self.kernel.items())])


def _features_from(kept: Any, factor: Any = None, residual: Any = 0.0) -> SubsetFeatures:
    """The features of stored arrays: landmarks if there is a factor, else frequencies."""
    if factor is None:
        return FourierFeatures(kept)
    return KeptLandmarks(kept, factor, len(kept), float(residual))
