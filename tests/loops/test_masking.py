"""Mixes of instances and background rows: the compiled loops against every mix written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dshap
from dshap.core.errors import InputError
from dshap.loops import masking as module
from dshap.loops.masking import Masks, mixed_values
from dshap.loops.sizes import Calls
from dshap.values import Marginal
from tests.loops.twins import plain_mixed_values


def model(x):
    """Every order of interactions, two outputs; NaN counts as a number of its own."""
    x = np.nan_to_num(x, nan=-2.5)
    return np.column_stack(
        [np.cos(x @ np.arange(1, x.shape[1] + 1)), np.exp(-np.abs(x).sum(axis=1) / 9) * x[:, 0]]
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 7),
    st.sampled_from([1, 5, 70]),
    st.integers(1, 90),
)
def test_equal_to_every_mix(seed, n, b, columns, buffer):
    """Columns of few values, so that many agree, and NaN; whatever the buffer, one word of bits or
    two."""
    rng = np.random.default_rng(seed)
    values = np.array([0.0, 1.0, np.nan])
    rows, background = rng.choice(values, (n, columns)), rng.choice(values, (b, columns))
    masks, weights = Masks.of(rng.random((12, columns)) < 0.5), rng.random(b)
    found = mixed_values(Calls(model, 2, buffer), masks, rows, background, weights)
    expected = plain_mixed_values(model, masks, rows, background, weights, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_chunks_change_no_bit(monkeypatch):
    rng = np.random.default_rng(1)
    rows, background = (
        rng.integers(0, 3, (9, 6)).astype(float),
        rng.integers(0, 3, (11, 6)).astype(float),
    )
    masks = Masks.of(rng.random((20, 6)) < 0.5)
    weights = rng.random(11)
    whole = mixed_values(Calls(model, 2, 1_000), masks, rows, background, weights)
    for size in (1, 5_000, 20_000):
        monkeypatch.setattr(module, "CHUNK_BYTES", size)
        np.testing.assert_array_equal(
            mixed_values(Calls(model, 2, 1_000), masks, rows, background, weights), whole
        )


def test_a_row_is_predicted_once():
    """A row that differs from the background in 3 of 12 columns has 8 mixes with it, whatever the
    coalitions."""
    seen = []

    def counted(x):
        seen.extend(map(tuple, x))
        return x.sum(axis=1, keepdims=True)

    background = np.zeros((1, 12))
    row = np.zeros((1, 12))
    row[0, [2, 5, 11]] = 1.0, 2.0, 3.0
    masks = Masks.of(np.random.default_rng(0).random((500, 12)) < 0.5)
    mixed_values(Calls(counted, 1, 100), masks, row, background, np.ones(1))
    assert len(seen) == len(set(seen)) == 8


def test_predict_never_sees_more_rows_than_the_buffer():
    sizes = []

    def predict(x):
        sizes.append(len(x))
        return x[:, 0]

    rng = np.random.default_rng(0)
    value = Marginal(predict, rng.normal(size=(30, 5)), buffer_rows=64)
    sizes.clear()
    dshap.explain(value, rng.normal(size=(7, 5)))
    assert max(sizes) <= 64
    assert sum(sizes) >= 7 * 30 * 30


def test_weights_of_the_background():
    """As a background in which rows are repeated; v(∅) too."""
    rng = np.random.default_rng(3)
    background, rows, counts = (
        rng.normal(size=(4, 3)),
        rng.normal(size=(5, 3)),
        np.array([1, 3, 0, 2]),
    )
    weighted = dshap.explain(Marginal(model, background, weights=counts * 0.5), rows)
    repeated = dshap.explain(Marginal(model, np.repeat(background, counts, axis=0)), rows)
    np.testing.assert_allclose(weighted.attribution, repeated.attribution, atol=1e-13)
    np.testing.assert_allclose(weighted.base_value, repeated.base_value, atol=1e-14)
    spans = dshap.explain(Marginal(model, background, weights=counts * 0.5), rows, row_span=3)
    np.testing.assert_allclose(spans.base_value, counts @ model(background) / 6, atol=1e-14)
    other = Marginal(model, background, weights=[1, 1, 1, 2])
    assert other.fingerprint() != Marginal(model, background).fingerprint()


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1, 2], "one for each of the 4"), ([1, 2, -1, 1], "not negative"), ([0, 0, 0, 0], "not all zero"),
     ([1, 1, np.nan, 1], "finite")],
)  # fmt: skip
def test_bad_weights(weights, message):
    with pytest.raises(InputError, match=message):
        Marginal(model, np.eye(4)[:, :3], weights=weights)
