"""The form that kernel models are reduced to."""

import io
import pickle

import numpy as np
import pandas as pd
import pytest

from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.kernels import RBF, Categorical, Product, ProductKernel
from dshap.models import FourierExpansion, KernelExpansion
from dshap.values import Gaussian


@pytest.fixture
def expansion():
    rng = np.random.default_rng(0)
    kernel = Product([RBF(0.7), RBF(2.0), Categorical(0.3)]).bind(3)
    landmarks = np.column_stack([rng.normal(size=(6, 2)), rng.integers(0, 2, 6)])
    return KernelExpansion(
        kernel,
        landmarks,
        rng.normal(size=(6, 2)),
        [1.0, -2.0],
        ["a", "b", "naïve"],
        ["low", "high"],
    )


def test_predict_is_the_sum_over_landmarks_across_micro_blocks(expansion):
    x = np.random.default_rng(1).normal(size=(2500, 3))
    factors = expansion.kernel.factors(x, expansion.landmarks)  # (columns, n, r)
    expected = expansion.intercept + factors.prod(axis=0) @ expansion.weights
    # a sum of 6 terms near 1
    np.testing.assert_allclose(expansion.predict(x), expected, atol=1e-13)
    assert expansion.predict(x[:0]).shape == (0, 2)


def test_columns_are_matched_by_name(expansion):
    x = np.random.default_rng(1).normal(size=(5, 3))
    table = pd.DataFrame(x, columns=["a", "b", "naïve"])
    shuffled = table.assign(other="text")[["naïve", "other", "b", "a"]]
    np.testing.assert_array_equal(expansion.predict(shuffled), expansion.predict(x))
    with pytest.raises(InputError, match="column 'b' is missing"):
        expansion.predict(table.drop(columns="b"))


def test_record_and_pickle_round_trips(expansion):
    x = np.random.default_rng(1).normal(size=(5, 3))
    stored = Record.load(io.BytesIO(expansion.to_record().to_bytes()))
    for other in (KernelExpansion.from_record(stored), pickle.loads(pickle.dumps(expansion))):
        np.testing.assert_array_equal(other.predict(x), expansion.predict(x))
        assert other.digest() == expansion.digest()
        assert (other.feature_names, other.output_names) == (("a", "b", "naïve"), ("low", "high"))
    bare = KernelExpansion(
        expansion.kernel, expansion.landmarks, expansion.weights, expansion.intercept
    )
    assert KernelExpansion.from_record(bare.to_record()).feature_names is None
    assert bare.digest() != expansion.digest()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"weights": np.ones((5, 1))}, "needs \\(r, 2\\), \\(r, k\\), \\(k,\\)"),
        ({"landmarks": np.full((4, 2), np.nan)}, "landmarks of shape .* contains NaN"),
        ({"feature_names": ("a",)}, "1 feature names for 2"),
        ({"output_names": ("a", "b")}, "2 output names for 1"),
    ],
)
def test_bad_parts_are_refused(change, words):
    parts = {"landmarks": np.zeros((4, 2)), "weights": np.ones((4, 1)), "intercept": np.zeros(1)}
    with pytest.raises(InputError, match=words):
        KernelExpansion(ProductKernel(("rbf", "rbf"), [1.0, 1.0]), **(parts | change))


def test_rows_of_another_shape_are_refused(expansion):
    with pytest.raises(InputError, match=r"give \(n, 3\)"):
        expansion.predict(np.zeros((4, 2)))
    with pytest.raises(InputError, match="must be numbers"):
        expansion.predict([["a", "b", "c"]])


def test_stores_know_a_model_again_wherever_its_predict_is_written():
    """These names are in the fingerprints of runs: another one, and a store would not be
    resumed."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    kernel = KernelExpansion(RBF(1.0).bind(2), x[:3], np.ones((3, 1)), [0.0])
    waves = FourierExpansion(np.ones((2, 2)), np.zeros(2), np.ones((2, 1)), [0.0])
    names = [
        Gaussian(f.predict, x, n_samples=2).fingerprint()["predict"]
        for f in (kernel, waves, kernel + waves)
    ]
    assert names == [
        "dshap.models.expansion.KernelExpansion.predict",
        "dshap.models.fourier.FourierExpansion.predict",
        "dshap.models.expansion_sum.ExpansionSum.predict",
    ]
