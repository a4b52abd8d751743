"""All coalitions of a parsed tree ensemble, one after the other: what its exact values must equal."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from dshap.core.records import FloatArray
from dshap.trees.ensemble import TreeEnsemble


def goes_left(ensemble: TreeEnsemble, codes: FloatArray, node: int) -> bool:
    """Whether a coded row (C,) goes left at a node."""
    own = ensemble.decisions
    code = codes[own.code[node]]
    if own.set_of[node] >= 0:
        return bool(own.sets[own.set_of[node], code])
    if code == np.iinfo(codes.dtype).max:
        return bool(ensemble.missing_left[node])
    return bool(code <= own.place[node])


def path_dependent(
    ensemble: TreeEnsemble, row: FloatArray, present: frozenset[int], player_of: FloatArray
) -> FloatArray:
    """v(S) (k,): absent players go both ways, by the training weight."""
    codes = ensemble.decisions.columns.codes(row[None])[:, 0]
    total = ensemble.base.copy()

    def below(node: int) -> FloatArray:
        if ensemble.column[node] < 0:
            return ensemble.values[node]
        left, right = node + 1, int(ensemble.right[node])
        if int(player_of[ensemble.column[node]]) in present:
            return below(left if goes_left(ensemble, codes, node) else right)
        weights = ensemble.weight
        # no row of the fit came to a node without weight: both branches count alike
        shares = weights[[left, right]] / weights[node] if weights[node] > 0 else (0.5, 0.5)
        return shares[0] * below(left) + shares[1] * below(right)

    for tree, output in enumerate(ensemble.output):
        found = below(int(ensemble.first[tree]))
        total[output : output + len(found)] += found
    return total


def interventional(
    ensemble: TreeEnsemble,
    row: FloatArray,
    present: frozenset[int],
    player_of: FloatArray,
    background: FloatArray,
    weights: FloatArray | None = None,
) -> FloatArray:
    """v(S) (k,): the mean margin of background rows with the row's values put in."""
    mixed = np.where(np.isin(player_of, list(present)), row, background)
    return np.average(ensemble.margins(mixed), axis=0, weights=weights)


def shapley(values, n_players: int) -> FloatArray:
    """φ (d, k) of a game S -> v(S) (k,)."""
    v = {s: values(s) for s in _subsets(range(n_players))}
    d = n_players
    return np.stack(
        [
            sum(
                (v[s | {j}] - v[s]) / (d * math.comb(d - 1, len(s)))
                for s in _subsets(set(range(d)) - {j})
            )
            for j in range(d)
        ]
    )


def shapley_pairs(values, n_players: int) -> FloatArray:
    """Shapley interaction indices (pairs, k) of i < j."""
    v = {s: values(s) for s in _subsets(range(n_players))}
    d = n_players
    return np.stack(
        [
            sum(
                (v[s | {i, j}] - v[s | {i}] - v[s | {j}] + v[s])
                / ((d - 1) * math.comb(d - 2, len(s)))
                for s in _subsets(set(range(d)) - {i, j})
            )
            for i, j in combinations(range(d), 2)
        ]
    )


def _subsets(players) -> list[frozenset[int]]:
    players = sorted(players)
    return [frozenset(s) for n in range(len(players) + 1) for s in combinations(players, n)]
