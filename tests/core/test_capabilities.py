"""What only some designs and value functions can do, asked of any."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dshap import designs
from dshap.core import capabilities as abilities
from dshap.core.errors import InputError
from dshap.core.records import Record
from dshap.core.types import ValueFunction
from dshap.kernels import RBF, Nystrom
from dshap.models import KernelExpansion
from dshap.values import ConditionalRegression, KernelInterventional, Marginal

X = np.random.default_rng(0).normal(size=(40, 3))
EXPANSION = KernelExpansion(RBF(1.0).bind(3), X[:5], np.ones((5, 1)), np.zeros(1))


def first(x):
    return x[:, 0]


def test_of_designs():
    exact, kernelshap, kriging = (
        designs.exact(3),
        designs.kernelshap(14, 200),
        designs.kriging(14, 600),
    )
    permutation = designs.permutation(14, 40)
    assert [
        abilities.pilot_coalitions(d) > 0 for d in (exact, kernelshap, permutation, kriging)
    ] == 3 * [False] + [True]
    assert abilities.rounds_of(permutation) == (permutation,)
    assert abilities.rounds_of(kernelshap)[-1] == kernelshap
    assert abilities.held_coalitions(permutation) == 0 < abilities.held_coalitions(kriging)
    assert abilities.held_coalitions(abilities.linear(kriging)) == 0
    assert abilities.linear(exact) is exact
    assert abilities.game_seconds(exact) == abilities.game_seconds(abilities.linear(kriging)) == 0.0
    assert 1e-4 < abilities.game_seconds(kriging) < 1e-1
    assert abilities.tuned(exact, Record()) is exact
    assert abilities.tuned(kriging, Record()) is not kriging
    assert abilities.interactions_of(exact, 0, 8).shape == (8, 3)
    with pytest.raises(InputError, match=r"interactions need designs\.exact or designs\.kriging"):
        abilities.interactions_of(kernelshap, 0, 2)


def test_of_value_functions():
    marginal, kernel = Marginal(first, X), KernelInterventional(EXPANSION, X)
    regression = ConditionalRegression(first, X, RBF(), Nystrom(10))
    assert [abilities.learns_from_data(v) for v in (marginal, kernel, regression)] == [
        False,
        True,
        True,
    ]
    assert [abilities.needs_predictions(v) for v in (marginal, kernel, regression)] == [
        False,
        False,
        True,
    ]
    assert abilities.sample_size(marginal) == 0 < abilities.sample_size(regression)
    assert not abilities.streams_data(marginal)
    assert not abilities.streams_data(kernel)


def test_members_that_lack_are_those_of_what_a_protocol_extends_too():
    assert abilities.lacking(Marginal(first, X), ValueFunction) == []
    wanted = [
        "model",
        "players",
        "link",
        "data",
        "notes",
        "fingerprint",
        "prepare",
        "evaluate",
        "cost",
    ]
    assert abilities.lacking(object(), ValueFunction) == wanted


def test_work_is_what_a_value_function_and_a_design_say():
    value = ConditionalRegression(first, X, RBF(), Nystrom(10))
    design = replace(designs.kernelshap(14, 200), budgets=(100, 200))
    work = abilities.Work.of(value, design)
    assert work.learns
    assert not work.streams
    assert not work.is_closed_form
    assert work.sample_size == value.sample_size
    assert work.info == design.info
    assert work.cost(4, 9) == value.cost(4, 9)
    assert work.stage_coalitions == (100, 200)
    assert work.pilot_coalitions == work.held_coalitions == 0
