"""Interventional Shapley values of product models in closed form, for more players than a table of coalitions holds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from dshap.types import BoolArray, FloatArray, Moments, State
from dshap.values.kernel_value import Expansion, KernelValue
from dshap.values.product_games import (
    fourier_game_values,
    node_count,
    player_factors,
    product_game_bytes,
    product_game_operations,
    product_game_values,
    rest_factor,
)
from dshap.values.subset_sums import subset_sum_bytes, subset_sums
from dshap.values.subset_table import SubsetTable
from dshap.values.thinning import herd

__all__ = ["ProductQuadrature"]

CANDIDATES = 4_000
"""Background rows that the chosen ones are among."""
PLANNED_NODES = 6
"""Nodes that a plan counts with, before they are counted."""
N_TRIALS = 256
"""Pairs of a coalition and a row whose values the kept background is chosen for."""
TRIAL_SEED = 0
NODE_ROWS = 64
"""Rows and background rows that the sample of the node count is drawn from."""
SUM_ROWS = 256


class ProductQuadrature(KernelValue):
    """φ_i = mean_b Σ_r A_r (a_i − c_i) ∫₀¹ Π_{j≠i} (t a_j + (1 − t) c_j) dt, by Gauss–Legendre nodes.

    What `KernelInterventional` is with design="quadrature": a closed form, no coalition is listed.  The background is
    n_background rows that herding chooses from 4,000 of its rows, so that v_S(x) is near that over *all* rows for 256
    pairs of a coalition and a row; the root mean square of what is left, the error of the base value and that of the
    nodes are stated in the cube's attribute `closed_form`.  With the whole background kept nothing is left.

    Parameters
    ----------
    model, data, players, output_names : as in `KernelInterventional`
    n_background : int
        Rows that are kept; all where the background has no more.
    tolerance : float
        Largest error of an attribution by the number of nodes, in standard deviations of the model's predictions,
        measured on a sample against the exact number ⌈d/2⌉.
    """

    is_closed_form = True
    n_replicates = 0

    def __init__(self, model: Any, data: Any, n_background: int, tolerance: float, **options: Any) -> None:
        super().__init__(model, data, **options)
        self.n_background, self.tolerance = n_background, tolerance
        self.candidates: FloatArray | None = None

    def closed_form(self) -> Self:
        return self

    def base(self, mean: FloatArray, state: Callable[[], State]) -> FloatArray:
        """What the attributions and the prediction differ by."""
        return state()["base"]

    @property
    def _parts(self) -> tuple[Expansion, ...]:
        """Expansions whose factors are all real or all of modulus 1."""
        return tuple(getattr(self.model, "expansions", (self.model,)))

    @property
    def sample_size(self) -> int:  # type: ignore[override]
        return CANDIDATES if self.candidates is None else 0

    def choose(self, sample: FloatArray) -> State:
        """`candidates` (n, columns): rows of the background that the chosen ones are among."""
        return State({"candidates": sample})

    def chosen(self, choice: State) -> Self:
        """A copy that holds these candidates."""
        resolved = copy.copy(self)
        resolved.candidates = choice["candidates"]
        return resolved

    def _trials(self) -> tuple[BoolArray, FloatArray]:
        """Coalitions of columns (t, columns) and rows (t, columns): the values v_S(x) that the background is judged by.

        The first coalition is empty; the others are of a size drawn uniformly, then drawn among those of that size.
        """
        assert self.candidates is not None
        rng, d = np.random.default_rng(TRIAL_SEED), self.n_players
        order = rng.random((N_TRIALS, d)).argsort(axis=1)
        masks = order < rng.integers(0, d, N_TRIALS)[:, None]
        masks[0] = False
        return self.players.columns(masks), self.candidates[rng.integers(0, len(self.candidates), N_TRIALS)]

    def moments(self, masks: BoolArray, rows: FloatArray, predictions: FloatArray | None = None) -> Moments:
        """`complement` (t, r): Σ_b of the products over the columns that the trials' coalitions leave out; `count`."""
        columns, _ = self._trials()
        sums = subset_sums(self.model, ~columns, rows, self._r, self.model.coefficients.dtype)
        return Moments({"complement": sums, "count": np.array(float(len(rows)))})

    def prepare(self, masks: BoolArray, moments: Moments | None = None) -> State:
        """`background` (b, columns), `nodes` of each part, `base` (k,), and the stated errors."""
        assert moments is not None and self.candidates is not None
        columns, rows = self._trials()
        present = np.stack(
            [self.model.factors(x[None])[own, 0].prod(axis=0) for own, x in zip(columns, rows, strict=True)]
        )
        table = present[:, None, :] * self.model.coefficients.T  # (t, k, r)
        mean = moments["complement"] / moments["count"]
        wanted = (table * mean[:, None, :]).sum(axis=2).real  # (t, k) v_S(x), less the intercept, over all rows
        trials = SubsetTable(self.model, ~columns, table, np.zeros(self.n_outputs))
        blocks = range(0, len(self.candidates), SUM_ROWS)
        alone = np.concatenate([trials.values(self.candidates[start : start + SUM_ROWS]) for start in blocks])
        predictions = self.predict(self.candidates)
        unit = np.where(predictions.std(axis=0) > 0.0, predictions.std(axis=0), 1.0)
        features, target = (alone / unit).reshape(len(alone), -1), (wanted / unit).ravel()
        kept = np.sort(herd(features, target, min(self.n_background, len(features))))
        gap = (alone[kept].mean(axis=0) - wanted) / unit  # (t, k)
        background = self.candidates[kept]
        counts = [self._nodes(part, background, unit) for part in self._parts]
        return State(
            {
                "background": background,
                "nodes": np.array([count for count, _ in counts]),
                "node_error": np.array(max(error for _, error in counts)),
                "value_error": np.array(np.sqrt(np.mean(np.square(gap)))),
                "base_error": np.abs(gap[0] * unit),
                "base": predictions[kept].mean(axis=0),
                "unit": unit,
            }
        )

    def _nodes(self, part: Expansion, background: FloatArray, unit: FloatArray) -> tuple[int, float]:
        assert self.candidates is not None
        members = self.players.members
        x, own = _factors(part, self.candidates[:NODE_ROWS], members), _factors(part, background[:NODE_ROWS], members)
        tolerance = self.tolerance / len(self._parts)
        count = node_count(_game(part), x[0], own[0], part.coefficients, tolerance, unit=unit, rest=own[1])
        return count.nodes, count.error

    def attribute(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k) of rows (n, columns)."""
        phi = np.zeros((len(rows), self.n_players, self.n_outputs))
        for part, nodes in zip(self._parts, state["nodes"], strict=True):
            x, _ = _factors(part, rows, self.players.members)
            background, rest = _factors(part, state["background"], self.players.members)
            phi += _game(part)(x, background, part.coefficients, int(nodes), rest=rest)
        return phi

    def replicates(self, state: State, rows: FloatArray) -> FloatArray:
        """None: (0, n, d, k)."""
        return np.zeros((0, len(rows), self.n_players, self.n_outputs))

    def describe_form(self) -> str:
        """What it is made with, in a line."""
        return (
            f"quadrature with {self.n_background:,} rows of the background, chosen by herding, and as many nodes as an "
            f"error of {self.tolerance:g} standard deviations takes"
        )

    def stated_error(self, state: State) -> dict[str, Any]:
        """What the closed form leaves open, for people and for the cube."""
        return {
            "kind": "quadrature",
            "background_rows": len(state["background"]),
            "nodes": [int(nodes) for nodes in state["nodes"]],
            "node_error_in_standard_deviations": float(state["node_error"]),
            "value_error_in_standard_deviations": float(state["value_error"]),
            "base_value_error": [float(error) for error in state["base_error"]],
        }

    def evaluate(self, state: State, rows: FloatArray) -> FloatArray:
        """No coalition is listed: (n, 0, k)."""
        return np.empty((len(rows), 0, self.n_outputs))

    def state_bytes(self, m: int) -> int:
        return 8 * self.n_background * self.n_columns + 1_024

    def moment_bytes(self, m: int) -> int:
        return self._item * N_TRIALS * self._r + 8

    def prepare_bytes(self, m: int) -> int:
        """Values of the candidates (twice), their predictions, the trials' table, and the count of nodes."""
        values = 4 * 8 * CANDIDATES * N_TRIALS * self.n_outputs
        table = 2 * self._item * N_TRIALS * self._r * self.n_outputs
        nodes = self.task_bytes(NODE_ROWS, m) + 4 * self._item * NODE_ROWS * self._r * self.n_columns
        block = SubsetTable.task_bytes(SUM_ROWS, N_TRIALS, self.n_outputs, self._r, self.n_columns, self._item)
        return values + table + max(nodes, block) + 2 * self.state_bytes(m)

    def moment_task_bytes(self, n: int, m: int) -> int:
        return subset_sum_bytes(n, self.n_columns, N_TRIALS, self._r, self._item) + self.moment_bytes(m)

    def task_bytes(self, n: int, m: int) -> int:
        """Factors of rows and background by columns and by players, and the loop."""
        is_fourier = self._item == 16
        factors = 2 * self._item * (n + self.n_background) * self._r * (self.n_columns + 2)
        game = product_game_bytes(n, self.n_background, self._r, self.n_players, self.n_outputs, is_fourier=is_fourier)
        return factors + game

    def moment_operations(self, n: int, m: int) -> float:
        return self._item / 4.0 * n * self._r * (N_TRIALS + 8 * self.n_columns)

    def operations(self, n: int, m: int) -> float:
        return product_game_operations(
            n, self.n_background, self._r, self.n_players, PLANNED_NODES, is_fourier=self._item == 16
        )

    def fingerprint(self) -> dict[str, Any]:
        return {
            "value": "kernel_interventional",
            "closed_form": "quadrature",
            "model": self.model.digest(),
            "players": self.players.fingerprint(),
            "n_background": self.n_background,
            "tolerance": self.tolerance,
        }


def _game(part: Expansion) -> Callable[..., FloatArray]:
    return fourier_game_values if np.iscomplexobj(part.coefficients) else product_game_values


def _factors(part: Expansion, rows: FloatArray, members: BoolArray) -> tuple[FloatArray, FloatArray]:
    """What the game wants of the players (d, n, r), and of the columns of no player (n, r): factors, or angles."""
    factors = part.factors(rows)
    own, rest = player_factors(factors, members), rest_factor(factors, members)
    return (np.angle(own), np.angle(rest)) if np.iscomplexobj(factors) else (own, rest)
