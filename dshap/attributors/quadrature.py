"""Interventional Shapley values of product models in closed form, by Gauss–Legendre quadrature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dshap import loops
from dshap.attributors.closed_form import Checked, ClosedForm
from dshap.attributors.nodes import (
    node_count,
    player_angles,
    player_factors,
    reference_nodes,
    rest_angle,
    rest_factor,
)
from dshap.core.records import BoolArray, Cost, FloatArray, Moments, State
from dshap.predictors.expansion import Expansion
from dshap.values.background import herd
from dshap.values.interventional import KernelInterventional
from dshap.values.subset_table import SubsetTable

CANDIDATES = 4_000
"""Size of the sample of the data that the background rows are chosen from."""
PLANNED_NODES = 6
"""Nodes that the plan assumes; the true number is known only when the rows are there.

With 32 to 64 players, 4 nodes are enough for an error of 1e-6 with real kernels, 9 to 14 with Fourier
features.
"""
N_TRIALS = 256
"""Number of (coalition, row) pairs to fit the background to, and of those to test it on.

On the pairs that it was fitted to, the measured error would be up to 2.6 times too small.
"""
TRIAL_SEED = 0
"""Seed of the pairs that the background is fitted to."""
FRESH_SEED = 1
"""Seed of the fresh pairs that its error is measured on."""
SUM_ROWS = 256
CHECKED_SHARE = 128
"""One row in this many of a tile is checked against more nodes, for each of two reasons."""
MAX_CHECKED = 32
"""The most rows of a tile checked for each reason: farthest rows, and largest additivity gaps.

On 256 rows of 32 columns 2 + 2 rows included the largest error in 11 of 12 cases.
"""
COUNT_ROWS = 3
"""Further rows, evenly spaced, that the number of nodes is chosen on."""
COUNT_BACKGROUND = 8
"""Background rows used to choose the number of nodes; fewer average less, which is safe."""
SAFETY = 3.0
"""The stated error is the largest measured one times this, as not all rows are measured."""
ROUNDING = 2.0 * np.finfo(float).eps
"""Relative rounding error of a sum of factors, in units of Σ_r |A_r|."""


@dataclass(frozen=True, eq=False)
class RealPart:
    """An expansion with real factors, and the function of its product games."""

    expansion: Expansion

    @staticmethod
    def of(expansion: Expansion) -> RealPart:
        """The part for real factors, or for complex Fourier factors."""
        return (FourierPart if np.iscomplexobj(expansion.coefficients) else RealPart)(expansion)

    @property
    def game(self) -> Callable[..., FloatArray]:
        """The function of these factors."""
        return loops.product_game_values

    def factors(self, rows: FloatArray, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Factors of the players (d, n, r) and of the columns of no player (n, r)."""
        factors = self.expansion.factors(rows)
        return player_factors(factors, members), rest_factor(factors, members)


@dataclass(frozen=True, eq=False)
class KnownBackground:
    """A background with the results that no row to explain changes."""

    rows: FloatArray
    """(b, columns)"""
    factors: tuple[tuple[FloatArray, FloatArray], ...]
    """`RealPart.factors` of all rows."""
    off: FloatArray
    """(k,): the largest difference of the expansion to the model's predictions, on some rows."""

    def some_factors(self, part: int) -> tuple[FloatArray, FloatArray]:
        """The factors of some rows, on which the number of nodes is chosen."""
        players, rest = self.factors[part]
        some = _spread_positions(len(self.rows), COUNT_BACKGROUND)
        return players[:, some], rest[some]


class FourierPart(RealPart):
    """An expansion with complex factors of modulus 1, given by their angles."""

    @property
    def game(self) -> Callable[..., FloatArray]:
        return loops.fourier_game_values

    def factors(self, rows: FloatArray, members: BoolArray) -> tuple[FloatArray, FloatArray]:
        frequencies: FloatArray = self.expansion.term_frequencies  # type: ignore[attr-defined]
        return player_angles(rows, frequencies, members), rest_angle(rows, frequencies, members)


@dataclass(frozen=True, eq=False)
class Quadrature(ClosedForm):
    """Closed form for product models, by Gauss–Legendre nodes.

    φ_i = mean_b Σ_r A_r (a_i − c_i) ∫₀¹ Π_{j≠i} (t a_j + (1 − t) c_j) dt, where a_i and c_i are the
    factors of player i for the row and for background row b.  This is `KernelInterventional` with
    design="quadrature".

    The background consists of n_background rows that herding chooses from 4,000 rows of the data,
    such that v_S(x) is near its value over *all* rows for 256 pairs of a coalition and a row.  The
    cube's attribute `closed_form` has the root mean square of the remaining error, the error of the
    base value and the error of the nodes.  With the whole background no error remains.

    The number of nodes is chosen for every tile of rows, on pairs of its rows and background rows.
    `checked` then measures the error of the farthest rows of the tile, and of those with the largest
    additivity gap.  If it is above the tolerance, the tile is computed again with more nodes.  The
    stated error is `SAFETY` times the largest difference of these rows to values with at least twice
    as many nodes, plus rounding.
    """

    value: KernelInterventional
    candidates: FloatArray | None = None
    made: dict[str, KnownBackground] = field(default_factory=dict, init=False, repr=False)
    """The background of the last state, not sent to workers."""

    kind = "quadrature"
    is_only = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "made": {}}

    @property
    def coalitions(self) -> KernelInterventional:
        """The value function itself, over all rows of the background."""
        return self.value

    @property
    def _expansion(self) -> Expansion:
        return self.value.expansion

    @property
    def _d(self) -> int:
        return len(self.value.players)

    @cached_property
    def _parts(self) -> tuple[RealPart, ...]:
        """The parts of the expansion, each with all factors real or all of modulus 1."""
        return tuple(map(RealPart.of, self._expansion.parts))

    def _known(self, background: FloatArray) -> KnownBackground:
        """The background of a state with its factors, computed once for many calls."""
        known = self.made.get("background")
        if known is None or known.rows is not background:
            members = self.value.players.members
            factors = tuple(part.factors(background, members) for part in self._parts)
            off = self._off(_spread(background, COUNT_BACKGROUND))
            known = KnownBackground(background, factors, off)
            self.made["background"] = known
        return known

    def _off(self, rows: FloatArray) -> FloatArray:
        """(k,): the largest difference of the expansion to the model's predictions."""
        sums = self._expansion.factors(rows).prod(axis=0) @ self._expansion.coefficients  # (n, k)
        gap = np.abs(self._expansion.intercept + sums.real - self.value.model(rows))
        return np.asarray(gap.max(axis=0, initial=0.0))

    @property
    def sample_size(self) -> int:
        if self.candidates is None:
            return CANDIDATES
        return 0

    def choose(self, sample: FloatArray) -> State:
        """`candidates` (n, columns): the sample that the background rows are chosen from."""
        return State({"candidates": sample})

    def chosen(self, choice: State) -> Self:
        """A copy with these candidates."""
        return replace(self, candidates=choice["candidates"])

    def _trials(self, seed: int) -> tuple[BoolArray, FloatArray]:
        """Random coalitions of columns (t, columns) and rows (t, columns) to judge a background by.

        The sizes 0 to d − 1 come equally often, and a coalition is drawn uniformly among those of
        its size; the first one is empty.
        """
        assert self.candidates is not None
        rng = np.random.default_rng(seed)
        d = self._d
        order = rng.random((N_TRIALS, d)).argsort(axis=1)
        # never all d players: v(N) = f(x) whatever the background is
        masks = order < (np.arange(N_TRIALS) % d)[:, None]
        return self.value.players.columns(masks), self.candidates[
            rng.integers(0, len(self.candidates), N_TRIALS)
        ]

    def _all_trials(self) -> tuple[BoolArray, FloatArray]:
        """Trials to choose the background for, then fresh ones to measure it on (2t, columns)."""
        columns, rows = zip(self._trials(TRIAL_SEED), self._trials(FRESH_SEED), strict=True)
        return np.concatenate(columns), np.concatenate(rows)

    def moments(self, rows: FloatArray) -> Moments:
        """`complement` (2t, r): Σ_b of products over the columns absent in a trial; `count`."""
        columns, _ = self._all_trials()
        expansion = self._expansion
        sums = loops.subset_sums(
            expansion, ~columns, rows, expansion.size, expansion.coefficients.dtype
        )
        return Moments({"complement": sums, "count": np.array(float(len(rows)))})

    def prepare(self, moments: Moments) -> State:
        """Make `background` (b, columns), `base` (k,), `unit` (k,), and the stated errors."""
        assert self.candidates is not None
        columns, rows = self._all_trials()
        present = np.stack(
            [
                self._expansion.factors(x[None])[members, 0].prod(axis=0)
                for members, x in zip(columns, rows, strict=True)
            ]
        )
        table = present[:, None, :] * self._expansion.coefficients.T  # (2t, k, r)
        mean = moments["complement"] / moments["count"]
        # (2t, k) v_S(x), less the intercept, over all rows
        wanted = (table * mean[:, None, :]).sum(axis=2).real
        predictions = self.value.model(self.candidates)
        unit = np.where(predictions.std(axis=0) > 0.0, predictions.std(axis=0), 1.0)
        # the first trials choose the background, the fresh ones measure its error
        alone = self._alone(columns[:N_TRIALS], table[:N_TRIALS], self.candidates)
        features = (alone / unit).reshape(len(alone), -1)
        target = (wanted[:N_TRIALS] / unit).ravel()
        kept = np.sort(herd(features, target, min(self.value.n_background, len(features))))
        background = self.candidates[kept]
        # (t, k)
        fresh = (
            self._alone(columns[N_TRIALS:], table[N_TRIALS:], background).mean(axis=0)
            - wanted[N_TRIALS:]
        )
        return State(
            {
                "background": background,
                "value_error": np.array(np.sqrt(np.mean(np.square(fresh / unit)))),
                "base_error": np.abs(alone[kept, 0].mean(axis=0) - wanted[0]),
                "base": predictions[kept].mean(axis=0),
                "unit": predictions.std(axis=0),
            }
        )

    def _alone(self, columns: BoolArray, table: FloatArray, rows: FloatArray) -> FloatArray:
        """v_S(x) (b, t, k) of trials with one background row each, less the intercept."""
        trials = SubsetTable(self._expansion, ~columns, table, np.zeros(self.value.n_outputs))
        blocks = range(0, len(rows), SUM_ROWS)
        return np.concatenate([trials.values(rows[start : start + SUM_ROWS]) for start in blocks])

    def settled(self, state: State, rows: FloatArray, prediction: FloatArray) -> State:
        """The state with `nodes` (parts,), `far` (c,) and `unit` (k,) for these rows.

        The number of nodes is chosen on pairs of some of these rows and some rows of the
        background; `far` are the positions of the rows farthest from the background.
        """
        unit = self._unit(state, prediction)
        background = state["background"]
        far = _largest(_distances(rows, background), _n_checked(len(rows), 1))
        some = np.concatenate([rows[far], _spread(rows, COUNT_ROWS)])
        known = self._known(background)
        others = [known.some_factors(part) for part in range(len(self._parts))]
        nodes = self._counted(some, others, unit, [1] * len(self._parts))
        return State({**state.arrays, "nodes": nodes, "far": far, "unit": unit})

    def _unit(self, state: State, prediction: FloatArray) -> FloatArray:
        """(k,): the unit of errors, from the spread of the predictions.

        The larger of the standard deviation over the background and the root mean square distance
        of the predictions from the base value.
        """
        if len(prediction):
            distance = np.sqrt(np.mean(np.square(prediction - state["base"]), axis=0))
        else:
            distance = np.zeros(1)
        # never 0, because errors are divided by it; if a model is constant here, they are rounding
        least = 1e-9 * self._weight
        return np.maximum(np.maximum(state["unit"], distance), np.where(least > 0.0, least, 1.0))

    @property
    def _weight(self) -> FloatArray:
        """(k,): Σ_r |A_r|."""
        return np.asarray(np.abs(self._expansion.coefficients).sum(axis=0))

    def _counted(
        self,
        rows: FloatArray,
        background: Sequence[tuple[FloatArray, FloatArray]],
        unit: FloatArray,
        least: Sequence[int],
    ) -> NDArray[np.int64]:
        """Number of nodes (parts,), from `least` on, for an error within the tolerance.

        `background` are the factors of background rows, for each part.
        """
        # the errors of the parts add up
        tolerance = self.value.tolerance / len(self._parts)
        members = self.value.players.members
        nodes = []
        for part, (c, rest), lowest in zip(self._parts, background, least, strict=True):
            x, _ = part.factors(rows, members)
            weights = part.expansion.coefficients
            count = node_count(
                part.game, x, c, weights, tolerance, unit=unit, rest=rest, least=int(lowest)
            )
            nodes.append(count.nodes)
        return np.array(nodes)

    def phi(self, state: State, rows: FloatArray) -> FloatArray:
        """φ (n, d, k) of rows (n, columns)."""
        return self._values(rows, state["background"], state["nodes"])

    def _values(
        self, rows: FloatArray, background: FloatArray, nodes: NDArray[np.int64]
    ) -> FloatArray:
        """φ (n, d, k) with the given number of nodes (parts,) for each part."""
        phi = np.zeros((len(rows), self._d, self.value.n_outputs))
        known = self._known(background).factors
        for part, (c, rest), q in zip(self._parts, known, nodes, strict=True):
            x, _ = part.factors(rows, self.value.players.members)
            phi += part.game(x, c, part.expansion.coefficients, int(q), rest=rest)
        return phi

    def checked(self, state: State, rows: FloatArray, phi: FloatArray, gap: FloatArray) -> Checked:
        """Compare the farthest rows, and the worst additivity gaps, to values of more nodes.

        If the difference is above the tolerance the state comes back with more nodes, chosen on
        these rows.
        """
        if not len(rows):
            return Checked(np.zeros(self.value.n_outputs), {})
        exact = loops.exact_nodes(self._d)
        unit = state["unit"]
        nodes = state["nodes"]
        error = np.zeros(self.value.n_outputs)
        if (nodes < exact).any():
            missing = _largest((np.abs(gap) / unit).max(axis=1), _n_checked(len(rows), 2))
            chosen = np.union1d(state["far"], missing)
            more = np.array([reference_nodes(self._d, int(q)) for q in nodes])
            reference = self._values(rows[chosen], state["background"], more)
            error = np.abs(reference - phi[chosen]).max(axis=(0, 1))  # (k,)
            if (error / unit).max() > self.value.tolerance:
                others = self._known(state["background"]).factors
                # at least one node more, so that each repetition is more accurate
                nodes = self._counted(rows[chosen], others, unit, np.minimum(nodes + 1, exact))
                return Checked(error, {}, State({**state.arrays, "nodes": nodes}))
        error = SAFETY * (error + self._rounding(rows, gap, state["background"]))
        stated: dict[str, Sequence[float] | float] = {
            "nodes": [int(q) for q in nodes],
            "node_error": error.tolist(),
            "node_error_in_standard_deviations": float((error / unit).max()),
        }
        # `error` is that of one attribution, and additivity sums d of them
        return Checked(self._d * error, stated)

    def _rounding(self, rows: FloatArray, gap: FloatArray, background: FloatArray) -> FloatArray:
        """The rounding error (k,) of sums of factors.

        Also counts the difference to the model's predictions, where angles of many turns lose
        digits.
        """
        worst = _largest(np.abs(gap).max(axis=1, initial=0.0), COUNT_BACKGROUND)
        off = np.maximum(self._off(rows[worst]), self._known(background).off)
        return np.asarray(ROUNDING * self._weight + off)

    def describe(self) -> str:
        """One line on how it computes."""
        return (
            f"quadrature with {self.value.n_background:,} rows of the background, chosen by "
            f"herding, and enough nodes for an error of {self.value.tolerance:g} standard "
            "deviations"
        )

    def stated_error(self, state: State) -> dict[str, Any]:
        """Errors and sizes of the closed form for the cube."""
        return {
            "kind": "quadrature",
            "background_rows": len(state["background"]),
            "value_error_in_standard_deviations": float(state["value_error"]),
            "base_value_error": [float(error) for error in state["base_error"]],
        }

    def cost(self, n: int = 1) -> Cost:
        """Bytes and operations for n rows.

        The candidates count as sent and as read; `prepare` needs their values (twice), their
        predictions and the trials' table; a micro-block needs factors of rows and background by
        player, those of the larger of them by column too with copies, and the loop's memory; at
        least the rows that are checked.
        """
        c = self.value.n_columns
        k = self.value.n_outputs
        d = self._d
        b = self.value.n_background
        r = self._expansion.size
        item = self._expansion.coefficients.dtype.itemsize
        state = 8 * b * c + 1_024
        moments = 2 * item * N_TRIALS * r + 8
        is_fourier = item == 16
        trials = 4 * 8 * CANDIDATES * N_TRIALS * k + 4 * item * N_TRIALS * r * k
        block = SubsetTable.task_bytes(SUM_ROWS, N_TRIALS, k, r, c, item)
        rows = max(n, 2 * MAX_CHECKED)
        factors = item * r * (d * (rows + b) + (3 * c - d + 4) * max(rows, b))
        sent = 16 * CANDIDATES * c
        return Cost(
            state_bytes=state,
            prepare_bytes=sent + trials + block + 2 * state,
            task_bytes=sent
            + factors
            + loops.product_game_bytes(rows, b, r, d, k, is_fourier=is_fourier),
            operations=loops.product_game_operations(
                n, b, r, d, PLANNED_NODES, is_fourier=is_fourier
            ),
            moment_bytes=moments,
            moment_task_bytes=sent + loops.subset_sum_bytes(n, c, 2 * N_TRIALS, r, item) + moments,
            moment_operations=item / 4.0 * n * r * (2 * N_TRIALS + 8 * c),
        )

    def fingerprint(self) -> dict[str, Any]:
        value = self.value
        kind, *rest = value.fingerprint().items()
        options = {"n_background": value.n_background, "tolerance": value.tolerance}
        return {**dict([kind]), "closed_form": "quadrature", **dict(rest), **options}


def _spread(rows: FloatArray, size: int) -> FloatArray:
    """At most `size` of the rows, evenly spaced."""
    return rows[_spread_positions(len(rows), size)]


def _spread_positions(n: int, size: int) -> NDArray[np.int64]:
    """At most `size` of n positions, evenly spaced."""
    return np.linspace(0, n - 1, min(size, n)).round().astype(int)


def _largest(values: FloatArray, size: int) -> NDArray[np.intp]:
    """Positions of the largest values, the first among equals; NaN counts as the largest."""
    return np.argsort(-np.nan_to_num(values, nan=np.inf), kind="stable")[:size]


def _n_checked(n: int, least: int) -> int:
    """Number of rows of a tile of n that are checked for one reason, at least `least`."""
    return min(n, MAX_CHECKED, max(least, n // CHECKED_SHARE))


def _distances(rows: FloatArray, background: FloatArray) -> FloatArray:
    """(n,): squared distances from the mean of the background.

    Columns are scaled by their standard deviation over rows and background together.
    """
    # squares of values beyond 1e154 overflow: their distance is NaN, which counts as farthest
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.concatenate([rows, background]).std(axis=0)
    return np.asarray(
        np.square((rows - background.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)).sum(
            axis=1
        )
    )
