"""Probabilities beside the numbers that a model adds up, if the model computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dshap.core.records import FloatArray
from dshap.core.scales import LOG_ODDS, PROBABILITY, SCORE
from dshap.cube import read_run
from dshap.cube.blocks import CubeArrays

Transform = Callable[[FloatArray], FloatArray]


def _logistic(margins: FloatArray) -> FloatArray:
    """1 / (1 + exp(−x)) of log-odds (n, k), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * margins)))


def _softmax(scores: FloatArray) -> FloatArray:
    """exp(x) over the sum of exp(x) of the scores (n, k) of all classes."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _same(values: FloatArray) -> FloatArray:
    return values


TRANSFORMS: Mapping[str, Transform] = {
    "logistic": _logistic,
    "softmax": _softmax,
    "probability": _same,
}
"""Name of a transform, as the script of a page knows it -> probabilities (n, k) of predictions."""


def transform_of(arrays: CubeArrays) -> str:
    """The transform from predictions of a cube to probabilities; empty if there is none.

    Scores are turned into probabilities only if those of all classes are in the cube.
    """
    if arrays.scale == PROBABILITY:
        return "probability"
    if arrays.scale == LOG_ODDS:
        return "logistic"
    if arrays.scale == SCORE and _has_all_classes(arrays):
        return "softmax"
    return ""


def _has_all_classes(arrays: CubeArrays) -> bool:
    """Whether a cube has an output for every class of its model."""
    run = read_run(arrays.path) or {}
    identity: Mapping[str, Any] = run.get("fingerprint", {})
    value: Mapping[str, Any] = identity.get("value", {})
    return (
        len(arrays.outputs) > 1
        and value.get("value") == "trees"
        and "classes" not in value
        and tuple(identity.get("predicted", ())) == arrays.outputs
    )
