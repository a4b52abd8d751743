"""The errors of codes: those of sums and differences of players, from the same jackknife groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dshap
from dshap.core.blocks import jackknife_errors
from dshap.cube.code_arrays import code_errors
from dshap.values import Marginal

D = 12
CODES = {"a": ["x0", "x5"], "b": ["x1"], "c": [f"x{j}" for j in (2, 3, 4, *range(6, D))]}
X = np.random.default_rng(0).normal(size=(30, D))


def predict(x):
    return np.stack([x[:, 0] * x[:, 1] + np.sin(x).sum(1), x[:, 2] * x[:, 5] * x[:, 7]], axis=1)


def test_errors_are_those_of_each_linear_form():
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(3, 5, 2))
    replicates = phi + 0.1 * rng.normal(size=(7, 3, 5, 2))
    members = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]], float)
    found = code_errors(phi, replicates, members)
    for a, b in itertools.product(range(3), repeat=2):
        form = members[:, a] - (a != b) * members[:, b]
        wanted = jackknife_errors(
            np.einsum("ndk,d->nk", phi, form), np.einsum("rndk,d->rnk", replicates, form)
        )
        np.testing.assert_allclose(found[:, a, b], wanted, rtol=1e-12)


@pytest.fixture
def sampled():
    return {"design": dshap.designs.kernelshap(D, 240), "progress": False}


def test_a_code_of_one_player_has_its_error_and_differences_are_their_own(sampled, in_this_process):
    """The error of a difference is no sum of the errors of its parts: the groups are in common."""
    value = Marginal(predict, X[:5], output_names=["no", "yes"])
    cube = dshap.explain(value, X[10:16], codes=CODES, **sampled)
    errors = cube["reason_code_error"]
    assert errors.dims == ("instance", "reason_code", "reason_code_other", "output")
    assert list(cube["reason_code"].values) == ["a", "b", "c"]
    np.testing.assert_allclose(
        errors.sel(reason_code="b", reason_code_other="b"),
        cube["std_error"].sel(feature="x1"),
        rtol=1e-9,
    )
    # all attributions add up to a number without error, so that c moves against a and b together
    whole = errors.values
    np.testing.assert_allclose(whole, whole.swapaxes(1, 2), rtol=1e-12)
    covariance = (whole[:, 0, 0] ** 2 + whole[:, 2, 2] ** 2 - whole[:, 0, 2] ** 2) / 2 + (
        whole[:, 1, 1] ** 2 + whole[:, 2, 2] ** 2 - whole[:, 1, 2] ** 2
    ) / 2
    np.testing.assert_allclose(covariance, -(whole[:, 2, 2] ** 2), rtol=1e-6, atol=1e-20)


def test_a_store_has_what_memory_has_and_carries_it(sampled, tmp_path, in_this_process):
    value = Marginal(predict, X[:5], output_names=["no", "yes"])
    options = {"codes": CODES, "undo_codes": True, "instance_tile": 4, **sampled}
    in_memory = dshap.explain(value, X[10:20], **options)
    stored = dshap.explain(value, X[10:20], store=tmp_path / "cube", dtype="float32", **options)
    for name in ("reason_code_error", "reason_code_undone"):
        np.testing.assert_allclose(stored[name].values, in_memory[name].values, rtol=1e-5)
        assert stored[name].dtype == np.float32
    again = dshap.explain(value, X[10:20], store=tmp_path / "cube", dtype="float32", **options)
    np.testing.assert_array_equal(again["reason_code_error"], stored["reason_code_error"])


def test_exact_attributions_store_nothing_of_codes_as_their_sums_are_exact(in_this_process):
    value = Marginal(lambda x: x[:, 0] * x[:, 1], X[:5, :3])
    codes = {"a": ["x0"], "b": ["x1", "x2"]}
    cube = dshap.explain(value, X[:4, :3], codes=codes, progress=False)
    plain = dshap.explain(value, X[:4, :3], progress=False)
    assert not [name for name in cube.variables if "reason_code" in str(name)]
    assert cube.attrs["dshap_run"] == plain.attrs["dshap_run"]
