"""Samples and their kernel: length-scales, base factors, missing values, categories."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.core.errors import InputError
from dshap.discrepancy.samples import (
    KERNEL_ROWS,
    TwoSamples,
    compared_rows,
    even_rho,
    filled,
    kernel_sample,
)
from dshap.kernels import RBF, Categorical, Laplacian, Matern, Product, median_lengthscale
from tests.discrepancy.made_up import samples_of, two_samples


def test_base_factors_are_means_over_pairs_of_different_rows():
    rows = compared_rows(two_samples(30, 20, 3))
    factors = rows.factors(rows.x, rows.x)  # (d, N, N)
    n = len(rows.x)
    apart = ~np.eye(n, dtype=bool)
    np.testing.assert_allclose(rows.base, factors[:, apart].mean(axis=1), rtol=1e-12)
    assert compared_rows(two_samples(30, 20, 3), absent="omitted").base.tolist() == [1.0] * 3


def test_neither_the_order_of_rows_nor_their_sides_change_the_kernel():
    """Exchangeable statistics are what permutations need; more rows than the sample takes."""
    samples = two_samples(KERNEL_ROWS, 700, 3)
    pooled = np.random.default_rng(1).permutation(samples.pooled)
    other = samples_of(pooled[:500], pooled[500:])
    one, two = compared_rows(samples), compared_rows(other)
    assert one.kernel.equals(two.kernel)
    np.testing.assert_allclose(one.base, two.base, rtol=1e-13)


def test_the_sample_of_the_kernel_is_of_all_rows_where_they_are_few():
    x = np.random.default_rng(0).normal(size=(50, 2))
    assert sorted(kernel_sample(x, 0)) == list(range(50))
    many = np.random.default_rng(0).normal(size=(KERNEL_ROWS + 1, 2))
    assert len(set(kernel_sample(many, 0).tolist())) == KERNEL_ROWS


def test_a_missing_value_is_the_median_and_a_flag_of_one_player():
    samples = two_samples(40, 30, 2)
    samples.old[:10, 1] = np.nan
    rows = compared_rows(samples)
    assert rows.x.shape == (70, 3)
    assert rows.members.tolist() == [[1, 0, 0], [0, 1, 1]]
    factors = rows.factors(rows.x, rows.x)
    assert factors.shape[0] == 2
    assert (factors[1, :10, :10] == 1.0).all()  # both missing
    middle = rows.x[0, 1]
    rho = even_rho(2)
    # missing and present: the kernel at the median, times the factor of different flags
    alone = np.exp(-0.5 * ((rows.x[20, 1] - middle) / rows.kernel.parameters[1]) ** 2)
    assert factors[1, 0, 20] == pytest.approx(rho * alone, rel=1e-12)


def test_missing_values_leave_the_length_scale_as_it_is():
    samples = two_samples(200, 200, 2)
    whole = compared_rows(samples).kernel.parameters[1]
    samples.new[::5, 1] = np.nan
    assert compared_rows(samples).kernel.parameters[1] == pytest.approx(whole, rel=0.1)


def test_a_column_without_any_value_is_constant():
    samples = two_samples(10, 10, 2)
    samples.old[:, 0] = samples.new[:, 0] = np.nan
    rows = compared_rows(samples)
    assert (rows.factors(rows.x, rows.x)[0] == 1.0).all()
    assert rows.base[0] == 1.0
    assert (filled(samples.pooled, np.isnan(samples.pooled))[:, 0] == 0.0).all()


def test_columns_of_categories_take_a_categorical_kernel():
    samples = samples_of(np.zeros((5, 2)), np.ones((5, 2)), [False, True])
    described = compared_rows(samples, RBF(2.0)).described()
    assert described == {"x0": "rbf 2", "x1": f"categorical {even_rho(2):.4g}"}
    chosen = Product([Laplacian(1.0), Categorical(0.3)])
    assert compared_rows(samples, chosen).described() == {
        "x0": "laplacian 1",
        "x1": "categorical 0.3",
    }
    with pytest.raises(
        InputError, match="column 'x1' contains categories, and its kernel is matern32"
    ):
        compared_rows(samples, Product([RBF(1.0), Matern(1.5, 1.0)]))


def test_length_scales_of_the_users():
    """One, one a column, by name; the median has the factor √columns."""
    samples = two_samples(30, 20, 3)
    for given in ([0.5, 1.0, 2.0], {"x2": 2.0, "x0": 0.5, "x1": 1.0}):
        assert compared_rows(samples, RBF(given)).kernel.parameters.tolist() == [0.5, 1.0, 2.0]
    assert compared_rows(samples, Laplacian(0.5)).kernel.families == ("laplacian",) * 3
    expected = median_lengthscale(samples.pooled[np.lexsort(samples.pooled.T)])
    np.testing.assert_allclose(compared_rows(samples).kernel.parameters, expected, rtol=1e-12)


def test_a_length_scale_of_a_fit_is_refused():
    with pytest.raises(InputError, match='"validate" needs a target'):
        compared_rows(two_samples(5, 5, 2), RBF("validate"))


def test_a_sample_without_rows_is_refused():
    with pytest.raises(InputError, match="new has no rows"):
        TwoSamples(np.zeros((3, 1)), np.zeros((0, 1)), ("a",), np.array([False]))
