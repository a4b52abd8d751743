"""A fitted tree ensemble as a predictor of its margins, with checks and categories."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dshap.core.duck_typing import is_real, of_estimator
from dshap.core.errors import InputError, PredictError, unknown_name
from dshap.core.floats import LARGEST_WHOLE, rounded_refusal
from dshap.core.records import FloatArray, digest_of
from dshap.core.rules import checked
from dshap.core.scales import TARGET
from dshap.loops.codes import CATEGORY
from dshap.predictors.class_choice import ClassChoice, class_choice
from dshap.predictors.named import (
    NamedModel,
    checked_predict,
    fitted_names_of,
    names_of,
)
from dshap.trees.ensemble import TreeEnsemble
from dshap.trees.tree_kinds import library_of
from dshap.trees.tree_libraries import Library, called
from dshap.trees.tree_scale import MarginLink, link_of_margins

PROBE_ROWS = 64
"""Number of rows that a library is tried on."""
MISSING = 0.25
"""The share of their values that are missing in another trial."""
CHECKED = 256
"""The most background rows of a block whose margins are compared with the library's."""
HOW = "patterns of decisions"
"""How values are computed, in records and messages."""


class TreeModel(NamedModel):
    """A predictor that returns the margins of an ensemble, as its library computes them.

    Parameters
    ----------
    library : Library
    trees : TreeEnsemble
        The trees of the library.
    codes : column -> the categories that the ensemble was fitted on, in the order of their codes
    link : the link between the margins and the model's own predictions
    classes : names of the classes, in the order of the probabilities; empty if it has none
    """

    choice: ClassChoice | None = None
    """The classes whose margins are given; None for all margins."""

    def __init__(
        self,
        library: Library,
        trees: TreeEnsemble,
        codes: Mapping[int, tuple[Any, ...]],
        n_outputs: int,
        feature_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        link: MarginLink,
        classes: tuple[str, ...] = (),
    ) -> None:
        self.library = library
        self.trees = trees
        self.codes = codes
        self.link = link
        self.classes = classes
        self.scale = link.scale_with(classes)
        super().__init__(library.n_columns, n_outputs, feature_names, output_names)
        self.categories = {self.column_names[j]: kept for j, kept in codes.items()}

    def with_categories(self, categories: Mapping[str, tuple[Any, ...]]) -> Self:
        """A copy with longer lists of categories; the added ones were not in the fit."""
        for name, kept in self.categories.items():
            unseen = categories[name][len(kept) :]
            if unseen and not self.library.takes_unseen:
                raise InputError(
                    f"column {name!r} contains {unseen[0]!r}, a category that the model was not "
                    "fitted on, which XGBoost "
                    "refuses: drop these rows, or make it missing (NaN)"
                )
        other = copy.copy(self)
        other.categories = dict(categories)
        return other

    def with_threads(self, n_threads: int) -> Self:
        """A copy whose library uses `n_threads` threads; the numbers do not depend on it."""
        other = copy.copy(self)
        other.library = self.library.with_threads(n_threads)
        return other

    def of_classes(self, classes: Sequence[Any]) -> Self:
        """A copy that computes the margins of these classes alone; InputError for unknown ones."""
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
        return checked_predict(self.library.predict, self.known(rows), self.n_margins)

    def predict_bytes(self, n: int) -> int:
        """Peak bytes: rows twice, as the library's memory is unknown, and margins three times."""
        return 8 * n * (2 * self.n_columns + 3 * self.n_margins)

    def check_own(self, rows: FloatArray) -> None:
        """Raise InputError if the margins of these rows disagree with the model's predictions.

        rows (n, columns).
        """
        if len(rows):
            self.link.refuse(self._margins(rows), self._own(rows), HOW)

    def check_trees(self, rows: FloatArray) -> None:
        """Raise InputError if the trees miss the library's margins of some of these rows.

        rows (n, columns), of which some all over the block are checked, and some with missing
        values.
        """
        if not len(rows):
            return
        some = np.linspace(0, len(rows) - 1, min(len(rows), CHECKED)).astype(np.int64)
        with_missing = np.flatnonzero(np.isnan(rows).any(axis=1))[:CHECKED]
        taken = rows[np.union1d(some, with_missing)]
        refuse_gap(self.trees, self.trees.margins(self.known(taken)), self._margins(taken))

    def _own(self, rows: FloatArray) -> Any:
        return asked(
            lambda known: self.library.own(known, self.codes),
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
        record: dict[str, Any] = {"model": self.library.digest}
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
    library: Library = library_of(model)(model)
    names = names_of(feature_names, library.names or fitted_names_of(model), background)
    codes = library.coded(_by_position(checked(categories=categories)[0], names))
    _check_categories({called(names, j): kept for j, kept in codes.items()})
    trees = library.parsed()
    link = _tried(library, trees, codes)
    named = _classes(link, trees.n_outputs, classes, of_estimator(model, "classes_"))
    if output_names is None:
        output_names = link.output_names(trees.n_outputs, named)
    return TreeModel(library, trees, codes, trees.n_outputs, names, output_names, link, named)


def _classes(
    link: MarginLink, n_outputs: int, given: Sequence[Any] | None, known: Sequence[Any] | None
) -> tuple[str, ...]:
    """The given names of classes, else the names in the model; empty if it has none.

    Raises InputError if another number of classes is given than the model has.
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


def _tried(
    library: Library, trees: TreeEnsemble, codes: Mapping[int, tuple[Any, ...]]
) -> MarginLink:
    """The link of the margins of a library, from made-up rows.

    Raises InputError unless the parsed trees add up to the library's margins, and these are the
    model's own predictions on a known scale.
    """
    # first whether the trees were read correctly; then missing values and the link to predictions
    probe = made_up(trees, library.n_columns, codes)
    margins = checked_predict(library.predict, probe)
    refuse_gap(trees, trees.margins(probe), margins)
    _try_missing(library, trees, probe)
    own = asked(lambda rows: library.own(rows, codes), probe, "the model's own predictions")
    link = link_of_margins(margins, own, HOW)
    if link.scale == TARGET:
        return replace(link, scale=library.scale_of_margins)
    return link


def _try_missing(library: Library, trees: TreeEnsemble, probe: FloatArray) -> None:
    """Raise InputError if missing values go another way than in a library that accepts some."""
    holes = probe.copy()
    holes[np.random.default_rng(1).random(holes.shape) < MISSING] = np.nan
    try:
        margins = checked_predict(library.predict, holes)
    except PredictError:  # a model that refuses missing values has no way for them
        return
    refuse_gap(trees, trees.margins(holes), margins)


def made_up(
    trees: TreeEnsemble, n_columns: int, codes: Mapping[int, tuple[Any, ...]]
) -> FloatArray:
    """Rows (2 · PROBE_ROWS, columns) to try a library on: random ones with zeros, and thresholds."""
    rng = np.random.default_rng(0)
    probe = rng.normal(size=(2 * PROBE_ROWS, n_columns))
    # zeros, which a library may count as missing
    probe[: PROBE_ROWS // 2] *= rng.random((PROBE_ROWS // 2, n_columns)) < 0.5
    columns = trees.decisions.columns
    for position, j in enumerate(columns.columns):
        own = columns.thresholds[columns.starts[position] : columns.starts[position + 1]]
        if columns.kinds[position] >= CATEGORY:
            # a category that no decision lists, which libraries treat differently
            unlisted = own.max(initial=-1.0) + 1.0
            probe[:, j] = rng.choice([*own, unlisted], len(probe))
        elif np.isfinite(own).any():
            # numbers on a threshold, where `<` and `<=` part
            probe[PROBE_ROWS:, j] = rng.choice(own[np.isfinite(own)], PROBE_ROWS)
    for j, kept in codes.items():
        probe[:, j] = rng.choice([*range(len(kept))] or [np.nan], len(probe))
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


def refuse_gap(trees: TreeEnsemble, parsed: FloatArray, margins: FloatArray) -> None:
    """Raise InputError if parsed trees miss a library's margins (n, k) by more than rounding."""
    if parsed.shape == margins.shape:
        off = np.abs(parsed - margins).max(initial=0.0)
    else:
        off = np.inf
    reach = np.abs(margins).max(initial=0.0) + np.abs(trees.values).max(initial=0.0)
    if not off <= trees.rounding * reach:
        raise InputError(
            f"the trees of this model add up to numbers that miss its own margins by {off:.3g} "
            f"(they reach {reach:.3g}): this version of the library is not known to Trees; use "
            "Marginal(predict, background)"
        )


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
    """Raise InputError for categories that are neither text nor numbers, or that float64 would round."""
    for name, kept in categories.items():
        numbers = [value for value in kept if not isinstance(value, str)]
        if numbers and len(numbers) != len(kept):
            raise InputError(
                f"column {name} has categories that are text and numbers: make them all text, "
                "fit again"
            )
        for value in numbers:
            if not is_real(value):
                raise InputError(
                    f"column {name} has categories of type {type(value).__name__}: make them text "
                    "(astype(str)), fit again"
                )
            if abs(value) > LARGEST_WHOLE:
                raise InputError(rounded_refusal(f"column {name}", value))
