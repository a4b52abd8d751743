"""The features that a picture shows, in which order, and those that it adds up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dshap.analysis.view import MAX_SHOWN, View
from dshap.core.duck_typing import has_member
from dshap.core.errors import InputError, shown, unknown_name
from dshap.core.records import FloatArray
from dshap.cube.datasets import row_slices

ORDERS = ("importance", "max", "name", "cube")
"""The words for an order of features: mean |attribution| and the largest |attribution| of any row,
the largest first; the names; and the order of the cube."""


@dataclass(frozen=True)
class Selection:
    """The options of a picture that choose its features.

    Raises
    ------
    InputError
        An option that is none of these.
    """

    max_display: float | None = None
    """The most features that are shown; None: the picture's default."""
    order: str | Sequence[str] | None = None
    """One of `ORDERS`, or the names of features, which come first; None: "importance", or the
    order of `features`."""
    features: str | Sequence[str] | None = None
    """The features that may be shown; None: all."""

    def __post_init__(self) -> None:
        most = self.max_display
        if most is not None and not _is_count(most):
            raise InputError(f"max_display is {shown(most)}: give a number of features, from 1 on")

    def chosen(
        self,
        features: Sequence[str],
        orders: Mapping[str, Callable[[], Sequence[str]]],
        most: int = MAX_SHOWN,
    ) -> ShownFeatures:
        """Choose some features of all.

        Parameters
        ----------
        features : all features
        orders : a word of `ORDERS` -> all features in that order
        most : the picture's default number of features

        Raises
        ------
        InputError
            An unknown feature or order (the message lists those that are near), or one that is
            named twice.
        """
        allowed = _named("features", self.features, features)
        ranked = self._ranked(features, orders)
        if allowed is not None and self.order is None:
            ranked = allowed
        elif allowed is not None:
            ranked = [name for name in ranked if name in set(allowed)]
        n_shown = len(ranked) if allowed is not None else most
        if self.max_display is not None:
            n_shown = int(min(self.max_display, len(features)))
        first = tuple(ranked[:n_shown])
        return ShownFeatures(first, tuple(name for name in features if name not in set(first)))

    def _ranked(
        self, features: Sequence[str], orders: Mapping[str, Callable[[], Sequence[str]]]
    ) -> list[str]:
        """All features in the order that is asked for."""
        order = "importance" if self.order is None else self.order
        if np.ndim(np.asarray(order, dtype=object)) == 0:
            if str(order) not in orders:
                raise InputError(unknown_name("order", str(order), orders))
            return list(orders[str(order)]())
        first = _named("order", order, features) or []
        return [*first, *(name for name in orders["importance"]() if name not in set(first))]


@dataclass(frozen=True)
class ShownFeatures:
    """The features of a picture, from the top down, and those that it adds up."""

    shown: tuple[str, ...]
    others: tuple[str, ...]
    """The features that are not shown."""

    @property
    def words_of_others(self) -> str:
        """Words for the sum of the features that are not shown."""
        return words_of_sum(len(self.others))


def _is_count(given: Any) -> bool:
    """Whether an object is a number from 1 on, or infinity; a flag is none."""
    found = np.asarray(given)
    return found.ndim == 0 and found.dtype.kind in "iuf" and bool(found >= 1)


def words_of_sum(n_features: int) -> str:
    """Words for the sum of features that are not shown: "sum of 12 other features"."""
    if n_features == 1:
        return "1 other feature"
    return f"sum of {n_features:,} other features"


def shown_features(view: View, selection: Selection, most: int = MAX_SHOWN) -> ShownFeatures:
    """Choose the features of a picture of one output of a cube.

    Raises
    ------
    InputError
        As `Selection.chosen`.
    """
    orders: dict[str, Callable[[], Sequence[str]]] = {
        "importance": view.ranked,
        "max": lambda: sorted_by(view.features, largest_magnitudes(view)),
        "name": lambda: sorted(view.features, key=str.casefold),
        "cube": lambda: view.features,
    }
    return selection.chosen(view.features, orders, most)


def sorted_by(names: Sequence[str], values: FloatArray) -> list[str]:
    """Names by their values, the largest first; of equal ones the first comes first."""
    return [names[place] for place in np.argsort(-values, kind="stable")]


def largest_magnitudes(view: View) -> FloatArray:
    """(d,): the largest |attribution| of any row, in one pass over the cube."""
    largest = np.zeros(len(view.features))
    for rows in row_slices(view.cube):
        largest = np.fmax(largest, np.fmax.reduce(np.abs(view.attributions(rows)), initial=0.0))
    return largest


def _named(option: str, given: Any, features: Sequence[str]) -> list[str] | None:
    """The features that an option names, each once; None if it is None."""
    if given is None:
        return None
    # a single name; an iterator of names has no dimension for numpy either
    if np.ndim(np.asarray(given, dtype=object)) == 0 and not has_member(given, "__next__"):
        given = [given]
    names = [str(name) for name in given]
    if not names:
        raise InputError(f"{option} is empty: name a feature at least")
    for name in names:
        if name not in features:
            raise InputError(unknown_name("feature", name, features))
        if names.count(name) > 1:
            raise InputError(f"{option} names the feature {name!r} twice: name it once")
    return names
