"""Methods of players with neighbours: L-Shapley and C-Shapley, with the players outside absent, and
present."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy.sparse

import dshap
from dshap.blocks import N_ENDS, CoalitionBlock
from dshap.designs import ConnectedRegressionDesign, Graph, chain
from dshap.designs.coalitions import coalition_spans
from dshap.designs.shapley_kernel import normal_matrix
from dshap.records import FloatArray
from workflows.experiments.comparison import PRESENT, Method

__all__ = [
    "REGRESSIONS",
    "FreeRegression",
    "FreeRemovalRegression",
    "RemovalRegression",
    "local_methods",
    "regression_methods",
    "ring",
]

REGRESSION = "C-Shapley, regression"


@dataclass(frozen=True)
class FreeRegression(ConnectedRegressionDesign):
    """`connected_regression` as the paper writes it, without a constraint: phi = (ZᵀΩZ)⁻¹ ZᵀΩ (v −
    v(∅)).

    What it leaves of v(N) − v(∅) is given to nobody.  The constraint gives it to players that few
    of the runs or squares hold: those at the ends of a chain, and at the border of a grid.
    """

    kind = "free_regression"

    @property
    def is_efficient(self) -> bool:
        """Nothing is constrained."""
        return False

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """phi (n, d, k) from sums ZᵀΩv (n, d, k) and v(∅) (n, k)."""
        inverse, offsets = _solved(self.graph, self.order, self.weights)
        return np.asarray(inverse @ (sums - offsets[:, None] * np.asarray(v_empty)[..., None, :]))


@lru_cache(maxsize=8)
def _solved(
    graph: Graph, order: int | None, weights: Literal["uniform", "kernel"]
) -> tuple[FloatArray, FloatArray]:
    """(ZᵀΩZ)⁻¹ (d, d) and ZᵀΩ1 (d,)."""
    plain = dshap.designs.connected_regression(graph, order, weights=weights)
    matrix = normal_matrix(
        plain.block(*span) for span in coalition_spans(plain.n_coalitions, plain.n_players)
    )
    offsets = matrix.diagonal().copy()
    # a single player is in nothing but an end
    return np.linalg.inv(matrix + np.diag(offsets == 0)), offsets


class Removals:
    """Of a regression that looks at what removing leaves: its runs or squares S are absent, all
    others present.

    phi minimises Σ_S w(S) (v(N) − v(N ∖ S) − Σ_{i∈S} φ_i)².
    """

    def block(self, start: int, stop: int) -> CoalitionBlock:
        """N ∖ S in the place of S, with −ΩZ, Z the masks of S; the two ends stay."""
        found, is_proper = super().block(start, stop), np.arange(start, stop) >= N_ENDS  # type: ignore[misc]
        return found._replace(masks=found.masks ^ is_proper[:, None], score=-found.score)

    def finish(self, sums: FloatArray, v_empty: FloatArray, v_full: FloatArray) -> FloatArray:
        """The regression of the game S -> v(N) − v(N ∖ S): its ends are 0 and v(N) − v(∅)."""
        return super().finish(sums, -v_full, -v_empty)  # type: ignore[misc, no-any-return]


@dataclass(frozen=True)
class RemovalRegression(Removals, ConnectedRegressionDesign):
    """With the constraint Σφ = v(N) − v(∅)."""

    kind = "removal_regression"


@dataclass(frozen=True)
class FreeRemovalRegression(Removals, FreeRegression):
    """Without it."""

    kind = "free_removal_regression"


REGRESSIONS: Mapping[str, Any] = {
    REGRESSION: dshap.designs.connected_regression,
    f"{REGRESSION}, free": FreeRegression,
    f"{REGRESSION}{PRESENT}": RemovalRegression,
    f"{REGRESSION}, free{PRESENT}": FreeRemovalRegression,
}
"""Name -> design of a graph and an order."""


def regression_methods(value: Any, graph: Graph, order: int) -> dict[str, Method]:
    """C-Shapley by regression, with both weights, and without its constraint.

    With the weights of the kernel the constraint changes no ranking: attributions are v({i}) and a
    constant.  All of one convention have the same coalitions: give a value function that keeps what
    they are worth.
    """
    found = {name: Method(value, make(graph, order)) for name, make in REGRESSIONS.items()}
    for end in ("", PRESENT):
        design = REGRESSIONS[REGRESSION + end](graph, order, weights="kernel")
        found[f"{REGRESSION} by kernel weights{end}"] = Method(value, design)
    return found


def local_methods(
    value: Any, graph: Graph, around: Mapping[str, Any] | None = None
) -> dict[str, Method]:
    """L-Shapley and C-Shapley of order 1 with both coefficients; `around` replaces designs by their
    names."""
    local, connected = dshap.designs.local, dshap.designs.connected
    found: dict[str, Any] = {}
    for where, outside in {"": "absent", PRESENT: "present"}.items():
        found[f"L-Shapley{where}"] = local(graph, 1, outside=outside)
        for coefficients in ("paper", "boundary"):
            name = f"C-Shapley, {coefficients}{where}"
            found[name] = connected(graph, 1, coefficients=coefficients, outside=outside)
    return {name: Method(value, design) for name, design in (found | dict(around or {})).items()}


def ring(d: int) -> Any:
    """The adjacency (d, d) of a chain whose ends are neighbours, as the published code has it; a
    chain up to two."""
    if d < 3:
        return chain(d)
    i = np.arange(d)
    beside = scipy.sparse.coo_array((np.ones(d), (i, (i + 1) % d)), shape=(d, d)).tocsr()
    return beside + beside.T
