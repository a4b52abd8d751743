"""A fitted tree ensemble as a predictor of its margins, with checks and categories."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dshap.core.duck_typing import has_columns, of_estimator
from dshap.core.errors import InputError, unknown_name
from dshap.core.floats import LARGEST_WHOLE, floats_of, rounded_refusal
from dshap.core.records import BoolArray, FloatArray, digest_of
from dshap.core.rules import checked
from dshap.core.scales import TARGET
from dshap.predictors.class_choice import ClassChoice, class_choice
from dshap.predictors.named import (
    NamedModel,
    checked_predict,
    columns_by_name,
    fitted_names_of,
    names_of,
)
from dshap.predictors.tree_kinds import library_of
from dshap.predictors.tree_libraries import Ensemble
from dshap.predictors.tree_scale import MarginLink, link_of_margins
from dshap.predictors.tree_shap import ThroughShap

PROBE_ROWS = 64
"""Number of rows that a library is tried on."""
TOLERANCE = 1e-3
"""The largest |Σφ + base − margin| allowed, relative to the largest margin.

float32 sums of a thousand trees stay far below it.
"""
PROBE_PLAYERS = 8
"""Number of columns in the check of contributions with a background against all coalitions."""
PROBED_MIXES = 8
"""Number of rows in that check."""
MAX_BACKGROUND = 1_000
"""The most background rows; every tree is walked once for each pair of row and background row."""


class TreeModel(NamedModel):
    """A predictor that gives the margins of an ensemble, as computed by its library.

    Parameters
    ----------
    ensemble : Ensemble
    codes : column -> the categories that the ensemble was fitted on, in the order of their codes
    link : the link between the margins and the model's own predictions
    classes : names of the classes, in the order of the probabilities; empty where it has none
    """

    choice: ClassChoice | None = None
    """The classes whose margins are given; None for all margins."""

    def __init__(
        self,
        ensemble: Any,
        codes: Mapping[int, tuple[Any, ...]],
        n_outputs: int,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        link: MarginLink,
        classes: tuple[str, ...] = (),
    ) -> None:
        self.ensemble = ensemble
        self.codes = codes
        self.link = link
        self.classes = classes
        self.scale = link.scale_with(classes)
        super().__init__(ensemble.n_columns, n_outputs, feature_names, output_names)
        self.categories = {self.column_names[j]: kept for j, kept in codes.items()}
        _check_categories(self.categories)

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """A copy with longer lists of categories; the added ones were not in the fit."""
        for name, kept in self.categories.items():
            unseen = categories[name][len(kept) :]
            if unseen and not self.ensemble.takes_unseen:
                raise InputError(
                    f"column {name!r} holds {unseen[0]!r}, a category that the model was not "
                    "fitted on, which XGBoost "
                    "refuses: drop these rows, or make it missing (NaN)"
                )
        other = copy.copy(self)
        other.categories = dict(categories)
        return other

    def with_threads(self, n_threads: int) -> Self:
        """A copy whose library uses `n_threads` threads; the numbers do not depend on it."""
        other = copy.copy(self)
        other.ensemble = self.ensemble.with_threads(n_threads)
        return other

    def of_classes(self, classes: Sequence[Any]) -> Self:
        """A copy that gives the margins of these classes alone; InputError for unknown ones."""
        choice = class_choice(classes, self.classes, self.n_outputs, self.scale, self.choice)
        other = copy.copy(self)
        other.choice = choice
        other.output_names = choice.names(self.scale, self.output_names)
        return other

    @property
    def n_margins(self) -> int:
        """The number of margins that the library computes."""
        if self.choice is None:
            return self.n_outputs
        return self.choice.n_outputs

    def chosen(self, values: FloatArray) -> FloatArray:
        """The outputs (…, k) that are explained, of those (…, k') of the library."""
        if self.choice is None:
            return values
        return self.choice(values)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Margins (n, k)."""
        return self.chosen(self._margins(rows))

    def _margins(self, rows: FloatArray) -> FloatArray:
        """All margins (n, k') of the library."""
        if not len(rows):
            return np.empty((0, self.n_margins))
        return checked_predict(self.ensemble.predict, self.known(rows), self.n_margins)

    def predict_bytes(self, n: int) -> int:
        """Peak bytes: rows twice, as the library's memory is unknown, and margins three times."""
        return 8 * n * (2 * self.n_columns + 3 * self.n_margins)

    def check_own(self, rows: FloatArray) -> None:
        """Raise InputError where the margins of these rows disagree with the model's predictions.

        rows (n, columns).
        """
        if len(rows):
            self.link.refuse(self._margins(rows), self._own(rows), self.ensemble.how)

    def _own(self, rows: FloatArray) -> Any:
        return asked(
            lambda known: self.ensemble.own(known, self.codes),
            self.known(rows),
            "the model's own predictions",
        )

    def known(self, rows: FloatArray) -> FloatArray:
        """Rows (n, columns) with unseen categories replaced by NaN."""
        if not self.codes:
            return rows
        known = rows.copy()
        for j, kept in self.codes.items():
            known[~((rows[:, j] >= 0) & (rows[:, j] < len(kept))), j] = np.nan
        return known

    def fingerprint(self) -> dict[str, Any]:
        kept = {
            name: digest_of(list(map(repr, values))) for name, values in self.categories.items()
        }
        record: dict[str, Any] = {"by": self.ensemble.how, "model": self.ensemble.digest}
        if kept:
            record["categories"] = kept
        if self.choice is not None:
            record["classes"] = list(self.choice.classes)
        return record


def model_of_trees(
    model: Any,
    background: Any,
    feature_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    categories: Mapping[str, Sequence[Any]] | None,
    classes: Sequence[Any] | None = None,
) -> TreeModel:
    """The predictor of a fitted ensemble, checked on made-up rows.

    The parameters are those of `Trees`.
    """
    feature_names, classes = checked(feature_names=feature_names, classes=classes)
    library: Ensemble = library_of(model)(model)
    names = names_of(feature_names, library.names or fitted_names_of(model), background)
    codes = library.coded(_by_position(checked(categories=categories)[0], names))
    if background is not None:
        if names and has_columns(background):
            rows = columns_by_name(background, names)
        else:
            rows = background
        library = ThroughShap(model, _checked_background(rows, library, codes), library)
    k, link = _tried(library, codes)
    named = _classes(link, k, classes, of_estimator(model, "classes_"))
    if output_names is None:
        output_names = link.output_names(k, named)
    return TreeModel(library, codes, k, names, output_names, link, named)


def _classes(
    link: MarginLink, n_outputs: int, given: Sequence[Any] | None, known: Sequence[Any] | None
) -> tuple[str, ...]:
    """The names of the classes that are given, else those of the model; empty where it has none.

    Raises InputError where another number of classes is given than the model has.
    """
    if given is None:
        return link.classes(n_outputs, known)
    if link.is_of_classes:
        n_classes = max(n_outputs, 2)
    elif known is not None:
        n_classes = n_outputs
    else:
        n_classes = 0
    listed = ", ".join(map(str, given))
    if not n_classes:
        raise InputError(f"classes are {listed}, and the model has no classes: leave classes out")
    if len(given) != n_classes:
        raise InputError(
            f"classes are {listed}, and the model has {n_classes} classes: name each of these, or "
            "leave classes out"
        )
    return link.classes(n_outputs, given)


def _tried(library: Ensemble, codes: Mapping[int, tuple[Any, ...]]) -> tuple[int, MarginLink]:
    """The number of outputs of a library, and the link of its margins, from made-up rows.

    Raises InputError unless contributions add up to the margins, and the margins are the model's
    own predictions on a known scale.
    """
    probe = made_up(library.n_columns, codes)
    if isinstance(library, ThroughShap):
        background = library.background
    else:
        background = None
    if background is not None:
        probe = np.concatenate([probe, background[:PROBE_ROWS]])
    margins = checked_predict(library.predict, probe)
    phi, base = asked(library.contributions, probe, library.how)
    is_alike = phi.shape[2] == margins.shape[1]
    refuse_gap(
        library,
        phi,
        margins,
        phi.sum(axis=1) + base - margins if is_alike else np.full(margins.shape, np.nan),
    )
    if isinstance(library, ThroughShap) and background is not None:
        _check_values(library)
    own = asked(lambda rows: library.own(rows, codes), probe, "the model's own predictions")
    link = link_of_margins(margins, own, library.how)
    if link.scale == TARGET:
        link = replace(link, scale=library.scale_of_margins)
    return margins.shape[1], link


def made_up(n_columns: int, codes: Mapping[int, tuple[Any, ...]]) -> FloatArray:
    """Random rows (PROBE_ROWS, columns) that a library is tried on."""
    rng = np.random.default_rng(0)
    probe = rng.normal(size=(PROBE_ROWS, n_columns))
    for j, kept in codes.items():
        probe[:, j] = rng.integers(0, len(kept), PROBE_ROWS)
    return probe


def asked(
    function: Callable[[FloatArray], Any], rows: FloatArray, what: str, instead: str = ""
) -> Any:
    """Call function(rows) of a library; InputError with the first line of its error."""
    try:
        return function(rows)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"{what}: the library fails ({type(error).__name__}: {reason}); {instead}use "
            "Marginal(predict, background)"
        ) from error


def reach_of(phi: FloatArray, margins: FloatArray) -> FloatArray:
    """(k,): the magnitude that a gap is compared with."""
    reach: FloatArray = np.abs(margins).max(axis=0, initial=0.0) + np.abs(phi).sum(axis=1).max(
        axis=0, initial=0.0
    )
    return reach


def refuse_gap(library: Ensemble, phi: FloatArray, margins: FloatArray, gap: FloatArray) -> None:
    """Raise InputError where contributions miss the margins by more than rounding.

    φ (n, columns, k), margins and gap (n, k).
    """
    off = np.abs(gap).max(initial=0.0)
    reach = np.max(reach_of(phi, margins), initial=0.0)
    if not off <= TOLERANCE * reach:
        raise InputError(
            f"contributions by {library.how} miss the model's margins by {off:.3g} (they reach "
            f"{reach:.3g}): they "
            "are not those of this model; use Marginal(predict, background)"
        )


def _check_values(ensemble: ThroughShap) -> None:
    """Raise InputError where contributions with a background disagree with all coalitions.

    Sums that are right do not show that the parts are. With one row b as the background, rows that
    differ from it in a few columns have only these as players.
    """
    assert ensemble.background is not None
    rng = np.random.default_rng(0)
    rows = ensemble.background
    d = min(PROBE_PLAYERS, ensemble.n_columns)
    # coalition S is row Σ_{i in S} 2^i
    masks = (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(bool)
    chosen = [rng.permutation(ensemble.n_columns)[:d] for _ in range(PROBED_MIXES)]
    mixes = np.tile(rows[0], (PROBED_MIXES, len(masks), 1))
    for j, columns in enumerate(chosen):
        other = rows[(1 + j) % len(rows), columns]
        mixes[j][:, columns] = np.where(masks, other, rows[0, columns])
    margins = checked_predict(ensemble.predict, mixes.reshape(-1, ensemble.n_columns))
    wanted = _by_all_coalitions(margins.reshape(PROBED_MIXES, len(masks), -1), masks)
    library = ThroughShap(ensemble.model, rows[:1], ensemble.library)
    found, _ = library.contributions(mixes[:, -1])
    found = np.stack([phi[columns] for phi, columns in zip(found, chosen, strict=True)])
    off = np.abs(found - wanted).max()
    scale = np.abs(margins).max() + np.abs(wanted).sum(axis=1).max()
    if not off <= TOLERANCE * scale:
        raise InputError(
            f"contributions by {ensemble.how} miss those of all coalitions by {off:.3g} (margins "
            "reach "
            f"{np.abs(margins).max():.3g}): use Marginal(predict, background)"
        )


def _by_all_coalitions(v: FloatArray, masks: BoolArray) -> FloatArray:
    """Exact Shapley values (j, d, k) of j games with values v (j, 2^d, k).

    φ_i = Σ_S |S|! (d − |S| − 1)!/d! (v(S ∪ i) − v(S)) over all S without i.
    """
    d = masks.shape[1]
    weight = np.array([1.0 / (d * math.comb(d - 1, size)) for size in range(d)])
    without = [np.flatnonzero(~masks[:, i]) for i in range(d)]
    gains = (
        np.einsum("s,jsk->jk", weight[masks[s].sum(axis=1)], v[:, s + 2**i] - v[:, s])
        for i, s in enumerate(without)
    )
    return np.stack(list(gains), axis=1)


def _checked_background(
    given: Any, library: Ensemble, codes: Mapping[int, tuple[Any, ...]]
) -> FloatArray:
    if codes:
        raise InputError(
            "the model was fitted on categories, and shap, which a background needs, does not know "
            "their splits: leave "
            "background out (path-dependent), or use Marginal(model.predict, background)"
        )
    rows = np.array(floats_of(given, "background"))
    if rows.ndim != 2 or not 0 < len(rows) <= MAX_BACKGROUND or rows.shape[1] != library.n_columns:
        raise InputError(
            f"background has shape {rows.shape}: give 1 to {MAX_BACKGROUND:,} rows of "
            f"{library.n_columns} columns, "
            "such as those of dshap.choose_background"
        )
    return rows


def _by_position(
    categories: Mapping[str, tuple[Any, ...]] | None, names: Sequence[str] | None
) -> dict[int, tuple[Any, ...]]:
    """Position of a column -> its categories, from categories given by name."""
    if categories and names is None:
        raise InputError(
            "categories go by column name, and the model's columns have none: give feature_names "
            "too"
        )
    for name in categories or {}:
        if name not in (names or ()):
            raise InputError(f"categories: {unknown_name('column', name, names or ())}")
    return {list(names or ()).index(name): listed for name, listed in (categories or {}).items()}


def _check_categories(categories: Mapping[str, tuple[Any, ...]]) -> None:
    """Raise InputError for categories that mix text and numbers, or that float64 would round."""
    for name, kept in categories.items():
        numbers = [value for value in kept if not isinstance(value, str)]
        if numbers and len(numbers) != len(kept):
            raise InputError(
                f"column {name!r} has categories that are text and numbers: make them all text, "
                "fit again"
            )
        for value in numbers:
            if abs(value) > LARGEST_WHOLE:
                raise InputError(rounded_refusal(f"categories of column {name!r}", value))
