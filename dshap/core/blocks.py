"""Blocks: coalitions of a design, rows of a table, attributions of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dshap.core.records import BoolArray, FloatArray

__all__ = [
    "EMPTY",
    "FULL",
    "N_ENDS",
    "REASONS",
    "ROUNDING",
    "Attribution",
    "CoalitionBlock",
    "DesignInfo",
    "Groups",
    "RowBlock",
    "Scored",
    "Status",
    "jackknife_errors",
    "relative_errors",
]

EMPTY = 0
FULL = 1
N_ENDS = 2
"""Every design lists the empty coalition first and the full one second; proper coalitions begin at
`N_ENDS`.  Their values are v(empty) and v(N), taken from the model in float64, so a value function
is never asked for them."""


class Groups(NamedTuple):
    """Entries of the jackknife groups of a design: a value enters the sum of one group, of several,
    or of none."""

    coalition: NDArray[np.intp]
    """(e,): position in the block."""
    group: NDArray[np.int16]
    """(e,): 0 to R - 1."""
    score: FloatArray
    """(e, c): what the value is multiplied with in the sum of this group, c the `group_columns` of
    the design."""

    @classmethod
    def none(cls, n_columns: int) -> Groups:
        """No entry."""
        return cls(np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros((0, n_columns)))

    def parts(self) -> list[tuple[int, NDArray[np.intp], FloatArray]]:
        """(group, positions, scores) of every group that has entries here."""
        entries = ((int(g), self.group == g) for g in np.unique(self.group))
        return [(g, self.coalition[chosen], self.score[chosen]) for g, chosen in entries]


class CoalitionBlock(NamedTuple):
    """Coalitions start..stop of a design."""

    masks: BoolArray
    """(m, d): player i is present in coalition j."""
    score: FloatArray
    """(m, d): what the value of each coalition is multiplied with."""
    groups: Groups
    """What enters the sums of the jackknife groups."""


@dataclass(frozen=True)
class DesignInfo:
    """What is known of a design before any value is."""

    n_players: int
    """d"""
    n_coalitions: int
    """m: distinct coalitions, the empty and the full one counted."""
    n_replicates: int
    """R: groups of the standard errors, 0 where there is no sampling error or none is asked for."""
    group_columns: int
    """c: columns of a group's sum; d, or less where the errors of the players go together."""
    is_efficient: bool = True
    """phi.sum(1) + base == prediction holds by construction."""
    why_no_errors: str = ""
    """Why all standard errors are NaN (too few coalitions); empty where they are not."""
    seed: int = 0
    """0 too where nothing is drawn."""
    kept_bytes: int = 0
    """What a process keeps, and needs at most, to make blocks and replicates."""
    coalition_bytes: int = 0
    """Of each coalition of a block beside that; 0: of a mask, of scores, and of scores in a group
    or two."""

    n_units: int = 0
    """Independent draws that coalitions come from, where these are fewer, as of orders; 0: each
    coalition is one."""
    drawn: tuple[bool, ...] = ()
    """(d,): players whose attributions have an error of sampling; empty: all of them."""

    has_graph: bool = False
    """Coalitions follow a graph whose nodes are the players: none can be left out, and a size is
    not drawn evenly."""

    @property
    def is_whole(self) -> bool:
        """Every coalition is listed."""
        return self.n_coalitions >= 1 << self.n_players

    @property
    def unmet(self) -> float:
        """The largest share, with 95 %, of what no coalition met: 3/m by the rule of three; 0 where
        all are there."""
        if self.is_whole or not self.n_replicates or self.why_no_errors:
            return 0.0
        return 3.0 / (self.n_units or self.n_coalitions)

    def block_bytes(self, m: int) -> int:
        """Peak bytes of a block of m coalitions and of taking its groups apart, `kept_bytes`
        counted."""
        if self.n_replicates:
            of_groups = 8 * self.group_columns + 26 * self.n_replicates
        else:
            of_groups = 0
        return self.kept_bytes + m * (self.coalition_bytes or 9 * self.n_players + of_groups)


Scored = Callable[[FloatArray, int], tuple[FloatArray, FloatArray | None]]
"""rows (n, columns), rows of a micro-block -> Σ_S v_S(x) score_S (n, d, k), and predictions (n, k)
or None."""


class Status:
    """CF flag values of `status (instance)`: the honest story of NaN while a cube grows."""

    PENDING = 0
    OK = 1
    SKIPPED = 2
    FAILED = 3
    MEANINGS = ("pending", "ok", "skipped", "failed")


REASONS = "reasons"
"""The entry of sums over a part of the coalitions that says why rows failed: (n,) text, empty for
the others."""
FILL: Mapping[str, int] = {"status": Status.FAILED, "n_coalitions": 0, "classes": -1}
"""The entries of the arrays of an `Attribution` for a row that failed, where they are not NaN."""


@dataclass(frozen=True)
class Attribution:
    """Attributions of n instances, in the order of the rows."""

    phi: FloatArray
    """(n, d, k)"""
    base: FloatArray
    """(k,): v(empty), the mean prediction over the background; (n, k) where the link makes it
    differ."""
    prediction: FloatArray
    """(n, k): v(N)."""
    status: NDArray[np.int8]
    """(n,): see `Status`."""
    replicates: FloatArray | None = None
    """(R, n, d, k): phi_(g) of `Design.replicates`; None where the design gives none."""

    n_coalitions: NDArray[np.int32] | None = None
    """(n,): coalitions that a row took; None where all rows take all."""

    interaction: FloatArray | None = None
    """(n, d, d, k): half the Shapley interaction index beside the diagonal, main effects on it;
    rows sum to phi."""

    classes: NDArray[np.int16] | None = None
    """(n,): the class that a row is explained for, where the link takes the predicted one."""

    stated: Mapping[str, Sequence[float] | float] = field(default_factory=dict)
    """name -> numbers that these rows show; the cube states the largest of all tiles."""

    reasons: Mapping[int, str] = field(default_factory=dict)
    """position of a row whose status is failed -> why; it has no attribution (NaN)."""

    @property
    def is_ok(self) -> BoolArray:
        """(n,): rows that have an attribution."""
        return self.status == Status.OK

    @property
    def good(self) -> Attribution:
        """The rows that have an attribution."""
        is_ok = self.is_ok
        if is_ok.all():
            return self
        kept: dict[str, Any] = {
            name: np.compress(is_ok, array, axis) for name, array, axis in self._by_row()
        }
        return replace(self, **kept, reasons={})

    def placed(self, n: int, at: NDArray[np.intp], reasons: Mapping[int, str]) -> Attribution:
        """These rows at the positions `at` of n rows; the others failed, for the `reasons` given by
        position."""
        if len(at) == n:
            return self
        placed: dict[str, Any] = {
            name: _placed(array, n, at, axis, FILL.get(name, np.nan))
            for name, array, axis in self._by_row()
        }
        own = {int(at[i]): reason for i, reason in self.reasons.items()}
        return replace(self, **placed, reasons={**own, **reasons})

    def _by_row(self) -> list[tuple[str, NDArray[Any], int]]:
        """(field, its array, the axis of the rows) of all that is there."""
        axes = dict.fromkeys(
            ("phi", "prediction", "status", "n_coalitions", "interaction", "classes"), 0
        )
        axes["replicates"] = 1
        if self.base.ndim == 2:
            axes["base"] = 0
        arrays = ((name, getattr(self, name), axis) for name, axis in axes.items())
        return [each for each in arrays if each[1] is not None]

    @property
    def relative_error(self) -> FloatArray | None:
        """(n, k): the largest std_error of a player over the range of the attributions; NaN where
        errors are."""
        errors = self.std_error
        if errors is None:
            return None
        return relative_errors(self.phi, errors, self.base, self.prediction)

    @cached_property
    def std_error(self) -> FloatArray | None:
        """(n, d, k), in the units of phi."""
        if self.replicates is None:
            return None
        return jackknife_errors(self.phi, self.replicates)


def _placed(
    values: NDArray[Any], n: int, at: NDArray[np.intp], axis: int, fill: float
) -> NDArray[Any]:
    """Values at the positions `at` of n along an axis, `fill` elsewhere."""
    shape = (*values.shape[:axis], n, *values.shape[axis + 1 :])
    out = np.full(shape, fill, values.dtype)
    out[(slice(None),) * axis + (at,)] = values
    return out


def jackknife_errors(estimate: FloatArray, replicates: FloatArray) -> FloatArray:
    """√Σ_g (x_(g) − x)² of x (…) and x_(g) (R, …), one group after the other: all their differences
    fill no cache."""
    total = np.zeros(estimate.shape)
    for replicate in replicates:
        total += np.square(replicate - estimate)
    return np.sqrt(total)


ROUNDING = 1e-12
"""Of the values of the two ends: a smaller standard error is none."""


def relative_errors(
    phi: FloatArray, std_error: FloatArray, v_empty: FloatArray, v_full: FloatArray
) -> FloatArray:
    """max over players of std_error over the range of φ, both (n, d, k): (n, k); 0 where the error
    is rounding.

    The range of noisy φ̂ is larger than that of φ: of max φ̂ − min φ̂ the part √(1 − mean
    std_error²/var φ̂) counts, so that the ratio is infinite where nothing but noise tells the
    players apart.
    """
    largest = std_error.max(axis=1)
    spread = phi.var(axis=1)
    largest = np.where(largest <= ROUNDING * (np.abs(v_empty) + np.abs(v_full)), 0.0, largest)
    noise = np.square(std_error).mean(axis=1)
    signal = np.divide(
        np.maximum(spread - noise, 0.0), spread, out=np.zeros_like(spread), where=spread > 0
    )
    span = np.ptp(phi, axis=1) * np.sqrt(signal)
    ratio: FloatArray = np.divide(
        largest, span, out=np.where(largest == 0, 0.0, np.inf), where=span > 0
    )
    return np.where(np.isnan(largest), np.nan, ratio)


@dataclass(frozen=True)
class RowBlock:
    """Consecutive rows of a table, as the tasks read them."""

    start: int
    """Position of the first row in the table."""
    x: FloatArray
    """(n, columns) float64: the feature columns in the order of `RowReader.feature_names`."""
    is_ok: BoolArray
    """(n,): False where a feature holds NaN or infinity and `missing` is not "pass"."""
    keys: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """key column -> (n,): int64, datetime64[ns] or StringDType."""
    target: FloatArray | None = None
    """(n,) or (n, k), only where asked for."""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """feature column -> (n,) in its own dtype, only where asked for."""
    predictions: FloatArray | None = None
    """f (good rows, k), only where asked for."""
    null_keys: Mapping[str, BoolArray] = field(default_factory=dict)
    """key column -> (n,) True where the table holds no key; columns without such rows are left
    out."""

    @property
    def stop(self) -> int:
        return self.start + len(self.x)

    @property
    def positions(self) -> NDArray[np.int64]:
        """(n,): of the rows in the table."""
        return self.start + np.arange(len(self.x))

    @property
    def targets(self) -> FloatArray:
        """`target`, which was asked for."""
        if self.target is None:
            raise ValueError("the reader was opened without a target")
        return np.asarray(self.target)

    @property
    def good(self) -> FloatArray:
        """The rows (n, columns) that are ok."""
        return self.x[self.is_ok]
