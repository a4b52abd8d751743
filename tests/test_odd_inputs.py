"""Odd tables through the public functions: an answer that is right, or one plain line; never an
error of numpy's."""

from __future__ import annotations

import numpy as np
import pytest

import dshap
from dshap import designs
from dshap.core.errors import DshapError, InputError
from dshap.designs.shapley_kernel import ConstrainedSolution
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelRidge
from dshap.values import ConditionalRegression, Copula, Gaussian, LinearGaussian, Marginal
from tests.lanes import by_first

pytestmark = pytest.mark.usefixtures("in_this_process")


def first(x):
    return x[:, 0]


def tables(columns):
    """name -> (40, columns) rows, or few of them."""
    rows = np.random.default_rng(columns).normal(size=(40, columns))
    return {
        "huge": 1e12 * rows,
        "tiny": 1e-12 * rows,
        "largest": 1e200 * rows,
        "smallest": 1e-200 * rows,
        "far from 0": 1e9 + 1e-3 * rows,
        "one row": rows[:1],
        "two rows": rows[:2],
        "alike": np.repeat(rows[:1], 6, axis=0),
        "constant column": np.column_stack([np.ones(40), rows[:, 1:]]),
        "repeated column": np.column_stack([rows[:, -1], rows[:, 1:]]),
        "NaN": np.where(np.arange(40)[:, None] == 3, np.nan, rows),
        "empty": rows[:0],
    }


CALLS = {
    "Marginal": lambda x: dshap.explain(Marginal(first, x), x[:2], max_coalitions=40),
    "permutation": lambda x: dshap.explain(
        Marginal(first, x), x[:2], design=designs.permutation(x.shape[1], 30)
    ),
    "Gaussian": lambda x: dshap.explain(Gaussian(first, x, n_samples=4), x[:2], max_coalitions=40),
    "Copula": lambda x: dshap.explain(Copula(first, x, n_samples=4), x[:2], max_coalitions=40),
    "LinearGaussian": lambda x: dshap.explain(
        LinearGaussian(np.ones(x.shape[1]), data=x, n_permutations=30), x[:2]
    ),
    "ConditionalRegression": lambda x: dshap.explain(
        ConditionalRegression(first, x, RBF("median"), Nystrom(1), 1e-3), x[:2], max_coalitions=40
    ),
    "KernelRidge": lambda x: KernelRidge(RBF("median"), Nystrom(3), penalty=1e-6).fit(x, x[:, 0]),
    "KernelRidge, validated": lambda x: KernelRidge(
        RBF("validate"), Nystrom(2), penalty="validate", holdout=0.2
    ).fit(x, x[:, 0]),
    "choose_background": lambda x: dshap.choose_background(x, 2),
    "strata": lambda x: dshap.choose_background(x, 2, method="stratified"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "cases"), by_first(CALLS, tables(1), [1, 2, 14]))
def test_an_answer_or_one_plain_line(name, cases, subtests):
    """No LinAlgError, IndexError, OverflowError … reaches the user, in a failed block neither; no
    NaN under `ok`."""
    for kind, columns in cases:
        with subtests.test(kind=kind, columns=columns):
            is_answered(name, tables(columns)[kind])


def is_answered(name: str, rows: np.ndarray) -> None:
    """Assert that a call gives finite numbers, or an error of dshap in one plain line."""
    try:
        found = CALLS[name](rows)
    except DshapError as error:
        assert "\n" not in str(error), error
        assert not any(
            foreign in str(error)
            for foreign in ("array", "axis", "zero-size", "positive definite", "NoneType")
        ), error
    else:
        assert not hasattr(found, "attribution") or np.isfinite(found.attribution).all()


def test_one_player_by_permutation():
    rows = np.random.default_rng(0).normal(size=(9, 1))
    for n_replicates in (0, 20):
        design = designs.permutation(1, 4, n_replicates=n_replicates)
        cube = dshap.explain(Marginal(first, rows), rows[:3], design=design)
        np.testing.assert_allclose(cube.attribution[:, 0, 0], rows[:3, 0] - rows.mean(), rtol=1e-12)
        assert n_replicates == 0 or (cube.std_error == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("rows", [np.ones((5, 3)), np.ones((1, 3))])
def test_data_of_no_spread_have_no_conditional_normal(rows):
    others = np.random.default_rng(0).normal(size=(2, 3))
    for value in (
        Gaussian(first, rows),
        Copula(first, rows),
        LinearGaussian(np.ones(3), data=rows),
    ):
        with pytest.raises(InputError, match=r"no column varies over \d row\(s\) of data"):
            dshap.explain(value, others)
    with pytest.raises(InputError, match="the covariance is 0"):
        LinearGaussian(np.ones(3), mean=np.zeros(3), covariance=np.zeros((3, 3)))
    cube = dshap.explain(LinearGaussian(np.ones(3), data=rows, kind="interventional"), others)
    np.testing.assert_allclose(cube.attribution[:, :, 0], others - 1.0, atol=1e-12)


def test_scales_whose_square_is_no_number_are_refused():
    rows = np.random.default_rng(0).normal(size=(30, 2))
    for scale in (1e200, 1e-200):
        with pytest.raises(InputError, match=r"length-scale of column 0 is .*rescale the column"):
            KernelRidge(RBF("median"), Nystrom(3), penalty=1e-6).fit(scale * rows, rows[:, 0])


def test_too_few_rows_to_validate():
    rows = np.random.default_rng(0).normal(size=(2, 2))
    with pytest.raises(
        InputError, match="needs two different rows to learn from and one to validate on"
    ):
        KernelRidge(RBF("validate"), Nystrom(2), penalty="validate").fit(rows, rows[:, 0])


def test_mse_v_of_one_player():
    rows = np.random.default_rng(0).normal(size=(30, 1))
    with pytest.raises(InputError, match=r"a game of one player \(x0\) has none"):
        dshap.mse_v(ConditionalRegression(first, rows, RBF(1.0), Nystrom(3), 1e-3), rows)


def test_a_solve_that_cholesky_refuses_is_no_solution():
    """Rank d − 1 by its eigenvalues, one of them below zero: the factor is none, and nothing is
    solved with it."""
    basis = np.linalg.qr(
        np.column_stack([np.ones(4), np.random.default_rng(0).normal(size=(4, 3))])
    )[0]
    for values in ([1.0, 1.0, -1.0], [1.0, 1.0, 0.0], [1.0, 1.0, -1e-13]):
        with pytest.raises(InputError, match="of 4 attributions: raise n_coalitions"):
            ConstrainedSolution.of(basis[:, 1:] @ np.diag(values) @ basis[:, 1:].T)
