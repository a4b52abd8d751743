"""Sums of expansions against the sum of what their parts predict."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dshap.core.errors import InputError
from dshap.kernels import RBF, Laplacian
from dshap.models.expansion import FourierExpansion, KernelExpansion
from dshap.models.expansion_sum import ExpansionSum, sum_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
NAMES, OUTPUTS = ("a", "b", "naïve"), ("low", "high")
ONE = KernelExpansion(
    RBF(0.7).bind(3), RNG.normal(size=(6, 3)), RNG.normal(size=(6, 2)), [1.0, -2.0]
)
TWO = KernelExpansion(
    Laplacian(2.0).bind(3), RNG.normal(size=(4, 3)), RNG.normal(size=(4, 2)), [0.5, 0.0], NAMES
)
WAVES = FourierExpansion(
    RNG.normal(size=(5, 3)), RNG.normal(size=5), RNG.normal(size=(5, 2)), [3.0, 4.0], NAMES, OUTPUTS
)
SHARED = FourierExpansion(
    np.repeat(WAVES.frequencies, 2, axis=0), RNG.normal(size=10), RNG.normal(size=(10, 2)), [0, 1]
)
SUMS = {
    "real": ExpansionSum((ONE, TWO)),
    "complex": ExpansionSum((WAVES, SHARED)),
    "mixed": ExpansionSum((ONE, WAVES, TWO)),
    "single": ExpansionSum((ONE,)),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_has_the_face_of_one_expansion(name):
    whole = SUMS[name]
    expected = sum(part.predict(X) for part in whole.expansions)
    np.testing.assert_allclose(whole.predict(X), expected, atol=1e-13)  # a few terms near 1
    factors = whole.factors(X)
    assert (
        factors.shape
        == (whole.n_columns, len(X), whole.size)
        == (3, len(X), len(whole.coefficients))
    )
    assert (
        factors.dtype
        == whole.coefficients.dtype
        == (float if name in ("real", "single") else complex)
    )
    again = whole.intercept + (factors.prod(axis=0) @ whole.coefficients).real
    np.testing.assert_allclose(again, expected, atol=1e-12)
    # rows next to each other, as its parts have them
    assert factors.swapaxes(1, 2).flags.c_contiguous
    assert whole.intercept.shape == (whole.n_outputs,)
    assert whole.predict(X[:0]).shape == (0, 2)
    assert not hasattr(whole, "kernel")


@pytest.mark.parametrize("name", SUMS)
def test_pickle_round_trips(name):
    whole = SUMS[name]
    other = pickle.loads(pickle.dumps(whole))
    np.testing.assert_array_equal(other.predict(X), whole.predict(X))
    assert other.digest() == whole.digest()
    assert [type(part) for part in other.parts] == [type(part) for part in whole.parts]
    assert (other.feature_names, other.output_names) == (whole.feature_names, whole.output_names)


def test_a_sum_of_more_than_ten_parts_keeps_its_order():
    whole = ExpansionSum(tuple(replace(ONE, intercept=[p, 0.0]) for p in range(12)))
    assert [part.intercept[0] for part in whole.parts] == list(range(12))
    assert whole.to_record()["part11_intercept"][0] == 11.0


def test_digest_follows_every_part():
    whole = SUMS["mixed"]
    changed = ExpansionSum((*whole.expansions[:2], replace(TWO, weights=TWO.weights + 1e-12)))
    assert len({whole.digest(), changed.digest(), ExpansionSum((WAVES, ONE, TWO)).digest()}) == 3


def test_names_come_from_the_first_part_that_knows_them():
    whole = SUMS["mixed"]
    assert (whole.feature_names, whole.output_names) == (NAMES, OUTPUTS)
    frame = pd.DataFrame(X, columns=NAMES)[["naïve", "a", "b"]]
    np.testing.assert_array_equal(whole.predict(frame), whole.predict(X))
    assert SUMS["single"].feature_names is None


def test_sums_of_sums_are_taken_apart():
    whole = ExpansionSum((SUMS["real"], ExpansionSum((WAVES, SUMS["single"]))))
    assert whole.expansions == (ONE, TWO, WAVES, ONE)
    assert (SUMS["real"] + WAVES).expansions == (ONE, TWO, WAVES)
    assert (SUMS["real"] + SUMS["single"]).expansions == (ONE, TWO, ONE)
    assert (ONE + SUMS["complex"]).expansions == (ONE, WAVES, SHARED)
    assert ONE.parts == (ONE,)
    assert SUMS["real"].parts == (ONE, TWO)
    assert sum_of([ONE]) is ONE
    assert sum_of([ONE, SUMS["complex"]]).expansions == (ONE, WAVES, SHARED)


def test_one_change_of_all_parts():
    zero = SUMS["mixed"].mapped(lambda part: replace(part, weights=0 * part.weights))
    np.testing.assert_allclose(
        zero.predict(X), np.broadcast_to(SUMS["mixed"].intercept, (len(X), 2))
    )
    assert ONE.mapped(lambda part: replace(part, intercept=[0, 0])).intercept.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (
            KernelExpansion(RBF(1.0).bind(2), np.zeros((1, 2)), np.zeros((1, 2)), [0, 0]),
            r"n_columns .* \[2, 3\]",
        ),
        (
            KernelExpansion(RBF(1.0).bind(3), np.zeros((1, 3)), np.zeros((1, 1)), [0]),
            r"n_outputs .* \[1, 2\]",
        ),
        (
            replace(WAVES, feature_names=("a", "b", "c")),
            "feature_names of the parts of a sum disagree: .*'c'.*naïve",
        ),
        (replace(WAVES, output_names=("x", "y")), "output_names of the parts of a sum disagree"),
    ],
)
def test_parts_that_do_not_match_are_refused(other, words):
    with pytest.raises(InputError, match=words):
        ExpansionSum((TWO, WAVES, other))


def test_an_empty_sum_is_refused():
    with pytest.raises(InputError, match="at least one"):
        ExpansionSum(())
