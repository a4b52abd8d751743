"""The scales of attributions: one list of names, and a sentence for each.

A cube states its scale once for all outputs, in the attribute `scale`. Base value, prediction,
attributions and standard errors are on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dshap.core.errors import InputError, unknown_name
from dshap.core.types import Explained, Link, Predictor

PROBABILITY = "probability"
LOG_ODDS = "log-odds"
SCORE = "score"
MARGIN = "margin"
LOG = "log"
EXPECTED_LOG = "expected log-probability"
SIGNED_ROOT = "signed root"
INVERSE_SOFTPLUS = "inverse softplus"
TARGET = "unit of the target"
PATH = "path length"
UNSTATED = "unstated"
MEANINGS: Mapping[str, str] = {
    PROBABILITY: "The probability of a class, between 0 and 1.",
    LOG_ODDS: "The logarithm of p/(1 − p), where p is the probability of the class: 0 where p is "
    "one half.",
    SCORE: "A score of each class, known only up to a constant that all classes share: the "
    "difference between the scores of two classes is the logarithm of the ratio of their "
    "probabilities, and a single score is not the log-odds of its class.",
    MARGIN: "The decision value of a classifier: larger values favour the class. It is not a "
    "probability.",
    LOG: "The natural logarithm of the prediction.",
    EXPECTED_LOG: "The sum over the classes of the probability of each class times the logarithm of "
    "its probability among the present columns.",
    SIGNED_ROOT: "The square root of the prediction's size, with the sign of the prediction.",
    INVERSE_SOFTPLUS: "The logarithm of exp(prediction) − 1.",
    PATH: "The mean number of decisions that set a row apart in an isolation forest: the fewer, the "
    "more unusual the row.",
    TARGET: "The unit in which the model predicts, which is the unit of its target.",
    UNSTATED: "Nothing states the scale: the model is a function of the user, and its value function "
    "was given no `scale`.",
}
"""Scale -> one sentence on the meaning of a number on it."""
STATED = tuple(scale for scale in MEANINGS if scale != UNSTATED)
"""The scales that a user may state for a function."""
OF_CLASSES = frozenset((LOG_ODDS, SCORE, MARGIN))
"""Scales of a number that belongs to a class and is not its probability: outputs name both."""


def scale_of(value: Explained) -> str:
    """The scale of the attributions of a value function: its link's scale, else its model's scale.

    Raises
    ------
    InputError
        A link or model of the user has a scale of another name.
    """
    owner: Predictor | Link = value.link
    if value.link.is_identity:
        owner = value.model
    scale = owner.scale
    if scale not in MEANINGS:
        raise InputError(f"{type(owner).__name__}: {unknown_name('scale', scale, MEANINGS)}")
    return scale


def of_classes(scale: str, classes: Iterable[object]) -> tuple[str, ...]:
    """Names of outputs that belong to classes, such as "log-odds of yes" or "score of a".

    Probabilities, and predictions in another unit, are named after the class alone.
    """
    names = map(str, classes)
    if scale in OF_CLASSES:
        return tuple(f"{scale} of {name}" for name in names)
    return tuple(names)


def class_in(output: str) -> str:
    """The class in the name of an output, such as "yes" in "log-odds of yes"; else the name itself."""
    for scale in OF_CLASSES:
        output = output.removeprefix(f"{scale} of ")
    return output


def has_no_word(scale: str) -> bool:
    """Whether a scale adds nothing to the units: the target's, or one that is not known."""
    return scale in ("", TARGET, UNSTATED)


def is_known(scale: str) -> bool:
    """Whether a cube states this scale; cubes of earlier versions state an empty one."""
    return scale not in ("", UNSTATED)


def unit_words(units: str, scale: str, output: str = "") -> str:
    """The unit of attributions in words: "EUR", "log-odds", or "EUR, log"; empty without a unit.

    `units` are the user's, "1" if none were given; `scale` is empty if it is not known.  A
    scale with which the name of the output beside these words begins is left out.
    """
    is_said = has_no_word(scale) or output.startswith(f"{scale} of ")
    return ", ".join([units] * (units not in ("", "1")) + [scale] * (not is_said))
