"""Quadratic forms of products of coalitions, against their plain numpy twin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dshap.loops.form_sums import MANY, Forms, form_sums
from dshap.loops.sizes import WIDTH
from tests.loops import twins

TERMS = 30
ROWS = WIDTH * len(MANY)


def draws(rng, m):
    """Matrices of m forms, and their terms; some are square, some have no whole four columns."""
    matrices, terms = [], []
    for p, q in zip(rng.integers(1, TERMS, m), rng.integers(1, TERMS, m), strict=True):
        q = min(p, q)
        matrix = rng.normal(size=(p, q))
        matrix[:q] = np.tril(matrix[:q])
        matrices.append(matrix)
        terms.append(rng.permutation(TERMS)[:p])
    return matrices, terms


def joined(matrices, terms, scales=None):
    scales = scales or [np.empty(0)] * len(matrices)
    return Forms(
        np.concatenate([matrix.ravel() for matrix in matrices]),
        np.concatenate(terms),
        np.array([matrix.shape[0] for matrix in matrices]),
        np.array([matrix.shape[1] for matrix in matrices]),
        np.concatenate(scales),
        np.array([len(each) for each in scales]),
    )


@pytest.mark.parametrize("c", [1, 4, 5, 9, 14])
@pytest.mark.parametrize("n", [0, 1, WIDTH, WIDTH + 1, ROWS, 2 * ROWS + 3])
def test_form_sums(rng, c, n):
    columns = rng.random((11, c)) < 0.5
    matrices, terms = draws(rng, 11)
    factors = rng.normal(size=(c, TERMS, n))
    parts = [joined(matrices[:4], terms[:4]), joined(matrices[4:], terms[4:])]
    found = form_sums(columns, parts, factors)
    assert found.shape == (n, 11)
    for j, present in enumerate(columns):
        plain = twins.plain_form_values(factors, present, terms[j], matrices[j])
        assert_allclose(found[:, j], plain, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("q", range(1, 10))
def test_each_number_of_columns(rng, q):
    matrix = rng.normal(size=(q + 2, q))
    matrix[:q] = np.tril(matrix[:q])
    terms = rng.permutation(TERMS)[: q + 2]
    columns = np.array([[True, False, True]])
    factors = rng.normal(size=(3, TERMS, 5))
    plain = twins.plain_form_values(factors, columns[0], terms, matrix)
    assert_allclose(form_sums(columns, [joined([matrix], [terms])], factors)[:, 0], plain)


def test_forms_with_squares_among_others(rng):
    matrices, terms = draws(rng, 4)
    squares = [rng.normal(size=(p, q)) for p, q in ((3, 4), (9, 8), (TERMS, 12))]
    places = [rng.permutation(TERMS)[: len(each)] for each in squares]
    scales = [rng.normal(size=each.shape[1]) for each in squares]
    none = np.empty(0)
    part = joined(
        [matrices[0], squares[0], *matrices[1:], *squares[1:]],
        [terms[0], places[0], *terms[1:], *places[1:]],
        [none, scales[0], none, none, none, *scales[1:]],
    )
    columns = rng.random((7, 5)) < 0.5
    factors = rng.normal(size=(5, TERMS, ROWS + 6))
    found = form_sums(columns, [part], factors)
    for j, matrix, own in zip((0, 2, 3, 4), matrices, terms, strict=True):
        plain = twins.plain_form_values(factors, columns[j], own, matrix)
        assert_allclose(found[:, j], plain, rtol=1e-11, atol=1e-11)
    for j, matrix, own, scale in zip((1, 5, 6), squares, places, scales, strict=True):
        products = twins.plain_subset_products(factors, columns[j])[own]
        assert_allclose(found[:, j], scale @ (matrix.T @ products) ** 2, rtol=1e-11, atol=1e-11)


def test_a_row_has_the_same_bits_whichever_rows_come_with_it(rng):
    columns = rng.random((6, 5)) < 0.5
    parts = [joined(*draws(rng, 6))]
    factors = rng.normal(size=(5, TERMS, 3 * ROWS))
    found = form_sums(columns, parts, factors)
    for start, stop in ((7, 8), (8, 16), (20, 60), (31, 96)):
        some = form_sums(columns, parts, np.ascontiguousarray(factors[:, :, start:stop]))
        assert_array_equal(some, found[start:stop])
