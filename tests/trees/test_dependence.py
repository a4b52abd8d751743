"""Partial dependence of parsed trees: against means over the background, and scikit-learn's own."""

from __future__ import annotations

import numpy as np
import pytest

from dshap.trees.exact import ExactTrees
from dshap.values import Trees
from tests.trees.brute import interventional, path_dependent
from tests.trees.test_exact import KINDS, PLAYERS, chain, counted


@pytest.mark.parametrize("grouping", PLAYERS)
@pytest.mark.parametrize(
    "kind", ["xgboost", "xgboost deep", "xgboost codes", "lightgbm codes", "forest of classes"]
)
def test_values_of_one_player(kind, grouping):
    """v({j}), by its definition, with and without a background."""
    model, x = KINDS[kind]()
    trees, player_of = Trees(model).model.trees, PLAYERS[grouping]
    for background in (None, x[:50]):
        exact = ExactTrees.of(trees, player_of, counted(trees, player_of, background))
        for player in range(int(player_of.max()) + 1):
            found = exact.dependence(x[60:63], player)
            for row, margins in zip(x[60:63], found, strict=True):
                present = frozenset([player])
                if background is None:
                    wanted = path_dependent(trees, row, present, player_of)
                else:
                    wanted = interventional(trees, row, present, player_of, background)
                np.testing.assert_allclose(margins, wanted, rtol=1e-11, atol=1e-12)


def test_deep_trees_against_few_rows():
    rng = np.random.default_rng(0)
    ensemble, _ = chain(20, rng)
    rows, background = rng.normal(size=(3, 20)), rng.normal(size=(30, 20))
    player_of = np.arange(20)
    exact = ExactTrees.of(ensemble, player_of, counted(ensemble, player_of, background))
    for player in (0, 7, 19):
        mixed = np.where(player_of == player, rows[:, None], background)
        wanted = ensemble.margins(mixed.reshape(-1, 20)).reshape(3, 30).mean(axis=1)
        np.testing.assert_allclose(exact.dependence(rows, player)[:, 0], wanted, atol=1e-13)


@pytest.mark.parametrize("method", ["brute", "recursion"])
def test_the_curves_of_scikit_learn(method):
    """Its brute force over the background, and its recursion by training weights."""
    inspection = pytest.importorskip("sklearn.inspection", reason="scikit-learn is not installed")
    model, x = KINDS["boosting"]()
    trees, player_of = Trees(model).model.trees, np.arange(x.shape[1])
    background = x[:200]
    grid = np.linspace(-2, 2, 41)
    wanted = inspection.partial_dependence(
        model, background, [1], custom_values={1: grid}, method=method, kind="average"
    )["average"][0]
    rows = np.zeros((len(grid), x.shape[1]))
    rows[:, 1] = grid
    given = background if method == "brute" else None
    found = ExactTrees.of(trees, player_of, counted(trees, player_of, given)).dependence(rows, 1)
    shift = trees.base[0] * (method == "recursion")  # which scikit-learn leaves out
    np.testing.assert_allclose(found[:, 0] - shift, wanted, atol=1e-12)
