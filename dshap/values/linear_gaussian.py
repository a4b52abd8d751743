"""Observational and interventional values of linear models in closed form, for Gaussian columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dshap.core.annotations import HasCoefficients, TableLike
from dshap.core.errors import InputError
from dshap.core.players import Players
from dshap.core.records import JSON, FloatArray, Moments, Record
from dshap.core.rules import Choice, as_path, checked, finite_array
from dshap.predictors.linear import LinearModel, coefficients_of
from dshap.predictors.named import fitted_names_of, names_of
from dshap.predictors.predict_scale import decision_scale, output_names_of
from dshap.values.normal import NormalTable, Shifted, normal_sums

KINDS = ("observational", "interventional")


@dataclass(frozen=True, eq=False)
class LinearTransform:
    """The part of a linear model's Shapley values that depends on the data alone, to be reused.

    `dshap.linear_transform` makes it.  It stores matrices T (d, columns, columns): a model f(x) = βx
    + b has the attributions φ_i = β T[i] (x − μ), whatever its coefficients β.  T[i] (x − μ) is the
    Shapley value of player i in the game v_S = E[x | x_S] − μ.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import LinearTransform
    >>> transform = dshap.linear_transform(np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> transform.values.shape  # (players, columns, columns)
    (2, 2, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     transform.save(f"{folder}/transform.npz")
    ...     again = LinearTransform.load(f"{folder}/transform.npz")
    >>> np.array_equal(again.values, transform.values)
    True
    """

    mean: FloatArray
    """μ (columns,)"""
    values: FloatArray
    """T (d, columns, columns)"""
    replicates: FloatArray
    """(R, d, columns, columns): T of the jackknife groups; R = 0 if all coalitions are evaluated."""
    players: Players
    """The d players and their columns."""
    feature_names: tuple[str, ...] | None
    """Names of the columns; None if they are not known."""

    @property
    def has_nan_errors(self) -> bool:
        """Whether it was made from too few random orders for standard errors, which are NaN then."""
        return bool(np.isnan(self.replicates).any())

    def of_model(self, coef: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The matrices M (d, columns, k) of a linear model, and (R, d, columns, k) of the groups.

        φ_i = (x − μ) M[i], for coefficients `coef` (k, columns).
        """
        both = np.concatenate([self.values[None], self.replicates])  # (1 + R, d, columns, columns)
        found = np.einsum("ka,rdab->rdbk", coef, both, optimize=True)
        return found[0], found[1:]

    def save(self, path: str | Path) -> None:
        """Write an .npz file, which `numpy.load` can open."""
        arrays = {"mean": self.mean, "values": self.values, "replicates": self.replicates}
        texts = {"players": self.players.names, "feature_names": self.feature_names or ()}
        arrays |= {
            name: np.array([one.encode() for one in each], dtype=bytes)
            for name, each in texts.items()
        }
        as_path("path", path, "file").write_bytes(
            Record({**arrays, "members": self.players.members}).to_bytes()
        )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote."""
        record = Record.load(as_path("path", path, "file"))
        names, columns = (
            tuple(one.decode() for one in record[name].tolist())
            for name in ("players", "feature_names")
        )
        players = Players(names, record["members"])
        return cls(record["mean"], record["values"], record["replicates"], players, columns or None)


class LinearGaussian(Shifted):
    """Values of a linear model in closed form, with the columns assumed to be jointly normal.

    The model is f(x) = βx + b, and v_S(x) = E[f(X) | X_S = x_S] with X ~ N(μ, Σ).  This v_S(x) = β
    (μ + G_S (x − μ)) + b is affine in x, so that all attributions of an output are φ = M (x − μ)
    with one matrix M (players, columns).  Up to 16 players M is computed from all coalitions; with
    more players from random orders, with standard errors.  After that a row costs one matrix
    product.

    Parameters
    ----------
    coef : array (columns,) or (k, columns), or a fitted linear model
        The coefficients β, or a model with `coef_` and `intercept_`.  For a classifier the decision
        function is explained.
    intercept : float or (k,)
        The constant b.
    mean, covariance : (columns,) and (columns, columns)
        μ and Σ.  Give one of: mean and covariance, data, transform.
    data : array, data frame, or any table that `dshap.explain` accepts
        Replaces mean and covariance, which are then computed from all its rows.
    transform : LinearTransform
        Replaces mean and covariance: the result of `linear_transform`, reused for another model on
        the same data.
    kind : {"observational", "interventional"}
        "interventional": φ_i = Σ β_c (x_c − μ_c) over the columns c of player i; no covariance is
        needed.
    n_permutations, ridge, seed : see `linear_transform`
    players, feature_names, output_names : see `Marginal`

    Raises
    ------
    InputError
        An option that is not allowed, no covariance, or columns that determine one another; the
        message names them and a ridge to try.

    Notes
    -----
    Source: the notes on LinearExplainer with correlated features of the shap package; Aas, Jullum &
    Løland (2021) for the conditional distribution.

    Examples
    --------
    >>> import numpy as np
    >>> import dshap
    >>> from dshap.values import LinearGaussian
    >>> covariance = np.array([[1.0, 0.5], [0.5, 1.0]])  # the model ignores the second column
    >>> for kind in ("observational", "interventional"):
    ...     value = LinearGaussian([2.0, 0.0], mean=np.zeros(2), covariance=covariance, kind=kind)
    ...     cube = dshap.explain(value, np.array([[1.0, 1.0]]))
    ...     print(kind, cube.attribution.values[0, :, 0].round(9).tolist())
    observational [1.5, 0.5]
    interventional [2.0, 0.0]
    """

    model: LinearModel
    transform: LinearTransform | None
    table: NormalTable | None

    def __init__(
        self,
        coef: ArrayLike | HasCoefficients,
        intercept: ArrayLike = 0.0,
        mean: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        *,
        data: TableLike | None = None,
        transform: LinearTransform | None = None,
        kind: Literal["observational", "interventional"] = "observational",
        n_permutations: int | None = None,
        ridge: float = 0.0,
        seed: int = 0,
        players: Mapping[str, Sequence[str | int]] | None = None,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        self.kind = Choice(KINDS)("kind", kind)
        self.n_permutations = n_permutations
        (feature_names,) = checked(feature_names=feature_names)
        names = names_of(feature_names, fitted_names_of(coef), data)
        weights, constant = coefficients_of(coef, intercept)
        k, c = weights.shape
        self.ridge, self.seed = checked(ridge=ridge, seed=seed)
        self.transform = transform
        self.table = None
        spread = np.ones(c)
        if sum(given is not None for given in (mean, data, transform)) != 1:
            raise InputError("give mean and covariance, or data, or transform: one of the three")
        if transform is not None:
            if players is not None or kind != "observational":
                raise InputError(
                    "a transform has its players and its kind: leave players and kind out"
                )
            mean = transform.mean
            names = _names_with(transform, names)
        elif mean is not None:
            mean = finite_array("mean", mean, (1,), "(columns,)")
            covariance = self._covariance(covariance, len(mean))
            self.table = NormalTable.of_covariance(mean, covariance, self.ridge)
            spread = np.sqrt(np.diag(covariance))
        if mean is not None and np.shape(mean) != (c,):
            raise InputError(
                f"the model has {c} coefficients and mean has shape {np.shape(mean)}: give one for "
                "each column"
            )
        scale = decision_scale(coef, k)
        if output_names is None:
            output_names = output_names_of(coef, k, scale)
        super().__init__(
            LinearModel(weights, constant, names, output_names, scale),
            # two rows with that mean, in which every column varies
            data if mean is None else np.array([mean - spread, mean + spread]),
            players,
        )
        if transform is not None:
            self.players = transform.players
        if self.table is not None and not self.is_interventional:
            self.table.check(self.model.column_names)

    def _covariance(self, given: Any, n_columns: int) -> FloatArray:
        """Σ (columns, columns); the identity if none is needed."""
        if given is not None:
            return finite_array("covariance", given, (2,), "(columns, columns)")
        if not self.is_interventional:
            raise InputError(
                "covariance is missing: give Σ (columns, columns), or kind='interventional'"
            )
        return np.eye(n_columns)

    @property
    def is_interventional(self) -> bool:
        """Whether absent columns have their means, whatever the present ones are."""
        return self.kind == "interventional"

    @property
    def _learns(self) -> bool:
        return self.table is None and self.transform is None

    def sums(self, rows: FloatArray) -> Moments:
        """`sum` (columns,) and `outer` (columns, columns) of x − shift, and `count`.

        Empty if Σ or a transform was given.
        """
        if self._learns:
            return normal_sums(rows, self._shift())
        return Moments()

    def table_of(self, moments: Moments) -> NormalTable:
        """The given mean and covariance, or those from the sums over the data."""
        return self.table or NormalTable.of_moments(moments, self._shift(), self.ridge)

    def fingerprint(self) -> dict[str, JSON]:
        """The settings and digests that identify the values: equal fingerprints, equal numbers."""
        transform = self.transform
        held = self.model.arrays
        if self.table is not None:
            held |= {
                "mean": self.table.mean,
                "deviation": self.table.deviation,
                "correlation": self.table.correlation,
            }
        if transform is not None:
            held |= {
                "mean": transform.mean,
                "transform": transform.values,
                "groups": transform.replicates,
            }
        return {
            "value": "linear_gaussian",
            "kind": self.kind,
            "model": Record(held).digest(),
            "n_permutations": self.n_permutations,
            "ridge": self.ridge,
            "seed": self.seed,
            "players": self.players.fingerprint(),
        }


def _names_with(transform: LinearTransform, names: Sequence[str] | None) -> Sequence[str] | None:
    """The names of the columns; InputError if they differ from the transform's."""
    names = names or transform.feature_names
    if names is not None and tuple(map(str, names)) != (
        transform.feature_names or tuple(map(str, names))
    ):
        raise InputError(
            f"the transform has columns {list(transform.feature_names or ())}, the model "
            f"{list(names)}: make the "
            "transform with the model's columns in the model's order"
        )
    return names
