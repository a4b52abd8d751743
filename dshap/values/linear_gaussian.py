"""Observational and interventional values of linear models in closed form, for normal columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.blocks import Checked
from dshap.checks import Choice, checked, finite_array
from dshap.errors import InputError
from dshap.records import BoolArray, Cost, FloatArray, Moments, Record, State
from dshap.values.linear_transform import BATCH_BYTES, LinearTransform, make_transform, transform_design
from dshap.values.normal import SUM_ROWS, NormalTable, Shifted, normal_sums
from dshap.values.predictors import NamedModel, classes_of, fitted_names_of, names_of
from dshap.values.table_value import TableValue

__all__ = ["LinearGaussian"]

KINDS = ("observational", "interventional")


class LinearModel(NamedModel):
    """f(x) = βx + b, β (k, columns) and b (k,)."""

    def __init__(
        self,
        coef: FloatArray,
        intercept: FloatArray,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
    ) -> None:
        self.coef, self.intercept = coef, intercept
        super().__init__(coef.shape[1], len(coef), feature_names, output_names)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """f(x) (n, k)."""
        return rows @ self.coef.T + self.intercept

    @property
    def arrays(self) -> dict[str, FloatArray]:
        return {"coef": self.coef, "intercept": self.intercept}

    def fingerprint(self) -> dict[str, Any]:
        return {"model": Record(self.arrays).digest()}


class LinearGaussian(Shifted):
    """φ = M (x − μ) of a linear model f(x) = βx + b where v_S(x) = E[f(X) | X_S = x_S] and X ~ N(μ, Σ).

    v_S(x) = β (μ + G_S (x − μ)) + b is affine, so all attributions are one (players, columns) matrix M an output, by
    all coalitions up to 16 players, by random orders with standard errors above; then a row costs one product.

    Parameters
    ----------
    coef : array (columns,) or (k, columns), or a fitted linear model with `coef_` and `intercept_`
        Of a classifier the decision function is explained.
    intercept : float or (k,)
    mean, covariance : (columns,) and (columns, columns)
    data : array, data frame, or any table that `dshap.explain` takes, instead of mean and covariance
        They are then sums over all its rows.
    transform : LinearTransform, instead of mean and covariance
        What `linear_transform` made for another model on the same data.
    kind : {"observational", "interventional"}
        Interventional: φ_i = Σ β_c (x_c − μ_c) over the columns c of player i; no covariance is needed.
    n_permutations, ridge, seed : see `linear_transform`
    players, feature_names, output_names : see `Marginal`

    Raises
    ------
    InputError
        Bad options, no covariance, or columns that determine one another (with the ridge to try).

    Notes
    -----
    Source: the notes on LinearExplainer with correlated features of the shap package; Aas, Jullum & Løland (2021) for
    the conditional distribution.
    """

    model: LinearModel
    prefers_closed_form = True

    def __init__(
        self,
        coef: Any,
        intercept: Any = 0.0,
        mean: Any = None,
        covariance: Any = None,
        *,
        data: Any = None,
        transform: LinearTransform | None = None,
        kind: str = "observational",
        n_permutations: int | None = None,
        ridge: float = 0.0,
        seed: int = 0,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        kind = Choice(KINDS)("kind", kind)
        (feature_names,) = checked(feature_names=feature_names)
        names = names_of(feature_names, fitted_names_of(coef), data)
        weights, constant = _model_of(coef, intercept)
        k, c = weights.shape
        self.kind, self.n_permutations = kind, n_permutations
        self.ridge, self.seed = checked(ridge=ridge, seed=seed)
        self.given = transform
        self.table: NormalTable | None = None
        spread = np.ones(c)
        if sum(own is not None for own in (mean, data, transform)) != 1:
            raise InputError("give mean and covariance, or data, or transform: one of the three")
        if transform is not None:
            if players is not None or kind != "observational":
                raise InputError("a transform has its players and its kind: leave players and kind out")
            mean = transform.mean
            names = names or transform.feature_names
            if names is not None and tuple(map(str, names)) != (transform.feature_names or tuple(map(str, names))):
                raise InputError(
                    f"the transform has columns {list(transform.feature_names or ())}, the model {list(names)}: make "
                    "the transform with the model's columns in the model's order"
                )
        elif mean is not None:
            mean = finite_array("mean", mean, (1,), "(columns,)")
            if covariance is None and kind == "observational":
                raise InputError("covariance is missing: give Σ (columns, columns), or kind='interventional'")
            own = (
                np.eye(len(mean))
                if covariance is None
                else finite_array("covariance", covariance, (2,), "(columns, columns)")
            )
            self.table = NormalTable.of_covariance(mean, own, self.ridge)
            spread = np.sqrt(np.diag(own))
        if mean is not None and np.shape(mean) != (c,):
            raise InputError(f"the model has {c} coefficients and mean has shape {np.shape(mean)}: give one a column")
        outputs = output_names if output_names is not None else classes_of(coef, k)
        super().__init__(
            LinearModel(weights, constant, names, outputs),
            data if mean is None else np.array([mean - spread, mean + spread]),  # of that mean, and they vary
            players,
        )
        if transform is not None:
            self.players = transform.players
        if self.table is not None and kind == "observational":
            self.table.check(self.model.column_names)

    def closed_form(self) -> Self:
        return self

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """What the attributions and the prediction differ by."""
        return state()["base"]

    @property
    def n_replicates(self) -> int:
        """Groups of the standard errors of M."""
        if self.kind == "interventional":
            return 0
        if self.given is not None:
            return len(self.given.replicates)
        return transform_design(self.n_players, self.n_permutations, self.seed).info.n_replicates

    @property
    def _learns(self) -> bool:
        return self.table is None and self.given is None

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """`sum` (columns,), `outer` (columns, columns) of x − shift, and `count`; nothing where Σ was given."""
        if not self._learns:
            return Moments()
        return normal_sums(rows, self._shift())

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`matrix` (d, columns, k), `replicates` (R, d, columns, k), `mean` (columns,), `base` (k,)."""
        matrix, replicates, mean = self._matrices(moments)
        return State({"matrix": matrix, "replicates": replicates, "mean": mean, "base": self.model(mean[None])[0]})

    def _matrices(self, moments: Moments | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """M, M of the jackknife groups, and μ."""
        if self.given is not None:
            kept = [self.given.players.names.index(name) for name in self.players.names]
            matrix, replicates = self.given.of_model(self.model.coef)
            return matrix[kept], replicates[:, kept], self.given.mean
        table = self.table
        if table is None:
            assert moments is not None
            table = NormalTable.of_moments(moments, self._shift(), self.ridge)
        d = self.n_players
        if self.kind == "interventional":
            matrix = self.players.members[:, :, None] * self.model.coef.T[None]
            return matrix, np.zeros((0, *matrix.shape)), table.mean
        design = transform_design(d, self.n_permutations, self.seed)
        transform = make_transform(table, self.players, design, self.model.feature_names)
        return (*transform.of_model(self.model.coef), table.mean)

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """The matrix is one for all rows."""
        return state

    def attribute(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k) = (x − μ) M."""
        return _product(rows - state["mean"], state["matrix"])

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """The columns of M sum to β: nothing but rounding is left open."""
        return Checked(np.zeros(self.n_outputs), {})

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """φ_(g) (R, n, d, k)."""
        offset = rows - state["mean"]
        return np.stack([_product(offset, own) for own in state["replicates"]])

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """No coalition is listed: (n, 0, k)."""
        return np.empty((len(rows), 0, self.n_outputs))

    def describe_form(self) -> str:
        """How M is made, in a line."""
        design = transform_design(self.n_players, self.n_permutations, self.seed)
        if self.kind == "interventional" or self.given is not None:
            return "one matrix an output"
        return f"one matrix an output, from {design.info.n_coalitions:,} coalitions ({design.fingerprint()['design']})"

    def stated_error(self, state: State) -> dict[str, Any]:
        """How M was made."""
        design = transform_design(self.n_players, self.n_permutations, self.seed)
        if self.kind == "interventional":
            return {"kind": "linear, interventional"}
        how = "a kept transform" if self.given is not None else str(design.fingerprint()["design"])
        return {"kind": "linear, observational", "matrix": how, "coalitions": design.info.n_coalitions}

    def cost(self, m: int, n: int = 1) -> Cost:
        """The matrices of all groups; of `prepare` the transforms of all groups, their sums and a batch of
        coalitions."""
        c, k, d = self.n_columns, self.n_outputs, self.n_players
        groups = self.n_replicates
        state = 8 * (1 + groups) * d * c * k + 8 * (c + k)
        moments = 8 * (c * c + c + 1)
        return Cost(
            state_bytes=state,
            prepare_bytes=4 * 8 * (1 + groups) * d * c * c + 3 * BATCH_BYTES + 2 * state,
            task_bytes=8 * n * (2 * c + (2 + 2 * groups) * d * k),
            operations=2.0 * n * (1 + groups) * c * d * k,
            moment_bytes=moments,
            moment_task_bytes=8 * 3 * min(n, SUM_ROWS) * c + 2 * moments,
            moment_operations=2.0 * n * c**2,
        )

    def fingerprint(self) -> dict[str, Any]:
        transform = self.given
        held = self.model.arrays
        if self.table is not None:
            held |= {"mean": self.table.mean, "deviation": self.table.deviation, "correlation": self.table.correlation}
        if transform is not None:
            held |= {"mean": transform.mean, "transform": transform.values, "groups": transform.replicates}
        return {
            "value": "linear_gaussian",
            "kind": self.kind,
            "model": Record(held).digest(),
            "n_permutations": self.n_permutations,
            "ridge": self.ridge,
            "seed": self.seed,
            "players": self.players.fingerprint(),
        }


def _product(offset: FloatArray, matrix: FloatArray) -> FloatArray:
    """(n, d, k) of offsets (n, columns) and a matrix (d, columns, k), by one matrix product."""
    d, c, k = matrix.shape
    return np.asarray(offset @ matrix.transpose(1, 0, 2).reshape(c, d * k)).reshape(len(offset), d, k)


def _model_of(coef: Any, intercept: Any) -> tuple[FloatArray, FloatArray]:
    """Coefficients (k, columns) and intercepts (k,) of numbers, or of a fitted linear model.

    Raises
    ------
    InputError
        A model without them, or shapes that do not go together.
    """
    model = coef if hasattr(coef, "coef_") else None
    if model is not None:
        coef, intercept = model.coef_, getattr(model, "intercept_", 0.0)
    elif hasattr(coef, "predict") or isinstance(coef, TableValue):
        raise InputError(
            f"{type(coef).__name__} has no coef_: give a fitted linear model or its coefficients; for other models use "
            "Gaussian(predict, data)"
        )
    try:
        weights = np.atleast_2d(np.array(coef, dtype=float))
        constant = np.atleast_1d(np.array(intercept, dtype=float))
    except (TypeError, ValueError) as error:
        raise InputError(f"coef and intercept must be numbers: {error}") from error
    if weights.ndim != 2 or constant.ndim != 1 or len(constant) not in (1, len(weights)):
        raise InputError(
            f"coef has shape {np.shape(coef)} and intercept {np.shape(intercept)}: give (columns,) with a number, or "
            "(k, columns) with (k,)"
        )
    if not (np.isfinite(weights).all() and np.isfinite(constant).all()):
        raise InputError("coef or intercept holds NaN or infinity: fit the model again")
    constant = np.broadcast_to(constant, len(weights)).copy()
    if model is not None:
        _check_linear(model, weights, constant)
    return weights, constant


def _check_linear(model: Any, weights: FloatArray, constant: FloatArray) -> None:
    """Refuse a model whose predictions are not coef_ x + intercept_."""
    predict = getattr(model, "decision_function", getattr(model, "predict", None))
    if predict is None:
        return
    rows = np.concatenate([np.zeros((1, weights.shape[1])), np.eye(weights.shape[1])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of column names, which the rows have no need of here
        found = np.asarray(predict(rows), dtype=float).reshape(len(rows), -1)
    wanted = rows @ weights.T + constant
    if found.shape != wanted.shape or not np.allclose(found, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max()):
        raise InputError(
            f"predictions of {type(model).__name__} are not coef_·x + intercept_: give the coefficients of what is to "
            "be explained, or use Gaussian(predict, data)"
        )
