"""Tree ensembles by the exact TreeSHAP of their own libraries: XGBoost, LightGBM, scikit-learn (through shap)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from dshap.checks import checked
from dshap.designs import exact
from dshap.errors import LARGEST_WHOLE, InputError, rounded_refusal, unknown_name
from dshap.types import FULL, BoolArray, Checked, Cost, FloatArray, Moments, State, digest_of
from dshap.values.frames import floats_of
from dshap.values.table_value import (
    TableValue,
    checked_predict,
    classes_of,
    columns_by_name,
    fitted_names_of,
    names_of,
)
from dshap.values.tree_libraries import Ensemble, LightGBMTrees, XGBoostTrees
from dshap.values.tree_shap import LightGBMPairs, ThroughShap

__all__ = ["Trees"]

PROBE_ROWS = 64
"""Rows that a library is tried on."""
PAIRED_ROWS = 8
"""Of these, for interactions."""
TOLERANCE = 1e-3
"""Largest |Σφ + base − margin| over the largest margin: float32 sums of a thousand trees stay far below."""
PROBE_PLAYERS, PROBED_MIXES = 8, 8
"""Columns, and rows, whose contributions are compared with all coalitions where there is a background."""
MAX_BACKGROUND = 1_000
"""Rows: every tree is walked once for each pair of a row and one of these."""


class Trees(TableValue):
    """TreeSHAP of a fitted ensemble: a closed form, no coalition is listed.

    Without a background v_S(x) follows the trees: where the column of a split is absent, both branches count by the
    training rows that went there (path-dependent).  With one it is interventional, the values of `Marginal` exactly.

    Parameters
    ----------
    model : xgboost.Booster or its scikit-learn classes; lightgbm.Booster or its classes; scikit-learn trees and forests
        Margins are explained: log-odds of boosted classifiers, the probabilities of forests.
    background : array (b, columns) or data frame, optional
        Up to 1,000 rows, of models without categories.
    feature_names : sequence of str, optional
        Of the columns, where the library changed them (LightGBM turns blanks into "_").
    output_names : sequence of str, optional
        The classes of a classifier where not given.
    categories : mapping from column name to its categories in the order of their codes, optional
        Of a model that was fitted on pandas categories and did not keep them: XGBoost before 3.1, and LightGBM where
        some categories are ordered (it keeps the lists, and not of which columns).

    Raises
    ------
    InputError
        No tree ensemble; one whose contributions do not add up to its margins; categories that the library did not
        keep, or a background beside them; too large a background; or a package that is missing: models of
        scikit-learn, and backgrounds, need the shap package.

    Notes
    -----
    Source: Lundberg et al., From local explanations to global understanding with explainable AI for trees (Nature
    Machine Intelligence 2, 2020).  One thread a task on a cluster, all of the process in a plain loop.  XGBoost adds in
    float32: the additivity residual in the cube says how far off.  Groups of columns are no players here: the value of
    a group is not the sum of its columns'.

    Models of data frames with categories take any table whose columns hold these categories by value, as categories in
    any order, text or numbers.  One that the model was not fitted on counts as missing with LightGBM, as in its own
    predictions, and is refused with XGBoost, as there.

    With ``interactions=True`` the cube has half the Shapley interaction index of each pair, the index of Lundberg et
    al., main effects on the diagonal: by XGBoost's pred_interactions, else by the shap package on the same trees.  Of
    path-dependent values alone.
    """

    is_closed_form = True
    prefers_closed_form = True
    n_replicates = 0

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        (feature_names,) = checked(feature_names=feature_names)
        library: Ensemble = _kind_of(model)(model)
        names = names_of(feature_names, library.names or fitted_names_of(model), background)
        self._codes = library.coded(_by_position(checked(categories=categories)[0], names))
        if background is not None:
            rows = columns_by_name(background, names) if names and hasattr(background, "columns") else background
            library = ThroughShap(model, _checked_background(rows, library, self._codes), library)
        self._ensemble: Any = library
        self._pairing: Any = None
        """What gives interactions, where they are asked for."""
        n_outputs = _tried(library, self._codes)
        super().__init__(
            np.stack([np.full(library.n_columns, -1.0), np.ones(library.n_columns)]),  # no column of it is constant
            n_columns=library.n_columns,
            n_outputs=n_outputs,
            feature_names=names,
            players=None,
            output_names=output_names if output_names is not None else classes_of(model, n_outputs),
        )
        self.categories = {self.column_names[j]: kept for j, kept in self._codes.items()}
        _check_categories(self.categories)

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """With lists that go on behind its own: of categories that the model was not fitted on."""
        for name, kept in self.categories.items():
            unseen = categories[name][len(kept) :]
            if unseen and not self._ensemble.takes_unseen:
                raise InputError(
                    f"column {name!r} holds {unseen[0]!r}, a category that the model was not fitted on, which XGBoost "
                    "refuses: drop these rows, or make it missing (NaN)"
                )
        other = copy.copy(self)
        other.categories = dict(categories)
        return other

    def with_threads(self, n_threads: int) -> Self:
        """With a library that walks its trees in so many threads; its numbers do not depend on it."""
        other = copy.copy(self)
        other._ensemble = self._ensemble.with_threads(n_threads)
        other._pairing = self._pairing and self._pairing.with_threads(n_threads)
        return other

    def with_interactions(self) -> Self:
        """With what gives its interactions, or an InputError where nothing does."""
        library = self._ensemble
        if isinstance(library, ThroughShap) and library.background is not None:
            raise InputError(
                "interactions of Trees are path-dependent, and a background makes it interventional: leave background "
                "out, or explain Marginal(predict, background), which has interactions"
            )
        other = copy.copy(self)
        other._pairing = LightGBMPairs(library) if isinstance(library, LightGBMTrees) else library
        probe = _made_up(self.n_columns, self._codes)[:PAIRED_ROWS]
        phi, _ = library.contributions(probe)
        other.interactions(State(), probe, phi[:, self._columns])
        return other

    def closed_form(self) -> Self:
        return self

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """What the attributions and the prediction differ by."""
        return state()["base"]

    def predict(self, rows: FloatArray) -> FloatArray:
        """Margins (n, k)."""
        if not len(rows):
            return np.empty((0, self.n_outputs))
        return checked_predict(self._ensemble.predict, self._known(rows), self.n_outputs)

    def _known(self, rows: FloatArray) -> FloatArray:
        """Rows (n, columns) with NaN for categories that the model was not fitted on."""
        if not self._codes:
            return rows
        known = rows.copy()
        for j, kept in self._codes.items():
            known[~((rows[:, j] >= 0) & (rows[:, j] < len(kept))), j] = np.nan
        return known

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """Nothing is summed beforehand."""
        return Moments()

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`base` (k,): the value of no column at all."""
        _, base = self._ensemble.contributions(np.zeros((1, self.n_columns)))
        return State({"base": base})

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """Nothing depends on the rows."""
        return state

    def attribute(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k)."""
        phi, _ = self._ensemble.contributions(self._known(rows))
        return phi[:, self._columns]

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """The gap of float32 sums of many trees, or an InputError where it is not small beside the margins."""
        margins = phi.sum(axis=1) + state["base"] - gap
        _refuse_gap(self._ensemble, phi, margins, gap)
        return Checked(TOLERANCE * _scale(phi, margins), {"largest_gap": np.abs(gap).max(axis=0, initial=0.0).tolist()})

    def interactions(self, state: State, rows: FloatArray, phi: FloatArray) -> FloatArray:
        """The Shapley interaction index (n, pairs, k) of each pair of players i < j: twice what the library gives.

        Raises
        ------
        InputError
            Where the library's do not add up to φ (n, d, k), column by column.
        """
        by, columns = self._pairing, self._columns
        halves = _asked(by.pairs, self._known(rows), "interactions of this model", "leave interactions out, or ")
        halves = halves[:, columns[:, None], columns]  # (n, d, d, k)
        off = np.abs(halves.sum(axis=2) - phi).max(initial=0.0)
        if not off <= TOLERANCE * (np.abs(phi).max(initial=0.0) + np.abs(halves).max(initial=0.0)):
            raise InputError(
                f"interactions by {by.how} miss the contributions by {off:.3g} (they reach {np.abs(phi).max():.3g}): "
                "leave interactions out, or explain Marginal(predict, background)"
            )
        i, j = np.triu_indices(self.n_players, 1)
        return 2.0 * halves[:, i, j]

    @property
    def _columns(self) -> Any:
        """(d,): the column of each player."""
        return self.players.members.argmax(axis=1)

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """None: (0, n, d, k)."""
        return np.zeros((0, len(rows), self.n_players, self.n_outputs))

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """No coalition is listed: (n, 0, k)."""
        return np.empty((len(rows), 0, self.n_outputs))

    def describe_form(self) -> str:
        return self._ensemble.how

    def stated_error(self, state: State) -> dict[str, Any]:
        """Who computes it."""
        return {"kind": "trees", "by": self._ensemble.how}

    def cost(self, m: int, n: int = 1) -> Cost:
        """The library's memory is not known here: contributions are counted three times, rows twice, interactions in
        its order and beside it.  Operations are about those of the leaves and their depth."""
        c, k = self.n_columns, self.n_outputs
        row = 8 * (3 * c * k + 2 * c)
        return Cost(
            state_bytes=8 * k,
            prepare_bytes=row,
            task_bytes=n * row,
            operations=n * self._ensemble.row_operations * (c if self._pairing else 1),
            pair_bytes=8 * n * 4 * (c + 1) ** 2 * k,
        )

    def fingerprint(self) -> dict[str, Any]:
        kept = {name: digest_of(list(map(repr, values))) for name, values in self.categories.items()}
        record = {"value": "trees", "by": self._ensemble.how, "model": self._ensemble.digest}
        return {**record, "categories": kept} if kept else record


def _tried(library: Ensemble, codes: Mapping[int, tuple[Any, ...]]) -> int:
    """The outputs of a library, which is tried on made-up rows: contributions add up to margins, or an InputError."""
    probe = _made_up(library.n_columns, codes)
    background = library.background if isinstance(library, ThroughShap) else None
    if background is not None:
        probe = np.concatenate([probe, background[:PROBE_ROWS]])
    margins = checked_predict(library.predict, probe)
    phi, base = _asked(library.contributions, probe, library.how)
    is_alike = phi.shape[2] == margins.shape[1]
    _refuse_gap(library, phi, margins, phi.sum(axis=1) + base - margins if is_alike else np.full(margins.shape, np.nan))
    if isinstance(library, ThroughShap) and background is not None:
        _check_values(library)
    return margins.shape[1]


def _made_up(n_columns: int, codes: Mapping[int, tuple[Any, ...]]) -> FloatArray:
    """Rows (PROBE_ROWS, columns) that a library is tried on."""
    rng = np.random.default_rng(0)
    probe = rng.normal(size=(PROBE_ROWS, n_columns))
    for j, kept in codes.items():
        probe[:, j] = rng.integers(0, len(kept), PROBE_ROWS)
    return probe


def _asked(function: Callable[[FloatArray], Any], rows: FloatArray, what: str, instead: str = "") -> Any:
    """function(rows) of a library, or an InputError with the first line of what it says."""
    try:
        return function(rows)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"{what}: the library fails ({type(error).__name__}: {reason}); {instead}use Marginal(predict, background)"
        ) from error


def _scale(phi: FloatArray, margins: FloatArray) -> FloatArray:
    """(k,): what a gap is small beside."""
    scale: FloatArray = np.abs(margins).max(axis=0, initial=0.0) + np.abs(phi).sum(axis=1).max(axis=0, initial=0.0)
    return scale


def _refuse_gap(library: Ensemble, phi: FloatArray, margins: FloatArray, gap: FloatArray) -> None:
    """Raise where contributions φ (n, columns, k) miss the margins (n, k) by a gap (n, k) that is not small."""
    off, reach = np.abs(gap).max(initial=0.0), np.max(_scale(phi, margins), initial=0.0)
    if not off <= TOLERANCE * reach:
        raise InputError(
            f"contributions by {library.how} miss the model's margins by {off:.3g} (they reach {reach:.3g}): they "
            "are not those of this model; use Marginal(predict, background)"
        )


def _check_values(ensemble: ThroughShap) -> None:
    """An InputError where contributions of a few mixes of rows of the background are not what predictions of all
    their coalitions give: sums that are right say nothing of the parts.

    With one row b as the background, rows that differ from it in a few columns have players in these alone.
    """
    assert ensemble.background is not None
    rng, rows = np.random.default_rng(0), ensemble.background
    d = min(PROBE_PLAYERS, ensemble.n_columns)
    design = exact(d)
    chosen = [rng.permutation(ensemble.n_columns)[:d] for _ in range(PROBED_MIXES)]
    mixes = np.repeat(rows[:1], PROBED_MIXES * design.n_coalitions, axis=0)
    mixes = mixes.reshape(PROBED_MIXES, design.n_coalitions, ensemble.n_columns)
    for j, columns in enumerate(chosen):
        other = rows[(1 + j) % len(rows), columns]
        mixes[j][:, columns] = np.where(design.masks, other, rows[0, columns])
    margins = checked_predict(ensemble.predict, mixes.reshape(-1, ensemble.n_columns))
    wanted = np.einsum("sd,jsk->jdk", design.operator, margins.reshape(*mixes.shape[:2], -1))
    library = ThroughShap(ensemble.model, rows[:1], ensemble.library)
    found, _ = library.contributions(mixes[:, FULL])
    found = np.stack([own[columns] for own, columns in zip(found, chosen, strict=True)])
    off, scale = np.abs(found - wanted).max(), np.abs(margins).max() + np.abs(wanted).sum(axis=1).max()
    if not off <= TOLERANCE * scale:
        raise InputError(
            f"contributions by {ensemble.how} miss those of all coalitions by {off:.3g} (margins reach "
            f"{np.abs(margins).max():.3g}): use Marginal(predict, background)"
        )


def _kind_of(model: Any) -> Any:
    """The class that meets this model."""
    package = type(model).__module__.split(".")[0]
    if package == "xgboost":
        return XGBoostTrees
    if package == "lightgbm":
        return LightGBMTrees
    if package == "sklearn" and (
        hasattr(model, "tree_") or hasattr(model, "estimators_") or hasattr(model, "_predictors")
    ):
        return ThroughShap
    raise InputError(
        f"{type(model).__name__} is no fitted tree ensemble of XGBoost, LightGBM or scikit-learn: fit it first, or use "
        "Marginal(model.predict, background), which takes any model"
    )


def _checked_background(given: Any, library: Ensemble, codes: Mapping[int, tuple[Any, ...]]) -> FloatArray:
    if codes:
        raise InputError(
            "the model was fitted on categories, and shap, which a background needs, does not know their splits: leave "
            "background out (path-dependent), or use Marginal(model.predict, background)"
        )
    rows = floats_of(given, "background")
    if rows.ndim != 2 or not 0 < len(rows) <= MAX_BACKGROUND or rows.shape[1] != library.n_columns:
        raise InputError(
            f"background has shape {rows.shape}: give 1 to {MAX_BACKGROUND:,} rows of {library.n_columns} columns, "
            "such as those of dshap.choose_background"
        )
    return rows


def _by_position(
    categories: Mapping[str, tuple[Any, ...]] | None, names: Sequence[str] | None
) -> dict[int, tuple[Any, ...]]:
    """Categories that were given by name, by column."""
    if categories and names is None:
        raise InputError("categories go by column name, and the model's columns have none: give feature_names too")
    for name in categories or {}:
        if name not in (names or ()):
            raise InputError(f"categories: {unknown_name('column', name, names or ())}")
    return {list(names or ()).index(name): listed for name, listed in (categories or {}).items()}


def _check_categories(categories: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise where values of a column are not told apart by text, or as float64."""
    for name, kept in categories.items():
        numbers = [value for value in kept if not isinstance(value, str)]
        if numbers and len(numbers) != len(kept):
            raise InputError(f"column {name!r} has categories that are text and numbers: make them all text, fit again")
        for value in numbers:
            if abs(value) > LARGEST_WHOLE:
                raise InputError(rounded_refusal(f"categories of column {name!r}", value))
