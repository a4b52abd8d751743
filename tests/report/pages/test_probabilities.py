"""Probabilities from predictions: only where the scale and the outputs of a cube give them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, softmax

from dshap.cube.blocks import CubeArrays
from dshap.report.pages.probabilities import TRANSFORMS, transform_of
from tests.cube.cubes import make_cube


def test_transforms_are_those_of_scipy_and_do_not_overflow():
    margins = np.array([[0.0, 2.0, -1.0], [900.0, -900.0, 899.0]])
    np.testing.assert_allclose(TRANSFORMS["logistic"](margins), expit(margins), atol=1e-15)
    np.testing.assert_allclose(TRANSFORMS["softmax"](margins), softmax(margins, axis=1), rtol=1e-12)
    assert TRANSFORMS["probability"](margins) is margins


@pytest.mark.parametrize(
    ("scale", "predicted", "more", "expected"),
    [
        ("log-odds", ("y", "z"), {}, "logistic"),
        ("probability", ("y", "z"), {}, "probability"),
        ("score", ("y", "z"), {}, "softmax"),
        ("score", ("y", "z"), {"classes": ["a", "b"]}, ""),  # chosen classes, perhaps not all
        ("score", ("y", "z", "w"), {}, ""),
        ("score", ("y", "z"), {"value": "marginal"}, ""),
        ("margin", ("y", "z"), {}, ""),
    ],
)
def test_a_cube_gives_probabilities_of_all_classes_only(tmp_path, scale, predicted, more, expected):
    identity = {"value": {"value": "trees", **more}, "predicted": list(predicted)}
    make_cube(tmp_path / "s", scale=scale, run={"digest": "d1", "fingerprint": identity})
    assert transform_of(CubeArrays(tmp_path / "s")) == expected
