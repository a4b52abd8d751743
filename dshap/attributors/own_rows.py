"""Permutation designs with a background row for each pair of orders, in place of a fixed background.

φ is a mean over pairs of an order and its reversal.  Each pair walks from its own row b_p of the
background to the row x, so that the pairs are independent draws of both orders and rows, and their
jackknife measures both errors.  A pair costs 2 (d − 1) predictions, however large the background.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from dshap.attributors.calibration import Calibration, KnownMeans
from dshap.attributors.contraction import reasons_of, with_reasons
from dshap.attributors.failing import Spared, bad_rows, kept_rows
from dshap.attributors.game import OF_COALITION, Found, Instances, RowsLeft, check_additivity
from dshap.attributors.learning import BaseAndColumns
from dshap.attributors.method import Facts, Method, instance_fields
from dshap.attributors.states import States
from dshap.attributors.tiling import Tiling
from dshap.attributors.unmet import ranges_of, with_floor
from dshap.core.blocks import EMPTY, FULL, N_ENDS, Attribution, DesignInfo
from dshap.core.capabilities import Work
from dshap.core.errors import InputError
from dshap.core.printing import counted
from dshap.core.records import JSON, BoolArray, Cost, FloatArray, Moments, State
from dshap.core.rows import spans
from dshap.core.types import RowReader, replaced
from dshap.designs.coalitions import stream
from dshap.designs.permutation import PermutationDesign, replicates_without
from dshap.values.marginal import Marginal

PART_PREDICTIONS = 1_000
"""The fewest predictions for a row that a task makes which shares the pairs with others.

A part more costs 0.3 ms of a core, to be stored and added.
"""
PAIRING = 0x726F7773
"""Position in the stream of a seed at which the drawn rows are dealt to the pairs."""


FEW_ROWS = 1_000
"""Backgrounds in memory of fewer rows are averaged whole for every coalition.

With 50 pairs, 20 columns and 100 rows, a row for each pair needs 1,900 predictions for an error of
6 (boosted trees) to 7.5 % (a network), all rows need 190,000 for 1.1 %.  The error for equal
predictions is about the same; a user who gives few rows expects their mean.
"""


def why_all_rows(value: Marginal, design: PermutationDesign) -> str:
    """Why a design averages over all background rows for every coalition; empty if it does not."""
    n_pairs = design.n_units
    of_pairs = f"{counted(n_pairs, 'pair')} of orders"
    if value.background is None:
        n_rows = math.inf
    else:
        n_rows = len(value.background)
    reasons = (
        (design.n_players == 1, "the game has one player"),
        (not value.link.is_identity, "the link applies to the mean over the rows"),
        (value.data_weights is not None, "the rows have weights"),
        (value.draws is not None, "std_error includes the error of a sample of rows"),
        (not design.n_replicates, "the design has n_replicates=0, and so no standard errors"),
        (bool(design.why_no_errors), f"{of_pairs}: too few for standard errors"),
        (n_rows < FEW_ROWS, f"the background has fewer than {FEW_ROWS:,} rows"),
        (n_rows <= n_pairs, f"{of_pairs} need more than {n_rows:,} rows"),
    )
    return next((why for applies, why in reasons if applies), "")


@dataclass(frozen=True)
class PairedRows:
    """A background row for each unit of a permutation design: a pair of orders, or one order."""

    value: Marginal
    design: PermutationDesign
    state: State | None = None
    """`rows` (P, columns) and their `prediction` (P, k); None until they are drawn."""

    @property
    def sample_size(self) -> int:
        """The number of rows that are drawn from the background, without replacement."""
        return self.design.n_units

    def choose(self, sample: FloatArray) -> State:
        """Deal the sample (n, columns) to the pairs at random; a short one is dealt in turn.

        Raises
        ------
        InputError
            There is no row in the sample.
        """
        if not len(sample):
            raise InputError(
                f"each of {self.design.n_units:,} pairs of orders takes a background row, and none "
                "of those drawn is free of NaN and infinity: clean the background"
            )
        # at random: the sample is in the order of the table, whose neighbouring rows may be alike,
        # and each jackknife group takes every R-th pair
        dealt = stream(self.design.seed, PAIRING).permutation(len(sample))
        rows = sample[dealt[np.arange(self.design.n_units) % len(sample)]]
        return State({"rows": rows, "prediction": self.value.model(rows)})

    def chosen(self, choice: State) -> Self:
        return replace(self, state=choice)

    @property
    def drawn(self) -> State:
        """The rows of the pairs; an InputError if they are not drawn yet."""
        if self.state is None:
            raise InputError("the rows of the pairs are not drawn yet: call chosen(choose(sample))")
        return self.state

    @property
    def kept(self) -> BoolArray:
        """(1 + R, P): all pairs, then those that are in each jackknife group left out."""
        pairs = np.arange(self.design.n_units)
        groups = np.arange(self.design.n_replicates)
        without = pairs % self.design.n_replicates != groups[:, None]
        return np.concatenate([np.ones((1, len(pairs)), dtype=bool), without])

    def calibration(self, total: Moments) -> Calibration:
        """Calibrate the pairs to the means over the whole background, from the sums over it."""
        means = {name: total[name] / total["count"] for name in ("columns", "prediction")}
        drawn = self.drawn
        known = KnownMeans(
            drawn["rows"], drawn["prediction"], means["columns"], means["prediction"]
        )
        return known.calibration(self.kept)

    @property
    def mixes(self) -> int:
        """The number of predictions for a row and a pair: proper prefixes of the orders."""
        orders = self.design.n_permutations // self.design.n_units
        return orders * (self.design.n_players - 1)

    def contributions(self, rows: FloatArray, prediction: FloatArray, span: slice) -> FloatArray:
        """Contributions (n, p, d, k) of a span of pairs, each the mean over its orders.

        `prediction` (n, k) is f(x) of the rows (n, columns).
        """
        value = self.value
        drawn = self.drawn
        rank = self.design.orders[span].argsort(axis=2)  # (p, orders, d): positions of players
        p, n_orders, d = rank.shape
        n = len(rows)
        k = prediction.shape[1]
        masks = rank[:, :, None] < np.arange(1, d)[:, None]  # (p, orders, d − 1, d)
        columns = value.players.columns(masks.reshape(-1, d)).reshape(1, p, self.mixes, -1)
        mixed = np.where(columns, rows[:, None, None], drawn["rows"][span][None, :, None])
        values = np.empty((n, p, n_orders, d + 1, k))
        values[:, :, :, 0] = drawn["prediction"][span][None, :, None]
        values[:, :, :, 1:-1] = value.model(mixed.reshape(-1, rows.shape[1])).reshape(
            n, p, n_orders, d - 1, k
        )
        values[:, :, :, -1] = prediction[:, None, None]
        steps = np.diff(values, axis=3)  # by position in the order
        return np.take_along_axis(steps, rank[None, ..., None], axis=3).mean(axis=2)

    def cost(self, n: int = 1) -> Cost:
        """Bytes of mixed rows, values and model calls; the model's operations are unknown."""
        model = self.value.model
        k = self.value.n_outputs
        design = self.design
        together = min(model.buffer_rows, n * design.n_units * self.mixes)
        mixed = max(together, self.mixes) * (10 * model.n_columns + 8 * 4 * k)
        state = 8 * design.n_units * (model.n_columns + k + k * (1 + design.n_replicates))
        sums = 8 * n * (1 + design.n_replicates) * design.n_players * k
        return Cost(
            state_bytes=0,
            prepare_bytes=0,
            task_bytes=mixed + model.predict_bytes(together) + 3 * sums + 2 * state,
            operations=math.inf,
            predictions=float(n) * design.n_units * self.mixes,
        )

    def fingerprint(self) -> dict[str, JSON]:
        """The value function, and the design that the rows are drawn for."""
        return {**self.value.fingerprint(), "own_rows": self.design.fingerprint()}


@dataclass(kw_only=True)
class OwnRowsAttributor(Instances):
    """Sums of contributions of pairs, each against its own background row.

    Tasks that share the rows of a tile sum a part of the pairs each.
    """

    pairs: PairedRows
    parts: tuple[tuple[int, int], ...]
    """For each part, the range [start, stop) of the pairs that one task sums."""

    @property
    def n_parts(self) -> int:
        return len(self.parts)

    def attribute(self, rows: FloatArray) -> Attribution:
        started = self.started(rows)
        parts = (self.part(started.rows_of(rows), index) for index in range(self.n_parts))
        return self._finished(*_added(parts), started)

    def part(self, rows: FloatArray, index: int) -> Moments:
        """Weighted contributions `whole` (n, 1 + R, d, k) of one part of the pairs for these rows.

        Rows that fail are NaN and have a reason.
        """
        design = self.pairs.design
        shape = (1 + design.n_replicates, design.n_players, self.n_outputs)
        sums = np.zeros((len(rows), *shape))
        spared = Spared(rows)
        weighted = partial(self._weighted, self.parts[index])
        for micro in self.micro_blocks(rows):
            sums[micro] = spared(weighted, micro, shape)
        failed = {**bad_rows(sums, OF_COALITION), **spared.failed}
        return with_reasons(Moments({"whole": sums}), failed, len(rows))

    def attribute_parts(self, rows: FloatArray, parts: Iterable[Moments]) -> Attribution:
        sums, failed = _added(parts)
        started = self.started(rows)
        positions = started.positions.tolist()
        of_left = {i: failed[at] for i, at in enumerate(positions) if at in failed}
        return self._finished(started.rows_of(sums), of_left, started)

    def _finished(
        self, sums: FloatArray, failed: Mapping[int, str], started: RowsLeft
    ) -> Attribution:
        """The record of all rows, from the sums (left, 1 + R, d, k) of those left in `started`.

        `failed` are rows among these that failed since; they are left out.
        """
        sums = sums[kept_rows(len(sums), failed)]
        started = started.without(failed)
        found = self._floored(self._found(sums), started)
        check_additivity(found.phi, started.ends[:, EMPTY], started.ends[:, FULL])
        of_left = self.attribution(found, started.prediction, started.ends)
        return of_left.placed(started.n, started.positions, started.failed)

    @property
    def calibration(self) -> Calibration:
        """The weights of the pairs, computed once."""
        if "calibration" not in self.cache:
            self.cache["calibration"] = self.pairs.calibration(self._total)
        found: Calibration = self.cache["calibration"]
        return found

    @property
    def _total(self) -> Moments:
        """The sums over the whole background."""
        total: Moments = self.store.get(self.base_name, Moments)
        return total

    def _weighted(self, of_part: tuple[int, int], rows: FloatArray) -> FloatArray:
        """Weighted contributions (n, 1 + R, d, k) of a part, in blocks of rows and pairs.

        The sizes follow from the plan, so that sums have the same bits on every worker.
        """
        pairs = self.pairs
        weights = self.calibration.weights
        prediction = self.value.model(rows)
        buffer = pairs.value.model.buffer_rows
        n_rows = max(1, min(self.micro_rows, buffer // pairs.mixes))
        n_pairs = max(1, buffer // (n_rows * pairs.mixes))
        out = np.zeros((len(rows), weights.shape[1], pairs.design.n_players, prediction.shape[1]))
        for first, last in spans(*of_part, n_pairs):
            for start, stop in spans(0, len(rows), n_rows):
                of_pairs = pairs.contributions(
                    rows[start:stop], prediction[start:stop], slice(first, last)
                )
                for output, weight in enumerate(weights):
                    out[start:stop, ..., output] += weight[:, first:last] @ of_pairs[..., output]
        return out

    def _found(self, sums: FloatArray) -> Found:
        """Attributions and replicates from the weighted contributions (n, 1 + R, d, k).

        A mean that the weights did not reach is shared by all players, and added to their errors.
        """
        rest = self.calibration.rest  # (1 + R, k)
        d = sums.shape[2]
        shared = np.moveaxis(sums + rest[:, None] / d, 1, 0)
        replicates = replicates_without(shared[0], shared[1:])
        replicates[0] += np.abs(rest[0])
        return Found(shared[0], replicates)

    def _floored(self, found: Found, started: RowsLeft) -> Found:
        """Apply the error floor of rows whose values have not varied: see `with_floor`."""
        known = self._total
        assert found.replicates is not None
        ranges = ranges_of(
            self.value.link,
            known["least"],
            known["largest"],
            self.base(),
            started.prediction,
            started.ends,
        )
        unmet = self.pairs.design.info.unmet
        return replace(
            found, replicates=with_floor(found.phi, found.replicates, started.ends, ranges, unmet)
        )


def _added(parts: Iterable[Moments]) -> tuple[FloatArray, dict[int, str]]:
    """The sums (n, 1 + R, d, k) of all parts, and the failure reasons by position of the row."""
    sums: FloatArray | float = 0.0
    failed = dict[int, str]()
    for part in parts:
        sums = sums + part["whole"]
        failed = {**reasons_of(part), **failed}
    return np.asarray(sums), failed


@dataclass(frozen=True)
class OwnRows(Method):
    """A permutation design of a `Marginal` in which each pair of orders has its own background row."""

    listed: Method
    """The method of the same design against all rows of the background."""
    pairs: PairedRows

    @classmethod
    def of(cls, listed: Method, design: PermutationDesign) -> OwnRows:
        """The method of a value function, from that with the same design against all rows."""
        pairs = PairedRows(listed.value, design)
        why = (
            f"{listed.why}, with a background row for each of {design.n_units:,} pairs of orders: "
            f"{design.n_units * pairs.mixes:,} predictions a row"
        )
        return cls(listed.value, listed, pairs, why=why)

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.listed.kinds

    @property
    def called(self) -> str:
        return self.listed.called

    @property
    def info(self) -> DesignInfo:
        # no list of coalitions is cut into tiles: the plan counts predictions instead
        return replace(self.pairs.design.info, n_coalitions=N_ENDS)

    @property
    def why_errors(self) -> str:
        return "includes the error of the background rows that the pairs of orders drew"

    @property
    def learner(self) -> PairedRows:
        return self.pairs

    @property
    def sample_seed(self) -> int:
        return self.pairs.design.seed

    @property
    def is_base_by_row(self) -> bool:
        return False

    def about_data(self, data: RowReader | None) -> tuple[tuple[str, str], ...]:
        """The line of a plan about a background that has fewer rows than there are pairs."""
        n_pairs = self.pairs.design.n_units
        if data is None or data.n_rows >= n_pairs:
            return ()
        why = (
            f"{data.n_rows:,} rows are fewer than {n_pairs:,} pairs of orders, and are assigned to "
            "the pairs in turn"
        )
        return (("background", why),)

    def fingerprint(self) -> dict[str, JSON]:
        return {**self.pairs.design.fingerprint(), "background_rows": "own"}

    def with_value(self, value: Any) -> Self:
        return replace(
            self,
            value=value,
            listed=self.listed.with_value(value),
            pairs=replace(self.pairs, value=value),
        )

    def with_players(self, n_players: int) -> Self:
        design: Any = self.pairs.design.with_players(n_players)
        return replace(
            self,
            listed=self.listed.with_players(n_players),
            pairs=replace(self.pairs, design=design),
        )

    def with_choice(self, choice: State) -> Self:
        return replace(self, pairs=self.pairs.chosen(choice))

    def of_noisy_model(self) -> Any:
        """The method of the same design against all rows of the background."""
        return self.listed.of_noisy_model()

    def measurable(self) -> Any:
        return self.listed.measurable()

    def work(self) -> Work:
        """As for a closed form; tasks may share the pairs."""
        n_predictions = self.pairs.design.n_units * self.pairs.mixes
        return replace(super().work(), shares=max(1, n_predictions // PART_PREDICTIONS))

    def base_pass(self, tiling: Tiling) -> BaseAndColumns:
        return BaseAndColumns(None)

    def attributor(self, states: States, tiling: Tiling) -> OwnRowsAttributor:
        value = replaced(self.value, data=None, background=None)
        pairs = replace(self.pairs, value=value)
        n_pairs = pairs.design.n_units
        cuts = [n_pairs * g // tiling.coalition_groups for g in range(tiling.coalition_groups + 1)]
        return OwnRowsAttributor(
            pairs=pairs,
            parts=tuple(itertools.pairwise(cuts)),
            **instance_fields(states, tiling, value),
        )

    @staticmethod
    def facts(attributor: Any) -> Facts:
        return Facts(attributor.base_value())
