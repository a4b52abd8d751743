"""The largest and the median of the standard errors of a cube."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap.analysis.accuracy import error_sizes
from dshap.values import Marginal

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(3, 12))


def two(x):
    return np.column_stack([np.prod(1 + 0.3 * x, axis=1), x[:, 0] * x[:, 1] * x[:, 2] * 100.0])


@pytest.mark.parametrize("n_rows", [1, 2, 30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_each_row_and_output_the_largest(n_rows, dtype, tmp_path):
    rows = RNG.normal(size=(n_rows, 12))
    value = Marginal(two, BACKGROUND)
    design = dshap.designs.kernelshap(12, 200)
    options = {"instance_tile": 8, "dtype": dtype, "store": tmp_path / "cube"}
    cube = dshap.explain(value, rows, design=design, **options)
    largest = cube.std_error.values.max(axis=1).ravel()
    found = error_sizes(str(tmp_path / "cube"))
    assert found.largest == largest.max() > 0
    middle = np.sort(largest)[(len(largest) - 1) // 2]
    assert found.median == pytest.approx(middle, rel=0.01)
    assert found.median <= found.largest


def test_errors_of_0_and_none(tmp_path):
    rows = RNG.normal(size=(4, 12))
    additive = Marginal(lambda x: x.sum(axis=1), np.zeros((1, 12)))
    dshap.explain(additive, rows, design=dshap.designs.kriging(12, 200), store=tmp_path / "0")
    found = error_sizes(tmp_path / "0")
    assert 0 <= found.median <= found.largest < 1e-9
    dshap.explain(additive, rows, design="exact", store=tmp_path / "exact")
    assert error_sizes(tmp_path / "exact") is None


@pytest.mark.filterwarnings("ignore:std_error is NaN:RuntimeWarning")
def test_errors_that_are_not_known(tmp_path):
    value = Marginal(two, BACKGROUND)
    design = dshap.designs.kriging(12, 26)
    dshap.explain(value, RNG.normal(size=(4, 12)), design=design, store=tmp_path / "cube")
    found = error_sizes(tmp_path / "cube")
    assert not found.has_some
    assert np.isnan(found.median)
    assert (found.rows, found.unknown) == (4, 4)


def test_rows_without_an_error_and_rows_without_attributions(tmp_path):
    """Three rows of which one fails, and one states no error for its second output."""

    class Fixed(dshap.Attributor):
        n_replicates = 2

        def attribute(self, rows):
            phi = np.repeat(rows[:, :, None], 2, axis=2)
            replicates = np.stack([phi + 0.3, phi - 0.4])  # errors of 0.5
            replicates[0, rows[:, 0] == 1.0, 0, 1] = np.nan
            return self.attribution(rows, phi, base=np.zeros(2), replicates=replicates)

    def both(rows):
        sums = rows.sum(axis=1)
        sums[rows[:, 0] == 2.0] = np.nan
        return np.column_stack([sums, sums])

    rows = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    value = Fixed(both, rows[:1])
    with pytest.raises(dshap.DshapError):
        dshap.explain(value, rows, store=tmp_path / "cube")
    found = error_sizes(tmp_path / "cube")
    assert (found.rows, found.unknown) == (2, 1)
    assert found.largest == pytest.approx(0.5)
    assert found.has_some
