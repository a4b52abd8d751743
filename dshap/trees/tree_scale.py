"""The scale of a tree ensemble's margins: the link between them and the model's predictions.

TreeSHAP values add up to margins; users know the output of `predict` or `predict_proba`. A short
list of links is tried, and a model whose predictions follow from its margins by none of them is
refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dshap.core.errors import InputError
from dshap.core.floats import plain_array
from dshap.core.records import FloatArray
from dshap.core.scales import (
    INVERSE_SOFTPLUS,
    LOG,
    LOG_ODDS,
    MARGIN,
    OF_CLASSES,
    PROBABILITY,
    SCORE,
    SIGNED_ROOT,
    TARGET,
    of_classes,
)

OF_MARGIN = 1e-5
"""Relative rounding error of a margin, compared with the largest one.

Both sides add the same trees, in float32 at worst.
"""
OF_PREDICTION = 2e-6
"""Relative rounding error of a prediction: a few units of float32."""


@dataclass(frozen=True)
class MarginLink:
    """The link between margins and the model's own predictions, with the scale of the margins."""

    scale: str
    """The scale of the margins, a name of `core.scales.MEANINGS`."""
    joins: Callable[[FloatArray, FloatArray, float], NDArray[np.bool_]]
    """Function that returns which rows agree (n,).

    Its arguments are margins (n, k), predictions (n, k') and the rounding error of a margin;
    numbers that are not finite agree with any.
    """

    @property
    def is_of_classes(self) -> bool:
        """Whether a margin belongs to a class, not to a predicted number."""
        return self.scale in OF_CLASSES

    def classes(self, n_outputs: int, known: Sequence[Any] | None) -> tuple[str, ...]:
        """The classes that the margins (n, k) belong to, in the order of the probabilities.

        One margin belongs to the second of two classes.  `known` are the classes of the model;
        classes without names are numbered.  Empty if margins belong to no class.
        """
        n_classes = n_outputs
        if self.is_of_classes:
            n_classes = max(n_outputs, 2)
        if known is not None and len(known) == n_classes > 1:
            return tuple(map(str, known))
        if self.is_of_classes and n_outputs > 1:
            return tuple(map(str, range(n_outputs)))
        return ()

    def scale_with(self, classes: Sequence[str]) -> str:
        """The scale of the margins: probabilities, if the margins of classes are the predictions."""
        if self.scale == TARGET and classes:
            return PROBABILITY
        return self.scale

    def output_names(self, n_outputs: int, classes: Sequence[str]) -> tuple[str, ...] | None:
        """Output names such as "log-odds of CLASS"; None for plain predictions of numbers."""
        if classes:
            return of_classes(self.scale, classes[-n_outputs:])
        if self.scale == TARGET:
            return None
        if self.is_of_classes:
            return (self.scale,)
        if n_outputs == 1:
            return (f"{self.scale} of the prediction",)
        return tuple(f"{self.scale} of output{j}" for j in range(n_outputs))

    def refuse(self, margins: FloatArray, own: Any, how: str) -> None:
        """Raise InputError if predictions (n, …) do not follow from margins (n, k)."""
        own = _aligned(own, margins.shape[1])
        if not self._holds(margins, own):
            raise _not_joined(margins, own, how)

    def _holds(self, margins: FloatArray, own: FloatArray) -> bool:
        off = OF_MARGIN * float(np.abs(margins).max(initial=0.0))
        with np.errstate(all="ignore"):
            return bool(self.joins(margins, own, off).all())


def link_of_margins(margins: FloatArray, own: Any, how: str) -> MarginLink:
    """Find the link of margins (n, k) to the model's own predictions for the same rows.

    `how` describes in messages how the margins are computed.

    Raises
    ------
    InputError
        No known link turns these margins into these predictions.
    """
    own = _aligned(own, margins.shape[1])
    for link in LINKS_OF_MARGINS:
        if link._holds(margins, own):
            return link
    raise _not_joined(margins, own, how)


def own_predictions(model: Any, table: Any) -> Any:
    """Predictions on the user's scale: `predict_proba` if it exists, else `predict`."""
    if hasattr(model, "predict_proba"):
        ask = model.predict_proba
    else:
        ask = model.predict
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the form of the rows it was fitted on
        return ask(table)


def _aligned(own: Any, n_outputs: int) -> FloatArray:
    """Predictions as (n, k'); of two classes that share one margin, the second one's."""
    array: FloatArray = np.asarray(plain_array(own), dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    if n_outputs == 1 and array.shape[1:] == (2,):
        return array[:, 1:]
    return array


def _not_joined(margins: FloatArray, own: FloatArray, how: str) -> InputError:
    """The error for predictions that no link connects to the margins; it shows the first row."""
    margin, prediction = (
        ", ".join(f"{each:.6g}" for each in np.ravel(rows[:1])[:4]) for rows in (margins, own)
    )
    return InputError(
        f"contributions by {how} add up to {margin} for a row for which the model itself predicts "
        f"{prediction}, and no "
        "link known to Trees makes one of the other: use Marginal(predict, background)"
    )


def _one_by_one(
    inverse: Callable[[FloatArray], FloatArray], margins: FloatArray, own: FloatArray, off: float
) -> NDArray[np.bool_]:
    """The rows whose predictions are inverse(margins), elementwise.

    `inverse` increases with each margin.
    """
    return _are_between(inverse(margins - off), own, inverse(margins + off))


def _by_shares(margins: FloatArray, own: FloatArray, off: float) -> NDArray[np.bool_]:
    """The rows whose predictions are the softmax of their margins."""
    weights = np.exp(margins - margins.max(axis=1, keepdims=True))
    shares = weights / weights.sum(axis=1, keepdims=True)
    # if every margin is off by at most `off`, a share is off by a factor of at most e^(2 off)
    return _are_between(shares * np.exp(-2 * off), own, shares * np.exp(2 * off))


def _by_largest(margins: FloatArray, own: FloatArray, off: float) -> NDArray[np.bool_]:
    """The rows whose prediction is the position of their largest margin."""
    n, k = margins.shape
    is_position = own.shape == (n, 1) and k > 1 and bool(np.isin(own, np.arange(k)).all())
    if not is_position:
        return np.zeros(n, dtype=bool)
    found: NDArray[np.bool_] = (
        margins[np.arange(n), own[:, 0].astype(int)] >= margins.max(axis=1) - off
    )
    return found


def _are_between(low: FloatArray, own: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
    """(n,): rows whose predictions are all between two bounds, up to float32 rounding."""
    if own.shape != low.shape:
        return np.zeros(len(low), dtype=bool)
    slack = OF_PREDICTION * np.abs(own)
    is_inside = (low - slack <= own) & (own <= high + slack)
    return np.all(is_inside | ~np.isfinite(own), axis=1)


def _same(margins: FloatArray) -> FloatArray:
    return margins


def _logistic(margins: FloatArray) -> FloatArray:
    return 1.0 / (1.0 + np.exp(-margins))


def _is_positive(margins: FloatArray) -> FloatArray:
    return np.where(margins > 0, 1.0, 0.0)


def _signed_square(margins: FloatArray) -> FloatArray:
    return np.sign(margins) * np.square(margins)


def _softplus(margins: FloatArray) -> FloatArray:
    return np.logaddexp(0.0, margins)


LINKS_OF_MARGINS = (
    MarginLink(TARGET, partial(_one_by_one, _same)),
    MarginLink(LOG_ODDS, partial(_one_by_one, _logistic)),
    # adding a number to all margins of a row changes no share
    MarginLink(SCORE, _by_shares),
    # boosters of XGBoost that predict a class: multi:softmax
    MarginLink(SCORE, _by_largest),
    MarginLink(LOG, partial(_one_by_one, np.exp)),  # Poisson, Gamma, Tweedie, survival
    # XGBoost's binary:hinge
    MarginLink(MARGIN, partial(_one_by_one, _is_positive)),
    MarginLink(SIGNED_ROOT, partial(_one_by_one, _signed_square)),  # LightGBM's reg_sqrt
    # LightGBM's cross_entropy_lambda
    MarginLink(INVERSE_SOFTPLUS, partial(_one_by_one, _softplus)),
)
"""The known links, in the order in which they are tried."""
