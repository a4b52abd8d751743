"""Closed forms: which value functions have one, how it is chosen and kept, and the attributor that
it makes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import GradientBoostingRegressor

from dshap import designs
from dshap.attributors.choice import check_options, choose, form_of, needs_numbers, restored_method
from dshap.attributors.closed_form import ClosedFormAttributor, PairedAttributor, StateOfRows
from dshap.attributors.linear import Linear
from dshap.attributors.method import Closed
from dshap.attributors.quadrature import Quadrature
from dshap.attributors.trees import TreeForm
from dshap.core.blocks import RowBlock
from dshap.core.errors import DshapError, InputError
from dshap.core.options import RunOptions
from dshap.core.records import Moments, State
from dshap.kernels import RBF
from dshap.models import KernelExpansion
from dshap.values import KernelInterventional, LinearGaussian, Marginal, Trees

D = 4
DATA = np.random.default_rng(0).normal(size=(30, D))
ROWS = np.random.default_rng(1).normal(size=(7, D))
COEF = np.array([1.0, -2.0, 0.5, 3.0])


def linear() -> LinearGaussian:
    return LinearGaussian(COEF, 0.5, DATA.mean(axis=0), np.cov(DATA.T))


def kernel() -> KernelInterventional:
    return KernelInterventional(
        KernelExpansion(RBF(1.0).bind(D), DATA[:6], np.ones((6, 1)), np.zeros(1)), DATA
    )


def trees() -> Trees:
    return Trees(GradientBoostingRegressor(n_estimators=2, random_state=0).fit(DATA, DATA @ COEF))


class Wider(KernelInterventional):
    """A subclass has the form of its base."""


class Store:
    """Records in memory."""

    def __init__(self, **records) -> None:
        self.records = records

    def get(self, name, kind):
        return self.records[name]


def attributor_of(form, kind=ClosedFormAttributor, **given) -> ClosedFormAttributor:
    rest = {
        "base_name": "base",
        "n_outputs": 1,
        "micro_rows": 3,
        "is_kept": True,
        "is_active": np.ones(D, dtype=bool),
    }
    return kind(
        value=form.value, form=form, **{"store": Store(), "state_name": "", **rest, **given}
    )


def test_which_value_functions_have_one():
    assert [type(form_of(value)) for value in (linear(), kernel(), trees())] == [
        Linear,
        Quadrature,
        TreeForm,
    ]
    assert type(form_of(Wider(kernel().model.expansion, DATA))) is Quadrature
    marginal = Marginal(lambda x: x[:, 0], DATA)
    assert form_of(marginal) is None
    assert form_of(KernelInterventional) is None
    assert [needs_numbers(value) for value in (linear(), kernel(), trees(), marginal)] == [
        True,
        True,
        False,
        False,
    ]


def test_what_is_kept_of_it_is_data():
    """Fingerprints of stores that were written before."""
    for value, name in ((kernel(), "quadrature"), (linear(), "auto"), (trees(), "closed_form")):
        chosen = choose(name, value, None)
        assert isinstance(chosen, Closed)
        assert chosen.fingerprint() == {"design": "closed_form", "n_players": D, "n_replicates": 0}
        again = restored_method(value, chosen.fingerprint())
        assert again.value_fingerprint() == chosen.value_fingerprint()
        assert again.info == chosen.info
    drawn = LinearGaussian(COEF, data=DATA, n_permutations=20)
    assert (
        choose("auto", drawn, None).fingerprint()["n_replicates"] == Linear(drawn).n_replicates > 0
    )
    exact = choose("exact", kernel(), None)
    assert restored_method(kernel(), exact.fingerprint()).design == designs.exact(D)
    with pytest.raises(InputError, match="Marginal has no closed form: give another design"):
        restored_method(
            Marginal(lambda x: x[:, 0], DATA),
            {"design": "closed_form", "n_players": D, "n_replicates": 0},
        )


def test_the_order_of_the_fingerprint_of_quadrature_is_that_of_older_stores():
    names = list(Quadrature(kernel()).fingerprint())
    assert names == ["value", "closed_form", "model", "players", "n_background", "tolerance"]


def test_its_work_is_of_no_coalition():
    work = choose("quadrature", kernel(), None).work()
    assert work.is_closed_form
    assert work.learns
    assert work.sample_size > 0
    assert (work.info.n_coalitions, work.info.n_players, work.info.is_efficient) == (2, D, False)
    assert work.cost(5, 64) == work.cost(0, 64) == Quadrature(kernel()).cost(64)


def test_what_belongs_to_designs_is_refused():
    with pytest.raises(
        InputError,
        match="interactions belongs to designs that list coalitions, and LinearGaussian is",
    ):
        check_options(linear(), RunOptions(interactions=True))
    with pytest.raises(
        InputError, match="tol belongs to designs that list coalitions, and Trees is a closed form"
    ):
        check_options(trees(), RunOptions(tol=0.1, interactions=True))
    check_options(trees(), RunOptions(interactions=True))
    check_options(kernel(), RunOptions(tol=0.1, interactions=True))


def test_the_state_is_learned_from_all_rows():
    """In two parts, as a cluster adds them: mean and covariance of numpy."""
    form = Linear(LinearGaussian(COEF, data=DATA))
    one = StateOfRows(form.chosen(form.choose(DATA[:5])))
    parts = [
        one.partial(RowBlock(start, DATA[start : start + 15], np.ones(15, bool)))
        for start in (0, 15)
    ]
    state = one.finish(parts[0] + parts[1])
    assert_allclose(state["mean"], DATA.mean(axis=0), atol=1e-14)
    given = Linear(LinearGaussian(COEF, 0.0, DATA.mean(axis=0), np.cov(DATA.T))).prepare(Moments())
    assert_allclose(state["matrix"], given["matrix"], atol=1e-12)


def test_attributions_are_those_of_the_form():
    form = Linear(linear())
    state = form.prepare(Moments())
    kept = attributor_of(form, store=Store(learned=state), state_name="learned")
    for attributor in (kept, attributor_of(form)):
        found = attributor.attribute(ROWS)
        assert_allclose(found.phi, form.phi(state, ROWS), atol=1e-14)
        assert_allclose(found.phi.sum(axis=1) + found.base, found.prediction, atol=1e-12)
        assert attributor.state() is attributor.state()


def test_attributions_that_miss_the_prediction_are_refused():
    form = Linear(linear())
    state = form.prepare(Moments())
    wrong = State({**state.arrays, "matrix": state["matrix"] + 1e-3})
    with pytest.raises(DshapError, match="attributions miss the prediction by"):
        attributor_of(form, store=Store(learned=wrong), state_name="learned").attribute(ROWS)


def test_interactions_of_trees_sum_to_the_attributions():
    pytest.importorskip("shap", reason="shap is not installed")
    form = TreeForm(trees()).with_interactions()
    found = attributor_of(form, PairedAttributor).attribute(ROWS)
    assert_allclose(found.interaction.sum(axis=2), found.phi, atol=1e-12)
    assert np.abs(found.phi).max() > 0.1


def test_a_choice_keeps_its_form_over_other_players_and_threads():
    chosen = Closed.of(Quadrature(kernel())).without_data()
    assert chosen.value.data is None
    assert chosen.form.value is chosen.value
    resolved = chosen.with_choice(State({"candidates": DATA}))
    assert resolved.form.sample_size == 0
    assert resolved.with_threads(3) == resolved
